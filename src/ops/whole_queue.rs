//! The queue of a namespace over all workers, and its quota; their gauges. Only `ops` reads them: fifty updaters would report the same
//! figures fifty times.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

use super::exposition::{self, Labels, namespace_label, register_gauges};
use super::{FigureSettings, FreshnessState, Headline, LatestReading, NoAnswer, Snapshot, cached_sources};
use crate::ops::report::crawls::Crawls;
use crate::ops::report::known_accounts::KnownAccounts;
use crate::ops::report::list_backlog::{ListFigures, TierFigures};
use crate::ops::report::sources::Sources;
use collect::pipelines::refresh::mass_miss_alert::MassMissAlert;
use engine::base::clock::Millis;
use engine::base::reload::Reloadable;
use engine::health::Health;
use engine::queue::{LaneStats, Queue, QueueError, Stats};
use engine::quota::{Budget, BudgetStatus, CredentialStatus, Ledger, LedgerError};
use networks::providers::lookup::Capabilities;

/// Time limit for queue and ledger. A scrape usually has 10 s.
pub(super) const QUEUE_TIMEOUT: Duration = Duration::from_secs(4);

#[derive(Debug)]
pub struct WholeQueue {
    pub queue: Arc<dyn Queue>,
    /// The ledger's tag of the provider: several providers may have credentials of the same name.
    pub provider: String,
    pub ledger: Arc<dyn Ledger>,
    pub names: Vec<String>,
    pub capabilities: Capabilities,
    /// The settings from which the demand is calculated.
    pub terms: Reloadable<FigureSettings>,
    pub budget: Option<Reloadable<Budget>>,
    pub health: Arc<Health>,
}

impl WholeQueue {
    /// State of the budget of reads; `None` if reads are not charged.
    pub async fn reads(&self) -> Result<Option<BudgetStatus>, LedgerError> {
        let Some(budget) = &self.budget else { return Ok(None) };
        let budget = budget.load();
        Ok(Some(budget.status(&self.ledger.counted_reads(budget.per).await?)))
    }

    pub async fn statuses(&self) -> Result<Vec<CredentialStatus>, LedgerError> {
        self.ledger.statuses(self.capabilities.endpoint, &self.names, &[]).await
    }

    /// Waits for `reading` until the timeout, and updates the process's health by the result.
    pub(super) async fn in_time<T>(
        &self,
        patience: Duration,
        reading: impl Future<Output = Result<T, QueueError>>,
    ) -> Result<T, NoAnswer> {
        let read = match tokio::time::timeout(patience, reading).await {
            Ok(read) => read.map_err(NoAnswer::from),
            Err(_) => Err(NoAnswer::within_seconds("the queue did not answer", patience)),
        };
        match &read {
            Ok(_) => self.health.record_success(),
            Err(why) => self.health.record_outage(&why.to_string()),
        };
        read
    }
}

/// Writes the metrics of all queues and of the polled sources as text, at `now`, ms since the epoch. A queue that does not answer is
/// reported as down.
pub(super) fn render_metrics(all: &[(Arc<WholeQueue>, LatestReading)], sources: &Sources, now: Millis) -> String {
    let mut registry = exposition::base_registry();
    let of = |whole: &WholeQueue| namespace_label(whole.queue.namespace());
    let read = || all.iter().filter(|(_, seen)| seen.outage.is_none());
    let up = all.iter().map(|(whole, seen)| (of(whole), flag(seen.outage.is_none() && seen.snapshot.is_some())));
    register_gauges(&mut registry, "queue_up", "1 when the queue answered this scrape, else 0", up);
    // A single failing source has an alert of its own.
    let fresh = |whole: &WholeQueue, seen: &LatestReading| {
        let pollers = seen.pollers.as_ref().and_then(|_| sources.provider_poller_trouble(&whole.provider));
        Headline::from_reading(&LatestReading { pollers, ..seen.clone() }).state == FreshnessState::Fresh
    };
    let fresh = all.iter().map(|(whole, seen)| (of(whole), flag(fresh(whole, seen))));
    register_gauges(&mut registry, "fresh", "1 while all but a hundredth of the posts are up to date, else 0", fresh);
    let snapshot: Vec<(&WholeQueue, &Snapshot)> =
        read().filter_map(|(whole, seen)| Some((&**whole, &**seen.snapshot.as_ref()?))).collect();
    let old_reader = |of: &Snapshot| of.status.old_reader.as_ref().map_or(0.0, |old| old.age_ms as f64 / 1_000.0);
    let old_readers = snapshot.iter().map(|(whole, snapshot)| (of(whole), old_reader(snapshot)));
    let what = "The age of the oldest transaction in the store's database, if it is over five minutes, else 0";
    register_gauges(&mut registry, "store_oldest_transaction_seconds", what, old_readers);
    register_freshness(&mut registry, &snapshot);
    register_queues(&mut registry, &snapshot.iter().map(|(_, of)| &of.status.stats).collect::<Vec<_>>());
    register_quotas(&mut registry, &snapshot.iter().map(|(whole, of)| (*whole, &*of.accounts)).collect::<Vec<_>>());
    let budgets: Vec<_> =
        snapshot.iter().filter_map(|(whole, of)| Some((*whole, of.status.budget.as_ref()?))).collect();
    if !budgets.is_empty() {
        register_budgets(&mut registry, &budgets);
    }
    let accounts: Vec<_> =
        snapshot.iter().filter_map(|(whole, of)| Some((*whole, of.status.known_accounts.as_ref()?))).collect();
    if !accounts.is_empty() {
        register_accounts(&mut registry, &accounts);
    }
    let crawls: Vec<_> =
        snapshot.iter().filter_map(|(whole, of)| Some((*whole, *of, of.status.crawls.as_ref()?))).collect();
    if !crawls.is_empty() {
        register_crawls(&mut registry, &crawls);
    }
    let lists: Vec<_> =
        snapshot.iter().filter_map(|(whole, of)| Some((*whole, of.status.lists.as_ref()?.figures.as_ref()?))).collect();
    if !lists.is_empty() {
        register_lists(&mut registry, &lists);
    }
    cached_sources::register_sources(&mut registry, sources, now);
    exposition::encode_text(&registry)
}

