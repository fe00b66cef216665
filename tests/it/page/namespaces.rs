//! Several namespaces: an overview that hides none of them, and the pages of each below a path of its own.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use async_trait::async_trait;
use tokio_util::task::AbortOnDropHandle;
use twitter_updater::base::backend::redis::RedisPool;
use twitter_updater::base::reload::Reloadable;
use twitter_updater::base::token::AccessToken;
use twitter_updater::data::dead::DeadItems;
use twitter_updater::engine::health::Health;
use twitter_updater::engine::queue::{Lane, Lateness, NewJob, Queue, RedisQueue};
use twitter_updater::engine::schedule::age::AgeTable;
use twitter_updater::ingest::LaneChooser;
use twitter_updater::ops::report::sources::{ConfiguredSource, OpenedPositions, QueueOpener, SourceReader};
use twitter_updater::ops::{Access, FigureSettings, NoAnswer, PageInputs, Server, Site, StoreAccess, WholeQueue};
use twitter_updater::pipelines::kind::ItemWords;
use twitter_updater::pipelines::refresh::UNAVAILABLE_LANE;
use twitter_updater::providers::twitter_v1::CAPABILITIES;
use twitter_updater::quota::RedisLedger;
use twitter_updater::store::Lifecycle;
use twitter_updater::store::{
    Positions, SavedPage, SavedSource, SourceGap, SourceRow, SourceTrouble, SqliteStore, StoreError,
};

use super::looks::{invalid, looks};
use super::*;
use crate::support::role::{client, value};

const OTHER: &str = "mastodon:update:a.social";
const NAMESPACES: [&str; 2] = [NAMESPACE, OTHER];
/// Whose posts are in that namespace.
fn provider(namespace: &str) -> &'static str {
    if namespace == NAMESPACE { "twitter" } else { "mastodon:a.social" }
}

/// A page takes one for stopped that has not been heard for 12 s.
const BEAT_EVERY: Duration = Duration::from_secs(5);

/// Queues of the first Redis.
#[derive(Debug)]
struct First(RedisPool);

#[async_trait]
impl QueueOpener for First {
    async fn queue(&self, namespace: &str) -> Result<Arc<dyn Queue>, NoAnswer> {
        Ok(Arc::new(RedisQueue::new(self.0.clone(), namespace)))
    }
}

/// Counts how often the sources were asked for.
#[derive(Debug)]
struct Counted {
    store: Arc<SqliteStore>,
    asked: Arc<AtomicU32>,
}

#[async_trait]
impl Positions for Counted {
    async fn saved_source(&self, namespace: &str, source: &str) -> Result<SavedSource, StoreError> {
        self.store.saved_source(namespace, source).await
    }

    async fn save_page(&self, namespace: &str, source: &str, page: &SavedPage<'_>) -> Result<bool, StoreError> {
        self.store.save_page(namespace, source, page).await
    }

    async fn save_trouble(&self, namespace: &str, source: &str, trouble: &SourceTrouble) -> Result<(), StoreError> {
        self.store.save_trouble(namespace, source, trouble).await
    }

    async fn was_another_source_read(
        &self,
        namespaces: &[String],
        source: (&str, &str),
        within: (i64, i64),
    ) -> Result<bool, StoreError> {
        self.store.was_another_source_read(namespaces, source, within).await
    }

    async fn gaps(&self, namespace: &str, source: &str) -> Result<Vec<SourceGap>, StoreError> {
        self.store.gaps(namespace, source).await
    }

    async fn sources(&self, gaps: u32) -> Result<Vec<SourceRow>, StoreError> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        self.store.sources(gaps).await
    }
}

/// Two namespaces, each in a Redis of its own, with so many ids; and what `ops` serves of them.
pub struct Two {
    redis: [TestRedis; 2],
    queues: [Arc<dyn Queue>; 2],
    pub store: Arc<SqliteStore>,
    /// Where the polled sources are asked for,
    pub positions: OpenedPositions,
    /// and how often they were.
    pub asked: Arc<AtomicU32>,
    ids: Vec<String>,
    url: String,
    _serving: AbortOnDropHandle<()>,
    _folder: TempDir,
}

impl Two {
    pub async fn new() -> Self {
        Self::with_sources(Vec::new()).await
    }

