//! `enqueue --accounts`: puts the accounts of a file into the queue, by ids, handles or addresses.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Result, bail};
use serde::Serialize;

use super::exit;
use super::forget::refuse_blocked;
use super::refusals::Refusals;
use super::start::StartedCommand;
use super::{BadUsage, eprint_message, write_answer};
use crate::app::handles::HandleRecorder;
use crate::app::{self, Service, Unavailable};
use collect::ingest::{
    AccountReader, HEADER_LINE, HEADER_SKIPPED, Input, Progress, ProgressDisplay, Queued, RoundingDetector,
    StarterError,
};
use collect::pipelines::apis::open_handles;
use collect::pipelines::handles::{ResolveCounts, ResolveError, ResolvedAccount, Resolver};
use collect::pipelines::kind::{LiveSettings, ReceiverContext};
use collect::pipelines::profiles::PROFILES;
use engine::base::clock::millis;
use engine::base::humanize::group_digits;
use engine::base::reload::Reloadable;
use engine::base::retry::RetryPolicy;
use engine::base::shutdown::Stop;
use engine::queue::QueueError;
use engine::quota::Credentials;
use networks::model::pipeline_id::PipelineId;
use networks::model::provider::Provider;
use networks::providers::registry::read_account_ref;
use store::{Forgetting, StoreError, Way};

#[derive(Debug, Clone, Copy, Default, Serialize)]
struct Summary {
    #[serde(flatten)]
    lines: ResolveCounts,
    scheduled: u64,
    /// Already in the queue, also by an earlier line, or dead.
    known: u64,
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { lines: ResolveCounts { ids, handles, refused }, scheduled, known } = *self;
        let [ids, handles, refused, scheduled, known] = [ids, handles, refused, scheduled, known].map(group_digits);
        writeln!(f, "accounts      {ids} by their ids, {handles} by their handles")?;
        writeln!(f, "  scheduled   {scheduled}")?;
        writeln!(f, "  known       {known}  in the queue already, or dead")?;
        write!(f, "  refused     {refused}")
    }
}

/// Puts the accounts of the file into the queue, and returns the exit code. An error names the last handled line.
pub(super) async fn enqueue(start: &StartedCommand, file: &Path, json: bool) -> Result<u8> {
    let (settings, stop) = (&start.settings, &start.stop);
    let provider = settings.provider()?;
    if !settings.accounts.collect {
        bail!("accounts are not collected; set accounts.collect = true, also for the updater");
    }
    let profiles = start.registry.find(settings, &PipelineId::items(&provider, PROFILES).to_string())?;
    if start.names_pipeline() && start.pipeline()?.namespace() != profiles.namespace() {
        return BadUsage::because(format!("--accounts is for {}: leave --pipeline out", profiles.namespace()));
    }
    let opened = async {
        // The input first: if it is missing, no file of an embedded queue is created.
        let input = Input::open(file).await?;
        let service = Service::new(settings)?;
        let queue = service.queue(&profiles.namespace()).await?;
        let credentials = app::open_credentials(settings, &service, &provider).await?;
        let database = app::open_store(settings).await?;
        let clock_lead = HandleRecorder::clock_lead(&*queue).await?;
        Ok::<_, anyhow::Error>((input, queue, credentials, database, clock_lead))
    };
    let Some(opened) = stop.token().run_until_cancelled(opened).await else {
        bail!("enqueue was stopped before it read anything");
    };
    let (input, queue, credentials, database, clock_lead) = opened?;
    let schedule = Reloadable::new(profiles.schedule(settings));
    let (store, forgetting) = (database.store.clone(), database.forgetting.clone());
    let live_settings = Arc::new(settings.clone());
    let in_force: LiveSettings = Arc::new(move || live_settings.clone());
    let receiving = ReceiverContext { schedule: schedule.clone().into(), database, in_force };
    let receiver = profiles.kind.receiver(&profiles.id, receiving);
    let Some(receiver) = receiver else { bail!("{} does not take accounts", profiles.namespace()) };
    let way = Way { source: input.name.clone(), ..Way::new("enqueue") };
    let starter = app::starter(settings, &profiles, queue, Some(store), schedule).with_way(way);
    let recorder = HandleRecorder { receiver, starter, clock_lead };
    let mut summary = Summary::default();
    let hand_over = async |resolved: Vec<ResolvedAccount>| {
        let lines = resolved.len() as u64;
        let answers = recorder.hand_over(resolved).await?;
        let scheduled = answers.iter().filter(|answer| **answer == Queued::Scheduled).count() as u64;
        summary.scheduled += scheduled;
        summary.known += lines.saturating_sub(scheduled); // an account that comes twice has one result
        Ok::<_, anyhow::Error>(())
    };
    summary.lines = resolve_accounts(start, &provider, &credentials, Some(&*forgetting), input, hand_over).await?;
    write_answer(json, &summary, &summary.to_string())?;
    Ok(if summary.lines.is_clean() { 0 } else { exit::INPUT })
}

