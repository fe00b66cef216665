//! The calls that the ids in the queue need, against the quota. Pure.
//!
//! **Demand.** An id in a lane is looked up once per patience of that lane, so a lane's ids cost ids ÷ patience updates. [`Fill`]
//! calculates how many of them a call carries: full requests under load, short ones below about 20 updates per second, fuller ones with
//! lookahead. Short requests fill up before calls run out. So the demand never exceeds a quota that carries full requests.
//!
//! **Supply.** A credential has limit ÷ window length. A refused one has none. One that is out of quota for a while does count, since it
//! has used up its share.
//!
//! Claims take the ids first that are latest relative to their patience. With a demand of x times the supply, every bracket's interval
//! becomes x times as long.

use std::fmt;

use serde::Serialize;

use crate::base::humanize::figure;
use crate::engine::queue::LaneStats;
use crate::engine::schedule::Schedule;
use crate::engine::schedule::adaptive::grid::updates_per_patience;
use crate::ops::report::plan::{self, CallLimits, Fill, Flow, TWITTER_CALLS};
use crate::pipelines::kind::Words;
use crate::quota::CredentialStatus;

/// Ratio of demand to quota from which the demand counts as above the quota. A smaller ratio is shown as 1.00 or less.
const OVER: f64 = 1.005;

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Overload {
    pub demand_calls_per_15_min: f64,
    /// Calls of the usable credentials whose quota is known.
    pub supply_calls_per_15_min: f64,
    /// Demand ÷ supply; `None` if the supply is unknown, unlimited or zero.
    pub demand_by_quota: Option<f64>,
    /// Credentials that are not refused;
    pub usable: usize,
    /// those with a quota that is unknown until the first API response,
    pub unknown: usize,
    /// and those without a quota.
    pub unmetered: usize,
    /// False if no quota is needed: then no credential is, either.
    pub is_metered: bool,
    pub remedy: Option<Remedy>,
}

/// Each field alone brings the demand down to the quota.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Remedy {
    /// This many more app-only credentials,
    pub app_credentials: u64,
    /// this many more credentials of users,
    pub user_credentials: u64,
    /// or intervals longer by this factor,
    pub intervals: f64,
    /// by these settings.
    #[serde(skip)]
    pub settings: &'static str,
}

impl Overload {
    /// Items per second that the quota leaves for other lookups with `limit` items per call: at least a tenth of the quota. `None` if the
    /// quota has no limit, or a part of it is unknown.
    #[must_use]
    pub fn left_for_others(&self, limit: usize) -> Option<f64> {
        if self.unmetered > 0 || self.unknown > 0 || self.usable == 0 {
            return None;
        }
        let supply = self.supply_calls_per_15_min;
        let calls = (supply - self.demand_calls_per_15_min).max(supply / 10.0);
        Some(calls * limit.max(1) as f64 / plan::WINDOW_S)
    }

    /// The load of these [lasting] lanes on the credentials.
    #[must_use]
    pub fn new(lanes: &[LaneStats], accounts: &[CredentialStatus], fill: Fill) -> Self {
        let flow = |lane: &LaneStats| {
            let interval_s = lane.patience_ms.max(1) as f64 / 1e3;
            Flow { rate: updates_per_s(lane), interval_s, visits: 1.0 }
        };
        let flows: Vec<Flow> = lanes.iter().map(flow).collect();
        let usable: Vec<&CredentialStatus> = accounts.iter().filter(|account| !account.parked_everywhere).collect();
        let calls = |account: &&CredentialStatus| account.calls_per_s().map(|calls| calls * plan::WINDOW_S);
        let known: Vec<f64> = usable.iter().filter_map(calls).collect();
        let unmetered = usable.iter().filter(|account| account.unmetered).count();
        let unknown = usable.len() - unmetered - known.len();
        let supply = known.iter().sum::<f64>();
        let bounded = unmetered == 0 && supply > 0.0;
        let demand = fill.calls_per_window(&flows, bounded.then_some(supply));
        let supplied = Self {
            demand_calls_per_15_min: 0.0,
            supply_calls_per_15_min: supply,
            demand_by_quota: None,
            usable: usable.len(),
            unknown,
            unmetered,
            is_metered: fill.is_metered,
            remedy: None,
        };
        supplied.with_demand(demand, TWITTER_CALLS)
    }

    /// Replaces the demand by that of lists. A further credential is assumed to have as many calls as the others.
    #[must_use]
    pub fn of_lists(self, calls_per_15_min: f64) -> Self {
        let known = self.usable.saturating_sub(self.unknown + self.unmetered).max(1);
        let each = (self.supply_calls_per_15_min / known as f64).max(1.0) as u32;
        self.with_demand(calls_per_15_min, CallLimits { user: each, app: each }).with_words(Words::LISTS)
    }

