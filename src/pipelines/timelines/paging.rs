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
//! are handed over; after a crash in between the same page is read again.
//!
//! **Where it ends.** `count` is a ceiling, and posts are filtered after it was applied: a page that is not full is not
//! the last one. The last is one that the API says is the last ([`More::No`]); or an empty one; or one that
//! holds a post that is known already from below `since`. For the last, networks that charge for calls are asked
//! from just below such a post, the *anchor*: one post more on the page, instead of an empty page for
//! each round.
//!
//! **Where a page is empty and should not be.** Nothing is believed too soon. Where the *first* page of a round is empty
//! although a known post should be on it, the round is left as it was, and only after [`BELIEVED_AFTER`] is it the truth: `since`
//! stays until then, so what was still to appear is not passed over. In the middle of a round, a page whose posts are all
//! deleted is as empty as the last. So where the anchor is gone, the next page is asked from a little further down, the
//! *fallback anchor*: a page that holds a post from there shows that nothing is left in between. Where that one is empty, too, pages
//! are asked further and further down (a [`Hole`]) until one holds a post; what lies between is a gap, and the round goes on. An
//! API that says itself which page is the last is asked twice again where that page is empty. If a post that was known should be
//! below it, the round stays open, a page a poll, and only after [`BELIEVED_AFTER`] it ends. It ends with a gap if its new posts
//! fill a page: pages are cut before deleted posts are left out, so fewer posts hide none.
//!
//! **What comes twice.** An API may repeat posts at the seam of two pages. They are handed over again, which does no harm. Only
//! a page that holds nothing lower, and the newest posts instead, is one that does not heed what it was asked.
//!
//! **What cannot be had any more** (only the newest 3,200 posts of a user, only 7 days of a search) is a [`Gap`].
//! Nothing says that a limit was met: a round that found no anchor before the end, and asked for as many posts
//! as the limit, may have met it. It is told as what may be missing, never left out.

pub use super::position::{Hole, Position, Span};
use crate::base::clock::Millis;
use crate::providers::since::Reading;
use crate::providers::timeline::{Ask, More, Rules};

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
    #[error("a page was empty, and the known posts below it are gone: others may be hidden behind the deleted ones")]
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

/// The effect of a page on the position.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Taken {
    /// The ids to hand over, newest first.
    pub hand_over: Vec<u64>,
    /// The gap to save with the position.
    pub gaps: Vec<Gap>,
    /// Set where the round is at its end.
    pub whole: Option<Whole>,
}

/// The API answered what was not asked for: going on would turn in circles.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotHeeded {
    /// The same page as before.
    #[error("the page holds no id below {0}, although it was asked for those: the API ignores the parameters")]
    Below(u64),
    /// The same cursor for the next page, or nothing new behind any of them.
    #[error("page after page has no older posts: the API's cursor goes in a circle")]
    Circle,
}

/// For so long an empty page is not believed where a known post should be on it, ms.
pub const BELIEVED_AFTER: Millis = 600_000;

/// A post further ahead than this was not made then, ms: clocks, where only ours is known, may be off by hours.
const AHEAD: Millis = 86_400_000;

/// Pages in a row that hold nothing lower, or come empty and call themselves the last, before that is an answer.
const ODD_PAGES: u32 = 2;

/// A margin to the API's own limit of age, ms: clocks differ, and a request takes its time.
const WINDOW_MARGIN: Millis = 60_000;

