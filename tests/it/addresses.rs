//! Every form of `queue.redis.url`, against the servers it is for.

use std::time::Duration;

use twitter_updater::app::function_library;
use twitter_updater::engine::queue::{Claim, ClaimRequest, Jobs, Lane, NewJob, QueueError, RedisQueue, Verdict};
use twitter_updater::quota::{Grant, Ledger, PermitRequest, RedisLedger};

use crate::support::process::{run, text, variables};
use crate::support::redis::{Cluster, Doors, TestRedis, Watched, namespace, pool_through};
use crate::support::users::Guarded;
use crate::support::wait::until_true;

const PASSWORD: &str = "canary1";

/// A job's whole way, a permit and the picture.
async fn goes_through(url: &str, doors: &Doors) -> Result<(), QueueError> {
    let redis = pool_through(url, doors.tls(), 2);
    let queue = RedisQueue::new(redis.clone(), &namespace());
    queue.check().await?;
    let lane = Lane::new("18m", Duration::from_secs(180));
    queue.schedule(&[NewJob { id: "20".to_owned(), lane, due: 0.into() }]).await?;
    let (linger, lease) = (Duration::ZERO, Duration::from_secs(60));
    let request = ClaimRequest { token: "t", limit: 100, linger, lookahead: 0.0, early: 0.0, lease };
    let Claim::Batch(batch) = queue.claim(&request).await? else { panic!("nothing is due") };
    let verdicts: Vec<_> = batch.jobs.iter().map(|job| (job.clone(), Verdict::Finish)).collect();
    assert_eq!(queue.settle(&batch.fence, &verdicts, &[]).await?.settled, 1);
    let names = ["main".to_owned()];
    let ask = PermitRequest {
        names: &names,
        fingerprints: &[],
        endpoint: "statuses/lookup",
        permit: "p",
        expiry: lease,
        backlog: 0,
    };
    let granted = RedisLedger::new(redis.clone(), &namespace()).acquire(&ask).await?;
    assert_eq!(granted, Grant::Granted("main".to_owned()));
    function_library().load(&redis).await
}

/// The binary with that address: its exit code, and what it says of a queue that it cannot use.
fn binary(url: &str, doors: &Doors, settings_given: &[&str]) -> (i32, String) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tweets.db");
    let certificates = doors.settings();
    let mut settings = variables(&[
        ("queue.backend", "redis"),
        ("queue.redis.url", url),
        ("queue.redis.connect_timeout", "5s"),
        // Servers that Sentinels and nodes name may be anywhere.
        ("queue.redis.allow_plain_password", "true"),
        ("store.sqlite.path", file.to_str().unwrap()),
        ("twitter.api", "http://127.0.0.1:9"),
        ("log.level", "error"),
    ]);
    for (setting, file) in certificates.iter().filter(|(setting, _)| settings_given.contains(setting)) {
        settings.extend(variables(&[(&format!("queue.redis.{setting}"), file)]));
    }
    let output = run(&["status"], &settings);
    let said = text(&output.stderr);
    assert!(!said.contains("canary"), "{said}");
    (output.status.code().unwrap(), said)
}

const ALL: &[&str] = &["ca_file", "cert_file", "key_file"];

async fn works(url: &str, doors: &Doors) {
    goes_through(url, doors).await.unwrap();
    assert_eq!(binary(url, doors, ALL), (0, String::new()), "{url}");
}

