//! The media in a view of a post: its pictures, also beside a quoted post. Videos are playlists of pieces (HLS), no files,
//! and are not read; neither are the pictures of links, nor those of the quoted post.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::model::media::{MediaKind, Medium};
use crate::providers::scalar::{self, present};

#[derive(Deserialize)]
struct View<'a> {
    #[serde(borrow)]
    embed: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Embed<'a> {
    #[serde(borrow)]
    images: Option<&'a RawValue>,
    /// Beside a quoted post.
    #[serde(borrow)]
    media: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Image<'a> {
    #[serde(borrow)]
    fullsize: Option<&'a RawValue>,
}

/// Reads them; an odd field is no reason to lose the others.
#[must_use]
pub fn media(raw: &str) -> Vec<Medium> {
    let embed = serde_json::from_str::<View<'_>>(raw).ok().and_then(|view| scalar::value::<Embed<'_>>(view.embed));
    let Some(embed) = embed else { return Vec::new() };
    let beside: Option<Embed<'_>> = scalar::value(embed.media);
    let images = [Some(embed), beside].into_iter().flatten();
    let images = images.filter_map(|of| scalar::items(of.images)).flatten();
    images.filter_map(|image| medium(&image)).collect()
}

fn medium(image: &Image<'_>) -> Option<Medium> {
    let url = scalar::string(present(image.fullsize)?)?;
    Some(Medium { id: id(&url)?, url, kind: MediaKind::Photo })
}

/// The account and the hash of the original, with which the address ends: `…/did:plc:…/bafkrei…@jpeg`.
fn id(url: &str) -> Option<String> {
    let (rest, name) = url.rsplit_once('/')?;
    let hash = name.split(['@', '?']).next()?;
    let account = rest.rsplit('/').next()?;
    let is_known = account.starts_with("did:") && hash.starts_with("baf");
    is_known.then(|| format!("{account}/{hash}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pictures_are_named_by_account_and_hash() {
        let image = r#"{"fullsize": "https://cdn.bsky.app/img/feed_fullsize/plain/did:plc:abc/bafkreia@jpeg"}"#;
        for embed in [format!(r#"{{"images": [{image}, 7]}}"#), format!(r#"{{"media": {{"images": [{image}]}}}}"#)] {
            let media = media(&format!(r#"{{"uri": "at://x", "embed": {embed}}}"#));
            assert_eq!(media.iter().map(|of| &*of.id).collect::<Vec<_>>(), ["did:plc:abc/bafkreia"]);
        }
        let video = r#"{"embed": {"cid": "baf", "playlist": "https://video.bsky.app/x/playlist.m3u8"}}"#;
        assert_eq!(media(video), []);
        assert_eq!(id("https://h/odd.png"), None);
    }
}
