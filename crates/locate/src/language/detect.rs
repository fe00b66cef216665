//! Detection of the language of one post.
//!
//! [`whichlang`] distinguishes sixteen languages by n-grams. It was the best on single posts of those that add neither tens of megabytes
//! to the binary nor a millisecond per post (`docs/communities.md`). If only one language uses a script, the script decides. The
//! confidence is ours: the measured share of correct posts, by length and by the agreement of both halves.

use whichlang::{Lang, detect_language};

use super::cut::clean_text;

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DetectedLanguage {
    /// ISO 639-1, lower case: `pt`.
    pub language: &'static str,
    /// Share of measured posts like this one whose language was right, 0 to 1.
    pub confidence: f64,
}

/// `ok`, `lol` or a name has too few. A Chinese, Japanese or Korean character counts as three.
const MIN_LETTERS: usize = 8;

/// Scripts that only one language uses, or nearly: from, to, language.
const SCRIPTS: &[(char, char, &str)] = &[
    ('\u{370}', '\u{3ff}', "el"),
    ('\u{1f00}', '\u{1fff}', "el"),
    ('\u{530}', '\u{58f}', "hy"),
    ('\u{590}', '\u{5ff}', "he"),
    ('\u{980}', '\u{9ff}', "bn"),
    ('\u{a00}', '\u{a7f}', "pa"),
    ('\u{a80}', '\u{aff}', "gu"),
    ('\u{b80}', '\u{bff}', "ta"),
    ('\u{c00}', '\u{c7f}', "te"),
    ('\u{c80}', '\u{cff}', "kn"),
    ('\u{d00}', '\u{d7f}', "ml"),
    ('\u{d80}', '\u{dff}', "si"),
    ('\u{e00}', '\u{e7f}', "th"),
    ('\u{e80}', '\u{eff}', "lo"),
    ('\u{1000}', '\u{109f}', "my"),
    ('\u{10a0}', '\u{10ff}', "ka"),
    ('\u{1200}', '\u{137f}', "am"),
    ('\u{1780}', '\u{17ff}', "km"),
];
/// An estimate: no post of these scripts was measured.
const SCRIPT_CONFIDENCE: f64 = 0.95;

/// Letters that the detected language of a script does not have: the post is in another language, which is not detected.
const FOREIGN_LETTERS: &[(&str, &str)] = &[("ru", "іїєґўјљњћђџѓќѕӘәҒғҚқҢңӨөҮүҰұҺһ"), ("ar", "پچژگڤکیےٹڈڑںھہۃۋۆېەڭ")];

/// Share of correct posts, by letters (upper bound) and by the halves that agree with the whole (0, 1, 2). Measured on 1,214 recorded
/// posts by the network's own `lang`, and on 2,337 news sentences of UD Portuguese Bosque, cut at 60 characters.
const MEASURED_CONFIDENCE: &[(usize, [f64; 3])] =
    &[(19, [0.47, 0.69, 0.92]), (39, [0.5, 0.88, 0.97]), (79, [0.6, 0.91, 0.99]), (usize::MAX, [0.6, 0.8, 0.99])];

/// Detects the language of a post. `None` if the text is too short, or if its letters belong to no known language. Known are `ar`, `de`,
/// `en`, `es`, `fr`, `hi`, `it`, `ja`, `ko`, `nl`, `pt`, `ru`, `sv`, `tr`, `vi`, `zh`, and those with a script of their own, such as
/// `el`, `he` and `th`. Another language of the Latin script becomes the nearest of these (Catalan Spanish, Danish Swedish).
#[must_use]
pub fn detect(text: &str) -> Option<DetectedLanguage> {
    let text = remove_laughter(&clean_text(text));
    let letters = count_letters(&text);
    if letters < MIN_LETTERS {
        return None;
    }
    if let Some(language) = language_by_script(&text) {
        return Some(DetectedLanguage { language, confidence: SCRIPT_CONFIDENCE });
    }
    let whole = detect_language(&text);
    let language = iso_code(whole);
    if FOREIGN_LETTERS.iter().any(|(of, foreign)| *of == language && text.chars().any(|c| foreign.contains(c))) {
        return None;
    }
    let (one, other) = halves(&text);
    let agree = [one, other].iter().filter(|half| detect_language(half) == whole).count();
    let confidence =
        MEASURED_CONFIDENCE.iter().find(|(most, _)| letters <= *most).map_or(0.0, |(_, shares)| shares[agree]);
    Some(DetectedLanguage { language, confidence })
}

/// Removes `kkkkk`, `hahaha`, `rsrs` and `aaaaa`: they belong to no language, and mislead the detector.
fn remove_laughter(text: &str) -> String {
    let is_laughter = |word: &&str| {
        let mut letters = word.chars().filter(|c| c.is_alphabetic()).flat_map(char::to_lowercase);
        let Some(first) = letters.next() else { return false };
        let mut other = None;
        let is_of_two = letters.clone().all(|letter| letter == first || *other.get_or_insert(letter) == letter);
        is_of_two && letters.count() >= 3
    };
    text.split(' ').filter(|word| !is_laughter(word)).collect::<Vec<_>>().join(" ")
}

fn count_letters(text: &str) -> usize {
    let is_wide = |c: char| matches!(c, '\u{1100}'..='\u{11ff}' | '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{9fff}' | '\u{ac00}'..='\u{d7af}');
    text.chars().filter(|c| c.is_alphabetic()).map(|c| if is_wide(c) { 3 } else { 1 }).sum()
}

/// Language of the script that more than half of the letters use.
fn language_by_script(text: &str) -> Option<&'static str> {
    let of =
        |c: char| SCRIPTS.iter().find(|(from, to, _)| (*from..=*to).contains(&c)).map(|(_, _, language)| *language);
    let first = text.chars().find_map(of)?;
    let letters = text.chars().filter(|c| c.is_alphabetic()).count();
    (text.chars().filter(|c| c.is_alphabetic() && of(*c) == Some(first)).count() * 2 > letters).then_some(first)
}

fn halves(text: &str) -> (&str, &str) {
    let middle = (text.len() / 2..=text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(text.len());
    let at = text[middle..].find(' ').map_or(middle, |space| middle + space);
    text.split_at(at)
}

fn iso_code(language: Lang) -> &'static str {
    match language {
        Lang::Ara => "ar",
        Lang::Cmn => "zh",
        Lang::Deu => "de",
        Lang::Eng => "en",
        Lang::Fra => "fr",
        Lang::Hin => "hi",
        Lang::Ita => "it",
        Lang::Jpn => "ja",
        Lang::Kor => "ko",
        Lang::Nld => "nl",
        Lang::Por => "pt",
        Lang::Rus => "ru",
        Lang::Spa => "es",
        Lang::Swe => "sv",
        Lang::Tur => "tr",
        Lang::Vie => "vi",
    }
}
