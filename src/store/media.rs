//! Media of posts: what is known of each, beside the life that every item has, and which posts show it.

use std::collections::HashMap;

use async_trait::async_trait;
use serde::Serialize;

use super::Result;
use crate::base::clock::Millis;
use crate::model::media::{MediaKind, MediaState, Medium};
use crate::store::forget::author_in;
use crate::store::rows::clean;

/// A medium that a found post shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MediumSeen {
    /// The medium.
    pub medium: Medium,
    /// The account that made the post, where the answer says it.
    pub author: Option<String>,
    /// The id of the post.
    pub post: String,
    /// When the post was answered, ms since the epoch.
    pub at: Millis,
}

/// A stored medium, whole.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, sqlx_macros::FromRow)]
pub struct StoredMedium {
    /// Its id.
    pub id: String,
    /// The address of its file.
    pub url: String,
    /// Its kind, as the network tells it: `photo`, `video`, `gif`, `audio` or `unknown`.
    pub kind: String,
    /// Its state.
    pub state: MediaState,
    /// The size of its file.
    pub bytes: Option<i64>,
    /// The type of its file, by its first bytes: `image/jpeg`.
    #[sqlx(rename = "type")]
    #[serde(rename = "type")]
    pub file_type: Option<String>,
    /// The hash of the bytes of its file, by which that is named.
    pub sha256: Option<String>,
    /// Failures so far.
    pub attempts: i64,
    /// When the first of the failures in a row was, ms since the epoch.
    pub failing_since: Option<Millis>,
    /// Why it is not stored.
    pub reason: Option<String>,
    /// When a post named it first, ms since the epoch.
    pub first_at: Millis,
    /// When it was last tried, ms since the epoch.
    pub checked_at: Option<Millis>,
}

/// The result of a try: absolute figures, so that a repeated save counts nothing twice.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct MediumTried {
    /// Its id.
    pub id: String,
    /// When it was tried, on the queue's clock, ms since the epoch.
    pub at: Millis,
    /// The state it is in from now on.
    #[serde(serialize_with = "word")]
    pub state: MediaState,
    /// The address that its file came from, if that is another one.
    pub url: Option<String>,
    /// The size of its file.
    pub bytes: Option<i64>,
    /// The type of its file.
    #[serde(rename = "type")]
    pub file_type: Option<String>,
    /// The hash of its file.
    pub sha256: Option<String>,
    /// Failures so far.
    pub attempts: i64,
    /// When the first of the failures in a row was, ms since the epoch.
    pub failing_since: Option<Millis>,
    /// Why it is not stored.
    pub reason: Option<String>,
}

/// Media in a state, and their bytes: what several show is counted for each.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, sqlx_macros::FromRow)]
pub struct MediaTotal {
    /// The state.
    pub state: MediaState,
    /// The number of media.
    pub media: i64,
    /// The sizes of their files together.
    pub bytes: i64,
}

/// The outcome of taking room for a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Taken {
    /// It is new.
    New,
    /// It was taken before, so it is there, or was about to be.
    Known,
    /// There is no room for it.
    Full,
    /// It is being removed: it may be taken after that.
    Busy,
}

/// The answer of [`MediaStore::take_file`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Room {
    /// The outcome.
    pub taken: Taken,
    /// Bytes of all files, with this one if it was taken.
    pub used: i64,
}

/// What was found on a page of all media, or of all files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Looked<T> {
    /// Those that nothing uses.
    pub unused: Vec<T>,
    /// After what to go on; `None`: that was the last page.
    pub next: Option<String>,
}

impl<T> Looked<T> {
    /// Those of a page of `limit` names.
    pub(super) fn of(mut page: Vec<String>, limit: u32, unused: Vec<T>) -> Self {
        let is_full = page.len() >= limit.max(1) as usize;
        Self { unused, next: page.pop().filter(|_| is_full) }
    }
}

