//! Input from outside, mutated: recorded answers, lines of tweets, configurations. No reader panics, what
//! is wrong is said in a line, and no line repeats a secret or a stranger's text.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestCaseError, TestRunner};
use serde_json::Value;
use twitter_updater::config::DEFAULT;

use crate::recordings::{files, json, plain_id, tweets};
use crate::support::http::recordings;

#[path = "../../fuzz/properties.rs"]
mod properties;

use properties::CANARY;

/// Cases of each kind: two or three seconds in all.
const CASES: u32 = 2_500;

/// What is done to a text, in order; places are shares of its length.
#[derive(Debug, Clone)]
enum Mutation {
    Overwrite(f64, u8),
    Insert(f64, &'static str),
    Remove(f64, f64),
    Repeat(f64, f64),
    /// What stands at one place stands at another, too.
    Copy(f64, f64, f64),
    Cut(f64),
}

/// Pieces that mean something to one of the readers.
const PIECES: [&str; 31] = [
    "{",
    "}",
    "[",
    "]",
    "\"",
    "'",
    "\\",
    ",",
    ":",
    "=",
    "#",
    "\n",
    "\r",
    "\0",
    "null",
    "true",
    "-1",
    "1e999",
    "0",
    "99999999999999999999999",
    "\"id\":",
    "\"id_str\":\"0\",",
    "\"errors\":[],",
    "\\ud800",
    "\u{feff}",
    "\u{1b}[31m",
    "\"\\u001b[31m\\n\" = 1\n",
    "[queue.redis]\n",
    "updater.lease = \"1s\"\n",
    "\u{10ffff}",
    "[[[[[[[[[[[[[[[[",
];

fn mutation() -> impl Strategy<Value = Mutation> {
    let at = || 0.0..1.0;
    prop_oneof![
        (at(), any::<u8>()).prop_map(|(at, byte)| Mutation::Overwrite(at, byte)),
        (at(), prop::sample::select(PIECES.as_slice())).prop_map(|(at, piece)| Mutation::Insert(at, piece)),
        (at(), 0.0..0.2).prop_map(|(at, share)| Mutation::Remove(at, share)),
        (at(), 0.0..0.2).prop_map(|(at, share)| Mutation::Repeat(at, share)),
        (at(), 0.0..0.1, at()).prop_map(|(from, share, to)| Mutation::Copy(from, share, to)),
        at().prop_map(Mutation::Cut),
    ]
}

fn mutated(text: &[u8], mutations: &[Mutation]) -> Vec<u8> {
    let mut text = text.to_vec();
    for mutation in mutations {
        let place = |share: f64| (share * text.len() as f64) as usize;
        let range = |at: f64, share: f64| place(at)..(place(at) + place(share)).min(text.len());
        match *mutation {
            Mutation::Overwrite(at, byte) => {
                let at = place(at);
                text.get_mut(at).into_iter().for_each(|old| *old = byte);
            }
            Mutation::Insert(at, piece) => drop(text.splice(place(at)..place(at), piece.bytes())),
            Mutation::Remove(at, share) => drop(text.drain(range(at, share))),
            Mutation::Repeat(at, share) => {
                let part = text[range(at, share)].to_vec();
                drop(text.splice(place(at)..place(at), part));
            }
            Mutation::Copy(from, share, to) => {
                let part = text[range(from, share)].to_vec();
                drop(text.splice(place(to)..place(to), part));
            }
            Mutation::Cut(at) => text.truncate(place(at)),
        }
    }
    text
}

/// Runs a property over one of `originals`, mutated, or over any bytes; a failure is shrunk and shown.
fn holds(originals: &[Vec<u8>], property: impl Fn(&[u8], usize)) {
    let original = prop_oneof![9 => (0..originals.len()).prop_map(Some), 1 => Just(None)];
    let bytes = (original, vec(mutation(), 0..6), vec(any::<u8>(), 0..200), 1..200_usize);
    let mut runner = TestRunner::new(Config { cases: CASES, failure_persistence: None, ..Config::default() });
    let outcome = runner.run(&bytes, |(original, mutations, any, number)| {
        let text = mutated(original.map_or(&any, |at| &originals[at]), &mutations);
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| property(&text, number)))
            .map_err(|_| TestCaseError::fail(String::from_utf8_lossy(&text).chars().take(4_000).collect::<String>()))
    });
    outcome.unwrap_or_else(|error| panic!("{error}"));
}

