//! Facts about a provider that need no call: ids, objects, capabilities and kinds of sources, for its posts and its accounts.

use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::bluesky::timeline::BlueskyApi;
use super::mastodon::timeline::MastodonApi;
use super::named::ReadAccountRef;
use super::source::{Source, SourceError, SourceKeys, SourceKind, kinds_and_keys, read};
use super::twitter_v1::timeline::TwitterApi;
use super::x_v2::Fields;
use super::x_v2::timeline::XApi;
use super::{bluesky, mastodon, scalar, twitter_v1, x_v2};
use crate::model::account::{Account, Person};
use crate::model::media::Medium;
use crate::model::post::{BadId, Tweet, TweetId};
use crate::model::provider::Provider;
use crate::model::relation::ListKind;
use crate::providers::http::{ClientError, HttpClient};
use crate::providers::lookup::{Capabilities, Charge};
use crate::providers::relations::ListCapabilities;
use crate::providers::unreadable::UnreadableObject;
use engine::base::clock::Millis;

/// Reads the creation time, ms since the epoch, from an id; `None` if the id does not contain it. An error is one clause.
pub type DateOf = fn(&str) -> Result<Option<Millis>, BadId>;

/// Reads one JSON object of an ingest; an error is one clause.
pub type Parse = fn(&str) -> Result<Tweet, UnreadableObject>;

/// Capabilities of the lookup of posts; for Mastodon, those since 4.3.
#[must_use]
pub fn capabilities(provider: &Provider) -> Capabilities {
    match provider {
        Provider::Twitter => twitter_v1::CAPABILITIES,
        Provider::X => x_v2::CAPABILITIES,
        Provider::Mastodon(_) => mastodon::CAPABILITIES,
        Provider::Bluesky => bluesky::CAPABILITIES,
    }
}

/// Reads one JSON object of an account; an error is one clause.
pub type ParseAccount = fn(&str) -> Result<Account, UnreadableObject>;

#[derive(Debug, Clone, Copy)]
pub struct Accounts {
    pub capabilities: Capabilities,
    pub date_of: DateOf,
    /// Reads an account from an answer or from a post.
    pub parse: ParseAccount,
}

/// Facts about the lookup of the provider's accounts.
///
/// ```
/// # use twitter_updater_networks::providers::registry::accounts;
/// # use twitter_updater_networks::model::provider::Provider;
/// let bluesky = accounts(&Provider::Bluesky);
/// assert_eq!(bluesky.capabilities.batch_limit, 25);
/// assert_eq!((bluesky.date_of)("did:plc:z72i7hdynmk6r22z27h6tvur"), Ok(None));
/// assert!((bluesky.date_of)("bsky.app").is_err());
/// ```
#[must_use]
pub fn accounts(provider: &Provider) -> Accounts {
    let (capabilities, date_of, parse): (_, DateOf, ParseAccount) = match provider {
        Provider::Twitter => (twitter_v1::account::CAPABILITIES, TweetId::date_of, twitter_v1::account::parse_account),
        Provider::X => (x_v2::account::CAPABILITIES, TweetId::date_of, x_v2::account::parse_account),
        Provider::Mastodon(_) => {
            (mastodon::account::CAPABILITIES, mastodon::account::date_of, mastodon::account::parse_account)
        }
        Provider::Bluesky => {
            (bluesky::account::CAPABILITIES, bluesky::account::date_of, bluesky::account::parse_account)
        }
    };
    Accounts { capabilities, date_of, parse }
}

#[must_use]
pub fn list_capabilities(provider: &Provider, side: ListKind) -> ListCapabilities {
    match provider {
        Provider::Twitter => twitter_v1::relations::capabilities(side),
        Provider::X => x_v2::relations::capabilities(side),
        Provider::Mastodon(_) => mastodon::relations::capabilities(side),
        Provider::Bluesky => bluesky::relations::capabilities(side),
    }
}

#[derive(Debug, Clone, Copy)]
pub struct AccountTimelines {
    pub capabilities: Capabilities,
    /// Kind of the source, and the key that takes the account's id.
    pub keys: (&'static str, &'static str),
}

