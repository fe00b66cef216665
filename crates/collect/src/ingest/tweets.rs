//! Posts of a file or a body, one by one: ids, objects, and the posts of a page.

use std::io;

use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::io::AsyncBufRead;

use super::elements::elements;
use super::invalid_entry::InvalidEntry;
use super::lines::{CR_ALONE, LineReader};
use super::table::{Row, SEPARATORS, Table, unquoted};
use networks::model::post::{BadId, Ingested, TweetId};
use networks::providers::named::{is_digits, strip_id_mark};
use networks::providers::registry::Parse;
use networks::providers::x_v2::media::IncludedMedia;

const HEADER_LINE: &str = "the line names the columns";

const CUT_OFF: &str = "the last line has no line end, and its id has fewer digits than all ids before it: the input was probably cut off; \
     send the whole input, or add a line end if the id is complete";

const AN_ACCOUNT: &str = "an account and no post; `enqueue --accounts` takes ids, handles and addresses of accounts";

/// Maximum number of posts in an object's `data`. X's responses have up to 500; their results are held at once.
const MOST_POSTS: usize = 5_000;

#[derive(Debug, PartialEq)]
pub struct Item {
    /// Line where the post begins, from 1.
    pub line: u64,
    /// Approximate length in bytes.
    pub bytes: usize,
    /// A bare id is not validated here.
    pub tweet: Result<Ingested, InvalidEntry>,
    pub hint: Option<&'static str>,
}

/// Reads posts: a bare or quoted id or a JSON object per line, JSON over many lines, lists, X's responses and stream
/// lines with posts in `data`. Also reads the ids of a table with several columns, if its first line names them. Skips
/// blank lines and comments (`#`).
#[derive(Debug)]
pub struct PostReader<R> {
    lines: LineReader<R>,
    parse: Parse,
    page: std::vec::IntoIter<Item>,
    is_started: bool,
    table: Option<Table>,
    lengths: IdLengths,
}

#[derive(Debug, Default)]
struct IdLengths {
    ids: u64,
    shortest: usize,
}

impl IdLengths {
    /// Minimum number of ids from which to judge the length of the next one.
    const FEWEST: u64 = 20;

    /// Returns the id, unless its line has no end and the id lost digits: a compressed file or a transfer was cut off.
    pub fn check(&mut self, id: &str, lacks_line_end: bool) -> Result<String, InvalidEntry> {
        if is_digits(id) {
            if lacks_line_end && self.ids >= Self::FEWEST && id.len() < self.shortest {
                return Err(InvalidEntry::Unreadable(CUT_OFF));
            }
            self.shortest = if self.ids == 0 { id.len() } else { self.shortest.min(id.len()) };
            self.ids += 1;
        }
        Ok(id.to_owned())
    }
}

