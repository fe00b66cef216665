//! Judges a failure to read a source: its own, or an outage of its provider.
//!
//! It is an outage only while no other source of the provider is read: then all wait, and one at a time tries. Otherwise the source fails
//! alone: it is retried with growing delays, behind all others. The store has this state, for other pollers and later processes.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use engine::base::clock::{self, Millis};
use networks::providers::lookup::LookupError;
use networks::providers::timeline::Timeline;
use store::{Positions, SourceTrouble, StoreError};

const ERROR_CHARS: usize = 500;

#[derive(Debug, PartialEq, Eq)]
pub struct JudgedTrouble {
    pub trouble: SourceTrouble,
    /// True if others are read.
    pub is_alone: bool,
}

/// `longest`: longest interval of any source; `now`: ms since the epoch.
pub async fn judge_and_save(
    positions: &dyn Positions,
    siblings: &[String],
    source: (&str, &str),
    before: Option<&SourceTrouble>,
    why: &str,
    longest: Duration,
    now: Millis,
) -> Result<JudgedTrouble, StoreError> {
    let (since, failures) = before.map_or((now, 0), |known| (known.since.min(now), known.failures));
    let is_alone = positions.was_another_source_read(siblings, source, evidence_period(since, longest, now)).await?;
    let failures = failures.saturating_add(u32::from(is_alone));
    let error = why.chars().take(ERROR_CHARS).collect();
    let trouble = SourceTrouble { since, failures, error, at: now };
    positions.save_trouble(source.0, source.1, &trouble).await?;
    Ok(JudgedTrouble { trouble, is_alone })
}

/// Period in which a page of another source shows that the provider works: since the start of the failures, at most `longest`. A page
/// dated further ahead than clocks differ shows nothing. All in ms since the epoch.
#[must_use]
pub fn evidence_period(since: Millis, longest: Duration, now: Millis) -> (Millis, Millis) {
    let from = since.min(now).max(now.saturating_sub(clock::millis(longest)));
    (from, now.saturating_add(clock::FUTURE_TOLERANCE_MS))
}

/// Pause of a source that fails alone; it doubles with each failure.
#[must_use]
pub fn retry_pause(shortest: Duration, longest: Duration, failures: u32) -> Millis {
    let doubled = 2_u32.saturating_pow(failures.saturating_sub(1).min(31));
    clock::millis(shortest.saturating_mul(doubled).min(longest)).max(1)
}

/// Latest answers and refusals of each credential. A credential that is refused for one source may still read the others.
#[derive(Debug, Clone, Default)]
pub struct Refusals(Arc<Mutex<HashMap<String, CredentialHistory>>>);

#[derive(Debug, Default)]
struct CredentialHistory {
    refused: Option<RefusalCount>,
    /// Sources read with it most recently, the latest at the end.
    witnesses: VecDeque<(String, Arc<dyn Timeline>)>,
}

#[derive(Debug)]
struct RefusalCount {
    source: String,
    times: u32,
}

/// Refusals in a row that count against the credential, if all are of one source.
const CONFIRMING_REFUSALS: u32 = 3;
/// Witnesses kept per credential. Some may have been hidden since, like the refused source.
const WITNESSES: usize = 3;

impl Refusals {
    /// Returns true if a failure counts against the credential, not only against that source.
    pub fn record_answer<T>(
        &self,
        credential: &str,
        (source, timeline): (&str, &Arc<dyn Timeline>),
        answer: &Result<T, LookupError>,
    ) -> bool {
        let mut all = self.lock();
        let of = all.entry(credential.to_owned()).or_default();
        match answer {
            Ok(_) => {
                of.refused = None;
                of.witnesses.retain(|(known, _)| known != source);
                of.witnesses.push_back((source.to_owned(), timeline.clone()));
                if of.witnesses.len() > WITNESSES {
                    of.witnesses.pop_front();
                }
                false
            }
            Err(LookupError::BadRequest(_) | LookupError::BatchTooLarge(_)) => {
                of.refused = None;
                false
            }
            Err(error) if error.is_about_credential() => {
                let refused = of.refused.get_or_insert_with(|| RefusalCount { source: source.to_owned(), times: 0 });
                refused.times += 1;
                refused.source != source || refused.times >= CONFIRMING_REFUSALS
            }
            Err(_) => true,
        }
    }

    /// Other sources read with this credential, the latest first. If one of them can be read now, the credential works.
    #[must_use]
    pub fn witnesses(&self, credential: &str, source: &str) -> Vec<(String, Arc<dyn Timeline>)> {
        let all = self.lock();
        let known = all.get(credential).map(|of| &of.witnesses);
        known.into_iter().flatten().rev().filter(|(known, _)| known != source).cloned().collect()
    }

    pub fn remove_witness(&self, credential: &str, witness: &str) {
        if let Some(of) = self.lock().get_mut(credential) {
            of.witnesses.retain(|(known, _)| known != witness);
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, CredentialHistory>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::quota::Credential;
    use networks::providers::timeline::{Page, Rules, TimelineRequest};

    #[test]
    fn it_is_left_alone_for_twice_as_long_each_time() {
        let of = |failures| retry_pause(Duration::from_secs(5), Duration::from_secs(900), failures);
        assert_eq!([0, 1, 2, 3, 8, 9, u32::MAX].map(of), [5_000, 5_000, 10_000, 20_000, 640_000, 900_000, 900_000]);
        assert_eq!(retry_pause(Duration::ZERO, Duration::ZERO, 3), 1);
    }

    #[derive(Debug)]
    struct Unread;

    #[async_trait::async_trait]
    impl Timeline for Unread {
        fn rules(&self) -> Rules {
            unreachable!("it is never read")
        }

        async fn page(&self, _: &TimelineRequest, _: &Credential) -> Result<Page, LookupError> {
            unreachable!("it is never read")
        }
    }

    #[test]
    fn a_refusal_is_about_the_credential_when_more_than_one_source_says_so() {
        let (refusals, timeline) = (Refusals::default(), Arc::new(Unread) as Arc<dyn Timeline>);
        let record = |credential: &str, source: &str, answer: Result<(), LookupError>| {
            refusals.record_answer(credential, (source, &timeline), &answer)
        };
        let refused = || Err::<(), _>(LookupError::Credential("no".to_owned()));
        assert!(!record("app", "a", refused()));
        assert!(record("app", "b", refused()));
        assert!(!record("other", "b", refused()));
        // Answered in between: the source was at fault.
        for _ in 0..10 {
            assert!(!record("app", "b", Ok(())));
            assert!(!record("app", "a", refused()));
        }
        // There is no other source to ask.
        assert_eq!([(); 2].map(|()| record("app", "a", refused())), [false, true]);
        assert!(record("app", "a", Err(LookupError::Outage("no".to_owned()))));
    }

    #[test]
    fn the_latest_other_sources_are_witnesses_of_their_credential() {
        let (refusals, timeline) = (Refusals::default(), Arc::new(Unread) as Arc<dyn Timeline>);
        for source in ["a", "b", "c", "b", "d"] {
            assert!(!refusals.record_answer::<()>("app", (source, &timeline), &Ok(())));
        }
        let witnesses = |credential: &str| {
            refusals.witnesses(credential, "b").into_iter().map(|(source, _)| source).collect::<Vec<_>>()
        };
        assert_eq!((witnesses("other"), witnesses("app")), (vec![], vec!["d".to_owned(), "c".to_owned()]));
        refusals.remove_witness("app", "d");
        assert_eq!(witnesses("app"), ["c"]);
    }
}
