//! Communities: what is seen, judged and decided, in every backend.

mod plans;

use std::sync::Arc;

use twitter_updater::model::account::Account;
use twitter_updater::model::community::Belonging;
use twitter_updater::model::post::{ItemState, Tweet};
use twitter_updater::store::{
    Appearance, Communities, Decision, Finding, FollowList, FollowMark, Forgetting, FoundPost, GrowthLimits,
    HandDecision, NetworkPipelines, NewItem, Observation, Positions, PostLanguage, Reason, SavedPage, Sighting, Store,
    UnwantedPost, UnwantedQuery, Way,
};

use super::{T, open_postgres};
use crate::support::postgres;

const COMMUNITY: &str = "community:twitter:pt";
const POSTS: &str = "tweet:update";
const OTHER: &str = "community:twitter:other";
const VISITS: &str = "visits:twitter";
const PROFILES: &str = "profiles:twitter";
const OF: NetworkPipelines<'static> = NetworkPipelines { posts: POSTS, profiles: PROFILES, friends: "friends:twitter" };
const DAY: i64 = 86_400_000;
const FREE: GrowthLimits = GrowthLimits { appearances: 2, new_a_day: 1_000, share_a_day: 1_000.0, most: 1_000 };

struct Both {
    communities: Arc<dyn Communities>,
    store: Arc<dyn Store>,
    followed: Arc<dyn FollowList>,
    positions: Arc<dyn Positions>,
    forgetting: Arc<dyn Forgetting>,
}

impl<S: Communities + Store + FollowList + Positions + Forgetting + 'static> From<Arc<S>> for Both {
    fn from(store: Arc<S>) -> Self {
        let (followed, positions, forgetting) = (store.clone(), store.clone(), store.clone());
        Self { communities: store.clone(), store, followed, positions, forgetting }
    }
}

fn appeared(account: &str, source: &str, reason: Reason) -> Appearance {
    Appearance { account: account.into(), source: source.into(), reason, post: Some(format!("p{source}")) }
}

fn found(post: &str, author: &str) -> FoundPost {
    FoundPost { post: post.into(), author: author.into() }
}

fn by_hand(account: &str, state: Belonging) -> HandDecision {
    HandDecision { account: account.into(), state }
}

fn decision(account: &str, state: Belonging, score: f64, posts: i64) -> Decision {
    Decision { account: account.into(), state, score: Some(score), evidence: "[]".into(), posts }
}

async fn states(of: &Both, accounts: &[&str]) -> Vec<Option<Belonging>> {
    let accounts: Vec<String> = accounts.iter().map(|id| (*id).to_owned()).collect();
    of.communities.belonging(COMMUNITY, &accounts).await.unwrap()
}

fn observation<T>(id: &str, at: i64, item: T) -> Observation<T> {
    Observation {
        id: id.into(),
        answered_at: at,
        finding: Finding::Found(item),
        state: ItemState::Live,
        next_due: Some(at + 1_000),
        follow: None,
        forget: false,
        recent: None,
    }
}

/// Accounts that members show are seen, by distinct members; those of others are not; calls may be repeated.
async fn growth(of: &Both) {
    let seeds = [by_hand("m1", Belonging::Member), by_hand("m2", Belonging::Member)];
    for _ in 0..2 {
        of.communities.save_hand_decisions(COMMUNITY, T, "ann", "seeds", &seeds).await.unwrap();
        let shown = [
            appeared("a", "m1", Reason::Mentioned),
            appeared("a", "m1", Reason::Reposted),
            appeared("a", "m2", Reason::Mentioned),
            appeared("b", "m1", Reason::Mentioned),
            appeared("c", "stranger", Reason::Mentioned),
            appeared("m1", "m2", Reason::Follower),
            appeared("m1", "m1", Reason::Mentioned),
        ];
        let known = of.communities.record_arrivals(COMMUNITY, T + 1, &[], &shown, (POSTS, &[])).await.unwrap();
        assert!(known.is_empty());
    }
    use Belonging::{Member, Seen as IsSeen};
    assert_eq!(states(of, &["a", "b", "c", "m1"]).await, [Some(IsSeen), Some(IsSeen), None, Some(Member)]);
    let a = of.communities.community_account(COMMUNITY, "a").await.unwrap().unwrap();
    assert_eq!((a.appearances, a.first_at, a.judged_at), (2, T + 1, None), "two members, three appearances");
    let led = of.communities.appearances(COMMUNITY, "a", 10).await.unwrap();
    assert_eq!(led.len(), 3);
    // Of the two only one appeared often enough; then the caps.
    let admissible =
        async |at, growth: GrowthLimits| of.communities.admissible(COMMUNITY, at, &growth, 10).await.unwrap();
    assert_eq!(admissible(T + 2, FREE).await, ["a"]);
    let one = GrowthLimits { appearances: 1, ..FREE };
    assert_eq!(admissible(T + 2, one).await, ["a", "b"], "those with most appearances first");
    assert_eq!(admissible(T + 2, GrowthLimits { new_a_day: 3, ..one }).await, ["a"], "two seeds came today");
    assert_eq!(admissible(T + 2, GrowthLimits { most: 2, ..one }).await, Vec::<String>::new());
    for _ in 0..2 {
        of.communities.admit(COMMUNITY, T + 2, &["a".to_owned(), "nobody".to_owned()]).await.unwrap();
    }
    assert_eq!(states(of, &["a", "nobody"]).await, [Some(Belonging::Candidate), None]);
    assert_eq!(admissible(T + 3, GrowthLimits { new_a_day: 3, ..one }).await, Vec::<String>::new());
    assert_eq!(
        admissible(T + 2 * DAY, GrowthLimits { new_a_day: 3, ..one }).await,
        ["b"],
        "a day later there is room again"
    );
}

