//! Secrets stay where they were put: whatever is logged, printed or stored, none of it holds one.

use redis::aio::MultiplexedConnection;
use secrecy::SecretString;
use sqlx::{AssertSqlSafe, PgPool};
use twitter_updater::simulator::{self, SimulatedCredential, SimulatedKeys, SimulatorOptions};

use super::*;
use crate::support::http::CANARY;
use crate::support::process::Process;
use crate::support::redis::{TestRedis, connect};
use crate::support::{postgres, wait::until_true};

const REDIS_CANARY: &str = "canary-2c11-of-redis";
const POSTGRES_CANARY: &str = "canary-95e0-of-postgres";

/// Everything in Redis, as text.
async fn everything_in_redis(connection: &mut MultiplexedConnection) -> String {
    let keys: Vec<String> = redis::cmd("KEYS").arg("*").query_async(connection).await.unwrap();
    let mut all = String::new();
    for key in keys {
        let kind: String = redis::cmd("TYPE").arg(&key).query_async(connection).await.unwrap();
        let command = match kind.as_str() {
            "string" => redis::cmd("GET").arg(&key).take(),
            "hash" => redis::cmd("HGETALL").arg(&key).take(),
            "set" => redis::cmd("SMEMBERS").arg(&key).take(),
            "zset" => redis::cmd("ZRANGE").arg(&key).arg(0).arg(-1).arg("WITHSCORES").take(),
            // It ended meanwhile.
            "none" => continue,
            other => panic!("{key} is a {other}"),
        };
        let value: redis::Value = command.query_async(connection).await.unwrap();
        all += &format!("{key} {value:?}\n");
    }
    all
}

/// Every row of every table, as text.
async fn everything_in_postgres(pool: &PgPool) -> String {
    let tables = "SELECT quote_ident(table_name) FROM information_schema.tables WHERE table_schema = 'public'";
    let mut all = String::new();
    for table in sqlx::query_scalar::<_, String>(tables).fetch_all(pool).await.unwrap() {
        let rows = AssertSqlSafe(format!("SELECT row_to_json(t)::text FROM {table} t"));
        all +=
            &format!("{table}\n{}\n", sqlx::query_scalar::<_, String>(rows).fetch_all(pool).await.unwrap().join("\n"));
    }
    all
}

