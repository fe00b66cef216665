//! Sources beside broken ones, and posts that cannot be, in worlds of their own: the real poller over services in memory, in
//! simulated time.

use std::collections::{BTreeMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use twitter_updater::base::clock::{self, Millis, wall_ms};
use twitter_updater::base::reload::Reloadable;
use twitter_updater::base::shutdown::Stop;
use twitter_updater::engine::health::Health;
use twitter_updater::engine::metrics::Metrics;
use twitter_updater::engine::queue::Inspection;
use twitter_updater::engine::worker::{ClaimSettings, HandlerKind, PermanentFailure, Worker};
use twitter_updater::ingest::Starter;
use twitter_updater::model::post::{Tweet, TweetId};
use twitter_updater::pipelines::timelines::counters::PollCounters;
use twitter_updater::pipelines::timelines::pace::Pace;
use twitter_updater::pipelines::timelines::reader::{Reader, SharedState};
use twitter_updater::pipelines::timelines::slow_polls::SlowPollLimiter;
use twitter_updater::pipelines::timelines::source::SourcePoll;
use twitter_updater::providers::bluesky::timeline::LAYOUT;
use twitter_updater::providers::lookup::{LookupError, Quota};
use twitter_updater::providers::since::{IdLayout, Reading};
use twitter_updater::providers::source::Source;
use twitter_updater::providers::timeline::{NextPage, Rules, TimelineRequest};
use twitter_updater::providers::timeline::{Page, Post, Timeline};
use twitter_updater::quota::{Credential, CredentialKind, Credentials, Pacing};
use twitter_updater::store::Lifecycle;

use super::timeline::T;
use crate::support::memory_ledger::MemoryLedger;
use crate::support::memory_positions::MemoryPositions;
use crate::support::memory_queue::{MemoryQueue, ServiceClock};
use crate::support::memory_store::MemoryStore;
use crate::support::queue_model;

const POLL: &str = "source:poll:timelines";
const CALL_TIMEOUT: Duration = Duration::from_secs(10);
/// Between two posts of a source, ms.
const EVERY: Millis = 250;

/// A network: how its ids tell the time, posts in a page, whether it says which page is the last.
const NETWORKS: [(&str, IdLayout, u32, bool); 4] = [
    ("v1.1", IdLayout::TWITTER, 200, false),
    ("X", IdLayout::TWITTER, 100, true),
    ("Mastodon", IdLayout::MASTODON, 40, false),
    ("Bluesky", LAYOUT, 100, false),
];

/// How a source answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answers {
    Well,
    Http500,
    Unreadable,
    Never,
    Slowly,
    Refuses,
    Forbids,
    Throttles,
    /// Its posts are dated next year, 1970, or two minutes ahead, in turn.
    Misdated,
    /// All of it is two minutes ahead, the ids, too.
    Ahead,
    /// Each fourth post appears 1.3 s after it was made, and k is a second.
    Late,
}

/// A source that makes a post every [`EVERY`] ms; its timeline holds the newest 1,000.
#[derive(Debug)]
struct Fake {
    name: usize,
    network: (&'static str, IdLayout, u32, bool),
    answers: Mutex<Answers>,
    /// The whole provider is out.
    out: Arc<AtomicBool>,
    /// When it was called, and how old the oldest new post was then, ms.
    calls: Mutex<Vec<(Millis, Millis)>>,
}

impl Fake {
    /// Its posts made in that time, newest first.
    fn posts(&self, from: Millis, to: Millis) -> Vec<(u64, Millis)> {
        let ahead = if *self.answers.lock().unwrap() == Answers::Ahead { 120_000 } else { 0 };
        let made = (from.div_euclid(EVERY) + 1..=to.div_euclid(EVERY)).rev().map(|n| n * EVERY);
        made.map(|at| (self.network.1.first_at(at + ahead) + self.name as u64, at)).collect()
    }