/// The rule decides, a person's decision stays, each change is kept, and an older judgement changes nothing.
async fn decisions(of: &Both) {
    let decide =
        async |at, decision: Decision| of.communities.save_decisions(COMMUNITY, at, "r1", &[decision]).await.unwrap();
    decide(T + 10, decision("a", Belonging::Member, 0.9, 40)).await;
    decide(T + 9, decision("a", Belonging::Outside, -0.9, 30)).await;
    decide(T + 11, decision("b", Belonging::Outside, -0.9, 1)).await;
    decide(T + 11, decision("m1", Belonging::Outside, -0.7, 5)).await;
    let of_a = of.communities.community_account(COMMUNITY, "a").await.unwrap().unwrap();
    assert_eq!((of_a.state, of_a.score, of_a.judged_at), (Belonging::Member, Some(0.9), Some(T + 10)));
    let m1 = of.communities.community_account(COMMUNITY, "m1").await.unwrap().unwrap();
    assert_eq!((m1.state, m1.by_hand.as_deref(), m1.score), (Belonging::Member, Some("ann"), Some(-0.7)));
    assert_eq!(states(of, &["b"]).await, [Some(Belonging::Seen)], "one that was only seen is not judged");
    let changes = async |account: &str| {
        let all = of.communities.belonging_changes(COMMUNITY, account).await.unwrap();
        all.into_iter().map(|of| (of.old_state, of.new_state, of.by_hand)).collect::<Vec<_>>()
    };
    let text = |word: &str| Some(word.to_owned());
    assert_eq!(
        changes("a").await,
        [(text("seen"), "candidate".to_owned(), None), (text("candidate"), "member".to_owned(), None)]
    );
    assert_eq!(changes("m1").await, [(None, "member".to_owned(), text("ann"))]);
    // One who confirms it is named, and it holds since it was decided first.
    of.communities
        .save_hand_decisions(COMMUNITY, T + 15, "bob", "", &[by_hand("m1", Belonging::Member)])
        .await
        .unwrap();
    let m1 = of.communities.community_account(COMMUNITY, "m1").await.unwrap().unwrap();
    assert_eq!((m1.by_hand.as_deref(), m1.decided_at), (Some("bob"), T));
    assert_eq!(changes("m1").await.len(), 1);
    // Back to the rule.
    of.communities
        .save_hand_decisions(COMMUNITY, T + 20, "bob", "", &[by_hand("m1", Belonging::Candidate)])
        .await
        .unwrap();
    decide(T + 21, decision("m1", Belonging::Outside, -0.7, 5)).await;
    let m1 = of.communities.community_account(COMMUNITY, "m1").await.unwrap().unwrap();
    assert_eq!((m1.state, m1.by_hand, m1.decided_at), (Belonging::Outside, None, T + 21));
    assert_eq!(of.communities.outdated_accounts(COMMUNITY, "r1", 10).await.unwrap(), Vec::<String>::new());
    let mut outdated = of.communities.outdated_accounts(COMMUNITY, "r2", 10).await.unwrap();
    outdated.sort();
    assert_eq!(outdated, ["a", "m1"]);
    decide(T + 22, decision("a", Belonging::Open, 0.41, 40)).await;
    let near = of.communities.near_misses(COMMUNITY, 0.5, 10).await.unwrap();
    assert_eq!(near.iter().map(|of| &*of.account).collect::<Vec<_>>(), ["a"]);
    let size = of.communities.size(COMMUNITY, Some(OF), T + 30).await.unwrap();
    assert_eq!((size.members, size.open, size.outside, size.seen, size.candidates), (1, 1, 1, 1, 0), "{size:?}");
    of.communities.save_size(COMMUNITY, &size).await.unwrap();
    of.communities.save_size(COMMUNITY, &size).await.unwrap();
    assert_eq!(of.communities.past_sizes(COMMUNITY, 0, 10).await.unwrap(), [size]);
    let reasons = of.communities.count_by_reason(COMMUNITY).await.unwrap();
    assert!(reasons.contains(&("mentioned".to_owned(), "open".to_owned(), 1)), "{reasons:?}");
    let members = of.communities.page_community(COMMUNITY, Belonging::Member, "", 10).await.unwrap();
    assert_eq!(members.iter().map(|of| &*of.account).collect::<Vec<_>>(), ["m2"]);
}

