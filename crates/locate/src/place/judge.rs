//! Turns names into countries. Neighbouring names narrow each name.

use super::gazetteer::{Candidate, Level, PlaceNames};
use super::words::{Gap, Word, split_words};

/// Countries in a text, the strongest first. One with at least [`ENOUGH`](Self::ENOUGH) is an answer; several contradict each other.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Place {
    pub countries: Vec<NamedCountry>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct NamedCountry {
    /// ISO 3166-1 alpha-2, in capitals: `PT`.
    pub country: &'static str,
    pub said: String,
    /// 0 to 1: 1 a country's name, 0.9 a flag or a region, 0.8 a city, 0.7 a region's code beside a name, 0.5 a code that stands for
    /// several regions, 0.3 a name that several places share. An order, not a probability.
    pub strength: f64,
}

impl Place {
    /// Minimum strength of an answer. Weaker names are hints beside other evidence.
    pub const ENOUGH: f64 = 0.5;

    /// `None` unless exactly one country is strong enough.
    #[must_use]
    pub fn single_country(&self) -> Option<&NamedCountry> {
        let mut strong = self.countries.iter().filter(|named| named.strength >= Self::ENOUGH);
        strong.next().filter(|_| strong.next().is_none())
    }
}

struct Mention {
    /// Range of its words; `to` is exclusive.
    from: usize,
    to: usize,
    candidates: Vec<Candidate>,
    /// A neighbour lies in one of its countries, too.
    is_supported: bool,
    /// Inside a larger place, where no candidate is known: `Holland, Michigan`.
    is_inside: bool,
}

impl Mention {
    fn level(&self) -> Level {
        self.candidates.iter().map(|candidate| candidate.level).max().unwrap_or(Level::Town)
    }
}

/// Short names that are no words. Others must be in capitals, or stand alone: `mit`, `us` and `la` are words.
const UNAMBIGUOUS_SHORT_NAMES: &[&str] = &["usa", "uk", "nyc", "uae", "ldn"];
const SHORT_NAME_BYTES: usize = 3;
const CODES_THAT_ARE_WORDS: &[&str] = &[
    "al", "am", "an", "as", "ca", "co", "de", "do", "es", "hi", "id", "in", "is", "it", "la", "ma", "me", "mi", "mo",
    "my", "no", "oh", "ok", "or", "pa", "pe", "se", "so", "to", "us", "va",
];
/// If all of at least this many words are in capitals, capitals give no evidence.
const MIN_ALL_CAPITALS_WORDS: usize = 3;

pub(super) fn find_countries(names: &PlaceNames, text: &str) -> Place {
    let words = split_words(text);
    let mut mentions = find_mentions(names, &words);
    narrow_by_neighbours(&words, &mut mentions);
    resolve_shared_names(&mut mentions);
    rank_countries(text, &words, &mentions)
}

/// Finds flags, names and codes from left to right, the longest at each place.
fn find_mentions(names: &PlaceNames, words: &[Word]) -> Vec<Mention> {
    let is_all_capitals =
        words.len() >= MIN_ALL_CAPITALS_WORDS && words.iter().all(|word| word.is_capital || word.flag.is_some());
    let mut mentions = Vec::new();
    let mut at = 0;
    let mut key = String::new();
    while at < words.len() {
        let found = match &words[at].flag {
            Some(code) => {
                names.known_country(code).map(|country| (at + 1, vec![Candidate { country, level: Level::Country }]))
            }
            None => find_name(names, words, at, &mut key)
                .or_else(|| find_code(names, words, at, is_all_capitals, mentions.last())),
        };
        match found {
            Some((to, candidates)) => {
                mentions.push(Mention { from: at, to, candidates, is_supported: false, is_inside: false });
                at = to;
            }
            None => at += 1,
        }
    }
    mentions
}

