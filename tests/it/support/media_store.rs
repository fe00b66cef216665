//! Media in the stores of tests: in memory, as a model of the contract, and handed on by stores that wrap others.

use std::collections::{BTreeMap, BTreeSet};

use async_trait::async_trait;
use twitter_updater::base::clock::Millis;
use twitter_updater::model::media::{MediaKind, MediaState};
use twitter_updater::store::{
    FetchAttempt, FileReservation, MediaStore, MediaTotal, MediumSighting, ReservationOutcome, StoreError,
    StoredMedium, UnusedPage,
};

use super::memory_store::MemoryStore;

type Key = (String, String);

/// Calls a method of a field.
macro_rules! call_straight {
    ($self:ident . $field:ident . $call:ident ($($argument:ident),*)) => { $self.$field.$call($(&$argument),*).await };
}

/// Hands the calls about media on to a field; those of a worker by the macro that is named, if one is.
macro_rules! hand_on_media {
    ($store:ty, $field:ident) => {
        crate::support::media_store::hand_on_media!($store, $field, crate::support::media_store::call_straight);
    };
    ($store:ty, $field:ident, $pass_on:path) => {
        const _: () = {
            use twitter_updater::base::clock::Millis;
            use twitter_updater::store::{
                FetchAttempt, FileReservation, MediaStore, MediaTotal, MediumSighting, StoreError, StoredMedium,
                UnusedPage,
            };

            #[async_trait::async_trait]
            impl MediaStore for $store {
                async fn record_media(&self, namespace: &str, seen: &[MediumSighting]) -> Result<(), StoreError> {
                    let (namespace, seen) = (namespace.to_owned(), seen.to_vec());
                    $pass_on!(self.$field.record_media(namespace, seen))
                }

                async fn media(
                    &self,
                    namespace: &str,
                    ids: &[String],
                ) -> Result<Vec<Option<StoredMedium>>, StoreError> {
                    let (namespace, ids) = (namespace.to_owned(), ids.to_vec());
                    $pass_on!(self.$field.media(namespace, ids))
                }

                async fn save_media(&self, namespace: &str, tried: &[FetchAttempt]) -> Result<Vec<String>, StoreError> {
                    let (namespace, tried) = (namespace.to_owned(), tried.to_vec());
                    $pass_on!(self.$field.save_media(namespace, tried))
                }

                async fn media_uses(
                    &self,
                    namespace: &str,
                    id: &str,
                    limit: u32,
                ) -> Result<Vec<(String, Millis)>, StoreError> {
                    self.$field.media_uses(namespace, id, limit).await
                }

                async fn media_of_post(&self, namespace: &str, post: &str) -> Result<Vec<StoredMedium>, StoreError> {
                    self.$field.media_of_post(namespace, post).await
                }

                async fn media_totals(&self, namespace: &str) -> Result<Vec<MediaTotal>, StoreError> {
                    self.$field.media_totals(namespace).await
                }

                async fn media_bytes(&self) -> Result<i64, StoreError> {
                    self.$field.media_bytes().await
                }

                async fn unused_media(
                    &self,
                    namespace: &str,
                    posts: &str,
                    before: Millis,
                    after: &str,
                    limit: u32,
                ) -> Result<UnusedPage<StoredMedium>, StoreError> {
                    self.$field.unused_media(namespace, posts, before, after, limit).await
                }

                async fn reserve_file(
                    &self,
                    sha256: &str,
                    bytes: i64,
                    at: Millis,
                    cap: i64,
                ) -> Result<FileReservation, StoreError> {
                    self.$field.reserve_file(sha256, bytes, at, cap).await
                }

                async fn unused_files(
                    &self,
                    before: Millis,
                    now: Millis,
                    after: &str,
                    limit: u32,
                ) -> Result<UnusedPage<String>, StoreError> {
                    self.$field.unused_files(before, now, after, limit).await
                }

                async fn forget_files(&self, sha256: &[String], now: Millis) -> Result<(), StoreError> {
                    self.$field.forget_files(sha256, now).await
                }
            }
        };
    };
}

pub(crate) use {call_straight, hand_on_media};

/// Media and the posts that show them.
#[derive(Debug, Default)]
pub struct MediaInMemory {
    media: BTreeMap<Key, StoredMedium>,
    uses: BTreeMap<Key, BTreeMap<String, Millis>>,
    files: BTreeMap<String, FileInMemory>,
}

#[derive(Debug, Default)]
struct FileInMemory {
    bytes: i64,
    at: Millis,
    removing: Option<Millis>,
}

