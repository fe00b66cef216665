//! One process at a time: an API allows an account one stream, and ends the older of two.
//!
//! A stream is a job in a namespace of its account; the holder of its lease is connected. A lease cannot be extended, so the job is
//! settled, due at once, and claimed again. Holders claim with no [linger](ClaimRequest::linger), all others with one.
//!
//! ```text
//!   others:  claim(linger = handover) ─▶ nothing … nothing … the lease ended or was released ─▶ theirs
//!   holder:  claim ── ⅓ lease ── settle(due now), claim(linger = 0) ── ⅓ lease ── settle, claim …
//! ```
//!
//! Possible losses: a settle's reply (the claim that follows shows the result), a claim's reply (repeated with its token), the process
//! (its lease ends). A holder that could not renew its lease closes the connection before another process can claim the job.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;

use engine::base::clock::{self, QueueTime, Stopwatch};
use engine::base::random;
use engine::base::retry::Retry;
use engine::base::shutdown::Stop;
use engine::base::task;
use engine::lane::Lane;
use engine::queue::{Batch, Claim, ClaimRequest, Job, NewJob, Queue, QueueError, ScheduleOutcome, Verdict};

/// Id of the one job in such a namespace.
pub const JOB: &str = "stream";

const BACKOFF: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(10));

#[derive(Debug, Clone, Copy)]
pub struct LeaseTerms {
    /// The lease: a dead process blocks the others for this long.
    pub lease: Duration,
    /// The time for which a released stream is reserved for its holder.
    pub handover: Duration,
}

impl LeaseTerms {
    /// The lease is renewed after a third, which may take another third; the last one is never needed.
    #[must_use]
    pub fn from_lease(lease: Duration) -> Self {
        Self { lease, handover: lease / 3 }
    }

    /// Time limit of a renewal. Others may claim the job after `handover`; the rest of that time is for closing the connection.
    fn renewal_timeout(&self) -> Duration {
        self.handover * 3 / 4
    }
}

#[derive(Debug)]
pub struct LeaseKeeper {
    queue: Arc<dyn Queue>,
    /// Named like a worker.
    name: String,
    terms: LeaseTerms,
    lane: Lane,
}

/// Lease of a stream. Dropped, it ends by time.
#[derive(Debug)]
pub struct StreamLease {
    batch: Batch,
    /// Started before the claim.
    claimed_at: Stopwatch,
    /// Maximum age of the lease at that time: a claim whose reply was lost may have been done long before.
    before: Duration,
}

/// Reason why the lease of a stream is lost.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LostLease {
    #[error("this poller holds no lease")]
    NotHeld,
    #[error("another poller has it, or its namespace is paused")]
    Taken,
    #[error("{0}")]
    Refused(String),
    #[error("the queue did not answer within {} ms", within.as_millis())]
    Silent { within: Duration },
}

impl StreamLease {
    pub fn clock(&self) -> QueueTime {
        self.batch.now
    }

    /// Maximum age of the lease.
    fn age(&self) -> Duration {
        self.before + self.claimed_at.elapsed()
    }
}

enum Claimed {
    Held(StreamLease),
    Wait(Duration),
}

impl LeaseKeeper {
    /// `queue` is in the namespace of its account ([`PipelineId::stream`](networks::model::pipeline_id::PipelineId::stream)).
    pub fn new(queue: Arc<dyn Queue>, name: String, terms: LeaseTerms) -> Self {
        let lane = Lane::new("stream", terms.lease);
        Self { queue, name, terms, lane }
    }

    /// Waits until this process holds it; `None` if the process is stopping.
    pub async fn acquire(&self, stop: &Stop) -> Option<StreamLease> {
        let mut retry = Retry::new(BACKOFF.0, BACKOFF.1);
        let mut token = self.token();
        while !stop.is_draining() {
            let pause = match self.try_claim(&token).await {
                Ok(Claimed::Held(held)) if held.age() < self.terms.lease / 3 => return Some(held),
                Ok(Claimed::Held(late)) => {
                    self.release_lease(late).await;
                    token = self.token();
                    Duration::ZERO
                }
                Ok(Claimed::Wait(wait)) => {
                    retry.reset();
                    wait.min(self.terms.handover)
                }
                Err(error) => {
                    let pause = retry.next_delay();
                    tracing::warn!(
                        namespace = self.queue.namespace(),
                        error = %error,
                        delay_ms = clock::millis(pause),
                        "the poller cannot claim a stream: the queue does not answer"
                    );
                    pause
                }
            };
            stop.sleep(pause).await;
        }
        None
    }

