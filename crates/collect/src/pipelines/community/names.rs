//! Names of people and the countries where they are common, from a file of the user: evidence of an account's country.

use std::collections::HashMap;

use locate::place::split_words;

#[derive(Debug, Default)]
pub struct PersonNames {
    countries: HashMap<String, Vec<String>>,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {error}")]
pub struct InvalidNames {
    line: usize,
    error: InvalidLine,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
enum InvalidLine {
    #[error("two columns are needed, with a tab between them: country, names")]
    OneColumn,
    #[error("{0:?} is no country; write the two capitals of ISO 3166: PT")]
    Country(String),
    #[error("{0:?} is not one word")]
    Name(String),
}

#[derive(Debug, Clone, PartialEq)]
pub struct NameEvidence {
    /// -1 if none of its known names is common there. If all are: 1 / the number of countries of the rarest name.
    pub says: f64,
    pub names: Vec<String>,
}

impl PersonNames {
    /// Reads lines of a country (`PT`), a tab, and names with `|` between them.
    pub fn parse(text: &str) -> Result<Self, InvalidNames> {
        let mut names = Self::default();
        for (line, text) in (1..).zip(text.trim_start_matches('\u{feff}').lines()) {
            if !text.trim().is_empty() && !text.starts_with('#') {
                names.add_line(text).map_err(|error| InvalidNames { line, error })?;
            }
        }
        Ok(names)
    }

    fn add_line(&mut self, line: &str) -> Result<(), InvalidLine> {
        let (country, names) = line.split_once('\t').ok_or(InvalidLine::OneColumn)?;
        if country.len() != 2 || !country.bytes().all(|byte| byte.is_ascii_uppercase()) {
            return Err(InvalidLine::Country(country.to_owned()));
        }
        for name in names.split('|') {
            let [word] = &split_words(name)[..] else { return Err(InvalidLine::Name(name.to_owned())) };
            let countries = self.countries.entry(word.plain.clone()).or_default();
            if !countries.iter().any(|known| known == country) {
                countries.push(country.to_owned());
            }
        }
        Ok(())
    }

    /// Judges a display name for that country. `None` if it has no known name, or names of that country and of others.
    #[must_use]
    pub fn judge(&self, display_name: &str, country: &str) -> Option<NameEvidence> {
        let words = split_words(display_name);
        let known: Vec<(&str, &Vec<String>)> = words
            .iter()
            .filter_map(|word| Some((&display_name[word.from..word.to], self.countries.get(&word.plain)?)))
            .collect();
        let is_there = |(_, countries): &&(&str, &Vec<String>)| countries.iter().any(|known| known == country);
        let says = match known.iter().filter(is_there).count() {
            _ if known.is_empty() => return None,
            0 => -1.0,
            there if there < known.len() => return None,
            _ => 1.0 / known.iter().map(|(_, countries)| countries.len()).min()? as f64,
        };
        Some(NameEvidence { says, names: known.into_iter().map(|(name, _)| name.to_owned()).collect() })
    }
}
