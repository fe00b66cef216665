//! When a miss is believed, in simulated time and by the default age table: answers without any post, a mass deletion,
//! a share of misses about the bound of a wave, and posts that are enqueued again while they are missing.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tracing::field::{Field, Visit};
use tracing_subscriber::layer::{Context, Layer};
use twitter_updater::base::clock::Millis;
use twitter_updater::engine::queue::{Inspection, Lane, MINUTES_KEPT, Place};
use twitter_updater::engine::schedule::age::AgeTable;
use twitter_updater::engine::worker::ClaimSettings;
use twitter_updater::ingest::Drain;
use twitter_updater::model::post::Ingested;
use twitter_updater::model::post::{ItemState, TweetId};
use twitter_updater::ops::report::plan::{Flow, RequestFill};
use twitter_updater::pipelines::refresh::mass_miss_alert::{MassMissAlert, last_alert};
use twitter_updater::pipelines::refresh::{UNAVAILABLE_LANE, UnavailableSettings};
use twitter_updater::store::Posts;

use super::network::{Dice, Way};
use super::process::Process;
use super::provider::{Nature, capabilities};
use super::watch::Stored;
use super::world::{NAMESPACE, Setup, World, simulate};
use crate::support::log::listen;

const SECOND: Millis = 1_000;
const MINUTE: Millis = 60 * SECOND;
const HOUR: Millis = 60 * MINUTE;
const DAY: Millis = 24 * HOUR;

/// How long the oldest due post may wait for its request to fill.
const BUFFER_TTL: Millis = 5 * SECOND;
/// A request on its way, and the wait for the next claim.
const SLACK: Millis = 5 * SECOND;
/// Until misses of a post span this long, they are not believed ...
const BELIEVED_AFTER: Millis = 10 * MINUTE;
/// ... and during a wave this long.
const BELIEVED_IN_A_WAVE: Millis = HOUR;
/// How long until every process knows of a change of the wave.
const WAVE_KNOWN: Millis = 10 * SECOND;

/// Posts at the beginning: the youngest and oldest age of a bracket's, and how many.
const POSTS: [(Millis, Millis, u32); 5] = [
    (0, 17 * MINUTE, 50),
    (18 * MINUTE, 59 * MINUTE, 120),
    (HOUR, 23 * HOUR, 180),
    (DAY, 6 * DAY, 120),
    (7 * DAY, 20 * DAY, 120),
];
/// Seeds of shares about the bound.
const FLICKERS: u64 = 3;
/// A new post comes so often.
const NEW_EVERY: Millis = 20 * SECOND;

/// The default settings, with requests of any size.
fn setup() -> Setup {
    Setup {
        ages: "18m: 3m, 60m: 10m, 1d: 1h, 7d: 6h, 30d: 1d".parse().unwrap(),
        claims: ClaimSettings {
            limit: 100,
            linger: Duration::from_millis(BUFFER_TTL as u64),
            lookahead: 0.1,
            lease: Duration::from_secs(60),
        },
        calls_per_window: 900,
        lookup_timeout: Duration::from_secs(10),
        save_timeout: Duration::from_secs(20),
        unavailable: UnavailableSettings {
            confirm: None,
            forget: false,
            lane: Lane::new(UNAVAILABLE_LANE, Duration::from_secs(6 * 3_600)),
            confirmed_after: BELIEVED_AFTER,
            limit: 5,
            after: 7 * DAY,
        },
        ..Setup::default()
    }
}

async fn pass(span: Millis) {
    tokio::time::sleep(Duration::from_millis(span.max(0) as u64)).await;
}

/// A world with posts of all brackets, and processes that keep them fresh.
struct System {
    world: Arc<World>,
    ids: Vec<String>,
    processes: Vec<Process>,
}

impl System {
    async fn start(setup: Setup, processes: usize) -> Self {
        Self::start_by(1, setup, processes).await
    }

    async fn start_by(seed: u64, setup: Setup, processes: usize) -> Self {
        let world = World::new(Dice::of(seed), setup, false);
        let mut system = Self { world: world.clone(), ids: Vec::new(), processes: Vec::new() };
        for (youngest, oldest, count) in POSTS {
            for n in 0..count {
                let age = youngest + (oldest - youngest) * Millis::from(n) / Millis::from(count);
                // Ages rise, dues are scattered: by the golden ratio, so evenly in any stretch.
                let part = (Millis::from(n) * 618) % 1_000;
                system.put_in(age, |lane| lane.patience * part / 1_000).await;
            }
        }
        system.processes = (0..processes).map(|number| Process::start(&world, number)).collect();
        system
    }

