//! Reads single values of an answer leniently: an odd value is lost, but not its tweet.

use serde::Deserialize;
use serde_json::value::RawValue;
use time::format_description::StaticFormatDescription;
use time::format_description::well_known::Rfc3339;
use time::macros::format_description;
use time::{OffsetDateTime, PrimitiveDateTime};

use crate::model::post::{BadId, TweetId};
use crate::providers::unreadable::UnreadableObject;
use engine::base::clock::Millis;

/// `Tue Mar 21 20:50:14 +0000 2006`: the only form of `created_at` in v1.1.
const CREATED_AT: StaticFormatDescription = format_description!(
    "[weekday repr:short] [month repr:short] [day] [hour]:[minute]:[second] \
     [offset_hour sign:mandatory][offset_minute] [year]"
);

/// `Tue, 08 Nov 2022 21:16:52` without its zone: HTTP writes GMT, recorded answers also have UTC.
const HTTP_DATE: StaticFormatDescription =
    format_description!("[weekday repr:short], [day] [month repr:short] [year] [hour]:[minute]:[second]");

/// Smaller numbers are seconds since the epoch, others milliseconds: 10^11 ms is 1973, before the first tweet.
const SECONDS_BELOW: f64 = 1e11;

/// Reads an id from a text or a number. Callers try `id_str` first: an `id` that went through a double is rounded.
pub fn id(raw: &RawValue) -> Result<TweetId, BadId> {
    TweetId::parse(string(raw).as_deref().unwrap_or(raw.get()))
}

/// Reads a count. Odd ones (`null`, `"100+"`, negative numbers in archives) give `None`: the stored count stays.
pub fn count(raw: &RawValue) -> Option<i64> {
    raw.get().parse().ok().filter(|count| *count >= 0)
}

/// Value of a string; `None` if the JSON is not a string. Half of a surrogate pair (`"\ud83d"`, from a cut text) becomes U+FFFD.
pub fn string(raw: &RawValue) -> Option<String> {
    let json = raw.get();
    let quoted = json.strip_prefix('"')?.strip_suffix('"')?;
    if !quoted.contains('\\') {
        return Some(quoted.to_owned());
    }
    serde_json::from_str(json).ok().or_else(|| Some(unescape_lossily(quoted)))
}

/// Unescapes the inside of a valid JSON string; lone surrogates become U+FFFD.
fn unescape_lossily(quoted: &str) -> String {
    let mut text = String::with_capacity(quoted.len());
    // UTF-16 units of consecutive \u escapes, decoded together because pairs span two.
    let mut units: Vec<u16> = Vec::new();
    let mut chars = quoted.chars();
    while let Some(c) = chars.next() {
        let plain = if c != '\\' {
            c
        } else {
            match chars.next() {
                Some('u') => {
                    let digits: String = chars.by_ref().take(4).collect();
                    units.push(u16::from_str_radix(&digits, 16).unwrap_or(0xfffd));
                    continue;
                }
                Some('n') => '\n',
                Some('t') => '\t',
                Some('r') => '\r',
                Some('b') => '\u{8}',
                Some('f') => '\u{c}',
                Some(other) => other,
                None => break,
            }
        };
        text.push_str(&String::from_utf16_lossy(&units));
        units.clear();
        text.push(plain);
    }
    text.push_str(&String::from_utf16_lossy(&units));
    text
}

/// Date of v1.1, in ms since the epoch.
pub fn twitter_date(text: &str) -> Option<Millis> {
    OffsetDateTime::parse(text, CREATED_AT).ok().map(OffsetDateTime::unix_timestamp).and_then(|s| s.checked_mul(1000))
}

/// Date in v1.1's form, in RFC 3339, or as seconds or milliseconds since the epoch (also in quotes). In ms since the epoch.
pub fn any_date(raw: &RawValue) -> Option<Millis> {
    let text = string(raw);
    let text = text.as_deref().unwrap_or(raw.get());
    twitter_date(text).or_else(|| rfc3339(text)).or_else(|| {
        let number: f64 = text.parse().ok()?;
        // A double holds milliseconds exactly up to 2^53, the year 287396.
        let ms = if number < SECONDS_BELOW { number * 1000.0 } else { number };
        (0.0..9e15).contains(&ms).then_some(ms.round() as Millis)
    })
}

/// RFC 3339 date of any zone and precision, in ms since the epoch.
pub fn rfc3339(text: &str) -> Option<Millis> {
    let date = OffsetDateTime::parse(text, &Rfc3339).ok()?;
    Millis::try_from(date.unix_timestamp_nanos().div_euclid(1_000_000)).ok()
}

/// RFC 3339 date written by a client, in ms since the epoch. Without a zone it is UTC, as in Bluesky's own software.
pub fn rfc3339_or_utc(text: &str) -> Option<Millis> {
    rfc3339(text).or_else(|| rfc3339(&format!("{text}Z")))
}

