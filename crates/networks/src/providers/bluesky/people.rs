//! Accounts in a view of a post: its author, with only names and picture, and the mentioned accounts. A repost is no separate post here.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::uri::is_did;
use crate::model::account::{Person, Role};
use crate::providers::scalar::{self, present};

#[derive(Deserialize)]
struct View<'a> {
    #[serde(borrow)]
    author: Option<&'a RawValue>,
    #[serde(borrow)]
    record: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Record<'a> {
    #[serde(borrow)]
    facets: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Facet<'a> {
    #[serde(borrow)]
    features: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Did<'a> {
    #[serde(borrow)]
    did: Option<&'a RawValue>,
}

#[must_use]
pub fn people(raw: &str) -> Vec<Person> {
    let Ok(view) = serde_json::from_str::<View<'_>>(raw) else { return Vec::new() };
    let did = |of: Option<&RawValue>| {
        let did = scalar::string(present(scalar::value::<Did<'_>>(of)?.did)?)?;
        is_did(&did).then_some(did)
    };
    let author = did(view.author).map(|id| Person {
        id,
        role: Role::Author,
        object: view.author.map(|author| author.get().to_owned()),
    });
    let record: Option<Record<'_>> = scalar::value(view.record);
    let facets: Vec<&RawValue> = record.and_then(|of| scalar::value(of.facets)).unwrap_or_default();
    // Links and tags are features, too, and have no DID.
    let features = facets
        .into_iter()
        .filter_map(|of| scalar::value::<Vec<&RawValue>>(scalar::value::<Facet<'_>>(Some(of))?.features));
    let mentioned = features.flatten().filter_map(|of| Some(Person::named(Role::Mentioned, did(Some(of))?)));
    author.into_iter().chain(mentioned).collect()
}
