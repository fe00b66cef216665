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
use twitter_updater::pipelines::item_handler::ItemHandler;
use twitter_updater::pipelines::media::fetch::{Fetch, FetchOutcome, FileRequest, StoredFile};
use twitter_updater::pipelines::media::files::CompleteFile;
use twitter_updater::pipelines::media::handler::{MediaWork, RetryLimits};
use twitter_updater::pipelines::media::hosts::{HostLimiter, Politeness};
use twitter_updater::pipelines::media::media_receiver::MediaReceiver;
use twitter_updater::pipelines::refresh::{Arrival, Mention, Receiver};
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
    fn take(&self, id: &str, fetched: FetchOutcome) -> FetchOutcome {
        let state = match &fetched {
            FetchOutcome::Stored(stored) => {
                self.kept.lock().unwrap().insert(stored.file.sha256.clone());
                MediaState::Stored
            }
            FetchOutcome::Gone(_) => MediaState::Gone,
            FetchOutcome::Refused(_) => MediaState::Refused,
            FetchOutcome::Unconfirmed { state, .. } => *state,
            FetchOutcome::Failed { .. } => MediaState::Failed,
            FetchOutcome::Interrupted | FetchOutcome::Later(_) | FetchOutcome::StorageUnavailable(_) => return fetched,
        };
        self.told.lock().unwrap().entry(id.to_owned()).or_default().insert(state);
        fetched
    }
}

impl Provider {
    /// The answer of a medium's host.
    async fn file(&self, id: &str) -> FetchOutcome {
        let failed = |why: &str, after| FetchOutcome::Failed { why: why.to_owned(), is_of_host: true, after };
        match self.mood() {
            Mood::Works => {}
            Mood::Silent => std::future::pending().await,
            Mood::OverCapacity | Mood::Refuses(_) | Mood::Alternates => return failed("HTTP 503", None),
            Mood::Throttles => return failed("HTTP 429", Some(Duration::from_secs(5))),
            Mood::Rubbish => {
                return FetchOutcome::Unconfirmed { state: MediaState::Refused, why: "a page to sign in".to_owned() };
            }
            Mood::Full => return FetchOutcome::StorageUnavailable("the folder of media is full".to_owned()),
        }
        let now = self.now();
        let odd_minute = now.div_euclid(60_000) % 2 == 1;
        match self.nature(id).unwrap() {
            Nature::Withheld => FetchOutcome::Refused("larger than media.max_bytes".to_owned()),
            Nature::Broken if odd_minute => FetchOutcome::Interrupted,
            Nature::GoneAt(since) if now >= since => FetchOutcome::Gone("HTTP 410".to_owned()),
            Nature::Flaps(turn) if now.div_euclid(turn) % 2 == 1 => failed("HTTP 500", None),
            Nature::PoisonUntil(until) if now < until => FetchOutcome::Failed {
                why: "the file broke off after 7 bytes".to_owned(),
                is_of_host: false,
                after: None,
            },
            _ => {
                let file = CompleteFile { sha256: hash_of(id), bytes: 1_000, kind: "image/png" };
                FetchOutcome::Stored(StoredFile { file, is_new: true, is_continued: false, smaller: None })
            }
        }
    }
}

/// The hosts as one process sees them.
struct LinkedFetch {
    way: Arc<Way>,
    world: Arc<World>,
    hosts: HostLimiter,
    killed: Arc<Notify>,
}

#[async_trait]
impl Fetch for LinkedFetch {
    async fn fetch(&self, wanted: FileRequest<'_>, within: Duration) -> FetchOutcome {
        let host = (usize::from(wanted.id.bytes().last().unwrap()) % HOSTS).to_string();
        let _place = match self.hosts.acquire(&host).await {
            Ok(place) => place,
            Err(rest) => return FetchOutcome::Later(rest),
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
        let lost = |why| FetchOutcome::Failed { why: format!("{why:?}"), is_of_host: true, after: None };
        let fetched = answer.unwrap_or_else(lost);
        if let FetchOutcome::Stored(StoredFile { file, .. }) = &fetched {
            let taken = self.world.store.reserve_file(&file.sha256, 1_000, self.world.provider.now(), 0);
            taken.await.unwrap();
        }
        match &fetched {
            FetchOutcome::Failed { is_of_host: true, after, .. } => self.hosts.record_failure(&host, *after),
            FetchOutcome::Unconfirmed { .. } => {}
            _ => self.hosts.record_success(&host),
        }
        self.world.files.take(wanted.id, fetched)
    }
}

/// The handler of media in a process.
pub fn handler(parts: Parts<'_>, world: &Arc<World>, way: &Arc<Way>, killed: &Arc<Notify>) -> ItemHandler<MediaWork> {
    let (first_pause, longest_pause) = PAUSES;
    let hosts = HostLimiter::new(Politeness { per_host: 4, first_pause, longest_pause });
    let work = MediaWork {
        items: parts.items(),
        fetcher: Arc::new(LinkedFetch { way: way.clone(), world: world.clone(), hosts, killed: killed.clone() }),
        smaller: |_| Vec::new(),
        retrying: RetryLimits { first_delay: first_pause, longest_delay: longest_pause, give_up_after: GIVE_UP_AFTER },
        counters: Arc::default(),
        metrics: Arc::default(),
    };
    ItemHandler(work)
}

impl World {
    /// Has posts name media, as found posts do, again and again until store and queue have them. What a worker has right now
    /// is scheduled once that has let it go, as whoever empties `incoming` does it.
    pub async fn put_in_media(&self, ids: &[String]) {
        let way = Way::new(usize::MAX, self.network.clone());
        let store = Arc::new(LinkedStore { way: way.clone(), store: self.store.clone() });
        let (starter, arrivals) = (self.starter(&way), MediaReceiver { namespace: NAMESPACE.to_owned(), store });
        let mention = |id: &String| {
            let medium = Medium { id: id.clone(), url: format!("https://h/{id}"), kind: MediaKind::Photo };
            Mention { from: "1".to_owned(), ..Mention::first(id, Arrival::Medium { medium, author: None }) }
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
            match received.apply(&starter).await {
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
