//! A Redis with the users that the manifests give it, and passwords that nobody else has.

use std::sync::OnceLock;

use tempfile::TempDir;

use super::redis::{TestRedis, connect};

/// The users as they are deployed, without their passwords.
pub const USERS: &str = include_str!("../../../k8s/components/redis/users.acl");

/// One who may do everything, to look behind the others' backs.
const ADMIN: &str = "admin";

/// A server with those users.
pub struct Guarded {
    pub redis: TestRedis,
    _folder: TempDir,
}

/// That user's password.
pub fn password(user: &str) -> String {
    format!("pass-of-{user}")
}

fn sha256(text: &str) -> String {
    let digest = ring::digest::digest(&ring::digest::SHA256, text.as_bytes());
    digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

impl Guarded {
    pub fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut users = USERS.to_owned();
        for user in ["app", "watcher", "operator"] {
            let place = format!("{}_PASSWORD_SHA256", user.to_uppercase());
            assert_eq!(users.matches(&place).count(), 1, "{place}");
            users = users.replace(&place, &sha256(&password(user)));
        }
        users += &format!("user {ADMIN} on #{} ~* &* +@all\n", sha256(&password(ADMIN)));
        let file = folder.path().join("users.acl");
        std::fs::write(&file, users).unwrap();
        let settings = ["--aclfile", file.to_str().unwrap(), "--appendonly", "yes"];
        Self { redis: TestRedis::start(&settings), _folder: folder }
    }

    /// The address with that user and the password.
    pub fn url(&self, user: &str) -> String {
        format!("{}?user={user}&pass={}", self.redis.url, password(user))
    }

    /// The socket.
    pub fn socket(&self) -> &str {
        self.redis.url.strip_prefix("redis+unix://").unwrap()
    }

    /// A connection of one who may do everything.
    pub async fn admin(&self) -> redis::aio::MultiplexedConnection {
        self.as_user(ADMIN).await
    }

    /// A plain connection of that user.
    pub async fn as_user(&self, user: &str) -> redis::aio::MultiplexedConnection {
        connect(&self.url(user)).await.unwrap()
    }

    /// What users were refused so far: `user: command or key`.
    pub async fn refusals(&self) -> Vec<String> {
        let log: Vec<std::collections::HashMap<String, redis::Value>> =
            redis::cmd("ACL").arg("LOG").query_async(&mut self.admin().await).await.unwrap();
        let text = |value: &redis::Value| redis::from_redis_value_ref::<String>(value).unwrap();
        log.iter().map(|entry| format!("{}: {}", text(&entry["username"]), text(&entry["object"]))).collect()
    }

    /// The one that all tests of this process share, each in its own namespace.
    pub fn shared() -> &'static Self {
        static SHARED: OnceLock<Guarded> = OnceLock::new();
        SHARED.get_or_init(Self::start)
    }
}
