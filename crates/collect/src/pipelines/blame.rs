//! Decides whether a refusal is the fault of the credential or of the requested items.
//!
//! APIs answer 401 and 403 for a credential that they do not accept, and for one post, account or list that it may not see.
//! So before a credential is blamed, the worker requests a *witness* with it: an item that the API returned to it before.
//!
//! ```text
//!   401, 403 ─▶ the API returns a witness ───────▶ the items are to blame: the credential works
//!            ├▶ the API refuses the witnesses ───▶ the credential is to blame
//!            ├▶ there is no witness ─────────────▶ the credential is to blame: there is no sign that it ever worked
//!            └▶ no witness could be requested ───▶ unclear: as in an outage, neither is blamed
//! ```
//!
//! A refused [trial](Permit::is_trial) after a pause needs no witness: the credential is to blame. Refusals that arrive together share
//! one witness. The evidence is in memory: a new process has none, and blames the credential first.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::future::BoxFuture;

use engine::base::clock::Stopwatch;
use engine::base::random;
use engine::quota::{AcquireOutcome, Credential, Credentials, Park, Permit};
use networks::providers::lookup::LookupError;

const WITNESSES_KEPT: usize = 8;
/// Witnesses per answer: those from several answers are less likely to be hidden together.
const WITNESSES_PER_ANSWER: usize = 2;
/// Witnesses requested after one refusal. Some may have been hidden since, like the refused items.
const WITNESSES_PER_REFUSAL: usize = 3;
const DEFERRED_KEPT: usize = 8;
/// Longest total wait for the permit of a witness's call.
const PERMIT_TIMEOUT: Duration = Duration::from_secs(2);
/// Items remembered until their deferral: a bound on memory, far above need.
const MAX_TO_DEFER: usize = 10_000;

#[derive(Debug)]
pub enum Blame {
    /// The credential works: it may not see these items, or one of them.
    Items,
    Credential {
        /// False if only the same few items were refused again: the credential may work at other endpoints.
        everywhere: bool,
    },
    /// The API neither returned nor refused a witness, for this reason.
    Unclear(String),
}

#[derive(Debug)]
pub enum Testimony {
    Answered,
    Refused,
    /// The request was not made, or failed, for this reason.
    None(String),
}

impl<T> From<Result<T, LookupError>> for Testimony {
    fn from(answer: Result<T, LookupError>) -> Self {
        match answer {
            Ok(_) => Self::Answered,
            Err(error) if error.is_about_credential() => Self::Refused,
            Err(error) => Self::None(error.to_string()),
        }
    }
}

/// Acquires a permit for a call with that credential, within 2 s. Fails with [`Testimony::None`].
pub async fn acquire_witness_permit(
    credentials: &Credentials,
    credential: &Credential,
    endpoint: &'static str,
) -> Result<Permit, Testimony> {
    let watch = Stopwatch::start();
    loop {
        match credentials.acquire_for(credential, endpoint).await {
            Ok(AcquireOutcome::Granted(permit)) => return Ok(permit),
            Ok(AcquireOutcome::Wait(wait)) if watch.elapsed() + wait < PERMIT_TIMEOUT => tokio::time::sleep(wait).await,
            Ok(AcquireOutcome::Wait(_)) => return Err(Testimony::None("the credential has no calls left".to_owned())),
            Err(error) => return Err(Testimony::None(error.to_string())),
        }
    }
}

/// The pause that the answer for a witness demands. Its refusal demands none: it is judged together with that of the items.
#[must_use]
pub fn park_after_witness<T>(answer: &Result<T, LookupError>) -> Option<Park> {
    answer.as_ref().err().filter(|error| !error.is_about_credential()).and_then(LookupError::park)
}

#[derive(Debug, Default)]
pub struct Evidence {
    /// Latest items that the API returned, by credential.
    witnesses: Mutex<HashMap<String, VecDeque<String>>>,
    /// The latest judgment of each credential. One refusal is judged at a time.
    judgments: tokio::sync::Mutex<HashMap<String, Judgment>>,
    suspects: Mutex<Suspects>,
}

#[derive(Debug)]
pub struct Refusal<'a> {
    pub credential: &'a str,
    pub items: &'a [String],
    pub started: Stopwatch,
    pub is_trial: bool,
}

