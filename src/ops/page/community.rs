//! Communities: size and growth, what led to candidates, near misses, and why an account belongs.

use std::time::Duration;

use maud::{Markup, html};
use tokio::sync::Mutex;

use super::chart::{Axis, Chart, Ink, Series, Shape};
use super::hands::token_field;
use super::layout::problem;
use super::pages::Page;
use super::words::{date, error, relative};
use crate::base::clock::{self, Millis, Stopwatch};
use crate::base::humanize::{grouped, one_line};
use crate::model::community::{Belonging, Finding};
use crate::model::pipeline_id::{Kind, PipelineId};
use crate::pipelines::community::shown::COMMUNITY;
use crate::pipelines::community::network;
use crate::pipelines::profiles::PROFILES;
use crate::store::{
    BelongingChange, Communities, CommunityAccount, CommunitySize, StoreError, StoredAppearance,
};

/// How often all is counted, while somebody watches.
const EVERY: Duration = Duration::from_secs(15);
/// The time limit: the rest of the page waits for it.
const PATIENCE: Duration = Duration::from_millis(500);
/// Near misses that are listed.
const NEAR: u32 = 20;
/// Points of the chart, at the most.
const POINTS: u32 = 400;
/// Appearances of an account that are listed.
const APPEARANCES: u32 = 20;
const HOUR_MS: f64 = 3_600_000.0;

/// What was read of a community.
#[derive(Debug, Default)]
struct Read {
    size: CommunitySize,
    growth: Vec<CommunitySize>,
    by_reason: Vec<(String, String, i64)>,
    near: Vec<CommunityAccount>,
}

/// What was read last, for all who watch.
#[derive(Debug, Default)]
pub(super) struct CommunityRead(Mutex<Option<(Stopwatch, Result<Read, String>)>>);

/// Returns true if a namespace is that of a community.
pub(super) fn is_community(namespace: &str) -> bool {
    PipelineId::read(namespace).is_some_and(|id| id.kind == Kind::Items(COMMUNITY.to_owned()))
}

async fn read(communities: &dyn Communities, namespace: &str, threshold: f64) -> Result<Read, StoreError> {
    let network = PipelineId::read(namespace).map(|id| network(&id.provider));
    let Some(network) = network else { return Ok(Read::default()) };
    Ok(Read {
        size: communities.size(namespace, network.neighbours(), clock::wall_ms()).await?,
        growth: communities.growth(namespace, 0, POINTS).await?,
        by_reason: communities.by_reason(namespace).await?,
        near: communities.near_misses(namespace, threshold, NEAR).await?,
    })
}

/// An account in a community.
#[derive(Debug)]
struct Known {
    namespace: String,
    account: CommunityAccount,
    changes: Vec<BelongingChange>,
    appearances: Vec<StoredAppearance>,
}

/// An account in the communities that know it; or why that is unknown.
pub(super) struct Belongs(Result<Vec<Known>, String>);

impl Page {
    /// `#community`, as read a moment ago.
    pub(super) async fn community_section(&self) -> Markup {
        let mut last = self.community.0.lock().await;
        let known = match last.take() {
            Some((watch, known)) if watch.elapsed() < EVERY => last.insert((watch, known)),
            _ => {
                let threshold = self.whole.terms.load().threshold.unwrap_or(0.0);
                let asked = tokio::time::timeout(PATIENCE, async {
                    let database = self.database.load();
                    let database = database.as_ref().as_ref().map_err(Clone::clone)?;
                    let read = read(&*database.communities, self.whole.queue.namespace(), threshold).await;
                    read.map_err(|error| error.to_string())
                });
                let silent = |_| Err(format!("no answer within {} ms", PATIENCE.as_millis()));
                last.insert((Stopwatch::start(), asked.await.unwrap_or_else(silent)))
            }
        };
        section(&known.1, &|id| self.to_account(id))
    }

    /// Where an account of the community is shown.
    fn to_account(&self, id: &str) -> String {
        let provider = PipelineId::read(self.whole.queue.namespace()).map(|id| id.provider);
        let profiles = provider.map(|of| PipelineId::items(&of, PROFILES).to_string()).unwrap_or_default();
        self.routes.to_item_of(&profiles, id).unwrap_or_else(|| self.routes.to_item(id))
    }

    /// The account of that id in all communities of its network.
    pub(super) async fn belongs(&self, id: &str) -> Belongs {
        let database = self.database.load();
        let read = match database.as_ref() {
            Ok(database) => self.archive.ask(async |_| self.read_belongs(&*database.communities, id).await).await,
            Err(why) => Err(why.clone()),
        };
        Belongs(read)
    }

