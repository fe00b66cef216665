//! X API v2: found posts in `data`, the others as problems in `errors`.

mod fields;
mod includes;
mod users;

use axum::response::Response;
use serde_json::{Map, Value, json};

pub use self::fields::{Fields, UnknownParameter};
pub use self::includes::includes;
pub use self::users::{user, users};
use crate::dialect::{INVALID, NONE, TOO_MANY};
use crate::random::mix;
use crate::render::{MoreCounts, RenderContext, iso, tweet_text};
use crate::reply::{Found, failure};
use crate::text::{Text, screen_name, user_id};
use crate::twitter_v1::dialect as twitter_v1;
use crate::world::{EDITABLE_MS, MOST_EDITS, SimulatedTweet, Version, created_at, is_later_version};

/// The requested fields of recorded responses. Fields that a post does not have are left out.
pub fn object(context: &RenderContext<'_>, version: &Version) -> String {
    let Version { tweet, history } = version;
    let text = tweet_text(context.world, tweet);
    let first = history.first().copied().unwrap_or(tweet.id);
    let edits = history.iter().take_while(|earlier| **earlier < tweet.id).count();
    let retweeted = tweet.original.as_ref().map(|of| ("retweeted", of.id));
    let referenced = retweeted.or(text.reply.map(|(parent, _)| ("replied_to", parent)));
    let all = [
        ("id", tweet.id.to_string().into()),
        ("text", text.text.as_str().into()),
        ("edit_history_tweet_ids", history.iter().map(ToString::to_string).collect::<Vec<_>>().into()),
        ("author_id", user_id(tweet.author).to_string().into()),
        ("conversation_id", text.reply.map_or(first, |(parent, _)| parent).to_string().into()),
        ("created_at", iso(tweet.created_at).into()),
        (
            "edit_controls",
            json!({
                "is_edit_eligible": tweet.original.is_none(),
                "editable_until": iso(created_at(first) + EDITABLE_MS),
                "edits_remaining": MOST_EDITS - edits,
            }),
        ),
        ("entities", entities(&text)),
        ("in_reply_to_user_id", text.reply.map(|(_, author)| user_id(author).to_string()).into()),
        ("lang", text.language().into()),
        ("possibly_sensitive", false.into()),
        ("public_metrics", metrics(&context.fields, tweet)),
        ("referenced_tweets", referenced.map(|(kind, id)| json!([{ "type": kind, "id": id.to_string() }])).into()),
        ("reply_settings", "everyone".into()),
        ("source", "Twitter Web App".into()),
        (
            "withheld",
            tweet.withheld.then(|| json!({ "copyright": true, "country_codes": ["XY"], "scope": "tweet" })).into(),
        ),
    ];
    let seen = all.into_iter().filter(|(name, value)| context.fields.has(name) && !value.is_null());
    // No padding: no call requests such a field.
    let object: Map<String, Value> = seen.map(|(name, value)| (context.fields.translate(name), value)).collect();
    Value::from(object).to_string()
}

fn metrics(fields: &Fields, tweet: &SimulatedTweet) -> Value {
    let more = MoreCounts::compute(tweet.retweet_count, tweet.favorite_count);
    json!({
        fields.translate("retweet_count"): tweet.retweet_count,
        "reply_count": more.replies,
        "like_count": tweet.favorite_count,
        "quote_count": more.quotes,
        "bookmark_count": more.bookmarks,
        "impression_count": more.impressions,
    })
}

/// `null` without entities.
fn entities(text: &Text) -> Value {
    let hashtags = text.hashtags.iter().map(|(from, to, tag)| json!({ "start": from, "end": to, "tag": tag }));
    let mentions = text.mentions.iter().map(|(from, to, author)| {
        let (id, username) = (user_id(*author).to_string(), screen_name(*author));
        json!({ "start": from, "end": to, "id": id, "username": username })
    });
    let urls = text.urls.iter().map(|(from, to, url)| {
        let (expanded, display) = ("https://example.org/", "example.org");
        json!({ "start": from, "end": to, "url": url, "expanded_url": expanded, "display_url": display })
    });
    let all: [(&str, Vec<Value>); 3] =
        [("hashtags", hashtags.collect()), ("mentions", mentions.collect()), ("urls", urls.collect())];
    let some = all.into_iter().filter(|(_, of)| !of.is_empty());
    let some: Map<String, Value> = some.map(|(kind, of)| (kind.to_owned(), of.into())).collect();
    if some.is_empty() { Value::Null } else { some.into() }
}

