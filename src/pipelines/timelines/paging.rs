//! Reads back through a timeline, page by page, newest first, down to known posts. Pure.
//!
//! ```text
//!      newest                                                           older
//!   ───▶ page 1 │ page 2 │ page 3 │ …             │ anchor │ since
//!        ask: everything above `since`, below the last page's least id … until the anchor, or an empty page
//! ```
//!
//! A *round* is one such walk. It may take several polls: its open part is in the [`Position`], so a restart continues where the last
//! page ended. A position is saved after the posts of its page are handed over: after a crash in between the page is read again.
//!
//! **End of a round.** `count` is a ceiling, and posts are filtered after it was applied: a page that is not full is not the last one.
//! The last page is one that the API declares the last ([`More::No`]), an empty one, or one with a known post from below `since`. For
//! such a post, networks that charge for calls are asked from just below it, the *anchor*: one post more on the page, instead of an empty
//! page per round.
//!
//! **Unexpected empty pages.** An empty page is not trusted at once. If the *first* page of a round is empty although a known post should
//! be on it, the round stays as it was. The page is accepted only after [`CONFIRMED_AFTER`]: `since` stays until then, so that posts that
//! are still to appear are not skipped. In the middle of a round, a page whose posts are all deleted is as empty as the last one. So if
//! the anchor is gone, the next page is asked from a little further down, the *fallback anchor*: a page with a post from there shows that
//! nothing is left in between. If that page is empty, too, pages are asked further and further down (a [`Hole`]) until one has a post.
//! The part in between is a gap, and the round continues. An API that declares the last page is asked twice again if that page is empty.
//! If a known post should be below it, the round stays open, one page per poll, and ends only after [`CONFIRMED_AFTER`]. It ends with a
//! gap if its new posts fill a page: pages are cut before deleted posts are left out, so fewer posts hide none.
//!
//! **Repeated posts.** An API may repeat posts at the seam of two pages. They are handed over again, which does no harm. Only a page
//! without lower posts, and with the newest ones instead, shows that the API ignores the request.
//!
//! **Unavailable posts** (only the newest 3,200 posts of a user, only 7 days of a search) are a [`Gap`]. No API reports such a limit. A
//! round that found no anchor before the end, and asked for as many posts as the limit, may have met it. It is recorded as a possible
//! gap, never left out.

pub use super::position::{Hole, Position, Span};
use crate::base::clock::Millis;
use crate::providers::since::Reading;
use crate::providers::timeline::{Ask, More, Rules};

