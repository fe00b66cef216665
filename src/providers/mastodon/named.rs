//! Accounts of an instance as people write them. No I/O.

use super::check_id;
use crate::providers::named::{Address, Named, is_digits, server, word};

/// Longest name of an account: other software allows more than Mastodon's 30.
const LONGEST: usize = 64;

/// Reads an account: an id of the instance, a handle (`ann`, `@ann`, `ann@server`), or an address of the account or of one of its
/// posts, on this instance or another. Digits alone are an id. Text after `id:` is an id, too: ids of other software (Pleroma,
/// Akkoma, GoToSocial) look like handles. An error is one clause.
pub fn account_of(line: &str) -> Result<Named, String> {
    let word = word(line)?;
    if let Some(id) = word.strip_prefix("id:").or(Some(word).filter(|word| is_digits(word))) {
        return check_id(id).map(|()| Named::Id(id.to_owned()));
    }
    match Address::read(word)? {
        Some(address) => at(&address),
        None => handle(word.strip_prefix("acct:").unwrap_or(word)),
    }
}

fn handle(text: &str) -> Result<Named, String> {
    let text = text.strip_prefix('@').unwrap_or(text);
    let (name, of) = text.split_once('@').map_or((text, None), |(name, of)| (name, Some(of)));
    if !is_name(name) {
        return Err("no id, no handle (user or user@server) and no address of a profile".to_owned());
    }
    let Some(of) = of else { return Ok(Named::Handle(name.to_owned())) };
    let of = server(of).ok_or("the handle has no server's name behind its second @")?;
    Ok(Named::Handle(format!("{name}@{of}")))
}

fn is_name(text: &str) -> bool {
    let is_inner = |c: char| c.is_ascii_alphanumeric() || "_.-".contains(c);
    (1..=LONGEST).contains(&text.len())
        && text.chars().all(is_inner)
        && !text.starts_with(['.', '-'])
        && !text.ends_with(['.', '-'])
}

fn at(address: &Address) -> Result<Named, String> {
    let segments = address.segments();
    // The web client of older versions used such addresses.
    let path = if segments.first() == Some(&"web") { &segments[1..] } else { &segments[..] };
    let name = match path {
        ["users", name, ..] => name,
        ["accounts", ..] | ["ap", ..] => {
            return Err("the address has an instance's own id in it; write the id alone".to_owned());
        }
        [name, ..] if name.starts_with('@') => name.trim_start_matches('@'),
        _ => return Err("the address is no account's: it has neither /@user nor /users/user".to_owned()),
    };
    // `/@user@server` is another server's account, shown by this one.
    if name.contains('@') || !is_name(name) { handle(name) } else { handle(&format!("{name}@{}", address.host)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_account_is_an_id_a_handle_or_an_address() {
        let handle = |text: &str| Named::Handle(text.to_owned());
        for (line, of) in [
            ("109314659264330175", Named::Id("109314659264330175".to_owned())),
            ("@109314659264330175", handle("109314659264330175")),
            ("id:109314659264330175", Named::Id("109314659264330175".to_owned())),
            ("\"id:9n2ciuz1wdesFnrGJU\",ann", Named::Id("9n2ciuz1wdesFnrGJU".to_owned())),
            ("9n2ciuz1wdesFnrGJU", handle("9n2ciuz1wdesFnrGJU")),
            ("ann", handle("ann")),
            ("@Ann # a friend", handle("Ann")),
            ("ann@Social.Example", handle("ann@social.example")),
            ("@a.nn-1@social.example,x", handle("a.nn-1@social.example")),
            ("acct:ann@social.example", handle("ann@social.example")),
            ("ann@bücher.example", handle("ann@xn--bcher-kva.example")),
            ("ann@localhost:3000", handle("ann@localhost:3000")),
            ("https://social.example/@ann", handle("ann@social.example")),
            ("social.example/@ann/109314659264330175", handle("ann@social.example")),
            ("https://social.example/users/ann/statuses/1", handle("ann@social.example")),
            ("https://social.example/web/@ann@other.example", handle("ann@other.example")),
            ("https://social.example/%40ann", handle("ann@social.example")),
        ] {
            assert_eq!(account_of(line), Ok(of), "{line}");
        }
        for (line, why) in [
            ("", "no account"),
            ("a b", "white space"),
            ("@", "no id, no handle"),
            ("id:", "not one of an instance"),
            ("id:ann@a", "not one of an instance"),
            ("ann@", "no server's name"),
            ("ann@a@b", "no server's name"),
            ("\"ann@a,\";2", "no server's name"),
            (".ann", "no id, no handle"),
            ("https://social.example/", "neither /@user"),
            ("https://social.example/about", "neither /@user"),
            ("https://social.example/web/accounts/1", "the id alone"),
            ("https://social.example/@", "no id, no handle"),
            ("https://social.example/@a%20b", "no id, no handle"),
            ("https://social.example/users/@", "no id, no handle"),
        ] {
            assert!(account_of(line).unwrap_err().contains(why), "{line}: {:?}", account_of(line));
        }
    }
}
