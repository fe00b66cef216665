//! Runs a stream, from its hold to its posts, as long as the process runs.

use std::sync::Arc;

use tokio::sync::mpsc;
use tokio::time::timeout;

use super::backoff::Backoff;
use super::counters::StreamCounters;
use super::feed::{Feed, READ_AHEAD};
use super::fill::Fill;
use super::hold::Hold;
use super::lines::{Cut, Lines};
use crate::base::clock::{self, QueueTime, Stopwatch};
use crate::base::shutdown::Stop;
use crate::engine::error_log::{ErrorKind, ErrorPlace};
use crate::engine::metrics::Metrics;
use crate::model::post::Ingested;
use crate::providers::stream::{Broken, Chunks, Message, Stream};

#[derive(Debug)]
pub struct StreamSource {
    pub name: String,
    pub stream: Arc<dyn Stream>,
    pub hold: Hold,
    pub fill: Fill,
    pub feed: Feed,
    pub counters: Arc<StreamCounters>,
    pub metrics: Arc<Metrics>,
}

impl StreamSource {
    /// Reads while this process holds the stream, until `stop`. Posts read by then are handed over.
    pub async fn run(&self, stop: &Stop) {
        let (posts, read) = mpsc::channel(READ_AHEAD);
        tokio::select! {
            ((), ()) = async { tokio::join!(self.take_turns(posts, stop), self.feed.run(read)) } => {}
            () = stop.abandoning() => {}
        }
    }

    async fn take_turns(&self, posts: mpsc::Sender<Ingested>, stop: &Stop) {
        // Kept across leases: a stream that returns to this poller keeps its count of failures.
        let mut backoff = Backoff::default();
        while let Some(mut held) = self.hold.take(stop).await {
            tracing::info!(stream = self.name, "a stream is this poller's");
            let clock = held.clock();
            tokio::select! {
                biased;
                () = stop.draining() => {}
                why = self.hold.keep(&mut held) => {
                    tracing::warn!(stream = self.name, reason = why, "a stream is released: a poller may take it");
                    continue;
                }
                () = self.stay_connected(clock, &mut backoff, &posts) => {} // it never ends
            }
            self.hold.let_go(held).await;
        }
    }

    async fn stay_connected(&self, clock: QueueTime, backoff: &mut Backoff, posts: &mpsc::Sender<Ingested>) {
        loop {
            let broken = match self.stream.connect().await {
                Ok(chunks) => {
                    self.counters.stream_connects.add(1);
                    tracing::info!(stream = self.name, "a stream is connected");
                    self.follow((chunks, clock), backoff, posts).await
                }
                Err(broken) => broken,
            };
            let delay = backoff.after(&broken);
            let delay_ms = clock::millis(delay);
            let kind = match &broken {
                Broken::Network(_) | Broken::Http(_) | Broken::Overloaded { .. } => ErrorKind::NoAnswer,
                Broken::RateLimited { .. } => ErrorKind::RateLimit,
                Broken::Refused(_) => ErrorKind::Refused,
            };
            let place = ErrorPlace { endpoint: "stream", example: Some(&self.name), ..ErrorPlace::default() };
            self.metrics.errors.record(kind, &broken.to_string(), place);
            match &broken {
                Broken::Refused(_) => tracing::error!(
                    stream = self.name,
                    error = %broken,
                    delay_ms,
                    "a stream is refused: fix the cause; it is retried every few minutes"
                ),
                _ => {
                    tracing::warn!(stream = self.name, error = %broken, delay_ms, "a stream is not connected: trying again")
                }
            }
            tokio::time::sleep(delay).await;
        }
    }

    /// Reads a connection to its end, and fills the gap before it.
    async fn follow(
        &self,
        connection: (Box<dyn Chunks>, QueueTime),
        backoff: &mut Backoff,
        posts: &mpsc::Sender<Ingested>,
    ) -> Broken {
        let filling = async {
            self.fill.put_due().await;
            std::future::pending().await
        };
        tokio::select! {
            broken = self.read(connection, backoff, posts) => broken,
            never = filling => never,
        }
    }

    async fn read(
        &self,
        (mut chunks, clock): (Box<dyn Chunks>, QueueTime),
        backoff: &mut Backoff,
        posts: &mpsc::Sender<Ingested>,
    ) -> Broken {
        let (silence, connected) = (self.stream.silence(), Stopwatch::start());
        let mut lines = Lines::default();
        loop {
            let bytes = match timeout(silence, chunks.chunk()).await {
                Ok(Ok(Some(bytes))) => bytes,
                Ok(Ok(None)) => return Broken::Network("the API ended the connection".to_owned()),
                Ok(Err(why)) => return Broken::Network(why),
                Err(_) => return Broken::Network(format!("no byte came within {} s", silence.as_secs())),
            };
            // A dead connection can look alive for `silence`; one that lasted longer was alive.
            if connected.elapsed() >= silence {
                backoff.reset();
            }
            for cut in lines.push(&bytes) {
                let message = match cut {
                    Cut::Line(line) => self.stream.read(&line),
                    Cut::TooLong => Message::Unreadable("it is too long for a post".to_owned()),
                };
                match message {
                    Message::Post { post, broken } => {
                        self.counters.stream_posts.add(1);
                        if let Some(why) = broken {
                            self.counters.stream_broken.add(1);
                            tracing::warn!(
                                stream = self.name,
                                error = why,
                                "a stream's post is scheduled by its id alone"
                            );
                        }
                        // The feed accepts posts while anything is read.
                        let _ = posts.send(Ingested { read_at: Some(clock.now()), ..*post }).await;
                    }
                    Message::Notice(notice) => tracing::warn!(stream = self.name, notice, "a stream has a warning"),
                    Message::Ended(broken) => return broken,
                    Message::Unreadable(why) => {
                        self.counters.stream_broken.add(1);
                        tracing::warn!(stream = self.name, error = why, "a line of a stream is passed over");
                    }
                }
            }
        }
    }
}
