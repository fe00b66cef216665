//! `starter`: the role that accepts posts over HTTP.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use anyhow::Result;

use super::{Listen, Needed, Options};
use crate::app::{self, Shared};
use crate::base::reload::Reloadable;
use crate::config::{BadConfig, Settings, WithoutToken};
use crate::engine::queue::Queue;
use crate::ingest::{AccountDoor, Hook};
use crate::ops;
use crate::pipelines::kind::Registered;
use crate::pipelines::posts::posts_of;
use crate::pipelines::profiles::profiles_of;
use crate::providers::registry::account_of;
use crate::store::{Database, Way};

/// Default address without `--listen` and `http.listen`.
const LISTEN: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 8080);

pub(super) const EXAMPLES: &str = "Example:\n  twitter-updater starter --listen 127.0.0.1:8080\n  curl --json '[\"1460323737035677698\"]' http://127.0.0.1:8080/tweets\n  curl --json '[\"2244994945\"]' http://127.0.0.1:8080/accounts\n\nGET /openapi.json describes the API. At SIGTERM or SIGINT it finishes the requests in progress and exits with 0.";

pub(super) async fn run(listen: Listen, options: Options) -> Result<u8> {
    let role = listen.role(options, Some(Needed::Everything)).await?;
    let settings = role.settings.clone();
    let token = app::starter_token(&settings, &role.stop)?;
    let addr = role.address()?.unwrap_or(LISTEN);
    if token.is_none() && settings.starter.without_token == WithoutToken::Loopback && !addr.ip().is_loopback() {
        return Err(BadConfig(format!(
            "{addr} is reached from elsewhere, and the starter has no token: give it one (starter.bearer_token_file), or \
             allow every client that reaches it to send tweets (starter.without_token = \"anybody\")"
        ))
        .into());
    }
    let server = role.bind(addr).await?;
    let metrics_port = role.bind_metrics().await?;
    let health = role.health();
    let providers = settings.providers()?;
    // The posts of each provider first, then the accounts, if they are collected.
    let accounts: Vec<Registered> = match settings.accounts.collect {
        true => providers.iter().map(profiles_of).collect(),
        false => Vec::new(),
    };
    let pipelines: Vec<Registered> = providers.iter().map(posts_of).chain(accounts.iter().cloned()).collect();
    let opening = Shared::open(&settings, &pipelines);
    let Some(opened) = role.stop.token().run_until_cancelled(opening).await else {
        return Ok(0); // stopped while a service did not respond yet
    };
    let (Shared { database: Database { store, .. }, .. }, queues) = opened?;
    let ages = Reloadable::new(settings.ages());
    let starter = |(pipeline, queue): (&Registered, &Arc<dyn Queue>)| {
        let starter = app::starter(&settings, pipeline, queue.clone(), Some(store.clone()), ages.clone());
        (pipeline.id.provider.to_string(), starter.by(Way::of("http")))
    };
    let starters = pipelines.iter().zip(&queues).take(providers.len()).map(starter).collect();
    let door = |(pipeline, queue): (&Registered, &Arc<dyn Queue>)| {
        // First lookups of accounts do not depend on the intervals, so changes of these need no reload.
        let schedule = Reloadable::new(pipeline.schedule(&settings));
        let starter =
            app::starter(&settings, pipeline, queue.clone(), Some(store.clone()), schedule).by(Way::of("http"));
        let provider = &pipeline.id.provider;
        AccountDoor { provider: provider.to_string(), starter, read: account_of(provider) }
    };
    let doors = accounts.iter().zip(&queues[providers.len()..]).map(door).collect();
    let hook = Hook::new(starters, token, settings.starter.max_body_bytes, health.clone());
    let hook = Arc::new(hook.with_accounts(doors));
    let mut registry = ops::registry();
    hook.register(&mut registry);
    let (probes, _metrics) = metrics_port.serve(ops::probes(&health), ops::metrics(registry));
    let router = hook.router().merge(probes);
    let contact = async |_| {
        for queue in &queues {
            queue.due().await.map_err(|error| error.to_string())?;
        }
        store.check().await.map_err(|error| error.to_string())
    };
    health.works();
    let take_over = move |settings: &Settings| ages.set(settings.ages());
    role.answer(server, router, &[health], contact, "the services answer", take_over).await?;
    Ok(0)
}
