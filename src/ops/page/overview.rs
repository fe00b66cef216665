//! The overview of several namespaces: a headline, and a card for each.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::rejection::QueryRejection;
use axum::extract::{Extension, Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Redirect, Response};
use futures::future::{join_all, select_all};
use futures::stream::{self, Stream};
use maud::{Markup, PreEscaped, html};
use tokio::time::MissedTickBehavior;

use super::accounts;
use super::broadcast::PageSnapshot;
use super::events;
use super::format::{describe_error, format_span, one_line, relative_time};
use super::ids::PostId;
use super::layout::{Document, empty_notice, problem_notice};
use super::pages::{FrontPage, Page, reading_now};
use super::polled;
use super::site::Site;
use super::tweet::{self, invalid_id_notice};
use crate::ops::server::Client;
use crate::ops::{Headline, LatestReading, Snapshot};
use engine::base::clock::{self, Millis};
use engine::base::humanize::group_digits;
use engine::quota::CredentialStatus;

/// Minimum interval of updates: namespaces are read independently.
const UPDATE_INTERVAL: Duration = Duration::from_secs(1);

/// `GET /`, of several namespaces.
pub(super) async fn show_page(State(site): State<Arc<Site>>) -> Response {
    let seen = join_all(site.pages.iter().map(|page| page.reader.current())).await;
    let front = site.overview(&seen).await;
    let content = html! {
        h1.unseen { "Is everything fresh?" }
        @let (answer, cards) = front.parts.split_at(1);
        @for (_, part) in answer { (PreEscaped(part)) }
        p.unseen #spoken role="status" data-state=(site.answer(&seen).state) {}
        div.grid { @for (_, part) in cards { (PreEscaped(part)) } }
    };
    let (title, events) = ("Overview".to_owned(), Some("/events".to_owned()));
    let (routes, query) = (&site.routes, String::new());
    Document { routes, title, current_path: "/", at: front.at, now: newest_now(&seen), events, query, content }
        .answer(StatusCode::OK)
}

/// `GET /events`, of several namespaces.
pub(super) async fn stream(State(site): State<Arc<Site>>, Extension(client): Extension<Client>) -> Response {
    // All pages share one process, so the first page's health stands for it.
    let Some(health) = site.pages.first().map(|page| page.whole.health.clone()) else {
        return StatusCode::NOT_FOUND.into_response();
    };
    let watchers = site.watchers.clone();
    let broadcasts = site.broadcasts.clone();
    events::stream_response(&health, &watchers, &client, || broadcasts.watch("overview".to_owned(), || snapshots(site)))
}

/// `GET /find?id=`, of several namespaces: redirects to the item in the namespace that knows it, or to the account of that handle.
pub(super) async fn find(
    State(site): State<Arc<Site>>,
    query: Result<Query<tweet::ItemQuery>, QueryRejection>,
) -> Response {
    let query = query.map_or_else(|_| String::new(), |Query(query)| query.id);
    let answer = |status: StatusCode, title: &str, content: Markup| {
        let (routes, title, query, now) = (&site.routes, title.to_owned(), query.clone(), clock::wall_ms());
        let content = html! { h1 { (title) } (content) };
        Document { routes, title, current_path: "", at: now, now, events: None, query, content }.answer(status)
    };
    let id = match PostId::parse_typed(&query) {
        Ok(id) => id,
        Err(why) => {
            let found = join_all(site.pages.iter().map(|page| page.account_addresses(&query))).await;
            // The page of a namespace that cannot be searched shows the error.
            let addresses: Vec<String> = found.into_iter().filter_map(Result::ok).flatten().collect();
            return match &addresses[..] {
                [] => answer(StatusCode::BAD_REQUEST, "Not an id", invalid_id_notice(&why)),
                [only] => Redirect::to(only).into_response(),
                _ => {
                    let links = html! { @for address in &addresses { p { a href=(address) { (address) } } } };
                    answer(StatusCode::OK, &format!("Accounts called {}", one_line(&query)), links)
                }
            };
        }
    };
    let known = join_all(site.pages.iter().map(async |page| (page, page.load_post(&id).await))).await;
    let having: Vec<&Page> =
        known.iter().filter(|(_, seen)| matches!(seen, Ok(Some(_)))).map(|(page, _)| &***page).collect();
    let out = known.iter().find_map(|(page, seen)| Some((page, seen.as_ref().err()?)));
    let title = format!("Id {id}");
    match (&having[..], out) {
        ([only], None) => Redirect::to(&only.routes.item_address(id.as_str())).into_response(),
        ([], None) => answer(StatusCode::NOT_FOUND, &title, empty_notice("No namespace has it: it was never added.")),
        (having, out) => {
            let status = if having.is_empty() { StatusCode::SERVICE_UNAVAILABLE } else { StatusCode::OK };
            let names = html! {
                @for page in having {
                    p { a href=(page.routes.item_address(id.as_str())) { "In " (page.whole.queue.namespace()) } }
                }
                @if let Some((page, why)) = out {
                    (problem_notice(&format!("{} cannot be searched now: {}", page.whole.queue.namespace(), describe_error(why))))
                }
            };
            answer(status, &title, names)
        }
    }
}

