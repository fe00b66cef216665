//! Names of pipelines. Only this module builds and parses namespaces.

use std::fmt;

use super::provider::Provider;

pub const NAMESPACE: &str = "tweet:update";
/// The quota ledger of Twitter's API v1.1.
pub const LEDGER: &str = "twitter";

pub const POSTS: &str = "posts";
pub const PROFILES: &str = "profiles";
pub const COMMUNITY: &str = "community";

const TIMELINES: &str = "source:poll";
const STREAMS: &str = "source:stream";

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// Posts that are looked up repeatedly.
    Posts,
    /// Timelines that are polled. The API counts calls per endpoint, so each endpoint is a partition.
    Timelines,
    /// Streams; one process at a time holds a stream open. An account may be connected once, so each account is a partition.
    Streams,
    /// Items of another kind, by the word for them: `things`.
    Items(String),
}

/// A pipeline. Its name is its namespace in queue, store, metrics and on the page.
///
/// ```
/// # use twitter_updater_networks::model::pipeline_id::PipelineId;
/// # use twitter_updater_networks::model::provider::Provider;
/// let social = Provider::Mastodon("social".to_owned());
/// assert_eq!(PipelineId::posts(&Provider::Twitter).to_string(), "tweet:update");
/// assert_eq!(PipelineId::posts(&social).to_string(), "mastodon:update:social");
/// let statuses = PipelineId::timelines(&social, "statuses");
/// assert_eq!(statuses.to_string(), "source:poll:mastodon:social:statuses");
/// assert_eq!(PipelineId::parse("source:poll:mastodon:social:statuses"), Some(statuses));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PipelineId {
    pub provider: Provider,
    pub kind: Kind,
    /// The part of the work, if each part has its own queue.
    pub partition: Option<String>,
}

impl PipelineId {
    #[must_use]
    pub fn posts(provider: &Provider) -> Self {
        Self { provider: provider.clone(), kind: Kind::Posts, partition: None }
    }

    #[must_use]
    pub fn timelines(provider: &Provider, endpoint: &str) -> Self {
        Self { partition: Some(endpoint.to_owned()), ..Self::all_timelines(provider) }
    }

    /// The polled sources of all endpoints. Its name is the prefix of each endpoint's name.
    fn all_timelines(provider: &Provider) -> Self {
        Self { provider: provider.clone(), kind: Kind::Timelines, partition: None }
    }

    #[must_use]
    pub fn stream(provider: &Provider, account: &str) -> Self {
        Self { provider: provider.clone(), kind: Kind::Streams, partition: Some(account.to_owned()) }
    }

    /// `word`: a to z and `_`.
    #[must_use]
    pub fn items(provider: &Provider, word: &str) -> Self {
        Self { provider: provider.clone(), kind: Kind::Items(word.to_owned()), partition: None }
    }

    /// The word for its items; `None` for sources of posts.
    #[must_use]
    pub fn word(&self) -> Option<&str> {
        match &self.kind {
            Kind::Posts => Some(POSTS),
            Kind::Items(word) => Some(word),
            Kind::Timelines | Kind::Streams => None,
        }
    }

    /// Returns true if the namespace holds the items with this word.
    #[must_use]
    pub fn holds_items(namespace: &str, word: &str) -> bool {
        Self::parse(namespace).is_some_and(|id| matches!(id.kind, Kind::Items(items) if items == word))
    }

    /// Parses a pipeline's name; `None` if no pipeline has it.
    #[must_use]
    pub fn parse(namespace: &str) -> Option<Self> {
        let within = |prefix: &str| namespace.strip_prefix(prefix)?.strip_prefix(':');
        let (kind, rest) = match (within(TIMELINES), within(STREAMS)) {
            (Some(rest), _) => (Kind::Timelines, rest),
            (_, Some(rest)) => (Kind::Streams, rest),
            _ => {
                return parse_posts(namespace)
                    .map(|provider| Self::posts(&provider))
                    .or_else(|| parse_items(namespace));
            }
        };
        let of_provider = |(at, _)| Some((rest[..at].parse().ok()?, &rest[at + 1..]));
        let named = rest.match_indices(':').find_map(of_provider);
        let (provider, partition) = match kind {
            Kind::Streams => named?,
            // Twitter's endpoints came first; their names have no provider.
            _ => named.unwrap_or((Provider::Twitter, rest)),
        };
        Some(Self { provider, kind, partition: Some(partition.to_owned()) })
    }
}

