//! `GET /xrpc/app.bsky.graph.getFollowers`, `/xrpc/app.bsky.graph.getFollows`: the accounts of a list, the newest follow first.
//! `GET /xrpc/com.atproto.repo.listRecords`: an account's follows as it wrote them, including follows of missing accounts.

use axum::extract::State;
use axum::response::Response;
use axum::routing::get;
use serde_json::{Value, json};

use super::dialect::{author_view, bluesky_uri, invalid_request};
use crate::api::accounts::Answer;
use crate::api::relations::List;
use crate::api::{Api, ApiState, Routes};
use crate::call::Call;
use crate::dialect::Dialect;
use crate::people::{Follow, HANDLE_DOMAIN, Person};
use crate::render::iso;
use crate::reply::failure;
use networks::model::provider::Provider;
use networks::model::relation::ListKind;

const COLLECTION: &str = "app.bsky.graph.follow";

/// Accounts per page: the default and the maximum.
const LIMIT: u64 = 50;
const MOST: u64 = 100;

pub fn routes(router: Routes) -> Routes {
    let list = |side: ListKind| async move |State(api): ApiState, call: Call| api.bluesky_list(side, &call).await;
    let records = async |State(api): ApiState, call: Call| api.bluesky_records(&call).await;
    router
        .route("/xrpc/app.bsky.graph.getFollowers", get(list(ListKind::Followers)))
        .route("/xrpc/app.bsky.graph.getFollows", get(list(ListKind::Friends)))
        .route("/xrpc/com.atproto.repo.listRecords", get(records))
}

fn bad_request(why: &str) -> Box<Response> {
    Box::new(invalid_request(why))
}

impl Api {
    async fn bluesky_list(&self, side: ListKind, call: &Call) -> Result<Response, Response> {
        let dialect = Dialect::Bluesky;
        let window = self.admit_after_latency(dialect, call).await?.window;
        let actor = call.parameter("actor").unwrap_or_default();
        let answer = self.list_views(side, actor, call);
        Ok(self.answer_list_or_fault(dialect, actor, window, answer).await)
    }

    async fn bluesky_records(&self, call: &Call) -> Result<Response, Response> {
        let dialect = Dialect::Bluesky;
        let window = self.admit_after_latency(dialect, call).await?.window;
        let repo = call.parameter("repo").unwrap_or_default();
        let answer = self.records(repo, call);
        Ok(self.answer_list_or_fault(dialect, repo, window, answer).await)
    }

    /// Answers `getFollowers` or `getFollows`: a page of the list, with a profile view of the owner and of each member.
    fn list_views(&self, side: ListKind, actor: &str, call: &Call) -> Answer {
        if actor.is_empty() {
            return Err(bad_request("Error: Params must have the property \"actor\""));
        }
        let owner =
            self.find_present_account(actor).ok_or_else(|| bad_request(&format!("Actor not found: {actor}")))?;
        let list = List { provider: &Provider::Bluesky, side, owner: owner.number, of_records: false };
        let (limit, cursor) = parse_limit_and_cursor(call)?;
        let (people, now) = (self.world.people(), self.now());
        let page = self.list_page(list, cursor, limit, now).ok_or_else(|| bad_request("Malformed cursor"))?;
        let views: Vec<Value> =
            page.members(side).map(|number| self.list_view(&people.person_at(number, now))).collect();
        let name = if side == ListKind::Followers { "followers" } else { "follows" };
        let mut body = json!({ "subject": self.list_view(&owner), name: views });
        if let Some(next) = page.next {
            body["cursor"] = next.to_string().into();
        }
        Ok(body.to_string())
    }

    fn records(&self, repo: &str, call: &Call) -> Answer {
        if !self.options.bluesky_records {
            let body = json!({ "error": "XRPCNotSupported", "message": "XRPCNotSupported" });
            return Err(Box::new(failure(404, &body)));
        }
        let owner =
            self.find_present_account(repo).ok_or_else(|| bad_request(&format!("Could not find repo: {repo}")))?;
        let (limit, cursor) = parse_limit_and_cursor(call)?;
        let people = self.world.people();
        if call.parameter("collection") != Some(COLLECTION) {
            return Ok(json!({ "records": [] }).to_string());
        }
        let list =
            List { provider: &Provider::Bluesky, side: ListKind::Friends, owner: owner.number, of_records: true };
        let page = self.list_page(list, cursor, limit, self.now()).ok_or_else(|| bad_request("Malformed cursor"))?;
        let did = people.id(&Provider::Bluesky, owner.number);
        let record = |follow: &Follow| {
            let uri = bluesky_uri(follow.from, (follow.followed & 0x3ff) as u32);
            let key = uri.rsplit('/').next().unwrap_or_default();
            json!({
                "uri": format!("at://{did}/{COLLECTION}/{key}"),
                "cid": "bafyreiewgdr4ccuuhbl2l4xs3i2sqzemq3jaotm33pd5mj6xx64thqe3gi",
                "value": {
                    "$type": COLLECTION,
                    "subject": people.id(&Provider::Bluesky, follow.followed),
                    "createdAt": iso(follow.from),
                },
            })
        };
        let mut body = json!({ "records": page.follows.iter().map(record).collect::<Vec<Value>>() });
        if let Some(next) = page.next {
            body["cursor"] = next.to_string().into();
        }
        Ok(body.to_string())
    }

    fn find_present_account(&self, actor: &str) -> Option<Person> {
        let (people, now) = (self.world.people(), self.now());
        let by_handle = || people.number_with_handle(actor.strip_suffix(HANDLE_DOMAIN)?, now);
        let number = people.number(&Provider::Bluesky, actor).or_else(by_handle)?;
        Some(people.person_at(number, now)).filter(|person| !person.is_away())
    }

    /// The view of an account in a list: with a description, and without counts.
    fn list_view(&self, person: &Person) -> Value {
        let mut view = author_view(self.world.people(), person);
        if !person.description.is_empty() {
            view["description"] = person.description.as_str().into();
        }
        view["indexedAt"] = iso(person.created_at).into();
        view
    }
}

fn parse_limit_and_cursor(call: &Call) -> Result<(usize, Option<u64>), Box<Response>> {
    let limit = match call.parameter("limit").map(str::parse) {
        None => LIMIT,
        Some(Ok(limit)) if (1..=MOST).contains(&limit) => limit,
        Some(_) => return Err(bad_request(&format!("Error: limit can not be less than 1 or greater than {MOST}"))),
    };
    match call.parameter("cursor").map(str::parse) {
        None => Ok((limit as usize, None)),
        Some(Ok(cursor)) => Ok((limit as usize, Some(cursor))),
        Some(Err(_)) => Err(bad_request("Malformed cursor")),
    }
}
