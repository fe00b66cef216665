//! The whole system in one process: simulated API, starter, updater, the page of `ops`, and a view in the terminal.
//! Only the intervals are shorter than elsewhere (`config/demo.toml`).

mod accounts;
pub mod community;
mod stage;

use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use futures::future::try_join_all;
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use serde::Serialize;

use self::accounts::AccountsSummary;
use self::community::CommunitySummary;
pub use self::stage::DemoOptions;
use self::stage::{bind_page, create_files, open_page};
use crate::app::{self, MonitoredPipeline, SharedServices};
use crate::table::Table;
use collect::config::Settings;
use collect::ingest::{Queued, Starter};
use collect::pipelines::kind::RegisteredPipeline;
use collect::pipelines::posts::posts_pipeline;
use collect::pipelines::profiles::profiles_pipeline;
use collect::pipelines::registry::Registry;
use engine::base::clock::{self, Millis, Stopwatch};
use engine::base::humanize::truncate_chars;
use engine::base::shutdown::Stop;
use engine::metrics::Metrics;
use engine::queue::{Queue, Stats};
use engine::schedule::age::AgeTable;
use networks::model::post::Ingested;
use networks::model::post::ItemState;
use networks::model::provider::Provider;
use simulator::{self, SimulatorOptions};
use store::{StateCounts, Store, Way};

const BATCH: usize = 250;
const FRAME_INTERVAL: Duration = Duration::from_millis(500);
const SHOWN_POSTS: usize = 4;
/// Maximum width of the view in characters.
const COLUMNS: usize = 80;
/// Time in which as many new posts arrive as there were at the start.
const DOUBLING_TIME: Duration = Duration::from_secs(1_000);

/// Mean time between two changes of a simulated account.
const ACCOUNT_CHANGES: Duration = Duration::from_secs(15);
/// Share of accounts that are suspended or deactivated at any time.
const ACCOUNTS_GONE: f64 = 0.04;
/// Mean duration of an absence.
const ACCOUNT_AWAY: Duration = Duration::from_secs(12);

/// Runs the demo of a community. Calls `announce` with the page's address first.
pub async fn run_community(
    mut settings: Settings,
    options: DemoOptions,
    registry: &Registry,
    announce: impl FnOnce(&str) -> Result<()>,
    stop: Stop,
) -> Result<CommunitySummary> {
    let server = bind_page(options.ops).await?;
    let _temporary = create_files(&mut settings, options.dir.as_deref())?;
    community::run(settings, &options, registry, server, announce, &stop).await
}

#[derive(Debug, Serialize)]
pub struct Summary {
    pub scheduled: u64,
    /// Lookups saved; a post counts each time.
    pub updates: i64,
    pub requests: i64,
    pub ids_per_request: f64,
    /// Posts that the API does not return at the end.
    pub unavailable: u64,
    pub ended: u64,
    /// Posts that are not delayed, leased, dead or ended.
    pub lost: u64,
    /// Posts that the queue has twice.
    pub doubled: u64,
    /// Lateness of claims, 99th percentile, ms.
    pub late_p99_ms: Millis,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub accounts: Option<AccountsSummary>,
}

impl Summary {
    /// Returns true if each id is exactly once in the queue, or ended.
    #[must_use]
    pub fn is_consistent(&self) -> bool {
        self.lost == 0 && self.doubled == 0 && self.accounts.as_ref().is_none_or(|accounts| accounts.lost == 0)
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut lines = Table::figures(17, 9);
        lines.figure("scheduled", self.scheduled, "");
        lines.figure("updates", self.updates, "");
        lines.figure("requests", self.requests, format!("({} ids each)", self.ids_per_request));
        lines.figure("unavailable", self.unavailable, "");
        lines.figure("ended", self.ended, "");
        lines.figure("late, p99", format!("{} ms", self.late_p99_ms), "");
        lines.figure("lost", self.lost, "");
        write!(f, "{lines}")?;
        match &self.accounts {
            Some(accounts) => write!(f, "\n\n{accounts}"),
            None => Ok(()),
        }
    }
}

