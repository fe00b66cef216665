//! Connections of each kind, for the pool.
//!
//! deadpool-redis has its own pools for Sentinel and Cluster. They take no timeouts, and their response timeout of 500 ms
//! is too short for a Redis that rewrites its AOF.

use std::sync::Arc;
use std::time::Duration;

use deadpool::managed::{self, Metrics, RecycleResult};
use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::cluster::{ClusterClient, ClusterClientBuilder};
use redis::cluster_async::ClusterConnection;
use redis::io::tcp::TcpSettings;
use redis::sentinel::{SentinelClient, SentinelClientBuilder, SentinelServerType};
use redis::{
    AsyncConnectionConfig, Cmd, ConnectionAddr, ConnectionInfo, Pipeline, RedisError, RedisFuture, RedisResult,
    TlsMode, Value,
};
use secrecy::SecretString;
use tokio::sync::Mutex;

use super::Tls;
use super::address::Address;

#[derive(Debug, Clone)]
pub struct RedisOptions {
    /// One of the forms in [`address`](super::address). It may hold a password, so it is never shown.
    pub url: SecretString,
    /// For `rediss…`, if the system's certificates do not fit.
    pub tls: Tls,
    pub connections: usize,
    /// Time limit for a connection to a server; then the next Sentinel or node is tried.
    pub connect_timeout: Duration,
    /// Time limit for a response. (The client's default of 500 ms is too short for a Redis that rewrites its AOF.)
    pub response_timeout: Duration,
}

/// A connection that was used within this time is used again without a check.
const UNCHECKED_FOR: Duration = Duration::from_secs(1);

/// Repeats and waits (ms) of a cluster's client, for a call that was redirected or that a node cannot answer at the moment.
const CLUSTER_RETRIES: u32 = 5;
const CLUSTER_WAIT_MS: std::ops::Range<u64> = 50..400;

/// Makes connections, and checks idle ones before use.
pub enum Connector {
    One(deadpool_redis::Manager),
    Sentinel(Arc<Mutex<SentinelClient>>, AsyncConnectionConfig),
    Cluster(ClusterClient),
}

impl Connector {
    pub(super) fn new(address: Address, options: &RedisOptions) -> RedisResult<Self> {
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(options.connect_timeout))
            .set_response_timeout(Some(options.response_timeout));
        let tls = &options.tls;
        Ok(match address {
            Address::One(server) => Self::One(deadpool_redis::Manager::new_with_config(tls.apply_to(server)?, config)?),
            Address::Sentinel { sentinels, service, server_template } => {
                let client = sentinel_client(sentinels, &service, &server_template, tls)?;
                Self::Sentinel(Arc::new(Mutex::new(client)), config)
            }
            Address::Cluster(nodes) => {
                let mut cluster = ClusterClientBuilder::new(nodes)
                    .connection_timeout(options.connect_timeout)
                    .response_timeout(options.response_timeout)
                    // The client's own waits are longer than the whole response timeout: a call for a slot that is being moved would
                    // time out. Five of ours take 2 s at the most.
                    .retries(CLUSTER_RETRIES)
                    .min_retry_wait(CLUSTER_WAIT_MS.start)
                    .max_retry_wait(CLUSTER_WAIT_MS.end)
                    .retry_wait_formula(CLUSTER_WAIT_MS.start, 2)
                    .tcp_settings(TcpSettings::default().set_nodelay(true));
                if let Some(certificates) = tls.certificates() {
                    cluster = cluster.certs(certificates.clone());
                }
                Self::Cluster(cluster.build()?)
            }
        })
    }

    /// Number of successive connects before a connection is usable. Each of them may time out.
    pub(super) fn connects_in_a_row(&self) -> u32 {
        match self {
            Self::One(_) => 1,
            // Connects with Sentinels: to all Sentinels at once, to the master to check its role, and to the master for use. Connects
            // with a Cluster: to the named nodes, to the nodes that these name, and to one of them for the slots.
            Self::Sentinel(..) | Self::Cluster(_) => 3,
        }
    }
}

