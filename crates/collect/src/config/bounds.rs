//! The bounds of settings, and forbidden combinations.

use std::time::Duration;

use humantime::format_duration;
use secrecy::ExposeSecret;

use super::findings::Findings;
use super::masking::NO_ENDPOINT;
use super::{BadConfig, QueueBackend, Settings, StoreBackend};
use engine::base::backend::redis::address;
use engine::quota::Pacing;
use engine::schedule::budgeted::Spend;
use networks::model::post::Weights;
use networks::providers::http::{has_login, is_plain_http};
use store::postgres_address;

type Getter<T> = fn(&Settings) -> T;

/// Whole numbers: minimum and maximum.
const NUMBERS: [(&str, Getter<u64>, u64, u64); 21] = [
    ("queue.redis.connections", |of| to_u64(of.queue.redis.connections), 1, u64::MAX),
    ("store.postgres.connections", |of| of.store.postgres.connections.into(), 1, u64::MAX),
    ("lookup.max_body_bytes", |of| to_u64(of.lookup.max_body_bytes), 1, u64::MAX),
    ("relations.known_tail", |of| of.relations.known_tail.into(), 0, 5_000),
    ("relations.longest", |of| of.relations.longest, 0, i64::MAX as u64),
    ("relations.page", |of| of.relations.page.into(), 0, 5_000),
    ("visits.pages", |of| of.visits.pages.into(), 1, 1_000),
    ("visits.parts", |of| of.visits.parts.into(), 1, 1_024),
    ("media.max_bytes", |of| of.media.max_bytes, 1, i64::MAX as u64),
    ("media.max_disk_bytes", |of| of.media.max_disk_bytes, 0, i64::MAX as u64),
    ("media.per_host", |of| to_u64(of.media.per_host), 1, 64),
    // Redis computes with such numbers exactly, and no budget is larger.
    ("x.reads", |of| of.x.reads, 0, 1_000_000_000_000),
    ("x.reads_from_day", |of| of.x.reads_from_day.into(), 1, 28),
    ("updater.concurrency", |of| to_u64(of.updater.concurrency), 1, 256),
    ("updater.unavailable_limit", |of| of.updater.unavailable_limit.into(), 1, u64::MAX),
    ("updater.max_deliveries", |of| of.updater.max_deliveries.into(), 1, u64::MAX),
    ("starter.max_body_bytes", |of| to_u64(of.starter.max_body_bytes), 1, u64::MAX),
    ("http.connections", |of| to_u64(of.http.connections), 8, 100_000),
    ("rebuild.rate", |of| of.rebuild.rate.into(), 1, u64::MAX),
    ("poll.pages", |of| of.poll.pages.into(), 1, 1_000),
    // Largest integer of a shell or a TOML file, so that the effective settings can be shown.
    ("simulator.seed", |of| of.simulator.seed, 0, i64::MAX as u64),
];

/// Shares: minimum and maximum.
const SHARES: [(&str, Getter<f64>, f64, f64); 11] = [
    ("adaptive.earliest", |of| of.adaptive.earliest, 0.1, 1.0),
    ("visits.earliest", |of| of.visits.earliest, 0.1, 1.0),
    ("visits.hash_weight", |of| of.visits.hash_weight, 0.01, 1.0),
    ("relations.shrink", |of| of.relations.shrink, 0.0, 1.0),
    ("updater.lookahead", |of| of.updater.lookahead, 0.0, 0.5),
    ("x.same_day", |of| of.x.same_day, 0.0, 0.5),
    ("poll.fill", |of| of.poll.fill, 0.01, 1.0),
    ("simulator.missing_share", |of| of.simulator.missing_share, 0.0, 1.0),
    ("simulator.withheld_share", |of| of.simulator.withheld_share, 0.0, 1.0),
    ("simulator.retweet_share", |of| of.simulator.retweet_share, 0.0, 1.0),
    ("simulator.edited_share", |of| of.simulator.edited_share, 0.0, 1.0),
];

/// Factors: minimum and maximum.
const FACTORS: [(&str, Getter<f64>, f64, f64); 8] = [
    ("visits.hash_posts", |of| of.visits.hash_posts, 0.0, 100_000.0),
    ("adaptive.faster", |of| of.adaptive.faster, 1.0, 100.0),
    ("adaptive.slower", |of| of.adaptive.slower, 1.0, 100.0),
    ("adaptive.weights.likes", |of| of.adaptive.weights.likes, 0.0, 1_000.0),
    ("adaptive.weights.retweets", |of| of.adaptive.weights.retweets, 0.0, 1_000.0),
    ("adaptive.weights.replies", |of| of.adaptive.weights.replies, 0.0, 1_000.0),
    ("adaptive.weights.quotes", |of| of.adaptive.weights.quotes, 0.0, 1_000.0),
    ("adaptive.weights.views", |of| of.adaptive.weights.views, 0.0, 1_000.0),
];

