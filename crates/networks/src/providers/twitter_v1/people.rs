//! Accounts in a post of API v1.1: its author, the mentioned accounts, and the author of the retweeted post. Authors are whole objects;
//! mentioned accounts have only an id and names. A post whose text is cut short (objects of streams) has the other mentions in
//! `extended_tweet`.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::object::exact_id;
use crate::model::account::{Person, Role};
use crate::providers::scalar::{self, present};

#[derive(Deserialize)]
struct Post<'a> {
    #[serde(borrow)]
    user: Option<&'a RawValue>,
    #[serde(borrow)]
    text: Option<&'a RawValue>,
    #[serde(borrow)]
    full_text: Option<&'a RawValue>,
    #[serde(borrow)]
    entities: Option<&'a RawValue>,
    #[serde(borrow)]
    extended_tweet: Option<&'a RawValue>,
    #[serde(borrow)]
    retweeted_status: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Whole<'a> {
    #[serde(borrow)]
    entities: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Entities<'a> {
    #[serde(borrow)]
    user_mentions: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct User<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    #[serde(borrow)]
    id_str: Option<&'a RawValue>,
    #[serde(borrow)]
    screen_name: Option<&'a RawValue>,
}

impl User<'_> {
    fn id(&self) -> Option<String> {
        exact_id(self.id_str, self.id).ok().map(|id| id.to_string())
    }

    fn is_named(&self, name: &str) -> bool {
        scalar::is_handle(self.screen_name, name)
    }
}

impl<'a> Post<'a> {
    fn mentioned(&self) -> Vec<User<'a>> {
        let whole = scalar::value::<Whole<'a>>(self.extended_tweet).and_then(|whole| whole.entities);
        let entities = [self.entities, whole].into_iter().filter_map(scalar::value::<Entities<'a>>);
        entities.filter_map(|of| scalar::items(of.user_mentions)).flatten().collect()
    }

    fn reposted_handle(&self) -> Option<String> {
        let text = scalar::string(present(self.full_text).or(present(self.text))?)?;
        scalar::reposted_handle(&text).map(str::to_owned)
    }
}

#[must_use]
pub fn people(raw: &str) -> Vec<Person> {
    let Ok(post) = serde_json::from_str::<Post<'_>>(raw) else { return Vec::new() };
    let whole = |user: Option<&RawValue>, role| {
        let id = scalar::value::<User<'_>>(user)?.id()?;
        Some(Person { id, role, object: user.map(|user| user.get().to_owned()) })
    };
    let original: Option<Post<'_>> = scalar::value(post.retweeted_status);
    let mut mentioned = post.mentioned();
    let reposted = original.as_ref().and_then(|original| {
        whole(original.user, Role::Reposted).or_else(|| {
            let name = post.reposted_handle()?;
            let named = mentioned.iter().find(|user| user.is_named(&name))?;
            Some(Person::named(Role::Reposted, named.id()?))
        })
    });
    // The text of a retweet is cut short where that of the original is whole.
    mentioned.extend(original.iter().filter(|of| present(of.extended_tweet).is_some()).flat_map(Post::mentioned));
    let mut ids: Vec<String> = Vec::new();
    for id in mentioned.iter().filter_map(User::id) {
        if !ids.contains(&id) {
            ids.push(id);
        }
    }
    let mentioned = ids.into_iter().map(|id| Person::named(Role::Mentioned, id));
    whole(post.user, Role::Author).into_iter().chain(reposted).chain(mentioned).collect()
}
