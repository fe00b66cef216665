//! `demo`: its summary, and its end. What it promises about the tweets, the load tests see.

use super::*;
use crate::support::process::Process;
use crate::support::role::client;
use crate::support::wait::until_true;

const KEYS: [&str; 9] =
    ["scheduled", "updates", "requests", "ids_per_request", "unavailable", "ended", "lost", "doubled", "late_p99_ms"];

#[test]
fn its_last_line_is_a_summary() {
    let short = variables(&[("tweet_age", "20s: 300ms, 30m: 1s")]);
    let output = run(&["demo", "--for", "2s", "--tweets", "200", "--ops", "off", "--json"], &short);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let printed = text(&output.stdout);
    let summary: Value = serde_json::from_str(printed.lines().last().unwrap()).unwrap();
    for key in KEYS {
        assert!(summary[key].is_number(), "{key}: {summary}");
    }
    assert_eq!((&summary["scheduled"], &summary["lost"]), (&200.into(), &0.into()));
    assert!(summary["requests"].as_i64() >= Some(1) && summary["updates"].as_i64() >= Some(1), "{summary}");

    let output = run(&["demo", "--for", "1s", "--tweets", "20", "--ops", "off"], &vec![]);
    let printed = text(&output.stdout);
    let row = |word: &str| printed.lines().find_map(|line| line.strip_prefix(word)?.split_whitespace().next());
    assert_eq!((row("scheduled"), row("lost")), (Some("20"), Some("0")), "{printed}");
}

#[test]
fn it_shows_any_provider() {
    let short = variables(&[("tweet_age", "20s: 300ms, 30m: 1s")]);
    for provider in ["x", "mastodon", "bluesky"] {
        let arguments = ["--provider", provider, "demo", "--for", "2s", "--tweets", "100", "--ops", "off", "--json"];
        let output = run(&arguments, &short);
        assert_eq!(output.status.code(), Some(0), "{provider}: {}", text(&output.stderr));
        let summary: Value = serde_json::from_str(&text(&output.stdout)).unwrap();
        assert_eq!((&summary["scheduled"], &summary["lost"]), (&100.into(), &0.into()), "{provider}");
        assert!(summary["updates"].as_i64() >= Some(50), "{provider}: {summary}");
    }
}

#[tokio::test]
async fn it_ends_at_ctrl_c_and_keeps_its_file() {
    let home = Home::new();
    let dir = home.path("kept");
    let (dir, log) = (dir.to_str().unwrap(), home.path("log"));
    let arguments = ["demo", "--tweets", "100", "--ops", "off", "--dir", dir];
    let mut demo = Process::start(&arguments, &home.settings(&[]), &log);
    let file = home.path("kept").join("demo.db");
    let kept = variables(&[("queue.embedded.path", file.to_str().unwrap()), ("twitter.api", "http://127.0.0.1:9")]);
    until_true("all are scheduled", Duration::from_secs(20), async || {
        file.exists() && status(&kept)["counters"]["scheduled"] == 100
    })
    .await;
    demo.signal("QUIT");
    until_true("it says what each task is doing, and goes on", Duration::from_secs(20), async || {
        let said = log_text(&log);
        said.split_once("SIGQUIT: ").is_some_and(|(_, tasks)| tasks.contains("tweet:update"))
    })
    .await;
    demo.signal("INT");
    assert_eq!(demo.ended(Duration::from_secs(10)).await.code(), Some(0), "{}", log_text(&log));
    assert_eq!(status(&kept)["leased"], 0);
}

#[tokio::test]
async fn its_first_line_is_the_pages_address() {
    let home = Home::new();
    let log = home.path("log");
    let arguments = ["demo", "--tweets", "100", "--ops", "127.0.0.1:0"];
    let (mut demo, said) = Process::start_announced(&arguments, &vec![], &log);
    let url = said.strip_prefix("the page is at ").unwrap_or_else(|| panic!("{said:?}: {}", log_text(&log))).trim_end();
    // It is that of this demo, and shows its queue.
    let status = async || {
        let answer = client().get(format!("{url}status")).send().await.unwrap().text().await.unwrap();
        serde_json::from_str::<Value>(&answer).unwrap_or_else(|_| panic!("{answer}"))
    };
    until_true("all are scheduled", Duration::from_secs(20), async || status().await["counters"]["scheduled"] == 100)
        .await;
    demo.signal("TERM");
    assert_eq!(demo.ended(Duration::from_secs(10)).await.code(), Some(0), "{}", log_text(&log));
}

#[test]
fn an_address_that_is_taken_is_one_line_and_no_other_is_taken_instead() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap().to_string();
    let output = run(&["demo", "--for", "1s", "--tweets", "20", "--ops", &taken], &vec![]);
    says_one_line(&output, 1, &format!("cannot listen at {taken}"));
    assert!(output.stdout.is_empty(), "{}", text(&output.stdout));
    assert!(text(&output.stderr).contains("--ops off"), "{}", text(&output.stderr));
    let output = run(&["demo", "--ops", "8080"], &vec![]);
    assert_eq!(output.status.code(), Some(64));
    assert!(text(&output.stderr).contains("127.0.0.1:8080, or off"), "{}", text(&output.stderr));
}

#[test]
fn whoever_parses_its_json_reads_nothing_else() {
    let output = run(&["demo", "--for", "1s", "--tweets", "20", "--ops", "127.0.0.1:0", "--json"], &vec![]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let summary: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(summary["scheduled"], 20);
    let said = text(&output.stderr);
    assert!(said.starts_with("twitter-updater: the page is at http://127.0.0.1:"), "{said}");
}

#[test]
fn with_accounts_it_shows_what_changed_of_them_and_the_script_has_it() {
    let short = variables(&[("tweet_age", "20s: 300ms, 30m: 1s")]);
    for provider in ["twitter", "bluesky"] {
        let arguments = [
            &["--provider", provider, "demo", "--accounts", "--for", "12s", "--tweets", "300", "--ops", "off"],
            &["--json"][..],
        ];
        let output = run(&arguments.concat(), &short);
        assert_eq!(output.status.code(), Some(0), "{provider}: {}", text(&output.stderr));
        let summary: Value = serde_json::from_str(text(&output.stdout).lines().last().unwrap()).unwrap();
        let of =
            |name: &str| summary["accounts"][name].as_u64().unwrap_or_else(|| panic!("{provider}, {name}: {summary}"));
        assert!(of("known") >= 100 && of("lost") == 0, "{provider}: {summary}");
        let states = summary["accounts"]["states"].as_object().unwrap();
        assert_eq!(states.values().map(|accounts| accounts.as_u64().unwrap()).sum::<u64>(), of("known"), "{summary}");
        assert!(states["live"].as_u64().unwrap() * 2 > of("known"), "{summary}");
        // Most of what happens is seen: a look every three seconds, a change every fifteen.
        assert!(of("changes") >= 30 && of("changes") * 2 >= of("scripted"), "{provider}: {summary}");
        assert_eq!(of("not_in_script"), 0, "{provider}: {summary}");
        let example = &summary["accounts"]["example"];
        let history = example["history"].as_array().unwrap();
        assert!(!history.is_empty() && history.iter().all(|step| step["old"] != step["new"]), "{example}");
    }
    let output = run(&["demo", "--accounts", "--for", "8s", "--tweets", "200", "--ops", "off"], &short);
    let printed = text(&output.stdout);
    for says in ["\naccounts  ", "\nchanges found  ", "and its changes:\n", " after the change)"] {
        assert!(printed.contains(says), "{says:?}: {printed}");
    }
}
