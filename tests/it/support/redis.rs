//! Private redis-servers in temporary folders: one, or several that belong together. They end with the test
//! process, however that ends: a shell between the two waits for the end of its standard input.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use redis::AsyncConnectionConfig;
use redis::aio::MultiplexedConnection;
use secrecy::SecretString;
use tempfile::TempDir;
use tokio::sync::OnceCell;
use twitter_updater::backend::redis::{RedisOptions, RedisPool};

use super::wait::until_true;

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
    /// Starts one and waits until it says that; otherwise answers all that it said.
    fn start(arguments: &[String], says: &str) -> Result<Self, String> {
        let mut watchdog = Command::new("sh")
            .args(["-c", WATCHDOG, "sh", "redis-server"])
            .args(arguments)
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
                    pid = Some(line);
                }
                Some(Ok(line)) => {
                    ready |= line.to_lowercase().contains(says);
                    said.push(line);
                }
                _ => return Err(said.join("\n")),
            }
        }
        std::thread::spawn(move || output.for_each(drop)); // its log must not fill the pipe
        Ok(Self { pid: pid.unwrap_or_default(), watchdog, alive })
    }

    /// Starts one that listens at a port nobody has; the arguments are made for it and another one. Answers
    /// the port, and the arguments.
    fn start_at_a_port(arguments: impl Fn(u16, u16) -> Vec<String>, says: &str) -> (Self, u16, Vec<String>) {
        let mut said = String::new();
        for _ in 0..10 {
            let (port, other) = (free_port(), free_port());
            let arguments = arguments(port, other);
            match Self::start(&arguments, says) {
                Ok(server) => return (server, port, arguments),
                Err(all) => said = all, // somebody was quicker
            }
        }
        panic!("redis-server did not start:\n{said}");
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

/// A port of the loopback that is free now; below those that connections get.
fn free_port() -> u16 {
    loop {
        let port = rand::random_range(12_000..32_000);
        if std::net::TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

/// Settings of a server in that folder.
fn server_in(folder: &Path, listen: &[&str], settings: &[&str]) -> Vec<String> {
    let folder = folder.to_str().unwrap();
    [&["--save", "", "--dir", folder], listen, settings].concat().into_iter().map(str::to_owned).collect()
}

const READY: &str = "ready to accept";

fn folder() -> TempDir {
    tempfile::Builder::new().prefix("tu-redis-").tempdir().unwrap()
}

impl TestRedis {
    /// Starts one with these further settings (`--maxmemory 3mb`) on a unix socket.
    pub fn start(settings: &[&str]) -> Self {
        let folder = folder();
        let socket = folder.path().join("redis.sock").display().to_string();
        let settings = server_in(folder.path(), &["--port", "0", "--unixsocket", &socket], settings);
        let server = Server::start(&settings, READY)
            .unwrap_or_else(|said| panic!("redis-server did not start (is redis-server installed?):\n{said}"));
        Self { url: format!("redis+unix://{socket}"), settings, server: Some(server), folder }
    }

    /// Starts one at a port of the loopback.
    pub fn start_at_a_port(settings: &[&str]) -> Self {
        let folder = folder();
        let arguments = |port: u16, bus: u16| {
            let listen = ["--bind", "127.0.0.1", "--port", &port.to_string(), "--cluster-port", &bus.to_string()];
            server_in(folder.path(), &listen, settings)
        };
        let (server, port, settings) = Server::start_at_a_port(arguments, READY);
        Self { url: format!("redis://127.0.0.1:{port}"), settings, server: Some(server), folder }
    }

    /// `host:port`, of one that has them.
    pub fn host_and_port(&self) -> &str {
        self.url.strip_prefix("redis://").unwrap()
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
        self.server = Some(Server::start(&self.settings, READY).unwrap());
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
        pool(&self.url)
    }

    /// A plain connection, for looking behind the queue's back.
    pub async fn connection(&self) -> MultiplexedConnection {
        connect(&self.url).await
    }
}

/// Connections to whatever that address names.
pub fn pool(url: &str) -> RedisPool {
    RedisPool::new(&RedisOptions {
        url: SecretString::from(url.to_owned()),
        connections: 8,
        connect_timeout: Duration::from_secs(5),
        response_timeout: Duration::from_secs(20),
    })
    .unwrap()
}

/// A master, a replica of it, and three Sentinels that watch them.
pub struct Watched {
    pub url: String,
    pub master: TestRedis,
    pub replica: TestRedis,
    _sentinels: Vec<(Server, TempDir)>,
}

impl Watched {
    /// Starts them; returns when the replica has all that the master has, and the Sentinels know it.
    pub async fn start() -> Self {
        let master = TestRedis::start_at_a_port(&["--appendonly", "yes"]);
        let replica_of = master.host_and_port().replace(':', " ");
        let replica = TestRedis::start_at_a_port(&["--appendonly", "yes", "--replicaof", &replica_of]);
        let mut sentinels = Vec::new();
        let mut hosts = Vec::new();
        for _ in 0..3 {
            let folder = folder();
            let file = folder.path().join("sentinel.conf").display().to_string();
            let arguments = |port: u16, _| {
                let settings = format!(
                    "bind 127.0.0.1\nport {port}\ndir {}\nsentinel monitor tweets {replica_of} 2\n\
                     sentinel down-after-milliseconds tweets 500\nsentinel failover-timeout tweets 2000\n",
                    folder.path().display()
                );
                std::fs::write(&file, settings).unwrap();
                vec![file.clone(), "--sentinel".to_owned()]
            };
            let (server, port, _) = Server::start_at_a_port(arguments, "+monitor master");
            hosts.push(format!("127.0.0.1:{port}"));
            sentinels.push((server, folder));
        }
        for host in &hosts {
            let mut sentinel = connect(&format!("redis://{host}")).await;
            until_true("a Sentinel knows the replica and the others", Duration::from_secs(30), async || {
                let masters: Vec<HashMap<String, String>> =
                    redis::cmd("SENTINEL").arg("MASTERS").query_async(&mut sentinel).await.unwrap();
                masters[0]["num-slaves"] == "1" && masters[0]["num-other-sentinels"] == "2"
            })
            .await;
        }
        Self { url: format!("redis+sentinel://{}/tweets", hosts.join(",")), master, replica, _sentinels: sentinels }
    }

    /// Hands over to the server that was the master at first, once that is a replica in step.
    pub async fn back_to_the_first(&self) {
        // A Sentinel that gives a server its part ends the connections to it.
        let is = async |field: &str, value: &str| {
            let info = async {
                let mut first = try_connect(&self.master.url).await?;
                redis::cmd("INFO").arg("replication").query_async::<redis::InfoDict>(&mut first).await
            };
            info.await.ok().and_then(|info| info.get::<String>(field)).is_some_and(|now| now == value)
        };
        let within = Duration::from_secs(60);
        until_true("it is a replica in step", within, async || is("master_link_status", "up").await).await;
        let sentinel = self.url.split(['/', ',']).nth(2).unwrap();
        let mut sentinel = connect(&format!("redis://{sentinel}")).await;
        until_true("it is the master again", within, async || {
            // Refused while the Sentinels are not done with the last failover.
            let _: redis::RedisResult<()> =
                redis::cmd("SENTINEL").arg("FAILOVER").arg("tweets").query_async(&mut sentinel).await;
            is("role", "master").await
        })
        .await;
    }

    /// The replica has all that was written so far, and hears of nothing from now on.
    pub async fn cut_off(&self) {
        let (mut master, mut replica) = (self.master.connection().await, self.replica.connection().await);
        let () = redis::cmd("SET").arg("so far").arg("yes").query_async(&mut master).await.unwrap();
        let reached: i64 = redis::cmd("WAIT").arg(1).arg(10_000).query_async(&mut master).await.unwrap();
        assert_eq!(reached, 1);
        // It would have to show a password that the master does not want.
        let mut refuse = redis::cmd("CONFIG");
        let () = refuse.arg("SET").arg("masterauth").arg("wrong").query_async(&mut replica).await.unwrap();
        let cut: i64 =
            redis::cmd("CLIENT").arg("KILL").arg("TYPE").arg("replica").query_async(&mut master).await.unwrap();
        assert_eq!(cut, 1);
    }
}

/// Three masters that share the slots.
pub struct Cluster {
    pub url: String,
    pub masters: Vec<TestRedis>,
}

impl Cluster {
    /// Starts them; returns when each of them knows that every slot is served.
    pub async fn start() -> Self {
        let node = |_| TestRedis::start_at_a_port(&["--cluster-enabled", "yes", "--appendonly", "yes"]);
        let masters: Vec<_> = (0..3).map(node).collect();
        let hosts: Vec<_> = masters.iter().map(TestRedis::host_and_port).collect();
        let mut create = Command::new("redis-cli");
        let made = create.args(["--cluster", "create"]).args(&hosts).arg("--cluster-yes").output().unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stdout));
        let url = format!("redis+cluster://{}", hosts.join(","));
        let cluster = Self { url, masters };
        cluster.serves().await;
        cluster
    }

    /// Waits until each of them knows that every slot is served.
    pub async fn serves(&self) {
        for master in &self.masters {
            let mut raw = master.connection().await;
            until_true("the cluster is complete", Duration::from_secs(30), async || {
                let info: String = redis::cmd("CLUSTER").arg("INFO").query_async(&mut raw).await.unwrap();
                info.contains("cluster_state:ok") && info.contains("cluster_slots_ok:16384")
            })
            .await;
        }
    }

    /// Which of the masters has that key.
    pub async fn master_of(&self, key: &str) -> usize {
        for (at, master) in self.masters.iter().enumerate() {
            // The others say where it is instead.
            if redis::cmd("EXISTS").arg(key).query_async::<bool>(&mut master.connection().await).await.is_ok() {
                return at;
            }
        }
        panic!("nobody has {key}");
    }

    /// The cluster all tests of this process share, each in its own namespace.
    pub async fn shared() -> &'static Self {
        static SHARED: OnceCell<Cluster> = OnceCell::const_new();
        SHARED.get_or_init(Self::start).await
    }
}

async fn connect(url: &str) -> MultiplexedConnection {
    try_connect(url).await.unwrap()
}

async fn try_connect(url: &str) -> redis::RedisResult<MultiplexedConnection> {
    let patient = AsyncConnectionConfig::new().set_response_timeout(Some(Duration::from_secs(20)));
    redis::Client::open(url)?.get_multiplexed_async_connection_with_config(&patient).await
}

/// A namespace no other test uses.
pub fn namespace() -> String {
    use std::sync::atomic::{AtomicU32, Ordering};
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("test:{}", NEXT.fetch_add(1, Ordering::Relaxed))
}
