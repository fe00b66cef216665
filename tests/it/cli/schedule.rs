//! `schedule train`: a model from what the store holds.

use secrecy::SecretString;
use serde_json::Value;
use twitter_updater::model::post::{ItemState, Metrics, Tweet};
use twitter_updater::pipelines::posts::NAMESPACE;
use twitter_updater::store::{Finding, NewItem, Observation, PostgresStore, SqliteStore, Store, Way};

use super::*;
use crate::support::postgres;

const T: i64 = 1_700_000_000_000;
const MINUTE: i64 = 60_000;
/// As the table below has them; the first answer within an hour, the last one at the end of the life.
const AGES: [i64; 10] = [5, 15, 25, 35, 45, 55, 360, 720, 1_080, 1_440];

fn observation(n: u32, age: i64, first: i64) -> Observation {
    let created_at = T + i64::from(n) * MINUTE;
    // Few posts have most of the likes, half of them within 3 hours.
    let likes = 2.0 + f64::from(n * 37 % 100).powi(2) / 10.0 * (1.0 - (-(age as f64) / 260.0).exp());
    let metrics = Metrics { favorite_count: Some(likes as i64), ..Metrics::default() };
    let post = Tweet { id: n.to_string(), created_at: Some(created_at), metrics, ..Tweet::default() };
    Observation {
        id: n.to_string(),
        answered_at: created_at + (age + first) * MINUTE,
        finding: Finding::Found(post),
        state: ItemState::Live,
        next_due: None,
        follow: None,
        forget: false,
        recent: None,
    }
}

/// So many posts that were followed for a day, and as many that were first looked up on their second day.
async fn fill(store: &dyn Store, count: u32) {
    store.migrate().await.unwrap();
    for first in (0..2 * count).step_by(500) {
        let numbers = || (first..(first + 500).min(2 * count)).map(|n| (n * 7_919) % (2 * count));
        let new =
            |n: u32| NewItem { id: n.to_string(), created_at: None, next_due: None, content: None, read_at: None };
        store.record(NAMESPACE, T, &Way::new("enqueue"), &numbers().map(new).collect::<Vec<_>>()).await.unwrap();
        for age in AGES {
            let seen = |n| observation(n, age, if n % 2 == 0 { 0 } else { 2_000 });
            store.save(NAMESPACE, &numbers().map(seen).collect::<Vec<_>>()).await.unwrap();
        }
    }
}

async fn a_model_is_trained_from_the_posts_that_were_followed_from_the_start(home: &Home, settings: &Variables) {
    let model = home.path("model.toml");
    let to = model.to_str().unwrap();
    let output = run(&["schedule", "train", "--to", to, "--json"], settings);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let trained: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&trained["posts"], &trained["followed_for_ms"]), (&600.into(), &(1_440 * MINUTE).into()));
    let missed = trained["missed_to_table"].as_f64().unwrap();
    assert!(missed > 0.1 && missed < 0.9, "{trained}");
    // It can be used.
    let mut settings = settings.clone();
    settings.extend(home.settings(&[("schedule", "adaptive"), ("adaptive.model_file", to)]));
    let checked = run(&["check"], &settings);
    assert!(checked.status.success(), "{}", text(&checked.stderr));
    let again = run(&["schedule", "train", "--to", to], &settings);
    assert!(text(&again.stdout).contains("600 posts, each followed for 1day\n"), "{}", text(&again.stdout));
}

const TABLE: (&str, &str) = ("tweet_age", "1h: 10m, 1d: 6h");

#[tokio::test]
async fn embedded() {
    let home = Home::new();
    fill(&SqliteStore::open(&home.path("home.db"), Duration::from_secs(20)).await.unwrap(), 600).await;
    let settings = home.settings(&[TABLE]);
    a_model_is_trained_from_the_posts_that_were_followed_from_the_start(&home, &settings).await;
}

#[tokio::test]
async fn on_postgres() {
    let (home, url) = (Home::new(), postgres::database().await);
    let store = PostgresStore::connect(&SecretString::from(&*url), 4, Duration::from_secs(20)).await.unwrap();
    fill(&store, 600).await;
    let settings = home.settings(&[TABLE, ("store.backend", "postgres"), ("store.postgres.url", &url)]);
    a_model_is_trained_from_the_posts_that_were_followed_from_the_start(&home, &settings).await;
}

#[tokio::test]
async fn too_few_posts_and_a_folder_that_is_missing_are_told_in_one_line() {
    let home = Home::new();
    fill(&SqliteStore::open(&home.path("home.db"), Duration::from_secs(20)).await.unwrap(), 20).await;
    let settings = home.settings(&[TABLE]);
    let refused = |to: &str| {
        let output = run(&["schedule", "train", "--to", to], &settings);
        assert!(!output.status.success());
        let said = text(&output.stderr);
        assert_eq!(said.lines().count(), 1, "{said}");
        said
    };
    let to = home.path("model.toml");
    let said = refused(to.to_str().unwrap());
    assert!(said.contains("at least 500 posts") && said.contains("there are 20"), "{said}");
    assert!(!to.exists());
    assert!(refused("/nowhere/model.toml").contains("/nowhere/model.toml cannot be written"));
}
