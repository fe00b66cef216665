//! Data for communities from a visit: its posts are posts of its account, and show other accounts. No lookup of the posts is needed.

use std::sync::Arc;
use std::time::Duration;

use crate::base::clock::Millis;
use crate::engine::metrics::Metrics;
use crate::engine::worker::Outlook;
use crate::model::account::Person;
use crate::pipelines::community::account_evidence::{AccountEvidence, COMMUNITY};
use crate::pipelines::refresh::{Mention, Named, Target, schedule_each};
use crate::pipelines::store_call;
use crate::providers::timeline::Post;
use crate::store::{Sighting, Store};

pub struct Telling {
    /// Namespace of the network's profiles.
    pub profiles: String,
    pub people: fn(&str) -> Vec<Person>,
    pub targets: Vec<Target>,
    pub store: Arc<dyn Store>,
    pub within: Duration,
    pub metrics: Arc<Metrics>,
}

pub struct PageReport {
    named: Named,
    account: String,
    at: Millis,
}

impl Telling {
    /// Starts without data, for the account with this id; `at` is now, ms since the epoch.
    pub fn of(&self, account: &str, at: Millis) -> PageReport {
        PageReport { named: Named::at(account, at), account: account.to_owned(), at }
    }

    /// Records these posts for their account before they are stored: a community that rejects the account finds them even after a killed
    /// visit. `made_at`: their dates, ms since the epoch. May be repeated after an error.
    pub async fn posts(&self, report: &mut PageReport, posts: &[Post], made_at: &[Millis]) -> Result<(), Outlook> {
        let mut sightings = Vec::with_capacity(posts.len());
        for (post, &at) in posts.iter().zip(made_at) {
            let (account, id) = (report.account.clone(), post.tweet.id.clone());
            sightings.push(Sighting { account: account.clone(), post: id.clone(), at });
            if self.targets.iter().any(|target| target.starter().leaves_out(&post.tweet)) {
                continue;
            }
            let shown = AccountEvidence::by_post(false, (self.people)(&post.tweet.raw));
            if !shown.names_no_account() {
                // Only texts: it cannot fail.
                let object = serde_json::to_string(&shown).ok();
                report.named.mention(Mention { kind: COMMUNITY, id: account, from: id, object, ..Mention::default() });
            }
        }
        store_call::in_time(self.within, self.store.record_sightings(&self.profiles, &sightings)).await
    }

    /// Sends the data to the communities, which then judge a candidate by its posts, and starts without data for the next page.
    pub async fn tell(&self, report: &mut PageReport) -> Result<(), Outlook> {
        let next = self.of(&report.account, report.at);
        let PageReport { mut named, account, .. } = std::mem::replace(report, next);
        named.mention(Mention { kind: COMMUNITY, id: account, ..Mention::default() });
        let received = store_call::in_time(self.within, named.record(&self.targets)).await?;
        schedule_each(&self.targets, received, self.within, &self.metrics.counters).await
    }
}