    async fn read_belongs(&self, communities: &dyn Communities, id: &str) -> Result<Vec<Known>, StoreError> {
        let own = self.whole.queue.namespace();
        let provider = PipelineId::read(own).map(|id| id.provider);
        let is_near = |namespace: &&String| {
            is_community(namespace) && PipelineId::read(namespace).map(|id| id.provider) == provider
        };
        let own = own.to_owned();
        let all = self.routes.all.iter().map(|(namespace, _)| namespace).chain(std::iter::once(&own));
        let mut namespaces: Vec<&String> = all.filter(is_near).collect();
        namespaces.sort();
        namespaces.dedup();
        let mut known = Vec::new();
        for namespace in namespaces {
            let Some(account) = communities.community_account(namespace, id).await? else { continue };
            let changes = communities.belonging_changes(namespace, id).await?;
            let appearances = communities.appearances(namespace, id, APPEARANCES).await?;
            known.push(Known { namespace: namespace.clone(), account, changes, appearances });
        }
        Ok(known)
    }

    /// Where a form about a community's account is sent to.
    fn to_decide(&self, namespace: &str) -> String {
        let root = self.routes.all.iter().find(|(name, _)| name == namespace).map(|(_, root)| root.clone());
        root.map_or_else(|| self.routes.to("/belong"), |root| format!("{root}/belong"))
    }
}

impl Belongs {
    /// Nothing where no community knows it.
    pub(super) fn markup(&self, page: &Page) -> Markup {
        let all = match &self.0 {
            Ok(all) => all,
            Err(why) => return html! { h2 { "Communities" } (problem(&format!("They are unknown: {}", error(why)))) },
        };
        html! { @for known in all { (known.section(page)) } }
    }
}

/// What a state means, after "it".
fn meaning(state: Belonging) -> &'static str {
    match state {
        Belonging::Seen => "appeared, and is no candidate yet",
        Belonging::Candidate => "is a candidate: evidence is being collected",
        Belonging::Open => "is undecided: the evidence is not enough either way",
        Belonging::Member => "belongs",
        Belonging::Outside => "does not belong",
    }
}

fn name_of(namespace: &str) -> String {
    PipelineId::read(namespace).and_then(|id| id.partition).unwrap_or_else(|| namespace.to_owned())
}

fn evidence(account: &CommunityAccount) -> Vec<Finding> {
    let evidence = account.evidence.as_deref();
    evidence.and_then(|evidence| serde_json::from_str(evidence).ok()).unwrap_or_default()
}

impl Known {
    fn section(&self, page: &Page) -> Markup {
        let Self { namespace, account, changes, appearances } = self;
        let (name, findings) = (name_of(namespace), evidence(account));
        html! {
            section.panel id=(format!("belongs-{name}")) aria-label=(format!("Community {name}")) {
                h2 { "Community " (name) }
                p.lead { "It " strong { (meaning(account.state)) } ", since " (date(account.decided_at)) "." }
                @match (&account.by_hand, account.judged_at) {
                    (Some(who), _) => {
                        p {
                            "Decided by " (one_line(who)) ": "
                            (account.why.as_deref().filter(|why| !why.is_empty()).map_or("no reason was given".to_owned(), one_line))
                        }
                    }
                    (None, Some(at)) => {
                        p {
                            "Judged at " (date(at)) ", score "
                            @match account.score { Some(score) => (format!("{score:+.2}")), None => "unknown: nothing is known of it yet" }
                            @if let Some(rule) = &account.rule { span.quiet { " (rule " (rule) ")" } }
                        }
                    }
                    (None, None) => p { "Not judged yet." },
                }
                @if !findings.is_empty() {
                    ul.evidence {
                        @for Finding { test, says, weight, about } in &findings {
                            li dir="auto" { (test) ": " (format!("{says:+.2}")) " × " (format!("{weight:.2}")) ": " (one_line(about)) }
                        }
                    }
                }
                @if !appearances.is_empty() {
                    p { "It appeared " (account.appearances) " times; first:" }
                    ul {
                        @for of in appearances {
                            li { (of.reason) " by " (one_line(&of.source)) ", " (date(of.first_at)) }
                        }
                    }
                }
                @if !changes.is_empty() {
                    ul.changes {
                        @for change in changes.iter().rev() {
                            li {
                                (date(change.at)) ": " (change.old_state.as_deref().unwrap_or("unknown")) " → " (change.new_state)
                                @if let Some(who) = &change.by_hand { " by " (one_line(who)) }
                            }
                        }
                    }
                }
                (decide_form(page, namespace, &account.account))
            }
        }
    }
}

/// Decides about an account; nothing where nobody may.
fn decide_form(page: &Page, namespace: &str, account: &str) -> Markup {
    if page.in_common.token.is_none() {
        return html! {};
    }
    html! {
        form.act method="post" action=(page.to_decide(namespace)) {
            input type="hidden" name="id" value=(account);
            select name="words" aria-label="Decision" {
                option value="member" { "belongs" }
                option value="outside" { "does not belong" }
                option value="candidate" { "leave it to the rule" }
            }
            input name="reason" maxlength="200" placeholder="The reason" aria-label="Reason";
            (token_field())
            button type="submit" { "Decide" }
        }
    }
}

fn section(read: &Result<Read, String>, address: &dyn Fn(&str) -> String) -> Markup {
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
                                    @for of in evidence(account) { "; " (one_line(&of.about)) }
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

/// Members and candidates over time.
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

    #[test]
    fn a_community_is_told_or_why_not() {
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
