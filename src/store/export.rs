//! Data out: what the store holds, table by table, row by row.
//!
//! One statement reads a whole table, so what comes out is one view of it, however long it takes, and rows are handed on as
//! they come. They come in the order of a key, so that a reader that was killed goes on after the last row it kept.

use std::fmt::Debug;

use futures::StreamExt;
use futures::stream::BoxStream;
use sqlx::{AssertSqlSafe, ColumnIndex, Database, Decode, Encode, Executor, IntoArguments, Pool, Row, Type};

use super::{Result, StoreError};
use crate::base::clock::Millis;
use crate::model::post::TweetState;

/// What a value of a column is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Text.
    Text,
    /// A whole number.
    Number,
    /// A moment, ms since the epoch.
    Time,
    /// Yes or no.
    Flag,
}

/// A column of what comes out.
#[derive(Debug, Clone, Copy)]
pub struct Column {
    /// Its name.
    pub name: &'static str,
    /// What its values are.
    pub kind: Kind,
    /// Where it comes from: an expression both databases take.
    sql: &'static str,
    /// What it means.
    pub about: &'static str,
}

/// A table of what comes out. A pipeline names its own in
/// [`PipelineKind::tables`](crate::pipelines::kind::PipelineKind::tables).
#[derive(Debug, Clone, Copy)]
pub struct Table {
    /// Its name on the command line.
    pub name: &'static str,
    /// What a row is.
    pub about: &'static str,
    /// Its columns.
    pub columns: &'static [Column],
    /// Where rows come from; `tweet` is the row of the item to which they belong.
    sqlite: From,
    postgres: From,
    /// Which rows, beside what is asked for.
    only: Option<&'static str>,
}

/// Where rows come from, and the key by which they are read fastest: their own order in that database.
#[derive(Debug, Clone, Copy)]
struct From {
    tables: &'static str,
    key: &'static [Column],
}

/// Which rows are wanted.
#[derive(Debug, Clone, Default)]
pub struct Wanted {
    /// The pipeline: `tweet:update`.
    pub namespace: String,
    /// In these states; empty: in any.
    pub states: Vec<TweetState>,
    /// Made at this moment or later, ms since the epoch.
    pub since: Option<Millis>,
    /// Made before this moment, ms since the epoch.
    pub until: Option<Millis>,
    /// In these languages, as the network names them; empty: in any.
    pub languages: Vec<String>,
    /// Behind the row with this key.
    pub after: Option<Vec<Cell>>,
}

/// A value.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(untagged)]
pub enum Cell {
    /// Nothing is known.
    None,
    /// Yes or no.
    Flag(bool),
    /// A whole number; of a time, ms since the epoch.
    Number(i64),
    /// Text.
    Text(String),
}

/// A row, and the key behind which to go on.
#[derive(Debug, Clone, PartialEq)]
pub struct Exported {
    /// Its key.
    pub key: Vec<Cell>,
    /// Its values, in the order of the columns.
    pub cells: Vec<Cell>,
}

/// Rows as they are read.
pub type Rows<'a> = BoxStream<'a, Result<Exported>>;

/// What the store holds, for those who take it elsewhere.
pub trait Tables: Send + Sync + Debug {
    /// The wanted rows of a table, as they are all at this moment, in the order of their keys.
    ///
    /// # Errors
    /// Of the stream: as those of [`Lifecycle`](super::Lifecycle). Who goes on behind the last row has lost nothing.
    fn rows<'a>(&'a self, table: &'a Table, wanted: &Wanted) -> Rows<'a>;
}

const fn text(name: &'static str, sql: &'static str, about: &'static str) -> Column {
    Column { name, kind: Kind::Text, sql, about }
}

const fn number(name: &'static str, sql: &'static str, about: &'static str) -> Column {
    Column { name, kind: Kind::Number, sql, about }
}

const fn time(name: &'static str, sql: &'static str, about: &'static str) -> Column {
    Column { name, kind: Kind::Time, sql, about }
}

const fn flag(name: &'static str, sql: &'static str, about: &'static str) -> Column {
    Column { name, kind: Kind::Flag, sql, about }
}

const ID: Column = text("id", "tweet.id", "the id under which it is looked up");

const OF_ROWS: (From, From) = (
    From { tables: "tweet", key: &[number("", "tweet.key", "")] },
    From { tables: "tweet", key: &[text("", "tweet.id", "")] },
);

/// A table of items, a row each.
const fn items(
    name: &'static str,
    about: &'static str,
    columns: &'static [Column],
    only: Option<&'static str>,
) -> Table {
    Table { name, about, columns, sqlite: OF_ROWS.0, postgres: OF_ROWS.1, only }
}

