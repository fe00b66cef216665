//! Ids and handles that encode an account's number reversibly.

use crate::bits::inverse;
use crate::random::mix;
use crate::text::HANDLE_ENDS;

pub const NUMBER_BITS: u32 = 20;
const NUMBERS: u64 = 1 << NUMBER_BITS;

/// Odd factors: neighbouring numbers get ids and handles that are far apart.
const SPREAD_DID: u64 = 0x9_e3d5;
const SPREAD_HANDLE: u64 = 0x9e37_79b1;

/// The digits of a DID (base32, RFC 4648 in lower case), and their number.
const BASE32: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
const DID_DIGITS: usize = 24;
/// The first digits hold the number: five bits each.
const NUMBER_DIGITS: usize = (NUMBER_BITS / 5) as usize;

/// Number of bits in which later handles of an account differ.
const VERSION_BITS: u32 = 12;
const HANDLE_BITS: u32 = NUMBER_BITS + VERSION_BITS;

pub fn did(number: u64) -> String {
    let mut bits = number.wrapping_mul(SPREAD_DID) & (NUMBERS - 1);
    let mut did = String::with_capacity(8 + DID_DIGITS);
    did.push_str("did:plc:");
    for at in 0..DID_DIGITS {
        if at >= NUMBER_DIGITS && (at - NUMBER_DIGITS).is_multiple_of(12) {
            bits = mix(number ^ ((at as u64) << 32));
        }
        did.push(char::from(BASE32[(bits & 31) as usize]));
        bits >>= 5;
    }
    did
}

pub fn number_of_did(text: &str) -> Option<u64> {
    let digits = text.strip_prefix("did:plc:").filter(|digits| digits.len() == DID_DIGITS)?;
    let first = digits.as_bytes().get(..NUMBER_DIGITS)?;
    let spread = first.iter().rev().try_fold(0u64, |bits, byte| {
        let digit = BASE32.iter().position(|known| known == byte)?;
        Some((bits << 5) | digit as u64)
    })?;
    let number = spread.wrapping_mul(inverse(SPREAD_DID)) & (NUMBERS - 1);
    (did(number) == text).then_some(number)
}

/// The handle that an account takes in a slot: at most 15 characters, as at Twitter.
pub fn later_handle(number: u64, slot: i64) -> String {
    let bits = (number << VERSION_BITS) | (slot.unsigned_abs() & ((1 << VERSION_BITS) - 1));
    let word = HANDLE_ENDS[(mix(bits) % HANDLE_ENDS.len() as u64) as usize];
    let mut rest = bits.wrapping_mul(SPREAD_HANDLE) & ((1 << HANDLE_BITS) - 1);
    let mut digits = Vec::new();
    while rest > 0 || digits.is_empty() {
        digits.push(char::from_digit((rest % 36) as u32, 36).unwrap_or('0'));
        rest /= 36;
    }
    format!("{word}_{}", digits.into_iter().rev().collect::<String>())
}

pub fn number_of_later_handle(handle: &str) -> Option<u64> {
    let (_, digits) = handle.split_once('_')?;
    let bits = u64::from_str_radix(digits, 36).ok().filter(|bits| *bits < 1 << HANDLE_BITS)?;
    Some((bits.wrapping_mul(inverse(SPREAD_HANDLE)) & ((1 << HANDLE_BITS) - 1)) >> VERSION_BITS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_and_handles_are_read_back() {
        for number in (0..NUMBERS).step_by(97).chain([NUMBERS - 1]) {
            let text = did(number);
            assert_eq!((text.len(), number_of_did(&text)), (32, Some(number)));
            for slot in [0, 1, 4_095, 1_000_003] {
                let handle = later_handle(number, slot);
                assert_eq!(number_of_later_handle(&handle), Some(number), "{handle}");
                assert!(handle.len() <= 15 && handle == later_handle(number, slot + 4_096), "{handle}");
            }
        }
        let other = did(7).replace("did:plc:", "did:plc:a");
        for none in ["did:plc:missing", "did:web:example.org", "", &other, "did:plc:éééééééééééé"] {
            assert_eq!(number_of_did(none), None, "{none}");
        }
        for none in ["otter", "otter_", "otter_zzzzzzzz", "otter_é"] {
            assert_eq!(number_of_later_handle(none), None, "{none}");
        }
    }
}
