//! Bluesky: ids are at-uris, whose last part contains the time; missing posts are left out silently.

use axum::http::{HeaderMap, HeaderValue};
use axum::response::Response;
use serde_json::{Value, json};

use crate::dialect::{INVALID, NONE, TOO_MANY};
use crate::people::{HANDLE_DOMAIN, People, Person, bluesky_picture};
use crate::render::{MoreCounts, RenderContext, iso, tweet_text};
use crate::reply::failure;
use crate::text::{Text, UNDETERMINED};
use crate::windows::Window;
use crate::world::SimulatedTweet;
use engine::base::clock::Millis;
use networks::model::post::TweetId;
use networks::model::provider::Provider;

/// The digits of a TID (atproto.com/specs/tid), in their order.
const DIGITS: &[u8; 32] = b"234567abcdefghijklmnopqrstuvwxyz";
const DID: &str = "did:plc:ewvi7nxzyoun6zhxrhs64oiz";
const CID: &str = "bafyreiewgdr4ccuuhbl2l4xs3i2sqzemq3jaotm33pd5mj6xx64thqe3gi";

pub const UNREQUESTED_POSTS: [&str; 3] = [
    "at://did:plc:z72i7hdynmk6r22z27h6tvur/app.bsky.feed.post/3l6oveex3ii2l",
    "at://did:plc:z72i7hdynmk6r22z27h6tvur/app.bsky.feed.post/3l6oveex3ii2m",
    "at://did:plc:z72i7hdynmk6r22z27h6tvur/app.bsky.feed.post/3l6oveex3ii2n",
];

/// The uri of a simulated post of time `at` (ms since the epoch). `sequence` is below 1,000,000.
#[must_use]
pub fn bluesky_uri(at: Millis, sequence: u32) -> String {
    // The clock's id has 10 bits; the rest of the sequence becomes microseconds.
    let tid = ((at * 1000 + Millis::from(sequence >> 10)) << 10) | Millis::from(sequence & 0x3ff);
    let digit = |place: u32| char::from(DIGITS[(tid >> (5 * place) & 31) as usize]);
    let key: String = (0..13).rev().map(digit).collect();
    format!("at://{DID}/app.bsky.feed.post/{key}")
}

pub fn tweet_id(uri: &str) -> Option<TweetId> {
    let key = uri.rsplit('/').next().filter(|key| key.len() == 13)?;
    let tid = key.bytes().try_fold(0u64, |tid, byte| {
        let digit = DIGITS.iter().position(|known| *known == byte)?;
        Some((tid << 5) | digit as u64)
    })?;
    let (us, clock_id) = (tid >> 10, tid & 0x3ff);
    let at = Millis::try_from(us / 1000).ok()?;
    Some(TweetId::at(at, (((us % 1000) << 10) | clock_id) as u32)).filter(|tweet| tweet.created_at().is_some())
}

/// The fields of recorded posts, as far as clients read them.
pub fn object(context: &RenderContext<'_>, uri: &str, tweet: &SimulatedTweet) -> String {
    let more = MoreCounts::compute(tweet.retweet_count, tweet.favorite_count);
    let (people, text) = (context.world.people(), tweet_text(context.world, tweet));
    let mut object = json!({
        "uri": uri,
        "cid": CID,
        "author": author_view(people, &people.person_at(tweet.author, context.now)),
        "record": {
            "$type": "app.bsky.feed.post",
            "createdAt": iso(tweet.created_at),
            "text": text.text,
        },
        "bookmarkCount": more.bookmarks,
        "replyCount": more.replies,
        "repostCount": tweet.retweet_count,
        "likeCount": tweet.favorite_count,
        "quoteCount": more.quotes,
        "indexedAt": iso(tweet.created_at + 400),
        "labels": [],
    });
    if people.communities().is_some() {
        add_details(people, &mut object["record"], &text);
    }
    if !context.padding.is_empty() {
        object["padding"] = context.padding.replace('\\', "").into();
    }
    object.to_string()
}

fn add_details(people: &People, record: &mut Value, text: &Text) {
    if let Some(language) = text.stated_language.filter(|stated_language| *stated_language != UNDETERMINED) {
        record["langs"] = json!([language]);
    }
    let bytes = |letters: usize| text.text.chars().take(letters).map(char::len_utf8).sum::<usize>();
    let facet = |(from, to, number): &(usize, usize, u64)| {
        let did = people.id(&Provider::Bluesky, *number);
        json!({
            "index": { "byteStart": bytes(*from), "byteEnd": bytes(*to) },
            "features": [{ "$type": "app.bsky.richtext.facet#mention", "did": did }],
        })
    };
    if !text.mentions.is_empty() {
        record["facets"] = text.mentions.iter().map(facet).collect();
    }
    if let Some((post, _)) = text.reply {
        // Microseconds and a clock's id hold all of its bits.
        let made = post.created_at().unwrap_or_default();
        let parent = json!({ "uri": bluesky_uri(made, (post.get() & 0x3f_ffff) as u32), "cid": CID });
        record["reply"] = json!({ "parent": parent, "root": parent });
    }
}

/// The view of an author in a post. It has the account's own DID, not the one in the post's uri.
pub fn author_view(people: &People, person: &Person) -> Value {
    let did = people.id(&Provider::Bluesky, person.number);
    json!({
        "did": did,
        "handle": format!("{}{HANDLE_DOMAIN}", person.handle),
        "displayName": person.display_name,
        "avatar": bluesky_picture(person, &did),
        "createdAt": iso(person.created_at),
        "labels": [],
        "verification": {
            "verifications": [],
            "verifiedStatus": if person.verified { "valid" } else { "none" },
            "trustedVerifierStatus": "none",
        },
    })
}

pub fn refusal(status: u16, code: u32) -> Response {
    let (name, text) = match (status, code) {
        (_, INVALID) => ("InvalidRequest", "Error: uris/0 must be a valid at-uri"),
        (_, NONE) => ("InvalidRequest", "Error: Params must have the property \"uris\""),
        (_, TOO_MANY) => ("InvalidRequest", "Error: uris must not have more than 25 elements"),
        (400 | 401, _) => ("InvalidToken", "Token could not be verified"),
        (403, _) => ("AccountTakedown", "Account has been taken down"),
        (404, _) => ("XRPCNotSupported", "XRPCNotSupported"),
        (429, _) => ("RateLimitExceeded", "Rate Limit Exceeded"),
        (503, _) => ("NotEnoughResources", "Not Enough Resources"),
        _ => ("InternalServerError", "Internal Server Error"),
    };
    failure(if code == 215 { 401 } else { status }, &json!({ "error": name, "message": text }))
}

pub fn wrong_password() -> Response {
    failure(401, &json!({ "error": "AuthenticationRequired", "message": "Invalid identifier or password" }))
}

pub fn invalid_request(why: &str) -> Response {
    failure(400, &json!({ "error": "InvalidRequest", "message": why }))
}

/// `RateLimit-*`. The reset is in seconds since the epoch, unlike in the draft.
pub fn write_window(window: Window, headers: &mut HeaderMap) {
    headers.insert("ratelimit-limit", HeaderValue::from(window.limit));
    headers.insert("ratelimit-remaining", HeaderValue::from(window.remaining));
    headers.insert("ratelimit-reset", HeaderValue::from(window.reset));
    if let Ok(policy) = HeaderValue::from_str(&format!("{};w={}", window.limit, window.length_s)) {
        headers.insert("ratelimit-policy", policy);
    }
}
