//! `accounts`: the followed accounts.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Result, bail};
use clap::Subcommand;
use serde::Serialize;

use super::accounts::each_account;
use super::{Options, exit, write_answer, write_line_as_it_is};
use crate::app::{self, Service};
use crate::base::clock;
use crate::base::humanize::grouped;
use crate::base::reload::Reloadable;
use crate::config::{BadConfig, Settings};
use crate::engine::schedule::Schedule;
use crate::ingest::Input;
use crate::model::pipeline_id::PipelineId;
use crate::model::provider::Provider;
use crate::pipelines::community::communities_of;
use crate::pipelines::handles::{Resolution, Resolved};
use crate::pipelines::kind::Registered;
use crate::pipelines::visits::follow::{Follower, PartQueue};
use crate::pipelines::visits::{AccountVisits, visits_of};
use crate::quota::Credentials;
use crate::store::{Communities, Database, FollowedAccount, Forgetting, Mark, Part, Way};

/// Follow accounts: visit their timelines again and again, and collect all of their posts.
#[derive(Debug, Subcommand)]
#[command(after_help = "Example:\n  twitter-updater accounts follow accounts.txt")]
pub(super) enum Command {
    /// Follow the accounts of a file, a line each: an id, a handle or an address. Handles are resolved once, within the quota,
    /// and kept as ids. Exits with 65 if a line was refused.
    #[command(
        after_help = "Examples:\n  twitter-updater accounts follow accounts.txt\n  echo @TwitterDev | twitter-updater accounts follow -"
    )]
    Follow(File),
    /// Stop following the accounts of a file. What was collected of them stays. Exits with 65 if a line was refused.
    #[command(after_help = "Examples:\n  twitter-updater accounts unfollow accounts.txt")]
    Unfollow(File),
    /// Print the ids of the followed accounts, one per line, as `accounts unfollow` takes them.
    #[command(after_help = "Examples:\n  twitter-updater accounts list > followed.txt")]
    List {
        /// Print a JSON object per line, with the part of each account.
        #[arg(long)]
        json: bool,
    },
    /// Divide the followed accounts among the parts (visits.parts) by the work that each makes, and put each into its part where
    /// it is missing. Accounts move while they are visited; what is interrupted is done by the next call.
    #[command(after_help = "Examples:\n  twitter-updater accounts divide")]
    Divide {
        /// Print what was done as one JSON object.
        #[arg(long)]
        json: bool,
    },
}

#[derive(Debug, clap::Args)]
pub(super) struct File {
    /// The file; - for standard input.
    file: PathBuf,
    /// Print what was done as one JSON object.
    #[arg(long)]
    json: bool,
}

/// The outcome of a file.
#[derive(Debug, Clone, Copy, Default, Serialize)]
struct Summary {
    #[serde(flatten)]
    lines: Resolution,
    /// Followed from now on, or no more.
    changed: u64,
    /// As it was asked for already, also by an earlier line.
    unchanged: u64,
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { lines: Resolution { ids, handles, refused }, changed, unchanged } = *self;
        let [ids, handles, refused, changed, unchanged] = [ids, handles, refused, changed, unchanged].map(grouped);
        writeln!(f, "accounts      {ids} by their ids, {handles} by their handles")?;
        writeln!(f, "  changed     {changed}")?;
        writeln!(f, "  unchanged   {unchanged}")?;
        write!(f, "  refused     {refused}")
    }
}

/// The services of the command.
struct Opened {
    follower: Follower,
    forgetting: Arc<dyn Forgetting>,
    /// The communities of the network.
    communities: Vec<String>,
    belonging: Arc<dyn Communities>,
    schedule: Arc<dyn Schedule>,
    credentials: Arc<Credentials>,
    /// The queue's clock is so far ahead of ours, ms.
    ahead: clock::Millis,
}

