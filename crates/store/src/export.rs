//! Data out: the store's content, table by table and row by row.
//!
//! One statement reads a whole table, so the rows are one consistent view, however long the reading takes. Rows are passed on
//! as they come, in the order of a key. So a reader that was killed continues after the last row that it kept.

use std::fmt::Debug;
use std::ops::Range;

use async_trait::async_trait;
use futures::StreamExt;
use futures::stream::BoxStream;
use sqlx::query::Query;
use sqlx::{AssertSqlSafe, ColumnIndex, Database, Decode, Encode, Executor, IntoArguments, Pool, Row, Type};

use super::{Result, StoreError};
use engine::base::clock::Millis;
use networks::model::pipeline_id::PipelineId;
use networks::model::plain_text::plain_text;
use networks::model::provider::Provider;
use networks::model::words::stored_as_word;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ColumnKind {
    Text,
    /// Text without the markup that its network writes it in ([`plain_text`]).
    PlainText,
    /// Id of a post, an account or a medium: text, often only digits.
    Id,
    /// The old or new value of a change: an id if the row's field is one of [`ID_FIELDS`], else text.
    ChangedValue,
    Number,
    /// ms since the epoch.
    Time,
    Flag,
}

pub const ID_FIELDS: [&str; 2] = ["current_id", "moved_to"];

#[derive(Debug, Clone, Copy)]
pub struct Column {
    pub name: &'static str,
    pub kind: ColumnKind,
    pub about: &'static str,
    /// SQL expression that both databases accept; `None`: the column of its name.
    sql: Option<&'static str>,
}

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

const STATE: &str = "CASE WHEN tweet.state = 'ended' AND tweet.misses > 0 THEN 'missing' ELSE tweet.state END";

/// An exported table. A pipeline names its own in `Presentation::tables`.
#[derive(Debug, Clone, Copy)]
pub struct Table {
    pub name: &'static str,
    pub about: &'static str,
    pub columns: &'static [Column],
    /// Table of the rows that belong to an item; `None`: the item itself is the row.
    beside: Option<JoinedTable>,
    /// SQL condition on the rows, in addition to the caller's selection.
    only: Option<&'static str>,
}

#[derive(Debug, Clone, Copy)]
struct JoinedTable {
    table: &'static str,
    key: &'static [(&'static str, ColumnKind)],
    /// True if items without such a row are included.
    all: bool,
}

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

impl Column {
    #[must_use]
    pub const fn new(name: &'static str, kind: ColumnKind, about: &'static str) -> Self {
        Self { name, kind, about, sql: None }
    }

    /// Reads this expression instead; `tweet` is the row of the item.
    #[must_use]
    pub const fn computed(self, sql: &'static str) -> Self {
        Self { sql: Some(sql), ..self }
    }
}

impl Table {
    #[must_use]
    pub const fn new(name: &'static str, about: &'static str, columns: &'static [Column]) -> Self {
        Self { name, about, columns, beside: None, only: None }
    }

