//! `GET /api/v1/accounts/:id/followers` and `/following`: up to 80 accounts per call.
//!
//! The cursor is `max_id` in the `Link` header: the id of a follow, not of an account. Without it there is no next page. A list
//! is empty if its owner hides it, or is suspended. For an account of another server, the instance knows the follows of its own
//! users, and those that other servers reported.
//!
//! Sources: docs.joinmastodon.org (methods/accounts, api/guidelines), the server's own code
//! (api/v1/accounts/follower_accounts_controller.rb), recorded pages of an instance.

use async_trait::async_trait;
use reqwest::Url;

use super::account::read_account;
use super::{Mastodon, check_id, errors, refusal_error};
use crate::model::account::Absence;
use crate::model::relation::{ListKind, PartialReason};
use crate::providers::auth;
use crate::providers::http::Reply;
use crate::providers::lookup::{Charge, LookupError, decode_lossy, parse_list};
use crate::providers::relations::{
    ListCapabilities, Listing, Members, PageRequest, RelationPage, Relations, check_limit, list_error,
};
use engine::quota::Credential;

/// Accounts per page: the server's limit.
pub const PAGE_LIMIT: u32 = 80;

#[derive(Debug, Clone)]
pub struct Follows(pub Mastodon);

#[must_use]
pub fn capabilities(side: ListKind) -> ListCapabilities {
    let endpoint = match side {
        ListKind::Followers => "accounts/followers",
        ListKind::Friends => "accounts/following",
    };
    ListCapabilities { page_limit: PAGE_LIMIT, charge: Charge::PerCall, endpoint }
}

#[async_trait]
impl Relations for Follows {
    fn capabilities(&self, side: ListKind) -> ListCapabilities {
        capabilities(side)
    }

    fn is_partial_by_handle(&self) -> bool {
        true
    }

    fn partial_reason(&self, handle: &str) -> Option<PartialReason> {
        let (_, server) = handle.rsplit_once('@')?;
        (!self.0.is_own(server)).then_some(PartialReason::Remote)
    }

    async fn page(&self, request: PageRequest<'_>, credential: &Credential) -> Result<RelationPage, LookupError> {
        check_limit(&request, PAGE_LIMIT)?;
        let PageRequest { cursor, limit, .. } = request;
        let reply = auth::get(&self.0.http, self.address(&request), credential).await?;
        let quota = errors::quota(&reply);
        if let Some(listing) = read_refusal(&reply, cursor.is_some()) {
            return Ok(RelationPage { listing, quota });
        }
        if self.0.instance.is_object_missing(&self.0.http, &reply, credential).await {
            return Ok(RelationPage { listing: Listing::OwnerAbsent(Some(Absence::NotFound)), quota });
        }
        let reply = reply.require_json(|reply| list_error(reply, refusal_error(reply, &credential.kind)))?;
        let link = reply.header_lines("link")?;
        let mut page = reply.read(|body| read(body, link.as_deref()))?;
        if page.members.is_empty() && cursor.is_none() && page.unreadable.count == 0 && page.next.is_none() {
            page.partial = Some(PartialReason::Hidden);
        } else if page.members.len() >= limit as usize && link.is_none() {
            page.partial = Some(PartialReason::Unlinked);
        }
        if page.next.is_none() && page.partial.is_none() {
            // A list is complete if its owner is local. Some servers write their own name into a local owner's handle.
            self.0.learn_domain(credential).await;
        }
        Ok(RelationPage::new(page, quota))
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
        let mut query = address.query_pairs_mut();
        query.append_pair("limit", &limit.to_string());
        if let Some(cursor) = cursor {
            query.append_pair("max_id", cursor);
        }
        drop(query);
        address
    }
}

fn read_refusal(reply: &Reply, has_cursor: bool) -> Option<Listing> {
    if errors::is_not_found(reply) {
        Some(Listing::OwnerAbsent(Some(Absence::NotFound)))
    } else if errors::is_account_suspended(reply) {
        Some(Listing::OwnerAbsent(Some(Absence::Suspended)))
    } else if has_cursor && matches!(reply.status, 400 | 422) && errors::says_error(reply) {
        Some(Listing::StaleCursor)
    } else {
        None
    }
}

