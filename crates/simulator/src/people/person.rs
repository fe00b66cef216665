//! Accounts at a moment.

use super::changes::{Changes, Field, Versions};
use super::communities::{Communities, MOST_IN_COMMUNITIES};
use super::follows::Follows;
use super::ids::{NUMBER_BITS, did, later_handle, number_of_did, number_of_later_handle};
use super::lives::{Absence, Absences};
use crate::options::SimulatorOptions;
use crate::random::mix;
use crate::text::{
    AUTHORS, HANDLE_ENDS, HANDLE_STARTS, MISSING_USERS, Text, first_display_name, number_with_first_handle,
    number_with_id, screen_name, user_id,
};
use crate::timeline::Timelines;
use engine::base::clock::Millis;
use networks::model::account::AccountState;
use networks::model::post::TweetId;
use networks::model::provider::Provider;

pub const MOST_ACCOUNTS: u64 = 1 << NUMBER_BITS;

/// One simulated account at one moment. During an absence (suspended, deactivated, deleted) its profile is that of the last moment
/// before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Person {
    pub number: u64,
    /// Its true state. Networks do not report all of it.
    pub state: AccountState,
    /// Its handle, at Bluesky without the domain.
    pub handle: String,
    pub display_name: String,
    /// The description as text; Mastodon writes it as HTML.
    pub description: String,
    pub location: String,
    /// The address in its profile (Twitter, X); empty if there is none.
    pub url: String,
    /// The name of the picture's file; each network makes an address of it.
    pub picture: String,
    pub protected: bool,
    pub verified: bool,
    pub created_at: Millis,
    pub followers: u64,
    pub following: u64,
    pub posts: u64,
    pub listed: u64,
    pub likes: u64,
    /// Its newest post in its timeline; `None` for an account that does not post, and if accounts never change.
    pub last_post: Option<TweetId>,
    pub remote: bool,
}

impl Person {
    #[must_use]
    pub fn is_away(&self) -> bool {
        !matches!(self.state, AccountState::Live | AccountState::Protected)
    }
}

#[derive(Debug, Clone)]
pub struct People {
    count: u64,
    since: Millis,
    pub(super) changes: Changes,
    pub(super) absences: Absences,
    pub(super) follows: Follows,
    pub(super) seed: u64,
    pub(super) lists_hidden: f64,
    pub(super) accounts_remote: f64,
    pub(super) communities: Option<Communities>,
    counts_follows: bool,
    timelines: Timelines,
    has_absences: bool,
}

impl People {
    #[must_use]
    pub fn new(options: &SimulatorOptions) -> Self {
        let count = options.accounts.clamp(1, if options.communities { MOST_IN_COMMUNITIES } else { MOST_ACCOUNTS });
        Self {
            count,
            since: options.accounts_since,
            changes: Changes::new(options),
            absences: Absences::new(options),
            follows: Follows::new(options, count),
            seed: options.seed,
            lists_hidden: options.lists_hidden,
            accounts_remote: options.accounts_remote,
            communities: Communities::new(options, count),
            counts_follows: options.count_follows || options.communities && options.follow_changes.is_zero(),
            timelines: Timelines::new(options),
            has_absences: options.accounts_gone > 0.0,
        }
    }

    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Returns true if accounts change, or are away at times.
    #[must_use]
    pub fn are_changing(&self) -> bool {
        self.changes.is_enabled() || self.has_absences
    }

    /// The id of an account at a network: digits, or a DID at Bluesky.
    #[must_use]
    pub fn id(&self, provider: &Provider, number: u64) -> String {
        match provider {
            Provider::Bluesky => did(number),
            Provider::Twitter | Provider::X | Provider::Mastodon(_) => user_id(number).to_string(),
        }
    }

