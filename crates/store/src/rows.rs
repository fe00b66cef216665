//! Rows as stored: input, the same for a recorded, answered or dead post, and output. The statements in
//! `sql/posts` define the effect on an existing row.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::HashMap;

use super::{DeadResolution, Expiry, Finding, Listing, NewItem, Observation, StateCounts, Way};
use engine::base::clock::Millis;
use networks::model::account::Absence;
use networks::model::bound::{LONGEST_TEXT, truncate_object, truncate_text};
use networks::model::post::{Details, ItemState, Metrics, Tweet};

/// Stored as `raw`, it removes the content of a post: see `sql/posts/merge.lite.sql`.
pub(super) const FORGOTTEN: &str = "";

#[derive(Debug, Clone)]
pub(super) struct Row<'a> {
    pub id: Cow<'a, str>,
    pub state: ItemState,
    pub created_at: Option<Millis>,
    pub current_id: Option<Cow<'a, str>>,
    pub text: Option<Cow<'a, str>>,
    pub author_id: Option<Cow<'a, str>>,
    pub author_name: Option<Cow<'a, str>>,
    pub metrics: Metrics,
    pub withheld_in: Option<Cow<'a, str>>,
    pub raw: Option<Cow<'a, str>>,
    /// Time of the row's data; for an answer, the time of the answer. An existing row keeps its own.
    pub first_seen: Millis,
    pub checked_at: Option<Millis>,
    pub changed_at: Option<Millis>,
    pub next_due: Option<Millis>,
    pub lookups: i64,
    pub misses: i64,
    pub missing_since: Option<Millis>,
    pub reason: Option<Cow<'a, str>>,
    pub details: Cow<'a, Details>,
    pub unreadable: Option<Cow<'a, str>>,
    pub recent: Option<f64>,
    pub missing_reason: Option<&'static str>,
}

impl<'a> Row<'a> {
    pub(super) fn is_forgotten(&self) -> bool {
        self.raw.as_deref() == Some(FORGOTTEN)
    }

    fn new(id: &'a str, state: ItemState, first_seen: Millis) -> Self {
        Self {
            id: clean(id),
            state,
            created_at: None,
            current_id: None,
            text: None,
            author_id: None,
            author_name: None,
            metrics: Metrics::default(),
            withheld_in: None,
            raw: None,
            first_seen,
            checked_at: None,
            changed_at: None,
            next_due: None,
            lookups: 0,
            misses: 0,
            missing_since: None,
            reason: None,
            details: Cow::Owned(Details::default()),
            unreadable: None,
            recent: None,
            missing_reason: None,
        }
    }

    pub fn to_record(at: Millis, new: &'a NewItem) -> Self {
        let state = if new.next_due.is_some() { ItemState::Live } else { ItemState::Ended };
        let mut row = Self::new(&new.id, state, at);
        if let Some(content) = &new.content {
            row.fill(content);
        }
        row.created_at = new.created_at;
        row.next_due = new.next_due;
        row
    }

    pub fn is_bare(&self) -> bool {
        self.raw.is_none()
    }

    pub fn to_save(seen: &'a Observation) -> Self {
        let mut row = Self::new(&seen.id, seen.state, seen.answered_at);
        row.next_due = seen.next_due;
        // A broken answer counts as no answer, so the row it creates has no answer yet.
        if !matches!(seen.finding, Finding::Broken(_)) {
            row.checked_at = Some(seen.answered_at);
            row.lookups = 1;
            row.recent = seen.recent;
        }
        match &seen.finding {
            Finding::Found(tweet) => row.fill(tweet),
            Finding::Missing { misses, since, reason, .. } => {
                row.misses = *misses;
                row.missing_since = Some(*since);
                row.missing_reason = reason.map(Absence::as_str);
            }
            Finding::Broken(why) => row.unreadable = Some(clean(why)),
        }
        if let Some(newer) = &seen.follow {
            row.current_id = Some(clean(newer));
        }
        if seen.forget {
            row.raw = Some(FORGOTTEN.into());
        }
        row.changed_at = row.checked_at.filter(|_| row.metrics != Metrics::default());
        row
    }

    pub fn to_mark_dead(at: Millis, id: &'a str, reason: &'a str) -> Self {
        let mut row = Self::new(id, ItemState::Dead, at);
        row.reason = Some(clean(reason));
        row
    }

