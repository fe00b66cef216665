//! The texts of posts in planted groups: mostly in the language of their author.

use super::groups::GROUPS;
use super::words::{ENGLISH, SPANISH, words};
use super::{Communities, HABITS, Rng};
use crate::bits::{AUTHOR_MASK, author_bits};
use crate::random::{draw, to_unit};
use crate::text::{Text, UNDETERMINED};
use engine::base::clock::Millis;
use networks::model::post::TweetId;

const REPLIES: f64 = 0.25;
const LINK_ALONE: f64 = 0.04;
const EMOJI_ALONE: f64 = 0.03;
const SHORT: f64 = 0.06;
/// Share of other posts with a mention, a link, a hashtag, an emoji.
const MENTIONS: f64 = 0.25;
const LINKS: f64 = 0.15;
const TAGS: f64 = 0.12;
const EMOJI: f64 = 0.25;

/// Smallest and largest share of an account's sentences that both sides of the Atlantic write.
const COMMON: [f64; 2] = [0.35, 0.85];
/// Share of Brazilian sentences among those of Portuguese accounts, and the reverse.
const OTHER_SIDE: f64 = 0.02;

/// Share of accounts that mostly write in another language, and the share of such posts among theirs.
const STRANGE: f64 = 0.05;
const STRANGE_POSTS: f64 = 0.7;
/// Largest share of such posts among the other accounts' posts.
const OTHER_POSTS: f64 = 0.15;
/// Share of accounts that omit accents, and share of accounts that begin with small letters.
const PLAIN: f64 = 0.12;
const SMALL: f64 = 0.45;

/// Share of texts whose language a network mistakes, and of short texts whose language it does not know.
const MISTAKEN: f64 = 0.03;
const UNKNOWN: f64 = 0.5;

/// Longest time from a post to its reply: six hours, in ms.
const LATEST_REPLY_MS: u64 = 21_600_000;
/// Limit of characters in a text.
const LONG: usize = 200;

const SMILEYS: [&str; 10] = ["😂", "❤️", "🙄", "😍", "🔥", "👏", "😭", "🙏", "🤔", "☀️"];
const ENDS: [&str; 6] = ["", "", ".", "!", "...", "!!"];

struct Habits {
    other: f64,
    common: f64,
    is_plain: bool,
    is_small: bool,
}

impl Communities {
    fn habits(&self, author: u64) -> Habits {
        let mut rng = Rng(draw(self.seed, HABITS, author, 0));
        let other = if rng.happens(STRANGE) { STRANGE_POSTS } else { OTHER_POSTS * to_unit(rng.next()) };
        let common = COMMON[0] + (COMMON[1] - COMMON[0]) * to_unit(rng.next());
        Habits { other, common, is_plain: rng.happens(PLAIN), is_small: rng.happens(SMALL) }
    }

    /// The id of a post by an author at time `made`, ms since the epoch. All networks' ids can hold it.
    pub fn post_by(&self, author: u64, made: Millis, random: u64) -> TweetId {
        TweetId::at(made, ((random & 0xffff & !AUTHOR_MASK) | author_bits(self.seed, author)) as u32)
    }

    /// The text of an author's post of time `made` (ms since the epoch). `random` decides the random choices.
    pub fn text(&self, author: u64, made: Millis, random: u64) -> Text {
        let (mut rng, habits, group) = (Rng(random), self.habits(author), self.group(author));
        let mut text = Text::default();
        if rng.happens(REPLIES) {
            let peer = self.peer(author, rng.next());
            let parent = self.post_by(peer, made - 1_000 - (rng.next() % LATEST_REPLY_MS) as Millis, rng.next());
            text.push_mention(peer);
            text.reply = parent.created_at().map(|_| (parent, peer));
        }
        let kind = to_unit(rng.next());
        let language = match kind {
            _ if kind < LINK_ALONE => {
                text.push_link(rng.next());
                UNDETERMINED
            }
            _ if kind < LINK_ALONE + EMOJI_ALONE => {
                for _ in 0..=rng.next() % 3 {
                    text.push_word(rng.pick(&SMILEYS));
                }
                UNDETERMINED
            }
            _ if kind < LINK_ALONE + EMOJI_ALONE + SHORT => {
                text.push_word(rng.pick(words(group).list("short")));
                if rng.happens(UNKNOWN) { UNDETERMINED } else { stated_language(group, 0.4, &mut rng) }
            }
            _ => self.write_sentences(&mut text, author, group, &habits, &mut rng),
        };
        text.stated_language = Some(language);
        text
    }

