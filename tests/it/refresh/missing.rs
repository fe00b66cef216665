//! Tweets the API does not return: a miss is believed by time.

use std::time::Duration;

use twitter_updater::base::clock::wall_ms;
use twitter_updater::engine::worker::Outlook;
use twitter_updater::model::post::ItemState;
use twitter_updater::pipelines::refresh::UNAVAILABLE_LANE;
use twitter_updater::pipelines::refresh::mass_miss_alert::{FOUND, MISSED, MassMissAlert};
use twitter_updater::simulator::{Fault, SimulatorOptions};
use twitter_updater::store::Finding;

use crate::support::rig::{DAY, HOUR, MINUTE, Rig, Setup};

/// Half of the simulated tweets are gone.
pub fn half_gone() -> Setup {
    Setup { simulator: SimulatorOptions { missing_share: 0.5, ..Setup::default().simulator }, ..Setup::default() }
}

pub fn wave() -> Option<MassMissAlert> {
    Some(MassMissAlert { since_ms: wall_ms() - HOUR, until_ms: None, missed: 90, found: 10 })
}

#[tokio::test]
async fn a_missing_tweet_stays_on_its_interval_until_its_misses_span_ten_minutes() {
    let rig = Rig::start(half_gone()).await;
    // How long ago each was missed first, and whether the next miss is believed.
    let cases = [(None, false), (Some(9 * MINUTE), false), (Some(11 * MINUTE), true), (Some(DAY), true)];
    let ids = rig.gone(cases.len(), 3 * DAY);
    rig.lived(&ids).await;
    for (id, (since, _)) in ids.iter().zip(cases) {
        if let Some(ago) = since {
            rig.seen(
                id,
                MINUTE,
                Finding::Missing { misses: 1, since: wall_ms() - ago, reason: None, handle: None },
                ItemState::Live,
            )
            .await;
        }
    }
    rig.schedule(&ids).await;
    let handled = rig.round().await.handled;
    assert_eq!((handled.outlook, handled.release.len()), (Outlook::Fine, 0));
    for (id, (since, is_believed)) in ids.iter().zip(cases) {
        let (stored, (lane, due)) = (rig.stored(id).await, rig.lane(id).await);
        assert_eq!(stored.text.as_deref(), Some("what it said before"));
        assert_eq!(stored.misses, 1 + i64::from(since.is_some()));
        let (state, expected, interval) = match is_believed {
            true => (ItemState::Unavailable, UNAVAILABLE_LANE, 4 * HOUR),
            false => (ItemState::Live, "7d", 6 * HOUR),
        };
        assert_eq!((stored.state, &*lane), (state, expected), "{since:?}");
        assert_eq!(stored.next_due, Some(stored.checked_at.unwrap() + interval));
        assert!((stored.next_due.unwrap()..=wall_ms() + interval).contains(&due));
        if since.is_none() {
            assert_eq!(stored.missing_since, stored.checked_at);
        }
    }
    assert_eq!(rig.metrics.counters.unavailable.get(), 4);
}

#[tokio::test]
async fn during_a_wave_a_miss_takes_an_hour_to_be_believed_and_no_life_ends() {
    let rig = Rig::start(Setup { unavailable_limit: 1, ..half_gone() }).await;
    rig.handler.wave.set(wave());
    let cases = [(11 * MINUTE, false), (59 * MINUTE, false), (61 * MINUTE, true), (30 * DAY, true)];
    let ids = rig.gone(cases.len(), 3 * DAY);
    rig.lived(&ids).await;
    for (id, (ago, _)) in ids.iter().zip(cases) {
        rig.seen(
            id,
            MINUTE,
            Finding::Missing { misses: 9, since: wall_ms() - ago, reason: None, handle: None },
            ItemState::Live,
        )
        .await;
    }
    rig.schedule(&ids).await;
    rig.round().await;
    for (id, (ago, is_believed)) in ids.iter().zip(cases) {
        let stored = rig.stored(id).await;
        let state = if is_believed { ItemState::Unavailable } else { ItemState::Live };
        assert_eq!(stored.state, state, "{ago}");
        // Whether it is back is asked sooner than every four hours: that is what ends the wave.
        let interval = if is_believed { HOUR } else { 6 * HOUR };
        assert_eq!(stored.next_due, Some(stored.checked_at.unwrap() + interval));
    }
}