    /// Renews it in time; returns the reason when it is lost.
    pub async fn renew_until_lost(&self, held: &mut StreamLease) -> LostLease {
        loop {
            task::step("holds a stream");
            tokio::time::sleep((self.terms.lease / 3).saturating_sub(held.age())).await;
            match timeout(self.terms.renewal_timeout(), self.renew(held)).await {
                Ok(Ok(renewed)) => *held = renewed,
                Ok(Err(why)) => return why,
                Err(_) => return LostLease::Silent { within: self.terms.renewal_timeout() },
            }
        }
    }

    /// A waiting poller gets it at once.
    pub async fn release_lease(&self, held: StreamLease) {
        // As if it had been due for as long as others have to wait.
        let due = held.batch.now.now() - clock::millis(self.terms.handover);
        let jobs: Vec<Job> = held.batch.jobs.iter().map(|job| Job { due, ..job.clone() }).collect();
        let released = timeout(self.terms.renewal_timeout(), self.queue.release(&held.batch.fence, &jobs)).await;
        if !matches!(released, Ok(Ok(_))) {
            tracing::debug!(
                namespace = self.queue.namespace(),
                "a stream could not be released: its lease will expire"
            );
        }
    }

    /// Claims like the other processes. The first one that puts the job into the queue need not wait.
    async fn try_claim(&self, token: &str) -> Result<Claimed, QueueError> {
        let job = NewJob { id: JOB.to_owned(), lane: self.lane.clone(), due: 0.into() };
        // Also if the queue was wiped under a holder, which notices when it renews the lease.
        let is_first = self.queue.schedule(&[job]).await? == [ScheduleOutcome::Scheduled];
        self.claim(token, if is_first { Duration::ZERO } else { self.terms.handover }).await
    }

    /// Puts the job back and claims it again, until the result is known.
    async fn renew(&self, held: &StreamLease) -> Result<StreamLease, LostLease> {
        let job = held.batch.jobs.first().ok_or(LostLease::NotHeld)?;
        let back = [(job.clone(), Verdict::Reschedule { lane: self.lane.clone(), due: 0.into() })];
        let mut retry = Retry::new(BACKOFF.0, BACKOFF.1);
        // A job also counts as lost if an earlier settle succeeded without a reply: the claim shows the truth.
        while let Err(error) = self.queue.settle(&held.batch.fence, &back, &[]).await {
            wait_before_retry(&mut retry, &error).await?;
        }
        let token = self.token();
        loop {
            match self.claim(&token, Duration::ZERO).await {
                Ok(Claimed::Held(renewed)) => return Ok(renewed),
                Ok(Claimed::Wait(_)) => return Err(LostLease::Taken),
                Err(error) => wait_before_retry(&mut retry, &error).await?,
            }
        }
    }

    async fn claim(&self, token: &str, linger: Duration) -> Result<Claimed, QueueError> {
        // By our clock the lease started before the claim, so it ends here before it does there.
        let claimed_at = Stopwatch::start();
        // The linger does not apply to a full batch. There is one job, so a limit of two is never full.
        let request = ClaimRequest { token, limit: 2, linger, lookahead: 0.0, early: 0.0, lease: self.terms.lease };
        Ok(match self.queue.claim(&request).await? {
            Claim::Batch(batch) => {
                let left = clock::span(batch.fence.deadline - batch.now.now());
                Claimed::Held(StreamLease { before: self.terms.lease.saturating_sub(left), claimed_at, batch })
            }
            Claim::Empty { wait, .. } => Claimed::Wait(wait),
        })
    }

    fn token(&self) -> String {
        format!("{}-{:016x}", self.name, random::number())
    }
}

/// Waits before a call is repeated; a refusal is final.
async fn wait_before_retry(retry: &mut Retry, error: &QueueError) -> Result<(), LostLease> {
    match error {
        QueueError::Refused(why) => Err(LostLease::Refused(why.clone())),
        _ => {
            tokio::time::sleep(retry.next_delay()).await;
            Ok(())
        }
    }
}
