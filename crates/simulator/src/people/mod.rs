//! The simulated accounts: each a function of the seed, its number and the time, as the posts are.
//!
//! Accounts have numbers from 0 on; the first 32,768 write the posts. Each network has its own ids for them ([`People::id`],
//! [`People::number`]). By default an account never changes. With
//! [`SimulatorOptions::account_changes`](super::SimulatorOptions::account_changes) one field of a profile changes at a time, and the
//! counts move. With [`accounts_gone`](super::SimulatorOptions::accounts_gone) accounts are suspended or deactivated for a while, and
//! [some of them](super::SimulatorOptions::accounts_deleted) never return. A profile does not change while its account is away.
//!
//! `changes` has the times of changes, `lives` the absences, `ids` the ids and later handles. [`Person`] is the account at one
//! moment, [`People::script`] the list of its changes, [`People::account`] a network's view of it.
//!
//! With [`communities`](super::SimulatorOptions::communities) each account is in a planted group, [`GROUPS`]
//! ([`People::group`]): `communities` has its data and its texts.
//!
//! [`Follows`] has the follows over time ([`People::follows`]), [`People::list`] a network's view of them.

mod changes;
mod communities;
mod follows;
mod groups;
mod ids;
mod lists;
mod lives;
mod network_view;
mod person;
mod rings;
mod script;

pub use self::communities::{GROUPS, Group, MOST_IN_COMMUNITIES};
pub use self::follows::{Follow, Follows, POPULAR};
pub use self::network_view::{
    HANDLE_DOMAIN, OTHER_SERVER, banner, bluesky_picture, mastodon_handle, mastodon_picture, short_link,
    twitter_picture,
};
pub use self::person::{MOST_ACCOUNTS, People, Person};
pub use self::script::ScriptedChange;
