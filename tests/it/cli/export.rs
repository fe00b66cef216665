//! `export`: every row once, whatever it holds and whoever is killed.

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use secrecy::SecretString;
use sqlx::{Connection, Executor};
use twitter_updater::model::post::{ItemState, Metrics, Tweet};
use twitter_updater::pipelines::posts::NAMESPACE;
use twitter_updater::store::export::{ExportFilter, ExportState, ExportTables, ITEMS, POSTS};
use twitter_updater::store::{Finding, NewItem, Observation, PostgresStore, SqliteStore, Store, Way};

use super::*;
use crate::support::postgres;
use crate::support::process::{command, with_hangups, wrap};

const T: i64 = 1_700_000_000_000;

fn post(n: u32) -> Tweet {
    let text = match n % 7 {
        0 => format!("she said \"{n}, and left\"\nfor good, ü, 🦆"),
        1 => String::new(),
        _ => format!("= {n}"),
    };
    let raw = format!("{{\"id\":{n},\n \"text\":{}}}", serde_json::to_string(&text).unwrap());
    let metrics = Metrics { favorite_count: Some(i64::from(n)), ..Metrics::default() };
    let mut post = Tweet { id: n.to_string(), text: Some(text), raw, metrics, ..Tweet::default() };
    let lang = match n % 4 {
        0 | 2 => "pt",
        1 => "en,fr",
        _ => "en",
    };
    post.details.lang = Some(lang.to_owned());
    post.created_at = Some(T + i64::from(n));
    post
}

/// So many posts, each seen twice; and one of ten that nobody ever found.
async fn fill(store: &dyn Store, count: u32) {
    store.migrate().await.unwrap();
    let way = Way { source: "ids.txt".to_owned(), ..Way::new("enqueue") };
    let all: Vec<u32> = (0..count).map(|n| (n * 7_919) % count).collect(); // in no order
    for chunk in all.chunks(1_000) {
        let new =
            |n: &u32| NewItem { id: n.to_string(), created_at: None, next_due: Some(T), content: None, read_at: None };
        store.record(NAMESPACE, T, &way, &chunk.iter().map(new).collect::<Vec<_>>()).await.unwrap();
        for at in [T + 1_000, T + 2_000] {
            let seen = |n: &u32| match n % 10 {
                9 => (Finding::Missing { misses: 1, since: T, reason: None, handle: None }, ItemState::Unavailable),
                _ => {
                    let mut post = post(*n);
                    post.metrics.favorite_count = Some(at - T + i64::from(*n));
                    (Finding::Found(post), ItemState::Live)
                }
            };
            let observed = |n: &u32| {
                let (seen, state) = seen(n);
                Observation {
                    id: n.to_string(),
                    answered_at: at,
                    finding: seen,
                    state,
                    next_due: Some(at),
                    follow: None,
                    forget: false,
                    recent: None,
                }
            };
            store.save(NAMESPACE, &chunk.iter().map(observed).collect::<Vec<_>>()).await.unwrap();
        }
    }
}

#[test]
fn a_table_that_is_not_collected_is_told_with_its_setting() {
    let home = Home::new();
    for (table, setting) in
        [("edges", "relations.collect"), ("accounts", "accounts.collect"), ("media_uses", "media.collect")]
    {
        let says =
            format!("these settings collect no {table}: set {setting}, or name your configuration with --config");
        says_one_line(&home.run(&["export", table]), 64, &says);
    }
}

async fn embedded(count: u32) -> (Home, Variables) {
    let home = Home::new();
    fill(&SqliteStore::open(&home.path("home.db"), Duration::from_secs(20)).await.unwrap(), count).await;
    let settings = home.settings(&[]);
    (home, settings)
}

async fn on_postgres(count: u32) -> (Home, Variables) {
    let (home, url) = (Home::new(), postgres::database().await);
    let store = PostgresStore::connect(&SecretString::from(&*url), 4, Duration::from_secs(20)).await.unwrap();
    fill(&store, count).await;
    let settings = home.settings(&[("store.backend", "postgres"), ("store.postgres.url", &url)]);
    (home, settings)
}

fn export(settings: &Variables, arguments: &[&str]) -> String {
    let output = run(&[&["export"], arguments].concat(), settings);
    assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
    text(&output.stdout)
}

