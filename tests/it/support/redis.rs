//! A private redis-server on a unix socket in a temporary folder. It ends with the test process,
//! however that ends: a shell between the two waits for the end of its standard input.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use secrecy::SecretString;
use tempfile::TempDir;
use twitter_updater::backend::redis::{RedisOptions, RedisPool};

/// Says the server's process id, and ends it unless told that it is dead already.
const WATCHDOG: &str = r#""$@" & server=$!; echo $server; read dead; [ "$dead" ] || kill $server; wait $server"#;

/// One redis-server; it may be killed and started again over the same files.
pub struct TestRedis {
    pub url: String,
    settings: Vec<String>,
    server: Option<Server>,
    folder: TempDir,
}

/// Its process.
struct Server {
    pid: String,
    watchdog: Child,
    alive: Option<ChildStdin>,
}

impl Server {
    /// Starts one in that folder and waits until it says it is ready.
    fn start(folder: &Path, settings: &[String]) -> Self {
        let mut watchdog = Command::new("sh")
            .args(["-c", WATCHDOG, "sh", "redis-server"])
            .args(["--save", "", "--dir"])
            .arg(folder)
            .args(settings)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null()) // the shell's word on a server that was killed
            .spawn()
            .unwrap();
        let alive = watchdog.stdin.take();
        let mut output = BufReader::new(watchdog.stdout.take().unwrap()).lines();
        let (mut said, mut pid, mut ready) = (Vec::new(), None, false);
        while pid.is_none() || !ready {
            match output.next() {
                // The shell's line; the server may be quicker.
                Some(Ok(line)) if !line.is_empty() && line.bytes().all(|byte| byte.is_ascii_digit()) => {
                    pid = Some(line)
                }
                Some(Ok(line)) => {
                    ready |= line.to_lowercase().contains("ready to accept");
                    said.push(line);
                }
                _ => panic!("redis-server did not start (is redis-server installed?):\n{}", said.join("\n")),
            }
        }
        std::thread::spawn(move || output.for_each(drop)); // its log must not fill the pipe
        Self { pid: pid.unwrap_or_default(), watchdog, alive }
    }

    /// kill -9.
    fn kill(mut self) {
        assert!(Command::new("kill").args(["-KILL", &self.pid]).status().unwrap().success());
        self.alive.as_mut().unwrap().write_all(b"dead\n").unwrap();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.alive.take());
        let _ = self.watchdog.wait();
    }
}

impl TestRedis {
    /// Starts one with these further settings (`--maxmemory 3mb`) on a unix socket.
    pub fn start(settings: &[&str]) -> Self {
        let folder = tempfile::Builder::new().prefix("tu-redis-").tempdir().unwrap();
        let socket = folder.path().join("redis.sock").display().to_string();
        let listen = ["--port", "0", "--unixsocket", &socket];
        let settings: Vec<String> = listen.iter().chain(settings).map(|word| (*word).to_owned()).collect();
        let server = Some(Server::start(folder.path(), &settings));
        Self { url: format!("redis+unix://{socket}"), settings, server, folder }
    }

    /// kill -9, as a crash of its machine's processes. What it had told its kernel to write is written.
    pub fn kill(&mut self) {
        if let Some(server) = self.server.take() {
            server.kill();
        }
    }

    /// Ends it in order: its files are complete.
    pub fn stop(&mut self) {
        self.server = None;
    }

    /// Starts it again over what its files hold.
    pub fn start_again(&mut self) {
        self.server = Some(Server::start(self.folder.path(), &self.settings));
    }

    /// Where its files are.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The server all tests of this process share, each in its own namespace.
    pub fn shared() -> &'static Self {
        static SHARED: OnceLock<TestRedis> = OnceLock::new();
        SHARED.get_or_init(|| Self::start(&["--appendonly", "yes", "--appendfsync", "everysec"]))
    }

    pub fn pool(&self) -> RedisPool {
        RedisPool::new(&RedisOptions {
            url: SecretString::from(self.url.clone()),
            connections: 8,
            connect_timeout: Duration::from_secs(5),
            response_timeout: Duration::from_secs(20),
        })
        .unwrap()
    }

    /// A plain connection, for looking behind the queue's back.
    pub async fn connection(&self) -> redis::aio::MultiplexedConnection {
        redis::Client::open(self.url.as_str()).unwrap().get_multiplexed_async_connection().await.unwrap()
    }
}

/// A namespace no other test uses.
pub fn namespace() -> String {
    use std::sync::atomic::{AtomicU32, Ordering};
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("test:{}", NEXT.fetch_add(1, Ordering::Relaxed))
}