/// Profile and newest texts of an account, without those that it repeats; posts are counted.
async fn facts(of: &Both) {
    let new = |id: &str| NewItem { id: id.into(), created_at: None, next_due: Some(T), content: None, read_at: None };
    of.store.record(PROFILES, T, &Way::new("enqueue"), &[new("a")]).await.unwrap();
    let account = Account {
        id: "a".into(),
        location: Some("Lisboa".into()),
        display_name: Some("Ann".into()),
        description: Some("olá".into()),
        raw: "{}".into(),
        ..Account::default()
    };
    of.store.save_accounts(PROFILES, &[observation("a", T + 1, account)]).await.unwrap();
    let post = |number: i64| Tweet {
        id: format!("{number}"),
        text: Some(format!("texto {number}")),
        author_id: Some("a".into()),
        raw: "{}".into(),
        ..Tweet::default()
    };
    let mut posts: Vec<_> = (1..=5).map(|number| observation(&number.to_string(), T + number, post(number))).collect();
    if let Finding::Found(repeated) = &mut posts[4].finding {
        repeated.details.retweet_of = Some("77".into());
    }
    // Bluesky shows a repost as the post that it repeats.
    posts.push(observation("6", T + 6, Tweet { author_id: Some("other".into()), ..post(6) }));
    of.store.save(POSTS, &posts).await.unwrap();
    let sightings: Vec<_> =
        (1..=6).map(|at| Sighting { account: "a".into(), post: at.to_string(), at: T + at }).collect();
    of.store.record_sightings(PROFILES, &sightings).await.unwrap();
    let before = of.communities.facts(COMMUNITY, OF, &["a".to_owned()], 0).await.unwrap()[0].posts;
    let found: Vec<_> = (1..=3).map(|number: i64| found(&number.to_string(), "a")).collect();
    let known = of.communities.record_arrivals(COMMUNITY, T + 40, &found, &[], (POSTS, &[])).await.unwrap();
    assert_eq!((known.len(), &*known[0].account, known[0].is_judged), (1, "a", true));
    let asked = ["nobody".to_owned(), "a".to_owned()];
    let facts = of.communities.facts(COMMUNITY, OF, &asked, 4).await.unwrap();
    assert_eq!((facts[0].state, facts[0].profile.is_none(), facts[0].texts.len()), (None, true, 0));
    let a = &facts[1];
    assert_eq!(a.posts, before + 3);
    assert_eq!(a.profile.as_ref().unwrap().location.as_deref(), Some("Lisboa"));
    assert_eq!(a.profile.as_ref().unwrap().name.as_deref(), Some("Ann"));
    let mut texts: Vec<&str> = a.texts.iter().map(|text| text.text.as_str()).collect();
    texts.sort_unstable();
    assert_eq!(texts, ["texto 3", "texto 4"], "the newest four, without the repeated ones");
    let language = |id: &str| PostLanguage { id: id.into(), language: "pt", confidence: 0.9 };
    for _ in 0..2 {
        of.communities.save_languages(POSTS, &[language("3"), language("4")]).await.unwrap();
    }
    assert!(facts[1].friends == (0, 0));
}

