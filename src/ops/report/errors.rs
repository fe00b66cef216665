//! The errors that workers of all pipelines recorded.

use std::cmp::Reverse;
use std::fmt;

use serde::Serialize;

use crate::ops::NoAnswer;
use crate::table::Table;
use engine::base::humanize::{format_time, one_line};
use engine::queue::RecordedError;

#[derive(Debug, Clone, Serialize)]
pub struct ErrorReport {
    errors: Vec<RecordedError>,
    unread: Vec<UnreadNamespace>,
    /// Filter: words that each error contains; empty for all errors.
    #[serde(skip)]
    words: String,
    #[serde(skip)]
    answers: bool,
}

#[derive(Debug, Clone, Serialize)]
struct UnreadNamespace {
    namespace: String,
    error: String,
}

impl ErrorReport {
    #[must_use]
    pub fn new(read: Vec<(String, Result<Vec<RecordedError>, NoAnswer>)>, words: &str) -> Self {
        let (mut errors, mut unread, mut answers) = (Vec::new(), Vec::new(), false);
        for (namespace, read) in read {
            match read {
                Ok(read) => {
                    answers = true;
                    errors.extend(read.into_iter().filter(|error| error.contains_text(words)));
                }
                Err(error) => unread.push(UnreadNamespace { namespace, error: error.to_string() }),
            }
        }
        errors.sort_by_key(|error| Reverse(error.last_ms));
        Self { errors, unread, words: words.to_owned(), answers }
    }

    /// Returns true if at least one namespace answered.
    #[must_use]
    pub fn has_answer(&self) -> bool {
        self.answers
    }
}

impl fmt::Display for ErrorReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for UnreadNamespace { namespace, error } in &self.unread {
            writeln!(f, "{namespace}\nOUT: {error}\n")?;
        }
        match (self.errors.is_empty(), self.words.is_empty()) {
            (true, true) => return write!(f, "no errors in the last 7 days"),
            (true, false) => return write!(f, "no error of the last 7 days contains {:?}", self.words),
            _ => {}
        }
        let mut table = Table::new("<20>10  <22<22<", &["kind", "times", "last", "first", "where"]);
        for error in &self.errors {
            let RecordedError { pipeline, kind, host, endpoint, count, first_ms, last_ms, example, message } = error;
            let place = [pipeline, host, endpoint].map(|part| one_line(part)).join(" ");
            table.row(&[kind, count, &format_time(*last_ms), &format_time(*first_ms), &one_line(&place)]);
            if !message.is_empty() {
                table.line(format!("  {}", one_line(message)));
            }
            if let Some(example) = example {
                table.line(format!("  for example {}", one_line(example)));
            }
        }
        writeln!(f, "{table}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(pipeline: &str, last_ms: i64, message: &str) -> RecordedError {
        let (pipeline, message) = (pipeline.to_owned(), message.to_owned());
        let (kind, endpoint, example) = ("no answer".to_owned(), "lookup".to_owned(), Some("20".to_owned()));
        RecordedError { pipeline, kind, endpoint, count: 3, last_ms, message, example, ..RecordedError::default() }
    }

    #[test]
    fn errors_of_all_namespaces_are_listed_newest_first_or_those_with_words() {
        let read = || {
            vec![
                (
                    "a:update".to_owned(),
                    Ok(vec![error("a:update", 2_000, "HTTP 500"), error("a:update", 9_000, "HTTP 502")]),
                ),
                ("b:update".to_owned(), Ok(vec![error("b:update", 5_000, "timed out\nhere")])),
                ("c:update".to_owned(), Err(NoAnswer::Failed("refused".to_owned()))),
            ]
        };
        let text = ErrorReport::new(read(), "").to_string();
        assert!(text.starts_with("c:update\nOUT: refused\n\nkind "), "{text}");
        let at = |words| text.find(words).unwrap_or_else(|| panic!("no {words}: {text}"));
        assert!(at("HTTP 502") < at("timed out here") && at("timed out here") < at("HTTP 500"), "{text}");
        assert!(text.contains("1970-01-01T00:00:05Z") && text.contains("b:update lookup\n"), "{text}");
        assert!(text.contains("  for example 20\n"), "{text}");

        let some = ErrorReport::new(read(), "TIMED");
        let json = serde_json::to_value(&some).unwrap();
        assert_eq!((json["errors"].as_array().unwrap().len(), &json["errors"][0]["count"]), (1, &3.into()));
        assert_eq!(json["unread"][0], serde_json::json!({"namespace": "c:update", "error": "refused"}));
        let none = ErrorReport::new(read(), "nowhere");
        assert!(none.has_answer() && none.to_string().ends_with("contains \"nowhere\""), "{none}");
        assert!(
            !ErrorReport::new(vec![("c:update".to_owned(), Err(NoAnswer::Failed("refused".to_owned())))], "")
                .has_answer()
        );
    }
}
