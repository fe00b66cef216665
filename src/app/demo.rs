//! The whole system in one process, with nothing installed: simulated API, starter, updater, the page of `ops`, and a
//! view in the terminal. The updater works as everywhere; only the intervals are short (`config/demo.toml`).

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
use self::stage::{files, listen, site};
use crate::app::{self, Monitored, Shared};
use crate::base::clock::{self, Millis, Stopwatch};
use crate::base::humanize::cut;
use crate::base::shutdown::Stop;
use crate::config::Settings;
use crate::engine::metrics::Metrics;
use crate::engine::queue::{Queue, Stats};
use crate::engine::schedule::age::AgeTable;
use crate::ingest::{Queued, Starter};
use crate::model::post::Ingested;
use crate::model::post::ItemState;
use crate::model::provider::Provider;
use crate::pipelines::kind::Registered;
use crate::pipelines::posts::posts_of;
use crate::pipelines::profiles::profiles_of;
use crate::pipelines::registry::Registry;
use crate::simulator::{self, SimulatorOptions};
use crate::store::{StateCounts, Store, Way};

const BATCH: usize = 250;
const FRAME: Duration = Duration::from_millis(500);
const SHOWN: usize = 4;
/// Maximum width of the view in characters.
const COLUMNS: usize = 80;
/// Time in which new posts double the initial number.
const COME_IN: Duration = Duration::from_secs(1_000);

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
    let server = listen(options.ops).await?;
    let _temporary = files(&mut settings, options.dir.as_deref())?;
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
    /// Posts in two places.
    pub doubled: u64,
    /// Lateness of claims, 99th percentile, ms.
    pub late_p99_ms: Millis,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub accounts: Option<AccountsSummary>,
}

impl Summary {
    /// Returns true if each id is in exactly one place.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.lost == 0 && self.doubled == 0 && self.accounts.as_ref().is_none_or(|accounts| accounts.lost == 0)
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "scheduled        {:>9}", self.scheduled)?;
        writeln!(f, "updates          {:>9}", self.updates)?;
        writeln!(f, "requests         {:>9}  ({} ids each)", self.requests, self.ids_per_request)?;
        writeln!(f, "unavailable      {:>9}", self.unavailable)?;
        writeln!(f, "ended            {:>9}", self.ended)?;
        writeln!(f, "late, p99        {:>6} ms", self.late_p99_ms)?;
        write!(f, "lost             {:>9}", self.lost)?;
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
    let server = listen(options.ops).await?;
    let _temporary = files(&mut settings, options.dir.as_deref())?;
    if options.accounts {
        settings.accounts.collect = true;
        settings.simulator = SimulatorOptions {
            account_changes: ACCOUNT_CHANGES,
            accounts_gone: ACCOUNTS_GONE,
            account_away: ACCOUNT_AWAY,
            accounts_since: clock::wall_ms(),
            ..settings.simulator
        };
    }
    let anywhere = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let api = simulator::start(anywhere, settings.simulator.clone()).await?;
    settings.ask_everything_at(&api.base_url());
    let provider = settings.provider()?;

    let posts = posts_of(&provider);
    let mut kinds = vec![posts.clone()];
    kinds.extend(options.accounts.then(|| profiles_of(&provider)));
    let (shared, queues) = Shared::open(&settings, &kinds).await?;
    let shared = Shared { apis: app::announce_apis(&settings, &kinds).await, ..shared };
    let lease = settings.updater.lease;
    let monitored = |kind: &Registered| Monitored::new(&settings, kind.clone(), kind.namespace(), lease, stop.clone());
    let pipelines: Vec<Monitored> = kinds.iter().map(monitored).collect();
    let each = queues.iter().zip(&pipelines);
    let opening =
        try_join_all(each.map(|(queue, one)| app::open_updater(&shared, queue.clone(), one, pipelines.clone())));
    let opened = stop.token().run_until_cancelled(opening).await;
    let updaters = opened.context("it was stopped before it began")??;
    // The first queue is that of the posts.
    let (queue, pipeline) = (queues[0].clone(), pipelines[0].clone());
    let accounts = queues.get(1).cloned();
    let serving = match server {
        Some(server) => {
            let shown: Vec<_> = kinds.iter().zip(&queues).collect();
            let site = site(&settings, &shared, &shown, &stop).await?;
            announce(&format!("the page is at http://{}/", server.addr()))?;
            Some(tokio::spawn(server.run(site.router(), std::future::pending())))
        }
        None => None,
    };
    let updating: Vec<_> = updaters.into_iter().map(|updater| tokio::spawn(updater.run())).collect();
    let starter =
        app::starter(&settings, &posts, queue.clone(), Some(shared.database.store.clone()), pipeline.schedule);
    let tweets = some_tweets(&provider, &settings.tweet_age, options.tweets, clock::wall_ms());
    let mut view = View::new(&tweets, queue, shared.database.store, pipeline.metrics);
    view.accounts = accounts;
    let starter = starter.by(Way::of("demo"));
    let (ids, scheduled) = show(&mut view, &starter, &provider, &tweets, options.run_for, &stop).await?;
    stop.drain();
    for updating in updating {
        updating.await.context("the updater failed")??;
    }
    view.text.finish();
    let collected = match &view.accounts {
        Some(queue) => Some(accounts::summary(&**queue, &*view.store, api.people(), &provider).await?),
        None => None,
    };
    if let Some(serving) = serving {
        serving.abort();
    }
    api.stop().await;
    let summary = summary(&ids, scheduled, &view).await?;
    Ok(Summary { accounts: collected, ..summary })
}

