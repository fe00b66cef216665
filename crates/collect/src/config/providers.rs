//! The networks: `providers`, `[lookup]`, and a section per provider.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize};

use super::credentials::{self, CredentialSection, access_token};
use super::findings::{BadConfigs, Findings};
use super::masking::{masked, masked_address, masked_secret, masked_url_or_none};
use super::variables::variable;
use super::{BadConfig, CredentialSettings, Settings, as_text, comma_separated, is_plain_name, names, word};
use engine::quota::{BudgetPeriod, Caller, Credential};
use networks::model::provider::Provider;
use networks::providers::http::{has_login, is_plain_http};
use networks::providers::proxy::ProxyAddress;
use networks::providers::x_v2::{FieldNames, Fields};

/// Name in `providers` for all configured Mastodon instances.
const EVERY_INSTANCE: &str = "mastodon";

#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct LookupSettings {
    #[serde(with = "humantime_serde")]
    pub timeout: Duration,
    #[serde(with = "humantime_serde")]
    pub connect_timeout: Duration,
    pub max_body_bytes: usize,
    #[serde(serialize_with = "masked_url_or_none")]
    pub proxy: SecretString,
}

impl LookupSettings {
    /// Proxy of calls and media; `None` if it is not set.
    pub fn proxy(&self) -> Result<Option<ProxyAddress>, BadConfig> {
        ProxyAddress::read(&self.proxy).map_err(|why| BadConfig(format!("lookup.proxy cannot be used: {why}")))
    }
}

#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct TwitterSettings {
    #[serde(serialize_with = "masked_address")]
    pub api: String,
    pub allow_plain_http: bool,
    pub bearer_token_file: PathBuf,
    /// Environment only.
    #[serde(default, serialize_with = "masked_secret")]
    pub bearer_token: Option<SecretString>,
    /// Keyed by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub credentials: BTreeMap<String, CredentialSettings>,
}

#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct XSettings {
    #[serde(serialize_with = "masked_address")]
    pub api: String,
    pub allow_plain_http: bool,
    #[serde(deserialize_with = "word")]
    pub field_names: FieldNames,
    /// Comma-separated names.
    #[serde(deserialize_with = "names")]
    pub fields: String,
    /// Comma-separated names.
    #[serde(deserialize_with = "names")]
    pub expansions: String,
    pub bearer_token_file: PathBuf,
    /// Environment only.
    #[serde(default, serialize_with = "masked_secret")]
    pub bearer_token: Option<SecretString>,
    pub reads: u64,
    #[serde(with = "as_text")]
    pub reads_per: BudgetPeriod,
    pub reads_from_day: u32,
    pub price_per_read: f64,
    pub same_day: f64,
    /// Keyed by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub credentials: BTreeMap<String, CredentialSettings>,
}

#[derive(Debug, Clone, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct MastodonSettings {
    /// Keyed by name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub instances: BTreeMap<String, InstanceSettings>,
}

#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct InstanceSettings {
    #[serde(serialize_with = "masked_address")]
    pub api: String,
    #[serde(default)]
    pub allow_plain_http: bool,
    #[serde(default, deserialize_with = "word")]
    pub calls: CallsWanted,
    #[serde(default, skip_serializing_if = "credentials::is_empty")]
    pub bearer_token_file: PathBuf,
    /// Environment only.
    #[serde(default, serialize_with = "masked_secret")]
    pub bearer_token: Option<SecretString>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum CallsWanted {
    #[default]
    Auto,
    Batch,
    Single,
}

#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct BlueskySettings {
    #[serde(serialize_with = "masked_address")]
    pub api: String,
    pub leave_out_hidden: bool,
}

