//! The parts specific to a kind of item: the seam between the machine and a pipeline.

use async_trait::async_trait;

use super::fan_out::Named;
use crate::base::clock::Millis;
use crate::engine::queue::Job;
use crate::model::activity::Activity;
use crate::model::post::Metrics;
use crate::store::{Observation, Saved, Standing, Store, StoreError};

/// A lookup's result for an id.
pub trait Item: Send + Sync + 'static {
    /// The id that it came under: not the asked one where it is a newer version.
    fn id(&self) -> &str;

    /// When it was made, ms since the epoch, where it says so.
    fn created_at(&self) -> Option<Millis>;

    /// Its counts, as far as it has any.
    fn metrics(&self) -> Metrics {
        Metrics::default()
    }

    /// Its signs of life, as far as its kind knows any.
    fn activity(&self) -> Activity {
        Activity::default()
    }

    /// Its handle, if it is an account that states one.
    fn handle(&self) -> Option<&str> {
        None
    }

    /// Returns true if it is withheld somewhere.
    fn is_withheld(&self) -> bool {
        false
    }
}

/// The judgment of a found item, except its schedule.
#[derive(Debug, Clone, Default)]
pub struct Judged {
    /// When it was made, ms since the epoch.
    pub created_at: Option<Millis>,
    /// A newer version, which is looked up at once.
    pub follow: Option<String>,
}

/// The parts specific to a kind of item: the meaning of a found one, and its storage.
#[async_trait]
pub trait Judge: Send + Sync + 'static {
    /// The items that its lookup returns.
    type Item: Item;

    /// Returns true if this item can be judged only with its state in the store.
    fn needs_standing(&self, _job: &Job, item: &Self::Item) -> bool {
        item.created_at().is_none()
    }

    /// Reads what the kind's own records say of found items, and puts it into them, before they are judged; `at` is when
    /// they were answered, ms since the epoch.
    ///
    /// # Errors
    /// The store's.
    async fn prepare(
        &self,
        _store: &dyn Store,
        _namespace: &str,
        _found: Vec<&mut Self::Item>,
        _at: Millis,
    ) -> Result<(), StoreError> {
        Ok(())
    }

    /// Judges one that was found; what of it is not to be stored, it takes out. `known` is when its age began, as the
    /// store or its id say it.
    fn found(&self, _job: &Job, item: &mut Self::Item, _standing: Option<&Standing>, known: Option<Millis>) -> Judged {
        Judged { created_at: item.created_at().or(known), follow: None }
    }

    /// Names ids of other kinds that are to be looked up because this item was found, as it came. `before` is what the
    /// store knew, so that an id is not named at each refresh; `None` also where it is not sure that what followed from
    /// the stored answer was scheduled. Called only where the settings have one of the kinds of
    /// [`fans_out_to`](crate::pipelines::kind::PipelineKind::fans_out_to), and not for answers that the store refuses.
    fn fan_out(&self, _item: &Self::Item, _before: Option<&Standing>, _named: &mut Named) {}

    /// Sum of counts by their weights, events, for a schedule that compares answers. `None` if there is no count.
    fn weigh(&self, _counts: &Metrics) -> Option<f64> {
        None
    }

    /// Stores a batch of answers, all or nothing.
    ///
    /// # Errors
    /// As [`Posts::save`](crate::store::Posts::save).
    async fn save(
        &self,
        store: &dyn Store,
        namespace: &str,
        answers: &[Observation<Self::Item>],
    ) -> Result<Saved, StoreError>;
}
