//! A stream from its hold to its posts, in simulated time: when it comes again, and what it has polled.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use twitter_updater::app;
use twitter_updater::base::clock::{Stopwatch, wall_ms};
use twitter_updater::base::shutdown::Stop;
use twitter_updater::config::Settings;
use twitter_updater::engine::queue::{Inspection, Jobs, NewJob, Place, Verdict};
use twitter_updater::engine::schedule::age::AgeTable;
use twitter_updater::model::post::TweetId;
use twitter_updater::model::provider::Provider;
use twitter_updater::pipelines::posts::posts_pipeline;
use twitter_updater::pipelines::streams::counters::StreamCounters;
use twitter_updater::pipelines::streams::gap_filler::GapFiller;
use twitter_updater::pipelines::streams::lease::{JOB, LeaseKeeper, LeaseTerms};
use twitter_updater::pipelines::streams::post_handover::PostHandover;
use twitter_updater::pipelines::streams::reader::StreamSource;
use twitter_updater::pipelines::timelines::pace::interval_lane;
use twitter_updater::providers::stream::{Chunks, Message, Stream, StreamError};
use twitter_updater::providers::x_v2::stream::read;

use crate::support::claim;
use crate::support::memory_queue::{MemoryQueue, ServiceClock};
use crate::support::memory_store::MemoryStore;
use crate::support::queue_model::Rules;
use crate::timelines::polled;

const SILENCE: Duration = Duration::from_secs(90);
const LATE: i64 = 1_000;
const MOMENT: Duration = Duration::from_secs(1);

/// What a connection does next.
#[derive(Debug, Clone)]
enum Then {
    Says(String),
    Waits(Duration),
    Breaks,
    Ends,
    /// For ever silent.
    Stalls,
}

/// One attempt to connect.
type Attempt = Result<Vec<Then>, StreamError>;

/// An API that does what it is told to; then it stalls for ever.
#[derive(Debug)]
struct Scripted {
    attempts: Mutex<VecDeque<Attempt>>,
    /// When each attempt was made.
    made: Arc<Mutex<Vec<Duration>>>,
    watch: Stopwatch,
}

struct Connection(VecDeque<Then>);

#[async_trait]
impl Stream for Scripted {
    async fn connect(&self) -> Result<Box<dyn Chunks>, StreamError> {
        self.made.lock().unwrap().push(self.watch.elapsed());
        let attempt = self.attempts.lock().unwrap().pop_front().unwrap_or_else(|| Ok(vec![]));
        attempt.map(|script| Box::new(Connection(script.into())) as Box<dyn Chunks>)
    }

    fn read_timeout(&self) -> Duration {
        SILENCE
    }

    fn read(&self, line: &str) -> Message {
        read(line)
    }
}

#[async_trait]
impl Chunks for Connection {
    async fn chunk(&mut self) -> Result<Option<Vec<u8>>, StreamError> {
        loop {
            match self.0.pop_front() {
                Some(Then::Says(text)) => return Ok(Some(text.into_bytes())),
                Some(Then::Waits(span)) => tokio::time::sleep(span).await,
                Some(Then::Breaks) => return Err(StreamError::Network("the connection broke".to_owned())),
                Some(Then::Ends) => return Ok(None),
                Some(Then::Stalls) | None => std::future::pending().await,
            }
        }
    }
}

static NEXT: AtomicU32 = AtomicU32::new(0);

/// A post that was just made: its id and its line.
fn post() -> (String, Then) {
    let id = TweetId::at(wall_ms() - 1_000, NEXT.fetch_add(1, Ordering::Relaxed)).to_string();
    let line = format!("{{\"data\":{{\"id\":\"{id}\",\"text\":\"hello\"}}}}\r\n");
    (id, Then::Says(line))
}

fn says(line: &str) -> Then {
    Then::Says(format!("{line}\r\n"))
}

/// A stream and all that is around it.
struct Rig {
    tweets: Arc<MemoryQueue>,
    sources: Arc<MemoryQueue>,
    holds: Arc<MemoryQueue>,
    store: Arc<MemoryStore>,
    counters: Arc<StreamCounters>,
    made: Arc<Mutex<Vec<Duration>>>,
    stop: Stop,
    run: tokio::task::JoinHandle<()>,
}

