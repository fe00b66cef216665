//! Reads back through a timeline, page by page, newest first, down to known posts. Pure.
//!
//! ```text
//!      newest                                                           older
//!   ───▶ page 1 │ page 2 │ page 3 │ …             │ anchor │ since
//!        request: everything above `since`, below the last page's least id … until the anchor, or an empty page
//! ```
//!
//! A *round* is one such walk. It may take several polls: its open part is in the [`Position`], so a restart continues where the last
//! page ended. A position is saved after the posts of its page are handed over: after a crash in between the page is read again.
//!
//! **End of a round.** `count` is a ceiling, and posts are filtered after it was applied: a page that is not full is not the last one.
//! The last page is one that the API declares the last ([`NextPage::No`]), an empty one, or one with a known post from below `since`.
//! If calls cost, the request starts just below such a post, the *anchor*: one more post on the page replaces an empty page per round.
//!
//! **Unexpected empty pages.** An empty page is not trusted at once. If the *first* page of a round is empty although a known post should
//! be on it, the round stays unchanged. The page is accepted only after [`CONFIRMED_AFTER`]: `since` stays until then, so that later posts
//! are not skipped. In the middle of a round, a page whose posts are all deleted is as empty as the last one. If the anchor is gone, the
//! next request starts a little further down, at the *fallback anchor*: a post from there shows that nothing is left in between. If that
//! page is empty, too, pages are requested further down (an [`EmptyRange`]) until one has a post. The range in between is a gap. If an API
//! declares an empty page the last, it is requested twice again. If a known post should be below it, the round stays open, one page per
//! poll, and ends only after [`CONFIRMED_AFTER`]. It ends with a gap if its new posts fill a page: pages are cut before deleted posts are
//! left out, so fewer posts hide none.
//!
//! **Repeated posts.** An API may repeat posts at the seam of two pages. They are handed over again, which does no harm. Only a page
//! without lower posts, and with the newest ones instead, shows that the API ignores the request.
//!
//! **Unavailable posts** (only the newest 3,200 posts of a user, only 7 days of a search) are a [`Gap`]. No API reports such a limit. A
//! round without an anchor that requested as many posts as the limit may have met it, and is recorded as a possible gap.

pub use super::position::{EmptyRange, OpenRound, Position};
use engine::base::clock::Millis;
use networks::providers::since::Reading;
use networks::providers::timeline::{NextPage, Rules, TimelineRequest};

/// Range of posts that are no longer available, or may be missing.
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
pub struct FinishedRound {
    /// Posts that were unknown before the round.
    pub fresh: u64,
    /// Time since the start of the round before, ms; `None` for the first.
    pub elapsed: Option<Millis>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PageResult {
    /// Ids to hand over, newest first.
    pub hand_over: Vec<u64>,
    pub gaps: Vec<Gap>,
    /// Set at the end of a round.
    pub finished_round: Option<FinishedRound>,
}

/// Further requests would go in circles.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RequestIgnored {
    #[error("the page has no id below {0}, but only those were requested: the API ignores the parameters")]
    Below(u64),
    #[error("page after page has no older posts: the API's cursor goes in a circle")]
    Circle,
}

/// Time for which an empty page is not trusted if a known post should be on it, ms.
pub const CONFIRMED_AFTER: Millis = 600_000;

/// A post further ahead than this, ms, has a wrong date. Clocks may differ by hours.
const FUTURE_LIMIT: Millis = 86_400_000;

/// Pages in a row without lower posts, or empty and declared the last, before that is an answer.
const MAX_UNTRUSTED_PAGES: u32 = 2;

/// Margin to the API's own limit of age, ms: clocks differ, and a request takes time.
const WINDOW_MARGIN: Millis = 60_000;

