//! Settings: the compiled-in defaults, then files, then the environment.
//!
//! `config/default.toml` names and explains every setting; an unknown key is refused. Secrets come
//! from the environment or from files of their own and are shown nowhere.

mod change;
mod credentials;
mod files;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use config::{Config, Environment, File, FileFormat};
use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize, Serializer};

pub use self::change::{Change, Changed, LIVE};
pub use self::credentials::{BEARER, CredentialSettings, CredentialUse, Secrets};
use self::credentials::{masked_secret, secret};
pub use self::files::Files;
use crate::backend::redis::address::{self, Parts};
use crate::credential::{Caller, Pacing};
use crate::tweet_age::AgeTable;

/// The compiled-in defaults.
pub const DEFAULT: &str = include_str!("../config/default.toml");
/// The demo's settings, which go over the defaults.
pub const DEMO: &str = include_str!("../config/demo.toml");
/// What the names of environment variables start with.
pub const ENVIRONMENT_PREFIX: &str = "TWITTER_UPDATER";

/// All settings. The fields are documented in `config/default.toml`.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)]
pub struct Settings {
    pub tweet_age: AgeTable,
    pub log: LogSettings,
    pub queue: QueueSettings,
    pub store: StoreSettings,
    pub twitter: TwitterSettings,
    pub updater: UpdaterSettings,
    pub starter: StarterSettings,
    pub http: HttpSettings,
    pub rebuild: RebuildSettings,
    pub simulator: SimulatorSettings,
}

/// `[log]`
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)]
pub struct LogSettings {
    pub level: String,
    pub format: LogFormat,
}

/// `log.format`
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs)]
pub enum LogFormat {
    Text,
    Json,
}

/// `[queue]`
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)]
pub struct QueueSettings {
    pub backend: QueueBackend,
    pub embedded: FileSettings,
    pub redis: RedisSettings,
}

/// `queue.backend`
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs)]
pub enum QueueBackend {
    Embedded,
    Redis,
}

/// `[queue.embedded]` and `[store.sqlite]`
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)]
pub struct FileSettings {
    pub path: PathBuf,
    #[serde(with = "humantime_serde")]
    pub busy_timeout: Duration,
}

/// `[queue.redis]`
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)]
pub struct RedisSettings {
    #[serde(serialize_with = "masked_url")]
    pub url: SecretString,
    pub ca_file: PathBuf,
    pub cert_file: PathBuf,
    pub key_file: PathBuf,
    pub connections: usize,
    #[serde(with = "humantime_serde")]
    pub connect_timeout: Duration,
    #[serde(with = "humantime_serde")]
    pub response_timeout: Duration,
}

/// `[store]`
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)]
pub struct StoreSettings {
    pub backend: StoreBackend,
    pub sqlite: FileSettings,
    pub postgres: PostgresSettings,
}

/// `store.backend`
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs)]
pub enum StoreBackend {
    Sqlite,
    Postgres,
}

/// `[store.postgres]`
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)]
pub struct PostgresSettings {
    #[serde(serialize_with = "masked_url")]
    pub url: SecretString,
    pub connections: u32,
    #[serde(with = "humantime_serde")]
    pub statement_timeout: Duration,
}

/// `[twitter]`
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)]
pub struct TwitterSettings {
    pub api: String,
    pub bearer_token_file: PathBuf,
    /// From the environment alone.
    #[serde(default, serialize_with = "masked_secret")]
    pub bearer_token: Option<SecretString>,
    #[serde(with = "humantime_serde")]
    pub timeout: Duration,
    #[serde(with = "humantime_serde")]
    pub connect_timeout: Duration,
    pub max_body_bytes: usize,
    /// By name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub credentials: BTreeMap<String, CredentialSettings>,
}

