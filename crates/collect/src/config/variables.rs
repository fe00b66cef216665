//! The environment: variables that are settings, and misspelled ones.

use std::collections::HashMap;
use std::ffi::OsString;
use std::sync::LazyLock;

use config::{Config, Environment, File, FileFormat};

use super::findings::Findings;
use super::poll::KEYS;
use super::{DEFAULT, ENVIRONMENT_PREFIX, Settings};

/// Settings of a credential, its secret parts included.
const CREDENTIAL: [&str; 11] = [
    "kind",
    "consumer_key",
    "consumer_secret",
    "token",
    "token_secret",
    "bearer_token",
    "consumer_key_file",
    "consumer_secret_file",
    "token_file",
    "token_secret_file",
    "bearer_token_file",
];

/// Tables whose entries a user names, with the settings of each entry.
static TABLES: LazyLock<[(&str, &[&str]); 5]> = LazyLock::new(|| {
    [
        ("twitter.credentials", &CREDENTIAL),
        ("x.credentials", &CREDENTIAL),
        ("mastodon.instances", &["api", "allow_plain_http", "calls", "bearer_token_file", "bearer_token"]),
        ("poll.sources", &KEYS),
        ("poll.streams", &["provider", "track", "follow", "locations", "credential", "fills"]),
    ]
});

/// Settings outside of those tables, secrets included.
static SETTINGS: LazyLock<Vec<String>> = LazyLock::new(|| {
    let defaults = Config::builder().add_source(File::from_str(DEFAULT, FileFormat::Toml)).build();
    let settings = defaults.and_then(Config::try_deserialize::<Settings>);
    settings.map(|settings| settings.flat_values().into_keys().collect()).unwrap_or_default()
});

pub(super) fn variable(setting: &str) -> String {
    format!("{ENVIRONMENT_PREFIX}__{}", setting.replace('.', "__")).to_uppercase()
}

/// Returns the variables of this process with our prefix.
pub(super) fn process_variables() -> Vec<(String, OsString)> {
    let ours = |(name, value): (OsString, OsString)| {
        let name = name.into_string().ok()?;
        // Compares bytes: the name may be any text.
        let begins = name.as_bytes().get(..ENVIRONMENT_PREFIX.len())?;
        begins.eq_ignore_ascii_case(ENVIRONMENT_PREFIX.as_bytes()).then_some((name, value))
    };
    std::env::vars_os().filter_map(ours).collect()
}

/// Returns the variables that are settings; records misspelled ones.
pub(super) fn read(variables: Vec<(String, OsString)>, found: &mut Findings) -> Environment {
    let mut settings = HashMap::new();
    for (name, value) in variables {
        if let Some(setting) = misspelled_setting(&name) {
            let right = variable(&setting);
            found.add(
                setting,
                format!(
                    "environment: {name} is not read: write {right}, with two underscores after {ENVIRONMENT_PREFIX} \
                     and for each dot"
                ),
            );
        } else if let Ok(value) = value.into_string() {
            settings.insert(name, value);
        } else if name.to_uppercase().starts_with(&variable("")) {
            found.add("", format!("environment: {name} is not UTF-8 text"));
        }
    }
    Environment::with_prefix(ENVIRONMENT_PREFIX).prefix_separator("__").separator("__").source(Some(settings))
}

/// Returns the setting of a variable with wrong underscores; `None` for a right name, or for no setting. A cluster sets
/// TWITTER_UPDATER_OPS_SERVICE_HOST and the like for its services.
fn misspelled_setting(name: &str) -> Option<String> {
    let name = name.to_lowercase();
    let rest = name.strip_prefix(&format!("{ENVIRONMENT_PREFIX}_").to_lowercase())?;
    if rest.strip_prefix('_').is_some_and(|setting| is_setting(&setting.replace("__", "."))) {
        return None;
    }
    let words: Vec<&str> = rest.split('_').filter(|word| !word.is_empty()).collect();
    let words = words.join("_");
    let by_name = SETTINGS.iter().find(|setting| setting.replace('.', "_") == words).cloned();
    by_name.or_else(|| TABLES.iter().find_map(|(table, fields)| table_entry(&words, table, fields)))
}

fn is_setting(setting: &str) -> bool {
    let of_table = |(table, fields): &(&str, &[&str])| {
        let entry = setting.strip_prefix(table).and_then(|entry| entry.strip_prefix('.')?.rsplit_once('.'));
        entry.is_some_and(|(_, field)| fields.contains(&field))
    };
    SETTINGS.iter().any(|known| known == setting) || TABLES.iter().any(of_table)
}

