//! Settings: the compiled-in defaults, then files, then the environment.
//!
//! `config/default.toml` names and explains every setting; an unknown key is an error. Secrets come from the
//! environment or their own files and are never shown.

mod accounts;
mod adaptive;
mod bounds;
mod change;
mod communities;
mod credentials;
mod files;
mod findings;
mod loading;
mod masking;
mod media;
mod poll;
mod providers;
mod relations;
mod simulator;
mod variables;
mod visits;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use secrecy::SecretString;
use serde::de::{Error, IntoDeserializer};
use serde::{Deserialize, Deserializer, Serialize};

pub use self::accounts::{AccountSchedule, AccountSettings};
pub use self::adaptive::{AdaptiveSettings, ScheduleKind};
pub use self::bounds::allowed_values;
pub use self::change::{Change, Changes, LIVE_SETTINGS};
pub use self::communities::{CommunitySettings, Places};
pub use self::credentials::{BEARER, CredentialSettings, CredentialUse};
pub use self::files::Files;
pub use self::findings::BadConfigs;
pub use self::loading::ExaminedSettings;
pub use self::masking::masked;
use self::masking::{masked_secret, masked_url};
pub use self::media::{BucketSettings, MediaSettings, S3Settings};
pub use self::poll::{PollSettings, SourceSettings, StreamProvider, StreamSettings};
pub use self::providers::{
    BlueskySettings, CallsWanted, InstanceSettings, LookupSettings, MastodonSettings, TwitterSettings, XSettings,
};
pub use self::relations::{RelationSettings, VisitOrder};
pub use self::simulator::SimulatorSettings;
pub use self::visits::VisitSettings;
use engine::base::clock::{self, Millis};
use engine::base::subnets::Subnets;
use engine::quota::Pacing;
use engine::schedule::age::AgeTable;

pub const DEFAULT: &str = include_str!("../../../../config/default.toml");
/// Settings of the demo; they override the defaults.
pub const DEMO: &str = include_str!("../../../../config/demo.toml");
/// Settings of the demo's community; they override the demo's.
pub const COMMUNITY_DEMO: &str = include_str!("../../../../config/demo-community.toml");
pub const ENVIRONMENT_PREFIX: &str = "TWITTER_UPDATER";

/// All settings. `config/default.toml` documents the fields.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// Comma-separated names.
    #[serde(deserialize_with = "names")]
    pub providers: String,
    #[serde(with = "as_text")]
    pub tweet_age: AgeTable,
    #[serde(deserialize_with = "word")]
    pub schedule: ScheduleKind,
    pub adaptive: AdaptiveSettings,
    pub accounts: AccountSettings,
    pub media: MediaSettings,
    pub relations: RelationSettings,
    pub visits: VisitSettings,
    /// Keyed by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub communities: BTreeMap<String, CommunitySettings>,
    pub log: LogSettings,
    pub queue: QueueSettings,
    pub store: StoreSettings,
    pub forget: ForgetSettings,
    pub lookup: LookupSettings,
    pub twitter: TwitterSettings,
    pub x: XSettings,
    #[serde(default)]
    pub mastodon: MastodonSettings,
    pub bluesky: BlueskySettings,
    pub updater: UpdaterSettings,
    pub starter: StarterSettings,
    pub http: HttpSettings,
    pub ops: OpsSettings,
    pub rebuild: RebuildSettings,
    pub supervision: SupervisionSettings,
    pub poll: PollSettings,
    pub simulator: SimulatorSettings,
    /// Unmasked values of the masked settings, by name.
    #[serde(skip)]
    masked: BTreeMap<String, SecretString>,
}

#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct LogSettings {
    pub level: String,
    #[serde(deserialize_with = "word")]
    pub format: LogFormat,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    Text,
    Json,
}

#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct QueueSettings {
    #[serde(deserialize_with = "word")]
    pub backend: QueueBackend,
    pub embedded: FileSettings,
    pub redis: RedisSettings,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum QueueBackend {
    Embedded,
    Redis,
}

/// Section `[queue.embedded]` or `[store.sqlite]`.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct FileSettings {
    pub path: PathBuf,
    #[serde(with = "humantime_serde")]
    pub busy_timeout: Duration,
}

