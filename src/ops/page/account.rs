//! An account: its state, its profile with changes, its counts over time, and its collected posts.

use std::sync::Arc;

use axum::http::StatusCode;
use axum::response::Response;
use maud::{Markup, html};

use super::chart::{Axis, Chart, ChartColor, Series, SeriesShape};
use super::crawls::AccountCrawls;
use super::format::{
    date, describe_error, excerpt, format_span, number_or_dash, one_line, relative_time, truncate_chars,
};
use super::item::{render_object, render_place};
use super::layout::{Document, empty_notice, problem_notice};
use super::pages::Page;
use super::routes::NamespaceRoute;
use super::visits;
use crate::data::dead::{DeadItems, ItemReport};
use crate::ops::NoAnswer;
use collect::pipelines::kind::ItemContent;
use engine::base::clock::{self, Millis};
use engine::base::humanize::group_digits;
use networks::model::pipeline_id::PipelineId;
use store::{Change, CountsAt, HandleBearer, StoredAccount, StoredHandle, StoredTweet};

const MAX_CHANGES: usize = 200;
const MAX_CHANGE_CHARS: usize = 280;
const MAX_POSTS: u32 = 50;
const MAX_POINTS: usize = 400;
const MAX_NAME_BYTES: usize = 512;
const DAY_MS: f64 = 86_400_000.0;

struct AccountDetails {
    now: Millis,
    account: StoredAccount,
    report: ItemReport,
    changes: Vec<Change>,
    counts: Vec<CountsAt>,
    posts: Vec<String>,
    /// Visits of its timeline, if it is or was followed.
    visits: Option<StoredTweet>,
}

enum AccountMatch {
    One(Box<AccountDetails>),
    /// Current and former accounts of that handle.
    Several(Vec<HandleBearer>),
    /// A handle that is not resolved to an account yet.
    HandleOnly(StoredHandle),
}

pub(super) async fn show_page(page: &Arc<Page>, query: String) -> Response {
    let name = query.trim().trim_start_matches('@').to_owned();
    let answer = |status: StatusCode, title: &str, content: Markup| {
        let (routes, title, query, now) = (&page.routes, title.to_owned(), query.clone(), clock::wall_ms());
        Document { routes, title, current_path: "", at: now, now, events: None, query, content }.answer(status)
    };
    if name.is_empty() || name.len() > MAX_NAME_BYTES || name.contains(char::is_control) {
        let why = "Give an account’s id, or its handle.";
        return answer(
            StatusCode::BAD_REQUEST,
            "Not an account",
            html! { h1 { "Not an account" } (empty_notice(why)) },
        );
    }
    let title = format!("Account {}", one_line(&name));
    match page.load_account(&name).await {
        Ok(Some(AccountMatch::One(details))) => {
            let crawls = page.load_crawls(&details.account.id).await;
            let communities = page.load_communities(&details.account.id).await;
            answer(StatusCode::OK, &title, html! { (details.section(page, &crawls)) (communities.markup(page)) })
        }
        Ok(Some(AccountMatch::Several(bearers))) => answer(StatusCode::OK, &title, bearer_list(page, &name, &bearers)),
        Ok(Some(AccountMatch::HandleOnly(kept))) => {
            answer(StatusCode::OK, &title, html! { h1 { (title) } (unresolved_handle(&kept)) })
        }
        Ok(None) => {
            let why = "No account of this id or handle was collected.";
            answer(StatusCode::NOT_FOUND, &title, html! { h1 { (title) } (empty_notice(why)) })
        }
        Err(why) => {
            let why = format!("The search failed: {}", describe_error(&why));
            answer(StatusCode::SERVICE_UNAVAILABLE, &title, html! { h1 { (title) } (problem_notice(&why)) })
        }
    }
}

impl Page {
    /// Returns the address of the page about that handle's accounts; empty if there is none, or if the items are no accounts.
    pub(super) async fn account_addresses(&self, handle: &str) -> Result<Vec<String>, NoAnswer> {
        let handle = handle.trim().trim_start_matches('@').to_owned();
        if self.content() != ItemContent::Accounts || handle.is_empty() || handle.len() > MAX_NAME_BYTES {
            return Ok(Vec::new());
        }
        let bearers = async |dead: &DeadItems| dead.store.handle_bearers(dead.queue.namespace(), &handle).await;
        let found = self.archive.query(bearers).await?;
        Ok(if found.is_empty() { Vec::new() } else { vec![self.routes.item_address(&handle)] })
    }