/// A tweet whose every text is a canary: no reader's message may hold it.
fn tweet(id: &str) -> Value {
    serde_json::json!({
        "id": id.parse::<u64>().unwrap(), "id_str": id, "created_at": "Tue Mar 21 20:50:14 +0000 2006",
        "full_text": format!("{CANARY} \u{1f426} \"{CANARY}\""), "truncated": false, "retweet_count": 1,
        "favorite_count": 2, "user": {"id": 12, "id_str": "12", "screen_name": CANARY}, "withheld_in_countries": ["DE"],
    })
}

/// Recorded tweets, a few of each file, with the canary as their text.
fn recorded() -> Vec<Value> {
    let mut all = Vec::new();
    for file in recordings().iter().flat_map(|dir| files(dir)) {
        let mut found = Vec::new();
        json(&file).iter().for_each(|value| tweets(value, &mut found));
        found.truncate(3);
        for tweet in &mut found {
            let text = if tweet["full_text"].is_string() { "full_text" } else { "text" };
            tweet[text] = format!("{CANARY} {}", tweet[text].as_str().unwrap()).into();
        }
        all.extend(found);
    }
    all
}

#[test]
fn of_a_lookup_answer() {
    let mut tweets = recorded();
    tweets.extend(["20", "21", "1050118621198921728"].map(tweet));
    let ids: Vec<String> = tweets.iter().filter_map(plain_id).collect();
    let mut bodies = Vec::new();
    for some in tweets.chunks(5) {
        let map: serde_json::Map<_, _> = some.iter().map(|tweet| (plain_id(tweet).unwrap(), tweet.clone())).collect();
        bodies.push(Value::from(some.to_vec()).to_string().into_bytes());
        bodies.push(serde_json::json!({"id": map}).to_string().into_bytes());
    }
    // No objects, but texts where objects belong.
    let strangers = [serde_json::json!({"id": {"20": CANARY, "21": [CANARY]}}), serde_json::json!([CANARY, 20])];
    bodies.extend(strangers.map(|body| body.to_string().into_bytes()));
    bodies.push(of_accounts(&["20", "21", "1050118621198921728"], &Value::Null)[0].to_string().into_bytes());
    holds(&bodies, |body, _| properties::lookup_answer(body, &ids));
}

/// Answers of X, Mastodon and Bluesky, whose every text is a canary.
fn of_others(ids: &[&str], uri: &str) -> Vec<Value> {
    let date = "2026-11-22T12:00:00.000Z";
    let post = |id: &&str| {
        serde_json::json!({
            "id": id, "text": CANARY, "created_at": date, "author_id": "12", "edit_history_tweet_ids": [id],
            "note_tweet": {"text": CANARY}, "withheld": {"copyright": true, "country_codes": ["DE"]},
            "public_metrics": {"retweet_count": 1, "like_count": 2, "reply_count": 3, "quote_count": 4},
        })
    };
    let status = |id: &&str| {
        serde_json::json!({
            "id": id, "content": CANARY, "created_at": date, "account": {"id": "12", "acct": CANARY},
            "reblogs_count": 1, "favourites_count": 2, "replies_count": 3,
        })
    };
    let problem = serde_json::json!({
        "parameter": "ids", "value": ids[0], "resource_id": ids[0], "title": "Not Found Error", "detail": CANARY,
        "type": "https://api.twitter.com/2/problems/resource-not-found",
    });
    let posts: Vec<Value> = ids.iter().skip(1).map(post).collect();
    let record = serde_json::json!({"text": CANARY, "createdAt": date});
    let view = serde_json::json!({
        "uri": uri, "record": record, "author": {"did": "did:plc:a", "handle": CANARY}, "likeCount": 2,
        "repostCount": 1, "indexedAt": date,
    });
    let accounts = of_accounts(ids, &problem);
    let of_posts = [
        serde_json::json!({"data": posts, "errors": [problem]}),
        Value::from(ids.iter().map(status).collect::<Vec<_>>()),
        status(&ids[0]),
        serde_json::json!({"posts": [view]}),
        serde_json::json!({"data": [CANARY], "errors": [CANARY], "posts": [CANARY], "profiles": [CANARY]}),
    ];
    of_posts.into_iter().chain(accounts).collect()
}

