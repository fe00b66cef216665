//! Statements of the store, one file each: `sql/AREA/NAME.sql`, or `NAME.pg.sql` and `NAME.lite.sql` where PostgreSQL and
//! SQLite differ.
//!
//! Statements are generated in Rust where they depend on tables or filters: `export.rs`, `graph.rs`, and the removals of
//! `forget.rs`, which also replaces the table of `forget/namespaces`. SQLite inserts many rows by one statement, so the row of `posts/insert.lite` is repeated, and a clause
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;
    use std::path::{Path, PathBuf};

    fn files(folder: &Path) -> Vec<PathBuf> {
        let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
    }

    /// Numbers after `mark`, outside of comments.
    fn parameters(text: &str, mark: char) -> BTreeSet<usize> {
        let lines = text.lines().filter(|line| !line.trim_start().starts_with("--"));
        let after = lines.flat_map(|line| line.split(mark).skip(1));
        after.filter_map(|rest| rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()).collect()
    }

    #[test]
    fn each_statement_is_used_and_numbers_its_parameters_without_gaps() {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
        let (statements, code): (Vec<PathBuf>, Vec<PathBuf>) =
            files(&source).into_iter().partition(|file| file.starts_with(source.join("sql")));
        let code: String =
            code.iter().filter(|file| file.extension().is_some_and(|end| end == "rs")).map(read).collect();
        assert!(statements.len() > 250, "{}", statements.len());
        for file in &statements {
            let name = file.strip_prefix(source.join("sql")).unwrap().to_str().unwrap().strip_suffix(".sql").unwrap();
            assert!(code.contains(&format!("\"{name}\"")), "no code names {name}");
            let text = read(file);
            for mark in ['$', '?'] {
                let numbers = parameters(&text, mark);
                assert_eq!(numbers.len(), numbers.last().copied().unwrap_or(0), "{name}: {numbers:?}");
            }
            assert!(!name.ends_with(".pg") || parameters(&text, '?').is_empty(), "{name} has parameters of SQLite");
        }
    }

    fn read(file: &PathBuf) -> String {
        fs::read_to_string(file).unwrap()
    }
}
