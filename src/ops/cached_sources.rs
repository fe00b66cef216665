//! The polled sources, read at intervals for all viewers, and their gauges.

use std::collections::BTreeMap;
use std::time::Duration;

use prometheus_client::registry::Registry;
use tokio::sync::Mutex;

use super::exposition::{Labels, namespace_label, register_gauges};
use super::pace::Pace;
use crate::ops::report::sources::{Source, SourceReader, Sources};
use engine::base::clock::{Millis, Stopwatch};

/// Interval of reads while the page has viewers; longer if reads are slow, since all gaps are counted. It is just below 3 s, because the
/// page reads once per second, and one reading may come a moment early.
const READ_EVERY: Duration = Duration::from_millis(2_900);
const RETRY_AFTER: Duration = Duration::from_secs(5);
/// Time limit for the store, and again for the queues: the rest of the page waits for it.
const READ_TIMEOUT: Duration = Duration::from_millis(500);

/// Maximum number of sources that a gauge names; all are counted.
const MAX_NAMED: usize = 100;

#[derive(Debug, Default)]
struct LastRead {
    sources: Sources,
    /// Time of the reading, and the time until the next one.
    at: Option<(Stopwatch, Duration)>,
    pace: Pace,
}

#[derive(Debug)]
pub(crate) struct CachedSources {
    reader: SourceReader,
    read: Mutex<LastRead>,
}

impl CachedSources {
    pub(crate) fn new(reader: SourceReader) -> Self {
        Self { reader, read: Mutex::default() }
    }

    /// Returns the last reading, or reads again if that is too old.
    pub(crate) async fn sources(&self) -> Sources {
        let mut read = self.read.lock().await;
        if read.at.as_ref().is_none_or(|(watch, rest)| watch.elapsed() >= *rest) {
            let watch = Stopwatch::start();
            let answer = self.reader.read(READ_TIMEOUT).await;
            let took = watch.elapsed();
            let rest = if answer.is_ok() { read.pace.pause_after(took, READ_EVERY) } else { RETRY_AFTER };
            read.sources = match answer {
                Ok(all) => Sources { all, ..Sources::default() },
                Err(why) if self.reader.has_configured_sources() || !read.sources.is_empty() => {
                    std::mem::take(&mut read.sources).with_failed_reading(why.to_string())
                }
                Err(_) => Sources::default(),
            };
            read.at = Some((Stopwatch::start(), rest));
        }
        read.sources.clone()
    }
}