impl AccountTimelines {
    /// Keys and values of a source that reads this account, as in the settings.
    #[must_use]
    pub fn source_keys(&self, id: &str) -> SourceKeys {
        let (kind, key) = self.keys;
        SourceKeys::from([("kind".to_owned(), kind.to_owned()), (key.to_owned(), id.to_owned())])
    }
}

/// Timelines of the provider's accounts.
///
/// ```
/// # use twitter_updater_networks::providers::registry::{account_timelines, source_kinds};
/// # use twitter_updater_networks::model::provider::Provider;
/// let timelines = account_timelines(&Provider::X);
/// assert_eq!(timelines.capabilities.endpoint, "users/tweets");
/// assert_eq!((source_kinds(&Provider::X).check)(&Provider::X, &timelines.source_keys("12")), Ok(()));
/// ```
#[must_use]
pub fn account_timelines(provider: &Provider) -> AccountTimelines {
    let (endpoint, charge, keys) = match provider {
        Provider::Twitter => ("statuses/user_timeline", Charge::PerCall, ("user", "user_id")),
        Provider::X => ("users/tweets", Charge::PerId, ("user", "user_id")),
        Provider::Mastodon(_) => ("statuses", Charge::PerCall, ("account", "account_id")),
        Provider::Bluesky => ("getAuthorFeed", Charge::PerCall, ("author", "actor")),
    };
    AccountTimelines { capabilities: Capabilities { batch_limit: 1, charge, endpoint }, keys }
}

/// Reader of the accounts in a post's raw object, the author first.
///
/// ```
/// # use twitter_updater_networks::providers::registry::people;
/// # use twitter_updater_networks::model::provider::Provider;
/// let people = people(&Provider::X)(r#"{"id": "20", "author_id": "12", "in_reply_to_user_id": "13"}"#);
/// assert_eq!(people.iter().map(|person| &*person.id).collect::<Vec<_>>(), ["12", "13"]);
/// ```
#[must_use]
pub fn people(provider: &Provider) -> fn(&str) -> Vec<Person> {
    match provider {
        Provider::Twitter => twitter_v1::people::people,
        Provider::X => x_v2::people::people,
        Provider::Mastodon(_) => mastodon::people::people,
        Provider::Bluesky => bluesky::people::people,
    }
}

/// Reader of an account in a line of a file: an id, a handle or an address.
///
/// ```
/// # use twitter_updater_networks::providers::named::AccountRef;
/// # use twitter_updater_networks::providers::registry::read_account_ref;
/// # use twitter_updater_networks::model::provider::Provider;
/// let read = read_account_ref(&Provider::X);
/// assert_eq!(read("12"), Ok(AccountRef::Id("12".to_owned())));
/// assert_eq!(read("https://x.com/jack/status/20"), Ok(AccountRef::Handle("jack".to_owned())));
/// assert!(read("https://bsky.app/profile/bsky.app").is_err());
/// ```
#[must_use]
pub fn read_account_ref(provider: &Provider) -> ReadAccountRef {
    match provider {
        Provider::Twitter | Provider::X => twitter_v1::named::read_account_ref,
        Provider::Mastodon(_) => mastodon::named::read_account_ref,
        Provider::Bluesky => bluesky::named::read_account_ref,
    }
}

/// Function that reads the media of a post from its stored object, as JSON.
#[must_use]
pub fn media_reader(provider: &Provider) -> fn(&str) -> Vec<Medium> {
    match provider {
        Provider::Twitter => twitter_v1::media::read_media,
        Provider::X => x_v2::media::read_media,
        Provider::Mastodon(_) => mastodon::media::read_media,
        Provider::Bluesky => bluesky::media::read_media,
    }
}

/// Largest signed 64-bit number. No network has issued it as an id.
const LARGEST_ID: &str = "9223372036854775807";

/// Ids of a post and of an account that do not exist: the API answers a lookup of them, and charges no reads.
#[must_use]
pub fn unused_ids(provider: &Provider) -> [&'static str; 2] {
    match provider {
        Provider::Twitter | Provider::X | Provider::Mastodon(_) => [LARGEST_ID; 2],
        Provider::Bluesky => bluesky::UNUSED_IDS,
    }
}

/// Completes answers of a lookup that name media without their addresses.
#[derive(Debug, Clone, Copy)]
pub struct IngestedMedia {
    pub is_needed: fn(&str) -> bool,
    /// Returns the answer's object with the media of the ingest's object, if that has any.
    pub add: fn(&str, &str) -> Option<String>,
}

