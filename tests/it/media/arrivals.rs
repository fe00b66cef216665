//! Media that a later answer for a post brings.

use std::sync::Arc;
use std::time::Duration;

use twitter_updater::base::clock::Millis;
use twitter_updater::base::reload::Reloadable;
use twitter_updater::engine::queue::{Inspection, Place};
use twitter_updater::engine::schedule::{Schedule, Schedules};
use twitter_updater::ingest::Starter;
use twitter_updater::model::media::{MediaKind, MediaState, Medium};
use twitter_updater::model::post::{ItemState, Tweet};
use twitter_updater::pipelines::media::media_receiver::MediaReceiver;
use twitter_updater::pipelines::media::schedule::FreshFirstSchedule;
use twitter_updater::pipelines::refresh::{Arrival, Mention, Receiver};
use twitter_updater::providers::unreadable::UnreadableObject;
use twitter_updater::store::{FetchAttempt, Finding, MediaStore, Observation, Posts, Way};

use crate::support::memory_queue::{MemoryQueue, ServiceClock};
use crate::support::memory_store::MemoryStore;
use crate::support::queue_model::Rules;

const NS: &str = "media:twitter";
const NOW: i64 = 1_800_000_000_000;

/// As a found post names it; `is_first`: at the post's first answer.
fn mention(id: &str, is_first: bool) -> Mention {
    let medium = Medium { id: id.to_owned(), url: format!("https://h/{id}"), kind: MediaKind::Photo };
    let arrival = Arrival::Medium { medium, author: None };
    Mention { from: "1".to_owned(), is_first, answered_at: NOW, ..Mention::new(id, arrival) }
}

#[tokio::test]
async fn what_an_edit_brings_and_what_a_post_showed_before_media_were_collected_is_fetched() {
    let (queue, store) = (
        Arc::new(MemoryQueue::new(NS, ServiceClock::starting_at(NOW), Rules::default())),
        Arc::new(MemoryStore::default()),
    );
    let schedule = Arc::new(FreshFirstSchedule { first_delay: Duration::from_secs(60) }) as Arc<dyn Schedule>;
    let schedules: Arc<dyn Schedules> = Reloadable::new(schedule).into();
    let starter = Starter::new(queue.clone(), Some(store.clone()), schedules, Arc::new(|_: &str| Ok(None)), |_| {
        Err(UnreadableObject::NotAccepted)
    })
    .with_way(Way::new("fan_out"));
    let arrivals = MediaReceiver { namespace: NS.to_owned(), store: store.clone() };
    let named =
        async |mentions: &[Mention]| arrivals.receive(&starter, &mentions.iter().collect::<Vec<_>>()).await.unwrap();
    let waits =
        async |id: &str| matches!(queue.locate(&[id.to_owned()]).await.unwrap()[0][..], [Place::Delayed { .. }]);
    // The post was found before, whether it showed something then that nobody collected, or was edited since.
    let received = named(&[mention("5", false)]).await;
    // The queue is out, and the post is done with all the same: the next answer makes up for it.
    drop(received);
    assert!(!waits("5").await);
    named(&[mention("5", false), mention("6", false)]).await.apply(&starter).await.unwrap();
    assert!(waits("5").await && waits("6").await);
    assert_eq!(store.media_uses(NS, "5", 10).await.unwrap().len(), 1);
    // One that is gone is not asked for again.
    let gone = FetchAttempt { id: "6".to_owned(), at: NOW, state: MediaState::Gone, ..FetchAttempt::default() };
    store.save_media(NS, &[gone]).await.unwrap();
    // Until its row has ended, a process may have died that was to look at it.
    assert!(!named(&[mention("6", true)]).await.is_empty());
    let tried = Finding::Found(Tweet { id: "6".to_owned(), ..Tweet::default() });
    store.save(NS, &[Observation::new("6", NOW, tried, ItemState::Ended, None)]).await.unwrap();
    assert!(named(&[mention("6", true)]).await.is_empty());
    // At another address it may be there; an address that is new in each answer brings it back once a day.
    let moved = |hours: Millis| {
        let medium = Medium { id: "6".into(), url: "https://files.example/6".into(), kind: MediaKind::Photo };
        let arrival = Arrival::Medium { medium, author: None };
        Mention { arrival, answered_at: NOW + hours * 3_600_000, ..mention("6", true) }
    };
    assert!(named(&[moved(23)]).await.is_empty());
    assert_eq!(store.media(NS, &["6".to_owned()]).await.unwrap()[0].as_ref().unwrap().state, MediaState::Gone);
    assert!(!named(&[moved(25)]).await.is_empty());
    // It waits by now. If the queue was out, the next answer makes up for it.
    assert!(!named(&[moved(26)]).await.is_empty());
    let again = store.media(NS, &["6".to_owned()]).await.unwrap()[0].clone().unwrap();
    assert_eq!((again.state, &*again.url, again.attempts), (MediaState::Waiting, "https://files.example/6", 0));
}
