//! Description that an instance gives of itself: `GET /api/v2/instance`, or `/api/v1/instance` before 4.0 and in other software.

use reqwest::Url;
use serde::Deserialize;
use serde_json::Value;

use super::errors;
use crate::providers::auth;
use crate::providers::http::{ClientError, HttpClient, Reply, endpoint_url};
use crate::providers::lookup::LookupError;
use engine::quota::Credential;

const V2: &str = "api/v2/instance";
/// Address before 4.0, and in other software.
const V1: &str = "api/v1/instance";

#[derive(Debug, Deserialize)]
pub(super) struct Description {
    pub version: String,
    /// Name of the instance in handles.
    #[serde(default)]
    domain: Value,
    /// Name in the answer of `/api/v1/instance`: an address, or the name.
    #[serde(default)]
    uri: Value,
}

impl Description {
    /// Parses the response; `None` for another shape.
    pub fn parse(reply: &Reply) -> Option<Self> {
        serde_json::from_slice(&reply.body).ok()
    }

    /// The stated domain in lower case, without scheme; `None` if it states none.
    pub fn domain(&self) -> Option<String> {
        let text = self.domain.as_str().or(self.uri.as_str())?.trim_end_matches('/');
        let name = text.rsplit_once("://").map_or(text, |(_, name)| name);
        Some(name.to_ascii_lowercase()).filter(|name| !name.is_empty())
    }
}

#[derive(Debug, Clone)]
pub(super) struct InstanceAddress {
    v2: Url,
    v1: Url,
}

impl InstanceAddress {
    pub fn new(base: &Url) -> Result<Self, ClientError> {
        Ok(Self { v2: endpoint_url(base, V2)?, v1: endpoint_url(base, V1)? })
    }

    pub fn host(&self) -> Option<&str> {
        self.v2.host_str()
    }

    /// Requests `/api/v2/instance`. After a 404, from an older version or a proxy in front of the instance, requests `/api/v1/instance`.
    pub async fn get(&self, http: &HttpClient, credential: &Credential) -> Result<Reply, LookupError> {
        let reply = auth::get(http, self.v2.clone(), credential).await?;
        match reply.status {
            404 => auth::get(http, self.v1.clone(), credential).await,
            _ => Ok(reply),
        }
    }

    /// Requests the description of the instance; `None` if the call fails or the body is unreadable.
    pub async fn read(&self, http: &HttpClient, credential: &Credential) -> Option<Description> {
        let reply = self.get(http, credential).await.ok()?;
        Description::parse(&reply).filter(|_| reply.status == 200)
    }

    /// Returns true for a 404 that concerns the requested object. Pixelfed and Takahē put no error into it, like a proxy in front
    /// of an instance; so it counts only if the instance describes itself.
    pub async fn is_object_missing(&self, http: &HttpClient, reply: &Reply, credential: &Credential) -> bool {
        reply.status == 404 && !errors::says_error(reply) && self.read(http, credential).await.is_some()
    }
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
            let instance: Description = serde_json::from_str(body).unwrap();
            assert_eq!(instance.domain().as_deref(), name, "{body}");
        }
        assert!(Description::parse(&Reply::for_test(200, &[], r#"{"domain":"a"}"#)).is_none(), "no version");
    }
}