/// The next page to request. `now` is the network's clock, as far as it is known, ms since the Unix epoch. `position` is `None` for a
/// source that was never read: it starts with the newest page.
#[must_use]
pub fn next_request(position: Option<&Position>, rules: &Rules, now: Millis) -> TimelineRequest {
    let Some(position) = position else {
        return TimelineRequest { since: None, below: None, cursor: None, count: rules.count };
    };
    let open = position.open.as_ref();
    let known = match open {
        Some(round) if round.probing => position.fallback_anchor,
        _ => position.anchor,
    };
    let mut since = match known {
        Some(known) if rules.anchored => known.saturating_sub(1),
        _ => position.since,
    };
    let below = open.and_then(|round| round.hole.map(|hole| hole.top.saturating_sub(hole.step)).or(round.below));
    if let Some(window) = rules.window {
        // Some APIs refuse an id beyond their limit. `apply_page` reports the posts that may be missing.
        let oldest = rules.layout.first_at(now.saturating_sub(window).saturating_add(WINDOW_MARGIN));
        since = since.max(oldest.min(below.map_or(oldest, |below| below.saturating_sub(1))));
    }
    TimelineRequest {
        since: (since > 0).then_some(since),
        below,
        cursor: open.and_then(|round| round.cursor.clone()),
        count: rules.count,
    }
}

/// Applies the answer to `request`; `ids` come in any order. The new position may be saved once [`PageResult::hand_over`] is handed
/// over. After an error it is unchanged.
pub fn apply_page(
    position: &mut Option<Position>,
    rules: &Rules,
    request: &TimelineRequest,
    ids: &[u64],
    more: NextPage,
    reading: &Reading,
) -> Result<PageResult, RequestIgnored> {
    if more == NextPage::CursorExpired {
        if let Some(round) = position.as_mut().and_then(|position| position.open.as_mut()) {
            round.cursor = None;
        }
        return Ok(PageResult::default());
    }
    let is_first = position.is_none();
    let mut next = position.clone().unwrap_or_default();
    // A post from the future is handed over, but does not count as read: all later posts would seem to be known.
    let newest_possible = rules.layout.first_at(reading.about().saturating_add(FUTURE_LIMIT)).saturating_sub(1);
    let newest = ids.iter().filter(|id| **id <= newest_possible).max().copied();
    let lower: Vec<u64> = ids.iter().copied().filter(|id| request.below.is_none_or(|below| *id < below)).collect();
    let made_at = |id: u64| rules.layout.made_at(id);
    let is_deeper = request.below.is_none_or(|below| lower.iter().any(|id| made_at(*id) < made_at(below)));
    let is_empty_end = more == NextPage::No && lower.is_empty();
    let odd = match count_untrusted_pages(&next, request, ids, newest.filter(|_| lower.is_empty()), &more) {
        // The API's cursor leads in a circle, so the next request uses ids.
        Err(RequestIgnored::Circle) if next.open.as_ref().is_some_and(|round| round.odd < MAX_UNTRUSTED_PAGES) => {
            if let Some(round) = position.as_mut().and_then(|position| position.open.as_mut()) {
                (round.cursor, round.odd) = (None, round.odd + 1);
            }
            return Ok(PageResult::default());
        }
        Ok(_) if is_deeper && more != NextPage::No => 0,
        odd => odd?,
    };
    let mut round = next.open.take().unwrap_or_else(|| start_round(&next, rules, newest, reading));
    round.odd = odd;
    next.latest = next.latest.max(newest);
    let mut taken = collect_page(&mut next, &mut round, rules, request, ids, lower.iter().min().copied());

    let met = ids.iter().min().is_some_and(|least| *least <= next.since) && !is_first;
    let goes_on = match more {
        NextPage::Cursor(cursor) => {
            round.cursor = Some(cursor);
            true
        }
        NextPage::Unstated if !lower.is_empty() => {
            round.cursor = None;
            true
        }
        said => {
            !met && !is_first && needs_another_page(&next, rules, &mut round, request, &said, lower.is_empty(), reading)
        }
    };
    if goes_on && !met && !is_first {
        next.open = Some(round);
        *position = Some(next);
        return Ok(taken);
    }
    let is_missed =
        is_empty_end && lacks_known_post(&next, rules, &round) && depth_gap(&next, rules, &round, reading).is_none();
    if is_missed && !is_confirmed(&mut next, reading) {
        // The poll is over, but its round is not.
        taken.finished_round = Some(FinishedRound { fresh: 0, elapsed: None });
        round.odd = 0;
        next.open = Some(round);
        *position = Some(next);
        return Ok(taken);
    }
    if round.below.is_none() {
        match confirm_empty_round(&mut next, rules, request, reading) {
            Some(true) => {}
            // Nothing shows that any post was read.
            None => round.next_since = next.since,
            Some(false) => {
                taken.finished_round = Some(FinishedRound { fresh: 0, elapsed: None });
                *position = Some(next);
                return Ok(taken);
            }
        }
    }
    if !met && !is_first {
        taken.gaps.extend(window_gap(&next, rules, request));
        taken.gaps.extend(
            depth_gap(&next, rules, &round, reading).or_else(|| hidden_gap(&next, rules, &round, request, is_missed)),
        );
    }
    taken.finished_round = Some(finish_round(&mut next, round, met));
    *position = Some(next);
    Ok(taken)
}

