//! `GET /2/users/:id/followers` and `/following`: up to 1,000 accounts per call, and 300 calls per 15 minutes at each.
//!
//! X charges for each account on a page, as for a looked-up one. The last page has no `next_token`. A missing owner or a hidden list is
//! a problem in `errors` of a success.
//!
//! Sources: docs.x.com (x-api/users/follows, x-api/getting-started/pricing), its OpenAPI document 2.167, recorded chains of 2021.

use async_trait::async_trait;
use reqwest::Url;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::account::{read_account, read_keys};
use super::answer::{Problem, Subject};
use super::{XV2, errors};
use crate::model::account::{Absence, Account};
use crate::model::relation::ListKind;
use crate::providers::http::Reply;
use crate::providers::lookup::{Charge, LookupError, Outcome, json_error, require_object};
use crate::providers::relations::{
    ListCapabilities, Listing, Members, PageRequest, RelationPage, Relations, check_limit, list_error,
};
use crate::providers::scalar::{self, present};
use engine::quota::Credential;

/// Accounts per page: X's limit.
pub const PAGE_LIMIT: u32 = 1_000;

const OWNER: Subject = Subject { parameter: "id", resource: "user" };

#[derive(Debug, Clone)]
pub struct Follows(pub XV2);

#[must_use]
pub fn capabilities(side: ListKind) -> ListCapabilities {
    let endpoint = match side {
        ListKind::Followers => "users/followers",
        ListKind::Friends => "users/following",
    };
    ListCapabilities { page_limit: PAGE_LIMIT, charge: Charge::PerIdPerUtcDay, endpoint }
}

#[async_trait]
impl Relations for Follows {
    fn capabilities(&self, side: ListKind) -> ListCapabilities {
        capabilities(side)
    }

    fn read_keys(&self, id: &str) -> Vec<String> {
        read_keys(id)
    }

    async fn page(&self, request: PageRequest<'_>, credential: &Credential) -> Result<RelationPage, LookupError> {
        check_limit(&request, PAGE_LIMIT)?;
        let reply = self.0.auth.get(&self.address(&request), credential).await?;
        let quota = errors::quota(&reply);
        if reply.status != 200 {
            let error = list_error(&reply, self.0.auth.record_refusal(errors::decide(&reply), credential));
            let listing = read_refusal(&reply, &error, request.cursor.is_some()).ok_or(error)?;
            return Ok(RelationPage { listing, quota });
        }
        let reply = reply.require_json(errors::decide)?;
        let listing = reply.read(read)?;
        Ok(RelationPage { listing, quota })
    }
}

impl Follows {
    fn address(&self, request: &PageRequest<'_>) -> Url {
        let PageRequest { side, owner, cursor, limit } = *request;
        let mut address = self.0.accounts.clone();
        // A joined address has segments.
        if let Ok(mut segments) = address.path_segments_mut() {
            segments.extend([owner, if side == ListKind::Followers { "followers" } else { "following" }]);
        }
        let (name, fields) = self.0.fields.account_parameter();
        let mut query = address.query_pairs_mut();
        query.append_pair("max_results", &limit.to_string()).append_pair(name, &fields);
        if let Some(token) = cursor {
            query.append_pair("pagination_token", token);
        }
        drop(query);
        address
    }
}

fn read_refusal(reply: &Reply, error: &LookupError, has_cursor: bool) -> Option<Listing> {
    let body: Value = serde_json::from_slice(&reply.body).unwrap_or_default();
    let kind = body["type"].as_str().and_then(|kind| kind.rsplit('/').next()).unwrap_or_default();
    match (reply.status, kind, error) {
        (_, "not-authorized-for-resource" | "resource-unavailable" | "disallowed-resource", _) => {
            Some(Listing::Refused)
        }
        (404, "resource-not-found", _) => Some(Listing::OwnerAbsent(Some(Absence::NotFound))),
        // Any other cause shows without the token, too.
        (400, _, LookupError::BadRequest(_)) if has_cursor => Some(Listing::StaleCursor),
        // In the API's own words.
        (404, ..) if body["title"].is_string() || body["errors"].is_array() => {
            Some(if has_cursor { Listing::StaleCursor } else { Listing::OwnerAbsent(None) })
        }
        _ => None,
    }
}

#[derive(Deserialize)]
struct Body<'a> {
    /// Missing on an empty page.
    #[serde(borrow)]
    data: Option<&'a RawValue>,
    #[serde(borrow)]
    meta: Option<&'a RawValue>,
    #[serde(borrow)]
    errors: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Meta {
    result_count: Option<usize>,
    next_token: Option<String>,
}

/// Reads a page, or the statement of a success about the owner. Problems beside accounts concern other resources.
/// [`LookupError::BadAnswer`] for a body without accounts that does not state that there are none.
pub fn read(body: &[u8]) -> Result<Listing, LookupError> {
    let bad = |why: &str| LookupError::BadAnswer(why.to_owned());
    let body = require_object(body)?;
    let Body { data, meta, errors } = serde_json::from_str(&body).map_err(|error| json_error(&error))?;
    let data: Option<Vec<&RawValue>> = match present(data) {
        None => None,
        Some(data) => Some(scalar::value(Some(data)).ok_or_else(|| bad("its data is not a list"))?),
    };
    if data.is_none()
        && let Some(listing) = read_owner_problem(errors)?
    {
        return Ok(listing);
    }
    let meta: Option<Meta> = scalar::value(meta);
    let Meta { result_count, next_token } = meta.ok_or_else(|| bad("a page of accounts without its meta"))?;
    let Some(objects) = data.or_else(|| (result_count == Some(0)).then(Vec::new)) else {
        return Err(bad("a page without accounts that does not say that it is empty"));
    };
    let mut page = Members { next: next_token.filter(|token| !token.is_empty()), ..Members::default() };
    for raw in &objects {
        page.add(read_account(raw.get(), true));
    }
    for _ in objects.len()..result_count.unwrap_or(0) {
        page.unreadable.add("the page has fewer accounts than it states".to_owned());
    }
    Ok(Listing::Members(page))
}

fn read_owner_problem(problems: Option<&RawValue>) -> Result<Option<Listing>, LookupError> {
    let problems: Vec<&RawValue> = scalar::value(problems).unwrap_or_default();
    for raw in problems {
        let problem: Problem<'_> = serde_json::from_str(raw.get()).unwrap_or_default();
        if !problem.is_about(OWNER) {
            continue;
        }
        return match problem.outcome(|problem| Outcome::<Account>::Absent(problem.reason())) {
            Outcome::Absent(reason) | Outcome::Emptied(_, reason) => Ok(Some(reason.into())),
            Outcome::Broken(why) => Err(LookupError::BadAnswer(why)),
            Outcome::Found(_) | Outcome::Unavailable => Ok(None),
        };
    }
    Ok(None)
}
