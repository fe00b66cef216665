//! The posts of a page, to the starter: with dates that can be, and whatever cannot be scheduled stored at least.

use super::{Ended, SourcePoll};
use crate::base::clock::{self, Millis};
use crate::base::rarely::{Rarely, shown};
use crate::ingest::{Queued, Starter};
use crate::model::post::{Ingested, SECONDS_BELOW};
use crate::pipelines::timelines::dates::dated;
use crate::pipelines::timelines::paging::Taken;
use crate::providers::timeline::Rules;
use crate::providers::timeline::{Page, Post};
use crate::store::Way;

/// Lines of the log that tell of one post of many.
#[derive(Debug, Default)]
pub(super) struct Lines {
    misdated: Rarely,
    late: Rarely,
    refused: Rarely,
}

impl SourcePoll {
    /// Records and schedules the posts of a source's page. Answers how many were not known. What appears up to the id
    /// `promised` is later than its network promised.
    pub(super) async fn hand_over(
        &self,
        name: &str,
        rules: &Rules,
        page: Page,
        taken: &Taken,
        promised: u64,
    ) -> Result<usize, Ended> {
        let now = clock::wall_ms();
        let posts: Vec<Post> = page
            .posts
            .into_iter()
            .filter(|post| taken.hand_over.binary_search_by(|id| post.id.cmp(id)).is_ok())
            .collect();
        if posts.is_empty() {
            return Ok(0);
        }
        let ids: Vec<u64> = posts.iter().map(|post| post.id).collect();
        let query = self.queries.get(name).cloned();
        let way = Way { source: name.to_owned(), query, ..Way::of("poll") };
        let starter = self.starter.clone().by(way).within(self.save_timeout);
        let posts: Vec<Ingested> = posts.into_iter().map(|post| self.dated(&starter, rules, post, now)).collect();
        let answers = starter.queue_tweets(posts.clone()).await?;
        self.keep_refused(name, &starter, posts, &answers).await?;
        let fresh = || ids.iter().zip(&answers).filter(|(_, answer)| **answer == Queued::Scheduled);
        let late = fresh().filter(|(id, _)| **id <= promised).count();
        self.polls.posts_out_of_order.add(late);
        if late > 0
            && let Some(posts) = self.in_common.lines.late.is_due(late)
        {
            tracing::warn!(source = name, posts, "posts appeared later than out_of_order allows: set it higher");
        }
        Ok(fresh().count())
    }

    /// A post with a date that can be.
    fn dated(&self, starter: &Starter, rules: &Rules, post: Post, now: Millis) -> Ingested {
        let Post { id, mut tweet } = post;
        let by_place = Some(rules.layout.made_at(id)).filter(|at| *at >= SECONDS_BELOW);
        let by_id = starter.date_of_id(&tweet.id).or(by_place);
        let dated = dated(tweet.created_at, by_id, now);
        if dated.is_corrected {
            self.polls.posts_misdated.add(1);
            if let Some(posts) = self.in_common.lines.misdated.is_due(1) {
                let (id, given) = (shown(&tweet.id), tweet.created_at);
                tracing::warn!(
                    id,
                    given,
                    posts,
                    "a post cannot have been made then: its id's date is taken, or this moment"
                );
            }
        }
        tweet.created_at = dated.at;
        Ingested::from(tweet)
    }

    /// Stores what cannot be scheduled, and goes on: it was there to be read, and would keep all others waiting.
    async fn keep_refused(
        &self,
        name: &str,
        starter: &Starter,
        posts: Vec<Ingested>,
        answers: &[Queued],
    ) -> Result<(), Ended> {
        let refused = posts.into_iter().zip(answers).filter_map(|(post, answer)| match answer {
            Queued::Refused(why) => Some((post, why)),
            _ => None,
        });
        let (posts, whys): (Vec<Ingested>, Vec<&String>) = refused.unzip();
        let (Some(first), Some(why)) = (posts.first(), whys.first()) else { return Ok(()) };
        self.polls.posts_refused.add(posts.len());
        if let Some(all) = self.in_common.lines.refused.is_due(posts.len()) {
            tracing::warn!(
                source = name,
                id = shown(&first.id),
                why,
                posts = all,
                "a post cannot be scheduled: it is only stored"
            );
        }
        match starter.keep(posts).await {
            Err(error) if !error.is_passing() => {
                tracing::warn!(source = name, error = %error, "nor can it be stored");
                Ok(())
            }
            kept => Ok(kept?),
        }
    }
}