/// Handle in the notice that Twitter and X put in place of a withheld text; `None` for other texts.
pub fn handle_in_notice(text: &str) -> Option<&str> {
    let named = ["This Tweet from @", "This Post from @", "@"].iter().find_map(|start| text.strip_prefix(start))?;
    let end = named.find(|c: char| !c.is_ascii_alphanumeric() && c != '_')?;
    let (author, rest) = named.split_at(end);
    let rests = [" has been withheld ", "'s account has been withheld ", "'s account is temporarily unavailable "];
    rests.iter().any(|known| rest.starts_with(known)).then_some(author)
}

/// Handle of the original author in the text of a retweet: `RT @ann: …`.
pub fn reposted_handle(text: &str) -> Option<&str> {
    let (name, _) = text.strip_prefix("RT @")?.split_once(':')?;
    let is_name = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    is_name.then_some(name)
}

/// Returns true if the field is that handle, in upper or lower case.
pub fn is_handle(field: Option<&RawValue>, handle: &str) -> bool {
    present(field).and_then(string).is_some_and(|known| known.eq_ignore_ascii_case(handle))
}

/// Field that exists and is not null.
pub fn present(field: Option<&RawValue>) -> Option<&RawValue> {
    field.filter(|raw| raw.get() != "null")
}

/// Text of a field; an error that names the field if it is missing, null or not a string.
pub fn required_text(field: Option<&RawValue>, name: &'static str) -> Result<String, UnreadableObject> {
    present(field).and_then(string).ok_or(UnreadableObject::NotAString(name))
}

/// Text of a field. If the field is missing or null: empty in a whole object, `None` in a partial one.
pub fn text(field: Option<&RawValue>, is_whole: bool) -> Option<String> {
    present(field).map_or_else(|| is_whole.then(String::new), string)
}

/// Full address in a profile of Twitter or X: the short link (`t.co`) changes now and then. Old objects have only the short link.
pub fn profile_address(url: Option<&RawValue>, entities: Option<&RawValue>, is_whole: bool) -> Option<String> {
    #[derive(Deserialize)]
    struct Entities<'a> {
        #[serde(borrow)]
        url: Option<&'a RawValue>,
    }
    #[derive(Deserialize)]
    struct Urls<'a> {
        #[serde(borrow)]
        urls: Option<&'a RawValue>,
    }
    #[derive(Deserialize)]
    struct Link<'a> {
        #[serde(borrow)]
        expanded_url: Option<&'a RawValue>,
    }
    let urls = value::<Entities<'_>>(entities).and_then(|entities| value::<Urls<'_>>(entities.url)?.urls);
    let expanded =
        items::<Link<'_>>(urls).and_then(|mut links| links.find_map(|link| string(present(link.expanded_url)?)));
    expanded.filter(|address| !address.is_empty()).or_else(|| text(url, is_whole))
}

/// Date of an account; `None` if it is missing or odd, since nothing depends on it.
pub fn date_or_none(field: Option<&RawValue>, read: impl Fn(&str) -> Option<Millis>) -> Option<Millis> {
    read(&string(present(field)?)?).filter(|at| *at >= 0)
}

/// ISO 8601 day (`2025-07-13`) or RFC 3339 date, in ms since the epoch.
pub fn day(text: &str) -> Option<Millis> {
    rfc3339(text).or_else(|| rfc3339(&format!("{text}T00:00:00Z")))
}

/// Value of a field; `None` if it is missing, null or of another shape.
pub fn value<'a, T: Deserialize<'a>>(field: Option<&'a RawValue>) -> Option<T> {
    serde_json::from_str(present(field)?.get()).ok()
}

/// Elements of a list that have shape `T`, without the others. `None` if the field is no list.
pub fn items<'a, T: Deserialize<'a>>(field: Option<&'a RawValue>) -> Option<impl Iterator<Item = T>> {
    let all: Vec<&'a RawValue> = value(field)?;
    Some(all.into_iter().filter_map(|one| value(Some(one))))
}

/// Date in a field, in the form that `read` reads. A present but invalid date is an error that names the field.
pub fn date(
    field: Option<&RawValue>,
    name: &'static str,
    read: impl Fn(&str) -> Option<Millis>,
) -> Result<Option<Millis>, UnreadableObject> {
    let Some(raw) = present(field) else { return Ok(None) };
    let read = string(raw).and_then(|text| read(&text));
    read.map(Some).ok_or_else(|| date_error(name, raw))
}

/// Error for an invalid date, with at most 40 characters of it, without control characters.
pub fn date_error(field: &'static str, raw: &RawValue) -> UnreadableObject {
    let text = string(raw).unwrap_or_else(|| raw.get().to_owned());
    UnreadableObject::NotADate { field, text: text.chars().filter(|c| !c.is_control()).take(40).collect() }
}

