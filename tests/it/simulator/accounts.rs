//! What each network tells of accounts that change, go away and come back: the answers against the truth.

use std::collections::{BTreeMap, BTreeSet};

use twitter_updater::base::clock::simulate_clock;
use twitter_updater::model::account::{Absence, Account, AccountCounts, AccountState};
use twitter_updater::model::provider::Provider;
use twitter_updater::providers::mastodon::Calls;
use twitter_updater::providers::registry;
use twitter_updater::simulator::{Endpoint, People, Person};

use super::people::{HOUR, SINCE, accounts, get, lively, networks};
use super::*;

/// An account as a network should answer for it.
fn truth(people: &People, provider: &Provider, number: u64, at: i64) -> Outcome<Account> {
    let is_suspended = people.person_at(number, at).state == AccountState::Suspended;
    match (people.account(provider, number, at), provider) {
        (Some(emptied), _) if is_suspended => {
            // Its counts are zeroes, which say nothing.
            Outcome::Emptied(Account { counts: AccountCounts::default(), ..emptied }, Absence::Suspended)
        }
        (None, Provider::X) if is_suspended => Outcome::Absent(Absence::Suspended),
        (Some(account), _) => Outcome::Found(account),
        (None, Provider::X) => Outcome::Absent(Absence::NotFound),
        (None, _) => Outcome::Unavailable,
    }
}

/// The same without the object.
fn bare(outcome: &Outcome<Account>) -> Outcome<Account> {
    match outcome {
        Outcome::Found(account) => Outcome::Found(Account { raw: String::new(), ..account.clone() }),
        Outcome::Emptied(account, why) => Outcome::Emptied(Account { raw: String::new(), ..account.clone() }, *why),
        other => other.clone(),
    }
}

/// The first account in a state.
fn one_that_is(people: &People, state: AccountState, at: i64) -> Person {
    (0..1_000).map(|number| people.person_at(number, at)).find(|person| person.state == state).unwrap()
}

#[tokio::test]
async fn every_network_tells_the_truth_at_all_times() {
    let running = start(lively()).await;
    let people = running.people();
    let mut kinds: BTreeMap<(String, String), u32> = BTreeMap::new();
    for provider in networks() {
        let lookup = accounts(&running, &provider, Calls::Batch);
        let numbers: Vec<u64> = (0..25).map(|n| n * 1_283 % 32_768).collect();
        let ids: Vec<String> = numbers.iter().map(|number| people.id(&provider, *number)).collect();
        for at in (0..24).map(|step| SINCE - HOUR + step * 29 * HOUR) {
            let clock = simulate_clock(at);
            let before = wall_ms();
            let answer = lookup.look_up(&ids, &anonymous()).await.unwrap();
            let after = wall_ms();
            drop(clock);
            assert_eq!(answer.unsolicited, 0);
            for (number, outcome) in numbers.iter().zip(&answer.outcomes) {
                let told = bare(outcome);
                // The clock goes on during a call.
                let is_true = [before, after].into_iter().any(|at| truth(people, &provider, *number, at) == told);
                assert!(is_true, "{provider} {number} at {at}: {told:?}, {:?}", people.person_at(*number, before));
                let kind = match told {
                    Outcome::Found(account) => account.state.to_string(),
                    Outcome::Emptied(_, why) => format!("Absent({why:?})"),
                    other => format!("{other:?}"),
                };
                *kinds.entry((provider.to_string(), kind)).or_default() += 1;
            }
        }
    }
    let kinds: Vec<(&str, &str)> = kinds.keys().map(|(provider, kind)| (provider.as_str(), kind.as_str())).collect();
    assert_eq!(
        kinds,
        [
            ("bluesky", "Unavailable"),
            ("bluesky", "live"),
            ("mastodon:social", "Absent(Suspended)"),
            ("mastodon:social", "Unavailable"),
            ("mastodon:social", "live"),
            ("twitter", "Unavailable"),
            ("twitter", "live"),
            ("twitter", "protected"),
            ("x", "Absent(NotFound)"),
            ("x", "Absent(Suspended)"),
            ("x", "live"),
            ("x", "protected"),
        ]
    );
}

