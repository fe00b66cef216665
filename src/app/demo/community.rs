//! `demo --community`: a simulated network with four planted groups of accounts. A community finds one group from a few
//! seeds, with all pipelines in one process, and the demo compares the result with that group.

use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use futures::future::try_join_all;
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;

use super::stage::{DemoOptions, open_page};
use crate::app::{self, MonitoredPipeline, SharedServices};
use crate::ops::Server;
use crate::table::Table;
use collect::config::Settings;
use collect::pipelines::community::{community_pipeline, network_namespaces};
use collect::pipelines::registry::Registry;
use engine::base::clock::{self, Millis, Stopwatch};
use engine::base::humanize::{group_digits, span};
use engine::base::shutdown::Stop;
use networks::model::community::Belonging;
use networks::model::provider::Provider;
use simulator::{self, People, SimulatorOptions};
use store::{Communities, CommunitySize};

pub const ACCOUNTS: u64 = 20_000;
/// Group to find, and the community that searches it (config/demo-community.toml).
const GROUP: &str = "pt-PT";
const COMMUNITY: &str = "pt-pt";
const SEEDS: usize = 20;
/// Duration of a simulated day.
const DAY: Duration = Duration::from_secs(240);
/// Posts per second of the busiest account in its busiest hours: 72 per day.
const POSTS_PER_SECOND: f64 = 0.3;
const FRAME_INTERVAL: Duration = Duration::from_millis(500);
const PAGE: u32 = 5_000;
const STEPS: usize = 12;

#[derive(Debug, Clone, Default, Serialize)]
pub struct CommunitySummary {
    pub accounts: u64,
    pub planted: u64,
    pub seeds: u64,
    pub members: u64,
    /// Members that are in the group to find.
    pub right: u64,
    /// Share of members that are in the group, without the seeds; `None` if there are no other members.
    pub precision: Option<f64>,
    /// Share of the group that are members, without the seeds.
    pub recall: Option<f64>,
    /// Accounts of the group, by their state in the community.
    pub group_by_state: BTreeMap<String, u64>,
    /// Rejected accounts of other groups.
    pub kept_out: u64,
    /// Members of other groups, by their group.
    pub wrong: BTreeMap<String, u64>,
    pub growth: Vec<CommunitySize>,
    pub ran_ms: Millis,
    pub calls: BTreeMap<String, i64>,
}

impl fmt::Display for CommunitySummary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let share = |share: Option<f64>| share.map_or("unknown".to_owned(), |share| format!("{:.1} %", share * 100.0));
        let days = self.ran_ms as f64 / clock::millis(DAY) as f64;
        let mut lines = Table::figures(17, 9);
        lines.figure("simulated days", format!("{days:.2}"), format!("({})", span(self.ran_ms)));
        lines.figure("accounts", group_digits(self.accounts), "");
        lines.figure("planted", group_digits(self.planted), format!("of the group {GROUP}"));
        lines.figure("seeds", group_digits(self.seeds), "");
        lines.figure("members", group_digits(self.members), "");
        lines.figure("  precision", share(self.precision), "of the group, without the seeds");
        lines.figure("  recall", share(self.recall), "of the group found, without the seeds");
        for (group, accounts) in &self.wrong {
            lines.figure(&format!("  of {group}"), group_digits(*accounts), "");
        }
        lines.figure("kept out", group_digits(self.kept_out), "of other groups");
        for (state, accounts) in &self.group_by_state {
            lines.line(format!("  {GROUP}, {state:<8}{:>8}", group_digits(*accounts)));
        }
        for (endpoint, calls) in &self.calls {
            lines.figure("calls", group_digits(calls.unsigned_abs()), endpoint);
        }
        let header = ["growth", "members", "candidates", "undecided", "outside", "seen"];
        let mut growth = Table::new("<9 >8 >11 >10 >9 >9", &header);
        let first = self.growth.first().map_or(0, |size| size.at);
        for size in sample_growth(&self.growth) {
            let CommunitySize { members, candidates, open, outside, seen, .. } = size;
            let day = format!(" day {:>4.2}", (size.at - first) as f64 / clock::millis(DAY) as f64);
            growth.row(&[&day, members, candidates, open, outside, seen]);
        }
        write!(f, "{lines}\n\n{growth}")
    }
}

