//! The crawl of a list in the store: opened, continued page by page, ended.

use super::handler::{CrawlBounds, ListWork, RECENT_CRAWLS};
use engine::base::clock::Millis;
use engine::base::failpoint;
use engine::queue::{Batch, Job};
use engine::worker::Outlook;
use networks::model::relation::{ListKind, PartialReason};
use networks::providers::relations::{Member, Members};
use store::{
    ClosingLimit, CrawlEnd, CrawlKind, CrawlRecord, CrawlUnderWay, EdgePage, End, ListedMember, NewCrawl, NewItem,
    Next, StoreError, StoredAccount, Way,
};

/// Stale crawls in a row after which a list waits for its next visit. Each earlier one is restarted at once.
const MAX_STALE_CRAWLS: u32 = 3;
/// Members that a crawl may always miss: a few are a large share of a short list.
const MISSES_ALWAYS_ALLOWED: u64 = 20;

impl ListWork {
    /// Returns the crawl in progress, or a new one with the owner's profile; `None` if the store blocks the owner.
    pub(super) async fn open_crawl(
        &self,
        owner: &str,
        now: Millis,
    ) -> Result<Option<(CrawlUnderWay, Option<StoredAccount>)>, StoreError> {
        let list = &self.items.namespace;
        if let Some(crawl) = self.edges.crawl(list, owner).await? {
            return Ok(Some((crawl, None)));
        }
        let crawls = self.edges.crawls(list, owner, RECENT_CRAWLS).await?;
        let CrawlBounds { known_tail, complete_every, .. } = self.bounds;
        let is_recent = |crawl: &CrawlRecord| now.saturating_sub(crawl.started_at) < complete_every;
        let kind = match crawls.iter().find(|crawl| crawl.ended.as_deref() == Some("complete")) {
            Some(whole) if is_recent(whole) && known_tail > 0 => CrawlKind::Prefix { known_tail },
            _ => CrawlKind::Complete,
        };
        let profile = self.owner_profile(owner).await?;
        let stated_total = profile.as_ref().and_then(|profile| match self.side {
            ListKind::Followers => profile.counts.followers,
            ListKind::Friends => profile.counts.following,
        });
        let new = NewCrawl { kind, at: now, stated_total };
        let mut crawl = self.edges.begin_crawl(list, owner, &new).await?;
        if crawl.is_none() {
            // The queue has a list that the store does not know. The store records it, unless its owner asked to be forgotten.
            let row =
                NewItem { id: owner.to_owned(), created_at: None, next_due: Some(now), content: None, read_at: None };
            self.items.store.record(list, now, &Way::new("queue"), &[row]).await?;
            crawl = self.edges.begin_crawl(list, owner, &new).await?;
        }
        Ok(crawl.map(|crawl| (crawl, profile)))
    }

    /// End of a crawl that a process reached but did not settle, because it died. A new crawl would cost all its calls again.
    pub(super) async fn unsettled_end(&self, job: &Job) -> Result<Option<CrawlEnd>, Outlook> {
        let crawls = self.crawls(&job.id, 1).await?;
        let last = crawls.first().filter(|last| last.ended_at.is_some_and(|at| at >= job.due));
        let end = last.and_then(|last| last.ended.as_deref()).and_then(CrawlEnd::from_word);
        // After an aborted or stale crawl, the list is requested again at once.
        Ok(end.filter(|end| !matches!(end, CrawlEnd::Aborted | CrawlEnd::Stale)))
    }

