//! Requests a page of a list, and decides whom a refusal blames: the credential or the list.

use std::sync::OnceLock;

use futures::FutureExt;

use super::handler::ListWork;
use crate::pipelines::blame::{Blame, Refusal, Testimony, acquire_witness_permit, park_after_witness};
use crate::pipelines::item_handler::MeteredWork;
use crate::pipelines::page_call::{self, Reservation};
use engine::base::call_error::ErrorKind;
use engine::base::clock::{self, Stopwatch};
use engine::error_log::ErrorPlace;
use engine::queue::Batch;
use engine::quota::{Credential, Park, Permit};
use engine::worker::Outlook;
use networks::providers::lookup::LookupError;
use networks::providers::metered::{CallReport, make_metered_call};
use networks::providers::relations::{Listing, Members, PageRequest, RelationPage};
use store::CrawlUnderWay;

impl ListWork {
    /// Reserves the reads of a page and requests it; `Err` if no call is allowed now.
    pub(super) async fn request_page(
        &self,
        (batch, owner): (&Batch, &str),
        crawl: &CrawlUnderWay,
        permit: Permit,
    ) -> Result<Result<RelationPage, LookupError>, Outlook> {
        let most = self.relations.capabilities(self.side).page_limit;
        let limit = if self.bounds.page == 0 { most } else { self.bounds.page.min(most) };
        let request = PageRequest { side: self.side, owner, cursor: crawl.cursor.as_deref(), limit };
        let (reservation, permit) = self.reserve(permit, limit).await?;
        let (blame, started, is_trial) = (OnceLock::new(), Stopwatch::start(), permit.is_trial());
        let call = async |credential: &Credential| self.fetch_page(request, credential).await;
        let accounting = async |credential: &Credential, answer: &Result<RelationPage, LookupError>| {
            let mut park = answer.as_ref().err().and_then(LookupError::park);
            match answer {
                Ok(_) => self.evidence.record_answer(&credential.name, [owner]),
                Err(error) if error.is_about_credential() => {
                    let items = [owner.to_owned()];
                    let refused = Refusal { credential: &credential.name, items: &items, started, is_trial };
                    let judged = self
                        .evidence
                        .judge(refused, |witness| self.request_witness(batch, witness, credential).boxed())
                        .await;
                    match blame.get_or_init(|| judged) {
                        Blame::Credential { .. } => self.log_refusal(credential, error),
                        Blame::Items | Blame::Unclear(_) => park = None,
                    }
                }
                Err(_) => {}
            }
            // A credential that may not read lists may still look up posts: it is parked at this endpoint only. The pipeline of
            // posts parks it everywhere if the API refuses it there, too.
            let park = park.map(|park| Park { everywhere: false, ..park });
            let quota = answer.as_ref().ok().and_then(|answer| answer.quota);
            CallReport { quota, park, charged: reservation.into_charges(answer, |page| self.charged_ids(page)) }
        };
        let answer = make_metered_call(&self.credentials, permit, call, accounting).await;
        Ok(match (answer, blame.into_inner()) {
            (Err(error), Some(Blame::Items)) => {
                let (list, why) = (&self.items.namespace, error.to_string());
                tracing::info!(
                    list,
                    owner,
                    why,
                    "the API refuses a list but shows others to the same credential: the list counts as hidden"
                );
                Ok(RelationPage { listing: Listing::Refused, quota: None })
            }
            (Err(error), Some(Blame::Unclear(why))) => {
                Err(LookupError::Outage(format!("{error}; no other list shows whether the credential works: {why}")))
            }
            (Ok(RelationPage { listing: Listing::Members(Members { members, .. }), .. }), _)
                if members.len() > most as usize =>
            {
                let count = members.len();
                Err(LookupError::BadAnswer(format!("a page has {count} members; its limit is {most}")))
            }
            (answer, _) => answer,
        })
    }

    async fn fetch_page(&self, request: PageRequest<'_>, credential: &Credential) -> Result<RelationPage, LookupError> {
        let place = (self.endpoint(), request.owner);
        let call = self.relations.page(request, credential);
        page_call::run_with_timeout(&self.metrics, place, self.call_timeout, call).await
    }

    async fn reserve(&self, permit: Permit, limit: u32) -> Result<(Reservation, Permit), Outlook> {
        let reads = u32::try_from(self.relations.cost(self.side, limit)).unwrap_or(u32::MAX);
        Reservation::reserve(&self.credentials, permit, reads).await
    }

    /// Requests one member of a list that the API showed to this credential before. The answer only shows that the credential works.
    async fn request_witness(&self, batch: &Batch, witness: String, credential: &Credential) -> Testimony {
        let needed = clock::millis(self.call_timeout + 2 * self.items.save_timeout);
        if batch.fence.deadline - batch.now.now() <= needed {
            return Testimony::None("the lease has no time left for another call".to_owned());
        }
        let permit = match acquire_witness_permit(&self.credentials, credential, self.endpoint()).await {
            Ok(permit) => permit,
            Err(none) => return none,
        };
        let (reservation, permit) = match self.reserve(permit, 1).await {
            Ok(reserved) => reserved,
            Err(Outlook::Outage(why)) => return Testimony::None(why),
            Err(_) => return Testimony::None("the budget of reads has no room".to_owned()),
        };
        let request = PageRequest { side: self.side, owner: &witness, cursor: None, limit: 1 };
        let call = async |credential: &Credential| self.fetch_page(request, credential).await;
        let accounting = async |_: &Credential, answer: &Result<RelationPage, LookupError>| CallReport {
            quota: answer.as_ref().ok().and_then(|answer| answer.quota),
            park: park_after_witness(answer),
            charged: reservation.into_charges(answer, |page| self.charged_ids(page)),
        };
        make_metered_call(&self.credentials, permit, call, accounting).await.into()
    }

    fn log_refusal(&self, credential: &Credential, error: &LookupError) {
        let (list, credential) = (&self.items.namespace, &credential.name);
        let pause_ms = error.park().map_or(0, |park| clock::millis(park.pause));
        let place = ErrorPlace { endpoint: self.endpoint(), ..ErrorPlace::default() };
        self.metrics.errors.record(ErrorKind::Credential, &error.to_string(), place);
        tracing::warn!(
            list,
            credential,
            %error,
            pause_ms,
            "the API refuses a list, and no other list shows that the credential works: list reads with this credential pause"
        );
    }

    fn charged_ids(&self, page: &RelationPage) -> Vec<String> {
        let Listing::Members(page) = &page.listing else { return Vec::new() };
        page.members.iter().flat_map(|member| self.relations.read_keys(&member.id)).collect()
    }
}