/// Resolves the accounts of a file, and hands them over by id, in batches. With `forgetting`, blocked accounts are
/// rejected.
pub(super) async fn resolve_accounts(
    start: &StartedCommand,
    provider: &Provider,
    credentials: &Credentials,
    forgetting: Option<&dyn Forgetting>,
    input: Input,
    mut hand_over: impl AsyncFnMut(Vec<ResolvedAccount>) -> Result<()>,
) -> Result<ResolveCounts> {
    let (retry, stop) = (RetryPolicy::default(), &start.stop);
    let mut blocked = ResolveCounts::default();
    let mut rounding = RoundingDetector::default();
    let hand_over = async |mut resolved: Vec<ResolvedAccount>| {
        let by_id = resolved.iter().filter(|account| account.account.is_none());
        by_id.for_each(|account| rounding.add_id(account.line, &account.id));
        if let Some(forgetting) = forgetting {
            let refuse = async || refuse_blocked(forgetting, provider, resolved.clone()).await;
            let (kept, refused) = retry_while_down(retry, stop, refuse).await?;
            resolved = kept;
            blocked.ids += refused.iter().filter(|account| account.account.is_none()).count() as u64;
            blocked.refused += refused.len() as u64;
        }
        retry_while_down(retry, stop, async || hand_over(resolved.clone()).await).await
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
    let mut refusals = Refusals::new(&display);
    let mut skipped = 0;
    let refused = |line, reason: &str| {
        let names_columns = reason == HEADER_LINE;
        skipped += u64::from(names_columns);
        refusals.print(line, if names_columns { HEADER_SKIPPED } else { reason });
    };
    let mut lines = AccountReader::new(tokio::io::BufReader::new(input.source), read_account_ref(provider));
    let resolved = resolver.resolve(&mut lines, hand_over, refused).await;
    display.show(Progress { bytes: lines.bytes(), ..Progress::default() });
    display.finish();
    let mut resolved = resolved.map_err(|error| describe_end(&name, error))?;
    resolved.refused -= skipped;
    if resolved.is_empty() {
        eprint_message(&format!("{name} is empty: write one account per line"));
    }
    if let Some(warning) = rounding.warning("line") {
        eprint_message(&format!("warning: {warning}"));
    }
    let ResolveCounts { ids, handles, refused } = resolved;
    Ok(ResolveCounts {
        ids: ids - blocked.ids,
        handles: handles - (blocked.refused - blocked.ids),
        refused: refused + blocked.refused,
    })
}

/// Retries while a service is down. A stop ends the waiting, but not a running try.
async fn retry_while_down<T>(retry: RetryPolicy, stop: &Stop, mut work: impl AsyncFnMut() -> Result<T>) -> Result<T> {
    let mut delays = retry.start();
    loop {
        let error = match work().await {
            Ok(done) => return Ok(done),
            Err(error) => error,
        };
        let delay = retry.next_retry(&mut delays, is_temporary(&error) && !stop.is_draining());
        let Some(delay) = delay else { return Err(error) };
        let (error, failures, delay_ms) = (format!("{error:#}"), delays.attempts(), millis(delay));
        tracing::warn!(error, failures, delay_ms, "enqueue: the accounts could not be handed over yet");
        stop.sleep(delay).await;
    }
}

/// Returns true if a service is down, so that a retry may succeed.
fn is_temporary(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        cause.downcast_ref().is_some_and(StarterError::is_temporary)
            || cause.downcast_ref().is_some_and(StoreError::is_temporary)
            || cause.downcast_ref().is_some_and(QueueError::is_temporary)
    })
}

fn describe_end(name: &str, error: ResolveError<anyhow::Error>) -> anyhow::Error {
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
            retry_while_down(retry, &stop, work).await
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
