//! The headline of a namespace: its freshness state, and the reason if it is not fresh. Pure. Green is proved, not assumed.

use super::freshness::LaneMeasurement;
pub use crate::ops::report::status::{FreshnessState, Headline};
use crate::ops::report::status::{NamespaceStatus, Status};
use crate::ops::snapshot::{Freshness, LatestReading, MINUTES_SHOWN, Outage, Snapshot};
use collect::pipelines::kind::ItemWords;
use collect::pipelines::refresh::UNAVAILABLE_LANE;
use collect::pipelines::refresh::mass_miss_alert::MassMissAlert;
use engine::base::clock::Millis;
use engine::base::humanize::{format_number, format_time, group_digits, one_line, span};
use engine::queue::{MINUTE_MS, Minute, Stats, WorkerStats};
use engine::quota::BudgetStatus;

/// Tolerated late posts: one in this many, or a single one. An id that no call can answer must not hide the others.
const LATE_DIVISOR: u64 = 100;
/// Tolerated missing posts: one in this many, or [`TOLERATED_MISSING`] if that is more. People delete posts.
const MISSING_DIVISOR: u64 = 20;
const TOLERATED_MISSING: u64 = 2;
/// Age of a heartbeat, in ms, after which its worker does not count. Workers beat every 5 s.
const HEARTBEAT_TIMEOUT_MS: Millis = 12_000;
/// Delay of the next measurement, in ms, after which the last one is outdated.
const MEASUREMENT_VALID_MS: Millis = 20_000;
/// A lease ends this much later than it should, in ms, only if a clock stepped back.
const CLOCK_SLACK_MS: Millis = 60_000;
/// Time in ms for which a failed call of one worker counts although other workers' calls succeed. Longer than the pause between two calls.
const FAILED_CALL_VALID_MS: Millis = 30_000;
/// Average duration of a call, in ms, above which slow calls are the reason for late posts.
const SLOW_CALL_MS: Millis = 2_000;
/// Minutes that show the speed of the workers: the current one and the one before it.
const SPEED_MINUTES: usize = 2;

/// Maximum number of fresh namespaces that are named.
const MAX_NAMES: usize = 3;

impl Headline {
    /// States the first problem in one sentence. Problems are checked in the order in which they have to be fixed.
    ///
    /// In [`FreshnessState::Fresh`], all but a hundredth of the posts (or one) have an answer no older than their interval and
    /// `updater.buffer_ttl`. All but a twentieth (or two) were found.
    #[must_use]
    pub fn from_reading(reading: &LatestReading) -> Self {
        if let Some(Outage { why, since_ms }) = &reading.outage {
            let since = since_text(*since_ms);
            return FreshnessState::Unknown
                .with_sentence(format!("Unknown: the queue does not answer{since}: {}", one_line(why)));
        }
        let Some(snapshot) = &reading.snapshot else {
            return FreshnessState::Unknown.with_sentence("Unknown: nothing has been read yet".to_owned());
        };
        if let Some(why) = stopped_reason(snapshot) {
            return FreshnessState::Stopped.with_sentence(format!("Stopped: {why}"));
        }
        if let Some(why) = unknown_reason(snapshot) {
            return FreshnessState::Unknown.with_sentence(format!("Unknown: {why}"));
        }
        if let Some(sentence) =
            missing_sentence(snapshot).or_else(|| late_sentence(snapshot)).or_else(|| all_dead_sentence(snapshot))
        {
            return FreshnessState::Late.with_sentence(sentence);
        }
        if let Some(why) = failed_call_reason(snapshot)
            .or_else(|| mass_miss_reason(snapshot))
            .or_else(|| failing_task_reason(&snapshot.status.stats))
        {
            return FreshnessState::Late.with_sentence(format!("Late: {why}"));
        }
        FreshnessState::Fresh.with_sentence(fresh_sentence(snapshot)).with_poller_trouble(reading.pollers.as_deref())
    }

    /// Changes a fresh headline to late if pollers miss new posts, for this reason.
    #[must_use]
    pub fn with_poller_trouble(self, why: Option<&str>) -> Self {
        match (self.state, why) {
            (FreshnessState::Fresh, Some(why)) => FreshnessState::Late.with_sentence(format!("Late: {why}")),
            _ => self,
        }
    }

    /// Sums up several namespaces: the worst state first, with the names of the namespaces in it.
    #[must_use]
    pub fn summarize(namespaces: &[(&str, FreshnessState)]) -> Self {
        let worst_first =
            [FreshnessState::Stopped, FreshnessState::Unknown, FreshnessState::Late, FreshnessState::Fresh];
        let mut parts = Vec::new();
        for state in worst_first {
            let names: Vec<&str> = namespaces.iter().filter(|one| one.1 == state).map(|one| one.0).collect();
            let who = match names.len() {
                0 => continue,
                all if all == namespaces.len() => format!("all {all} namespaces"),
                // A long list of fresh namespaces is shortened to their number.
                many if state == FreshnessState::Fresh && many > MAX_NAMES => format!("the {many} others"),
                _ => names.join(", "),
            };
            parts.push((state, format!("{state}: {who}")));
        }
        let Some((worst, _)) = parts.first() else {
            return FreshnessState::Unknown.with_sentence("Unknown: no namespace is shown".to_owned());
        };
        let text = parts.iter().map(|(_, part)| part.as_str()).collect::<Vec<_>>().join("; ");
        // The slices are safe: the names of the states are ASCII.
        worst.with_sentence(text[..1].to_ascii_uppercase() + &text[1..])
    }
}

impl FreshnessState {
    fn with_sentence(self, sentence: String) -> Headline {
        Headline { state: self, sentence }
    }
}

fn since_text(at: Option<Millis>) -> String {
    at.map_or_else(String::new, |at| format!(" since {}", format_time(at)))
}

fn stopped_reason(snapshot: &Snapshot) -> Option<String> {
    let stats = &snapshot.status.stats;
    if let Some(Outage { why, since_ms }) = &snapshot.store_out {
        let since = since_text(*since_ms);
        return Some(format!("the store does not answer{since}, nothing can be saved: {}", one_line(why)));
    }
    if let Some(Outage { why, since_ms }) = &snapshot.unwritable {
        return Some(format!("nothing can be saved{}: {}", since_text(*since_ms), one_line(why)));
    }
    if let Some(reason) = &stats.paused {
        return Some(format!("it is paused: {}", one_line(reason)));
    }
    if snapshot.measured.has_lost && snapshot.total_freshness().ids == 0 {
        let many = snapshot.words.many;
        return Some(format!("the queue is empty, and the store has live {many}; run `twitter-updater rebuild`"));
    }
    // Checked before the workers, because a clock that stepped back also dates their last heartbeats in the future. A fence ahead may
    // also come from a longer lease of earlier settings. Only stored answers prove that the clock stepped back.
    let ahead = snapshot.measured.of.iter().flatten().any(|of| of.ahead > 0);
    if ahead && stats.fence_ahead_ms > snapshot.lease_ms + CLOCK_SLACK_MS {
        let behind = span((stats.fence_ahead_ms - snapshot.lease_ms) / 1_000 * 1_000);
        return Some(format!(
            "the queue's clock stepped back by about {behind}: nothing comes due until it has caught up; set the clock right"
        ));
    }
    if let Some(why) = missing_worker_reason(stats) {
        return Some(why);
    }
    if let Some(BudgetStatus { reads, limit: Some(limit), spent: true, reset_in_ms, .. }) = &snapshot.status.budget {
        let [reads, limit] = [reads, limit].map(|count| group_digits(*count));
        let left = span_to_the_second(*reset_in_ms);
        return Some(format!(
            "the budget of reads is spent, {reads} of {limit}; calls continue at the reset in {left}, or when x.reads is \
             raised"
        ));
    }
    parked_reason(snapshot).or_else(|| workers_trouble(stats))
}

