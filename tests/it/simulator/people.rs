//! Accounts that change, go away and come back: the truth about them, their script, and what each network tells.

use std::collections::{BTreeMap, BTreeSet};

use twitter_updater::base::clock::simulated;
use twitter_updater::model::account::{Absence, Account, AccountState};
use twitter_updater::model::provider::Provider;
use twitter_updater::providers::bluesky::{self, Bluesky, BlueskyOptions};
use twitter_updater::providers::http::HttpOptions;
use twitter_updater::providers::mastodon::{self, Calls, Mastodon, MastodonOptions};
use twitter_updater::providers::x_v2::{self, XV2, XV2Options};
use twitter_updater::providers::{registry, twitter_v1};
use twitter_updater::simulator::{MOST_ACCOUNTS, People, Person};

use super::*;

const HOUR: i64 = 3_600_000;
/// Somewhere in 2026; the tests set the clock.
const SINCE: i64 = 1_780_000_000_000;

/// Accounts whose lives are full of changes.
fn lively() -> SimulatorOptions {
    SimulatorOptions {
        account_changes: Duration::from_secs(4 * 3_600),
        accounts_gone: 0.3,
        account_away: Duration::from_secs(24 * 3_600),
        accounts_deleted: 0.1,
        accounts_since: SINCE,
        posts_per_second: 0.01,
        calls_per_window: 0,
        x_calls_per_window: 0,
        mastodon_calls_per_window: 0,
        bluesky_calls_per_window: 0,
        ..plain()
    }
}

fn networks() -> [Provider; 4] {
    [Provider::Twitter, Provider::X, Provider::Mastodon("social".to_owned()), Provider::Bluesky]
}

/// The product's lookup of accounts at the simulator.
fn accounts(running: &Running, provider: &Provider, calls: Calls) -> Box<dyn Lookup<Account>> {
    let (base_url, http) = (running.base_url(), HttpOptions::default());
    match provider {
        Provider::Twitter => Box::new(twitter_v1::account::Accounts(twitter(&base_url))),
        Provider::X => {
            let options = XV2Options { base_url, http, ..XV2Options::default() };
            Box::new(x_v2::account::Accounts(XV2::new(options).unwrap()))
        }
        Provider::Mastodon(_) => {
            let options = MastodonOptions { calls, http, ..MastodonOptions::of(&base_url) };
            Box::new(mastodon::account::Accounts(Mastodon::new(options).unwrap()))
        }
        Provider::Bluesky => {
            Box::new(bluesky::account::Accounts(Bluesky::new(BlueskyOptions { base_url, http }).unwrap()))
        }
    }
}

/// An account as a network should answer for it.
fn truth(people: &People, provider: &Provider, number: u64, at: i64) -> Outcome<Account> {
    let is_suspended = people.at(number, at).state == AccountState::Suspended;
    match (people.account(provider, number, at), provider) {
        (Some(account), _) => Outcome::Found(account),
        (None, Provider::X) if is_suspended => Outcome::Absent(Absence::Suspended),
        (None, Provider::X) => Outcome::Absent(Absence::NotFound),
        (None, _) => Outcome::Unavailable,
    }
}

/// The same without the object.
fn bare(outcome: &Outcome<Account>) -> Outcome<Account> {
    match outcome {
        Outcome::Found(account) => Outcome::Found(Account { raw: String::new(), ..account.clone() }),
        other => other.clone(),
    }
}

async fn get(running: &Running, target: &str) -> (u16, Value) {
    let (status, _, body) = raw(running, "GET", target, None, "").await;
    (status, serde_json::from_str(&body).unwrap_or(Value::Null))
}

/// The first account in a state.
fn one_that_is(people: &People, state: AccountState, at: i64) -> Person {
    (0..1_000).map(|number| people.at(number, at)).find(|person| person.state == state).unwrap()
}

fn field(person: &Person, name: &str) -> String {
    match name {
        "state" => person.state.to_string(),
        "handle" => person.handle.clone(),
        "display_name" => person.display_name.clone(),
        "description" => person.description.clone(),
        "location" => person.location.clone(),
        "url" => person.url.clone(),
        "picture" => person.picture.clone(),
        "protected" => person.protected.to_string(),
        "verified" => person.verified.to_string(),
        other => panic!("no field {other}"),
    }
}

