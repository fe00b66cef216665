//! Look-ups brought forward: store and queue agree, whatever was cut off.

use twitter_updater::ingest::{LivingState, Moment, Refresh, RefreshCounts, RefreshFilter};

use super::*;
use crate::support::claim;

impl World {
    fn refresh(&self) -> Refresh {
        Refresh { rebuild: self.rebuild.clone() }
    }

    async fn all(&self, which: RefreshFilter) -> RefreshCounts {
        self.refresh().all(which, &self.stop, |_, _| ()).await.unwrap()
    }

    async fn next_due(&self, id: &str) -> Millis {
        self.store.tweet(self.queue.namespace(), id).await.unwrap().unwrap().next_due.unwrap()
    }

    /// Puts into the queue what the store has, and nothing else.
    async fn in_queue(&self) {
        self.run().await;
    }

    /// It is due now, in that lane, and the store says so, too.
    async fn is_due_now(&self, id: &str, lane: &str) {
        let (its_lane, due) = self.lane(id).await;
        assert_eq!(its_lane, lane);
        assert!((due - wall_ms()).abs() < MINUTE && due < wall_ms() + 1_000, "{due}");
        assert!((self.next_due(id).await - due).abs() < 5_000, "store and queue agree");
    }
}

on_both!(
    ids_are_due_now_in_the_lane_of_their_age,
    what_cannot_be_refreshed_is_said_and_the_rest_is_done,
    what_the_queue_has_lost_is_put_back_due,
    a_leased_one_is_due_again_when_it_is_let_go,
    all_of_a_kind_and_no_other,
    as_many_a_second_as_a_rebuild_puts_back,
    spread_over_an_interval_none_is_later_than_it_was,
    cut_off_at_any_point_the_same_command_mends_it,
    a_missing_post_that_is_enqueued_again_stays_as_it_is,
);

async fn as_many_a_second_as_a_rebuild_puts_back(world: World) {
    for number in 0..5 {
        world.tweet(number, HOUR, HOUR).await;
    }
    world.in_queue().await;
    // Two a second are two a page; the pause after it is cut short.
    let slow = Refresh { rebuild: Rebuild { rate: 2, ..world.rebuild.clone() } };
    let stopped = slow.all(RefreshFilter::default(), &world.stop, |_, _| world.stop.drain()).await.unwrap();
    assert_eq!((stopped.promoted, stopped.stopped), (2, true));
    let rest = world.refresh().all(RefreshFilter::default(), &Stop::new(), |_, _| ()).await.unwrap();
    assert_eq!((rest.promoted, rest.stopped), (5, false));
}

async fn ids_are_due_now_in_the_lane_of_their_age(world: World) {
    let live = world.tweet(1, 2 * DAY, 5 * HOUR).await;
    let gone = world.tweet(2, HOUR, 0).await;
    world.answer(&gone, ItemState::Unavailable).await;
    world.in_queue().await;
    assert_eq!(world.lane(&gone).await.0, "unavailable");
    let done = world.refresh().ids(&[live.clone(), gone.clone()], |_, _| panic!("none is refused")).await.unwrap();
    assert_eq!(done, RefreshCounts { promoted: 2, ..RefreshCounts::default() });
    world.is_due_now(&live, "7d").await;
    world.is_due_now(&gone, "1d").await;
    assert_eq!(world.state(&gone).await, ItemState::Unavailable, "an answer decides, not a person");
}

async fn what_cannot_be_refreshed_is_said_and_the_rest_is_done(world: World) {
    let [good, ended, dead] =
        [world.tweet(1, HOUR, HOUR).await, world.tweet(2, HOUR, HOUR).await, world.tweet(3, HOUR, HOUR).await];
    world.in_queue().await;
    world.answer(&ended, ItemState::Ended).await;
    world.mark_dead(&dead).await;
    let mut said = BTreeMap::new();
    let asked = [ended.clone(), "20".to_owned(), dead.clone(), "no id".to_owned(), good.clone()];
    let done = world.refresh().ids(&asked, |id, why| drop(said.insert(id.to_owned(), why.to_owned()))).await.unwrap();
    assert_eq!((done.promoted, done.refused, said.len()), (1, 4, 4));
    for (id, says) in [(&*ended, "has ended"), ("20", "not in the store"), (&*dead, "dead retry"), ("no id", "no id")] {
        assert!(said[id].contains(says), "{said:?}");
    }
    world.is_due_now(&good, "1d").await;
}

async fn what_the_queue_has_lost_is_put_back_due(world: World) {
    let id = world.tweet(1, HOUR, 30 * MINUTE).await;
    let done = world.refresh().ids(std::slice::from_ref(&id), |_, _| ()).await.unwrap();
    assert_eq!(done, RefreshCounts { put_back: 1, ..RefreshCounts::default() });
    world.is_due_now(&id, "1d").await;
}

