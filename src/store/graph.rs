//! The graph of who follows whom, for a file: all accounts, then all follows, from one view of the store, row by row.

use std::fmt::Debug;
use std::ops::ControlFlow;

use async_trait::async_trait;
use futures::TryStreamExt;
use sqlx::{AssertSqlSafe, Database, Encode, Executor, FromRow, IntoArguments, Type};

use super::Result;
use super::edges::{Edge, EdgeRow, KINDS, edge_columns, existed, network_of};
use crate::base::clock::Millis;

/// The part of the graph that is wanted.
#[derive(Debug, Clone, Default)]
pub struct GraphWanted {
    /// The pipelines of one network's lists: that of followers, that of friends, or both. A follow that both lists show is
    /// taken from that of the followers.
    pub lists: Vec<String>,
    /// The pipeline of the same network's profiles.
    pub profiles: String,
    /// Only follows at this moment, surely or perhaps, ms since the epoch; `None`: of all times.
    pub at: Option<Millis>,
    /// The accounts that are wanted.
    pub scope: Scope,
}

/// The accounts of a graph.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Scope {
    /// All.
    #[default]
    All,
    /// These, by their ids.
    Among(Vec<String>),
    /// These, and all that follow one of them or that one of them follows.
    Around(Vec<String>),
}

/// An account of the graph, with what its profile states.
#[derive(Debug, Clone, Default, PartialEq, Eq, sqlx_macros::FromRow)]
pub struct Node {
    /// Its id.
    pub id: String,
    /// The handle, without `@`.
    pub handle: Option<String>,
    /// The name that is shown.
    pub display_name: Option<String>,
    /// Its state, as the network tells it.
    pub state: Option<String>,
    /// The number of its followers.
    pub followers: Option<i64>,
    /// The number of accounts that it follows.
    pub following: Option<i64>,
    /// The number of its posts.
    pub posts: Option<i64>,
    /// True if a list of it could be read: then a follow that is missing did not exist, as far as that crawl came.
    pub is_read: bool,
    /// True if it is one of those that were given.
    pub is_given: bool,
}

/// A time for which one account followed another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interval {
    /// The account that follows.
    pub follower: String,
    /// The account that is followed.
    pub followed: String,
    /// The list that showed it: `followers` or `friends`.
    pub list: &'static str,
    /// False if it existed perhaps at the wanted moment ([`MemberAt::surely`](super::MemberAt::surely)).
    pub surely: bool,
    /// The edge.
    pub edge: Edge,
}

/// A part of the graph.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GraphPart {
    /// An account. Each comes once, and before all intervals.
    Node(Node),
    /// An interval. Those of the same two accounts follow one another, the earlier first.
    Interval(Interval),
}

/// Takes the parts; a break ends the reading.
pub type Visit<'a> = &'a mut (dyn FnMut(GraphPart) -> ControlFlow<()> + Send);

/// Reads graphs.
#[async_trait]
pub trait Graphs: Send + Sync + Debug {
    /// Reads a graph, part by part, as it is at this moment.
    ///
    /// # Errors
    /// As those of [`Lifecycle`](super::Lifecycle).
    async fn graph(&self, wanted: &GraphWanted, visit: Visit<'_>) -> Result<()>;
}

/// A database's words for the same.
pub(super) trait Dialect: Database {
    /// Where edges are, as `edge`, and their lists.
    const EDGES: &'static str;
    /// The namespace of an edge's list, and its owner.
    const LIST: (&'static str, &'static str);
    /// The columns of an edge with that owner.
    const COLUMNS: &'static str;
    /// The order in which the intervals of two accounts follow one another.
    const ORDER: &'static str;
    /// The ids in the JSON of `$5`.
    const GIVEN: &'static str;
    /// The profile of `node`, as `profile`.
    const PROFILE: &'static str;
    /// The table of lists with their keys, namespaces and ids.
    const LISTS: &'static str;
    /// The condition that `edge` is the edge `twin`.
    const TWIN: &'static str;
}

impl Dialect for sqlx::Sqlite {
    const EDGES: &'static str = "edge_row AS edge JOIN tweet ON tweet.key = edge.tweet";
    const LIST: (&'static str, &'static str) = ("tweet.namespace", "tweet.id");
    const COLUMNS: &'static str = edge_columns!("tweet.id");
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
    const COLUMNS: &'static str = edge_columns!("edge.id");
    const ORDER: &'static str = "edge.list, edge.member_number, edge.page_number";
    const GIVEN: &'static str =
        "SELECT value COLLATE \"C\" AS id FROM json_array_elements_text(CAST($5 AS json)) AS given (value)";
    const PROFILE: &'static str = "account AS profile ON profile.namespace = $4 AND profile.id = node.id";
    const LISTS: &'static str = "list_owner";
    const TWIN: &'static str = "edge WHERE edge.list = twin.list AND edge.member_key = twin.member \
         AND edge.first_page = twin.first_page";
}

/// The statements of a graph: `$1` and `$2` are the lists of followers and of friends, `$3` is the network, `$4` its profiles,
/// `$5` the given ids as JSON, `$6` the moment, if there is one.
struct Statements {
    nodes: String,
    intervals: String,
}

impl Statements {
    fn new<D: Dialect>(wanted: &GraphWanted) -> Self {
        let (namespace, owner) = D::LIST;
        let at = wanted.at.map_or("", |_| concat!(" AND ", existed!("$6")));
        // A friend's list shows it, too, where the list of the followers does not.
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
            intervals: format!("{with} SELECT edge.direction, {} {chosen} ORDER BY {}", D::COLUMNS, D::ORDER),
        }
    }
}

/// An interval, as its row has it.
#[derive(sqlx_macros::FromRow)]
pub(super) struct IntervalRow {
    direction: String,
    #[sqlx(flatten)]
    row: EdgeRow,
}

impl IntervalRow {
    fn interval(self, at: Option<Millis>) -> Interval {
        let member = self.row.at(at.unwrap_or_default());
        let (edge, surely) = (member.edge, member.surely);
        let (list, [follower, followed]) = match self.direction.as_str() {
            "follower" => (KINDS[0], [&edge.member, &edge.owner]),
            _ => (KINDS[1], [&edge.owner, &edge.member]),
        };
        Interval { follower: follower.clone(), followed: followed.clone(), list, surely, edge }
    }
}

/// Reads a graph in the caller's transaction, which has one view of all.
pub(super) async fn read<D>(connection: &mut D::Connection, wanted: &GraphWanted, visit: Visit<'_>) -> Result<()>
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
