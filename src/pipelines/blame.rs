//! Decides whose fault a refusal is: that of the credential, or of the items that were asked for.
//!
//! APIs answer 401 and 403 for a credential that they do not accept, and for one post, account or list that it may not see.
//! So before a credential is blamed, it asks for a *witness*: an item that it was answered before.
//!
//! ```text
//!   401, 403 ─▶ a witness is answered ──────▶ the items are to blame: the credential works
//!            ├▶ witnesses are refused, too ─▶ the credential is to blame
//!            ├▶ there is no witness ────────▶ the credential is to blame: nothing shows that it ever worked
//!            └▶ no witness could be asked ──▶ unclear: as in an outage, nothing is to blame
//! ```
//!
//! The refusal of a credential's [trial](Permit::is_trial), the one call after a pause, confirms that it is to blame: there is no
//! call for a witness then. Refusals that arrive together share a witness, so that many calls under way do not become more.
//!
//! The evidence is in this process's memory: a new process has none, and blames the credential first.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::base::clock::Stopwatch;
use crate::base::random;
use crate::providers::lookup::LookupError;
use crate::quota::{Acquired, Credential, Credentials, Permit};

/// Witnesses kept of each credential.
const KEPT: usize = 8;
/// Witnesses of one answer: those of many answers have less in common.
const OF_ONE_ANSWER: usize = 2;
/// Witnesses asked for one refusal. Some may be hidden by now, as the items were.
const ASKED: usize = 3;
/// Items remembered that have let others go first.
const FEW: usize = 8;
/// The time for which a call for a witness waits for its permit, in all.
const PATIENCE: Duration = Duration::from_secs(2);
/// Items remembered that let others go first: a bound, far above need.
const MOST_STEPPED_BACK: usize = 10_000;

/// The judgment of a refusal.
#[derive(Debug)]
pub enum Blame {
    /// The credential works: it may not see these items, or one of them.
    Items,
    /// The credential is refused.
    Credential {
        /// False if only the same few items were asked for again: the credential may work at other endpoints.
        everywhere: bool,
    },
    /// No witness answered, for this reason.
    Unclear(String),
}

/// The answer to the request for a witness.
#[derive(Debug)]
pub enum Testimony {
    /// The credential works.
    Answered,
    /// The credential is refused.
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

/// Acquires a permit for a call with that credential, within moments.
///
/// # Errors
/// There is none; says why.
pub async fn permit_for(
    credentials: &Credentials,
    credential: &Credential,
    endpoint: &'static str,
) -> Result<Permit, String> {
    let watch = Stopwatch::start();
    loop {
        match credentials.acquire_for(credential, endpoint).await {
            Ok(Acquired::Granted(permit)) => return Ok(permit),
            Ok(Acquired::Wait(wait)) if watch.elapsed() + wait < PATIENCE => tokio::time::sleep(wait).await,
            Ok(Acquired::Wait(_)) => return Err("the credential has no calls left".to_owned()),
            Err(error) => return Err(error.to_string()),
        }
    }
}

/// Answers and refusals of credentials at one endpoint.
#[derive(Debug, Default)]
pub struct Evidence {
    /// The latest items that each credential was answered.
    witnesses: Mutex<HashMap<String, VecDeque<String>>>,
    /// The latest judgment of each credential. One refusal is judged at a time.
    judgments: tokio::sync::Mutex<HashMap<String, Judged>>,
    items: Mutex<Suspects>,
}

/// A call that was refused.
#[derive(Debug)]
pub struct Refused<'a> {
    /// Its credential.
    pub credential: &'a str,
    /// The items that it asked for.
    pub items: &'a [String],
    /// When it began.
    pub begun: Stopwatch,
    /// It was a [trial](Permit::is_trial).
    pub is_trial: bool,
}

/// The testimony of witnesses.
#[derive(Debug)]
struct Judged {
    works: bool,
    /// When they were asked, and when they had answered.
    asked_at: Stopwatch,
    heard_at: Stopwatch,
}