fn register_freshness(registry: &mut Registry, all: &[(&WholeQueue, &Snapshot)]) {
    let known = |of: fn(&Snapshot) -> Option<f64>| {
        all.iter().filter_map(move |(whole, snapshot)| Some((namespace_label(whole.queue.namespace()), of(snapshot)?)))
    };
    type Share = fn(&Snapshot) -> Option<f64>;
    let shown: [(&str, &str, Share); 5] = [
        ("posts_late", "Posts whose last answer is older than their interval, estimated from a sample", |of| {
            Some(of.total_freshness().late? as f64)
        }),
        ("posts_missing", "Posts found before that the latest answers leave out, estimated from a sample", |of| {
            Some(of.total_freshness().missing? as f64)
        }),
        ("posts_waiting", "Posts that wait for their first answer, estimated from a sample", |of| {
            Some(of.total_freshness().waiting? as f64)
        }),
        ("posts_due_beyond", "Posts due later than their lane allows", |of| Some(of.total_freshness().beyond as f64)),
        ("wave", "1 while far more posts are missing than usual, else 0", |of| {
            Some(flag(of.wave.as_ref().is_some_and(MassMissAlert::lasts)))
        }),
    ];
    for (name, what, of) in shown {
        register_gauges(registry, name, what, known(of));
    }
}

fn register_queues(registry: &mut Registry, queues: &[&Stats]) {
    let lane = |stats: &Stats, lane: &LaneStats| {
        [namespace_label(&stats.namespace), vec![("lane", lane.lane.clone())]].concat()
    };
    let by_lane = |of: fn(&LaneStats) -> f64| {
        queues.iter().flat_map(move |stats| stats.lanes.iter().map(move |at| (lane(stats, at), of(at))))
    };
    register_gauges(registry, "delayed", "Ids in each lane", by_lane(|lane| lane.delayed as f64));
    register_gauges(registry, "due", "Ids in each lane that are due", by_lane(|lane| lane.due as f64));
    let late = by_lane(|lane| seconds(lane.oldest_lateness_ms));
    register_gauges(registry, "oldest_lateness_seconds", "Lateness of the oldest due id in each lane", late);
    type Count = fn(&Stats) -> f64;
    let counts: [(&str, &str, Count); 7] = [
        ("leased", "Ids under a lease", |stats| stats.leased as f64),
        ("expired", "Ids whose lease has expired and that no worker has claimed again", |stats| stats.expired as f64),
        ("dead", "Dead ids: they failed for good", |stats| stats.dead as f64),
        ("incoming", "Ids in incoming that are not scheduled yet", |stats| stats.incoming as f64),
        ("paused", "1 while the namespace is paused, else 0", |stats| flag(stats.paused.is_some())),
        ("config_refused", "Workers that rejected the current configuration files", |stats| {
            workers_reporting(stats, "config_refused")
        }),
        ("config_needs_restart", "Workers with changed settings that need a restart", |stats| {
            workers_reporting(stats, "config_needs_restart")
        }),
    ];
    for (name, what, count) in counts {
        register_gauges(
            registry,
            name,
            what,
            queues.iter().map(|stats| (namespace_label(&stats.namespace), count(stats))),
        );
    }

    let mut workers: BTreeMap<Labels, f64> = BTreeMap::new();
    let events: Family<Labels, Counter> = Family::default();
    for stats in queues {
        for worker in &stats.workers {
            let field = |name: &str| worker.fields.get(name).cloned().unwrap_or_default();
            let of = [("version", field("version")), ("config_revision", field("config_revision"))];
            *workers.entry([namespace_label(&stats.namespace), of.to_vec()].concat()).or_default() += 1.0;
        }
        for (event, count) in &stats.counters {
            let labels = [namespace_label(&stats.namespace), vec![("event", event.clone())]].concat();
            events.get_or_create(&labels).inc_by(u64::try_from(*count).unwrap_or(0));
        }
    }
    register_gauges(registry, "workers", "Workers with a recent heartbeat", workers);
    registry.register("queue_events", "The queue's counters since its creation, over all workers", events);
}