/// `least`: least id of the page below the requested bound.
fn collect_page(
    position: &mut Position,
    round: &mut OpenRound,
    rules: &Rules,
    request: &TimelineRequest,
    ids: &[u64],
    least: Option<u64>,
) -> PageResult {
    // All posts: one from below `since` is later than its network promised, but it is here.
    let mut hand_over: Vec<u64> = ids.iter().copied().filter(|id| Some(*id) != position.anchor).collect();
    hand_over.sort_unstable_by(|a, b| b.cmp(a));
    hand_over.dedup();
    let mut taken = PageResult { hand_over, ..PageResult::default() };
    let is_fresh = |id: &&u64| round.known.is_none_or(|known| **id > known);
    round.fresh += taken.hand_over.iter().filter(is_fresh).count() as u64;
    if round.next_anchor.is_none() {
        (round.next_anchor, round.next_fallback_anchor) = anchors_of(ids, round.next_since);
    }
    if least.is_some() {
        // The part between the empty page and this one.
        if let (Some(hole), Some(below)) = (round.hole.take(), request.below) {
            taken.gaps.push(Gap { from: below, to: hole.top.saturating_sub(1), reason: GapReason::Hidden });
            round.passed += u64::from(rules.count);
        }
        round.passed += u64::from(rules.count);
        round.below = least;
        position.doubted_since = None;
    }
    taken
}

/// Counts this page, too. `repeated`: newest post of a page without lower ids than requested.
fn count_untrusted_pages(
    position: &Position,
    request: &TimelineRequest,
    ids: &[u64],
    repeated: Option<u64>,
    more: &NextPage,
) -> Result<u32, RequestIgnored> {
    let is_full = ids.len() * 2 >= request.count as usize;
    let before = position.open.as_ref().map_or(0, |round| round.odd);
    match (repeated, request.below, more) {
        (_, _, NextPage::Cursor(cursor)) if Some(cursor) == request.cursor.as_ref() => Err(RequestIgnored::Circle),
        (Some(_), Some(_), NextPage::Cursor(_)) if before >= MAX_UNTRUSTED_PAGES => Err(RequestIgnored::Circle),
        (Some(_), Some(_), NextPage::Cursor(_)) => Ok(before + 1),
        // A few posts from the seam count as an empty page; a page of the newest ones was not requested.
        (Some(newest), Some(below), NextPage::Unstated)
            if is_full && position.latest.is_none_or(|latest| newest >= latest) =>
        {
            Err(RequestIgnored::Below(below))
        }
        _ => Ok(before),
    }
}