impl Settings {
    /// Networks in the order of `providers`; never empty.
    pub fn providers(&self) -> Result<Vec<Provider>, BadConfig> {
        let mut all: Vec<Provider> = Vec::new();
        for name in comma_separated(&self.providers) {
            let named: Vec<Provider> = match name {
                EVERY_INSTANCE => self.mastodon.instances.keys().cloned().map(Provider::Mastodon).collect(),
                name => vec![name.parse().map_err(|error| BadConfig(format!("providers: {error}")))?],
            };
            if named.is_empty() {
                return Err(BadConfig(
                    "providers: mastodon has no instance: add one in [mastodon.instances.NAME], with its api"
                        .to_owned(),
                ));
            }
            for provider in named {
                self.check_configured(&provider)?;
                if all.contains(&provider) {
                    return Err(BadConfig(format!("providers: {provider} is named twice: remove one of the two")));
                }
                all.push(provider);
            }
        }
        match all.is_empty() {
            true => Err(BadConfig("providers is empty: name at least one, like twitter".to_owned())),
            false => Ok(all),
        }
    }

    /// The only provider; several are an error.
    pub fn provider(&self) -> Result<Provider, BadConfig> {
        match &self.providers()?[..] {
            [provider] => Ok(provider.clone()),
            several => {
                let names: Vec<String> = several.iter().map(Provider::to_string).collect();
                Err(BadConfig(format!("there are several providers: select one with --provider: {}", names.join(", "))))
            }
        }
    }

    fn check_configured(&self, provider: &Provider) -> Result<(), BadConfig> {
        match provider {
            Provider::Mastodon(name) => self.instance(name).map(drop),
            _ => Ok(()),
        }
    }

    pub fn instance(&self, name: &str) -> Result<&InstanceSettings, BadConfig> {
        self.mastodon.instances.get(name).ok_or_else(|| {
            BadConfig(format!("mastodon:{name} has no section: add [mastodon.instances.{name}], with its api"))
        })
    }

    /// Returns the setting and the address of the provider's API.
    pub fn api(&self, provider: &Provider) -> Result<(String, &str), BadConfig> {
        Ok(match provider {
            Provider::Twitter => ("twitter.api".to_owned(), &self.twitter.api),
            Provider::X => ("x.api".to_owned(), &self.x.api),
            Provider::Mastodon(name) => (format!("mastodon.instances.{name}.api"), &self.instance(name)?.api),
            Provider::Bluesky => ("bluesky.api".to_owned(), &self.bluesky.api),
        })
    }

    /// Fields and expansions of requests to X.
    pub fn x_fields(&self) -> Result<Fields, BadConfig> {
        let XSettings { field_names, fields, expansions, .. } = &self.x;
        Fields::new(*field_names, fields, expansions).map_err(|why| BadConfig(format!("x.{why}")))
    }

    /// Returns every credential of the provider: `bearer_token` as "bearer", then the named ones. A credential of
    /// `kind = "both"` becomes two.
    pub fn credentials(&self, provider: &Provider) -> Result<Vec<Credential>, BadConfig> {
        Ok(self.every_credential(provider)?)
    }

    /// Returns all credentials of a provider, or each error separately.
    pub fn every_credential(&self, provider: &Provider) -> Result<Vec<Credential>, BadConfigs> {
        let named = self.credential_section(provider).map_err(|wrong| BadConfigs(vec![wrong]))?;
        named.map_or_else(|| Ok(Vec::new()), |named| named.all_credentials())
    }

    /// Returns the names of [`Settings::credentials`] and the caller type of each, in the same order. Reads no secret,
    /// so it works where the secrets are missing.
    pub fn callers(&self, provider: &Provider) -> Result<Vec<(String, Caller)>, BadConfig> {
        self.credential_section(provider)?.map_or_else(|| Ok(Vec::new()), |named| named.all_callers())
    }

