//! Secrets, `[twitter.credentials.*]` and `[x.credentials.*]`.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use config::Config;
use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Deserializer, Serialize};

use super::findings::{BadConfigs, Findings};
use super::masking::masked_secret;
use super::variables::variable;
use super::{BadConfig, files, word};
use engine::quota::{AppToken, Caller, Credential, CredentialKind, UserKeys};

/// Credential name for a provider's `bearer_token`.
pub const BEARER: &str = "bearer";
/// Secret parts of a credential.
const PARTS: [&str; 5] = ["consumer_key", "consumer_secret", "token", "token_secret", "bearer_token"];

#[derive(Debug, Clone, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct CredentialSettings {
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "kind_word")]
    pub kind: Option<CredentialUse>,
    #[serde(serialize_with = "masked_secret")]
    pub consumer_key: Option<SecretString>,
    #[serde(serialize_with = "masked_secret")]
    pub consumer_secret: Option<SecretString>,
    #[serde(serialize_with = "masked_secret")]
    pub token: Option<SecretString>,
    #[serde(serialize_with = "masked_secret")]
    pub token_secret: Option<SecretString>,
    #[serde(serialize_with = "masked_secret")]
    pub bearer_token: Option<SecretString>,
    #[serde(skip_serializing_if = "is_empty")]
    pub consumer_key_file: PathBuf,
    #[serde(skip_serializing_if = "is_empty")]
    pub consumer_secret_file: PathBuf,
    #[serde(skip_serializing_if = "is_empty")]
    pub token_file: PathBuf,
    #[serde(skip_serializing_if = "is_empty")]
    pub token_secret_file: PathBuf,
    #[serde(skip_serializing_if = "is_empty")]
    pub bearer_token_file: PathBuf,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum CredentialUse {
    User,
    App,
    Both,
}

fn kind_word<'de, D: Deserializer<'de>>(from: D) -> Result<Option<CredentialUse>, D::Error> {
    word(from).map(Some)
}

impl fmt::Display for CredentialUse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::User => "user",
            Self::App => "app",
            Self::Both => "both",
        })
    }
}

/// Name and secret of the part by which the API counts calls.
fn counted_part(kind: &CredentialKind) -> Option<(&'static str, &str)> {
    Some(match kind {
        CredentialKind::User(keys) => ("token", keys.token.expose_secret()),
        CredentialKind::App(app) => ("consumer_key", app.consumer_key.expose_secret()),
        CredentialKind::Bearer(token) => ("bearer_token", token.expose_secret()),
        CredentialKind::Anonymous => return None,
    })
}

/// Credentials in a provider's section.
pub(super) struct CredentialSection<'a> {
    /// Section name: `twitter`.
    pub at: String,
    pub bearer_token: &'a Option<SecretString>,
    pub bearer_token_file: &'a Path,
    pub credentials: &'a BTreeMap<String, CredentialSettings>,
}

impl CredentialSection<'_> {
    /// Returns all credentials with their secrets, in the order of their names, `bearer_token` first. Reports all wrong
    /// parts, and every repeated name.
    pub(super) fn all_credentials(&self) -> Result<Vec<Credential>, BadConfigs> {
        let mut found = Findings::default();
        let mut all = Vec::new();
        let token = found.record_error(&format!("{}.bearer_token", self.at), self.read_bearer_token()).flatten();
        all.extend(token.map(|token| Credential { name: BEARER.to_owned(), kind: CredentialKind::Bearer(token) }));
        for (name, settings) in self.credentials {
            all.extend(settings.read(&self.at, name, &mut found));
        }
        if found.is_empty() {
            found.record_error(&self.at, self.all_callers());
        }
        if found.is_empty() {
            self.check_repeated_secrets(&all, &mut found);
        }
        found.into_result().map(|()| all)
    }

    /// Records an error for two names of one secret: the ledger would have two windows, but the API counts one.
    fn check_repeated_secrets(&self, all: &[Credential], found: &mut Findings) {
        let mut names = BTreeMap::new();
        for Credential { name, kind } in all {
            let Some(counted_part) = counted_part(kind) else { continue };
            if let Some(other) = names.insert(counted_part, name) {
                let (at, part) = (&self.at, counted_part.0);
                let why = format!(
                    "{at}: the credentials {other:?} and {name:?} have the same {part}: the API counts them as one, so its \
                     quota would be counted twice; remove one of them"
                );
                found.add(format!("{at}.credentials.{name}"), why);
            }
        }
    }

    /// Returns the names of [`CredentialSection::all_credentials`], and the caller type of each. Reads no secret.
    pub(super) fn all_callers(&self) -> Result<Vec<(String, Caller)>, BadConfig> {
        let mut all: Vec<(String, Caller)> = Vec::new();
        if self.bearer_token.is_some() || !is_empty(self.bearer_token_file) {
            all.push((BEARER.to_owned(), Caller::AppOnly));
        }
        for (name, settings) in self.credentials {
            let callers = match settings.require_kind(&self.at, name)? {
                CredentialUse::User => vec![(name.clone(), Caller::User)],
                CredentialUse::App => vec![(name.clone(), Caller::AppOnly)],
                CredentialUse::Both => vec![(name.clone(), Caller::User), (app_name(name), Caller::AppOnly)],
            };
            for (name, caller) in callers {
                if all.iter().any(|(taken, _)| *taken == name) {
                    let at = &self.at;
                    return Err(BadConfig(format!(
                        "two credentials are called {name:?}: {at}.bearer_token is {BEARER:?}, and kind = \
                         \"both\" makes NAME and NAME-app; rename {at}.credentials.{name}"
                    )));
                }
                all.push((name, caller));
            }
        }
        Ok(all)
    }

    /// Token of a section with one credential, from the environment or its file; `None` if neither is set. Fails if both are set, or
    /// the file is unreadable.
    fn read_bearer_token(&self) -> Result<Option<SecretString>, BadConfig> {
        read_secret(&format!("{}.bearer_token", self.at), self.bearer_token, self.bearer_token_file)
    }
}

