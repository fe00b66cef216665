//! Polling starters: which id they ask from, how they page back, how often they come, and that nothing is
//! missed.

mod bluesky;
mod come_and_go;
mod first_page;
mod losses;
mod networks;
mod pace;
mod paging;
mod process;
mod providers;
mod recorded;
mod seen;
mod since;
mod source;
mod stream;
mod timeline;
mod worlds;

use twitter_updater::model::pipeline_id::PipelineId;
use twitter_updater::model::provider::Provider;

/// The namespace of the sources that are polled at that endpoint of Twitter.
pub fn polled(endpoint: &str) -> String {
    PipelineId::timelines(&Provider::Twitter, endpoint).to_string()
}