    async fn put_in(&mut self, age: Millis, delay: impl Fn(&Lane) -> Millis) {
        let id = self.world.tweet(age, self.ids.len() as u32, Nature::Lives);
        self.world.put_in(std::slice::from_ref(&id), delay).await;
        self.ids.push(id);
    }

    /// Time passes, and new posts come.
    async fn pass_with_new_posts(&mut self, span: Millis) {
        let until = self.world.now() + span;
        while self.world.now() + NEW_EVERY <= until {
            pass(NEW_EVERY).await;
            self.put_in(SECOND, |lane| lane.patience).await;
        }
        pass(until - self.world.now()).await;
    }

    /// The lane of a post's age.
    fn lane(&self, id: &str, at: Millis) -> Option<Lane> {
        self.world.setup.ages.lane(created_at(id), at).cloned()
    }

    async fn wave(&self) -> Option<MassMissAlert> {
        last_alert(&self.world.queue.minutes(MINUTES_KEPT).await.unwrap())
    }

    async fn stop(self) -> Arc<World> {
        for process in self.processes {
            process.drain().await.unwrap();
        }
        assert_eq!(self.world.log.first_wrong(), None);
        self.world
    }
}

fn created_at(id: &str) -> Millis {
    TweetId::parse(id).unwrap().created_at().unwrap()
}

fn is_found(stored: &Stored) -> bool {
    stored.state == ItemState::Live && stored.misses == 0
}

/// How late the most belated lookup is, of those whose lookup before it came between `from` and `to`.
fn latest(ages: &AgeTable, history: &[Stored], from: Millis, to: Millis) -> Millis {
    let late = |pair: &[Stored]| {
        let interval = ages.lane(created_at(&pair[0].id), pair[0].at)?.patience;
        (from..to).contains(&pair[0].at).then_some(pair[1].at - pair[0].at - interval)
    };
    history.windows(2).filter_map(late).max().unwrap_or(Millis::MIN)
}

/// What a fault did in which no answer held a post.
#[derive(Debug, Default)]
struct Faulted {
    /// Posts with a miss.
    missed: usize,
    /// Posts that were in the slow lane.
    slow: usize,
    /// How long after the fault the last post was found, by the lane of its age, ms.
    found_after: BTreeMap<String, Millis>,
}

/// Every answer leaves out every post for `span`; so many processes keep them fresh.
fn all_missing(span: Millis, processes: usize) -> Faulted {
    simulate(1, async {
        let mut system = System::start(setup(), processes).await;
        system.pass_with_new_posts(25 * MINUTE).await;
        let world = system.world.clone();
        // Again where no call met it: a request goes out every 20 s or so.
        let calls = || world.provider.calls().len();
        let (begins, before) = (world.now(), calls());
        let mut ends = begins;
        while calls() == before {
            world.provider.leave_out(1.0);
            system.pass_with_new_posts(span).await;
            world.provider.leave_out(0.0);
            ends = world.now();
        }
        pass(DAY + HOUR + 5 * MINUTE).await;

        let stored = world.store.stored();
        let mut faulted = Faulted::default();
        for id in &system.ids {
            let history = &stored[id];
            assert!(history.iter().all(|of| of.state != ItemState::Ended), "{id} has ended");
            faulted.missed += usize::from(history.iter().any(|of| of.misses > 0));
            let was_slow = history.iter().any(|of| of.state == ItemState::Unavailable);
            faulted.slow += usize::from(was_slow);
            let lane = system.lane(id, ends).unwrap();
            let found = history.iter().find(|of| of.at >= ends).filter(|of| is_found(of));
            let after = found.unwrap_or_else(|| panic!("{id} is not found after the fault")).at - ends;
            let visited = if was_slow { BELIEVED_IN_A_WAVE } else { 0 };
            assert!(after <= visited + lane.patience + BUFFER_TTL + SLACK, "{id} is found {after} ms after it");
            let latest_of = faulted.found_after.entry(lane.name.to_string()).or_default();
            *latest_of = after.max(*latest_of);
            // And is in the lane of its age from then on: no later lookup is late.
            let late = latest(&world.setup.ages, history, ends, world.now());
            assert!(late <= BUFFER_TTL + SLACK, "{id} is {late} ms late after the fault");
            let late = latest(&world.setup.ages, history, 0, begins - DAY);
            assert!(late <= BUFFER_TTL + SLACK, "{id} is {late} ms late before the fault");
        }
        for id in &system.ids {
            let place = world.queue.inner.with_model(|model| model.place(id));
            assert!(!matches!(&place, Some(Place::Delayed { lane, .. }) if lane == UNAVAILABLE_LANE), "{place:?}");
        }
        let promoted = world.queue.stats().await.unwrap().counters.get("promoted").copied().unwrap_or(0);
        assert!(promoted <= faulted.slow as i64, "{promoted} lookups were brought forward: {faulted:?}");
        system.stop().await;
        println!(
            "all missing for {} s, {} posts: {promoted} brought forward, {faulted:?}",
            span / SECOND,
            stored.len()
        );
        faulted
    })
}

