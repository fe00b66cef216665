//! Decision about a refused page of a source.
//!
//! A lookup concerns 100 tweets, a timeline one target. Errors about a target (missing, protected, suspended, blocking, its query
//! refused) concern only the source; a lookup would bisect, or wait.

use serde_json::Value;

use crate::providers::http::Reply;
use crate::providers::lookup::LookupError;
use crate::providers::timeline::target_error;
use crate::providers::twitter_v1::errors;

pub fn decide(reply: &Reply, endpoint: &str) -> LookupError {
    use LookupError::{BadRequest, BatchTooLarge, Outage, Unready};

    let code = errors::error_code(reply);
    match errors::decide(reply, endpoint) {
        // The address is too long, for the API or for a proxy.
        BatchTooLarge(said) => target_error(&said),
        // A proxy's page concerns no target: the proxy would answer the same to all.
        BadRequest(said) | Outage(said) if !says_error(reply) => Outage(said),
        BadRequest(said) => target_error(&said),
        // No such user, page or list, or no match. Over capacity (130) and broken (131) are outages at any status.
        Outage(said) if (400..500).contains(&reply.status) && !matches!(code, Some(130 | 131)) => target_error(&said),
        // Forbidden with a reason that does not concern the credential.
        Unready(said) if code.is_some() => target_error(&said),
        other => other,
    }
}

/// Returns true if the API itself states an error, in `errors` or, as in the past, in `error`.
fn says_error(reply: &Reply) -> bool {
    let body: Value = serde_json::from_slice(&reply.body).unwrap_or_default();
    !body["errors"].is_null() || !body["error"].is_null()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal_error(reply: &Reply) -> LookupError {
        decide(reply, "lists/statuses")
    }

    #[test]
    fn refusals_of_a_target_and_of_a_credential_are_distinguished() {
        let coded = |status, code: u32| {
            refusal_error(&Reply::for_test(status, &[], &format!(r#"{{"errors":[{{"code":{code}}}]}}"#)))
        };
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
        let protected = Reply::for_test(401, &[], r#"{"request":"/1.1/x.json","error":"Not authorized."}"#);
        assert!(matches!(refusal_error(&protected), LookupError::BadRequest(_)));
        assert!(
            matches!(refusal_error(&Reply::for_test(401, &[], "canary")), LookupError::Credential(why) if !why.contains("canary"))
        );
        assert!(matches!(refusal_error(&Reply::for_test(403, &[], "")), LookupError::Unready(_)));
        assert!(matches!(refusal_error(&Reply::for_test(302, &[], "")), LookupError::BadAnswer(_)));
        assert!(matches!(refusal_error(&Reply::for_test(204, &[], "")), LookupError::BadAnswer(_)));
        let late = Reply::for_test(401, &[("date", "Fri, 20 Nov 2026 20:00:00 GMT")], r#"{"errors":[{"code":135}]}"#);
        assert!(matches!(refusal_error(&late), LookupError::Clock(_)));
    }

    #[test]
    fn what_stands_in_front_of_the_api_says_nothing_of_a_target() {
        let bodies = ["", "<html>Not Found</html>", "[]", r#"{"message":"no route"}"#, r#"{"errors":null}"#];
        for status in [400, 402, 404, 405, 406, 408, 409, 410, 422, 451] {
            for body in bodies {
                assert!(
                    matches!(refusal_error(&Reply::for_test(status, &[], body)), LookupError::Outage(_)),
                    "{status} {body}"
                );
            }
        }
        for body in [r#"{"errors":[{"code":34}]}"#, r#"{"errors":"no such page"}"#, r#"{"error":"Not found"}"#] {
            assert!(matches!(refusal_error(&Reply::for_test(404, &[], body)), LookupError::BadRequest(_)), "{body}");
        }
        // A proxy that rejects an address of this length accepts others.
        assert!(matches!(refusal_error(&Reply::for_test(414, &[], "<html>")), LookupError::BadRequest(_)));
    }

    #[test]
    fn a_pause_is_as_long_as_their_clock_says() {
        let date = "Fri, 20 Nov 2026 20:00:00 GMT";
        let at = 1_795_204_800; // the same
        let headers = |reset: i64, remaining: &str| {
            let reset = reset.to_string();
            let all = [("date", date), ("x-rate-limit-limit", "180"), ("x-rate-limit-remaining", remaining)];
            refusal_error(&Reply::for_test(429, &[&all[..], &[("x-rate-limit-reset", reset.as_str())]].concat(), ""))
        };
        let pause = |error| match error {
            LookupError::Throttled { pause, .. } => pause.as_secs(),
            other => panic!("{other:?}"),
        };
        assert!((299..=300).contains(&pause(headers(at + 300, "0"))));
        assert_eq!(pause(headers(at + 300, "7")), 5);
        assert_eq!(pause(headers(at + 1_000_000, "0")), 16 * 60);
        assert_eq!(pause(refusal_error(&Reply::for_test(429, &[("retry-after", "42")], ""))), 42);
        assert_eq!(pause(refusal_error(&Reply::for_test(420, &[], ""))), 60);
    }
}