fn parse_posts(namespace: &str) -> Option<Provider> {
    let instance = || namespace.strip_prefix("mastodon:update:").map(|name| Provider::Mastodon(name.to_owned()));
    let providers = [Provider::Twitter, Provider::X, Provider::Bluesky];
    providers.into_iter().find(|provider| provider.namespace() == namespace).or_else(instance)
}

/// The items that a namespace holds: `things:x`, or in parts `things:x:p1`.
fn parse_items(namespace: &str) -> Option<PipelineId> {
    let (word, rest) = namespace.split_once(':')?;
    let is_word = !word.is_empty() && word.chars().all(|c| c.is_ascii_lowercase() || c == '_');
    let of = |provider: &str| Some(PipelineId::items(&provider.parse().ok()?, word)).filter(|_| is_word);
    let in_part = || {
        let (provider, part) = rest.rsplit_once(':')?;
        let is_part = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_-".contains(&byte);
        let is_name = !part.is_empty() && part.bytes().all(is_part);
        is_name.then(|| Some(PipelineId { partition: Some(part.to_owned()), ..of(provider)? })).flatten()
    };
    in_part().or_else(|| of(rest))
}

impl fmt::Display for PipelineId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.kind, &self.provider) {
            (Kind::Posts, Provider::Twitter) => f.write_str(NAMESPACE)?,
            (Kind::Posts, Provider::Mastodon(instance)) => write!(f, "mastodon:update:{instance}")?,
            (Kind::Posts, provider) => write!(f, "{provider}:update")?,
            (Kind::Timelines, Provider::Twitter) => f.write_str(TIMELINES)?,
            (Kind::Timelines, provider) => write!(f, "{TIMELINES}:{provider}")?,
            (Kind::Streams, provider) => write!(f, "{STREAMS}:{provider}")?,
            (Kind::Items(word), provider) => write!(f, "{word}:{provider}")?,
        }
        match &self.partition {
            Some(partition) => write!(f, ":{partition}"),
            None => Ok(()),
        }
    }
}

impl Provider {
    #[must_use]
    pub fn namespace(&self) -> String {
        PipelineId::posts(self).to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_read_as_it_was_made() {
        let social = Provider::Mastodon("social".to_owned());
        for provider in [Provider::Twitter, Provider::X, Provider::Bluesky, social] {
            let stream = PipelineId::stream(&provider, "home:1");
            let things = PipelineId::items(&provider, "things");
            let in_part = PipelineId { partition: Some("p7".to_owned()), ..things.clone() };
            let search = PipelineId::timelines(&provider, "tweets/search");
            for id in [PipelineId::posts(&provider), search, stream, things, in_part] {
                assert_eq!(PipelineId::parse(&id.to_string()), Some(id));
            }
        }
    }

    #[test]
    fn names_stay_as_they_are_in_stores_and_queues_of_before() {
        let social = Provider::Mastodon("social".to_owned());
        for (id, name) in [
            (PipelineId::posts(&Provider::X), "x:update"),
            (PipelineId::posts(&Provider::Bluesky), "bluesky:update"),
            (PipelineId::timelines(&Provider::Twitter, "search/tweets"), "source:poll:search/tweets"),
            (PipelineId::timelines(&social, "timelines/tag"), "source:poll:mastodon:social:timelines/tag"),
            (PipelineId::all_timelines(&Provider::Twitter), "source:poll"),
            (PipelineId::all_timelines(&Provider::X), "source:poll:x"),
            (PipelineId::stream(&Provider::Twitter, "a"), "source:stream:twitter:a"),
        ] {
            assert_eq!(id.to_string(), name);
        }
        assert_eq!(
            (Provider::Twitter.namespace(), Provider::Twitter.ledger()),
            (NAMESPACE.to_owned(), LEDGER.to_owned())
        );
        for other in ["", "tweet", "tweet:update:2", "source:stream:unknown", "thing:update"] {
            assert_eq!(PipelineId::parse(other), None, "{other}");
        }
    }
}