/// Reads a page and its `Link` header.
///
/// # Errors
/// [`LookupError::BadAnswer`] for a body that is not a list, and for a link to a next page without a `max_id`: treating that as
/// the last page would lose the others.
pub fn read(body: &[u8], link: Option<&str>) -> Result<Members, LookupError> {
    let body = decode_lossy(body);
    let mut page = Members { next: next_cursor(link)?, ..Members::default() };
    for raw in parse_list(&body, "accounts")? {
        let (id, account) = read_account(raw.get());
        match id.as_deref().map_or(Ok(()), check_id) {
            Ok(()) => page.add((id, account)),
            Err(why) => page.unreadable.add(why.to_string()),
        }
    }
    Ok(page)
}

/// Cursor of the next page in a `Link` header (RFC 8288): `<https://…?max_id=7>; rel="next", <…>; rel="prev"`. The server chose
/// the address, so only the cursor is used.
fn next_cursor(link: Option<&str>) -> Result<Option<String>, LookupError> {
    // Addresses end with their angle bracket; they may contain a comma.
    for part in link.unwrap_or_default().split('<').skip(1) {
        let Some((address, parameters)) = part.split_once('>') else { continue };
        let is_next = parameters.split([';', ',']).any(|parameter| {
            let rel = parameter.trim().strip_prefix("rel=").unwrap_or_default();
            rel.trim_matches('"').split_ascii_whitespace().any(|relation| relation.eq_ignore_ascii_case("next"))
        });
        if !is_next {
            continue;
        }
        // The address may be relative. Its base does not matter, since only the query is read.
        let found = Url::parse("http://any.invalid").and_then(|any| any.join(address)).ok().and_then(|address| {
            let cursor =
                address.query_pairs().find(|(name, _)| name == "max_id").map(|(_, cursor)| cursor.into_owned());
            cursor.filter(|cursor| !cursor.is_empty())
        });
        let why = || LookupError::BadAnswer("its link to the next page has no max_id".to_owned());
        return found.map(Some).ok_or_else(why);
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_cursor_is_in_the_link() {
        let next = |link: &str| next_cursor(Some(link)).unwrap();
        for (link, expected) in [
            (
                r#"<https://a.example/x?limit=3&max_id=51>; rel="next", <https://a.example/x?since_id=57>; rel="prev""#,
                Some("51"),
            ),
            (
                r#"<https://a.example/x?since_id=57>; rel="prev", <https://a.example/x?max_id=a%2Cb>; rel="next""#,
                Some("a,b"),
            ),
            ("<https://a.example/x,y?max_id=5>;rel=next", Some("5")),
            (r#"<https://a.example/x?max_id=5>; title="x"; rel="last NEXT""#, Some("5")),
            (r#"</api/v1/accounts/7/followers?max_id=5>; rel="next""#, Some("5")),
            (r#"<?max_id=5&limit=3>; rel="next""#, Some("5")),
            (r#"<https://a.example/x?max_id=5>; rel="prev""#, None),
            (r#"<https://a.example/x?max_id=5>; title="next""#, None),
            ("", None),
            ("nonsense", None),
        ] {
            assert_eq!(next(link).as_deref(), expected, "{link}");
        }
        for odd in [r#"<https://a.example/x?page=2>; rel="next""#, r#"</x?max_id=>; rel="next""#, r#"<:>; rel="next""#]
        {
            assert!(matches!(super::next_cursor(Some(odd)), Err(LookupError::BadAnswer(_))), "{odd}");
        }
        assert_eq!(super::next_cursor(None).unwrap(), None);
    }

    #[test]
    fn a_page_is_a_list_of_accounts() {
        let page =
            read(br#"[{"id":"9","acct":"ann"},{"id":7},{"acct":"cat"},{"id":"a/b","acct":"x"},5]"#, None).unwrap();
        let ids: Vec<&str> = page.members.iter().map(|member| member.id.as_str()).collect();
        assert_eq!((ids, page.accounts.len(), page.unreadable.count), (vec!["9", "7"], 1, 3));
        for body in ["", "{}", r#"{"error":"no"}"#, r#"[{"id":"9""#, "null"] {
            assert!(matches!(read(body.as_bytes(), None), Err(LookupError::BadAnswer(_))), "{body}");
        }
    }
}
