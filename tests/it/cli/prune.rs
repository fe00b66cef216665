//! `prune`, and what an updater removes by itself.

use serde_json::json;
use twitter_updater::model::post::{ItemState, Metrics, Tweet};
use twitter_updater::pipelines::posts::NAMESPACE;
use twitter_updater::store::{Finding, Lifecycle, Listing, Observation, Posts, SqliteStore, StoreError};

use super::*;
use crate::support::process::Process;
use crate::support::redis::TestRedis;
use crate::support::stepping_clock::SteppingClock;
use crate::support::wait::until_true;

const PATIENCE: Duration = Duration::from_secs(20);

/// An answer so many days ago.
fn answer(id: &str, days: i64, finding: Finding, state: ItemState) -> Observation {
    let next_due = (state == ItemState::Live).then(wall_ms);
    let forget = matches!(finding, Finding::Missing { .. });
    Observation {
        id: id.to_owned(),
        answered_at: wall_ms() - days * DAY,
        finding,
        state,
        next_due,
        follow: None,
        forget,
        recent: None,
    }
}

fn post(id: &str) -> Finding {
    let metrics = Metrics { favorite_count: Some(1), ..Metrics::default() };
    Finding::Found(Tweet { id: id.to_owned(), raw: "{}".to_owned(), metrics, ..Tweet::default() })
}

/// Posts that ended 40 and 20 days ago, one that is alive, and one that its author deleted 10 days ago.
async fn fill(home: &Home) -> SqliteStore {
    let store = SqliteStore::open(&home.path("home.db"), Duration::from_secs(20)).await.unwrap();
    store.migrate().await.unwrap();
    let first = [
        answer("old", 40, post("old"), ItemState::Ended),
        answer("young", 20, post("young"), ItemState::Ended),
        answer("alive", 60, post("alive"), ItemState::Live),
        answer("deleted", 30, post("deleted"), ItemState::Live),
    ];
    store.save(NAMESPACE, &first).await.unwrap();
    let missing = Finding::Missing { misses: 1, since: wall_ms() - 20 * DAY, reason: None, handle: None };
    store.save(NAMESPACE, &[answer("deleted", 10, missing, ItemState::Ended)]).await.unwrap();
    store
}

async fn left(store: &SqliteStore) -> Result<Vec<String>, StoreError> {
    let ended = store.page(NAMESPACE, Listing::Ended, None, 9).await?;
    let living = store.page(NAMESPACE, Listing::Tracked, None, 9).await?;
    Ok(ended.into_iter().chain(living).map(|row| row.id).collect())
}

#[tokio::test]
async fn what_ended_long_ago_or_was_deleted_is_removed() {
    let home = Home::new();
    says_one_line(&home.run(&["prune", "--deleted"]), 69, "home.db");
    assert_eq!(home.run(&["prune"]).status.code(), Some(64), "of what?");
    let store = fill(&home).await;
    let output = home.run(&["prune", "--older-than", "30d"]);
    assert_eq!(text(&output.stdout), "removed 1 of 3 posts whose lookups have ended\n", "{}", text(&output.stderr));
    assert_eq!(left(&store).await.unwrap(), ["young", "deleted", "alive"]);
    let output = home.run(&["prune", "--older-than", "30d", "--deleted", "--json"]);
    assert_eq!(serde_json::from_slice::<Value>(&output.stdout).unwrap(), json!({"ended": 2, "removed": 1}));
    assert_eq!(left(&store).await.unwrap(), ["young", "alive"]);
}

#[tokio::test]
async fn an_updater_removes_it_by_itself_where_the_settings_say_so() {
    for (more, stay) in [
        (&[("store.retention", "30d"), ("store.on_deleted", "blank")][..], &["young", "deleted", "alive"][..]),
        (&[("store.on_deleted", "remove")], &["young", "old", "alive"]),
        (&[("store.retention", "15d"), ("store.on_deleted", "remove")], &["alive"]),
    ] {
        let (home, log) = (Home::new(), "log");
        let store = fill(&home).await;
        let updater = Process::start(&["updater"], &home.settings(more), &home.path(log));
        until_true("it is removed", PATIENCE, async || left(&store).await.unwrap() == stay).await;
        assert!(updater.terminate().success());
        assert_eq!(left(&store).await.unwrap(), stay, "{more:?}");
        let said = log_text(&home.path(log));
        assert!(said.contains("expired posts are removed"), "{said}");
    }
}

/// What is removed is gone for good.
#[tokio::test]
async fn of_two_clocks_the_earlier_one_says_what_is_old() {
    let clock = SteppingClock::new();
    clock.step(200 * 86_400);
    let redis = TestRedis::start_by(&clock.program(), &[]);
    let (home, queue) = (Home::new(), [("queue.backend", "redis"), ("queue.redis.url", &*redis.url)]);
    let store = fill(&home).await;
    let settings = home.settings(&[&queue[..], &[("store.retention", "30d")]].concat());
    let updater = Process::start(&["updater"], &settings, &home.path("log"));
    let stay = ["young", "deleted", "alive"];
    until_true("what is old is removed", PATIENCE, async || left(&store).await.unwrap() == stay).await;
    assert!(updater.terminate().success());
    assert_eq!(left(&store).await.unwrap(), stay);
}
