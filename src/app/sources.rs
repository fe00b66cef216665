//! The configured timelines.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use anyhow::Result;

use collect::config::{BadConfig, Settings};
use collect::pipelines::apis::open_api;
use networks::model::provider::Provider;
use networks::providers::registry::source_kinds;
use networks::providers::source::Source;

pub type Sources = BTreeMap<&'static str, BTreeMap<String, Source>>;

/// Returns the configured timelines by provider; none at all is an error.
pub fn sources(settings: &Settings) -> Result<BTreeMap<Provider, Sources>> {
    let poll = &settings.poll;
    if poll.sources.is_empty() {
        let why = "no source to poll: name one in [poll.sources.NAME], with its kind".to_owned();
        return Err(BadConfig(why).into());
    }
    let mut all = BTreeMap::new();
    for (name, source) in &poll.sources {
        let (provider, kinds) = (&source.provider, source_kinds(&source.provider));
        let k = source.out_of_order.unwrap_or(poll.out_of_order.max(kinds.out_of_order));
        let (build, of_provider) = match all.entry(provider.clone()) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => {
                let fields = settings.x_fields()?;
                let build = open_api(settings, provider, |http, address| (kinds.open)(http, address, fields))?;
                entry.insert((build, Sources::new()))
            }
        };
        let source = build(provider, &source.source_keys(), k);
        let source = source.map_err(|why| BadConfig(format!("poll.sources.{name}{why}")))?;
        of_provider.entry(source.timeline.rules().endpoint).or_default().insert(name.clone(), source);
    }
    Ok(all.into_iter().map(|(provider, (_, sources))| (provider, sources)).collect())
}
