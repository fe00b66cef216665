//! The section about reads of lists: lists that were never read, and the age of the others.

use maud::{Markup, html};

use super::format::{describe_error, format_span};
use super::scroll_table::scroll_table;
use crate::ops::Snapshot;
use crate::ops::report::list_backlog::{ListFigures, TierFigures};
use engine::base::humanize::group_digits;

pub(super) fn section(snapshot: &Snapshot) -> Markup {
    let lists = snapshot.status.lists.as_ref();
    html! {
        section.panel #lists aria-labelledby="lists-name" {
            h2 #lists-name { "Reads of lists" }
            @match lists.and_then(|lists| lists.figures.as_ref()) {
                Some(figures) => { (unread(figures)) (table(figures)) }
                None => {
                    @let why = lists.and_then(|lists| lists.error.as_deref()).unwrap_or("they were not read yet");
                    p.lead.bad { "The reads of lists are unknown: " (describe_error(why)) }
                }
            }
        }
    }
}

fn unread(lists: &ListFigures) -> Markup {
    html! {
        @if lists.unread == 0 {
            p.lead { "Each of " strong { (group_digits(lists.lists)) } " lists has been read once." }
        } @else {
            p.lead {
                strong { (group_digits(lists.unread)) } " of " strong { (group_digits(lists.lists)) } " lists were never read"
                @if lists.unread_overdue > 0 {
                    ", " strong.warn { (group_digits(lists.unread_overdue)) } " of them for longer than " (format_span(lists.interval_ms))
                }
                ": " (group_digits(lists.first_calls)) " calls are left. Time until each has been read once, if no list is added: "
                strong { (lists.read_once_text()) } "."
            }
        }
    }
}

fn table(lists: &ListFigures) -> Markup {
    html! {
        (scroll_table("lists-box", "Age of lists by tier", None, &[
            ("", "Tier"), ("lesser", "Visited every"), ("lesser", "Read whole every"), ("n", "Lists"),
            ("n", "Read whole"), ("n", "Median age"), ("n", "Oldest age"), ("n", "Too old")
        ], html! {
            @for tier in &lists.tiers {
                tr {
                    th scope="row" { (tier.tier) }
                    td.lesser { (format_span(tier.revisit_ms)) }
                    td.lesser { (format_span(tier.complete_within_ms)) }
                    td.n { (group_digits(tier.lists)) }
                    td.n { (group_digits(tier.complete)) }
                    td.n { (TierFigures::age_text(tier.median_age_ms)) }
                    td.n { (TierFigures::age_text(tier.oldest_age_ms)) }
                    td.n { (group_digits(tier.too_old)) }
                }
            }
        }))
    }
}
