//! What every backend does, rule by rule.

use futures::future::join_all;
use rand::SeedableRng;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use twitter_updater::model::account::Absence;
use twitter_updater::model::bound::{LONGEST_TEXT, is_truncated};
use twitter_updater::model::post::{Details, ItemState, Metrics, Tweet};
use twitter_updater::store::{
    BudgetCorrections, Change, DeadResolution, Expiry, Finding, LastAnswer, ListedItem, Listing, MetricsAt, NewItem,
    Observation, RecordCounts, SaveCounts, Standing, StateCounts, Store, StoreError, StoredTweet, Way,
};

use super::{NS, T, broken, counts, found, missing, new_tweet, observation, tweet, way, withheld};

/// Runs each case on each backend, in a world of its own: `bare` ones without tables.
macro_rules! contract {
    (bare: $($bare:ident)*; with_tables: $($case:ident)*) => {
        contract!(@ postgres super::super::postgres_world; $($bare)*; $($case)*);
        contract!(@ sqlite super::super::sqlite_world; $($bare)*; $($case)*);
    };
    (@ $backend:ident $world:expr; $($bare:ident)*; $($case:ident)*) => {
        mod $backend {
            $(
                #[tokio::test]
                async fn $bare() {
                    super::$bare(&*$world().await.store).await;
                }
            )*
            $(
                #[tokio::test]
                async fn $case() {
                    let world = $world().await;
                    world.store.migrate().await.unwrap();
                    super::$case(&*world.store).await;
                }
            )*
        }
    };
}

contract! {
    bare:
    without_tables_every_call_says_migrate
    migrations_may_run_twice_and_at_once;
    with_tables:
    nothing_asked_nothing_done
    a_recorded_tweet_is_live_or_ended
    recording_revives_the_ended_and_leaves_the_unavailable
    recording_leaves_the_live_and_the_dead
    an_id_recorded_twice_at_once_is_new_once
    standing_comes_in_the_order_asked
    a_found_tweet_is_stored_whole
    what_an_answer_does_not_say_stays
    what_the_starter_knew_lasts_until_the_first_answer
    counts_that_came_with_a_post_are_those_of_their_time
    the_reason_of_a_miss_lasts_as_long_as_it_is_stated
    an_edited_tweet_has_a_current_id
    a_withheld_tweet_keeps_its_text
    a_text_that_was_delivered_is_stored_though_withheld
    a_text_that_is_cut_short_does_not_replace_a_longer_one
    a_text_that_is_too_long_is_cut_and_marked
    every_way_by_which_a_tweet_came_is_kept
    a_missing_tweet_keeps_all_else
    a_broken_answer_only_moves_the_due_time
    a_row_that_a_broken_answer_makes_was_never_answered
    a_promoted_post_is_due_sooner_and_never_later
    found_clears_misses_and_the_withheld_mark
    an_older_answer_changes_nothing
    the_same_save_again_changes_nothing
    a_repeat_after_a_revival_does_not_end_it_again
    of_an_id_twice_in_a_batch_the_newest_answer_counts
    history_has_a_row_per_change
    a_count_given_for_the_first_time_is_a_change
    recent_events_belong_to_the_newest_answer
    what_was_learnt_is_replaced_by_one_of_those_who_know_it
    the_dead_stay_dead
    marking_dead_twice_keeps_the_first_reason
    the_resolved_dead_live_again_or_end
    pages_hold_the_living_or_the_dead_once_each
    a_page_moves_on_while_rows_come_and_go
    what_ended_and_is_expired_is_removed_whole
    namespaces_do_not_mix
    text_with_nul_costs_no_batch
    counts_have_64_bits
    thousands_of_rows_in_one_call
    overlapping_batches_at_once_end_with_the_newest
    overlapping_calls_of_every_kind_at_once
}

async fn get(store: &dyn Store, id: &str) -> StoredTweet {
    store.tweet(NS, id).await.unwrap().unwrap_or_else(|| panic!("{id} is not stored"))
}

async fn save(store: &dyn Store, observations: &[Observation]) -> SaveCounts {
    store.save(NS, observations).await.unwrap()
}

/// Saves one answer that must be taken.
async fn saved(store: &dyn Store, observation: Observation) -> StoredTweet {
    let outcome = save(store, std::slice::from_ref(&observation)).await;
    assert_eq!((outcome.saved, outcome.older), (1, 0));
    get(store, &observation.id).await
}

async fn mark_dead(store: &dyn Store, id: &str, reason: &str) {
    store.mark_dead(NS, T, &[(id.to_owned(), reason.to_owned())]).await.unwrap();
}

fn dead_resolution(id: &str, next_due: Option<i64>) -> DeadResolution {
    DeadResolution { id: id.into(), created_at: Some(T - 70), next_due }
}

/// All pages of so many rows, one after the other.
async fn pages(store: &dyn Store, of: Listing, limit: u32) -> Vec<ListedItem> {
    let mut all: Vec<ListedItem> = Vec::new();
    loop {
        let page = store.page(NS, of, all.last().map(|last| &*last.id), limit).await.unwrap();
        assert!(page.len() <= limit as usize);
        if page.is_empty() {
            return all;
        }
        all.extend(page);
    }
}

fn ids(page: &[ListedItem]) -> Vec<&str> {
    page.iter().map(|listed| &*listed.id).collect()
}

async fn without_tables_every_call_says_migrate(store: &dyn Store) {
    let id = ["1".to_owned()];
    let errors = [
        store.check().await.unwrap_err(),
        store.record(NS, T, &way(), &[new_tweet("1", T, None)]).await.unwrap_err(),
        store.standing(NS, &id).await.unwrap_err(),
        store.save(NS, &[broken("1", T)]).await.unwrap_err(),
        store.mark_dead(NS, T, &[("1".into(), "why".into())]).await.unwrap_err(),
        store.resolve_dead(NS, T, &[dead_resolution("1", None)]).await.unwrap_err(),
        store.page(NS, Listing::Tracked, None, 1).await.unwrap_err(),
        store.tweet(NS, "1").await.unwrap_err(),
        store.history(NS, "1").await.unwrap_err(),
        store.counts(NS).await.unwrap_err(),
    ];
    for error in errors {
        assert!(matches!(error, StoreError::Schema(_)), "{error:?}");
    }
}

async fn migrations_may_run_twice_and_at_once(store: &dyn Store) {
    for migrated in join_all((0..6).map(|_| store.migrate())).await {
        migrated.unwrap();
    }
    saved(store, found("1", T, counts(1, 2))).await;
    store.migrate().await.unwrap();
    store.check().await.unwrap();
    assert_eq!(get(store, "1").await.metrics, counts(1, 2));
}

async fn nothing_asked_nothing_done(store: &dyn Store) {
    assert_eq!(store.record(NS, T, &way(), &[]).await.unwrap(), RecordCounts::default());
    assert_eq!(store.standing(NS, &[]).await.unwrap(), []);
    assert_eq!(store.save(NS, &[]).await.unwrap(), SaveCounts::default());
    store.mark_dead(NS, T, &[]).await.unwrap();
    store.resolve_dead(NS, T, &[]).await.unwrap();
    assert_eq!(store.page(NS, Listing::Dead, None, 9).await.unwrap(), []);
    assert_eq!(store.tweet(NS, "1").await.unwrap(), None);
    assert_eq!(store.history(NS, "1").await.unwrap(), []);
    assert_eq!(store.counts(NS).await.unwrap(), StateCounts::default());
}