#[test]
fn five_seconds_without_any_post() {
    let faulted = all_missing(5 * SECOND, 1);
    assert!(faulted.missed > 5 && faulted.slow == 0, "{faulted:?}");
}

#[test]
fn a_minute_without_any_post() {
    let faulted = all_missing(MINUTE, 1);
    assert!(faulted.missed > 20 && faulted.slow == 0, "{faulted:?}");
}

#[test]
fn a_quarter_of_an_hour_without_any_post() {
    let faulted = all_missing(15 * MINUTE, 1);
    assert!(faulted.missed > 100 && faulted.slow == 0, "a wave makes a miss take longer to be believed: {faulted:?}");
}

#[test]
fn three_hours_without_any_post() {
    let faulted = all_missing(3 * HOUR, 2);
    assert!(faulted.slow > 100, "{faulted:?}");
}

/// Reads the alarm of a wave off the log.
struct Alarms {
    world: Arc<World>,
    at: Arc<Mutex<Vec<Millis>>>,
}

#[derive(Default)]
struct Message(String);

impl Visit for Message {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        if field.name() == "message" {
            self.0 = format!("{value:?}");
        }
    }
}

impl<S: tracing::Subscriber> Layer<S> for Alarms {
    fn on_event(&self, event: &tracing::Event<'_>, _: Context<'_, S>) {
        let mut message = Message::default();
        event.record(&mut message);
        if *event.metadata().level() == tracing::Level::WARN && message.0.starts_with("mass-miss alert") {
            self.at.lock().unwrap().push(self.world.now());
        }
    }
}

/// Calls a minute that the posts need, in requests of so many.
fn calls_a_minute(system: &System, limit: usize) -> f64 {
    let mut flows: BTreeMap<Millis, Flow> = BTreeMap::new();
    for id in &system.ids {
        let interval_s = system.lane(id, system.world.now()).unwrap().patience as f64 / 1_000.0;
        flows.entry(interval_s as Millis).or_insert(Flow { rate: 0.0, interval_s, visits: 1.0 }).rate +=
            1.0 / interval_s;
    }
    let fill = RequestFill { limit, ..RequestFill::new(capabilities(), Duration::from_millis(BUFFER_TTL as u64), 0.1) };
    60.0 * fill.requests_per_second(&flows.into_values().collect::<Vec<_>>())
}

