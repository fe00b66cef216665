//! Splits a location text into words, with the separators between them.

/// The strongest separator before a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Gap {
    /// Nothing, white space, a dot, an apostrophe, a hyphen without spaces: the name continues.
    Close,
    /// A comma or a parenthesis: the next name may hold the one before (`Paris, Texas`).
    Comma,
    /// A slash, a bar, a dash, `&`, a line break, anything else: perhaps another place.
    Wide,
}

#[derive(Debug, Clone)]
pub struct Word {
    /// Lower case, without accents.
    pub plain: String,
    /// Byte range in the text.
    pub from: usize,
    pub to: usize,
    pub gap: Gap,
    /// A slash or a hyphen without spaces joins it to the word before, as in `Natal/RN`.
    pub is_joined: bool,
    /// The mark before it joins two places and never names one: `Athens & Georgia`.
    pub is_listed: bool,
    pub is_capital: bool,
    pub flag: Option<String>,
}

/// Each Chinese or Japanese letter is a word, because these scripts have no spaces.
pub fn split_words(text: &str) -> Vec<Word> {
    let mut words: Vec<Word> = Vec::new();
    let mut gap = Gap::Close;
    let mut between = String::new();
    let mut letters = text.char_indices().peekable();
    let mut open: Option<usize> = None;
    while let Some((at, letter)) = letters.next() {
        let to = at + letter.len_utf8();
        if let Some(one) = regional_indicator(letter) {
            open = None;
            if let Some((next, other)) = letters.peek().and_then(|(at, next)| Some((*at, regional_indicator(*next)?))) {
                let to = next + 4;
                letters.next();
                words.push(flag_word(String::from_iter([one, other]), at, to));
            }
        } else if letter == '\u{1F3F4}' {
            open = None;
            if let Some(code) = subdivision_flag_code(&text[to..]) {
                words.push(flag_word(code, at, to));
            }
        } else if letter.is_alphanumeric() {
            let is_own = is_ideograph(letter);
            match open {
                Some(word) if !is_own => {
                    let word = &mut words[word];
                    word.to = to;
                    push_plain(&mut word.plain, letter);
                    word.is_capital &= !letter.is_lowercase();
                }
                _ => {
                    let mut plain = String::new();
                    push_plain(&mut plain, letter);
                    let is_joined = matches!(between.as_str(), "/" | "-");
                    let is_listed = between.contains(['&', '+', '→']);
                    words.push(Word {
                        plain,
                        from: at,
                        to,
                        gap,
                        is_joined,
                        is_listed,
                        is_capital: !letter.is_lowercase(),
                        flag: None,
                    });
                    open = (!is_own).then_some(words.len() - 1);
                }
            }
            gap = Gap::Close;
            between.clear();
        } else if is_mark(letter) {
            // A separate accent: the letter before it is plain already.
        } else {
            open = None;
            // Up to three characters show the separator.
            if between.len() < 12 {
                between.push(letter);
            }
            gap = gap.max(classify_gap(letter, &between));
        }
    }
    words
}

fn flag_word(code: String, from: usize, to: usize) -> Word {
    Word {
        plain: String::new(),
        from,
        to,
        gap: Gap::Wide,
        is_joined: false,
        is_listed: false,
        is_capital: false,
        flag: Some(code),
    }
}

fn classify_gap(letter: char, between: &str) -> Gap {
    match letter {
        ',' | '，' | '、' | '(' | ')' | '،' => Gap::Comma,
        '.' | '\'' | '’' | ':' | '`' | '´' | '_' => Gap::Close,
        '-' | '–' | '—' if between.len() == letter.len_utf8() => Gap::Close,
        '\n' | '\r' => Gap::Wide,
        _ if letter.is_whitespace() => {
            // " - " is more than "-".
            if between.contains(['-', '–', '—']) { Gap::Wide } else { Gap::Close }
        }
        _ => Gap::Wide,
    }
}

/// Two regional indicators are a flag.
fn regional_indicator(letter: char) -> Option<char> {
    let nth = u32::from(letter).checked_sub(0x1F1E6).filter(|nth| *nth < 26)?;
    char::from_u32(u32::from('A') + nth)
}

/// Code of the flag of England, Scotland or Wales: tag letters follow the black flag.
fn subdivision_flag_code(rest: &str) -> Option<String> {
    let tag = |letter: char| u32::from(letter).checked_sub(0xE0000).and_then(char::from_u32);
    let letters: String = rest.chars().take(2).filter_map(tag).collect();
    (letters.len() == 2 && letters.is_ascii()).then(|| letters.to_ascii_uppercase())
}

fn is_ideograph(letter: char) -> bool {
    matches!(letter, '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{9fff}' | '\u{ac00}'..='\u{d7af}')
}

fn is_mark(letter: char) -> bool {
    matches!(letter, '\u{300}'..='\u{36f}' | '\u{200d}' | '\u{fe0f}' | '\u{64b}'..='\u{65f}')
}

fn push_plain(plain: &mut String, letter: char) {
    for lower in letter.to_lowercase() {
        match lower {
            'á' | 'à' | 'â' | 'ã' | 'ä' | 'å' | 'ā' | 'ă' | 'ą' => plain.push('a'),
            'é' | 'è' | 'ê' | 'ë' | 'ē' | 'ę' | 'ě' => plain.push('e'),
            'í' | 'ì' | 'î' | 'ï' | 'ī' | 'ı' => plain.push('i'),
            'ó' | 'ò' | 'ô' | 'õ' | 'ö' | 'ø' | 'ō' | 'ő' => plain.push('o'),
            'ú' | 'ù' | 'û' | 'ü' | 'ū' | 'ů' | 'ű' => plain.push('u'),
            'ç' | 'ć' | 'č' => plain.push('c'),
            'ñ' | 'ń' | 'ň' => plain.push('n'),
            'š' | 'ś' | 'ş' | 'ș' => plain.push('s'),
            'ž' | 'ź' | 'ż' => plain.push('z'),
            'ğ' => plain.push('g'),
            'ł' => plain.push('l'),
            'ř' => plain.push('r'),
            'ť' | 'ț' => plain.push('t'),
            'đ' | 'ď' | 'ð' => plain.push('d'),
            'ý' => plain.push('y'),
            'ß' => plain.push_str("ss"),
            'æ' => plain.push_str("ae"),
            'œ' => plain.push_str("oe"),
            _ if is_mark(lower) => {}
            _ => plain.push(lower),
        }
    }
}