fn missing_worker_reason(stats: &Stats) -> Option<String> {
    match stats.workers.iter().map(|worker| worker.beat_age_ms).min() {
        None => Some("no worker is running; start `twitter-updater updater`".to_owned()),
        Some(age) if age > HEARTBEAT_TIMEOUT_MS => {
            let age = span(age / 1_000 * 1_000);
            Some(format!("no worker heartbeat for {age}; start `twitter-updater updater`"))
        }
        Some(_) => None,
    }
}

fn parked_reason(snapshot: &Snapshot) -> Option<String> {
    let first = snapshot.accounts.iter().min_by_key(|account| account.parked_for_ms)?;
    (first.parked_for_ms > 0).then(|| {
        let who = match snapshot.accounts.len() {
            1 => "the only credential is".to_owned(),
            many => format!("all {many} credentials are"),
        };
        let why = first.parked_why.as_deref().map_or_else(|| "no reason is given".to_owned(), one_line);
        format!("{who} parked, {} for another {}: {why}", first.name, span_to_the_second(first.parked_for_ms))
    })
}

/// Returns the reason if all workers with a current heartbeat report that they cannot work.
fn workers_trouble(stats: &Stats) -> Option<String> {
    let current = || stats.workers.iter().filter(|worker| worker.beat_age_ms <= HEARTBEAT_TIMEOUT_MS);
    let troubles: Vec<&str> = current().filter_map(|worker| worker.trouble()).collect();
    let why = troubles.first().filter(|_| troubles.len() == current().count())?;
    let who = match troubles.len() {
        1 => "the only worker cannot work".to_owned(),
        many => format!("all {many} workers cannot work"),
    };
    let since = current().filter_map(|worker| worker.fields.get(WorkerStats::TROUBLE_SINCE)?.parse().ok()).min();
    let since = since.map_or_else(String::new, |since| format!(" since {}", format_time(since)));
    Some(format!("{who}{since}: {}", one_line(why)))
}

/// Describes the last call if it failed and no call was answered since. The API may be out, even if few posts are due.
fn failed_call_reason(snapshot: &Snapshot) -> Option<String> {
    let workers = &snapshot.status.stats.workers;
    let current = || workers.iter().filter(|worker| worker.beat_age_ms <= HEARTBEAT_TIMEOUT_MS);
    let answered_at = current().filter_map(WorkerStats::answered_at).max().unwrap_or(0);
    let what = match current().filter_map(WorkerStats::failed_call).max_by_key(|(_, at)| *at) {
        Some((why, at)) if at + FAILED_CALL_VALID_MS > answered_at => {
            format!("the last call failed at {}: {}", format_time(at), one_line(why))
        }
        Some(_) => return None,
        None if answered_at > 0 => return None,
        // The workers that made the last calls have stopped.
        None => {
            let count = |minute: &Minute, counter| minute.count(counter).max(0);
            let last = snapshot.minutes.iter().rev().find(|minute| count(minute, "requests") > 0)?;
            let (calls, failed) = (count(last, "requests"), count(last, "requests_failed"));
            (failed >= calls).then(|| format!("the last calls failed, at {}", format_time(last.at_ms)))?
        }
    };
    let is_due_in =
        |minute: &usize| snapshot.coming.iter().any(|lane| lane.per_minute.get(*minute).is_some_and(|ids| *ids > 0));
    let due_in = (0..MINUTES_SHOWN as usize).find(is_due_in);
    let next = match due_in {
        _ if snapshot.total_freshness().due > 0 => "is due".to_owned(),
        Some(minutes) => format!("is due within {}", span((minutes as Millis + 1) * MINUTE_MS)),
        None => "is not due within an hour".to_owned(),
    };
    Some(format!("{what}; an answered call clears this, and the next {} {next}", snapshot.words.one))
}

fn mass_miss_reason(snapshot: &Snapshot) -> Option<String> {
    let MassMissAlert { since_ms, missed, found, .. } = snapshot.wave.filter(MassMissAlert::lasts)?;
    let [missed, all] = [missed, missed + found].map(group_digits);
    Some(format!(
        "mass-miss alert since {}: {missed} of the latest {all} answers are misses of {} that were found before; a miss \
         counts only when it lasts",
        format_time(since_ms),
        snapshot.words.many
    ))
}

fn failing_task_reason(stats: &Stats) -> Option<String> {
    let current = |worker: &&WorkerStats| worker.beat_age_ms <= HEARTBEAT_TIMEOUT_MS;
    let why = stats.workers.iter().filter(current).find_map(WorkerStats::failing)?;
    Some(format!("a task of a worker fails: {}", one_line(why)))
}

fn unknown_reason(snapshot: &Snapshot) -> Option<String> {
    let (all, sampled) = (snapshot.total_freshness(), &snapshot.measured);
    let is_read = match (all.ids, sampled.at_ms) {
        // An empty queue may have lost its posts: the reading must have no error.
        (0, _) => sampled.error.is_none(),
        (_, Some(at)) => all.late.is_some() && snapshot.at_ms() - at <= sampled.for_ms + MEASUREMENT_VALID_MS,
        (_, None) => false,
    };
    if !is_read {
        let why = sampled.error.as_deref().map_or_else(|| "no measurement has finished yet".to_owned(), one_line);
        return Some(format!("the stored answers cannot be read: {why}"));
    }
    // A lane that is newer than the sample. The sample of the other lanes does not cover it.
    let unmeasured: u64 = snapshot.freshness.iter().filter(|lane| lane.late.is_none()).map(|lane| lane.ids).sum();
    if unmeasured > tolerated_late(all.ids) {
        let [unmeasured, ids, many] = [&*group_digits(unmeasured), &*group_digits(all.ids), snapshot.words.many];
        return Some(format!("the answers of {unmeasured} of {ids} {many} were not read yet"));
    }
    (sum_measured(snapshot, |of| of.ahead) * 10 > sum_measured(snapshot, |of| of.sampled)).then(|| {
        "stored answers are dated ahead of the queue's clock, which stepped back: newer ones are refused until it has \
         caught up; set the clock right"
            .to_owned()
    })
}

fn missing_sentence(snapshot: &Snapshot) -> Option<String> {
    let all = snapshot.total_freshness();
    let missing = all.missing.unwrap_or(0);
    (missing > TOLERATED_MISSING.max(all.ids / MISSING_DIVISOR)).then(|| {
        format!(
            "Late: {} of {} {} are missing from the latest answers{}: the API leaves them out, or they were deleted; \
             a miss counts only when it lasts",
            group_digits(missing),
            group_digits(all.ids),
            snapshot.words.many,
            sample_note(snapshot)
        )
    })
}

