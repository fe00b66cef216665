//! Lists of followers in both stores: bytes an edge, edges saved a second, a crawl of a long list that finds changes, and the
//! questions; beside a bare table of texts, each edge a row with its two ids, in the same databases.
//!
//! `EDGES=5000000 cargo bench -- edges` sets the number of edges; a fifth of them is one list, at most [`LONGEST`]. `STORE=postgresql`
//! or `STORE=sqlite` measures one store: where there are very many edges, the disk has room for one at a time. The bare table has at
//! most [`MOST_BARE`] of them: it is the larger one, and slower with each further row.

use serde_json::{Value, json};
use sqlx::{AssertSqlSafe, Connection, PgConnection, SqliteConnection};
use tempfile::TempDir;
use twitter_updater::base::clock::{Millis, Stopwatch};
use twitter_updater::store::{
    ClosingLimit, CrawlKind, EdgeChange, EdgePage, Edges, End, Lifecycle, ListedMember, NewCrawl, NewItem, Next,
    PostgresStore, SqliteStore, Way,
};

use crate::Size;
use crate::pipeline::round;
use crate::report::{Report, Table, machine};
use crate::servers::{Durability, Postgres};

const NS: &str = "followers:twitter";
const T: Millis = 1_700_000_000_000;
const HOUR: Millis = 3_600_000;
/// Members of a page, as of v1.1.
const PAGE: usize = 5_000;
/// The longest list.
const LONGEST: u64 = 1_000_000;
/// Edges of the bare table, at the most: the long list, and the short ones that fit.
const MOST_BARE: u64 = 10_000_000;
/// How often a long run says how far it is.
const TELL_EVERY: std::time::Duration = std::time::Duration::from_secs(60);
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(300);

/// The lists: one long, many short ones, of accounts that are on some four lists each.
#[derive(Debug, Clone, Copy)]
struct World {
    long: u64,
    short: u64,
    lists: u64,
    accounts: u64,
}

impl World {
    fn new(edges: u64) -> Self {
        let (long, short) = ((edges / 5).min(LONGEST), (edges / 50).min(10_000));
        Self { long, short, lists: (edges - long) / short, accounts: edges / 4 }
    }

    fn edges(self) -> u64 {
        self.long + self.short * self.lists
    }

    /// The lists with their members, the short ones first.
    fn lists(self) -> impl Iterator<Item = (u64, u64)> {
        (1..=self.lists).map(move |list| (list, self.short)).chain([(0, self.long)])
    }

    /// The same with so many short lists that the bare table holds them.
    fn bare(self) -> Self {
        Self { lists: self.lists.min(MOST_BARE.saturating_sub(self.long) / self.short), ..self }
    }

    /// The id of an account: its digits say nothing of its number.
    fn id(n: u64) -> String {
        (1_000_000_000_000_000_000 + n.wrapping_mul(0x9E37_79B9_7F4A_7C15) % 700_000_000_000_000_000).to_string()
    }

    /// Members of a list in an order of its own, from that place on.
    fn members(self, list: u64, from: u64, count: u64) -> impl Iterator<Item = String> {
        // A prime above any number of accounts: each once.
        let (accounts, step) = (self.accounts, 4_294_967_291 % self.accounts.max(2));
        (from..from + count).map(move |n| Self::id((list * 7_919 + n * step) % accounts))
    }
}

/// Both stores as the bench needs them.
trait Store: Lifecycle + Edges {}
impl<S: Lifecycle + Edges> Store for S {}

/// A bare table in the same database, and the sizes of tables with their indexes.
enum Beside {
    Server(Box<PgConnection>),
    File(Box<SqliteConnection>),
}

impl Beside {
    async fn run(&mut self, sql: &str) {
        match self {
            Self::Server(of) => drop(sqlx::raw_sql(AssertSqlSafe(sql.to_owned())).execute(&mut **of).await.unwrap()),
            Self::File(of) => drop(sqlx::raw_sql(AssertSqlSafe(sql.to_owned())).execute(&mut **of).await.unwrap()),
        }
    }

    async fn make(&mut self) {
        self.run(
            "CREATE TABLE bare (owner TEXT NOT NULL, member TEXT NOT NULL, since BIGINT NOT NULL, seen BIGINT NOT NULL, \
             PRIMARY KEY (owner, member)); CREATE INDEX bare_by_member ON bare (member)",
        )
        .await;
    }

