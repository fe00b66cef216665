//! Private PostgreSQL servers, on a socket in a folder of their own.
//!
//! A small shell process, the *keeper*, makes the cluster, starts and stops the server at a word on
//! its stdin, and ends it and removes everything when its stdin closes. The pipe is ours, so this
//! happens however the test process ends.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection};

/// Arguments: the folder of PostgreSQL's programs. Says the cluster's folder, then "ok" or "failed"
/// per word. Durability is off: nothing here outlives the process. Signals that a terminal sends to
/// the whole group are ignored, and that nobody reads what it says: the end of stdin is what ends it.
const KEEPER: &str = r#"
trap '' INT HUP TERM PIPE
dir=$(mktemp -d "${TMPDIR:-/tmp}/pg.XXXXXX") || exit 1
bin=$1
pg() { "$bin/pg_ctl" -D "$dir/data" -l "$dir/log" -s -w "$@" >/dev/null 2>&1; }
answer() { if [ "$1" = 0 ]; then echo ok; else cat "$dir/log" >&2; echo failed; fi; }
"$bin/initdb" -D "$dir/data" -A trust -U postgres -E UTF8 --locale=C --no-sync >"$dir/log" 2>&1
made=$?
cat >>"$dir/data/postgresql.conf" <<CONF
listen_addresses = ''
unix_socket_directories = '$dir'
fsync = off
full_page_writes = off
synchronous_commit = off
max_connections = 200
CONF
echo "$dir"
answer $made
while read -r word; do
  case $word in
    start) pg start; answer $? ;;
    stop) pg -m fast stop; answer $? ;;
    crash) pg -m immediate stop; answer $? ;;
  esac
done
pg -m immediate stop
rm -rf "$dir"
"#;

/// A server of a test's own, to be stopped and started again. It ends with this value.
pub struct OwnPostgres {
    keeper: Child,
    words: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
    dir: String,
}

impl OwnPostgres {
    fn new() -> Self {
        let programs = programs();
        let mut command = as_postgres();
        let mut keeper = command
            .args(["sh", "-c", KEEPER, "keeper"])
            .arg(programs)
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("a private PostgreSQL server: {command:?}: {error}"));
        let words = keeper.stdin.take();
        let mut answers = BufReader::new(keeper.stdout.take().expect("stdout is piped"));
        let mut dir = String::new();
        answers.read_line(&mut dir).unwrap();
        let mut server = Self { keeper, words, answers, dir: dir.trim_end().to_owned() };
        server.expect_ok("initdb");
        server.start();
        server
    }

    /// Starts the server; it takes connections when this returns.
    pub fn start(&mut self) {
        self.say("start");
    }

    /// Stops the server: connections break, and new ones are refused when this returns.
    pub fn stop(&mut self) {
        self.say("stop");
    }

    /// Ends the server as a crash does, in the middle of whatever it does: it starts with a recovery.
    pub fn crash(&mut self) {
        self.say("crash");
    }

    /// Sends the server and each of its processes a signal: `STOP`, `CONT`.
    pub fn signal(&self, name: &str) {
        let of_server = std::fs::read_to_string(format!("{}/data/postmaster.pid", self.dir)).unwrap();
        let server = of_server.lines().next().unwrap().trim().to_owned();
        let parent = |pid: &str| {
            // "pid (name) state parent …", and the name may hold anything.
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
            stat.rsplit(')').next()?.split_whitespace().nth(1).map(str::to_owned)
        };
        let send = |pid: &str| Command::new("kill").args([&format!("-{name}"), pid]).status().unwrap();
        // The server first: it makes no more processes then.
        assert!(send(&server).success());
        for entry in std::fs::read_dir("/proc").unwrap().flatten() {
            let pid = entry.file_name().into_string().unwrap_or_default();
            if pid.bytes().all(|byte| byte.is_ascii_digit()) && parent(&pid).as_deref() == Some(&*server) {
                send(&pid);
            }
        }
    }

    /// The url of its database `name`.
    pub fn url(&self, name: &str) -> String {
        format!("postgres:///{name}?host={}&user=postgres", self.dir)
    }

    fn say(&mut self, word: &str) {
        let words = self.words.as_mut().expect("open until dropped");
        writeln!(words, "{word}").unwrap();
        self.expect_ok(word);
    }

    fn expect_ok(&mut self, word: &str) {
        let mut answer = String::new();
        self.answers.read_line(&mut answer).unwrap();
        assert_eq!(answer.trim_end(), "ok", "PostgreSQL: {word} failed; its log is above");
    }
}

impl Drop for OwnPostgres {
    fn drop(&mut self) {
        drop(self.words.take());
        drop(self.keeper.wait());
    }
}

/// A server of one's own.
pub fn own() -> OwnPostgres {
    OwnPostgres::new()
}

/// The url of a fresh database on the server that all tests of this process share.
pub async fn database() -> String {
    static SHARED: OnceLock<OwnPostgres> = OnceLock::new();
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let server = SHARED.get_or_init(own);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let name = format!("test_{number}");
    let mut connection = PgConnection::connect(&server.url("postgres")).await.unwrap();
    if number == 0 {
        // Autovacuum starts a process every minute for each of some hundred databases, of which most are done with.
        connection.execute("ALTER SYSTEM SET autovacuum_naptime = '1h'").await.unwrap();
        connection.execute("SELECT pg_reload_conf()").await.unwrap();
    }
    connection.execute(AssertSqlSafe(format!("CREATE DATABASE {name}"))).await.unwrap();
    server.url(&name)
}

/// The folder of the newest `initdb`: in Debian's places, or in PATH.
fn programs() -> PathBuf {
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let newest = versions
        .filter_map(|entry| Some((entry.file_name().to_str()?.parse::<u32>().ok()?, entry.path().join("bin"))))
        .filter(|(_, bin)| bin.join("initdb").exists())
        .max();
    let in_path = || in_path("initdb")?.canonicalize().ok()?.parent().map(Path::to_owned);
    newest.map(|(_, bin)| bin).or_else(in_path).expect(
        "these tests need PostgreSQL's server programs (initdb, pg_ctl, postgres) in PATH or in \
         /usr/lib/postgresql/*/bin; on Debian: apt install postgresql",
    )
}

fn in_path(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|dir| dir.join(program)).find(|file| file.exists())
}

/// PostgreSQL does not run as root: where we are root, the keeper and the server are `postgres`.
pub fn as_postgres() -> Command {
    let id = Command::new("id").arg("-u").output().expect("id -u");
    let mut command = Command::new("env");
    if id.stdout.trim_ascii() == b"0" {
        if in_path("setpriv").is_some() {
            command.args(["setpriv", "--reuid=postgres", "--regid=postgres", "--init-groups"]);
        } else if in_path("runuser").is_some() {
            command.args(["runuser", "-u", "postgres", "--"]);
        } else {
            panic!("PostgreSQL does not run as root: run the tests as another user, or install setpriv or runuser");
        }
    }
    command
}
