//! The services of a process: the one under the queues and the quota ledgers, connected to once for both, and the store.

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

/// The interval at which a long-running process checks the functions for redis-cli.
const LOOK_EVERY: Duration = Duration::from_secs(60);

/// The backend of `queue.backend`.
#[derive(Debug, Clone)]
pub enum Service {
    /// A Redis, whose connections queue and ledger share.
    Redis {
        /// Its connections.
        pool: RedisPool,
        /// Its address, without passwords.
        address: String,
    },
    /// A file, which the queue and the ledger each open.
    Embedded(FileSettings),
}

impl Service {
    /// The service that the settings name; nothing is connected yet.
    ///
    /// # Errors
    /// Its address is none, or a file with certificates holds none.
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

    /// The queue of that namespace, whether it answers or not.
    ///
    /// # Errors
    /// Its file cannot be opened.
    pub async fn unchecked_queue(&self, namespace: &str) -> Result<Arc<dyn Queue>> {
        Ok(match self {
            Self::Redis { pool, .. } => Arc::new(RedisQueue::new(pool.clone(), namespace)),
            Self::Embedded(file) => {
                let queue = EmbeddedQueue::open(&file.path, namespace, file.busy_timeout).await;
                Arc::new(queue.with_context(|| self.unusable("queue"))?)
            }
        })
    }

    /// The queue of that namespace; checked.
    ///
    /// # Errors
    /// It is not there, or not fit.
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

    /// The queues of these pipelines, in their order; checked.
    ///
    /// # Errors
    /// As [`Service::queue`].
    pub async fn queues(&self, pipelines: impl IntoIterator<Item = &Registered>) -> Result<Vec<Arc<dyn Queue>>> {
        let mut queues: Vec<Arc<dyn Queue>> = Vec::new();
        for pipeline in pipelines {
            let namespace = pipeline.namespace();
            // Several may work for one queue.
            let known = queues.iter().find(|queue| queue.namespace() == namespace).cloned();
            queues.push(match known {
                Some(queue) => queue,
                None => self.queue(&namespace).await?,
            });
        }
        Ok(queues)
    }

    /// Loads the functions for redis-cli again where they are gone, until `stop`.
    pub async fn keep_picture(self, stop: CancellationToken) {
        if let Self::Redis { pool, .. } = self {
            redis_functions::keep(&pool, LOOK_EVERY, stop).await;
        }
    }

    /// The provider's quota ledger, beside the queue.
    ///
    /// # Errors
    /// It is not there.
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

    /// The service that cannot be used, and the setting with its address.
    pub fn unusable(&self, what: &str) -> String {
        match self {
            Self::Redis { address, .. } => format!("the {what} cannot be used (queue.redis.url is {address})"),
            Self::Embedded(file) => {
                format!("the {what} cannot be used (queue.embedded.path is {})", file.path.display())
            }
        }
    }
}

/// The APIs that are called, in words, by the name of the provider.
pub type Apis = BTreeMap<String, String>;

/// State shared by the pipelines of a process.
pub struct Shared {
    /// The settings in force.
    pub in_force: Reloadable<InForce>,
    /// The service under the queues and the quota ledgers.
    pub service: Service,
    /// The store, and what else lies in its database.
    pub database: Database,
    /// The APIs that its workers call, in words.
    pub apis: Apis,
}

impl Shared {
    /// The API that a pipeline calls, in words; empty where it calls none.
    pub(super) fn api_of(&self, items: &Registered) -> String {
        let metered = items.is_metered().then(|| self.apis.get(&items.id.provider.to_string()));
        metered.flatten().cloned().unwrap_or_default()
    }

    /// The settings in force, as a pipeline asks for them.
    pub fn live(&self) -> Live {
        let in_force = self.in_force.clone();
        Arc::new(move || in_force.load().settings.clone())
    }

    /// Opens the services, and the queues of these pipelines in their order.
    ///
    /// # Errors
    /// A service is down or unusable.
    pub async fn open(
        settings: &Settings,
        pipelines: impl IntoIterator<Item = &Registered>,
    ) -> Result<(Self, Vec<Arc<dyn Queue>>)> {
        let service = Service::new(settings)?;
        let queues = service.queues(pipelines).await?;
        // The queue first: where it is missing, no file of an embedded store is made.
        let database = open_store(settings).await?;
        let in_force = Reloadable::new(InForce::new(settings.clone()));
        Ok((Self { in_force, service, database, apis: Apis::new() }, queues))
    }
}
