//! Decides whether a failure to read a source is its own, or an outage of its provider.
//!
//! An outage is the provider's only while no other source of it is read: then all wait, and one at a time tries. Where another
//! one is read since a source began to fail, the source fails alone: it comes again later and later, behind all others, and
//! nobody waits for it. What is known of it is in the store, so another poller, or the next, knows it, too.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::base::clock::{self, Millis};
use crate::providers::lookup::LookupError;
use crate::store::{Positions, SourceTrouble, StoreError};

/// An error is cut to so many characters: others write it.
const ERROR_CHARS: usize = 500;

/// A source whose last poll failed.
#[derive(Debug, PartialEq, Eq)]
pub struct Judged {
    /// Its saved state.
    pub trouble: SourceTrouble,
    /// True if others are read.
    pub is_alone: bool,
}

/// Judges a failure at `now`, ms since the epoch, of a source that failed `before`, and saves it. `longest` is the longest
/// interval of any.
///
/// # Errors
/// The store is out.
pub async fn judge(
    positions: &dyn Positions,
    siblings: &[String],
    source: (&str, &str),
    before: Option<&SourceTrouble>,
    why: &str,
    longest: Duration,
    now: Millis,
) -> Result<Judged, StoreError> {
    let (since, failures) = before.map_or((now, 0), |known| (known.since.min(now), known.failures));
    let is_alone = positions.is_another_read(siblings, source, counted(since, longest, now)).await?;
    let failures = failures.saturating_add(u32::from(is_alone));
    let error = why.chars().take(ERROR_CHARS).collect();
    let trouble = SourceTrouble { since, failures, error, at: now };
    positions.save_trouble(source.0, source.1, &trouble).await?;
    Ok(Judged { trouble, is_alone })
}

/// From when until when another source's page shows that the provider works, for one that fails since then: what was read in the
/// longest interval. What is dated later than clocks differ was dated by a wrong one, and shows nothing. All in ms since the
/// epoch.
#[must_use]
pub fn counted(since: Millis, longest: Duration, now: Millis) -> (Millis, Millis) {
    let from = since.min(now).max(now.saturating_sub(clock::millis(longest)));
    (from, now.saturating_add(clock::FUTURE_TOLERANCE_MS))
}

/// The pause of a source that fails alone, after this many failures: twice as long each time.
#[must_use]
pub fn pause(shortest: Duration, longest: Duration, failures: u32) -> Millis {
    let doubled = 2_u32.saturating_pow(failures.saturating_sub(1).min(31));
    clock::millis(shortest.saturating_mul(doubled).min(longest)).max(1)
}

/// Refusals of credentials since each was last answered. What is refused to one source may be open to the others.
#[derive(Debug, Clone, Default)]
pub struct Refusals(Arc<Mutex<HashMap<String, Refused>>>);

#[derive(Debug)]
struct Refused {
    source: String,
    times: u32,
}

/// The number of refusals in a row that are believed, if all are of one source.
const BELIEVED_TIMES: u32 = 3;

impl Refusals {
    /// Takes note of a source's answer to a credential; says whether a refusal is about the credential, and no matter of
    /// that source alone.
    pub fn are_believed<T>(&self, credential: &str, source: &str, answer: &Result<T, LookupError>) -> bool {
        let mut refusals = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match answer {
            Ok(_) | Err(LookupError::BadRequest(_) | LookupError::BatchTooLarge(_)) => {
                refusals.remove(credential);
                false
            }
            Err(LookupError::Credential(_) | LookupError::Unready(_)) => {
                let refused = || Refused { source: source.to_owned(), times: 0 };
                let refused = refusals.entry(credential.to_owned()).or_insert_with(refused);
                refused.times += 1;
                refused.source != source || refused.times >= BELIEVED_TIMES
            }
            Err(_) => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_left_alone_for_twice_as_long_each_time() {
        let of = |failures| pause(Duration::from_secs(5), Duration::from_secs(900), failures);
        assert_eq!([0, 1, 2, 3, 8, 9, u32::MAX].map(of), [5_000, 5_000, 10_000, 20_000, 640_000, 900_000, 900_000]);
        assert_eq!(pause(Duration::ZERO, Duration::ZERO, 3), 1);
    }

    #[test]
    fn a_refusal_is_about_the_credential_when_more_than_one_source_says_so() {
        let refusals = Refusals::default();
        let refused = || Err::<(), _>(LookupError::Credential("no".to_owned()));
        assert!(!refusals.are_believed("app", "a", &refused()));
        assert!(refusals.are_believed("app", "b", &refused()));
        assert!(!refusals.are_believed("other", "b", &refused()));
        // Answered in between: it was the source's own.
        for _ in 0..10 {
            assert!(!refusals.are_believed("app", "b", &Ok(())));
            assert!(!refusals.are_believed("app", "a", &refused()));
        }
        // With nobody else to ask.
        assert_eq!([(); 2].map(|()| refusals.are_believed("app", "a", &refused())), [false, true]);
        assert!(refusals.are_believed("app", "a", &Err::<(), _>(LookupError::Outage("no".to_owned()))));
    }
}