/// Returns about `STEPS` sizes, the last one included.
fn sample_growth(growth: &[CommunitySize]) -> impl Iterator<Item = &CommunitySize> {
    let step = growth.len().div_ceil(STEPS).max(1);
    let last = growth.len().saturating_sub(1);
    growth.iter().enumerate().filter(move |(at, _)| at % step == 0 || *at == last).map(|(_, size)| size)
}

#[must_use]
pub fn with_communities(options: SimulatorOptions) -> SimulatorOptions {
    SimulatorOptions {
        communities: true,
        accounts: ACCOUNTS,
        accounts_since: clock::wall_ms(),
        posting_day: DAY,
        posts_per_second: POSTS_PER_SECOND,
        ..options
    }
}

#[must_use]
pub fn seeds(people: &People, provider: &Provider) -> Vec<String> {
    let group = people.members(provider, GROUP);
    let step = (group.len() / SEEDS).max(1);
    group.into_iter().step_by(step).take(SEEDS).collect()
}

/// Runs the demo. Calls `announce` with the page's address first.
pub async fn run(
    mut settings: Settings,
    options: &DemoOptions,
    registry: &Registry,
    server: Option<Server>,
    announce: impl FnOnce(&str) -> Result<()>,
    stop: &Stop,
) -> Result<CommunitySummary> {
    let anywhere = std::net::SocketAddr::from((std::net::Ipv4Addr::LOCALHOST, 0));
    let api = simulator::start(anywhere, with_communities(app::simulator_options(&settings.simulator))).await?;
    settings.set_all_api_addresses(&api.base_url());
    let provider = settings.provider()?;
    let seeds = seeds(api.people(), &provider);
    if let Some(community) = settings.communities.get_mut(COMMUNITY) {
        community.provider = provider.clone();
        community.seeds = seeds.join(",");
    }
    let kinds = registry.pipelines(&settings)?;
    let (shared, queues) = SharedServices::open(&settings, &kinds).await?;
    let shared = SharedServices { apis: app::announce_apis(&settings, &kinds).await, ..shared };
    let pipelines: Vec<MonitoredPipeline> = kinds
        .iter()
        .map(|one| {
            MonitoredPipeline::new(
                &settings,
                one.clone(),
                one.namespace(),
                one.kind.terms(&settings).lease,
                stop.child(),
            )
        })
        .collect();
    let each = queues.iter().zip(&pipelines);
    let opening =
        try_join_all(each.map(|(queue, one)| app::open_updater(&shared, queue.clone(), one, pipelines.clone())));
    let opened = stop.token().run_until_cancelled(opening).await;
    let updaters = opened.context("the demo was stopped before it started")??;
    let serving = match server {
        Some(server) => {
            let shown: Vec<_> = kinds.iter().zip(&queues).collect();
            let site = open_page(&settings, &shared, &shown, stop).await?;
            announce(&format!("the page is at http://{}/", server.addr()))?;
            Some(tokio::spawn(server.run(site.router(), std::future::pending())))
        }
        None => None,
    };
    let watch = Stopwatch::start();
    let updating: Vec<_> = updaters.into_iter().map(|updater| tokio::spawn(updater.run())).collect();
    let namespace = community_pipeline(&provider, COMMUNITY).to_string();
    let growth = draw_and_record(&shared, &namespace, &provider, (&watch, options.run_for), stop).await?;
    stop.drain();
    for updating in updating {
        updating.await.context("an updater failed")??;
    }
    let mut summary =
        compare_with_planted(&*shared.database.communities, &namespace, api.people(), &provider, &seeds).await?;
    (summary.growth, summary.ran_ms) = (growth, watch.elapsed_ms());
    for one in &pipelines {
        let calls = one.metrics.counters.requests.get();
        if calls > 0 {
            summary.calls.insert(one.namespace.clone(), calls);
        }
    }
    if let Some(serving) = serving {
        serving.abort();
    }
    api.stop().await;
    Ok(summary)
}

