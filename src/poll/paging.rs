//! Back through a timeline, page by page, newest first, down to what is known. Pure.
//!
//! ```text
//!      newest                                                           older
//!   ───▶ page 1 │ page 2 │ page 3 │ …             │ anchor │ since
//!        ask: everything above `since`, below the last page's least id … until the anchor, or an empty page
//! ```
//!
//! A *round* is what one such walk brings. It may take several polls: what is still open is a part of the
//! [`Position`], so a restart goes on where the last page ended. A position is saved after the posts of its page
//! are handed over; whoever dies in between has the same page again.
//!
//! **Where it ends.** `count` is a ceiling, and posts are filtered after it was applied: a page that is not full is not
//! the last one. The last is one that the API says is the last ([`More::No`]); or an empty one; or one that
//! holds a post that is known already from below `since`. For the last, networks that charge for calls are asked
//! from just below such a post, the *anchor*: one post more on the page, instead of an empty page for
//! each round.
//!
//! **Where a page is empty and should not be.** A page whose posts are all deleted is as empty as the last. So where the
//! anchor is gone, the next page is asked from a little further down, the *footing*: a page that holds a post from there
//! shows that nothing is left in between. One that is empty, too, leaves a gap. An anchor that was deleted costs
//! these two pages, once.
//!
//! **What cannot be had any more** (only the newest 3,200 posts of a user, only 7 days of a search) is a [`Gap`].
//! Nothing says that a limit was met: a round that found no anchor before the end, and asked for as many posts
//! as the limit, may have met it. It is told as what may be missing, never left out.

pub use super::position::{Position, Span};
use super::since::{IdLayout, Reading};
use crate::clock::Millis;

/// What a timeline's API can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rules {
    /// How its ids tell the time.
    pub layout: IdLayout,
    /// How much out of order ids may appear, in ms.
    pub k: Millis,
    /// Posts in a page, at the most.
    pub count: u32,
    /// Whether a known post is asked for, too, to see that a page reaches what is known. Of no use where
    /// the API says itself which page is the last.
    pub anchored: bool,
    /// Only so many of the newest posts can be had.
    pub depth: Option<u64>,
    /// Only posts younger than this can be had, in ms.
    pub window: Option<Millis>,
}

/// What to ask the API for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ask {
    /// Only ids above this; `None`: all.
    pub since: Option<u64>,
    /// Only ids below this; `None`: from the newest on.
    pub below: Option<u64>,
    /// The API's own word for this page, where it gave one.
    pub token: Option<String>,
    /// Posts, at the most.
    pub count: u32,
}

/// Whether there is another page.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum More {
    /// The API does not say.
    #[default]
    Unsaid,
    /// This was the last.
    No,
    /// Asked for with this word.
    Token(String),
    /// The word this page was asked for with is no longer good: nothing came, and it is to be asked for by ids.
    Anew,
}

/// Posts that cannot be had any more, or may be missing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gap {
    /// Its least id.
    pub from: u64,
    /// Its greatest id.
    pub to: u64,
    /// Why.
    pub reason: GapReason,
}

/// Why there is a gap.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum GapReason {
    /// Deeper than the API gives.
    #[error("the API gives no more than the newest {0} posts")]
    Depth(u64),
    /// Older than the API gives.
    #[error("the API gives no posts older than {} days", .0 / 86_400_000)]
    Window(Millis),
    /// Below a page that came empty, where posts that were known are gone, too.
    #[error("a page came empty, and the posts known below it are gone: what was deleted may hide others")]
    Hidden,
}

/// A round that came to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Whole {
    /// Posts that were not known before it.
    pub fresh: u64,
    /// Since the round before began, in ms; `None` for the first.
    pub elapsed: Option<Millis>,
}

/// What a page made of the position.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Taken {
    /// The ids to hand over, newest first.
    pub hand_over: Vec<u64>,
    /// What is missing, to be written down with the position.
    pub gaps: Vec<Gap>,
    /// Set where the round is at its end.
    pub whole: Option<Whole>,
}