#[test]
fn a_third_is_deleted_for_good() {
    /// Ids of a request: few, so that the quota is counted in small steps.
    const LIMIT: usize = 5;
    /// New posts come for so long after the deletion, so that the demand does not fall.
    const BUSY: Millis = 3 * HOUR;
    /// Calls a minute: what the posts need at the end of that, and a tenth more.
    const QUOTA: u32 = 10;
    simulate(1, async {
        let claims = ClaimSettings { limit: LIMIT, ..setup().claims };
        let mut system = System::start(Setup { claims, calls_per_window: QUOTA, ..setup() }, 1).await;
        let world = system.world.clone();
        let alarms = Arc::new(Mutex::new(Vec::new()));
        let layer = Alarms { world: world.clone(), at: alarms.clone() };
        let _log = listen(layer);
        system.pass_with_new_posts(40 * MINUTE).await;
        let at = world.now();
        assert!(system.wave().await.is_none());
        let deleted: Vec<String> = system.ids.iter().step_by(3).cloned().collect();
        for id in &deleted {
            world.provider.add(id, Nature::GoneAt(at));
        }
        let mut need = calls_a_minute(&system, LIMIT);
        // Whether there is a wave, and since when.
        let mut waves = vec![(at, false)];
        while world.now() < at + 2 * DAY + HOUR {
            match world.now() < at + BUSY {
                true => system.pass_with_new_posts(NEW_EVERY).await,
                false => pass(NEW_EVERY).await,
            }
            if world.now() - at < BUSY + NEW_EVERY {
                need = need.max(calls_a_minute(&system, LIMIT));
            }
            let lasts = system.wave().await.is_some_and(|wave| wave.lasts());
            if waves.last().is_some_and(|(_, known)| *known != lasts) {
                waves.push((world.now(), lasts));
            }
        }
        let told: Vec<_> = waves.iter().map(|(since, lasts)| ((since - at) / SECOND, *lasts)).collect();
        println!("{} of {} posts deleted; waves by seconds after it: {told:?}", deleted.len(), system.ids.len());
        println!("all posts need {need:.2} of {QUOTA} calls a minute");
        assert!((0.85..0.95).contains(&(need / f64::from(QUOTA))), "little to spare: {need} of {QUOTA}");
        let noticed = waves[1].0 - at;
        assert!(noticed <= 3 * MINUTE, "noticed after {noticed} ms");
        let alarmed = alarms.lock().unwrap().first().map(|first| first - at);
        println!("noticed after {noticed} ms, alarm after {alarmed:?} ms");
        assert!(alarmed.is_some_and(|alarmed| alarmed <= noticed + WAVE_KNOWN));

        let stored = world.store.stored();
        let living = system.ids.iter().filter(|id| !deleted.contains(id));
        let late = living.map(|id| latest(&world.setup.ages, &stored[id], 0, Millis::MAX)).max();
        println!("living posts are late by {late:?} ms at the most");
        assert!(late <= Some(BUFFER_TTL + SLACK), "living posts are late by {late:?} ms");
        let lasts = |at| waves.iter().rev().find(|(since, _)| *since <= at).is_some_and(|(_, lasts)| *lasts);
        let mut moved = Vec::new();
        for id in &deleted {
            let history = &stored[id];
            let first = history.iter().find(|of| of.misses == 1).unwrap_or_else(|| panic!("{id} was not looked up"));
            let unavailable = history.iter().find(|of| of.state == ItemState::Unavailable);
            moved.push(unavailable.unwrap_or_else(|| panic!("{id} is not unavailable")).at - first.at);
            for seen in history.iter().filter(|of| of.misses > 0 && of.state != ItemState::Ended) {
                let span = seen.at - first.at;
                let (before, after) = (lasts(seen.at - NEW_EVERY - WAVE_KNOWN), lasts(seen.at + NEW_EVERY));
                let needed = if before { BELIEVED_IN_A_WAVE } else { BELIEVED_AFTER };
                if before == after && (span - needed).abs() > SECOND {
                    let is_believed = seen.state == ItemState::Unavailable;
                    assert_eq!(is_believed, span >= needed, "{id} is missing for {span} ms, wave: {before}");
                }
            }
        }
        let (first, last) = (moved.iter().min().unwrap(), moved.iter().max().unwrap());
        println!("unavailable {} to {} min after the first miss", first / MINUTE, last / MINUTE);
        system.stop().await;
    });
}

#[test]
fn a_share_of_misses_about_the_bound_holds_no_post_long() {
    let (mut stays, mut unlucky) = (0, 0);
    for seed in 1..=FLICKERS {
        let (of, longer) = flicker(seed);
        (stays, unlucky) = (stays + of, unlucky + longer);
    }
    println!("{stays} times a living post was in the slow lane, {unlucky} of them for longer than two hours");
    assert!(stays > 20 && unlucky * 30 <= stays, "{unlucky} of {stays}");
}

