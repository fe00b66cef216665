//! Redis's clock runs a day ahead for a while. No pipeline stores a date of that day. After the documented steps every pipeline
//! continues, also with the items that were enqueued meanwhile.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use tempfile::TempDir;
use twitter_updater::base::clock::{Millis, wall_ms};
use twitter_updater::model::provider::Provider;
use twitter_updater::pipelines::posts::NAMESPACE;
use twitter_updater::simulator::{self, Running, SimulatorOptions};

use super::swing::tweets;
use crate::media::process::media_settings;
use crate::media::server::Server;
use crate::media::whole::{NS as MEDIA, put_in};
use crate::support::accounts_of_posts::PROFILES;
use crate::support::community::{COMMUNITY, NAME, seed, settings};
use crate::support::lists::{self, LISTS};
use crate::support::postgres;
use crate::support::process::{Process, Variables, run, run_with_input, text, variables};
use crate::support::redis::TestRedis;
use crate::support::stepping_clock::SteppingClock;
use crate::support::visits::{VISITS, change};
use crate::support::wait::until_true;
use crate::support::world::World;

const WITHIN: Duration = Duration::from_secs(60);
const DAY_S: i64 = 86_400;

/// An installation with a pipeline of every kind, and the items in them.
struct Scene {
    clock: SteppingClock,
    redis: TestRedis,
    api: Running,
    files: Server,
    world: World,
    folder: TempDir,
    log: PathBuf,
    posts: Vec<String>,
    accounts: Vec<String>,
    media: u32,
}

impl Scene {
    async fn new(on_postgres: bool) -> Self {
        let (clock, folder) = (SteppingClock::new(), tempfile::tempdir().unwrap());
        let redis = TestRedis::start_by(&clock.program(), &["--appendonly", "yes"]);
        let options = SimulatorOptions {
            calls_per_window: 0,
            app_calls_per_window: 0,
            accounts: 400,
            accounts_since: wall_ms() - 3_600_000,
            follow_changes: Duration::from_secs(3_600),
            most_followers: 50,
            posts_per_second: 0.5,
            missing_share: 0.0,
            ..SimulatorOptions::default()
        };
        let api = simulator::start(([127, 0, 0, 1], 0).into(), options).await.unwrap();
        let postgres = if on_postgres { Some(postgres::database().await) } else { None };
        let mut world = World::over(Some(&redis.url), postgres, folder.path(), &api.base_url()).await;
        let files = Server::start().await;
        world.settings.extend(media_settings(&files, folder.path()));
        world.settings.extend(settings());
        world.settings.extend(lists::settings());
        world.settings.extend(variables(&[
            ("relations.from_posts", "false"),
            ("visits.collect", "true"),
            ("visits.every", "2s"),
            ("visits.shortest", "1s"),
            ("visits.longest", "6s"),
            ("updater.lease", "20s"),
            ("updater.save_timeout", "2s"),
        ]));
        let log = folder.path().join("updater.log");
        let (posts, accounts) = (Vec::new(), Vec::new());
        Self { clock, redis, api, files, world, folder, log, posts, accounts, media: 0 }
    }

    /// Puts something into each pipeline, as people do.
    async fn put_in(&mut self) {
        let (settings, from) = (&self.world.settings, self.accounts.len() as u64);
        let posts = tweets(self.posts.len() as u32, 5);
        let output = run_with_input(&["enqueue", "-"], settings, posts.join("\n").as_bytes());
        assert!(output.status.success(), "{}", text(&output.stderr));
        let id = |number| self.api.people().id(&Provider::Twitter, number);
        let accounts: Vec<String> = (from..from + 3).map(id).collect();
        change("follow", settings, &accounts);
        lists::enqueue(&self.world, LISTS, &accounts);
        seed(&self.world, NAME, &accounts);
        let output = run_with_input(&["enqueue", "--accounts", "-"], settings, accounts.join("\n").as_bytes());
        assert!(output.status.success(), "{}", text(&output.stderr));
        // Numbers of files that their host gives.
        let media = self.world.queue_at(&self.redis.url, MEDIA);
        put_in(&*self.world.store, &*media, &self.files, self.media * 20 + 14..self.media * 20 + 20).await;
        self.media += 1;
        self.posts.extend(posts);
        self.accounts.extend(accounts);
    }

