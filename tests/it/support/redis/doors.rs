//! How a server lets clients in: by a password, by TLS with certificates of a private authority, by both.

use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, ClientTlsConfig, RedisResult, TlsCertificates};
use tempfile::TempDir;
use twitter_updater::base::backend::redis::Tls;

/// No password and no TLS, unless it says so.
#[derive(Clone, Default)]
pub struct Doors {
    password: Option<&'static str>,
    certificates: Option<Arc<Certificates>>,
}

impl Doors {
    /// Who knows that word comes in.
    pub fn with_password(self, password: &'static str) -> Self {
        Self { password: Some(password), ..self }
    }

    /// Who has a certificate of the authority comes in, and may trust the server.
    pub fn with_tls(self) -> Self {
        Self { certificates: Some(Arc::new(Certificates::new())), ..self }
    }

    /// The words for redis-server to listen at that port of the loopback.
    pub fn listen(&self, port: u16) -> Vec<String> {
        let port = port.to_string();
        let mut words = match &self.certificates {
            None => ["--bind", "127.0.0.1", "--port", &port].map(str::to_owned).to_vec(),
            Some(certificates) => {
                let own = ["--bind", "127.0.0.1", "--port", "0", "--tls-port", &port];
                let group = ["--tls-replication", "yes", "--tls-cluster", "yes"];
                let files = certificates.settings().into_iter().flat_map(|(name, file)| [format!("--{name}"), file]);
                own.into_iter().chain(group).map(str::to_owned).chain(files).collect()
            }
        };
        if let Some(password) = self.password {
            words.extend(["--requirepass", password, "--masterauth", password].map(str::to_owned));
        }
        words
    }

    /// The lines of a Sentinel's file to listen at that port, and to come in at the servers of `tweets`.
    pub fn sentinel(&self, port: u16) -> String {
        let mut lines = match &self.certificates {
            None => format!("port {port}\n"),
            Some(certificates) => {
                let own = format!("port 0\ntls-port {port}\ntls-replication yes\n");
                certificates.settings().into_iter().fold(own, |lines, (name, file)| format!("{lines}{name} {file}\n"))
            }
        };
        if let (Some(password), Some(own)) = (self.password, self.sentinels_password()) {
            lines +=
                &format!("requirepass {own}\nsentinel sentinel-pass {own}\nsentinel auth-pass tweets {password}\n");
        }
        lines
    }

    /// What Sentinels want to hear, which is another word than the servers'.
    pub fn sentinels_password(&self) -> Option<String> {
        self.password.map(|password| format!("{password}-of-the-sentinels"))
    }

    /// The words for redis-cli.
    pub fn redis_cli(&self) -> Vec<String> {
        let mut words: Vec<String> = Vec::new();
        if let Some(Certificates { folder }) = self.certificates.as_deref() {
            let file = |name: &str| folder.path().join(name).display().to_string();
            let files = [("--cacert", "ca.pem"), ("--cert", "leaf.pem"), ("--key", "leaf.key")];
            words.push("--tls".to_owned());
            words.extend(files.into_iter().flat_map(|(word, name)| [word.to_owned(), file(name)]));
        }
        if let Some(password) = self.password {
            words.extend(["--no-auth-warning", "-a", password].map(str::to_owned));
        }
        words
    }

    /// The address of hosts of that kind: "", "+sentinel", "+cluster".
    pub fn url(&self, kind: &str, hosts: &str) -> String {
        self.url_as(kind, &self.password.map(|password| format!(":{password}@")).unwrap_or_default(), hosts)
    }

    /// The same with these words in place of the servers' password.
    pub fn url_as(&self, kind: &str, user: &str, hosts: &str) -> String {
        format!("redis{}{kind}://{user}{hosts}", if self.certificates.is_some() { "s" } else { "" })
    }

    /// What the settings for the certificates have to name.
    pub fn settings(&self) -> Vec<(&'static str, String)> {
        let Some(Certificates { folder }) = self.certificates.as_deref() else { return Vec::new() };
        [("ca_file", "ca.pem"), ("cert_file", "leaf.pem"), ("key_file", "leaf.key")]
            .map(|(setting, name)| (setting, folder.path().join(name).display().to_string()))
            .to_vec()
    }

    /// The certificates as the product reads them.
    pub fn tls(&self) -> Tls {
        let files = self.settings();
        let file = |at: usize| files.get(at).map(|(_, file)| file.as_str()).unwrap_or_default();
        Tls::read(file(0).as_ref(), file(1).as_ref(), file(2).as_ref()).unwrap()
    }

    /// A plain connection, which waits while the server's disk is busy: the client's own patience is half a second.
    pub async fn connect(&self, url: &str) -> RedisResult<MultiplexedConnection> {
        let client = match &self.certificates {
            None => redis::Client::open(url)?,
            Some(certificates) => redis::Client::build_with_tls(url, certificates.for_a_client())?,
        };
        let patience = Some(Duration::from_secs(20));
        let patient = AsyncConnectionConfig::new().set_connection_timeout(patience).set_response_timeout(patience);
        client.get_multiplexed_async_connection_with_config(&patient).await
    }
}

/// An authority of its own, and a certificate of it for the loopback: for servers and for clients.
pub struct Certificates {
    folder: TempDir,
}

impl Certificates {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let settings = "[req]\ndistinguished_name = name\nprompt = no\n[name]\nCN = a test\n\
            [ca]\nbasicConstraints = critical, CA:TRUE\nkeyUsage = critical, keyCertSign\nsubjectKeyIdentifier = hash\n\
            [leaf]\nbasicConstraints = critical, CA:FALSE\nsubjectAltName = IP:127.0.0.1\n\
            extendedKeyUsage = serverAuth, clientAuth\n";
        std::fs::write(folder.path().join("settings"), settings).unwrap();
        let make = |extensions: &str, name: &str, more: &[&str]| {
            let mut openssl = Command::new("openssl");
            openssl.current_dir(folder.path()).args(["req", "-x509", "-config", "settings", "-nodes", "-days", "2"]);
            openssl.args(["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-extensions", extensions]);
            openssl.args(["-out", &format!("{name}.pem"), "-keyout", &format!("{name}.key")]).args(more);
            let made = openssl.output().expect("openssl is installed");
            assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        };
        make("ca", "ca", &["-subj", "/CN=an authority"]);
        make("leaf", "leaf", &["-subj", "/CN=a server", "-CA", "ca.pem", "-CAkey", "ca.key"]);
        Self { folder }
    }

    fn read(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.folder.path().join(name)).unwrap()
    }

    fn for_a_client(&self) -> TlsCertificates {
        let client_tls = ClientTlsConfig { client_cert: self.read("leaf.pem"), client_key: self.read("leaf.key") };
        TlsCertificates { client_tls: Some(client_tls), root_cert: Some(self.read("ca.pem")) }
    }

    /// A server's settings.
    fn settings(&self) -> Vec<(&'static str, String)> {
        let file = |name: &str| self.folder.path().join(name).display().to_string();
        let files = [("tls-ca-cert-file", "ca.pem"), ("tls-cert-file", "leaf.pem"), ("tls-key-file", "leaf.key")];
        let mut settings: Vec<_> = files.into_iter().map(|(setting, name)| (setting, file(name))).collect();
        settings.push(("tls-auth-clients", "yes".to_owned()));
        settings
    }
}
