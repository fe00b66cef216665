//! What an answer makes of a tweet, in the store and in the queue.

use std::time::Duration;

use serde_json::Value;
use twitter_updater::base::clock::{Millis, wall_ms};
use twitter_updater::engine::queue::{Place, Verdict};
use twitter_updater::model::post::{ItemState, Tweet, TweetId};
use twitter_updater::pipelines::posts::{NAMESPACE, PostJudge};
use twitter_updater::pipelines::refresh::{Judge, UNAVAILABLE_LANE};
use twitter_updater::simulator::{Fault, SimulatorOptions};
use twitter_updater::store::Finding;

use crate::support::journal::Event;
use crate::support::rig::{DAY, HOUR, MINUTE, Rig, Setup, eventually, tweet_before};

fn with(simulator: SimulatorOptions) -> Setup {
    Setup { simulator, ..Setup::default() }
}

fn plain() -> SimulatorOptions {
    Setup::default().simulator
}

/// A tweet as the API shows it, read without the program's help.
async fn shown(rig: &Rig, id: &str) -> Value {
    let address = format!("{}/1.1/statuses/lookup.json?id={id}&tweet_mode=extended", rig.simulator().base_url());
    let body = reqwest::get(address).await.unwrap().text().await.unwrap();
    serde_json::from_str::<Value>(&body).unwrap()[0].take()
}

/// In that lane, stored as due after `every` from its last answer, and due in the queue after `every`
/// from the settling of it.
async fn assert_waits(rig: &Rig, id: &str, lane: &str, every: Millis) {
    let stored = rig.stored(id).await;
    // A broken answer is none: it dates nothing.
    if stored.unreadable.is_none() {
        assert_eq!(stored.next_due, stored.checked_at.map(|checked_at| checked_at + every));
    }
    let (its_lane, due) = rig.lane(id).await;
    assert_eq!(its_lane, lane);
    assert!((stored.next_due.unwrap()..=wall_ms() + every).contains(&due), "{stored:?} is due at {due}");
}

#[tokio::test]
async fn what_is_stored_is_what_the_api_shows() {
    // Old tweets whose counts have long stopped growing: any moment shows the same.
    let growth = Duration::from_secs(1);
    let rig = Rig::start(with(SimulatorOptions { retweet_share: 0.3, growth, body_padding: 100, ..plain() })).await;
    let ids = rig.there(30, 3 * DAY);
    rig.schedule(&ids).await;
    let batch = rig.round().await.batch;
    let mut retweets = 0;
    for id in &ids {
        let (stored, shown) = (rig.stored(id).await, shown(&rig, id).await);
        let truth = rig.simulator().world().tweet(TweetId::parse(id).unwrap(), wall_ms()).unwrap();
        assert_eq!(stored.state, ItemState::Live);
        assert_eq!(stored.text.as_deref(), shown["full_text"].as_str());
        assert_eq!(stored.author_id.as_deref(), shown["user"]["id_str"].as_str());
        assert_eq!(stored.author_name.as_deref(), shown["user"]["screen_name"].as_str());
        assert_eq!(stored.metrics.retweet_count, Some(truth.retweet_count));
        assert_eq!(stored.metrics.favorite_count, Some(truth.favorite_count));
        assert_eq!((stored.metrics.reply_count, stored.metrics.quote_count), (None, None));
        assert_eq!(stored.created_at, Some(truth.created_at / 1000 * 1000), "v1.1 dates have whole seconds");
        assert_eq!(serde_json::from_str::<Value>(stored.raw.as_deref().unwrap()).unwrap(), shown);
        assert!((batch.claimed_at..=wall_ms()).contains(&stored.checked_at.unwrap()));
        assert_eq!((stored.lookups, stored.misses, stored.withheld_in), (1, 0, None));
        assert_waits(&rig, id, "7d", 6 * HOUR).await;
        retweets += i32::from(truth.original.is_some());
    }
    assert!(retweets > 0, "a retweet's counts are the original's");
    let counters = &rig.metrics.counters;
    assert_eq!((counters.requests.get(), counters.looked_up.get(), counters.found.get()), (1, 30, 30));
}

