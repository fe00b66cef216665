//! The files of media: scripted hosts, the place where files are kept, and what must be there at the end.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::Notify;
use twitter_updater::base::clock::Millis;
use twitter_updater::engine::queue::Place;
use twitter_updater::ingest::Queued;
use twitter_updater::model::media::{MediaKind, MediaState, Medium};
use twitter_updater::model::post::ItemState;
use twitter_updater::pipelines::media::arrivals::Arrivals;
use twitter_updater::pipelines::media::fetch::{Fetch, Fetched, Stored, Wanted};
use twitter_updater::pipelines::media::files::Whole;
use twitter_updater::pipelines::media::handler::{MediaHandler, Retrying};
use twitter_updater::pipelines::media::hosts::{Hosts, Politeness};
use twitter_updater::pipelines::refresh::{Mention, Receiver};
use twitter_updater::store::{MediaStore, Posts};

use super::link::LinkedStore;
use super::network::{Service, Way};
use super::process::Parts;
use super::provider::{Mood, Nature, Provider};
use super::world::{NAMESPACE, World};

/// The pause after a failure at first, and the longest.
pub const PAUSES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(20));
/// How long a medium may fail.
const GIVE_UP_AFTER: Duration = Duration::from_secs(60);
/// Hosts, by the last digit of the id.
const HOSTS: usize = 3;

/// What hosts have told, and the files that are kept.
#[derive(Debug, Default)]
pub struct Files {
    kept: Mutex<BTreeSet<String>>,
    /// The states in which a medium may end, by what was told of it.
    told: Mutex<BTreeMap<String, BTreeSet<MediaState>>>,
}

/// The hash of a medium's file.
fn hash_of(id: &str) -> String {
    format!("{id:0>64}")
}

impl Files {
    fn take(&self, id: &str, fetched: Fetched) -> Fetched {
        let state = match &fetched {
            Fetched::Stored(stored) => {
                self.kept.lock().unwrap().insert(stored.file.sha256.clone());
                MediaState::Stored
            }
            Fetched::Gone(_) => MediaState::Gone,
            Fetched::Refused(_) => MediaState::Refused,
            Fetched::Doubted { state, .. } => *state,
            Fetched::Failed { .. } => MediaState::Failed,
            Fetched::Partly | Fetched::Later(_) | Fetched::Disk(_) => return fetched,
        };
        self.told.lock().unwrap().entry(id.to_owned()).or_default().insert(state);
        fetched
    }
}

impl Provider {
    /// The answer of a medium's host.
    async fn file(&self, id: &str) -> Fetched {
        let failed = |why: &str, after| Fetched::Failed { why: why.to_owned(), is_of_host: true, after };
        match self.mood() {
            Mood::Works => {}
            Mood::Silent => std::future::pending().await,
            Mood::OverCapacity | Mood::Refuses(_) | Mood::Alternates => return failed("HTTP 503", None),
            Mood::Throttles => return failed("HTTP 429", Some(Duration::from_secs(5))),
            Mood::Rubbish => {
                return Fetched::Doubted { state: MediaState::Refused, why: "a page to sign in".to_owned() };
            }
            Mood::Full => return Fetched::Disk("the folder of media is full".to_owned()),
        }
        let now = self.now();
        let odd_minute = now.div_euclid(60_000) % 2 == 1;
        match self.nature(id).unwrap() {
            Nature::Withheld => Fetched::Refused("larger than media.max_bytes".to_owned()),
            Nature::Broken if odd_minute => Fetched::Partly,
            Nature::GoneAt(since) if now >= since => Fetched::Gone("HTTP 410".to_owned()),
            Nature::Flaps(turn) if now.div_euclid(turn) % 2 == 1 => failed("HTTP 500", None),
            Nature::PoisonUntil(until) if now < until => {
                Fetched::Failed { why: "it broke off after 7 bytes".to_owned(), is_of_host: false, after: None }
            }
            _ => {
                let file = Whole { sha256: hash_of(id), bytes: 1_000, kind: "image/png" };
                Fetched::Stored(Stored { file, is_new: true, is_continued: false, smaller: None })
            }
        }
    }
}

/// The hosts as one process sees them.
struct LinkedFetch {
    way: Arc<Way>,
    world: Arc<World>,
    hosts: Hosts,
    killed: Arc<Notify>,
}

