//! The store: one contract, every backend.

mod accounts;
mod communities;
mod contract;
mod edges;
mod followed;
mod forget;
mod media;
mod model;
mod on_postgres;
mod on_sqlite;
mod pooled;
mod positions;

use std::time::Duration;

use secrecy::SecretString;
use tempfile::TempDir;
use twitter_updater::base::clock::Millis;
use twitter_updater::model::post::{ItemState, Metrics, Tweet};
use twitter_updater::store::{Finding, NewItem, Observation, PostgresStore, SqliteStore, Store, Way};

use crate::support::postgres;

/// Long enough for any statement here, on any machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// The pipeline of most tests.
const NS: &str = "tweet:update";

/// A moment; tests count milliseconds from it.
const T: Millis = 1_700_000_000_000;

/// A store of its own, and what it lives in.
struct World {
    store: Box<dyn Store>,
    _folder: Option<TempDir>,
}

async fn postgres_world() -> World {
    World { store: Box::new(open_postgres(&postgres::database().await).await), _folder: None }
}

async fn open_postgres(url: &str) -> PostgresStore {
    PostgresStore::connect(&SecretString::from(url), 8, PATIENCE).await.unwrap()
}

async fn sqlite_world() -> World {
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(&folder.path().join("tweets.db"), PATIENCE).await.unwrap();
    World { store: Box::new(store), _folder: Some(folder) }
}

fn way() -> Way {
    Way::new("enqueue")
}

fn new_tweet(id: &str, created_at: Millis, next_due: Option<Millis>) -> NewItem {
    NewItem { id: id.into(), created_at: Some(created_at), next_due, content: None, read_at: None }
}

fn counts(retweets: i64, likes: i64) -> Metrics {
    Metrics { retweet_count: Some(retweets), favorite_count: Some(likes), ..Metrics::default() }
}

fn tweet(id: &str, metrics: Metrics) -> Tweet {
    Tweet {
        id: id.into(),
        created_at: Some(T),
        text: Some(format!("text of {id}")),
        author_id: Some("12".into()),
        author_name: Some("jack".into()),
        metrics,
        raw: format!(r#"{{"id_str":"{id}"}}"#),
        ..Tweet::default()
    }
}

fn observation(id: &str, answered_at: Millis, finding: Finding) -> Observation {
    let state = if matches!(finding, Finding::Missing { .. }) { ItemState::Unavailable } else { ItemState::Live };
    Observation {
        id: id.into(),
        answered_at,
        finding,
        state,
        next_due: Some(answered_at + 60_000),
        follow: None,
        forget: false,
        recent: None,
    }
}

fn found(id: &str, answered_at: Millis, metrics: Metrics) -> Observation {
    observation(id, answered_at, Finding::Found(tweet(id, metrics)))
}

fn withheld(id: &str, answered_at: Millis, metrics: Metrics, countries: &str) -> Observation {
    let mut tweet = tweet(id, metrics);
    tweet.text = None;
    tweet.author_name = Some("withheld".into());
    tweet.raw = r#"{"withheld":true}"#.into();
    tweet.withheld_in = Some(countries.into());
    observation(id, answered_at, Finding::Found(tweet))
}

fn missing(id: &str, answered_at: Millis, misses: u32, since: Millis) -> Observation {
    observation(id, answered_at, Finding::Missing { misses: misses.into(), since, reason: None, handle: None })
}

fn broken(id: &str, answered_at: Millis) -> Observation {
    observation(id, answered_at, Finding::Broken("no text".into()))
}
