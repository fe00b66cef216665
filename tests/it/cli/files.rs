//! `enqueue` of files as people have them. What each kind of line is refused for, the starter's own
//! tests say; here: that the person at the terminal is told, and that the good lines are scheduled.

use serde_json::{Value, json};

use super::*;
use crate::support::process::{command, run_with_input};

fn utf16(text: &str) -> Vec<u8> {
    format!("\u{feff}{text}").encode_utf16().flat_map(u16::to_le_bytes).collect()
}

/// Lines that are refused, and a part of the reason.
fn bad_lines() -> Vec<(Vec<u8>, &'static str)> {
    let young = id_aged(MINUTE, 9_999);
    vec![
        (b"x".to_vec(), "not a digit"),
        (b"7".to_vec(), "the id is too short to contain its date"),
        (b"1111111111222222222233333333334444444444".to_vec(), "40 digits"),
        (b"-1500000000000000001".to_vec(), "negative"),
        (b"1.5E+18".to_vec(), "scientific notation"),
        (format!("{young},some text,7").into_bytes(), "only the id column is wanted"),
        (format!("{young}\tsome text").into_bytes(), "only the id column is wanted"),
        (format!("{{\"id_str\":\"{young}\",\"te").into_bytes(), "not JSON"),
        (format!("[[\"{young}\"]]").into_bytes(), "a list in a list"),
        (b"{\"text\":\"no id\"}".to_vec(), "no id"),
        (b"\xff\xfe\x80".to_vec(), "not UTF-8"),
        (utf16(&young), "NUL byte"),
        (vec![b'1'; 3 << 20], "longer than 1 MiB"),
        (id_aged(-DAY, 0).into_bytes(), "into the future"),
    ]
}

/// `line N: reason` on standard error.
fn told(output: &Output) -> Vec<(u64, String)> {
    let said = text(&output.stderr);
    let lines = said.lines().filter_map(|line| line.strip_prefix("line ")?.split_once(": "));
    let lines = lines.filter(|(_, reason)| !reason.starts_with("skipped"));
    lines.map(|(number, reason)| (number.parse().unwrap(), reason.to_owned())).collect()
}

#[test]
fn the_good_lines_of_a_bad_file_are_scheduled() {
    let home = Home::new();
    let bad = bad_lines();
    let mut mixed = Vec::new();
    for (number, (line, _)) in (0..).zip(&bad) {
        mixed.extend([id_aged(MINUTE, number).as_bytes(), b"\n", line, b"\n\n"].concat());
    }
    let file = home.file("mixed.txt", mixed);

    let output = home.run(&["enqueue", &file]);
    assert_eq!(output.status.code(), Some(65), "{}", text(&output.stderr));
    let told = told(&output);
    assert_eq!(told.len(), bad.len(), "{told:?}");
    for ((at, (_, says)), (line, reason)) in (0..).zip(&bad).zip(told) {
        assert_eq!(line, 3 * at + 2, "blank lines count: {reason}");
        assert!(reason.contains(says), "{says}: {reason}");
    }
    let summary = text(&output.stdout);
    let row = |what: &str| {
        let row =
            summary.lines().find_map(|line| line.trim().strip_prefix(what)).unwrap_or_else(|| panic!("{summary}"));
        row.split_whitespace().next().unwrap().parse::<usize>().unwrap()
    };
    assert_eq!((row("scheduled"), row("refused")), (bad.len(), bad.len()), "{summary}");
    assert!(summary.lines().next().unwrap().starts_with(&file), "{summary}");
    assert!(!summary.ends_with("\n\n"), "{summary}");
    assert_eq!(home.status()["delayed"], bad.len());

    // The same again, as a script does it, from a pipe.
    let bytes = std::fs::read(&file).unwrap();
    let again = run_with_input(&["enqueue", "--json", "-"], &home.settings(&[]), &bytes);
    assert_eq!(again.status.code(), Some(65));
    let summary: Value = serde_json::from_slice(&again.stdout).unwrap();
    assert_eq!(summary["name"], "standard input");
    let expected = json!({
        "lines": 2 * bad.len(), "scheduled": 0, "known": bad.len(), "too_old": 0, "dead": 0, "refused": bad.len(),
    });
    for (key, value) in expected.as_object().unwrap() {
        assert_eq!(summary[key], *value, "{key}");
    }
    assert_eq!(summary["refusals"].as_array().unwrap().len(), bad.len());
    assert_eq!(summary["refusals"][0]["line"], 2);
    assert_eq!(summary["refused_by_reason"].as_object().unwrap().len(), bad.len());
    assert!(summary["seconds"].is_number() && summary["ids_per_second"].is_number(), "{summary}");
    assert_eq!(summary["warning"], Value::Null);
    assert_eq!(home.status()["delayed"], bad.len());
}

