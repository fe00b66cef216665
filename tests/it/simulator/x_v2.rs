//! X API v2 as it is simulated: the fields that are asked for and no others, and edited posts.

use std::collections::BTreeSet;

use twitter_updater::base::clock::Millis;
use twitter_updater::providers::x_v2::{FieldNames, Fields, XV2, XV2Options};
use twitter_updater::simulator::Version;

use super::*;

const HOUR: i64 = 3_600_000;
const SECOND: i64 = 1_000;

/// What comes unasked.
const ALWAYS: [&str; 3] = ["edit_history_tweet_ids", "id", "text"];

fn bare() -> SimulatorOptions {
    SimulatorOptions { body_padding: 0, ..plain() }
}

fn edited() -> SimulatorOptions {
    SimulatorOptions { edited_share: 1.0, x_calls_per_window: 0, ..bare() }
}

async fn get(running: &Running, target: &str) -> (u16, Value) {
    let (status, _, body) = raw(running, "GET", target, None, "").await;
    (status, serde_json::from_str(&body).unwrap())
}

fn names(post: &Value) -> BTreeSet<&str> {
    post.as_object().unwrap().keys().map(String::as_str).collect()
}

fn texts(ids: &[TweetId]) -> Vec<String> {
    ids.iter().map(TweetId::to_string).collect()
}

#[tokio::test]
async fn a_field_that_is_not_asked_for_is_not_there() {
    let running = start(SimulatorOptions { retweet_share: 1.0, ..bare() }).await;
    let id = &aged(HOUR, 1)[0];
    for target in [format!("/2/tweets?ids={id}"), "/2/users/12/tweets?max_results=5".to_owned()] {
        let (_, page) = get(&running, &target).await;
        assert_eq!(names(&page["data"][0]), ALWAYS.into(), "{target}");
        for field in ["author_id", "created_at", "entities", "lang", "public_metrics", "referenced_tweets", "source"] {
            let (_, page) = get(&running, &format!("{target}&tweet.fields={field}")).await;
            assert_eq!(names(&page["data"][0]), ALWAYS.into_iter().chain([field]).collect(), "{target}");
        }
        // Known fields that the post does not have.
        let (_, page) = get(&running, &format!("{target}&tweet.fields=geo,attachments,organic_metrics")).await;
        assert_eq!(names(&page["data"][0]), ALWAYS.into(), "{target}");
    }
}

#[tokio::test]
async fn a_post_has_what_the_product_asks_for_by_both_documents() {
    let running = start(SimulatorOptions { retweet_share: 1.0, ..bare() }).await;
    let asked = aged(HOUR, 1);
    for (names, [history, references, retweets]) in [
        (FieldNames::Tweet, ["edit_history_tweet_ids", "referenced_tweets", "retweet_count"]),
        (FieldNames::Post, ["edit_history_post_ids", "referenced_posts", "repost_count"]),
    ] {
        // Expansions are taken, too.
        let fields = Fields::new(names, "all, non_public_metrics", "author_id, referenced_tweets.id").unwrap();
        let x = XV2::new(XV2Options { base_url: running.base_url(), fields, ..XV2Options::default() }).unwrap();
        let answer = x.look_up(&asked, &anonymous()).await.unwrap();
        let Outcome::Found(tweet) = &answer.outcomes[0] else { panic!("{answer:?}") };
        let post: Value = serde_json::from_str(&tweet.raw).unwrap();
        assert_eq!(post[history], json!(asked));
        let truth = running.world().version(TweetId::parse(&asked[0]).unwrap(), wall_ms()).unwrap().tweet;
        let original = truth.original.unwrap();
        assert_eq!(post[references], json!([{ "type": "retweeted", "id": original.id.to_string() }]));
        assert_eq!(post["public_metrics"][retweets], truth.retweet_count);
        assert_eq!((&post["lang"], &post["conversation_id"]), (&json!("en"), &json!(asked[0])));
        assert_eq!((&post["possibly_sensitive"], &post["reply_settings"]), (&json!(false), &json!("everyone")));
        assert_eq!(
            (&post["source"], &post["edit_controls"]["is_edit_eligible"]),
            (&json!("Twitter Web App"), &json!(false))
        );
        // The mention stands where the entities say.
        let text: Vec<char> = post["text"].as_str().unwrap().chars().collect();
        let mention = &post["entities"]["mentions"][0];
        let at = |name: &str| mention[name].as_u64().unwrap() as usize;
        let named: String = text[at("start")..at("end")].iter().collect();
        assert_eq!(named, format!("@{}", mention["username"].as_str().unwrap()));
    }
}

