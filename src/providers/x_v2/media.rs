//! The media in a post of API v2. The post itself has only their keys (`attachments.media_keys`); their addresses come
//! beside the posts (`includes.media`), which is not a part of a post. So only an object that has `includes` in itself names
//! files: one that an ingest hands over.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::model::media::{MediaKind, Medium};
use crate::providers::scalar::{self, present};
use crate::providers::twitter_v1::media::{best_variant, kind, original};

#[derive(Deserialize)]
struct Post<'a> {
    #[serde(borrow)]
    attachments: Option<&'a RawValue>,
    #[serde(borrow)]
    includes: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Attachments {
    media_keys: Vec<String>,
}

#[derive(Deserialize)]
struct Includes<'a> {
    #[serde(borrow)]
    media: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Included<'a> {
    #[serde(borrow)]
    media_key: Option<&'a RawValue>,
    #[serde(borrow, rename = "type")]
    kind: Option<&'a RawValue>,
    #[serde(borrow)]
    url: Option<&'a RawValue>,
    #[serde(borrow)]
    variants: Option<&'a RawValue>,
}

/// Reads them; an odd field is no reason to lose the others.
#[must_use]
pub fn media(raw: &str) -> Vec<Medium> {
    let Ok(post) = serde_json::from_str::<Post<'_>>(raw) else { return Vec::new() };
    let keys = scalar::value::<Attachments>(post.attachments).map(|of| of.media_keys).unwrap_or_default();
    let included = scalar::value::<Includes<'_>>(post.includes).and_then(|of| scalar::items(of.media));
    let media = included.into_iter().flatten().filter_map(|of| medium(&of));
    media.filter(|of| keys.contains(&of.id)).collect()
}

fn medium(of: &Included<'_>) -> Option<Medium> {
    let id = scalar::string(present(of.media_key)?)?;
    let kind = kind(present(of.kind).and_then(scalar::string).as_deref());
    let url = match kind {
        MediaKind::Video | MediaKind::Gif => best_variant(of.variants)?,
        _ => original(scalar::string(present(of.url)?)?),
    };
    Some(Medium { id, url, kind })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_named_where_they_came_along_alone() {
        let alone = r#"{"id": "1", "attachments": {"media_keys": ["3_1", "7_2"]}}"#;
        assert_eq!(media(alone), []);
        let raw = r#"{"id": "1", "attachments": {"media_keys": ["3_1", "7_2"]}, "includes": {"media": [
            {"media_key": "3_1", "type": "photo", "url": "https://pbs.twimg.com/media/A.jpg"},
            {"media_key": "7_2", "type": "video", "variants": [
                {"content_type": "video/mp4", "bit_rate": 1, "url": "https://v/1.mp4"},
                {"content_type": "video/mp4", "bit_rate": 2, "url": "https://v/2.mp4"}]},
            {"media_key": "3_9", "type": "photo", "url": "https://h/another.jpg"}]}}"#;
        let told: Vec<(String, String)> = media(raw).into_iter().map(|of| (of.id, of.url)).collect();
        let expected = [("3_1", "https://pbs.twimg.com/media/A.jpg?name=orig"), ("7_2", "https://v/2.mp4")];
        assert_eq!(told, expected.map(|(id, url)| (id.to_owned(), url.to_owned())));
    }
}
