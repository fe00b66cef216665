//! `app.bsky.graph.getFollowers`, `app.bsky.graph.getFollows`: up to 100 accounts per call. For friends, if the server has the owner's
//! repository, `com.atproto.repo.listRecords` of `app.bsky.graph.follow`: with the time of each follow.
//!
//! Views leave out accounts that are gone, are blocked, or block the owner: a list has fewer members than the profile counts. Records
//! are the owner's: follows of accounts that are gone stay until the owner deletes them.
//!
//! **Friends are requested as records first.** A personal data server has the records of its own accounts, and Bluesky's public AppView
//! none. If the method or the repository is missing, the first page is empty, and its next cursor leads to the first page of views. The
//! prefix of our cursors states which of the two they belong to.
//!
//! Sources: the lexicons app.bsky.graph.getFollowers, app.bsky.graph.getFollows and com.atproto.repo.listRecords; the
//! reference server, bluesky-social/atproto (`packages/bsky`, `packages/pds`); a recorded page.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use reqwest::Url;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::account::read_account;
use super::uri::is_did;
use super::{Bluesky, errors, is_stale_cursor, refusal_error};
use crate::model::account::Absence;
use crate::model::relation::ListKind;
use crate::providers::auth;
use crate::providers::http::Reply;
use crate::providers::limits::server_time;
use crate::providers::lookup::{Charge, LookupError, json_error, require_object};
use crate::providers::relations::{
    ListCapabilities, Listing, Member, Members, PageRequest, RelationPage, Relations, check_limit, list_error,
};
use crate::providers::scalar::{self, present};
use engine::base::clock::Millis;
use engine::quota::{Credential, CredentialKind};

/// Accounts or records per page: the lexicons' limit.
pub const PAGE_LIMIT: u32 = 100;

const COLLECTION: &str = "app.bsky.graph.follow";

/// Prefixes of our cursors of friends.
const RECORDS_PREFIX: &str = "records:";
const VIEWS_PREFIX: &str = "views:";

/// Clones share the facts learned about the server.
#[derive(Debug, Clone)]
pub struct Follows {
    bluesky: Bluesky,
    /// True if the server lacks the method: it is not requested again while the process runs.
    lacks_records: Arc<AtomicBool>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Call<'a> {
    Records { cursor: Option<&'a str> },
    Views { cursor: Option<&'a str> },
}

impl Follows {
    #[must_use]
    pub fn new(bluesky: Bluesky) -> Self {
        Self { bluesky, lacks_records: Arc::default() }
    }

    fn choose_call<'a>(&self, request: &PageRequest<'a>) -> Call<'a> {
        let some = |cursor: &'a str| Some(cursor).filter(|cursor| !cursor.is_empty());
        match (request.side, request.cursor) {
            (ListKind::Followers, cursor) => Call::Views { cursor },
            (ListKind::Friends, None) if self.lacks_records.load(Ordering::Relaxed) => Call::Views { cursor: None },
            (ListKind::Friends, None) => Call::Records { cursor: None },
            (ListKind::Friends, Some(cursor)) => match cursor.strip_prefix(RECORDS_PREFIX) {
                Some(cursor) => Call::Records { cursor: some(cursor) },
                None => Call::Views { cursor: some(cursor.strip_prefix(VIEWS_PREFIX).unwrap_or(cursor)) },
            },
        }
    }

    fn address(&self, request: &PageRequest<'_>, call: Call<'_>) -> Url {
        let PageRequest { side, owner, limit, .. } = *request;
        let (mut address, cursor) = match (call, side) {
            (Call::Records { cursor }, _) => (self.bluesky.records.clone(), cursor),
            (Call::Views { cursor }, ListKind::Followers) => (self.bluesky.followers.clone(), cursor),
            (Call::Views { cursor }, ListKind::Friends) => (self.bluesky.follows.clone(), cursor),
        };
        let mut query = address.query_pairs_mut();
        match call {
            Call::Records { .. } => query.append_pair("repo", owner).append_pair("collection", COLLECTION),
            Call::Views { .. } => query.append_pair("actor", owner),
        };
        query.append_pair("limit", &limit.to_string());
        if let Some(cursor) = cursor {
            query.append_pair("cursor", cursor);
        }
        drop(query);
        address
    }