fn late_sentence(snapshot: &Snapshot) -> Option<String> {
    let all = snapshot.total_freshness();
    let late = all.late.unwrap_or(0);
    let expired = snapshot.status.stats.expired;
    let starves = |lane: &Freshness| lane.oldest_lateness_ms > lane.interval_ms + snapshot.buffer_ttl_ms;
    let starving = snapshot.freshness.iter().any(|lane| lane.overdue > 0 && starves(lane));
    if late <= tolerated_late(all.ids) && !starving && expired <= snapshot.request_ids {
        return None;
    }
    let oldest = snapshot.max_overdue_ms().max(all.oldest_lateness_ms);
    let (late, ids) = (group_digits(late.max(expired).max(1)), group_digits(all.ids));
    let why =
        unread_lists_reason(snapshot).or_else(|| quota_shortage(snapshot)).unwrap_or_else(|| slowness_reason(snapshot));
    let (many, oldest, sample) = (snapshot.words.many, span(oldest), sample_note(snapshot));
    Some(format!("Late: {late} of {ids} {many} are not up to date{sample}, the oldest is overdue by {oldest}: {why}"))
}

fn all_dead_sentence(snapshot: &Snapshot) -> Option<String> {
    let (dead, ItemWords { one, many, .. }) = (snapshot.status.stats.dead, snapshot.words);
    let who = if dead == 1 { format!("the only {one} is") } else { format!("all {} {many} are", group_digits(dead)) };
    (dead > 0 && snapshot.total_freshness().ids == 0).then(|| format!("Late: {who} dead; see `twitter-updater dead`"))
}

fn tolerated_late(ids: u64) -> u64 {
    (ids / LATE_DIVISOR).max(1)
}

fn sum_measured(snapshot: &Snapshot, of: fn(&LaneMeasurement) -> u64) -> u64 {
    snapshot.measured.of.iter().flatten().map(of).sum()
}

/// Returns the size of the sample in brackets; empty if all ids were read.
fn sample_note(snapshot: &Snapshot) -> String {
    let (read, ids) = (sum_measured(snapshot, |of| of.sampled), sum_measured(snapshot, |of| of.ids));
    if read < ids { format!(" (by a sample of {})", group_digits(read)) } else { String::new() }
}

fn fresh_sentence(snapshot: &Snapshot) -> String {
    let all = snapshot.total_freshness();
    let (late, waiting) = (all.late.unwrap_or(0) + all.missing.unwrap_or(0), all.waiting.unwrap_or(0));
    let ItemWords { one, many, .. } = snapshot.words;
    let by_a_sample = sample_note(snapshot);
    let ids = group_digits(all.ids);
    let mut said = match (all.ids, late, waiting) {
        (0, ..) => format!("No {many} are scheduled"),
        (1, 0, 0) => format!("The only {one} is up to date"),
        (1, _, 1) => format!("The only {one} waits for its first lookup"),
        (of, 0, waits) if waits >= of => format!("All {ids} {many} wait for their first lookup{by_a_sample}"),
        (_, 0, 0) => format!("All {ids} {many} are up to date{by_a_sample}"),
        (of, late, waits) => {
            let up = group_digits(of.saturating_sub(late).saturating_sub(waits));
            format!("{up} of {ids} {many} are up to date{by_a_sample}")
        }
    };
    let is_away = |lane: &&Freshness| lane.lane == UNAVAILABLE_LANE;
    let away: u64 = snapshot.freshness.iter().filter(is_away).map(|lane| lane.ids).sum();
    if away > 0 && all.ids > 1 {
        said += &format!(", {} of them unavailable", group_digits(away));
    }
    if (1..all.ids).contains(&waiting) {
        said += &format!(", {} wait for their first lookup", group_digits(waiting));
    }
    // No remedy is stated while the quota of some credential is unknown: it may suffice.
    if let Some(over) = quota_shortage(snapshot) {
        said += &format!(", but that will not last: {over}");
    }
    said
}

fn quota_shortage(snapshot: &Snapshot) -> Option<String> {
    let quota = &snapshot.status.quota;
    let (ratio, remedy) = quota.demand_by_quota.zip(quota.remedy)?;
    Some(format!("the demand is {ratio:.2} × the quota; to fix it: {remedy}"))
}

/// Returns the cause if lists are overdue for their first read although calls succeed: the quota is too small.
fn unread_lists_reason(snapshot: &Snapshot) -> Option<String> {
    let lists = snapshot.status.lists.as_ref()?.figures.as_ref()?;
    if lists.unread_overdue == 0 || most_calls_fail(snapshot) || snapshot.status.stats.expired > snapshot.request_ids {
        return None;
    }
    let [unread, calls] = [lists.unread, lists.first_calls].map(group_digits);
    let remedy = match snapshot.status.quota.remedy {
        Some(remedy) => format!("{remedy}, or fewer lists"),
        None => format!("more credentials, longer intervals ({}) or fewer lists", snapshot.words.intervals),
    };
    let time = match lists.read_once_ms {
        Some(_) => format!("which take {} by the quota", lists.read_once_text()),
        None => "and the quota is unknown".to_owned(),
    };
    Some(format!(
        "{unread} lists were never read, although each is due within {}; their first reads need {calls} calls, {time}; to fix it: {remedy}",
        span(lists.interval_ms)
    ))
}

fn most_calls_fail(snapshot: &Snapshot) -> bool {
    snapshot.lately.count("requests_failed") * 2 > snapshot.lately.count("requests")
}

fn slowness_reason(snapshot: &Snapshot) -> String {
    let stats = &snapshot.status.stats;
    let count = |counter: &str| snapshot.lately.count(counter);
    let (calls, failed) = (count("requests"), count("requests_failed"));
    let trouble = stats.workers.iter().find_map(|worker| worker.trouble());
    if most_calls_fail(snapshot) {
        let [calls, failed] = [calls, failed].map(|count| group_digits(count.unsigned_abs()));
        let why = trouble.map_or_else(String::new, |why| format!(": {}", one_line(why)));
        return format!("{failed} of the last {calls} calls to the API failed{why}");
    }
    if stats.expired > 0 {
        let expired = group_digits(stats.expired);
        return format!("{expired} are leased by workers that died or hang; another worker takes them over");
    }
    if let Some(why) = trouble {
        return format!("a worker cannot work: {}", one_line(why));
    }
    let broken = count("broken");
    if broken * 2 > count("looked_up") {
        return format!("{} of the last answers could not be read", group_digits(broken.unsigned_abs()));
    }
    let call_ms = if calls > 0 { count("lookup_ms") / calls } else { 0 };
    if call_ms > SLOW_CALL_MS {
        return format!("calls to the API take {} on average", span(call_ms / 100 * 100));
    }
    let all = snapshot.total_freshness();
    if all.beyond > 0 {
        let beyond = group_digits(all.beyond);
        return format!(
            "an interval is shorter than before: {beyond} are still due by the old one, and are being brought forward"
        );
    }
    if all.overdue == 0 {
        return "an interval is shorter than before: their next lookups are spread over the new one".to_owned();
    }
    let lately = &snapshot.minutes[snapshot.minutes.len().saturating_sub(SPEED_MINUTES)..];
    let looked_up: i64 = lately.iter().map(|minute| minute.count("looked_up")).sum();
    let seconds: f64 = lately.iter().map(|minute| snapshot.elapsed_seconds(minute)).sum();
    let per_second = format_number((looked_up as f64 / seconds.max(1.0) * 10.0).round() / 10.0);
    let workers = match stats.workers.len() {
        1 => "the only worker updates".to_owned(),
        many => format!("{many} workers update"),
    };
    format!("{workers} {per_second} per second; if the backlog grows, add workers or raise updater.concurrency")
}

