//! A stream's posts, handed over in small batches: to the store, then to the queue.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc::Receiver;
use tokio::time::timeout;

use super::counters::StreamCounters;
use crate::ingest::{Queued, Starter};
use engine::base::clock;
use engine::base::retry::Retry;
use networks::model::post::Ingested;

/// Maximum posts per batch: two calls to the services for all of them.
const MAX_BATCH: usize = 100;
/// Time that a post waits for others.
const BATCH_WAIT: Duration = Duration::from_millis(250);
/// Maximum posts that are read but not handed over. Beyond it the stream is not read, and the API then ends the connection.
pub const READ_AHEAD: usize = 1_000;
/// First and longest delay while a service is down.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(30));

#[derive(Debug, Clone)]
pub struct PostHandover {
    pub name: String,
    pub starter: Starter,
    pub counters: Arc<StreamCounters>,
}

impl PostHandover {
    pub async fn run(&self, mut posts: Receiver<Ingested>) {
        while let Some(first) = posts.recv().await {
            let mut batch = vec![first];
            // Ends early when the channel closes.
            let gather = async {
                while batch.len() < MAX_BATCH
                    && let Some(post) = posts.recv().await
                {
                    batch.push(post);
                }
            };
            let _ = timeout(BATCH_WAIT, gather).await;
            self.hand_over(batch).await;
        }
    }

    /// Retries while a service is down. If the process ends meanwhile, the batch is lost: the first poll of the next process has it.
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
                "a stream's posts are not stored yet: a service does not answer"
            );
            tokio::time::sleep(delay).await;
        };
        for why in answers.iter().filter_map(|answer| match answer {
            Queued::Refused(why) => Some(why.to_string()),
            _ => None,
        }) {
            self.counters.stream_broken.add(1);
            tracing::warn!(stream = self.name, error = why, "a stream's post cannot be scheduled");
        }
        let scheduled = answers.iter().filter(|answer| **answer == Queued::Scheduled).count();
        tracing::debug!(stream = self.name, posts = answers.len(), scheduled, "the posts of a stream are handed over");
    }
}
