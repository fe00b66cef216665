//! SHA-256 in hexadecimal digits, the names of files.

use ring::digest::{Context, SHA256};

#[must_use]
pub fn hex(hash: &[u8]) -> String {
    hash.iter()
        .flat_map(|byte| [byte >> 4, byte & 15])
        .map(|digit| char::from(b"0123456789abcdef"[usize::from(digit)]))
        .collect()
}

#[must_use]
pub fn sha256_context() -> Context {
    Context::new(&SHA256)
}