#[tokio::test]
async fn counts_follow_the_world_and_leave_a_history() {
    let growth = Duration::from_millis(500);
    let rig = Rig::start(Setup { ages: "1d: 1ms", ..with(SimulatorOptions { growth, ..plain() }) }).await;
    let ids = rig.there(100, 5);
    rig.schedule(&ids).await;
    let mut batch = rig.round().await.batch;
    eventually("the counts of some have grown", async || {
        batch = rig.round().await.batch;
        rig.metrics.counters.changes.get() > ids.len() as i64 + 20
    })
    .await;
    let (since, until) = (batch.claimed_at, wall_ms());
    let mut grown = 0;
    for id in batch.jobs.iter().map(|job| &job.id) {
        let stored = rig.stored(id).await;
        let truth = |at| rig.simulator().world().tweet(TweetId::parse(id).unwrap(), at).unwrap().retweet_count;
        let count = stored.metrics.retweet_count.unwrap();
        assert!((truth(since)..=truth(until)).contains(&count));
        let history = rig.store.history("tweet:update", id).await.unwrap();
        assert!(history.is_sorted_by_key(|row| row.metrics.retweet_count));
        assert_eq!(history.last().unwrap().metrics, stored.metrics);
        grown += history.len() - 1;
    }
    assert!(grown >= 20);
}

#[tokio::test]
async fn each_age_has_its_lane() {
    let rig = Rig::start(Setup::default()).await;
    let ages = [
        (MINUTE, "18m", HOUR),
        (30 * MINUTE, "60m", 2 * HOUR),
        (5 * HOUR, "1d", 3 * HOUR),
        (3 * DAY, "7d", 6 * HOUR),
        (20 * DAY, "30d", DAY),
    ];
    let mut ids = Vec::new();
    for (age, ..) in ages {
        ids.extend(rig.there(1, age));
    }
    rig.schedule(&ids).await;
    assert_eq!(rig.round().await.batch.jobs.len(), 5);
    for (id, (_, lane, every)) in ids.iter().zip(ages) {
        assert_waits(&rig, id, lane, every).await;
    }
}

#[tokio::test]
async fn past_the_last_bracket_its_life_ends() {
    let rig = Rig::start(Setup::default()).await;
    let [old, young] = [rig.there(1, 31 * DAY).remove(0), rig.there(1, HOUR).remove(0)];
    rig.schedule(&[old.clone(), young.clone()]).await;
    rig.round().await;
    let stored = rig.stored(&old).await;
    assert_eq!((stored.state, stored.next_due), (ItemState::Ended, None));
    assert!(stored.text.is_some() && stored.metrics.retweet_count.is_some(), "its last answer is kept");
    assert_eq!(rig.place(&old).await, None);
    assert_eq!(rig.stored(&young).await.state, ItemState::Live);
    assert!(rig.place(&young).await.is_some());
    assert_eq!(rig.metrics.counters.ended.get(), 1);
}

#[tokio::test]
async fn nothing_is_settled_before_it_is_saved() {
    let simulator = SimulatorOptions { missing_share: 0.5, withheld_share: 0.1, ..plain() };
    let setup = Setup { slots: 3, ..with(simulator) };
    let claims = twitter_updater::engine::worker::ClaimSettings { limit: 20, ..setup.claims };
    let mut rig = Rig::start(Setup { claims, ..setup }).await;
    let mut ids = rig.there(80, HOUR);
    ids.extend(rig.there(40, 40 * DAY));
    ids.extend(rig.gone(60, 3 * DAY));
    ids.extend(rig.gone(20, 40 * DAY));
    rig.schedule(&ids).await;
    rig.work();
    eventually("every tweet is settled", async || {
        let stats = rig.queue.stats().await.unwrap();
        rig.stored_tweets().await == 200 && stats.due + stats.leased == 0
    })
    .await;
    rig.drain().await;
    let mut saved = std::collections::HashMap::new();
    let (mut settled, mut ended) = (0, 0);
    for (_, event) in rig.journal.events() {
        match event {
            Event::Saved(states) => saved.extend(states),
            Event::Settled(verdicts) => {
                for (id, verdict) in verdicts {
                    let says = *saved.get(&id).unwrap_or_else(|| panic!("{id} is settled and not saved"));
                    assert_eq!(verdict == Verdict::Finish, says == ItemState::Ended, "{verdict:?}, {says:?}");
                    settled += 1;
                    ended += i32::from(says == ItemState::Ended);
                }
            }
            _ => {}
        }
    }
    assert_eq!((settled, ended), (200, 60));
}

