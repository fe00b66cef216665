//! A credential: its name, and its secret part, which is never shown.

use std::fmt;

use ring::hmac;
use secrecy::{ExposeSecret, SecretString};
use serde::Serialize;

use super::app_token::AppToken;
use super::oauth1::UserKeys;

/// A credential for an API. `Debug` prints only its name and kind, never the secret.
pub struct Credential {
    pub name: String,
    pub kind: CredentialKind,
}

pub enum CredentialKind {
    /// A user's keys. Every request is signed (OAuth 1.0a).
    User(UserKeys),
    /// App-only: a bearer token is fetched with the application's keys.
    App(AppToken),
    /// App-only with a given token: sent as `Authorization: Bearer …`.
    Bearer(SecretString),
    /// None: for a simulator or an emulator that needs none.
    Anonymous,
}

/// Bytes of a fingerprint: enough to distinguish secrets, and too few to find one.
const FINGERPRINT_BYTES: usize = 4;

impl Credential {
    /// Fingerprint of its secret parts; empty without a secret. It does not reveal them: many secrets have the same fingerprint.
    #[must_use]
    pub fn fingerprint(&self) -> String {
        let parts: &[&SecretString] = match &self.kind {
            CredentialKind::User(keys) => &[&keys.consumer_key, &keys.consumer_secret, &keys.token, &keys.token_secret],
            CredentialKind::App(app) => &[&app.consumer_key, &app.consumer_secret],
            CredentialKind::Bearer(token) => &[token],
            CredentialKind::Anonymous => return String::new(),
        };
        let key = hmac::Key::new(hmac::HMAC_SHA256, b"twitter-updater: fingerprint of a credential");
        let mut hashed = hmac::Context::with_key(&key);
        for part in parts {
            let part = part.expose_secret().as_bytes();
            hashed.update(&(part.len() as u64).to_be_bytes());
            hashed.update(part);
        }
        hashed.sign().as_ref().iter().take(FINGERPRINT_BYTES).map(|byte| format!("{byte:02x}")).collect()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Caller {
    User,
    AppOnly,
    Anonymous,
}

impl fmt::Display for Caller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::User => "user",
            Self::AppOnly => "app-only",
            Self::Anonymous => "anonymous",
        })
    }
}

impl fmt::Debug for CredentialKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::User(_) => "user",
            Self::App(_) => "app",
            Self::Bearer(_) => "bearer",
            Self::Anonymous => "anonymous",
        })
    }
}

impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credential").field("name", &self.name).field("kind", &self.kind).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fingerprint_changes_with_each_part_of_the_secret_alone() {
        let of = |name: &str, kind| Credential { name: name.into(), kind }.fingerprint();
        let bearer = |token: &str| CredentialKind::Bearer(token.into());
        let one = of("a", bearer("secret"));
        assert_eq!((one.len(), &of("b", bearer("secret"))), (8, &one));
        assert_ne!(of("a", bearer("secret ")), one);
        let user = |parts: [&str; 4]| {
            let [consumer_key, consumer_secret, token, token_secret] = parts.map(SecretString::from);
            of("a", CredentialKind::User(UserKeys { consumer_key, consumer_secret, token, token_secret }))
        };
        let app = |key: &str, secret: &str| of("a", CredentialKind::App(AppToken::new(key.into(), secret.into())));
        let mut all = vec![user(["k", "s", "t", "u"]), app("k", "s"), app("ks", ""), app("", "ks"), String::new()];
        all.extend([["K", "s", "t", "u"], ["k", "S", "t", "u"], ["k", "s", "T", "u"], ["k", "s", "t", "U"]].map(user));
        all.sort();
        all.dedup();
        assert_eq!(all.len(), 9, "{all:?}");
        assert_eq!(of("anonymous", CredentialKind::Anonymous), "");
    }

    #[test]
    fn a_secret_is_not_printed() {
        let canary = || SecretString::from("canary");
        let keys =
            || UserKeys { consumer_key: canary(), consumer_secret: canary(), token: canary(), token_secret: canary() };
        for (kind, name) in [
            (CredentialKind::User(keys()), "user"),
            (CredentialKind::App(AppToken::new(canary(), canary())), "app"),
            (CredentialKind::Bearer(canary()), "bearer"),
        ] {
            let printed = format!("{:?}", Credential { name: "a".into(), kind });
            assert!(printed.contains(name) && !printed.contains("canary"), "{printed}");
        }
        assert!(!format!("{:?} {:?}", keys(), AppToken::new(canary(), canary())).contains("canary"));
    }
}