    async fn insert(&mut self, owner: &str, members: &[String]) {
        match self {
            Self::Server(of) => {
                let insert = "INSERT INTO bare SELECT $1, member, $3, $3 FROM UNNEST($2::text[]) AS given (member) \
                              ON CONFLICT (owner, member) DO UPDATE SET seen = excluded.seen";
                sqlx::query(insert).bind(owner).bind(members).bind(T).execute(&mut **of).await.unwrap();
            }
            Self::File(of) => {
                let insert = "INSERT INTO bare SELECT ?1, value, ?3, ?3 FROM json_each(?2) WHERE TRUE \
                              ON CONFLICT (owner, member) DO UPDATE SET seen = excluded.seen";
                let members = Value::from_iter(members.iter().map(String::as_str)).to_string();
                sqlx::query(insert).bind(owner).bind(members).bind(T).execute(&mut **of).await.unwrap();
            }
        }
    }

    /// Bytes of a table with its indexes.
    async fn bytes(&mut self, table: &str) -> f64 {
        match self {
            Self::Server(of) => sqlx::query_scalar("SELECT pg_total_relation_size($1::regclass)::float8")
                .bind(table)
                .fetch_one(&mut **of)
                .await
                .unwrap(),
            Self::File(of) => {
                let bytes = "SELECT CAST(SUM(pgsize) AS REAL) FROM dbstat WHERE aggregate = TRUE AND name IN \
                             (SELECT name FROM sqlite_schema WHERE tbl_name = ?1)";
                sqlx::query_scalar(bytes).bind(table).fetch_one(&mut **of).await.unwrap()
            }
        }
    }
}

/// Reads lists page by page, as a crawl does; seconds, and those of the last page of the last list.
async fn crawl(store: &dyn Store, owner: u64, at: Millis, members: Vec<String>) -> (f64, f64) {
    let owner = World::id(owner);
    let recorded = NewItem { id: owner.clone(), created_at: None, next_due: Some(T), content: None, read_at: None };
    store.record(NS, T, &Way::new("bench"), &[recorded]).await.unwrap();
    let new = NewCrawl { kind: CrawlKind::Complete, at, stated_total: None };
    let (watch, mut last) = (Stopwatch::start(), 0.0);
    let crawl = store.begin_crawl(NS, &owner, &new).await.unwrap().unwrap();
    let pages: Vec<&[String]> = members.chunks(PAGE).collect();
    for (n, page) in pages.iter().enumerate() {
        let next = if n + 1 == pages.len() {
            Next::End(End::Complete(ClosingLimit { share: 0.5, least: 100 }))
        } else {
            Next::Page((n + 1).to_string())
        };
        let members = page.iter().map(|id| ListedMember { id: id.clone(), followed_at: None }).collect();
        let cursor = (n > 0).then(|| n.to_string());
        let (asked_at, answered_at) = (at + n as Millis, at + n as Millis + 1);
        let page = EdgePage { crawl: crawl.number, cursor, members, unreadable: 0, next, asked_at, answered_at };
        let watch = Stopwatch::start();
        store.save_edges(NS, &owner, &page).await.unwrap().unwrap();
        last = watch.elapsed().as_secs_f64();
    }
    (watch.elapsed().as_secs_f64(), last)
}

/// See the module.
pub async fn run(size: Size) -> Report {
    let edges = std::env::var("EDGES").ok().and_then(|edges| edges.parse().ok());
    let world = World::new(edges.unwrap_or_else(|| size.pick(5_000_000, 10_000)));
    let mut sizes = Table::new("bytes", &["store", "what", "rows", "bytes a row", "MB"]);
    let mut speeds = Table::new("speed", &["store", "what", "edges", "s", "edges/s"]);
    let only = std::env::var("STORE").ok();
    for (word, name) in [("postgresql", "PostgreSQL"), ("sqlite", "one SQLite file")] {
        if only.as_ref().is_some_and(|only| only != word) {
            continue;
        }
        let folder = TempDir::new().unwrap();
        if word == "postgresql" {
            let server = Postgres::start(Durability::Flushed).await;
            let store = PostgresStore::connect(&server.url().into(), 4, PATIENCE).await.unwrap();
            store.migrate().await.unwrap();
            let beside = Beside::Server(Box::new(PgConnection::connect(&server.url()).await.unwrap()));
            measure(name, &store, beside, world, &mut sizes, &mut speeds).await;
        } else {
            let file = folder.path().join("store.db");
            let store = SqliteStore::open(&file, PATIENCE).await.unwrap();
            store.migrate().await.unwrap();
            let options = sqlx::sqlite::SqliteConnectOptions::new().filename(&file).busy_timeout(PATIENCE);
            // As the product's own writer has it.
            let options = options.pragma("cache_size", "-65536").pragma("wal_autocheckpoint", "2048");
            let beside = Beside::File(Box::new(SqliteConnection::connect_with(&options).await.unwrap()));
            measure(name, &store, beside, world, &mut sizes, &mut speeds).await;
        }
    }
    let about = vec![
        format!(
            "{}; {} edges: a list of {} and {} of {}, of {} accounts; ids and members in random order, {PAGE} a page",
            machine(),
            world.edges(),
            world.long,
            world.lists,
            world.short,
            world.accounts
        ),
        "Bare: a table of owner, member (texts) and two times, primary key and an index on the member.".to_owned(),
        if cfg!(debug_assertions) { "A build without optimisation." } else { "A release build." }.to_owned(),
    ];
    Report { about, tables: vec![sizes, speeds] }
}

