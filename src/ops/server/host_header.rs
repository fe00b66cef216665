//! The host that a request names.

use std::net::{IpAddr, Ipv6Addr};

use axum::extract::Request;
use axum::http::Version;
use axum::http::header::HOST;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Host {
    Address(IpAddr),
    /// In lower case, without a dot at its end.
    Name(String),
}

/// Returns the host of a request; `None` for a request of HTTP/1.0 without one. The error is a clause: there is none, there are several, or
/// it is malformed (RFC 9112, 3.2).
pub(super) fn parse_host(request: &Request) -> Result<Option<Host>, &'static str> {
    let mut headers = request.headers().get_all(HOST).iter();
    let header = match (headers.next(), headers.next()) {
        (_, Some(_)) => return Err("send one Host header"),
        (header, None) => header.map(|header| header.to_str().map_err(|_| MALFORMED)).transpose()?,
    };
    let authority = request.uri().authority().map(|authority| authority.as_str());
    let named = match (header, authority) {
        (Some(header), Some(authority)) if !header.eq_ignore_ascii_case(authority) => {
            return Err("the Host header and the request name different hosts");
        }
        (None, _) if request.version() >= Version::HTTP_11 => return Err("send a Host header"),
        (header, authority) => header.or(authority),
    };
    named.map(|named| Host::parse(named).ok_or(MALFORMED)).transpose()
}

const MALFORMED: &str = "the Host header is malformed: send a name or an address, with a port if necessary";

impl Host {
    fn parse(text: &str) -> Option<Self> {
        let (host, port) = match text.strip_prefix('[') {
            Some(rest) => {
                let (v6, rest) = rest.split_once(']')?;
                (Self::Address(IpAddr::V6(v6.parse::<Ipv6Addr>().ok()?)), rest)
            }
            None => {
                let (name, port) = text.split_at(text.find(':').unwrap_or(text.len()));
                (Self::parse_name(name)?, port)
            }
        };
        let is_port = port.is_empty() || port.strip_prefix(':').is_some_and(is_port);
        is_port.then_some(host)
    }

    fn parse_name(text: &str) -> Option<Self> {
        if let Ok(address) = text.parse() {
            return Some(Self::Address(IpAddr::V4(address)));
        }
        let name = text.strip_suffix('.').unwrap_or(text);
        let is_well_formed = name.len() <= 253 && name.split('.').all(is_label);
        is_well_formed.then(|| Self::Name(name.to_ascii_lowercase()))
    }
}

fn is_label(label: &str) -> bool {
    // Services in containers may have an underscore in their names.
    let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    (1..=63).contains(&label.len()) && label.bytes().all(is_letter) && !label.starts_with('-') && !label.ends_with('-')
}

fn is_port(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit()) && text.parse::<u16>().is_ok_and(|port| port > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_a_name_or_an_address_with_a_port_or_without() {
        let name = |text: &str| Some(Host::Name(text.to_owned()));
        assert_eq!(Host::parse("LOCALHOST:1"), name("localhost"));
        assert_eq!(Host::parse("starter.ns.svc.cluster.local."), name("starter.ns.svc.cluster.local"));
        assert_eq!(Host::parse("tweets_1.example.org:443"), name("tweets_1.example.org"));
        assert_eq!(Host::parse("127.0.0.1:8080"), Some(Host::Address([127, 0, 0, 1].into())));
        assert_eq!(Host::parse("[::1]:8082"), Some(Host::Address(Ipv6Addr::LOCALHOST.into())));
        assert_eq!(Host::parse("[::1]"), Some(Host::Address(Ipv6Addr::LOCALHOST.into())));
        let long = [&"a".repeat(64), "a.".repeat(130).as_str()].map(str::to_owned);
        for text in [
            "",
            ".",
            "a b",
            "me@localhost",
            "a..b",
            ".a",
            "a..",
            "localhost:",
            "localhost:0",
            "localhost:65536",
            "localhost:+80",
            "localhost:80:80",
            "::1",
            "[::1",
            "[::1]8080",
            "[::1]x:80",
            "[localhost]",
            "[1.2.3.4]",
            "a/b",
            "a?b",
            "a#b",
            "a,b",
            "a%20b",
            "bücher.example",
            "-a",
            "a-.b",
            "*.example.org",
            "\"a\"",
            "a\\b",
        ]
        .into_iter()
        .chain(long.iter().map(String::as_str))
        {
            assert_eq!(Host::parse(text), None, "{text}");
        }
    }
}
