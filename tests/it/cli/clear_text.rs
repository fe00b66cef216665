//! Passwords and tokens, over sockets: a server that answers and is not verified gets none, unless the settings say so.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::{Arc, Mutex};

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

use super::*;
use crate::support::process::Process;
use crate::support::redis::Doors;
use crate::support::wait::until_true;

const SECRET: &str = "canary-of-clear-text";
const PATIENCE: Duration = Duration::from_secs(60);
/// What a client of PostgreSQL sends to ask for TLS.
const SSL_REQUEST: [u8; 8] = [0, 0, 0, 8, 4, 210, 22, 47];
/// The version in a startup message.
const STARTUP: [u8; 4] = [0, 3, 0, 0];
/// "Send your password in clear text."
const ASKS_FOR_PASSWORD: [u8; 9] = [b'R', 0, 0, 0, 8, 0, 0, 0, 3];
const END: &[u8] = b"the end";

/// A server that takes one connection after another, asks clients of PostgreSQL for their passwords, and records all bytes.
struct Thief {
    port: u16,
    heard: Arc<Mutex<Vec<u8>>>,
}

impl Thief {
    /// With TLS it has the certificate of an authority that nobody trusts.
    fn start(tls: bool) -> Self {
        let listener = TcpListener::bind("0.0.0.0:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let heard = Arc::<Mutex<Vec<u8>>>::default();
        let (record, tls) = (heard.clone(), tls.then(server_config));
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                serve(stream.unwrap(), &record, tls.as_ref());
            }
        });
        Self { port, heard }
    }

    fn heard(&self, word: &[u8]) -> bool {
        holds(&self.heard.lock().unwrap(), word)
    }

    /// Takes all that was sent to it before.
    async fn take(&self) -> Vec<u8> {
        TcpStream::connect(("127.0.0.1", self.port)).unwrap().write_all(END).unwrap();
        // It reads one connection after the other, to its end.
        until_true("the last connection is read", PATIENCE, async || self.heard(END)).await;
        let mut heard = std::mem::take(&mut *self.heard.lock().unwrap());
        heard.truncate(heard.len() - END.len());
        heard
    }
}

fn holds(bytes: &[u8], word: &[u8]) -> bool {
    bytes.windows(word.len()).any(|part| part == word)
}

fn serve(mut stream: TcpStream, record: &Mutex<Vec<u8>>, tls: Option<&Arc<ServerConfig>>) {
    let read = hear(&mut stream, record);
    if read != SSL_REQUEST {
        return answer(stream, read, record);
    }
    let Some(tls) = tls else {
        drop(stream.write_all(b"N"));
        let read = hear(&mut stream, record);
        return answer(stream, read, record);
    };
    drop(stream.write_all(b"S"));
    let mut stream = StreamOwned::new(ServerConnection::new(tls.clone()).unwrap(), stream);
    let read = hear(&mut stream, record);
    answer(stream, read, record);
}

/// Asks a client of PostgreSQL for its password; any other is left alone.
fn answer(mut stream: impl Read + Write, read: Vec<u8>, record: &Mutex<Vec<u8>>) {
    if read.get(4..8) == Some(&STARTUP) && stream.write_all(&ASKS_FOR_PASSWORD).and_then(|()| stream.flush()).is_ok() {
        hear(&mut stream, record);
    }
}

fn hear(stream: &mut impl Read, record: &Mutex<Vec<u8>>) -> Vec<u8> {
    let mut bytes = vec![0; 16_384];
    // A client that gives up in the middle has said nothing.
    let read = stream.read(&mut bytes).unwrap_or(0);
    bytes.truncate(read);
    record.lock().unwrap().extend(&bytes);
    bytes
}

