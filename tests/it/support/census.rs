//! Where everything is: what "nothing is lost, nothing is doubled" means.

use twitter_updater::engine::queue::{Place, Queue};
use twitter_updater::model::post::ItemState;
use twitter_updater::pipelines::posts::NAMESPACE;
use twitter_updater::store::Store;

/// Ids by the one place each of them is in.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Census {
    pub delayed: usize,
    pub leased: usize,
    pub dead: usize,
    pub ended: usize,
}

/// Counts these ids. Fails where one is nowhere or in two places, and where the queue and the store do
/// not agree on the dead and the ended.
pub async fn census(queue: &dyn Queue, store: &dyn Store, ids: &[String]) -> Census {
    let mut census = Census::default();
    for ids in ids.chunks(1_000) {
        let standings = store.standing(queue.namespace(), ids).await.unwrap();
        let places = queue.locate(ids).await.unwrap();
        for ((id, places), standing) in ids.iter().zip(places).zip(standings) {
            let mut state = standing.map(|known| known.state);
            let mut places = places;
            if places.is_empty() && state != Some(ItemState::Ended) {
                // It may have ended between the two looks.
                let id = std::slice::from_ref(id);
                state = store.standing(queue.namespace(), id).await.unwrap().remove(0).map(|known| known.state);
                places = queue.locate(id).await.unwrap().remove(0);
            }
            match (&places[..], state) {
                ([Place::Delayed { .. }], Some(ItemState::Live | ItemState::Unavailable)) => census.delayed += 1,
                // The store hears of the end before the queue does.
                ([Place::Leased { .. }], Some(_)) => census.leased += 1,
                ([Place::Dead { .. }], Some(ItemState::Dead)) => census.dead += 1,
                ([], Some(ItemState::Ended)) => census.ended += 1,
                _ => panic!("{id} is in {places:?}, and {state:?} in the store"),
            }
        }
    }
    census
}

/// Fails where an older answer overwrote a newer one: simulated counts only grow, so they grow in the
/// history, and the tweet's own counts are the history's last.
pub async fn assert_answers_are_in_order(store: &dyn Store, ids: &[String]) {
    for id in ids {
        let history = store.history(NAMESPACE, id).await.unwrap();
        for pair in history.windows(2) {
            let [before, after] = pair else { unreachable!("windows of two") };
            let grew = |of: fn(&twitter_updater::model::post::Metrics) -> Option<i64>| {
                of(&after.metrics) >= of(&before.metrics)
            };
            assert!(
                before.checked_at < after.checked_at
                    && grew(|counts| counts.favorite_count)
                    && grew(|counts| counts.retweet_count),
                "{id}: {before:?}, then {after:?}"
            );
        }
        if let Some(last) = history.last() {
            let tweet = store.tweet(NAMESPACE, id).await.unwrap().unwrap();
            assert_eq!(tweet.metrics, last.metrics, "{id}");
        }
    }
}
