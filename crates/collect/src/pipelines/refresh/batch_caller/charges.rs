use crate::pipelines::refresh::judge::Item;
use engine::quota::ChargedReads;
use networks::providers::lookup::{Answer, LookupError, Outcome};

/// Ids of a call that were not returned, or were returned under another id: only returned posts are charged.
pub(super) fn charged_reads<T: Item>(ids: &[String], answer: &Result<Answer<T>, LookupError>) -> ChargedReads {
    let mut charged = ChargedReads::default();
    match answer {
        Ok(answer) => {
            for (id, outcome) in ids.iter().zip(&answer.outcomes) {
                match outcome {
                    Outcome::Unavailable | Outcome::Absent(_) | Outcome::Emptied(..) => charged.unread.push(id.clone()),
                    // An edited post arrives as its last version.
                    Outcome::Found(item) if item.id() != *id => {
                        charged.edited.push((id.clone(), item.id().to_owned()));
                    }
                    Outcome::Found(_) | Outcome::Broken(_) => {}
                }
            }
        }
        Err(error) if error.is_refusal() => charged.unread = ids.to_vec(),
        // A lost answer may have been charged: it stays counted.
        Err(_) => {}
    }
    charged
}