/// How long a removal has a file to itself, ms: longer than a process waits for any answer.
pub(super) const REMOVAL_MS: Millis = 600_000;

/// The records of media. Errors are those of [`Lifecycle`](super::Lifecycle).
#[async_trait]
pub trait MediaStore: Send + Sync + std::fmt::Debug {
    /// Records which posts show which media, and the media that are new, which are due at once. Of a post whose author is
    /// [kept away](super::Forgetting) nothing is recorded. A medium that is known keeps its state;
    /// one that waits has the newer address and kind from then on, and one whose file was removed waits again, as does one that
    /// was given up a day earlier or more, if the address is another one. A photo that turns out to be the thumbnail of a video
    /// waits again for the video, and a thumbnail never takes the place of a video.
    async fn record_media(&self, namespace: &str, seen: &[MediumSeen]) -> Result<()>;

    /// Each medium, in the order asked; `None` for one that no post has named.
    async fn media(&self, namespace: &str, ids: &[String]) -> Result<Vec<Option<StoredMedium>>>;

    /// Stores results, all or nothing; returns the ids of those that were stored. Results of media that do not wait any more
    /// change nothing, except that the file of a stored one that no post uses may be removed. Nor does `stored` where the file is
    /// not taken, or is being removed: by a clock that is ahead, it was taken long ago.
    async fn save_media(&self, namespace: &str, tried: &[MediumTried]) -> Result<Vec<String>>;

    /// The ids of posts that show a medium and when that was seen first, ms since the epoch, the first one first; `limit`
    /// of them.
    async fn media_uses(&self, namespace: &str, id: &str, limit: u32) -> Result<Vec<(String, Millis)>>;

    /// The media that a post shows, by their ids.
    async fn media_of(&self, namespace: &str, post: &str) -> Result<Vec<StoredMedium>>;

    /// Media by state.
    async fn media_totals(&self, namespace: &str) -> Result<Vec<MediaTotal>>;

    /// Takes room for a file that is put next where files are kept, at `at`, ms since the epoch. Its bytes count from now on,
    /// for all processes, and nobody removes it as long as that is lately. `cap`: the bytes that all files may take; 0: any.
    async fn take_file(&self, sha256: &str, bytes: i64, at: Millis, cap: i64) -> Result<Room>;

    /// Looks at `limit` files after the hash `after`, in their order: those that nobody has taken since `before` and no stored
    /// medium has. From `now` on nobody takes these, for ten minutes: that long the caller may remove them. Both in ms since
    /// the epoch.
    async fn unused_files(&self, before: Millis, now: Millis, after: &str, limit: u32) -> Result<Looked<String>>;

    /// Forgets files that [`unused_files`](MediaStore::unused_files) gave at that `now`, and that were removed: their bytes are
    /// free.
    async fn forget_files(&self, sha256: &[String], now: Millis) -> Result<()>;

    /// Bytes of all files, of all namespaces. A file that several media share counts once.
    async fn media_bytes(&self) -> Result<i64>;

    /// Looks at `limit` media after the id `after`, in their order: removes their uses by posts of the namespace `posts` that
    /// were removed, or whose content was forgotten, and gives those with a file that no post uses then. Uses that were seen
    /// after `before`, ms since the epoch, stay.
    async fn unused_media(
        &self,
        namespace: &str,
        posts: &str,
        before: Millis,
        after: &str,
        limit: u32,
    ) -> Result<Looked<StoredMedium>>;
}

fn word<S: serde::Serializer>(state: &MediaState, serializer: S) -> std::result::Result<S::Ok, S::Error> {
    serializer.serialize_str(state.as_str())
}

