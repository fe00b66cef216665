//! Impossible dates of posts: any server may send a Mastodon instance a post from next year, or from 1970.

use engine::base::clock::{self, Millis};
use networks::model::post::SECONDS_BELOW;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PostDate {
    /// Creation date as far as it is known, ms since the epoch; `None` if it is unknown.
    pub at: Option<Millis>,
    /// True if it is not the date from its network.
    pub is_corrected: bool,
}

#[must_use]
pub fn is_possible_date(made: Millis, now: Millis) -> bool {
    made >= SECONDS_BELOW && !clock::is_ahead(made, now)
}

/// Returns the date from the network, or else from the id, if possible. A post that both date ahead has just been made. All in ms since
/// the epoch.
#[must_use]
pub fn choose_date(given: Option<Millis>, by_id: Option<Millis>, now: Millis) -> PostDate {
    let is_possible_date = |at: &Millis| is_possible_date(*at, now);
    let is_ahead = given.or(by_id).is_some_and(|at| at > now);
    let at = given.filter(is_possible_date).or(by_id.filter(is_possible_date)).or(is_ahead.then_some(now));
    PostDate { at, is_corrected: given.is_some() && at != given || is_ahead && at == Some(now) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_date_that_cannot_be_gives_way_to_the_ids() {
        const NOW: Millis = 1_795_000_000_000;
        let year = 365 * 86_400_000;
        let of = |given, by_id| {
            let PostDate { at, is_corrected } = choose_date(given, by_id, NOW);
            (at.map(|at| at - NOW), is_corrected)
        };
        let ago = |ms: Millis| Some(NOW - ms);
        assert_eq!(of(ago(5), ago(9)), (Some(-5), false));
        assert_eq!(of(ago(-59_000), ago(9)), (Some(59_000), false), "clocks differ");
        assert_eq!(of(None, ago(9)), (Some(-9), false));
        assert_eq!(of(ago(-year), ago(9)), (Some(-9), true));
        assert_eq!(of(Some(0), ago(9)), (Some(-9), true), "1970");
        assert_eq!(of(Some(-1), ago(9)), (Some(-9), true));
        assert_eq!(of(ago(-120_000), ago(-120_000)), (Some(0), true), "their clock is ahead");
        assert_eq!(of(None, ago(-120_000)), (Some(0), true));
        assert_eq!(of(Some(7), None), (None, true));
        assert_eq!(of(None, None), (None, false));
    }
}