/// `[updater]`
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)]
pub struct UpdaterSettings {
    #[serde(with = "humantime_serde")]
    pub buffer_ttl: Duration,
    pub lookahead: f64,
    pub pacing: Pacing,
    pub concurrency: usize,
    #[serde(with = "humantime_serde")]
    pub lease: Duration,
    #[serde(with = "humantime_serde")]
    pub save_timeout: Duration,
    #[serde(with = "humantime_serde")]
    pub drain_deadline: Duration,
    #[serde(with = "humantime_serde")]
    pub unavailable_every: Duration,
    pub unavailable_limit: u32,
    #[serde(with = "humantime_serde")]
    pub unavailable_for: Duration,
    pub max_deliveries: u32,
    pub name: String,
}

/// `[starter]`
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)]
pub struct StarterSettings {
    pub bearer_token_file: PathBuf,
    /// From the environment alone.
    #[serde(default, serialize_with = "masked_secret")]
    pub bearer_token: Option<SecretString>,
    pub max_body_bytes: usize,
}

/// `[http]`
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)]
pub struct HttpSettings {
    pub listen: String,
    #[serde(with = "humantime_serde")]
    pub drain_notice: Duration,
}

/// `[rebuild]`
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)]
pub struct RebuildSettings {
    pub rate: u32,
}

/// `[simulator]`
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)]
pub struct SimulatorSettings {
    #[serde(with = "humantime_serde")]
    pub latency: Duration,
    #[serde(with = "humantime_serde")]
    pub jitter: Duration,
    pub calls_per_window: u32,
    pub app_calls_per_window: u32,
    #[serde(with = "humantime_serde")]
    pub window: Duration,
    pub missing_share: f64,
    pub withheld_share: f64,
    pub retweet_share: f64,
    #[serde(with = "humantime_serde")]
    pub growth: Duration,
    pub seed: u64,
}

/// A configuration that cannot be: one line that names the place, the reason and what to do.
#[derive(Debug, thiserror::Error)]
#[error("configuration: {0}")]
pub struct BadConfig(pub String);

impl Settings {
    /// The defaults, then `layers` (compiled-in texts), then `files`, then the environment.
    ///
    /// # Errors
    /// An unknown key, a value of the wrong form, or a contradiction.
    pub fn load(layers: &[&str], files: &Files) -> Result<Self, BadConfig> {
        Self::load_from(layers, files, Environment::with_prefix(ENVIRONMENT_PREFIX))
    }

    /// As [`Settings::load`], with the file or folder of that name, and these variables in place of the
    /// environment.
    ///
    /// # Errors
    /// As [`Settings::load`] and [`Files::read`].
    pub fn load_with(layers: &[&str], path: Option<&Path>, variables: &[(&str, &str)]) -> Result<Self, BadConfig> {
        Self::load_from(layers, &Files::read(path)?, environment(variables))
    }

    /// As [`Settings::load_with`], with a file of this name and text, which need not be there.
    ///
    /// # Errors
    /// As [`Settings::load`].
    pub fn load_text(file: &Path, text: &str, variables: &[(&str, &str)]) -> Result<Self, BadConfig> {
        Self::load_from(&[], &Files::of(file, text), environment(variables))
    }

    fn load_from(layers: &[&str], files: &Files, environment: Environment) -> Result<Self, BadConfig> {
        let mut all = Config::builder();
        for layer in std::iter::once(&DEFAULT).chain(layers) {
            all = all.add_source(File::from_str(layer, FileFormat::Toml));
        }
        let compiled_in = all.clone();
        for (file, text) in files.texts() {
            // Read here first, for an error without a drawing of the line: it may hold a password.
            toml::from_str::<toml::Table>(text).map_err(|error| not_toml(file, text, &error))?;
            all = all.add_source(File::from_str(text, FileFormat::Toml));
        }
        let all = all.build().map_err(|error| BadConfig(one_line(&error)))?;
        credentials::no_secret_in_files(&all)?;
        let environment = environment.prefix_separator("__").separator("__");
        let settings = Config::builder().add_source(all).add_source(environment).build();
        let settings: Self = settings.and_then(Config::try_deserialize).map_err(|error| {
            // The first file without which all was well; the environment, where all the files are well.
            let mut so_far = compiled_in;
            for (file, text) in files.texts() {
                so_far = so_far.add_source(File::from_str(text, FileFormat::Toml));
                if let Err(error) = so_far.clone().build().and_then(Config::try_deserialize::<Self>) {
                    return BadConfig(format!("{}: {}", file.display(), one_line(&error)));
                }
            }
            BadConfig(format!("environment: {}", one_line(&error)))
        })?;
        settings.contradictions()?;
        Ok(settings)
    }

