//! The simulator's lists through the readers, against the simulator's own truth: what a page holds, what a crawl sees of a list
//! that changes, absent owners and members, cursors, limits, charges and faults.

use std::collections::HashSet;
use std::time::Duration;

use twitter_updater::base::clock::wall_ms;
use twitter_updater::model::account::{Account, AccountState};
use twitter_updater::model::provider::Provider as Named;
use twitter_updater::model::relation::{ListKind, PartialReason};
use twitter_updater::providers::lookup::{LookupError, Outcome};
use twitter_updater::providers::relations::{Listing, Members, PageRequest, RelationPage, Relations};
use twitter_updater::quota::Credential;
use twitter_updater::simulator::{self, Endpoint, Fault, Follow, POPULAR, People, Rule, Running, SimulatorOptions};

use super::super::all::{Bounds, Provider};
use super::{NETWORKS, ids, members, said};
use crate::support::http::{anonymous, bearer};

fn named(provider: Provider) -> Named {
    match provider {
        Provider::TwitterV1 => Named::Twitter,
        Provider::XV2 => Named::X,
        Provider::Mastodon | Provider::MastodonStatus => Named::Mastodon("social".to_owned()),
        Provider::Bluesky => Named::Bluesky,
    }
}

async fn start(options: SimulatorOptions) -> Running {
    simulator::start(([127, 0, 0, 1], 0).into(), options).await.unwrap()
}

/// Without limits, which have a test of their own.
fn unlimited() -> SimulatorOptions {
    SimulatorOptions {
        calls_per_window: 0,
        x_calls_per_window: 0,
        mastodon_calls_per_window: 0,
        bluesky_calls_per_window: 0,
        ..SimulatorOptions::default()
    }
}

fn at(provider: Provider, running: &Running) -> Box<dyn Relations> {
    provider.relations_at(&running.base_url(), Bounds { max_body_bytes: 16 << 20, ..Bounds::default() })
}

/// A page, and the moments between which it was asked for and had come.
struct Call {
    page: RelationPage,
    from: i64,
    to: i64,
}

/// The whole list, page by page; the cursor that is asked for first may be one of ours.
async fn crawl(lists: &dyn Relations, side: ListKind, owner: &str, first: Option<&str>, limit: u32) -> Vec<Call> {
    let (mut calls, mut cursor): (Vec<Call>, Option<String>) = (Vec::new(), first.map(str::to_owned));
    loop {
        let request = PageRequest { side, owner, cursor: cursor.as_deref(), limit };
        let from = wall_ms();
        let page = lists.page(request, &anonymous()).await.unwrap();
        cursor = members(&page).next.clone();
        calls.push(Call { page, from, to: wall_ms() });
        if cursor.is_none() {
            return calls;
        }
        assert!(calls.len() < 5_000, "a list without an end");
    }
}

fn all_members(calls: &[Call]) -> impl Iterator<Item = &Members> {
    calls.iter().map(|call| members(&call.page))
}

/// The ids of all pages, without those that repeat the one before.
fn in_order(calls: &[Call]) -> (Vec<&str>, usize) {
    let told: Vec<&str> = calls.iter().flat_map(|call| ids(&call.page)).collect();
    let mut once = told.clone();
    once.dedup();
    (once.clone(), told.len() - once.len())
}

fn member_of(side: ListKind, follow: &Follow) -> u64 {
    match side {
        ListKind::Followers => follow.follower,
        ListKind::Friends => follow.followed,
    }
}

/// The list as the network has it now.
fn truth(people: &People, provider: Provider, side: ListKind, owner: u64) -> Vec<String> {
    let list = people.list(&named(provider), side, owner, wall_ms());
    list.iter().map(|follow| people.id(&named(provider), member_of(side, follow))).collect()
}

/// An owner whose list has members, but not too many.
fn owner_with(people: &People, side: ListKind, at_least: usize) -> u64 {
    let length = |number: &u64| people.list(&Named::Twitter, side, *number, wall_ms()).len();
    (1..POPULAR).find(|number| (at_least..at_least * 4).contains(&length(number))).unwrap()
}

