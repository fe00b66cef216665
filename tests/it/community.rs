//! Communities: language and place.

mod language;
mod place;
