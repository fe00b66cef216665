//! Protection of browsers' requests: refuses those sent by pages of other sites, and those for foreign host names.
//!
//! A page from anywhere can have a browser send requests to an address that only the browser reaches, and with a name
//! that it lets point there (DNS rebinding) it can read the answers, too. Programs are not affected: they send neither
//! `Origin` nor `Sec-Fetch-Site`, and a program that can send any `Host` can send the right one.

use std::net::IpAddr;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::header::{HOST, HeaderMap, HeaderName, ORIGIN};
use axum::http::{Method, StatusCode, Uri};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

/// Ends of names that no stranger can have in the public DNS.
const PRIVATE: [&str; 5] = [".localhost", ".local", ".internal", ".svc", ".test"];

/// The names a server is asked by, beside addresses, names without a dot and ends that the public DNS cannot have.
#[derive(Debug, Clone, Default)]
pub struct Door {
    hosts: Vec<String>,
}

impl Door {
    /// With these names, too; commas between them.
    #[must_use]
    pub fn new(hosts: &str) -> Self {
        let hosts = hosts.split(',').map(|host| host.trim().to_ascii_lowercase());
        Self { hosts: hosts.filter(|host| !host.is_empty()).collect() }
    }

    /// Returns true if the request names this server.
    fn knows(&self, host: &str) -> bool {
        let name = name_of(host).trim_end_matches('.').to_ascii_lowercase();
        let is_address = name.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>().is_ok();
        is_address
            || !name.contains(['.', ':'])
            || PRIVATE.iter().any(|end| name.ends_with(end))
            || self.hosts.contains(&name)
    }
}

/// Lets a request pass, or says why not.
pub(super) async fn pass(State(door): State<Arc<Door>>, request: Request, next: Next) -> Response {
    let headers = request.headers();
    let host = request.uri().host().map(str::to_owned).or_else(|| word(headers, &HOST));
    if let Some(host) = host.filter(|host| !door.knows(host)) {
        let why = format!("{} is no name of this server: add it to http.hosts\n", name_of(&host));
        return (StatusCode::MISDIRECTED_REQUEST, why).into_response();
    }
    if is_from_elsewhere(request.method(), headers) {
        return (StatusCode::FORBIDDEN, "this was sent from another site's page: do it here\n").into_response();
    }
    next.run(request).await
}

/// Returns true if the browser says that another site's page sent the request, unless it follows a link.
fn is_from_elsewhere(method: &Method, headers: &HeaderMap) -> bool {
    let site = word(headers, &HeaderName::from_static("sec-fetch-site"));
    let mode = word(headers, &HeaderName::from_static("sec-fetch-mode"));
    let reads = matches!(*method, Method::GET | Method::HEAD);
    if reads && mode.as_deref() == Some("navigate") {
        return false;
    }
    let other_site = site.is_some_and(|site| site != "same-origin" && site != "none");
    // Where the browser is too old to name the site. A GET from the page itself says no origin.
    let own = word(headers, &HOST).unwrap_or_default();
    let other_origin = word(headers, &ORIGIN).is_some_and(|origin| {
        let origin = origin.parse::<Uri>().ok();
        !origin.and_then(|origin| Some(origin.authority()?.as_str().eq_ignore_ascii_case(&own))).unwrap_or(false)
    });
    other_site || other_origin
}

fn word(headers: &HeaderMap, name: &HeaderName) -> Option<String> {
    headers.get(name).map(|value| value.to_str().unwrap_or("?").to_owned())
}

/// A host without its port.
fn name_of(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) && !name.ends_with(':') => name,
        _ => host,
    }
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    #[test]
    fn it_is_asked_by_its_own_names_alone() {
        let door = Door::new("Tweets.Example.org, other.example.org");
        for own in [
            "127.0.0.1:8080",
            "10.1.2.3",
            "[::1]:8082",
            "[2001:db8::1]",
            "localhost",
            "LOCALHOST:1",
            "starter:8080",
            "starter.twitter-updater.svc:8080",
            "starter.twitter-updater.svc.cluster.local.",
            "tweets.example.org:443",
        ] {
            assert!(door.knows(own), "{own}");
        }
        for other in
            ["example.org", "evil.tweets.example.org", "127.0.0.1.example.org:8080", "localhost.example.org", "1.2"]
        {
            assert!(!door.knows(other), "{other}");
        }
    }

    #[test]
    fn what_another_sites_page_sends_is_seen() {
        let from = |method: Method, headers: &[(&'static str, &str)]| {
            let headers = headers.iter();
            let headers =
                headers.map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_str(value).unwrap()));
            is_from_elsewhere(&method, &headers.collect())
        };
        let host = ("host", "127.0.0.1:8082");
        // A program says nothing of it.
        assert!(!from(Method::POST, &[host]));
        assert!(!from(Method::POST, &[host, ("origin", "http://127.0.0.1:8082"), ("sec-fetch-site", "same-origin")]));
        assert!(!from(Method::POST, &[host, ("sec-fetch-site", "none")]));
        // A link from elsewhere may be followed.
        assert!(!from(Method::GET, &[host, ("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "navigate")]));
        for (name, value) in [
            ("origin", "http://127.0.0.1:8081"),
            ("origin", "https://example.com"),
            ("origin", "null"),
            ("sec-fetch-site", "cross-site"),
            ("sec-fetch-site", "same-site"),
        ] {
            assert!(from(Method::POST, &[host, (name, value)]), "{name}: {value}");
            assert!(from(Method::POST, &[host, (name, value), ("sec-fetch-mode", "navigate")]), "{name}: {value}");
            assert!(from(Method::GET, &[host, (name, value), ("sec-fetch-mode", "cors")]), "{name}: {value}");
        }
    }
}
