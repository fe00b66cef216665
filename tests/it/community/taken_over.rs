//! A person follows an account in the middle of a community's step: it is that person's from then on.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use twitter_updater::base::clock::Millis;
use twitter_updater::base::reload::Reloadable;
use twitter_updater::config::CommunitySettings;
use twitter_updater::engine::metrics::Metrics;
use twitter_updater::ingest::Starter;
use twitter_updater::model::community::Belonging;
use twitter_updater::model::provider::Provider;
use twitter_updater::pipelines::community::collector::{Collector, WantedCollection};
use twitter_updater::pipelines::community::schedule::JudgementSchedule;
use twitter_updater::pipelines::visits::follow::{Follower, PartQueue};
use twitter_updater::providers::unreadable::UnreadableObject;
use twitter_updater::store::{Communities, FollowList, FollowMark, FollowedAccount, HandDecision, Part, StoreError};

use crate::support::visits::VISITS;
use crate::support::world::{Backends, World};

const COMMUNITY: &str = "community:twitter:pt";
const T: Millis = 1_700_000_000_000;
const PATIENCE: Duration = Duration::from_secs(30);

/// The list of followed accounts. Where it is told to, a person follows the accounts of the next step just before that step, or
/// between the list and the queues.
#[derive(Debug)]
struct Interrupted {
    followed: Arc<dyn FollowList>,
    communities: Arc<dyn Communities>,
    is_next: AtomicBool,
    person: Follower,
    is_between: AtomicBool,
}

impl Interrupted {
    /// As `accounts follow` does.
    async fn person(&self, accounts: &[String]) {
        if self.is_next.swap(false, Ordering::Relaxed) {
            let given: Vec<(String, Part)> = accounts.iter().map(|account| (account.clone(), 0)).collect();
            self.communities.set_mark(COMMUNITY, accounts, FollowMark::None).await.unwrap();
            self.followed.follow(VISITS, T + 1, &given).await.unwrap();
            self.communities.set_mark(COMMUNITY, accounts, FollowMark::None).await.unwrap();
        }
    }

    /// The list has said that nobody follows them, and the queues have them yet.
    async fn between(&self, accounts: &[String]) {
        if self.is_between.swap(false, Ordering::Relaxed) {
            assert_eq!(self.person.follow(T + 2, accounts).await.unwrap(), 0, "the queue has them");
        }
    }
}

#[async_trait]
impl FollowList for Interrupted {
    async fn follow(&self, of: &str, at: Millis, accounts: &[(String, Part)]) -> Result<Vec<Part>, StoreError> {
        self.followed.follow(of, at, accounts).await
    }

    async fn unfollow(&self, of: &str, at: Millis, accounts: &[String]) -> Result<Vec<(String, Part)>, StoreError> {
        let left = self.followed.unfollow(of, at, accounts).await?;
        self.between(accounts).await;
        Ok(left)
    }

    async fn follow_for_community(
        &self,
        of: &str,
        at: Millis,
        accounts: &[(String, Part)],
        community: &str,
        all: &[String],
    ) -> Result<Vec<String>, StoreError> {
        self.person(&accounts.iter().map(|(account, _)| account.clone()).collect::<Vec<_>>()).await;
        self.followed.follow_for_community(of, at, accounts, community, all).await
    }

    async fn unfollow_for_community(
        &self,
        of: &str,
        at: Millis,
        accounts: &[String],
        community: &str,
        all: &[String],
    ) -> Result<(), StoreError> {
        self.person(accounts).await;
        self.followed.unfollow_for_community(of, at, accounts, community, all).await
    }

    async fn followed(&self, of: &str, accounts: &[String]) -> Result<Vec<Option<Part>>, StoreError> {
        let parts = self.followed.followed(of, accounts).await?;
        self.between(accounts).await;
        Ok(parts)
    }

    async fn move_to_part(&self, of: &str, part: Part, accounts: &[String]) -> Result<(), StoreError> {
        self.followed.move_to_part(of, part, accounts).await
    }

    async fn end_visits(&self, of: &str, part: Part, account: &str) -> Result<(), StoreError> {
        self.followed.end_visits(of, part, account).await
    }

    async fn page_followed(&self, of: &str, above: &str, limit: u32) -> Result<Vec<FollowedAccount>, StoreError> {
        self.followed.page_followed(of, above, limit).await
    }
}