#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct RedisSettings {
    #[serde(serialize_with = "masked_url")]
    pub url: SecretString,
    pub allow_plain_password: bool,
    pub ca_file: PathBuf,
    pub cert_file: PathBuf,
    pub key_file: PathBuf,
    pub connections: usize,
    #[serde(with = "humantime_serde")]
    pub connect_timeout: Duration,
    #[serde(with = "humantime_serde")]
    pub response_timeout: Duration,
}

impl RedisSettings {
    fn tls_files(&self) -> [(&'static str, &Path); 3] {
        [
            ("queue.redis.ca_file", &self.ca_file),
            ("queue.redis.cert_file", &self.cert_file),
            ("queue.redis.key_file", &self.key_file),
        ]
    }
}

#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct StoreSettings {
    #[serde(deserialize_with = "word")]
    pub backend: StoreBackend,
    #[serde(deserialize_with = "word")]
    pub on_deleted: OnDeleted,
    #[serde(with = "humantime_serde")]
    pub longest_unchecked: Duration,
    #[serde(with = "humantime_serde")]
    pub retention: Duration,
    pub sqlite: FileSettings,
    pub postgres: PostgresSettings,
}

impl StoreSettings {
    /// Maximum time since the last check of an item, ms; `None` if deletions are ignored.
    #[must_use]
    pub fn longest_unchecked(&self) -> Option<Millis> {
        (self.on_deleted != OnDeleted::Keep).then(|| clock::millis(self.longest_unchecked))
    }
}

#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ForgetSettings {
    pub key_file: PathBuf,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum StoreBackend {
    Sqlite,
    Postgres,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum OnDeleted {
    Keep,
    Blank,
    Remove,
}

#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct PostgresSettings {
    #[serde(serialize_with = "masked_url")]
    pub url: SecretString,
    pub connections: u32,
    #[serde(with = "humantime_serde")]
    pub statement_timeout: Duration,
}

#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct UpdaterSettings {
    #[serde(with = "humantime_serde")]
    pub buffer_ttl: Duration,
    pub lookahead: f64,
    #[serde(deserialize_with = "word")]
    pub pacing: Pacing,
    pub concurrency: usize,
    #[serde(with = "humantime_serde")]
    pub lease: Duration,
    #[serde(with = "humantime_serde")]
    pub save_timeout: Duration,
    #[serde(with = "humantime_serde")]
    pub drain_deadline: Duration,
    #[serde(with = "humantime_serde")]
    pub unavailable_after: Duration,
    #[serde(with = "humantime_serde")]
    pub unavailable_every: Duration,
    pub unavailable_limit: u32,
    #[serde(with = "humantime_serde")]
    pub unavailable_for: Duration,
    pub max_deliveries: u32,
    pub one_core: bool,
    pub name: String,
}

#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct StarterSettings {
    pub bearer_token_file: PathBuf,
    #[serde(deserialize_with = "word")]
    pub without_token: WithoutToken,
    /// Environment only.
    #[serde(default, serialize_with = "masked_secret")]
    pub bearer_token: Option<SecretString>,
    pub max_body_bytes: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum WithoutToken {
    Loopback,
    Anybody,
}

#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct HttpSettings {
    pub listen: String,
    pub metrics_listen: String,
    pub behind_tls: bool,
    /// Comma-separated.
    #[serde(deserialize_with = "names")]
    pub hosts: String,
    /// Comma-separated.
    #[serde(deserialize_with = "names")]
    pub trusted_proxies: String,
    pub connections: usize,
    #[serde(with = "humantime_serde")]
    pub drain_notice: Duration,
}

#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct OpsSettings {
    pub token_file: PathBuf,
    /// Environment only.
    #[serde(default, serialize_with = "masked_secret")]
    pub token: Option<SecretString>,
}

#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct RebuildSettings {
    pub rate: u32,
    #[serde(with = "humantime_serde")]
    pub every: Duration,
}

#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct SupervisionSettings {
    #[serde(with = "humantime_serde")]
    pub silent_after: Duration,
}

/// Configuration error: one line with place, reason and remedy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("configuration: {0}")]
pub struct BadConfig(pub String);

impl Settings {
    /// Lease of a claimed timeline. A page needs a call and four statements; the rest is for more pages.
    #[must_use]
    pub fn timeline_lease(&self) -> Duration {
        self.lookup.timeout.saturating_add(self.updater.save_timeout.saturating_mul(5))
    }

