//! The pipeline as a process: from a post to its files, and to what people see of them.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::Query;
use axum::{Json, Router};
use serde_json::{Value, json};
use twitter_updater::base::clock::wall_ms;
use twitter_updater::engine::queue::{EmbeddedQueue, Inspection};
use twitter_updater::model::media::MediaState;
use twitter_updater::model::post::TweetId;
use twitter_updater::pipelines::posts::NAMESPACE;
use twitter_updater::store::{Store, StoredMedium};

use super::fetch::sha256;
use super::server::{Server, content};
use crate::support::process::{Variables, run, run_with_input, text, variables};
use crate::support::role::{Role, value};
use crate::support::wait::until_true;
use crate::support::world::{Backends, World};

const NS: &str = "media:twitter";
const PATIENCE: Duration = Duration::from_secs(60);
/// The id of the first post's own medium; those of the others follow.
const OWN: usize = 500;

/// The settings of media that are fetched from that server into a folder.
pub fn media_settings(server: &Server, folder: &Path) -> Variables {
    variables(&[
        ("media.collect", "true"),
        ("media.folder", folder.join("media").to_str().unwrap()),
        ("media.private_hosts", &server.address),
        ("media.stall", "500ms"),
        ("media.retry", "200ms"),
        ("media.longest_retry", "1s"),
        ("media.max_bytes", "700000"),
        ("updater.save_timeout", "1s"),
        ("updater.lease", "4s"),
    ])
}

/// Each post shows two media: one of its own, and one that all show. `paths` of the former, by the post's id.
async fn api(server: &Server, paths: BTreeMap<String, String>) -> String {
    let shared = server.url("/ok/1");
    let urls = paths.into_iter().enumerate().map(|(n, (id, path))| (id, (OWN + n, server.url(&path))));
    let own: BTreeMap<String, (usize, String)> = urls.collect();
    let answer = move |Query(query): Query<BTreeMap<String, String>>| async move {
        let photo = |id: String, url: &str| json!({"id_str": id, "type": "photo", "media_url_https": url});
        let post = |id: &str| {
            let media = [photo(own[id].0.to_string(), &own[id].1), photo("77".to_owned(), &shared)];
            json!({"id_str": id, "full_text": "look", "user": {"id_str": "12", "screen_name": "ann"},
                "created_at": "Wed Aug 27 13:08:45 +0000 2008", "extended_entities": {"media": media}})
        };
        let found: BTreeMap<String, Value> = query["id"].split(',').map(|id| (id.to_owned(), post(id))).collect();
        Json(json!({"id": found}))
    };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let router = Router::new().fallback(answer);
    tokio::spawn(async move { axum::serve(listener, router).await });
    address
}