/// A password that is not theirs is refused as such.
async fn refuses(url: &str, doors: &Doors) {
    let why = goes_through(url, doors).await.unwrap_err();
    assert!(matches!(&why, QueueError::Refused(why) if why.contains("user or password")), "{url}: {why}");
    let (code, said) = binary(url, doors, ALL);
    assert!(code == 69 && said.lines().count() == 1 && said.contains("password"), "{said}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_server_by_its_password_and_its_users() {
    works(&TestRedis::start_at_a_port(&[]).url, &Doors::default()).await;
    let doors = Doors::default().with_password(PASSWORD);
    let redis = TestRedis::start_behind(&doors, &["--user", "me", "on", ">canary@2", "~*", "+@all"]);
    let host = redis.host_and_port();
    for user in [":canary1@", "default:canary1@", "me:canary%402@"] {
        works(&format!("redis://{user}{host}"), &doors).await;
        works(&format!("redis://{user}{host}/3"), &doors).await;
    }
    let mut raw = redis.connection().await;
    let () = redis::cmd("SELECT").arg(3).query_async(&mut raw).await.unwrap();
    let keys: Vec<String> = redis::cmd("KEYS").arg("*:stats").query_async(&mut raw).await.unwrap();
    assert!(!keys.is_empty(), "the database that was named");
    for user in [":canary3@", "me:canary1@", "nobody:canary1@"] {
        refuses(&format!("redis://{user}{host}"), &doors).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_socket() {
    let open = TestRedis::start(&[]);
    works(&open.url, &Doors::default()).await;
    let guarded = Guarded::start();
    works(&guarded.url("app"), &Doors::default()).await;
    refuses(&format!("{}?user=app&pass=canary", guarded.redis.url), &Doors::default()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_server_by_tls() {
    let doors = Doors::default().with_password(PASSWORD).with_tls();
    let redis = TestRedis::start_behind(&doors, &[]);
    assert!(redis.url.starts_with("rediss://:canary1@"), "{}", redis.url);
    works(&redis.url, &doors).await;
    refuses(&doors.url_as("", ":canary3@", redis.host_and_port()), &doors).await;
    // Nobody the system trusts has vouched for it; and it does not know us.
    for (files, says) in [(&[][..], "queue.redis.ca_file names"), (&["ca_file"], "queue.redis.cert_file and key_file")]
    {
        let (code, said) = binary(&redis.url, &doors, files);
        assert!(code == 69 && said.contains(says) && said.lines().count() == 1, "{said}");
    }
    // Another authority.
    let others = Doors::default().with_tls();
    let (code, said) = binary(&redis.url, &others, ALL);
    assert!(code == 69 && said.contains("certificate"), "{said}");
    // Not the host that the certificate is for.
    let elsewhere = redis.url.replace("127.0.0.1", "localhost");
    let (code, said) = binary(&elsewhere, &doors, ALL);
    assert!(code == 69 && said.contains("certificate"), "{said}");
    let (code, said) = binary(&redis.url, &doors, &["cert_file"]);
    assert!(code == 64 && said.contains("go together"), "{said}");
}

async fn by_sentinels(doors: Doors) {
    let mut watched = Watched::start_behind(&doors).await;
    let url = watched.url.clone();
    works(&url, &doors).await;
    refuses(&url.replace(":canary1@", ":canary3@"), &doors).await;
    let (code, said) = binary(&url.replace("sentinel_password=canary1", "sentinel_password=canary3"), &doors, ALL);
    assert!(code == 69 && said.lines().count() == 1, "{said}");
    watched.master.kill();
    until_true("the other one is the master", Duration::from_secs(60), async || {
        goes_through(&url, &doors).await.is_ok()
    })
    .await;
    works(&url, &doors).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sentinels_by_passwords() {
    by_sentinels(Doors::default().with_password(PASSWORD)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sentinels_by_tls_and_passwords() {
    by_sentinels(Doors::default().with_password(PASSWORD).with_tls()).await;
}

async fn by_nodes(doors: Doors) {
    let cluster = Cluster::start_behind(&doors).await;
    // Each on one of the masters, and the ledger's on another.
    for _ in 0..4 {
        goes_through(&cluster.url, &doors).await.unwrap();
    }
    works(&cluster.url, &doors).await;
    // Any one of the nodes knows the others.
    works(&doors.url("+cluster", cluster.masters[2].host_and_port()), &doors).await;
    let (code, said) = binary(&cluster.url.replace(":canary1@", ":canary3@"), &doors, ALL);
    assert!(code == 69 && said.lines().count() == 1, "{said}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_by_its_password() {
    by_nodes(Doors::default().with_password(PASSWORD)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_by_tls_and_its_password() {
    by_nodes(Doors::default().with_password(PASSWORD).with_tls()).await;
}
