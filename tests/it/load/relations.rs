//! Ten thousand lists of nobody to three hundred thousand followers, which change all the time: what is stored is what
//! happened, whatever goes wrong. And lists by four lanes of authorisation, each of which is used up.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use secrecy::SecretString;
use twitter_updater::base::clock::{Millis, Stopwatch, wall_ms};
use twitter_updater::engine::queue::Queue;
use twitter_updater::model::provider::Provider;
use twitter_updater::simulator::{
    self, ClosedWindow, Endpoint, Fault, Rule, Running, SimulatedCredential, SimulatedKeys, SimulatorOptions,
};
use twitter_updater::store::ListCrawl;

use crate::support::census::census;
use crate::support::lists::{self, CRAWLS, LISTS, compare};
use crate::support::process::{Process, Variables, run, text, variables};
use crate::support::wait::{until, until_true};
use crate::support::world::{Backends, World};

const OWNERS: usize = 10_000;
/// Members of the longest list,
const GIANT: u64 = 300_000;
/// of which others are long, and how many of those there are;
const LONG: std::ops::Range<u64> = 10_000..60_000;
const LONG_ONES: usize = 4;
/// all others are no longer than this: the length of all is what the test takes its time for.
const SHORT: u64 = 2_000;

const PROCESSES: usize = 3;
const KILLS: usize = 20;
/// Visits between two kills: together, most lists are visited once while all goes wrong,
const VISITS: i64 = 450;
/// and these again when all is well.
const AGAIN: usize = 1_000;
/// Answers that break off in the middle.
const CUTS: u32 = 20;
/// Processes that stop between an answer and its save, until their leases are over.
const LATE: usize = 2;
const LEASE_MS: Millis = 9_000;
const WITHIN: Duration = Duration::from_secs(300);
/// Times that all processes are killed until a cursor is stale. A list may be read to its end as they die, and its owner be away
/// when the next one asks: a third of the times or less.
const TRIES: usize = 10;

/// The network: each list changes about five times a second, one account of twenty is away at a time and comes back, and one
/// of twelve is protected.
async fn world_of_lists() -> Running {
    let options = SimulatorOptions {
        latency: Duration::from_millis(2),
        jitter: Duration::from_millis(4),
        calls_per_window: 0,
        accounts: 2 * GIANT + 1,
        accounts_since: wall_ms() - 3_600_000,
        account_changes: Duration::from_secs(600),
        accounts_gone: 0.05,
        account_away: Duration::from_secs(10),
        follow_changes: Duration::from_millis(400),
        most_followers: GIANT,
        cursors_last: Duration::from_secs(3),
        ..SimulatorOptions::default()
    };
    simulator::start(([127, 0, 0, 1], 0).into(), options).await.unwrap()
}

/// The accounts whose lists are read.
fn owners(api: &Running) -> Vec<String> {
    let follows = api.people().follows();
    let sizes = (0..).map(|number| (number, follows.size(number)));
    let mut long = 0;
    let is_taken = |(_, size): &(u64, u64)| {
        long += usize::from(LONG.contains(size));
        *size <= SHORT || *size == GIANT || LONG.contains(size) && long <= LONG_ONES
    };
    let taken = sizes.filter(is_taken).take(OWNERS);
    taken.map(|(number, _)| api.people().id(&Provider::Twitter, number)).collect()
}

/// What went wrong in a run.
#[derive(Debug, Default)]
struct Faults {
    kills: usize,
    late: usize,
    wiped: usize,
    /// Counted by the queue: leases that ran out, and verdicts that came after theirs.
    expired: i64,
    lost: i64,
}

struct Story<'a> {
    world: &'a World,
    folder: &'a Path,
    queue: &'a dyn Queue,
    processes: Vec<Process>,
    faults: Faults,
}