impl Judged {
    /// Returns whether the credential works, where that holds for a call that was refused at that moment: one that was under way
    /// when all were refused, or refused before another one was answered.
    fn holds_for(&self, refused: &Refused<'_>, at: Stopwatch) -> Option<bool> {
        let holds = if self.works { at <= self.asked_at } else { refused.begun <= self.heard_at };
        holds.then_some(self.works)
    }
}

/// Items that were refused alone, when nothing showed whose fault it was.
#[derive(Debug, Default)]
struct Suspects {
    /// They let others go first, once.
    stepping_back: HashSet<String>,
    /// They have done so, and nothing was answered since.
    stepped_back: VecDeque<String>,
}

impl Evidence {
    /// Notes that the API answered a credential, and which items it returned.
    pub fn answered<'a>(&self, credential: &str, returned: impl IntoIterator<Item = &'a str>) {
        let mut returned: Vec<&str> = returned.into_iter().collect();
        let mut items = self.items();
        items.stepped_back.clear();
        for item in &returned {
            items.stepping_back.remove(*item);
        }
        random::shuffle(&mut returned);
        let mut witnesses = self.witnesses.lock().unwrap_or_else(PoisonError::into_inner);
        let known = witnesses.entry(credential.to_owned()).or_default();
        for item in returned.into_iter().take(OF_ONE_ANSWER) {
            if !known.iter().any(|known| known == item) {
                known.push_back(item.to_owned());
            }
        }
        while known.len() > KEPT {
            known.pop_front();
        }
    }

    /// Begins to judge a refusal, as soon as no other one is judged.
    pub async fn trial<'a>(&'a self, refused: Refused<'a>) -> Trial<'a> {
        let at = Stopwatch::start();
        let judgments = self.judgments.lock().await;
        let known = judgments.get(refused.credential).and_then(|judged| judged.holds_for(&refused, at));
        let works = known.or_else(|| refused.is_trial.then_some(false));
        let witnesses = if works.is_some() { Vec::new() } else { self.witnesses(refused.credential, refused.items) };
        Trial { evidence: self, refused, judgments, asked_at: Stopwatch::start(), witnesses, works, unclear: None }
    }

    /// Returns true if this item has to let others go first, once: it was refused, and nothing shows yet whose fault that is.
    /// Otherwise it would be first in line whenever the credential may be tried again.
    pub fn steps_back(&self, item: &str) -> bool {
        let mut items = self.items();
        let steps_back = items.stepping_back.remove(item);
        if steps_back {
            items.stepped_back.push_back(item.to_owned());
            if items.stepped_back.len() > FEW {
                items.stepped_back.pop_front();
            }
        }
        steps_back
    }

    fn items(&self) -> MutexGuard<'_, Suspects> {
        self.items.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn witnesses(&self, credential: &str, items: &[String]) -> Vec<String> {
        let witnesses = self.witnesses.lock().unwrap_or_else(PoisonError::into_inner);
        // One of several refused items may be a witness: it is asked for alone.
        let is_other = |witness: &&String| items.len() > 1 || !items.contains(witness);
        let mut others: Vec<String> =
            witnesses.get(credential).into_iter().flatten().filter(is_other).cloned().collect();
        random::shuffle(&mut others);
        others.truncate(ASKED);
        others
    }

    fn dismiss(&self, credential: &str, witness: &str) {
        let mut witnesses = self.witnesses.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = witnesses.get_mut(credential) {
            known.retain(|known| known != witness);
        }
    }

    /// Notes a refusal that is blamed on the credential; returns true unless it is that of an item which has let others go first,
    /// with no answer since.
    fn is_new(&self, items: &[String]) -> bool {
        let [item] = items else { return true };
        let mut suspects = self.items();
        if suspects.stepping_back.len() >= MOST_STEPPED_BACK {
            suspects.stepping_back.clear();
        }
        suspects.stepping_back.insert(item.clone());
        !suspects.stepped_back.contains(item)
    }
}

