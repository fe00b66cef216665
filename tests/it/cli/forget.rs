//! `forget account`.

use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::sync::Arc;

use async_trait::async_trait;
use sqlx::ConnectOptions;
use sqlx::sqlite::SqliteConnectOptions;
use twitter_updater::data::forget::{Forget, ForgetError, ForgetServices};
use twitter_updater::engine::queue::{EmbeddedQueue, Queue, QueueError};
use twitter_updater::model::account::Account;
use twitter_updater::model::post::{ItemState, Tweet};
use twitter_updater::model::provider::Provider;
use twitter_updater::pipelines::posts::NAMESPACE;
use twitter_updater::quota::{Budget, EmbeddedLedger, Ledger, Period, RedisLedger};
use twitter_updater::simulator::id_of;
use twitter_updater::store::{
    Accounts, Database, Finding, Forgetting, Lifecycle, MediaStore, Observation, Posts, SqliteStore,
};

use super::*;
use crate::support::{postgres, redis::TestRedis};

const SIGABRT: i32 = 6;
const PROFILES: &str = "profiles:twitter";

fn profile(id: &str, handle: &str, at: i64) -> Observation<Account> {
    let (handle, raw) = (Some(handle.to_owned()), "{}".to_owned());
    let account = Account { id: id.to_owned(), handle, raw, ..Account::default() };
    Observation {
        id: id.to_owned(),
        answered_at: at,
        finding: Finding::Found(account),
        state: ItemState::Live,
        next_due: None,
        follow: None,
        forget: false,
        recent: None,
    }
}

