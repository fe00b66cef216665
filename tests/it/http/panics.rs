//! A request that panics: its client sees an error, and the process goes on.

use std::os::unix::process::ExitStatusExt;

use super::*;
use crate::support::process::command;

const PANICS: &str = "twitter_updater_http_panics_total";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_handler_that_panics_answers_500_and_ends_nothing_else() {
    let home = Home::new().await;
    for (name, path) in [("ops", "/dead"), ("starter", "/openapi.json"), ("updater", "/ready")] {
        let mut settings = home.settings(&[]);
        settings.push(("TWITTER_UPDATER_PANIC_AT_PATH".to_owned(), path.to_owned()));
        let mut role = Role::start(name, &settings, &home.path(&format!("{name}.log"))).await;
        role.until("/live", 200).await;
        assert_eq!(value(&role.get("/metrics").await.1, PANICS), Some(0.0));
        for times in 1..=3 {
            let response = role.client.get(format!("{}{path}?secret", role.url)).send().await.unwrap();
            assert_eq!(
                (response.status().as_u16(), &response.headers()["cache-control"]),
                (500, &"no-store".parse().unwrap())
            );
            assert_eq!(response.text().await.unwrap(), "the request failed: the log has the reason\n");
            assert_eq!(value(&role.get("/metrics").await.1, PANICS), Some(f64::from(times)), "{name}");
        }
        assert!(role.process.runs() && role.get("/live").await.0 == 200);
        let log = home.log(&format!("{name}.log"));
        assert_eq!(log.matches("a request panicked: the process goes on").count(), 3, "{log}");
        assert!(log.contains(&format!("path=\"{path}\"")) && log.contains("asked to panic at a path"), "{log}");
        assert!(!log.contains("secret"), "{log}");
        assert_eq!(role.stopped().await, Some(0));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_that_panics_breaks_off_and_ends_nothing_else() {
    let home = Home::new().await;
    for (name, path) in [("ops", "/events"), ("ops", "/"), ("starter", "/openapi.json")] {
        let mut settings = home.settings(&[]);
        settings.push(("TWITTER_UPDATER_PANIC_IN_BODY_OF".to_owned(), path.to_owned()));
        let log = home.path(&format!("{name}{}.log", path.replace('/', "-")));
        let mut role = Role::start_ready(name, &settings, &log).await;
        let answer = async {
            let response = role.client.get(format!("{}{path}", role.url)).send().await?;
            response.text().await
        };
        assert!(answer.await.is_err(), "{name} {path}");
        assert!(role.process.runs() && role.get("/live").await.0 == 200, "{name} {path}");
        // The connection breaks off before the panic is counted.
        until_true(&format!("it is counted: {name} {path}"), Duration::from_secs(10), async || {
            value(&role.get("/metrics").await.1, PANICS) == Some(1.0)
        })
        .await;
        assert_eq!(role.stopped().await, Some(0));
    }
}

/// The limit of core dumps in bytes, soft and hard.
fn core_limits(pid: u32) -> Vec<String> {
    let limits = std::fs::read_to_string(format!("/proc/{pid}/limits")).unwrap();
    let line = limits.lines().find_map(|line| line.strip_prefix("Max core file size")).unwrap().to_owned();
    line.split_whitespace().take(2).map(str::to_owned).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_role_leaves_its_memory_in_a_core_dump() {
    let home = Home::new().await;
    let source = [("poll.sources.one.kind", "user"), ("poll.sources.one.screen_name", "one")];
    for name in ["updater", "starter", "ops", "poll"] {
        let settings = home.settings(&source);
        let role = command(&[name, "--listen", "127.0.0.1:0"], &settings);
        // With the greatest limit that the system allows.
        let mut shell = std::process::Command::new("sh");
        shell
            .args(["-c", "ulimit -c $(ulimit -H -c) && exec \"$@\"", "sh"])
            .arg(role.get_program())
            .args(role.get_args());
        shell.envs(settings.iter().map(|(name, value)| (name, value))).current_dir(home.folder.path());
        shell.stdin(std::process::Stdio::null());
        let log = home.path(&format!("{name}.log"));
        let mut role = Role::of(Process::start_by(shell, &log), &log).await;
        for limit in core_limits(role.process.id()) {
            assert!(limit == "0" || limit == "1", "{name}: {limit}");
        }
        role.process.signal("ABRT");
        let ended = role.process.ended(Duration::from_secs(30)).await;
        assert!(ended.signal() == Some(6) && !ended.core_dumped(), "{name}: {ended}");
    }
}