#[async_trait]
impl Fetch for LinkedFetch {
    async fn fetch(&self, wanted: Wanted<'_>, within: Duration) -> Fetched {
        let host = (usize::from(wanted.id.bytes().last().unwrap()) % HOSTS).to_string();
        let _place = match self.hosts.enter(&host).await {
            Ok(place) => place,
            Err(rest) => return Fetched::Later(rest),
        };
        let ids = [wanted.id.to_owned()];
        self.world.provider.note_call(self.way.process, &ids);
        let (provider, id) = (self.world.provider.clone(), wanted.id.to_owned());
        let within = within.min(self.world.setup.lookup_timeout);
        let answer = self.way.call(Service::Api, within, async move { provider.file(&id).await }).await;
        if answer.is_ok() && self.world.provider.kills(&ids) {
            self.killed.notify_one();
            std::future::pending::<()>().await;
        }
        let lost = |why| Fetched::Failed { why: format!("{why:?}"), is_of_host: true, after: None };
        let fetched = answer.unwrap_or_else(lost);
        if let Fetched::Stored(Stored { file, .. }) = &fetched {
            let taken = self.world.store.take_file(&file.sha256, 1_000, self.world.provider.now(), 0);
            taken.await.unwrap();
        }
        match &fetched {
            Fetched::Failed { is_of_host: true, after, .. } => self.hosts.failed(&host, *after),
            Fetched::Doubted { .. } => {}
            _ => self.hosts.answers(&host),
        }
        self.world.files.take(wanted.id, fetched)
    }
}

/// The handler of media in a process.
pub fn handler(parts: Parts<'_>, world: &Arc<World>, way: &Arc<Way>, killed: &Arc<Notify>) -> MediaHandler {
    let (first_pause, longest_pause) = PAUSES;
    let hosts = Hosts::new(Politeness { per_host: 4, first_pause, longest_pause });
    MediaHandler {
        namespace: NAMESPACE.to_owned(),
        fetcher: Arc::new(LinkedFetch { way: way.clone(), world: world.clone(), hosts, killed: killed.clone() }),
        smaller: |_| Vec::new(),
        store: parts.store,
        retrying: Retrying { first: first_pause, most: longest_pause, give_up_after: GIVE_UP_AFTER },
        save_timeout: parts.setup.save_timeout,
        max_deliveries: parts.setup.max_deliveries,
        counters: Arc::default(),
        metrics: Arc::default(),
    }
}

impl World {
    /// Has posts name media, as found posts do, again and again until store and queue have them. What a worker has right now
    /// is scheduled once that has let it go, as whoever empties `incoming` does it.
    pub async fn put_in_media(&self, ids: &[String]) {
        let way = Way::new(usize::MAX, self.network.clone());
        let store = Arc::new(LinkedStore { way: way.clone(), store: self.store.clone() });
        let (starter, arrivals) = (self.starter(&way), Arrivals { namespace: NAMESPACE.to_owned(), store });
        let mention = |id: &String| {
            let medium = Medium { id: id.clone(), url: format!("https://h/{id}"), kind: MediaKind::Photo };
            let object = Some(serde_json::to_string(&medium).unwrap());
            Mention {
                kind: "media",
                id: id.clone(),
                from: "1".to_owned(),
                is_first: true,
                object,
                ..Mention::default()
            }
        };
        let mentions: Vec<Mention> = ids.iter().map(mention).collect();
        let mentions: Vec<&Mention> = mentions.iter().collect();
        let received = loop {
            match arrivals.receive(&starter, &mentions).await {
                Ok(received) => break received,
                Err(why) => self.later(&why).await,
            }
        };
        loop {
            match received.tell(&starter).await {
                Ok(answers) if !answers.contains(&Queued::Leased) => return,
                Ok(_) => self.later(&"a worker has it").await,
                Err(why) => self.later(&why).await,
            }
        }
    }

    async fn later(&self, why: &(dyn std::fmt::Display + Sync)) {
        self.log.note(format_args!("put in: {why}"));
        tokio::time::sleep(Duration::from_secs(1)).await;
    }

    /// A medium when all is over: it is settled, as its host has told, and its file is there.
    pub async fn check_medium(&self, id: &str, place: Option<Place>) {
        let nature = self.provider.nature(id).unwrap();
        let state = self.store.tweet(NAMESPACE, id).await.unwrap().map(|row| row.state);
        let medium = self.store.media(NAMESPACE, &[id.to_owned()]).await.unwrap().remove(0).unwrap();
        let told = self.files.told.lock().unwrap().get(id).cloned().unwrap_or_default();
        let failed_for = |least: Duration| {
            let since = medium.failing_since.unwrap_or(Millis::MAX);
            medium.attempts >= 4 && medium.checked_at.unwrap() - since >= least.as_millis() as Millis
        };
        let well = match (&place, state) {
            (Some(Place::Dead { .. }), Some(ItemState::Dead)) => nature == Nature::Kills,
            (None, Some(ItemState::Ended)) => match medium.state {
                MediaState::Stored => {
                    medium.sha256 == Some(hash_of(id)) && self.files.kept.lock().unwrap().contains(&hash_of(id))
                }
                MediaState::Failed => told.contains(&MediaState::Failed) && failed_for(GIVE_UP_AFTER),
                state => state.is_final() && told.contains(&state),
            },
            _ => false,
        };
        if !well {
            let told = format!("{told:?} were told");
            self.log.wrong(format_args!(
                "{id} ({nature:?}) is {place:?} in the queue and {state:?} in the store, {told}: {medium:?}"
            ));
        }
    }
}