impl Command {
    pub async fn run(self, options: Options) -> Result<u8> {
        let start = options.start(&[])?;
        let (settings, provider) = (&start.settings, start.settings.provider()?);
        let (file, follows) = match self {
            Self::List { json } => return list(settings, &provider, json).await,
            _ if !settings.visits.collect => {
                bail!("no account is visited; set visits.collect = true, also for the updater")
            }
            Self::Follow(file) => (file, true),
            Self::Unfollow(file) => (file, false),
            Self::Divide { json } => return divide(settings, &provider, json).await,
        };
        // The input first: if it is missing, no file of an embedded queue is created.
        let opened = async { anyhow::Ok((Input::open(&file.file).await?, open(settings, &provider).await?)) };
        let Some(opened) = start.stop.token().run_until_cancelled(opened).await else {
            bail!("accounts was stopped before it read anything");
        };
        let (input, Opened { follower, forgetting, communities, belonging, credentials, ahead, .. }) = opened?;
        let mut summary = Summary::default();
        let hand_over = async |resolved: Vec<Resolved>| {
            let ids: Vec<String> = resolved.into_iter().map(|account| account.id).collect();
            let at = clock::wall_ms() + ahead;
            let changed = match follows {
                true => {
                    // A person follows these accounts now, so no community may drop them. Unmark before, against a drop
                    // in between; and after, against a community that has just followed them.
                    unmark(&*belonging, &communities, &ids).await?;
                    let changed = follower.follow(at, &ids).await?;
                    unmark(&*belonging, &communities, &ids).await?;
                    changed
                }
                false => follower.unfollow(at, &ids).await?,
            };
            summary.changed += changed;
            summary.unchanged += (ids.len() as u64).saturating_sub(changed);
            Ok(())
        };
        // Unfollowing needs no check for forgotten accounts.
        let forgetting = follows.then_some(&*forgetting);
        summary.lines = each_account(&start, &provider, &credentials, forgetting, input, hand_over).await?;
        write_answer(file.json, &summary, &summary.to_string())?;
        Ok(if summary.lines.is_clean() { 0 } else { exit::INPUT })
    }
}

async fn unmark(belonging: &dyn Communities, communities: &[String], ids: &[String]) -> Result<()> {
    for community in communities {
        belonging.mark(community, ids, Mark::None).await?;
    }
    Ok(())
}

async fn list(settings: &Settings, provider: &Provider, json: bool) -> Result<u8> {
    let Database { followed, .. } = app::store_as_it_is(settings).await?;
    let namespace = visits_of(provider, 0).to_string();
    let mut above = String::new();
    loop {
        let page = followed.page_followed(&namespace, &above, 1_000).await?;
        let Some(last) = page.last() else { return Ok(0) };
        above = last.account.clone();
        let line = |FollowedAccount { account, part, .. }: &FollowedAccount| match json {
            true => serde_json::json!({ "account": account, "part": part }).to_string(),
            false => account.clone(),
        };
        write_line_as_it_is(&page.iter().map(line).collect::<Vec<_>>().join("\n"))?;
    }
}

async fn divide(settings: &Settings, provider: &Provider, json: bool) -> Result<u8> {
    let Opened { follower, schedule, ahead, .. } = open(settings, provider).await?;
    let mut division = follower.divide(&*schedule, clock::wall_ms() + ahead).await?;
    division.visits_per_day.iter_mut().for_each(|visits| *visits += 0.0); // the sum of nothing is -0
    let mut text = String::from("part    accounts   visits a day\n");
    for (part, (accounts, visits)) in division.accounts.iter().zip(&division.visits_per_day).enumerate() {
        text.push_str(&format!("{part:<4} {:>11} {visits:>14.1}\n", grouped(*accounts)));
    }
    text.push_str(&format!("moved {}, put into a queue {}", grouped(division.moved), grouped(division.scheduled)));
    write_answer(json, &division, &text)?;
    Ok(0)
}

async fn open(settings: &Settings, provider: &Provider) -> Result<Opened> {
    let service = Service::new(settings)?;
    let credentials = app::open_credentials(settings, &service, provider).await?;
    let Database { store, followed, forgetting, communities: belonging, .. } = app::open_store(settings).await?;
    let mut parts = Vec::new();
    for part in 0..settings.visits.parts {
        let pipeline = Registered { id: visits_of(provider, Part::from(part)), kind: Arc::new(AccountVisits) };
        let queue = service.queue(&pipeline.namespace()).await?;
        let schedule = Reloadable::new(pipeline.schedule(settings));
        let starter =
            app::starter(settings, &pipeline, queue.clone(), Some(store.clone()), schedule).by(Way::of("follow"));
        parts.push(PartQueue { queue, starter });
    }
    let Some(PartQueue { queue, .. }) = parts.first() else {
        return Err(BadConfig("visits.parts must be 1 or more".to_owned()).into());
    };
    let ahead = queue.brief().await?.now_ms - clock::wall_ms();
    let follower = Follower { provider: provider.clone(), parts, followed };
    let schedule = Registered { id: visits_of(provider, 0), kind: Arc::new(AccountVisits) }.schedule(settings);
    let communities = communities_of(settings, provider).iter().map(PipelineId::to_string).collect();
    Ok(Opened { follower, forgetting, communities, belonging, schedule, credentials, ahead })
}
