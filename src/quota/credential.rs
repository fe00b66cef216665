//! A credential: its name, and the secret part that shows nowhere.

use std::fmt;

use secrecy::SecretString;
use serde::Serialize;

use super::app_token::AppToken;
use super::oauth1::UserKeys;

/// A credential for an API. Its secret shows nowhere: `Debug` prints the name and the kind alone.
pub struct Credential {
    /// The name it has in settings, logs and the quota ledger.
    pub name: String,
    /// The secret part.
    pub kind: CredentialKind,
}

/// The parts of a credential.
pub enum CredentialKind {
    /// A user's: every request is signed, OAuth 1.0a.
    User(UserKeys),
    /// App-only: a bearer token that is fetched with the application's keys.
    App(AppToken),
    /// App-only, the token given: sent as `Authorization: Bearer …`.
    Bearer(SecretString),
    /// None: for a simulator or an emulator that asks for none.
    Anonymous,
}

/// As whom a credential calls: an API counts the calls of users and of applications apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Caller {
    /// As a user.
    User,
    /// As an application alone.
    AppOnly,
    /// Anonymous calls.
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
