//! Checks of file addresses. Strangers choose them, so only the public internet is allowed: no stranger may make this program call its
//! own network, or the metadata service of its cloud.
//!
//! The fetcher checks each URL, redirects included. The connection's own resolver ([`PublicAddresses`]) checks the resolved addresses, so
//! a name gains nothing if it resolves to another address the second time.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;
use std::sync::Arc;

use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::header::LOCATION;
use reqwest::{Response, Url};

use networks::providers::http::has_login;

/// Reason why a text is no URL.
pub type UrlError = <Url as FromStr>::Err;

const WEB_PORTS: [u16; 4] = [80, 443, 8080, 8443];
const MAX_URL_BYTES: usize = 4_096;

/// Networks outside the public internet: first address and length of the prefix.
const NOT_PUBLIC_V4: &[(Ipv4Addr, u32)] = &[
    (Ipv4Addr::new(0, 0, 0, 0), 8),        // this network
    (Ipv4Addr::new(10, 0, 0, 0), 8),       // private
    (Ipv4Addr::new(100, 64, 0, 0), 10),    // behind a provider's NAT; Alibaba's metadata service
    (Ipv4Addr::new(127, 0, 0, 0), 8),      // this machine
    (Ipv4Addr::new(168, 63, 129, 16), 32), // Azure's metadata service
    (Ipv4Addr::new(169, 254, 0, 0), 16),   // this link; metadata services
    (Ipv4Addr::new(172, 16, 0, 0), 12),    // private
    (Ipv4Addr::new(192, 0, 0, 0), 24),     // protocols; Oracle's metadata service
    (Ipv4Addr::new(192, 0, 2, 0), 24),     // examples
    (Ipv4Addr::new(192, 88, 99, 0), 24),   // 6to4 relays
    (Ipv4Addr::new(192, 168, 0, 0), 16),   // private
    (Ipv4Addr::new(198, 18, 0, 0), 15),    // measurements
    (Ipv4Addr::new(198, 51, 100, 0), 24),  // examples
    (Ipv4Addr::new(203, 0, 113, 0), 24),   // examples
    (Ipv4Addr::new(224, 0, 0, 0), 4),      // multicast
    (Ipv4Addr::new(240, 0, 0, 0), 4),      // reserved, broadcast
];

/// Networks outside the public internet within 2000::/3, which is all of it.
const NOT_PUBLIC_V6: &[(Ipv6Addr, u32)] = &[
    (Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0), 23), // protocols, Teredo among them
    (Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0), 32), // examples
    (Ipv6Addr::new(0x3fff, 0, 0, 0, 0, 0, 0, 0), 20), // examples
];

/// Returns true for an address of the public internet.
///
/// ```
/// # use twitter_updater_collect::pipelines::media::addresses::is_public;
/// assert!(is_public("93.184.215.14".parse().unwrap()));
/// assert!(!is_public("169.254.169.254".parse().unwrap()));
/// assert!(!is_public("::ffff:10.0.0.1".parse().unwrap()));
/// ```
#[must_use]
pub fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => !NOT_PUBLIC_V4.iter().any(|(network, length)| {
            let bits = 32 - length;
            v4.to_bits() >> bits == network.to_bits() >> bits
        }),
        IpAddr::V6(v6) => match embedded_ipv4(v6) {
            Some(v4) => is_public(v4.into()),
            None => is_public_v6(v6),
        },
    }
}

fn is_public_v6(v6: Ipv6Addr) -> bool {
    let within =
        |(network, length): &(Ipv6Addr, u32)| v6.to_bits() >> (128 - length) == network.to_bits() >> (128 - length);
    v6.to_bits() >> 125 == 1 && !NOT_PUBLIC_V6.iter().any(within)
}

/// The IPv4 address that an IPv6 address leads to: mapped, behind NAT64 (64:ff9b::/96), or 6to4 (2002::/16).
fn embedded_ipv4(v6: Ipv6Addr) -> Option<Ipv4Addr> {
    let bits = v6.to_bits();
    // The last 32 bits.
    let last = Ipv4Addr::from_bits(bits as u32);
    match v6.segments() {
        [0, 0, 0, 0, 0, 0xffff, ..] | [0x64, 0xff9b, 0, 0, 0, 0, ..] => Some(last),
        [0x2002, high, low, ..] => Some(Ipv4Addr::from_bits(u32::from(high) << 16 | u32::from(low))),
        _ => None,
    }
}

/// Hosts outside the public internet that may be called, each with its port: a private mirror, and the servers of tests.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PrivateHosts(BTreeSet<(String, u16)>);

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidHost {
    #[error("{0:?} has no port: HOST:PORT")]
    NoPort(String),
    #[error("{port:?} in {word:?} is not a port")]
    BadPort { port: String, word: String },
    #[error("{0:?} has no host: HOST:PORT")]
    NoHost(String),
}

