//! The section about visits of a followed account: its next visit with the reason, its kind, and its hours of the day.

use maud::{Markup, html};

use super::chart::{Axis, Chart, ChartColor, Series, SeriesShape};
use super::format::{date, number_or_dash};
use collect::pipelines::visits::summary::VisitSummary;
use engine::base::humanize::format_number;
use engine::schedule::visits::rhythm::Kind;
use store::StoredTweet;

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
                    div { dt { "Visits" } dd { (number_or_dash(row.lookups)) } }
                    @if let Some(why) = &row.unreadable { div { dt { "Cannot be read" } dd { (why) } } }
                    @if let Some(summary) = &summary {
                        div { dt { "Reason" } dd { (summary.why) } }
                        @if let Some(posts) = summary.expected_posts {
                            div { dt { "Posts expected by the next visit" } dd { (format_number(posts)) } }
                        }
                        div { dt { "Posts in the last visit" } dd { (summary.posts) } }
                        div { dt { "Recent posts per day" } dd { (format_number(summary.posts_per_day)) } }
                        div { dt { "Kind" } dd { (kind_text(summary.kind)) } }
                    }
                }
            }
            @if let Some(chart) = summary.as_ref().and_then(hours_chart) {
                div { h3 { "Hours of its day" } (chart.markup()) }
            }
        }
    }
}

fn kind_text(kind: Kind) -> &'static str {
    match kind {
        Kind::Inactive => "inactive: less than 1 post per day",
        Kind::Unstable => "unstable: it posts on some days only",
        Kind::Constant => "constant: it posts every day, by the hours of a person",
        Kind::Authority => "authority: it posts every day, through day and night",
    }
}

/// `None` while no post is known.
fn hours_chart(summary: &VisitSummary) -> Option<Chart> {
    let most = summary.hours.iter().copied().fold(0.0, f64::max);
    if most <= 0.0 || summary.hours.len() != 24 {
        return None;
    }
    let busiest = summary.hours.iter().position(|share| *share >= most).unwrap_or(0);
    let points = summary.hours.iter().enumerate().map(|(hour, share)| (hour as f64, share * 100.0)).collect();
    let ticks = (0..24).step_by(6).map(|hour| (f64::from(hour), format!("{hour}:00"))).collect();
    Some(Chart {
        alt_text: format!(
            "Share of its posts by hour of the day: the largest, {:.0} %, from {busiest}:00 UTC",
            most * 100.0
        ),
        x: Axis::linear("hour (UTC)", 0.0..23.0, ticks),
        y: Axis::from_zero("% of its posts", most * 100.0),
        series: vec![Series { name: "posts".to_owned(), color: ChartColor::First, shape: SeriesShape::Filled, points }],
        marks: Vec::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use networks::model::post::ItemState;

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
            ["it is its turn by then", "constant: it posts every day", "the largest, 75 %, from 9:00 UTC", "0.7"]
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
