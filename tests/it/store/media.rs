//! Media: what every backend keeps of them, rule by rule.

use sqlx::{Connection, PgConnection};
use twitter_updater::base::clock::Millis;
use twitter_updater::model::media::{MediaKind, MediaState, Medium};
use twitter_updater::model::post::{ItemState, Metrics};
use twitter_updater::store::{
    Expiry, FetchAttempt, FileReservation, Lifecycle, MediaStore, MediaTotal, MediumSighting, Observation,
    ReservationOutcome, Store, StoredMedium,
};

use super::{T, found, missing, new_tweet, open_postgres, way};

const NS: &str = "media:twitter";
const POSTS: &str = "tweet:update";

macro_rules! on_both {
    ($($case:ident)*) => {
        on_both!(@ postgres super::super::postgres_world; $($case)*);
        on_both!(@ sqlite super::super::sqlite_world; $($case)*);
        on_both!(@ memory super::memory_world; $($case)*);
    };
    (@ $backend:ident $world:expr; $($case:ident)*) => {
        mod $backend {
            $(
                #[tokio::test]
                async fn $case() {
                    let world = $world().await;
                    world.store.migrate().await.unwrap();
                    super::$case(&*world.store).await;
                }
            )*
        }
    };
}

on_both! {
    a_medium_is_recorded_once_with_each_of_its_posts
    another_address_brings_back_what_was_given_up
    a_video_takes_the_place_of_its_thumbnail_and_keeps_it
    a_result_is_stored_while_it_waits
    a_file_of_another_address_is_stored_with_it
    a_medium_is_stored_only_while_its_file_is_there
    a_file_counts_once_however_many_show_it
    a_file_is_taken_within_the_room_and_not_while_it_is_removed
    files_go_with_the_last_post_that_shows_them
    a_medium_that_a_post_shows_by_now_is_not_removed
    a_medium_with_a_file_outlives_its_retention
}

async fn memory_world() -> super::World {
    super::World { store: Box::new(crate::support::memory_store::MemoryStore::default()), _folder: None }
}

fn seen(id: &str, url: &str, post: &str, at: Millis) -> MediumSighting {
    let medium = Medium { id: id.to_owned(), url: url.to_owned(), kind: MediaKind::Photo };
    MediumSighting { medium, author: None, post: post.to_owned(), at }
}

async fn record(store: &dyn Store, seen: &[MediumSighting]) {
    let ids: Vec<_> = seen.iter().map(|seen| new_tweet(&seen.medium.id, T, Some(T))).collect();
    store.record(NS, T, &way(), &ids).await.unwrap();
    store.record_media(NS, seen).await.unwrap();
}

fn stored(id: &str, sha256: &str, bytes: i64) -> FetchAttempt {
    FetchAttempt {
        id: id.to_owned(),
        at: T + 100,
        state: MediaState::Stored,
        bytes: Some(bytes),
        file_type: Some("image/png".to_owned()),
        sha256: Some(sha256.to_owned()),
        ..FetchAttempt::default()
    }
}

async fn take(store: &dyn Store, files: &[(&str, i64)]) {
    for (sha256, bytes) in files {
        store.reserve_file(sha256, *bytes, T, 0).await.unwrap();
    }
}

async fn medium(store: &dyn Store, id: &str) -> StoredMedium {
    store.media(NS, &[id.to_owned()]).await.unwrap().pop().flatten().unwrap()
}

async fn a_medium_is_recorded_once_with_each_of_its_posts(store: &dyn Store) {
    store.record(NS, T, &way(), &[new_tweet("a", T, Some(T)), new_tweet("b", T, Some(T))]).await.unwrap();
    let batch =
        [seen("a", "http://h/a", "2", T), seen("b", "http://h/b", "2", T), seen("a", "http://h/new", "3", T + 1)];
    for _ in 0..2 {
        store.record_media(NS, &batch).await.unwrap();
    }
    // One that has no row yet gets one.
    store.record_media(NS, &[seen("new", "http://h/s", "9", T)]).await.unwrap();
    store.record_media(NS, &[]).await.unwrap();
    let asked = ["b", "none", "a", "new"].map(str::to_owned);
    let media = store.media(NS, &asked).await.unwrap();
    let told: Vec<_> = media.iter().map(|of| of.as_ref().map(|of| (&*of.id, &*of.url, of.state))).collect();
    let waits = |id, url| Some((id, url, MediaState::Waiting));
    assert_eq!(told, [waits("b", "http://h/b"), None, waits("a", "http://h/new"), waits("new", "http://h/s")]);
    assert_eq!(store.standing(NS, &asked[3..]).await.unwrap()[0].as_ref().unwrap().state, ItemState::Live);
    assert_eq!(store.media_uses(NS, "a", 10).await.unwrap(), [("2".to_owned(), T), ("3".to_owned(), T + 1)]);
    assert_eq!(store.media_uses(NS, "a", 1).await.unwrap().len(), 1);
    let of_post: Vec<String> = store.media_of_post(NS, "2").await.unwrap().into_iter().map(|of| of.id).collect();
    assert_eq!(of_post, ["a", "b"]);
    assert!(store.media_of_post("media:x", "2").await.unwrap().is_empty());
}