    /// Returns this capacity for another demand; `each` is the calls per window of a further credential.
    fn with_demand(self, demand: f64, each: CallLimits) -> Self {
        let Self { supply_calls_per_15_min: supply, unknown, unmetered, .. } = self;
        let ratio = (unmetered == 0 && supply > 0.0).then(|| demand / supply);
        let remedy = ratio.filter(|ratio| *ratio >= OVER && unknown == 0).map(|ratio| Remedy {
            // Windows are stated in whole seconds: an excess too small to be seen is no excess.
            app_credentials: plan::needed(demand / OVER - supply, each.app),
            user_credentials: plan::needed(demand / OVER - supply, each.user),
            intervals: (ratio / OVER * 100.0).ceil() / 100.0,
            settings: Words::POSTS.intervals,
        });
        Self { demand_calls_per_15_min: demand, demand_by_quota: ratio, remedy, ..self }
    }
}

impl Overload {
    /// Names the settings of items with these words in the remedy.
    #[must_use]
    pub fn with_words(self, words: Words) -> Self {
        Self { remedy: self.remedy.map(|remedy| Remedy { settings: words.intervals, ..remedy }), ..self }
    }
}

/// The lanes whose items come again. Items pass through the other lanes, which therefore state no demand.
#[must_use]
pub fn lasting(lanes: &[LaneStats], schedule: &dyn Schedule) -> Vec<LaneStats> {
    lanes.iter().filter(|lane| !schedule.is_passing(&lane.lane)).cloned().collect()
}

fn updates_per_s(lane: &LaneStats) -> f64 {
    lane.delayed as f64 * updates_per_patience(&lane.lane) * 1e3 / lane.patience_ms.max(1) as f64
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Busiest {
    pub up_to: String,
    /// Their share of all items, 0 to 1.
    pub posts: f64,
    /// Their share of the updates, 0 to 1: a half, or more if one lane has more.
    pub updates: f64,
    #[serde(skip)]
    pub many: &'static str,
}

impl Busiest {
    /// Takes the [lasting] lanes whose ids are looked up most often, until they have half of all updates. `None` if that takes all items:
    /// no item is known to be busier than the others.
    #[must_use]
    pub fn of(lanes: &[LaneStats], words: Words) -> Option<Self> {
        let held = lanes.iter().filter(|lane| lane.delayed > 0);
        let mut lanes: Vec<(&LaneStats, f64)> = held.map(|lane| (lane, updates_per_s(lane))).collect();
        lanes.sort_by(|(one, of_one), (other, of_other)| {
            let each = |lane: &LaneStats, updates: f64| updates / lane.delayed as f64;
            each(other, *of_other).total_cmp(&each(one, *of_one))
        });
        let (posts, updates) = lanes.iter().fold((0, 0.0), |sum, (lane, of)| (sum.0 + lane.delayed, sum.1 + of));
        let (mut posts_so_far, mut updates_so_far) = (0, 0.0);
        for (lane, of_lane) in lanes {
            posts_so_far += lane.delayed;
            updates_so_far += of_lane;
            if updates_so_far >= updates / 2.0 && posts_so_far < posts {
                let posts = posts_so_far as f64 / posts as f64;
                let (up_to, updates) = (lane.lane.clone(), updates_so_far / updates);
                return Some(Self { up_to, posts, updates, many: words.many });
            }
        }
        None
    }
}

impl fmt::Display for Busiest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let percent = |share: f64| if share < 0.001 { "below 0.1".to_owned() } else { figure(share * 100.0) };
        let (updates, posts) = (percent(self.updates), percent(self.posts));
        let Self { up_to, many, .. } = self;
        write!(f, "{updates} % of the updates go to {posts} % of the {many}: those in the lanes up to {up_to}")
    }
}

impl fmt::Display for Overload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let calls = |calls: f64| figure(if calls < 100.0 { calls } else { calls.round() });
        let demand = calls(self.demand_calls_per_15_min);
        if !self.is_metered {
            return f.write_str("none is needed: this pipeline uses no quota and no credential");
        }
        if self.usable == 0 {
            return write!(f, "no quota: no credential is usable; the demand is {demand} calls per 15 min");
        }
        if self.unmetered > 0 {
            return write!(f, "the quota has no limit; the demand is {demand} calls per 15 min");
        }
        let Some(ratio) = self.demand_by_quota else {
            return write!(
                f,
                "the quota is unknown until the first API response; the demand is {demand} calls per 15 min"
            );
        };
        let supply = calls(self.supply_calls_per_15_min);
        write!(f, "demand {ratio:.2} × quota")?;
        if self.unknown > 0 {
            write!(f, ", as far as it is known: that of {} in {} credentials is not yet", self.unknown, self.usable)?;
        }
        if let Some(remedy) = self.remedy {
            write!(f, ": all intervals grow by that factor. To fix it: {remedy}")?;
        }
        write!(f, "\n{demand} calls per 15 min are needed, {supply} are there")
    }
}

