//! The whole queue and its quota, read when somebody asks: gauges for a scrape, JSON for a person.
//!
//! On `ops` alone: read by each of fifty updaters, they would be the same figures fifty times, and fifty times
//! the work for the queue.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::get;
use axum::{Json, Router};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use super::exposition;
use super::probes::{exposed, probes};
use crate::clock::Millis;
use crate::credential::{Account, Ledger, LedgerError};
use crate::health::Health;
use crate::lookup::Capabilities;
use crate::queue::{Queue, QueueError, Stats};
use crate::status::Status;

/// How long queue and ledger may take to answer. A scrape is given 10 s as a rule, and then shows nothing.
pub(super) const PATIENCE: Duration = Duration::from_secs(4);

type Labels = Vec<(&'static str, String)>;
type Gauges = Family<Labels, Gauge<f64, AtomicU64>>;

/// One queue, and the credentials that serve it.
#[derive(Debug)]
pub struct WholeQueue {
    /// The queue.
    pub queue: Arc<dyn Queue>,
    /// What knows the credentials.
    pub ledger: Arc<dyn Ledger>,
    /// The credentials' names.
    pub names: Vec<String>,
    /// What the lookup can take.
    pub capabilities: Capabilities,
    /// Hears whether they answered.
    pub health: Arc<Health>,
}

impl WholeQueue {
    /// Its routes, and the probes of the process.
    pub fn router(self: &Arc<Self>) -> Router {
        let status = async |State(whole): State<Arc<Self>>| {
            whole.status().await.map(Json).map_err(|why| (StatusCode::SERVICE_UNAVAILABLE, format!("{why}\n")))
        };
        let metrics = async |State(whole): State<Arc<Self>>| exposed(whole.metrics().await);
        let own = Router::new().route("/status", get(status)).route("/metrics", get(metrics));
        own.with_state(self.clone()).merge(probes(&self.health))
    }

    /// As `twitter-updater status` shows it.
    ///
    /// # Errors
    /// One line: a service is out, or does not answer in time.
    async fn status(&self) -> Result<Status, String> {
        let (stats, accounts) = self.read().await?;
        Ok(Status::new(stats, accounts, self.capabilities))
    }

    async fn read(&self) -> Result<(Stats, Vec<Account>), String> {
        self.in_time(async { tokio::try_join!(self.queue.stats(), self.accounts()) }).await
    }

    /// What the ledger knows of each credential.
    pub(super) async fn accounts(&self) -> Result<Vec<Account>, LedgerError> {
        self.ledger.accounts(self.capabilities.endpoint, &self.names).await
    }

    /// What queue and ledger answer, if they do so in time; the process's health hears of it.
    pub(super) async fn in_time<T>(&self, reading: impl Future<Output = Result<T, QueueError>>) -> Result<T, String> {
        let read = match tokio::time::timeout(PATIENCE, reading).await {
            Ok(read) => read.map_err(|error| error.to_string()),
            Err(_) => Err(format!("the queue did not answer within {} s", PATIENCE.as_secs())),
        };
        match &read {
            Ok(_) => self.health.works(),
            Err(why) => self.health.is_out(why),
        };
        read
    }

    /// The metrics at this moment, as text: without a queue that answers, that it does not.
    async fn metrics(&self) -> String {
        let mut registry = exposition::registry();
        let up: Gauge = Gauge::default();
        registry.register("queue_up", "1 when the queue answered this scrape, else 0", up.clone());
        match self.read().await {
            Ok((stats, accounts)) => {
                up.set(1);
                show_queue(&mut registry, &stats);
                show_quota(&mut registry, self.capabilities.endpoint, &accounts);
            }
            Err(error) => tracing::debug!(error, "the queue did not answer a scrape"),
        }
        exposition::text(&registry)
    }
}

/// A gauge with one value per set of labels.
fn show(registry: &mut Registry, name: &str, what: &str, values: impl IntoIterator<Item = (Labels, f64)>) {
    let family = Gauges::default();
    for (labels, value) in values {
        family.get_or_create(&labels).set(value);
    }
    registry.register(name, what, family);
}

fn show_queue(registry: &mut Registry, stats: &Stats) {
    let namespace = || vec![("namespace", stats.namespace.clone())];
    let lane = |lane: &str| vec![("namespace", stats.namespace.clone()), ("lane", lane.to_owned())];
    let by_lane = |of: fn(&crate::queue::LaneStats) -> f64| stats.lanes.iter().map(move |at| (lane(&at.lane), of(at)));
    show(registry, "delayed", "Ids in each lane", by_lane(|lane| lane.delayed as f64));
    show(registry, "due", "Ids in each lane that are due", by_lane(|lane| lane.due as f64));
    let late = by_lane(|lane| seconds(lane.oldest_lateness_ms));
    show(registry, "oldest_lateness_seconds", "How late the oldest due id of each lane is", late);
    for (name, what, count) in [
        ("leased", "Ids under a lease", stats.leased),
        ("expired", "Ids of those whose lease has run out and that nobody has claimed yet", stats.expired),
        ("dead", "Ids that are buried", stats.dead),
        ("incoming", "Ids in incoming that are not drained yet", stats.incoming),
        ("paused", "1 while somebody has paused the namespace, else 0", u64::from(stats.paused.is_some())),
    ] {
        show(registry, name, what, [(namespace(), count as f64)]);
    }

    let mut workers: BTreeMap<Labels, f64> = BTreeMap::new();
    for worker in &stats.workers {
        let field = |name: &str| worker.fields.get(name).cloned().unwrap_or_default();
        let of = [("version", field("version")), ("config_revision", field("config_revision"))];
        *workers.entry([namespace(), of.to_vec()].concat()).or_default() += 1.0;
    }
    show(registry, "workers", "Workers that have beaten lately", workers);

    let events: Family<Labels, Counter> = Family::default();
    for (event, count) in &stats.counters {
        let labels = [namespace(), vec![("event", event.clone())]].concat();
        events.get_or_create(&labels).inc_by(u64::try_from(*count).unwrap_or(0));
    }
    registry.register("queue_events", "The queue's counters since it was made, over all workers", events);
}

fn show_quota(registry: &mut Registry, endpoint: &str, accounts: &[Account]) {
    let labels = |account: &Account| vec![("credential", account.name.clone()), ("endpoint", endpoint.to_owned())];
    // What no answer has told yet is not shown: it is not nought.
    let known = |of: fn(&Account) -> Option<f64>| {
        accounts.iter().filter_map(move |account| Some((labels(account), of(account)?)))
    };
    let what = "Calls of each credential's window that may still be granted";
    show(registry, "quota_remaining", what, known(|account| account.remaining.map(f64::from)));
    show(registry, "quota_limit", "Calls per window of each credential", known(|account| account.limit.map(f64::from)));
    let reset = known(|account| account.reset_in_ms.map(seconds));
    show(registry, "quota_reset_seconds", "How long until each credential's window ends", reset);
    let parked = known(|account| Some(f64::from(u8::from(account.parked_for_ms > 0))));
    show(registry, "credential_parked", "1 while a credential is left alone, else 0", parked);
}

fn seconds(ms: Millis) -> f64 {
    ms as f64 / 1e3
}
