//! `export replies`, `export mentions` and `export reposts`: networks of accounts, of the posts of each social network.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use twitter_updater::base::humanize::rfc3339_ms;
use twitter_updater::simulator::mastodon_id;

use super::*;
use crate::support::process::run_with_input;

const NETWORKS: [&str; 4] = ["twitter", "x", "mastodon", "bluesky"];

/// Ann answers Bob twice, and names Cleo beside him; she answers herself; Bob repeats a post of hers.
struct Scene {
    home: Home,
    settings: Variables,
    /// The ids of Ann, Bob and Cleo.
    people: [&'static str; 3],
    /// When the posts were made, the oldest first.
    made: Vec<i64>,
}

fn post(network: &str, people: [&str; 3], at: i64, number: u32) -> Value {
    let [ann, bob, cleo] = people;
    let is_repost = number == 3;
    let (author, handle) = if is_repost { (bob, "bob") } else { (ann, "ann") };
    let answered = [Some(bob), Some(bob), Some(ann), None][number as usize];
    let named: &[(&str, &str)] = match number {
        0 => &[(bob, "bob"), (cleo, "cleo")],
        3 => &[(ann, "ann")],
        _ => &[],
    };
    let text = if is_repost { "RT @ann: a post" } else { "a post &amp; more" };
    let id = TweetId::at(at, number).to_string();
    match network {
        "twitter" => {
            let named: Vec<_> = named.iter().map(|(id, name)| json!({ "id_str": id, "screen_name": name })).collect();
            let mut post = json!({
                "id_str": id, "full_text": text, "user": { "id_str": author, "screen_name": handle },
                "in_reply_to_user_id_str": answered, "entities": { "user_mentions": named },
            });
            if is_repost {
                post["retweeted_status"] =
                    json!({ "id_str": "20", "full_text": "a post", "user": { "id_str": ann, "screen_name": "ann" } });
            }
            post
        }
        "x" => {
            let named: Vec<_> = named.iter().map(|(id, name)| json!({ "id": id, "username": name })).collect();
            let mut post = json!({ "id": id, "text": text, "author_id": author, "entities": { "mentions": named } });
            if let Some(answered) = answered {
                post["in_reply_to_user_id"] = answered.into();
            }
            if is_repost {
                post["referenced_tweets"] = json!([{ "type": "retweeted", "id": "20" }]);
            }
            post
        }
        "mastodon" => {
            let named: Vec<_> = named.iter().map(|(id, name)| json!({ "id": id, "acct": name })).collect();
            json!({
                "id": mastodon_id(at, number as u16), "created_at": rfc3339_ms(at), "content": "<p>a post &amp; more</p>",
                "account": { "id": author, "acct": handle }, "in_reply_to_account_id": answered,
                "mentions": if is_repost { Vec::new() } else { named },
                "reblog": is_repost.then(|| json!({ "id": "20", "account": { "id": ann, "acct": "ann" } })),
            })
        }
        _ => {
            let facets: Vec<_> = named.iter().map(|(did, _)| json!({ "features": [{ "did": did }] })).collect();
            let mut post = json!({
                "uri": format!("at://{author}/app.bsky.feed.post/k{number}"), "indexedAt": rfc3339_ms(at),
                "author": { "did": author, "handle": handle },
                "record": { "text": text, "createdAt": rfc3339_ms(at), "facets": facets },
            });
            if let Some(answered) = answered {
                let uri = json!({ "uri": format!("at://{answered}/app.bsky.feed.post/k") });
                post["record"]["reply"] = json!({ "parent": uri, "root": uri });
            }
            post
        }
    }
}

impl Scene {
    fn new(network: &str) -> Self {
        let home = Home::new();
        let people = match network {
            "bluesky" => ["did:plc:ann", "did:plc:bob", "did:plc:cleo"],
            _ => ["11", "12", "13"],
        };
        let settings = home.settings(&[
            ("providers", if network == "mastodon" { "mastodon:s" } else { network }),
            ("mastodon.instances.s.api", "http://127.0.0.1:9"),
            ("x.api", "http://127.0.0.1:9"),
            ("bluesky.api", "http://127.0.0.1:9"),
        ]);
        let now = wall_ms();
        let made: Vec<i64> = (0..4).map(|number| now - (4 - number) * DAY).collect();
        // The newest first, as a search answers.
        let posts = (0..4).rev().map(|number| post(network, people, made[number as usize], number).to_string());
        let lines = posts.collect::<Vec<_>>().join("\n");
        let output = run_with_input(&["enqueue", "-"], &settings, lines.as_bytes());
        assert!(output.status.success(), "{network}: {}", text(&output.stderr));
        Self { home, settings, people, made }
    }

    fn export(&self, arguments: &[&str]) -> Output {
        run(&[&["export"], arguments].concat(), &self.settings)
    }

    /// The network's file.
    fn file(&self, arguments: &[&str]) -> String {
        let output = self.export(arguments);
        assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
        text(&output.stdout)
    }
}

/// An attribute of a line of markup.
fn attribute<'a>(line: &'a str, name: &str) -> Option<&'a str> {
    line.split_once(&format!(" {name}=\""))?.1.split('"').next()
}

/// The weights of a file's edges, by source and target; each two accounts have one.
fn edges(gexf: &str) -> BTreeMap<(String, String), String> {
    let of = |line: &str, name: &str| attribute(line, name).unwrap().to_owned();
    let lines = gexf.lines().filter(|line| line.starts_with("<edge "));
    let all: Vec<_> = lines.map(|line| ((of(line, "source"), of(line, "target")), of(line, "weight"))).collect();
    let edges: BTreeMap<_, _> = all.iter().cloned().collect();
    assert_eq!(edges.len(), all.len(), "{gexf}");
    edges
}