/// The authors of posts that a search found are seen, each post once.
async fn searches(of: &Both) {
    let new = |id: &str| NewItem { id: id.into(), created_at: None, next_due: Some(T), content: None, read_at: None };
    let by = |source: &str| Way { source: source.into(), ..Way::new("poll") };
    of.store.record(POSTS, T, &by("lisboa"), &[new("s1"), new("s2")]).await.unwrap();
    of.store.record(POSTS, T, &by("other"), &[new("s3")]).await.unwrap();
    let posts = [found("s1", "author"), found("s2", "author"), found("s3", "else")];
    for _ in 0..2 {
        of.communities.record_arrivals(COMMUNITY, T, &posts, &[], (POSTS, &["lisboa".to_owned()])).await.unwrap();
    }
    assert_eq!(states(of, &["author", "else"]).await, [Some(Belonging::Seen), None]);
    let author = of.communities.community_account(COMMUNITY, "author").await.unwrap().unwrap();
    assert_eq!(author.appearances, 2);
}

/// Marks of what is followed for a community's sake.
async fn marks(of: &Both) {
    let (a, all) = (["a".to_owned(), "nobody".to_owned()], [COMMUNITY.to_owned(), OTHER.to_owned()]);
    for mark in [FollowMark::Follows, FollowMark::Left, FollowMark::None] {
        of.communities.set_mark(COMMUNITY, &a, mark).await.unwrap();
        for asked in [FollowMark::Follows, FollowMark::Left] {
            let expected: &[&str] = if asked == mark { &["a"] } else { &[] };
            assert_eq!(
                of.communities.accounts_with_mark(&all, &a, asked).await.unwrap(),
                expected,
                "{asked:?} of {mark:?}"
            );
        }
        assert_eq!(of.communities.accounts_with_mark(&all[1..], &a, mark).await.unwrap(), Vec::<String>::new());
    }
    of.communities.set_mark(COMMUNITY, &a, FollowMark::Left).await.unwrap();
    let left = of.communities.accounts_with_mark(&all, &a, FollowMark::Left).await.unwrap();
    assert_eq!(left, Vec::<String>::new(), "only what was followed for its sake is left");
}

/// Communities share what they follow, and what a person follows is none's.
async fn sakes(of: &Both) {
    let all = [COMMUNITY.to_owned(), OTHER.to_owned()];
    let known = [by_hand("a", Belonging::Candidate), by_hand("b", Belonging::Candidate)];
    of.communities.save_hand_decisions(OTHER, T, "ann", "", &known).await.unwrap();
    let given = [("a".to_owned(), 1), ("b".to_owned(), 0), ("nobody".to_owned(), 0)];
    let ids = given.clone().map(|(id, _)| id);
    let follow_for_community = async |community: &str| {
        let mut ours = of.followed.follow_for_community(VISITS, T, &given, community, &all).await.unwrap();
        ours.sort();
        ours
    };
    let unfollow_for_community = async |community: &str| {
        of.followed.unfollow_for_community(VISITS, T + 1, &ids, community, &all).await.unwrap();
    };
    let followed = async || of.followed.followed(VISITS, &ids).await.unwrap();
    assert_eq!(follow_for_community(COMMUNITY).await, ["a", "b"]);
    assert_eq!(followed().await, [Some(1), Some(0), None]);
    let mut marked = of.communities.accounts_with_mark(&all[..1], &ids, FollowMark::Follows).await.unwrap();
    marked.sort();
    assert_eq!(marked, ["a", "b"]);
    // A person follows one of them.
    of.communities.set_mark(COMMUNITY, &ids[..1], FollowMark::None).await.unwrap();
    for community in [OTHER, COMMUNITY] {
        assert_eq!(follow_for_community(community).await, ["b"], "{community}");
    }
    assert_eq!(of.communities.accounts_with_mark(&all, &ids, FollowMark::Follows).await.unwrap(), ["b", "b"]);
    unfollow_for_community(COMMUNITY).await;
    assert_eq!(followed().await, [Some(1), Some(0), None], "the other one needs it");
    of.communities.set_mark(COMMUNITY, &ids, FollowMark::Left).await.unwrap();
    unfollow_for_community(COMMUNITY).await;
    assert_eq!(followed().await, [Some(1), Some(0), None], "it is not the one that follows");
    for _ in 0..2 {
        unfollow_for_community(OTHER).await;
        assert_eq!(followed().await, [Some(1), None, None]);
    }
    assert_eq!(of.communities.accounts_with_mark(&all, &ids, FollowMark::Follows).await.unwrap(), ["b"], "marks stay");
    // Again: it is followed by nobody.
    assert_eq!(follow_for_community(COMMUNITY).await, ["b"]);
    assert_eq!(followed().await, [Some(1), Some(0), None]);
}

