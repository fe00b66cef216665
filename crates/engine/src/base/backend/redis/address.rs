//! The forms of `queue.redis.url`.
//!
//! | form | is |
//! |---|---|
//! | `redis://[user:password@]host[:port][/db]` | one server |
//! | `redis+unix:///path` | one server's socket |
//! | `redis+sentinel://[user:password@]host[:port][,host[:port]…]/service[/db]` | the master that these Sentinels name |
//! | `redis+cluster://[user:password@]host[:port][,host[:port]…]` | the cluster these nodes belong to |
//!
//! `rediss…` uses TLS, for Sentinels and servers alike. User and password are those of the servers. Sentinels with their
//! own need `?sentinel_user=…&sentinel_password=…`.

use redis::io::tcp::TcpSettings;
use redis::{ConnectionAddr, ConnectionInfo, IntoConnectionInfo, RedisConnectionInfo};

use crate::base::backend::loopback::is_loopback;

const SENTINEL_PORT: u16 = 26_379;

/// Checks an address. The error repeats no part of it, since it may hold a password.
pub fn check(url: &str) -> Result<(), &'static str> {
    Address::read(url).map(drop)
}

#[must_use]
pub fn is_secure(url: &str) -> bool {
    Address::read(url).is_ok_and(|address| address.is_secure())
}

/// Returns true if a connection sends a password in clear text, and not only to this machine.
#[must_use]
pub fn sends_plain_password(url: &str) -> bool {
    Address::read(url).is_ok_and(|address| address.sends_plain_password())
}

pub(super) enum Address {
    One(ConnectionInfo),
    /// `server_template` has the credentials for the servers; its host name is unused.
    Sentinel {
        sentinels: Vec<ConnectionInfo>,
        service: String,
        server_template: Box<ConnectionInfo>,
    },
    Cluster(Vec<ConnectionInfo>),
}

impl Address {
    /// Parses an address; the error is that of [`check`].
    pub fn read(url: &str) -> Result<Self, &'static str> {
        let parts = AddressParts::parse(url).ok_or(NO_ADDRESS)?;
        let (scheme, is_sentinel) = match parts.scheme {
            "redis+sentinel" => ("redis", true),
            "rediss+sentinel" => ("rediss", true),
            "redis+cluster" => ("redis", false),
            "rediss+cluster" => ("rediss", false),
            _ => return Ok(Self::One(server(url)?)),
        };
        let AddressParts { user, hosts, path, query, .. } = parts;
        let hosts = hosts.split(',');
        if !is_sentinel {
            let node = |host| server(&format!("{scheme}://{user}{host}{path}{query}"));
            return Ok(Self::Cluster(hosts.map(node).collect::<Result<_, _>>()?));
        }
        let path = path.strip_prefix('/').unwrap_or_default();
        let (service, db) = path.split_once('/').unwrap_or((path, ""));
        if service.is_empty() {
            return Err("it has to name the service the Sentinels watch: …host:26379/service");
        }
        // The credentials for the servers, in the form of a server's address.
        let server_template = server(&format!("{scheme}://{user}server/{db}{query}"))?;
        let own = sentinel_credentials(query);
        let sentinel = |host: &str| {
            let port = if has_port(host) { String::new() } else { format!(":{SENTINEL_PORT}") };
            Ok(server(&format!("{scheme}://{host}{port}"))?.set_redis_settings(own.clone()))
        };
        let sentinels = hosts.map(sentinel).collect::<Result<_, &'static str>>()?;
        Ok(Self::Sentinel { sentinels, service: service.to_owned(), server_template: Box::new(server_template) })
    }

    fn is_secure(&self) -> bool {
        let first = match self {
            Self::One(server) => Some(server),
            Self::Sentinel { server_template, .. } => Some(&**server_template),
            Self::Cluster(nodes) => nodes.first(),
        };
        first.is_some_and(|server| matches!(server.addr(), ConnectionAddr::TcpTls { .. }))
    }

    fn sends_plain_password(&self) -> bool {
        let is_plain = |server: &ConnectionInfo| {
            server.redis_settings().password().is_some() && matches!(server.addr(), ConnectionAddr::Tcp(..))
        };
        let is_remote = |server: &ConnectionInfo| match server.addr() {
            ConnectionAddr::Tcp(host, _) => !is_loopback(host),
            _ => false,
        };
        match self {
            Self::One(server) => is_plain(server) && is_remote(server),
            // Sentinels name the servers, and nodes name the other nodes: these may be anywhere.
            Self::Sentinel { sentinels, server_template, .. } => {
                is_plain(server_template) || sentinels.iter().any(|sentinel| is_plain(sentinel) && is_remote(sentinel))
            }
            Self::Cluster(nodes) => nodes.iter().any(is_plain),
        }
    }
}

