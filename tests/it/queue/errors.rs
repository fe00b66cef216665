//! Errors that workers recorded.

use super::*;

const WEEK: Millis = 7 * 86_400_000;

fn recorded(host: &str, count: u64, last_ms: Millis) -> RecordedError {
    RecordedError {
        pipeline: "thing:update".into(),
        kind: "no answer".into(),
        host: host.into(),
        endpoint: "lookup".into(),
        count,
        first_ms: last_ms - 5,
        last_ms,
        example: Some(format!("of-{host}")),
        message: format!("HTTP 503 of \"{host}\" / é"),
    }
}

async fn hosts(queue: &dyn Queue) -> Vec<String> {
    queue.errors(ERRORS_KEPT).await.unwrap().into_iter().map(|error| error.host).collect()
}

pub(super) async fn errors_of_all_workers_add_up(world: World) {
    let now = wall_ms() - 60_000;
    assert_eq!(world.two.errors(10).await.unwrap(), []);
    world.one.record_errors(&[]).await.unwrap();
    world.one.record_errors(&[recorded("a", 2, now), recorded("b", 1, now - 10)]).await.unwrap();
    world.two.record_errors(&[recorded("b", 3, now + 10), recorded("a", 4, now - 1_000)]).await.unwrap();
    let read = world.one.errors(10).await.unwrap();
    let expected = [
        RecordedError { count: 4, first_ms: now - 15, ..recorded("b", 0, now + 10) },
        RecordedError { count: 6, first_ms: now - 1_005, ..recorded("a", 0, now) },
    ];
    assert_eq!(read, expected, "the newest first");
    assert_eq!(world.one.errors(1).await.unwrap(), expected[..1]);
    // A worker whose clock is ahead.
    world.two.record_errors(&[recorded("c", 1, wall_ms() + 86_400_000)]).await.unwrap();
    let ahead = &world.one.errors(1).await.unwrap()[0];
    assert!(ahead.host == "c" && (now..=wall_ms() + 1_000).contains(&ahead.last_ms), "{ahead:?}");
}

pub(super) async fn errors_are_bounded_and_kept_for_a_week(world: World) {
    let (queue, now) = (&*world.one, wall_ms());
    let old = [recorded("old", 1, now - WEEK - 1_000), recorded("young", 1, now - WEEK + 60_000)];
    queue.record_errors(&old).await.unwrap();
    assert_eq!(hosts(queue).await, ["young"]);
    let many: Vec<_> = (0..).take(ERRORS_KEPT).map(|n| recorded(&n.to_string(), 1, now - 100_000 + n)).collect();
    for some in many.chunks(64) {
        queue.record_errors(some).await.unwrap();
    }
    let mut kept: Vec<String> = (0..ERRORS_KEPT).rev().map(|n| n.to_string()).collect();
    assert_eq!(hosts(queue).await, kept, "the oldest went");
    queue.record_errors(&[recorded("one more", 1, now - 5)]).await.unwrap();
    kept.insert(0, "one more".to_owned());
    kept.pop();
    assert_eq!(hosts(queue).await, kept);
    assert!(queue.errors(2 * ERRORS_KEPT).await.unwrap().iter().all(|error| error.count == 1));
}

pub(super) async fn forgotten_ids_and_handles_leave_the_errors(world: World) {
    let (queue, now) = (&*world.one, wall_ms() - 60_000);
    let of = |host: &str, example: &str, message: &str| RecordedError {
        example: Some(example.to_owned()),
        message: message.to_owned(),
        ..recorded(host, 2, now)
    };
    let texts = async || {
        let mut errors = queue.errors(10).await.unwrap();
        errors.sort_by(|a, b| a.host.cmp(&b.host));
        errors.into_iter().map(|error| (error.host, error.example, error.message, error.count)).collect::<Vec<_>>()
    };
    let shown = |host: &str, example: Option<&str>, message: &str, count: u64| {
        (host.to_owned(), example.map(str::to_owned), message.to_owned(), count)
    };
    let all = [
        of("a", "20", "HTTP 500"),
        of("b", "120", "HTTP 200: no \"20\""),
        of("c", "at://did:plc:ab/post/3k", "hidden by @Ann.Example, 1"),
        of("d", "21", "HTTP 201"),
    ];
    queue.record_errors(&all).await.unwrap();
    // A person drops an item, or an item is removed.
    queue.forget(&["20".to_owned(), "7".to_owned()]).await.unwrap();
    let mut expected = [
        shown("a", None, "HTTP 500", 2),
        shown("b", Some("120"), "", 2),
        shown("c", Some("at://did:plc:ab/post/3k"), "hidden by @Ann.Example, 1", 2),
        shown("d", Some("21"), "HTTP 201", 2),
    ];
    assert_eq!(texts().await, expected);
    queue.record_errors(&[of("d", "22", "HTTP 201")]).await.unwrap();
    expected[3] = shown("d", Some("22"), "HTTP 201", 4);
    assert_eq!(texts().await, expected);

    queue.forget_errors(&["AT://did:plc:ab/post/3k".to_owned(), "ann.example".to_owned()]).await.unwrap();
    expected[2] = shown("c", None, "", 2);
    assert_eq!(texts().await, expected);
    // A worker had this one already.
    world.two.record_errors(&[of("c", "at://did:plc:ab/post/3k", "HTTP 502")]).await.unwrap();
    expected[2] = shown("c", None, "HTTP 502", 4);
    assert_eq!(texts().await, expected);
}
