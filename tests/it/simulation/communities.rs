//! A community in the simulation: accounts that say to be in places by a script, and move; how they are admitted, judged and
//! judged again; and what was decided of each, compared with the script.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use twitter_updater::base::clock::Millis;
use twitter_updater::base::shutdown::Stop;
use twitter_updater::config::{CommunitySettings, Settings};
use twitter_updater::engine::metrics::Metrics;
use twitter_updater::model::community::Belonging;
use twitter_updater::model::pipeline_id::PipelineId;
use twitter_updater::model::provider::Provider;
use twitter_updater::pipelines::community::collector::Collector;
use twitter_updater::pipelines::community::growth::GrowthTask;
use twitter_updater::pipelines::community::handler::{JudgementWork, LiveRule};
use twitter_updater::pipelines::community::manual_decisions::ManualDecisions;
use twitter_updater::pipelines::community::network_namespaces;
use twitter_updater::pipelines::community::schedule::JudgementSchedule;
use twitter_updater::pipelines::item_handler::ItemHandler;
use twitter_updater::pipelines::kind::LiveSettings;
use twitter_updater::pipelines::refresh::FanOutTarget;
use twitter_updater::store::{
    AccountFacts, Appearance, BelongingChange, Communities, CommunityAccount, CommunitySize, Decision, FollowMark,
    FoundPost, GrowthLimits, HandDecision, KnownAccount, NetworkPipelines, PostLanguage, ProfileFacts, StoreError,
    StoredAppearance, UnwantedPost, UnwantedQuery,
};

use super::link::{LinkedStore, call_of_store};
use super::network::Way;
use super::process::Parts;
use super::world::{NAMESPACE, ORIGIN, World};

const NAME: &str = "lisboa";
/// How long after a judgement an account is judged again.
pub const AGAIN: Duration = Duration::from_secs(30);
/// The longest that facts are read after their claim, ms: nothing holds a call longer when all is well.
const READ_WITHIN: Millis = 10_000;
/// The longest that a judgement is past when all is well: the interval, a batch, and a turn of all accounts, ms.
const JUDGED_WITHIN: Millis = 60_000;
/// Where accounts say to be, by turns: of the community, of another country, and nowhere.
const PLACES: [Option<&str>; 3] = [Some("Lisboa, Portugal"), Some("Madrid, España"), None];

/// When accounts are judged.
pub fn schedule() -> JudgementSchedule {
    JudgementSchedule { interval: AGAIN }
}

/// Where an account says to be at a moment: it moves each few minutes.
fn place(account: &str, at: Millis) -> Option<&'static str> {
    let mut hasher = DefaultHasher::new();
    account.hash(&mut hasher);
    let dice = hasher.finish();
    let stays = 60_000 + (dice % 240_000) as Millis;
    let moves = (at - ORIGIN + (dice >> 20) as Millis % stays).div_euclid(stays);
    PLACES[(moves + (dice >> 40) as Millis % 3).rem_euclid(3) as usize]
}

fn facts(account: &str, state: Option<Belonging>, at: Millis) -> AccountFacts {
    let location = place(account, at).map(str::to_owned);
    let profile = ProfileFacts { account: account.to_owned(), location, ..ProfileFacts::default() };
    AccountFacts { account: account.to_owned(), state, profile: Some(profile), ..AccountFacts::default() }
}

/// The settings of its only community.
static SETTINGS: LazyLock<Arc<Settings>> = LazyLock::new(|| Arc::new(settings()));

fn settings() -> Settings {
    let community = CommunitySettings {
        country: "PT".to_owned(),
        timelines: false,
        grow_every: Duration::from_secs(2),
        judge_again: AGAIN,
        ..CommunitySettings::default()
    };
    let mut settings = Settings::load_with(&[], None, &[]).unwrap();
    settings.communities.insert(NAME.to_owned(), community);
    settings
}

/// What is stored of an account.
#[derive(Debug, Clone)]
struct Row {
    state: Belonging,
    decided_at: Millis,
    judged_at: Option<Millis>,
    rule: Option<String>,
}

/// The stored accounts of the community, as both stores have them by their contract.
#[derive(Debug, Default)]
pub struct Rows(Mutex<BTreeMap<String, Row>>);

impl Rows {
    /// Accounts appear, often enough to be admitted.
    pub fn appear(&self, accounts: &[String], at: Millis) {
        let mut rows = self.0.lock().unwrap();
        for account in accounts {
            let seen = Row { state: Belonging::Seen, decided_at: at, judged_at: None, rule: None };
            rows.entry(account.clone()).or_insert(seen);
        }
    }

    fn those(&self, limit: u32, is: impl Fn(&Row) -> bool) -> Vec<String> {
        let rows = self.0.lock().unwrap();
        rows.iter().filter(|(_, row)| is(row)).map(|(account, _)| account.clone()).take(limit as usize).collect()
    }

