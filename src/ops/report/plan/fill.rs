//! Number of ids per request, from the ids that come due. Pure.
//!
//! A request goes out when `limit` ids are due, or when the oldest due id has waited `buffer_ttl`. It takes the due ids. With lookahead
//! `s` it also takes ids that come due soon, in the order of their due times, up to the first id that is more than `s × interval` ahead.
//! It becomes the oldest of the next request, which goes out `buffer_ttl` after its due time.
//!
//! # Lookahead below half an interval
//!
//! In lane `i`, with `rᵢ` updates per second, the first id beyond `s × intervalᵢ` comes due after `s × intervalᵢ + Eᵢ`, where `Eᵢ` is
//! exponential with mean `1 ÷ rᵢ`. So the mean time between two requests is
//!
//! ```text
//! T = buffer_ttl + E[minᵢ (s × intervalᵢ + Eᵢ)]
//! ```
//!
//! and a request carries `min(limit, r × T)` of all `r` updates per second. Without lookahead the minimum is `1 ÷ r`, and a request
//! carries `1 + r × buffer_ttl`. With the default age table and a share of 0.1 the 3-minute lane decides: `T ≈ 5 s + 18 s + 13.5 ÷ r`.
//! This leaves out that ids of one request come due together one interval later.
//!
//! # Lookahead from about half an interval
//!
//! Then the next request reaches all ids of the lane that the last one took, so they stay together. Their common due time ends the wait,
//! or an id that is new in the first lane and comes due before. New ids come at the rate `a`. Ids are in lane `i` with the probability
//! `pᵢ = 1 − exp(−rᵢ × intervalᵢ)`; the first lane that has any decides. If that is lane `i`, the mean time between requests is
//!
//! ```text
//! Tᵢ = E[min(limit ÷ r, buffer_ttl + s × interval₁ + min(intervalᵢ − s × interval₁, exponential with mean 1 ÷ a))]
//! ```
//!
//! and there are `Σ pᵢ × Π (1 − pⱼ) ÷ Tᵢ` requests per second, `j` over the lanes before `i`.
//!
//! Both leave out that early updates add to the demand. `tests/it/plan/fill.rs` compares them with the claims of real worker loops in
//! simulated time.

use std::time::Duration;

use engine::base::clock::Millis;
use networks::providers::lookup::{Capabilities, Charge};

/// The window of Twitter's rate limits, in seconds.
pub const WINDOW_S: f64 = 900.0;
pub(super) const DAY_S: f64 = 86_400.0;

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RequestFill {
    pub limit: usize,
    /// Time that the oldest due id may wait for its request to fill (`updater.buffer_ttl`).
    pub buffer_ttl: Duration,
    /// Share of its interval by which an id may be taken early (`updater.lookahead`).
    pub lookahead: f64,
    /// False if the requests need no quota.
    pub is_metered: bool,
}

/// Updates of one lane.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Flow {
    /// Updates per second.
    pub rate: f64,
    pub interval_s: f64,
    /// Updates of an id before it leaves the lane; 1 if unknown, which is on the safe side.
    pub visits: f64,
}

impl Flow {
    /// `rate` is per second.
    #[must_use]
    pub fn new(rate: f64, interval_ms: Millis, visits: f64) -> Self {
        Self { rate, interval_s: interval_ms.max(1) as f64 / 1e3, visits }
    }
}

impl RequestFill {
    /// Describes the requests of a lookup with these capabilities. If ids are charged, lookahead is off. If each id counts as a call, a
    /// request has one id.
    #[must_use]
    pub fn new(capabilities: Capabilities, buffer_ttl: Duration, lookahead: f64) -> Self {
        let (limit, lookahead) = match capabilities.charge {
            Charge::PerCall => (capabilities.batch_limit, lookahead),
            Charge::PerIdPerUtcDay | Charge::Nothing => (capabilities.batch_limit, 0.0),
            Charge::PerId => (1, 0.0),
        };
        Self { limit, buffer_ttl, lookahead, is_metered: capabilities.is_metered() }
    }

    #[must_use]
    pub fn ids_per_request(&self, flows: &[Flow]) -> f64 {
        let rate: f64 = flows.iter().map(|flow| flow.rate).sum();
        if rate > 0.0 {
            (rate * self.seconds_between_requests(flows)).clamp(1.0, self.limit.max(1) as f64)
        } else {
            1.0
        }
    }

    #[must_use]
    pub fn requests_per_second(&self, flows: &[Flow]) -> f64 {
        // Starts at 0.0: an empty sum is -0.
        flows.iter().fold(0.0, |sum, flow| sum + flow.rate) / self.ids_per_request(flows)
    }

    /// Returns the requests per window of the rate limits. If only `supply` calls exist, requests wait for permits and fill up. They exceed
    /// `supply` only if full requests do.
    #[must_use]
    pub fn calls_per_window(&self, flows: &[Flow], supply: Option<f64>) -> f64 {
        let as_filled = self.requests_per_second(flows) * WINDOW_S;
        let updates = flows.iter().fold(0.0, |sum, flow| sum + flow.rate) * WINDOW_S;
        supply.map_or(as_filled, |supply| as_filled.min(supply).max(updates / self.limit.max(1) as f64))
    }