#[tokio::test]
async fn what_is_found_in_the_same_answer_is_saved_and_settled() {
    let rig = Rig::start(half_gone()).await;
    let (gone, there) = (rig.gone(60, 3 * DAY), rig.there(40, 3 * DAY));
    let new = rig.gone(5, 3 * DAY);
    rig.lived(&[gone.clone(), there[10..].to_vec()].concat()).await;
    rig.schedule(&[gone.clone(), there.clone(), new.clone()].concat()).await;
    let mut sums = (0, 0);
    for _ in 0..2 {
        let handled = rig.round().await.handled;
        assert_eq!(
            (handled.outlook, handled.release.len()),
            (Outlook::Fine, 0),
            "nothing is released for being missing"
        );
        let of = |name| handled.tally.iter().find(|(counter, _)| *counter == name).map_or(0, |(_, by)| *by);
        sums = (sums.0 + of(FOUND), sums.1 + of(MISSED));
    }
    assert_eq!(sums, (40, 60), "an id that no answer ever found tells nothing of a wave");
    let stats = rig.queue.stats().await.unwrap();
    assert_eq!((stats.counters[FOUND], stats.counters[MISSED]), (40, 60));
    for id in &there {
        assert_eq!((rig.stored(id).await.state, rig.stored(id).await.misses), (ItemState::Live, 0));
    }
    for id in gone.iter().chain(&new) {
        assert_eq!((rig.stored(id).await.state, rig.stored(id).await.misses), (ItemState::Live, 1));
        assert_eq!(rig.lane(id).await.0, "7d");
    }
}

#[tokio::test]
async fn found_again_it_lives_again() {
    let rig = Rig::start(Setup::default()).await;
    let id = rig.there(1, 3 * DAY).remove(0);
    let since = wall_ms() - 5 * DAY;
    rig.seen(&id, HOUR, Finding::Missing { misses: 9, since, reason: None, handle: None }, ItemState::Unavailable)
        .await;
    rig.schedule(std::slice::from_ref(&id)).await;
    rig.round().await;
    let stored = rig.stored(&id).await;
    assert_eq!((stored.state, stored.misses, stored.missing_since), (ItemState::Live, 0, None));
    assert_eq!(rig.lane(&id).await.0, "7d");
}

#[tokio::test]
async fn misses_in_a_hurry_end_no_life_whatever_the_settings_say() {
    let hurry = Duration::from_millis(1);
    let setup = Setup { unavailable_every: hurry, unavailable_limit: 1, unavailable_for: hurry, ..Setup::default() };
    let rig = Rig::start(setup).await;
    let id = rig.there(1, 3 * DAY).remove(0);
    let since = wall_ms() - 119 * MINUTE;
    rig.seen(&id, HOUR, Finding::Missing { misses: 9, since, reason: None, handle: None }, ItemState::Unavailable)
        .await;
    rig.schedule(std::slice::from_ref(&id)).await;
    rig.inject(Fault::AllMissing, 5);
    for misses in 10..15 {
        rig.round().await;
        let stored = rig.stored(&id).await;
        assert_eq!((stored.misses, stored.state), (misses, ItemState::Unavailable));
        assert_eq!(stored.missing_since, Some(since), "counted from the first miss");
    }
    assert_eq!(rig.metrics.counters.ended.get(), 0);
}