fn server_config() -> Arc<ServerConfig> {
    drop(rustls::crypto::ring::default_provider().install_default());
    let doors = Doors::default().with_tls();
    let file = |setting: &str| doors.settings().into_iter().find(|(name, _)| *name == setting).unwrap().1;
    let certificate = CertificateDer::from_pem_file(file("cert_file")).unwrap();
    let key = PrivateKeyDer::from_pem_file(file("key_file")).unwrap();
    Arc::new(ServerConfig::builder().with_no_client_auth().with_single_cert(vec![certificate], key).unwrap())
}

/// An address of this machine that is not the loopback's: that of its network, or else its name.
fn own_address() -> String {
    let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
    // Nothing is sent: the system only chooses the address.
    let chosen = socket.connect("192.0.2.1:9").and_then(|()| socket.local_addr());
    chosen.map_or_else(
        |_| std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap().trim().to_owned(),
        |chosen: SocketAddr| chosen.ip().to_string(),
    )
}

fn postgres(home: &Home, url: &str, environment: &[(&str, &str)]) -> Variables {
    let mut settings =
        home.settings(&[("store.backend", "postgres"), ("store.postgres.url", url), ("log.level", "error")]);
    settings.extend(environment.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
    settings
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_postgresql_that_is_not_verified_gets_no_password() {
    let (home, host) = (Home::new(), own_address());
    for tls in [false, true] {
        let thief = Thief::start(tls);
        let port = thief.port.to_string();
        let of_environment =
            [("PGHOST", &*host), ("PGPORT", &port), ("PGUSER", "u"), ("PGPASSWORD", SECRET), ("PGSSLMODE", "prefer")];
        for (url, environment) in [
            (format!("postgres://u:{SECRET}@{host}:{port}/tweets"), &[][..]),
            (format!("postgres:///tweets?host={host}&port={port}&user=u&password={SECRET}"), &[]),
            (format!("postgres://localhost:{port}/tweets?hostaddr={host}&user=u&password={SECRET}"), &[]),
            (format!("postgres://u:{SECRET}@{host}:{port}/tweets?sslmode=verify-full"), &[]),
            (format!("postgres://u@{host}:{port}/tweets"), &[("PGPASSWORD", SECRET)]),
            ("postgres:///tweets".to_owned(), &of_environment),
        ] {
            for arguments in [&["migrate"][..], &["updater"], &["enqueue"]] {
                let output = run(arguments, &postgres(&home, &url, environment));
                says_one_line(&output, 69, "the server gets no password, since it is not verified");
                assert!(text(&output.stderr).contains("sslrootcert=FILE"), "{}", text(&output.stderr));
            }
        }
        let heard = thief.take().await;
        assert!(holds(&heard, &SSL_REQUEST) && !holds(&heard, SECRET.as_bytes()), "tls: {tls}");
        let encrypted = if tls { "127.0.0.1" } else { &host };
        let mode = if tls { "require" } else { "disable" };
        // The server would have got it: plainly where the address says so, and on this machine in any mode.
        let url = format!("postgres://u:{SECRET}@{encrypted}:{port}/tweets?sslmode={mode}");
        assert_eq!(run(&["migrate"], &postgres(&home, &url, &[])).status.code(), Some(69));
        assert!(holds(&thief.take().await, SECRET.as_bytes()), "tls: {tls}");
    }
    let thief = Thief::start(false);
    let url = format!("postgres://u:{SECRET}@127.0.0.1:{}/tweets", thief.port);
    assert_eq!(run(&["migrate"], &postgres(&home, &url, &[])).status.code(), Some(69));
    assert!(holds(&thief.take().await, SECRET.as_bytes()), "this machine is not asked for a certificate");
}

const ROLES: [&[&str]; 8] =
    [&["check"], &["migrate"], &["status"], &["enqueue"], &["rebuild"], &["updater"], &["starter"], &["ops"]];

/// Every role ends with that line, and the server hears nothing.
async fn refuses(thief: &Thief, settings: &Variables, says: &[&str]) {
    for arguments in ROLES {
        let output = run(arguments, settings);
        says_one_line(&output, 64, says[0]);
        let said = text(&output.stderr);
        assert!(says.iter().all(|part| said.contains(part)) && !said.contains(SECRET), "{arguments:?}: {said}");
    }
    assert_eq!(text(&thief.take().await), "");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_mode_that_verifies_nothing_is_refused_by_every_role() {
    let (home, host) = (Home::new(), own_address());
    for mode in ["prefer", "allow", "require", "verify-ca"] {
        let thief = Thief::start(true);
        let url = format!("postgres://u:{SECRET}@{host}:{}/tweets?sslmode={mode}", thief.port);
        let says = [&*format!("sslmode={mode} sends the password to any server"), "sslmode=verify-full"];
        refuses(&thief, &postgres(&home, &url, &[]), &says).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redis_without_tls_gets_a_password_only_where_the_settings_say_so() {
    let (home, host, thief) = (Home::new(), own_address(), Thief::start(false));
    let at = format!("{host}:{}", thief.port);
    for url in [
        format!("redis://:{SECRET}@{at}"),
        format!("redis://me:{SECRET}@{at}/2"),
        format!("redis+sentinel://{at}/tweets?sentinel_password={SECRET}"),
        format!("redis+sentinel://:{SECRET}@{at}/tweets"),
        format!("redis+cluster://:{SECRET}@{at}"),
    ] {
        let with = |more: &[(&str, &str)]| {
            let redis = [("queue.backend", "redis"), ("queue.redis.url", &*url), ("log.level", "error")];
            home.settings(&[&redis, more].concat())
        };
        refuses(&thief, &with(&[]), &["queue.redis.url sends its password", "queue.redis.allow_plain_password"]).await;
        if url.starts_with("redis://:") {
            let allowed = run(&["status"], &with(&[("queue.redis.allow_plain_password", "true")]));
            assert_eq!(allowed.status.code(), Some(69));
            assert!(holds(&thief.take().await, SECRET.as_bytes()));
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_api_without_tls_gets_a_token_only_where_the_settings_say_so() {
    let (home, host, thief) = (Home::new(), own_address(), Thief::start(false));
    let api = format!("http://{host}:{}", thief.port);
    for section in ["twitter", "x", "mastodon.instances.social"] {
        let provider = section.replace("mastodon.instances.", "mastodon:");
        let (of_api, token) = (format!("{section}.api"), format!("{section}.bearer_token"));
        let with = |more: &[(&str, &str)]| {
            let calls = ("mastodon.instances.social.calls", "single");
            let own = [("providers", &*provider), (&of_api, &api), (&token, SECRET), ("log.level", "error")];
            let own = if section.starts_with("mastodon") { [&own[..], &[calls]].concat() } else { own.to_vec() };
            home.settings(&[&own, more].concat())
        };
        let allow = format!("{section}.allow_plain_http");
        refuses(&thief, &with(&[]), &[&of_api, "in clear text", &format!("{allow} = true")]).await;
        let allowed = with(&[(&allow, "true")]);
        let ids = match section {
            "twitter" | "x" => young(1).join("\n"),
            // Its ids begin with their time.
            _ => (((wall_ms() - MINUTE) << 16) + 5).to_string(),
        };
        let enqueued = run(&["enqueue", &home.file("ids.txt", ids)], &allowed);
        assert!(enqueued.status.success(), "{}", text(&enqueued.stderr));
        let updater = Process::start(&["updater"], &allowed, &home.path("updater.log"));
        until_true("the server has the token", PATIENCE, async || thief.heard(SECRET.as_bytes())).await;
        drop(updater);
        thief.take().await;
    }
    let bucket = [("media.store", "s3://media"), ("media.s3.endpoint", &*api), ("media.s3.access_key", "key")];
    let bucket = home.settings(&[&bucket[..], &[("media.s3.secret_key", SECRET), ("log.level", "error")]].concat());
    refuses(&thief, &bucket, &["media.s3.endpoint", "media.s3.allow_plain_http = true"]).await;
}
