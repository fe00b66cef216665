//! Planted groups: shares, profiles, follows, and the same truth from every network.

use std::collections::BTreeMap;

use twitter_updater::base::clock::simulate_clock;
use twitter_updater::model::account::Role;
use twitter_updater::model::provider::Provider;
use twitter_updater::providers::registry;
use twitter_updater::simulator::{GROUPS, People};

use super::people::{SINCE, get, networks};
use super::*;

/// The demo's network.
fn planted() -> SimulatorOptions {
    SimulatorOptions { accounts: 20_000, communities: true, posts_per_second: 0.01, retweet_share: 0.3, ..plain() }
}

/// The address of a page of an account's timeline at a network, and where its posts are in the answer.
fn timeline(provider: &Provider, id: &str) -> (String, &'static str) {
    match provider {
        Provider::Twitter => (format!("/1.1/statuses/user_timeline.json?user_id={id}&count=200"), ""),
        Provider::X => {
            let fields = "author_id,entities,in_reply_to_user_id,lang,referenced_tweets";
            (format!("/2/users/{id}/tweets?max_results=100&tweet.fields={fields}"), "/data")
        }
        Provider::Mastodon(_) => (format!("/api/v1/accounts/{id}/statuses?limit=40"), ""),
        Provider::Bluesky => (format!("/xrpc/app.bsky.feed.getAuthorFeed?actor={id}&limit=100"), "/feed"),
    }
}

/// The language that an object tells.
fn language<'a>(provider: &Provider, post: &'a Value) -> Option<&'a str> {
    let field = match provider {
        Provider::Twitter | Provider::X => "/lang",
        Provider::Mastodon(_) => "/language",
        Provider::Bluesky => "/record/langs/0",
    };
    post.pointer(field)?.as_str()
}

#[test]
fn accounts_and_their_profiles_are_of_their_group_by_its_shares() {
    let people = People::new(&planted());
    let other = People::new(&SimulatorOptions { seed: 2, ..planted() });
    assert!((0..1_000).any(|number| people.group(number) != other.group(number)));
    assert_eq!((people.group(20_000), People::new(&plain()).group(0)), (None, None));
    let mut places: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for number in 0..20_000 {
        let person = people.person_at(number, SINCE);
        assert!(!person.display_name.is_empty());
        places.entry(people.group(number).unwrap()).or_default().push(person.location);
    }
    for group in &GROUPS {
        let stated = &places[group.label];
        assert_eq!(stated.len(), group.parts as usize * 400);
        assert_eq!(people.members(&Provider::Twitter, group.label).len(), stated.len());
        let share = |is: &dyn Fn(&str) -> bool| stated.iter().filter(|place| is(place)).count() * 100 / stated.len();
        assert!(share(&str::is_empty).abs_diff(group.places.empty as usize) <= 3, "{}", group.label);
        // Some say to be in the moon, and some to be where another group is.
        let in_portugal = share(&|place| ["lisb", "port", "braga"].iter().any(|of| place.to_lowercase().contains(of)));
        let expected = if group.label == "pt-PT" { 20..40 } else { 1..9 };
        assert!(expected.contains(&in_portugal), "{}: {in_portugal} %", group.label);
    }
}

#[test]
fn most_follow_their_own_group() {
    let people = People::new(&planted());
    let (group, mut friends) = (|number| people.group(number).unwrap(), BTreeMap::<&str, [usize; 2]>::new());
    let mut followers = BTreeMap::<&str, [usize; 2]>::new();
    for owner in 0..2_000 {
        for follow in people.follows().followers(owner, SINCE, i64::MAX) {
            let is_inside = group(follow.follower) == group(owner);
            for of in [followers.entry(group(owner)).or_default(), friends.entry(group(follow.follower)).or_default()] {
                of[usize::from(is_inside)] += 1;
            }
        }
    }
    let share = |of: &[usize; 2]| of[1] as f64 / (of[0] + of[1]) as f64;
    for planted in &GROUPS {
        let expected = planted.followers as f64 / 20.0;
        let (followers, friends) = (share(&followers[planted.label]), share(&friends[planted.label]));
        assert!((followers - expected).abs() < 0.03, "{}: {followers}", planted.label);
        assert!((0.75..0.96).contains(&friends), "{}: {friends}", planted.label);
    }
}

#[tokio::test]
async fn every_network_tells_the_same_groups_in_timelines_and_lookups() {
    let running = start(planted()).await;
    let people = running.people();
    let _clock = simulate_clock(SINCE);
    for provider in networks() {
        let (mut named, mut posts) = ([0, 0], [0, 0]);
        for (at, group) in GROUPS.iter().enumerate() {
            // Not the first members, whom everybody knows.
            let id = &people.members(&provider, group.label)[700 + at];
            let (target, list) = timeline(&provider, id);
            let (status, body) = get(&running, &target).await;
            assert_eq!(status, 200, "{body}");
            for post in body.pointer(list).unwrap().as_array().unwrap() {
                let post = post.get("post").unwrap_or(post);
                let (author, others) = {
                    let mut all = registry::people(&provider)(&post.to_string()).into_iter();
                    (all.next().unwrap(), all)
                };
                assert_eq!((author.role, &author.id), (Role::Author, id));
                for person in others {
                    let is_inside = people.group_with_id(&provider, &person.id).unwrap() == group.label;
                    named[usize::from(is_inside)] += 1;
                }
                posts[usize::from(language(&provider, post) == Some(group.language))] += 1;
            }
        }
        assert!(posts[0] > 5 && posts[1] > 2 * posts[0], "{provider}: {posts:?}");
        assert!(named[0] > 5 && named[1] > 2 * named[0], "{provider}: {named:?}");
    }
    // A post is the same in a timeline and looked up, and replies to a post of whom it says.
    let id = &people.members(&Provider::Twitter, "pt-PT")[700];
    let posts = get(&running, &timeline(&Provider::Twitter, id).0).await.1;
    let posts: BTreeMap<&str, &Value> =
        posts.as_array().unwrap().iter().take(100).map(|post| (post["id_str"].as_str().unwrap(), post)).collect();
    let ids: Vec<&str> = posts.keys().copied().collect();
    let looked_up = lookup(&running, &format!("id={}", ids.join(","))).await;
    assert_eq!(looked_up.as_array().unwrap().len(), 100);
    assert!(looked_up.as_array().unwrap().iter().all(|post| posts[post["id_str"].as_str().unwrap()] == post));
    let user = get(&running, &format!("/1.1/users/show.json?user_id={id}")).await.1;
    for field in ["location", "description", "name", "followers_count", "friends_count"] {
        assert_eq!(user[field], looked_up[0]["user"][field], "{field}");
    }
    let replies: Vec<&&Value> = posts.values().filter(|post| post["in_reply_to_status_id_str"].is_string()).collect();
    assert!(replies.len() > 5);
    for reply in replies {
        let parent = lookup(&running, &format!("id={}", reply["in_reply_to_status_id_str"].as_str().unwrap())).await;
        assert_eq!(parent[0]["user"]["id_str"], reply["in_reply_to_user_id_str"]);
        assert_eq!(parent[0]["user"]["screen_name"], reply["in_reply_to_screen_name"]);
    }
}
