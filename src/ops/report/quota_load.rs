//! The load of the ids in the queue on the quota: calls needed, calls available, and the remedy. Pure.
//!
//! **Demand.** An id in a lane is looked up once per patience of that lane, so a lane's ids cost ids ÷ patience updates. [`RequestFill`]
//! calculates the ids per call: full requests under load, short ones below about 20 updates per second, fuller ones with lookahead.
//! Short requests fill up before calls run out. So the demand never exceeds a quota that carries full requests.
//!
//! **Supply.** A credential has limit ÷ window length. A rejected one has none. One that has used up its window counts.
//!
//! Workers claim the ids first that are latest relative to their patience. If the demand is x times the supply, each interval becomes x
//! times as long.

use std::fmt;

use serde::Serialize;

use crate::ops::report::plan::{CallLimits, Flow, RequestFill, TWITTER_CALLS, WINDOW_S};
use collect::pipelines::kind::ItemWords;
use engine::base::humanize::format_number;
use engine::lane::is_pass_through;
use engine::queue::LaneStats;
use engine::quota::CredentialStatus;
use engine::schedule::adaptive::grid::updates_per_patience;

/// Minimum ratio of demand to quota that counts as too high. A smaller ratio is shown as 1.00 or less.
const MIN_EXCESS_RATIO: f64 = 1.005;

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct QuotaLoad {
    pub demand_calls_per_15_min: f64,
    /// Calls of the usable credentials whose quota is known.
    pub supply_calls_per_15_min: f64,
    /// Demand ÷ supply; `None` if the supply is unknown, unlimited or zero.
    pub demand_by_quota: Option<f64>,
    /// Credentials that are not rejected.
    pub usable: usize,
    /// Usable credentials whose quota is unknown until the first API response.
    pub unknown: usize,
    /// Usable credentials without a quota.
    pub unmetered: usize,
    /// False if neither a quota nor a credential is needed.
    pub is_metered: bool,
    pub remedy: Option<Remedy>,
}

/// Each field alone brings the demand down to the quota.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Remedy {
    /// Number of additional app-only credentials.
    pub app_credentials: u64,
    pub user_credentials: u64,
    /// Factor of longer intervals.
    pub intervals: f64,
    /// Settings of the intervals.
    #[serde(skip)]
    pub settings: &'static str,
}

impl QuotaLoad {
    /// Returns the items per second left for other lookups with `limit` items per call, at least a tenth of the quota. `None` if the quota
    /// has no limit, or a part of it is unknown.
    #[must_use]
    pub fn spare_items_per_s(&self, limit: usize) -> Option<f64> {
        if self.unmetered > 0 || self.unknown > 0 || self.usable == 0 {
            return None;
        }
        let supply = self.supply_calls_per_15_min;
        let calls = (supply - self.demand_calls_per_15_min).max(supply / 10.0);
        Some(calls * limit.max(1) as f64 / WINDOW_S)
    }