/// Media as JSON, one entry each, the newest video, or else the newest: id, url, kind, at; and their uses: id, post, at.
pub(super) fn given(seen: &[MediumSeen]) -> (String, String) {
    let mut media: Vec<_> = seen
        .iter()
        .map(|MediumSeen { medium: Medium { id, url, kind }, at, .. }| {
            (clean(id), !kind.is_video(), -at, clean(url), kind.as_str())
        })
        .collect();
    media.sort();
    media.dedup_by(|later, first| later.0 == first.0);
    let media: Vec<_> = media.into_iter().map(|(id, _, at, url, kind)| (id, url, kind, -at)).collect();
    let mut uses: Vec<_> = seen.iter().map(|seen| (clean(&seen.medium.id), clean(&seen.post), seen.at)).collect();
    uses.sort();
    uses.dedup_by(|later, first| (&later.0, &later.1) == (&first.0, &first.1));
    (serde_json::json!(media).to_string(), serde_json::json!(uses).to_string())
}

/// Results as JSON, the newest of each id.
pub(super) fn given_tried(tried: &[MediumTried]) -> String {
    let mut rows: Vec<MediumTried> = tried.to_vec();
    for row in &mut rows {
        row.id = clean(&row.id).into_owned();
        row.reason = row.reason.as_deref().map(|reason| clean(reason).into_owned());
    }
    rows.sort_by(|one, other| (&one.id, other.at).cmp(&(&other.id, one.at)));
    rows.dedup_by(|later, first| later.id == first.id);
    serde_json::json!(rows).to_string()
}

/// Puts rows, in any order, into the order of the ids that were asked for.
pub(super) fn in_order(asked: &[String], rows: Vec<StoredMedium>) -> Vec<Option<StoredMedium>> {
    let known: HashMap<String, StoredMedium> = rows.into_iter().map(|row| (row.id.clone(), row)).collect();
    asked.iter().map(|id| known.get(clean(id).as_ref()).cloned()).collect()
}

/// Columns of [`StoredMedium`].
macro_rules! medium_columns {
    () => {
        "id, url, kind, state, bytes, type, sha256, attempts, failing_since, reason, first_at, checked_at"
    };
}

/// How long a medium that was given up rests before another address brings it back, ms. Some addresses are signed, and differ in each
/// answer.
macro_rules! given_up_for {
    () => {
        86_400_000
    };
}

impl MediumSeen {
    /// The account that made the post, as the answer or the post's id says.
    pub(super) fn author(&self) -> Option<&str> {
        self.author.as_deref().or_else(|| author_in(&self.post))
    }

    /// Returns true if it is to be fetched, or fetched once more: `seen_again!` is the same in SQL. One that waits is in the queue,
    /// unless the queue did not take it.
    #[must_use]
    pub fn is_sought(&self, known: Option<&StoredMedium>) -> bool {
        let Some(known) = known else { return true };
        let is_photo = known.kind == MediaKind::Photo.as_str();
        let is_video = [MediaKind::Video, MediaKind::Gif].iter().any(|kind| kind.as_str() == known.kind);
        let rested = || known.checked_at.is_some_and(|at| at < self.at.saturating_sub(given_up_for!()));
        match known.state {
            MediaState::Waiting => true,
            // The thumbnail of a known video is no file of its own; the video of a known thumbnail is.
            _ if is_video && self.medium.kind == MediaKind::Photo => false,
            _ if is_photo && self.medium.kind.is_video() => true,
            MediaState::Removed => true,
            MediaState::Stored => false,
            MediaState::Gone | MediaState::Refused | MediaState::Failed => known.url != self.medium.url && rested(),
        }
    }
}

/// Rows of media that wait again when a post shows them; `excluded` is what it shows.
macro_rules! seen_again {
    () => {
        concat!(
            "UPDATE SET url = excluded.url, state = 'waiting', \
             kind = CASE excluded.kind WHEN 'unknown' THEN of.kind ELSE excluded.kind END, \
             attempts = CASE of.state WHEN 'waiting' THEN of.attempts ELSE 0 END, \
             failing_since = CASE of.state WHEN 'waiting' THEN of.failing_since END, \
             reason = CASE of.state WHEN 'waiting' THEN of.reason END \
             WHERE NOT (excluded.kind = 'photo' AND of.kind IN ('video', 'gif')) AND (of.state = 'removed' \
             OR (of.kind = 'photo' AND excluded.kind IN ('video', 'gif')) \
             OR (of.url <> excluded.url AND (of.state = 'waiting' OR (of.state IN ('gone', 'refused', 'failed') AND of.checked_at < excluded.first_at - ",
            $crate::store::media::given_up_for!(),
            "))))"
        )
    };
}