/// What every kind of item has.
pub const ITEMS: &[Table] = &[
    items("ids", "an id that is kept fresh or was, whatever became of it", &[ID], None),
    items(
        "raw",
        "the newest object as the network sent it, as `twarc` writes it",
        &[text("raw", "tweet.raw", "JSON")],
        Some("tweet.raw <> ''"),
    ),
    items(
        "unavailable",
        "an item that the network does not return any more, or never did",
        &[
            ID,
            text("state", "tweet.state", "`unavailable`, `ended` or `dead`; `live` while a miss is not believed yet"),
            time("missing_since", "tweet.missing_since", "when the first of its misses was answered"),
            number("misses", "tweet.misses", "how often in a row it was not returned"),
            flag("was_found", "tweet.lookups > tweet.misses", "whether an answer ever had it"),
            text("reason", "tweet.reason", "why it is dead"),
        ],
        Some("(tweet.misses > 0 OR tweet.state IN ('unavailable', 'dead'))"),
    ),
    Table {
        name: "ways",
        about: "a way by which an item came",
        columns: &[
            ID,
            text("pipeline", "way.pipeline", "`enqueue`, `once`, `http`, `incoming`, `poll`, `stream`, `fan_out` …"),
            text("source", "way.source", "the name of a file, or of a source in the settings"),
            text("query", "way.query", "what that source asks for: a query, an account"),
            time("first_at", "way.first_at", "when it came by it first"),
        ],
        sqlite: From {
            tables: "tweet_way_row AS way JOIN tweet ON tweet.key = way.tweet",
            key: &[number("", "way.tweet", ""), text("", "way.pipeline", ""), text("", "way.source", "")],
        },
        postgres: From {
            tables: "tweet_way AS way JOIN tweet ON tweet.namespace = way.namespace AND tweet.id = way.id",
            key: &[text("", "way.id", ""), text("", "way.pipeline", ""), text("", "way.source", "")],
        },
        only: None,
    },
];

/// What posts have beside that.
pub const POSTS: &[Table] = &[
    items(
        "posts",
        "a post, as it is known now",
        &[
            ID,
            text(
                "state",
                "tweet.state",
                "`live`, `unavailable`, `ended` (too old to be looked up) or `dead` (set aside)",
            ),
            time("created_at", "tweet.created_at", "when it was made"),
            text("text", "tweet.text", "its text"),
            text("lang", "tweet.lang", "its language, as the network has it"),
            text("author_id", "tweet.author_id", "its author's id"),
            text("author_name", "tweet.author_name", "its author's handle"),
            number("retweet_count", "tweet.retweet_count", "how often it was repeated"),
            number("favorite_count", "tweet.favorite_count", "how many like it"),
            number("reply_count", "tweet.reply_count", "how many replied"),
            number("quote_count", "tweet.quote_count", "how often it was quoted"),
            number("bookmark_count", "tweet.bookmark_count", "how many keep it"),
            number("impression_count", "tweet.impression_count", "how often it was seen"),
            text("reply_to", "tweet.reply_to", "the id of the post that it replies to"),
            text("retweet_of", "tweet.retweet_of", "the id of the post that it repeats"),
            text("quote_of", "tweet.quote_of", "the id of the post that it quotes"),
            text("conversation_id", "tweet.conversation_id", "the id of the post with which the conversation began"),
            text("reply_settings", "tweet.reply_settings", "who may reply"),
            text("current_id", "tweet.current_id", "the id of its newest version, where it was edited"),
            flag("truncated", "tweet.truncated", "whether the text is cut short"),
            text("withheld_in", "tweet.withheld_in", "countries in which it is withheld, comma separated"),
            time("first_seen", "tweet.first_seen", "when it was recorded"),
            time("checked_at", "tweet.checked_at", "when its newest answer was given"),
            time("changed_at", "tweet.changed_at", "when an answer last changed a count"),
            time("next_due", "tweet.next_due", "when it is looked up again"),
            number("lookups", "tweet.lookups", "answers about it"),
            number("misses", "tweet.misses", "how often in a row it was not returned"),
            time("missing_since", "tweet.missing_since", "when the first of these was answered"),
            text("reason", "tweet.reason", "why it is dead"),
        ],
        None,
    ),
    Table {
        name: "metrics",
        about: "the counts of a post from a moment on, where one of them had changed",
        columns: &[
            ID,
            time("checked_at", "counts.checked_at", "when the answer was given"),
            number("retweet_count", "counts.retweet_count", "how often it was repeated"),
            number("favorite_count", "counts.favorite_count", "how many like it"),
            number("reply_count", "counts.reply_count", "how many replied"),
            number("quote_count", "counts.quote_count", "how often it was quoted"),
            number("bookmark_count", "counts.bookmark_count", "how many keep it"),
            number("impression_count", "counts.impression_count", "how often it was seen"),
        ],
        sqlite: From {
            tables: "tweet_metrics_row AS counts JOIN tweet ON tweet.key = counts.tweet",
            key: &[number("", "counts.tweet", ""), number("", "counts.checked_at", "")],
        },
        postgres: From {
            tables: "tweet_metrics AS counts JOIN tweet ON tweet.namespace = counts.namespace AND tweet.id = counts.id",
            key: &[text("", "counts.id", ""), number("", "counts.checked_at", "")],
        },
        only: None,
    },
    Table {
        name: "changes",
        about: "a change of a post beside its counts",
        columns: &[
            ID,
            time("at", "change.at", "when the answer was given that showed it"),
            text("field", "change.field", "`text`, `current_id`, `withheld_in`, `reply_settings` or `state`"),
            text("old_value", "change.old_value", "as it was"),
            text("new_value", "change.new_value", "as it is from then on"),
        ],
        sqlite: From {
            tables: "tweet_change_row AS change JOIN tweet ON tweet.key = change.tweet",
            key: &[number("", "change.tweet", ""), number("", "change.at", ""), text("", "change.field", "")],
        },
        postgres: From {
            tables: "tweet_change AS change JOIN tweet ON tweet.namespace = change.namespace AND tweet.id = change.id",
            key: &[text("", "change.id", ""), number("", "change.at", ""), text("", "change.field", "")],
        },
        only: None,
    },
];

