//! The polled sources for people: position, next poll and gaps of each.
//!
//! The store has the position of a source, and the queue of its endpoint has the next due time. Without an answer of a queue, the data of
//! the store is shown.

mod book;

use std::fmt::Write;
use std::time::Duration;

use serde::{Deserialize, Serialize, Serializer};

pub use self::book::{OpenedPositions, QueueOpener, SourceReader};
use crate::table::Table;
use engine::base::clock::{self, Millis};
use engine::base::humanize::{format_time, group_digits, one_line, span, truncate_chars};
use engine::queue::{Place, Stats};
use networks::model::pipeline_id::PipelineId;
use networks::model::provider::Provider;
use networks::providers::bluesky::timeline::LAYOUT;
use networks::providers::registry::date_of;
use store::{SourceGap, SourceRow, SourceTrouble};

/// Maximum number of gaps that are shown per source: the latest.
pub const GAPS_SHOWN: u32 = 3;
/// Maximum length of a shown error, in characters: it may contain an API's answer.
const ERROR_CHARS: usize = 300;
/// A source that has been due for its longest interval and this time, ms, is overdue.
const OVERDUE_MS: Millis = 30_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum QueueState {
    Delayed,
    Leased,
    Dead,
    /// In no queue, so no poller polls it.
    Absent,
    Unknown,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Source {
    pub name: String,
    pub provider: Option<String>,
    /// The polled endpoint. This field and most of the next ones are `None` before the first attempt.
    pub endpoint: Option<String>,
    pub namespace: Option<String>,
    /// The newest id so far; `None` for Bluesky, whose positions are times.
    pub newest_id: Option<String>,
    /// Creation time in that id, ms since the epoch.
    pub newest_at: Option<Millis>,
    /// Time of the last saved page, ms since the epoch.
    pub saved_at: Option<Millis>,
    /// Time of the last page with a new post, or else of the first attempt, ms since the epoch.
    pub brought_at: Option<Millis>,
    /// True if that is longer ago than `quiet_after`, although the source can be read.
    #[serde(rename = "quiet")]
    pub is_quiet: bool,
    /// True if the settings have it, and it has been due for too long.
    #[serde(skip)]
    pub is_overdue: bool,
    /// The current failure. Its error is one line of limited length.
    pub trouble: Option<SourceTrouble>,
    pub turn: QueueState,
    /// Next due time by the queue's clock, ms since the epoch.
    #[serde(skip)]
    pub due_at: Option<Millis>,
    /// Time until `due_at`, ms; negative if it is past. See [`Sources::with_time_until_due`].
    pub due_in_ms: Option<Millis>,
    /// Total number of gaps: ranges of ids that the API no longer returned.
    pub gaps: u64,
    /// The latest gaps, newest first, at most [`GAPS_SHOWN`]. JSON has only the first.
    #[serde(rename = "last_gap", serialize_with = "serialize_first_gap")]
    pub latest_gaps: Vec<SourceGap>,
    pub poller: Poller,
    #[serde(skip)]
    pub is_named: bool,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(tag = "state", rename_all = "lowercase")]
pub enum Poller {
    #[default]
    Unknown,
    /// Paused until a person resumes it.
    Paused {
        reason: String,
    },
    Missing,
    Seen {
        age_ms: Millis,
        /// The poller's own report of a failure.
        trouble: Option<String>,
    },
}

/// Age of a heartbeat, ms, from which a poller is missing. Heartbeats come every 5 s, so one may be lost. This shows within 15 s.
const HEARTBEAT_TIMEOUT_MS: Millis = 11_000;

impl Poller {
    #[must_use]
    pub fn from_stats(stats: &Stats) -> Self {
        if let Some(reason) = &stats.paused {
            return Self::Paused { reason: reason.clone() };
        }
        let youngest = stats.workers.iter().min_by_key(|worker| worker.beat_age_ms);
        youngest.map_or(Self::Missing, |worker| Self::Seen {
            age_ms: worker.beat_age_ms,
            trouble: worker.trouble().map(str::to_owned),
        })
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfiguredSource {
    pub name: String,
    pub provider: Provider,
    pub namespace: String,
    /// Time without new posts after which it is quiet; `None`: never.
    pub quiet_after: Option<Duration>,
    pub longest: Duration,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Sources {
    /// Sorted by namespace and name; never-polled sources come last.
    #[serde(rename = "sources", skip_serializing_if = "Vec::is_empty")]
    pub all: Vec<Source>,
    /// The error of the store.
    #[serde(rename = "sources_error", skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// With an error: sources of the last reading that succeeded. They are not shown.
    #[serde(skip)]
    pub last_good: Vec<Source>,
}

#[allow(clippy::ptr_arg)] // serde's signature
fn serialize_first_gap<S: Serializer>(gaps: &Vec<SourceGap>, to: S) -> Result<S::Ok, S::Error> {
    gaps.first().serialize(to)
}

#[derive(Deserialize)]
struct StoredPosition {
    latest: Option<String>,
}

impl Source {
    fn never_polled(name: &str, place: Option<&[Place]>) -> Self {
        let (turn, due_at) = queue_state(place);
        Self {
            name: name.to_owned(),
            poller: Poller::Unknown,
            is_named: true,
            provider: None,
            endpoint: None,
            namespace: None,
            newest_id: None,
            newest_at: None,
            saved_at: None,
            brought_at: None,
            is_quiet: false,
            is_overdue: false,
            trouble: None,
            turn,
            due_at,
            due_in_ms: None,
            gaps: 0,
            latest_gaps: Vec::new(),
        }
    }

    fn new(row: SourceRow, place: Option<&[Place]>) -> Self {
        let (provider, endpoint) = parse_namespace(&row.namespace);
        // If a position cannot be read, the poller reports it.
        let said: Option<StoredPosition> = row.position.as_deref().and_then(|text| serde_json::from_str(text).ok());
        let newest_id = said.and_then(|said| said.latest);
        let newest_at = newest_id.as_deref().and_then(|id| post_created_at(&provider, id));
        // A Bluesky position is not an id to search for.
        let newest_id = newest_id.filter(|_| provider != Provider::Bluesky);
        // A poller of an older version saves a page without ending the trouble.
        let trouble = row.trouble.filter(|trouble| row.saved_at.is_none_or(|saved_at| saved_at <= trouble.at));
        let trouble = trouble
            .map(|trouble| SourceTrouble { error: truncate_chars(&one_line(&trouble.error), ERROR_CHARS), ..trouble });
        let (turn, due_at) = queue_state(place);
        Self {
            name: row.source,
            provider: Some(provider.to_string()),
            endpoint: Some(endpoint),
            namespace: Some(row.namespace),
            newest_id,
            newest_at,
            saved_at: row.saved_at,
            brought_at: row.brought_at,
            is_quiet: false,
            is_overdue: false,
            trouble,
            turn,
            due_at,
            due_in_ms: None,
            gaps: row.gaps,
            latest_gaps: row.latest_gaps,
            poller: Poller::Unknown,
            is_named: false,
        }
    }

    /// Adds the results that depend on the settings, at `now`, ms since the epoch.
    fn with_settings(self, named: &ConfiguredSource, now: Millis) -> Self {
        // A row of an older version: no new post is known since the last page.
        let since = self.brought_at.or(self.saved_at);
        let silence = since.map(|since| clock::span(now.saturating_sub(since)));
        let is_quiet = named.quiet_after.zip(silence).is_some_and(|(after, silent)| silent > after);
        let latest = clock::millis(named.longest).saturating_add(OVERDUE_MS);
        let is_overdue = self.due_at.is_some_and(|due| now.saturating_sub(due) > latest);
        Self { is_named: true, is_quiet: is_quiet && self.trouble.is_none(), is_overdue, ..self }
    }

    /// Returns the reason if the source is not polled although its poller works.
    fn unpolled_reason(&self) -> Option<String> {
        match (self.turn, self.due_at) {
            (QueueState::Absent, _) => Some("it is in no queue; restart `twitter-updater poll`".to_owned()),
            (QueueState::Dead, _) => Some("it is dead; see `twitter-updater dead`".to_owned()),
            (QueueState::Delayed, Some(due)) if self.is_overdue => {
                Some(format!("it has been due since {}", format_time(due)))
            }
            _ => None,
        }
    }

    /// Returns the start of the time without a new post if it is quiet, ms since the epoch.
    #[must_use]
    pub fn quiet_since(&self) -> Option<Millis> {
        self.brought_at.or(self.saved_at).filter(|_| self.is_quiet)
    }
}

/// Converts the queue's record of a source to its state and due time. `None`: the queue did not answer.
fn queue_state(place: Option<&[Place]>) -> (QueueState, Option<Millis>) {
    match place {
        None => (QueueState::Unknown, None),
        Some([]) => (QueueState::Absent, None),
        Some([Place::Delayed { due, .. }, ..]) => (QueueState::Delayed, Some(*due)),
        Some([Place::Leased { .. }, ..]) => (QueueState::Leased, None),
        Some([Place::Dead { .. }, ..]) => (QueueState::Dead, None),
    }
}

/// Formats the number of failures, in brackets. Empty for 0: failures are not counted while no other source is answered.
pub(crate) fn failures_text(failures: u32) -> String {
    match failures {
        0 => String::new(),
        1 => " (once)".to_owned(),
        many => format!(" ({} times)", group_digits(many.into())),
    }
}

fn describe_trouble(SourceTrouble { since, failures, error, .. }: &SourceTrouble) -> String {
    format!("since {}{}: {error}", format_time(*since), failures_text(*failures))
}

fn describe_unreadable(sources: &[&Source]) -> Option<String> {
    let failing = || sources.iter().filter_map(|source| Some((&source.name, source.trouble.as_ref()?)));
    let (name, trouble) = failing().min_by_key(|(_, trouble)| trouble.since)?;
    let (name, trouble) = (one_line(name), describe_trouble(trouble));
    Some(match failing().count() {
        1 => format!("source {name} cannot be read {trouble}"),
        many => format!("{many} sources cannot be read; the first: {name}, {trouble}"),
    })
}

fn describe_unpolled(sources: &[&Source]) -> Option<String> {
    let idle = || sources.iter().filter_map(|source| Some((&source.name, source.unpolled_reason()?)));
    let (name, why) = idle().next()?;
    let name = one_line(name);
    Some(match idle().count() {
        1 => format!("source {name} is not polled: {why}"),
        many => format!("{many} sources are not polled; the first: {name}, {why}"),
    })
}

fn describe_quiet(sources: &[&Source]) -> Option<String> {
    let quiet = || sources.iter().filter_map(|source| Some((&source.name, source.quiet_since()?)));
    let (name, since) = quiet().min_by_key(|(_, since)| *since)?;
    let (name, since) = (one_line(name), format_time(since));
    Some(match quiet().count() {
        1 => format!("source {name} brought no new post since {since}; if that is usual, raise its quiet_after"),
        many => format!(
            "{many} sources brought no new post for longer than their quiet_after; the first: {name}, since {since}"
        ),
    })
}

/// Returns the creation time of the post with this number in a position, ms since the epoch.
fn post_created_at(provider: &Provider, number: &str) -> Option<Millis> {
    match provider {
        Provider::Bluesky => number.parse().ok().map(|place| LAYOUT.made_at(place)),
        provider => date_of(provider)(number).ok().flatten(),
    }
}

/// Returns provider and endpoint of a namespace such as `source:poll:search/tweets` or `source:poll:mastodon:social:timelines/tag`.
fn parse_namespace(namespace: &str) -> (Provider, String) {
    match PipelineId::parse(namespace) {
        Some(PipelineId { provider, partition: Some(endpoint), .. }) => (provider, endpoint),
        // A row of another program.
        _ => (Provider::Twitter, namespace.to_owned()),
    }
}

impl Sources {
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.all.is_empty() && self.error.is_none()
    }

    /// Returns the first reason, in one line, why new posts of that provider are not collected. The order is: poller, sources that are not
    /// polled, sources that cannot be read, quiet sources.
    #[must_use]
    pub fn collection_trouble(&self, provider: &str) -> Option<String> {
        let sources = self.configured_sources(provider);
        let why = || describe_unpolled(&sources).or_else(|| describe_unreadable(&sources));
        let uncollected = || why().map(|why| format!("new posts are not collected: {why}"));
        self.provider_poller_trouble(provider).or_else(uncollected).or_else(|| describe_quiet(&sources))
    }

    /// The sources after a reading that failed. It ends no trouble: the headline would be green until the store counts as down.
    #[must_use]
    pub fn with_failed_reading(self, why: String) -> Self {
        let last_good = if self.error.is_some() { self.last_good } else { self.all };
        Self { all: Vec::new(), error: Some(why), last_good }
    }

    /// Returns the reason if a poller does not work, which concerns all its sources.
    #[must_use]
    pub fn provider_poller_trouble(&self, provider: &str) -> Option<String> {
        let why = self.configured_sources(provider).into_iter().find_map(Source::poller_trouble)?;
        Some(format!("new posts are not collected: {why}"))
    }

    fn configured_sources(&self, provider: &str) -> Vec<&Source> {
        let of_provider = |source: &&Source| source.is_named && source.provider.as_deref() == Some(provider);
        self.all.iter().chain(&self.last_good).filter(of_provider).collect()
    }

    /// Sets the time until each source is due. `now` is the queue's clock, ms since the epoch.
    #[must_use]
    pub fn with_time_until_due(mut self, now: Millis) -> Self {
        for source in &mut self.all {
            source.due_in_ms = source.due_at.map(|due| due - now);
        }
        self
    }

    pub fn write_text(&self, out: &mut String, now: Millis) -> std::fmt::Result {
        if self.is_empty() {
            return Ok(());
        }
        writeln!(out, "sources")?;
        if let Some(why) = &self.error {
            return writeln!(out, "unknown: {why}");
        }
        let header = ["name", "endpoint", "newest id", "newest date", "polled", "due", "gaps"];
        let mut table = Table::new("<19 <27 <20 <21 >11 >11 >6", &header);
        for source in &self.all {
            let dash = || "-".to_owned();
            let ago = |at: Millis| format!("{} ago", span((now - at) / 1_000 * 1_000));
            table.row(&[
                &one_line(&source.name),
                &source.address().map_or_else(dash, |address| one_line(&address)),
                &source.newest_id.as_deref().map_or_else(dash, one_line),
                &source.newest_at.map_or_else(dash, format_time),
                &source.saved_at.map_or_else(|| source.unread_text().to_owned(), ago),
                &source.due_text(),
                &source.gaps,
            ]);
            if let Some(trouble) = &source.trouble {
                table.line(format!("  cannot be read {}", describe_trouble(trouble)));
            }
            if let Some(since) = source.quiet_since() {
                table.line(format!("  brought no new post since {}", format_time(since)));
            }
            for SourceGap { from, to, reason, noted_at } in &source.latest_gaps {
                let [from, to, reason] = [from, to, reason].map(|text| one_line(text));
                table.line(format!("  gap {from} to {to}, noted {}: {reason}", format_time(*noted_at)));
            }
        }
        writeln!(out, "{table}")
    }
}

impl Source {
    fn poller_trouble(&self) -> Option<String> {
        let name = one_line(&self.name);
        match &self.poller {
            Poller::Unknown => None,
            Poller::Paused { reason } => {
                let reason = one_line(reason);
                Some(format!("polling of source {name} is paused: {reason}; resume it by `twitter-updater resume`"))
            }
            Poller::Missing => Some(format!("no poller works on source {name}; start `twitter-updater poll`")),
            Poller::Seen { age_ms, .. } if *age_ms > HEARTBEAT_TIMEOUT_MS => {
                let age = span(age_ms / 1_000 * 1_000);
                Some(format!("no heartbeat of the poller of source {name} for {age}; start `twitter-updater poll`"))
            }
            Poller::Seen { trouble, .. } => {
                trouble.as_ref().map(|why| format!("the poller of source {name} cannot work: {}", one_line(why)))
            }
        }
    }

    /// Returns the endpoint, after the provider unless that is Twitter.
    #[must_use]
    pub fn address(&self) -> Option<String> {
        let (provider, endpoint) = (self.provider.as_deref()?, self.endpoint.as_deref()?);
        Some(if provider == Provider::Twitter.to_string() {
            endpoint.to_owned()
        } else {
            format!("{provider} {endpoint}")
        })
    }

    #[must_use]
    pub fn unread_text(&self) -> &'static str {
        if self.trouble.is_some() { "no page yet" } else { "never" }
    }

    #[must_use]
    pub fn is_paused(&self) -> bool {
        matches!(self.poller, Poller::Paused { .. })
    }

    fn due_text(&self) -> String {
        match (self.turn, self.due_in_ms) {
            (QueueState::Delayed, _) if self.is_paused() => "paused".to_owned(),
            (QueueState::Delayed, Some(left)) if left >= 1_000 => format!("in {}", span(left / 1_000 * 1_000)),
            (QueueState::Delayed, Some(left)) if left <= -1_000 => format!("{} late", span(-left / 1_000 * 1_000)),
            (QueueState::Delayed, _) => "now".to_owned(),
            (other, _) => other.text().to_owned(),
        }
    }
}

impl QueueState {
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            Self::Delayed => "waits",
            Self::Leased => "polled now",
            Self::Dead => "dead",
            Self::Absent => "in no queue",
            Self::Unknown => "-",
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use engine::queue::WorkerStats;

    const ID: &str = "1460323737035677698";

    fn saved(namespace: &str, position: &str) -> SourceRow {
        let gap = SourceGap { from: "1".into(), to: "9".into(), reason: "it is\nold".into(), noted_at: 0 };
        SourceRow {
            namespace: namespace.to_owned(),
            source: "rust".to_owned(),
            position: Some(position.to_owned()),
            saved_at: Some(1_000_000),
            brought_at: Some(900_000),
            trouble: None,
            gaps: 7,
            latest_gaps: vec![SourceGap { noted_at: 5, ..gap.clone() }, gap],
        }
    }

    pub(crate) fn source(name: &str) -> Source {
        let row = SourceRow {
            source: name.to_owned(),
            gaps: 0,
            latest_gaps: Vec::new(),
            ..saved("source:poll:search/tweets", "{}")
        };
        Source { is_named: true, ..Source::new(row, None) }
    }

    fn trouble(since: Millis, failures: u32, error: &str) -> SourceTrouble {
        SourceTrouble { since, failures, error: error.to_owned(), at: 2_000_000 }
    }

    #[test]
    fn a_namespace_tells_who_is_asked_and_where() {
        let of = |rest: &str| {
            let (provider, endpoint) = parse_namespace(&format!("source:poll:{rest}"));
            format!("{provider} {endpoint}")
        };
        assert_eq!(of("search/tweets"), "twitter search/tweets");
        assert_eq!(of("x:tweets/search/recent"), "x tweets/search/recent");
        assert_eq!(of("mastodon:social:timelines/tag"), "mastodon:social timelines/tag");
    }

    #[test]
    fn the_newest_post_is_dated_by_its_provider() {
        let said = |namespace: &str, position: &str| {
            let source = Source::new(saved(namespace, position), None);
            (source.newest_id, source.newest_at)
        };
        let position = format!(r#"{{"latest":"{ID}","since":"1","of":{{"later":"versions"}}}}"#);
        let newest = |at| (Some(ID.to_owned()), Some(at));
        assert_eq!(said("source:poll:search/tweets", &position), newest(1_637_003_285_069));
        assert_eq!(said("source:poll:x:tweets/search/recent", &position), newest(1_637_003_285_069));
        assert_ne!(said("source:poll:mastodon:a:statuses", &position).1, Some(1_637_003_285_069));
        for none in ["null", "{}", r#"{"latest":null}"#, "torn"] {
            assert_eq!(said("source:poll:search/tweets", none), (None, None), "{none}");
        }
        assert_eq!(said("source:poll:search/tweets", r#"{"latest":"20"}"#), (Some("20".to_owned()), None));
        let place = format!(r#"{{"latest":"{}"}}"#, (1_637_003_285_069_u64 << 22) | 7);
        assert_eq!(said("source:poll:bluesky:getAuthorFeed", &place), (None, Some(1_637_003_285_069)));
    }

    #[test]
    fn when_it_is_due_is_where_it_is_in_its_queue() {
        let due = |places: Option<&[Place]>| {
            let source = Source::new(saved("source:poll:search/tweets", "{}"), places);
            let sources = Sources { all: vec![source], ..Sources::default() }.with_time_until_due(10_000);
            (sources.all[0].turn, sources.all[0].due_in_ms, sources.all[0].due_text())
        };
        let delayed = |due| Place::Delayed { lane: "1s".to_owned(), due };
        assert_eq!(due(Some(&[delayed(75_500)])), (QueueState::Delayed, Some(65_500), "in 1m 5s".to_owned()));
        assert_eq!(due(Some(&[delayed(10_900)])).2, "now");
        assert_eq!(due(Some(&[delayed(4_000)])), (QueueState::Delayed, Some(-6_000), "6s late".to_owned()));
        let leased = Place::Leased { fence: 20_000, by: None };
        assert_eq!(due(Some(&[leased])), (QueueState::Leased, None, "polled now".to_owned()));
        assert_eq!(due(Some(&[Place::Dead { at: 1, reason: String::new() }])).2, "dead");
        assert_eq!(due(Some(&[])), (QueueState::Absent, None, "in no queue".to_owned()));
        assert_eq!(due(None), (QueueState::Unknown, None, "-".to_owned()));
    }

    #[test]
    fn sources_are_written_as_text_and_json_and_omitted_if_there_are_none() {
        let text = |sources: &Sources| {
            let mut text = String::new();
            sources.write_text(&mut text, 1_060_000).unwrap();
            text
        };
        let position = format!(r#"{{"latest":"{ID}"}}"#);
        let all = vec![
            Source::new(saved("source:poll:x:users/tweets", &position), Some(&[])),
            Source::never_polled("new", None),
        ];
        let some = Sources { all, ..Sources::default() }.with_time_until_due(1_060_000);
        let said = text(&some);
        for says in ["rust ", "x users/tweets", ID, "2021-11-15T19:08:05Z", "1m ago", "in no queue", "never"] {
            assert!(said.contains(says), "{says}: {said}");
        }
        assert!(said.contains("gap 1 to 9, noted 1970-01-01T00:00:00Z: it is old\n"), "{said}");
        let json = serde_json::to_value(&some).unwrap();
        assert_eq!(json["sources"][0]["last_gap"]["noted_at"], 5);
        assert_eq!((&json["sources"][0]["turn"], &json["sources"][0]["gaps"]), (&"absent".into(), &7.into()));
        assert!(json["sources"][1]["saved_at"].is_null() && json["sources"][1]["last_gap"].is_null());
        assert!(json.get("sources_error").is_none());
        assert_eq!((&json["sources"][0]["brought_at"], &json["sources"][0]["quiet"]), (&900_000.into(), &false.into()));
        assert!(json["sources"][0]["trouble"].is_null() && json["sources"][1]["trouble"].is_null());

        let out = Sources { error: Some("no route".to_owned()), ..Sources::default() };
        assert_eq!(text(&out), "sources\nunknown: no route\n");
        assert_eq!(serde_json::to_value(&out).unwrap(), serde_json::json!({"sources_error": "no route"}));
        assert_eq!(text(&Sources::default()), "");
        assert_eq!(serde_json::to_value(Sources::default()).unwrap(), serde_json::json!({}));
    }
    fn failing(name: &str, saved_at: Option<Millis>, trouble: SourceTrouble) -> Source {
        let row = saved("source:poll:search/tweets", "{}");
        let row = SourceRow { source: name.to_owned(), saved_at, trouble: Some(trouble), ..row };
        Source { is_named: true, ..Source::new(SourceRow { latest_gaps: Vec::new(), gaps: 0, ..row }, None) }
    }

    #[test]
    fn what_cannot_be_read_says_since_when_how_often_and_why_also_before_its_first_page() {
        let hostile = format!("HTTP 500\r\n\x1b[31m<script>{}", "x".repeat(10_000));
        let all = vec![
            failing("new", None, trouble(60_000, 12, &hostile)),
            failing("old", Some(1_000_000), trouble(0, 0, "no answer")),
        ];
        let sources = Sources { all, ..Sources::default() }.with_time_until_due(2_060_000);
        let mut text = String::new();
        sources.write_text(&mut text, 2_060_000).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 6, "{text}");
        assert!(lines[2].starts_with("new ") && lines[2].contains(" no page yet "), "{text}");
        assert!(
            lines[3].starts_with("  cannot be read since 1970-01-01T00:01:00Z (12 times): HTTP 500 [31m<script>xx")
        );
        assert!(lines[3].ends_with("x…") && lines[3].chars().count() < 400, "{}", lines[3]);
        assert_eq!(lines[5], "  cannot be read since 1970-01-01T00:00:00Z: no answer");
        // The columns stay aligned.
        assert_eq!(lines[1].chars().count(), lines[2].chars().count(), "{text}");
        let json = serde_json::to_value(&sources).unwrap();
        let expected = serde_json::json!({"since": 0, "failures": 0, "error": "no answer", "at": 2_000_000});
        assert_eq!(json["sources"][1]["trouble"], expected);
        let error = json["sources"][0]["trouble"]["error"].as_str().unwrap();
        assert!(error.chars().count() <= ERROR_CHARS + 1 && !error.contains(char::is_control), "{error}");
        assert!(json["sources"][0]["saved_at"].is_null() && !json["sources"][0]["namespace"].is_null());
        // An older version saved a later page.
        assert_eq!(failing("old", Some(2_000_001), trouble(0, 3, "no answer")).trouble, None);
    }

    #[test]
    fn a_pause_is_reported_although_the_poller_beats() {
        let worker = WorkerStats { worker: "w".to_owned(), beat_age_ms: 0, fields: [].into() };
        let stats = Stats { workers: vec![worker], ..Stats::default() };
        assert_eq!(Poller::from_stats(&stats), Poller::Seen { age_ms: 0, trouble: None });
        let paused = Stats { paused: Some("the\ndatabase moves".to_owned()), ..stats };
        let place = Place::Delayed { lane: "1s".to_owned(), due: 4_000 };
        let source = Source {
            poller: Poller::from_stats(&paused),
            turn: QueueState::Delayed,
            due_at: Some(4_000),
            ..source("rust")
        };
        assert_eq!(
            (queue_state(Some(&[place])), source.due_text()),
            ((QueueState::Delayed, Some(4_000)), "paused".to_owned())
        );
        let why = Sources { all: vec![source], ..Sources::default() }.provider_poller_trouble("twitter").unwrap();
        let says = "new posts are not collected: polling of source rust is paused: the database moves; ";
        assert!(why.starts_with(says), "{why}");
    }

    #[test]
    fn a_source_is_quiet_once_it_brought_nothing_for_longer_than_it_may() {
        let named = |quiet_after: Option<u64>| ConfiguredSource {
            name: "rust".to_owned(),
            provider: Provider::Twitter,
            namespace: "source:poll:search/tweets".to_owned(),
            quiet_after: quiet_after.map(Duration::from_secs),
            longest: Duration::from_secs(900),
        };
        let since = |source: Source, after, now| source.with_settings(&named(after), now).quiet_since();
        assert_eq!(since(source("rust"), Some(100), 1_000_000), None);
        assert_eq!(since(source("rust"), Some(100), 1_000_001), Some(900_000));
        assert_eq!(since(source("rust"), None, Millis::MAX), None, "it may be so for ever");
        assert_eq!(since(source("rust"), Some(100), 0), None, "a clock that is behind");
        // A row from before `brought_at` existed: its last page counts.
        let old = Source { brought_at: None, ..source("rust") };
        assert_eq!(since(old.clone(), Some(100), 1_100_001), Some(1_000_000));
        assert_eq!(since(Source { saved_at: None, ..old }, Some(100), Millis::MAX), None);
        // A source that cannot be read has a known reason for its silence.
        assert_eq!(since(failing("rust", None, trouble(0, 1, "no answer")), Some(100), 9_000_000), None);
        let sources =
            Sources { all: vec![source("rust").with_settings(&named(Some(100)), 2_000_000)], ..Sources::default() };
        let mut text = String::new();
        sources.write_text(&mut text, 2_000_000).unwrap();
        assert!(text.ends_with("\n  brought no new post since 1970-01-01T00:15:00Z\n"), "{text}");
        assert_eq!(serde_json::to_value(&sources).unwrap()["sources"][0]["quiet"], true);
    }

    #[test]
    fn the_headline_names_the_first_of_what_keeps_new_posts_away() {
        let says = |all: Vec<Source>| Sources { all, ..Sources::default() }.collection_trouble("twitter");
        let calm = |name: &str, at| Source { is_quiet: true, brought_at: Some(at), ..source(name) };
        assert_eq!(says(vec![source("rust")]), None);
        let one = says(vec![calm("rust", 60_000)]).unwrap();
        assert!(one.starts_with("source rust brought no new post since 1970-01-01T00:01:00Z; if that"), "{one}");
        let two = says(vec![calm("a", 60_000), calm("b", 0), source("c")]).unwrap();
        assert_eq!(
            two,
            "2 sources brought no new post for longer than their quiet_after; the first: b, since 1970-01-01T00:00:00Z"
        );
        let down = |name: &str, since| failing(name, None, trouble(since, 1, "HTTP 500\nhttps://a"));
        let one = says(vec![calm("rust", 60_000), down("down", 0)]).unwrap();
        assert_eq!(
            one,
            "new posts are not collected: source down cannot be read since 1970-01-01T00:00:00Z (once): HTTP 500 https://a"
        );
        let many = says(vec![down("b", 60_000), down("a", 0), down("c", 60_000)]).unwrap();
        assert!(
            many.contains(": 3 sources cannot be read; the first: a, since 1970-01-01T00:00:00Z (once): "),
            "{many}"
        );
        // Sources that the settings do not name, and those of other providers, are no trouble of this one.
        let taken_out = Source { is_named: false, ..down("old", 0) };
        let of_x = Source { provider: Some("x".to_owned()), ..down("other", 0) };
        assert_eq!(says(vec![taken_out, of_x]), None);
        let unpolled = Source { poller: Poller::Missing, ..source("rust") };
        let first = says(vec![down("down", 0), unpolled]).unwrap();
        assert!(first.starts_with("new posts are not collected: no poller works on source rust"), "{first}");
        // A source that a poller does not know, or that is due for too long.
        let placed = |place: &[Place]| {
            let named = ConfiguredSource {
                name: "new".to_owned(),
                provider: Provider::Twitter,
                namespace: "source:poll:search/tweets".to_owned(),
                quiet_after: None,
                longest: Duration::from_secs(900),
            };
            let of_twitter = |source| Source { provider: Some("twitter".to_owned()), ..source };
            let never = of_twitter(Source::never_polled("new", Some(place))).with_settings(&named, 1_000_000);
            says(vec![source("rust"), never])
        };
        let not = |why: &str| Some(format!("new posts are not collected: source new is not polled: {why}"));
        assert_eq!(placed(&[]), not("it is in no queue; restart `twitter-updater poll`"));
        assert_eq!(
            placed(&[Place::Dead { at: 1, reason: String::new() }]),
            not("it is dead; see `twitter-updater dead`")
        );
        let due = |due| placed(&[Place::Delayed { lane: "15m".to_owned(), due }]);
        assert_eq!((due(70_000), due(2_000_000)), (None, None));
        assert_eq!(due(69_999), not("it has been due since 1970-01-01T00:01:09Z"));
        assert_eq!(placed(&[Place::Leased { fence: 1, by: None }]), None);
        let absent = |name: &str| Source { turn: QueueState::Absent, ..source(name) };
        let many = says(vec![absent("a"), down("down", 0), absent("b")]).unwrap();
        assert!(many.contains(": 2 sources are not polled; the first: a, it is in no queue"), "{many}");
        // A single source does not alert a person.
        let of_pollers = |all: Vec<Source>| Sources { all, ..Sources::default() }.provider_poller_trouble("twitter");
        assert_eq!(of_pollers(vec![down("down", 0), calm("rust", 0)]), None);
        assert!(of_pollers(vec![Source { poller: Poller::Missing, ..source("rust") }]).is_some());
    }
}
