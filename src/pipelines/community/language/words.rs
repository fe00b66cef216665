//! Letters that a model of variants counts: words in lower case, one space before, between and after them.

/// Limit of equal letters in a row: `goooool` is `goool`, and `kkkkkkkk` is `kkk`.
const ROW: usize = 3;

/// Reads a cut post for a model: lower case, letters, and hyphens inside words. Spellings become those of the Portuguese agreement of
/// 1990 (`acção` becomes `ação`), so that the year of a text does not decide. Markers cover present differences, which this removes, too
/// (`facto`).
#[must_use]
pub fn letters(cut: &str) -> Vec<char> {
    let mut letters = vec![' '];
    for word in cut.split(|c: char| !c.is_alphabetic() && c != '-') {
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

/// Removes the accent of a letter: `ç` is `c`. Posts often have none.
#[must_use]
pub fn plain(letter: char) -> char {
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