/// Compares an account on a page with the simulator's own; a view of Bluesky in a list has neither counts nor a banner.
fn same_account(account: &Account, people: &People, provider: Provider) {
    let number = people.number(&named(provider), &account.id).unwrap();
    let expected = people.account(&named(provider), number, wall_ms()).unwrap();
    if provider == Provider::Bluesky {
        let told = (&account.handle, &account.display_name, &account.picture, account.created_at);
        assert_eq!(told, (&expected.handle, &expected.display_name, &expected.picture, expected.created_at));
    } else {
        assert_eq!(*account, Account { raw: account.raw.clone(), ..expected });
    }
}

#[tokio::test]
async fn pages_add_up_to_the_list_at_each_network_on_both_sides() {
    let running = start(unlimited()).await;
    let people = running.people();
    for provider in NETWORKS {
        for side in ListKind::ALL {
            let owner = owner_with(people, side, if side == ListKind::Followers { 150 } else { 20 });
            let expected = truth(people, provider, side, owner);
            let limit = (expected.len() / 15).max(2) as u32;
            let lists = at(provider, &running);
            let id = people.id(&named(provider), owner);
            // Friends at Bluesky are records, and as views another time.
            let starts: &[Option<&str>] = match (provider, side) {
                (Provider::Bluesky, ListKind::Friends) => &[None, Some("views:")],
                _ => &[None],
            };
            for first in starts {
                let calls = crawl(&*lists, side, &id, *first, limit).await;
                let (read, repeated) = in_order(&calls);
                assert_eq!(read, expected, "{provider:?} {side}");
                let overlaps = matches!(provider, Provider::TwitterV1 | Provider::Mastodon);
                assert_eq!(repeated > 0, overlaps, "{provider:?} {side}: {repeated} ids again");
                assert!(calls.len() > 8, "{} pages", calls.len());
                assert!(all_members(&calls).all(|page| page.members.len() <= limit as usize && page.partial.is_none()));
                let is_records = provider == Provider::Bluesky && side == ListKind::Friends && first.is_none();
                let has_accounts = provider != Provider::TwitterV1 && !is_records;
                for page in all_members(&calls) {
                    assert_eq!(page.accounts.len(), if has_accounts { page.members.len() } else { 0 });
                    page.accounts.iter().for_each(|account| same_account(account, people, provider));
                    assert!(page.members.iter().all(|member| member.followed_at.is_some() == is_records));
                }
                if is_records {
                    let told = all_members(&calls).flat_map(|page| &page.members).map(|member| member.followed_at);
                    let friends = people.follows().friends(owner, wall_ms());
                    assert!(told.eq(friends.iter().map(|follow| Some(follow.from))), "the true moments");
                }
            }
        }
    }
}

#[tokio::test]
async fn a_list_of_three_hundred_thousand_is_served_in_pages_of_five_thousand() {
    let running = start(SimulatorOptions { accounts: 1 << 20, ..unlimited() }).await;
    let (people, lists) = (running.people(), at(Provider::TwitterV1, &running));
    let owner = people.id(&Named::Twitter, 0);
    let calls = crawl(&*lists, ListKind::Followers, &owner, None, 5_000).await;
    let (read, repeated) = in_order(&calls);
    assert!(read == truth(people, Provider::TwitterV1, ListKind::Followers, 0), "all of them, in order");
    assert!((295_000..305_000).contains(&read.len()) && repeated > 5, "{} and {repeated} again", read.len());
    let full = all_members(&calls).filter(|page| page.members.len() == 5_000).count();
    assert_eq!(full + 1, calls.len());
}

#[tokio::test]
async fn a_crawl_of_a_list_that_changes_misses_nobody_who_stays_and_sees_nobody_who_is_away() {
    // A new follower every 20 ms, and as many who leave.
    let options = SimulatorOptions {
        follow_changes: Duration::from_millis(20),
        accounts: 4_000,
        accounts_gone: 0.2,
        ..unlimited()
    };
    let running = start(options).await;
    let people = running.people();
    for provider in NETWORKS {
        let (lists, network) = (at(provider, &running), named(provider));
        let is_there = |number: u64, at: i64| !people.person_at(number, at).is_away();
        let owner = (1..POPULAR)
            .find(|number| (300..900).contains(&people.follows().size(*number)) && is_there(*number, wall_ms()))
            .unwrap();
        let calls = crawl(&*lists, ListKind::Followers, &people.id(&network, owner), None, 30).await;
        let (start, end) = (calls[0].from, calls.last().unwrap().to);
        let mut seen = HashSet::new();
        for call in &calls {
            for id in ids(&call.page) {
                let number = people.number(&network, id).unwrap();
                let follows = people.follows().between(number, owner, call.from, call.to);
                assert!(!follows.is_empty(), "{provider:?}: {number} did not follow at {}", call.from);
                assert!(is_there(number, call.from) || is_there(number, call.to));
                seen.insert(number);
            }
        }
        let stays = |number: &u64| {
            let follows = people.follows().between(*number, owner, start, end);
            follows.iter().any(|follow| follow.from <= start && follow.until > end)
                && is_there(*number, start)
                && is_there(*number, end)
        };
        let missed: Vec<u64> = (0..people.count()).filter(stays).filter(|number| !seen.contains(number)).collect();
        assert!(missed.is_empty() && seen.len() > 100, "{provider:?}: {} seen, missed {missed:?}", seen.len());
    }
}

