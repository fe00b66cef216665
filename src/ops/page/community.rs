//! The section about a community: size and growth, reasons of candidates, and near misses.

use std::time::Duration;

use maud::{Markup, html};
use tokio::sync::Mutex;

use super::chart::{Axis, Chart, ChartColor, Series, SeriesShape};
use super::format::{describe_error, one_line, relative_time};
use crate::ops::NoAnswer;
use crate::ops::slow_query::SlowQuery;
use engine::base::clock::{self, Millis};
use engine::base::humanize::group_digits;
use networks::model::pipeline_id::PipelineId;
use store::{Communities, CommunityAccount, CommunitySize, Database, StoreError};

/// Interval of counts while the page has viewers; longer if a count is slow.
const COUNT_INTERVAL: Duration = Duration::from_secs(15);
/// Time limit of a count: the rest of the page waits for it.
const COUNT_TIMEOUT: Duration = Duration::from_millis(500);
const MAX_NEAR_MISSES: u32 = 20;
const MAX_POINTS: u32 = 400;
const HOUR_MS: f64 = 3_600_000.0;

#[derive(Debug, Default)]
struct CommunityFigures {
    size: CommunitySize,
    growth: Vec<CommunitySize>,
    by_reason: Vec<(String, String, i64)>,
    near: Vec<CommunityAccount>,
}

/// Latest figures, shared by all viewers.
#[derive(Debug, Default)]
pub(super) struct CommunityCache(Mutex<SlowQuery<CommunityFigures, Result<CommunityFigures, NoAnswer>>>);

async fn read_figures(
    communities: &dyn Communities,
    namespace: &str,
    threshold: f64,
) -> Result<CommunityFigures, StoreError> {
    Ok(CommunityFigures {
        size: communities.size(namespace, None, clock::wall_ms()).await?,
        growth: communities.past_sizes(namespace, 0, MAX_POINTS).await?,
        by_reason: communities.count_by_reason(namespace).await?,
        near: communities.near_misses(namespace, threshold, MAX_NEAR_MISSES).await?,
    })
}

impl CommunityCache {
    pub(super) async fn section(
        &self,
        database: &Result<Database, NoAnswer>,
        namespace: &str,
        threshold: f64,
        address: &(dyn Fn(&str) -> String + Sync),
    ) -> Markup {
        let (mut counting, namespace) = (self.0.lock().await, namespace.to_owned());
        let communities = database.as_ref().map(|database| database.communities.clone()).map_err(Clone::clone);
        let ask = || async move { Ok(read_figures(&*communities?, &namespace, threshold).await?) };
        counting.refresh(COUNT_INTERVAL, COUNT_TIMEOUT, None, ask, |read| read).await;
        html! { @if let Some(read) = &counting.answer { (section(read, address)) } }
    }
}

pub(super) fn community_name(namespace: &str) -> String {
    PipelineId::parse(namespace).and_then(|id| id.partition).unwrap_or_else(|| namespace.to_owned())
}

fn section(read: &Result<CommunityFigures, NoAnswer>, address: &(dyn Fn(&str) -> String + Sync)) -> Markup {
    let count = |number: i64| group_digits(number.unsigned_abs());
    html! {
        section.panel #community aria-labelledby="community-name" {
            h2 #community-name { "Community" }
            @match read {
                Err(why) => p.lead.bad { "The store does not answer: " (describe_error(why)) },
                Ok(CommunityFigures { size, growth, by_reason, near }) => {
                    p.lead {
                        strong { (count(size.members)) } " members, "
                        strong { (count(size.candidates)) } " candidates, "
                        strong { (count(size.open)) } " open, "
                        strong { (count(size.outside)) } " outside, "
                        strong { (count(size.seen)) } " more seen"
                    }
                    @if let Some(chart) = growth_chart(growth, size) { (chart.markup()) }
                    (reasons_table(by_reason))
                    @if !near.is_empty() {
                        h3 { "Near misses" }
                        ul #near {
                            @for account in near {
                                li dir="auto" {
                                    a href=(address(&account.account)) { (one_line(&account.account)) }
                                    " " (format!("{:+.2}", account.score.unwrap_or(0.0)))
                                    @for of in account.parse_evidence() { "; " (one_line(&of.about)) }
                                    ", judged " (relative_time(account.judged_at.unwrap_or(account.decided_at), size.at, "ago"))
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn reasons_table(by_reason: &[(String, String, i64)]) -> Markup {
    html! {
        @if !by_reason.is_empty() {
            div.scroll tabindex="0" role="region" aria-label="Accounts by reason" {
                table #reasons aria-label="Accounts by reason" {
                    thead { tr { th scope="col" { "Appeared as" } th scope="col" { "State" } th.n scope="col" { "Accounts" } } }
                    tbody {
                        @for (reason, state, accounts) in by_reason {
                            tr { th scope="row" { (reason) } td { (state) } td.n { (group_digits(accounts.unsigned_abs())) } }
                        }
                    }
                }
            }
        }
    }
}

fn growth_chart(growth: &[CommunitySize], now: &CommunitySize) -> Option<Chart> {
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
    let series =
        |name: &str, color, points| Series { name: name.to_owned(), color, shape: SeriesShape::Dotted, points };
    Some(Chart {
        alt_text: format!("Members over {:.1} hours: {} at first, {} now", -start, first.members, now.members),
        x: Axis::linear("hours ago", start..0.0, ticks),
        y: Axis::from_zero("accounts", most),
        series: vec![series("members", ChartColor::First, members), series("judged", ChartColor::Second, judged)],
        marks: Vec::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use networks::model::community::Belonging;

    #[test]
    fn a_community_is_shown_or_the_error() {
        assert_eq!(community_name("community:mastodon:social:pt-pt"), "pt-pt");
        let address = |id: &str| format!("/account?id={id}");
        let out = section(&Err(NoAnswer::Failed("no <answer>".to_owned())), &address).into_string();
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
        let read = CommunityFigures {
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