async fn a_result_is_stored_while_it_waits(store: &dyn Store) {
    record(store, &[seen("a", "http://h/a", "2", T)]).await;
    let failed = |at, attempts| FetchAttempt {
        id: "a".to_owned(),
        at,
        attempts,
        failing_since: Some(T + 10),
        reason: Some("HTTP 503\0".to_owned()),
        ..FetchAttempt::default()
    };
    store.save_media(NS, &[failed(T + 10, 1)]).await.unwrap();
    store.save_media(NS, &[failed(T + 20, 2)]).await.unwrap();
    store.save_media(NS, &[failed(T + 10, 1)]).await.unwrap(); // an older one
    let waiting = medium(store, "a").await;
    assert_eq!((waiting.attempts, waiting.failing_since, waiting.checked_at), (2, Some(T + 10), Some(T + 20)));
    assert!(waiting.reason.unwrap().starts_with("HTTP 503"));
    take(store, &[("aabb", 7), ("cc", 1)]).await;
    let mut saved = Vec::new();
    for _ in 0..2 {
        saved.push(store.save_media(NS, &[stored("a", "aabb", 7)]).await.unwrap());
    }
    assert_eq!(saved, [vec!["a".to_owned()], Vec::new()]);
    assert!(store.save_media(NS, &[failed(T + 900, 9), stored("none", "cc", 1)]).await.unwrap().is_empty());
    store.record_media(NS, &[seen("a", "http://h/other", "4", T + 900)]).await.unwrap();
    let is = medium(store, "a").await;
    assert_eq!((is.state, is.bytes, is.sha256.as_deref()), (MediaState::Stored, Some(7), Some("aabb")));
    assert_eq!((is.file_type.as_deref(), &*is.url, is.reason), (Some("image/png"), "http://h/a", None));
}

/// Whoever looks for unused files by a clock that is ahead takes one for old that is on its way.
async fn a_medium_is_stored_only_while_its_file_is_there(store: &dyn Store) {
    record(store, &[seen("a", "http://h/a", "2", T)]).await;
    let save = async || store.save_media(NS, &[stored("a", "aa", 7)]).await.unwrap();
    assert!(save().await.is_empty(), "no file was taken");
    take(store, &[("aa", 7)]).await;
    let now = T + 3_600_000;
    assert_eq!(store.unused_files(now, now, "", 10).await.unwrap().unused, ["aa"]);
    assert!(save().await.is_empty(), "it is being removed");
    store.forget_files(&["aa".to_owned()], now).await.unwrap();
    assert!(save().await.is_empty(), "it is gone");
    assert_eq!(medium(store, "a").await.state, MediaState::Waiting);
    take(store, &[("aa", 7)]).await;
    assert_eq!(save().await, ["a"]);
    assert!(store.unused_files(now, now, "", 10).await.unwrap().unused.is_empty(), "a medium has it");
}

async fn another_address_brings_back_what_was_given_up(store: &dyn Store) {
    const DAY: Millis = 24 * 3_600_000;
    record(store, &[seen("a", "http://h/a", "2", T)]).await;
    let gone = FetchAttempt {
        id: "a".to_owned(),
        at: T + 10,
        state: MediaState::Gone,
        attempts: 1,
        failing_since: Some(T + 10),
        reason: Some("HTTP 403".to_owned()),
        ..FetchAttempt::default()
    };
    store.save_media(NS, &[gone]).await.unwrap();
    for (url, at) in [("http://h/a", T + 2 * DAY), ("http://h/other", T + DAY)] {
        let seen = seen("a", url, "2", at);
        assert!(!seen.needs_fetch(Some(&medium(store, "a").await)));
        store.record_media(NS, &[seen]).await.unwrap();
        assert_eq!(medium(store, "a").await.state, MediaState::Gone, "{url} at {at}");
    }
    let seen = seen("a", "http://h/other", "2", T + 11 + DAY);
    assert!(seen.needs_fetch(Some(&medium(store, "a").await)));
    store.record_media(NS, &[seen]).await.unwrap();
    let again = medium(store, "a").await;
    assert_eq!((again.state, &*again.url, again.attempts), (MediaState::Waiting, "http://h/other", 0));
    assert_eq!((again.failing_since, again.reason), (None, None));
}

