//! Redis: the pool, the common part of the scripts, and the meaning of its errors.

pub mod address;
mod connect;
mod tls;

use std::collections::HashMap;
use std::sync::LazyLock;

use deadpool::Runtime;
use deadpool::managed::{Object, Pool, PoolError};
use redis::cluster_routing::{MultipleNodeRoutingInfo, RoutingInfo, SingleNodeRoutingInfo};
use redis::{Cmd, ErrorKind, FromRedisValue, InfoDict, RedisError, RedisResult, Script, ServerErrorKind, ToRedisArgs};
use secrecy::ExposeSecret;

use self::address::Address;
pub use self::connect::RedisOptions;
use self::connect::{Connection, Connector};
pub use self::tls::{BadTls, Tls};
use super::BackendError;

/// For scripts that drain: they run when memory is full.
pub const ALLOW_OOM: &str = "flags=allow-oom";
/// For scripts that add: Redis rejects them when memory is full.
pub const DENY_OOM: &str = "";
/// May run on a replica and for a read-only user.
pub const NO_WRITES: &str = "flags=no-writes";

#[must_use]
pub fn script(flags: &str, own: &str) -> Script {
    Script::new(&format!("#!lua {flags}\n{}\n{own}", include_str!("common.lua")))
}

/// A script with its arguments in one buffer: the client's own invocation allocates each argument.
#[derive(Debug)]
pub struct Call<'a> {
    script: &'a Script,
    command: Cmd,
}

impl<'a> Call<'a> {
    /// A call of that script on the keys with this prefix, `{tag}:`, or on one key.
    ///
    /// A script declares two keys, and the second never exists. While a cluster moves the slot, the old node redirects the call or
    /// answers TRYAGAIN, and the new node answers TRYAGAIN since it lacks a key. So no call runs on a part of the keys. With a
    /// single key, calls would run on the new node while the old one still holds keys.
    #[must_use]
    pub fn new(script: &'a Script, key: &str) -> Self {
        Self::on_keys(script, &[key, &nonexistent_key(key)])
    }

    /// A call of that script on these keys alone, all in one slot.
    #[must_use]
    pub fn on_keys(script: &'a Script, keys: &[&str]) -> Self {
        let mut command = redis::cmd("EVALSHA");
        command.arg(script.get_hash()).arg(keys.len()).arg(keys);
        Self { script, command }
    }

    pub fn arg(&mut self, argument: impl ToRedisArgs) -> &mut Self {
        self.command.arg(argument);
        self
    }
}

/// A key of the same slot that never exists.
fn nonexistent_key(key: &str) -> String {
    if key.starts_with('{') { format!("{key}.") } else { format!("{{{key}}}:.") }
}

/// Plain commands on the keys of one namespace, run by a script in one step.
#[derive(Debug)]
pub struct Steps<'a> {
    call: Call<'a>,
}

impl Steps<'_> {
    #[must_use]
    pub fn read_only(prefix: &str) -> Self {
        static READ: LazyLock<Script> = LazyLock::new(|| script(NO_WRITES, include_str!("steps.lua")));
        Self { call: Call::new(&READ, prefix) }
    }

    #[must_use]
    pub fn allow_oom(prefix: &str) -> Self {
        static DRAIN: LazyLock<Script> = LazyLock::new(|| script(ALLOW_OOM, include_str!("steps.lua")));
        Self { call: Call::new(&DRAIN, prefix) }
    }

    #[must_use]
    pub fn deny_oom(prefix: &str) -> Self {
        static ADD: LazyLock<Script> = LazyLock::new(|| script(DENY_OOM, include_str!("steps.lua")));
        Self { call: Call::new(&ADD, prefix) }
    }

    /// Adds a command of at most 7,000 words.
    pub fn add(&mut self, command: &Cmd) -> &mut Self {
        self.call.arg(command.args_iter().count());
        for word in command.args_iter() {
            if let redis::Arg::Simple(word) = word {
                self.call.arg(word);
            }
        }
        self
    }
}

/// Connections to one Redis (a server, the master of Sentinels, or a cluster), shared by all namespaces of a process.
#[derive(Clone)]
pub struct RedisPool {
    pool: Pool<Connector>,
}

impl std::fmt::Debug for RedisPool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("RedisPool")
    }
}

impl RedisPool {
    /// A pool without a connection yet. An invalid URL is [`BackendError::Refused`].
    pub fn new(options: &RedisOptions) -> Result<Self, BackendError> {
        let refused = |why: &str| BackendError::Refused(format!("queue.redis.url cannot be used: {why}"));
        let address = Address::read(options.url.expose_secret()).map_err(refused)?;
        // The client's own error may quote the address with its password; ours does not.
        let connector = Connector::new(address, options).map_err(|_| refused("its parts contradict each other"))?;
        let patience = options.connect_timeout.saturating_mul(connector.connects_in_a_row());
        let pool = Pool::builder(connector)
            .max_size(options.connections.max(1))
            .runtime(Runtime::Tokio1)
            .wait_timeout(Some(options.response_timeout))
            .create_timeout(Some(patience))
            .recycle_timeout(Some(options.response_timeout))
            .build()
            .map_err(|error| BackendError::Refused(format!("the Redis pool cannot be built: {error}")))?;
        Ok(Self { pool })
    }