/// The next page to ask for. `now` is their clock, as well as it is known, ms since the Unix epoch.
///
/// `position` is `None` for a source that was never read: it begins with the newest page.
#[must_use]
pub fn ask(position: Option<&Position>, rules: &Rules, now: Millis) -> Ask {
    let Some(position) = position else { return Ask { since: None, below: None, cursor: None, count: rules.count } };
    let open = position.open.as_ref();
    let known = match open {
        Some(span) if span.probing => position.fallback_anchor,
        _ => position.anchor,
    };
    let mut since = match known {
        Some(known) if rules.anchored => known.saturating_sub(1),
        _ => position.since,
    };
    let below = open.and_then(|span| span.hole.map(|hole| hole.top.saturating_sub(hole.step)).or(span.below));
    if let Some(window) = rules.window {
        // Some refuse an id from beyond their limit. What may be missing for it is told by `take`.
        let oldest = rules.layout.first_at(now.saturating_sub(window).saturating_add(WINDOW_MARGIN));
        since = since.max(oldest.min(below.map_or(oldest, |below| below.saturating_sub(1))));
    }
    Ask {
        since: (since > 0).then_some(since),
        below,
        cursor: open.and_then(|span| span.cursor.clone()),
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
            span.cursor = None;
        }
        return Ok(Taken::default());
    }
    let is_first = position.is_none();
    let mut next = position.clone().unwrap_or_default();
    // A post from the future is handed over, and tells nothing of what was read: all later ones would seem to be known.
    let can_be = rules.layout.first_at(reading.about().saturating_add(AHEAD)).saturating_sub(1);
    let newest = ids.iter().filter(|id| **id <= can_be).max().copied();
    let lower: Vec<u64> = ids.iter().copied().filter(|id| ask.below.is_none_or(|below| *id < below)).collect();
    let made_at = |id: u64| rules.layout.made_at(id);
    let is_deeper = ask.below.is_none_or(|below| lower.iter().any(|id| made_at(*id) < made_at(below)));
    let is_empty_end = more == More::No && lower.is_empty();
    let odd = match odd(&next, ask, ids, newest.filter(|_| lower.is_empty()), &more) {
        // By ids, then: the cursor would be asked for again and again.
        Err(NotHeeded::Circle) if next.open.as_ref().is_some_and(|span| span.odd < ODD_PAGES) => {
            if let Some(span) = position.as_mut().and_then(|position| position.open.as_mut()) {
                (span.cursor, span.odd) = (None, span.odd + 1);
            }
            return Ok(Taken::default());
        }
        Ok(_) if is_deeper && more != More::No => 0,
        odd => odd?,
    };
    let mut span = next.open.take().unwrap_or_else(|| begin(&next, rules, newest, reading));
    span.odd = odd;
    next.latest = next.latest.max(newest);
    let mut taken = gather(&mut next, &mut span, rules, ask, ids, lower.iter().min().copied());

    let met = ids.iter().min().is_some_and(|least| *least <= next.since) && !is_first;
    let goes_on = match more {
        More::Cursor(cursor) => {
            span.cursor = Some(cursor);
            true
        }
        More::Unsaid if !lower.is_empty() => {
            span.cursor = None;
            true
        }
        said => !met && !is_first && looks_again(&next, rules, &mut span, ask, &said, lower.is_empty(), reading),
    };
    if goes_on && !met && !is_first {
        next.open = Some(span);
        *position = Some(next);
        return Ok(taken);
    }
    let is_missed = is_empty_end && is_missed(&next, rules, &span) && too_deep(&next, rules, &span, reading).is_none();
    if is_missed && !is_believed(&mut next, reading) {
        // The poll is over, its round is not.
        taken.whole = Some(Whole { fresh: 0, elapsed: None });
        span.odd = 0;
        next.open = Some(span);
        *position = Some(next);
        return Ok(taken);
    }
    if span.below.is_none() {
        match believed(&mut next, rules, ask, reading) {
            Some(true) => {}
            // Nothing shows that anything was read.
            None => span.next_since = next.since,
            Some(false) => {
                taken.whole = Some(Whole { fresh: 0, elapsed: None });
                *position = Some(next);
                return Ok(taken);
            }
        }
    }
    if !met && !is_first {
        taken.gaps.extend(too_old(&next, rules, ask));
        taken
            .gaps
            .extend(too_deep(&next, rules, &span, reading).or_else(|| hidden(&next, rules, &span, ask, is_missed)));
    }
    taken.whole = Some(end(&mut next, span, met));
    *position = Some(next);
    Ok(taken)
}

/// The content of a page. `least` is the least of its ids below those that were asked for.
fn gather(
    position: &mut Position,
    span: &mut Span,
    rules: &Rules,
    ask: &Ask,
    ids: &[u64],
    least: Option<u64>,
) -> Taken {
    // Whatever came: a post from below `since` is later than its network promised, and here all the same.
    let mut hand_over: Vec<u64> = ids.iter().copied().filter(|id| Some(*id) != position.anchor).collect();
    hand_over.sort_unstable_by(|a, b| b.cmp(a));
    hand_over.dedup();
    let mut taken = Taken { hand_over, ..Taken::default() };
    let is_fresh = |id: &&u64| span.known.is_none_or(|known| **id > known);
    span.fresh += taken.hand_over.iter().filter(is_fresh).count() as u64;
    if span.next_anchor.is_none() {
        (span.next_anchor, span.next_fallback_anchor) = anchors_of(ids, span.next_since);
    }
    if least.is_some() {
        // What is between the page that came empty and this one.
        if let (Some(hole), Some(below)) = (span.hole.take(), ask.below) {
            taken.gaps.push(Gap { from: below, to: hole.top.saturating_sub(1), reason: GapReason::Hidden });
            span.passed += u64::from(rules.count);
        }
        span.passed += u64::from(rules.count);
        span.below = least;
        position.doubted_since = None;
    }
    taken
}

