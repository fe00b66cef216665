//! All errors of a configuration, collected in one pass.

use super::BadConfig;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.join_errors())]
pub struct BadConfigs(pub Vec<BadConfig>);

impl BadConfigs {
    fn join_errors(&self) -> String {
        self.0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
    }
}

impl From<BadConfigs> for BadConfig {
    fn from(BadConfigs(all): BadConfigs) -> Self {
        Self(all.into_iter().map(|BadConfig(why)| why).collect::<Vec<_>>().join("; "))
    }
}

/// Errors, each with its setting; an empty name means all settings.
#[derive(Debug, Default)]
pub(super) struct Findings(Vec<(String, BadConfig)>);

impl Findings {
    pub fn add(&mut self, place: impl Into<String>, why: String) {
        self.0.push((place.into(), BadConfig(remove_control_chars(&why))));
    }

    /// Adds an error unless it follows from an earlier one, which is about a setting in its text, or about all settings.
    pub fn add_unless_it_follows(&mut self, place: impl Into<String>, why: String) {
        if !self.0.iter().any(|(earlier, _)| earlier.is_empty() || contains_setting(&why, earlier)) {
            self.add(place, why);
        }
    }

    /// Returns the valid value. Records an error unless it follows from an earlier one.
    pub fn record_error<T>(&mut self, place: &str, result: Result<T, BadConfig>) -> Option<T> {
        result.map_err(|BadConfig(why)| self.add_unless_it_follows(place, why)).ok()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns true if this exact section has an error.
    pub fn has_error_at(&self, place: &str) -> bool {
        self.0.iter().any(|(at, _)| at == place)
    }

    /// Returns true if this section, or one that contains it, has an error.
    pub fn has_error_in(&self, section: &str) -> bool {
        let within = |inner: &str, outer: &str| {
            inner.strip_prefix(outer).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        self.0.iter().any(|(at, _)| at.is_empty() || within(at, section) || within(section, at))
    }

    pub fn all(&self) -> impl Iterator<Item = &BadConfig> {
        self.0.iter().map(|(_, wrong)| wrong)
    }

    pub fn into_result(self) -> Result<(), BadConfigs> {
        match self.0.is_empty() {
            true => Ok(()),
            false => Err(BadConfigs(self.0.into_iter().map(|(_, wrong)| wrong).collect())),
        }
    }
}

/// Removes line ends and control characters that would affect a terminal: a key may contain any text.
pub(super) fn remove_control_chars(text: &str) -> String {
    text.split(char::is_control).map(str::trim).filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" ")
}

/// Returns true if a text contains the name of a setting as a whole word.
fn contains_setting(text: &str, setting: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || "_-".contains(c);
    text.match_indices(setting).any(|(at, _)| {
        let (before, after) = (&text[..at], &text[at + setting.len()..]);
        let goes_on =
            after.starts_with(is_part) || after.strip_prefix('.').is_some_and(|after| after.starts_with(is_part));
        !goes_on && !before.ends_with(is_part) && !before.ends_with('.')
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_is_named_by_its_whole_name_alone() {
        assert!(
            contains_setting("x.reads (7) must be", "x.reads") && contains_setting("longer than x.reads.", "x.reads")
        );
        for other in ["x.reads_per is", "max.reads is", "mastodon.x.reads is", "x.reads.a is", "nothing"] {
            assert!(!contains_setting(other, "x.reads"), "{other}");
        }
    }

    #[test]
    fn what_follows_from_something_wrong_is_not_said_again() {
        let mut found = Findings::default();
        found.add("updater.lease", "updater.lease (5 years) must be at most 1day".to_owned());
        found.add_unless_it_follows("updater.lease", "updater.lease must be longer than lookup.timeout".to_owned());
        found.add_unless_it_follows("x.reads", "x.reads must be less".to_owned());
        assert_eq!(found.all().count(), 2);
        assert!(found.has_error_in("updater") && found.has_error_in("updater.lease") && !found.has_error_in("up"));
        assert!(found.has_error_at("x.reads") && !found.has_error_at("x"));
        let error = found.into_result().unwrap_err();
        assert_eq!(error.0.len(), 2);
        assert!(!error.to_string().contains('\n') && error.to_string().contains("; configuration: x.reads"));
        // The contents of an unreadable file are unknown.
        let mut found = Findings::default();
        found.add("", "a.toml is not TOML".to_owned());
        found.add_unless_it_follows("x.api", "x.api is none".to_owned());
        assert!(found.all().count() == 1 && found.has_error_in("twitter"));
    }
}