/// Durations: minimum and maximum. Every duration setting is listed, because clocks cannot compute with centuries.
const DURATIONS: [(&str, Getter<Duration>, Duration, Duration); 43] = [
    ("accounts.active", |of| of.accounts.active, SECOND, TEN_YEARS),
    ("accounts.idle", |of| of.accounts.idle, SECOND, TEN_YEARS),
    ("accounts.frozen", |of| of.accounts.frozen, SECOND, TEN_YEARS),
    ("accounts.idle_after", |of| of.accounts.idle_after, SECOND, TEN_YEARS),
    ("accounts.freeze_after", |of| of.accounts.freeze_after, Duration::ZERO, TEN_YEARS),
    ("accounts.gone", |of| of.accounts.gone, SECOND, TEN_YEARS),
    ("supervision.silent_after", |of| of.supervision.silent_after, SECOND, TEN_YEARS),
    ("rebuild.every", |of| of.rebuild.every, Duration::ZERO, TEN_YEARS),
    ("relations.revisit", |of| of.relations.revisit, SECOND, TEN_YEARS),
    ("relations.complete_every", |of| of.relations.complete_every, Duration::ZERO, TEN_YEARS),
    ("visits.every", |of| of.visits.every, SECOND, TEN_YEARS),
    ("visits.shortest", |of| of.visits.shortest, SECOND, TEN_YEARS),
    ("visits.longest", |of| of.visits.longest, SECOND, TEN_YEARS),
    ("visits.posted_within", |of| of.visits.posted_within, Duration::ZERO, TEN_YEARS),
    ("media.stall", |of| of.media.stall, MILLISECOND, HOUR),
    ("media.retry", |of| of.media.retry, MILLISECOND, DAY),
    ("media.longest_retry", |of| of.media.longest_retry, MILLISECOND, MONTH),
    ("media.give_up_after", |of| of.media.give_up_after, Duration::ZERO, TEN_YEARS),
    ("queue.embedded.busy_timeout", |of| of.queue.embedded.busy_timeout, Duration::ZERO, HOUR),
    ("queue.redis.connect_timeout", |of| of.queue.redis.connect_timeout, MILLISECOND, HOUR),
    ("queue.redis.response_timeout", |of| of.queue.redis.response_timeout, MILLISECOND, HOUR),
    ("store.sqlite.busy_timeout", |of| of.store.sqlite.busy_timeout, Duration::ZERO, HOUR),
    ("store.postgres.statement_timeout", |of| of.store.postgres.statement_timeout, MILLISECOND, HOUR),
    ("store.longest_unchecked", |of| of.store.longest_unchecked, HOUR, TEN_YEARS),
    ("store.retention", |of| of.store.retention, Duration::ZERO, TEN_YEARS),
    ("lookup.timeout", |of| of.lookup.timeout, MILLISECOND, HOUR),
    ("lookup.connect_timeout", |of| of.lookup.connect_timeout, MILLISECOND, HOUR),
    // A worker polls once per wait: with shorter waits, polls would occupy the queue.
    ("updater.buffer_ttl", |of| of.updater.buffer_ttl, Duration::from_millis(10), DAY),
    ("updater.lease", |of| of.updater.lease, MILLISECOND, DAY),
    ("updater.save_timeout", |of| of.updater.save_timeout, MILLISECOND, HOUR),
    ("updater.drain_deadline", |of| of.updater.drain_deadline, Duration::ZERO, DAY),
    ("updater.unavailable_after", |of| of.updater.unavailable_after, MILLISECOND, TEN_YEARS),
    ("updater.unavailable_every", |of| of.updater.unavailable_every, MILLISECOND, TEN_YEARS),
    ("updater.unavailable_for", |of| of.updater.unavailable_for, Duration::ZERO, TEN_YEARS),
    ("http.drain_notice", |of| of.http.drain_notice, Duration::ZERO, DAY),
    ("poll.shortest", |of| of.poll.shortest, SECOND, MONTH),
    ("poll.longest", |of| of.poll.longest, SECOND, MONTH),
    ("poll.out_of_order", |of| of.poll.out_of_order, Duration::ZERO, DAY),
    ("poll.quiet_after", |of| of.poll.quiet_after, Duration::ZERO, TEN_YEARS),
    ("simulator.latency", |of| of.simulator.latency, Duration::ZERO, HOUR),
    ("simulator.jitter", |of| of.simulator.jitter, Duration::ZERO, HOUR),
    ("simulator.window", |of| of.simulator.window, MILLISECOND, MONTH),
    ("simulator.growth", |of| of.simulator.growth, Duration::ZERO, TEN_YEARS),
];

