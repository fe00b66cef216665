//! An account: its state, its profile with changes, its counts over time, and its collected posts.

use std::sync::Arc;

use axum::http::StatusCode;
use axum::response::Response;
use maud::{Markup, html};

use super::chart::{Axis, Chart, Ink, Series, Shape};
use super::crawls::OfAccount;
use super::item::{object, place};
use super::layout::{Document, nothing, problem};
use super::pages::Page;
use super::rhythm;
use super::words::{cut, date, error, excerpt, one_line, relative, stored, time};
use crate::base::clock::{self, Millis};
use crate::base::humanize::grouped;
use crate::model::pipeline_id::PipelineId;
use crate::ops::dead::{Dead, Whereabouts};
use crate::pipelines::visits::holds_visits;
use crate::store::{Bearer, Change, CountsAt, KeptHandle, StoredAccount, StoredTweet};

const CHANGES: usize = 200;
const CHANGED: usize = 280;
const POSTS: u32 = 50;
/// Maximum number of points of the chart: more look alike.
const POINTS: usize = 400;
const LONGEST: usize = 512;
const DAY_MS: f64 = 86_400_000.0;

struct AccountDetails {
    now: Millis,
    account: StoredAccount,
    whereabouts: Whereabouts,
    changes: Vec<Change>,
    counts: Vec<CountsAt>,
    posts: Vec<String>,
    /// The visits of its timeline, if it is followed or was.
    visits: Option<StoredTweet>,
}

enum Found {
    One(Box<AccountDetails>),
    /// Current and former accounts of that handle.
    Several(Vec<Bearer>),
    /// A handle whose account is not known.
    Kept(KeptHandle),
}

pub(super) async fn show(page: &Arc<Page>, asked: String) -> Response {
    let name = asked.trim().trim_start_matches('@').to_owned();
    let answer = |status: StatusCode, title: &str, content: Markup| {
        let (routes, title, asked, now) = (&page.routes, title.to_owned(), asked.clone(), clock::wall_ms());
        Document { routes, title, here: "", at: now, now, events: None, asked, content }.answer(status)
    };
    if name.is_empty() || name.len() > LONGEST || name.contains(char::is_control) {
        let why = "Give an account’s id, or its handle.";
        return answer(StatusCode::BAD_REQUEST, "Not an account", html! { h1 { "Not an account" } (nothing(why)) });
    }
    let title = format!("Account {}", one_line(&name));
    match page.account(&name).await {
        Ok(Some(Found::One(seen))) => {
            let crawls = page.crawls_of(&seen.account.id).await;
            let belongs = page.belongs(&seen.account.id).await;
            answer(StatusCode::OK, &title, html! { (seen.section(page, &crawls)) (belongs.markup(page)) })
        }
        Ok(Some(Found::Several(bearers))) => answer(StatusCode::OK, &title, several(page, &name, &bearers)),
        Ok(Some(Found::Kept(kept))) => {
            answer(StatusCode::OK, &title, html! { h1 { (title) } (without_account(&kept)) })
        }
        Ok(None) => {
            let why = "No account of this id or handle was collected.";
            answer(StatusCode::NOT_FOUND, &title, html! { h1 { (title) } (nothing(why)) })
        }
        Err(why) => {
            let why = format!("The search failed: {}", error(&why));
            answer(StatusCode::SERVICE_UNAVAILABLE, &title, html! { h1 { (title) } (problem(&why)) })
        }
    }
}

impl Page {
    /// Returns the addresses of the current and former accounts of that handle; empty where the items are no accounts.
    pub(super) async fn called(&self, handle: &str) -> Result<Vec<String>, String> {
        let handle = handle.trim().trim_start_matches('@').to_owned();
        if !self.routes.holds_accounts() || handle.is_empty() || handle.len() > LONGEST {
            return Ok(Vec::new());
        }
        let bearers = async |dead: &Dead| dead.store.bearers(dead.queue.namespace(), &handle).await;
        let found = self.archive.ask(bearers).await?;
        Ok(if found.is_empty() { Vec::new() } else { vec![self.routes.to_item(&handle)] })
    }