#[tokio::test]
async fn a_withheld_tweet_keeps_its_text_and_is_marked() {
    let rig = Rig::start(with(SimulatorOptions { withheld_share: 1.0, ..plain() })).await;
    let ids = rig.there(2, 3 * DAY);
    rig.lived(&ids[..1]).await;
    rig.schedule(&ids).await;
    rig.round().await;
    let [known, new] = [rig.stored(&ids[0]).await, rig.stored(&ids[1]).await];
    assert_eq!(known.text.as_deref(), Some("what it said before"));
    assert_eq!(new.text, None, "the sentence in place of a text is none");
    for stored in [known, new] {
        let truth = rig.simulator().world().tweet(TweetId::parse(&stored.id).unwrap(), wall_ms()).unwrap();
        assert_eq!((stored.state, stored.withheld_in.as_deref()), (ItemState::Live, Some("XY")));
        assert_eq!(stored.metrics.retweet_count, Some(truth.retweet_count));
        assert_waits(&rig, &stored.id, "7d", 6 * HOUR).await;
    }
    assert_eq!(rig.metrics.counters.withheld.get(), 2);
}

#[tokio::test]
async fn a_broken_tweet_costs_the_other_ninety_nine_nothing() {
    let rig = Rig::start(Setup::default()).await;
    let ids = rig.there(100, 3 * DAY);
    rig.schedule(&ids).await;
    rig.inject(Fault::BrokenTweet, 1);
    assert_eq!(rig.round().await.batch.jobs.len(), 100);
    let mut broken = 0;
    for id in &ids {
        let stored = rig.stored(id).await;
        assert_eq!(stored.state, ItemState::Live);
        assert_eq!(stored.checked_at.is_some(), stored.unreadable.is_none());
        assert_waits(&rig, id, "7d", 6 * HOUR).await;
        broken += i32::from(stored.text.is_none() && stored.metrics.retweet_count.is_none());
    }
    assert_eq!(broken, 1);
    assert_eq!((rig.metrics.counters.broken.get(), rig.metrics.counters.found.get()), (1, 99));
}

#[tokio::test]
async fn a_broken_tweet_stays_as_it_was() {
    let rig = Rig::start(Setup::default()).await;
    let id = rig.there(1, 3 * DAY).remove(0);
    let since = wall_ms() - HOUR;
    rig.seen(
        &id,
        2 * MINUTE,
        Finding::Missing { misses: 2, since, reason: None, handle: None },
        ItemState::Unavailable,
    )
    .await;
    rig.schedule(std::slice::from_ref(&id)).await;
    rig.inject(Fault::BrokenTweet, 1);
    rig.round().await;
    let stored = rig.stored(&id).await;
    assert_eq!((stored.state, stored.misses, stored.missing_since), (ItemState::Unavailable, 2, Some(since)));
    let (lane, due) = rig.lane(&id).await;
    assert_eq!(lane, UNAVAILABLE_LANE, "nothing was learnt of it");
    assert!((wall_ms() + 4 * HOUR - MINUTE..=wall_ms() + 4 * HOUR).contains(&due));

    // Its life had ended, but the worker died before it told the queue; and then it is returned.
    let id = rig.there(1, 3 * DAY).remove(0);
    rig.seen(&id, MINUTE, Finding::Missing { misses: 3, since, reason: None, handle: None }, ItemState::Ended).await;
    rig.schedule(std::slice::from_ref(&id)).await;
    rig.inject(Fault::BrokenTweet, 1);
    rig.round().await;
    assert_eq!(rig.stored(&id).await.state, ItemState::Live, "what is in the queue has not ended");
    assert_eq!(rig.lane(&id).await.0, "7d");
}

/// Anybody may send an instance of Mastodon a post of next year, or of 1970: the poller has scheduled it by another date.
#[tokio::test]
async fn a_date_that_cannot_be_is_none() {
    let rig = Rig::start(Setup::default()).await;
    let now = wall_ms();
    let made = |at| Tweet { created_at: Some(at), ..Tweet::default() };
    let mut tweets = [made(0), made(now + 400 * DAY), made(now - HOUR), made(now + 30_000)];
    PostJudge::default().prepare(&*rig.store, NAMESPACE, tweets.iter_mut().collect(), now).await.unwrap();
    assert_eq!(tweets.map(|tweet| tweet.created_at), [None, None, Some(now - HOUR), Some(now + 30_000)]);
}

