//! Accounts of the networks: their fields in an API response, and the states of their life. No I/O.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use serde::Serialize;

use super::words::UnknownWord;
use engine::base::activity::Activity;
use engine::base::clock::Millis;

/// Counts of an account. `None`: the network has no such count, or the object does not state it. A `None` never
/// overwrites a stored count.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, sqlx_macros::FromRow)]
pub struct AccountCounts {
    pub followers: Option<i64>,
    pub following: Option<i64>,
    /// Posts that it wrote, reposts included.
    pub posts: Option<i64>,
    /// Lists that contain it (Twitter, X).
    pub listed: Option<i64>,
    /// Posts that it likes (Twitter, X).
    pub likes: Option<i64>,
}

/// An account in an API response.
///
/// A text is `None` if the object does not state it, and empty if the account has none. The store treats the two
/// differently: the author object in a post has no description, so the stored description stays.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Account {
    /// Digits (Twitter, X), opaque (Mastodon), a DID (Bluesky). A handle moves from one account to another; an id does not.
    pub id: String,
    /// Handle without `@`: `user`, on Mastodon also `user@server`, on Bluesky a domain.
    pub handle: Option<String>,
    pub display_name: Option<String>,
    /// The owner's description, as the API writes it: HTML on Mastodon.
    pub description: Option<String>,
    /// Location in the owner's words: free text (Twitter, X).
    pub location: Option<String>,
    /// Address in the profile. Twitter and X: in full, not the short link (`t.co`). Mastodon: the profile's own page.
    pub url: Option<String>,
    pub picture: Option<String>,
    pub banner: Option<String>,
    /// True if the owner must approve followers. Twitter and X then hide all of its posts. Mastodon (`locked`) hides only
    /// the posts that were written for followers.
    pub protected: Option<bool>,
    /// True if the network vouches for it. Mastodon vouches for no account.
    pub verified: Option<bool>,
    /// Creation time, ms since the epoch. Mastodon states only the day.
    pub created_at: Option<Millis>,
    pub counts: AccountCounts,
    /// Time of the last post, ms since the epoch. Mastodon states only the day (UTC); Bluesky states nothing.
    pub last_post_at: Option<Millis>,
    /// The state that the object shows: live, protected or suspended.
    pub state: AccountState,
    /// Countries in which it is withheld, comma separated (Twitter, X).
    pub withheld_in: Option<String>,
    pub moved_to: Option<String>,
    pub raw: String,
    /// Activity as the store knows it; no API response states it.
    pub activity: Activity,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Role {
    Author,
    /// The post names it, or replies to it.
    Mentioned,
    Reposted,
}

impl Role {
    pub const ALL: [Self; 3] = [Self::Author, Self::Mentioned, Self::Reposted];

    /// The word in the settings.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Author => "author",
            Self::Mentioned => "mentioned",
            Self::Reposted => "reposted",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Person {
    pub id: String,
    pub role: Role,
    /// Its object in the post; `None` if the post has only its id.
    pub object: Option<String>,
}

impl Person {
    #[must_use]
    pub fn named(role: Role, id: String) -> Self {
        Self { id, role, object: None }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Change {
    pub field: &'static str,
    /// Empty if there was no value.
    pub old: String,
    /// Empty if there is no value any more.
    pub new: String,
}

impl Account {
    /// The fields whose changes are kept as history, by name; counts and dates are not included.
    #[must_use]
    pub fn profile(&self) -> [(&'static str, Option<Cow<'_, str>>); 11] {
        fn text(field: Option<&String>) -> Option<Cow<'_, str>> {
            field.map(|text| Cow::Borrowed(text.as_str()))
        }
        let flag = |field: Option<bool>| field.map(|is| Cow::Borrowed(if is { "true" } else { "false" }));
        [
            ("handle", text(self.handle.as_ref())),
            ("display_name", text(self.display_name.as_ref())),
            ("description", text(self.description.as_ref())),
            ("location", text(self.location.as_ref())),
            ("url", text(self.url.as_ref())),
            ("picture", text(self.picture.as_ref())),
            ("banner", text(self.banner.as_ref())),
            ("protected", flag(self.protected)),
            ("verified", flag(self.verified)),
            ("withheld_in", text(self.withheld_in.as_ref())),
            ("moved_to", text(self.moved_to.as_ref())),
        ]
    }

    /// Fields that differ from an older response. A field that one of the two does not state counts as unchanged.
    #[must_use]
    pub fn changes(&self, older: &Self) -> Vec<Change> {
        let both = older.profile().into_iter().zip(self.profile());
        both.filter_map(|((field, old), (_, new))| {
            let (old, new) = (old?.into_owned(), new?.into_owned());
            (old != new).then_some(Change { field, old, new })
        })
        .collect()
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum AccountState {
    /// The provider returns it, and its posts are public.
    Live,
    /// The provider returns it, and only approved followers may read its posts (Twitter, X).
    Protected,
    /// The network has closed it. X reports this in place of the account, Mastodon in the account.
    Suspended,
    /// The owner has closed it, and may open it again (on Twitter and X for 30 days).
    Deactivated,
    Deleted,
    /// No response yet, or the response omits it without a reason.
    #[default]
    Unknown,
}

impl AccountState {
    pub const ALL: [Self; 6] =
        [Self::Live, Self::Protected, Self::Suspended, Self::Deactivated, Self::Deleted, Self::Unknown];

    /// The word in the database, in `status` and on the page.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Live => "live",
            Self::Protected => "protected",
            Self::Suspended => "suspended",
            Self::Deactivated => "deactivated",
            Self::Deleted => "deleted",
            Self::Unknown => "unknown",
        }
    }

    #[must_use]
    pub fn from_protected(protected: Option<bool>) -> Self {
        if protected == Some(true) { Self::Protected } else { Self::Live }
    }
}

impl FromStr for AccountState {
    type Err = UnknownWord;

