//! The services of a process: one connection for the queues and the quota ledgers, and the store.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use secrecy::ExposeSecret;
use tokio_util::sync::CancellationToken;

use super::{InForce, open_store};
use crate::base::backend::redis::{RedisOptions, RedisPool, Tls};
use crate::base::reload::Reloadable;
use crate::config::{BadConfig, FileSettings, QueueBackend, Settings, masked};
use crate::engine::queue::{EmbeddedQueue, Queue, RedisQueue};
use crate::engine::redis_functions;
use crate::model::provider::Provider;
use crate::pipelines::kind::{Live, Registered};
use crate::quota::{EmbeddedLedger, Ledger, RedisLedger};
use crate::store::Database;

/// Interval at which a long-running process checks the functions for redis-cli.
const LOOK_EVERY: Duration = Duration::from_secs(60);

#[derive(Debug, Clone)]
pub enum Service {
    /// Redis; queue and ledger share its connections.
    Redis {
        pool: RedisPool,
        /// Address without passwords.
        address: String,
    },
    /// File; the queue and the ledger each open it.
    Embedded(FileSettings),
}

impl Service {
    /// Creates the configured service. Connects to nothing.
    pub fn new(settings: &Settings) -> Result<Self> {
        let redis = &settings.queue.redis;
        settings.tls_files_are_regular()?;
        Ok(match settings.queue.backend {
            QueueBackend::Redis => Self::Redis {
                pool: RedisPool::new(&RedisOptions {
                    url: redis.url.clone(),
                    tls: Tls::read(&redis.ca_file, &redis.cert_file, &redis.key_file).map_err(BadConfig)?,
                    connections: redis.connections,
                    connect_timeout: redis.connect_timeout,
                    response_timeout: redis.response_timeout,
                })?,
                address: masked(redis.url.expose_secret()),
            },
            QueueBackend::Embedded => Self::Embedded(settings.queue.embedded.clone()),
        })
    }

    /// Opens the queue of that namespace, without a check that it responds.
    pub async fn unchecked_queue(&self, namespace: &str) -> Result<Arc<dyn Queue>> {
        Ok(match self {
            Self::Redis { pool, .. } => Arc::new(RedisQueue::new(pool.clone(), namespace)),
            Self::Embedded(file) => {
                let queue = EmbeddedQueue::open(&file.path, namespace, file.busy_timeout).await;
                Arc::new(queue.with_context(|| self.unusable("queue"))?)
            }
        })
    }

    /// Opens the queue of that namespace, and checks it.
    pub async fn queue(&self, namespace: &str) -> Result<Arc<dyn Queue>> {
        let queue = self.unchecked_queue(namespace).await?;
        let findings = queue.check().await.with_context(|| self.unusable("queue"))?;
        if let Some((first, others)) = findings.split_first() {
            tracing::debug!(namespace, "{first}");
            others.iter().for_each(|finding| tracing::warn!(namespace, "{finding}"));
        }
        if let Self::Redis { pool, .. } = self {
            redis_functions::loaded(pool, true).await;
        }
        Ok(queue)
    }

    /// Opens and checks the queues of these pipelines, in their order.
    pub async fn queues(&self, pipelines: impl IntoIterator<Item = &Registered>) -> Result<Vec<Arc<dyn Queue>>> {
        let mut queues: Vec<Arc<dyn Queue>> = Vec::new();
        for pipeline in pipelines {
            let namespace = pipeline.namespace();
            // Several pipelines may share one queue.
            let known = queues.iter().find(|queue| queue.namespace() == namespace).cloned();
            queues.push(match known {
                Some(queue) => queue,
                None => self.queue(&namespace).await?,
            });
        }
        Ok(queues)
    }

    /// Reloads missing functions for redis-cli, until `stop`.
    pub async fn keep_functions_loaded(self, stop: CancellationToken) {
        if let Self::Redis { pool, .. } = self {
            redis_functions::keep(&pool, LOOK_EVERY, stop).await;
        }
    }

    pub async fn ledger(&self, provider: &Provider) -> Result<Arc<dyn Ledger>> {
        let whose = provider.ledger();
        Ok(match self {
            Self::Redis { pool, .. } => Arc::new(RedisLedger::new(pool.clone(), &whose)),
            Self::Embedded(file) => {
                let ledger = EmbeddedLedger::open(&file.path, &whose, file.busy_timeout).await;
                Arc::new(ledger.with_context(|| self.unusable("quota ledger"))?)
            }
        })
    }

    pub fn unusable(&self, what: &str) -> String {
        match self {
            Self::Redis { address, .. } => format!("the {what} cannot be used (queue.redis.url is {address})"),
            Self::Embedded(file) => {
                format!("the {what} cannot be used (queue.embedded.path is {})", file.path.display())
            }
        }
    }
}

/// Text about the called APIs, by the name of the provider.
pub type Apis = BTreeMap<String, String>;

/// State shared by the pipelines of a process.
pub struct Shared {
    pub in_force: Reloadable<InForce>,
    pub service: Service,
    pub database: Database,
    pub apis: Apis,
}

impl Shared {
    /// Text about the API that a pipeline calls; empty if it calls none.
    pub(super) fn api_of(&self, items: &Registered) -> String {
        let metered = items.is_metered().then(|| self.apis.get(&items.id.provider.to_string()));
        metered.flatten().cloned().unwrap_or_default()
    }

    pub fn live(&self) -> Live {
        let in_force = self.in_force.clone();
        Arc::new(move || in_force.load().settings.clone())
    }

    /// Opens the services, and the queues of these pipelines in their order.
    pub async fn open(
        settings: &Settings,
        pipelines: impl IntoIterator<Item = &Registered>,
    ) -> Result<(Self, Vec<Arc<dyn Queue>>)> {
        let service = Service::new(settings)?;
        let queues = service.queues(pipelines).await?;
        // The queue first: if it is missing, no file of an embedded store is created.
        let database = open_store(settings).await?;
        let in_force = Reloadable::new(InForce::new(settings.clone()));
        Ok((Self { in_force, service, database, apis: Apis::new() }, queues))
    }
}
