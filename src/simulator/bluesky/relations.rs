//! `GET /xrpc/app.bsky.graph.getFollowers`, `/xrpc/app.bsky.graph.getFollows`: the accounts of a list, the newest follow first.
//! `GET /xrpc/com.atproto.repo.listRecords`: an account's follows as it wrote them, including follows of missing accounts.

use axum::extract::State;
use axum::response::Response;
use axum::routing::get;
use serde_json::{Value, json};

use super::dialect::{bluesky_uri, invalid, view};
use crate::model::provider::Provider;
use crate::model::relation::Side;
use crate::simulator::api::accounts::Answer;
use crate::simulator::api::relations::List;
use crate::simulator::api::{Api, Routes, TheApi};
use crate::simulator::call::Call;
use crate::simulator::dialect::Dialect;
use crate::simulator::people::{DOMAIN, Follow, Person};
use crate::simulator::render::iso;
use crate::simulator::reply::failure;

const COLLECTION: &str = "app.bsky.graph.follow";

/// Accounts per page: the default and the maximum.
const LIMIT: u64 = 50;
const MOST: u64 = 100;

pub fn routes(router: Routes) -> Routes {
    let list = |side: Side| async move |State(api): TheApi, call: Call| api.bluesky_list(side, &call).await;
    let records = async |State(api): TheApi, call: Call| api.bluesky_records(&call).await;
    router
        .route("/xrpc/app.bsky.graph.getFollowers", get(list(Side::Followers)))
        .route("/xrpc/app.bsky.graph.getFollows", get(list(Side::Friends)))
        .route("/xrpc/com.atproto.repo.listRecords", get(records))
}

fn wrong(why: &str) -> Box<Response> {
    Box::new(invalid(why))
}

impl Api {
    async fn bluesky_list(&self, side: Side, call: &Call) -> Result<Response, Response> {
        let dialect = Dialect::Bluesky;
        let window = self.enter_any(dialect, call).await?.window;
        let actor = call.parameter("actor").unwrap_or_default();
        let answer = self.list_views(side, actor, call);
        Ok(self.of_relations(dialect, actor, window, answer).await)
    }

    async fn bluesky_records(&self, call: &Call) -> Result<Response, Response> {
        let dialect = Dialect::Bluesky;
        let window = self.enter_any(dialect, call).await?.window;
        let repo = call.parameter("repo").unwrap_or_default();
        let answer = self.records(repo, call);
        Ok(self.of_relations(dialect, repo, window, answer).await)
    }

    fn list_views(&self, side: Side, actor: &str, call: &Call) -> Answer {
        if actor.is_empty() {
            return Err(wrong("Error: Params must have the property \"actor\""));
        }
        let owner = self.there(actor).ok_or_else(|| wrong(&format!("Actor not found: {actor}")))?;
        let list = List { provider: &Provider::Bluesky, side, owner: owner.number, of_records: false };
        let (limit, cursor) = bounds(call)?;
        let (people, now) = (self.world.people(), self.now());
        let page = self.list_page(list, cursor, limit, now).ok_or_else(|| wrong("Malformed cursor"))?;
        let views: Vec<Value> = page.members(side).map(|number| self.in_a_list(&people.at(number, now))).collect();
        let name = if side == Side::Followers { "followers" } else { "follows" };
        let mut body = json!({ "subject": self.in_a_list(&owner), name: views });
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
        let owner = self.there(repo).ok_or_else(|| wrong(&format!("Could not find repo: {repo}")))?;
        let (limit, cursor) = bounds(call)?;
        let people = self.world.people();
        if call.parameter("collection") != Some(COLLECTION) {
            return Ok(json!({ "records": [] }).to_string());
        }
        let list = List { provider: &Provider::Bluesky, side: Side::Friends, owner: owner.number, of_records: true };
        let page = self.list_page(list, cursor, limit, self.now()).ok_or_else(|| wrong("Malformed cursor"))?;
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

    /// The account that an actor names, unless it is away.
    fn there(&self, actor: &str) -> Option<Person> {
        let (people, now) = (self.world.people(), self.now());
        let by_handle = || people.named(actor.strip_suffix(DOMAIN)?, now);
        let number = people.number(&Provider::Bluesky, actor).or_else(by_handle)?;
        Some(people.at(number, now)).filter(|person| !person.is_away())
    }

    /// The view of an account in a list: with a description, and without counts.
    fn in_a_list(&self, person: &Person) -> Value {
        let mut view = view(self.world.people(), person);
        if !person.description.is_empty() {
            view["description"] = person.description.as_str().into();
        }
        view["indexedAt"] = iso(person.created_at).into();
        view
    }
}

fn bounds(call: &Call) -> Result<(usize, Option<u64>), Box<Response>> {
    let limit = match call.parameter("limit").map(str::parse) {
        None => LIMIT,
        Some(Ok(limit)) if (1..=MOST).contains(&limit) => limit,
        Some(_) => return Err(wrong(&format!("Error: limit can not be less than 1 or greater than {MOST}"))),
    };
    match call.parameter("cursor").map(str::parse) {
        None => Ok((limit as usize, None)),
        Some(Ok(cursor)) => Ok((limit as usize, Some(cursor))),
        Some(Err(_)) => Err(wrong("Malformed cursor")),
    }
}
