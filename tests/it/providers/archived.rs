//! Objects of v1.1 as archived streams and older archives have them.

use serde_json::{Value, json};
use twitter_updater::model::account::{Person, Role};
use twitter_updater::model::media::MediaKind;
use twitter_updater::model::post::Tweet;
use twitter_updater::model::provider::Provider;
use twitter_updater::providers::registry;
use twitter_updater::providers::twitter_v1::{parse_ingested, parse_tweet};

/// A number that no double holds.
const EXACT: u64 = 1_460_323_737_035_677_699;

fn user(id: u64, name: &str) -> Value {
    json!({ "id": id, "id_str": id.to_string(), "screen_name": name })
}

fn photo(id: u64) -> Value {
    let url = format!("https://pbs.twimg.com/media/{id}.jpg");
    json!({ "id": id, "id_str": id.to_string(), "type": "photo", "media_url_https": url })
}

/// A video: in `entities` as its thumbnail.
fn video(id: u64) -> Value {
    let mut video = photo(id);
    video["type"] = "video".into();
    video["video_info"] =
        json!({ "variants": [{ "content_type": "video/mp4", "bitrate": 8, "url": "https://v.example/8.mp4" }] });
    video
}

/// A post of a stream: its text is cut short, and the whole beside it.
fn cut() -> Value {
    json!({
        "id": 40, "id_str": "40", "created_at": "Wed Nov 15 19:08:05 +0000 2017", "truncated": true,
        "text": "@ann what a long text, which goes on\u{2026} https://t.co/x",
        "user": user(2, "bob"),
        "entities": { "user_mentions": [user(1, "ann")], "media": [photo(50)] },
        "extended_tweet": {
            "full_text": "@ann what a long text, which goes on until it ends at @cid and @dan",
            "entities": { "user_mentions": [user(1, "ann"), user(3, "cid"), user(4, "dan")], "media": [photo(50)] },
            "extended_entities": { "media": [video(50), photo(51)] },
        },
    })
}

/// A retweet of it, cut to the length of its own.
fn retweet() -> Value {
    json!({
        "id": 60, "id_str": "60", "created_at": "Wed Nov 15 20:00:00 +0000 2017", "truncated": false,
        "text": "RT @Bob: @ann what a long text, which goes\u{2026}",
        "user": user(9, "eve"),
        "entities": { "user_mentions": [user(2, "bob"), user(1, "ann")] },
        "retweeted_status": cut(),
    })
}

fn people(post: &Value) -> Vec<(String, Role)> {
    let people = registry::people(&Provider::Twitter)(&post.to_string());
    people.into_iter().map(|Person { id, role, .. }| (id, role)).collect()
}

fn with(ids: &[(u64, Role)]) -> Vec<(String, Role)> {
    ids.iter().map(|(id, role)| (id.to_string(), *role)).collect()
}

fn media(post: &Value) -> Vec<(String, MediaKind)> {
    registry::media_reader(&Provider::Twitter)(&post.to_string()).into_iter().map(|of| (of.id, of.kind)).collect()
}

fn read(post: &Value) -> Tweet {
    parse_tweet(&post.to_string()).unwrap()
}

#[test]
fn a_post_that_is_cut_short_is_read_whole() {
    let whole = "@ann what a long text, which goes on until it ends at @cid and @dan";
    let tweet = read(&cut());
    assert_eq!((tweet.text.as_deref(), tweet.details.truncated), (Some(whole), Some(false)));
    use Role::{Author, Mentioned, Reposted};
    assert_eq!(people(&cut()), with(&[(2, Author), (1, Mentioned), (3, Mentioned), (4, Mentioned)]));
    let shown = vec![("50".to_owned(), MediaKind::Video), ("51".to_owned(), MediaKind::Photo)];
    assert_eq!(media(&cut()), shown);
    // The same in a retweet.
    let tweet = read(&retweet());
    assert_eq!(tweet.text, Some(format!("RT @bob: {whole}")));
    let all = [(9, Author), (2, Reposted), (2, Mentioned), (1, Mentioned), (3, Mentioned), (4, Mentioned)];
    assert_eq!(people(&retweet()), with(&all));
    assert_eq!(media(&retweet()), shown);
    // Without the rest it stays cut, and is complete as far as it goes.
    let mut alone = cut();
    alone.as_object_mut().unwrap().remove("extended_tweet");
    assert_eq!(read(&alone).details.truncated, Some(true));
    assert_eq!(
        (people(&alone), media(&alone)),
        (with(&[(2, Author), (1, Mentioned)]), vec![("50".to_owned(), MediaKind::Photo)])
    );
}