async fn a_video_takes_the_place_of_its_thumbnail_and_keeps_it(store: &dyn Store) {
    let of = |kind, url: &str, at| MediumSighting {
        medium: Medium { id: "a".to_owned(), url: url.to_owned(), kind },
        author: None,
        post: "2".to_owned(),
        at,
    };
    let (photo, video) = (MediaKind::Photo, MediaKind::Video);
    let is = |medium: &StoredMedium| (medium.state, medium.kind.clone(), medium.url.clone());
    let waits = |kind: &str, url: &str| (MediaState::Waiting, kind.to_owned(), url.to_owned());
    // It waits; the video comes in the same batch as the thumbnail, or later, and stays.
    record(store, &[of(photo, "http://h/thumb", T)]).await;
    assert_eq!(is(&medium(store, "a").await), waits("photo", "http://h/thumb"));
    store.record_media(NS, &[of(video, "http://h/v", T), of(photo, "http://h/thumb", T + 1)]).await.unwrap();
    assert_eq!(is(&medium(store, "a").await), waits("video", "http://h/v"));
    store.record_media(NS, &[of(photo, "http://h/other", T + 2)]).await.unwrap();
    store.record_media(NS, &[of(MediaKind::Unknown, "http://h/w", T + 3)]).await.unwrap();
    assert_eq!(is(&medium(store, "a").await), waits("video", "http://h/w"), "a word that is not known is no kind");
    // The thumbnail is stored, or was given up a moment ago: the video is fetched.
    for (id, end) in [("b", MediaState::Stored), ("c", MediaState::Gone)] {
        let of = |kind, url, at| {
            let mut seen = of(kind, url, at);
            seen.medium.id = id.to_owned();
            seen
        };
        record(store, &[of(photo, "http://h/thumb", T)]).await;
        take(store, &[("aa", 7)]).await;
        store.save_media(NS, &[FetchAttempt { state: end, ..stored(id, "aa", 7) }]).await.unwrap();
        assert_eq!(medium(store, id).await.state, end);
        let seen = of(MediaKind::Gif, "http://h/gif", T + 200);
        assert!(seen.needs_fetch(Some(&medium(store, id).await)));
        store.record_media(NS, &[seen]).await.unwrap();
        assert_eq!(is(&medium(store, id).await), waits("gif", "http://h/gif"));
        take(store, &[("bb", 9)]).await;
        let video = FetchAttempt { at: T + 300, ..stored(id, "bb", 9) };
        assert_eq!(store.save_media(NS, &[video]).await.unwrap(), [id]);
        let thumbnail = of(photo, "http://h/thumb", T + 400);
        assert!(!thumbnail.needs_fetch(Some(&medium(store, id).await)));
        store.record_media(NS, &[thumbnail]).await.unwrap();
        let is = medium(store, id).await;
        assert_eq!((is.state, &*is.kind, is.sha256.as_deref()), (MediaState::Stored, "gif", Some("bb")));
    }
}

async fn a_file_of_another_address_is_stored_with_it(store: &dyn Store) {
    record(store, &[seen("a", "http://h/a?name=orig", "2", T)]).await;
    take(store, &[("aa", 7)]).await;
    let large = FetchAttempt { url: Some("http://h/a?name=large".to_owned()), ..stored("a", "aa", 7) };
    store.save_media(NS, &[large]).await.unwrap();
    assert_eq!(medium(store, "a").await.url, "http://h/a?name=large");
    // The post's next answer changes nothing of a stored one.
    store.record_media(NS, &[seen("a", "http://h/a?name=orig", "2", T + 200)]).await.unwrap();
    let is = medium(store, "a").await;
    assert_eq!((is.state, &*is.url), (MediaState::Stored, "http://h/a?name=large"));
}

