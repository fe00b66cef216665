//! Communities: who belongs, by language and place.
//!
//! [`language`] says what a post is written in, also which variant of Portuguese; [`place`] says which countries the text
//! of a profile's location names. Both are pure: the same text has the same answer, without calls and files.

pub mod language;
pub mod place;