/// The number that a progress display shows is that of the rows.
async fn assert_row_counts(tables: &dyn ExportTables) {
    let table = |name: &str| ITEMS.iter().chain(POSTS).find(|table| table.name == name).unwrap();
    let of = |states: &[ExportState], languages: &[&str]| ExportFilter {
        namespace: NAMESPACE.to_owned(),
        states: states.to_vec(),
        languages: languages.iter().map(|&language| language.to_owned()).collect(),
        ..ExportFilter::default()
    };
    for (name, wanted, rows) in [
        ("posts", of(&[], &[]), 2_500),
        ("metrics", of(&[], &[]), 2 * 2_250),
        ("posts", of(&[ExportState::Live], &["pt"]), 1_250),
        ("unavailable", of(&[], &[]), 250),
    ] {
        assert_eq!(tables.count(table(name), &wanted).await.unwrap(), rows, "{name}");
    }
}

fn rows(csv: &str) -> Vec<Vec<String>> {
    let mut reader = csv::Reader::from_reader(csv.as_bytes());
    reader.records().map(|row| row.unwrap().iter().map(str::to_owned).collect()).collect()
}

async fn all_of_it_comes_out((home, settings): (Home, Variables)) {
    let posts = export(&settings, &["posts"]);
    let header: Vec<&str> = posts.lines().next().unwrap().split(',').collect();
    let at = |name: &str| header.iter().position(|column| *column == name).unwrap();
    let rows_of_posts = rows(&posts);
    assert_eq!(rows_of_posts.len(), 2_500);
    let ids: BTreeSet<&str> = rows_of_posts.iter().map(|row| &*row[at("id")]).collect();
    assert_eq!(ids.len(), 2_500);
    for row in &rows_of_posts {
        let n: u32 = row[at("id")].strip_prefix('x').unwrap().parse().unwrap();
        if n % 10 == 9 {
            assert_eq!((&*row[at("state")], &*row[at("text")]), ("unavailable", ""));
            continue;
        }
        assert_eq!(row[at("text")], post(n).text.unwrap());
        assert_eq!(row[at("favorite_count")], (2_000 + n).to_string());
        assert_eq!((&*row[at("reply_count")], &*row[at("checked_at")]), ("", "2023-11-14T22:13:22.000Z"));
    }
    assert_eq!(rows(&export(&settings, &["metrics"])).len(), 2 * 2_250);
    assert_eq!(rows(&export(&settings, &["ways"]))[0][2], "ids.txt");
    assert_eq!(rows(&export(&settings, &["unavailable"])).len(), 250);
    assert_eq!(export(&settings, &["changes"]).lines().count(), 1, "its header");
    assert_eq!(export(&settings, &["ids"]).lines().map(str::to_owned).collect::<BTreeSet<_>>().len(), 2_500);
    // Filters.
    let portuguese = rows(&export(&settings, &["posts", "--lang", "pt", "--state", "live"]));
    assert!(portuguese.len() == 1_250 && portuguese.iter().all(|row| row[at("lang")] == "pt"));
    // Of several languages each counts, and no part of a name.
    assert_eq!(export(&settings, &["ids", "--lang", "fr,p"]).lines().count(), 500);
    assert_eq!(export(&settings, &["ids", "--lang", "en"]).lines().count(), 1_000);
    let since = ["posts", "--since", "2023-11-14T22:13:22Z", "--format", "ndjson"];
    let lines: Vec<Value> = export(&settings, &since).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 450, "made from T + 2,000 ms on");
    assert!(lines.iter().all(|post| post["created_at"].as_str() >= Some("2023-11-14T22:13:22.000Z")));
    // An object is a line, whatever breaks it had.
    let raw: Vec<Value> = export(&settings, &["raw"]).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(raw.len() == 2_250 && raw.iter().all(|post| post["id"].is_u64()));
    assert_eq!(export(&settings, &["raw", "--format", "ndjson"]), export(&settings, &["raw"]));
    // Into a file, once.
    let file = home.path("posts.csv");
    let file = file.to_str().unwrap();
    export(&settings, &["posts", "--to", file]);
    assert_eq!(std::fs::read_to_string(file).unwrap(), posts);
    assert!(!Path::new(&format!("{file}.part")).exists() && !Path::new(&format!("{file}.part.json")).exists());
    says_one_line(&run(&["export", "posts", "--to", file], &settings), 1, "is there already");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_of_a_file_comes_out() {
    let (home, settings) = embedded(2_500).await;
    assert_row_counts(&SqliteStore::open(&home.path("home.db"), Duration::from_secs(20)).await.unwrap()).await;
    all_of_it_comes_out((home, settings)).await;
}