#[test]
fn a_person_is_forgotten_and_stays_so() {
    let home = Home::new();
    says_one_line(&home.run(&["forget", "account", "12", "--yes"]), 69, "home.db");
    let ids = young(3);
    let post = |id: &String, author: &str| {
        format!(r#"{{"id_str":"{id}","text":"of {author}","user":{{"id_str":"{author}","screen_name":"n{author}"}}}}"#)
    };
    let posts = [post(&ids[0], "12"), post(&ids[1], "12"), post(&ids[2], "13")].join("\n");
    let file = home.file("posts.jsonl", posts);
    let output = home.run(&["enqueue", &file]);
    assert!(output.status.success(), "{}", text(&output.stderr));

    // The author's posts are stored, and its profile is not.
    says_one_line(
        &home.run(&["forget", "account", "@n12", "--yes"]),
        1,
        "no stored profile has the handle @n12. Its posts may still be stored: find author_id in \"export posts\"",
    );
    let output = home.run(&["forget", "account", "12"]);
    says_one_line(&output, 64, "--yes");
    assert!(text(&output.stdout).contains("tweet:update"), "{}", text(&output.stdout));
    assert_eq!(home.status()["delayed"], 3);

    // Killed between the hash and the rows: the same command does the rest.
    let mut crash = home.settings(&[]);
    crash.push(("TWITTER_UPDATER_CRASH_AT".to_owned(), "before_commit".to_owned()));
    let output = run(&["forget", "account", "12", "--yes"], &crash);
    assert_eq!(output.status.signal(), Some(SIGABRT), "{}", text(&output.stderr));
    let exported = || text(&home.run(&["export", "posts"]).stdout);
    assert_eq!(exported().matches(",of 12,of 12,").count(), 2, "{}", exported());
    let output = home.run(&["forget", "account", "12", "--yes", "--json"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let done: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&done["is_new"], &done["removed"]["tweet"]), (&Value::from(false), &Value::from(2)), "{done}");
    assert!(!exported().contains("of 12") && exported().contains("of 13"), "{}", exported());
    assert_eq!(home.status()["delayed"], 1);

    let output = home.run(&["enqueue", &file]);
    assert_eq!(output.status.code(), Some(65), "{}", text(&output.stderr));
    assert_eq!(
        text(&output.stderr)
            .matches("up to here 2 lines belong to people who asked to be forgotten; they were not stored")
            .count(),
        1,
        "{}",
        text(&output.stderr)
    );
    let reasons = text(&output.stdout).split_once("refused, by reason:").map(|(_, reasons)| reasons.to_owned());
    assert!(
        reasons.is_some_and(|reasons| reasons.contains("2  the person behind it asked to be forgotten")),
        "{output:?}"
    );
    assert!(!exported().contains("of 12"), "{}", exported());
    assert_eq!(home.status()["delayed"], 1);
    // Nor as an object of X API v2, which names its author in another field.
    let page = format!(r#"{{"data":[{{"id":"{}","text":"of 12","author_id":"12"}}]}}"#, ids[0]);
    let output = home.run(&["enqueue", "--once", &home.file("page.json", page)]);
    assert_eq!(output.status.code(), Some(65), "{}", text(&output.stderr));
    assert!(!exported().contains("of 12"), "{}", exported());

    // A community takes it neither as a seed nor by a decision.
    let community = home.settings(&[("accounts.collect", "true"), ("communities.c.timelines", "false")]);
    let output = run(&["community", "seed", "c", &home.file("seeds.txt", "13\n12\n")], &community);
    says_one_line(&output, 65, "line 2: the person behind it asked to be forgotten");
    let output = run(&["community", "decide", "c", "12", "member", "--why", "a friend"], &community);
    says_one_line(&output, 65, "12: the person behind it asked to be forgotten");
    let output = run(&["community", "decide", "c", "!", "member", "--why", "a friend"], &community);
    says_one_line(&output, 64, "the account \"!\": ");
    assert_eq!(text(&run(&["community", "members", "c"], &community).stdout), "13\n");

    let output = home.run(&["forget", "account", "12", "--undo"]);
    assert!(text(&output.stdout).contains("may be stored again"), "{}", text(&output.stdout));
    assert!(home.run(&["enqueue", &file]).status.success());
    assert_eq!(exported().matches(",of 12,of 12,").count(), 2, "{}", exported());
}

/// Of other software than Mastodon's an id looks like a handle.
#[test]
fn whose_id_is_no_number_is_forgotten_by_it() {
    let home = Home::new();
    let near = Provider::Mastodon("near".to_owned());
    let settings = home.settings(&[("providers", "mastodon"), ("mastodon.instances.near.api", "http://127.0.0.1:9")]);
    let by = |arguments: &[&str]| run(&[&["--provider", "mastodon:near"][..], arguments].concat(), &settings);
    let post = id_of(&near, wall_ms() - MINUTE, 1);
    let status =
        format!(r#"{{"id":"{post}","content":"of ann","account":{{"id":"9n2ciuz1wdesFnrGJU","acct":"ann"}}}}"#);
    let file = home.file("posts.jsonl", status);
    let output = by(&["enqueue", &file]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let exported = || text(&by(&["export", "posts"]).stdout);
    assert!(exported().contains("of ann"), "{}", exported());

    let output = by(&["forget", "account", "9n2ciuz1wdesFnrGJU", "--yes"]);
    says_one_line(&output, 1, "run forget account id:ID");
    let output = by(&["forget", "account", "id:9n2ciuz1wdesFnrGJU", "--yes"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(!exported().contains("of ann"), "{}", exported());
    assert_eq!(by(&["enqueue", &file]).status.code(), Some(65));
}

/// The queues of a file, but for that of the posts, which is out.
struct WithoutPosts(PathBuf);

#[async_trait]
impl ForgetServices for WithoutPosts {
    async fn open_queue(&self, namespace: &str) -> Result<Arc<dyn Queue>, QueueError> {
        match namespace {
            NAMESPACE => Err(QueueError::Unavailable("a test".to_owned())),
            other => Ok(Arc::new(EmbeddedQueue::open(&self.0, other, Duration::from_secs(20)).await?)),
        }
    }

    async fn open_ledger(&self, provider: &Provider) -> Result<Arc<dyn Ledger>, QueueError> {
        Ok(Arc::new(EmbeddedLedger::open(&self.0, &provider.to_string(), Duration::from_secs(20)).await?))
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_was_named_by_a_handle_is_found_by_it_again_when_it_broke_off() {
    let home = Home::new();
    let post = format!(r#"{{"id_str":"{}","text":"of 12","user":{{"id_str":"12","screen_name":"ann"}}}}"#, young(1)[0]);
    assert!(home.run(&["enqueue", &home.file("posts.jsonl", post)]).status.success());
    let file = home.path("home.db");
    let store = Arc::new(SqliteStore::open(&file, Duration::from_secs(20)).await.unwrap());
    store.save_accounts(PROFILES, &[profile("12", "ann", wall_ms())]).await.unwrap();
    let database = Database {
        store: store.clone(),
        positions: store.clone(),
        edges: store.clone(),
        followed: store.clone(),
        communities: store.clone(),
        forgetting: store,
    };
    let forget = Forget { database, provider: Provider::Twitter, account: "12".to_owned() };
    let broke_off = forget.run(&WithoutPosts(file), wall_ms()).await;
    assert!(matches!(broke_off, Err(ForgetError::Queue(_))), "{broke_off:?}");
    let output = home.run(&["forget", "account", "@ann", "--yes"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(text(&home.run(&["export", "posts"]).stdout).matches("of 12").count(), 0);
    says_one_line(&home.run(&["forget", "account", "@ann", "--yes"]), 1, "run forget account ID");
    let again = home.run(&["forget", "account", "12", "--yes"]);
    assert!(text(&again.stdout).contains("removed rows\n  nothing"), "{}", text(&again.stdout));
}

/// A handle is that of whoever has it now: one who had it before is another person.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_is_forgotten_for_a_handle_that_is_somebody_elses_now() {
    let home = Home::new();
    let store = SqliteStore::open(&home.path("home.db"), Duration::from_secs(20)).await.unwrap();
    store.migrate().await.unwrap();
    let at = wall_ms();
    for answer in [profile("1111", "alice", at), profile("1111", "Anna_new", at + 1)] {
        store.save_accounts(PROFILES, &[answer]).await.unwrap();
    }
    // As the other of the network's APIs said before.
    store.save_accounts("profiles:x", &[profile("1111", "alice", at - 1)]).await.unwrap();
    // Somebody has asked for whoever has it.
    let handles = ["alice", "anna_new"].map(str::to_owned);
    assert!(store.store_handles(PROFILES, &handles, at, 10).await.unwrap());
    for more in [&[][..], &["--yes"], &["--undo"]] {
        let output = home.run(&[&["forget", "account", "@alice"], more].concat());
        says_one_line(&output, 1, "no stored profile has the handle @alice now (1111 had it until ");
    }
    let community = home.settings(&[("accounts.collect", "true"), ("communities.c.timelines", "false")]);
    for arguments in [&["community", "decide", "c", "@alice", "member"][..], &["community", "why", "c", "@alice"]] {
        says_one_line(&run(arguments, &community), 1, "(1111 had it until ");
    }
    let ids = ["1111", "2222"].map(str::to_owned);
    assert_eq!(store.are_blocked("twitter", &ids).await.unwrap(), [false, false]);

    // Whom it is about is said before and after.
    let output = home.run(&["forget", "account", "@anna_new"]);
    assert!(text(&output.stdout).starts_with("items of 1111 (@Anna_new) that would be removed"), "{output:?}");
    store.save_accounts(PROFILES, &[profile("2222", "alice", at + 2)]).await.unwrap();
    let output = home.run(&["forget", "account", "1111", "--yes", "--json"]);
    assert!(output.status.success() && !text(&output.stderr).contains("media"), "{}", text(&output.stderr));
    let done: Value = serde_json::from_slice(&output.stdout).unwrap();
    let about = (&done["account"], &done["handles"], &done["removed"]["account_handle"]);
    assert_eq!(about, (&"1111".into(), &serde_json::json!(["Anna_new"]), &1.into()), "{done}");
    assert!(store.stored_handle(PROFILES, "alice").await.unwrap().is_some(), "it is another one's");

    // Files that no updater looks after.
    store.reserve_file("00", 1, at, 10).await.unwrap();
    let output = home.run(&["forget", "account", "@alice", "--yes"]);
    assert!(text(&output.stdout).starts_with("2222 (@alice)\nblocked from now on\n"), "{output:?}");
    assert!(text(&output.stderr).contains("run an updater with media.collect = true"), "{output:?}");
    assert_eq!(store.are_blocked("twitter", &ids).await.unwrap(), [true, true]);
}

/// A budget without a bound.
fn unbounded() -> Budget {
    Budget { reads: 0, per: Period::Every(DAY), margin: 0, price_per_read: 0.0 }
}

/// Charges reads of the account 12, of its post and of the post's last version, and reads of others; forgets it by the command.
/// Returns the ids that are still free, and so still counted.
async fn forget_charged(home: &Home, settings: &Variables, ledger: &dyn Ledger) -> Vec<String> {
    let posts = young(3);
    let post = |id: &str, author: &str| format!(r#"{{"id_str":"{id}","text":"t","user":{{"id_str":"{author}"}}}}"#);
    let file = home.file("posts.jsonl", [post(&posts[0], "12"), post(&posts[1], "13")].join("\n"));
    let output = run(&["enqueue", &file], settings);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let store = SqliteStore::open(&home.path("home.db"), Duration::from_secs(20)).await.unwrap();
    let edited = Tweet { id: posts[2].clone(), author_id: Some("12".into()), raw: "{}".into(), ..Tweet::default() };
    let edited = Observation::new(&posts[0], wall_ms(), Finding::Found(edited), ItemState::Live, None);
    store.save(NAMESPACE, &[edited]).await.unwrap();

    let mut ids = ["user:12", "user:12:2", "user:13"].map(str::to_owned).to_vec();
    ids.extend(posts);
    assert_eq!(ledger.reserve("a call", &ids, &unbounded()).await.unwrap(), [true; 6]);
    let output = run(&["forget", "account", "12", "--yes", "--json"], settings);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let done: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(done["removed"]["charged_read"], 4, "{done}");
    let counted = ledger.counted_reads(Period::Every(DAY)).await.unwrap().by_day.values().sum::<u64>();
    assert_eq!(counted, 6, "the reads were charged");
    // With no room left, only those that are still counted may be read.
    let full = Budget { reads: counted, ..unbounded() };
    let free = ledger.reserve("another", &ids, &full).await.unwrap();
    ids.into_iter().zip(free).filter(|(_, is_free)| *is_free).map(|(id, _)| id).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn charged_reads_of_a_forgotten_person_leave_the_ledger() {
    let home = Home::new();
    let ledger = EmbeddedLedger::open(&home.path("home.db"), "x", Duration::from_secs(20)).await.unwrap();
    let free = forget_charged(&home, &home.settings(&[]), &ledger).await;
    assert_eq!(free.len(), 2, "user:13 and its post: {free:?}");

    let (home, redis) = (Home::new(), TestRedis::start(&[]));
    let settings = home.settings(&[("queue.backend", "redis"), ("queue.redis.url", &redis.url)]);
    let free = forget_charged(&home, &settings, &RedisLedger::new(redis.pool(), "x")).await;
    assert_eq!(free.len(), 2, "user:13 and its post: {free:?}");
}

/// Handle and text of a person; each word is nowhere else.
fn words_of(person: usize) -> [String; 2] {
    [format!("handle{person:03}x"), format!("secretwords{person:03}x")]
}

/// Writes profiles and posts of these people, and of as many others between them, some of them several times and of other lengths:
/// pages split, and rows move.
async fn write_people(store: &SqliteStore, people: std::ops::Range<usize>) {
    for round in 0..4_usize {
        for person in people.clone() {
            let [handle, words] = words_of(person);
            let at = wall_ms();
            let grown = |word: &str| word.repeat(1 + (person * 7 + round * 13) % 40);
            let mut profiles = vec![profile(&format!("{}", 10_000 + person), &grown(&handle), at)];
            profiles.push(profile(&format!("{}", 90_000 + person), &format!("other{person}"), at));
            store.save_accounts(PROFILES, &profiles).await.unwrap();
            let found = |id: String, author: usize, words: String| {
                let tweet = Tweet {
                    id: id.clone(),
                    text: Some(words.clone()),
                    author_id: Some(author.to_string()),
                    raw: format!(r#"{{"text":"{words}"}}"#),
                    ..Tweet::default()
                };
                Observation::new(&id, at, Finding::Found(tweet), ItemState::Live, Some(at + DAY))
            };
            let own = found(format!("{}", 1_000_000 + person * 7_919 % 1_000), 10_000 + person, grown(&words));
            let other =
                found(format!("{}", 1_000_000 + person * 104_729 % 1_000 + 5_000), 90_000, "else".repeat(50 * round));
            store.save(NAMESPACE, &[own, other]).await.unwrap();
        }
    }
}

/// The words of these people that a search through the file and its WAL finds.
fn found_in(folder: &Path, people: std::ops::Range<usize>) -> Vec<String> {
    let files = ["home.db", "home.db-wal"].map(|name| std::fs::read(folder.join(name)).unwrap_or_default());
    let is_there = |word: &String| files.iter().any(|bytes| memmem(bytes, word.as_bytes()));
    people.flat_map(words_of).filter(is_there).collect()
}

fn memmem(bytes: &[u8], word: &[u8]) -> bool {
    let (first, rest) = word.split_first().unwrap();
    let mut from = bytes;
    while let Some(at) = from.iter().position(|byte| byte == first) {
        from = &from[at + 1..];
        if from.starts_with(rest) {
            return true;
        }
    }
    false
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_byte_of_forgotten_people_stays_in_the_file() {
    let home = Home::new();
    let path = home.path("home.db");
    let store = Arc::new(SqliteStore::open(&path, Duration::from_secs(20)).await.unwrap());
    store.migrate().await.unwrap();
    write_people(&store, 0..151).await;
    assert_eq!(found_in(home.folder.path(), 0..151).len(), 302);
    // All rows but those of one, as the command removes them; without the rewrite, some words stay.
    for person in 0..150 {
        let (id, handle) = ((10_000 + person).to_string(), words_of(person)[0].clone());
        store.block_account("twitter", &id, wall_ms()).await.unwrap();
        store.remove_account("twitter", &id, &[handle]).await.unwrap();
        for items in store.find_items_about("twitter", &id).await.unwrap() {
            store.remove_items(&items).await.unwrap();
        }
    }
    let mut file = SqliteConnectOptions::new().filename(&path).connect().await.unwrap();
    sqlx::raw_sql("PRAGMA wal_checkpoint(TRUNCATE)").execute(&mut file).await.unwrap();
    assert!(!found_in(home.folder.path(), 0..150).is_empty(), "the test plants too little");
    let before = std::fs::metadata(&path).unwrap().len();
    let output = home.run(&["forget", "account", "10149", "--yes"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let said = text(&output.stderr);
    assert!(said.contains(&format!("SQLite file is rewritten ({} MB)", before.div_ceil(1_000_000))), "{said}");
    assert_eq!(found_in(home.folder.path(), 0..150), [""; 0]);
    assert_eq!(found_in(home.folder.path(), 150..151), words_of(150));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_that_cannot_be_rewritten_is_reported_and_rewritten_by_the_next_call() {
    let home = Home::new();
    let path = home.path("home.db");
    let store = SqliteStore::open(&path, Duration::from_secs(20)).await.unwrap();
    store.migrate().await.unwrap();
    write_people(&store, 0..2).await;
    // An export that reads all the time.
    let mut reader = SqliteConnectOptions::new().filename(&path).connect().await.unwrap();
    sqlx::raw_sql("BEGIN; SELECT count(*) FROM tweet").execute(&mut reader).await.unwrap();
    let settings = home.settings(&[("store.sqlite.busy_timeout", "100ms")]);
    let output = run(&["forget", "account", "10000", "--yes"], &settings);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(69), "{said}");
    assert!(
        said.contains("the SQLite file or its -wal may still contain their bytes")
            && said.contains("run the same command again"),
        "{said}"
    );
    assert!(!found_in(home.folder.path(), 0..1).is_empty());
    sqlx::raw_sql("COMMIT").execute(&mut reader).await.unwrap();
    let output = run(&["forget", "account", "10000", "--yes"], &settings);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!((found_in(home.folder.path(), 0..1), found_in(home.folder.path(), 1..2).len()), (Vec::new(), 2));
}

/// Every process that writes needs the key, and says what is wrong with it.
async fn a_wrong_key_stops_every_process(home: &Home, settings: &Variables) {
    let post = |author: &str| format!(r#"{{"id_str":"{}","text":"t","user":{{"id_str":"{author}"}}}}"#, young(1)[0]);
    let file = home.file("post.jsonl", post("12"));
    let key = home.path("secret-key");
    let run = |arguments: &[&str]| run(arguments, settings);
    assert!(run(&["enqueue", &file]).status.success());
    assert!(!key.exists(), "nobody is forgotten");
    let output = run(&["forget", "account", "12", "--yes"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let mode = std::fs::metadata(&key).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let right = std::fs::read_to_string(&key).unwrap();
    assert!(right.trim().len() == 64 && right.trim().bytes().all(|digit| digit.is_ascii_hexdigit()), "{right}");
    let stays_away = || assert_eq!(run(&["enqueue", &file]).status.code(), Some(65));
    stays_away();

    let (bits, other) = (std::fs::Permissions::from_mode, "0f".repeat(32));
    for (content, mode, why) in [
        (None, 0o600, "is missing, and the database has pseudonyms made with it"),
        (Some(&*other), 0o600, "holds another key than the database's pseudonyms were made with"),
        (Some("no key"), 0o600, "is not a key of 64 hexadecimal digits"),
        (Some(&*right), 0o604, "run `chmod 600"),
    ] {
        std::fs::remove_file(&key).unwrap_or_default();
        if let Some(content) = content {
            std::fs::write(&key, content).unwrap();
            std::fs::set_permissions(&key, bits(mode)).unwrap();
        }
        let forget: &[&str] = &["forget", "account", "13", "--yes"];
        for command in [forget, &["enqueue", &file], &["updater"], &["starter"], &["rebuild"]] {
            let output = run(command);
            let said = text(&output.stderr);
            assert!(
                !output.status.success() && said.contains(why) && said.contains("forget.key_file"),
                "{command:?}: {said}"
            );
        }
        assert_eq!(key.exists(), content.is_some(), "no second key is made");
    }
    std::fs::write(&key, &right).unwrap();
    std::fs::set_permissions(&key, bits(0o600)).unwrap();
    stays_away();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_or_changed_key_stops_every_process() {
    let home = Home::new();
    let key = home.path("secret-key").to_str().unwrap().to_owned();
    a_wrong_key_stops_every_process(&home, &home.settings(&[("forget.key_file", &key)])).await;

    let (home, url) = (Home::new(), postgres::database().await);
    let key = home.path("secret-key").to_str().unwrap().to_owned();
    let on_postgres = [("forget.key_file", &*key), ("store.backend", "postgres"), ("store.postgres.url", &url)];
    let settings = home.settings(&on_postgres);
    assert!(run(&["migrate"], &settings).status.success());
    a_wrong_key_stops_every_process(&home, &settings).await;
}
