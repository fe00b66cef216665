//! Body of a page: an author feed's items, or a search's posts.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::Kind;
use super::order::{Item, LAYOUT, feed_positions};
use crate::model::post::{SECONDS_BELOW, Tweet};
use crate::providers::bluesky::{date_of, indexed_at, parse_date, read_post, sort_time};
use crate::providers::lookup::LookupError;
use crate::providers::timeline::Post;
use crate::providers::unreadable::UnreadableObject;
use engine::base::clock::Millis;
use engine::base::id::check_id;

#[derive(Debug)]
pub struct ParsedPage {
    /// Posts with their feed positions as ids.
    pub posts: Vec<Post>,
    pub broken: usize,
    pub misdated: usize,
    pub cursor: Option<String>,
}

#[derive(Deserialize)]
struct Body<'a> {
    #[serde(borrow)]
    feed: Option<Vec<&'a RawValue>>,
    #[serde(borrow)]
    posts: Option<Vec<&'a RawValue>>,
    cursor: Option<String>,
}

#[derive(Deserialize)]
struct FeedItem<'a> {
    #[serde(borrow)]
    post: Option<&'a RawValue>,
    /// Reason to show a post that is not the author's own, or not at its own position.
    #[serde(borrow)]
    reason: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Reason {
    #[serde(rename = "$type")]
    kind: Option<String>,
}

struct ListedPost<'a> {
    raw: &'a str,
    uri: String,
    tweet: Result<Tweet, UnreadableObject>,
    /// Sort time; `None` if it is unknown, or the post stands out of order.
    at: Option<Millis>,
    is_pinned: bool,
    /// Name that distinguishes items of one millisecond: a post and a repost of it are two items.
    name: String,
}

fn bad_answer(why: &str) -> LookupError {
    LookupError::BadAnswer(why.to_owned())
}

/// Time in an author feed's cursor, ms since the Unix epoch; `None` for another form.
pub fn cursor_time(cursor: &str) -> Option<Millis> {
    let keyset = || cursor.split_once("__")?.0.parse().ok();
    parse_date(cursor).or_else(keyset)
}

/// Reads a page. `below`: feed position below which it was requested; `None` for the newest page.
///
/// # Errors
/// [`LookupError::BadAnswer`] for a body of another shape, and for a post without a uri: skipping the post would lose it.
pub fn read(kind: &Kind, body: &[u8], below: Option<u64>) -> Result<ParsedPage, LookupError> {
    let body = String::from_utf8_lossy(body);
    let Body { feed, posts, cursor } = serde_json::from_str(&body).map_err(|_| bad_answer("it is no page of posts"))?;
    let cursor = cursor.filter(|cursor| !cursor.is_empty());
    let (listed, floor): (Result<Vec<ListedPost<'_>>, LookupError>, _) = match kind {
        Kind::Author { .. } => {
            let feed = feed.ok_or_else(|| bad_answer("a page of an author feed without its feed"))?;
            (feed.into_iter().map(ListedPost::from_feed).collect(), cursor.as_deref().and_then(cursor_time))
        }
        Kind::Search { .. } => {
            let posts = posts.ok_or_else(|| bad_answer("a page of a search without its posts"))?;
            (posts.into_iter().map(|raw| ListedPost::from_post(raw.get())).collect(), None)
        }
    };
    let mut listed = listed?;
    let feed_positions = match assign_feed_positions(&listed, floor, below, cursor.is_some()) {
        Some(feed_positions) => feed_positions,
        // Only a pinned post, and more pages: it comes again at its own position.
        None if listed.iter().all(|one| one.is_pinned) => {
            listed.clear();
            Vec::new()
        }
        None => return Err(bad_answer("no post in it has a date")),
    };
    let misdated = listed.iter().filter(|one| sort_time(one.raw).is_some_and(|at| at < SECONDS_BELOW)).count();
    let mut broken = 0;
    let posts = listed.into_iter().zip(feed_positions).filter_map(|(one, id)| {
        let tweet = one.into_dated_tweet(id, &mut broken);
        // The longest record keys make ids that no queue accepts: one of them must not block all others.
        let is_fit = check_id(&tweet.id).map_err(|why| {
            tracing::warn!(why, "the queue accepts no id like that of a post; the poller skips the post")
        });
        is_fit.is_ok().then_some(Post { id, tweet })
    });
    Ok(ParsedPage { posts: posts.collect(), broken, misdated, cursor })
}