    fn tweet(&self, id: u64, made: Millis) -> Tweet {
        let year = 365 * 86_400_000;
        let created_at = match (*self.answers.lock().unwrap(), made / EVERY % 3) {
            (Answers::Misdated, 0) => made + year,
            (Answers::Misdated, 1) => 0,
            (Answers::Misdated, _) | (Answers::Ahead, _) => made + 120_000,
            _ => made,
        };
        Tweet { id: id.to_string(), created_at: Some(created_at), text: Some("a".to_owned()), ..Tweet::default() }
    }
}

#[async_trait]
impl Timeline for Fake {
    fn rules(&self) -> Rules {
        let (_, layout, count, says_last) = self.network;
        Rules {
            endpoint: "timelines",
            layout,
            k: 1_000,
            count,
            anchored: !says_last,
            depth: None,
            window: None,
            behind: Duration::ZERO,
        }
    }

    async fn page(&self, ask: &TimelineRequest, _: &Credential) -> Result<Page, LookupError> {
        let now = wall_ms();
        let answers = *self.answers.lock().unwrap();
        let reading = Reading { sent_at: now, took: 1, date: Some(now / 1_000 * 1_000) };
        let quota =
            Some(Quota { limit: 10_000, remaining: 9_000, reset_at: now + 900_000, reset_in: 900_000, length: None });
        self.calls.lock().unwrap().push((now, ask.since.map_or(0, |since| now - self.network.1.made_at(since))));
        tokio::time::sleep(match answers {
            Answers::Never => CALL_TIMEOUT * 2,
            Answers::Slowly => CALL_TIMEOUT * 9 / 10,
            _ => Duration::from_millis(80),
        })
        .await;
        let out = || LookupError::Outage("HTTP 500".to_owned());
        match answers {
            _ if self.out.load(Ordering::Relaxed) => return Err(out()),
            Answers::Http500 => return Err(out()),
            Answers::Unreadable => return Err(LookupError::BadAnswer("it is no list".to_owned())),
            Answers::Refuses => return Err(LookupError::BadRequest("no such user".to_owned())),
            Answers::Forbids => return Err(LookupError::Credential("HTTP 401".to_owned())),
            Answers::Throttles => {
                return Err(LookupError::Throttled { status: 429, pause: Duration::from_secs(60), quota: None });
            }
            _ => {}
        }
        let (since, below) = (ask.since.unwrap_or(0), ask.below.unwrap_or(u64::MAX));
        let mut seen = self.posts(now - 1_000 * EVERY, now);
        if answers == Answers::Late {
            seen.retain(|(_, made)| made / EVERY % 4 > 0 || *made + 1_300 <= now);
        }
        let mut seen: Vec<_> = seen.into_iter().filter(|(id, _)| *id > since && *id < below).collect();
        let rest = seen.split_off(seen.len().min(ask.count as usize));
        let more = match (self.network.3, seen.last()) {
            (true, Some((last, _))) if !rest.is_empty() => NextPage::Cursor(last.to_string()),
            (true, _) => NextPage::No,
            _ => NextPage::Unstated,
        };
        let posts = seen.into_iter().map(|(id, made)| Post { id, tweet: self.tweet(id, made) }).collect();
        Ok(Page { posts, broken: 0, misdated: 0, more, reading, quota })
    }
}

/// A poller of some sources.
struct World {
    fakes: Vec<Arc<Fake>>,
    tweets: Arc<MemoryQueue>,
    store: Arc<MemoryStore>,
    positions: Arc<MemoryPositions>,
    polls: Arc<PollCounters>,
    health: Arc<Health>,
    out: Arc<AtomicBool>,
    stop: Stop,
    run: tokio::task::JoinHandle<Result<(), PermanentFailure>>,
}

impl World {
    async fn start(network: (&'static str, IdLayout, u32, bool), answers: &[Answers]) -> Self {
        let out = Arc::<AtomicBool>::default();
        let fake = |(name, answers): (usize, &Answers)| {
            let (answers, out) = (Mutex::new(*answers), out.clone());
            Arc::new(Fake { name, network, answers, out, calls: Mutex::default() })
        };
        let fakes: Vec<Arc<Fake>> = answers.iter().enumerate().map(fake).collect();
        let services = ServiceClock::right();
        let queue = |namespace| Arc::new(MemoryQueue::new(namespace, services.clone(), queue_model::Rules::default()));
        let (queue, tweets) = (queue(POLL), queue("tweet:update"));
        let (store, positions) = (Arc::<MemoryStore>::default(), Arc::<MemoryPositions>::default());
        store.migrate().await.unwrap();
        let credential = Credential { name: "app".into(), kind: CredentialKind::Anonymous };
        let ledger = Arc::new(MemoryLedger::new(services));
        let credentials = Arc::new(Credentials::new(vec![credential], ledger, Pacing::Greedy, CALL_TIMEOUT * 2));
        let concurrency = Reloadable::new(4);
        let polls = Arc::<PollCounters>::default();
        let sources = fakes.iter().map(|fake| (name_of(fake.name), Source { timeline: fake.clone(), query: None }));
        let parse = twitter_updater::providers::twitter_v1::parse_ingested;
        let reader = Reader {
            metrics: Arc::default(),
            namespace: POLL.to_owned(),
            endpoint: "timelines",
            way: "poll",
            stores_old: false,
            longest: Duration::from_secs(900),
            pages: 20,
            starter: Starter::new(
                tweets.clone(),
                Some(store.clone()),
                "30d: 1d".parse::<twitter_updater::engine::schedule::age::AgeTable>().unwrap(),
                Arc::new(move |id: &str| match network.1 {
                    IdLayout::TWITTER => TweetId::date_of(id),
                    layout => Ok(id.parse().ok().map(|id| layout.made_at(id))),
                }),
                parse,
            ),
            positions: positions.clone(),
            credentials: credentials.clone(),
            call_timeout: CALL_TIMEOUT,
            save_timeout: CALL_TIMEOUT,
            polls: polls.clone(),
            shared_state: SharedState::new([POLL.to_owned()]),
        };
        let handler = Arc::new(SourcePoll {
            reader,
            timelines: Arc::new(sources.collect::<BTreeMap<_, _>>()),
            pace: Pace { shortest: Duration::from_secs(5), longest: Duration::from_secs(900), fill: 0.2 },
            slow_polls: SlowPollLimiter::new(concurrency.clone()),
        });
        handler.schedule(&*queue).await.unwrap();
        let claims =
            ClaimSettings { limit: 1, linger: Duration::from_millis(10), lookahead: 0.0, lease: 6 * CALL_TIMEOUT };
        let stop = Stop::new();
        let health = Arc::new(Health::new(CALL_TIMEOUT, stop.clone()));
        let worker = Worker {
            name: "poller".into(),
            queue,
            handling: HandlerKind::Metered(handler, credentials),
            claims: Reloadable::new(claims),
            early: 0.0.into(),
            concurrency,
            metrics: Arc::new(Metrics::new()),
            health: health.clone(),
            stop: stop.clone(),
        };
        let run = tokio::spawn(worker.run());
        Self { fakes, tweets, store, positions, polls, health, out, stop, run }
    }

    async fn end(self) {
        self.stop.drain();
        self.run.await.unwrap().unwrap();
    }

    /// Posts of a source that were made in that time and are not in the queue, or not in the store.
    async fn lost(&self, fake: &Fake, from: Millis, to: Millis) -> usize {
        let ids: Vec<String> = fake.posts(from, to).into_iter().map(|(id, _)| id.to_string()).collect();
        let places = self.tweets.locate(&ids).await.unwrap();
        let stored = self.store.standing("tweet:update", &ids).await.unwrap();
        places.iter().zip(&stored).filter(|(place, stored)| place.len() != 1 || stored.is_none()).count()
    }
}

fn name_of(number: usize) -> String {
    format!("source-{number}")
}

/// Calls of a healthy source in that time, and how much older than the last reading's moment what it asked for was, on
/// average: ms.
fn calls(fake: &Fake, from: Millis) -> (usize, f64) {
    let calls: Vec<Millis> =
        fake.calls.lock().unwrap().iter().filter(|(at, _)| *at >= from).map(|(_, behind)| *behind).collect();
    (calls.len(), calls.iter().sum::<Millis>() as f64 / calls.len().max(1) as f64)
}

const WATCHED: Duration = Duration::from_secs(1_200);

/// What three healthy sources get beside those.
async fn beside(network: (&'static str, IdLayout, u32, bool), others: &[Answers]) -> Vec<(usize, f64)> {
    let mut answers = others.to_vec();
    answers.extend([Answers::Well; 3]);
    let begun = wall_ms();
    let world = World::start(network, &answers).await;
    tokio::time::sleep(WATCHED).await;
    let until = wall_ms() - 30_000;
    let healthy = &world.fakes[others.len()..];
    for fake in healthy {
        // It begins with the newest page.
        let first = fake.calls.lock().unwrap()[0].0;
        assert_eq!(world.lost(fake, first, until).await, 0, "{} beside {others:?}", network.0);
        assert!(world.positions.row(POLL, &name_of(fake.name)).trouble.is_none());
    }
    for fake in &world.fakes[..others.len()] {
        let is_broken = *fake.answers.lock().unwrap() != Answers::Slowly;
        let trouble = world.positions.row(POLL, &name_of(fake.name)).trouble;
        assert_eq!(trouble.is_some(), is_broken, "{others:?}: {trouble:?}");
        if let Some(trouble) = trouble {
            assert!(trouble.since < begun + 60_000 && !trouble.error.is_empty(), "{trouble:?}");
            assert!(calls(fake, begun).0 < 40, "it is left alone: {:?}", calls(fake, begun));
        } else if network.2 >= 100 {
            // With forty posts in nine seconds nobody keeps up with four a second.
            assert_eq!(world.lost(fake, begun, until - 120_000).await, 0, "a slow one loses nothing either");
        }
    }
    let got = healthy.iter().map(|fake| calls(fake, begun + 60_000)).collect();
    world.end().await;
    got
}

/// Lost 0 in each of these worlds; `docs/polling.md` has the table.
#[tokio::test(start_paused = true)]
async fn broken_sources_cost_the_others_nothing() {
    let _clock = clock::simulate_clock(T);
    let document = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/polling.md")).unwrap();
    let mut missing = Vec::new();
    for network in NETWORKS {
        let alone = beside(network, &[]).await;
        for (name, others) in [
            ("a source that answers 500 for good", vec![Answers::Http500]),
            ("a source whose answers cannot be read", vec![Answers::Unreadable]),
            ("a source that never answers", vec![Answers::Never]),
            ("a source that refuses the credential", vec![Answers::Forbids]),
            ("a source that is over its limit for good", vec![Answers::Throttles]),
            ("six slow sources", vec![Answers::Slowly; 6]),
            ("thirty sources, broken in five ways", {
                use Answers::{Http500, Never, Refuses, Slowly, Unreadable};
                [Http500, Unreadable, Never, Refuses, Slowly].repeat(6)
            }),
        ] {
            let got = beside(network, &others).await;
            for ((calls, behind), (calls_alone, behind_alone)) in got.iter().zip(&alone) {
                let (calls, behind) = (*calls as f64 / *calls_alone as f64, behind / behind_alone);
                println!("{:<9} {name:<42} calls {calls:.3} delay {behind:.3}", network.0);
                assert!(calls > 0.9 && behind < 1.1, "{} {name}: calls {calls:.3} delay {behind:.3}", network.0);
            }
            let row = format!("| {} beside {name} | 0 |", network.0);
            if !document.contains(&row) {
                missing.push(row);
            }
        }
    }
    assert!(missing.is_empty(), "docs/polling.md has not:\n{}", missing.join("\n"));
}

fn in_words(answers: Answers) -> &'static str {
    match answers {
        Answers::Misdated => "posts dated next year, 1970 and two minutes ahead, in turn",
        _ => "a clock that is two minutes ahead, in dates and ids",
    }
}

#[tokio::test(start_paused = true)]
async fn posts_with_dates_that_cannot_be_stop_nothing() {
    let _clock = clock::simulate_clock(T);
    let document = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/polling.md")).unwrap();
    for network in NETWORKS {
        for answers in [Answers::Misdated, Answers::Ahead] {
            let world = World::start(network, &[answers]).await;
            let begun = wall_ms();
            tokio::time::sleep(Duration::from_secs(300)).await;
            let fake = &world.fakes[0];
            assert_eq!(world.lost(fake, begun - 5_000, wall_ms() - 30_000).await, 0, "{} {answers:?}", network.0);
            assert!(world.polls.posts_misdated.get() > 100, "and it is noted");
            assert_eq!((world.polls.posts_refused.get(), world.polls.polls_failed.get()), (0, 0));
            // It is updated by its age, not from that date on.
            let row = format!("| {}: {} | 0 |", network.0, in_words(answers));
            assert!(document.contains(&row), "docs/polling.md has not:\n{row}");
            let (id, made) = fake.posts(begun, wall_ms() - 60_000)[0];
            let standing = world.store.standing("tweet:update", &[id.to_string()]).await.unwrap().remove(0).unwrap();
            let off = standing.created_at.unwrap() - made;
            assert!((0..=120_000).contains(&off), "{} {answers:?}: {off}", network.0);
            world.end().await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn while_no_source_is_answered_it_is_an_outage_and_ends_at_once() {
    let _clock = clock::simulate_clock(T);
    let world = World::start(NETWORKS[0], &[Answers::Well; 5]).await;
    tokio::time::sleep(Duration::from_secs(120)).await;
    world.out.store(true, Ordering::Relaxed);
    let begun = wall_ms();
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert!(world.health.trouble().is_some_and(|trouble| trouble.why.contains("HTTP 500")));
    let during: usize = world.fakes.iter().map(|fake| calls(fake, begun).0).sum();
    assert!(during < 160, "a try in five seconds or so, over all sources: {during}");
    let tried: HashSet<usize> =
        world.fakes.iter().filter(|fake| calls(fake, begun).0 > 1).map(|fake| fake.name).collect();
    assert_eq!(tried.len(), 5, "each has its turn");
    world.out.store(false, Ordering::Relaxed);
    let ended = wall_ms();
    tokio::time::sleep(Duration::from_secs(20)).await;
    for fake in &world.fakes {
        assert!(calls(fake, ended).0 > 0, "source {} is read again soon", fake.name);
        assert!(world.positions.row(POLL, &name_of(fake.name)).trouble.is_none());
    }
    assert!(world.health.trouble().is_none());
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_source_that_is_mended_is_read_again_and_has_lost_nothing_that_its_timeline_holds() {
    let _clock = clock::simulate_clock(T);
    let world = World::start(NETWORKS[2], &[Answers::Well, Answers::Well]).await;
    let begun = wall_ms();
    tokio::time::sleep(Duration::from_secs(60)).await;
    *world.fakes[0].answers.lock().unwrap() = Answers::Unreadable;
    tokio::time::sleep(Duration::from_secs(100)).await;
    let trouble = world.positions.row(POLL, &name_of(0)).trouble.unwrap();
    assert!(trouble.error.contains("cannot be read") && trouble.failures > 1, "{trouble:?}");
    *world.fakes[0].answers.lock().unwrap() = Answers::Well;
    tokio::time::sleep(Duration::from_secs(150)).await;
    assert_eq!(world.positions.row(POLL, &name_of(0)).trouble, None);
    assert_eq!(world.lost(&world.fakes[0], begun, wall_ms() - 30_000).await, 0);
    world.end().await;
}

/// What comes later than promised is missed, mostly; a page that holds some says so.
#[tokio::test(start_paused = true)]
async fn posts_that_appear_later_than_promised_are_counted() {
    let _clock = clock::simulate_clock(T);
    for network in [NETWORKS[0], NETWORKS[2]] {
        for (answers, are_late) in [(Answers::Well, false), (Answers::Late, true)] {
            let world = World::start(network, &[answers]).await;
            tokio::time::sleep(Duration::from_secs(600)).await;
            let counted = world.polls.posts_out_of_order.get();
            assert_eq!(counted > 0, are_late, "{} {answers:?}: {counted}", network.0);
            world.end().await;
        }
    }
}
