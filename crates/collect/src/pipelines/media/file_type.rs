//! Detects the type of a file by its first bytes. Its host and its name are not trusted: strangers choose them.
//!
//! This module knows the few types that networks serve. A library with hundreds of types would add two crates for office documents.

pub const HEAD_BYTES: usize = 64;

const SIGNATURES: &[(&[u8], &str)] = &[
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"OggS", "audio/ogg"),
    (b"fLaC", "audio/flac"),
    (b"ID3", "audio/mpeg"),
];

/// Detects the type of a picture, a video or a sound: `image/jpeg`; `None` for anything else.
///
/// ```
/// # use twitter_updater_collect::pipelines::media::file_type::file_type;
/// assert_eq!(file_type(b"\xff\xd8\xff\xe0\0\x10JFIF").unwrap(), "image/jpeg");
/// assert_eq!(file_type(b"<!DOCTYPE html>"), None);
/// ```
#[must_use]
pub fn file_type(head: &[u8]) -> Option<&'static str> {
    let begins = SIGNATURES.iter().find(|(beginning, _)| head.starts_with(beginning));
    begins
        .map(|(_, known)| *known)
        .or_else(|| riff_type(head))
        .or_else(|| base_media_type(head))
        .or_else(|| matroska_type(head))
        .or_else(|| match head {
            // A frame of MPEG audio, layer III.
            [0xff, second, ..] if second & 0xe6 == 0xe2 => Some("audio/mpeg"),
            _ => None,
        })
}

fn riff_type(head: &[u8]) -> Option<&'static str> {
    match (head.get(..4)?, head.get(8..12)?) {
        (b"RIFF", b"WEBP") => Some("image/webp"),
        (b"RIFF", b"WAVE") => Some("audio/wav"),
        _ => None,
    }
}

fn base_media_type(head: &[u8]) -> Option<&'static str> {
    if head.get(4..8)? != b"ftyp" {
        return None;
    }
    Some(match head.get(8..12)? {
        b"avif" | b"avis" => "image/avif",
        b"heic" | b"heix" | b"mif1" | b"msf1" => "image/heic",
        b"M4A " | b"M4B " => "audio/mp4",
        b"qt  " => "video/quicktime",
        _ => "video/mp4",
    })
}

fn matroska_type(head: &[u8]) -> Option<&'static str> {
    let is_ebml = head.starts_with(b"\x1a\x45\xdf\xa3");
    let names = |word: &[u8]| head.windows(word.len()).any(|bytes| bytes == word);
    match is_ebml {
        true if names(b"webm") => Some("video/webm"),
        true if names(b"matroska") => Some("video/x-matroska"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_recognized_by_the_first_bytes() {
        let known: [(&[u8], &str); 12] = [
            (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", "image/png"),
            (b"GIF89a\x01\0", "image/gif"),
            (b"RIFF\x24\0\0\0WEBPVP8 ", "image/webp"),
            (b"RIFF\x24\0\0\0WAVEfmt ", "audio/wav"),
            (b"\0\0\0\x18ftypmp42\0\0\0\0", "video/mp4"),
            (b"\0\0\0\x20ftypisom\0\0\x02\0", "video/mp4"),
            (b"\0\0\0\x14ftypqt  ", "video/quicktime"),
            (b"\0\0\0\x1cftypavif", "image/avif"),
            (b"\x1a\x45\xdf\xa3\x9f\x42\x86\x81\x01\x42\x82\x84webm", "video/webm"),
            (b"OggS\0\x02", "audio/ogg"),
            (b"ID3\x03\0", "audio/mpeg"),
            (b"\xff\xfb\x90\x64", "audio/mpeg"),
        ];
        for (head, name) in known {
            assert_eq!(file_type(head), Some(name), "{head:?}");
        }
        let others: [&[u8]; 9] = [
            b"",
            b"\xff",
            b"\xff\xd8",
            b"<html>",
            b"{\"error\": 1}",
            b"%PDF-1.7",
            b"PK\x03\x04",
            b"MZ\x90\0",
            b"\x1f\x8b\x08\0",
        ];
        for head in others {
            assert_eq!(file_type(head), None, "{head:?}");
        }
        // SVG pictures may contain scripts.
        assert_eq!(file_type(b"<svg xmlns=\"http://www.w3.org/2000/svg\">"), None);
    }
}
