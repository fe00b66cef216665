//! The services of a process: one connection for the queues and the quota ledgers, and the store.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use secrecy::ExposeSecret;
use tokio_util::sync::CancellationToken;

use super::{ActiveConfig, open_store};
use collect::config::{BadConfig, FileSettings, QueueBackend, Settings, masked};
use collect::pipelines::kind::{LiveSettings, RegisteredPipeline};
use engine::base::backend::redis::{RedisOptions, RedisPool, Tls};
use engine::base::reload::Reloadable;
use engine::queue::{EmbeddedQueue, Queue, RedisQueue};
use engine::quota::{EmbeddedLedger, Ledger, RedisLedger};
use engine::redis_functions::FunctionLibrary;
use networks::model::pipeline_id::{LEDGER, NAMESPACE};
use networks::model::provider::Provider;
use store::Database;

/// Interval of the check of the functions for redis-cli.
const CHECK_INTERVAL: Duration = Duration::from_secs(60);

#[must_use]
pub fn function_library() -> FunctionLibrary {
    FunctionLibrary::new(NAMESPACE, LEDGER)
}

#[derive(Debug, Clone)]
pub enum Service {
    /// Redis; queue and ledger share its connections.
    Redis {
        pool: RedisPool,
        /// Address without passwords.
        address: String,
        functions: Arc<FunctionLibrary>,
    },
    /// File; the queue and the ledger each open it.
    Embedded(FileSettings),
}

impl Service {
    /// Creates the configured service. Connects to nothing.
    pub fn new(settings: &Settings) -> Result<Self> {
        let redis = &settings.queue.redis;
        settings.check_tls_files()?;
        Ok(match settings.queue.backend {
            QueueBackend::Redis => Self::Redis {
                pool: RedisPool::new(&RedisOptions {
                    url: redis.url.clone(),
                    tls: Tls::read(&redis.ca_file, &redis.cert_file, &redis.key_file)
                        .map_err(|why| BadConfig(why.to_string()))?,
                    connections: redis.connections,
                    connect_timeout: redis.connect_timeout,
                    response_timeout: redis.response_timeout,
                })?,
                address: masked(redis.url.expose_secret()),
                functions: Arc::new(function_library()),
            },
            QueueBackend::Embedded => Self::Embedded(settings.queue.embedded.clone()),
        })
    }

    /// Opens the queue of that namespace, without a check that it responds.
    pub async fn open_unchecked_queue(&self, namespace: &str) -> Result<Arc<dyn Queue>> {
        Ok(match self {
            Self::Redis { pool, .. } => Arc::new(RedisQueue::new(pool.clone(), namespace)),
            Self::Embedded(file) => {
                let queue = EmbeddedQueue::open(&file.path, namespace, file.busy_timeout).await;
                Arc::new(queue.with_context(|| self.unusable_message("queue"))?)
            }
        })
    }

    /// Opens and checks the queue of that namespace.
    pub async fn queue(&self, namespace: &str) -> Result<Arc<dyn Queue>> {
        let queue = self.open_unchecked_queue(namespace).await?;
        let findings = queue.check().await.with_context(|| self.unusable_message("queue"))?;
        if let Some((first, others)) = findings.split_first() {
            tracing::debug!(namespace, "{first}");
            others.iter().for_each(|finding| tracing::warn!(namespace, "{finding}"));
        }
        if let Self::Redis { pool, functions, .. } = self {
            functions.load_or_log(pool).await;
        }
        Ok(queue)
    }

    /// Opens and checks the queues of these pipelines, in their order.
    pub async fn queues(
        &self,
        pipelines: impl IntoIterator<Item = &RegisteredPipeline>,
    ) -> Result<Vec<Arc<dyn Queue>>> {
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

    /// Reloads missing functions for redis-cli until `stop`.
    pub async fn keep_functions_loaded(self, stop: CancellationToken) {
        if let Self::Redis { pool, functions, .. } = self {
            functions.keep_loaded(&pool, CHECK_INTERVAL, stop).await;
        }
    }

    pub async fn ledger(&self, provider: &Provider) -> Result<Arc<dyn Ledger>> {
        let whose = provider.ledger();
        Ok(match self {
            Self::Redis { pool, .. } => Arc::new(RedisLedger::new(pool.clone(), &whose)),
            Self::Embedded(file) => {
                let ledger = EmbeddedLedger::open(&file.path, &whose, file.busy_timeout).await;
                Arc::new(ledger.with_context(|| self.unusable_message("quota ledger"))?)
            }
        })
    }

    pub fn unusable_message(&self, what: &str) -> String {
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
pub struct SharedServices {
    pub in_force: Reloadable<ActiveConfig>,
    pub service: Service,
    pub database: Database,
    pub apis: Apis,
}

impl SharedServices {
    /// Text about the API that a pipeline calls; empty if it calls none.
    pub(super) fn api_text(&self, items: &RegisteredPipeline) -> String {
        let metered = items.is_metered().then(|| self.apis.get(&items.id.provider.to_string()));
        metered.flatten().cloned().unwrap_or_default()
    }

    pub fn live_settings(&self) -> LiveSettings {
        let in_force = self.in_force.clone();
        Arc::new(move || in_force.load().settings.clone())
    }

    /// Opens the services, and the queues of these pipelines in their order.
    pub async fn open(
        settings: &Settings,
        pipelines: impl IntoIterator<Item = &RegisteredPipeline>,
    ) -> Result<(Self, Vec<Arc<dyn Queue>>)> {
        let service = Service::new(settings)?;
        let queues = service.queues(pipelines).await?;
        // The queue first: if it is missing, no file of an embedded store is created.
        let database = open_store(settings).await?;
        let in_force = Reloadable::new(ActiveConfig::new(settings.clone()));
        Ok((Self { in_force, service, database, apis: Apis::new() }, queues))
    }
}