/// A copy on a disk that is mounted read-only, where SQLite may make no file beside it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_read_only_copy_is_exported() {
    let (home, settings) = embedded(20).await;
    let whole = export(&settings, &["posts"]);
    let folder = home.path("read-only");
    std::fs::create_dir(&folder).unwrap();
    let copy = folder.join("copy.db");
    let into = format!("VACUUM INTO '{}'", copy.display());
    let file = sqlx::sqlite::SqliteConnectOptions::new().filename(home.path("home.db"));
    let mut file = sqlx::SqliteConnection::connect_with(&file).await.unwrap();
    file.execute(sqlx::AssertSqlSafe(into)).await.unwrap();
    let settings = [settings, variables(&[("store.sqlite.path", copy.to_str().unwrap())])].concat();
    let script = "mount --bind \"$0\" \"$0\" && mount -o remount,bind,ro \"$0\" && exec \"$@\"";
    let outer = if rustix::process::geteuid().is_root() {
        let mut outer = Command::new("unshare");
        outer.args(["--mount", "sh", "-c", script, folder.to_str().unwrap()]);
        outer
    } else {
        std::fs::set_permissions(&copy, std::fs::Permissions::from_mode(0o400)).unwrap();
        std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o500)).unwrap();
        Command::new("env")
    };
    let output = wrap(outer, &command(&["export", "posts"], &settings)).output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(text(&output.stdout), whole);
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 1, "no file was made beside it");
    std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o700)).unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_of_postgresql_comes_out() {
    let (home, settings) = on_postgres(2_500).await;
    let url = settings.iter().find(|(name, _)| name.ends_with("STORE__POSTGRES__URL")).unwrap().1.clone();
    let store = PostgresStore::connect(&SecretString::from(url), 4, Duration::from_secs(20)).await.unwrap();
    assert_row_counts(&store).await;
    all_of_it_comes_out((home, settings)).await;
}