/// The number of pages in a row, with this one, that could not be believed. `repeated` is the newest post of a page
/// that holds nothing lower than was asked for.
fn odd(position: &Position, ask: &Ask, ids: &[u64], repeated: Option<u64>, more: &More) -> Result<u32, NotHeeded> {
    let is_full = ids.len() * 2 >= ask.count as usize;
    let before = position.open.as_ref().map_or(0, |span| span.odd);
    match (repeated, ask.below, more) {
        (_, _, More::Cursor(cursor)) if Some(cursor) == ask.cursor.as_ref() => Err(NotHeeded::Circle),
        (Some(_), Some(_), More::Cursor(_)) if before >= ODD_PAGES => Err(NotHeeded::Circle),
        (Some(_), Some(_), More::Cursor(_)) => Ok(before + 1),
        // A few posts from the seam are as an empty page; a page of the newest ones is what nobody asked for.
        (Some(newest), Some(below), More::Unsaid)
            if is_full && position.latest.is_none_or(|latest| newest >= latest) =>
        {
            Err(NotHeeded::Below(below))
        }
        _ => Ok(before),
    }
}

/// A page that seems to be the last, in the middle of a round: whether another is asked for, and which.
fn looks_again(
    position: &Position,
    rules: &Rules,
    span: &mut Span,
    ask: &Ask,
    more: &More,
    is_empty: bool,
    reading: &Reading,
) -> bool {
    let Some(top) = span.below.filter(|_| is_empty) else { return false };
    if too_deep(position, rules, span, reading).is_some() {
        return false;
    }
    if *more == More::No {
        // By the same cursor: not each API that has one can be asked by ids.
        span.odd += 1;
        // Once that is doubted, a page a poll is enough.
        return span.odd <= ODD_PAGES && position.doubted_since.is_none();
    }
    span.cursor = None;
    let reaches = ask.since.unwrap_or(0) <= position.since;
    if rules.anchored && reaches && !span.probing && position.fallback_anchor.is_some() {
        span.probing = true;
        return true;
    }
    let floor = floor(position, rules).max(ask.since.filter(|_| !reaches).unwrap_or(0));
    let depth = top.saturating_sub(floor);
    let step = match span.hole {
        Some(hole) => hole.step.saturating_mul(2),
        // As far as a page reached on average, and not too many pages in all.
        None => {
            let read = position.latest.map_or(0, |latest| latest.saturating_sub(top));
            let pages = (span.passed / u64::from(rules.count.max(1))).max(1);
            (read / pages).max(depth / MOST_STEPS).max(1)
        }
    };
    // At last just above the floor: few posts may be left there, below many that were deleted.
    let last = depth.saturating_sub((depth / MOST_STEPS).max(1)).max(1);
    let step = if span.hole.is_none_or(|hole| hole.step < last) { step.min(last) } else { depth };
    span.hole = Some(Hole { top, step });
    step < depth
}

/// A hole is crossed in no more than about this many pages of the first step's width.
const MOST_STEPS: u64 = 64;

/// Whether a round that brought nothing is believed, although a known post should be there: after some time. `None` where
/// none should.
fn believed(position: &mut Position, rules: &Rules, ask: &Ask, reading: &Reading) -> Option<bool> {
    let witness = if rules.anchored { position.anchor } else { position.latest };
    witness.filter(|known| *known > ask.since.unwrap_or(0))?;
    Some(is_believed(position, reading))
}

/// Whether empty pages were doubted for long enough.
fn is_believed(position: &mut Position, reading: &Reading) -> bool {
    let since = position.doubted_since.map_or(reading.about(), |since| since.min(reading.about()));
    position.doubted_since = Some(since);
    reading.about().saturating_sub(since) >= BELIEVED_AFTER
}

/// Whether a known post should be below those of this round. A timeline that has no others down there ends at one that was
/// known when the round began, or had none then.
fn is_missed(position: &Position, rules: &Rules, span: &Span) -> bool {
    let known = position.anchor.filter(|_| rules.anchored).or(span.known);
    span.below.zip(known).is_some_and(|(below, known)| known < below)
}

