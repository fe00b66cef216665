//! `dead`: list, show, retry, drop, and what they refuse.

use twitter_updater::base::clock::wall_ms;
use twitter_updater::engine::queue::{Claim, ClaimRequest, EmbeddedQueue, Inspection, Jobs, Verdict};
use twitter_updater::model::post::ItemState;
use twitter_updater::pipelines::posts::NAMESPACE;
use twitter_updater::store::{Lifecycle, Posts, SqliteStore, StoredTweet};

use super::*;

/// A home with dead tweets, and its services.
struct Graveyard {
    home: Home,
    queue: EmbeddedQueue,
    store: SqliteStore,
    ids: Vec<String>,
}

impl Graveyard {
    /// So many young tweets are enqueued and dead. The store buries first, as it does.
    async fn new(count: u32) -> Self {
        let (home, ids) = (Home::new(), young(count));
        let file = home.file("ids.txt", ids.join("\n"));
        assert!(home.run(&["enqueue", &file]).status.success());
        let patience = Duration::from_secs(20);
        let queue = EmbeddedQueue::open(&home.path("home.db"), NAMESPACE, patience).await.unwrap();
        let store = SqliteStore::open(&home.path("home.db"), patience).await.unwrap();
        let dead: Vec<_> = ids.iter().map(|id| (id.clone(), format!("why\n{id}"))).collect();
        store.mark_dead(NAMESPACE, wall_ms(), &dead).await.unwrap();
        let graveyard = Self { home, queue, store, ids };
        graveyard.queue.forget(&graveyard.ids).await.unwrap();
        graveyard.mark_dead_in_queue(&dead).await;
        graveyard
    }

    async fn mark_dead_in_queue(&self, dead: &[(String, String)]) {
        let taken = self.queue.adopt("bury", &dead.iter().map(|(id, _)| id.clone()).collect::<Vec<_>>(), MINUTES).await;
        let verdict = |(id, reason): &(String, String)| {
            let job = twitter_updater::engine::queue::Job {
                id: id.clone(),
                lane: "x".into(),
                due: 0,
                deliveries: 0,
                failures: 0,
                order: Default::default(),
            };
            (job, Verdict::MarkDead { reason: reason.clone() })
        };
        let verdicts: Vec<_> = dead.iter().map(verdict).collect();
        assert_eq!(self.queue.settle(&taken.unwrap().fence, &verdicts, &[]).await.unwrap().settled, dead.len() as u64);
    }

    /// Runs `dead` with these arguments; the exit code, standard output and standard error.
    fn dead(&self, arguments: &[&str]) -> (i32, String, String) {
        let output = run(&[&["dead"], arguments].concat(), &self.home.settings(&[("log.level", "warn")]));
        (output.status.code().unwrap(), text(&output.stdout), text(&output.stderr))
    }

    fn list(&self, arguments: &[&str]) -> Value {
        let (code, out, error) = self.dead(&[&["list", "--json"], arguments].concat());
        assert_eq!(code, 0, "{error}");
        serde_json::from_str(&out).unwrap()
    }

    async fn stored(&self, id: &str) -> StoredTweet {
        self.store.tweet(NAMESPACE, id).await.unwrap().unwrap()
    }

    async fn claimable(&self) -> Vec<String> {
        let linger = Duration::ZERO;
        let request = ClaimRequest { token: "t", limit: 1_000, linger, lookahead: 0.0, early: 0.0, lease: MINUTES };
        match self.queue.claim(&request).await.unwrap() {
            Claim::Batch(batch) => batch.jobs.into_iter().map(|job| job.id).collect(),
            Claim::Empty { .. } => Vec::new(),
        }
    }
}