impl Rig {
    async fn start(attempts: Vec<Attempt>) -> Self {
        Self::start_late(attempts, LATE).await
    }

    /// Posts may appear so late, ms.
    async fn start_late(attempts: Vec<Attempt>, late: i64) -> Self {
        let clock = ServiceClock::right();
        let queue = |namespace: &str| Arc::new(MemoryQueue::new(namespace, clock.clone(), Rules::default()));
        let (tweets, sources) = (queue("tweet:update"), queue(&polled("search/tweets")));
        let holds = queue("source:stream:x:main");
        let (store, counters, stop) = (Arc::new(MemoryStore::default()), Arc::<StreamCounters>::default(), Stop::new());
        let made = Arc::new(Mutex::new(Vec::new()));
        let rig = Self {
            tweets: tweets.clone(),
            sources: sources.clone(),
            holds: holds.clone(),
            store: store.clone(),
            counters: counters.clone(),
            made: made.clone(),
            stop: stop.clone(),
            run: tokio::spawn(std::future::ready(())),
        };
        rig.put_off().await;
        let ages: AgeTable = "30d: 1h".parse().unwrap();
        let scripted = Scripted { attempts: Mutex::new(attempts.into()), made, watch: Stopwatch::start() };
        let source = StreamSource {
            name: "rust".into(),
            stream: Arc::new(scripted),
            lease_keeper: LeaseKeeper::new(holds, "poller".into(), LeaseTerms::from_lease(Duration::from_secs(30))),
            gap_filler: GapFiller {
                queue: sources,
                source: "rust".into(),
                lane: interval_lane(5_000),
                delay: late,
                scheduled_due: Default::default(),
            },
            handover: PostHandover {
                name: "rust".into(),
                starter: app::starter(
                    &Settings::load_with(&[], None, &[]).unwrap(),
                    &posts_pipeline(&Provider::X),
                    tweets,
                    Some(store),
                    ages,
                ),
                counters: counters.clone(),
            },
            counters,
            metrics: Arc::default(),
        };
        let run = tokio::spawn(async move { source.run(&stop).await });
        Self { run, ..rig }
    }

    /// The polled source is due in a quarter of an hour.
    async fn put_off(&self) {
        let job = NewJob { id: "rust".into(), lane: interval_lane(5_000), due: 900_000.into() };
        self.sources.forget(&["rust".into()]).await.unwrap();
        self.sources.schedule(&[job]).await.unwrap();
    }

    /// In how many ms the polled source is due; `None` while it is being polled.
    async fn polled_in(&self) -> Option<i64> {
        match self.sources.locate(&["rust".into()]).await.unwrap().remove(0).as_slice() {
            [Place::Delayed { due, .. }] => Some(due - self.sources.now()),
            [Place::Leased { .. }] => None,
            other => panic!("{other:?}"),
        }
    }

    fn attempts(&self) -> usize {
        self.made.lock().unwrap().len()
    }