    /// Merges the defaults, `layers` (compiled-in texts), `files`, the environment, and `providers` of the command line;
    /// later ones override earlier ones. The error lists all errors.
    pub fn load(layers: &[&str], files: &Files, providers: Option<&str>) -> Result<Self, BadConfig> {
        Ok(Self::examine(layers, files, providers).into_valid()?)
    }

    /// Loads the settings as [`Settings::load`] does, and returns all errors next to them.
    #[must_use]
    pub fn examine(layers: &[&str], files: &Files, providers: Option<&str>) -> ExaminedSettings {
        loading::examine(layers, files, variables::process_variables(), providers)
    }

    /// Loads the settings from the file or folder `path`, with `variables` instead of the environment.
    pub fn load_with(layers: &[&str], path: Option<&Path>, variables: &[(&str, &str)]) -> Result<Self, BadConfig> {
        Ok(loading::examine(layers, &Files::read(path)?, to_variables(variables), None).into_valid()?)
    }

    /// Loads the settings from a file of this name and text, with `variables` instead of the environment.
    pub fn load_text(file: &Path, text: &str, variables: &[(&str, &str)]) -> Result<Self, BadConfig> {
        Ok(loading::examine(&[], &Files::from_text(file, text), to_variables(variables), None).into_valid()?)
    }

    /// Ages of `tweet_age`. Their intervals are at most `store.longest_unchecked` unless `store.on_deleted` is `keep`.
    #[must_use]
    pub fn ages(&self) -> AgeTable {
        let bound = self.store.longest_unchecked();
        bound.map_or_else(|| self.tweet_age.clone(), |longest| self.tweet_age.with_max_interval(longest))
    }

    /// Address of `http.listen`; `None` if it is empty.
    pub fn listen(&self) -> Result<Option<SocketAddr>, BadConfig> {
        parse_address("http.listen", &self.http.listen, "0.0.0.0:8080")
    }

    /// Address of `http.metrics_listen`; `None` if it is empty. The address of `http.listen` is an error.
    pub fn metrics_listen(&self) -> Result<Option<SocketAddr>, BadConfig> {
        let addr = parse_address("http.metrics_listen", &self.http.metrics_listen, "0.0.0.0:9090")?;
        let is_taken = addr.is_some_and(|addr| addr.port() != 0) && self.listen().is_ok_and(|listen| listen == addr);
        if is_taken {
            let why = "http.metrics_listen is the address of http.listen: choose another port, or leave it empty";
            return Err(BadConfig(why.to_owned()));
        }
        Ok(addr)
    }

    pub fn trusted_proxies(&self) -> Result<Subnets, BadConfig> {
        Subnets::parse(&self.http.trusted_proxies).map_err(|why| BadConfig(format!("http.trusted_proxies: {why}")))
    }

    /// Effective settings as TOML, secrets masked.
    #[must_use]
    pub fn masked_toml(&self) -> String {
        // Cannot fail, because all maps have text keys and no value follows a table. Otherwise the output states the error.
        toml::to_string(self).unwrap_or_else(|error| format!("# cannot be shown: {error}"))
    }
}

/// Parses the address of a setting; `None` if it is empty.
fn parse_address(setting: &str, text: &str, example: &str) -> Result<Option<SocketAddr>, BadConfig> {
    let text = text.trim();
    let addr = (!text.is_empty()).then(|| text.parse()).transpose();
    addr.map_err(|_| BadConfig(format!("{setting} ({text:?}) is not an address: write it like {example}")))
}

fn to_variables(variables: &[(&str, &str)]) -> Vec<(String, OsString)> {
    variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).into())).collect()
}

/// Returns true if a user-defined name has 1 to 100 characters of a to z, 0 to 9, _ and -.
fn is_plain_name(name: &str) -> bool {
    let is_fit = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_-".contains(&byte);
    (1..=100).contains(&name.len()) && name.bytes().all(is_fit)
}

fn comma_separated(text: &str) -> impl Iterator<Item = &str> {
    text.split(',').map(str::trim).filter(|word| !word.is_empty())
}

/// Reads one of a few words. The error lists them, which the `config` crate's own does not.
fn word<'de, D: Deserializer<'de>, T: Deserialize<'de>>(from: D) -> Result<T, D::Error> {
    let word = String::deserialize(from)?.into_deserializer();
    T::deserialize(word).map_err(|error: serde::de::value::Error| D::Error::custom(error))
}

