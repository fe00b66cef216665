//! API v1.1: the fields of recorded `statuses/lookup` responses, in their order, non-ASCII characters escaped. Written
//! straight into one string, since benchmarks depend on its speed.

use axum::response::Response;
use serde_json::{Value, json};
use time::OffsetDateTime;
use time::format_description::StaticFormatDescription;
use time::macros::format_description;

use crate::people::{Person, short_link, twitter_picture};
use crate::render::{View, append, tweet_text};
use crate::reply::{Found, failure};
use crate::text::{Text, screen_name, user_id};
use crate::world::{SimulatedTweet, World, created_at};
use engine::base::clock::Millis;
use networks::model::post::TweetId;

const CREATED_AT: StaticFormatDescription =
    format_description!("[weekday repr:short] [month repr:short] [day] [hour]:[minute]:[second] +0000 [year]");

/// Appends the tweet's object to `out`. `padding` becomes a field of its own. `now` is in ms since the epoch.
pub fn write_tweet(out: &mut String, world: &World, tweet: &SimulatedTweet, now: Millis, view: View, padding: &str) {
    let text = tweet_text(world, tweet);
    out.push_str("{\"created_at\":\"");
    write_date(out, tweet.created_at);
    let id = tweet.id;
    append(out, format_args!("\",\"id\":{id},\"id_str\":\"{id}\""));
    if view.extended {
        out.push_str(",\"full_text\":");
        write_string(out, &text.text);
        append(out, format_args!(",\"truncated\":false,\"display_text_range\":[0,{}]", text.length));
    } else {
        // The old form holds 140 characters, and its `truncated` reports a cut.
        let truncated = text.length > 140;
        out.push_str(",\"text\":");
        if truncated {
            let cut: String = text.text.chars().take(139).chain(['…']).collect();
            write_string(out, &cut);
        } else {
            write_string(out, &text.text);
        }
        append(out, format_args!(",\"truncated\":{truncated}"));
    }
    if view.entities {
        write_entities(out, world, &text);
    }
    out.push_str(
        ",\"source\":\"\\u003ca href=\\\"https:\\/\\/mobile.twitter.com\\\" rel=\\\"nofollow\\\"\\u003eTwitter Web \
         App\\u003c\\/a\\u003e\",",
    );
    write_reply(out, text.reply);
    out.push_str(",\"user\":");
    if view.trim_user {
        let id = user_id(tweet.author);
        append(out, format_args!("{{\"id\":{id},\"id_str\":\"{id}\"}}"));
    } else {
        let won = world.gained_followers(tweet.created_at, now);
        let author = world.people().person_at(tweet.author, now);
        write_user(out, &Person { followers: author.followers + won, ..author }, true);
    }
    out.push_str(",\"geo\":null,\"coordinates\":null,\"place\":null,\"contributors\":null");
    if tweet.withheld {
        out.push_str(",\"withheld_scope\":\"status\",\"withheld_copyright\":true,\"withheld_in_countries\":[\"XY\"]");
    }
    if let Some(original) = &tweet.original {
        out.push_str(",\"retweeted_status\":");
        self::write_tweet(out, world, original, now, view, "");
    }
    append(
        out,
        format_args!(
            ",\"is_quote_status\":false,\"retweet_count\":{},\"favorite_count\":{},\"favorited\":false,\
             \"retweeted\":false,\"possibly_sensitive\":false,\"lang\":\"{}\"",
            tweet.retweet_count,
            tweet.favorite_count,
            text.language()
        ),
    );
    if !padding.is_empty() {
        out.push_str(",\"padding\":\"");
        out.push_str(padding);
        out.push('"');
    }
    out.push('}');
}

/// Writes the fields about the post that this one replies to (id, author); `None`: it is no reply.
fn write_reply(out: &mut String, to: Option<(TweetId, u64)>) {
    match to {
        None => out.push_str(
            "\"in_reply_to_status_id\":null,\"in_reply_to_status_id_str\":null,\"in_reply_to_user_id\":null,\
             \"in_reply_to_user_id_str\":null,\"in_reply_to_screen_name\":null",
        ),
        Some((post, author)) => {
            let (user, handle) = (user_id(author), screen_name(author));
            append(
                out,
                format_args!(
                    "\"in_reply_to_status_id\":{post},\"in_reply_to_status_id_str\":\"{post}\",\
                     \"in_reply_to_user_id\":{user},\"in_reply_to_user_id_str\":\"{user}\",\
                     \"in_reply_to_screen_name\":\"{handle}\""
                ),
            );
        }
    }
}

