//! Sources in the settings: each network has an enum of its kinds of timelines, tagged by `kind`.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde::de::value::MapDeserializer;
use serde::de::{DeserializeOwned, Error};

use super::lookup::LookupError;
use super::timeline::{Page, Rules, Timeline, TimelineRequest};
use crate::model::provider::Provider;
use engine::base::clock::{self, Millis};
use engine::quota::Credential;

/// Keys of a source, `kind` among them, with their values as texts.
pub type SourceKeys = BTreeMap<String, String>;

/// Query or account of a source; `None` if its kind needs none. An error begins with its key, as in `.list_id is a number`.
pub type SourceQuery<'a> = Result<Option<&'a str>, SourceError>;

#[derive(Debug, Clone)]
pub struct Source {
    pub timeline: Arc<dyn Timeline>,
    pub query: Option<String>,
}

/// Kinds of timelines of a network: a serde enum tagged by `kind` that denies unknown fields. A kind without keys has braces
/// (`Home {}`): serde ignores unknown fields beside a unit.
#[async_trait]
pub trait SourceKind: DeserializeOwned + Debug + Send + Sync + 'static {
    type Api: Clone + Debug + Send + Sync + 'static;

    /// Minimum of `out_of_order`, unless a source sets its own.
    const OUT_OF_ORDER: Duration = Duration::ZERO;

    /// Query or account of the source; an error means that the source is invalid.
    fn source_query(&self) -> SourceQuery<'_>;

    /// Rules of the API for this kind, if ids are out of order by at most `k` ms.
    fn rules(&self, k: Millis) -> Rules;

    async fn page(
        timeline: &NetworkTimeline<Self>,
        ask: &TimelineRequest,
        credential: &Credential,
    ) -> Result<Page, LookupError>;

    /// Timeline whose ids are out of order by at most `k`.
    fn build(self, api: &Self::Api, k: Duration) -> NetworkTimeline<Self> {
        NetworkTimeline { rules: self.rules(clock::millis(k)), api: api.clone(), kind: self }
    }
}

#[derive(Debug, Clone)]
pub struct NetworkTimeline<K: SourceKind> {
    pub api: K::Api,
    pub kind: K,
    pub rules: Rules,
}

#[async_trait]
impl<K: SourceKind> Timeline for NetworkTimeline<K> {
    fn rules(&self) -> Rules {
        self.rules
    }

    async fn page(&self, ask: &TimelineRequest, credential: &Credential) -> Result<Page, LookupError> {
        K::page(self, ask, credential).await
    }
}

/// Reasons why a source is invalid, with the words that serde expects. A text begins with the key.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum SourceError {
    #[error(".kind is unknown")]
    Kind(&'static [&'static str]),
    #[error(".{0} does not apply to this kind of source: remove it")]
    Key(String, &'static [&'static str]),
    #[error("{0}")]
    Value(String),
}

impl Error for SourceError {
    fn custom<T: std::fmt::Display>(why: T) -> Self {
        Self::Value(why.to_string())
    }

    fn unknown_variant(_: &str, expected: &'static [&'static str]) -> Self {
        Self::Kind(expected)
    }

    fn unknown_field(key: &str, expected: &'static [&'static str]) -> Self {
        Self::Key(key.to_owned(), expected)
    }

    fn missing_field(key: &'static str) -> Self {
        Self::Value(format!(".{key} is missing: it names the timeline"))
    }
}

fn parse<'a, K: SourceKind>(written: impl IntoIterator<Item = (&'a str, &'a str)>) -> Result<K, SourceError> {
    K::deserialize(MapDeserializer::new(written.into_iter()))
}

/// Reads the kind of a source, and its query or account. An error begins with the key, as in `.query is missing`.
pub fn read<K: SourceKind>(of: &Provider, written: &SourceKeys) -> Result<(K, Option<String>), SourceError> {
    let kind: K = parse(written.iter().map(|(key, value)| (&**key, &**value))).map_err(|wrong| match wrong {
        SourceError::Kind(kinds) => {
            SourceError::Value(format!(".kind: {of} has no timeline of that kind, but {}", kinds.join(", ")))
        }
        other => other,
    })?;
    let query = kind.source_query()?.map(str::to_owned);
    Ok((kind, query))
}

/// Words for the kinds, and the keys that they take. Both come from serde's errors about unknown words.
#[must_use]
pub fn kinds_and_keys<K: SourceKind>() -> (Vec<&'static str>, Vec<&'static str>) {
    let expected = |kind| match parse::<K>([("kind", kind), ("?", "")]) {
        Err(SourceError::Kind(words) | SourceError::Key(_, words)) => words,
        _ => &[],
    };
    let kinds = expected("?").to_vec();
    let keys = kinds.iter().flat_map(|kind| expected(kind)).copied().collect();
    (kinds, keys)
}

pub fn check_length<'a>(longest: usize, key: &str, text: &'a str) -> SourceQuery<'a> {
    accept_if(text.chars().count() <= longest, text, || format!(".{key} is longer than {longest} characters"))
}

/// Accepts a name without its leading sign.
pub fn check_no_sign<'a>(sign: char, key: &str, name: &'a str) -> SourceQuery<'a> {
    accept_if(!name.starts_with(sign), name, || format!(".{key} must not start with {sign}"))
}

pub fn check_number<'a>(key: &str, id: &'a str) -> SourceQuery<'a> {
    accept_if(id.bytes().all(|byte| byte.is_ascii_digit()), id, || format!(".{key} must be a number"))
}

/// Accepts the text if `is_so`; otherwise fails with `why`.
pub fn accept_if(is_so: bool, text: &str, why: impl FnOnce() -> String) -> SourceQuery<'_> {
    is_so.then_some(Some(text)).ok_or_else(|| SourceError::Value(why()))
}
