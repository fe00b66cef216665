//! Media in a status, and in the one that it boosts. An instance states the address of its own copy; without one yet, the address
//! at the author's instance.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::status::text_or_number;
use crate::model::media::{MediaKind, Medium};
use crate::providers::scalar::{self, present};

#[derive(Deserialize)]
struct Status<'a> {
    #[serde(borrow)]
    media_attachments: Option<&'a RawValue>,
    #[serde(borrow)]
    reblog: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Attachment<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    #[serde(borrow, rename = "type")]
    kind: Option<&'a RawValue>,
    #[serde(borrow)]
    url: Option<&'a RawValue>,
    #[serde(borrow)]
    remote_url: Option<&'a RawValue>,
}

#[must_use]
pub fn read_media(raw: &str) -> Vec<Medium> {
    let Ok(status) = serde_json::from_str::<Status<'_>>(raw) else { return Vec::new() };
    let original: Option<Status<'_>> = scalar::value(status.reblog);
    let attached = [Some(status), original].into_iter().flatten();
    let attached = attached.filter_map(|of| scalar::items(of.media_attachments)).flatten();
    let mut media: Vec<Medium> = attached.filter_map(|of| medium(&of)).collect();
    media.sort_by(|one, other| one.id.cmp(&other.id));
    media.dedup_by(|one, other| one.id == other.id);
    media
}

fn medium(of: &Attachment<'_>) -> Option<Medium> {
    let text = |field| present(field).and_then(scalar::string);
    let kind = match text(of.kind).as_deref() {
        Some("image") => MediaKind::Photo,
        Some("video") => MediaKind::Video,
        Some("gifv") => MediaKind::Gif,
        Some("audio") => MediaKind::Audio,
        _ => MediaKind::Unknown,
    };
    Some(Medium { id: text_or_number(present(of.id)?)?, url: text(of.url).or_else(|| text(of.remote_url))?, kind })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attachments_of_a_status_and_of_the_repeated_one_are_read() {
        let raw = r#"{"media_attachments": [
            {"id": "2", "type": "gifv", "url": null, "remote_url": "https://far/2.mp4"},
            {"id": "3", "type": "image", "url": null, "remote_url": null}],
            "reblog": {"media_attachments": [{"id": "1", "type": "image", "url": "https://near/1.png"}]}}"#;
        let found: Vec<(String, MediaKind)> = read_media(raw).into_iter().map(|of| (of.url, of.kind)).collect();
        let expected = [("https://near/1.png", MediaKind::Photo), ("https://far/2.mp4", MediaKind::Gif)];
        assert_eq!(found, expected.map(|(url, kind)| (url.to_owned(), kind)));
    }
}
