//! Redis: the pool, the scripts' common part, and what its errors mean.

use std::time::Duration;

use deadpool_redis::{Connection, Manager, Pool, Runtime};
use redis::io::tcp::TcpSettings;
use redis::{
    AsyncConnectionConfig, ErrorKind, FromRedisValue, InfoDict, IntoConnectionInfo, RedisError, Script,
    ScriptInvocation,
};
use secrecy::{ExposeSecret, SecretString};

use super::BackendError;

/// Still drains when memory is full.
pub const ALLOW_OOM: &str = "flags=allow-oom";
/// Refused when memory is full.
pub const DENY_OOM: &str = "";
/// May run on a replica and for a read-only user.
pub const NO_WRITES: &str = "flags=no-writes";

/// A script: its flags, what all of them share, and its own text.
#[must_use]
pub fn script(flags: &str, own: &str) -> Script {
    Script::new(&format!("#!lua {flags}\n{}\n{own}", include_str!("common.lua")))
}

/// How to reach Redis.
#[derive(Debug, Clone)]
pub struct RedisOptions {
    /// `redis://`, `rediss://` or `redis+unix://`; may hold a password, so it is shown nowhere.
    pub url: SecretString,
    /// Connections, at the most.
    pub connections: usize,
    /// How long to wait for a connection.
    pub connect_timeout: Duration,
    /// How long to wait for an answer. (The client's own default is 500 ms, which a Redis that
    /// rewrites its AOF exceeds now and then.)
    pub response_timeout: Duration,
}

/// Connections to one Redis, shared by all namespaces of a process.
#[derive(Clone)]
pub struct RedisPool {
    pool: Pool,
}

impl std::fmt::Debug for RedisPool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("RedisPool")
    }
}

impl RedisPool {
    /// A pool; nothing is connected yet.
    ///
    /// # Errors
    /// [`BackendError::Refused`] for a URL that is none.
    pub fn new(options: &RedisOptions) -> Result<Self, BackendError> {
        // The error of a bad URL may quote it, password included; ours does not.
        let refused = |_| BackendError::Refused("queue.redis.url is not a redis:// address".to_owned());
        let info = options.url.expose_secret().into_connection_info().map_err(refused)?;
        let info = info.set_tcp_settings(TcpSettings::default().set_nodelay(true));
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(options.connect_timeout))
            .set_response_timeout(Some(options.response_timeout));
        let manager = Manager::new_with_config(info, config).map_err(refused)?;
        let pool = Pool::builder(manager)
            .max_size(options.connections.max(1))
            .runtime(Runtime::Tokio1)
            .wait_timeout(Some(options.response_timeout))
            .create_timeout(Some(options.connect_timeout))
            .recycle_timeout(Some(options.response_timeout))
            .build()
            .map_err(|error| BackendError::Refused(format!("the Redis pool cannot be built: {error}")))?;
        Ok(Self { pool })
    }

    /// A connection, checked or new.
    ///
    /// # Errors
    /// [`BackendError::Unavailable`] when there is none to be had in time.
    pub async fn connection(&self) -> Result<Connection, BackendError> {
        self.pool.get().await.map_err(|error| match error {
            deadpool_redis::PoolError::Backend(error) => decide(&error),
            other => BackendError::Unavailable(format!("no connection to Redis: {other}")),
        })
    }

    /// Runs a script.
    ///
    /// # Errors
    /// What the server says, or that it says nothing.
    pub async fn invoke<T: FromRedisValue>(&self, invocation: &ScriptInvocation<'_>) -> Result<T, BackendError> {
        let mut connection = self.connection().await?;
        invocation.invoke_async(&mut *connection).await.map_err(|error| decide(&error))
    }

    /// What the server says of itself.
    ///
    /// # Errors
    /// What the server says, or that it says nothing.
    pub async fn info(&self) -> Result<InfoDict, BackendError> {
        let mut connection = self.connection().await?;
        redis::cmd("INFO").query_async(&mut *connection).await.map_err(|error| decide(&error))
    }

    /// Runs a pipeline.
    ///
    /// # Errors
    /// What the server says, or that it says nothing.
    pub async fn run<T: FromRedisValue>(&self, pipeline: &redis::Pipeline) -> Result<T, BackendError> {
        let mut connection = self.connection().await?;
        pipeline.query_async(&mut *connection).await.map_err(|error| decide(&error))
    }
}

/// What a Redis error means for the caller.
#[must_use]
pub fn decide(error: &RedisError) -> BackendError {
    let text = error.to_string(); // a server's own words, or of input and output: no secret
    // Of a pipeline, the first that was refused.
    let refusals = error.clone().into_server_errors();
    let code = refusals.as_ref().and_then(|all| Some(all.first()?.1.code())).or_else(|| error.code());
    if code == Some("OOM") {
        return BackendError::Full("Redis has reached its maxmemory: raise it, or let the queue drain".to_owned());
    }
    match error.kind() {
        ErrorKind::AuthenticationFailed => BackendError::Refused("Redis refuses the user or password".to_owned()),
        ErrorKind::Server(_) | ErrorKind::Extension => match code {
            Some(
                "LOADING" | "BUSY" | "NOSCRIPT" | "READONLY" | "MASTERDOWN" | "CLUSTERDOWN" | "TRYAGAIN" | "MISCONF"
                | "NOREPLICAS",
            )
            | Some("MOVED" | "ASK" | "UNBLOCKED") => BackendError::Unavailable(text),
            _ => BackendError::Refused(format!("Redis refuses: {text}")),
        },
        ErrorKind::UnexpectedReturnType | ErrorKind::Parse => {
            BackendError::Refused(format!("Redis answered in a shape we do not know: {text}"))
        }
        _ => BackendError::Unavailable(text),
    }
}
