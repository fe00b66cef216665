//! The rhythm of a followed account: when it posts, its kind, its next visit and the reason for that time.

use maud::{Markup, html};

use super::chart::{Axis, Chart, Ink, Series, Shape};
use super::words::{date, stored};
use crate::base::humanize::figure;
use crate::engine::schedule::visits::rhythm::Kind;
use crate::pipelines::visits::summary::VisitSummary;
use crate::store::StoredTweet;

pub(super) fn section(row: &StoredTweet) -> Markup {
    let summary = row.raw.as_deref().and_then(|raw| serde_json::from_str::<VisitSummary>(raw).ok());
    html! {
        section.panel #rhythm aria-labelledby="rhythm-name" {
            div {
                h2 #rhythm-name { "Visits of its timeline" }
                dl.facts.wide {
                    div { dt { "State" } dd { (row.state.as_str()) } }
                    @if let Some(at) = row.checked_at { div { dt { "Last visit" } dd { (date(at)) } } }
                    @if let Some(at) = row.next_due { div { dt { "Next visit" } dd { (date(at)) } } }
                    div { dt { "Visits" } dd { (stored(row.lookups)) } }
                    @if let Some(why) = &row.unreadable { div { dt { "Cannot be read" } dd { (why) } } }
                    @if let Some(summary) = &summary {
                        div { dt { "Why then" } dd { (summary.why) } }
                        @if let Some(posts) = summary.expected_posts {
                            div { dt { "Posts expected by then" } dd { (figure(posts)) } }
                        }
                        div { dt { "Posts in the last visit" } dd { (summary.posts) } }
                        div { dt { "Posts a day, lately" } dd { (figure(summary.posts_per_day)) } }
                        div { dt { "Kind" } dd { (kind(summary.kind)) } }
                    }
                }
            }
            @if let Some(chart) = summary.as_ref().and_then(hours) {
                div { h3 { "Hours of its day" } (chart.markup()) }
            }
        }
    }
}

fn kind(kind: Kind) -> &'static str {
    match kind {
        Kind::Inactive => "inactive: less than a post a day",
        Kind::Unstable => "unstable: it posts on some days only",
        Kind::Constant => "constant: it posts every day, by the hours of a person",
        Kind::Authority => "authority: it posts every day, through day and night",
    }
}

/// Shares of the hours; `None` while no post is known.
fn hours(summary: &VisitSummary) -> Option<Chart> {
    let most = summary.hours.iter().copied().fold(0.0, f64::max);
    if most <= 0.0 || summary.hours.len() != 24 {
        return None;
    }
    let busiest = summary.hours.iter().position(|share| *share >= most).unwrap_or(0);
    let points = summary.hours.iter().enumerate().map(|(hour, share)| (hour as f64, share * 100.0)).collect();
    let ticks = (0..24).step_by(6).map(|hour| (f64::from(hour), format!("{hour}:00"))).collect();
    Some(Chart {
        gist: format!(
            "Shares of the hours of the day in its posts: most of them, {:.0} %, after {busiest}:00 UTC",
            most * 100.0
        ),
        x: Axis::even("hour (UTC)", 0.0..23.0, ticks),
        y: Axis::up_to("% of its posts", most * 100.0),
        series: vec![Series { name: "posts".to_owned(), ink: Ink::First, shape: Shape::Filled, points }],
        marks: Vec::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::post::ItemState;

    #[test]
    fn a_visited_account_shows_its_kind_its_hours_and_why_it_is_visited_next() {
        let mut hours = vec![0.0; 24];
        (hours[9], hours[21]) = (0.75, 0.25);
        let why = "it is its turn by then".to_owned();
        let summary =
            VisitSummary { posts: 3, posts_per_day: 12.5, kind: Kind::Constant, expected_posts: Some(0.7), why, hours };
        let raw = Some(serde_json::to_string(&summary).unwrap());
        let (checked_at, next_due) = (Some(1_700_000_000_000), Some(1_700_000_360_000));
        let row = StoredTweet { state: ItemState::Live, raw, checked_at, next_due, ..StoredTweet::default() };
        let shown = section(&row).into_string();
        for text in
            ["it is its turn by then", "constant: it posts every day", "most of them, 75 %, after 9:00 UTC", "0.7"]
        {
            assert!(shown.contains(text), "{text}: {shown}");
        }
        // Before the first visit, and a row of an older version.
        for raw in [None, Some(String::new()), Some("{}".to_owned())] {
            let shown = section(&StoredTweet { raw, ..StoredTweet::default() }).into_string();
            assert!(shown.contains("Visits of its timeline") && !shown.contains("Hours of its day"), "{shown}");
        }
    }
}
