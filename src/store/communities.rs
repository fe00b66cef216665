//! Communities: the accounts that each sees, what led to them, and what was decided.
//!
//! `namespace` is the pipeline of a community (`community:twitter:pt-pt`). An account that is judged has a row in `tweet`,
//! too, which holds its life. All statements are set-based: a batch of posts is one statement, however many accounts it names.

use std::collections::HashMap;

use async_trait::async_trait;
use serde::Serialize;

use super::Result;
use super::rows::clean;
use crate::base::clock::Millis;
use crate::model::community::{Belonging, Finding};

/// A way in which an account appears.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Reason {
    /// A member's post names it, or replies to it.
    Mentioned,
    /// A member repeats a post of it.
    Reposted,
    /// It follows a member.
    Follower,
    /// A member follows it.
    Friend,
}

impl Reason {
    /// The word in the database.
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

/// An account that a post, or a list, of another one shows.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Appearance {
    /// The account.
    pub account: String,
    /// The one that shows it.
    pub source: String,
    /// How.
    pub reason: Reason,
    /// The id of the post; `None`: a list shows it.
    pub post: Option<String>,
}

/// A post that was found.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct FoundPost {
    /// Its id.
    pub post: String,
    /// Its author.
    pub author: String,
}

/// An account that a community knows, as the arrival of posts leaves it.
#[derive(Debug, Clone, PartialEq, Eq, sqlx_macros::FromRow)]
pub struct KnownAccount {
    /// Its id.
    pub account: String,
    /// Its state.
    pub state: Belonging,
    /// Posts found since it was last judged.
    pub new_posts: i64,
    /// True if it was judged before.
    pub is_judged: bool,
}

/// The growth that is allowed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Growth {
    /// Appearances that make an account a candidate.
    pub appearances: u32,
    /// New candidates a day, at the most,
    pub new_a_day: u64,
    /// and as a share of the members, but for the first hundred.
    pub share_a_day: f64,
    /// Accounts that were ever candidates, at the most.
    pub most: u64,
}

/// What is stored of an account that is judged.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Facts {
    /// Its id.
    pub account: String,
    /// Its state; `None`: the community does not know it.
    pub state: Option<Belonging>,
    /// A person decided.
    pub is_by_hand: bool,
    /// Posts found since it was seen first.
    pub posts: i64,
    /// Its profile, if there is one.
    pub profile: Option<ProfileFacts>,
    /// Texts of its newest stored posts, those that it repeats left out.
    pub texts: Vec<PostText>,
    /// Accounts among its friends that are decided, members and others, where its list was read.
    pub friends: (i64, i64),
}

/// The profile of an account that is judged.
#[derive(Debug, Clone, Default, PartialEq, Eq, sqlx_macros::FromRow)]
pub struct ProfileFacts {
    /// The account's id.
    pub account: String,
    /// Its state, as the network tells it.
    pub state: Option<String>,
    /// The name that it shows.
    pub name: Option<String>,
    /// Where the owner says to be.
    pub location: Option<String>,
    /// The owner's description.
    pub description: Option<String>,
    /// True if the owner approves followers.
    pub protected: Option<bool>,
    /// Its number of posts, as the network counts them.
    pub posts: Option<i64>,
}

/// The text of a post.
#[derive(Debug, Clone, PartialEq, Eq, sqlx_macros::FromRow)]
pub struct PostText {
    /// The account that wrote it.
    pub account: String,
    /// Its id.
    pub id: String,
    /// Its text.
    pub text: String,
}

/// A decision of the rule.
#[derive(Debug, Clone, PartialEq)]
pub struct Decision {
    /// The account.
    pub account: String,
    /// Its state from now on.
    pub state: Belonging,
    /// -1 to 1; `None`: nothing is known.
    pub score: Option<f64>,
    /// What each test said: JSON.
    pub evidence: String,
    /// The number of posts that were known then ([`Facts::posts`]).
    pub posts: i64,
}

