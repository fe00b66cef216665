//! People who asked to be forgotten: their rows are removed, and nothing of them is written again.
//!
//! **Kept away.** A person is an account of a network. The table `forgotten_person` has a pseudonym of each, no id
//! (`store/pseudonyms.rs`). Every statement
//! that makes a row of a post, of an account, of a member of a list, or of a visit asks that table itself, so an answer that
//! was asked for before and is saved after writes nothing, whichever process saves it and however long it was frozen. Nothing
//! is cached. While nobody is forgotten that is one look at an empty table a call.
//!
//! **The order** is hash, then rows. Adding the hash waits for the writes under way (PostgreSQL: a lock on the table, which
//! each such statement reads; SQLite has one writer), so each of them has either written what is removed next, or sees the
//! hash. A killed removal is completed by the same call again.
//!
//! **Where rows are** stands in the lists below, and `store::forget` walks all tables of both databases for what they lack.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use async_trait::async_trait;

use super::{Result, UnwantedPost};
use crate::base::clock::Millis;
use crate::model::pipeline_id::{Kind, PipelineId};
use crate::model::provider::Provider;

/// Pipelines whose items are accounts, by the words for them: an item's id is the account's.
const OF_ACCOUNTS: &[&str] = &["profiles", "followers", "friends", "visits", "community"];

/// The word for media, whose ids name accounts on some networks.
const MEDIA: &str = "media";

/// Tables with rows of an item, by its namespace and id. In SQLite these are views of `<name>_row`, by the key of the row in
/// `tweet`.
pub(super) const OF_ITEM: &[&str] = &[
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

/// Tables with rows of a list beside its row: by its key, in the column `list`.
pub(super) const OF_LIST: &[&str] = &["list_edge", "list_page", "list_crawl"];

/// Tables with rows of an account beside its items: by their `namespace` and the column with the account's id. A new table
/// with such rows belongs here.
pub(super) const OF_ACCOUNT: &[(&str, &str)] = &[
    ("visit", "account"),
    ("source_position", "source"),
    ("source_gap", "source"),
    ("community_account", "account"),
    ("community_change", "account"),
    ("community_appearance", "account"),
    ("community_appearance", "source"),
];

/// What an id says of the author: on Bluesky that of a post is an address, `at://did:plc:…/app.bsky.feed.post/…`, and that of a
/// medium begins with the account, `did:plc:…/bafkrei…`.
pub(super) fn author_in(id: &str) -> Option<&str> {
    let (author, _) = id.strip_prefix("at://").unwrap_or(id).split_once('/')?;
    Some(author).filter(|author| author.starts_with("did:"))
}

/// The person behind the rows of a pipeline.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PersonOf {
    /// The network: Twitter's two APIs have the same accounts.
    pub network: String,
    /// True: the id of a row is the account's. False: the row's author is, or its id names it.
    pub by_id: bool,
}

impl PersonOf {
    /// Of that namespace; `None` where its rows are about nobody.
    #[must_use]
    pub fn rows(namespace: &str) -> Option<Self> {
        let id = PipelineId::read(namespace)?;
        let by_id = match &id.kind {
            Kind::Posts => false,
            Kind::Items(word) if word == MEDIA => false,
            Kind::Items(word) if OF_ACCOUNTS.contains(&word.as_str()) => true,
            Kind::Items(_) | Kind::Timelines | Kind::Streams => return None,
        };
        Some(Self { network: network(&id.provider), by_id })
    }
}

/// The network of a provider.
#[must_use]
pub fn network(provider: &Provider) -> String {
    match provider {
        Provider::Twitter | Provider::X => "twitter".to_owned(),
        other => other.to_string(),
    }
}

/// The providers of a person's network, among those that may have rows of it.
#[must_use]
pub fn providers(provider: &Provider) -> Vec<Provider> {
    match provider {
        Provider::Twitter | Provider::X => vec![Provider::Twitter, Provider::X],
        other => vec![other.clone()],
    }
}

/// Returns true for a pipeline of media.
pub(super) fn is_media(namespace: &str) -> bool {
    namespace.strip_prefix(MEDIA).is_some_and(|rest| rest.starts_with(':'))
}

/// Rows that went, or would go, by table.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize)]
pub struct RemovedRows(pub BTreeMap<String, u64>);

impl RemovedRows {
    /// Adds rows of a table.
    pub fn add(&mut self, table: &str, rows: u64) {
        if rows > 0 {
            *self.0.entry(table.to_owned()).or_default() += rows;
        }
    }

    /// The items themselves.
    #[must_use]
    pub fn of_items(&self) -> u64 {
        self.0.get("tweet").copied().unwrap_or(0)
    }

    /// Adds those of another step.
    pub fn extend(&mut self, other: Self) {
        other.0.into_iter().for_each(|(table, rows)| self.add(&table, rows));
    }
}

/// Items of a pipeline.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ItemsOf {
    /// The pipeline.
    pub namespace: String,
    /// Their ids.
    pub ids: Vec<String>,
}

/// Forgets people. A person is the id of an account on a [`network`].
///
/// # Errors
/// Those of [`Lifecycle`](super::Lifecycle); every call may be made again.
#[async_trait]
pub trait Forgetting: Send + Sync + std::fmt::Debug {
    /// Keeps a person away from now on; false: it was so already. When it returns, no write that began before is under way.
    /// `at`: ms since the epoch.
    async fn keep_away(&self, network: &str, account: &str, at: Millis) -> Result<bool>;

