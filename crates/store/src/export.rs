//! Data out: the store's content, table by table and row by row.
//!
//! One statement reads a whole table, so the rows are one consistent view, however long the reading takes. Rows are passed on
//! as they come, in the order of a key. So a reader that was killed continues after the last row that it kept.

mod table;
mod tables;

use std::fmt::Debug;
use std::ops::Range;

use async_trait::async_trait;
use futures::StreamExt;
use futures::stream::BoxStream;
use sqlx::query::Query;
use sqlx::{AssertSqlSafe, ColumnIndex, Database, Decode, Encode, Executor, IntoArguments, Pool, Row, Type};

use self::table::JoinedTable;
pub use self::table::{Column, ColumnKind, ID_FIELDS, Table};
use self::tables::STATE;
pub use self::tables::{ACCOUNTS, COMMUNITIES, EDGES, HANDLES, HISTORIES, ITEMS, MEDIA, OBJECTS, POSTS, REPLIES};
use super::{Result, StoreError};
use engine::base::clock::Millis;
use networks::model::pipeline_id::PipelineId;
use networks::model::plain_text::plain_text;
use networks::model::provider::Provider;
use networks::model::words::stored_as_word;

/// State of an item in exports: the stored state, with *ended* split by the newest answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExportState {
    Live,
    Unavailable,
    /// *Ended*; its newest answer found it.
    Ended,
    /// *Ended*; its newest answer missed it.
    Missing,
    Dead,
}

impl ExportState {
    pub const ALL: [Self; 5] = [Self::Live, Self::Unavailable, Self::Ended, Self::Missing, Self::Dead];

    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Live => "live",
            Self::Unavailable => "unavailable",
            Self::Ended => "ended",
            Self::Missing => "missing",
            Self::Dead => "dead",
        }
    }
}

stored_as_word!(ExportState, "state");

#[derive(Debug, Clone, Default)]
pub struct ExportFilter {
    /// Pipeline: `tweet:update`.
    pub namespace: String,
    /// Empty: any state.
    pub states: Vec<ExportState>,
    /// Earliest creation time, inclusive, ms since the epoch.
    pub since: Option<Millis>,
    /// Latest creation time, exclusive, ms since the epoch.
    pub until: Option<Millis>,
    /// Language codes of the network; empty: any language.
    pub languages: Vec<String>,
    /// Key of the last row that the caller has.
    pub after: Option<Vec<Cell>>,
}

#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(untagged)]
pub enum Cell {
    None,
    Flag(bool),
    /// A whole number; for a time, ms since the epoch.
    Number(i64),
    Text(String),
}

#[derive(Debug, Clone, PartialEq)]
pub struct ExportedRow {
    pub key: Vec<Cell>,
    pub cells: Vec<Cell>,
}

pub type RowStream<'a> = BoxStream<'a, Result<ExportedRow>>;

#[async_trait]
pub trait ExportTables: Send + Sync + Debug {
    /// Streams the selected rows of a table in the order of their keys, as one consistent view. After an error of the
    /// stream, a caller that continues after the last row loses nothing.
    fn rows<'a>(&'a self, table: &'a Table, wanted: &ExportFilter) -> RowStream<'a>;

    async fn count(&self, table: &Table, wanted: &ExportFilter) -> Result<u64>;
}

impl Table {
    /// Returns true if rows are selected by state, language and date of their items. Other tables have their own.
    #[must_use]
    pub fn has_item_filters(&self) -> bool {
        ITEMS.iter().chain(POSTS).any(|known| known.name == self.name)
    }

    fn sql(&self, column: &Column) -> String {
        let of = if self.beside.is_some() { "beside" } else { "tweet" };
        column.sql.map_or_else(|| format!("{of}.{}", column.name), str::to_owned)
    }

    /// Key by which the database reads its rows fastest: their own order.
    fn key<D: Dialect>(&self) -> Vec<(String, ColumnKind)> {
        let (name, name_beside, kind) = D::KEY;
        let Some(JoinedTable { key, all: false, .. }) = self.beside else { return vec![(name.to_owned(), kind)] };
        let own = key.iter().map(|(name, kind)| (format!("beside.{name}"), *kind));
        std::iter::once((name_beside.to_owned(), kind)).chain(own).collect()
    }
}

pub(super) trait Dialect: Database {
    /// Key of an item's row: its column, that column in a table beside, and its type.
    const KEY: (&'static str, &'static str, ColumnKind);

    fn join(table: &str) -> String;

    /// The rows of all items, each joined with its row in a table beside, if it has one.
    fn left_join(table: &str) -> String;

    /// Condition for the rows of the namespace (first value) by this key. It forces the database to read in the order
    /// of the key. Sorting millions of rows would delay the first one.
    fn of_namespace(key: &str) -> String;
}

impl Dialect for sqlx::Sqlite {
    const KEY: (&'static str, &'static str, ColumnKind) = ("tweet.key", "beside.tweet", ColumnKind::Number);

    fn join(table: &str) -> String {
        format!("{table}_row AS beside CROSS JOIN tweet ON tweet.key = beside.tweet") // in this order
    }

