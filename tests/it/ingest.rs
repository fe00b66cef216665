//! The starter, on a real queue in a temporary file.

mod bad_input;
mod http;
mod incoming;
mod json;
mod streaming;

use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use rand::SeedableRng;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use tempfile::TempDir;
use twitter_updater::base::clock::{self, Millis};
use twitter_updater::base::retry::RetryPolicy;
use twitter_updater::engine::queue::{
    Claim, EmbeddedQueue, Inbox, Incoming, Inspection, Jobs, Place, QueueError, Verdict,
};
use twitter_updater::engine::schedule::age::AgeTable;
use twitter_updater::ingest::{EnqueueError, EnqueueOptions, Queued, Starter, StarterError, Summary, enqueue};
use twitter_updater::model::post::{Ingested, SECONDS_BELOW};
use twitter_updater::model::post::{ItemState, Metrics, Tweet, TweetId};
use twitter_updater::providers::unreadable::UnreadableObject;
use twitter_updater::store::{Lifecycle, Posts, StoreError, Way};

use crate::support::claim;
use crate::support::memory_store::MemoryStore;
use crate::support::watched_queue::WatchedQueue;

const NAMESPACE: &str = "tweet:update";
const MINUTE: Millis = 60_000;
const DAY: Millis = 24 * 60 * MINUTE;

struct World {
    dir: TempDir,
    queue: Arc<WatchedQueue>,
    store: Arc<MemoryStore>,
    starter: Starter,
}

impl World {
    async fn new() -> Self {
        Self::with_ages("18m: 3m, 60m: 10m, 1d: 1h, 7d: 6h, 30d: 1d").await
    }

    async fn with_ages(ages: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("queue.db");
        let inner = EmbeddedQueue::open(&file, NAMESPACE, Duration::from_secs(10)).await.unwrap();
        let queue = Arc::new(WatchedQueue::around(Arc::new(inner)));
        let store = Arc::new(MemoryStore::default());
        let starter = Starter::new(
            queue.clone(),
            Some(store.clone()),
            ages.parse::<AgeTable>().unwrap(),
            Arc::new(TweetId::date_of),
            parse,
        );
        Self { dir, queue, store, starter }
    }

    async fn enqueue(&self, bytes: &[u8]) -> Summary {
        enqueue(bytes, "test", &self.starter, &quick(), |_| {}, |_, _| {}).await.unwrap()
    }

    async fn places(&self, id: &str) -> Vec<Place> {
        self.queue.locate(&[id.to_owned()]).await.unwrap().remove(0)
    }

    async fn claim_all(&self) -> (twitter_updater::engine::queue::Fence, Vec<twitter_updater::engine::queue::Job>) {
        let request = claim::at_once("t", 100, Duration::from_secs(60));
        loop {
            match self.queue.claim(&request).await.unwrap() {
                Claim::Batch(batch) => return (batch.fence, batch.jobs),
                Claim::Empty { wait, .. } => tokio::time::sleep(wait).await,
            }
        }
    }
}

/// No waiting where a test makes something fail.
fn quick() -> EnqueueOptions {
    let retry = RetryPolicy { tries: 3, first: Duration::from_millis(1), most: Duration::from_millis(1) };
    EnqueueOptions { retry, ..EnqueueOptions::default() }
}

/// An id made so long before the tests began: the same one each time.
fn id_aged(age: Millis, sequence: u32) -> String {
    static BEGAN: LazyLock<Millis> = LazyLock::new(clock::wall_ms);
    TweetId::at(*BEGAN - age, sequence).to_string()
}

/// A young id, which does not end in 00.
fn id(sequence: u32) -> String {
    let id = id_aged(MINUTE, 2 * sequence);
    if id.ends_with("00") { id_aged(MINUTE, 2 * sequence + 1) } else { id }
}

/// A small reader of JSON tweets: `id_str` or `id`, `created_at` as a number, `text`.
fn parse(raw: &str) -> Result<Tweet, UnreadableObject> {
    let json: serde_json::Value = serde_json::from_str(raw).map_err(|_| UnreadableObject::Not("a JSON object"))?;
    let text = |field: &str| json[field].as_str().map(str::to_owned);
    let id = text("id_str").or_else(|| text("id")).or_else(|| json["id"].as_u64().map(|id| id.to_string()));
    let date = json["created_at"].as_i64();
    Ok(Tweet {
        id: id.ok_or(UnreadableObject::Missing("id_str and no id"))?,
        created_at: date.map(|date| if date < SECONDS_BELOW { date * 1000 } else { date }),
        text: text("text"),
        author_id: None,
        author_name: None,
        metrics: Metrics { retweet_count: json["retweet_count"].as_i64(), ..Metrics::default() },
        raw: raw.to_owned(),
        ..Tweet::default()
    })
}