impl<R: AsyncBufRead + Unpin> PostReader<R> {
    pub fn new(source: R, parse: Parse) -> Self {
        Self {
            lines: LineReader::new(source),
            parse,
            page: Vec::new().into_iter(),
            is_started: false,
            table: None,
            lengths: IdLengths::default(),
        }
    }

    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.lines.bytes()
    }

    /// Number of the last line whose posts were all returned, from 1; 0 before the first.
    #[must_use]
    pub fn done_line(&self) -> u64 {
        match self.page.as_slice().first() {
            Some(item) => item.line.saturating_sub(1),
            None => {
                let start_line = self.table.as_ref().and_then(Table::unfinished);
                start_line.map_or(self.lines.number(), |start_line| start_line.saturating_sub(1))
            }
        }
    }

    /// Returns the next post. Cancel-safe.
    pub async fn next(&mut self) -> io::Result<Option<Item>> {
        loop {
            if let Some(item) = self.page.next() {
                return Ok(Some(item));
            }
            let Some(line) = self.lines.next().await? else { return Ok(self.take_unclosed_row()) };
            let (number, lacks_line_end) = (line.number, line.lacks_line_end);
            let refused = |why| Item { line: number, bytes: 0, tweet: Err(why), hint: None };
            if let Some(table) = &mut self.table {
                let bytes = line.bytes.len();
                match line.text {
                    Err(why) if bytes == 0 => {
                        table.discard_row();
                        return Ok(Some(refused(InvalidEntry::Unreadable(why))));
                    }
                    Ok(text) if table.unfinished().is_none() && text.starts_with('#') => continue,
                    _ => {}
                }
                let Some(row) = table.add(number, line.bytes) else { continue };
                let id = row.id.and_then(|id| self.lengths.check(strip_id_mark(&id), lacks_line_end));
                return Ok(Some(Item { line: row.line, bytes, tweet: id.map(Ingested::bare), hint: None }));
            }
            let text = match line.text {
                Ok(text) => text,
                Err(why) => return Ok(Some(refused(InvalidEntry::Unreadable(why)))),
            };
            if text.starts_with('#') {
                continue;
            }
            if !std::mem::replace(&mut self.is_started, true) && !text.starts_with(['{', '[']) {
                self.table = Table::of(line.bytes);
                if self.table.is_some() || is_header(text) {
                    let item = refused(InvalidEntry::HeaderLine(HEADER_LINE));
                    if self.table.is_some() {
                        self.lines.read_rows();
                    }
                    return Ok(Some(item));
                }
            }
            match read_entry(text, self.parse) {
                ReadEntry::One(tweet) => {
                    let tweet = match tweet {
                        Ok(tweet) if tweet.content.is_none() => {
                            self.lengths.check(&tweet.id, lacks_line_end).map(|id| Ingested { id, ..tweet })
                        }
                        tweet => tweet,
                    };
                    return Ok(Some(Item { line: number, bytes: text.len(), tweet, hint: hint(text) }));
                }
                ReadEntry::Page(tweets) => {
                    let bytes = text.len() / tweets.len().max(1);
                    let item = |tweet| Item { line: number, bytes, tweet, hint: None };
                    self.page = tweets.into_iter().map(item).collect::<Vec<_>>().into_iter();
                }
            }
        }
    }

    fn take_unclosed_row(&mut self) -> Option<Item> {
        let Row { line, id } = self.table.as_mut()?.end()?;
        Some(Item { line, bytes: 0, tweet: id.map(Ingested::bare), hint: None })
    }
}

#[derive(Debug, PartialEq)]
pub(super) enum ReadEntry {
    One(Result<Ingested, InvalidEntry>),
    Page(Vec<Result<Ingested, InvalidEntry>>),
}

pub(super) fn read_entry(text: &str, parse: Parse) -> ReadEntry {
    if text.starts_with('{') {
        if is_account(text) {
            return ReadEntry::One(Err(InvalidEntry::other_kind(AN_ACCOUNT)));
        }
        let tweet = read_post(text, parse);
        // A valid post is not searched for other posts.
        let page = if tweet.is_err() { read_page(text, parse) } else { None };
        return page.map_or(ReadEntry::One(tweet), ReadEntry::Page);
    }
    if text.starts_with('[') {
        return ReadEntry::One(Err(InvalidEntry::other_kind("a list in a list; write one list of posts")));
    }
    let quoted = ['"', '\''].iter().find_map(|quote| text.strip_prefix(*quote)?.strip_suffix(*quote));
    ReadEntry::One(Ok(Ingested::bare(strip_id_mark(quoted.unwrap_or(text).trim()))))
}

fn read_post(text: &str, parse: Parse) -> Result<Ingested, InvalidEntry> {
    parse(text).map(Ingested::from).map_err(InvalidEntry::rejected)
}

/// Fields that distinguish an account from a post, on all networks.
#[derive(Deserialize)]
struct AccountFields<'a> {
    #[serde(borrow, alias = "username", alias = "handle")]
    screen_name: Option<&'a RawValue>,
    #[serde(borrow, alias = "display_name", alias = "displayName")]
    name: Option<&'a RawValue>,
    // Fields of posts, also as other collectors flatten them.
    #[serde(borrow, alias = "full_text", alias = "content", alias = "record", alias = "tweet", alias = "rawContent")]
    text: Option<&'a RawValue>,
    #[serde(borrow)]
    conversation_id: Option<&'a RawValue>,
    #[serde(borrow, alias = "user_id_str", alias = "author_id", alias = "author", alias = "account")]
    user: Option<&'a RawValue>,
}