#[tokio::test]
async fn an_unknown_field_is_refused() {
    let running = start(bare()).await;
    let targets =
        ["/2/tweets?ids=20", "/2/users/12/tweets?", "/2/tweets/search/recent?query=x", "/2/tweets/search/stream?"];
    for target in targets {
        for (parameter, name) in [
            ("tweet.fields", "colour"),
            ("tweet.fields", "lang,"),
            ("tweet.fields", "lang,note_post"),
            ("post.fields", "note_tweet"),
            ("expansions", "colour"),
        ] {
            let (status, body) = get(&running, &format!("{target}&{parameter}={name}")).await;
            assert_eq!((status, &body["title"]), (400, &json!("Invalid Request")), "{target} {name}");
            assert!(body["type"].as_str().unwrap().ends_with("/invalid-request"), "{body}");
            assert!(body["errors"][0]["parameters"].get(parameter).is_some(), "{body}");
            assert!(body["errors"][0]["message"].as_str().unwrap().contains("is not one of ["), "{body}");
        }
    }
    assert_eq!((running.counters().charged, running.streams().connects), (0, 0));
}

#[tokio::test]
async fn edits_make_versions_with_ids_and_texts_of_their_own() {
    let (running, same) = (start(edited()).await, start(edited()).await);
    let world = running.world();
    let made = wall_ms() - 100 * DAY;
    let mut numbers = BTreeSet::new();
    for sequence in 0..50 {
        let first = TweetId::at(made, sequence);
        assert_eq!(world.history(first, made), [first]);
        let all = world.history(first, made + HOUR);
        assert_eq!(all, same.world().history(first, made + DAY));
        assert!((2..=6).contains(&all.len()) && all.is_sorted() && all[0] == first, "{all:?}");
        numbers.insert(all.len());
        let mut counts = (0, 0);
        for (at, id) in all.iter().enumerate() {
            let at_once = id.created_at().unwrap();
            assert_eq!(world.version(*id, at_once - 1), None);
            let Version { tweet, history } = world.version(*id, at_once).unwrap();
            assert_eq!((history.as_slice(), tweet.id, tweet.created_at), (&all[..=at], *id, at_once));
            // The newest goes on with the counts of the one before.
            let now = (tweet.retweet_count, tweet.favorite_count);
            assert!(now.0 >= counts.0 && now.1 >= counts.1, "{id}: {counts:?} to {now:?}");
            counts = now;
            let at_last = world.version(*id, made + 30 * DAY).unwrap();
            assert_eq!(at_last.history, all);
            let counted_until = all.get(at + 1).map_or(made + 30 * DAY, |next| next.created_at().unwrap());
            let counted = world.tweet(first, counted_until).unwrap();
            assert_eq!((at_last.tweet.retweet_count, at_last.tweet.author), (counted.retweet_count, counted.author));
        }
    }
    assert_eq!(numbers, (2..=6).collect(), "one to five edits");
    // A retweet is never edited, nor is anything where no share is.
    let retweets = start(SimulatorOptions { retweet_share: 1.0, ..edited() }).await;
    let first = TweetId::at(made, 7);
    assert_eq!(retweets.world().history(first, made + DAY), [first]);
    assert_eq!(start(bare()).await.world().history(first, made + DAY), [first]);
    // A post that is gone is gone in every version.
    let gone = start(SimulatorOptions { missing_share: 1.0, ..edited() }).await;
    assert!(gone.world().history(first, made + DAY).iter().all(|id| gone.world().version(*id, wall_ms()).is_none()));
}

