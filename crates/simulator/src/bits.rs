//! The bits of simulated ids: the author of a post, the version, and a reversible scrambling of numbers.

use super::random::mix;
use super::text::AUTHORS;

/// The bits of an id that name its author, so that the ids of a user's timeline can be computed.
pub const AUTHOR_MASK: u64 = AUTHORS - 1;

/// An odd factor, and its inverse modulo the number of authors: neighbouring ids have authors far apart.
const SPREAD: u64 = 0x5bd5;
const GATHER: u64 = inverse(SPREAD);

/// Low bits of an id that a version's number leaves free: of the 22 bits below the time, the upper three number the edit.
pub const SEQUENCE_BITS: u32 = 19;
pub const SEQUENCE_MASK: u64 = (1 << SEQUENCE_BITS) - 1;

/// The inverse of an odd number, modulo 2^64 and each smaller power of two.
pub const fn inverse(odd: u64) -> u64 {
    // Newton's steps: each doubles the number of correct bits, from three.
    let mut inverse = odd;
    let mut step = 0;
    while step < 5 {
        inverse = inverse.wrapping_mul(2u64.wrapping_sub(odd.wrapping_mul(inverse)));
        step += 1;
    }
    inverse
}

pub fn author_of(seed: u64, id: u64) -> u64 {
    (id ^ mix(seed)).wrapping_mul(SPREAD) & AUTHOR_MASK
}

pub fn author_bits(seed: u64, author: u64) -> u64 {
    (author.wrapping_mul(GATHER) ^ mix(seed)) & AUTHOR_MASK
}
