//! The words of each group, from the `*.txt` files beside this one.

use std::sync::LazyLock;

use super::Rng;
use super::groups::GROUPS;

/// Lists of words and sentences by their names. `common` are the sentences that two groups share.
pub struct Words(Vec<(&'static str, Vec<&'static str>)>);

pub const ENGLISH: usize = 3;
pub const SPANISH: usize = 2;

pub fn words(group: usize) -> &'static Words {
    static ALL: LazyLock<[Words; GROUPS.len()]> = LazyLock::new(|| {
        let portuguese = include_str!("pt.txt");
        [
            Words::read(include_str!("pt_pt.txt")).add_lists(portuguese),
            Words::read(include_str!("pt_br.txt")).add_lists(portuguese),
            Words::read(include_str!("es.txt")),
            Words::read(include_str!("en.txt")),
        ]
    });
    &ALL[group]
}

impl Words {
    fn read(text: &'static str) -> Self {
        let mut lists: Vec<(&str, Vec<&str>)> = Vec::new();
        for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with("# ")) {
            match line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
                Some(name) => lists.push((name, Vec::new())),
                None => {
                    if let Some((_, list)) = lists.last_mut() {
                        list.push(line);
                    }
                }
            }
        }
        Self(lists)
    }

    /// Adds the lists of another file, whose sentences become the common ones.
    fn add_lists(mut self, text: &'static str) -> Self {
        for (name, list) in Self::read(text).0 {
            let name = if name == "sentences" { "common" } else { name };
            match self.0.iter_mut().find(|(known, _)| *known == name) {
                Some((_, known)) => known.extend(list),
                None => self.0.push((name, list)),
            }
        }
        self
    }

    pub fn list(&self, name: &str) -> &[&'static str] {
        self.0.iter().find(|(known, _)| *known == name).map_or(&[], |(_, list)| list)
    }

    /// A sentence from list `of`, or from the usual one if that is empty. Words replace its `{names}`.
    pub fn sentence(&self, of: &str, rng: &mut Rng) -> String {
        let list = match self.list(of) {
            [] => self.list("sentences"),
            list => list,
        };
        let mut pattern = rng.pick(list);
        let mut sentence = String::with_capacity(pattern.len() + 16);
        while let Some((before, (name, after))) =
            pattern.split_once('{').and_then(|(before, rest)| Some((before, rest.split_once('}')?)))
        {
            sentence.push_str(before);
            sentence.push_str(rng.pick(self.list(name)));
            pattern = after;
        }
        sentence.push_str(pattern);
        sentence
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_sentence_finds_its_words() {
        for (at, group) in GROUPS.iter().enumerate() {
            let words = words(at);
            for of in ["sentences", "common"] {
                for pattern in words.list(of) {
                    for slot in pattern.split('{').skip(1) {
                        let name = slot.split('}').next().unwrap();
                        assert!(!words.list(name).is_empty(), "{}: {{{name}}} in {pattern:?}", group.label);
                    }
                    assert!(pattern.chars().count() < 90 && !pattern.contains(['<', '&', '@', '#']), "{pattern}");
                }
            }
            assert!(words.list("sentences").len() >= 40, "{}", group.label);
            for name in ["short", "tags", "bio", "first", "last", "home", "vague", "joke", "abroad", "flag"] {
                assert!(!words.list(name).is_empty(), "{} has no {name}", group.label);
            }
        }
        assert_eq!((GROUPS[SPANISH].label, GROUPS[ENGLISH].label), ("es", "en"));
    }
}
