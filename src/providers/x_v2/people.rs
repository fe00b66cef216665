//! The accounts in a post of API v2: ids alone. What X sends of them beside the posts (`includes`) is not a part of a post.
//! The author of a repeated post is not named in the post that repeats it.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::model::account::{Person, Role};
use crate::providers::scalar::{self, present};

#[derive(Deserialize)]
struct Post<'a> {
    #[serde(borrow)]
    author_id: Option<&'a RawValue>,
    #[serde(borrow)]
    in_reply_to_user_id: Option<&'a RawValue>,
    #[serde(borrow)]
    entities: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Entities<'a> {
    #[serde(borrow)]
    mentions: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Mention<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
}

/// Reads them; an odd field is no reason to lose the others.
#[must_use]
pub fn people(raw: &str) -> Vec<Person> {
    let Ok(post) = serde_json::from_str::<Post<'_>>(raw) else { return Vec::new() };
    let id = |field: Option<&RawValue>| Some(scalar::id(present(field)?).ok()?.to_string());
    let entities: Option<Entities<'_>> = scalar::value(post.entities);
    let mentions: Vec<&RawValue> = entities.and_then(|of| scalar::value(of.mentions)).unwrap_or_default();
    let mentioned = mentions.into_iter().filter_map(|user| id(scalar::value::<Mention<'_>>(Some(user))?.id));
    let mentioned = id(post.in_reply_to_user_id).into_iter().chain(mentioned);
    let author = id(post.author_id).map(|id| Person::named(Role::Author, id));
    author.into_iter().chain(mentioned.map(|id| Person::named(Role::Mentioned, id))).collect()
}
