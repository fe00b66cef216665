//! Counts and logs panics of requests.

use std::sync::LazyLock;

use prometheus_client::metrics::counter::Counter;

static PANICS: LazyLock<Counter> = LazyLock::new(Counter::default);

pub(in super::super) fn panic_counter() -> Counter {
    PANICS.clone()
}

pub(super) fn record_panic(path: &str, error: &str) {
    PANICS.inc();
    tracing::error!(path, error, "a request panicked: the process goes on");
}
