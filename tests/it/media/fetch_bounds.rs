//! Files that are not wanted, hosts that fail, and a disk that is full: each ends as it must.

use std::time::Duration;

use twitter_updater::base::shutdown::Stop;
use twitter_updater::model::media::MediaState;
use twitter_updater::pipelines::media::fetch::{Fetch, FetchOutcome, FileRequest};

use super::fetch::{MINUTE, World};
use super::server::content;
use crate::support::wait::until_true;

#[tokio::test]
async fn what_is_not_wanted_is_refused_for_good() {
    let world = World::new().await;
    for (path, says) in [
        ("/large/1", "larger than media.max_bytes: 99999999999 > 700000"),
        ("/endless/1", "larger than media.max_bytes"),
        ("/inside/1", "redirected: 127.0.0.1 is not on the public internet"),
        ("/metadata/1", "redirected: 169.254.169.254 is not on the public internet"),
        ("/named/1", "localhost is not on the public internet"),
        ("/scheme/1", "redirected: file is not fetched"),
        ("/around/1", "redirected more than 4 times"),
    ] {
        let says = says.replace("redirected: 127.0.0.1 is not on the public internet", "redirected: port 1 of");
        match world.fetch(path).await {
            FetchOutcome::Refused(why) => assert!(why.contains(&says), "{path}: {why}"),
            fetched => panic!("{path}: {fetched:?}"),
        }
    }
    assert_eq!(world.fetch("/gone/2").await, FetchOutcome::Gone("HTTP 410".to_owned()));
    assert_eq!(world.files(), 0, "nothing is left of them");
    // The address itself leads inside.
    let wanted =
        FileRequest { namespace: "media:twitter", id: "1", url: "http://169.254.169.254/latest", smaller: &[] };
    assert!(matches!(world.fetcher.fetch(wanted, MINUTE).await, FetchOutcome::Refused(_)));
}

#[tokio::test]
async fn what_a_host_with_a_fault_says_too_is_doubted() {
    let world = World::new().await;
    let page = "the file is no picture, video or sound: it begins with \"<!DOCTYPE html><\"";
    for (path, end, says) in [
        ("/gone/0", MediaState::Gone, "HTTP 404"),
        ("/gone/1", MediaState::Gone, "HTTP 403"),
        ("/page/1", MediaState::Refused, page),
    ] {
        assert_eq!(world.fetch(path).await, FetchOutcome::Unconfirmed { state: end, why: says.to_owned() }, "{path}");
    }
    assert_eq!(world.files(), 0, "no page is continued as a picture");
}

#[tokio::test]
async fn a_host_without_a_free_place_is_left_for_later() {
    // Nobody is called silent meanwhile.
    let world = World::with(0, MINUTE).await;
    let paths = [1, 2, 3, 4].map(|n| format!("/silent/{n}"));
    let silent = futures::future::join_all(paths.iter().map(|path| world.fetch(path)));
    let next = async {
        let all_asked = async || paths.iter().all(|path| !world.server.asked(path).is_empty());
        until_true("all places are taken", MINUTE, all_asked).await;
        assert_eq!(world.fetch("/ok/1").await, FetchOutcome::Later(Duration::from_secs(1)));
    };
    tokio::select! {
        fetched = silent => panic!("they came first: {fetched:?}"),
        () = next => {}
    }
    assert!(world.server.asked("/ok/1").is_empty());
}

#[tokio::test]
async fn a_host_whose_file_hardly_comes_has_failed() {
    let world = World::with(0, MINUTE).await;
    match world.within("/silent/1", Duration::from_secs(1)).await {
        FetchOutcome::Failed { why, is_of_host, .. } => {
            assert!(why == "the file arrives too slowly" && is_of_host, "{why}")
        }
        fetched => panic!("{fetched:?}"),
    }
}

#[tokio::test]
async fn failures_are_told_apart() {
    let world = World::with(0, Duration::from_millis(200)).await;
    let failed = async |path: &str| match world.fetch(path).await {
        FetchOutcome::Failed { why, is_of_host, after } => (why, is_of_host, after.map(|after| after.as_secs())),
        fetched => panic!("{path}: {fetched:?}"),
    };
    let (why, is_of_host, _) = failed("/silent/1").await;
    assert!(why.contains("no byte for 200 ms") && is_of_host, "{why}");
    tokio::time::sleep(Duration::from_millis(1)).await; // its pause is shorter
    assert_eq!(failed("/empty/1").await, ("the file is empty".to_owned(), false, None));
    assert_eq!(failed("/none/1").await, ("HTTP 400".to_owned(), false, None));
    assert_eq!(failed("/storm/1").await, ("HTTP 503".to_owned(), true, None));
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert_eq!(failed("/storm/1").await, ("HTTP 503".to_owned(), true, None));
    tokio::time::sleep(Duration::from_millis(1)).await;
    world.has(&world.fetch("/storm/1").await, 1);
    assert_eq!(failed("/wait/1").await, ("HTTP 429".to_owned(), true, Some(120)));
    // The host rests as long as it asked for: its other files are not tried.
    match world.fetch("/ok/2").await {
        FetchOutcome::Later(rest) => assert!((115..=120).contains(&rest.as_secs()), "{rest:?}"),
        fetched => panic!("{fetched:?}"),
    }
    assert!(world.server.asked("/ok/2").is_empty());
}

#[tokio::test]
async fn a_full_folder_fetches_nothing_and_goes_on_when_there_is_room() {
    let size = content(99).len() as u64;
    let world = World::with(size + 1_000, Duration::from_secs(1)).await;
    let stored = world.has(&world.fetch("/ok/99").await, 99);
    for path in ["/ok/199", "/ok/299"] {
        match world.fetch(path).await {
            FetchOutcome::StorageUnavailable(why) => {
                assert!(why.contains("no room for media") && why.contains("max_disk_bytes"), "{why}")
            }
            fetched => panic!("{fetched:?}"),
        }
    }
    assert_eq!(world.files(), 1, "no part is left of what had no room");
    world.storage.remove_unused(MINUTE, &Stop::new()).await.unwrap();
    assert!(world.folder.path(&stored.file.sha256).exists(), "it is young");
    world.storage.remove_unused(Duration::ZERO, &Stop::new()).await.unwrap();
    assert_eq!(world.files(), 0, "no medium has it");
    world.has(&world.fetch("/ok/199").await, 199);
}

/// The same 16 media are claimed repeatedly while there is no room for them.
#[tokio::test]
async fn files_without_room_are_not_downloaded_again_and_again() {
    let size = content(99).len() as u64;
    let world = World::with(size + 1_000, MINUTE).await;
    world.has(&world.fetch("/ok/99").await, 99);
    let paths: Vec<String> = (1..=16).map(|n| format!("/ok/{}", 99 + 100 * n)).collect();
    for _ in 0..20 {
        for fetched in futures::future::join_all(paths.iter().map(|path| world.fetch(path))).await {
            assert!(
                matches!(&fetched, FetchOutcome::StorageUnavailable(why) if why.contains("no room for media")),
                "{fetched:?}"
            );
        }
    }
    // Requests that were sent before the first answer stated its size.
    let asked: usize = paths.iter().map(|path| world.server.asked(path).len()).sum();
    assert!((1..=4).contains(&asked), "{asked} requests");
    assert_eq!(world.files(), 1);
}
