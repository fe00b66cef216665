//! A metered call: it takes a permit, is charged, and is reported to the ledger.

use crate::providers::lookup::{LookupError, Quota};
use crate::quota::{ChargedReads, Credential, Credentials, Park, Permit, Used, Window};

/// Quota, parking and charges that result from a call.
#[derive(Debug, Default)]
pub struct CallReport {
    pub quota: Option<Quota>,
    pub park: Option<Park>,
    /// Posts read, out of those reserved.
    pub charged: ChargedReads,
}

/// Makes a call with `permit`; `report` derives the ledger entry from its result. If the future is dropped before the first poll,
/// the permit is returned; later, it counts as spent.
pub async fn metered<T>(
    credentials: &Credentials,
    mut permit: Permit,
    call: impl AsyncFnOnce(&Credential) -> Result<T, LookupError>,
    report: impl AsyncFnOnce(&Credential, &Result<T, LookupError>) -> CallReport,
) -> Result<T, LookupError> {
    permit.begin();
    let answer = call(&permit.credential).await;
    let CallReport { quota, park, charged } = report(&permit.credential, &answer).await;
    let window = match &answer {
        Ok(_) => Some(quota.unwrap_or_else(Window::unmetered)),
        Err(LookupError::Throttled { quota, .. }) => *quota,
        Err(_) => None,
    };
    credentials.charge(&permit, &charged).await;
    credentials.used(permit, Used { window, park, ..Used::default() }).await;
    answer
}
