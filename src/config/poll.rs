//! `[poll]` and `[poll.sources.*]`: which timelines are polled, and how often.

use std::collections::BTreeMap;
use std::time::Duration;

use humantime::format_duration;
use serde::{Deserialize, Serialize};

use super::BadConfig;

/// `[poll]`
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)]
pub struct PollSettings {
    #[serde(with = "humantime_serde")]
    pub shortest: Duration,
    #[serde(with = "humantime_serde")]
    pub longest: Duration,
    pub fill: f64,
    pub pages: u32,
    #[serde(with = "humantime_serde")]
    pub out_of_order: Duration,
    /// By name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub sources: BTreeMap<String, SourceSettings>,
}

/// `[poll.sources.NAME]`
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)]
pub struct SourceSettings {
    pub kind: SourceKind,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub query: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub screen_name: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub list_id: String,
    /// In place of `poll.out_of_order`.
    #[serde(default, with = "humantime_serde", skip_serializing_if = "Option::is_none")]
    pub out_of_order: Option<Duration>,
}

/// `poll.sources.NAME.kind`
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs)]
pub enum SourceKind {
    Search,
    User,
    List,
    Home,
}

/// The longest query that a search takes, in characters.
const LONGEST_QUERY: usize = 500;

impl PollSettings {
    pub(super) fn contradictions(&self) -> Result<(), BadConfig> {
        let refuse = |text: String| Err(BadConfig(text));
        if self.longest < self.shortest {
            let (longest, shortest) = (format_duration(self.longest), format_duration(self.shortest));
            return refuse(format!("poll.longest ({longest}) must be at least poll.shortest ({shortest})"));
        }
        for (name, source) in &self.sources {
            let place = format!("poll.sources.{name}");
            let is_fit = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "_-".contains(c);
            if name.is_empty() || name.len() > 100 || !name.chars().all(is_fit) {
                return refuse(format!("{place}: a name has up to 100 of a to z, 0 to 9, _ and -"));
            }
            source.check().or_else(|why| refuse(format!("{place}{why}")))?;
        }
        Ok(())
    }
}

impl SourceSettings {
    /// Each kind has the one setting that says what it is a timeline of.
    fn check(&self) -> Result<(), String> {
        let needed = match self.kind {
            SourceKind::Search => Some("query"),
            SourceKind::User => Some("screen_name"),
            SourceKind::List => Some("list_id"),
            SourceKind::Home => None,
        };
        for (key, value) in [("query", &self.query), ("screen_name", &self.screen_name), ("list_id", &self.list_id)] {
            match (value.trim().is_empty(), Some(key) == needed) {
                (true, true) => return Err(format!(".{key} is missing: it says what is polled")),
                (false, false) => return Err(format!(".{key} is of no use to this kind of source: leave it out")),
                _ => {}
            }
        }
        if self.query.chars().count() > LONGEST_QUERY {
            return Err(format!(".query is longer than {LONGEST_QUERY} characters"));
        }
        if self.screen_name.starts_with('@') {
            return Err(".screen_name stands without its @".to_owned());
        }
        if !self.list_id.chars().all(|c| c.is_ascii_digit()) {
            return Err(".list_id is a number".to_owned());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use crate::config::Settings;

    fn settings(text: &str) -> Result<Settings, String> {
        Settings::load_text(Path::new("poll.toml"), text, &[]).map_err(|error| error.to_string())
    }

    #[test]
    fn sources_have_what_their_kind_needs() {
        let good = "[poll.sources.news]\nkind = \"search\"\nquery = \"rust\"\nout_of_order = \"2s\"\n\
                    [poll.sources.home]\nkind = \"home\"\n";
        assert_eq!(settings(good).unwrap().poll.sources.len(), 2);
        for (text, says) in [
            ("[poll.sources.a]\nkind = \"search\"\n", "poll.sources.a.query is missing"),
            ("[poll.sources.a]\nkind = \"home\"\nquery = \"x\"\n", "poll.sources.a.query is of no use"),
            ("[poll.sources.a]\nkind = \"user\"\nscreen_name = \"@x\"\n", "without its @"),
            ("[poll.sources.a]\nkind = \"list\"\nlist_id = \"x\"\n", "is a number"),
            ("[poll.sources.a]\nkind = \"lists\"\n", "lists"),
            ("[poll.sources.\"a b\"]\nkind = \"home\"\n", "a name has up to 100"),
            ("[poll.sources.a]\nkind = \"home\"\nk = \"1s\"\n", "`k`"),
            ("[poll]\nlongest = \"1s\"\n", "poll.longest"),
        ] {
            let error = settings(text).unwrap_err();
            assert!(error.contains(says) && !error.contains('\n'), "{text:?}: {error}");
        }
    }
}