impl fmt::Display for Remedy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { app_credentials, user_credentials, intervals, settings } = *self;
        write!(
            f,
            "{} or {}, or intervals {intervals:.2} times as long ({settings})",
            more(app_credentials, "more app-only credential"),
            more(user_credentials, "user credential"),
        )
    }
}

fn more(count: u64, what: &str) -> String {
    format!("{} {what}{}", figure(count as f64), if count == 1 { "" } else { "s" })
}

#[cfg(test)]
pub(super) mod tests {
    use std::time::Duration;

    use super::*;
    use crate::engine::schedule::age::AgeTable;
    use crate::providers::lookup::{Capabilities, Charge};
    use crate::providers::twitter_v1::CAPABILITIES;

    pub fn quota(calls: f64, unmetered: usize) -> Overload {
        Overload {
            demand_calls_per_15_min: 0.0,
            supply_calls_per_15_min: calls,
            demand_by_quota: None,
            usable: 1,
            unknown: 0,
            unmetered,
            is_metered: true,
            remedy: None,
        }
    }

    #[test]
    fn lists_need_credentials_that_have_as_many_calls_as_these() {
        let short = quota(15.0, 0).of_lists(45.0);
        let says = "demand 3.00 × quota: all intervals grow by that factor. To fix it: 2 more app-only credentials or 2 \
                    user credentials, or intervals 2.99 times as long (relations.revisit)\n45 calls per 15 min are needed, \
                    15 are there";
        assert_eq!(short.to_string(), says);
        assert_eq!(quota(15.0, 0).of_lists(15.0).remedy, None);
        assert_eq!(quota(0.0, 0).of_lists(15.0).demand_by_quota, None);
    }

    fn fill(capabilities: Capabilities) -> Fill {
        Fill::of(capabilities, Duration::from_secs(5), 0.1)
    }

    fn lane(delayed: u64, patience_ms: i64) -> LaneStats {
        LaneStats { lane: patience_ms.to_string(), patience_ms, delayed, ..LaneStats::default() }
    }

    fn credential(limit: u32, window_ms: i64) -> CredentialStatus {
        CredentialStatus { limit: Some(limit), window_ms: Some(window_ms), ..CredentialStatus::default() }
    }

    const WINDOW: i64 = 900_000;

    fn says(ids: u64, accounts: &[CredentialStatus]) -> String {
        // Each id once in three minutes and once in fifteen: 6 updates per 15 minutes for two ids.
        Overload::new(&[lane(ids, WINDOW / 5), lane(ids, WINDOW)], accounts, fill(CAPABILITIES)).to_string()
    }

    #[test]
    fn demand_and_supply_are_reckoned_by_hand() {
        // 30,000 × 6 ÷ 100 = 1,800 calls; a user has 900, in windows of fifteen minutes.
        let overload = says(30_000, &[credential(900, WINDOW)]);
        assert_eq!(
            overload,
            "demand 2.00 × quota: all intervals grow by that factor. To fix it: 3 more app-only \
             credentials or 1 user credential, or intervals 2.00 times as long (tweet_age)\n1,800 calls per 15 min are \
             needed, 900 are there"
        );
        assert!(
            says(30_000, &[credential(450, WINDOW / 2), credential(300, WINDOW)])
                .starts_with("demand 1.50 × quota: all")
        );
        assert!(says(6_000, &[credential(900, WINDOW)]).starts_with("demand 0.40 × quota\n"));
        // A demand equal to the quota is covered.
        assert!(says(15_000, &[credential(900, WINDOW)]).starts_with("demand 1.00 × quota\n"));
        assert!(says(0, &[credential(900, WINDOW)]).starts_with("demand 0.00 × quota\n0 calls"));
    }

    #[test]
    fn a_lane_of_the_adaptive_schedule_needs_more_updates_than_its_patience_says() {
        let named = |name: &str| LaneStats { lane: name.to_owned(), ..lane(30_000, WINDOW) };
        let demand = |name| {
            Overload::new(&[named(name)], &[credential(900, WINDOW)], fill(CAPABILITIES)).demand_calls_per_15_min
        };
        assert!((demand("~15m") / demand("1h") - std::f64::consts::LOG2_E).abs() < 1e-9);
    }