    fn read_refusal(
        &self,
        reply: &Reply,
        call: Call<'_>,
        request: &PageRequest<'_>,
        credential: &Credential,
    ) -> Option<Listing> {
        let body: Value = serde_json::from_slice(&reply.body).unwrap_or_default();
        // A proxy in front of the server gives no error name, and says nothing about the list.
        let name = body["error"].as_str()?;
        let message = body["message"].as_str().unwrap_or_default();
        let is_anonymous = matches!(credential.kind, CredentialKind::Anonymous);
        let is_refused = matches!(refusal_error(reply, &credential.kind), LookupError::BadRequest(_));
        match call {
            Call::Records { cursor: None } if matches!(reply.status, 404 | 501) => {
                tracing::info!(
                    "the server does not list records; lists of friends come without the times of the follows"
                );
                self.lacks_records.store(true, Ordering::Relaxed);
                Some(Listing::Members(empty_page_before_views()))
            }
            // The repository is another server's, or closed: the views give the answer.
            Call::Records { cursor: None } if reply.status == 400 => Some(Listing::Members(empty_page_before_views())),
            Call::Views { .. } if message.starts_with("Actor not found") => {
                Some(Listing::OwnerAbsent(Some(Absence::NotFound)))
            }
            // Without a session, no session is refused: these errors concern the owner.
            Call::Views { .. } if is_anonymous && matches!(name, "AccountTakedown" | "AccountSuspended") => {
                Some(Listing::OwnerAbsent(Some(Absence::Suspended)))
            }
            Call::Views { .. } if is_anonymous && name == "AccountDeactivated" => {
                Some(Listing::OwnerAbsent(Some(Absence::NotFound)))
            }
            // A data server shows callers without a login the records of its own accounts, but no views. It lacks this owner's records,
            // so the list is hidden.
            Call::Views { cursor: None }
                if is_anonymous
                    && reply.status == 401
                    && request.cursor == Some(VIEWS_PREFIX)
                    && !self.lacks_records.load(Ordering::Relaxed) =>
            {
                Some(Listing::Refused)
            }
            Call::Views { .. } if matches!(name, "BlockedActor" | "BlockedByActor") => Some(Listing::Refused),
            Call::Records { cursor: Some(_) } | Call::Views { cursor: Some(_) } if is_refused => {
                Some(Listing::StaleCursor)
            }
            Call::Records { .. } | Call::Views { .. } => None,
        }
    }
}

/// Empty page before the first page of views.
fn empty_page_before_views() -> Members {
    Members { next: Some(VIEWS_PREFIX.to_owned()), ..Members::default() }
}

#[must_use]
pub fn capabilities(side: ListKind) -> ListCapabilities {
    let endpoint = match side {
        ListKind::Followers => "getFollowers",
        ListKind::Friends => "getFollows",
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
        let call = self.choose_call(&request);
        let reply = auth::get(&self.bluesky.http, self.address(&request, call), credential).await?;
        let quota = errors::quota(&reply);
        if reply.status >= 500
            && let Call::Views { cursor: Some(_) } | Call::Records { cursor: Some(_) } = call
        {
            let without = match call {
                Call::Records { .. } => Call::Records { cursor: None },
                Call::Views { .. } => Call::Views { cursor: None },
            };
            let addresses = [call, without].map(|call| self.address(&request, call));
            if is_stale_cursor(&self.bluesky.http, addresses, credential).await? {
                return Ok(RelationPage { listing: Listing::StaleCursor, quota });
            }
        }
        if reply.status != 200
            && let Some(listing) = self.read_refusal(&reply, call, &request, credential)
        {
            return Ok(RelationPage { listing, quota });
        }
        let reply = reply.require_json(|reply| list_error(reply, refusal_error(reply, &credential.kind)))?;
        let (mut page, asked) = match call {
            Call::Records { cursor } => (reply.read(|body| read_records(body, server_time(&reply)))?, cursor),
            Call::Views { cursor } => (reply.read(|body| read_views(body, request.side, request.owner))?, cursor),
        };
        // An empty page with its own cursor is the end.
        if page.members.is_empty() && page.unreadable.count == 0 && page.next.as_deref() == asked {
            page.next = None;
        }
        let prefix = match (request.side, call) {
            (ListKind::Followers, _) => "",
            (ListKind::Friends, Call::Records { .. }) => RECORDS_PREFIX,
            (ListKind::Friends, Call::Views { .. }) => VIEWS_PREFIX,
        };
        page.next = page.next.map(|cursor| format!("{prefix}{cursor}"));
        Ok(RelationPage::new(page, quota))
    }
}

