//! One process at a time: an API allows an account one stream, and ends the older of two.
//!
//! A stream is a job of a delayed queue in a namespace of its account; the holder of its lease is connected. A lease cannot be extended,
//! so the job is settled, due at once, and claimed again. No other process gets in between: holders claim with no
//! [linger](ClaimRequest::linger), all others with one. A released job stays reserved for [`HoldTerms::handover`].
//!
//! ```text
//!   others:  claim(linger = handover) ─▶ nothing … nothing … the lease ran out, or it was let go ─▶ theirs
//!   holder:  claim ── ⅓ lease ── settle(due now), claim(linger = 0) ── ⅓ lease ── settle, claim …
//! ```
//!
//! Possible losses: a settle's reply (the claim that follows shows the result), a claim's reply (repeated with its token), the process
//! (its lease ends). A holder that could not renew its lease closes the connection before another process can claim the job.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;

use crate::base::clock::{self, QueueTime, Stopwatch};
use crate::base::random;
use crate::base::retry::Retry;
use crate::base::shutdown::Stop;
use crate::base::task;
use crate::engine::lane::Lane;
use crate::engine::queue::{Batch, Claim, ClaimRequest, Job, NewJob, Queue, QueueError, Scheduled, Verdict};

/// Id of the one job in such a namespace.
pub const JOB: &str = "stream";

const BACKOFF: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(10));

#[derive(Debug, Clone, Copy)]
pub struct HoldTerms {
    /// The lease: a dead process blocks the others for this long.
    pub lease: Duration,
    /// The time for which a released stream is reserved for its holder.
    pub handover: Duration,
}

impl HoldTerms {
    /// The lease is renewed after a third, which may take another third; the last one is never needed.
    #[must_use]
    pub fn of_lease(lease: Duration) -> Self {
        Self { lease, handover: lease / 3 }
    }

    /// Time limit of a renewal. Others may claim the job after `handover`; the rest of that time is for closing the connection.
    fn patience(&self) -> Duration {
        self.handover * 3 / 4
    }
}

#[derive(Debug)]
pub struct Hold {
    queue: Arc<dyn Queue>,
    /// Named like a worker.
    name: String,
    terms: HoldTerms,
    lane: Lane,
}

/// A hold. Dropped, it ends with its lease.
#[derive(Debug)]
pub struct Held {
    batch: Batch,
    /// Started before the claim.
    asked: Stopwatch,
    /// Maximum age of the lease at that time: a claim whose reply was lost may have been done long before.
    before: Duration,
}

impl Held {
    pub fn clock(&self) -> QueueTime {
        self.batch.now
    }

    /// Maximum age of the lease.
    fn age(&self) -> Duration {
        self.before + self.asked.elapsed()
    }
}

enum Claimed {
    Held(Held),
    Wait(Duration),
}

impl Hold {
    /// `queue` is in the namespace of its account ([`PipelineId::stream`](crate::model::pipeline_id::PipelineId::stream)).
    pub fn new(queue: Arc<dyn Queue>, name: String, terms: HoldTerms) -> Self {
        let lane = Lane::new("stream", terms.lease);
        Self { queue, name, terms, lane }
    }

    /// Waits until this process holds it; `None` if the process is stopping.
    pub async fn take(&self, stop: &Stop) -> Option<Held> {
        let mut retry = Retry::new(BACKOFF.0, BACKOFF.1);
        let mut token = self.token();
        while !stop.is_draining() {
            let pause = match self.ask(&token).await {
                Ok(Claimed::Held(held)) if held.age() < self.terms.lease / 3 => return Some(held),
                Ok(Claimed::Held(late)) => {
                    self.let_go(late).await;
                    token = self.token();
                    Duration::ZERO
                }
                Ok(Claimed::Wait(wait)) => {
                    retry.succeeded();
                    wait.min(self.terms.handover)
                }
                Err(error) => {
                    let pause = retry.next_delay();
                    tracing::warn!(
                        namespace = self.queue.namespace(),
                        error = %error,
                        delay_ms = clock::millis(pause),
                        "a stream cannot be held: the queue is out"
                    );
                    pause
                }
            };
            stop.sleep(pause).await;
        }
        None
    }