    /// Saves a page: its members for other pipelines, then its edges with the next cursor. Returns the end of the crawl, if it ended.
    pub(super) async fn save_page(
        &self,
        owner: &str,
        (crawl, profile): (&CrawlUnderWay, Option<StoredAccount>),
        page: Members,
        (asked_at, answered_at): (Millis, Millis),
    ) -> Result<Option<CrawlEnd>, Outlook> {
        let list = &self.items.namespace;
        if let Some(why) = &page.unreadable.first {
            let count = page.unreadable.count;
            tracing::warn!(list, owner, count, why, "ids of a page cannot be read: the crawl is not complete");
        }
        let partial = match (page.partial, &page.next) {
            // The handle shows if the owner is on another server.
            (None, None) if self.relations.is_partial_by_handle() => {
                let profile = match profile {
                    Some(profile) => Some(profile),
                    None => self.items.run_with_timeout(self.owner_profile(owner)).await?,
                };
                profile.and_then(|profile| self.relations.partial_reason(&profile.handle?))
            }
            (partial, _) => partial,
        };
        let before = crawl.found.unsigned_abs();
        let changes =
            self.items.run_with_timeout(self.member_collector.record(owner, before, &page, answered_at)).await?;
        let found = before + page.members.len() as u64;
        let unreadable = i64::try_from(page.unreadable.count).unwrap_or(i64::MAX);
        let next = match page.next {
            _ if self.bounds.longest > 0 && found >= self.bounds.longest && page.next.is_some() => {
                Next::End(End::Capped)
            }
            Some(cursor) => Next::Page(cursor),
            // Empty or hidden: unknown. An owner that hides a list may hide its number as well, and the network then states 0.
            None if partial == Some(PartialReason::Hidden) => Next::End(End::Hidden),
            // An unreadable id on any page may be a known member that was never missing.
            None if partial.is_some() || crawl.unreadable > 0 || unreadable > 0 => Next::End(End::Partial),
            None => Next::End(End::Complete(ClosingLimit { share: self.bounds.shrink, least: MISSES_ALWAYS_ALLOWED })),
        };
        let member = |Member { id, followed_at }| ListedMember { id, followed_at };
        let page = EdgePage {
            crawl: crawl.number,
            cursor: crawl.cursor.clone(),
            members: page.members.into_iter().map(member).collect(),
            unreadable,
            next,
            asked_at,
            answered_at,
        };
        failpoint::point("before_commit");
        let saved = self.items.run_with_timeout(self.edges.save_edges(list, owner, &page)).await?;
        failpoint::point("after_commit");
        self.member_collector.apply_changes(&changes).await;
        // A late page: the worker that saved this page continues.
        let Some(saved) = saved else { return Ok(None) };
        self.counters.list_pages.add(1);
        self.counters.edges_appeared.add(saved.new as usize);
        let Some(ended) = saved.ended else { return Ok(None) };
        self.counters.edges_vanished.add(ended.vanished as usize);
        self.counters.lists_complete.add(usize::from(ended.end == CrawlEnd::Complete));
        self.counters.lists_withheld.add(usize::from(ended.end == CrawlEnd::Withheld));
        match ended.end {
            CrawlEnd::Withheld => tracing::warn!(
                list,
                owner,
                missing = ended.withheld,
                "more members are missing than relations.shrink allows: they stay until the next complete crawl confirms it"
            ),
            CrawlEnd::Looped => {
                tracing::warn!(list, owner, "pages bring no new members, or a cursor repeats: the crawl ends early")
            }
            _ => {}
        }
        Ok(Some(ended.end))
    }

    /// Ends a crawl without another page: the owner is absent, the API refuses the list, or the cursor is stale.
    pub(super) async fn end_crawl(
        &self,
        owner: &str,
        crawl: &CrawlUnderWay,
        batch: &Batch,
        end: End,
    ) -> Result<(), Outlook> {
        let place = (crawl.number, crawl.cursor.as_deref());
        let ending = self.edges.end_crawl(&self.items.namespace, owner, place, batch.now.now(), end);
        self.items.run_with_timeout(ending).await.map(drop)
    }

    /// Returns true unless the last [`MAX_STALE_CRAWLS`] crawls all ended with a stale cursor: then this list is at fault, since a
    /// cursor grows stale without requests.
    pub(super) async fn may_restart(&self, owner: &str) -> Result<bool, Outlook> {
        let list = &self.items.namespace;
        let crawls = self.crawls(owner, MAX_STALE_CRAWLS).await?;
        let is_stale = |crawl: &CrawlRecord| crawl.ended.as_deref() == Some("stale");
        if crawls.len() == MAX_STALE_CRAWLS as usize && crawls.iter().all(is_stale) {
            tracing::warn!(
                list,
                owner,
                "several crawls in a row ended with a stale cursor: the list waits for its next visit"
            );
            return Ok(false);
        }
        tracing::info!(
            list,
            owner,
            "the API no longer accepts the cursor of a list: the list is read again from its first page"
        );
        self.counters.lists_restarted.add(1);
        Ok(true)
    }

    async fn owner_profile(&self, owner: &str) -> Result<Option<StoredAccount>, StoreError> {
        self.items.store.account(&self.member_collector.accounts, owner).await
    }

    pub(super) async fn crawls(&self, owner: &str, limit: u32) -> Result<Vec<CrawlRecord>, Outlook> {
        self.items.run_with_timeout(self.edges.crawls(&self.items.namespace, owner, limit)).await
    }
}
