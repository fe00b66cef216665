//! Accounts in a status: its author, the mentioned accounts, and the author of the boosted status. Authors are whole objects;
//! mentioned accounts have only an id and names.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::status::text_or_number;
use crate::model::account::{Person, Role};
use crate::providers::scalar::{self, present};

#[derive(Deserialize)]
struct Status<'a> {
    #[serde(borrow)]
    account: Option<&'a RawValue>,
    #[serde(borrow)]
    mentions: Option<&'a RawValue>,
    #[serde(borrow)]
    reblog: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Id<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
}

#[must_use]
pub fn people(raw: &str) -> Vec<Person> {
    let Ok(status) = serde_json::from_str::<Status<'_>>(raw) else { return Vec::new() };
    let id = |of: Option<&RawValue>| text_or_number(present(scalar::value::<Id<'_>>(of)?.id)?);
    let whole = |of: Option<&RawValue>, role| {
        Some(Person { id: id(of)?, role, object: of.map(|account| account.get().to_owned()) })
    };
    let original: Option<Status<'_>> = scalar::value(status.reblog);
    let mentions: Vec<&RawValue> = scalar::value(status.mentions).unwrap_or_default();
    let mentioned = mentions.into_iter().filter_map(|of| Some(Person::named(Role::Mentioned, id(Some(of))?)));
    let reposted = original.and_then(|original| whole(original.account, Role::Reposted));
    whole(status.account, Role::Author).into_iter().chain(reposted).chain(mentioned).collect()
}
