//! Communities: the accounts that each community sees, their appearances, and the decisions about them.
//!
//! `namespace` is the pipeline of a community (`community:twitter:pt-pt`). A judged account also has a row in `tweet`, which
//! holds its life. All statements are set-based: one statement per batch of posts, regardless of the number of accounts.

use std::collections::HashMap;

use async_trait::async_trait;
use serde::Serialize;

use super::Result;
use super::rows::clean;
use engine::base::clock::Millis;
use networks::model::community::{Belonging, EvidenceItem};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Reason {
    /// A member's post mentions the account or replies to it.
    Mentioned,
    /// A member reposts the account.
    Reposted,
    /// The account follows a member.
    Follower,
    /// A member follows the account.
    Friend,
}

impl Reason {
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Mentioned => "mentioned",
            Self::Reposted => "reposted",
            Self::Follower => "follower",
            Self::Friend => "friend",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Appearance {
    pub account: String,
    pub source: String,
    pub reason: Reason,
    pub post: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct FoundPost {
    pub post: String,
    pub author: String,
}

#[derive(Debug, Clone, PartialEq, Eq, sqlx_macros::FromRow)]
pub struct KnownAccount {
    pub account: String,
    pub state: Belonging,
    pub new_posts: i64,
    pub is_judged: bool,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GrowthLimits {
    /// Appearances that make an account a candidate.
    pub appearances: u32,
    /// Largest number of new candidates per day.
    pub new_a_day: u64,
    /// Largest number of new candidates per day as a multiple of the number of members, but never below 100. The lower limit applies.
    pub share_a_day: f64,
    /// Largest number of accounts that were ever candidates.
    pub most: u64,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct AccountFacts {
    pub account: String,
    pub state: Option<Belonging>,
    pub is_by_hand: bool,
    pub posts: i64,
    pub profile: Option<ProfileFacts>,
    /// Texts of its newest stored posts, without reposts.
    pub texts: Vec<PostText>,
    /// Friends that are members, and friends that are decided against, as far as its list was read.
    pub friends: (i64, i64),
}

#[derive(Debug, Clone, Default, PartialEq, Eq, sqlx_macros::FromRow)]
pub struct ProfileFacts {
    pub account: String,
    /// State in the network's words.
    pub state: Option<String>,
    pub name: Option<String>,
    pub location: Option<String>,
    pub description: Option<String>,
    pub protected: Option<bool>,
    pub posts: Option<i64>,
}

#[derive(Debug, Clone, PartialEq, Eq, sqlx_macros::FromRow)]
pub struct PostText {
    pub account: String,
    pub id: String,
    pub text: String,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Decision {
    pub account: String,
    pub state: Belonging,
    /// -1 to 1; `None` if nothing is known.
    pub score: Option<f64>,
    /// Findings of the tests of the community's rule, as JSON.
    pub evidence: String,
    /// Number of known posts at that time ([`AccountFacts::posts`]).
    pub posts: i64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HandDecision {
    pub account: String,
    /// State from now on; [`Belonging::Candidate`] returns the decision to the rule.
    pub state: Belonging,
}

#[derive(Debug, Clone, PartialEq)]
pub struct PostLanguage {
    pub id: String,
    /// ISO 639-1.
    pub language: &'static str,
    /// 0 to 1.
    pub confidence: f64,
}

#[derive(Debug, Clone, PartialEq, Serialize, sqlx_macros::FromRow)]
pub struct CommunityAccount {
    pub account: String,
    pub state: Belonging,
    pub first_at: Millis,
    pub admitted_at: Option<Millis>,
    pub decided_at: Millis,
    /// Number of members and posts of searches that led to it.
    pub appearances: i64,
    pub posts: i64,
    pub judged_at: Option<Millis>,
    pub rule: Option<String>,
    /// -1 to 1.
    pub score: Option<f64>,
    pub evidence: Option<String>,
    pub by_hand: Option<String>,
    pub why: Option<String>,
}

impl CommunityAccount {
    /// Results of the tests at the last judgement; empty before it.
    #[must_use]
    pub fn parse_evidence(&self) -> Vec<EvidenceItem> {
        let evidence = self.evidence.as_deref();
        evidence.and_then(|evidence| serde_json::from_str(evidence).ok()).unwrap_or_default()
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, sqlx_macros::FromRow)]
pub struct BelongingChange {
    pub at: Millis,
    /// `None` if it was unknown before.
    pub old_state: Option<String>,
    pub new_state: String,
    pub rule: Option<String>,
    pub by_hand: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, sqlx_macros::FromRow)]
pub struct StoredAppearance {
    /// Id of the member, or of the post that a search found.
    pub source: String,
    /// Word of its `Reason`, or `search`.
    pub reason: String,
    pub post: Option<String>,
    pub first_at: Millis,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, sqlx_macros::FromRow)]
pub struct CommunitySize {
    pub at: Millis,
    pub seen: i64,
    pub candidates: i64,
    pub open: i64,
    pub members: i64,
    pub outside: i64,
    /// Stored posts of the network. In a stored size: the last count, or 0 if counting took too long.
    pub posts: i64,
    /// Known follows; the same rule for a stored size.
    pub edges: i64,
}

#[derive(Debug, Clone, Copy)]
pub struct NetworkPipelines<'a> {
    pub posts: &'a str,
    pub profiles: &'a str,
    pub friends: &'a str,
}

/// Follow mark of an account in a community: the column `follows`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FollowMark {
    /// The community does not need its posts.
    None = 0,
    /// The community follows it.
    Follows = 1,
    /// The community decided against it and unfollowed it. Its posts are dropped.
    Left = 2,
}

/// Search for posts that a community no longer wants: they came only by visits to an account. The account never was a
/// member, and is no candidate, undecided account or member of another community. Neither the account nor the author of
/// the post is followed (a repost has another author).
#[derive(Debug, Clone, Copy)]
pub struct UnwantedQuery<'a> {
    pub namespace: &'a str,
    pub posts: &'a str,
    pub profiles: &'a str,
    /// Pipeline of its visits, without a part.
    pub visits: &'a str,
    pub others: &'a [String],
}

#[derive(Debug, Clone, PartialEq, Eq, sqlx_macros::FromRow)]
pub struct UnwantedPost {
    pub account: String,
    pub post: String,
}

/// The records of communities. Errors are those of [`Lifecycle`](super::Lifecycle). Times are ms since the epoch. A
/// caller may repeat every call.
#[async_trait]
pub trait Communities: Send + Sync + std::fmt::Debug {
    /// Stores found posts and appearances. Counts the posts of known accounts, and records accounts that members show and
    /// authors of posts from one of the `searches` as seen. Returns the known authors. A repeated call may count posts twice.
    async fn record_arrivals(
        &self,
        namespace: &str,
        at: Millis,
        found: &[FoundPost],
        appeared: &[Appearance],
        searches: (&str, &[String]),
    ) -> Result<Vec<KnownAccount>>;