/// Rows of media that take a result; `given` are the results, `there` the hashes of files that nobody removes, `$uses` the uses of
/// a row. A post may show a medium since it was found to be unused.
macro_rules! takes_result {
    ($uses:literal) => {
        concat!(
            "((of.state = 'waiting' AND (of.checked_at IS NULL OR of.checked_at <= given.at) \
             AND (given.state <> 'stored' OR given.sha256 IN (SELECT sha256 FROM there))) \
             OR (of.state = 'stored' AND given.state = 'removed' AND NOT EXISTS (SELECT 1 FROM ",
            $uses,
            ")))"
        )
    };
}

/// Uses by posts that are not stored any more; `$2` is the namespace of posts, `$3` the moment.
macro_rules! outlived_uses {
    () => {
        "first_at < $3 AND NOT EXISTS (SELECT 1 FROM tweet AS of WHERE of.namespace = $2 AND of.id = post \
         AND NOT (of.misses > 0 AND of.lookups > of.misses AND of.raw IS NULL))"
    };
}

/// Files that may be removed now: `$1` is the moment since which nobody may have taken them, `$2` is now.
macro_rules! removable {
    () => {
        "at < $1 AND (removing IS NULL OR removing < $2 - 600000)"
    };
}

pub(super) use {given_up_for, medium_columns, outlived_uses, removable, seen_again, takes_result};

/// The statement of [`MediaStore::media_uses`].
pub(super) const USES: &str =
    "SELECT post, first_at FROM media_use WHERE namespace = $1 AND id = $2 ORDER BY first_at, post LIMIT $3";

/// The statement of [`MediaStore::media_bytes`].
pub(super) const BYTES: &str = "SELECT bytes FROM media_room";

/// The statement of [`MediaStore::media_totals`].
pub(super) const TOTALS: &str = "SELECT state, count(*) AS media, CAST(COALESCE(SUM(bytes), 0) AS BIGINT) AS bytes \
     FROM media WHERE namespace = $1 GROUP BY state ORDER BY state";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_medium_given_twice_the_newest_address_and_each_use_is_taken() {
        let seen = |id: &str, url: &str, post: &str, at| MediumSeen {
            medium: Medium { id: id.to_owned(), url: url.to_owned(), kind: MediaKind::Photo },
            author: None,
            post: post.to_owned(),
            at,
        };
        let (media, uses) = given(&[seen("b", "old", "1", 5), seen("a", "x", "1", 5), seen("b", "new\0", "2", 6)]);
        assert_eq!(media, r#"[["a","x","photo",5],["b","new�","photo",6]]"#);
        assert_eq!(uses, r#"[["a","1",5],["b","1",5],["b","2",6]]"#);
        let mut both = [seen("a", "video", "1", 5), seen("a", "thumbnail", "1", 6)];
        both[0].medium.kind = MediaKind::Video;
        assert_eq!(given(&both).0, r#"[["a","video","video",5]]"#, "a thumbnail is no newer video");
        let tried = |at, attempts| MediumTried { id: "a".to_owned(), at, attempts, ..MediumTried::default() };
        let rows: serde_json::Value = serde_json::from_str(&given_tried(&[tried(1, 1), tried(2, 2)])).unwrap();
        assert_eq!((rows[0]["attempts"].as_i64(), rows[0]["state"].as_str()), (Some(2), Some("waiting")));
        assert_eq!(rows.as_array().unwrap().len(), 1);
    }
}
