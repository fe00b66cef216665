//! `community`: the members, the candidates, and the reasons.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Result, bail};
use clap::Subcommand;
use serde::Serialize;

use super::accounts::resolve_accounts;
use super::forget::find_account_id;
use super::{BadUsage, Options, eprint_message, exit, single_line, write_answer, write_line};
use crate::app::{self, Service};
use crate::table::Table;
use collect::config::{CommunitySettings, Settings};
use collect::ingest::{FORGOTTEN, Input};
use collect::pipelines::community::manual_decisions::ManualDecisions;
use collect::pipelines::community::{Communities as Kind, community_pipeline, network_namespaces};
use collect::pipelines::handles::{ResolveCounts, ResolvedAccount};
use collect::pipelines::kind::RegisteredPipeline;
use engine::base::clock;
use engine::base::humanize::{format_time, group_digits};
use engine::base::reload::Reloadable;
use networks::model::community::{Belonging, EvidenceItem};
use networks::model::pipeline_id::PipelineId;
use store::{BelongingChange, Communities, CommunityAccount, CommunitySize, Database, StoredAppearance, Way};

/// Maximum number of appearances that are printed for an account.
const APPEARANCES: u32 = 20;
/// Name of the decider for accounts from a file of seeds.
const SEED: &str = "seed";
/// Prefix of their reason; the name of the file follows.
const SEED_OF: &str = "a seed of ";
/// Accounts per page.
const PAGE: u32 = 5_000;

/// Show the members of a community, and decide about accounts by hand.
#[derive(Debug, Subcommand)]
#[command(after_help = "Example:\n  twitter-updater community why pt-pt 12")]
pub(super) enum Command {
    /// Show the sizes of all communities.
    #[command(
        after_help = "Examples:\n  twitter-updater community list\n  twitter-updater community list --json | jq '.communities[].members'"
    )]
    List {
        /// Print one JSON object.
        #[arg(long)]
        json: bool,
    },
    /// Make the accounts in a file members. Each line has an id, a handle or an address. Exits with 65 if a line was
    /// refused.
    #[command(after_help = "Examples:\n  twitter-updater community seed pt-pt seeds.txt")]
    Seed {
        /// Name of the community, as in [communities.NAME].
        name: String,
        /// File to read; - for standard input.
        file: PathBuf,
        /// Print the result as one JSON object.
        #[arg(long)]
        json: bool,
    },
    /// Decide about an account by hand. The rule then no longer changes its state; candidate lets the rule decide again.
    #[command(
        after_help = "Examples:\n  twitter-updater community decide pt-pt 12 member --why friend\n  twitter-updater community decide pt-pt 12 candidate"
    )]
    Decide {
        /// Name of the community.
        name: String,
        /// Id of the account, or @ and the current handle of its stored profile.
        account: String,
        /// New state: member, outside or candidate.
        state: String,
        /// Reason for the decision; it is stored.
        #[arg(long, default_value = "", value_parser = single_line)]
        why: String,
        /// Name of the deciding person; it is stored. The default is the user's name.
        #[arg(long, value_parser = single_line)]
        who: Option<String>,
        /// Print the result as one JSON object.
        #[arg(long)]
        json: bool,
    },
    /// Show the evidence for and against an account's membership.
    #[command(
        after_help = "Examples:\n  twitter-updater community why pt-pt 12\n  twitter-updater community why pt-pt 12 --json | jq .evidence"
    )]
    Why {
        /// Name of the community.
        name: String,
        /// Id of the account, or @ and the current handle of its stored profile.
        account: String,
        /// Print one JSON object.
        #[arg(long)]
        json: bool,
    },
    /// Print the ids of the members, one per line.
    #[command(
        after_help = "Examples:\n  twitter-updater community members pt-pt > members.txt\n  twitter-updater community members pt-pt --state open"
    )]
    Members {
        /// Name of the community.
        name: String,
        /// Print the accounts in this state instead: seen, candidate, open or outside.
        #[arg(long, default_value_t = Belonging::Member)]
        state: Belonging,
    },
    /// Show the undecided accounts with the scores closest to a decision.
    #[command(after_help = "Examples:\n  twitter-updater community near pt-pt --limit 20")]
    Near {
        /// Name of the community.
        name: String,
        /// Maximum number of accounts.
        #[arg(long, value_name = "N", default_value_t = 50)]
        limit: u32,
        /// Print one JSON object.
        #[arg(long)]
        json: bool,
    },
}

#[derive(Debug, Serialize)]
struct BelongingReport {
    #[serde(flatten)]
    account: CommunityAccount,
    evidence: Vec<EvidenceItem>,
    changes: Vec<BelongingChange>,
    appearances: Vec<StoredAppearance>,
}

#[derive(Debug, Serialize)]
struct Decision {
    account: String,
    community: String,
    state: Belonging,
    who: String,
    why: String,
}

