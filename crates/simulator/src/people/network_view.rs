//! Accounts as the networks show them.

use super::person::{People, Person};
use super::script::ScriptedChange;
use crate::text::user_id;
use engine::base::clock::Millis;
use networks::model::account::{Account, AccountCounts, AccountState, Change};
use networks::model::provider::Provider;

const DAY_MS: Millis = 86_400_000;

const INSTANCE: &str = "https://social.example.org";
pub const OTHER_SERVER: &str = "elsewhere.example.org";
pub const HANDLE_DOMAIN: &str = ".bsky.example.org";

#[must_use]
pub fn twitter_picture(person: &Person) -> String {
    format!("https://pbs.twimg.com/profile_images/{}/{}_normal.jpeg", user_id(person.number), person.picture)
}

#[must_use]
pub fn mastodon_picture(person: &Person) -> String {
    format!("{INSTANCE}/avatars/{}/{}.jpeg", user_id(person.number), person.picture)
}

#[must_use]
pub fn short_link(person: &Person) -> String {
    person.url.replacen("https://example.org/", "https://t.co/", 1)
}

/// The handle of an account at Mastodon; with its server if that is another one.
#[must_use]
pub fn mastodon_handle(person: &Person) -> String {
    if person.remote { format!("{}@{OTHER_SERVER}", person.handle) } else { person.handle.clone() }
}

/// The address of Mastodon's placeholder for a missing banner.
#[must_use]
pub fn banner() -> String {
    format!("{INSTANCE}/headers/original/missing.png")
}

#[must_use]
pub fn bluesky_picture(person: &Person, did: &str) -> String {
    format!("https://cdn.bsky.example.org/img/avatar/plain/{did}/{}@jpeg", person.picture)
}

impl People {
    /// Account that a lookup returns at that time, without the raw object; `None` if the network does not return it.
    #[must_use]
    pub fn account(&self, provider: &Provider, number: u64, at: Millis) -> Option<Account> {
        let person = self.person_at(number, at);
        let is_emptied = matches!(provider, Provider::Mastodon(_)) && person.state == AccountState::Suspended;
        if person.is_away() && !is_emptied {
            return None;
        }
        let id = self.id(provider, number);
        let count = |number: u64| i64::try_from(number).ok();
        let counts = AccountCounts {
            followers: count(person.followers),
            following: count(person.following),
            posts: count(person.posts),
            listed: count(person.listed),
            likes: count(person.likes),
        };
        let last_post_at = person.last_post.and_then(|post| post.created_at());
        let own = AccountCounts { listed: None, likes: None, ..counts };
        Some(match provider {
            Provider::Twitter | Provider::X => Account {
                picture: Some(twitter_picture(&person)),
                // v1.1 writes whole seconds.
                last_post_at: last_post_at.map(|at| if *provider == Provider::X { at } else { at / 1_000 * 1_000 }),
                handle: Some(person.handle),
                display_name: Some(person.display_name),
                description: Some(person.description),
                location: Some(person.location),
                url: Some(person.url),
                banner: Some(String::new()),
                protected: Some(person.protected),
                verified: Some(person.verified),
                created_at: Some(person.created_at),
                state: person.state,
                withheld_in: Some(String::new()),
                id,
                counts,
                ..Account::default()
            },
            Provider::Mastodon(_) => {
                let shown = |text: String| Some(text).filter(|_| !is_emptied);
                Account {
                    picture: shown(mastodon_picture(&person)),
                    url: Some(format!("{INSTANCE}/@{}", mastodon_handle(&person))),
                    handle: Some(mastodon_handle(&person)),
                    display_name: shown(person.display_name),
                    description: shown(format!("<p>{}</p>", person.description)),
                    banner: shown(String::new()),
                    protected: Some(person.protected).filter(|_| !is_emptied),
                    created_at: Some(person.created_at),
                    counts: own,
                    last_post_at: last_post_at.map(|at| at / DAY_MS * DAY_MS),
                    state: if is_emptied { AccountState::Suspended } else { AccountState::Live },
                    moved_to: shown(String::new()),
                    id,
                    ..Account::default()
                }
            }
            Provider::Bluesky => Account {
                picture: Some(bluesky_picture(&person, &id)),
                handle: Some(format!("{}{HANDLE_DOMAIN}", person.handle)),
                display_name: Some(person.display_name),
                description: Some(person.description),
                url: Some(person.url),
                banner: Some(String::new()),
                verified: Some(person.verified),
                created_at: Some(person.created_at),
                counts: own,
                state: AccountState::Live,
                id,
                ..Account::default()
            },
        })
    }

    /// The state of an account as far as a network reports it: `unknown` for an account that is omitted without a reason.
    #[must_use]
    pub fn reported_state(&self, provider: &Provider, number: u64, at: Millis) -> AccountState {
        let is_reported = matches!(provider, Provider::X | Provider::Bluesky)
            && self.person_at(number, at).state == AccountState::Suspended;
        match self.account(provider, number, at) {
            Some(account) => account.state,
            None if is_reported => AccountState::Suspended,
            None => AccountState::Unknown,
        }
    }

    /// Changes of an account after `from` until `to` as a network shows them, oldest first: of [`Account::profile`] and of the state.
    #[must_use]
    pub fn visible_changes(&self, provider: &Provider, number: u64, from: Millis, to: Millis) -> Vec<ScriptedChange> {
        let whole = |account: &Account| account.state != AccountState::Suspended;
        let mut state = self.reported_state(provider, number, from);
        let mut known = self.account(provider, number, from).filter(whole);
        let mut script = Vec::new();
        for at in self.moments(number, from, to) {
            let now = self.reported_state(provider, number, at);
            if now != state {
                let change = Change { field: "state", old: state.to_string(), new: now.to_string() };
                script.push(ScriptedChange { at, change });
                state = now;
            }
            if let Some(account) = self.account(provider, number, at).filter(whole) {
                let changes = known.as_ref().map(|known| account.changes(known)).unwrap_or_default();
                script.extend(changes.into_iter().map(|change| ScriptedChange { at, change }));
                known = Some(account);
            }
        }
        script
    }
}
