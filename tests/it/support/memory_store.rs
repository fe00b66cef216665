//! A store in memory: a model of the contract for tests, and for nothing else. It forgets everything
//! with the process.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard};

use async_trait::async_trait;
use twitter_updater::base::clock::Millis;
use twitter_updater::model::post::{ItemState, Metrics, Tweet};
use twitter_updater::store::{
    BudgetCorrections, Budgets, Change, DeadResolution, Expiry, Finding, Lifecycle, ListedItem, Listing, MetricsAt,
    NewItem, Observation, Posts, RecordCounts, SaveCounts, Sighting, Standing, StateCounts, StoreError, StoredTweet,
    Way,
};

use super::account_store::AccountInMemory;
use super::media_store::MediaInMemory;
use super::memory_edges::EdgesInMemory;

type Key = (String, String);

/// All that is stored of an account.
pub struct Known {
    /// Its life.
    pub row: StoredTweet,
    /// What answers said of it.
    pub account: Option<AccountInMemory>,
    /// Its posts, and when they were made.
    pub posts: BTreeMap<String, Millis>,
}

/// Tweets and their history, by namespace and id.
#[derive(Debug, Default)]
pub struct MemoryStore {
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    tweets: BTreeMap<Key, StoredTweet>,
    history: BTreeMap<Key, Vec<MetricsAt>>,
    accounts: BTreeMap<Key, AccountInMemory>,
    posts: BTreeMap<Key, BTreeMap<String, Millis>>,
    learnt: BTreeMap<String, BudgetCorrections>,
    media: MediaInMemory,
    edges: EdgesInMemory,
    /// The error of every call, while there is one.
    down: Option<String>,
}

impl MemoryStore {
    /// From now on every call is answered with *unavailable* (a reason), or works again (`None`).
    pub fn set_down(&self, why: Option<&str>) {
        self.inner.lock().unwrap().down = why.map(str::to_owned);
    }

    /// An account that is recorded.
    pub fn known(&self, namespace: &str, id: &str) -> Result<Option<Known>, StoreError> {
        let (inner, key) = (self.lock()?, key(namespace, id));
        let known = |row: &StoredTweet| Known {
            row: row.clone(),
            account: inner.accounts.get(&key).cloned(),
            posts: inner.posts.get(&key).cloned().unwrap_or_default(),
        };
        Ok(inner.tweets.get(&key).map(known))
    }

    /// Works on the media, with the ids of a namespace that are recorded.
    pub fn with_media<T>(
        &self,
        namespace: &str,
        work: impl FnOnce(&mut MediaInMemory, &dyn Fn(&str) -> bool) -> T,
    ) -> Result<T, StoreError> {
        let mut inner = self.lock()?;
        let Inner { tweets, media, .. } = &mut *inner;
        Ok(work(media, &|id| tweets.contains_key(&key(namespace, id))))
    }

    /// Adds the rows of items that have none.
    pub fn add_rows<'a>(
        &self,
        namespace: &str,
        items: impl Iterator<Item = (&'a str, Millis)>,
    ) -> Result<(), StoreError> {
        let mut inner = self.lock()?;
        for (id, at) in items {
            inner.tweets.entry(key(namespace, id)).or_insert_with(|| blank(id, at));
        }
        Ok(())
    }

    /// Works on the lists.
    pub fn with_edges<T>(&self, work: impl FnOnce(&mut EdgesInMemory) -> T) -> Result<T, StoreError> {
        Ok(work(&mut self.lock()?.edges))
    }

    /// Changes an account, which is made where there is none.
    pub fn with_account(
        &self,
        namespace: &str,
        id: &str,
        change: impl FnOnce(&mut AccountInMemory),
    ) -> Result<(), StoreError> {
        change(self.lock()?.accounts.entry(key(namespace, id)).or_default());
        Ok(())
    }

    /// Records a post of an account that is recorded, and changes the account if an answer told of it.
    pub fn sighted(
        &self,
        namespace: &str,
        seen: &Sighting,
        change: impl FnOnce(&mut AccountInMemory),
    ) -> Result<(), StoreError> {
        let (mut inner, key) = (self.lock()?, key(namespace, &seen.account));
        if inner.tweets.contains_key(&key) {
            inner.posts.entry(key.clone()).or_default().entry(seen.post.clone()).or_insert(seen.at);
        }
        if let Some(account) = inner.accounts.get_mut(&key) {
            change(account);
        }
        Ok(())
    }

