//! The polled sources as a person sees them: how far each has been read, its next poll, and its gaps.
//!
//! The store has the position of a source, and the queue of its endpoint has the next due time. Both are asked. A queue that does not
//! answer hides none of the store's data.

mod book;

use std::fmt::Write;
use std::time::Duration;

use serde::{Deserialize, Serialize, Serializer};

pub use self::book::{PositionsAtHand, Queues, SourceBook};
use crate::base::clock::{self, Millis};
use crate::base::humanize::{cut, grouped, one_line, span, when};
use crate::engine::queue::{Place, Stats};
use crate::model::pipeline_id::PipelineId;
use crate::model::provider::Provider;
use crate::providers::bluesky::timeline::LAYOUT;
use crate::providers::registry::date_of;
use crate::store::{SourceGap, SourceRow, SourceTrouble};

/// Number of gaps of a source that are shown one by one: the latest.
pub const GAPS_SHOWN: u32 = 3;
/// Maximum length of a shown error, in characters: it may contain an API's answer.
const ERROR_CHARS: usize = 300;
/// A source that is due for its longest interval plus this, ms, is not polled.
const OVERDUE_MS: Millis = 30_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Turn {
    Delayed,
    Leased,
    Dead,
    /// In no queue: no poller polls it.
    Absent,
    Unknown,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Source {
    pub name: String,
    pub provider: Option<String>,
    /// The polled endpoint. `None`, as in most of the next fields, before the first attempt.
    pub endpoint: Option<String>,
    pub namespace: Option<String>,
    /// The newest id ever seen; `None` for Bluesky, where a position has times.
    pub newest_id: Option<String>,
    /// Creation time of that post, as its id states it, ms since the epoch.
    pub newest_at: Option<Millis>,
    /// Time of the last saved page, ms since the epoch.
    pub saved_at: Option<Millis>,
    /// Time of the last page with a new post, ms since the epoch. If none had one, the time of the first attempt.
    pub brought_at: Option<Millis>,
    /// True if that is longer ago than its `quiet_after`, although it can be read.
    #[serde(rename = "quiet")]
    pub is_quiet: bool,
    /// True if the settings name it, and it has been due for too long.
    #[serde(skip)]
    pub is_overdue: bool,
    /// Its current failure, also before the first page. The error is one line of bounded length.
    pub trouble: Option<SourceTrouble>,
    pub turn: Turn,
    /// Its next due time, by the queue's clock, ms since the epoch.
    #[serde(skip)]
    pub due_at: Option<Millis>,
    /// Time until then, ms; negative if it is past. See [`Sources::at`].
    pub due_in_ms: Option<Millis>,
    /// Total number of gaps: ids that the API no longer returned.
    pub gaps: u64,
    /// The latest gaps, newest first, at most [`GAPS_SHOWN`]. JSON has only the first.
    #[serde(rename = "last_gap", serialize_with = "first")]
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
    /// Polling is stopped until a person resumes it.
    Paused {
        reason: String,
    },
    Missing,
    Seen {
        age_ms: Millis,
        /// Its own report of why it cannot work.
        trouble: Option<String>,
    },
}

/// Age of a heartbeat, ms, from which a poller is missing. It beats every 5 s, so one beat may be lost. With 2 s between two readings of
/// the sources and 1 s between two of the page, that shows within 15 s.
const HEARTBEAT_PATIENCE_MS: Millis = 11_000;

impl Poller {
    /// Takes the latest heartbeat, unless polling is paused.
    #[must_use]
    pub fn of(stats: &Stats) -> Self {
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
pub struct NamedSource {
    pub name: String,
    pub provider: Provider,
    pub namespace: String,
    /// Time without new posts after which it is quiet; `None`: never.
    pub quiet_after: Option<Duration>,
    pub longest: Duration,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Sources {
    /// Sorted by namespace and name; sources that were never polled come last.
    #[serde(rename = "sources", skip_serializing_if = "Vec::is_empty")]
    pub all: Vec<Source>,
    /// The error of the store, if there are sources.
    #[serde(rename = "sources_error", skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

#[allow(clippy::ptr_arg)] // serde's signature
fn first<S: Serializer>(gaps: &Vec<SourceGap>, to: S) -> Result<S::Ok, S::Error> {
    gaps.first().serialize(to)
}

#[derive(Deserialize)]
struct Said {
    latest: Option<String>,
}

impl Source {
    fn never_polled(name: &str, place: Option<&[Place]>) -> Self {
        let (turn, due_at) = turn(place);
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
        let said: Option<Said> = row.position.as_deref().and_then(|text| serde_json::from_str(text).ok());
        let newest_id = said.and_then(|said| said.latest);
        let newest_at = newest_id.as_deref().and_then(|id| made_at(&provider, id));
        // A place in a timeline is no id to search for.
        let newest_id = newest_id.filter(|_| provider != Provider::Bluesky);
        // A poller of an older version saves a page without ending the trouble.
        let trouble = row.trouble.filter(|trouble| row.saved_at.is_none_or(|saved_at| saved_at <= trouble.at));
        let trouble =
            trouble.map(|trouble| SourceTrouble { error: cut(&one_line(&trouble.error), ERROR_CHARS), ..trouble });
        let (turn, due_at) = turn(place);
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

    /// Adds the values of the settings, at `now`, ms since the epoch.
    fn judged_by(self, named: &NamedSource, now: Millis) -> Self {
        // A row of an older version: no new post is known since the last page.
        let since = self.brought_at.or(self.saved_at);
        let silence = since.map(|since| clock::span(now.saturating_sub(since)));
        let is_quiet = named.quiet_after.zip(silence).is_some_and(|(after, silent)| silent > after);
        let latest = clock::millis(named.longest).saturating_add(OVERDUE_MS);
        let is_overdue = self.due_at.is_some_and(|due| now.saturating_sub(due) > latest);
        Self { is_named: true, is_quiet: is_quiet && self.trouble.is_none(), is_overdue, ..self }
    }

    /// The reason why no poller polls it, although its poller works.
    fn not_polled(&self) -> Option<String> {
        match (self.turn, self.due_at) {
            (Turn::Absent, _) => Some("it is in no queue; restart `twitter-updater poll`".to_owned()),
            (Turn::Dead, _) => Some("it is dead".to_owned()),
            (Turn::Delayed, Some(due)) if self.is_overdue => Some(format!("it is due since {}", when(due))),
            _ => None,
        }
    }

    /// Start of the time without a new post if it is too long, ms since the epoch.
    #[must_use]
    pub fn quiet_since(&self) -> Option<Millis> {
        self.brought_at.or(self.saved_at).filter(|_| self.is_quiet)
    }
}

/// The place of a source in its queue, and its due time; `None`: the queue did not answer.
fn turn(place: Option<&[Place]>) -> (Turn, Option<Millis>) {
    match place {
        None => (Turn::Unknown, None),
        Some([]) => (Turn::Absent, None),
        Some([Place::Delayed { due, .. }, ..]) => (Turn::Delayed, Some(*due)),
        Some([Place::Leased { .. }, ..]) => (Turn::Leased, None),
        Some([Place::Dead { .. }, ..]) => (Turn::Dead, None),
    }
}

/// The number of failures of a source, in brackets. Empty if it is 0: failures are not counted while no other source is answered.
pub(crate) fn times(failures: u32) -> String {
    match failures {
        0 => String::new(),
        1 => " (once)".to_owned(),
        many => format!(" ({} times)", grouped(many.into())),
    }
}

fn in_words(SourceTrouble { since, failures, error, .. }: &SourceTrouble) -> String {
    format!("since {}{}: {error}", when(*since), times(*failures))
}

fn unreadable(sources: &[&Source]) -> Option<String> {
    let failing = || sources.iter().filter_map(|source| Some((&source.name, source.trouble.as_ref()?)));
    let (name, trouble) = failing().min_by_key(|(_, trouble)| trouble.since)?;
    let (name, trouble) = (one_line(name), in_words(trouble));
    Some(match failing().count() {
        1 => format!("source {name} cannot be read {trouble}"),
        many => format!("{many} sources cannot be read; the first: {name}, {trouble}"),
    })
}

fn not_polled(sources: &[&Source]) -> Option<String> {
    let idle = || sources.iter().filter_map(|source| Some((&source.name, source.not_polled()?)));
    let (name, why) = idle().next()?;
    let name = one_line(name);
    Some(match idle().count() {
        1 => format!("source {name} is not polled: {why}"),
        many => format!("{many} sources are not polled; the first: {name}, {why}"),
    })
}

fn quiet(sources: &[&Source]) -> Option<String> {
    let quiet = || sources.iter().filter_map(|source| Some((&source.name, source.quiet_since()?)));
    let (name, since) = quiet().min_by_key(|(_, since)| *since)?;
    let (name, since) = (one_line(name), when(since));
    Some(match quiet().count() {
        1 => format!("source {name} brought no new post since {since}; if that is usual, raise its quiet_after"),
        many => format!(
            "{many} sources brought no new post for longer than their quiet_after; the first: {name}, since {since}"
        ),
    })
}

/// Creation time of the post with this number in a position, ms since the epoch.
fn made_at(provider: &Provider, number: &str) -> Option<Millis> {
    match provider {
        Provider::Bluesky => number.parse().ok().map(|place| LAYOUT.made_at(place)),
        provider => date_of(provider)(number).ok().flatten(),
    }
}

/// Provider and endpoint of a namespace: `source:poll:search/tweets`, `source:poll:mastodon:social:timelines/tag`.
fn parse_namespace(namespace: &str) -> (Provider, String) {
    match PipelineId::read(namespace) {
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

    /// The reason, in one line, why new posts of that provider are not collected from the configured sources. A poller that does not work
    /// comes first, then sources that are not polled, that cannot be read, and that are quiet.
    #[must_use]
    pub fn trouble_of(&self, provider: &str) -> Option<String> {
        let sources = self.named_of(provider);
        let why = || not_polled(&sources).or_else(|| unreadable(&sources));
        let uncollected = || why().map(|why| format!("new posts are not collected: {why}"));
        self.poller_trouble_of(provider).or_else(uncollected).or_else(|| quiet(&sources))
    }

    /// The reason if a poller does not work: then it concerns all its sources.
    #[must_use]
    pub fn poller_trouble_of(&self, provider: &str) -> Option<String> {
        let why = self.named_of(provider).into_iter().find_map(Source::poller_trouble)?;
        Some(format!("new posts are not collected: {why}"))
    }

    fn named_of(&self, provider: &str) -> Vec<&Source> {
        let of_provider = |source: &&Source| source.is_named && source.provider.as_deref() == Some(provider);
        self.all.iter().filter(of_provider).collect()
    }

    /// Sets the time until each is due, at `now` by the queue's clock, ms since the epoch.
    #[must_use]
    pub fn at(mut self, now: Millis) -> Self {
        for source in &mut self.all {
            source.due_in_ms = source.due_at.map(|due| due - now);
        }
        self
    }

    pub fn write(&self, out: &mut String, now: Millis) -> std::fmt::Result {
        if self.is_empty() {
            return Ok(());
        }
        writeln!(out, "sources")?;
        if let Some(why) = &self.error {
            return writeln!(out, "not known: {why}");
        }
        row(out, ["name", "endpoint", "newest id", "newest date", "polled", "due", "gaps"])?;
        for source in &self.all {
            let dash = || "-".to_owned();
            let ago = |at: Millis| format!("{} ago", span((now - at) / 1_000 * 1_000));
            let said = [
                one_line(&source.name),
                source.address().map_or_else(dash, |address| one_line(&address)),
                source.newest_id.as_deref().map_or_else(dash, one_line),
                source.newest_at.map_or_else(dash, when),
                source.saved_at.map_or_else(|| source.not_read().to_owned(), ago),
                source.due(),
                source.gaps.to_string(),
            ];
            row(out, said.each_ref().map(String::as_str))?;
            if let Some(trouble) = &source.trouble {
                writeln!(out, "  cannot be read {}", in_words(trouble))?;
            }
            if let Some(since) = source.quiet_since() {
                writeln!(out, "  brought no new post since {}", when(since))?;
            }
            for SourceGap { from, to, reason, noted_at } in &source.latest_gaps {
                let [from, to, reason] = [from, to, reason].map(|text| one_line(text));
                writeln!(out, "  gap {from} to {to}, noted {}: {reason}", when(*noted_at))?;
            }
        }
        Ok(())
    }
}

fn row(out: &mut String, [name, endpoint, newest, made, polled, due, gaps]: [&str; 7]) -> std::fmt::Result {
    writeln!(out, "{name:<19} {endpoint:<27} {newest:<20} {made:<21} {polled:>11} {due:>11} {gaps:>6}")
}

impl Source {
    fn poller_trouble(&self) -> Option<String> {
        let name = one_line(&self.name);
        match &self.poller {
            Poller::Unknown => None,
            Poller::Paused { reason } => {
                let reason = one_line(reason);
                Some(format!("polling of source {name} is paused: {reason}; `twitter-updater resume` ends that"))
            }
            Poller::Missing => Some(format!("no poller works on source {name}; start `twitter-updater poll`")),
            Poller::Seen { age_ms, .. } if *age_ms > HEARTBEAT_PATIENCE_MS => {
                let age = span(age_ms / 1_000 * 1_000);
                Some(format!("no heartbeat of the poller of source {name} for {age}; start `twitter-updater poll`"))
            }
            Poller::Seen { trouble, .. } => {
                trouble.as_ref().map(|why| format!("the poller of source {name} cannot work: {}", one_line(why)))
            }
        }
    }

    /// Its endpoint; with the provider, unless that is Twitter.
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
    pub fn not_read(&self) -> &'static str {
        if self.trouble.is_some() { "no page yet" } else { "never" }
    }

    #[must_use]
    pub fn is_paused(&self) -> bool {
        matches!(self.poller, Poller::Paused { .. })
    }

    fn due(&self) -> String {
        match (self.turn, self.due_in_ms) {
            (Turn::Delayed, _) if self.is_paused() => "paused".to_owned(),
            (Turn::Delayed, Some(left)) if left >= 1_000 => format!("in {}", span(left / 1_000 * 1_000)),
            (Turn::Delayed, Some(left)) if left <= -1_000 => format!("{} late", span(-left / 1_000 * 1_000)),
            (Turn::Delayed, _) => "now".to_owned(),
            (other, _) => other.word().to_owned(),
        }
    }
}

impl Turn {
    #[must_use]
    pub fn word(self) -> &'static str {
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
    use crate::engine::queue::WorkerStats;

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
            let sources = Sources { all: vec![source], error: None }.at(10_000);
            (sources.all[0].turn, sources.all[0].due_in_ms, sources.all[0].due())
        };
        let delayed = |due| Place::Delayed { lane: "1s".to_owned(), due };
        assert_eq!(due(Some(&[delayed(75_500)])), (Turn::Delayed, Some(65_500), "in 1m 5s".to_owned()));
        assert_eq!(due(Some(&[delayed(10_900)])).2, "now");
        assert_eq!(due(Some(&[delayed(4_000)])), (Turn::Delayed, Some(-6_000), "6s late".to_owned()));
        let leased = Place::Leased { fence: 20_000, by: None };
        assert_eq!(due(Some(&[leased])), (Turn::Leased, None, "polled now".to_owned()));
        assert_eq!(due(Some(&[Place::Dead { at: 1, reason: String::new() }])).2, "dead");
        assert_eq!(due(Some(&[])), (Turn::Absent, None, "in no queue".to_owned()));
        assert_eq!(due(None), (Turn::Unknown, None, "-".to_owned()));
    }

    #[test]
    fn sources_are_written_as_text_and_json_and_omitted_if_there_are_none() {
        let text = |sources: &Sources| {
            let mut text = String::new();
            sources.write(&mut text, 1_060_000).unwrap();
            text
        };
        let position = format!(r#"{{"latest":"{ID}"}}"#);
        let all = vec![
            Source::new(saved("source:poll:x:users/tweets", &position), Some(&[])),
            Source::never_polled("new", None),
        ];
        let some = Sources { all, error: None }.at(1_060_000);
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
        assert_eq!(text(&out), "sources\nnot known: no route\n");
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
        let sources = Sources { all, error: None }.at(2_060_000);
        let mut text = String::new();
        sources.write(&mut text, 2_060_000).unwrap();
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
        assert_eq!(Poller::of(&stats), Poller::Seen { age_ms: 0, trouble: None });
        let paused = Stats { paused: Some("the\ndatabase moves".to_owned()), ..stats };
        let place = Place::Delayed { lane: "1s".to_owned(), due: 4_000 };
        let source = Source { poller: Poller::of(&paused), turn: Turn::Delayed, due_at: Some(4_000), ..source("rust") };
        assert_eq!((turn(Some(&[place])), source.due()), ((Turn::Delayed, Some(4_000)), "paused".to_owned()));
        let why = Sources { all: vec![source], error: None }.poller_trouble_of("twitter").unwrap();
        let says = "new posts are not collected: polling of source rust is paused: the database moves; ";
        assert!(why.starts_with(says), "{why}");
    }

    #[test]
    fn a_source_is_quiet_once_it_brought_nothing_for_longer_than_it_may() {
        let named = |quiet_after: Option<u64>| NamedSource {
            name: "rust".to_owned(),
            provider: Provider::Twitter,
            namespace: "source:poll:search/tweets".to_owned(),
            quiet_after: quiet_after.map(Duration::from_secs),
            longest: Duration::from_secs(900),
        };
        let since = |source: Source, after, now| source.judged_by(&named(after), now).quiet_since();
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
        let sources = Sources { all: vec![source("rust").judged_by(&named(Some(100)), 2_000_000)], error: None };
        let mut text = String::new();
        sources.write(&mut text, 2_000_000).unwrap();
        assert!(text.ends_with("\n  brought no new post since 1970-01-01T00:15:00Z\n"), "{text}");
        assert_eq!(serde_json::to_value(&sources).unwrap()["sources"][0]["quiet"], true);
    }

    #[test]
    fn the_headline_names_the_first_of_what_keeps_new_posts_away() {
        let says = |all: Vec<Source>| Sources { all, error: None }.trouble_of("twitter");
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
            let named = NamedSource {
                name: "new".to_owned(),
                provider: Provider::Twitter,
                namespace: "source:poll:search/tweets".to_owned(),
                quiet_after: None,
                longest: Duration::from_secs(900),
            };
            let of_twitter = |source| Source { provider: Some("twitter".to_owned()), ..source };
            let never = of_twitter(Source::never_polled("new", Some(place))).judged_by(&named, 1_000_000);
            says(vec![source("rust"), never])
        };
        let not = |why: &str| Some(format!("new posts are not collected: source new is not polled: {why}"));
        assert_eq!(placed(&[]), not("it is in no queue; restart `twitter-updater poll`"));
        assert_eq!(placed(&[Place::Dead { at: 1, reason: String::new() }]), not("it is dead"));
        let due = |due| placed(&[Place::Delayed { lane: "15m".to_owned(), due }]);
        assert_eq!((due(70_000), due(2_000_000)), (None, None));
        assert_eq!(due(69_999), not("it is due since 1970-01-01T00:01:09Z"));
        assert_eq!(placed(&[Place::Leased { fence: 1, by: None }]), None);
        let absent = |name: &str| Source { turn: Turn::Absent, ..source(name) };
        let many = says(vec![absent("a"), down("down", 0), absent("b")]).unwrap();
        assert!(many.contains(": 2 sources are not polled; the first: a, it is in no queue"), "{many}");
        // A single source does not alert a person.
        let of_pollers = |all: Vec<Source>| Sources { all, error: None }.poller_trouble_of("twitter");
        assert_eq!(of_pollers(vec![down("down", 0), calm("rust", 0)]), None);
        assert!(of_pollers(vec![Source { poller: Poller::Missing, ..source("rust") }]).is_some());
    }
}