#[derive(Debug, Serialize)]
struct SizedCommunity {
    community: String,
    on: bool,
    #[serde(flatten)]
    size: CommunitySize,
}

struct OpenCommunity {
    id: PipelineId,
    database: Database,
}

impl OpenCommunity {
    async fn new(settings: &Settings, name: &str) -> Result<Self> {
        let id = community_pipeline(&settings.community(name)?.provider, name);
        Ok(Self { id, database: app::connect_existing_store(settings).await? })
    }

    fn namespace(&self) -> String {
        self.id.to_string()
    }

    fn communities(&self) -> &Arc<dyn Communities> {
        &self.database.communities
    }
}

impl Command {
    pub async fn run(self, options: Options) -> Result<u8> {
        let start = options.start(&[])?;
        let settings = &start.settings;
        match self {
            Self::List { json } => list(settings, json).await,
            Self::Seed { name, file, json } => {
                let provider = settings.community(&name)?.provider.clone();
                let opened = async {
                    // The input first: if it is missing, no file of an embedded queue is created.
                    let input = Input::open(&file).await?;
                    let service = Service::new(settings)?;
                    let credentials = app::open_credentials(settings, &service, &provider).await?;
                    anyhow::Ok((input, credentials, by_hand(settings, &service, &name).await?))
                };
                let Some(opened) = start.stop.token().run_until_cancelled(opened).await else {
                    bail!("community was stopped before it read anything");
                };
                let (input, credentials, (by_hand, database)) = opened?;
                let hand_over = async |resolved: Vec<ResolvedAccount>| {
                    let ids: Vec<String> = resolved.into_iter().map(|account| account.id).collect();
                    let why = format!("{SEED_OF}{}", file.display());
                    by_hand.decide(&ids, Belonging::Member, SEED, &why, clock::wall_ms()).await?;
                    Ok(())
                };
                let forgetting = Some(&*database.forgetting);
                let lines: ResolveCounts =
                    resolve_accounts(&start, &provider, &credentials, forgetting, input, hand_over).await?;
                let [ids, handles, refused] = [lines.ids, lines.handles, lines.refused].map(group_digits);
                let text = format!("seeds      {ids} by their ids, {handles} by their handles\n  refused  {refused}");
                write_answer(json, &lines, &text)?;
                Ok(if lines.is_clean() { 0 } else { exit::INPUT })
            }
            Self::Decide { name, account, state: word, why, who, json } => {
                let decisions = [Belonging::Member, Belonging::Outside, Belonging::Candidate];
                let Some(state) = decisions.into_iter().find(|state| state.as_str() == word) else {
                    return BadUsage::because(format!(
                        "{word:?} is not a decision: write member, outside or candidate"
                    ));
                };
                let who = who.or_else(|| std::env::var("USER").ok()).unwrap_or_else(|| "unknown".to_owned());
                let service = Service::new(settings)?;
                let (by_hand, database) = by_hand(settings, &service, &name).await?;
                let Some(account) = find_account_id(&database, &settings.community(&name)?.provider, &account).await?
                else {
                    return Ok(has_no_profile(&account));
                };
                let one = std::slice::from_ref(&account);
                if by_hand.decide(one, state, &who, &why, clock::wall_ms()).await? == one {
                    eprint_message(&format!("{account}: {FORGOTTEN}"));
                    return Ok(exit::INPUT);
                }
                let text = format!("{account} is {state} of {name} from now on, by {who}");
                write_answer(json, &Decision { account, community: name, state, who, why }, &text)?;
                Ok(0)
            }
            Self::Why { name, account, json } => why(settings, &name, &account, json).await,
            Self::Members { name, state } => {
                let opened = OpenCommunity::new(settings, &name).await?;
                let (namespace, mut above) = (opened.namespace(), String::new());
                loop {
                    let page = opened.communities().page_community(&namespace, state, &above, PAGE).await?;
                    let Some(last) = page.last() else { return Ok(0) };
                    above.clone_from(&last.account);
                    page.iter().try_for_each(|of| write_line(&of.account))?;
                }
            }
            Self::Near { name, limit, json } => {
                let opened = OpenCommunity::new(settings, &name).await?;
                let CommunitySettings { threshold, .. } = settings.community(&name)?;
                let near = opened.communities().near_misses(&opened.namespace(), *threshold, limit).await?;
                let mut table = Table::new("<22 >6  <", &["account", "score", "evidence"]);
                for of in &near {
                    let about: Vec<_> = of.parse_evidence().into_iter().map(|finding| finding.about).collect();
                    let score = format!("{:.2}", of.score.unwrap_or(0.0));
                    table.row(&[&of.account, &score, &about.join("; ")]);
                }
                let none = "no undecided accounts yet";
                let text = if near.is_empty() { none.to_owned() } else { table.to_string() };
                write_answer(json, &serde_json::json!({ "near": near }), &text)?;
                Ok(0)
            }
        }
    }
}

