//! Media in a post of API v2. The post itself has only their keys (`attachments.media_keys`). Their addresses are beside the posts
//! (`includes.media`), or inside an object that twarc has flattened (`attachments.media`). An ingest's object has them ([`IncludedMedia`]);
//! a lookup's answer does not, so the first answer takes them from the ingest's object.

use std::borrow::Cow;
use std::collections::HashMap;

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

use crate::model::media::{MediaKind, Medium};
use crate::providers::scalar::{self, present};
use crate::providers::twitter_v1::media::{best_variant, media_kind, original_url};

#[derive(Deserialize)]
struct Post<'a> {
    #[serde(borrow)]
    attachments: Option<&'a RawValue>,
    #[serde(borrow)]
    includes: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Attachments<'a> {
    #[serde(borrow)]
    media_keys: Option<&'a RawValue>,
    #[serde(borrow)]
    media: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Includes<'a> {
    #[serde(borrow)]
    media: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Object<'a> {
    #[serde(borrow)]
    media_key: Option<&'a RawValue>,
    #[serde(borrow, rename = "type")]
    kind: Option<&'a RawValue>,
    #[serde(borrow)]
    url: Option<&'a RawValue>,
    #[serde(borrow)]
    variants: Option<&'a RawValue>,
}

/// Media objects of a post, or of an answer with several posts, by key.
#[derive(Debug, Default)]
pub struct IncludedMedia<'a>(HashMap<String, &'a RawValue>);

impl<'a> IncludedMedia<'a> {
    /// Collects the objects beside a post or an answer, and those in a flattened post.
    #[must_use]
    pub fn parse(raw: &'a str) -> Self {
        let Ok(post) = serde_json::from_str::<Post<'a>>(raw) else { return Self::default() };
        let beside = scalar::value::<Includes<'a>>(post.includes).and_then(|of| of.media);
        let inside = scalar::value::<Attachments<'a>>(post.attachments).and_then(|of| of.media);
        let lists = [beside, inside].into_iter().filter_map(scalar::value::<Vec<&'a RawValue>>);
        let key = |object: &'a RawValue| scalar::string(present(scalar::value::<Object<'a>>(Some(object))?.media_key)?);
        Self(lists.flatten().filter_map(|object| Some((key(object)?, object))).collect())
    }

    /// Returns the post with its media in `includes`; `None` if it has no known media, or already has `includes`.
    #[must_use]
    pub fn add_to(&self, post: &str) -> Option<String> {
        let raw = post.trim_end();
        let post: Post<'_> = serde_json::from_str(raw).ok().filter(|_| !self.0.is_empty())?;
        let fields: HashMap<Cow<'_, str>, IgnoredAny> = serde_json::from_str(raw).ok()?;
        if fields.contains_key("includes") {
            return None;
        }
        let objects: Vec<&str> = media_keys(&post).iter().filter_map(|key| Some(self.0.get(key)?.get())).collect();
        let fields = raw.strip_suffix('}')?;
        (!objects.is_empty()).then(|| format!("{fields},\"includes\":{{\"media\":[{}]}}}}", objects.join(",")))
    }
}

#[must_use]
pub fn lacks_media(raw: &str) -> bool {
    raw.contains("\"media_keys\"") && read_media(raw).is_empty()
}

/// Returns the answer's object with the media of the ingested object; `None` if that has none of them.
#[must_use]
pub fn add_ingested_media(answer: &str, ingested: &str) -> Option<String> {
    IncludedMedia::parse(ingested).add_to(answer)
}

#[must_use]
pub fn read_media(raw: &str) -> Vec<Medium> {
    let Ok(post) = serde_json::from_str::<Post<'_>>(raw) else { return Vec::new() };
    let included = IncludedMedia::parse(raw);
    media_keys(&post).iter().filter_map(|key| medium(&scalar::value(included.0.get(key).copied())?)).collect()
}

