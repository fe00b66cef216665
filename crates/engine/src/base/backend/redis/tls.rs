//! Certificates for `rediss…`: private authorities, and client certificates for servers that require them.

use std::path::{Path, PathBuf};

use redis::{Client, ClientTlsConfig, ConnectionInfo, RedisResult, TlsCertificates};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// Settings of TLS that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadTls {
    /// The setting, its file, and a clause about the file.
    #[error("queue.redis.{setting}: {} {why}", .path.display())]
    File { setting: &'static str, path: PathBuf, why: String },
    #[error("queue.redis.cert_file and queue.redis.key_file go together: give both or none")]
    Incomplete,
}

impl BadTls {
    fn file(setting: &'static str, path: &Path, why: impl Into<String>) -> Self {
        Self::File { setting, path: path.to_owned(), why: why.into() }
    }
}

/// Certificates from files, if any. Their content is never shown.
#[derive(Debug, Clone, Default)]
pub struct Tls {
    certificates: Option<TlsCertificates>,
}

impl Tls {
    /// Reads `queue.redis.ca_file`, `cert_file` and `key_file`; an empty path means no file.
    pub fn read(ca: &Path, cert: &Path, key: &Path) -> Result<Self, BadTls> {
        let root_cert = read_file("ca_file", ca)?;
        if let Some(pem) = &root_cert {
            let mut roots = rustls::RootCertStore::empty();
            for root in parse_certificates("ca_file", ca, pem)? {
                let refused = |error| BadTls::file("ca_file", ca, format!("cannot be trusted: {error}"));
                roots.add(root).map_err(refused)?;
            }
        }
        let client_tls = match (read_file("cert_file", cert)?, read_file("key_file", key)?) {
            (None, None) => None,
            (Some(client_cert), Some(client_key)) => {
                parse_certificates("cert_file", cert, &client_cert)?;
                let no_key = |_| BadTls::file("key_file", key, "holds no private key in PEM");
                PrivateKeyDer::from_pem_slice(&client_key).map_err(no_key)?;
                Some(ClientTlsConfig { client_cert, client_key })
            }
            _ => return Err(BadTls::Incomplete),
        };
        let any = root_cert.is_some() || client_tls.is_some();
        Ok(Self { certificates: any.then_some(TlsCertificates { client_tls, root_cert }) })
    }

    pub(super) fn certificates(&self) -> Option<&TlsCertificates> {
        self.certificates.as_ref()
    }

    pub(super) fn apply_to(&self, server: ConnectionInfo) -> RedisResult<ConnectionInfo> {
        match &self.certificates {
            Some(certificates) => {
                Ok(Client::build_with_tls(server, certificates.clone())?.get_connection_info().clone())
            }
            None => Ok(server),
        }
    }
}

fn read_file(setting: &'static str, path: &Path) -> Result<Option<Vec<u8>>, BadTls> {
    if path.as_os_str().is_empty() {
        return Ok(None);
    }
    let unreadable = |error| BadTls::file(setting, path, format!("cannot be read: {error}"));
    std::fs::read(path).map(Some).map_err(unreadable)
}

fn parse_certificates(setting: &'static str, path: &Path, pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, BadTls> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    match found {
        Ok(found) if !found.is_empty() => Ok(found),
        _ => Err(BadTls::file(setting, path, "holds no certificate in PEM")),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn a_file_that_cannot_serve_is_named_with_its_setting() {
        let none = Path::new("");
        assert!(Tls::read(none, none, none).unwrap().certificates().is_none());
        let mut other = tempfile::NamedTempFile::new().unwrap();
        other.write_all(b"canary").unwrap();
        let (other, missing) = (other.path(), Path::new("/nowhere/file"));
        for (ca, cert, key, says) in [
            (missing, none, none, "queue.redis.ca_file: /nowhere/file cannot be read"),
            (other, none, none, "holds no certificate"),
            (none, other, none, "go together"),
            (none, none, other, "go together"),
            (none, other, other, "queue.redis.cert_file"),
        ] {
            let why = Tls::read(ca, cert, key).unwrap_err().to_string();
            assert!(why.contains(says) && !why.contains("canary"), "{why}");
        }
    }
}