/// A database's words for the same.
pub(super) trait Dialect: Database {
    /// Where a table's rows come from.
    fn from(table: &Table) -> (&'static str, &'static [Column]);
}

impl Dialect for sqlx::Sqlite {
    fn from(table: &Table) -> (&'static str, &'static [Column]) {
        (table.sqlite.tables, table.sqlite.key)
    }
}

impl Dialect for sqlx::Postgres {
    fn from(table: &Table) -> (&'static str, &'static [Column]) {
        (table.postgres.tables, table.postgres.key)
    }
}

/// Reads rows by one of the pool's connections.
pub(super) fn read<'a, D>(pool: &'a Pool<D>, table: &'a Table, wanted: &Wanted) -> Rows<'a>
where
    D: Dialect,
    D::Arguments: IntoArguments<D>,
    for<'c> &'c Pool<D>: Executor<'c, Database = D>,
    usize: ColumnIndex<D::Row>,
    for<'q> String: Encode<'q, D> + Decode<'q, D> + Type<D>,
    for<'q> i64: Encode<'q, D> + Decode<'q, D> + Type<D>,
    for<'q> bool: Decode<'q, D> + Type<D>,
{
    let key = D::from(table).1;
    let Statement { text, values } = Statement::new(D::from(table), table, wanted);
    let mut query = sqlx::query::<D>(AssertSqlSafe(text));
    for value in values {
        query = match value {
            Cell::Number(number) => query.bind(number),
            Cell::Text(text) => query.bind(text),
            // Neither is in a key, nor is it asked for.
            Cell::Flag(flag) => query.bind(i64::from(flag)),
            Cell::None => query.bind(String::new()),
        };
    }
    query.fetch(pool).map(move |row| exported::<D>(key, table.columns, &row?)).boxed()
}

/// A statement and its values.
struct Statement {
    text: String,
    values: Vec<Cell>,
}

impl Statement {
    fn new((tables, key): (&str, &[Column]), table: &Table, wanted: &Wanted) -> Self {
        let names = |columns: &[Column]| columns.iter().map(|column| column.sql).collect::<Vec<_>>().join(", ");
        let (key, columns) = (names(key), names(table.columns));
        let text = format!("SELECT {key}, {columns} FROM {tables} WHERE tweet.namespace = ");
        let mut sql = Self { text, values: Vec::new() };
        sql.bind(Cell::Text(wanted.namespace.clone()));
        if let Some(only) = table.only {
            sql.push(" AND ").push(only);
        }
        let states = wanted.states.iter().map(|state| state.as_str().to_owned());
        sql.among("tweet.state", states.collect());
        sql.among("tweet.lang", wanted.languages.clone());
        for (moment, relation) in
            [(wanted.since, " AND tweet.created_at >= "), (wanted.until, " AND tweet.created_at < ")]
        {
            if let Some(moment) = moment {
                sql.push(relation).bind(Cell::Number(moment));
            }
        }
        if let Some(after) = &wanted.after {
            sql.push(" AND (").push(&key).push(") > (").list(after.clone()).push(")");
        }
        sql.push(" ORDER BY ").push(&key);
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

    fn among(&mut self, column: &str, values: Vec<String>) {
        if !values.is_empty() {
            let values = values.into_iter().map(Cell::Text).collect();
            self.push(" AND ").push(column).push(" IN (").list(values).push(")");
        }
    }
}

fn exported<D>(key: &[Column], columns: &[Column], row: &D::Row) -> Result<Exported>
where
    D: Dialect,
    usize: ColumnIndex<D::Row>,
    for<'r> String: Decode<'r, D> + Type<D>,
    for<'r> i64: Decode<'r, D> + Type<D>,
    for<'r> bool: Decode<'r, D> + Type<D>,
{
    let cell = |(at, column): (usize, &Column)| {
        let cell = match column.kind {
            Kind::Text => row.try_get::<Option<String>, _>(at)?.map(Cell::Text),
            Kind::Number | Kind::Time => row.try_get::<Option<i64>, _>(at)?.map(Cell::Number),
            Kind::Flag => row.try_get::<Option<bool>, _>(at)?.map(Cell::Flag),
        };
        Ok::<_, StoreError>(cell.unwrap_or(Cell::None))
    };
    let mut cells: Vec<Cell> = key.iter().chain(columns).enumerate().map(cell).collect::<Result<_>>()?;
    let own = cells.split_off(key.len());
    Ok(Exported { key: cells, cells: own })
}