/// Adds media that only an ingest's object has; `None` if the provider's answers have them.
#[must_use]
pub fn ingested_media(provider: &Provider) -> Option<IngestedMedia> {
    let x = IngestedMedia { is_needed: x_v2::media::lacks_media, add: x_v2::media::add_ingested_media };
    (*provider == Provider::X).then_some(x)
}

/// Addresses of smaller sizes of a picture, the largest first.
///
/// ```
/// # use twitter_updater_networks::providers::registry::smaller_pictures;
/// # use twitter_updater_networks::model::provider::Provider;
/// let smaller = smaller_pictures(&Provider::X)("https://pbs.twimg.com/media/A.jpg?name=orig");
/// assert_eq!(smaller[0], "https://pbs.twimg.com/media/A.jpg?name=4096x4096");
/// ```
#[must_use]
pub fn smaller_pictures(provider: &Provider) -> fn(&str) -> Vec<String> {
    match provider {
        Provider::Twitter | Provider::X => twitter_v1::media::smaller_urls,
        Provider::Mastodon(_) | Provider::Bluesky => |_| Vec::new(),
    }
}

/// Builds a source from its settings; its ids are out of order by at most the given duration. An error begins with the key.
pub type BuildSource = Box<dyn Fn(&Provider, &SourceKeys, Duration) -> Result<Source, SourceError> + Send + Sync>;

/// Opens the API at an address and returns the builder of its sources. X is asked for the given fields.
pub type OpenSources = Box<dyn FnOnce(HttpClient, &str, Fields) -> Result<BuildSource, ClientError>>;

type Open<A> = fn(HttpClient, &str, Fields) -> Result<A, ClientError>;

pub struct SourceKinds {
    /// Minimum of `out_of_order`, unless a source sets its own.
    pub out_of_order: Duration,
    /// Returns the error in a source's settings; it begins with the key.
    pub check: fn(&Provider, &SourceKeys) -> Result<(), SourceError>,
    pub open: OpenSources,
    pub words: Vec<&'static str>,
    /// Keys that the kinds take besides `kind`.
    pub keys: Vec<&'static str>,
}

impl SourceKinds {
    fn build<K: SourceKind>(open: Open<K::Api>) -> Self {
        let open = move |http: HttpClient, address: &str, fields| {
            let api = open(http, address, fields)?;
            let build = move |provider: &Provider, written: &SourceKeys, k| {
                let (kind, query) = read::<K>(provider, written)?;
                Ok(Source { timeline: Arc::new(kind.build(&api, k)), query })
            };
            Ok(Box::new(build) as BuildSource)
        };
        let check = |provider: &Provider, written: &SourceKeys| read::<K>(provider, written).map(drop);
        let (words, keys) = kinds_and_keys::<K>();
        Self { out_of_order: K::OUT_OF_ORDER, check, open: Box::new(open), words, keys }
    }
}

#[must_use]
pub fn source_kinds(provider: &Provider) -> SourceKinds {
    match provider {
        Provider::Twitter => SourceKinds::build::<twitter_v1::timeline::Kind>(|http, at, _| TwitterApi::new(http, at)),
        Provider::X => SourceKinds::build::<x_v2::timeline::Kind>(XApi::new),
        Provider::Mastodon(_) => {
            SourceKinds::build::<mastodon::timeline::Kind>(|http, at, _| MastodonApi::new(http, at))
        }
        Provider::Bluesky => SourceKinds::build::<bluesky::timeline::Kind>(|http, at, _| BlueskyApi::new(http, at)),
    }
}

pub fn all_source_kinds() -> impl Iterator<Item = SourceKinds> {
    let each = [Provider::Twitter, Provider::X, Provider::Mastodon(String::new()), Provider::Bluesky];
    each.into_iter().map(|provider| source_kinds(&provider))
}