    /// Calculates the load of these [`recurring_lanes`] on the credentials.
    #[must_use]
    pub fn new(lanes: &[LaneStats], accounts: &[CredentialStatus], fill: RequestFill) -> Self {
        let flow = |lane: &LaneStats| Flow::new(updates_per_s(lane), lane.patience_ms, 1.0);
        let flows: Vec<Flow> = lanes.iter().map(flow).collect();
        let usable: Vec<&CredentialStatus> = accounts.iter().filter(|account| !account.parked_everywhere).collect();
        let calls = |account: &&CredentialStatus| account.calls_per_s().map(|calls| calls * WINDOW_S);
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

    /// Replaces the demand by that of lists. An additional credential is assumed to have as many calls as the others.
    #[must_use]
    pub fn with_list_demand(self, calls_per_15_min: f64) -> Self {
        let known = self.usable.saturating_sub(self.unknown + self.unmetered).max(1);
        let each = (self.supply_calls_per_15_min / known as f64).max(1.0) as u32;
        self.with_demand(calls_per_15_min, CallLimits { user: each, app: each }).with_words(ItemWords::LISTS)
    }

    /// Replaces the demand. `each` is the calls per window of an additional credential.
    fn with_demand(self, demand: f64, each: CallLimits) -> Self {
        let Self { supply_calls_per_15_min: supply, unknown, unmetered, .. } = self;
        let ratio = (unmetered == 0 && supply > 0.0).then(|| demand / supply);
        let remedy = ratio.filter(|ratio| *ratio >= MIN_EXCESS_RATIO && unknown == 0).map(|ratio| {
            // Windows are stated in whole seconds: an excess too small to be seen is no excess.
            let [user_credentials, app_credentials] = each.credentials_for(demand / MIN_EXCESS_RATIO - supply);
            let intervals = (ratio / MIN_EXCESS_RATIO * 100.0).ceil() / 100.0;
            Remedy { app_credentials, user_credentials, intervals, settings: ItemWords::POSTS.intervals }
        });
        Self { demand_calls_per_15_min: demand, demand_by_quota: ratio, remedy, ..self }
    }
}

impl QuotaLoad {
    /// Sets the settings that the remedy names.
    #[must_use]
    pub fn with_words(self, words: ItemWords) -> Self {
        Self { remedy: self.remedy.map(|remedy| Remedy { settings: words.intervals, ..remedy }), ..self }
    }
}

/// Returns the lanes whose items are looked up repeatedly. Items only pass through the others, which add no demand.
#[must_use]
pub fn recurring_lanes(lanes: &[LaneStats]) -> Vec<LaneStats> {
    lanes.iter().filter(|lane| !is_pass_through(&lane.lane, lane.order)).cloned().collect()
}

fn updates_per_s(lane: &LaneStats) -> f64 {
    lane.delayed as f64 * updates_per_patience(&lane.lane) * 1e3 / lane.patience_ms.max(1) as f64
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct BusiestLanes {
    pub up_to: String,
    /// Share of all items, 0 to 1.
    pub posts: f64,
    /// Share of the updates, 0 to 1: at least a half.
    pub updates: f64,
    #[serde(skip)]
    pub many: &'static str,
}

impl BusiestLanes {
    /// Finds the [`recurring_lanes`] whose ids are looked up most often and that have half of all updates. `None` if these are all items.
    #[must_use]
    pub fn find(lanes: &[LaneStats], words: ItemWords) -> Option<Self> {
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

impl fmt::Display for BusiestLanes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let percent = |share: f64| if share < 0.001 { "below 0.1".to_owned() } else { format_number(share * 100.0) };
        let (updates, posts) = (percent(self.updates), percent(self.posts));
        let Self { up_to, many, .. } = self;
        write!(f, "{updates} % of the updates go to {posts} % of the {many}: those in the lanes up to {up_to}")
    }
}

impl fmt::Display for QuotaLoad {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let calls = |calls: f64| format_number(if calls < 100.0 { calls } else { calls.round() });
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
            write!(f, ", with an unknown quota of {} in {} credentials", self.unknown, self.usable)?;
        }
        if let Some(remedy) = self.remedy {
            write!(f, ": all intervals grow by that factor. To fix it: {remedy}")?;
        }
        write!(f, "\n{demand} calls per 15 min are needed, {supply} are available")
    }
}

impl fmt::Display for Remedy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { app_credentials, user_credentials, intervals, settings } = *self;
        write!(
            f,
            "{} or {}, or intervals {intervals:.2} times as long ({settings})",
            count_noun(app_credentials, "more app-only credential"),
            count_noun(user_credentials, "user credential"),
        )
    }
}

fn count_noun(count: u64, what: &str) -> String {
    format!("{} {what}{}", format_number(count as f64), if count == 1 { "" } else { "s" })
}

#[cfg(test)]
pub(crate) mod tests {
    use std::time::Duration;

    use super::*;
    use networks::providers::lookup::{Capabilities, Charge};
    use networks::providers::twitter_v1::CAPABILITIES;