/// No delay: Redis sends short replies, and each should arrive at once.
fn tcp_settings() -> TcpSettings {
    TcpSettings::default().set_nodelay(true)
}

const NO_ADDRESS: &str = "it is none of redis://, rediss://, redis+unix://, redis+sentinel:// and redis+cluster://";

fn server(url: &str) -> Result<ConnectionInfo, &'static str> {
    let info = url.into_connection_info().map_err(|_| password_escape_hint(url).unwrap_or(NO_ADDRESS))?;
    // Redis 7.2 and later would log a rejected CLIENT SETINFO for each connection: users.acl cannot allow a command that
    // Redis 7.0 does not have.
    let settings = info.redis_settings().clone().set_skip_set_lib_name();
    Ok(info.set_tcp_settings(tcp_settings()).set_redis_settings(settings))
}

fn sentinel_credentials(query: &str) -> RedisConnectionInfo {
    let mut own = RedisConnectionInfo::default();
    let Some(url) = redis::parse_redis_url(&format!("redis://sentinel{query}")) else { return own };
    for (key, value) in url.query_pairs() {
        own = match &*key {
            "sentinel_user" => own.set_username(value),
            "sentinel_password" => own.set_password(value),
            _ => own,
        };
    }
    own
}

fn has_port(host: &str) -> bool {
    host.rsplit_once(':').is_some_and(|(_, port)| !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Reason why an address of any service cannot be parsed, if its password has a character that ends the host.
#[must_use]
pub fn password_escape_hint(url: &str) -> Option<&'static str> {
    let AddressParts { path, query, .. } = AddressParts::parse(url)?;
    (path.contains('@') || query.contains('@'))
        .then_some("a /, ? or # before the @ ends the host: in a password write them as %2F, %3F and %23")
}

pub struct AddressParts<'a> {
    pub scheme: &'a str,
    /// `user:password@`, or empty.
    pub user: &'a str,
    pub hosts: &'a str,
    /// From the first slash on.
    pub path: &'a str,
    /// From the question mark on.
    pub query: &'a str,
}

