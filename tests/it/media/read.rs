//! The media of recorded posts: nobody here wrote them.

use serde_json::Value;
use twitter_updater::model::media::{MediaKind, Medium};
use twitter_updater::model::provider::Provider;
use twitter_updater::providers::registry;

use crate::support::http::recordings;

/// All objects below a value that have that field.
fn with_field<'a>(value: &'a Value, field: &str, found: &mut Vec<&'a Value>) {
    match value {
        Value::Object(fields) => {
            if fields.contains_key(field) {
                found.push(value);
            }
            fields.values().for_each(|value| with_field(value, field, found));
        }
        Value::Array(values) => values.iter().for_each(|value| with_field(value, field, found)),
        _ => {}
    }
}

#[test]
fn pictures_of_recorded_posts_are_named() {
    let Some(folder) = recordings() else { return };
    let path =
        "gwu-libraries+sfm-twitter-harvester/extracted-from-tests-warcs/0f81e11d83494d73aef11a7ce0058438_03.json";
    let text = std::fs::read_to_string(folder.join(path)).unwrap();
    let recorded: Value = serde_json::from_str(&text).unwrap();
    let mut posts = Vec::new();
    with_field(&recorded, "extended_entities", &mut posts);
    assert!(!posts.is_empty());
    for post in posts {
        let media = registry::media_reader(&Provider::Twitter)(&post.to_string());
        assert!(!media.is_empty(), "{post}");
        for medium in media {
            assert!(medium.id.chars().all(|digit| digit.is_ascii_digit()), "{medium:?}");
            assert!(medium.url.starts_with("https://pbs.twimg.com/media/") && medium.url.ends_with("?name=orig"));
            assert_eq!(medium.kind, MediaKind::Photo);
        }
    }
}

#[test]
fn pictures_of_recorded_views_are_named_and_videos_are_not() {
    let Some(folder) = recordings() else { return };
    let path = folder.join("medialab+twitwi/test/resources/bluesky-posts.json");
    let text = std::fs::read_to_string(path).unwrap();
    let views: Vec<Value> = serde_json::from_str(&text).unwrap();
    let (mut with_pictures, mut videos) = (0, 0);
    for view in &views {
        let media = registry::media_reader(&Provider::Bluesky)(&view.to_string());
        let embed = view["embed"]["$type"].as_str().unwrap_or_default();
        let beside = view["embed"]["media"]["$type"].as_str().unwrap_or_default();
        let has_pictures = [embed, beside].contains(&"app.bsky.embed.images#view");
        assert_eq!(!media.is_empty(), has_pictures, "{view}");
        with_pictures += usize::from(has_pictures);
        videos += usize::from(embed == "app.bsky.embed.video#view");
        for medium in media {
            assert!(medium.id.starts_with("did:") && medium.id.contains("/baf"), "{medium:?}");
            assert!(medium.url.starts_with("https://cdn.bsky.app/img/feed_fullsize/"), "{medium:?}");
        }
    }
    assert!(with_pictures >= 20 && videos > 0, "{with_pictures} {videos}");
}

/// The posts of recorded answers of a Bluesky AppView.
fn recorded_views() -> Vec<Value> {
    let lines = include_str!("../../fixtures/servers/appview-posts.jsonl").lines();
    let body = |line: &str| {
        let exchange: Value = serde_json::from_str(line).unwrap();
        serde_json::from_str::<Value>(exchange["body"].as_str().unwrap()).unwrap()["posts"][0].clone()
    };
    lines.map(body).collect()
}

#[test]
fn pictures_of_recorded_galleries_are_named() {
    let views = recorded_views();
    let of = |text: &str| {
        let view = views.iter().find(|view| view["record"]["text"] == text).unwrap();
        registry::media_reader(&Provider::Bluesky)(&view.to_string())
    };
    let (alone, beside) = (of("odd gallery"), of("odd gallery-quote"));
    assert_eq!((alone.len(), beside.len()), (2, 1));
    let author = "did:plc:v2qrcpgarzqjojobd5eioo7p";
    for medium in alone.iter().chain(&beside) {
        let (account, hash) = medium.id.split_once('/').unwrap();
        assert_eq!((account, medium.kind), (author, MediaKind::Photo));
        assert!(hash.starts_with("bafkrei") && medium.url.ends_with(&medium.id), "{medium:?}");
    }
}

#[test]
fn pictures_at_an_address_without_an_account_go_by_author_and_original() {
    let Some(folder) = recordings() else { return };
    let text = std::fs::read_to_string(folder.join("medialab+twitwi/test/resources/bluesky-posts.json")).unwrap();
    let recorded: Vec<Value> = serde_json::from_str(&text).unwrap();
    let mut compared = 0;
    for view in recorded.into_iter().chain(recorded_views()) {
        let media = registry::media_reader(&Provider::Bluesky);
        // One recorded author has pictures of another account, which its record does not name.
        let Some(author) = view["author"]["did"].as_str() else { continue };
        let of_author = |of: Medium| format!("{author}/{}", of.id.rsplit_once('/').unwrap().1);
        let known: Vec<String> = media(&view.to_string()).into_iter().map(of_author).collect();
        // As an AppView with a picture server of its own writes them.
        let mut elsewhere = view.clone();
        rename(&mut elsewhere["embed"]);
        let renamed = media(&elsewhere.to_string());
        assert!(renamed.iter().all(|of| of.url.starts_with("https://pictures.example/")), "{renamed:?}");
        let renamed: Vec<String> = renamed.into_iter().map(|of| of.id).collect();
        assert_eq!(renamed, known, "{view}");
        compared += known.len();
    }
    assert!(compared >= 23, "{compared}");
}

/// Gives each picture below a value another address.
fn rename(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            if let Some(address) = fields.get_mut("fullsize") {
                *address = "https://pictures.example/1.jpg".into();
            }
            fields.values_mut().for_each(rename);
        }
        Value::Array(values) => values.iter_mut().for_each(rename),
        _ => {}
    }
}