    #[test]
    fn the_posts_with_most_updates_are_named() {
        let named =
            |name: &str, delayed, minutes: i64| LaneStats { lane: name.into(), ..lane(delayed, minutes * 60_000) };
        let lanes = [named("30d", 8_000, 1_440), named("18m", 100, 3), named("1h", 900, 10), named("first", 9, 1)];
        let ages: AgeTable = "1d: 1h".parse().unwrap();
        let busiest = Busiest::of(&lasting(&lanes, &ages), Words::POSTS).unwrap();
        assert_eq!(busiest.to_string(), "95.7 % of the updates go to 11.1 % of the posts: those in the lanes up to 1h");
        // No items, and items that are all alike.
        for nothing_to_tell in [vec![], vec![named("18m", 0, 3)], vec![named("18m", 7, 3), named("1h", 0, 10)]] {
            assert_eq!(Busiest::of(&nothing_to_tell, Words::POSTS), None);
        }
    }

    #[test]
    fn what_is_not_known_is_said_so() {
        let unmetered = CredentialStatus { unmetered: true, ..CredentialStatus::default() };
        assert!(says(30_000, &[CredentialStatus::default()]).starts_with("the quota is unknown"));
        assert!(says(30_000, &[credential(900, WINDOW), unmetered]).starts_with("the quota has no limit"));
        // The calls of the second credential may be enough: no remedy is named.
        let some = says(30_000, &[credential(900, WINDOW), CredentialStatus::default()]);
        assert!(some.starts_with("demand 2.00 × quota, as far as it is known: that of 1 in 2"), "{some}");
        assert!(!some.contains("To fix it"), "{some}");
    }

    #[test]
    fn what_is_refused_is_no_supply_and_what_is_used_up_is() {
        let parked = |everywhere| CredentialStatus {
            parked_for_ms: 9,
            parked_everywhere: everywhere,
            ..credential(900, WINDOW)
        };
        assert!(says(30_000, &[credential(900, WINDOW), parked(true)]).starts_with("demand 2.00 × quota:"));
        assert!(says(30_000, &[credential(900, WINDOW), parked(false)]).starts_with("demand 1.00 × quota\n"));
        assert!(says(30_000, &[parked(true)]).starts_with("no quota: no credential is usable"));
    }

    #[test]
    fn a_pipeline_without_a_quota_misses_none() {
        let free = Capabilities { charge: Charge::Nothing, ..CAPABILITIES };
        let overload = Overload::new(&[lane(90_000, WINDOW)], &[], fill(free));
        assert_eq!(overload.to_string(), "none is needed: this pipeline uses no quota and no credential");
        assert_eq!((overload.remedy, overload.left_for_others(16)), (None, None));
    }

    #[test]
    fn a_provider_that_counts_ids_is_asked_for_each() {
        let per_id = Capabilities { charge: Charge::PerId, ..CAPABILITIES };
        let overload = Overload::new(&[lane(90_000, WINDOW)], &[credential(900, WINDOW)], fill(per_id));
        assert_eq!(overload.demand_by_quota, Some(100.0));
        // A provider that charges for ids still counts calls.
        let per_day = Capabilities { charge: Charge::PerIdPerUtcDay, ..CAPABILITIES };
        let overload = Overload::new(&[lane(90_000, WINDOW)], &[credential(900, WINDOW)], fill(per_day));
        assert_eq!(overload.demand_by_quota, Some(1.0));
    }

    #[test]
    fn short_requests_count_and_never_exceed_a_quota_that_carries_full_ones() {
        // One id per second, each within 180 s: 1 × (5 + 18 + 1) ids per request.
        let of = |accounts: &[CredentialStatus]| Overload::new(&[lane(180, 180_000)], accounts, fill(CAPABILITIES));
        let calls = 900.0 / 24.0;
        let close = |value: f64, expected: f64| assert!((value - expected).abs() < 1e-9, "{value} and not {expected}");
        close(of(&[credential(900, WINDOW)]).demand_by_quota.unwrap(), calls / 900.0);
        close(of(&[CredentialStatus::default()]).demand_calls_per_15_min, calls);
        // 9 full requests suffice.
        close(of(&[credential(20, WINDOW)]).demand_by_quota.unwrap(), 1.0);
        assert_eq!(of(&[credential(20, WINDOW)]).remedy, None);
        close(of(&[credential(3, WINDOW)]).demand_by_quota.unwrap(), 3.0);
        assert!(of(&[credential(3, WINDOW)]).remedy.is_some());
        // Nothing is taken early where ids are charged: 1 + 5 ids per request.
        let per_day = Capabilities { charge: Charge::PerIdPerUtcDay, ..CAPABILITIES };
        let overload = Overload::new(&[lane(180, 180_000)], &[credential(900, WINDOW)], fill(per_day));
        close(overload.demand_calls_per_15_min, 150.0);
    }
}