/// Killed again and again, it brings each row once in the end.
async fn goes_on((home, settings): (Home, Variables)) {
    let whole = export(&settings, &["posts"]);
    let file = home.path("posts.csv");
    let arguments = ["export", "posts", "--to", file.to_str().unwrap()];
    let part = home.path("posts.csv.part");
    let (mut kills, mut seen) = (0, 0);
    // The part and its note are of any moment: cut off in the middle of a row, too.
    while !file.exists() {
        let mut child = command(&arguments, &settings).spawn().unwrap();
        let killed = tokio::time::timeout(Duration::from_secs(60), async {
            loop {
                if child.try_wait().unwrap().is_some() {
                    return false;
                }
                let size = std::fs::metadata(&part).map_or(0, |file| file.len());
                if size > seen {
                    child.kill().unwrap();
                    child.wait().unwrap();
                    return true;
                }
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        });
        kills += u32::from(killed.await.unwrap());
        assert!(kills < 200, "it gets on");
        if let Ok(cut) = std::fs::File::options().append(true).open(&part) {
            use std::io::Write;
            (&cut).write_all(b"half a ro").unwrap();
            seen = cut.metadata().unwrap().len();
        }
    }
    assert!(kills > 1, "{kills}");
    assert!(std::fs::read_to_string(&file).unwrap() == whole, "not the same after {kills} kills");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_it_goes_on_over_a_file() {
    goes_on(embedded(60_000).await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_it_goes_on_over_postgresql() {
    goes_on(on_postgres(60_000).await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_is_one_line() {
    let (home, settings) = embedded(10).await;
    says_one_line(&run(&["export", "tweets"], &settings), 64, "write one of posts, metrics");
    says_one_line(&run(&["export", "posts", "--format", "lines"], &settings), 64, "one column");
    says_one_line(&run(&["export", "posts", "--to", "posts.xlsx"], &settings), 64, "ends in no format");
    for wrong in [&["--format", "xml"][..], &["--state", "alive"], &["--since", "yesterday"]] {
        assert_eq!(run(&[&["export", "posts"], wrong].concat(), &settings).status.code(), Some(64), "{wrong:?}");
    }
    let nowhere = home.path("none").join("posts.csv");
    let output = run(&["export", "posts", "--to", nowhere.to_str().unwrap()], &settings);
    says_one_line(&output, 1, "cannot be written");
    // A part of another export is left alone.
    let file = home.path("posts.csv");
    let file = file.to_str().unwrap();
    home.file("posts.csv.part", "x");
    home.file(
        "posts.csv.part.json",
        r#"{"request":"other","since":null,"until":null,"bytes":1,"rows":1,"after":null}"#,
    );
    says_one_line(&run(&["export", "posts", "--to", file], &settings), 1, "another export");
    assert_eq!(std::fs::read_to_string(format!("{file}.part")).unwrap(), "x");
    // A store that is not there is not made.
    let missing = variables(&[("store.sqlite.path", home.path("no.db").to_str().unwrap())]);
    assert!(!run(&["export", "posts"], &missing).status.success());
    assert!(!home.path("no.db").exists());
}

/// Stops an export by SIGHUP once its part is there; some files are written too fast for that.
async fn hang_up(settings: &Variables, file: &Path) {
    let part = file.with_extension(format!("{}.part", file.extension().unwrap().to_str().unwrap()));
    for _ in 0..20 {
        let arguments = ["export", "posts", "--to", file.to_str().unwrap()];
        let mut start = with_hangups(&command(&arguments, settings));
        let mut child = start.stderr(std::process::Stdio::piped()).spawn().unwrap();
        while !part.exists() && child.try_wait().unwrap().is_none() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let pid = child.id().to_string();
        let _ = std::process::Command::new("kill").args(["-HUP", &pid]).output().unwrap();
        let output = child.wait_with_output().unwrap();
        if output.status.code() == Some(1) {
            let said = text(&output.stderr);
            assert!(said.contains("stopped after"), "{said}");
            return;
        }
        assert!(output.status.success(), "{output:?}");
        std::fs::remove_file(file).unwrap();
    }
    panic!("no export was stopped");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_closed_terminal_stops_it_and_leaves_only_a_part_that_can_be_continued() {
    let (home, settings) = embedded(60_000).await;
    let csv = home.path("posts.csv");
    hang_up(&settings, &csv).await;
    export(&settings, &["posts", "--to", csv.to_str().unwrap()]);
    assert!(std::fs::read_to_string(&csv).unwrap() == export(&settings, &["posts"]));
    if cfg!(feature = "parquet") {
        hang_up(&settings, &home.path("posts.parquet")).await;
        for left in ["posts.parquet", "posts.parquet.part", "posts.parquet.part.json"] {
            assert!(!home.path(left).exists(), "{left}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_spreadsheet_gets_no_formula() {
    let (home, settings) = embedded(20).await;
    let [plain, safe] =
        [&["posts"][..], &["posts", "--spreadsheet-safe"]].map(|arguments| rows(&export(&settings, arguments)));
    let mut formulas = 0;
    for (before, after) in plain.iter().flatten().zip(safe.iter().flatten()) {
        let is_formula = before.starts_with('=');
        assert_eq!(*after, if is_formula { format!("'{before}") } else { before.clone() });
        formulas += usize::from(is_formula);
    }
    assert!(plain.len() == 20 && formulas >= 10, "{formulas}");
    let file = home.path("safe.csv");
    export(&settings, &["posts", "--spreadsheet-safe", "--to", file.to_str().unwrap()]);
    assert!(std::fs::read_to_string(&file).unwrap().contains(",'= 2,"));
    for (table, format) in
        [("posts", "ndjson"), ("posts", "parquet"), ("ids", "lines"), ("raw", "ndjson"), ("edges", "gexf")]
    {
        let output = run(&["export", table, "--format", format, "--spreadsheet-safe"], &settings);
        says_one_line(&output, 64, "--spreadsheet-safe, --bom and --plain-ids are for CSV");
    }
}

/// A reader that has seen enough is no error.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_may_stop_reading() {
    let (home, settings) = embedded(30_000).await;
    let mut child = command(&["export", "metrics"], &settings).stdout(std::process::Stdio::piped()).spawn().unwrap();
    let mut first = [0; 100];
    std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut first).unwrap();
    drop(child.stdout.take());
    assert!(child.wait().unwrap().success());
    drop(home);
}

/// Read by the Parquet reader of the same library; by other people's, `make lint` does.
#[cfg(feature = "parquet")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_parquet_file_holds_the_same() {
    use parquet::file::reader::{FileReader, SerializedFileReader};
    let (home, settings) = embedded(2_500).await;
    let file = home.path("posts.parquet");
    export(&settings, &["posts", "--to", file.to_str().unwrap()]);
    let reader = SerializedFileReader::new(std::fs::File::open(&file).unwrap()).unwrap();
    assert_eq!(reader.metadata().file_metadata().num_rows(), 2_500);
    let text = |row: &parquet::record::Row, name: &str| {
        row.get_column_iter().find(|(column, _)| *column == name).unwrap().1.to_string()
    };
    let mut seen = 0;
    for row in reader.get_row_iter(None).unwrap() {
        let row = row.unwrap();
        let n: u32 = text(&row, "id").trim_matches('"').parse().unwrap();
        match n % 10 {
            9 => assert_eq!(text(&row, "text"), "null"),
            _ => assert_eq!(text(&row, "favorite_count"), (2_000 + n).to_string()),
        }
        seen += 1;
    }
    assert_eq!(seen, 2_500);
}

#[cfg(not(feature = "parquet"))]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_the_feature_it_says_what_to_do() {
    let (home, settings) = embedded(10).await;
    let file = home.path("posts.parquet");
    let output = run(&["export", "posts", "--to", file.to_str().unwrap()], &settings);
    says_one_line(&output, 1, "--features parquet");
    assert!(!file.exists());
}