/// Runs the demo. Calls `announce` with the page's address first.
pub async fn run(
    mut settings: Settings,
    options: DemoOptions,
    announce: impl FnOnce(&str) -> Result<()>,
    stop: Stop,
) -> Result<Summary> {
    let server = bind_page(options.ops).await?;
    let _temporary = create_files(&mut settings, options.dir.as_deref())?;
    let mut simulated = app::simulator_options(&settings.simulator);
    if options.accounts {
        settings.accounts.collect = true;
        simulated = SimulatorOptions {
            account_changes: ACCOUNT_CHANGES,
            accounts_gone: ACCOUNTS_GONE,
            account_away: ACCOUNT_AWAY,
            accounts_since: clock::wall_ms(),
            ..simulated
        };
    }
    let anywhere = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let api = simulator::start(anywhere, simulated).await?;
    settings.set_all_api_addresses(&api.base_url());
    let provider = settings.provider()?;

    let posts = posts_pipeline(&provider);
    let mut kinds = vec![posts.clone()];
    kinds.extend(options.accounts.then(|| profiles_pipeline(&provider)));
    let (shared, queues) = SharedServices::open(&settings, &kinds).await?;
    let shared = SharedServices { apis: app::announce_apis(&settings, &kinds).await, ..shared };
    let lease = settings.updater.lease;
    let monitored = |kind: &RegisteredPipeline| {
        MonitoredPipeline::new(&settings, kind.clone(), kind.namespace(), lease, stop.clone())
    };
    let pipelines: Vec<MonitoredPipeline> = kinds.iter().map(monitored).collect();
    let each = queues.iter().zip(&pipelines);
    let opening =
        try_join_all(each.map(|(queue, one)| app::open_updater(&shared, queue.clone(), one, pipelines.clone())));
    let opened = stop.token().run_until_cancelled(opening).await;
    let updaters = opened.context("the demo was stopped before it started")??;
    // The first queue is that of the posts.
    let (queue, pipeline) = (queues[0].clone(), pipelines[0].clone());
    let accounts = queues.get(1).cloned();
    let serving = match server {
        Some(server) => {
            let shown: Vec<_> = kinds.iter().zip(&queues).collect();
            let site = open_page(&settings, &shared, &shown, &stop).await?;
            announce(&format!("the page is at http://{}/", server.addr()))?;
            Some(tokio::spawn(server.run(site.router(), std::future::pending())))
        }
        None => None,
    };
    let updating: Vec<_> = updaters.into_iter().map(|updater| tokio::spawn(updater.run())).collect();
    let starter =
        app::starter(&settings, &posts, queue.clone(), Some(shared.database.store.clone()), pipeline.schedule);
    let tweets = create_tweets(&provider, &settings.tweet_age, options.tweets, clock::wall_ms());
    let mut view = View::new(&tweets, queue, shared.database.store, pipeline.metrics);
    view.accounts = accounts;
    let starter = starter.with_way(Way::new("demo"));
    let (ids, scheduled) = enqueue_and_draw(&mut view, &starter, &provider, &tweets, options.run_for, &stop).await?;
    stop.drain();
    for updating in updating {
        updating.await.context("the updater failed")??;
    }
    view.text.finish();
    let collected = match &view.accounts {
        Some(queue) => Some(accounts::summarize(&**queue, &*view.store, api.people(), &provider).await?),
        None => None,
    };
    if let Some(serving) = serving {
        serving.abort();
    }
    api.stop().await;
    let summary = summarize(&ids, scheduled, &view).await?;
    Ok(Summary { accounts: collected, ..summary })
}

/// Enqueues the posts and then new ones, and draws the view, until `run_for` has passed or a stop. Returns the ids and
/// the number of scheduled posts.
async fn enqueue_and_draw(
    view: &mut View,
    starter: &Starter,
    provider: &Provider,
    tweets: &[Ingested],
    run_for: Option<Duration>,
    stop: &Stop,
) -> Result<(Vec<String>, u64)> {
    let (mut ids, mut scheduled) = (Vec::new(), 0);
    for batch in tweets.chunks(BATCH) {
        if stop.is_draining() || run_for.is_some_and(|span| view.watch.elapsed() >= span) {
            break;
        }
        let answers = starter.queue_tweets(batch.to_vec()).await?;
        scheduled += answers.iter().filter(|answer| **answer == Queued::Scheduled).count() as u64;
        ids.extend(batch.iter().map(|tweet| tweet.id.clone()));
        view.draw_when_due().await?;
    }
    let end = async {
        match run_for {
            Some(span) => stop.sleep(span.saturating_sub(view.watch.elapsed())).await,
            None => stop.wait_for_drain().await,
        }
    };
    let drawing = async {
        loop {
            tokio::time::sleep(FRAME_INTERVAL).await;
            if let Err(error) = view.draw().await {
                return error;
            }
        }
    };
    // Keeps posts of every age present, for any duration.
    let gap = DOUBLING_TIME.div_f64(tweets.len().max(1) as f64);
    let coming = async {
        for n in u32::try_from(tweets.len()).unwrap_or(u32::MAX).. {
            tokio::time::sleep(gap).await;
            let id = simulator::id_of(provider, clock::wall_ms(), n);
            match starter.queue_tweet(Ingested::bare(&*id)).await {
                Ok(answer) => scheduled += u64::from(answer == Queued::Scheduled),
                Err(error) => return error.into(),
            }
            ids.push(id);
        }
        std::future::pending().await
    };
    tokio::select! {
        () = end => {}
        error = drawing => return Err(error),
        error = coming => return Err(error),
    }
    Ok((ids, scheduled))
}

/// Creates posts of all ages in the table: most are young, and a few are near their end.
fn create_tweets(provider: &Provider, ages: &AgeTable, tweets: u32, now: Millis) -> Vec<Ingested> {
    let brackets = ages.brackets();
    let lower = |at: usize| if at == 0 { 0 } else { brackets[at - 1].under };
    (0..tweets)
        .map(|n| {
            // Cycles through the brackets, and spreads ages evenly in each. The golden ratio leaves no gaps for any
            // number of posts.
            let at = n as usize % brackets.len();
            let share = (f64::from(n) * 0.618_033_988_749_895).fract();
            let width = (brackets[at].under - lower(at)) as f64;
            let age = lower(at) + (share * width) as Millis;
            Ingested::bare(simulator::id_of(provider, now - age, n))
        })
        .collect()
}