#[derive(Deserialize)]
struct Body<'a> {
    #[serde(borrow)]
    subject: Option<&'a RawValue>,
    #[serde(borrow)]
    followers: Option<Vec<&'a RawValue>>,
    #[serde(borrow)]
    follows: Option<Vec<&'a RawValue>>,
    #[serde(borrow)]
    records: Option<Vec<&'a RawValue>>,
    #[serde(borrow)]
    cursor: Option<&'a RawValue>,
}

impl<'a> Body<'a> {
    fn read(body: &'a str) -> Result<Self, LookupError> {
        // Syntax first: JSON of another shape gets its own error.
        let _: &RawValue = serde_json::from_str(body).map_err(|error| json_error(&error))?;
        serde_json::from_str(body).map_err(|_| LookupError::BadAnswer("it is not a page of accounts".to_owned()))
    }

    fn start_page(&self) -> Result<Members, LookupError> {
        let next = match present(self.cursor) {
            None => None,
            Some(cursor) => Some(scalar::string(cursor).ok_or_else(|| bad_answer("its cursor is not a string"))?),
        };
        Ok(Members { next: next.filter(|cursor| !cursor.is_empty()), ..Members::default() })
    }
}

fn bad_answer(why: &str) -> LookupError {
    LookupError::BadAnswer(why.to_owned())
}

#[derive(Deserialize)]
struct Subject<'a> {
    #[serde(borrow)]
    did: Option<&'a RawValue>,
}

/// Reads a page of profile views. [`LookupError::BadAnswer`] if the list of that side is missing, or belongs to another account.
pub fn read_views(body: &[u8], side: ListKind, owner: &str) -> Result<Members, LookupError> {
    let body = require_object(body)?;
    let body = Body::read(&body)?;
    let mut page = body.start_page()?;
    let subject: Option<Subject<'_>> = scalar::value(body.subject);
    if let Some(did) = subject.and_then(|subject| scalar::string(present(subject.did)?))
        && did != owner
    {
        return Err(bad_answer("it is the list of another account"));
    }
    let views = match side {
        ListKind::Followers => body.followers.ok_or_else(|| bad_answer("an object without a list of followers"))?,
        ListKind::Friends => body.follows.ok_or_else(|| bad_answer("an object without a list of follows"))?,
    };
    for raw in views {
        let (id, account) = read_account(raw.get());
        match id.as_deref() {
            Some(id) if !is_did(id) => page.unreadable.add("an id is not a DID".to_owned()),
            _ => page.add((id, account)),
        }
    }
    Ok(page)
}

#[derive(Deserialize)]
struct Record<'a> {
    #[serde(borrow)]
    value: Option<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Follow<'a> {
    #[serde(borrow)]
    subject: Option<&'a RawValue>,
    #[serde(borrow)]
    created_at: Option<&'a RawValue>,
}

