//! Accounts of the Mastodon instance, and what it says of itself.

use axum::extract::{Path, State};
use axum::response::Response;
use axum::routing::get;
use serde_json::json;

use super::dialect::account;
use crate::simulator::api::timelines::Target;
use crate::simulator::api::{Api, Entered, Routes, TheApi, with_slash};
use crate::simulator::call::Call;
use crate::simulator::dialect::Dialect;
use crate::simulator::reply::success;
use crate::simulator::text::{NOBODY, author_with};

/// The addresses.
pub fn routes(router: Routes) -> Routes {
    let account = async |State(api): TheApi, Path(id): Path<String>, call: Call| api.account(&id, &call).await;
    let instance = async |State(api): TheApi| success(api.instance().to_string());
    let router = with_slash(router, "/api/v1/accounts/{id}", get(account));
    let router = with_slash(router, "/api/v1/instance", get(instance));
    with_slash(router, "/api/v2/instance", get(instance))
}

impl Api {
    /// Both versions of the document that an instance gives of itself have these.
    fn instance(&self) -> serde_json::Value {
        let version = &self.options.mastodon_version;
        json!({
            "domain": "social.example.org",
            "uri": "social.example.org",
            "title": "Simulated",
            "description": "",
            "version": version,
        })
    }

    /// An account of the Mastodon instance; the caller's own is `verify_credentials`.
    async fn account(&self, id: &str, call: &Call) -> Result<Response, Response> {
        let dialect = Dialect::Mastodon;
        let Entered { caller, window } = self.enter_any(dialect, call).await?;
        let author = match id {
            "verify_credentials" if call.authorization.is_none() => {
                return Err(dialect.with(window, dialect.refusal(401, 89)));
            }
            "verify_credentials" => Target::of(&format!("@{}", caller.name)).author,
            id if NOBODY.contains(&id) => None,
            id => id.parse().ok().and_then(author_with),
        };
        let response = match author {
            Some(author) => success(account(author).to_string()),
            None => dialect.refusal(404, 34),
        };
        Ok(dialect.with(window, response))
    }
}