/// Posts of accounts that were decided against are not wanted where visits alone brought them; nobody else's are, nor those that
/// somebody else may want.
async fn unwanted(of: &Both) {
    let people = ["against", "was_member", "followed", "elsewhere", "candidate"].map(str::to_owned);
    let new = |id: &str| NewItem { id: id.into(), created_at: None, next_due: Some(T), content: None, read_at: None };
    let all: Vec<_> = people.iter().map(|id| new(id)).collect();
    of.store.record(PROFILES, T, &Way::new("enqueue"), &all).await.unwrap();
    // A decision dates its change, so each at a time of its own.
    for (at, state) in [(T + 1, Belonging::Member), (T + 2, Belonging::Outside)] {
        of.communities.save_hand_decisions(COMMUNITY, at, "me", "", &[by_hand("was_member", state)]).await.unwrap();
    }
    let outside: Vec<_> =
        ["against", "followed", "elsewhere"].map(|id| by_hand(id, Belonging::Outside)).into_iter().collect();
    of.communities.save_hand_decisions(COMMUNITY, T + 2, "me", "", &outside).await.unwrap();
    of.communities
        .save_hand_decisions(COMMUNITY, T + 2, "me", "", &[by_hand("candidate", Belonging::Candidate)])
        .await
        .unwrap();
    of.communities.save_hand_decisions(OTHER, T + 2, "me", "", &[by_hand("elsewhere", Belonging::Open)]).await.unwrap();
    of.followed.follow(VISITS, T, &[("followed".to_owned(), 0), ("against".to_owned(), 0)]).await.unwrap();
    let page = SavedPage {
        at: T,
        position: "7",
        is_start: false,
        gaps: &[],
        has_new_posts: true,
        notes: None,
        followed_at: Some(T),
    };
    for account in ["against", "followed"] {
        of.positions.save_page(VISITS, account, &page).await.unwrap();
    }
    of.followed.unfollow(VISITS, T + 2, &["against".to_owned()]).await.unwrap();

    let ways = |ways: &'static [(&'static str, &'static str)]| ways;
    let posts = [
        ("u1", "against", ways(&[("visit", "against")]), T),
        ("u2", "against", ways(&[("visit", "against"), ("enqueue", "file")]), T),
        ("u3", "against", ways(&[("visit", "followed")]), T),
        // What a lookup put back after it was dropped, and what was there before ways were recorded.
        ("u4", "against", ways(&[]), T + 5),
        ("u5", "against", ways(&[]), T),
        ("u6", "was_member", ways(&[("visit", "was_member")]), T),
        ("u7", "followed", ways(&[("visit", "followed")]), T),
        ("u8", "elsewhere", ways(&[("visit", "elsewhere")]), T),
        ("u9", "candidate", ways(&[("visit", "candidate")]), T),
        // A repost, by which the account shows a post of another one.
        ("v1", "followed", ways(&[("visit", "against")]), T),
        ("v2", "nobody", ways(&[("visit", "against")]), T),
    ];
    for (post, author, ways, at) in posts {
        for (pipeline, source) in ways {
            let way = Way { source: (*source).into(), ..Way::new(pipeline) };
            of.store.record(POSTS, at, &way, &[new(post)]).await.unwrap();
        }
        let item = Tweet { id: post.into(), author_id: Some(author.into()), raw: "{}".into(), ..Tweet::default() };
        of.store.save(POSTS, &[observation(post, at, item)]).await.unwrap();
        let account = if post.starts_with('v') { "against" } else { author };
        let sighting = Sighting { account: account.into(), post: post.into(), at };
        of.store.record_sightings(PROFILES, &[sighting]).await.unwrap();
    }
    let others = [OTHER.to_owned()];
    let asked =
        UnwantedQuery { namespace: COMMUNITY, posts: POSTS, profiles: PROFILES, visits: VISITS, others: &others };
    let found = of.communities.find_unwanted_posts(&asked, &people, 10).await.unwrap();
    let mut found: Vec<_> = found.iter().map(|of| (&*of.account, &*of.post)).collect();
    found.sort_unstable();
    assert_eq!(found, [("against", "u1"), ("against", "u4"), ("against", "v2")]);
    assert_eq!(of.communities.find_unwanted_posts(&asked, &people, 1).await.unwrap().len(), 1);
    assert_eq!(of.communities.find_unwanted_posts(&asked, &people[1..], 10).await.unwrap(), []);

    let position = async |account: &str| of.positions.saved_source(VISITS, account).await.unwrap().position;
    assert!(position("against").await.is_some() && position("followed").await.is_some());
    let collected = async || of.store.account(PROFILES, "against").await.unwrap().unwrap().collected;
    let before = collected().await;
    // Those that were unwanted when they were asked for, and two of an account that is followed meanwhile.
    let given = [("against", "u1"), ("against", "u4"), ("followed", "u7"), ("against", "v1"), ("against", "v2")];
    let unwanted = given.map(|(account, post)| UnwantedPost { account: account.into(), post: post.into() });
    let removed = of.forgetting.drop_posts(POSTS, VISITS, &unwanted).await.unwrap();
    // An author's posts are removed from its list; a repost stays in that of the account which showed it.
    assert_eq!((removed.0["tweet"], removed.0["account_post"], removed.0["tweet_way"]), (3, 2, 2), "{removed:?}");
    assert_eq!(collected().await, before - 2);
    assert_eq!((position("against").await, position("followed").await.as_deref()), (None, Some("7")));
    let kept = of.store.standing(POSTS, &given.map(|(_, post)| post.to_owned())).await.unwrap();
    assert_eq!(kept.iter().map(Option::is_some).collect::<Vec<_>>(), [false, false, true, true, false]);
    assert_eq!(of.communities.find_unwanted_posts(&asked, &people, 10).await.unwrap(), []);
    assert_eq!(of.forgetting.drop_posts(POSTS, VISITS, &unwanted).await.unwrap().items(), 0);
}