    /// Waits until so many attempts were made.
    async fn attempted(&self, times: usize) {
        while self.attempts() < times {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    async fn is_scheduled_once(&self, ids: &[String]) -> bool {
        let places = self.tweets.locate(ids).await.unwrap();
        places.iter().all(|of| matches!(&of[..], [Place::Delayed { .. }]))
    }

    async fn stop(self) {
        self.stop.drain();
        self.run.await.unwrap();
    }
}

fn refused() -> Attempt {
    Err(StreamError::Refused("the API refuses the credential: it is not accepted".into()))
}

#[tokio::test(start_paused = true)]
async fn it_comes_again_when_the_documents_say() {
    let network = || Err(StreamError::Network("cannot connect".into()));
    let http = || Err(StreamError::Http("HTTP 503".into()));
    let rate =
        |at_least| Err(StreamError::RateLimited { why: "HTTP 420".into(), at_least: Duration::from_secs(at_least) });
    let (id, says_it) = post();
    let delivers = Ok(vec![says_it, Then::Breaks]);
    let stalls = Ok(vec![says(""), Then::Waits(SILENCE - MOMENT), says(""), Then::Stalls]);
    let lasts =
        Ok(vec![says(""), Then::Waits(SILENCE - MOMENT), says(""), Then::Waits(MOMENT), says(""), Then::Breaks]);
    let attempts = vec![
        network(), // 250 ms
        network(), // 500 ms
        http(),    // 5 s
        http(),    // 10 s
        rate(0),   // 1 min
        rate(0),   // 2 min
        rate(400), // its 400 s, where 4 min would be shorter
        refused(), // 320 s
        delivers,  // a post, and it breaks: 750 ms
        network(), // 1 s
        // Keep-alives come for 89 s, then none for 90: 1.25 s.
        stalls,
        lasts,                // all is as at first: 250 ms
        Ok(vec![Then::Ends]), // 500 ms
    ];
    let rig = Rig::start(attempts).await;
    rig.attempted(14).await;
    let made = rig.made.lock().unwrap().clone();
    let waits: Vec<u128> = made.windows(2).map(|two| (two[1] - two[0]).as_millis()).collect();
    let (dead, lasted) = (179_000 + 1_250, 90_000 + 250);
    let expected = [250, 500, 5_000, 10_000, 60_000, 120_000, 400_000, 320_000, 750, 1_000, dead, lasted, 500];
    for (at, (waited, expected)) in waits.iter().zip(expected).enumerate() {
        // Timers are a millisecond late.
        assert!((expected..expected + 20).contains(waited), "attempt {}: {waits:?}", at + 2);
    }
    assert!(rig.is_scheduled_once(&[id]).await);
    assert_eq!(rig.counters.stream_connects.get(), 5);
    rig.stop().await;
}

/// An API that ends each connection after one post or one error message. X allows 50 connections in 15 minutes.
#[tokio::test(start_paused = true)]
async fn reconnection_delays_grow_while_connections_end_after_one_message() {
    let too_many = r#"{"errors":[{"title":"ConnectionException","connection_issue":"TooManyConnections"}]}"#;
    let operational =
        r#"{"errors":[{"title":"operational-disconnect","disconnect_type":"UpstreamOperationalDisconnect"}]}"#;
    for (what, most, message) in [
        ("a post", 70, None),
        ("an operational disconnect", 70, Some(operational)),
        ("too many connections", 5, Some(too_many)),
    ] {
        let script = || Ok(vec![message.map_or_else(|| post().1, says), Then::Ends]);
        let rig = Rig::start((0..3_000).map(|_| script()).collect()).await;
        tokio::time::sleep(Duration::from_secs(600)).await;
        let made = rig.made.lock().unwrap().clone();
        assert!((3..=most).contains(&made.len()), "{what}: {} connections in 10 minutes", made.len());
        let waits: Vec<Duration> = made.windows(2).map(|two| two[1] - two[0]).collect();
        let grows = |pair: &[Duration]| pair[1] + Duration::from_millis(5) >= pair[0];
        assert!(waits.windows(2).all(grows), "{what}: {waits:?}");
        rig.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn whenever_it_is_connected_its_gap_is_polled() {
    let (_, first) = post();
    let long = Duration::from_secs(3_600);
    let attempts = vec![
        refused(),
        Ok(vec![first, Then::Waits(Duration::from_secs(60)), Then::Breaks]),
        Err(StreamError::Http("HTTP 503".into())),
        Ok(vec![Then::Waits(long)]),
    ];
    let rig = Rig::start(attempts).await;
    rig.attempted(1).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert!(rig.polled_in().await.unwrap() > 600_000, "nothing is polled for a stream that is not connected");
    rig.attempted(2).await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    // As much later as a post may appear.
    let due = rig.polled_in().await.unwrap();
    assert!((LATE - 200..=LATE).contains(&due), "{due}");
    rig.put_off().await;

    // A poll is on its way when the stream is connected again: it may have begun before that, so there is another.
    rig.attempted(3).await;
    rig.sources.forget(&["rust".into()]).await.unwrap();
    rig.sources.schedule(&[NewJob { id: "rust".into(), lane: interval_lane(5_000), due: 0.into() }]).await.unwrap();
    let lease = Duration::from_secs(60);
    let request = claim::at_once("p-1", 1, lease);
    let twitter_updater::engine::queue::Claim::Batch(batch) = rig.sources.claim(&request).await.unwrap() else {
        panic!()
    };
    rig.attempted(4).await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(rig.polled_in().await, None);
    let done = Verdict::Reschedule { lane: interval_lane(5_000), due: 900_000.into() };
    rig.sources.settle(&batch.fence, &[(batch.jobs[0].clone(), done)], &[]).await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    let due = rig.polled_in().await.unwrap();
    assert!((0..=LATE).contains(&due), "{due}");
    rig.stop().await;
}

#[tokio::test(start_paused = true)]
async fn connections_that_end_soon_put_no_poll_off() {
    // As late as a search of X is.
    let late = 31_000;
    let brief = || Ok(vec![Then::Waits(Duration::from_secs(1)), Then::Ends]);
    let rig = Rig::start_late((0..200).map(|_| brief()).collect(), late).await;
    rig.attempted(1).await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    for poll in 0..12 {
        let mut looks = 0;
        while rig.polled_in().await.unwrap() > 0 {
            looks += 1;
            assert!(looks < 600, "poll {poll} is not due within a minute");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        rig.put_off().await; // polled
    }
    rig.stop().await;

    // And one more after the last, for what it has missed.
    let rig = Rig::start_late(vec![brief(), Ok(vec![])], late).await;
    rig.attempted(2).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert!(rig.polled_in().await.unwrap() < late - 5_000);
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert!(rig.polled_in().await.unwrap() <= 0, "nor once it is due");
    rig.put_off().await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let due = rig.polled_in().await.unwrap();
    assert!((late - 1_000..=late).contains(&due), "{due}");
    rig.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_bad_line_costs_itself_and_no_post_waits_long() {
    let (posts, lines): (Vec<String>, Vec<Then>) = (0..250).map(|_| post()).unzip();
    let (last, says_last) = post();
    let bare = TweetId::at(wall_ms() - 1_000, 77).to_string();
    let mut script = lines;
    for (at, bad) in ["canary", "{\"id\":", "{\"canary\":1}"].into_iter().enumerate() {
        script.insert(50 * (at + 1), says(bad));
    }
    script.insert(10, says(&format!("{{\"data\":{{\"id\":\"{bare}\",\"text\":7}}}}")));
    script.push(Then::Waits(Duration::from_secs(30)));
    script.push(says_last);
    let rig = Rig::start(vec![Ok(script)]).await;
    rig.attempted(1).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(rig.is_scheduled_once(&posts).await, "before anything else comes");
    assert!(rig.is_scheduled_once(std::slice::from_ref(&bare)).await, "what has an id is scheduled by it");
    assert_eq!(rig.counters.stream_broken.get(), 4);
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert!(rig.is_scheduled_once(std::slice::from_ref(&last)).await);
    assert_eq!(rig.counters.stream_posts.get(), 252);
    assert_eq!(rig.attempts(), 1, "nothing of it ended the connection");
    rig.stop().await;
}

#[tokio::test(start_paused = true)]
async fn what_was_read_waits_for_a_store_that_is_out() {
    let (id, line) = post();
    let rig = Rig::start(vec![Ok(vec![Then::Waits(Duration::from_secs(5)), line])]).await;
    rig.attempted(1).await;
    rig.store.set_down(Some("maintenance"));
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(rig.tweets.locate(std::slice::from_ref(&id)).await.unwrap(), [vec![]]);
    rig.store.set_down(None);
    tokio::time::sleep(Duration::from_secs(31)).await; // the longest step of the back-off
    assert!(rig.is_scheduled_once(&[id]).await);
    rig.stop().await;
}

#[tokio::test(start_paused = true)]
async fn one_that_is_stopped_hands_over_what_it_has_read_and_lets_go() {
    let (id, line) = post();
    let rig = Rig::start(vec![Ok(vec![line])]).await;
    rig.attempted(1).await;
    tokio::time::sleep(Duration::from_millis(20)).await;
    let (tweets, holds) = (rig.tweets.clone(), rig.holds.clone());
    rig.stop().await;
    assert!(matches!(&tweets.locate(&[id]).await.unwrap()[0][..], [Place::Delayed { .. }]));
    assert!(matches!(&holds.locate(&[JOB.into()]).await.unwrap()[0][..], [Place::Delayed { .. }]), "nobody waits");
}
