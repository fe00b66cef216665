//! A server of one author feed, which pages as the reference does, or otherwise.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, UNIX_EPOCH};

use reqwest::Url;
use serde_json::{Value, json};
use twitter_updater::base::clock::Millis;

use crate::support::http::{Asked, Canned};

/// What a feed's server does.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Cursors {
    /// `2024-06-28T02:59:07.446Z`: what is older.
    Times,
    /// `1719543547446__key`, as the reference has it; others are refused.
    Keysets,
    /// A number in the list, and nothing else.
    Opaque,
}

/// An item as the server sorts it.
type Key = (Millis, String);

/// A feed of that server, which refuses one cursor in so many.
#[derive(Clone)]
pub struct Feed {
    items: Arc<Mutex<BTreeMap<Key, Value>>>,
    cursors: Cursors,
    refuses: usize,
    asked: Arc<Mutex<usize>>,
}

pub fn iso(at: Millis) -> String {
    humantime::format_rfc3339_millis(UNIX_EPOCH + Duration::from_millis(at.unsigned_abs())).to_string()
}

fn at_uri(key: &str) -> String {
    format!("at://did:plc:z72i7hdynmk6r22z27h6tvur/app.bsky.feed.post/{key}")
}

pub fn view(key: &str, made: Millis, indexed: Millis) -> Value {
    json!({"uri": at_uri(key), "record": {"text": key, "createdAt": iso(made)}, "indexedAt": iso(indexed)})
}

pub fn refused(why: &str) -> Canned {
    Canned::new(400, json!({"error": "InvalidRequest", "message": why}).to_string())
}

impl Feed {
    pub fn new(cursors: Cursors, refuses: usize) -> Self {
        Self { items: Arc::default(), cursors, refuses, asked: Arc::default() }
    }

    pub fn put(&self, sorted: Millis, key: &str, item: Value) {
        self.items.lock().unwrap().insert((sorted, key.to_owned()), item);
    }

    /// Posts as accounts make them, `from` ms and on, three of one millisecond: reposts of old posts, records whose date
    /// is ahead or none, and posts that the server does not show. Answers the uris of those that it shows.
    pub fn fill(&self, from: Millis, count: i64) -> Vec<String> {
        let mut shown = Vec::new();
        for n in 0..count {
            let (at, key) = (from + n / 3 * 1_000, format!("key{from}n{n}"));
            let item = match n % 10 {
                3 => {
                    let reason = json!({"$type": "app.bsky.feed.defs#reasonRepost", "indexedAt": iso(at)});
                    json!({"post": view(&key, from - 90_000_000, from - 80_000_000), "reason": reason})
                }
                // Dated ahead: it counts as of when it was seen.
                5 => json!({"post": view(&key, at + 900_000, at)}),
                7 => Value::Null,
                8 => {
                    json!({"post": {"uri": at_uri(&key), "record": {"createdAt": "soon"}, "indexedAt": iso(at + 700)}})
                }
                _ => json!({"post": view(&key, at, at + 1_500)}),
            };
            if item != Value::Null {
                shown.push(at_uri(&key));
            }
            self.put(at, &key, item);
        }
        shown
    }

    pub fn answer(&self, asked: &Asked) -> Canned {
        let target = Url::parse(&format!("http://a{}", asked.target)).unwrap();
        let cursor = target.query_pairs().find(|(name, _)| name == "cursor").map(|(_, value)| value.into_owned());
        let items = self.items.lock().unwrap();
        let all: Vec<(&Key, &Value)> = items.iter().rev().collect();
        let mut first = 0;
        if let Some(cursor) = &cursor {
            let mut count = self.asked.lock().unwrap();
            *count += 1;
            if self.refuses > 0 && count.is_multiple_of(self.refuses) {
                return refused("Malformed cursor");
            }
            let below: Option<Key> = match self.cursors {
                Cursors::Times if cursor.contains("__") => None,
                Cursors::Times => humantime::parse_rfc3339(cursor)
                    .ok()
                    .map(|at| (at.duration_since(UNIX_EPOCH).unwrap().as_millis() as Millis, String::new())),
                Cursors::Keysets => {
                    cursor.split_once("__").and_then(|(at, key)| Some((at.parse().ok()?, key.to_owned())))
                }
                Cursors::Opaque => {
                    cursor.strip_prefix('p').and_then(|n| n.parse().ok()).map(|n: usize| all[n].0.clone())
                }
            };
            let Some(below) = below else { return refused("Malformed cursor") };
            first = all.partition_point(|(key, _)| **key >= below);
        }
        let end = (first + 100).min(all.len());
        let page = &all[first..end];
        let feed: Vec<&Value> = page.iter().map(|(_, item)| *item).filter(|item| !item.is_null()).collect();
        let cursor = page.last().map(|((at, key), _)| match self.cursors {
            Cursors::Times => iso(*at),
            Cursors::Keysets => format!("{at}__{key}"),
            Cursors::Opaque => format!("p{}", end - 1),
        });
        Canned::new(200, json!({"feed": feed, "cursor": cursor}).to_string())
    }
}
