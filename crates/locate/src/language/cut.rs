//! Removes HTML, URLs, mentions and hashtags from a post.

use std::borrow::Cow;

/// Ends of a domain in a bare URL, one with a path and without `http://`: `bit.ly/3xyz`.
const URL_DOMAIN_ENDS: &[&str] = &[
    "app", "be", "br", "ch", "co", "com", "de", "dev", "edu", "es", "eu", "fm", "fr", "gg", "gl", "gov", "gd", "info",
    "io", "it", "jp", "ly", "me", "mp", "net", "nl", "org", "pt", "ru", "st", "to", "tv", "uk", "us",
];

/// HTML tags that start a new line: they separate the words on both sides.
const BLOCK_TAGS: &[&str] =
    &["p", "br", "div", "li", "ul", "ol", "blockquote", "pre", "h1", "h2", "h3", "h4", "h5", "h6"];
/// Longest HTML tag, in bytes. It limits the search for the end of a tag that has none.
const MAX_TAG_BYTES: usize = 4_096;

/// Removes HTML tags, URLs, @mentions (`@user`, `@user@server.example`), #tags with their words, a leading `RT @user:` and HTML's
/// `&amp;`, `&lt;` and `&gt;`, like chapter 3.4.5 of paper 004. White space becomes one space. Linear in the length of the text.
#[must_use]
pub fn clean_text(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    let text = remove_html_tags(text);
    let text = text.trim_start();
    let mut rest = strip_retweet_prefix(text).unwrap_or(text);
    let mut at_start = true;
    while let Some(first) = rest.chars().next() {
        let length = removable_length(rest, first, at_start);
        if length > 0 {
            // Without a space, the two sides could form a new word, or even a new URL.
            push_space(&mut kept);
            rest = &rest[length..];
            at_start = true;
            continue;
        }
        if first.is_whitespace() {
            push_space(&mut kept)
        } else {
            kept.push(first)
        }
        at_start = first.is_whitespace() || "([{\"'<>“‘«|,;:".contains(first);
        rest = &rest[first.len_utf8()..];
    }
    if kept.ends_with(' ') {
        kept.pop();
    }
    kept
}

/// Mastodon's posts are HTML, and names of tags and attributes look like English: each link has ten of them.
fn remove_html_tags(text: &str) -> Cow<'_, str> {
    let (mut kept, mut rest) = (String::new(), text);
    while let Some(at) = rest.find('<') {
        let (before, from) = rest.split_at(at);
        kept.push_str(before);
        match parse_html_tag(from) {
            Some((length, is_block)) => {
                // The two sides must not form a new tag either.
                if is_block || kept.ends_with(['<', '/']) {
                    kept.push(' ');
                }
                rest = &from[length..];
            }
            None => {
                kept.push('<');
                rest = &from[1..];
            }
        }
    }
    if kept.is_empty() && rest.len() == text.len() {
        return Cow::Borrowed(text);
    }
    kept.push_str(rest);
    // Entities inside words. `removable_length` handles the others.
    for (entity, is) in [("&#39;", "'"), ("&apos;", "'"), ("&quot;", "\""), ("&nbsp;", " ")] {
        if kept.contains(entity) {
            kept = kept.replace(entity, is);
        }
    }
    Cow::Owned(kept)
}

/// Length of the tag at the start, in bytes, and true if it ends the word before it. `<3` is no tag.
fn parse_html_tag(from: &str) -> Option<(usize, bool)> {
    let name = from.get(1..)?;
    let name = name.strip_prefix('/').unwrap_or(name);
    let name = &name[..name.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(name.len())];
    if !name.starts_with(|c: char| c.is_ascii_alphabetic()) {
        return None;
    }
    let end = from.bytes().take(MAX_TAG_BYTES).position(|byte| byte == b'>')?;
    Some((end + 1, BLOCK_TAGS.iter().any(|block| block.eq_ignore_ascii_case(name))))
}

fn push_space(kept: &mut String) {
    if !kept.is_empty() && !kept.ends_with(' ') {
        kept.push(' ');
    }
}

fn strip_retweet_prefix(text: &str) -> Option<&str> {
    let after = text.strip_prefix("RT").or_else(|| text.strip_prefix("rt"))?;
    let mention = after.trim_start();
    let length = after.len().ne(&mention.len()).then(|| mention_length(mention))?;
    let rest = mention.get(length..).filter(|_| length > 0)?;
    Some(rest.strip_prefix(':').unwrap_or(rest))
}

/// Length in bytes of the URL, mention, tag or entity at the start; 0 if there is none.
fn removable_length(rest: &str, first: char, at_start: bool) -> usize {
    match first {
        '@' | '＠' => mention_length(rest),
        '#' | '＃' => hashtag_length(rest),
        '&' => {
            ["&amp;", "&lt;", "&gt;"].iter().find(|entity| rest.starts_with(**entity)).map_or(0, |found| found.len())
        }
        'h' | 'H' | 'w' | 'W' if ["http://", "https://", "www."].iter().any(|scheme| starts_with(rest, scheme)) => {
            word_length(rest)
        }
        _ if at_start && first.is_ascii_alphanumeric() => bare_url_length(rest),
        _ => 0,
    }
}

fn starts_with(text: &str, ascii: &str) -> bool {
    text.as_bytes().get(..ascii.len()).is_some_and(|start| start.eq_ignore_ascii_case(ascii.as_bytes()))
}

fn word_length(text: &str) -> usize {
    text.find(char::is_whitespace).unwrap_or(text.len())
}

/// Length of `@` and a handle, which may name another server: letters, digits, `_`, `.`, `-`, `@`.
fn mention_length(text: &str) -> usize {
    let Some(at) = text.chars().next().filter(|c| matches!(c, '@' | '＠')) else { return 0 };
    let name = &text[at.len_utf8()..];
    if !name.starts_with(|c: char| c.is_alphanumeric() || c == '_') {
        return 0;
    }
    let is_part = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.' | '-' | '@' | '＠');
    at.len_utf8() + name.find(|c| !is_part(c)).unwrap_or(name.len())
}

fn hashtag_length(text: &str) -> usize {
    let Some(sign) = text.chars().next() else { return 0 };
    let word = &text[sign.len_utf8()..];
    // A mark on a letter is not alphabetic on its own: Devanagari's vowels, Arabic's signs, a combining accent.
    let is_part = |c: char| c.is_alphanumeric() || c == '_' || is_mark(c);
    let length = word.find(|c| !is_part(c)).unwrap_or(word.len());
    if length == 0 { 0 } else { sign.len_utf8() + length }
}

fn is_mark(c: char) -> bool {
    matches!(c, '\u{300}'..='\u{36f}' | '\u{5b0}'..='\u{5c7}' | '\u{64b}'..='\u{65f}' | '\u{93a}'..='\u{94f}' | '\u{e31}'..='\u{e4e}' | '\u{200c}' | '\u{200d}')
}

/// Length of a URL such as `bit.ly/3xyz`: a domain with a known end, and a path.
fn bare_url_length(text: &str) -> usize {
    let is_host = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-');
    let host = &text[..text.find(|c| !is_host(c)).unwrap_or(text.len())];
    let end = host.rsplit_once('.').map(|(_, end)| end);
    let is_url = text[host.len()..].starts_with('/')
        && end.is_some_and(|end| URL_DOMAIN_ENDS.iter().any(|known| known.eq_ignore_ascii_case(end)));
    if is_url { word_length(text) } else { 0 }
}
