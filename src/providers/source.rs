//! Sources in the settings: each network has an enum of its kinds of timelines, tagged by `kind`.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde::de::value::MapDeserializer;
use serde::de::{DeserializeOwned, Error};

use super::lookup::LookupError;
use super::timeline::{Ask, Page, Rules, Timeline};
use crate::base::clock::{self, Millis};
use crate::model::provider::Provider;
use crate::quota::Credential;

/// Keys of a source, `kind` among them, with their values as texts.
pub type Written = BTreeMap<String, String>;

/// Query or account of a source; `None` if its kind needs none. An error begins with its key, as in `.list_id is a number`.
pub type AsksFor<'a> = Result<Option<&'a str>, String>;

#[derive(Debug, Clone)]
pub struct Source {
    pub timeline: Arc<dyn Timeline>,
    pub query: Option<String>,
}

/// Kinds of timelines of a network, with their keys: a serde enum tagged by `kind` that denies unknown fields. A kind without
/// keys has braces (`Home {}`): serde ignores unknown fields beside a unit.
#[async_trait]
pub trait SourceKind: DeserializeOwned + Debug + Send + Sync + 'static {
    type Api: Clone + Debug + Send + Sync + 'static;

    /// Minimum of `out_of_order`, unless a source sets its own.
    const OUT_OF_ORDER: Duration = Duration::ZERO;

    /// Query or account of the source; an error means that the source is invalid.
    fn asks_for(&self) -> AsksFor<'_>;

    /// Rules of the API for this kind, if ids are out of order by at most `k` ms.
    fn rules(&self, k: Millis) -> Rules;

    async fn page(of: &TimelineOf<Self>, ask: &Ask, credential: &Credential) -> Result<Page, LookupError>;

    /// Timeline whose ids are out of order by at most `k`.
    fn build(self, api: &Self::Api, k: Duration) -> TimelineOf<Self> {
        TimelineOf { rules: self.rules(clock::millis(k)), api: api.clone(), kind: self }
    }
}

#[derive(Debug, Clone)]
pub struct TimelineOf<K: SourceKind> {
    pub api: K::Api,
    pub kind: K,
    pub rules: Rules,
}

#[async_trait]
impl<K: SourceKind> Timeline for TimelineOf<K> {
    fn rules(&self) -> Rules {
        self.rules
    }

    async fn page(&self, ask: &Ask, credential: &Credential) -> Result<Page, LookupError> {
        K::page(self, ask, credential).await
    }
}

/// Reasons why a source is invalid, with the words that serde expects.
#[derive(Debug, thiserror::Error)]
enum Wrong {
    #[error("no such kind")]
    Kind(&'static [&'static str]),
    #[error(".{0} is of no use to this kind of source: leave it out")]
    Key(String, &'static [&'static str]),
    #[error("{0}")]
    Value(String),
}

impl Error for Wrong {
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
        Self::Value(format!(".{key} is missing: it says what is polled"))
    }
}

fn parse<'a, K: SourceKind>(written: impl IntoIterator<Item = (&'a str, &'a str)>) -> Result<K, Wrong> {
    K::deserialize(MapDeserializer::new(written.into_iter()))
}

/// Reads the kind of a source, and its query or account. An error begins with the key, as in `.query is missing`.
pub fn read<K: SourceKind>(of: &Provider, written: &Written) -> Result<(K, Option<String>), String> {
    let kind: K = parse(written.iter().map(|(key, value)| (&**key, &**value))).map_err(|wrong| match wrong {
        Wrong::Kind(kinds) => format!(".kind: {of} has no timeline of that kind, but {}", kinds.join(", ")),
        other => other.to_string(),
    })?;
    let query = kind.asks_for()?.map(str::to_owned);
    Ok((kind, query))
}

/// Words for the kinds, and the keys that they take. Both come from serde's errors about unknown words.
#[must_use]
pub fn words<K: SourceKind>() -> (Vec<&'static str>, Vec<&'static str>) {
    let expected = |kind| match parse::<K>([("kind", kind), ("?", "")]) {
        Err(Wrong::Kind(words) | Wrong::Key(_, words)) => words,
        _ => &[],
    };
    let kinds = expected("?").to_vec();
    let keys = kinds.iter().flat_map(|kind| expected(kind)).copied().collect();
    (kinds, keys)
}

pub fn up_to<'a>(longest: usize, key: &str, text: &'a str) -> AsksFor<'a> {
    must(text.chars().count() <= longest, text, || format!(".{key} is longer than {longest} characters"))
}

/// Accepts a name without its leading sign.
pub fn without<'a>(sign: char, key: &str, name: &'a str) -> AsksFor<'a> {
    must(!name.starts_with(sign), name, || format!(".{key} stands without its {sign}"))
}

pub fn number<'a>(key: &str, id: &'a str) -> AsksFor<'a> {
    must(id.bytes().all(|byte| byte.is_ascii_digit()), id, || format!(".{key} is a number"))
}

/// Accepts the text if `is_so`; otherwise fails with `why`.
pub fn must(is_so: bool, text: &str, why: impl FnOnce() -> String) -> AsksFor<'_> {
    is_so.then_some(Some(text)).ok_or_else(why)
}
