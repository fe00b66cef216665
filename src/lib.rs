//! Repeats lookups of the counts and text of stored posts, each as often as its age requires, within an API quota.
//!
//! ```text
//!  existing ingest ─▶ starter ─queue_tweet─▶ queue ─claim ≤ 100─▶ updater ─── request ──▶ network
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
//! files: `tests/it/layers.rs` checks both. Each crate has a README; `docs/architecture.md` describes the seams.
//!
//! - This one, the program: [`app`] — command line ([`app::cli`], a file per subcommand), wiring, one harness for all roles,
//!   the demo; [`ops`] — page, metrics, probes, reports; `data` — export, forget, prune, dead items, training
//! - `crates/collect`: [`pipelines`] — the kinds of work: schedules, and the effects of answers.
//!   [`pipelines::registry`] has a line per kind. [`pipelines::refresh`] is the machine for batches (request, judge, save,
//!   promote); lists, visits, media and communities share another, which takes one item per claim with a quota and a
//!   batch without. [`ingest`] — the ways in: library call, files, HTTP, the `incoming` set; rebuild and refresh.
//!   [`config`] — settings and their changes
//! - `crates/locate`: [`locate`] — languages of posts, countries of profiles; pure
//! - `crates/store`: [`store`] — the state of each item and the history of its counts; PostgreSQL or SQLite
//! - `crates/simulator`: [`simulator`] — a faithful fake API, a folder per network
//! - `crates/networks`: [`providers`] — the seams to the networks ([`providers::lookup`], [`providers::timeline`],
//!   [`providers::relations`], [`providers::stream`]), and a folder per network; [`model`] — posts and accounts, their ids
//!   and states
//! - `crates/research`: training of the visiting policies, visit orders and partitions from papers; for benches
//! - `crates/engine`: [`engine`] — the delayed queue with leases ([`engine::queue`]), the loop ([`engine::worker`]:
//!   permit → claim → handle → settle), schedules ([`engine::schedule`]), metrics, health; [`quota`] — credentials,
//!   windows, permits and budgets, in one ledger for all processes; [`base`] — the only clock, random numbers, retry,
//!   shutdown, failpoints, connections
//!
//! # Invariants
//!
//! Each invariant names the tests that fail if it does not hold. Besides, `model` checks 1 to 4 in every order of events
//! at a small size, `simulation::seeds` in random scenarios of the real worker and updater. `state_machine` compares both
//! queues with a reference, `QueueModel`.
//!
//! 1. **One place.** An id is delayed (in one lane), leased or dead, or the store has it as ended. Each move adds before
//!    it removes; of two places, leased wins. — `queue::random_commands_leave_each_id_in_one_place`,
//!    `queue::redis_only::found_in_two_places_leased_wins`, `load::kill`, `faults::crash`, `faults::redis`,
//!    `faults::network`
//! 2. **A claim is a lease** by the queue's clock. The next claim may take expired leases at once. —
//!    `queue::an_expired_lease_needs_no_rescuer`
//! 3. **The fence** is the lease's deadline, unique and rising; a settle after it changes nothing. —
//!    `queue::fences_are_unique_and_rise`, `queue::a_settle_after_the_lease_changes_nothing`,
//!    `queue::failover::a_clock_that_stepped_back_delays_and_breaks_nothing`
//! 4. **Save comes before settle**, may be repeated, and an older answer never overwrites a newer one. An answer is dated
//!    by the queue's clock, inside its lease. — `refresh`, `store`, `simulation::seeds`, `faults::store`
//! 5. **An outage is no id's fault**: a failed request returns its ids with their old due time, uncounted. Deliveries
//!    only make a suspect's batch smaller. An id that keeps failing while others succeed becomes a suspect, and no more. —
//!    `refresh`, `worker`, `simulation::outage`, `faults::store`,
//!    `queue::an_expired_batch_is_halved_until_each_is_alone`
//! 6. **Dead and ended are in the store before the queue**, so a rebuild of a wiped queue revives neither. — `refresh`,
//!    `rebuild`
//! 7. **Only the lease is held across a lookup.** — by construction: [`pipelines::refresh`] takes a connection only inside
//!    a store call
//! 8. **Ids stay text**; scores are whole milliseconds. — `queue::many_claimers_share_without_overlap`
//! 9. **A worker keeps nothing that matters** between two rounds. — `load::kill`

pub mod app;
pub mod data;
pub mod ops;
mod table;

pub use collect::{config, ingest, pipelines};
pub use engine::{self, base, quota};
pub use networks::{model, providers};
#[cfg(feature = "demo")]
pub use simulator;
pub use {locate, store};
