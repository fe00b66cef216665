//! Accounts in a post of API v2: only ids. Users that X sends beside the posts (`includes`) are not part of a post. The author of a
//! reposted post comes from the text of the repost (`RT @ann: …`).

use serde::Deserialize;
use serde_json::value::RawValue;

use super::post::{references, reposted_id};
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
    #[serde(borrow)]
    text: Option<&'a RawValue>,
    #[serde(borrow)]
    referenced_tweets: Option<&'a RawValue>,
    #[serde(borrow)]
    referenced_posts: Option<&'a RawValue>,
}

impl Post<'_> {
    fn reposted_handle(&self) -> Option<String> {
        reposted_id(&references(self.referenced_tweets, self.referenced_posts))?;
        let text = scalar::string(present(self.text)?)?;
        scalar::reposted_handle(&text).map(str::to_owned)
    }
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
    #[serde(borrow)]
    username: Option<&'a RawValue>,
}

#[must_use]
pub fn people(raw: &str) -> Vec<Person> {
    let Ok(post) = serde_json::from_str::<Post<'_>>(raw) else { return Vec::new() };
    let id = |field: Option<&RawValue>| Some(scalar::id(present(field)?).ok()?.to_string());
    let entities: Option<Entities<'_>> = scalar::value(post.entities);
    let mentions: Vec<&RawValue> = entities.and_then(|of| scalar::value(of.mentions)).unwrap_or_default();
    let mentions: Vec<Mention<'_>> = mentions.into_iter().filter_map(|user| scalar::value(Some(user))).collect();
    let reposted = post.reposted_handle().and_then(|name| {
        let named = mentions.iter().find(|user| scalar::is_handle(user.username, &name))?;
        Some(Person::named(Role::Reposted, id(named.id)?))
    });
    let mentioned = mentions.iter().filter_map(|user| id(user.id));
    let mentioned = id(post.in_reply_to_user_id).into_iter().chain(mentioned);
    let mentioned = mentioned.map(|id| Person::named(Role::Mentioned, id));
    let author = id(post.author_id).map(|id| Person::named(Role::Author, id));
    author.into_iter().chain(reposted).chain(mentioned).collect()
}
