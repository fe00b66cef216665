//! Languages, variants of Portuguese, and countries in the locations of profiles.

pub mod language;
pub mod place;
