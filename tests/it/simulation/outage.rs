//! An hour without the API, in four processes with thousands of tweets.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tracing::field::{Field, Visit};
use tracing_subscriber::layer::{Context, Layer};
use twitter_updater::base::clock::Millis;
use twitter_updater::engine::queue::Inspection;
use twitter_updater::engine::worker::ClaimSettings;
use twitter_updater::store::Lifecycle;

use super::network::{Dice, Service, Weather};
use super::process::Process;
use super::provider::{Mood, Nature};
use super::world::{NAMESPACE, Setup, World, simulate};
use crate::support::log::listen;

const MINUTE: Millis = 60_000;
const HOUR: Millis = 60 * MINUTE;
const DAY: Millis = 24 * HOUR;

const PROCESSES: usize = 4;
const SLOTS: usize = 4;
/// Tweets by age. What they are due for is 50 calls a minute, and the quota is ample: that is not the matter here.
const TWEETS: [(Millis, u32); 4] = [(30 * MINUTE, 600), (5 * HOUR, 800), (3 * DAY, 1_000), (20 * DAY, 1_000)];

/// A step of a process's back-off, as its log tells it.
#[derive(Debug, Clone, Copy)]
struct Step {
    at: Millis,
    process: usize,
    attempt: u64,
    delay: Millis,
}

/// Reads the back-off steps off the log, and their ends.
struct Steps {
    world: Arc<World>,
    steps: Arc<Mutex<Vec<Step>>>,
    ends: Arc<AtomicUsize>,
}

#[derive(Default)]
struct Fields {
    message: String,
    error: String,
    attempt: u64,
    delay_ms: Millis,
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        match field.name() {
            "message" => self.message = format!("{value:?}"),
            "error" => self.error = format!("{value:?}"),
            _ => {}
        }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.record_debug(field, &format_args!("{value}"));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        if field.name() == "attempt" {
            self.attempt = value;
        }
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        if field.name() == "delay_ms" {
            self.delay_ms = value;
        }
    }
}

impl<S: tracing::Subscriber> Layer<S> for Steps {
    fn on_event(&self, event: &tracing::Event<'_>, _: Context<'_, S>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        if fields.message == "the service works again" {
            self.ends.fetch_add(1, Ordering::Relaxed);
        }
        if !fields.message.contains("backing off") {
            return;
        }
        let process = fields.error.split_once("process ").expect("the lookup names its process").1;
        let process = process.split(':').next().unwrap().parse().unwrap();
        let step = Step { at: self.world.now(), process, attempt: fields.attempt, delay: fields.delay_ms };
        self.steps.lock().unwrap().push(step);
    }
}

/// Tweets of an age, due evenly over their interval.
async fn put_in(world: &World, age: Millis, count: u32) -> Vec<String> {
    let mut ids = Vec::new();
    for n in 0..count {
        let id = world.tweet(age + Millis::from(n), n, Nature::Lives);
        let part = Millis::from(n) * 1_000 / Millis::from(count);
        world.put_in(std::slice::from_ref(&id), |lane| lane.patience * part / 1_000).await;
        ids.push(id);
    }
    ids
}