/// Reason why an address is not fetched, in one clause.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RefusedAddress {
    #[error("the address is longer than {MAX_URL_BYTES} bytes")]
    TooLong,
    #[error("the address cannot be read: {0}")]
    Unreadable(UrlError),
    #[error("{0} is not fetched: only http and https are")]
    Scheme(String),
    #[error("the address contains a user or a password")]
    HasLogin,
    #[error("the address has no host")]
    NoHost,
    #[error("port {port} of the private host {host} is not in media.private_hosts")]
    PortOfPrivateHost { host: String, port: u16 },
    #[error("port {0} is not one of a web server ({WEB_PORTS:?})")]
    Port(u16),
    #[error("{0} is not on the public internet")]
    NotPublic(String),
}

impl FromStr for PrivateHosts {
    type Err = InvalidHost;

    fn from_str(text: &str) -> Result<Self, InvalidHost> {
        let words = text.split(',').map(str::trim).filter(|word| !word.is_empty());
        let one = |word: &str| {
            let owned = || word.to_owned();
            let (host, port) = word.rsplit_once(':').ok_or_else(|| InvalidHost::NoPort(owned()))?;
            let port = port.parse().map_err(|_| InvalidHost::BadPort { port: port.to_owned(), word: owned() })?;
            let host = normalize_host(host).to_ascii_lowercase();
            if host.is_empty() { Err(InvalidHost::NoHost(owned())) } else { Ok((host, port)) }
        };
        words.map(one).collect::<Result<_, InvalidHost>>().map(Self)
    }
}

impl PrivateHosts {
    fn contains(&self, host: &str, port: u16) -> bool {
        self.0.contains(&(host.to_owned(), port))
    }

    fn has_host(&self, host: &str) -> bool {
        self.0.iter().any(|(known, _)| known == host)
    }

    /// Returns the URL if it is allowed: `http` or `https`, no login, a port of web servers, a public host.
    pub fn check(&self, url: &str) -> Result<Url, RefusedAddress> {
        if url.len() > MAX_URL_BYTES {
            return Err(RefusedAddress::TooLong);
        }
        let url = Url::parse(url).map_err(RefusedAddress::Unreadable)?;
        self.check_url(&url)?;
        Ok(url)
    }

    pub fn check_url(&self, url: &Url) -> Result<(), RefusedAddress> {
        if !matches!(url.scheme(), "http" | "https") {
            return Err(RefusedAddress::Scheme(url.scheme().to_owned()));
        }
        if has_login(url) {
            return Err(RefusedAddress::HasLogin);
        }
        let (Some(host), Some(port)) = (url.host_str(), url.port_or_known_default()) else {
            return Err(RefusedAddress::NoHost);
        };
        let host = normalize_host(host);
        if self.contains(host, port) {
            return Ok(());
        }
        if self.has_host(host) {
            return Err(RefusedAddress::PortOfPrivateHost { host: host.to_owned(), port });
        }
        if !WEB_PORTS.contains(&port) {
            return Err(RefusedAddress::Port(port));
        }
        match host.parse::<IpAddr>() {
            Ok(address) if !is_public(address) => Err(RefusedAddress::NotPublic(host.to_owned())),
            _ => Ok(()),
        }
    }

    /// Fails if the connection's address is not public, and its host is not one of the allowed internal hosts.
    pub fn check_peer(&self, url: &Url, peer: Option<SocketAddr>) -> Result<(), RefusedAddress> {
        let host = normalize_host(url.host_str().unwrap_or_default());
        match peer {
            Some(peer) if !is_public(peer.ip()) && !self.has_host(host) => {
                Err(RefusedAddress::NotPublic(host.to_owned()))
            }
            _ => Ok(()),
        }
    }
}

/// Removes the brackets of an IPv6 address, and the dot at the end of a full name.
fn normalize_host(host: &str) -> &str {
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    host.strip_suffix('.').unwrap_or(host)
}

#[derive(Debug, thiserror::Error)]
pub(super) enum BadRedirect {
    #[error("a redirect without an address")]
    NoAddress,
    #[error("a redirect to an address that cannot be read: {0}")]
    Unreadable(UrlError),
}

/// `None`: the response redirects to no other address.
pub(super) fn redirect_target(from: &Url, response: &Response) -> Option<Result<Url, BadRedirect>> {
    if !matches!(response.status().as_u16(), 301 | 302 | 303 | 307 | 308) {
        return None;
    }
    let to = response.headers().get(LOCATION).and_then(|to| to.to_str().ok());
    Some(to.ok_or(BadRedirect::NoAddress).and_then(|to| from.join(to).map_err(BadRedirect::Unreadable)))
}

/// Resolves names to public addresses only; private hosts to any address.
#[derive(Debug, Clone)]
pub struct PublicAddresses(pub Arc<PrivateHosts>);