    /// Reads rows that belong to items; `key` distinguishes the rows of an item.
    #[must_use]
    pub const fn join(self, table: &'static str, key: &'static [(&'static str, ColumnKind)]) -> Self {
        Self { beside: Some(JoinedTable { table, key, all: false }), ..self }
    }

    /// Reads one row per item; its columns come from a table with at most one row per item.
    #[must_use]
    pub const fn left_join(self, table: &'static str) -> Self {
        Self { beside: Some(JoinedTable { table, key: &[], all: true }), ..self }
    }

    #[must_use]
    pub const fn with_condition(self, condition: &'static str) -> Self {
        Self { only: Some(condition), ..self }
    }

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

const fn text(name: &'static str, about: &'static str) -> Column {
    Column::new(name, ColumnKind::Text, about)
}

const fn id(name: &'static str, about: &'static str) -> Column {
    Column::new(name, ColumnKind::Id, about)
}

const fn number(name: &'static str, about: &'static str) -> Column {
    Column::new(name, ColumnKind::Number, about)
}

const fn time(name: &'static str, about: &'static str) -> Column {
    Column::new(name, ColumnKind::Time, about)
}

const MISSING_REASON: &str = "reason for its absence, as the network states it: `not_found`, `suspended`, `not_authorized`, `deactivated` or `deleted`; empty: it states none";

const ID: Column = id("id", "the id under which it is looked up").computed("tweet.id");

pub const ITEMS: &[Table] = &[
    Table::new("ids", "an id that is or was kept fresh, in any state", &[ID]),
    Table::new("raw", "the newest object as the network sent it, as `twarc` writes it", &[text("raw", "JSON")])
        .with_condition("tweet.raw <> ''"),
    Table::new(
        "unavailable",
        "an item that the network no longer returns, or never returned",
        &[
            ID,
            text(
                "state",
                "`unavailable`, `missing` (its lookups have ended) or `dead`; `live` while a miss is not confirmed yet",
            )
            .computed(STATE),
            time("missing_since", "time of its first miss"),
            text("missing_reason", MISSING_REASON),
            number("misses", "number of misses in a row"),
            Column::new("was_found", ColumnKind::Flag, "true if an answer ever contained it")
                .computed("tweet.lookups > tweet.misses"),
            text("reason", "reason, if it is dead"),
        ],
    )
    .with_condition("(tweet.misses > 0 OR tweet.state IN ('unavailable', 'dead'))"),
    Table::new(
        "ways",
        "a way by which an item arrived",
        &[
            ID,
            text("pipeline", "`enqueue`, `once`, `http`, `incoming`, `poll`, `stream`, `fan_out` …"),
            text("source", "the name of a file, or of a source in the settings"),
            text("query", "the request of that source: a query, an account"),
            time("first_at", "time of its first arrival by this way"),
        ],
    )
    .join("tweet_way", &[("pipeline", ColumnKind::Text), ("source", ColumnKind::Text)]),
];

pub const POSTS: &[Table] = &[
    Table::new(
        "posts",
        "the current state of a post",
        &[
            ID,
            text(
                "state",
                "`live`, `unavailable`, `ended` (no longer looked up), `missing` (the same, and its last answer lacked it) or `dead` \
                 (set aside)",
            )
            .computed(STATE),
            time("created_at", "time of creation"),
            text("text", "its text, as the network writes it: HTML on Mastodon, `&amp;` for `&` on Twitter and X"),
            Column::new("plain_text", ColumnKind::PlainText, "its text, as a reader sees it").computed("tweet.text"),
            text("lang", "its language, as the network states it; several are comma separated"),
            id("author_id", "its author's id"),
            text("author_name", "its author's handle"),
            number("retweet_count", "number of reposts"),
            number("favorite_count", "number of likes"),
            number("reply_count", "number of replies"),
            number("quote_count", "number of quotes"),
            number("bookmark_count", "number of bookmarks"),
            number("impression_count", "number of views"),
            id("reply_to", "the id of the post that it replies to"),
            id("reply_to_author", "the id of the account that it replies to"),
            id("retweet_of", "the id of the reposted post"),
            id("quote_of", "the id of the post that it quotes"),
            id("conversation_id", "the id of the post with which the conversation began"),
            text("reply_settings", "accounts that may reply, as the network states it"),
            text("labels", "labels of the post and of its author, comma separated: `!no-unauthenticated`, `porn` …"),
            id("current_id", "the id of its newest version, if it was edited"),
            Column::new("truncated", ColumnKind::Flag, "true if the text is cut short"),
            text("withheld_in", "countries in which it is withheld, comma separated"),
            time("first_seen", "time of its first record"),
            time("checked_at", "time of its newest answer"),
            time("changed_at", "time of the answer that last changed a count"),
            time("next_due", "time of its next lookup"),
            number("lookups", "number of answers about it; of an id that none found, since it was last retried"),
            number("misses", "number of misses in a row"),
            time("missing_since", "time of the first of these misses"),
            text("missing_reason", MISSING_REASON),
            text("reason", "reason, if it is dead"),
        ],
    ),
    Table::new(
        "metrics",
        "the counts of a post at a time when one of them had changed",
        &[
            ID,
            time("checked_at", "time of the answer"),
            number("retweet_count", "number of reposts"),
            number("favorite_count", "number of likes"),
            number("reply_count", "number of replies"),
            number("quote_count", "number of quotes"),
            number("bookmark_count", "number of bookmarks"),
            number("impression_count", "number of views"),
        ],
    )
    .join("tweet_metrics", &[("checked_at", ColumnKind::Time)]),
    Table::new(
        "changes",
        "a change of a post, except its counts",
        &[
            ID,
            time("at", "time of the answer that showed it"),
            text("field", "`text`, `current_id`, `withheld_in`, `reply_settings` or `state`"),
            Column::new("old_value", ColumnKind::ChangedValue, "the old value"),
            Column::new("new_value", ColumnKind::ChangedValue, "the new value"),
        ],
    )
    .join("tweet_change", &[("at", ColumnKind::Time), ("field", ColumnKind::Text)]),
    Table::new(
        "languages",
        "the language of a post, as its text says; of accounts that a community has judged by their posts",
        &[
            ID,
            text("language", "the language of its text, ISO 639-1"),
            number("confidence_thousandths", "from 0 to 1000")
                .computed("CAST(ROUND(beside.confidence * 1000) AS BIGINT)"),
            text("stated", "its language, as the network states it").computed("tweet.lang"),
        ],
    )
    .join("post_language", &[]),
];

pub const ACCOUNTS: &[Table] = &[
    Table::new(
        "accounts",
        "the current state of an account, as its answers state it; before the first one it is `unknown`",
        &[
            ID,
            text("state", "`live`, `protected`, `suspended`, `deactivated`, `deleted` or `unknown`")
                .computed("COALESCE(beside.state, 'unknown')"),
            text("handle", "its handle, without `@`"),
            text("display_name", "the name that is shown"),
            text("description", "the owner's description, as the network writes it: HTML on Mastodon"),
            Column::new("plain_description", ColumnKind::PlainText, "the same, as a reader sees it")
                .computed("beside.description"),
            text("location", "location in the owner's words"),
            text("url", "the address in the profile"),
            text("picture", "the address of the picture"),
            text("banner", "the address of the banner"),
            Column::new("protected", ColumnKind::Flag, "true if the owner approves followers"),
            Column::new("verified", ColumnKind::Flag, "true if the network vouches for it"),
            text("withheld_in", "countries in which it is withheld, comma separated"),
            id("moved_to", "the id of the account that its owner moved to"),
            number("followers", "number of followers"),
            number("following", "number of accounts that it follows"),
            number("posts", "number of its posts, as the network counts them"),
            number("listed", "number of lists that it is on"),
            number("likes", "number of posts that it likes"),
            time("created_at", "time of creation; of Mastodon the day alone").computed("tweet.created_at"),
            time("last_post_at", "time of its last post, as the network states it; of Mastodon the day alone"),
            time("active_at", "newest known sign of life"),
            time("first_seen", "time of its first record").computed("tweet.first_seen"),
            time("checked_at", "time of its newest answer"),
            time("next_due", "time of its next lookup").computed("tweet.next_due"),
            time("missing_since", "time of the first of the misses").computed("tweet.missing_since"),
            time("forgotten_at", "time at which its content was removed"),
        ],
    )
    .left_join("account"),
    Table::new(
        "account_changes",
        "a change of a field of an account, or of its state",
        &[
            ID,
            time("at", "time of the answer that showed it"),
            text("field", "the field, or `state`"),
            Column::new("old_value", ColumnKind::ChangedValue, "the old value; empty: there was none"),
            Column::new("new_value", ColumnKind::ChangedValue, "the new value; empty: there is none any more"),
        ],
    )
    .join("account_change", &[("at", ColumnKind::Time), ("field", ColumnKind::Text)]),
    Table::new(
        "account_counts",
        "the counts of an account at a time when one of them had changed",
        &[
            ID,
            time("checked_at", "time of the answer"),
            number("followers", "number of followers"),
            number("following", "number of accounts that it follows"),
            number("posts", "number of its posts"),
            number("listed", "number of lists that it is on"),
            number("likes", "number of posts that it likes"),
        ],
    )
    .join("account_count", &[("checked_at", ColumnKind::Time)]),
    Table::new(
        "account_posts",
        "a collected post of an account",
        &[ID, id("post", "the id of the post"), time("at", "time of its creation, or else of its discovery")],
    )
    .join("account_post", &[("post", ColumnKind::Text)]),
];

pub const MEDIA: &[Table] = &[
    Table::new(
        "media",
        "a picture, video or sound of posts",
        &[
            ID,
            text("url", "the address of its file"),
            text("kind", "`photo`, `video`, `gif`, `audio` or `unknown`, as the network states it"),
            text("state", "`waiting`, `stored`, `gone`, `refused`, `failed` or `removed`"),
            number("bytes", "the size of its file"),
            text("type", "the type of its file, by its first bytes: `image/jpeg`"),
            text(
                "sha256",
                "the hash of its file, which is kept under the first two digits in a folder, and the others",
            ),
            number("attempts", "number of failures"),
            time("failing_since", "time of the first of the failures in a row"),
            text("reason", "reason, if it is not stored"),
            time("first_at", "time at which a post first named it"),
            time("checked_at", "time of its last attempt"),
        ],
    )
    .join("media", &[]),
    Table::new(
        "media_uses",
        "a post that shows a medium",
        &[ID, id("post", "the id of the post"), time("first_at", "time of the first sighting")],
    )
    .join("media_use", &[("post", ColumnKind::Text)]),
];

pub const EDGES: &[Table] = &[
    Table::new(
        "edges",
        "a follower or a friend of an account, for a time",
        &[
            id("owner", "the account whose followers or friends are listed").computed("tweet.id"),
            id("member", "the follower or friend"),
            text("direction", "`follower`: the member follows the owner; `friend`: the owner follows the member"),
            time("appeared_after", "the member was not there before; empty: unknown"),
            time("appeared_by", "time of its first sighting"),
            time("followed_at", "time of the follow, as the network states it"),
            time("vanished_after", "time of its last sighting; empty: no known end"),
            time("vanished_by", "time at which it was missed; empty: no known end"),
            text(
                "cause",
                "`unfollowed`, `suspended`, `deactivated`, `deleted` or `unknown`; empty: no known end",
            ),
            time("seen_at", "latest time at which pages prove that it was there"),
        ],
    )
    .join("edge", &[("member_number", ColumnKind::Number), ("page_number", ColumnKind::Number)]),
    Table::new(
        "crawls",
        "a reading of a list, page by page",
        &[
            id("owner", "the account whose followers or friends are listed").computed("tweet.id"),
            number("number", "its number"),
            text("kind", "`complete` or `prefix` (the newest members)"),
            time("started_at", "time of its start"),
            time("ended_at", "time of its end; empty: it is under way"),
            text(
                "ended",
                "`complete`, or another end: `withheld`, `known_tail`, `capped`, `hidden`, `partial`, `stale`, `looped`, \
                 `aborted`",
            ),
            number("pages", "number of its pages"),
            number("found", "number of members on them"),
            number("stated_total", "number of members that the owner's profile states"),
            number("appeared", "number of new edges"),
            number("vanished", "number of edges that it ended"),
            number("withheld", "number of edges that it did not show and, as too many, did not end"),
        ],
    )
    .join("crawl", &[("number", ColumnKind::Number)]),
];

pub const COMMUNITIES: &[Table] = &[
    Table::new(
        "community",
        "an account that is, or was, a candidate of a community",
        &[
            ID,
            text("state", "`candidate`, `open`, `member` or `outside`"),
            number("score_thousandths", "from -1000 (outside) to 1000 (a member)"),
            text("evidence", "result of each test, as JSON"),
            text("rule", "the version of the rule by which it was judged"),
            text("by_hand", "the person who decided; empty: the rule decided"),
            text("why", "reason that this person gave"),
            number(
                "appearances",
                "number of members, and of posts of searches, that led to it until it became a candidate; of a seed 0",
            ),
            number("posts", "number of its posts that were found since it appeared"),
            time("first_at", "time of its first appearance"),
            time("admitted_at", "time at which it became a candidate"),
            time("decided_at", "start of its current state"),
            time("judged_at", "time of its last judgement"),
        ],
    )
    .join("community", &[]),
    Table::new(
        "community_changes",
        "a change of the state of an account in a community",
        &[
            ID,
            time("at", "time of the decision"),
            text("old_state", "the state before; empty: it was not known"),
            text("new_state", "the state from then on"),
            text("rule", "the version of the rule; empty: no rule did it"),
            text("by_hand", "the person who decided"),
        ],
    )
    .join("community_history", &[("at", ColumnKind::Time), ("new_state", ColumnKind::Text)]),
    Table::new(
        "community_reasons",
        "a reason for an account of a community",
        &[
            ID,
            text("reason", "`mentioned`, `reposted`, `follower`, `friend` or `search`"),
            id("source", "the id of the member that shows it, or of the post that a search found"),
            id("post", "the id of the post that shows it; empty: none does, or it is removed or blanked"),
            time("first_at", "time of the first such appearance"),
        ],
    )
    .join("community_reason", &[("source", ColumnKind::Text), ("reason", ColumnKind::Text)]),
];

const AUTHOR: [Column; 3] = [
    id("author_id", "its author's id"),
    text("author_name", "its author's handle"),
    time("created_at", "time of creation"),
];

pub static REPLIES: Table = Table::new(
    "replies",
    "a post that replies to an account",
    &[AUTHOR[0], AUTHOR[1], AUTHOR[2], id("reply_to_author", "the id of the account that it replies to")],
)
.with_condition("tweet.author_id IS NOT NULL AND tweet.reply_to_author IS NOT NULL");

pub static OBJECTS: Table = Table::new(
    "objects",
    "a post as the network sent it",
    &[
        AUTHOR[0],
        AUTHOR[1],
        AUTHOR[2],
        id("reply_to_author", "the id of the account that it replies to"),
        id("retweet_of", "the id of the post that it repeats"),
        id("reposted_author", "the id of the author of the stored post that it repeats").computed(
            "(SELECT original.author_id FROM tweet AS original \
             WHERE original.namespace = tweet.namespace AND original.id = tweet.retweet_of)",
        ),
        text("raw", "JSON"),
    ],
)
.with_condition("tweet.author_id IS NOT NULL AND tweet.raw <> ''");

pub static HANDLES: Table =
    Table::new("handles", "the handle of an account", &[ID, text("handle", "its handle, without `@`")])
        .left_join("account");

/// Counts of posts over time, with their dates, for training. Counts are in the order of `likes, retweets, replies,
/// quotes, views`.
pub static HISTORIES: Table = Table::new(
    "histories",
    "the counts of a post at a time when one of them had changed, and its dates",
    &[
        ID,
        time("created_at", "time of creation").computed("tweet.created_at"),
        time("last_at", "time of its newest answer").computed("tweet.checked_at"),
        time("checked_at", "time of the answer"),
        number("favorite_count", "number of likes"),
        number("retweet_count", "number of reposts"),
        number("reply_count", "number of replies"),
        number("quote_count", "number of quotes"),
        number("impression_count", "number of views"),
    ],
)
.join("tweet_metrics", &[("checked_at", ColumnKind::Time)]);

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
