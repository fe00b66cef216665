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
    items: Mutex<Suspects>,
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

    /// Begins to judge the refusal of a call for `items` with that credential.
    pub fn trial<'a>(&'a self, credential: &'a str, items: &'a [String]) -> Trial<'a> {
        let (witnesses, judged) = (self.witnesses(credential, items), None);
        Trial { evidence: self, credential, items, witnesses, judged }
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
    credential: &'a str,
    items: &'a [String],
    witnesses: Vec<String>,
    judged: Option<Blame>,
}

impl Trial<'_> {
    /// The next witness; `None` when the refusal can be judged.
    pub fn witness(&mut self) -> Option<String> {
        if self.judged.is_some() { None } else { self.witnesses.pop() }
    }

    /// Hears that witness.
    pub fn hear(&mut self, witness: &str, testimony: Testimony) {
        match testimony {
            Testimony::Answered => {
                self.evidence.answered(self.credential, []);
                self.judged = Some(Blame::Items);
            }
            Testimony::Refused => self.evidence.dismiss(self.credential, witness),
            Testimony::None(why) => self.judged = Some(Blame::Unclear(why)),
        }
    }

    /// The judgment.
    #[must_use]
    pub fn blame(self) -> Blame {
        let everywhere = || Blame::Credential { everywhere: self.evidence.is_new(self.items) };
        self.judged.unwrap_or_else(everywhere)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The judgment where each witness says the same, and the witnesses.
    fn judge(evidence: &Evidence, item: &str, testimony: impl Fn() -> Testimony) -> (Blame, Vec<String>) {
        let (items, mut asked) = ([item.to_owned()], Vec::new());
        let mut trial = evidence.trial("a", &items);
        while let Some(witness) = trial.witness() {
            trial.hear(&witness, testimony());
            asked.push(witness);
        }
        (trial.blame(), asked)
    }

    #[test]
    fn a_witness_tells_whose_fault_a_refusal_is() {
        let evidence = Evidence::default();
        evidence.answered("a", ["1", "2", "3"]);
        let (blame, asked) = judge(&evidence, "9", || Testimony::Answered);
        assert!(matches!(blame, Blame::Items) && asked.len() == 1, "{asked:?}");
        assert!(!evidence.steps_back("9"));
        let (blame, asked) = judge(&evidence, "9", || Testimony::None("down".to_owned()));
        assert!(matches!(blame, Blame::Unclear(why) if why == "down") && asked.len() == 1);
        let (blame, asked) = judge(&evidence, "9", || Testimony::Refused);
        assert!(matches!(blame, Blame::Credential { everywhere: true }) && asked.len() == 2, "{asked:?}");
        assert!(evidence.steps_back("9") && !evidence.steps_back("9"), "once");
        assert_eq!(judge(&evidence, "9", || Testimony::Refused).1.len(), 0, "they are no witnesses any more");
    }

    #[test]
    fn without_a_witness_the_credential_is_to_blame() {
        let evidence = Evidence::default();
        // Its own answer is no witness, and neither is one to another credential.
        evidence.answered("a", ["9"]);
        let everywhere = |item: &str| {
            evidence.answered("b", []);
            match judge(&evidence, item, || panic!("there is no witness")).0 {
                Blame::Credential { everywhere } => everywhere,
                other => panic!("{other:?}"),
            }
        };
        assert!(everywhere("9") && everywhere("9"));
        assert!(evidence.steps_back("9"));
        assert!(everywhere("9"), "another credential was answered since");
        let again = |item: &str| {
            matches!(judge(&evidence, item, || Testimony::Refused).0, Blame::Credential { everywhere: false })
        };
        assert!(evidence.steps_back("9") && again("9") && again("9"));
        assert!(!again("8"), "another item");
    }

    #[test]
    fn witnesses_are_few_and_of_many_answers() {
        let evidence = Evidence::default();
        for answer in 0..20 {
            let returned: Vec<String> = (0..50).map(|n| format!("{answer} {n}")).collect();
            evidence.answered("a", returned.iter().map(String::as_str));
        }
        assert_eq!(evidence.witnesses.lock().unwrap()["a"].len(), KEPT);
        assert_eq!(judge(&evidence, "9", || Testimony::Refused).1.len(), ASKED);
    }

    #[test]
    fn one_of_several_refused_items_may_be_a_witness_and_a_single_one_may_not() {
        let evidence = Evidence::default();
        evidence.answered("a", ["1"]);
        let several = ["1", "2"].map(str::to_owned);
        assert_eq!(evidence.trial("a", &several).witness().as_deref(), Some("1"));
        assert_eq!(evidence.trial("a", &several[..1]).witness(), None);
    }
}