async fn summarize(ids: &[String], scheduled: u64, View { queue, store, metrics, .. }: &View) -> Result<Summary> {
    let namespace = queue.namespace();
    let (mut lost, mut doubled) = (0, 0);
    for ids in ids.chunks(1_000) {
        let (places, standings) = (queue.locate(ids).await?, store.standing(namespace, ids).await?);
        for (places, standing) in places.iter().zip(standings) {
            let ended = standing.is_some_and(|known| known.state == ItemState::Ended);
            match places.len() {
                0 if !ended => lost += 1,
                0 | 1 => {}
                _ => doubled += 1,
            }
        }
    }
    let StateCounts { unavailable, ended, .. } = store.counts(namespace).await?;
    let counters = &metrics.counters;
    let requests = counters.requests.get();
    let ids_per_request = counters.looked_up.get() as f64 / requests.max(1) as f64;
    Ok(Summary {
        scheduled,
        updates: counters.found.get() + counters.withheld.get(),
        requests,
        ids_per_request: (ids_per_request * 10.0).round() / 10.0,
        unavailable,
        ended,
        lost,
        doubled,
        late_p99_ms: metrics.lateness_percentile(99.0),
        accounts: None,
    })
}

/// View in the terminal; hidden if standard error is no terminal.
struct View {
    queue: Arc<dyn Queue>,
    accounts: Option<Arc<dyn Queue>>,
    store: Arc<dyn Store>,
    metrics: Arc<Metrics>,
    watch: Stopwatch,
    lines: MultiProgress,
    text: ProgressBar,
    shown: Vec<String>,
    drawn: Duration,
}

impl View {
    fn new(tweets: &[Ingested], queue: Arc<dyn Queue>, store: Arc<dyn Store>, metrics: Arc<Metrics>) -> Self {
        let lines = MultiProgress::new();
        let text = lines.add(ProgressBar::new_spinner());
        // The template is constant and valid.
        if let Ok(style) = ProgressStyle::with_template("{msg}") {
            text.set_style(style);
        }
        // A few, spread over all.
        let step = (tweets.len() / SHOWN_POSTS).max(1);
        let shown = tweets.iter().step_by(step).take(SHOWN_POSTS).map(|tweet| tweet.id.clone()).collect();
        let (accounts, watch, drawn) = (None, Stopwatch::start(), Duration::ZERO);
        Self { queue, accounts, store, metrics, watch, lines, text, shown, drawn }
    }

    /// Draws at most once per `FRAME_INTERVAL`.
    async fn draw_when_due(&mut self) -> Result<()> {
        let elapsed = self.watch.elapsed();
        if elapsed >= self.drawn + FRAME_INTERVAL {
            self.drawn = elapsed;
            self.draw().await?;
        }
        Ok(())
    }

    async fn draw(&self) -> Result<Stats> {
        let Self { queue, store, metrics, watch, .. } = self;
        let stats = queue.stats().await?;
        if self.lines.is_hidden() {
            return Ok(stats);
        }
        let counters = &metrics.counters;
        let (requests, looked_up) = (counters.requests.get(), counters.looked_up.get());
        let mut lanes = Table::new("<16>10>10>8", &["younger than", "every", "tweets", "due"]);
        for lane in &stats.lanes {
            let every = humantime::format_duration(clock::span(lane.patience_ms)).to_string();
            lanes.row(&[&lane.lane, &every, &lane.delayed, &lane.due]);
        }
        let mut text = format!("twitter-updater demo, {} s\n\n{lanes}\n", watch.elapsed().as_secs());
        text += &format!(
            "\nin flight {:>5}   requests {:>6}   ids per request {:>5.1}\n",
            stats.leased,
            requests,
            looked_up as f64 / requests.max(1) as f64,
        );
        text += &format!(
            "updates {:>7}   unavailable {:>3}   ended {:>4}   late p50 {} ms, p99 {} ms\n\n",
            counters.found.get() + counters.withheld.get(),
            counters.unavailable.get(),
            counters.ended.get(),
            metrics.lateness_percentile(50.0),
            metrics.lateness_percentile(99.0),
        );
        if let Some(accounts) = &self.accounts {
            let totals = store.account_states(accounts.namespace()).await?;
            let totals = totals.iter().map(|total| format!("{} {}", total.accounts, total.state));
            text += &format!("accounts: {}\n\n", totals.collect::<Vec<_>>().join(", "));
        }
        for id in &self.shown {
            let history = store.history(queue.namespace(), id).await?;
            let last = &history[history.len().saturating_sub(8)..];
            let likes = last.iter().map(|row| row.metrics.favorite_count.unwrap_or(0).to_string());
            let counts: Vec<String> = likes.collect();
            text += &truncate_chars(&format!("{id}  likes {}", counts.join(" → ")), COLUMNS - 1);
            text.push('\n');
        }
        self.text.set_message(text);
        self.text.tick();
        Ok(stats)
    }
}
