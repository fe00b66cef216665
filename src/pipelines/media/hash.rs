//! SHA-256, by which files are named.

use ring::digest::{Context, SHA256};

/// Hexadecimal digits of a hash.
#[must_use]
pub fn hex(hash: &[u8]) -> String {
    hash.iter()
        .flat_map(|byte| [byte >> 4, byte & 15])
        .map(|digit| char::from(b"0123456789abcdef"[usize::from(digit)]))
        .collect()
}

/// A hash of bytes that come one after the other.
#[must_use]
pub fn hash() -> Context {
    Context::new(&SHA256)
}
