//! `schedule` and `[adaptive]`.

use std::path::PathBuf;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{BadConfig, files};
use engine::schedule::adaptive::Options;
use engine::schedule::adaptive::model::Model;
use engine::schedule::budgeted::Spend;
use networks::model::post::Weights;

/// Maximum size of a model file in bytes; a model has a few KB.
const LONGEST_MODEL: u64 = 1 << 20;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ScheduleKind {
    Age,
    Adaptive,
}

#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct AdaptiveSettings {
    pub model_file: PathBuf,
    pub faster: f64,
    pub slower: f64,
    #[serde(deserialize_with = "super::word")]
    pub spend: Spend,
    pub earliest: f64,
    pub weights: Weights,
}

impl AdaptiveSettings {
    #[must_use]
    pub fn options(&self) -> Options {
        let Self { faster, slower, spend, earliest, .. } = *self;
        Options { shortest: 1.0 / faster, longest: slower, spend, earliest, ..Options::default() }
    }

    /// Model of `adaptive.model_file`, or the built-in one.
    pub fn model(&self) -> Result<Arc<Model>, BadConfig> {
        let model = match self.model_file.as_os_str().is_empty() {
            true => Model::embedded(),
            false => {
                let text = files::read_text(&self.model_file, LONGEST_MODEL);
                Model::parse(&text.map_err(|why| self.wrong(&why.to_string()))?)
            }
        };
        model.map(Arc::new).map_err(|why| self.wrong(&format!("cannot be used: {why}")))
    }

    fn wrong(&self, why: &str) -> BadConfig {
        // One line: a TOML error also quotes the faulty line.
        let why = why.lines().map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join(" ");
        BadConfig(format!("adaptive.model_file {} {why}", self.model_file.display()))
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;
    use crate::config::Settings;

    fn with(text: &str) -> Result<Arc<Model>, String> {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(text.as_bytes()).unwrap();
        let path = file.path().to_str().unwrap();
        let settings = Settings::load_with(&[], None, &[("TWITTER_UPDATER__ADAPTIVE__MODEL_FILE", path)]).unwrap();
        settings.adaptive.model().map_err(|error| error.to_string())
    }

    #[test]
    fn a_model_comes_from_its_file_or_with_the_program() {
        let built_in = Settings::load_with(&[], None, &[]).unwrap().adaptive.model().unwrap();
        assert_eq!(*built_in, Model::embedded().unwrap());
        let other = Model { fade: 3.0, ..Model::embedded().unwrap() };
        assert_eq!(with(&other.to_toml()).unwrap().fade, 3.0);
        let error = with("fade = 1").unwrap_err();
        assert!(error.contains("adaptive.model_file") && error.contains("not a freshness model"), "{error}");
        assert_eq!(error.lines().count(), 1);
        let settings =
            Settings::load_with(&[], None, &[("TWITTER_UPDATER__ADAPTIVE__MODEL_FILE", "/nowhere")]).unwrap();
        assert!(settings.adaptive.model().unwrap_err().to_string().contains("/nowhere"));
    }

    #[test]
    fn bounds_are_those_of_the_schedule_by_default() {
        let options = Settings::load_with(&[], None, &[]).unwrap().adaptive.options();
        assert_eq!(options, Options::default());
    }
}