    /// Renews it in time; returns the reason when it is lost.
    pub async fn keep(&self, held: &mut Held) -> String {
        loop {
            task::step("holds a stream");
            tokio::time::sleep((self.terms.lease / 3).saturating_sub(held.age())).await;
            match timeout(self.terms.patience(), self.renew(held)).await {
                Ok(Ok(renewed)) => *held = renewed,
                Ok(Err(why)) => return why,
                Err(_) => {
                    return format!("the queue did not answer within {} ms", self.terms.patience().as_millis());
                }
            }
        }
    }

    /// Releases it: a waiting poller gets it at once.
    pub async fn let_go(&self, held: Held) {
        // As if it had been due for as long as others have to wait.
        let due = held.batch.now.now() - clock::millis(self.terms.handover);
        let jobs: Vec<Job> = held.batch.jobs.iter().map(|job| Job { due, ..job.clone() }).collect();
        let released = timeout(self.terms.patience(), self.queue.release(&held.batch.fence, &jobs)).await;
        if !matches!(released, Ok(Ok(_))) {
            tracing::debug!(
                namespace = self.queue.namespace(),
                "a stream could not be released: its lease will expire"
            );
        }
    }

    /// Claims like the other processes. The first one that puts the job into the queue need not wait.
    async fn ask(&self, token: &str) -> Result<Claimed, QueueError> {
        let job = NewJob { id: JOB.to_owned(), lane: self.lane.clone(), due: 0.into() };
        // Also if the queue was wiped under a holder, which notices when it renews the lease.
        let is_first = self.queue.schedule(&[job]).await? == [Scheduled::Scheduled];
        self.claim(token, if is_first { Duration::ZERO } else { self.terms.handover }).await
    }

    /// Puts the job back and claims it again, until the result is known. `Err` is the reason of the loss.
    async fn renew(&self, held: &Held) -> Result<Held, String> {
        let Some(job) = held.batch.jobs.first() else { return Err("nothing is held".to_owned()) };
        let back = [(job.clone(), Verdict::Reschedule { lane: self.lane.clone(), due: 0.into() })];
        let mut retry = Retry::new(BACKOFF.0, BACKOFF.1);
        // A job also counts as lost if an earlier settle succeeded without a reply: the claim shows the truth.
        while let Err(error) = self.queue.settle(&held.batch.fence, &back, &[]).await {
            again(&mut retry, &error).await?;
        }
        let token = self.token();
        loop {
            match self.claim(&token, Duration::ZERO).await {
                Ok(Claimed::Held(renewed)) => return Ok(renewed),
                Ok(Claimed::Wait(_)) => return Err("another poller has it, or its namespace is paused".to_owned()),
                Err(error) => again(&mut retry, &error).await?,
            }
        }
    }

    async fn claim(&self, token: &str, linger: Duration) -> Result<Claimed, QueueError> {
        // By our clock the lease started before the claim, so it ends here before it does there.
        let asked = Stopwatch::start();
        // The linger does not apply to a full batch. There is one job, so a limit of two is never full.
        let request = ClaimRequest { token, limit: 2, linger, lookahead: 0.0, early: 0.0, lease: self.terms.lease };
        Ok(match self.queue.claim(&request).await? {
            Claim::Batch(batch) => {
                let left = clock::span(batch.fence.deadline - batch.now.now());
                Claimed::Held(Held { before: self.terms.lease.saturating_sub(left), asked, batch })
            }
            Claim::Empty { wait, .. } => Claimed::Wait(wait),
        })
    }

    fn token(&self) -> String {
        format!("{}-{:016x}", self.name, random::number())
    }
}

/// Waits before a call is repeated; a refusal is final.
async fn again(retry: &mut Retry, error: &QueueError) -> Result<(), String> {
    match error {
        QueueError::Refused(why) => Err(why.clone()),
        _ => {
            tokio::time::sleep(retry.next_delay()).await;
            Ok(())
        }
    }
}