    async fn load_account(&self, name: &str) -> Result<Option<AccountMatch>, NoAnswer> {
        let read = async |dead: &DeadItems| {
            let (store, namespace) = (&dead.store, dead.queue.namespace());
            let by_id = store.account(namespace, name).await?;
            let id = match by_id {
                Some(account) => account.id,
                None => {
                    let bearers = store.handle_bearers(namespace, name).await?;
                    match &bearers[..] {
                        [] => {
                            let handle = store.stored_handle(namespace, name).await?;
                            return Ok(handle.map(AccountMatch::HandleOnly));
                        }
                        [only] => only.id.clone(),
                        _ => return Ok(Some(AccountMatch::Several(bearers))),
                    }
                }
            };
            let Some(account) = store.account(namespace, &id).await? else { return Ok(None) };
            let known = dead.find(&id).await?;
            let Some(report) = known else { return Ok(None) };
            let changes = store.account_changes(namespace, &id).await?;
            let counts = store.account_counts(namespace, &id).await?;
            let posts = store.newest_posts(namespace, &id, MAX_POSTS).await?;
            // An account that moved between partitions has a row in each of them.
            let mut visits = None::<StoredTweet>;
            for of in self.routes.all.iter().filter(|of| shows_visits(of, namespace)) {
                let row = store.tweet(&of.name, &id).await?;
                visits = row.into_iter().chain(visits).max_by_key(|row| (row.next_due.is_some(), row.checked_at));
            }
            let now = clock::wall_ms();
            let details = AccountDetails { now, account, report, changes, counts, posts, visits };
            Ok::<_, NoAnswer>(Some(AccountMatch::One(Box::new(details))))
        };
        self.archive.query(read).await
    }
}

fn shows_visits(of: &NamespaceRoute, accounts: &str) -> bool {
    let provider = |namespace| PipelineId::parse(namespace).map(|id| id.provider);
    of.content == ItemContent::Timelines && provider(&of.name) == provider(accounts)
}

fn unresolved_handle(StoredHandle { at, reason }: &StoredHandle) -> Markup {
    html! {
        p.problem.none #problem role="alert" {
            @match reason {
                None => { "This handle arrived at " (date(*at)) "; an API call will resolve it to an account." }
                Some(why) => { "This handle was rejected at " (date(*at)) ": " (one_line(why)) }
            }
        }
    }
}

fn bearer_list(page: &Page, name: &str, bearers: &[HandleBearer]) -> Markup {
    html! {
        h1 { "Accounts called " (one_line(name)) }
        ul #bearers {
            @for HandleBearer { id, until } in bearers {
                li {
                    a href=(page.routes.item_address(id)) { (one_line(id)) }
                    @match until { Some(at) => { " had this handle until " (date(*at)) }, None => " has this handle" }
                }
            }
        }
    }
}

