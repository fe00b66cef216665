//! `pause` and `resume`.

use super::*;

#[test]
fn nothing_is_asked_until_somebody_says_so() {
    let home = Home::new();
    says_one_line(&home.run(&["pause", "why"]), 69, "home.db");
    assert!(home.run(&["enqueue", &home.file("ids.txt", young(1).join("\n"))]).status.success());
    assert_eq!(home.run(&["pause"]).status.code(), Some(64), "others will ask why");
    let output = home.run(&["pause", "the database\nmoves"]);
    assert_eq!(text(&output.stdout), "tweet:update is paused: the database moves\n");
    assert_eq!(home.status()["paused"], "the database moves");
    let output = home.run(&["resume", "--pipeline", "tweet:update"]);
    assert_eq!(text(&output.stdout), "tweet:update goes on\n");
    assert_eq!(home.status()["paused"], Value::Null);
    assert_eq!(home.run(&["resume", "--pipeline", "x:update"]).status.code(), Some(64));
    assert_eq!(home.run(&["pause", " "]).status.code(), Some(64), "that is no reason");
    // Polled timelines ask the API, too.
    let polled = home.settings(&[("poll.sources.cats.kind", "search"), ("poll.sources.cats.query", "cats")]);
    let output = run(&["pause", "why"], &polled);
    let said = text(&output.stdout);
    assert!(said.lines().count() == 2 && said.lines().all(|line| line.ends_with(" is paused: why")), "{said}");
    assert_eq!(text(&run(&["resume"], &polled).stdout).matches(" goes on").count(), 2);
}
