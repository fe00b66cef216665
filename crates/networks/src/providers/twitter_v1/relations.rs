//! `followers/ids` and `friends/ids` of API v1.1: up to 5,000 ids per call, and 15 calls per 15 minutes for each of the two, for a user
//! and for an application alike.
//!
//! The first page has the cursor -1, the last one the next cursor 0. Neighbouring pages sometimes repeat an id (recorded: at two of
//! five page boundaries). A protected owner is a 401 "Not authorized.", which does not concern the credential.
//!
//! Sources: developer.twitter.com/en/docs/twitter-api/v1/accounts-and-users/follow-search-get-users; responses recorded in 2022 for
//! all pages of some lists.

use async_trait::async_trait;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{TwitterV1, errors, limits};
use crate::model::relation::ListKind;
use crate::providers::http::Reply;
use crate::providers::lookup::{Charge, LookupError, json_error, require_object};
use crate::providers::relations::{
    ListCapabilities, Listing, Member, Members, PageRequest, RelationPage, Relations, check_limit, list_error,
};
use crate::providers::scalar::{self, present};
use engine::quota::Credential;

/// Ids per page: Twitter's limit.
pub const PAGE_LIMIT: u32 = 5_000;

/// Cursor of the first page, and next cursor of the last.
const FIRST: &str = "-1";
const LAST: &str = "0";

#[derive(Debug, Clone)]
pub struct Follows(pub TwitterV1);

#[must_use]
pub fn capabilities(side: ListKind) -> ListCapabilities {
    let endpoint = match side {
        ListKind::Followers => "followers/ids",
        ListKind::Friends => "friends/ids",
    };
    ListCapabilities { page_limit: PAGE_LIMIT, charge: Charge::PerCall, endpoint }
}

#[async_trait]
impl Relations for Follows {
    fn capabilities(&self, side: ListKind) -> ListCapabilities {
        capabilities(side)
    }

    async fn page(&self, request: PageRequest<'_>, credential: &Credential) -> Result<RelationPage, LookupError> {
        check_limit(&request, PAGE_LIMIT)?;
        let PageRequest { side, owner, cursor, limit } = request;
        let mut address = match side {
            ListKind::Followers => self.0.followers.clone(),
            ListKind::Friends => self.0.friends.clone(),
        };
        address
            .query_pairs_mut()
            .append_pair("user_id", owner)
            .append_pair("count", &limit.to_string())
            .append_pair("cursor", cursor.unwrap_or(FIRST))
            .append_pair("stringify_ids", "true");
        let reply = self.0.auth.get(&address, credential).await?;
        let quota = limits::quota(&reply);
        let endpoint = self.capabilities(side).endpoint;
        if reply.status != 200 {
            let error = list_error(&reply, self.0.refusal_error(&reply, endpoint, credential));
            let listing = read_refusal(&reply, &error, cursor.is_some()).ok_or(error)?;
            return Ok(RelationPage { listing, quota });
        }
        let reply = reply.require_json(|reply| self.0.refusal_error(reply, endpoint, credential))?;
        Ok(RelationPage::new(reply.read(read)?, quota))
    }
}

fn read_refusal(reply: &Reply, error: &LookupError, has_cursor: bool) -> Option<Listing> {
    if let Some(reason) = errors::absence(reply) {
        return Some(reason.into());
    }
    match (reply.status, errors::error_code(reply), error) {
        // The owner blocks the user of the credential.
        (401 | 403, Some(136), _) => Some(Listing::Refused),
        // The first page shows if the cursor or the owner is the cause.
        (404, Some(17 | 34), _) | (400, _, LookupError::BadRequest(_)) if has_cursor => Some(Listing::StaleCursor),
        (404, Some(17 | 34), _) => Some(Listing::OwnerAbsent(None)),
        _ => None,
    }
}

#[derive(Deserialize)]
struct Body<'a> {
    #[serde(borrow)]
    ids: Option<Vec<&'a RawValue>>,
    #[serde(borrow)]
    next_cursor: Option<&'a RawValue>,
    #[serde(borrow)]
    next_cursor_str: Option<&'a RawValue>,
}

/// Reads a page; unreadable ids are counted. [`LookupError::BadAnswer`] without a list of ids, or without a next cursor.
pub fn read(body: &[u8]) -> Result<Members, LookupError> {
    let bad = |why: &str| LookupError::BadAnswer(why.to_owned());
    let body = require_object(body)?;
    // Syntax first: JSON of another shape gets its own error.
    let _: &RawValue = serde_json::from_str(&body).map_err(|error| json_error(&error))?;
    let Body { ids, next_cursor, next_cursor_str } =
        serde_json::from_str(&body).map_err(|_| bad("it is not a page of ids"))?;
    let ids = ids.ok_or_else(|| bad("an object without a list of ids"))?;
    let cursor = present(next_cursor_str).or(present(next_cursor)).and_then(cursor);
    let cursor = cursor.ok_or_else(|| bad("a page of ids without a next cursor"))?;
    let mut page = Members { next: Some(cursor).filter(|next| next != LAST), ..Members::default() };
    for raw in ids {
        match scalar::id(raw) {
            Ok(id) => page.members.push(Member::new(id.to_string())),
            Err(bad) => page.unreadable.add(format!("an id: {bad}")),
        }
    }
    Ok(page)
}

fn cursor(raw: &RawValue) -> Option<String> {
    let text = scalar::string(raw).unwrap_or_else(|| raw.get().to_owned());
    text.parse::<i64>().is_ok().then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(members: &Members) -> Vec<&str> {
        members.members.iter().map(|member| member.id.as_str()).collect()
    }

    #[test]
    fn a_page_is_a_list_of_ids_and_a_cursor() {
        let page = read(br#"{"ids":["9","7",8],"next_cursor":1,"next_cursor_str":"1748121899674527239"}"#).unwrap();
        assert_eq!((ids(&page), page.next.as_deref()), (vec!["9", "7", "8"], Some("1748121899674527239")));
        let last = read(br#"{"ids":[],"next_cursor":0}"#).unwrap();
        assert_eq!(last, Members::default());
        let odd = read(br#"{"ids":["9","ann",null,1.5e18,"7"],"next_cursor_str":"0"}"#).unwrap();
        assert_eq!((ids(&odd), odd.unreadable.count), (vec!["9", "7"], 3));
        assert!(odd.unreadable.first.unwrap().contains("an id"));
    }

    #[test]
    fn without_its_fields_it_is_no_page() {
        for body in [
            "",
            "[]",
            "{}",
            r#"{"next_cursor_str":"0"}"#,
            r#"{"ids":null,"next_cursor":0}"#,
            r#"{"ids":{},"next_cursor":0}"#,
            r#"{"ids":["7"]}"#,
            r#"{"ids":["7"],"next_cursor_str":null}"#,
            r#"{"ids":["7"],"next_cursor_str":"soon"}"#,
            r#"{"ids":["7"],"next_cursor"#,
            r#"{"errors":[{"code":130}]}"#,
        ] {
            assert!(matches!(read(body.as_bytes()), Err(LookupError::BadAnswer(_))), "{body}");
        }
    }
}