    fn left_join(table: &str) -> String {
        format!("tweet LEFT JOIN {table}_row AS beside ON beside.tweet = tweet.key")
    }

    fn of_namespace(key: &str) -> String {
        format!("{key} IN (SELECT key FROM tweet WHERE namespace = $1)")
    }
}

impl Dialect for sqlx::Postgres {
    const KEY: (&'static str, &'static str, ColumnKind) = ("tweet.id", "beside.id", ColumnKind::Text);

    fn join(table: &str) -> String {
        format!("{table} AS beside JOIN tweet ON tweet.namespace = beside.namespace AND tweet.id = beside.id")
    }

    fn left_join(table: &str) -> String {
        format!("tweet LEFT JOIN {table} AS beside ON beside.namespace = tweet.namespace AND beside.id = tweet.id")
    }

    fn of_namespace(_: &str) -> String {
        "tweet.namespace = $1".to_owned()
    }
}

pub(super) fn stream_rows<'a, D>(pool: &'a Pool<D>, table: &'a Table, wanted: &ExportFilter) -> RowStream<'a>
where
    D: Dialect,
    D::Arguments: IntoArguments<D>,
    for<'c> &'c Pool<D>: Executor<'c, Database = D>,
    usize: ColumnIndex<D::Row>,
    for<'q> String: Encode<'q, D> + Decode<'q, D> + Type<D>,
    for<'q> i64: Encode<'q, D> + Decode<'q, D> + Type<D>,
    for<'q> bool: Decode<'q, D> + Type<D>,
{
    let (key, kinds): (Vec<String>, Vec<ColumnKind>) = table.key::<D>().into_iter().unzip();
    let Statement { text, values, .. } = Statement::new::<D>(table, &key, wanted);
    let query = bind_all(sqlx::query::<D>(AssertSqlSafe(text)), values);
    let provider = PipelineId::parse(&wanted.namespace).map(|pipeline| pipeline.provider);
    query.fetch(pool).map(move |row| decode_row::<D>(&kinds, table.columns, provider.as_ref(), &row?)).boxed()
}

pub(super) async fn count<D>(pool: &Pool<D>, table: &Table, wanted: &ExportFilter) -> Result<u64>
where
    D: Dialect,
    D::Arguments: IntoArguments<D>,
    for<'c> &'c Pool<D>: Executor<'c, Database = D>,
    usize: ColumnIndex<D::Row>,
    for<'q> String: Encode<'q, D> + Type<D>,
    for<'q> i64: Encode<'q, D> + Decode<'q, D> + Type<D>,
{
    let (key, _): (Vec<String>, Vec<ColumnKind>) = table.key::<D>().into_iter().unzip();
    let Statement { text, values, rows } = Statement::new::<D>(table, &key, wanted);
    let text = format!("SELECT COUNT(*){}", &text[rows]);
    let row = bind_all(sqlx::query::<D>(AssertSqlSafe(text)), values).fetch_one(pool).await?;
    Ok(u64::try_from(row.try_get::<i64, _>(0)?).unwrap_or(0))
}

