//! JSON as people have it: over many lines, in lists, in answers of X API v2.

use std::path::Path;

use serde_json::{Value, json};
use tokio::io::BufReader;
use twitter_updater::ingest::{LONGEST_LINE, PostReader};
use twitter_updater::model::provider::Provider;
use twitter_updater::providers::registry::parse;

use super::*;
use crate::providers::recorded::cassette;
use crate::recordings::{files, json as json_of};
use crate::support::http::recordings;

type Read = Vec<(u64, Result<String, String>)>;

/// The lines and ids, or reasons, of what stands in `bytes`.
async fn read_in_chunks(bytes: &[u8], of: &Provider, chunk: usize) -> Read {
    let mut tweets = PostReader::new(BufReader::with_capacity(chunk, bytes), parse(of));
    let mut read = Vec::new();
    while let Some(item) = tweets.next().await.unwrap() {
        read.push((item.line, item.tweet.map(|tweet| tweet.id).map_err(|why| why.to_string())));
    }
    assert_eq!(tweets.bytes(), bytes.len() as u64);
    read
}

/// The same, whatever the size of the chunks.
async fn read(text: &str, of: &Provider) -> Read {
    let all = read_in_chunks(text.as_bytes(), of, 1 << 16).await;
    for chunk in 1..=text.len().min(40) {
        assert_eq!(read_in_chunks(text.as_bytes(), of, chunk).await, all, "{text} in chunks of {chunk}");
    }
    all
}

fn ok(line: u64, id: &str) -> (u64, Result<String, String>) {
    (line, Ok(id.to_owned()))
}

fn no(line: u64, why: &str) -> (u64, Result<String, String>) {
    (line, Err(why.to_owned()))
}

const CUT_OFF: &str = "not JSON: the object or list that begins here is cut off; export it again";