/// Date of a header (`Date`, `Retry-After`), in ms since the epoch.
pub fn http_date(text: &str) -> Option<Millis> {
    let utc = text.strip_suffix(" GMT").or_else(|| text.strip_suffix(" UTC"))?;
    let date = PrimitiveDateTime::parse(utc, HTTP_DATE).ok()?;
    date.assume_utc().unix_timestamp().checked_mul(1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(json: &str) -> Box<RawValue> {
        RawValue::from_string(json.to_owned()).unwrap()
    }

    #[test]
    fn ids_come_as_text_or_number() {
        assert_eq!(id(&raw("\"505874924095815681\"")).unwrap().get(), 505_874_924_095_815_681);
        assert_eq!(id(&raw("20")).unwrap().get(), 20);
        assert_eq!(id(&raw("5.05874924095815700e17")), Err(BadId::Scientific));
        assert!(id(&raw("null")).is_err());
    }

    #[test]
    fn a_notice_names_whom_it_is_about() {
        for (text, author) in [
            ("This Tweet from @ann has been withheld in: Spain.", Some("ann")),
            (
                "This Post from @ann_2 has been withheld in response to a report from the copyright holder.",
                Some("ann_2"),
            ),
            ("@ann's account is temporarily unavailable because it violates the Twitter Media Policy.", Some("ann")),
            ("@ann has been quoted", None),
            ("RT @ann: This Tweet from @bob has been withheld in: Spain.", None),
            ("@", None),
        ] {
            assert_eq!(handle_in_notice(text), author, "{text}");
        }
    }

    #[test]
    fn counts_that_are_not_known_are_none() {
        assert_eq!(count(&raw("0")), Some(0));
        assert_eq!(count(&raw("103721")), Some(103_721));
        for odd in ["null", "\"100+\"", "\"7\"", "-1", "1.5", "[]", "99999999999999999999"] {
            assert_eq!(count(&raw(odd)), None, "{odd}");
        }
    }

    #[test]
    fn strings_survive_half_a_surrogate_pair() {
        assert_eq!(string(&raw(r#""plain""#)).unwrap(), "plain");
        assert_eq!(string(&raw(r#""a\n\ud83d\ude0b""#)).unwrap(), "a\n\u{1f60b}");
        assert_eq!(
            string(&raw(r#""a\"\\\/\ud83d b\ude0b\u00e9\ud83d\ude0b\t""#)).unwrap(),
            "a\"\\/\u{fffd} b\u{fffd}é😋\t"
        );
        assert_eq!(string(&raw("12")), None);
    }

    #[test]
    fn a_text_that_is_left_out_is_empty_in_a_whole_object_alone() {
        for (field, whole, partial) in [
            (None, Some(""), None),
            (Some("null"), Some(""), None),
            (Some("\"\""), Some(""), Some("")),
            (Some("\"x\""), Some("x"), Some("x")),
            (Some("7"), None, None),
        ] {
            let field = field.map(raw);
            assert_eq!(text(field.as_deref(), true).as_deref(), whole);
            assert_eq!(text(field.as_deref(), false).as_deref(), partial);
        }
    }

    proptest::proptest! {
        #[test]
        fn every_string_comes_back_as_it_was(text: String) {
            let json = serde_json::to_string(&text).unwrap();
            proptest::prop_assert_eq!(string(&raw(&json)).unwrap(), text.clone());
            proptest::prop_assert_eq!(unescape_lossily(&json[1..json.len() - 1]), text);
        }
    }

    #[test]
    fn dates_of_every_accepted_form() {
        let first = 1_142_974_214_000;
        assert_eq!(twitter_date("Tue Mar 21 20:50:14 +0000 2006"), Some(first));
        assert_eq!(twitter_date("2006-03-21T20:50:14Z"), None);
        for form in [
            "\"Tue Mar 21 20:50:14 +0000 2006\"",
            "\"2006-03-21T20:50:14Z\"",
            "\"2006-03-21T21:50:14.000+01:00\"",
            "1142974214",
            "1142974214000",
            "\"1142974214000\"",
        ] {
            assert_eq!(any_date(&raw(form)), Some(first), "{form}");
        }
        for odd in ["\"yesterday\"", "-5", "{}", "\"NaN\"", "1e300", "true"] {
            assert_eq!(any_date(&raw(odd)), None, "{odd}");
        }
        assert_eq!(http_date("Fri, 23 Jan 2015 13:38:32 UTC"), Some(1_422_020_312_000));
        assert_eq!(http_date("Fri, 23 Jan 2015 13:38:32 GMT"), Some(1_422_020_312_000));
        assert_eq!(http_date("soon"), None);
        assert_eq!((day("2006-03-21"), day("2006-03-21T20:50:14Z")), (Some(1_142_899_200_000), Some(first)));
        assert_eq!((day("2006-03"), day(""), day("2006-03-21T")), (None, None, None));
        let date = |json: &str| date_or_none(Some(&raw(json)), rfc3339);
        assert_eq!((date("\"2006-03-21T20:50:14Z\""), date("7"), date("null")), (Some(first), None, None));
        assert_eq!(date("\"0000-10-14T15:06:10.730Z\""), None);
    }
}
