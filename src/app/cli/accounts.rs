//! `enqueue --accounts`: puts the accounts of a file into the queue, by ids, handles or addresses.

use std::fmt;
use std::path::Path;

use anyhow::{Result, bail};
use serde::Serialize;

use super::exit;
use super::forget::refuse_blocked;
use super::refusals::Refusals;
use super::start::Start;
use super::{BadUsage, eprint_message, write_answer};
use crate::app::handles::Naming;
use crate::app::{self, Service, Unavailable};
use crate::base::clock::millis;
use crate::base::humanize::grouped;
use crate::base::reload::Reloadable;
use crate::base::retry::RetryPolicy;
use crate::base::shutdown::Stop;
use crate::engine::queue::QueueError;
use crate::ingest::{
    Input, NAMES_COLUMNS, NamedLines, Progress, ProgressDisplay, Queued, Rounding, SKIPPED, StarterError,
};
use crate::model::pipeline_id::PipelineId;
use crate::model::provider::Provider;
use crate::pipelines::apis::open_handles;
use crate::pipelines::handles::{Resolution, ResolveError, Resolved, Resolver};
use crate::pipelines::profiles::PROFILES;
use crate::providers::registry::account_of;
use crate::quota::Credentials;
use crate::store::{Database, Forgetting, StoreError, Way};

#[derive(Debug, Clone, Copy, Default, Serialize)]
struct Summary {
    #[serde(flatten)]
    lines: Resolution,
    scheduled: u64,
    /// Already in the queue, also by an earlier line, or dead.
    known: u64,
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { lines: Resolution { ids, handles, refused }, scheduled, known } = *self;
        let [ids, handles, refused, scheduled, known] = [ids, handles, refused, scheduled, known].map(grouped);
        writeln!(f, "accounts      {ids} by their ids, {handles} by their handles")?;
        writeln!(f, "  scheduled   {scheduled}")?;
        writeln!(f, "  known       {known}  in the queue already, or dead")?;
        write!(f, "  refused     {refused}")
    }
}

/// Puts the accounts of the file into the queue, and returns the exit code. An error names the last line up to which
/// all is done.
pub(super) async fn enqueue(start: &Start, file: &Path, json: bool) -> Result<u8> {
    let (settings, stop) = (&start.settings, &start.stop);
    let provider = settings.provider()?;
    if !settings.accounts.collect {
        bail!("accounts are not collected; set accounts.collect = true, also for the updater");
    }
    let profiles = start.registry.named(settings, &PipelineId::items(&provider, PROFILES).to_string())?;
    if start.names_pipeline() && start.pipeline()?.namespace() != profiles.namespace() {
        return BadUsage::because(format!("--accounts is for {}: leave --pipeline out", profiles.namespace()));
    }
    let opened = async {
        // The input first: if it is missing, no file of an embedded queue is created.
        let input = Input::open(file).await?;
        let service = Service::new(settings)?;
        let queue = service.queue(&profiles.namespace()).await?;
        let credentials = app::open_credentials(settings, &service, &provider).await?;
        let Database { store, forgetting, .. } = app::open_store(settings).await?;
        let ahead = Naming::ahead(&*queue).await?;
        Ok::<_, anyhow::Error>((input, queue, credentials, (store, forgetting), ahead))
    };
    let Some(opened) = stop.token().run_until_cancelled(opened).await else {
        bail!("enqueue was stopped before it read anything");
    };
    let (input, queue, credentials, (store, forgetting), ahead) = opened?;
    let schedule = Reloadable::new(profiles.schedule(settings));
    let receiver = profiles.kind.receiver(&profiles.id, schedule.clone().into(), store.clone());
    let Some(receiver) = receiver else { bail!("{} takes no accounts", profiles.namespace()) };
    let way = Way { source: input.name.clone(), ..Way::of("enqueue") };
    let starter = app::starter(settings, &profiles, queue, Some(store), schedule).by(way);
    let naming = Naming { receiver, starter, ahead };
    let mut summary = Summary::default();
    let hand_over = async |resolved: Vec<Resolved>| {
        let lines = resolved.len() as u64;
        let answers = naming.hand_over(resolved).await?;
        let scheduled = answers.iter().filter(|answer| **answer == Queued::Scheduled).count() as u64;
        summary.scheduled += scheduled;
        summary.known += lines.saturating_sub(scheduled); // an account that comes twice has one result
        Ok::<_, anyhow::Error>(())
    };
    summary.lines = each_account(start, &provider, &credentials, Some(&*forgetting), input, hand_over).await?;
    write_answer(json, &summary, &summary.to_string())?;
    Ok(if summary.lines.is_clean() { 0 } else { exit::INPUT })
}

