//! The graph of follows, for a file: all accounts, then all follows, from one view of the store, row by row.

use std::fmt::Debug;
use std::ops::ControlFlow;

use async_trait::async_trait;
use futures::TryStreamExt;
use sqlx::{AssertSqlSafe, Database, Encode, Executor, FromRow, IntoArguments, Type};

use super::Result;
use super::edges::{Edge, EdgeRow, KINDS, network_of};
use engine::base::clock::Millis;

#[derive(Debug, Clone, Default)]
pub struct GraphFilter {
    /// Pipelines of one network's lists: followers, friends, or both. If both lists show a follow, that of the
    /// followers is used.
    pub lists: Vec<String>,
    pub profiles: String,
    /// Restricts to follows at this moment, certain or possible, ms since the epoch; `None`: all times.
    pub at: Option<Millis>,
    pub scope: Scope,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Scope {
    #[default]
    All,
    Among(Vec<String>),
    /// These accounts, all that follow one of them, and all that one of them follows.
    Around(Vec<String>),
}

#[derive(Debug, Clone, Default, PartialEq, Eq, sqlx_macros::FromRow)]
pub struct Node {
    pub id: String,
    pub handle: Option<String>,
    pub display_name: Option<String>,
    pub state: Option<String>,
    pub followers: Option<i64>,
    pub following: Option<i64>,
    pub posts: Option<i64>,
    /// True if one of its lists was read. A missing follow then did not exist, as far as that crawl read.
    pub is_read: bool,
    /// True if the caller named it in the scope.
    pub is_given: bool,
}

/// An interval for which one account followed another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FollowInterval {
    pub follower: String,
    pub followed: String,
    /// The list that showed it: `followers` or `friends`.
    pub list: &'static str,
    /// False if it only possibly existed at that moment ([`MemberAt::surely`](super::MemberAt::surely)).
    pub surely: bool,
    pub edge: Edge,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GraphPart {
    /// An account. Each comes once, before all intervals.
    Node(Node),
    /// An interval. Intervals of the same two accounts are adjacent, the earlier first.
    Interval(FollowInterval),
}

/// Receives the parts; a break stops the reading.
pub type PartVisitor<'a> = &'a mut (dyn FnMut(GraphPart) -> ControlFlow<()> + Send);

#[async_trait]
pub trait Graphs: Send + Sync + Debug {
    /// Reads a graph, part by part, from one view of the store.
    async fn graph(&self, wanted: &GraphFilter, visit: PartVisitor<'_>) -> Result<()>;
}

pub(super) trait Dialect: Database {
    const EDGES: &'static str;
    const LIST: (&'static str, &'static str);
    const ORDER: &'static str;
    const GIVEN: &'static str;
    const PROFILE: &'static str;
    const LISTS: &'static str;
    /// Condition that `edge` is the edge `twin`.
    const TWIN: &'static str;
}

impl Dialect for sqlx::Sqlite {
    const EDGES: &'static str = "edge_row AS edge JOIN tweet ON tweet.key = edge.tweet";
    const LIST: (&'static str, &'static str) = ("tweet.namespace", "tweet.id");
    const ORDER: &'static str = "edge.tweet, edge.member_number, edge.page_number";
    const GIVEN: &'static str = "SELECT value AS id FROM json_each($5)";
    const PROFILE: &'static str = "tweet AS item ON item.namespace = $4 AND item.id = node.id \
         LEFT JOIN account_row AS profile ON profile.tweet = item.key";
    const LISTS: &'static str = "tweet";
    const TWIN: &'static str = "edge_row AS edge WHERE edge.tweet = twin.list AND edge.member_key = twin.member \
         AND edge.first_page = twin.first_page";
}

impl Dialect for sqlx::Postgres {
    const EDGES: &'static str = "edge";
    const LIST: (&'static str, &'static str) = ("edge.namespace", "edge.id");
    const ORDER: &'static str = "edge.list, edge.member_number, edge.page_number";
    const GIVEN: &'static str =
        "SELECT value COLLATE \"C\" AS id FROM json_array_elements_text(CAST($5 AS json)) AS given (value)";
    const PROFILE: &'static str = "account AS profile ON profile.namespace = $4 AND profile.id = node.id";
    const LISTS: &'static str = "list_owner";
    const TWIN: &'static str = "edge WHERE edge.list = twin.list AND edge.member_key = twin.member \
         AND edge.first_page = twin.first_page";
}

/// Columns of [`EdgeRow`] in the view of edges, beside the owner. A crawl under way may already have closed an edge: the
/// time of its newest page then acts as its end.
const COLUMNS: &str = "edge.member, edge.appeared_after, edge.appeared_by, edge.followed_at, edge.vanished_after, \
     COALESCE(edge.vanished_by, (SELECT newest_at FROM list_crawl WHERE key = edge.closed_by)) AS vanished_by, \
     edge.cause, edge.seen_at, edge.member_number, edge.page_number, CAST(edge.closed_by AS BIGINT) AS end_number";

const EXISTED_AT: &str = " AND COALESCE(edge.followed_at <= $6, edge.appeared_after < $6, TRUE) \
     AND (edge.closed_by IS NULL OR COALESCE(edge.vanished_by > $6, TRUE))";

/// Statements of a graph. `$1` and `$2` are the lists of followers and friends, `$3` the network, `$4` its profiles,
/// `$5` the given ids as JSON, `$6` the moment, if there is one.
struct Statements {
    nodes: String,
    intervals: String,
}

impl Statements {
    fn new<D: Dialect>(wanted: &GraphFilter) -> Self {
        let (namespace, owner) = D::LIST;
        let at = wanted.at.map_or("", |_| EXISTED_AT);
        // A follow on a friend's list counts only if the list of the followers does not show it.
        let twin = format!(
            "EXISTS (SELECT 1 FROM {lists} AS other JOIN list_edge AS twin ON twin.list = other.key \
             JOIN list_account AS who ON who.key = twin.member WHERE other.namespace = $1 AND other.id = edge.member \
             AND who.network = (SELECT key FROM list_network WHERE name = $3) AND who.id = {owner}{same})",
            lists = D::LISTS,
            same = wanted.at.map_or(String::new(), |_| format!(" AND EXISTS (SELECT 1 FROM {}{at})", D::TWIN)),
        );
        let found = format!("{namespace} IN ($1, $2){at}");
        let keys = |ids: &str| {
            format!(
                "edge.member_key IN (SELECT key FROM list_account \
                 WHERE network = (SELECT key FROM list_network WHERE name = $3) AND id IN (SELECT id FROM {ids}))"
            )
        };
        let edges = D::EDGES;
        let near = match &wanted.scope {
            Scope::All | Scope::Among(_) => "SELECT id FROM given".to_owned(),
            Scope::Around(_) => format!(
                "SELECT id FROM given UNION SELECT edge.member FROM {edges} WHERE {found} \
                 AND {owner} IN (SELECT id FROM given) UNION SELECT {owner} FROM {edges} WHERE {found} AND {}",
                keys("given")
            ),
        };
        let scope = match &wanted.scope {
            Scope::All => String::new(),
            _ => format!(" AND {owner} IN (SELECT id FROM near) AND {}", keys("near")),
        };
        let with = format!("WITH given AS MATERIALIZED ({}), near AS MATERIALIZED ({near})", D::GIVEN);
        let chosen = format!("FROM {edges} WHERE {found}{scope} AND NOT ({namespace} = $2 AND {twin})");
        Self {
            nodes: format!(
                "{with}, chosen AS MATERIALIZED (SELECT {owner} AS owner, edge.member AS member {chosen}) \
                 SELECT node.id, profile.handle, profile.display_name, profile.state, profile.followers, \
                 profile.following, profile.posts, EXISTS (SELECT 1 FROM {} AS list \
                 JOIN list_crawl AS crawl ON crawl.list = list.key WHERE list.namespace IN ($1, $2) \
                 AND list.id = node.id AND (crawl.found > 0 OR crawl.ended IN ('complete', 'withheld'))) AS is_read, \
                 node.id IN (SELECT id FROM given) AS is_given \
                 FROM (SELECT owner AS id FROM chosen UNION SELECT member FROM chosen \
                 UNION SELECT id FROM given) AS node LEFT JOIN {}",
                D::LISTS,
                D::PROFILE
            ),
            intervals: format!(
                "{with} SELECT edge.direction, {owner} AS owner, {COLUMNS} {chosen} ORDER BY {}",
                D::ORDER
            ),
        }
    }
}

#[derive(sqlx_macros::FromRow)]
pub(super) struct IntervalRow {
    direction: String,
    #[sqlx(flatten)]
    row: EdgeRow,
}

impl IntervalRow {
    fn interval(self, at: Option<Millis>) -> FollowInterval {
        let member = self.row.into_member(at.unwrap_or_default());
        let (edge, surely) = (member.edge, member.surely);
        let (list, [follower, followed]) = match self.direction.as_str() {
            "follower" => (KINDS[0], [&edge.member, &edge.owner]),
            _ => (KINDS[1], [&edge.owner, &edge.member]),
        };
        FollowInterval { follower: follower.clone(), followed: followed.clone(), list, surely, edge }
    }
}

/// Reads a graph in the caller's transaction, which gives one view of the store.
pub(super) async fn read<D>(connection: &mut D::Connection, wanted: &GraphFilter, visit: PartVisitor<'_>) -> Result<()>
where
    D: Dialect,
    D::Arguments: IntoArguments<D>,
    for<'c> &'c mut D::Connection: Executor<'c, Database = D>,
    for<'q> String: Encode<'q, D> + Type<D>,
    for<'q> i64: Encode<'q, D> + Type<D>,
    for<'r> Node: FromRow<'r, D::Row>,
    for<'r> IntervalRow: FromRow<'r, D::Row>,
{
    let Statements { nodes, intervals } = Statements::new::<D>(wanted);
    let list = |kind: &str| {
        let own = wanted.lists.iter().find(|list| list.split_once(':').is_some_and(|(of, _)| of == kind));
        own.cloned().unwrap_or_default()
    };
    let network = wanted.lists.first().map(|list| network_of(list).to_owned()).unwrap_or_default();
    let given = match &wanted.scope {
        Scope::All => "[]".to_owned(),
        Scope::Among(ids) | Scope::Around(ids) => serde_json::json!(ids).to_string(),
    };
    let bound = |text: String| {
        let query = sqlx::query::<D>(AssertSqlSafe(text)).bind(list(KINDS[0])).bind(list(KINDS[1]));
        let query = query.bind(network.clone()).bind(wanted.profiles.clone()).bind(given.clone());
        if let Some(at) = wanted.at { query.bind(at) } else { query }
    };
    let mut rows = bound(nodes).fetch(&mut *connection);
    while let Some(row) = rows.try_next().await? {
        if visit(GraphPart::Node(Node::from_row(&row)?)).is_break() {
            return Ok(());
        }
    }
    drop(rows);
    let mut rows = bound(intervals).fetch(&mut *connection);
    while let Some(row) = rows.try_next().await? {
        let interval = IntervalRow::from_row(&row)?.interval(wanted.at);
        if visit(GraphPart::Interval(interval)).is_break() {
            return Ok(());
        }
    }
    Ok(())
}