/// Half a day with shares about the bound: how often a living post was in the slow lane, and how often for longer than two
/// spans of a wave (or two of its own interval).
fn flicker(seed: u64) -> (usize, usize) {
    simulate(seed, async move {
        let mut system = System::start_by(seed, setup(), 1).await;
        let world = system.world.clone();
        system.pass_with_new_posts(30 * MINUTE).await;
        let begins = world.now();
        let deleted: Vec<String> = system.ids.iter().step_by(29).cloned().collect();
        for id in &deleted {
            world.provider.add(id, Nature::GoneAt(begins));
        }
        let mut waves = Vec::new();
        while world.now() < begins + 12 * HOUR {
            world.provider.leave_out(*world.dice.pick(&[0.03, 0.08]));
            system.pass_with_new_posts(MINUTE).await;
            let lasts = system.wave().await.is_some_and(|wave| wave.lasts());
            if waves.last().is_none_or(|(_, known)| *known != lasts) {
                waves.push((world.now() - begins, lasts));
            }
        }
        world.provider.leave_out(0.0);
        let ends = world.now();
        pass(DAY + 2 * HOUR).await;
        let stored = world.store.stored();
        let told: Vec<_> = waves.iter().map(|(since, lasts)| (since / MINUTE, *lasts)).collect();
        println!("{} posts; waves by minutes: {told:?}", system.ids.len());
        let (mut away, mut unlucky) = (Vec::new(), 0);
        for (id, history) in stored.iter().filter(|(id, _)| !deleted.contains(id)) {
            // From the answer that made it unavailable to the first that found it.
            let mut left: Option<Vec<&Stored>> = None;
            for seen in history {
                if seen.state == ItemState::Unavailable {
                    left.get_or_insert_default().push(seen);
                    continue;
                }
                let Some(visits) = left.take() else { continue };
                let interval = |seen: &Stored| system.lane(id, seen.at).unwrap().patience;
                // It misses nothing there: each lookup comes when the lane of its age would have it, or after 10 min.
                for (one, next) in visits.iter().zip(visits.iter().skip(1).copied().chain([seen])) {
                    let late = next.at - one.at - interval(one).max(BELIEVED_AFTER);
                    assert!(late <= BUFFER_TTL + SLACK, "{id} is late by {late} ms in the slow lane");
                }
                let span = seen.at - visits[0].at;
                let is_long = span > interval(visits[visits.len() - 1]).max(2 * HOUR) + BUFFER_TTL + SLACK;
                unlucky += usize::from(is_long);
                away.push(span);
            }
            assert!(left.is_none(), "{id} lives and is unavailable");
        }
        let longest = away.iter().max().map_or(0, |span| span / MINUTE);
        println!("seed {seed}: {} times a living post was in the slow lane, for {longest} min at the most", away.len());
        let mut longest = Millis::MIN;
        for id in &deleted {
            let first = stored[id].iter().find(|of| of.at >= begins && of.misses == 1).unwrap();
            let (suspected, rest): (Vec<_>, Vec<_>) =
                stored[id].iter().filter(|of| of.at >= first.at).partition(|of| of.state == ItemState::Live);
            let interval = system.lane(id, suspected.last().unwrap().at).unwrap().patience;
            longest = longest.max(rest.first().map_or(ends + DAY, |of| of.at) - first.at - interval);
        }
        println!("deleted posts stay live for {} min and their interval at the most", longest / MINUTE);
        assert!(longest <= 2 * HOUR + BUFFER_TTL + SLACK, "{longest} ms");
        system.stop().await;
        (away.len(), unlucky)
    })
}

/// A small world: posts of these ages, of which every second is deleted half an hour later.
async fn half_deleted(setup: Setup, ages: &[Millis]) -> (System, Vec<String>) {
    let world = World::new(Dice::of(1), setup, false);
    let mut system = System { world: world.clone(), ids: Vec::new(), processes: Vec::new() };
    for (n, age) in ages.iter().enumerate() {
        let part = (n as Millis * 618) % 1_000;
        system.put_in(*age, |lane| lane.patience * part / 1_000).await;
    }
    let deleted: Vec<String> = system.ids.iter().skip(1).step_by(2).cloned().collect();
    for id in &deleted {
        world.provider.add(id, Nature::GoneAt(world.now() + 30 * MINUTE));
    }
    system.processes = vec![Process::start(&world, 0)];
    (system, deleted)
}

