//! People who asked to be forgotten: their rows are removed, and no row of them is written again.
//!
//! **Blocking.** A person is an account of a network. The table `forgotten_person` has a pseudonym of each, no id
//! (`store/pseudonyms.rs`). Every statement that creates a row of a post, an account, a list member or a visit reads
//! that table directly. So a late answer writes nothing, in any process and after any pause. Nothing is cached. Without
//! forgotten people the cost is one look at an empty table per call.
//!
//! **Order.** The hash comes first, then the removal. Adding the hash waits for writes under way (PostgreSQL: a lock on
//! the table, which each such statement reads; SQLite has one writer). So each of these writes either precedes the
//! removal, or sees the hash. The same call completes a removal that was killed.
//!
//! **Tables.** The lists below name all tables with such rows. `store::forget` walks all tables of both databases and
//! finds missing ones.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use async_trait::async_trait;

use super::{Result, UnwantedPost};
use engine::base::clock::Millis;
use networks::model::pipeline_id::{Kind, PipelineId};
use networks::model::provider::Provider;

/// Pipelines whose items are accounts: an item's id is the account's.
const ACCOUNT_KINDS: &[&str] = &["profiles", "followers", "friends", "visits", "community"];

const MEDIA: &str = "media";

/// Tables with rows of an item, by its namespace and id. In SQLite these are views of `<name>_row`, by the key of the
/// row in `tweet`.
pub(super) const ITEM_TABLES: &[&str] = &[
    "tweet_metrics",
    "tweet_change",
    "tweet_way",
    "account",
    "account_change",
    "account_count",
    "account_post",
    "post_language",
    "media",
    "media_use",
];

/// Tables with rows of a list, by its key in the column `list`.
pub(super) const LIST_TABLES: &[&str] = &["list_edge", "list_page", "list_crawl"];

/// Tables with rows of an account beside its items, by their `namespace` and the column with the account's id. Add new
/// tables with such rows here.
pub(super) const ACCOUNT_TABLES: &[(&str, &str)] = &[
    ("visit", "account"),
    ("source_position", "source"),
    ("source_gap", "source"),
    ("community_account", "account"),
    ("community_change", "account"),
    ("community_appearance", "account"),
    ("community_appearance", "source"),
];

