//! The README's first five minutes, as they are pasted.

use super::*;
use crate::support::port::Port;
use crate::support::process::command_of;

const README: &str = include_str!("../../../README.md");

#[test]
fn its_five_minutes_work() {
    let home = Home::new();
    let bin = home.path("bin");
    std::fs::create_dir(&bin).unwrap();
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_twitter-updater"), bin.join("twitter-updater")).unwrap();
    let part = README.split_once("## Five minutes").unwrap().1.split_once("\n## ").unwrap().0;
    let blocks: Vec<&str> = part.split("```sh\n").skip(1).map(|block| block.split_once("```").unwrap().0).collect();
    assert_eq!(blocks.len(), 3);
    let port = Port::take();
    let script = format!(
        "set -eu\ntrap 'kill $(jobs -p)' EXIT\n{}\n{}\ntwitter-updater enqueue --once ids.txt\n",
        blocks.concat(),
        "wc -l posts.csv metrics.csv posts.ndjson"
    )
    .replace("8090", &port.address().port().to_string());
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    let mut bash = command_of(std::path::Path::new("bash"), &vec![]);
    let output = bash.args(["-c", &script]).current_dir(home.folder.path()).env("PATH", path).output().unwrap();
    assert!(output.status.success(), "{}\n{}", text(&output.stdout), text(&output.stderr));
    let lines = |name: &str| std::fs::read_to_string(home.path(name)).unwrap().lines().count();
    // Some of the simulated posts are missing; the others have been looked up.
    assert!(lines("posts.ndjson") > 80, "{}\n{}", text(&output.stdout), text(&output.stderr));
    assert!(lines("metrics.csv") >= lines("posts.ndjson"));
    assert!(lines("posts.csv") > 100, "each, and the header");
}
