//! Reads the quota from an answer's headers, and sets the pause of a credential after a refusal for quota.

use std::time::Duration;

use super::http::Reply;
use super::scalar;
use crate::providers::lookup::{LookupError, Quota};
use engine::base::clock::{self, Millis};

/// Pause after a 429 while calls are left: too fast, or a daily cap that no header shows. minet and twarc make the same short pause.
const TOO_FAST_PAUSE: Duration = Duration::from_secs(5);

/// Pause after a 420 or 429 that states no time: the first step of Twitter's rules for rate-limited clients.
const UNSTATED_PAUSE: Duration = Duration::from_secs(60);

/// Shortest pause: a reset that has just passed must not cause a busy loop. The ledger doubles it with each further refusal.
const SHORTEST_PAUSE: Duration = Duration::from_secs(1);

/// Longest pause for 15-minute windows; one minute allows for clock differences. A later reset is garbage, and could park a
/// credential for years.
pub const MAX_PAUSE_15_MIN: Duration = Duration::from_secs(16 * 60);

/// Longest pause for 5-minute windows; likewise.
pub const MAX_PAUSE_5_MIN: Duration = Duration::from_secs(6 * 60);

/// Longest accepted `Retry-After`; a longer one is garbage and is ignored.
const LONGEST_RETRY_AFTER: Duration = Duration::from_secs(25 * 3600);

/// Longest accepted window. The networks' windows have 5 and 15 minutes; an instance may configure longer ones. A later end is
/// garbage, from its own header or from `Date`: with no call left, the updater would not call for years.
const LONGEST_WINDOW_MS: Millis = 61 * 60_000;

/// Returns a stated window if it is plausible. If `Date` is garbage, our clock measures the time left.
#[must_use]
pub fn if_plausible(stated: Option<Quota>) -> Option<Quota> {
    let mut quota = stated?;
    let by_ours = quota.reset_at - clock::wall_ms();
    if quota.reset_in > LONGEST_WINDOW_MS && (0..=LONGEST_WINDOW_MS).contains(&by_ours) {
        quota.reset_in = by_ours;
    }
    let Quota { limit, remaining, reset_in, .. } = quota;
    if reset_in > LONGEST_WINDOW_MS {
        tracing::debug!(limit, remaining, reset_in, "an answer's window ends too late: it is ignored");
        return None;
    }
    Some(quota)
}

/// Resets below this number are seconds left (polli-ratelimit-headers-02); others are times since the epoch.
const SPAN_BELOW_S: Millis = 1_000_000_000;

/// Resets from this number on are milliseconds since the epoch: as seconds they would be in the year 5138.
const MILLIS_FROM: Millis = 100_000_000_000;

/// Quota window from the headers `names`: limit, remaining calls and reset, in this order. `None` unless all three are readable.
/// Negative remaining calls count as 0.
pub fn read_window(reply: &Reply, names: [&str; 3]) -> Option<Quota> {
    let header = |name| reply.header(name).map(str::trim);
    let now = server_time(reply);
    let [limit, remaining, at] = names;
    let (limit, remaining): (u32, i64) = (header(limit)?.parse().ok()?, header(remaining)?.parse().ok()?);
    let remaining = u32::try_from(remaining.max(0)).unwrap_or(u32::MAX);
    let reset_at = parse_reset(header(at)?, now)?;
    let length = header(POLICY).and_then(|policy| policy_length(policy, limit));
    Some(Quota { limit, remaining, reset_at, reset_in: reset_at - now, length })
}

const POLICY: &str = "ratelimit-policy";

/// Length in ms of the window with `limit` calls: `3000;w=300`, or `"name";q=3000;w=300` in newer drafts; commas separate
/// several. `None` if no window has that limit, or its length is 0 or too long.
fn policy_length(policy: &str, limit: u32) -> Option<Millis> {
    policy.split(',').find_map(|item| {
        let mut parts = item.split(';').map(str::trim);
        let name = parts.next()?;
        let value = |part: &str, key: &str| part.strip_prefix(key)?.trim().parse::<u32>().ok();
        let parts: Vec<&str> = parts.collect();
        let calls = name.parse().ok().or_else(|| parts.iter().find_map(|part| value(part, "q=")))?;
        let seconds = parts.iter().find_map(|part| value(part, "w="))?;
        let length = Millis::from(seconds) * 1_000;
        (calls == limit && (1..=LONGEST_WINDOW_MS).contains(&length)).then_some(length)
    })
}

