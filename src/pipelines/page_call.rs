//! A call for a page, of a timeline or of a list: its reads are reserved in the budget of a provider that charges for each, it ends
//! in its time, and its failure says whose it is.

use std::time::Duration;

use crate::base::random;
use crate::engine::metrics::Metrics;
use crate::engine::worker::Outlook;
use crate::providers::lookup::LookupError;
use crate::quota::{ChargedReads, Credentials, Permit};

/// A place for each item that a page may have, reserved under names that no item has: which ones come is not known before.
#[derive(Debug)]
pub struct Reservation(Vec<String>);

impl Reservation {
    /// For a page of so many items at the most.
    fn of(count: u32) -> Self {
        let page = format!("page {:016x}", random::number());
        Self((0..count).map(|place| format!("{page} {place}")).collect())
    }

    /// Reserves so many reads for a call with that permit, which is given back where that fails.
    ///
    /// # Errors
    /// The budget has no room now, or the ledger is out: what that means for the process.
    pub async fn make(credentials: &Credentials, permit: Permit, count: u32) -> Result<(Self, Permit), Outlook> {
        let reservation = Self::of(count);
        let outlook = match credentials.reserve_all(&permit, &reservation.0).await {
            Ok(true) => return Ok((reservation, permit)),
            Ok(false) => {
                tracing::debug!(count, "the budget of reads has no room for a page");
                Outlook::Unchanged
            }
            Err(error) => Outlook::Outage(error.to_string()),
        };
        credentials.give_back(permit).await;
        Err(outlook)
    }

    /// Each of the reads that an answer is charged with (`came`) took a place, and the rest are free. What may have been
    /// returned, and never arrived, stays counted.
    #[must_use]
    pub fn charged<T>(self, answer: &Result<T, LookupError>, came: impl FnOnce(&T) -> Vec<String>) -> ChargedReads {
        let came = match answer {
            Ok(page) => came(page),
            Err(error) if error.is_refusal() => Vec::new(),
            Err(_) => return ChargedReads::default(),
        };
        let mut places = self.0.into_iter();
        // As an edited post: what is charged is the id that came.
        let edited = places.by_ref().zip(came).collect();
        ChargedReads { edited, unread: places.collect() }
    }
}

/// The answer to a call to the endpoint for a page of one item, within its time, counted like a lookup of that item.
///
/// # Errors
/// Those of the call; [`LookupError::Outage`] where it takes longer.
pub async fn in_time<T>(
    metrics: &Metrics,
    (endpoint, item): (&str, &str),
    call_timeout: Duration,
    call: impl Future<Output = Result<T, LookupError>>,
) -> Result<T, LookupError> {
    let silent = || format!("no whole answer within {} ms", call_timeout.as_millis());
    let in_time =
        async { tokio::time::timeout(call_timeout, call).await.unwrap_or_else(|_| Err(LookupError::Outage(silent()))) };
    metrics.call((endpoint, Some(item)), 1, in_time).await
}

/// What failed, when a call gave no page.
#[derive(Debug)]
pub enum Failed {
    /// The API: it is out for all.
    Api(String),
    /// The queue's clock: nothing is learnt of the API or of the item.
    Clock(String),
    /// The credential: another call may be answered.
    Credential(String),
    /// The request: another item's may be answered.
    Item(String),
    /// It can never work as configured.
    Process(String),
}

impl From<LookupError> for Failed {
    fn from(error: LookupError) -> Self {
        match error {
            LookupError::Outage(_) | LookupError::Overloaded { .. } | LookupError::BadAnswer(_) => {
                Self::Api(error.to_string())
            }
            LookupError::QueueClock(why) => Self::Clock(why),
            LookupError::Throttled { .. }
            | LookupError::Credential(_)
            | LookupError::Unready(_)
            | LookupError::Clock(_) => Self::Credential(error.to_string()),
            LookupError::BatchTooLarge(_) | LookupError::BadRequest(_) => Self::Item(error.to_string()),
            LookupError::Stop(why) => Self::Process(why),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn charged(count: u32, answer: &Result<Vec<String>, LookupError>) -> ChargedReads {
        Reservation::of(count).charged(answer, Clone::clone)
    }

    #[test]
    fn each_item_takes_a_place_and_the_rest_are_free() {
        let reservation = Reservation::of(3);
        let [first, second, third] = reservation.0.clone().try_into().unwrap();
        assert!(!Reservation::of(1).0.contains(&first), "those of another page");
        let came = reservation.charged(&Ok(vec!["7".to_owned()]), Clone::clone);
        assert_eq!(came, ChargedReads { edited: vec![(first, "7".to_owned())], unread: vec![second, third] });
        let lost = charged(2, &Err(LookupError::Outage("no answer".to_owned())));
        assert_eq!(lost, ChargedReads::default());
        assert_eq!(charged(2, &Err(LookupError::BadRequest("no".to_owned()))).unread.len(), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_that_takes_too_long_is_an_outage() {
        let metrics = Metrics::new();
        let late = in_time::<()>(&metrics, ("page", "7"), Duration::from_secs(1), std::future::pending()).await;
        assert!(matches!(late, Err(LookupError::Outage(why)) if why.contains("1000 ms")));
        in_time(&metrics, ("page", "7"), Duration::from_secs(1), async { Ok(()) }).await.unwrap();
        let counters = &metrics.counters;
        assert_eq!([&counters.requests, &counters.requests_failed, &counters.looked_up].map(|of| of.get()), [2, 1, 1]);
    }
}
