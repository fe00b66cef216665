//! `[media]`

use std::path::PathBuf;
use std::time::Duration;

use secrecy::SecretString;
use serde::{Deserialize, Serialize};

use super::credentials::read_secret;
use super::masking::{NO_ENDPOINT, masked_address, masked_secret};
use super::{BadConfig, comma_separated};
use networks::model::media::MediaKind;
use networks::providers::http::has_login;

#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct MediaSettings {
    pub collect: bool,
    pub folder: PathBuf,
    pub store: String,
    pub s3: S3Settings,
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

#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct S3Settings {
    #[serde(serialize_with = "masked_address")]
    pub endpoint: String,
    pub allow_plain_http: bool,
    pub region: String,
    pub access_key_file: PathBuf,
    pub secret_key_file: PathBuf,
    /// Environment only.
    #[serde(default, serialize_with = "masked_secret")]
    pub access_key: Option<SecretString>,
    /// Environment only.
    #[serde(default, serialize_with = "masked_secret")]
    pub secret_key: Option<SecretString>,
}

#[derive(Debug, Clone)]
pub struct BucketSettings {
    pub bucket: String,
    /// Prefix of all file names; may be empty.
    pub prefix: String,
    /// Address of the server; empty means AWS in the region.
    pub endpoint: String,
    /// Empty means the region of the environment.
    pub region: String,
    /// Access key and secret key; `None` means those of the environment or the machine's role.
    pub keys: Option<(SecretString, SecretString)>,
}

impl MediaSettings {
    /// Returns the bucket of the files; `None` means that they are in the folder.
    pub fn bucket(&self) -> Result<Option<BucketSettings>, BadConfig> {
        let S3Settings { endpoint, region, .. } = &self.s3;
        if self.store.is_empty() {
            return Ok(None);
        }
        let Some((bucket, prefix)) = parse_bucket(&self.store) else {
            let why =
                "media.store cannot be used: write it like s3://bucket/prefix, or leave it empty for media.folder";
            return Err(BadConfig(why.to_owned()));
        };
        let is_server = |url: &reqwest::Url| matches!(url.scheme(), "http" | "https") && !has_login(url);
        if !endpoint.is_empty() && !reqwest::Url::parse(endpoint).is_ok_and(|url| is_server(&url)) {
            return Err(BadConfig(NO_ENDPOINT.to_owned()));
        }
        let key = |name: &str, value, file| read_secret(&format!("media.s3.{name}"), value, file);
        let access_key = key("access_key", &self.s3.access_key, &self.s3.access_key_file)?;
        let secret_key = key("secret_key", &self.s3.secret_key, &self.s3.secret_key_file)?;
        if access_key.is_some() != secret_key.is_some() {
            let why =
                "media.s3: one of access_key and secret_key is missing: set both, or none to use the machine's role";
            return Err(BadConfig(why.to_owned()));
        }
        Ok(Some(BucketSettings {
            bucket: bucket.to_owned(),
            prefix: prefix.to_owned(),
            endpoint: endpoint.clone(),
            region: region.clone(),
            keys: access_key.zip(secret_key),
        }))
    }

    pub fn wanted_kinds(&self) -> Result<Vec<MediaKind>, BadConfig> {
        let kind = |word: &str| MediaKind::ALL.into_iter().find(|kind| kind.as_str() == word);
        let unknown = |word| {
            let known = MediaKind::ALL.map(MediaKind::as_str).join(", ");
            BadConfig(format!("media.kinds: {word:?} is unknown: write any of {known}"))
        };
        comma_separated(&self.kinds).map(|word| kind(word).ok_or_else(|| unknown(word))).collect()
    }
}

/// Splits `s3://bucket/prefix`.
fn parse_bucket(store: &str) -> Option<(&str, &str)> {
    let rest = store.strip_prefix("s3://")?;
    let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
    let prefix = prefix.trim_end_matches('/');
    let of_bucket = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b".-".contains(&byte);
    let of_prefix = |byte: u8| byte.is_ascii_alphanumeric() || b"._-/".contains(&byte);
    let is_plain = (3..=63).contains(&bucket.len()) && bucket.bytes().all(of_bucket) && prefix.bytes().all(of_prefix);
    let has_words = prefix.is_empty() || prefix.split('/').all(|word| !matches!(word, "" | "." | ".."));
    (is_plain && has_words).then_some((bucket, prefix))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Settings;

    #[test]
    fn kinds_are_named_by_words() {
        let with = |words: &str| {
            let settings = Settings::load_with(&[], None, &[("TWITTER_UPDATER__MEDIA__KINDS", words)]);
            settings.and_then(|settings| settings.media.wanted_kinds())
        };
        assert_eq!(with(" photo,video ").unwrap(), [MediaKind::Photo, MediaKind::Video]);
        let error = with("photo, movie").unwrap_err().to_string();
        assert!(error.contains("media.kinds: \"movie\" is unknown: write any of photo, video"), "{error}");
    }

    #[test]
    fn a_bucket_is_named_by_its_address_and_has_both_keys_or_none() {
        let with = |variables: &[(&str, &str)]| {
            let name = |key: &str| format!("TWITTER_UPDATER__MEDIA__{key}");
            let named: Vec<(String, &str)> = variables.iter().map(|(key, value)| (name(key), *value)).collect();
            let given: Vec<(&str, &str)> = named.iter().map(|(name, value)| (&**name, *value)).collect();
            Settings::load_with(&[], None, &given).and_then(|settings| settings.media.bucket())
        };
        assert!(with(&[]).unwrap().is_none());
        let of = |store| with(&[("STORE", store)]).map(|of| of.map(|of| (of.bucket, of.prefix)));
        assert_eq!(of("s3://my-media").unwrap(), Some(("my-media".to_owned(), String::new())));
        assert_eq!(of("s3://my.media/a/b/").unwrap(), Some(("my.media".to_owned(), "a/b".to_owned())));
        for odd in ["my-media", "gs://my-media", "s3://", "s3://my media", "s3://user:pass@media", "s3://media/../b"] {
            let error = of(odd).unwrap_err().to_string();
            assert!(error.contains("write it like s3://bucket/prefix") && !error.contains("pass@"), "{odd}: {error}");
        }
        let error = with(&[("STORE", "s3://media"), ("S3__ENDPOINT", "http://me:canary@h")]).unwrap_err().to_string();
        assert!(error.contains("media.s3.endpoint cannot be used") && !error.contains("canary"), "{error}");
        let error = with(&[("STORE", "s3://media"), ("S3__ACCESS_KEY", "canary")]).unwrap_err().to_string();
        assert!(error.contains("one of access_key and secret_key is missing") && !error.contains("canary"), "{error}");
        let keys = with(&[("STORE", "s3://media"), ("S3__ACCESS_KEY", "a"), ("S3__SECRET_KEY", "b")]).unwrap();
        assert!(keys.unwrap().keys.is_some());
    }
}
