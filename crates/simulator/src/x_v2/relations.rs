//! `GET /2/users/{id}/followers`, `/2/users/{id}/following`: the accounts of a list, the newest follow first.

use axum::extract::{Path, State};
use axum::response::Response;
use axum::routing::get;
use serde_json::{Map, Value, json};

use super::dialect::{Fields, UnknownParameter, refuse_parameter, user, users};
use crate::api::relations::{List, Page};
use crate::api::{Api, ApiState, Routes};
use crate::call::Call;
use crate::dialect::Dialect;
use crate::render::{RenderContext, View};
use networks::model::account::AccountState;
use networks::model::provider::Provider;
use networks::model::relation::ListKind;

/// Calls per window of users and of applications.
const CALLS: (u32, u32) = (300, 300);

/// Accounts per page: the default and the maximum.
const COUNT: u64 = 100;
const MOST: u64 = 1_000;

/// End of X's tokens.
const END: &str = "ZZZ";

pub fn routes(mut router: Routes) -> Routes {
    for (side, path, endpoint) in [
        (ListKind::Followers, "/2/users/{id}/followers", "/2/users/:id/followers"),
        (ListKind::Friends, "/2/users/{id}/following", "/2/users/:id/following"),
    ] {
        let answer = async move |State(api): ApiState, Path(id): Path<String>, call: Call| {
            api.x_list(side, endpoint, &id, &call).await
        };
        router = router.route(path, get(answer));
    }
    router
}

impl Api {
    async fn x_list(
        &self,
        side: ListKind,
        endpoint: &'static str,
        id: &str,
        call: &Call,
    ) -> Result<Response, Response> {
        let dialect = Dialect::XV2;
        let window = self.admit_with_limits(dialect, call, endpoint, CALLS).await?.window;
        let body = self
            .x_list_page(side, id, call)
            .map_err(|unknown| dialect.with_window(window, refuse_parameter(&unknown)))?;
        Ok(self.answer_list_or_fault(dialect, id, window, Ok(body)).await)
    }

    /// A page, or a problem that replaces it; `Err` is a rejected parameter.
    fn x_list_page(&self, side: ListKind, id: &str, call: &Call) -> Result<String, UnknownParameter> {
        let refused = |name: &str, message: String| Err((name.to_owned(), message));
        let fields = Fields::read_user_fields(call, &["max_results", "pagination_token"])?;
        let count = match call.parameter("max_results").map(str::parse) {
            None => COUNT,
            Some(Ok(count)) if (1..=MOST).contains(&count) => count,
            Some(_) => {
                let message = format!("The `max_results` query parameter value is not between 1 and {MOST}");
                return refused("max_results", message);
            }
        };
        if !(1..=19).contains(&id.len()) || !id.bytes().all(|byte| byte.is_ascii_digit()) {
            return refused("id", "The `id` query parameter value is not valid".to_owned());
        }
        let (people, now) = (self.world.people(), self.now());
        let view = View { extended: true, trim_user: true, entities: false };
        let context = RenderContext { fields, ..self.render_context(now, view) };
        let owner = people.number(&Provider::X, id).map(|number| people.person_at(number, now));
        let owner = match owner {
            Some(owner) if owner.state == AccountState::Protected => return Ok(not_authorized(id)),
            Some(owner) if !owner.is_away() => owner.number,
            gone => return Ok(users(&context, "id", &[(id, gone)])),
        };
        let token = call.parameter("pagination_token");
        let bad_token = |token: &str| format!("Invalid 'pagination_token':[{token}].");
        let cursor = match token.map(|token| (token, read_token(token))) {
            None => None,
            Some((_, Some(cursor))) => Some(cursor),
            Some((token, None)) => return refused("pagination_token", bad_token(token)),
        };
        let list = List { provider: &Provider::X, side, owner, of_records: false };
        match self.list_page(list, cursor, count as usize, now) {
            Some(page) => Ok(self.write_list_page(&context, &page, side)),
            None => refused("pagination_token", bad_token(token.unwrap_or_default())),
        }
    }

    /// The body. Returned accounts are charged as two posts each, even if the response does not arrive.
    fn write_list_page(&self, context: &RenderContext<'_>, page: &Page, side: ListKind) -> String {
        let people = self.world.people();
        let members: Vec<u64> = page.members(side).collect();
        let ids = members.iter().map(|number| people.id(&Provider::X, *number));
        self.charge_reads(ids.flat_map(|id| [format!("user:{id}"), format!("user:{id}:2")]));
        let data: Vec<Value> =
            members.iter().map(|number| user(context, &people.person_at(*number, context.now))).collect();
        let mut meta: Map<String, Value> = Map::new();
        meta.insert("result_count".to_owned(), data.len().into());
        for (name, cursor) in [("next_token", page.next), ("previous_token", page.previous)] {
            if let Some(cursor) = cursor {
                meta.insert(name.to_owned(), format!("{cursor:X}{END}").into());
            }
        }
        let mut body = json!({ "meta": meta });
        if !data.is_empty() {
            body["data"] = data.into();
        }
        body.to_string()
    }
}

fn read_token(token: &str) -> Option<u64> {
    u64::from_str_radix(token.strip_suffix(END)?, 16).ok()
}

fn not_authorized(id: &str) -> String {
    let problem = json!({
        "value": id,
        "detail": format!("Sorry, you are not authorized to see the user with id: [{id}]."),
        "title": "Authorization Error",
        "resource_type": "user",
        "parameter": "id",
        "resource_id": id,
        "type": "https://api.twitter.com/2/problems/not-authorized-for-resource",
    });
    json!({ "errors": [problem] }).to_string()
}
