//! `refresh`: by id, by state, by time, and what it refuses.

use serde_json::json;
use twitter_updater::base::clock::{Millis, wall_ms};
use twitter_updater::engine::queue::{EmbeddedQueue, Inspection, Place};
use twitter_updater::pipelines::posts::NAMESPACE;

use super::*;
use crate::support::process::Process;
use crate::support::wait::until_true;

struct Scene {
    home: Home,
    queue: EmbeddedQueue,
    ids: Vec<String>,
}

impl Scene {
    /// So many young tweets are enqueued, none of them due yet.
    async fn new(count: u32) -> Self {
        let (home, ids) = (Home::new(), young(count));
        let file = home.file("ids.txt", ids.join("\n"));
        assert!(home.run(&["enqueue", "--first", "interval", &file]).status.success());
        let queue = EmbeddedQueue::open(&home.path("home.db"), NAMESPACE, Duration::from_secs(20)).await.unwrap();
        Self { home, queue, ids }
    }

    /// The exit code, standard output and standard error.
    fn refresh(&self, arguments: &[&str]) -> (i32, String, String) {
        let output = run(&[&["refresh"], arguments].concat(), &self.home.settings(&[("log.level", "warn")]));
        (output.status.code().unwrap(), text(&output.stdout), text(&output.stderr))
    }

    async fn due_in(&self, id: &str) -> Millis {
        match &self.queue.locate(&[id.to_owned()]).await.unwrap()[0][..] {
            [Place::Delayed { due, .. }] => due - wall_ms(),
            elsewhere => panic!("{elsewhere:?}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ids_are_due_at_once_and_a_bad_one_stops_no_other() {
    let scene = Scene::new(3).await;
    assert!(scene.due_in(&scene.ids[0]).await > 60_000);
    let (code, out, error) = scene.refresh(&[&scene.ids[0], "20", &scene.ids[2]]);
    assert_eq!(code, 65, "{error}");
    assert!(out.starts_with("2 due now, 0 in flight") && out.contains("1 refused"), "{out}");
    assert!(error.contains("20: it is not in the store: add it with `enqueue`"), "{error}");
    assert!(scene.due_in(&scene.ids[0]).await <= 0 && scene.due_in(&scene.ids[2]).await <= 0);
    assert!(scene.due_in(&scene.ids[1]).await > 60_000);
    let (code, out, _) = scene.refresh(&["--json", &scene.ids[1]]);
    let said: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((code, &said["promoted"], &said["refusals"]), (0, &json!(1), &json!([])));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kinds_and_times_choose_and_nonsense_is_refused() {
    let scene = Scene::new(2).await;
    for none in [&["--state", "unavailable"][..], &["--since", "2h"], &["--state", "live", "--since", "2020-01-01"]] {
        let (code, out, error) = scene.refresh(none);
        assert_eq!((code, &out[..9]), (0, "0 due now"), "no answer has come yet: {none:?} {out} {error}");
    }
    assert_eq!(scene.refresh(&["--state", "live", "--spread"]).0, 0);
    assert!(scene.due_in(&scene.ids[0]).await <= 180_000);
    let (code, out, _) = scene.refresh(&["--state", "live"]);
    assert!(code == 0 && out.starts_with("2 due now"), "{out}");
    for wrong in [&[][..], &["--state", "dead"], &["--since", "yesterday"], &["--state", "live", "20"]] {
        assert_eq!(scene.refresh(wrong).0, 64, "{wrong:?}");
    }
    let (_, _, error) = scene.refresh(&["--since", "yesterday"]);
    assert!(error.contains("write it like 2h, 2026-01-31 or 2026-01-31T08:00:00Z"), "{error}");
}

#[test]
fn where_nothing_is_stored_nothing_is_made() {
    let home = Home::new();
    for which in [&["--since", "2h"][..], &["--state", "unavailable"], &["20"]] {
        says_one_line(&home.run(&[&["refresh"], which].concat()), 69, "there is no file");
    }
    for role in [
        &["rebuild"][..],
        &["ops", "--listen", "127.0.0.1:0"],
        &["export", "posts"],
        &["export", "replies", "--format", "gexf"],
    ] {
        says_one_line(&home.run(role), 69, "there is no file");
    }
    assert_eq!(std::fs::read_dir(home.folder.path()).unwrap().count(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_is_said() {
    let scene = Scene::new(3).await;
    // Another process writes for as long as this transaction is open.
    let file = sqlx::sqlite::SqliteConnectOptions::new().filename(scene.home.path("home.db"));
    let pool = sqlx::SqlitePool::connect_with(file).await.unwrap();
    let other = pool.begin_with("BEGIN IMMEDIATE").await.unwrap();
    let out = scene.home.path("out");
    let settings = scene.home.settings(&[("queue.embedded.busy_timeout", "30s"), ("store.sqlite.busy_timeout", "30s")]);
    let mut command = crate::support::process::command(&["refresh", "--state", "live", "--json"], &settings);
    command.stdout(std::fs::File::create(&out).unwrap());
    let mut running = Process::of(command.spawn().unwrap());
    let status = format!("/proc/{}/status", running.id());
    until_true("it hears signals", Duration::from_secs(20), async || {
        let status = std::fs::read_to_string(&status).unwrap();
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap();
        u64::from_str_radix(caught.trim(), 16).unwrap() & (1 << (15 - 1)) != 0 // SIGTERM
    })
    .await;
    running.signal("TERM");
    other.rollback().await.unwrap();
    assert_eq!(running.ended(Duration::from_secs(20)).await.code(), Some(0));
    let said: Value = serde_json::from_str(&std::fs::read_to_string(out).unwrap()).unwrap();
    assert_eq!(said["stopped"], true, "{said}");
    let (_, whole, _) = scene.refresh(&["--state", "live"]);
    assert!(whole.starts_with("3 due now"), "{whole}");
}