/// Called after a seemingly last page in the middle of a round. Returns true if another page, set in `round`, must be requested.
fn needs_another_page(
    position: &Position,
    rules: &Rules,
    round: &mut OpenRound,
    request: &TimelineRequest,
    more: &NextPage,
    is_empty: bool,
    reading: &Reading,
) -> bool {
    let Some(top) = round.below.filter(|_| is_empty) else { return false };
    if depth_gap(position, rules, round, reading).is_some() {
        return false;
    }
    if *more == NextPage::No {
        // By the same cursor: not every API with cursors can be asked by ids.
        round.odd += 1;
        // Once that is doubted, one page per poll is enough.
        return round.odd <= MAX_UNTRUSTED_PAGES && position.doubted_since.is_none();
    }
    round.cursor = None;
    let reaches = request.since.unwrap_or(0) <= position.since;
    if rules.anchored && reaches && !round.probing && position.fallback_anchor.is_some() {
        round.probing = true;
        return true;
    }
    let floor = settled_floor(position, rules).max(request.since.filter(|_| !reaches).unwrap_or(0));
    let depth = top.saturating_sub(floor);
    let step = match round.hole {
        Some(hole) => hole.step.saturating_mul(2),
        // As far as a page reached on average, but not too many pages in all.
        None => {
            let read = position.latest.map_or(0, |latest| latest.saturating_sub(top));
            let pages = (round.passed / u64::from(rules.count.max(1))).max(1);
            (read / pages).max(depth / MAX_STEPS).max(1)
        }
    };
    // The last step ends just above the floor: few posts may be left there, below many deleted ones.
    let last = depth.saturating_sub((depth / MAX_STEPS).max(1)).max(1);
    let step = if round.hole.is_none_or(|hole| hole.step < last) { step.min(last) } else { depth };
    round.hole = Some(EmptyRange { top, step });
    step < depth
}

/// Approximate maximum of pages, of the first step's width, that cross a hole.
const MAX_STEPS: u64 = 64;

/// Returns true if a round without posts is accepted although a known post should be there. `None`: no known post should be there.
fn confirm_empty_round(
    position: &mut Position,
    rules: &Rules,
    request: &TimelineRequest,
    reading: &Reading,
) -> Option<bool> {
    let witness = if rules.anchored { position.anchor } else { position.latest };
    witness.filter(|known| *known > request.since.unwrap_or(0))?;
    Some(is_confirmed(position, reading))
}

fn is_confirmed(position: &mut Position, reading: &Reading) -> bool {
    let since = position.doubted_since.map_or(reading.about(), |since| since.min(reading.about()));
    position.doubted_since = Some(since);
    reading.about().saturating_sub(since) >= CONFIRMED_AFTER
}

/// Returns true if the round has not reached the newest post that was known at its start, so that post should be on a next page.
fn lacks_known_post(position: &Position, rules: &Rules, round: &OpenRound) -> bool {
    let known = position.anchor.filter(|_| rules.anchored).or(round.known);
    round.below.zip(known).is_some_and(|(below, known)| known < below)
}

fn finish_round(position: &mut Position, round: OpenRound, met: bool) -> FinishedRound {
    let elapsed = position.swept_at.map(|then| round.began_at.saturating_sub(then));
    // An anchor that was not met may be deleted: it would cost an empty page per round.
    position.anchor = round.next_anchor.or(position.anchor.filter(|_| met));
    position.fallback_anchor =
        round.next_fallback_anchor.or(position.fallback_anchor.filter(|_| met || !round.probing));
    position.since = round.next_since;
    position.doubted_since = None;
    position.swept_at = Some(round.began_at);
    FinishedRound { fresh: round.fresh, elapsed }
}