fn nothing_holds_a_canary(said: &[(String, String)]) {
    for (place, text) in said {
        let line = text.lines().find(|line| line.to_lowercase().contains("canary"));
        assert_eq!(line, None, "{place} holds a secret");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_that_is_logged_printed_or_stored_holds_a_secret() {
    let home = Home::new();
    let redis = TestRedis::start(&["--requirepass", REDIS_CANARY]);
    let redis_url = format!("{}?pass={REDIS_CANARY}", redis.url);
    let database = postgres::database().await;
    let database = format!("{database}&password={POSTGRES_CANARY}");
    // It answers only those who send the token: so it is known to be in use.
    let options = SimulatorOptions {
        bearer_tokens: Some(vec![SecretString::from(CANARY)]),
        latency: Duration::from_millis(20),
        ..SimulatorOptions::default()
    };
    let api = simulator::start(([127, 0, 0, 1], 0).into(), options).await.unwrap();
    let shared = [
        ("queue.backend", "redis"),
        ("queue.redis.url", &*redis_url),
        ("store.backend", "postgres"),
        ("store.postgres.url", &*database),
        ("twitter.api", &*api.base_url()),
        ("log.level", "trace"),
        ("tweet_age", "1h: 200ms"),
        ("updater.buffer_ttl", "50ms"),
        // What a killed one held is soon the next one's.
        ("lookup.timeout", "1s"),
        ("updater.save_timeout", "1s"),
        ("updater.lease", "3s"),
    ];
    let token_file = home.file("token", format!("{CANARY}\n"));
    let by_environment = home.settings(&[&shared[..], &[("twitter.bearer_token", CANARY)]].concat());
    let by_file = home.settings(&[&shared[..], &[("twitter.bearer_token_file", &token_file)]].concat());
    let ids = home.file("ids.txt", young(20).join("\n"));

    let mut said = Vec::new();
    for (arguments, settings) in [
        (&["check"][..], &by_environment),
        (&["check"], &by_file),
        (&["migrate"], &by_environment),
        (&["enqueue", &ids], &by_environment),
    ] {
        let output = run(arguments, settings);
        assert!(output.status.success(), "{}", text(&output.stderr));
        said.push((format!("{arguments:?}"), text(&output.stdout) + &text(&output.stderr)));
    }
    for (name, settings, format) in [("text.log", &by_environment, "text"), ("json.log", &by_file, "json")] {
        let settings = [settings.clone(), variables(&[("log.format", format)])].concat();
        let (log, before) = (home.path(name), api.counters().ids);
        let mut updater = Process::start(&["updater"], &settings, &log);
        until_true("tweets are looked up", Duration::from_secs(20), async || {
            assert!(updater.runs(), "{}", log_text(&log));
            api.counters().ids >= before + 40
        })
        .await;
        let output = run(&["status", "--json"], &settings);
        said.push(("status".to_owned(), text(&output.stdout) + &text(&output.stderr)));
        updater.kill();
        let log = log_text(&log);
        assert!(log.contains("looked up") && log.contains("TRACE"), "the log is one of level trace");
        said.push((name.to_owned(), log));
    }
    // A refused token and a Redis that is away are told of, too, without a word of either.
    let refused = home.settings(&[&shared[..], &[("twitter.bearer_token", "canary-a-stale-one")]].concat());
    let log = home.path("refused.log");
    let mut updater = Process::start(&["updater"], &refused, &log);
    until_true("the credential is parked", Duration::from_secs(20), async || log_text(&log).contains("is parked"))
        .await;
    updater.signal("TERM");
    assert!(updater.ended(Duration::from_secs(10)).await.success());
    assert!(log_text(&log).contains("run `credentials --check`"), "a restart alone does not free it");
    said.push(("refused.log".to_owned(), log_text(&log)));

    let mut connection = connect(&redis_url).await.unwrap();
    let in_redis = everything_in_redis(&mut connection).await;
    assert!(in_redis.contains("{tweet:update}:workers"), "{in_redis}");
    said.push(("Redis".to_owned(), in_redis));
    let pool = PgPool::connect(&database).await.unwrap();
    let in_postgres = everything_in_postgres(&pool).await;
    assert!(in_postgres.contains("favorite_count"), "{in_postgres}");
    said.push(("PostgreSQL".to_owned(), in_postgres));

    nothing_holds_a_canary(&said);
}

/// The five parts of credentials, each recognisable by itself.
const PARTS: [(&str, &str); 5] = [
    ("main.consumer_key", "canary-1a-of-a-consumer-key"),
    ("main.consumer_secret", "canary-2b-of-a-consumer-secret"),
    ("main.token", "canary-3c-of-a-token"),
    ("main.token_secret", "canary-4d-of-a-token-secret"),
    ("spare.bearer_token", "canary-5e-of-a-bearer-token"),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_and_tokens_show_nowhere_accepted_or_refused() {
    let home = Home::new();
    let redis = TestRedis::start(&[]);
    let database = postgres::database().await;
    let [consumer_key, consumer_secret, token, token_secret, bearer_token] =
        PARTS.map(|(_, canary)| SecretString::from(canary));
    let app = SimulatedKeys::App { consumer_key: consumer_key.clone(), consumer_secret: consumer_secret.clone() };
    let user = SimulatedKeys::User { consumer_key, consumer_secret, token, token_secret };
    // It answers only those who sign and send what they should: so all five are known to be in use.
    let options = SimulatorOptions {
        bearer_tokens: Some(vec![bearer_token]),
        credentials: Some(vec![
            SimulatedCredential { name: "main".to_owned(), keys: user },
            SimulatedCredential { name: "main-app".to_owned(), keys: app },
        ]),
        calls_per_window: 1,
        app_calls_per_window: 1,
        ..SimulatorOptions::default()
    };
    let accepting = simulator::start(([127, 0, 0, 1], 0).into(), options).await.unwrap();
    let nobody = SimulatorOptions { credentials: Some(Vec::new()), ..SimulatorOptions::default() };
    let refusing = simulator::start(([127, 0, 0, 1], 0).into(), nobody).await.unwrap();
    let shared = [
        ("queue.backend", "redis"),
        ("queue.redis.url", &*redis.url),
        ("store.backend", "postgres"),
        ("store.postgres.url", &*database),
        ("log.level", "trace"),
        ("tweet_age", "1h: 200ms"),
        ("updater.buffer_ttl", "50ms"),
        ("updater.concurrency", "1"),
        ("twitter.credentials.main.kind", "both"),
        ("twitter.credentials.spare.kind", "app"),
    ];
    let named = PARTS.map(|(part, canary)| (format!("twitter.credentials.{part}"), canary));
    let by_environment: Vec<_> = named.iter().map(|(key, canary)| (&**key, *canary)).collect();
    let files = PARTS.map(|(part, canary)| (format!("twitter.credentials.{part}_file"), home.file(part, canary)));
    let by_file: Vec<_> = files.iter().map(|(key, file)| (&**key, &**file)).collect();
    let ids = home.file("ids.txt", young(20).join("\n"));

    let mut said = Vec::new();
    for parts in [&by_environment, &by_file] {
        let settings = home.settings(&[&shared[..], parts].concat());
        for arguments in [&["check"][..], &["migrate"], &["enqueue", &ids]] {
            let output = run(arguments, &settings);
            assert!(output.status.success(), "{}", text(&output.stderr));
            let shown = text(&output.stdout);
            assert!(arguments != ["check"] || shown.contains("[twitter.credentials.main]"), "{shown}");
            said.push((format!("{arguments:?}"), shown + &text(&output.stderr)));
        }
    }
    let calls = async |log: &Path, times: usize, words: &str| {
        until_true(words, Duration::from_secs(30), async || log_text(log).matches(words).count() >= times).await;
    };
    for (api, parts, name) in [(&accepting, &by_environment, "accepted.log"), (&refusing, &by_file, "refused.log")] {
        let settings = home.settings(&[&shared[..], parts, &[("twitter.api", &*api.base_url())]].concat());
        let log = home.path(name);
        // What the first API told of its windows would keep everybody from asking the second.
        let mut connection = redis.connection().await;
        let ledger: Vec<String> = redis::cmd("KEYS").arg("{twitter}:*").query_async(&mut connection).await.unwrap();
        if !ledger.is_empty() {
            let () = redis::cmd("DEL").arg(ledger).query_async(&mut connection).await.unwrap();
        }
        let mut updater = Process::start(&["updater"], &settings, &log);
        if name == "accepted.log" {
            // Each has one call in its window, so all three make theirs.
            calls(&log, 3, "ok=true").await;
        } else {
            calls(&log, 3, "the credential is parked").await;
        }
        updater.signal("TERM");
        assert!(updater.ended(Duration::from_secs(10)).await.success());
        // All three are tried, with a token that has to be fetched: it works, or is refused for what it is.
        let (code, word) = if name == "accepted.log" { (0, "works") } else { (69, "REFUSED") };
        for (arguments, code) in [(&["credentials", "--check"][..], code), (&["credentials"], 0), (&["status"], 0)] {
            let output = run(arguments, &settings);
            let shown = text(&output.stdout);
            assert_eq!(output.status.code(), Some(code), "{shown}{}", text(&output.stderr));
            assert!(arguments.len() == 1 || shown.matches(word).count() == 3, "{shown}");
            assert!(arguments.len() == 1 || text(&output.stderr).contains("TRACE"), "the log is one of level trace");
            said.push((format!("{name} {arguments:?}"), shown + &text(&output.stderr)));
        }
        let log = log_text(&log);
        assert!(log.contains("TRACE"), "the log is one of level trace");
        said.push((name.to_owned(), log));
    }
    assert_eq!(refusing.counters().ids, 0);

    let in_redis = everything_in_redis(&mut redis.connection().await).await;
    assert!(in_redis.contains("{tweet:update}:delayed"), "{in_redis}");
    said.push(("Redis".to_owned(), in_redis));
    let in_postgres = everything_in_postgres(&PgPool::connect(&database).await.unwrap()).await;
    assert!(in_postgres.contains("favorite_count"), "{in_postgres}");
    said.push(("PostgreSQL".to_owned(), in_postgres));
    nothing_holds_a_canary(&said);
}
