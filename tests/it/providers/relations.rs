//! Lists of followers and friends against canned answers: calls, pages, and what each refusal says; the recorded chains and the
//! simulator's lists, in modules.

pub mod recorded;
mod simulated;

use serde_json::{Value, json};
use twitter_updater::model::account::Absence;
use twitter_updater::model::relation::{ListKind, PartialReason};
use twitter_updater::providers::lookup::{Charge, LookupError};
use twitter_updater::providers::relations::{Listing, Members, PageRequest, RelationPage, Relations};

use super::all::{Bounds, Provider};
use super::decision;
use crate::support::http::{CANARY, Canned, CannedServer, anonymous, bearer};

const NETWORKS: [Provider; 4] = [Provider::TwitterV1, Provider::XV2, Provider::Mastodon, Provider::Bluesky];

fn request<'a>(side: ListKind, owner: &'a str, cursor: Option<&'a str>) -> PageRequest<'a> {
    PageRequest { side, owner, cursor, limit: 3 }
}

fn at(provider: Provider, server: &CannedServer) -> Box<dyn Relations> {
    provider.relations_at(&server.base_url(), Bounds::default())
}

async fn ask(
    provider: Provider,
    answer: Canned,
    side: ListKind,
    cursor: Option<&str>,
) -> Result<RelationPage, LookupError> {
    let server = CannedServer::start(answer).await;
    let owner = provider.account_id(0);
    let result = at(provider, &server).page(request(side, &owner, cursor), &bearer(CANARY)).await;
    if let Err(error) = &result {
        let told = format!("{error} {error:?}");
        assert!(!told.contains(CANARY) && !told.contains(&owner), "{told}");
    }
    result
}

pub fn members(page: &RelationPage) -> &Members {
    match &page.listing {
        Listing::Members(members) => members,
        other => panic!("no page: {other:?}"),
    }
}

fn ids(page: &RelationPage) -> Vec<&str> {
    members(page).members.iter().map(|member| member.id.as_str()).collect()
}

/// A page as the network writes it, and the headers that belong to it. No cursor: the last page.
fn page(provider: Provider, side: ListKind, accounts: &[Value], next: Option<&str>) -> Canned {
    let body = match provider {
        Provider::TwitterV1 => {
            let ids: Vec<&Value> = accounts.iter().map(|account| &account["id_str"]).collect();
            json!({ "ids": ids, "next_cursor": 0, "next_cursor_str": next.unwrap_or("0"), "previous_cursor": 0 })
        }
        Provider::XV2 if accounts.is_empty() => json!({ "meta": { "result_count": 0, "next_token": next } }),
        Provider::XV2 => json!({ "data": accounts, "meta": { "result_count": accounts.len(), "next_token": next } }),
        Provider::Mastodon | Provider::MastodonStatus => Value::from(accounts.to_vec()),
        Provider::Bluesky => {
            let name = if side == ListKind::Followers { "followers" } else { "follows" };
            let mut body = json!({ "subject": { "did": provider.account_id(0) }, name: accounts });
            if let Some(next) = next {
                body["cursor"] = next.into();
            }
            body
        }
    };
    let answer = Canned::new(200, body.to_string());
    match (provider, next) {
        (Provider::Mastodon, Some(next)) => {
            let link = format!(
                "<https://elsewhere.example/api/v1/accounts/7/followers?limit=80&max_id={next}>; rel=\"next\", \
                 <https://elsewhere.example/api/v1/accounts/7/followers?since_id=9>; rel=\"prev\""
            );
            answer.header("link", &link)
        }
        _ => answer,
    }
}

/// The side whose pages are accounts at every network.
const VIEWS: Option<&str> = Some("views:");

fn first_cursor(provider: Provider, side: ListKind) -> Option<&'static str> {
    if provider == Provider::Bluesky && side == ListKind::Friends { VIEWS } else { None }
}

