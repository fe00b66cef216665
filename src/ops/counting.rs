//! Slow questions to the store, which count all rows. Each runs once at a time and takes no more than a part of the store's time, even if
//! its caller has stopped waiting.

use std::time::Duration;

use tokio_util::task::AbortOnDropHandle;

use super::pace::Pace;
use super::snapshot::Outage;
use crate::base::clock::Stopwatch;
use crate::base::task;

/// A question is put again after this time at the latest. By then an answer is outdated, and a store that has not answered will not.
const LONGEST: Duration = Duration::from_secs(600);

/// A question that was put, with the duration of its answer; and its start.
type Asking<R> = (AbortOnDropHandle<(Result<R, String>, Duration)>, Stopwatch);

#[derive(Debug)]
pub(super) struct Counting<R, T> {
    pub said: Option<T>,
    /// Time of that question, and the time until the next one.
    at: Option<(Stopwatch, Duration)>,
    /// A question that was not answered in time. The store goes on working on it, so it is not put again meanwhile.
    asking: Option<Asking<R>>,
    pace: Pace,
}

impl<R, T> Default for Counting<R, T> {
    fn default() -> Self {
        Self { said: None, at: None, asking: None, pace: Pace::default() }
    }
}

impl<R: Send + 'static, T> Counting<R, T> {
    /// Asks if the last answer is too old and asking takes no more than its part of the time. Waits `patience` for the answer. Until one
    /// comes, the last answer stays for some minutes. A store that is `out` is asked as soon as it answers again.
    pub(super) async fn ask<F>(
        &mut self,
        every: Duration,
        patience: Duration,
        out: Option<&Outage>,
        ask: impl FnOnce() -> F,
        of: impl Fn(Result<R, String>) -> T,
    ) where
        F: Future<Output = Result<R, String>> + Send + 'static,
    {
        if let Some(Outage { why, .. }) = out {
            (self.said, self.at) = (Some(of(Err(why.clone()))), None);
            return;
        }
        if self.at.as_ref().is_some_and(|(since, rest)| since.elapsed() < *rest) {
            return;
        }
        let under_way = self.asking.take().filter(|(_, since)| since.elapsed() < LONGEST);
        // A question that was waited for once delays no further page.
        let wait = if under_way.is_some() { Duration::ZERO } else { patience };
        let (mut asking, since) = under_way.unwrap_or_else(|| {
            let (watch, answer) = (Stopwatch::start(), ask());
            let asking = async move { (answer.await, watch.elapsed()) };
            let asking = task::within(task::current(), asking);
            (AbortOnDropHandle::new(tokio::spawn(asking)), watch)
        });
        match tokio::time::timeout(wait, &mut asking).await {
            Ok(answer) => {
                let (said, took) = answer.unwrap_or_else(|ended| (Err(ended.to_string()), since.elapsed()));
                self.said = Some(of(said));
                self.at = Some((since, took + self.pace.rest(took, every).min(LONGEST)));
            }
            Err(_) => {
                if self.at.as_ref().is_none_or(|(since, _)| since.elapsed() > LONGEST * 2) {
                    self.said = Some(of(Err(format!("no answer within {} ms", patience.as_millis()))));
                }
                self.asking = Some((asking, since));
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

    /// Asks once a second for `seconds`; an answer `takes` that many seconds. Returns the number of questions and each answer shown.
    async fn looked(seconds: usize, takes: u32, answer: Result<u8, String>) -> (u32, Vec<Result<u8, String>>) {
        let (mut counting, mut asked, mut said) = (Counting::default(), 0, Vec::new());
        for _ in 0..seconds {
            let answer = answer.clone();
            let ask = || {
                asked += 1;
                async move {
                    tokio::time::sleep(SECOND * takes).await;
                    answer
                }
            };
            counting.ask(EVERY, PATIENCE, None, ask, |said| said).await;
            said.extend(counting.said.clone());
            tokio::time::sleep(SECOND).await;
        }
        (asked, said)
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_count_is_asked_a_tenth_of_the_time_and_shown_when_it_comes() {
        for answer in [Ok(7), Err("canceling statement due to statement timeout".to_owned())] {
            let (asked, said) = looked(170, 8, answer.clone()).await;
            assert_eq!(asked, 2, "at 0 s and at 88 s: {answer:?}");
            assert_eq!(said[0], Err("no answer within 500 ms".to_owned()));
            assert_eq!(said[10..], vec![answer; 160], "the last answer stays until the next one comes");
        }
        let (asked, said) = looked(60, 0, Ok(7)).await;
        assert_eq!((asked, said), (4, vec![Ok(7); 60]));
    }

    #[tokio::test(start_paused = true)]
    async fn what_takes_very_long_is_asked_each_ten_minutes() {
        let (asked, _) = looked(1_900, 200, Ok(7)).await;
        assert_eq!(asked, 3, "at 0 s, 800 s and 1600 s");
        let (asked, said) = looked(1_300, 100_000, Ok(7)).await;
        assert_eq!(asked, 3, "without an answer");
        assert!(said.iter().all(Result::is_err));
    }
}
