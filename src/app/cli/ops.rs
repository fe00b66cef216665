//! `ops`: the role that serves the page and the metrics of the whole queue.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use anyhow::Result;
use tokio::sync::OnceCell;

use super::{Listen, Options};
use crate::app::{self, Service};
use crate::ops::NoAnswer;
use collect::config::Settings;
use engine::base::reload::Reloadable;

/// Default address without `--listen` and `http.listen`.
const LISTEN: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 8082);

pub(super) const EXAMPLES: &str = "Example:\n  twitter-updater ops --listen 127.0.0.1:8082\n  curl http://127.0.0.1:8082/status\n\nThe page is at /. Needs the queue, the store and the credentials' names, but not their secrets. Keeps running while the queue or the store is down.";

pub(super) async fn run(listen: Listen, options: Options) -> Result<u8> {
    let role = listen.role(options, None).await?;
    let settings = &role.settings;
    let pipelines = role.registry.pipelines(settings)?;
    for pipeline in &pipelines {
        app::callers(settings, &pipeline.id.provider)?; // wrong credentials are reported before any port opens
    }
    settings.ops_token()?;
    app::check_queue_file(settings)?;
    app::check_store_file(settings)?;
    let server = role.bind(role.address()?.unwrap_or(LISTEN)).await?;
    let metrics_port = role.bind_metrics().await?;
    let service = Service::new(settings)?;
    let mut queues = Vec::new();
    for pipeline in pipelines {
        let queue = service.open_unchecked_queue(&pipeline.namespace()).await?;
        let terms = Reloadable::new(app::figure_settings(settings, &pipeline));
        let whole = app::open_whole_queue(settings, &service, &pipeline, queue, terms, role.health()).await?;
        queues.push((pipeline, Arc::new(whole)));
    }
    let site = app::open_site(settings, &service, &queues, &role.stop).await?;
    let (figures, _metrics) = metrics_port.serve(site.status_routes(), site.metrics_routes());
    let router = site.page_routes().merge(figures);
    let checked: Vec<OnceCell<()>> = queues.iter().map(|_| OnceCell::new()).collect();
    let contact = async |at: usize| {
        let queue = &queues[at].1.queue;
        let answered = match checked[at].initialized() {
            true => queue.due_count().await.map(drop),
            false => checked[at].get_or_try_init(async || queue.check().await.map(drop)).await.copied(),
        };
        answered.map_err(NoAnswer::from)
    };
    let healths: Vec<_> = queues.iter().map(|(_, whole)| whole.health.clone()).collect();
    let shown = queues.clone();
    let apply_settings = move |settings: &Settings| {
        for (pipeline, whole) in &shown {
            whole.terms.set(app::figure_settings(settings, pipeline));
            if let (Some(live), Some(budget)) = (&whole.budget, app::budget(settings, whole.capabilities)) {
                live.set(budget);
            }
        }
    };
    role.answer(server, router, &healths, contact, "the queue answers", apply_settings).await?;
    Ok(0)
}