    pub fn quota(calls: f64, unmetered: usize) -> QuotaLoad {
        QuotaLoad {
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
        let short = quota(15.0, 0).with_list_demand(45.0);
        let says = "demand 3.00 × quota: all intervals grow by that factor. To fix it: 2 more app-only credentials or 2 \
                    user credentials, or intervals 2.99 times as long (relations.revisit)\n45 calls per 15 min are needed, \
                    15 are available";
        assert_eq!(short.to_string(), says);
        assert_eq!(quota(15.0, 0).with_list_demand(15.0).remedy, None);
        assert_eq!(quota(0.0, 0).with_list_demand(15.0).demand_by_quota, None);
    }

    fn fill(capabilities: Capabilities) -> RequestFill {
        RequestFill::new(capabilities, Duration::from_secs(5), 0.1)
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
        QuotaLoad::new(&[lane(ids, WINDOW / 5), lane(ids, WINDOW)], accounts, fill(CAPABILITIES)).to_string()
    }

    #[test]
    fn demand_and_supply_are_reckoned_by_hand() {
        // 30,000 × 6 ÷ 100 = 1,800 calls; a user has 900, in windows of fifteen minutes.
        let overload = says(30_000, &[credential(900, WINDOW)]);
        assert_eq!(
            overload,
            "demand 2.00 × quota: all intervals grow by that factor. To fix it: 3 more app-only \
             credentials or 1 user credential, or intervals 2.00 times as long (tweet_age)\n1,800 calls per 15 min are \
             needed, 900 are available"
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
            QuotaLoad::new(&[named(name)], &[credential(900, WINDOW)], fill(CAPABILITIES)).demand_calls_per_15_min
        };
        assert!((demand("~15m") / demand("1h") - std::f64::consts::LOG2_E).abs() < 1e-9);
    }

    #[test]
    fn the_posts_with_most_updates_are_named() {
        let named =
            |name: &str, delayed, minutes: i64| LaneStats { lane: name.into(), ..lane(delayed, minutes * 60_000) };
        let lanes = [named("30d", 8_000, 1_440), named("18m", 100, 3), named("1h", 900, 10), named("first", 9, 1)];
        let busiest = BusiestLanes::find(&recurring_lanes(&lanes), ItemWords::POSTS).unwrap();
        assert_eq!(busiest.to_string(), "95.7 % of the updates go to 11.1 % of the posts: those in the lanes up to 1h");
        // No items, and items that are all alike.
        for nothing_to_tell in [vec![], vec![named("18m", 0, 3)], vec![named("18m", 7, 3), named("1h", 0, 10)]] {
            assert_eq!(BusiestLanes::find(&nothing_to_tell, ItemWords::POSTS), None);
        }
    }

    #[test]
    fn what_is_not_known_is_said_so() {
        let unmetered = CredentialStatus { unmetered: true, ..CredentialStatus::default() };
        assert!(says(30_000, &[CredentialStatus::default()]).starts_with("the quota is unknown"));
        assert!(says(30_000, &[credential(900, WINDOW), unmetered]).starts_with("the quota has no limit"));
        // The calls of the second credential may be enough: no remedy is named.
        let some = says(30_000, &[credential(900, WINDOW), CredentialStatus::default()]);
        assert!(some.starts_with("demand 2.00 × quota, with an unknown quota of 1 in 2"), "{some}");
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
        let overload = QuotaLoad::new(&[lane(90_000, WINDOW)], &[], fill(free));
        assert_eq!(overload.to_string(), "none is needed: this pipeline uses no quota and no credential");
        assert_eq!((overload.remedy, overload.spare_items_per_s(16)), (None, None));
    }

    #[test]
    fn a_provider_that_counts_ids_is_asked_for_each() {
        let per_id = Capabilities { charge: Charge::PerId, ..CAPABILITIES };
        let overload = QuotaLoad::new(&[lane(90_000, WINDOW)], &[credential(900, WINDOW)], fill(per_id));
        assert_eq!(overload.demand_by_quota, Some(100.0));
        // A provider that charges for ids still counts calls.
        let per_day = Capabilities { charge: Charge::PerIdPerUtcDay, ..CAPABILITIES };
        let overload = QuotaLoad::new(&[lane(90_000, WINDOW)], &[credential(900, WINDOW)], fill(per_day));
        assert_eq!(overload.demand_by_quota, Some(1.0));
    }

    #[test]
    fn short_requests_count_and_never_exceed_a_quota_that_carries_full_ones() {
        // One id per second, each within 180 s: 1 × (5 + 18 + 1) ids per request.
        let of = |accounts: &[CredentialStatus]| QuotaLoad::new(&[lane(180, 180_000)], accounts, fill(CAPABILITIES));
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
        let overload = QuotaLoad::new(&[lane(180, 180_000)], &[credential(900, WINDOW)], fill(per_day));
        close(overload.demand_calls_per_15_min, 150.0);
    }
}
