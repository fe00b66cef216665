//! What posts say of accounts.

use twitter_updater::base::clock::Millis;
use twitter_updater::base::random;
use twitter_updater::engine::queue::{Inspection, Place};
use twitter_updater::pipelines::refresh::{Arrival, Mention};
use twitter_updater::store::Accounts;

use super::world::{DAY, Event, HOUR, NS, World, settings, simulated};
use std::sync::Arc;

/// A user as it stands in a post of v1.1.
fn user(id: &str, handle: &str) -> String {
    format!(
        r#"{{"id_str":"{id}","screen_name":"{handle}","name":"n","description":"","location":"","url":null,
        "protected":false,"followers_count":7,"friends_count":1,"statuses_count":2}}"#
    )
}

/// A newest post that cannot be.
const AHEAD: &str = r#""status":{"created_at":"Fri Dec 31 23:59:59 +0000 9999"}"#;

fn mention(id: &str, post: &str, at: Millis, object: Option<String>) -> Mention {
    let arrival = Arrival::Account { profile: object, posted_at: Some(at) };
    Mention { from: post.to_owned(), answered_at: at, ..Mention::first(id, arrival) }
}

/// As the handler of posts does: recorded, then scheduled.
async fn arrive(world: &Arc<World>, mentions: &[Mention]) {
    let mentions: Vec<&Mention> = mentions.iter().collect();
    let received = world.receiver().receive(&world.starter(), &mentions).await.unwrap();
    received.apply(&world.starter()).await.unwrap();
}

async fn due_in(world: &World, id: &str) -> (String, Millis) {
    match &world.queue.locate(&[id.to_owned()]).await.unwrap()[0][..] {
        [Place::Delayed { lane, due, .. }] => (lane.to_string(), due - world.now()),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_whole_profile_in_a_post_is_an_answer_and_a_partial_one_is_none() {
    simulated(async {
        let _replayed = random::replay_seed(7);
        let world = World::new(settings(&[]), 1, 300);
        let now = world.now();
        let partial = r#"{"id_str":"13","screen_name":"bea","name":"Bea"}"#.to_owned();
        let mentions = [
            mention("12", "1", now, Some(user("12", "ann"))),
            mention("13", "2", now, Some(partial)),
            mention("17", "5", now, Some(user("17", "dora").replace("\"name\"", &format!("{AHEAD},\"name\"")))),
            // Somebody else's object, and none at all.
            mention("14", "3", now, Some(user("15", "cleo"))),
            mention("16", "4", now, Some("odd".to_owned())),
        ];
        arrive(&world, &mentions).await;
        assert_eq!(due_in(&world, "12").await, ("active".to_owned(), DAY));
        let stored = world.store.account(NS, "12").await.unwrap().unwrap();
        assert_eq!((stored.handle.as_deref(), stored.lookups, stored.collected), (Some("ann"), 1, 1));
        let ahead = world.store.account(NS, "17").await.unwrap().unwrap();
        assert_eq!((ahead.lookups, ahead.last_post_at), (1, None), "nobody has posted in the year 9999");
        assert!(ahead.active_at <= Some(now), "{:?}", ahead.active_at);
        for id in ["13", "14", "16"] {
            assert_eq!(due_in(&world, id).await.0, "first", "{id}");
            let stored = world.store.account(NS, id).await.unwrap().unwrap();
            assert_eq!((stored.lookups, stored.collected), (0, 1), "{id}");
        }
        assert_eq!(world.store.account(NS, "15").await.unwrap(), None);
    });
}

#[test]
fn a_post_that_is_refreshed_eighty_times_does_not_write_its_author_eighty_times() {
    simulated(async {
        let _replayed = random::replay_seed(7);
        let world = World::new(settings(&[]), 1, 300);
        let begun = world.now();
        for round in 0..80 {
            let (is_first, posted_at) = (round == 0, (round == 0).then_some(begun));
            let arrival = Arrival::Account { profile: Some(user("12", "ann")), posted_at };
            let again = Mention { is_first, arrival, ..mention("12", "1", world.now(), None) };
            arrive(&world, &[again]).await;
            tokio::time::sleep(std::time::Duration::from_secs(30 * 60)).await;
        }
        // 40 hours, half a day each.
        let stored = world.store.account(NS, "12").await.unwrap().unwrap();
        assert_eq!((stored.lookups, stored.collected), (4, 1));
        let (lane, due) = due_in(&world, "12").await;
        assert_eq!(lane, "active");
        assert_eq!(stored.next_due, Some(world.now() + due), "queue and store agree");
        assert!(due > 20 * HOUR - HOUR, "nobody has to ask: {due}");
    });
}

#[test]
fn a_post_wakes_a_frozen_account() {
    simulated(async {
        let _replayed = random::replay_seed(7);
        let world = World::new(settings(&[]), 1, 300);
        for id in ["12", "13"] {
            world.add(id, [(-60 * DAY, Event::Post), (5 * DAY, Event::Post)]);
        }
        world.put_in(&["12".to_owned(), "13".to_owned()]).await;
        let working = world.start(1);
        tokio::time::sleep(std::time::Duration::from_secs(5 * 86_400 + 60)).await;
        assert_eq!(due_in(&world, "12").await.0, "frozen");
        // One comes with its profile, the other without: it is looked up at once.
        let now = world.now();
        arrive(&world, &[mention("12", "1", now, Some(user("12", "ann"))), mention("13", "2", now, None)]).await;
        assert_eq!(due_in(&world, "12").await.0, "active");
        tokio::time::sleep(std::time::Duration::from_secs(60)).await;
        assert_eq!(due_in(&world, "13").await.0, "active");
        assert_eq!((world.calls_for("12").len(), world.calls_for("13").len()), (1, 2));
        world.end(working).await;
    });
}
