//! The description of an exported table: its columns, and the rows that it reads.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ColumnKind {
    Text,
    /// Text without the markup that its network writes it in ([`plain_text`](networks::model::plain_text::plain_text)).
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
    pub(super) sql: Option<&'static str>,
}

/// An exported table. A pipeline names its own in `Presentation::tables`.
#[derive(Debug, Clone, Copy)]
pub struct Table {
    pub name: &'static str,
    pub about: &'static str,
    pub columns: &'static [Column],
    /// Table of the rows that belong to an item; `None`: the item itself is the row.
    pub(super) beside: Option<JoinedTable>,
    /// SQL condition on the rows, in addition to the caller's selection.
    pub(super) only: Option<&'static str>,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct JoinedTable {
    pub(super) table: &'static str,
    pub(super) key: &'static [(&'static str, ColumnKind)],
    /// True if items without such a row are included.
    pub(super) all: bool,
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
}
