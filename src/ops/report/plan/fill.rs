//! Ids in a request, from what comes due. Pure.
//!
//! A request goes out when `limit` ids are due, or when the oldest due id has waited `buffer_ttl`. It takes what is due,
//! and with lookahead `s` also what comes due soon, in the order of the due times, up to the first id that is more than
//! `s × interval` ahead. That id is the oldest of the next request, which goes out `buffer_ttl` after its due time.
//!
//! In lane `i`, with `rᵢ` updates a second, the first id beyond `s × intervalᵢ` comes due after `s × intervalᵢ + Eᵢ`, where
//! `Eᵢ` is exponential with mean `1 ÷ rᵢ`. So the mean time between two requests is
//!
//! ```text
//! T = buffer_ttl + E[minᵢ (s × intervalᵢ + Eᵢ)]
//! ```
//!
//! and a request carries `min(limit, r × T)` of all `r` updates a second. Without lookahead the minimum is `1 ÷ r`, and a
//! request carries `1 + r × buffer_ttl`. With the default age table the 3-minute lane decides: `T ≈ 5 s + 18 s + 13.5 ÷ r`.
//!
//! The estimate leaves out that ids of one request come due together one interval later, which makes requests a little
//! fuller, and that early updates add to the demand. `tests/it/plan/fill.rs` compares it with the claims
//! of real worker loops in simulated time.

use std::time::Duration;

use crate::providers::lookup::{Capabilities, Charge};

/// The settings by which requests are filled.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Fill {
    /// The maximum number of ids in a request.
    pub limit: usize,
    /// The time that the oldest due id may wait for its request to fill (`updater.buffer_ttl`).
    pub buffer_ttl: Duration,
    /// How early an id may be included, as a share of its interval (`updater.lookahead`).
    pub lookahead: f64,
}

/// The updates of a lane.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Flow {
    /// Updates per second.
    pub rate: f64,
    /// Its interval, in seconds.
    pub interval_s: f64,
}

impl Fill {
    /// Requests to a lookup with these capabilities. Where ids are charged lookahead is off; where each id counts as a
    /// call, a request is one id.
    #[must_use]
    pub fn of(capabilities: Capabilities, buffer_ttl: Duration, lookahead: f64) -> Self {
        let (limit, lookahead) = match capabilities.charge {
            Charge::PerCall => (capabilities.batch_limit, lookahead),
            Charge::PerIdPerUtcDay => (capabilities.batch_limit, 0.0),
            Charge::PerId => (1, 0.0),
        };
        Self { limit, buffer_ttl, lookahead }
    }

    /// Ids in a request, on average.
    #[must_use]
    pub fn ids_per_request(&self, flows: &[Flow]) -> f64 {
        let rate: f64 = flows.iter().map(|flow| flow.rate).sum();
        if rate > 0.0 { (rate * self.between(flows)).clamp(1.0, self.limit.max(1) as f64) } else { 1.0 }
    }

    /// Requests per second.
    #[must_use]
    pub fn requests_per_second(&self, flows: &[Flow]) -> f64 {
        // From a nought of its own: an empty sum is -0.
        flows.iter().fold(0.0, |sum, flow| sum + flow.rate) / self.ids_per_request(flows)
    }

    /// Mean seconds between two requests that are not full; `flows` has a rate above 0.
    fn between(&self, flows: &[Flow]) -> f64 {
        let mut beyond: Vec<(f64, f64)> = flows
            .iter()
            .filter(|flow| flow.rate > 0.0)
            .map(|flow| (self.lookahead * flow.interval_s, flow.rate))
            .collect();
        beyond.sort_by(|a, b| a.0.total_cmp(&b.0));
        // The integral of the probability that no lane has an id beyond its reach yet: from reach to reach it falls
        // exponentially, with the rates of the lanes before.
        let (mut mean, mut none, mut at, mut rate) = (0.0, 1.0, 0.0, 0.0);
        for (reach, more) in beyond {
            let span = reach - at;
            mean += if rate > 0.0 { none * -(-rate * span).exp_m1() / rate } else { span };
            none *= (-rate * span).exp();
            at = reach;
            rate += more;
        }
        self.buffer_ttl.as_secs_f64() + mean + none / rate
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::providers::twitter_v1::CAPABILITIES;

    fn fill(lookahead: f64) -> Fill {
        Fill::of(CAPABILITIES, Duration::from_secs(5), lookahead)
    }

    fn close(value: f64, expected: f64) {
        assert!((value - expected).abs() < 1e-9 * expected, "{value} and not {expected}");
    }

    #[test]
    fn without_lookahead_a_request_has_its_first_id_and_what_comes_in_the_wait() {
        let flows = [Flow { rate: 1.5, interval_s: 180.0 }, Flow { rate: 0.5, interval_s: 3_600.0 }];
        close(fill(0.0).ids_per_request(&flows), 11.0);
        close(fill(0.0).requests_per_second(&flows), 2.0 / 11.0);
        assert_eq!(fill(0.0).ids_per_request(&flows.map(|flow| Flow { rate: 50.0, ..flow })), 100.0);
        assert_eq!((fill(0.1).ids_per_request(&[]), fill(0.1).requests_per_second(&[])), (1.0, 0.0));
    }

    #[test]
    fn lookahead_adds_the_least_reach() {
        let alone = Flow { rate: 0.1, interval_s: 180.0 };
        close(fill(0.1).ids_per_request(&[alone]), 0.1 * (5.0 + 18.0 + 10.0));
        // A lane of 1,000 s joins at 100 s: until then only the first one ends the wait.
        let slow = Flow { rate: 0.3, interval_s: 1_000.0 };
        let until = (-0.1_f64 * 82.0).exp();
        let wait = 18.0 + (1.0 - until) / 0.1 + until / 0.4;
        close(fill(0.1).ids_per_request(&[slow, alone]), 0.4 * (5.0 + wait));
        let none = Flow { rate: 0.0, interval_s: 1.0 };
        close(fill(0.1).ids_per_request(&[none, slow, alone]), 0.4 * (5.0 + wait));
    }

    #[test]
    fn ids_that_are_charged_are_not_taken_early() {
        let flows = [Flow { rate: 2.0, interval_s: 180.0 }];
        let of = |charge| {
            Fill::of(crate::providers::lookup::Capabilities { charge, ..CAPABILITIES }, Duration::from_secs(5), 0.1)
        };
        close(of(Charge::PerIdPerUtcDay).ids_per_request(&flows), 11.0);
        close(of(Charge::PerId).ids_per_request(&flows), 1.0);
    }
}