/// The API answered what was not asked for: going on would turn in circles.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the page holds no id below {below}, although it was asked for those: the API does not heed it")]
pub struct NotHeeded {
    below: u64,
}

/// A margin to the API's own limit of age, ms: clocks differ, and a request takes its time.
const WINDOW_MARGIN: Millis = 60_000;

/// The next page to ask for. `now` is their clock, as well as it is known, ms since the Unix epoch.
///
/// `position` is `None` for a source that was never read: it begins with the newest page.
#[must_use]
pub fn ask(position: Option<&Position>, rules: &Rules, now: Millis) -> Ask {
    let Some(position) = position else { return Ask { since: None, below: None, token: None, count: rules.count } };
    let open = position.open.as_ref();
    let known = match open {
        Some(span) if span.sounding => position.footing,
        _ => position.anchor,
    };
    let mut since = match known {
        Some(known) if rules.anchored => known.saturating_sub(1),
        _ => position.since,
    };
    let below = open.and_then(|span| span.below);
    if let Some(window) = rules.window {
        // Some refuse an id from beyond their limit. What may be missing for it is told by `take`.
        let oldest = rules.layout.first_at(now.saturating_sub(window).saturating_add(WINDOW_MARGIN));
        since = since.max(oldest.min(below.map_or(oldest, |below| below.saturating_sub(1))));
    }
    Ask {
        since: (since > 0).then_some(since),
        below,
        token: open.and_then(|span| span.token.clone()),
        count: rules.count,
    }
}

/// Takes the page that was asked for by `ask`: the position is then what is to be saved once
/// [`Taken::hand_over`] is handed over. `ids` come in any order.
///
/// # Errors
/// [`NotHeeded`]; the position is as it was.
pub fn take(
    position: &mut Option<Position>,
    rules: &Rules,
    ask: &Ask,
    ids: &[u64],
    more: More,
    reading: &Reading,
) -> Result<Taken, NotHeeded> {
    if more == More::Anew {
        if let Some(span) = position.as_mut().and_then(|position| position.open.as_mut()) {
            span.token = None;
        }
        return Ok(Taken::default());
    }
    let is_first = position.is_none();
    let mut next = position.clone().unwrap_or_default();
    let (newest, least) = (ids.iter().max().copied(), ids.iter().min().copied());
    if let (Some(below), Some(newest)) = (next.open.as_ref().and_then(|span| span.below), newest)
        && newest >= below
    {
        return Err(NotHeeded { below });
    }
    let mut taken = Taken::default();
    let mut span = next.open.take().unwrap_or_else(|| begin(&next, rules, newest, reading));
    next.latest = next.latest.max(newest);

    // Whatever came: a post from below `since` is later than its network promised, and here all the same.
    taken.hand_over = ids.iter().copied().filter(|id| Some(*id) != next.anchor).collect();
    taken.hand_over.sort_unstable_by(|a, b| b.cmp(a));
    taken.hand_over.dedup();
    let is_fresh = |id: &&u64| span.known.is_none_or(|known| **id > known);
    span.fresh += taken.hand_over.iter().filter(is_fresh).count() as u64;
    if span.next_anchor.is_none() {
        (span.next_anchor, span.next_footing) = footholds(ids, span.next_since);
    }
    span.passed += u64::from(rules.count);
    span.below = least.or(span.below);

    let met = least.is_some_and(|least| least <= next.since) && !is_first;
    let is_last = match &more {
        More::No => true,
        More::Token(_) | More::Anew => false,
        More::Unsaid => ids.is_empty(),
    };
    let sounds = is_last && can_sound(&next, rules, &span, ask, &more);
    if sounds || !(met || is_last || is_first) {
        if sounds {
            span.sounding = true;
            span.passed -= u64::from(rules.count); // an empty page passed nothing
        }
        span.token = match more {
            More::Token(token) => Some(token),
            More::No | More::Unsaid | More::Anew => None,
        };
        next.open = Some(span);
        *position = Some(next);
        return Ok(taken);
    }

    if !met && !is_first {
        taken.gaps.extend(too_old(&next, rules, ask));
        taken.gaps.extend(too_deep(&next, rules, &span, ids.is_empty()).or_else(|| hidden(&next, &span)));
    }
    let elapsed = next.swept_at.map(|then| span.began_at.saturating_sub(then));
    taken.whole = Some(Whole { fresh: span.fresh, elapsed });
    // An anchor that was not met may be deleted: it would cost an empty page in each round.
    next.anchor = span.next_anchor.or(next.anchor.filter(|_| met));
    next.footing = span.next_footing.or(next.footing.filter(|_| met || !span.sounding));
    next.since = span.next_since;
    next.swept_at = Some(span.began_at);
    *position = Some(next);
    Ok(taken)
}

