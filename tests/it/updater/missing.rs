//! Tweets the API does not return.

use std::time::Duration;

use twitter_updater::clock::wall_ms;
use twitter_updater::simulator::{Fault, SimulatorOptions};
use twitter_updater::store::Seen;
use twitter_updater::tweet::TweetState;
use twitter_updater::updater::UNAVAILABLE_LANE;
use twitter_updater::worker::{Handler, Outlook};

use crate::support::rig::{DAY, HOUR, MINUTE, Rig, Setup};

/// Half of the simulated tweets are gone.
fn half_gone() -> Setup {
    Setup { simulator: SimulatorOptions { missing_share: 0.5, ..Setup::default().simulator }, ..Setup::default() }
}

#[tokio::test]
async fn a_missing_tweet_is_looked_up_again_slowly() {
    let rig = Rig::start(half_gone()).await;
    let (gone, there) = (rig.gone(1, 3 * DAY).remove(0), rig.there(1, 3 * DAY).remove(0));
    rig.lived(std::slice::from_ref(&gone)).await;
    rig.schedule(&[gone.clone(), there.clone()]).await;
    rig.round().await;
    let stored = rig.stored(&gone).await;
    assert_eq!((stored.state, stored.misses), (TweetState::Unavailable, 1));
    assert_eq!(stored.missing_since, stored.checked_at);
    assert_eq!(stored.text.as_deref(), Some("what it said before"));
    assert_eq!(stored.next_due, Some(stored.checked_at.unwrap() + 4 * HOUR));
    let (lane, due) = rig.lane(&gone).await;
    assert_eq!(lane, UNAVAILABLE_LANE);
    assert!((stored.next_due.unwrap()..=wall_ms() + 4 * HOUR).contains(&due));
    assert_eq!(rig.stored(&there).await.state, TweetState::Live);
    assert_eq!((rig.metrics.counters.unavailable.get(), rig.metrics.counters.found.get()), (1, 1));
}

#[tokio::test]
async fn found_again_it_lives_again() {
    let rig = Rig::start(Setup::default()).await;
    let id = rig.there(1, 3 * DAY).remove(0);
    let since = wall_ms() - 5 * DAY;
    rig.seen(&id, HOUR, Seen::Missing { misses: 9, since }, TweetState::Unavailable).await;
    rig.schedule(std::slice::from_ref(&id)).await;
    rig.round().await;
    let stored = rig.stored(&id).await;
    assert_eq!((stored.state, stored.misses, stored.missing_since), (TweetState::Live, 0, None));
    assert_eq!(rig.lane(&id).await.0, "7d");
}

#[tokio::test]
async fn its_life_ends_with_the_last_miss_of_the_limit() {
    let rig = Rig::start(Setup { unavailable_every: Duration::from_millis(1), ..Setup::default() }).await;
    let id = rig.there(1, 3 * DAY).remove(0);
    rig.schedule(std::slice::from_ref(&id)).await;
    rig.inject(Fault::AllMissing, 3);
    let mut first = None;
    for (misses, state) in [(1, TweetState::Unavailable), (2, TweetState::Unavailable), (3, TweetState::Ended)] {
        rig.round().await;
        let stored = rig.stored(&id).await;
        assert_eq!((stored.misses, stored.state), (misses, state));
        assert_eq!(stored.missing_since, *first.get_or_insert(stored.checked_at), "counted from the first miss");
    }
    assert_eq!(rig.place(&id).await, None);
    assert_eq!(rig.stored(&id).await.next_due, None);
    assert_eq!(rig.metrics.counters.ended.get(), 1);
}

#[tokio::test]
async fn its_life_ends_after_the_limit_and_the_time_and_not_after_one_of_them() {
    let unavailable_for = Duration::from_secs(30 * 60);
    let rig = Rig::start(Setup { unavailable_for, ..Setup::default() }).await;
    // Misses so far, since how many minutes, and whether one more miss is the end. The limit is 3.
    let cases = [(1, 40, false), (2, 10, false), (20, 10, false), (2, 29, false), (2, 31, true), (20, 31, true)];
    let ids = rig.there(cases.len(), 3 * DAY);
    for (id, (misses, minutes, _)) in ids.iter().zip(cases) {
        let since = wall_ms() - minutes * MINUTE;
        rig.seen(id, MINUTE, Seen::Missing { misses, since }, TweetState::Unavailable).await;
    }
    rig.schedule(&ids).await;
    rig.inject(Fault::AllMissing, 1);
    rig.round().await;
    for (id, (misses, minutes, ends)) in ids.iter().zip(cases) {
        let stored = rig.stored(id).await;
        let expected = if ends { TweetState::Ended } else { TweetState::Unavailable };
        assert_eq!((stored.misses, stored.state), (misses + 1, expected), "{misses} in {minutes} minutes");
        assert_eq!(stored.next_due.is_none(), ends);
        assert_eq!(rig.place(id).await.is_none(), ends);
    }
}

