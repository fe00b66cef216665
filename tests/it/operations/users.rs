//! The users that are deployed may do what they need, and nothing else. The contracts of queue and ledger are run as
//! `app` beside their other backends.

use std::collections::BTreeSet;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use twitter_updater::base::clock::wall_ms;
use twitter_updater::model::post::TweetId;
use twitter_updater::simulator::{self, SimulatorOptions};

use crate::support::files;
use crate::support::process::{Process, run, run_with_input, text};
use crate::support::redis::{TestRedis, pool};
use crate::support::users::{Guarded, USERS};
use crate::support::wait::until_true;
use crate::support::world::World;

/// What the client says for itself: to the masters of Sentinels, to clusters, before it uses a connection again.
const CLIENT: &[&str] = &["asking", "cluster|slots", "ping", "role", "select", "unwatch"];

/// What stands between the quotes after each of these.
fn named(text: &str, before: &str, into: &mut BTreeSet<String>) {
    for (at, _) in text.match_indices(before) {
        let word: String = text[at + before.len()..].chars().take_while(char::is_ascii_alphabetic).collect();
        if !word.is_empty() && word.chars().all(|c| c.is_ascii_uppercase()) {
            into.insert(word.to_lowercase());
        }
    }
}

#[test]
fn app_may_do_what_the_code_does_and_nothing_else() {
    let src = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("crates/engine/src");
    let text = |end: &str| -> String {
        let folders = ["queue", "quota", "base/backend"].map(|folder| src.join(folder));
        let files = folders.iter().flat_map(|folder| files::ending_in(&[end], folder));
        files.map(|file| std::fs::read_to_string(file).unwrap()).collect()
    };
    let (lua, rust) = (text("lua"), text("rs"));
    let mut needed: BTreeSet<String> = CLIENT.iter().map(|command| (*command).to_owned()).collect();
    for before in ["redis.call('", "in_chunks('"] {
        named(&lua, before, &mut needed);
    }
    named(&rust, "cmd(\"", &mut needed);
    // The client's own names for these.
    for (method, commands) in [
        ("Cmd::zrem(", &["zrem"][..]),
        ("Cmd::del(", &["del"]),
        ("Cmd::set(", &["set"]),
        (".load_async(", &["script|load"]),
    ] {
        assert!(rust.contains(method), "{method}");
        needed.extend(commands.iter().map(|command| (*command).to_owned()));
    }
    needed.extend(["function|list".to_owned(), "function|load".to_owned()]);
    let app = USERS.lines().find(|line| line.starts_with("user app ")).unwrap();
    let may: BTreeSet<String> = app.split(' ').filter_map(|rule| rule.strip_prefix('+')).map(str::to_owned).collect();
    assert_eq!(may, needed);
    assert!(app.contains(" -@all "));
}

/// The commands of that category, each with arguments enough, those that are keys given.
async fn of_category(admin: &mut MultiplexedConnection, category: &str) -> Vec<(String, usize)> {
    let mut list = redis::cmd("COMMAND");
    let names: Vec<String> =
        list.arg("LIST").arg("FILTERBY").arg("ACLCAT").arg(category).query_async(admin).await.unwrap();
    let mut commands = Vec::new();
    for name in names {
        let about: Vec<Vec<redis::Value>> =
            redis::cmd("COMMAND").arg("INFO").arg(&name).query_async(admin).await.unwrap();
        let arity: i64 = redis::from_redis_value_ref(&about[0][1]).unwrap();
        commands.push((name, arity.unsigned_abs() as usize));
    }
    commands
}

