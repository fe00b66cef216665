//! Lanes and due times as the scripts read them.

use redis::{RedisWrite, ToRedisArgs};

use super::super::{Due, Lane, Order};
use crate::base::clock::Millis;

/// A lane as `{ns}:lanes` holds it: its patience, then tier and order if they are not the default.
pub(super) fn lane_text(lane: &Lane) -> String {
    match (lane.tier, lane.order) {
        (0, Order::ByLateness) => lane.patience.to_string(),
        (tier, order) => format!("{}:{tier}:{}", lane.patience, order.word()),
    }
}

/// The lane of that name, from its text; `None` if the text cannot be parsed.
pub(super) fn parse_lane(name: &str, written: &str) -> Option<Lane> {
    let mut words = written.split(':');
    let patience = words.next()?.parse().ok()?;
    let tier = words.next().map_or(Some(0), |tier| tier.parse().ok())?;
    let order = words.next().map_or(Order::default(), Order::from_word);
    Some(Lane { name: name.into(), patience, tier, order })
}

/// A due time as an argument: a delay in ms, or `@` and a moment in ms since the epoch.
#[derive(Clone, Copy, PartialEq)]
pub(super) struct DueArgument(pub Due);

impl ToRedisArgs for DueArgument {
    fn write_redis_args<W: ?Sized + RedisWrite>(&self, out: &mut W) {
        match self.0 {
            Due::In(delay) => delay.max(0).write_redis_args(out),
            Due::At(moment) => format!("@{}", moment.max(0)).write_redis_args(out),
        }
    }
}

/// Two due times as one argument; the earlier one applies.
pub(super) fn due_pair_text(delay: Option<Millis>, moment: Option<Millis>) -> String {
    let delay = delay.map(|delay| delay.to_string()).unwrap_or_default();
    let moment = moment.map(|moment| format!("@{moment}")).unwrap_or_default();
    delay + &moment
}

/// Positions of jobs grouped by lane, in the order in which the lanes first appear.
pub(super) fn group_by_lane<'a>(jobs: impl Iterator<Item = (usize, &'a Lane)>) -> Vec<(&'a Lane, Vec<usize>)> {
    let mut lanes: Vec<(&Lane, Vec<usize>)> = Vec::new();
    for (at, lane) in jobs {
        match lanes.iter_mut().find(|(known, _)| *known == lane) {
            Some((_, members)) => members.push(at),
            None => lanes.push((lane, vec![at])),
        }
    }
    lanes
}

/// The script's letter for each job, with the job's position. The script got the jobs grouped by lane.
pub(super) fn with_positions(lanes: &[(&Lane, Vec<usize>)], letters: &str) -> impl Iterator<Item = (usize, u8)> {
    lanes.iter().flat_map(|(_, members)| members.iter().copied()).zip(letters.bytes())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_lane_is_read_back_and_an_old_entry_too() {
        let hour = Lane::new("60m", Duration::from_secs(3_600));
        assert_eq!(lane_text(&hour), "3600000");
        assert_eq!(parse_lane("60m", "3600000"), Some(hour.clone()));
        for order in Order::ALL {
            for tier in [0, 1, 255] {
                let of = hour.clone().with_tier(tier).with_order(order);
                assert_eq!(parse_lane("60m", &lane_text(&of)), Some(of));
            }
        }
        assert_eq!(parse_lane("60m", "soon"), None);
    }
}