    /// The same with these sources in the settings.
    pub async fn with_sources(named: Vec<ConfiguredSource>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let redis = [(); 2].map(|()| TestRedis::start(&["--appendonly", "yes"]));
        let store = Arc::new(SqliteStore::open(&folder.path().join("tweets.db"), PATIENCE).await.unwrap());
        store.migrate().await.unwrap();
        let terms = FigureSettings {
            lists: None,
            threshold: None,
            words: ItemWords::POSTS,
            api: None,
            schedule: Arc::new("1d: 1h".parse::<AgeTable>().unwrap()),
            buffer_ttl: Duration::from_secs(5),
            lookahead: 0.1,
            unavailable_every: Duration::from_secs(21_600),
            lease: Duration::from_secs(60),
        };
        let ids: Vec<String> = (0..1_234).map(|n| TweetId::at(wall_ms() - MINUTE, n).to_string()).collect();
        let (mut queues, mut shown) = (Vec::new(), Vec::new());
        for ((namespace, redis), share) in NAMESPACES.into_iter().zip(&redis).zip([1_000..1_234, 0..1_000]) {
            let queue: Arc<dyn Queue> = Arc::new(RedisQueue::new(redis.pool(), namespace));
            let lane = Lane::new("1d", Duration::from_secs(3_600));
            let job = |id: &String| NewJob { id: id.clone(), lane: lane.clone(), due: HOUR.into() };
            queue.schedule(&ids[share].iter().map(job).collect::<Vec<_>>()).await.unwrap();
            let lanes = LaneChooser {
                schedule: Reloadable::new(terms.schedule.clone()).into(),
                unavailable: Lane::new(UNAVAILABLE_LANE, Duration::from_secs(3_600)),
                id_date: Arc::new(TweetId::date_of),
            };
            let dead = DeadItems { queue: queue.clone(), store: store.clone(), lanes };
            let archive = StoreAccess::open(move || std::future::ready(Ok(dead.clone()))).await;
            let whole = Arc::new(WholeQueue {
                queue: queue.clone(),
                provider: provider(namespace).to_owned(),
                ledger: Arc::new(RedisLedger::new(redis.pool(), "any")),
                names: vec!["main".to_owned()],
                budget: None,
                capabilities: CAPABILITIES,
                terms: Reloadable::new(terms.clone()),
                health: Arc::new(Health::default()),
            });
            let database = Reloadable::new(Err(NoAnswer::Failed("no lists here".to_owned())));
            shown.push(PageInputs { whole, archive, terms: Reloadable::new(terms.clone()), database });
            queues.push(queue);
        }
        let server = Server::bind(([127, 0, 0, 1], 0).into()).await.unwrap();
        let url = format!("http://{}", server.addr());
        let asked = Arc::new(AtomicU32::new(0));
        let counted: Arc<dyn Positions> = Arc::new(Counted { store: store.clone(), asked: asked.clone() });
        let positions = OpenedPositions::new(Ok(counted));
        let book = SourceReader::new(named, positions.clone(), Arc::new(First(redis[0].pool())));
        let access = Access { token: Some(AccessToken::new(&TOKEN.into())), ..Access::default() };
        let router = Site::new(shown, access, Some(book)).router();
        let serving = AbortOnDropHandle::new(tokio::spawn(server.run(router, std::future::pending())));
        let queues = queues.try_into().unwrap();
        Self { redis, queues, store, positions, asked, ids, url, _serving: serving, _folder: folder }
    }

    /// A worker of that namespace beats, until what this answers is dropped.
    pub async fn works(&self, at: usize) -> AbortOnDropHandle<()> {
        beats(self.queues[at].clone(), BEAT_EVERY).await
    }

    /// The same of a poller of that namespace, which has put these sources into its queue.
    pub async fn polls(&self, namespace: &str, sources: &[&str]) -> AbortOnDropHandle<()> {
        let queue: Arc<dyn Queue> = Arc::new(RedisQueue::new(self.redis[0].pool(), namespace));
        let lane = Lane::new("15m", Duration::from_secs(900));
        let job = |id: &&str| NewJob { id: (*id).to_owned(), lane: lane.clone(), due: HOUR.into() };
        queue.schedule(&sources.iter().map(job).collect::<Vec<_>>()).await.unwrap();
        beats(queue, Duration::from_secs(2)).await
    }

    async fn mark_dead(&self, at: usize, id: &str) {
        let (ids, reason) = ([id.to_owned()], "refused (HTTP 422)".to_owned());
        self.store.mark_dead(NAMESPACES[at], wall_ms(), &[(id.to_owned(), reason.clone())]).await.unwrap();
        let taken = self.queues[at].adopt("bury", &ids, PATIENCE).await.unwrap();
        let job =
            Job { id: id.to_owned(), lane: "x".into(), due: 0, deliveries: 0, failures: 0, order: Default::default() };
        let buried = self.queues[at].settle(&taken.fence, &[(job, Verdict::MarkDead { reason })], &[]).await.unwrap();
        assert_eq!(buried.settled, 1);
    }

