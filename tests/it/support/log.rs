//! Listening to the log of a test.

use std::sync::LazyLock;

use tracing::Dispatch;
use tracing::subscriber::{DefaultGuard, set_default};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::{Layer, Registry, registry};

/// Sends what this thread logs to a layer, until the guard is dropped.
///
/// While a process has one subscriber alone, `tracing` asks the thread that first comes to an event whether anybody wants it, and
/// keeps the answer: a test beside this one that listens to nothing would answer for it. With two it asks both.
pub fn listen(layer: impl Layer<Registry> + Send + Sync) -> DefaultGuard {
    static ANOTHER: LazyLock<Dispatch> = LazyLock::new(|| Dispatch::new(registry()));
    LazyLock::force(&ANOTHER);
    set_default(registry().with(layer))
}
