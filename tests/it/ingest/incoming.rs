//! `incoming`: what an ingest in another language put there, checked by nobody.

use tokio_util::sync::CancellationToken;
use twitter_updater::ingest::{Drain, DrainRound};
use twitter_updater::store::{Finding, Observation};

use super::*;
use crate::support::memory_queue::{MemoryQueue, ServiceClock};
use crate::support::queue_model::Rules;

impl World {
    async fn put(&self, members: impl IntoIterator<Item = (String, Millis)>) {
        let members: Vec<Incoming> =
            members.into_iter().map(|(member, created_at)| Incoming { member, created_at }).collect();
        self.queue.add_incoming(&members).await.unwrap();
    }

    fn drain(&self) -> Drain {
        Drain::new(self.starter.clone(), "w1")
    }

    /// How many wait in `incoming`, were refused from it, and are scheduled.
    async fn figures(&self) -> (u64, u64, u64) {
        let stats = self.queue.stats().await.unwrap();
        (stats.incoming, stats.incoming_refused, stats.delayed)
    }

    /// Waits until the figures are these, looking after each round that found nothing. (One such round
    /// may lie before something was put there, so it alone proves nothing.)
    async fn drained(&self, figures: (u64, u64, u64)) {
        let drained = async {
            while self.figures().await != figures {
                self.queue.drained.notified().await;
            }
        };
        if tokio::time::timeout(Duration::from_secs(30), drained).await.is_err() {
            assert_eq!(self.figures().await, figures, "after 30 s");
        }
    }
}

#[tokio::test]
async fn a_round_schedules_the_good_and_sets_the_malformed_aside() {
    let world = World::new().await;
    let now = clock::wall_ms();
    let ancient = id_aged(40 * DAY, 0);
    let bad: [(&str, Millis, &str); 9] = [
        ("", 0, "empty"),
        ("12 34", 0, "not a digit: ' '"),
        (" 12", 0, "not a digit: ' '"),
        ("tweet", 0, "not a digit: 't'"),
        ("1111111111222222222233333333334444444444", 0, "40 digits"),
        ("-5", 0, "negative"),
        ("20", 0, "created_at is needed"),
        ("21", now / 1000, "seconds"),
        ("22", -now, "before 1970"),
    ];
    world.put([(ancient, 0)]).await;
    world.put(bad.map(|(member, created_at, _)| (member.to_owned(), created_at))).await;
    world.put([(id(1), 0), (id(2), now), ("30".to_owned(), now)]).await;

    let round = world.drain().round().await.unwrap();
    assert_eq!(round, DrainRound { accepted: 3, refused: 9, too_old: 1, more: false });
    assert_eq!(world.figures().await, (0, 9, 3));
    for scheduled in [id(1), id(2), "30".to_owned()] {
        assert_eq!(world.places(&scheduled).await.len(), 1);
        assert_eq!(world.store.tweet(NAMESPACE, &scheduled).await.unwrap().unwrap().state, ItemState::Live);
    }
    assert_eq!(world.store.counts(NAMESPACE).await.unwrap().live, 3);
    let told = world.queue.refused.lock().unwrap().clone();
    assert_eq!(told.len(), bad.len());
    for (member, _, says) in bad {
        let (_, reason) = told.iter().find(|(refused, _)| refused == member).unwrap();
        assert!(reason.contains(says), "{member:?}: {reason}");
    }
    assert_eq!(world.drain().round().await.unwrap(), DrainRound::default());
}

/// The queue's, or that of the machine which happens to drain.
#[tokio::test]
async fn one_wrong_clock_refuses_nothing() {
    for ahead in [-40 * DAY, -DAY / 24, DAY / 24, 40 * DAY] {
        for is_queues in [true, false] {
            let clock = ServiceClock::right();
            let right = clock.now();
            let _wall = match is_queues {
                true => {
                    clock.step(ahead);
                    None
                }
                false => Some(clock::simulate_clock(right + ahead)),
            };
            let queue = Arc::new(MemoryQueue::new(NAMESPACE, clock, Rules::default()));
            let ages: AgeTable = "30d: 1d".parse().unwrap();
            let starter = Starter::new(queue.clone(), None, ages, Arc::new(TweetId::date_of), parse);
            let members = [right - 5_000, right - 80 * DAY]
                .map(|made| Incoming { member: TweetId::at(made, 0).to_string(), created_at: 0 });
            queue.add_incoming(&members).await.unwrap();
            let round = Drain::new(starter, "w1").round().await.unwrap();
            assert_eq!(round, DrainRound { accepted: 1, refused: 0, too_old: 1, more: false }, "{ahead} {is_queues}");
            let places = queue.locate(&members.map(|of| of.member)).await.unwrap();
            assert_eq!(places.iter().map(Vec::len).collect::<Vec<_>>(), [1, 0], "{ahead} {is_queues}");
        }
    }
}

#[tokio::test]
async fn a_round_of_nothing_but_rubble_costs_no_batch() {
    let world = World::new().await;
    world.store.set_down(Some("the round does not ask it"));
    world.put([("a".to_owned(), 0), ("b".to_owned(), 0)]).await;
    let round = world.drain().round().await.unwrap();
    assert_eq!((round.refused, round.accepted), (2, 0));
    assert_eq!(world.figures().await, (0, 2, 0));
}

