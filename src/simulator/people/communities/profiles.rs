//! Profiles of the members of planted groups.

use super::groups::{GROUPS, Places};
use super::words::{ENGLISH, words};
use super::{Communities, Die, PROFILE};
use crate::simulator::dice::draw;

/// Shares of descriptions: none, an English one, a sentence like those of posts, one with a flag.
const NO_DESCRIPTION: f64 = 0.12;
const IN_ENGLISH: f64 = 0.08;
const A_SENTENCE: f64 = 0.25;
const WITH_FLAG: f64 = 0.12;

impl Communities {
    fn die(&self, number: u64, field: u64, version: i64) -> Die {
        Die(draw(self.seed, PROFILE + field, number, version))
    }

    /// The stated location of an account. `version` rises with each change of its profile.
    pub fn location(&self, number: u64, version: i64) -> String {
        let (group, mut die) = (self.group(number), self.die(number, 0, version));
        let words = words(group);
        let Places { home, vague, empty, joke, .. } = GROUPS[group].places;
        let kind = die.next() % 100;
        let (list, is_home) = match kind {
            _ if kind < empty => return String::new(),
            _ if kind < empty + home => ("home", true),
            _ if kind < empty + home + vague => ("vague", false),
            _ if kind < empty + home + vague + joke => ("joke", false),
            _ => ("abroad", false),
        };
        let place = die.pick(words.list(list));
        match die.next() % 100 {
            0..12 => place.to_lowercase(),
            12..16 => place.to_uppercase(),
            16..24 if is_home => format!("{place} {}", die.pick(words.list("flag"))),
            24..29 if is_home => format!("{place} | {}", die.pick(words.list("home"))),
            _ => place.to_owned(),
        }
    }

    pub fn description(&self, number: u64, version: i64) -> String {
        let (group, mut die) = (self.group(number), self.die(number, 1, version));
        if die.falls(NO_DESCRIPTION) {
            return String::new();
        }
        let own = words(if die.falls(IN_ENGLISH) { ENGLISH } else { group });
        let said = match die.falls(A_SENTENCE) {
            true => own.sentence("common", &mut die),
            false => die.pick(own.list("bio")).to_owned(),
        };
        if die.falls(WITH_FLAG) { format!("{said} {}", die.pick(words(group).list("flag"))) } else { said }
    }

    pub fn name(&self, number: u64, version: i64) -> String {
        let (group, mut die) = (self.group(number), self.die(number, 2, version));
        let words = words(group);
        let first = die.pick(words.list("first"));
        match die.next() % 20 {
            0..3 => first.to_owned(),
            3..5 => format!("{first} ✨"),
            _ => format!("{first} {}", die.pick(words.list("last"))),
        }
    }
}
