//! Servers that belong together.

use std::collections::HashMap;
use std::process::Command;
use std::time::Duration;

use tempfile::TempDir;
use tokio::sync::OnceCell;

use super::{Doors, Server, TestRedis, folder};
use crate::support::wait::until_true;

/// A master, a replica of it, and three Sentinels that watch them.
pub struct Watched {
    pub url: String,
    pub master: TestRedis,
    pub replica: TestRedis,
    doors: Doors,
    _sentinels: Vec<(Server, TempDir)>,
}

impl Watched {
    /// Starts them; returns when the replica has all that the master has, and the Sentinels know it.
    pub async fn start() -> Self {
        Self::start_behind(&Doors::default()).await
    }

    /// The same for whom those let in.
    pub async fn start_behind(doors: &Doors) -> Self {
        let master = TestRedis::start_behind(doors, &["--appendonly", "yes"]);
        let replica_of = master.host_and_port().replace(':', " ");
        let replica = TestRedis::start_behind(doors, &["--appendonly", "yes", "--replicaof", &replica_of]);
        let mut sentinels = Vec::new();
        let mut hosts = Vec::new();
        for _ in 0..3 {
            let folder = folder();
            let file = folder.path().join("sentinel.conf").display().to_string();
            let arguments = |port: u16, _| {
                let settings = format!(
                    "bind 127.0.0.1\ndir {}\nsentinel monitor tweets {replica_of} 2\n\
                     sentinel down-after-milliseconds tweets 500\nsentinel failover-timeout tweets 2000\n{}",
                    folder.path().display(),
                    doors.sentinel(port),
                );
                std::fs::write(&file, settings).unwrap();
                vec![file.clone(), "--sentinel".to_owned()]
            };
            let (server, port, _) = Server::start_at_a_port(arguments, "+monitor master");
            hosts.push(format!("127.0.0.1:{port}"));
            sentinels.push((server, folder));
        }
        for host in &hosts {
            let mut sentinel = doors.connect(&sentinels_url(doors, host)).await.unwrap();
            until_true("a Sentinel knows the replica and the others", Duration::from_secs(30), async || {
                let masters: Vec<HashMap<String, String>> =
                    redis::cmd("SENTINEL").arg("MASTERS").query_async(&mut sentinel).await.unwrap();
                masters[0]["num-slaves"] == "1" && masters[0]["num-other-sentinels"] == "2"
            })
            .await;
        }
        let own = doors.sentinels_password().map(|word| format!("?sentinel_password={word}")).unwrap_or_default();
        let url = doors.url("+sentinel", &format!("{}/tweets{own}", hosts.join(",")));
        Self { url, master, replica, doors: doors.clone(), _sentinels: sentinels }
    }

    /// Hands over to the server that was the master at first, once that is a replica in step.
    pub async fn back_to_the_first(&self) {
        // A Sentinel that gives a server its part ends the connections to it.
        let is = async |field: &str, value: &str| {
            let info = async {
                let mut first = self.master.try_connection().await?;
                redis::cmd("INFO").arg("replication").query_async::<redis::InfoDict>(&mut first).await
            };
            info.await.ok().and_then(|info| info.get::<String>(field)).is_some_and(|now| now == value)
        };
        let within = Duration::from_secs(60);
        until_true("it is a replica in step", within, async || is("master_link_status", "up").await).await;
        let sentinel = self.url.split(['/', ',', '@']).find(|part| part.starts_with("127.0.0.1")).unwrap();
        let mut sentinel = self.doors.connect(&sentinels_url(&self.doors, sentinel)).await.unwrap();
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
        // Redis 8 may have two connections for one replica.
        assert!(cut >= 1, "{cut}");
    }
}

/// The address of one Sentinel.
fn sentinels_url(doors: &Doors, host: &str) -> String {
    doors.url_as("", &doors.sentinels_password().map(|word| format!(":{word}@")).unwrap_or_default(), host)
}

/// Three masters that share the slots.
pub struct Cluster {
    pub url: String,
    pub masters: Vec<TestRedis>,
}

impl Cluster {
    /// Starts them; returns when each of them knows that every slot is served.
    pub async fn start() -> Self {
        Self::start_behind(&Doors::default()).await
    }

    /// The same for whom those let in.
    pub async fn start_behind(doors: &Doors) -> Self {
        let node = |_| TestRedis::start_behind(doors, &["--cluster-enabled", "yes", "--appendonly", "yes"]);
        let masters: Vec<_> = (0..3).map(node).collect();
        let hosts: Vec<_> = masters.iter().map(TestRedis::host_and_port).collect();
        let mut create = Command::new("redis-cli");
        create.args(doors.redis_cli());
        let made = create.args(["--cluster", "create"]).args(&hosts).arg("--cluster-yes").output().unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stdout));
        let url = doors.url("+cluster", &hosts.join(","));
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