/// End of a window, ms since the epoch. Servers write seconds or milliseconds since the epoch, seconds left, or a date. `now` is
/// the server's clock.
fn parse_reset(text: &str, now: Millis) -> Option<Millis> {
    match text.parse::<Millis>() {
        Ok(left) if (0..SPAN_BELOW_S).contains(&left) => Some(now + left * 1000),
        Ok(at) if (SPAN_BELOW_S..MILLIS_FROM).contains(&at) => Some(at * 1000),
        Ok(at) if at >= MILLIS_FROM => Some(at),
        Ok(_) => None,
        // A window ends at a whole second. Mastodon adds the fraction of the request's second (its rate_limit_headers.rb), so each
        // answer would state another end.
        Err(_) => scalar::rfc3339(text).map(|at| at - at.rem_euclid(1000)).or_else(|| scalar::http_date(text)),
    }
}

/// Error for a 5xx, described by `said`: an outage. `Retry-After` also parks the credential, for `longest` at most.
pub fn outage_error(reply: &Reply, said: String, longest: Duration) -> LookupError {
    let now = reply.date().unwrap_or_else(clock::wall_ms);
    match retry_after(reply, now) {
        Some(pause) => LookupError::Overloaded { why: said, pause: pause.min(longest) },
        None => LookupError::Outage(said),
    }
}

/// Error for lack of quota; `quota` is unchecked. The pause comes from `Retry-After` or the window, and is at most `longest`.
pub fn throttle_error(reply: &Reply, quota: Option<Quota>, longest: Duration) -> LookupError {
    // The server's reset is compared with the server's Date: our clock has no part in it. Both are whole seconds, so the pause
    // errs by under 1 s.
    let now = reply.date().unwrap_or_else(clock::wall_ms);
    let pause = match (retry_after(reply, now), quota) {
        (Some(stated), _) => stated,
        (None, Some(quota)) if quota.remaining > 0 => TOO_FAST_PAUSE,
        (None, Some(quota)) => clock::span(quota.reset_at.saturating_sub(now)),
        (None, None) => UNSTATED_PAUSE,
    };
    LookupError::Throttled {
        status: reply.status,
        pause: pause.clamp(SHORTEST_PAUSE, longest),
        quota: if_plausible(quota),
    }
}

/// Server's clock now. `Date` has whole seconds; our clock is used only within that second. A window's end is exact to 1 ms if
/// the clocks agree, and to 1 s otherwise.
pub fn server_time(reply: &Reply) -> Millis {
    let ours = clock::wall_ms();
    reply.date().map_or(ours, |date| ours.clamp(date, date + 999))
}

/// Reads `Retry-After`, in seconds or as a date. `None` if it is longer than [`LONGEST_RETRY_AFTER`].
fn retry_after(reply: &Reply, now: Millis) -> Option<Duration> {
    let text = reply.header("retry-after")?.trim();
    let stated = match text.parse() {
        Ok(seconds) => Duration::from_secs(seconds),
        Err(_) => clock::span(scalar::http_date(text)?.saturating_sub(now)),
    };
    (stated <= LONGEST_RETRY_AFTER).then_some(stated)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policy_states_the_length_of_the_window_with_that_limit() {
        for (policy, length) in [
            ("3000;w=300", Some(300_000)),
            (" 3000; w=300 ", Some(300_000)),
            ("10;w=86400, 3000;w=300;burst=1000", Some(300_000)),
            ("\"default\";q=3000;w=60", Some(60_000)),
            ("10;w=86400", None),
            ("3000;w=86400", None),
            ("3000;w=0", None),
            ("3000", None),
            ("3000;w=soon", None),
            ("", None),
            (";;,,=", None),
        ] {
            assert_eq!(policy_length(policy, 3_000), length, "{policy}");
        }
    }
}