/// Enqueues the posts, then new ones as they come, and draws the view until the time is up or a stop. Returns the ids
/// and the number of scheduled ones.
async fn show(
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
            None => stop.draining().await,
        }
    };
    let drawing = async {
        loop {
            tokio::time::sleep(FRAME).await;
            if let Err(error) = view.draw().await {
                return error;
            }
        }
    };
    // Keeps posts of every age present, for any duration.
    let gap = COME_IN.div_f64(tweets.len().max(1) as f64);
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
fn some_tweets(provider: &Provider, ages: &AgeTable, tweets: u32, now: Millis) -> Vec<Ingested> {
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

async fn summary(ids: &[String], scheduled: u64, View { queue, store, metrics, .. }: &View) -> Result<Summary> {
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
        late_p99_ms: metrics.lateness(99.0),
        accounts: None,
    })
}

/// View in the terminal; hidden if standard error is not one.
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
        let step = (tweets.len() / SHOWN).max(1);
        let shown = tweets.iter().step_by(step).take(SHOWN).map(|tweet| tweet.id.clone()).collect();
        let (accounts, watch, drawn) = (None, Stopwatch::start(), Duration::ZERO);
        Self { queue, accounts, store, metrics, watch, lines, text, shown, drawn }
    }

    /// Draws at most once per `FRAME`.
    async fn draw_when_due(&mut self) -> Result<()> {
        let elapsed = self.watch.elapsed();
        if elapsed >= self.drawn + FRAME {
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
        let mut text = format!("twitter-updater demo, {} s\n\n", watch.elapsed().as_secs());
        text += &format!("{:<16}{:>10}{:>10}{:>8}\n", "younger than", "every", "tweets", "due");
        for lane in &stats.lanes {
            let every = humantime::format_duration(clock::span(lane.patience_ms)).to_string();
            text += &format!("{:<16}{:>10}{:>10}{:>8}\n", lane.lane, every, lane.delayed, lane.due);
        }
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
            metrics.lateness(50.0),
            metrics.lateness(99.0),
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
            text += &cut(&format!("{id}  likes {}", counts.join(" → ")), COLUMNS - 1);
            text.push('\n');
        }
        self.text.set_message(text);
        self.text.tick();
        Ok(stats)
    }
}
