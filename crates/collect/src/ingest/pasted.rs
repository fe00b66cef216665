//! Recognises texts that people paste instead of a post's id. No I/O.

use super::invalid_entry::InvalidEntry;
use networks::model::pipeline_id::{Kind, PipelineId};
use networks::model::provider::Provider;
use networks::providers::named::{Address, is_digits};

const SHORTEST_HANDLE: usize = 4;
const LONGEST_HANDLE: usize = 15;

const TOO_SHORT: &str = "the id is too short to contain its date. For a post from before 2010-11-04 write \
    {\"id\":\"20\",\"created_at\":\"2006-03-21T20:50:14Z\"} or use --once; for an account use --accounts";

const NOT_OF_MASTODON: &str = "the id does not contain its date: digits are missing, or the server does not run Mastodon. Write \
    {\"id\":\"…\",\"created_at\":\"2026-01-31T08:00:00Z\"} or use --once; for an account use --accounts";

fn post_provider(namespace: &str) -> Option<Provider> {
    PipelineId::parse(namespace).filter(|id| id.kind == Kind::Posts).map(|id| id.provider)
}

/// Finds the id in a pasted text; an error states the kind of text and the remedy. Returns `None` if the text may be an
/// id, or is unknown.
pub(super) fn id_from_pasted(text: &str, namespace: &str) -> Option<Result<String, InvalidEntry>> {
    if text.starts_with(|first: char| first.is_ascii_digit()) || text.starts_with("at://") {
        return None;
    }
    let provider = post_provider(namespace)?;
    if text.contains(|c: char| c.is_whitespace() || c == ',' || c == ';') {
        return None; // several columns
    }
    if let Ok(Some(address)) = Address::read(text) {
        return Some(id_from_address(&address, &provider));
    }
    let (is_network_of_names, is_bluesky) =
        (matches!(provider, Provider::Twitter | Provider::X), provider == Provider::Bluesky);
    let is_name = |text: &str| {
        (SHORTEST_HANDLE..=LONGEST_HANDLE).contains(&text.len())
            && text.starts_with(|first: char| first.is_ascii_alphabetic())
            && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    };
    let what = match text {
        _ if is_bluesky && text.starts_with("did:") => "an account's DID",
        _ if text.starts_with('@') || (is_network_of_names && is_name(text)) || (is_bluesky && text.contains('.')) => {
            "a handle"
        }
        _ => return None,
    };
    let id = if is_bluesky { "a post's at:// address" } else { "a post's id" };
    let reason = format!("{what}, not {id}. For accounts: enqueue --accounts FILE, or accounts follow FILE");
    Some(Err(InvalidEntry::other_kind(reason)))
}

fn id_from_address(address: &Address, provider: &Provider) -> Result<String, InvalidEntry> {
    let other = |reason: String| Err(InvalidEntry::other_kind(reason));
    let host = &*address.host;
    let host = ["www.", "mobile.", "m."].iter().find_map(|of| host.strip_prefix(of)).unwrap_or(host);
    match (provider, &address.segments()[..]) {
        (Provider::Twitter | Provider::X, ["i", "web", "status", id, ..] | [_, "status" | "statuses", id, ..])
            if matches!(host, "x.com" | "twitter.com") && is_digits(id) =>
        {
            Ok((*id).to_owned())
        }
        // All Bluesky clients write addresses like this, on any host.
        (Provider::Bluesky, ["profile", did, "post", key, ..]) if did.starts_with("did:") => {
            Ok(format!("at://{did}/app.bsky.feed.post/{key}"))
        }
        (Provider::Bluesky, ["profile", _, "post", key, ..]) => {
            let remedy = format!("write at://DID/app.bsky.feed.post/{key}, with the account's DID");
            other(format!("an address with a handle: {remedy}"))
        }
        (Provider::Mastodon(_), [.., id]) if is_digits(id) => {
            other(format!("an address, not an id: write {id}, if the address is one of this instance"))
        }
        (_, segments) => {
            let network = match segments {
                ["profile", _, "post", _, ..] => "bluesky",
                ["i", "web", "status", id, ..] | [_, "status" | "statuses", id, ..]
                    if matches!(host, "x.com" | "twitter.com") && is_digits(id) =>
                {
                    "twitter or x"
                }
                [account, id] if account.starts_with('@') && is_digits(id) => "mastodon:INSTANCE",
                _ => return other("an address of no post of this network: write the post's id".to_owned()),
            };
            other(format!("an address of no post of this network: enqueue it with --provider {network}"))
        }
    }
}