fn survives(what: &str, begins: impl Fn(&World), ends: impl Fn(&World)) {
    simulate(1, async {
        let setup = Setup {
            ages: "18m: 3m, 60m: 10m, 1d: 1h, 7d: 6h, 30d: 1d".parse().unwrap(),
            claims: ClaimSettings {
                limit: 100,
                linger: Duration::from_secs(5),
                lookahead: 0.02,
                lease: Duration::from_secs(60),
            },
            slots: SLOTS,
            calls_per_window: 900,
            lookup_timeout: Duration::from_secs(10),
            save_timeout: Duration::from_secs(20),
            ..Setup::default()
        };
        let world = World::new(Dice::of(1), setup, false);
        let steps = Arc::new(Mutex::new(Vec::new()));
        let recovered = Arc::new(AtomicUsize::new(0));
        let layer = Steps { world: world.clone(), steps: steps.clone(), ends: recovered.clone() };
        let _log = listen(layer);

        let mut ids = Vec::new();
        for (age, count) in TWEETS {
            ids.extend(put_in(&world, age, count).await);
        }
        let processes: Vec<_> = (0..PROCESSES).map(|number| Process::start(&world, number)).collect();
        tokio::time::sleep(Duration::from_secs(20 * 60)).await;
        ids.extend(put_in(&world, MINUTE, 500).await);
        assert!(steps.lock().unwrap().is_empty(), "all is well before");

        begins(&world);
        let (claims_before, calls_before) = (world.queue.claimed().len(), world.provider.calls().len());
        tokio::time::sleep(Duration::from_secs(3_600)).await;
        ends(&world);
        let back = world.now();
        let steps = steps.lock().unwrap().clone();
        let calls = world.provider.calls().split_off(calls_before);

        // At the most what the slots had begun when the first of them failed, and one call per step.
        let mut waited = 0;
        for process in 0..PROCESSES {
            let steps: Vec<_> = steps.iter().filter(|step| step.process == process).collect();
            let calls: Vec<_> = calls.iter().filter(|call| call.process == process).map(|call| call.at).collect();
            let bound = SLOTS + steps.len();
            let delays: Millis = steps.iter().map(|step| step.delay).sum();
            waited = waited.max(delays);
            println!(
                "{what}: process {process} made {} calls; {SLOTS} slots and {} steps of {} s on average allow {bound}",
                calls.len(),
                steps.len(),
                delays as f64 / steps.len() as f64 / 1_000.0
            );
            assert!(calls.len() <= bound && calls.len() >= steps.len(), "process {process}");
            for (number, step) in steps.iter().enumerate() {
                assert_eq!(step.attempt, number as u64 + 1, "no success in between");
                let most = (500 << number.min(10)).min(10_000);
                assert!(step.delay <= most, "{step:?}");
                let early = calls.iter().find(|at| (step.at + 1..step.at + step.delay).contains(*at));
                // What was under way in the other slots has begun before the first step.
                assert_eq!(early, None, "a call in {step:?}");
            }
            // Evenly from 0 to 10 s, five seconds on average, after a call that takes up to 10 s to time out: 240 to 720.
            assert!((180..1_080).contains(&steps.len()), "{} steps in an hour", steps.len());
        }

        // Nobody is blamed, and nobody is where they should not be.
        let outage = world.queue.claimed().split_off(claims_before);
        assert!(outage.iter().all(|(_, job)| job.deliveries == 0), "an outage is nobody's fault");
        let stats = world.queue.stats().await.unwrap();
        assert_eq!((stats.dead, stats.expired), (0, 0));
        assert_eq!(stats.delayed + stats.leased, ids.len() as u64, "nothing is lost");
        let late: BTreeMap<_, _> = stats
            .lanes
            .iter()
            .map(|lane| (&*lane.lane, lane.oldest_lateness_ms as f64 / lane.patience_ms as f64))
            .collect();
        println!("{what}: {} of {} are due after it, late by their intervals: {late:.2?}", stats.due, ids.len());

        // The order of what is served is watched claim by claim: lateness ÷ patience (`WatchedQueue`).
        let served = world.queue.claimed().len();
        while world.queue.inner.due_count().await.unwrap() > 100 {
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        let caught_up = world.now() - back;
        let served = world.queue.claimed().split_off(served);
        println!("{what}: {} served in due order within {} s", served.len(), caught_up / 1_000);
        // The longest step, and the calls.
        assert!(caught_up <= 25_000, "{caught_up} ms");
        tokio::time::sleep(Duration::from_secs(60)).await;
        let stats = world.queue.stats().await.unwrap();
        assert!(stats.oldest_lateness_ms <= 6_000, "late by {} ms", stats.oldest_lateness_ms);
        for process in processes {
            process.drain().await.unwrap();
        }
        let counts = world.store.counts(NAMESPACE).await.unwrap();
        assert_eq!((counts.live, counts.dead, counts.ended), (ids.len() as u64, 0, 0));
        assert_eq!(world.queue.counts().leases_run_out, 0);
        assert_eq!(world.log.first_wrong(), None);
        assert!(recovered.load(Ordering::Relaxed) > 0, "who was given a batch has noted that it works again");
    });
}

#[test]
fn an_hour_of_503() {
    survives("HTTP 503", |world| world.provider.set(Mood::OverCapacity), |world| world.provider.set(Mood::Works));
}

#[test]
fn an_hour_of_time_outs() {
    survives("no answer", |world| world.provider.set(Mood::Silent), |world| world.provider.set(Mood::Works));
}

#[test]
fn an_hour_of_refused_connections() {
    let down = Weather { down: true, ..Weather::default() };
    survives(
        "connection refused",
        |world| world.network.set(Service::Api, down),
        |world| world.network.set(Service::Api, Weather::default()),
    );
}