#[tokio::test]
async fn the_posts_of_an_answer_stand_in_its_data() {
    let stream = r#"{"data":{"id":"20","text":"hi"},"matching_rules":[{"id":"7","tag":"x"}]}"#;
    let page = json!({
        "__twarc": { "url": "x" },
        "data": [{ "id": "20", "text": "[\"{" }, { "id": "21", "text": "b" }, { "id": "22", "text": "c" }],
        "includes": { "users": [{ "id": "12" }], "tweets": [{ "id": "19", "text": "d" }] },
        "meta": { "result_count": 3 },
    });
    for of in [Provider::Twitter, Provider::X] {
        let lines = format!("23\n{stream}\n{page}\n{{\"id\":\"24\",\"text\":\"e\"}}\n");
        let ids = [ok(1, "23"), ok(2, "20"), ok(3, "20"), ok(3, "21"), ok(3, "22"), ok(4, "24")];
        assert_eq!(read(&lines, &of).await, ids);
        let posts = format!("{page:#}\n{stream}\n");
        let ids = read(&posts, &of).await;
        assert_eq!(ids.iter().map(|(_, id)| id.as_deref().unwrap()).collect::<Vec<_>>(), ["20", "21", "22", "20"]);
    }
    let odd = r#"{"data":[{"id":"20","text":7},{"text":"no id"},{"id":"21","text":""}]}"#;
    let why = ["post 1 of its data: the text is not a string", "post 2 of its data: no id"];
    assert_eq!(read(odd, &Provider::X).await, [no(1, why[0]), no(1, why[1]), ok(1, "21")]);
    assert_eq!(read(r#"{"data":{"text":"no id"}}"#, &Provider::X).await, [no(1, "its data: no id")]);
    for empty in [r#"{"data":[],"meta":{"result_count":0}}"#, r#"{"meta":{"result_count":0}}"#, "[]", "[\n]\n"] {
        assert_eq!(read(empty, &Provider::X).await, []);
    }
    for none in [r#"{"data":7}"#, r#"{"errors":[{"title":"Not Found Error"}]}"#, r#"{"meta":{"sent":"x"}}"#] {
        assert_eq!(read(none, &Provider::X).await, [no(1, "no id")], "{none}");
    }
    let own = r#"{"id":"20","text":"hi","data":[{"id":"21","text":"other"}]}"#;
    assert_eq!(read(own, &Provider::X).await, [ok(1, "20")]);
}

#[tokio::test]
async fn objects_and_lists_go_over_many_lines_for_every_provider() {
    let uri = |key: &str| format!("at://did:plc:z72i7hdynmk6r22z27h6tvur/app.bsky.feed.post/{key}");
    let mastodon = Provider::Mastodon("social".to_owned());
    let posts = |of: &Provider| match of {
        Provider::Twitter => ["20", "21"].map(|id| json!({ "id_str": id, "text": "}\n", "user": { "id": 1 } })),
        Provider::X => ["20", "21"].map(|id| json!({ "id": id, "text": "a\"]", "entities": { "urls": [{}, []] } })),
        Provider::Mastodon(_) => ["20", "21"].map(|id| json!({ "id": id, "content": "{", "account": { "id": "1" } })),
        Provider::Bluesky => ["k", "l"].map(|key| json!({ "uri": uri(key), "record": { "text": "\\" } })),
    };
    for of in [Provider::Twitter, Provider::X, mastodon, Provider::Bluesky] {
        let [one, two] = posts(&of);
        let (a, b) = (parse(&of)(&one.to_string()).unwrap().id, parse(&of)(&two.to_string()).unwrap().id);
        let height = format!("{one:#}").lines().count() as u64;
        let indented = |text: String| text.lines().map(|line| format!("\t{line}\n")).collect::<String>();
        let flat = |text: String| text.lines().map(|line| line.trim_start().to_owned() + "\r\n").collect::<String>();
        let list = json!([one, two]);
        for (text, lines) in [
            (format!("{one:#}\n{two:#}"), [1, height + 1]),
            (format!("\u{feff}{one:#}\r\n\r\n{two:#}\n"), [1, height + 2]),
            (format!("{one:#}{two:#}\n"), [1, height]),
            (indented(format!("{one:#}\n{two}")), [1, height + 1]),
            (flat(format!("{one:#}\n{two:#}")), [1, height + 1]),
            (format!("{list}\n"), [1, 1]),
            (format!("[{one},\n{two}]\n"), [1, 2]),
            (format!("\n[\n{one}\n,\n{two}\n]\n"), [3, 5]),
            (format!("{list:#}"), [2, height + 2]),
            (flat(format!("{list:#}")), [2, height + 2]),
        ] {
            assert_eq!(read(&text, &of).await, [ok(lines[0], &a), ok(lines[1], &b)], "{of}: {text}");
        }
    }
    assert_eq!(read("[20, \"21\",\n22]\n", &Provider::X).await, [ok(1, "20"), ok(1, "21"), ok(2, "22")]);
}

#[tokio::test]
async fn what_is_cut_off_costs_itself_alone() {
    for (text, expected) in [
        // A line that was cut off between others.
        ("{\"id\":\"1\",\"te\n20\n", vec![no(1, CUT_OFF), ok(2, "20")]),
        ("{\"id\":\"1\",\n20\n", vec![no(1, CUT_OFF), ok(2, "20")]),
        ("{\"id\":\"1\",\"a\":\n{\"id\":\"20\"}\n21", vec![no(1, CUT_OFF), ok(2, "20"), ok(3, "21")]),
        ("{\"id\":\"1\",\"a\":{\"b\":1},\n{\"id\":\"20\"}\n", vec![no(1, CUT_OFF), ok(2, "20")]),
        // An object over many lines.
        ("{\n  \"id\": \"1\",\n{\n  \"id\": \"20\"\n}\n", vec![no(1, CUT_OFF), ok(3, "20")]),
        ("{\n  \"id\": \"20\"\n}\n{\n  \"id\": \"1\",\n", vec![ok(1, "20"), no(4, CUT_OFF)]),
        ("20\n{\n  \"id\": \"1\",\n  \"text\": \"half", vec![ok(1, "20"), no(2, CUT_OFF)]),
        // Lists.
        (
            "[\n{\"id\":\"20\"},\n{\"id\":\"1\",\n{\"id\":\"21\"}\n]\n22",
            vec![ok(2, "20"), no(3, CUT_OFF), ok(4, "21"), ok(6, "22")],
        ),
        ("[{\"id\":\"20\"},\n{\"id\":\"21\"}", vec![ok(1, "20"), ok(2, "21"), no(1, CUT_OFF)]),
        ("[\n{\"id\":\"20\"}\n21\n22\n", vec![ok(2, "20"), no(1, CUT_OFF), ok(3, "21"), ok(4, "22")]),
        ("{\"data\":[{\"id\":\"20\"},{\"id\":\"2", vec![ok(1, "20"), no(1, CUT_OFF)]),
        ("{\"data\":[\n{\"id\":\"20\"}],\n\"meta\":{\n", vec![ok(2, "20"), no(1, CUT_OFF)]),
    ] {
        assert_eq!(read(text, &Provider::X).await, expected, "{text}");
    }
    let bad = "{\n  \"id\": 20,\n  \"text\": }\n21\n";
    assert_eq!(read(bad, &Provider::Twitter).await, [no(1, "not JSON, at column 11 of its line 3"), ok(4, "21")]);
}

#[tokio::test]
async fn a_post_may_be_too_long_and_a_page_may_not() {
    let padding = "x".repeat(LONGEST_LINE);
    let post = |id: u64, text: &str| json!({ "id": id.to_string(), "text": text });
    let posts: Vec<Value> = (20..5_020).map(|id| post(id, &"y".repeat(1_000))).collect();
    let page = json!({ "data": posts, "includes": { "users": [{ "id": "7", "name": padding }] } });
    assert!(page.to_string().len() > 5 * LONGEST_LINE);
    for text in [format!("{page}\n{{\"id\":\"1\"}}\n"), format!("{page:#}\n1\n"), format!("{}\n1", page["data"])] {
        let read = read_in_chunks(text.as_bytes(), &Provider::X, 256 * 1024).await;
        let ids: Vec<String> = read.into_iter().map(|(_, id)| id.unwrap()).collect();
        assert_eq!(ids, (20..5_020).chain([1]).map(|id: u64| id.to_string()).collect::<Vec<_>>());
    }
    let (long, short) = (post(1, &padding), post(2, ""));
    for text in [
        format!("{long}\n{short}\n"),
        format!("{long:#}\n{short:#}\n"),
        json!([long, short]).to_string(),
        json!({ "data": [long, short] }).to_string(),
    ] {
        let read = read_in_chunks(text.as_bytes(), &Provider::X, 256 * 1024).await;
        assert_eq!(read.len(), 2, "{read:?}");
        assert!(read[0].1.as_ref().unwrap_err().contains("longer than 1 MiB"), "{read:?}");
        assert_eq!(read[1].1.as_deref(), Ok("2"));
    }
}

#[tokio::test]
async fn a_page_is_scheduled_and_what_it_refers_to_is_not() {
    let world = World::new().await;
    let page = json!({
        "data": [{ "id": id(1), "text": "a" }, { "id": id(2), "text": "b" }, { "text": "none" }],
        "includes": { "tweets": [{ "id": id(3), "text": "c" }] },
    });
    let summary = world.enqueue(format!("{page}\n{page:#}\n").as_bytes()).await;
    assert_eq!((summary.lines, summary.scheduled, summary.known, summary.refused), (6, 2, 2, 2), "{summary}");
    assert_eq!(summary.refusals[0].line, 1);
    assert!(summary.refusals[0].reason.contains("post 3 of its data"), "{summary}");
    assert_eq!(world.queue.stats().await.unwrap().delayed, 2);
}

/// How many posts of a recording were read, on one line and over many.
async fn reads(file: &Path, of: &Provider, body: &Value, posts: &Value) -> usize {
    let plain = |post: &Value| {
        let text = ["id_str", "uri", "id"].iter().find_map(|field| post[field].as_str().map(str::to_owned));
        text.unwrap_or_else(|| post["id"].to_string())
    };
    let expected: Vec<String> = posts.as_array().unwrap().iter().map(plain).collect();
    for text in [body.to_string(), format!("{body:#}")] {
        let read = read_in_chunks(text.as_bytes(), of, 256 * 1024).await;
        let ids: Vec<String> = read.into_iter().map(|(_, id)| id.unwrap()).collect();
        assert_eq!(ids, expected, "{}", file.display());
    }
    expected.len()
}

#[tokio::test]
async fn recorded_answers_are_read() {
    let Some(dir) = recordings() else { return };
    let (mut answers, mut posts) = (0, 0);
    for file in files(&dir) {
        let name = file.file_name().unwrap().to_string_lossy().into_owned();
        let found = match name.as_str() {
            "bluesky-posts.json" => Some((Provider::Bluesky, json_of(&file).unwrap())),
            "get_statuses.1.json" | "favorites.json" => Some((Provider::Twitter, json_of(&file).unwrap())),
            _ => None,
        };
        if let Some((of, mut list)) = found {
            // Among Bluesky's are views of a feed, which hold a post and are none.
            list.as_array_mut().unwrap().retain(|post| of != Provider::Bluesky || post["record"].is_object());
            posts += reads(&file, &of, &list, &list).await;
            answers += 1;
        }
        for exchange in cassette(&file) {
            let path = exchange.address.split('?').next().unwrap_or_default();
            let is_of_posts = path.ends_with("/2/tweets") || path.ends_with("/mentions") || path.ends_with("/tweets");
            if exchange.status == 200 && is_of_posts && exchange.body["data"].is_array() {
                posts += reads(&file, &Provider::X, &exchange.body, &exchange.body["data"]).await;
                answers += 1;
            }
        }
    }
    println!("{posts} posts of {answers} recorded answers");
    assert!(answers > 10 && posts > 500, "{posts} posts of {answers} answers");
}
