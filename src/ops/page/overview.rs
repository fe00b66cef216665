//! The overview of several namespaces: is everything fresh, and if not, where not, and why?

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
use super::broadcast::Shot;
use super::events;
use super::ids::PostId;
use super::layout::{Document, nothing, problem};
use super::pages::{Front, Page, now};
use super::polled;
use super::site::Site;
use super::tweet::{self, no_post};
use super::words::{error, one_line, relative, time};
use crate::base::clock::{self, Millis};
use crate::base::humanize::grouped;
use crate::ops::server::Client;
use crate::ops::{Answer, LatestReading, Snapshot};
use crate::quota::CredentialStatus;

/// Interval of updates. Each namespace is read on its own, and none may hurry the rest.
const EVERY: Duration = Duration::from_secs(1);

/// `GET /`, of several namespaces.
pub(super) async fn show(State(site): State<Arc<Site>>) -> Response {
    let seen = join_all(site.pages.iter().map(|page| page.reader.look())).await;
    let front = site.overview(&seen).await;
    let content = html! {
        h1.unseen { "Is everything fresh?" }
        @let (answer, cards) = front.parts.split_at(1);
        @for (_, part) in answer { (PreEscaped(part)) }
        p.unseen #spoken role="status" data-state=(site.answer(&seen).state) {}
        div.grid { @for (_, part) in cards { (PreEscaped(part)) } }
    };
    let (title, events) = ("Overview".to_owned(), Some("/events".to_owned()));
    let (routes, asked) = (&site.routes, String::new());
    Document { routes, title, here: "/", at: front.at, now: of_now(&seen), events, asked, content }
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
    events::answer(&health, &watchers, &client, || broadcasts.watch("overview".to_owned(), || shots(site)))
}

/// `GET /find?id=`, of several namespaces: redirects to the item in the namespace that knows it, or to the account of that handle.
pub(super) async fn find(
    State(site): State<Arc<Site>>,
    asked: Result<Query<tweet::ItemQuery>, QueryRejection>,
) -> Response {
    let asked = asked.map_or_else(|_| String::new(), |Query(asked)| asked.id);
    let answer = |status: StatusCode, title: &str, content: Markup| {
        let (routes, title, asked, now) = (&site.routes, title.to_owned(), asked.clone(), clock::wall_ms());
        let content = html! { h1 { (title) } (content) };
        Document { routes, title, here: "", at: now, now, events: None, asked, content }.answer(status)
    };
    let id = match PostId::typed(&asked) {
        Ok(id) => id,
        Err(why) => {
            let called = join_all(site.pages.iter().map(|page| page.called(&asked))).await;
            // A namespace that cannot be searched now says so on its own page.
            let addresses: Vec<String> = called.into_iter().filter_map(Result::ok).flatten().collect();
            return match &addresses[..] {
                [] => answer(StatusCode::BAD_REQUEST, "Not an id", no_post(&why)),
                [only] => Redirect::to(only).into_response(),
                _ => {
                    let links = html! { @for address in &addresses { p { a href=(address) { (address) } } } };
                    answer(StatusCode::OK, &format!("Accounts called {}", one_line(&asked)), links)
                }
            };
        }
    };
    let known = join_all(site.pages.iter().map(async |page| (page, page.tweet(&id).await))).await;
    let having: Vec<&Page> =
        known.iter().filter(|(_, seen)| matches!(seen, Ok(Some(_)))).map(|(page, _)| &***page).collect();
    let out = known.iter().find_map(|(page, seen)| Some((page, seen.as_ref().err()?)));
    let title = format!("Id {id}");
    match (&having[..], out) {
        ([only], None) => Redirect::to(&only.routes.to_item(id.as_str())).into_response(),
        ([], None) => answer(StatusCode::NOT_FOUND, &title, nothing("No namespace knows it: it was never put in.")),
        (having, out) => {
            let status = if having.is_empty() { StatusCode::SERVICE_UNAVAILABLE } else { StatusCode::OK };
            let names = html! {
                @for page in having {
                    p { a href=(page.routes.to_item(id.as_str())) { "In " (page.whole.queue.namespace()) } }
                }
                @if let Some((page, why)) = out {
                    (problem(&format!("{} cannot be searched now: {}", page.whole.queue.namespace(), error(why))))
                }
            };
            answer(status, &title, names)
        }
    }
}