    fn admit(&self, at: Millis, accounts: &[String]) {
        let mut rows = self.0.lock().unwrap();
        for account in accounts {
            if let Some(row) = rows.get_mut(account).filter(|row| row.state == Belonging::Seen) {
                *row = Row { state: Belonging::Candidate, decided_at: at, ..row.clone() };
            }
        }
    }

    /// An older judgement changes nothing, and one that was only seen is not judged.
    fn decide(&self, at: Millis, rule: &str, decisions: &[Decision]) {
        let mut rows = self.0.lock().unwrap();
        for Decision { account, state, .. } in decisions {
            let Some(row) = rows.get_mut(account).filter(|row| row.state != Belonging::Seen) else { continue };
            if row.judged_at.is_none_or(|judged_at| judged_at <= at) {
                let decided_at = if row.state == *state { row.decided_at } else { at };
                *row = Row { state: *state, decided_at, judged_at: Some(at), rule: Some(rule.to_owned()) };
            }
        }
    }
}

/// The stored community at the end of a process's way.
#[derive(Debug, Clone)]
pub struct Linked {
    way: Arc<Way>,
    world: Arc<World>,
}

impl Linked {
    async fn call<T: Send + 'static>(&self, of: impl FnOnce(&Rows) -> T + Send + 'static) -> Result<T, StoreError> {
        let world = self.world.clone();
        call_of_store(&self.way, async move { Ok(of(&world.community)) }).await
    }
}

fn rules() -> Arc<LiveRule> {
    let live: LiveSettings = Arc::new(|| SETTINGS.clone());
    Arc::new(LiveRule::new(NAME, live).unwrap())
}

fn collecting(communities: &Arc<Linked>, world: &World) -> Arc<Collector> {
    Arc::new(Collector {
        namespace: NAMESPACE.to_owned(),
        all: vec![NAMESPACE.to_owned()],
        targets: Vec::new(),
        follower: None,
        post_remover: None,
        communities: communities.clone(),
        save_timeout: world.setup.save_timeout,
        metrics: Arc::new(Metrics::new()),
    })
}

/// The handler of a process.
pub fn handler(parts: Parts<'_>, world: &Arc<World>, way: &Arc<Way>) -> ItemHandler<JudgementWork> {
    let communities = Arc::new(Linked { way: way.clone(), world: world.clone() });
    let work = JudgementWork {
        items: parts.items(),
        network: network_namespaces(&Provider::Twitter),
        live_rule: rules(),
        collector: collecting(&communities, world),
        communities,
        counters: Arc::default(),
    };
    ItemHandler(work)
}

/// The growth beside it, until it is stopped.
pub async fn grow(world: Arc<World>, way: Arc<Way>, stop: Stop) {
    let communities = Arc::new(Linked { way: way.clone(), world: world.clone() });
    let starter = world.starter(&way);
    let growing = GrowthTask {
        namespace: NAMESPACE.to_owned(),
        network: network_namespaces(&Provider::Twitter),
        live_rule: rules(),
        communities: communities.clone(),
        own: FanOutTarget::new(PipelineId::parse(NAMESPACE).unwrap(), starter.clone(), None),
        by_hand: ManualDecisions {
            namespace: NAMESPACE.to_owned(),
            store: Arc::new(LinkedStore { way, store: world.store.clone() }),
            communities: communities.clone(),
            starter,
        },
        lease: world.setup.claims.lease,
        collector: collecting(&communities, &world),
        counters: Arc::default(),
    };
    Arc::new(growing).run(stop).await;
}

/// Each account is as the rule says of where it was when it was last judged, and that is not long ago.
pub fn check(world: &World, ids: &[String]) {
    let (now, rows) = (world.now(), world.community.0.lock().unwrap());
    let rule = rules().current();
    for id in ids {
        let row = &rows[id];
        let says = |at: Millis| rule.judge(&facts(id, Some(row.state), at)).decision.state;
        let judged_at = row.judged_at.unwrap_or(0);
        let is_right = row.state == says(judged_at) || row.state == says(judged_at + READ_WITHIN);
        if !is_right || judged_at < now - JUDGED_WITHIN || row.rule.as_deref() != Some(rule.version()) {
            let places = (place(id, judged_at), place(id, judged_at + READ_WITHIN));
            world.log.wrong(format_args!("{id} is {row:?} at {now}, and was at {places:?}"));
        }
    }
}

#[async_trait]
impl Communities for Linked {
    async fn record_arrivals(
        &self,
        _: &str,
        _: Millis,
        _: &[FoundPost],
        _: &[Appearance],
        _: (&str, &[String]),
    ) -> Result<Vec<KnownAccount>, StoreError> {
        Ok(Vec::new())
    }

