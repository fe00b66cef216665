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

/// Counts that limit a day's growth: accounts admitted since `$2`, members, and all ever admitted. Read only if an
/// account may be admitted. The statement names each state to use the index: most accounts are only *seen*.
pub(super) const ROOM: &str = "SELECT \
     (SELECT count(*) FROM community_account WHERE namespace = $1 AND state IN ('candidate', 'open', 'member', 'outside') \
     AND admitted_at > $2), \
     (SELECT count(*) FROM community_account WHERE namespace = $1 AND state = 'member'), \
     (SELECT count(*) FROM community_account WHERE namespace = $1 AND state IN ('candidate', 'open', 'member', 'outside'))";

pub(super) const ADMISSIBLE: &str = "SELECT account FROM community_account WHERE namespace = $1 AND state = 'seen' \
     AND appearances >= $2 ORDER BY appearances DESC, account LIMIT $3";

pub(super) fn remaining_admissions(growth: &GrowthLimits, (today, members, all): (i64, i64, i64)) -> usize {
    let number = |of: u64| i64::try_from(of).unwrap_or(i64::MAX);
    let share = (growth.share_a_day * members as f64).max(100.0) as i64;
    let a_day = number(growth.new_a_day).min(share) - today;
    usize::try_from(a_day.min(number(growth.most) - all)).unwrap_or(0)
}

pub(super) const DAY: Millis = 86_400_000;

pub(super) const UNJUDGED: &str = "SELECT account FROM community_account WHERE namespace = $1 AND judged_at IS NULL \
     AND state <> 'seen' AND decided_at < $2 ORDER BY decided_at LIMIT $3";

pub(super) const OUTDATED: &str = "SELECT account FROM community_account WHERE namespace = $1 AND judged_at IS NOT NULL \
     AND (rule IS NULL OR rule <> $2) AND state <> 'seen' LIMIT $3";

macro_rules! account_columns {
    () => {
        "account, state, first_at, admitted_at, decided_at, appearances, posts, judged_at, rule, score, evidence, by_hand, why"
    };
}

pub(super) const ACCOUNT: &str =
    concat!("SELECT ", account_columns!(), " FROM community_account WHERE namespace = $1 AND account = $2");

pub(super) const CHANGES: &str = "SELECT at, old_state, new_state, rule, by_hand FROM community_change \
     WHERE namespace = $1 AND account = $2 ORDER BY at, new_state";

pub(super) const APPEARANCES: &str = "SELECT source, reason, post, first_at FROM community_appearance \
     WHERE namespace = $1 AND account = $2 ORDER BY first_at, source, reason LIMIT $3";

pub(super) const PAGE: &str = concat!(
    "SELECT ",
    account_columns!(),
    " FROM community_account WHERE namespace = $1 AND state = $2 AND account > $3 ORDER BY account LIMIT $4"
);

pub(super) const NEAR: &str = concat!(
    "SELECT ",
    account_columns!(),
    " FROM community_account WHERE namespace = $1 AND state = 'open' AND score IS NOT NULL \
     ORDER BY ABS(ABS(score) - $2), account LIMIT $3"
);

pub(super) const BY_REASON: &str = "SELECT reason, state, count(DISTINCT of.account) FROM community_appearance AS of \
     JOIN community_account AS known ON known.namespace = of.namespace AND known.account = of.account \
     WHERE of.namespace = $1 GROUP BY reason, state ORDER BY reason, state";

pub(super) const SIZE: &str = "SELECT CAST($2 AS BIGINT) AS at, \
     (SELECT count(*) FROM community_account WHERE namespace = $1 AND state = 'seen') AS seen, \
     (SELECT count(*) FROM community_account WHERE namespace = $1 AND state = 'candidate') AS candidates, \
     (SELECT count(*) FROM community_account WHERE namespace = $1 AND state = 'open') AS open, \
     (SELECT count(*) FROM community_account WHERE namespace = $1 AND state = 'member') AS members, \
     (SELECT count(*) FROM community_account WHERE namespace = $1 AND state = 'outside') AS outside, \
     CASE WHEN CAST($3 AS TEXT) IS NULL THEN 0 ELSE (SELECT count(*) FROM tweet WHERE namespace = $3) END AS posts, \
     CASE WHEN CAST($3 AS TEXT) IS NULL THEN 0 \
     ELSE (SELECT CAST(COALESCE(SUM(appeared), 0) AS BIGINT) FROM list_crawl) END AS edges";