/// Reads a page of records of follows. A time after `now` (ms since the epoch) is dropped. [`LookupError::BadAnswer`] without a list.
pub fn read_records(body: &[u8], now: Millis) -> Result<Members, LookupError> {
    let body = require_object(body)?;
    let body = Body::read(&body)?;
    let mut page = body.start_page()?;
    for raw in body.records.ok_or_else(|| bad_answer("an object without a list of records"))? {
        let record: Option<Record<'_>> = serde_json::from_str(raw.get()).ok();
        let follow: Option<Follow<'_>> = record.and_then(|record| scalar::value(record.value));
        let Some(Follow { subject, created_at }) = follow else {
            page.unreadable.add("not a record".to_owned());
            continue;
        };
        match present(subject).and_then(scalar::string).filter(|id| is_did(id)) {
            Some(id) => {
                let followed_at = scalar::date_or_none(created_at, scalar::rfc3339_or_utc).filter(|at| *at <= now);
                page.members.push(Member { id, followed_at });
            }
            None => page.unreadable.add("the subject of a record is not a DID".to_owned()),
        }
    }
    Ok(page)
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWNER: &str = "did:plc:kvwvcn5iqfooopmyzvb4qzba";

    fn ids(page: &Members) -> Vec<&str> {
        page.members.iter().map(|member| member.id.as_str()).collect()
    }

    #[test]
    fn a_page_of_views_is_the_owner_s_list() {
        let body = format!(
            r#"{{"subject":{{"did":"{OWNER}"}},"followers":[{{"did":"did:plc:a","handle":"a.test"}},{{"did":"did:plc:b"}},{{"handle":"c.test"}},{{"did":"b.test","handle":"b.test"}}],"cursor":"3k"}}"#
        );
        let page = read_views(body.as_bytes(), ListKind::Followers, OWNER).unwrap();
        assert_eq!((ids(&page), page.accounts.len()), (vec!["did:plc:a", "did:plc:b"], 1));
        assert_eq!((page.unreadable.count, page.next.as_deref()), (2, Some("3k")));
        let of = |body: &str, side| read_views(body.as_bytes(), side, OWNER);
        assert!(matches!(of(&body, ListKind::Friends), Err(LookupError::BadAnswer(_))), "the other list");
        let another = body.replace(OWNER, "did:plc:other");
        assert!(matches!(of(&another, ListKind::Followers), Err(LookupError::BadAnswer(_))));
        for odd in ["{}", "[]", "", r#"{"followers":null}"#, r#"{"followers":{}}"#, r#"{"followers":[],"cursor":7}"#] {
            assert!(matches!(of(odd, ListKind::Followers), Err(LookupError::BadAnswer(_))), "{odd}");
        }
        assert_eq!(of(r#"{"follows":[]}"#, ListKind::Friends).unwrap(), Members::default());
    }

    #[test]
    fn a_record_tells_the_moment_of_a_follow() {
        let record = |subject: &str, at: &str| {
            format!(r#"{{"uri":"at://x","value":{{"$type":"{COLLECTION}","subject":"{subject}","createdAt":"{at}"}}}}"#)
        };
        let records = [
            record("did:plc:a", "2026-01-02T00:00:00.500Z"),
            record("did:plc:b", "2999-01-01T00:00:00Z"),
            record("did:plc:c", "yesterday"),
            record("c.test", "2026-01-01T00:00:00Z"),
            "{}".to_owned(),
        ];
        let body = format!(r#"{{"records":[{}],"cursor":"3l"}}"#, records.join(","));
        let page = read_records(body.as_bytes(), 1_798_000_000_000).unwrap();
        let times: Vec<Option<Millis>> = page.members.iter().map(|member| member.followed_at).collect();
        assert_eq!(ids(&page), ["did:plc:a", "did:plc:b", "did:plc:c"]);
        assert_eq!((times, page.unreadable.count), (vec![Some(1_767_312_000_500), None, None], 2));
        assert!(matches!(read_records(b"{}", 0), Err(LookupError::BadAnswer(_))));
    }
}
