//! The decision about a refused page of a source.
//!
//! A lookup is about a hundred tweets, a timeline about one target: what is said of a target (not there, protected,
//! suspended, blocking, its query refused) is the source's own matter, where a lookup would bisect, or wait.

use crate::providers::http::Reply;
use crate::providers::lookup::LookupError;
use crate::providers::timeline::of_target;
use crate::providers::twitter_v1::errors;

/// The decision about an answer of that endpoint that is not a success.
pub fn decide(reply: &Reply, endpoint: &str) -> LookupError {
    use LookupError::{BadRequest, BatchTooLarge, Outage, Unready};

    let code = errors::code(reply);
    match errors::decide(reply, endpoint) {
        BadRequest(said) | BatchTooLarge(said) => of_target(&said),
        // No such user, page or list; nothing matches. Over capacity (130) and broken (131) they are at any status.
        Outage(said) if (400..500).contains(&reply.status) && !matches!(code, Some(130 | 131)) => of_target(&said),
        // Forbidden with a reason, though none that is about the credential.
        Unready(said) if code.is_some() => of_target(&said),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(reply: &Reply) -> LookupError {
        decide(reply, "lists/statuses")
    }

    #[test]
    fn what_is_about_the_target_is_about_nobody_else() {
        let coded =
            |status, code: u32| refused(&Reply::of(status, &[], &format!(r#"{{"errors":[{{"code":{code}}}]}}"#)));
        for (status, code) in [(404, 34), (404, 50), (403, 63), (403, 179), (401, 136), (404, 17), (403, 25)] {
            assert!(matches!(coded(status, code), LookupError::BadRequest(_)), "{status} {code}");
        }
        for (status, code) in [(401, 32), (401, 89), (403, 64), (403, 326), (400, 215), (403, 220)] {
            assert!(matches!(coded(status, code), LookupError::Credential(_)), "{status} {code}");
        }
        for (status, code) in [(500, 131), (503, 130), (502, 0)] {
            assert!(matches!(coded(status, code), LookupError::Outage(_)), "{status} {code}");
        }
        assert!(matches!(coded(403, 453), LookupError::Stop(_)));
        assert!(matches!(coded(429, 88), LookupError::Throttled { status: 429, .. }));
        let protected = Reply::of(401, &[], r#"{"request":"/1.1/x.json","error":"Not authorized."}"#);
        assert!(matches!(refused(&protected), LookupError::BadRequest(_)));
        assert!(
            matches!(refused(&Reply::of(401, &[], "canary")), LookupError::Credential(why) if !why.contains("canary"))
        );
        assert!(matches!(refused(&Reply::of(403, &[], "")), LookupError::Unready(_)));
        assert!(matches!(refused(&Reply::of(302, &[], "")), LookupError::BadAnswer(_)));
        assert!(matches!(refused(&Reply::of(204, &[], "")), LookupError::BadAnswer(_)));
        let late = Reply::of(401, &[("date", "Fri, 20 Nov 2026 20:00:00 GMT")], r#"{"errors":[{"code":135}]}"#);
        assert!(matches!(refused(&late), LookupError::Clock(_)));
    }

    #[test]
    fn a_pause_is_as_long_as_their_clock_says() {
        let date = "Fri, 20 Nov 2026 20:00:00 GMT";
        let at = 1_795_204_800; // the same
        let headers = |reset: i64, remaining: &str| {
            let reset = reset.to_string();
            let all = [("date", date), ("x-rate-limit-limit", "180"), ("x-rate-limit-remaining", remaining)];
            refused(&Reply::of(429, &[&all[..], &[("x-rate-limit-reset", reset.as_str())]].concat(), ""))
        };
        let pause = |error| match error {
            LookupError::Throttled { pause, .. } => pause.as_secs(),
            other => panic!("{other:?}"),
        };
        assert!((299..=300).contains(&pause(headers(at + 300, "0"))));
        assert_eq!(pause(headers(at + 300, "7")), 5);
        assert_eq!(pause(headers(at + 1_000_000, "0")), 16 * 60);
        assert_eq!(pause(refused(&Reply::of(429, &[("retry-after", "42")], ""))), 42);
        assert_eq!(pause(refused(&Reply::of(420, &[], ""))), 60);
    }
}
