//! Accounts that change, go away and come back: the truth about them, and their script.

use std::collections::{BTreeMap, BTreeSet};

use twitter_updater::base::clock::simulate_clock;
use twitter_updater::model::account::{Account, AccountState};
use twitter_updater::model::provider::Provider;
use twitter_updater::providers::bluesky::{self, Bluesky, BlueskyOptions};
use twitter_updater::providers::http::HttpOptions;
use twitter_updater::providers::mastodon::{self, Calls, Mastodon, MastodonOptions};
use twitter_updater::providers::twitter_v1;
use twitter_updater::providers::x_v2::{self, XV2, XV2Options};
use twitter_updater::simulator::{MOST_ACCOUNTS, Person};

use super::*;

pub const HOUR: i64 = 3_600_000;
/// Somewhere in 2026; the tests set the clock.
pub const SINCE: i64 = 1_780_000_000_000;

/// Accounts whose lives are full of changes.
pub fn lively() -> SimulatorOptions {
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

pub fn networks() -> [Provider; 4] {
    [Provider::Twitter, Provider::X, Provider::Mastodon("social".to_owned()), Provider::Bluesky]
}

/// The product's lookup of accounts at the simulator.
pub fn accounts(running: &Running, provider: &Provider, calls: Calls) -> Box<dyn Lookup<Account>> {
    let (base_url, http) = (running.base_url(), HttpOptions::default());
    match provider {
        Provider::Twitter => Box::new(twitter_v1::account::Accounts(twitter(&base_url))),
        Provider::X => {
            let options = XV2Options { base_url, http, ..XV2Options::default() };
            Box::new(x_v2::account::Accounts(XV2::new(options).unwrap()))
        }
        Provider::Mastodon(_) => {
            let options = MastodonOptions { calls, http, ..MastodonOptions::new(&base_url) };
            Box::new(mastodon::account::Accounts(Mastodon::new(options).unwrap()))
        }
        Provider::Bluesky => Box::new(bluesky::account::Accounts(
            Bluesky::new(BlueskyOptions { base_url, http, ..BlueskyOptions::default() }).unwrap(),
        )),
    }
}

pub async fn get(running: &Running, target: &str) -> (u16, Value) {
    let (status, _, body) = raw(running, "GET", target, None, "").await;
    (status, serde_json::from_str(&body).unwrap_or(Value::Null))
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
    assert_eq!((people.count(), people.are_changing()), (32_768, false));
    for number in [0, 5, 20_404, 32_767] {
        assert_eq!(people.person_at(number, 0), people.person_at(number, wall_ms() + 900 * DAY));
        assert!(people.list_changes(number, 0, wall_ms() + DAY).is_empty());
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
        let script = people.list_changes(number, from, to);
        assert!(script.is_sorted_by_key(|change| change.at), "{script:?}");
        changes += script.len();
        let mut known = BTreeMap::new();
        let mut next = script.iter().peekable();
        let first = people.person_at(number, from);
        assert_eq!(
            (first.state, first.picture.as_str()),
            (AccountState::Live, "face"),
            "nothing changes before {SINCE}"
        );
        for at in (from..=to).step_by(HOUR as usize * 5 / 2) {
            let person = people.person_at(number, at);
            while let Some(scripted) = next.next_if(|scripted| scripted.at <= at) {
                let change = &scripted.change;
                let old = known.insert(change.field, change.new.clone());
                assert_eq!(old.unwrap_or_else(|| field(&first, change.field)), change.old, "{scripted:?}");
                assert_ne!(change.old, change.new);
                assert_eq!(field(&people.person_at(number, scripted.at), change.field), change.new);
                assert_eq!(field(&people.person_at(number, scripted.at - 1), change.field), change.old);
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
        let half = people.list_changes(number, from, SINCE + 9 * DAY + 1);
        let rest = people.list_changes(number, SINCE + 9 * DAY + 1, to);
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
            away += u32::from(running.people().person_at(number, at).is_away());
            asked += 1;
        }
        deleted.push(
            (0..400).filter(|number| mortal.people().person_at(*number, at).state == AccountState::Deleted).count(),
        );
    }
    let share = f64::from(away) / f64::from(asked);
    assert!((0.27..0.33).contains(&share), "{share}");
    assert!(deleted.is_sorted() && deleted[0] < deleted[29] && deleted[29] < 400, "{deleted:?}");
    // While an account is away, nothing of it changes but the state.
    let profile = |person: Person| Person { state: AccountState::Live, ..person };
    for number in 0..50 {
        let states = mortal.people().list_changes(number, SINCE, SINCE + 30 * DAY);
        let states: Vec<_> = states.iter().filter(|scripted| scripted.change.field == "state").collect();
        for pair in states.windows(2).filter(|pair| !["live", "protected"].contains(&pair[0].change.new.as_str())) {
            let (gone, last) =
                (mortal.people().person_at(number, pair[0].at), mortal.people().person_at(number, pair[1].at - 1));
            assert_eq!(profile(gone), profile(last));
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
        let owners: BTreeMap<String, u64> =
            (0..500).map(|number| (people.person_at(number, at).handle, number)).collect();
        assert_eq!(owners.len(), 500, "no handle has two owners");
        for (handle, number) in &owners {
            assert!(handle.len() <= 15 || handle.len() <= 17 && handle.ends_with(|end: char| end.is_ascii_digit()));
            assert_eq!(people.number_with_handle(handle, at), Some(*number), "{handle}");
            assert_eq!(people.number_with_handle(&handle.to_uppercase(), at), Some(*number), "{handle}");
        }
        for (handle, owner) in before.iter().filter(|(handle, owner)| owners.get(*handle) != Some(owner)) {
            match people.number_with_handle(handle, at) {
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
    let _clock = simulate_clock(at);
    let free = (0..500).find(|n| people.number_with_handle(&people.person_at(*n, SINCE).handle, at).is_none()).unwrap();
    let first = people.person_at(free, SINCE).handle;
    assert_eq!(get(&running, &format!("/1.1/statuses/user_timeline.json?screen_name={first}")).await.0, 404);
    let target = format!("/xrpc/app.bsky.feed.getAuthorFeed?actor={first}.bsky.example.org");
    assert_eq!(get(&running, &target).await.1["message"], "Profile not found");
}

#[tokio::test]
async fn a_hundred_thousand_accounts_can_be_looked_up() {
    let running = start(SimulatorOptions { accounts: 100_000, ..lively() }).await;
    let few = start(plain()).await;
    let people = running.people();
    let at = SINCE + 3 * DAY;
    let _clock = simulate_clock(at);
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
        let is_live =
            |number: &u64| people.account(&provider, *number, at).is_some_and(|of| of.state != AccountState::Suspended);
        let live = (99_000..100_000).filter(is_live);
        let ids: Vec<String> = live.take(20).map(|number| people.id(&provider, number)).collect();
        let answer = accounts(&running, &provider, Calls::Batch).look_up(&ids, &anonymous()).await.unwrap();
        assert!(answer.outcomes.iter().all(|outcome| matches!(outcome, Outcome::Found(_))), "{provider}");
        let answer = accounts(&few, &provider, Calls::Batch).look_up(&ids, &anonymous()).await.unwrap();
        assert!(!answer.outcomes.iter().any(|outcome| matches!(outcome, Outcome::Found(_))), "{provider}");
    }
    assert!(people.count() < MOST_ACCOUNTS);
    for nobody in ["404", "missing"] {
        assert_eq!((people.number(&Provider::Twitter, nobody), people.number_with_handle(nobody, at)), (None, None));
    }
    let same = start(SimulatorOptions { accounts: 100_000, ..lively() }).await;
    let other = start(SimulatorOptions { accounts: 100_000, seed: 2, ..lively() }).await;
    let script = |running: &Running| running.people().list_changes(99_999, SINCE, SINCE + 30 * DAY);
    assert_eq!(script(&running), script(&same));
    assert_ne!(script(&running), script(&other));
}

#[tokio::test]
async fn counts_move_and_those_that_only_rise_never_fall() {
    let running = start(SimulatorOptions { accounts_gone: 0.0, ..lively() }).await;
    let mut following = BTreeSet::new();
    for number in [0, 7, 31_000, 32_767] {
        let counts = |person: &Person| [person.followers, person.posts, person.listed, person.likes];
        let mut before = running.people().person_at(number, SINCE - HOUR);
        for at in (SINCE..SINCE + 5 * DAY).step_by(HOUR as usize) {
            let now = running.people().person_at(number, at);
            let pairs = counts(&now).into_iter().zip(counts(&before));
            assert!(pairs.into_iter().all(|(now, before)| now >= before), "{before:?} {now:?}");
            assert!(now.last_post > before.last_post || now.posts == before.posts, "{before:?} {now:?}");
            following.insert((number, now.following));
            before = now;
        }
        let first = running.people().person_at(number, SINCE - HOUR);
        assert!(
            counts(&before).into_iter().zip(counts(&first)).all(|(last, first)| last > first),
            "{first:?} {before:?}"
        );
        // A hundredth of a post a second.
        assert!((4_200..4_450).contains(&(before.posts - first.posts)), "{first:?} {before:?}");
    }
    assert!(following.len() > 20, "{following:?}");
}

/// The documentation names each flag of the command.
#[test]
fn every_flag_is_documented() {
    use clap::CommandFactory;
    use twitter_updater::app::cli::Cli;

    let page = include_str!("../../../docs/simulator.md");
    let whole = Cli::command();
    let command = whole.find_subcommand("simulator").unwrap();
    let flags: Vec<&str> = command.get_arguments().filter_map(clap::Arg::get_long).collect();
    let of_accounts: Vec<&str> = flags.into_iter().filter(|flag| !["listen", "replay"].contains(flag)).collect();
    assert_eq!(of_accounts.len(), 16);
    let documented = page.lines().filter_map(|line| line.strip_prefix("| `--")?.split([' ', '`']).next());
    assert_eq!(documented.collect::<Vec<_>>(), of_accounts);
}
