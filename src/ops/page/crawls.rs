//! The section about crawls under way, and the newest crawls of an account.

use std::sync::Arc;

use maud::{Markup, html};

use super::format::{date, describe_error, number_or_dash, one_line, relative_time};
use super::layout::problem_notice;
use super::pages::Page;
use super::routes::Routes;
use super::scroll_table::scroll_table;
use crate::ops::report::crawls::Crawls;
use crate::ops::{NoAnswer, Snapshot};
use collect::pipelines::profiles::PROFILES;
use engine::base::clock::Millis;
use engine::base::humanize::group_digits;
use networks::model::pipeline_id::PipelineId;
use networks::model::relation::ListKind;
use store::{CrawlRecord, Edges, StoreError};

const ROWS: usize = 50;
const MAX_CRAWLS: u32 = 10;

pub(super) fn section(snapshot: &Snapshot, routes: &Routes) -> Markup {
    let unread = Crawls { error: Some("they were not read yet".to_owned()), ..Crawls::default() };
    let crawls = snapshot.status.crawls.as_ref().unwrap_or(&unread);
    html! {
        section.panel #crawls aria-labelledby="crawls-name" {
            h2 #crawls-name { "Crawls under way" }
            @match &crawls.error {
                Some(why) => p.lead.bad { "The crawls under way are unknown: " (describe_error(why)) },
                None if crawls.listed.is_empty() => p.lead.none { "No list is being read." },
                None => {
                    p.lead { strong { (crawls.count_text()) } " under way; the time left follows from the quota, if no other crawl starts" }
                    (table(crawls, routes, snapshot.at_ms()))
                    @if crawls.under_way > Some(ROWS as u64) { p.lead { "the oldest " (ROWS) } }
                }
            }
        }
    }
}

fn table(crawls: &Crawls, routes: &Routes, now: Millis) -> Markup {
    let profiles = routes.namespace.as_deref().and_then(|of| of.split_once(':'));
    let profiles = profiles.map_or_else(String::new, |(_, network)| format!("{PROFILES}:{network}"));
    let address = |owner: &str| routes.item_address_in(&profiles, owner).unwrap_or_else(|| routes.item_address(owner));
    html! {
        (scroll_table("crawls-box", "Crawls under way", None, &[
            ("", "Owner"), ("lesser", "Kind"), ("n", "Pages"), ("n", "Expected"), ("n lesser", "Members"),
            ("lesser", "Began"), ("", "Time left")
        ], html! {
            @for crawl in crawls.listed.iter().take(ROWS) {
                tr {
                    th scope="row" { a href=(address(&crawl.owner)) { (one_line(&crawl.owner)) } }
                    td.lesser { (crawl.kind) }
                    td.n { (group_digits(crawl.pages)) }
                    td.n { (crawl.expected_pages_text()) }
                    td.n.lesser { (group_digits(crawl.found)) }
                    td.lesser { (relative_time(crawl.started_at, now, "ago")) }
                    td { (crawl.time_left_text()) }
                }
            }
        }))
    }
}

type ListCrawls = Vec<(ListKind, Vec<CrawlRecord>)>;

/// Newest crawls of an account's lists, followers first; or the error of reading them.
pub(super) struct AccountCrawls(Result<ListCrawls, NoAnswer>);

impl Page {
    /// Reads the newest crawls of this account's lists. In a namespace of lists, it reads the crawls of that list.
    pub(super) async fn load_crawls(&self, owner: &str) -> AccountCrawls {
        let database: Arc<_> = self.database.load();
        let read = match database.as_ref() {
            Ok(database) => self.archive.query(async |_| self.read_crawls(&*database.edges, owner).await).await,
            Err(why) => Err(why.clone()),
        };
        AccountCrawls(read)
    }

    async fn read_crawls(&self, edges: &dyn Edges, owner: &str) -> Result<ListCrawls, StoreError> {
        let own = self.whole.queue.namespace();
        let Some(id) = PipelineId::parse(own) else { return Ok(Vec::new()) };
        let mut all = Vec::new();
        for side in ListKind::ALL {
            let list = PipelineId::items(&id.provider, side.as_str()).to_string();
            if list == own || !self.holds_lists() {
                all.push((side, edges.crawls(&list, owner, MAX_CRAWLS).await?));
            }
        }
        Ok(all)
    }