pub fn write_body(found: &Found<'_>) -> String {
    let missing = found.ids.iter().zip(&found.objects).filter(|(_, object)| object.is_none());
    let errors: Vec<String> = missing.map(|(id, _)| problem(id, "ids").to_string()).collect();
    let data = found.present();
    let includes = found.includes.as_ref().map(|of| format!(",\"includes\":{of}")).unwrap_or_default();
    match (data.is_empty(), errors.is_empty()) {
        (true, _) => format!("{{\"errors\":[{}]}}", errors.join(",")),
        (false, true) => format!("{{\"data\":[{data}]{includes}}}"),
        (false, false) => format!("{{\"data\":[{data}]{includes},\"errors\":[{}]}}", errors.join(",")),
    }
}

/// The body of `GET /2/tweets/{id}`.
pub fn write_one(found: &Found<'_>) -> String {
    let includes = found.includes.as_ref().map(|of| format!(",\"includes\":{of}")).unwrap_or_default();
    match &found.objects[..] {
        [Some(object)] => format!("{{\"data\":{object}{includes}}}"),
        _ => {
            let errors: Vec<Value> = found.ids.iter().map(|id| problem(id, "id")).collect();
            json!({ "errors": errors }).to_string()
        }
    }
}

/// The problem for a missing post. One in four is protected or suspended; a missing later version never existed.
fn problem(id: &str, parameter: &str) -> Value {
    let (title, detail, kind) = if is_hidden(id) {
        ("Authorization Error", "Sorry, you are not authorized to see the Tweet with", "not-authorized-for-resource")
    } else {
        ("Not Found Error", "Could not find tweet with", "resource-not-found")
    };
    json!({
        "value": id,
        "detail": format!("{detail} {parameter}: [{id}]."),
        "title": title,
        "resource_type": "tweet",
        "parameter": parameter,
        "resource_id": id,
        "type": format!("https://api.twitter.com/2/problems/{kind}"),
    })
}

/// True for a missing post that X reports as protected.
pub fn is_hidden(id: &str) -> bool {
    id.parse().is_ok_and(|id: u64| mix(id).is_multiple_of(4) && !is_later_version(id))
}

pub fn missing_user_body(id: &str, kind: &str) -> String {
    let problem = json!({
        "value": id,
        "detail": format!("Could not find user with id: [{id}]."),
        "title": "Not Found Error",
        "resource_type": "user",
        "parameter": "id",
        "resource_id": id,
        "type": format!("https://api.twitter.com/2/problems/{kind}"),
    });
    json!({ "errors": [problem] }).to_string()
}

pub fn refuse_parameter((parameter, message): &UnknownParameter) -> Response {
    let body = json!({
        "errors": [{ "parameters": { parameter: [] }, "message": message }],
        "title": "Invalid Request",
        "detail": "One or more parameters to your request was invalid.",
        "type": "https://api.twitter.com/2/problems/invalid-request",
    });
    failure(400, &body)
}

/// Problems; v1.1's form for errors of the servers in front of the API.
pub fn refusal(status: u16, code: u32) -> Response {
    let about_ids = |message: &str| {
        json!({
            "errors": [{ "parameters": { "ids": [] }, "message": message }],
            "title": "Invalid Request",
            "detail": "One or more parameters to your request was invalid.",
            "type": "https://api.twitter.com/2/problems/invalid-request",
        })
    };
    let plain = |title: &str| json!({ "title": title, "detail": title, "type": "about:blank", "status": status });
    let body = match (status, code) {
        (_, INVALID) => about_ids("The `ids` query parameter value is not valid"),
        (_, NONE) => about_ids("The `ids` query parameter can not be empty"),
        (_, TOO_MANY) => about_ids("The number of values in the `ids` query parameter list is not between 1 and 100"),
        (401, 135) | (403, 64 | 326 | 453) => return twitter_v1::refusal(status, code),
        (400 | 401, _) => plain("Unauthorized"),
        (403, _) => plain("Forbidden"),
        (429, _) => plain("Too Many Requests"),
        (404, _) => plain("Not Found"),
        (405, _) => plain("Method Not Allowed"),
        (503, _) => plain("Service Unavailable"),
        _ => plain("Something is not right"),
    };
    // A call without a credential gets a 401, too.
    failure(if code == 215 { 401 } else { status }, &body)
}
