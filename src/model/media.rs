//! Media of posts: pictures, videos and sounds that a post shows. No I/O.

use serde::{Deserialize, Serialize};

use super::words::stored_as_word;

/// The kind of a medium, as the network tells it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MediaKind {
    /// A picture.
    Photo,
    /// A video with or without sound.
    Video,
    /// A short video that plays again and again.
    Gif,
    /// A sound.
    Audio,
    /// Not told, or a word that is not known.
    #[default]
    Unknown,
}

impl MediaKind {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Photo, Self::Video, Self::Gif, Self::Audio, Self::Unknown];

    /// Returns true if its file is a video. Its thumbnail, a [`Photo`](Self::Photo), has the same id.
    #[must_use]
    pub fn is_video(self) -> bool {
        matches!(self, Self::Video | Self::Gif)
    }

    /// The word for it in the store.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Photo => "photo",
            Self::Video => "video",
            Self::Gif => "gif",
            Self::Audio => "audio",
            Self::Unknown => "unknown",
        }
    }
}

/// A medium as a post names it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Medium {
    /// Its id, unique on its network.
    pub id: String,
    /// The address of its file: of several, the largest.
    pub url: String,
    /// Its kind.
    pub kind: MediaKind,
}

/// The state of a medium.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum MediaState {
    /// Its file is to be fetched.
    #[default]
    Waiting,
    /// Its file is kept.
    Stored,
    /// Its host has no such file any more, or does not give it to us.
    Gone,
    /// Its file is not wanted: too large, of another type, or at an address that must not be asked.
    Refused,
    /// Its file could not be fetched for too long.
    Failed,
    /// Its file was removed: no stored post uses it any more.
    Removed,
}

impl MediaState {
    /// All of them.
    pub const ALL: [Self; 6] = [Self::Waiting, Self::Stored, Self::Gone, Self::Refused, Self::Failed, Self::Removed];

    /// The word for it in the store.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Stored => "stored",
            Self::Gone => "gone",
            Self::Refused => "refused",
            Self::Failed => "failed",
            Self::Removed => "removed",
        }
    }

    /// Returns true if nothing is fetched any more.
    #[must_use]
    pub fn is_final(self) -> bool {
        self != Self::Waiting
    }
}

stored_as_word!(MediaState, "state of a medium");
