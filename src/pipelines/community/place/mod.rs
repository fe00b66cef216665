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

#[derive(Debug)]
pub struct Gazetteer {
    names: Names,
}

impl Gazetteer {
    #[must_use]
    pub fn shipped() -> &'static Self {
        static SHIPPED: LazyLock<Gazetteer> = LazyLock::new(|| Gazetteer { names: Names::shipped() });
        &SHIPPED
    }

    /// Builds a gazetteer from texts in the format of [`SHIPPED`]. The error has the index of the text (from 0), the line and the
    /// problem.
    pub fn read(texts: &[&str]) -> Result<Self, (usize, String)> {
        let mut names = Names::default();
        for (nth, text) in texts.iter().enumerate() {
            names.add_file(text).map_err(|why| (nth, why))?;
        }
        Ok(Self { names: names.with_codes_of_countries() })
    }

    /// Finds the countries in a location text. Linear in its length; any text has an answer.
    #[must_use]
    pub fn judge(&self, location: &str) -> Place {
        judge::judge(&self.names, location)
    }
}
