//! Results of a file's handles: found and refused lines, and those that are requested a second time.

use crate::pipelines::blame::Evidence;
use networks::model::account::{Absence, Account};
use networks::providers::lookup::{Answer, Outcome};

#[derive(Debug, Clone, PartialEq)]
pub struct ResolvedAccount {
    /// Line number, from 1.
    pub line: u64,
    pub id: String,
    /// The account of a resolved handle, as complete as from a lookup by id; `None` for an id.
    pub account: Option<Box<Account>>,
}

#[derive(Debug, Clone)]
pub(super) struct HandleLine {
    pub line: u64,
    pub handle: String,
}

#[derive(Default)]
pub(super) struct HandleResults {
    pub found: Vec<ResolvedAccount>,
    pub refused: Vec<(u64, String)>,
    /// Handles refused one by one since the last answer: only another answer shows that they are to blame.
    pub refused_in_a_row: Vec<(HandleLine, String)>,
    /// Handles without an account and without a reason.
    pub unconfirmed: Vec<(HandleLine, String)>,
    pub is_second_request: bool,
    /// The caller stores unconfirmed handles for a later request.
    pub is_stored: bool,
    pub evidence: Evidence,
}

impl HandleResults {
    pub(super) fn is_complete(&self) -> bool {
        self.is_stored || self.unconfirmed.is_empty() && (self.is_second_request || self.refused_in_a_row.is_empty())
    }

    pub(super) fn record_answer(&mut self, asked: Vec<HandleLine>, answer: Answer<Account>) {
        self.refused.extend(self.refused_in_a_row.drain(..).map(|(one, why)| (one.line, why)));
        for (one, outcome) in asked.into_iter().zip(answer.outcomes) {
            let line = one.line;
            match outcome {
                Outcome::Found(account) | Outcome::Emptied(account, _) => {
                    let id = account.id.clone();
                    self.found.push(ResolvedAccount { line, id, account: Some(Box::new(account)) });
                }
                Outcome::Unavailable => self.add_unconfirmed(
                    one,
                    "no account is returned for the handle: it does not exist, is suspended or deactivated, or is \
                     unknown to this server",
                ),
                Outcome::Absent(Absence::NotFound | Absence::Deleted) => {
                    self.refuse(line, "there is no account with this handle")
                }
                Outcome::Absent(Absence::Deactivated) => self.refuse(line, "the account is deactivated"),
                Outcome::Absent(Absence::Suspended) => self.refuse(line, "the account is suspended"),
                Outcome::Absent(Absence::Protected) => {
                    self.refuse(line, "the account may not be seen by this credential")
                }
                Outcome::Broken(why) => self.add_unconfirmed(one, &format!("the account cannot be read: {why}")),
            }
        }
    }

    fn add_unconfirmed(&mut self, one: HandleLine, why: &str) {
        if self.is_second_request { self.refuse(one.line, why) } else { self.unconfirmed.push((one, why.to_owned())) }
    }

    pub(super) fn refuse(&mut self, line: u64, why: &str) {
        self.refused.push((line, why.to_owned()));
    }
}
