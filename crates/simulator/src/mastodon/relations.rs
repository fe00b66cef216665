//! `GET /api/v1/accounts/{id}/followers`, `/following`: the accounts of a list, the newest follow first. A hidden list is
//! empty, and so is the list of a suspended account.

use axum::extract::{Path, State};
use axum::http::HeaderValue;
use axum::http::header::LINK;
use axum::response::Response;
use axum::routing::get;
use serde_json::json;

use super::dialect::account;
use crate::api::relations::List;
use crate::api::{Api, ApiState, Routes, with_slash};
use crate::call::Call;
use crate::dialect::Dialect;
use crate::reply::failure;
use networks::model::account::AccountState;
use networks::model::provider::Provider;
use networks::model::relation::ListKind;

/// Accounts per page: the default and the maximum.
const LIMIT: u64 = 40;
const MOST: u64 = 80;

const INSTANCE: Provider = Provider::Mastodon(String::new());

pub fn routes(mut router: Routes) -> Routes {
    for (side, word) in [(ListKind::Followers, "followers"), (ListKind::Friends, "following")] {
        let answer = async move |State(api): ApiState, Path(id): Path<String>, call: Call| {
            api.mastodon_list(side, &id, &call).await
        };
        router = with_slash(router, &format!("/api/v1/accounts/{{id}}/{word}"), get(answer));
    }
    router
}

impl Api {
    async fn mastodon_list(&self, side: ListKind, id: &str, call: &Call) -> Result<Response, Response> {
        let dialect = Dialect::Mastodon;
        let window = self.admit_after_latency(dialect, call).await?.window;
        let (answer, link) = match self.mastodon_page(side, id, call) {
            Ok((body, link)) => (Ok(body), link),
            Err(refusal) => (Err(refusal), None),
        };
        let mut response = self.answer_list_or_fault(dialect, id, window, answer).await;
        if let Some(link) = link.and_then(|link| HeaderValue::from_str(&link).ok()) {
            response.headers_mut().insert(LINK, link);
        }
        Ok(response)
    }

    fn mastodon_page(&self, side: ListKind, id: &str, call: &Call) -> Result<(String, Option<String>), Box<Response>> {
        let (people, now) = (self.world.people(), self.now());
        let refused = |error: &str| Box::new(failure(400, &json!({ "error": error })));
        let not_found = || Box::new(Dialect::Mastodon.refusal(404, 34));
        let owner = people.number(&INSTANCE, id).map(|number| people.person_at(number, now)).ok_or_else(not_found)?;
        if owner.state == AccountState::Suspended {
            return Ok(("[]".to_owned(), None));
        }
        if owner.is_away() {
            return Err(not_found());
        }
        let cursor = match call.parameter("max_id").map(str::parse) {
            None => None,
            Some(Ok(cursor)) => Some(cursor),
            Some(Err(_)) => return Err(refused("max_id is not an id")),
        };
        let limit = call.number("limit").unwrap_or(LIMIT).clamp(1, MOST);
        let list = List { provider: &INSTANCE, side, owner: owner.number, of_records: false };
        let page =
            self.list_page(list, cursor, limit as usize, now).ok_or_else(|| refused("max_id is no longer known"))?;
        let accounts: Vec<String> =
            page.members(side).map(|number| account(&people.person_at(number, now)).to_string()).collect();
        let links = [("next", "max_id", page.next), ("prev", "since_id", page.previous)];
        let links: Vec<String> = links
            .into_iter()
            .filter_map(|(rel, name, cursor)| {
                Some(format!("<{}?limit={limit}&{name}={}>; rel=\"{rel}\"", call.address, cursor?))
            })
            .collect();
        Ok((format!("[{}]", accounts.join(",")), (!links.is_empty()).then(|| links.join(", "))))
    }
}
