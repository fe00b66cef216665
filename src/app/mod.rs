//! The only wiring: settings → backends → roles.

mod access;
mod apis;
mod call_budget;
pub mod cli;
mod credentials;
pub mod demo;
mod files;
mod follow;
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
mod sources;
mod starters;
mod status;
mod store;
mod tasks;
mod tuning;
mod updater;

pub use self::access::{page_token, starter_token};
pub use self::apis::{announce_apis, api_in_words};
pub use self::call_budget::{CallBudget, Paid};
pub use self::credentials::{callers, credentials, live_budget, open_credentials};
pub use self::files::{queue_is_there, store_is_there};
pub use self::follow::{Follower, InForce};
pub use self::heartbeat::Heartbeat;
pub use self::limits::{enough_files_may_be_open, forbid_core_dumps, raise_open_files_limit};
pub use self::logging::{LogLevel, filter as log_filter, start_logging};
pub use self::maintenance::Maintenance;
pub use self::monitored::Monitored;
pub use self::one_core::keep_to_one_core;
pub use self::ops::{open_site, source_book, terms, whole_queue};
pub use self::poll::{PollerWork, open_poller, pollers};
pub use self::role::{ManagedWorker, Role};
pub use self::service::{Apis, Service, Shared};
pub use self::sources::sources;
pub use self::starters::{dead_of, rebuild_of, starter};
pub use self::status::{errors, ids_per_second_left, status};
pub use self::store::{
    connect_store, fill_details, open_graphs, open_patient_store, open_store, open_tables, open_tables_of_people,
    store_as_it_is, store_name,
};
pub use self::tasks::print_tasks_on_quit;
pub use self::tuning::{budget, fill, read_terms};
pub use self::updater::{open_updater, updaters};

/// A required service is down, or can never serve this process: exit code 69.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Unavailable(pub String);