/// Returns the author in an id. On Bluesky the id of a post is an address, `at://did:plc:…/app.bsky.feed.post/…`, and
/// that of a medium starts with the account, `did:plc:…/bafkrei…`.
pub(super) fn author_from_id(id: &str) -> Option<&str> {
    let (author, _) = id.strip_prefix("at://").unwrap_or(id).split_once('/')?;
    Some(author).filter(|author| author.starts_with("did:"))
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PersonSource {
    /// The network; Twitter's two APIs share one.
    pub network: String,
    /// True if the id of a row is the account's. False if the row states the author, or its id names it.
    pub by_id: bool,
}

impl PersonSource {
    /// Returns the person for a namespace; `None` if its rows are not about people.
    #[must_use]
    pub fn for_namespace(namespace: &str) -> Option<Self> {
        let id = PipelineId::parse(namespace)?;
        let by_id = match &id.kind {
            Kind::Posts => false,
            Kind::Items(word) if word == MEDIA => false,
            Kind::Items(word) if ACCOUNT_KINDS.contains(&word.as_str()) => true,
            Kind::Items(_) | Kind::Timelines | Kind::Streams => return None,
        };
        Some(Self { network: person_network(&id.provider), by_id })
    }
}

#[must_use]
pub fn person_network(provider: &Provider) -> String {
    match provider {
        Provider::Twitter | Provider::X => "twitter".to_owned(),
        other => other.to_string(),
    }
}

/// Returns the providers of a person's network that may have rows of that person.
#[must_use]
pub fn providers_of_network(provider: &Provider) -> Vec<Provider> {
    match provider {
        Provider::Twitter | Provider::X => vec![Provider::Twitter, Provider::X],
        other => vec![other.clone()],
    }
}

pub(super) fn is_media(namespace: &str) -> bool {
    namespace.strip_prefix(MEDIA).is_some_and(|rest| rest.starts_with(':'))
}

#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize)]
pub struct RemovedRows(pub BTreeMap<String, u64>);

impl RemovedRows {
    pub fn add(&mut self, table: &str, rows: u64) {
        if rows > 0 {
            *self.0.entry(table.to_owned()).or_default() += rows;
        }
    }

    #[must_use]
    pub fn items(&self) -> u64 {
        self.0.get("tweet").copied().unwrap_or(0)
    }

    pub fn extend(&mut self, other: Self) {
        other.0.into_iter().for_each(|(table, rows)| self.add(&table, rows));
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ItemSet {
    pub namespace: String,
    pub ids: Vec<String>,
}

/// Forgets people. A person is the id of an account on a network. Errors are those of
/// [`Lifecycle`](super::Lifecycle); a caller may repeat every call.
#[async_trait]
pub trait Forgetting: Send + Sync + std::fmt::Debug {
    /// Blocks a person from now on; false if it was blocked already. When it returns, no earlier write is under way.
    async fn block_account(&self, network: &str, account: &str, at: Millis) -> Result<bool>;

    /// Checks that the key is available if a person is blocked: without it a write cannot recognize that person.
    ///
    /// # Errors
    /// [`StoreError::Schema`](super::StoreError::Schema): the key file is missing or holds another key.
    async fn check_key(&self) -> Result<()>;

    /// Unblocks a person; false if it was not blocked. Removed rows stay removed.
    async fn unblock_account(&self, network: &str, account: &str) -> Result<bool>;

    /// Returns true for each blocked account, in the order of `accounts`.
    async fn are_blocked(&self, network: &str, accounts: &[String]) -> Result<Vec<bool>>;

    /// Returns all items of a person: its accounts, its posts, and the media whose ids name it. Reads all pipelines of
    /// posts and media of the network completely.
    async fn find_items_about(&self, network: &str, account: &str) -> Result<Vec<ItemSet>>;

    /// Finds the network's media that no stored post shows: one set per pipeline of media. They have no use, and an
    /// earlier version may have stored them for a forgotten person. Reads all pipelines of media of the network completely.
    async fn find_media_without_post(&self, network: &str) -> Result<Vec<ItemSet>>;

    /// Returns the media that only these posts show.
    async fn media_of_posts(&self, posts: &ItemSet) -> Result<ItemSet>;

    /// Removes items with all their rows, and the references of other items to them as posts. One transaction, so a few
    /// hundred per call.
    async fn remove_items(&self, items: &ItemSet) -> Result<RemovedRows>;

    /// Removes unwanted posts of the pipeline `posts` in the same way. Also removes the read positions of the timelines
    /// of their accounts and authors, so a later follow reads them from the start. A post stays if its account or
    /// author is followed. `visits` is the pipeline of visits without its part.
    async fn drop_posts(&self, posts: &str, visits: &str, unwanted: &[UnwantedPost]) -> Result<RemovedRows>;

    /// Removes the rows of an account beside its items, and its waiting handles.
    async fn remove_account(&self, network: &str, account: &str, handles: &[String]) -> Result<RemovedRows>;

    /// Counts what stays, by table: rows of others whose object names that id. Reads all pipelines of posts of the
    /// network completely.
    async fn count_mentions(&self, network: &str, account: &str) -> Result<RemovedRows>;

    /// Removes the bytes of removed rows: rewrites a SQLite file and empties its WAL; other processes cannot write
    /// meanwhile. PostgreSQL leaves this to its vacuum.
    async fn erase_removed_bytes(&self) -> Result<()>;
}

pub(super) fn select_network_namespaces(
    namespaces: impl IntoIterator<Item = String>,
    network: &str,
) -> Vec<(String, bool)> {
    let of = |namespace: String| {
        let person = PersonSource::for_namespace(&namespace).filter(|person| person.network == network)?;
        Some((namespace, person.by_id))
    };
    namespaces.into_iter().collect::<BTreeSet<_>>().into_iter().filter_map(of).collect()
}

/// Returns the unwanted posts to drop: neither an account that showed one nor its author is followed. `authors`: of each post.
pub(super) fn select_dropped_posts(
    unwanted: &[UnwantedPost],
    authors: Vec<(String, Option<String>)>,
    followed: &[String],
) -> Vec<String> {
    let authors: HashMap<String, Option<String>> = authors.into_iter().collect();
    let is_followed = |account: &str| followed.iter().any(|followed| followed == account);
    let stays = |of: &&UnwantedPost| {
        let author = authors.get(&of.post).and_then(Option::as_deref);
        is_followed(&of.account) || author.is_some_and(is_followed)
    };
    unwanted.iter().filter(|of| !stays(of)).map(|of| of.post.clone()).collect()
}

/// Namespace of the media of a pipeline of posts; `None` if `posts` is no namespace of posts.
pub(super) fn media_namespace(posts: &str) -> Option<String> {
    sibling_namespace(posts, MEDIA)
}

/// Returns the pipelines that list a pipeline's posts by author: profiles and lists.
pub(super) fn author_namespaces(posts: &str) -> Vec<String> {
    ["profiles", "followers", "friends"].iter().filter_map(|kind| sibling_namespace(posts, kind)).collect()
}

/// Returns the name prefix of the communities of a pipeline of posts, if there is one.
pub(super) fn communities_prefix(posts: &str) -> Option<String> {
    sibling_namespace(posts, "community").map(|namespace| namespace + ":")
}

fn sibling_namespace(posts: &str, kind: &str) -> Option<String> {
    let id = PipelineId::parse(posts).filter(|id| id.kind == Kind::Posts)?;
    Some(PipelineId::items(&id.provider, kind).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_person_behind_a_row_is_its_account_or_its_author() {
        let person = |network: &str, by_id| Some(PersonSource { network: network.to_owned(), by_id });
        for (namespace, of) in [
            ("tweet:update", person("twitter", false)),
            ("x:update", person("twitter", false)),
            ("mastodon:update:social", person("mastodon:social", false)),
            ("profiles:x", person("twitter", true)),
            ("visits:twitter:p3", person("twitter", true)),
            ("followers:bluesky", person("bluesky", true)),
            ("community:twitter:pt-pt", person("twitter", true)),
            ("media:twitter", person("twitter", false)),
            ("source:poll:search/tweets", None),
            ("thing:update", None),
        ] {
            assert_eq!(PersonSource::for_namespace(namespace), of, "{namespace}");
        }
        assert_eq!(media_namespace("x:update").as_deref(), Some("media:x"));
        assert_eq!(author_namespaces("x:update"), ["profiles:x", "followers:x", "friends:x"]);
        let communities = communities_prefix("mastodon:update:social");
        assert_eq!(communities.as_deref(), Some("community:mastodon:social:"));
        assert_eq!((author_namespaces("profiles:x"), communities_prefix("profiles:x")), (Vec::new(), None));
        for id in ["at://did:plc:a/app.bsky.feed.post/1", "did:plc:a/bafkrei"] {
            assert_eq!(author_from_id(id), Some("did:plc:a"));
        }
        assert_eq!(
            (author_from_id("did:plc:a"), author_from_id("1"), author_from_id("at://a.b/c")),
            (None, None, None)
        );
    }
}