    /// Returns the credentials section; `None` for a provider without credentials.
    fn credential_section(&self, provider: &Provider) -> Result<Option<CredentialSection<'_>>, BadConfig> {
        static NONE: BTreeMap<String, CredentialSettings> = BTreeMap::new();
        Ok(match provider {
            Provider::Twitter => Some(CredentialSection {
                at: "twitter".to_owned(),
                bearer_token: &self.twitter.bearer_token,
                bearer_token_file: &self.twitter.bearer_token_file,
                credentials: &self.twitter.credentials,
            }),
            Provider::X => Some(CredentialSection {
                at: "x".to_owned(),
                bearer_token: &self.x.bearer_token,
                bearer_token_file: &self.x.bearer_token_file,
                credentials: &self.x.credentials,
            }),
            Provider::Mastodon(name) => {
                let instance = self.instance(name)?;
                Some(CredentialSection {
                    at: format!("mastodon.instances.{name}"),
                    bearer_token: &instance.bearer_token,
                    bearer_token_file: &instance.bearer_token_file,
                    credentials: &NONE,
                })
            }
            Provider::Bluesky => None,
        })
    }

    /// Token that clients must send to the starter; `None` if it is not set. A too short token is an error.
    pub fn starter_token(&self) -> Result<Option<SecretString>, BadConfig> {
        access_token("starter.bearer_token", &self.starter.bearer_token, &self.starter.bearer_token_file)
    }

    /// Token for actions on the page, as [`Settings::starter_token`].
    pub fn ops_token(&self) -> Result<Option<SecretString>, BadConfig> {
        access_token("ops.token", &self.ops.token, &self.ops.token_file)
    }

    /// Sets the API address of all providers to that of a simulator.
    pub fn set_all_api_addresses(&mut self, api: &str) {
        let instances = self.mastodon.instances.values_mut().map(|instance| &mut instance.api);
        for of in [&mut self.twitter.api, &mut self.x.api, &mut self.bluesky.api].into_iter().chain(instances) {
            api.clone_into(of);
        }
    }

    /// All secrets: setting, value from the environment, and path of the file.
    fn secrets(&self) -> Vec<(String, &Option<SecretString>, &Path)> {
        let single = |name: &str| name.to_owned();
        let mut all: Vec<(String, &Option<SecretString>, &Path)> = vec![
            (single("twitter.bearer_token"), &self.twitter.bearer_token, &self.twitter.bearer_token_file),
            (single("x.bearer_token"), &self.x.bearer_token, &self.x.bearer_token_file),
            (single("starter.bearer_token"), &self.starter.bearer_token, &self.starter.bearer_token_file),
            (single("ops.token"), &self.ops.token, &self.ops.token_file),
            (single("media.s3.access_key"), &self.media.s3.access_key, &self.media.s3.access_key_file),
            (single("media.s3.secret_key"), &self.media.s3.secret_key, &self.media.s3.secret_key_file),
        ];
        for (name, instance) in &self.mastodon.instances {
            let key = format!("mastodon.instances.{name}.bearer_token");
            all.push((key, &instance.bearer_token, &instance.bearer_token_file));
        }
        for (section, credentials) in [("twitter", &self.twitter.credentials), ("x", &self.x.credentials)] {
            for (name, credential) in credentials {
                let parts = credential
                    .parts()
                    .map(|(part, value, file)| (format!("{section}.credentials.{name}.{part}"), value, file));
                all.extend(parts);
            }
        }
        all
    }

    /// Records an error for each variable with an empty secret: most likely another variable was not set.
    pub(super) fn check_blank_secrets(&self, found: &mut Findings) {
        for (key, value, _) in self.secrets() {
            if value.as_ref().is_some_and(|secret| secret.expose_secret().trim().is_empty()) {
                let variable = variable(&key);
                found.add(
                    key.clone(),
                    format!("environment: {key} is empty: give {variable} the secret, or do not set it at all"),
                );
            }
        }
    }

    /// Returns files with secrets that every user of the machine may read, each with its setting.
    #[must_use]
    pub fn exposed_secrets(&self) -> Vec<(String, &Path)> {
        use std::os::unix::fs::PermissionsExt;
        const BY_EVERYBODY: u32 = 0o004;
        let secrets = self.secrets().into_iter().map(|(key, _, file)| (format!("{key}_file"), file));
        let key_of_redis = ("queue.redis.key_file".to_owned(), &*self.queue.redis.key_file);
        let is_exposed = |(_, file): &(String, &Path)| {
            std::fs::metadata(file).is_ok_and(|about| about.permissions().mode() & BY_EVERYBODY != 0)
        };
        secrets.chain([key_of_redis]).filter(is_exposed).collect()
    }

    /// Returns true if calls to that address would send credentials in clear text, and the settings do not allow it.
    /// Signing credentials count, too: a signed request may be replayed.
    fn sends_credentials_in_clear_text(&self, provider: &Provider, url: &reqwest::Url) -> bool {
        let is_allowed = match provider {
            Provider::Twitter => self.twitter.allow_plain_http,
            Provider::X => self.x.allow_plain_http,
            Provider::Mastodon(name) => self.instance(name).is_ok_and(|instance| instance.allow_plain_http),
            Provider::Bluesky => false,
        };
        // Reads no secret: a role without the secrets gets the same result.
        let has_credentials = || self.callers(provider).is_ok_and(|callers| !callers.is_empty());
        !is_allowed && is_plain_http(url) && has_credentials()
    }

    /// Validates every provider that has a section, even an unused one.
    pub(super) fn check_providers(&self, found: &mut Findings) {
        for name in self.mastodon.instances.keys() {
            if !is_plain_name(name) {
                let why = format!(
                    "mastodon.instances.{name:?}: an instance's name has up to 100 characters of a to z, 0 to 9, _ and -"
                );
                found.add_unless_it_follows(format!("mastodon.instances.{name}"), why);
            }
        }
        let instances = self.mastodon.instances.keys().cloned().map(Provider::Mastodon);
        for provider in [Provider::Twitter, Provider::X, Provider::Bluesky].into_iter().chain(instances) {
            let Some((setting, api)) = found.record_error("mastodon", self.api(&provider)) else { continue };
            let is_server = |url: &reqwest::Url| matches!(url.scheme(), "http" | "https") && url.has_host();
            let why = match reqwest::Url::parse(api) {
                Ok(url) if is_server(&url) && has_login(&url) => {
                    format!("{setting} must have no user and no password: set a credential instead")
                }
                Ok(url) if is_server(&url) && self.sends_credentials_in_clear_text(&provider, &url) => {
                    let section = setting.trim_end_matches(".api");
                    format!(
                        "{setting} ({}) would get the credentials of {section} in clear text: write https://, or set \
                         {section}.allow_plain_http = true",
                        masked(api)
                    )
                }
                Ok(url) if is_server(&url) => match find_repeated_path(&provider, &url) {
                    None => continue,
                    Some(path) => format!(
                        "{setting} ({}) ends in {path:?}, which each call adds: write the address without it",
                        masked(api)
                    ),
                },
                _ => format!("{setting} ({:?}) is not an http:// or https:// address", masked(api)),
            };
            found.add_unless_it_follows(setting, why);
        }
        found.record_error("x", self.x_fields());
        if !found.has_error_in("mastodon") {
            found.record_error("providers", self.providers()); // all instances are valid here
        }
    }
}