async fn a_file_counts_once_however_many_show_it(store: &dyn Store) {
    record(store, &["a", "b", "c", "d"].map(|id| seen(id, "http://h/", "2", T))).await;
    take(store, &[("aa", 7), ("aa", 7), ("bb", 3), ("cc", 5)]).await;
    store.save_media(NS, &[stored("a", "aa", 7), stored("b", "aa", 7), stored("c", "cc", 5)]).await.unwrap();
    let total = |state, media, bytes| MediaTotal { state, media, bytes };
    let totals = store.media_totals(NS).await.unwrap();
    assert_eq!(totals, [total(MediaState::Stored, 3, 19), total(MediaState::Waiting, 1, 0)]);
    assert_eq!(store.media_bytes().await.unwrap(), 15);
    // Each look is later than the time that the one before has for itself.
    let mut now = T + 1;
    let mut unused = async || {
        now += 700_000;
        store.unused_files(T + 1, now, "", 10).await.unwrap().unused
    };
    assert_eq!(unused().await, ["bb"], "no medium has it");
    let removed = |id: &str| FetchAttempt { id: id.to_owned(), state: MediaState::Removed, ..stored(id, "aa", 7) };
    // Their posts are not stored.
    store.unused_media(NS, POSTS, T + 1, "", 10).await.unwrap();
    store.save_media(NS, &[removed("a")]).await.unwrap();
    assert_eq!(unused().await, ["bb"]);
    store.save_media(NS, &[removed("b")]).await.unwrap();
    let mut both = unused().await;
    both.sort();
    assert_eq!(both, ["aa", "bb"]);
    // A post that shows it again has it fetched again.
    record(store, &[seen("a", "http://h/again", "9", T)]).await;
    assert_eq!(medium(store, "a").await.state, MediaState::Waiting);
}

async fn a_file_is_taken_within_the_room_and_not_while_it_is_removed(store: &dyn Store) {
    let take = async |sha256: &str, bytes, at| store.reserve_file(sha256, bytes, at, 10).await.unwrap();
    let room = |taken, used| FileReservation { taken, used };
    assert_eq!(take("aa", 6, T).await, room(ReservationOutcome::New, 6));
    assert_eq!(take("aa", 6, T + 5).await, room(ReservationOutcome::Known, 6));
    assert_eq!(take("bb", 5, T).await, room(ReservationOutcome::Full, 6));
    assert_eq!(take("cc", 4, T).await, room(ReservationOutcome::New, 10));
    assert_eq!(take("aa", 6, T).await, room(ReservationOutcome::Known, 10), "what is there needs no room");
    assert_eq!(store.unused_files(T + 5, T + 50, "", 10).await.unwrap().unused, ["cc"], "the other one was met again");
    assert!(store.unused_files(T + 5, T + 60, "", 10).await.unwrap().unused.is_empty(), "somebody removes it");
    assert_eq!(take("cc", 4, T + 60).await, room(ReservationOutcome::Busy, 10));
    store.forget_files(&["aa".to_owned(), "cc".to_owned()], T + 50).await.unwrap();
    assert_eq!(
        take("dd", 4, T + 60).await,
        room(ReservationOutcome::New, 10),
        "its bytes are free, those of the other one are not"
    );
    // Whoever removes a file and dies has it for ten minutes.
    let looked = store.unused_files(T + 61, T + 70, "", 1).await.unwrap();
    assert_eq!((looked.unused, looked.next.as_deref()), (vec!["aa".to_owned()], Some("aa")));
    let looked = store.unused_files(T + 61, T + 70, "aa", 2).await.unwrap();
    assert_eq!((looked.unused, looked.next), (vec!["dd".to_owned()], None));
    let (aa, dd) = (take("aa", 6, T + 700_000).await, take("dd", 4, T + 700_000).await);
    assert_eq!((aa, dd), (room(ReservationOutcome::Known, 10), room(ReservationOutcome::Known, 10)));
    store.forget_files(&["aa".to_owned(), "dd".to_owned()], T + 70).await.unwrap();
    assert_eq!(store.media_bytes().await.unwrap(), 10, "it was taken since");
    // Many at once, and room for half of them.
    let names: Vec<String> = (0..20).map(|n| format!("m{n}")).collect();
    let taken = names.iter().map(async |name| store.reserve_file(name, 1, T, 20).await.unwrap().taken);
    let taken = futures::future::join_all(taken).await;
    assert_eq!(taken.iter().filter(|taken| **taken == ReservationOutcome::New).count(), 10);
    assert_eq!(store.media_bytes().await.unwrap(), 20);
}

async fn a_medium_that_a_post_shows_by_now_is_not_removed(store: &dyn Store) {
    record(store, &[seen("a", "http://h/a", "1", T)]).await;
    take(store, &[("aa", 7)]).await;
    store.save_media(NS, &[stored("a", "aa", 7)]).await.unwrap();
    let unused = async |before| store.unused_media(NS, POSTS, before, "", 10).await.unwrap().unused.len();
    assert_eq!(unused(T + 1).await, 1);
    record(store, &[seen("a", "http://h/a", "2", T + 1)]).await;
    let removed = [FetchAttempt { state: MediaState::Removed, ..stored("a", "aa", 7) }];
    assert!(store.save_media(NS, &removed).await.unwrap().is_empty());
    assert_eq!(medium(store, "a").await.state, MediaState::Stored);
    // That post is not stored either.
    assert_eq!(unused(T + 2).await, 1);
    assert_eq!(store.save_media(NS, &removed).await.unwrap(), ["a"]);
}

