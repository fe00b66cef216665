//! The registry: one line per kind of pipeline. All roles, commands and pages use it.

use std::sync::Arc;

use super::community::Communities;
use super::kind::{PipelineKind, RegisteredPipeline};
use super::media::Media;
use super::posts::Posts;
use super::profiles::Profiles;
use super::relations::Lists;
use super::visits::AccountVisits;
use crate::config::{BadConfig, Settings};
use networks::model::relation::ListKind;

#[derive(Debug, Clone)]
pub struct Registry(Vec<Arc<dyn PipelineKind>>);

impl Default for Registry {
    fn default() -> Self {
        Self(Vec::new())
            .with(Posts)
            .with(Profiles)
            .with(Media)
            .with(Lists(ListKind::Followers))
            .with(Lists(ListKind::Friends))
            .with(AccountVisits)
            .with(Communities)
    }
}

impl Registry {
    #[must_use]
    pub fn with(mut self, kind: impl PipelineKind + 'static) -> Self {
        self.0.push(Arc::new(kind));
        self
    }

    /// Finds a pipeline by its name. The error lists the known names.
    pub fn find(&self, settings: &Settings, name: &str) -> Result<RegisteredPipeline, BadConfig> {
        let all = self.pipelines(settings)?;
        let names: Vec<String> = all.iter().map(RegisteredPipeline::namespace).collect();
        let named = names.iter().position(|known| known == name);
        let unknown = || BadConfig(format!("--pipeline: there is no {name:?}; there are {}", names.join(", ")));
        named.and_then(|at| all.into_iter().nth(at)).ok_or_else(unknown)
    }

    /// Fails with the first error of a kind.
    pub fn pipelines(&self, settings: &Settings) -> Result<Vec<RegisteredPipeline>, BadConfig> {
        let (all, errors) = self.pipelines_and_errors(settings);
        errors.into_iter().next().map_or(Ok(all), Err)
    }

    /// Pipelines of the kinds with valid settings, and the errors of the others.
    pub fn pipelines_and_errors(&self, settings: &Settings) -> (Vec<RegisteredPipeline>, Vec<BadConfig>) {
        let (mut all, mut errors) = (Vec::new(), Vec::new());
        for kind in &self.0 {
            match kind.pipelines(settings) {
                Ok(ids) => all.extend(ids.into_iter().map(|id| RegisteredPipeline { id, kind: kind.clone() })),
                Err(error) => errors.push(error),
            }
        }
        (all, errors)
    }
}