#[test]
fn a_missing_post_that_is_enqueued_again_and_again_reaches_its_end() {
    simulate(1, async {
        let ages = [
            MINUTE,
            2 * MINUTE,
            HOUR,
            2 * HOUR,
            5 * HOUR,
            6 * HOUR,
            2 * DAY,
            3 * DAY,
            9 * DAY,
            10 * DAY,
            11 * DAY,
            12 * DAY,
        ];
        let (system, deleted) = half_deleted(setup(), &ages).await;
        let world = system.world.clone();
        let way = Way::new(usize::MAX, world.network.clone());
        let starter = world.starter(&way);
        let drain = Drain::new(starter.clone(), "drain");
        // The last two are not enqueued again: their life ends as that of the others.
        let again: Vec<String> = system.ids[..10].to_vec();
        let begins = world.now();
        let mut agreed = 0;
        while world.now() < begins + 10 * DAY {
            pass(7 * MINUTE).await;
            for id in &system.ids {
                let place = world.queue.inner.with_model(|model| model.place(id));
                let row = world.store.tweet(NAMESPACE, id).await.unwrap().unwrap();
                match place {
                    Some(Place::Delayed { lane, due }) => {
                        let says = row.next_due.unwrap_or_else(|| panic!("{id} is {:?} in the store", row.state));
                        assert!((says - due).abs() <= SECOND, "{id}: store {says}, queue {due}");
                        let is_slow = lane == UNAVAILABLE_LANE;
                        assert_eq!(is_slow, row.state == ItemState::Unavailable, "{id} is in {lane}");
                        agreed += 1;
                    }
                    Some(Place::Leased { .. }) => {} // under way
                    place => {
                        assert_eq!(row.state, ItemState::Ended, "{id} is {place:?} in the queue");
                    }
                }
            }
            for id in &again {
                starter.queue_tweet(Ingested::bare(&**id)).await.unwrap();
            }
            drain.round().await.unwrap();
        }
        let stored = world.store.stored();
        println!("{agreed} times store and queue were compared");
        for id in &deleted {
            let history = &stored[id];
            let missing: Vec<_> = history.iter().filter(|of| of.misses > 0).collect();
            let misses: Vec<_> = missing.iter().map(|of| of.misses).collect();
            assert!(misses.iter().copied().eq(1..=misses.len() as i64), "misses of {id}: {misses:?}");
            let end = missing.iter().find(|of| of.state == ItemState::Ended);
            let end = end.unwrap_or_else(|| panic!("{id} has not ended")).at - missing[0].at;
            println!("{id} ended {} h after its first miss", end / HOUR);
            let most = world.setup.unavailable.after + 6 * HOUR + BUFFER_TTL + SLACK;
            assert!(
                end >= world.setup.unavailable.after - SECOND && end <= most,
                "{id} ended {end} ms after its first miss"
            );
        }
        system.stop().await;
    });
}

#[test]
fn no_life_ends_before_two_hours_whatever_the_settings() {
    simulate(1, async {
        let unavailable = UnavailableSettings {
            confirm: None,
            forget: false,
            lane: Lane::new(UNAVAILABLE_LANE, Duration::from_secs(1)),
            limit: 1,
            after: 0,
            ..setup().unavailable
        };
        let ages: Vec<Millis> = (0..40).map(|n| n * 20 * MINUTE).collect();
        let (system, deleted) = half_deleted(Setup { unavailable, ..setup() }, &ages).await;
        let world = system.world.clone();
        pass(6 * HOUR).await;
        let stored = world.store.stored();
        let mut spans = Vec::new();
        for id in &deleted {
            let first = stored[id].iter().find(|of| of.misses == 1).unwrap().at;
            let end = stored[id].iter().find(|of| of.state == ItemState::Ended);
            spans.push(end.unwrap_or_else(|| panic!("{id} has not ended")).at - first);
        }
        let (first, last) = (spans.iter().min().unwrap(), spans.iter().max().unwrap());
        println!("{} posts ended {first} to {last} ms after their first miss", spans.len());
        // Dates of answers are of their claim, a request's time before they are stored.
        assert!(*first >= 2 * HOUR - SECOND && *last <= 2 * HOUR + MINUTE, "{first} to {last} ms");
        system.stop().await;
    });
}