/// The result of an inquiry into a credential. It also decides refusals of calls that ran at the same time.
#[derive(Debug)]
struct Judgment {
    works: bool,
    asked_at: Stopwatch,
    ended_at: Stopwatch,
}

impl Judgment {
    /// Returns true if the credential works, false if not. `None` if this judgment does not apply to a call that was refused at `at`.
    /// "Works" applies if the refusal came before the witnesses' calls; "does not work" if the call started before their end.
    fn credential_works(&self, refused: &Refusal<'_>, at: Stopwatch) -> Option<bool> {
        let holds = if self.works { at <= self.asked_at } else { refused.started <= self.ended_at };
        holds.then_some(self.works)
    }
}

#[derive(Debug, Default)]
struct Suspects {
    /// Items to defer once, behind all others that are due.
    to_defer: HashSet<String>,
    /// Items that were deferred since the last answer of the API.
    deferred: VecDeque<String>,
}

impl Evidence {
    pub fn record_answer<'a>(&self, credential: &str, returned: impl IntoIterator<Item = &'a str>) {
        let mut returned: Vec<&str> = returned.into_iter().collect();
        let mut items = self.suspects();
        items.deferred.clear();
        for item in &returned {
            items.to_defer.remove(*item);
        }
        random::shuffle(&mut returned);
        let mut witnesses = self.witnesses.lock().unwrap_or_else(PoisonError::into_inner);
        let known = witnesses.entry(credential.to_owned()).or_default();
        for item in returned.into_iter().take(WITNESSES_PER_ANSWER) {
            if !known.iter().any(|known| known == item) {
                known.push_back(item.to_owned());
            }
        }
        while known.len() > WITNESSES_KEPT {
            known.pop_front();
        }
    }

    /// Judges a refusal: requests witnesses with the same credential until the cause is known.
    pub async fn judge<'a>(
        &'a self,
        refused: Refusal<'a>,
        mut request_witness: impl FnMut(String) -> BoxFuture<'a, Testimony> + Send,
    ) -> Blame {
        let mut inquiry = self.open_inquiry(refused).await;
        while let Some(witness) = inquiry.next_witness() {
            let testimony = request_witness(witness.clone()).await;
            inquiry.record(&witness, testimony);
        }
        inquiry.blame()
    }

    /// Waits for the end of other inquiries.
    async fn open_inquiry<'a>(&'a self, refused: Refusal<'a>) -> Inquiry<'a> {
        let at = Stopwatch::start();
        let judgments = self.judgments.lock().await;
        let known = judgments.get(refused.credential).and_then(|judged| judged.credential_works(&refused, at));
        let works = known.or_else(|| refused.is_trial.then_some(false));
        let witnesses = if works.is_some() { Vec::new() } else { self.witnesses(refused.credential, refused.items) };
        Inquiry { evidence: self, refused, judgments, asked_at: Stopwatch::start(), witnesses, works, unclear: None }
    }

    /// Returns true, once, for a refused item without a witness: it must go behind all due items, or it leads after every pause.
    pub fn defer_once(&self, item: &str) -> bool {
        let mut items = self.suspects();
        let is_deferred = items.to_defer.remove(item);
        if is_deferred {
            items.deferred.push_back(item.to_owned());
            if items.deferred.len() > DEFERRED_KEPT {
                items.deferred.pop_front();
            }
        }
        is_deferred
    }

    fn suspects(&self) -> MutexGuard<'_, Suspects> {
        self.suspects.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn witnesses(&self, credential: &str, items: &[String]) -> Vec<String> {
        let witnesses = self.witnesses.lock().unwrap_or_else(PoisonError::into_inner);
        // One of several refused items may be a witness: it is asked for alone.
        let is_other = |witness: &&String| items.len() > 1 || !items.contains(witness);
        let mut others: Vec<String> =
            witnesses.get(credential).into_iter().flatten().filter(is_other).cloned().collect();
        random::shuffle(&mut others);
        others.truncate(WITNESSES_PER_REFUSAL);
        others
    }

    fn remove_witness(&self, credential: &str, witness: &str) {
        let mut witnesses = self.witnesses.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = witnesses.get_mut(credential) {
            known.retain(|known| known != witness);
        }
    }

    /// Notes a refusal that is blamed on the credential. Returns false for an item that was deferred, with no answer since.
    fn record_refusal(&self, items: &[String]) -> bool {
        let [item] = items else { return true };
        let mut suspects = self.suspects();
        if suspects.to_defer.len() >= MAX_TO_DEFER {
            suspects.to_defer.clear();
        }
        suspects.to_defer.insert(item.clone());
        !suspects.deferred.contains(item)
    }
}

