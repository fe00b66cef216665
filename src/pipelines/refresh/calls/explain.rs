//! Reason of a miss, for an API that states it only in a call for one item.

use super::Calls;
use crate::base::clock::Millis;
use crate::engine::queue::{Batch, Job};
use crate::pipelines::refresh::judge::Item;
use crate::providers::lookup::{Answer, LookupError, Outcome};
use crate::providers::metered::{CallReport, metered};
use crate::quota::{ChargedReads, Credential};

impl<T: Item> Calls<'_, T> {
    /// Requests the reasons of missing items, one call each, while quota and lease have room. The others stay missing without a reason.
    pub(super) async fn explain(&self, answered: &mut [(Job, Outcome<T>, Millis)], batch: &Batch) {
        if !self.lookup.explains_missing() {
            return;
        }
        for (job, outcome, _) in answered.iter_mut().filter(|(_, outcome, _)| matches!(outcome, Outcome::Unavailable)) {
            if self.time_is_up(batch) {
                return;
            }
            let Some(permit) = self.permit_at_once().await else { return };
            let place = (self.lookup.capabilities().endpoint, Some(&*job.id));
            let call = async |credential: &Credential| {
                self.metrics.call(place, 1, self.lookup.look_up_missing(&job.id, credential)).await
            };
            let accounting = async |_: &Credential, answer: &Result<Answer<T>, LookupError>| {
                // The API answered the batch to a credential: a refusal of this call is about its item.
                let park =
                    answer.as_ref().err().filter(|error| !error.is_about_credential()).and_then(LookupError::park);
                let quota = answer.as_ref().ok().and_then(|answer| answer.quota);
                CallReport { quota, park, charged: ChargedReads::default() }
            };
            match metered(self.credentials, permit, call, accounting).await {
                Ok(answer) => *outcome = answer.outcomes.into_iter().next().unwrap_or(Outcome::Unavailable),
                Err(error) => {
                    tracing::warn!(id = job.id, %error, "unknown why an item is missing: the call for it failed");
                    return;
                }
            }
        }
    }
}
