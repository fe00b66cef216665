//! `requestTweets`: the calls for one batch, and what each kind of refusal means.
//!
//! One call, as a rule. A request that is refused as a whole is halved until the id that spoils it is
//! alone; a credential that is refused or used up makes way for the next. Each further call takes a
//! permit of its own, without waiting: what gets none goes back as it was.

use std::sync::atomic::Ordering;
use std::time::Duration;

use super::TweetUpdate;
use crate::clock::{self, Millis, Stopwatch};
use crate::credential::{Leave, Park, Permit, Used, Window};
use crate::lookup::{Answer, LookupError, Outcome};
use crate::queue::{Batch, Job};
use crate::worker::Outlook;

/// A credential the API refuses is left alone for so long.
const REFUSED_PAUSE: Duration = Duration::from_secs(15 * 60);
/// More requests in a row refused as a whole, with none answered between, are no single id's fault: one
/// bad id among a hundred is alone after seven halvings, its eighth request.
const REFUSED_IN_A_ROW: u32 = 8;
/// Calls that end without an answer for one and the same ids, before they go back: a correction of the
/// clock, and a few credentials.
const TRIES: usize = 8;

/// What the calls for a batch brought.
#[derive(Debug, Default)]
pub(super) struct Requested {
    /// Jobs with what was said of them, and when (on the queue's clock).
    pub answered: Vec<(Job, Outcome, Millis)>,
    /// Jobs whose request was refused while they were alone in it, and why.
    pub refused: Vec<(Job, String)>,
    /// Suspects whose request was refused, and nobody knows whose fault it is: others first.
    pub postponed: Vec<Job>,
    /// Jobs nobody was asked about, or nobody answered about.
    pub unanswered: Vec<Job>,
    /// What it says of the services.
    pub outlook: Outlook,
}

/// Jobs that go into one call.
struct Part {
    jobs: Vec<Job>,
    tries: usize,
}

impl TweetUpdate {
    /// Asks for the whole batch.
    pub(super) async fn request_tweets(&self, batch: &Batch, permit: Permit) -> Requested {
        let mut requested = Requested::default();
        let answered_before = self.doubts.answered.load(Ordering::Relaxed);
        let mut permit = Some(permit);
        // The last part first: halves are finished before the next part is begun.
        let mut parts = vec![Part { jobs: batch.jobs.clone(), tries: 0 }];
        while let Some(part) = parts.pop() {
            let leave = match permit.take() {
                Some(permit) => Some(permit),
                None if self.time_is_up(batch) => None,
                None => self.permit_at_once().await,
            };
            let Some(permit) = leave else {
                requested.unanswered.extend(part.jobs);
                continue;
            };
            // An answer is at the most as old as its call, on the queue's clock: no worker's own clock dates it.
            // Dated when it is read, that of a process that was frozen meanwhile would look new. Inside its
            // lease, it is older than any answer of whoever claims the ids next.
            let at = batch.now.now().min(batch.fence.deadline - 1);
            let error = match self.look_up(&part.jobs, permit).await {
                Ok(answer) => {
                    requested
                        .answered
                        .extend(part.jobs.into_iter().zip(answer.outcomes).map(|(job, outcome)| (job, outcome, at)));
                    continue;
                }
                Err(error) => error,
            };
            self.after(error, part, &mut parts, &mut requested);
            if requested.outlook != Outlook::Fine {
                requested.unanswered.extend(parts.drain(..).flat_map(|part| part.jobs));
            }
        }
        if requested.answered.is_empty() && requested.outlook == Outlook::Fine {
            requested.outlook = Outlook::Unchanged;
        }
        if requested.answered.is_empty() {
            self.blame_nobody_unless_told_apart(batch, answered_before, &mut requested);
        }
        requested
    }

    /// Where nothing is answered, nobody can be told from the others: no blame, and no busy loop. A suspect
    /// that travels alone was told from them before; so were several that travel together, where the call
    /// before theirs was answered.
    fn blame_nobody_unless_told_apart(&self, batch: &Batch, answered_before: bool, requested: &mut Requested) {
        let suspects = batch.jobs.iter().all(|job| job.deliveries > 0);
        let told_apart = batch.jobs.len() == 1 || (suspects && answered_before);
        if !told_apart && !requested.refused.is_empty() {
            if requested.outlook == Outlook::Unchanged {
                requested.outlook = Outlook::Outage("every single id of a batch is refused".to_owned());
            }
            requested.unanswered.extend(requested.refused.drain(..).map(|(job, _)| job));
        }
        // Suspects travel apart. Given back as they were, they would be the most urgent again, and a few bad
        // ids all that is ever asked for: nothing would be answered that could tell them from the others.
        if suspects && self.doubts.refused_in_a_row.load(Ordering::Relaxed) > 0 {
            requested.postponed = std::mem::take(&mut requested.unanswered);
        }
    }

