//! Updaters in full swing, and what has to hold after each fault.

use std::path::PathBuf;
use std::time::Duration;

use tempfile::TempDir;
use twitter_updater::base::clock::wall_ms;
use twitter_updater::engine::queue::{Place, Stats};
use twitter_updater::model::post::{ItemState, TweetId};
use twitter_updater::pipelines::posts::NAMESPACE;
use twitter_updater::simulator::{self, Running, SimulatorOptions};
use twitter_updater::store::Standing;

use crate::support::census::{Census, assert_answers_are_in_order, census};
use crate::support::process::{Process, Variables, run_with_input, text};
use crate::support::wait::until_true;
use crate::support::world::{Backends, World};

pub const TWEETS: u32 = 240;
pub const WITHIN: Duration = Duration::from_secs(60);

/// Two updater processes that update each tweet every second.
pub struct Swing {
    pub world: World,
    pub folder: TempDir,
    pub ids: Vec<String>,
    api: Running,
    updaters: Vec<Process>,
    log: PathBuf,
}

/// Ids of tweets of yesterday, so many from the n-th on.
pub fn tweets(from: u32, many: u32) -> Vec<String> {
    let yesterday = wall_ms() - 86_400_000;
    (from..from + many).map(|n| TweetId::at(yesterday - i64::from(n), n).to_string()).collect()
}

impl Swing {
    /// Over a Redis of its own. Returns when many have been updated.
    pub async fn start(postgres: bool) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let api = Self::api().await;
        let world = World::new(Backends { redis: true, postgres }, folder.path(), &api.base_url()).await;
        Self::over(world, api, folder).await
    }

    /// The API they ask: slow enough to be in the middle of it at any time.
    pub async fn api() -> Running {
        let options = SimulatorOptions {
            latency: Duration::from_millis(60),
            jitter: Duration::from_millis(20),
            calls_per_window: 0,
            missing_share: 0.05,
            growth: Duration::from_secs(86_400),
            ..SimulatorOptions::default()
        };
        simulator::start(([127, 0, 0, 1], 0).into(), options).await.unwrap()
    }

    /// Over that world.
    pub async fn over(mut world: World, api: Running, folder: TempDir) -> Self {
        world.settings = world.with("TWITTER_UPDATER__QUEUE__REDIS__RESPONSE_TIMEOUT", "500ms");
        let log = folder.path().join("updaters.log");
        let mut swing = Self { world, folder, ids: Vec::new(), api, updaters: Vec::new(), log };
        swing.enqueue(tweets(0, TWEETS));
        swing.joined_by_another().await;
        swing.joined_by_another().await;
        until_true("they are in full swing", WITHIN, async || {
            swing.all_run();
            let stats = swing.world.queue.stats().await.unwrap();
            stats.counters.get("rescheduled").is_some_and(|done| *done >= 300)
        })
        .await;
        swing
    }

    /// Starts one more updater; returns when the queue knows it.
    pub async fn joined_by_another(&mut self) {
        self.updaters.push(Process::start(&["updater"], &self.world.settings, &self.log));
        until_true("it is on the list", WITHIN, async || {
            self.all_run();
            self.world.queue.stats().await.unwrap().workers.len() == self.updaters.len()
        })
        .await;
    }

    /// Puts these in through the front door; they are looked after from now on.
    pub fn enqueue(&mut self, ids: Vec<String>) {
        let output = run_with_input(&["enqueue", "-"], &self.world.settings, ids.join("\n").as_bytes());
        assert!(output.status.success(), "{}", text(&output.stderr));
        self.ids.extend(ids.into_iter().filter(|id| !self.ids.contains(id)).collect::<Vec<_>>());
    }

    /// The settings, with logs of errors alone.
    pub fn quiet(&self) -> Variables {
        self.world.with("TWITTER_UPDATER__LOG__LEVEL", "error")
    }

    /// What the updaters have said.
    pub fn logged(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    pub fn all_run(&mut self) {
        let log = self.log.clone();
        let logged = || std::fs::read_to_string(&log).unwrap_or_default();
        assert!(self.updaters.iter_mut().all(Process::runs), "an updater has ended:\n{}", logged());
    }

    /// Waits until each tweet was updated after now, by the processes there are.
    pub async fn goes_on(&mut self, after: &str) {
        let since = wall_ms();
        let ids = self.ids.clone();
        until_true(&format!("all are updated again after {after}"), WITHIN, async || {
            self.all_run();
            self.world.all_fresh(&ids, since).await
        })
        .await;
    }

    /// Waits until the updaters have said that.
    pub async fn says(&mut self, words: &str) {
        until_true(&format!("they say {words:?}"), WITHIN, async || {
            self.all_run();
            self.logged().contains(words)
        })
        .await;
    }

    /// How many of these are nowhere in the queue, and alive in the store.
    pub async fn nowhere(&self, ids: &[String]) -> usize {
        let mut places = Vec::new();
        // The sentinels may name no master for a moment after a failover.
        until_true("the queue answers", WITHIN, async || {
            self.world.queue.locate(ids).await.is_ok_and(|found| {
                places = found;
                true
            })
        })
        .await;
        let standings = self.world.store.standing(NAMESPACE, ids).await.unwrap();
        let is_lost = |(places, standing): &(Vec<Place>, Option<Standing>)| {
            let state = standing.as_ref().map(|known| known.state);
            places.is_empty() && matches!(state, Some(ItemState::Live | ItemState::Unavailable))
        };
        places.into_iter().zip(standings).filter(is_lost).count()
    }

    /// Ends the updaters in order: each tweet is in exactly one place, none is blamed, none was overwritten
    /// by an older answer.
    pub async fn ends(mut self) -> Stats {
        for updater in std::mem::take(&mut self.updaters) {
            let status = updater.terminate();
            assert!(status.success(), "{status}\n{}", self.logged());
        }
        let (queue, store) = (&*self.world.queue, &*self.world.store);
        assert_eq!(
            census(queue, store, &self.ids).await,
            Census { delayed: self.ids.len(), ..Census::default() },
            "nobody is dead, and no lease is left to run out"
        );
        assert_answers_are_in_order(store, &self.ids).await;
        let stats = queue.stats().await.unwrap();
        assert_eq!((stats.delayed, stats.leased), (self.ids.len() as u64, 0), "nothing but what was put in");
        self.api.stop().await;
        stats
    }
}
