//! The accounts in a post of API v1.1: its author, those it names, and the author of the one it repeats. Authors are whole
//! objects; those it names have only an id and names.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::object::known_id;
use crate::model::account::{Person, Role};
use crate::providers::scalar;

#[derive(Deserialize)]
struct Post<'a> {
    #[serde(borrow)]
    user: Option<&'a RawValue>,
    #[serde(borrow)]
    entities: Option<&'a RawValue>,
    #[serde(borrow)]
    retweeted_status: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Entities<'a> {
    #[serde(borrow)]
    user_mentions: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Ids<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    #[serde(borrow)]
    id_str: Option<&'a RawValue>,
}

impl Ids<'_> {
    fn id(&self) -> Option<String> {
        known_id(self.id_str, self.id).ok().map(|id| id.to_string())
    }
}

/// Reads them; an odd field is no reason to lose the others.
#[must_use]
pub fn people(raw: &str) -> Vec<Person> {
    let Ok(post) = serde_json::from_str::<Post<'_>>(raw) else { return Vec::new() };
    let whole = |user: Option<&RawValue>, role| {
        let id = scalar::value::<Ids<'_>>(user)?.id()?;
        Some(Person { id, role, object: user.map(|user| user.get().to_owned()) })
    };
    let original: Option<Post<'_>> = scalar::value(post.retweeted_status);
    let entities: Option<Entities<'_>> = scalar::value(post.entities);
    let mentions: Vec<&RawValue> = entities.and_then(|of| scalar::value(of.user_mentions)).unwrap_or_default();
    let mentioned = mentions.into_iter().filter_map(|user| scalar::value::<Ids<'_>>(Some(user))?.id());
    let reposted = original.and_then(|original| whole(original.user, Role::Reposted));
    let mentioned = mentioned.map(|id| Person::named(Role::Mentioned, id));
    whole(post.user, Role::Author).into_iter().chain(reposted).chain(mentioned).collect()
}
