//! Media of posts: the data of each medium beside its life, and the posts that show it.

use std::collections::HashMap;

use async_trait::async_trait;
use serde::Serialize;

use super::Result;
use crate::forget::author_from_id;
use crate::rows::clean;
use engine::base::clock::Millis;
use networks::model::media::{MediaKind, MediaState, Medium};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MediumSighting {
    pub medium: Medium,
    pub author: Option<String>,
    pub post: String,
    pub at: Millis,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, sqlx_macros::FromRow)]
pub struct StoredMedium {
    pub id: String,
    pub url: String,
    /// Kind in the network's words: `photo`, `video`, `gif`, `audio` or `unknown`.
    pub kind: String,
    pub state: MediaState,
    pub bytes: Option<i64>,
    /// Type of its file, by its first bytes: `image/jpeg`.
    #[sqlx(rename = "type")]
    #[serde(rename = "type")]
    pub file_type: Option<String>,
    /// Hash of its file, which is also the file's name.
    pub sha256: Option<String>,
    pub attempts: i64,
    pub failing_since: Option<Millis>,
    pub reason: Option<String>,
    pub first_at: Millis,
    pub checked_at: Option<Millis>,
}

/// Result of an attempt, in absolute figures, so that a repeated save counts nothing twice.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct FetchAttempt {
    pub id: String,
    pub at: Millis,
    #[serde(serialize_with = "word")]
    pub state: MediaState,
    pub url: Option<String>,
    pub bytes: Option<i64>,
    #[serde(rename = "type")]
    pub file_type: Option<String>,
    pub sha256: Option<String>,
    pub attempts: i64,
    pub failing_since: Option<Millis>,
    pub reason: Option<String>,
}

