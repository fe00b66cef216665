//! `simulator`: serves the simulated APIs.

use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Result, bail};

use super::start::address;
use super::{BadUsage, Options, duration, write_line};
use crate::app::simulator_options;
use collect::config::Settings;
use collect::ingest::Moment;
use engine::quota::{AppToken, Credential, CredentialKind, UserKeys};
use networks::model::provider::Provider;
use simulator::{
    self, MOST_ACCOUNTS, MOST_FOLLOWERS, MOST_IN_COMMUNITIES, SimulatedCredential, SimulatedKeys, SimulatorOptions,
};

/// Serve a simulated API of each network: set twitter.api to the printed address.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  twitter-updater simulator\n  twitter-updater simulator --listen 127.0.0.1:8081 --replay recordings/\n  twitter-updater simulator --account-changes 1h --accounts-gone 0.05 --account-away 6h --accounts-since 7d\n  twitter-updater simulator --accounts 1048576 --follow-changes 1h --count-follows --cursors-last 15m\n  twitter-updater simulator --communities --accounts 20000"
)]
pub(super) struct Arguments {
    /// Address to listen at; port 0 takes a free port.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:8081", value_parser = address)]
    listen: SocketAddr,
    /// Serve only the recorded tweets in this folder's JSON files.
    #[arg(long, value_name = "FOLDER")]
    replay: Option<PathBuf>,
    #[command(flatten)]
    accounts: Accounts,
    #[command(flatten)]
    follows: Follows,
}

/// The lives of the simulated accounts. By default they never change.
#[derive(Debug, clap::Args)]
struct Accounts {
    /// Number of accounts that can be looked up; the first 32,768 write the posts. [default: 32768]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=MOST_ACCOUNTS))]
    accounts: Option<u64>,
    /// Mean time between two changes of an account's profile; its counts change, too.
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    account_changes: Option<Duration>,
    /// Share of accounts, 0 to 0.5, that are suspended or deactivated at any time.
    #[arg(long, value_name = "SHARE", value_parser = |text: &str| number(text, 0.0..=0.5))]
    accounts_gone: Option<f64>,
    /// Mean duration of an account's absence. [default: 1day]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    account_away: Option<Duration>,
    /// Share of absences, 0 to 1, that are permanent: the account is deleted.
    #[arg(long, value_name = "SHARE", value_parser = |text: &str| number(text, 0.0..=1.0))]
    accounts_deleted: Option<f64>,
    /// Start of the accounts' changes and absences: 2h (ago), or 2026-01-31T08:00:00Z. [default: 2026-01-01T00:00:00Z]
    #[arg(long, value_name = "TIME")]
    accounts_since: Option<Moment>,
    /// Posts per second of each account, 0.001 to 500. [default: 1]
    #[arg(long, value_name = "N", value_parser = |text: &str| number(text, 0.001..=500.0))]
    posts_per_second: Option<f64>,
    /// Length of a simulated day, in which each account posts at its own rate and hours. [default: each posts evenly]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    posting_day: Option<Duration>,
    /// Divide the accounts into planted groups (pt-PT, pt-BR, es, en), which their profiles, posts and follows show.
    #[arg(long)]
    communities: bool,
}

impl Accounts {
    fn merge_into(self, options: SimulatorOptions) -> SimulatorOptions {
        SimulatorOptions {
            accounts: self.accounts.unwrap_or(options.accounts),
            account_changes: self.account_changes.unwrap_or(options.account_changes),
            accounts_gone: self.accounts_gone.unwrap_or(options.accounts_gone),
            account_away: self.account_away.unwrap_or(options.account_away),
            accounts_deleted: self.accounts_deleted.unwrap_or(options.accounts_deleted),
            accounts_since: self.accounts_since.map_or(options.accounts_since, |Moment(at)| at),
            posts_per_second: self.posts_per_second.unwrap_or(options.posts_per_second),
            posting_day: self.posting_day.unwrap_or(options.posting_day),
            communities: self.communities || options.communities,
            ..options
        }
    }
}

