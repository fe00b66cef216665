//! `followers/ids`, `friends/ids`: the ids of a list, the newest follow first. Next pages at times repeat an id.

use axum::extract::State;
use axum::response::Response;
use axum::routing::get;
use serde_json::{Value, json};

use super::dialect::refusal;
use crate::model::account::AccountState;
use crate::model::provider::Provider;
use crate::model::relation::Side;
use crate::simulator::api::accounts::Answer;
use crate::simulator::api::relations::{List, Page};
use crate::simulator::api::{Api, Routes, TheApi};
use crate::simulator::call::Call;
use crate::simulator::dialect::{Dialect, NONE};
use crate::simulator::reply::failure;

pub const PATHS: [&str; 2] = ["/followers/ids", "/friends/ids"];
/// Calls per window of each, for users and for applications.
pub const CALLS: u32 = 15;

const COUNT: u64 = 5_000;

pub fn routes(mut router: Routes) -> Routes {
    for (side, path) in Side::ALL.into_iter().zip(PATHS) {
        let answer = async move |State(api): TheApi, call: Call| api.v1_list(side, path, &call).await;
        router = router.route(&format!("/1.1{path}.json"), get(answer));
    }
    router
}

impl Api {
    async fn v1_list(&self, side: Side, path: &'static str, call: &Call) -> Result<Response, Response> {
        let dialect = Dialect::TwitterV1;
        let window = self.enter_own(dialect, call, path, (CALLS, CALLS)).await?.window;
        let Some(asked) = call.parameter("user_id").or_else(|| call.parameter("screen_name")) else {
            return Err(dialect.with(window, refusal(400, NONE)));
        };
        let answer = self.v1_page(side, path, call);
        Ok(self.of_relations(dialect, asked, window, answer).await)
    }

    fn v1_page(&self, side: Side, path: &str, call: &Call) -> Answer {
        let (people, now) = (self.world.people(), self.now());
        let refused = |status, code| Err(Box::new(refusal(status, code)));
        let by_id = call.parameter("user_id").and_then(|id| people.number(&Provider::Twitter, id));
        let by_name = || people.named(call.parameter("screen_name")?, now);
        let Some(owner) = by_id.or_else(by_name).map(|number| people.at(number, now)) else {
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
        Ok(written(self, &page, side, call.flag("stringify_ids") == Some(true)))
    }
}

fn written(api: &Api, page: &Page, side: Side, as_texts: bool) -> String {
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