async fn a_leased_one_is_due_again_when_it_is_let_go(world: World) {
    let id = world.tweet(1, HOUR, 0).await;
    world.schedule(&id).await;
    let request = claim::at_once("t", 1, Duration::from_secs(60));
    let Claim::Batch(batch) = world.queue.claim(&request).await.unwrap() else { panic!("it is due") };
    let done = world.refresh().ids(std::slice::from_ref(&id), |_, _| ()).await.unwrap();
    assert_eq!(done, RefreshCounts { leased: 1, ..RefreshCounts::default() });
    let verdict = Verdict::Reschedule { lane: Lane::new("7d", Duration::from_secs(21_600)), due: (6 * HOUR).into() };
    world.queue.settle(&batch.fence, &[(batch.jobs[0].clone(), verdict)], &[]).await.unwrap();
    let (lane, due) = world.lane(&id).await;
    assert!(lane == "1d" && due <= wall_ms(), "{lane} {due}");
}

async fn all_of_a_kind_and_no_other(world: World) {
    let (mut live, mut gone) = (Vec::new(), Vec::new());
    // Several pages, one of them full.
    for number in 0..620 {
        let id = world.tweet(number, HOUR, 50 * MINUTE).await;
        if number % 10 == 0 {
            world.answer(&id, ItemState::Unavailable).await;
            gone.push(id);
        } else {
            live.push(id);
        }
    }
    world.in_queue().await;
    let which = RefreshFilter { state: Some(LivingState::Unavailable), ..RefreshFilter::default() };
    let future = RefreshFilter { since: Some(Moment(wall_ms() + HOUR)), ..which };
    assert_eq!(world.all(future).await, RefreshCounts::default());
    let before = world.lane(&live[7]).await;
    assert_eq!(world.all(which).await, RefreshCounts { promoted: 62, ..RefreshCounts::default() });
    for id in [&gone[0], &gone[61]] {
        world.is_due_now(id, "1d").await;
    }
    assert_eq!(world.lane(&live[7]).await, before);
    // The living have no answer yet, so none since any moment.
    let since = Some(Moment(wall_ms() - HOUR));
    assert_eq!(world.all(RefreshFilter { since, ..RefreshFilter::default() }).await.promoted, 62);
    assert_eq!(
        world.all(RefreshFilter { state: Some(LivingState::Live), ..RefreshFilter::default() }).await.promoted,
        558
    );
}

async fn spread_over_an_interval_none_is_later_than_it_was(world: World) {
    let mut ids = Vec::new();
    for number in 0..50 {
        ids.push(world.tweet(number, HOUR, 30 * MINUTE).await);
    }
    world.in_queue().await;
    world.all(RefreshFilter { spread: true, ..RefreshFilter::default() }).await;
    let mut dues = Vec::new();
    for id in &ids {
        let (lane, due) = world.lane(id).await;
        assert_eq!(lane, "1d");
        assert!((world.next_due(id).await - due).abs() < 5_000, "store and queue agree");
        dues.push(due - wall_ms());
    }
    assert!(dues.iter().all(|due| *due <= 30 * MINUTE), "{dues:?}");
    let early = dues.iter().filter(|due| **due < 15 * MINUTE).count();
    assert!((2..45).contains(&early), "spread over an hour, a quarter of them in the first quarter: {dues:?}");
}

async fn cut_off_at_any_point_the_same_command_mends_it(world: World) {
    for (number, trouble) in [(1, Trouble::Down), (2, Trouble::AnswerLost)] {
        for nth in 0..2 {
            let id = world.tweet(10 * number + nth, 2 * DAY, 5 * HOUR).await;
            world.in_queue().await;
            // The first such call is the store's, the second the queue's.
            if nth == 1 {
                world.journal.trouble(Call::Promote, Trouble::Late(Duration::ZERO), 1);
            }
            world.journal.trouble(Call::Promote, trouble, 1);
            let ids = std::slice::from_ref(&id);
            world.refresh().ids(ids, |_, _| ()).await.unwrap_err();
            assert_eq!(world.refresh().ids(ids, |_, _| ()).await.unwrap().promoted, 1, "{trouble:?} {nth}");
            world.is_due_now(&id, "7d").await;
        }
    }
    // Of many, a service that is away is waited for.
    world.journal.trouble(Call::Promote, Trouble::Down, 2);
    assert_eq!(world.all(RefreshFilter::default()).await.promoted, 4);
}

async fn a_missing_post_that_is_enqueued_again_stays_as_it_is(world: World) {
    let id = world.tweet(1, HOUR, 0).await;
    world.answer(&id, ItemState::Unavailable).await;
    world.in_queue().await;
    let before = (world.store.tweet(world.queue.namespace(), &id).await.unwrap(), world.lane(&id).await);
    for _ in 0..3 {
        let again = twitter_updater::model::post::Ingested::bare(id.clone());
        world.starter().queue_tweet(again).await.unwrap();
    }
    assert_eq!((world.store.tweet(world.queue.namespace(), &id).await.unwrap(), world.lane(&id).await), before);
}
