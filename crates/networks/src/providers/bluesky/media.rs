//! Media in a view of a post: pictures, also those of a gallery and those beside a quoted post. Videos are playlists (HLS), not files,
//! and are not read. Pictures of links and of the quoted post are not read either.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::uri::is_did;
use crate::model::media::{MediaKind, Medium};
use crate::providers::scalar::{self, present};

#[derive(Deserialize)]
struct View<'a> {
    #[serde(borrow)]
    author: Option<&'a RawValue>,
    #[serde(borrow)]
    record: Option<&'a RawValue>,
    #[serde(borrow)]
    embed: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Author<'a> {
    #[serde(borrow)]
    did: Option<&'a RawValue>,
}

/// Author's record; its pictures are in the order of the view's.
#[derive(Deserialize)]
struct Record<'a> {
    #[serde(borrow)]
    embed: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Embed<'a> {
    #[serde(borrow)]
    images: Option<&'a RawValue>,
    #[serde(borrow)]
    items: Option<&'a RawValue>,
    /// Media beside a quoted post.
    #[serde(borrow)]
    media: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Picture<'a> {
    /// Address; only in a view.
    #[serde(borrow)]
    fullsize: Option<&'a RawValue>,
    /// Original; only in a record.
    #[serde(borrow)]
    image: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Blob<'a> {
    #[serde(borrow, rename = "ref")]
    link: Option<&'a RawValue>,
    /// Only in records from before 2023.
    #[serde(borrow)]
    cid: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Link<'a> {
    #[serde(borrow, rename = "$link")]
    hash: Option<&'a RawValue>,
}

#[must_use]
pub fn read_media(raw: &str) -> Vec<Medium> {
    let Ok(view) = serde_json::from_str::<View<'_>>(raw) else { return Vec::new() };
    let author = scalar::value::<Author<'_>>(view.author).and_then(|author| scalar::string(present(author.did)?));
    let author = author.filter(|did| is_did(did));
    let originals = pictures(scalar::value::<Record<'_>>(view.record).and_then(|record| record.embed));
    let originals = originals.iter().map(|picture| original_hash(picture.as_ref()?)).chain(std::iter::repeat(None));
    let shown = pictures(view.embed).into_iter().zip(originals);
    shown.filter_map(|(picture, original)| medium(&picture?, author.as_deref(), original)).collect()
}

/// Pictures of an embed in their order; `None` for an odd one.
fn pictures(embed: Option<&RawValue>) -> Vec<Option<Picture<'_>>> {
    let Some(embed) = scalar::value::<Embed<'_>>(embed) else { return Vec::new() };
    let beside: Option<Embed<'_>> = scalar::value(embed.media);
    let lists = [Some(embed), beside].into_iter().flatten().flat_map(|of| [of.images, of.items]);
    let pictures = lists.filter_map(scalar::value::<Vec<&RawValue>>).flatten();
    pictures.map(|picture| scalar::value(Some(picture))).collect()
}

fn original_hash(picture: &Picture<'_>) -> Option<String> {
    let blob: Blob<'_> = scalar::value(picture.image)?;
    let link = scalar::value::<Link<'_>>(blob.link).and_then(|link| link.hash);
    scalar::string(present(link).or(present(blob.cid))?).filter(|hash| is_hash(hash))
}

fn medium(picture: &Picture<'_>, author: Option<&str>, original: Option<String>) -> Option<Medium> {
    let url = scalar::string(present(picture.fullsize)?)?;
    let id = id_in_url(&url).or_else(|| Some(format!("{}/{}", author?, original?)))?;
    Some(Medium { id, url, kind: MediaKind::Photo })
}

fn is_hash(text: &str) -> bool {
    text.starts_with("baf") && text.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

/// Account and hash of the original, from the end of the network's own addresses: `…/did:plc:…/bafkrei…@jpeg`.
fn id_in_url(url: &str) -> Option<String> {
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
            let media = read_media(&format!(r#"{{"uri": "at://x", "embed": {embed}}}"#));
            assert_eq!(media.iter().map(|of| &*of.id).collect::<Vec<_>>(), ["did:plc:abc/bafkreia"]);
        }
        let video = r#"{"embed": {"cid": "baf", "playlist": "https://video.bsky.app/x/playlist.m3u8"}}"#;
        assert_eq!(read_media(video), []);
        assert_eq!(id_in_url("https://h/odd.png"), None);
    }
    #[test]
    fn a_picture_elsewhere_goes_by_author_and_original() {
        let blob = |hash: &str| format!(r#"{{"image": {{"$type": "blob", "ref": {{"$link": "{hash}"}}}}}}"#);
        let (first, third) = (blob("bafkreia"), blob("bafkreic"));
        let second = r#"{"image": {"cid": "bafkreib", "mimeType": "image/png"}}"#;
        let address = |n: u8| format!(r#"{{"fullsize": "https://pictures.example/{n}.png"}}"#);
        for (list, is_beside) in [("images", false), ("items", false), ("images", true), ("items", true)] {
            let embed = |pictures: [&str; 3]| {
                let embed = format!(r#"{{"{list}": [{}]}}"#, pictures.join(","));
                if is_beside { format!(r#"{{"record": {{"uri": "at://y"}}, "media": {embed}}}"#) } else { embed }
            };
            let shown = embed([&address(1), &address(2), &address(3)]);
            let written = embed([&first, second, &third]);
            let view = |did: &str, written: &str| {
                let author = format!(r#""author": {{"did": "{did}"}}"#);
                read_media(&format!(
                    r#"{{"uri": "at://x", {author}, "record": {{"embed": {written}}}, "embed": {shown}}}"#
                ))
            };
            let ids: Vec<String> = view("did:plc:abc", &written).into_iter().map(|of| of.id).collect();
            let expected = ["bafkreia", "bafkreib", "bafkreic"].map(|hash| format!("did:plc:abc/{hash}"));
            assert_eq!(ids, expected, "{list} {is_beside}");
            // An odd one keeps its place.
            let ids: Vec<String> =
                view("did:plc:abc", &embed([&first, "7", &third])).into_iter().map(|of| of.id).collect();
            assert_eq!(ids, [&*expected[0], &*expected[2]], "{list} {is_beside}");
            assert_eq!(view("ann.example", &written), [], "no account");
        }
    }
}