impl Resolve for PublicAddresses {
    fn resolve(&self, name: Name) -> Resolving {
        let private = self.0.clone();
        Box::pin(async move {
            let host = name.as_str().to_ascii_lowercase();
            let found = tokio::net::lookup_host((&*host, 0)).await?;
            let is_named = private.has_host(normalize_host(&host));
            let public: Vec<SocketAddr> = found.filter(|found| is_named || is_public(found.ip())).collect();
            match public.is_empty() {
                true => Err(RefusedAddress::NotPublic(host).into()),
                false => Ok(Box::new(public.into_iter()) as Addrs),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_of_the_public_internet_are_public() {
        let public = ["1.1.1.1", "104.244.43.131", "172.32.0.1", "100.128.0.1", "2606:4700::1111", "2a00:1450::1"];
        for address in public.into_iter().chain(["64:ff9b::1.1.1.1", "::ffff:1.1.1.1", "2002:0101:0101::1"]) {
            assert!(is_public(address.parse().unwrap()), "{address}");
        }
        let private = [
            "0.0.0.0",
            "10.1.2.3",
            "100.64.0.1",
            "100.100.100.200",
            "127.0.0.1",
            "127.8.8.8",
            "168.63.129.16",
            "169.254.169.254",
            "172.16.0.1",
            "172.31.255.255",
            "192.0.0.192",
            "192.168.1.1",
            "198.19.0.1",
            "224.0.0.1",
            "239.255.255.250",
            "255.255.255.255",
            "::",
            "::1",
            "fe80::1",
            "fc00::1",
            "fd00:ec2::254",
            "fd20:ce::254",
            "febf::1",
            "ff02::1",
            "::ffff:127.0.0.1",
            "::ffff:169.254.169.254",
            "::ffff:0:10.0.0.1",
            "64:ff9b::10.0.0.1",
            "64:ff9b::100.100.100.200",
            "64:ff9b::168.63.129.16",
            "64:ff9b::169.254.169.254",
            "64:ff9b::192.0.0.192",
            "64:ff9b:1::1.1.1.1",
            "64:ff9b:1:fffe::169.254.169.254",
            "2002:7f00:1::1",
            "2002:a9fe:a9fe::1",
            "2001::1",
            "2001:db8::1",
            "::7f00:1",
        ];
        for address in private {
            assert!(!is_public(address.parse().unwrap()), "{address}");
        }
    }

    #[test]
    fn a_url_is_asked_only_where_it_leads_to_the_public_internet() {
        let none = PrivateHosts::default();
        for url in ["https://pbs.twimg.com/media/a.jpg?name=orig", "http://1.1.1.1/x", "https://h.example:8443/"] {
            assert!(none.check(url).is_ok(), "{url}");
        }
        let refused = [
            ("ftp://h.example/x", "http and https"),
            ("file:///etc/passwd", "http and https"),
            ("https://user:secret@h.example/", "user or a password"),
            ("https://h.example:22/", "port 22"),
            ("http://127.0.0.1/", "not on the public internet"),
            ("http://2130706433/", "not on the public internet"),
            ("http://0x7f.1/", "not on the public internet"),
            ("http://[::1]/", "not on the public internet"),
            ("http://[::ffff:a9fe:a9fe]/latest", "not on the public internet"),
            ("http://169.254.169.254/latest/meta-data", "not on the public internet"),
            ("no address", "cannot be read"),
        ];
        for (url, why) in refused {
            let error = none.check(url).unwrap_err().to_string();
            assert!(error.contains(why) && !error.contains("secret"), "{url}: {error}");
        }
        assert!(none.check(&format!("https://h.example/{}", "a".repeat(5_000))).is_err());
    }

    #[test]
    fn a_private_host_is_asked_at_its_port_alone() {
        let named: PrivateHosts = "127.0.0.1:9000, mirror.lan:80,[::1]:81".parse().unwrap();
        for url in ["http://127.0.0.1:9000/a", "http://mirror.lan/a", "http://[::1]:81/", "https://h.example/"] {
            assert!(named.check(url).is_ok(), "{url}");
        }
        for url in ["http://127.0.0.1:9001/a", "http://127.0.0.1/", "https://mirror.lan/", "http://127.0.0.2:9000/"] {
            assert!(named.check(url).is_err(), "{url}");
        }
        for text in ["127.0.0.1", "h:x", ":80"] {
            assert!(text.parse::<PrivateHosts>().is_err(), "{text}");
        }
    }

    #[tokio::test]
    async fn a_name_of_this_machine_resolves_to_nothing_unless_it_is_named() {
        let resolved = async |private: &str| {
            let resolver = PublicAddresses(Arc::new(private.parse().unwrap()));
            resolver.resolve("localhost".parse().unwrap()).await.map(Iterator::count)
        };
        let error = resolved("").await.unwrap_err();
        assert!(error.is::<RefusedAddress>() && error.to_string().contains("localhost"), "{error}");
        assert!(resolved("localhost:1").await.unwrap() > 0);
    }
}
