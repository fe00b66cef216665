//! Ids that are looked up once: now, whatever their age, and never again, whoever dies meanwhile.

use std::sync::Arc;
use std::time::Duration;

use twitter_updater::app;
use twitter_updater::base::clock::wall_ms;
use twitter_updater::base::retry::RetryPolicy;
use twitter_updater::base::shutdown::Stop;
use twitter_updater::config::Settings;
use twitter_updater::engine::queue::{Lane, NewJob, Place};
use twitter_updater::ingest::{Drain, DrainRound, FirstLookup, LaneChooser, LookupPace, Queued, Rebuild, Starter};
use twitter_updater::model::post::{Ingested, ItemState, TweetId};
use twitter_updater::model::provider::Provider;
use twitter_updater::pipelines::posts::posts_pipeline;
use twitter_updater::simulator::Fault;
use twitter_updater::store::{Finding, Way};

use super::missing::{half_gone, wave};
use crate::support::postgres;
use crate::support::rig::{Backends, DAY, HOUR, MINUTE, Rig, Setup};

/// The same on one file and on servers.
macro_rules! on_both {
    ($($scenario:ident)*) => { $(
        mod $scenario {
            #[tokio::test]
            async fn embedded() { super::$scenario(super::half_gone()).await; }
            #[tokio::test]
            async fn on_servers() {
                let backends = super::Backends::Servers(super::postgres::database().await);
                super::$scenario(super::Setup { backends, ..super::half_gone() }).await;
            }
        }
    )* };
}

on_both! {
    they_end_with_their_answer
    what_one_faulty_answer_lacks_is_found_by_the_second
    a_killed_worker_and_a_lost_queue_change_nothing
    who_comes_another_way_too_is_looked_up_by_age
    given_again_while_a_worker_has_it_it_is_looked_up_once
    a_wave_ends_none
    of_an_answer_that_has_none_each_is_looked_up_once_more
    an_answer_that_cannot_be_read_is_none_but_two_are
}

fn starter(rig: &Rig) -> Starter {
    let posts = posts_pipeline(&Provider::Twitter);
    app::starter(
        &Settings::load_with(&[], None, &[]).unwrap(),
        &posts,
        rig.queue.clone(),
        Some(rig.store.clone()),
        rig.ages.clone(),
    )
}

fn once(rig: &Rig) -> Starter {
    starter(rig).with_first_lookup(FirstLookup::Once(LookupPace::new(wall_ms(), None)))
}

async fn put(starter: &Starter, ids: &[String]) {
    let answers = starter.queue_tweets(ids.iter().map(Ingested::bare).collect()).await.unwrap();
    assert!(answers.iter().all(|answer| *answer == Queued::Scheduled), "{answers:?}");
}

async fn assert_over(rig: &Rig, id: &str, was_found: bool) {
    let stored = rig.stored(id).await;
    assert_eq!((stored.state, stored.next_due, stored.lookups), (ItemState::Ended, None, 1), "{stored:?}");
    assert_eq!((stored.text.is_some(), stored.misses), (was_found, i64::from(!was_found)));
    assert_eq!(rig.place(id).await, None);
}

async fn they_end_with_their_answer(setup: Setup) {
    let rig = Rig::start(setup).await;
    let [young, old, gone] = [rig.there(2, HOUR), rig.there(2, 400 * DAY), rig.gone(2, HOUR)];
    // Its id says nothing of its date, which nobody needs.
    let ids = [&young[..], &old, &gone, &["20".to_owned()]].concat();
    put(&once(&rig), &ids).await;
    assert_eq!(rig.lane(&ids[0]).await.0, "once");
    assert_eq!(rig.round().await.batch.jobs.len(), ids.len());
    for id in young.iter().chain(&old) {
        assert_over(&rig, id, true).await;
    }
    // One answer may lack what is there.
    assert_eq!(rig.place("20").await, None, "its life is over");
    for id in &gone {
        let (stored, (lane, _)) = (rig.stored(id).await, rig.lane(id).await);
        assert_eq!((stored.state, stored.misses, &*lane), (ItemState::Live, 1, "once"));
        assert_eq!(stored.next_due, Some(stored.checked_at.unwrap() + MINUTE));
    }
}