    /// What follows from a call without an answer.
    fn after(&self, error: LookupError, mut part: Part, parts: &mut Vec<Part>, requested: &mut Requested) {
        match error {
            LookupError::BadRequest(why) | LookupError::BatchTooLarge(why) => {
                let in_a_row = self.doubts.refused_in_a_row.fetch_add(1, Ordering::Relaxed) + 1;
                if in_a_row > REFUSED_IN_A_ROW {
                    // Not this id, and not that one: the API refuses us all. Nobody is blamed for it.
                    requested.outlook = Outlook::Outage(format!("{in_a_row} requests in a row are refused: {why}"));
                    requested.unanswered.extend(part.jobs);
                } else if part.jobs.len() > 1 {
                    tracing::warn!(
                        ids = part.jobs.len(),
                        error = why,
                        "the request is refused: its ids are tried in halves"
                    );
                    let second = part.jobs.split_off(part.jobs.len() / 2);
                    parts.push(Part { jobs: second, tries: 0 });
                    parts.push(Part { jobs: part.jobs, tries: 0 });
                } else {
                    requested.refused.extend(part.jobs.into_iter().map(|job| (job, why.clone())));
                }
            }
            // The lookup has corrected its clock: once more, and no further.
            LookupError::Clock(_) if part.tries == 0 => parts.push(Part { tries: TRIES, ..part }),
            LookupError::Throttled { .. } | LookupError::Credential(_) if part.tries < TRIES => {
                part.tries += 1;
                parts.push(part);
            }
            LookupError::Throttled { .. } | LookupError::Credential(_) => requested.unanswered.extend(part.jobs),
            LookupError::Stop(message) => {
                requested.outlook = Outlook::Stop(message);
                requested.unanswered.extend(part.jobs);
            }
            error @ (LookupError::Outage(_) | LookupError::BadAnswer(_) | LookupError::Clock(_)) => {
                requested.outlook = Outlook::Outage(error.to_string());
                requested.unanswered.extend(part.jobs);
            }
        }
    }

    /// One call. What its answer, or its failure, says of the credential goes to the ledger.
    async fn look_up(&self, jobs: &[Job], permit: Permit) -> Result<Answer, LookupError> {
        let counters = &self.metrics.counters;
        let ids: Vec<String> = jobs.iter().map(|job| job.id.clone()).collect();
        let watch = Stopwatch::start();
        counters.requests.add(1);
        let answer = self.lookup.look_up(&ids, &permit.credential).await;
        self.doubts.answered.store(answer.is_ok(), Ordering::Relaxed);
        tracing::debug!(ids = ids.len(), lookup_ms = watch.elapsed_ms(), ok = answer.is_ok(), "looked up");
        let used = match &answer {
            Ok(answer) => {
                self.doubts.refused_in_a_row.store(0, Ordering::Relaxed);
                counters.looked_up.add(ids.len());
                counters.unasked.add(answer.unasked);
                Used { window: Some(answer.quota.unwrap_or_else(Window::unmetered)), park: None }
            }
            Err(error) => {
                counters.requests_failed.add(1);
                self.used_in_vain(error, &permit.credential.name)
            }
        };
        self.credentials.used(permit, used).await;
        answer
    }

    fn used_in_vain(&self, error: &LookupError, name: &str) -> Used {
        match error {
            LookupError::Throttled { pause, quota, .. } => {
                tracing::warn!(credential = name, error = %error, pause_ms = clock::millis(*pause), "out of quota: the credential is parked");
                let park = Park { pause: *pause, why: error.to_string(), everywhere: false };
                Used { window: *quota, park: Some(park) }
            }
            LookupError::Credential(why) => {
                tracing::error!(
                    credential = name,
                    error = why,
                    pause_ms = clock::millis(REFUSED_PAUSE),
                    "refused by the API: the credential is parked"
                );
                Used { window: None, park: Some(Park { pause: REFUSED_PAUSE, why: why.clone(), everywhere: true }) }
            }
            LookupError::Clock(offset_ms) => {
                tracing::warn!(credential = name, offset_ms, "the API says our clock is off: corrected by its own");
                Used::default()
            }
            _ => Used::default(),
        }
    }

    /// Leave for a further call, if there is any right now.
    async fn permit_at_once(&self) -> Option<Permit> {
        match self.credentials.acquire(self.lookup.capabilities().endpoint, 0).await {
            Ok(Leave::Granted(permit)) => Some(permit),
            Ok(Leave::Wait(_)) => None,
            Err(error) => {
                tracing::warn!(error = %error, "no further call without the ledger");
                None
            }
        }
    }

    /// Whether too little of the lease is left for another call and the save after it.
    fn time_is_up(&self, batch: &Batch) -> bool {
        let needed = clock::millis(self.call_timeout + self.save_timeout);
        batch.fence.deadline - batch.now.now() <= needed
    }
}
