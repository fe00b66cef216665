//! The HTTP endpoints of a process: liveness, readiness, metrics; and on the role `ops` the whole queues.
//!
//! | address | answer | roles |
//! |---|---|---|
//! | `GET /live` | 200 while its loops run, else 503; asks no service | all |
//! | `GET /ready` | 200 while its services answer (`ops`: the queue) for at least one namespace and it is not stopping, else 503 | all |
//! | `GET /metrics` | OpenMetrics text | all |
//! | `GET /status` | the output of `status --json` | `ops` |
//! | `GET /`, `/tweet`, `/dead`, `/errors` | the page, for people; below `/n/` if there are several namespaces | `ops`, `demo` |
//!
//! The role `starter` adds routes of its own. [`Server`] stops in two steps: it accepts no more requests, then finishes the current ones.

mod cached_sources;
mod exposition;
mod figure_settings;
mod freshness;
mod headline;
mod metrics_format;
mod no_answer;
mod pace;
mod page;
mod probe;
mod probes;
mod recent_counts;
pub mod report;
mod server;
mod slow_query;
mod snapshot;
mod snapshot_reader;
mod store_access;
mod whole_queue;

pub use self::exposition::{base_registry, pipeline_registry};
pub use self::figure_settings::FigureSettings;
pub use self::freshness::{IN_FLIGHT_MS, LaneMeasurement, SAMPLE_SIZE, measure_freshness, normaliser};
pub use self::headline::{FreshnessState, Headline};
pub use self::no_answer::NoAnswer;
pub use self::page::{Access, PageInputs, Site};
pub use self::probe::{ProbeFailure, probe};
pub use self::probes::{metrics_router, probe_router};
pub use self::recent_counts::RecentCounts;
pub use self::server::{AllowedHosts, Server, ServerError};
pub use self::snapshot::{
    ComingDue, Forecast, Freshness, LatestReading, Load, MINUTES_SHOWN, Measurement, Outage, Reading, Snapshot,
    count_offsets,
};
pub use self::snapshot_reader::{OpenedDatabase, OpenedStore, SnapshotReader};
pub use self::store_access::StoreAccess;
pub use self::whole_queue::WholeQueue;