    pub fn url(&self, path: &str) -> String {
        format!("{}{path}", self.url)
    }

    pub async fn get(&self, path: &str) -> (u16, String) {
        let response = client().get(self.url(path)).send().await.unwrap();
        (response.status().as_u16(), response.text().await.unwrap())
    }
}

async fn beats(queue: Arc<dyn Queue>, every: Duration) -> AbortOnDropHandle<()> {
    let beat =
        async move || queue.heartbeat("worker-1", &[("version", "0.1.0".into())], &[], &Lateness::default()).await;
    beat().await.unwrap();
    AbortOnDropHandle::new(tokio::spawn(async move {
        loop {
            tokio::time::sleep(every).await;
            let _ = beat().await;
        }
    }))
}

/// The state that a card shows, and the whole answer.
async fn states(browser: &Browser) -> [String; 3] {
    let mut states = Vec::new();
    for selector in ["#namespace-0 .verdict", "#namespace-1 .verdict", "#answer"] {
        states.push(browser.attribute(selector, "data-state").await.unwrap_or_default());
    }
    states.try_into().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_overview_shows_each_and_follows_them() {
    let two = Two::new().await;
    let _first = two.works(0).await;
    let browser = Browser::start().await;
    browser.open(&two.url("/")).await;
    assert_eq!(states(&browser).await, ["fresh", "stopped", "stopped"]);
    let answer = browser.text("#answer").await.unwrap();
    assert!(answer.ends_with("Stopped: mastodon:update:a.social; fresh: tweet:update"), "{answer}");
    let card = browser.text("#namespace-1").await.unwrap();
    for says in ["no worker is running", "1,000", OTHER] {
        assert!(card.contains(says), "{says}: {card}");
    }
    assert!(browser.text("#namespace-0").await.unwrap().contains("234"), "each has its own ids");

    browser.eval("window.same = true", Value::Null).await;
    browser.until_text("#live", "says that it is live", |text| text == "live").await;
    let _second = two.works(1).await;
    until_true("both are fresh", PATIENCE, async || states(&browser).await == ["fresh", "fresh", "fresh"]).await;
    browser.until_text("#answer", "says so of all", |text| text.ends_with("Fresh: all 2 namespaces")).await;
    two.queues[0].pause(Some("by hand")).await.unwrap();
    until_true("one is stopped", PATIENCE, async || states(&browser).await == ["stopped", "fresh", "stopped"]).await;
    browser.until_text("#namespace-0 .verdict", "says why", |text| text.contains("paused: by hand")).await;
    assert_eq!(browser.eval("return window.same", Value::Null).await, true, "it was never loaded again");
    is_silent(&browser).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_that_is_out_hides_no_other() {
    let mut two = Two::new().await;
    let _workers = [two.works(0).await, two.works(1).await];
    let browser = Browser::start().await;
    browser.open(&two.url("/")).await;
    browser.until_text("#live", "says that it is live", |text| text == "live").await;
    assert_eq!(states(&browser).await, ["fresh", "fresh", "fresh"]);
    two.redis[1].kill();
    let out = ["fresh", "unknown", "unknown"];
    until_true("one is out", PATIENCE, async || states(&browser).await == out).await;
    let at = shown_at(&browser).await;
    until_true("the other goes on", PATIENCE, async || shown_at(&browser).await > at + 2_000).await;
    // Also for who comes now.
    browser.open(&two.url("/")).await;
    assert_eq!(states(&browser).await, out);
    assert!(browser.text("#namespace-0").await.unwrap().contains("234"));

    let (status, said) = two.get("/status").await;
    let said: Value = serde_json::from_str(&said).unwrap();
    assert_eq!((status, &said["namespaces"][0]["delayed"]), (200, &json!(234)));
    assert_eq!(said["namespaces"][1]["namespace"], OTHER);
    assert!(said["namespaces"][1]["error"].as_str().is_some_and(|why| !why.is_empty()), "{said}");
    assert_eq!(two.get(&format!("/status?namespace={OTHER}")).await.0, 503);
    let metrics = two.get("/metrics").await.1;
    let up = |namespace| value(&metrics, &format!("twitter_updater_queue_up{{namespace=\"{namespace}\"}}"));
    assert_eq!((up(NAMESPACE), up(OTHER)), (Some(1.0), Some(0.0)), "{metrics}");
    assert!(metrics.contains("delayed{namespace=\"tweet:update\""), "{metrics}");
    let (status, ready) = two.get("/ready").await;
    assert!(
        status == 200 && ready.starts_with("yes, but for\nmastodon:update:a.social: a service is unavailable: "),
        "{ready}"
    );

    two.redis[1].start_again();
    until_true("it is known again", PATIENCE, async || states(&browser).await[1] != "unknown").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_has_its_pages_and_all_lead_to_one_another() {
    let two = Two::new().await;
    let _workers = [two.works(0).await, two.works(1).await];
    let own = |path: &str| two.url(&format!("/n/{OTHER}{path}"));
    let browser = Browser::start().await;
    browser.open(&two.url("/")).await;
    let current = "nav[aria-label=Namespaces] a[aria-current]";
    assert_eq!(browser.text(current).await.as_deref(), Some("All"));
    browser.click("#namespace-1 h2 a").await;
    assert_eq!(browser.url().await, own("/"));
    assert_eq!(browser.text(current).await.as_deref(), Some(OTHER));
    assert!(browser.eval("return document.title", Value::Null).await.as_str().unwrap().contains(OTHER));
    assert!(browser.text("#freshness").await.unwrap().contains("1,000"), "its own figures");
    browser.until_text("#live", "says that it is live", |text| text == "live").await;
    let at = shown_at(&browser).await;
    until_true("newer figures", PATIENCE, async || shown_at(&browser).await > at).await;

    browser.type_into("form[role=search] input[name=id]", &format!("{}\u{E007}", two.ids[7])).await;
    browser.until_text("#place", "says where it is", |text| text.contains("waiting in the lane 1d")).await;
    assert_eq!(browser.url().await, own(&format!("/tweet?id={}", two.ids[7])));
    browser.until_text("#live", "says that it is live", |text| text == "live").await;
    is_silent(&browser).await;
    // The other one does not have it.
    assert_eq!(two.get(&format!("/n/{NAMESPACE}/tweet?id={}", two.ids[7])).await.0, 404);
    browser.console().await;

    let dead = TweetId::at(wall_ms() - 3 * HOUR, 0).to_string();
    two.mark_dead(1, &dead).await;
    browser.click("nav[aria-label=Pages] a:last-child").await;
    assert_eq!(browser.url().await, own("/dead"));
    assert_eq!(browser.attribute(current, "aria-current").await.as_deref(), Some("true"));
    browser.click("#dead-box summary").await;
    browser.type_into("#dead-box input[name=token]", TOKEN).await;
    browser.click("#dead-box button.danger").await;
    browser.until_text("#notice", "says what was done", |text| text.contains(&dead)).await;
    assert_eq!(browser.url().await, own(&format!("/dead?dropped={dead}")));
    assert_eq!(two.queues[1].stats().await.unwrap().dead, 0);

    browser.click("nav[aria-label=Namespaces] a:nth-child(2)").await;
    assert_eq!(browser.url().await, two.url(&format!("/n/{NAMESPACE}/")));
    assert!(browser.text("#freshness").await.unwrap().contains("234"));
    browser.click("nav[aria-label=Namespaces] a:first-child").await;
    assert_eq!(browser.url().await, two.url("/"));
    is_silent(&browser).await;
    // As people type it.
    browser.open(&two.url(&format!("/n/{OTHER}"))).await;
    assert_eq!(browser.url().await, own("/"));
    for path in ["/n/x:update/", "/n/", "/tweet?id=20", "/dead"] {
        assert_eq!(two.get(path).await.0, 404, "{path}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_overview_finds_a_post_in_any_of_them() {
    let mut two = Two::new().await;
    let browser = Browser::start().await;
    browser.without_script().await;
    let search = async |two: &Two, id: &str| {
        browser.open(&two.url("/")).await;
        browser.type_into("form[role=search] input[name=id]", &format!("{id}\u{E007}")).await;
        until_true("another page", PATIENCE, async || browser.url().await.contains("id=")).await;
    };
    for (namespace, id) in [(OTHER, &two.ids[7]), (NAMESPACE, &two.ids[1_007])] {
        search(&two, &format!("https://x.com/i/web/status/{id}")).await;
        assert_eq!(browser.url().await, two.url(&format!("/n/{namespace}/tweet?id={id}")));
    }
    // In both.
    let both = TweetId::at(wall_ms() - 3 * HOUR, 9).to_string();
    two.mark_dead(0, &both).await;
    two.mark_dead(1, &both).await;
    search(&two, &both).await;
    assert_eq!(browser.count("main a").await, 2);
    browser.click("main p:last-child a").await;
    assert_eq!(browser.url().await, two.url(&format!("/n/{OTHER}/tweet?id={both}")));
    for (typed, status) in [("20", 404), ("hello", 400)] {
        search(&two, typed).await;
        assert_eq!(browser.count("#problem").await, 1, "{typed}");
        assert_eq!(two.get(&format!("/find?id={typed}")).await.0, status);
    }
    two.redis[1].kill();
    search(&two, "20").await;
    let says = browser.text("#problem").await.unwrap();
    assert!(says.contains(&format!("{OTHER} cannot be searched now")), "{says}");
    assert_eq!(two.get("/find?id=20").await.0, 503);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn programs_are_told_of_all_or_of_one() {
    let two = Two::new().await;
    let _worker = two.works(0).await;
    let (status, all) = two.get("/status").await;
    let all: Value = serde_json::from_str(&all).unwrap();
    let names: Vec<&Value> = all["namespaces"].as_array().unwrap().iter().map(|one| &one["namespace"]).collect();
    assert_eq!((status, names), (200, vec![&json!(NAMESPACE), &json!(OTHER)]));
    let one: Value = serde_json::from_str(&two.get(&format!("/status?namespace={OTHER}")).await.1).unwrap();
    assert_eq!((&one["namespace"], &one["delayed"]), (&json!(OTHER), &json!(1_000)));
    let (status, why) = two.get("/status?namespace=x:update").await;
    assert_eq!(
        (status, &*why),
        (404, "no such namespace is shown here; these are: tweet:update, mastodon:update:a.social\n")
    );

    let metrics = two.get("/metrics").await.1;
    for namespace in NAMESPACES {
        let provider = provider(namespace);
        for says in [
            format!("twitter_updater_delayed{{namespace=\"{namespace}\",lane=\"1d\"}} "),
            format!("twitter_updater_dead{{namespace=\"{namespace}\"}} 0"),
            // Credentials of one name are told apart.
            format!(
                "twitter_updater_credential_parked{{namespace=\"{namespace}\",provider=\"{provider}\",credential=\"main\",\
                 endpoint=\"statuses/lookup\"}} 0"
            ),
        ] {
            assert!(metrics.contains(&says), "{says}: {metrics}");
        }
    }
    let families: Vec<&str> = metrics.lines().filter_map(|line| line.strip_prefix("# TYPE ")).collect();
    let distinct: std::collections::BTreeSet<&&str> = families.iter().collect();
    assert!(families.len() > 10 && distinct.len() == families.len(), "a family twice: {families:?}");
    assert_eq!(two.get("/live").await, (200, "yes\n".to_owned()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn they_fit_can_be_read_and_heard_and_need_no_script() {
    let two = Two::new().await;
    let _worker = two.works(0).await;
    two.mark_dead(1, &TweetId::at(wall_ms() - 3 * HOUR, 0).to_string()).await;
    let browser = Browser::start().await;
    let pages = [
        ("overview", "/".to_owned()),
        ("namespace", format!("/n/{OTHER}/")),
        ("namespace-dead", format!("/n/{OTHER}/dead")),
        ("namespace-tweet", format!("/n/{OTHER}/tweet?id={}", two.ids[0])),
    ];
    let mut problems = Vec::new();
    for (name, path) in &pages {
        problems.extend(looks(&browser, name, &two.url(path)).await);
        let structure = browser.eval(include_str!("structure.js"), Value::Null).await;
        assert_eq!(structure, json!([]), "{name}");
        let wrong = invalid(&two.get(path).await.1);
        assert!(wrong.is_empty(), "{name}: {wrong:#?}");
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
    for (role, name) in browser.names("a[href], button, section, nav").await {
        assert!(role == "none" || !name.trim().is_empty(), "a {role} without a name");
    }

    // Its last heartbeat is long ago.
    let _worker = two.works(0).await;
    browser.without_script().await;
    browser.open(&two.url("/")).await;
    assert_eq!(states(&browser).await, ["fresh", "stopped", "stopped"]);
    browser.click("#namespace-1 h2 a").await;
    browser.until_text("#freshness", "has its ids", |text| text.contains("1,000")).await;
}