fn snapshots(site: Arc<Site>) -> impl Stream<Item = PageSnapshot> {
    let watch = |page: &Arc<Page>| {
        let mut seen = page.reader.watch();
        // The last reading is sent at once.
        seen.mark_changed();
        seen
    };
    let seen: Vec<_> = site.pages.iter().map(watch).collect();
    let mut pace = tokio::time::interval(UPDATE_INTERVAL);
    pace.set_missed_tick_behavior(MissedTickBehavior::Delay);
    stream::unfold((site, seen, pace), async |(site, mut receivers, mut pace)| {
        pace.tick().await;
        let seen: Vec<LatestReading> = loop {
            let changes = receivers.iter_mut().map(|seen| Box::pin(seen.changed()));
            let (changed, ..) = select_all(changes).await;
            changed.ok()?;
            let seen: Vec<LatestReading> = receivers.iter_mut().map(|seen| seen.borrow_and_update().clone()).collect();
            // Each has been read, or has failed, within a few seconds.
            if seen.iter().all(LatestReading::is_read) {
                break seen;
            }
        };
        let FrontPage { at, parts } = site.overview(&seen).await;
        Some((PageSnapshot { at, now: newest_now(&seen), parts }, (site, receivers, pace)))
    })
}

/// Current time by the clock of the newest figures, or by our own clock if all are old. ms since the epoch.
fn newest_now(readings: &[LatestReading]) -> Millis {
    let fresh = readings.iter().filter(|reading| reading.snapshot.is_some() && reading.outage.is_none());
    fresh.map(reading_now).max().unwrap_or_else(clock::wall_ms)
}

impl Site {
    fn answer(&self, seen: &[LatestReading]) -> Headline {
        let states = seen.iter().map(|seen| Headline::from_reading(seen).state);
        let names = self.routes.all.iter().map(|of| of.name.as_str());
        Headline::summarize(&names.zip(states).collect::<Vec<_>>())
    }

    async fn overview(&self, seen: &[LatestReading]) -> FrontPage {
        let answer = self.answer(seen);
        let headline = html! {
            div.answer #headline { p #answer data-state=(answer.state) { span { (one_line(&answer.sentence)) } } }
        };
        let mut parts = vec![("headline".into(), headline.into_string())];
        for (at, (page, seen)) in self.pages.iter().zip(seen).enumerate() {
            let (id, name) = (format!("namespace-{at}"), page.whole.queue.namespace());
            let card = card(&id, name, &page.routes.address("/"), seen);
            parts.push((id.into(), card.into_string()));
        }
        if let Some(polled) = &self.polled {
            let sources = polled.sources().await;
            parts.push(("sources".into(), polled::section(&sources, newest_now(seen)).into_string()));
        }
        let newest = seen.iter().filter_map(|seen| seen.snapshot.as_ref()).map(|snapshot| snapshot.at_ms()).max();
        FrontPage { at: newest.unwrap_or_else(clock::wall_ms), parts }
    }
}

