//! A timeline whose posts appear out of order, and pollers of it. All in simulated time, ms.

use std::collections::{HashMap, HashSet};

use twitter_updater::base::clock::Millis;
use twitter_updater::pipelines::timelines::paging::{PageResult, Position, apply_page, next_request};
use twitter_updater::providers::since::{IdLayout, Reading};
use twitter_updater::providers::timeline::{NextPage, Rules, TimelineRequest};

pub const T: Millis = 1_795_000_000_000;
pub const DAY: Millis = 86_400_000;

/// Numbers from a seed (SplitMix64): the same table at every run.
pub struct Lots(u64);

impl Lots {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % bound.max(1)
    }
}

#[derive(Debug, Clone, Copy)]
pub struct Post {
    pub id: u64,
    pub visible_at: Millis,
    pub deleted_at: Millis,
}

/// Posts by id, and the API over them.
pub struct Timeline {
    pub posts: Vec<Post>,
    pub layout: IdLayout,
    /// How late any of them appears, at the most.
    pub k: Millis,
    /// The API gives only so many of the newest, and only those younger than that.
    pub depth: usize,
    pub window: Millis,
    /// Posts in a page.
    pub count: u32,
    /// Whether it says which page is the last.
    pub says_last: bool,
    /// It shows nothing younger than this.
    pub behind: Millis,
    /// Whoever asks the same within this gets the same answer, with a `Date` of its own.
    pub kept_for: Millis,
    kept: HashMap<(Option<u64>, Option<u64>), Millis>,
    /// One token in so many is refused; 0: none.
    pub refuses: u64,
    tokens: u64,
    /// Posts from the end of the page before that stand on a page again.
    pub repeats: usize,
    /// One answer in so many is empty, whatever there is; 0: none.
    pub blanks: u64,
    pub calls: u64,
    pub fetched: u64,
}

impl Timeline {
    /// Posts made at these moments, each visible up to k later.
    pub fn new(layout: IdLayout, k: Millis, made: impl IntoIterator<Item = Millis>, lots: &mut Lots) -> Self {
        let mut used = HashSet::new();
        let mut posts: Vec<Post> = made
            .into_iter()
            .map(|made| {
                let id = loop {
                    let id = layout.first_at(made) + lots.below(1 << 12);
                    if used.insert(id) {
                        break id;
                    }
                };
                let late = lots.below(u64::try_from(k).unwrap() + 1);
                Post { id, visible_at: made + Millis::try_from(late).unwrap(), deleted_at: Millis::MAX }
            })
            .collect();
        posts.sort_by_key(|post| post.id);
        Self {
            posts,
            layout,
            k,
            depth: usize::MAX,
            window: Millis::MAX / 4,
            count: 200,
            says_last: false,
            behind: 0,
            kept_for: 0,
            kept: HashMap::new(),
            refuses: 0,
            tokens: 0,
            repeats: 0,
            blanks: 0,
            calls: 0,
            fetched: 0,
        }
    }

    pub fn end(&self) -> Millis {
        self.posts.iter().map(|post| post.visible_at).max().unwrap() + self.behind
    }

    /// The newest that are visible at that moment, above and below; the deleted are left out afterwards.
    pub fn page(&mut self, ask: &TimelineRequest, at: Millis) -> (Vec<u64>, NextPage) {
        self.calls += 1;
        if ask.cursor.is_some() && self.refuses > 0 {
            self.tokens += 1;
            if self.tokens.is_multiple_of(self.refuses) {
                return (Vec::new(), NextPage::CursorExpired);
            }
        }
        if self.blanks > 0 && Lots::new(self.calls).below(self.blanks) == 0 {
            return (Vec::new(), if self.says_last { NextPage::No } else { NextPage::Unstated });
        }
        let at = self.seen_at(ask, at);
        // A token leads behind the posts that were looked at, whether they are shown or not.
        let below = ask.cursor.as_ref().map(|token| token.parse().unwrap()).or(ask.below);
        let top = self.posts.partition_point(|post| post.id < self.layout.first_at(at + 1));
        let oldest = self.layout.first_at(at - self.window);
        let since = ask.since.unwrap_or(0);
        let mut passed = 0;
        let mut raw = Vec::new();
        let mut more = false;
        for post in self.posts[..top].iter().rev() {
            if post.id < oldest || post.id <= since || passed == self.depth {
                break;
            }
            if post.visible_at > at {
                continue;
            }
            passed += 1;
            if below.is_some_and(|below| post.id >= below) {
                continue;
            }
            if raw.len() == ask.count as usize {
                more = true;
                break;
            }
            raw.push(post);
        }
        let is_seen = |post: &&&Post| post.visible_at <= at && post.deleted_at > at;
        let seam = below.map_or(top, |below| self.posts.partition_point(|post| post.id < below)).min(top);
        let repeated = self.posts[seam..top].iter().take(self.repeats).collect::<Vec<_>>();
        let ids: Vec<u64> = repeated.iter().chain(&raw).filter(is_seen).map(|post| post.id).collect();
        self.fetched += ids.len() as u64;
        let more = match (self.says_last, more, raw.last()) {
            (true, true, Some(last)) => NextPage::Cursor(last.id.to_string()),
            (true, _, _) => NextPage::No,
            (false, _, _) => NextPage::Unstated,
        };
        (ids, more)
    }

    /// The moment that an answer shows.
    fn seen_at(&mut self, ask: &TimelineRequest, at: Millis) -> Millis {
        if self.kept_for == 0 {
            return at - self.behind;
        }
        let kept = self.kept.entry((ask.since, ask.below)).or_insert(at);
        if *kept + self.kept_for <= at {
            *kept = at;
        }
        *kept
    }
}

pub fn rules(timeline: &Timeline) -> Rules {
    Rules {
        endpoint: "timelines",
        layout: timeline.layout,
        k: timeline.k,
        count: timeline.count,
        anchored: !timeline.says_last,
        depth: (timeline.depth != usize::MAX).then_some(timeline.depth as u64),
        window: (timeline.window < DAY * 1_000).then_some(timeline.window),
        behind: std::time::Duration::ZERO,
    }
}

/// A reading that took 40 ms each way, at a clock that is so far ahead.
pub fn reading(sent: Millis, ahead: Millis, has_date: bool) -> Reading {
    let date = (sent + 41) / 1_000 * 1_000;
    Reading { sent_at: sent + ahead, took: 80, date: has_date.then_some(date) }
}

/// The same of a timeline that is behind, or whose answers may come out of a cache.
pub fn reading_of(timeline: &Timeline, sent: Millis, ahead: Millis, has_date: bool) -> Reading {
    let Reading { sent_at, took, date } = reading(sent, ahead, has_date && timeline.kept_for == 0);
    Reading { sent_at: sent_at - timeline.behind, took, date: date.map(|date| date - timeline.behind) }
}

/// One page of ours at that moment: what is to be handed over, and the position to be saved after that.
pub fn page(
    timeline: &mut Timeline,
    position: &Option<Position>,
    rules: &Rules,
    sent: Millis,
    reading: &Reading,
) -> (PageResult, Option<Position>) {
    let asked = next_request(position.as_ref(), rules, reading.about());
    let (ids, more) = timeline.page(&asked, sent + 40);
    let mut next = position.clone();
    let taken = apply_page(&mut next, rules, &asked, &ids, more, reading).unwrap();
    (taken, next)
}