fn find_name(names: &PlaceNames, words: &[Word], at: usize, key: &mut String) -> Option<(usize, Vec<Candidate>)> {
    // A name ends at a gap that is wider than those inside names.
    let runs = |word: &&Word| word.gap == Gap::Close && word.flag.is_none();
    let longest = 1 + words[at + 1..].iter().take(names.max_words_per_name() - 1).take_while(runs).count();
    for length in (1..=longest).rev() {
        let part = &words[at..at + length];
        key.clear();
        for word in part {
            if !key.is_empty() {
                key.push(' ');
            }
            key.push_str(&word.plain);
        }
        let Some(candidates) = names.places_named(key) else { continue };
        let is_short =
            key.len() <= SHORT_NAME_BYTES && key.is_ascii() && !UNAMBIGUOUS_SHORT_NAMES.contains(&key.as_str());
        if !is_short || part.iter().all(|word| word.is_capital) || is_alone(words, at, at + length) {
            return Some((at + length, candidates.to_vec()));
        }
    }
    None
}

fn is_alone(words: &[Word], from: usize, to: usize) -> bool {
    (from == 0 || words[from].gap > Gap::Close) && words.get(to).is_none_or(|next| next.gap > Gap::Close)
}

fn find_code(
    names: &PlaceNames,
    words: &[Word],
    at: usize,
    is_all_capitals: bool,
    before: Option<&Mention>,
) -> Option<(usize, Vec<Candidate>)> {
    let word = &words[at];
    let candidates = names.places_with_code(&word.plain)?;
    let is_in = |candidate: &Candidate| candidates.iter().any(|code| code.country == candidate.country);
    let follows_a_name = before.is_some_and(|before| before.to == at && before.candidates.iter().any(is_in));
    let is_last =
        words.get(at + 1).is_none_or(|next| next.gap > Gap::Close || names.places_named(&next.plain).is_some());
    let is_written_so = match (word.is_capital && !is_all_capitals, at > 0 && word.gap == Gap::Comma) {
        (true, _) => true,
        // `harrisburg, pa`, but not `ok, hi`.
        (false, true) => follows_a_name || !CODES_THAT_ARE_WORDS.contains(&word.plain.as_str()) && !is_all_capitals,
        (false, false) => false,
    };
    // Two capitals alone may be anything, except a region's code.
    let is_region = candidates.iter().any(|candidate| !candidate.country.eq_ignore_ascii_case(&word.plain));
    let fits = is_last && is_written_so && (at > 0 || words.len() == 1 || is_region);
    fits.then(|| {
        // Brazilians write `Natal/RN` and `Natal-RN`, others `Natal, RN`.
        let mut candidates = candidates.to_vec();
        let is_brazilian = |candidate: &Candidate| candidate.country == "BR" && word.plain != "br";
        if word.is_joined && candidates.iter().any(is_brazilian) {
            candidates.sort_by_key(|candidate| !is_brazilian(candidate));
        }
        (at + 1, candidates)
    })
}

/// Narrows neighbours. If they share a country, both are there. Otherwise the larger one holds the smaller one before it.
fn narrow_by_neighbours(words: &[Word], mentions: &mut [Mention]) {
    for at in (1..mentions.len()).rev() {
        let (before, rest) = mentions.split_at_mut(at);
        let (Some(before), Some(after)) = (before.last_mut(), rest.first_mut()) else { continue };
        // `Porto Feliz - SP`: a longer, unknown name starts like a known one.
        let runs_on = before.to < after.from && words[before.to..after.from].iter().all(|word| word.gap == Gap::Close);
        if before.to != after.from && !runs_on {
            continue;
        }
        if keep_shared_countries(before, after, words[after.from].is_listed) {
            before.is_supported = true;
            after.is_supported = true;
        } else if before.level() < after.level()
            && after.level() >= Level::Code
            && (runs_on && before.level() <= Level::City || words[after.from].gap < Gap::Wide)
        {
            before.is_inside = true;
        }
    }
}