#[tokio::test]
async fn a_call_is_what_the_documentation_says() {
    use ListKind::{Followers, Friends};

    for (provider, side, cursor, expected) in [
        (
            Provider::TwitterV1,
            Followers,
            None,
            "/1.1/followers/ids.json?user_id=OWNER&count=3&cursor=-1&stringify_ids=true",
        ),
        (
            Provider::TwitterV1,
            Friends,
            Some("17"),
            "/1.1/friends/ids.json?user_id=OWNER&count=3&cursor=17&stringify_ids=true",
        ),
        (Provider::XV2, Followers, None, "/2/users/OWNER/followers?max_results=3&user.fields="),
        (Provider::XV2, Friends, Some("7HD&"), "/2/users/OWNER/following?max_results=3&user.fields="),
        (Provider::Mastodon, Followers, None, "/api/v1/accounts/OWNER/followers?limit=3"),
        (Provider::Mastodon, Friends, Some("51"), "/api/v1/accounts/OWNER/following?limit=3&max_id=51"),
        (Provider::Bluesky, Followers, Some("3k"), "/xrpc/app.bsky.graph.getFollowers?actor=OWNER&limit=3&cursor=3k"),
        (Provider::Bluesky, Friends, Some("views:3k"), "/xrpc/app.bsky.graph.getFollows?actor=OWNER&limit=3&cursor=3k"),
        (
            Provider::Bluesky,
            Friends,
            Some("records:3k"),
            "/xrpc/com.atproto.repo.listRecords?repo=OWNER&collection=app.bsky.graph.follow&limit=3&cursor=3k",
        ),
    ] {
        let server = CannedServer::start(page(provider, side, &[], None)).await;
        let lists = provider.relations_at(&format!("{}/proxy", server.base_url()), Bounds::default());
        let owner = provider.account_id(0);
        let answer = lists.page(request(side, &owner, cursor), &bearer("t0ken")).await;
        let is_records = cursor.is_some_and(|cursor| cursor.starts_with("records"));
        assert_eq!(answer.is_ok(), !is_records, "a page of views is none of records");
        let call = &server.asked()[0];
        let expected = format!("/proxy{expected}").replace("OWNER", &owner.replace(':', "%3A"));
        assert!(call.target.starts_with(&expected), "{}", call.target);
        if provider == Provider::XV2 {
            let token = call.target.split("&pagination_token=").nth(1);
            assert_eq!(token, cursor.map(|_| "7HD%26"), "{}", call.target);
            assert!(call.target.contains("public_metrics") && call.target.contains("protected"));
        } else {
            assert_eq!(call.target, expected);
        }
        assert_eq!((call.method.as_str(), call.header("authorization")), ("GET", Some("Bearer t0ken")));
    }
}

#[tokio::test]
async fn a_network_states_what_a_page_holds_and_costs() {
    for (provider, page_limit, charge, endpoints, cost) in [
        (Provider::TwitterV1, 5_000, Charge::PerCall, ["followers/ids", "friends/ids"], 0),
        (Provider::XV2, 1_000, Charge::PerIdPerUtcDay, ["users/followers", "users/following"], 2_000),
        (Provider::Mastodon, 80, Charge::PerCall, ["accounts/followers", "accounts/following"], 0),
        (Provider::Bluesky, 100, Charge::PerCall, ["getFollowers", "getFollows"], 0),
    ] {
        let lists = provider.relations_at("http://127.0.0.1:9", Bounds::default());
        for (side, endpoint) in ListKind::ALL.into_iter().zip(endpoints) {
            let stated = lists.capabilities(side);
            assert_eq!((stated.page_limit, stated.charge, stated.endpoint), (page_limit, charge, endpoint));
            assert_eq!(lists.cost(side, page_limit), cost);
            // Without a call: nothing listens there.
            for limit in [0, page_limit + 1] {
                let request = PageRequest { limit, ..request(side, "7", None) };
                let error = lists.page(request, &anonymous()).await.unwrap_err();
                assert_eq!(decision(&error), "too large", "{provider:?}");
            }
        }
        let is_remote = (provider == Provider::Mastodon).then_some(PartialReason::Remote);
        assert_eq!((lists.partial_reason("ann"), lists.partial_reason("ann@b.example")), (None, is_remote));
    }
    // An account on a page costs what it costs when it is looked up.
    let lists = Provider::XV2.relations_at("http://127.0.0.1:9", Bounds::default());
    let accounts = Provider::XV2.accounts_at("http://127.0.0.1:9", Bounds::default());
    assert_eq!((lists.read_keys("7"), lists.cost(ListKind::Friends, 1)), (accounts.read_keys("7"), 2));
}