    async fn connection(&self) -> Result<Object<Connector>, BackendError> {
        self.pool.get().await.map_err(|error| match error {
            PoolError::Backend(error) => classify_error(&error),
            other => BackendError::Unavailable(format!("no connection to Redis: {other}")),
        })
    }

    /// Returns the result of a call. If the connection is lost or leads to a replica, drops all connections.
    fn check_answer<T>(&self, connection: Object<Connector>, answer: RedisResult<T>) -> Result<T, BackendError> {
        answer.map_err(|error| {
            if is_connection_lost(&error) {
                drop::<Connection>(Object::take(connection));
                self.pool.retain(|_, _| false);
            }
            classify_error(&error)
        })
    }

    /// Runs a script. Loads it first if the server does not know it.
    pub async fn invoke<T: FromRedisValue>(&self, call: &Call<'_>) -> Result<T, BackendError> {
        let mut connection = self.connection().await?;
        let mut answer = call.command.query_async(&mut *connection).await;
        if answer.as_ref().is_err_and(|error: &RedisError| error.kind() == ErrorKind::Server(ServerErrorKind::NoScript))
        {
            answer = match call.script.load_async(&mut *connection).await {
                Ok(_) => call.command.query_async(&mut *connection).await,
                Err(error) => Err(error),
            };
        }
        self.check_answer(connection, answer)
    }

    pub async fn run<T: FromRedisValue>(&self, steps: &Steps<'_>) -> Result<Vec<T>, BackendError> {
        self.invoke(&steps.call).await
    }

    pub async fn read<T: FromRedisValue>(&self, prefix: &str, command: &Cmd) -> Result<T, BackendError> {
        let replies: Vec<T> = self.run(Steps::read_only(prefix).add(command)).await?;
        let none = || BackendError::Refused("Redis sent no answer to a command".to_owned());
        replies.into_iter().next().ok_or_else(none)
    }

    /// The `INFO` of each server with keys: one, or each master of a cluster.
    pub async fn info(&self) -> Result<Vec<InfoDict>, BackendError> {
        let answers = self.query_each_server(&redis::cmd("INFO")).await?;
        Ok(answers.into_iter().map(|(_, info)| info).collect())
    }

    /// Runs a command without keys on each server that holds keys: one, or each master of a cluster.
    pub async fn query_each_server<T: FromRedisValue>(&self, command: &Cmd) -> Result<Vec<(Server, T)>, BackendError> {
        let mut connection = self.connection().await?;
        let answer = match &mut *connection {
            Connection::Server(server) => command.query_async(server).await.map(|answer| vec![(Server(None), answer)]),
            Connection::Cluster(cluster) => {
                let to_each = RoutingInfo::MultiNode((MultipleNodeRoutingInfo::AllMasters, None));
                let answers = cluster.route_command(command.clone(), to_each).await;
                let by_node: RedisResult<HashMap<String, T>> =
                    answers.and_then(|nodes| Ok(redis::from_redis_value(nodes)?));
                by_node.map(|nodes| nodes.into_iter().map(|(node, answer)| (Server(Some(node)), answer)).collect())
            }
        };
        self.check_answer(connection, answer)
    }

    /// Runs a command without keys on a server that [`RedisPool::query_each_server`] returned.
    pub async fn run_on_server(&self, server: &Server, command: &Cmd) -> Result<(), BackendError> {
        let mut connection = self.connection().await?;
        let node = server.0.as_deref().and_then(|node| node.rsplit_once(':'));
        let answer = match (&mut *connection, node) {
            (Connection::Cluster(cluster), Some((host, port))) => {
                let port = port.parse().unwrap_or_default();
                let there = RoutingInfo::SingleNode(SingleNodeRoutingInfo::ByAddress { host: host.to_owned(), port });
                cluster.route_command(command.clone(), there).await.map(drop)
            }
            (connection, _) => command.query_async(connection).await,
        };
        self.check_answer(connection, answer)
    }
}

/// A server that holds keys: `host:port` of a master of a cluster, or the only server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Server(Option<String>);

/// The code of a server's error; for a pipeline, of the first error.
fn error_code(error: &RedisError) -> Option<String> {
    let refusals = error.clone().into_server_errors();
    let first = refusals.as_ref().and_then(|all| all.first());
    first.map(|(_, refusal)| refusal.code().to_owned()).or_else(|| error.code().map(str::to_owned))
}

fn is_connection_lost(error: &RedisError) -> bool {
    error.is_io_error() || matches!(error_code(error).as_deref(), Some("READONLY" | "MASTERDOWN"))
}

