//! The planted groups and their shares.

/// Accounts in a row among which the groups are spread.
pub const BLOCK: u64 = 50;
/// Followers in a row of whom an even part is of the group.
pub const ROUND: u64 = 20;

/// A planted group.
#[derive(Debug)]
pub struct Group {
    /// Its name.
    pub label: &'static str,
    /// Members of 50 accounts.
    pub parts: u64,
    /// The language of its posts, as networks tell it,
    pub language: &'static str,
    /// and what they mistake it for.
    pub(super) mistaken: [&'static str; 3],
    /// Members of the group among 20 followers of a member.
    pub followers: u64,
    /// What 100 members say of where they are.
    pub places: Places,
}

/// Members of 100 that state
#[derive(Debug)]
pub struct Places {
    /// a place of their country, or of several countries that have it,
    pub home: u64,
    /// a region, a nickname, an abbreviation,
    pub vague: u64,
    /// nothing,
    pub empty: u64,
    /// a place that is none,
    pub joke: u64,
    /// a place of another group's countries, or of others.
    pub abroad: u64,
}

/// All groups. The parts sum up to `BLOCK`, the places to 100. Fewer of the largest group follow others: they are so many
/// that they would be most of the followers everywhere.
pub const GROUPS: [Group; 4] = [
    Group {
        label: "pt-PT",
        parts: 3,
        language: "pt",
        mistaken: ["es", "it", "ca"],
        followers: 16,
        places: Places { home: 58, vague: 8, empty: 20, joke: 8, abroad: 6 },
    },
    Group {
        label: "pt-BR",
        parts: 10,
        language: "pt",
        mistaken: ["es", "it", "ht"],
        followers: 16,
        places: Places { home: 60, vague: 7, empty: 20, joke: 9, abroad: 4 },
    },
    Group {
        label: "es",
        parts: 7,
        language: "es",
        mistaken: ["pt", "ca", "it"],
        followers: 16,
        places: Places { home: 58, vague: 6, empty: 22, joke: 9, abroad: 5 },
    },
    Group {
        label: "en",
        parts: 30,
        language: "en",
        mistaken: ["nl", "tl", "de"],
        followers: 19,
        places: Places { home: 55, vague: 8, empty: 22, joke: 10, abroad: 5 },
    },
];

/// The first place of each group in a block.
pub const FIRST_PLACES: [u64; GROUPS.len()] = {
    let mut first = [0; GROUPS.len()];
    let mut at = 1;
    while at < GROUPS.len() {
        first[at] = first[at - 1] + GROUPS[at - 1].parts;
        at += 1;
    }
    first
};
