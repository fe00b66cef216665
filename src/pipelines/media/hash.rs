//! SHA-256, by which files are named.

use ring::digest::{Context, SHA256};

#[must_use]
pub fn hex(hash: &[u8]) -> String {
    hash.iter()
        .flat_map(|byte| [byte >> 4, byte & 15])
        .map(|digit| char::from(b"0123456789abcdef"[usize::from(digit)]))
        .collect()
}

#[must_use]
pub fn hash() -> Context {
    Context::new(&SHA256)
}