fn expected(people: [&str; 3], pairs: &[(usize, usize, u32)]) -> BTreeMap<(String, String), String> {
    let edge = |(from, to, weight): &(usize, usize, u32)| {
        ((people[*from].to_owned(), people[*to].to_owned()), weight.to_string())
    };
    pairs.iter().map(edge).collect()
}

#[test]
fn who_answers_names_and_repeats_whom_is_a_network_of_each_social_network() {
    for network in NETWORKS {
        let scene = Scene::new(network);
        let people = scene.people;
        let replies = scene.file(&["replies", "--format", "gexf"]);
        assert_eq!(edges(&replies), expected(people, &[(0, 1, 2), (0, 0, 1)]), "{network}: {replies}");
        let to_bob = replies.lines().find(|line| attribute(line, "target") == Some(people[1])).unwrap();
        for (name, at) in [("first_at", scene.made[0]), ("last_at", scene.made[1])] {
            let moment = format!("for=\"{name}\" value=\"{}\"", rfc3339_ms(at).unwrap());
            assert!(to_bob.contains(&moment), "{network}: {moment}: {to_bob}");
        }
        let mentions = edges(&scene.file(&["mentions", "--format", "gexf"]));
        // Reposts mention no account. On Bluesky the last one is a post that names Ann.
        let by_text: &[_] = if network == "bluesky" { &[(1, 0, 1)] } else { &[] };
        assert_eq!(mentions, expected(people, &[&[(0, 1, 2), (0, 2, 1)], by_text].concat()), "{network}");
        if network == "bluesky" {
            let refused = scene.export(&["reposts", "--format", "gexf"]);
            says_one_line(&refused, 64, "reposts on Bluesky are not posts");
        } else {
            let reposts = scene.file(&["reposts", "--format", "gexf"]);
            assert_eq!(edges(&reposts), expected(people, &[(1, 0, 1)]), "{network}: {reposts}");
            let bob = if network == "x" { people[1] } else { "bob" };
            // X's posts do not state the handles of their authors.
            let labels: Vec<_> = reposts.lines().filter_map(|line| attribute(line, "label")).collect();
            assert!(labels.contains(&bob), "{network}: {labels:?}");
        }
    }
}

#[test]
fn posts_of_a_network_are_chosen_by_their_dates_and_the_file_may_be_graphml() {
    let scene = Scene::new("twitter");
    let since = rfc3339_ms(scene.made[1]).unwrap();
    let file = scene.home.path("replies.graphml");
    let output = scene.export(&["replies", "--since", &since, "--to", file.to_str().unwrap()]);
    assert!(text(&output.stderr).contains("2 accounts, 2 edges"), "{}", text(&output.stderr));
    let graphml = std::fs::read_to_string(&file).unwrap();
    let [ann, bob, _] = scene.people;
    assert!(graphml.contains(&format!("source=\"{ann}\" target=\"{bob}\"><data key=\"weight\">1</data>")), "{graphml}");
    assert!(
        graphml.contains("<graph id=\"replies\"") && graphml.contains("<data key=\"label\">ann</data>"),
        "{graphml}"
    );
}

#[test]
fn a_network_that_cannot_be_is_refused_in_one_line() {
    let scene = Scene::new("twitter");
    for (arguments, says) in [
        (&["replies"][..], "name a file that ends in .gexf or .graphml"),
        (&["mentions", "--to", "mentions.csv"], "name a file that ends in .gexf or .graphml"),
        (&["replies", "--format", "gexf", "--at", "1d"], "--at, --among and --ego are for follows"),
        (&["replies", "--format", "gexf", "--bom"], "are for CSV"),
        (&["posts", "--to", "posts.gexf"], "gexf and graphml are for edges"),
    ] {
        says_one_line(&scene.export(arguments), 64, says);
    }
}

#[test]
fn who_is_forgotten_is_in_no_network() {
    let scene = Scene::new("twitter");
    let [ann, bob, cleo] = scene.people;
    let forget = run(&["forget", "account", bob, "--yes"], &scene.settings);
    assert!(forget.status.success(), "{}", text(&forget.stderr));
    for network in ["replies", "mentions", "reposts"] {
        let file = scene.file(&[network, "--format", "gexf"]);
        assert!(!file.contains(&format!("\"{bob}\"")) && !file.contains("bob"), "{network}: {file}");
    }
    assert!(edges(&scene.file(&["mentions", "--format", "gexf"])).contains_key(&(ann.to_owned(), cleo.to_owned())));
}

#[test]
fn plain_text_is_what_a_reader_sees_and_the_answered_account_a_column() {
    for network in NETWORKS {
        let scene = Scene::new(network);
        let rows = scene.file(&["posts", "--format", "ndjson"]);
        let rows: Vec<Value> = rows.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let answers = rows.iter().find(|row| row["reply_to_author"] == scene.people[1]).unwrap();
        // Bluesky writes no entities: what looks like one is text.
        let (written, plain) = match network {
            "mastodon" => ("<p>a post &amp; more</p>", "a post & more"),
            "bluesky" => ("a post &amp; more", "a post &amp; more"),
            _ => ("a post &amp; more", "a post & more"),
        };
        assert_eq!((&answers["text"], &answers["plain_text"]), (&written.into(), &plain.into()), "{network}");
        let answered = rows.iter().filter(|row| row["reply_to_author"].is_string()).count();
        assert_eq!((rows.len(), answered), (4, 3), "{network}");
    }
}