/// Prices in US dollars: maximum; the minimum is 0.
const PRICES: [(&str, Getter<f64>, f64); 1] = [("x.price_per_read", |of| of.x.price_per_read, 1_000.0)];

/// Unit of all delays.
const MILLISECOND: Duration = Duration::from_millis(1);
/// With shorter intervals, one source would use the quota of all.
const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3_600);
const DAY: Duration = Duration::from_secs(86_400);
const MONTH: Duration = Duration::from_secs(30 * 86_400);
const TEN_YEARS: Duration = Duration::from_secs(10 * 31_557_600);

/// Bounds of a number, a share or a duration, as text; `None` if the setting has no such bounds.
///
/// ```
/// assert_eq!(twitter_updater_collect::config::allowed_values("updater.concurrency").as_deref(), Some("1 to 256"));
/// ```
#[must_use]
pub fn allowed_values(setting: &str) -> Option<String> {
    let number = NUMBERS.iter().find(|(key, ..)| *key == setting).map(|(.., least, most)| number_range(*least, *most));
    let share_of =
        || SHARES.iter().find(|(key, ..)| *key == setting).map(|(.., least, most)| share_range(*least, *most));
    let duration =
        || DURATIONS.iter().find(|(key, ..)| *key == setting).map(|(.., least, most)| duration_range(*least, *most));
    let factor_of =
        || FACTORS.iter().find(|(key, ..)| *key == setting).map(|(.., least, most)| factor_range(*least, *most));
    let price_range = || PRICES.iter().find(|(key, ..)| *key == setting).map(|(.., most)| price_range(*most));
    number.or_else(share_of).or_else(factor_of).or_else(duration).or_else(price_range)
}

fn number_range(least: u64, most: u64) -> String {
    if most == u64::MAX { format!("at least {least}") } else { format!("{least} to {most}") }
}

fn share_range(least: f64, most: f64) -> String {
    format!("a share, from {least} to {most}")
}

fn factor_range(least: f64, most: f64) -> String {
    format!("a number, from {least} to {most}")
}

fn price_range(most: f64) -> String {
    format!("US dollars, from 0 to {most}")
}

fn duration_range(least: Duration, most: Duration) -> String {
    format!("{} to {}", format_duration(least), format_duration(most))
}

/// Checks a duration of a source, at `place`, against the bounds of the general setting.
pub(super) fn check_source_duration(place: &str, setting: &str, of: Duration) -> Result<(), BadConfig> {
    match DURATIONS.iter().find(|(key, ..)| *key == setting) {
        Some((.., least, most)) if of < *least || of > *most => {
            let range = duration_range(*least, *most);
            Err(BadConfig(format!("{place} ({}) must be {range}", format_duration(of))))
        }
        _ => Ok(()),
    }
}

fn to_u64(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}

impl Settings {
    pub(super) fn find_contradictions(&self, found: &mut Findings) {
        self.check_all_bounds(found);
        self.check_leases(found);
        self.check_silent_after(found);
        self.check_weights(found);
        self.check_spend(found);
        self.poll.find_contradictions(found);
        self.check_source_providers(found);
        self.check_communities(found);
        found.record_error("http.listen", self.listen());
        found.record_error("http.metrics_listen", self.metrics_listen());
        found.record_error("http.trusted_proxies", self.trusted_proxies());
        self.check_addresses(found);
    }

