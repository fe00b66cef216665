//! Drains `incoming`: ids that an ingest in any language put into the queue's one open key.
//!
//! A round reads the head, validates, records, schedules, and removes last. The next round repeats an interrupted one
//! without harm: a recorded post stays, a scheduled one is known, and removing an absent id does nothing. For the same
//! reason, two updaters that drain at the same time only duplicate work.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::{AdmittedBatch, Queued, Starter, StarterError};
use engine::base::clock::{self, Stopwatch};
use engine::base::failpoint;
use engine::base::retry::RetryPolicy;
use engine::base::task;
use networks::model::post::Ingested;

const ROUND: usize = 1_000;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DrainRound {
    /// Members now in the queue (some were before), dead, or of a forgotten person.
    pub accepted: u64,
    pub refused: u64,
    /// Members removed because they are older than the last age bracket.
    pub too_old: u64,
    pub more: bool,
}

#[derive(Debug, Clone)]
pub struct Drain {
    starter: Starter,
    drainer: String,
    limit: usize,
}

impl Drain {
    /// `drainer` is the worker's name. One worker drains at a time.
    pub fn new(starter: Starter, drainer: impl Into<String>) -> Self {
        Self { starter, drainer: drainer.into(), limit: ROUND }
    }

    /// Sets the maximum number of members per round, at least 1; the default is 1,000.
    #[must_use]
    pub fn with_limit(mut self, limit: usize) -> Self {
        self.limit = limit.max(1);
        self
    }

    /// Drains the head of `incoming` once. Removes only members that are scheduled, so a failed round may be repeated.
    pub async fn round(&self) -> Result<DrainRound, StarterError> {
        let queue = &self.starter.queue;
        let head = queue.read_incoming(&self.drainer, self.limit).await?;
        if head.is_empty() {
            return Ok(DrainRound::default());
        }
        let mut round = DrainRound { more: head.len() >= self.limit, ..DrainRound::default() };
        // One wrong clock, the queue's or this machine's, would make all ids too old or of the future. Both must agree
        // to reject one.
        let clocks = [queue.brief_stats().await?.now_ms, clock::wall_ms()];
        let mut admitted = AdmittedBatch::default();
        let mut done: Vec<String> = Vec::with_capacity(head.len());
        let mut refused: Vec<(String, String)> = Vec::new();
        for incoming in head {
            let created_at = (incoming.created_at != 0).then_some(incoming.created_at);
            let tweet = Ingested { created_at, ..Ingested::bare(incoming.member.clone()) };
            let by_first = self.starter.admit(tweet.clone(), clocks[0], &mut admitted);
            match by_first.or_else(|why| self.starter.admit(tweet, clocks[1], &mut admitted).map_err(|_| why)) {
                Err(Queued::Refused(why)) => refused.push((incoming.member, why.to_string())),
                // Not set aside: an archive would push out the malformed members, and an id may belong to a forgotten
                // person.
                Err(_too_old) => {
                    round.too_old += 1;
                    done.push(incoming.member);
                }
                Ok(()) => {
                    round.accepted += 1;
                    done.push(incoming.member);
                }
            }
        }
        // Malformed members go first: they must not be read repeatedly while the services are down.
        if let Some((_, reason)) = refused.first() {
            round.refused = refused.len() as u64;
            queue.refuse_incoming(&refused).await?;
            tracing::warn!(
                namespace = queue.namespace(),
                refused = round.refused,
                first_reason = %reason,
                "malformed members of incoming were moved to incoming:refused"
            );
        }
        // No warning: an ingest may hand over an archive on purpose.
        if round.too_old > 0 {
            tracing::info!(
                namespace = queue.namespace(),
                too_old = round.too_old,
                "members of incoming are past the last age bracket and are not looked up; enqueue --once looks them up once"
            );
        }
        let leased = self.starter.record_and_schedule(&admitted, Stopwatch::start()).await?.leased;
        done.retain(|member| !leased.contains(member));
        round.accepted -= leased.len() as u64;
        // Ids held by workers need no immediate repetition.
        round.more &= round.refused > 0 || !done.is_empty();
        if !done.is_empty() {
            failpoint::point("before_accept");
            failpoint::hang("before_accept").await;
            queue.accept_incoming(&done).await?;
        }
        tracing::debug!(
            namespace = queue.namespace(),
            accepted = round.accepted,
            too_old = round.too_old,
            "incoming was drained"
        );
        Ok(round)
    }

    /// Drains until `cancel`: immediately while there is more, else every `interval`. Calls `on_round` after each
    /// round. Logs errors and retries with backoff.
    pub async fn run(&self, cancel: CancellationToken, interval: Duration, on_round: impl Fn(&DrainRound)) {
        let mut delays = RetryPolicy::default().start();
        while !cancel.is_cancelled() {
            let wait = match self.round().await {
                Ok(round) => {
                    delays.reset();
                    on_round(&round);
                    if round.more { Duration::ZERO } else { interval }
                }
                Err(error) => {
                    let wait = interval.max(delays.next_delay());
                    tracing::warn!(
                        %error,
                        failures = delays.attempts(),
                        wait_ms = clock::millis(wait),
                        "updater: incoming could not be drained"
                    );
                    wait
                }
            };
            task::waits("waits", Some(wait));
            tokio::select! {
                () = cancel.cancelled() => {}
                () = tokio::time::sleep(wait) => {}
            }
            task::step("drains incoming");
        }
    }
}