impl Story<'_> {
    fn updater(&self, settings: &Variables) -> Process {
        Process::start(&["updater"], settings, &self.folder.join("updater.log"))
    }

    fn start(&mut self) {
        self.processes.push(self.updater(&self.world.settings));
    }

    fn logged(&self) -> String {
        std::fs::read_to_string(self.folder.join("updater.log")).unwrap_or_default()
    }

    async fn counted(&self, counter: &str) -> i64 {
        self.queue.stats().await.unwrap().counters.get(counter).copied().unwrap_or(0)
    }

    /// Waits until so many further lists were visited, or have their next page before them.
    async fn goes_on(&self, more: i64) {
        let before = self.counted("rescheduled").await;
        until_true("further visits", WITHIN, async || self.counted("rescheduled").await >= before + more).await;
    }

    /// As the network reads a list for a process, that dies; another goes on.
    fn kill(&mut self) {
        self.processes.remove(0).kill();
        self.faults.kills += 1;
        self.start();
    }

    /// All processes die in the middle of a list: when its lease is over its cursor is no longer good.
    async fn kill_all(&mut self) {
        for _ in 0..TRIES {
            if self.kill_in_the_middle().await.as_deref() == Some("stale") {
                return;
            }
        }
        panic!("no cursor was stale, {TRIES} times");
    }

    /// Kills all processes in the middle of a list, and starts others; how the crawl ended that was left, if one was.
    async fn kill_in_the_middle(&mut self) -> Option<String> {
        until_true("a list is read in its middle", WITHIN, async || self.middle().await.is_some()).await;
        for process in std::mem::take(&mut self.processes) {
            process.kill();
            self.faults.kills += 1;
        }
        let left = self.middle().await;
        (0..PROCESSES).for_each(|_| self.start());
        let ListCrawl { owner, crawl } = left?;
        let end = until("the crawl that was left ends", WITHIN, async || {
            let crawls = self.world.edges.crawls(LISTS, &owner, CRAWLS).await.unwrap();
            crawls.into_iter().find(|of| of.number == crawl.number)?.ended
        });
        Some(end.await)
    }

    /// A list that has a page, and waits for its next one.
    async fn middle(&self) -> Option<ListCrawl> {
        let under_way = self.world.edges.crawls_under_way(LISTS, 0, 1_000).await.unwrap();
        under_way.into_iter().find(|list| list.crawl.cursor.is_some())
    }

    /// A process stops with an answer in its hands, and goes on when another has its list.
    async fn come_late(&mut self) {
        let late = self.updater(&self.world.with("TWITTER_UPDATER_STOP_AT", "after_answer:9"));
        until_true("it stops", WITHIN, async || late.is_stopped()).await;
        // Whoever asks first gets what it holds from then on, before all else.
        let stopped = wall_ms();
        until_true("its lease ends", WITHIN, async || wall_ms() > stopped + LEASE_MS).await;
        self.goes_on(PROCESSES as i64).await;
        let lost = self.counted("lost").await;
        late.signal("CONT");
        until_true("its verdict comes too late", WITHIN, async || self.counted("lost").await > lost).await;
        self.faults.late += 1;
        self.processes.push(late);
        // As many as before.
        let status = self.processes.remove(0).terminate();
        assert!(status.success(), "{status}\n{}", self.logged());
    }

    async fn wipe(&mut self) {
        (self.faults.expired, self.faults.lost) = (self.counted("expired").await, self.counted("lost").await);
        let mut raw = self.world.redis.as_ref().unwrap().connection().await;
        redis::cmd("FLUSHALL").query_async::<()>(&mut raw).await.unwrap();
        let output = run(&["rebuild", "--pipeline", LISTS], &self.world.settings);
        assert!(output.status.success(), "{}", text(&output.stderr));
        self.faults.wiped += 1;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes two to three minutes of the whole machine: run it with --ignored"]
async fn ten_thousand_lists_are_stored_as_they_were() {
    let (folder, watch) = (tempfile::tempdir().unwrap(), Stopwatch::start());
    let api = world_of_lists().await;
    let mut world = World::new(Backends { redis: true, postgres: true }, folder.path(), &api.base_url()).await;
    world.settings.extend(lists::settings());
    world.settings.extend(variables(&[
        ("lookup.timeout", "2s"),
        ("updater.save_timeout", "6s"),
        ("updater.lease", &format!("{LEASE_MS}ms")),
        ("updater.concurrency", "8"),
        ("updater.unavailable_after", "2s"),
        ("accounts.gone", "3s"),
    ]));
    let owners = owners(&api);
    lists::enqueue(&world, LISTS, &owners);
    api.faults().add(Rule { at: Endpoint::Relations, times: Some(CUTS), probability: 0.02, ..Fault::CutBody.into() });
    let queue = world.queue_of(folder.path(), LISTS).await;
    let (world, folder) = (&world, folder.path());
    let mut story = Story { world, folder, queue: &*queue, processes: Vec::new(), faults: Faults::default() };
    (0..PROCESSES).for_each(|_| story.start());
    while story.faults.kills < KILLS {
        story.goes_on(VISITS).await;
        match (story.faults.kills, story.faults.late, story.faults.wiped) {
            (4, ..) => story.kill_all().await,
            (7.., 0, _) | (13.., 1, _) => story.come_late().await,
            (10.., _, 0) => story.wipe().await,
            _ => story.kill(),
        }
    }
    println!("all faults happened within {:?}", watch.elapsed());
    let calm = wall_ms();
    until_true("each list is visited, and some again", WITHIN, async || {
        let standings = world.store.standing(LISTS, &owners).await.unwrap();
        let visits: Vec<Millis> = standings.into_iter().flatten().filter_map(|known| known.checked_at).collect();
        visits.len() == OWNERS && visits.iter().filter(|at| **at > calm).count() >= AGAIN
    })
    .await;
    println!("all lists are read within {:?}", watch.elapsed());
    story.faults.expired += story.counted("expired").await;
    story.faults.lost += story.counted("lost").await;
    for process in std::mem::take(&mut story.processes) {
        let status = process.terminate();
        assert!(status.success(), "{status}\n{}", story.logged());
    }
    let found = compare(&api, world, &owners).await;
    println!("{found:?}, {:?}, {:?}", story.faults, watch.elapsed());
    // All of it happened.
    let Faults { kills, late, wiped, expired, lost } = story.faults;
    assert!(kills >= KILLS && late == LATE && wiped == 1 && expired > 0 && lost >= LATE as i64);
    let cuts_left: u32 = api.faults().rules().iter().filter_map(|rule| rule.times).sum();
    assert_eq!(cuts_left, 0, "answers that break off");
    for end in ["complete", "stale", "hidden", "aborted"] {
        assert!(found.crawls.get(end).is_some_and(|count| *count > 0), "no crawl ended so: {end}, {found:?}");
    }
    assert!(found.returned > 100 && found.ended > 1_000 && found.edges > GIANT as usize, "{found:?}");
    let places = census(&*queue, &*world.store, &owners).await;
    assert_eq!(places.delayed + places.leased, OWNERS, "{places:?}");
    api.stop().await;
}

/// A window, of fifteen calls.
const LANES_WINDOW: Duration = Duration::from_secs(3);
/// Closed windows of each lane that are looked at, after its first.
const WINDOWS: usize = 20;
const LANE_PROCESSES: usize = 4;
/// Lists of each kind: each page costs a call, and there is always one that is due.
const LANE_OWNERS: u64 = 400;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn four_lanes_of_authorisation_are_used_up() {
    let folder = tempfile::tempdir().unwrap();
    let secret = |part: &str| SecretString::from(format!("{part}-of-main"));
    let (key, consumer_secret) = (secret("consumer_key"), secret("consumer_secret"));
    let user = SimulatedKeys::User {
        consumer_key: key.clone(),
        consumer_secret: consumer_secret.clone(),
        token: secret("token"),
        token_secret: secret("token_secret"),
    };
    let app = SimulatedKeys::App { consumer_key: key, consumer_secret };
    let named = |(name, keys): (&str, SimulatedKeys)| SimulatedCredential { name: name.to_owned(), keys };
    let options = SimulatorOptions {
        credentials: Some([("main", user), ("main-app", app)].map(named).into()),
        window: LANES_WINDOW,
        latency: Duration::from_millis(40),
        jitter: Duration::from_millis(40),
        accounts: 2_000,
        ..SimulatorOptions::default()
    };
    let api = simulator::start(([127, 0, 0, 1], 0).into(), options).await.unwrap();
    let mut world = World::new(Backends { redis: true, postgres: true }, folder.path(), &api.base_url()).await;
    world.settings.extend(lists::settings());
    world.settings.extend(variables(&[
        ("relations.collect", "followers, friends"),
        ("updater.lease", "20s"),
        ("updater.save_timeout", "5s"),
        ("lookup.timeout", "5s"),
        ("store.postgres.connections", "4"),
        ("twitter.credentials.main.kind", "both"),
    ]));
    for part in ["consumer_key", "consumer_secret", "token", "token_secret"] {
        let (key, value) = (format!("twitter.credentials.main.{part}"), format!("{part}-of-main"));
        world.settings.extend(variables(&[(&key, &value)]));
    }
    let owners: Vec<String> = (0..LANE_OWNERS).map(|n| api.people().id(&Provider::Twitter, n)).collect();
    for list in [LISTS, "friends:twitter"] {
        lists::enqueue(&world, list, &owners);
    }
    let log = folder.path().join("updaters.log");
    let updaters: Vec<Process> =
        (0..LANE_PROCESSES).map(|_| Process::start(&["updater"], &world.settings, &log)).collect();
    let lanes = until("enough windows of four lanes are closed", LANES_WINDOW * (4 * WINDOWS as u32), async || {
        let mut lanes = BTreeMap::<(String, &str), Vec<ClosedWindow>>::new();
        for window in api.closed_windows() {
            lanes.entry((window.who.clone(), window.endpoint)).or_default().push(window);
        }
        (lanes.len() == 4 && lanes.values().all(|windows| windows.len() > WINDOWS)).then_some(lanes)
    })
    .await;
    for updater in updaters {
        assert!(updater.terminate().success(), "{}", std::fs::read_to_string(&log).unwrap_or_default());
    }
    api.stop().await;
    let endpoints: BTreeSet<&str> = lanes.keys().map(|(_, endpoint)| *endpoint).collect();
    assert_eq!(endpoints.len(), 2, "{endpoints:?}");
    for (lane, windows) in &lanes {
        let windows = &windows[1..=WINDOWS];
        let sum =
            |figure: fn(&ClosedWindow) -> u32| windows.iter().map(|window| f64::from(figure(window))).sum::<f64>();
        let (limit, used, refused) = (sum(|of| of.limit), sum(|of| of.used), sum(|of| of.refused));
        println!("{lane:?}: {used} of {limit} calls in {} windows, {refused} refused", windows.len());
        assert!(used >= 0.97 * limit, "{lane:?}: {used} of {limit}");
        assert!(refused <= 0.01 * (used + refused), "{lane:?}: {refused} refused, {used} used");
    }
}
