//! Data of `status`: current state of every queue, its quota, and the polled sources; and the recorded errors.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use futures::future::join_all;

use super::{Service, api_in_words, callers, fill, queue_is_there, source_book, store_as_it_is, terms, whole_queue};
use crate::base::reload::Reloadable;
use crate::config::Settings;
use crate::engine::queue::{ERRORS_KEPT, Queue};
use crate::ops::report::capacity::{Overload, lasting};
use crate::ops::report::errors::ErrorReport;
use crate::ops::report::sources::{PositionsAtHand, Sources};
use crate::ops::report::status::{Report, Status};
use crate::ops::{Answer, DatabaseAtHand, Reader, StoreAtHand};
use crate::pipelines::kind::Registered;
use crate::pipelines::registry::Registry;

/// Longest wait for the store, and for the queues of the polled sources.
const PATIENCE: Duration = Duration::from_secs(4);
/// Longest wait if the settings contain no source: there may be none to read.
const GLANCE: Duration = Duration::from_millis(1_500);

/// Reads the queue, the quota and the credentials of each pipeline, and the polled sources. Reads no secret. The only
/// pipeline's queue must respond; of several, one that is down is part of the report.
pub async fn status(settings: &Settings, registry: &Registry) -> Result<Report> {
    let pipelines = registry.pipelines(settings)?;
    for pipeline in &pipelines {
        callers(settings, &pipeline.id.provider)?; // wrong credentials are an error of the command, not of one pipeline
    }
    queue_is_there(settings)?;
    let service = Service::new(settings)?;
    let opened = store_as_it_is(settings).await.map_err(|error| format!("{error:#}"));
    let store = StoreAtHand::new(opened.as_ref().map(|opened| opened.store.clone()).map_err(Clone::clone));
    let database = DatabaseAtHand::new(opened);
    let at_hand = (store, database);
    let reading = pipelines.iter().map(|pipeline| status_of(settings, &service, pipeline, &at_hand));
    let (mut read, sources) = tokio::join!(join_all(reading), sources(settings, &service));
    if pipelines.len() == 1 && read.first().is_some_and(Result::is_err) {
        read.swap_remove(0)?;
    }
    let named = pipelines.iter().zip(read).map(|(pipeline, read)| {
        let pollers = sources.trouble_of(&pipeline.id.provider.to_string());
        let with_pollers = |status: Status| Status {
            answer: status.answer.map(|answer| answer.unless_pollers(pollers.as_deref())),
            ..status
        };
        // One line, as every error of a command.
        (pipeline.namespace(), read.map(with_pollers).map_err(|error| format!("{error:#}")))
    });
    Ok(Report::new(named.collect::<Vec<_>>(), sources))
}

/// Reads the recorded errors of all pipelines that contain these words.
pub async fn errors(settings: &Settings, registry: &Registry, words: &str) -> Result<ErrorReport> {
    let pipelines = registry.pipelines(settings)?;
    queue_is_there(settings)?;
    let service = Service::new(settings)?;
    let read = join_all(pipelines.iter().map(async |pipeline| {
        let namespace = pipeline.namespace();
        let read = async { anyhow::Ok(service.queue(&namespace).await?.errors(ERRORS_KEPT).await?) };
        let read = read.await.map_err(|error| format!("{error:#}"));
        (namespace, read)
    }));
    Ok(ErrorReport::new(read.await, words))
}

async fn status_of(
    settings: &Settings,
    service: &Service,
    pipeline: &Registered,
    (store, database): &(StoreAtHand, DatabaseAtHand),
) -> Result<Status> {
    let queue = service.queue(&pipeline.namespace()).await?;
    let terms = Reloadable::new(terms(settings, pipeline));
    let whole = whole_queue(settings, service, pipeline, queue, terms.clone(), Arc::default()).await?;
    let whole = Arc::new(whole);
    let reader = Reader::new(whole.clone(), store.clone(), terms).with_database(database.clone());
    let seen = reader.look_once().await;
    let status = match &seen.snapshot {
        Some(figures) => figures.status.clone(),
        // The services report why they do not respond; a large file may only need more time.
        None => {
            let (stats, accounts) = (whole.queue.stats().await?, whole.statuses().await?);
            let (fill, schedule) = (fill(settings, whole.capabilities), pipeline.schedule(settings));
            let status = Status::new(stats, accounts, fill, (pipeline.kind.words(), &*schedule));
            status.with_api(api_in_words(settings, &pipeline.id.provider)).with_reads(whole.reads().await?)
        }
    };
    Ok(Status { answer: Some(Answer::of(&seen)), ..status })
}

/// Ids per second that the quota leaves next to the lookups in that queue. `None` if it has no limit, or if that is
/// unknown: before the first response, or without credentials.
pub async fn ids_per_second_left(
    settings: &Settings,
    service: &Service,
    pipeline: &Registered,
    queue: &dyn Queue,
) -> Result<Option<f64>> {
    let provider = &pipeline.id.provider;
    let names: Vec<String> =
        callers(settings, provider).map(|all| all.into_iter().map(|(name, _)| name).collect()).unwrap_or_default();
    let capabilities = pipeline.capabilities();
    let ledger = service.ledger(provider).await?;
    let (lanes, accounts) = tokio::join!(queue.stats(), ledger.statuses(capabilities.endpoint, &names, &[]));
    let lanes = lanes.map(|stats| stats.lanes).unwrap_or_default();
    let lanes = lasting(&lanes, &*pipeline.schedule(settings));
    let quota = Overload::new(&lanes, &accounts.unwrap_or_default(), fill(settings, capabilities));
    Ok(quota.left_for_others(capabilities.batch_limit))
}

/// Reads the polled sources. A store that is down is reported only if the settings contain a source; otherwise it is
/// not needed.
async fn sources(settings: &Settings, service: &Service) -> Sources {
    let patience = if settings.poll.sources.is_empty() { GLANCE } else { PATIENCE };
    let positions = match tokio::time::timeout(patience, store_as_it_is(settings)).await {
        Ok(opened) => opened.map(|opened| opened.positions).map_err(|error| format!("{error:#}")),
        Err(_) => Err(format!("the store did not answer within {} ms", patience.as_millis())),
    };
    let book = source_book(settings, service, PositionsAtHand::new(positions));
    match book.read(patience).await {
        Ok(all) => Sources { all, error: None },
        Err(why) if book.names_any() => Sources { error: Some(why), ..Sources::default() },
        Err(why) => {
            tracing::debug!(why, "whether there are polled sources is not known");
            Sources::default()
        }
    }
}