async fn files_go_with_the_last_post_that_shows_them(store: &dyn Store) {
    store.save(POSTS, &[found("2", T, Metrics::default()), found("3", T, Metrics::default())]).await.unwrap();
    record(
        store,
        &[seen("a", "http://h/a", "2", T), seen("a", "http://h/a", "3", T), seen("b", "http://h/b", "gone", T)],
    )
    .await;
    take(store, &[("aa", 7), ("bb", 5)]).await;
    store.save_media(NS, &[stored("a", "aa", 7), stored("b", "bb", 5)]).await.unwrap();
    let unused = async || -> Vec<String> {
        // In pages of one.
        let (mut unused, mut after) = (Vec::new(), Some(String::new()));
        while let Some(from) = after {
            let looked = store.unused_media(NS, POSTS, T + 1, &from, 1).await.unwrap();
            unused.extend(looked.unused);
            after = looked.next;
        }
        unused.into_iter().map(|of: StoredMedium| of.id).collect()
    };
    let looked = store.unused_media(NS, POSTS, T, "", 10).await.unwrap();
    assert!(looked.unused.is_empty() && looked.next.is_none(), "seen too lately");
    assert_eq!(unused().await, ["b"]);
    let ended = [Observation { state: ItemState::Ended, next_due: None, ..found("2", T + 1, Metrics::default()) }];
    store.save(POSTS, &ended).await.unwrap();
    store.remove(POSTS, Expiry::Before(T + 9), &["2".to_owned()]).await.unwrap();
    assert_eq!(unused().await, ["b"], "the other post shows it still");
    let ended = [Observation { state: ItemState::Ended, next_due: None, ..found("3", T + 1, Metrics::default()) }];
    store.save(POSTS, &ended).await.unwrap();
    store.remove(POSTS, Expiry::Before(T + 9), &["3".to_owned()]).await.unwrap();
    assert_eq!(unused().await, ["a", "b"]);
}

async fn a_medium_with_a_file_outlives_its_retention(store: &dyn Store) {
    record(store, &["a", "b"].map(|id| seen(id, "http://h/", "2", T))).await;
    take(store, &[("aa", 7)]).await;
    store.save_media(NS, &[stored("a", "aa", 7)]).await.unwrap();
    let over = |id: &str| Observation { state: ItemState::Ended, next_due: None, ..missing(id, T + 100, 1, T + 100) };
    store.save(NS, &[over("a"), over("b")]).await.unwrap();
    let ids = ["a", "b"].map(str::to_owned);
    assert_eq!(store.remove(NS, Expiry::Before(T + 900), &ids).await.unwrap(), 1);
    assert_eq!(medium(store, "a").await.state, MediaState::Stored);
    assert_eq!(store.media(NS, &ids[1..]).await.unwrap(), [None]);
}

/// Whoever looks for unused files waits for a save that is about to name one, and sees it then.
#[tokio::test]
async fn a_save_under_way_keeps_its_file() {
    let url = crate::support::postgres::database().await;
    let store = open_postgres(&url).await;
    store.migrate().await.unwrap();
    record(&store, &[seen("a", "http://h/a", "2", T)]).await;
    take(&store, &[("aa", 7)]).await;
    let mut other = PgConnection::connect(&url).await.unwrap();
    let mut transaction = other.begin().await.unwrap();
    // As a save does that has not committed yet.
    for save in ["SELECT FROM media_file FOR SHARE", "UPDATE media SET state = 'stored', sha256 = 'aa'"] {
        sqlx::query(save).execute(&mut *transaction).await.unwrap();
    }
    let (looked, ()) = tokio::join!(store.unused_files(T + 9, T + 9, "", 10), async {
        let waits = "SELECT EXISTS (SELECT FROM pg_stat_activity \
             WHERE datname = current_database() AND wait_event_type = 'Lock')";
        let mut third = PgConnection::connect(&url).await.unwrap();
        while !sqlx::query_scalar::<_, bool>(waits).fetch_one(&mut third).await.unwrap() {
            tokio::task::yield_now().await;
        }
        transaction.commit().await.unwrap();
    });
    assert!(looked.unwrap().unused.is_empty());
    let room = store.reserve_file("aa", 7, T + 10, 0).await.unwrap();
    assert_eq!(room, FileReservation { taken: ReservationOutcome::Known, used: 7 }, "nobody removes it");
}
