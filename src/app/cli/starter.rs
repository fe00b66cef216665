//! `starter`: the role that accepts posts over HTTP.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use anyhow::Result;

use super::{Options, RoleArguments};
use crate::app::{self, SharedServices};
use crate::ops;
use collect::config::{BadConfig, Settings, WithoutToken};
use collect::ingest::{AccountEndpoint, IngestApi};
use collect::pipelines::kind::RegisteredPipeline;
use collect::pipelines::posts::posts_pipeline;
use collect::pipelines::profiles::profiles_pipeline;
use engine::base::reload::Reloadable;
use engine::queue::Queue;
use networks::providers::registry::read_account_ref;
use store::{Database, Way};

/// Default address without `--listen` and `http.listen`.
const LISTEN: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 8080);

pub(super) const EXAMPLES: &str = "Example:\n  twitter-updater starter --listen 127.0.0.1:8080\n  curl --json '[\"1460323737035677698\"]' http://127.0.0.1:8080/tweets\n  curl --json '[\"2244994945\"]' http://127.0.0.1:8080/accounts\n\nGET /openapi.json describes the API. At SIGTERM or SIGINT it finishes the requests in progress and exits with 0.";

pub(super) async fn run(arguments: RoleArguments, options: Options) -> Result<u8> {
    let role = arguments.role(options).await?;
    let settings = role.settings.clone();
    let token = app::starter_token(&settings, &role.stop)?;
    let addr = role.address()?.unwrap_or(LISTEN);
    if token.is_none() && settings.starter.without_token == WithoutToken::Loopback && !addr.ip().is_loopback() {
        return Err(BadConfig(format!(
            "{addr} can be reached from other machines, and the starter has no token: set starter.bearer_token_file, or \
             allow every client to send tweets with starter.without_token = \"anybody\""
        ))
        .into());
    }
    let server = role.bind(addr).await?;
    let metrics_port = role.bind_metrics().await?;
    let health = role.health();
    let providers = settings.providers()?;
    // The posts of each provider first, then the accounts, if they are collected.
    let accounts: Vec<RegisteredPipeline> = match settings.accounts.collect {
        true => providers.iter().map(profiles_pipeline).collect(),
        false => Vec::new(),
    };
    let pipelines: Vec<RegisteredPipeline> =
        providers.iter().map(posts_pipeline).chain(accounts.iter().cloned()).collect();
    let opening = SharedServices::open(&settings, &pipelines);
    let Some(opened) = role.stop.token().run_until_cancelled(opening).await else {
        return Ok(0); // stopped while a service did not respond yet
    };
    let (SharedServices { database: Database { store, .. }, .. }, queues) = opened?;
    let ages = Reloadable::new(settings.ages());
    let starter = |(pipeline, queue): (&RegisteredPipeline, &Arc<dyn Queue>)| {
        let starter = app::starter(&settings, pipeline, queue.clone(), Some(store.clone()), ages.clone());
        (pipeline.id.provider.to_string(), starter.with_way(Way::new("http")))
    };
    let starters = pipelines.iter().zip(&queues).take(providers.len()).map(starter).collect();
    let door = |(pipeline, queue): (&RegisteredPipeline, &Arc<dyn Queue>)| {
        // First lookups of accounts do not depend on the intervals, so changes of these need no reload.
        let schedule = Reloadable::new(pipeline.schedule(&settings));
        let starter =
            app::starter(&settings, pipeline, queue.clone(), Some(store.clone()), schedule).with_way(Way::new("http"));
        let provider = &pipeline.id.provider;
        AccountEndpoint { provider: provider.to_string(), starter, read: read_account_ref(provider) }
    };
    let doors = accounts.iter().zip(&queues[providers.len()..]).map(door).collect();
    let api = IngestApi::new(starters, token, settings.starter.max_body_bytes, health.clone());
    let api = Arc::new(api.with_accounts(doors));
    let mut registry = ops::base_registry();
    api.register(&mut registry);
    let (probes, _metrics) = metrics_port.serve(ops::probe_router(&health), ops::metrics_router(registry));
    let router = api.router().merge(probes);
    let contact = async |_| {
        for queue in &queues {
            queue.due_count().await?;
        }
        Ok(store.check().await?)
    };
    health.record_success();
    let apply_settings = move |settings: &Settings| ages.set(settings.ages());
    role.answer(server, router, &[health], contact, "the services answer", apply_settings).await?;
    Ok(0)
}