fn workers_reporting(stats: &Stats, field: &str) -> f64 {
    let tells = stats.workers.iter().filter(|worker| worker.fields.get(field).is_some_and(|text| !text.is_empty()));
    tells.count() as f64
}

fn register_quotas(registry: &mut Registry, quotas: &[(&WholeQueue, &[CredentialStatus])]) {
    let labels = |whole: &WholeQueue, account: &CredentialStatus| {
        let own = [
            ("provider", whole.provider.clone()),
            ("credential", account.name.clone()),
            ("endpoint", whole.capabilities.endpoint.to_owned()),
        ];
        [namespace_label(whole.queue.namespace()), own.to_vec()].concat()
    };
    // Values that no answer has stated yet are left out: they are not zero.
    let known = |of: fn(&CredentialStatus) -> Option<f64>| {
        let known = move |(whole, accounts): &(&WholeQueue, &[CredentialStatus])| {
            let known = accounts.iter().filter_map(|account| Some((labels(whole, account), of(account)?)));
            known.collect::<Vec<_>>()
        };
        quotas.iter().flat_map(known)
    };
    let what = "Calls left in each credential's window";
    register_gauges(registry, "quota_remaining", what, known(|account| account.remaining.map(f64::from)));
    register_gauges(
        registry,
        "quota_limit",
        "Calls per window of each credential",
        known(|account| account.limit.map(f64::from)),
    );
    let reset = known(|account| account.reset_in_ms.map(seconds));
    register_gauges(registry, "quota_reset_seconds", "Time until each credential's window ends", reset);
    let parked = known(|account| Some(flag(account.parked_for_ms > 0)));
    register_gauges(registry, "credential_parked", "1 while a credential is parked, else 0", parked);
}

fn register_budgets(registry: &mut Registry, all: &[(&WholeQueue, &BudgetStatus)]) {
    let of = |value: fn(&BudgetStatus) -> Option<f64>| {
        all.iter().filter_map(move |(whole, reads)| Some((namespace_label(whole.queue.namespace()), value(reads)?)))
    };
    for (name, what, values) in [
        ("budget_reads", "Posts read in this period, or reserved", of(|of| Some(of.reads as f64))),
        ("budget_limit", "Limit of posts read per period", of(|of| Some(of.limit? as f64))),
        ("budget_reset_seconds", "Time until the next period begins", of(|of| Some(seconds(of.reset_in_ms)))),
        ("budget_spent", "1 while the budget of reads is used up, else 0", of(|of| Some(flag(of.spent)))),
        ("budget_cost_dollars", "Upper bound of the cost of this period's reads", of(|of| Some(of.dollars))),
    ] {
        register_gauges(registry, name, what, values);
    }
}

fn register_accounts(registry: &mut Registry, all: &[(&WholeQueue, &KnownAccounts)]) {
    let of = |whole: &WholeQueue| namespace_label(whole.queue.namespace());
    // Values that the store does not state are left out: they are not zero.
    let by_state = all.iter().flat_map(|(whole, known)| {
        let states = known.states.iter().flatten();
        states.map(move |(state, accounts)| {
            ([of(whole), vec![("state", state.as_str().to_owned())]].concat(), *accounts as f64)
        })
    });
    register_gauges(registry, "accounts", "Stored accounts by state", by_state);
    let oldest = all.iter().filter_map(|(whole, known)| Some((of(whole), seconds(known.oldest_data_ms?))));
    register_gauges(
        registry,
        "accounts_oldest_data_seconds",
        "Age of the oldest data of an account that is still looked up",
        oldest,
    );
}