impl MediaInMemory {
    fn record(&mut self, namespace: &str, seen: &MediumSighting) {
        let key = (namespace.to_owned(), seen.medium.id.clone());
        let new = || StoredMedium {
            id: seen.medium.id.clone(),
            kind: seen.medium.kind.as_str().to_owned(),
            first_at: seen.at,
            ..StoredMedium::default()
        };
        let known = self.media.entry(key.clone()).or_insert_with(new);
        let is_thumbnail = seen.medium.kind == MediaKind::Photo && matches!(&*known.kind, "video" | "gif");
        if seen.needs_fetch(Some(known)) && !is_thumbnail {
            if known.state != MediaState::Waiting {
                (known.attempts, known.failing_since, known.reason) = (0, None, None);
            }
            (known.state, known.url) = (MediaState::Waiting, seen.medium.url.clone());
            if seen.medium.kind != MediaKind::Unknown {
                known.kind = seen.medium.kind.as_str().to_owned();
            }
        }
        self.uses.entry(key).or_default().entry(seen.post.clone()).or_insert(seen.at);
    }

    fn save(&mut self, namespace: &str, tried: &FetchAttempt) -> bool {
        let key = (namespace.to_owned(), tried.id.clone());
        let is_used = self.uses.get(&key).is_some_and(|uses| !uses.is_empty());
        let Some(known) = self.media.get_mut(&key) else { return false };
        let is_there =
            |sha256: &String| self.files.get(sha256).is_some_and(|file: &FileInMemory| file.removing.is_none());
        let has_file = tried.state != MediaState::Stored || tried.sha256.as_ref().is_some_and(is_there);
        let waits = known.state == MediaState::Waiting && known.checked_at <= Some(tried.at) && has_file;
        let is_removed = (known.state, tried.state) == (MediaState::Stored, MediaState::Removed) && !is_used;
        let is_taken = waits || is_removed;
        if is_taken {
            let tried = tried.clone();
            known.state = tried.state;
            known.url = tried.url.unwrap_or_else(|| known.url.clone());
            known.bytes = tried.bytes.or(known.bytes);
            known.file_type = tried.file_type.or(known.file_type.take());
            known.sha256 = tried.sha256.or(known.sha256.take());
            (known.attempts, known.failing_since) = (tried.attempts, tried.failing_since);
            (known.reason, known.checked_at) = (tried.reason, Some(tried.at));
        }
        is_taken
    }

    /// Removes one without a file; returns false if it has one.
    pub fn forget(&mut self, key: &Key) -> bool {
        if self.media.get(key).is_some_and(|medium| medium.state == MediaState::Stored) {
            return false;
        }
        self.media.remove(key);
        self.uses.remove(key);
        true
    }

    fn used(&self) -> i64 {
        self.files.values().map(|file| file.bytes).sum()
    }

    fn take(&mut self, sha256: &str, bytes: i64, at: Millis, cap: i64) -> ReservationOutcome {
        let used = self.used();
        match self.files.get_mut(sha256) {
            Some(file) if file.removing.is_some_and(|since| since >= at - 600_000) => ReservationOutcome::Busy,
            Some(file) => {
                (file.at, file.removing) = (file.at.max(at), None);
                ReservationOutcome::Known
            }
            None if cap > 0 && used + bytes > cap => ReservationOutcome::Full,
            None => {
                self.files.insert(sha256.to_owned(), FileInMemory { bytes, at, removing: None });
                ReservationOutcome::New
            }
        }
    }

    fn of<'a>(&'a self, namespace: &'a str) -> impl Iterator<Item = &'a StoredMedium> {
        self.media.iter().filter(move |((of, _), _)| of == namespace).map(|(_, medium)| medium)
    }
}

#[async_trait]
impl MediaStore for MemoryStore {
    async fn record_media(&self, namespace: &str, seen: &[MediumSighting]) -> Result<(), StoreError> {
        self.add_rows(namespace, seen.iter().map(|seen| (&*seen.medium.id, seen.at)))?;
        self.with_media(namespace, |media, _| {
            let mut seen: Vec<&MediumSighting> = seen.iter().collect();
            seen.sort_by_key(|seen| seen.at);
            seen.into_iter().for_each(|seen| media.record(namespace, seen));
        })
    }

    async fn media(&self, namespace: &str, ids: &[String]) -> Result<Vec<Option<StoredMedium>>, StoreError> {
        let get = |id: &String, media: &MediaInMemory| media.media.get(&(namespace.to_owned(), id.clone())).cloned();
        self.with_media(namespace, |media, _| ids.iter().map(|id| get(id, media)).collect())
    }

    async fn save_media(&self, namespace: &str, tried: &[FetchAttempt]) -> Result<Vec<String>, StoreError> {
        self.with_media(namespace, |media, _| {
            let saved = tried.iter().filter(|tried| media.save(namespace, tried));
            saved.map(|tried| tried.id.clone()).collect()
        })
    }

