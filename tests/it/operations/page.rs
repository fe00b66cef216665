//! The page of operations: what it shows of logs, metrics, alerts and commands is there.

use clap::CommandFactory;
use twitter_updater::app::cli::Cli;

use super::read;
use crate::support::files;

const PAGE: &str = "docs/operations.md";

/// The lines of its blocks in that language.
fn blocks<'a>(page: &'a str, language: &str) -> Vec<&'a str> {
    let opens = format!("```{language}\n");
    let blocks = page.split(&opens).skip(1).map(|rest| rest.split("```").next().unwrap());
    blocks.flat_map(str::lines).map(str::trim).filter(|line| !line.is_empty()).collect()
}

/// Whether a file calls that macro of `tracing` with all of these words.
fn logs(source: &str, level: &str, words: &[String]) -> bool {
    let opens = format!("tracing::{}!(", level.to_lowercase());
    let calls = source.split(&opens).skip(1).map(|rest| rest.split(");").next().unwrap());
    calls.into_iter().any(|call| words.iter().all(|word| call.contains(word)))
}

#[test]
fn each_log_line_is_one_that_is_logged() {
    let sources = files::source_files(&["rs"]);
    let (page, all): (_, Vec<String>) =
        (read(PAGE), sources.iter().map(|path| std::fs::read_to_string(path).unwrap()).collect());
    let lines = blocks(&page, "log");
    assert!(lines.len() > 15, "{}", lines.len());
    for line in lines {
        if let Some(said) = line.strip_prefix("twitter-updater: ") {
            // The endpoint is a value of the line, as what is in brackets is.
            let said = said.split('(').next().unwrap().replace("statuses/lookup", "{endpoint}");
            assert!(all.iter().any(|source| source.contains(&said)), "nobody says {said:?}");
            continue;
        }
        let (level, rest) = line.split_once(' ').unwrap();
        let (before, fields) = rest.split_once('=').unwrap();
        let (message, first) = before.rsplit_once(' ').unwrap();
        // What follows a space and stands before an equals sign; a value in quotes may hold anything.
        let outside: String = fields.split('"').step_by(2).collect();
        let others = outside.split(' ').filter_map(|word| word.split_once('=').map(|(name, _)| name));
        let words: Vec<String> = others.chain([first]).map(str::to_owned).chain([format!("\"{message}\"")]).collect();
        assert!(all.iter().any(|source| logs(source, level, &words)), "nobody logs {line:?}");
    }
}

#[test]
fn each_metric_and_each_alert_is_there() {
    let (page, metrics) = (read(PAGE), read("docs/metrics.md"));
    let alerts = read("k8s/components/monitoring/alerts.yaml");
    let (mut told, mut ring) = (0, 0);
    for word in page.split('`').skip(1).step_by(2) {
        if let Some(metric) = word.strip_prefix("twitter_updater_") {
            assert!(metrics.contains(&format!("| `{metric}` |")), "there is no metric {word}");
            told += 1;
        } else if word.starts_with("TwitterUpdater") {
            assert!(alerts.contains(&format!("alert: {word}\n")), "there is no alert {word}");
            ring += 1;
        }
    }
    assert!(told > 10 && ring > 10, "{told} metrics, {ring} alerts");
    for alert in alerts.split("alert: ").skip(1).map(|rest| rest.lines().next().unwrap()) {
        assert!(page.contains(&format!("`{alert}`")), "nothing is said of {alert}");
    }
}

#[test]
fn each_command_can_be_given() {
    let page = read(PAGE);
    let commands: Vec<&str> = blocks(&page, "sh").into_iter().filter(|line| !line.contains("redis-cli")).collect();
    assert!(commands.len() > 8, "{}", commands.len());
    let inline = page.split('`').skip(1).step_by(2).filter(|word| word.starts_with("twitter-updater "));
    for command in commands.into_iter().chain(inline) {
        for part in command.split(" #").next().unwrap().split(" | ") {
            let parsed = Cli::command().try_get_matches_from(part.split_whitespace());
            assert!(parsed.is_ok(), "{command}: {}", parsed.err().unwrap());
        }
    }
}

/// The page's own list of contents leaves none out.
#[test]
fn each_symptom_is_listed() {
    let page = read(PAGE);
    let (contents, rest) = page.split_once("## By symptom").unwrap();
    let symptoms = rest.split_once("\n## ").unwrap().0;
    for symptom in symptoms.lines().filter_map(|line| line.strip_prefix("### ")) {
        let kept = symptom.chars().filter(|c| c.is_alphanumeric() || *c == ' ').collect::<String>();
        let anchor = kept.to_lowercase().replace(' ', "-");
        assert!(contents.contains(&format!("(#{anchor})")), "{symptom} is not listed");
    }
}
