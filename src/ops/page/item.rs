//! Common parts of the pages of all items: the place in the queue, and the newest object.

use maud::{Markup, html};

use super::format::{one_line, relative_time};
use super::network_object;
use crate::data::dead::ItemReport;
use engine::base::clock::Millis;
use engine::base::humanize::group_digits;
use engine::queue::Place;
use networks::model::post::ItemState;

pub(super) fn render_object(raw: &str) -> Markup {
    let (text, is_cut) = network_object::indent_json(raw);
    html! {
        details #object {
            summary { "Newest object, as the network sent it" }
            pre #object-box tabindex="0" role="region" aria-label="Newest object" { (text) @if is_cut { "…" } }
            @if is_cut { p.lead { "the beginning of " (group_digits(raw.len() as u64)) " bytes" } }
        }
    }
}

pub(super) fn render_place(report: &ItemReport, now: Millis) -> Markup {
    let stored = report.stored.as_ref();
    let places = &report.places;
    html! {
        @for (at, place) in places.iter().enumerate() {
            @if at > 0 { "; and " }
            @match place {
                Place::Delayed { lane, due } if *due > now => {
                    "waiting in the lane " (lane) ", due " (relative_time(*due, now, "late"))
                }
                Place::Delayed { lane, due } => { "due in the lane " (lane) ", " (relative_time(*due, now, "late")) }
                Place::Leased { fence, by } => {
                    "leased" @if let Some(worker) = by { " by " (one_line(worker)) } "; the lease ends " (relative_time(*fence, now, "ago"))
                }
                Place::Dead { at, reason } => { "became dead " (relative_time(*at, now, "ago")) ": " (one_line(reason)) }
            }
        }
        @if places.is_empty() {
            @match stored.map(|stored| (stored.state, &stored.reason)) {
                Some((ItemState::Ended, _)) => "ended: it is not looked up any more",
                Some((ItemState::Dead, why)) => {
                    "dead in the store" @if let Some(why) = why { ": " (one_line(why)) }
                }
                _ => "not in the queue; `twitter-updater rebuild` adds it again",
            }
        }
    }
}