#[tokio::test]
async fn a_missing_tweet_past_the_last_bracket_has_ended() {
    let rig = Rig::start(half_gone()).await;
    let id = rig.gone(1, 31 * DAY).remove(0);
    rig.schedule(std::slice::from_ref(&id)).await;
    rig.round().await;
    let stored = rig.stored(&id).await;
    assert_eq!((stored.state, stored.misses, stored.next_due), (TweetState::Ended, 1, None));
    assert_eq!(rig.place(&id).await, None);
}

#[tokio::test]
async fn most_tweets_missing_is_believed_when_it_repeats() {
    let rig = Rig::start(half_gone()).await;
    let (gone, there) = (rig.gone(11, 3 * DAY), rig.there(9, 3 * DAY));
    let ids = [gone.clone(), there.clone()].concat();
    rig.lived(&ids).await;
    rig.schedule(&ids).await;
    let (dues, before) = (rig.dues(&ids).await.unwrap(), rig.stored(&gone[0]).await);

    let doubted = rig.round().await.handled;
    assert!(matches!(&doubted.outlook, Outlook::Outage(why) if why.contains("11 of 20")), "{:?}", doubted.outlook);
    assert_eq!((doubted.verdicts.len(), doubted.release.len()), (0, 20));
    assert_eq!(rig.dues(&ids).await.unwrap(), dues, "given back as they were");
    assert_eq!(rig.stored(&gone[0]).await, before);
    for id in &ids {
        assert_eq!(rig.stored(id).await.lookups, 1, "nothing is stored of it");
    }

    let believed = rig.round().await;
    assert_eq!(believed.handled.outlook, Outlook::Fine);
    assert!(believed.batch.jobs.iter().all(|job| job.deliveries == 0));
    for id in &gone {
        assert_eq!(rig.stored(id).await.state, TweetState::Unavailable);
        assert_eq!(rig.lane(id).await.0, UNAVAILABLE_LANE);
    }
    for id in &there {
        assert_eq!(rig.stored(id).await.state, TweetState::Live);
        assert_eq!(rig.lane(id).await.0, "7d");
    }
}

#[tokio::test]
async fn a_doubt_is_about_its_own_tweets() {
    let rig = Rig::start(half_gone()).await;
    for _ in 0..2 {
        let gone = rig.gone(20, 3 * DAY);
        rig.lived(&gone).await;
        rig.schedule(&gone).await;
        // Claimed and kept, so that each batch is of its own tweets.
        let batch = rig.claim(100).await;
        let handled = rig.handler.handle(&batch, rig.permit().await).await;
        assert!(matches!(handled.outlook, Outlook::Outage(_)), "{:?}", handled.outlook);
    }
    // The API is well again: nobody is missing, and nobody was harmed.
    let there = rig.there(20, 3 * DAY);
    rig.lived(&there).await;
    rig.schedule(&there).await;
    rig.inject(Fault::AllMissing, 1);
    assert!(matches!(rig.round().await.handled.outlook, Outlook::Outage(_)));
    rig.round().await;
    for id in &there {
        assert_eq!((rig.stored(id).await.state, rig.stored(id).await.misses), (TweetState::Live, 0));
    }
}

/// At the rule's edges an answer is believed at once.
async fn is_believed(lived_and_gone: usize, lived_and_there: usize, new_and_gone: usize) {
    let rig = Rig::start(half_gone()).await;
    let (gone, there) = (rig.gone(lived_and_gone, 3 * DAY), rig.there(lived_and_there, 3 * DAY));
    let new = rig.gone(new_and_gone, 3 * DAY);
    rig.lived(&[gone.clone(), there.clone()].concat()).await;
    rig.schedule(&[gone.clone(), there.clone(), new.clone()].concat()).await;
    let handled = rig.round().await.handled;
    assert_eq!((handled.outlook, handled.release.len()), (Outlook::Fine, 0));
    for id in gone.iter().chain(&new) {
        assert_eq!(rig.stored(id).await.state, TweetState::Unavailable);
    }
    for id in &there {
        assert_eq!(rig.stored(id).await.state, TweetState::Live);
    }
}

#[tokio::test]
async fn half_of_them_missing_is_believed() {
    is_believed(10, 10, 0).await;
}

#[tokio::test]
async fn few_of_them_missing_is_believed() {
    is_believed(19, 0, 0).await;
}

#[tokio::test]
async fn missing_tweets_that_were_never_there_are_believed() {
    is_believed(5, 10, 60).await;
}
