//! The view that people have of a kind of items: on the page, in reports, plans and exports.

use std::sync::Arc;

use serde::Serialize;

use crate::config::Settings;
use engine::base::clock::Millis;
use networks::model::pipeline_id::PipelineId;
use store::export::Table;

pub trait Presentation {
    fn words(&self) -> ItemWords {
        ItemWords::ITEMS
    }

    /// Tables of its stored items for `export`, beside those of [all items](store::export::ITEMS).
    fn tables(&self) -> &'static [Table] {
        &[]
    }

    fn list_terms(&self, _pipeline: &PipelineId, _settings: &Settings) -> Option<ListTerms> {
        None
    }

    /// Minimum score of a community's member.
    fn member_threshold(&self, _pipeline: &PipelineId, _settings: &Settings) -> Option<f64> {
        None
    }

    /// Counts over time, to train the adaptive schedule; `None`: it keeps none.
    fn histories(&self, _settings: &Settings) -> Option<Histories> {
        None
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ItemContent {
    Posts,
    Accounts,
    Media,
    Lists,
    Timelines,
    CommunityAccounts,
    #[default]
    Other,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ItemWords {
    /// Content of the items, by which the page chooses its sections.
    pub content: ItemContent,
    pub one: &'static str,
    pub many: &'static str,
    /// Settings of the lookup interval: `tweet_age`.
    pub intervals: &'static str,
}

impl ItemWords {
    pub const POSTS: Self = Self::new(ItemContent::Posts, "post", "posts", "tweet_age");
    pub const ACCOUNTS: Self =
        Self::new(ItemContent::Accounts, "account", "accounts", "accounts.active, idle and frozen");
    pub const MEDIA: Self = Self::new(ItemContent::Media, "media file", "media files", "media.retry");
    pub const LISTS: Self = Self::new(ItemContent::Lists, "list", "lists", "relations.revisit");
    pub const TIMELINES: Self = Self::new(ItemContent::Timelines, "timeline", "timelines", "visits.every");
    pub const COMMUNITY_ACCOUNTS: Self =
        Self::new(ItemContent::CommunityAccounts, "account", "accounts of a community", "communities.NAME.judge_again");
    pub const ITEMS: Self = Self::new(ItemContent::Other, "item", "items", "the schedule");

    #[must_use]
    pub const fn new(content: ItemContent, one: &'static str, many: &'static str, intervals: &'static str) -> Self {
        Self { content, one, many, intervals }
    }
}

const DAY_MS: f64 = 86_400_000.0;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListPages {
    pub page: u32,
    /// Members after which a list is cut; 0: never.
    pub longest: u64,
}

impl ListPages {
    /// Pages of a list with that number of members: at least one.
    #[must_use]
    pub fn count_for(self, members: u64) -> u64 {
        let read = if self.longest > 0 { members.min(self.longest) } else { members };
        read.div_ceil(u64::from(self.page.max(1))).max(1)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct VisitIntervals {
    pub revisit_ms: Millis,
    /// Interval between visits that read the whole list, ms.
    pub complete_every_ms: Millis,
}

impl VisitIntervals {
    #[must_use]
    pub fn new(revisit: Millis, complete_every: Millis, known_tail: u32) -> Self {
        let revisit_ms = revisit.max(1);
        // Without a known tail every visit reads the whole list.
        let complete_every_ms = if known_tail == 0 { revisit_ms } else { complete_every.max(revisit_ms) };
        Self { revisit_ms, complete_every_ms }
    }

    /// Daily sum per list: `whole` per complete visit, `short` per visit that ends on its first page.
    #[must_use]
    pub fn daily_total(self, whole: f64, short: f64) -> f64 {
        let [complete, visits] = [self.complete_every_ms, self.revisit_ms].map(|every| DAY_MS / every as f64);
        whole * complete + short * (visits - complete).max(0.0)
    }

    #[must_use]
    pub fn average_per_visit(self, whole: f64, short: f64) -> f64 {
        self.daily_total(whole, short) * self.revisit_ms as f64 / DAY_MS
    }

    /// The longest time between two complete reads, ms: the first visit after `complete_every_ms` is complete.
    #[must_use]
    pub fn complete_within_ms(self) -> Millis {
        let visits = (self.complete_every_ms - 1) / self.revisit_ms + 1;
        visits.saturating_mul(self.revisit_ms)
    }
}

/// Lists with the same visit interval.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListTier {
    pub name: Arc<str>,
    pub every: VisitIntervals,
    /// The longest stored time between a visit and the next one in this tier, ms.
    pub up_to_ms: Millis,
    /// True if its visits come before the first reads of new lists.
    pub is_before_new: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListTerms {
    pub pages: ListPages,
    /// Intervals of a list that was never read. Its first read is due within the first one.
    pub new: VisitIntervals,
    /// Tiers of lists that were read, the shortest stored interval first; at most three.
    pub tiers: Vec<ListTier>,
}

#[derive(Debug, Clone)]
pub struct Histories {
    /// Columns: id, date of the item, newest answer, answer, and the counts.
    pub table: &'static Table,
    /// Weights of the counts, in the order of the columns.
    pub weights: Vec<f64>,
}
