//! Communities: size and growth, reasons of candidates, and near misses.

use std::time::Duration;

use maud::{Markup, html};
use tokio::sync::Mutex;

use super::chart::{Axis, Chart, Ink, Series, Shape};
use super::words::{error, one_line, relative};
use crate::base::clock::{self, Millis};
use crate::base::humanize::grouped;
use crate::model::pipeline_id::PipelineId;
use crate::ops::counting::Counting;
use crate::pipelines::community::account_evidence::COMMUNITY;
use crate::store::{Communities, CommunityAccount, CommunitySize, Database, StoreError};

/// Interval of counts while the page has viewers; longer if a count takes more than its part of the time.
const EVERY: Duration = Duration::from_secs(15);
/// Time limit of a count: the rest of the page waits for it.
const PATIENCE: Duration = Duration::from_millis(500);
const NEAR: u32 = 20;
const POINTS: u32 = 400;
const HOUR_MS: f64 = 3_600_000.0;

#[derive(Debug, Default)]
struct Read {
    size: CommunitySize,
    growth: Vec<CommunitySize>,
    by_reason: Vec<(String, String, i64)>,
    near: Vec<CommunityAccount>,
}

/// The last reading, shared by all viewers.
#[derive(Debug, Default)]
pub(super) struct CommunityRead(Mutex<Counting<Read, Result<Read, String>>>);

pub(super) fn is_community(namespace: &str) -> bool {
    PipelineId::is_of(namespace, COMMUNITY)
}

async fn read(communities: &dyn Communities, namespace: &str, threshold: f64) -> Result<Read, StoreError> {
    Ok(Read {
        size: communities.size(namespace, None, clock::wall_ms()).await?,
        growth: communities.growth(namespace, 0, POINTS).await?,
        by_reason: communities.by_reason(namespace).await?,
        near: communities.near_misses(namespace, threshold, NEAR).await?,
    })
}

impl CommunityRead {
    pub(super) async fn section(
        &self,
        database: &Result<Database, String>,
        namespace: &str,
        threshold: f64,
        address: &(dyn Fn(&str) -> String + Sync),
    ) -> Markup {
        let (mut counting, namespace) = (self.0.lock().await, namespace.to_owned());
        let communities = database.as_ref().map(|database| database.communities.clone()).map_err(Clone::clone);
        let ask = || async move {
            let read = read(&*communities?, &namespace, threshold).await;
            read.map_err(|error| error.to_string())
        };
        counting.ask(EVERY, PATIENCE, None, ask, |read| read).await;
        html! { @if let Some(read) = &counting.said { (section(read, address)) } }
    }
}

pub(super) fn name_of(namespace: &str) -> String {
    PipelineId::read(namespace).and_then(|id| id.partition).unwrap_or_else(|| namespace.to_owned())
}

fn section(read: &Result<Read, String>, address: &(dyn Fn(&str) -> String + Sync)) -> Markup {
    let count = |number: i64| grouped(number.unsigned_abs());
    html! {
        section.panel #community aria-labelledby="community-name" {
            h2 #community-name { "Community" }
            @match read {
                Err(why) => p.lead.bad { "The store does not answer: " (error(why)) },
                Ok(Read { size, growth, by_reason, near }) => {
                    p.lead {
                        strong { (count(size.members)) } " members, "
                        strong { (count(size.candidates)) } " candidates, "
                        strong { (count(size.open)) } " undecided, "
                        strong { (count(size.outside)) } " decided against, "
                        strong { (count(size.seen)) } " more appeared"
                    }
                    @if let Some(chart) = chart(growth, size) { (chart.markup()) }
                    (reasons(by_reason))
                    @if !near.is_empty() {
                        h3 { "Near misses" }
                        ul #near {
                            @for account in near {
                                li dir="auto" {
                                    a href=(address(&account.account)) { (one_line(&account.account)) }
                                    " " (format!("{:+.2}", account.score.unwrap_or(0.0)))
                                    @for of in account.findings() { "; " (one_line(&of.about)) }
                                    ", judged " (relative(account.judged_at.unwrap_or(account.decided_at), size.at, "ago"))
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn reasons(by_reason: &[(String, String, i64)]) -> Markup {
    html! {
        @if !by_reason.is_empty() {
            div.scroll tabindex="0" role="region" aria-label="Accounts by reason" {
                table #reasons aria-label="Accounts by reason" {
                    thead { tr { th scope="col" { "Appeared as" } th scope="col" { "State" } th.n scope="col" { "Accounts" } } }
                    tbody {
                        @for (reason, state, accounts) in by_reason {
                            tr { th scope="row" { (reason) } td { (state) } td.n { (grouped(accounts.unsigned_abs())) } }
                        }
                    }
                }
            }
        }
    }
}

fn chart(growth: &[CommunitySize], now: &CommunitySize) -> Option<Chart> {
    let hours = |at: Millis| (at - now.at) as f64 / HOUR_MS;
    let all: Vec<&CommunitySize> = growth.iter().chain(std::iter::once(now)).collect();
    let first = growth.first()?;
    let line = |of: fn(&CommunitySize) -> i64| -> Vec<(f64, f64)> {
        all.iter().map(|size| (hours(size.at), of(size) as f64)).collect()
    };
    let (members, judged) = (line(|size| size.members), line(|size| size.members + size.outside + size.open));
    let most = judged.iter().chain(&members).map(|(_, count)| *count).fold(0.0, f64::max);
    let start = hours(first.at).min(-1.0);
    let ticks = (0..=4).map(|part| start * f64::from(part) / 4.0).map(|at| (at, format!("{at:.1} h"))).collect();
    let series = |name: &str, ink, points| Series { name: name.to_owned(), ink, shape: Shape::Dotted, points };
    Some(Chart {
        gist: format!("Members over {:.1} hours: {} at first, {} now", -start, first.members, now.members),
        x: Axis::even("hours ago", start..0.0, ticks),
        y: Axis::up_to("accounts", most),
        series: vec![series("members", Ink::First, members), series("judged", Ink::Second, judged)],
        marks: Vec::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::community::Belonging;

    #[test]
    fn a_community_is_shown_or_the_error() {
        assert!(is_community("community:twitter:pt-pt") && !is_community("profiles:twitter"));
        assert_eq!(name_of("community:mastodon:social:pt-pt"), "pt-pt");
        let address = |id: &str| format!("/account?id={id}");
        let out = section(&Err("no <answer>".to_owned()), &address).into_string();
        assert!(out.contains("does not answer: no &lt;answer&gt;"), "{out}");
        let size = CommunitySize { at: 7_200_000, members: 1_200, seen: 7, ..CommunitySize::default() };
        let near = CommunityAccount {
            account: "12".to_owned(),
            state: Belonging::Open,
            first_at: 0,
            admitted_at: None,
            decided_at: 0,
            appearances: 2,
            posts: 0,
            judged_at: None,
            rule: None,
            score: Some(0.41),
            evidence: Some(r#"[{"test":"place","says":0.4,"weight":1.0,"about":"\"<Porto>\" names PT"}]"#.to_owned()),
            by_hand: None,
            why: None,
        };
        let read = Read {
            size,
            growth: vec![CommunitySize { at: 0, members: 20, ..CommunitySize::default() }],
            by_reason: vec![("mentioned".to_owned(), "member".to_owned(), 30)],
            near: vec![near],
        };
        let page = section(&Ok(read), &address).into_string();
        for says in ["1,200", "+0.41", "&lt;Porto&gt;", "20 at first, 1200 now", "/account?id=12", "mentioned"] {
            assert!(page.contains(says), "{says}: {page}");
        }
    }
}
