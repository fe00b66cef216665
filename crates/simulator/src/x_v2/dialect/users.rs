//! Users of X.

use serde_json::{Map, Value, json};

use crate::people::{Person, short_link, twitter_picture};
use crate::render::{RenderContext, iso};
use crate::text::user_id;
use networks::model::account::AccountState;

pub fn user(context: &RenderContext<'_>, person: &Person) -> Value {
    let all = [
        ("id", json!(user_id(person.number).to_string())),
        ("name", json!(person.display_name)),
        ("username", json!(person.handle)),
        ("created_at", json!(iso(person.created_at))),
        ("description", json!(person.description)),
        ("location", json!(person.location)),
        ("most_recent_tweet_id", json!(person.last_post.map(|post| post.to_string()))),
        ("profile_image_url", json!(twitter_picture(person))),
        ("protected", json!(person.protected)),
        (
            "public_metrics",
            json!({
                "followers_count": person.followers,
                "following_count": person.following,
                context.fields.translate("tweet_count"): person.posts,
                "listed_count": person.listed,
                "like_count": person.likes,
            }),
        ),
        ("url", json!(short_link(person))),
        ("entities", entities(person)),
        ("verified", json!(person.verified)),
        ("verified_type", json!(if person.verified { "blue" } else { "none" })),
    ];
    let seen = all.into_iter().filter(|(name, value)| context.fields.has_user_field(name) && !value.is_null());
    seen.map(|(name, value)| (context.fields.translate(name), value)).collect::<Map<_, _>>().into()
}

/// The address in a profile in full, beside its short link.
fn entities(person: &Person) -> Value {
    match person.url.as_str() {
        "" => Value::Null,
        address => json!({ "url": { "urls": [{ "url": short_link(person), "expanded_url": address }] } }),
    }
}

/// The body of a response about the users that a parameter requests, or about the caller (`me`); missing users are problems.
pub fn users(context: &RenderContext<'_>, by: &str, asked: &[(&str, Option<Person>)]) -> String {
    let parameter = if by == "me" { "id" } else { by };
    // A caller always sees its own account.
    let is_there = |person: &Person| by == "me" || !person.is_away();
    let (mut found, mut missing) = (Vec::new(), Vec::new());
    for (of, person) in asked {
        match person {
            Some(person) if is_there(person) => found.push(user(context, person)),
            person => missing.push(problem(of, parameter, person.as_ref())),
        }
    }
    let is_one = matches!(parameter, "id" | "username");
    let mut body = Map::new();
    match found.pop() {
        Some(one) if is_one => drop(body.insert("data".to_owned(), one)),
        Some(last) => {
            found.push(last);
            body.insert("data".to_owned(), found.into());
        }
        None => {}
    }
    if !missing.is_empty() {
        body.insert("errors".to_owned(), missing.into());
    }
    Value::from(body).to_string()
}

/// The reason of a missing account. X reports a suspension; it does not distinguish a deletion from an id that never existed.
fn problem(of: &str, parameter: &str, person: Option<&Person>) -> Value {
    let is_suspended = person.is_some_and(|person| person.state == AccountState::Suspended);
    let (title, detail) = match is_suspended {
        true => ("Forbidden", "User has been suspended".to_owned()),
        false => ("Not Found Error", format!("Could not find user with {parameter}")),
    };
    json!({
        "value": of,
        "detail": format!("{detail}: [{of}]."),
        "title": title,
        "resource_type": "user",
        "parameter": parameter,
        "resource_id": of,
        "type": "https://api.twitter.com/2/problems/resource-not-found",
    })
}