fn register_lists(registry: &mut Registry, all: &[(&WholeQueue, &ListFigures)]) {
    let of = |value: fn(&ListFigures) -> Option<f64>| {
        all.iter().filter_map(move |(whole, lists)| Some((namespace_label(whole.queue.namespace()), value(lists)?)))
    };
    for (name, what, values) in [
        ("lists_unread", "Lists that were never read", of(|lists| Some(lists.unread as f64))),
        (
            "lists_unread_overdue",
            "Lists that were never read and wait longer than their interval",
            of(|lists| Some(lists.unread_overdue as f64)),
        ),
        ("lists_unread_calls", "Calls of all first reads, estimated", of(|lists| Some(lists.first_calls as f64))),
        (
            "lists_unread_seconds",
            "Time until each list has been read once, estimated",
            of(|lists| lists.read_once_ms.map(seconds)),
        ),
    ] {
        register_gauges(registry, name, what, values);
    }
    let by_tier = |value: fn(&TierFigures) -> Option<f64>| {
        let of_tier = move |whole: &WholeQueue, tier: &TierFigures| {
            let labels = [namespace_label(whole.queue.namespace()), vec![("tier", tier.tier.clone())]].concat();
            Some((labels, value(tier)?))
        };
        all.iter().flat_map(move |(whole, lists)| lists.tiers.iter().filter_map(move |tier| of_tier(whole, tier)))
    };
    for (name, what, values) in [
        ("lists_read", "Lists that were read, by tier", by_tier(|tier| Some(tier.lists as f64))),
        ("lists_too_old", "Lists whose newest complete read is too old", by_tier(|tier| Some(tier.too_old as f64))),
        (
            "lists_median_age_seconds",
            "Median age of the newest complete reads",
            by_tier(|tier| tier.median_age_ms.map(seconds)),
        ),
        (
            "lists_oldest_age_seconds",
            "Age of the oldest of the newest complete reads",
            by_tier(|tier| tier.oldest_age_ms.map(seconds)),
        ),
    ] {
        register_gauges(registry, name, what, values);
    }
}

fn register_crawls(registry: &mut Registry, all: &[(&WholeQueue, &Snapshot, &Crawls)]) {
    let of = |whole: &WholeQueue| namespace_label(whole.queue.namespace());
    // Values that the store does not state are left out: they are not zero.
    let known = || all.iter().filter_map(|(whole, at, crawls)| Some((*whole, *at, *crawls, crawls.under_way?)));
    let under_way = known().map(|(whole, _, _, crawls)| (of(whole), crawls as f64));
    register_gauges(registry, "crawls_under_way", "Crawls of lists under way, 1,000 at the most", under_way);
    let age = |at: &Snapshot, crawls: &Crawls| crawls.oldest_start().map_or(0, |began| (at.at_ms() - began).max(0));
    let oldest = known().map(|(whole, at, crawls, _)| (of(whole), seconds(age(at, crawls))));
    register_gauges(
        registry,
        "crawl_oldest_seconds",
        "Time since the oldest crawl under way began; 0 without one",
        oldest,
    );
}

fn flag(is: bool) -> f64 {
    f64::from(u8::from(is))
}

fn seconds(ms: Millis) -> f64 {
    ms as f64 / 1e3
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::queue::WorkerStats;

    #[test]
    fn a_configuration_that_is_refused_or_needs_a_restart_shows_for_as_long_as_a_worker_says_so() {
        let worker = |refused: &str, waiting: &str| {
            let fields = [("config_refused", refused), ("config_needs_restart", waiting)];
            let fields = fields.map(|(name, text)| (name.to_owned(), text.to_owned())).into();
            WorkerStats { worker: "a".to_owned(), beat_age_ms: 0, fields }
        };
        let shown = |workers| {
            let stats = Stats { namespace: "tweet:update".to_owned(), workers, ..Stats::default() };
            let mut registry = exposition::base_registry();
            register_queues(&mut registry, &[&stats]);
            exposition::encode_text(&registry)
        };
        // A poller's report has neither field.
        let poller = WorkerStats { fields: BTreeMap::new(), ..worker("", "") };
        let bad = shown(vec![worker("log.level: loud", ""), worker("", "updater.lease"), worker("x", ""), poller]);
        let good = shown(vec![worker("", "")]);
        for (text, refused, waiting) in [(bad, "2.0", "1.0"), (good, "0.0", "0.0")] {
            for (name, count) in [("config_refused", refused), ("config_needs_restart", waiting)] {
                let says = format!("twitter_updater_{name}{{namespace=\"tweet:update\"}} {count}\n");
                assert!(text.contains(&says), "{says}: {text}");
            }
        }
    }
}