#[tokio::test]
async fn the_history_of_answers_is_the_script() {
    let running = start(lively()).await;
    let people = running.people();
    let (from, to) = (SINCE + 2 * DAY, SINCE + 9 * DAY);
    let numbers: Vec<u64> = (0..20).collect();
    for provider in networks() {
        let lookup = accounts(&running, &provider, Calls::Batch);
        let ids: Vec<String> = numbers.iter().map(|number| people.id(&provider, *number)).collect();
        let scripts: Vec<_> =
            numbers.iter().map(|number| people.visible_changes(&provider, *number, from, to)).collect();
        let moments: BTreeSet<i64> = scripts.iter().flatten().map(|scripted| scripted.at).chain([from]).collect();
        let mut known: Vec<Option<Account>> = vec![None; numbers.len()];
        let mut history: Vec<Vec<(String, String, String)>> = vec![Vec::new(); numbers.len()];
        for at in moments {
            let clock = simulate_clock(at);
            let answer = lookup.look_up(&ids, &anonymous()).await.unwrap();
            drop(clock);
            for (place, outcome) in answer.outcomes.into_iter().enumerate() {
                let Outcome::Found(account) = outcome else { continue };
                let changes = known[place].as_ref().map(|known| account.changes(known)).unwrap_or_default();
                let plain = changes.into_iter().map(|change| (change.field.to_owned(), change.old, change.new));
                history[place].extend(plain);
                known[place] = Some(account);
            }
        }
        for (script, history) in scripts.into_iter().zip(history) {
            let is_of_the_profile = |field: &str| field != "state";
            let script = script.into_iter().map(|scripted| scripted.change);
            let script = script.filter(|change| is_of_the_profile(change.field));
            let script: Vec<_> = script.map(|change| (change.field.to_owned(), change.old, change.new)).collect();
            assert_eq!(history, script, "{provider}");
        }
    }
}

#[tokio::test]
async fn a_call_for_one_says_why_it_is_not_there() {
    let running = start(lively()).await;
    let people = running.people();
    let at = SINCE + 20 * DAY;
    let _clock = simulate_clock(at);
    for (state, v1, x, mastodon, bluesky) in [
        (AccountState::Live, (200, None), None, 200, None),
        (AccountState::Protected, (200, None), None, 200, None),
        (AccountState::Suspended, (403, Some(63)), Some("Forbidden"), 200, Some("AccountTakedown")),
        (AccountState::Deactivated, (404, Some(50)), Some("Not Found Error"), 404, Some("AccountDeactivated")),
        (AccountState::Deleted, (404, Some(50)), Some("Not Found Error"), 404, Some("InvalidRequest")),
    ] {
        let person = one_that_is(people, state, at);
        let (id, did) = (people.id(&Provider::X, person.number), people.id(&Provider::Bluesky, person.number));
        let handle = person.handle.to_uppercase();
        for target in [format!("user_id={id}"), format!("screen_name={handle}")] {
            let (status, body) = get(&running, &format!("/1.1/users/show.json?{target}")).await;
            assert_eq!((status, body["errors"][0]["code"].as_u64()), v1, "{state} {body}");
            assert!(status != 200 || body["protected"] == (state == AccountState::Protected), "{body}");
            let (status, body) = get(&running, &format!("/1.1/users/lookup.json?{target}")).await;
            let code = body["errors"][0]["code"].as_u64();
            assert_eq!((status, code), if v1.0 == 200 { (200, None) } else { (404, Some(17)) }, "{state} {body}");
        }
        for target in [format!("{id}?"), format!("by/username/{handle}?"), format!("by?usernames={handle}&")] {
            let (status, body) = get(&running, &format!("/2/users/{target}user.fields=protected")).await;
            assert_eq!((status, body["errors"][0]["title"].as_str()), (200, x), "{state} {body}");
            let data = body["data"].get(0).unwrap_or(&body["data"]);
            assert!(x.is_some() || data["protected"] == (state == AccountState::Protected), "{body}");
            let detail = body["errors"][0]["detail"].as_str().unwrap_or_default();
            assert_eq!(detail.starts_with("User has been suspended: ["), state == AccountState::Suspended, "{detail}");
        }
        for target in [id.clone(), format!("lookup?acct={handle}"), format!("lookup?acct={handle}@social.example.org")]
        {
            let (status, body) = get(&running, &format!("/api/v1/accounts/{target}")).await;
            assert_eq!(status, mastodon, "{state} {body}");
            let is_suspended = state == AccountState::Suspended;
            assert_eq!(body.get("suspended").is_some(), is_suspended, "{body}");
            assert!(!is_suspended || body["note"] == "" && body["acct"] == *person.handle, "{body}");
        }
        for actor in [did, format!("{handle}.bsky.example.org")] {
            let (status, body) = get(&running, &format!("/xrpc/app.bsky.actor.getProfile?actor={actor}")).await;
            assert_eq!((status == 200, body["error"].as_str()), (bluesky.is_none(), bluesky), "{state} {body}");
            let (status, body) = get(&running, &format!("/xrpc/app.bsky.actor.getProfiles?actors={actor}")).await;
            let profiles = body["profiles"].as_array().unwrap();
            assert_eq!((status, profiles.len()), (200, usize::from(bluesky.is_none())), "{body}");
        }
    }
}

