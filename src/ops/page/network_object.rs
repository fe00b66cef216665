//! The address of a post at its network, and the object as the network sent it.

use reqwest::Url;
use serde::Deserialize;

use super::ids::PostId;
use networks::model::provider::Provider;

/// Maximum length of a shown object; a post is 2 to 10 KB.
const MAX_BYTES: usize = 40_000;
const INDENT: &str = "  ";

#[derive(Debug, Deserialize)]
struct ObjectUrl {
    url: Option<String>,
}

/// Returns the address of a post for a browser; `None` if it is unknown.
pub(super) fn network_address(ledger: &str, id: &PostId, raw: Option<&str>) -> Option<Url> {
    let address = match ledger.parse::<Provider>().ok()? {
        Provider::Twitter | Provider::X => format!("https://x.com/i/web/status/{id}"),
        Provider::Bluesky => {
            let (author, key) = id.as_str().strip_prefix("at://")?.split_once("/app.bsky.feed.post/")?;
            format!("https://bsky.app/profile/{author}/post/{key}")
        }
        // Each instance has its own, and its posts state their addresses.
        Provider::Mastodon(_) => serde_json::from_str::<ObjectUrl>(raw?).ok()?.url?,
    };
    // Text from another server must not become a script.
    Url::parse(&address).ok().filter(|url| matches!(url.scheme(), "http" | "https"))
}

/// Writes a JSON object with one line per value, in its order and with its digits. Returns true if it was cut.
pub(super) fn indent_json(raw: &str) -> (String, bool) {
    let (mut text, mut depth, mut is_string, mut is_escaped) = (String::new(), 0_usize, false, false);
    let line = |text: &mut String, depth: usize| {
        text.push('\n');
        text.push_str(&INDENT.repeat(depth.min(20)));
    };
    let mut all = raw.chars().filter(|c| !c.is_control()).peekable();
    while let Some(c) = all.next() {
        if text.len() > MAX_BYTES {
            return (text, true);
        }
        if is_string {
            text.push(c);
            is_string = is_escaped || c != '"';
            is_escaped = c == '\\' && !is_escaped;
            continue;
        }
        match c {
            ' ' => {}
            '{' | '[' => {
                text.push(c);
                if !matches!(all.peek(), Some('}' | ']')) {
                    depth += 1;
                    line(&mut text, depth);
                }
            }
            '}' | ']' => {
                if !text.ends_with(['{', '[']) {
                    depth = depth.saturating_sub(1);
                    line(&mut text, depth);
                }
                text.push(c);
            }
            ',' => {
                text.push(c);
                line(&mut text, depth);
            }
            ':' => text.push_str(": "),
            _ => {
                text.push(c);
                is_string = c == '"';
            }
        }
    }
    (text, false)
}

#[cfg(test)]
mod tests {
    use super::*;

    const URI: &str = "at://did:plc:ewvi7nxzyoun6zhxrhs64oiz/app.bsky.feed.post/3l6oveex3ii2l";

    fn at(ledger: &str, id: &str, raw: Option<&str>) -> Option<String> {
        network_address(ledger, &PostId::parse(id).unwrap(), raw).map(String::from)
    }

    #[test]
    fn a_post_has_an_address_at_its_network() {
        let toot = Some(r#"{"id":"20","url":"https://mastodon.social/@Gargron/20"}"#);
        for (ledger, id, raw, address) in [
            ("twitter", "20", None, "https://x.com/i/web/status/20"),
            ("x", "20", None, "https://x.com/i/web/status/20"),
            ("mastodon:social", "20", toot, "https://mastodon.social/@Gargron/20"),
            ("bluesky", URI, None, "https://bsky.app/profile/did:plc:ewvi7nxzyoun6zhxrhs64oiz/post/3l6oveex3ii2l"),
        ] {
            assert_eq!(at(ledger, id, raw).as_deref(), Some(address));
        }
    }

    #[test]
    fn only_an_address_of_the_web_is_one() {
        for raw in [
            None,
            Some("{}"),
            Some("no json"),
            Some(r#"{"url":"javascript:alert(1)"}"#),
            Some(r#"{"url":"JaVaScRiPt:alert(1)//https://"}"#),
            Some(r#"{"url":"data:text/html,x"}"#),
            Some(r#"{"url":"/relative"}"#),
            Some(r#"{"url":7}"#),
        ] {
            assert_eq!(at("mastodon:social", "20", raw), None, "{raw:?}");
        }
        assert_eq!(at("bluesky", "20", None), None);
        assert_eq!(at("another", "20", None), None);
    }

    #[test]
    fn an_object_has_a_line_for_each_value_and_stays_as_it_is() {
        let raw = r#"{"b":12345678901234567890,"a":[1.50,{}, [] ],"text":"a \"{,:}\" \\"}"#;
        let shown = "{\n  \"b\": 12345678901234567890,\n  \"a\": [\n    1.50,\n    {},\n    []\n  ],\n  \
                     \"text\": \"a \\\"{,:}\\\" \\\\\"\n}";
        assert_eq!(indent_json(raw), (shown.to_owned(), false));
    }

    #[test]
    fn what_is_long_or_deep_is_bounded() {
        for raw in [format!("\"{}\"", "x".repeat(1 << 20)), "[".repeat(1 << 20), "]".repeat(1 << 20)] {
            let (text, is_cut) = indent_json(&raw);
            assert!(is_cut && text.len() < MAX_BYTES + 100, "{}", text.len());
        }
    }
}
