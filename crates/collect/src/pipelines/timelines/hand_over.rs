//! Hand-over of a page's posts to the starter, with possible dates. Posts that cannot be scheduled are only stored.

use crate::ingest::{Queued, Starter, StarterError};
use crate::pipelines::timelines::counters::PollCounters;
use crate::pipelines::timelines::dates::choose_date;
use crate::pipelines::timelines::paging::PageResult;
use engine::base::clock::{self, Millis};
use engine::base::log_throttle::{LogThrottle, escape_id};
use networks::model::post::{Ingested, SECONDS_BELOW};
use networks::providers::timeline::Rules;
use networks::providers::timeline::{Page, Post};

/// Rate limits of log lines about one post of many.
#[derive(Debug, Default)]
pub(super) struct LogLimits {
    misdated: LogThrottle,
    late: LogThrottle,
    refused: LogThrottle,
}

pub(super) struct PageHandOver<'a> {
    pub source: &'a str,
    pub starter: Starter,
    pub polls: &'a PollCounters,
    pub log_limits: &'a LogLimits,
    pub stores_old: bool,
    /// Time of the read, on the queue's clock, ms since the epoch.
    pub read_at: Millis,
}

impl PageHandOver<'_> {
    /// Records and schedules the posts of a page. Returns the number of new ones. One up to the id `promised` is late.
    pub(super) async fn hand_over(
        &self,
        rules: &Rules,
        page: Page,
        taken: &PageResult,
        promised: u64,
    ) -> Result<usize, StarterError> {
        let now = clock::wall_ms();
        self.polls.posts_misdated.add(page.misdated);
        let is_taken = |post: &Post| taken.hand_over.binary_search_by(|id| post.id.cmp(id)).is_ok();
        let posts: Vec<Post> = page.posts.into_iter().filter(is_taken).collect();
        if posts.is_empty() {
            return Ok(0);
        }
        let ids: Vec<u64> = posts.iter().map(|post| post.id).collect();
        let posts: Vec<Ingested> = posts.into_iter().map(|post| self.correct_date(rules, post, now)).collect();
        let answers = self.starter.queue_tweets(posts.clone()).await?;
        if self.stores_old {
            let old = posts.iter().zip(&answers).filter(|(_, answer)| **answer == Queued::TooOld);
            self.starter.record_unscheduled(old.map(|(post, _)| post.clone()).collect()).await?;
        }
        self.store_refused(posts, &answers).await?;
        let fresh = || ids.iter().zip(&answers).filter(|(_, answer)| **answer == Queued::Scheduled);
        let late = fresh().filter(|(id, _)| **id <= promised).count();
        self.polls.posts_out_of_order.add(late);
        if late > 0
            && let Some(posts) = self.log_limits.late.count_if_due(late)
        {
            tracing::warn!(source = self.source, posts, "posts appeared later than out_of_order allows: raise it");
        }
        Ok(fresh().count())
    }

    fn correct_date(&self, rules: &Rules, post: Post, now: Millis) -> Ingested {
        let Post { id, mut tweet } = post;
        let by_place = Some(rules.layout.made_at(id)).filter(|at| *at >= SECONDS_BELOW);
        let by_id = self.starter.date_of_id(&tweet.id).or(by_place);
        let dated = choose_date(tweet.created_at, by_id, now);
        if dated.is_corrected {
            self.polls.posts_misdated.add(1);
            if let Some(posts) = self.log_limits.misdated.count_if_due(1) {
                let (id, given) = (escape_id(&tweet.id), tweet.created_at);
                tracing::warn!(
                    id,
                    given,
                    posts,
                    "a post has an impossible date: the date of its id or the current time is used"
                );
            }
        }
        tweet.created_at = dated.at;
        Ingested { read_at: Some(self.read_at), ..Ingested::from(tweet) }
    }

    /// Stores posts that cannot be scheduled, and continues: otherwise they would block all others.
    async fn store_refused(&self, posts: Vec<Ingested>, answers: &[Queued]) -> Result<(), StarterError> {
        let refused = posts.into_iter().zip(answers).filter_map(|(post, answer)| match answer {
            Queued::Refused(why) => Some((post, why.to_string())),
            _ => None,
        });
        let (posts, whys): (Vec<Ingested>, Vec<String>) = refused.unzip();
        let (Some(first), Some(why)) = (posts.first(), whys.first()) else { return Ok(()) };
        self.polls.posts_refused.add(posts.len());
        if let Some(all) = self.log_limits.refused.count_if_due(posts.len()) {
            tracing::warn!(
                source = self.source,
                id = escape_id(&first.id),
                why,
                posts = all,
                "a post cannot be scheduled: it is only stored"
            );
        }
        match self.starter.record_unscheduled(posts).await {
            Err(error) if !error.is_temporary() => {
                tracing::warn!(source = self.source, error = %error, "the post can be neither scheduled nor stored");
                Ok(())
            }
            kept => kept,
        }
    }
}
