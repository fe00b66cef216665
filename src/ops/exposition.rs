//! Metrics as OpenMetrics text. Each name and help text is defined beside its counter.

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
use engine::metrics::{Counter, CounterSet, Metrics};

const PREFIX: &str = "twitter_updater";

pub(super) type Labels = Vec<(&'static str, String)>;
type Gauges = Family<Labels, Gauge<f64, AtomicU64>>;

/// Returns a registry with the metrics that every process has: its build and its panics.
#[must_use]
pub fn base_registry() -> Registry {
    let mut registry = Registry::with_prefix(PREFIX);
    registry.register("build", "The program", Info::new([("version", env!("CARGO_PKG_VERSION"))]));
    registry.register("http_panics", "Requests that panicked", panics::panic_counter());
    registry
}

pub(super) fn register_gauges(
    registry: &mut Registry,
    name: &str,
    what: &str,
    values: impl IntoIterator<Item = (Labels, f64)>,
) {
    let family = Gauges::default();
    for (labels, value) in values {
        family.get_or_create(&labels).set(value);
    }
    registry.register(name, what, family);
}

pub(super) fn namespace_label(name: &str) -> Labels {
    vec![("namespace", name.to_owned())]
}

/// Returns the registry of a process, with the metrics of its pipelines by namespace.
#[must_use]
pub fn pipeline_registry(pipelines: impl IntoIterator<Item = (String, Arc<Metrics>)>) -> Registry {
    let mut registry = base_registry();
    registry.register_collector(Box::new(PipelineCollector(pipelines.into_iter().collect())));
    registry
}

/// One collector of all namespaces. OpenMetrics forbids to describe a family twice, as one registry per namespace would.
#[derive(Debug)]
struct PipelineCollector(Vec<(String, Arc<Metrics>)>);

impl PipelineCollector {
    fn encode_metric<M: EncodeMetric>(
        &self,
        encoder: &mut DescriptorEncoder<'_>,
        name: &str,
        what: &str,
        of: impl Fn(&Metrics) -> Option<M>,
    ) -> fmt::Result {
        let value = |(namespace, metrics): &(String, Arc<Metrics>)| Some((namespace.clone(), of(metrics)?));
        let values: Vec<(String, M)> = self.0.iter().filter_map(value).collect();
        let Some((_, first)) = values.first() else { return Ok(()) };
        let mut family = encoder.encode_descriptor(name, &trim_help(what), None, first.metric_type())?;
        for (namespace, value) in &values {
            let labels = [("namespace", namespace.as_str())];
            value.encode(family.encode_family(&labels)?)?;
        }
        Ok(())
    }
}

impl PipelineCollector {
    fn encode_unreadable(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
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

    fn encode_restarts(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
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

    fn encode_further_counters(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let all: Vec<(String, Arc<dyn CounterSet>)> =
            self.0.iter().flat_map(|(_, metrics)| metrics.additional_counters()).collect();
        let mut families: BTreeMap<(&str, &str), Vec<(&str, &Counter)>> = BTreeMap::new();
        for (namespace, counters) in &all {
            for (name, what, counter) in counters.list_with_help() {
                families.entry((name, what)).or_default().push((namespace, counter));
            }
        }
        for ((name, what), counters) in families {
            let mut family = encoder.encode_descriptor(name, &trim_help(what), None, MetricType::Counter)?;
            for (namespace, counter) in counters {
                const_counter(counter).encode(family.encode_family(&[("namespace", namespace)])?)?;
            }
        }
        Ok(())
    }
}

fn const_counter(counter: &Counter) -> ConstCounter<u64> {
    ConstCounter::new(u64::try_from(counter.get()).unwrap_or(0))
}

impl Collector for PipelineCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let Some((_, any)) = self.0.first() else { return Ok(()) };
        for (at, (name, what, _)) in any.histograms.list_with_help().enumerate() {
            let of = |metrics: &Metrics| {
                metrics.histograms.list_with_help().nth(at).map(|(.., histogram)| histogram.clone())
            };
            self.encode_metric(&mut encoder, name, what, of)?;
        }
        let what = "Batches claimed and not settled yet.";
        self.encode_metric(&mut encoder, "in_flight", what, |metrics| Some(metrics.in_flight.clone()))?;
        // These counters have a form of their own, since they are sent to the queue, too.
        for (at, (name, what, _)) in any.counters.list_with_help().into_iter().enumerate() {
            let of = |metrics: &Metrics| {
                let (.., counter) = metrics.counters.list_with_help().into_iter().nth(at)?;
                Some(const_counter(counter))
            };
            self.encode_metric(&mut encoder, name, what, of)?;
        }
        self.encode_unreadable(&mut encoder)?;
        self.encode_restarts(&mut encoder)?;
        self.encode_further_counters(&mut encoder)
    }
}

fn trim_help(doc: &str) -> String {
    doc.trim().to_owned()
}

pub(super) fn encode_text(registry: &Registry) -> String {
    let mut text = String::new();
    // Writing to a String cannot fail.
    let _ = encode(&mut text, registry);
    text
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use collect::pipelines::streams::counters::StreamCounters;
    use collect::pipelines::timelines::counters::PollCounters;

    #[test]
    fn each_family_is_described_once_and_has_a_value_of_each_namespace() {
        let pipelines =
            ["tweet:update", "mastodon:update:social"].map(|name| (name.to_owned(), Arc::<Metrics>::default()));
        let metrics: [Arc<Metrics>; 2] = [pipelines[0].1.clone(), pipelines[1].1.clone()];
        metrics[0].counters.found.add(7);
        metrics[1].in_flight.inc();
        metrics[1].histograms.batch_ids.observe(20.0);
        metrics[0].count_unreadable("created_at \"x\" is not a date");
        let (one, other, streams) = (PollCounters::default(), PollCounters::default(), StreamCounters::default());
        one.posts_new.add(3);
        other.posts_new.add(4);
        streams.stream_posts.add(5);
        metrics[0].add_counters("source:poll:search/tweets", Arc::new(one));
        metrics[0].add_counters("source:poll", Arc::new(streams));
        metrics[1].add_counters("source:poll:timelines/home", Arc::new(other));
        let text = encode_text(&pipeline_registry(pipelines));
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