#[tokio::test]
async fn each_tweet_is_answered_in_the_order_given() {
    let world = World::new().await;
    let now = clock::wall_ms();
    let dated = |id: &str, created_at| Ingested { created_at: Some(created_at), ..Ingested::bare(id) };
    let answers = world
        .starter
        .queue_tweets(vec![
            Ingested::bare(id(1)),
            Ingested::bare("12x"),
            Ingested::bare(id_aged(31 * DAY, 1)),
            dated("20", now - DAY / 2),
            Ingested::bare(id(1)),
            Ingested::bare("20"),
            dated(&id(2), now + 2 * MINUTE),
            dated(&id(3), now / 1000),
            dated(&id(4), -1),
            Ingested::bare(TweetId::at(now + DAY, 0).to_string()),
        ])
        .await
        .unwrap();
    let refused = |answer: &Queued, says: &str| match answer {
        Queued::Refused(why) => assert!(why.to_string().contains(says), "{why}"),
        other => panic!("{other:?} instead of {says}"),
    };
    assert_eq!(answers.len(), 10);
    assert_eq!(answers[0], Queued::Scheduled);
    refused(&answers[1], "not a digit: 'x'");
    assert_eq!(answers[2], Queued::TooOld);
    assert_eq!(answers[3], Queued::Scheduled);
    assert_eq!(answers[4], Queued::Known);
    refused(&answers[5], "created_at is needed");
    refused(&answers[6], "60 s into the future");
    refused(&answers[7], "seconds");
    refused(&answers[8], "before 1970");
    refused(&answers[9], "60 s into the future");

    // The lane and the first interval are those of its age; the store says when, too.
    let lane_and_due = |places: Vec<Place>| match &*places {
        [Place::Delayed { lane, due }] => (lane.clone(), *due - now),
        other => panic!("{other:?}"),
    };
    for (id, lane, patience) in [(id(1), "18m", 3 * MINUTE), ("20".to_owned(), "1d", 60 * MINUTE)] {
        let (in_lane, due) = lane_and_due(world.places(&id).await);
        assert_eq!(in_lane, lane);
        assert!((patience..patience + 10_000).contains(&due), "{due}");
        let stored = world.store.tweet(NAMESPACE, &id).await.unwrap().unwrap();
        assert!((patience..patience + 10_000).contains(&(stored.next_due.unwrap() - now)));
    }
    // What is too old or refused is nowhere.
    assert_eq!(world.store.counts(NAMESPACE).await.unwrap().live, 2);
    assert_eq!(world.queue.stats().await.unwrap().delayed, 2);
}

#[tokio::test]
async fn one_tweet_is_one_call() {
    let world = World::new().await;
    assert_eq!(world.starter.queue_tweet(Ingested::bare(id(1))).await.unwrap(), Queued::Scheduled);
    assert_eq!(world.starter.queue_tweet(Ingested::bare(id(1))).await.unwrap(), Queued::Known);
    assert_eq!(world.starter.queue_tweets(Vec::new()).await.unwrap(), []);
}

