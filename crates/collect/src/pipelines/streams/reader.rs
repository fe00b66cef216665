//! Runs a stream, from its hold to its posts, as long as the process runs.

use std::sync::Arc;

use tokio::sync::mpsc;
use tokio::time::timeout;

use super::backoff::Backoff;
use super::counters::StreamCounters;
use super::gap_filler::GapFiller;
use super::lease::LeaseKeeper;
use super::lines::{CutLine, LineSplitter};
use super::post_handover::{PostHandover, READ_AHEAD};
use engine::base::call_error::ErrorKind;
use engine::base::clock::{self, QueueTime, Stopwatch};
use engine::base::shutdown::Stop;
use engine::error_log::ErrorPlace;
use engine::metrics::Metrics;
use networks::model::post::Ingested;
use networks::providers::stream::{Chunks, Message, Stream, StreamError};

#[derive(Debug)]
pub struct StreamSource {
    pub name: String,
    pub stream: Arc<dyn Stream>,
    pub lease_keeper: LeaseKeeper,
    pub gap_filler: GapFiller,
    pub handover: PostHandover,
    pub counters: Arc<StreamCounters>,
    pub metrics: Arc<Metrics>,
}

impl StreamSource {
    /// Reads while this process holds the stream, until `stop`. Posts read by then are handed over.
    pub async fn run(&self, stop: &Stop) {
        let (posts, read) = mpsc::channel(READ_AHEAD);
        tokio::select! {
            ((), ()) = async { tokio::join!(self.run_while_leased(posts, stop), self.handover.run(read)) } => {}
            () = stop.wait_for_abandon() => {}
        }
    }

    async fn run_while_leased(&self, posts: mpsc::Sender<Ingested>, stop: &Stop) {
        // Kept across leases: a stream that returns to this poller keeps its count of failures.
        let mut backoff = Backoff::default();
        while let Some(mut held) = self.lease_keeper.acquire(stop).await {
            tracing::info!(stream = self.name, "this poller holds the stream");
            let clock = held.clock();
            tokio::select! {
                biased;
                () = stop.wait_for_drain() => {}
                why = self.lease_keeper.renew_until_lost(&mut held) => {
                    tracing::warn!(stream = self.name, reason = why.to_string(), "this poller lost its lease of the stream: another poller may claim it");
                    continue;
                }
                () = self.stay_connected(clock, &mut backoff, &posts) => {} // it never ends
            }
            self.lease_keeper.release_lease(held).await;
        }
    }

    async fn stay_connected(&self, clock: QueueTime, backoff: &mut Backoff, posts: &mpsc::Sender<Ingested>) {
        loop {
            let broken = match self.stream.connect().await {
                Ok(chunks) => {
                    self.counters.stream_connects.add(1);
                    tracing::info!(stream = self.name, "the poller is connected to a stream");
                    self.read_and_fill_gap((chunks, clock), backoff, posts).await
                }
                Err(broken) => broken,
            };
            let delay = backoff.after(&broken);
            let delay_ms = clock::millis(delay);
            let kind = match &broken {
                StreamError::Network(_) | StreamError::Http(_) | StreamError::Overloaded { .. } => ErrorKind::NoAnswer,
                StreamError::RateLimited { .. } => ErrorKind::RateLimit,
                StreamError::Refused(_) => ErrorKind::Refused,
            };
            let place = ErrorPlace { endpoint: "stream", example: Some(&self.name), ..ErrorPlace::default() };
            self.metrics.errors.record(kind, &broken.to_string(), place);
            match &broken {
                StreamError::Refused(_) => tracing::error!(
                    stream = self.name,
                    error = %broken,
                    delay_ms,
                    "a stream is refused: fix the cause; the poller retries every few minutes"
                ),
                _ => {
                    tracing::warn!(stream = self.name, error = %broken, delay_ms, "a stream is not connected: the poller retries")
                }
            }
            tokio::time::sleep(delay).await;
        }
    }

    /// Reads a connection to its end, and fills the gap before it.
    async fn read_and_fill_gap(
        &self,
        connection: (Box<dyn Chunks>, QueueTime),
        backoff: &mut Backoff,
        posts: &mpsc::Sender<Ingested>,
    ) -> StreamError {
        let filling = async {
            self.gap_filler.schedule_poll().await;
            std::future::pending().await
        };
        tokio::select! {
            broken = self.read_connection(connection, backoff, posts) => broken,
            never = filling => never,
        }
    }

    async fn read_connection(
        &self,
        (mut chunks, clock): (Box<dyn Chunks>, QueueTime),
        backoff: &mut Backoff,
        posts: &mpsc::Sender<Ingested>,
    ) -> StreamError {
        let (silence, connected) = (self.stream.read_timeout(), Stopwatch::start());
        let mut lines = LineSplitter::default();
        loop {
            let bytes = match timeout(silence, chunks.chunk()).await {
                Ok(Ok(Some(bytes))) => bytes,
                Ok(Ok(None)) => return StreamError::Network("the API ended the connection".to_owned()),
                Ok(Err(broken)) => return broken,
                Err(_) => return StreamError::Network(format!("no byte came within {} s", silence.as_secs())),
            };
            // A dead connection can look alive for `silence`; one that lasted longer was alive.
            if connected.elapsed() >= silence {
                backoff.reset();
            }
            for cut in lines.push(&bytes) {
                let message = match cut {
                    CutLine::Line(line) => self.stream.read(&line),
                    CutLine::TooLong => Message::Unreadable("the line is too long for a post".to_owned()),
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
                    Message::Notice(notice) => {
                        tracing::warn!(stream = self.name, notice, "the API sent a warning on a stream")
                    }
                    Message::Ended(broken) => return broken,
                    Message::Unreadable(why) => {
                        self.counters.stream_broken.add(1);
                        tracing::warn!(stream = self.name, error = why, "the poller skips a line of a stream");
                    }
                }
            }
        }
    }
}