#[tokio::test]
async fn an_owner_s_state_is_what_the_network_says_of_its_list() {
    let options = SimulatorOptions {
        account_changes: Duration::from_secs(3_600),
        accounts_gone: 0.3,
        accounts_deleted: 0.004,
        ..unlimited()
    };
    let running = start(options).await;
    let people = running.people();
    let mut met = HashSet::new();
    for provider in NETWORKS {
        let lists = at(provider, &running);
        for owner in 0..120 {
            let id = people.id(&named(provider), owner);
            let before = people.person_at(owner, wall_ms()).state;
            let request = PageRequest { side: ListKind::Followers, owner: &id, cursor: None, limit: 5 };
            let result = lists.page(request, &anonymous()).await;
            if before != people.person_at(owner, wall_ms()).state {
                continue;
            }
            let expected = match (provider, before) {
                (_, AccountState::Live) | (Provider::Mastodon | Provider::Bluesky, AccountState::Protected) => {
                    "members"
                }
                (_, AccountState::Protected) => "refused",
                (Provider::Mastodon, AccountState::Suspended) => "members",
                (Provider::TwitterV1 | Provider::XV2, AccountState::Suspended) => "suspended",
                (Provider::TwitterV1, _) => "absent",
                _ => "not found",
            };
            assert_eq!(said(result), expected, "{provider:?}: {before}");
            met.insert(before);
        }
        let nobody = people.id(&named(provider), people.count() + 7);
        let request = PageRequest { side: ListKind::Friends, owner: &nobody, cursor: Some("1"), limit: 5 };
        let expected = if provider == Provider::TwitterV1 { "stale" } else { "not found" };
        assert_eq!(said(lists.page(request, &anonymous()).await), expected, "{provider:?}");
    }
    assert!(met.len() >= 5, "{met:?}");
}

/// Asks for a page of that many.
async fn page(lists: &dyn Relations, side: ListKind, owner: &str, cursor: Option<&str>, limit: u32) -> RelationPage {
    lists.page(PageRequest { side, owner, cursor, limit }, &anonymous()).await.unwrap()
}

#[tokio::test]
async fn a_cursor_may_be_too_old_and_may_lead_in_circles() {
    let lasting = SimulatorOptions { cursors_last: Duration::from_secs(600), ..unlimited() };
    let running = start(lasting.clone()).await;
    // The same world, an hour later.
    let later = start(SimulatorOptions { clock_skew: 3_600_000, ..lasting }).await;
    let round = start(SimulatorOptions { cursors_repeat: 1.0, ..unlimited() }).await;
    let people = running.people();
    for provider in NETWORKS {
        let owner = owner_with(people, ListKind::Followers, 50);
        let id = people.id(&named(provider), owner);
        let first = page(&*at(provider, &running), ListKind::Followers, &id, None, 10).await;
        let cursor = members(&first).next.as_deref();
        assert!(cursor.is_some());
        let second = page(&*at(provider, &running), ListKind::Followers, &id, cursor, 10).await;
        assert_eq!(ids(&second).len(), 10, "{provider:?}");
        let old = page(&*at(provider, &later), ListKind::Followers, &id, cursor, 10).await;
        assert_eq!(old.listing, Listing::StaleCursor, "{provider:?}");
        for odd in ["soon", "7HD89Q0OSU21C"] {
            let stale = page(&*at(provider, &running), ListKind::Followers, &id, Some(odd), 10).await;
            assert_eq!(stale.listing, Listing::StaleCursor, "{provider:?}: {odd}");
        }
        let first = page(&*at(provider, &round), ListKind::Followers, &id, None, 10).await;
        let cursor = members(&first).next.clone();
        let second = page(&*at(provider, &round), ListKind::Followers, &id, cursor.as_deref(), 10).await;
        assert_eq!(members(&second).next, cursor, "{provider:?}");
        assert_eq!(ids(&second).len(), 10);
    }
}

