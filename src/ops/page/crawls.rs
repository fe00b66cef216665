//! Crawls of lists: those under way with the time to their end, and the newest ones of an account.

use std::sync::Arc;

use maud::{Markup, html};

use super::layout::problem;
use super::pages::Page;
use super::routes::Routes;
use super::words::{date, error, one_line, relative, stored};
use crate::base::clock::Millis;
use crate::base::humanize::grouped;
use crate::model::pipeline_id::PipelineId;
use crate::model::relation::Side;
use crate::ops::Snapshot;
use crate::ops::report::crawls::Crawls;
use crate::pipelines::profiles::PROFILES;
use crate::store::{CrawlRecord, Edges};

const ROWS: usize = 50;
const NEWEST: u32 = 10;

pub(super) fn section(snapshot: &Snapshot, routes: &Routes) -> Markup {
    let unread = Crawls { error: Some("they were not read yet".to_owned()), ..Crawls::default() };
    let crawls = snapshot.status.crawls.as_ref().unwrap_or(&unread);
    html! {
        section.panel #crawls aria-labelledby="crawls-name" {
            h2 #crawls-name { "Crawls under way" }
            @match &crawls.error {
                Some(why) => p.lead.bad { "The crawls under way are unknown: " (error(why)) },
                None if crawls.listed.is_empty() => p.lead.none { "No list is being read." },
                None => {
                    p.lead { strong { (crawls.count()) } " under way; the times are those of the quota, if no other crawl begins" }
                    (table(crawls, routes, snapshot.at_ms()))
                    @if crawls.under_way > Some(ROWS as u64) { p.lead { "the " (ROWS) " that began first" } }
                }
            }
        }
    }
}

fn table(crawls: &Crawls, routes: &Routes, now: Millis) -> Markup {
    let profiles = routes.namespace.as_deref().and_then(|of| of.split_once(':'));
    let profiles = profiles.map_or_else(String::new, |(_, network)| format!("{PROFILES}:{network}"));
    let address = |owner: &str| routes.to_item_of(&profiles, owner).unwrap_or_else(|| routes.to_item(owner));
    html! {
        div.scroll #crawls-box tabindex="0" role="region" aria-label="Crawls under way" {
            table aria-label="Crawls under way" {
                thead {
                    tr {
                        th scope="col" { "Owner" }
                        th.lesser scope="col" { "Kind" }
                        th.n scope="col" { "Pages" }
                        th.n scope="col" { "Expected" }
                        th.n.lesser scope="col" { "Members" }
                        th.lesser scope="col" { "Began" }
                        th scope="col" { "Time left" }
                    }
                }
                tbody {
                    @for crawl in crawls.listed.iter().take(ROWS) {
                        tr {
                            th scope="row" { a href=(address(&crawl.owner)) { (one_line(&crawl.owner)) } }
                            td.lesser { (crawl.kind) }
                            td.n { (grouped(crawl.pages)) }
                            td.n { (crawl.expected()) }
                            td.n.lesser { (grouped(crawl.found)) }
                            td.lesser { (relative(crawl.started_at, now, "ago")) }
                            td { (crawl.left()) }
                        }
                    }
                }
            }
        }
    }
}

/// The newest crawls of an account's lists, followers first; or the reason why they are unknown.
pub(super) struct OfAccount(Result<Vec<(Side, Vec<CrawlRecord>)>, String>);

impl Page {
    /// Reads the newest crawls of the account with this id. In a namespace of lists, it reads the crawls of this list.
    pub(super) async fn crawls_of(&self, owner: &str) -> OfAccount {
        let database: Arc<_> = self.database.load();
        let read = match database.as_ref() {
            Ok(database) => self.archive.ask(async |_| self.read_crawls(&*database.edges, owner).await).await,
            Err(why) => Err(why.clone()),
        };
        OfAccount(read)
    }

    async fn read_crawls(&self, edges: &dyn Edges, owner: &str) -> Result<Vec<(Side, Vec<CrawlRecord>)>, String> {
        let own = self.whole.queue.namespace();
        let Some(id) = PipelineId::read(own) else { return Ok(Vec::new()) };
        let mut all = Vec::new();
        for side in Side::ALL {
            let list = PipelineId::items(&id.provider, side.as_str()).to_string();
            if list == own || !self.holds_lists() {
                let crawls = edges.crawls(&list, owner, NEWEST).await.map_err(|error| error.to_string())?;
                all.push((side, crawls));
            }
        }
        Ok(all)
    }

    pub(super) fn holds_lists(&self) -> bool {
        self.whole.terms.load().lists.is_some()
    }
}

impl OfAccount {
    /// Empty if no list of the account was ever read.
    pub(super) fn markup(&self) -> Markup {
        let all = match &self.0 {
            Ok(all) => all,
            Err(why) => return html! { h2 { "Lists" } (problem(&format!("Their crawls are unknown: {}", error(why)))) },
        };
        html! {
            @for (side, crawls) in all.iter().filter(|(_, crawls)| !crawls.is_empty()) {
                h2 { @match side { Side::Followers => "Followers: crawls", Side::Friends => "Friends: crawls" } }
                div.scroll tabindex="0" role="region" aria-label=(format!("Crawls of the {side}")) {
                    table id=(format!("crawls-{side}")) aria-label=(format!("Crawls of the {side}")) {
                        thead {
                            tr {
                                th scope="col" { "Began" }
                                th scope="col" { "Ended" }
                                th scope="col" { "How" }
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
            td { (how(crawl)) }
            td.n { (stored(crawl.pages)) }
            td.n { (stored(crawl.found)) }
            td.n { @match crawl.told { Some(stated) => (stored(stated)), None => "unknown" } }
            td.n.lesser { (stored(crawl.appeared)) }
            td.n.lesser { (stored(crawl.vanished)) }
        }
    }
}

/// States that a crawl is complete, or why it is not.
fn how(crawl: &CrawlRecord) -> String {
    let why = match crawl.ended.as_deref() {
        None => return format!("under way ({})", crawl.kind),
        Some("complete") => return "complete".to_owned(),
        Some("withheld") => return format!("complete, but {} members too many were missing", stored(crawl.withheld)),
        Some("known_tail") => return "the newest members, up to known ones".to_owned(),
        Some("capped") => "longer than relations.longest",
        Some("hidden") => "hidden, or empty",
        Some("partial") => "the network shows a part of the list",
        Some("stale") => "the network no longer took the cursor",
        Some("looped") => "the cursors went round in circles",
        Some("aborted") => "the owner was not there",
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
            told: Some(26_378),
            appeared: 12,
            vanished: 0,
            withheld: 0,
        };
        let under_way = CrawlRecord { ended: None, ended_at: None, told: None, ..crawl.clone() };
        let page = OfAccount(Ok(vec![(Side::Followers, vec![under_way, crawl]), (Side::Friends, Vec::new())]));
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
        let out = OfAccount(Err("no <route>".to_owned())).markup().into_string();
        assert!(out.contains("unknown: no &lt;route&gt;"), "{out}");
    }
}