    /// Returns the mean seconds between two requests, if all due ids fit into one. `flows` has a rate above 0.
    fn seconds_between_requests(&self, flows: &[Flow]) -> f64 {
        let mut flows: Vec<Flow> = flows.iter().filter(|flow| flow.rate > 0.0).copied().collect();
        flows.sort_by(|a, b| a.interval_s.total_cmp(&b.interval_s));
        let first = flows[0].interval_s;
        let keeps_together = self.buffer_ttl.as_secs_f64() + self.lookahead * first >= (1.0 - self.lookahead) * first;
        if keeps_together && self.lookahead > 0.0 {
            self.seconds_if_ids_stay_together(&flows)
        } else {
            self.seconds_if_ids_spread(&flows)
        }
    }

    fn seconds_if_ids_stay_together(&self, flows: &[Flow]) -> f64 {
        let rate: f64 = flows.iter().map(|flow| flow.rate).sum();
        let new = flows[0].rate / flows[0].visits.max(1.0);
        let reach = self.lookahead * flows[0].interval_s;
        let (least, full) = (self.buffer_ttl.as_secs_f64() + reach, self.limit.max(1) as f64 / rate);
        let wait = |at_most: f64| match at_most.min(full - least) {
            room if room <= 0.0 => full,
            room => least - (-new * room).exp_m1() / new,
        };
        let (mut requests, mut none) = (0.0, 1.0);
        for flow in flows {
            let any = -(-flow.rate * flow.interval_s).exp_m1();
            requests += none * any / wait(flow.interval_s - reach);
            none *= 1.0 - any;
        }
        1.0 / (requests + none / wait(f64::INFINITY))
    }

    fn seconds_if_ids_spread(&self, flows: &[Flow]) -> f64 {
        let beyond = flows.iter().map(|flow| (self.lookahead * flow.interval_s, flow.rate));
        // Integrates the probability that no lane has an id beyond its reach yet. Between two reaches it falls exponentially, with the
        // rates of the lanes before.
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
    use networks::providers::twitter_v1::CAPABILITIES;

    fn fill(lookahead: f64) -> RequestFill {
        RequestFill::new(CAPABILITIES, Duration::from_secs(5), lookahead)
    }

    fn flow(rate: f64, interval_s: f64) -> Flow {
        Flow { rate, interval_s, visits: 6.0 }
    }

    fn close(value: f64, expected: f64) {
        assert!((value - expected).abs() < 1e-9 * expected, "{value} and not {expected}");
    }

    #[test]
    fn without_lookahead_a_request_has_its_first_id_and_what_comes_in_the_wait() {
        let flows = [flow(1.5, 180.0), flow(0.5, 3_600.0)];
        close(fill(0.0).ids_per_request(&flows), 11.0);
        close(fill(0.0).requests_per_second(&flows), 2.0 / 11.0);
        assert_eq!(fill(0.0).ids_per_request(&flows.map(|flow| Flow { rate: 50.0, ..flow })), 100.0);
        assert_eq!((fill(0.1).ids_per_request(&[]), fill(0.1).requests_per_second(&[])), (1.0, 0.0));
    }

    #[test]
    fn lookahead_adds_the_least_reach() {
        let alone = flow(0.1, 180.0);
        close(fill(0.1).ids_per_request(&[alone]), 0.1 * (5.0 + 18.0 + 10.0));
        // A lane of 1,000 s joins at 100 s: until then only the first one ends the wait.
        let slow = flow(0.3, 1_000.0);
        let until = (-0.1_f64 * 82.0).exp();
        let wait = 18.0 + (1.0 - until) / 0.1 + until / 0.4;
        close(fill(0.1).ids_per_request(&[slow, alone]), 0.4 * (5.0 + wait));
        let none = flow(0.0, 1.0);
        close(fill(0.1).ids_per_request(&[none, slow, alone]), 0.4 * (5.0 + wait));
    }

    #[test]
    fn ids_of_a_lane_that_is_reached_whole_stay_together() {
        // The lane is never empty: 5 s and half the interval, and as long again unless a new id comes before.
        let fast = flow(0.06, 180.0);
        let (new, any) = (0.01, 1.0 - (-0.06_f64 * 180.0).exp());
        let wait = |room: f64| 95.0 + (1.0 - (-new * room).exp()) / new;
        let requests = any / wait(90.0) + (1.0 - any) / wait(f64::INFINITY);
        close(fill(0.5).requests_per_second(&[fast]), requests);
        // Another lane fills them; full requests hold the limit and no more.
        let slow = |rate| flow(rate, 86_400.0);
        let ids = fill(0.5).ids_per_request(&[fast, slow(0.2)]);
        assert!(ids > 0.26 * 140.0 && ids < 0.26 * 185.0, "{ids}");
        assert_eq!(fill(0.5).ids_per_request(&[fast, slow(20.0)]), 100.0);
        let more = [0.2, 0.5, 1.0, 2.0, 5.0].map(|rate| fill(0.5).requests_per_second(&[fast, slow(rate)]));
        assert!(more.is_sorted(), "{more:?}");
    }

    #[test]
    fn ids_that_are_charged_are_not_taken_early() {
        let flows = [flow(2.0, 180.0)];
        let of = |charge| {
            RequestFill::new(
                networks::providers::lookup::Capabilities { charge, ..CAPABILITIES },
                Duration::from_secs(5),
                0.1,
            )
        };
        close(of(Charge::PerIdPerUtcDay).ids_per_request(&flows), 11.0);
        close(of(Charge::PerId).ids_per_request(&flows), 1.0);
    }
}