/// Returns true for an account (v1.1, X, Mastodon, Bluesky): it has its own name, and neither text nor author.
fn is_account(text: &str) -> bool {
    serde_json::from_str::<AccountFields<'_>>(text).is_ok_and(|fields| {
        let AccountFields { screen_name, name, text, conversation_id, user } = fields;
        screen_name.is_some() && name.is_some() && [text, conversation_id, user].iter().all(Option::is_none)
    })
}

/// A response or a stream line of X API v2, as the API and twarc write them, or a post of Twitter's account archive.
#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(borrow)]
    tweet: Option<&'a RawValue>,
    #[serde(borrow)]
    data: Option<&'a RawValue>,
    #[serde(borrow)]
    meta: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Meta {
    result_count: u64,
}

/// Returns the posts in an object's `data`; `None` if it has none and does not report an empty result.
fn read_page(text: &str, parse: Parse) -> Option<Vec<Result<Ingested, InvalidEntry>>> {
    let post = |raw: &str| match is_account(raw) {
        true => Err(InvalidEntry::other_kind(AN_ACCOUNT)),
        false => read_post(raw, parse),
    };
    let Envelope { tweet, data, meta } = serde_json::from_str(text).ok()?;
    if let Some(tweet) = tweet {
        return Some(vec![post(tweet.get()).map_err(|why| why.in_part("its tweet"))]);
    }
    let Some(data) = data.map(RawValue::get) else {
        let Meta { result_count } = serde_json::from_str(meta?.get()).ok()?;
        return (result_count == 0).then(Vec::new);
    };
    let included = IncludedMedia::parse(text);
    let post = |raw: &str| post(included.add_to(raw).as_deref().unwrap_or(raw));
    if data.starts_with('{') {
        return Some(vec![post(data).map_err(|why| why.in_part("its data"))]);
    }
    let posts = || elements(data).ok();
    if posts()?.nth(MOST_POSTS).is_some() {
        let reason = format!("its data has more than {MOST_POSTS} posts; write one object per post");
        return Some(vec![Err(InvalidEntry::other_kind(reason))]);
    }
    let numbered = (1..).zip(posts()?);
    let post = |(n, raw): (u64, &RawValue)| post(raw.get()).map_err(|why| why.in_part(format!("post {n} of its data")));
    Some(numbered.map(post).collect())
}

/// Returns true if a first line has the column `id`, alone or first, as our export writes it, or under a common other
/// name.
fn is_header(text: &str) -> bool {
    let first = unquoted(text.split(SEPARATORS).next().unwrap_or_default()).replace(' ', "_");
    ["id", "id_str", "ids", "post_id", "status_id", "tweet_id", "tweetid", "url"]
        .iter()
        .any(|name| first.eq_ignore_ascii_case(name))
}

fn hint(text: &str) -> Option<&'static str> {
    if text.bytes().all(|byte| byte.is_ascii_digit()) || text.starts_with(['{', '[']) {
        return None;
    }
    if TweetId::parse(text) == Err(BadId::Scientific) {
        return None; // the comma of "1,46E+18" separates no columns
    }
    const HINTS: [(char, &str); 4] = [
        (',', "the line has a comma; only the id column is wanted"),
        (';', "the line has a semicolon; only the id column is wanted"),
        ('\t', "the line has a tab; only the id column is wanted"),
        ('\r', CR_ALONE),
    ];
    HINTS.iter().find(|(odd, _)| text.contains(*odd)).map(|(_, what)| *what)
}

#[cfg(test)]
mod tests {
    use super::*;
    use networks::providers::unreadable::UnreadableObject;

    #[test]
    fn ids_come_bare_or_quoted() {
        let id = |text| read_entry(text, |_| unreachable!());
        for text in ["123", "\"123\"", "'123'", "\" 123 \"", "x123", "\"x123\""] {
            assert_eq!(id(text), ReadEntry::One(Ok(Ingested::bare("123"))));
        }
        for text in ["\"", "'12", "\"12'", "x", "x1a", "X12"] {
            assert_eq!(id(text), ReadEntry::One(Ok(Ingested::bare(text))));
        }
    }