impl AccountDetails {
    fn section(&self, page: &Page, crawls: &AccountCrawls) -> Markup {
        let account = &self.account;
        let handle = account.handle.as_deref().filter(|handle| !handle.is_empty());
        html! {
            section.panel #account aria-labelledby="account-name" {
                div {
                    h1 #account-name {
                        @match handle { Some(handle) => { "@" (one_line(handle)) }, None => { "Account " (one_line(&account.id)) } }
                    }
                    p #place { (render_place(&self.report, self.now)) }
                    @if let Some(text) = account.description.as_deref().filter(|text| !text.is_empty()) {
                        (excerpt(text))
                    }
                    @if let Some(at) = account.forgotten_at {
                        p.quiet #forgotten { "Its content was removed " (relative_time(at, self.now, "ago")) ", since the network no longer has it." }
                    }
                    (self.facts())
                    (self.changes())
                    (crawls.markup())
                    (self.posts(page))
                    (page.refresh_form(&account.id))
                    @if let Some(raw) = account.raw.as_deref().filter(|raw| !raw.is_empty()) { (render_object(raw)) }
                }
                div #counts {
                    h2 { "Followers over time" }
                    @match self.chart() { Some(chart) => (chart.markup()), None => p.lead { "no count yet" } }
                }
            }
            @if let Some(visits) = &self.visits { (visits::section(visits)) }
        }
    }

    fn facts(&self) -> Markup {
        let of = &self.account;
        let moment = |at: Option<Millis>| html! { @match at { Some(at) => (date(at)), None => "–" } };
        let since = self.changes.iter().rev().find(|change| change.field == "state").map(|change| change.at);
        let texts = [
            ("Name", &of.display_name),
            ("Location", &of.location),
            ("Address", &of.url),
            ("Withheld in", &of.withheld_in),
            ("Moved to", &of.moved_to),
        ];
        let counts = [
            ("Followers", of.counts.followers),
            ("Follows", of.counts.following),
            ("Posts", of.counts.posts),
            ("Lists", of.counts.listed),
            ("Likes", of.counts.likes),
        ];
        html! {
            dl.facts.wide {
                div { dt { "State" } dd { (of.state) @if let Some(at) = since { ", since " (date(at)) } } }
                div { dt { "Id" } dd.id { (one_line(&of.id)) } }
                @for (name, text) in texts {
                    @if let Some(text) = text.as_deref().filter(|text| !text.is_empty()) {
                        div { dt { (name) } dd dir="auto" { (one_line(text)) } }
                    }
                }
                @for (name, count) in counts {
                    @if count.is_some() { div { dt { (name) } dd { (number_or_dash(count)) } } }
                }
                div { dt { "Collected posts" } dd { (number_or_dash(of.collected)) } }
                div { dt { "Created" } dd { (moment(of.created_at)) } }
                div { dt { "Last activity" } dd { (moment(of.active_at)) } }
                div { dt { "Next due" } dd { (moment(of.next_due)) } }
                @if let (Some(checked), Some(due)) = (of.checked_at, of.next_due) {
                    div { dt { "Interval" } dd { (format_span(due - checked)) } }
                }
                div { dt { "Last looked up" } dd { (moment(of.checked_at)) } }
                div { dt { "Lookups" } dd { (number_or_dash(of.lookups)) } }
                @if of.misses > 0 {
                    div {
                        dt { "Not returned" }
                        dd { (number_or_dash(of.misses)) " times in a row" @if let Some(at) = of.missing_since { ", since " (date(at)) } }
                    }
                }
                @for came in &self.report.ways { div { dt { "Arrived by" } dd { (came) } } }
            }
        }
    }

    fn changes(&self) -> Markup {
        let shown = |value: &Option<String>| match value.as_deref() {
            None | Some("") => "(none)".to_owned(),
            Some(value) => truncate_chars(&one_line(value), MAX_CHANGE_CHARS),
        };
        html! {
            @if !self.changes.is_empty() {
                h2 { "Changes" }
                ul #changes {
                    @for change in self.changes.iter().rev().take(MAX_CHANGES) {
                        li dir="auto" { (date(change.at)) ": " (change.field) ": " (shown(&change.old)) " → " (shown(&change.new)) }
                    }
                }
                @if self.changes.len() > MAX_CHANGES {
                    p.lead { "the newest " (MAX_CHANGES) " of " (group_digits(self.changes.len() as u64)) }
                }
            }
        }
    }

    fn posts(&self, page: &Page) -> Markup {
        let namespace = page.routes.namespace.as_deref().and_then(PipelineId::parse);
        let posts = namespace.map(|of| PipelineId::posts(&of.provider).to_string()).unwrap_or_default();
        html! {
            @if !self.posts.is_empty() {
                h2 { "Newest collected posts" }
                ul #posts {
                    @for post in &self.posts {
                        li {
                            @match page.routes.item_address_in(&posts, post) {
                                Some(address) => a href=(address) { (one_line(post)) },
                                None => (one_line(post)),
                            }
                        }
                    }
                }
            }
        }
    }

    fn chart(&self) -> Option<Chart> {
        let step = self.counts.len().div_ceil(MAX_POINTS).max(1);
        let days = |at: Millis| (at - self.now) as f64 / DAY_MS;
        let drawn = self.counts.iter().rev().step_by(step).rev();
        let mut points: Vec<(f64, f64)> =
            drawn.filter_map(|at| Some((days(at.checked_at), at.counts.followers? as f64))).collect();
        let (last, first) = (*points.last()?, *points.first()?);
        // The newest answer changed no count since the last point. An answer without the account has no counts.
        let is_found = self.account.misses == 0;
        if is_found {
            points.push((self.account.checked_at.map_or(0.0, days).max(last.0), last.1));
        }
        let until = if is_found { "now" } else { "at the last count" };
        let most = points.iter().map(|(_, count)| *count).fold(0.0, f64::max);
        let start = first.0.min(-1.0);
        let ticks = (0..=4).map(|part| start * f64::from(part) / 4.0).map(|at| (at, format!("{:.0} d", at)));
        let series =
            Series { name: "followers".to_owned(), color: ChartColor::First, shape: SeriesShape::Dotted, points };
        Some(Chart {
            alt_text: format!("Followers over {:.0} days: {} at first, {} {until}", -start, first.1, last.1),
            x: Axis::linear("days ago", start..0.0, ticks.collect()),
            y: Axis::from_zero("followers", most),
            series: vec![series],
            marks: Vec::new(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use networks::model::account::AccountCounts;

    #[test]
    fn a_lookup_that_did_not_find_the_account_has_no_counts() {
        let (now, day) = (1_700_000_000_000, 86_400_000);
        let counts = AccountCounts { followers: Some(5), ..AccountCounts::default() };
        let mut details = AccountDetails {
            now,
            account: StoredAccount { checked_at: Some(now - day), ..StoredAccount::default() },
            report: ItemReport { places: Vec::new(), stored: None, changes: Vec::new(), ways: Vec::new() },
            changes: Vec::new(),
            counts: vec![CountsAt { checked_at: now - 3 * day, counts }],
            posts: Vec::new(),
            visits: None,
        };
        for (misses, says, until) in [(0, "5 at first, 5 now", -1.0), (1, "5 at first, 5 at the last count", -3.0)] {
            details.account.misses = misses;
            let chart = details.chart().unwrap();
            assert_eq!(chart.alt_text, format!("Followers over 3 days: {says}"));
            assert_eq!(chart.series[0].points.last(), Some(&(until, 5.0)));
        }
    }
}