/// Returns reason and remedy for an id that does not contain the date of its post.
pub(super) fn missing_date_reason(namespace: &str) -> Option<&'static str> {
    match post_provider(namespace)? {
        Provider::Twitter | Provider::X => Some(TOO_SHORT),
        Provider::Mastodon(_) => Some(NOT_OF_MASTODON),
        Provider::Bluesky => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_without_a_date_is_refused_in_the_words_of_its_network() {
        let why = |provider: &Provider| missing_date_reason(&PipelineId::posts(provider).to_string());
        assert!(why(&Provider::X).unwrap().contains("2010-11-04"));
        let mastodon = why(&Provider::Mastodon("social".to_owned())).unwrap();
        assert!(mastodon.contains("does not run Mastodon") && !mastodon.contains("2010"), "{mastodon}");
    }

    #[test]
    fn an_id_is_taken_from_an_address_of_its_network_alone() {
        let id = |text: &str, of: &Provider| id_from_pasted(text, &PipelineId::posts(of).to_string());
        for text in [
            "https://twitter.com/jack/status/20",
            "x.com/i/web/status/20?s=46",
            "https://mobile.twitter.com/jack/statuses/20/photo/1",
        ] {
            assert_eq!(id(text, &Provider::X), Some(Ok("20".to_owned())), "{text}");
            assert!(
                id(text, &Provider::Bluesky).unwrap().unwrap_err().to_string().contains("of no post of this network"),
                "{text}"
            );
        }
        let uri = "at://did:plc:z72i7hdynmk6r22z27h6tvur/app.bsky.feed.post/3l6oveex3ii2l";
        let page = "https://bsky.app/profile/did:plc:z72i7hdynmk6r22z27h6tvur/post/3l6oveex3ii2l";
        assert_eq!(id(page, &Provider::Bluesky), Some(Ok(uri.to_owned())));
        assert_eq!(id(uri, &Provider::Bluesky), None);
        let social = Provider::Mastodon("social".to_owned());
        for (text, of, says) in [
            ("https://x.com/jack", Provider::X, "an address of no post"),
            ("https://evil.example/jack/status/20", Provider::X, "an address of no post"),
            ("https://x.com/jack/status/last", Provider::X, "write the post's id"),
            (
                "https://bsky.app/profile/ann.example/post/3l",
                Provider::X,
                "of this network: enqueue it with --provider bluesky",
            ),
            ("https://social.example/@ann/11223", Provider::Twitter, "--provider mastodon:INSTANCE"),
            ("https://twitter.com/jack/status/20", Provider::Bluesky, "--provider twitter"),
            ("https://bsky.app/profile/ann.example/post/3l", Provider::Bluesky, "at://DID/app.bsky.feed.post/3l"),
            ("https://social.example/@ann/11223", social.clone(), "write 11223"),
            ("@jack", Provider::Twitter, "a handle, not a post's id. For accounts: "),
            ("TwitterDev", Provider::X, "a handle, not a post's id"),
            ("@ann@b.example", social.clone(), "a handle, not a post's id"),
            ("ann.example", Provider::Bluesky, "a handle, not a post's at:// address"),
            ("did:plc:z72i7hdynmk6r22z27h6tvur", Provider::Bluesky, "an account's DID"),
        ] {
            let error = id(text, &of).unwrap().unwrap_err().to_string();
            assert!(error.contains(says), "{text}: {error}");
        }
        for (text, of) in [("20", Provider::X), ("x", Provider::X), ("-150", Provider::X), ("a/b,c", Provider::X)] {
            assert_eq!(id(text, &of), None, "{text}");
        }
        assert_eq!(id("AbCdEf", &social), None, "other software's ids are words");
        assert_eq!(id_from_pasted("@jack", "followers:twitter"), None);
    }
}