/// Hands over the accounts of a file by id, in batches. With `forgetting`, blocked accounts are rejected. An error
/// names the last line up to which all is done.
pub(super) async fn each_account(
    start: &Start,
    provider: &Provider,
    credentials: &Credentials,
    forgetting: Option<&dyn Forgetting>,
    input: Input,
    mut hand_over: impl AsyncFnMut(Vec<Resolved>) -> Result<()>,
) -> Result<Resolution> {
    let (retry, stop) = (RetryPolicy::default(), &start.stop);
    let mut blocked = Resolution::default();
    let mut rounding = Rounding::default();
    let hand_over = async |mut resolved: Vec<Resolved>| {
        let by_id = resolved.iter().filter(|account| account.account.is_none());
        by_id.for_each(|account| rounding.look_at(account.line, &account.id));
        if let Some(forgetting) = forgetting {
            let refuse = async || refuse_blocked(forgetting, provider, resolved.clone()).await;
            let (kept, refused) = patiently(retry, stop, refuse).await?;
            resolved = kept;
            blocked.ids += refused.iter().filter(|account| account.account.is_none()).count() as u64;
            blocked.refused += refused.len() as u64;
        }
        patiently(retry, stop, async || hand_over(resolved.clone()).await).await
    };
    let handles = open_handles(&start.settings, provider)?;
    let resolver = Resolver {
        handles: &*handles,
        credentials,
        call_timeout: start.settings.lookup.timeout,
        retry,
        stop: stop.clone(),
    };
    let (name, display) = (input.name.clone(), ProgressDisplay::new(&input.name, input.bytes));
    let mut refusals = Refusals::beside(&display);
    let mut skipped = 0;
    let refused = |line, reason: &str| {
        let names_columns = reason == NAMES_COLUMNS;
        skipped += u64::from(names_columns);
        refusals.tell(line, if names_columns { SKIPPED } else { reason });
    };
    let mut lines = NamedLines::new(tokio::io::BufReader::new(input.source), account_of(provider));
    let resolved = resolver.resolve(&mut lines, hand_over, refused).await;
    display.show(Progress { bytes: lines.bytes(), ..Progress::default() });
    display.finish();
    let mut resolved = resolved.map_err(|error| ended(&name, error))?;
    resolved.refused -= skipped;
    if resolved.is_empty() {
        eprint_message(&format!("{name} is empty: it names no account"));
    }
    if let Some(warning) = rounding.warning("line") {
        eprint_message(&format!("warning: {warning}"));
    }
    let Resolution { ids, handles, refused } = resolved;
    Ok(Resolution {
        ids: ids - blocked.ids,
        handles: handles - (blocked.refused - blocked.ids),
        refused: refused + blocked.refused,
    })
}

/// Retries while a service is down. A stop ends the waiting, but not a running try.
async fn patiently<T>(retry: RetryPolicy, stop: &Stop, mut work: impl AsyncFnMut() -> Result<T>) -> Result<T> {
    let mut delays = retry.start();
    loop {
        let error = match work().await {
            Ok(done) => return Ok(done),
            Err(error) => error,
        };
        let delay = retry.another(&mut delays, is_passing(&error) && !stop.is_draining());
        let Some(delay) = delay else { return Err(error) };
        let (error, failures, delay_ms) = (format!("{error:#}"), delays.attempts(), millis(delay));
        tracing::warn!(error, failures, delay_ms, "accounts could not be handed over yet");
        stop.sleep(delay).await;
    }
}

/// Returns true if a service is down, so that a retry may succeed.
fn is_passing(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        cause.downcast_ref().is_some_and(StarterError::is_passing)
            || cause.downcast_ref().is_some_and(StoreError::is_passing)
            || cause.downcast_ref().is_some_and(QueueError::is_passing)
    })
}

fn ended(name: &str, error: ResolveError<anyhow::Error>) -> anyhow::Error {
    let again = |line| format!("{name} is done up to line {line}; fix the cause, then give the whole file again");
    match error {
        ResolveError::HandOver { line, why } => why.context(again(line)),
        ResolveError::Api { line, why } => anyhow::Error::new(Unavailable(why)).context(again(line)),
        ResolveError::Read { .. } | ResolveError::Stopped { .. } => anyhow::anyhow!("{name}: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_service_that_comes_back_is_waited_for() {
        let (retry, stop) = (RetryPolicy::default(), Stop::new());
        let mut tries = 0;
        let mut work = async |fails: u32, error: fn() -> anyhow::Error| {
            tries = 0;
            let work = async || {
                tries += 1;
                if tries > fails { Ok(tries) } else { Err(error()) }
            };
            patiently(retry, &stop, work).await
        };
        let store: fn() -> _ = || StarterError::from(StoreError::Unavailable("away".to_owned())).into();
        let queue: fn() -> _ = || anyhow::Error::new(QueueError::Full("full".to_owned())).context("to be handed over");
        let bad: fn() -> _ = || StarterError::from(QueueError::Refused("no such lane".to_owned())).into();
        assert_eq!(work(3, store).await.unwrap(), 4);
        assert_eq!(work(7, queue).await.unwrap(), 8);
        assert!(work(8, store).await.is_err());
        assert!(work(1, bad).await.is_err(), "it would be refused again");
        stop.drain();
        assert!(work(1, store).await.is_err(), "no wait after a stop");
        assert_eq!(work(0, store).await.unwrap(), 1);
    }
}