async fn taken_over(backends: Backends) {
    let folder = tempfile::tempdir().unwrap();
    let world = World::new(backends, folder.path(), "http://127.0.0.1:9").await;
    let (own, queue) = ([COMMUNITY.to_owned()], world.queue_of(folder.path(), VISITS).await);
    let ids_only = |_: &str| Err(UnreadableObject::NotAccepted);
    let schedule = Reloadable::new(JudgementSchedule { interval: PATIENCE });
    let starter = Starter::new(queue.clone(), Some(world.store.clone()), schedule, Arc::new(|_| Ok(None)), ids_only);
    let person = Follower {
        provider: Provider::Twitter,
        parts: vec![PartQueue { queue: queue.clone(), starter }],
        followed: world.followed.clone(),
    };
    let list = Arc::new(Interrupted {
        followed: world.followed.clone(),
        communities: world.communities.clone(),
        is_next: AtomicBool::new(false),
        person: person.clone(),
        is_between: AtomicBool::new(false),
    });
    let follower = Follower { followed: list.clone(), ..person };
    let collecting = Collector {
        namespace: COMMUNITY.to_owned(),
        all: own.to_vec(),
        targets: Vec::new(),
        follower: Some(follower.clone()),
        post_remover: None,
        communities: world.communities.clone(),
        save_timeout: PATIENCE,
        metrics: Arc::new(Metrics::new()),
    };
    // Its posts are wanted while it is a candidate, and not when it was decided against.
    let judged = async |account: &[String; 1], state: Belonging| {
        let wanted = WantedCollection { state, has_no_profile: false, wants_posts: state == Belonging::Candidate };
        let wanted = BTreeMap::from([(account[0].clone(), wanted)]);
        collecting.apply(&CommunitySettings::default(), &wanted, T).await.unwrap();
    };
    let is_followed = async |account: &[String; 1]| {
        let is_followed = world.followed.followed(VISITS, account).await.unwrap()[0].is_some();
        let is_queued = !queue.locate(account).await.unwrap()[0].is_empty();
        assert!(is_queued || !is_followed, "{account:?} is followed, and never visited");
        is_followed
    };
    let marked = async |account: &[String; 1], mark| {
        !world.communities.accounts_with_mark(&own, account, mark).await.unwrap().is_empty()
    };
    for account in ["left", "mine", "kept", "again"] {
        let decision = HandDecision { account: account.to_owned(), state: Belonging::Candidate };
        world.communities.save_hand_decisions(COMMUNITY, T, "me", "", &[decision]).await.unwrap();
    }

    let left = ["left".to_owned()];
    judged(&left, Belonging::Candidate).await;
    assert!(is_followed(&left).await && marked(&left, FollowMark::Follows).await);
    judged(&left, Belonging::Outside).await;
    assert!(!is_followed(&left).await && marked(&left, FollowMark::Left).await);

    // Before the community leaves it.
    let mine = ["mine".to_owned()];
    judged(&mine, Belonging::Candidate).await;
    list.is_next.store(true, Ordering::Relaxed);
    judged(&mine, Belonging::Outside).await;
    assert!(
        is_followed(&mine).await && !marked(&mine, FollowMark::Follows).await && !marked(&mine, FollowMark::Left).await
    );

    // Before the community, which follows it, follows it again.
    let kept = ["kept".to_owned()];
    judged(&kept, Belonging::Candidate).await;
    list.is_next.store(true, Ordering::Relaxed);
    judged(&kept, Belonging::Candidate).await;
    assert!(is_followed(&kept).await && !marked(&kept, FollowMark::Follows).await);
    judged(&kept, Belonging::Outside).await;
    assert!(is_followed(&kept).await);

    // After the list, before the queue: of a community that leaves it, and of somebody else.
    let again = ["again".to_owned()];
    judged(&again, Belonging::Candidate).await;
    list.is_between.store(true, Ordering::Relaxed);
    judged(&again, Belonging::Outside).await;
    assert!(is_followed(&again).await);
    list.is_between.store(true, Ordering::Relaxed);
    follower.unfollow(T + 3, &again).await.unwrap();
    assert!(is_followed(&again).await);
}

#[tokio::test]
async fn who_is_followed_by_a_person_meanwhile_stays_embedded() {
    taken_over(Backends { redis: false, postgres: false }).await;
}

#[tokio::test]
async fn who_is_followed_by_a_person_meanwhile_stays_on_postgres() {
    taken_over(Backends { redis: false, postgres: true }).await;
}
