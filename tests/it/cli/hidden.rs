//! `bluesky.leave_out_hidden`: posts whose authors ask that only people who are logged in see them.

use serde_json::json;
use twitter_updater::base::humanize::rfc3339_ms;

use super::*;
use crate::support::process::run_with_input;

/// The posts that are exported after one with the label, and one without it, were put in.
fn exported(leaves_out: bool) -> Vec<Value> {
    let home = Home::new();
    let settings = home.settings(&[
        ("providers", "bluesky"),
        ("bluesky.api", "http://127.0.0.1:9"),
        ("bluesky.leave_out_hidden", if leaves_out { "true" } else { "false" }),
    ]);
    let post = |key: &str, labels: Value| {
        let at = rfc3339_ms(wall_ms() - MINUTE);
        let post = json!({
            "uri": format!("at://did:plc:ann/app.bsky.feed.post/{key}"), "indexedAt": at, "likeCount": 7,
            "author": { "did": "did:plc:ann", "handle": "ann.example", "labels": labels },
            "record": { "text": format!("the post {key}"), "createdAt": at },
        });
        post.to_string()
    };
    let lines = [post("hidden", json!([{ "val": "!no-unauthenticated" }])), post("shown", json!([]))].join("\n");
    let output = run_with_input(&["enqueue", "-"], &settings, lines.as_bytes());
    assert!(output.status.success(), "{}", text(&output.stderr));
    let rows = text(&run(&["export", "posts", "--format", "ndjson"], &settings).stdout);
    let mut rows: Vec<Value> = rows.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    rows.sort_by_key(|row| row["id"].as_str().unwrap().to_owned());
    rows
}

#[test]
fn of_hidden_posts_the_id_alone_is_stored_where_the_setting_says_so() {
    for (leaves_out, content, labels) in
        [(false, json!("the post hidden"), json!("!no-unauthenticated")), (true, Value::Null, Value::Null)]
    {
        let [hidden, shown] = &exported(leaves_out)[..] else { panic!("two posts were put in") };
        assert!(hidden["id"].as_str().unwrap().ends_with("/hidden") && hidden["state"] == "live", "{hidden}");
        assert_eq!((&hidden["text"], &hidden["labels"]), (&content, &labels), "{hidden}");
        assert_eq!(hidden["author_name"].is_string(), !leaves_out, "{hidden}");
        assert_eq!((&shown["text"], &shown["labels"]), (&json!("the post shown"), &Value::Null), "{shown}");
    }
}
