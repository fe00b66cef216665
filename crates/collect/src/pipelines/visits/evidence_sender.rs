//! Evidence for communities from the posts of a visit, without lookups of the posts.

use std::sync::Arc;
use std::time::Duration;

use crate::pipelines::refresh::{AccountEvidence, Arrival, FanOutTarget, Mention, Mentions, apply_to_targets};
use crate::pipelines::store_call;
use engine::base::clock::Millis;
use engine::metrics::Metrics;
use engine::worker::Outlook;
use networks::model::account::Person;
use networks::providers::timeline::Post;
use store::{Sighting, Store};

pub struct EvidenceSender {
    pub profiles: String,
    pub people: fn(&str) -> Vec<Person>,
    pub targets: Vec<FanOutTarget>,
    pub store: Arc<dyn Store>,
    pub save_timeout: Duration,
    pub metrics: Arc<Metrics>,
}

pub struct PageReport {
    named: Mentions,
    account: String,
    at: Millis,
}

impl EvidenceSender {
    pub fn start_report(&self, account: &str, at: Millis) -> PageReport {
        PageReport { named: Mentions::for_item(account, at), account: account.to_owned(), at }
    }

    /// Records posts of an account before they are stored: a community that rejects the account finds them even after a killed visit.
    /// `made_at`: dates of the posts, ms since the epoch. May be repeated after an error.
    pub async fn record_posts(
        &self,
        report: &mut PageReport,
        posts: &[Post],
        made_at: &[Millis],
    ) -> Result<(), Outlook> {
        let mut sightings = Vec::with_capacity(posts.len());
        for (post, &at) in posts.iter().zip(made_at) {
            let (account, id) = (report.account.clone(), post.tweet.id.clone());
            sightings.push(Sighting { account: account.clone(), post: id.clone(), at });
            if self.targets.iter().any(|target| target.starter().is_content_dropped(&post.tweet)) {
                continue;
            }
            let evidence = AccountEvidence::from_post(false, (self.people)(&post.tweet.raw));
            if !evidence.names_no_account() {
                report.named.add(Mention { from: id, ..Mention::new(account, Arrival::Evidence(evidence)) });
            }
        }
        store_call::run_with_timeout(self.save_timeout, self.store.record_sightings(&self.profiles, &sightings)).await
    }

    /// Sends the evidence to the communities, and starts an empty report for the next page.
    pub async fn send(&self, report: &mut PageReport) -> Result<(), Outlook> {
        let next = self.start_report(&report.account, report.at);
        let PageReport { mut named, account, .. } = std::mem::replace(report, next);
        named.add(Mention::new(account, Arrival::NewFacts));
        let received = store_call::run_with_timeout(self.save_timeout, named.record(&self.targets)).await?;
        apply_to_targets(&self.targets, received, self.save_timeout, &self.metrics.counters).await
    }
}