/// A decision of a person.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HandDecision {
    /// The account.
    pub account: String,
    /// Its state from now on; [`Belonging::Candidate`] leaves it to the rule again.
    pub state: Belonging,
}

/// The language of a post.
#[derive(Debug, Clone, PartialEq)]
pub struct PostLanguage {
    /// The id of the post.
    pub id: String,
    /// ISO 639-1.
    pub language: &'static str,
    /// 0 to 1.
    pub confidence: f64,
}

/// An account of a community, whole.
#[derive(Debug, Clone, PartialEq, Serialize, sqlx_macros::FromRow)]
pub struct CommunityAccount {
    /// Its id.
    pub account: String,
    /// Its state.
    pub state: Belonging,
    /// When it was seen first, ms since the epoch.
    pub first_at: Millis,
    /// When it became a candidate, ms since the epoch.
    pub admitted_at: Option<Millis>,
    /// Since when it is in its state, ms since the epoch.
    pub decided_at: Millis,
    /// Members, and posts of searches, that led to it.
    pub appearances: i64,
    /// Posts found since it was seen first.
    pub posts: i64,
    /// When it was last judged, ms since the epoch.
    pub judged_at: Option<Millis>,
    /// The version of the rule.
    pub rule: Option<String>,
    /// -1 to 1.
    pub score: Option<f64>,
    /// What each test said: JSON.
    pub evidence: Option<String>,
    /// The person who decided.
    pub by_hand: Option<String>,
    /// Why.
    pub why: Option<String>,
}

impl CommunityAccount {
    /// What each test said of it; empty until it is judged.
    #[must_use]
    pub fn findings(&self) -> Vec<Finding> {
        let evidence = self.evidence.as_deref();
        evidence.and_then(|evidence| serde_json::from_str(evidence).ok()).unwrap_or_default()
    }
}

/// A change of an account's state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, sqlx_macros::FromRow)]
pub struct BelongingChange {
    /// When, ms since the epoch.
    pub at: Millis,
    /// The state before; `None`: it was not known.
    pub old_state: Option<String>,
    /// The state from then on.
    pub new_state: String,
    /// The version of the rule.
    pub rule: Option<String>,
    /// The person who decided.
    pub by_hand: Option<String>,
}

/// A stored appearance.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, sqlx_macros::FromRow)]
pub struct StoredAppearance {
    /// The id of the member, or of the post that a search found.
    pub source: String,
    /// How it appeared.
    pub reason: String,
    /// The id of the post that shows it.
    pub post: Option<String>,
    /// When first, ms since the epoch.
    pub first_at: Millis,
}

/// The size of a community at a time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, sqlx_macros::FromRow)]
pub struct CommunitySize {
    /// When, ms since the epoch.
    pub at: Millis,
    /// Accounts that appeared.
    pub seen: i64,
    /// Candidates.
    pub candidates: i64,
    /// Judged, and not decided.
    pub open: i64,
    /// Members.
    pub members: i64,
    /// Decided against.
    pub outside: i64,
    /// Stored posts of the network. In a stored size: as many as were counted last, or 0, where the count took too long.
    pub posts: i64,
    /// Follows that were found; the same of them.
    pub edges: i64,
}

/// The pipelines whose rows are read for an account of a community.
#[derive(Debug, Clone, Copy)]
pub struct Neighbours<'a> {
    /// Of the network's posts,
    pub posts: &'a str,
    /// of its profiles,
    pub profiles: &'a str,
    /// and of the lists of friends.
    pub friends: &'a str,
}

/// What a community has done with an account: the column `follows`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mark {
    /// The community does not need it followed.
    None = 0,
    /// The community follows it.
    Follows = 1,
    /// The community has left it, and decided against it: its posts are dropped.
    Left = 2,
}

