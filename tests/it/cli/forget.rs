//! `forget account`.

use std::os::unix::process::ExitStatusExt;
use std::sync::Arc;

use async_trait::async_trait;
use twitter_updater::engine::queue::{EmbeddedQueue, Queue, QueueError};
use twitter_updater::model::account::Account;
use twitter_updater::model::post::TweetState;
use twitter_updater::model::provider::Provider;
use twitter_updater::ops::forget::{Forget, ForgetError, QueuesOf};
use twitter_updater::pipelines::posts::NAMESPACE;
use twitter_updater::simulator::id_of;
use twitter_updater::store::{Accounts, Database, Forgetting, Lifecycle, MediaStore, Observation, Seen, SqliteStore};

use super::*;

const SIGABRT: i32 = 6;
const PROFILES: &str = "profiles:twitter";

fn profile(id: &str, handle: &str, at: i64) -> Observation<Account> {
    let (handle, raw) = (Some(handle.to_owned()), "{}".to_owned());
    let account = Account { id: id.to_owned(), handle, raw, ..Account::default() };
    Observation {
        id: id.to_owned(),
        answered_at: at,
        seen: Seen::Found(account),
        state: TweetState::Live,
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
    assert_eq!(exported().matches("of 12").count(), 2, "{}", exported());
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
    assert!(reasons.is_some_and(|reasons| reasons.contains("2  its person asked to be forgotten")), "{output:?}");
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
    says_one_line(&output, 65, "line 2: its person asked to be forgotten");
    let output = run(&["community", "decide", "c", "12", "member", "--why", "a friend"], &community);
    says_one_line(&output, 65, "12: its person asked to be forgotten");
    let output = run(&["community", "decide", "c", "!", "member", "--why", "a friend"], &community);
    says_one_line(&output, 64, "the account \"!\": ");
    assert_eq!(text(&run(&["community", "members", "c"], &community).stdout), "13\n");

    let output = home.run(&["forget", "account", "12", "--undo"]);
    assert!(text(&output.stdout).contains("may be stored again"), "{}", text(&output.stdout));
    assert!(home.run(&["enqueue", &file]).status.success());
    assert_eq!(exported().matches("of 12").count(), 2, "{}", exported());
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
impl QueuesOf for WithoutPosts {
    async fn queue_of(&self, namespace: &str) -> Result<Arc<dyn Queue>, QueueError> {
        match namespace {
            NAMESPACE => Err(QueueError::Unavailable("a test".to_owned())),
            other => Ok(Arc::new(EmbeddedQueue::open(&self.0, other, Duration::from_secs(20)).await?)),
        }
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
    assert!(store.keep_handles(PROFILES, &handles, at, 10).await.unwrap());
    for more in [&[][..], &["--yes"], &["--undo"]] {
        let output = home.run(&[&["forget", "account", "@alice"], more].concat());
        says_one_line(&output, 1, "no stored profile has the handle @alice now (1111 had it until ");
    }
    let community = home.settings(&[("accounts.collect", "true"), ("communities.c.timelines", "false")]);
    for arguments in [&["community", "decide", "c", "@alice", "member"][..], &["community", "why", "c", "@alice"]] {
        says_one_line(&run(arguments, &community), 1, "(1111 had it until ");
    }
    let ids = ["1111", "2222"].map(str::to_owned);
    assert_eq!(store.are_kept_away("twitter", &ids).await.unwrap(), [false, false]);

    // Whom it is about is said before and after.
    let output = home.run(&["forget", "account", "@anna_new"]);
    assert!(text(&output.stdout).starts_with("items of 1111 (@Anna_new) that would be removed"), "{output:?}");
    store.save_accounts(PROFILES, &[profile("2222", "alice", at + 2)]).await.unwrap();
    let output = home.run(&["forget", "account", "1111", "--yes", "--json"]);
    assert!(output.status.success() && output.stderr.is_empty(), "{}", text(&output.stderr));
    let done: Value = serde_json::from_slice(&output.stdout).unwrap();
    let about = (&done["account"], &done["handles"], &done["removed"]["account_handle"]);
    assert_eq!(about, (&"1111".into(), &serde_json::json!(["Anna_new"]), &1.into()), "{done}");
    assert!(store.kept_handle(PROFILES, "alice").await.unwrap().is_some(), "it is another one's");

    // Files that no updater looks after.
    store.take_file("00", 1, at, 10).await.unwrap();
    let output = home.run(&["forget", "account", "@alice", "--yes"]);
    assert!(text(&output.stdout).starts_with("2222 (@alice)\nkept away from now on\n"), "{output:?}");
    assert!(text(&output.stderr).contains("run an updater with media.collect = true"), "{output:?}");
    assert_eq!(store.are_kept_away("twitter", &ids).await.unwrap(), [true, true]);
}
