//! The unchecked body of a request: a JSON array, or the content of a file.

pub(super) use super::elements::Unreadable;
use super::elements::elements;
use super::invalid_entry::InvalidEntry;
use super::json_splitter::TOO_LONG;
use super::named::AccountReader;
use super::tweets::{PostReader, ReadEntry, read_entry};
use networks::model::bound::LONGEST_OBJECT;
use networks::model::post::Ingested;
use networks::providers::named::{AccountRef, ReadAccountRef, strip_id_mark};
use networks::providers::registry::Parse;

const UTF8_BOM: &str = "\u{feff}";

pub(super) enum Body<'a> {
    Array(Box<dyn Iterator<Item = Item> + Send + 'a>),
    Lines(Box<PostReader<&'a [u8]>>),
    Accounts(Box<AccountReader<&'a [u8]>>),
}

pub(super) struct Item {
    /// Position from 0: the array element, or the line where the item begins. Blank lines count.
    pub index: u64,
    pub bytes: usize,
    pub entry: Result<Entry, InvalidEntry>,
}

#[derive(Debug)]
pub(super) enum Entry {
    Id(Box<Ingested>),
    /// Handle of an account. Resolving it to an id needs an API call.
    Handle(String),
}

impl From<Ingested> for Entry {
    fn from(item: Ingested) -> Self {
        Self::Id(item.into())
    }
}

impl From<AccountRef> for Entry {
    fn from(named: AccountRef) -> Self {
        match named {
            AccountRef::Id(id) => Ingested::bare(id).into(),
            AccountRef::Handle(handle) => Self::Handle(handle),
        }
    }
}

impl<'a> Body<'a> {
    /// Detects the format; `parse` reads an object. An array must be valid JSON to its end: a truncated one is
    /// rejected.
    pub fn new(bytes: &'a [u8], parse: Parse) -> Result<Self, Unreadable> {
        let text = std::str::from_utf8(bytes).map(|text| text.trim_start_matches(UTF8_BOM).trim());
        match text {
            Ok("") => Err(Unreadable { index: 0, reason: "the body is empty".to_owned() }),
            Ok(text) if text.starts_with('[') => {
                let elements = (0..).zip(elements(text)?);
                let posts = elements.flat_map(move |(index, element)| read_element(index, element.get(), parse));
                Ok(Self::Array(Box::new(posts)))
            }
            _ => Ok(Self::Lines(Box::new(PostReader::new(bytes, parse)))),
        }
    }

    /// Reads accounts: an array of ids, handles or addresses, or one per line. `read` is the network's reader.
    pub fn accounts(bytes: &'a [u8], read: ReadAccountRef) -> Result<Self, Unreadable> {
        let text = std::str::from_utf8(bytes).map(|text| text.trim_start_matches(UTF8_BOM).trim());
        match text {
            Ok("") => Err(Unreadable { index: 0, reason: "the body is empty".to_owned() }),
            Ok(text) if text.starts_with('[') => {
                let elements = (0..).zip(elements(text)?);
                let accounts = elements.map(move |(index, element)| {
                    let text = element.get();
                    Item { index, bytes: text.len(), entry: read_account(text, read).map(Entry::from) }
                });
                Ok(Self::Array(Box::new(accounts)))
            }
            _ => Ok(Self::Accounts(Box::new(AccountReader::new(bytes, read)))),
        }
    }

    pub async fn has_more_handles(mut self, than: u32) -> bool {
        let mut handles = 0;
        while let Some(item) = self.next().await {
            handles += u32::from(matches!(item.entry, Ok(Entry::Handle(_))));
            if handles > than {
                return true;
            }
            // Nothing above waits, and a body may have millions of lines: let other tasks run.
            tokio::task::coop::consume_budget().await;
        }
        false
    }

    /// The next entry of the body; `None` at its end.
    pub async fn next(&mut self) -> Option<Item> {
        match self {
            Self::Array(posts) => posts.next(),
            Self::Lines(tweets) => {
                // Reading from memory cannot fail.
                let item = tweets.next().await.ok().flatten()?;
                Some(Item { index: item.line - 1, bytes: item.bytes, entry: item.tweet.map(Entry::from) })
            }
            Self::Accounts(lines) => {
                let before = lines.bytes();
                let line = lines.next().await.ok().flatten()?;
                let bytes = usize::try_from(lines.bytes() - before).unwrap_or(usize::MAX);
                Some(Item { index: line.line - 1, bytes, entry: line.named.map(Entry::from) })
            }
        }
    }
}

/// Reads one array element: a post object, an object that contains posts, or an id as text or number.
fn read_element(index: u64, text: &str, parse: Parse) -> Vec<Item> {
    let item = |tweet: Result<Ingested, InvalidEntry>| Item { index, bytes: text.len(), entry: tweet.map(Entry::from) };
    let tweet = match text.as_bytes().first() {
        _ if text.len() > LONGEST_OBJECT => Err(InvalidEntry::Unreadable(TOO_LONG)),
        Some(b'{') => match read_entry(text, parse) {
            ReadEntry::One(tweet) => tweet,
            ReadEntry::Page(tweets) => return tweets.into_iter().map(item).collect(),
        },
        Some(b'"') => {
            serde_json::from_str(text).map(|id: String| Ingested::bare(strip_id_mark(&id))).map_err(|_| not_a_tweet())
        }
        // Kept as text: a number of 19 digits does not fit a double.
        Some(b'-' | b'0'..=b'9') => Ok(Ingested::bare(text)),
        _ => Err(not_a_tweet()),
    };
    vec![item(tweet)]
}

/// Reads one array element: an id as text or number, or a handle or an address as text.
fn read_account(text: &str, read: ReadAccountRef) -> Result<AccountRef, InvalidEntry> {
    let no_account = || InvalidEntry::other_kind("neither an id nor a handle nor an address of an account");
    let read = |text: &str| read(text).map_err(InvalidEntry::rejected);
    match text.as_bytes().first() {
        Some(b'"') => {
            let text: String = serde_json::from_str(text).map_err(|_| no_account())?;
            read(&text)
        }
        // Kept as text: a number of 19 digits does not fit a double.
        Some(b'0'..=b'9') => read(text),
        _ => Err(no_account()),
    }
}

fn not_a_tweet() -> InvalidEntry {
    InvalidEntry::other_kind("neither a tweet object nor an id")
}

#[cfg(test)]
mod tests {
    use super::*;
    use networks::model::post::Tweet;
    use networks::providers::unreadable::UnreadableObject;

    /// Returns a tweet whose id is the whole text, so a test sees which text was cut out.
    fn parse(raw: &str) -> Result<Tweet, UnreadableObject> {
        serde_json::from_str::<serde_json::Value>(raw).map_err(|_| UnreadableObject::Not("JSON"))?;
        Ok(Tweet { id: raw.to_owned(), raw: raw.to_owned(), ..Tweet::default() })
    }

    async fn all(bytes: &[u8]) -> Vec<(u64, Result<String, String>)> {
        let mut body = Body::new(bytes, parse).unwrap();
        let mut read = Vec::new();
        while let Some(item) = body.next().await {
            read.push((item.index, item.entry.map(describe).map_err(|why| why.to_string())));
        }
        read
    }

    fn describe(entry: Entry) -> String {
        match entry {
            Entry::Id(item) => item.id,
            Entry::Handle(handle) => format!("handle {handle}"),
        }
    }

    #[tokio::test]
    async fn each_form_gives_its_tweets_with_their_places() {
        let ok = |index, id: &str| (index, Ok(id.to_owned()));
        let no = |index, why: &str| (index, Err(why.to_owned()));
        for (bytes, expected) in [
            (r#" {"id": 1} "#, vec![ok(0, r#"{"id": 1}"#)]),
            ("{\n  \"id\": 1\n}\n", vec![ok(0, "{\n  \"id\": 1\n}")]),
            (
                "\u{feff}[1460000000000000001, \"2\", {\"id\":3}]",
                vec![ok(0, "1460000000000000001"), ok(1, "2"), ok(2, "{\"id\":3}")],
            ),
            ("[]", vec![]),
            (
                "[null, [1], true, 1]",
                vec![
                    no(0, "neither a tweet object nor an id"),
                    no(1, "neither a tweet object nor an id"),
                    no(2, "neither a tweet object nor an id"),
                    ok(3, "1"),
                ],
            ),
            (
                "{\"id\":1}\n\n{\"id\":2}\r\n{\"id\":",
                vec![
                    ok(0, "{\"id\":1}"),
                    ok(2, "{\"id\":2}"),
                    no(3, "not JSON: the object or list that begins here is cut off; export it again"),
                ],
            ),
            ("20\n\"21\"\n", vec![ok(0, "20"), ok(1, "21")]),
            ("20", vec![ok(0, "20")]),
        ] {
            assert_eq!(all(bytes.as_bytes()).await, expected, "{bytes:?}");
        }
        assert_eq!(all(b"20\n\xff\n22").await[1], no(1, "the line is not UTF-8 text"));
    }

    #[tokio::test]
    async fn accounts_are_read_by_id_or_by_handle() {
        use networks::model::provider::Provider;
        use networks::providers::registry::read_account_ref;

        let of = async |provider: &Provider, bytes: &[u8]| {
            let mut body = Body::accounts(bytes, read_account_ref(provider)).unwrap();
            let mut read = Vec::new();
            while let Some(item) = body.next().await {
                read.push((item.index, item.entry.map(describe).map_err(|why| why.to_string())));
            }
            read
        };
        let ok = |index, id: &str| (index, Ok(id.to_owned()));
        let handle = |index, name: &str| ok(index, &format!("handle {name}"));
        let x = Provider::X;
        assert_eq!(of(&x, b"[12, \"13\", \"@ann\"]").await, [ok(0, "12"), ok(1, "13"), handle(2, "ann")]);
        assert_eq!(
            of(&x, b"# friends\n12\n\n@ann\nhttps://x.com/i/user/13\n").await,
            [ok(1, "12"), handle(3, "ann"), ok(4, "13")]
        );
        let did = "did:plc:ewvi7nxzyoun6zhxrhs64oiz";
        let bluesky = format!("https://bsky.app/profile/{did}\nann.example.org\n");
        assert_eq!(of(&Provider::Bluesky, bluesky.as_bytes()).await, [ok(0, did), handle(1, "ann.example.org")]);
        for (index, reason) in of(&x, b"[null, {\"id\": 12}, -3]").await {
            assert_eq!(reason, Err("neither an id nor a handle nor an address of an account".to_owned()), "{index}");
        }
        for (bytes, handles) in [(&b"[12, \"@ann\", null, \"@ann\"]"[..], 2), (b"@ann\n12\n\n@bea\n@cid\n", 3)] {
            let more = async |than| Body::accounts(bytes, read_account_ref(&x)).unwrap().has_more_handles(than).await;
            assert_eq!((more(handles - 1).await, more(handles).await), (true, false));
        }
        assert!(Body::accounts(b" \n", read_account_ref(&x)).is_err());
        assert!(Body::accounts(b"[12, ", read_account_ref(&x)).is_err());
    }

    #[test]
    fn what_is_nothing_at_all_says_where_it_breaks() {
        for (bytes, index, says) in [
            (&b""[..], 0, "empty"),
            (b" \n ", 0, "empty"),
            (b"[1, 2, {\"id\":", 2, "not JSON, at line 1, column"),
            (b"[1, 2", 2, "not JSON"),
            (b"[1]\n[2]", 1, "there is data after the array"),
        ] {
            let Err(unreadable) = Body::new(bytes, parse) else { panic!("{bytes:?} is read") };
            assert_eq!(unreadable.index, index, "{bytes:?}");
            assert!(unreadable.reason.contains(says), "{unreadable:?}");
        }
    }
}
