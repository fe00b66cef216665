//! `rebuild`, `refresh` and `dead`: the commands of a person who looks after the queue.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use serde::Serialize;

use super::{Service, files, open_store, write_answer};
use crate::base::reload::Reloadable;
use crate::base::retry::RetryPolicy;
use crate::base::shutdown::Stop;
use crate::config::Settings;
use crate::engine::queue::{Lane, Queue};
use crate::engine::schedule::age::AgeTable;
use crate::ingest::{Lanes, ProgressDisplay, Rebuild, Rebuilt, Refresh, Refreshed, Which};
use crate::model::provider::Provider;
use crate::ops::dead::Dead;
use crate::pipelines::posts::UNAVAILABLE_LANE;
use crate::providers::registry::date_of;
use crate::store::Store;

/// The lane of each tweet, as the updater chooses it.
fn lanes(settings: &Settings, provider: &Provider) -> Lanes {
    Lanes {
        ages: settings.tweet_age.clone().into(),
        unavailable: Lane::new(UNAVAILABLE_LANE, settings.updater.unavailable_every),
        id_date: Arc::new(date_of(provider)),
    }
}

/// What puts back from the store what the queues of the providers have lost; at `rate` rows a second in place of the
/// setting. All of them go by one table of ages.
///
/// # Errors
/// A service is out.
pub async fn open_rebuilds(settings: &Settings, rate: Option<u32>) -> Result<Vec<Rebuild>> {
    let providers = settings.providers()?;
    let queues = Service::new(settings)?.queues(&providers).await?;
    let (store, ages) = (open_store(settings).await?, Reloadable::new(settings.tweet_age.clone()));
    let rebuild = |(provider, queue)| {
        let rebuild = rebuild_of(settings, provider, queue, store.clone(), ages.clone());
        Rebuild { rate: rate.unwrap_or(rebuild.rate), ..rebuild }
    };
    Ok(providers.iter().zip(queues).map(rebuild).collect())
}

/// What puts back into that queue what it has lost.
pub(super) fn rebuild_of(
    settings: &Settings,
    provider: &Provider,
    queue: Arc<dyn Queue>,
    store: Arc<dyn Store>,
    ages: Reloadable<AgeTable>,
) -> Rebuild {
    Rebuild {
        queue,
        store,
        lanes: Lanes { ages, ..lanes(settings, provider) },
        lease: settings.updater.lease,
        rate: settings.rebuild.rate,
        retry: RetryPolicy::default(),
    }
}

/// What brings look-ups of that provider's posts forward.
///
/// # Errors
/// A service is out.
pub async fn open_refresh(settings: &Settings, provider: &Provider) -> Result<Refresh> {
    let queue = Service::new(settings)?.queue(&provider.namespace()).await?;
    let (store, ages) = (open_store(settings).await?, settings.tweet_age.clone().into());
    Ok(Refresh { rebuild: rebuild_of(settings, provider, queue, store, ages) })
}

/// Brings forward these ids, or all of a kind. `refused` hears of each id that cannot be.
///
/// # Errors
/// A service is out.
pub async fn run_refresh(
    refresh: &Refresh,
    ids: &[String],
    which: Which,
    stop: &Stop,
    refused: impl FnMut(&str, &str),
) -> Result<Refreshed> {
    if !ids.is_empty() {
        return Ok(refresh.ids(ids, refused).await?);
    }
    let display = ProgressDisplay::rows("refresh");
    if display.is_shown() {
        let counts = refresh.rebuild.store.counts(refresh.rebuild.queue.namespace()).await?;
        display.expect(counts.live + counts.unavailable);
    }
    let done = refresh.all(which, stop, |read, done| display.show_rows(read, &format!("{} due", done.posts()))).await;
    display.finish();
    Ok(done?)
}

/// Rebuilds once, one after the other, or with this pause between the rounds until it is stopped. Writes a line for
/// each.
///
/// # Errors
/// A service is out, in a single round.
pub async fn run_rebuilds(all: &[Rebuild], every: Option<Duration>, json: bool, stop: &Stop) -> Result<()> {
    while !stop.is_draining() {
        for rebuild in all {
            match round(rebuild, all.len() > 1, json, stop).await {
                Err(error) if every.is_some() => {
                    tracing::warn!(error = format!("{error:#}"), "this round is given up, the next one tries again");
                }
                done => done?,
            }
        }
        let Some(every) = every else { break };
        stop.sleep(every).await;
    }
    Ok(())
}

/// What was done, and where.
#[derive(Serialize)]
struct Of<'a> {
    namespace: &'a str,
    #[serde(flatten)]
    done: &'a Rebuilt,
}

async fn round(rebuild: &Rebuild, is_one_of_several: bool, json: bool, stop: &Stop) -> Result<()> {
    let display = ProgressDisplay::rows("rebuild");
    if display.is_shown() {
        let counts = rebuild.store.counts(rebuild.queue.namespace()).await?;
        display.expect(counts.live + counts.unavailable);
        show(&display, &Rebuilt::default());
    }
    let done = rebuild.run(stop, |done| show(&display, done)).await;
    display.finish();
    let done = done?;
    let namespace = rebuild.queue.namespace();
    let text = if is_one_of_several { format!("{namespace}: {done}") } else { done.to_string() };
    write_answer(json, &Of { namespace, done: &done }, &text)
}

fn show(display: &ProgressDisplay, done: &Rebuilt) {
    display.show_rows(done.rows, &format!("{} put back", done.put_back));
}

/// The dead, for the commands that look after them. One that `only_looks` makes no file.
///
/// # Errors
/// A service is out.
pub async fn open_dead(settings: &Settings, provider: &Provider, only_looks: bool) -> Result<Dead> {
    if only_looks {
        files::queue_is_there(settings)?;
    }
    let queue = Service::new(settings)?.queue(&provider.namespace()).await?;
    if only_looks {
        files::store_is_there(settings)?;
    }
    Ok(dead_of(settings, provider, queue, open_store(settings).await?))
}

/// The dead of that queue.
pub(super) fn dead_of(settings: &Settings, provider: &Provider, queue: Arc<dyn Queue>, store: Arc<dyn Store>) -> Dead {
    Dead { queue, store, lanes: lanes(settings, provider) }
}
