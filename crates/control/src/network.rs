//! Networks of hosts by prefix.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};

use crate::flow::Address;

/// The hosts whose addresses begin with the same bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    /// The bits after the prefix are 0, so that a network is equal to itself however it was written.
    address: Address,
    /// Number of bits, of an IPv4 address as mapped into IPv6.
    prefix: u8,
}

impl Network {
    /// Bits of the prefix of all IPv4 addresses as mapped into IPv6.
    const MAPPED: u8 = 96;

    /// Reads `10.1.0.4`, `10.1.0.0/16` or `fd00::/8`; none for anything else.
    pub fn read(text: &str) -> Option<Self> {
        let (address, prefix) = match text.split_once('/') {
            Some((address, prefix)) => (address, Some(prefix.parse::<u8>().ok()?)),
            None => (text, None),
        };
        let address: IpAddr = address.trim().parse().ok()?;
        match prefix {
            Some(prefix) => Self::around(address, prefix),
            None => Some(Self::host(address)),
        }
    }

    /// The hosts that have the first `prefix` bits of their addresses in common with this one; none if an address has fewer.
    pub fn around(address: IpAddr, prefix: u8) -> Option<Self> {
        let (max, mapped) = if address.is_ipv4() { (32, Self::MAPPED) } else { (128, 0) };
        (prefix <= max).then(|| {
            let prefix = prefix + mapped;
            let mask = u128::MAX.checked_shl(128 - u32::from(prefix)).unwrap_or(0);
            let bits = u128::from_be_bytes(Address::from(address).0) & mask;
            Self { address: Address(bits.to_be_bytes()), prefix }
        })
    }

    /// One host.
    pub fn host(address: impl Into<Address>) -> Self {
        Self { address: address.into(), prefix: 128 }
    }

    /// Length of the prefix in bits, of an IPv4 address as mapped into IPv6.
    pub const fn prefix(&self) -> u8 {
        self.prefix
    }

    /// Whether a host is one of them.
    pub fn contains(&self, host: Address) -> bool {
        let bits = u128::from_be_bytes(self.address.0) ^ u128::from_be_bytes(host.0);
        bits.leading_zeros() >= u32::from(self.prefix)
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (IpAddr::from(self.address), self.prefix.checked_sub(Self::MAPPED)) {
            (IpAddr::V4(address), Some(prefix)) => write!(f, "{address}/{prefix}"),
            _ => write!(f, "{}/{}", Ipv6Addr::from(self.address.0), self.prefix),
        }
    }
}
