//! A folder where other users may write: what they plant there is neither written nor read.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown, lchown, symlink};

use twitter_updater::pipelines::media::partial_files::PartialFiles;
use twitter_updater::store::{Lifecycle, SqliteStore};

use super::*;

const VICTIM: &str = "what the victim keeps\n";
const ANOTHER_USER: u32 = 65_534;

/// A folder for all users, with an empty store and a file that an attacker wants to be overwritten.
async fn shared() -> (Home, Variables, PathBuf) {
    let home = Home::new();
    fs::set_permissions(home.folder.path(), Permissions::from_mode(0o777)).unwrap();
    let store = SqliteStore::open(&home.path("home.db"), Duration::from_secs(20)).await.unwrap();
    store.migrate().await.unwrap();
    let victim = home.file("victim", VICTIM);
    let settings = home.settings(&[]);
    (home, settings, victim.into())
}

/// Returns true if this test may give files to another user.
fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|process| std::os::unix::fs::MetadataExt::uid(&process) == 0)
}

/// Plants a file at a path.
type Plant<'a> = Box<dyn Fn(&Path) + 'a>;

/// Plants what an attacker may, each with a word of the answer.
fn plants(victim: &Path) -> Vec<(&'static str, Plant<'_>)> {
    let mut all: Vec<(&str, Plant<'_>)> = vec![
        ("it is a link", Box::new(move |part| symlink(victim, part).unwrap())),
        ("it is a link", Box::new(|part| symlink("/nowhere/at-all", part).unwrap())),
        ("it has a second name", Box::new(move |part| fs::hard_link(victim, part).unwrap())),
        (
            "it is no plain file",
            Box::new(|part| assert!(std::process::Command::new("mkfifo").arg(part).status().unwrap().success())),
        ),
        (
            "all users may read or write it",
            Box::new(|part| {
                fs::write(part, "").unwrap();
                fs::set_permissions(part, Permissions::from_mode(0o666)).unwrap();
            }),
        ),
    ];
    if is_root() {
        all.push((
            "it belongs to another user",
            Box::new(|part| {
                fs::write(part, "").unwrap();
                fs::set_permissions(part, Permissions::from_mode(0o600)).unwrap();
                chown(part, Some(ANOTHER_USER), None).unwrap();
            }),
        ));
    }
    all
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_export_does_not_write_into_a_planted_part() {
    let (home, settings, victim) = shared().await;
    for name in ["posts.csv", "posts.ndjson", "edges.gexf"] {
        let file = home.path(name);
        let table = name.split_once('.').unwrap().0;
        let settings =
            [settings.clone(), variables(&[("relations.collect", "followers"), ("accounts.collect", "true")])].concat();
        let arguments = ["export", table, "--to", file.to_str().unwrap()];
        for end in [".part", ".part.json"] {
            for (why, plant) in plants(&victim) {
                let planted = home.path(&format!("{name}{end}"));
                plant(&planted);
                says_one_line(&run(&arguments, &settings), 1, &format!("{name}{end} cannot be written: {why}; "));
                assert!(!file.exists(), "{name}");
                fs::remove_file(&planted).unwrap();
                let _ = fs::remove_file(home.path(&format!("{name}.part")));
            }
        }
        assert_eq!(fs::read_to_string(&victim).unwrap(), VICTIM);
        // Without a plant it is written.
        assert!(run(&arguments, &settings).status.success(), "{name}");
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    }
}

#[tokio::test]
async fn a_part_of_a_medium_that_was_planted_is_not_written() {
    let (home, _, victim) = shared().await;
    let parts = PartialFiles::open(&home.path("media"), 0, 0).unwrap();
    let part = parts.lock_part("media", "1").unwrap().unwrap();
    let (path, validator) = (part.path.clone(), part.path.with_extension("validator"));
    part.discard();
    drop(part);
    for (why, plant) in plants(&victim) {
        plant(&path);
        let error = parts.lock_part("media", "1").unwrap_err().to_string();
        assert!(error.starts_with(why), "{error}");
        fs::remove_file(&path).unwrap();
        // A planted validator is replaced, and is not read before.
        let part = parts.lock_part("media", "1").unwrap().unwrap();
        plant(&validator);
        assert_eq!(part.validator("http://h/1"), None);
        part.note_validator("http://h/1", Some("\"tag\""), None).unwrap();
        assert!(part.validator("http://h/1").is_some());
        part.discard();
    }
    // A group of the folder, as Kubernetes sets it, is taken away again.
    drop(parts.lock_part("media", "1").unwrap());
    fs::set_permissions(&path, Permissions::from_mode(0o660)).unwrap();
    assert!(parts.lock_part("media", "1").unwrap().is_some());
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(fs::read_to_string(&victim).unwrap(), VICTIM);
    symlink(&victim, home.path(&format!("media/parts/.probe-{}", std::process::id()))).unwrap();
    PartialFiles::open(&home.path("media"), 0, 0).unwrap();
    assert_eq!(fs::read_to_string(&victim).unwrap(), VICTIM);
}

/// Only root may give a link to another user, so an ordinary user tests links of its own, which are followed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_link_of_another_user_is_not_followed_and_an_own_one_is() {
    let (home, _, victim) = shared().await;
    let sample = home.file("texts.ndjson", "");
    for (name, is_file) in [("model.variants", false), ("linked.db", true), ("linked.db-wal", true)] {
        let link = home.path(name);
        let target = if name == "linked.db" { home.path("target.db") } else { victim.clone() };
        symlink(&target, &link).unwrap();
        let database = home.path("linked.db");
        let settings = variables(&[
            ("queue.embedded.path", database.to_str().unwrap()),
            ("store.sqlite.path", database.to_str().unwrap()),
            ("twitter.api", "http://127.0.0.1:9"),
        ]);
        let output = home.path("model.variants");
        let out = output.to_str().unwrap();
        let train = ["language", "train", &sample, "--out", out, "--source", "none", "--licence", "none"];
        let arguments = if is_file { &["migrate"][..] } else { &train };
        let said = || {
            let output = run(arguments, &settings);
            text(&output.stderr) + &text(&output.stdout)
        };
        let refusal = "it is a link of another user";
        if is_root() {
            lchown(&link, Some(ANOTHER_USER), None).unwrap();
            let said = said();
            assert!(said.contains(refusal), "{name}: {said}");
            assert!(name != "linked.db" || !home.path("target.db").exists());
            lchown(&link, Some(0), None).unwrap();
        }
        if name != "linked.db-wal" {
            assert!(!said().contains(refusal), "{name}");
        }
        assert_eq!(fs::read_to_string(&victim).unwrap(), VICTIM);
        fs::remove_file(&link).unwrap();
    }
}
