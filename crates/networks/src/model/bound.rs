//! Size limits of stored texts and objects, the same for all inputs, networks and fields. Pure.

use std::borrow::Cow;

/// Longest raw object, in bytes. Real objects of the networks have 2 to 10 KB.
pub const LONGEST_OBJECT: usize = 1 << 20;

/// Longest stored text, in bytes. The longest posts of X have 25,000 characters: 100 KB at most.
pub const LONGEST_TEXT: usize = 128 << 10;

/// Ends of the mark in a cut text, around its former length.
const MARK: [&str; 2] = ["… [cut: ", " bytes]"];
const LONGEST_MARK: usize = 40;

/// Returns the text, or its beginning with a mark that states its former length: `… [cut: 1048576 bytes]`. A cut text is
/// not cut again.
#[must_use]
pub fn truncate_text(text: &str) -> Cow<'_, str> {
    if text.len() <= LONGEST_TEXT {
        return Cow::Borrowed(text);
    }
    let mut end = LONGEST_TEXT - LONGEST_MARK;
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    Cow::Owned(format!("{}{}{}{}", &text[..end], MARK[0], text.len(), MARK[1]))
}

/// Returns true if [`truncate_text`] has cut the text. In a short text the mark is the author's own.
#[must_use]
pub fn is_truncated(text: &str) -> bool {
    let is_long = text.len() + LONGEST_MARK + 4 > LONGEST_TEXT;
    let length = || text.strip_suffix(MARK[1])?.rsplit_once(MARK[0])?.1.parse::<u64>().ok();
    is_long && length().is_some()
}

/// Returns the object, or in place of one that is too long its length in bytes: `{"cut":2000000}`.
#[must_use]
pub fn truncate_object(raw: &str) -> Cow<'_, str> {
    match raw.len() {
        ..=LONGEST_OBJECT => Cow::Borrowed(raw),
        length => Cow::Owned(format!("{{\"cut\":{length}}}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cut_once_and_says_so() {
        for character in ["<", "é", "\u{1f600}"] {
            let longest = character.repeat(LONGEST_TEXT / character.len());
            assert!(truncate_text(&longest) == longest && !is_truncated(&longest));
            let long = format!("{longest}{character}");
            let cut = truncate_text(&long);
            assert!(cut.len() <= LONGEST_TEXT && is_truncated(&cut), "{}", cut.len());
            assert!(cut.ends_with(&format!("… [cut: {} bytes]", long.len())));
            assert_eq!(truncate_text(&cut), cut);
        }
        assert!(!is_truncated("a post… [cut: 1048576 bytes]"));
    }

    #[test]
    fn of_a_long_object_its_length_is_left() {
        let longest = "x".repeat(LONGEST_OBJECT);
        assert_eq!(truncate_object(&longest), longest);
        assert_eq!(truncate_object(&(longest + "x")), "{\"cut\":1048577}");
    }
}
