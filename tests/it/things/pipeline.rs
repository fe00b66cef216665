//! A pipeline, whole: things, which an API tells of by their ids. This file and its line of registration are all there is.
//! Its things have makers, which are a pipeline of their own (`makers.rs`).

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use async_trait::async_trait;
use serde::Deserialize;
use twitter_updater::base::clock::Millis;
use twitter_updater::config::{BadConfig, Settings};
use twitter_updater::engine::queue::Lane;
use twitter_updater::engine::schedule::{Next, Schedule, ScheduledItem};
use twitter_updater::model::pipeline_id::PipelineId;
use twitter_updater::model::post::BadId;
use twitter_updater::pipelines::kind::{Intake, OpenContext, OpenPipeline, PipelineKind, Presentation};
use twitter_updater::pipelines::refresh::{Item, Judge, Mentions};
use twitter_updater::pipelines::registry::Registry;
use twitter_updater::providers::http::{HttpClient, HttpOptions};
use twitter_updater::providers::lookup::{
    Answer, Capabilities, Charge, Lookup, LookupError, Outcome, UnsolicitedObjects,
};
use twitter_updater::providers::twitter_v1::limits::quota;
use twitter_updater::quota::Credential;
use twitter_updater::store::{Object, Observation, SaveCounts, Standing, Store, StoreError};

/// The line of registration.
pub fn registry() -> Registry {
    Registry::default().with(Things)
}

/// What a call takes at that endpoint.
pub const fn capabilities(endpoint: &'static str) -> Capabilities {
    Capabilities { batch_limit: 20, charge: Charge::PerCall, endpoint }
}

/// A thing as the API tells of it.
#[derive(Debug, Clone, Deserialize)]
pub struct Thing {
    id: String,
    maker: Option<String>,
    #[serde(skip)]
    raw: String,
}

impl Item for Thing {
    fn id(&self) -> &str {
        &self.id
    }

    fn created_at(&self) -> Option<Millis> {
        None
    }
}

/// The lookup: `GET /things?ids=1,2`, answered by a list of those that there are, and by what is left of the quota.
#[derive(Debug)]
pub struct Shelf {
    http: HttpClient,
    address: String,
    endpoint: &'static str,
}

impl Shelf {
    pub fn of(opening: &OpenContext, endpoint: &'static str) -> Result<Arc<Self>> {
        let (_, address) = opening.settings.api(&opening.id.provider)?;
        let http = HttpClient::new(&HttpOptions::default()).map_err(|why| BadConfig(why.to_string()))?;
        Ok(Arc::new(Self { http, address: address.trim_end_matches('/').to_owned(), endpoint }))
    }
}

#[async_trait]
impl Lookup<Thing> for Shelf {
    fn capabilities(&self) -> Capabilities {
        capabilities(self.endpoint)
    }

    fn created_at(&self, id: &str) -> Result<Option<Millis>, BadId> {
        date_of(id)
    }

    async fn look_up(&self, ids: &[String], _: &Credential) -> Result<Answer<Thing>, LookupError> {
        let Self { http, address, endpoint } = self;
        let request = http.client().get(format!("{address}/{endpoint}?ids={}", ids.join(","))).build();
        let reply = http.send(request.map_err(|error| LookupError::Stop(error.to_string()))?).await?;
        match reply.status {
            200 => {}
            400 => return Err(LookupError::BadRequest(String::from_utf8_lossy(&reply.body).into_owned())),
            status => return Err(LookupError::Outage(format!("HTTP {status}"))),
        }
        let found: Vec<serde_json::Value> =
            serde_json::from_slice(&reply.body).map_err(|error| LookupError::BadAnswer(error.to_string()))?;
        let outcome = |id: &String| match found.iter().find(|thing| thing["id"] == **id) {
            Some(thing) => match Thing::deserialize(thing) {
                Ok(read) => Outcome::Found(Thing { raw: thing.to_string(), ..read }),
                Err(why) => Outcome::Broken(why.to_string()),
            },
            None => Outcome::Unavailable,
        };
        Ok(Answer::new(ids.iter().map(outcome).collect(), quota(&reply), UnsolicitedObjects::default()))
    }
}

/// The judge: a thing's maker follows from it, and its object is kept.
pub struct Keeper;

#[async_trait]
impl Judge for Keeper {
    type Item = Thing;

    fn fan_out(&self, thing: &Thing, before: Option<&Standing>, named: &mut Mentions) {
        // The first time that it is found; a maker does not change.
        if let (Some(maker), false) = (&thing.maker, before.is_some_and(Standing::was_found)) {
            named.add_id("makers", maker);
        }
    }

    async fn save(
        &self,
        store: &dyn Store,
        namespace: &str,
        answers: &[Observation<Thing>],
    ) -> Result<SaveCounts, StoreError> {
        let object = |thing: &Thing| Object { created_at: None, raw: thing.raw.clone() };
        let answers: Vec<Observation> = answers.iter().map(|answer| answer.to_object(object)).collect();
        store.save(namespace, &answers).await
    }
}

/// The lane rule: even ids every two seconds, odd ones every three.
#[derive(Debug)]
struct ByNumber;

impl Schedule for ByNumber {
    fn next(&self, item: &ScheduledItem<'_>, _: Millis) -> Option<Next> {
        let (name, seconds) = if item.id.ends_with(['0', '2', '4', '6', '8']) { ("even", 2) } else { ("odd", 3) };
        let lane = Lane::new(name, Duration::from_secs(seconds));
        let interval = lane.patience;
        Some((lane, interval))
    }

    fn first(&self, item: &ScheduledItem<'_>, now: Millis) -> Option<Next> {
        self.next(item, now).map(|(lane, _)| (lane, 0)) // at once
    }
}

/// The kind: all of the above, by name.
#[derive(Debug)]
pub struct Things;

impl Presentation for Things {}

#[async_trait]
impl PipelineKind for Things {
    fn pipelines(&self, settings: &Settings) -> Result<Vec<PipelineId>, BadConfig> {
        Ok(settings.providers()?.iter().map(|provider| PipelineId::items(provider, "things")).collect())
    }

    fn capabilities(&self, _: &PipelineId) -> Capabilities {
        capabilities("things")
    }

    fn schedule(&self, _: &PipelineId, _: &Settings) -> Arc<dyn Schedule> {
        Arc::new(ByNumber)
    }

    fn intake(&self, _: &PipelineId) -> Intake {
        Intake::ids(Arc::new(date_of))
    }

    async fn open(&self, opening: OpenContext) -> Result<OpenPipeline> {
        let shelf = Shelf::of(&opening, "things")?;
        Ok(opening.refresher(shelf, Keeper))
    }
}

/// A thing's number says nothing of its age.
pub fn date_of(id: &str) -> Result<Option<Millis>, BadId> {
    let is_number = !id.is_empty() && id.chars().all(|c| c.is_ascii_digit());
    if is_number { Ok(None) } else { Err(BadId::Form("the id is no thing's: digits alone")) }
}
