//! The parts of a post in a response, and the fields that every provider writes for a post and its author.

use std::fmt::Write as _;

use time::OffsetDateTime;
use time::format_description::StaticFormatDescription;
use time::format_description::well_known::Rfc3339;
use time::macros::format_description;

use super::call::Call;
use super::random::mix;
use super::text::{Text, screen_name};
use super::world::{Salt, SimulatedTweet, World};
use super::x_v2::dialect::Fields;
use engine::base::clock::Millis;

const ISO: StaticFormatDescription =
    format_description!("[year]-[month]-[day]T[hour]:[minute]:[second].[subsecond digits:3]Z");

#[derive(Debug, Clone, Copy)]
pub struct View {
    /// `tweet_mode=extended`: `full_text` and `display_text_range` in place of `text`.
    pub extended: bool,
    /// `trim_user`: only the user's ids.
    pub trim_user: bool,
    /// `include_entities`, true by default.
    pub entities: bool,
}

impl View {
    pub fn from_call(call: &Call) -> Self {
        Self {
            extended: call.parameter("tweet_mode") == Some("extended"),
            trim_user: call.flag("trim_user").unwrap_or(false),
            entities: call.flag("include_entities").unwrap_or(true),
        }
    }
}

pub struct RenderContext<'a> {
    pub world: &'a World,
    pub now: Millis,
    pub padding: &'a str,
    pub view: View,
    pub fields: Fields,
}

/// Counts that the world lacks, computed from its other counts: none ever falls.
pub struct MoreCounts {
    pub replies: i64,
    pub quotes: i64,
    pub bookmarks: i64,
    pub impressions: i64,
}

impl MoreCounts {
    pub fn compute(retweets: i64, likes: i64) -> Self {
        Self { replies: likes / 4, quotes: retweets / 8, bookmarks: likes / 10, impressions: 40 * (likes + retweets) }
    }
}

/// Returns `bytes` bytes that compress about as well as the media of real objects; a third of them never repeats.
pub fn padding(bytes: usize) -> String {
    let mut padding = String::with_capacity(bytes + 64);
    let mut random = 1;
    while padding.len() < bytes {
        random = mix(random);
        append(&mut padding, format_args!("https:\\/\\/pbs.twimg.com\\/media\\/{random:016x}.jpg "));
    }
    padding.truncate(bytes);
    // Half an escape would make the object invalid JSON.
    padding.truncate(padding.trim_end_matches('\\').len());
    padding
}

pub fn tweet_text(world: &World, tweet: &SimulatedTweet) -> Text {
    match &tweet.original {
        _ if tweet.withheld => {
            Text::plain(format!("This Tweet from @{} has been withheld in: XY.", screen_name(tweet.author)))
        }
        Some(original) => Text::retweet(original.author, &tweet_text(world, original)),
        None => match world.people().communities() {
            Some(communities) => communities.text(tweet.author, tweet.created_at, world.random(tweet.id, Salt::Text)),
            None => Text::random(world.random(tweet.id, Salt::Text)),
        },
    }
}

pub fn append(out: &mut String, arguments: std::fmt::Arguments<'_>) {
    // Writing into a String cannot fail.
    let _ = out.write_fmt(arguments);
}

/// A date in the form of all APIs but v1.1: `2006-03-21T20:50:14.000Z`. `at` is in ms since the epoch.
pub fn iso(at: Millis) -> String {
    let date = OffsetDateTime::from_unix_timestamp_nanos(i128::from(at) * 1_000_000).ok();
    date.and_then(|date| date.format(ISO).ok()).unwrap_or_default()
}

/// The time of such a date, or of one in another zone, in ms since the epoch.
pub fn parse_date(text: &str) -> Option<Millis> {
    let date = OffsetDateTime::parse(text, &Rfc3339).ok()?;
    Millis::try_from(date.unix_timestamp_nanos() / 1_000_000).ok()
}