#[tokio::test]
async fn nothing_is_removed_before_it_is_scheduled() {
    let world = World::new().await;
    world.put([(id(1), 0), ("x".to_owned(), 0)]).await;
    for outage in ["store", "queue"] {
        match outage {
            "store" => world.store.set_down(Some("away")),
            _ => {
                world.store.set_down(None);
                world.queue.fail_schedules.store(1, SeqCst);
            }
        }
        let error = world.drain().round().await.unwrap_err();
        assert!(error.is_temporary(), "{error}");
        assert_eq!(world.figures().await, (1, 1, 0), "{outage}");
    }
    assert_eq!(world.drain().round().await.unwrap().accepted, 1);
    assert_eq!(world.figures().await, (0, 1, 1));
}

#[tokio::test]
async fn a_lost_reply_to_the_removal_changes_nothing() {
    for lose in [
        |queue: &WatchedQueue| queue.lose_accept_replies.store(1, SeqCst),
        |queue: &WatchedQueue| {
            queue.fail_accepts.store(1, SeqCst);
        },
    ] {
        let world = World::new().await;
        world.put((1..=3).map(|sequence| (id(sequence), 0))).await;
        lose(&world.queue);
        world.drain().round().await.unwrap_err();
        let due: Vec<_> = [world.places(&id(1)).await, world.places(&id(3)).await].concat();
        assert_eq!(due.len(), 2);

        world.drain().round().await.unwrap();
        assert_eq!(world.figures().await, (0, 0, 3));
        assert_eq!([world.places(&id(1)).await, world.places(&id(3)).await].concat(), due);
        assert_eq!(world.store.counts(NAMESPACE).await.unwrap().live, 3);
    }
}

#[tokio::test]
async fn two_that_drain_the_same_head_schedule_it_once() {
    let world = World::new().await;
    world.put((1..=500).map(|sequence| (id(sequence), 0)).chain([("x".to_owned(), 0)])).await;
    // The same name twice, so that nothing keeps the second away.
    let (one, other) = (world.drain(), world.drain());
    let (one, other) = tokio::join!(one.round(), other.round());
    let (one, other) = (one.unwrap(), other.unwrap());
    assert!(one.accepted + other.accepted >= 500);
    assert_eq!(world.figures().await, (0, 1, 500));
    assert_eq!(world.queue.stats().await.unwrap().counters["scheduled"], 500);
}

#[tokio::test]
async fn the_dead_are_removed_and_stay_dead() {
    let world = World::new().await;
    world.store.mark_dead(NAMESPACE, clock::wall_ms(), &[(id(1), "a test".to_owned())]).await.unwrap();
    world.put([(id(1), 0), (id(2), 0)]).await;
    assert_eq!(world.drain().round().await.unwrap().accepted, 2);
    assert_eq!(world.figures().await, (0, 0, 1));
    assert_eq!(world.places(&id(1)).await, []);
}

#[tokio::test]
async fn a_drain_runs_until_nothing_is_left_through_errors_until_it_is_stopped() {
    let world = World::new().await;
    world.put((0..250).map(|sequence| (id(sequence), 0))).await;
    let drain = world.drain().with_limit(100);
    assert_eq!(drain.round().await.unwrap(), DrainRound { accepted: 100, refused: 0, too_old: 0, more: true });
    world.queue.fail_accepts.store(1, SeqCst);
    let cancel = CancellationToken::new();
    let running = tokio::spawn({
        let cancel = cancel.clone();
        async move { drain.run(cancel, Duration::from_millis(1), |_| {}).await }
    });
    world.drained((0, 0, 250)).await;
    // It goes on listening.
    world.put([(id(1_000), 0)]).await;
    world.drained((0, 0, 251)).await;
    cancel.cancel();
    running.await.unwrap();
    assert_eq!(world.queue.fail_accepts.load(SeqCst), 0);
}

/// A worker has it, and has stored the end of its life: enqueued again meanwhile, it lives again once the
/// worker is done.
#[tokio::test]
async fn what_a_worker_has_is_scheduled_when_it_is_let_go() {
    let world = World::with_ages("30d: 1ms").await; // due at once
    world.starter.queue_tweet(Ingested::bare(id(1))).await.unwrap();
    let (fence, mut jobs) = world.claim_all().await;
    let end = Observation {
        id: id(1),
        answered_at: clock::wall_ms(),
        finding: Finding::Missing { misses: 3, since: 0, reason: None, handle: None },
        state: ItemState::Ended,
        next_due: None,
        follow: None,
        forget: false,
        recent: None,
    };
    world.store.save(NAMESPACE, &[end]).await.unwrap();
    assert_eq!(world.starter.queue_tweet(Ingested::bare(id(1))).await.unwrap(), Queued::Leased);
    let drain = world.drain().with_limit(1);
    let round = drain.round().await.unwrap();
    assert_eq!(round, DrainRound::default(), "the worker has it still; nothing is gained by asking again at once");

    world.queue.settle(&fence, &[(jobs.remove(0), Verdict::Finish)], &[]).await.unwrap();
    assert_eq!(world.places(&id(1)).await, []);
    assert_eq!(drain.round().await.unwrap().accepted, 1);
    assert_eq!(world.figures().await, (0, 0, 1));
    assert_eq!(world.store.tweet(NAMESPACE, &id(1)).await.unwrap().unwrap().state, ItemState::Live);
}
