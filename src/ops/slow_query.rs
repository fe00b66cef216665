//! Slow queries to the store, which count all rows. Each runs at most once at a time, and for a tenth of the time at most. It continues
//! after its caller stops waiting.

use std::time::Duration;

use tokio_util::task::AbortOnDropHandle;

use super::NoAnswer;
use super::pace::Pace;
use super::snapshot::Outage;
use engine::base::clock::Stopwatch;
use engine::base::task;

/// Maximum time until a query is repeated. By then its answer is outdated, and a pending query is given up.
const MAX_WAIT: Duration = Duration::from_secs(600);

/// A running query, whose result has its duration; and its start.
type PendingQuery<R> = (AbortOnDropHandle<(Result<R, NoAnswer>, Duration)>, Stopwatch);

#[derive(Debug)]
pub(super) struct SlowQuery<R, T> {
    pub answer: Option<T>,
    /// Start of the last answered query, and the time from it until the next one.
    answered: Option<(Stopwatch, Duration)>,
    /// A query that was not answered in time. The store still works on it, so it is not repeated.
    pending: Option<PendingQuery<R>>,
    pace: Pace,
}

impl<R, T> Default for SlowQuery<R, T> {
    fn default() -> Self {
        Self { answer: None, answered: None, pending: None, pace: Pace::default() }
    }
}

impl<R: Send + 'static, T> SlowQuery<R, T> {
    /// Runs `query` if the last answer is older than `every`, or than ten times its duration. Waits for at most `timeout`. A late answer
    /// replaces the last one at a later call. During `outage` nothing is asked, and its reason is the answer.
    pub(super) async fn refresh<F>(
        &mut self,
        every: Duration,
        timeout: Duration,
        outage: Option<&Outage>,
        query: impl FnOnce() -> F,
        convert: impl Fn(Result<R, NoAnswer>) -> T,
    ) where
        F: Future<Output = Result<R, NoAnswer>> + Send + 'static,
    {
        if let Some(Outage { why, .. }) = outage {
            (self.answer, self.answered) = (Some(convert(Err(NoAnswer::Failed(why.clone())))), None);
            return;
        }
        if self.answered.as_ref().is_some_and(|(since, rest)| since.elapsed() < *rest) {
            return;
        }
        let under_way = self.pending.take().filter(|(_, since)| since.elapsed() < MAX_WAIT);
        // A query that one page waited for delays no other page.
        let wait = if under_way.is_some() { Duration::ZERO } else { timeout };
        let (mut pending, since) = under_way.unwrap_or_else(|| {
            let (watch, answer) = (Stopwatch::start(), query());
            let pending = async move { (answer.await, watch.elapsed()) };
            let pending = task::run_in_task(task::current(), pending);
            (AbortOnDropHandle::new(tokio::spawn(pending)), watch)
        });
        match tokio::time::timeout(wait, &mut pending).await {
            Ok(answer) => {
                let (answer, took) =
                    answer.unwrap_or_else(|ended| (Err(NoAnswer::Failed(ended.to_string())), since.elapsed()));
                self.answer = Some(convert(answer));
                self.answered = Some((since, took + self.pace.pause_after(took, every).min(MAX_WAIT)));
            }
            Err(_) => {
                if self.answered.as_ref().is_none_or(|(since, _)| since.elapsed() > MAX_WAIT * 2) {
                    self.answer = Some(convert(Err(NoAnswer::within_millis("no answer", timeout))));
                }
                self.pending = Some((pending, since));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVERY: Duration = Duration::from_secs(15);
    const PATIENCE: Duration = Duration::from_millis(500);
    const SECOND: Duration = Duration::from_secs(1);

    /// Asks once per second for `seconds`; an answer `takes` that many seconds. Returns the number of queries and each answer shown.
    async fn ask_each_second(
        seconds: usize,
        takes: u32,
        answer: Result<u8, NoAnswer>,
    ) -> (u32, Vec<Result<u8, NoAnswer>>) {
        let (mut counting, mut asked, mut said) = (SlowQuery::default(), 0, Vec::new());
        for _ in 0..seconds {
            let answer = answer.clone();
            let ask = || {
                asked += 1;
                async move {
                    tokio::time::sleep(SECOND * takes).await;
                    answer
                }
            };
            counting.refresh(EVERY, PATIENCE, None, ask, |said| said).await;
            said.extend(counting.answer.clone());
            tokio::time::sleep(SECOND).await;
        }
        (asked, said)
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_count_is_asked_a_tenth_of_the_time_and_shown_when_it_comes() {
        for answer in [Ok(7), Err(NoAnswer::Failed("canceling statement due to statement timeout".to_owned()))] {
            let (asked, said) = ask_each_second(170, 8, answer.clone()).await;
            assert_eq!(asked, 2, "at 0 s and at 88 s: {answer:?}");
            assert_eq!(said[0], Err(NoAnswer::Late("no answer within 500 ms".to_owned())));
            assert_eq!(said[10..], vec![answer; 160], "the last answer stays until the next one comes");
        }
        let (asked, said) = ask_each_second(60, 0, Ok(7)).await;
        assert_eq!((asked, said), (4, vec![Ok(7); 60]));
    }

    #[tokio::test(start_paused = true)]
    async fn what_takes_very_long_is_asked_each_ten_minutes() {
        let (asked, _) = ask_each_second(1_900, 200, Ok(7)).await;
        assert_eq!(asked, 3, "at 0 s, 800 s and 1600 s");
        let (asked, said) = ask_each_second(1_300, 100_000, Ok(7)).await;
        assert_eq!(asked, 3, "without an answer");
        assert!(said.iter().all(Result::is_err));
    }
}
