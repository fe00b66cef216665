//! Communities: posts a second through fan-out, language and belonging, in both stores; beside what paper 004 had to carry.
//!
//! Fan-out is what a batch of 100 found posts costs a community: posts of known accounts are counted, and accounts that members
//! name are seen. Judging is what 100 accounts with 60 stored posts each cost: profile, texts and friends are read, the language of
//! each post and the variant of all are told, and the decision is saved with the languages.
//!
//! `COMMUNITY_ACCOUNTS=100000 cargo bench -- community` sets the number of accounts.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tempfile::TempDir;
use twitter_updater::base::clock::{Millis, Stopwatch};
use twitter_updater::config::CommunitySettings;
use twitter_updater::model::account::Account;
use twitter_updater::model::community::Belonging;
use twitter_updater::model::post::{ItemState, Tweet};
use twitter_updater::pipelines::community::rule::Rule;
use twitter_updater::store::{
    Appearance, Communities, Decision, Finding, FoundPost, HandDecision, NetworkPipelines, NewItem, Observation,
    PostgresStore, Reason, Sighting, SqliteStore, Store, Way,
};

use crate::Size;
use crate::report::{Report, Table, machine};
use crate::servers::{Durability, Postgres};

const NS: &str = "community:twitter:pt";
const POSTS: &str = "tweet:update";
const PROFILES: &str = "profiles:twitter";
const OF: NetworkPipelines<'static> = NetworkPipelines { posts: POSTS, profiles: PROFILES, friends: "friends:twitter" };
const T: Millis = 1_700_000_000_000;
const PATIENCE: Duration = Duration::from_secs(60);
/// A batch, as the lookups have it.
const BATCH: u64 = 100;
/// Stored posts of each account.
const TEXTS: u64 = 60;
/// The peak of paper 004, posts a minute, a hundredfold.
const ASKED: f64 = 61_200.0;

trait Both: Store + Communities {}
impl<T: Store + Communities> Both for T {}

fn observation<I>(id: String, at: Millis, item: I) -> Observation<I> {
    let (seen, state, next_due) = (Finding::Found(item), ItemState::Live, Some(at + 1_000));
    Observation { id, answered_at: at, finding: seen, state, next_due, follow: None, forget: false, recent: None }
}

/// Accounts in an order of their own.
fn id(number: u64) -> String {
    (1_000_000_000_000_000_000 + number.wrapping_mul(0x9E37_79B9_7F4A_7C15) % 700_000_000_000_000_000).to_string()
}

async fn filled(store: &dyn Both, accounts: u64) {
    let text = |number: u64| {
        let of = ["Estou à espera do autocarro e perdi o comboio", "Tô esperando o ônibus, perdi o trem, kkk"];
        format!("{} outra vez {number}, que dia de trabalho este", of[(number % 2) as usize])
    };
    for batch in (0..accounts).collect::<Vec<_>>().chunks(BATCH as usize) {
        let new = |id: String| NewItem { id, created_at: None, next_due: Some(T), content: None, read_at: None };
        let people: Vec<NewItem> = batch.iter().map(|number| new(id(*number))).collect();
        store.record(PROFILES, T, &Way::new("bench"), &people).await.unwrap();
        let profile = |number: &u64| {
            let location = ["Lisboa", "em casa", "", "São Paulo"][(number % 4) as usize].to_owned();
            let raw = "{}".to_owned();
            observation(
                id(*number),
                T + 1,
                Account { id: id(*number), location: Some(location), raw, ..Account::default() },
            )
        };
        store.save_accounts(PROFILES, &batch.iter().map(profile).collect::<Vec<_>>()).await.unwrap();
        let (mut posts, mut sightings) = (Vec::new(), Vec::new());
        for number in batch {
            for nth in 0..TEXTS {
                let (post, author) = (id(number * TEXTS + nth + 10_000_000), id(*number));
                let tweet = Tweet {
                    id: post.clone(),
                    text: Some(text(number * TEXTS + nth)),
                    author_id: Some(author.clone()),
                    raw: "x".repeat(2_000),
                    ..Tweet::default()
                };
                posts.push(observation(post.clone(), T + 1, tweet));
                sightings.push(Sighting { account: author, post, at: T + nth as Millis });
            }
        }
        store.save(POSTS, &posts).await.unwrap();
        store.record_sightings(PROFILES, &sightings).await.unwrap();
        let decisions: Vec<HandDecision> = batch
            .iter()
            .map(|number| {
                let state = if number % 10 == 0 { Belonging::Member } else { Belonging::Candidate };
                HandDecision { account: id(*number), state }
            })
            .collect();
        store.save_hand_decisions(NS, T, "bench", "", &decisions).await.unwrap();
    }
}