/// Keys of the media that a post shows. A flattened post may have only the media.
fn media_keys(post: &Post<'_>) -> Vec<String> {
    let Some(attached) = scalar::value::<Attachments<'_>>(post.attachments) else { return Vec::new() };
    let inside = scalar::items::<Object<'_>>(attached.media).into_iter().flatten();
    let inside = inside.filter_map(|object| scalar::string(present(object.media_key)?));
    let keys: Vec<&RawValue> = scalar::value(attached.media_keys).unwrap_or_default();
    let mut keys: Vec<String> = keys.into_iter().filter_map(scalar::string).chain(inside).collect();
    keys.sort();
    keys.dedup();
    keys
}

fn medium(of: &Object<'_>) -> Option<Medium> {
    let id = scalar::string(present(of.media_key)?)?;
    let kind = media_kind(present(of.kind).and_then(scalar::string).as_deref());
    let url = match kind {
        MediaKind::Video | MediaKind::Gif => best_variant(of.variants)?,
        _ => original_url(scalar::string(present(of.url)?)?),
    };
    Some(Medium { id, url, kind })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn media_are_read_only_if_their_addresses_are_in_the_object() {
        let alone = r#"{"id": "1", "attachments": {"media_keys": ["3_1", "7_2"]}}"#;
        assert_eq!(read_media(alone), []);
        let raw = r#"{"id": "1", "attachments": {"media_keys": ["3_1", "7_2"]}, "includes": {"media": [
            {"media_key": "3_1", "type": "photo", "url": "https://pbs.twimg.com/media/A.jpg"},
            {"media_key": "7_2", "type": "video", "variants": [
                {"content_type": "video/mp4", "bit_rate": 1, "url": "https://v/1.mp4"},
                {"content_type": "video/mp4", "bit_rate": 2, "url": "https://v/2.mp4"}]},
            {"media_key": "3_9", "type": "photo", "url": "https://h/another.jpg"}]}}"#;
        let found: Vec<(String, String)> = read_media(raw).into_iter().map(|of| (of.id, of.url)).collect();
        let expected = [("3_1", "https://pbs.twimg.com/media/A.jpg?name=orig"), ("7_2", "https://v/2.mp4")];
        assert_eq!(found, expected.map(|(id, url)| (id.to_owned(), url.to_owned())));
    }
    #[test]
    fn a_post_takes_the_media_that_it_shows_from_an_answer_or_a_flattened_post() {
        let photo = r#"{"media_key": "3_1", "type": "photo", "url": "https://pbs.twimg.com/media/A.jpg"}"#;
        let other = r#"{"media_key": "3_9", "type": "photo", "url": "https://h/another.jpg"}"#;
        let post = r#"{"id": "1", "attachments": {"media_keys": ["3_1", 7]}}"#;
        assert!(lacks_media(post) && !lacks_media(r#"{"id": "1"}"#));
        let answer = format!(r#"{{"data": [{post}], "includes": {{"media": [{other}, {photo}, 7]}}}}"#);
        let flattened = format!(r#"{{"id": "1", "attachments": {{"media": [{photo}]}}}}"#);
        for ingested in [&answer, &flattened] {
            let whole = add_ingested_media(post, ingested).unwrap();
            assert_eq!(read_media(&whole).iter().map(|of| &*of.id).collect::<Vec<_>>(), ["3_1"], "{whole}");
            assert!(!lacks_media(&whole) && !whole.contains("another"));
            assert_eq!(add_ingested_media(&whole, ingested), None, "it has its own");
            let none = post.replace('}', ", \"includes\": null}").replacen(", \"includes\": null}", "}", 1);
            assert_eq!(add_ingested_media(&none, ingested), None, "a field may be there once");
        }
        assert_eq!(read_media(&flattened).len(), 1);
        for odd in ["", "{}", "[]", "no object", r#"{"id": "1", "attachments": {"media_keys": ["3_8"]}}"#] {
            assert_eq!(add_ingested_media(odd, &answer), None, "{odd}");
        }
    }
}
