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

pub use self::judge::{NamedCountry, Place};

use self::gazetteer::Names;

/// Names of places and their countries, and the judgement of texts by them.
#[derive(Debug)]
pub struct Gazetteer {
    names: Names,
}

/// A zone's name covers more than a city's: its evidence is so much weaker.
const OF_ZONE: f64 = 0.6;
/// A site in a country's domain says as little as this.
const OF_LINK: f64 = 0.4;

/// Domains of countries that are sold to everybody.
const EVERYBODYS: &[&str] = &[
    "ag", "ai", "am", "cc", "cd", "co", "fm", "gg", "im", "io", "is", "la", "ly", "me", "ms", "nu", "sc", "sh", "st",
    "tk", "to", "tv", "vc", "ws",
];

impl Gazetteer {
    /// The compiled-in one.
    #[must_use]
    pub fn shipped() -> &'static Self {
        static SHIPPED: LazyLock<Gazetteer> = LazyLock::new(|| Gazetteer { names: Names::shipped() });
        &SHIPPED
    }

    /// The countries that a location text names. Linear in its length; any text has an answer.
    #[must_use]
    pub fn judge(&self, location: &str) -> Place {
        judge::judge(&self.names, location)
    }

    /// The countries of a time zone, by the city that it is named after: `Europe/Lisbon`, or `Lisbon` as v1.1 wrote it.
    #[must_use]
    pub fn judge_zone(&self, zone: &str) -> Place {
        let city = zone.rsplit('/').next().unwrap_or_default().replace('_', " ");
        self.judge(&city).weaker(OF_ZONE)
    }

    /// The country of a link's domain (`https://example.pt/`), if it is a country's and not sold to everybody.
    #[must_use]
    pub fn judge_link(&self, link: &str) -> Place {
        let host = link.split_once("://").map_or(link, |(_, rest)| rest);
        let host = host.split(['/', '?', '#', ':']).next().unwrap_or_default();
        let Some((name, end)) = host.rsplit_once('.').filter(|(name, _)| !name.is_empty()) else {
            return Place::default();
        };
        let end = end.to_ascii_lowercase();
        let code = if end == "uk" { "GB".to_owned() } else { end.to_ascii_uppercase() };
        let country = self.names.country(&code).filter(|_| !EVERYBODYS.contains(&end.as_str()) && !name.contains(' '));
        let named = country.map(|country| NamedCountry { country, said: host.to_owned(), strength: OF_LINK });
        Place { countries: named.into_iter().collect() }
    }
}
