//! What needs no connection.

use std::time::Duration;

use twitter_updater::ingest::LONGEST_LINE;
use twitter_updater::pipelines::streams::backoff::Backoff;
use twitter_updater::pipelines::streams::lines::{CutLine, LineSplitter};
use twitter_updater::providers::lookup::LookupError;
use twitter_updater::providers::stream::{Message, StreamError};
use twitter_updater::providers::x_v2::stream as x_v2;

fn network() -> StreamError {
    StreamError::Network("x".into())
}

fn http() -> StreamError {
    StreamError::Http("x".into())
}

fn rate(at_least: u64) -> StreamError {
    StreamError::RateLimited { why: "x".into(), at_least: Duration::from_secs(at_least) }
}

/// In ms.
fn delays(backoff: &mut Backoff, times: usize, broken: &StreamError) -> Vec<u128> {
    (0..times).map(|_| backoff.after(broken).as_millis()).collect()
}

/// "Handling disconnections": 250 ms more up to 16 s; 5 s doubled up to 320 s; a minute doubled.
#[test]
fn the_delays_are_those_that_are_documented() {
    let mut backoff = Backoff::default();
    let linear: Vec<u128> = (1..=64).map(|n| n * 250).chain([16_000; 6]).collect();
    assert_eq!(delays(&mut backoff, 70, &network()), linear);
    let doubled = [5_000, 10_000, 20_000, 40_000, 80_000, 160_000, 320_000, 320_000, 320_000];
    assert_eq!(delays(&mut backoff, 9, &http()), doubled);
    let minutes = [60_000, 120_000, 240_000, 480_000, 960_000, 960_000];
    assert_eq!(delays(&mut backoff, 6, &rate(0)), minutes);
    assert_eq!(delays(&mut backoff, 40, &http()).last(), Some(&320_000), "no doubling overflows");
    backoff.reset();
    assert_eq!(delays(&mut backoff, 2, &network()), [250, 500]);
    assert_eq!(delays(&mut backoff, 2, &http()), [5_000, 10_000]);
    let overloaded = |s| StreamError::Overloaded { why: "x".into(), at_least: Duration::from_secs(s) };
    assert_eq!(delays(&mut backoff, 1, &overloaded(600)), [600_000]);
    assert_eq!(delays(&mut backoff, 1, &overloaded(1)), [40_000]);
    // What the answer says is heeded where it is longer, and makes no step shorter.
    assert_eq!(delays(&mut backoff, 1, &rate(900)), [900_000]);
    assert_eq!(delays(&mut backoff, 1, &rate(1)), [120_000]);
    assert_eq!(delays(&mut backoff, 3, &StreamError::Refused("x".into())), [320_000; 3]);
}

#[test]
fn what_a_refusal_means_for_a_stream() {
    let pause = Duration::from_secs(7);
    let refused = |error| StreamError::from_refusal(error);
    assert!(matches!(refused(LookupError::Outage("x".into())), StreamError::Http(_)));
    assert!(matches!(refused(LookupError::Clock(5)), StreamError::Http(_)));
    let overloaded = LookupError::Overloaded { why: "x".into(), pause };
    assert!(matches!(refused(overloaded), StreamError::Overloaded { at_least, .. } if at_least == pause));
    let throttled = LookupError::Throttled { status: 429, pause, quota: None };
    assert!(matches!(refused(throttled), StreamError::RateLimited { at_least, .. } if at_least == pause));
    for error in [
        LookupError::Credential("x".into()),
        LookupError::Unready("x".into()),
        LookupError::Stop("x".into()),
        LookupError::BadRequest("x".into()),
    ] {
        assert!(matches!(refused(error), StreamError::Refused(_)));
    }
    assert!(matches!(StreamError::from_failed_call(LookupError::Outage("x".into())), StreamError::Network(_)));
    assert!(matches!(StreamError::from_failed_call(LookupError::Unready("x".into())), StreamError::Http(_)));
    assert!(matches!(StreamError::from_failed_call(LookupError::Credential("x".into())), StreamError::Refused(_)));
}

#[test]
fn lines_are_the_same_however_the_bytes_come() {
    let long = "x".repeat(LONGEST_LINE + 1);
    let bytes = [b"{\"a\":1}\r\n\r\n\n{\"b\":\"\xff\"}\n  \r\n", long.as_bytes(), b"\r\n{\"c\":2}\r\n{\"half"].concat();
    let line = |text: &str| CutLine::Line(text.to_owned());
    let whole = [line("{\"a\":1}"), line("{\"b\":\"\u{fffd}\"}"), CutLine::TooLong, line("{\"c\":2}")];
    for size in [1, 2, 7, 1_000, bytes.len()] {
        let mut lines = LineSplitter::default();
        let cut: Vec<CutLine> = bytes.chunks(size).flat_map(|chunk| lines.push(chunk)).collect();
        assert!(cut == whole, "in pieces of {size}");
        assert_eq!(lines.push(b"\":3}\r\n"), [line("{\"half\":3}")], "what was not whole was kept");
    }
}

/// A message in a few words.
fn said(message: Message) -> String {
    match message {
        Message::Post { post, broken: None } => format!("post {} {:?}", post.id, post.created_at),
        Message::Post { post, broken: Some(why) } => format!("id {} {}: {why}", post.id, post.content.is_none()),
        Message::Notice(notice) => format!("notice {notice}"),
        Message::Ended(StreamError::Network(why)) => format!("network {why}"),
        Message::Ended(StreamError::Refused(why)) => format!("refused {why}"),
        Message::Ended(StreamError::RateLimited { why, .. }) => format!("rate {why}"),
        Message::Ended(StreamError::Http(why) | StreamError::Overloaded { why, .. }) => format!("http {why}"),
        Message::Unreadable(why) => format!("unreadable {why}"),
    }
}

#[test]
fn each_message_is_read() {
    let data = r#""data":{"id":"2000000000000000001","text":"canary","created_at":"2026-11-20T20:00:00.000Z"}"#;
    let post = format!(r#"{{{data},"matching_rules":[{{"id":"1","tag":"canary"}}]}}"#);
    let beside = format!(r#"{{{data},"errors":[{{"title":"canary","parameter":"referenced_tweets.id"}}]}}"#);
    for (line, says) in [
        (&*post, "post 2000000000000000001 Some(1795204800000)"),
        (&*beside, "post 2000000000000000001"),
        (r#"{"data":{"id":"5","created_at":12,"text":"canary"}}"#, "id 5 true: created_at"),
        (r#"{"data":{"text":"canary"}}"#, "unreadable"),
        (
            r#"{"errors":[{"title":"operational-disconnect","disconnect_type":"UpstreamOperationalDisconnect","detail":"canary","type":"https://api.twitter.com/2/problems/operational-disconnect"}]}"#,
            "network the API ended the connection (operational-disconnect)",
        ),
        (
            r#"{"errors":[{"title":"operational-disconnect","detail":"canary","type":"https://api.x.com/2/problems/operational-disconnect"}]}"#,
            "network the API ended",
        ),
        (
            r#"{"errors":[{"title":"ConnectionException","connection_issue":"TooManyConnections","detail":"canary"}]}"#,
            "rate too many connections",
        ),
        (r#"{"errors":[{"title":"canary"}]}"#, "notice an error without a post"),
        (r#"{"meta":{}}"#, "unreadable it has neither"),
        (r#"{"data":{"id":"5"#, "unreadable it is not a JSON object, at column"),
        ("7", "unreadable it is not a JSON object"),
    ] {
        let told = said(x_v2::read(line));
        assert!(told.starts_with(says) && !told.contains("canary"), "{line}: {told}");
    }
}
