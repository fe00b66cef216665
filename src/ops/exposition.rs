//! Metrics as OpenMetrics text. Their names and help texts stand where they are counted.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;

use super::server::panics;
use crate::engine::metrics::{Counter, CounterSet, Metrics};

const PREFIX: &str = "twitter_updater";

pub(super) type Labels = Vec<(&'static str, String)>;
type Gauges = Family<Labels, Gauge<f64, AtomicU64>>;

/// A registry with the metrics of every process: its build and its panics.
#[must_use]
pub fn registry() -> Registry {
    let mut registry = Registry::with_prefix(PREFIX);
    registry.register("build", "The program", Info::new([("version", env!("CARGO_PKG_VERSION"))]));
    registry.register("http_panics", "Requests that panicked", panics::counter());
    registry
}

pub(super) fn show(registry: &mut Registry, name: &str, what: &str, values: impl IntoIterator<Item = (Labels, f64)>) {
    let family = Gauges::default();
    for (labels, value) in values {
        family.get_or_create(&labels).set(value);
    }
    registry.register(name, what, family);
}

pub(super) fn namespace(name: &str) -> Labels {
    vec![("namespace", name.to_owned())]
}

#[must_use]
pub fn of_process(pipelines: impl IntoIterator<Item = (String, Arc<Metrics>)>) -> Registry {
    let mut registry = registry();
    registry.register_collector(Box::new(Pipelines(pipelines.into_iter().collect())));
    registry
}

/// All namespaces in one collector. With one registry each, a family would be described more than once, which OpenMetrics forbids.
#[derive(Debug)]
struct Pipelines(Vec<(String, Arc<Metrics>)>);

impl Pipelines {
    fn family<M: EncodeMetric>(
        &self,
        encoder: &mut DescriptorEncoder<'_>,
        name: &str,
        what: &str,
        of: impl Fn(&Metrics) -> Option<M>,
    ) -> fmt::Result {
        let value = |(namespace, metrics): &(String, Arc<Metrics>)| Some((namespace.clone(), of(metrics)?));
        let values: Vec<(String, M)> = self.0.iter().filter_map(value).collect();
        let Some((_, first)) = values.first() else { return Ok(()) };
        let mut family = encoder.encode_descriptor(name, &sentence(what), None, first.metric_type())?;
        for (namespace, value) in &values {
            let labels = [("namespace", namespace.as_str())];
            value.encode(family.encode_family(&labels)?)?;
        }
        Ok(())
    }
}

impl Pipelines {
    fn unreadable(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let what = "Answers that could not be read, by reason.";
        let mut family = encoder.encode_descriptor("unreadable", what, None, MetricType::Counter)?;
        for (namespace, metrics) in &self.0 {
            for (reason, count) in metrics.unreadable_by_reason() {
                let labels = [("namespace", namespace.as_str()), ("reason", reason.as_str())];
                ConstCounter::new(count).encode(family.encode_family(&labels)?)?;
            }
        }
        Ok(())
    }

    fn restarts(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let what = "Restarted tasks, by task and cause: panic or silence.";
        let mut family = encoder.encode_descriptor("task_restarts", what, None, MetricType::Counter)?;
        for (namespace, metrics) in &self.0 {
            for ((task, cause), count) in metrics.restarts() {
                let labels = [("namespace", namespace.as_str()), ("task", task.as_str()), ("cause", cause)];
                ConstCounter::new(count).encode(family.encode_family(&labels)?)?;
            }
        }
        Ok(())
    }

    fn beside(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let all: Vec<(String, Arc<dyn CounterSet>)> = self.0.iter().flat_map(|(_, metrics)| metrics.beside()).collect();
        let mut families: BTreeMap<(&str, &str), Vec<(&str, &Counter)>> = BTreeMap::new();
        for (namespace, counters) in &all {
            for (name, what, counter) in counters.described() {
                families.entry((name, what)).or_default().push((namespace, counter));
            }
        }
        for ((name, what), counters) in families {
            let mut family = encoder.encode_descriptor(name, &sentence(what), None, MetricType::Counter)?;
            for (namespace, counter) in counters {
                constant(counter).encode(family.encode_family(&[("namespace", namespace)])?)?;
            }
        }
        Ok(())
    }
}

fn constant(counter: &Counter) -> ConstCounter<u64> {
    ConstCounter::new(u64::try_from(counter.get()).unwrap_or(0))
}

impl Collector for Pipelines {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let Some((_, any)) = self.0.first() else { return Ok(()) };
        for (at, (name, what, _)) in any.histograms.described().enumerate() {
            let of =
                |metrics: &Metrics| metrics.histograms.described().nth(at).map(|(.., histogram)| histogram.clone());
            self.family(&mut encoder, name, what, of)?;
        }
        let what = "Batches claimed and not settled yet.";
        self.family(&mut encoder, "in_flight", what, |metrics| Some(metrics.in_flight.clone()))?;
        // The process keeps its counters in its own form, since the queue gets them, too.
        for (at, (name, what, _)) in any.counters.described().into_iter().enumerate() {
            let of = |metrics: &Metrics| {
                let (.., counter) = metrics.counters.described().into_iter().nth(at)?;
                Some(constant(counter))
            };
            self.family(&mut encoder, name, what, of)?;
        }
        self.unreadable(&mut encoder)?;
        self.restarts(&mut encoder)?;
        self.beside(&mut encoder)
    }
}

