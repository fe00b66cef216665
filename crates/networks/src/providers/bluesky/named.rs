//! Accounts of Bluesky as people write them. No I/O.

use super::account::NO_HANDLE;
use super::uri::is_did;
use crate::model::post::BadId;
use crate::providers::named::{AccountRef, Address, BadAccountRef, first_column};

/// Reads an account: a DID, a handle with or without `@`, an at-uri, or an address of the profile or of one of its posts. An error is
/// one clause.
pub fn read_account_ref(line: &str) -> Result<AccountRef, BadAccountRef> {
    let word = first_column(line)?;
    if let Some(rest) = word.strip_prefix("at://") {
        return parse_actor(rest.split('/').next().unwrap_or_default());
    }
    match Address::read(word)? {
        None => parse_actor(word),
        Some(address) => match address.segments()[..] {
            // Addresses of every client have this form, whatever the host.
            ["profile", name, ..] => parse_actor(name),
            _ => Err(BadAccountRef::Address("the address names no account: it has no /profile/HANDLE")),
        },
    }
}

fn parse_actor(text: &str) -> Result<AccountRef, BadAccountRef> {
    if text.starts_with("did:") {
        return if is_did(text) {
            Ok(AccountRef::Id(text.to_owned()))
        } else {
            Err(BadId::Form("the DID is invalid: write did:METHOD:ID").into())
        };
    }
    let handle = text.strip_prefix('@').unwrap_or(text).to_ascii_lowercase();
    if handle == NO_HANDLE {
        return Err(BadAccountRef::Handle(
            "handle.invalid is the handle of every account with an unconfirmed handle; write the DID",
        ));
    }
    if is_handle(&handle) {
        return Ok(AccountRef::Handle(handle));
    }
    Err(BadAccountRef::Handle("not a DID, a handle (a domain like ann.bsky.social) or the address of a profile"))
}

/// Returns true for a domain of ASCII labels whose last does not begin with a digit (atproto.com/specs/handle). `_` is in simulated
/// handles.
fn is_handle(text: &str) -> bool {
    let is_label = |label: &str| {
        (1..=63).contains(&label.len())
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    let last = text.rsplit('.').next().unwrap_or_default();
    text.len() <= 253
        && text.contains('.')
        && text.split('.').all(is_label)
        && !last.starts_with(|c: char| c.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    const DID: &str = "did:plc:z72i7hdynmk6r22z27h6tvur";

    #[test]
    fn an_account_is_a_did_a_handle_or_an_address() {
        let (id, handle) = (AccountRef::Id(DID.to_owned()), AccountRef::Handle("ann.bsky.social".to_owned()));
        for line in [
            DID.to_owned(),
            format!("at://{DID}"),
            format!("at://{DID}/app.bsky.feed.post/3l6oveex3ii2l"),
            format!("https://bsky.app/profile/{DID}/post/3l6oveex3ii2l"),
            format!("https://bsky.app/profile/{}", DID.replace(':', "%3A")),
            format!("\"{DID}\", ann"),
        ] {
            assert_eq!(read_account_ref(&line), Ok(id.clone()), "{line}");
        }
        for line in [
            "ann.bsky.social",
            "@Ann.bsky.social",
            "at://ann.bsky.social",
            "https://bsky.app/profile/ann.bsky.social",
            "bsky.app/profile/ann.bsky.social/post/3l6oveex3ii2l",
        ] {
            assert_eq!(read_account_ref(line), Ok(handle.clone()), "{line}");
        }
        for (line, why) in [
            ("ann", "a domain like"),
            ("12", "a domain like"),
            ("1.2.3.4", "a domain like"),
            ("-a.bsky.social", "a domain like"),
            ("a..social", "a domain like"),
            ("handle.invalid", "write the DID"),
            ("did:plc", "did:METHOD:ID"),
            ("at://", "a domain like"),
            ("https://bsky.app/", "no /profile"),
            ("https://bsky.app/search", "no /profile"),
        ] {
            assert!(
                read_account_ref(line).unwrap_err().to_string().contains(why),
                "{line}: {:?}",
                read_account_ref(line)
            );
        }
    }
}
