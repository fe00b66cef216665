//! `language train`, `evaluate` and `detect`, as their users meet them.

use std::fmt::Write as _;

use serde_json::Value;
use tempfile::tempdir;

use crate::support::process::{run, run_with_input, text, variables};

/// Texts of two variants that differ in one word, and a line that is none.
fn labelled() -> String {
    let mut file = String::new();
    for at in 0..120 {
        let _ = writeln!(file, "{at}\tthe colour of number {at} is grey\ten-GB");
        let _ = writeln!(file, "{at}\tthe color of number {at} is gray\ten-US");
    }
    file + "no label here\n"
}

#[test]
fn a_model_is_trained_evaluated_and_used() {
    let folder = tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    std::fs::write(path("labelled.tsv"), labelled()).unwrap();
    let nothing = variables(&[]);
    let train = |file: &str, more: &[&str]| {
        let (file, out) = (path(file), path("en.variants"));
        let first =
            ["language", "train", &file, "--out", &out, "--language", "en", "--source", "test", "--licence", "none"];
        run(&[&first[..], more].concat(), &nothing)
    };
    let trained = train("labelled.tsv", &["--labels", "en-GB,en-US", "--json"]);
    // The bad line is told with its number, the rest is counted.
    assert_eq!(trained.status.code(), Some(65), "{}", text(&trained.stderr));
    let told = text(&trained.stderr);
    assert!(told.contains("labelled.tsv line 241 has no tab") && told.lines().count() == 1, "{told}");
    let answer: Value = serde_json::from_slice(&trained.stdout).unwrap();
    assert_eq!((&answer["texts"], &answer["markers"]), (&serde_json::json!([120, 120]), &serde_json::json!(0)));

    let (file, model) = (path("labelled.tsv"), path("en.variants"));
    let evaluate = ["language", "evaluate", &file, "--model", &model, "--group", "5", "--resamples", "100"];
    let figures = run(&[&evaluate[..], &["--json"]].concat(), &nothing);
    let figures: Value = serde_json::from_slice(&figures.stdout).unwrap();
    assert_eq!((&figures["labels"][0]["label"], &figures["labels"][0]["recall"]), (&"en-GB".into(), &1.0.into()));
    let table = text(&run(&evaluate, &nothing).stdout);
    assert!(table.contains("100 groups of 5 texts") && table.contains("100.0 % (100.0–100.0)"), "{table}");

    let empty = run_with_input(&["language", "evaluate", "-"], &nothing, b"");
    assert_eq!((empty.status.code(), &*text(&empty.stderr)), (Some(65), "twitter-updater: - has no labelled text\n"));

    // Errors: one line each, and no model is written.
    for (output, why) in [
        (train("missing.tsv", &[]), "missing.tsv cannot be read"),
        (
            train("labelled.tsv", &["--labels", "a,b"]),
            "has 0 texts labelled a; a model needs at least 100 of each label",
        ),
        (run(&["language", "evaluate", &file, "--model", &file], &nothing), "labelled.tsv: is no model of variants"),
    ] {
        let last = text(&output.stderr).lines().last().unwrap_or_default().to_owned();
        assert!(output.status.code() == Some(1) && last.contains(why), "{why}: {}", text(&output.stderr));
    }
    let same = run(
        &["language", "train", &file, "--out", &model, "--labels", "a,a", "--source", "-", "--licence", "-"],
        &nothing,
    );
    assert_eq!(same.status.code(), Some(64));
}

#[test]
fn texts_from_standard_input_are_told() {
    let input =
        "Se calhar vou de autocarro para a faculdade\nThe minister said that nothing had been decided\nok\n\u{fffd}\n";
    let plain = run_with_input(&["language", "detect"], &variables(&[]), input.as_bytes());
    let lines: Vec<String> = text(&plain.stdout).lines().map(str::to_owned).collect();
    assert!(lines.len() == 4 && lines[0].starts_with("pt\t0.") && lines[0].contains("\t+"), "{lines:?}");
    assert!(lines[1].starts_with("en\t0.") && lines[1].ends_with("\t-"), "{lines:?}");
    assert_eq!(lines[2..], ["-\t-\t-", "-\t-\t-"]);
    let json = run_with_input(&["language", "detect", "--json"], &variables(&[]), input.as_bytes());
    let first: Value = serde_json::from_str(text(&json.stdout).lines().next().unwrap()).unwrap();
    assert_eq!((&first["language"], &first["markers"]), (&"pt".into(), &serde_json::json!([2, 0])));
}
