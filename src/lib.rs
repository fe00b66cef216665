//! Repeats lookups of the counts and text of stored posts, each as often as its age requires, within an API quota.
//!
//! ```text
//!  existing ingest ─▶ starter ─queue_tweet─▶ queue ─claim ≤ 100─▶ updater ─── request ──▶ Twitter
//!                                              ▲                     │ save ────────▶ store
//!                                              └───── promote ◀─────┘ (by age, or the end of its life)
//! ```
//!
//! Any number of updaters share nothing but the queue and the store. A claim is a lease: if a worker dies, its lease
//! expires and another worker claims its posts. No process has to rescue them.
//!
//! # Crates
//!
//! The highest first. A crate depends on lower ones only, and within a crate imports go one way, without cycles between
//! files: `tests/it/layers.rs` checks both. Each crate has a README.
//!
//! - This one, the program: [`app`] — the command line ([`app::cli`], a file per subcommand), the wiring, one harness for
//!   all roles, the demo; [`ops`] — page, metrics and probes, reports for people ([`ops::report`]), dead posts
//!   ([`ops::dead`])
//! - `crates/collect`: [`pipelines`] — the kinds of work: the schedule of each, and the effects of the API's responses.
//!   [`pipelines::registry`] has a line per kind. [`pipelines::refresh`] is their machine (request, judge, save,
//!   promote); [`pipelines::posts`] is the first kind, [`pipelines::profiles`] that of accounts.
//!   [`pipelines::timelines`] polls, [`pipelines::streams`] listens, [`pipelines::media`] fetches files,
//!   [`pipelines::relations`] reads lists of followers. [`ingest`] — the ways for ids to come in: library call, files,
//!   HTTP, the `incoming` set; rebuild and refresh. [`config`] — settings: compiled-in defaults, files, the
//!   environment; their changes
//! - `crates/locate`: [`locate`] — languages of posts, countries of profiles; pure
//! - `crates/store`: [`store`] — the current state of each post and the history of its counts; PostgreSQL or SQLite
//! - `crates/simulator`: [`simulator`] — a faithful fake API, a folder per network
//! - `crates/networks`: [`providers`] — the seams to the networks ([`providers::lookup`], [`providers::timeline`],
//!   [`providers::relations`], [`providers::stream`]), and a folder per network: Twitter v1.1, X API v2, Mastodon,
//!   Bluesky; [`model`] — posts and accounts, their ids and states; the networks; names of pipelines
//! - `crates/research`: training of the visiting policies, visit orders and partitions from the papers; for benches
//! - `crates/engine`: [`engine`] — the delayed queue with leases ([`engine::queue`]), the loop ([`engine::worker`]:
//!   permit → claim → handle → settle), schedules ([`engine::schedule`]), metrics, health, functions for redis-cli;
//!   [`quota`] — credentials, rate limits, permits, budgets of reads, in one ledger for all processes; [`base`] —
//!   clock (the only one), random numbers, retry, shutdown, reloadable values, failpoints, humanized
//!   numbers, Redis and SQLite connections
//!
//! # Invariants
//!
//! Each invariant names the tests that fail if it does not hold. Besides, `model` checks 1 to 4 in every order of
//! events at a small size. `simulation::seeds` checks them in random scenarios of the real worker and updater.
//! `state_machine` checks both queues against a reference, `QueueModel`.
//!
//! 1. **One place.** An id is delayed (in one lane), leased or dead, or the store has it as ended. Each move adds before
//!    it removes; of two places, leased wins. —
//!    `queue::random_commands_leave_each_id_in_one_place`, `queue::redis_only::found_in_two_places_leased_wins`,
//!    `load::kill`, `faults::crash`, `faults::redis`, `faults::network`
//! 2. **A claim is a lease** by the queue's clock. The next claim may take expired leases at once. —
//!    `queue::an_expired_lease_needs_no_rescuer`
//! 3. **The fence** is the lease's deadline, unique and rising; a settle after it changes nothing. —
//!    `queue::fences_are_unique_and_rise`, `queue::a_settle_after_the_lease_changes_nothing`,
//!    `queue::failover::a_clock_that_stepped_back_delays_and_breaks_nothing`
//! 4. **Save comes before settle**, may be repeated, and an older answer never overwrites a newer one. An answer is
//!    dated by the queue's clock, inside its lease. — `refresh`, `store`, `simulation::seeds`, `faults::store`
//! 5. **An outage is no id's fault**: a failed request returns its ids with their old due time, uncounted. Deliveries
//!    only make a suspect's batch smaller. An id that keeps failing while others succeed becomes a suspect, and no
//!    more. — `refresh`, `worker`, `simulation::outage`, `faults::store`,
//!    `queue::an_expired_batch_is_halved_until_each_is_alone`
//! 6. **Dead and ended are in the store before the queue**, so a wiped queue is rebuilt from the store and revives
//!    neither. — `refresh`, `rebuild`
//! 7. **Nothing is held across the lookup but the lease.** — by construction: [`pipelines::refresh`] takes a connection
//!    only inside a store call
//! 8. **Ids stay text**; scores are whole milliseconds. — `queue::many_claimers_share_without_overlap`
//! 9. **A worker keeps nothing that matters** between two rounds. — `load::kill`

pub mod app;
pub mod ops;

pub use collect::{config, ingest, pipelines};
pub use engine::{self, base, quota};
pub use networks::{model, providers};
#[cfg(feature = "demo")]
pub use simulator;
pub use {locate, store};
