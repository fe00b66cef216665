//! `accounts`: the followed accounts.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Result, bail};
use clap::Subcommand;
use serde::Serialize;

use super::accounts::resolve_accounts;
use super::{Options, exit, write_answer, write_raw_line};
use crate::app::{self, Service};
use crate::table::Table;
use collect::config::{BadConfig, Settings};
use collect::ingest::Input;
use collect::pipelines::community::community_pipelines;
use collect::pipelines::handles::{ResolveCounts, ResolvedAccount};
use collect::pipelines::kind::RegisteredPipeline;
use collect::pipelines::visits::follow::{Follower, PartQueue};
use collect::pipelines::visits::{AccountVisits, visits_pipeline};
use engine::base::clock;
use engine::base::humanize::group_digits;
use engine::base::reload::Reloadable;
use engine::quota::Credentials;
use engine::schedule::Schedule;
use networks::model::pipeline_id::PipelineId;
use networks::model::provider::Provider;
use store::{Communities, Database, FollowMark, FollowedAccount, Forgetting, Part, Way};

/// Follow accounts: visit their timelines repeatedly, and collect all of their posts.
#[derive(Debug, Subcommand)]
#[command(after_help = "Example:\n  twitter-updater accounts follow accounts.txt")]
pub(super) enum Command {
    /// Follow the accounts in a file. Each line has an id, a handle or an address. Handles are resolved once, within the
    /// quota, and stored as ids. Exits with 65 if a line was refused.
    #[command(
        after_help = "Examples:\n  twitter-updater accounts follow accounts.txt\n  echo @TwitterDev | twitter-updater accounts follow -"
    )]
    Follow(File),
    /// Stop following the accounts in a file. Their collected data stays. Exits with 65 if a line was refused.
    #[command(after_help = "Examples:\n  twitter-updater accounts unfollow accounts.txt")]
    Unfollow(File),
    /// Print the ids of the followed accounts, one per line, as `accounts unfollow` takes them.
    #[command(after_help = "Examples:\n  twitter-updater accounts list > followed.txt")]
    List {
        /// Print one JSON object per line, with the account and its part.
        #[arg(long)]
        json: bool,
    },
    /// Divide the followed accounts among the parts (visits.parts), by their visits per day. Puts accounts that are in no
    /// queue into that of their part. Visits may go on meanwhile; after an interruption, the next run completes the
    /// division.
    #[command(after_help = "Examples:\n  twitter-updater accounts divide")]
    Divide {
        /// Print the result as one JSON object.
        #[arg(long)]
        json: bool,
    },
}

#[derive(Debug, clap::Args)]
pub(super) struct File {
    /// File to read; - for standard input.
    file: PathBuf,
    /// Print the result as one JSON object.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, Copy, Default, Serialize)]
struct Summary {
    #[serde(flatten)]
    lines: ResolveCounts,
    /// Accounts that the command followed or unfollowed.
    changed: u64,
    /// Accounts that already were in the requested state, also by an earlier line.
    unchanged: u64,
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { lines: ResolveCounts { ids, handles, refused }, changed, unchanged } = *self;
        let [ids, handles, refused, changed, unchanged] = [ids, handles, refused, changed, unchanged].map(group_digits);
        writeln!(f, "accounts      {ids} by their ids, {handles} by their handles")?;
        writeln!(f, "  changed     {changed}")?;
        writeln!(f, "  unchanged   {unchanged}")?;
        write!(f, "  refused     {refused}")
    }
}

struct FollowServices {
    follower: Follower,
    forgetting: Arc<dyn Forgetting>,
    /// Communities of the network, by namespace.
    communities: Vec<String>,
    belonging: Arc<dyn Communities>,
    schedule: Arc<dyn Schedule>,
    credentials: Arc<Credentials>,
    /// Lead of the queue's clock over ours, ms.
    clock_lead: clock::Millis,
}