async fn media(store: &dyn Store, ids: &[String]) -> Vec<StoredMedium> {
    store.media(NS, ids).await.unwrap().into_iter().flatten().collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn media_of_posts_are_fetched_once_and_shown() {
    let (server, folder) = (Server::start().await, tempfile::tempdir().unwrap());
    let now = wall_ms();
    let kinds = ["ok", "cut", "gone", "page", "inside", "storm"];
    let posts: Vec<String> = (0..kinds.len()).map(|n| TweetId::at(now - 60_000, n as u32).to_string()).collect();
    let path = |n: usize| format!("/{}/{}", kinds[n], 10 + n);
    let paths = posts.iter().enumerate().map(|(n, id)| (id.clone(), path(n))).collect();
    let world = World::new(Backends { redis: false, postgres: false }, folder.path(), &api(&server, paths).await).await;
    let settings: Variables = [world.settings.clone(), media_settings(&server, folder.path())].concat();
    let enqueued = run_with_input(&["enqueue", "-"], &settings, posts.join("\n").as_bytes());
    assert!(enqueued.status.success(), "{}", text(&enqueued.stderr));
    let updater = Role::start("updater", &settings, &folder.path().join("updater.log")).await;
    let own: Vec<String> = (0..posts.len()).map(|n| (OWN + n).to_string()).collect();
    let all = [own.clone(), vec!["77".to_owned()]].concat();
    until_true("each medium is settled", PATIENCE, async || {
        let media = media(&*world.store, &all).await;
        media.len() == all.len() && media.iter().all(|medium| medium.state.is_final())
    })
    .await;

    use MediaState::{Gone, Refused, Stored};
    let known = media(&*world.store, &all).await;
    let states: Vec<MediaState> = known.iter().map(|medium| medium.state).collect();
    assert_eq!(states, [Stored, Stored, Gone, Refused, Refused, Stored, Stored], "{known:?}");
    for (medium, number) in known.iter().zip([10, 11, 12, 13, 14, 15, 1]).filter(|(medium, _)| medium.state == Stored) {
        let hash = medium.sha256.clone().unwrap();
        assert_eq!((&hash, medium.file_type.as_deref()), (&sha256(&content(number)), Some("image/png")));
        let file = folder.path().join("media").join(&hash[..2]).join(&hash[2..]);
        assert!(std::fs::read(file).unwrap() == content(number));
    }
    assert!(known[4].reason.as_deref().unwrap().contains("redirected"), "{known:?}");
    assert!(known[1].attempts > 0 && known[5].attempts > 0, "{known:?}");
    // The one that all posts show was asked for once, and nobody was told who asks.
    assert_eq!(server.asked("/ok/1").len(), 1);
    assert_eq!(server.told(), [""; 0]);
    let uses = world.store.media_uses(NS, "77", 100).await.unwrap();
    assert_eq!(uses.len(), posts.len());
    until_true("their lives are over", PATIENCE, async || world.store.counts(NS).await.unwrap().ended == 7).await;
    let queue = EmbeddedQueue::open(&folder.path().join("jobs.db"), NS, PATIENCE).await.unwrap();
    until_true("none is in the queue", PATIENCE, async || {
        let stats = queue.stats().await.unwrap();
        (stats.delayed, stats.leased, stats.dead) == (0, 0, 0)
    })
    .await;
    shown(&updater, &settings, &world.store, &folder.path().join("ops.log")).await;
    assert_eq!(updater.stopped().await, Some(0));
}

/// Metrics, export, and the state of the whole.
async fn shown(updater: &Role, settings: &Variables, store: &Arc<dyn Store>, log: &Path) {
    let metrics = updater.get("/metrics").await.1;
    let of = |name: &str| value(&metrics, &format!("twitter_updater_{name}_total{{namespace=\"{NS}\"}}"));
    assert_eq!(
        (of("media_stored"), of("media_gone"), of("media_refused")),
        (Some(4.0), Some(1.0), Some(2.0)),
        "{metrics}"
    );
    assert_eq!(of("media_bytes"), Some(store.media_bytes().await.unwrap() as f64));
    let documented =
        include_str!("../../../docs/metrics.md").split_once("## Media\n").unwrap().1.split_once("\n## ").unwrap().0;
    let shown = metrics.lines().filter_map(|line| line.strip_prefix("# HELP twitter_updater_media_"));
    let shown: Vec<&str> = shown.filter_map(|line| line.split(' ').next()).collect();
    assert_eq!((shown.len(), documented.matches("| `media_").count()), (10, 10), "{shown:?}");
    assert!(shown.iter().all(|name| documented.contains(&format!("`media_{name}_total`"))), "{shown:?}");
    let exported = run(&["export", "media", "--pipeline", NS, "--format", "ndjson"], settings);
    let rows: Vec<Value> = text(&exported.stdout).lines().map(|row| serde_json::from_str(row).unwrap()).collect();
    assert_eq!(rows.len(), 7, "{}", text(&exported.stderr));
    assert!(rows.iter().any(|row| row["id"] == "77" && row["state"] == "stored" && row["type"] == "image/png"));
    let exported = run(&["export", "media_uses", "--pipeline", NS, "--format", "ndjson"], settings);
    assert_eq!(text(&exported.stdout).lines().count(), 12, "{}", text(&exported.stderr));
    let status = run(&["status", "--json"], settings);
    let status: Value = serde_json::from_slice(&status.stdout).unwrap();
    let all = status["namespaces"].as_array().unwrap();
    assert!(
        all.iter().any(|one| one["namespace"] == NS) && all.iter().any(|one| one["namespace"] == NAMESPACE),
        "{status}"
    );
    // Of a pipeline that needs no quota nobody is told that it has none.
    let people = text(&run(&["status"], settings).stdout);
    let (_, quota) = people.split_once(&format!("{NS}\n")).unwrap().1.split_once("\nquota\n").unwrap();
    assert!(quota.starts_with("none is needed"), "{people}");
    let ops = Role::start("ops", settings, log).await;
    let page = ops.get(&format!("/n/{NS}/")).await.1;
    assert!(page.contains("none is needed: this pipeline uses no quota"), "{page}");
    assert_eq!(ops.stopped().await, Some(0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_folder_is_told_and_fetching_goes_on_by_itself() {
    let (server, folder) = (Server::start().await, tempfile::tempdir().unwrap());
    let now = wall_ms();
    let posts: Vec<String> = (0..3).map(|n| TweetId::at(now - 60_000, n).to_string()).collect();
    let paths = posts.iter().enumerate().map(|(n, id)| (id.clone(), format!("/ok/{}", 99 + 100 * n))).collect();
    let world = World::new(Backends { redis: false, postgres: false }, folder.path(), &api(&server, paths).await).await;
    let mut settings: Variables = [world.settings.clone(), media_settings(&server, folder.path())].concat();
    settings.extend(variables(&[("media.max_disk_bytes", "700000")]));
    run_with_input(&["enqueue", "-"], &settings, posts.join("\n").as_bytes());
    let log = folder.path().join("updater.log");
    let updater = Role::start("updater", &settings, &log).await;
    until_true("the health says that it is full", PATIENCE, async || {
        let (_, ready) = updater.get("/ready").await;
        ready.contains("there is no room for media")
    })
    .await;
    let used = world.store.media_bytes().await.unwrap();
    assert!(used <= 700_000, "{used}");
    let metrics = updater.get("/metrics").await.1;
    let no_room = value(&metrics, &format!("twitter_updater_media_no_room_total{{namespace=\"{NS}\"}}"));
    assert!(no_room > Some(0.0), "{metrics}");
    assert_eq!(updater.stopped().await, Some(0));
    // More room: what waited is fetched.
    settings.extend(variables(&[("media.max_disk_bytes", "0")]));
    let updater = Role::start("updater", &settings, &log).await;
    let own: Vec<String> = (0..posts.len()).map(|n| (OWN + n).to_string()).collect();
    until_true("all are stored", PATIENCE, async || {
        let media = media(&*world.store, &own).await;
        media.iter().filter(|medium| medium.state == MediaState::Stored).count() == own.len()
    })
    .await;
    assert_eq!(updater.stopped().await, Some(0));
}
