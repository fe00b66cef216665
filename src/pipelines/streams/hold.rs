//! One process at a time: an API allows an account one stream, and ends the older of two.
//!
//! A stream is a job of a delayed queue in a namespace of its account; the holder of its lease is connected. A lease
//! cannot be extended, so it is renewed: the job is settled, due at once, and claimed again. Nobody gets in between,
//! since holders claim with no [linger](ClaimRequest::linger) and all others with one: what a holder has put back is
//! nobody else's for [`HoldTerms::handover`].
//!
//! ```text
//!   others:  claim(linger = handover) ─▶ nothing … nothing … the lease ran out, or it was let go ─▶ theirs
//!   holder:  claim ── ⅓ lease ── settle(due now), claim(linger = 0) ── ⅓ lease ── settle, claim …
//! ```
//!
//! What can be lost: a settle's reply (it was done or not; the claim that follows says what is so), a claim's (made again
//! under its token), the process (its lease runs out, and the next claim has the job). A holder that could not take
//! the job anew in time lets the connection go before anybody else can have it.

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

/// The one job of such a namespace.
pub const JOB: &str = "stream";

/// First and longest delay while the queue is out.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(10));

/// The times of a hold.
#[derive(Debug, Clone, Copy)]
pub struct HoldTerms {
    /// The lease: a dead process blocks the others for this long.
    pub lease: Duration,
    /// The time for which a released stream is reserved for its holder.
    pub handover: Duration,
}

impl HoldTerms {
    /// Taken anew after a third of the lease, for which there is another third; the last is never needed.
    #[must_use]
    pub fn of_lease(lease: Duration) -> Self {
        Self { lease, handover: lease / 3 }
    }

    /// Taking it anew may take so long: others may have it when the hand-over's time is up, and the rest of that is
    /// for the connection to be closed.
    fn patience(&self) -> Duration {
        self.handover * 3 / 4
    }
}

/// The queue in which a stream is held.
#[derive(Debug)]
pub struct Hold {
    queue: Arc<dyn Queue>,
    /// As workers are named.
    name: String,
    terms: HoldTerms,
    lane: Lane,
}

/// A hold. Dropped, it ends with its lease.
#[derive(Debug)]
pub struct Held {
    batch: Batch,
    /// Started before it was asked for.
    asked: Stopwatch,
    /// How old the lease was by then, at the most: a claim whose reply was lost may have been done long before.
    before: Duration,
}

impl Held {
    /// The queue's clock.
    pub fn clock(&self) -> QueueTime {
        self.batch.now
    }

    /// The part of the lease that has passed, at least.
    fn age(&self) -> Duration {
        self.before + self.asked.elapsed()
    }
}

/// A claim's answer.
enum Claimed {
    Held(Held),
    Wait(Duration),
}

impl Hold {
    /// In a queue of the namespace of its account ([`PipelineId::stream`](crate::model::pipeline_id::PipelineId::stream)).
    pub fn new(queue: Arc<dyn Queue>, name: String, terms: HoldTerms) -> Self {
        let lane = Lane::new("stream", terms.lease);
        Self { queue, name, terms, lane }
    }

    /// Waits until it is ours; `None` when nothing is to be begun any more.
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

    /// Keeps it by renewing it in time; returns the reason when it is no longer ours.
    pub async fn keep(&self, held: &mut Held) -> String {
        loop {
            task::step("holds a stream");
            tokio::time::sleep((self.terms.lease / 3).saturating_sub(held.age())).await;
            match timeout(self.terms.patience(), self.anew(held)).await {
                Ok(Ok(anew)) => *held = anew,
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

    /// Of the others' sort: the first one that puts the job into the queue need not wait.
    async fn ask(&self, token: &str) -> Result<Claimed, QueueError> {
        let job = NewJob { id: JOB.to_owned(), lane: self.lane.clone(), due: 0.into() };
        // Also if the queue was wiped under a holder, which notices when it renews the lease.
        let is_first = self.queue.schedule(&[job]).await? == [Scheduled::Scheduled];
        self.claim(token, if is_first { Duration::ZERO } else { self.terms.handover }).await
    }

    /// The job put back and claimed again. Tries until it is told what is so; `Err` says who has it instead.
    async fn anew(&self, held: &Held) -> Result<Held, String> {
        let Some(job) = held.batch.jobs.first() else { return Err("nothing is held".to_owned()) };
        let back = [(job.clone(), Verdict::Reschedule { lane: self.lane.clone(), due: 0.into() })];
        let mut retry = Retry::new(BACKOFF.0, BACKOFF.1);
        // Lost is what an earlier settle did whose reply was lost, too: the claim knows.
        while let Err(error) = self.queue.settle(&held.batch.fence, &back, &[]).await {
            again(&mut retry, &error).await?;
        }
        let token = self.token();
        loop {
            match self.claim(&token, Duration::ZERO).await {
                Ok(Claimed::Held(anew)) => return Ok(anew),
                Ok(Claimed::Wait(_)) => return Err("another poller has it, or its namespace is paused".to_owned()),
                Err(error) => again(&mut retry, &error).await?,
            }
        }
    }

    async fn claim(&self, token: &str, linger: Duration) -> Result<Claimed, QueueError> {
        // By our clock the lease began before it was asked for, so it ends here before it does there.
        let asked = Stopwatch::start();
        // Two would be a full batch, which is not waited for; there is one.
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

/// Waits before a call is made again; a refusal is final.
async fn again(retry: &mut Retry, error: &QueueError) -> Result<(), String> {
    match error {
        QueueError::Refused(why) => Err(why.clone()),
        _ => {
            tokio::time::sleep(retry.next_delay()).await;
            Ok(())
        }
    }
}
