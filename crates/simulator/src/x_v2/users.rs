//! Users of X.

use axum::extract::State;
use axum::response::Response;
use axum::routing::get;
use serde_json::json;

use super::dialect::{Fields, UnknownParameter, refuse_parameter, users};
use crate::api::{AdmittedCall, Api, ApiState, Routes};
use crate::call::Call;
use crate::dialect::Dialect;
use crate::people::Person;
use crate::render::{RenderContext, View};
use crate::reply::{failure, success};
use crate::text::MOST_USERS;
use crate::timeline::Target;
use crate::windows::Pool;
use networks::model::provider::Provider;

pub fn routes(router: Routes) -> Routes {
    let users = |by| async move |State(api): ApiState, call: Call| api.x_users(by, &call).await;
    router
        .route("/2/users", get(users("ids")))
        .route("/2/users/me", get(users("me")))
        .route("/2/users/{id}", get(users("id")))
        .route("/2/users/by", get(users("usernames")))
        .route("/2/users/by/username/{username}", get(users("username")))
}

impl Api {
    async fn x_users(&self, by: &'static str, call: &Call) -> Result<Response, Response> {
        let (endpoint, calls) = match by {
            "ids" => ("/2/users", (900, 300)),
            "usernames" => ("/2/users/by", (900, 300)),
            "id" => ("/2/users/:id", (900, 300)),
            "username" => ("/2/users/by/username/:username", (900, 300)),
            _ => ("/2/users/me", (75, 75)),
        };
        let dialect = Dialect::XV2;
        let AdmittedCall { caller, window } = self.admit_with_limits(dialect, call, endpoint, calls).await?;
        if by == "me" && caller.pool == Pool::Applications {
            return Err(dialect.with_window(window, unsupported()));
        }
        let last = call.address.rsplit('/').next().unwrap_or_default();
        let asked: Vec<&str> = match by {
            "ids" | "usernames" => call.parameter(by).unwrap_or_default().split(',').collect(),
            _ => vec![last],
        };
        let own = if matches!(by, "ids" | "usernames") { &[by][..] } else { &[] };
        let fields = check_names(by, &asked)
            .and_then(|()| Fields::read_user_fields(call, own))
            .map_err(|unknown| dialect.with_window(window, refuse_parameter(&unknown)))?;
        let (people, now) = (self.world.people(), self.now());
        let number = |of: &str| match by {
            "me" => Target::parse(&format!("@{}", caller.name)).author,
            "ids" | "id" => people.number(&Provider::X, of),
            _ => people.number_with_handle(of, now),
        };
        let person = |of: &str| Some(people.person_at(number(of)?, now));
        let found: Vec<(&str, Option<Person>)> = asked.iter().map(|of| (*of, person(of))).collect();
        let view = View { extended: true, trim_user: true, entities: false };
        let context = RenderContext { fields, ..self.render_context(now, view) };
        let body = users(&context, by, &found);
        if by == "me" {
            return Ok(dialect.with_window(window, success(body)));
        }
        Ok(self.answer_accounts(dialect, &asked, window, Ok(body)).await)
    }
}

/// Rejects impossible names, too many names, and none.
fn check_names(by: &str, asked: &[&str]) -> Result<(), UnknownParameter> {
    let refused = |message: String| Err((by.to_owned(), message));
    if asked == [""] {
        return refused(format!("The `{by}` query parameter can not be empty"));
    }
    if asked.len() > MOST_USERS {
        let message = format!(
            "The number of values in the `{by}` query parameter list [{}] is not between 1 and 100",
            asked.len()
        );
        return refused(message);
    }
    let is_id = |of: &str| (1..=19).contains(&of.len()) && of.bytes().all(|byte| byte.is_ascii_digit());
    // Simulated handles are up to 17 characters long.
    let is_name = |of: &str| (1..=20).contains(&of.len()) && of.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    let wrong = asked.iter().find(|of| match by {
        "ids" | "id" => !is_id(of),
        "usernames" | "username" => !is_name(of),
        _ => false,
    });
    match (wrong, by) {
        (None, _) => Ok(()),
        (Some(wrong), "ids" | "id") => refused(format!("The `{by}` query parameter value [{wrong}] is not valid")),
        (Some(wrong), _) => {
            refused(format!("The `{by}` query parameter value [{wrong}] does not match ^[A-Za-z0-9_]{{1,15}}$"))
        }
    }
}

/// X's response to an application that requests its own user.
fn unsupported() -> Response {
    let body = json!({
        "title": "Unsupported Authentication",
        "detail": "Authenticating with OAuth 2.0 Application-Only is forbidden for this endpoint.  Supported authentication \
                   types are [OAuth 1.0a User Context, OAuth 2.0 User Context].",
        "type": "https://api.twitter.com/2/problems/unsupported-authentication",
        "status": 403,
    });
    failure(403, &body)
}
