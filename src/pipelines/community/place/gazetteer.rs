//! Names of places, compiled in: countries in the main languages, regions and their codes, cities.

use std::collections::{HashMap, HashSet};

use super::words::words;

/// How much of the world a name stands for. A place lies in those above it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// A name that others share, or a common word: counts beside its country or region.
    Town,
    /// A city that needs no explanation.
    City,
    /// A region by its code: `RS`, `CA`, or a country by its ISO code.
    Code,
    /// A part of one country.
    Region,
    /// A country, by name or flag.
    Country,
}

/// A country that a name may stand for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Candidate {
    pub country: &'static str,
    pub level: Level,
}

/// The names.
#[derive(Debug)]
pub struct Names {
    by_name: HashMap<String, Vec<Candidate>>,
    codes: HashMap<String, Vec<Candidate>>,
    countries: HashSet<&'static str>,
    /// The words of the longest name.
    longest: usize,
}

const FILE: &str = include_str!("gazetteer.tsv");

impl Names {
    /// Reads the file. Lines that are no entries are left out; a test finds them.
    pub fn shipped() -> Self {
        let mut names = Self { by_name: HashMap::new(), codes: HashMap::new(), countries: HashSet::new(), longest: 0 };
        for (kind, country, entries) in entries(FILE) {
            if country == "-" {
                continue;
            }
            let Some(level) = level(kind) else { continue };
            names.countries.insert(country);
            for entry in entries {
                names.add(entry, Candidate { country, level });
            }
        }
        for country in names.countries.clone() {
            names.add(country, Candidate { country, level: Level::Code });
        }
        names
    }

    fn add(&mut self, entry: &str, candidate: Candidate) {
        let plain: Vec<String> = words(entry).into_iter().map(|word| word.plain).collect();
        self.longest = self.longest.max(plain.len());
        let into = if candidate.level == Level::Code { &mut self.codes } else { &mut self.by_name };
        let candidates = into.entry(plain.join(" ")).or_default();
        match candidates.iter_mut().find(|known| known.country == candidate.country) {
            Some(known) => known.level = known.level.max(candidate.level),
            None => candidates.push(candidate),
        }
    }

    /// What a name may stand for.
    pub fn of(&self, plain: &str) -> Option<&[Candidate]> {
        self.by_name.get(plain).map(Vec::as_slice)
    }

    /// What a code may stand for: regions, and the country with this ISO code.
    pub fn code(&self, plain: &str) -> Option<&[Candidate]> {
        self.codes.get(plain).map(Vec::as_slice)
    }

    /// The country with this code, in capitals.
    pub fn country(&self, code: &str) -> Option<&'static str> {
        self.countries.get(code).copied()
    }

    /// The words of the longest name.
    pub fn longest(&self) -> usize {
        self.longest
    }
}

fn level(kind: &str) -> Option<Level> {
    Some(match kind {
        "country" => Level::Country,
        "region" => Level::Region,
        "code" => Level::Code,
        "city" => Level::City,
        "town" => Level::Town,
        _ => return None,
    })
}

/// Kind, country and names of each line.
pub fn entries(
    file: &'static str,
) -> impl Iterator<Item = (&'static str, &'static str, impl Iterator<Item = &'static str>)> {
    file.lines().filter(|line| !line.starts_with('#')).filter_map(|line| {
        let mut columns = line.splitn(3, '\t');
        Some((columns.next()?, columns.next()?, columns.next()?.split('|')))
    })
}
