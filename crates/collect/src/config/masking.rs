//! Addresses without their passwords.

use percent_encoding::percent_decode_str;
use secrecy::{ExposeSecret, SecretString};
use serde::Serializer;

use engine::base::backend::redis::address::AddressParts;

const MASK: &str = "***";
const SET: &str = "(set)";
const NOT_SET: &str = "(not set)";
const NOT_AN_ADDRESS: &str = "(not an address)";

/// Error for an endpoint of a media store; it does not repeat the endpoint.
pub(super) const NO_ENDPOINT: &str =
    "media.s3.endpoint cannot be used: write it like https://s3.example.org, without user and password";

/// Returns true if the secret part of the value is masked.
pub(super) fn is_masked(shown: &str) -> bool {
    [SET, NOT_AN_ADDRESS].contains(&shown) || shown.contains(MASK)
}

/// Shown parameters of PostgreSQL and Redis addresses. Another one may be a misspelled password.
const SHOWN_PARAMETERS: &[&str] = &[
    "application_name",
    "db",
    "dbname",
    "host",
    "hostaddr",
    "port",
    "protocol",
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
];

/// Removes user, password and unknown parameters from an address. Hides a text that is not an address.
#[must_use]
pub fn masked(url: &str) -> String {
    masked_if_address(url).unwrap_or_else(|| NOT_AN_ADDRESS.to_owned())
}

fn masked_if_address(url: &str) -> Option<String> {
    let AddressParts { scheme, user, hosts, path, query } = AddressParts::parse(url)?;
    // Several hosts are not a valid URL: check it with the first host only.
    let (first, others) = hosts.split_once(',').unwrap_or((hosts, ""));
    let sound = reqwest::Url::parse(&format!("{scheme}://{user}{first}{path}{query}")).ok()?;
    // A password with a slash or an encoded `@` makes part of it look like a host, a path or a parameter.
    let holds_login = |part: &str| percent_decode_str(part).any(|byte| byte == b'@');
    if [hosts, path, query].into_iter().any(holds_login) {
        return None;
    }
    // A text in place of several hosts may be a password without its `@`.
    let is_host = |host: &str| reqwest::Url::parse(&format!("{scheme}://{host}")).is_ok();
    if !others.is_empty() && !others.split(',').all(is_host) {
        return None;
    }
    let mut shown = format!("{scheme}://");
    if !user.is_empty() {
        shown += MASK;
        shown.push('@');
    }
    shown.extend([hosts, path]);
    let mut parameters = sound.clone();
    parameters.set_query(None);
    for (key, value) in sound.query_pairs() {
        let mut written = parameters.query_pairs_mut();
        match (SHOWN_PARAMETERS.contains(&&*key), value.is_empty()) {
            (true, _) => written.append_pair(&key, &value),
            (false, false) => written.append_pair(&key, MASK),
            // A parameter without a value may be part of a password.
            (false, true) => written.append_key_only(MASK),
        };
    }
    if let Some(parameters) = parameters.query() {
        shown.extend(["?", parameters]);
    }
    if sound.fragment().is_some() {
        shown.extend(["#", MASK]);
    }
    Some(shown)
}

pub(super) fn masked_url<S: Serializer>(url: &SecretString, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&masked(url.expose_secret()))
}

/// Masks the secrets of a URL; an empty URL stays empty.
pub(super) fn masked_url_or_none<S: Serializer>(url: &SecretString, serializer: S) -> Result<S::Ok, S::Error> {
    if url.expose_secret().is_empty() { serializer.serialize_str("") } else { masked_url(url, serializer) }
}

/// Masks an HTTP address, which may have a user and a password by mistake.
pub(super) fn masked_address<S: Serializer>(url: &str, serializer: S) -> Result<S::Ok, S::Error> {
    if url.is_empty() { serializer.serialize_str(url) } else { serializer.serialize_str(&masked(url)) }
}

/// Shows only if a secret is set.
pub(super) fn masked_secret<S: Serializer>(secret: &Option<SecretString>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(if secret.is_some() { SET } else { NOT_SET })
}
