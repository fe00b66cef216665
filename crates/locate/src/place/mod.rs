//! Countries in the location text of a profile.
//!
//! ```text
//! "Porto Alegre, RS"    ─▶ words ─▶ names and codes, the longest first ─▶ each narrowed by its neighbours ─▶ BR
//! "Lisboa / São Paulo"                                                                       ─▶ BR and PT: open
//! ```

mod gazetteer;
mod judge;
mod words;

use std::sync::LazyLock;

use self::gazetteer::PlaceNames;
pub use self::gazetteer::{InvalidLine, SHIPPED_FILE as SHIPPED};
pub use self::judge::{NamedCountry, Place};
pub use self::words::split_words;

#[derive(Debug)]
pub struct Gazetteer {
    names: PlaceNames,
}

impl Gazetteer {
    #[must_use]
    pub fn shipped() -> &'static Self {
        static SHIPPED: LazyLock<Gazetteer> = LazyLock::new(|| Gazetteer { names: PlaceNames::shipped() });
        &SHIPPED
    }

    /// Reads texts in the format of [`SHIPPED`]. The error has the index of the text.
    pub fn read(texts: &[&str]) -> Result<Self, (usize, InvalidLine)> {
        let mut names = PlaceNames::default();
        for (nth, text) in texts.iter().enumerate() {
            names.add_file(text).map_err(|why| (nth, why))?;
        }
        Ok(Self { names: names.with_codes_of_countries() })
    }

    /// Linear in the length of the text; any text has an answer.
    #[must_use]
    pub fn find_countries(&self, location: &str) -> Place {
        judge::find_countries(&self.names, location)
    }
}