/// A client that asks these Sentinels for servers like `server_template`. The Sentinels share their credentials.
fn sentinel_client(
    sentinels: Vec<ConnectionInfo>,
    service: &str,
    server_template: &ConnectionInfo,
    tls: &Tls,
) -> RedisResult<SentinelClient> {
    let sentinels: Vec<_> = sentinels.into_iter().map(|sentinel| tls.apply_to(sentinel)).collect::<RedisResult<_>>()?;
    let own = sentinels.first().map(|sentinel| sentinel.redis_settings().clone()).unwrap_or_default();
    let addresses = sentinels.iter().map(|sentinel| sentinel.addr().clone());
    let servers = server_template.redis_settings();
    let nodelay = || TcpSettings::default().set_nodelay(true);
    let mut client = SentinelClientBuilder::new(addresses, service, SentinelServerType::Master)?
        .set_client_to_sentinel_tcp_settings(nodelay())
        .set_client_to_redis_tcp_settings(nodelay())
        .set_client_to_redis_db(servers.db());
    if let Some(user) = own.username() {
        client = client.set_client_to_sentinel_username(user);
    }
    if let Some(password) = own.password() {
        client = client.set_client_to_sentinel_password(password);
    }
    if let Some(user) = servers.username() {
        client = client.set_client_to_redis_username(user);
    }
    if let Some(password) = servers.password() {
        client = client.set_client_to_redis_password(password);
    }
    if matches!(server_template.addr(), ConnectionAddr::TcpTls { .. }) {
        client = client.set_client_to_redis_tls_mode(TlsMode::Secure);
        if let Some(certificates) = tls.certificates() {
            client = client.set_client_to_redis_certificates(certificates.clone());
        }
    }
    client.build()
}

impl managed::Manager for Connector {
    type Type = Connection;
    type Error = RedisError;

    async fn create(&self) -> RedisResult<Connection> {
        Ok(match self {
            Self::One(manager) => Connection::Server(manager.create().await?),
            Self::Sentinel(client, config) => {
                Connection::Server(client.lock().await.get_async_connection_with_config(config).await?)
            }
            Self::Cluster(client) => Connection::Cluster(client.get_async_connection().await?),
        })
    }

    async fn recycle(&self, connection: &mut Connection, metrics: &Metrics) -> RecycleResult<RedisError> {
        // A check before each call would double the round trips. A call on a connection that just broke gets the error, and
        // every call may be repeated.
        if metrics.last_used() < UNCHECKED_FOR {
            return Ok(());
        }
        match (self, connection) {
            (Self::One(manager), Connection::Server(connection)) => manager.recycle(connection, metrics).await,
            (_, Connection::Server(connection)) => Ok(redis::cmd("PING").query_async::<()>(connection).await?),
            // It reconnects automatically, and a node that is down does not affect the others.
            (_, Connection::Cluster(_)) => Ok(()),
        }
    }
}

pub enum Connection {
    Server(MultiplexedConnection),
    /// To all nodes of a cluster: each command goes to the node of its key.
    Cluster(ClusterConnection),
}

impl ConnectionLike for Connection {
    fn req_packed_command<'a>(&'a mut self, command: &'a Cmd) -> RedisFuture<'a, Value> {
        match self {
            Self::Server(connection) => connection.req_packed_command(command),
            Self::Cluster(connection) => connection.req_packed_command(command),
        }
    }

    fn req_packed_commands<'a>(
        &'a mut self,
        commands: &'a Pipeline,
        offset: usize,
        count: usize,
    ) -> RedisFuture<'a, Vec<Value>> {
        match self {
            Self::Server(connection) => connection.req_packed_commands(commands, offset, count),
            Self::Cluster(connection) => connection.req_packed_commands(commands, offset, count),
        }
    }

    fn get_db(&self) -> i64 {
        match self {
            Self::Server(connection) => connection.get_db(),
            Self::Cluster(connection) => connection.get_db(),
        }
    }
}
