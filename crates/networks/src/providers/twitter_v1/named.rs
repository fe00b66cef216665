//! Accounts of Twitter and X as people write them. No I/O.

use crate::model::post::{BadId, TweetId};
use crate::providers::named::{AccountRef, Address, BadAccountRef, first_column, is_digits, strip_id_mark};
use engine::base::clock::{self, Millis};

/// Longest handle: new ones have up to 15 characters, some of the first have more.
const LONGEST: usize = 20;

/// First segments of addresses that belong to no account.
const NON_ACCOUNT_PATHS: [&str; 20] = [
    "about",
    "account",
    "compose",
    "download",
    "explore",
    "hashtag",
    "home",
    "i",
    "intent",
    "jobs",
    "login",
    "messages",
    "notifications",
    "privacy",
    "search",
    "settings",
    "share",
    "signup",
    "tos",
    "who_to_follow",
];

const DAY_MS: Millis = 86_400_000;

/// Reads an account: an id, a handle with or without `@`, or an address of the account or of one of its posts. Digits alone are an id.
/// An error is one clause.
pub fn read_account_ref(line: &str) -> Result<AccountRef, BadAccountRef> {
    let word = first_column(line)?;
    if is_digits(word) {
        return parse_id(word);
    }
    // CSV marks ids this way, and a handle may look the same.
    if strip_id_mark(word) != word {
        return Err(BadAccountRef::Handle(
            "x and digits may be an id that CSV marks, or a handle: write the id without x, or the handle with @",
        ));
    }
    match Address::read(word)? {
        Some(address) => read_address(&address),
        None => parse_handle(word.strip_prefix('@').unwrap_or(word)),
    }
}

fn parse_id(text: &str) -> Result<AccountRef, BadAccountRef> {
    let id = TweetId::parse(text)?;
    // Since 2016 account ids contain their creation time, like post ids.
    if id.created_at().is_some_and(|made_at| made_at > clock::wall_ms() + DAY_MS) {
        let why = "the id contains a date in the future, so it is not an account's id; check its digits";
        return Err(BadId::Form(why).into());
    }
    Ok(AccountRef::Id(id.to_string()))
}

fn parse_handle(text: &str) -> Result<AccountRef, BadAccountRef> {
    let is_handle =
        (1..=LONGEST).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    if is_handle {
        return Ok(AccountRef::Handle(text.to_owned()));
    }
    Err(BadAccountRef::Handle("not an id, a handle (letters, digits and _) or the address of a profile"))
}

fn read_address(address: &Address) -> Result<AccountRef, BadAccountRef> {
    let host = &address.host;
    let host = ["www.", "mobile.", "m."].iter().find_map(|of| host.strip_prefix(of)).unwrap_or(host);
    if !matches!(host, "twitter.com" | "x.com") {
        return Err(BadAccountRef::Address("the address is not one of x.com or twitter.com"));
    }
    let no_account = BadAccountRef::Address("the address names no account");
    match (&address.segments()[..], address.parameter("user_id"), address.parameter("screen_name")) {
        (["i", "user", number, ..], ..) => parse_id(number),
        (["intent", "user" | "follow"], Some(number), _) => parse_id(number),
        (["intent", "user" | "follow"], None, Some(name)) => parse_handle(name.strip_prefix('@').unwrap_or(name)),
        ([page, ..], ..) if NON_ACCOUNT_PATHS.contains(&&*page.to_ascii_lowercase()) => Err(no_account),
        ([name, ..], ..) => parse_handle(name.strip_prefix('@').unwrap_or(name)),
        ([], ..) => Err(no_account),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_account_is_an_id_a_handle_or_an_address() {
        for (line, of) in [
            ("12", AccountRef::Id("12".to_owned())),
            ("1145936974064177152,ann", AccountRef::Id("1145936974064177152".to_owned())),
            ("x.com/i/user/12", AccountRef::Id("12".to_owned())),
            ("twitter.com/intent/user?user_id=12", AccountRef::Id("12".to_owned())),
            ("@12", AccountRef::Handle("12".to_owned())),
            ("x.com/12", AccountRef::Handle("12".to_owned())),
            ("@Ann_1", AccountRef::Handle("Ann_1".to_owned())),
            ("Ann_1", AccountRef::Handle("Ann_1".to_owned())),
            ("https://x.com/ann", AccountRef::Handle("ann".to_owned())),
            ("https://twitter.com/ann/status/20?s=1", AccountRef::Handle("ann".to_owned())),
            ("http://www.twitter.com/@ann/", AccountRef::Handle("ann".to_owned())),
            ("mobile.twitter.com/ann?lang=en", AccountRef::Handle("ann".to_owned())),
            ("https://twitter.com/#!/ann", AccountRef::Handle("ann".to_owned())),
            ("https://twitter.com/intent/user?screen_name=ann", AccountRef::Handle("ann".to_owned())),
        ] {
            assert_eq!(read_account_ref(line), Ok(of), "{line}");
        }
        for (line, why) in [
            ("0", "starts with 0"),
            ("-3", "not an id, a handle"),
            ("9145936974064177152", "date in the future"),
            ("x.com/i/user/9145936974064177152", "date in the future"),
            ("99999999999999999999", "digits"),
            ("ann@social.example", "not an id, a handle"),
            ("a_name_of_21_letters_", "not an id, a handle"),
            ("@", "not an id, a handle"),
            ("ann!", "not an id, a handle"),
            ("https://social.example/@ann", "not one of x.com"),
            ("https://notx.com/ann", "not one of x.com"),
            ("https://x.com/", "names no account"),
            ("https://x.com/i/lists/12", "names no account"),
            ("https://x.com/Search?q=ann", "names no account"),
            ("https://x.com/intent/user", "names no account"),
            ("https://x.com/i/user/ann", ""),
        ] {
            assert!(
                read_account_ref(line).unwrap_err().to_string().contains(why),
                "{line}: {:?}",
                read_account_ref(line)
            );
        }
    }
}