fn write_entities(out: &mut String, world: &World, text: &Text) {
    out.push_str(",\"entities\":{\"hashtags\":[");
    for (from, to, tag) in &text.hashtags {
        write_comma(out);
        out.push_str("{\"text\":");
        write_string(out, tag);
        append(out, format_args!(",\"indices\":[{from},{to}]}}"));
    }
    out.push_str("],\"symbols\":[],\"user_mentions\":[");
    for (from, to, author) in &text.mentions {
        write_comma(out);
        append(out, format_args!("{{\"screen_name\":\"{}\",\"name\":", screen_name(*author)));
        write_string(out, &world.people().first_display_name(*author));
        let id = user_id(*author);
        append(out, format_args!(",\"id\":{id},\"id_str\":\"{id}\",\"indices\":[{from},{to}]}}"));
    }
    out.push_str("],\"urls\":[");
    for (from, to, url) in &text.urls {
        write_comma(out);
        out.push_str("{\"url\":");
        write_string(out, url);
        out.push_str(",\"expanded_url\":\"https:\\/\\/example.org\\/\",\"display_url\":\"example.org\"");
        append(out, format_args!(",\"indices\":[{from},{to}]}}"));
    }
    out.push_str("]}");
}

/// An account's object in v1.1's form. An author in a post has no newest post.
pub fn write_user(out: &mut String, person: &Person, is_author: bool) {
    let id = user_id(person.number);
    append(out, format_args!("{{\"id\":{id},\"id_str\":\"{id}\",\"name\":"));
    write_string(out, &person.display_name);
    append(out, format_args!(",\"screen_name\":\"{}\",\"location\":", person.handle));
    write_string(out, &person.location);
    out.push_str(",\"description\":");
    write_string(out, &person.description);
    out.push_str(",\"url\":");
    if person.url.is_empty() {
        out.push_str("null");
    } else {
        write_string(out, &short_link(person));
    }
    out.push_str(",\"entities\":{");
    if !person.url.is_empty() {
        out.push_str("\"url\":{\"urls\":[{\"url\":");
        write_string(out, &short_link(person));
        out.push_str(",\"expanded_url\":");
        write_string(out, &person.url);
        out.push_str("}]},");
    }
    append(
        out,
        format_args!(
            "\"description\":{{\"urls\":[]}}}},\"protected\":{},\"followers_count\":{},\
             \"friends_count\":{},\"listed_count\":{},\"created_at\":\"",
            person.protected, person.followers, person.following, person.listed
        ),
    );
    write_date(out, person.created_at);
    let picture = twitter_picture(person).replace('/', "\\/");
    let path = picture.trim_start_matches("https:");
    append(
        out,
        format_args!(
            "\",\"favourites_count\":{},\"utc_offset\":null,\"time_zone\":null,\"geo_enabled\":false,\
             \"verified\":{},\"statuses_count\":{},\"lang\":null,",
            person.likes, person.verified, person.posts
        ),
    );
    if let Some(post) = person.last_post.filter(|_| !is_author) {
        write_newest(out, post);
    }
    append(
        out,
        format_args!(
            "\"contributors_enabled\":false,\
             \"is_translator\":false,\"is_translation_enabled\":false,\"profile_background_color\":\"C0DEED\",\
             \"profile_background_image_url\":\"http:\\/\\/abs.twimg.com\\/images\\/themes\\/theme1\\/bg.png\",\
             \"profile_background_image_url_https\":\"https:\\/\\/abs.twimg.com\\/images\\/themes\\/theme1\\/bg.png\",\
             \"profile_background_tile\":false,\
             \"profile_image_url\":\"http:{path}\",\"profile_image_url_https\":\"https:{path}\",\
             \"profile_link_color\":\"1DA1F2\",\"profile_sidebar_border_color\":\"C0DEED\",\
             \"profile_sidebar_fill_color\":\"DDEEF6\",\"profile_text_color\":\"333333\",\
             \"profile_use_background_image\":true,\"has_extended_profile\":false,\"default_profile\":true,\
             \"default_profile_image\":false,\"following\":null,\"follow_request_sent\":null,\"notifications\":null,\
             \"translator_type\":\"none\",\"withheld_in_countries\":[]}}",
        ),
    );
}