    /// What each setting allows by itself but not together, or not at all.
    fn contradictions(&self) -> Result<(), BadConfig> {
        let refuse = |text: String| Err(BadConfig(text));
        let show = humantime::format_duration;
        let updater = &self.updater;
        let needed = self.twitter.timeout + updater.save_timeout;
        if updater.lease <= needed {
            return refuse(format!(
                "updater.lease ({}) must be longer than twitter.timeout + updater.save_timeout ({}), or a living \
                 worker loses what it works on",
                show(updater.lease),
                show(needed)
            ));
        }
        if updater.buffer_ttl < Duration::from_millis(10) {
            return refuse(format!("updater.buffer_ttl ({}) must be at least 10ms", show(updater.buffer_ttl)));
        }
        if !(0.0..=0.5).contains(&updater.lookahead) {
            return refuse(format!("updater.lookahead ({}) is a share, from 0 to 0.5", updater.lookahead));
        }
        if !(1..=256).contains(&updater.concurrency) {
            return refuse(format!("updater.concurrency ({}) must be 1 to 256", updater.concurrency));
        }
        for (key, value) in [
            ("updater.unavailable_every", updater.unavailable_every),
            ("twitter.timeout", self.twitter.timeout),
            ("twitter.connect_timeout", self.twitter.connect_timeout),
            ("updater.save_timeout", updater.save_timeout),
            ("queue.redis.response_timeout", self.queue.redis.response_timeout),
            ("queue.redis.connect_timeout", self.queue.redis.connect_timeout),
            ("store.postgres.statement_timeout", self.store.postgres.statement_timeout),
            ("simulator.window", self.simulator.window),
        ] {
            if value.is_zero() {
                return refuse(format!("{key} must be longer than 0s"));
            }
        }
        if updater.unavailable_limit == 0 || updater.max_deliveries == 0 {
            return refuse("updater.unavailable_limit and updater.max_deliveries must be at least 1".to_owned());
        }
        if self.rebuild.rate == 0 {
            return refuse("rebuild.rate must be at least 1".to_owned());
        }
        if self.queue.redis.connections == 0 || self.store.postgres.connections == 0 {
            return refuse("queue.redis.connections and store.postgres.connections must be at least 1".to_owned());
        }
        for (key, share) in [
            ("simulator.missing_share", self.simulator.missing_share),
            ("simulator.withheld_share", self.simulator.withheld_share),
            ("simulator.retweet_share", self.simulator.retweet_share),
        ] {
            if !(0.0..=1.0).contains(&share) {
                return refuse(format!("{key} ({share}) is a share, from 0 to 1"));
            }
        }
        if self.starter.max_body_bytes == 0 {
            return refuse("starter.max_body_bytes must be at least 1".to_owned());
        }
        self.listen()?;
        let scheme = |url: &SecretString| {
            reqwest::Url::parse(url.expose_secret()).map(|url| url.scheme().to_owned()).unwrap_or_default()
        };
        if let Err(why) = address::check(self.queue.redis.url.expose_secret()) {
            return refuse(format!("queue.redis.url cannot be used: {why}"));
        }
        let redis = &self.queue.redis;
        for (key, file) in [("ca_file", &redis.ca_file), ("cert_file", &redis.cert_file), ("key_file", &redis.key_file)]
        {
            if !file.as_os_str().is_empty() && !address::is_secure(redis.url.expose_secret()) {
                return refuse(format!("queue.redis.{key} is for TLS: queue.redis.url has to begin with rediss"));
            }
        }
        if !["postgres", "postgresql"].contains(&&*scheme(&self.store.postgres.url)) {
            return refuse("store.postgres.url is not a postgres:// address".to_owned());
        }
        match reqwest::Url::parse(&self.twitter.api) {
            Ok(url) if matches!(url.scheme(), "http" | "https") && url.has_host() => Ok(()),
            _ => refuse(format!("twitter.api ({:?}) is not an http:// or https:// address", masked(&self.twitter.api))),
        }
    }