#[tokio::test]
async fn an_instance_hides_some_lists_and_knows_a_part_of_others() {
    let options = SimulatorOptions { lists_hidden: 0.3, accounts_remote: 0.5, ..unlimited() };
    let running = start(options).await;
    let people = running.people();
    let (lists, network) = (at(Provider::Mastodon, &running), named(Provider::Mastodon));
    let accounts = Provider::Mastodon.accounts_at(&running.base_url(), Bounds::default());
    let (mut hidden, mut remote) = (0, 0);
    for owner in (1..POPULAR).filter(|owner| people.follows().size(*owner) > 20).take(60) {
        let id = people.id(&network, owner);
        let whole = people.follows().followers(owner, wall_ms(), i64::MAX).count();
        let found = accounts.look_up(std::slice::from_ref(&id), &anonymous()).await.unwrap().outcomes;
        let [Outcome::Found(account)] = &found[..] else { panic!("{found:?}") };
        let handle = account.handle.as_deref().unwrap();
        let is_remote = people.is_remote(owner);
        assert_eq!(lists.partial_reason(handle), is_remote.then_some(PartialReason::Remote), "{handle}");
        let calls = crawl(&*lists, ListKind::Followers, &id, None, 80).await;
        let (read, _) = in_order(&calls);
        assert_eq!(read, truth(people, Provider::Mastodon, ListKind::Followers, owner));
        let partial = members(&calls[0].page).partial;
        if people.is_hidden(owner) {
            assert_eq!((read.len(), partial), (0, Some(PartialReason::Hidden)));
            hidden += 1;
        } else {
            assert_eq!(partial, None);
            assert_eq!(read.len() < whole, is_remote, "{} of {whole}", read.len());
            remote += usize::from(is_remote);
        }
    }
    assert!(hidden > 5 && remote > 5, "{hidden} hidden, {remote} remote");
}

