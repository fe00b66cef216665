//! Statements of the store, one file each: `sql/AREA/NAME.sql`, or `NAME.pg.sql` and `NAME.lite.sql` where PostgreSQL and
//! SQLite differ.
//!
//! Statements are generated in Rust where they depend on tables or filters: `export.rs`, `graph.rs`, and the removals of
//! `forget.rs`. SQLite inserts many rows by one statement, so the row of `posts/insert.lite` is repeated, and a clause
//! follows: `merge`, `revive`, `mark_dead` or `resolve_dead`. PostgreSQL has these clauses inside of its statements.

/// Text of a statement, by the name of its file.
macro_rules! sql {
    ($name:literal) => {
        include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/src/sql/", $name, ".sql"))
    };
}

/// Statement, by its name or text, with its parameters in order.
macro_rules! statement {
    ($name:literal $(, $value:expr)* $(,)?) => {
        sqlx::query(sql!($name))$(.bind($value))*
    };
    ($text:expr $(, $value:expr)* $(,)?) => {
        sqlx::query($text)$(.bind($value))*
    };
}
