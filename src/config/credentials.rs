//! Secrets, `[twitter.credentials.*]` and `[x.credentials.*]`: from the environment or from files of their own, never from a
//! configuration file.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use config::Config;
use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Deserializer, Serialize};

use super::masking::masked_secret;
use super::{BadConfig, ENVIRONMENT_PREFIX, word};
use crate::credential::Caller;

/// The name of the credential that a provider's `bearer_token` gives.
pub const BEARER: &str = "bearer";
/// The parts of a credential, all of them secret.
const PARTS: [&str; 5] = ["consumer_key", "consumer_secret", "token", "token_secret", "bearer_token"];

/// `[twitter.credentials.NAME]` and `[x.credentials.NAME]`
#[derive(Debug, Clone, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
#[allow(missing_docs)]
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

/// `twitter.credentials.NAME.kind` and `x.credentials.NAME.kind`
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs)]
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

/// A credential's secrets, complete for its kind.
#[derive(Debug, Clone)]
pub enum Secrets {
    /// What signs for a user.
    User {
        /// The application's key.
        consumer_key: SecretString,
        /// The application's secret.
        consumer_secret: SecretString,
        /// The user's token.
        token: SecretString,
        /// The user's secret.
        token_secret: SecretString,
    },
    /// What an application's token is had for.
    App {
        /// The application's key.
        consumer_key: SecretString,
        /// The application's secret.
        consumer_secret: SecretString,
    },
    /// An application's token.
    Bearer(SecretString),
}

/// What a provider's section names.
pub(super) struct Named<'a> {
    /// The section: `twitter`.
    pub at: String,
    pub bearer_token: &'a Option<SecretString>,
    pub bearer_token_file: &'a Path,
    pub credentials: &'a BTreeMap<String, CredentialSettings>,
}

