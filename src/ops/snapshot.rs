//! All figures of the page at one moment, calculated from a [`Reading`]. Pure.

use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;

use super::figure_settings::FigureSettings;
use super::freshness::LaneMeasurement;
use super::recent_counts::RecentCounts;
use crate::ops::report::crawls::Crawls;
use crate::ops::report::known_accounts::KnownAccounts;
use crate::ops::report::list_backlog::ListBacklog;
use crate::ops::report::plan::{Plan, RequestFill};
use crate::ops::report::quota_load::QuotaLoad;
use crate::ops::report::status::Status;
use collect::pipelines::kind::ItemWords;
use collect::pipelines::refresh::mass_miss_alert::{self, MassMissAlert, last_alert};
use engine::base::clock::{self, Millis};
use engine::queue::{LaneDue, LaneStats, MINUTE_MS, Minute, Stats};
use engine::quota::{BudgetStatus, CredentialStatus};
use engine::schedule::age::AgeTable;
use networks::providers::lookup::Capabilities;

/// Number of shown minutes: past ones with the current one, and as many future ones.
pub const MINUTES_SHOWN: u32 = 60;

/// If more than 1 in 10 arrivals came within one minute, they are a burst, and have no rate.
const BURST_SHARE: u64 = 10;

/// Answers of queue, ledger and store, at nearly the same moment.
#[derive(Debug, Clone, Default)]
pub struct Reading {
    pub stats: Stats,
    pub accounts: Vec<CredentialStatus>,
    pub reads: Option<BudgetStatus>,
    /// The ids due at the [`count_offsets`].
    pub due: Vec<LaneDue>,
    /// The last minutes, oldest first, the current one last.
    pub minutes: Vec<Minute>,
    /// The freshness of the stored answers, or the reason why it is unknown.
    pub measured: Measurement,
    /// The counts of the last seconds; `None` if no earlier reading has a suitable age.
    pub lately: Option<RecentCounts>,
    /// Present where the items are accounts.
    pub known_accounts: Option<KnownAccounts>,
    /// Present where the items are lists.
    pub lists: Option<ListBacklog>,
    pub crawls: Option<Crawls>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Measurement {
    /// By lane, shortest interval first, leased ids last; `None` before the first measurement, or if it failed.
    pub of: Option<Vec<LaneMeasurement>>,
    pub at_ms: Option<Millis>,
    pub error: Option<String>,
    /// Time until the next measurement, ms. It grows with the duration of a measurement, to limit the load.
    #[serde(skip)]
    pub for_ms: Millis,
    /// True if the queue was empty although the store has items that belong into it.
    #[serde(skip)]
    pub has_lost: bool,
}

#[derive(Debug, Clone, Serialize)]
pub struct Snapshot {
    #[serde(skip)]
    pub words: ItemWords,
    #[serde(flatten)]
    pub status: Status,
    /// The credentials, in the order of the settings.
    pub accounts: Vec<CredentialStatus>,
    pub freshness: Vec<Freshness>,
    /// The ids due within an hour, by lane, shortest interval first.
    pub coming: Vec<ComingDue>,
    /// The last hour, oldest minute first, the current one last.
    pub minutes: Vec<Minute>,
    /// Items that arrived and calls that were made in these minutes, bursts included.
    pub load: Load,
    /// The calls and credentials needed at the rate of arrivals in these minutes; `None` without arrivals, or in a burst.
    pub forecast: Option<Forecast>,
    /// The outage of the store: nothing can be saved.
    pub store_out: Option<Outage>,
    /// The reason why the queue or the store answers but cannot be written: nothing is updated.
    pub unwritable: Option<Outage>,
    pub measured: Measurement,
    #[serde(skip)]
    pub lately: RecentCounts,
    /// The last mass-miss alert in the minutes that the queue keeps.
    pub wave: Option<MassMissAlert>,
    pub lease_ms: Millis,
    /// Time that an id may wait for its request to fill before it is overdue, ms.
    pub buffer_ttl_ms: Millis,
    pub request_ids: u64,
}

#[derive(Debug, Clone, Default)]
pub struct LatestReading {
    pub snapshot: Option<Arc<Snapshot>>,
    /// The reason why new posts of this provider are missed, in one line.
    pub pollers: Option<String>,
    /// The outage of queue or ledger: there are no newer figures.
    pub outage: Option<Outage>,
}

/// The freshness of a lane, or of all lanes and the leased ids. Counts in `Option`s are estimated from a sample; `None`: not measured.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Freshness {
    pub lane: String,
    pub interval_ms: Millis,
    pub ids: u64,
    /// Ids whose last answer is older than the interval and `updater.buffer_ttl`.
    pub late: Option<u64>,
    /// Ids that were found before and are missing from the latest answers, not confirmed yet.
    pub missing: Option<u64>,
    /// Ids that wait for their first answer.
    pub waiting: Option<u64>,
    pub due: u64,
    /// Ids that are due for longer than `updater.buffer_ttl`.
    pub overdue: u64,
    pub oldest_lateness_ms: Millis,
    /// Ids due later than their lane allows, after an interval became shorter. The updaters bring them forward.
    pub beyond: u64,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct ComingDue {
    pub lane: String,
    /// Ids that come due in the first minute from now, in the second, and so on, without those that are due already.
    pub per_minute: Vec<u64>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Load {
    /// Time since the start of the first of these minutes, ms; at least one minute.
    pub span_ms: Millis,
    pub arrived: u64,
    pub most_in_a_minute: u64,
    pub calls: u64,
}

impl Load {
    fn from_minutes(minutes: &[Minute], now: Millis) -> Self {
        let counts = |counter| minutes.iter().map(move |minute| u64::try_from(minute.count(counter)).unwrap_or(0));
        Self {
            span_ms: minutes.first().map_or(0, |first| now - first.at_ms).max(MINUTE_MS),
            arrived: counts("scheduled").sum(),
            most_in_a_minute: counts("scheduled").max().unwrap_or(0),
            calls: counts("requests").sum(),
        }
    }

    /// Returns true if the items arrived too unevenly for a rate, as in an import.
    #[must_use]
    pub fn is_burst(&self) -> bool {
        self.most_in_a_minute.saturating_mul(BURST_SHARE) > self.arrived
    }
}

#[derive(Debug, Clone, Serialize)]
pub struct Forecast {
    /// The steady state at the rate of these minutes.
    pub plan: Plan,
    /// Its calls ÷ the calls of the quota; `None` if the quota is unknown.
    pub demand_by_quota: Option<f64>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Outage {
    pub why: String,
    /// Time of the first failure, ms since the epoch; `None` for a single reading.
    pub since_ms: Option<Millis>,
}

/// Returns the times at which the queue counts due ids, ms from now: overdue, due, and the minutes to come.
#[must_use]
pub fn count_offsets(buffer_ttl: Duration) -> Vec<Millis> {
    let coming = (0..=Millis::from(MINUTES_SHOWN)).map(|minute| minute * MINUTE_MS);
    std::iter::once(-clock::millis(buffer_ttl)).chain(coming).collect()
}

impl LatestReading {
    #[must_use]
    pub fn is_read(&self) -> bool {
        self.snapshot.is_some() || self.outage.is_some()
    }
}

impl Snapshot {
    #[must_use]
    pub fn new(
        reading: Reading,
        store_out: Option<Outage>,
        terms: &FigureSettings,
        capabilities: Capabilities,
    ) -> Self {
        let Reading { stats, accounts, reads, due, minutes, measured, lately, known_accounts, lists, crawls } = reading;
        let due_of = |lane: &LaneStats| {
            let known = due.iter().find(|due| due.lane == lane.lane);
            known.map_or(&[][..], |due| &due.counts)
        };
        let freshness = |lane: &LaneStats| {
            let by = |moment: usize| due_of(lane).get(moment).copied().unwrap_or(0).min(lane.delayed);
            let sampled = measured.of.iter().flatten().find(|of| of.lane.as_deref() == Some(&*lane.lane));
            let scaled =
                |drawn: fn(&LaneMeasurement) -> u64| sampled.map(|of| of.scale_to_lane(drawn(of)).min(lane.delayed));
            Freshness {
                lane: lane.lane.clone(),
                interval_ms: lane.patience_ms,
                ids: lane.delayed,
                late: scaled(|of| of.late),
                missing: scaled(|of| of.missing),
                waiting: scaled(|of| of.waiting),
                due: by(1),
                overdue: by(0),
                oldest_lateness_ms: lane.oldest_lateness_ms,
                beyond: lane.beyond,
            }
        };
        let coming = |lane: &LaneStats| {
            let by = due_of(lane).get(1..).unwrap_or_default();
            ComingDue {
                lane: lane.lane.clone(),
                per_minute: by.windows(2).map(|pair| pair[1] - pair[0].min(pair[1])).collect(),
            }
        };
        let (freshness, coming) =
            (stats.lanes.iter().map(freshness).collect(), stats.lanes.iter().map(coming).collect());
        let fill = terms.fill(capabilities);
        let known_accounts = known_accounts.map(|known| known.with_age_at(stats.now_ms));
        let status = Status::new(stats, accounts.clone(), fill, terms.words).with_api(terms.api.clone());
        let status = Status { budget: reads, known_accounts, ..status }.with_lists(lists).with_crawls(crawls);
        let load = Load::from_minutes(&minutes, status.stats.now_ms);
        let forecast = forecast(&load, &status, terms.schedule.age_table(), fill);
        let buffer_ttl_ms = clock::millis(terms.buffer_ttl);
        let request_ids = capabilities.batch_limit as u64;
        let lately = lately.unwrap_or_else(|| RecentCounts::from_minutes(&minutes));
        let answers = (lately.count(mass_miss_alert::MISSED), lately.count(mass_miss_alert::FOUND));
        let wave = last_alert(&minutes).map(|wave| wave.end_if_over(answers, status.stats.now_ms));
        let lease_ms = clock::millis(terms.lease);
        Self {
            words: terms.words,
            status,
            accounts,
            freshness,
            coming,
            minutes,
            load,
            forecast,
            store_out,
            unwritable: None,
            measured,
            lately,
            wave,
            lease_ms,
            buffer_ttl_ms,
            request_ids,
        }
    }

    /// Returns the time of the figures by the queue's clock, ms since the epoch.
    #[must_use]
    pub fn at_ms(&self) -> Millis {
        self.status.stats.now_ms
    }

    /// Sums up all lanes and the leased ids.
    #[must_use]
    pub fn total_freshness(&self) -> Freshness {
        let add = |sum: Option<u64>, of: Option<u64>| Some(sum? + of?);
        let leased = &self.status.stats.leased;
        let nothing = self.measured.of.as_ref().map(|_| 0);
        let of_leased = self.measured.of.iter().flatten().find(|of| of.lane.is_none());
        let scaled = |drawn: fn(&LaneMeasurement) -> u64| match of_leased {
            Some(of) => Some(of.scale_to_lane(drawn(of)).min(*leased)),
            None => nothing,
        };
        let start = Freshness {
            ids: *leased,
            late: scaled(|of| of.late),
            missing: scaled(|of| of.missing),
            waiting: scaled(|of| of.waiting),
            ..Freshness::default()
        };
        self.freshness.iter().fold(start, |sum, lane| Freshness {
            ids: sum.ids + lane.ids,
            late: add(sum.late, lane.late.or(nothing)),
            missing: add(sum.missing, lane.missing.or(nothing)),
            waiting: add(sum.waiting, lane.waiting.or(nothing)),
            due: sum.due + lane.due,
            overdue: sum.overdue + lane.overdue,
            oldest_lateness_ms: sum.oldest_lateness_ms.max(lane.oldest_lateness_ms),
            beyond: sum.beyond + lane.beyond,
            ..sum
        })
    }

    /// Estimates the interactions since the last answers of all posts; `None` if the schedule estimates none.
    #[must_use]
    pub fn unseen_interactions(&self) -> Option<u64> {
        self.measured.of.iter().flatten().filter_map(|of| of.unseen).reduce(|sum, unseen| sum + unseen)
    }

    /// Lateness of the latest item of the samples, ms: time since its last answer beyond its interval and tolerance. 0 if none is late.
    #[must_use]
    pub fn max_overdue_ms(&self) -> Millis {
        self.measured.of.iter().flatten().map(|of| of.oldest_ms).max().unwrap_or(0)
    }

    /// Returns the elapsed seconds of that minute, at least one.
    #[must_use]
    pub fn elapsed_seconds(&self, minute: &Minute) -> f64 {
        (self.at_ms() - minute.at_ms).clamp(1_000, MINUTE_MS) as f64 / 1e3
    }
}

impl Freshness {
    /// Returns the share of ids that are up to date; `None` without ids or a measurement.
    #[must_use]
    pub fn fresh_share(&self) -> Option<f64> {
        share(self.ids.saturating_sub(self.late? + self.missing?), self.ids)
    }
}

fn share(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

fn forecast(load: &Load, status: &Status, ages: Option<&AgeTable>, fill: RequestFill) -> Option<Forecast> {
    if load.is_burst() {
        return None;
    }
    let per_day = load.arrived as f64 * Duration::from_secs(86_400).as_millis() as f64 / load.span_ms as f64;
    // Without tweets there is no plan.
    let plan = Plan::new(ages?, per_day, fill).ok()?;
    let QuotaLoad { supply_calls_per_15_min: supply, unknown, unmetered, .. } = status.quota;
    let is_known = supply > 0.0 && unknown == 0 && unmetered == 0;
    let demand_by_quota = is_known.then(|| plan.lookups_per_15_min / supply);
    Some(Forecast { plan, demand_by_quota })
}

#[cfg(test)]
mod tests {
    use super::*;
    use networks::providers::twitter_v1::CAPABILITIES;

    fn snapshot(reading: Reading) -> Snapshot {
        Snapshot::new(
            reading,
            None,
            &FigureSettings { schedule: Arc::new("1d: 1h".parse::<AgeTable>().unwrap()), ..FigureSettings::usual() },
            CAPABILITIES,
        )
    }

    fn lane(name: &str, delayed: u64) -> LaneStats {
        LaneStats {
            lane: name.to_owned(),
            patience_ms: 3_600_000,
            delayed,
            oldest_lateness_ms: delayed as i64,
            ..LaneStats::default()
        }
    }

    fn minute(at_ms: Millis, counters: &[(&str, i64)]) -> Minute {
        let counters = counters.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect();
        Minute { at_ms, counters, ..Minute::default() }
    }

    #[test]
    fn moments_are_overdue_due_and_each_minute_of_an_hour() {
        let count_offsets = count_offsets(Duration::from_secs(5));
        assert_eq!(
            (count_offsets.len(), &count_offsets[..4], count_offsets[61]),
            (62, &[-5_000, 0, 60_000, 120_000][..], 3_600_000)
        );
    }

    #[test]
    fn lanes_are_put_together_by_name() {
        let due = |name: &str, counts: &[u64]| LaneDue { lane: name.to_owned(), counts: counts.into() };
        let reading = Reading {
            stats: Stats { lanes: vec![lane("18m", 10), lane("1d", 90), lane("new", 5)], ..Stats::default() },
            // Counts of another moment: one id has come due in between, and a lane is new.
            due: vec![due("1d", &[3, 8, 10, 20]), due("18m", &[1, 11, 11, 12])],
            ..Reading::default()
        };
        let snapshot = snapshot(reading);
        let of = |at: usize| {
            let Freshness { lane, ids, due, overdue, .. } = &snapshot.freshness[at];
            (lane.as_str(), *ids, *due, *overdue, &*snapshot.coming[at].per_minute)
        };
        assert_eq!(of(0), ("18m", 10, 10, 1, &[0, 1][..]));
        assert_eq!(of(1), ("1d", 90, 8, 3, &[2, 10][..]));
        assert_eq!(of(2), ("new", 5, 0, 0, &[][..]));
        let all = snapshot.total_freshness();
        assert_eq!((all.ids, all.due, all.overdue, all.oldest_lateness_ms), (105, 18, 4, 90));
        assert_eq!(
            (all.late, all.fresh_share(), Freshness::default().fresh_share()),
            (None, None, None),
            "nothing was measured"
        );
    }

    #[test]
    fn freshness_is_what_was_measured_scaled_to_each_lane_and_what_is_leased() {
        let measured = |lane: Option<&str>, ids, sampled, late, missing| {
            let lane = lane.map(str::to_owned);
            LaneMeasurement {
                lane,
                ids,
                sampled,
                late,
                missing,
                oldest_ms: late as i64 * 7,
                ..LaneMeasurement::default()
            }
        };
        let of = vec![
            measured(Some("18m"), 10, 10, 1, 0),
            measured(Some("1d"), 9_000, 1_000, 2, 1),
            measured(None, 50, 50, 5, 0),
        ];
        let reading = Reading {
            stats: Stats {
                lanes: vec![lane("18m", 10), lane("1d", 9_000), lane("new", 5)],
                leased: 50,
                ..Stats::default()
            },
            measured: Measurement { of: Some(of), at_ms: Some(0), ..Measurement::default() },
            ..Reading::default()
        };
        let snapshot = snapshot(reading);
        let late: Vec<_> = snapshot.freshness.iter().map(|lane| (lane.late, lane.missing)).collect();
        assert_eq!(late, [(Some(1), Some(0)), (Some(18), Some(9)), (None, None)]);
        let all = snapshot.total_freshness();
        assert_eq!((all.ids, all.late, all.missing, snapshot.max_overdue_ms()), (9_065, Some(24), Some(9), 35));
        assert_eq!(snapshot.freshness[1].fresh_share(), Some(8_973.0 / 9_000.0));
    }

    #[test]
    fn a_rate_is_that_of_the_seconds_gone() {
        let minutes = vec![minute(60_000, &[]), minute(120_000, &[])];
        let at = |now_ms| {
            let stats = Stats { now_ms, ..Stats::default() };
            let snapshot = snapshot(Reading { stats, minutes: minutes.clone(), ..Reading::default() });
            [0, 1].map(|minute| 300.0 / snapshot.elapsed_seconds(&snapshot.minutes[minute]))
        };
        assert_eq!(at(150_000), [5.0, 10.0]);
        assert_eq!(at(120_010), [5.0, 300.0], "of the first second, all of it");
        // The minute started after the queue stated its time.
        assert_eq!(at(119_990), [300.0 / 59.99, 300.0]);
    }

    #[test]
    fn the_forecast_is_a_day_of_minutes_like_these() {
        // 200 in half an hour: 9,600 per day, and 24 updates each.
        let minutes: Vec<_> =
            (0..30).map(|at| minute(at * MINUTE_MS, if at < 10 { &[("scheduled", 20)] } else { &[] })).collect();
        let quota = CredentialStatus { limit: Some(100), window_ms: Some(900_000), ..CredentialStatus::default() };
        let stats = Stats { now_ms: 30 * MINUTE_MS, ..Stats::default() };
        let reading = Reading { stats, minutes, accounts: vec![quota], ..Reading::default() };
        let forecast = snapshot(reading.clone()).forecast.unwrap();
        assert_eq!(forecast.plan.tweets_per_day, 9_600.0);
        assert_eq!(forecast.demand_by_quota, Some(forecast.plan.lookups_per_15_min / 100.0));
        let unknown = Reading { accounts: vec![CredentialStatus::default()], ..reading.clone() };
        assert_eq!(snapshot(unknown).forecast.unwrap().demand_by_quota, None);
        let mut burst = reading.clone();
        burst.minutes[7].counters = [("scheduled".to_owned(), 3_000), ("requests".to_owned(), 31)].into();
        let burst = snapshot(burst);
        assert!(burst.forecast.is_none() && burst.load.is_burst());
        assert_eq!((burst.load.arrived, burst.load.calls, burst.load.span_ms), (3_180, 31, 30 * MINUTE_MS));
        let none_came = Reading { minutes: vec![minute(0, &[("rescheduled", 9)])], ..reading.clone() };
        assert!(
            snapshot(none_came).forecast.is_none()
                && snapshot(Reading { minutes: vec![], ..reading }).forecast.is_none()
        );
    }

    #[test]
    fn a_snapshot_is_written_as_json_with_all_fields_of_status() {
        let snapshot = snapshot(Reading::default());
        let json = serde_json::to_value(&snapshot).unwrap();
        let status = serde_json::to_value(&snapshot.status).unwrap();
        for (name, value) in status.as_object().unwrap() {
            assert_eq!(&json[name], value);
        }
        assert!(json["freshness"].is_array() && json["minutes"].is_array() && json["store_out"].is_null());
    }
}