    pub fn to_resolve(at: Millis, resolution: &'a DeadResolution) -> Self {
        let state = if resolution.next_due.is_some() { ItemState::Live } else { ItemState::Ended };
        let mut row = Self::new(&resolution.id, state, at);
        row.created_at = resolution.created_at;
        row.next_due = resolution.next_due;
        row
    }

    fn fill(&mut self, tweet: &'a Tweet) {
        let current = clean(&tweet.id);
        self.created_at = tweet.created_at;
        self.current_id = (current != self.id).then_some(current);
        self.text = tweet.text.as_deref().map(clean);
        self.author_id = tweet.author_id.as_deref().map(clean);
        self.author_name = tweet.author_name.as_deref().map(clean);
        self.metrics = tweet.metrics;
        self.details = clean_details(&tweet.details);
        self.withheld_in = tweet.withheld_in.as_deref().map(clean);
        self.raw = Some(clean_object(&tweet.raw));
        if tweet.text.as_deref().is_some_and(|text| text.len() > LONGEST_TEXT) {
            self.details.to_mut().truncated = Some(true);
        }
    }
}

/// Returns one row per id, sorted by the bytes of the id, which is the lock order. A statement must not touch a row
/// twice. `better(new, kept)` returns true if the later of two rows of one id replaces the earlier.
pub(super) fn dedup_by_id<'a>(
    rows: impl Iterator<Item = Row<'a>>,
    better: impl Fn(&Row<'a>, &Row<'a>) -> bool,
) -> Vec<Row<'a>> {
    let mut rows: Vec<Row<'a>> = rows.collect();
    rows.sort_by(|one, other| one.id.cmp(&other.id)); // in order already, mostly; equal ids stay in theirs
    rows.dedup_by(|next, kept| {
        let is_same = next.id == kept.id;
        if is_same && better(next, kept) {
            std::mem::swap(next, kept);
        }
        is_same
    });
    rows
}

/// Rows of [`super::Lifecycle::record`]; of an id given twice, the first with a due time.
pub(super) fn rows_to_record(at: Millis, tweets: &[NewItem]) -> Vec<Row<'_>> {
    dedup_by_id(tweets.iter().map(|new| Row::to_record(at, new)), |new, kept| {
        kept.next_due.is_none() && new.next_due.is_some()
    })
}

/// Counts with a known time, as JSON for both databases: a list of \[id, read at, retweet_count, …\]. Of an id given
/// twice, the newest.
pub(super) fn encode_counts(tweets: &[NewItem]) -> Option<String> {
    let read = tweets.iter().filter_map(|new| Some((new.id.as_str(), new.read_at?, new.content.as_ref()?.metrics)));
    let mut read: Vec<_> = read.filter(|(.., metrics)| *metrics != Metrics::default()).collect();
    read.sort_by_key(|(id, at, _)| (*id, Reverse(*at)));
    read.dedup_by_key(|(id, ..)| *id);
    let values = |(id, at, of): &(&str, Millis, Metrics)| {
        let Metrics { retweet_count, favorite_count, reply_count, quote_count, bookmark_count, impression_count } = of;
        let id = clean(id);
        serde_json::json!([
            id,
            at,
            retweet_count,
            favorite_count,
            reply_count,
            quote_count,
            bookmark_count,
            impression_count
        ])
    };
    (!read.is_empty()).then(|| serde_json::Value::from_iter(read.iter().map(values)).to_string())
}

/// Rows of [`super::Posts::save`]; of an id given twice, the newest answer.
pub(super) fn rows_to_save(observations: &[Observation]) -> Vec<Row<'_>> {
    dedup_by_id(observations.iter().map(Row::to_save), |new, kept| new.first_seen > kept.first_seen)
}

/// Rows of [`super::Lifecycle::mark_dead`]; of an id given twice, the first.
pub(super) fn dead_rows<'a>(at: Millis, ids: &'a [(String, String)]) -> Vec<Row<'a>> {
    dedup_by_id(ids.iter().map(|(id, reason)| Row::to_mark_dead(at, id, reason)), |_, _| false)
}

