//! Metrics as OpenMetrics text. They are named and described where they are counted.

use std::fmt;
use std::sync::Arc;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;

use crate::metrics::Metrics;

/// What every name starts with.
const PREFIX: &str = "twitter_updater";
/// What [`text`] is.
pub(super) const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// A registry that holds what every process shows: which build it is.
#[must_use]
pub fn registry() -> Registry {
    let mut registry = Registry::with_prefix(PREFIX);
    registry.register("build", "The program", Info::new([("version", env!("CARGO_PKG_VERSION"))]));
    registry
}

/// What a process that updates shows.
#[must_use]
pub fn of_process(metrics: &Arc<Metrics>) -> Registry {
    let mut registry = registry();
    for (name, what, histogram) in metrics.histograms.described() {
        registry.register(name, sentence(what), histogram.clone());
    }
    registry.register("in_flight", "Batches claimed and not settled yet", metrics.in_flight.clone());
    registry.register_collector(Box::new(Counted(metrics.clone())));
    registry
}

/// The counters, which the process keeps in a form of its own: the queue hears of them, too.
#[derive(Debug)]
struct Counted(Arc<Metrics>);

impl Collector for Counted {
    fn encode(&self, mut encoder: DescriptorEncoder) -> fmt::Result {
        for (name, what, counter) in self.0.counters.described() {
            let value = ConstCounter::new(u64::try_from(counter.get()).unwrap_or(0));
            value.encode(encoder.encode_descriptor(name, &sentence(what), None, value.metric_type())?)?;
        }
        Ok(())
    }
}

/// A doc comment as a help text; the encoder ends it.
fn sentence(doc: &str) -> String {
    doc.trim().trim_end_matches('.').to_owned()
}

/// All of it as text.
pub(super) fn text(registry: &Registry) -> String {
    let mut text = String::new();
    // Writing to a String cannot fail.
    let _ = encode(&mut text, registry);
    text
}
