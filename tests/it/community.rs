//! Communities: language and place, the rule, and the whole.

mod commands;
mod dropping;
mod growth;
mod language;
mod place;
mod rule;
mod taken_over;
mod whole;
