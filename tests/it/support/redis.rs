//! A private redis-server on a unix socket in a temporary folder. It ends with the test process,
//! however that ends: a shell between the two waits for the end of its standard input.

use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use secrecy::SecretString;
use tempfile::TempDir;
use twitter_updater::backend::redis::{RedisOptions, RedisPool};

/// One running redis-server.
pub struct TestRedis {
    pub url: String,
    watchdog: Child,
    _alive: Option<ChildStdin>,
    _folder: TempDir,
}

impl TestRedis {
    /// Starts one with these further settings (`--maxmemory 3mb`) and waits until it says it is ready.
    pub fn start(settings: &[&str]) -> Self {
        let folder = tempfile::Builder::new().prefix("tu-redis-").tempdir().unwrap();
        let socket = folder.path().join("redis.sock");
        let mut watchdog = Command::new("sh")
            .args(["-c", r#""$@" & server=$!; cat; kill $server; wait $server"#, "sh", "redis-server"])
            .args(["--port", "0", "--save", "", "--unixsocket"])
            .arg(&socket)
            .arg("--dir")
            .arg(folder.path())
            .args(settings)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let alive = watchdog.stdin.take();
        let mut output = BufReader::new(watchdog.stdout.take().unwrap()).lines();
        let mut said = Vec::new();
        loop {
            match output.next() {
                Some(Ok(line)) if line.contains("Ready to accept") || line.contains("ready to accept") => break,
                Some(Ok(line)) => said.push(line),
                _ => panic!("redis-server did not start (is redis-server installed?):\n{}", said.join("\n")),
            }
        }
        std::thread::spawn(move || output.for_each(drop)); // its log must not fill the pipe
        Self { url: format!("redis+unix://{}", socket.display()), watchdog, _alive: alive, _folder: folder }
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

impl Drop for TestRedis {
    fn drop(&mut self) {
        drop(self._alive.take());
        let _ = self.watchdog.wait();
    }
}

/// A namespace no other test uses.
pub fn namespace() -> String {
    use std::sync::atomic::{AtomicU32, Ordering};
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("test:{}", NEXT.fetch_add(1, Ordering::Relaxed))
}
