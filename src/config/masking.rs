//! Addresses without the passwords in them.

use secrecy::{ExposeSecret, SecretString};
use serde::Serializer;

use crate::base::backend::redis::address::Parts;

/// The replacement for a password.
const MASK: &str = "***";
/// The replacement for a whole secret.
const SET: &str = "(set)";
const NOT_SET: &str = "(not set)";
const NOT_AN_ADDRESS: &str = "(not an address)";

/// Why an endpoint of a media store cannot be used: it is not repeated.
pub(super) const NO_ENDPOINT: &str =
    "media.s3.endpoint cannot be used: write it like https://s3.example.org, without user and password";

/// Returns true if a value is shown without its secret part.
pub(super) fn is_masked(shown: &str) -> bool {
    [SET, NOT_AN_ADDRESS].contains(&shown) || shown.contains(MASK)
}

/// The parameters of addresses of PostgreSQL and Redis that are shown. Any other one may be a misspelled password.
const SHOWN: &[&str] = &[
    "application_name",
    "db",
    "dbname",
    "host",
    "hostaddr",
    "port",
    "protocol",
    "sentinel_user",
    "ssl-ca",
    "ssl-cert",
    "ssl-key",
    "ssl-mode",
    "ssl-root-cert",
    "sslcert",
    "sslkey",
    "sslmode",
    "sslrootcert",
    "statement-cache-capacity",
    "user",
];

fn is_shown(parameter: &str) -> bool {
    SHOWN.contains(&parameter)
}

/// An address without its passwords; what is none is not shown at all.
#[must_use]
pub fn masked(url: &str) -> String {
    masked_if_address(url).unwrap_or_else(|| NOT_AN_ADDRESS.to_owned())
}

fn masked_if_address(url: &str) -> Option<String> {
    let Parts { scheme, user, hosts, path, query } = Parts::of(url)?;
    // Several hosts are more than an address may have: it is looked at with its first.
    let (first, others) = hosts.split_once(',').unwrap_or((hosts, ""));
    if [path, query].iter().any(|rest| rest.contains('@')) {
        return None; // a password with a slash: what looks like a host, or hosts, is a part of it
    }
    let mut url = reqwest::Url::parse(&format!("{scheme}://{user}{first}{path}{query}")).ok()?;
    if url.password().is_some() {
        // Refused only for addresses that cannot have a password, which then have none.
        let _ = url.set_password(Some(MASK));
    }
    let pairs: Vec<(String, String)> = url.query_pairs().into_owned().collect();
    if !pairs.iter().all(|(key, _)| is_shown(key)) {
        let shown = pairs.into_iter().map(|(key, value)| {
            let value = if is_shown(&key) { value } else { MASK.to_owned() };
            (key, value)
        });
        url.query_pairs_mut().clear().extend_pairs(shown);
    }
    if others.is_empty() {
        return Some(url.to_string());
    }
    let Parts { scheme, user, hosts, path, query } = Parts::of(url.as_str())?;
    Some(format!("{scheme}://{user}{hosts},{others}{path}{query}"))
}

pub(super) fn masked_url<S: Serializer>(url: &SecretString, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&masked(url.expose_secret()))
}

/// An address that may have neither user nor password: as it was written, unless it may have one all the same.
pub(super) fn masked_address<S: Serializer>(url: &str, serializer: S) -> Result<S::Ok, S::Error> {
    if url.contains(['@', '?']) { serializer.serialize_str(&masked(url)) } else { serializer.serialize_str(url) }
}

/// Says of a secret only whether it is there.
pub(super) fn masked_secret<S: Serializer>(secret: &Option<SecretString>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(if secret.is_some() { SET } else { NOT_SET })
}