/// Where to look for posts that a community does not want any more: they came by visits to an account, and by nothing else. The
/// account never was a member, and it is not a candidate, undecided or a member in another community. Nobody follows it, nor the
/// author of the post (a repost has another one).
#[derive(Debug, Clone, Copy)]
pub struct Unwanted<'a> {
    /// The pipeline of the community,
    pub namespace: &'a str,
    /// of the network's posts,
    pub posts: &'a str,
    /// of its profiles,
    pub profiles: &'a str,
    /// and of its visits, without a part.
    pub visits: &'a str,
    /// The other communities of the network.
    pub others: &'a [String],
}

/// A post that a community does not want any more.
#[derive(Debug, Clone, PartialEq, Eq, sqlx_macros::FromRow)]
pub struct UnwantedPost {
    /// The account whose timeline shows it.
    pub account: String,
    /// Its id.
    pub post: String,
}

/// The records of communities. Errors are those of [`Lifecycle`](super::Lifecycle); every call may be repeated.
#[async_trait]
pub trait Communities: Send + Sync + std::fmt::Debug {
    /// Posts were found, and accounts appeared in posts and lists; `at` is when, ms since the epoch. The posts of known
    /// accounts are counted, the accounts that members show are seen, and so are the authors of posts that came by one of
    /// the `searches`. Answers the known ones among the authors. A repeated call may count posts twice.
    async fn arrive(
        &self,
        namespace: &str,
        at: Millis,
        found: &[FoundPost],
        appeared: &[Appearance],
        searches: (&str, &[String]),
    ) -> Result<Vec<KnownAccount>>;

    /// The state of each account, in the order asked; `None` for one that the community does not know.
    async fn belonging(&self, namespace: &str, accounts: &[String]) -> Result<Vec<Option<Belonging>>>;

    /// The accounts that may become candidates now, those with most appearances first; `limit` of them at the most.
    async fn admissible(&self, namespace: &str, at: Millis, growth: &Growth, limit: u32) -> Result<Vec<String>>;

    /// Makes seen accounts candidates.
    async fn admit(&self, namespace: &str, at: Millis, accounts: &[String]) -> Result<()>;