    pub(super) fn holds_lists(&self) -> bool {
        self.whole.terms.load().lists.is_some()
    }
}

impl AccountCrawls {
    /// Empty if no list of the account was ever read.
    pub(super) fn markup(&self) -> Markup {
        let all = match &self.0 {
            Ok(all) => all,
            Err(why) => {
                return html! { h2 { "Lists" } (problem_notice(&format!("Their crawls are unknown: {}", describe_error(why)))) };
            }
        };
        html! {
            @for (side, crawls) in all.iter().filter(|(_, crawls)| !crawls.is_empty()) {
                h2 { @match side { ListKind::Followers => "Followers: crawls", ListKind::Friends => "Friends: crawls" } }
                div.scroll tabindex="0" role="region" aria-label=(format!("Crawls of the {side}")) {
                    table id=(format!("crawls-{side}")) aria-label=(format!("Crawls of the {side}")) {
                        thead {
                            tr {
                                th scope="col" { "Began" }
                                th scope="col" { "Ended" }
                                th scope="col" { "Result" }
                                th.n scope="col" { "Pages" }
                                th.n scope="col" { "Found" }
                                th.n scope="col" { "Profile says" }
                                th.n.lesser scope="col" { "New" }
                                th.n.lesser scope="col" { "Gone" }
                            }
                        }
                        tbody { @for crawl in crawls { (row(crawl)) } }
                    }
                }
            }
        }
    }
}

fn row(crawl: &CrawlRecord) -> Markup {
    html! {
        tr {
            td { (date(crawl.started_at)) }
            td { @match crawl.ended_at { Some(at) => (date(at)), None => "–" } }
            td { (describe_end(crawl)) }
            td.n { (number_or_dash(crawl.pages)) }
            td.n { (number_or_dash(crawl.found)) }
            td.n { @match crawl.stated_total { Some(stated) => (number_or_dash(stated)), None => "unknown" } }
            td.n.lesser { (number_or_dash(crawl.appeared)) }
            td.n.lesser { (number_or_dash(crawl.vanished)) }
        }
    }
}

fn describe_end(crawl: &CrawlRecord) -> String {
    let why = match crawl.ended.as_deref() {
        None => return format!("under way ({})", crawl.kind),
        Some("complete") => return "complete".to_owned(),
        Some("withheld") => {
            return format!("complete, but {} missing members are too many to remove", number_or_dash(crawl.withheld));
        }
        Some("known_tail") => return "the newest members, up to the known ones".to_owned(),
        Some("capped") => "longer than relations.longest",
        Some("hidden") => "hidden, or empty",
        Some("partial") => "the network shows a part of the list",
        Some("stale") => "the network rejected the cursor",
        Some("looped") => "the cursors repeated",
        Some("aborted") => "the owner was unavailable",
        Some(other) => other,
    };
    format!("not complete: {}", one_line(why))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crawl_shows_its_end_and_the_stated_and_found_members() {
        let crawl = CrawlRecord {
            number: 7,
            kind: "complete".to_owned(),
            started_at: 1_700_000_000_000,
            ended_at: Some(1_700_000_060_000),
            ended: Some("capped".to_owned()),
            pages: 3,
            found: 15_000,
            stated_total: Some(26_378),
            appeared: 12,
            vanished: 0,
            withheld: 0,
        };
        let under_way = CrawlRecord { ended: None, ended_at: None, stated_total: None, ..crawl.clone() };
        let page =
            AccountCrawls(Ok(vec![(ListKind::Followers, vec![under_way, crawl]), (ListKind::Friends, Vec::new())]));
        let html = page.markup().into_string();
        for says in [
            "under way (complete)",
            "not complete: longer than relations.longest",
            "2023-11-14 22:14:20 UTC",
            ">15,000<",
            ">26,378<",
            ">unknown<",
        ] {
            assert!(html.contains(says), "{says}: {html}");
        }
        assert!(!html.contains("Friends"), "{html}");
        let out = AccountCrawls(Err(NoAnswer::Failed("no <route>".to_owned()))).markup().into_string();
        assert!(out.contains("unknown: no &lt;route&gt;"), "{out}");
    }
}