    /// The bearer token, from the environment or from its file; `None` when neither is given.
    ///
    /// # Errors
    /// The file cannot be read or is empty; both are given; or it is nothing that could be sent.
    pub fn bearer_token(&self) -> Result<Option<SecretString>, BadConfig> {
        self.twitter.single_bearer_token()
    }

    /// The token that the starter asks for, from the environment or from its file; `None` when neither is given.
    ///
    /// # Errors
    /// As [`Settings::bearer_token`].
    pub fn starter_token(&self) -> Result<Option<SecretString>, BadConfig> {
        secret("starter.bearer_token", &self.starter.bearer_token, &self.starter.bearer_token_file)
    }

    /// `http.listen` as an address; `None` where it is empty.
    ///
    /// # Errors
    /// It is none.
    pub fn listen(&self) -> Result<Option<SocketAddr>, BadConfig> {
        let listen = self.http.listen.trim();
        let addr = (!listen.is_empty()).then(|| listen.parse()).transpose();
        addr.map_err(|_| BadConfig(format!("http.listen ({listen:?}) is no address: write it like 0.0.0.0:8080")))
    }

    /// Every credential, by name: `bearer_token` as "bearer", then those of `[twitter.credentials.*]`,
    /// `kind = "both"` as two. Empty where none is named.
    ///
    /// # Errors
    /// A part is missing, given twice, of no use, empty or nothing that could be sent; two credentials
    /// have one name.
    pub fn credentials(&self) -> Result<Vec<(String, Secrets)>, BadConfig> {
        self.twitter.all_credentials()
    }

    /// The names of [`Settings::credentials`] and as whom each calls, in the same order. No secret is read:
    /// it serves where the secrets are not at hand.
    ///
    /// # Errors
    /// A name or a kind cannot be; two credentials have one name.
    pub fn callers(&self) -> Result<Vec<(String, Caller)>, BadConfig> {
        self.twitter.all_callers()
    }

    /// The settings in effect as TOML, secrets masked.
    #[must_use]
    pub fn shown(&self) -> String {
        // Only maps with text keys, no value after a table: cannot fail; if it ever did, say so.
        toml::to_string(self).unwrap_or_else(|error| format!("# cannot be shown: {error}"))
    }
}

/// An environment of these variables alone.
fn environment(variables: &[(&str, &str)]) -> Environment {
    let variables = variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    Environment::with_prefix(ENVIRONMENT_PREFIX).source(Some(variables))
}

/// One line that names the line and not what it says.
fn not_toml(file: &Path, text: &str, error: &toml::de::Error) -> BadConfig {
    let line = error.span().map_or(1, |span| 1 + text.bytes().take(span.start).filter(|byte| *byte == b'\n').count());
    let why = plain(error.message().lines().next().unwrap_or_default());
    BadConfig(format!("{} is not TOML, line {line}: {why}", file.display()))
}

/// In one line, and without what would steer a terminal: a key may hold anything.
fn plain(text: &str) -> String {
    text.split(char::is_control).map(str::trim).filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" ")
}

/// An error of the `config` crate in one line. A text that stands in the wrong place is not repeated:
/// it may be a password.
fn one_line(error: &config::ConfigError) -> String {
    let text = plain(&error.to_string());
    match (text.find("string \""), text.rfind("\", expected")) {
        (Some(start), Some(end)) if start < end => format!("{}a text{}", &text[..start], &text[end + 1..]),
        _ => text,
    }
}

/// The parameters of an address that hold a password: PostgreSQL's `password`, a Redis socket's `pass`.
fn is_password(parameter: &str) -> bool {
    parameter == "pass" || parameter.contains("password")
}