/// Rows of [`super::Lifecycle::resolve_dead`]; of an id given twice, the first.
pub(super) fn rows_to_resolve(at: Millis, tweets: &[DeadResolution]) -> Vec<Row<'_>> {
    dedup_by_id(tweets.iter().map(|tweet| Row::to_resolve(at, tweet)), |_, _| false)
}

/// Makes a text storable. PostgreSQL rejects a whole statement for one NUL character, and SQLite's own functions stop
/// at it. In both it becomes U+FFFD, so that one broken value does not cost a batch. A text that is too long is cut and
/// marked ([`bounded`]).
pub(super) fn clean(text: &str) -> Cow<'_, str> {
    match truncate_text(text) {
        Cow::Borrowed(text) => without_nul(text),
        Cow::Owned(text) => Cow::Owned(without_nul(&text).into_owned()),
    }
}

fn without_nul(text: &str) -> Cow<'_, str> {
    if text.contains('\0') { Cow::Owned(text.replace('\0', "\u{fffd}")) } else { Cow::Borrowed(text) }
}

fn clean_object(raw: &str) -> Cow<'_, str> {
    match truncate_object(raw) {
        Cow::Borrowed(raw) => without_nul(raw),
        cut => cut,
    }
}

pub(super) fn clean_details(details: &Details) -> Cow<'_, Details> {
    let texts = [
        &details.lang,
        &details.reply_to,
        &details.reply_to_author,
        &details.retweet_of,
        &details.quote_of,
        &details.conversation_id,
        &details.reply_settings,
        &details.labels,
    ];
    if !texts.into_iter().flatten().any(|text| text.contains('\0') || text.len() > LONGEST_TEXT) {
        return Cow::Borrowed(details);
    }
    let clean = |text: &Option<String>| text.as_deref().map(|text| clean(text).into_owned());
    Cow::Owned(Details {
        lang: clean(&details.lang),
        reply_to: clean(&details.reply_to),
        reply_to_author: clean(&details.reply_to_author),
        retweet_of: clean(&details.retweet_of),
        quote_of: clean(&details.quote_of),
        conversation_id: clean(&details.conversation_id),
        reply_settings: clean(&details.reply_settings),
        labels: clean(&details.labels),
        truncated: details.truncated,
    })
}

#[derive(sqlx_macros::FromRow)]
pub(super) struct KnownRow<T> {
    id: String,
    #[sqlx(flatten)]
    known: T,
}

pub(super) fn order_by_ids<T: Clone>(asked: &[String], rows: Vec<KnownRow<T>>) -> Vec<Option<T>> {
    let known: HashMap<String, T> = rows.into_iter().map(|row| (row.id, row.known)).collect();
    asked.iter().map(|id| known.get(clean(id).as_ref()).cloned()).collect()
}

/// Statement of [`super::Lifecycle::page`]; its parameters are the namespace, [`upper_id`] and the limit.
pub(super) fn page_statement(of: Listing) -> &'static str {
    match of {
        Listing::Tracked => sql!("posts/page_tracked"),
        Listing::Dead => sql!("posts/page_dead"),
        Listing::Ended => sql!("posts/page_ended"),
    }
}

pub(super) fn expiry_time(which: Expiry) -> Option<Millis> {
    match which {
        Expiry::Before(moment) => Some(moment),
        Expiry::Deleted => None,
    }
}

/// Upper bound of the ids of a page. An optional condition would keep the planner from starting at the right place of
/// the index.
pub(super) fn upper_id(id: Option<&str>) -> Cow<'_, str> {
    id.map_or(Cow::Borrowed("\u{10ffff}"), clean)
}

#[derive(sqlx_macros::FromRow)]
pub(super) struct WayRow {
    pub first_at: Millis,
    #[sqlx(flatten)]
    pub way: Way,
}

pub(super) fn state_counts(rows: Vec<(ItemState, i64)>) -> StateCounts {
    let mut counts = StateCounts::default();
    for (state, rows) in rows {
        *match state {
            ItemState::Live => &mut counts.live,
            ItemState::Unavailable => &mut counts.unavailable,
            ItemState::Ended => &mut counts.ended,
            ItemState::Dead => &mut counts.dead,
        } = number(rows);
    }
    counts
}

/// Converts a count; the statements never let it fall below zero.
pub(super) fn number(stored: i64) -> u64 {
    u64::try_from(stored).unwrap_or(0)
}