/// An answer that lacks some posts that are there ends none of them: a second answer is asked, a minute later.
async fn what_one_faulty_answer_lacks_is_found_by_the_second(setup: Setup) {
    let rig = Rig::start(setup).await;
    let ids = rig.there(20, 400 * DAY);
    put(&once(&rig), &ids).await;
    rig.inject(Fault::SomeMissing { share: 0.5 }, 1);
    rig.round().await;
    let mut lacking = Vec::new();
    for id in &ids {
        match rig.place(id).await {
            None => assert_over(&rig, id, true).await,
            Some(_) => lacking.push(id.clone()),
        }
    }
    assert!(!lacking.is_empty() && lacking.len() < ids.len(), "{lacking:?}");
    // As if the minute were over.
    rig.queue.forget(&lacking).await.unwrap();
    let due = |id: &String| NewJob { id: id.clone(), lane: Lane::once(), due: 0.into() };
    rig.queue.schedule(&lacking.iter().map(due).collect::<Vec<_>>()).await.unwrap();
    rig.round().await;
    for id in &lacking {
        let stored = rig.stored(id).await;
        assert_eq!((stored.state, stored.misses, stored.text.is_some()), (ItemState::Ended, 0, true), "{stored:?}");
    }
}

async fn a_killed_worker_and_a_lost_queue_change_nothing(mut setup: Setup) {
    setup.claims.lease = Duration::from_secs(1);
    let rig = Rig::start(setup).await;
    let ids = [rig.there(3, HOUR), rig.there(3, 400 * DAY)].concat();
    put(&once(&rig), &ids).await;
    // A worker takes them, and is never heard of again; whoever comes next does not know their lane any more.
    assert_eq!(rig.claim(100).await.jobs.len(), ids.len());
    let mut left = ids.len();
    while left > 0 {
        left -= rig.round().await.batch.jobs.len();
    }
    for id in &ids {
        assert_over(&rig, id, true).await;
    }
}

async fn who_comes_another_way_too_is_looked_up_by_age(setup: Setup) {
    let rig = Rig::start(setup).await;
    let ids = rig.there(2, HOUR);
    put(&once(&rig), &ids).await;
    let again = starter(&rig).queue_tweet(Ingested::bare(&*ids[0])).await.unwrap();
    assert_eq!(again, Queued::Known);
    rig.round().await;
    assert_eq!(rig.lane(&ids[0]).await.0, "1d");
    assert_over(&rig, &ids[1], true).await;
    // And the other way round: who is looked up by age is no less so for being asked for once.
    let regular = rig.there(1, HOUR);
    put(&starter(&rig), &regular).await;
    assert_eq!(once(&rig).queue_tweet(Ingested::bare(&*regular[0])).await.unwrap(), Queued::Known);
    assert!(matches!(rig.place(&regular[0]).await, Some(Place::Delayed { lane, .. }) if lane == "1d"));
}

/// The lookup under way is the one that is asked for; if it fails, the job is in its lane still.
async fn given_again_while_a_worker_has_it_it_is_looked_up_once(setup: Setup) {
    let rig = Rig::start(setup).await;
    let ids = rig.there(1, HOUR);
    put(&once(&rig), &ids).await;
    let again = async || once(&rig).queue_tweet(Ingested::bare(&*ids[0])).await.unwrap();
    let failed = rig.claim(100).await;
    assert_eq!(again().await, Queued::Leased);
    rig.queue.release(&failed.fence, &failed.jobs).await.unwrap();
    assert_eq!(rig.lane(&ids[0]).await.0, "once");
    let batch = rig.claim(100).await;
    assert_eq!(again().await, Queued::Leased);
    rig.round_of(batch).await;
    let drain = Drain::new(starter(&rig).with_way(Way::new("incoming")), "w");
    assert_eq!(drain.round().await.unwrap(), DrainRound::default());
    assert_over(&rig, &ids[0], true).await;
}

async fn a_wave_ends_none(setup: Setup) {
    let rig = Rig::start(setup).await;
    let ids = rig.gone(2, HOUR);
    put(&once(&rig), &ids).await;
    rig.handler.wave.set(wave());
    rig.round().await;
    for id in &ids {
        let (lane, due) = rig.lane(id).await;
        assert!(lane == "once" && due > wall_ms() + 50 * MINUTE, "{lane} {due}");
        assert_eq!(rig.stored(id).await.state, ItemState::Live);
    }
}