/// Whether that user may give that command, on that key where it takes one.
async fn may(admin: &mut MultiplexedConnection, user: &str, (name, arity): &(String, usize), key: &str) -> bool {
    let words: Vec<_> = name.split('|').collect();
    let mut dry = redis::cmd("ACL");
    dry.arg("DRYRUN").arg(user).arg(&words);
    for at in words.len()..*arity {
        // Of FCALL, EVAL and ZUNION and their like, the number of keys.
        let is_count = (name.contains("eval") || name.contains("fcall")) && at == words.len() + 1;
        dry.arg(if is_count { "1" } else { key });
    }
    if name.contains("eval") || name.contains("fcall") {
        dry.arg(key);
    }
    match dry.query_async::<String>(admin).await {
        Ok(answer) => answer == "OK",
        // No such call is possible with these arguments, so it says nothing.
        Err(error) => panic!("{name}: {error}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_watcher_can_write_nothing_and_nobody_is_dangerous() {
    let guarded = Guarded::start();
    let mut admin = guarded.admin().await;
    let key = "{tweet:update}:lanes";
    let writing = of_category(&mut admin, "write").await;
    assert!(writing.len() > 80, "{}", writing.len());
    for command in &writing {
        assert!(!may(&mut admin, "watcher", command, key).await, "{command:?}");
        assert!(!may(&mut admin, "operator", command, key).await, "{command:?}");
        assert!(
            !may(&mut admin, "app", command, "not-ours").await || command.0.starts_with("function|"),
            "{command:?}"
        );
    }
    // Of what may harm, or tells too much: nothing but these.
    for category in ["dangerous", "admin"] {
        for command in of_category(&mut admin, category).await {
            let harmless = ["info", "role", "cluster|slots"].contains(&&*command.0);
            for user in ["app", "watcher", "operator"] {
                assert!(harmless || !may(&mut admin, user, &command, key).await, "{user}: {command:?}");
            }
        }
    }
    // The operator's three lines, and no more with the same words.
    for (words, key, can) in [
        (("set", 3), "{tweet:update}:paused", true),
        (("del", 2), "{tweet:update}:paused", true),
        (("zadd", 4), "{tweet:update}:incoming", true),
        (("set", 3), "{tweet:update}:incoming", false),
        (("zadd", 4), "{tweet:update}:dead", false),
        (("del", 2), "{tweet:update}:dead", false),
    ] {
        let command = (words.0.to_owned(), words.1);
        assert_eq!(may(&mut admin, "operator", &command, key).await, can, "{command:?} {key}");
    }
    // Really: also by a function or a script.
    let mut watcher = guarded.as_user("watcher").await;
    for line in ["SET x 1", "EVAL return(1) 0", "FUNCTION FLUSH", "CONFIG GET *", "KEYS *", "FLUSHALL", "ACL WHOAMI"] {
        let mut words = line.split(' ');
        let mut command = redis::cmd(words.next().unwrap());
        command.arg(words.collect::<Vec<_>>());
        let refusal = command.query_async::<redis::Value>(&mut watcher).await.unwrap_err();
        assert_eq!(refusal.code(), Some("NOPERM"), "{line}: {refusal}");
    }
}

#[test]
fn without_passwords_redis_does_not_start() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("users.acl");
    std::fs::write(&file, USERS).unwrap();
    let started = std::panic::catch_unwind(|| TestRedis::start(&["--aclfile", file.to_str().unwrap()]));
    let why = started.err().unwrap();
    assert!(why.downcast_ref::<String>().unwrap().contains("startup because of ACL errors"), "{why:?}");
}

/// All commands of the binary, end to end.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_binary_works_as_app() {
    let (guarded, folder) = (Guarded::start(), tempfile::tempdir().unwrap());
    let api = simulator::start(([127, 0, 0, 1], 0).into(), SimulatorOptions::default()).await.unwrap();
    let url = guarded.url("app");
    let world = World::over(Some(&url), None, folder.path(), &api.base_url()).await;
    let yesterday = wall_ms() - 86_400_000;
    let ids: Vec<String> = (0..50).map(|n| TweetId::at(yesterday - i64::from(n), n).to_string()).collect();
    let since = wall_ms();
    assert!(run_with_input(&["enqueue"], &world.settings, ids.join("\n").as_bytes()).status.success());
    let log = folder.path().join("log");
    let mut updater = Process::start(&["updater"], &world.settings, &log);
    until_true("all are fresh", Duration::from_secs(60), async || {
        assert!(updater.runs(), "{}", std::fs::read_to_string(&log).unwrap());
        world.all_fresh(&ids, since).await
    })
    .await;
    for arguments in
        [&["status"][..], &["rebuild"], &["credentials", "--check"], &["dead", "list"], &["dead", "retry", "--all"]]
    {
        let output = run(arguments, &world.settings);
        assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
    }
    assert_eq!(updater.terminate().code(), Some(0));
    let log = std::fs::read_to_string(&log).unwrap();
    assert!(!log.contains("NOPERM") && !log.contains("not loaded"), "{log}");
    assert_eq!(guarded.refusals().await, Vec::<String>::new());
    twitter_updater::app::function_library().load(&pool(&url)).await.unwrap();
}
