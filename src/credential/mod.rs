//! Who is asking: credentials and the leave to make a call.

use std::fmt;

use secrecy::SecretString;

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
