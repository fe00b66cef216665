//! `enqueue --accounts`: puts the accounts of a file into the queue, by their ids, handles or addresses.

use std::fmt;
use std::path::Path;

use anyhow::{Result, bail};
use serde::Serialize;

use super::exit;
use super::forget::refuse_kept_away;
use super::refusals::Refusals;
use super::start::Start;
use super::{say, write_answer};
use crate::app::handles::Naming;
use crate::app::{self, Service, Unavailable};
use crate::base::humanize::grouped;
use crate::base::reload::Reloadable;
use crate::base::retry::RetryPolicy;
use crate::ingest::{Input, NamedLines, Progress, ProgressDisplay, Queued};
use crate::model::pipeline_id::PipelineId;
use crate::model::provider::Provider;
use crate::pipelines::apis::open_handles;
use crate::pipelines::handles::{Resolution, ResolveError, Resolved, Resolver};
use crate::pipelines::profiles::PROFILES;
use crate::providers::registry::account_of;
use crate::quota::Credentials;
use crate::store::{Database, Forgetting, Way};

/// The outcome of a file.
#[derive(Debug, Clone, Copy, Default, Serialize)]
struct Summary {
    #[serde(flatten)]
    lines: Resolution,
    /// New in the queue.
    scheduled: u64,
    /// In the queue already, or dead.
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

/// Puts the accounts of the file into the queue; the exit code.
///
/// # Errors
/// A service is down, or the command was stopped; the message names the last line up to which all is done.
pub(super) async fn enqueue(start: &Start, file: &Path, json: bool) -> Result<u8> {
    let (settings, stop) = (&start.settings, &start.stop);
    let provider = settings.provider()?;
    if !settings.accounts.collect {
        bail!("accounts are not collected; set accounts.collect = true, also for the updater");
    }
    let profiles = start.registry.named(settings, &PipelineId::items(&provider, PROFILES).to_string())?;
    let opened = async {
        // The input first: where it is missing, no file of an embedded queue is made.
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
    let starter = app::starter(&profiles, queue, Some(store), schedule).by(way);
    let naming = Naming { receiver, starter, ahead };
    let mut summary = Summary::default();
    let hand_over = async |resolved: Vec<Resolved>| {
        let answers = naming.hand_over(resolved).await?;
        let scheduled = answers.iter().filter(|answer| **answer == Queued::Scheduled).count() as u64;
        summary.scheduled += scheduled;
        summary.known += answers.len() as u64 - scheduled;
        Ok::<_, anyhow::Error>(())
    };
    summary.lines = each_account(start, &provider, &credentials, Some(&*forgetting), input, hand_over).await?;
    write_answer(json, &summary, &summary.to_string())?;
    Ok(if summary.lines.is_clean() { 0 } else { exit::INPUT })
}

/// Hands over the accounts of a file, in portions, by their ids. Those that `forgetting` keeps away are refused, if it is given.
///
/// # Errors
/// A service is down, or the command was stopped; the message names the last line up to which all is done.
pub(super) async fn each_account(
    start: &Start,
    provider: &Provider,
    credentials: &Credentials,
    forgetting: Option<&dyn Forgetting>,
    input: Input,
    mut hand_over: impl AsyncFnMut(Vec<Resolved>) -> Result<()>,
) -> Result<Resolution> {
    let mut kept_away = 0;
    let hand_over = async |resolved: Vec<Resolved>| {
        let (resolved, refused) = match forgetting {
            Some(forgetting) => refuse_kept_away(forgetting, provider, resolved).await?,
            None => (resolved, 0),
        };
        kept_away += refused;
        hand_over(resolved).await
    };
    let handles = open_handles(&start.settings, provider)?;
    let resolver = Resolver {
        handles: &*handles,
        credentials,
        call_timeout: start.settings.lookup.timeout,
        retry: RetryPolicy::default(),
        stop: start.stop.clone(),
    };
    let (name, display) = (input.name.clone(), ProgressDisplay::new(&input.name, input.bytes));
    let mut refusals = Refusals::beside(&display);
    let refused = |line, reason: &str| refusals.tell(line, reason);
    let mut lines = NamedLines::new(tokio::io::BufReader::new(input.source), account_of(provider));
    let resolved = resolver.resolve(&mut lines, hand_over, refused).await;
    display.show(Progress { bytes: lines.bytes(), ..Progress::default() });
    display.finish();
    let resolved = resolved.map_err(|error| ended(&name, error))?;
    if resolved.is_empty() {
        say(&format!("{name} is empty: it names no account"));
    }
    Ok(Resolution { refused: resolved.refused + kept_away, ..resolved })
}

/// Why a file was not taken to its end, with its name and what to do.
fn ended(name: &str, error: ResolveError<anyhow::Error>) -> anyhow::Error {
    let again = |line| format!("{name} is done up to line {line}; when this is mended give the whole file again");
    match error {
        ResolveError::HandOver { line, why } => why.context(again(line)),
        ResolveError::Api { line, why } => anyhow::Error::new(Unavailable(why)).context(again(line)),
        ResolveError::Read { .. } | ResolveError::Stopped { .. } => anyhow::anyhow!("{name}: {error}"),
    }
}