    fn from_str(word: &str) -> Result<Self, UnknownWord> {
        let named = Self::ALL.into_iter().find(|state| state.as_str() == word);
        named.ok_or_else(|| {
            let known = Self::ALL.map(Self::as_str).join(", ");
            UnknownWord::new(word, format!("not a state of an account; there are {known}"))
        })
    }
}

impl fmt::Display for AccountState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Reason for a missing account or post, if the API states one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Absence {
    NotFound,
    /// The owner has closed the account, and may open it again (Bluesky).
    Deactivated,
    /// The account is deleted, or never existed (Bluesky).
    Deleted,
    Suspended,
    /// This credential may not see it.
    Protected,
}

impl Absence {
    /// The word in the database and in exports.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NotFound => "not_found",
            Self::Deactivated => "deactivated",
            Self::Deleted => "deleted",
            Self::Suspended => "suspended",
            Self::Protected => "not_authorized",
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_state_is_read_as_it_is_written() {
        for state in AccountState::ALL {
            assert_eq!(state.to_string().parse(), Ok(state));
        }
        let error = "away".parse::<AccountState>().unwrap_err().to_string();
        assert!(error.ends_with("there are live, protected, suspended, deactivated, deleted, unknown"), "{error}");
    }

    #[test]
    fn only_what_both_answers_state_can_have_changed() {
        let text = |text: &str| Some(text.to_owned());
        let older = Account { handle: text("ann"), location: text("Porto"), url: text("x"), ..Account::default() };
        let newer = Account { handle: text("bea"), location: text(""), picture: text("y"), ..Account::default() };
        let change = |field, old: &str, new: &str| Change { field, old: old.to_owned(), new: new.to_owned() };
        assert_eq!(newer.changes(&older), [change("handle", "ann", "bea"), change("location", "Porto", "")]);
        let (open, closed) = (
            Account { protected: Some(false), ..Account::default() },
            Account { protected: Some(true), ..Account::default() },
        );
        assert_eq!(closed.changes(&open), [change("protected", "false", "true")]);
    }

    fn account() -> impl Strategy<Value = Account> {
        let text = || proptest::option::of("[ab]?");
        let flag = || proptest::option::of(any::<bool>());
        (text(), text(), text(), text(), flag(), flag()).prop_map(
            |(handle, description, banner, moved_to, protected, verified)| Account {
                handle,
                description,
                banner,
                moved_to,
                protected,
                verified,
                ..Account::default()
            },
        )
    }

    proptest! {
        #[test]
        fn changes_lead_from_one_profile_to_the_other(older in account(), newer in account()) {
            prop_assert!(older.changes(&older).is_empty());
            let changes = newer.changes(&older);
            for ((field, old), (_, new)) in older.profile().into_iter().zip(newer.profile()) {
                let field_changes = changes.iter().filter(|change| change.field == field).collect::<Vec<_>>();
                match (old, new) {
                    (Some(old), Some(new)) if old != new => {
                        prop_assert_eq!(field_changes.len(), 1);
                        prop_assert_eq!((&*field_changes[0].old, &*field_changes[0].new), (&*old, &*new));
                    }
                    _ => prop_assert!(field_changes.is_empty()),
                }
            }
        }
    }
}
