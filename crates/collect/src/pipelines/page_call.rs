//! A call for a page of a timeline or a list: reserves its reads if each is charged, limits its time, names the cause of a failure.

use std::time::Duration;

use engine::base::random;
use engine::metrics::Metrics;
use engine::quota::{ChargedReads, Credentials, Permit};
use engine::worker::Outlook;
use networks::providers::lookup::LookupError;

/// Reads for all possible items of a page, reserved under names that no item has: its items are unknown before the answer.
#[derive(Debug)]
pub struct Reservation(Vec<String>);

impl Reservation {
    fn with_count(count: u32) -> Self {
        let page = format!("page {:016x}", random::number());
        Self((0..count).map(|place| format!("{page} {place}")).collect())
    }

    /// Reserves `count` reads for a call, and returns them with its permit. On an error the permit goes back to the ledger; the error is
    /// the worker's outlook.
    pub async fn reserve(credentials: &Credentials, permit: Permit, count: u32) -> Result<(Self, Permit), Outlook> {
        let reservation = Self::with_count(count);
        let outlook = match credentials.reserve_all(&permit, &reservation.0).await {
            Ok(true) => return Ok((reservation, permit)),
            Ok(false) => {
                tracing::debug!(count, "the budget of reads has no room for a page");
                Outlook::Unchanged
            }
            Err(error) => Outlook::Outage(error.to_string()),
        };
        credentials.return_permit(permit).await;
        Err(outlook)
    }

    /// Charges the returned items (`returned`) and frees the other reads. Reads of a lost answer stay counted.
    #[must_use]
    pub fn into_charges<T>(
        self,
        answer: &Result<T, LookupError>,
        returned: impl FnOnce(&T) -> Vec<String>,
    ) -> ChargedReads {
        let returned = match answer {
            Ok(page) => returned(page),
            Err(error) if error.is_refusal() => Vec::new(),
            Err(_) => return ChargedReads::default(),
        };
        let mut places = self.0.into_iter();
        // As for an edited post: the id that came is charged.
        let edited = places.by_ref().zip(returned).collect();
        ChargedReads { edited, unread: places.collect() }
    }
}

/// Runs a call for a page of one item, counted like a lookup of that item. Returns [`LookupError::Outage`] if it takes longer.
pub async fn run_with_timeout<T>(
    metrics: &Metrics,
    (endpoint, item): (&str, &str),
    call_timeout: Duration,
    call: impl Future<Output = Result<T, LookupError>>,
) -> Result<T, LookupError> {
    let silent = || format!("no whole answer within {} ms", call_timeout.as_millis());
    let limited_call =
        async { tokio::time::timeout(call_timeout, call).await.unwrap_or_else(|_| Err(LookupError::Outage(silent()))) };
    metrics.call((endpoint, Some(item)), 1, limited_call).await
}

#[derive(Debug)]
pub enum FailureCause {
    /// The API: down for all.
    Api(String),
    /// The queue's clock: says nothing about the API or the item.
    Clock(String),
    /// The credential: another call may succeed.
    Credential(String),
    /// The request: one for another item may succeed.
    Item(String),
    /// The configuration: no call can succeed.
    Process(String),
}

impl From<LookupError> for FailureCause {
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
        Reservation::with_count(count).into_charges(answer, Clone::clone)
    }

    #[test]
    fn each_item_takes_a_place_and_the_rest_are_free() {
        let reservation = Reservation::with_count(3);
        let [first, second, third] = reservation.0.clone().try_into().unwrap();
        assert!(!Reservation::with_count(1).0.contains(&first), "those of another page");
        let returned = reservation.into_charges(&Ok(vec!["7".to_owned()]), Clone::clone);
        assert_eq!(returned, ChargedReads { edited: vec![(first, "7".to_owned())], unread: vec![second, third] });
        let lost = charged(2, &Err(LookupError::Outage("no answer".to_owned())));
        assert_eq!(lost, ChargedReads::default());
        assert_eq!(charged(2, &Err(LookupError::BadRequest("no".to_owned()))).unread.len(), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_that_takes_too_long_is_an_outage() {
        let metrics = Metrics::new();
        let late =
            run_with_timeout::<()>(&metrics, ("page", "7"), Duration::from_secs(1), std::future::pending()).await;
        assert!(matches!(late, Err(LookupError::Outage(why)) if why.contains("1000 ms")));
        run_with_timeout(&metrics, ("page", "7"), Duration::from_secs(1), async { Ok(()) }).await.unwrap();
        let counters = &metrics.counters;
        assert_eq!([&counters.requests, &counters.requests_failed, &counters.looked_up].map(|of| of.get()), [2, 1, 1]);
    }
}