impl Named<'_> {
    /// Every credential the settings name, with its secrets, in the order of the names; `bearer_token`
    /// first. Empty where none is named.
    ///
    /// # Errors
    /// A part is missing, given twice, of no use, empty or nothing that could be sent; two credentials
    /// have one name.
    pub(super) fn all_credentials(&self) -> Result<Vec<(String, Secrets)>, BadConfig> {
        self.all_callers()?;
        let mut all: Vec<(String, Secrets)> = Vec::new();
        all.extend(self.single_bearer_token()?.map(|token| (BEARER.to_owned(), Secrets::Bearer(token))));
        for (name, settings) in self.credentials {
            all.extend(settings.read(&self.at, name)?);
        }
        Ok(all)
    }

    /// The names of [`Named::all_credentials`], in the same order, and as whom each calls. No
    /// secret is read for it.
    ///
    /// # Errors
    /// A name or a kind cannot be; two credentials have one name.
    pub(super) fn all_callers(&self) -> Result<Vec<(String, Caller)>, BadConfig> {
        let mut all: Vec<(String, Caller)> = Vec::new();
        if given(self.bearer_token).is_some() || !is_empty(self.bearer_token_file) {
            all.push((BEARER.to_owned(), Caller::AppOnly));
        }
        for (name, settings) in self.credentials {
            let callers = match settings.known_kind(&self.at, name)? {
                CredentialUse::User => vec![(name.clone(), Caller::User)],
                CredentialUse::App => vec![(name.clone(), Caller::AppOnly)],
                CredentialUse::Both => vec![(name.clone(), Caller::User), (app_of(name), Caller::AppOnly)],
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

    /// `bearer_token`, from the environment or from its file.
    fn single_bearer_token(&self) -> Result<Option<SecretString>, BadConfig> {
        secret(&format!("{}.bearer_token", self.at), self.bearer_token, self.bearer_token_file)
    }
}

impl CredentialSettings {
    /// The kind of the credential with this name.
    fn known_kind(&self, section: &str, name: &str) -> Result<CredentialUse, BadConfig> {
        let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_-".contains(&byte);
        if name.is_empty() || !name.bytes().all(is_plain) {
            return Err(BadConfig(format!(
                "{section}.credentials.{name:?}: a credential's name is made of a to z, 0 to 9, _ and -"
            )));
        }
        self.kind.ok_or_else(|| BadConfig(format!("{section}.credentials.{name}.kind is missing: user, app or both")))
    }

    fn read(&self, section: &str, name: &str) -> Result<Vec<(String, Secrets)>, BadConfig> {
        let at = format!("{section}.credentials.{name}");
        let kind = self.known_kind(section, name)?;
        let read = |part: &str, value, file| secret(&format!("{at}.{part}"), value, file);
        let consumer_key = read("consumer_key", &self.consumer_key, &self.consumer_key_file)?;
        let consumer_secret = read("consumer_secret", &self.consumer_secret, &self.consumer_secret_file)?;
        let token = read("token", &self.token, &self.token_file)?;
        let token_secret = read("token_secret", &self.token_secret, &self.token_secret_file)?;
        let bearer_token = read("bearer_token", &self.bearer_token, &self.bearer_token_file)?;

        let needed = |part: &str, value: Option<SecretString>| {
            let or =
                if kind == CredentialUse::App { " (or a bearer_token in place of both consumer keys)" } else { "" };
            value.ok_or_else(|| {
                BadConfig(format!(
                    "{at}.{part} is missing: kind = \"{kind}\" needs it{or}, in the environment as {} or in a file \
                     that {at}.{part}_file names",
                    variable(&format!("{at}.{part}"))
                ))
            })
        };
        let unused = |part: &str, value: &Option<SecretString>| match value {
            Some(_) => Err(BadConfig(format!("{at}.{part} is of no use with kind = \"{kind}\": take it out"))),
            None => Ok(()),
        };
        if kind == CredentialUse::App {
            unused("token", &token)?;
            unused("token_secret", &token_secret)?;
            if let Some(bearer_token) = bearer_token {
                return match consumer_key.or(consumer_secret) {
                    Some(_) => Err(BadConfig(format!(
                        "both {at}.bearer_token and consumer keys to fetch one with are given; keep one"
                    ))),
                    None => Ok(vec![(name.to_owned(), Secrets::Bearer(bearer_token))]),
                };
            }
        } else {
            unused("bearer_token", &bearer_token)?;
        }
        let consumer_key = needed("consumer_key", consumer_key)?;
        let consumer_secret = needed("consumer_secret", consumer_secret)?;
        let app = Secrets::App { consumer_key: consumer_key.clone(), consumer_secret: consumer_secret.clone() };
        if kind == CredentialUse::App {
            return Ok(vec![(name.to_owned(), app)]);
        }
        let (token, token_secret) = (needed("token", token)?, needed("token_secret", token_secret)?);
        let mut all = vec![(name.to_owned(), Secrets::User { consumer_key, consumer_secret, token, token_secret })];
        if kind == CredentialUse::Both {
            all.push((app_of(name), app));
        }
        Ok(all)
    }
}

/// The name of the application's half of `kind = "both"`.
fn app_of(name: &str) -> String {
    format!("{name}-app")
}

/// Refuses the secrets that stand in configuration files.
pub(super) fn no_secret_in_files(files: &Config) -> Result<(), BadConfig> {
    let refuse = |key: &str| {
        let variable = variable(key);
        Err(BadConfig(format!(
            "{key} has no place in a configuration file: put it into the environment as {variable}, or into a file \
             that {key}_file names"
        )))
    };
    for key in ["twitter.bearer_token", "x.bearer_token", "starter.bearer_token", "ops.token"] {
        if files.get::<String>(key).is_ok() {
            return refuse(key);
        }
    }
    for tables in ["twitter.credentials", "x.credentials", "mastodon.instances"] {
        for (name, settings) in files.get_table(tables).unwrap_or_default() {
            let Ok(settings) = settings.into_table() else { continue };
            if let Some(part) = PARTS.iter().find(|part| settings.keys().any(|key| key.eq_ignore_ascii_case(part))) {
                return refuse(&format!("{tables}.{name}.{part}"));
            }
        }
    }
    Ok(())
}

/// The environment's name for a setting.
fn variable(setting: &str) -> String {
    format!("{ENVIRONMENT_PREFIX}__{}", setting.replace('.', "__")).to_uppercase()
}

/// A secret from the environment or from its file; `None` where neither is given.
pub(super) fn secret(key: &str, value: &Option<SecretString>, file: &Path) -> Result<Option<SecretString>, BadConfig> {
    match (given(value), is_empty(file)) {
        (Some(_), false) => Err(BadConfig(format!("both {key} (environment) and {key}_file are given; keep one"))),
        (Some(secret), true) => sendable(secret.expose_secret(), key).map(Some),
        (None, true) => Ok(None),
        (None, false) => {
            let shown = file.display();
            let text = std::fs::read_to_string(file)
                .map_err(|error| BadConfig(format!("{key}_file {shown} cannot be read: {error}")))?;
            match text.trim() {
                "" => Err(BadConfig(format!("{key}_file {shown} is empty"))),
                secret => sendable(secret, &format!("{key}_file")).map(Some),
            }
        }
    }
}

/// A variable that is there and empty is one that is not set: some manifests have no other way to say so.
pub(super) fn given(secret: &Option<SecretString>) -> Option<&SecretString> {
    secret.as_ref().filter(|secret| !secret.expose_secret().trim().is_empty())
}

/// A secret that a header can carry: one word of ASCII.
fn sendable(secret: &str, key: &str) -> Result<SecretString, BadConfig> {
    let secret = secret.trim();
    if secret.bytes().all(|byte| byte.is_ascii_graphic()) {
        Ok(SecretString::from(secret))
    } else {
        Err(BadConfig(format!("{key} holds white space or something else that no header can carry")))
    }
}

pub(super) fn is_empty(path: &Path) -> bool {
    path.as_os_str().is_empty()
}