#[must_use]
pub fn classify_error(error: &RedisError) -> BackendError {
    let text = without_user(error.to_string()); // a server's or an I/O message: no secret
    let code = error_code(error);
    let code = code.as_deref();
    if let Some("ASK" | "TRYAGAIN") = code {
        return BackendError::Unavailable(format!(
            "a slot of the Redis Cluster is being moved (resharding); work resumes automatically afterwards: {text}"
        ));
    }
    if code == Some("OOM") {
        return BackendError::Full("Redis has reached its maxmemory: raise it, or let the queue drain".to_owned());
    }
    match error.kind() {
        ErrorKind::AuthenticationFailed => BackendError::Refused("Redis refuses the user or password".to_owned()),
        ErrorKind::Server(_) | ErrorKind::Extension => match code {
            Some(
                "LOADING" | "BUSY" | "NOSCRIPT" | "READONLY" | "MASTERDOWN" | "CLUSTERDOWN" | "MISCONF" | "NOREPLICAS"
                | "MOVED" | "UNBLOCKED",
            ) => BackendError::Unavailable(text),
            Some("NOAUTH") => BackendError::Refused(
                "Redis requires a password: write queue.redis.url as redis://:PASSWORD@HOST:PORT (with the colon), or \
                 redis://USER:PASSWORD@HOST:PORT"
                    .to_owned(),
            ),
            _ => BackendError::Refused(format!("Redis refuses: {text}")),
        },
        ErrorKind::UnexpectedReturnType | ErrorKind::Parse => {
            BackendError::Refused(format!("Redis gave an answer of unknown format: {text}"))
        }
        _ => BackendError::Unavailable(format!("{text}{}", certificate_advice(&text))),
    }
}

/// Removes the user's name, which Redis writes into its permission errors.
fn without_user(text: String) -> String {
    match text.split_once("User ").and_then(|(before, named)| Some((before, named.split_once(' ')?.1))) {
        Some((before, behind)) if behind.starts_with("has no permissions") => format!("{before}User *** {behind}"),
        _ => text,
    }
}

/// The remedy for a certificate error, which the TLS library does not name.
fn certificate_advice(text: &str) -> &'static str {
    if text.contains("UnknownIssuer") {
        " (queue.redis.ca_file names the authority to trust)"
    } else if text.contains("CertificateRequired") {
        " (set queue.redis.cert_file and key_file, which identify this client)"
    } else {
        ""
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(says: &str) -> RedisError {
        let value = redis::parse_redis_value(format!("-{says}\r\n").as_bytes()).unwrap();
        value.extract_error().unwrap_err()
    }

    #[test]
    fn temporary_and_permanent_errors_are_distinguished() {
        for says in [
            "LOADING Redis is loading the dataset in memory",
            "BUSY Redis is busy running a script",
            "NOSCRIPT No matching script. Please use EVAL.",
            "READONLY You can't write against a read only replica.",
            "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
            "MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk.",
            "NOREPLICAS Not enough good replicas to write.",
            "CLUSTERDOWN The cluster is down",
            "TRYAGAIN Multiple keys request during rehashing of slot",
            "MOVED 3999 127.0.0.1:6381",
            "ASK 3999 127.0.0.1:6381",
            "UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica?)",
        ] {
            assert!(matches!(classify_error(&refusal(says)), BackendError::Unavailable(_)), "{says}");
        }
        let full = "OOM command not allowed when used memory > 'maxmemory'.";
        assert!(matches!(classify_error(&refusal(full)), BackendError::Full(_)));
        let named =
            classify_error(&refusal("NOPERM User canary has no permissions to run the 'get' command")).to_string();
        assert!(named.contains("User *** has no permissions to run the 'get' command"), "{named}");
        for says in ["NOPERM this user has no permissions", "WRONGTYPE Operation against a key", "ERR unknown command"]
        {
            assert!(matches!(classify_error(&refusal(says)), BackendError::Refused(_)), "{says}");
        }
        let message = classify_error(&refusal("NOAUTH Authentication required.")).to_string();
        assert!(message.contains("redis://:PASSWORD@HOST:PORT (with the colon)"), "{message}");
    }

    #[test]
    fn the_error_of_a_moving_slot_names_the_resharding() {
        for says in ["TRYAGAIN Multiple keys request during rehashing of slot", "ASK 3999 127.0.0.1:6381"] {
            let message = classify_error(&refusal(says)).to_string();
            assert!(message.contains("resharding") && message.contains("resumes automatically"), "{message}");
        }
    }

    #[test]
    fn a_script_declares_two_keys_of_one_slot() {
        for (key, other) in [("{thing:update}:", "{thing:update}:."), ("plain", "{plain}:.")] {
            assert_eq!(nonexistent_key(key), other);
        }
    }

    #[test]
    fn a_replica_and_silence_end_a_connection() {
        assert!(is_connection_lost(&refusal("READONLY You can't write against a read only replica.")));
        assert!(is_connection_lost(&RedisError::from(std::io::Error::from(std::io::ErrorKind::TimedOut))));
        assert!(!is_connection_lost(&refusal("OOM command not allowed when used memory > 'maxmemory'.")));
    }
}