    /// Checks that the key is at hand where a person is kept away: without it a write cannot recognize that person.
    ///
    /// # Errors
    /// [`StoreError::Schema`](super::StoreError::Schema): the file with the key is missing, or holds another key.
    async fn check_key(&self) -> Result<()>;

    /// Lets a person be stored again; false: nothing kept it away. What was removed stays removed.
    async fn let_back(&self, network: &str, account: &str) -> Result<bool>;

    /// Which of these are kept away, in the order asked.
    async fn are_kept_away(&self, network: &str, accounts: &[String]) -> Result<Vec<bool>>;

    /// All items of a person: its accounts, its posts, and the media whose ids name it. Reads each pipeline of posts and of media
    /// of the network to its end.
    async fn items_of(&self, network: &str, account: &str) -> Result<Vec<ItemsOf>>;

    /// The media of the network that no post shows. They are of no use, and may be what an earlier version stored of a forgotten
    /// person. Reads each pipeline of media of the network to its end.
    async fn media_without_post(&self, network: &str) -> Result<Vec<ItemsOf>>;

    /// The media that none but these posts show.
    async fn media_of_posts(&self, posts: &ItemsOf) -> Result<ItemsOf>;

    /// Removes items with all their rows, and what other items say of them as posts: one transaction, so a few hundred at a time.
    async fn remove_items(&self, items: &ItemsOf) -> Result<RemovedRows>;

    /// The same of posts that nobody wants, in the pipeline `posts`; and up to where the timelines of their accounts and authors
    /// were read is forgotten: whoever follows one later reads it from its beginning. A post stays if its account or its author is
    /// followed; `visits` is the pipeline of visits without its part.
    async fn drop_posts(&self, posts: &str, visits: &str, unwanted: &[UnwantedPost]) -> Result<RemovedRows>;

    /// Removes what there is of an account beside its items, and handles of it that wait for their id.
    async fn remove_account(&self, network: &str, account: &str, handles: &[String]) -> Result<RemovedRows>;

    /// What stays: by table, rows of others whose object names that id. Reads each pipeline of posts of the network to its end.
    async fn mentions_of(&self, network: &str, account: &str) -> Result<RemovedRows>;

    /// Removes the bytes that removed rows left behind: a SQLite file is rewritten, and its WAL emptied. Others cannot write
    /// meanwhile. PostgreSQL leaves it to its vacuum.
    async fn wipe(&self) -> Result<()>;
}

/// Those of the namespaces in which rows of people of that network are.
pub(super) fn of_network(namespaces: impl IntoIterator<Item = String>, network: &str) -> Vec<(String, bool)> {
    let of = |namespace: String| {
        let person = PersonOf::rows(&namespace).filter(|person| person.network == network)?;
        Some((namespace, person.by_id))
    };
    namespaces.into_iter().collect::<BTreeSet<_>>().into_iter().filter_map(of).collect()
}

/// Those of unwanted posts that are dropped: no account that showed one is followed, nor its author. `authors`: of each post.
pub(super) fn dropped(
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

/// The pipeline of the media of a pipeline of posts; `None` where it has none.
pub(super) fn media_namespace(posts: &str) -> Option<String> {
    beside(posts, MEDIA)
}

/// The pipelines that list the posts of a pipeline by their authors: those of profiles, and of the lists of accounts.
pub(super) fn author_namespaces(posts: &str) -> Vec<String> {
    ["profiles", "followers", "friends"].iter().filter_map(|kind| beside(posts, kind)).collect()
}

/// The names of the communities that a pipeline of posts shows accounts to begin with this; `None` where it has none.
pub(super) fn communities_prefix(posts: &str) -> Option<String> {
    beside(posts, "community").map(|namespace| namespace + ":")
}

fn beside(posts: &str, kind: &str) -> Option<String> {
    let id = PipelineId::read(posts).filter(|id| id.kind == Kind::Posts)?;
    Some(PipelineId::items(&id.provider, kind).to_string())
}

/// The namespaces there are in `tweet`, found by leaps over the key: the same text on PostgreSQL and SQLite.
pub(super) const NAMESPACES: &str = "WITH RECURSIVE known (namespace) AS (\
     SELECT MIN(namespace) FROM tweet UNION ALL \
     SELECT (SELECT MIN(namespace) FROM tweet WHERE namespace > known.namespace) FROM known \
     WHERE known.namespace IS NOT NULL) SELECT namespace FROM known WHERE namespace IS NOT NULL";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_person_behind_a_row_is_its_account_or_its_author() {
        let person = |network: &str, by_id| Some(PersonOf { network: network.to_owned(), by_id });
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
            assert_eq!(PersonOf::rows(namespace), of, "{namespace}");
        }
        assert_eq!(media_namespace("x:update").as_deref(), Some("media:x"));
        assert_eq!(author_namespaces("x:update"), ["profiles:x", "followers:x", "friends:x"]);
        let communities = communities_prefix("mastodon:update:social");
        assert_eq!(communities.as_deref(), Some("community:mastodon:social:"));
        assert_eq!((author_namespaces("profiles:x"), communities_prefix("profiles:x")), (Vec::new(), None));
        for id in ["at://did:plc:a/app.bsky.feed.post/1", "did:plc:a/bafkrei"] {
            assert_eq!(author_in(id), Some("did:plc:a"));
        }
        assert_eq!((author_in("did:plc:a"), author_in("1"), author_in("at://a.b/c")), (None, None, None));
    }
}