#[tokio::test]
async fn a_page_has_ids_in_the_order_told_with_their_accounts_and_the_next_cursor() {
    for provider in NETWORKS {
        for side in ListKind::ALL {
            let cursor = first_cursor(provider, side);
            let accounts: Vec<Value> =
                [3, 1, 2].map(|number| provider.account(&provider.account_id(number), "ann")).to_vec();
            let expected: Vec<String> = [3, 1, 2].map(|number| provider.account_id(number)).to_vec();
            let some = ask(provider, page(provider, side, &accounts, Some("51")), side, cursor).await.unwrap();
            assert_eq!(ids(&some), expected, "{provider:?}");
            let known: Vec<&str> = members(&some).accounts.iter().map(|account| account.id.as_str()).collect();
            let sends_accounts = provider != Provider::TwitterV1;
            assert_eq!(known, if sends_accounts { ids(&some) } else { Vec::new() }, "{provider:?}");
            let prefix = if cursor.is_some() { "views:" } else { "" };
            assert_eq!(members(&some).next, Some(format!("{prefix}51")), "{provider:?}");
            assert_eq!((members(&some).partial, members(&some).unreadable.count), (None, 0));
            assert!(members(&some).members.iter().all(|member| member.followed_at.is_none()));

            let last = ask(provider, page(provider, side, &accounts[..2], None), side, cursor).await.unwrap();
            assert_eq!((ids(&last), &members(&last).next), (ids(&some)[..2].to_vec(), &None), "{provider:?}");
            // Empty, and more to come.
            let empty = ask(provider, page(provider, side, &[], Some("40")), side, cursor).await.unwrap();
            assert_eq!(members(&empty).next, Some(format!("{prefix}40")), "{provider:?}");
            assert_eq!((ids(&empty).len(), members(&empty).partial), (0, None));
        }
    }
}

#[tokio::test]
async fn a_member_without_a_readable_id_is_told_and_the_others_are_kept() {
    for provider in NETWORKS {
        let good = |number| provider.account(&provider.account_id(number), "ann");
        let odd = match provider {
            Provider::TwitterV1 => json!({ "id_str": "1.5e18" }),
            Provider::XV2 => json!({ "id": "ann", "username": "ann" }),
            Provider::Mastodon | Provider::MastodonStatus => json!({ "id": "a b", "acct": "ann" }),
            Provider::Bluesky => json!({ "did": "ann.test", "handle": "ann.test" }),
        };
        let accounts = [good(1), odd, good(2)];
        let some =
            ask(provider, page(provider, ListKind::Followers, &accounts, Some("5")), ListKind::Followers, None).await;
        let some = some.unwrap();
        assert_eq!(ids(&some), [provider.account_id(1), provider.account_id(2)], "{provider:?}");
        let told = &members(&some).unreadable;
        assert!(told.count == 1 && told.first.as_ref().is_some_and(|why| !why.is_empty()), "{provider:?}: {told:?}");
        // With a readable id and an unreadable rest it is a member all the same.
        if provider != Provider::TwitterV1 {
            let mut bare = good(3);
            let fields = bare.as_object_mut().unwrap();
            fields.retain(|name, _| name == "id" || name == "did");
            let some =
                ask(provider, page(provider, ListKind::Followers, &[bare], None), ListKind::Followers, None).await;
            let some = some.unwrap();
            assert_eq!(ids(&some), [provider.account_id(3)], "{provider:?}");
            assert_eq!((members(&some).accounts.len(), members(&some).unreadable.count), (0, 0), "{provider:?}");
        }
    }
    // A page that states more accounts than it has lacks some.
    let body = json!({ "data": [Provider::XV2.account("7", "ann")], "meta": { "result_count": 3 } });
    let short = ask(Provider::XV2, Canned::new(200, body.to_string()), ListKind::Followers, None).await.unwrap();
    assert_eq!((ids(&short), members(&short).unreadable.count), (vec!["7"], 2));
}

