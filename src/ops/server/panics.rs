//! Panics of requests: they are counted and logged, and end nothing else.

use std::sync::LazyLock;

use prometheus_client::metrics::counter::Counter;

static PANICS: LazyLock<Counter> = LazyLock::new(Counter::default);

pub(in super::super) fn counter() -> Counter {
    PANICS.clone()
}

pub(super) fn note(path: &str, error: &str) {
    PANICS.inc();
    tracing::error!(path, error, "a request panicked: the process goes on");
}
