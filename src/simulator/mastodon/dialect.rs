//! Mastodon: HTML as content, opaque ids, resets as dates.

use axum::http::{HeaderMap, HeaderValue};
use axum::response::Response;
use serde_json::{Value, json};

use crate::base::clock::Millis;
use crate::model::post::TweetId;
use crate::simulator::dialect::{NONE, TOO_MANY};
use crate::simulator::render::{MoreCounts, Shown, followers, friends, iso, opened, posts, said};
use crate::simulator::reply::failure;
use crate::simulator::text::{Text, name, screen_name, user_id};
use crate::simulator::windows::Window;
use crate::simulator::world::SimulatedTweet;

/// The id of a simulated status made then (ms since the epoch): 48 bits of milliseconds, 16 of a sequence.
#[must_use]
pub fn mastodon_id(at: Millis, sequence: u16) -> String {
    ((at << 16) | Millis::from(sequence)).to_string()
}

pub fn tweet_id(id: &str) -> Option<TweetId> {
    let id: u64 = id.parse().ok()?;
    // A sequential id is a status from before the world began.
    let at = Millis::try_from(id >> 16).ok()?;
    Some(TweetId::at(at, (id & 0xffff) as u32)).filter(|tweet| tweet.created_at().is_some())
}

/// The fields that recorded answers have, as far as anybody reads them.
pub fn object(shown: &Shown<'_>, id: &str, tweet: &SimulatedTweet) -> String {
    let more = MoreCounts::of(tweet.retweet_count, tweet.favorite_count);
    let handle = screen_name(tweet.author);
    let mut object = json!({
        "id": id,
        "created_at": iso(tweet.created_at),
        "in_reply_to_id": null,
        "sensitive": false,
        "spoiler_text": "",
        "visibility": "public",
        "language": "en",
        "uri": format!("https://social.example.org/users/{handle}/statuses/{id}"),
        "replies_count": more.replies,
        "reblogs_count": tweet.retweet_count,
        "favourites_count": tweet.favorite_count,
        "quotes_count": more.quotes,
        "edited_at": null,
        "content": format!("<p>{}</p>", said(shown.world, tweet).text),
        "reblog": null,
        "account": account(tweet.author),
    });
    if !shown.padding.is_empty() {
        object["padding"] = shown.padding.replace('\\', "").into();
    }
    object.to_string()
}

/// An author's account.
pub fn account(author: u64) -> Value {
    let handle = screen_name(author);
    json!({
        "id": user_id(author).to_string(),
        "username": handle,
        "acct": handle,
        "display_name": name(author),
        "locked": false,
        "bot": false,
        "created_at": iso(opened(author)),
        "note": format!("<p>{}</p>", Text::of(user_id(author)).text),
        "url": format!("https://social.example.org/@{handle}"),
        "followers_count": followers(author),
        "following_count": friends(author),
        "statuses_count": posts(author),
    })
}

pub fn refusal(status: u16, code: u32) -> Response {
    let text = match (status, code) {
        (_, NONE) => "Record not found",
        (_, TOO_MANY) => "Validation failed: too many statuses",
        (404, _) => "Record not found",
        (400 | 401, _) => "The access token is invalid",
        (403, 64 | 326) => "Your login is currently disabled",
        (403, _) => "This action is not allowed",
        (429, _) => "Too many requests",
        (503, _) => "Service temporarily unavailable",
        _ => "Something is not right",
    };
    failure(if code == 215 { 401 } else { status }, &json!({ "error": text }))
}

/// `X-RateLimit-*`, the reset with microseconds as real servers write it.
pub fn tell(window: Window, headers: &mut HeaderMap) {
    headers.insert("x-ratelimit-limit", HeaderValue::from(window.limit));
    headers.insert("x-ratelimit-remaining", HeaderValue::from(window.remaining));
    let reset = iso(window.reset * 1000).replace(".000Z", ".000000Z");
    if let Ok(reset) = HeaderValue::from_str(&reset) {
        headers.insert("x-ratelimit-reset", reset);
    }
}
