//! A file of millions of lines streams through in flat memory.

use std::io::Write;

use twitter_updater::base::clock::wall_ms;
use twitter_updater::model::post::TweetId;

use crate::support::process::{command, text, variables};
use crate::support::redis::TestRedis;

const LINES: u32 = 3_000_000;

#[test]
fn a_file_of_millions_of_lines_streams_in_flat_memory() {
    let redis = TestRedis::start(&["--appendonly", "no"]);
    let mut file = std::io::BufWriter::new(tempfile::NamedTempFile::new().unwrap());
    let now = wall_ms();
    for n in 0..LINES {
        writeln!(file, "{}", TweetId::at(now - i64::from(n), n)).unwrap();
    }
    let file = file.into_inner().unwrap();
    let settings = variables(&[("queue.backend", "redis"), ("queue.redis.url", &redis.url)]);
    let mut child =
        command(&["enqueue", "--first", "interval", "--no-store", "--json", file.path().to_str().unwrap()], &settings)
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
    // The kernel keeps the peak; it is read until there is nothing to read any more.
    let status = format!("/proc/{}/status", child.id());
    let mut peak_kb = 0;
    while child.try_wait().unwrap().is_none() {
        let peak = std::fs::read_to_string(&status).unwrap_or_default();
        let line = peak.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        peak_kb = line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok()).unwrap_or(peak_kb);
        std::thread::sleep(std::time::Duration::from_millis(20)); // between two looks
    }
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    let summary: serde_json::Value = serde_json::from_str(text(&output.stdout).trim()).unwrap();
    assert_eq!(summary["scheduled"], LINES);
    println!("{LINES} lines at {} ids/s, peak memory {} MB", summary["ids_per_second"], peak_kb / 1024);
    assert!((1..100 * 1024).contains(&peak_kb), "{peak_kb} kB");
}
