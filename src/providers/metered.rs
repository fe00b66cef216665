//! One metered call: made with a permit, charged, and reported to the ledger.

use crate::providers::lookup::{LookupError, Quota};
use crate::quota::{ChargedReads, Credential, Credentials, Park, Permit, Used, Window};

/// The quota that an answer, or its failure, states.
#[derive(Debug, Default)]
pub struct Told {
    /// The window that an answer stated, if any.
    pub quota: Option<Quota>,
    /// The parking of the credential.
    pub park: Option<Park>,
    /// The posts read of those reserved.
    pub charged: ChargedReads,
}

/// Makes a call with that permit; `told` says what comes of it. Dropped before it is polled, the permit goes back; dropped
/// later, it counts as spent.
///
/// # Errors
/// The errors of the call.
pub async fn metered<T>(
    credentials: &Credentials,
    mut permit: Permit,
    call: impl AsyncFnOnce(&Credential) -> Result<T, LookupError>,
    told: impl AsyncFnOnce(&Credential, &Result<T, LookupError>) -> Told,
) -> Result<T, LookupError> {
    permit.begin();
    let answer = call(&permit.credential).await;
    let Told { quota, park, charged } = told(&permit.credential, &answer).await;
    let window = match &answer {
        Ok(_) => Some(quota.unwrap_or_else(Window::unmetered)),
        Err(LookupError::Throttled { quota, .. }) => *quota,
        Err(_) => None,
    };
    credentials.charge(&permit, &charged).await;
    credentials.used(permit, Used { window, park, ..Used::default() }).await;
    answer
}
