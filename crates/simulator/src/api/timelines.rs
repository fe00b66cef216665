//! Slices of timelines, as the endpoints cut them.

use axum::response::Response;

use super::shared::Api;
use crate::dialect::Dialect;
use crate::faults::Endpoint;
use crate::faulty;
use crate::render::tweet_text;
use crate::timeline::{Network, Target, TimelinePost};
use crate::windows::Window;
use engine::base::clock::Millis;
use networks::model::post::TweetId;

pub const DAY_MS: Millis = 86_400_000;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Slice {
    pub since: u64,
    /// Upper bound of the ids, excluded, as is `since`.
    pub below: u64,
    pub depth: Option<i64>,
    /// Earliest creation time (ms since the epoch).
    pub oldest: Millis,
    /// Time at which the posts must be visible.
    pub now: Millis,
}

impl Api {
    /// Returns the faulty response to a call for that timeline as the error, if a fault applies to it.
    pub(crate) async fn inject_timeline_fault(
        &self,
        dialect: Dialect,
        target: &str,
        window: Option<Window>,
    ) -> Result<(), Response> {
        let Some(fault) = self.draw_fault(Endpoint::Timelines, &[target]).await else { return Ok(()) };
        faulty::faulty_response(self, dialect, &fault, window, String::new).await.map_or(Ok(()), Err)
    }

    /// The target that a text names at that time: handles move from one account to another.
    pub fn target(&self, text: &str, at: Millis) -> Target {
        let author = Target::parse_handle(text).and_then(|handle| self.world.people().author_at(handle, at));
        author.map_or_else(|| Target::parse(text), Target::from_author)
    }

    /// Returns true for a handle without an account at that time. If accounts never change, any handle names an account.
    pub(crate) fn is_free_handle(&self, text: &str, at: Millis) -> bool {
        let people = self.world.people();
        let is_free =
            |handle| people.author_at(handle, at).is_none() && people.number_with_handle(handle, at).is_none();
        people.are_changing() && Target::parse_handle(text).is_some_and(is_free)
    }

    /// The ids of a slice, newest first (unordered within a slot), deleted posts included.
    pub fn ids(&self, network: Network, target: &str, slice: Slice) -> impl Iterator<Item = u64> {
        let timelines = self.world.timelines();
        let target = self.target(target, slice.now);
        let newest = timelines.slot(slice.now);
        let first = slice.depth.map_or(0, |depth| newest - depth);
        let top = newest.min(timelines.slot(network.made_at(slice.below)));
        let oldest = slice.oldest.max(network.made_at(slice.since));
        (first..=top)
            .rev()
            .take_while(move |slot| timelines.post_time(target, *slot) >= oldest)
            .filter(move |slot| timelines.has_post(target, *slot))
            .map(move |slot| timelines.post(network, target, slot))
            .filter(move |post| post.visible_at <= slice.now)
            .map(move |post| network.id(post.id))
            .filter(move |id| *id > slice.since && *id < slice.below)
    }

    pub(crate) fn is_retweet(&self, id: u64, now: Millis) -> bool {
        let tweet = TweetId::parse(&id.to_string()).ok().and_then(|id| self.world.tweet(id, now));
        tweet.is_some_and(|tweet| tweet.original.is_some())
    }

    pub(crate) fn is_reply(&self, id: u64, now: Millis) -> bool {
        let tweet = TweetId::parse(&id.to_string()).ok().and_then(|id| self.world.tweet(id, now));
        tweet.is_some_and(|tweet| tweet_text(&self.world, &tweet).reply.is_some())
    }

    pub fn posts(&self, network: Network, target: &str, from: Millis, to: Millis) -> Vec<TimelinePost> {
        let timelines = self.world.timelines();
        let (slots, target) = (timelines.slot(from)..=timelines.slot(to), self.target(target, to));
        slots
            .filter(|slot| timelines.has_post(target, *slot))
            .map(|slot| timelines.post(network, target, slot))
            .filter(|post| post.id.created_at().is_some_and(|made| (from..to).contains(&made)))
            .filter(|post| self.world.tweet(post.id, Millis::MAX / 2).is_some())
            .collect()
    }
}