#[tokio::test]
async fn by_default_no_account_ever_changes() {
    let running = start(SimulatorOptions::default()).await;
    let people = running.people();
    assert_eq!((people.count(), people.change()), (32_768, false));
    for number in [0, 5, 20_404, 32_767] {
        assert_eq!(people.at(number, 0), people.at(number, wall_ms() + 900 * DAY));
        assert!(people.script(number, 0, wall_ms() + DAY).is_empty());
    }
    // The values of before accounts could change.
    let (_, user) = get(&running, "/1.1/users/show.json?user_id=49602").await;
    for (name, value) in [
        ("id_str", json!("49602")),
        ("name", json!("tiny heron")),
        ("screen_name", json!("tiny_heron0")),
        ("location", json!("Planet Earth")),
        ("url", Value::Null),
        ("protected", json!(false)),
        ("verified", json!(false)),
        ("followers_count", json!(FOLLOWERS)),
        ("friends_count", json!(FRIENDS)),
        ("listed_count", json!(LISTED)),
        ("statuses_count", json!(POSTS)),
        ("favourites_count", json!(LIKES)),
        ("profile_image_url_https", json!("https://pbs.twimg.com/profile_images/49602/face_normal.jpeg")),
    ] {
        assert_eq!(user[name], value, "{name}");
    }
    assert!(user.get("status").is_none());
}

/// The counts of the account 49602, by the first version of the simulator.
const FOLLOWERS: u64 = 9_200;
const FRIENDS: u64 = 1_232;
const LISTED: u64 = 63;
const POSTS: u64 = 67_387;
const LIKES: u64 = 15_621;

#[tokio::test]
async fn the_script_leads_from_one_moment_to_every_other() {
    let running = start(lively()).await;
    let people = running.people();
    let (from, to) = (SINCE - DAY, SINCE + 40 * DAY);
    let (mut seen, mut states, mut changes) = (BTreeSet::new(), BTreeSet::new(), 0);
    for number in 0..60 {
        let script = people.script(number, from, to);
        assert!(script.is_sorted_by_key(|change| change.at), "{script:?}");
        changes += script.len();
        let mut known = BTreeMap::new();
        let mut next = script.iter().peekable();
        let first = people.at(number, from);
        assert_eq!(
            (first.state, first.picture.as_str()),
            (AccountState::Live, "face"),
            "nothing changes before {SINCE}"
        );
        for at in (from..=to).step_by(HOUR as usize * 5 / 2) {
            let person = people.at(number, at);
            while let Some(scripted) = next.next_if(|scripted| scripted.at <= at) {
                let change = &scripted.change;
                let old = known.insert(change.field, change.new.clone());
                assert_eq!(old.unwrap_or_else(|| field(&first, change.field)), change.old, "{scripted:?}");
                assert_ne!(change.old, change.new);
                assert_eq!(field(&people.at(number, scripted.at), change.field), change.new);
                assert_eq!(field(&people.at(number, scripted.at - 1), change.field), change.old);
                seen.insert(change.field);
                states.insert(person.state.as_str());
            }
            for name in [
                "state",
                "handle",
                "display_name",
                "description",
                "location",
                "url",
                "picture",
                "protected",
                "verified",
            ] {
                let told = known.get(name).cloned().unwrap_or_else(|| field(&first, name));
                assert_eq!(told, field(&person, name), "{number} {name} at {at}");
            }
        }
        // A script in two parts is the same.
        let half = people.script(number, from, SINCE + 9 * DAY + 1);
        let rest = people.script(number, SINCE + 9 * DAY + 1, to);
        assert_eq!([half, rest].concat(), script);
    }
    assert_eq!((seen.len(), states.len()), (9, 5), "every field and every state: {seen:?} {states:?}");
    // 240 slots each, of which accounts that are away use none, and whose draws may repeat a value.
    assert!((60 * 60..60 * 240).contains(&changes), "{changes}");
}