    fn check_all_bounds(&self, found: &mut Findings) {
        let mut refuse = |key: &str, value: String, allowed_values: String| {
            found.add_unless_it_follows(key, format!("{key} ({value}) must be {allowed_values}"));
        };
        for (key, of, least, most) in NUMBERS {
            let value = of(self);
            if !(least..=most).contains(&value) {
                refuse(key, value.to_string(), number_range(least, most));
            }
        }
        let shares = SHARES.map(|bounds| (bounds, share_range as fn(f64, f64) -> String));
        let factors = FACTORS.map(|bounds| (bounds, factor_range as fn(f64, f64) -> String));
        for ((key, of, least, most), words) in shares.into_iter().chain(factors) {
            let value = of(self);
            if !(least..=most).contains(&value) {
                refuse(key, value.to_string(), words(least, most));
            }
        }
        for (key, of, most) in PRICES {
            let value = of(self);
            if !(0.0..=most).contains(&value) {
                refuse(key, value.to_string(), price_range(most));
            }
        }
        for (key, of, least, most) in DURATIONS {
            let value = of(self);
            if !(least..=most).contains(&value) {
                refuse(key, format_duration(value).to_string(), duration_range(least, most));
            }
        }
    }

    fn check_leases(&self, found: &mut Findings) {
        let needed = self.lookup.timeout.saturating_add(self.updater.save_timeout);
        if self.updater.lease <= needed {
            found.add_unless_it_follows(
                "updater.lease",
                format!(
                    "updater.lease ({}) must be longer than lookup.timeout + updater.save_timeout ({}), or a live \
                     worker loses its batch",
                    format_duration(self.updater.lease),
                    format_duration(needed)
                ),
            );
        }
    }

    fn check_silent_after(&self, found: &mut Findings) {
        let silent_after = self.supervision.silent_after;
        let mut refuse = |key: &str, lease: Duration| {
            if silent_after <= lease {
                let why = format!(
                    "supervision.silent_after ({}) must be longer than {key} ({}), or a slow batch is restarted",
                    format_duration(silent_after),
                    format_duration(lease)
                );
                found.add_unless_it_follows("supervision.silent_after", why);
            }
        };
        refuse("updater.lease", self.updater.lease);
        if self.visits.collect || !self.poll.sources.is_empty() {
            refuse("lookup.timeout + 5 × updater.save_timeout", self.timeline_lease());
        }
    }

    fn check_weights(&self, found: &mut Findings) {
        let Weights { likes, retweets, replies, quotes, views } = self.adaptive.weights;
        if [likes, retweets, replies, quotes, views].iter().all(|weight| *weight == 0.0) {
            let why = "adaptive.weights are all 0: set at least one above 0, or no post is busier than another";
            found.add_unless_it_follows("adaptive.weights", why.to_owned());
        }
    }

    fn check_spend(&self, found: &mut Findings) {
        for (key, spend) in [("adaptive.spend", self.adaptive.spend), ("visits.spend", self.visits.spend)] {
            if spend == Spend::Quota && self.updater.pacing == Pacing::Greedy {
                let why = format!(
                    "{key} = \"quota\" spreads the calls over the quota's window, and updater.pacing = \"greedy\" never \
                     does: change one of them"
                );
                found.add_unless_it_follows(key, why);
            }
        }
    }

    fn check_addresses(&self, found: &mut Findings) {
        found.record_error("lookup.proxy", self.lookup.proxy());
        let redis = &self.queue.redis;
        if let Err(why) = address::check(redis.url.expose_secret()) {
            found.add_unless_it_follows("queue.redis.url", format!("queue.redis.url cannot be used: {why}"));
        }
        if self.queue.backend == QueueBackend::Redis
            && !redis.allow_plain_password
            && address::sends_plain_password(redis.url.expose_secret())
        {
            let why = "queue.redis.url sends its password in clear text: write rediss:// for TLS, or set \
                       queue.redis.allow_plain_password = true";
            found.add_unless_it_follows("queue.redis.url", why.to_owned());
        }
        for (key, file) in redis.tls_files() {
            if !file.as_os_str().is_empty() && !address::is_secure(redis.url.expose_secret()) {
                let why = format!("{key} is for TLS: write a queue.redis.url that begins with rediss, or remove {key}");
                found.add_unless_it_follows(key, why);
            }
        }
        let postgres_url = self.store.postgres.url.expose_secret();
        let scheme = reqwest::Url::parse(postgres_url).map(|url| url.scheme().to_owned()).unwrap_or_default();
        if !["postgres", "postgresql"].contains(&&*scheme) {
            let why = address::password_escape_hint(postgres_url)
                .unwrap_or("it is not a postgres:// address; write it like postgres://user@host/database");
            found.add_unless_it_follows("store.postgres.url", format!("store.postgres.url cannot be used: {why}"));
        }
        if self.store.backend == StoreBackend::Postgres
            && let Err(why @ postgres_address::BadAddress::Unverified(_)) =
                postgres_address::parse_address(postgres_url)
        {
            found.add_unless_it_follows("store.postgres.url", format!("store.postgres.url cannot be used: {why}"));
        }
        self.check_s3_endpoint(found);
        self.check_providers(found);
    }