fn write_newest(out: &mut String, id: TweetId) {
    out.push_str("\"status\":{\"created_at\":\"");
    write_date(out, created_at(id));
    append(out, format_args!("\",\"id\":{id},\"id_str\":\"{id}\",\"lang\":\"en\"}},"));
}

fn write_comma(out: &mut String) {
    if !out.ends_with('[') {
        out.push(',');
    }
}

fn write_date(out: &mut String, at: Millis) {
    // A simulated date is between 2006 and the end of the Snowflake ids (2080): it always formats.
    if let Ok(date) = OffsetDateTime::from_unix_timestamp(at.div_euclid(1000)).map(|date| date.format(CREATED_AT)) {
        out.push_str(&date.unwrap_or_default());
    }
}

/// A JSON string as Twitter writes it: ASCII only, with slashes escaped.
fn write_string(out: &mut String, text: &str) {
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
                    append(out, format_args!("\\u{unit:04x}"));
                }
            }
        }
    }
    out.push('"');
}

pub fn write_body(found: &Found<'_>) -> String {
    let bytes: usize = found.objects.iter().flatten().map(|object| object.len() + 32).sum();
    let mut body = String::with_capacity(bytes + 64);
    body.push_str(if found.map { "{\"id\":{" } else { "[" });
    let mut first = true;
    for (id, object) in found.ids.iter().zip(&found.objects) {
        if object.is_none() && !found.map {
            continue;
        }
        if !std::mem::take(&mut first) {
            body.push(',');
        }
        if found.map {
            // The name is the requested id, which may be any text, so it is escaped.
            body.push_str(&Value::from(*id).to_string());
            body.push(':');
        }
        body.push_str(object.as_deref().unwrap_or("null"));
    }
    body.push_str(if found.map { "}}" } else { "]" });
    body
}

pub fn refusal(status: u16, code: u32) -> Response {
    let message = match code {
        18 => "Too many terms specified in query.",
        32 => "Could not authenticate you.",
        34 => "Sorry, that page does not exist.",
        17 => "No user matches for specified terms.",
        38 => "id parameter is missing.",
        44 => "cursor parameter is invalid.",
        50 => "User not found.",
        63 => "User has been suspended.",
        64 => "Your account is suspended and is not permitted to access this feature.",
        88 => "Rate limit exceeded",
        89 => "Invalid or expired token.",
        99 => "Unable to verify your credentials",
        130 => "Over capacity",
        131 => "Internal error",
        112 => "You must specify either a list ID or a slug and owner.",
        144 => "No status found with that ID.",
        179 => "Sorry, you are not authorized to see this status.",
        220 => "Your credentials do not allow access to this resource.",
        135 => "Timestamp out of bounds.",
        170 => "Missing required parameter: grant_type",
        215 => "Bad Authentication data.",
        326 => "To protect our users from spam and other malicious activity, this account is temporarily locked.",
        453 => "You currently have access to a subset of Twitter API v2 endpoints and limited v1.1 endpoints only.",
        _ => "Something is not right.",
    };
    failure(status, &json!({ "errors": [{ "code": code, "message": message }] }))
}

pub fn unrequested_post(id: &str) -> String {
    format!(
        "{{\"created_at\":\"Tue Mar 21 20:50:14 +0000 2006\",\"id\":{id},\"id_str\":\"{id}\",\
         \"text\":\"just setting up my twttr\",\"full_text\":\"just setting up my twttr\",\
         \"user\":{{\"id\":12,\"id_str\":\"12\",\"screen_name\":\"jack\"}},\"retweet_count\":1,\"favorite_count\":1}}"
    )
}