async fn measure(
    name: &str,
    store: &dyn Store,
    mut beside: Beside,
    world: World,
    sizes: &mut Table,
    speeds: &mut Table,
) {
    let mut speed = |what: &str, edges: u64, seconds: f64| {
        let rate = (edges as f64 / seconds).round();
        speeds.row(vec![json!(name), json!(what), json!(edges), json!((seconds * 1e4).round() / 1e4), json!(rate)]);
    };
    let (mut seconds, mut saved, mut told) = (0.0, 0, Stopwatch::start());
    for (list, members) in world.lists() {
        let members: Vec<String> = world.members(list, 0, members).collect();
        saved += members.len() as u64;
        seconds += crawl(store, list, T + list as Millis * HOUR, members).await.0;
        if told.elapsed() > TELL_EVERY {
            eprintln!("{name}: {saved} of {} edges after {seconds:.0} s", world.edges());
            told = Stopwatch::start();
        }
    }
    speed("first crawls", world.edges(), seconds);
    beside.make().await;
    let watch = Stopwatch::start();
    for (list, members) in world.bare().lists() {
        let members: Vec<String> = world.members(list, 0, members).collect();
        for page in members.chunks(PAGE) {
            beside.insert(&World::id(list), page).await;
        }
    }
    speed("the same, bare", world.bare().edges(), watch.elapsed().as_secs_f64());
    if let Beside::Server(of) = &mut beside {
        sqlx::raw_sql("VACUUM ANALYZE").execute(&mut **of).await.unwrap();
    }
    for (table, rows) in [
        ("list_edge", world.edges()),
        ("list_page", world.edges()),
        ("list_account", world.accounts),
        ("bare", world.bare().edges()),
    ] {
        let bytes = beside.bytes(table).await;
        let per_row = (bytes / rows as f64 * 10.0).round() / 10.0;
        sizes.row(vec![json!(name), json!(table), json!(rows), json!(per_row), json!(round(bytes / 1e6))]);
    }

    // A hundredth has gone, a hundredth has come.
    let changed = world.long / 100;
    let members: Vec<String> =
        world.members(0, world.long, changed).chain(world.members(0, 0, world.long - changed)).collect();
    let at = T + 100_000 * HOUR;
    let (seconds, last) = crawl(store, 0, at, members.clone()).await;
    speed("a second crawl of the long list", world.long, seconds);
    speed("of it the last page, which closes", changed, last);
    let watch = Stopwatch::start();
    for page in members.chunks(PAGE) {
        beside.insert(&World::id(0), page).await;
    }
    speed("the same, bare, without its end", world.long, watch.elapsed().as_secs_f64());

    let watch = Stopwatch::start();
    let members = store.members_at(NS, &World::id(1), T + 2 * HOUR, None, 1_000_000).await.unwrap();
    assert_eq!(members.len() as u64, world.short);
    speed("question: who followed a short list's owner then", world.short, watch.elapsed().as_secs_f64());
    let (watch, mut after, mut count) = (Stopwatch::start(), None, 0);
    loop {
        let page = store.members_at(NS, &World::id(0), at - HOUR, after, 10_000).await.unwrap();
        let Some(last) = page.last() else { break };
        (after, count) = (Some(last.place), count + page.len() as u64);
    }
    assert_eq!(count, world.long + changed, "those that have come may have been there");
    speed("question: the same of the long list, 10,000 a page", count, watch.elapsed().as_secs_f64());
    for change in [EdgeChange::Appeared, EdgeChange::Vanished] {
        let (watch, mut after, mut count) = (Stopwatch::start(), None, 0);
        loop {
            let week = (at, at + 7 * 24 * HOUR);
            let page = store.edge_changes(NS, change, week, after, 10_000).await.unwrap();
            let Some((last, _)) = page.last() else { break };
            (after, count) = (Some(*last), count + page.len() as u64);
        }
        assert_eq!(count, changed);
        let what = format!("question: what {change:?} in a week")
            .replace("Appeared", "appeared")
            .replace("Vanished", "vanished");
        speed(&what, count, watch.elapsed().as_secs_f64());
    }
    let ids: Vec<String> = (0..world.accounts.min(10_000)).map(World::id).collect();
    let watch = Stopwatch::start();
    let mutual = store.mutual_among("twitter", &ids, None).await.unwrap();
    speed(
        &format!("question: mutual among {} accounts, all owners with them", ids.len()),
        mutual.len() as u64,
        watch.elapsed().as_secs_f64(),
    );
}
