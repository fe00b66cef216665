//! The head of a host's answer: its status, range and validator.

use std::time::Duration;

use reqwest::Response;
use reqwest::header::{CONTENT_RANGE, ETAG, HeaderMap, LAST_MODIFIED, RETRY_AFTER};

use super::outcome::{FetchOutcome, LoadError, PartialFile, file_failure, host_failure};
use engine::base::clock::{span, wall_ms};
use networks::model::media::MediaState;
use networks::providers::scalar::http_date;

/// Bytes that are requested again when a file is resumed.
pub(super) const OVERLAP: u64 = 1_024;

#[derive(Debug, PartialEq, Eq)]
pub(super) struct StatedRange {
    pub from: u64,
    /// Size of the whole file, if the answer states it.
    pub total: Option<u64>,
}

impl StatedRange {
    pub(super) fn from_response(response: &Response, partial: Option<&PartialFile>) -> Result<Self, LoadError> {
        if response.status().as_u16() != 206 {
            return Ok(Self { from: 0, total: response.content_length() });
        }
        let Some(partial) = partial else {
            return Err(LoadError::Ended(file_failure("the host sent a part, but the whole file was requested")));
        };
        let asked = partial.bytes.saturating_sub(OVERLAP);
        let stated = response.headers().get(CONTENT_RANGE).and_then(|range| content_range(range.to_str().ok()?));
        let is_same = validator(response.headers()).is_none_or(|now| now == partial.validator);
        match stated {
            // A range from byte 0 overlaps no stored byte, so nothing can be compared: the download restarts.
            Some((from, total)) if from == asked && is_same && from > 0 => match (total, partial.total) {
                // Without a stated size, a file may be cut anywhere. With another size, it is another file.
                (Some(now), Some(before)) if now != before => Err(LoadError::Restart),
                (None, None) => Err(LoadError::Restart),
                (now, before) => Ok(Self { from, total: now.or(before) }),
            },
            _ => Err(LoadError::Restart),
        }
    }
}

/// Parses `bytes 100-199/200`: the first byte and the size of the whole file.
fn content_range(text: &str) -> Option<(u64, Option<u64>)> {
    let (range, total) = text.trim().strip_prefix("bytes ")?.split_once('/')?;
    let from = range.split_once('-')?.0.trim().parse().ok()?;
    Some((from, total.trim().parse().ok()))
}

/// Validator of an unchanged file: a strong entity tag, or else its date.
pub(super) fn validator(headers: &HeaderMap) -> Option<String> {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
    text(ETAG).filter(|tag| tag.starts_with('"')).or_else(|| text(LAST_MODIFIED))
}

pub(super) fn check_status(response: Response, is_continued: bool) -> Result<Response, LoadError> {
    let status = response.status().as_u16();
    let ended = |fetched| Err(LoadError::Ended(fetched));
    match status {
        200 | 206 => Ok(response),
        410 | 451 => ended(FetchOutcome::Gone(format!("HTTP {status}"))),
        // A misconfigured host gives these answers, too, so they need confirmation.
        401 | 403 | 404 => Err(LoadError::NotAtAddress(FetchOutcome::Unconfirmed {
            state: MediaState::Gone,
            why: format!("HTTP {status}"),
        })),
        416 if is_continued => Err(LoadError::Restart),
        408 | 425 | 429 => ended(host_failure(format!("HTTP {status}"), retry_after(response.headers()))),
        500.. => Err(LoadError::NotAtAddress(host_failure(format!("HTTP {status}"), retry_after(response.headers())))),
        _ => ended(file_failure(format!("HTTP {status}"))),
    }
}

fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    let seconds = text.parse().ok().map(Duration::from_secs);
    seconds.or_else(|| http_date(text).map(|at| span(at.saturating_sub(wall_ms()))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_says_which_part_it_brings() {
        assert_eq!(content_range("bytes 100-199/200"), Some((100, Some(200))));
        assert_eq!(content_range(" bytes 0-0/*"), Some((0, None)));
        for odd in ["", "bytes", "bytes */200", "items 0-1/2", "bytes x-1/2", "bytes 5"] {
            assert_eq!(content_range(odd), None, "{odd}");
        }
    }

    #[test]
    fn a_weak_tag_is_no_validator() {
        let headers = |pairs: &[(reqwest::header::HeaderName, &str)]| {
            pairs.iter().map(|(name, value)| (name.clone(), value.parse().unwrap())).collect::<HeaderMap>()
        };
        let date = "Wed, 21 Oct 2015 07:28:00 GMT";
        assert_eq!(validator(&headers(&[(ETAG, "\"a\""), (LAST_MODIFIED, date)])).as_deref(), Some("\"a\""));
        assert_eq!(validator(&headers(&[(ETAG, "W/\"a\""), (LAST_MODIFIED, date)])).as_deref(), Some(date));
        assert_eq!(validator(&headers(&[(ETAG, "W/\"a\"")])), None);
        assert_eq!(retry_after(&headers(&[(RETRY_AFTER, "120")])), Some(Duration::from_secs(120)));
        assert_eq!(retry_after(&headers(&[(RETRY_AFTER, date)])), Some(Duration::ZERO), "long past");
        assert_eq!(retry_after(&headers(&[(RETRY_AFTER, "soon")])), None);
    }
}