/// Adds the gauges of the sources in the settings. Healthy sources are counted and not named: an alert about a source ends with its gauge.
pub(super) fn register_sources(registry: &mut Registry, sources: &Sources, now: Millis) {
    let named = || sources.all.iter().filter(|source| source.is_named && source.namespace.is_some());
    if named().next().is_none() {
        return;
    }
    let own = |source: &Source| namespace_label(source.namespace.as_deref().unwrap_or_default());
    let counted = |is: fn(&Source) -> bool| {
        let mut by_namespace: BTreeMap<Labels, f64> = BTreeMap::new();
        for source in named() {
            *by_namespace.entry(own(source)).or_default() += f64::from(u8::from(is(source)));
        }
        by_namespace
    };
    let what = "Sources of the settings that cannot be read";
    register_gauges(registry, "sources_failing", what, counted(|source| source.trouble.is_some()));
    let what = "Sources of the settings that brought no new post for longer than their quiet_after";
    register_gauges(registry, "sources_quiet", what, counted(|source| source.is_quiet));
    // An age, not a count: a scrape that starts after the gap would never see a count rise.
    let mut latest: BTreeMap<Labels, Millis> = BTreeMap::new();
    for (source, gap) in named().filter_map(|source| Some((source, source.latest_gaps.first()?))) {
        let noted_at = latest.entry(own(source)).or_insert(gap.noted_at);
        *noted_at = gap.noted_at.max(*noted_at);
    }
    let ago = |at: Millis| now.saturating_sub(at).max(0) as f64 / 1e3;
    let what = "Time since the latest gap of a source of the settings was noted";
    register_gauges(registry, "sources_last_gap_seconds", what, latest.into_iter().map(|(of, at)| (of, ago(at))));
    let labels = |source: &Source| [own(source), vec![("source", source.name.clone())]].concat();
    let failing = named().filter_map(|source| Some((labels(source), f64::from(source.trouble.as_ref()?.failures))));
    let what = "Failures in a row of each source that cannot be read, while other sources were answered";
    register_gauges(registry, "source_failures", what, failing.take(MAX_NAMED));
    let quiet = named().filter_map(|source| Some((labels(source), ago(source.quiet_since()?))));
    let what = "Time since each quiet source brought a new post";
    register_gauges(registry, "source_quiet_seconds", what, quiet.take(MAX_NAMED));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::exposition;
    use crate::ops::report::sources::Poller;
    use crate::ops::report::sources::tests::source;
    use store::{SourceGap, SourceTrouble};

    fn text(sources: &Sources) -> String {
        let mut registry = exposition::base_registry();
        register_sources(&mut registry, sources, 500_000);
        exposition::encode_text(&registry)
    }

    #[test]
    fn a_reading_that_fails_ends_no_trouble() {
        let never_read = Sources::default().with_failed_reading("no route".to_owned());
        assert_eq!(never_read.collection_trouble("twitter"), None);
        let read = |poller| Sources { all: vec![Source { poller, ..source("a") }], ..Sources::default() };
        let missing = read(Poller::Missing);
        let trouble = missing.collection_trouble("twitter");
        assert!(trouble.is_some());
        let mut failed = missing;
        for why in ["no route", "no answer"] {
            failed = failed.with_failed_reading(why.to_owned());
            assert_eq!((failed.collection_trouble("twitter"), failed.error.as_deref()), (trouble.clone(), Some(why)));
            assert_eq!(failed.provider_poller_trouble("twitter"), trouble, "the metric `fresh` goes by it");
            assert!(failed.all.is_empty() && !text(&failed).contains("sources_failing"), "no old value is shown");
        }
        let well = read(Poller::Unknown).with_failed_reading("no route".to_owned());
        assert_eq!(well.collection_trouble("twitter"), None);
    }

    #[test]
    fn those_of_the_settings_are_counted_and_who_is_not_well_is_named() {
        let trouble = Some(SourceTrouble { since: 1, failures: 12, error: "HTTP 500".to_owned(), at: 2 });
        let failing = Source { trouble: trouble.clone(), ..source("down") };
        let other = Source { trouble, is_named: false, ..source("taken-out") };
        let quiet = Source { is_quiet: true, brought_at: Some(380_000), ..source("calm") };
        let text = text(&Sources { all: vec![failing, other, quiet, source("well")], ..Sources::default() });
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
        let text = text(&Sources { all, ..Sources::default() });
        let says = "twitter_updater_sources_last_gap_seconds{namespace=\"source:poll:search/tweets\"} 60.0\n";
        assert!(text.contains(says), "{text}");
    }

    #[test]
    fn failing_sources_are_named_up_to_a_limit_and_none_if_unknown() {
        let trouble = Some(SourceTrouble { since: 1, failures: 0, error: String::new(), at: 2 });
        let all = (0..1_000).map(|n| Source { trouble: trouble.clone(), ..source(&format!("n{n}")) }).collect();
        let all = text(&Sources { all, ..Sources::default() });
        assert_eq!(all.matches("source=").count(), MAX_NAMED);
        assert!(all.contains("sources_failing{namespace=\"source:poll:search/tweets\"} 1000.0\n"), "{all}");
        for none in [Sources::default(), Sources { error: Some("no route".to_owned()), ..Sources::default() }] {
            assert!(!text(&none).contains("source"), "absent, and not nought");
        }
    }
}