    fn lock(&self) -> Result<MutexGuard<'_, Inner>, StoreError> {
        let inner = self.inner.lock().unwrap();
        match &inner.down {
            Some(why) => Err(StoreError::Unavailable(why.clone())),
            None => Ok(inner),
        }
    }
}

fn key(namespace: &str, id: &str) -> Key {
    (namespace.to_owned(), id.to_owned())
}

fn blank(id: &str, first_seen: Millis) -> StoredTweet {
    StoredTweet { id: id.to_owned(), first_seen, ..StoredTweet::default() }
}

/// What an answer says of a tweet that is there.
fn take(row: &mut StoredTweet, tweet: &Tweet, follow: Option<&String>) {
    let current = follow.or(Some(&tweet.id).filter(|id| **id != row.id));
    row.created_at = match current {
        Some(_) => row.created_at.or(tweet.created_at),
        None => tweet.created_at.or(row.created_at),
    };
    row.current_id = current.cloned();
    row.metrics = tweet.metrics.or(row.metrics);
    row.text = tweet.text.clone().or(row.text.take());
    row.author_id = tweet.author_id.clone().or(row.author_id.take());
    row.author_name = tweet.author_name.clone().or(row.author_name.take());
    row.withheld_in.clone_from(&tweet.withheld_in);
    row.raw = Some(tweet.raw.clone());
    (row.misses, row.missing_since, row.missing_reason, row.unreadable) = (0, None, None, None);
}

/// Counts of a known time that came with a tweet.
fn count(row: &mut StoredTweet, history: &mut Vec<MetricsAt>, tweet: &NewItem) {
    let (Some(at), Some(content)) = (tweet.read_at, &tweet.content) else { return };
    let is_taken = row.state != ItemState::Dead && row.misses == 0 && row.checked_at < Some(at);
    if content.metrics == Metrics::default() || !is_taken {
        return;
    }
    let before = row.metrics;
    (row.checked_at, row.metrics, row.recent) = (Some(at), content.metrics.or(before), None);
    if row.metrics != before || history.is_empty() {
        history.push(MetricsAt { checked_at: at, metrics: row.metrics });
    }
}

#[async_trait]
impl Lifecycle for MemoryStore {
    async fn migrate(&self) -> Result<(), StoreError> {
        self.lock().map(|_| ())
    }

    async fn check(&self) -> Result<(), StoreError> {
        self.lock().map(|_| ())
    }

    async fn record(
        &self,
        namespace: &str,
        at: Millis,
        _way: &Way,
        tweets: &[NewItem],
    ) -> Result<RecordCounts, StoreError> {
        let mut inner = self.lock()?;
        let Inner { tweets: rows, history, .. } = &mut *inner;
        let mut recorded = RecordCounts::default();
        for tweet in tweets {
            let key = key(namespace, &tweet.id);
            let Some(row) = rows.get_mut(&key) else {
                let mut row = blank(&tweet.id, at);
                row.created_at = tweet.created_at;
                row.next_due = tweet.next_due;
                if tweet.next_due.is_none() {
                    row.state = ItemState::Ended;
                }
                if let Some(content) = &tweet.content {
                    take(&mut row, content, None);
                    row.created_at = tweet.created_at;
                }
                count(&mut row, history.entry(key.clone()).or_default(), tweet);
                rows.insert(key, row);
                recorded.new += 1;
                continue;
            };
            if row.state == ItemState::Ended && tweet.next_due.is_some() {
                row.state = ItemState::Live;
                row.next_due = tweet.next_due;
                recorded.revived += 1;
            } else {
                recorded.known += 1;
            }
            count(row, history.entry(key).or_default(), tweet);
        }
        Ok(recorded)
    }

