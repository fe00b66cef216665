//! Numbers that look random and depend only on their inputs.

/// The finalizer of splitmix64: every input bit changes about half of the output bits.
pub fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// The 53 upper bits as a number in 0..1.
pub fn to_unit(x: u64) -> f64 {
    (x >> 11) as f64 / (1u64 << 53) as f64
}

/// A number for one choice (`salt`) about one account in one slot of time.
pub fn draw(seed: u64, salt: u64, account: u64, slot: i64) -> u64 {
    mix(mix(mix(seed ^ salt.wrapping_mul(0x9e37_79b9_7f4a_7c15)) ^ account) ^ slot.unsigned_abs())
}
