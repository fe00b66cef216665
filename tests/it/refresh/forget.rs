//! What a deleted post said is forgotten, where the settings say so.

use twitter_updater::base::clock::wall_ms;
use twitter_updater::model::post::{ItemState, Metrics, Tweet};
use twitter_updater::store::Finding;

use super::missing::{half_gone, wave};
use crate::support::postgres;
use crate::support::rig::{Backends, DAY, HOUR, MINUTE, Rig, Setup};

fn post(id: &str, text: &str) -> Finding {
    Finding::Found(Tweet {
        id: id.to_owned(),
        text: Some(text.to_owned()),
        author_id: Some("7".to_owned()),
        author_name: Some("jack".to_owned()),
        raw: format!("{{\"text\":\"{text}\"}}"),
        metrics: Metrics { favorite_count: Some(3), ..Metrics::default() },
        ..Tweet::default()
    })
}

/// A post of that age that was edited, and has been missing for so long; whether what it said is there still after the next lookup.
async fn is_kept(rig: &Rig, age: i64, missing_for: i64) -> bool {
    let id = rig.gone(1, age).remove(0);
    rig.seen(&id, 3 * HOUR, post(&id, "once"), ItemState::Live).await;
    rig.seen(&id, 2 * HOUR, post(&id, "then"), ItemState::Live).await;
    rig.seen(
        &id,
        MINUTE,
        Finding::Missing { misses: 1, since: wall_ms() - missing_for, reason: None, handle: None },
        ItemState::Live,
    )
    .await;
    rig.schedule(std::slice::from_ref(&id)).await;
    rig.round().await;
    let stored = rig.stored(&id).await;
    let changes = rig.store.changes(&rig.handler.items.namespace, &id).await.unwrap();
    let texts = changes.iter().filter(|change| change.field == "text").count();
    let is_there = [stored.text.is_some(), stored.raw.is_some(), stored.author_name.is_some(), texts == 1];
    assert!(is_there.iter().all(|part| *part == is_there[0]), "all of it, or nothing: {stored:?} {changes:?}");
    assert_eq!(stored.metrics.favorite_count, Some(3), "its counts stay");
    is_there[0]
}

async fn only_what_is_believed_to_be_deleted_is_forgotten(setup: Setup) {
    let rig = Rig::start(Setup { forget: true, ..setup }).await;
    // Young, and past the last bracket.
    for age in [2 * HOUR, 31 * DAY] {
        assert!(is_kept(&rig, age, 5 * MINUTE).await, "a miss is not believed yet");
        assert!(!is_kept(&rig, age, HOUR).await);
    }
    rig.handler.wave.set(wave());
    for age in [2 * HOUR, 31 * DAY] {
        assert!(is_kept(&rig, age, 5 * HOUR).await, "nothing is forgotten because of a wave");
    }
}

#[tokio::test]
async fn embedded() {
    only_what_is_believed_to_be_deleted_is_forgotten(half_gone()).await;
    assert!(is_kept(&Rig::start(half_gone()).await, 2 * HOUR, HOUR).await, "unless the settings say so");
}

#[tokio::test]
async fn on_servers() {
    let backends = Backends::Servers(postgres::database().await);
    only_what_is_believed_to_be_deleted_is_forgotten(Setup { backends, ..half_gone() }).await;
}
