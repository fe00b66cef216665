//! Accounts by state, and the age of the oldest data.

use maud::{Markup, html};

use super::format::{count_text, describe_error};
use super::scroll_table::scroll_table;
use crate::ops::Snapshot;
use crate::ops::report::known_accounts::KnownAccounts;
use engine::base::humanize::group_digits;
use networks::model::account::AccountState;

fn meaning(state: AccountState) -> &'static str {
    match state {
        AccountState::Live => "the network returns it",
        AccountState::Protected => "only approved followers may read its posts",
        AccountState::Suspended => "the network closed it",
        AccountState::Deactivated => "missing for less than 30 days",
        AccountState::Deleted => "missing for 30 days or longer",
        AccountState::Unknown => "no answer yet, or not returned without a reason",
    }
}

pub(super) fn section(snapshot: &Snapshot) -> Markup {
    let unknown = KnownAccounts::default();
    let known = snapshot.status.known_accounts.as_ref().unwrap_or(&unknown);
    html! {
        section.panel #accounts aria-labelledby="accounts-name" {
            h2 #accounts-name { "Accounts" }
            @match (&known.states, known.total()) {
                (Some(_), Some(0)) => p.lead.none { "No account is stored yet." },
                (Some(states), Some(all)) => {
                    p.lead { strong { (count_text(all, "account")) } " stored; the oldest data: " strong { (known.oldest_age_text()) } }
                    (scroll_table("accounts-box", "Accounts by state", None, &[
                        ("", "State"), ("n", "Accounts"), ("lesser", "Meaning")
                    ], html! {
                        @for (state, accounts) in states {
                            tr {
                                th scope="row" { (state.as_str()) }
                                td.n { (group_digits(*accounts)) }
                                td.lesser { (meaning(*state)) }
                            }
                        }
                    }))
                }
                _ => p.lead.bad {
                    "The accounts by state are unknown: "
                    (known.error.as_deref().map_or_else(|| "they were not read yet".to_owned(), describe_error))
                },
            }
        }
    }
}

/// Facts for the card of the overview.
pub(super) fn facts(known: &KnownAccounts) -> Markup {
    html! {
        @match &known.states {
            Some(states) => {
                @for (state, accounts) in states.iter().filter(|(_, accounts)| **accounts > 0) {
                    div { dt { (state.as_str()) } dd { (group_digits(*accounts)) } }
                }
            }
            None => div { dt { "By state" } dd { "unknown" } },
        }
        div { dt { "Oldest data" } dd { (known.oldest_age_text()) } }
    }
}