#[tokio::test]
async fn an_answer_without_its_list_is_never_an_empty_list() {
    for provider in NETWORKS {
        let whole = page(provider, ListKind::Followers, &[provider.account(&provider.account_id(1), "ann")], None).body;
        let mut odd: Vec<Vec<u8>> =
            [r#"{"things":7}"#, "", "null", "7", "%PDF", r#"{"error":"no"}"#, r#"{"errors":[{"code":131}]}"#, "{}"]
                .map(|body| body.as_bytes().to_vec())
                .to_vec();
        odd.extend((1..8).map(|part| whole[..whole.len() * part / 8].to_vec()));
        match provider {
            Provider::TwitterV1 => {
                odd.extend([br#"{"ids":["7"]}"#.to_vec(), br#"{"next_cursor_str":"0"}"#.to_vec(), br#"["7"]"#.to_vec()])
            }
            Provider::XV2 => odd.extend([
                br#"{"meta":{}}"#.to_vec(),
                br#"{"meta":{"result_count":3}}"#.to_vec(),
                br#"{"data":[{"id":"7","username":"a"}]}"#.to_vec(),
                br#"{"data":{},"meta":{"result_count":0}}"#.to_vec(),
            ]),
            Provider::Bluesky => odd.extend([br#"{"follows":[]}"#.to_vec(), br#"[]"#.to_vec()]),
            _ => {}
        }
        for body in odd {
            let text = String::from_utf8_lossy(&body).into_owned();
            let error = ask(provider, Canned::new(200, body), ListKind::Followers, None).await.unwrap_err();
            assert_eq!(decision(&error), "bad answer", "{provider:?}: {text}");
        }
        let html = Canned::new(200, "[]").header("content-type", "text/html");
        assert_eq!(decision(&ask(provider, html, ListKind::Followers, None).await.unwrap_err()), "bad answer");
    }
}

/// What an answer says: of the list, or of the call.
fn said(result: Result<RelationPage, LookupError>) -> String {
    match result {
        Ok(page) => match page.listing {
            Listing::Members(_) => "members".to_owned(),
            Listing::OwnerAbsent(None) => "absent".to_owned(),
            Listing::OwnerAbsent(Some(Absence::NotFound | Absence::Deactivated | Absence::Deleted)) => {
                "not found".to_owned()
            }
            Listing::OwnerAbsent(Some(Absence::Suspended)) => "suspended".to_owned(),
            Listing::OwnerAbsent(Some(Absence::Protected)) => "protected".to_owned(),
            Listing::Refused => "refused".to_owned(),
            Listing::StaleCursor => "stale".to_owned(),
        },
        Err(error) => decision(&error).to_owned(),
    }
}

/// Asks twice, for the first page and with a cursor.
async fn both(provider: Provider, status: u16, body: &str) -> (String, String) {
    let of = async |cursor| said(ask(provider, Canned::new(status, body), ListKind::Followers, cursor).await);
    (of(None).await, of(Some("51")).await)
}

#[tokio::test]
async fn a_refusal_of_twitter_is_about_the_list_or_about_the_call() {
    let coded = |code: u32| json!({ "errors": [{ "code": code, "message": "x" }] }).to_string();
    let protected = json!({ "request": "/1.1/followers/ids.json", "error": "Not authorized." }).to_string();
    for (status, body, first, later) in [
        (401, protected, "refused", "refused"),
        (403, coded(179), "refused", "refused"),
        (401, coded(136), "refused", "refused"),
        (404, coded(34), "absent", "stale"),
        (404, coded(17), "absent", "stale"),
        (404, coded(50), "not found", "not found"),
        (403, coded(63), "suspended", "suspended"),
        (400, coded(44), "bad request", "stale"),
        (400, coded(215), "credential", "credential"),
        (401, coded(89), "credential", "credential"),
        (403, coded(64), "credential", "credential"),
        (429, coded(88), "throttled", "throttled"),
        (404, "<html>".to_owned(), "outage", "outage"),
        (503, coded(130), "outage", "outage"),
        (404, coded(131), "outage", "outage"),
        (403, coded(453), "stop", "stop"),
        (401, "canary".to_owned(), "credential", "credential"),
    ] {
        let expected = (first.to_owned(), later.to_owned());
        assert_eq!(both(Provider::TwitterV1, status, &body).await, expected, "{status} {body}");
    }
}

#[tokio::test]
async fn what_stands_in_front_of_the_api_says_nothing_of_a_list() {
    for provider in NETWORKS {
        for status in [400, 413, 414, 422, 431] {
            for body in ["<html>", r#"{"message":"no route"}"#] {
                let said = both(provider, status, body).await;
                assert_eq!(said, ("outage".to_owned(), "outage".to_owned()), "{provider:?} {status} {body}");
            }
        }
    }
}

#[tokio::test]
async fn x_says_in_a_success_why_there_is_no_list() {
    let problem = |title: &str, kind: &str, detail: &str, parameter: &str| {
        let problem = json!({
            "value": "7", "resource_id": "7", "parameter": parameter, "resource_type": "user", "title": title,
            "detail": format!("{detail}: [7]."), "type": format!("https://api.x.com/2/problems/{kind}"),
        });
        json!({ "errors": [problem] }).to_string()
    };
    let bare = |resource: &str| json!({ "errors": [{ "resource_id": "7", "resource_type": resource, "title": "Not Found Error" }] });
    let refused = |kind: &str, title: &str| {
        json!({ "title": title, "detail": "x", "type": format!("https://api.x.com/2/problems/{kind}") }).to_string()
    };
    let token = json!({
        "errors": [{ "parameters": { "pagination_token": ["51"] }, "message": "Invalid 'pagination_token':[51]." }],
        "title": "Invalid Request", "type": "https://api.x.com/2/problems/invalid-request",
    });
    for (status, body, first, later) in [
        (
            200,
            problem("Not Found Error", "resource-not-found", "Could not find user with id", "id"),
            "not found",
            "not found",
        ),
        (200, problem("Forbidden", "resource-not-found", "User has been suspended", "id"), "suspended", "suspended"),
        (200, problem("Authorization Error", "not-authorized-for-resource", "Sorry", "id"), "refused", "refused"),
        (200, problem("Odd", "client-forbidden", "x", "id"), "bad answer", "bad answer"),
        (200, problem("Not Found Error", "resource-not-found", "x", "pinned_tweet_id"), "bad answer", "bad answer"),
        (200, bare("user").to_string(), "not found", "not found"),
        (200, bare("tweet").to_string(), "bad answer", "bad answer"),
        (404, refused("resource-not-found", "Not Found Error"), "not found", "not found"),
        (404, json!({ "title": "Not Found", "type": "about:blank" }).to_string(), "absent", "stale"),
        (403, refused("not-authorized-for-resource", "Authorization Error"), "refused", "refused"),
        (403, refused("client-forbidden", "Client Forbidden"), "credential", "credential"),
        (402, refused("credits-depleted", "x"), "credential", "credential"),
        (400, token.to_string(), "bad request", "stale"),
        (400, token.to_string().replace("pagination_token", "user.fields"), "stop", "stop"),
        (429, refused("usage-capped", "x"), "throttled", "throttled"),
        (401, json!({ "title": "Unauthorized" }).to_string(), "credential", "credential"),
        (404, "<html>".to_owned(), "outage", "outage"),
        (503, "x".to_owned(), "outage", "outage"),
    ] {
        let expected = (first.to_owned(), later.to_owned());
        assert_eq!(both(Provider::XV2, status, &body).await, expected, "{status} {body}");
    }
    // Problems of what the accounts refer to come beside them.
    let mut body: Value =
        serde_json::from_str(&problem("Not Found Error", "resource-not-found", "x", "pinned_tweet_id")).unwrap();
    body["data"] = json!([Provider::XV2.account("7", "ann")]);
    body["meta"] = json!({ "result_count": 1 });
    let page = ask(Provider::XV2, Canned::new(200, body.to_string()), ListKind::Friends, None).await.unwrap();
    assert_eq!((ids(&page), members(&page).accounts[0].handle.as_deref()), (vec!["7"], Some("ann")));
}

#[tokio::test]
async fn an_instance_hides_lists_and_knows_a_part_of_others() {
    let error = r#"{"error":"x"}"#;
    for (status, body, first, later) in [
        (404, error, "not found", "not found"),
        (410, error, "suspended", "suspended"),
        (400, error, "bad request", "stale"),
        (422, error, "too large", "stale"),
        (401, error, "credential", "credential"),
        (403, error, "credential", "credential"),
        (404, "<html>", "outage", "outage"),
        (410, "<html>", "outage", "outage"),
        (429, error, "throttled", "throttled"),
        (503, error, "outage", "outage"),
    ] {
        let expected = (first.to_owned(), later.to_owned());
        assert_eq!(both(Provider::Mastodon, status, body).await, expected, "{status} {body}");
    }
    let of = async |answer: Canned, cursor| ask(Provider::Mastodon, answer, ListKind::Followers, cursor).await.unwrap();
    let empty = Canned::new(200, "[]");
    assert_eq!(members(&of(empty.clone(), None).await).partial, Some(PartialReason::Hidden));
    assert_eq!(members(&of(empty, Some("51")).await).partial, None, "the end of a list");
    let accounts: Vec<Value> = (0..3).map(|number| Provider::Mastodon.account(&number.to_string(), "a")).collect();
    let full = Canned::new(200, json!(accounts).to_string());
    assert_eq!(members(&of(full.clone(), None).await).partial, Some(PartialReason::Unlinked));
    let link = r#"<https://a.example/x?since_id=9>; rel="prev""#;
    assert_eq!(members(&of(full.clone().header("link", link), None).await).partial, None, "it says that none follows");
    let next = r#"<https://a.example/x?max_id=7>; rel="next""#;
    let mut behind = full.clone().header("link", "<https://cdn.example>; rel=preconnect");
    behind.headers.push(("link".to_owned(), next.to_owned()));
    assert_eq!(members(&of(behind, None).await).next.as_deref(), Some("7"), "in a line of its own");
    let no_text = full.clone().header("link", r#"<https://a.example/x?max_id=7>; rel="next"; title="é""#);
    let result = ask(Provider::Mastodon, no_text, ListKind::Followers, None).await;
    assert_eq!(decision(&result.unwrap_err()), "bad answer");
    let link = r#"<https://a.example/x?page=2>; rel="next""#;
    let result = ask(Provider::Mastodon, full.header("link", link), ListKind::Followers, None).await;
    assert_eq!(decision(&result.unwrap_err()), "bad answer");
}

#[tokio::test]
async fn bluesky_tells_the_owner_from_the_cursor_and_the_session() {
    let error = |name: &str, message: &str| json!({ "error": name, "message": message }).to_string();
    for (status, body, first, later) in [
        (400, error("InvalidRequest", "Actor not found: did:plc:x"), "not found", "not found"),
        (400, error("InvalidRequest", "Malformed cursor"), "bad request", "stale"),
        (400, error("BlockedActor", "x"), "refused", "refused"),
        (400, error("ExpiredToken", "x"), "credential", "credential"),
        (400, error("AccountTakedown", "x"), "credential", "credential"),
        (401, error("AuthMissing", "x"), "credential", "credential"),
        (429, error("RateLimitExceeded", "x"), "throttled", "throttled"),
        (404, error("XRPCNotSupported", "x"), "outage", "outage"),
        (502, error("UpstreamFailure", "x"), "outage", "outage"),
    ] {
        let expected = (first.to_owned(), later.to_owned());
        assert_eq!(both(Provider::Bluesky, status, &body).await, expected, "{status} {body}");
    }
    // Whoever shows no session is not refused for one.
    let owner = Provider::Bluesky.account_id(0);
    for (name, expected) in [("AccountTakedown", "suspended"), ("AccountDeactivated", "not found")] {
        let server = CannedServer::start(Canned::new(400, error(name, "x"))).await;
        let page = at(Provider::Bluesky, &server).page(request(ListKind::Followers, &owner, None), &anonymous()).await;
        assert_eq!(said(page), expected);
    }
    // The list of another account, and an empty page that leads to itself.
    let body = json!({ "subject": { "did": "did:plc:other" }, "followers": [] }).to_string();
    assert_eq!(both(Provider::Bluesky, 200, &body).await.0, "bad answer");
    let stuck = page(Provider::Bluesky, ListKind::Followers, &[], Some("51"));
    let stuck = ask(Provider::Bluesky, stuck, ListKind::Followers, Some("51")).await.unwrap();
    assert_eq!(members(&stuck).next, None);
}

/// A server of Bluesky that has records, or says why not; the views are those of one account.
async fn with_records(records: Canned) -> CannedServer {
    CannedServer::start_with(move |asked| {
        if asked.target.contains("listRecords") {
            records.clone()
        } else {
            page(Provider::Bluesky, ListKind::Friends, &[Provider::Bluesky.account("did:plc:viewed", "a.test")], None)
        }
    })
    .await
}

#[tokio::test]
async fn friends_at_bluesky_come_with_the_moment_of_the_follow_where_the_server_has_it() {
    let value =
        json!({ "$type": "app.bsky.graph.follow", "subject": "did:plc:b", "createdAt": "2024-06-28T02:59:07.446Z" });
    // Other clients leave the zone out: it is UTC then.
    let without_zone = json!({ "subject": "did:plc:c", "createdAt": "2024-06-28T02:59:07" });
    let records = [value, without_zone].map(|value| json!({ "uri": "at://x", "cid": "x", "value": value }));
    let body = json!({ "records": records, "cursor": "3l" });
    let owner = Provider::Bluesky.account_id(0);
    let friends = |cursor| request(ListKind::Friends, &owner, cursor);
    let server = with_records(Canned::new(200, body.to_string())).await;
    let lists = at(Provider::Bluesky, &server);
    let first = lists.page(friends(None), &anonymous()).await.unwrap();
    let both = vec!["did:plc:b", "did:plc:c"];
    assert_eq!((ids(&first), members(&first).next.as_deref()), (both, Some("records:3l")));
    assert_eq!(members(&first).members[0].followed_at, Some(1_719_543_547_446));
    assert_eq!(members(&first).members[1].followed_at, Some(1_719_543_547_000));
    // The same cursor again, and not empty: the caller sees that.
    let again = lists.page(friends(Some("records:3l")), &anonymous()).await.unwrap();
    assert_eq!(members(&again).next.as_deref(), Some("records:3l"));
    assert!(server.asked().iter().all(|asked| asked.target.contains("listRecords")));

    let error = |name: &str| json!({ "error": name, "message": "Could not find repo: x" }).to_string();
    for (status, name, is_asked_again) in [
        (400, "InvalidRequest", true),
        (400, "RepoNotFound", true),
        (501, "MethodNotImplemented", false),
        (404, "XRPCNotSupported", false),
    ] {
        let server = with_records(Canned::new(status, error(name))).await;
        let lists = at(Provider::Bluesky, &server);
        let empty = lists.page(friends(None), &anonymous()).await.unwrap();
        assert_eq!((ids(&empty).len(), members(&empty).next.as_deref()), (0, Some("views:")), "{name}");
        let views = lists.page(friends(Some("views:")), &anonymous()).await.unwrap();
        assert_eq!((ids(&views), &members(&views).next), (vec!["did:plc:viewed"], &None), "{name}");
        let next = lists.page(friends(None), &anonymous()).await.unwrap();
        assert_eq!(ids(&next).is_empty(), is_asked_again, "{name}: a server without the method is not asked again");
        // A cursor of records that is refused begins anew.
        let stale = lists.page(friends(Some("records:3l")), &anonymous()).await;
        let expected = if status == 400 { "stale" } else { "outage" };
        assert_eq!(said(stale), expected, "{name}");
    }
    // Something in front of the server says nothing of it.
    for (status, expected) in [(404, "outage"), (503, "outage"), (403, "unready")] {
        let server = with_records(Canned::new(status, "<html>")).await;
        assert_eq!(said(at(Provider::Bluesky, &server).page(friends(None), &anonymous()).await), expected);
    }
}
