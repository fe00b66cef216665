//! Learns the version and the name of an instance from its description.

use super::description::Description;
use super::{Calls, Mastodon, NAME_CALLS, errors};
use crate::providers::auth::explain_anonymous_refusal;
use crate::providers::lookup::LookupError;
use engine::quota::{Credential, CredentialKind};

impl Mastodon {
    /// Requests the version of the instance, and uses the calls of that version. After a refusal, repeats the request without a token:
    /// an instance in limited federation mode needs one, and another may reject the token.
    pub async fn learn_calls(self, credential: &Credential) -> Result<Self, LookupError> {
        let mut kind = &credential.kind;
        let mut reply = self.instance.get(&self.http, credential).await?;
        if matches!(reply.status, 401 | 403) && !matches!(kind, CredentialKind::Anonymous) {
            reply = self.instance.get(&self.http, &anonymous()).await?;
            kind = &CredentialKind::Anonymous;
        }
        if reply.status != 200 {
            let error = explain_anonymous_refusal(errors::decide(&reply), &reply, kind, NAME_CALLS);
            // A refusal by a proxy in front of the instance may pass. So it is an outage, and the caller retries.
            return Err(match error {
                LookupError::Credential(why) | LookupError::BadRequest(why) if !errors::says_error(&reply) => {
                    LookupError::Outage(why)
                }
                error => error,
            });
        }
        let stated = Description::parse(&reply);
        let stated = stated.ok_or_else(|| {
            LookupError::BadAnswer(format!("it does not state the version of the instance: {}", reply.describe()))
        })?;
        Ok(self.guess_calls(Calls::from_version(&stated.version)))
    }

    /// Requests the name in handles, unless it is known. Without a name in the answer, the next call requests it again.
    pub(super) async fn learn_domain(&self, credential: &Credential) {
        let ask =
            async { self.instance.read(&self.http, credential).await.and_then(|instance| instance.domain()).ok_or(()) };
        // Until the name is known, the host of the address counts.
        let _ = self.domain.get_or_try_init(|| ask).await;
    }

    /// Returns true if `server`, from a handle, is the instance itself: some software writes it into handles of local accounts.
    pub(super) fn is_own(&self, server: &str) -> bool {
        let names = [self.domain.get().map(String::as_str), self.instance.host()];
        names.into_iter().flatten().any(|name| name.eq_ignore_ascii_case(server))
    }
}

fn anonymous() -> Credential {
    Credential { name: "anonymous".to_owned(), kind: CredentialKind::Anonymous }
}