/// A refusal that is being judged: each witness is to be asked for with the same credential, and its testimony heard.
#[derive(Debug)]
pub struct Trial<'a> {
    evidence: &'a Evidence,
    refused: Refused<'a>,
    judgments: tokio::sync::MutexGuard<'a, HashMap<String, Judged>>,
    asked_at: Stopwatch,
    witnesses: Vec<String>,
    /// Whether the credential works, once that is known.
    works: Option<bool>,
    unclear: Option<String>,
}

impl Trial<'_> {
    /// The next witness; `None` when the refusal can be judged.
    pub fn witness(&mut self) -> Option<String> {
        if self.works.is_some() || self.unclear.is_some() { None } else { self.witnesses.pop() }
    }

    /// Hears that witness.
    pub fn hear(&mut self, witness: &str, testimony: Testimony) {
        let credential = self.refused.credential;
        match testimony {
            Testimony::Answered => {
                self.evidence.answered(credential, []);
                self.works = Some(true);
                self.note(true);
            }
            Testimony::Refused => {
                self.evidence.dismiss(credential, witness);
                if self.witnesses.is_empty() {
                    self.note(false);
                }
            }
            Testimony::None(why) => self.unclear = Some(why),
        }
    }

    fn note(&mut self, works: bool) {
        let judged = Judged { works, asked_at: self.asked_at, heard_at: Stopwatch::start() };
        self.judgments.insert(self.refused.credential.to_owned(), judged);
    }

    /// The judgment.
    #[must_use]
    pub fn blame(self) -> Blame {
        match (self.works, self.unclear) {
            (Some(true), _) => Blame::Items,
            (None, Some(why)) => Blame::Unclear(why),
            _ => Blame::Credential { everywhere: self.evidence.is_new(self.refused.items) },
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    fn refused<'a>(items: &'a [String]) -> Refused<'a> {
        Refused { credential: "a", items, begun: Stopwatch::start(), is_trial: false }
    }

    /// The judgment where each witness says the same, and the witnesses.
    async fn judge(evidence: &Evidence, item: &str, testimony: impl Fn() -> Testimony) -> (Blame, Vec<String>) {
        // A later call than those that were judged before.
        tokio::time::advance(Duration::from_secs(1)).await;
        let (items, mut asked) = ([item.to_owned()], Vec::new());
        let mut trial = evidence.trial(refused(&items)).await;
        while let Some(witness) = trial.witness() {
            trial.hear(&witness, testimony());
            asked.push(witness);
        }
        (trial.blame(), asked)
    }

    #[tokio::test(start_paused = true)]
    async fn a_witness_tells_whose_fault_a_refusal_is() {
        let evidence = Evidence::default();
        evidence.answered("a", ["1", "2", "3"]);
        let (blame, asked) = judge(&evidence, "9", || Testimony::Answered).await;
        assert!(matches!(blame, Blame::Items) && asked.len() == 1, "{asked:?}");
        assert!(!evidence.steps_back("9"));
        let (blame, asked) = judge(&evidence, "9", || Testimony::None("down".to_owned())).await;
        assert!(matches!(blame, Blame::Unclear(why) if why == "down") && asked.len() == 1);
        let (blame, asked) = judge(&evidence, "9", || Testimony::Refused).await;
        assert!(matches!(blame, Blame::Credential { everywhere: true }) && asked.len() == 2, "{asked:?}");
        assert!(evidence.steps_back("9") && !evidence.steps_back("9"), "once");
        let (_, asked) = judge(&evidence, "9", || Testimony::Refused).await;
        assert!(asked.is_empty(), "they are no witnesses any more");
    }

    #[tokio::test(start_paused = true)]
    async fn without_a_witness_the_credential_is_to_blame() {
        let evidence = Evidence::default();
        // Its own answer is no witness, and neither is one to another credential.
        evidence.answered("a", ["9"]);
        let everywhere = async |item: &str| {
            evidence.answered("b", []);
            match judge(&evidence, item, || panic!("there is no witness")).await.0 {
                Blame::Credential { everywhere } => everywhere,
                other => panic!("{other:?}"),
            }
        };
        assert!(everywhere("9").await && everywhere("9").await);
        assert!(evidence.steps_back("9"));
        assert!(everywhere("9").await, "another credential was answered since");
        let again = async |item: &str| {
            let blame = judge(&evidence, item, || Testimony::Refused).await.0;
            matches!(blame, Blame::Credential { everywhere: false })
        };
        assert!(evidence.steps_back("9") && again("9").await && again("9").await);
        assert!(!again("8").await, "another item");
    }

    #[tokio::test(start_paused = true)]
    async fn the_refusal_of_a_trial_needs_no_witness() {
        let (evidence, items) = (Evidence::default(), ["9".to_owned()]);
        evidence.answered("a", ["1", "2"]);
        let mut trial = evidence.trial(Refused { is_trial: true, ..refused(&items) }).await;
        assert_eq!(trial.witness(), None);
        assert!(matches!(trial.blame(), Blame::Credential { .. }));
        let (blame, asked) = judge(&evidence, "9", || Testimony::Answered).await;
        assert!(matches!(blame, Blame::Items) && asked.len() == 1, "the next one does");
    }

    #[tokio::test(start_paused = true)]
    async fn refusals_that_arrive_together_share_a_witness() {
        for testimony in [|| Testimony::Answered, || Testimony::Refused] {
            let (evidence, asked) = (Evidence::default(), AtomicUsize::new(0));
            evidence.answered("a", ["1"]);
            let items: Vec<[String; 1]> = (10..20).map(|item| [item.to_string()]).collect();
            let judging = items.iter().map(async |items| {
                let mut trial = evidence.trial(refused(items)).await;
                while let Some(witness) = trial.witness() {
                    asked.fetch_add(1, Ordering::Relaxed);
                    tokio::time::sleep(Duration::from_secs(1)).await;
                    trial.hear(&witness, testimony());
                }
                trial.blame()
            });
            let works = futures::future::join_all(judging).await.iter().all(|blame| matches!(blame, Blame::Items));
            assert_eq!((works, asked.into_inner()), (matches!(testimony(), Testimony::Answered), 1));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_witness_that_was_answered_before_a_refusal_does_not_hold_for_it() {
        let (evidence, items) = (Evidence::default(), ["9".to_owned()]);
        evidence.answered("a", ["1", "2", "3"]);
        let early = refused(&items);
        assert!(matches!(judge(&evidence, "8", || Testimony::Answered).await.0, Blame::Items));
        tokio::time::advance(Duration::from_secs(1)).await;
        let mut trial = evidence.trial(early).await;
        while let Some(witness) = trial.witness() {
            trial.hear(&witness, Testimony::Refused);
        }
        assert!(matches!(trial.blame(), Blame::Credential { .. }), "it was revoked meanwhile");
    }

    #[tokio::test(start_paused = true)]
    async fn witnesses_are_few_and_of_many_answers() {
        let evidence = Evidence::default();
        for answer in 0..20 {
            let returned: Vec<String> = (0..50).map(|n| format!("{answer} {n}")).collect();
            evidence.answered("a", returned.iter().map(String::as_str));
        }
        assert_eq!(evidence.witnesses.lock().unwrap()["a"].len(), KEPT);
        assert_eq!(judge(&evidence, "9", || Testimony::Refused).await.1.len(), ASKED);
    }

    #[test]
    fn one_of_several_refused_items_may_be_a_witness_and_a_single_one_may_not() {
        let evidence = Evidence::default();
        evidence.answered("a", ["1"]);
        let several = ["1", "2"].map(str::to_owned);
        assert_eq!(evidence.witnesses("a", &several), ["1"]);
        assert!(evidence.witnesses("a", &several[..1]).is_empty());
    }
}