#[test]
fn a_retweet_whose_original_has_no_author_is_read_by_its_own_text() {
    let whole = "@ann what a long text, which goes on until it ends at @cid and @dan";
    for user in [Value::Null, json!({ "id": 2 }), json!({})] {
        let mut post = retweet();
        post["retweeted_status"]["user"] = user.clone();
        let tweet = read(&post);
        assert_eq!(tweet.text, Some(format!("RT @Bob: {whole}")), "{user}");
        assert_eq!((tweet.author_id.as_deref(), tweet.details.retweet_of.as_deref()), (Some("9"), Some("40")));
        let people = people(&post);
        assert!(people.contains(&("2".to_owned(), Role::Reposted)), "{user}: {people:?}");
    }
    let mut post = retweet();
    post["retweeted_status"].as_object_mut().unwrap().remove("user");
    assert_eq!(read(&post).text, Some(format!("RT @Bob: {whole}")));
    // A text that is no retweet's names no author: it stays as it is.
    post["text"] = "no retweet".into();
    assert_eq!(read(&post).text.as_deref(), Some("no retweet"));
    assert!(people(&post).iter().all(|(_, role)| *role != Role::Reposted));
}

#[test]
fn ids_without_their_text_are_read_as_numbers() {
    for name in ["in_reply_to_status_id", "quoted_status_id"] {
        let of = |post: &Value| {
            let details = read(post).details;
            if name == "quoted_status_id" { details.quote_of } else { details.reply_to }
        };
        let mut post = cut();
        post[name] = EXACT.into();
        assert_eq!(of(&post), Some(EXACT.to_string()), "exact above 2^53");
        post[format!("{name}_str")] = Value::Null;
        assert_eq!(of(&post), Some(EXACT.to_string()));
        // A text is right where a number went through a double.
        post[format!("{name}_str")] = (EXACT + 1).to_string().into();
        assert_eq!(of(&post), Some((EXACT + 1).to_string()));
        for odd in [Value::Null, json!(1.4e18), json!(-1), json!({})] {
            let mut post = cut();
            post[name] = odd.clone();
            assert_eq!(of(&post), None, "{odd}");
        }
    }
    // All ids of a post: its own, its author's, those of a retweet, of the accounts and the media in it.
    let strip = |post: &Value| {
        let mut post = post.clone();
        without_texts(&mut post, EXACT - 100);
        post
    };
    let post = strip(&retweet());
    let id = |id: u64| (EXACT - 100 + id).to_string();
    let tweet = parse_ingested(&post.to_string()).unwrap();
    assert_eq!((tweet.id, tweet.author_id, tweet.details.retweet_of), (id(60), Some(id(9)), Some(id(40))));
    let known = people(&retweet()).into_iter().map(|(of, role)| (id(of.parse().unwrap()), role));
    assert_eq!(people(&post), known.collect::<Vec<_>>());
    let known = media(&retweet()).into_iter().map(|(of, kind)| (id(of.parse().unwrap()), kind));
    assert_eq!(media(&post), known.collect::<Vec<_>>());
}

/// Takes out each `id_str` below a value, and adds that to each `id`.
fn without_texts(value: &mut Value, more: u64) {
    match value {
        Value::Object(fields) => {
            if fields.remove("id_str").is_some() {
                let id = fields["id"].as_u64().unwrap() + more;
                fields.insert("id".to_owned(), id.into());
            }
            fields.values_mut().for_each(|value| without_texts(value, more));
        }
        Value::Array(values) => values.iter_mut().for_each(|value| without_texts(value, more)),
        _ => {}
    }
}