async fn calls_until_throttled(lists: &dyn Relations, side: ListKind, owner: &str, who: &Credential) -> (u32, u32) {
    let request = PageRequest { side, owner, cursor: None, limit: 1 };
    let mut made = 0;
    loop {
        match lists.page(request, who).await {
            Ok(page) => {
                made += 1;
                let quota = page.quota.unwrap();
                assert_eq!(quota.remaining, quota.limit - made);
            }
            Err(LookupError::Throttled { status: 429, quota: Some(quota), .. }) => {
                assert_eq!(quota.remaining, 0);
                return (made, quota.limit);
            }
            Err(other) => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn each_side_and_kind_of_credential_has_its_own_window_at_twitter() {
    let running = start(SimulatorOptions::default()).await;
    let owner = running.people().id(&Named::Twitter, 1);
    let lists = at(Provider::TwitterV1, &running);
    // Whoever shows nothing is counted as a user.
    for (side, who) in ListKind::ALL.into_iter().flat_map(|side| [(side, anonymous()), (side, bearer("application"))]) {
        assert_eq!(calls_until_throttled(&*lists, side, &owner, &who).await, (15, 15), "{side} {who:?}");
    }
    for (provider, limit) in [(Provider::XV2, 300), (Provider::Mastodon, 300), (Provider::Bluesky, 3_000)] {
        let owner = running.people().id(&named(provider), 1);
        let page = page(&*at(provider, &running), ListKind::Followers, &owner, None, 1).await;
        assert_eq!(page.quota.unwrap().limit, limit, "{provider:?}");
    }
}

#[tokio::test]
async fn x_charges_for_each_account_on_a_page() {
    let running = start(unlimited()).await;
    let (people, lists) = (running.people(), at(Provider::XV2, &running));
    let owner = owner_with(people, ListKind::Followers, 50);
    let id = people.id(&Named::X, owner);
    for limit in [10, 20, 20] {
        let page = page(&*lists, ListKind::Followers, &id, None, limit).await;
        assert_eq!(ids(&page).len() as u32, limit);
        let reads: HashSet<String> = ids(&page).into_iter().flat_map(|id| lists.read_keys(id)).collect();
        assert_eq!(reads.len() as u64, lists.cost(ListKind::Followers, limit));
        assert_eq!(running.counters().charged, reads.len() as u64, "each account once a day");
    }
}

#[tokio::test]
async fn a_broken_answer_is_no_list_and_the_next_one_is() {
    let running = start(unlimited()).await;
    let people = running.people();
    for provider in NETWORKS {
        let owner = owner_with(people, ListKind::Followers, 50);
        let id = people.id(&named(provider), owner);
        let lists = at(provider, &running);
        let request = PageRequest { side: ListKind::Followers, owner: &id, cursor: None, limit: 30 };
        for (fault, expected) in [
            (Fault::CutBody, "outage"),
            (Fault::Close, "outage"),
            (Fault::TruncatedJson, "bad answer"),
            (Fault::WrongShape, "bad answer"),
            (Fault::ErrorsInSuccess, "bad answer"),
            (Fault::Html, "bad answer"),
            (Fault::Status { status: 503, code: None }, "outage"),
            (Fault::RateLimited { reset_s: 60 }, "throttled"),
        ] {
            running.faults().add(Rule { at: Endpoint::Relations, times: Some(1), ..Rule::from(fault.clone()) });
            assert_eq!(said(lists.page(request, &anonymous()).await), expected, "{provider:?} {fault:?}");
        }
        assert_eq!(ids(&lists.page(request, &anonymous()).await.unwrap()).len(), 30);
        // What is wrong with lookups is no trouble of lists.
        running.faults().replace(vec![Rule { at: Endpoint::Accounts, ..Rule::from(Fault::Close) }]);
        assert_eq!(said(lists.page(request, &anonymous()).await), "members");
        running.faults().clear();
    }
}

#[tokio::test]
async fn friends_at_bluesky_are_views_where_the_server_has_no_records() {
    let options = SimulatorOptions { bluesky_records: false, accounts_gone: 0.3, ..unlimited() };
    let running = start(options).await;
    let people = running.people();
    let owner = (1..2_000)
        .find(|number| {
            let friends = people.list(&Named::Bluesky, ListKind::Friends, *number, wall_ms());
            friends.len() > 10 && !people.person_at(*number, wall_ms()).is_away()
        })
        .unwrap();
    let id = people.id(&Named::Bluesky, owner);
    let calls = crawl(&*at(Provider::Bluesky, &running), ListKind::Friends, &id, None, 4).await;
    assert_eq!(members(&calls[0].page).members.len(), 0);
    assert_eq!(in_order(&calls).0, truth(people, Provider::Bluesky, ListKind::Friends, owner));
    // Records have those who are away, too.
    let with = start(SimulatorOptions { accounts_gone: 0.3, ..unlimited() }).await;
    let records = crawl(&*at(Provider::Bluesky, &with), ListKind::Friends, &id, None, 100).await;
    assert_eq!(in_order(&records).0.len(), people.follows().friends(owner, wall_ms()).len());
    assert!(in_order(&records).0.len() > in_order(&calls).0.len());
}

#[tokio::test]
async fn profiles_state_the_lengths_of_the_lists_where_that_is_wanted() {
    let running = start(SimulatorOptions { count_follows: true, ..unlimited() }).await;
    let people = running.people();
    for provider in NETWORKS {
        let numbers = [1, 2, 3, 50, 20_000];
        let ids: Vec<String> = numbers.iter().map(|number| people.id(&named(provider), *number)).collect();
        let lookup = provider.accounts_at(&running.base_url(), Bounds::default());
        let answer = lookup.look_up(&ids, &anonymous()).await.unwrap();
        for (number, outcome) in numbers.iter().zip(&answer.outcomes) {
            let Outcome::Found(account) = outcome else { panic!("{outcome:?}") };
            let length = |side| people.list(&named(provider), side, *number, wall_ms()).len() as i64;
            let counts = (account.counts.followers, account.counts.following);
            assert_eq!(counts, (Some(length(ListKind::Followers)), Some(length(ListKind::Friends))), "{provider:?}");
        }
    }
}
