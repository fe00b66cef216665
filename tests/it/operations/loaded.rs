//! A queue with something in every place, and the programs that the documents' lines name.

use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;
use twitter_updater::app::function_library;
use twitter_updater::base::clock::wall_ms;
use twitter_updater::engine::queue::{
    Claim, Inbox, Incoming, Job, Jobs, Lane, Lateness, NewJob, RedisQueue, Verdict, Workers,
};
use twitter_updater::pipelines::posts::NAMESPACE;
use twitter_updater::providers::twitter_v1::CAPABILITIES;
use twitter_updater::quota::{CallRecord, Ledger, Park, PermitRequest, RedisLedger, Window};

use super::shell;
use crate::support::claim;
use crate::support::process::variables;
use crate::support::redis::pool;
use crate::support::users::{Guarded, password};

const MINUTE: i64 = 60_000;
const LEASE: Duration = Duration::from_secs(600);

/// All of it, put there by the user that the binary has.
pub struct Loaded {
    pub guarded: Guarded,
    folder: TempDir,
}

fn program(folder: &Path, name: &str, text: &str) {
    let file = folder.join(name);
    std::fs::write(&file, format!("#!/bin/sh\n{text}\n")).unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).unwrap();
}

impl Loaded {
    pub async fn new() -> Self {
        let (guarded, folder) = (Guarded::start(), tempfile::tempdir().unwrap());
        let redis = pool(&guarded.url("app"));
        let queue = RedisQueue::new(redis.clone(), NAMESPACE);
        queue.check().await.unwrap();
        function_library().load(&redis).await.unwrap();
        fill(&queue, &guarded).await;
        use_credentials(&RedisLedger::new(redis, "twitter")).await;

        let loaded = Self { guarded, folder };
        let programs = loaded.folder.path();
        let redis_cli = format!("exec redis-cli -s {} --user \"$AS\" \"$@\"", loaded.guarded.socket());
        // Found behind this folder.
        program(programs, "redis-cli", &format!("PATH=${{PATH#*:}}\n{redis_cli}"));
        program(programs, "kubectl", "while [ \"$1\" != -- ]; do shift; done; shift; exec \"$@\"");
        program(programs, "twitter-updater", &format!("exec {} \"$@\"", env!("CARGO_BIN_EXE_twitter-updater")));
        assert!(loaded.command("twitter-updater migrate", "app").output().unwrap().status.success());
        loaded
    }

    /// A line as that user.
    pub fn command(&self, line: &str, user: &str) -> Command {
        let mut command = shell(line, self.folder.path());
        let (url, store) = (self.guarded.url(user), self.folder.path().join("tweets.db"));
        let settings = variables(&[
            ("queue.backend", "redis"),
            ("queue.redis.url", &url),
            ("store.sqlite.path", store.to_str().unwrap()),
            ("log.level", "warn"),
        ]);
        command.envs(settings).env("AS", user).env("REDISCLI_AUTH", password(user)).stdin(Stdio::null());
        command
    }

    /// One that goes on for ever: what it said until it began for the third time.
    pub fn run_until_it_said_twice(&self, line: &str, user: &str, beginning: &str) -> String {
        // The shell and redis-cli are one process then.
        let mut child = self.command(&format!("exec {line}"), user).stdout(Stdio::piped()).spawn().unwrap();
        let (mut said, mut times) = (String::new(), 0);
        for line in BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap) {
            times += usize::from(line.starts_with(beginning));
            if times == 3 {
                break;
            }
            said += &(line + "\n");
        }
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(times, 3, "{said}");
        said
    }
}

/// 20 and 24 are leased, 22 is expired; 21, 25, 26 and 27 delayed; 23, 28 and 29 dead; 30 incoming, x1 refused.
async fn fill(queue: &RedisQueue, guarded: &Guarded) {
    let (young, old) = (Lane::new("18m", Duration::from_secs(180)), Lane::new("1d", Duration::from_secs(3_600)));
    let job = |id: &str, lane: &Lane, delay: i64| NewJob { id: id.to_owned(), lane: lane.clone(), due: delay.into() };

    let dead = [("23", "refused (HTTP 400)"), ("28", "refused (HTTP 400)"), ("29", "its worker died with it")];
    let ids: Vec<_> = dead.iter().map(|(id, _)| (*id).to_owned()).collect();
    let taken = queue.adopt("bury", &ids, LEASE).await.unwrap();
    let verdicts: Vec<_> = dead
        .iter()
        .map(|(id, reason)| {
            let job = Job {
                id: (*id).to_owned(),
                lane: "18m".into(),
                due: 0,
                deliveries: 0,
                failures: 0,
                order: Default::default(),
            };
            (job, Verdict::MarkDead { reason: (*reason).to_owned() })
        })
        .collect();
    assert_eq!(queue.settle(&taken.fence, &verdicts, &[]).await.unwrap().settled, 3);

    queue.schedule(&[job("20", &young, 0), job("24", &young, 0)]).await.unwrap();
    let token = "web-1-77-0123456789abcdef";
    let request = claim::at_once(token, 2, LEASE);
    assert!(matches!(queue.claim(&request).await.unwrap(), Claim::Batch(batch) if batch.jobs.len() == 2));
    let delayed = [job("21", &young, 330 * MINUTE), job("25", &old, 48 * MINUTE), job("27", &young, 3 * MINUTE)];
    queue.schedule(&delayed).await.unwrap();
    // As time and a worker's death would have it.
    let (mut admin, now) = (guarded.admin().await, wall_ms());
    redis::pipe()
        .zadd("{tweet:update}:delayed:18m", "26", now - 90 * MINUTE)
        .zadd("{tweet:update}:leased", "22", now - 5_000)
        .hset("{tweet:update}:deliveries", "22", 2)
        .exec_async(&mut admin)
        .await
        .unwrap();

    queue.add_incoming(&["30", "x1"].map(|id| Incoming { member: id.to_owned(), created_at: 0 })).await.unwrap();
    queue.refuse_incoming(&[("x1".to_owned(), "not a digit".to_owned())]).await.unwrap();
    let fields = [
        ("version", "0.1.0"),
        ("concurrency", "4"),
        ("requests", "12345"),
        ("late_p99_ms", "812"),
        ("config_revision", "8f2c1a"),
    ];
    let fields = fields.map(|(name, value)| (name, value.to_owned()));
    queue.heartbeat("web-1-77", &fields, &[("requests", 10), ("looked_up", 970)], &Lateness::default()).await.unwrap();
}

/// One that works, and one that is parked.
async fn use_credentials(ledger: &RedisLedger) {
    let names = ["main".to_owned()];
    let endpoint = CAPABILITIES.endpoint;
    let ask = PermitRequest { names: &names, fingerprints: &[], endpoint, permit: "p", expiry: LEASE, backlog: 0 };
    ledger.acquire(&ask).await.unwrap();
    let window =
        Window { limit: 900, remaining: 640, reset_at: wall_ms() + 10 * MINUTE, reset_in: 10 * MINUTE, length: None };
    ledger
        .record_call("main", endpoint, "p", &CallRecord { window: Some(window), ..CallRecord::default() })
        .await
        .unwrap();
    let park = Park {
        pause: Duration::from_secs(900),
        why: "its account is locked (HTTP 403, code 326)".to_owned(),
        everywhere: true,
    };
    ledger
        .record_call("second", endpoint, "", &CallRecord { park: Some(park), ..CallRecord::default() })
        .await
        .unwrap();
}
