//! `followers/ids`, `friends/ids`: the ids of a list, the newest follow first. Next pages at times repeat an id.

use axum::extract::State;
use axum::response::Response;
use axum::routing::get;
use serde_json::{Value, json};

use super::dialect::refusal;
use crate::api::accounts::Answer;
use crate::api::relations::{List, Page};
use crate::api::{Api, ApiState, Routes};
use crate::call::Call;
use crate::dialect::{Dialect, NONE};
use crate::reply::failure;
use networks::model::account::AccountState;
use networks::model::provider::Provider;
use networks::model::relation::ListKind;

pub const PATHS: [&str; 2] = ["/followers/ids", "/friends/ids"];
/// Calls per window of each, for users and for applications.
pub const CALLS: u32 = 15;

const COUNT: u64 = 5_000;

pub fn routes(mut router: Routes) -> Routes {
    for (side, path) in ListKind::ALL.into_iter().zip(PATHS) {
        let answer = async move |State(api): ApiState, call: Call| api.v1_list(side, path, &call).await;
        router = router.route(&format!("/1.1{path}.json"), get(answer));
    }
    router
}

impl Api {
    /// Answers a request for a page of followers or friends. `Err` is also a finished response: the refusal before any page.
    async fn v1_list(&self, side: ListKind, path: &'static str, call: &Call) -> Result<Response, Response> {
        let dialect = Dialect::TwitterV1;
        let window = self.admit_with_limits(dialect, call, path, (CALLS, CALLS)).await?.window;
        let Some(asked) = call.parameter("user_id").or_else(|| call.parameter("screen_name")) else {
            return Err(dialect.with_window(window, refusal(400, NONE)));
        };
        let answer = self.v1_page(side, path, call);
        Ok(self.answer_list_or_fault(dialect, asked, window, answer).await)
    }

    fn v1_page(&self, side: ListKind, path: &str, call: &Call) -> Answer {
        let (people, now) = (self.world.people(), self.now());
        let refused = |status, code| Err(Box::new(refusal(status, code)));
        let by_id = call.parameter("user_id").and_then(|id| people.number(&Provider::Twitter, id));
        let by_name = || people.number_with_handle(call.parameter("screen_name")?, now);
        let Some(owner) = by_id.or_else(by_name).map(|number| people.person_at(number, now)) else {
            return refused(404, 34);
        };
        match owner.state {
            AccountState::Suspended => return refused(403, 63),
            AccountState::Protected => {
                let body = json!({ "request": format!("/1.1{path}.json"), "error": "Not authorized." });
                return Err(Box::new(failure(401, &body)));
            }
            _ if owner.is_away() => return refused(404, 34),
            _ => {}
        }
        let cursor = match call.parameter("cursor").unwrap_or("-1") {
            "-1" => None,
            cursor => match cursor.parse() {
                Ok(cursor) => Some(cursor),
                Err(_) => return refused(400, 44),
            },
        };
        let count = call.number("count").unwrap_or(COUNT).clamp(1, COUNT) as usize;
        let list = List { provider: &Provider::Twitter, side, owner: owner.number, of_records: false };
        let Some(page) = self.list_page(list, cursor, count, now) else { return refused(404, 34) };
        Ok(write_page(self, &page, side, call.flag("stringify_ids") == Some(true)))
    }
}

fn write_page(api: &Api, page: &Page, side: ListKind, as_texts: bool) -> String {
    let ids = page.members(side).map(|number| api.world.people().id(&Provider::Twitter, number));
    let ids: Vec<Value> =
        ids.map(|id| if as_texts { Value::from(id) } else { id.parse::<u64>().unwrap_or_default().into() }).collect();
    let next = page.next.unwrap_or(0);
    let previous = page.previous.map_or(0, |cursor| -(cursor as i64));
    json!({
        "ids": ids,
        "next_cursor": next,
        "next_cursor_str": next.to_string(),
        "previous_cursor": previous,
        "previous_cursor_str": previous.to_string(),
        "total_count": null,
    })
    .to_string()
}