    fn check_s3_endpoint(&self, found: &mut Findings) {
        let s3 = &self.media.s3;
        let Ok(url) = reqwest::Url::parse(&s3.endpoint) else { return };
        // Checked even without a media store, because `check` would show the login.
        if has_login(&url) {
            found.add_unless_it_follows("media.s3.endpoint", NO_ENDPOINT.to_owned());
        }
        // The keys may also come from the environment, or from the machine's role.
        if !self.media.store.is_empty() && !s3.allow_plain_http && is_plain_http(&url) {
            let why = "media.s3.endpoint would get requests signed with the keys in clear text: write https://, or set \
                       media.s3.allow_plain_http = true";
            found.add_unless_it_follows("media.s3.endpoint", why.to_owned());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::BadConfig;

    fn with(key: &str, value: &str) -> Result<Settings, BadConfig> {
        let variable = format!("TWITTER_UPDATER__{}", key.to_uppercase().replace('.', "__"));
        Settings::load_with(&[], None, &[(&variable, value)])
    }

    fn all(settings: &[(&str, &str)]) -> Result<Settings, String> {
        let name = |key: &str| format!("TWITTER_UPDATER__{}", key.to_uppercase().replace('.', "__"));
        let named: Vec<(String, &str)> = settings.iter().map(|(key, value)| (name(key), *value)).collect();
        let given: Vec<(&str, &str)> = named.iter().map(|(name, value)| (&**name, *value)).collect();
        Settings::load_with(&[], None, &given).map_err(|error| error.to_string())
    }

    #[test]
    fn a_password_of_a_service_crosses_no_network_in_clear_text() {
        let redis =
            |url, more: &[(&str, &str)]| all(&[&[("queue.backend", "redis"), ("queue.redis.url", url)], more].concat());
        let error = redis("redis://:canary@redis:6379", &[]).unwrap_err();
        assert!(error.contains("queue.redis.allow_plain_password = true") && !error.contains("canary"), "{error}");
        redis("redis://:canary@redis:6379", &[("queue.redis.allow_plain_password", "true")]).unwrap();
        redis("rediss://:canary@redis:6379", &[]).unwrap();
        redis("redis://redis:6379", &[]).unwrap();
        all(&[("queue.redis.url", "redis://:canary@redis:6379")]).unwrap();

        let postgres = |url| all(&[("store.backend", "postgres"), ("store.postgres.url", url)]);
        let error = postgres("postgres://u:canary@db/tweets?sslmode=require").unwrap_err();
        assert!(error.contains("store.postgres.url cannot be used: sslmode=require"), "{error}");
        assert!(error.contains("sslmode=verify-full") && !error.contains("canary"), "{error}");
        for url in
            ["postgres://u:p@db/tweets", "postgres://u:p@db/tweets?sslmode=disable", "postgres://u:p@[::1]/tweets"]
        {
            postgres(url).unwrap();
        }

        let bucket = |endpoint, more: &[(&str, &str)]| {
            all(&[&[("media.store", "s3://media"), ("media.s3.endpoint", endpoint)], more].concat())
        };
        let error = bucket("http://minio:9000", &[]).unwrap_err();
        assert!(error.contains("media.s3.allow_plain_http = true"), "{error}");
        bucket("http://minio:9000", &[("media.s3.allow_plain_http", "true")]).unwrap();
        for endpoint in ["https://minio:9000", "http://127.0.0.1:9000", "http://localhost:9000"] {
            bucket(endpoint, &[]).unwrap();
        }
    }

    /// Each bound is allowed. One more or less is rejected, and the error names the setting.
    #[test]
    fn bounds_are_included_and_what_lies_beyond_is_refused_by_name() {
        let refused = |key: &str, value: &str| {
            let error = with(key, value).unwrap_err().to_string();
            assert!(error.contains(key) && error.contains(&allowed_values(key).unwrap()), "{key} = {value}: {error}");
        };
        for (key, _, least, most) in NUMBERS {
            with(key, &least.to_string()).unwrap();
            if least > 0 {
                refused(key, &(least - 1).to_string());
            }
            if most < u64::MAX {
                with(key, &most.to_string()).unwrap();
                refused(key, &(most + 1).to_string());
            }
        }
        for (key, _, least, most) in SHARES.into_iter().chain(FACTORS) {
            with(key, &least.to_string()).unwrap();
            with(key, &most.to_string()).unwrap();
            refused(key, &(least - 0.01).to_string());
            refused(key, &(most + 0.01).to_string());
            refused(key, "nan");
        }
        for (key, _, most) in PRICES {
            with(key, "0").unwrap();
            with(key, &most.to_string()).unwrap();
            refused(key, &(most + 0.01).to_string());
            refused(key, "-0.01");
            refused(key, "nan");
        }
        for (key, _, least, most) in DURATIONS {
            // A bound may contradict another setting; it is not out of bounds.
            for bound in [least, most] {
                let refused = with(key, &format_duration(bound).to_string()).err().map(|error| error.to_string());
                assert!(
                    !refused.as_ref().is_some_and(|why| why.contains(&allowed_values(key).unwrap())),
                    "{refused:?}"
                );
            }
            if least > Duration::ZERO {
                refused(key, &format_duration(least - Duration::from_micros(1)).to_string());
            }
            refused(key, &format_duration(most + Duration::from_micros(1)).to_string());
            refused(key, "500000000years");
        }
    }

    #[test]
    fn weights_that_are_all_0_are_refused_and_one_above_is_enough() {
        let file = |likes: &str| {
            let text = format!("[adaptive.weights]\nlikes = {likes}\nretweets = 0.0\nreplies = 0.0\nquotes = 0.0\n");
            Settings::load_text(std::path::Path::new("a.toml"), &text, &[])
        };
        file("0.1").unwrap();
        let error = file("0.0").unwrap_err().to_string();
        assert!(error.contains("adaptive.weights are all 0"), "{error}");
    }

    #[test]
    fn silence_is_longer_than_a_batch_of_any_pipeline() {
        let silent_after = |span: &str, visits: bool| {
            let text = format!("[visits]\ncollect = {visits}\n[supervision]\nsilent_after = \"{span}\"\n");
            Settings::load_text(std::path::Path::new("a.toml"), &text, &[])
        };
        silent_after("100s", false).unwrap();
        let error = silent_after("100s", true).unwrap_err().to_string();
        assert!(error.contains("longer than lookup.timeout + 5 × updater.save_timeout (1m 50s)"), "{error}");
        silent_after("111s", true).unwrap();
    }

    #[test]
    fn a_quota_that_is_spent_evenly_is_not_greedy() {
        let spends = |pacing: &str| {
            let text = format!("[adaptive]\nspend = \"quota\"\n[updater]\npacing = \"{pacing}\"\n");
            Settings::load_text(std::path::Path::new("a.toml"), &text, &[])
        };
        spends("auto").unwrap();
        let error = spends("greedy").unwrap_err().to_string();
        assert!(error.contains("adaptive.spend") && error.contains("updater.pacing"), "{error}");
    }

    #[test]
    fn every_duration_has_its_bounds() {
        let defaults: toml::Table = super::super::DEFAULT.parse().unwrap();
        let mut durations = Vec::new();
        for (section, settings) in &defaults {
            let toml::Value::Table(settings) = settings else { continue };
            for (key, value) in settings {
                let nested = value.as_table().into_iter().flatten();
                durations.extend(nested.map(|(inner, value)| (format!("{section}.{key}.{inner}"), value)));
                durations.push((format!("{section}.{key}"), value));
            }
        }
        durations.retain(|(_, value)| value.as_str().is_some_and(|text| humantime::parse_duration(text).is_ok()));
        assert!(durations.len() >= DURATIONS.len(), "{durations:?}");
        for (key, _) in durations {
            assert!(DURATIONS.iter().any(|(known, ..)| *known == key), "{key} has no bounds");
        }
        let source = "[poll.sources.a]\nkind = \"home\"\nout_of_order = \"500000000years\"\n";
        for (file, says) in [
            (source, "poll.sources.a.out_of_order (500000000years) must be 0s to 1day"),
            ("tweet_age = \"500000000years: 1m\"", "tweet_age"),
            ("tweet_age = \"1h: 500000000years\"", "tweet_age"),
        ] {
            let error = Settings::load_text(std::path::Path::new("a.toml"), file, &[]).unwrap_err().to_string();
            assert!(error.contains(says), "{file}: {error}");
        }
    }
}
