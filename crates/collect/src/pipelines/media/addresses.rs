//! Checks of file addresses. Strangers choose them, so only the public internet is allowed: no stranger may make this program call its
//! own network, or the metadata service of its cloud.
//!
//! The fetcher checks each URL, redirects included. The connection's own resolver ([`PublicAddresses`]) checks the resolved addresses, so
//! a name gains nothing if it resolves to another address the second time.

use std::collections::BTreeSet;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;
use std::sync::Arc;

use reqwest::Url;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};

use networks::providers::http::has_login;

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

impl FromStr for PrivateHosts {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let words = text.split(',').map(str::trim).filter(|word| !word.is_empty());
        let one = |word: &str| {
            let (host, port) = word.rsplit_once(':').ok_or_else(|| format!("{word:?} has no port: HOST:PORT"))?;
            let port = port.parse().map_err(|_| format!("{port:?} in {word:?} is not a port"))?;
            let host = normalize_host(host).to_ascii_lowercase();
            if host.is_empty() { Err(format!("{word:?} has no host: HOST:PORT")) } else { Ok((host, port)) }
        };
        words.map(one).collect::<Result<_, String>>().map(Self)
    }
}

impl PrivateHosts {
    fn contains(&self, host: &str, port: u16) -> bool {
        self.0.contains(&(host.to_owned(), port))
    }

    fn has_host(&self, host: &str) -> bool {
        self.0.iter().any(|(known, _)| known == host)
    }

    /// Returns the URL if it is allowed: `http` or `https`, no login, a port of web servers, a public host. The error is one clause.
    pub fn check(&self, url: &str) -> Result<Url, String> {
        if url.len() > MAX_URL_BYTES {
            return Err(format!("the address is longer than {MAX_URL_BYTES} bytes"));
        }
        let url = Url::parse(url).map_err(|error| format!("the address cannot be read: {error}"))?;
        self.check_url(&url)?;
        Ok(url)
    }

    pub fn check_url(&self, url: &Url) -> Result<(), String> {
        if !matches!(url.scheme(), "http" | "https") {
            return Err(format!("{} is not fetched: only http and https are", url.scheme()));
        }
        if has_login(url) {
            return Err("the address contains a user or a password".to_owned());
        }
        let (Some(host), Some(port)) = (url.host_str(), url.port_or_known_default()) else {
            return Err("the address has no host".to_owned());
        };
        let host = normalize_host(host);
        if self.contains(host, port) {
            return Ok(());
        }
        if self.has_host(host) {
            return Err(format!("port {port} of the private host {host} is not in media.private_hosts"));
        }
        if !WEB_PORTS.contains(&port) {
            return Err(format!("port {port} is not one of a web server ({WEB_PORTS:?})"));
        }
        match host.parse::<IpAddr>() {
            Ok(address) if !is_public(address) => Err(not_public_message(host)),
            _ => Ok(()),
        }
    }

    /// Fails if the connection's address is not public, and its host is not one of the allowed internal hosts.
    pub fn check_peer(&self, url: &Url, peer: Option<SocketAddr>) -> Result<(), String> {
        let host = normalize_host(url.host_str().unwrap_or_default());
        match peer {
            Some(peer) if !is_public(peer.ip()) && !self.has_host(host) => Err(not_public_message(host)),
            _ => Ok(()),
        }
    }
}

/// Removes the brackets of an IPv6 address, and the dot at the end of a full name.
fn normalize_host(host: &str) -> &str {
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    host.strip_suffix('.').unwrap_or(host)
}

fn not_public_message(host: &str) -> String {
    format!("{host} is not on the public internet")
}

#[derive(Debug)]
pub struct NotPublicError(String);

impl fmt::Display for NotPublicError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&not_public_message(&self.0))
    }
}

impl std::error::Error for NotPublicError {}

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
                true => Err(NotPublicError(host).into()),
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
            let error = none.check(url).unwrap_err();
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
        assert!(error.is::<NotPublicError>() && error.to_string().contains("localhost"), "{error}");
        assert!(resolved("localhost:1").await.unwrap() > 0);
    }
}