    #[test]
    fn an_object_of_an_account_is_no_post() {
        for account in [
            r#"{"id":12,"id_str":"12","name":"Jack","screen_name":"jack","followers_count":5}"#,
            r#"{"id":"12","name":"Jack","username":"jack"}"#,
            r#"{"id":"1","username":"ann","acct":"ann","display_name":"","note":""}"#,
            r#"{"did":"did:plc:a","handle":"ann.example","displayName":"Ann"}"#,
            r#"{"data":[{"id":"12","name":"Jack","username":"jack"}]}"#,
        ] {
            let none = |_: &str| Err(UnreadableObject::Missing("post"));
            let read = match read_entry(account, none) {
                ReadEntry::One(post) => post,
                ReadEntry::Page(mut posts) => posts.remove(0),
            };
            assert!(read.unwrap_err().to_string().contains("enqueue --accounts"), "{account}");
        }
        for post in [
            r#"{"id":20,"text":"a","name":"x","screen_name":"x"}"#,
            r#"{"id":20,"user":{"name":"x","screen_name":"x"}}"#,
            r#"{"id":"20","username":"jack","name":"Jack","tweet":"a"}"#,
            r#"{"id":"20","username":"jack","name":"Jack","conversation_id":"20"}"#,
            r#"{"id":"20","username":"jack"}"#,
        ] {
            assert!(!is_account(post), "{post}");
        }
    }

    #[tokio::test]
    async fn a_last_line_that_was_cut_off_is_refused() {
        let last = async |ids: usize, text: &str| {
            let all = "1460323737035677698\n".repeat(ids) + text;
            let mut tweets = PostReader::new(all.as_bytes(), |_| unreachable!());
            let mut last = None;
            while let Some(item) = tweets.next().await.unwrap() {
                last = Some(item.tweet);
            }
            last.unwrap()
        };
        assert_eq!(last(20, "14603237370").await, Err(InvalidEntry::Unreadable(CUT_OFF)));
        let header = "state,id\n".to_owned() + &"live,1460323737035677698\n".repeat(20) + "live,14603237370";
        let mut rows = PostReader::new(header.as_bytes(), |_| unreachable!());
        let mut refused = 0;
        while let Some(item) = rows.next().await.unwrap() {
            refused += u32::from(item.tweet == Err(InvalidEntry::Unreadable(CUT_OFF)));
        }
        assert_eq!(refused, 1, "also in a table");
        for (ids, text) in [(20, "14603237370\n"), (20, "1460323737035677699"), (19, "20")] {
            assert!(last(ids, text).await.is_ok(), "{ids} {text}");
        }
    }

    #[tokio::test]
    async fn the_archive_of_an_account_is_read() {
        let archive = "window.YTD.tweets.part0 = [\n  {\n    \"tweet\" : { \"id_str\" : \"20\" }\n  },\n  {\"tweet\":{\"id_str\":\"21\"}}\n]";
        let parse = |text: &str| match serde_json::from_str::<serde_json::Value>(text).unwrap()["id_str"].as_str() {
            Some(id) => Ok(networks::model::post::Tweet { id: id.to_owned(), ..Default::default() }),
            None => Err(UnreadableObject::Missing("id")),
        };
        let mut tweets = PostReader::new(archive.as_bytes(), parse);
        let mut ids = Vec::new();
        while let Some(item) = tweets.next().await.unwrap() {
            ids.push(item.tweet.unwrap().id);
        }
        assert_eq!(ids, ["20", "21"]);
    }

    #[test]
    fn the_column_has_one_of_several_names() {
        for line in ["id", "ids", "url", "tweetid", "Tweet Id", "\"Tweet ID\",text", "status_id;x"] {
            assert!(is_header(line), "{line}");
        }
        for line in ["20", "text,id", "ideas", "https://x.com/jack/status/20"] {
            assert!(!is_header(line), "{line}");
        }
    }

    #[test]
    fn a_hint_says_what_the_line_looks_like() {
        assert!(hint("123,foo").unwrap().contains("comma"));
        assert!(hint("123\tfoo").unwrap().contains("tab"));
        assert!(hint("123\r456").unwrap().contains("CR"));
        assert_eq!(hint("1,46E+18"), None);
        assert_eq!(hint("12x"), None);
        assert_eq!(hint("123"), None);
        assert_eq!(hint("{\"id\":1,"), None);
    }
}
