//! Mastodon: HTML as content, opaque ids, resets as dates.

use axum::http::{HeaderMap, HeaderValue};
use axum::response::Response;
use serde_json::{Value, json};

use crate::dialect::{NONE, TOO_MANY};
use crate::people::{Person, banner, mastodon_handle, mastodon_picture};
use crate::render::{MoreCounts, RenderContext, iso, tweet_text};
use crate::reply::failure;
use crate::text::{UNDETERMINED, user_id};
use crate::timeline::Network;
use crate::windows::Window;
use crate::world::SimulatedTweet;
use engine::base::clock::{self, Millis};
use networks::model::account::AccountState;
use networks::model::post::TweetId;

/// The id of a simulated status of time `at` (ms since the epoch): 48 bits of milliseconds, 16 of a sequence.
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

/// The fields of recorded responses, as far as clients read them.
pub fn object(context: &RenderContext<'_>, id: &str, tweet: &SimulatedTweet) -> String {
    let more = MoreCounts::compute(tweet.retweet_count, tweet.favorite_count);
    let people = context.world.people();
    let (author, text) = (people.person_at(tweet.author, context.now), tweet_text(context.world, tweet));
    let mut object = json!({
        "id": id,
        "created_at": iso(tweet.created_at),
        "in_reply_to_id": null,
        "sensitive": false,
        "spoiler_text": "",
        "visibility": "public",
        "language": "en",
        "uri": format!("https://social.example.org/users/{}/statuses/{id}", author.handle),
        "replies_count": more.replies,
        "reblogs_count": tweet.retweet_count,
        "favourites_count": tweet.favorite_count,
        "quotes_count": more.quotes,
        "edited_at": null,
        "content": format!("<p>{}</p>", text.text),
        "reblog": null,
        "account": account(&author),
    });
    if people.communities().is_some() {
        object["language"] = text.stated_language.filter(|stated_language| *stated_language != UNDETERMINED).into();
        object["in_reply_to_id"] = text.reply.map(|(post, _)| Network::Mastodon.id(post).to_string()).into();
        object["in_reply_to_account_id"] = text.reply.map(|(_, author)| user_id(author).to_string()).into();
        object["mentions"] =
            text.mentions.iter().map(|(.., number)| mention(&people.person_at(*number, context.now))).collect();
    }
    if !context.padding.is_empty() {
        object["padding"] = context.padding.replace('\\', "").into();
    }
    object.to_string()
}

fn mention(person: &Person) -> Value {
    let handle = mastodon_handle(person);
    json!({
        "id": user_id(person.number).to_string(),
        "username": person.handle,
        "url": format!("https://social.example.org/@{handle}"),
        "acct": handle,
    })
}

/// An account. The instance empties the profile of a suspended one.
pub fn account(person: &Person) -> Value {
    let handle = mastodon_handle(person);
    let mut account = json!({
        "id": user_id(person.number).to_string(),
        "username": person.handle,
        "acct": handle,
        "display_name": person.display_name,
        "locked": person.protected,
        "bot": false,
        "created_at": iso(person.created_at),
        "note": format!("<p>{}</p>", person.description),
        "url": format!("https://social.example.org/@{handle}"),
        "avatar": mastodon_picture(person),
        "header": banner(),
        "followers_count": person.followers,
        "following_count": person.following,
        "statuses_count": person.posts,
    });
    if let Some(posted) = person.last_post.and_then(TweetId::created_at) {
        account["last_status_at"] = iso(posted).chars().take(10).collect::<String>().into();
    }
    if person.state == AccountState::Suspended {
        for (name, empty) in [
            ("display_name", json!("")),
            ("note", json!("")),
            ("locked", json!(false)),
            ("avatar", json!("https://social.example.org/avatars/original/missing.png")),
            ("suspended", json!(true)),
        ] {
            account[name] = empty;
        }
    }
    account
}

pub fn refusal(status: u16, code: u32) -> Response {
    let text = match (status, code) {
        (_, NONE) => "Record not found",
        (_, TOO_MANY) => "Validation failed: too many ids",
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

/// `X-RateLimit-*`. As on real servers, the reset is the end of the window plus the fraction of the call's second, in microseconds.
pub fn write_window(window: Window, headers: &mut HeaderMap) {
    headers.insert("x-ratelimit-limit", HeaderValue::from(window.limit));
    headers.insert("x-ratelimit-remaining", HeaderValue::from(window.remaining));
    let reset = iso(window.reset * 1000 + clock::wall_ms().rem_euclid(1000)).replace('Z', "000Z");
    if let Ok(reset) = HeaderValue::from_str(&reset) {
        headers.insert("x-ratelimit-reset", reset);
    }
}
