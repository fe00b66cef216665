//! Data of `status`.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use futures::future::join_all;

use super::{
    Service, callers, check_queue_file, connect_existing_store, describe_api, figure_settings, open_whole_queue,
    request_fill, source_book,
};
use crate::ops::report::errors::ErrorReport;
use crate::ops::report::quota_load::{QuotaLoad, recurring_lanes};
use crate::ops::report::sources::{OpenedPositions, Sources};
use crate::ops::report::status::{Status, StatusReport};
use crate::ops::{Headline, NoAnswer, OpenedDatabase, OpenedStore, SnapshotReader};
use collect::config::Settings;
use collect::pipelines::kind::RegisteredPipeline;
use collect::pipelines::registry::Registry;
use engine::base::reload::Reloadable;
use engine::queue::{ERRORS_KEPT, Queue};

/// Time limit for the store, and for the queues of the polled sources.
const READ_TIMEOUT: Duration = Duration::from_secs(4);
/// Time limit if the settings have no source.
const SHORT_READ_TIMEOUT: Duration = Duration::from_millis(1_500);

/// Reads the queue, the quota and the credentials of each pipeline, and the polled sources. Reads no secret. The only
/// pipeline's queue must respond; of several, one that is down is part of the report.
pub async fn status(settings: &Settings, registry: &Registry) -> Result<StatusReport> {
    let pipelines = registry.pipelines(settings)?;
    for pipeline in &pipelines {
        callers(settings, &pipeline.id.provider)?; // wrong credentials are an error of the command, not of one pipeline
    }
    check_queue_file(settings)?;
    let service = Service::new(settings)?;
    let opened = connect_existing_store(settings).await.map_err(NoAnswer::from);
    let store = OpenedStore::new(opened.as_ref().map(|opened| opened.store.clone()).map_err(Clone::clone));
    let database = OpenedDatabase::new(opened);
    let at_hand = (store, database);
    let reading = pipelines.iter().map(|pipeline| pipeline_status(settings, &service, pipeline, &at_hand));
    let (mut read, sources) = tokio::join!(join_all(reading), sources(settings, &service));
    if pipelines.len() == 1 && read.first().is_some_and(Result::is_err) {
        read.swap_remove(0)?;
    }
    let named = pipelines.iter().zip(read).map(|(pipeline, read)| {
        let pollers = sources.collection_trouble(&pipeline.id.provider.to_string());
        let with_pollers = |status: Status| Status {
            answer: status.answer.map(|answer| answer.with_poller_trouble(pollers.as_deref())),
            ..status
        };
        // One line, as every error of a command.
        (pipeline.namespace(), read.map(with_pollers).map_err(NoAnswer::from))
    });
    Ok(StatusReport::new(named.collect::<Vec<_>>(), sources))
}

/// Reads the recorded errors of all pipelines that contain these words.
pub async fn errors(settings: &Settings, registry: &Registry, words: &str) -> Result<ErrorReport> {
    let pipelines = registry.pipelines(settings)?;
    check_queue_file(settings)?;
    let service = Service::new(settings)?;
    let read = join_all(pipelines.iter().map(async |pipeline| {
        let namespace = pipeline.namespace();
        let read = async { anyhow::Ok(service.queue(&namespace).await?.errors(ERRORS_KEPT).await?) };
        let read = read.await.map_err(NoAnswer::from);
        (namespace, read)
    }));
    Ok(ErrorReport::new(read.await, words))
}

async fn pipeline_status(
    settings: &Settings,
    service: &Service,
    pipeline: &RegisteredPipeline,
    (store, database): &(OpenedStore, OpenedDatabase),
) -> Result<Status> {
    let queue = service.queue(&pipeline.namespace()).await?;
    let terms = Reloadable::new(figure_settings(settings, pipeline));
    let whole = open_whole_queue(settings, service, pipeline, queue, terms.clone(), Arc::default()).await?;
    let whole = Arc::new(whole);
    let reader = SnapshotReader::new(whole.clone(), store.clone(), terms).with_database(database.clone());
    let view = reader.read_once().await;
    let status = match &view.snapshot {
        Some(figures) => figures.status.clone(),
        // The services report why they do not respond; a large file may only need more time.
        None => {
            let (stats, accounts) = (whole.queue.stats().await?, whole.statuses().await?);
            let (fill, words) = (request_fill(settings, whole.capabilities), pipeline.kind.words());
            let status = Status::new(stats, accounts, fill, words);
            let budget = whole.reads().await?;
            Status { budget, ..status.with_api(describe_api(settings, &pipeline.id.provider)) }
        }
    };
    Ok(Status { answer: Some(Headline::from_reading(&view)), ..status })
}

/// Ids per second that the quota leaves next to the lookups in that queue. `None` if it has no limit, or if that is
/// unknown: before the first response, or without credentials.
pub async fn ids_per_second_left(
    settings: &Settings,
    service: &Service,
    pipeline: &RegisteredPipeline,
    queue: &dyn Queue,
) -> Result<Option<f64>> {
    let provider = &pipeline.id.provider;
    let names: Vec<String> =
        callers(settings, provider).map(|all| all.into_iter().map(|(name, _)| name).collect()).unwrap_or_default();
    let capabilities = pipeline.capabilities();
    let ledger = service.ledger(provider).await?;
    let (lanes, accounts) = tokio::join!(queue.stats(), ledger.statuses(capabilities.endpoint, &names, &[]));
    let lanes = lanes.map(|stats| stats.lanes).unwrap_or_default();
    let lanes = recurring_lanes(&lanes);
    let quota = QuotaLoad::new(&lanes, &accounts.unwrap_or_default(), request_fill(settings, capabilities));
    Ok(quota.spare_items_per_s(capabilities.batch_limit))
}

/// Reads the polled sources. Reports a store that is down only if the settings have a source; else it is not needed.
async fn sources(settings: &Settings, service: &Service) -> Sources {
    let timeout = if settings.poll.sources.is_empty() { SHORT_READ_TIMEOUT } else { READ_TIMEOUT };
    let positions = match tokio::time::timeout(timeout, connect_existing_store(settings)).await {
        Ok(opened) => opened.map(|opened| opened.positions).map_err(NoAnswer::from),
        Err(_) => Err(NoAnswer::within_millis("the store did not answer", timeout)),
    };
    let book = source_book(settings, service, OpenedPositions::new(positions));
    match book.read(timeout).await {
        Ok(all) => Sources { all, ..Sources::default() },
        Err(why) if book.has_configured_sources() => Sources::default().with_failed_reading(why.to_string()),
        Err(why) => {
            tracing::debug!(why = why.to_string(), "the polled sources are unknown");
            Sources::default()
        }
    }
}