async fn a_recorded_tweet_is_live_or_ended(store: &dyn Store) {
    let tweets = [new_tweet("1", T - 5, Some(T + 10)), new_tweet("2", T - 9, None)];
    let expected = RecordCounts { new: 2, known: 0, revived: 0 };
    assert_eq!(store.record(NS, T, &way(), &tweets).await.unwrap(), expected);
    let live = StoredTweet {
        id: "1".into(),
        state: ItemState::Live,
        created_at: Some(T - 5),
        first_seen: T,
        next_due: Some(T + 10),
        ..StoredTweet::default()
    };
    let ended = StoredTweet {
        id: "2".into(),
        state: ItemState::Ended,
        created_at: Some(T - 9),
        next_due: None,
        ..live.clone()
    };
    assert_eq!((get(store, "1").await, get(store, "2").await), (live, ended));
    assert_eq!(store.counts(NS).await.unwrap(), StateCounts { live: 1, ended: 1, ..StateCounts::default() });

    let again = RecordCounts { new: 0, known: 2, revived: 0 };
    assert_eq!(store.record(NS, T + 1, &way(), &tweets).await.unwrap(), again);
}

async fn recording_revives_the_ended_and_leaves_the_unavailable(store: &dyn Store) {
    saved(store, found("1", T, counts(1, 1))).await;
    saved(store, missing("1", T + 1, 4, T - 3)).await;
    let mut last = missing("2", T, 9, T - 8);
    (last.state, last.next_due) = (ItemState::Ended, None);
    saved(store, last).await;
    assert_eq!((get(store, "1").await.misses, get(store, "2").await.misses), (4, 9));

    // Without a due time there is no life to give.
    let without = [new_tweet("1", T, None), new_tweet("2", T, None)];
    assert_eq!(store.record(NS, T, &way(), &without).await.unwrap(), RecordCounts { new: 0, known: 2, revived: 0 });
    let with = [new_tweet("1", T - 7, Some(T + 50)), new_tweet("2", T - 7, Some(T + 60))];
    let unavailable = get(store, "1").await;
    assert_eq!(store.record(NS, T, &way(), &with).await.unwrap(), RecordCounts { new: 0, known: 1, revived: 1 });

    let (one, two) = (get(store, "1").await, get(store, "2").await);
    assert_eq!(one, unavailable, "sent again, a deleted post comes no sooner and its misses count on");
    assert_eq!((two.state, two.next_due), (ItemState::Live, Some(T + 60)));
    assert_eq!((two.misses, two.missing_since), (9, Some(T - 8)), "until an answer finds it");
    // What is known of it stays: also when it was made, unless that was unknown.
    assert_eq!((one.created_at, two.created_at), (Some(T), Some(T - 7)));
    assert_eq!((one.text.as_deref(), one.metrics, one.checked_at), (Some("text of 1"), counts(1, 1), Some(T + 1)));
    assert_eq!(store.record(NS, T, &way(), &with).await.unwrap(), RecordCounts { new: 0, known: 2, revived: 0 });
}

async fn recording_leaves_the_live_and_the_dead(store: &dyn Store) {
    saved(store, found("1", T, counts(1, 1))).await;
    saved(store, found("2", T, counts(2, 2))).await;
    mark_dead(store, "2", "why").await;
    let before = (get(store, "1").await, get(store, "2").await);
    let mut again = [new_tweet("1", T - 9, Some(T + 1)), new_tweet("2", T - 9, Some(T + 1))];
    again[0].content = Some(Box::new(tweet("1", counts(9, 9))));
    assert_eq!(store.record(NS, T + 9, &way(), &again).await.unwrap(), RecordCounts { new: 0, known: 2, revived: 0 });
    assert_eq!((get(store, "1").await, get(store, "2").await), before);
}

async fn an_id_recorded_twice_at_once_is_new_once(store: &dyn Store) {
    let tweets = [new_tweet("1", T, None), new_tweet("2", T, Some(T)), new_tweet("1", T, Some(T + 5))];
    assert_eq!(store.record(NS, T, &way(), &tweets).await.unwrap(), RecordCounts { new: 2, known: 1, revived: 0 });
    // The one that gives it a life is the one that is kept.
    assert_eq!(get(store, "1").await.next_due, Some(T + 5));

    let mut last = missing("1", T, 1, T);
    (last.state, last.next_due) = (ItemState::Ended, None);
    saved(store, last).await;
    assert_eq!(store.record(NS, T, &way(), &tweets).await.unwrap(), RecordCounts { new: 0, known: 2, revived: 1 });
}

async fn standing_comes_in_the_order_asked(store: &dyn Store) {
    store.record(NS, T, &way(), &[new_tweet("1", T - 1, Some(T)), new_tweet("3", T - 3, Some(T))]).await.unwrap();
    saved(store, missing("2", T + 2, 3, T - 2)).await;
    let one = Standing { created_at: Some(T - 1), first_seen: T, ..Standing::default() };
    let two = Standing {
        state: ItemState::Unavailable,
        created_at: None,
        checked_at: Some(T + 2),
        misses: 3,
        missing_since: Some(T - 2),
        first_seen: T + 2,
        lookups: 1,
        ..Standing::default()
    };
    let three = Standing { created_at: Some(T - 3), ..one.clone() };
    let asked = ["3", "nobody", "2", "1", "3"].map(String::from);
    let expected = [Some(three.clone()), None, Some(two), Some(one), Some(three)];
    assert_eq!(store.standing(NS, &asked).await.unwrap(), expected);
    let last_answers = expected.map(|known| known.as_ref().map(LastAnswer::from));
    assert_eq!(store.last_answers(NS, &asked).await.unwrap(), last_answers);
}