pub(super) const SAVE_SIZE: &str = "INSERT INTO community_growth (namespace, at, seen, candidates, open, members, outside, \
     posts, edges) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9) ON CONFLICT DO NOTHING";

pub(super) const GROWTH: &str = "SELECT at, seen, candidates, open, members, outside, posts, edges FROM (SELECT * FROM \
     community_growth WHERE namespace = $1 AND at >= $2 ORDER BY at DESC LIMIT $3) AS newest ORDER BY at";

/// Statements that take rows as JSON, by the database's syntax: `$given` is the rows of `$2` with the column `value`,
/// `$searches` those of `$5`, `$languages` the table of languages. `$among` is the condition of being a given id, with
/// an optional filter. `$account_not_blocked` is the condition that neither an account nor the author in a post id is blocked. With
/// CROSS JOIN, SQLite looks up each given row instead of reading all given rows for each member.
macro_rules! statements {
    ($given:literal, $searches:literal, $languages:literal, $account_not_blocked:ident, $among:ident) => {
        const COUNT_POSTS: &str = concat!(
            "UPDATE community_account SET posts = community_account.posts + of.posts FROM (SELECT given.value ->> 0 AS account, \
             count(*) AS posts FROM ",
            $given,
            " GROUP BY 1) AS of WHERE community_account.namespace = $1 AND community_account.account = of.account \
             RETURNING community_account.account, community_account.state, \
             community_account.posts - community_account.judged_posts AS new_posts, \
             community_account.judged_at IS NOT NULL AS is_judged"
        );
        const APPEAR: &str = concat!(
            "INSERT INTO community_appearance (namespace, account, source, reason, post, first_at) \
             SELECT $1, given.value ->> 0, given.value ->> 1, given.value ->> 2, given.value ->> 3, $3 FROM ",
            $given,
            " CROSS JOIN community_account AS known WHERE known.namespace = $1 AND known.account = given.value ->> 1 \
             AND known.state = 'member' AND ",
            $account_not_blocked!("given.value ->> 0", "$4"),
            " AND ",
            $account_not_blocked!(post "given.value ->> 3", "$4"),
            " ON CONFLICT DO NOTHING"
        );
        const FIND: &str = concat!(
            "INSERT INTO community_appearance (namespace, account, source, reason, post, first_at) \
             SELECT DISTINCT $1, given.value ->> 0, given.value ->> 1, 'search', given.value ->> 1, CAST($3 AS BIGINT) FROM ",
            $given,
            " CROSS JOIN tweet_way AS way JOIN ",
            $searches,
            " ON searches.value ->> 0 = way.source WHERE way.namespace = $4 AND way.id = given.value ->> 1 \
             AND way.pipeline IN ('poll', 'stream') AND ",
            $account_not_blocked!("given.value ->> 0", "$6"),
            " ON CONFLICT DO NOTHING"
        );
        /// Records appeared accounts as seen. A candidate keeps its number of appearances. It is excluded before its
        /// appearances are read, since a popular account has very many. With NOT EXISTS, PostgreSQL would read all accounts.
        const SEE: &str = concat!(
            "INSERT INTO community_account (namespace, account, state, first_at, decided_at, appearances) \
             SELECT $1, of.account, 'seen', $3, $3, count(DISTINCT of.source) FROM community_appearance AS of \
             WHERE of.namespace = $1 AND of.account ",
            $among!(
                " WHERE COALESCE((SELECT known.state FROM community_account AS known WHERE known.namespace = $1 \
                 AND known.account = given.value ->> 0), 'seen') = 'seen'"
            ),
            " AND ",
            $account_not_blocked!("of.account", "$4"),
            " GROUP BY of.account ORDER BY of.account \
             ON CONFLICT (namespace, account) DO UPDATE SET appearances = excluded.appearances \
             WHERE community_account.appearances <> excluded.appearances"
        );
        const STATES: &str = concat!(
            "SELECT account, state, by_hand IS NOT NULL AS is_by_hand, posts FROM community_account WHERE namespace = $1 \
             AND account ",
            $among!("")
        );
        const PROFILES: &str = concat!(
            "SELECT id AS account, state, display_name AS name, location, description, protected, posts FROM account WHERE namespace = $1 \
             AND id ",
            $among!("")
        );
        /// COALESCE stops SQLite from scanning all seen accounts.
        const ADMIT: &str = concat!(
            "UPDATE community_account SET state = 'candidate', admitted_at = $3, decided_at = $3 WHERE namespace = $1 \
             AND COALESCE(state, '') = 'seen' AND account ",
            $among!("")
        );
        /// A person's decision stays, and an older judgement changes nothing.
        const DECIDE: &str = concat!(
            "WITH of AS MATERIALIZED (SELECT given.value ->> 0 AS account, given.value ->> 1 AS state, \
             CAST(given.value ->> 2 AS DOUBLE PRECISION) AS score, given.value ->> 3 AS evidence, \
             CAST(given.value ->> 4 AS BIGINT) AS posts FROM ",
            $given,
            ") UPDATE community_account SET \
             decided_at = CASE WHEN by_hand IS NULL AND community_account.state <> of.state THEN $3 ELSE decided_at END, \
             state = CASE WHEN by_hand IS NULL THEN of.state ELSE community_account.state END, \
             judged_at = $3, rule = $4, judged_posts = of.posts, score = of.score, evidence = of.evidence \
             FROM of WHERE community_account.namespace = $1 AND community_account.account = of.account \
             AND community_account.state <> 'seen' \
             AND (community_account.judged_at IS NULL OR community_account.judged_at <= $3)"
        );
        /// Candidates return to the rule. A confirmed state keeps the time of its first decision.
        const BY_HAND: &str = concat!(
            "INSERT INTO community_account (namespace, account, state, first_at, admitted_at, decided_at, by_hand, why) \
             SELECT $1, given.value ->> 0, given.value ->> 1, $3, $3, $3, \
             CASE WHEN given.value ->> 1 <> 'candidate' THEN $4 END, CASE WHEN given.value ->> 1 <> 'candidate' THEN $5 END FROM ",
            $given,
            " WHERE ",
            $account_not_blocked!("given.value ->> 0", "$6"),
            " ON CONFLICT (namespace, account) DO UPDATE SET state = excluded.state, \
             decided_at = CASE WHEN community_account.state <> excluded.state THEN excluded.decided_at \
             ELSE community_account.decided_at END, \
             admitted_at = COALESCE(community_account.admitted_at, excluded.admitted_at), \
             by_hand = excluded.by_hand, why = excluded.why"
        );
        const MARK: &str = concat!(
            "UPDATE community_account SET follows = $3 WHERE namespace = $1 AND follows <> $3 \
             AND ($3 <> 2 OR follows = 1) AND account ",
            $among!("")
        );
        const MARKED: &str = concat!(
            "SELECT account FROM community_account WHERE namespace = $1 AND follows = $3 \
             AND account ",
            $among!("")
        );
        /// A lookup under way may have restored a post, which then has no way. The account is looked up by its id, and
        /// its posts by theirs.
        const UNWANTED: &str = concat!(
            "SELECT of.account, tweet.id AS post FROM community_account AS of CROSS JOIN account_post CROSS JOIN tweet \
             WHERE of.namespace = $1 AND of.account ",
            $among!(""),
            " AND of.state = 'outside' \
             AND NOT EXISTS (SELECT 1 FROM community_change AS change WHERE change.namespace = $1 \
             AND change.account = of.account AND change.new_state = 'member') \
             AND NOT EXISTS (SELECT 1 FROM visit WHERE visit.namespace = $6 \
             AND visit.account IN (of.account, tweet.author_id) \
             AND visit.left_at IS NULL) \
             AND NOT EXISTS (SELECT 1 FROM ",
            $searches,
            " CROSS JOIN community_account AS other WHERE other.namespace = searches.value ->> 0 \
             AND other.account = of.account AND other.state IN ('candidate', 'open', 'member')) \
             AND account_post.namespace = $4 AND account_post.id = of.account \
             AND tweet.namespace = $3 AND tweet.id = account_post.post \
             AND NOT EXISTS (SELECT 1 FROM tweet_way AS way WHERE way.namespace = $3 AND way.id = tweet.id \
             AND NOT (way.pipeline = 'visit' AND way.source = of.account)) \
             AND (tweet.first_seen >= of.decided_at \
             OR EXISTS (SELECT 1 FROM tweet_way AS way WHERE way.namespace = $3 AND way.id = tweet.id)) LIMIT $7"
        );
        const LANGUAGES: &str = concat!(
            "INSERT INTO ",
            $languages,
            " given.value ->> 1, CAST(given.value ->> 2 AS DOUBLE PRECISION) FROM ",
            $given,
            " CROSS JOIN tweet WHERE tweet.namespace = $1 AND tweet.id = given.value ->> 0 ON CONFLICT DO NOTHING"
        );
    };
}

pub(super) use statements;

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
