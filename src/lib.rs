//! Keeps every tweet of a system fresh, by its age, within an API quota, and loses none.
//!
//! ```text
//!  existing ingest ─▶ starter ─queue_tweet─▶ queue ─claim ≤ 100─▶ updater ─request_tweets─▶ Twitter
//!                                              ▲                     │ save_tweets ─▶ store
//!                                              └── promote_tweets ◀──┘ (by age, or the end of its life)
//! ```
//!
//! Any number of updaters share nothing but the queue and the store. A claim is a lease; a worker that
//! dies loses nothing, and nobody has to rescue anything.
//!
//! # The modules, in reading order
//!
//! Words, no I/O:
//! - [`clock`] — the only place that reads a clock, and whose clock counts
//! - [`chance`] — the only place that draws lots: names and jitter
//! - [`tweet`], [`lane`], [`lateness`], [`tweet_age`] — ids, tweets, states; lanes; how late; how often by age
//! - [`config`] — settings: compiled-in defaults, files, the environment; what changed
//! - [`live`] — a value that may change while it is used
//! - [`retry`], [`shutdown`], [`metrics`], [`health`] — delays, stopping in two steps, what is counted, what a
//!   process knows of itself
//! - [`figures`] — numbers, spans and moments for people
//! - [`crash`] — points at which tests end the process
//!
//! - [`wave`] — whether far more posts are missing than usual
//! - [`backend`] — Redis and SQLite as the queue and the quota ledger use them; a file that has lost its name
//!
//! The seams, each a trait with its backends:
//! - [`queue`] — the delayed queue with leases; Redis, or one SQLite file
//! - [`store`] — the current state of each tweet and the history of its counts; PostgreSQL or SQLite
//! - [`lookup`] — a provider: ids in, one outcome per asked id out; Twitter v1.1, X API v2, Mastodon, Bluesky
//! - [`credential`] — who asks, and the leave to make one call
//!
//! The flow:
//! - [`starter`] — puts tweets into the queue: library call, files, HTTP, the `incoming` set; and what it lost
//! - [`worker`] — THE loop: permit → claim → handle → settle; knows no tweets
//! - [`poll`] — starters that ask a network for what is new, and miss nothing
//! - [`updater`] — the handler: `request_tweets`, `save_tweets`, `promote_tweets`
//! - [`ops`] — what is seen of a process, and of the whole queue, from outside
//!
//! Around it: [`app`] (the only wiring), [`cli`] (a file per subcommand, exit codes), [`plan`] (how many
//! credentials), [`overload`] (whether they suffice), [`accounts`], [`sources`] and [`status`] (for people), [`picture`]
//! (the same for redis-cli), [`dead`] (what a person does about them), [`simulator`] (a faithful fake API), [`demo`].
//!
//! Imports go one way: `cli → app → roles → worker → queue | lookup | credential | store → words`;
//! queue, lookup and store never import each other or a role. `tests/it/layers.rs` holds this.
//!
//! # Invariants
//!
//! Each names the tests that fail when it does not hold. Beside them, `model` checks 1 to 4 in every order of
//! events at a small size, `simulation::seeds` checks them through random scenarios of the real worker and
//! updater, and `state_machine` holds both queues to the rules those two are run on.
//!
//! 1. **One place.** An id is delayed (in one lane), leased, dead, or its life has ended and the store
//!    says so; never nowhere. What adds is written before what removes; found in two places, leased
//!    wins. — `queue::random_commands_leave_each_id_in_one_place`, `queue::redis_only::found_in_two_places_leased_wins`,
//!    `load::kill`, `faults::crash`, `faults::redis`, `faults::network`
//! 2. **A claim is a lease** by the queue's clock. Leases that ran out are claimable at once by the next
//!    claim. — `queue::an_expired_lease_needs_no_rescuer`
//! 3. **The fence** is the lease's deadline, unique and rising; a settle after it changes nothing. —
//!    `queue::fences_are_unique_and_rise`, `queue::a_settle_after_the_lease_changes_nothing`,
//!    `queue::failover::a_clock_that_stepped_back_delays_and_breaks_nothing`
//! 4. **Save comes before settle**, may be repeated, and an older answer never overwrites a newer one;
//!    an answer is dated by the queue's clock, inside its lease. — `updater`, `store`, `simulation::seeds`,
//!    `faults::store`
//! 5. **An outage is nobody's fault**: whole-request failures give the ids back with their old due time,
//!    uncounted. Deliveries only make a suspect's batch smaller. What keeps failing while others are answered
//!    becomes a suspect, and no more. — `updater`, `worker`, `simulation::outage`,
//!    `faults::store`, `queue::an_expired_batch_is_halved_until_each_is_alone`
//! 6. **Dead and ended are in the store before the queue hears of it**, so a wiped queue is rebuilt from
//!    the store and revives neither. — `updater`, `rebuild`
//! 7. **Nothing is held across the lookup but the lease.** — by construction: [`updater`] takes a
//!    connection only inside a store call
//! 8. **Ids stay text**; scores are whole milliseconds. — `queue::many_claimers_share_without_overlap`
//! 9. **A worker keeps nothing that matters** between two rounds. — `load::kill`

pub mod app;
pub mod base;
pub mod config;
pub mod engine;
pub mod ingest;
pub mod model;
pub mod ops;
pub mod pipelines;
pub mod providers;
pub mod quota;
pub mod simulator;
pub mod store;