impl CredentialSettings {
    fn require_kind(&self, section: &str, name: &str) -> Result<CredentialUse, BadConfig> {
        let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_-".contains(&byte);
        if name.is_empty() || !name.bytes().all(is_plain) {
            return Err(BadConfig(format!(
                "{section}.credentials.{name:?}: a credential's name may only have a to z, 0 to 9, _ and -"
            )));
        }
        self.kind
            .ok_or_else(|| BadConfig(format!("{section}.credentials.{name}.kind is missing: write user, app or both")))
    }

    /// Returns each secret part: its name, its value from the environment, and the path of its file.
    pub(super) fn parts(&self) -> [(&'static str, &Option<SecretString>, &Path); 5] {
        let [consumer_key, consumer_secret, token, token_secret, bearer_token] = PARTS;
        [
            (consumer_key, &self.consumer_key, &self.consumer_key_file),
            (consumer_secret, &self.consumer_secret, &self.consumer_secret_file),
            (token, &self.token, &self.token_file),
            (token_secret, &self.token_secret, &self.token_secret_file),
            (bearer_token, &self.bearer_token, &self.bearer_token_file),
        ]
    }

    /// Returns the credentials of this entry; none if a part is wrong, which is recorded.
    fn read(&self, section: &str, name: &str, found: &mut Findings) -> Vec<Credential> {
        let of = |name: &str, kind| Credential { name: name.to_owned(), kind };
        let at = format!("{section}.credentials.{name}");
        let Some(kind) = found.record_error(&at, self.require_kind(section, name)) else { return Vec::new() };
        let [consumer_key, consumer_secret, token, token_secret, bearer_token] =
            self.parts().map(|(part, value, file)| {
                let key = format!("{at}.{part}");
                SecretSetting { kind, secret: found.record_error(&key, read_secret(&key, value, file)).flatten(), key }
            });
        if kind == CredentialUse::App {
            token.reject_if_set(found);
            token_secret.reject_if_set(found);
            if let Some(bearer_token) = bearer_token.secret {
                if consumer_key.secret.or(consumer_secret.secret).is_some() {
                    let why = format!(
                        "both {at}.bearer_token and consumer keys to fetch a token are set: remove one of the two"
                    );
                    found.add(at, why);
                }
                return vec![of(name, CredentialKind::Bearer(bearer_token))];
            }
        } else {
            bearer_token.reject_if_set(found);
        }
        let keys = (consumer_key.require(found), consumer_secret.require(found));
        if kind == CredentialUse::App {
            let (Some(consumer_key), Some(consumer_secret)) = keys else { return Vec::new() };
            return vec![of(name, CredentialKind::App(AppToken::new(consumer_key, consumer_secret)))];
        }
        let tokens = (token.require(found), token_secret.require(found));
        let ((Some(consumer_key), Some(consumer_secret)), (Some(token), Some(token_secret))) = (keys, tokens) else {
            return Vec::new();
        };
        let app = AppToken::new(consumer_key.clone(), consumer_secret.clone());
        let user = UserKeys { consumer_key, consumer_secret, token, token_secret };
        let mut all = vec![of(name, CredentialKind::User(user))];
        if kind == CredentialUse::Both {
            all.push(of(&app_name(name), CredentialKind::App(app)));
        }
        all
    }
}

struct SecretSetting {
    kind: CredentialUse,
    key: String,
    secret: Option<SecretString>,
}

impl SecretSetting {
    /// Returns the secret, or records an error.
    fn require(self, found: &mut Findings) -> Option<SecretString> {
        let Self { kind, key, secret } = self;
        if secret.is_none() && !found.has_error_at(&key) {
            let or =
                if kind == CredentialUse::App { " (or a bearer_token in place of both consumer keys)" } else { "" };
            let why = format!(
                "{key} is missing: kind = \"{kind}\" needs it{or}; set {} in the environment, or name its file in \
                 {key}_file",
                variable(&key)
            );
            found.add(key, why);
        }
        secret
    }

