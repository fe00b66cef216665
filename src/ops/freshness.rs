//! The freshness of posts, measured from stored answers. Due times do not show it: a post may have had no answer for days.
//!
//! Ids are drawn at random from each lane and from the leased ids. Only [`measure_freshness`] does I/O.

use std::sync::Arc;

use serde::Serialize;

use crate::ops::NoAnswer;
use crate::ops::figure_settings::FigureSettings;
use engine::base::clock::{self, Millis};
use engine::queue::{Queue, Sample};
use engine::schedule::adaptive::budget::Normaliser;
use engine::schedule::adaptive::grid::updates_per_patience;
use engine::schedule::{Next, Schedule, ScheduledItem, corrected};
use networks::model::post::ItemState;
use store::{BudgetCorrections, Listing, Standing, Store, StoreError};

/// Maximum number of ids drawn per lane. If a hundredth of a lane is late, one reading in 23,000 misses it.
pub const SAMPLE_SIZE: usize = 1_000;
/// Additional time that a leased post may be late: its call has started, or its answer is being saved.
pub const IN_FLIGHT_MS: Millis = 2_000;
/// A stored answer further ahead of the queue's clock than this shows that the clock stepped back.
const AHEAD_MS: Millis = 60_000;
/// Time, ms, after which a recorded item must be in the queue: each batch of 2,000 is enqueued right after its statement. A longer time
/// would hide the loss of a young queue.
const ENQUEUE_GRACE_MS: Millis = 5_000;
/// The interval of items that are never late, ms: longer than any age.
const NEVER_LATE_MS: Millis = Millis::MAX / 2;

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct LaneMeasurement {
    /// The lane; `None` for the leased ids.
    pub lane: Option<String>,
    pub ids: u64,
    pub sampled: u64,
    /// Drawn ids whose last answer is older than their interval and `updater.buffer_ttl`.
    pub late: u64,
    /// Drawn ids that were found before and are missing from the latest answers. The misses are not confirmed yet.
    pub missing: u64,
    pub waiting: u64,
    pub ahead: u64,
    /// Lateness of the latest drawn id, ms: time since its last answer beyond its interval and tolerance. 0 if none is late.
    pub oldest_ms: Millis,
    /// Interactions expected since the last answers of all its ids; `None` if the schedule estimates none.
    pub unseen: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RowJudgement {
    UpToDate,
    /// Its last answer is too old, by this many ms.
    Late(Millis),
    Missing,
    Waiting,
    Ahead,
}

/// Judges the row of a post that is looked up every `interval` and may be `slack` late, at `now`; all in ms.
fn judge(standing: Option<&Standing>, interval: Millis, slack: Millis, now: Millis) -> RowJudgement {
    let Some(known) = standing else { return RowJudgement::Waiting }; // scheduled without the store
    if matches!(known.state, ItemState::Ended | ItemState::Dead) {
        return RowJudgement::UpToDate; // it leaves the queue at this moment
    }
    if known.is_known_to_live() && known.misses > 0 {
        return RowJudgement::Missing;
    }
    let age = now - known.checked_at.unwrap_or(known.first_seen);
    if age < -AHEAD_MS {
        return RowJudgement::Ahead;
    }
    match (age - interval - slack, known.checked_at) {
        (late, _) if late > 0 => RowJudgement::Late(late),
        (_, None) => RowJudgement::Waiting,
        _ => RowJudgement::UpToDate,
    }
}

impl LaneMeasurement {
    /// Judges the rows of a sample, in its order, at `now`, ms since the epoch.
    #[must_use]
    pub fn from_rows(sample: &Sample, rows: &[Option<Standing>], terms: &FigureSettings, now: Millis) -> Self {
        let mut sum =
            Self { lane: sample.lane.clone(), ids: sample.total, sampled: rows.len() as u64, ..Self::default() };
        let buffer_ttl = clock::millis(terms.buffer_ttl);
        let first_read = terms.lists.as_ref().map_or(NEVER_LATE_MS, |lists| lists.new.revisit_ms);
        sum.unseen = estimate_unseen(sample, rows, terms, now);
        for row in rows {
            let (interval, slack) = match sample.patience_ms {
                // Most items in this lane wait on purpose, so its patience is not an interval. But each list must be read once within its
                // first interval.
                Some(_) if !sample.order.counts_lateness() => match row {
                    Some(Standing { checked_at: None, .. }) => (first_read, 0),
                    _ => (NEVER_LATE_MS, 0),
                },
                Some(patience) => (patience, buffer_ttl),
                None => (row.as_ref().map_or(0, |row| longest_interval(row, terms)), buffer_ttl + IN_FLIGHT_MS),
            };
            match judge(row.as_ref(), interval, slack, now) {
                RowJudgement::UpToDate => {}
                RowJudgement::Late(by) => {
                    sum.late += 1;
                    sum.oldest_ms = sum.oldest_ms.max(by);
                }
                RowJudgement::Missing => sum.missing += 1,
                RowJudgement::Waiting => sum.waiting += 1,
                RowJudgement::Ahead => sum.ahead += 1,
            }
        }
        sum
    }

    #[must_use]
    pub fn is_up_to_date(&self) -> bool {
        self.late + self.missing + self.ahead == 0
    }

    /// Scales a number of drawn ids to all ids of the lane. The result is 0 only if `drawn` is 0.
    #[must_use]
    pub fn scale_to_lane(&self, drawn: u64) -> u64 {
        if drawn == 0 || self.sampled == 0 {
            return 0;
        }
        let all = (u128::from(drawn) * u128::from(self.ids)).div_ceil(u128::from(self.sampled));
        u64::try_from(all).unwrap_or(u64::MAX).clamp(1, self.ids.max(1))
    }
}

/// Returns the longest possible interval of a leased post, since a lease does not name its lane. It is [`NEVER_LATE_MS`] without an answer.
fn longest_interval(row: &Standing, terms: &FigureSettings) -> Millis {
    let Some(at) = row.checked_at else { return NEVER_LATE_MS };
    let is_never_late = |(lane, _): Next| !lane.order.counts_lateness();
    if terms.schedule.next(&ScheduledItem::new("", None), at).is_some_and(is_never_late) {
        return NEVER_LATE_MS;
    }
    if row.state == ItemState::Unavailable {
        return clock::millis(terms.unavailable_every);
    }
    let longest = |created_at| terms.schedule.longest_interval(&ScheduledItem::new("", created_at), at);
    longest(row.created_at).or_else(|| longest(None)).unwrap_or(0)
}

#[must_use]
pub fn normaliser(learnt: &BudgetCorrections) -> Normaliser {
    Normaliser { price: learnt.price, level: learnt.level }
}

/// Returns the schedule with the stored corrections of its budget.
pub(super) async fn load_corrected_schedule(
    store: &dyn Store,
    namespace: &str,
    schedule: Arc<dyn Schedule>,
) -> Result<Arc<dyn Schedule>, StoreError> {
    if !schedule.needs_history() {
        return Ok(schedule);
    }
    let learnt = store.corrections(namespace).await?;
    let by = learnt.as_ref().map(normaliser).unwrap_or_default();
    Ok(corrected(&schedule, by))
}

fn estimate_unseen(sample: &Sample, rows: &[Option<Standing>], terms: &FigureSettings, now: Millis) -> Option<u64> {
    let lane = sample.lane.as_deref()?;
    let interval = sample.patience_ms? as f64 / updates_per_patience(lane);
    let of = |row: &Standing| {
        let item = ScheduledItem::with_answer("", row.created_at, row.checked_at);
        Some(terms.schedule.budget()?.explain(&item, interval as Millis, now)?.unseen)
    };
    let found: Vec<f64> = rows.iter().flatten().filter_map(of).collect();
    (!found.is_empty()).then(|| (found.iter().sum::<f64>() / rows.len() as f64 * sample.total as f64) as u64)
}

/// Draws ids from the queue and judges their rows. `now` returns the queue's clock, ms since the epoch.
pub async fn measure_freshness(
    queue: &dyn Queue,
    store: &dyn Store,
    terms: &FigureSettings,
    now: impl Fn() -> Millis,
) -> Result<Vec<LaneMeasurement>, NoAnswer> {
    let samples = queue.sample(SAMPLE_SIZE).await?;
    let schedule = load_corrected_schedule(store, queue.namespace(), terms.schedule.clone()).await?;
    let terms = &FigureSettings { schedule, ..terms.clone() };
    let mut measured = Vec::with_capacity(samples.len());
    for sample in &samples {
        // The time is taken before the rows are read: rows saved meanwhile only look younger.
        let at = now();
        let rows = match sample.ids.is_empty() {
            true => Vec::new(),
            false => store.standing(queue.namespace(), &sample.ids).await?,
        };
        measured.push(LaneMeasurement::from_rows(sample, &rows, terms, at));
    }
    Ok(measured)
}

/// Returns true if an empty queue has lost its items: the store has had a live item for longer than `ENQUEUE_GRACE_MS`.
pub(super) async fn has_lost_items(store: &dyn Store, namespace: &str, now: Millis) -> Result<bool, StoreError> {
    let living = store.page(namespace, Listing::Tracked, None, 1).await?;
    let ids: Vec<String> = living.into_iter().map(|row| row.id).collect();
    let rows = store.standing(namespace, &ids).await?;
    Ok(rows.iter().flatten().any(|row| now - row.first_seen > ENQUEUE_GRACE_MS))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use collect::pipelines::community::schedule::JudgementSchedule;
    use collect::pipelines::kind::{ListPages, ListTerms, VisitIntervals};
    use engine::lane::{Lane, Order};

    const NOW: Millis = 1_800_000_000_000;

    fn standing(age: Option<Millis>) -> Standing {
        Standing {
            state: ItemState::Live,
            created_at: Some(NOW - 600_000),
            checked_at: age.map(|age| NOW - age),
            misses: 0,
            missing_since: None,
            first_seen: NOW - 170_000,
            lookups: i64::from(age.is_some()),
            ..Standing::default()
        }
    }

    #[test]
    fn a_list_is_late_if_it_was_never_read_within_its_interval() {
        let new = VisitIntervals::new(169_000, 0, 0);
        let lists = ListTerms { pages: ListPages { page: 1, longest: 0 }, new, tiers: Vec::new() };
        let sample =
            |order| Sample { lane: Some("new".to_owned()), patience_ms: Some(9), order, total: 3, ids: Vec::new() };
        // Both were recorded 170 s ago. One was read long ago, and waits on purpose.
        let rows = [Some(standing(None)), Some(standing(Some(9_000_000))), None];
        let late = |order, lists: Option<ListTerms>| {
            let terms = FigureSettings { lists, ..FigureSettings::usual() };
            let of = LaneMeasurement::from_rows(&sample(order), &rows, &terms, NOW);
            (of.late, of.waiting, of.oldest_ms)
        };
        assert_eq!(late(Order::NewestFirst, Some(lists.clone())), (1, 1, 1_000));
        let patient = ListTerms { new: VisitIntervals::new(170_000, 0, 0), ..lists };
        assert_eq!(late(Order::NewestFirst, Some(patient)), (0, 2, 0));
        assert_eq!(late(Order::NewestFirst, None), (0, 2, 0), "accounts wait for their first lookup");
    }

    #[test]
    fn a_post_is_late_by_its_last_answer_and_not_by_its_due_time() {
        let judged = |row: Option<Standing>| judge(row.as_ref(), 180_000, 5_000, NOW);
        assert_eq!(judged(Some(standing(Some(185_000)))), RowJudgement::UpToDate);
        assert_eq!(judged(Some(standing(Some(185_001)))), RowJudgement::Late(1));
        assert_eq!(judged(Some(standing(None))), RowJudgement::Waiting);
        assert_eq!(judged(Some(Standing { first_seen: NOW - 200_000, ..standing(None) })), RowJudgement::Late(15_000));
        assert_eq!(judged(None), RowJudgement::Waiting);
        assert_eq!(judged(Some(standing(Some(-3_600_000)))), RowJudgement::Ahead);
        let missing = Standing { misses: 2, lookups: 9, missing_since: Some(NOW - 9), ..standing(Some(10)) };
        assert_eq!(judged(Some(missing.clone())), RowJudgement::Missing);
        assert_eq!(judged(Some(Standing { lookups: 2, ..missing.clone() })), RowJudgement::UpToDate, "never found");
        assert_eq!(judged(Some(Standing { state: ItemState::Unavailable, ..missing.clone() })), RowJudgement::UpToDate);
        assert_eq!(
            judged(Some(Standing { state: ItemState::Ended, ..standing(Some(9_999_999)) })),
            RowJudgement::UpToDate
        );
    }

    #[test]
    fn a_leased_post_has_the_interval_of_its_age_and_a_moment_for_its_call() {
        let sample = Sample {
            lane: None,
            patience_ms: None,
            order: Default::default(),
            total: 40,
            ids: vec!["1".into(), "2".into()],
        };
        let of = |age| {
            LaneMeasurement::from_rows(&sample, &[Some(standing(Some(age))), None], &FigureSettings::usual(), NOW)
        };
        let fine = of(187_000);
        assert_eq!((fine.late, fine.waiting, fine.sampled, fine.ids), (0, 1, 2, 40));
        let late = of(187_001);
        assert_eq!((late.late, late.oldest_ms, late.scale_to_lane(late.late)), (1, 1, 20));
    }

    #[test]
    fn what_is_meant_to_wait_is_never_late() {
        let rows = [Some(standing(Some(9_000_000_000))), Some(standing(None)), None];
        let judged = |lane: Option<Lane>, terms: &FigureSettings| {
            let sample = Sample {
                lane: lane.as_ref().map(|lane| lane.name.to_string()),
                patience_ms: lane.as_ref().map(|lane| lane.patience),
                order: lane.map(|lane| lane.order).unwrap_or_default(),
                total: 3,
                ids: vec!["1".into(), "2".into(), "3".into()],
            };
            let LaneMeasurement { late, waiting, oldest_ms, .. } =
                LaneMeasurement::from_rows(&sample, &rows, terms, NOW + 9_000_000_000);
            (late, waiting, oldest_ms)
        };
        let usual = FigureSettings::usual();
        let hour = || Lane::new("1d", Duration::from_secs(3_600));
        assert_eq!(judged(Some(hour()), &usual).0, 2, "in a lane by lateness, both of these rows are");
        for order in [Order::OldestFirst, Order::NewestFirst] {
            assert_eq!(judged(Some(hour().with_order(order)), &usual), (0, 2, 0), "{order:?}");
        }
        assert_eq!(judged(Some(Lane::first()), &usual), (0, 2, 0), "a large first load");
        // In flight: a post that was answered has its interval, one that was not has none.
        assert_eq!((judged(None, &usual).0, judged(None, &usual).1), (1, 2));
        let community = FigureSettings {
            schedule: Arc::new(JudgementSchedule { interval: Duration::from_secs(9) }),
            ..FigureSettings::usual()
        };
        assert_eq!(judged(None, &community), (0, 2, 0));
    }

    #[test]
    fn what_was_drawn_is_never_scaled_to_nothing() {
        let measured = LaneMeasurement { ids: 3, sampled: 1_000, ..LaneMeasurement::default() };
        assert_eq!((measured.scale_to_lane(0), measured.scale_to_lane(1), measured.scale_to_lane(1_000)), (0, 1, 3));
        let large = LaneMeasurement { ids: 2_000_000, sampled: 1_000, ..LaneMeasurement::default() };
        assert_eq!((large.scale_to_lane(1), large.scale_to_lane(1_000)), (2_000, 2_000_000));
    }
}