#[derive(Debug)]
struct Inquiry<'a> {
    evidence: &'a Evidence,
    refused: Refusal<'a>,
    judgments: tokio::sync::MutexGuard<'a, HashMap<String, Judgment>>,
    asked_at: Stopwatch,
    witnesses: Vec<String>,
    /// True if the credential works, false if not; `None` until a witness decides.
    works: Option<bool>,
    unclear: Option<String>,
}

impl Inquiry<'_> {
    fn next_witness(&mut self) -> Option<String> {
        if self.works.is_some() || self.unclear.is_some() { None } else { self.witnesses.pop() }
    }

    fn record(&mut self, witness: &str, testimony: Testimony) {
        let credential = self.refused.credential;
        match testimony {
            Testimony::Answered => {
                self.evidence.record_answer(credential, []);
                self.works = Some(true);
                self.record_judgment(true);
            }
            Testimony::Refused => {
                self.evidence.remove_witness(credential, witness);
                if self.witnesses.is_empty() {
                    self.record_judgment(false);
                }
            }
            Testimony::None(why) => self.unclear = Some(why),
        }
    }

    fn record_judgment(&mut self, works: bool) {
        let judged = Judgment { works, asked_at: self.asked_at, ended_at: Stopwatch::start() };
        self.judgments.insert(self.refused.credential.to_owned(), judged);
    }

    fn blame(self) -> Blame {
        match (self.works, self.unclear) {
            (Some(true), _) => Blame::Items,
            (None, Some(why)) => Blame::Unclear(why),
            _ => Blame::Credential { everywhere: self.evidence.record_refusal(self.refused.items) },
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    fn refused<'a>(items: &'a [String]) -> Refusal<'a> {
        Refusal { credential: "a", items, started: Stopwatch::start(), is_trial: false }
    }

    async fn judge(evidence: &Evidence, item: &str, testimony: impl Fn() -> Testimony) -> (Blame, Vec<String>) {
        // A later call than those that were judged before.
        tokio::time::advance(Duration::from_secs(1)).await;
        let (items, mut asked) = ([item.to_owned()], Vec::new());
        let mut inquiry = evidence.open_inquiry(refused(&items)).await;
        while let Some(witness) = inquiry.next_witness() {
            inquiry.record(&witness, testimony());
            asked.push(witness);
        }
        (inquiry.blame(), asked)
    }

    #[tokio::test(start_paused = true)]
    async fn a_witness_decides_between_item_and_credential() {
        let evidence = Evidence::default();
        evidence.record_answer("a", ["1", "2", "3"]);
        let (blame, asked) = judge(&evidence, "9", || Testimony::Answered).await;
        assert!(matches!(blame, Blame::Items) && asked.len() == 1, "{asked:?}");
        assert!(!evidence.defer_once("9"));
        let (blame, asked) = judge(&evidence, "9", || Testimony::None("down".to_owned())).await;
        assert!(matches!(blame, Blame::Unclear(why) if why == "down") && asked.len() == 1);
        let (blame, asked) = judge(&evidence, "9", || Testimony::Refused).await;
        assert!(matches!(blame, Blame::Credential { everywhere: true }) && asked.len() == 2, "{asked:?}");
        assert!(evidence.defer_once("9") && !evidence.defer_once("9"), "once");
        let (_, asked) = judge(&evidence, "9", || Testimony::Refused).await;
        assert!(asked.is_empty(), "they are no witnesses any more");
    }

    #[tokio::test(start_paused = true)]
    async fn without_a_witness_the_credential_is_to_blame() {
        let evidence = Evidence::default();
        // Its own answer is no witness, and neither is one to another credential.
        evidence.record_answer("a", ["9"]);
        let everywhere = async |item: &str| {
            evidence.record_answer("b", []);
            match judge(&evidence, item, || panic!("there is no witness")).await.0 {
                Blame::Credential { everywhere } => everywhere,
                other => panic!("{other:?}"),
            }
        };
        assert!(everywhere("9").await && everywhere("9").await);
        assert!(evidence.defer_once("9"));
        assert!(everywhere("9").await, "another credential was answered since");
        let again = async |item: &str| {
            let blame = judge(&evidence, item, || Testimony::Refused).await.0;
            matches!(blame, Blame::Credential { everywhere: false })
        };
        assert!(evidence.defer_once("9") && again("9").await && again("9").await);
        assert!(!again("8").await, "another item");
    }

    #[tokio::test(start_paused = true)]
    async fn the_refusal_of_a_trial_needs_no_witness() {
        let (evidence, items) = (Evidence::default(), ["9".to_owned()]);
        evidence.record_answer("a", ["1", "2"]);
        let mut inquiry = evidence.open_inquiry(Refusal { is_trial: true, ..refused(&items) }).await;
        assert_eq!(inquiry.next_witness(), None);
        assert!(matches!(inquiry.blame(), Blame::Credential { .. }));
        let (blame, asked) = judge(&evidence, "9", || Testimony::Answered).await;
        assert!(matches!(blame, Blame::Items) && asked.len() == 1, "the next one does");
    }

    #[tokio::test(start_paused = true)]
    async fn refusals_that_arrive_together_share_a_witness() {
        for testimony in [|| Testimony::Answered, || Testimony::Refused] {
            let (evidence, asked) = (Evidence::default(), AtomicUsize::new(0));
            evidence.record_answer("a", ["1"]);
            let items: Vec<[String; 1]> = (10..20).map(|item| [item.to_string()]).collect();
            let judging = items.iter().map(async |items| {
                let mut inquiry = evidence.open_inquiry(refused(items)).await;
                while let Some(witness) = inquiry.next_witness() {
                    asked.fetch_add(1, Ordering::Relaxed);
                    tokio::time::sleep(Duration::from_secs(1)).await;
                    inquiry.record(&witness, testimony());
                }
                inquiry.blame()
            });
            let works = futures::future::join_all(judging).await.iter().all(|blame| matches!(blame, Blame::Items));
            assert_eq!((works, asked.into_inner()), (matches!(testimony(), Testimony::Answered), 1));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_witness_answered_before_a_refusal_proves_nothing() {
        let (evidence, items) = (Evidence::default(), ["9".to_owned()]);
        evidence.record_answer("a", ["1", "2", "3"]);
        let early = refused(&items);
        assert!(matches!(judge(&evidence, "8", || Testimony::Answered).await.0, Blame::Items));
        tokio::time::advance(Duration::from_secs(1)).await;
        let mut inquiry = evidence.open_inquiry(early).await;
        while let Some(witness) = inquiry.next_witness() {
            inquiry.record(&witness, Testimony::Refused);
        }
        assert!(matches!(inquiry.blame(), Blame::Credential { .. }), "it was revoked meanwhile");
    }

    #[tokio::test(start_paused = true)]
    async fn witnesses_are_few_and_of_many_answers() {
        let evidence = Evidence::default();
        for answer in 0..20 {
            let returned: Vec<String> = (0..50).map(|n| format!("{answer} {n}")).collect();
            evidence.record_answer("a", returned.iter().map(String::as_str));
        }
        assert_eq!(evidence.witnesses.lock().unwrap()["a"].len(), WITNESSES_KEPT);
        assert_eq!(judge(&evidence, "9", || Testimony::Refused).await.1.len(), WITNESSES_PER_REFUSAL);
    }

    #[test]
    fn one_of_several_refused_items_may_be_a_witness_and_a_single_one_may_not() {
        let evidence = Evidence::default();
        evidence.record_answer("a", ["1"]);
        let several = ["1", "2"].map(str::to_owned);
        assert_eq!(evidence.witnesses("a", &several), ["1"]);
        assert!(evidence.witnesses("a", &several[..1]).is_empty());
    }
}