/// Its name; what is in it; the first line that is refused, and why; how many ids are scheduled all the same.
type Kind = (&'static str, Vec<u8>, Option<(u64, &'static str)>, u64);

#[test]
fn each_kind_of_bad_file_is_told_from_the_good() {
    let young = |number| id_aged(MINUTE, number);
    let binary: Vec<u8> = (0..=u16::MAX).flat_map(|pair| [(pair >> 8) as u8 | 0x80, pair as u8]).collect();
    let csv = format!("id,text\n{},hello\nx{},\"a, b\"\n{}\n", young(1), young(2), young(3));
    let tar = [&b"ids.txt"[..], &[0; 250], b"ustar\x0000"].concat();
    let kinds: [Kind; 22] = [
        ("empty", vec![], None, 0),
        ("blank", b" \r\n\n\t\n".to_vec(), None, 0),
        ("binary", binary, Some((1, "NUL byte")), 0),
        ("one-byte-lines", b"1\n2\nx\n".to_vec(), Some((1, "or use --once")), 0),
        ("40-digits", format!("{}\n{}\n", young(1), "1".repeat(40)).into_bytes(), Some((2, "40 digits")), 1),
        ("negative", format!("-{}\n{}\n", young(1), young(2)).into_bytes(), Some((1, "negative")), 1),
        ("huge-line", [young(1).into_bytes(), b"\n".to_vec(), vec![b'9'; 9 << 20]].concat(), Some((2, "1 MiB")), 1),
        ("truncated", format!("{}\n{{\"id_str\":\"{}", young(1), young(2)).into_bytes(), Some((2, "not JSON")), 1),
        ("utf-16", utf16(&format!("{}\n{}\n", young(1), young(2))), Some((1, "UTF-16")), 0),
        ("csv", csv.into_bytes(), Some((4, "number of columns: 1 in this row, 2 in the first line")), 2),
        ("csv-without-names", format!("{},hello\n", young(1)).into_bytes(), Some((1, "only the id column")), 0),
        ("bz2", b"BZh91AY&SY\x12\n\n".to_vec(), Some((1, "bunzip2")), 0),
        ("xz", b"\xfd7zXZ\0\n\n".to_vec(), Some((1, "unxz")), 0),
        ("zst", b"\x28\xb5\x2f\xfd\x04\n\n".to_vec(), Some((1, "unzstd")), 0),
        ("tar", tar, Some((1, "tar -x")), 0),
        ("parquet", b"PAR1\x15\x04\n\n".to_vec(), Some((1, "parquet")), 0),
        ("pickle", b"\x80\x04\x95\n\n".to_vec(), Some((1, "pickle")), 0),
        ("excel", b"PK\x03\x04\x14\0\x06\0".to_vec(), Some((1, "Excel")), 0),
        ("gzip", b"\x1f\x8b\x08\0\0\0\0\0".to_vec(), Some((1, "gzip")), 0),
        ("cr-line-ends", format!("{}\r{}\r", young(1), young(2)).into_bytes(), Some((1, "CR alone")), 0),
        ("cut-off-list", format!("[{{\"id_str\":\"{}\"}},\n", young(1)).into_bytes(), Some((1, "cut off")), 1),
        ("utf-16-unmarked", utf16(&format!("{}\n", young(1)))[2..].to_vec(), Some((1, "iconv -f UTF-16LE")), 0),
    ];
    for (name, bytes, refused, good) in kinds {
        let home = Home::new();
        let file = home.file(name, bytes);
        let output = home.run(&["enqueue", "--json", &file]);
        assert_eq!(output.status.code(), Some(65), "{name}: {}", text(&output.stderr));
        let told = told(&output);
        match refused {
            None => assert!(told.is_empty(), "{name}: {told:?}"),
            Some((line, says)) => {
                assert!(told[0].0 == line && told[0].1.contains(says), "{name}: {told:?}");
                assert!(told.len() <= 50, "{name}: a terminal is no place for every line of a broken file");
            }
        }
        let summary: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!((&summary["scheduled"], &home.status()["delayed"]), (&json!(good), &json!(good)), "{name}");
        assert_eq!(refused.is_some(), summary["refused"].as_u64().unwrap() > 0, "{name}");
    }
}