    /// What is stored of accounts that are judged, in the order asked; `texts` posts of each at the most.
    async fn facts(&self, namespace: &str, of: Neighbours<'_>, accounts: &[String], texts: u32) -> Result<Vec<Facts>>;

    /// Stores decisions by that version of the rule. Where a person has decided, the state stays, and the rest is stored.
    async fn decide(&self, namespace: &str, at: Millis, rule: &str, decisions: &[Decision]) -> Result<()>;

    /// Stores decisions of a person: who, and why. An account that is not known is from then on.
    async fn decide_by_hand(
        &self,
        namespace: &str,
        at: Millis,
        who: &str,
        why: &str,
        decisions: &[HandDecision],
    ) -> Result<()>;

    /// Notes whether accounts are followed for this community's sake. One that it does not know is left out, and so is, for
    /// [`Mark::Left`], one that is not marked to be followed: a person follows it.
    async fn mark(&self, namespace: &str, accounts: &[String], mark: Mark) -> Result<()>;

    /// Those of these accounts that have that mark in one of these communities.
    async fn marked(&self, namespaces: &[String], accounts: &[String], mark: Mark) -> Result<Vec<String>>;

    /// Posts that this community alone has collected, of those of these accounts that were decided against: `limit` of them, with
    /// their authors.
    async fn unwanted(&self, of: &Unwanted<'_>, accounts: &[String], limit: u32) -> Result<Vec<UnwantedPost>>;

    /// Stores the languages of posts of that pipeline; one that is known stays.
    async fn save_languages(&self, posts: &str, languages: &[PostLanguage]) -> Result<()>;

    /// Accounts that were admitted, or decided about, before that moment, ms since the epoch, and never judged; `limit` of them.
    async fn unjudged(&self, namespace: &str, before: Millis, limit: u32) -> Result<Vec<String>>;

    /// Accounts that were judged by another version of the rule, `limit` of them.
    async fn outdated(&self, namespace: &str, rule: &str, limit: u32) -> Result<Vec<String>>;

    /// The size of a community now; `at` is now, ms since the epoch. `of`: `None` leaves posts and follows at 0, since counting all of
    /// them may take longer than a statement may.
    async fn size(&self, namespace: &str, of: Option<Neighbours<'_>>, at: Millis) -> Result<CommunitySize>;

    /// Stores a size.
    async fn note_size(&self, namespace: &str, size: &CommunitySize) -> Result<()>;

    /// The sizes from that moment on, ms since the epoch, oldest first; the newest `limit` of them.
    async fn growth(&self, namespace: &str, since: Millis, limit: u32) -> Result<Vec<CommunitySize>>;

    /// An account of the community.
    async fn community_account(&self, namespace: &str, account: &str) -> Result<Option<CommunityAccount>>;

    /// The changes of an account's state, oldest first.
    async fn belonging_changes(&self, namespace: &str, account: &str) -> Result<Vec<BelongingChange>>;

    /// What led to an account, first ones first, `limit` of them.
    async fn appearances(&self, namespace: &str, account: &str, limit: u32) -> Result<Vec<StoredAppearance>>;

    /// Accounts in a state above that id, by their ids, `limit` of them.
    async fn page_community(
        &self,
        namespace: &str,
        state: Belonging,
        above: &str,
        limit: u32,
    ) -> Result<Vec<CommunityAccount>>;

    /// Undecided accounts whose scores are nearest to the threshold or to its opposite, nearest first, `limit` of them.
    async fn near_misses(&self, namespace: &str, threshold: f64, limit: u32) -> Result<Vec<CommunityAccount>>;

    /// Accounts by the reason why they appeared and by state.
    async fn by_reason(&self, namespace: &str) -> Result<Vec<(String, String, i64)>>;
}

/// Known posts among those of a batch: `(post, author)`.
pub(super) fn given_posts(found: &[FoundPost]) -> String {
    let mut rows: Vec<_> = found.iter().map(|of| (clean(&of.author), clean(&of.post))).collect();
    rows.sort();
    rows.dedup();
    serde_json::json!(rows).to_string()
}

/// Appearances: `(account, source, reason, post)`.
pub(super) fn given_appearances(appeared: &[Appearance]) -> String {
    let others = appeared.iter().filter(|of| of.account != of.source);
    let mut rows: Vec<_> = others
        .map(|of| (clean(&of.account), clean(&of.source), of.reason.as_str(), of.post.as_deref().map(clean)))
        .collect();
    // In the order of the key: two batches wait for each other, and cannot deadlock.
    rows.sort();
    rows.dedup_by(|one, other| (&one.0, &one.1, one.2) == (&other.0, &other.1, other.2));
    serde_json::json!(rows).to_string()
}

/// Rows of one text each, each text once, in their order.
pub(super) fn given_ids(ids: &[String]) -> String {
    let ids: std::collections::BTreeSet<_> = ids.iter().map(|id| [clean(id)]).collect();
    serde_json::json!(ids).to_string()
}

/// Decisions: `(account, state, score, evidence, posts)`.
pub(super) fn given_decisions(decisions: &[Decision]) -> String {
    let mut rows: Vec<_> = decisions
        .iter()
        .map(|of| (clean(&of.account), of.state.as_str(), of.score, clean(&of.evidence), of.posts))
        .collect();
    rows.sort_by(|one, other| one.0.cmp(&other.0));
    rows.dedup_by(|one, other| one.0 == other.0);
    serde_json::json!(rows).to_string()
}

/// Decisions of a person: `(account, state)`.
pub(super) fn given_by_hand(decisions: &[HandDecision]) -> String {
    let rows: std::collections::BTreeMap<_, _> =
        decisions.iter().map(|of| (clean(&of.account), of.state.as_str())).collect();
    serde_json::json!(rows.into_iter().collect::<Vec<_>>()).to_string()
}

/// Languages: `(id, language, confidence)`.
pub(super) fn given_languages(languages: &[PostLanguage]) -> String {
    let mut rows: Vec<_> = languages.iter().map(|of| (clean(&of.id), of.language, of.confidence)).collect();
    rows.sort_by(|one, other| one.0.cmp(&other.0));
    serde_json::json!(rows).to_string()
}

/// What a day's growth goes by: those admitted since `$2`, the members, and all that were ever admitted. Read only where somebody
/// may be admitted. Each state is named for the sake of the index: most accounts are only seen.
pub(super) const ROOM: &str = "SELECT \
     (SELECT count(*) FROM community_account WHERE namespace = $1 AND state IN ('candidate', 'open', 'member', 'outside') \
     AND admitted_at > $2), \
     (SELECT count(*) FROM community_account WHERE namespace = $1 AND state = 'member'), \
     (SELECT count(*) FROM community_account WHERE namespace = $1 AND state IN ('candidate', 'open', 'member', 'outside'))";

/// Accounts that may be admitted: those with most appearances first.
pub(super) const ADMISSIBLE: &str = "SELECT account FROM community_account WHERE namespace = $1 AND state = 'seen' \
     AND appearances >= $2 ORDER BY appearances DESC, account LIMIT $3";

/// The room in numbers.
pub(super) fn room(growth: &Growth, (today, members, all): (i64, i64, i64)) -> usize {
    let number = |of: u64| i64::try_from(of).unwrap_or(i64::MAX);
    let share = (growth.share_a_day * members as f64).max(100.0) as i64;
    let a_day = number(growth.new_a_day).min(share) - today;
    usize::try_from(a_day.min(number(growth.most) - all)).unwrap_or(0)
}

/// A day, ms.
pub(super) const DAY: Millis = 86_400_000;

pub(super) const UNJUDGED: &str = "SELECT account FROM community_account WHERE namespace = $1 AND judged_at IS NULL \
     AND state <> 'seen' AND decided_at < $2 ORDER BY decided_at LIMIT $3";

pub(super) const OUTDATED: &str = "SELECT account FROM community_account WHERE namespace = $1 AND judged_at IS NOT NULL \
     AND (rule IS NULL OR rule <> $2) AND state <> 'seen' LIMIT $3";

/// The columns of [`CommunityAccount`].
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

pub(super) const NOTE_SIZE: &str = "INSERT INTO community_growth (namespace, at, seen, candidates, open, members, outside, \
     posts, edges) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9) ON CONFLICT DO NOTHING";

pub(super) const GROWTH: &str = "SELECT at, seen, candidates, open, members, outside, posts, edges FROM (SELECT * FROM \
     community_growth WHERE namespace = $1 AND at >= $2 ORDER BY at DESC LIMIT $3) AS newest ORDER BY at";

/// The statements that take rows as JSON, by the words with which a database reads them: `$given` stands for the rows of `$2`
/// with the column `value`, `$searches` for those of `$5`, `$languages` for the place of languages, `$among` for being one of the
/// given ids, of which a condition may leave some out, and `$kept` for the condition that an account, or the one whom the id of a
/// post names, is not kept away, by where that id and its network stand. CROSS JOIN has SQLite look each given row up, instead of
/// reading all that is given again for each member.
macro_rules! statements {
    ($given:literal, $searches:literal, $languages:literal, $kept:ident, $among:ident) => {
        /// Counts the posts of known accounts.
        const COUNT_POSTS: &str = concat!(
            "UPDATE community_account SET posts = community_account.posts + of.posts FROM (SELECT given.value ->> 0 AS account, \
             count(*) AS posts FROM ",
            $given,
            " GROUP BY 1) AS of WHERE community_account.namespace = $1 AND community_account.account = of.account \
             RETURNING community_account.account, community_account.state, \
             community_account.posts - community_account.judged_posts AS new_posts, \
             community_account.judged_at IS NOT NULL AS is_judged"
        );
        /// Who is no member leads to nobody.
        const APPEAR: &str = concat!(
            "INSERT INTO community_appearance (namespace, account, source, reason, post, first_at) \
             SELECT $1, given.value ->> 0, given.value ->> 1, given.value ->> 2, given.value ->> 3, $3 FROM ",
            $given,
            " CROSS JOIN community_account AS known WHERE known.namespace = $1 AND known.account = given.value ->> 1 \
             AND known.state = 'member' AND ",
            $kept!("given.value ->> 0", "$4"),
            " AND ",
            $kept!(post "given.value ->> 3", "$4"),
            " ON CONFLICT DO NOTHING"
        );
        /// A post that came by a search leads to its author.
        const FIND: &str = concat!(
            "INSERT INTO community_appearance (namespace, account, source, reason, post, first_at) \
             SELECT DISTINCT $1, given.value ->> 0, given.value ->> 1, 'search', given.value ->> 1, CAST($3 AS BIGINT) FROM ",
            $given,
            " CROSS JOIN tweet_way AS way JOIN ",
            $searches,
            " ON searches.value ->> 0 = way.source WHERE way.namespace = $4 AND way.id = given.value ->> 1 \
             AND way.pipeline IN ('poll', 'stream') AND ",
            $kept!("given.value ->> 0", "$6"),
            " ON CONFLICT DO NOTHING"
        );
        /// Those that appeared are seen. Of a candidate the number stays as it was when it became one: it is left out before its
        /// appearances are read, of which a popular account has very many. NOT EXISTS would have PostgreSQL read all accounts.
        const SEE: &str = concat!(
            "INSERT INTO community_account (namespace, account, state, first_at, decided_at, appearances) \
             SELECT $1, of.account, 'seen', $3, $3, count(DISTINCT of.source) FROM community_appearance AS of \
             WHERE of.namespace = $1 AND of.account ",
            $among!(
                " WHERE COALESCE((SELECT known.state FROM community_account AS known WHERE known.namespace = $1 \
                 AND known.account = given.value ->> 0), 'seen') = 'seen'"
            ),
            " AND ",
            $kept!("of.account", "$4"),
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
        /// COALESCE keeps SQLite from walking all that are seen.
        const ADMIT: &str = concat!(
            "UPDATE community_account SET state = 'candidate', admitted_at = $3, decided_at = $3 WHERE namespace = $1 \
             AND COALESCE(state, '') = 'seen' AND account ",
            $among!("")
        );
        /// What a person has decided stays, and an older answer changes nothing.
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
        /// What is a candidate again is the rule's. A state that is confirmed holds since it was decided first.
        const BY_HAND: &str = concat!(
            "INSERT INTO community_account (namespace, account, state, first_at, admitted_at, decided_at, by_hand, why) \
             SELECT $1, given.value ->> 0, given.value ->> 1, $3, $3, $3, \
             CASE WHEN given.value ->> 1 <> 'candidate' THEN $4 END, CASE WHEN given.value ->> 1 <> 'candidate' THEN $5 END FROM ",
            $given,
            " WHERE ",
            $kept!("given.value ->> 0", "$6"),
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
        /// A lookup that was under way may have put a post back, which has no way then. An account is looked up by its id, and
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

/// The row of [`Facts`] in `community_account`.
#[derive(Debug, Clone, sqlx_macros::FromRow)]
pub(super) struct StateRow {
    account: String,
    state: Belonging,
    is_by_hand: bool,
    posts: i64,
}

/// Facts in the order asked.
pub(super) fn joined(
    asked: &[String],
    states: Vec<StateRow>,
    profiles: Vec<ProfileFacts>,
    texts: Vec<PostText>,
    friends: Vec<(String, i64, i64)>,
) -> Vec<Facts> {
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
        Facts {
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

/// States in the order asked.
pub(super) fn states(asked: &[String], rows: Vec<StateRow>) -> Vec<Option<Belonging>> {
    let known: HashMap<String, Belonging> = rows.into_iter().map(|of| (of.account, of.state)).collect();
    asked.iter().map(|id| known.get(&*clean(id)).copied()).collect()
}