    /// One to three sentences with links, tags and mentions. Returns their language as a network states it.
    fn write_sentences(
        &self,
        text: &mut Text,
        author: u64,
        group: usize,
        habits: &Habits,
        rng: &mut Rng,
    ) -> &'static str {
        let spoken = match rng.happens(habits.other) {
            false => group,
            true if group == ENGLISH || rng.happens(0.2) => SPANISH,
            true => ENGLISH,
        };
        // Each of the first two groups is the other side of the other one.
        let other_side = if spoken < SPANISH { 1 - spoken } else { spoken };
        let sentences = [1, 1, 1, 1, 1, 1, 2, 2, 2, 3][(rng.next() % 10) as usize];
        for _ in 0..sentences {
            let voice = words(if rng.happens(OTHER_SIDE) { other_side } else { spoken });
            let list = if rng.happens(habits.common) { "common" } else { "sentences" };
            let said = apply_spelling(&voice.sentence(list, rng), habits);
            text.push_word(&format!("{said}{}", rng.pick(&ENDS)));
            if text.length > LONG / 2 {
                break;
            }
        }
        if rng.happens(EMOJI) {
            text.push_word(rng.pick(&SMILEYS));
        }
        if rng.happens(TAGS) {
            text.push_hashtag(rng.pick(words(spoken).list("tags")));
        }
        if rng.happens(MENTIONS) {
            text.push_mention(self.peer(author, rng.next()));
        }
        if rng.happens(LINKS) {
            text.push_link(rng.next());
        }
        stated_language(spoken, MISTAKEN, rng)
    }
}

/// The language of a group's words as a network states it; wrong with the share `mistaken`.
fn stated_language(group: usize, mistaken: f64, rng: &mut Rng) -> &'static str {
    let group = &GROUPS[group];
    if rng.happens(mistaken) { rng.pick(&group.mistaken) } else { group.language }
}

fn apply_spelling(sentence: &str, habits: &Habits) -> String {
    let mut letters = sentence.chars();
    let first =
        letters.next().map(|first| if habits.is_small { first.to_string() } else { first.to_uppercase().collect() });
    let spelled: String = first.unwrap_or_default() + letters.as_str();
    if habits.is_plain { spelled.chars().map(strip_accent).collect() } else { spelled }
}

fn strip_accent(letter: char) -> char {
    const ACCENTED: [(&str, char); 12] = [
        ("áàâãä", 'a'),
        ("éèêë", 'e'),
        ("íìîï", 'i'),
        ("óòôõö", 'o'),
        ("úùûü", 'u'),
        ("ç", 'c'),
        ("ñ", 'n'),
        ("ÁÀÂÃ", 'A'),
        ("ÉÊ", 'E'),
        ("ÓÔÕ", 'O'),
        ("ÚÜ", 'U'),
        ("Ç", 'C'),
    ];
    if letter.is_ascii() {
        return letter;
    }
    ACCENTED.iter().find(|(accented, _)| accented.contains(letter)).map_or(letter, |(_, plain)| *plain)
}

#[cfg(test)]
mod tests {
    use super::super::groups::GROUPS;
    use super::*;
    use crate::SimulatorOptions;
    use crate::bits::author_of;

    const MADE: Millis = 1_790_000_000_000;

    #[test]
    fn twenty_thousand_authors_write_by_the_shares_of_their_groups() {
        let options = SimulatorOptions { communities: true, ..SimulatorOptions::default() };
        let communities = Communities::new(&options, 20_000).unwrap();
        let mut counted = [[0.0; 5]; GROUPS.len()];
        for author in 0..20_000 {
            let text = communities.text(author, MADE, draw(7, 7, author, 0));
            assert_eq!(text.length, text.text.chars().count());
            assert!((1..=280).contains(&text.length) && !text.text.contains(['{', '}']), "{}", text.text);
            let at = |from, to| text.text.chars().skip(from).take(to - from).collect::<String>();
            let group = communities.group(author);
            for (from, to, named) in &text.mentions {
                assert!(at(*from, *to).starts_with('@') && *named != author && *named < 20_000);
                counted[group][0] += 1.0;
                counted[group][1] += f64::from(u8::from(communities.group(*named) == group));
            }
            if let Some((parent, peer)) = text.reply {
                assert_eq!((author_of(options.seed, parent.get()), text.mentions[0].2), (peer, peer));
                assert!(parent.created_at().unwrap() < MADE);
            }
            counted[group][2] += 1.0;
            counted[group][3] += f64::from(u8::from(text.language() == GROUPS[group].language));
            counted[group][4] += f64::from(u8::from(text.reply.is_some()));
        }
        for (group, [named, inside, posts, spoken, replies]) in GROUPS.iter().zip(counted) {
            assert_eq!(posts, group.parts as f64 * 400.0, "{}", group.label);
            // The other 20 % of the mentions go to any account, so some of these are in the group, too.
            let expected = 0.8 + 0.2 * group.parts as f64 / 50.0;
            assert!((inside / named - expected).abs() < 0.06, "{}: {inside} of {named}", group.label);
            assert!((0.72..0.86).contains(&(spoken / posts)), "{}: {spoken} of {posts}", group.label);
            assert!((0.21..0.29).contains(&(replies / posts)), "{}: {replies} of {posts}", group.label);
        }
    }

    #[test]
    fn accents_go_and_nothing_else() {
        assert_eq!(
            "Não é à toa, ¿señor? Ção 🇵🇹".chars().map(strip_accent).collect::<String>(),
            "Nao e a toa, ¿senor? Cao 🇵🇹"
        );
    }
}