impl<'a> AddressParts<'a> {
    /// `None` if it has no scheme.
    #[must_use]
    pub fn parse(url: &'a str) -> Option<Self> {
        let (scheme, rest) = url.split_once("://")?;
        let (authority, path) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
        let (path, query) = path.split_at(path.find(['?', '#']).unwrap_or(path.len()));
        let (user, hosts) = authority.split_at(authority.rfind('@').map_or(0, |at| at + 1));
        Some(Self { scheme, user, hosts, path, query })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_server() {
        for url in ["redis://127.0.0.1:6379", "rediss://u:p@host/2", "redis+unix:///run/redis.sock?pass=p"] {
            assert!(matches!(Address::read(url), Ok(Address::One(_))), "{url}");
        }
        assert!(check("http://host").unwrap_err().contains("rediss://"));
    }

    #[test]
    fn sentinels_and_their_service() {
        let url = "redis+sentinel://me:a%40b@one,two:5,[::1],[::2]:7/things/3?sentinel_user=s&sentinel_password=x%26y";
        let Ok(Address::Sentinel { sentinels, service, server_template }) = Address::read(url) else { panic!("{url}") };
        let addresses: Vec<_> = sentinels.iter().map(|info| info.addr().to_string()).collect();
        assert_eq!(addresses, ["one:26379", "two:5", "::1:26379", "::2:7"]);
        assert_eq!(service, "things");
        let own = sentinels[3].redis_settings();
        assert_eq!((own.username(), own.password(), own.db()), (Some("s"), Some("x&y"), 0));
        let servers = server_template.redis_settings();
        assert_eq!((servers.username(), servers.password(), servers.db()), (Some("me"), Some("a@b"), 3));
        assert!(!Address::read(url).unwrap().is_secure());
        let secure = Address::read("rediss+sentinel://one/x").unwrap();
        assert!(secure.is_secure());
        let Address::Sentinel { sentinels, .. } = secure else { panic!() };
        assert!(matches!(sentinels[0].addr(), ConnectionAddr::TcpTls { insecure: false, .. }));
    }

    #[test]
    fn nodes_of_a_cluster() {
        let Ok(Address::Cluster(nodes)) = Address::read("rediss+cluster://:p@one:1,two:2") else { panic!() };
        let addresses: Vec<_> = nodes.iter().map(|info| info.addr().to_string()).collect();
        assert_eq!(addresses, ["one:1", "two:2"]);
        assert!(nodes.iter().all(|node| node.redis_settings().password() == Some("p")));
        assert!(matches!(nodes[1].addr(), redis::ConnectionAddr::TcpTls { .. }));
    }

    #[test]
    fn a_password_in_clear_text_stays_on_this_machine() {
        for url in [
            "redis://:p@redis:6379",
            "redis://u:p@10.0.0.7/2",
            "redis://:p@[2001:db8::1]:6379",
            "redis+sentinel://:p@one,two/items",
            "redis+sentinel://one/items?sentinel_password=p",
            "redis+sentinel://:p@127.0.0.1:26379/items",
            "redis+cluster://:p@one,two",
            "redis+cluster://:p@127.0.0.1:7000",
        ] {
            assert!(sends_plain_password(url), "{url}");
            assert!(!sends_plain_password(&url.replacen("redis", "rediss", 1)), "{url}");
        }
        for url in [
            "redis://redis:6379",
            "redis://:p@localhost",
            "redis://:p@127.0.0.1:6379",
            "redis://:p@[::1]",
            "redis+unix:///s?pass=p",
            "redis+sentinel://one,two/items",
            "redis+sentinel://127.0.0.1/items?sentinel_password=p",
            "redis+cluster://one,two",
        ] {
            assert!(!sends_plain_password(url), "{url}");
        }
    }

    #[test]
    fn an_unescaped_password_is_refused_with_the_remedy() {
        for url in ["redis://:canary#1@host", "rediss://me:canary/1@host:1/0", "redis+cluster://:canary?1@one,two"] {
            assert!(Address::read(url).err().is_some_and(|why| why.contains("%2F")), "{url}");
        }
        assert!(Address::read("redis://:a%23b%2Fc%3Fd@host/0").is_ok());
    }

    #[test]
    fn what_is_no_address_is_refused_and_not_repeated() {
        for url in [
            "canary",
            "http://canary",
            "redis+sentinel://:canary@one:26379",
            "redis+sentinel://:canary@one:26379//0",
            "redis+sentinel://:canary@one:x/service",
            "redis+sentinel://:canary@one/service/db",
            "redis+sentinel:///service",
            "redis+cluster://:canary@",
            "redis+cluster://:canary@one,,two",
        ] {
            let why = Address::read(url).err().unwrap_or_else(|| panic!("{url} was taken"));
            assert!(!why.contains("canary"), "{why}");
        }
    }
}
