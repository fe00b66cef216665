//! Accounts of the Mastodon instance, and the instance's own document.

use axum::extract::{Path, State};
use axum::response::Response;
use axum::routing::get;
use serde_json::json;

use super::dialect::account;
use crate::api::accounts::into_response;
use crate::api::{AdmittedCall, Api, ApiState, Routes, with_slash};
use crate::call::Call;
use crate::dialect::{Dialect, TOO_MANY};
use crate::people::{OTHER_SERVER, Person};
use crate::reply::success;
use crate::timeline::Target;
use networks::model::account::AccountState;
use networks::model::provider::Provider;

pub fn routes(router: Routes) -> Routes {
    let account = async |State(api): ApiState, Path(id): Path<String>, call: Call| api.account(&id, &call).await;
    let instance = async |State(api): ApiState| success(api.instance().to_string());
    let accounts = async |State(api): ApiState, call: Call| api.accounts(&call).await;
    let router = with_slash(router, "/api/v1/accounts", get(accounts));
    let router = with_slash(router, "/api/v1/accounts/{id}", get(account));
    let router = with_slash(router, "/api/v1/instance", get(instance));
    with_slash(router, "/api/v2/instance", get(instance))
}

impl Api {
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

    /// An account of the Mastodon instance; `verify_credentials` is the caller's own.
    async fn account(&self, id: &str, call: &Call) -> Result<Response, Response> {
        let dialect = Dialect::Mastodon;
        let AdmittedCall { caller, window } = self.admit_after_latency(dialect, call).await?;
        let (people, now) = (self.world.people(), self.now());
        let number = match id {
            "verify_credentials" if call.authorization.is_none() => {
                return Err(dialect.with_window(window, dialect.refusal(401, 89)));
            }
            "verify_credentials" => Target::parse(&format!("@{}", caller.name)).author,
            "lookup" => {
                let acct = call.parameter("acct").unwrap_or_default();
                let (handle, is_remote) = match acct.split_once('@') {
                    Some((handle, OTHER_SERVER)) => (handle, true),
                    Some((handle, "social.example.org")) => (handle, false),
                    _ => (acct, false),
                };
                people.number_with_handle(handle, now).filter(|number| people.is_remote(*number) == is_remote)
            }
            id => people.number(&ITS_IDS, id),
        };
        let person = number.map(|number| people.person_at(number, now));
        let is_caller = id == "verify_credentials";
        let refused = |status| Err(Box::new(dialect.refusal(status, 34)));
        let answer = match &person {
            Some(person) if is_caller => Ok(account(person).to_string()),
            // Since 3.3 an instance returns suspended accounts, emptied.
            Some(person) if person.state == AccountState::Suspended && !self.is_mastodon_since(3, 3) => refused(410),
            Some(person) if is_returned(person) => Ok(account(person).to_string()),
            _ => refused(404),
        };
        if is_caller {
            return Ok(dialect.with_window(window, into_response(answer)));
        }
        let asked = if id == "lookup" { call.parameter("acct").unwrap_or_default() } else { id };
        Ok(self.answer_accounts(dialect, &[asked], window, answer).await)
    }

    async fn accounts(&self, call: &Call) -> Result<Response, Response> {
        let dialect = Dialect::Mastodon;
        let window = self.admit_after_latency(dialect, call).await?.window;
        if !self.has_batches() {
            return Err(dialect.with_window(window, dialect.refusal(404, 34)));
        }
        let mut asked: Vec<&str> = call.all("id[]").chain(call.all("id")).filter(|id| !id.is_empty()).collect();
        asked.sort_unstable();
        asked.dedup();
        if asked.len() > MOST_ACCOUNTS {
            return Err(dialect.with_window(window, dialect.refusal(422, TOO_MANY)));
        }
        let (people, now) = (self.world.people(), self.now());
        let found =
            asked.iter().filter_map(|id| people.number(&ITS_IDS, id)).map(|number| people.person_at(number, now));
        let found: Vec<String> = found.filter(is_returned).map(|person| account(&person).to_string()).collect();
        Ok(self.answer_accounts(dialect, &asked, window, Ok(format!("[{}]", found.join(",")))).await)
    }
}

const MOST_ACCOUNTS: usize = 40;

const ITS_IDS: Provider = Provider::Mastodon(String::new());

/// True for an account that the instance returns. Deactivated and deleted accounts look as if they never existed.
fn is_returned(person: &Person) -> bool {
    !person.is_away() || person.state == AccountState::Suspended
}