#[test]
fn an_empty_file_is_called_that() {
    let home = Home::new();
    let file = home.file("ids.txt", "");
    let output = home.run(&["enqueue", &file]);
    assert_eq!(
        (output.status.code(), text(&output.stdout)),
        (Some(65), format!("{file} is empty: nothing to schedule\n"))
    );
}

#[test]
fn rounded_ids_are_scheduled_with_a_warning() {
    let home = Home::new();
    let made = wall_ms() - MINUTE;
    let ids = (0..2_000).map(|number| TweetId::at(made, number).to_string());
    let rounded: Vec<String> = ids.filter(|id| id.ends_with("00")).collect();
    let file = home.file("rounded.txt", rounded.join("\n"));
    let output = home.run(&["enqueue", &file]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let warning = format!("warning: {0} of {0} long ids end in 00", rounded.len());
    assert!(text(&output.stdout).contains(&warning), "{}", text(&output.stdout));
    assert_eq!(home.status()["delayed"], rounded.len());
}

/// What pandas and R keep of ids in a column with an empty cell.
fn round_to_float64(ids: impl Iterator<Item = String>) -> Vec<String> {
    let rounded = ids.map(|id| (id.parse::<u64>().unwrap() as f64 as u64).to_string());
    // Those are for the warning of spreadsheets.
    rounded.filter(|id| !id.ends_with("00")).collect()
}

#[test]
fn ids_of_float64_are_scheduled_with_a_warning() {
    let made = wall_ms() - MINUTE;
    let ids = |count: u32| (0..count).map(move |n| TweetId::at(made - 7 * i64::from(n), 777 * n + 3).to_string());
    let rounded = |count: usize| round_to_float64(ids(100)).into_iter().take(count).collect::<Vec<String>>();
    for (name, ids, is_warned) in [
        ("rounded", rounded(20), true),
        ("few", rounded(19), false),
        ("one-precise", rounded(20).into_iter().chain(ids(2).skip(1)).collect(), false),
        ("precise", ids(20).filter(|id| !id.ends_with("00")).collect(), false),
    ] {
        let home = Home::new();
        let file = home.file(name, ids.join("\n"));
        let output = home.run(&["enqueue", &file]);
        assert_eq!(output.status.code(), Some(0), "{name}: {}", text(&output.stderr));
        let said = text(&output.stdout);
        assert_eq!(said.contains("numbers that float64 holds exactly"), is_warned, "{name}: {said}");
    }
}

/// `zcat cut.gz | enqueue -`: the input ends within an id.
#[test]
fn the_last_id_of_a_cut_off_input_is_refused() {
    let home = Home::new();
    let ids: Vec<String> = young(30);
    let cut = format!("{}\n{}", ids[..29].join("\n"), &ids[29][..11]);
    let output = run_with_input(&["enqueue", "--once", "-"], &home.settings(&[]), cut.as_bytes());
    assert_eq!(output.status.code(), Some(65), "{}", text(&output.stderr));
    let told = told(&output);
    assert!(told.len() == 1 && told[0].0 == 30 && told[0].1.contains("cut off"), "{told:?}");
    assert_eq!(home.status()["delayed"], 29);
}

#[test]
fn equal_reasons_are_printed_a_few_times_and_counted() {
    let home = Home::new();
    let file = home.file("words.txt", format!("{}{}\n?\n", "x\n".repeat(2_000), young(1)[0]));
    let output = home.run(&["enqueue", &file]);
    let lines: Vec<u64> = told(&output).iter().map(|(line, _)| *line).collect();
    assert_eq!(lines, [1, 2, 3, 2_002]);
    assert!(text(&output.stderr).contains("(more such lines are only counted)"));
    let summary = text(&output.stdout);
    assert!(summary.contains("refused, by reason") && summary.contains("2,000  "), "{summary}");
}

#[test]
fn objects_of_accounts_are_no_posts() {
    let home = Home::new();
    let users = [
        json!({"id": 12, "id_str": "1460323737035677698", "name": "N", "screen_name": "n", "status": {"id_str": "20"}}),
        json!({"id": "1460323737035677698", "name": "N", "username": "n"}),
    ];
    let file = home.file("users.ndjson", users.map(|user| user.to_string()).join("\n"));
    let output = home.run(&["enqueue", "--once", &file]);
    assert_eq!(output.status.code(), Some(65));
    let told = told(&output);
    assert!(told.len() == 2 && told.iter().all(|(_, why)| why.contains("enqueue --accounts")), "{told:?}");
    assert_eq!(home.status()["delayed"], 0);
}

#[test]
fn the_archive_of_an_account_is_scheduled() {
    let home = Home::new();
    let posts: Vec<Value> =
        young(2).iter().map(|id| json!({"tweet": {"id_str": id, "id": id, "full_text": "a"}})).collect();
    let archive = format!("window.YTD.tweets.part0 = {}", serde_json::to_string_pretty(&posts).unwrap());
    let output = home.run(&["enqueue", &home.file("tweets.js", archive)]);
    assert_eq!(
        (output.status.code(), home.status()["delayed"].as_u64()),
        (Some(0), Some(2)),
        "{}",
        text(&output.stderr)
    );
}

#[test]
fn a_clean_file_is_scheduled_once_however_often_it_is_enqueued() {
    let home = Home::new();
    let tweets = [id_aged(MINUTE, 1), format!("\"{}\"", id_aged(2 * DAY, 2)), id_aged(40 * DAY, 3)];
    let dated = json!({ "id": "20", "created_at": wall_ms() - DAY / 2, "text": "just setting up my twttr" });
    let file = home.file("clean.txt", format!("\u{feff}{}\r\n{dated}\r\n", tweets.join("\r\n")));
    for expected in [("scheduled", "known"), ("known", "scheduled")] {
        let output = home.run(&["enqueue", "--json", &file]);
        assert_eq!((output.status.code(), told(&output)), (Some(0), vec![]));
        let summary: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!((&summary[expected.0], &summary[expected.1]), (&json!(3), &json!(0)), "{summary}");
        assert_eq!(summary["too_old"], 1);
        assert_eq!(home.status()["delayed"], 3);
    }
}

/// The ids of an export of posts come in again, whatever is in their texts.
#[test]
fn exported_posts_are_taken_by_their_ids() {
    let home = Home::new();
    let ids = young(3);
    let texts = ["a\n{\n[\n#b\n\nc", "\"quoted\", and;more", "plain"];
    let posts = ids.iter().zip(texts).map(|(id, text)| json!({"id": id, "text": text}).to_string());
    assert!(home.run(&["enqueue", &home.file("posts.ndjson", posts.collect::<Vec<_>>().join("\n"))]).status.success());
    for more in [&[][..], &["--plain-ids"], &["--bom"], &["--spreadsheet-safe"]] {
        let file = home.path("posts.csv");
        let _ = std::fs::remove_file(&file);
        let file = file.to_str().unwrap();
        assert!(home.run(&[&["export", "posts", "--to", file], more].concat()).status.success());
        assert_eq!(std::fs::read_to_string(file).unwrap().contains("\nx"), !more.contains(&"--plain-ids"));
        let other = Home::new();
        let output = other.run(&["enqueue", "--json", file]);
        assert_eq!(output.status.code(), Some(0), "{more:?}: {}", text(&output.stderr));
        assert_eq!(serde_json::from_slice::<Value>(&output.stdout).unwrap()["scheduled"], 3, "{more:?}");
    }
}

/// What this program writes, and what people copy.
#[test]
fn exported_ids_and_addresses_are_taken() {
    let home = Home::new();
    let ids = young(3);
    assert!(home.run(&["enqueue", &home.file("ids.txt", ids[..2].join("\n"))]).status.success());
    let exported = home.path("export.csv");
    let exported = exported.to_str().unwrap();
    assert!(home.run(&["export", "ids", "--to", exported]).status.success());
    let mut file = std::fs::read_to_string(exported).unwrap();
    assert!(file.starts_with("id"), "{file}");
    file += &format!("# by hand\nhttps://x.com/jack/status/{}?s=20\n@jack\n", ids[2]);
    let output = home.run(&["enqueue", "--json", &home.file("again.csv", format!("\u{feff}{file}"))]);
    assert_eq!(output.status.code(), Some(65), "{}", text(&output.stderr));
    let said = text(&output.stderr);
    assert!(said.starts_with("line 1: skipped: it names the columns\n"), "{said}");
    assert!(told(&output).len() == 1 && said.contains("line 6: a handle, not a post's id. For accounts: "), "{said}");
    let summary: Value = serde_json::from_slice(&output.stdout).unwrap();
    let counted = ["lines", "known", "scheduled", "refused"].map(|key| summary[key].as_u64().unwrap());
    assert_eq!(counted, [4, 2, 1, 1], "{summary}");
}

#[test]
fn without_the_store_ids_are_only_scheduled() {
    let home = Home::new();
    let settings = home.settings(&[("store.sqlite.path", "/nowhere/at/all.db")]);
    let ids = young(3).join("\n");
    let output = run_with_input(&["enqueue", "--no-store"], &settings, ids.as_bytes());
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert_eq!(status(&settings)["delayed"], 3);
    // With it, the store that is not there is an error.
    let output = run_with_input(&["enqueue"], &settings, ids.as_bytes());
    assert_eq!(output.status.code(), Some(69), "{}", text(&output.stderr));
}

#[test]
fn a_file_that_is_not_there_leaves_nothing_behind() {
    let home = Home::new();
    let missing = home.path("ids.txt");
    let output = home.run(&["enqueue", missing.to_str().unwrap()]);
    says_one_line(&output, 1, &format!("{} cannot be opened", missing.display()));
    assert!(output.stdout.is_empty());
    assert_eq!(std::fs::read_dir(home.folder.path()).unwrap().count(), 0);
}

#[tokio::test]
async fn a_failure_ends_it_although_the_pipe_goes_on() {
    use std::io::Write;
    use std::process::Stdio;

    use crate::support::process::Process;
    use crate::support::wait::until_true;

    let home = Home::new();
    let settings = home.settings(&[]);
    let log = std::fs::File::create(home.path("log")).unwrap();
    let mut command = command(&["enqueue", "-"], &settings);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(log).spawn().unwrap();
    let mut pipe = child.stdin.take().unwrap();
    let mut enqueue = Process::of(child);
    let ids = young(2);
    writeln!(pipe, "{}", ids[0]).unwrap();
    until_true("the first is scheduled", Duration::from_secs(10), async || {
        home.path("home.db").exists() && home.status()["delayed"] == 1
    })
    .await;

    let file = sqlx::sqlite::SqliteConnectOptions::new().filename(home.path("home.db"));
    let store = sqlx::SqlitePool::connect_with(file).await.unwrap();
    sqlx::query("DROP TABLE tweet").execute(&store).await.unwrap();
    writeln!(pipe, "{}", ids[1]).unwrap();
    let status = enqueue.ended(Duration::from_secs(10)).await;
    let said = log_text(&home.path("log"));
    assert_eq!(status.code(), Some(69), "{said}");
    assert!(said.lines().last().unwrap().contains("standard input is done up to line 1, then: "), "{said}");
    drop(pipe);
}