/// Media by state, with their bytes; a shared file counts once per medium.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, sqlx_macros::FromRow)]
pub struct MediaTotal {
    pub state: MediaState,
    pub media: i64,
    pub bytes: i64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReservationOutcome {
    New,
    /// Reserved before: the file is stored, or another process is about to store it.
    Known,
    Full,
    /// A removal is under way; the caller may retry later.
    Busy,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileReservation {
    pub taken: ReservationOutcome,
    /// Bytes of all files, including this one if it was reserved.
    pub used: i64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnusedPage<T> {
    pub unused: Vec<T>,
    /// Start of the next page; `None` after the last.
    pub next: Option<String>,
}

impl<T> UnusedPage<T> {
    pub(super) fn new(mut page: Vec<String>, limit: u32, unused: Vec<T>) -> Self {
        let is_full = page.len() >= limit.max(1) as usize;
        Self { unused, next: page.pop().filter(|_| is_full) }
    }
}

/// Exclusive time of a removal for a file: longer than a process waits for any answer.
pub(super) const REMOVAL_MS: Millis = 600_000;

/// The records of media. Errors are those of [`Lifecycle`](super::Lifecycle). Times are ms since the epoch.
#[async_trait]
pub trait MediaStore: Send + Sync + std::fmt::Debug {
    /// Records which posts show which media, and new media, which are due at once. Skips posts of
    /// [blocked](super::Forgetting) authors. A known medium keeps its state, with these exceptions:
    /// - A waiting medium gets the newer address and kind.
    /// - A medium whose file was removed waits again. So does one with a new address that was given up at least a day ago.
    /// - A photo that turns out to be the thumbnail of a video waits again for the video. A thumbnail never replaces a video.
    async fn record_media(&self, namespace: &str, seen: &[MediumSighting]) -> Result<()>;

    /// Returns each medium, in the order of `ids`; `None` if no post has named it.
    async fn media(&self, namespace: &str, ids: &[String]) -> Result<Vec<Option<StoredMedium>>>;

    /// Stores results, all or nothing; returns the stored ids. Results of media that no longer wait change nothing. The
    /// one exception: a stored file that no post uses may become removed. `stored` is ignored if the file is not
    /// reserved or is being removed: under a clock that is ahead, the reservation is old.
    async fn save_media(&self, namespace: &str, tried: &[FetchAttempt]) -> Result<Vec<String>>;

    /// Returns the first `limit` posts that show a medium, with the time of each first sighting, oldest first.
    async fn media_uses(&self, namespace: &str, id: &str, limit: u32) -> Result<Vec<(String, Millis)>>;

    async fn media_of_post(&self, namespace: &str, post: &str) -> Result<Vec<StoredMedium>>;

    async fn media_totals(&self, namespace: &str) -> Result<Vec<MediaTotal>>;

    /// Reserves room for a file that the caller stores next. Its bytes count from now on, for all processes. No process
    /// removes it while the reservation is recent. `cap`: limit for the bytes of all files; 0: no limit.
    async fn reserve_file(&self, sha256: &str, bytes: i64, at: Millis, cap: i64) -> Result<FileReservation>;

    /// Checks up to `limit` files after the hash `after`, in order. Returns files that no process reserved since `before` and
    /// no stored medium has. They cannot be reserved for ten minutes from `now`; in that time the caller may remove them.
    async fn unused_files(&self, before: Millis, now: Millis, after: &str, limit: u32) -> Result<UnusedPage<String>>;

    /// Deletes the records of removed files that [`unused_files`](MediaStore::unused_files) returned at that `now`, and
    /// frees their bytes.
    async fn forget_files(&self, sha256: &[String], now: Millis) -> Result<()>;

    /// Returns the bytes of all files in all namespaces. A file that several media share counts once.
    async fn media_bytes(&self) -> Result<i64>;

    /// Checks up to `limit` media after the id `after`, in order. Removes their uses by posts of the namespace `posts`
    /// that were removed or whose content was removed. Uses first seen after `before` stay. Returns the media with a
    /// file that no post uses then.
    async fn unused_media(
        &self,
        namespace: &str,
        posts: &str,
        before: Millis,
        after: &str,
        limit: u32,
    ) -> Result<UnusedPage<StoredMedium>>;
}

fn word<S: serde::Serializer>(state: &MediaState, serializer: S) -> std::result::Result<S::Ok, S::Error> {
    serializer.serialize_str(state.as_str())
}

/// Media and their uses as JSON. One entry per medium, the newest video or else the newest: id, url, kind, at. Uses:
/// id, post, at.
pub(super) fn encode_media(seen: &[MediumSighting]) -> (String, String) {
    let mut media: Vec<_> = seen
        .iter()
        .map(|MediumSighting { medium: Medium { id, url, kind }, at, .. }| {
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

pub(super) fn encode_attempts(tried: &[FetchAttempt]) -> String {
    let mut rows: Vec<FetchAttempt> = tried.to_vec();
    for row in &mut rows {
        row.id = clean(&row.id).into_owned();
        row.reason = row.reason.as_deref().map(|reason| clean(reason).into_owned());
    }
    rows.sort_by(|one, other| (&one.id, other.at).cmp(&(&other.id, one.at)));
    rows.dedup_by(|later, first| later.id == first.id);
    serde_json::json!(rows).to_string()
}

pub(super) fn order_by_ids(asked: &[String], rows: Vec<StoredMedium>) -> Vec<Option<StoredMedium>> {
    let known: HashMap<String, StoredMedium> = rows.into_iter().map(|row| (row.id.clone(), row)).collect();
    asked.iter().map(|id| known.get(clean(id).as_ref()).cloned()).collect()
}

/// Time for which a medium that was given up rests, even if its address changes. Some addresses are signed and differ
/// in each answer.
const RETRY_PAUSE_MS: Millis = 86_400_000;

impl MediumSighting {
    /// Id of the post's author, as recorded or in the post's id; `None` if unknown.
    pub(super) fn author(&self) -> Option<&str> {
        self.author.as_deref().or_else(|| author_from_id(&self.post))
    }

    /// Returns true if the medium must be fetched, or fetched again; `sql/media/record` is the same rule in SQL. A waiting
    /// medium is in the queue, unless the queue rejected it.
    #[must_use]
    pub fn needs_fetch(&self, known: Option<&StoredMedium>) -> bool {
        let Some(known) = known else { return true };
        let is_photo = known.kind == MediaKind::Photo.as_str();
        let is_video = [MediaKind::Video, MediaKind::Gif].iter().any(|kind| kind.as_str() == known.kind);
        let rested = || known.checked_at.is_some_and(|at| at < self.at.saturating_sub(RETRY_PAUSE_MS));
        match known.state {
            MediaState::Waiting => true,
            // The thumbnail of a known video is not a separate file; the video of a known thumbnail is.
            _ if is_video && self.medium.kind == MediaKind::Photo => false,
            _ if is_photo && self.medium.kind.is_video() => true,
            MediaState::Removed => true,
            MediaState::Stored => false,
            MediaState::Gone | MediaState::Refused | MediaState::Failed => known.url != self.medium.url && rested(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_have_the_same_times() {
        for record in [sql!("media/record.pg"), sql!("media/record.lite")] {
            assert!(record.contains(&format!("excluded.first_at - {RETRY_PAUSE_MS}")), "{record}");
        }
        for unused in [sql!("media/unused_files.pg"), sql!("media/unused_files.lite")] {
            assert!(unused.contains(&format!("removing < $2 - {REMOVAL_MS}")), "{unused}");
        }
    }

    #[test]
    fn of_a_medium_given_twice_the_newest_address_and_each_use_is_taken() {
        let seen = |id: &str, url: &str, post: &str, at| MediumSighting {
            medium: Medium { id: id.to_owned(), url: url.to_owned(), kind: MediaKind::Photo },
            author: None,
            post: post.to_owned(),
            at,
        };
        let (media, uses) =
            encode_media(&[seen("b", "old", "1", 5), seen("a", "x", "1", 5), seen("b", "new\0", "2", 6)]);
        assert_eq!(media, r#"[["a","x","photo",5],["b","new�","photo",6]]"#);
        assert_eq!(uses, r#"[["a","1",5],["b","1",5],["b","2",6]]"#);
        let mut both = [seen("a", "video", "1", 5), seen("a", "thumbnail", "1", 6)];
        both[0].medium.kind = MediaKind::Video;
        assert_eq!(encode_media(&both).0, r#"[["a","video","video",5]]"#, "a thumbnail is no newer video");
        let tried = |at, attempts| FetchAttempt { id: "a".to_owned(), at, attempts, ..FetchAttempt::default() };
        let rows: serde_json::Value = serde_json::from_str(&encode_attempts(&[tried(1, 1), tried(2, 2)])).unwrap();
        assert_eq!((rows[0]["attempts"].as_i64(), rows[0]["state"].as_str()), (Some(2), Some("waiting")));
        assert_eq!(rows.as_array().unwrap().len(), 1);
    }
}
