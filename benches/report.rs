//! Tables for people, and the same as JSON.

use std::fmt::Write as _;
use std::path::Path;

use serde_json::{Map, Value, json};
use twitter_updater::base::humanize::format_number;

/// What a bench found.
#[derive(Debug)]
pub struct Report {
    /// What was measured, and how: lines above the tables.
    pub about: Vec<String>,
    pub tables: Vec<Table>,
}

/// Rows of one shape.
#[derive(Debug)]
pub struct Table {
    pub title: String,
    pub columns: Vec<&'static str>,
    pub rows: Vec<Vec<Value>>,
}

impl Table {
    pub fn new(title: &str, columns: &[&'static str]) -> Self {
        Self { title: title.to_owned(), columns: columns.to_vec(), rows: Vec::new() }
    }

    /// Adds a row, and shows at once that something happens.
    pub fn row(&mut self, cells: Vec<Value>) {
        assert_eq!(cells.len(), self.columns.len());
        eprintln!("{}: {}", self.title, cells.iter().map(cell).collect::<Vec<_>>().join("  "));
        self.rows.push(cells);
    }

    fn text(&self, into: &mut String) {
        let rows: Vec<Vec<String>> = self.rows.iter().map(|row| row.iter().map(cell).collect()).collect();
        let heads = self.columns.iter().map(|name| (*name).to_owned()).collect();
        let widths: Vec<usize> = (0..self.columns.len())
            .map(|at| rows.iter().chain([&heads]).map(|row: &Vec<String>| row[at].chars().count()).max().unwrap_or(0))
            .collect();
        let _ = writeln!(into, "\n{}\n", self.title);
        for row in [&heads].into_iter().chain(&rows) {
            let cells = row.iter().zip(&widths).enumerate().map(|(at, (cell, width))| {
                let is_text = self.rows.first().is_some_and(|row| row[at].is_string());
                if is_text { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
            });
            let _ = writeln!(into, "{}", cells.collect::<Vec<_>>().join("  ").trim_end());
        }
    }
}

impl Report {
    /// As people read it.
    pub fn text(&self) -> String {
        let mut text = self.about.join("\n");
        text.push('\n');
        for table in &self.tables {
            table.text(&mut text);
        }
        text
    }

    /// Into `docs/benchmarks/`, as text and as JSON.
    pub fn record(&self, name: &str) {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/benchmarks");
        std::fs::create_dir_all(&folder).unwrap();
        let tables: Vec<Value> = self.tables.iter().map(json_table).collect();
        let whole = json!({ "command": format!("cargo bench -- {name}"), "about": self.about, "tables": tables });
        std::fs::write(folder.join(format!("{name}.json")), format!("{whole:#}\n")).unwrap();
        std::fs::write(folder.join(format!("{name}.txt")), format!("$ cargo bench -- {name}\n\n{}", self.text()))
            .unwrap();
    }
}

fn json_table(table: &Table) -> Value {
    let row = |row: &Vec<Value>| {
        let cells = table.columns.iter().zip(row).map(|(name, cell)| ((*name).to_owned(), cell.clone()));
        Value::Object(cells.collect::<Map<_, _>>())
    };
    json!({ "title": table.title, "rows": table.rows.iter().map(row).collect::<Vec<_>>() })
}

/// A number with its thousands apart, or with the digits that say something.
fn cell(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => "-".to_owned(),
        Value::Number(number) => format_number(number.as_f64().unwrap_or(f64::NAN)),
        other => other.to_string(),
    }
}

/// The middle one.
pub fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

/// The machine, as far as its figures depend on it.
pub fn machine() -> String {
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let model = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = model.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": ")).map(|(_, name)| name);
    format!("{cores} cores, {}", model.unwrap_or("of an unknown kind"))
}
