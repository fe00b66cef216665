//! The timelines that the settings name.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;

use crate::config::{BadConfig, Settings, SourceKind, SourceSettings};
use crate::model::provider::Provider;
use crate::pipelines::apis::open_api;
use crate::providers::bluesky::timeline::{self as bluesky, BlueskyApi};
use crate::providers::mastodon::timeline::{self as mastodon, MastodonApi};
use crate::providers::timeline::Timeline;
use crate::providers::twitter_v1::timeline::{self as twitter_v1, TwitterApi};
use crate::providers::x_v2::timeline::{self as x_v2, XApi};

/// The sources of a provider, by endpoint and name.
pub type Sources = BTreeMap<&'static str, BTreeMap<String, Arc<dyn Timeline>>>;

/// The API of a provider.
enum Api {
    Twitter(TwitterApi),
    X(XApi),
    Mastodon(MastodonApi),
    Bluesky(BlueskyApi),
}

impl Api {
    fn open(settings: &Settings, provider: &Provider) -> Result<Self> {
        let x_fields = settings.x_fields()?;
        open_api(settings, provider, |http, address| match provider {
            Provider::Twitter => TwitterApi::new(http, address).map(Self::Twitter),
            Provider::X => XApi::new(http, address, x_fields).map(Self::X),
            Provider::Mastodon(_) => MastodonApi::new(http, address).map(Self::Mastodon),
            Provider::Bluesky => BlueskyApi::new(http, address).map(Self::Bluesky),
        })
    }

    /// The timeline of a source; `None` for a kind that the provider does not have.
    fn timeline(&self, source: &SourceSettings, k: Duration) -> Option<Arc<dyn Timeline>> {
        let SourceSettings { query, screen_name, list_id, user_id, hashtag, account_id, actor, local, .. } =
            source.clone();
        Some(match self {
            Self::Twitter(api) => {
                use twitter_v1::Kind::{Home, List, Search, User};
                let kind = match source.kind {
                    SourceKind::Search => Search { query },
                    SourceKind::User => User { screen_name },
                    SourceKind::List => List { list_id },
                    SourceKind::Home => Home,
                    _ => return None,
                };
                Arc::new(api.timeline(kind, k))
            }
            Self::X(api) => {
                let kind = match source.kind {
                    SourceKind::Search => x_v2::Kind::Search { query },
                    SourceKind::User => x_v2::Kind::User { user_id },
                    _ => return None,
                };
                Arc::new(api.timeline(kind, k))
            }
            Self::Mastodon(api) => {
                let kind = match source.kind {
                    SourceKind::Public => mastodon::Kind::Public { local },
                    SourceKind::Hashtag => mastodon::Kind::Hashtag { hashtag, local },
                    SourceKind::Account => mastodon::Kind::Account { account_id },
                    _ => return None,
                };
                Arc::new(api.timeline(kind, k))
            }
            Self::Bluesky(api) => {
                let kind = match source.kind {
                    SourceKind::Author => bluesky::Kind::Author { actor },
                    SourceKind::Search => bluesky::Kind::Search { query },
                    _ => return None,
                };
                Arc::new(api.timeline(kind, k))
            }
        })
    }
}

/// The timelines that the settings name, by provider.
///
/// # Errors
/// There is none, an API's address is none, or a provider has no such timeline.
pub fn sources(settings: &Settings) -> Result<BTreeMap<Provider, Sources>> {
    if settings.poll.sources.is_empty() {
        let why = "no source to poll: name one in [poll.sources.NAME], with its kind".to_owned();
        return Err(BadConfig(why).into());
    }
    let mut all: BTreeMap<Provider, (Api, Sources)> = BTreeMap::new();
    for (name, source) in &settings.poll.sources {
        if !all.contains_key(&source.provider) {
            let api = Api::open(settings, &source.provider)?;
            all.insert(source.provider.clone(), (api, Sources::new()));
        }
        let usual = match source.provider {
            Provider::Bluesky => settings.poll.out_of_order.max(bluesky::OUT_OF_ORDER),
            _ => settings.poll.out_of_order,
        };
        let k = source.out_of_order.unwrap_or(usual);
        let timeline = all.get_mut(&source.provider).and_then(|(api, of)| Some((api.timeline(source, k)?, of)));
        let Some((timeline, of_provider)) = timeline else {
            let why = format!("poll.sources.{name}.kind: {} has no timeline of that kind", source.provider);
            return Err(BadConfig(why).into());
        };
        of_provider.entry(timeline.rules().endpoint).or_default().insert(name.clone(), timeline);
    }
    Ok(all.into_iter().map(|(provider, (_, sources))| (provider, sources)).collect())
}