    /// Number of the account with that id; `None` if there is none.
    #[must_use]
    pub fn number(&self, provider: &Provider, id: &str) -> Option<u64> {
        let number = match provider {
            _ if MISSING_USERS.contains(&id) => None,
            Provider::Bluesky => number_of_did(id),
            Provider::Twitter | Provider::X | Provider::Mastodon(_) => number_with_id(id.parse().ok()?),
        };
        number.filter(|number| *number < self.count)
    }

    /// Number of the account that has a handle at that time; capitals are ignored. A given-up handle is free, or the neighbour's.
    #[must_use]
    pub fn number_with_handle(&self, handle: &str, at: Millis) -> Option<u64> {
        if MISSING_USERS.contains(&handle) {
            return None;
        }
        let handle = handle.to_ascii_lowercase();
        let first = number_with_first_handle(&handle).filter(|number| *number < self.count);
        if !self.changes.is_enabled() {
            return first;
        }
        let later = || number_of_later_handle(&handle).filter(|number| *number < self.count);
        let owner = first.or_else(later)?;
        let has_it = |number: &u64| *number < self.count && self.person_at(*number, at).handle == handle;
        [owner, neighbour(owner)].into_iter().find(has_it)
    }

    /// The number of the author with a handle or a DID at that time; `None` for an account that does not post.
    #[must_use]
    pub fn author_at(&self, text: &str, at: Millis) -> Option<u64> {
        let number = number_of_did(text).or_else(|| self.number_with_handle(text, at));
        number.filter(|number| *number < AUTHORS.min(self.count))
    }

    #[must_use]
    pub fn person_at(&self, number: u64, at: Millis) -> Person {
        let away = self.absences.absence_at(number, at);
        // Deleted accounts may be away for very long: their profile at the start of the absence counts.
        let seen = away.map_or(at, |Absence { from, .. }| from.min(at));
        let versions = self.changes.versions(number, seen, &self.absences);
        let protected = versions.slot(Field::Protected).is_some_and(|slot| self.draw(PROTECTED, number, slot) & 3 == 0);
        let random = mix(user_id(number));
        let posts = self.are_changing() && number < AUTHORS;
        let newest = posts.then(|| self.timelines.newest_post(number, seen)).flatten();
        let posted = if posts { self.timelines.count_posts(number, self.since, seen) } else { 0 };
        // Counts move once or more between two changes. Followers and likes only rise; the number of follows goes up and down.
        let elapsed = self.changes.elapsed(seen);
        let risen = |times: u64| (elapsed * times as f64) as u64;
        let steps = (elapsed * 2.0) as i64;
        let counted = self.counts_follows.then(|| self.follows.list_lengths(number, seen));
        Person {
            number,
            state: away.map_or_else(|| AccountState::from_protected(Some(protected)), |away| away.state),
            handle: self.handle(number, seen, versions.slot(Field::Handle)),
            display_name: self.display_name(number, &versions),
            description: self.description(number, &versions),
            location: self.location(number, &versions),
            url: self.url(number, &versions),
            picture: versions.slot(Field::Picture).map_or_else(|| "face".to_owned(), |slot| format!("face{slot}")),
            protected,
            verified: versions.slot(Field::Verified).is_some_and(|slot| self.draw(VERIFIED, number, slot) & 1 == 0),
            created_at: account_created_at(number),
            followers: counted.map_or_else(|| random % 50_000 + risen(1 + random % 7), |(followers, _)| followers),
            following: counted.map_or_else(
                || (random >> 16) % 5_000 + if steps > 0 { self.draw(FOLLOWING, number, steps) % 16 } else { 0 },
                |(_, following)| following,
            ),
            posts: (random >> 24) % 90_000 + posted,
            listed: (random >> 32) % 100 + risen(1) / 4,
            likes: (random >> 8) % 20_000 + risen(1 + (random >> 40) % 3),
            last_post: newest.map(|post| post.id),
            remote: self.is_remote(number),
        }
    }

    fn draw(&self, salt: u64, number: u64, slot: i64) -> u64 {
        self.changes.random(salt, number, slot)
    }

