//! The planted groups and their shares.

/// Number of successive accounts among which the groups are spread.
pub const BLOCK: u64 = 50;
/// Number of successive followers that contain a fixed number of members.
pub const ROUND: u64 = 20;

#[derive(Debug)]
pub struct Group {
    pub label: &'static str,
    /// Members per 50 accounts.
    pub parts: u64,
    /// The language of its posts, as networks state it.
    pub language: &'static str,
    /// Languages that networks state by mistake.
    pub(super) mistaken: [&'static str; 3],
    /// Members of the group per 20 followers of a member.
    pub followers: u64,
    pub places: Places,
}

#[derive(Debug)]
pub struct Places {
    /// A place of their country, or one that several countries have.
    pub home: u64,
    /// A region, a nickname, an abbreviation.
    pub vague: u64,
    pub empty: u64,
    pub joke: u64,
    /// A place of another group's countries, or of others.
    pub abroad: u64,
}

/// All groups. The parts sum up to `BLOCK`, the places to 100.
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

pub const FIRST_POSITIONS: [u64; GROUPS.len()] = {
    let mut first = [0; GROUPS.len()];
    let mut at = 1;
    while at < GROUPS.len() {
        first[at] = first[at - 1] + GROUPS[at - 1].parts;
        at += 1;
    }
    first
};
