//! Profiles of the members of planted groups.

use super::groups::{GROUPS, Places};
use super::words::{ENGLISH, words};
use super::{Communities, PROFILE, Rng};
use crate::random::draw;

/// Shares of descriptions: none, an English one, a sentence like those of posts, one with a flag.
const NO_DESCRIPTION: f64 = 0.12;
const IN_ENGLISH: f64 = 0.08;
const A_SENTENCE: f64 = 0.25;
const WITH_FLAG: f64 = 0.12;

impl Communities {
    fn rng(&self, number: u64, field: u64, version: i64) -> Rng {
        Rng(draw(self.seed, PROFILE + field, number, version))
    }

    /// The stated location of an account. `version` rises with each change of its profile.
    pub fn location(&self, number: u64, version: i64) -> String {
        let (group, mut rng) = (self.group(number), self.rng(number, 0, version));
        let words = words(group);
        let Places { home, vague, empty, joke, .. } = GROUPS[group].places;
        let kind = rng.next() % 100;
        let (list, is_home) = match kind {
            _ if kind < empty => return String::new(),
            _ if kind < empty + home => ("home", true),
            _ if kind < empty + home + vague => ("vague", false),
            _ if kind < empty + home + vague + joke => ("joke", false),
            _ => ("abroad", false),
        };
        let place = rng.pick(words.list(list));
        match rng.next() % 100 {
            0..12 => place.to_lowercase(),
            12..16 => place.to_uppercase(),
            16..24 if is_home => format!("{place} {}", rng.pick(words.list("flag"))),
            24..29 if is_home => format!("{place} | {}", rng.pick(words.list("home"))),
            _ => place.to_owned(),
        }
    }

    pub fn description(&self, number: u64, version: i64) -> String {
        let (group, mut rng) = (self.group(number), self.rng(number, 1, version));
        if rng.happens(NO_DESCRIPTION) {
            return String::new();
        }
        let own = words(if rng.happens(IN_ENGLISH) { ENGLISH } else { group });
        let said = match rng.happens(A_SENTENCE) {
            true => own.sentence("common", &mut rng),
            false => rng.pick(own.list("bio")).to_owned(),
        };
        if rng.happens(WITH_FLAG) { format!("{said} {}", rng.pick(words(group).list("flag"))) } else { said }
    }

    pub fn name(&self, number: u64, version: i64) -> String {
        let (group, mut rng) = (self.group(number), self.rng(number, 2, version));
        let words = words(group);
        let first = rng.pick(words.list("first"));
        match rng.next() % 20 {
            0..3 => first.to_owned(),
            3..5 => format!("{first} ✨"),
            _ => format!("{first} {}", rng.pick(words.list("last"))),
        }
    }
}
