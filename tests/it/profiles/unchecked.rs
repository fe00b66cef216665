//! Time between two checks of an account, in simulated weeks.

use super::world::{DAY, Event, HOUR, MINUTE, World, settings, simulated};
use twitter_updater::base::clock::{Millis, span};

const RUN: Millis = 12 * DAY;

/// The longest time between two calls for an account, over all accounts, after its first call.
async fn longest_gap(variables: &[(&str, &str)]) -> Millis {
    let world = World::new(settings(variables), 1, 900);
    let ids: Vec<String> = (100..130).map(|id| id.to_string()).collect();
    for (n, id) in ids.iter().enumerate() {
        let n = n as Millis;
        // One that posts daily, one that falls silent after a while, and one that never posts.
        let posts = match n % 3 {
            0 => (0..RUN / DAY).map(|day| (day * DAY + n * MINUTE, Event::Post)).collect(),
            1 => vec![(n * HOUR, Event::Post)],
            _ => Vec::new(),
        };
        world.add(id, posts);
    }
    world.put_in(&ids).await;
    let working = world.start(2);
    tokio::time::sleep(span(RUN)).await;
    world.end(working).await;
    let gaps = ids.iter().flat_map(|id| {
        let calls: Vec<Millis> = world.calls_for(id).into_iter().map(|(at, _)| at).chain([RUN]).collect();
        calls.windows(2).map(|pair| pair[1] - pair[0]).collect::<Vec<_>>()
    });
    gaps.max().unwrap()
}

#[test]
fn no_living_account_goes_unchecked_longer_than_the_bound() {
    for schedule in ["silence", "adaptive"] {
        let of = |on_deleted: &'static str, longest: &'static str| {
            let names = [
                ("ACCOUNTS__SCHEDULE", schedule),
                ("STORE__ON_DELETED", on_deleted),
                ("STORE__LONGEST_UNCHECKED", longest),
                ("ACCOUNTS__FREEZE_AFTER", "3d"),
                ("ACCOUNTS__IDLE_AFTER", "1d"),
                ("UPDATER__BUFFER_TTL", "1m"),
            ];
            let mut gap = 0;
            simulated(async { gap = longest_gap(&names).await });
            gap
        };
        assert!(of("keep", "1d") > 6 * DAY, "without the bound a silent account waits for a week");
        for (on_deleted, longest, bound) in [("blank", "1d", DAY), ("remove", "2d", 2 * DAY)] {
            let gap = of(on_deleted, longest);
            // A call waits for its batch to fill.
            assert!(gap <= bound + 2 * MINUTE, "{schedule}, {longest}: {gap} ms");
            assert!(gap > bound / 2, "{schedule}, {longest}: no more calls than needed: {gap} ms");
        }
    }
}
