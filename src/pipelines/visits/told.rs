//! What a visit tells: its posts are posts of its account, and communities hear of the accounts in them. Nobody has to look
//! the posts up for that.

use std::sync::Arc;
use std::time::Duration;

use crate::base::clock::Millis;
use crate::engine::metrics::Metrics;
use crate::engine::worker::Outlook;
use crate::model::account::Person;
use crate::pipelines::community::shown::{COMMUNITY, Shown};
use crate::pipelines::refresh::{Mention, Named, Target, schedule_each};
use crate::pipelines::store_call;
use crate::providers::timeline::Post;
use crate::store::{Sighting, Store};

/// Tells communities of visits.
pub struct Telling {
    /// The pipeline of the network's profiles.
    pub profiles: String,
    /// Reads the accounts out of a raw object.
    pub people: fn(&str) -> Vec<Person>,
    /// The pipelines of communities.
    pub targets: Vec<Target>,
    /// The store.
    pub store: Arc<dyn Store>,
    /// The time limit for a service.
    pub within: Duration,
    /// Where what was fanned out is counted.
    pub metrics: Arc<Metrics>,
}

/// What there is to tell of a page.
pub struct Told {
    named: Named,
    account: String,
    at: Millis,
}

impl Telling {
    /// Nothing yet, of the account with this id; `at` is now, ms since the epoch.
    pub fn of(&self, account: &str, at: Millis) -> Told {
        Told { named: Named::at(account, at), account: account.to_owned(), at }
    }

    /// Records that these posts are its account's, before they are stored: so a community that decides against the account also
    /// finds the posts of a visit that was killed. `made_at`: when each was made, ms since the epoch.
    ///
    /// # Errors
    /// The store is out; the same may be recorded again.
    pub async fn posts(&self, told: &mut Told, posts: &[Post], made_at: &[Millis]) -> Result<(), Outlook> {
        let mut sightings = Vec::with_capacity(posts.len());
        for (post, &at) in posts.iter().zip(made_at) {
            let (account, id) = (told.account.clone(), post.tweet.id.clone());
            sightings.push(Sighting { account: account.clone(), post: id.clone(), at });
            let shown = Shown::by_post(false, (self.people)(&post.tweet.raw));
            if !shown.names_nobody() {
                // Texts alone: it cannot fail.
                let object = serde_json::to_string(&shown).ok();
                told.named.mention(Mention { kind: COMMUNITY, id: account, from: id, object, ..Mention::default() });
            }
        }
        store_call::in_time(self.within, self.store.record_sightings(&self.profiles, &sightings)).await
    }

    /// Tells the communities: a candidate is judged by its posts now. The next page has nothing to tell yet.
    ///
    /// # Errors
    /// The store or a queue is out; the same may be told again.
    pub async fn tell(&self, told: &mut Told) -> Result<(), Outlook> {
        let next = self.of(&told.account, told.at);
        let Told { mut named, account, .. } = std::mem::replace(told, next);
        named.mention(Mention { kind: COMMUNITY, id: account, ..Mention::default() });
        let received = store_call::in_time(self.within, named.record(&self.targets)).await?;
        schedule_each(&self.targets, received, self.within, &self.metrics.counters).await
    }
}