/// An API at fault leaves all out, and a wave is made of posts that were found before.
async fn of_an_answer_that_has_none_each_is_looked_up_once_more(setup: Setup) {
    let rig = Rig::start(setup).await;
    let ids = rig.there(2, 400 * DAY);
    put(&once(&rig), &ids).await;
    rig.inject(Fault::AllMissing, 1);
    assert_eq!(rig.round().await.batch.jobs.len(), 2);
    for id in &ids {
        let (stored, (lane, due)) = (rig.stored(id).await, rig.lane(id).await);
        assert_eq!((stored.state, stored.misses, &*lane), (ItemState::Live, 1, "once"));
        assert_eq!(stored.next_due, Some(stored.checked_at.unwrap() + 10 * MINUTE));
        assert!((stored.next_due.unwrap()..=wall_ms() + 10 * MINUTE).contains(&due));
    }
    // As if that time were over: the one is found, ...
    rig.queue.forget(&ids[..1]).await.unwrap();
    rig.queue.schedule(&[NewJob { id: ids[0].clone(), lane: Lane::once(), due: 0.into() }]).await.unwrap();
    rig.round().await;
    let stored = rig.stored(&ids[0]).await;
    assert_eq!((stored.state, stored.misses, stored.text.is_some()), (ItemState::Ended, 0, true), "{stored:?}");
    assert_eq!(rig.place(&ids[0]).await, None);
    // ... and one that is missing for the second time is over.
    let gone = rig.gone(1, HOUR).remove(0);
    put(&once(&rig), std::slice::from_ref(&gone)).await;
    let seen = Finding::Missing { misses: 1, since: wall_ms() - 11 * MINUTE, reason: None, handle: None };
    rig.seen(&gone, 11 * MINUTE, seen, ItemState::Live).await;
    rig.round().await;
    let stored = rig.stored(&gone).await;
    assert_eq!((stored.state, stored.misses, stored.next_due), (ItemState::Ended, 2, None), "{stored:?}");
    assert_eq!(rig.place(&gone).await, None);
}

async fn an_answer_that_cannot_be_read_is_none_but_two_are(setup: Setup) {
    let rig = Rig::start(setup).await;
    let ids = rig.there(2, 400 * DAY);
    put(&once(&rig), &ids).await;
    rig.inject(Fault::BrokenTweet, 1);
    assert_eq!(rig.round().await.batch.jobs.len(), 2);
    let [one, other] = [rig.stored(&ids[0]).await, rig.stored(&ids[1]).await];
    let (broken, read) = if one.unreadable.is_some() { (one, other) } else { (other, one) };
    assert_over(&rig, &read.id, true).await;
    assert_eq!((broken.state, rig.lane(&broken.id).await.0), (ItemState::Live, "once".into()));
    let broken = [broken.id];
    rig.queue.forget(&broken).await.unwrap();
    rig.schedule(&broken).await;
    rig.inject(Fault::BrokenTweet, 1);
    rig.round().await;
    assert_eq!((rig.stored(&broken[0]).await.state, rig.place(&broken[0]).await), (ItemState::Ended, None));
}

/// What the queue has lost comes back to the same lane.
#[tokio::test]
async fn rebuilt_they_are_looked_up_once() {
    let rig = Rig::start(half_gone()).await;
    let ids = [rig.there(1, HOUR), rig.there(1, 400 * DAY)].concat();
    put(&once(&rig), &ids).await;
    rig.queue.forget(&ids).await.unwrap();
    let lanes = LaneChooser {
        schedule: rig.ages.clone().into(),
        unavailable: rig.handler.unavailable.lane.clone(),
        id_date: Arc::new(TweetId::date_of),
    };
    let (queue, store) = (rig.queue.clone(), rig.store.clone());
    let (lease, retry) = (rig.setup.claims.lease, RetryPolicy::default());
    let rebuild = Rebuild { queue, store, lanes, lease, rate: 1_000, retry };
    assert_eq!(rebuild.run(&Stop::new(), |_| ()).await.unwrap().put_back, 2);
    assert_eq!(rig.lane(&ids[1]).await.0, "once");
    let mut left = ids.len();
    while left > 0 {
        left -= rig.round().await.batch.jobs.len();
    }
    for id in &ids {
        assert_over(&rig, id, true).await;
    }
}
