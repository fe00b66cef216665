//! Wiring of settings, backends and roles.

mod access;
mod apis;
mod call_budget;
pub mod cli;
mod config_follower;
mod credentials;
#[cfg(feature = "demo")]
pub mod demo;
mod files;
mod handles;
mod heartbeat;
mod intervals;
mod limits;
mod logging;
mod maintenance;
mod monitored;
mod one_core;
mod ops;
mod poll;
mod role;
mod service;
#[cfg(feature = "demo")]
mod simulator_options;
mod sources;
mod starters;
mod status;
mod store;
mod tasks;
mod tuning;
mod updater;

pub use self::access::{page_token, starter_token};
pub use self::apis::{announce_apis, describe_api};
pub use self::call_budget::{CallBudget, MeteredEndpoint};
pub use self::config_follower::{ActiveConfig, ConfigFollower};
pub use self::credentials::{callers, credentials, live_budget, open_credentials};
pub use self::files::{check_queue_file, check_store_file};
pub use self::heartbeat::Heartbeat;
pub use self::limits::{check_open_files_limit, forbid_core_dumps, raise_open_files_limit};
pub use self::logging::{LogLevel, log_filter, start_logging};
pub use self::maintenance::Maintenance;
pub use self::monitored::MonitoredPipeline;
pub use self::one_core::pin_to_one_core;
pub use self::ops::{figure_settings, open_site, open_whole_queue, source_book};
pub use self::poll::{PollerWork, open_poller, pollers};
pub use self::role::{ManagedWorker, Role};
pub use self::service::{Apis, Service, SharedServices, function_library};
#[cfg(feature = "demo")]
pub use self::simulator_options::simulator_options;
pub use self::sources::sources;
pub use self::starters::{new_dead_posts, new_rebuild, starter};
pub use self::status::{errors, ids_per_second_left, status};
pub use self::store::{
    connect_existing_store, connect_store, open_graphs, open_store, open_store_without_timeout, open_tables,
    open_tables_and_forgetting, store_address,
};
pub use self::tasks::print_tasks_on_quit;
pub use self::tuning::{budget, read_terms, request_fill};
pub use self::updater::{open_updater, updaters};

/// A required service is down, or can never serve this process: exit code 69.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Unavailable(pub String);
