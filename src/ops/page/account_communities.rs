//! State of an account in its communities, with the evidence, and the form for a person's decision.

use maud::{Markup, html};

use super::actions::token_field;
use super::community::community_name;
use super::format::{date, describe_error, one_line};
use super::layout::problem_notice;
use super::pages::Page;
use crate::ops::NoAnswer;
use collect::pipelines::kind::ItemContent;
use collect::pipelines::profiles::PROFILES;
use networks::model::community::{Belonging, EvidenceItem};
use networks::model::pipeline_id::PipelineId;
use store::{BelongingChange, Communities, CommunityAccount, StoreError, StoredAppearance};

const APPEARANCES: u32 = 20;

#[derive(Debug)]
struct CommunityRecord {
    namespace: String,
    account: CommunityAccount,
    changes: Vec<BelongingChange>,
    appearances: Vec<StoredAppearance>,
}

/// Records of an account in its communities, or the error of reading them.
pub(super) struct AccountCommunities(Result<Vec<CommunityRecord>, NoAnswer>);

impl Page {
    pub(super) async fn community_section(&self) -> Markup {
        let database = self.database.load();
        let threshold = self.whole.terms.load().threshold.unwrap_or(0.0);
        let namespace = self.whole.queue.namespace();
        self.community.section(&database, namespace, threshold, &|id| self.account_address(id)).await
    }

    fn account_address(&self, id: &str) -> String {
        let provider = PipelineId::parse(self.whole.queue.namespace()).map(|id| id.provider);
        let profiles = provider.map(|of| PipelineId::items(&of, PROFILES).to_string()).unwrap_or_default();
        self.routes.item_address_in(&profiles, id).unwrap_or_else(|| self.routes.item_address(id))
    }

    pub(super) async fn load_communities(&self, id: &str) -> AccountCommunities {
        let database = self.database.load();
        let read = match database.as_ref() {
            Ok(database) => self.archive.query(async |_| self.read_communities(&*database.communities, id).await).await,
            Err(why) => Err(why.clone()),
        };
        AccountCommunities(read)
    }

    async fn read_communities(
        &self,
        communities: &dyn Communities,
        id: &str,
    ) -> Result<Vec<CommunityRecord>, StoreError> {
        let own = self.whole.queue.namespace();
        let provider = PipelineId::parse(own).map(|id| id.provider);
        let communities_shown = self.routes.all.iter().filter(|of| of.content == ItemContent::CommunityAccounts);
        let own = (self.content() == ItemContent::CommunityAccounts).then_some(own);
        let all = communities_shown.map(|of| of.name.as_str()).chain(own);
        let is_near = |namespace: &&str| PipelineId::parse(namespace).map(|id| id.provider) == provider;
        let mut namespaces: Vec<&str> = all.filter(is_near).collect();
        namespaces.sort();
        namespaces.dedup();
        let mut known = Vec::new();
        for namespace in namespaces {
            let Some(account) = communities.community_account(namespace, id).await? else { continue };
            let changes = communities.belonging_changes(namespace, id).await?;
            let appearances = communities.appearances(namespace, id, APPEARANCES).await?;
            known.push(CommunityRecord { namespace: namespace.to_owned(), account, changes, appearances });
        }
        Ok(known)
    }

    fn decision_address(&self, namespace: &str) -> String {
        let of = self.routes.all.iter().find(|of| of.name == namespace);
        of.map_or_else(|| self.routes.address("/belong"), |of| format!("{}/belong", of.root))
    }
}

impl AccountCommunities {
    /// Empty if no community knows the account.
    pub(super) fn markup(&self, page: &Page) -> Markup {
        let all = match &self.0 {
            Ok(all) => all,
            Err(why) => {
                let why = format!("The communities of this account are unknown: {}", describe_error(why));
                return html! { h2 { "Communities" } (problem_notice(&why)) };
            }
        };
        html! { @for known in all { (known.section(page)) } }
    }
}

/// Completes the sentence "It …".
fn meaning(state: Belonging) -> &'static str {
    match state {
        Belonging::Seen => "appeared, and is no candidate yet",
        Belonging::Candidate => "is a candidate: evidence is being collected",
        Belonging::Open => "is undecided: the evidence is not enough either way",
        Belonging::Member => "belongs",
        Belonging::Outside => "does not belong",
    }
}

impl CommunityRecord {
    fn section(&self, page: &Page) -> Markup {
        let Self { namespace, account, changes, appearances } = self;
        let (name, findings) = (community_name(namespace), account.parse_evidence());
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
                            @match account.score { Some(score) => (format!("{score:+.2}")), None => "unknown: no evidence yet" }
                            @if let Some(rule) = &account.rule { span.quiet { " (rule " (rule) ")" } }
                        }
                    }
                    (None, None) => p { "Not judged yet." },
                }
                @if !findings.is_empty() {
                    ul.evidence {
                        @for EvidenceItem { test, says, weight, about } in &findings {
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

/// The form for a decision about an account; empty without a token.
fn decide_form(page: &Page, namespace: &str, account: &str) -> Markup {
    if page.shared.token.is_none() {
        return html! {};
    }
    html! {
        form.act method="post" action=(page.decision_address(namespace)) {
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