/// A profile that its owner has deleted is quoted by no judgement of its network any more.
async fn quotes(of: &Both) {
    let elsewhere = "community:bluesky:pt";
    for namespace in [COMMUNITY, OTHER, elsewhere] {
        let members = ["quoted", "stays"].map(|account| by_hand(account, Belonging::Member));
        of.communities.save_hand_decisions(namespace, T, "ann", "", &members).await.unwrap();
        let decisions = ["quoted", "stays"].map(|account| decision(account, Belonging::Member, 0.9, 1));
        of.communities.save_decisions(namespace, T + 1, "r1", &decisions).await.unwrap();
    }
    let location = Some("Porto".into());
    let profile = Account { id: "quoted".into(), location, raw: "{}".into(), ..Account::default() };
    of.store.save_accounts(PROFILES, &[observation("quoted", T + 2, profile)]).await.unwrap();
    let evidence = async |namespace: &str, account: &str| {
        of.communities.community_account(namespace, account).await.unwrap().unwrap().evidence
    };
    let gone = |at, forget| Observation {
        finding: Finding::Missing { misses: 1, since: T, reason: None, handle: None },
        state: ItemState::Unavailable,
        forget,
        ..observation("quoted", at, Account::default())
    };
    // Not believed yet; and one that is older than what is stored.
    for (at, forget) in [(T + 3, false), (T + 1, true)] {
        of.store.save_accounts(PROFILES, &[gone(at, forget)]).await.unwrap();
        assert!(evidence(COMMUNITY, "quoted").await.is_some());
    }
    of.store.save_accounts(PROFILES, &[gone(T + 4, true)]).await.unwrap();
    for (namespace, account, is_kept) in [
        (COMMUNITY, "quoted", false),
        (OTHER, "quoted", false),
        (elsewhere, "quoted", true),
        (COMMUNITY, "stays", true),
    ] {
        assert_eq!(evidence(namespace, account).await.is_some(), is_kept, "{namespace} {account}");
    }
    let quoted = of.communities.community_account(COMMUNITY, "quoted").await.unwrap().unwrap();
    assert_eq!((quoted.score, quoted.parse_evidence()), (Some(0.9), Vec::new()));
}

async fn all(of: &Both) {
    growth(of).await;
    decisions(of).await;
    facts(of).await;
    searches(of).await;
    marks(of).await;
    sakes(of).await;
    unwanted(of).await;
    quotes(of).await;
}

#[tokio::test]
async fn a_community_on_sqlite() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tweets.db");
    let store = Arc::new(twitter_updater::store::SqliteStore::open(&file, super::PATIENCE).await.unwrap());
    twitter_updater::store::Lifecycle::migrate(&*store).await.unwrap();
    all(&store.into()).await;
}

#[tokio::test]
async fn a_community_on_postgres() {
    let store = Arc::new(open_postgres(&postgres::database().await).await);
    twitter_updater::store::Lifecycle::migrate(&*store).await.unwrap();
    all(&store.into()).await;
}