fn card(id: &str, name: &str, address: &str, seen: &LatestReading) -> Markup {
    let answer = Headline::from_reading(seen);
    let title = format!("{id}-name");
    html! {
        section.panel.card id=(id) aria-labelledby=(title) {
            h2 id=(title) { a href=(address) { (name) } }
            p.verdict data-state=(answer.state) { span { (one_line(&answer.sentence)) } }
            @match &seen.snapshot {
                Some(snapshot) => {
                    @if seen.outage.is_some() {
                        p.bad { "The figures are old: they were read " (relative_time(snapshot.at_ms(), clock::wall_ms(), "ago")) "." }
                    }
                    (facts(snapshot))
                }
                None => p.none { "No figures yet." },
            }
        }
    }
}

fn facts(snapshot: &Snapshot) -> Markup {
    let (all, stats) = (snapshot.total_freshness(), &snapshot.status.stats);
    let parked = snapshot.accounts.iter().filter(|account| account.parked_for_ms > 0).count();
    html! {
        dl.facts {
            div { dt { "Scheduled" } dd { (group_digits(all.ids)) } }
            @if let Some(known) = &snapshot.status.known_accounts { (accounts::facts(known)) }
            @if let Some(lists) = snapshot.status.lists.as_ref().and_then(|lists| lists.figures.as_ref()) {
                div { dt { "Never read" } dd { (group_digits(lists.unread)) } }
            }
            @if let Some(crawls) = &snapshot.status.crawls { div { dt { "Crawls" } dd { (crawls.count_text()) } } }
            div { dt { "Late" } dd { @match all.late { Some(late) => (group_digits(late)), None => "–" } } }
            div { dt { "Oldest due" } dd { @if all.due > 0 { (format_span(all.oldest_lateness_ms)) } @else { "–" } } }
            div {
                dt { "Demand" }
                dd {
                    @match snapshot.status.quota.demand_by_quota {
                        Some(ratio) => { (format!("{ratio:.2}")) " × " small { "quota" } }
                        None => "–",
                    }
                }
            }
            div { dt { "Calls left" } dd { (calls_left(&snapshot.accounts)) } }
            @if parked > 0 {
                div { dt { "Parked" } dd.bad { (group_digits(parked as u64)) " of " (group_digits(snapshot.accounts.len() as u64)) } }
            }
            div { dt { "Workers" } dd { (group_digits(stats.workers.len() as u64)) } }
            div { dt { "Dead" } dd { (group_digits(stats.dead)) } }
        }
    }
}

fn calls_left(accounts: &[CredentialStatus]) -> Markup {
    // Without an open window, all of the limit is left.
    let known: Vec<(u64, u64)> = accounts
        .iter()
        .filter_map(|account| Some((account.remaining.or(account.limit)?.into(), account.limit?.into())))
        .collect();
    let (left, limit) = known.iter().fold((0, 0), |(left, limit), one| (left + one.0, limit + one.1));
    html! {
        @if !known.is_empty() {
            (group_digits(left)) " " small { "of " (group_digits(limit)) }
        } @else if !accounts.is_empty() && accounts.iter().all(|account| account.unmetered) {
            "no limit"
        } @else {
            "–"
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::Outage;

    #[test]
    fn calls_left_are_those_that_are_known() {
        let of = |accounts: &[CredentialStatus]| calls_left(accounts).into_string();
        let known =
            |limit, remaining| CredentialStatus { limit: Some(limit), remaining, ..CredentialStatus::default() };
        assert_eq!(of(&[known(900, Some(25)), known(300, None)]), "325 <small>of 1,200</small>");
        assert_eq!(of(&[known(900, Some(25)), CredentialStatus::default()]), "25 <small>of 900</small>");
        assert_eq!(of(&[CredentialStatus { unmetered: true, ..CredentialStatus::default() }]), "no limit");
        assert_eq!([of(&[CredentialStatus::default()]), of(&[])], ["–", "–"]);
    }

    #[test]
    fn a_queue_that_is_out_says_so_on_its_card() {
        let outage = Some(Outage { why: "no <route>".to_owned(), since_ms: None });
        let text =
            card("namespace-1", "x:update", "/n/x:update/", &LatestReading { outage, ..LatestReading::default() })
                .into_string();
        for says in ["data-state=\"unknown\"", "no &lt;route&gt;", "No figures yet", "href=\"/n/x:update/\""] {
            assert!(text.contains(says), "{says}: {text}");
        }
    }
}
