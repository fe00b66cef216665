//! A simulated tweet as v1.1 writes it: the fields of recorded `statuses/lookup` answers, in their
//! order, non-ASCII characters escaped. Written straight into one string, since benchmarks lean on it.

use std::fmt::Write as _;

use time::OffsetDateTime;
use time::format_description::StaticFormatDescription;
use time::format_description::well_known::Rfc3339;
use time::macros::format_description;

use super::call::Call;
use super::text::{Text, name, screen_name, user_id};
use super::world::{Salt, SimulatedTweet, World, mix};
use crate::base::clock::Millis;

const CREATED_AT: StaticFormatDescription =
    format_description!("[weekday repr:short] [month repr:short] [day] [hour]:[minute]:[second] +0000 [year]");

const ISO: StaticFormatDescription =
    format_description!("[year]-[month]-[day]T[hour]:[minute]:[second].[subsecond digits:3]Z");

/// What a request asks to see.
#[derive(Debug, Clone, Copy)]
pub struct View {
    /// `tweet_mode=extended`: `full_text` and `display_text_range` in place of `text`.
    pub extended: bool,
    /// `trim_user`: only the user's ids.
    pub trim_user: bool,
    /// `include_entities`, true unless asked otherwise.
    pub entities: bool,
}

impl View {
    /// What a call of v1.1 asks to see.
    pub fn of(call: &Call) -> Self {
        Self {
            extended: call.parameter("tweet_mode") == Some("extended"),
            trim_user: call.flag("trim_user").unwrap_or(false),
            entities: call.flag("include_entities").unwrap_or(true),
        }
    }
}

/// Appends the tweet's object to `out`. `padding` is appended as a field of its own (real objects are
/// larger by their media and cards). `now` is in ms since the epoch.
pub fn tweet(out: &mut String, world: &World, tweet: &SimulatedTweet, now: Millis, view: View, padding: &str) {
    let text = said(world, tweet);
    out.push_str("{\"created_at\":\"");
    date(out, tweet.created_at);
    let id = tweet.id;
    put(out, format_args!("\",\"id\":{id},\"id_str\":\"{id}\""));
    if view.extended {
        out.push_str(",\"full_text\":");
        string(out, &text.text);
        put(out, format_args!(",\"truncated\":false,\"display_text_range\":[0,{}]", text.length));
    } else {
        // The old form holds 140 characters and says when it had to cut.
        let truncated = text.length > 140;
        out.push_str(",\"text\":");
        if truncated {
            let cut: String = text.text.chars().take(139).chain(['…']).collect();
            string(out, &cut);
        } else {
            string(out, &text.text);
        }
        put(out, format_args!(",\"truncated\":{truncated}"));
    }
    if view.entities {
        entities(out, &text);
    }
    out.push_str(
        ",\"source\":\"\\u003ca href=\\\"https:\\/\\/mobile.twitter.com\\\" rel=\\\"nofollow\\\"\\u003eTwitter Web \
         App\\u003c\\/a\\u003e\",\"in_reply_to_status_id\":null,\"in_reply_to_status_id_str\":null,\
         \"in_reply_to_user_id\":null,\"in_reply_to_user_id_str\":null,\"in_reply_to_screen_name\":null,\"user\":",
    );
    user(out, tweet.author, world.followers_won(tweet.created_at, now), view.trim_user);
    out.push_str(",\"geo\":null,\"coordinates\":null,\"place\":null,\"contributors\":null");
    if tweet.withheld {
        out.push_str(",\"withheld_scope\":\"status\",\"withheld_copyright\":true,\"withheld_in_countries\":[\"XY\"]");
    }
    if let Some(original) = &tweet.original {
        out.push_str(",\"retweeted_status\":");
        self::tweet(out, world, original, now, view, "");
    }
    put(
        out,
        format_args!(
            ",\"is_quote_status\":false,\"retweet_count\":{},\"favorite_count\":{},\"favorited\":false,\
             \"retweeted\":false,\"possibly_sensitive\":false,\"lang\":\"en\"",
            tweet.retweet_count, tweet.favorite_count
        ),
    );
    if !padding.is_empty() {
        out.push_str(",\"padding\":\"");
        out.push_str(padding);
        out.push('"');
    }
    out.push('}');
}

/// So many bytes that a database packs about as well as the media of real objects, a third of it never the same.
pub fn padding(bytes: usize) -> String {
    let mut padding = String::with_capacity(bytes + 64);
    let mut dice = 1;
    while padding.len() < bytes {
        dice = mix(dice);
        put(&mut padding, format_args!("https:\\/\\/pbs.twimg.com\\/media\\/{dice:016x}.jpg "));
    }
    padding.truncate(bytes);
    // Half an escape would spoil the object.
    padding.truncate(padding.trim_end_matches('\\').len());
    padding
}

/// What a tweet says.
pub fn said(world: &World, tweet: &SimulatedTweet) -> Text {
    match &tweet.original {
        _ if tweet.withheld => {
            Text::plain(format!("This Tweet from @{} has been withheld in: XY.", screen_name(tweet.author)))
        }
        Some(original) => Text::retweet(original.author, world.dice(original.id, Salt::Text)),
        None => Text::of(world.dice(tweet.id, Salt::Text)),
    }
}

