//! The answers of the table, as the simulated API is told to give them.

use twitter_updater::simulator::Fault;

/// Two tokens and an application's keys. Bodies repeat them; nothing of ours may.
pub const TOKENS: [&str; 2] = ["canary-one", "canary-two"];
pub const APP: (&str, &str) = ("canary-key", "canary-secret");
const ECHO: &str = "canary-one canary-two canary-key canary-secret";

const JSON: &str = "application/json;charset=utf-8";

/// An answer, and what the reason we show says of it.
pub struct Answer {
    pub name: &'static str,
    pub given: Given,
    pub says: String,
}

pub enum Given {
    /// By `statuses/lookup`.
    Lookup(Fault),
    /// By `statuses/lookup`, two times.
    Twice(Fault),
    /// By `oauth2/token`.
    Token(Fault),
    /// Nobody listens.
    Nothing,
}

fn worded(status: u16, headers: &[(&str, &str)], body: &str) -> Fault {
    let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    Fault::Answer { status, headers, body: body.to_owned() }
}

fn json(status: u16, body: &str) -> Fault {
    worded(status, &[("content-type", JSON)], body)
}

pub fn code(status: u16, code: u32) -> Fault {
    json(status, &format!(r#"{{"errors":[{{"code":{code},"message":"{ECHO}"}}]}}"#))
}

/// A front server's page.
pub fn page(status: u16) -> Fault {
    Fault::Status { status, code: None }
}

/// The answers whose names say all: `401/89`, and `401` as a page.
fn by_name() -> Vec<Answer> {
    let coded = "404/17 429/88 403/88 400/215 401/32 401/89 403/64 403/99 403/220 403/326 401/135 403/18 404/18 400/214 \
                 401/136 403/63 403/179 404/144 404/421 404/422 403/1 404/34 500/131 503/130 504/130 403/453";
    let bare = "420 429 401 413 414 431 400 422 403 404 406 500 502 503 504 302 410";
    let of = |name: &'static str| {
        let (status, its_code) = name.split_once('/').map_or((name, None), |(status, code)| (status, Some(code)));
        let fault = match its_code {
            Some(its_code) => code(status.parse().unwrap(), its_code.parse().unwrap()),
            None => page(status.parse().unwrap()),
        };
        let says = match its_code {
            // What the clock was off by, and for how long to rest, is all there is to say.
            Some("135" | "17") => String::new(),
            _ if matches!(status, "420" | "429") || its_code == Some("88") => format!("HTTP {status}"),
            Some(its_code) => format!("HTTP {status}, code {its_code}"),
            None => format!("HTTP {status}"),
        };
        Answer { name, given: Given::Lookup(fault), says }
    };
    coded.split_whitespace().chain(bare.split_whitespace()).map(of).collect()
}

pub fn answers() -> Vec<Answer> {
    let lookup = |name, fault, says: &str| Answer { name, given: Given::Lookup(fault), says: says.to_owned() };
    let token = |name, fault, says: &str| Answer { name, given: Given::Token(fault), says: says.to_owned() };
    let rest = [("content-type", JSON), ("retry-after", "120")];
    let not_authorized = r#"{"error":"Not authorized.","request":"/1.1/statuses/lookup.json"}"#;
    let fetched = "its token cannot be fetched";
    let mut all = by_name();
    all.extend([
        lookup("429/88, no calls left", Fault::RateLimited { reset_s: 300 }, "HTTP 429"),
        lookup("429 with Retry-After", worded(429, &rest, "{}"), "HTTP 429"),
        lookup("420 with Retry-After", worded(420, &rest, "{}"), "HTTP 420"),
        lookup("503 with Retry-After", worded(503, &rest, "{}"), "HTTP 503"),
        lookup("503/130 with Retry-After", worded(503, &rest, r#"{"errors":[{"code":130}]}"#), "HTTP 503, code 130"),
        lookup("429/88, calls left", Fault::TooFast, "HTTP 429"),
        lookup("401 in plain text", worded(401, &[("content-type", "text/plain")], ECHO), "HTTP 401, text/plain"),
        lookup("401 with an error text", json(401, &format!(r#"{{"error":"Invalid {ECHO}"}}"#)), "HTTP 401"),
        lookup(r#"401, "error": "Not authorized.""#, json(401, not_authorized), "HTTP 401"),
        lookup(r#"401, "errors": "Not authorized.""#, json(401, r#"{"errors":"Not authorized."}"#), "HTTP 401"),
        lookup(r#"403, "errors": "text""#, json(403, &format!(r#"{{"errors":"{ECHO}"}}"#)), "HTTP 403"),
        lookup(r#"410, "error": "text""#, json(410, &format!(r#"{{"error":"{ECHO}"}}"#)), "HTTP 410"),
        lookup(r#"500, "error": "text""#, json(500, &format!(r#"{{"error":"{ECHO}"}}"#)), "HTTP 500"),
        lookup("timeout", Fault::Timeout, "no whole answer within"),
        lookup("connection closed", Fault::Close, "not available"),
        lookup("cut body", Fault::CutBody, "broke off"),
        lookup("204", json(204, ""), "HTTP 204"),
        lookup("200, HTML", Fault::Html, "it is not JSON: text/html, "),
        lookup(
            "200, plain text",
            worded(200, &[("content-type", "text/plain")], "[]"),
            "it is not JSON: text/plain, 2 b",
        ),
        lookup("200, empty", json(200, ""), "it is empty"),
        lookup("not JSON", Fault::NotJson, "application/json"),
        lookup("cut JSON", Fault::TruncatedJson, "it ends in the middle"),
        lookup("over the size cap", Fault::Oversized { bytes: 17 << 20 }, "larger than the limit"),
        lookup("wrong shape", Fault::WrongShape, "without a map of tweets"),
        lookup("errors in a 200", Fault::ErrorsInSuccess, "a success that says error"),
        Answer { name: "401/135, twice", given: Given::Twice(code(401, 135)), says: "clock is off".to_owned() },
        Answer { name: "connection refused", given: Given::Nothing, says: "cannot connect".to_owned() },
        token("token: 400", page(400), "issues no token"),
        token("token: 403/99", code(403, 99), "HTTP 403, code 99"),
        token("token: 404", page(404), fetched),
        token("token: 413", page(413), "issues no token"),
        token("token: 429", page(429), "HTTP 429"),
        token("token: 503", code(503, 130), fetched),
        token("token: timeout", Fault::Timeout, fetched),
        token("token: connection closed", Fault::Close, fetched),
        token("token: cut body", Fault::CutBody, fetched),
        token("token: not JSON", Fault::NotJson, fetched),
        token("token: no token", json(200, &format!(r#"{{"token_type":"mac","access_token":"{ECHO}"}}"#)), fetched),
    ]);
    all
}