#[tokio::test]
async fn as_many_are_away_as_was_asked_for_and_the_deleted_stay_away() {
    let running = start(SimulatorOptions { accounts_deleted: 0.0, ..lively() }).await;
    let mortal = start(lively()).await;
    let (mut away, mut asked, mut deleted) = (0, 0, Vec::new());
    for at in (0..30).map(|day| SINCE + 5 * DAY + day * DAY) {
        for number in 0..400 {
            away += u32::from(running.people().at(number, at).is_away());
            asked += 1;
        }
        deleted.push((0..400).filter(|number| mortal.people().at(*number, at).state == AccountState::Deleted).count());
    }
    let share = f64::from(away) / f64::from(asked);
    assert!((0.27..0.33).contains(&share), "{share}");
    assert!(deleted.is_sorted() && deleted[0] < deleted[29] && deleted[29] < 400, "{deleted:?}");
    // While an account is away, nothing of it changes but the state.
    let profile = |person: Person| Person { state: AccountState::Live, ..person };
    for number in 0..50 {
        let states = mortal.people().script(number, SINCE, SINCE + 30 * DAY);
        let states: Vec<_> = states.iter().filter(|scripted| scripted.change.field == "state").collect();
        for pair in states.windows(2).filter(|pair| !["live", "protected"].contains(&pair[0].change.new.as_str())) {
            let (gone, last) = (mortal.people().at(number, pair[0].at), mortal.people().at(number, pair[1].at - 1));
            assert_eq!(profile(gone), profile(last));
        }
    }
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
            let clock = simulated(at);
            let before = wall_ms();
            let answer = lookup.look_up(&ids, &anonymous()).await.unwrap();
            let after = wall_ms();
            drop(clock);
            assert_eq!(answer.unsolicited, 0);
            for (number, outcome) in numbers.iter().zip(&answer.outcomes) {
                let told = bare(outcome);
                // The clock goes on during a call.
                let is_true = [before, after].into_iter().any(|at| truth(people, &provider, *number, at) == told);
                assert!(is_true, "{provider} {number} at {at}: {told:?}, {:?}", people.at(*number, before));
                let kind = match told {
                    Outcome::Found(account) => account.state.to_string(),
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
            ("mastodon:social", "Unavailable"),
            ("mastodon:social", "live"),
            ("mastodon:social", "suspended"),
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
        let scripts: Vec<_> = numbers.iter().map(|number| people.script_at(&provider, *number, from, to)).collect();
        let moments: BTreeSet<i64> = scripts.iter().flatten().map(|scripted| scripted.at).chain([from]).collect();
        let mut known: Vec<Option<Account>> = vec![None; numbers.len()];
        let mut history: Vec<Vec<(String, String, String)>> = vec![Vec::new(); numbers.len()];
        for at in moments {
            let clock = simulated(at);
            let answer = lookup.look_up(&ids, &anonymous()).await.unwrap();
            drop(clock);
            for (place, outcome) in answer.outcomes.into_iter().enumerate() {
                let Outcome::Found(account) = outcome else { continue };
                // An emptied profile says nothing.
                if account.state == AccountState::Suspended {
                    continue;
                }
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
    let _clock = simulated(at);
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
async fn a_handle_has_one_owner_and_moves_from_one_account_to_another() {
    let running = start(lively()).await;
    let people = running.people();
    let (mut freed, mut taken) = (0, 0);
    let mut before: BTreeMap<String, u64> = BTreeMap::new();
    for at in (0..12).map(|step| SINCE + step * 3 * DAY) {
        let owners: BTreeMap<String, u64> = (0..500).map(|number| (people.at(number, at).handle, number)).collect();
        assert_eq!(owners.len(), 500, "no handle has two owners");
        for (handle, number) in &owners {
            assert!(handle.len() <= 15 || handle.len() <= 17 && handle.ends_with(|end: char| end.is_ascii_digit()));
            assert_eq!(people.named(handle, at), Some(*number), "{handle}");
            assert_eq!(people.named(&handle.to_uppercase(), at), Some(*number), "{handle}");
        }
        for (handle, owner) in before.iter().filter(|(handle, owner)| owners.get(*handle) != Some(owner)) {
            match people.named(handle, at) {
                None => freed += 1,
                Some(other) => {
                    assert!(other != *owner && owners[handle] == other);
                    taken += 1;
                }
            }
        }
        before = owners;
    }
    assert!(freed > taken && taken > 20, "{freed} {taken}");
    // A timeline by an old handle is nobody's, or another's.
    let at = SINCE + 30 * DAY;
    let _clock = simulated(at);
    let free = (0..500).find(|n| people.named(&people.at(*n, SINCE).handle, at).is_none()).unwrap();
    let first = people.at(free, SINCE).handle;
    assert_eq!(get(&running, &format!("/1.1/statuses/user_timeline.json?screen_name={first}")).await.0, 404);
    let target = format!("/xrpc/app.bsky.feed.getAuthorFeed?actor={first}.bsky.example.org");
    assert_eq!(get(&running, &target).await.1["message"], "Profile not found");
}

#[tokio::test]
async fn posts_have_their_authors_as_they_are() {
    let running = start(lively()).await;
    let people = running.people();
    let at = SINCE + 15 * DAY;
    let _clock = simulated(at);
    // Those that change within the next minutes would make the comparison a matter of luck.
    let is_calm = |number: &u64| {
        people.script(*number, SINCE, at).len() > 9 && people.script(*number, at, at + HOUR / 4).is_empty()
    };
    let numbers: Vec<u64> = (0..100).filter(is_calm).take(12).collect();
    let mut away = 0;
    for number in &numbers {
        let number = *number;
        let person = people.at(number, at);
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
async fn a_hundred_thousand_accounts_can_be_looked_up() {
    let running = start(SimulatorOptions { accounts: 100_000, ..lively() }).await;
    let few = start(plain()).await;
    let people = running.people();
    let at = SINCE + 3 * DAY;
    let _clock = simulated(at);
    for provider in networks() {
        let mut all = BTreeSet::new();
        for number in (0..100_000).filter(|number| *number != 20_404) {
            let id = people.id(&provider, number);
            assert_eq!(people.number(&provider, &id), Some(number), "{id}");
            all.insert(id);
        }
        assert_eq!(all.len(), 99_999);
        assert_eq!(people.number(&provider, &people.id(&provider, 100_000)), None);
        // Far beyond the authors of posts.
        let live = (99_000..100_000).filter(|number| people.account(&provider, *number, at).is_some());
        let ids: Vec<String> = live.take(20).map(|number| people.id(&provider, number)).collect();
        let answer = accounts(&running, &provider, Calls::Batch).look_up(&ids, &anonymous()).await.unwrap();
        assert!(answer.outcomes.iter().all(|outcome| matches!(outcome, Outcome::Found(_))), "{provider}");
        let answer = accounts(&few, &provider, Calls::Batch).look_up(&ids, &anonymous()).await.unwrap();
        assert!(!answer.outcomes.iter().any(|outcome| matches!(outcome, Outcome::Found(_))), "{provider}");
    }
    assert!(people.count() < MOST_ACCOUNTS);
    for nobody in ["404", "nobody"] {
        assert_eq!((people.number(&Provider::Twitter, nobody), people.named(nobody, at)), (None, None));
    }
    let same = start(SimulatorOptions { accounts: 100_000, ..lively() }).await;
    let other = start(SimulatorOptions { accounts: 100_000, seed: 2, ..lively() }).await;
    let script = |running: &Running| running.people().script(99_999, SINCE, SINCE + 30 * DAY);
    assert_eq!(script(&running), script(&same));
    assert_ne!(script(&running), script(&other));
}

#[tokio::test]
async fn older_instances_return_one_account_and_refuse_the_suspended() {
    let at = SINCE + 20 * DAY;
    let _clock = simulated(at);
    for (version, lists, suspended) in [("4.3.0", 200, 200), ("4.2.9", 404, 200), ("3.2.2", 404, 410)] {
        let running = start(SimulatorOptions { mastodon_version: version.to_owned(), ..lively() }).await;
        let person = one_that_is(running.people(), AccountState::Suspended, at);
        let social = Provider::Mastodon("social".to_owned());
        let id = running.people().id(&social, person.number);
        assert_eq!(get(&running, &format!("/api/v1/accounts?id[]={id}")).await.0, lists, "{version}");
        assert_eq!(get(&running, &format!("/api/v1/accounts/{id}")).await.0, suspended, "{version}");
        let answer = accounts(&running, &social, Calls::Single).look_up(&[id], &anonymous()).await.unwrap();
        match &answer.outcomes[0] {
            Outcome::Found(account) => assert!(suspended == 200 && account.state == AccountState::Suspended),
            outcome => assert!(suspended == 410 && *outcome == Outcome::Absent(Absence::Suspended), "{outcome:?}"),
        }
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
    for wrong in ["", "?actors=nobody", "?actors=did:plc", "?actors=a b.example.org"] {
        let target = format!("/xrpc/app.bsky.actor.getProfiles{}", wrong.replace(' ', "%20"));
        assert_eq!(get(&running, &target).await.0, 400, "{wrong}");
    }
    let names: Vec<String> = (0..101).map(|number| people.at(number, 0).handle).collect();
    let (status, body) = get(&running, &format!("/1.1/users/lookup.json?screen_name={}", names.join(","))).await;
    assert_eq!((status, &body["errors"][0]["code"]), (403, &json!(18)));
}