#[tokio::test]
async fn an_old_id_gives_the_old_post_and_names_the_newer_ones() {
    let running = start(edited()).await;
    let made = wall_ms() - 2 * HOUR;
    let first = TweetId::at(made, 3);
    let all = running.world().history(first, wall_ms());
    let newest = *all.last().unwrap();
    // A sixth edit, which nobody can make, and a first one that is not made yet.
    let none = TweetId::at(made, (6 << 19) | 3);
    let young = TweetId::at(wall_ms() - SECOND, 4);
    let later = running.world().history(young, wall_ms() + HOUR)[1];
    let asked = texts(&[all.clone(), vec![none, later]].concat()).join(",");
    let (_, answer) = get(&running, &format!("/2/tweets?ids={asked}&tweet.fields=public_metrics,edit_controls")).await;
    let post = |id: TweetId| {
        let posts = answer["data"].as_array().unwrap();
        posts.iter().find(|post| post["id"] == id.to_string()).unwrap()
    };
    let mut said = BTreeSet::new();
    for (at, id) in all.iter().enumerate() {
        let post = post(*id);
        assert_eq!(post["edit_history_tweet_ids"], json!(texts(&all)));
        assert_eq!(post["edit_controls"]["edits_remaining"], 5 - at);
        said.insert(post["text"].as_str().unwrap());
        let counts = running.world().version(*id, wall_ms()).unwrap().tweet;
        let shown = post["public_metrics"]["retweet_count"].as_i64().unwrap();
        assert!(shown == counts.retweet_count || *id == newest && shown <= counts.retweet_count, "{post}");
    }
    assert_eq!(said.len(), all.len(), "each has a text of its own");
    let errors: Vec<_> =
        answer["errors"].as_array().unwrap().iter().map(|error| (&error["value"], &error["title"])).collect();
    assert_eq!(errors.len(), 2);
    for id in [none, later] {
        assert!(errors.contains(&(&json!(id.to_string()), &json!("Not Found Error"))), "{errors:?}");
    }
    // The product gives each id its own version.
    let x = XV2::new(XV2Options { base_url: running.base_url(), ..XV2Options::default() }).unwrap();
    let answer = x.look_up(&texts(&all), &anonymous()).await.unwrap();
    for (id, outcome) in all.iter().zip(&answer.outcomes) {
        let Outcome::Found(tweet) = outcome else { panic!("{outcome:?}") };
        assert!(tweet.id == id.to_string() && said.contains(tweet.text.as_deref().unwrap()), "{tweet:?}");
    }
    assert_eq!(answer.unsolicited, 0);
}

/// The ids of a user's timeline, newest first, page by page.
async fn timeline(running: &Running, since: TweetId) -> Vec<String> {
    let target = format!("/2/users/12/tweets?max_results=10&since_id={since}");
    let (mut ids, mut token) = (Vec::new(), String::new());
    loop {
        let (_, page) = get(running, &format!("{target}{token}")).await;
        let posts = page["data"].as_array().cloned().unwrap_or_default();
        ids.extend(posts.iter().map(|post| post["id"].as_str().unwrap().to_owned()));
        match page["meta"]["next_token"].as_str() {
            Some(next) => token = format!("&pagination_token={next}"),
            None => return ids,
        }
    }
}

#[tokio::test]
async fn a_timeline_has_the_newest_version_of_each_post() {
    let running = start(SimulatorOptions { posts_per_second: 0.01, edited_share: 0.5, ..edited() }).await;
    let since = |now: Millis| TweetId::at(now - 2 * HOUR, 0);
    // Also posts that were made before it, and edited since.
    let expected = |now: Millis| {
        let posts = running.timeline("12", now - 4 * HOUR, now);
        let visible = posts.iter().filter(|post| post.visible_at <= now);
        let newest = visible.filter_map(|post| running.world().history(post.id, now).last().copied());
        let mut newest: Vec<TweetId> = newest.filter(|id| *id > since(now)).collect();
        newest.sort_unstable_by(|a, b| b.cmp(a));
        texts(&newest)
    };
    loop {
        let before = wall_ms();
        let ids = timeline(&running, since(before)).await;
        // Again, where a post was made or edited meanwhile.
        if expected(wall_ms()) == expected(before) {
            assert_eq!(ids, expected(before));
            assert!(ids.len() > 50 && ids.len() < 120, "{}", ids.len());
            break;
        }
    }
}
