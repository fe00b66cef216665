//! Addresses and networks in CIDR notation, and the subnets for limits per address.

use std::net::{IpAddr, Ipv6Addr};

/// A list of networks; a single address is a network of its own.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Subnets(Vec<Network>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Network {
    address: IpAddr,
    prefix: u32,
}

/// An invalid entry of a list of networks.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidNetwork {
    #[error("{0:?} is not an IP address or network: write it like 10.0.0.7 or 10.0.0.0/8")]
    Form(String),
    #[error("{0:?} contains every address: name the networks one by one")]
    Everything(String),
    #[error("{entry:?} has bits after its prefix: write {network}/{prefix}")]
    BitsAfterPrefix { entry: String, network: IpAddr, prefix: u32 },
}

impl Subnets {
    /// Parses a list like `10.0.0.0/8,2001:db8::1`, which may be empty.
    pub fn parse(text: &str) -> Result<Self, InvalidNetwork> {
        if text.trim().is_empty() {
            return Ok(Self::default());
        }
        text.split(',').map(|entry| Network::parse(entry.trim())).collect::<Result<_, _>>().map(Self)
    }

    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.0.iter().any(|network| masked(address, network.prefix) == Some(network.address))
    }
}

impl Network {
    fn parse(entry: &str) -> Result<Self, InvalidNetwork> {
        let invalid = || InvalidNetwork::Form(entry.to_owned());
        let (address, prefix) = match entry.split_once('/') {
            Some((address, prefix)) => (address, Some(prefix)),
            None => (entry, None),
        };
        let address = address.parse::<IpAddr>().map_err(|_| invalid())?.to_canonical();
        let bits = if address.is_ipv4() { 32 } else { 128 };
        let Some(prefix) = prefix else { return Ok(Self { address, prefix: bits }) };
        let is_number = !prefix.is_empty() && prefix.bytes().all(|byte| byte.is_ascii_digit());
        let prefix: u32 = prefix.parse().ok().filter(|prefix| is_number && *prefix <= bits).ok_or_else(invalid)?;
        match masked(address, prefix) {
            _ if prefix == 0 => Err(InvalidNetwork::Everything(entry.to_owned())),
            Some(network) if network != address => {
                Err(InvalidNetwork::BitsAfterPrefix { entry: entry.to_owned(), network, prefix })
            }
            _ => Ok(Self { address, prefix }),
        }
    }
}

/// The first `prefix` bits of an address; `None` if it has fewer bits.
fn masked(address: IpAddr, prefix: u32) -> Option<IpAddr> {
    Some(match address {
        IpAddr::V4(v4) => {
            let rest = 32_u32.checked_sub(prefix)?;
            IpAddr::from(v4.to_bits().checked_shr(rest).unwrap_or(0).checked_shl(rest).unwrap_or(0).to_be_bytes())
        }
        IpAddr::V6(v6) => {
            let rest = 128_u32.checked_sub(prefix)?;
            IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits().checked_shr(rest).unwrap_or(0).checked_shl(rest).unwrap_or(0)))
        }
    })
}

/// The unit of all limits per address: an IPv4 address, or the /64 prefix of an IPv6 address, which one customer has.
#[must_use]
pub fn subnet(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        v6 @ IpAddr::V6(_) => masked(v6, 64).unwrap_or(v6),
        v4 @ IpAddr::V4(_) => v4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn contains(list: &str, address: &str) -> bool {
        Subnets::parse(list).unwrap().contains(address.parse().unwrap())
    }

    #[test]
    fn a_list_contains_its_addresses_and_those_of_its_networks() {
        let list = "10.0.0.0/8, 192.0.2.7,2001:db8::/32,::1";
        for inside in ["10.255.0.1", "192.0.2.7", "2001:db8:1::1", "::1", "::ffff:10.1.2.3"] {
            assert!(contains(list, inside), "{inside}");
        }
        for outside in ["11.0.0.1", "192.0.2.8", "2001:db9::1", "::2", "a00::"] {
            assert!(!contains(list, outside), "{outside}");
        }
        assert!(!contains("", "10.0.0.1") && !contains("  ", "::1"));
    }

    #[test]
    fn an_invalid_entry_is_named() {
        for entry in
            ["10.0.0.0/33", "::/129", "proxy", "10.0.0.0/", "10.0.0.0/+8", "10.0.0.0/8/8", "10.0.0", "", "10.0.0.1:80"]
        {
            let error = Subnets::parse(&format!("127.0.0.1,{entry}")).unwrap_err().to_string();
            assert!(error.contains(&format!("{entry:?}")), "{error}");
        }
        assert!(Subnets::parse("0.0.0.0/0").unwrap_err().to_string().contains("every address"));
        assert!(Subnets::parse("10.1.2.3/8").unwrap_err().to_string().ends_with("write 10.0.0.0/8"));
    }

    #[test]
    fn addresses_of_one_household_are_one_subnet() {
        let of = |text: &str| subnet(text.parse().unwrap());
        assert_eq!(of("2001:db8:1:2:3:4:5:6"), of("2001:db8:1:2::1"));
        assert_ne!(of("2001:db8:1:2::1"), of("2001:db8:1:3::1"));
        assert_eq!(of("::ffff:10.0.0.1"), of("10.0.0.1"));
        assert_ne!(of("10.0.0.1"), of("10.0.0.2"));
    }
}
