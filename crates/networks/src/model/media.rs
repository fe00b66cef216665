//! Media of posts: pictures, videos and sounds that a post shows. No I/O.

use serde::{Deserialize, Serialize};

use super::words::stored_as_word;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MediaKind {
    Photo,
    Video,
    Gif,
    Audio,
    /// Not reported, or an unknown word.
    #[default]
    Unknown,
}

impl MediaKind {
    pub const ALL: [Self; 5] = [Self::Photo, Self::Video, Self::Gif, Self::Audio, Self::Unknown];

    /// Returns true if its file is a video. Its thumbnail, a [`Photo`](Self::Photo), has the same id.
    #[must_use]
    pub fn is_video(self) -> bool {
        matches!(self, Self::Video | Self::Gif)
    }

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

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Medium {
    pub id: String,
    /// The address of its file; the largest if there are several.
    pub url: String,
    pub kind: MediaKind,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum MediaState {
    #[default]
    Waiting,
    Stored,
    /// Its host has the file no more, or does not give it to us.
    Gone,
    /// Its file is rejected: too large, of another type, or at a forbidden address.
    Refused,
    /// Fetching its file failed for too long.
    Failed,
    /// Its file was removed: no stored post uses it any more.
    Removed,
}

impl MediaState {
    pub const ALL: [Self; 6] = [Self::Waiting, Self::Stored, Self::Gone, Self::Refused, Self::Failed, Self::Removed];

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

    /// Returns true if its file is not fetched any more.
    #[must_use]
    pub fn is_final(self) -> bool {
        self != Self::Waiting
    }
}

stored_as_word!(MediaState, "state of a medium");
