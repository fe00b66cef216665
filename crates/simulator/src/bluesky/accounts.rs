//! `GET /xrpc/app.bsky.actor.getProfiles`, `/xrpc/app.bsky.actor.getProfile`: accounts by DIDs or handles. A list omits missing
//! accounts silently; a call for one account states the reason.

use axum::extract::State;
use axum::response::Response;
use axum::routing::get;
use serde_json::{Value, json};

use super::dialect::{author_view, invalid_request};
use crate::api::{Api, ApiState, Routes};
use crate::call::Call;
use crate::dialect::Dialect;
use crate::people::{HANDLE_DOMAIN, Person};
use crate::render::iso;
use crate::reply::failure;
use engine::base::clock::Millis;
use networks::model::account::AccountState;
use networks::model::provider::Provider;

const MOST_ACTORS: usize = 25;

pub fn routes(router: Routes) -> Routes {
    let several = async |State(api): ApiState, call: Call| api.bluesky_profiles(&call).await;
    let one = async |State(api): ApiState, call: Call| api.bluesky_profile(&call).await;
    router.route("/xrpc/app.bsky.actor.getProfiles", get(several)).route("/xrpc/app.bsky.actor.getProfile", get(one))
}

impl Api {
    async fn bluesky_profiles(&self, call: &Call) -> Result<Response, Response> {
        let dialect = Dialect::Bluesky;
        let window = self.admit_after_latency(dialect, call).await?.window;
        let asked: Vec<&str> = call.all("actors").collect();
        let wrong = match asked.iter().position(|actor| !is_actor(actor)) {
            _ if asked.is_empty() => Some("Error: Params must have the property \"actors\"".to_owned()),
            _ if asked.len() > MOST_ACTORS => {
                Some(format!("Error: actors must not have more than {MOST_ACTORS} elements"))
            }
            wrong => wrong.map(|at| format!("Error: actors/{at} must be a valid did or a handle")),
        };
        if let Some(why) = wrong {
            return Err(dialect.with_window(window, invalid_request(&why)));
        }
        let now = self.now();
        let mut people: Vec<Person> = asked.iter().filter_map(|actor| self.find_account(actor, now)).collect();
        people.retain(|person| !person.is_away());
        // Each once, also if it was requested by DID and by handle.
        people.sort_unstable_by_key(|person| person.number);
        people.dedup_by_key(|person| person.number);
        let profiles: Vec<Value> = people.iter().map(|person| self.profile(person)).collect();
        let body = json!({ "profiles": profiles }).to_string();
        Ok(self.answer_accounts(dialect, &asked, window, Ok(body)).await)
    }

    async fn bluesky_profile(&self, call: &Call) -> Result<Response, Response> {
        let dialect = Dialect::Bluesky;
        let window = self.admit_after_latency(dialect, call).await?.window;
        let Some(actor) = call.parameter("actor") else {
            return Err(dialect.with_window(window, invalid_request("Error: Params must have the property \"actor\"")));
        };
        if !is_actor(actor) {
            return Err(dialect.with_window(window, invalid_request("Error: actor must be a valid did or a handle")));
        }
        let person = self.find_account(actor, self.now());
        let refused = |name: &str, why: &str| Err(Box::new(failure(400, &json!({ "error": name, "message": why }))));
        let answer = match &person {
            Some(person) => match person.state {
                AccountState::Suspended => refused("AccountTakedown", "Account has been suspended"),
                AccountState::Deactivated => refused("AccountDeactivated", "Account is deactivated"),
                _ if person.is_away() => refused("InvalidRequest", "Profile not found"),
                _ => Ok(self.profile(person).to_string()),
            },
            None => refused("InvalidRequest", "Profile not found"),
        };
        Ok(self.answer_accounts(dialect, &[actor], window, answer).await)
    }

    fn find_account(&self, actor: &str, now: Millis) -> Option<Person> {
        let people = self.world.people();
        let by_handle = || people.number_with_handle(actor.strip_suffix(HANDLE_DOMAIN)?, now);
        let number = people.number(&Provider::Bluesky, actor).or_else(by_handle)?;
        Some(people.person_at(number, now))
    }

    /// The detailed view. It omits unset fields.
    fn profile(&self, person: &Person) -> Value {
        let mut profile = author_view(self.world.people(), person);
        if !person.description.is_empty() {
            profile["description"] = person.description.as_str().into();
        }
        if !person.url.is_empty() {
            profile["website"] = person.url.as_str().into();
        }
        profile["followersCount"] = person.followers.into();
        profile["followsCount"] = person.following.into();
        profile["postsCount"] = person.posts.into();
        profile["indexedAt"] = iso(person.created_at).into();
        profile
    }
}

fn is_actor(actor: &str) -> bool {
    let is_in_form = |text: &str| text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-_:%".contains(&byte));
    match actor.strip_prefix("did:") {
        Some(rest) => {
            rest.split_once(':').is_some_and(|(method, id)| !method.is_empty() && !id.is_empty()) && is_in_form(rest)
        }
        None => actor.contains('.') && !actor.contains(':') && is_in_form(actor),
    }
}
