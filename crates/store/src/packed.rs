//! Sorted numbers in few bytes: the differences, 7 bits per byte, least significant first, as in Protocol Buffers.

use super::StoreError;

/// Number of an account inside the store.
pub(super) type AccountKey = i64;

/// Packs sorted distinct numbers from 1 on.
pub(super) fn pack(sorted: &[AccountKey]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(sorted.len() * 3);
    let mut before = 0;
    for key in sorted {
        let mut left = u64::try_from(key - before).unwrap_or(0);
        before = *key;
        while left >= 0x80 {
            bytes.push((left & 0x7f) as u8 | 0x80);
            left >>= 7;
        }
        bytes.push(left as u8);
    }
    bytes
}

/// Appends the numbers of a blob to `into`. Returns [`StoreError::Refused`] if the blob ends within a number, or a
/// number is too large. Only a manual edit creates such a blob.
pub(super) fn unpack(bytes: &[u8], into: &mut Vec<AccountKey>) -> Result<(), StoreError> {
    let damaged = || StoreError::Refused("a page of a list is damaged".to_owned());
    let (mut before, mut number, mut shift): (AccountKey, AccountKey, u32) = (0, 0, 0);
    for byte in bytes {
        if shift > 56 {
            return Err(damaged());
        }
        number |= AccountKey::from(byte & 0x7f) << shift;
        shift += 7;
        if byte & 0x80 == 0 {
            before = before.checked_add(number).ok_or_else(damaged)?;
            into.push(before);
            (number, shift) = (0, 0);
        }
    }
    if shift == 0 { Ok(()) } else { Err(damaged()) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_was_packed_is_unpacked(keys in proptest::collection::btree_set(1..i64::from(i32::MAX), 0..300)) {
            let keys: Vec<AccountKey> = keys.into_iter().collect();
            let mut unpacked = Vec::new();
            unpack(&pack(&keys), &mut unpacked).unwrap();
            prop_assert_eq!(unpacked, keys);
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
            let _ = unpack(&bytes, &mut Vec::new());
        }
    }

    #[test]
    fn small_differences_take_a_byte_and_a_cut_is_noticed() {
        assert_eq!(pack(&[1, 128, 300]), [1, 127, 0xac, 1]);
        assert!(unpack(&[1, 0xac], &mut Vec::new()).is_err());
        assert!(unpack(&[0xff; 10], &mut Vec::new()).is_err());
    }
}