/// Posts that are no longer available, or may be missing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gap {
    pub from: u64,
    pub to: u64,
    pub reason: GapReason,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum GapReason {
    #[error("the API gives no more than the newest {0} posts")]
    Depth(u64),
    #[error("the API gives no posts older than {} days", .0 / 86_400_000)]
    Window(Millis),
    #[error("a page was empty, and the known posts below it are gone: others may be hidden behind the deleted ones")]
    Hidden,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Whole {
    /// Posts that were unknown before it.
    pub fresh: u64,
    /// Time since the start of the round before, ms; `None` for the first.
    pub elapsed: Option<Millis>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Taken {
    /// Ids to hand over, newest first.
    pub hand_over: Vec<u64>,
    pub gaps: Vec<Gap>,
    /// Set at the end of a round.
    pub whole: Option<Whole>,
}

/// The API ignored the request: further requests would go in circles.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotHeeded {
    #[error("the page holds no id below {0}, although it was asked for those: the API ignores the parameters")]
    Below(u64),
    #[error("page after page has no older posts: the API's cursor goes in a circle")]
    Circle,
}

/// Time for which an empty page is not trusted if a known post should be on it, ms.
pub const CONFIRMED_AFTER: Millis = 600_000;

/// A post further ahead than this has a wrong date, ms. Only our clock is known, and clocks may differ by hours.
const AHEAD: Millis = 86_400_000;

/// Pages in a row without lower posts, or empty and declared the last, before that is an answer.
const ODD_PAGES: u32 = 2;

/// Margin to the API's own limit of age, ms: clocks differ, and a request takes time.
const WINDOW_MARGIN: Millis = 60_000;

/// The next page to request. `now` is the network's clock, as far as it is known, ms since the Unix epoch. `position` is `None` for a
/// source that was never read: it starts with the newest page.
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
        // Some APIs refuse an id beyond their limit. `take` reports the posts that may be missing.
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

/// Takes the page that `ask` requested; `ids` come in any order. The position is then the one to save once [`Taken::hand_over`] is handed
/// over; after an error it is unchanged.
pub fn take(
    position: &mut Option<Position>,
    rules: &Rules,
    ask: &Ask,
    ids: &[u64],
    more: More,
    reading: &Reading,
) -> Result<Taken, NotHeeded> {
    if more == More::CursorExpired {
        if let Some(span) = position.as_mut().and_then(|position| position.open.as_mut()) {
            span.cursor = None;
        }
        return Ok(Taken::default());
    }
    let is_first = position.is_none();
    let mut next = position.clone().unwrap_or_default();
    // A post from the future is handed over, but does not count as read: all later posts would seem to be known.
    let can_be = rules.layout.first_at(reading.about().saturating_add(AHEAD)).saturating_sub(1);
    let newest = ids.iter().filter(|id| **id <= can_be).max().copied();
    let lower: Vec<u64> = ids.iter().copied().filter(|id| ask.below.is_none_or(|below| *id < below)).collect();
    let made_at = |id: u64| rules.layout.made_at(id);
    let is_deeper = ask.below.is_none_or(|below| lower.iter().any(|id| made_at(*id) < made_at(below)));
    let is_empty_end = more == More::No && lower.is_empty();
    let odd = match odd(&next, ask, ids, newest.filter(|_| lower.is_empty()), &more) {
        // The API's cursor leads in a circle, so the next request uses ids.
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
    if is_missed && !is_confirmed(&mut next, reading) {
        // The poll is over, but its round is not.
        taken.whole = Some(Whole { fresh: 0, elapsed: None });
        span.odd = 0;
        next.open = Some(span);
        *position = Some(next);
        return Ok(taken);
    }
    if span.below.is_none() {
        match confirm_empty_round(&mut next, rules, ask, reading) {
            Some(true) => {}
            // Nothing shows that any post was read.
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

/// Takes the content of a page. `least` is its least id below the requested bound.
fn gather(
    position: &mut Position,
    span: &mut Span,
    rules: &Rules,
    ask: &Ask,
    ids: &[u64],
    least: Option<u64>,
) -> Taken {
    // All posts: one from below `since` is later than its network promised, but it is here.
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
        // The part between the empty page and this one.
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

/// Number of untrusted pages in a row, with this one. `repeated` is the newest post of a page without lower ids than requested.
fn odd(position: &Position, ask: &Ask, ids: &[u64], repeated: Option<u64>, more: &More) -> Result<u32, NotHeeded> {
    let is_full = ids.len() * 2 >= ask.count as usize;
    let before = position.open.as_ref().map_or(0, |span| span.odd);
    match (repeated, ask.below, more) {
        (_, _, More::Cursor(cursor)) if Some(cursor) == ask.cursor.as_ref() => Err(NotHeeded::Circle),
        (Some(_), Some(_), More::Cursor(_)) if before >= ODD_PAGES => Err(NotHeeded::Circle),
        (Some(_), Some(_), More::Cursor(_)) => Ok(before + 1),
        // A few posts from the seam count as an empty page; a page of the newest ones was not requested.
        (Some(newest), Some(below), More::Unsaid)
            if is_full && position.latest.is_none_or(|latest| newest >= latest) =>
        {
            Err(NotHeeded::Below(below))
        }
        _ => Ok(before),
    }
}

/// Decides after a seemingly last page in the middle of a round. Returns true if another page, set in `span`, must be requested.
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
        // By the same cursor: not every API with cursors can be asked by ids.
        span.odd += 1;
        // Once that is doubted, one page per poll is enough.
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
        // As far as a page reached on average, but not too many pages in all.
        None => {
            let read = position.latest.map_or(0, |latest| latest.saturating_sub(top));
            let pages = (span.passed / u64::from(rules.count.max(1))).max(1);
            (read / pages).max(depth / MOST_STEPS).max(1)
        }
    };
    // The last step ends just above the floor: few posts may be left there, below many deleted ones.
    let last = depth.saturating_sub((depth / MOST_STEPS).max(1)).max(1);
    let step = if span.hole.is_none_or(|hole| hole.step < last) { step.min(last) } else { depth };
    span.hole = Some(Hole { top, step });
    step < depth
}

/// Approximate maximum of pages, of the first step's width, that cross a hole.
const MOST_STEPS: u64 = 64;

/// Returns true if a round without posts is accepted, after some time, although a known post should be there. `None`: none should be.
fn confirm_empty_round(position: &mut Position, rules: &Rules, ask: &Ask, reading: &Reading) -> Option<bool> {
    let witness = if rules.anchored { position.anchor } else { position.latest };
    witness.filter(|known| *known > ask.since.unwrap_or(0))?;
    Some(is_confirmed(position, reading))
}

/// Returns true if empty pages were doubted for long enough.
fn is_confirmed(position: &mut Position, reading: &Reading) -> bool {
    let since = position.doubted_since.map_or(reading.about(), |since| since.min(reading.about()));
    position.doubted_since = Some(since);
    reading.about().saturating_sub(since) >= CONFIRMED_AFTER
}

/// Returns true if a post that was known at the start of the round should be below those that were read.
fn is_missed(position: &Position, rules: &Rules, span: &Span) -> bool {
    let known = position.anchor.filter(|_| rules.anchored).or(span.known);
    span.below.zip(known).is_some_and(|(below, known)| known < below)
}

fn end(position: &mut Position, span: Span, met: bool) -> Whole {
    let elapsed = position.swept_at.map(|then| span.began_at.saturating_sub(then));
    // An anchor that was not met may be deleted: it would cost an empty page per round.
    position.anchor = span.next_anchor.or(position.anchor.filter(|_| met));
    position.fallback_anchor = span.next_fallback_anchor.or(position.fallback_anchor.filter(|_| met || !span.probing));
    position.since = span.next_since;
    position.doubted_since = None;
    position.swept_at = Some(span.began_at);
    Whole { fresh: span.fresh, elapsed }
}

/// Starts a round. Its first page determines the part that it completes: a later post appears after that page was read.
fn begin(position: &Position, rules: &Rules, newest: Option<u64>, reading: &Reading) -> Span {
    let asked_at = reading.asked_at();
    // In an empty timeline, no post is below the next ones.
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

/// Maximum known posts from the fallback anchor to the anchor, both counted: all must be deleted before an empty page is a gap.
const FOOTHOLDS: usize = 8;

/// The greatest id up to `since`, and one a few posts below it.
fn anchors_of(ids: &[u64], since: u64) -> (Option<u64>, Option<u64>) {
    let mut known: Vec<u64> = ids.iter().copied().filter(|id| *id <= since).collect();
    known.sort_unstable_by(|a, b| b.cmp(a));
    known.truncate(FOOTHOLDS);
    let fallback_anchor = known.last().copied().filter(|_| known.len() > 1);
    (known.first().copied(), fallback_anchor)
}

/// Gap of the posts that an empty page may hide: if even the fallback anchor is gone, or if a known post is missing (`is_missed`). None
/// if the round has fewer new posts than a page holds: an API fills a page before it leaves out deleted posts.
fn hidden(position: &Position, rules: &Rules, span: &Span, ask: &Ask, is_missed: bool) -> Option<Gap> {
    let (from, to) = (position.since.saturating_add(1), span.below?.saturating_sub(1));
    let asked_for = |known: u64| known > ask.since.unwrap_or(0);
    let is_gone = is_missed || span.probing || span.hole.is_some() && position.anchor.is_some_and(asked_for);
    (is_gone && fills_a_page(span, rules) && from <= to).then_some(Gap { from, to, reason: GapReason::Hidden })
}

fn fills_a_page(span: &Span, rules: &Rules) -> bool {
    span.fresh >= u64::from(rules.count)
}

/// Id below which nothing is open: posts there are handed over, in a gap, or existed at the last whole round.
fn floor(position: &Position, rules: &Rules) -> u64 {
    let swept = rules.layout.first_at(position.swept_at.unwrap_or(0).saturating_sub(rules.k));
    position.since.max(swept.saturating_sub(1))
}

/// Gap of the posts that grew too old since the last whole round. A silent source misses nothing: its last round had all.
fn too_old(position: &Position, rules: &Rules, ask: &Ask) -> Option<Gap> {
    let window = rules.window?;
    let (from, to) = (floor(position, rules).saturating_add(1), ask.since?);
    (from <= to).then_some(Gap { from, to, reason: GapReason::Window(window) })
}

/// Gap of the posts that lie deeper than the API gives. Posts since the start of the round have raised the limit, too.
fn too_deep(position: &Position, rules: &Rules, span: &Span, reading: &Reading) -> Option<Gap> {
    let (depth, below) = (rules.depth?, span.below?);
    let elapsed = reading.about().saturating_sub(span.began_at).max(0);
    // Twice the rate of the posts that were read, since posts come in bursts.
    let came = 2.0 * elapsed as f64 * pace(position, rules, span, below);
    let (from, to) = (position.since.saturating_add(1), below.saturating_sub(1));
    let may_have_met = span.passed as f64 + came >= depth as f64;
    (may_have_met && from <= to).then_some(Gap { from, to, reason: GapReason::Depth(depth) })
}

fn pace(position: &Position, rules: &Rules, span: &Span, below: u64) -> f64 {
    let made_at = |id: u64| rules.layout.made_at(id);
    let per_ms =
        |posts: u64, from: Millis, to: Millis, least: Millis| posts as f64 / to.saturating_sub(from).max(least) as f64;
    if fills_a_page(span, rules) {
        return per_ms(span.passed, made_at(below), made_at(position.latest.unwrap_or(below)), 1);
    }
    // The times of a few posts give no rate: a thread of five is written in a moment. They are all posts since the last round, so the
    // time since then counts.
    per_ms(span.fresh, made_at(floor(position, rules)), span.began_at, WINDOW_MARGIN)
}
