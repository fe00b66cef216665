//! Users of each network, and what servers say of themselves.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Path, Request, State};
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::{get, post};
use serde_json::json;

use crate::simulator::api::timelines::Target;
use crate::simulator::api::{Api, Entered, with_slash};
use crate::simulator::call::Call;
use crate::simulator::dialect::{Dialect, Fields, Shown, Unknown, mastodon_account, x_refusal_of, x_users};
use crate::simulator::gate::Pool;
use crate::simulator::render::{self, View};
use crate::simulator::reply::{success, twitter_refusal};
use crate::simulator::text::{author_named, author_with};

/// Users that are not there.
const NOBODY: [&str; 2] = ["404", "nobody"];

/// The most users of one call.
const MOST: usize = 100;

/// The addresses.
pub fn routes(router: Router<Arc<Api>>) -> Router<Arc<Api>> {
    let x = |parameter: &'static str| {
        async move |State(api): State<Arc<Api>>, request: Request| match Call::read(request).await {
            Ok(call) => api.x_users(parameter, &call).await,
            Err(refused) => refused,
        }
    };
    let v1 = |endpoint: &'static str| {
        async move |State(api): State<Arc<Api>>, request: Request| match Call::read(request).await {
            Ok(call) => api.v1_users(endpoint, &call).await,
            Err(refused) => refused,
        }
    };
    let account =
        async |State(api): State<Arc<Api>>, Path(id): Path<String>, request: Request| match Call::read(request).await {
            Ok(call) => api.account(&id, &call).await,
            Err(refused) => refused,
        };
    let instance = async |State(api): State<Arc<Api>>| success(api.instance().to_string());
    let session = async || {
        let refusal = json!({ "error": "AuthenticationRequired", "message": "Invalid identifier or password" });
        let mut response = success(refusal.to_string());
        *response.status_mut() = StatusCode::UNAUTHORIZED;
        response
    };
    let router = with_slash(router, "/api/v1/accounts/{id}", get(account));
    let router = with_slash(router, "/api/v1/instance", get(instance));
    let router = with_slash(router, "/api/v2/instance", get(instance));
    router
        .route("/2/users", get(x("ids")))
        .route("/2/users/me", get(x("me")))
        .route("/2/users/{id}", get(x("id")))
        .route("/2/users/by", get(x("usernames")))
        .route("/2/users/by/username/{username}", get(x("username")))
        .route("/1.1/account/verify_credentials.json", get(v1("/account/verify_credentials")))
        .route("/1.1/users/show.json", get(v1("/users/show/:id")))
        .route("/1.1/users/lookup.json", get(v1("/users/lookup")).post(v1("/users/lookup")))
        .route("/xrpc/com.atproto.server.createSession", post(session))
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

    /// Users of X: by `ids` or `usernames`, one by `id` or `username`, or `me`.
    async fn x_users(&self, by: &'static str, call: &Call) -> Response {
        self.pause(self.options.latency).await;
        let (endpoint, calls) = match by {
            "ids" => ("/2/users", (900, 300)),
            "usernames" => ("/2/users/by", (900, 300)),
            "id" => ("/2/users/:id", (900, 300)),
            "username" => ("/2/users/by/username/:username", (900, 300)),
            _ => ("/2/users/me", (75, 75)),
        };
        let dialect = Dialect::XV2;
        let (caller, window) = match self.enter_own(dialect, call, endpoint, calls) {
            Ok(Entered { caller, window }) => (caller, window),
            Err(refused) => return refused,
        };
        if by == "me" && caller.pool == Pool::Applications {
            return dialect.with(window, unsupported());
        }
        let last = call.address.rsplit('/').next().unwrap_or_default();
        let asked: Vec<&str> = match by {
            "ids" | "usernames" => call.parameter(by).unwrap_or_default().split(',').collect(),
            _ => vec![last],
        };
        let own = if matches!(by, "ids" | "usernames") { &[by][..] } else { &[] };
        let fields = match can_be(by, &asked).and_then(|()| Fields::read_of_users(call, own)) {
            Ok(fields) => fields,
            Err(unknown) => return dialect.with(window, x_refusal_of(&unknown)),
        };
        let author = |of: &str| match by {
            _ if NOBODY.contains(&of) => None,
            "me" => Target::of(&format!("@{}", caller.name)).author,
            "ids" | "id" => author_with(of.parse().ok()?),
            _ => author_named(of),
        };
        let found: Vec<(&str, Option<u64>)> = asked.iter().map(|of| (*of, author(of))).collect();
        let view = View { extended: true, trim_user: true, entities: false };
        let shown = Shown { fields, ..self.shown(self.now(), view) };
        dialect.with(window, success(x_users(&shown, if by == "me" { "id" } else { by }, &found)))
    }

    /// Users of v1.1: one, several, or the caller.
    async fn v1_users(&self, endpoint: &'static str, call: &Call) -> Response {
        self.pause(self.options.latency).await;
        let dialect = Dialect::TwitterV1;
        let calls = match endpoint {
            "/account/verify_credentials" => (75, 0),
            "/users/lookup" => (900, 300),
            _ => (900, 900),
        };
        let (caller, window) = match self.enter_own(dialect, call, endpoint, calls) {
            Ok(Entered { caller, .. }) if caller.pool == Pool::Applications && calls.1 == 0 => {
                return twitter_refusal(403, 220);
            }
            Ok(Entered { caller, window }) => (caller, window),
            Err(refused) => return refused,
        };
        let listed = |name: &str| call.parameter(name).into_iter().flat_map(|list| list.split(',')).map(str::trim);
        let by_id = listed("user_id").filter(|id| !NOBODY.contains(id)).map(|id| author_with(id.parse().ok()?));
        let by_name = listed("screen_name").map(author_named);
        let asked: Vec<Option<u64>> = match endpoint {
            "/account/verify_credentials" => vec![Target::of(&format!("@{}", caller.name)).author],
            _ => by_id.chain(by_name).collect(),
        };
        let found: Vec<String> = asked.iter().flatten().map(|author| v1_user(*author)).collect();
        let response = match (endpoint, &found[..]) {
            _ if asked.len() > MOST => twitter_refusal(403, 18),
            ("/users/lookup", []) => twitter_refusal(404, 17),
            ("/users/lookup", users) => success(format!("[{}]", users.join(","))),
            (_, [one, ..]) => success(one.clone()),
            (_, []) => twitter_refusal(404, 50),
        };
        dialect.with(window, response)
    }

    /// An account of the Mastodon instance; the caller's own is `verify_credentials`.
    async fn account(&self, id: &str, call: &Call) -> Response {
        self.pause(self.options.latency).await;
        let dialect = Dialect::Mastodon;
        let limit = |pool| dialect.limit(&self.options, pool);
        let (caller, window) = match self.enter(dialect, call, dialect.endpoint(), limit) {
            Ok(Entered { caller, window }) => (caller, window),
            Err(refused) => return refused,
        };
        let author = match id {
            "verify_credentials" if call.authorization.is_none() => {
                return dialect.with(window, dialect.refusal(401, 89));
            }
            "verify_credentials" => Target::of(&format!("@{}", caller.name)).author,
            id if NOBODY.contains(&id) => None,
            id => id.parse().ok().and_then(author_with),
        };
        let response = match author {
            Some(author) => success(mastodon_account(author).to_string()),
            None => dialect.refusal(404, 34),
        };
        dialect.with(window, response)
    }
}

fn v1_user(author: u64) -> String {
    let mut user = String::new();
    render::user(&mut user, author, 0, false);
    user
}

/// Refuses names that no user can have, and too many or none.
fn can_be(by: &str, asked: &[&str]) -> Result<(), Unknown> {
    let refused = |message: String| Err((by.to_owned(), message));
    if asked == [""] {
        return refused(format!("The `{by}` query parameter can not be empty"));
    }
    if asked.len() > MOST {
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

/// What X answers an application that asks who it is.
fn unsupported() -> Response {
    let body = json!({
        "title": "Unsupported Authentication",
        "detail": "Authenticating with OAuth 2.0 Application-Only is forbidden for this endpoint.  Supported authentication \
                   types are [OAuth 1.0a User Context, OAuth 2.0 User Context].",
        "type": "https://api.twitter.com/2/problems/unsupported-authentication",
        "status": 403,
    });
    let mut response = success(body.to_string());
    *response.status_mut() = StatusCode::FORBIDDEN;
    response
}