/// Draws the view, and records the community's size 24 times per simulated day, until `run_for` has passed or a stop.
async fn draw_and_record(
    shared: &SharedServices,
    namespace: &str,
    provider: &Provider,
    (watch, run_for): (&Stopwatch, Option<Duration>),
    stop: &Stop,
) -> Result<Vec<CommunitySize>> {
    let communities: &Arc<dyn Communities> = &shared.database.communities;
    let network = network_namespaces(provider);
    let text = ProgressBar::new_spinner();
    // The template is constant and valid.
    if let Ok(style) = ProgressStyle::with_template("{msg}") {
        text.set_style(style);
    }
    let mut growth: Vec<CommunitySize> = Vec::new();
    let mut recorded: Option<Stopwatch> = None;
    while !stop.is_draining() && run_for.is_none_or(|span| watch.elapsed() < span) {
        let is_due = recorded.as_ref().is_none_or(|recorded| recorded.elapsed() >= DAY / 24);
        if is_due || !text.is_hidden() {
            let size = communities.size(namespace, Some(network.neighbours()), clock::wall_ms()).await?;
            let day = watch.elapsed().as_secs_f64() / DAY.as_secs_f64();
            let CommunitySize { members, candidates, open, outside, seen, posts, edges, .. } = size;
            text.set_message(format!(
                "day {day:.2}: {members} members, {candidates} candidates, {open} undecided, {outside} decided against, \
                 {seen} more seen; {posts} posts, {edges} follows"
            ));
            text.tick();
            if is_due {
                growth.push(size);
                recorded = Some(Stopwatch::start());
            }
        }
        let left = run_for.map_or(FRAME_INTERVAL, |span| span.saturating_sub(watch.elapsed()).min(FRAME_INTERVAL));
        stop.sleep(left).await;
    }
    text.finish();
    growth.push(communities.size(namespace, Some(network.neighbours()), clock::wall_ms()).await?);
    Ok(growth)
}

/// Compares the stored community with the planted groups.
pub async fn compare_with_planted(
    communities: &dyn Communities,
    namespace: &str,
    people: &People,
    provider: &Provider,
    seeds: &[String],
) -> Result<CommunitySummary> {
    let group: HashSet<String> = people.members(provider, GROUP).into_iter().collect();
    let seeds: HashSet<&str> = seeds.iter().map(String::as_str).collect();
    let mut summary = CommunitySummary {
        accounts: people.count(),
        planted: group.len() as u64,
        seeds: seeds.len() as u64,
        ..CommunitySummary::default()
    };
    let (mut known, mut found, mut judged_members) = (0, 0, 0);
    for state in Belonging::ALL {
        let mut above = String::new();
        loop {
            let page = communities.page_community(namespace, state, &above, PAGE).await?;
            let Some(last) = page.last() else { break };
            above.clone_from(&last.account);
            for account in &page {
                let is_of_group = group.contains(&account.account);
                if is_of_group {
                    known += 1;
                    *summary.group_by_state.entry(state.to_string()).or_default() += 1;
                }
                match state {
                    Belonging::Member => {
                        summary.members += 1;
                        summary.right += u64::from(is_of_group);
                        if !seeds.contains(account.account.as_str()) {
                            judged_members += 1;
                            found += u64::from(is_of_group);
                        }
                        if !is_of_group {
                            let other = people.group_with_id(provider, &account.account).unwrap_or("none");
                            *summary.wrong.entry(other.to_owned()).or_default() += 1;
                        }
                    }
                    Belonging::Outside => summary.kept_out += u64::from(!is_of_group),
                    _ => {}
                }
            }
        }
    }
    let never_seen = summary.planted.saturating_sub(known);
    if never_seen > 0 {
        summary.group_by_state.insert("unseen".to_owned(), never_seen);
    }
    let share = |part: u64, of: u64| (of > 0).then(|| part as f64 / of as f64);
    summary.precision = share(found, judged_members);
    summary.recall = share(found, summary.planted - summary.seeds.min(summary.planted));
    Ok(summary)
}