    async fn account(&self, name: &str) -> Result<Option<Found>, String> {
        let look = async |dead: &Dead| {
            let (store, namespace) = (&dead.store, dead.queue.namespace());
            let text = |error: crate::store::StoreError| error.to_string();
            let by_id = store.account(namespace, name).await.map_err(text)?;
            let id = match by_id {
                Some(account) => account.id,
                None => {
                    let bearers = store.bearers(namespace, name).await.map_err(text)?;
                    match &bearers[..] {
                        [] => return Ok(store.kept_handle(namespace, name).await.map_err(text)?.map(Found::Kept)),
                        [only] => only.id.clone(),
                        _ => return Ok(Some(Found::Several(bearers))),
                    }
                }
            };
            let Some(account) = store.account(namespace, &id).await.map_err(text)? else { return Ok(None) };
            let known = dead.show(&id).await.map_err(|error| error.to_string())?;
            let Some(whereabouts) = known else { return Ok(None) };
            let changes = store.account_changes(namespace, &id).await.map_err(text)?;
            let counts = store.account_counts(namespace, &id).await.map_err(text)?;
            let posts = store.posts_of(namespace, &id, POSTS).await.map_err(text)?;
            // An account that was handed over has a row in each part that it was in.
            let mut visits = None::<StoredTweet>;
            for (of, _) in self.routes.all.iter().filter(|(of, _)| is_visited_in(of, namespace)) {
                let row = store.tweet(of, &id).await.map_err(text)?;
                visits = row.into_iter().chain(visits).max_by_key(|row| (row.next_due.is_some(), row.checked_at));
            }
            let now = clock::wall_ms();
            let seen = AccountDetails { now, account, whereabouts, changes, counts, posts, visits };
            Ok::<_, String>(Some(Found::One(Box::new(seen))))
        };
        self.archive.ask(look).await
    }
}

fn is_visited_in(pipeline: &str, accounts: &str) -> bool {
    let provider = |namespace| PipelineId::read(namespace).map(|of| of.provider);
    holds_visits(pipeline) && provider(pipeline) == provider(accounts)
}

fn without_account(KeptHandle { at, reason }: &KeptHandle) -> Markup {
    html! {
        p.problem.none #problem role="alert" {
            @match reason {
                None => { "This handle came at " (date(*at)) ", and waits for the call that tells its account." }
                Some(why) => { "This handle was refused at " (date(*at)) ": " (one_line(why)) }
            }
        }
    }
}

fn several(page: &Page, name: &str, bearers: &[Bearer]) -> Markup {
    html! {
        h1 { "Accounts called " (one_line(name)) }
        ul #bearers {
            @for Bearer { id, until } in bearers {
                li {
                    a href=(page.routes.to_item(id)) { (one_line(id)) }
                    @match until { Some(at) => { " had this handle until " (date(*at)) }, None => " has this handle" }
                }
            }
        }
    }
}