const MINUTES: Duration = Duration::from_secs(300);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn they_are_listed_with_their_reasons() {
    let graves = Graveyard::new(5).await;
    let list = graves.list(&[]);
    assert_eq!((&list["in_store"], &list["in_queue"]), (&Value::from(5), &Value::from(5)));
    let listed: Vec<_> = list["dead"].as_array().unwrap().iter().map(|dead| dead["id"].as_str().unwrap()).collect();
    assert_eq!(listed, graves.ids.iter().rev().map(String::as_str).collect::<Vec<_>>());
    assert_eq!(graves.list(&["--limit", "2"])["dead"].as_array().unwrap().len(), 2);
    let (code, out, _) = graves.dead(&["list", "--limit", "2"]);
    assert_eq!(code, 0);
    assert!(out.contains(&format!("both     why {}", graves.ids[4])), "{out}");
    assert!(out.contains("dead: 5 in the store, 5 in the queue") && out.contains("the first 2; --limit"), "{out}");

    // A wiped queue: the store still knows them. And one that the queue alone knows.
    graves.queue.forget(&graves.ids).await.unwrap();
    graves.mark_dead_in_queue(&[("4711".to_owned(), "who knows".to_owned())]).await;
    let list = graves.list(&[]);
    assert_eq!((&list["in_store"], &list["in_queue"]), (&Value::from(5), &Value::from(1)));
    assert_eq!(list["dead"].as_array().unwrap().len(), 6);
    assert_eq!((&list["dead"][0]["in_queue"], &list["dead"][0]["buried_at"]), (&Value::from(false), &Value::Null));
    assert_eq!((&list["dead"][5]["id"], &list["dead"][5]["in_store"]), (&Value::from("4711"), &Value::from(false)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_is_shown_wherever_it_is() {
    let graves = Graveyard::new(1).await;
    let id = graves.ids[0].as_str();
    let (code, out, _) = graves.dead(&["show", id]);
    assert_eq!(code, 0);
    let day = humantime::format_rfc3339_seconds(std::time::SystemTime::now()).to_string()[..10].to_owned();
    assert!(out.contains(&format!("queue          dead since {day}")) && out.contains(&format!(": why {id}")), "{out}");
    assert!(out.contains("store          dead") && out.contains("next due       -"), "{out}");
    graves.queue.forget(&graves.ids).await.unwrap();
    assert!(graves.dead(&["show", id]).1.contains("queue          nowhere"));
    assert_eq!(graves.dead(&["retry", id]).0, 0);
    let (_, out, _) = graves.dead(&["show", id]);
    assert!(out.contains("waiting in the lane 18m, due ") && out.contains("store          live"), "{out}");
    let (_, out, _) = graves.dead(&["show", id, "--json"]);
    let shown: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((&shown["stored"]["state"], &shown["places"][0]["delayed"]["lane"]), (&"live".into(), &"18m".into()));
    let (code, out, error) = graves.dead(&["show", "77"]);
    assert_eq!((code, &*out), (65, ""));
    assert_eq!(error, "twitter-updater: 77: neither the queue nor the store has it\n");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_retried_live_again_and_are_due_now() {
    let graves = Graveyard::new(3).await;
    let [one, two, three] = &graves.ids[..] else { panic!("three") };
    let (code, out, error) = graves.dead(&["retry", one, two]);
    assert_eq!((code, &*out, &*error), (0, "2 retried, 0 were not dead, 0 refused\n", ""));
    let stored = graves.stored(one).await;
    assert_eq!((stored.state, stored.reason), (ItemState::Live, None));
    assert!((0..60_000).contains(&(wall_ms() - stored.next_due.unwrap())));
    // Given again, as after a lost reply; and half done: the store says it lives, the queue that it is dead.
    assert_eq!(graves.dead(&["retry", one]).1, "0 retried, 1 was not dead, 0 refused\n");
    let (code, out, _) = graves.dead(&["retry", one, "77", "--json"]);
    let acted: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((code, &acted["already"], &acted["refused"]), (65, &1.into(), &1.into()));
    assert_eq!((&acted["refusals"][0]["id"], acted["refusals"].as_array().unwrap().len()), (&"77".into(), 1));
    graves.queue.forget(std::slice::from_ref(two)).await.unwrap();
    graves.mark_dead_in_queue(&[(two.clone(), "why".to_owned())]).await;
    assert_eq!(graves.dead(&["retry", two]).1, "1 retried, 0 were not dead, 0 refused\n");
    // In neither place of the queue any more: lost with a wipe.
    graves.queue.forget(std::slice::from_ref(two)).await.unwrap();
    assert_eq!(graves.dead(&["retry", two]).1, "1 retried, 0 were not dead, 0 refused\n");
    let mut due = graves.claimable().await;
    due.sort();
    assert_eq!(due, [one.clone(), two.clone()]);
    assert_eq!(graves.stored(three).await.state, ItemState::Dead);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_dropped_have_ended_and_left() {
    let graves = Graveyard::new(3).await;
    let [one, two, three] = &graves.ids[..] else { panic!("three") };
    let (code, out, error) = graves.dead(&["drop", one]);
    assert_eq!((code, &*out, &*error), (0, "1 dropped, 0 had ended already, 0 refused\n", ""));
    assert_eq!(graves.stored(one).await.state, ItemState::Ended);
    assert_eq!(graves.queue.locate(std::slice::from_ref(one)).await.unwrap(), [vec![]]);
    assert_eq!(graves.dead(&["drop", one]).1, "0 dropped, 1 had ended already, 0 refused\n");
    // Cut off after the store: the queue still has it among the dead.
    graves.mark_dead_in_queue(&[(one.clone(), "why".to_owned())]).await;
    assert_eq!(graves.dead(&["drop", one]).1, "1 dropped, 0 had ended already, 0 refused\n");
    // Wiped from the queue, and known to the queue alone.
    graves.queue.forget(std::slice::from_ref(two)).await.unwrap();
    graves.mark_dead_in_queue(&[("4711".to_owned(), "who knows".to_owned())]).await;
    assert_eq!(graves.dead(&["drop", two, "4711"]).1, "2 dropped, 0 had ended already, 0 refused\n");
    assert_eq!(graves.stored("4711").await.state, ItemState::Ended);
    let stats = graves.queue.stats().await.unwrap();
    assert_eq!((stats.dead, stats.delayed, stats.leased), (1, 0, 0));
    assert_eq!(graves.stored(three).await.state, ItemState::Dead);
    // A rebuild brings nobody back.
    assert!(graves.home.run(&["rebuild"]).status.success());
    assert_eq!(graves.queue.stats().await.unwrap().delayed, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_is_not_dead_is_refused_with_the_reason() {
    let graves = Graveyard::new(3).await;
    let [live, ended, dead] = &graves.ids[..] else { panic!("three") };
    assert_eq!(graves.dead(&["retry", live]).0, 0);
    assert_eq!(graves.dead(&["drop", ended]).0, 0);
    let (code, out, error) = graves.dead(&["drop", live, "12", "x1", dead]);
    assert_eq!((code, &*out), (65, "1 dropped, 0 had ended already, 3 refused\n"), "the good one is done");
    let lines: Vec<_> = error.lines().collect();
    assert_eq!(lines[0], format!("twitter-updater: {live}: it is not dead but live"));
    assert_eq!(lines[1], "twitter-updater: 12: neither the queue nor the store has it");
    assert!(lines[2].starts_with("twitter-updater: x1: the id has a character that is not a digit"), "{error}");
    let (code, _, error) = graves.dead(&["retry", ended]);
    assert!(code == 65 && error.contains("its tracking has ended; enqueue it"), "{error}");
    assert_eq!(graves.stored(live).await.state, ItemState::Live);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_of_them_page_by_page() {
    for (act, says, state) in [("retry", "retried", ItemState::Live), ("drop", "dropped", ItemState::Ended)] {
        let graves = Graveyard::new(1_200).await;
        // A third is known to the store alone.
        graves.queue.forget(&graves.ids[..400]).await.unwrap();
        graves.mark_dead_in_queue(&[("4711".to_owned(), "who knows".to_owned())]).await;
        let (code, out, error) = graves.dead(&[act, "--all"]);
        assert!(code == 0 && out.starts_with(&format!("1201 {says}, 0 ")), "{out}{error}");
        for id in ["4711", &graves.ids[0], &graves.ids[1_199]] {
            assert_eq!(graves.stored(id).await.state, state);
        }
        let stats = graves.queue.stats().await.unwrap();
        let delayed = if state == ItemState::Live { 1_201 } else { 0 };
        assert_eq!((stats.dead, stats.delayed), (0, delayed));
        assert_eq!(graves.list(&[])["dead"], Value::Array(Vec::new()));
        assert!(graves.dead(&[act, "--all"]).1.starts_with(&format!("0 {says}, 0 ")));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_words_of_a_reason_choose() {
    let graveyard = Graveyard::new(3).await;
    // One that only the queue knows.
    let stray = id_aged(MINUTE, 77);
    graveyard.mark_dead_in_queue(&[(stray.clone(), "HTTP 403 of a stray".to_owned())]).await;
    let (code, out, error) = graveyard.dead(&["drop", "--reason", "http 403"]);
    assert!(code == 0 && out.starts_with("1 "), "{out} {error}");
    let words = format!("WHY {}", graveyard.ids[1]);
    let (code, out, error) = graveyard.dead(&["retry", "--reason", &words]);
    assert!(code == 0 && out.starts_with("0 "), "a line break is no blank: {out} {error}");
    let (code, out, error) = graveyard.dead(&["retry", "--reason", &graveyard.ids[1]]);
    assert!(code == 0 && out.starts_with("1 "), "{out} {error}");
    assert_eq!(graveyard.claimable().await, [graveyard.ids[1].clone()]);
    assert_eq!(graveyard.list(&[])["dead"].as_array().unwrap().len(), 2);
    assert_eq!(graveyard.dead(&["retry", "--reason", "x", "--all"]).0, 64);
    // In another folder there are none, and no file is made.
    let elsewhere = Home::new();
    for act in ["retry", "drop"] {
        says_one_line(&elsewhere.run(&["dead", act, "--all"]), 69, "there is no file");
    }
    assert!(!elsewhere.path("home.db").exists());
    // As of a variable that is not set: each reason holds it.
    for act in ["retry", "drop"] {
        let (code, _, error) = graveyard.dead(&[act, "--reason", " "]);
        assert!(code == 64 && error.contains("--all"), "{error}");
    }
    assert_eq!(graveyard.list(&[])["dead"].as_array().unwrap().len(), 2);
}