fn entities(out: &mut String, text: &Text) {
    out.push_str(",\"entities\":{\"hashtags\":[");
    for (from, to, tag) in &text.hashtags {
        comma(out);
        out.push_str("{\"text\":");
        string(out, tag);
        put(out, format_args!(",\"indices\":[{from},{to}]}}"));
    }
    out.push_str("],\"symbols\":[],\"user_mentions\":[");
    for (from, to, author) in &text.mentions {
        comma(out);
        put(out, format_args!("{{\"screen_name\":\"{}\",\"name\":", screen_name(*author)));
        string(out, &name(*author));
        let id = user_id(*author);
        put(out, format_args!(",\"id\":{id},\"id_str\":\"{id}\",\"indices\":[{from},{to}]}}"));
    }
    out.push_str("],\"urls\":[");
    for (from, to, url) in &text.urls {
        comma(out);
        out.push_str("{\"url\":");
        string(out, url);
        out.push_str(",\"expanded_url\":\"https:\\/\\/example.org\\/\",\"display_url\":\"example.org\"");
        put(out, format_args!(",\"indices\":[{from},{to}]}}"));
    }
    out.push_str("]}");
}

/// When an account was opened, in ms since the epoch: from 2007 to 2010.
pub fn opened(author: u64) -> Millis {
    1_167_609_600_000 + (mix(user_id(author)) % 100_000_000) as Millis * 1_000
}

/// Followers of an account, before any post of it won some;
pub fn followers(author: u64) -> u64 {
    mix(user_id(author)) % 50_000
}

/// whom it follows,
pub fn friends(author: u64) -> u64 {
    (mix(user_id(author)) >> 16) % 5_000
}

/// the lists that it is on,
pub fn lists(author: u64) -> u64 {
    (mix(user_id(author)) >> 32) % 100
}

/// and what it has posted.
pub fn posts(author: u64) -> u64 {
    (mix(user_id(author)) >> 24) % 90_000
}

/// An author's object, as v1.1 writes it.
pub fn user(out: &mut String, author: u64, followers_won: u64, trimmed: bool) {
    let id = user_id(author);
    put(out, format_args!("{{\"id\":{id},\"id_str\":\"{id}\""));
    if trimmed {
        out.push('}');
        return;
    }
    out.push_str(",\"name\":");
    string(out, &name(author));
    let handle = screen_name(author);
    put(out, format_args!(",\"screen_name\":\"{handle}\",\"location\":\"Planet Earth\",\"description\":"));
    string(out, &Text::of(id).text);
    let dice = mix(id);
    put(
        out,
        format_args!(
            ",\"url\":null,\"entities\":{{\"description\":{{\"urls\":[]}}}},\"protected\":false,\
             \"followers_count\":{},\"friends_count\":{},\"listed_count\":{},\"created_at\":\"",
            followers(author) + followers_won,
            friends(author),
            lists(author)
        ),
    );
    date(out, opened(author));
    put(
        out,
        format_args!(
            "\",\"favourites_count\":{},\"utc_offset\":null,\"time_zone\":null,\"geo_enabled\":false,\
             \"verified\":false,\"statuses_count\":{},\"lang\":null,\"contributors_enabled\":false,\
             \"is_translator\":false,\"is_translation_enabled\":false,\"profile_background_color\":\"C0DEED\",\
             \"profile_background_image_url\":\"http:\\/\\/abs.twimg.com\\/images\\/themes\\/theme1\\/bg.png\",\
             \"profile_background_image_url_https\":\"https:\\/\\/abs.twimg.com\\/images\\/themes\\/theme1\\/bg.png\",\
             \"profile_background_tile\":false,\
             \"profile_image_url\":\"http:\\/\\/pbs.twimg.com\\/profile_images\\/{id}\\/face_normal.jpeg\",\
             \"profile_image_url_https\":\"https:\\/\\/pbs.twimg.com\\/profile_images\\/{id}\\/face_normal.jpeg\",\
             \"profile_link_color\":\"1DA1F2\",\"profile_sidebar_border_color\":\"C0DEED\",\
             \"profile_sidebar_fill_color\":\"DDEEF6\",\"profile_text_color\":\"333333\",\
             \"profile_use_background_image\":true,\"has_extended_profile\":false,\"default_profile\":true,\
             \"default_profile_image\":false,\"following\":null,\"follow_request_sent\":null,\"notifications\":null,\
             \"translator_type\":\"none\",\"withheld_in_countries\":[]}}",
            (dice >> 8) % 20_000,
            posts(author)
        ),
    );
}

fn put(out: &mut String, arguments: std::fmt::Arguments<'_>) {
    // Writing into a String cannot fail.
    let _ = out.write_fmt(arguments);
}

fn comma(out: &mut String) {
    if !out.ends_with('[') {
        out.push(',');
    }
}

fn date(out: &mut String, at: Millis) {
    // A simulated date is between 2006 and the end of the Snowflake ids (2080): it always formats.
    if let Ok(date) = OffsetDateTime::from_unix_timestamp(at.div_euclid(1000)).map(|date| date.format(CREATED_AT)) {
        out.push_str(&date.unwrap_or_default());
    }
}

/// A date as everybody but v1.1 writes it: `2006-03-21T20:50:14.000Z`. In ms since the epoch.
pub fn iso(at: Millis) -> String {
    let date = OffsetDateTime::from_unix_timestamp_nanos(i128::from(at) * 1_000_000).ok();
    date.and_then(|date| date.format(ISO).ok()).unwrap_or_default()
}

/// The moment that such a date, or one of another zone, names, in ms since the epoch.
pub fn instant(text: &str) -> Option<Millis> {
    let date = OffsetDateTime::parse(text, &Rfc3339).ok()?;
    Millis::try_from(date.unix_timestamp_nanos() / 1_000_000).ok()
}

/// A JSON string as Twitter writes it: ASCII only, with slashes escaped.
fn string(out: &mut String, text: &str) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' | '/' => {
                out.push('\\');
                out.push(c);
            }
            ' '..='~' => out.push(c),
            _ => {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    put(out, format_args!("\\u{unit:04x}"));
                }
            }
        }
    }
    out.push('"');
}