#[tokio::test]
async fn what_the_ingest_knows_is_recorded() {
    let world = World::new().await;
    let line =
        format!(r#"{{"id_str":"{}","text":"hello","retweet_count":3,"created_at":{}}}"#, id(1), clock::wall_ms());
    assert_eq!(world.enqueue(line.as_bytes()).await.scheduled, 1);
    let stored = world.store.tweet(NAMESPACE, &id(1)).await.unwrap().unwrap();
    assert_eq!((stored.text.as_deref(), stored.metrics.retweet_count), (Some("hello"), Some(3)));
    assert_eq!((stored.raw.as_deref(), stored.checked_at), (Some(&*line), None));
    assert_eq!(world.store.history(NAMESPACE, &id(1)).await.unwrap(), []);

    // An id and a date are no content.
    let line = format!(r#"{{"id":"{}","created_at":{}}}"#, id(2), clock::wall_ms() / 1000);
    assert_eq!(world.enqueue(line.as_bytes()).await.scheduled, 1);
    assert_eq!(world.store.tweet(NAMESPACE, &id(2)).await.unwrap().unwrap().raw, None);
}

#[tokio::test]
async fn the_store_comes_before_the_queue_and_the_call_is_repeated() {
    let world = World::new().await;
    world.store.set_down(Some("no route"));
    let error = world.starter.queue_tweet(Ingested::bare(id(1))).await.unwrap_err();
    assert!(matches!(&error, StarterError::Store(StoreError::Unavailable(_))) && error.is_temporary(), "{error}");
    assert_eq!(world.places(&id(1)).await, []);

    world.store.set_down(None);
    world.queue.fail_schedules.store(1, SeqCst);
    let error = world.starter.queue_tweet(Ingested::bare(id(1))).await.unwrap_err();
    assert!(matches!(&error, StarterError::Queue(QueueError::Unavailable(_))) && error.is_temporary(), "{error}");
    assert_eq!(world.places(&id(1)).await, []);
    assert_eq!(world.store.tweet(NAMESPACE, &id(1)).await.unwrap().unwrap().state, ItemState::Live);

    assert_eq!(world.starter.queue_tweet(Ingested::bare(id(1))).await.unwrap(), Queued::Scheduled);
    assert_eq!(world.places(&id(1)).await.len(), 1);
}

#[tokio::test]
async fn without_a_store_it_only_schedules() {
    let world = World::new().await;
    let ages: AgeTable = "18m: 3m".parse().unwrap();
    let starter = Starter::new(world.queue.clone(), None, ages, Arc::new(TweetId::date_of), parse);
    assert_eq!(starter.queue_tweet(Ingested::bare(id(1))).await.unwrap(), Queued::Scheduled);
    assert_eq!(world.places(&id(1)).await.len(), 1);
    assert_eq!(world.store.counts(NAMESPACE).await.unwrap().live, 0);
}

#[tokio::test]
async fn what_a_worker_has_is_known_and_the_dead_stay_dead() {
    let world = World::with_ages("30d: 1ms").await; // due at once
    let both = || vec![Ingested::bare(id(1)), Ingested::bare(id(2))];
    assert_eq!(world.starter.queue_tweets(both()).await.unwrap(), [Queued::Scheduled, Queued::Scheduled]);
    let (fence, jobs) = world.claim_all().await;
    assert_eq!(jobs.len(), 2);
    assert_eq!(world.starter.queue_tweets(both()).await.unwrap(), [Queued::Leased, Queued::Leased]);

    let verdicts: Vec<_> = jobs
        .into_iter()
        .map(|job| {
            let verdict = if job.id == id(1) { Verdict::MarkDead { reason: "a test".into() } } else { Verdict::Finish };
            (job, verdict)
        })
        .collect();
    world.queue.settle(&fence, &verdicts, &[]).await.unwrap();
    assert_eq!(world.starter.queue_tweets(both()).await.unwrap(), [Queued::Dead, Queued::Scheduled]);
}

#[tokio::test]
async fn a_wiped_queue_does_not_bring_back_the_dead() {
    let world = World::new().await;
    world.store.mark_dead(NAMESPACE, clock::wall_ms(), &[(id(2), "it broke three workers".to_owned())]).await.unwrap();
    let tweets = [1, 2, 3].map(|sequence| Ingested::bare(id(sequence))).to_vec();
    let answers = world.starter.queue_tweets(tweets).await.unwrap();
    assert_eq!(answers, [Queued::Scheduled, Queued::Dead, Queued::Scheduled]);
    assert_eq!(world.places(&id(2)).await, []);
    assert_eq!(world.starter.queue_tweet(Ingested::bare(id(2))).await.unwrap(), Queued::Dead);
}

#[tokio::test]
async fn an_ended_tweet_that_is_enqueued_again_lives_again() {
    let world = World::new().await;
    let ended = twitter_updater::store::NewItem {
        id: id(1),
        created_at: Some(0),
        next_due: None,
        content: None,
        read_at: None,
    };
    world.store.record(NAMESPACE, clock::wall_ms(), &Way::new("enqueue"), &[ended]).await.unwrap();
    assert_eq!(world.starter.queue_tweet(Ingested::bare(id(1))).await.unwrap(), Queued::Scheduled);
    assert_eq!(world.store.tweet(NAMESPACE, &id(1)).await.unwrap().unwrap().state, ItemState::Live);
}

#[tokio::test]
async fn a_file_enqueued_again_is_known() {
    let world = World::new().await;
    let file: String = (0..2_500).map(|sequence| id(sequence) + "\n").collect();
    let first = world.enqueue(file.as_bytes()).await;
    assert_eq!((first.lines, first.scheduled, first.known), (2_500, 2_500, 0));
    assert!(first.is_clean());
    let second = world.enqueue(file.as_bytes()).await;
    assert_eq!((second.lines, second.scheduled, second.known), (2_500, 0, 2_500));
    assert_eq!(world.queue.stats().await.unwrap().delayed, 2_500);
}

#[tokio::test]
async fn a_short_outage_is_waited_out() {
    let world = World::new().await;
    world.queue.fail_schedules.store(2, SeqCst);
    let summary = world.enqueue(format!("{}\n", id(1)).as_bytes()).await;
    assert_eq!(summary.scheduled, 1);
    assert_eq!(world.queue.fail_schedules.load(SeqCst), 0);
}

#[tokio::test]
async fn a_long_outage_stops_and_says_where() {
    let world = World::new().await;
    // A refused first line and a blank one: the number is the file's, not a count of tweets.
    let file: String = "x\n\n".to_owned() + &(3..=3_600).map(|line| id(line) + "\n").collect::<String>();
    *world.queue.fail_id.lock().unwrap() = Some(id(2_500));
    let mut refused = Vec::new();
    let on_refused = |line, why: &str| refused.push((line, why.to_owned()));
    let options = EnqueueOptions { window: 1_000, batch_size: 400, ..quick() };
    let error = enqueue(file.as_bytes(), "ids.txt", &world.starter, &options, |_| {}, on_refused).await.unwrap_err();
    let EnqueueError::HandOver { line, .. } = &error else { panic!("{error}") };
    // Tweets 1 to 2,000 are on lines 3 to 2,002; the third window holds line 2,500, in its second batch.
    assert_eq!(*line, 2_002);
    let text = error.to_string();
    assert!(text.contains("ids.txt is done up to line 2002") && text.contains("took it away"), "{text}");
    assert_eq!(refused.len(), 1);
    for line in [3, 2_002] {
        assert_eq!(world.places(&id(line)).await.len(), 1);
    }

    *world.queue.fail_id.lock().unwrap() = None;
    let summary = world.enqueue(file.as_bytes()).await;
    assert_eq!((summary.scheduled + summary.known, summary.refused), (3_598, 1));
    assert!(summary.known >= 2_000);
    assert_eq!(world.queue.stats().await.unwrap().delayed, 3_598);
}

/// The first line of an id decides, also where the second one is in a later batch or window, and the first one has to be handed
/// over again.
#[tokio::test]
async fn of_an_id_that_comes_twice_the_first_line_decides() {
    for (window, batch_size) in [(2, 1), (1, 1), (3, 2)] {
        let world = World::new().await;
        let (twice, other) = (id(2), id(1));
        let three_hours_ago = clock::wall_ms() - 3 * 60 * MINUTE;
        let file = format!("{other}\n{{\"id_str\":\"{twice}\",\"created_at\":{three_hours_ago}}}\n{twice}\n");
        world.queue.fail_schedules.store(2, SeqCst);
        let options = EnqueueOptions { window, batch_size, ..quick() };
        let summary = enqueue(file.as_bytes(), "ids.txt", &world.starter, &options, |_| {}, |_, _| {}).await.unwrap();
        assert_eq!((summary.scheduled, summary.known), (2, 1), "{window} {batch_size}");
        let places = world.places(&twice).await;
        assert!(
            matches!(&places[..], [Place::Delayed { lane, .. }] if lane == "1d"),
            "{window} {batch_size}: {places:?}"
        );
    }
}

/// Of ids in no order, a batch holds those that are neighbours: their lines are done when all of a window are.
#[tokio::test]
async fn ids_go_in_their_order_and_lines_are_done_window_by_window() {
    let world = World::new().await;
    let mut lines: Vec<u32> = (1..=300).collect();
    lines.shuffle(&mut StdRng::seed_from_u64(1));
    let file: String = lines.iter().map(|line| id(*line) + "\n").collect();
    let (first_window, second) = lines.split_at(200);
    *world.queue.fail_id.lock().unwrap() = Some(id(*second.iter().max().unwrap()));
    let options = EnqueueOptions { window: 200, batch_size: 50, max_in_flight: 1, ..quick() };
    let error = enqueue(file.as_bytes(), "ids.txt", &world.starter, &options, |_| {}, |_, _| {}).await.unwrap_err();
    assert!(matches!(error, EnqueueError::HandOver { line: 200, .. }), "{error}");
    let mut sorted = second.to_vec();
    sorted.sort_unstable();
    for line in first_window.iter().chain(&sorted[..50]) {
        assert_eq!(world.places(&id(*line)).await.len(), 1, "the first batch of the second window has its least ids");
    }
    for line in &sorted[50..] {
        assert_eq!(world.places(&id(*line)).await.len(), 0);
    }
    *world.queue.fail_id.lock().unwrap() = None;
    let summary = enqueue(file.as_bytes(), "ids.txt", &world.starter, &options, |_| {}, |_, _| {}).await.unwrap();
    assert_eq!((summary.scheduled, summary.known), (50, 250));
}
