//! The polled sources, read at intervals for all viewers, and their gauges.

use std::collections::BTreeMap;
use std::time::Duration;

use prometheus_client::registry::Registry;
use tokio::sync::Mutex;

use super::exposition::{Labels, namespace, show};
use super::pace::Pace;
use crate::base::clock::{Millis, Stopwatch};
use crate::ops::report::sources::{Source, SourceBook, Sources};

/// Interval of reads while the page has viewers, longer if reads are slow: all gaps are counted. It makes three seconds, even if one of
/// the page's readings, once a second, comes a moment early.
const EVERY: Duration = Duration::from_millis(2_900);
const AGAIN: Duration = Duration::from_secs(5);
/// Time limit for the store, and again for the queues: the rest of the page waits for it.
const PATIENCE: Duration = Duration::from_millis(500);

/// Maximum number of sources that a gauge names; all are counted.
const NAMED: usize = 100;

#[derive(Debug, Default)]
struct Read {
    sources: Sources,
    /// Time of the reading, and the time until the next one.
    at: Option<(Stopwatch, Duration)>,
    pace: Pace,
}

#[derive(Debug)]
pub(crate) struct Polled {
    book: SourceBook,
    read: Mutex<Read>,
}

impl Polled {
    pub(crate) fn new(book: SourceBook) -> Self {
        Self { book, read: Mutex::default() }
    }

    /// Returns the last reading. If the store does not answer, it reports the error where sources are known, and does not wait again for
    /// a moment.
    pub(crate) async fn sources(&self) -> Sources {
        let mut read = self.read.lock().await;
        if read.at.as_ref().is_none_or(|(watch, rest)| watch.elapsed() >= *rest) {
            let watch = Stopwatch::start();
            let answer = self.book.read(PATIENCE).await;
            let took = watch.elapsed();
            let rest = if answer.is_ok() { read.pace.rest(took, EVERY) } else { AGAIN };
            read.sources = match answer {
                Ok(all) => Sources { all, error: None },
                Err(why) if self.book.names_any() || !read.sources.is_empty() => {
                    Sources { error: Some(why), ..Sources::default() }
                }
                Err(_) => Sources::default(),
            };
            read.at = Some((Stopwatch::start(), rest));
        }
        read.sources.clone()
    }
}

/// Adds the gauges of the sources in the settings; none if they are unknown. Healthy sources are counted and not named: an alert about a
/// source comes and goes with its gauge.
pub(super) fn show_sources(registry: &mut Registry, sources: &Sources, now: Millis) {
    let named = || sources.all.iter().filter(|source| source.is_named && source.namespace.is_some());
    if named().next().is_none() {
        return;
    }
    let own = |source: &Source| namespace(source.namespace.as_deref().unwrap_or_default());
    let counted = |is: fn(&Source) -> bool| {
        let mut by_namespace: BTreeMap<Labels, f64> = BTreeMap::new();
        for source in named() {
            *by_namespace.entry(own(source)).or_default() += f64::from(u8::from(is(source)));
        }
        by_namespace
    };
    let what = "Sources of the settings that cannot be read";
    show(registry, "sources_failing", what, counted(|source| source.trouble.is_some()));
    let what = "Sources of the settings that brought no new post for longer than their quiet_after";
    show(registry, "sources_quiet", what, counted(|source| source.is_quiet));
    // By its age, and not by a count: a scrape that starts after the gap would never see the count rise.
    let mut latest: BTreeMap<Labels, Millis> = BTreeMap::new();
    for (source, gap) in named().filter_map(|source| Some((source, source.latest_gaps.first()?))) {
        let noted_at = latest.entry(own(source)).or_insert(gap.noted_at);
        *noted_at = gap.noted_at.max(*noted_at);
    }
    let ago = |at: Millis| now.saturating_sub(at).max(0) as f64 / 1e3;
    let what = "Time since the latest gap of a source of the settings was noted";
    show(registry, "sources_last_gap_seconds", what, latest.into_iter().map(|(of, at)| (of, ago(at))));
    let labels = |source: &Source| [own(source), vec![("source", source.name.clone())]].concat();
    let failing = named().filter_map(|source| Some((labels(source), f64::from(source.trouble.as_ref()?.failures))));
    let what = "Failures in a row of each source that cannot be read, while other sources were answered";
    show(registry, "source_failures", what, failing.take(NAMED));
    let quiet = named().filter_map(|source| Some((labels(source), ago(source.quiet_since()?))));
    let what = "Time since each quiet source brought a new post";
    show(registry, "source_quiet_seconds", what, quiet.take(NAMED));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::exposition;
    use crate::ops::report::sources::tests::source;
    use crate::store::{SourceGap, SourceTrouble};

    fn text(sources: &Sources) -> String {
        let mut registry = exposition::registry();
        show_sources(&mut registry, sources, 500_000);
        exposition::text(&registry)
    }

    #[test]
    fn those_of_the_settings_are_counted_and_who_is_not_well_is_named() {
        let trouble = Some(SourceTrouble { since: 1, failures: 12, error: "HTTP 500".to_owned(), at: 2 });
        let failing = Source { trouble: trouble.clone(), ..source("down") };
        let other = Source { trouble, is_named: false, ..source("taken-out") };
        let quiet = Source { is_quiet: true, brought_at: Some(380_000), ..source("calm") };
        let text = text(&Sources { all: vec![failing, other, quiet, source("well")], error: None });
        let of = "namespace=\"source:poll:search/tweets\"";
        for says in [
            format!("twitter_updater_sources_failing{{{of}}} 1.0\n"),
            format!("twitter_updater_sources_quiet{{{of}}} 1.0\n"),
            format!("twitter_updater_source_failures{{{of},source=\"down\"}} 12.0\n"),
            format!("twitter_updater_source_quiet_seconds{{{of},source=\"calm\"}} 120.0\n"),
        ] {
            assert!(text.contains(&says), "{says}: {text}");
        }
        assert_eq!(text.matches("source=").count(), 2, "{text}");
        assert!(!text.contains("sources_last_gap_seconds{"), "none was ever noted: {text}");
    }

    #[test]
    fn the_latest_gap_of_all_sources_has_an_age_without_an_earlier_reading() {
        let with = |name: &str, noted: &[Millis]| {
            let gap =
                |at: &Millis| SourceGap { from: "1".into(), to: "9".into(), reason: "a test".into(), noted_at: *at };
            Source { latest_gaps: noted.iter().map(gap).collect(), ..source(name) }
        };
        let taken_out = Source { is_named: false, ..with("taken-out", &[499_000]) };
        let all = vec![with("a", &[440_000, 20_000]), with("b", &[100_000]), with("c", &[]), taken_out];
        let text = text(&Sources { all, error: None });
        let says = "twitter_updater_sources_last_gap_seconds{namespace=\"source:poll:search/tweets\"} 60.0\n";
        assert!(text.contains(says), "{text}");
    }

    #[test]
    fn failing_sources_are_named_up_to_a_limit_and_none_if_unknown() {
        let trouble = Some(SourceTrouble { since: 1, failures: 0, error: String::new(), at: 2 });
        let all = (0..1_000).map(|n| Source { trouble: trouble.clone(), ..source(&format!("n{n}")) }).collect();
        let all = text(&Sources { all, error: None });
        assert_eq!(all.matches("source=").count(), NAMED);
        assert!(all.contains("sources_failing{namespace=\"source:poll:search/tweets\"} 1000.0\n"), "{all}");
        for none in [Sources::default(), Sources { error: Some("no route".to_owned()), ..Sources::default() }] {
            assert!(!text(&none).contains("source"), "absent, and not nought");
        }
    }
}