/// A round begins: what it will have made whole is known by its first page. A post that appears later, wherever in
/// the round's span, appears after that page was read.
fn begin(position: &Position, rules: &Rules, newest: Option<u64>, reading: &Reading) -> Span {
    let asked_at = reading.asked_at();
    // Of an empty timeline nothing is below what comes.
    let next_since = position
        .latest
        .max(newest)
        .map_or(0, |latest| rules.layout.since(latest, asked_at, rules.k))
        .max(position.since);
    Span {
        below: None,
        token: None,
        passed: 0,
        fresh: 0,
        known: position.latest,
        next_since,
        next_anchor: None,
        next_footing: None,
        sounding: false,
        began_at: reading.about(),
    }
}

/// How many known posts below `since` are between the footing and the anchor, at the most, both counted: all of them
/// have to be deleted before an empty page is a gap.
const FOOTHOLDS: usize = 8;

/// The greatest id up to `since`, and one a few posts below it.
fn footholds(ids: &[u64], since: u64) -> (Option<u64>, Option<u64>) {
    let mut known: Vec<u64> = ids.iter().copied().filter(|id| *id <= since).collect();
    known.sort_unstable_by(|a, b| b.cmp(a));
    known.truncate(FOOTHOLDS);
    let footing = known.last().copied().filter(|_| known.len() > 1);
    (known.first().copied(), footing)
}

/// Whether a page from the footing can tell if an empty one was the last. Not where the API gives nothing that old, and
/// not where nothing was passed: then `since` stays.
fn can_sound(position: &Position, rules: &Rules, span: &Span, ask: &Ask, more: &More) -> bool {
    let reaches = ask.since.unwrap_or(0) <= position.since;
    *more == More::Unsaid
        && rules.anchored
        && reaches
        && !span.sounding
        && span.below.is_some()
        && position.footing.is_some()
}

/// What an empty page may hide, where not even the footing is left.
fn hidden(position: &Position, span: &Span) -> Option<Gap> {
    let (from, to) = (position.since.saturating_add(1), span.below?.saturating_sub(1));
    (span.sounding && from <= to).then_some(Gap { from, to, reason: GapReason::Hidden })
}

/// What grew too old since the last whole round, or during this one: it was not asked for. A source without a post for
/// weeks misses nothing: at its last round all was there.
fn too_old(position: &Position, rules: &Rules, ask: &Ask) -> Option<Gap> {
    let window = rules.window?;
    let swept = rules.layout.first_at(position.swept_at.unwrap_or(0).saturating_sub(rules.k));
    let (from, to) = (position.since.saturating_add(1).max(swept), ask.since?);
    (from <= to).then_some(Gap { from, to, reason: GapReason::Window(window) })
}

/// What lies deeper than the API gives.
fn too_deep(position: &Position, rules: &Rules, span: &Span, is_empty: bool) -> Option<Gap> {
    let depth = rules.depth?;
    // An empty page passed nothing.
    let passed = if is_empty { span.passed - u64::from(rules.count) } else { span.passed };
    let (from, to) = (position.since.saturating_add(1), span.below?.saturating_sub(1));
    (passed >= depth && from <= to).then_some(Gap { from, to, reason: GapReason::Depth(depth) })
}
