//! A stream's posts, handed over in small batches: to the store, then to the queue.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc::Receiver;
use tokio::time::timeout;

use super::counters::StreamCounters;
use crate::base::clock;
use crate::base::retry::Retry;
use crate::ingest::{Queued, Starter};
use crate::model::post::Ingested;

/// The maximum number of posts in a batch: two calls to the services for all of them.
const BATCH: usize = 100;
/// The time that a post waits for others.
const WAIT: Duration = Duration::from_millis(250);
/// The maximum number of posts read and not handed over yet: then nothing more is read, and an API that is not read
/// from ends the connection.
pub const READ_AHEAD: usize = 1_000;
/// First and longest delay while a service is out.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(30));

/// Hands posts over.
#[derive(Debug, Clone)]
pub struct Feed {
    /// The stream's name in the settings.
    pub name: String,
    /// Takes the posts, within the time that store and queue may take.
    pub starter: Starter,
    /// Its counters.
    pub counters: Arc<StreamCounters>,
}

impl Feed {
    /// Hands over what comes until no more can come.
    pub async fn run(&self, mut posts: Receiver<Ingested>) {
        while let Some(first) = posts.recv().await {
            let mut batch = vec![first];
            // Ends early when nothing more can come.
            let gather = async {
                while batch.len() < BATCH
                    && let Some(post) = posts.recv().await
                {
                    batch.push(post);
                }
            };
            let _ = timeout(WAIT, gather).await;
            self.hand_over(batch).await;
        }
    }

    /// Again and again while a service is out. A process that ends meanwhile takes the batch along: the next one's
    /// first poll has it.
    async fn hand_over(&self, batch: Vec<Ingested>) {
        let mut retry = Retry::new(BACKOFF.0, BACKOFF.1);
        let answers = loop {
            let why = match self.starter.queue_tweets(batch.clone()).await {
                Ok(answers) => break answers,
                Err(error) => error.to_string(),
            };
            let delay = retry.next_delay();
            tracing::warn!(
                stream = self.name,
                posts = batch.len(),
                error = why,
                delay_ms = clock::millis(delay),
                "a stream's posts are not handed over yet: a service is out"
            );
            tokio::time::sleep(delay).await;
        };
        for why in answers.iter().filter_map(|answer| match answer {
            Queued::Refused(why) => Some(why),
            _ => None,
        }) {
            self.counters.stream_broken.add(1);
            tracing::warn!(stream = self.name, error = why, "a stream's post cannot be scheduled");
        }
        let scheduled = answers.iter().filter(|answer| **answer == Queued::Scheduled).count();
        tracing::debug!(stream = self.name, posts = answers.len(), scheduled, "posts of a stream");
    }
}