/// Prints that no stored profile has the handle, and returns the exit code.
fn has_no_profile(handle: &str) -> u8 {
    eprint_message(&format!("{handle}: no stored profile has the handle; give the account's id"));
    exit::INPUT
}

async fn list(settings: &Settings, json: bool) -> Result<u8> {
    let mut all = Vec::new();
    for (name, community) in &settings.communities {
        let opened = OpenCommunity::new(settings, name).await?;
        let network = network_namespaces(&community.provider);
        let size = opened.communities().size(&opened.namespace(), Some(network.neighbours()), clock::wall_ms()).await?;
        all.push(SizedCommunity { community: name.clone(), on: community.on, size });
    }
    let header = ["community", "members", "open", "candidates", "outside", "seen"];
    let mut table = Table::new("<18 >10 >8 >11 >12 >11<", &header);
    for SizedCommunity { community, on, size } in &all {
        let [members, open, candidates, outside, seen] =
            [size.members, size.open, size.candidates, size.outside, size.seen].map(|n| group_digits(n.unsigned_abs()));
        let off = if *on { "" } else { "  (off)" };
        table.row(&[community, &members, &open, &candidates, &outside, &seen, &off]);
    }
    let none = "the settings have no community: add [communities.NAME] (docs/communities.md)";
    let text = if all.is_empty() { none.to_owned() } else { table.to_string() };
    write_answer(json, &serde_json::json!({ "communities": all }), &text)?;
    Ok(0)
}

async fn why(settings: &Settings, name: &str, account: &str, json: bool) -> Result<u8> {
    let opened = OpenCommunity::new(settings, name).await?;
    let Some(account) = find_account_id(&opened.database, &opened.id.provider, account).await? else {
        return Ok(has_no_profile(account));
    };
    let account = &*account;
    let (communities, namespace) = (opened.communities(), opened.namespace());
    let Some(found) = communities.community_account(&namespace, account).await? else {
        eprint_message(&format!("{account}: unknown to the community {name}"));
        return Ok(exit::INPUT);
    };
    let evidence = found.parse_evidence();
    let changes = communities.belonging_changes(&namespace, account).await?;
    let appearances = communities.appearances(&namespace, account, APPEARANCES).await?;
    let state = match found.state {
        Belonging::Member | Belonging::Candidate => format!("a {}", found.state),
        other => other.to_string(),
    };
    let mut text = format!("{account} has been {state} of {name} since {}", format_time(found.decided_at));
    match (&found.by_hand, &found.why) {
        (Some(who), Some(why)) if who == SEED => {
            let _ = write!(text, ": it is a seed ({})", why.strip_prefix(SEED_OF).unwrap_or(why));
        }
        (Some(who), why) => {
            let why = why.as_deref().filter(|why| !why.is_empty()).unwrap_or("no reason was given");
            let _ = write!(text, ", decided by {who}: {why}");
        }
        (None, _) if found.judged_at.is_none() => text.push_str(", not judged yet"),
        (None, _) => {
            let score = found.score.map_or("unknown".to_owned(), |score| format!("{score:+.2}"));
            let _ = write!(text, ", score {score} (a member from {:+.2} on)", settings.community(name)?.threshold);
        }
    }
    for EvidenceItem { test, says, weight, about } in &evidence {
        let _ = write!(text, "\n  {test:<10} {says:+.2}, weight {weight:.2}: {about}");
    }
    for StoredAppearance { source, reason, post, first_at } in &appearances {
        let post =
            post.as_deref().filter(|post| *post != source).map_or(String::new(), |post| format!(", post {post}"));
        let _ = write!(text, "\n  appeared   {reason} by {source}{post}, {}", format_time(*first_at));
    }
    for BelongingChange { at, old_state, new_state, by_hand, .. } in &changes {
        let old = old_state.as_deref().unwrap_or("unknown");
        let who = by_hand.as_deref().map_or(String::new(), |who| format!(" by {who}"));
        let _ = write!(text, "\n  changed    {old} → {new_state}{who}, {}", format_time(*at));
    }
    write_answer(json, &BelongingReport { account: found, evidence, changes, appearances }, &text)?;
    Ok(0)
}

/// Opens the queue and the store for a decision.
async fn by_hand(settings: &Settings, service: &Service, name: &str) -> Result<(ManualDecisions, Database)> {
    let id = community_pipeline(&settings.community(name)?.provider, name);
    let pipeline = RegisteredPipeline { id, kind: Arc::new(Kind) };
    let queue = service.queue(&pipeline.namespace()).await?;
    let database = app::open_store(settings).await?;
    let Database { store, communities, .. } = database.clone();
    let schedule = Reloadable::new(pipeline.schedule(settings));
    let starter = app::starter(settings, &pipeline, queue, Some(store.clone()), schedule).with_way(Way::new("by_hand"));
    Ok((ManualDecisions { namespace: pipeline.namespace(), store, communities, starter }, database))
}