#[tokio::test]
async fn posts_have_their_authors_as_they_are() {
    let running = start(lively()).await;
    let people = running.people();
    let at = SINCE + 15 * DAY;
    let _clock = simulate_clock(at);
    // Those that change within the next minutes would make the comparison a matter of luck.
    let is_calm = |number: &u64| {
        people.list_changes(*number, SINCE, at).len() > 9 && people.list_changes(*number, at, at + HOUR / 4).is_empty()
    };
    let numbers: Vec<u64> = (0..100).filter(is_calm).take(12).collect();
    let mut away = 0;
    for number in &numbers {
        let number = *number;
        let person = people.person_at(number, at);
        let id = people.id(&Provider::Twitter, number);
        let (_, page) = get(&running, &format!("/1.1/statuses/user_timeline.json?user_id={id}&count=2")).await;
        // What an account that is away posts is not counted.
        let newest = json!(person.last_post.unwrap().to_string());
        assert!(person.is_away() || page[0]["id_str"] == newest, "{person:?}: {}", page[0]);
        away += u32::from(person.is_away());
        let expected = people.account(&Provider::Twitter, number, at);
        let (_, user) = get(&running, &format!("/1.1/users/show.json?user_id={id}")).await;
        let user = (registry::accounts(&Provider::Twitter).parse)(&user.to_string()).ok();
        let user = user.map(|account| Account { raw: String::new(), ..account });
        assert_eq!(user, expected);
        let author = (registry::accounts(&Provider::Twitter).parse)(&page[0]["user"].to_string()).unwrap();
        assert_eq!(author.handle.as_deref(), Some(&*person.handle));
        if let Some(expected) = expected {
            assert_eq!(Account { raw: String::new(), last_post_at: expected.last_post_at, ..author }, expected);
        }
        let fields = "expansions=author_id&user.fields=description,most_recent_tweet_id,protected";
        let (_, page) = get(&running, &format!("/2/users/{id}/tweets?max_results=5&{fields}")).await;
        let user = &page["includes"]["users"][0];
        assert_eq!((&user["username"], &user["description"]), (&json!(person.handle), &json!(person.description)));
        assert_eq!(user["most_recent_tweet_id"], json!(person.last_post.unwrap().to_string()));
        let mastodon = Provider::Mastodon(String::new());
        let (_, page) = get(&running, &format!("/api/v1/accounts/{id}/statuses?limit=1")).await;
        let account = (registry::accounts(&mastodon).parse)(&page[0]["account"].to_string()).unwrap();
        let expected = people.account(&mastodon, number, at);
        assert!(expected.is_none_or(|expected| expected == Account { raw: String::new(), ..account }));
        let did = people.id(&Provider::Bluesky, number);
        let (_, page) = get(&running, &format!("/xrpc/app.bsky.feed.getAuthorFeed?actor={did}&limit=1")).await;
        let author = &page["feed"][0]["post"]["author"];
        let handle = format!("{}.bsky.example.org", person.handle);
        assert_eq!((&author["did"], &author["handle"]), (&json!(did), &json!(handle)));
        assert_eq!(author["displayName"], json!(person.display_name));
    }
    assert!(numbers.len() == 12 && (1..12).contains(&away), "{away} of {numbers:?}");
}