    async fn media_uses(&self, namespace: &str, id: &str, limit: u32) -> Result<Vec<(String, Millis)>, StoreError> {
        let mut uses: Vec<(String, Millis)> = self.with_media(namespace, |media, _| {
            let uses = media.uses.get(&(namespace.to_owned(), id.to_owned())).cloned();
            uses.unwrap_or_default().into_iter().collect()
        })?;
        uses.sort_by(|one, other| (one.1, &one.0).cmp(&(other.1, &other.0)));
        uses.truncate(limit as usize);
        Ok(uses)
    }

    async fn media_of_post(&self, namespace: &str, post: &str) -> Result<Vec<StoredMedium>, StoreError> {
        self.with_media(namespace, |media, _| {
            let shows = |medium: &&StoredMedium| {
                media.uses.get(&(namespace.to_owned(), medium.id.clone())).is_some_and(|of| of.contains_key(post))
            };
            media.of(namespace).filter(shows).cloned().collect()
        })
    }

    async fn media_totals(&self, namespace: &str) -> Result<Vec<MediaTotal>, StoreError> {
        let mut totals = BTreeMap::<&str, MediaTotal>::new();
        self.with_media(namespace, |media, _| {
            for medium in media.of(namespace) {
                let total = totals.entry(medium.state.as_str()).or_default();
                total.state = medium.state;
                total.media += 1;
                total.bytes += medium.bytes.unwrap_or(0);
            }
        })?;
        Ok(totals.into_values().collect())
    }

    async fn media_bytes(&self) -> Result<i64, StoreError> {
        self.with_media("", |media, _| media.used())
    }

    async fn unused_media(
        &self,
        namespace: &str,
        posts: &str,
        before: Millis,
        after: &str,
        limit: u32,
    ) -> Result<UnusedPage<StoredMedium>, StoreError> {
        // Of the model's posts none is forgotten: only removed ones are looked for.
        let known: BTreeSet<Key> = self.with_media(posts, |media, is_recorded| {
            let shown = media.uses.values().flat_map(BTreeMap::keys);
            shown.filter(|post| is_recorded(post)).map(|post| (posts.to_owned(), post.clone())).collect()
        })?;
        self.with_media(namespace, |media, _| {
            let of = media.of(namespace).filter(|medium| *medium.id > *after);
            let page: Vec<String> = of.take(limit as usize).map(|medium| medium.id.clone()).collect();
            let mut unused = Vec::new();
            for id in &page {
                let key = (namespace.to_owned(), id.clone());
                let uses = media.uses.entry(key.clone()).or_default();
                uses.retain(|post, at| *at >= before || known.contains(&(posts.to_owned(), post.clone())));
                let is_stored = |medium: &&StoredMedium| medium.state == MediaState::Stored;
                unused.extend(media.media.get(&key).filter(is_stored).filter(|_| uses.is_empty()).cloned());
            }
            let next = page.last().filter(|_| page.len() == limit as usize).cloned();
            UnusedPage { unused, next }
        })
    }

    async fn reserve_file(
        &self,
        sha256: &str,
        bytes: i64,
        at: Millis,
        cap: i64,
    ) -> Result<FileReservation, StoreError> {
        self.with_media("", |media, _| {
            let taken = media.take(sha256, bytes, at, cap);
            FileReservation { taken, used: media.used() }
        })
    }

    async fn unused_files(
        &self,
        before: Millis,
        now: Millis,
        after: &str,
        limit: u32,
    ) -> Result<UnusedPage<String>, StoreError> {
        self.with_media("", |media, _| {
            let stored = media.media.values().filter(|medium| medium.state == MediaState::Stored);
            let used: BTreeSet<String> = stored.filter_map(|medium| medium.sha256.clone()).collect();
            let page = media.files.iter_mut().filter(|(sha256, _)| ***sha256 > *after).take(limit as usize);
            let (mut unused, mut last, mut count) = (Vec::new(), None, 0);
            for (sha256, file) in page {
                (last, count) = (Some(sha256.clone()), count + 1);
                let is_left_alone = file.removing.is_none_or(|since| since < now - 600_000);
                if file.at < before && is_left_alone && !used.contains(sha256) {
                    file.removing = Some(now);
                    unused.push(sha256.clone());
                }
            }
            UnusedPage { unused, next: last.filter(|_| count == limit) }
        })
    }

    async fn forget_files(&self, sha256: &[String], now: Millis) -> Result<(), StoreError> {
        self.with_media("", |media, _| {
            media.files.retain(|of, file| !sha256.contains(of) || file.removing != Some(now));
        })
    }
}