fn bind_all<D>(query: Query<'_, D, D::Arguments>, values: Vec<Cell>) -> Query<'_, D, D::Arguments>
where
    D: Database,
    for<'q> String: Encode<'q, D> + Type<D>,
    for<'q> i64: Encode<'q, D> + Type<D>,
{
    values.into_iter().fold(query, |query, value| match value {
        Cell::Number(number) => query.bind(number),
        Cell::Text(text) => query.bind(text),
        // Flags and missing values do not occur here: no key and no selection has them.
        Cell::Flag(flag) => query.bind(i64::from(flag)),
        Cell::None => query.bind(String::new()),
    })
}

struct Statement {
    text: String,
    /// Its part from FROM to the order: a column may be a statement of its own.
    rows: Range<usize>,
    values: Vec<Cell>,
}

impl Statement {
    fn new<D: Dialect>(table: &Table, key: &[String], wanted: &ExportFilter) -> Self {
        let tables = match table.beside {
            None => "tweet".to_owned(),
            Some(JoinedTable { table, all: true, .. }) => D::left_join(table),
            Some(JoinedTable { table, .. }) => D::join(table),
        };
        let columns: Vec<String> = table.columns.iter().map(|column| table.sql(column)).collect();
        let (of_namespace, key) = (D::of_namespace(&key[0]), &key.join(", "));
        let select = format!("SELECT {key}, {}", columns.join(", "));
        let text = format!("{select} FROM {tables} WHERE {of_namespace}");
        let mut sql = Self { text, rows: select.len()..0, values: vec![Cell::Text(wanted.namespace.clone())] };
        if let Some(only) = table.only {
            sql.push(" AND ").push(only);
        }
        let states = wanted.states.iter().map(|state| state.as_str().to_owned());
        sql.push_in_list(STATE, states.collect());
        sql.push_languages(&wanted.languages);
        for (moment, relation) in
            [(wanted.since, " AND tweet.created_at >= "), (wanted.until, " AND tweet.created_at < ")]
        {
            if let Some(moment) = moment {
                sql.push(relation).bind(Cell::Number(moment));
            }
        }
        if let Some(after) = &wanted.after {
            sql.push(" AND (").push(key).push(") > (").list(after.clone()).push(")");
        }
        sql.rows.end = sql.text.len();
        sql.push(" ORDER BY ").push(key);
        sql
    }

    fn push(&mut self, words: &str) -> &mut Self {
        self.text.push_str(words);
        self
    }

    fn bind(&mut self, value: Cell) -> &mut Self {
        self.values.push(value);
        let place = format!("${}", self.values.len());
        self.push(&place)
    }

    fn list(&mut self, values: Vec<Cell>) -> &mut Self {
        for (at, value) in values.into_iter().enumerate() {
            self.push(if at == 0 { "" } else { ", " }).bind(value);
        }
        self
    }

    fn push_in_list(&mut self, column: &str, values: Vec<String>) {
        if !values.is_empty() {
            let values = values.into_iter().map(Cell::Text).collect();
            self.push(" AND ").push(column).push(" IN (").list(values).push(")");
        }
    }

    /// A post may have several languages: `en,pt`. `LIKE` cannot match one of them: SQLite's ignores case, and a name
    /// may contain its wildcards.
    fn push_languages(&mut self, languages: &[String]) {
        for (at, language) in languages.iter().enumerate() {
            self.push(if at == 0 { " AND (" } else { " OR " }).push("REPLACE(',' || tweet.lang || ',', ',' || ");
            self.bind(Cell::Text(language.clone())).push(" || ',', '') <> ',' || tweet.lang || ','");
        }
        if !languages.is_empty() {
            self.push(")");
        }
    }
}

fn decode_row<D>(
    key: &[ColumnKind],
    columns: &[Column],
    provider: Option<&Provider>,
    row: &D::Row,
) -> Result<ExportedRow>
where
    D: Dialect,
    usize: ColumnIndex<D::Row>,
    for<'r> String: Decode<'r, D> + Type<D>,
    for<'r> i64: Decode<'r, D> + Type<D>,
    for<'r> bool: Decode<'r, D> + Type<D>,
{
    let cell = |(at, kind)| {
        let cell = match kind {
            ColumnKind::Text | ColumnKind::Id | ColumnKind::ChangedValue => {
                row.try_get::<Option<String>, _>(at)?.map(Cell::Text)
            }
            ColumnKind::PlainText => row.try_get::<Option<String>, _>(at)?.map(|text| match provider {
                Some(provider) => Cell::Text(plain_text(&text, provider).into_owned()),
                None => Cell::Text(text),
            }),
            ColumnKind::Number | ColumnKind::Time => row.try_get::<Option<i64>, _>(at)?.map(Cell::Number),
            ColumnKind::Flag => row.try_get::<Option<bool>, _>(at)?.map(Cell::Flag),
        };
        Ok::<_, StoreError>(cell.unwrap_or(Cell::None))
    };
    let kinds = key.iter().copied().chain(columns.iter().map(|column| column.kind));
    let mut cells: Vec<Cell> = kinds.enumerate().map(cell).collect::<Result<_>>()?;
    let own = cells.split_off(key.len());
    Ok(ExportedRow { key: cells, cells: own })
}

#[cfg(test)]
mod tests {
    use sqlx::{Connection, Row as _, Sqlite, SqliteConnection};

    use super::*;
    use crate::sqlite::MIGRATIONS;

    /// Without statistics SQLite guesses row counts. It must still read rows in order without a sort. A sorted copy of
    /// all rows would delay the first one and fill a temporary file.
    #[tokio::test]
    async fn sqlite_sorts_no_rows() {
        let mut connection = SqliteConnection::connect("sqlite::memory:").await.unwrap();
        MIGRATIONS.run_direct(None, &mut connection, false).await.unwrap();
        let wanted = |after: usize| ExportFilter {
            namespace: "tweet:update".to_owned(),
            after: (after > 0).then(|| vec![Cell::Number(1); after]),
            ..ExportFilter::default()
        };
        for table in [ITEMS, POSTS, ACCOUNTS, MEDIA, EDGES, COMMUNITIES]
            .into_iter()
            .flatten()
            .chain([&HISTORIES, &REPLIES, &OBJECTS, &HANDLES])
        {
            let (key, _): (Vec<String>, Vec<ColumnKind>) = table.key::<Sqlite>().into_iter().unzip();
            for after in [0, key.len()] {
                let sql = Statement::new::<Sqlite>(table, &key, &wanted(after)).text;
                let plan = sqlx::query(AssertSqlSafe(format!("EXPLAIN QUERY PLAN {sql}")));
                let plan = plan.fetch_all(&mut connection).await.unwrap();
                let steps: Vec<String> = plan.iter().map(|step| step.get("detail")).collect();
                assert!(!steps.iter().any(|step| step.contains("TEMP B-TREE")), "{}: {sql}\n{steps:#?}", table.name);
            }
        }
    }
}