/// Serializes a value as its displayed text.
mod as_text {
    use std::fmt::Display;
    use std::str::FromStr;

    use serde::{Deserialize, Deserializer, Serializer, de};

    pub fn serialize<S: Serializer>(value: &impl Display, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(value)
    }

    pub fn deserialize<'de, D: Deserializer<'de>, T: FromStr<Err: Display>>(from: D) -> Result<T, D::Error> {
        String::deserialize(from)?.parse().map_err(de::Error::custom)
    }
}

/// Accepts comma-separated names, or a list of names. Returns the comma-separated names.
fn names<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged, expecting = "names with commas between them, or a list of names")]
    enum Names {
        Text(String),
        List(Vec<String>),
    }
    Ok(match Names::deserialize(from)? {
        Names::Text(names) => names,
        Names::List(names) => names.join(","),
    })
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use secrecy::ExposeSecret;

    use super::*;
    use engine::quota::{Credential, CredentialKind};
    use networks::model::provider::Provider;

    fn with(file: &str, variables: &[(&str, &str)]) -> Result<Settings, BadConfig> {
        let mut temporary = tempfile::NamedTempFile::new().unwrap();
        temporary.write_all(file.as_bytes()).unwrap();
        Settings::load_with(&[], Some(temporary.path()), variables)
    }

    #[test]
    fn the_defaults_and_the_demo_hold() {
        let settings = Settings::load_with(&[], None, &[]).unwrap();
        assert_eq!(settings.updater.buffer_ttl, Duration::from_secs(5));
        assert_eq!(settings.tweet_age.brackets().len(), 5);
        assert_eq!(Settings::load_with(&[DEMO], None, &[]).unwrap().tweet_age.brackets().len(), 4);
    }

    #[test]
    fn file_goes_over_defaults_and_environment_over_both() {
        let file = "[updater]\nbuffer_ttl = \"7s\"\nconcurrency = 9\n";
        let settings = with(file, &[("TWITTER_UPDATER__UPDATER__BUFFER_TTL", "8s")]).unwrap();
        assert_eq!(settings.updater.buffer_ttl, Duration::from_secs(8));
        assert_eq!(settings.updater.concurrency, 9);
        let settings =
            with("", &[("TWITTER_UPDATER__TWEET_AGE", "1h: 1m"), ("TWITTER_UPDATER_FIXTURES", "x")]).unwrap();
        assert_eq!(settings.tweet_age.to_string(), "1h: 1m");
    }

    #[test]
    fn a_bad_setting_is_one_line_that_names_it() {
        for (file, variables, says) in [
            ("[updater]\nbufer_ttl = \"5s\"\n", vec![], "bufer_ttl"),
            ("[updater]\nbuffer_ttl = \"soon\"\n", vec![], "buffer_ttl`; write it like 500ms"),
            ("colour = 1\n", vec![], "colour"),
            ("[queue]\nbackend = \"rabbit\"\n", vec![], "`rabbit`, expected `embedded` or `redis`"),
            ("[updater]\nlease = \"30s\"\n", vec![], "updater.lease"),
            ("[updater]\nlookahead = 2.0\n", vec![], "updater.lookahead"),
            ("[updater\n", vec![], "TOML"),
            ("tweet_age = \"1h: 1m, 30m: 1m\"\n", vec![], "rise"),
            ("[twitter]\napi = \"localhost:1234\"\n", vec![], "twitter.api"),
            ("[twitter]\nbearer_token = \"canary\"\n", vec![], "no place in a configuration file"),
            ("[starter]\nbearer_token = \"canary\"\n", vec![], "__STARTER__BEARER_TOKEN"),
            ("[starter]\nmax_body_bytes = 0\n", vec![], "starter.max_body_bytes"),
            ("[http]\nlisten = \"localhost\"\n", vec![], "http.listen"),
            (
                "[twitter.credentials.main]\nkind = \"user\"\nconsumer_key = \"canary\"\n",
                vec![],
                "main.consumer_key has no",
            ),
            ("[twitter.credentials.main]\nkind = \"person\"\n", vec![], "`person`, expected one of `user`"),
            ("[twitter.credentials.main]\ntokn = \"canary\"\n", vec![], "tokn"),
            ("[twitter.credentials]\nmain = \"canary\"\n", vec![], "twitter.credentials.main"),
            ("[twitter]\ncredentials = \"canary\"\n", vec![], "twitter.credentials"),
            ("", vec![("TWITTER_UPDATER__UPDATER__LEES", "5s")], "environment: unknown field `lees`"),
            ("[updater]\nlees = \"5s\"\n", vec![("TWITTER_UPDATER__UPDATER__LEASE", "70s")], "tmp"),
            ("[log]\n\n[queue.redis]\nurl = \"redis://:canary@h\n", vec![], "line 4"),
            ("[queue]\nredis = \"redis://:canary@h\"\n", vec![], "queue.redis"),
            ("", vec![("TWITTER_UPDATER__TWITTER", "canary")], "twitter"),
            ("[queue.redis]\nurl = \"canary@h:6379\"\n", vec![], "queue.redis.url"),
            ("[queue.redis]\nca_file = \"/ca.pem\"\n", vec![], "queue.redis.ca_file is for TLS"),
            ("[store.postgres]\nurl = \"mysql://me:canary@h/db\"\n", vec![], "store.postgres.url"),
            ("[store.postgres]\nurl = \"postgres://me:canary#1@h/db\"\n", vec![], "write them as %2F, %3F and %23"),
        ] {
            let error = with(file, &variables).unwrap_err().to_string();
            assert!(error.contains(says), "{file:?}: {error}");
            assert!(!error.contains('\n') && !error.contains("canary"), "{error}");
        }
    }

    #[test]
    fn a_token_is_one_word_or_none() {
        let token = |token| Settings::load_with(&[], None, &[("TWITTER_UPDATER__TWITTER__BEARER_TOKEN", token)]);
        let credentials = |settings: Settings| settings.credentials(&Provider::Twitter);
        let given = credentials(token(" word\n").unwrap()).unwrap();
        let [Credential { name, kind: CredentialKind::Bearer(secret) }] = &given[..] else { panic!("{given:?}") };
        assert_eq!((name.as_str(), secret.expose_secret()), (BEARER, "word"));
        let none = Settings::load_with(&[], None, &[]).unwrap();
        assert!(none.masked_toml().contains("bearer_token = \"(not set)\"") && credentials(none).unwrap().is_empty());
        for cannot in ["canary two", "canary\ntwo", "canarü"] {
            let error = credentials(token(cannot).unwrap()).unwrap_err().to_string();
            assert!(error.contains("twitter.bearer_token") && !error.contains("canar"), "{error}");
        }
    }

    #[test]
    fn secrets_are_never_shown() {
        let settings = with(
            "[queue.redis]\nurl = \"redis+unix:///s?user=me&pass=canary\"\n[store.postgres]\nurl = \"postgres:///db?host=/x&password=canary\"\n",
            &[("TWITTER_UPDATER__TWITTER__BEARER_TOKEN", "canary")],
        )
        .unwrap();
        let given = settings.credentials(&Provider::Twitter).unwrap();
        assert!(matches!(&given[0].kind, CredentialKind::Bearer(secret) if secret.expose_secret() == "canary"));
        for masked_toml in [settings.masked_toml(), format!("{settings:?}")] {
            assert!(!masked_toml.contains("canary"), "{masked_toml}");
        }
        assert!(settings.masked_toml().contains("redis+unix:///s?user=***&pass=***"), "{}", settings.masked_toml());
        assert_eq!(masked("redis://me:canary@h/3"), "redis://***@h/3");
        let several = "redis+sentinel://me:canary@h,i:7,[::1]:8/name/3?sentinel_password=canary";
        assert_eq!(masked(several), "redis+sentinel://***@h,i:7,[::1]:8/name/3?sentinel_password=***");
        assert_eq!(masked("rediss+cluster://:can,ary@h:1,i:2"), "rediss+cluster://***@h:1,i:2");
        // A misspelled parameter may hold a password, too.
        let masked_address = masked("postgres://u@h/db?pasword=canary&sslmode=require");
        assert_eq!(masked_address, "postgres://***@h/db?pasword=***&sslmode=require");
        let masked_address = masked("redis+sentinel://h/name?sentinel_passwrod=canary");
        assert_eq!(masked_address, "redis+sentinel://h/name?sentinel_passwrod=***");
        for odd in [
            "redis+cluster://me:1,canary/2@h:1,i:2",
            "redis+cluster://me:1,canary#2@h:1,i:2",
            "redis+cluster://me:1,canary:x,i:2",
            "redis://me%3Acanary%40h/0",
            "postgres://h/canary%40h",
        ] {
            assert_eq!(masked(odd), "(not an address)");
        }
        assert!(settings.masked_toml().contains("bearer_token = \"(set)\""), "{}", settings.masked_toml());
        // Rejected, and not shown in any form.
        let mut odd = settings;
        assert!(odd.masked_toml().contains("api = \"https://api.x.com\""), "{}", odd.masked_toml());
        let given = ["https://me:canary@h", "h?canary", "a:canary@h", "https://h?a=canary"].map(str::to_owned);
        [odd.twitter.api, odd.x.api, odd.bluesky.api, odd.media.s3.endpoint] = given;
        assert!(!odd.masked_toml().contains("canary"), "{}", odd.masked_toml());
    }

    #[test]
    fn a_secret_that_is_blank_is_not_one_that_is_not_set() {
        for key in [
            "TWITTER_UPDATER__TWITTER__BEARER_TOKEN",
            "TWITTER_UPDATER__X__BEARER_TOKEN",
            "TWITTER_UPDATER__STARTER__BEARER_TOKEN",
            "TWITTER_UPDATER__OPS__TOKEN",
            "TWITTER_UPDATER__TWITTER__CREDENTIALS__MAIN__TOKEN_SECRET",
            "TWITTER_UPDATER__X__CREDENTIALS__MAIN__BEARER_TOKEN",
            "TWITTER_UPDATER__MASTODON__INSTANCES__SOCIAL__BEARER_TOKEN",
        ] {
            for blank in ["", " \n"] {
                let api = ("TWITTER_UPDATER__MASTODON__INSTANCES__SOCIAL__API", "https://mastodon.social");
                let error = Settings::load_with(&[], None, &[api, (key, blank)]).unwrap_err().to_string();
                assert!(error.contains(&format!("is empty: give {key} the secret")), "{error}");
            }
        }
    }

    #[test]
    fn one_secret_has_one_name() {
        let user = |name: &str, token: &str| {
            let part = |part: &str, value: &str| {
                (format!("TWITTER_UPDATER__TWITTER__CREDENTIALS__{name}__{part}"), value.to_owned())
            };
            [part("KIND", "both"), part("CONSUMER_KEY", "ck-canary"), part("CONSUMER_SECRET", "cs-canary")]
                .into_iter()
                .chain([part("TOKEN", token), part("TOKEN_SECRET", "ts-canary")])
                .collect::<Vec<_>>()
        };
        let of = |variables: Vec<(String, String)>| {
            let variables: Vec<_> = variables.iter().map(|(key, value)| (&**key, &**value)).collect();
            Settings::load_with(&[], None, &variables).unwrap().every_credential(&Provider::Twitter)
        };
        assert_eq!(of(user("A", "canary")).unwrap().len(), 2, "the user and the application are counted apart");
        let BadConfigs(all) = of([user("A", "canary"), user("B", "canary")].concat()).unwrap_err();
        let all: Vec<String> = all.iter().map(ToString::to_string).collect();
        assert!(all[0].contains("twitter: the credentials \"a\" and \"b\" have the same token:"), "{all:?}");
        assert!(all[1].contains("the credentials \"a-app\" and \"b-app\" have the same consumer_key:"), "{all:?}");
        assert!(all.len() == 2 && !all.concat().contains("canary"), "{all:?}");
        let bearer = ["TWITTER__BEARER_TOKEN", "TWITTER__CREDENTIALS__C__BEARER_TOKEN"];
        let bearer = bearer.map(|key| (format!("TWITTER_UPDATER__{key}"), "canary".to_owned()));
        let kind = ("TWITTER_UPDATER__TWITTER__CREDENTIALS__C__KIND".to_owned(), "app".to_owned());
        let error = of([&bearer[..], &[kind]].concat()).unwrap_err().to_string();
        assert!(error.contains("\"bearer\" and \"c\" have the same bearer_token"), "{error}");
        assert!(!error.contains("canary"), "{error}");
    }
}