/// Setting that `words` name in `table`; `None` if they name none. The longest field name that matches the end counts.
fn table_entry(words: &str, table: &str, fields: &[&str]) -> Option<String> {
    let entry = words.strip_prefix(&table.replace('.', "_"))?.strip_prefix('_')?;
    let named = |field: &str| entry.strip_suffix(field)?.strip_suffix('_').filter(|name| !name.is_empty());
    let field = fields.iter().filter(|field| named(field).is_some()).max_by_key(|field| field.len())?;
    named(field).map(|name| format!("{table}.{name}.{field}"))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use super::*;

    #[test]
    fn wrong_underscores_are_distinguished_from_other_variables() {
        for (name, setting) in [
            ("TWITTER_UPDATER_UPDATER__LEASE", "updater.lease"),
            ("TWITTER_UPDATER_UPDATER_LEASE", "updater.lease"),
            ("TWITTER_UPDATER__UPDATER_LEASE", "updater.lease"),
            ("TWITTER_UPDATER___UPDATER__LEASE", "updater.lease"),
            ("twitter_updater_tweet_age", "tweet_age"),
            ("TWITTER_UPDATER_OPS_TOKEN", "ops.token"),
            ("TWITTER_UPDATER__QUEUE__REDIS_URL", "queue.redis.url"),
            ("TWITTER_UPDATER_TWITTER_CREDENTIALS_MAIN_TOKEN_SECRET", "twitter.credentials.main.token_secret"),
            ("TWITTER_UPDATER_TWITTER_CREDENTIALS_MY_OWN_KIND", "twitter.credentials.my_own.kind"),
            ("TWITTER_UPDATER__MASTODON__INSTANCES__A_API", "mastodon.instances.a.api"),
            ("TWITTER_UPDATER__POLL_SOURCES_NEWS__LIST_ID", "poll.sources.news.list_id"),
        ] {
            assert_eq!(misspelled_setting(name).as_deref(), Some(setting), "{name}");
        }
        for name in [
            "TWITTER_UPDATER__UPDATER__LEASE",
            "twitter_updater__updater__lease",
            "TWITTER_UPDATER__TWITTER__CREDENTIALS__X_BEARER__TOKEN",
            "TWITTER_UPDATER__MASTODON__INSTANCES__SOCIAL__API",
            "TWITTER_UPDATER__UPDATER__LEES",
            "TWITTER_UPDATER_CONFIG",
            "TWITTER_UPDATER_FIXTURES",
            // Variables of a cluster for the services twitter-updater, twitter-updater-ops and twitter-updater-starter.
            "TWITTER_UPDATER_PORT",
            "TWITTER_UPDATER_SERVICE_HOST",
            "TWITTER_UPDATER_OPS_SERVICE_HOST",
            "TWITTER_UPDATER_OPS_SERVICE_PORT_HTTP",
            "TWITTER_UPDATER_OPS_PORT",
            "TWITTER_UPDATER_OPS_PORT_8082_TCP_ADDR",
            "TWITTER_UPDATER_STARTER_PORT_8080_TCP",
            "HOME",
        ] {
            assert_eq!(misspelled_setting(name), None, "{name}");
        }
    }

    #[test]
    fn one_that_is_misspelled_is_refused_with_the_right_name() {
        let load = |name| Settings::load_with(&[], None, &[(name, "canary")]);
        let error = load("TWITTER_UPDATER_OPS_TOKEN").unwrap_err().to_string();
        assert!(error.contains("TWITTER_UPDATER_OPS_TOKEN is not read: write TWITTER_UPDATER__OPS__TOKEN,"), "{error}");
        assert!(!error.contains("canary"), "{error}");
        load("TWITTER_UPDATER_OPS_SERVICE_HOST").unwrap();
    }

    #[test]
    fn the_tables_have_the_fields_of_their_settings() {
        for (table, fields) in *TABLES {
            let file = format!("[{table}.a]\nno_field = 1\n");
            let error = Settings::load_text(Path::new("a.toml"), &file, &[]).unwrap_err().to_string();
            let expected = error.split_once("expected one of ").unwrap().1.split(" for key").next().unwrap();
            let expected: BTreeSet<&str> = expected.split('`').skip(1).step_by(2).collect();
            assert_eq!(expected, fields.iter().copied().collect(), "{table}");
        }
    }

    #[test]
    fn what_is_no_text_is_refused_and_not_shown() {
        use std::os::unix::ffi::OsStringExt;
        let mut found = Findings::default();
        let bytes = OsString::from_vec(b"canary\xff".to_vec());
        let _ =
            read(vec![(variable("updater.name"), bytes.clone()), ("TWITTER_UPDATER_X".to_owned(), bytes)], &mut found);
        let all: Vec<String> = found.all().map(ToString::to_string).collect();
        assert_eq!(all, ["configuration: environment: TWITTER_UPDATER__UPDATER__NAME is not UTF-8 text"]);
    }
}
