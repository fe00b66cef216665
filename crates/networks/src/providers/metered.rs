//! A metered call: it takes a permit, is charged, and is reported to the ledger.

use crate::providers::lookup::{LookupError, Quota};
use engine::quota::{CallRecord, ChargedReads, Credential, Credentials, Park, Permit, Window};

/// Quota, parking and charges that result from a call.
#[derive(Debug, Default)]
pub struct CallReport {
    pub quota: Option<Quota>,
    pub park: Option<Park>,
    /// Posts read, out of those reserved.
    pub charged: ChargedReads,
}

/// Makes a call with `permit`; `report` derives the ledger entry from its result. A future dropped before the first poll returns
/// the permit; later, the permit counts as spent.
pub async fn make_metered_call<T>(
    credentials: &Credentials,
    mut permit: Permit,
    call: impl AsyncFnOnce(&Credential) -> Result<T, LookupError>,
    report: impl AsyncFnOnce(&Credential, &Result<T, LookupError>) -> CallReport,
) -> Result<T, LookupError> {
    permit.mark_started();
    let answer = call(&permit.credential).await;
    let CallReport { quota, park, charged } = report(&permit.credential, &answer).await;
    let window = match &answer {
        Ok(_) => Some(quota.unwrap_or_else(Window::unmetered)),
        Err(LookupError::Throttled { quota, .. }) => *quota,
        Err(_) => None,
    };
    credentials.charge(&permit, &charged).await;
    credentials.record_call(permit, CallRecord { window, park, ..CallRecord::default() }).await;
    answer
}
