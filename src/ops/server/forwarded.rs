//! The client's address behind trusted proxies.

use std::net::{IpAddr, SocketAddr};

use axum::http::{HeaderMap, HeaderName};

use engine::base::subnets::Subnets;

/// Each proxy appends the address of its own client.
const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// Returns the rightmost address that is no trusted proxy's: a client can invent only addresses to its left. Without a trusted proxy, it
/// is the peer.
pub(super) fn client_address(headers: &HeaderMap, peer: IpAddr, proxies: &Subnets) -> IpAddr {
    let mut client = peer.to_canonical();
    let lines = headers.get_all(X_FORWARDED_FOR).iter().rev();
    let mut hops = lines.flat_map(|line| line.to_str().unwrap_or("?").rsplit(','));
    while proxies.contains(client) {
        // Text that is no address ends the chain.
        let Some(hop) = hops.next().and_then(|hop| parse_address(hop.trim())) else { break };
        client = hop;
    }
    client
}

fn parse_address(hop: &str) -> Option<IpAddr> {
    let with_port = || hop.parse::<SocketAddr>().ok().map(|address| address.ip());
    let bracketed = || hop.strip_prefix('[')?.strip_suffix(']')?.parse().ok().map(IpAddr::V6);
    hop.parse::<IpAddr>().ok().or_else(with_port).or_else(bracketed).map(|address| address.to_canonical())
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn client_of(peer: &str, lines: &[&str]) -> String {
        let lines = lines.iter().map(|line| (X_FORWARDED_FOR, HeaderValue::from_str(line).unwrap()));
        let mut headers = HeaderMap::new();
        lines.for_each(|(name, value)| _ = headers.append(name, value));
        let proxies = Subnets::parse("10.0.0.0/8,::1").unwrap();
        client_address(&headers, peer.parse().unwrap(), &proxies).to_string()
    }

    #[test]
    fn the_client_is_the_rightmost_address_that_is_no_trusted_proxy() {
        assert_eq!(client_of("10.0.0.1", &["203.0.113.7"]), "203.0.113.7");
        assert_eq!(client_of("10.0.0.1", &["198.51.100.1, 203.0.113.7, 10.0.0.2"]), "203.0.113.7");
        assert_eq!(client_of("::1", &["198.51.100.1", "203.0.113.7,10.0.0.2"]), "203.0.113.7");
        assert_eq!(client_of("::ffff:10.0.0.1", &["203.0.113.7:4711"]), "203.0.113.7");
        assert_eq!(client_of("10.0.0.1", &["[2001:db8::1]:4711"]), "2001:db8::1");
        assert_eq!(client_of("10.0.0.1", &["[2001:db8::1]"]), "2001:db8::1");
    }

    #[test]
    fn a_client_cannot_invent_its_address() {
        assert_eq!(client_of("192.0.2.1", &["203.0.113.7"]), "192.0.2.1");
        assert_eq!(client_of("10.0.0.1", &[]), "10.0.0.1");
        assert_eq!(client_of("10.0.0.1", &["203.0.113.7, unknown"]), "10.0.0.1");
        assert_eq!(client_of("10.0.0.1", &["203.0.113.7,"]), "10.0.0.1");
        assert_eq!(client_of("10.0.0.1", &["203.0.113.7, odd, 10.0.0.2"]), "10.0.0.2");
        assert_eq!(client_of("10.0.0.1", &["10.0.0.3, 10.0.0.2"]), "10.0.0.3");
    }
}