    async fn standing(&self, namespace: &str, ids: &[String]) -> Result<Vec<Option<Standing>>, StoreError> {
        let inner = self.lock()?;
        let standing = |row: &StoredTweet| Standing {
            state: row.state,
            created_at: row.created_at,
            checked_at: row.checked_at,
            misses: row.misses,
            missing_since: row.missing_since,
            first_seen: row.first_seen,
            lookups: row.lookups,
            current_id: row.current_id.clone(),
            unreadable: row.unreadable.clone(),
            metrics: row.metrics,
            recent: row.recent,
            once: false, // it keeps no ways
            is_blanked: row.raw.is_none() && row.lookups > row.misses,
        };
        Ok(ids.iter().map(|id| inner.tweets.get(&key(namespace, id)).map(standing)).collect())
    }

    async fn mark_dead(&self, namespace: &str, at: Millis, ids: &[(String, String)]) -> Result<(), StoreError> {
        let mut inner = self.lock()?;
        for (id, reason) in ids {
            let row = inner.tweets.entry(key(namespace, id)).or_insert_with(|| blank(id, at));
            row.state = ItemState::Dead;
            row.reason = Some(reason.clone());
            row.next_due = None;
        }
        Ok(())
    }

    async fn resolve_dead(&self, namespace: &str, at: Millis, tweets: &[DeadResolution]) -> Result<(), StoreError> {
        let mut inner = self.lock()?;
        for tweet in tweets {
            let key = key(namespace, &tweet.id);
            let fresh = !inner.tweets.contains_key(&key);
            let row = inner.tweets.entry(key).or_insert_with(|| blank(&tweet.id, at));
            if fresh || row.state == ItemState::Dead {
                row.state = if tweet.next_due.is_some() { ItemState::Live } else { ItemState::Ended };
                row.created_at = row.created_at.or(tweet.created_at);
                row.next_due = tweet.next_due;
                row.lookups = if row.lookups > row.misses { row.lookups } else { 0 };
                (row.misses, row.missing_since, row.missing_reason, row.reason) = (0, None, None, None);
            }
        }
        Ok(())
    }

    async fn promote(&self, namespace: &str, ids: &[(String, Millis)]) -> Result<(), StoreError> {
        let mut inner = self.lock()?;
        for (id, due) in ids {
            if let Some(row) = inner.tweets.get_mut(&key(namespace, id))
                && matches!(row.state, ItemState::Live | ItemState::Unavailable)
            {
                row.next_due = Some(row.next_due.map_or(*due, |known| known.min(*due)));
            }
        }
        Ok(())
    }

    async fn page(
        &self,
        namespace: &str,
        of: Listing,
        below: Option<&str>,
        limit: u32,
    ) -> Result<Vec<ListedItem>, StoreError> {
        let listed = |row: &StoredTweet| ListedItem {
            id: row.id.clone(),
            state: row.state,
            created_at: row.created_at,
            next_due: row.next_due,
            checked_at: row.checked_at,
            reason: row.reason.clone(),
            once: false,
        };
        let is_of = |row: &StoredTweet| match row.state {
            ItemState::Live | ItemState::Unavailable => of == Listing::Tracked,
            ItemState::Dead => of == Listing::Dead,
            ItemState::Ended => of == Listing::Ended,
        };
        let inner = self.lock()?;
        let rows = inner.tweets.iter().rev().filter(|((space, _), _)| space == namespace).map(|(_, row)| row);
        let below = |row: &&StoredTweet| below.is_none_or(|below| *row.id < *below);
        Ok(rows.filter(below).filter(|row| is_of(row)).take(limit as usize).map(listed).collect())
    }

    async fn remove(&self, namespace: &str, which: Expiry, ids: &[String]) -> Result<u64, StoreError> {
        let is_expired = |row: &StoredTweet| match which {
            Expiry::Before(moment) => row.checked_at.unwrap_or(row.first_seen) < moment,
            Expiry::Deleted => row.misses > 0 && row.lookups > row.misses && row.raw.is_none(),
        };
        let mut inner = self.lock()?;
        let mut removed = 0;
        for key in ids.iter().map(|id| key(namespace, id)) {
            let row = inner.tweets.get(&key);
            let is_over = row.is_some_and(|row| row.state == ItemState::Ended && is_expired(row));
            if is_over && inner.media.forget(&key) {
                inner.tweets.remove(&key);
                inner.history.remove(&key);
                removed += 1;
            }
        }
        Ok(removed)
    }

