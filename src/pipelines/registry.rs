//! The registry: one line a kind of pipeline. All roles, commands and pages go by it.

use std::sync::Arc;

use super::community::Communities;
use super::kind::{PipelineKind, Registered};
use super::media::Media;
use super::posts::Posts;
use super::profiles::Profiles;
use super::relations::Lists;
use super::visits::Timelines;
use crate::config::{BadConfig, Settings};
use crate::model::relation::Side;

/// The kinds of pipelines that there are.
#[derive(Debug, Clone)]
pub struct Registry(Vec<Arc<dyn PipelineKind>>);

impl Default for Registry {
    fn default() -> Self {
        Self(Vec::new())
            .with(Posts)
            .with(Profiles)
            .with(Media)
            .with(Lists(Side::Followers))
            .with(Lists(Side::Friends))
            .with(Timelines)
            .with(Communities)
    }
}

impl Registry {
    /// The same with one kind more.
    #[must_use]
    pub fn with(mut self, kind: impl PipelineKind + 'static) -> Self {
        self.0.push(Arc::new(kind));
        self
    }

    /// The pipeline of that name.
    ///
    /// # Errors
    /// There is none of that name.
    pub fn named(&self, settings: &Settings, name: &str) -> Result<Registered, BadConfig> {
        let all = self.pipelines(settings)?;
        let names: Vec<String> = all.iter().map(Registered::namespace).collect();
        let named = names.iter().position(|known| known == name);
        let unknown = || BadConfig(format!("--pipeline: there is no {name:?}; there are {}", names.join(", ")));
        named.and_then(|at| all.into_iter().nth(at)).ok_or_else(unknown)
    }

    /// The pipelines that the settings ask for.
    ///
    /// # Errors
    /// A setting is invalid.
    pub fn pipelines(&self, settings: &Settings) -> Result<Vec<Registered>, BadConfig> {
        let (all, errors) = self.pipelines_and_errors(settings);
        errors.into_iter().next().map_or(Ok(all), Err)
    }

    /// The pipelines of those kinds whose settings are valid, and the errors of the others.
    pub fn pipelines_and_errors(&self, settings: &Settings) -> (Vec<Registered>, Vec<BadConfig>) {
        let (mut all, mut errors) = (Vec::new(), Vec::new());
        for kind in &self.0 {
            match kind.pipelines(settings) {
                Ok(ids) => all.extend(ids.into_iter().map(|id| Registered { id, kind: kind.clone() })),
                Err(error) => errors.push(error),
            }
        }
        (all, errors)
    }
}