#[tokio::test]
async fn an_id_older_than_snowflake_takes_its_date_from_the_answer() {
    let rig = Rig::start(Setup::default()).await;
    let [found, broken, missing] = ["20", "29700859247", "21"].map(str::to_owned);
    rig.schedule(std::slice::from_ref(&found)).await;
    rig.round().await;
    let stored = rig.stored(&found).await;
    assert_eq!(stored.state, ItemState::Ended, "its answer says 2006");
    assert!(stored.created_at.unwrap() < 1_200_000_000_000);
    assert_eq!(rig.place(&found).await, None);

    // No date anywhere: as old as can be, and alive.
    rig.schedule(std::slice::from_ref(&broken)).await;
    rig.inject(Fault::BrokenTweet, 1);
    rig.round().await;
    assert_eq!(rig.stored(&broken).await.state, ItemState::Live);
    assert_waits(&rig, &broken, "30d", DAY).await;

    rig.schedule(std::slice::from_ref(&missing)).await;
    rig.inject(Fault::AllMissing, 1);
    rig.round().await;
    assert_eq!((rig.stored(&missing).await.state, rig.stored(&missing).await.misses), (ItemState::Live, 1));
    assert_waits(&rig, &missing, "30d", DAY).await;
}

#[tokio::test]
async fn the_dead_in_the_store_are_buried_in_the_queue() {
    let rig = Rig::start(Setup::default()).await;
    let ids = rig.there(3, 3 * DAY);
    let mark_dead = |id: &String| (id.clone(), "it broke the worker".to_owned());
    rig.store.mark_dead("tweet:update", wall_ms(), &[mark_dead(&ids[0]), mark_dead(&ids[1])]).await.unwrap();
    // Once in an answer that lacks something, once in one that is whole.
    rig.schedule(&ids[..1]).await;
    rig.inject(Fault::AllMissing, 1);
    rig.round().await;
    rig.schedule(&ids[1..]).await;
    rig.round().await;
    for id in &ids[..2] {
        let stored = rig.stored(id).await;
        assert_eq!((stored.state, stored.reason.as_deref()), (ItemState::Dead, Some("it broke the worker")));
        assert!(matches!(rig.place(id).await, Some(Place::Dead { .. })), "{id}: {:?}", rig.place(id).await);
    }
    assert_eq!(rig.stored(&ids[2]).await.state, ItemState::Live);
    assert_waits(&rig, &ids[2], "7d", 6 * HOUR).await;
}

#[tokio::test]
async fn an_answer_older_than_the_stored_one_is_refused_and_counted() {
    let rig = Rig::start(Setup::default()).await;
    let [known, other] = [rig.there(1, 3 * DAY).remove(0), rig.there(1, 3 * DAY).remove(0)];
    rig.seen(&known, -HOUR, Finding::Found(tweet_before(&known)), ItemState::Live).await;
    let before = rig.stored(&known).await;
    rig.schedule(&[known.clone(), other.clone()]).await;
    rig.round().await;
    assert_eq!(rig.metrics.counters.saves_refused.get(), 1);
    assert_eq!(rig.stored(&known).await, before);
    assert_eq!(rig.lane(&known).await.0, "7d");
    assert_waits(&rig, &other, "7d", 6 * HOUR).await;
}

/// An id is in the queue, or the store says that its life has ended.
#[tokio::test]
async fn a_life_ends_only_where_the_store_says_so() {
    let rig = Rig::start(Setup::default()).await;
    let id = rig.there(1, 31 * DAY).remove(0);
    rig.seen(&id, -HOUR, Finding::Found(tweet_before(&id)), ItemState::Live).await;
    rig.schedule(std::slice::from_ref(&id)).await;
    rig.round().await;
    assert_eq!(rig.stored(&id).await.state, ItemState::Live, "the store has a newer answer");
    assert_eq!(rig.lane(&id).await.0, UNAVAILABLE_LANE, "so it is looked up again, slowly");
}
