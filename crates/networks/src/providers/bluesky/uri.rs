//! A post's id: `at://did:plc:…/app.bsky.feed.post/3l6oveex3ii2l`.

use crate::model::post::BadId;
use engine::base::clock::Millis;

/// Digits of a TID, in their order.
const DIGITS: &[u8; 32] = b"234567abcdefghijklmnopqrstuvwxyz";
/// Maximum length of a record key; no existing DID is longer.
const LONGEST: usize = 512;

/// Record key of a post's uri.
pub fn record_key(uri: &str) -> Result<&str, BadId> {
    split_uri(uri).map_err(BadId::Form)
}

fn split_uri(uri: &str) -> Result<&str, &'static str> {
    let rest = uri.strip_prefix("at://").ok_or("the id is not an at-uri: it does not begin with at://")?;
    let [did, collection, key] = rest.split('/').collect::<Vec<_>>()[..] else {
        return Err("the id is not the at-uri of a post: it is not at://DID/app.bsky.feed.post/KEY");
    };
    if !is_did(did) {
        return Err("the id has no DID after at://; write the DID, since a handle may change");
    }
    if collection != "app.bsky.feed.post" {
        return Err("the id is of another collection than app.bsky.feed.post");
    }
    if !fits(key, "._:~-") || key == "." || key == ".." {
        return Err("the id's last part is no record key");
    }
    Ok(key)
}

pub fn author_did(uri: &str) -> Option<&str> {
    record_key(uri).ok()?;
    uri.strip_prefix("at://")?.split('/').next()
}

/// Returns true if the text is a DID: an account's id, which stays when the handle changes.
pub fn is_did(text: &str) -> bool {
    let method = text.strip_prefix("did:").and_then(|rest| rest.split_once(':'));
    method.is_some_and(|(method, id)| {
        !method.is_empty() && method.bytes().all(|byte| byte.is_ascii_lowercase()) && fits(id, "._:%-")
    })
}

/// Returns true if the text is short enough, and has only letters, digits and `marks`.
fn fits(text: &str, marks: &str) -> bool {
    (1..=LONGEST).contains(&text.len()) && text.chars().all(|c| c.is_ascii_alphanumeric() || marks.contains(c))
}

/// Creation time in a record key, ms since the epoch; `None` if the key is no TID: microseconds above 10 bits of a clock's id.
pub fn tid_time(key: &str) -> Option<Millis> {
    // The first bit is 0.
    if key.len() != 13 || !matches!(key.as_bytes()[0], b'2'..=b'7' | b'a'..=b'j') {
        return None;
    }
    let tid = key.bytes().try_fold(0u64, |tid, byte| {
        let digit = DIGITS.iter().position(|known| *known == byte)?;
        Some((tid << 5) | digit as u64)
    })?;
    Millis::try_from((tid >> 10) / 1000).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const DID: &str = "at://did:plc:ewvi7nxzyoun6zhxrhs64oiz";

    #[test]
    fn a_tid_holds_the_time() {
        // 2024-10-17T…, as in the post's createdAt, and the specification's zero.
        assert_eq!(tid_time("3l6oveex3ii2l").map(|at| at / 86_400_000), Some(20_013));
        assert_eq!(tid_time("2222222222222"), Some(0));
        for odd in ["self", "zzzzzzzzzzzzz", "3L6OVEEX3II2L", "3l6oveex3ii2", "3l6oveex3ii20", "3l6oveex3ii2é"] {
            assert_eq!(tid_time(odd), None, "{odd}");
        }
    }

    #[test]
    fn an_id_is_the_uri_of_a_post_by_its_did() {
        assert_eq!(record_key(&format!("{DID}/app.bsky.feed.post/3l6oveex3ii2l")), Ok("3l6oveex3ii2l"));
        assert_eq!(record_key("at://did:web:example.org/app.bsky.feed.post/any-key_1"), Ok("any-key_1"));
        for (odd, why) in [
            ("20".to_owned(), "at://"),
            ("https://bsky.app/profile/a.org/post/3l6oveex3ii2l".to_owned(), "at://"),
            ("at://alice.bsky.social/app.bsky.feed.post/3l6oveex3ii2l".to_owned(), "write the DID"),
            (format!("{DID}/app.bsky.feed.like/3l6oveex3ii2l"), "another collection"),
            (format!("{DID}/app.bsky.feed.post"), "not at://DID"),
            (format!("{DID}/app.bsky.feed.post/a/b"), "not at://DID"),
            (format!("{DID}/app.bsky.feed.post/"), "no record key"),
            (format!("{DID}/app.bsky.feed.post/.."), "no record key"),
            (format!("{DID}/app.bsky.feed.post/a?b"), "no record key"),
            (String::new(), "at://"),
        ] {
            assert!(record_key(&odd).unwrap_err().to_string().contains(why), "{odd}");
        }
    }
}