    async fn ways(&self, _namespace: &str, _id: &str) -> Result<Vec<(Millis, Way)>, StoreError> {
        unimplemented!("no test asks the memory for it")
    }

    async fn counts(&self, namespace: &str) -> Result<StateCounts, StoreError> {
        let inner = self.lock()?;
        let mut counts = StateCounts::default();
        for row in inner.tweets.iter().filter(|((of, _), _)| of == namespace).map(|(_, row)| row) {
            match row.state {
                ItemState::Live => counts.live += 1,
                ItemState::Unavailable => counts.unavailable += 1,
                ItemState::Ended => counts.ended += 1,
                ItemState::Dead => counts.dead += 1,
            }
        }
        Ok(counts)
    }
}

#[async_trait]
impl Posts for MemoryStore {
    async fn save(&self, namespace: &str, observations: &[Observation]) -> Result<SaveCounts, StoreError> {
        let mut inner = self.lock()?;
        let Inner { tweets, history, .. } = &mut *inner;
        let mut saved = SaveCounts::default();
        for seen in observations {
            let key = key(namespace, &seen.id);
            let known = tweets.contains_key(&key);
            let row = tweets.entry(key.clone()).or_insert_with(|| blank(&seen.id, seen.answered_at));
            if row.state == ItemState::Dead || row.checked_at.is_some_and(|at| at > seen.answered_at) {
                saved.older += 1;
                continue;
            }
            saved.saved += 1;
            if row.checked_at == Some(seen.answered_at) {
                continue; // the same answer again
            }
            // What the ingest knew is no answer: the first one always makes a row, if it has counts.
            let before = if row.checked_at.is_some() { row.metrics } else { Metrics::default() };
            let mut counted = None;
            match &seen.finding {
                Finding::Found(tweet) => {
                    take(row, tweet, seen.follow.as_ref());
                    counted = Some(tweet.metrics.or(before));
                }
                Finding::Missing { misses, since, reason, .. } => {
                    (row.misses, row.missing_since) = (*misses, Some(*since));
                    row.missing_reason = reason.map(|reason| reason.as_str().to_owned());
                    (row.current_id, row.unreadable) = (None, None);
                }
                Finding::Broken(why) => row.unreadable = Some(why.clone()),
            }
            if counted.is_some_and(|after| after != before) {
                let at = MetricsAt { checked_at: seen.answered_at, metrics: row.metrics };
                history.entry(key).or_default().push(at);
                saved.changed += 1;
            }
            if !matches!(seen.finding, Finding::Broken(_)) {
                row.checked_at = Some(seen.answered_at);
                // A miss has no counts: what was learnt stays.
                if !known || !matches!(seen.finding, Finding::Missing { misses: 1.., .. }) {
                    row.recent = seen.recent;
                }
                row.lookups += 1;
            }
            row.state = seen.state;
            row.next_due = seen.next_due;
        }
        Ok(saved)
    }

    async fn tweet(&self, namespace: &str, id: &str) -> Result<Option<StoredTweet>, StoreError> {
        Ok(self.lock()?.tweets.get(&key(namespace, id)).cloned())
    }

    async fn history(&self, namespace: &str, id: &str) -> Result<Vec<MetricsAt>, StoreError> {
        Ok(self.lock()?.history.get(&key(namespace, id)).cloned().unwrap_or_default())
    }

    async fn changes(&self, _namespace: &str, _id: &str) -> Result<Vec<Change>, StoreError> {
        unimplemented!("no test asks the memory for it")
    }
}

#[async_trait]
impl Budgets for MemoryStore {
    async fn corrections(&self, namespace: &str) -> Result<Option<BudgetCorrections>, StoreError> {
        Ok(self.lock()?.learnt.get(namespace).copied())
    }

    async fn replace_corrections(
        &self,
        namespace: &str,
        before: Option<Millis>,
        learnt: &BudgetCorrections,
    ) -> Result<bool, StoreError> {
        let mut inner = self.lock()?;
        let is_still = inner.learnt.get(namespace).map(|known| known.at) == before;
        if is_still {
            inner.learnt.insert(namespace.to_owned(), *learnt);
        }
        Ok(is_still)
    }
}