/// Feed positions of a page's posts; `None` if no date is readable.
fn assign_feed_positions(
    listed: &[ListedPost<'_>],
    floor: Option<Millis>,
    below: Option<u64>,
    goes_on: bool,
) -> Option<Vec<u64>> {
    if listed.is_empty() {
        return Some(Vec::new());
    }
    let by = |at: &dyn Fn(&ListedPost<'_>) -> Option<Millis>| {
        let items: Vec<Item<'_>> = listed.iter().map(|one| Item { at: at(one), name: &one.name }).collect();
        feed_positions(&items, floor, below)
    };
    // No post is later than its indexing. A pinned post may be old, and must not end a walk that goes on.
    by(&|one| one.at).or_else(|| by(&|one| indexed_at(one.raw).filter(|_| !(one.is_pinned && goes_on))))
}

impl<'a> ListedPost<'a> {
    fn from_feed(raw: &'a RawValue) -> Result<Self, LookupError> {
        let item: Option<FeedItem<'a>> = serde_json::from_str(raw.get()).ok();
        let FeedItem { post, reason } = item.ok_or_else(|| bad_answer("an item in it is not an object"))?;
        let listed = Self::from_post(post.ok_or_else(|| bad_answer("an item in it has no post"))?.get())?;
        let Some(reason) = reason.filter(|reason| reason.get() != "null") else { return Ok(listed) };
        let kind = serde_json::from_str(reason.get()).ok().and_then(|reason: Reason| reason.kind).unwrap_or_default();
        let is_repost = kind.ends_with("#reasonRepost");
        Ok(Self {
            at: sort_time(reason.get()).filter(|_| is_repost),
            is_pinned: kind.ends_with("#reasonPin"),
            name: format!("{} {kind}", listed.name),
            ..listed
        })
    }

    fn from_post(raw: &'a str) -> Result<Self, LookupError> {
        let (uri, tweet) = read_post(raw);
        let uri =
            uri.filter(|uri| date_of(uri).is_ok()).ok_or_else(|| bad_answer("a post in it has no post's at-uri"))?;
        Ok(Self { raw, at: sort_time(raw), is_pinned: false, name: uri.clone(), tweet, uri })
    }

    /// Post with a date that allows scheduling: the dates of its client and of its key may be nonsense.
    fn into_dated_tweet(self, feed_position: u64, broken: &mut usize) -> Tweet {
        let tweet = self.tweet.unwrap_or_else(|why| {
            tracing::warn!(why = why.to_string(), "a post is unreadable; the poller schedules it by its id");
            *broken += 1;
            Tweet { id: self.uri, ..Tweet::default() }
        });
        let can_be = |at: &Millis| *at >= SECONDS_BELOW;
        let latest = indexed_at(self.raw).filter(can_be).or(Some(LAYOUT.made_at(feed_position)).filter(can_be));
        let made = tweet.created_at.filter(can_be);
        Tweet { created_at: made.map(|made| made.min(latest.unwrap_or(made))).or(latest), ..tweet }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::providers::bluesky::timeline::feed_position;

    const T: Millis = 1_795_000_000_000;

    fn iso(at: Millis) -> String {
        super::super::iso(at)
    }

    fn uri(key: &str) -> String {
        format!("at://did:plc:z72i7hdynmk6r22z27h6tvur/app.bsky.feed.post/{key}")
    }

    fn view(key: &str, made: Millis) -> Value {
        json!({"uri": uri(key), "record": {"text": "a", "createdAt": iso(made)}, "indexedAt": iso(made + 900)})
    }

    fn author(body: &Value) -> Result<ParsedPage, LookupError> {
        read(&Kind::Author { actor: "a.example.org".to_owned() }, body.to_string().as_bytes(), None)
    }

    fn search(body: &Value) -> Result<ParsedPage, LookupError> {
        read(&Kind::Search { query: "rust".to_owned() }, body.to_string().as_bytes(), None)
    }

    fn times(read: &ParsedPage) -> Vec<Millis> {
        read.posts.iter().map(|post| LAYOUT.made_at(post.id) - T).collect()
    }

    #[test]
    fn a_post_stands_where_it_is_sorted_and_a_repost_where_it_was_reposted() {
        let repost = json!({"$type": "app.bsky.feed.defs#reasonRepost", "by": {}, "indexedAt": iso(T + 80)});
        let pin = json!({"$type": "app.bsky.feed.defs#reasonPin"});
        let ahead =
            json!({"uri": uri("d"), "record": {"text": "a", "createdAt": iso(T + 9_000)}, "indexedAt": iso(T + 60)});
        let feed = json!([
            {"post": view("a", T - 50_000), "reason": pin},
            {"post": view("b", T + 90), "reply": {"parent": {"uri": uri("x"), "blocked": true}}},
            {"post": view("c", T - 900_000), "reason": repost},
            {"post": ahead, "reason": null},
            {"post": view("c", T + 7)},
        ]);
        let page = author(&json!({"feed": feed, "cursor": iso(T + 7)})).unwrap();
        assert_eq!(times(&page), [90, 90, 80, 60, 7]);
        assert_eq!((page.broken, page.cursor), (0, Some(iso(T + 7))));
        assert_eq!(page.posts[4].id, feed_position(T + 7, &uri("c")));
        assert_eq!(page.posts[2].tweet.id, page.posts[4].tweet.id, "what is handed over is the post");
        assert_eq!(page.posts[2].tweet.created_at, Some(T - 900_000), "by its own date");
        assert_eq!(page.posts[3].tweet.created_at, Some(T + 60));
        assert_eq!(page.posts[0].tweet.created_at, Some(T - 50_000));
    }

    #[test]
    fn what_cannot_be_read_is_known_by_its_uri_and_stands_between_its_neighbours() {
        let odd = [
            json!({"uri": uri("3jjjjjjjjjjj2"), "record": {"text": "a", "createdAt": "soon"}, "indexedAt": iso(T + 99)}),
            json!({"uri": uri("b"), "record": null, "indexedAt": "soon"}),
            json!({"uri": uri("c"), "notFound": true, "$type": "app.bsky.feed.defs#notFoundPost"}),
            json!({"uri": uri("d"), "blocked": true, "author": {"did": "did:plc:a"}}),
            // Readable dates that allow no scheduling.
            json!({"uri": uri("e"), "record": {"text": "a", "createdAt": "0000-01-01T00:00:00Z"}, "indexedAt": iso(T)}),
            json!({"uri": uri("jzzzzzzzzzzzz"), "record": {"text": "a", "createdAt": "1970-01-01T00:00:00Z"}}),
        ];
        for one in odd {
            let page = search(&json!({"posts": [view("y", T + 50), one, view("z", T + 20)]})).unwrap();
            assert_eq!(page.posts[1].tweet.id, one["uri"].as_str().unwrap());
            assert_eq!(times(&page), [50, 20, 20], "{one}");
            let made = page.posts[1].tweet.created_at.unwrap();
            assert!((SECONDS_BELOW..=T + 99).contains(&made), "{one}: {made}");
            let feed = author(&json!({"feed": [{"post": view("y", T + 50)}, {"post": one}], "cursor": iso(T + 10)}));
            let feed = feed.unwrap();
            assert!(times(&feed)[1] >= 10, "{one}: no lower than the page's end");
            assert_eq!(feed.broken, page.broken);
        }
        let only = search(&json!({"posts": [{"uri": uri("a"), "record": {"createdAt": 7}, "indexedAt": iso(T + 5)}]}));
        assert_eq!((times(only.as_ref().unwrap()), only.unwrap().broken), (vec![5], 1));
        let long = view(&"k".repeat(500), T + 30);
        assert_eq!(times(&search(&json!({"posts": [view("y", T + 50), long]})).unwrap()), [50], "no queue takes it");
    }

    #[test]
    fn a_page_is_whole_or_it_is_none() {
        let empty = author(&json!({"feed": []})).unwrap();
        assert!(empty.posts.is_empty() && empty.cursor.is_none());
        let filtered = search(&json!({"posts": [], "cursor": "100"})).unwrap();
        assert_eq!((filtered.posts.len(), filtered.cursor.as_deref()), (0, Some("100")));
        let no_uri = json!({"record": {"text": "a"}, "indexedAt": iso(T)});
        let foreign = json!({"uri": "at://did:plc:a/app.bsky.feed.generator/b", "indexedAt": iso(T)});
        for bad in [json!({}), json!([]), json!(null), json!({"feed": null}), json!({"posts": 1}), json!("")] {
            assert!(matches!(author(&bad), Err(LookupError::BadAnswer(_))), "{bad}");
            assert!(matches!(search(&bad), Err(LookupError::BadAnswer(_))), "{bad}");
        }
        for bad in [json!(null), json!({}), json!(7), no_uri, foreign, json!({"uri": null}), json!({"uri": uri("a")})] {
            assert!(matches!(search(&json!({"posts": [bad]})), Err(LookupError::BadAnswer(_))), "{bad}");
            assert!(matches!(author(&json!({"feed": [{"post": bad}]})), Err(LookupError::BadAnswer(_))), "{bad}");
            assert!(matches!(author(&json!({"feed": [bad]})), Err(LookupError::BadAnswer(_))), "{bad}");
        }
        assert!(matches!(author(&json!({"posts": []})), Err(LookupError::BadAnswer(_))), "a search's answer");
        assert!(matches!(search(&json!({"feed": []})), Err(LookupError::BadAnswer(_))), "an author feed's answer");
    }

    #[test]
    fn a_page_with_a_pinned_post_alone_ends_no_walk() {
        let pinned = json!({"post": view("a", T + 5), "reason": {"$type": "app.bsky.feed.defs#reasonPin"}});
        let of = |cursor: Value| times(&author(&json!({"feed": [pinned], "cursor": cursor})).unwrap());
        assert_eq!(of(json!(null)), [905], "the only one there is");
        assert_eq!(of(json!(iso(T + 80))), [80]);
        assert_eq!(of(json!(format!("{}__bafy", T + 80))), [80]);
        assert!(of(json!("opaque")).is_empty());
    }

    #[test]
    fn a_cursor_may_tell_a_time() {
        assert_eq!(cursor_time("2024-06-28T02:59:07.446Z"), Some(1_719_543_547_446));
        assert_eq!(cursor_time("1719543547446__bafyreia"), Some(1_719_543_547_446));
        for other in ["", "100", "opaque", "1719543547446::bafyreia", "__"] {
            assert_eq!(cursor_time(other), None, "{other}");
        }
    }
}
