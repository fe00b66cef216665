//! The HTTP endpoints of a process: liveness, readiness, metrics; and on the role `ops` the whole queues.
//!
//! | address | what | roles |
//! |---|---|---|
//! | `GET /live` | 200 while its loops turn, else 503: never asks a service | all |
//! | `GET /ready` | 200 while its services answer (`ops`: its queue), for at least one namespace, and it is not stopping, else 503 | all |
//! | `GET /metrics` | OpenMetrics text | all |
//! | `GET /status` | the answer of `status --json` | `ops` |
//! | `GET /`, `/tweet`, `/dead`, `/errors` | the page, for people; of several namespaces below `/n/` | `ops`, `demo` |
//!
//! A role that takes requests (`starter`) brings routes of its own. [`Server`] stops in two steps: it accepts no more requests, then
//! finishes the current ones.

mod answer;
mod archive;
mod counting;
pub mod dead;
pub mod export;
mod exposition;
pub mod forget;
mod freshness;
mod lately;
mod metrics_format;
mod pace;
mod page;
mod polled;
mod probe;
mod probes;
pub mod prune;
mod reader;
pub mod report;
mod server;
mod snapshot;
mod terms;
pub mod train;
mod whole_queue;

pub use self::answer::{Answer, State};
pub use self::archive::Archive;
pub use self::exposition::{of_process, registry};
pub use self::freshness::{IN_FLIGHT_MS, Measured, SAMPLED, measure, normaliser};
pub use self::lately::Lately;
pub use self::page::{Access, PageInputs, Site};
pub use self::probe::probe;
pub use self::probes::{metrics, probes};
pub use self::reader::{DatabaseAtHand, Reader, StoreAtHand};
pub use self::server::{Door, Server, ServerError};
pub use self::snapshot::{
    Coming, Forecast, Freshness, LatestReading, Load, MINUTES_SHOWN, Outage, Reading, Sampled, Snapshot, moments,
};
pub use self::terms::Terms;
pub use self::whole_queue::WholeQueue;
