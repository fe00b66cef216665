//! Language of a post, and its variant of Portuguese.
//!
//! ```text
//! post ─▶ cut ─▶ detect            language and confidence of one post
//!             └▶ Variants::weigh   log-odds of one post ─▶ Variants::judge   a label for a person's posts, or open
//! ```
//!
//! A single post says little about a variant: decide by thirty. `docs/communities.md` has the figures.

pub mod evaluate;
pub mod labelled;
pub mod markers;
pub mod train;
pub mod variants;

mod cut;
mod detect;
mod words;

pub use self::cut::clean_text;
pub use self::detect::{DetectedLanguage, detect};
pub use self::variants::{InvalidModel, VariantVerdict, Variants, Weight};
