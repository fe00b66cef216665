//! Private redis-servers in temporary folders: one, or several that belong together. They end with the test
//! process, however that ends: a shell between the two waits for the end of its standard input.

mod doors;
mod groups;

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use redis::RedisResult;
use redis::aio::MultiplexedConnection;
use secrecy::SecretString;
use tempfile::TempDir;
use twitter_updater::base::backend::redis::{RedisOptions, RedisPool, Tls};

pub use self::doors::Doors;
pub use self::groups::{Cluster, Watched};

/// Says the server's process id, and ends it unless told that it is dead already. What it says ends with the server.
const WATCHDOG: &str =
    r#""$@" & server=$!; echo $server; exec >&-; read dead; [ "$dead" ] || kill $server; wait $server"#;

/// One redis-server; it may be killed and started again over the same files.
pub struct TestRedis {
    pub url: String,
    doors: Doors,
    settings: Vec<String>,
    program: String,
    server: Option<Server>,
    folder: TempDir,
}

/// The server's program: `REDIS_SERVER`, or Debian's.
fn program() -> String {
    std::env::var("REDIS_SERVER").unwrap_or_else(|_| "redis-server".to_owned())
}

/// Its process.
struct Server {
    /// Lines of its log up to the one that said it was ready.
    said: Vec<String>,
    pid: String,
    watchdog: Child,
    alive: Option<ChildStdin>,
}

impl Server {
    /// Starts one and waits until it says that; otherwise answers all that it said.
    fn start(arguments: &[String], says: &str) -> Result<Self, String> {
        Self::start_program(&program(), arguments, says)
    }

    /// The same of another program.
    fn start_program(program: &str, arguments: &[String], says: &str) -> Result<Self, String> {
        let mut watchdog = Command::new("sh")
            .args(["-c", WATCHDOG, "sh", program])
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null()) // the shell's word on a server that was killed
            .spawn()
            .unwrap();
        let alive = watchdog.stdin.take();
        let mut output = BufReader::new(watchdog.stdout.take().unwrap()).lines();
        let mut server = Self { said: Vec::new(), pid: String::new(), watchdog, alive };
        let mut ready = false;
        while server.pid.is_empty() || !ready {
            match output.next() {
                // The shell's line; the server may be quicker.
                Some(Ok(line)) if !line.is_empty() && line.bytes().all(|byte| byte.is_ascii_digit()) => {
                    server.pid = line;
                }
                Some(Ok(line)) => {
                    ready |= line.to_lowercase().contains(says);
                    server.said.push(line);
                }
                _ => return Err(server.said.join("\n")),
            }
        }
        std::thread::spawn(move || output.for_each(drop)); // its log must not fill the pipe
        Ok(server)
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
fn server_in(folder: &Path, listen: Vec<String>, settings: &[&str]) -> Vec<String> {
    let own = ["--save", "", "--dir", folder.to_str().unwrap()].map(str::to_owned);
    own.into_iter().chain(listen).chain(settings.iter().map(|word| (*word).to_owned())).collect()
}

const READY: &str = "ready to accept";

fn folder() -> TempDir {
    tempfile::Builder::new().prefix("tu-redis-").tempdir().unwrap()
}

impl TestRedis {
    /// Starts one with these further settings (`--maxmemory 3mb`) on a unix socket.
    pub fn start(settings: &[&str]) -> Self {
        Self::start_by(&program(), settings)
    }

    /// Starts one at a port of the loopback.
    pub fn start_at_a_port(settings: &[&str]) -> Self {
        Self::start_behind(&Doors::default(), settings)
    }

    /// The same for whom those let in.
    pub fn start_behind(doors: &Doors, settings: &[&str]) -> Self {
        let folder = folder();
        let arguments = |port: u16, bus: u16| {
            let bus = ["--cluster-port".to_owned(), bus.to_string()];
            server_in(folder.path(), [doors.listen(port), bus.to_vec()].concat(), settings)
        };
        let (server, port, settings) = Server::start_at_a_port(arguments, READY);
        let url = doors.url("", &format!("127.0.0.1:{port}"));
        Self { url, doors: doors.clone(), settings, program: program(), server: Some(server), folder }
    }

    /// `host:port`, of one that has them.
    pub fn host_and_port(&self) -> &str {
        self.url.rsplit(['/', '@']).next().unwrap()
    }

    /// Starts one by that program, which ends in a redis-server.
    pub fn start_by(program: &str, settings: &[&str]) -> Self {
        let folder = folder();
        let socket = folder.path().join("redis.sock").display().to_string();
        let listen = ["--port", "0", "--unixsocket", &socket].map(str::to_owned).to_vec();
        let settings = server_in(folder.path(), listen, settings);
        let server = Server::start_program(program, &settings, READY)
            .unwrap_or_else(|said| panic!("{program} did not start (is redis-server installed?):\n{said}"));
        let url = format!("redis+unix://{socket}");
        Self { url, doors: Doors::default(), settings, program: program.to_owned(), server: Some(server), folder }
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

    /// Sends its process a signal: `STOP`, `CONT`.
    pub fn signal(&self, name: &str) {
        let pid = &self.server.as_ref().expect("it runs").pid;
        assert!(Command::new("kill").args([&format!("-{name}"), pid]).status().unwrap().success());
    }

    /// Starts it again over what its files hold.
    pub fn start_again(&mut self) {
        self.server = Some(Server::start_program(&self.program, &self.settings, READY).unwrap());
    }

    /// Lines of the log of its last start, up to the one that said it was ready.
    pub fn said(&self) -> &[String] {
        self.server.as_ref().map_or(&[], |server| &server.said)
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
        self.try_connection().await.unwrap()
    }

    async fn try_connection(&self) -> RedisResult<MultiplexedConnection> {
        self.doors.connect(&self.url).await
    }
}

/// A plain connection without TLS.
pub async fn connect(url: &str) -> RedisResult<MultiplexedConnection> {
    Doors::default().connect(url).await
}

/// Connections to whatever that address names.
pub fn pool(url: &str) -> RedisPool {
    pool_of(url, 8)
}

/// So many of them.
pub fn pool_of(url: &str, connections: usize) -> RedisPool {
    pool_through(url, Tls::default(), connections)
}

/// The same with these certificates.
pub fn pool_through(url: &str, tls: Tls, connections: usize) -> RedisPool {
    RedisPool::new(&RedisOptions {
        url: SecretString::from(url.to_owned()),
        tls,
        connections,
        connect_timeout: Duration::from_secs(5),
        response_timeout: Duration::from_secs(20),
    })
    .unwrap()
}

/// A namespace no other test uses.
pub fn namespace() -> String {
    use std::sync::atomic::{AtomicU32, Ordering};
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("test:{}", NEXT.fetch_add(1, Ordering::Relaxed))
}