    /// Handle of an account at that time. One change of four takes the last handle that the neighbour gave up, unless that was taken over.
    fn handle(&self, number: u64, at: Millis, changed: Option<i64>) -> String {
        let Some(slot) = changed else { return screen_name(number) };
        let takes = |number: u64, slot: i64| self.draw(TAKES, number, slot) & 3 == 0;
        let other = neighbour(number);
        if takes(number, slot) && other < self.count {
            let then = self.changes.moment(number, slot).min(at);
            match self.changes.last_handle_slots(other, then, &self.absences) {
                (Some(_), None) => return screen_name(other),
                (Some(_), Some(given_up)) if !takes(other, given_up) => return later_handle(other, given_up),
                _ => {}
            }
        }
        later_handle(number, slot)
    }

    pub(crate) fn first_display_name(&self, number: u64) -> String {
        self.communities
            .map_or_else(|| first_display_name(number), |communities| communities.name(number, version_of_slot(None)))
    }

    fn display_name(&self, number: u64, versions: &Versions) -> String {
        if let Some(communities) = self.communities {
            return communities.name(number, version_of_slot(versions.slot(Field::DisplayName)));
        }
        let Some(slot) = versions.slot(Field::DisplayName) else { return first_display_name(number) };
        let random = self.draw(DISPLAY_NAME, number, slot);
        let pick = |from: &[&'static str], shift: u32| from[(random >> shift) as usize % from.len()];
        format!("{} {}{}", pick(&HANDLE_ENDS, 8), pick(&HANDLE_STARTS, 16), pick(&ENDS, 24))
    }

    /// One description of eight is empty.
    fn description(&self, number: u64, versions: &Versions) -> String {
        if let Some(communities) = self.communities {
            return communities.description(number, version_of_slot(versions.slot(Field::Description)));
        }
        let Some(slot) = versions.slot(Field::Description) else { return Text::random(user_id(number)).text };
        let random = self.draw(DESCRIPTION, number, slot);
        if random.is_multiple_of(8) { String::new() } else { Text::random(random).text }
    }

    fn location(&self, number: u64, versions: &Versions) -> String {
        if let Some(communities) = self.communities {
            return communities.location(number, version_of_slot(versions.slot(Field::Location)));
        }
        let Some(slot) = versions.slot(Field::Location) else { return "Planet Earth".to_owned() };
        PLACES[(self.draw(LOCATION, number, slot) % PLACES.len() as u64) as usize].to_owned()
    }

    fn url(&self, number: u64, versions: &Versions) -> String {
        let random = versions.slot(Field::Url).map(|slot| self.draw(URL, number, slot));
        random
            .filter(|random| random & 3 > 0)
            .map(|random| format!("https://example.org/{:010x}", random >> 24))
            .unwrap_or_default()
    }
}

/// The version of a planted profile's field that was set in a slot; the first one is 0.
fn version_of_slot(slot: Option<i64>) -> i64 {
    slot.map_or(0, |slot| slot + 1)
}

/// The account whose old handles an account may take.
fn neighbour(number: u64) -> u64 {
    number ^ 1
}

/// Creation time of an account, in ms since the epoch: from 2007 to 2010.
fn account_created_at(number: u64) -> Millis {
    1_167_609_600_000 + (mix(user_id(number)) % 100_000_000) as Millis * 1_000
}

const ENDS: [&str; 6] = ["", " 🌍", ", PhD", " 日本", " é", " \"on leave\""];
const PLACES: [&str; 8] = ["", "Porto, Portugal", "Brasil", "Zürich", "東京", "Lisboa", "here & there", "São Paulo"];

const TAKES: u64 = 141;
const DISPLAY_NAME: u64 = 142;
const DESCRIPTION: u64 = 143;
const LOCATION: u64 = 144;
const URL: u64 = 145;
const VERIFIED: u64 = 146;
const PROTECTED: u64 = 147;
const FOLLOWING: u64 = 148;
