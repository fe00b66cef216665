//! Users of X.

use serde_json::{Map, Value, json};

use crate::simulator::render::{Shown, followers, friends, iso, lists, opened, posts};
use crate::simulator::text::{Text, name, screen_name, user_id};

/// An author, as far as its fields were asked for.
pub fn user(shown: &Shown<'_>, author: u64) -> Value {
    let (id, handle) = (user_id(author), screen_name(author));
    let all = [
        ("id", json!(id.to_string())),
        ("name", json!(name(author))),
        ("username", json!(handle)),
        ("created_at", json!(iso(opened(author)))),
        ("description", json!(Text::of(id).text)),
        ("location", json!("Planet Earth")),
        ("profile_image_url", json!(format!("https://pbs.twimg.com/profile_images/{id}/face_normal.jpeg"))),
        ("protected", json!(false)),
        (
            "public_metrics",
            json!({
                "followers_count": followers(author),
                "following_count": friends(author),
                shown.fields.word("tweet_count"): posts(author),
                "listed_count": lists(author),
            }),
        ),
        ("url", json!("")),
        ("verified", json!(false)),
        ("verified_type", json!("none")),
    ];
    let seen = all.into_iter().filter(|(name, _)| shown.fields.has_of_users(name));
    seen.map(|(name, value)| (name.to_owned(), value)).collect::<Map<_, _>>().into()
}

/// The body of an answer about the users that were asked for in a parameter; those that are not there are problems.
pub fn users(shown: &Shown<'_>, parameter: &str, asked: &[(&str, Option<u64>)]) -> String {
    let problem = |of: &str| {
        json!({
            "value": of,
            "detail": format!("Could not find user with {parameter}: [{of}]."),
            "title": "Not Found Error",
            "resource_type": "user",
            "parameter": parameter,
            "resource_id": of,
            "type": "https://api.twitter.com/2/problems/resource-not-found",
        })
    };
    let is_one = matches!(parameter, "id" | "username");
    let mut found: Vec<Value> = asked.iter().filter_map(|(_, author)| author.map(|one| user(shown, one))).collect();
    let missing: Vec<Value> = asked.iter().filter(|(_, author)| author.is_none()).map(|(of, _)| problem(of)).collect();
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
