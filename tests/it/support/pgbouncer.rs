//! A private PgBouncer before a private PostgreSQL, on a socket in a folder of its own. It ends with this value, or with
//! the test process: a shell between the two waits for the end of its standard input.

use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};
use std::time::Duration;

use sqlx::{Connection, PgConnection};

use super::postgres::as_postgres;
use super::wait::until_true;

/// Arguments: the folder of PostgreSQL's socket, the pool's mode, its size. Says its own folder.
const KEEPER: &str = r#"
trap '' INT HUP
dir=$(mktemp -d "${TMPDIR:-/tmp}/pgbouncer.XXXXXX") || exit 1
cat >"$dir/ini" <<INI
[databases]
* = host=$1 user=postgres
[pgbouncer]
listen_addr =
listen_port = 6432
unix_socket_dir = $dir
auth_type = any
pool_mode = $2
default_pool_size = $3
INI
echo "$dir"
PATH=$PATH:/usr/sbin pgbouncer "$dir/ini" >"$dir/log" 2>&1 &
bouncer=$!
read -r end
kill "$bouncer"
wait "$bouncer"
rm -rf "$dir"
"#;

/// One PgBouncer.
pub struct PgBouncer {
    keeper: Child,
    /// The address of the database behind it.
    pub url: String,
}

impl PgBouncer {
    /// Starts one with its defaults before the database of that address; returns once it takes connections.
    pub async fn start(database: &str, pool_mode: &str, pool_size: u32) -> Self {
        let (name, host) = database.strip_prefix("postgres:///").unwrap().split_once("?host=").unwrap();
        let host = host.split('&').next().unwrap();
        let mut keeper = as_postgres()
            .args(["sh", "-c", KEEPER, "keeper", host, pool_mode, &pool_size.to_string()])
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut dir = String::new();
        BufReader::new(keeper.stdout.take().unwrap()).read_line(&mut dir).unwrap();
        let url = format!("postgres:///{name}?host={}&port=6432&user=postgres", dir.trim_end());
        // sqlx's own connections begin with a parameter that PgBouncer does not know: it says so once it is there.
        until_true("PgBouncer answers (is pgbouncer installed?)", Duration::from_secs(20), async || {
            match PgConnection::connect(&url).await {
                Ok(_) => true,
                Err(error) => error.to_string().contains("extra_float_digits"),
            }
        })
        .await;
        Self { keeper, url }
    }
}

impl Drop for PgBouncer {
    fn drop(&mut self) {
        drop(self.keeper.stdin.take());
        drop(self.keeper.wait());
    }
}
