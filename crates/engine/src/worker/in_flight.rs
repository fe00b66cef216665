use crate::metrics::Metrics;

/// Counts a batch as in flight until it is dropped, even by a panic.
pub(super) struct InFlight<'a>(&'a Metrics);

impl<'a> InFlight<'a> {
    pub(super) fn new(metrics: &'a Metrics) -> Self {
        metrics.in_flight.inc();
        Self(metrics)
    }
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        self.0.in_flight.dec();
    }
}