/// The simulated lists of followers and friends. By default they never change.
#[derive(Debug, clap::Args)]
struct Follows {
    /// Mean time between two new followers of an account; follows end at the same rate.
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    follow_changes: Option<Duration>,
    /// Maximum number of followers of an account; at most half of the accounts. [default: 300000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(0..=MOST_FOLLOWERS))]
    most_followers: Option<u64>,
    /// State the sizes of the lists as the numbers of followers and friends in profiles, instead of invented numbers.
    #[arg(long)]
    count_follows: bool,
    /// Lifetime of a list's cursor; after it, the cursor is refused. [default: unlimited]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    cursors_last: Option<Duration>,
    /// Share of accounts, 0 to 1, whose lists return the cursor of their second page without end.
    #[arg(long, value_name = "SHARE", value_parser = |text: &str| number(text, 0.0..=1.0))]
    cursors_repeat: Option<f64>,
    /// Share of accounts, 0 to 1, that hide their lists (Mastodon).
    #[arg(long, value_name = "SHARE", value_parser = |text: &str| number(text, 0.0..=1.0))]
    lists_hidden: Option<f64>,
    /// Share of accounts, 0 to 1, that are on another server, which shows half of their follows (Mastodon).
    #[arg(long, value_name = "SHARE", value_parser = |text: &str| number(text, 0.0..=1.0))]
    accounts_remote: Option<f64>,
}

impl Follows {
    fn merge_into(self, options: SimulatorOptions) -> SimulatorOptions {
        SimulatorOptions {
            follow_changes: self.follow_changes.unwrap_or(options.follow_changes),
            most_followers: self.most_followers.unwrap_or(options.most_followers),
            count_follows: self.count_follows || options.count_follows,
            cursors_last: self.cursors_last.unwrap_or(options.cursors_last),
            cursors_repeat: self.cursors_repeat.unwrap_or(options.cursors_repeat),
            lists_hidden: self.lists_hidden.unwrap_or(options.lists_hidden),
            accounts_remote: self.accounts_remote.unwrap_or(options.accounts_remote),
            ..options
        }
    }
}

fn number(text: &str, range: RangeInclusive<f64>) -> Result<f64, BadUsage> {
    let number = text.parse().ok().filter(|number| range.contains(number));
    number.ok_or_else(|| BadUsage(format!("write a number from {} to {}", range.start(), range.end())))
}

impl Arguments {
    pub async fn run(self, options: Options) -> Result<u8> {
        let start = options.start(&[])?;
        start.stop_on_signals()?;
        let settings = &start.settings;
        let options = SimulatorOptions {
            replay: self.replay,
            ..self.follows.merge_into(self.accounts.merge_into(simulator_options(&settings.simulator)))
        };
        if options.communities && options.accounts > MOST_IN_COMMUNITIES {
            bail!("--communities is for up to {MOST_IN_COMMUNITIES} accounts; lower --accounts");
        }
        let options =
            if options.check_credentials { admit_configured_credentials(settings, options)? } else { options };
        let running = simulator::start(self.listen, options).await?;
        // First line: the address for twitter.api, x.api, bluesky.api, or an instance's.
        write_line(&format!("simulated API at {}", running.base_url()))?;
        start.stop.wait_for_drain().await;
        running.stop().await;
        Ok(0)
    }
}

/// Admits only the credentials of the settings.
fn admit_configured_credentials(settings: &Settings, options: SimulatorOptions) -> Result<SimulatorOptions> {
    let instances = settings.mastodon.instances.keys().cloned().map(Provider::Mastodon);
    let (mut bearer_tokens, mut credentials) = (Vec::new(), Vec::new());
    for provider in [Provider::Twitter, Provider::X].into_iter().chain(instances) {
        for Credential { name, kind } in settings.credentials(&provider)? {
            let name = format!("{provider}:{name}");
            let keys = match kind {
                CredentialKind::User(UserKeys { consumer_key, consumer_secret, token, token_secret }) => {
                    SimulatedKeys::User { consumer_key, consumer_secret, token, token_secret }
                }
                CredentialKind::App(AppToken { consumer_key, consumer_secret, .. }) => {
                    SimulatedKeys::App { consumer_key, consumer_secret }
                }
                CredentialKind::Bearer(token) => {
                    bearer_tokens.push(token);
                    continue;
                }
                CredentialKind::Anonymous => continue,
            };
            credentials.push(SimulatedCredential { name, keys });
        }
    }
    if bearer_tokens.is_empty() && credentials.is_empty() {
        bail!(
            "simulator.check_credentials is on, and the settings have no credential: add one under [twitter.credentials.NAME] or \
             [x.credentials.NAME], or turn it off"
        );
    }
    Ok(SimulatorOptions { bearer_tokens: Some(bearer_tokens), credentials: Some(credentials), public: true, ..options })
}
