//! Accounts of an instance as people write them. No I/O.

use super::check_id;
use crate::providers::named::{AccountRef, Address, BadAccountRef, first_column, is_digits, server_name};

/// Longest name of an account: other software allows more than Mastodon's 30.
const LONGEST: usize = 64;

/// Reads an account: an id of the instance, a handle (`ann`, `@ann`, `ann@server`), or an address of the account or of one of its
/// posts. Digits, and text after `id:`, are an id: ids of other software (Pleroma, GoToSocial) look like handles. An error is one clause.
pub fn read_account_ref(line: &str) -> Result<AccountRef, BadAccountRef> {
    let word = first_column(line)?;
    if let Some(id) = word.strip_prefix("id:").or(Some(word).filter(|word| is_digits(word))) {
        check_id(id)?;
        return Ok(AccountRef::Id(id.to_owned()));
    }
    match Address::read(word)? {
        Some(address) => read_address(&address),
        None => parse_handle(word.strip_prefix("acct:").unwrap_or(word)),
    }
}

fn parse_handle(text: &str) -> Result<AccountRef, BadAccountRef> {
    let text = text.strip_prefix('@').unwrap_or(text);
    let (name, of) = text.split_once('@').map_or((text, None), |(name, of)| (name, Some(of)));
    if !is_name(name) {
        let why = "not an id, a handle (user or user@server) or the address of a profile";
        return Err(BadAccountRef::Handle(why));
    }
    let Some(of) = of else { return Ok(AccountRef::Handle(name.to_owned())) };
    let of = server_name(of).ok_or(BadAccountRef::Handle("the handle has no server's name after its second @"))?;
    Ok(AccountRef::Handle(format!("{name}@{of}")))
}

fn is_name(text: &str) -> bool {
    let is_inner = |c: char| c.is_ascii_alphanumeric() || "_.-".contains(c);
    (1..=LONGEST).contains(&text.len())
        && text.chars().all(is_inner)
        && !text.starts_with(['.', '-'])
        && !text.ends_with(['.', '-'])
}

fn read_address(address: &Address) -> Result<AccountRef, BadAccountRef> {
    let segments = address.segments();
    // The web client of older versions used such addresses.
    let path = if segments.first() == Some(&"web") { &segments[1..] } else { &segments[..] };
    let name = match path {
        ["users", name, ..] => name,
        ["accounts", ..] | ["ap", ..] => {
            return Err(BadAccountRef::Address("the address contains an id of the instance; write the id alone"));
        }
        [name, ..] if name.starts_with('@') => name.trim_start_matches('@'),
        _ => {
            let why = "the address names no account: it has neither /@user nor /users/user";
            return Err(BadAccountRef::Address(why));
        }
    };
    // `/@user@server` is another server's account, shown by this one.
    if name.contains('@') || !is_name(name) {
        parse_handle(name)
    } else {
        parse_handle(&format!("{name}@{}", address.host))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_account_is_an_id_a_handle_or_an_address() {
        let handle = |text: &str| AccountRef::Handle(text.to_owned());
        for (line, of) in [
            ("109314659264330175", AccountRef::Id("109314659264330175".to_owned())),
            ("@109314659264330175", handle("109314659264330175")),
            ("id:109314659264330175", AccountRef::Id("109314659264330175".to_owned())),
            ("\"id:9n2ciuz1wdesFnrGJU\",ann", AccountRef::Id("9n2ciuz1wdesFnrGJU".to_owned())),
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
            assert_eq!(read_account_ref(line), Ok(of), "{line}");
        }
        for (line, why) in [
            ("", "no account"),
            ("a b", "white space"),
            ("@", "not an id, a handle"),
            ("id:", "not one of an instance"),
            ("id:ann@a", "not one of an instance"),
            ("ann@", "no server's name"),
            ("ann@a@b", "no server's name"),
            ("\"ann@a,\";2", "no server's name"),
            (".ann", "not an id, a handle"),
            ("https://social.example/", "neither /@user"),
            ("https://social.example/about", "neither /@user"),
            ("https://social.example/web/accounts/1", "the id alone"),
            ("https://social.example/@", "not an id, a handle"),
            ("https://social.example/@a%20b", "not an id, a handle"),
            ("https://social.example/users/@", "not an id, a handle"),
        ] {
            assert!(
                read_account_ref(line).unwrap_err().to_string().contains(why),
                "{line}: {:?}",
                read_account_ref(line)
            );
        }
    }
}