    /// Returns the state of each account, in the order of `accounts`; `None` if the community does not know it.
    async fn belonging(&self, namespace: &str, accounts: &[String]) -> Result<Vec<Option<Belonging>>>;

    /// Returns up to `limit` accounts that may become candidates now, those with most appearances first.
    async fn admissible(&self, namespace: &str, at: Millis, growth: &GrowthLimits, limit: u32) -> Result<Vec<String>>;

    async fn admit(&self, namespace: &str, at: Millis, accounts: &[String]) -> Result<()>;

    /// Returns the facts of accounts to judge, in the order of `accounts`, each with up to `texts` posts.
    async fn facts(
        &self,
        namespace: &str,
        of: NetworkPipelines<'_>,
        accounts: &[String],
        texts: u32,
    ) -> Result<Vec<AccountFacts>>;

    /// Stores decisions of a version of the rule. If a person has decided, only the state stays.
    async fn save_decisions(&self, namespace: &str, at: Millis, rule: &str, decisions: &[Decision]) -> Result<()>;

    /// Stores decisions of a person, with name and reason. Adds unknown accounts.
    async fn save_hand_decisions(
        &self,
        namespace: &str,
        at: Millis,
        who: &str,
        why: &str,
        decisions: &[HandDecision],
    ) -> Result<()>;