#[tokio::test]
async fn older_instances_return_one_account_and_refuse_the_suspended() {
    let at = SINCE + 20 * DAY;
    let _clock = simulate_clock(at);
    for (version, lists, suspended) in [("4.3.0", 200, 200), ("4.2.9", 404, 200), ("3.2.2", 404, 410)] {
        let running = start(SimulatorOptions { mastodon_version: version.to_owned(), ..lively() }).await;
        let person = one_that_is(running.people(), AccountState::Suspended, at);
        let social = Provider::Mastodon("social".to_owned());
        let id = running.people().id(&social, person.number);
        assert_eq!(get(&running, &format!("/api/v1/accounts?id[]={id}")).await.0, lists, "{version}");
        assert_eq!(get(&running, &format!("/api/v1/accounts/{id}")).await.0, suspended, "{version}");
        let answer = accounts(&running, &social, Calls::Single).look_up(&[id], &anonymous()).await.unwrap();
        // The oldest refuse it; the others return it without its content.
        let handle = match &answer.outcomes[..] {
            [Outcome::Emptied(account, Absence::Suspended)] => account.handle.clone(),
            [Outcome::Absent(Absence::Suspended)] => None,
            other => panic!("{version}: {other:?}"),
        };
        assert_eq!(handle.is_some(), suspended == 200, "{version}");
    }
}

#[tokio::test]
async fn more_accounts_than_a_call_takes_are_refused() {
    let running = start(plain()).await;
    let people = running.people();
    let ids = |provider: &Provider, count: u64, name: &str| {
        let ids: Vec<String> = (0..count).map(|n| format!("{name}={}", people.id(provider, n))).collect();
        ids.join("&")
    };
    let mastodon = |count| format!("/api/v1/accounts?{}", ids(&Provider::Mastodon(String::new()), count, "id[]"));
    let bluesky = |count| format!("/xrpc/app.bsky.actor.getProfiles?{}", ids(&Provider::Bluesky, count, "actors"));
    let (status, body) = get(&running, &mastodon(40)).await;
    assert_eq!((status, body.as_array().map(Vec::len)), (200, Some(40)));
    assert_eq!(get(&running, &mastodon(41)).await.0, 422);
    let (status, body) = get(&running, &bluesky(25)).await;
    assert_eq!((status, body["profiles"].as_array().map(Vec::len)), (200, Some(25)));
    let (status, body) = get(&running, &bluesky(26)).await;
    assert!(status == 400 && body["message"].as_str().unwrap().contains("must not have more than 25"), "{body}");
    for wrong in ["", "?actors=missing", "?actors=did:plc", "?actors=a b.example.org"] {
        let target = format!("/xrpc/app.bsky.actor.getProfiles{}", wrong.replace(' ', "%20"));
        assert_eq!(get(&running, &target).await.0, 400, "{wrong}");
    }
    let names: Vec<String> = (0..101).map(|number| people.person_at(number, 0).handle).collect();
    let (status, body) = get(&running, &format!("/1.1/users/lookup.json?screen_name={}", names.join(","))).await;
    assert_eq!((status, &body["errors"][0]["code"]), (403, &json!(18)));
}

#[tokio::test]
async fn a_fault_strikes_lookups_of_accounts_where_it_is_meant_for_them() {
    let running = start(SimulatorOptions { count_ids: true, ..plain() }).await;
    for provider in networks() {
        let lookup = accounts(&running, &provider, Calls::Batch);
        let ids = [running.people().id(&provider, 7), running.people().id(&provider, 8)];
        running.faults().add(Fault::Status { status: 503, code: None });
        assert!(lookup.look_up(&ids, &anonymous()).await.is_ok(), "{provider}: a fault of lookups of posts");
        running.faults().add(Rule {
            at: Endpoint::Accounts,
            times: Some(2),
            asked: vec![ids[1].clone()],
            ..Rule::from(Fault::Status { status: 503, code: None })
        });
        assert!(lookup.look_up(&ids[..1], &anonymous()).await.is_ok());
        for _ in 0..2 {
            let error = lookup.look_up(&ids, &anonymous()).await.unwrap_err();
            assert!(matches!(error, LookupError::Outage(_)), "{error}");
        }
        let answer = lookup.look_up(&ids, &anonymous()).await.unwrap();
        assert!(answer.outcomes.iter().all(|outcome| matches!(outcome, Outcome::Found(_))), "{provider}");
        running.faults().clear();
    }
    let lookups = running.lookups();
    let counted = |number: u64, provider: &Provider| lookups[&running.people().id(provider, number)];
    // Twitter, X and Mastodon have the same ids.
    assert_eq!((counted(7, &Provider::X), counted(8, &Provider::X)), (15, 12));
    assert_eq!((counted(7, &Provider::Bluesky), counted(8, &Provider::Bluesky)), (5, 4));
}
