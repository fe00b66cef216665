//! Texts of others on one line: none steers the terminal or the direction of writing.

use twitter_updater::model::post::{ItemState, Tweet};
use twitter_updater::pipelines::posts::NAMESPACE;
use twitter_updater::store::{Finding, Lifecycle, NewItem, Observation, Posts, SqliteStore, Way};

use super::*;
use crate::support::process::Process;
use crate::support::wait::until_true;

const STEERING: [char; 14] = [
    '\u{61c}', '\u{200e}', '\u{200f}', '\u{202a}', '\u{202b}', '\u{202c}', '\u{202d}', '\u{202e}', '\u{2066}',
    '\u{2067}', '\u{2068}', '\u{2069}', '\u{1b}', '\u{9b}',
];

fn does_not_steer(said: &str) {
    assert!(!said.contains(STEERING), "{said:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_have_none_and_data_keep_them() {
    let home = Home::new();
    let store = SqliteStore::open(&home.path("home.db"), Duration::from_secs(20)).await.unwrap();
    store.migrate().await.unwrap();
    let steering: String = STEERING.into_iter().collect();
    let id = id_aged(MINUTE, 1);
    let new = NewItem { id: id.clone(), created_at: None, next_due: Some(1), content: None, read_at: None };
    store.record(NAMESPACE, 1, &Way { source: format!("s{steering}"), ..Way::new("enqueue") }, &[new]).await.unwrap();
    let author_name = Some(format!("ann{steering}"));
    let raw = serde_json::json!({ "id": 1, "text": format!("a{steering}gpj.exe") }).to_string();
    let post =
        Tweet { id: id.clone(), author_name, raw, text: Some(format!("a{steering}gpj.exe")), ..Tweet::default() };
    let saved = Observation {
        id: id.clone(),
        answered_at: 2,
        finding: Finding::Found(post),
        state: ItemState::Live,
        next_due: Some(3),
        follow: None,
        forget: false,
        recent: None,
    };
    store.save(NAMESPACE, &[saved]).await.unwrap();
    drop(store);
    let shown = home.run(&["dead", "show", &id]);
    assert!(shown.status.success(), "{}", text(&shown.stderr));
    assert!(text(&shown.stdout).contains("gpj.exe"), "{}", text(&shown.stdout));
    does_not_steer(&text(&shown.stdout));
    // A refused line is named.
    let ids = home.file("ids.txt", format!("12x{steering}\n"));
    let refused = home.run(&["enqueue", &ids]);
    assert_eq!(refused.status.code(), Some(65));
    does_not_steer(&text(&refused.stderr));
    assert!(text(&home.run(&["export", "posts"]).stdout).contains(&format!("a{steering}gpj.exe")));
}

#[tokio::test]
async fn a_log_has_none() {
    for format in ["json", "text"] {
        let home = Home::new();
        let steering: String = STEERING.into_iter().collect();
        let file = home.file(&format!("a{steering}.toml"), "");
        let settings = home.settings(&[("log.format", format)]);
        let log = home.path("log");
        let mut role = Process::start(&["--config", &file, "updater"], &settings, &log);
        until_true("it has read its configuration", Duration::from_secs(20), async || {
            assert!(role.runs(), "{}", log_text(&log));
            log_text(&log).contains("updater runs")
        })
        .await;
        role.signal("HUP");
        until_true("it reads it again", Duration::from_secs(20), async || log_text(&log).contains("SIGHUP")).await;
        role.signal("TERM");
        assert!(role.ended(Duration::from_secs(20)).await.success());
        does_not_steer(&log_text(&log));
    }
}
