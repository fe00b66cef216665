//! Lists that were never read, and the age of the others.

use maud::{Markup, html};

use super::words::{error, time};
use crate::base::humanize::grouped;
use crate::ops::Snapshot;
use crate::ops::report::list_backlog::{ListFigures, TierFigures};

pub(super) fn section(snapshot: &Snapshot) -> Markup {
    let lists = snapshot.status.lists.as_ref();
    html! {
        section.panel #lists aria-labelledby="lists-name" {
            h2 #lists-name { "Reads of lists" }
            @match lists.and_then(|lists| lists.figures.as_ref()) {
                Some(figures) => { (unread(figures)) (table(figures)) }
                None => {
                    @let why = lists.and_then(|lists| lists.error.as_deref()).unwrap_or("they were not read yet");
                    p.lead.bad { "The reads of lists are unknown: " (error(why)) }
                }
            }
        }
    }
}

fn unread(lists: &ListFigures) -> Markup {
    html! {
        @if lists.unread == 0 {
            p.lead { "Each of " strong { (grouped(lists.lists)) } " lists has been read once." }
        } @else {
            p.lead {
                strong { (grouped(lists.unread)) } " of " strong { (grouped(lists.lists)) } " lists were never read"
                @if lists.unread_overdue > 0 {
                    ", " strong.warn { (grouped(lists.unread_overdue)) } " of them for longer than " (time(lists.interval_ms))
                }
                ": " (grouped(lists.first_calls)) " calls are left. Time until each has been read once, if no other is put in: "
                strong { (lists.read_once()) } "."
            }
        }
    }
}

fn table(lists: &ListFigures) -> Markup {
    html! {
        div.scroll #lists-box tabindex="0" role="region" aria-label="Age of lists by tier" {
            table aria-label="Age of lists by tier" {
                thead {
                    tr {
                        th scope="col" { "Tier" }
                        th.lesser scope="col" { "Visited every" }
                        th.lesser scope="col" { "Read whole every" }
                        th.n scope="col" { "Lists" }
                        th.n scope="col" { "Read whole" }
                        th.n scope="col" { "Median age" }
                        th.n scope="col" { "Oldest age" }
                        th.n scope="col" { "Too old" }
                    }
                }
                tbody {
                    @for tier in &lists.tiers {
                        tr {
                            th scope="row" { (tier.tier) }
                            td.lesser { (time(tier.revisit_ms)) }
                            td.lesser { (time(tier.complete_within_ms)) }
                            td.n { (grouped(tier.lists)) }
                            td.n { (grouped(tier.complete)) }
                            td.n { (TierFigures::age(tier.median_age_ms)) }
                            td.n { (TierFigures::age(tier.oldest_age_ms)) }
                            td.n { (grouped(tier.too_old)) }
                        }
                    }
                }
            }
        }
    }
}