async fn a_found_tweet_is_stored_whole(store: &dyn Store) {
    let metrics = Metrics {
        retweet_count: Some(1),
        favorite_count: Some(2),
        reply_count: Some(3),
        quote_count: Some(4),
        bookmark_count: Some(5),
        impression_count: Some(6),
    };
    let stored = saved(store, found("1", T + 1, metrics)).await;
    let expected = StoredTweet {
        id: "1".into(),
        state: ItemState::Live,
        created_at: Some(T),
        text: Some("text of 1".into()),
        author_id: Some("12".into()),
        author_name: Some("jack".into()),
        metrics,
        raw: Some(r#"{"id_str":"1"}"#.into()),
        first_seen: T + 1,
        checked_at: Some(T + 1),
        next_due: Some(T + 60_001),
        lookups: 1,
        ..StoredTweet::default()
    };
    assert_eq!(stored, expected);
    assert_eq!(store.history(NS, "1").await.unwrap(), [MetricsAt { checked_at: T + 1, metrics }]);

    let mut last = found("1", T + 2, metrics);
    (last.state, last.next_due) = (ItemState::Ended, None);
    let ended =
        StoredTweet { state: ItemState::Ended, next_due: None, checked_at: Some(T + 2), lookups: 2, ..expected };
    assert_eq!(saved(store, last).await, ended);
}

async fn what_an_answer_does_not_say_stays(store: &dyn Store) {
    let full = saved(store, found("1", T, counts(1, 2))).await;
    let mut bare = tweet("1", Metrics { reply_count: Some(3), ..Metrics::default() });
    (bare.created_at, bare.text, bare.author_id, bare.author_name) = (None, None, None, None);
    bare.raw = "{}".into();
    let stored = saved(store, super::observation("1", T + 1, Finding::Found(bare))).await;
    let expected = StoredTweet {
        metrics: Metrics { reply_count: Some(3), ..counts(1, 2) },
        raw: Some("{}".into()),
        checked_at: Some(T + 1),
        next_due: Some(T + 60_001),
        lookups: 2,
        ..full
    };
    assert_eq!(stored, expected);

    // What the API says of a date is better than what was stored of it; a missing one is filled.
    let mut other = tweet("1", counts(1, 2));
    other.created_at = Some(T - 99);
    assert_eq!(
        saved(store, super::observation("1", T + 2, Finding::Found(other.clone()))).await.created_at,
        Some(T - 99)
    );
    assert_eq!(saved(store, broken("2", T)).await.created_at, None);
    other.id = "2".into();
    assert_eq!(saved(store, super::observation("2", T + 1, Finding::Found(other))).await.created_at, Some(T - 99));
}

async fn what_the_starter_knew_lasts_until_the_first_answer(store: &dyn Store) {
    let mut new = new_tweet("1", T - 5, Some(T));
    new.content = Some(Box::new(tweet("7", Metrics { quote_count: Some(8), ..counts(50, 60) })));
    store.record(NS, T, &way(), &[new]).await.unwrap();
    let stored = get(store, "1").await;
    assert_eq!((stored.text.as_deref(), stored.current_id.as_deref()), (Some("text of 7"), Some("7")));
    assert_eq!((stored.created_at, stored.checked_at, stored.lookups), (Some(T - 5), None, 0));
    assert_eq!(stored.metrics, Metrics { quote_count: Some(8), ..counts(50, 60) });
    assert_eq!(store.history(NS, "1").await.unwrap(), []);

    // An answer without counts leaves the history for the first that has some, though they be those
    // the starter knew; and an answer "older" than the recording is an answer all the same.
    saved(store, broken("1", T - 3)).await;
    assert_eq!(store.history(NS, "1").await.unwrap(), []);
    let first = save(store, &[found("1", T - 2, counts(50, 60))]).await;
    assert_eq!(first, SaveCounts { saved: 1, older: 0, changed: 1 });
    let stored = get(store, "1").await;
    assert_eq!((stored.text.as_deref(), stored.lookups), (Some("text of 1"), 1));
    let expected = Metrics { quote_count: Some(8), ..counts(50, 60) };
    assert_eq!(stored.metrics, expected);
    assert_eq!(store.history(NS, "1").await.unwrap(), [MetricsAt { checked_at: T - 2, metrics: expected }]);
}

/// Counts of a page, read at that time.
fn counted(id: &str, read_at: Option<i64>, metrics: Metrics) -> NewItem {
    NewItem { content: Some(Box::new(tweet(id, metrics))), read_at, ..new_tweet(id, T, Some(T + 500)) }
}

async fn counts_that_came_with_a_post_are_those_of_their_time(store: &dyn Store) {
    let at = |checked_at, metrics| MetricsAt { checked_at, metrics };
    let record = async |tweets: &[NewItem]| store.record(NS, T, &Way::new("poll"), tweets).await.unwrap();
    let history = async |id| store.history(NS, id).await.unwrap();
    // The first counts open the history, and again they change nothing.
    let first = counted("1", Some(T + 10), counts(1, 2));
    let recorded = record(&[first.clone(), counted("file", None, counts(1, 2)), new_tweet("bare", T, Some(T))]).await;
    assert_eq!(recorded, RecordCounts { new: 3, known: 0, revived: 0 });
    record(std::slice::from_ref(&first)).await;
    assert_eq!(history("1").await, [at(T + 10, counts(1, 2))]);
    let stored = get(store, "1").await;
    assert_eq!((stored.checked_at, stored.lookups, stored.next_due), (Some(T + 10), 0, Some(T + 500)));
    assert_eq!((stored.text.as_deref(), stored.metrics), (Some("text of 1"), counts(1, 2)));
    assert!(history("file").await.is_empty() && get(store, "file").await.checked_at.is_none(), "its age is unknown");
    // Equal ones are newer and make no row, others make one, older ones are too late.
    record(&[counted("1", Some(T + 20), counts(1, 2))]).await;
    assert_eq!((get(store, "1").await.checked_at, history("1").await.len()), (Some(T + 20), 1));
    record(&[counted("1", Some(T + 30), counts(1, 3)), counted("1", Some(T + 29), counts(9, 9))]).await;
    record(&[counted("1", Some(T + 15), counts(0, 0))]).await;
    assert_eq!(history("1").await, [at(T + 10, counts(1, 2)), at(T + 30, counts(1, 3))]);
    // With lookups it is the same: an older answer changes nothing, and neither do older counts after an answer.
    assert_eq!(save(store, &[found("1", T + 25, counts(5, 5))]).await, SaveCounts { saved: 0, older: 1, changed: 0 });
    saved(store, found("1", T + 40, counts(1, 3))).await;
    record(&[counted("1", Some(T + 35), counts(7, 7)), counted("bare", Some(T + 11), counts(4, 4))]).await;
    assert_eq!((history("1").await.len(), get(store, "1").await.metrics), (2, counts(1, 3)));
    assert_eq!(history("bare").await, [at(T + 11, counts(4, 4))]);
    saved(store, found("1", T + 50, counts(2, 3))).await;
    assert_eq!(history("1").await[2..], [at(T + 50, counts(2, 3))]);
    // One whose life is over keeps its state; one that is missing, or dead, takes none.
    store.record(NS, T, &way(), &[new_tweet("old", T, None)]).await.unwrap();
    saved(store, missing("gone", T + 10, 1, T + 10)).await;
    mark_dead(store, "dead", "why").await;
    let ended = NewItem { next_due: None, ..counted("old", Some(T + 60), counts(1, 1)) };
    record(&[ended, counted("gone", Some(T + 60), counts(1, 1)), counted("dead", Some(T + 60), counts(1, 1))]).await;
    assert_eq!((get(store, "old").await.state, history("old").await.len()), (ItemState::Ended, 1));
    assert!(history("gone").await.is_empty() && history("dead").await.is_empty());
    // A count that the page does not give stays.
    let likes = Metrics { favorite_count: Some(9), ..Metrics::default() };
    record(&[counted("1", Some(T + 70), likes)]).await;
    assert_eq!(history("1").await.last(), Some(&at(T + 70, counts(2, 9))));
}

async fn the_reason_of_a_miss_lasts_as_long_as_it_is_stated(store: &dyn Store) {
    let gone = |at, misses, reason| observation("1", at, Finding::Missing { misses, since: T, reason, handle: None });
    let reason = async |answer| saved(store, answer).await.missing_reason;
    assert_eq!(reason(gone(T, 1, Some(Absence::NotFound))).await.as_deref(), Some("not_found"));
    assert_eq!(reason(gone(T + 1, 2, Some(Absence::Protected))).await.as_deref(), Some("not_authorized"));
    assert_eq!(reason(broken("1", T + 2)).await.as_deref(), Some("not_authorized"), "no answer");
    assert_eq!(reason(gone(T + 3, 3, None)).await, None);
    assert_eq!(reason(gone(T + 4, 4, Some(Absence::Suspended))).await.as_deref(), Some("suspended"));
    assert_eq!(reason(found("1", T + 5, counts(1, 1))).await, None);
}

async fn an_edited_tweet_has_a_current_id(store: &dyn Store) {
    let edited = |at, id: &str| super::observation("1", at, Finding::Found(tweet(id, counts(1, 1))));
    let mut first = edited(T, "1");
    first.follow = Some("5".into());
    let stored = saved(store, first).await;
    assert_eq!((stored.current_id.as_deref(), stored.text.as_deref()), (Some("5"), Some("text of 1")));
    assert_eq!(store.standing(NS, &["1".into()]).await.unwrap()[0].as_ref().unwrap().current_id.as_deref(), Some("5"));
    let mut later = edited(T + 1, "5");
    if let Finding::Found(tweet) = &mut later.finding {
        tweet.created_at = Some(T + 1);
    }
    let stored = saved(store, later).await;
    assert_eq!((stored.current_id.as_deref(), stored.text.as_deref()), (Some("5"), Some("text of 5")));
    assert_eq!(stored.created_at, Some(T), "an edit makes it no younger");
    assert_eq!(store.tweet(NS, "5").await.unwrap(), None);
    let change = |at, field: &str, old: Option<&str>, new: &str| Change {
        at,
        field: field.into(),
        old: old.map(str::to_owned),
        new: Some(new.into()),
    };
    let expected = [change(T + 1, "text", Some("text of 1"), "text of 5")];
    assert_eq!(store.changes(NS, "1").await.unwrap(), expected);
    // Missing, it is asked for by its first id again, which names what there is.
    assert_eq!(saved(store, missing("1", T + 2, 1, T + 2)).await.current_id, None);
}

async fn a_withheld_tweet_keeps_its_text(store: &dyn Store) {
    let before = saved(store, found("1", T, counts(1, 2))).await;
    saved(store, missing("1", T + 1, 2, T + 1)).await;
    let stored = saved(store, withheld("1", T + 2, counts(3, 4), "DE,FR")).await;
    let expected = StoredTweet {
        metrics: counts(3, 4),
        withheld_in: Some("DE,FR".into()),
        author_name: Some("withheld".into()),
        raw: Some(r#"{"withheld":true}"#.into()),
        checked_at: Some(T + 2),
        next_due: Some(T + 60_002),
        lookups: 3,
        ..before
    };
    assert_eq!(stored, expected, "a notice in place of the text is no text; all else is of the newest answer");
    assert_eq!(saved(store, withheld("1", T + 3, counts(3, 4), "XY")).await.withheld_in.as_deref(), Some("XY"));
    assert_eq!(store.history(NS, "1").await.unwrap().len(), 2);
    saved(store, found("1", T + 4, counts(3, 4))).await;
    let changes = store.changes(NS, "1").await.unwrap();
    let told: Vec<_> = changes
        .iter()
        .map(|change| (change.at - T, &*change.field, change.old.as_deref(), change.new.as_deref()))
        .collect();
    let expected = [
        (1, "state", Some("live"), Some("unavailable")),
        (2, "withheld_in", None, Some("DE,FR")),
        (2, "state", Some("unavailable"), Some("live")),
        (3, "withheld_in", Some("DE,FR"), Some("XY")),
        (4, "withheld_in", Some("XY"), None),
    ];
    assert_eq!(told, expected);
}

async fn a_text_that_was_delivered_is_stored_though_withheld(store: &dyn Store) {
    let mut answer = withheld("1", T, counts(3, 4), "DE");
    if let Finding::Found(tweet) = &mut answer.finding {
        tweet.text = Some("what it says elsewhere".into());
    }
    let stored = saved(store, answer).await;
    assert_eq!((stored.text.as_deref(), stored.withheld_in.as_deref()), (Some("what it says elsewhere"), Some("DE")));
    let mut new = new_tweet("2", T, Some(T));
    new.content = Some(Box::new(Tweet { withheld_in: Some("FR".into()), ..tweet("2", counts(1, 1)) }));
    store.record(NS, T, &way(), &[new]).await.unwrap();
    assert_eq!(get(store, "2").await.withheld_in.as_deref(), Some("FR"), "an ingested one is marked, too");
}

async fn a_text_that_is_cut_short_does_not_replace_a_longer_one(store: &dyn Store) {
    let answer = |at, id: &str, text: &str, truncated| {
        let details = Details { truncated: Some(truncated), ..Details::default() };
        super::observation(
            "1",
            at,
            Finding::Found(Tweet { text: Some(text.into()), details, ..tweet(id, counts(1, 1)) }),
        )
    };
    let text = |stored: StoredTweet| (stored.text.unwrap(), stored.details.truncated.unwrap());
    assert_eq!(text(saved(store, answer(T, "1", "cut…", true)).await), ("cut…".into(), true));
    assert_eq!(text(saved(store, answer(T + 1, "1", "cut no more", false)).await), ("cut no more".into(), false));
    assert_eq!(store.changes(NS, "1").await.unwrap(), [], "no edit");
    assert_eq!(text(saved(store, answer(T + 2, "1", "cut…", true)).await), ("cut no more".into(), false));
    assert_eq!(text(saved(store, answer(T + 3, "1", "short", false)).await), ("short".into(), false), "whole");
    assert_eq!(text(saved(store, answer(T + 4, "7", "new…", true)).await), ("new…".into(), true), "another version");
}

async fn every_way_by_which_a_tweet_came_is_kept(store: &dyn Store) {
    let new = [new_tweet("1", T, Some(T)), new_tweet("2", T, Some(T))];
    let polled = Way { pipeline: "poll".into(), source: "cats".into(), query: Some("cats OR kittens".into()) };
    store.record(NS, T, &polled, &new[..1]).await.unwrap();
    for at in [T + 1, T + 2] {
        store.record(NS, at, &way(), &new).await.unwrap();
    }
    assert_eq!(store.ways(NS, "1").await.unwrap(), [(T, polled), (T + 1, way())]);
    assert_eq!(store.ways(NS, "2").await.unwrap(), [(T + 1, way())]);
    assert_eq!(store.ways("other", "1").await.unwrap(), []);
}

async fn a_text_that_is_too_long_is_cut_and_marked(store: &dyn Store) {
    let mut short = tweet("1", counts(1, 1));
    short.text = Some("a".repeat(2_000));
    store.save(NS, &[observation("1", T - 10, Finding::Found(short))]).await.unwrap();
    // Edited in place, which leaves its length: the newest text is stored all the same.
    for (at, letter) in [(T, "<"), (T + 10, "é")] {
        let long = letter.repeat(1_000_000);
        let mut tweet = tweet("1", counts(1, 1));
        (tweet.text, tweet.details.truncated) = (Some(long.clone()), Some(false));
        tweet.raw = format!("{{\"text\":\"{long}\",\"padding\":\"{}\"}}", "x".repeat(100_000));
        let length = tweet.raw.len();
        store.save(NS, &[observation("1", at, Finding::Found(tweet))]).await.unwrap();
        let stored = store.tweet(NS, "1").await.unwrap().unwrap();
        let text = stored.text.unwrap();
        assert!(text.len() <= LONGEST_TEXT && text.starts_with(letter), "{} bytes", text.len());
        assert!(text.ends_with(&format!("… [cut: {} bytes]", long.len())) && is_truncated(&text));
        assert_eq!(stored.details.truncated, Some(true));
        assert_eq!(stored.raw.unwrap(), format!("{{\"cut\":{length}}}"), "an object over 1 MiB");
    }
    let changes = store.changes(NS, "1").await.unwrap();
    let edit = changes.iter().find(|change| change.field == "text").unwrap();
    let [old, new] = [&edit.old, &edit.new].map(|value| value.as_deref().unwrap().chars().count());
    assert_eq!((old, new), (1_000, 1_000), "the beginning of each value");
    let content = Tweet { text: Some("<".repeat(1_000_000)), ..tweet("2", counts(1, 1)) };
    let new = NewItem { content: Some(Box::new(content)), ..new_tweet("2", T, Some(T)) };
    store.record(NS, T, &way(), &[new]).await.unwrap();
    assert!(is_truncated(&store.tweet(NS, "2").await.unwrap().unwrap().text.unwrap()), "an ingest's text");
}

async fn a_missing_tweet_keeps_all_else(store: &dyn Store) {
    saved(store, found("1", T, counts(1, 2))).await;
    let before = saved(store, withheld("1", T + 1, counts(1, 2), "DE")).await;
    let stored = saved(store, missing("1", T + 2, 1, T + 2)).await;
    let expected = StoredTweet {
        state: ItemState::Unavailable,
        checked_at: Some(T + 2),
        next_due: Some(T + 60_002),
        lookups: 3,
        misses: 1,
        missing_since: Some(T + 2),
        ..before
    };
    assert_eq!(stored, expected);
    let stored = saved(store, missing("1", T + 3, 2, T + 2)).await;
    assert_eq!((stored.misses, stored.missing_since), (2, Some(T + 2)));
    assert_eq!(store.history(NS, "1").await.unwrap().len(), 1);
}

async fn a_broken_answer_only_moves_the_due_time(store: &dyn Store) {
    saved(store, withheld("1", T, counts(1, 2), "DE")).await;
    let before = saved(store, missing("1", T + 1, 3, T - 1)).await;
    let mut answer = broken("1", T + 2);
    answer.state = ItemState::Unavailable;
    let stored = saved(store, answer).await;
    let expected = StoredTweet { next_due: Some(T + 60_002), unreadable: Some("no text".into()), ..before };
    assert_eq!(stored, expected, "it is no answer, so the post looks no fresher");
    assert_eq!(saved(store, found("1", T + 3, counts(1, 2))).await.unreadable, None);
}

async fn a_row_that_a_broken_answer_makes_was_never_answered(store: &dyn Store) {
    // In a batch with others, and given once more, as after a lost reply.
    for _ in 0..2 {
        let batch = [found("1", T, counts(1, 2)), broken("2", T), broken("3", T)];
        let outcome = save(store, &batch).await;
        assert_eq!((outcome.saved, outcome.older), (3, 0));
    }
    let made = StoredTweet {
        id: "2".into(),
        state: ItemState::Live,
        first_seen: T,
        next_due: Some(T + 60_000),
        unreadable: Some("no text".into()),
        ..StoredTweet::default()
    };
    assert_eq!(get(store, "2").await, made, "it looks no fresher than one that was recorded");
    assert_eq!((get(store, "1").await.checked_at, get(store, "1").await.lookups), (Some(T), 1));

    // Its first miss is one of a post that no answer ever found, so its end is no deletion.
    let mut miss = missing("2", T + 1, 1, T + 1);
    (miss.state, miss.next_due) = (ItemState::Ended, None);
    let ended = saved(store, miss).await;
    assert_eq!((ended.lookups, ended.misses, ended.checked_at), (1, 1, Some(T + 1)));
    assert!(!store.standing(NS, &["2".to_owned()]).await.unwrap().remove(0).unwrap().was_found());
    assert_eq!(store.remove(NS, Expiry::Deleted, &["2".to_owned()]).await.unwrap(), 0);
    // An answer of the same moment that can be read is its first one.
    let first = saved(store, found("3", T, counts(4, 7))).await;
    assert_eq!((first.checked_at, first.lookups, first.unreadable), (Some(T), 1, None));
    assert_eq!(store.history(NS, "3").await.unwrap(), [MetricsAt { checked_at: T, metrics: counts(4, 7) }]);
    // Of two answers in one batch the newer one counts, whichever can be read.
    save(store, &[found("4", T, counts(1, 1)), broken("4", T + 1)]).await;
    save(store, &[broken("5", T), found("5", T + 1, counts(1, 1))]).await;
    assert_eq!((get(store, "4").await.checked_at, get(store, "5").await.checked_at), (None, Some(T + 1)));
}

async fn a_promoted_post_is_due_sooner_and_never_later(store: &dyn Store) {
    store.record(NS, T, &way(), &["1", "2", "3", "4"].map(|id| new_tweet(id, T, Some(T + 100)))).await.unwrap();
    saved(store, missing("2", T, 1, T)).await;
    mark_dead(store, "3", "why").await;
    let mut last = missing("4", T, 9, T - 8);
    (last.state, last.next_due) = (ItemState::Ended, None);
    saved(store, last).await;
    let before = [get(store, "3").await, get(store, "4").await];
    let dues = ["1", "2", "3", "4", "nobody"].map(|id| (id.to_owned(), T + 50));
    for _ in 0..2 {
        store.promote(NS, &dues).await.unwrap();
        assert_eq!((get(store, "1").await.next_due, get(store, "2").await.next_due), (Some(T + 50), Some(T + 50)));
    }
    assert_eq!(get(store, "2").await.state, ItemState::Unavailable);
    assert_eq!([get(store, "3").await, get(store, "4").await], before);
    assert_eq!(store.tweet(NS, "nobody").await.unwrap(), None);
    store.promote(NS, &[("1".to_owned(), T + 60)]).await.unwrap();
    assert_eq!(get(store, "1").await.next_due, Some(T + 50));
    store.promote(NS, &[]).await.unwrap();
    store.promote("other", &dues).await.unwrap();
}

async fn found_clears_misses_and_the_withheld_mark(store: &dyn Store) {
    saved(store, withheld("1", T, counts(1, 2), "DE")).await;
    saved(store, missing("1", T + 1, 3, T - 1)).await;
    let stored = saved(store, found("1", T + 2, counts(1, 2))).await;
    assert_eq!((stored.misses, stored.missing_since, stored.withheld_in), (0, None, None));
    assert_eq!(stored.state, ItemState::Live);
}

async fn an_older_answer_changes_nothing(store: &dyn Store) {
    let before = saved(store, found("1", T + 5, counts(1, 2))).await;
    let older = [found("1", T + 4, counts(8, 9)), missing("2", T, 1, T)];
    assert_eq!(save(store, &older).await, SaveCounts { saved: 1, older: 1, changed: 0 });
    for older in [missing("1", T + 4, 1, T), withheld("1", T, counts(8, 9), "DE"), broken("1", T)] {
        assert_eq!(save(store, &[older]).await, SaveCounts { saved: 0, older: 1, changed: 0 });
    }
    assert_eq!(get(store, "1").await, before);
    assert_eq!(store.history(NS, "1").await.unwrap().len(), 1);
}

async fn the_same_save_again_changes_nothing(store: &dyn Store) {
    let batch =
        [found("1", T, counts(1, 2)), withheld("2", T, counts(3, 4), "DE"), missing("3", T, 2, T - 1), broken("4", T)];
    assert_eq!(save(store, &batch).await, SaveCounts { saved: 4, older: 0, changed: 2 });
    let ids = ["1", "2", "3", "4"];
    let before = join_all(ids.map(|id| get(store, id))).await;
    for _ in 0..2 {
        assert_eq!(save(store, &batch).await, SaveCounts { saved: 4, older: 0, changed: 0 });
    }
    assert_eq!(join_all(ids.map(|id| get(store, id))).await, before);
    assert_eq!(store.history(NS, "1").await.unwrap().len(), 1);
}

async fn a_repeat_after_a_revival_does_not_end_it_again(store: &dyn Store) {
    let mut last = found("1", T, counts(1, 2));
    (last.state, last.next_due) = (ItemState::Ended, None);
    save(store, std::slice::from_ref(&last)).await;
    store.record(NS, T, &way(), &[new_tweet("1", T, Some(T + 7))]).await.unwrap();
    assert_eq!(save(store, &[last]).await, SaveCounts { saved: 1, older: 0, changed: 0 });
    let stored = get(store, "1").await;
    assert_eq!((stored.state, stored.next_due), (ItemState::Live, Some(T + 7)));
}

async fn of_an_id_twice_in_a_batch_the_newest_answer_counts(store: &dyn Store) {
    let batch = [
        found("1", T + 1, counts(1, 1)),
        found("1", T + 3, counts(3, 3)),
        found("2", T, counts(5, 5)),
        found("1", T + 2, counts(2, 2)),
    ];
    assert_eq!(save(store, &batch).await, SaveCounts { saved: 2, older: 2, changed: 2 });
    let stored = get(store, "1").await;
    assert_eq!((stored.metrics, stored.checked_at, stored.lookups), (counts(3, 3), Some(T + 3), 1));
    assert_eq!(save(store, &batch).await, SaveCounts { saved: 2, older: 2, changed: 0 });
}

async fn history_has_a_row_per_change(store: &dyn Store) {
    let row = |checked_at, metrics| MetricsAt { checked_at, metrics };
    let steps = [(0, counts(1, 1), 1), (10, counts(1, 1), 0), (20, counts(1, 2), 1), (30, counts(0, 2), 1)];
    for (after, metrics, changed) in steps {
        assert_eq!(save(store, &[found("1", T + after, metrics)]).await, SaveCounts { saved: 1, older: 0, changed });
    }
    assert_eq!(save(store, &[missing("1", T + 40, 1, T)]).await.changed, 0);
    assert_eq!(save(store, &[found("1", T + 50, Metrics::default())]).await.changed, 0);
    let expected = [row(T, counts(1, 1)), row(T + 20, counts(1, 2)), row(T + 30, counts(0, 2))];
    assert_eq!(store.history(NS, "1").await.unwrap(), expected);
}

async fn a_count_given_for_the_first_time_is_a_change(store: &dyn Store) {
    // v1.1 gives two counts, v2 the others: each alone must be seen as a change.
    let single = |n: usize| {
        let mut metrics = Metrics::default();
        let count = match n {
            0 => &mut metrics.retweet_count,
            1 => &mut metrics.favorite_count,
            2 => &mut metrics.reply_count,
            3 => &mut metrics.quote_count,
            4 => &mut metrics.bookmark_count,
            _ => &mut metrics.impression_count,
        };
        *count = Some(0);
        metrics
    };
    assert_eq!(save(store, &[found("1", T - 1, Metrics::default())]).await.changed, 0);
    for n in 0..6 {
        assert_eq!(save(store, &[found("1", T + n as i64, single(n))]).await.changed, 1, "count {n}");
    }
    let zero = Some(0);
    let all = Metrics {
        retweet_count: zero,
        favorite_count: zero,
        reply_count: zero,
        quote_count: zero,
        bookmark_count: zero,
        impression_count: zero,
    };
    let history = store.history(NS, "1").await.unwrap();
    assert_eq!((history.len(), history.last().map(|row| row.metrics)), (6, Some(all)));
}

async fn recent_events_belong_to_the_newest_answer(store: &dyn Store) {
    let standing = async || store.standing(NS, &["1".to_owned()]).await.unwrap().remove(0).unwrap();
    let with = |answer: Observation, recent| Observation { recent, ..answer };
    saved(store, with(found("1", T, counts(4, 7)), Some(2.5))).await;
    let known = standing().await;
    assert_eq!((known.recent, known.metrics, known.checked_at), (Some(2.5), counts(4, 7), Some(T)));

    // Broken is no answer, and an older one changes nothing.
    saved(store, broken("1", T + 1)).await;
    save(store, &[with(found("1", T - 1, counts(9, 9)), Some(9.0))]).await;
    assert_eq!(standing().await, Standing { unreadable: Some("no text".into()), ..known.clone() });

    // The next answer has its own, or none: what was stored belongs to another moment.
    saved(store, with(found("1", T + 2, counts(5, 7)), Some(1e-300))).await;
    assert_eq!(standing().await.recent, Some(1e-300));
    let last_answer = store.last_answers(NS, &["1".to_owned()]).await.unwrap().remove(0);
    assert_eq!(last_answer, Some(LastAnswer::from(&standing().await)));
    saved(store, found("1", T + 3, counts(5, 8))).await;
    assert_eq!(standing().await.recent, None);
    // A miss has no counts: what was learnt before it stays.
    saved(store, with(found("1", T + 4, counts(5, 8)), Some(3.0))).await;
    saved(store, missing("1", T + 5, 1, T + 5)).await;
    let missed = standing().await;
    assert_eq!((missed.recent, missed.metrics), (Some(3.0), counts(5, 8)));
}

async fn what_was_learnt_is_replaced_by_one_of_those_who_know_it(store: &dyn Store) {
    assert_eq!(store.corrections(NS).await.unwrap(), None);
    let first =
        BudgetCorrections { at: T, price: 1.0, level: 1.0, calls: 7.5, events: 1e12, ..BudgetCorrections::default() };
    assert!(store.replace_corrections(NS, None, &first).await.unwrap());
    assert!(
        !store.replace_corrections(NS, None, &BudgetCorrections { at: T + 1, ..first }).await.unwrap(),
        "another one was first"
    );
    let second = BudgetCorrections { at: T + 5, price: 1.25, average_events: 0.125, ..first };
    assert!(!store.replace_corrections(NS, Some(T + 1), &second).await.unwrap());
    assert_eq!(store.corrections(NS).await.unwrap(), Some(first));
    assert!(store.replace_corrections(NS, Some(T), &second).await.unwrap());
    assert!(!store.replace_corrections(NS, Some(T), &first).await.unwrap(), "the same again");
    assert_eq!(store.corrections(NS).await.unwrap(), Some(second));
    assert_eq!(store.corrections("other").await.unwrap(), None);
}

async fn the_dead_stay_dead(store: &dyn Store) {
    saved(store, found("1", T, counts(1, 2))).await;
    let before = saved(store, missing("1", T + 1, 3, T - 1)).await;
    mark_dead(store, "1", "it broke 3 workers").await;
    let dead =
        StoredTweet { state: ItemState::Dead, next_due: None, reason: Some("it broke 3 workers".into()), ..before };
    assert_eq!(get(store, "1").await, dead);
    for answer in [found("1", T + 9, counts(5, 5)), missing("1", T + 1, 3, T - 1), broken("1", T + 9)] {
        assert_eq!(save(store, &[answer]).await, SaveCounts { saved: 0, older: 1, changed: 0 });
    }
    let again = store.record(NS, T + 9, &way(), &[new_tweet("1", T, Some(T))]).await.unwrap();
    assert_eq!(again, RecordCounts { new: 0, known: 1, revived: 0 });
    assert_eq!(get(store, "1").await, dead);
    assert_eq!(store.history(NS, "1").await.unwrap().len(), 1);
}

async fn marking_dead_twice_keeps_the_first_reason(store: &dyn Store) {
    // Never recorded: a row is made, or a queue rebuilt from the store would not know.
    let ids = [("1", "first"), ("2", "other"), ("1", "second")].map(|(id, why)| (id.to_owned(), why.to_owned()));
    store.mark_dead(NS, T, &ids).await.unwrap();
    mark_dead(store, "1", "third").await;
    let one = get(store, "1").await;
    assert_eq!((one.state, one.reason.as_deref()), (ItemState::Dead, Some("first")));
    assert_eq!((one.first_seen, one.checked_at, one.lookups), (T, None, 0));
    assert_eq!(get(store, "2").await.reason.as_deref(), Some("other"));
    assert_eq!(store.counts(NS).await.unwrap(), StateCounts { dead: 2, ..StateCounts::default() });
    assert_eq!(store.dead(NS).await.unwrap(), 2);
}

async fn the_resolved_dead_live_again_or_end(store: &dyn Store) {
    saved(store, missing("1", T, 4, T - 3)).await;
    saved(store, found("2", T, counts(1, 2))).await;
    saved(store, found("3", T, counts(1, 2))).await;
    for id in ["1", "2"] {
        mark_dead(store, id, "why").await;
    }
    let living = get(store, "3").await;
    let calls = [
        dead_resolution("1", Some(T + 5)),
        dead_resolution("2", None),
        dead_resolution("3", None),
        dead_resolution("4", Some(T + 6)),
    ];
    for at in [T + 9, T + 10] {
        // The second time changes nothing: nobody is dead any more.
        store.resolve_dead(NS, at, &calls).await.unwrap();
        let (one, two) = (get(store, "1").await, get(store, "2").await);
        assert_eq!((one.state, one.next_due, one.created_at), (ItemState::Live, Some(T + 5), Some(T - 70)));
        assert_eq!((one.misses, one.missing_since, one.reason), (0, None, None));
        // Without its misses, an id that no answer found is still none that was found.
        assert_eq!((one.lookups, two.lookups), (0, 1));
        assert_eq!((two.state, two.next_due, two.created_at), (ItemState::Ended, None, Some(T)));
        assert_eq!((two.metrics, two.checked_at, two.reason), (counts(1, 2), Some(T), None));
        assert_eq!(get(store, "3").await, living, "it was not dead");
        let four = get(store, "4").await;
        assert_eq!((four.state, four.next_due, four.first_seen), (ItemState::Live, Some(T + 6), T + 9));
    }
    // Answers count again; and it may die again, for another reason.
    assert_eq!(saved(store, found("1", T + 20, counts(3, 4))).await.metrics, counts(3, 4));
    mark_dead(store, "1", "again").await;
    assert_eq!(get(store, "1").await.reason.as_deref(), Some("again"));
}

async fn pages_hold_the_living_or_the_dead_once_each(store: &dyn Store) {
    let all: Vec<_> = (100..135).map(|n| new_tweet(&n.to_string(), T - n, (n % 5 > 0).then_some(T + n))).collect();
    store.record(NS, T, &way(), &all).await.unwrap();
    saved(store, missing("101", T, 1, T)).await;
    for id in ["102", "131"] {
        mark_dead(store, id, &format!("why {id}")).await;
    }
    // Neither another pipeline nor an id that is greater by number alone.
    store.record("other", T, &way(), &[new_tweet("120", T, Some(T))]).await.unwrap();
    store.record(NS, T, &way(), &[new_tweet("99", T, Some(T))]).await.unwrap();

    let living: Vec<String> = ["99".to_owned()]
        .into_iter()
        .chain((100..135).rev().filter(|n| n % 5 > 0 && ![102, 131].contains(n)).map(|n| n.to_string()))
        .collect();
    for limit in [1, 7, 1_000] {
        let listed = pages(store, Listing::Tracked, limit).await;
        assert_eq!(ids(&listed), living);
        let of = |id: &str| listed.iter().find(|listed| listed.id == id).unwrap();
        assert_eq!((of("101").state, of("101").next_due), (ItemState::Unavailable, Some(T + 60_000)));
        let (created_at, next_due) = (Some(T - 134), Some(T + 134));
        let (id, state) = ("134".into(), ItemState::Live);
        assert_eq!(
            *of("134"),
            ListedItem { id, state, created_at, next_due, checked_at: None, reason: None, once: false }
        );
        let dead = pages(store, Listing::Dead, limit).await;
        assert_eq!(ids(&dead), ["131", "102"]);
        assert_eq!((dead[0].state, dead[0].reason.as_deref()), (ItemState::Dead, Some("why 131")));
        assert_eq!(dead[0].next_due, None);
    }
}

async fn a_page_moves_on_while_rows_come_and_go(store: &dyn Store) {
    store.record(NS, T, &way(), &["1", "3", "5", "7", "9"].map(|id| new_tweet(id, T, Some(T)))).await.unwrap();
    let first = store.page(NS, Listing::Tracked, None, 2).await.unwrap();
    assert_eq!(ids(&first), ["9", "7"]);
    // Above it and below it: some come, some go, one changes its state and its due time.
    store.record(NS, T, &way(), &["2", "8"].map(|id| new_tweet(id, T, Some(T - 9)))).await.unwrap();
    mark_dead(store, "7", "why").await;
    mark_dead(store, "5", "why").await;
    saved(store, missing("3", T + 1, 1, T)).await;
    let rest = store.page(NS, Listing::Tracked, Some("7"), 9).await.unwrap();
    assert_eq!(ids(&rest), ["3", "2", "1"]);
}

async fn what_ended_and_is_expired_is_removed_whole(store: &dyn Store) {
    let ended = |id: &str, at| Observation { state: ItemState::Ended, next_due: None, ..found(id, at, counts(1, 1)) };
    let deleted =
        |id: &str, at| Observation { state: ItemState::Ended, next_due: None, forget: true, ..missing(id, at, 1, at) };
    for observation in [ended("1", T), ended("2", T + 9), found("3", T, counts(1, 1)), found("4", T, counts(1, 1))] {
        store.save(NS, &[observation]).await.unwrap();
    }
    store.save(NS, &[deleted("4", T + 5), deleted("5", T + 5)]).await.unwrap(); // of 5 nothing was ever known
    let known = store.standing(NS, &["3", "4", "5"].map(str::to_owned)).await.unwrap();
    assert_eq!(known.into_iter().map(|of| of.unwrap().is_blanked).collect::<Vec<_>>(), [false, true, false]);
    store.record(NS, T, &way(), &[new_tweet("1", T, None), new_tweet("6", T, None)]).await.unwrap();
    mark_dead(store, "7", "why").await;
    let all: Vec<String> = (0..9).map(|n| n.to_string()).collect();
    assert_eq!(ids(&pages(store, Listing::Ended, 2).await), ["6", "5", "4", "2", "1"]);

    assert_eq!(store.remove("other", Expiry::Deleted, &all).await.unwrap(), 0);
    assert_eq!(store.remove(NS, Expiry::Deleted, &all[..4]).await.unwrap(), 0);
    for removed in [1, 0] {
        assert_eq!(store.remove(NS, Expiry::Deleted, &all).await.unwrap(), removed);
    }
    assert_eq!(store.remove(NS, Expiry::Before(T + 5), &all).await.unwrap(), 2);
    assert_eq!(ids(&pages(store, Listing::Ended, 9).await), ["5", "2"]);
    for gone in ["1", "4", "6"] {
        assert_eq!(store.tweet(NS, gone).await.unwrap(), None);
        assert_eq!(store.history(NS, gone).await.unwrap(), []);
        assert_eq!(store.changes(NS, gone).await.unwrap(), []);
        assert_eq!(store.ways(NS, gone).await.unwrap(), []);
    }
    // Whoever comes again is new.
    let again = store.record(NS, T + 9, &way(), &[new_tweet("1", T, Some(T))]).await.unwrap();
    assert_eq!(again, RecordCounts { new: 1, ..RecordCounts::default() });
    assert_eq!(store.remove(NS, Expiry::Before(T + 99), &all).await.unwrap(), 2);
    assert_eq!(store.counts(NS).await.unwrap(), StateCounts { live: 2, dead: 1, ..StateCounts::default() });
    assert_eq!(store.dead(NS).await.unwrap(), 1);
}

async fn namespaces_do_not_mix(store: &dyn Store) {
    let other = "mastodon:update:example.org";
    saved(store, found("1", T, counts(1, 2))).await;
    assert_eq!(store.save(other, &[found("1", T - 5, counts(7, 8))]).await.unwrap().saved, 1);
    store.mark_dead(other, T, &[("1".into(), "why".into())]).await.unwrap();
    let here = get(store, "1").await;
    assert_eq!((here.state, here.metrics), (ItemState::Live, counts(1, 2)));
    let there = store.tweet(other, "1").await.unwrap().unwrap();
    assert_eq!((there.state, there.metrics), (ItemState::Dead, counts(7, 8)));
    assert_eq!(store.history(other, "1").await.unwrap(), [MetricsAt { checked_at: T - 5, metrics: counts(7, 8) }]);
    assert_eq!(store.counts(NS).await.unwrap(), StateCounts { live: 1, ..StateCounts::default() });
    assert_eq!((store.dead(NS).await.unwrap(), store.dead(other).await.unwrap()), (0, 1));
    assert_eq!(store.standing("none", &["1".into()]).await.unwrap(), [None]);
}

async fn text_with_nul_costs_no_batch(store: &dyn Store) {
    let mut answer = tweet("1\0", counts(1, 2));
    answer.text = Some("a\0b\0".into());
    answer.author_id = Some("\0".into());
    answer.author_name = Some("jack\0".into());
    answer.raw = "{\"text\":\"a\0b\"}".into();
    let batch =
        [super::observation("1", T, Finding::Found(answer)), withheld("2", T, counts(1, 2), "D\0E"), broken("3\0", T)];
    assert_eq!(save(store, &batch).await, SaveCounts { saved: 3, older: 0, changed: 2 });
    let one = get(store, "1").await;
    assert_eq!(one.text.as_deref(), Some("a\u{fffd}b\u{fffd}"));
    assert_eq!(one.author_id.as_deref(), Some("\u{fffd}"));
    assert_eq!(one.author_name.as_deref(), Some("jack\u{fffd}"));
    assert_eq!(one.current_id.as_deref(), Some("1\u{fffd}"));
    assert_eq!(one.raw.as_deref(), Some("{\"text\":\"a\u{fffd}b\"}"));
    assert_eq!(get(store, "2").await.withheld_in.as_deref(), Some("D\u{fffd}E"));
    mark_dead(store, "2", "it broke\0").await;
    assert_eq!(get(store, "2").await.reason.as_deref(), Some("it broke\u{fffd}"));
    // Such an id is nobody's, but it is found again under the name it was given.
    assert!(store.standing(NS, &["3\0".into()]).await.unwrap()[0].is_some());
    assert_eq!(save(store, &batch).await, SaveCounts { saved: 2, older: 1, changed: 0 });
}

async fn counts_have_64_bits(store: &dyn Store) {
    let metrics = Metrics { impression_count: Some(i64::MAX), ..counts(i64::from(u32::MAX) + 1, i64::MIN) };
    assert_eq!(saved(store, found("9223372036854775807", T, metrics)).await.metrics, metrics);
    let missing = saved(store, missing("2", T, u32::MAX, i64::MAX)).await;
    assert_eq!((missing.misses, missing.missing_since), (i64::from(u32::MAX), Some(i64::MAX)));
}

async fn thousands_of_rows_in_one_call(store: &dyn Store) {
    let ids: Vec<String> = (0..2_500).map(|n| n.to_string()).collect();
    let tweets: Vec<_> = ids.iter().map(|id| new_tweet(id, T, Some(T))).collect();
    assert_eq!(store.record(NS, T, &way(), &tweets).await.unwrap(), RecordCounts { new: 2_500, known: 0, revived: 0 });
    let batch: Vec<_> = ids.iter().map(|id| found(id, T, counts(1, 2))).collect();
    assert_eq!(save(store, &batch).await, SaveCounts { saved: 2_500, older: 0, changed: 2_500 });
    assert!(store.standing(NS, &ids).await.unwrap().iter().flatten().all(|known| known.checked_at == Some(T)));
    let dead: Vec<_> = ids.iter().map(|id| (id.clone(), "why".to_owned())).collect();
    store.mark_dead(NS, T, &dead).await.unwrap();
    assert_eq!(store.counts(NS).await.unwrap(), StateCounts { dead: 2_500, ..StateCounts::default() });
}

async fn overlapping_batches_at_once_end_with_the_newest(store: &dyn Store) {
    const WRITERS: i64 = 8;
    const ROUNDS: i64 = 20;
    let ids: Vec<String> = (0..60).map(|n| n.to_string()).collect();
    let writer = async |writer: i64| {
        let mut random = StdRng::seed_from_u64(writer as u64);
        let mut sum = SaveCounts::default();
        for round in 0..ROUNDS {
            // Each writer has its own times; the last writer's last round is the newest of all.
            let at = T + round * WRITERS + writer;
            let mut batch: Vec<_> = ids.iter().map(|id| found(id, at, counts(at - T, writer))).collect();
            batch.shuffle(&mut random);
            let saved = save(store, &batch).await;
            assert_eq!(saved.saved + saved.older, ids.len() as u64);
            sum.saved += saved.saved;
            sum.changed += saved.changed;
        }
        sum
    };
    let sums = join_all((0..WRITERS).map(writer)).await;
    let (mut lookups, mut rows) = (0, 0);
    for id in &ids {
        let stored = get(store, id).await;
        let newest = WRITERS * ROUNDS - 1;
        assert_eq!((stored.checked_at, stored.metrics), (Some(T + newest), counts(newest, WRITERS - 1)));
        let history = store.history(NS, id).await.unwrap();
        assert!(history.iter().all(|row| row.metrics.retweet_count == Some(row.checked_at - T)));
        lookups += stored.lookups.unsigned_abs();
        rows += history.len() as u64;
    }
    // Every answer that was taken is counted once, and each of them had other counts.
    assert_eq!(sums.iter().map(|sum| sum.saved).sum::<u64>(), lookups);
    assert_eq!(sums.iter().map(|sum| sum.changed).sum::<u64>(), rows);
    assert_eq!(lookups, rows);
}

async fn overlapping_calls_of_every_kind_at_once(store: &dyn Store) {
    let ids: Vec<String> = (0..40).map(|n| n.to_string()).collect();
    let caller = async |caller: u64| {
        let mut random = StdRng::seed_from_u64(caller);
        let mut ids = ids.clone();
        for round in 0..20 {
            ids.shuffle(&mut random);
            let at = T + round;
            match caller % 3 {
                0 => {
                    let tweets: Vec<_> = ids.iter().map(|id| new_tweet(id, T, Some(at))).collect();
                    let recorded = store.record(NS, at, &way(), &tweets).await.unwrap();
                    assert_eq!(recorded.new + recorded.known + recorded.revived, 40);
                }
                1 => {
                    let batch: Vec<_> = ids.iter().map(|id| missing(id, at, 1, T)).collect();
                    save(store, &batch).await;
                }
                _ => {
                    let dead: Vec<_> = ids.iter().take(2).map(|id| (id.clone(), "why".to_owned())).collect();
                    store.mark_dead(NS, at, &dead).await.unwrap();
                }
            }
        }
    };
    join_all((0..6).map(caller)).await;
    let counts = store.counts(NS).await.unwrap();
    assert_eq!(counts.live + counts.unavailable + counts.dead, 40);
    assert!(counts.dead >= 2);
}