    async fn belonging(&self, _: &str, accounts: &[String]) -> Result<Vec<Option<Belonging>>, StoreError> {
        let accounts = accounts.to_vec();
        let state = |rows: &Rows, account: &String| rows.0.lock().unwrap().get(account).map(|row| row.state);
        self.call(move |rows| accounts.iter().map(|account| state(rows, account)).collect()).await
    }

    async fn admissible(&self, _: &str, _: Millis, _: &GrowthLimits, limit: u32) -> Result<Vec<String>, StoreError> {
        self.call(move |rows| rows.those(limit, |row| row.state == Belonging::Seen)).await
    }

    async fn admit(&self, _: &str, at: Millis, accounts: &[String]) -> Result<(), StoreError> {
        let accounts = accounts.to_vec();
        self.call(move |rows| rows.admit(at, &accounts)).await
    }

    async fn facts(
        &self,
        namespace: &str,
        _: NetworkPipelines<'_>,
        accounts: &[String],
        _: u32,
    ) -> Result<Vec<AccountFacts>, StoreError> {
        let states = self.belonging(namespace, accounts).await?;
        let read = accounts.iter().zip(states).map(|(account, state)| facts(account, state, self.world.now()));
        Ok(read.collect())
    }

    async fn save_decisions(&self, _: &str, at: Millis, rule: &str, decisions: &[Decision]) -> Result<(), StoreError> {
        let (rule, decisions) = (rule.to_owned(), decisions.to_vec());
        self.call(move |rows| rows.decide(at, &rule, &decisions)).await
    }

    async fn save_languages(&self, _: &str, _: &[PostLanguage]) -> Result<(), StoreError> {
        self.call(|_| ()).await
    }

    async fn unjudged_accounts(&self, _: &str, before: Millis, limit: u32) -> Result<Vec<String>, StoreError> {
        let waits = move |row: &Row| row.judged_at.is_none() && row.state != Belonging::Seen && row.decided_at < before;
        self.call(move |rows| rows.those(limit, waits)).await
    }

    async fn outdated_accounts(&self, _: &str, rule: &str, limit: u32) -> Result<Vec<String>, StoreError> {
        let rule = rule.to_owned();
        let is_older = move |row: &Row| {
            row.judged_at.is_some() && row.rule.as_ref() != Some(&rule) && row.state != Belonging::Seen
        };
        self.call(move |rows| rows.those(limit, is_older)).await
    }

    async fn size(&self, _: &str, _: Option<NetworkPipelines<'_>>, at: Millis) -> Result<CommunitySize, StoreError> {
        self.call(move |_| CommunitySize { at, ..CommunitySize::default() }).await
    }

    async fn save_size(&self, _: &str, _: &CommunitySize) -> Result<(), StoreError> {
        self.call(|_| ()).await
    }

    // Nobody decides by hand, nobody is followed, and what people look at is not asked for here.
    async fn save_hand_decisions(
        &self,
        _: &str,
        _: Millis,
        _: &str,
        _: &str,
        _: &[HandDecision],
    ) -> Result<(), StoreError> {
        Ok(())
    }

    async fn set_mark(&self, _: &str, _: &[String], _: FollowMark) -> Result<(), StoreError> {
        Ok(())
    }

    async fn accounts_with_mark(&self, _: &[String], _: &[String], _: FollowMark) -> Result<Vec<String>, StoreError> {
        Ok(Vec::new())
    }

    async fn find_unwanted_posts(
        &self,
        _: &UnwantedQuery<'_>,
        _: &[String],
        _: u32,
    ) -> Result<Vec<UnwantedPost>, StoreError> {
        Ok(Vec::new())
    }

    async fn past_sizes(&self, _: &str, _: Millis, _: u32) -> Result<Vec<CommunitySize>, StoreError> {
        Ok(Vec::new())
    }

    async fn community_account(&self, _: &str, _: &str) -> Result<Option<CommunityAccount>, StoreError> {
        Ok(None)
    }

    async fn belonging_changes(&self, _: &str, _: &str) -> Result<Vec<BelongingChange>, StoreError> {
        Ok(Vec::new())
    }

    async fn appearances(&self, _: &str, _: &str, _: u32) -> Result<Vec<StoredAppearance>, StoreError> {
        Ok(Vec::new())
    }

    async fn page_community(
        &self,
        _: &str,
        _: Belonging,
        _: &str,
        _: u32,
    ) -> Result<Vec<CommunityAccount>, StoreError> {
        Ok(Vec::new())
    }

    async fn near_misses(&self, _: &str, _: f64, _: u32) -> Result<Vec<CommunityAccount>, StoreError> {
        Ok(Vec::new())
    }

    async fn count_by_reason(&self, _: &str) -> Result<Vec<(String, String, i64)>, StoreError> {
        Ok(Vec::new())
    }
}
