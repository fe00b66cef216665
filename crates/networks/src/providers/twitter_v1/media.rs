//! Media in a post of API v1.1. A picture has the address of its original size; a video that of the MP4 file with the highest bit rate.
//! Playlists (HLS, DASH) are not files.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::object::exact_id;
use crate::model::media::{MediaKind, Medium};
use crate::providers::scalar::{self, present};

/// Sizes of a picture below the original one, the largest first.
const SMALLER: [&str; 2] = ["4096x4096", "large"];
const PICTURES: &str = "https://pbs.twimg.com/media/";

#[derive(Deserialize)]
struct Post<'a> {
    #[serde(borrow)]
    extended_entities: Option<&'a RawValue>,
    #[serde(borrow)]
    entities: Option<&'a RawValue>,
    /// The whole post, if its text is cut short (objects of streams).
    #[serde(borrow)]
    extended_tweet: Option<&'a RawValue>,
    #[serde(borrow)]
    retweeted_status: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Entities<'a> {
    #[serde(borrow)]
    media: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Entity<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    #[serde(borrow)]
    id_str: Option<&'a RawValue>,
    #[serde(borrow, rename = "type")]
    kind: Option<&'a RawValue>,
    #[serde(borrow)]
    media_url_https: Option<&'a RawValue>,
    #[serde(borrow)]
    video_info: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct VideoInfo<'a> {
    #[serde(borrow)]
    variants: Option<&'a RawValue>,
}

/// File of a video, in v1.1 and in X API v2.
#[derive(Deserialize)]
struct Variant<'a> {
    #[serde(borrow)]
    content_type: Option<&'a RawValue>,
    #[serde(borrow, alias = "bit_rate")]
    bitrate: Option<&'a RawValue>,
    #[serde(borrow)]
    url: Option<&'a RawValue>,
}

pub(crate) fn media_kind(word: Option<&str>) -> MediaKind {
    match word {
        Some("photo") => MediaKind::Photo,
        Some("video") => MediaKind::Video,
        Some("animated_gif") => MediaKind::Gif,
        _ => MediaKind::Unknown,
    }
}

/// Address of the mp4 with the highest bit rate; `None` without an mp4.
pub(crate) fn best_variant(variants: Option<&RawValue>) -> Option<String> {
    let files = scalar::items(variants)?.filter_map(|of: Variant<'_>| {
        let is_file = scalar::string(present(of.content_type)?)? == "video/mp4";
        let rate = present(of.bitrate).and_then(scalar::count).unwrap_or(0);
        is_file.then_some((rate, scalar::string(present(of.url)?)?))
    });
    files.max_by_key(|(rate, _)| *rate).map(|(_, url)| url)
}

pub(crate) fn original_url(url: String) -> String {
    if url.starts_with(PICTURES) && !url.contains('?') { format!("{url}?name=orig") } else { url }
}

/// Addresses of smaller sizes of a picture, the largest first; `url` is the one of its [`original_url`] size.
pub(crate) fn smaller_urls(url: &str) -> Vec<String> {
    let rest = url.strip_suffix("name=orig").filter(|rest| rest.ends_with(['?', '&']));
    rest.map(|rest| SMALLER.map(|size| format!("{rest}name={size}")).into()).unwrap_or_default()
}

/// Media of a stored post and of the post that it reposts; none if the object is unreadable.
#[must_use]
pub fn read_media(raw: &str) -> Vec<Medium> {
    let Ok(post) = serde_json::from_str::<Post<'_>>(raw) else { return Vec::new() };
    let whole = |post: &Post<'_>| scalar::value::<Post<'_>>(post.extended_tweet).map(|post| post_media(&post));
    let original: Option<Post<'_>> = scalar::value(post.retweeted_status);
    let mut media: Vec<Medium> = Vec::new();
    for post in [Some(post), original].into_iter().flatten() {
        media.extend(post_media(&post));
        media.extend(whole(&post).unwrap_or_default());
    }
    // One part may have only the thumbnail of a video, and another the video.
    media.sort_by(|one, other| (&one.id, !one.kind.is_video()).cmp(&(&other.id, !other.kind.is_video())));
    media.dedup_by(|one, other| one.id == other.id);
    media
}

/// Media of a post. Old posts, with one picture at most, have it only in `entities`.
fn post_media(post: &Post<'_>) -> Vec<Medium> {
    let entities = |of| scalar::items(scalar::value::<Entities<'_>>(of)?.media);
    let all = entities(post.extended_entities).or_else(|| entities(post.entities));
    all.into_iter().flatten().filter_map(|of| medium(&of)).collect()
}

fn medium(entity: &Entity<'_>) -> Option<Medium> {
    let id = exact_id(entity.id_str, entity.id).ok()?.to_string();
    let kind = media_kind(present(entity.kind).and_then(scalar::string).as_deref());
    let url = match kind {
        MediaKind::Video | MediaKind::Gif => best_variant(scalar::value::<VideoInfo<'_>>(entity.video_info)?.variants)?,
        _ => original_url(scalar::string(present(entity.media_url_https)?)?),
    };
    Some(Medium { id, url, kind })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_file_of_each_is_named() {
        let raw = r#"{"extended_entities": {"media": [
            {"id_str": "619480682759356416", "type": "photo", "media_url_https": "https://pbs.twimg.com/media/CJ.png"},
            {"id": 619480682759356417, "type": "video", "media_url_https": "https://pbs.twimg.com/x.jpg", "video_info":
                {"variants": [{"content_type": "application/x-mpegURL", "url": "https://v/pl.m3u8"},
                {"content_type": "video/mp4", "bitrate": 832000, "url": "https://v/832.mp4"},
                {"content_type": "video/mp4", "bitrate": 2176000, "url": "https://v/2176.mp4"}]}},
            {"id_str": "619480682759356418", "type": "animated_gif", "video_info":
                {"variants": [{"content_type": "video/mp4", "bitrate": 0, "url": "https://v/gif.mp4"}]}},
            {"id_str": "x", "type": "photo", "media_url_https": "https://h/odd.png"}, 7]},
            "retweeted_status": {"extended_entities": {"media": [
            {"id_str": "619480682759356416", "type": "photo", "media_url_https": "https://pbs.twimg.com/media/CJ.png"}]}}}"#;
        let found: Vec<(String, MediaKind)> = read_media(raw).into_iter().map(|of| (of.url, of.kind)).collect();
        let expected = [
            ("https://pbs.twimg.com/media/CJ.png?name=orig", MediaKind::Photo),
            ("https://v/2176.mp4", MediaKind::Video),
            ("https://v/gif.mp4", MediaKind::Gif),
        ];
        assert_eq!(found, expected.map(|(url, kind)| (url.to_owned(), kind)));
        assert_eq!(read_media("{}"), []);
        assert_eq!(read_media("no object"), []);
    }
}
