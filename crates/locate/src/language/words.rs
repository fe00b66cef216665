//! Letters that a model of variants counts: words in lower case, one space before, between and after them.

/// Limit of equal letters in a row: `goooool` is `goool`, and `kkkkkkkk` is `kkk`.
const ROW: usize = 3;

/// Letters of the words in lower case, with hyphens inside words and a space before, between and after words. Spellings become
/// those of the Portuguese agreement of 1990 (`acção` becomes `ação`), so the year of a text does not decide the language. This also
/// removes differences that exist today (`facto`); the markers cover these.
#[must_use]
pub fn normalized_letters(clean_text: &str) -> Vec<char> {
    let mut letters = vec![' '];
    for word in clean_text.split(|c: char| !c.is_alphabetic() && c != '-') {
        let word = word.trim_matches('-');
        if word.is_empty() {
            continue;
        }
        let from = letters.len();
        for letter in word.chars().flat_map(char::to_lowercase) {
            let row = letters[from..].iter().rev().take_while(|before| **before == letter).count();
            if row < ROW {
                letters.push(letter);
            }
        }
        respell(&mut letters, from);
        letters.push(' ');
    }
    letters
}

fn respell(letters: &mut Vec<char>, from: usize) {
    let word = &letters[from..];
    if word == ['p', 'á', 'r', 'a'] {
        letters[from + 1] = 'a';
        return;
    }
    let mut kept = from;
    for at in from..letters.len() {
        let (letter, next) = (letters[at], letters.get(at + 1).copied());
        let silent = matches!((letter, next), ('c' | 'p', Some('ç' | 't')) | ('c', Some('c')));
        if silent {
            continue;
        }
        letters[kept] = match (letter, next) {
            ('ü', _) => 'u',
            ('é', Some('i')) | ('ê', Some('e')) => 'e',
            ('ó', Some('i')) | ('ô', Some('o')) => 'o',
            _ => letter,
        };
        kept += 1;
    }
    letters.truncate(kept);
}

/// Posts often have no accents.
#[must_use]
pub fn remove_accent(letter: char) -> char {
    match letter {
        'á' | 'à' | 'â' | 'ã' | 'ä' | 'å' => 'a',
        'é' | 'è' | 'ê' | 'ë' => 'e',
        'í' | 'ì' | 'î' | 'ï' => 'i',
        'ó' | 'ò' | 'ô' | 'õ' | 'ö' => 'o',
        'ú' | 'ù' | 'û' | 'ü' => 'u',
        'ç' => 'c',
        'ñ' => 'n',
        _ => letter,
    }
}