/// The first page of a round determines the part that it completes: later posts appear after that page was read.
fn start_round(position: &Position, rules: &Rules, newest: Option<u64>, reading: &Reading) -> OpenRound {
    let asked_at = reading.asked_at();
    // In an empty timeline, no post is below the next ones.
    let next_since = position
        .latest
        .max(newest)
        .map_or(0, |latest| rules.layout.since(latest, asked_at, rules.k))
        .max(position.since);
    OpenRound {
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
const ANCHOR_RANGE_POSTS: usize = 8;

/// Returns the greatest id up to `since`, and one a few posts below it.
fn anchors_of(ids: &[u64], since: u64) -> (Option<u64>, Option<u64>) {
    let mut known: Vec<u64> = ids.iter().copied().filter(|id| *id <= since).collect();
    known.sort_unstable_by(|a, b| b.cmp(a));
    known.truncate(ANCHOR_RANGE_POSTS);
    let fallback_anchor = known.last().copied().filter(|_| known.len() > 1);
    (known.first().copied(), fallback_anchor)
}

/// Gap of the posts that an empty page may hide, if even the fallback anchor is gone or a known post is missing (`is_missed`). `None` if
/// the new posts fill no page: an API fills a page before it leaves out deleted posts.
fn hidden_gap(
    position: &Position,
    rules: &Rules,
    round: &OpenRound,
    request: &TimelineRequest,
    is_missed: bool,
) -> Option<Gap> {
    let (from, to) = (position.since.saturating_add(1), round.below?.saturating_sub(1));
    let asked_for = |known: u64| known > request.since.unwrap_or(0);
    let is_gone = is_missed || round.probing || round.hole.is_some() && position.anchor.is_some_and(asked_for);
    (is_gone && fills_a_page(round, rules) && from <= to).then_some(Gap { from, to, reason: GapReason::Hidden })
}

fn fills_a_page(round: &OpenRound, rules: &Rules) -> bool {
    round.fresh >= u64::from(rules.count)
}

/// Id below which nothing is open: posts there are handed over, in a gap, or existed at the last whole round.
fn settled_floor(position: &Position, rules: &Rules) -> u64 {
    let swept = rules.layout.first_at(position.swept_at.unwrap_or(0).saturating_sub(rules.k));
    position.since.max(swept.saturating_sub(1))
}

/// Gap of the posts that grew too old since the last whole round. A silent source misses nothing: its last round had all.
fn window_gap(position: &Position, rules: &Rules, request: &TimelineRequest) -> Option<Gap> {
    let window = rules.window?;
    let (from, to) = (settled_floor(position, rules).saturating_add(1), request.since?);
    (from <= to).then_some(Gap { from, to, reason: GapReason::Window(window) })
}

/// Gap of the posts that lie deeper than the API gives. Posts since the start of the round have raised the limit, too.
fn depth_gap(position: &Position, rules: &Rules, round: &OpenRound, reading: &Reading) -> Option<Gap> {
    let (depth, below) = (rules.depth?, round.below?);
    let elapsed = reading.about().saturating_sub(round.began_at).max(0);
    // Twice the rate of the posts that were read, since posts come in bursts.
    let came = 2.0 * elapsed as f64 * posts_per_ms(position, rules, round, below);
    let (from, to) = (position.since.saturating_add(1), below.saturating_sub(1));
    let may_have_met = round.passed as f64 + came >= depth as f64;
    (may_have_met && from <= to).then_some(Gap { from, to, reason: GapReason::Depth(depth) })
}

fn posts_per_ms(position: &Position, rules: &Rules, round: &OpenRound, below: u64) -> f64 {
    let made_at = |id: u64| rules.layout.made_at(id);
    let per_ms =
        |posts: u64, from: Millis, to: Millis, least: Millis| posts as f64 / to.saturating_sub(from).max(least) as f64;
    if fills_a_page(round, rules) {
        return per_ms(round.passed, made_at(below), made_at(position.latest.unwrap_or(below)), 1);
    }
    // The times of a few posts give no rate: a thread of five is written in a moment. They are all posts since the last round, so the
    // time since then counts.
    per_ms(round.fresh, made_at(settled_floor(position, rules)), round.began_at, WINDOW_MARGIN)
}
