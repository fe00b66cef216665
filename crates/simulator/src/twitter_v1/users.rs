//! Users of API v1.1.

use axum::extract::State;
use axum::response::Response;
use axum::routing::get;

use super::dialect::{refusal, write_user};
use crate::api::accounts::into_response;
use crate::api::{AdmittedCall, Api, ApiState, Routes};
use crate::call::Call;
use crate::dialect::Dialect;
use crate::people::Person;
use crate::text::MOST_USERS;
use crate::timeline::Target;
use crate::windows::Pool;
use networks::model::account::AccountState;
use networks::model::provider::Provider;

pub fn routes(router: Routes) -> Routes {
    let users = |endpoint| async move |State(api): ApiState, call: Call| api.v1_users(endpoint, &call).await;
    router
        .route("/1.1/account/verify_credentials.json", get(users("/account/verify_credentials")))
        .route("/1.1/users/show.json", get(users("/users/show/:id")))
        .route("/1.1/users/lookup.json", get(users("/users/lookup")).post(users("/users/lookup")))
}

impl Api {
    async fn v1_users(&self, endpoint: &'static str, call: &Call) -> Result<Response, Response> {
        let dialect = Dialect::TwitterV1;
        let calls = match endpoint {
            "/account/verify_credentials" => (75, 0),
            "/users/lookup" => (900, 300),
            _ => (900, 900),
        };
        let AdmittedCall { caller, window } = self.admit_with_limits(dialect, call, endpoint, calls).await?;
        if caller.pool == Pool::Applications && calls.1 == 0 {
            return Err(refusal(403, 220));
        }
        let listed = |name: &str| call.parameter(name).into_iter().flat_map(|list| list.split(',')).map(str::trim);
        let (people, now) = (self.world.people(), self.now());
        let caller_only = endpoint == "/account/verify_credentials";
        let by_id = listed("user_id").map(|id| people.number(&Provider::Twitter, id));
        let by_name = listed("screen_name").map(|handle| people.number_with_handle(handle, now));
        let asked: Vec<Option<u64>> = match endpoint {
            "/account/verify_credentials" => vec![Target::parse(&format!("@{}", caller.name)).author],
            _ => by_id.chain(by_name).collect(),
        };
        if asked.len() > MOST_USERS {
            return Ok(dialect.with_window(window, refusal(403, 18)));
        }
        let known: Vec<Person> = asked.into_iter().flatten().map(|number| people.person_at(number, now)).collect();
        // A caller always sees its own account.
        let is_there = |person: &&Person| caller_only || !person.is_away();
        let found: Vec<String> = known.iter().filter(is_there).map(v1_user).collect();
        let refused = |status, code| Err(Box::new(refusal(status, code)));
        let answer = match (endpoint, &found[..]) {
            ("/users/lookup", []) => refused(404, 17),
            ("/users/lookup", users) => Ok(format!("[{}]", users.join(","))),
            (_, [one, ..]) => Ok(one.clone()),
            (_, []) if known.iter().any(|person| person.state == AccountState::Suspended) => refused(403, 63),
            (_, []) => refused(404, 50),
        };
        if caller_only {
            return Ok(dialect.with_window(window, into_response(answer)));
        }
        let ids: Vec<&str> = listed("user_id").chain(listed("screen_name")).collect();
        Ok(self.answer_accounts(dialect, &ids, window, answer).await)
    }
}

fn v1_user(person: &Person) -> String {
    let mut object = String::new();
    write_user(&mut object, person, false);
    object
}
