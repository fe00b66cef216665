//! Hosts that are this machine: data sent to them crosses no network.

use std::net::IpAddr;

/// Returns true if a host is this machine. The host is a name or an IP address, with or without brackets.
///
/// ```
/// use lease_lanes::base::backend::loopback::is_loopback;
/// assert!(["localhost", "127.0.0.2", "[::1]", "::ffff:127.0.0.1"].into_iter().all(is_loopback));
/// assert!(!["redis", "10.0.0.1", "0.0.0.0", "localhost.example.org", ""].into_iter().any(is_loopback));
/// ```
#[must_use]
pub fn is_loopback(host: &str) -> bool {
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    let is_own = |address: IpAddr| address.to_canonical().is_loopback();
    bare.eq_ignore_ascii_case("localhost") || bare.parse().is_ok_and(is_own)
}
