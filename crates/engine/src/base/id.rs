//! Ids of items.

/// Maximum length of an id in bytes. The longest known ids are URIs of about 100 bytes.
pub const MAX_ID_BYTES: usize = 512;

/// Checks that an id is valid. The error is one clause about the fault.
pub fn check_id(id: &str) -> Result<(), &'static str> {
    if id.is_empty() {
        Err("the id is empty")
    } else if id.len() > MAX_ID_BYTES {
        Err("the id is longer than 512 bytes")
    } else if id.chars().any(|c| c.is_whitespace() || c.is_control()) {
        Err("the id has white space or control characters")
    } else {
        Ok(())
    }
}