fn sentence(doc: &str) -> String {
    doc.trim().to_owned()
}

pub(super) fn text(registry: &Registry) -> String {
    let mut text = String::new();
    // Writing to a String cannot fail.
    let _ = encode(&mut text, registry);
    text
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::pipelines::streams::counters::StreamCounters;
    use crate::pipelines::timelines::counters::Polls;

    #[test]
    fn each_family_is_described_once_and_has_a_value_of_each_namespace() {
        let pipelines =
            ["tweet:update", "mastodon:update:social"].map(|name| (name.to_owned(), Arc::<Metrics>::default()));
        let metrics: [Arc<Metrics>; 2] = [pipelines[0].1.clone(), pipelines[1].1.clone()];
        metrics[0].counters.found.add(7);
        metrics[1].in_flight.inc();
        metrics[1].histograms.batch_ids.observe(20.0);
        metrics[0].unreadable("created_at \"x\" is not a date");
        let (one, other, streams) = (Polls::default(), Polls::default(), StreamCounters::default());
        one.posts_new.add(3);
        other.posts_new.add(4);
        streams.stream_posts.add(5);
        metrics[0].also_show("source:poll:search/tweets", Arc::new(one));
        metrics[0].also_show("source:poll", Arc::new(streams));
        metrics[1].also_show("source:poll:timelines/home", Arc::new(other));
        let text = text(&of_process(pipelines));
        for says in [
            "twitter_updater_found_total{namespace=\"tweet:update\"} 7\n",
            "twitter_updater_found_total{namespace=\"mastodon:update:social\"} 0\n",
            "twitter_updater_in_flight{namespace=\"tweet:update\"} 0\n",
            "twitter_updater_in_flight{namespace=\"mastodon:update:social\"} 1\n",
            "twitter_updater_batch_ids_count{namespace=\"mastodon:update:social\"} 1\n",
            "twitter_updater_batch_ids_bucket{le=\"20.0\",namespace=\"mastodon:update:social\"} 1\n",
            "twitter_updater_unreadable_total{namespace=\"tweet:update\",reason=\"created_at … is not a date\"} 1\n",
            "# HELP twitter_updater_found Items found.\n",
            "twitter_updater_posts_new_total{namespace=\"source:poll:search/tweets\"} 3\n",
            "twitter_updater_posts_new_total{namespace=\"source:poll:timelines/home\"} 4\n",
            "twitter_updater_stream_posts_total{namespace=\"source:poll\"} 5\n",
        ] {
            assert!(text.contains(says), "{says}: {text}");
        }
        // Each family has one HELP and one TYPE, then its lines in one piece. No line comes twice, and the end is marked.
        let (mut described, mut lines, mut family) = (BTreeSet::new(), BTreeSet::new(), String::new());
        for line in text.lines() {
            if let Some(help) = line.strip_prefix("# HELP ") {
                family = help.split(' ').next().unwrap().to_owned();
                assert!(described.insert(family.clone()), "{family} is described twice");
            } else if let Some(kind) = line.strip_prefix("# TYPE ") {
                assert_eq!(kind.split(' ').next(), Some(&*family), "{line}");
            } else if line != "# EOF" {
                assert!(line.starts_with(&family), "{line} stands below {family}");
                assert!(lines.insert(line.rsplit_once(' ').unwrap().0), "{line} stands there twice");
            }
        }
        assert!(described.len() > 20 && text.ends_with("# EOF\n"), "{text}");
    }
}