    fn updater(&self) -> Process {
        Process::start(&["updater"], &self.world.settings, &self.log)
    }

    fn logged(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Items of each pipeline.
    fn items(&self) -> [(&'static str, &[String]); 5] {
        let (posts, accounts) = (&self.posts[..], &self.accounts[..]);
        [(NAMESPACE, posts), (PROFILES, accounts), (VISITS, accounts), (LISTS, accounts), (COMMUNITY, accounts)]
    }

    /// Waits until each item was handled after that moment, and each medium is stored.
    async fn wait_until_handled(&self, when: &str, since: Millis) {
        for (pipeline, ids) in self.items() {
            until_true(&format!("{when}: all of {pipeline} are handled"), WITHIN, async || {
                self.world.all_fresh_in(pipeline, ids, since).await
            })
            .await;
        }
        until_true(&format!("{when}: all media are stored"), WITHIN, async || {
            self.world.store.counts(MEDIA).await.unwrap().ended == u64::from(self.media * 6)
        })
        .await;
    }

    /// Asserts that no stored date is in the future.
    async fn nothing_is_dated_ahead(&self) {
        let now = wall_ms() + 60_000;
        for (pipeline, ids) in self.items() {
            let known = self.world.store.standing(pipeline, ids).await.unwrap();
            for known in known.iter().flatten() {
                assert!(known.checked_at.is_none_or(|at| at <= now), "{pipeline}: {known:?}");
            }
        }
        for state in twitter_updater::model::community::Belonging::ALL {
            for of in self.world.communities.page_community(COMMUNITY, state, "", 10_000).await.unwrap() {
                assert!(of.judged_at.is_none_or(|at| at <= now), "{of:?}");
            }
        }
    }

    async fn wait_for_log(&self, words: &str) {
        until_true(&format!("the log has {words:?}"), WITHIN, async || self.logged().contains(words)).await;
    }
}

/// Runs the documented steps after Redis's clock was ahead.
fn follow_the_documented_steps(redis: &TestRedis, settings: &Variables) {
    let page = include_str!("../../../../docs/operations.md");
    let section = page.split_once("### A clock jumped\n").unwrap().1.split_once("\n### ").unwrap().0;
    let block = section.split_once("```sh\n").unwrap().1.split_once("```").unwrap().0;
    let socket = redis.url.strip_prefix("redis+unix://").unwrap();
    let script = format!("set -e\n{}", block.replace("redis-cli", &format!("redis-cli -s {socket}")));
    let output = Command::new("sh").args(["-c", &script]).output().unwrap();
    assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
    assert!(block.contains("leased") && text(&output.stdout).contains('1'), "{script}: {}", text(&output.stdout));
    let output = run(&["rebuild"], settings);
    assert!(output.status.success(), "{}", text(&output.stderr));
}

async fn survives_a_clock_a_day_ahead(on_postgres: bool) {
    let mut scene = Scene::new(on_postgres).await;
    scene.put_in().await;
    let updater = scene.updater();
    scene.wait_until_handled("at first", 0).await;

    scene.clock.step(DAY_S);
    scene.wait_for_log("ahead of the API's and of this machine's: no answer is saved until it is corrected").await;
    scene.wait_for_log("ahead of this machine's: nothing is saved until one of the clocks is corrected").await;
    scene.put_in().await;
    updater.kill();
    scene.nothing_is_dated_ahead().await;

    scene.clock.step(0);
    let since = wall_ms();
    let updater = scene.updater();
    follow_the_documented_steps(&scene.redis, &scene.world.settings);
    scene.wait_until_handled("when the clock is right", since).await;
    scene.nothing_is_dated_ahead().await;
    let status = updater.terminate();
    assert!(status.success(), "{status}\n{}", scene.logged());
    scene.api.stop().await;
    drop(scene.folder);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_clock_that_was_a_day_ahead_dates_nothing_and_every_pipeline_goes_on_on_postgres() {
    survives_a_clock_a_day_ahead(true).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_clock_that_was_a_day_ahead_dates_nothing_and_every_pipeline_goes_on_on_sqlite() {
    survives_a_clock_a_day_ahead(false).await;
}