/// The round is at its end.
fn end(position: &mut Position, span: Span, met: bool) -> Whole {
    let elapsed = position.swept_at.map(|then| span.began_at.saturating_sub(then));
    // An anchor that was not met may be deleted: it would cost an empty page in each round.
    position.anchor = span.next_anchor.or(position.anchor.filter(|_| met));
    position.fallback_anchor = span.next_fallback_anchor.or(position.fallback_anchor.filter(|_| met || !span.probing));
    position.since = span.next_since;
    position.doubted_since = None;
    position.swept_at = Some(span.began_at);
    Whole { fresh: span.fresh, elapsed }
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
        cursor: None,
        passed: 0,
        fresh: 0,
        known: position.latest,
        next_since,
        next_anchor: None,
        next_fallback_anchor: None,
        probing: false,
        hole: None,
        odd: 0,
        began_at: reading.about(),
    }
}

/// How many known posts below `since` are between the fallback anchor and the anchor, at the most, both counted: all of them
/// have to be deleted before an empty page is a gap.
const FOOTHOLDS: usize = 8;

/// The greatest id up to `since`, and one a few posts below it.
fn anchors_of(ids: &[u64], since: u64) -> (Option<u64>, Option<u64>) {
    let mut known: Vec<u64> = ids.iter().copied().filter(|id| *id <= since).collect();
    known.sort_unstable_by(|a, b| b.cmp(a));
    known.truncate(FOOTHOLDS);
    let fallback_anchor = known.last().copied().filter(|_| known.len() > 1);
    (known.first().copied(), fallback_anchor)
}

/// Gap of the posts that an empty page may hide: if even the fallback anchor is gone, or if a known post is missing (`is_missed`).
/// An API fills a page before it leaves out deleted posts. So if the round has fewer new posts than a page holds, there is no gap.
fn hidden(position: &Position, rules: &Rules, span: &Span, ask: &Ask, is_missed: bool) -> Option<Gap> {
    let (from, to) = (position.since.saturating_add(1), span.below?.saturating_sub(1));
    let asked_for = |known: u64| known > ask.since.unwrap_or(0);
    let is_gone = is_missed || span.probing || span.hole.is_some() && position.anchor.is_some_and(asked_for);
    (is_gone && fills_a_page(span, rules) && from <= to).then_some(Gap { from, to, reason: GapReason::Hidden })
}

/// Returns true if the new posts of a round are at least as many as a page holds.
fn fills_a_page(span: &Span, rules: &Rules) -> bool {
    span.fresh >= u64::from(rules.count)
}

/// Nothing from below is left to be had: it is handed over or in a gap, or was there at the last whole round.
fn floor(position: &Position, rules: &Rules) -> u64 {
    let swept = rules.layout.first_at(position.swept_at.unwrap_or(0).saturating_sub(rules.k));
    position.since.max(swept.saturating_sub(1))
}

/// What grew too old since the last whole round, or during this one: it was not asked for. A source without a post for
/// weeks misses nothing: at its last round all was there.
fn too_old(position: &Position, rules: &Rules, ask: &Ask) -> Option<Gap> {
    let window = rules.window?;
    let (from, to) = (floor(position, rules).saturating_add(1), ask.since?);
    (from <= to).then_some(Gap { from, to, reason: GapReason::Window(window) })
}

/// What lies deeper than the API gives. What came since the round began has pushed the limit up, too.
fn too_deep(position: &Position, rules: &Rules, span: &Span, reading: &Reading) -> Option<Gap> {
    let (depth, below) = (rules.depth?, span.below?);
    let elapsed = reading.about().saturating_sub(span.began_at).max(0);
    // Twice the rate of the posts that were read, since posts come in bursts.
    let came = 2.0 * elapsed as f64 * pace(position, rules, span, below);
    let (from, to) = (position.since.saturating_add(1), below.saturating_sub(1));
    let may_have_met = span.passed as f64 + came >= depth as f64;
    (may_have_met && from <= to).then_some(Gap { from, to, reason: GapReason::Depth(depth) })
}

/// Posts per ms of a source; its round has read down to the id `below`.
fn pace(position: &Position, rules: &Rules, span: &Span, below: u64) -> f64 {
    let made_at = |id: u64| rules.layout.made_at(id);
    let per_ms =
        |posts: u64, from: Millis, to: Millis, least: Millis| posts as f64 / to.saturating_sub(from).max(least) as f64;
    if fills_a_page(span, rules) {
        return per_ms(span.passed, made_at(below), made_at(position.latest.unwrap_or(below)), 1);
    }
    // A few posts give no rate by their own times: a thread of five is written in a moment. They are all posts since the last
    // round, so the time since then counts.
    per_ms(span.fresh, made_at(floor(position, rules)), span.began_at, WINDOW_MARGIN)
}
