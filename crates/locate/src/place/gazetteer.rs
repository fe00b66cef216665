//! Names of places: countries in the main languages, regions and their codes, cities. They are compiled in, and in files of users.

use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

use super::words::split_words;

/// Size of the named place, ascending. A place lies in those of a larger size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// A town whose name is also that of other places, or a common word. Weak evidence unless its country or region stands beside it.
    Town,
    /// A part of a country with a shared name: `Georgia`. Counts like a town, and holds places like a region.
    Part,
    /// A city that needs no explanation.
    City,
    /// A region by its code: `RS`, `CA`, or a country by its ISO code.
    Code,
    Region,
    Country,
}

impl Level {
    /// Returns true if places lie in it, so that its name may follow theirs: `Paris, Texas`.
    pub fn holds_places(self) -> bool {
        self == Self::Part || self >= Self::Code
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Candidate {
    pub country: &'static str,
    pub level: Level,
}

#[derive(Debug, Default)]
pub struct PlaceNames {
    by_name: HashMap<String, Vec<Candidate>>,
    codes: HashMap<String, Vec<Candidate>>,
    countries: HashSet<&'static str>,
    max_words: usize,
}

/// An invalid line of a file of places.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {number}: {fault}")]
pub struct InvalidLine {
    number: usize,
    fault: LineFault,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
enum LineFault {
    #[error("three columns are needed, with tabs between them: kind, country, names")]
    Columns,
    #[error("{0:?} is none of country, region, part, code, city, town")]
    Kind(String),
    #[error("{0:?} is no country; write the two capitals of ISO 3166: PT")]
    Country(String),
    #[error("{0:?} is no name")]
    Name(String),
}

const BOM: char = '\u{feff}';
pub const SHIPPED_FILE: &str = include_str!("gazetteer.tsv");

impl PlaceNames {
    pub fn shipped() -> Self {
        let mut names = Self::default();
        // A test reads the file without an error.
        drop(names.add_file(SHIPPED_FILE));
        names.with_codes_of_countries()
    }

    /// Adds a file in the format of the compiled-in one.
    pub fn add_file(&mut self, file: &str) -> Result<(), InvalidLine> {
        for (number, line) in (1..).zip(file.trim_start_matches(BOM).lines()) {
            if !line.trim().is_empty() && !line.starts_with('#') {
                self.add_line(line).map_err(|fault| InvalidLine { number, fault })?;
            }
        }
        Ok(())
    }

    /// Adds the ISO code of each country, after those of regions.
    pub fn with_codes_of_countries(mut self) -> Self {
        for country in self.countries.clone() {
            self.add(country, Candidate { country, level: Level::Code });
        }
        self
    }

    fn add_line(&mut self, line: &str) -> Result<(), LineFault> {
        let [kind, code, entries] = line.splitn(3, '\t').collect::<Vec<_>>()[..] else {
            return Err(LineFault::Columns);
        };
        let level = parse_level(kind).ok_or_else(|| LineFault::Kind(kind.to_owned()))?;
        let country = static_code(code).ok_or_else(|| LineFault::Country(code.to_owned()))?;
        self.countries.insert(country);
        for entry in entries.split('|') {
            if !split_words(entry).iter().any(|word| word.flag.is_none()) {
                return Err(LineFault::Name(entry.to_owned()));
            }
            self.add(entry, Candidate { country, level });
        }
        Ok(())
    }

    fn add(&mut self, entry: &str, candidate: Candidate) {
        let plain: Vec<String> = split_words(entry).into_iter().map(|word| word.plain).collect();
        self.max_words = self.max_words.max(plain.len());
        let into = if candidate.level == Level::Code { &mut self.codes } else { &mut self.by_name };
        let candidates = into.entry(plain.join(" ")).or_default();
        match candidates.iter_mut().find(|known| known.country == candidate.country) {
            Some(known) => known.level = known.level.max(candidate.level),
            None => candidates.push(candidate),
        }
    }

    /// Places with that name; `None` if it is unknown. `plain`: words in lower case, as in the index.
    pub fn places_named(&self, plain: &str) -> Option<&[Candidate]> {
        self.by_name.get(plain).map(Vec::as_slice)
    }

    /// Regions with this code, and the country with this ISO code.
    pub fn places_with_code(&self, plain: &str) -> Option<&[Candidate]> {
        self.codes.get(plain).map(Vec::as_slice)
    }

    /// The same code as a static text; `None` for an unknown country.
    pub fn known_country(&self, code: &str) -> Option<&'static str> {
        self.countries.get(code).copied()
    }

    pub fn max_words_per_name(&self) -> usize {
        self.max_words
    }
}

fn parse_level(kind: &str) -> Option<Level> {
    Some(match kind {
        "country" => Level::Country,
        "region" => Level::Region,
        "part" => Level::Part,
        "code" => Level::Code,
        "city" => Level::City,
        "town" => Level::Town,
        _ => return None,
    })
}

static CODES: LazyLock<String> = LazyLock::new(|| {
    let letters = || 'A'..='Z';
    letters().flat_map(|first| letters().flat_map(move |second| [first, second])).collect()
});

fn static_code(code: &str) -> Option<&'static str> {
    let nth = |letter: u8| letter.is_ascii_uppercase().then(|| usize::from(letter - b'A'));
    let &[first, second] = code.as_bytes() else { return None };
    let at = 2 * (26 * nth(first)? + nth(second)?);
    CODES.get(at..at + 2)
}
