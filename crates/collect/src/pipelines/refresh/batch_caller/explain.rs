//! Reason of a miss, for an API that states it only in a call for one item.

use super::BatchCaller;
use crate::pipelines::refresh::judge::Item;
use engine::base::clock::Millis;
use engine::queue::{Batch, Job};
use engine::quota::{ChargedReads, Credential};
use networks::providers::lookup::{Answer, LookupError, Outcome};
use networks::providers::metered::{CallReport, make_metered_call};

impl<T: Item> BatchCaller<'_, T> {
    /// Requests the reasons of missing items, one call each, while quota and lease have room. The others stay missing without a reason.
    pub(super) async fn request_reasons(&self, answered: &mut [(Job, Outcome<T>, Millis)], batch: &Batch) {
        if !self.lookup.explains_missing() {
            return;
        }
        for (job, outcome, _) in answered.iter_mut().filter(|(_, outcome, _)| matches!(outcome, Outcome::Unavailable)) {
            if self.time_is_up(batch) {
                return;
            }
            let Some(permit) = self.try_acquire_permit().await else { return };
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
            match make_metered_call(self.credentials, permit, call, accounting).await {
                Ok(answer) => *outcome = answer.outcomes.into_iter().next().unwrap_or(Outcome::Unavailable),
                Err(error) => {
                    tracing::warn!(id = job.id, %error, "the reason of a miss is unknown: the call for it failed");
                    return;
                }
            }
        }
    }
}