/// An address without its passwords.
fn masked(url: &str) -> String {
    masked_if_address(url).unwrap_or_else(|| "(not an address)".to_owned())
}

fn masked_if_address(url: &str) -> Option<String> {
    let Parts { scheme, user, hosts, path, query } = Parts::of(url)?;
    // Several hosts are more than an address may have: it is looked at with its first.
    let (first, others) = hosts.split_once(',').unwrap_or((hosts, ""));
    if [path, query].iter().any(|rest| rest.contains('@')) {
        return None; // a password with a slash: what looks like a host, or hosts, is a part of it
    }
    let mut url = reqwest::Url::parse(&format!("{scheme}://{user}{first}{path}{query}")).ok()?;
    if url.password().is_some() {
        // Refused only for addresses that cannot have a password, which then have none.
        let _ = url.set_password(Some("***"));
    }
    let pairs: Vec<(String, String)> = url.query_pairs().into_owned().collect();
    if pairs.iter().any(|(key, _)| is_password(key)) {
        let shown = pairs.into_iter().map(|(key, value)| {
            let value = if is_password(&key) { "***".to_owned() } else { value };
            (key, value)
        });
        url.query_pairs_mut().clear().extend_pairs(shown);
    }
    if others.is_empty() {
        return Some(url.to_string());
    }
    let Parts { scheme, user, hosts, path, query } = Parts::of(url.as_str())?;
    Some(format!("{scheme}://{user}{hosts},{others}{path}{query}"))
}

fn masked_url<S: Serializer>(url: &SecretString, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&masked(url.expose_secret()))
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

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
            ("[updater]\nbuffer_ttl = \"soon\"\n", vec![], "buffer_ttl"),
            ("colour = 1\n", vec![], "colour"),
            ("[queue]\nbackend = \"rabbit\"\n", vec![], "rabbit"),
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
            ("[twitter.credentials.main]\nkind = \"nobody\"\n", vec![], "nobody"),
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
        ] {
            let error = with(file, &variables).unwrap_err().to_string();
            assert!(error.contains(says), "{file:?}: {error}");
            assert!(!error.contains('\n') && !error.contains("canary"), "{error}");
        }
    }

    #[test]
    fn a_token_is_one_word_or_none() {
        let token = |token| Settings::load_with(&[], None, &[("TWITTER_UPDATER__TWITTER__BEARER_TOKEN", token)]);
        assert_eq!(token(" word\n").unwrap().bearer_token().unwrap().unwrap().expose_secret(), "word");
        assert!(token("").unwrap().bearer_token().unwrap().is_none());
        assert!(token("").unwrap().shown().contains("bearer_token = \"(not set)\""));
        for cannot in ["canary two", "canary\ntwo", "canarü"] {
            let error = token(cannot).unwrap().bearer_token().unwrap_err().to_string();
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
        assert_eq!(settings.bearer_token().unwrap().unwrap().expose_secret(), "canary");
        for shown in [settings.shown(), format!("{settings:?}")] {
            assert!(!shown.contains("canary"), "{shown}");
        }
        assert!(settings.shown().contains("redis+unix:///s?user=me&pass=***"), "{}", settings.shown());
        assert_eq!(masked("redis://me:canary@h/3"), "redis://me:***@h/3");
        let several = "redis+sentinel://me:canary@h,i:7,[::1]:8/name/3?sentinel_password=canary";
        assert_eq!(masked(several), "redis+sentinel://me:***@h,i:7,[::1]:8/name/3?sentinel_password=***");
        assert_eq!(masked("rediss+cluster://:can,ary@h:1,i:2"), "rediss+cluster://:***@h:1,i:2");
        for odd in ["redis+cluster://me:1,canary/2@h:1,i:2", "redis+cluster://me:1,canary#2@h:1,i:2"] {
            assert_eq!(masked(odd), "(not an address)");
        }
        assert!(settings.shown().contains("bearer_token = \"(set)\""), "{}", settings.shown());
    }
}
