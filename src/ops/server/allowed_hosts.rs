//! Rejects requests from pages of other sites, and requests for foreign host names.
//!
//! A page from anywhere can have a browser send requests to an address that only the browser reaches. With a name that it points there
//! (DNS rebinding) it can read the answers, too. Programs are not affected: they send neither `Origin` nor `Sec-Fetch-Site`, and a
//! program that can send any `Host` can send the right one.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::header::{HOST, HeaderMap, HeaderName, ORIGIN};
use axum::http::{Method, StatusCode, Uri};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::host_header::{Host, parse_host};

/// Suffixes that no name in the public DNS has. Not `.local`: every host in the local network can claim such a name by mDNS.
const PRIVATE_SUFFIXES: [&str; 5] = [".localhost", ".svc.cluster.local", ".internal", ".svc", ".test"];

/// Names of this server, besides addresses, names without a dot, and `PRIVATE_SUFFIXES`.
#[derive(Debug, Clone, Default)]
pub struct AllowedHosts {
    hosts: Vec<String>,
}

impl AllowedHosts {
    /// `hosts`: names, separated by commas.
    #[must_use]
    pub fn new(hosts: &str) -> Self {
        let hosts = hosts.split(',').map(|host| host.trim().to_ascii_lowercase());
        Self { hosts: hosts.filter(|host| !host.is_empty()).collect() }
    }

    fn contains(&self, host: &Host) -> bool {
        match host {
            Host::Address(_) => true,
            Host::Name(name) => {
                !name.contains('.')
                    || PRIVATE_SUFFIXES.iter().any(|end| name.ends_with(end))
                    || self.hosts.contains(name)
            }
        }
    }
}

pub(super) async fn reject_cross_site(
    State(allowed_hosts): State<Arc<AllowedHosts>>,
    request: Request,
    next: Next,
) -> Response {
    match parse_host(&request) {
        Err(why) => return (StatusCode::BAD_REQUEST, format!("{why}\n")).into_response(),
        Ok(Some(Host::Name(name))) if !allowed_hosts.contains(&Host::Name(name.clone())) => {
            let why = format!("{name} is no name of this server: add it to http.hosts\n");
            return (StatusCode::MISDIRECTED_REQUEST, why).into_response();
        }
        Ok(_) => {}
    }
    if is_cross_site(request.method(), request.headers()) {
        let why = "rejected: another site's page sent this request; repeat the action on a page of this server\n";
        return (StatusCode::FORBIDDEN, why).into_response();
    }
    next.run(request).await
}

/// Returns true if the browser says that another site's page sent the request. A followed link in its own window is allowed. In an
/// `iframe` it is not: a page can follow one there without its reader.
fn is_cross_site(method: &Method, headers: &HeaderMap) -> bool {
    let site = header_text(headers, &HeaderName::from_static("sec-fetch-site"));
    let mode = header_text(headers, &HeaderName::from_static("sec-fetch-mode"));
    let place = header_text(headers, &HeaderName::from_static("sec-fetch-dest"));
    let reads = matches!(*method, Method::GET | Method::HEAD);
    if reads && mode.as_deref() == Some("navigate") && place.is_none_or(|place| place == "document") {
        return false;
    }
    let other_site = site.is_some_and(|site| site != "same-origin" && site != "none");
    // For browsers too old to name the site. A GET from the page itself has no origin.
    let own = header_text(headers, &HOST).unwrap_or_default();
    let other_origin = header_text(headers, &ORIGIN).is_some_and(|origin| {
        let origin = origin.parse::<Uri>().ok();
        !origin.and_then(|origin| Some(origin.authority()?.as_str().eq_ignore_ascii_case(&own))).unwrap_or(false)
    });
    other_site || other_origin
}

fn header_text(headers: &HeaderMap, name: &HeaderName) -> Option<String> {
    headers.get(name).map(|value| value.to_str().unwrap_or("?").to_owned())
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    #[test]
    fn it_is_asked_by_its_own_names_alone() {
        let allowed_hosts = AllowedHosts::new("Tweets.Example.org, other.example.org, printer.local");
        let knows = |name: &str| allowed_hosts.contains(&Host::Name(name.to_owned()));
        assert!(allowed_hosts.contains(&Host::Address([10, 1, 2, 3].into())));
        for own in [
            "localhost",
            "starter",
            "starter.twitter-updater.svc",
            "starter.twitter-updater.svc.cluster.local",
            "tweets.example.org",
            "printer.local",
        ] {
            assert!(knows(own), "{own}");
        }
        for other in [
            "example.org",
            "evil.tweets.example.org",
            "127.0.0.1.example.org",
            "localhost.example.org",
            "1.2",
            "laptop.local",
            "cluster.local",
            "evil.cluster.local",
        ] {
            assert!(!knows(other), "{other}");
        }
    }

    #[test]
    fn what_another_sites_page_sends_is_seen() {
        let from = |method: Method, headers: &[(&'static str, &str)]| {
            let headers = headers.iter();
            let headers =
                headers.map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_str(value).unwrap()));
            is_cross_site(&method, &headers.collect())
        };
        let host = ("host", "127.0.0.1:8082");
        // A program sends none of these headers.
        assert!(!from(Method::POST, &[host]));
        assert!(!from(Method::POST, &[host, ("origin", "http://127.0.0.1:8082"), ("sec-fetch-site", "same-origin")]));
        assert!(!from(Method::POST, &[host, ("sec-fetch-site", "none")]));
        // A link from another site may be followed.
        let link = [host, ("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "navigate")];
        assert!(!from(Method::GET, &link));
        let link_to = |place| [&link[..], &[("sec-fetch-dest", place)]].concat();
        assert!(!from(Method::GET, &link_to("document")));
        for place in ["iframe", "frame", "embed", "object", "fencedframe"] {
            assert!(from(Method::GET, &link_to(place)), "{place}");
        }
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