    /// Stores whether accounts are followed for this community. Skips unknown accounts. [`FollowMark::Left`] also skips
    /// accounts that are not marked as followed, since a person follows them.
    async fn set_mark(&self, namespace: &str, accounts: &[String], mark: FollowMark) -> Result<()>;

    async fn accounts_with_mark(
        &self,
        namespaces: &[String],
        accounts: &[String],
        mark: FollowMark,
    ) -> Result<Vec<String>>;

    /// Returns up to `limit` posts, with their authors, that only this community collected, from accounts it decided against.
    async fn find_unwanted_posts(
        &self,
        of: &UnwantedQuery<'_>,
        accounts: &[String],
        limit: u32,
    ) -> Result<Vec<UnwantedPost>>;

    /// Stores the languages of a pipeline's posts. A known language stays.
    async fn save_languages(&self, posts: &str, languages: &[PostLanguage]) -> Result<()>;

    /// Returns up to `limit` accounts that were never judged, and were admitted or decided about `before` this time.
    async fn unjudged_accounts(&self, namespace: &str, before: Millis, limit: u32) -> Result<Vec<String>>;

    /// Returns up to `limit` accounts that another version of the rule judged.
    async fn outdated_accounts(&self, namespace: &str, rule: &str, limit: u32) -> Result<Vec<String>>;

