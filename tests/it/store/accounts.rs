//! Accounts: what every backend keeps of them, rule by rule, and a random comparison with a model.

use futures::TryStreamExt;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use twitter_updater::base::clock::Millis;
use twitter_updater::model::account::{Absence, Account, AccountCounts, AccountState};
use twitter_updater::model::bound::is_truncated;
use twitter_updater::model::post::{ItemState, Metrics, Tweet};
use twitter_updater::store::export::{ACCOUNTS, Cell, ExportFilter, ExportTables};
use twitter_updater::store::{
    AccountTotal, Accounts, CountsAt, Expiry, Finding, HandleBearer, Lifecycle, NewItem, Observation, SaveCounts,
    Sighting, Store, StoredAccount,
};

use super::{PATIENCE, SqliteStore, T, new_tweet, open_postgres, way};
use crate::support::memory_store::MemoryStore;

const NS: &str = "profiles:twitter";
const DAY: Millis = 24 * 3_600_000;

macro_rules! on_both {
    ($($case:ident)*) => {
        on_both!(@ postgres super::super::postgres_world; $($case)*);
        on_both!(@ sqlite super::super::sqlite_world; $($case)*);
    };
    (@ $backend:ident $world:expr; $($case:ident)*) => {
        mod $backend {
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

on_both! {
    a_found_account_is_stored_whole
    a_text_of_an_account_that_is_too_long_is_cut_and_marked
    a_handle_waits_until_it_is_settled
    handles_that_wait_take_no_more_room
    each_change_is_history_and_what_is_not_stated_is_none
    counts_are_history_when_one_of_them_changed
    a_short_link_that_becomes_an_address_is_no_change
    a_deletion_that_bluesky_states_is_one_at_once
    the_handle_of_a_suspended_account_is_kept_until_it_is_erased
    a_post_does_not_keep_a_handle_that_another_account_bears
    an_older_answer_the_same_again_and_the_dead_change_nothing
    one_that_went_and_came_back_has_both_in_its_history
    what_is_forgotten_is_gone_and_comes_back_with_the_account
    former_handles_lead_to_their_accounts
    posts_are_signs_of_life
    a_removed_account_leaves_nothing
    any_answers_do_to_it_what_they_do_to_the_model
    an_account_that_a_broken_answer_of_the_same_moment_did_not_show_is_stored
}

fn text(text: &str) -> Option<String> {
    Some(text.to_owned())
}

fn account(id: &str, handle: &str) -> Account {
    Account {
        id: id.to_owned(),
        handle: text(handle),
        display_name: text("Ann"),
        description: text("of all trades"),
        location: text("Porto"),
        url: text(""),
        protected: Some(false),
        verified: Some(false),
        created_at: Some(T - 900 * DAY),
        counts: AccountCounts { followers: Some(10), posts: Some(5), ..AccountCounts::default() },
        last_post_at: Some(T - DAY),
        state: AccountState::Live,
        raw: format!(r#"{{"id_str":"{id}"}}"#),
        ..Account::default()
    }
}

fn answer(id: &str, at: Millis, finding: Finding<Account>, state: ItemState) -> Observation<Account> {
    let next_due = Some(at + DAY);
    Observation {
        id: id.to_owned(),
        answered_at: at,
        finding,
        state,
        next_due,
        follow: None,
        forget: false,
        recent: None,
    }
}

fn found(at: Millis, account: Account) -> Observation<Account> {
    answer(&account.id.clone(), at, Finding::Found(account), ItemState::Live)
}

fn missing(id: &str, at: Millis, since: Millis, reason: Option<Absence>, state: ItemState) -> Observation<Account> {
    answer(id, at, Finding::Missing { misses: 1, since, reason, handle: None }, state)
}

async fn save(store: &dyn Store, answers: &[Observation<Account>]) -> SaveCounts {
    store.save_accounts(NS, answers).await.unwrap()
}

async fn stored(store: &dyn Store, id: &str) -> StoredAccount {
    store.account(NS, id).await.unwrap().unwrap()
}

/// Its changes: `field: old > new` and when, ms after [`T`].
async fn changes(store: &dyn Store, id: &str) -> Vec<String> {
    let changes = store.account_changes(NS, id).await.unwrap().into_iter();
    let told = |at, field, old: Option<String>, new: Option<String>| {
        format!("{} {field}: {} > {}", at - T, old.unwrap_or_default(), new.unwrap_or_default())
    };
    changes.map(|of| told(of.at, of.field, of.old, of.new)).collect()
}

/// Also one without an answer, which has a row in `tweet` alone.
async fn each_account_is_exported(store: &(impl Store + ExportTables)) {
    store.migrate().await.unwrap();
    let new = ["11", "13"].map(|id| new_tweet(id, T, Some(T)));
    store.record(NS, T, &way(), &new).await.unwrap();
    store.record("profiles:x", T, &way(), &new).await.unwrap();
    save(store, &[found(T, account("12", "ann"))]).await;
    let wanted = ExportFilter { namespace: NS.into(), ..ExportFilter::default() };
    let rows: Vec<_> = store.rows(&ACCOUNTS[0], &wanted).try_collect().await.unwrap();
    let mut told: Vec<_> = rows.iter().map(|row| row.cells[..3].to_vec()).collect();
    told.sort_by_key(|cells| format!("{cells:?}"));
    let cell = |word: &str| Cell::Text(word.to_owned());
    let unknown = |id: &str| vec![cell(id), cell("unknown"), Cell::None];
    assert_eq!(told, [unknown("11"), vec![cell("12"), cell("live"), cell("ann")], unknown("13")]);
    // Behind each row come the others.
    for (at, row) in rows.iter().enumerate() {
        let wanted = ExportFilter { after: Some(row.key.clone()), ..wanted.clone() };
        let rest: Vec<_> = store.rows(&ACCOUNTS[0], &wanted).try_collect().await.unwrap();
        assert_eq!(rest, rows[at + 1..]);
    }
}

#[tokio::test]
async fn each_account_of_a_file_is_exported() {
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(&folder.path().join("s.db"), PATIENCE).await.unwrap();
    each_account_is_exported(&store).await;
}

#[tokio::test]
async fn each_account_of_postgresql_is_exported() {
    let store = open_postgres(&crate::support::postgres::database().await).await;
    each_account_is_exported(&store).await;
}

async fn a_found_account_is_stored_whole(store: &dyn Store) {
    let new = account("12", "ann");
    assert_eq!(save(store, &[found(T, new.clone())]).await, SaveCounts { saved: 1, older: 0, changed: 0 });
    let expected = StoredAccount {
        id: "12".into(),
        state: "live".into(),
        handle: new.handle,
        display_name: new.display_name,
        description: new.description,
        location: new.location,
        url: new.url,
        protected: Some(false),
        verified: Some(false),
        counts: new.counts,
        created_at: new.created_at,
        last_post_at: new.last_post_at,
        active_at: new.last_post_at,
        first_seen: T,
        checked_at: Some(T),
        next_due: Some(T + DAY),
        lookups: 1,
        raw: Some(new.raw),
        ..StoredAccount::default()
    };
    assert_eq!(stored(store, "12").await, expected);
    assert_eq!(changes(store, "12").await, [""; 0]);
    assert_eq!(store.account(NS, "13").await.unwrap(), None);
    let counted = CountsAt { checked_at: T, counts: new.counts };
    assert_eq!(store.account_counts(NS, "12").await.unwrap(), [counted]);
    store.record(NS, T, &way(), &[new_tweet("14", T, Some(T))]).await.unwrap();
    assert_eq!(stored(store, "14").await.state, "unknown", "no answer yet");
    let states = store.account_states(NS).await.unwrap();
    let total =
        |state: &str, accounts, oldest_answer_at| AccountTotal { state: state.to_owned(), accounts, oldest_answer_at };
    assert_eq!(states, [total("live", 1, Some(T)), total("unknown", 1, None)]);
    // Of an account that is not looked up any more, the data is not called old.
    store.mark_dead(NS, T, &[("12".to_owned(), "HTTP 400".to_owned())]).await.unwrap();
    assert_eq!(store.account_states(NS).await.unwrap()[0], total("live", 1, None));
}

async fn each_change_is_history_and_what_is_not_stated_is_none(store: &dyn Store) {
    let first = account("12", "ann");
    let partial = Account { description: None, url: None, location: text("Lisboa"), ..first.clone() };
    let closed = Account {
        protected: Some(true),
        verified: Some(true),
        state: AccountState::Protected,
        handle: text("bea\0"),
        description: text(""),
        ..partial.clone()
    };
    for (at, account) in [(0, first), (1, partial), (2, closed)] {
        save(store, &[found(T + at, account)]).await;
    }
    let expected = [
        "1 location: Porto > Lisboa",
        "2 description: of all trades > ",
        "2 handle: ann > bea\u{fffd}",
        "2 protected: false > true",
        "2 state: live > protected",
        "2 verified: false > true",
    ];
    assert_eq!(changes(store, "12").await, expected);
    let now = stored(store, "12").await;
    assert_eq!((now.url, now.description, now.protected), (text(""), text(""), Some(true)));
}

async fn counts_are_history_when_one_of_them_changed(store: &dyn Store) {
    let with = |followers, posts| Account {
        counts: AccountCounts { followers, posts, ..AccountCounts::default() },
        last_post_at: None,
        ..account("12", "ann")
    };
    for (at, counts) in [(0, (None, None)), (1, (Some(3), Some(1))), (2, (Some(3), None)), (3, (Some(2), Some(2)))] {
        save(store, &[found(T + at, with(counts.0, counts.1))]).await;
    }
    let history = store.account_counts(NS, "12").await.unwrap();
    let told: Vec<_> = history.iter().map(|of| (of.checked_at - T, of.counts.followers, of.counts.posts)).collect();
    assert_eq!(told, [(1, Some(3), Some(1)), (3, Some(2), Some(2))]);
    assert_eq!(stored(store, "12").await.active_at, Some(T + 3), "it has posted since the answer before");
}

async fn an_older_answer_the_same_again_and_the_dead_change_nothing(store: &dyn Store) {
    save(store, &[found(T + 5, account("12", "new"))]).await;
    let before = stored(store, "12").await;
    let answers = [found(T + 1, account("12", "old")), found(T + 5, account("12", "again"))];
    let saved = save(store, &answers[..1]).await;
    assert_eq!((saved.saved, saved.older), (0, 1));
    assert_eq!(save(store, &answers[1..]).await.saved, 1, "the same answer again");
    assert_eq!(stored(store, "12").await, before);
    store.mark_dead(NS, T + 6, &[("12".into(), "odd".into())]).await.unwrap();
    assert_eq!(save(store, &[found(T + 9, account("12", "newer"))]).await.older, 1);
    assert_eq!(stored(store, "12").await.handle, text("new"));
    let broken = answer("13", T, Finding::Broken("odd".into()), ItemState::Live);
    save(store, &[broken]).await;
    assert_eq!(stored(store, "13").await.state, "unknown");
    assert_eq!(changes(store, "12").await, [""; 0]);
}

/// The version before stored short links.
async fn a_short_link_that_becomes_an_address_is_no_change(store: &dyn Store) {
    let links = ["https://t.co/a", "https://t.co/b", "https://a.org/", "https://b.org/", "https://t.co/c", ""];
    for (at, url) in (0..).zip(links) {
        save(store, &[found(T + at, Account { url: text(url), ..account("12", "ann") })]).await;
        assert_eq!(stored(store, "12").await.url, text(url));
    }
    assert_eq!(changes(store, "12").await, ["3 url: https://a.org/ > https://b.org/", "5 url: https://t.co/c > "]);
}

/// Mastodon states it.
async fn the_handle_of_a_suspended_account_is_kept_until_it_is_erased(store: &dyn Store) {
    let suspended = |id: &str, at, state, forget| {
        let (reason, handle) = (Some(Absence::Suspended), text("ann@other.test"));
        let seen = Finding::Missing { misses: 1, since: T, reason, handle };
        Observation { forget, ..answer(id, at, seen, state) }
    };
    save(store, &[suspended("12", T, ItemState::Live, false)]).await;
    let first = stored(store, "12").await;
    assert_eq!((first.handle, &*first.state), (text("ann@other.test"), "unknown"), "one miss is a suspicion");
    save(store, &[suspended("12", T + 1, ItemState::Unavailable, false)]).await;
    let confirmed = stored(store, "12").await;
    assert_eq!((confirmed.handle, &*confirmed.state), (text("ann@other.test"), "suspended"));
    assert_eq!(store.handle_bearers(NS, "ann@other.test").await.unwrap().len(), 1);
    save(store, &[suspended("12", T + 2, ItemState::Unavailable, true)]).await;
    save(store, &[suspended("13", T + 2, ItemState::Unavailable, true)]).await;
    for id in ["12", "13"] {
        let erased = stored(store, id).await;
        assert_eq!((erased.handle, erased.forgotten_at), (None, Some(T + 2)), "{id}");
    }
}

async fn a_post_does_not_keep_a_handle_that_another_account_bears(store: &dyn Store) {
    for (profiles, posts) in
        [(NS, "tweet:update"), ("profiles:bluesky", "bluesky:update"), ("profiles:mastodon:a", "mastodon:update:a")]
    {
        let find = async |at, id: &str, handle: &str| {
            store.save_accounts(profiles, &[found(T + at, account(id, handle))]).await.unwrap();
        };
        // Two posts of ann, one by another name of hers, and one of each of two others.
        let of = [("1", "12", "Ann"), ("2", "12", "ann_2"), ("3", "13", "bea"), ("4", "14", "ann")];
        for (post, author, name) in of {
            let content =
                Tweet { author_id: text(author), author_name: text(name), ..super::tweet(post, Metrics::default()) };
            let new = NewItem { content: Some(Box::new(content)), ..new_tweet(post, T, Some(T)) };
            store.record(posts, T, &way(), &[new]).await.unwrap();
            store.record(profiles, T, &way(), &[new_tweet(author, T, Some(T))]).await.unwrap();
            let seen = Sighting { account: author.into(), post: post.into(), at: T };
            store.record_sightings(profiles, &[seen]).await.unwrap();
        }
        let names = async || {
            let mut names = Vec::new();
            for (post, ..) in of {
                names.push(store.tweet(posts, post).await.unwrap().unwrap().author_name);
            }
            names.into_iter().map(Option::unwrap_or_default).collect::<Vec<_>>()
        };
        find(1, "12", "ann").await;
        assert_eq!(names().await, ["Ann", "ann_2", "bea", "ann"], "{profiles}: no other account bears it");
        // 14 is seen under her handle before she is looked up under her new one.
        find(2, "14", "ann").await;
        assert_eq!(names().await, ["", "ann_2", "bea", "ann"], "{profiles}");
        find(3, "12", "ann_2").await;
        // 13 takes it in turn: 12, who bore it once, has no post under it any more.
        find(4, "13", "bea").await;
        find(5, "14", "cid").await;
        find(6, "13", "ANN").await;
        assert_eq!(
            names().await,
            ["", "ann_2", "bea", "cid"],
            "{profiles}: under the other handle where that is known"
        );
        assert_eq!(store.changes(posts, "4").await.unwrap(), [], "{profiles}: no change of the post");
        // Two accounts of one batch: one takes the other's handle.
        let both = [found(T + 7, account("12", "cid")), found(T + 7, account("14", "dan"))];
        store.save_accounts(profiles, &both).await.unwrap();
        assert_ne!(names().await[3], "cid", "{profiles}: in one batch");
    }
}

/// It states a deactivation, too, so nothing of the time before is guessed.
async fn a_deletion_that_bluesky_states_is_one_at_once(store: &dyn Store) {
    const BLUESKY: &str = "profiles:bluesky";
    let reasons = [None, Some(Absence::Deactivated), Some(Absence::Suspended), Some(Absence::Deleted)];
    store.save_accounts(BLUESKY, &[found(T, account("did:plc:a", "ann.test"))]).await.unwrap();
    let mut states = Vec::new();
    for (at, reason) in (1..).zip(reasons) {
        let gone = missing("did:plc:a", T + at * 40 * DAY, T, reason, ItemState::Unavailable);
        store.save_accounts(BLUESKY, &[gone]).await.unwrap();
        states.push(store.account(BLUESKY, "did:plc:a").await.unwrap().unwrap().state);
    }
    assert_eq!(states, ["unknown", "deactivated", "suspended", "deleted"]);
}

async fn one_that_went_and_came_back_has_both_in_its_history(store: &dyn Store) {
    save(store, &[found(T, account("12", "ann"))]).await;
    let (suspended, gone) = (Some(Absence::Suspended), Some(Absence::NotFound));
    save(store, &[missing("12", T + 1, T + 1, suspended, ItemState::Live)]).await;
    assert_eq!(stored(store, "12").await.state, "live", "one miss is a suspicion");
    save(store, &[missing("12", T + 2, T + 1, suspended, ItemState::Unavailable)]).await;
    assert_eq!((stored(store, "12").await.handle, stored(store, "12").await.state), (text("ann"), "suspended".into()));
    save(store, &[found(T + 3, account("12", "ann"))]).await;
    save(store, &[missing("12", T + 4, T + 4, gone, ItemState::Unavailable)]).await;
    save(store, &[missing("12", T + 4 + 30 * DAY, T + 4, gone, ItemState::Unavailable)]).await;
    let expected = [
        "2 state: live > suspended".to_owned(),
        "3 state: suspended > live".to_owned(),
        "4 state: live > deactivated".to_owned(),
        format!("{} state: deactivated > deleted", 4 + 30 * DAY),
    ];
    assert_eq!(changes(store, "12").await, expected);
    // Suspended for sixty days, and not there since: its owner may come back for thirty more.
    save(store, &[found(T, account("15", "cid"))]).await;
    save(store, &[missing("15", T + 1, T + 1, suspended, ItemState::Unavailable)]).await;
    let later = T + 60 * DAY;
    for (at, state) in [(later, "deactivated"), (later + 30 * DAY - 1, "deactivated"), (later + 30 * DAY, "deleted")] {
        save(store, &[missing("15", at, T + 1, gone, ItemState::Unavailable)]).await;
        assert_eq!(stored(store, "15").await.state, state);
    }
    // Never there.
    save(store, &[missing("13", T, T - DAY, None, ItemState::Unavailable)]).await;
    assert_eq!((stored(store, "13").await.state, changes(store, "13").await.len()), ("unknown".to_owned(), 0));
}

async fn what_is_forgotten_is_gone_and_comes_back_with_the_account(store: &dyn Store) {
    save(store, &[found(T, account("12", "ann"))]).await;
    save(store, &[found(T + 1, account("12", "bea"))]).await;
    let gone =
        Observation { forget: true, ..missing("12", T + 2, T + 1, Some(Absence::NotFound), ItemState::Unavailable) };
    save(store, &[gone]).await;
    let now = stored(store, "12").await;
    let content = [now.handle, now.display_name, now.description, now.location, now.url, now.raw];
    assert_eq!((content, now.forgotten_at), ([const { None }; 6], Some(T + 2)));
    assert_eq!(now.counts.followers, Some(10), "counts stay");
    assert_eq!(changes(store, "12").await, ["2 state: live > deactivated"]);
    assert_eq!(store.handle_bearers(NS, "ann").await.unwrap(), []);
    save(store, &[found(T + 3, account("12", "cleo"))]).await;
    let now = stored(store, "12").await;
    assert_eq!((now.handle, now.forgotten_at), (text("cleo"), None));
    assert_eq!(changes(store, "12").await.len(), 2);
}

async fn former_handles_lead_to_their_accounts(store: &dyn Store) {
    for (at, id, handle) in [(0, "12", "Ann"), (1, "12", "bea"), (2, "13", "ann"), (3, "14", "ann"), (4, "14", "x")] {
        save(store, &[found(T + at, account(id, handle))]).await;
    }
    let bearer = |id: &str, until: Option<Millis>| HandleBearer { id: id.into(), until };
    let expected = [bearer("13", None), bearer("14", Some(T + 4)), bearer("12", Some(T + 1))];
    assert_eq!(store.handle_bearers(NS, "ANN").await.unwrap(), expected);
    assert_eq!(store.handle_bearers(NS, "bea").await.unwrap(), [bearer("12", None)]);
    assert_eq!(store.handle_bearers("profiles:x", "bea").await.unwrap(), []);
    // Back again: it has it.
    save(store, &[found(T + 9, account("12", "ANN"))]).await;
    let has: Vec<String> = store.handle_bearers(NS, "ann").await.unwrap().into_iter().map(|of| of.id).collect();
    assert_eq!(has, ["12", "13", "14"]);
}

async fn posts_are_signs_of_life(store: &dyn Store) {
    let sighting = |account: &str, post: &str, at| Sighting { account: account.into(), post: post.into(), at };
    store.record(NS, T, &way(), &[new_tweet("12", T, Some(T))]).await.unwrap();
    // Before the first answer, twice the same, and of an account that nobody recorded.
    let seen = [sighting("12", "1", T + 1), sighting("12", "1", T + 9), sighting("99", "2", T)];
    store.record_sightings(NS, &seen).await.unwrap();
    assert_eq!(store.schedule_inputs(NS, &["12".into(), "99".into()]).await.unwrap()[1], None);
    save(store, &[found(T + 2, account("12", "ann"))]).await;
    store.record_sightings(NS, &[sighting("12", "3", T + 7), sighting("12", "2", T + 5)]).await.unwrap();
    store.record_sightings(NS, &[sighting("12", "0", T - 9)]).await.unwrap();
    assert_eq!(store.post_times(NS, "12", 3).await.unwrap(), [T + 7, T + 5, T + 1]);
    assert_eq!(store.newest_posts(NS, "12", 9).await.unwrap(), ["3", "2", "1", "0"]);
    let signs = store.schedule_inputs(NS, &["12".into()]).await.unwrap()[0].unwrap();
    assert_eq!((signs.active_at, signs.counts.posts, signs.checked_at), (Some(T + 7), Some(5), Some(T + 2)));
    assert_eq!((stored(store, "12").await.collected, signs.changed_at), (4, None));
    assert_eq!((signs.counts, signs.recent), (account("12", "ann").counts, None));
    save(store, &[Observation { recent: Some(2.5), ..found(T + 8, account("12", "bea")) }]).await;
    let signs = store.schedule_inputs(NS, &["12".into()]).await.unwrap()[0].unwrap();
    assert_eq!((signs.changed_at, signs.recent), (Some(T + 8), Some(2.5)));
}

async fn a_removed_account_leaves_nothing(store: &dyn Store) {
    save(store, &[found(T, account("12", "ann"))]).await;
    save(store, &[found(T + 1, account("12", "bea"))]).await;
    let seen = Sighting { account: "12".into(), post: "1".into(), at: T };
    store.record_sightings(NS, &[seen]).await.unwrap();
    let ended = Observation { next_due: None, ..missing("12", T + 2, T + 1, None, ItemState::Ended) };
    save(store, &[ended]).await;
    assert_eq!(store.remove(NS, Expiry::Before(T + 3), &["12".into()]).await.unwrap(), 1);
    assert_eq!(store.account(NS, "12").await.unwrap(), None);
    // Recorded anew, it has no past.
    store.record(NS, T + 4, &way(), &[new_tweet("12", T, Some(T))]).await.unwrap();
    assert_eq!(stored(store, "12").await.collected, 0);
    assert_eq!((changes(store, "12").await.len(), store.account_counts(NS, "12").await.unwrap().len()), (0, 0));
}

async fn an_account_that_a_broken_answer_of_the_same_moment_did_not_show_is_stored(store: &dyn Store) {
    let broken = answer("14", T, Finding::Broken("odd".into()), ItemState::Live);
    let shown = [broken, found(T, account("14", "ann")), found(T, account("14", "bea"))];
    for one in &shown {
        save(store, std::slice::from_ref(one)).await;
    }
    let stored = stored(store, "14").await;
    assert_eq!((stored.handle, stored.counts.followers), (text("ann"), Some(10)), "the first that showed it");
}

/// A random answer; fields are often as they were, and at times not stated.
fn any_answer(random: &mut StdRng) -> Observation<Account> {
    let at = T + random.random_range(0..40);
    let id = random.random_range(1..4u8).to_string();
    let word = |random: &mut StdRng| match random.random_range(0..4u8) {
        0 => None,
        1 => text(""),
        n => Some(n.to_string()),
    };
    let count = |random: &mut StdRng| random.random_bool(0.7).then(|| random.random_range(0..3i64));
    match random.random_range(0..10u8) {
        0 => answer(&id, at, Finding::Broken("odd".into()), ItemState::Live),
        1 => missing(&id, at, at - random.random_range(0..40) * DAY, None, ItemState::Live),
        2 | 3 => {
            let reason = [None, Some(Absence::Suspended), Some(Absence::NotFound), Some(Absence::Protected)];
            let reason = reason[random.random_range(0..4)];
            let since = at - random.random_range(0..40) * DAY;
            let forget = random.random_bool(0.5);
            Observation { forget, ..missing(&id, at, since, reason, ItemState::Unavailable) }
        }
        _ => {
            let protected = random.random_bool(0.7).then(|| random.random_bool(0.5));
            found(
                at,
                Account {
                    id,
                    handle: Some(random.random_range(0..3u8).to_string()),
                    display_name: word(random),
                    description: word(random),
                    location: word(random),
                    url: word(random),
                    picture: word(random),
                    banner: word(random),
                    protected,
                    verified: random.random_bool(0.5).then(|| random.random_bool(0.5)),
                    withheld_in: word(random),
                    moved_to: word(random),
                    counts: AccountCounts {
                        followers: count(random),
                        following: count(random),
                        posts: count(random),
                        listed: count(random),
                        likes: count(random),
                    },
                    last_post_at: random.random_bool(0.3).then(|| T + random.random_range(0..40)),
                    state: AccountState::from_protected(protected),
                    raw: "{}".into(),
                    ..Account::default()
                },
            )
        }
    }
}

async fn any_answers_do_to_it_what_they_do_to_the_model(store: &dyn Store) {
    let seed = rand::random();
    let mut random = StdRng::seed_from_u64(seed);
    let model = MemoryStore::default();
    for round in 0..120 {
        if random.random_bool(0.2) {
            let sighting = Sighting {
                account: random.random_range(1..4u8).to_string(),
                post: random.random_range(0..20u8).to_string(),
                at: T + random.random_range(0..40),
            };
            for one in [store as &dyn Accounts, &model] {
                one.record_sightings(NS, std::slice::from_ref(&sighting)).await.unwrap();
            }
        }
        if round == 100 {
            for one in [store as &dyn Lifecycle, &model] {
                one.mark_dead(NS, T, &[("2".into(), "odd".into())]).await.unwrap();
            }
        }
        let answer = any_answer(&mut random);
        for one in [store as &dyn Accounts, &model] {
            one.save_accounts(NS, std::slice::from_ref(&answer)).await.unwrap();
        }
        let ids: Vec<String> = ["1", "2", "3"].map(str::to_owned).into();
        let told = format!("seed {seed}, round {round}, after {answer:?}");
        assert_eq!(
            store.schedule_inputs(NS, &ids).await.unwrap(),
            model.schedule_inputs(NS, &ids).await.unwrap(),
            "{told}"
        );
        for id in &ids {
            let (own, of_model) = (store.account(NS, id).await.unwrap(), model.account(NS, id).await.unwrap());
            // The model of posts keeps an object that is forgotten.
            let raw = own.as_ref().and_then(|own| own.raw.clone());
            assert_eq!(own, of_model.map(|of| StoredAccount { raw, ..of }), "{told}");
            let (own, of_model) = (store.account_changes(NS, id).await, model.account_changes(NS, id).await);
            assert_eq!(own.unwrap(), of_model.unwrap(), "{told}");
            let (own, of_model) = (store.account_counts(NS, id).await, model.account_counts(NS, id).await);
            assert_eq!(own.unwrap(), of_model.unwrap(), "{told}");
            assert_eq!(
                store.newest_posts(NS, id, 99).await.unwrap(),
                model.newest_posts(NS, id, 99).await.unwrap(),
                "{told}"
            );
        }
    }
}

async fn a_text_of_an_account_that_is_too_long_is_cut_and_marked(store: &dyn Store) {
    let long = text(&"<".repeat(1_000_000));
    let ann = Account {
        display_name: long.clone(),
        description: long.clone(),
        location: long.clone(),
        raw: format!("{{\"description\":\"{}\"}}", "<".repeat(2_000_000)),
        ..account("12", "ann")
    };
    for at in [T, T + 10] {
        let seen = Finding::Found(ann.clone());
        store.save_accounts(NS, &[Observation::new("12", at, seen, ItemState::Live, Some(at + DAY))]).await.unwrap();
    }
    let stored = store.account(NS, "12").await.unwrap().unwrap();
    for field in [stored.display_name, stored.description, stored.location] {
        assert!(is_truncated(&field.unwrap()));
    }
    assert_eq!(stored.raw.as_deref(), Some("{\"cut\":2000018}"));
    assert!(store.account_changes(NS, "12").await.unwrap().iter().all(|change| change.field == "state"));
}

async fn a_handle_waits_until_it_is_settled(store: &dyn Store) {
    let texts = |some: &[&str]| some.iter().map(|one| (*one).to_owned()).collect::<Vec<String>>();
    let claim = async |now, until| store.claim_handles(NS, now, until, 2).await.unwrap();
    assert!(store.store_handles(NS, &texts(&["Ann", "ann", "bea"]), T, 3).await.unwrap());
    assert!(!store.store_handles(NS, &texts(&["cid", "dee"]), T, 3).await.unwrap(), "four would wait");
    assert!(store.store_handles(NS, &texts(&["cid", "ann"]), T + 1, 4).await.unwrap());
    assert!(store.store_handles("profiles:x", &texts(&["cid"]), T, 1).await.unwrap());
    // The first ones first, and each has one owner at a time.
    let mut first = claim(T + 2, T + 50).await;
    first.sort();
    assert_eq!((first, claim(T + 3, T + 60).await), (texts(&["ann", "bea"]), texts(&["cid"])));
    assert!(claim(T + 4, T + 60).await.is_empty());
    let refused = [("bea".to_owned(), "no account\0".to_owned())];
    for _ in 0..2 {
        store.settle_handles(NS, T + 10, &texts(&["ann"]), &refused).await.unwrap();
    }
    let kept = async |handle: &str| store.stored_handle(NS, handle).await.unwrap().map(|kept| (kept.at, kept.reason));
    assert_eq!(kept("ann").await, None);
    assert!(
        kept("BEA").await.is_some_and(|(at, why)| at == T + 10 && why.is_some_and(|why| why.starts_with("no account")))
    );
    assert_eq!(kept("cid").await, Some((T + 1, None)));
    // A dead owner's handle is taken again; a refused one is not, unless it comes again.
    assert_eq!(claim(T + 70, T + 80).await, texts(&["cid"]));
    assert!(store.store_handles(NS, &texts(&["bea"]), T + 71, 4).await.unwrap());
    assert_eq!(claim(T + 72, T + 80).await, texts(&["bea"]));
    store.settle_handles(NS, T + 73, &[], &refused).await.unwrap();
    store.settle_handles(NS, T + 74 + 30 * DAY, &[], &[]).await.unwrap();
    assert_eq!(kept("bea").await, None, "a month later");
}

async fn handles_that_wait_take_no_more_room(store: &dyn Store) {
    let texts = |some: &[&str]| some.iter().map(|one| (*one).to_owned()).collect::<Vec<String>>();
    let keep = async |some: &[&str], most| store.store_handles(NS, &texts(some), T, most).await.unwrap();
    assert!(keep(&["ann", "bea"], 2).await);
    assert!(keep(&["BEA", "ann"], 2).await, "both wait already");
    assert!(keep(&["bea"], 1).await, "also where more wait than may");
    assert!(!keep(&["ann", "bea", "cid"], 2).await, "one of them is new");
    assert_eq!(store.stored_handle(NS, "cid").await.unwrap(), None);
    assert!(keep(&["ann", "bea", "cid"], 3).await);
    assert!(!store.store_handles("profiles:x", &texts(&["ann"]), T, 0).await.unwrap(), "it waits elsewhere");
    // One that was refused waits no more.
    store.settle_handles(NS, T + 1, &[], &[("cid".to_owned(), "no account".to_owned())]).await.unwrap();
    assert!(!keep(&["ann", "cid"], 2).await);
    assert!(keep(&["ann", "cid"], 3).await);
}