/// Reader of the provider's ids.
///
/// ```
/// # use twitter_updater_networks::providers::registry::date_of;
/// # use twitter_updater_networks::model::provider::Provider;
/// assert_eq!(date_of(&Provider::X)("1460323737035677698"), Ok(Some(1_637_003_285_069)));
/// assert!(date_of(&Provider::Bluesky)("1460323737035677698").is_err());
/// ```
#[must_use]
pub fn date_of(provider: &Provider) -> DateOf {
    match provider {
        Provider::Twitter | Provider::X => TweetId::date_of,
        Provider::Mastodon(_) => mastodon::date_of,
        Provider::Bluesky => bluesky::date_of,
    }
}

/// Reader of an ingest's objects: as the API writes them, or as little as `{"id": …, "created_at": …}`.
#[must_use]
pub fn parse(provider: &Provider) -> Parse {
    match provider {
        Provider::Twitter => twitter_v1::parse_ingested,
        Provider::X => |raw| parse_bare(raw).map_or_else(|| x_v2::parse_post(raw), Ok),
        Provider::Mastodon(_) => |raw| parse_bare(raw).map_or_else(|| mastodon::parse_status(raw), Ok),
        Provider::Bluesky => |raw| parse_bare(raw).map_or_else(|| bluesky::parse_post(raw), Ok),
    }
}

/// Object that has only a post's id, and perhaps its creation time.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Bare<'a> {
    #[serde(borrow, alias = "uri")]
    id: &'a RawValue,
    #[serde(borrow, default)]
    created_at: Option<&'a RawValue>,
}

fn parse_bare(raw: &str) -> Option<Tweet> {
    let Bare { id, created_at } = serde_json::from_str(raw.trim()).ok()?;
    let id = scalar::string(id).or_else(|| Some(id.get().parse::<u64>().ok()?.to_string()))?;
    let created_at = match scalar::present(created_at) {
        None => None,
        Some(date) => Some(scalar::any_date(date)?),
    };
    Some(Tweet { id, created_at, raw: raw.to_owned(), ..Tweet::default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_little_as_an_id_and_a_date_will_do() {
        let mastodon = Provider::Mastodon("social".to_owned());
        let read = |provider: &Provider, raw| parse(provider)(raw).map(|tweet| (tweet.id, tweet.created_at));
        assert_eq!(read(&Provider::X, r#"{"id": "20"}"#), Ok(("20".to_owned(), None)));
        let dated = r#" {"id": 113370000000000000, "created_at": "2024-10-25T12:00:00Z"} "#;
        assert_eq!(read(&mastodon, dated), Ok(("113370000000000000".to_owned(), Some(1_729_857_600_000))));
        let uri = "at://did:plc:z72i7hdynmk6r22z27h6tvur/app.bsky.feed.post/3l6oveex3ii2l";
        let raw = format!(r#"{{"uri": "{uri}"}}"#);
        assert_eq!(parse(&Provider::Bluesky)(&raw).map(|tweet| tweet.id), Ok(uri.to_owned()));
        for odd in ["", "20", "{}", r#"{"id": 1.5}"#, r#"{"id": "20", "created_at": "soon"}"#] {
            for provider in [&Provider::Twitter, &Provider::X, &mastodon, &Provider::Bluesky] {
                let error = read(provider, odd).unwrap_err().to_string();
                assert!(!error.is_empty() && !error.contains('\n'), "{provider} {odd:?}: {error}");
            }
        }
    }

    #[test]
    fn an_object_is_read_as_the_api_writes_it() {
        let read = |provider: &Provider, raw: &str| {
            parse(provider)(raw).map(|tweet: Tweet| (tweet.id, tweet.metrics.favorite_count))
        };
        let x = r#"{"id": "20", "text": "hi", "public_metrics": {"like_count": 3}}"#;
        assert_eq!(read(&Provider::X, x), Ok(("20".to_owned(), Some(3))));
        let status = r#"{"id": "7", "content": "<p>hi</p>", "favourites_count": 4}"#;
        assert_eq!(read(&Provider::Mastodon(String::new()), status), Ok(("7".to_owned(), Some(4))));
        let uri = "at://did:plc:z72i7hdynmk6r22z27h6tvur/app.bsky.feed.post/3l6oveex3ii2l";
        let post = format!(r#"{{"uri": "{uri}", "record": {{"text": "hi"}}, "likeCount": 5}}"#);
        assert_eq!(read(&Provider::Bluesky, &post), Ok((uri.to_owned(), Some(5))));
    }
}
