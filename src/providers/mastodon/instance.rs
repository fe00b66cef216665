//! Reads the version and the name of an instance: `GET /api/v2/instance`, or `/api/v1/instance` before 4.0 and of other software.

use serde::Deserialize;
use serde_json::Value;

use reqwest::Url;

use super::{Calls, INSTANCE_PATH, INSTANCE_V1_PATH, Mastodon, NAME_CALLS, errors};
use crate::providers::auth::{self, asked_as_nobody};
use crate::providers::http::{HttpClient, Reply, below};
use crate::providers::lookup::LookupError;
use crate::quota::{Credential, CredentialKind};

/// The description that an instance gives of itself.
#[derive(Debug, Deserialize)]
pub(super) struct Instance {
    pub version: String,
    /// Its name in handles.
    #[serde(default)]
    domain: Value,
    /// Its name in the answer of `/api/v1/instance`: an address, or the name.
    #[serde(default)]
    uri: Value,
}

impl Instance {
    /// Its name in handles, in lower case.
    pub fn domain(&self) -> Option<String> {
        let text = self.domain.as_str().or(self.uri.as_str())?.trim_end_matches('/');
        let name = text.rsplit_once("://").map_or(text, |(_, name)| name);
        Some(name.to_ascii_lowercase()).filter(|name| !name.is_empty())
    }
}

impl Mastodon {
    /// Requests the instance's version with that credential, and makes the calls of that version. An instance in limited federation
    /// mode answers only callers with a token; one that does not accept the token may answer callers without one.
    ///
    /// # Errors
    /// The instance does not state its version.
    pub async fn learn(self, credential: &Credential) -> Result<Self, LookupError> {
        let mut kind = &credential.kind;
        let mut reply = self.ask_instance(credential).await?;
        if matches!(reply.status, 401 | 403) && !matches!(kind, CredentialKind::Anonymous) {
            reply = self.ask_instance(&anonymous()).await?;
            kind = &CredentialKind::Anonymous;
        }
        if reply.status != 200 {
            let error = asked_as_nobody(errors::decide(&reply), &reply, kind, NAME_CALLS);
            // A refusal by a proxy in front of the instance may pass. So it is an outage, and the caller retries.
            return Err(match error {
                LookupError::Credential(why) | LookupError::BadRequest(why) if !errors::says_error(&reply) => {
                    LookupError::Outage(why)
                }
                error => error,
            });
        }
        let stated = read(&reply);
        let stated = stated.ok_or_else(|| {
            LookupError::BadAnswer(format!("it does not state the version of the instance: {}", reply.what()))
        })?;
        Ok(self.guess_calls(Calls::of_version(&stated.version)))
    }

    /// Returns the description that the instance gives to that credential; `None` where it gives none.
    pub(super) async fn instance(&self, credential: &Credential) -> Option<Instance> {
        let reply = self.ask_instance(credential).await.ok()?;
        read(&reply).filter(|_| reply.status == 200)
    }

    /// Requests its name in handles, unless that is known. If the answer has no name, the next call requests it again.
    pub(super) async fn learn_domain(&self, credential: &Credential) {
        let ask = async { self.instance(credential).await.and_then(|instance| instance.domain()).ok_or(()) };
        // Until it is known, the host of its address counts.
        let _ = self.domain.get_or_try_init(|| ask).await;
    }

    /// Returns true if `server`, from a handle, is the instance itself: some software writes it into handles of local accounts.
    pub(super) fn is_own(&self, server: &str) -> bool {
        let names = [self.domain.get().map(String::as_str), self.instance.host_str()];
        names.into_iter().flatten().any(|name| name.eq_ignore_ascii_case(server))
    }

    /// Requests the description.
    pub(super) async fn ask_instance(&self, credential: &Credential) -> Result<Reply, LookupError> {
        get_description(&self.http, [&self.instance, &self.instance_v1], credential).await
    }
}

/// Requests `/api/v2/instance`, and `/api/v1/instance` after a 404, which an older version or a proxy in front of the instance
/// returns.
async fn get_description(
    http: &HttpClient,
    [v2, v1]: [&Url; 2],
    credential: &Credential,
) -> Result<Reply, LookupError> {
    let reply = auth::get(http, v2.clone(), credential).await?;
    match reply.status {
        404 => auth::get(http, v1.clone(), credential).await,
        _ => Ok(reply),
    }
}

/// Returns true if a 404 without an error (Pixelfed, Takahē) is about the requested object: the instance at that address describes
/// itself, so the 404 is not that of a proxy in front of it.
pub(super) async fn means_object(reply: &Reply, http: &HttpClient, base: &Url, credential: &Credential) -> bool {
    let (Ok(v2), Ok(v1)) = (below(base, INSTANCE_PATH), below(base, INSTANCE_V1_PATH)) else { return false };
    reply.status == 404
        && !errors::says_error(reply)
        && get_description(http, [&v2, &v1], credential)
            .await
            .is_ok_and(|reply| reply.status == 200 && read(&reply).is_some())
}

fn read(reply: &Reply) -> Option<Instance> {
    serde_json::from_slice(&reply.body).ok()
}

fn anonymous() -> Credential {
    Credential { name: "anonymous".to_owned(), kind: CredentialKind::Anonymous }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_an_instance_is_in_both_forms() {
        for (body, name) in [
            (r#"{"version":"4.3.0","domain":"Takahe.test"}"#, Some("takahe.test")),
            (r#"{"version":"3.5.3","uri":"https://social.example/"}"#, Some("social.example")),
            (r#"{"version":"3.5.3","uri":"social.example"}"#, Some("social.example")),
            (r#"{"version":"4.3.0","domain":"a.example","uri":"b.example"}"#, Some("a.example")),
            (r#"{"version":"3.5.3"}"#, None),
            (r#"{"version":"3.5.3","uri":7}"#, None),
            (r#"{"version":"3.5.3","domain":""}"#, None),
        ] {
            let instance: Instance = serde_json::from_str(body).unwrap();
            assert_eq!(instance.domain().as_deref(), name, "{body}");
        }
        assert!(read(&Reply::of(200, &[], r#"{"domain":"a"}"#)).is_none(), "no version");
    }
}