    /// Returns the current size. With `of` = `None`, posts and follows are 0, since counting them may exceed the
    /// statement timeout.
    async fn size(&self, namespace: &str, of: Option<NetworkPipelines<'_>>, at: Millis) -> Result<CommunitySize>;

    async fn save_size(&self, namespace: &str, size: &CommunitySize) -> Result<()>;

    /// Returns the newest `limit` sizes `since` this time, oldest first.
    async fn past_sizes(&self, namespace: &str, since: Millis, limit: u32) -> Result<Vec<CommunitySize>>;

    async fn community_account(&self, namespace: &str, account: &str) -> Result<Option<CommunityAccount>>;

    async fn belonging_changes(&self, namespace: &str, account: &str) -> Result<Vec<BelongingChange>>;

    /// Returns the first `limit` appearances of an account, oldest first.
    async fn appearances(&self, namespace: &str, account: &str, limit: u32) -> Result<Vec<StoredAppearance>>;

    /// Returns up to `limit` accounts in this state with ids above `above`, sorted by id.
    async fn page_community(
        &self,
        namespace: &str,
        state: Belonging,
        above: &str,
        limit: u32,
    ) -> Result<Vec<CommunityAccount>>;

    /// Returns up to `limit` undecided accounts with scores nearest to the threshold or its opposite, nearest first.
    async fn near_misses(&self, namespace: &str, threshold: f64, limit: u32) -> Result<Vec<CommunityAccount>>;

    async fn count_by_reason(&self, namespace: &str) -> Result<Vec<(String, String, i64)>>;
}

pub(super) fn encode_posts(found: &[FoundPost]) -> String {
    let mut rows: Vec<_> = found.iter().map(|of| (clean(&of.author), clean(&of.post))).collect();
    rows.sort();
    rows.dedup();
    serde_json::json!(rows).to_string()
}

pub(super) fn encode_appearances(appeared: &[Appearance]) -> String {
    let others = appeared.iter().filter(|of| of.account != of.source);
    let mut rows: Vec<_> = others
        .map(|of| (clean(&of.account), clean(&of.source), of.reason.as_str(), of.post.as_deref().map(clean)))
        .collect();
    // Key order: overlapping batches wait for each other and cannot deadlock.
    rows.sort();
    rows.dedup_by(|one, other| (&one.0, &one.1, one.2) == (&other.0, &other.1, other.2));
    serde_json::json!(rows).to_string()
}

pub(super) fn encode_ids(ids: &[String]) -> String {
    let ids: std::collections::BTreeSet<_> = ids.iter().map(|id| [clean(id)]).collect();
    serde_json::json!(ids).to_string()
}

pub(super) fn encode_decisions(decisions: &[Decision]) -> String {
    let mut rows: Vec<_> = decisions
        .iter()
        .map(|of| (clean(&of.account), of.state.as_str(), of.score, clean(&of.evidence), of.posts))
        .collect();
    rows.sort_by(|one, other| one.0.cmp(&other.0));
    rows.dedup_by(|one, other| one.0 == other.0);
    serde_json::json!(rows).to_string()
}

pub(super) fn encode_hand_decisions(decisions: &[HandDecision]) -> String {
    let rows: std::collections::BTreeMap<_, _> =
        decisions.iter().map(|of| (clean(&of.account), of.state.as_str())).collect();
    serde_json::json!(rows.into_iter().collect::<Vec<_>>()).to_string()
}

pub(super) fn encode_languages(languages: &[PostLanguage]) -> String {
    let mut rows: Vec<_> = languages.iter().map(|of| (clean(&of.id), of.language, of.confidence)).collect();
    rows.sort_by(|one, other| one.0.cmp(&other.0));
    serde_json::json!(rows).to_string()
}

pub(super) fn remaining_admissions(growth: &GrowthLimits, (today, members, all): (i64, i64, i64)) -> usize {
    let number = |of: u64| i64::try_from(of).unwrap_or(i64::MAX);
    let share = (growth.share_a_day * members as f64).max(100.0) as i64;
    let a_day = number(growth.new_a_day).min(share) - today;
    usize::try_from(a_day.min(number(growth.most) - all)).unwrap_or(0)
}

pub(super) const DAY: Millis = 86_400_000;

#[derive(Debug, Clone, sqlx_macros::FromRow)]
pub(super) struct StateRow {
    account: String,
    state: Belonging,
    is_by_hand: bool,
    posts: i64,
}

pub(super) fn join_facts(
    asked: &[String],
    states: Vec<StateRow>,
    profiles: Vec<ProfileFacts>,
    texts: Vec<PostText>,
    friends: Vec<(String, i64, i64)>,
) -> Vec<AccountFacts> {
    let mut states: HashMap<String, StateRow> = states.into_iter().map(|of| (of.account.clone(), of)).collect();
    let mut profiles: HashMap<String, ProfileFacts> = profiles.into_iter().map(|of| (of.account.clone(), of)).collect();
    let mut friends: HashMap<String, (i64, i64)> = friends.into_iter().map(|(id, is, not)| (id, (is, not))).collect();
    let mut by_account = HashMap::<String, Vec<PostText>>::new();
    for text in texts {
        by_account.entry(text.account.clone()).or_default().push(text);
    }
    let facts = |asked: &String| {
        let id = clean(asked);
        let known = states.remove(&*id);
        AccountFacts {
            account: asked.clone(),
            state: known.as_ref().map(|known| known.state),
            is_by_hand: known.as_ref().is_some_and(|known| known.is_by_hand),
            posts: known.map_or(0, |known| known.posts),
            profile: profiles.remove(&*id),
            texts: by_account.remove(&*id).unwrap_or_default(),
            friends: friends.remove(&*id).unwrap_or_default(),
        }
    };
    asked.iter().map(facts).collect()
}

pub(super) fn order_states(asked: &[String], rows: Vec<StateRow>) -> Vec<Option<Belonging>> {
    let known: HashMap<String, Belonging> = rows.into_iter().map(|of| (of.account, of.state)).collect();
    asked.iter().map(|id| known.get(&*clean(id)).copied()).collect()
}