impl AccountDetails {
    fn section(&self, page: &Page, crawls: &OfAccount) -> Markup {
        let account = &self.account;
        let handle = account.handle.as_deref().filter(|handle| !handle.is_empty());
        html! {
            section.panel #account aria-labelledby="account-name" {
                div {
                    h1 #account-name {
                        @match handle { Some(handle) => { "@" (one_line(handle)) }, None => { "Account " (one_line(&account.id)) } }
                    }
                    p #place { (place(&self.whereabouts, self.now)) }
                    @if let Some(text) = account.description.as_deref().filter(|text| !text.is_empty()) {
                        (excerpt(text))
                    }
                    @if let Some(at) = account.forgotten_at {
                        p.quiet #forgotten { "Its content was removed " (relative(at, self.now, "ago")) ", since the network no longer has it." }
                    }
                    (self.facts())
                    (self.changes())
                    (crawls.markup())
                    (self.posts(page))
                    (page.refresh_form(&account.id))
                    @if let Some(raw) = account.raw.as_deref().filter(|raw| !raw.is_empty()) { (object(raw)) }
                }
                div #counts {
                    h2 { "Followers over time" }
                    @match self.chart() { Some(chart) => (chart.markup()), None => p.lead { "no count yet" } }
                }
            }
            @if let Some(visits) = &self.visits { (rhythm::section(visits)) }
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
                    @if count.is_some() { div { dt { (name) } dd { (stored(count)) } } }
                }
                div { dt { "Collected posts" } dd { (stored(of.collected)) } }
                div { dt { "Created" } dd { (moment(of.created_at)) } }
                div { dt { "Last sign of life" } dd { (moment(of.active_at)) } }
                div { dt { "Next due" } dd { (moment(of.next_due)) } }
                @if let (Some(checked), Some(due)) = (of.checked_at, of.next_due) {
                    div { dt { "Interval" } dd { (time(due - checked)) } }
                }
                div { dt { "Last looked up" } dd { (moment(of.checked_at)) } }
                div { dt { "Lookups" } dd { (stored(of.lookups)) } }
                @if of.misses > 0 {
                    div {
                        dt { "Not returned" }
                        dd { (stored(of.misses)) " times in a row" @if let Some(at) = of.missing_since { ", since " (date(at)) } }
                    }
                }
                @for came in &self.whereabouts.ways { div { dt { "Came by" } dd { (came) } } }
            }
        }
    }

    fn changes(&self) -> Markup {
        let shown = |value: &Option<String>| match value.as_deref() {
            None | Some("") => "(none)".to_owned(),
            Some(value) => cut(&one_line(value), CHANGED),
        };
        html! {
            @if !self.changes.is_empty() {
                h2 { "Changes" }
                ul #changes {
                    @for change in self.changes.iter().rev().take(CHANGES) {
                        li dir="auto" { (date(change.at)) ": " (change.field) ": " (shown(&change.old)) " → " (shown(&change.new)) }
                    }
                }
                @if self.changes.len() > CHANGES {
                    p.lead { "the newest " (CHANGES) " of " (grouped(self.changes.len() as u64)) }
                }
            }
        }
    }

    fn posts(&self, page: &Page) -> Markup {
        let namespace = page.routes.namespace.as_deref().and_then(PipelineId::read);
        let posts = namespace.map(|of| PipelineId::posts(&of.provider).to_string()).unwrap_or_default();
        html! {
            @if !self.posts.is_empty() {
                h2 { "Newest collected posts" }
                ul #posts {
                    @for post in &self.posts {
                        li {
                            @match page.routes.to_item_of(&posts, post) {
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
        let step = self.counts.len().div_ceil(POINTS).max(1);
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
        let series = Series { name: "followers".to_owned(), ink: Ink::First, shape: Shape::Dotted, points };
        Some(Chart {
            gist: format!("Followers over {:.0} days: {} at first, {} {until}", -start, first.1, last.1),
            x: Axis::even("days ago", start..0.0, ticks.collect()),
            y: Axis::up_to("followers", most),
            series: vec![series],
            marks: Vec::new(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::account::AccountCounts;

    #[test]
    fn a_lookup_that_did_not_find_the_account_has_no_counts() {
        let (now, day) = (1_700_000_000_000, 86_400_000);
        let counts = AccountCounts { followers: Some(5), ..AccountCounts::default() };
        let mut seen = AccountDetails {
            now,
            account: StoredAccount { checked_at: Some(now - day), ..StoredAccount::default() },
            whereabouts: Whereabouts { places: Vec::new(), stored: None, changes: Vec::new(), ways: Vec::new() },
            changes: Vec::new(),
            counts: vec![CountsAt { checked_at: now - 3 * day, counts }],
            posts: Vec::new(),
            visits: None,
        };
        for (misses, says, until) in [(0, "5 at first, 5 now", -1.0), (1, "5 at first, 5 at the last count", -3.0)] {
            seen.account.misses = misses;
            let chart = seen.chart().unwrap();
            assert_eq!(chart.gist, format!("Followers over 3 days: {says}"));
            assert_eq!(chart.series[0].points.last(), Some(&(until, 5.0)));
        }
    }
}