/// The same of accounts; the first is v1.1's.
fn of_accounts(ids: &[&str], problem: &Value) -> Vec<Value> {
    let date = "2026-11-22T12:00:00.000Z";
    let v1 = |id: &&str| {
        serde_json::json!({
            "id_str": id, "screen_name": CANARY, "name": CANARY, "description": CANARY, "url": null, "verified": true,
            "protected": false, "created_at": "Sun Aug 31 00:29:15 +0000 2014", "followers_count": 1,
            "withheld_in_countries": ["DE"], "status": {"created_at": "Sun Aug 31 00:29:15 +0000 2014"},
        })
    };
    let x = |id: &&str| {
        serde_json::json!({
            "id": id, "username": CANARY, "name": CANARY, "created_at": date, "most_recent_tweet_id": "20",
            "public_metrics": {"followers_count": 1, "tweet_count": 2}, "withheld": {"country_codes": ["DE"]},
        })
    };
    let account = |id: &&str| {
        serde_json::json!({
            "id": id, "acct": CANARY, "note": CANARY, "avatar": "/missing.png", "locked": true, "created_at": date,
            "followers_count": -1, "last_status_at": "2026-11-22", "moved": {"id": "9"}, "suspended": false,
        })
    };
    let profile = |id: &&str| {
        serde_json::json!({
            "did": id, "handle": CANARY, "displayName": CANARY, "createdAt": date, "postsCount": 1,
            "verification": {"verifiedStatus": "valid", "trustedVerifierStatus": "none"},
        })
    };
    vec![
        Value::from(ids.iter().map(v1).collect::<Vec<_>>()),
        serde_json::json!({"data": ids.iter().skip(1).map(x).collect::<Vec<_>>(), "errors": [problem]}),
        Value::from(ids.iter().map(account).collect::<Vec<_>>()),
        account(&ids[0]),
        serde_json::json!({"profiles": ids.iter().map(profile).collect::<Vec<_>>()}),
    ]
}

#[test]
fn of_another_providers_answer() {
    let uri = "at://did:plc:z72i7hdynmk6r22z27h6tvur/app.bsky.feed.post/3l6oveex3ii2l";
    let numbers = ["20", "21", "1050118621198921728"];
    let bodies: Vec<_> = of_others(&numbers, uri).iter().map(|body| body.to_string().into_bytes()).collect();
    let ids: Vec<String> = numbers.iter().copied().chain([uri]).map(str::to_owned).collect();
    holds(&bodies, |body, _| properties::other_lookup_answer(body, &ids));
}

#[test]
fn of_lines_to_enqueue() {
    let objects: Vec<String> = ["20", "1050118621198921728"].map(|id| tweet(id).to_string()).into();
    let recorded = recorded().iter().map(Value::to_string).collect::<Vec<_>>().join("\n");
    let bare = "20\n\"21\"\r\n'1050118621198921728'\n\n 22 \n1,46E+18\n-3\n".to_owned();
    let little = format!("{{\"id\":20,\"created_at\":1142974214,\"text\":\"{CANARY}\"}}\n{{\"id\":\"{CANARY}\"}}\n");
    let files: Vec<_> = [objects.join("\n"), recorded, bare, little].map(String::into_bytes).into();
    holds(&files, properties::enqueue_line);
}

#[test]
fn of_lines_of_accounts() {
    let handles =
        "# friends\nusername,since\n12\n@12\n@ann, x\n\"bea\";2\n'cat' # canary\nann@social.example\n@a.b\n".to_owned();
    let addresses = "https://x.com/ann/status/20?s=1\ntwitter.com/#!/ann\ntwitter.com/intent/user?user_id=12\nx.com/i/user/12\n\
                     https://social.example/@ann@other.example\nhttps://bücher.example:80/users/ann%40a\n1,46E+18\n\
                     https://bsky.app/profile/ann.bsky.social/post/3l6oveex3ii2l\nat://did:plc:z72i7hdynmk6r22z27h6tvur/a\n";
    let json = "{\"screen_name\":\n\"canary\"}\n[\"ann\",\n1]\n".to_owned();
    let files: Vec<_> = [handles, addresses.to_owned(), json].map(String::into_bytes).into();
    holds(&files, properties::account_lines);
}

#[test]
fn of_a_configuration() {
    let secrets = format!(
        "[queue.redis]\nurl = \"redis://me:{CANARY}@localhost:6379/1\"\n\
         [store.postgres]\nurl = \"postgres://me:{CANARY}@localhost/tweets?password={CANARY}\"\n\
         [twitter.credentials.main]\nkind = \"both\"\ntoken = \"{CANARY}\"\nconsumer_key_file = \"/run/secrets/key\"\n"
    );
    let files: Vec<_> = [DEFAULT, &secrets].map(|text| text.as_bytes().to_vec()).into();
    holds(&files, |text, _| properties::configuration(&String::from_utf8_lossy(text)));
}