fn shots(site: Arc<Site>) -> impl Stream<Item = Shot> {
    let watch = |page: &Arc<Page>| {
        let mut seen = page.reader.watch();
        // The last reading is sent at once.
        seen.mark_changed();
        seen
    };
    let seen: Vec<_> = site.pages.iter().map(watch).collect();
    let mut pace = tokio::time::interval(EVERY);
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
        let Front { at, parts } = site.overview(&seen).await;
        Some((Shot { at, now: of_now(&seen), parts }, (site, receivers, pace)))
    })
}

/// Current time by the clock of the newest figures, or by our own clock if all are old. ms since the epoch.
fn of_now(seen: &[LatestReading]) -> Millis {
    let fresh = seen.iter().filter(|seen| seen.snapshot.is_some() && seen.outage.is_none());
    fresh.map(now).max().unwrap_or_else(clock::wall_ms)
}

impl Site {
    fn answer(&self, seen: &[LatestReading]) -> Answer {
        let states = seen.iter().map(|seen| Answer::of(seen).state);
        let names = self.routes.all.iter().map(|(name, _)| name.as_str());
        Answer::of_all(&names.zip(states).collect::<Vec<_>>())
    }

    async fn overview(&self, seen: &[LatestReading]) -> Front {
        let answer = self.answer(seen);
        let headline = html! {
            div.answer #headline { p #answer data-state=(answer.state) { span { (one_line(&answer.sentence)) } } }
        };
        let mut parts = vec![("headline".into(), headline.into_string())];
        for (at, (page, seen)) in self.pages.iter().zip(seen).enumerate() {
            let (id, name) = (format!("namespace-{at}"), page.whole.queue.namespace());
            let card = card(&id, name, &page.routes.to("/"), seen);
            parts.push((id.into(), card.into_string()));
        }
        if let Some(polled) = &self.polled {
            let sources = polled.sources().await;
            parts.push(("sources".into(), polled::section(&sources, of_now(seen)).into_string()));
        }
        let newest = seen.iter().filter_map(|seen| seen.snapshot.as_ref()).map(|snapshot| snapshot.at_ms()).max();
        Front { at: newest.unwrap_or_else(clock::wall_ms), parts }
    }
}

fn card(id: &str, name: &str, address: &str, seen: &LatestReading) -> Markup {
    let answer = Answer::of(seen);
    let title = format!("{id}-name");
    html! {
        section.panel.card id=(id) aria-labelledby=(title) {
            h2 id=(title) { a href=(address) { (name) } }
            p.verdict data-state=(answer.state) { span { (one_line(&answer.sentence)) } }
            @match &seen.snapshot {
                Some(snapshot) => {
                    @if seen.outage.is_some() {
                        p.bad { "The figures are old: they were read " (relative(snapshot.at_ms(), clock::wall_ms(), "ago")) "." }
                    }
                    (facts(snapshot))
                }
                None => p.none { "No figures yet." },
            }
        }
    }
}

fn facts(snapshot: &Snapshot) -> Markup {
    let (all, stats) = (snapshot.freshness_of_all(), &snapshot.status.stats);
    let parked = snapshot.accounts.iter().filter(|account| account.parked_for_ms > 0).count();
    html! {
        dl.facts {
            div { dt { "Scheduled" } dd { (grouped(all.ids)) } }
            @if let Some(known) = &snapshot.status.known_accounts { (accounts::facts(known)) }
            @if let Some(lists) = snapshot.status.lists.as_ref().and_then(|lists| lists.figures.as_ref()) {
                div { dt { "Never read" } dd { (grouped(lists.unread)) } }
            }
            @if let Some(crawls) = &snapshot.status.crawls { div { dt { "Crawls" } dd { (crawls.count()) } } }
            div { dt { "Late" } dd { @match all.late { Some(late) => (grouped(late)), None => "–" } } }
            div { dt { "Oldest due" } dd { @if all.due > 0 { (time(all.oldest_lateness_ms)) } @else { "–" } } }
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
                div { dt { "Parked" } dd.bad { (grouped(parked as u64)) " of " (grouped(snapshot.accounts.len() as u64)) } }
            }
            div { dt { "Workers" } dd { (grouped(stats.workers.len() as u64)) } }
            div { dt { "Dead" } dd { (grouped(stats.dead)) } }
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
            (grouped(left)) " " small { "of " (grouped(limit)) }
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
