//! One process at a time, whatever happens to it and to what it says to the queue.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use twitter_updater::base::clock::Stopwatch;
use twitter_updater::base::shutdown::Stop;
use twitter_updater::engine::queue::{Administration, EmbeddedQueue, Queue, RedisQueue};
use twitter_updater::pipelines::streams::lease::{LeaseKeeper, LeaseTerms};

use crate::simulation::link::LinkedQueue;
use crate::simulation::network::{Dice, Network, Service, Way, Weather};
use crate::support::memory_queue::{MemoryQueue, ServiceClock};
use crate::support::queue_model::Rules;
use crate::support::redis::{TestRedis, namespace};

const LEASE: Duration = Duration::from_secs(30);
/// What timers are late.
const MOMENT: Duration = Duration::from_millis(100);

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn memory() -> Arc<MemoryQueue> {
    Arc::new(MemoryQueue::new("source:stream:twitter:main", ServiceClock::right(), Rules::default()))
}

fn hold(queue: Arc<dyn Queue>, name: &str, lease: Duration) -> LeaseKeeper {
    LeaseKeeper::new(queue, name.to_owned(), LeaseTerms::from_lease(lease))
}

#[tokio::test(start_paused = true)]
async fn a_holder_keeps_it_for_as_long_as_it_lives_and_then_it_is_another_s_within_a_lease() {
    let (queue, stop) = (memory(), Stop::new());
    let (one, other) = (hold(queue.clone(), "one", LEASE), hold(queue.clone(), "other", LEASE));
    let watch = Stopwatch::start();
    let mut held = one.acquire(&stop).await.unwrap();
    assert!(watch.elapsed() < seconds(1), "the first is not kept waiting: {:?}", watch.elapsed());
    // A day, in which it is taken anew 8,640 times, before the eyes of another.
    tokio::select! {
        why = one.renew_until_lost(&mut held) => panic!("{why}"),
        _ = other.acquire(&stop) => panic!("two hold it"),
        () = tokio::time::sleep(seconds(86_400)) => {}
    }
    drop(held); // as kill -9
    let watch = Stopwatch::start();
    let held = other.acquire(&stop).await.unwrap();
    assert!((seconds(19)..LEASE + MOMENT).contains(&watch.elapsed()), "{:?}", watch.elapsed());
    // Let go, it is the next one's at once.
    let waiting = tokio::spawn({
        let (queue, stop) = (queue.clone(), stop.clone());
        async move { hold(queue, "third", LEASE).acquire(&stop).await.is_some() }
    });
    tokio::time::sleep(seconds(15)).await;
    assert!(!waiting.is_finished());
    other.release_lease(held).await;
    let watch = Stopwatch::start();
    assert!(waiting.await.unwrap());
    assert!(watch.elapsed() < LEASE / 3 + MOMENT, "{:?}", watch.elapsed());
    stop.drain();
    assert!(one.acquire(&stop).await.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_holder_lets_go_before_another_can_have_it() {
    let network = Network::new(Dice::of(1));
    let (queue, stop) = (memory(), Stop::new());
    let linked = Arc::new(LinkedQueue { way: Way::new(0, network.clone()), queue: queue.clone() });
    let one = hold(linked, "one", LEASE);
    let mut held = one.acquire(&stop).await.unwrap();
    // Its queue is out, for this one alone.
    network.set(Service::Queue, Weather { down: true, ..Weather::default() });
    let other = hold(queue.clone(), "other", LEASE);
    let watch = Stopwatch::start();
    let (lost, taken) = tokio::join!(
        async {
            let why = one.renew_until_lost(&mut held).await;
            (why, watch.elapsed())
        },
        async {
            let held = other.acquire(&stop).await.unwrap();
            (held, watch.elapsed())
        },
    );
    assert!(lost.0.to_string().contains("did not answer"), "{}", lost.0);
    assert!(lost.1 < taken.1 && taken.1 < LEASE + MOMENT, "let go after {:?}, taken after {:?}", lost.1, taken.1);

    // Somebody pauses the namespace: it is let go when it would be taken anew.
    let (mut held, _) = taken;
    queue.pause(Some("maintenance")).await.unwrap();
    let why = other.renew_until_lost(&mut held).await;
    assert!(why.to_string().contains("paused"), "{why}");
    queue.pause(None).await.unwrap();

    // The queue loses everything: whoever comes first has it, and the one that had it finds out.
    let mut held = other.acquire(&stop).await.unwrap();
    let wiped = memory();
    let third = hold(wiped.clone(), "third", LEASE);
    let _third = third.acquire(&stop).await.unwrap();
    let other = hold(wiped, "other", LEASE);
    assert!(other.renew_until_lost(&mut held).await.to_string().contains("another poller has it"));
}

/// Three of them over a network that loses requests and replies, one in five, and holds others back for longer than
/// anybody waits; each ends now and then, well or badly.
#[tokio::test(start_paused = true)]
async fn over_a_bad_network_there_are_never_two() {
    for seed in 1..=20 {
        let (dice, queue, stop) = (Dice::of(seed), memory(), Stop::new());
        let network = Network::new(dice.clone());
        let bad = Weather { request_lost: 0.1, reply_lost: 0.1, slow: 0.2, slowest: seconds(4), ..Weather::default() };
        network.set(Service::Queue, bad);
        let (connected, turns, held_s) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicUsize::new(0));
        let process = async |number: usize| {
            let way = Way::new(number, network.clone());
            let queue: Arc<dyn Queue> = Arc::new(LinkedQueue { way, queue: queue.clone() });
            loop {
                let one = hold(queue.clone(), &format!("one-{number}"), LEASE);
                let mut held = one.acquire(&stop).await.unwrap();
                assert_eq!(connected.fetch_add(1, SeqCst), 0, "seed {seed}: two hold it");
                turns.fetch_add(1, SeqCst);
                let life = seconds(dice.between(1, 300));
                let watch = Stopwatch::start();
                let ended = tokio::select! {
                    _ = one.renew_until_lost(&mut held) => false,
                    () = tokio::time::sleep(life) => true,
                };
                held_s.fetch_add(watch.elapsed().as_secs() as usize, SeqCst);
                connected.fetch_sub(1, SeqCst);
                if ended && dice.odds(0.5) {
                    one.release_lease(held).await;
                }
            }
        };
        let day = 6 * 3_600;
        let _ = tokio::time::timeout(seconds(day), async { tokio::join!(process(1), process(2), process(3)) }).await;
        let (turns, held_s) = (turns.load(SeqCst), held_s.load(SeqCst));
        println!("seed {seed}: {turns} turns, held for {} % of the time", held_s * 100 / day as usize);
        assert!(turns > 50 && held_s * 2 > day as usize, "seed {seed}: {turns} turns, {held_s} s");
    }
}

/// The same on the queues that there are, in real time.
async fn on(queue: Arc<dyn Queue>) {
    let (stop, lease) = (Stop::new(), Duration::from_millis(3_000));
    let one = hold(queue.clone(), "one", lease);
    let mut held = one.acquire(&stop).await.unwrap();
    let other = hold(queue.clone(), "other", lease);
    // Beyond two leases: it was taken anew.
    tokio::select! {
        why = one.renew_until_lost(&mut held) => panic!("{why}"),
        _ = other.acquire(&stop) => panic!("two hold it"),
        () = tokio::time::sleep(2 * lease + lease / 2) => {}
    }
    one.release_lease(held).await;
    let watch = Stopwatch::start();
    let held = other.acquire(&stop).await.unwrap();
    assert!(watch.elapsed() < lease, "{:?}", watch.elapsed());
    drop(held);
    let held = one.acquire(&stop).await.unwrap();
    assert!(watch.elapsed() >= lease * 9 / 10, "the lease of one that died is waited for: {:?}", watch.elapsed());
    one.release_lease(held).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("queue.db");
    on(Arc::new(EmbeddedQueue::open(&file, "source:stream:x:main", seconds(5)).await.unwrap())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_redis() {
    on(Arc::new(RedisQueue::new(TestRedis::shared().pool(), &namespace()))).await;
}