#[tokio::test]
async fn its_life_ends_after_the_limit_and_the_time_and_not_after_one_of_them() {
    let unavailable_for = Duration::from_secs(10 * 3_600);
    let rig = Rig::start(Setup { unavailable_for, ..Setup::default() }).await;
    // Misses so far, since how many hours, and whether one more miss is the end. The limit is 3.
    let cases = [(1, 12, false), (2, 3, false), (20, 9, false), (2, 11, true), (20, 11, true)];
    let ids = rig.there(cases.len(), 3 * DAY);
    for (id, (misses, hours, _)) in ids.iter().zip(cases) {
        let since = wall_ms() - hours * HOUR;
        rig.seen(id, MINUTE, Finding::Missing { misses, since, reason: None, handle: None }, ItemState::Unavailable)
            .await;
    }
    rig.schedule(&ids).await;
    rig.inject(Fault::AllMissing, 1);
    rig.round().await;
    for (id, (misses, hours, ends)) in ids.iter().zip(cases) {
        let stored = rig.stored(id).await;
        let expected = if ends { ItemState::Ended } else { ItemState::Unavailable };
        assert_eq!((stored.misses, stored.state), (misses + 1, expected), "{misses} in {hours} hours");
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
    assert_eq!((stored.state, stored.misses, stored.next_due), (ItemState::Ended, 1, None));
    assert_eq!(rig.place(&id).await, None);
}

/// One answer proves nothing, the last one neither. `enqueue --once` looks up a post that has ended long ago.
#[tokio::test]
async fn a_post_that_was_found_does_not_end_on_one_miss() {
    let rig = Rig::start(half_gone()).await;
    // How long it has been missing, whether a wave lasts, and what is expected: its state, and the time to the next lookup.
    let (live, unavailable) = (ItemState::Live, ItemState::Unavailable);
    let cases = [
        (None, false, (live, Some(10 * MINUTE))),
        (Some(9 * MINUTE), false, (live, Some(10 * MINUTE))),
        (Some(11 * MINUTE), false, (ItemState::Ended, None)),
        (Some(11 * MINUTE), true, (live, Some(HOUR))),
        (Some(2 * HOUR), true, (unavailable, Some(HOUR))),
    ];
    for (missing, lasts, (state, delay)) in cases {
        let id = rig.gone(1, 31 * DAY).remove(0);
        rig.lived(std::slice::from_ref(&id)).await;
        if let Some(ago) = missing {
            rig.seen(
                &id,
                MINUTE,
                Finding::Missing { misses: 1, since: wall_ms() - ago, reason: None, handle: None },
                live,
            )
            .await;
        }
        rig.handler.wave.set(wave().filter(|_| lasts));
        rig.schedule(std::slice::from_ref(&id)).await;
        rig.round().await;
        let stored = rig.stored(&id).await;
        let due = stored.next_due.map(|due| due - stored.checked_at.unwrap());
        assert_eq!((stored.state, due), (state, delay), "missing for {missing:?}, a wave lasts: {lasts}");
        match delay {
            Some(_) => assert_eq!(rig.lane(&id).await.0, UNAVAILABLE_LANE),
            None => assert_eq!(rig.place(&id).await, None),
        }
    }
}

/// A wave that empties whole answers, in rounds that follow at once: nothing is believed of it.
#[tokio::test]
async fn a_spell_of_bad_answers_changes_nothing_that_lasts() {
    let rig = Rig::start(Setup { ages: "30d: 1ms", ..Setup::default() }).await;
    let ids = rig.there(20, 3 * DAY);
    rig.lived(&ids).await;
    rig.schedule(&ids).await;
    rig.inject(Fault::AllMissing, 30);
    for _ in 0..30 {
        rig.round().await;
    }
    for id in &ids {
        assert_eq!(rig.stored(id).await.state, ItemState::Live);
        assert!(rig.stored(id).await.misses > 0);
    }
    for _ in 0..3 {
        rig.round().await;
    }
    for id in &ids {
        assert_eq!((rig.stored(id).await.state, rig.stored(id).await.misses), (ItemState::Live, 0));
        assert_eq!(rig.lane(id).await.0, "30d");
    }
}
