//! Communities: language and place.

mod language;
