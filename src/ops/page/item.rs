//! Common parts of the pages of all items: the place in the queue, and the newest object.

use maud::{Markup, html};

use super::original;
use super::words::{one_line, relative};
use crate::base::clock::Millis;
use crate::base::humanize::grouped;
use crate::engine::queue::Place;
use crate::model::post::ItemState;
use crate::ops::dead::Whereabouts;

pub(super) fn object(raw: &str) -> Markup {
    let (text, is_cut) = original::indented(raw);
    html! {
        details #object {
            summary { "Newest object, as the network sent it" }
            pre #object-box tabindex="0" role="region" aria-label="Newest object" { (text) @if is_cut { "…" } }
            @if is_cut { p.lead { "the beginning of " (grouped(raw.len() as u64)) " bytes" } }
        }
    }
}

pub(super) fn place(whereabouts: &Whereabouts, now: Millis) -> Markup {
    let stored = whereabouts.stored.as_ref();
    let places = &whereabouts.places;
    html! {
        @for (at, place) in places.iter().enumerate() {
            @if at > 0 { "; and " }
            @match place {
                Place::Delayed { lane, due } if *due > now => {
                    "delayed in the lane " (lane) ", due " (relative(*due, now, "late"))
                }
                Place::Delayed { lane, due } => { "due in the lane " (lane) ", " (relative(*due, now, "late")) }
                Place::Leased { fence, by } => {
                    "leased" @if let Some(worker) = by { " by " (one_line(worker)) } "; the lease ends " (relative(*fence, now, "ago"))
                }
                Place::Dead { at, reason } => { "dead, buried " (relative(*at, now, "ago")) ": " (one_line(reason)) }
            }
        }
        @if places.is_empty() {
            @match stored.map(|stored| (stored.state, &stored.reason)) {
                Some((ItemState::Ended, _)) => "ended: it is not looked up any more",
                Some((ItemState::Dead, why)) => {
                    "dead, as the store has it" @if let Some(why) = why { ": " (one_line(why)) }
                }
                _ => "in no place of the queue; `twitter-updater rebuild` puts it back",
            }
        }
    }
}