impl Command {
    pub async fn run(self, options: Options) -> Result<u8> {
        let start = options.start(&[])?;
        let (settings, provider) = (&start.settings, start.settings.provider()?);
        let (file, follows) = match self {
            Self::List { json } => return list(settings, &provider, json).await,
            _ if !settings.visits.collect => {
                bail!("accounts are not visited; set visits.collect = true, also for the updater")
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
        let (input, FollowServices { follower, forgetting, communities, belonging, credentials, clock_lead, .. }) =
            opened?;
        let mut summary = Summary::default();
        let hand_over = async |resolved: Vec<ResolvedAccount>| {
            let ids: Vec<String> = resolved.into_iter().map(|account| account.id).collect();
            let at = clock::wall_ms() + clock_lead;
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
        summary.lines = resolve_accounts(&start, &provider, &credentials, forgetting, input, hand_over).await?;
        write_answer(file.json, &summary, &summary.to_string())?;
        Ok(if summary.lines.is_clean() { 0 } else { exit::INPUT })
    }
}

async fn unmark(belonging: &dyn Communities, communities: &[String], ids: &[String]) -> Result<()> {
    for community in communities {
        belonging.set_mark(community, ids, FollowMark::None).await?;
    }
    Ok(())
}

async fn list(settings: &Settings, provider: &Provider, json: bool) -> Result<u8> {
    let Database { followed, .. } = app::connect_existing_store(settings).await?;
    let namespace = visits_pipeline(provider, 0).to_string();
    let mut above = String::new();
    loop {
        let page = followed.page_followed(&namespace, &above, 1_000).await?;
        let Some(last) = page.last() else { return Ok(0) };
        above = last.account.clone();
        let line = |FollowedAccount { account, part, .. }: &FollowedAccount| match json {
            true => serde_json::json!({ "account": account, "part": part }).to_string(),
            false => account.clone(),
        };
        write_raw_line(&page.iter().map(line).collect::<Vec<_>>().join("\n"))?;
    }
}

async fn divide(settings: &Settings, provider: &Provider, json: bool) -> Result<u8> {
    let FollowServices { follower, schedule, clock_lead, .. } = open(settings, provider).await?;
    let mut division = follower.divide(&*schedule, clock::wall_ms() + clock_lead).await?;
    division.visits_per_day.iter_mut().for_each(|visits| *visits += 0.0); // the sum of nothing is -0
    let mut table = Table::new("<4 >11 >14", &["part", "accounts", "visits a day"]);
    for (part, (accounts, visits)) in division.accounts.iter().zip(&division.visits_per_day).enumerate() {
        table.row(&[&part, &group_digits(*accounts), &format!("{visits:.1}")]);
    }
    let (moved, scheduled) = (group_digits(division.moved), group_digits(division.scheduled));
    let text = format!("{table}\nmoved {moved}, put into a queue {scheduled}");
    write_answer(json, &division, &text)?;
    Ok(0)
}

async fn open(settings: &Settings, provider: &Provider) -> Result<FollowServices> {
    let service = Service::new(settings)?;
    let credentials = app::open_credentials(settings, &service, provider).await?;
    let Database { store, followed, forgetting, communities: belonging, .. } = app::open_store(settings).await?;
    let mut parts = Vec::new();
    for part in 0..settings.visits.parts {
        let pipeline =
            RegisteredPipeline { id: visits_pipeline(provider, Part::from(part)), kind: Arc::new(AccountVisits) };
        let queue = service.queue(&pipeline.namespace()).await?;
        let schedule = Reloadable::new(pipeline.schedule(settings));
        let starter = app::starter(settings, &pipeline, queue.clone(), Some(store.clone()), schedule)
            .with_way(Way::new("follow"));
        parts.push(PartQueue { queue, starter });
    }
    let Some(PartQueue { queue, .. }) = parts.first() else {
        return Err(BadConfig("visits.parts must be 1 or more".to_owned()).into());
    };
    let clock_lead = queue.brief_stats().await?.now_ms - clock::wall_ms();
    let follower = Follower { provider: provider.clone(), parts, followed };
    let schedule =
        RegisteredPipeline { id: visits_pipeline(provider, 0), kind: Arc::new(AccountVisits) }.schedule(settings);
    let communities = community_pipelines(settings, provider).iter().map(PipelineId::to_string).collect();
    Ok(FollowServices { follower, forgetting, communities, belonging, schedule, credentials, clock_lead })
}
