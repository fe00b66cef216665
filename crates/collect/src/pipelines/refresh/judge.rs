//! The interface between the refresher and a pipeline: the parts specific to a kind of item.

use async_trait::async_trait;

use super::fan_out::Mentions;
use engine::base::activity::Activity;
use engine::base::clock::Millis;
use engine::queue::Job;
use networks::model::post::Metrics;
use store::{Observation, SaveCounts, Standing, Store, StoreError};

pub trait Item: Send + Sync + 'static {
    /// Returned id: differs from the requested one if it is a newer version.
    fn id(&self) -> &str;

    /// Creation date, ms since the epoch, if the item states it.
    fn created_at(&self) -> Option<Millis>;

    fn metrics(&self) -> Metrics {
        Metrics::default()
    }

    fn activity(&self) -> Activity {
        Activity::default()
    }

    fn handle(&self) -> Option<&str> {
        None
    }

    fn is_withheld(&self) -> bool {
        false
    }
}

#[derive(Debug, Clone, Default)]
pub struct JudgedItem {
    pub created_at: Option<Millis>,
    /// A newer version, to look up at once.
    pub follow: Option<String>,
}

/// Meaning and storage of found items of one kind.
#[async_trait]
pub trait Judge: Send + Sync + 'static {
    type Item: Item;

    /// Returns true if this item can be judged only with its state in the store.
    fn needs_standing(&self, _job: &Job, item: &Self::Item) -> bool {
        item.created_at().is_none()
    }

    /// Completes found items from the kind's own records, before they are judged; `at` is the time of the answer, ms since the epoch.
    async fn prepare(
        &self,
        _store: &dyn Store,
        _namespace: &str,
        _found: Vec<&mut Self::Item>,
        _at: Millis,
    ) -> Result<(), StoreError> {
        Ok(())
    }

    /// Judges a found item, and removes the parts that must not be stored. `known` is the start of its age, from the store or its id.
    fn judge_found(
        &self,
        _job: &Job,
        item: &mut Self::Item,
        _standing: Option<&Standing>,
        known: Option<Millis>,
    ) -> JudgedItem {
        JudgedItem { created_at: item.created_at().or(known), follow: None }
    }

    /// Names ids of other kinds to look up because this item was found. `before` is the item's state in the store; `None` at its first
    /// answer, or if a worker may have died before it scheduled the ids of the stored answer. Called only if a pipeline of
    /// the settings is [named by](crate::pipelines::kind::ItemTerms::named_by) this one, and not for answers that the store refuses.
    fn fan_out(&self, _item: &Self::Item, _before: Option<&Standing>, _mentions: &mut Mentions) {}

    /// Sum of counts by their weights, events, for a schedule that compares answers. `None` if there is no count.
    fn weigh(&self, _counts: &Metrics) -> Option<f64> {
        None
    }

    /// Stores a batch of answers, all or nothing.
    async fn save(
        &self,
        store: &dyn Store,
        namespace: &str,
        answers: &[Observation<Self::Item>],
    ) -> Result<SaveCounts, StoreError>;
}