fn span_to_the_second(ms: Millis) -> String {
    span((ms + 999) / 1_000 * 1_000)
}

impl LatestReading {
    #[must_use]
    pub fn namespace_status(&self, namespace: &str) -> NamespaceStatus {
        let answer = Some(Headline::from_reading(self));
        let error = match (&self.snapshot, &self.outage) {
            (Some(snapshot), None) => {
                return NamespaceStatus::Status(Box::new(Status { answer, ..snapshot.status.clone() }));
            }
            (_, Some(Outage { why, .. })) => why.clone(),
            (None, None) => "nothing has been read yet".to_owned(),
        };
        NamespaceStatus::Out { namespace: namespace.to_owned(), error, answer }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;
    use crate::ops::figure_settings::FigureSettings;
    use crate::ops::report::list_backlog::{ListBacklog, ListFigures};
    use crate::ops::snapshot::{Measurement, Reading};
    use collect::pipelines::kind::VisitIntervals;
    use collect::pipelines::refresh::mass_miss_alert;
    use engine::queue::{LaneDue, LaneStats, Order, Sample};
    use engine::quota::CredentialStatus;
    use networks::model::post::ItemState;
    use networks::providers::twitter_v1::CAPABILITIES;
    use store::Standing;

    const NOW: i64 = 1_800_000_020_000;
    const BUFFER_TTL_MS: Millis = 5_000;

    fn measured(lane: Option<&str>, ids: u64) -> LaneMeasurement {
        LaneMeasurement { lane: lane.map(str::to_owned), ids, sampled: ids.min(1_000), ..LaneMeasurement::default() }
    }

    /// A good reading: 100,000 ids in two lanes, one worker, enough quota.
    fn reading() -> Reading {
        let lane = |name: &str, patience_ms, delayed| LaneStats {
            lane: name.to_owned(),
            patience_ms,
            delayed,
            due: 60,
            oldest_lateness_ms: 6_000,
            ..LaneStats::default()
        };
        let due = |name: &str| LaneDue { lane: name.to_owned(), counts: vec![50, 60, 70] };
        let worker = WorkerStats { worker: "w".to_owned(), beat_age_ms: 900, fields: [].into() };
        let counters = [("requests", 40), ("looked_up", 4_000), ("lookup_ms", 4_000)];
        let counters = counters.map(|(name, count)| (name.to_owned(), count));
        let minute = |at_ms| Minute { at_ms, counters: counters.clone().into(), ..Minute::default() };
        let of = vec![measured(Some("18m"), 4_000), measured(Some("1d"), 96_000), measured(None, 0)];
        Reading {
            stats: Stats {
                namespace: "tweet:update".to_owned(),
                now_ms: NOW,
                lanes: vec![lane("18m", 180_000, 4_000), lane("1d", 3_600_000, 96_000)],
                workers: vec![worker],
                ..Stats::default()
            },
            accounts: vec![CredentialStatus { limit: Some(900), window_ms: Some(900_000), ..named("main") }],
            reads: None,
            due: vec![due("18m"), due("1d")],
            minutes: vec![minute(NOW - NOW % MINUTE_MS - MINUTE_MS), minute(NOW - NOW % MINUTE_MS)],
            measured: Measurement { of: Some(of), at_ms: Some(NOW - 4_000), ..Measurement::default() },
            lately: None,
            known_accounts: None,
            lists: None,
            crawls: None,
        }
    }

    fn named(name: &str) -> CredentialStatus {
        CredentialStatus { name: name.to_owned(), ..CredentialStatus::default() }
    }

    fn terms() -> FigureSettings {
        FigureSettings { buffer_ttl: Duration::from_millis(BUFFER_TTL_MS as u64), ..FigureSettings::usual() }
    }

    fn snapshot(reading: Reading, store_out: Option<Outage>) -> Snapshot {
        Snapshot::new(reading, store_out, &terms(), CAPABILITIES)
    }

    fn reading_of(snapshot: Snapshot) -> LatestReading {
        LatestReading { snapshot: Some(Arc::new(snapshot)), ..LatestReading::default() }
    }

    fn answers(change: impl FnOnce(&mut Reading)) -> (FreshnessState, String) {
        let mut reading = reading();
        change(&mut reading);
        let Headline { state, sentence } = Headline::from_reading(&reading_of(snapshot(reading, None)));
        (state, sentence)
    }

    fn is(state: FreshnessState, sentence: &str) -> (FreshnessState, String) {
        (state, sentence.to_owned())
    }

    fn hourly(reading: &mut Reading) -> &mut LaneMeasurement {
        &mut reading.measured.of.as_mut().unwrap()[1]
    }

    /// Makes this many of a thousand sampled hourly posts late. Each stands for 96.
    fn late_by(reading: &mut Reading, drawn: u64) {
        (hourly(reading).late, hourly(reading).oldest_ms) = (drawn, 6_000);
    }

    fn park(reading: &mut Reading) {
        let why = Some("its account is locked".to_owned());
        reading.accounts[0] = CredentialStatus { parked_for_ms: 60_001, parked_why: why, ..named("main") };
    }

    // 96,000 ÷ 3,600 s and 4,000 ÷ 180 s are 44,000 in 15 min: 440 calls.
    fn demand(reading: &mut Reading) {
        reading.accounts[0].limit = Some(220);
    }

    fn trouble(reading: &mut Reading, worker: usize) {
        let fields = [
            (WorkerStats::TROUBLE, "the API is not available: refused"),
            (WorkerStats::TROUBLE_SINCE, "1769851800000"),
        ];
        reading.stats.workers[worker].fields = fields.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
    }

    #[test]
    fn a_task_that_fails_is_not_green_and_does_not_stop_anything() {
        let failing = |reading: &mut Reading| {
            reading.stats.workers[0].fields.insert(WorkerStats::FAILING.to_owned(), "the task x failed".to_owned());
        };
        assert_eq!(answers(failing), is(FreshnessState::Late, "Late: a task of a worker fails: the task x failed"));
    }

    #[test]
    fn fresh_with_the_posts_that_are_not() {
        assert_eq!(
            answers(|_| {}),
            is(FreshnessState::Fresh, "All 100,000 posts are up to date (by a sample of 2,000)")
        );
        assert_eq!(
            answers(|reading| late_by(reading, 10)),
            is(FreshnessState::Fresh, "99,040 of 100,000 posts are up to date (by a sample of 2,000)"),
            "a hundredth may be late"
        );
        let leased = answers(|reading| {
            reading.stats.leased = 100;
            reading.measured.of.as_mut().unwrap()[2] = measured(None, 100);
        });
        assert_eq!(leased.1, "All 100,100 posts are up to date (by a sample of 2,100)", "what is leased counts");
        let waiting = answers(|reading| hourly(reading).waiting = 500);
        assert_eq!(
            waiting.1,
            "52,000 of 100,000 posts are up to date (by a sample of 2,000), 48,000 wait for their first lookup"
        );
        let away = |reading: &mut Reading| {
            reading.stats.lanes[1].lane = "unavailable".to_owned();
            hourly(reading).lane = Some("unavailable".to_owned());
        };
        assert_eq!(
            answers(away),
            is(
                FreshnessState::Fresh,
                "All 100,000 posts are up to date (by a sample of 2,000), 96,000 of them unavailable"
            )
        );
        let none_yet = answers(|reading| hourly(reading).waiting = hourly(reading).sampled);
        assert!(none_yet.1.contains(" wait for their first lookup"), "{none_yet:?}");
        let nothing = answers(|reading| {
            (reading.stats.lanes, reading.due) = (vec![], vec![]);
            reading.measured.of = Some(vec![measured(None, 0)]);
        });
        assert_eq!(nothing, is(FreshnessState::Fresh, "No posts are scheduled"));
        let soon_late = answers(demand);
        assert_eq!(soon_late.0, FreshnessState::Fresh);
        assert!(soon_late.1.contains(", but that will not last: the demand is 2.00 × the quota"), "{}", soon_late.1);
    }

    #[test]
    fn items_are_called_by_the_word_of_their_kind() {
        let of = |change: fn(&mut Reading)| {
            let mut reading = reading();
            change(&mut reading);
            let snapshot =
                Snapshot::new(reading, None, &FigureSettings { words: ItemWords::ACCOUNTS, ..terms() }, CAPABILITIES);
            Headline::from_reading(&reading_of(snapshot)).sentence
        };
        assert_eq!(of(|_| {}), "All 100,000 accounts are up to date (by a sample of 2,000)");
        let nothing = of(|reading| (reading.stats.lanes, reading.due) = (vec![], vec![]));
        assert_eq!(nothing, "No accounts are scheduled");
        let missing = of(|reading| hourly(reading).missing = 500);
        assert!(
            missing.starts_with("Late: 48,000 of 100,000 accounts are missing from the latest answers"),
            "{missing}"
        );
        // Its quota is a hundredth of its demand: the remedy names the settings of accounts.
        let scarce = of(|reading| reading.accounts[0].limit = Some(9));
        assert!(scarce.ends_with("times as long (accounts.active, idle and frozen)"), "{scarce}");
    }

    #[test]
    fn what_is_meant_to_wait_is_not_late() {
        let judged = answers(|reading| {
            let lane = LaneStats { lane: "judged".to_owned(), patience_ms: 3_600_000, ..LaneStats::default() };
            let sample = Sample {
                lane: Some(lane.lane.clone()),
                patience_ms: Some(lane.patience_ms),
                order: Order::OldestFirst,
                total: 10,
                ids: vec!["1".to_owned(); 10],
            };
            // A month ago.
            let rows = vec![standing(30 * 86_400_000, false); 10];
            reading.measured.of =
                Some(vec![LaneMeasurement::from_rows(&sample, &rows, &terms(), NOW), measured(None, 0)]);
            reading.stats.lanes = vec![LaneStats { delayed: 10, order: Order::OldestFirst, ..lane }];
        });
        assert_eq!(judged, is(FreshnessState::Fresh, "All 10 posts are up to date"));
    }

    #[test]
    fn an_empty_queue_is_green_only_if_nothing_is_lost_and_not_all_are_dead() {
        let empty = |change: fn(&mut Reading)| {
            answers(|reading| {
                (reading.stats.lanes, reading.due) = (vec![], vec![]);
                reading.measured.of = Some(vec![measured(None, 0)]);
                change(reading);
            })
        };
        assert_eq!(empty(|_| {}), is(FreshnessState::Fresh, "No posts are scheduled"));
        let lost = "Stopped: the queue is empty, and the store has live posts; run `twitter-updater rebuild`";
        assert_eq!(empty(|reading| reading.measured.has_lost = true), is(FreshnessState::Stopped, lost));
        assert_eq!(
            answers(|reading| reading.measured.has_lost = true).0,
            FreshnessState::Fresh,
            "it is not empty any more"
        );
        let dead = |dead| format!("Late: {dead} dead; see `twitter-updater dead`");
        assert_eq!(empty(|reading| reading.stats.dead = 1_200), is(FreshnessState::Late, &dead("all 1,200 posts are")));
        assert_eq!(empty(|reading| reading.stats.dead = 1), is(FreshnessState::Late, &dead("the only post is")));
        assert_eq!(answers(|reading| reading.stats.dead = 1_200).0, FreshnessState::Fresh);
        let unread = empty(|reading| reading.measured.error = Some("no route".to_owned()));
        assert_eq!(unread, is(FreshnessState::Unknown, "Unknown: the stored answers cannot be read: no route"));
    }

    #[test]
    fn few_posts_are_not_hidden_behind_a_hundredth() {
        let of_fifty = |late| {
            answers(|reading| {
                reading.stats.lanes.truncate(1);
                reading.stats.lanes[0].delayed = 50;
                reading.measured.of =
                    Some(vec![LaneMeasurement { late, ..measured(Some("18m"), 50) }, measured(None, 0)]);
            })
        };
        assert_eq!(
            (of_fifty(1).0, of_fifty(2).0, of_fifty(50).0),
            (FreshnessState::Fresh, FreshnessState::Late, FreshnessState::Late)
        );
    }

    #[test]
    fn late_says_why_and_how_to_fix_it() {
        let late =
            "Late: 4,800 of 100,000 posts are not up to date (by a sample of 2,000), the oldest is overdue by 6s: ";
        let says = |why: &str| is(FreshnessState::Late, &format!("{late}{why}"));
        let of = |change: fn(&mut Reading)| {
            answers(|reading| {
                late_by(reading, 50);
                change(reading);
            })
        };
        assert_eq!(
            of(demand),
            says(
                "the demand is 2.00 × the quota; to fix it: 1 more app-only credential or 1 user credential, or \
                 intervals 2.00 times as long (tweet_age)"
            )
        );
        assert_eq!(
            of(|reading| {
                reading.minutes[1].counters = [("requests".to_owned(), 50), ("requests_failed".to_owned(), 50)].into();
            }),
            says("50 of the last 90 calls to the API failed")
        );
        assert_eq!(
            of(|reading| reading.stats.expired = 16),
            says("16 are leased by workers that died or hang; another worker takes them over")
        );
        assert!(
            of(|reading| {
                demand(reading);
                reading.accounts.push(named("not used yet"));
            })
            .1
            .contains("the only worker"),
            "with it the quota may suffice"
        );
        assert_eq!(
            of(|reading| {
                reading.stats.workers.push(reading.stats.workers[0].clone());
                trouble(reading, 1);
            }),
            says("a worker cannot work: the API is not available: refused")
        );
        assert_eq!(
            of(|reading| reading.minutes[1].counters.insert("lookup_ms".to_owned(), 400_000).map_or((), drop)),
            says("calls to the API take 5s on average")
        );
        assert_eq!(
            of(|reading| reading.minutes[1].counters.insert("broken".to_owned(), 6_000).map_or((), drop)),
            says("6,000 of the last answers could not be read")
        );
        // 8,000 updates in 80 s.
        let slow = "100 per second; if the backlog grows, add workers or raise updater.concurrency";
        assert_eq!(of(|_| {}), says(&format!("the only worker updates {slow}")));
        assert_eq!(
            of(|reading| reading.stats.workers.push(reading.stats.workers[0].clone())),
            says(&format!("2 workers update {slow}"))
        );
    }

    #[test]
    fn late_is_also_a_post_that_waits_for_a_whole_interval_or_was_lost_with_a_worker() {
        let starved = answers(|reading| reading.stats.lanes[0].oldest_lateness_ms = 185_001);
        assert_eq!(starved.0, FreshnessState::Late, "{}", starved.1);
        assert_eq!(answers(|reading| reading.stats.lanes[0].oldest_lateness_ms = 185_000).0, FreshnessState::Fresh);
        assert_eq!(answers(|reading| reading.stats.expired = 101).0, FreshnessState::Late);
        assert_eq!(answers(|reading| reading.stats.expired = 100).0, FreshnessState::Fresh);
    }

    #[test]
    fn posts_that_the_api_leaves_out_are_not_up_to_date() {
        assert_eq!(answers(|reading| hourly(reading).missing = 52).0, FreshnessState::Fresh, "people delete posts");
        assert_eq!(
            answers(|reading| hourly(reading).missing = 500),
            is(
                FreshnessState::Late,
                "Late: 48,000 of 100,000 posts are missing from the latest answers (by a sample of 2,000): the API leaves them \
                 out, or they were deleted; a miss counts only when it lasts"
            )
        );
    }

    #[test]
    fn new_posts_that_are_not_collected_are_reported() {
        let polls_not = |snapshot| LatestReading {
            pollers: Some("new posts are not collected: no poller".to_owned()),
            ..reading_of(snapshot)
        };
        let answer = Headline::from_reading(&polls_not(snapshot(reading(), None)));
        assert_eq!(
            (answer.state, &*answer.sentence),
            (FreshnessState::Late, "Late: new posts are not collected: no poller")
        );
    }

    #[test]
    fn stopped_while_nothing_can_be_updated() {
        let stopped = |change: fn(&mut Reading)| {
            let (state, sentence) = answers(change);
            assert_eq!(state, FreshnessState::Stopped, "{sentence}");
            sentence
        };
        let paused = stopped(|reading| reading.stats.paused = Some("the\nAPI moves".to_owned()));
        assert!(paused.starts_with("Stopped: it is paused: ") && !paused.contains('\n'), "{paused}");
        assert_eq!(
            stopped(|reading| reading.stats.workers.clear()),
            "Stopped: no worker is running; start `twitter-updater updater`"
        );
        assert_eq!(
            stopped(|reading| reading.stats.workers[0].beat_age_ms = 12_999),
            "Stopped: no worker heartbeat for 12s; start `twitter-updater updater`"
        );
        assert_eq!(
            stopped(park),
            "Stopped: the only credential is parked, main for another 1m 1s: its account is locked"
        );
        assert!(
            answers(|reading| {
                park(reading);
                reading.accounts.push(named("spare"));
            })
            .0 == FreshnessState::Fresh,
            "another one can be used"
        );
        assert_eq!(
            stopped(|reading| trouble(reading, 0)),
            "Stopped: the only worker cannot work since 2026-01-31T09:30:00Z: the API is not available: refused"
        );
        assert!(
            answers(|reading| {
                reading.stats.workers.push(reading.stats.workers[0].clone());
                trouble(reading, 0);
            })
            .0 == FreshnessState::Fresh,
            "another one works"
        );
        assert!(
            stopped(|reading| {
                reading.stats.workers.push(WorkerStats { beat_age_ms: 50_000, ..reading.stats.workers[0].clone() });
                trouble(reading, 0);
            })
            .contains("the only worker cannot work"),
            "the other one has gone"
        );
        assert_eq!(
            stopped(|reading| {
                reading.stats.fence_ahead_ms = 3_660_000;
                hourly(reading).ahead = 1;
            }),
            "Stopped: the queue's clock stepped back by about 1h: nothing comes due until it has caught up; set the \
             clock right"
        );
        assert_eq!(
            answers(|reading| reading.stats.fence_ahead_ms = 3_660_000).0,
            FreshnessState::Fresh,
            "a longer lease"
        );
        assert!(
            stopped(|reading| {
                reading.stats.fence_ahead_ms = 3_660_000;
                hourly(reading).ahead = 1;
                reading.stats.workers[0].beat_age_ms = 3_595_000;
            })
            .contains("the queue's clock stepped back"),
            "the last heartbeat is from before it did"
        );
        let reads = BudgetStatus {
            reads: 2_000,
            limit: Some(2_000),
            spent: true,
            since_ms: 0,
            reset_in_ms: 1,
            today: 7,
            dollars: 5.0,
            has_room: false,
        };
        let spent = answers(|reading| reading.reads = Some(reads.clone()));
        let says = "the budget of reads is spent, 2,000 of 2,000; calls continue at the reset in 1s";
        assert!(spent.0 == FreshnessState::Stopped && spent.1.contains(says), "{}", spent.1);
        let left = BudgetStatus { reads: 1_999, spent: false, ..reads };
        assert_eq!(answers(|reading| reading.reads = Some(left)).0, FreshnessState::Fresh);
        let out = Outage { why: "no route\nto host".to_owned(), since_ms: Some(1_769_851_800_000) };
        assert_eq!(
            Headline::from_reading(&reading_of(snapshot(reading(), Some(out)))).sentence,
            "Stopped: the store does not answer since 2026-01-31T09:30:00Z, nothing can be saved: no route to host"
        );
    }

    #[test]
    fn unknown_without_recent_readings_of_queue_and_store() {
        let outage = Some(Outage { why: "no route".to_owned(), since_ms: Some(1_769_851_800_000) });
        let last = LatestReading { outage: outage.clone(), ..reading_of(snapshot(reading(), None)) };
        for seen in [last, LatestReading { outage, ..LatestReading::default() }] {
            assert_eq!(
                Headline::from_reading(&seen),
                FreshnessState::Unknown.with_sentence(
                    "Unknown: the queue does not answer since 2026-01-31T09:30:00Z: no route".to_owned()
                )
            );
        }
        let once = LatestReading {
            outage: Some(Outage { why: "no route".to_owned(), since_ms: None }),
            ..LatestReading::default()
        };
        assert_eq!(Headline::from_reading(&once).sentence, "Unknown: the queue does not answer: no route");
        assert_eq!(Headline::from_reading(&LatestReading::default()).state, FreshnessState::Unknown);
        let unread = |change: fn(&mut Measurement)| answers(|reading| change(&mut reading.measured));
        assert_eq!(
            unread(|measured| *measured = Measurement { error: Some("no route".to_owned()), ..Measurement::default() }),
            is(FreshnessState::Unknown, "Unknown: the stored answers cannot be read: no route")
        );
        assert_eq!(unread(|measured| measured.at_ms = Some(NOW - 20_001)).0, FreshnessState::Unknown);
        assert_eq!(unread(|measured| measured.at_ms = Some(NOW - 20_000)).0, FreshnessState::Fresh);
        let slow = |ago| answers(|of| (of.measured.at_ms, of.measured.for_ms) = (Some(NOW - ago), 30_000)).0;
        assert_eq!(
            (slow(50_000), slow(50_001)),
            (FreshnessState::Fresh, FreshnessState::Unknown),
            "measuring takes three seconds"
        );
        let ahead = unread(|measured| measured.of.as_mut().unwrap()[1].ahead = 900);
        let new = unread(|measured| drop(measured.of.as_mut().unwrap().remove(0)));
        assert_eq!(
            new,
            is(FreshnessState::Unknown, "Unknown: the answers of 4,000 of 100,000 posts were not read yet")
        );
        assert!(ahead.0 == FreshnessState::Unknown && ahead.1.contains("stepped back"), "{}", ahead.1);
    }

    #[test]
    fn the_first_reason_is_given() {
        type Change = fn(&mut Reading);
        let changes: [(Change, &str); 7] = [
            (|reading| reading.stats.expired = 500, "died or hang"),
            (|reading| reading.minutes[1].counters = [("requests_failed".to_owned(), 99)].into(), "failed"),
            (demand, "demand"),
            (|reading| hourly(reading).missing = 500, "missing"),
            (park, "parked"),
            (|reading| reading.stats.workers.clear(), "no worker"),
            (|reading| reading.stats.paused = Some("why".to_owned()), "paused"),
        ];
        let mut reading = reading();
        late_by(&mut reading, 50);
        for (change, says) in changes {
            change(&mut reading);
            let sentence = Headline::from_reading(&reading_of(snapshot(reading.clone(), None))).sentence;
            assert!(sentence.contains(says), "{says}: {sentence}");
        }
        let out = Outage { why: "no route".to_owned(), since_ms: None };
        let mut worst = reading_of(snapshot(reading, Some(out.clone())));
        assert!(Headline::from_reading(&worst).sentence.contains("the store does not answer"));
        worst.outage = Some(out);
        assert!(Headline::from_reading(&worst).sentence.contains("the queue does not answer"));
    }

    #[test]
    fn a_wave_is_known_by_the_minutes() {
        let mut reading = reading();
        reading.minutes[1].counters =
            [(mass_miss_alert::MISSED.to_owned(), 400), (mass_miss_alert::FOUND.to_owned(), 400)].into();
        assert!(snapshot(reading, None).wave.is_some_and(|wave| wave.lasts()));
    }

    #[test]
    fn a_mass_miss_alert_is_never_green() {
        let wave = |found| {
            answers(|reading| {
                let first = reading.minutes[0].clone();
                reading.minutes.insert(0, first);
                reading.minutes[0].counters = [(mass_miss_alert::FOUND.to_owned(), 4_000)].into();
                reading.minutes[1].counters = [(mass_miss_alert::MISSED.to_owned(), 400)].into();
                reading.minutes[2].counters = [(mass_miss_alert::FOUND.to_owned(), found)].into();
            })
        };
        let (state, sentence) = wave(0);
        assert_eq!(state, FreshnessState::Late, "{sentence}");
        assert!(sentence.contains("mass-miss alert since") && sentence.contains("400 of the latest 400"), "{sentence}");
        assert_eq!(wave(400).0, FreshnessState::Fresh, "it is over");
    }

    /// Sets the times of the worker's last failed and last answered call, in ms before now.
    fn calls(reading: &mut Reading, worker: usize, failed_ago: Option<Millis>, answered_ago: Option<Millis>) {
        let moment = |ago: Option<Millis>| ago.map_or_else(|| "0".to_owned(), |ago| (NOW - ago).to_string());
        let why = failed_ago.map_or("", |_| "the API is not available: HTTP 503");
        let said = [
            (WorkerStats::CALL_FAILED, why.to_owned()),
            (WorkerStats::CALL_FAILED_AT, moment(failed_ago)),
            (WorkerStats::CALL_ANSWERED_AT, moment(answered_ago)),
        ];
        reading.stats.workers[worker].fields.extend(said.map(|(field, said)| (field.to_owned(), said)));
    }

    #[test]
    fn a_failed_last_call_is_never_green() {
        let one = |failed_ago, answered_ago| answers(|reading| calls(reading, 0, failed_ago, answered_ago));
        assert_eq!(one(None, Some(1_000)).0, FreshnessState::Fresh);
        assert_eq!(
            one(Some(3_600_000), Some(3_700_000)),
            is(
                FreshnessState::Late,
                "Late: the last call failed at 2027-01-15T07:00:20Z: the API is not available: HTTP 503; an answered call \
                 clears this, and the next post is due"
            )
        );
        let idle = answers(|reading| {
            calls(reading, 0, Some(9), None);
            reading.due.iter_mut().for_each(|lane| lane.counts = vec![0, 0, 0, 0, 8]);
        });
        assert!(idle.0 == FreshnessState::Late && idle.1.ends_with("the next post is due within 3m"), "{}", idle.1);
        let later = answers(|reading| {
            calls(reading, 0, Some(9), None);
            reading.due.clear();
        });
        assert!(later.1.ends_with("the next post is not due within an hour"), "{}", later.1);
    }

    #[test]
    fn the_last_call_is_that_of_all_workers() {
        let two = |change: fn(&mut Reading)| {
            answers(|reading| {
                reading.stats.workers.push(reading.stats.workers[0].clone());
                change(reading);
            })
            .0
        };
        assert_eq!(
            two(|reading| calls(reading, 0, Some(60_000), None)),
            FreshnessState::Late,
            "the other one says nothing"
        );
        let before = two(|reading| {
            calls(reading, 0, Some(5_000), Some(9_000));
            calls(reading, 1, None, Some(1_000));
        });
        assert_eq!(before, FreshnessState::Late, "it meets an outage of its own, and tries again soon");
        let after = two(|reading| {
            calls(reading, 0, Some(60_000), None);
            calls(reading, 1, None, Some(1_000));
        });
        assert_eq!(after, FreshnessState::Fresh, "the other one is answered, and this one has had nothing to do since");
        // The worker whose call failed was restarted: only the minutes show the failure.
        let restarted = |failed| answers(|reading| idle_with(reading, failed)).0;
        fn idle_with(reading: &mut Reading, failed: i64) {
            reading.minutes[0].counters = [("requests".to_owned(), 3), ("requests_failed".to_owned(), failed)].into();
            reading.minutes[1].counters.clear();
        }
        assert_eq!((restarted(3), restarted(2)), (FreshnessState::Late, FreshnessState::Fresh));
        assert_eq!(
            two(|reading| {
                idle_with(reading, 3);
                calls(reading, 1, None, Some(1_000))
            }),
            FreshnessState::Fresh
        );
    }

    /// A generated post: its lane (`None`: leased), the age of its last answer, and true if it is missing.
    type Post = (Option<bool>, Millis, bool);

    fn standing(age: Millis, missing: bool) -> Option<Standing> {
        Some(Standing {
            state: ItemState::Live,
            // Leased ones belong to the hourly lane.
            created_at: Some(NOW - 20 * 3_600_000),
            checked_at: Some(NOW - age),
            misses: i64::from(missing),
            missing_since: missing.then_some(NOW - age),
            first_seen: NOW - 30 * 3_600_000,
            lookups: 9,
            ..Standing::default()
        })
    }

    fn of_posts(posts: &[Post]) -> Reading {
        let mut reading = reading();
        let lanes =
            [(Some(true), Some("18m"), Some(180_000)), (Some(false), Some("1d"), Some(3_600_000)), (None, None, None)];
        let mut of = Vec::new();
        for (lane, name, patience_ms) in lanes {
            let rows: Vec<_> =
                posts.iter().filter(|post| post.0 == lane).map(|post| standing(post.1, post.2)).collect();
            let ids = vec!["1".to_owned(); rows.len()];
            let sample = Sample {
                lane: name.map(str::to_owned),
                patience_ms,
                order: Default::default(),
                total: rows.len() as u64,
                ids,
            };
            of.push(LaneMeasurement::from_rows(&sample, &rows, &terms(), NOW));
            match reading.stats.lanes.iter_mut().find(|lane| Some(&*lane.lane) == name) {
                Some(lane) => lane.delayed = rows.len() as u64,
                None => reading.stats.leased = rows.len() as u64,
            }
        }
        reading.measured.of = Some(of);
        reading
    }

    proptest! {
        // Green is proved: all but the tolerated shares were answered within interval and buffer TTL, and no known problem stops
        // updates. Posts in flight have two more seconds.
        #[test]
        fn green_implies_that_posts_are_up_to_date(
            young in prop::collection::vec((Just(Some(true)), 0..200_000i64, prop::bool::weighted(0.02)), 0..300),
            old in prop::collection::vec((Just(Some(false)), 0..3_650_000i64, prop::bool::weighted(0.02)), 0..300),
            leased in prop::collection::vec((Just(None), 0..3_650_000i64, prop::bool::weighted(0.02)), 0..30),
            squeeze in 0..3u8,
            workers in 0..3usize,
            beat_age_ms in 0..30_000i64,
            in_trouble in 0..3usize,
            expired in 0..300u64,
            paused: bool,
            measured_ago in 0..40_000i64,
        ) {
            // Most worlds are fresh, or none would be green.
            let squeeze = |post: Post| (post.0, if squeeze > 0 { post.1 * 9 / 10 } else { post.1 }, post.2 && squeeze == 2);
            let posts: Vec<Post> = [young, old, leased].concat().into_iter().map(squeeze).collect();
            let mut reading = of_posts(&posts);
            let worker = WorkerStats { beat_age_ms, ..reading.stats.workers[0].clone() };
            reading.stats.workers = vec![worker; workers];
            for worker in 0..in_trouble.min(workers) {
                trouble(&mut reading, worker);
            }
            reading.stats.expired = expired;
            reading.stats.paused = (paused && measured_ago > 30_000).then(|| "why".to_owned());
            reading.measured.at_ms = Some(NOW - measured_ago);
            let is_paused = reading.stats.paused.is_some();
            if Headline::from_reading(&reading_of(snapshot(reading, None))).state == FreshnessState::Fresh {
                let limit = |post: &Post| match post.0 {
                    Some(true) => 180_000 + BUFFER_TTL_MS,
                    Some(false) => 3_600_000 + BUFFER_TTL_MS,
                    None => 3_600_000 + BUFFER_TTL_MS + crate::ops::IN_FLIGHT_MS,
                };
                let late = posts.iter().filter(|post| !post.2 && post.1 > limit(post)).count();
                let missing = posts.iter().filter(|post| post.2).count();
                prop_assert!(late <= (posts.len() / 100).max(1), "{late} of {}", posts.len());
                prop_assert!(missing <= (posts.len() / 20).max(2), "{missing} of {}", posts.len());
                prop_assert!(workers > in_trouble && beat_age_ms <= 12_000 && !is_paused);
                prop_assert!(posts.is_empty() || measured_ago <= 20_000);
            }
        }
    }

    // 297 lists, of which `unread` were never read. None is read within the interval.
    fn lists(reading: &mut Reading, unread: u64, calls: i64) {
        let revisit = VisitIntervals::new(3_600_000, 0, 0);
        reading.lists = Some(ListBacklog {
            figures: Some(ListFigures {
                lists: 297,
                unread,
                unread_overdue: unread,
                interval_ms: revisit.revisit_ms,
                first_calls: unread,
                upkeep_calls_per_15_min: 297.0 / 4.0,
                ..ListFigures::default()
            }),
            error: None,
        });
        let lane = &mut reading.stats.lanes[1];
        (lane.delayed, lane.order) = (297, Order::NewestFirst);
        reading.stats.lanes.remove(0);
        reading.due.clear();
        let of = LaneMeasurement { late: unread, oldest_ms: 7_200_000, ..measured(Some("1d"), 297) };
        reading.measured.of = Some(vec![of]);
        reading.accounts[0].limit = Some(15);
        reading.minutes[1].counters.insert("requests_failed".to_owned(), calls);
        reading.minutes[1].counters.insert("requests".to_owned(), 40);
    }

    #[test]
    fn lists_that_were_never_read_within_their_interval_are_not_green() {
        let says = "Late: 295 of 297 lists are not up to date, the oldest is overdue by 2h: 295 lists were never read, \
                    although each is due within 1h; their first reads need 295 calls, which take 4h 55m by the quota; to fix it: 4 more app-only \
                    credentials or 4 user credentials, or intervals 4.93 times as long (relations.revisit), or fewer lists";
        let shown = |unread, calls, change: fn(&mut Reading)| {
            let mut reading = reading();
            lists(&mut reading, unread, calls);
            change(&mut reading);
            let snapshot = Snapshot { words: ItemWords::LISTS, ..snapshot(reading, None) };
            let Headline { state, sentence } = Headline::from_reading(&reading_of(snapshot));
            (state, sentence)
        };
        assert_eq!(shown(295, 0, |_| {}), is(FreshnessState::Late, says));
        let enough = shown(295, 0, |reading| reading.accounts[0].limit = Some(900)).1;
        assert!(enough.ends_with("more credentials, longer intervals (relations.revisit) or fewer lists"), "{enough}");
        let unknown = shown(295, 0, |reading| reading.accounts[0].limit = None).1;
        assert!(unknown.contains("need 295 calls, and the quota is unknown; to fix it: more"), "{unknown}");
        // Failing calls are another cause.
        let fails = shown(295, 45, |_| {}).1;
        assert!(!fails.contains("never read"), "{fails}");
        let fresh = shown(0, 0, |_| {});
        assert_eq!(fresh.0, FreshnessState::Fresh, "{}", fresh.1);
        assert!(fresh.1.contains("but that will not last: the demand is 4.95 × the quota"), "{}", fresh.1);
        assert_eq!(shown(2, 0, |_| {}).0, FreshnessState::Fresh, "one in a hundred may wait");
    }

    #[test]
    fn several_namespaces_are_as_the_worst_of_them() {
        use FreshnessState::{Fresh, Late, Stopped, Unknown};
        let of = |states: &[(&str, FreshnessState)]| {
            let answer = Headline::summarize(states);
            (answer.state, answer.sentence)
        };
        assert_eq!(of(&[("a", Fresh), ("b", Fresh)]), (Fresh, "Fresh: all 2 namespaces".to_owned()));
        assert_eq!(of(&[("a", Fresh), ("b", Late)]), (Late, "Late: b; fresh: a".to_owned()));
        assert_eq!(
            of(&[("a", Unknown), ("b", Late), ("c", Stopped), ("d", Late), ("e", Fresh)]),
            (Stopped, "Stopped: c; unknown: a; late: b, d; fresh: e".to_owned())
        );
        let many: Vec<(&str, FreshnessState)> = ["a", "b", "c", "d"].map(|name| (name, Fresh)).into();
        let most = [&many[..], &[("x", Unknown)]].concat();
        assert_eq!(of(&most), (Unknown, "Unknown: x; fresh: the 4 others".to_owned()));
        assert_eq!(of(&[("a", Stopped), ("b", Stopped)]), (Stopped, "Stopped: all 2 namespaces".to_owned()));
        assert_eq!(of(&[]).0, Unknown);
    }
}
