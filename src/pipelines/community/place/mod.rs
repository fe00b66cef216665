//! Place: the countries that the location text of a profile names.
//!
//! ```text
//! "Porto Alegre, RS"    ─▶ words ─▶ names and codes, the longest first ─▶ each narrowed by its neighbours ─▶ BR
//! "Lisboa / São Paulo"                                                                       ─▶ BR and PT: open
//! ```

mod gazetteer;
mod judge;
mod words;

use std::sync::LazyLock;

pub use self::gazetteer::FILE as SHIPPED;
pub use self::judge::{NamedCountry, Place};

use self::gazetteer::Names;
pub(super) use self::words::words;

/// Names of places and their countries, and the judgement of texts by them.
#[derive(Debug)]
pub struct Gazetteer {
    names: Names,
}

impl Gazetteer {
    /// The compiled-in one.
    #[must_use]
    pub fn shipped() -> &'static Self {
        static SHIPPED: LazyLock<Gazetteer> = LazyLock::new(|| Gazetteer { names: Names::shipped() });
        &SHIPPED
    }

    /// One of these texts, each in the form of the compiled-in [`SHIPPED`], together.
    ///
    /// # Errors
    /// A line of the text with that number (from 0) is no entry; says which, and why.
    pub fn read(texts: &[&str]) -> Result<Self, (usize, String)> {
        let mut names = Names::default();
        for (nth, text) in texts.iter().enumerate() {
            names.add_file(text).map_err(|why| (nth, why))?;
        }
        Ok(Self { names: names.with_codes_of_countries() })
    }

    /// The countries that a location text names. Linear in its length; any text has an answer.
    #[must_use]
    pub fn judge(&self, location: &str) -> Place {
        judge::judge(&self.names, location)
    }
}
