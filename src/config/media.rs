//! `[media]`

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::BadConfig;
use crate::model::media::MediaKind;

/// `[media]`
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)]
pub struct MediaSettings {
    pub collect: bool,
    pub folder: PathBuf,
    pub kinds: String,
    pub max_bytes: u64,
    pub max_disk_bytes: u64,
    pub per_host: usize,
    #[serde(with = "humantime_serde")]
    pub stall: Duration,
    #[serde(with = "humantime_serde")]
    pub retry: Duration,
    #[serde(with = "humantime_serde")]
    pub longest_retry: Duration,
    #[serde(with = "humantime_serde")]
    pub give_up_after: Duration,
    pub private_hosts: String,
}

impl MediaSettings {
    /// The kinds of media that are fetched.
    ///
    /// # Errors
    /// A word of `media.kinds` is none of the known ones.
    pub fn wanted(&self) -> Result<Vec<MediaKind>, BadConfig> {
        let words = self.kinds.split(',').map(str::trim).filter(|word| !word.is_empty());
        let kind = |word: &str| MediaKind::ALL.into_iter().find(|kind| kind.as_str() == word);
        let unknown = |word| {
            let known = MediaKind::ALL.map(MediaKind::as_str).join(", ");
            BadConfig(format!("media.kinds: {word:?} is not known; there are {known}"))
        };
        words.map(|word| kind(word).ok_or_else(|| unknown(word))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Settings;

    #[test]
    fn kinds_are_named_by_words() {
        let with = |words: &str| {
            let settings = Settings::load_with(&[], None, &[("TWITTER_UPDATER__MEDIA__KINDS", words)]);
            settings.and_then(|settings| settings.media.wanted())
        };
        assert_eq!(with(" photo,video ").unwrap(), [MediaKind::Photo, MediaKind::Video]);
        let error = with("photo, movie").unwrap_err().to_string();
        assert!(error.contains("media.kinds: \"movie\" is not known; there are photo, video"), "{error}");
    }
}