/// Keeps the countries of both names, if any. Cities come before towns: `Berlin, DE` is not in a Berlin of Delaware. A city yields to
/// a namesake only inside a larger place: `Paris, Texas`, but not `Paris & London`. In a list no place holds another.
fn keep_shared_countries(before: &mut Mention, after: &mut Mention, is_listed: bool) -> bool {
    let is_in = |candidate: &Candidate, of: &[Candidate]| of.iter().any(|other| other.country == candidate.country);
    let is_namesake = |of: &Mention, level: Level| level == Level::Town && of.level() > Level::Part;
    let is_shared = |candidate: &Candidate| {
        let Some(other) = after.candidates.iter().find(|other| other.country == candidate.country) else {
            return false;
        };
        let holds = !is_listed && [candidate.level, other.level].into_iter().any(Level::holds_places);
        holds || !is_namesake(before, candidate.level) && !is_namesake(after, other.level)
    };
    let mut shared: Vec<Candidate> = before.candidates.iter().copied().filter(is_shared).collect();
    if shared.iter().any(|candidate| candidate.level > Level::Town) {
        shared.retain(|candidate| candidate.level > Level::Town);
    }
    if shared.is_empty() {
        return false;
    }
    after.candidates.retain(|candidate| is_in(candidate, &shared));
    before.candidates = shared;
    true
}

/// Resolves a shared name to the country of another name in the text.
fn resolve_shared_names(mentions: &mut [Mention]) {
    let sure: Vec<&'static str> = mentions
        .iter()
        .filter(|mention| !mention.is_inside && mention.level() > Level::Code && mention.candidates.len() == 1)
        .flat_map(|mention| mention.candidates.iter().map(|candidate| candidate.country))
        .collect();
    for mention in mentions.iter_mut().filter(|mention| !mention.is_supported) {
        let is_open = matches!(mention.level(), Level::Town | Level::Part | Level::Code);
        if is_open && mention.candidates.iter().any(|candidate| sure.contains(&candidate.country)) {
            mention.candidates.retain(|candidate| sure.contains(&candidate.country));
            mention.is_supported = true;
        }
    }
}

fn rank_countries(text: &str, words: &[Word], mentions: &[Mention]) -> Place {
    let mut countries: Vec<NamedCountry> = Vec::new();
    for mention in mentions.iter().filter(|mention| !mention.is_inside) {
        let said = &text[words[mention.from].from..words[mention.to - 1].to];
        for (country, strength) in countries_of_mention(mention, words) {
            match countries.iter_mut().find(|named| named.country == country) {
                Some(named) if named.strength >= strength => {}
                Some(named) => *named = NamedCountry { country, said: said.to_owned(), strength },
                None => countries.push(NamedCountry { country, said: said.to_owned(), strength }),
            }
        }
    }
    countries.sort_by(|one, other| other.strength.total_cmp(&one.strength).then(one.country.cmp(other.country)));
    if countries.first().is_some_and(|named| named.strength >= Place::ENOUGH) {
        countries.retain(|named| named.strength >= Place::ENOUGH);
    }
    Place { countries }
}

/// Countries that a mention may be in, each with the strength of that evidence, 0 to 1.
fn countries_of_mention(mention: &Mention, words: &[Word]) -> Vec<(&'static str, f64)> {
    let level = mention.level();
    let all = |strength: f64| mention.candidates.iter().map(move |candidate| (candidate.country, strength)).collect();
    match level {
        Level::Town | Level::Part if mention.is_supported => all(0.8),
        Level::Town | Level::Part => all(0.3),
        // The first code: regions come before countries, those of the United States before others.
        Level::Code if mention.is_supported && mention.candidates.len() == 1 => all(0.7),
        Level::Code => {
            let strength = if mention.candidates.len() == 1 && mention.from > 0 { 0.7 } else { 0.5 };
            let first = |country: &str| mention.candidates.iter().position(|candidate| candidate.country == country);
            let at = if words[mention.from].is_joined { 0 } else { first("US").unwrap_or(0) };
            vec![(mention.candidates[at].country, strength)]
        }
        _ => {
            let strength = match level {
                Level::Country if words[mention.from].flag.is_some() => 0.9,
                Level::Country => 1.0,
                Level::Region => 0.9,
                _ => 0.8,
            };
            let highest = mention.candidates.iter().filter(|candidate| candidate.level == level);
            highest.map(|candidate| (candidate.country, strength)).collect()
        }
    }
}
