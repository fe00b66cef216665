//! `status`: the queue at this moment, its quota, and the polled sources.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use futures::future::join_all;

use super::{Options, exit, write_answer};
use crate::app::{self, Service};
use crate::base::reload::Reloadable;
use crate::config::Settings;
use crate::model::provider::Provider;
use crate::ops::report::sources::{PositionsAtHand, Sources};
use crate::ops::report::status::{Report, Status};
use crate::ops::{Answer, Reader, StoreAtHand};

/// Longest wait for the store, and for the queues of the polled sources.
const PATIENCE: Duration = Duration::from_secs(4);
/// The same where the settings name no source: there may be none to read.
const GLANCE: Duration = Duration::from_millis(1_500);

/// Print the queue at this moment: what is scheduled, due and late, whether the quota suffices, who works.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  twitter-updater status\n  twitter-updater status --json | jq .due\n  twitter-updater status --json | jq .sources\n\nOf several providers one after the other; --provider names one. Polled sources follow, where there are any.\nExits with 69 when no queue answers."
)]
pub(super) struct Arguments {
    /// One JSON object.
    #[arg(long)]
    json: bool,
}

impl Arguments {
    pub async fn run(self, options: Options) -> Result<u8> {
        let report = report(&options.start(&[])?.settings).await?;
        write_answer(self.json, &report, &report.to_string())?;
        Ok(if report.answers() { 0 } else { exit::UNAVAILABLE })
    }
}

/// Reads the queue, the quota and the credentials of each provider, and the polled sources. Needs the names of the
/// credentials, and no secret.
///
/// # Errors
/// A setting is invalid, or the queue of the only provider is down. Of several providers, one that is down is a part
/// of the report.
async fn report(settings: &Settings) -> Result<Report> {
    let providers = settings.providers()?;
    for provider in &providers {
        app::callers(settings, provider)?; // wrong credentials are an error of the command, not of one provider
    }
    app::queue_is_there(settings)?;
    let service = Service::new(settings)?;
    let store = app::store_as_it_is(settings).await.map(|(store, _)| store).map_err(|error| format!("{error:#}"));
    let store = StoreAtHand::new(store);
    let reading = providers.iter().map(|provider| status_of(settings, &service, provider, &store));
    let (mut read, sources) = tokio::join!(join_all(reading), sources(settings, &service));
    if providers.len() == 1 && read.first().is_some_and(Result::is_err) {
        read.swap_remove(0)?;
    }
    let named = providers.iter().zip(read).map(|(provider, read)| {
        let pollers = sources.trouble_of(&provider.to_string());
        let with_pollers = |status: Status| Status {
            answer: status.answer.map(|answer| answer.unless_pollers(pollers.as_deref())),
            ..status
        };
        // One line, as every error of a command.
        (provider.namespace(), read.map(with_pollers).map_err(|error| format!("{error:#}")))
    });
    Ok(Report::new(named.collect::<Vec<_>>(), sources))
}

async fn status_of(settings: &Settings, service: &Service, provider: &Provider, store: &StoreAtHand) -> Result<Status> {
    let queue = service.queue(&provider.namespace()).await?;
    let terms = Reloadable::new(app::terms(settings));
    let whole = app::whole_queue(settings, service, provider, queue, terms.clone(), Arc::default()).await?;
    let whole = Arc::new(whole);
    let seen = Reader::new(whole.clone(), store.clone(), terms).look_once().await;
    let status = match &seen.snapshot {
        Some(figures) => figures.status.clone(),
        // The services tell in their own words why they do not answer; a large file may only need more time.
        None => {
            let (stats, accounts) = (whole.queue.stats().await?, whole.statuses().await?);
            Status::new(stats, accounts, app::fill(settings, provider)).with_reads(whole.reads().await?)
        }
    };
    Ok(Status { answer: Some(Answer::of(&seen)), ..status })
}

/// Reads the polled sources. A store that is down is reported where the settings name a source: otherwise there may be
/// none, and nobody needs it.
async fn sources(settings: &Settings, service: &Service) -> Sources {
    let patience = if settings.poll.sources.is_empty() { GLANCE } else { PATIENCE };
    let positions = match tokio::time::timeout(patience, app::store_as_it_is(settings)).await {
        Ok(opened) => opened.map(|(_, positions)| positions).map_err(|error| format!("{error:#}")),
        Err(_) => Err(format!("the store did not answer within {} ms", patience.as_millis())),
    };
    let book = app::source_book(settings, service, PositionsAtHand::new(positions));
    match book.read(patience).await {
        Ok(all) => Sources { all, error: None },
        Err(why) if book.names_any() => Sources { error: Some(why), ..Sources::default() },
        Err(why) => {
            tracing::debug!(why, "whether there are polled sources is not known");
            Sources::default()
        }
    }
}
