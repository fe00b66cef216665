//! Communities: language and place.

mod commands;
mod language;
mod place;
