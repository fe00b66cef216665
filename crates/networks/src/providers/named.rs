//! Accounts as people write them: ids, handles, addresses of profiles. No I/O. Each network has a parser in its folder's `named.rs`.

use std::borrow::Cow;

use percent_encoding::percent_decode_str;
use reqwest::Url;

use crate::model::post::BadId;
use crate::providers::http::has_login;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AccountRef {
    Id(String),
    /// Handle without a leading `@`.
    Handle(String),
}

/// Reason why a line names no account. Each text is one clause.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadAccountRef {
    /// The line has no first column with one word.
    #[error("{0}")]
    Line(&'static str),
    #[error(transparent)]
    Id(#[from] BadId),
    #[error("{0}")]
    Handle(&'static str),
    #[error("{0}")]
    Address(&'static str),
}

/// Reads an account from a line.
pub type ReadAccountRef = fn(&str) -> Result<AccountRef, BadAccountRef>;

/// Returns true if a line is blank or a comment.
#[must_use]
pub fn is_comment(line: &str) -> bool {
    let line = line.trim();
    line.is_empty() || line.starts_with('#')
}

/// Account in a line: the first column, without quotes, outer white space and a comment.
pub fn first_column(line: &str) -> Result<&str, BadAccountRef> {
    let line = line.trim();
    if is_comment(line) {
        return Err(BadAccountRef::Line("the line has no account"));
    }
    if line.starts_with(['{', '[']) {
        let why = "the line is JSON; write one account a line: an id, a handle or an address";
        return Err(BadAccountRef::Line(why));
    }
    if is_scientific(line) {
        let why = "the id is a number in scientific notation, whose last digits are lost; export the column as text";
        return Err(BadId::Form(why).into());
    }
    if is_grouped(line) {
        return Err(BadId::Form("the id has its digits in groups; write it without commas").into());
    }
    let quoted = ['"', '\''].into_iter().find_map(|quote| line.strip_prefix(quote)?.split_once(quote));
    let column = match quoted {
        Some((column, _)) => column,
        None => line.split([',', ';', '\t']).next().unwrap_or_default(),
    };
    let comment = column.match_indices('#').find(|(at, _)| column[..*at].ends_with(char::is_whitespace));
    let word = comment.map_or(column, |(at, _)| &column[..at]).trim();
    if word.is_empty() {
        return Err(BadAccountRef::Line("the first column is empty"));
    }
    if word.contains(|c: char| c.is_whitespace() || c.is_control()) {
        return Err(BadAccountRef::Line("the line has white space inside; write one account a line"));
    }
    Ok(word)
}

/// Returns true for `1.46E+18` and `1,46E+18`, as spreadsheets write long ids: this comma separates no columns.
fn is_scientific(line: &str) -> bool {
    let number = line.trim_matches(['"', '\'']);
    let number = number.split([';', '\t']).next().unwrap_or_default();
    let Some((digits, power)) = number.split_once(['e', 'E']) else { return false };
    let power = power.split(',').next().unwrap_or_default();
    let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let power = power.strip_prefix(['+', '-']).unwrap_or(power);
    let (whole, part) = digits.split_once([',', '.']).unwrap_or((digits, ""));
    !whole.is_empty() && !power.is_empty() && [whole, part, power].into_iter().all(is_number)
}

/// Returns true for `1,460,323`, as spreadsheets write numbers: two or more commas that separate no columns.
fn is_grouped(line: &str) -> bool {
    let mut groups = line.trim_matches(['"', '\'']).split(',');
    let is_group =
        |group: &str, digits: std::ops::RangeInclusive<usize>| is_digits(group) && digits.contains(&group.len());
    groups.next().is_some_and(|first| is_group(first, 1..=3))
        && groups.clone().count() >= 2
        && groups.all(|group| is_group(group, 3..=3))
}

/// Returns true if the text has only digits: an id, where ids are numbers. A handle of digits has a leading `@`.
#[must_use]
pub fn is_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Prefix of a numeric id in CSV, so that no reader parses the id as a number. rtweet writes it, too.
pub const ID_MARK: char = 'x';

#[must_use]
pub fn strip_id_mark(id: &str) -> &str {
    id.strip_prefix(ID_MARK).filter(|digits| is_digits(digits)).unwrap_or(id)
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    /// Host in lower case, with its port if any.
    pub host: String,
    /// Non-empty path segments, decoded. For `/#!/ann`, an old form of Twitter's, the segments after the `!`.
    pub path: Vec<String>,
    pub query: Vec<(String, String)>,
}

impl Address {
    /// Reads an address, with or without `https://`; `None` for a text without a `/`.
    pub fn read(text: &str) -> Result<Option<Self>, BadAccountRef> {
        if !text.contains('/') {
            return Ok(None);
        }
        let bad = || BadAccountRef::Address("the address cannot be read");
        let whole = if text.contains("://") { Cow::Borrowed(text) } else { Cow::Owned(format!("https://{text}")) };
        let url = Url::parse(&whole).map_err(|_| bad())?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(BadAccountRef::Address("the address does not begin with http:// or https://"));
        }
        if has_login(&url) {
            return Err(bad());
        }
        let host = url.host_str().ok_or_else(bad)?;
        let host = url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"));
        let mut path = segments(url.path());
        if path.is_empty() {
            path = url.fragment().and_then(|fragment| fragment.strip_prefix('!')).map(segments).unwrap_or_default();
        }
        let query = url.query_pairs().map(|(name, value)| (name.into_owned(), value.into_owned())).collect();
        Ok(Some(Self { host, path, query }))
    }

    #[must_use]
    pub fn segments(&self) -> Vec<&str> {
        self.path.iter().map(String::as_str).collect()
    }

    #[must_use]
    pub fn parameter(&self, name: &str) -> Option<&str> {
        self.query.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

fn segments(path: &str) -> Vec<String> {
    let path = path.split('?').next().unwrap_or_default();
    let segments = path.split('/').filter(|segment| !segment.is_empty());
    segments.map(|segment| percent_decode_str(segment).decode_utf8_lossy().into_owned()).collect()
}

/// Name of a server in lower case, in its DNS form; `None` if it is not a valid name.
#[must_use]
pub fn server_name(text: &str) -> Option<String> {
    if text.is_empty() || text.contains(['/', '?', '#', '@', '\\']) {
        return None;
    }
    let url = Url::parse(&format!("https://{text}/")).ok()?;
    let host = url.host_str()?;
    // URLs allow a comma and quotes in a host; in a list of accounts they stand between names.
    if !host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-_:[]".contains(&byte)) {
        return None;
    }
    Some(url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_its_first_column() {
        for line in [
            "ann",
            " ann \r",
            "\"ann\"",
            "'ann'",
            "ann,1,2",
            "ann;x",
            "ann\tx",
            "ann # a friend",
            "\"ann\",\"x, y\"",
            "ann,# x",
        ] {
            assert_eq!(first_column(line), Ok("ann"), "{line:?}");
        }
        assert_eq!(first_column("https://twitter.com/#!/ann"), Ok("https://twitter.com/#!/ann"));
        for (line, why) in [
            ("", "no account"),
            ("# ann", "no account"),
            (",ann", "first column is empty"),
            ("\"\",ann", "first column is empty"),
            ("ann bea", "white space"),
            ("a\u{1}b", "white space"),
            ("{\"id\": 1}", "JSON"),
            ("[1,", "JSON"),
            ("1,46E+18", "scientific"),
            ("1.46E+18,ann", "scientific"),
            ("\"1,46e18\"", "scientific"),
            ("1,460,323", "in groups"),
            ("\"1,460,323,737\"", "in groups"),
        ] {
            assert!(first_column(line).unwrap_err().to_string().contains(why), "{line:?}");
        }
        assert_eq!(first_column("1e5x"), Ok("1e5x"));
        assert!(is_comment(" \t") && is_comment(" # x") && !is_comment("a # x"));
    }

    #[test]
    fn an_address_is_taken_apart() {
        let read = |text| Address::read(text).unwrap().unwrap();
        let whole = read("HTTPS://X.com/Ann/status/20?s=1&a=b#c");
        assert_eq!((whole.host.as_str(), whole.segments()), ("x.com", vec!["Ann", "status", "20"]));
        assert_eq!((whole.parameter("a"), whole.parameter("c")), (Some("b"), None));
        assert_eq!(read("twitter.com/#!/ann/x?y").segments(), ["ann", "x"]);
        assert_eq!(read("localhost:3000//%40ann%40b.c/").segments(), ["@ann@b.c"]);
        assert_eq!(read("localhost:3000/").host, "localhost:3000");
        assert_eq!(Address::read("ann.example"), Ok(None));
        for (odd, why) in [
            ("ftp://x.com/ann", "http"),
            ("https://x.com@evil.example/ann", "cannot be read"),
            ("https:///", "cannot be read"),
            ("//", "cannot be read"),
            ("at://x", "http"),
        ] {
            assert!(Address::read(odd).unwrap_err().to_string().contains(why), "{odd}");
        }
        assert_eq!(server_name("Bücher.Example").as_deref(), Some("xn--bcher-kva.example"));
        assert_eq!((server_name("a/b"), server_name(""), server_name("a b")), (None, None, None));
    }
}