/// Posts a second through fan-out: each by a known account, a third of them names another one.
async fn fanned_out(store: &dyn Both, accounts: u64, batches: u64) -> f64 {
    let watch = Stopwatch::start();
    for batch in 0..batches {
        let author = |nth: u64| id((batch * 7_919 + nth * 104_729) % accounts);
        let found: Vec<FoundPost> =
            (0..BATCH).map(|nth| FoundPost { post: id(batch * BATCH + nth), author: author(nth) }).collect();
        let appeared: Vec<Appearance> = (0..BATCH)
            .step_by(3)
            .map(|nth| Appearance {
                account: id((batch * 31 + nth) % (3 * accounts)),
                source: author(nth),
                reason: Reason::Mentioned,
                post: Some(id(batch * BATCH + nth)),
            })
            .collect();
        store.record_arrivals(NS, T + batch as Millis, &found, &appeared, (POSTS, &[])).await.unwrap();
    }
    (batches * BATCH) as f64 / watch.elapsed().as_secs_f64()
}

/// Accounts a second through the judgement.
async fn judged(store: &dyn Both, accounts: u64) -> f64 {
    let settings = CommunitySettings {
        country: "PT".to_owned(),
        language: "pt".to_owned(),
        variant: "pt-PT".to_owned(),
        ..CommunitySettings::default()
    };
    let rule = Rule::new(&settings).unwrap();
    let ids: Vec<String> = (0..accounts).map(|number| id((number * 104_729) % accounts)).collect();
    let watch = Stopwatch::start();
    for (at, batch) in ids.chunks(BATCH as usize).enumerate() {
        let facts = store.facts(NS, OF, batch, rule.texts_per_account()).await.unwrap();
        assert!(facts.iter().all(|of| of.texts.len() == TEXTS as usize), "{}", facts[0].texts.len());
        let judged: Vec<_> = facts.iter().map(|facts| rule.judge(facts)).collect();
        let languages: Vec<_> = judged.iter().flat_map(|of| of.languages.iter().cloned()).collect();
        store.save_languages(POSTS, &languages).await.unwrap();
        let decisions: Vec<Decision> = judged.into_iter().map(|of| of.decision).collect();
        store.save_decisions(NS, T + at as Millis, rule.version(), &decisions).await.unwrap();
    }
    accounts as f64 / watch.elapsed().as_secs_f64()
}

pub async fn run(size: Size) -> Report {
    let asked = std::env::var("COMMUNITY_ACCOUNTS").ok().and_then(|accounts| accounts.parse().ok());
    let (accounts, batches) = (asked.unwrap_or_else(|| size.pick(20_000, 300)), size.pick(2_000, 20));
    let mut table = Table::new(
        "Posts through fan-out, language and belonging",
        &["store", "fan-out, posts/s", "judged, accounts/s", "together, posts/minute", "of the 61,200 asked"],
    );
    for name in ["PostgreSQL", "SQLite"] {
        let folder = TempDir::new().unwrap();
        let (server, store): (Option<Postgres>, Arc<dyn Both>) = match name {
            "PostgreSQL" => {
                let server = Postgres::start(Durability::Flushed).await;
                let store = PostgresStore::connect(&server.url().into(), 4, PATIENCE).await.unwrap();
                (Some(server), Arc::new(store))
            }
            _ => (None, Arc::new(SqliteStore::open(&folder.path().join("store.db"), PATIENCE).await.unwrap())),
        };
        store.migrate().await.unwrap();
        filled(&*store, accounts).await;
        let (posts, judged) = (fanned_out(&*store, accounts, batches).await, judged(&*store, accounts).await);
        // Each account is judged after every 30 posts of it.
        let together = 60.0 / (1.0 / posts + 1.0 / (30.0 * judged));
        let cells = [posts, judged, together].map(|figure| json!(figure.round()));
        let [posts, judged, together_cell] = cells;
        let asked = json!((together / ASKED * 100.0).round() / 100.0);
        table.row(vec![json!(name), posts, judged, together_cell, asked]);
        drop((store, server));
    }
    let about = vec![
        format!("{}; {accounts} accounts with {TEXTS} stored posts each, ids in random order; one caller", machine()),
        "Together: each post goes through fan-out, and each account is judged anew after every 30 of its posts."
            .to_owned(),
        if cfg!(debug_assertions) { "A build without optimisation." } else { "A release build." }.to_owned(),
    ];
    Report { about, tables: vec![table] }
}