/// Returns the end of an API's address that each call adds again, for example `/2`.
fn find_repeated_path(provider: &Provider, api: &reqwest::Url) -> Option<&'static str> {
    let ends: &[&str] = match provider {
        Provider::Twitter | Provider::X => &["/1.1", "/2"],
        Provider::Mastodon(_) => &["/api/v1", "/api/v2", "/api"],
        Provider::Bluesky => &["/xrpc"],
    };
    let path = api.path().trim_end_matches('/');
    ends.iter().copied().find(|end| path.ends_with(end))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn settings(text: &str) -> Result<Settings, String> {
        Settings::load_text(Path::new("a.toml"), text, &[]).map_err(|error| error.to_string())
    }

    const TWO: &str = "[mastodon.instances.social]\napi = \"https://mastodon.social\"\n\
                       [mastodon.instances.old]\napi = \"https://old.example.org\"\ncalls = \"single\"\n";

    #[test]
    fn an_address_with_a_path_that_each_call_adds_is_refused() {
        for (setting, address, path) in [
            ("[twitter]\napi", "https://api.twitter.com/1.1/", "/1.1"),
            ("[twitter]\napi", "https://api.x.com/2", "/2"),
            ("[x]\napi", "https://proxy.example/x/2/", "/2"),
            ("[mastodon.instances.s]\napi", "https://mastodon.example/api/v1/", "/api/v1"),
            ("[bluesky]\napi", "https://public.api.bsky.app/xrpc", "/xrpc"),
        ] {
            let why = settings(&format!("{setting} = {address:?}")).unwrap_err();
            assert!(
                why.contains(&format!("ends in {path:?}")) && why.contains("write the address without it"),
                "{why}"
            );
        }
        for path in ["", "/", "/x2", "/mirror/v2"] {
            assert!(settings(&format!("[x]\napi = \"https://proxy.example{path}\"")).is_ok(), "{path}");
        }
    }

    #[test]
    fn providers_are_those_that_are_named() {
        let named = |providers: &str| {
            let settings = settings(&format!("providers = \"{providers}\"\n{TWO}")).unwrap();
            settings.providers().unwrap().iter().map(Provider::to_string).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(named("twitter"), "twitter");
        assert_eq!(named(" x, bluesky ,"), "x bluesky");
        assert_eq!(named("mastodon, x"), "mastodon:old mastodon:social x");
        assert_eq!(named("mastodon:social"), "mastodon:social");
        let settings = settings(&format!("providers = \"x, bluesky\"\n{TWO}")).unwrap();
        assert!(settings.provider().unwrap_err().to_string().contains("--provider: x, bluesky"));
        assert_eq!(settings.instance("old").unwrap().calls, CallsWanted::Single);
    }

    #[test]
    fn what_cannot_be_is_one_line_that_says_what_to_do() {
        for (text, says) in [
            ("providers = \"\"", "providers is empty"),
            ("providers = \"myspace\"", "\"myspace\" is no provider: there are twitter"),
            ("providers = \"x, x\"", "x is named twice"),
            ("providers = \"mastodon\"", "add one in [mastodon.instances.NAME]"),
            ("providers = \"mastodon:social\"", "add [mastodon.instances.social]"),
            ("[mastodon.instances.social]", "api"),
            ("[mastodon.instances.social]\napi = \"mastodon.social\"", "mastodon.instances.social.api"),
            ("[mastodon.instances.\"a b\"]\napi = \"http://a\"", "an instance's name has up to 100"),
            ("[mastodon.instances.a]\napi = \"http://a\"\ncalls = \"many\"", "`many`, expected one of `auto`"),
            ("[mastodon.instances.a]\napi = \"http://a\"\nbearer_token = \"canary\"", "no place in a configuration"),
            ("[x]\nbearer_token = \"canary\"", "TWITTER_UPDATER__X__BEARER_TOKEN"),
            ("[x.credentials.a]\nkind = \"app\"\nbearer_token = \"canary\"", "X__CREDENTIALS__A__BEARER_TOKEN"),
            ("[x]\nfield_names = \"toot\"", "`toot`, expected `tweet` or `post`"),
            (
                "[x]\nfields = \"lang, colour\"",
                "x.fields: \"colour\" is not a field of a post: write all, or any of author_id,",
            ),
            ("[x]\nfields = 7", "names with commas between them, or a list of names"),
            ("[x]\nexpansions = [\"all\"]", "x.expansions: \"all\" is not an expansion: write any of article."),
            ("[bluesky]\napi = \"bsky.app\"", "bluesky.api"),
        ] {
            let error = settings(&format!("{text}\n")).unwrap_err();
            assert!(error.contains(says) && !error.contains('\n') && !error.contains("canary"), "{text:?}: {error}");
        }
    }

    #[test]
    fn credentials_do_not_cross_a_network_in_clear_text() {
        let app = "kind = \"app\"\nbearer_token_file = \"/run/token\"\n";
        let user = "kind = \"user\"\nconsumer_key_file = \"/k\"\n";
        for (section, credentials) in [
            ("twitter", "bearer_token_file = \"/run/token\"\n".to_owned()),
            ("twitter", format!("[twitter.credentials.main]\n{app}")),
            ("twitter", format!("[twitter.credentials.main]\n{user}")),
            ("x", "bearer_token_file = \"/run/token\"\n".to_owned()),
            ("x", format!("[x.credentials.main]\n{app}")),
            ("mastodon.instances.a", "bearer_token_file = \"/run/token\"\n".to_owned()),
        ] {
            let with = |api: &str, more: &str| settings(&format!("[{section}]\napi = \"{api}\"\n{more}{credentials}"));
            for api in ["http://api.example.org", "HTTP://10.0.0.7:8080", "http://0.0.0.0:1", "http://[2001:db8::1]"] {
                let error = with(api, "").unwrap_err();
                let says = format!("set {section}.allow_plain_http = true");
                assert!(error.contains(&format!("{section}.api")) && error.contains(&says), "{api}: {error}");
                with(api, "allow_plain_http = true\n").unwrap();
            }
            for api in ["https://api.example.org", "http://localhost:1", "http://127.0.0.1:1", "http://[::1]:1"] {
                with(api, "").unwrap_or_else(|error| panic!("{section} {api}: {error}"));
            }
        }
        // Without credentials there is nothing to protect.
        for plain in [
            "[twitter]\napi = \"http://a\"\n",
            "[mastodon.instances.a]\napi = \"http://a\"\n",
            "[bluesky]\napi = \"http://a\"\n",
        ] {
            settings(plain).unwrap();
        }
        let token = [("TWITTER_UPDATER__X__BEARER_TOKEN", "canary")];
        let error =
            Settings::load_text(Path::new("a.toml"), "[x]\napi = \"http://a\"\n", &token).unwrap_err().to_string();
        assert!(error.contains("x.allow_plain_http") && !error.contains("canary"), "{error}");
    }

    #[test]
    fn names_come_as_a_text_or_as_a_list() {
        for given in
            ["fields = \"geo, entities\"\nexpansions = \"\"", "fields = [\"geo\", \"entities\"]\nexpansions = []"]
        {
            let settings = settings(&format!("[x]\n{given}\n")).unwrap();
            let fields = settings.x_fields().unwrap();
            let [(_, fields)] = fields.parameters().collect::<Vec<_>>()[..] else { panic!("{fields:?}") };
            assert!(fields.contains("entities,geo,in_reply_to_user_id") && !fields.contains("source"), "{fields}");
        }
        let settings = settings("providers = [\"twitter\", \"bluesky\"]\n").unwrap();
        assert_eq!(settings.providers().unwrap(), [Provider::Twitter, Provider::Bluesky]);
    }

    #[test]
    fn an_instance_has_one_token_or_none() {
        let token = "TWITTER_UPDATER__MASTODON__INSTANCES__SOCIAL__BEARER_TOKEN";
        let settings = Settings::load_text(Path::new("a.toml"), TWO, &[(token, "canary")]).unwrap();
        let names = |of: &str| {
            let named = settings.credentials(&Provider::Mastodon(of.to_owned())).unwrap();
            named.into_iter().map(|credential| credential.name).collect::<Vec<_>>()
        };
        assert_eq!((names("social"), names("old")), (vec!["bearer".to_owned()], vec![]));
        assert!(
            !settings.masked_toml().contains("canary") && settings.masked_toml().contains("bearer_token = \"(set)\"")
        );
    }
}
