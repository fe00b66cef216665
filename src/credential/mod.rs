//! Who is asking: credentials, and the leave to make a call.
//!
//! A worker takes a [`Permit`] before it claims, so no id waits inside a worker for quota.

mod ledger;

use std::fmt;

use secrecy::SecretString;

pub use self::ledger::{Leave, Ledger, Permit, Window};

/// A credential for an API. Its secret shows nowhere: `Debug` prints the name alone.
pub struct Credential {
    /// The name it has in settings, logs and the quota ledger.
    pub name: String,
    /// The secret part.
    pub kind: CredentialKind,
}

/// What a credential is made of.
pub enum CredentialKind {
    /// App-only: sent as `Authorization: Bearer …`.
    Bearer(SecretString),
    /// None: for a simulator or an emulator that asks for none.
    Anonymous,
}

impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            CredentialKind::Bearer(_) => "bearer",
            CredentialKind::Anonymous => "anonymous",
        };
        f.debug_struct("Credential").field("name", &self.name).field("kind", &kind).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_not_printed() {
        let credential = Credential { name: "a".into(), kind: CredentialKind::Bearer("canary".into()) };
        assert!(!format!("{credential:?}").contains("canary"));
    }
}
