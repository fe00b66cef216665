//! The cheapest sign of life: the counts of 100 people in one call, and a visit where a count moved.

use twitter_updater::base::clock::Millis;
use twitter_updater::engine::schedule::visits::rhythm::{DAY, HOUR};

use super::data::Set;

/// People in a call.
pub const AT_ONCE: f64 = 100.0;

/// What came of it.
#[derive(Debug, Clone, Copy)]
pub struct Probed {
    pub mean_h: f64,
    pub p95_h: f64,
    /// Calls of a person and day: its share of the probes, and visits.
    pub calls: f64,
    pub visits: f64,
    /// Profiles read, of a person and day.
    pub profiles: f64,
}

/// Everybody is probed each `every` ms.
pub fn probed(set: &Set, every: Millis) -> Probed {
    let (mut delays, mut visits, mut days) = (Vec::new(), 0.0, 0.0);
    for (at, person) in set.people.iter().enumerate() {
        let observed = &person.observed;
        days += (observed.until - person.split) as f64 / DAY as f64;
        // People of one call are probed at the same moment: a hundred after each other.
        let mut now = person.split + every * (at as Millis / 100 % 20) / 20;
        let mut seen = person.split;
        while now < observed.until {
            let found = observed.events_between(seen, now);
            visits += f64::from(u8::from(!found.is_empty()));
            delays.extend(found.iter().map(|event| now - event));
            (seen, now) = (now, now + every);
        }
        delays.extend(observed.events_between(seen, observed.until + 1).iter().map(|event| observed.until - event));
    }
    delays.sort_unstable();
    let mean = delays.iter().map(|delay| *delay as f64).sum::<f64>() / delays.len().max(1) as f64;
    let p95 = delays.get(delays.len() * 95 / 100).copied().unwrap_or(0);
    let profiles = DAY as f64 / every as f64;
    let visits = visits / days;
    Probed {
        mean_h: mean / HOUR as f64,
        p95_h: p95 as f64 / HOUR as f64,
        calls: profiles / AT_ONCE + visits,
        visits,
        profiles,
    }
}