    fn reject_if_set(&self, found: &mut Findings) {
        let Self { kind, key, secret } = self;
        if secret.is_some() {
            found.add(key, format!("{key} has no effect with kind = \"{kind}\": remove it"));
        }
    }
}

/// Name of the application's half of `kind = "both"`.
fn app_name(name: &str) -> String {
    format!("{name}-app")
}

/// Records an error for each secret in a configuration file, and returns their settings.
pub(super) fn find_secrets_in_file(origin: &str, file: &Config, found: &mut Findings) -> Vec<String> {
    let mut there: Vec<String> = Vec::new();
    for key in [
        "twitter.bearer_token",
        "x.bearer_token",
        "starter.bearer_token",
        "ops.token",
        "media.s3.access_key",
        "media.s3.secret_key",
    ] {
        if file.get::<String>(key).is_ok() {
            there.push(key.to_owned());
        }
    }
    for tables in ["twitter.credentials", "x.credentials", "mastodon.instances"] {
        for (name, settings) in file.get_table(tables).unwrap_or_default() {
            let Ok(settings) = settings.into_table() else { continue };
            let is_secret = |key: &&String| PARTS.iter().any(|part| key.eq_ignore_ascii_case(part));
            there.extend(settings.keys().filter(is_secret).map(|key| format!("{tables}.{name}.{key}")));
        }
    }
    there.sort();
    for key in &there {
        let variable = variable(key);
        found.add(
            key,
            format!(
                "{origin}: {key} has no place in a configuration file: set {variable} in the environment, or name its \
                 file in {key}_file"
            ),
        );
    }
    there
}

/// Maximum size of a secret file in bytes.
const LONGEST_SECRET: u64 = 64 * 1024;

/// Returns a secret from the environment or its file; `None` if neither is set.
pub(super) fn read_secret(
    key: &str,
    value: &Option<SecretString>,
    file: &Path,
) -> Result<Option<SecretString>, BadConfig> {
    match (value, is_empty(file)) {
        (Some(_), false) => {
            Err(BadConfig(format!("both {key} (environment) and {key}_file are set: remove one of the two")))
        }
        (Some(secret), true) => parse_secret(secret.expose_secret(), key).map(Some),
        (None, true) => Ok(None),
        (None, false) => {
            let shown = file.display();
            let text =
                files::read_text(file, LONGEST_SECRET).map_err(|why| BadConfig(format!("{key}_file {shown} {why}")))?;
            match text.trim() {
                "" => Err(BadConfig(format!("{key}_file {shown} is empty"))),
                secret => parse_secret(secret, &format!("{key}_file")).map(Some),
            }
        }
    }
}

/// Minimum length of a token that clients send to us. Guesses are not blocked, but 16 random hexadecimal digits take
/// thousands of years at a million guesses per second.
const SHORTEST_TOKEN: usize = 16;

/// Returns a token that clients send to us; `None` as in [`read_secret`].
pub(super) fn access_token(
    key: &str,
    value: &Option<SecretString>,
    file: &Path,
) -> Result<Option<SecretString>, BadConfig> {
    let token = read_secret(key, value, file)?;
    match token.as_ref().map(|token| token.expose_secret().len()) {
        Some(length) if length < SHORTEST_TOKEN => {
            let place = if is_empty(file) { key.to_owned() } else { format!("{key}_file {}", file.display()) };
            Err(BadConfig(format!(
                "{place} has {length} characters, and a token must have at least {SHORTEST_TOKEN}, so that it cannot be \
                 guessed: make one with `openssl rand -hex 32`"
            )))
        }
        _ => Ok(token),
    }
}

/// Accepts a secret that a header can carry: one word of ASCII.
fn parse_secret(secret: &str, key: &str) -> Result<SecretString, BadConfig> {
    let secret = secret.trim();
    if secret.starts_with(['"', '\'']) || secret.ends_with(['"', '\'']) {
        return Err(BadConfig(format!(
            "{key} is in quotes, which would be sent with it: write it without quotes (`docker --env-file` keeps them)"
        )));
    }
    if secret.bytes().all(|byte| byte.is_ascii_graphic()) {
        Ok(SecretString::from(secret))
    } else {
        Err(BadConfig(format!(
            "{key} has white space or a character that is not ASCII: write the secret alone, without a word like Bearer"
        )))
    }
}

pub(super) fn is_empty(path: &Path) -> bool {
    path.as_os_str().is_empty()
}
