use std::borrow::Cow;

use html_escape::decode_html_entities;

use super::provider::Provider;

const LINES: [&str; 17] =
    ["div", "li", "ul", "ol", "blockquote", "pre", "h1", "h2", "h3", "h4", "h5", "h6", "tr", "table", "dt", "dd", "hr"];

/// The text as a reader sees it. Mastodon writes HTML; Twitter and X write `&`, `<` and `>` as entities; Bluesky writes plain text.
#[must_use]
pub fn plain_text<'a>(text: &'a str, provider: &Provider) -> Cow<'a, str> {
    match provider {
        Provider::Bluesky => Cow::Borrowed(text),
        Provider::Twitter | Provider::X => decode_html_entities(text),
        Provider::Mastodon(_) => Cow::Owned(without_tags(text)),
    }
}

/// Text of HTML: an empty line separates paragraphs, and other blocks begin a line.
fn without_tags(html: &str) -> String {
    let (mut plain, mut rest) = (String::with_capacity(html.len()), html);
    let mut pre = 0;
    while !rest.is_empty() {
        let tag = rest.find('<').unwrap_or(rest.len());
        let (text, from_tag) = rest.split_at(tag);
        push(&mut plain, text, pre > 0);
        if !begins_tag(from_tag) {
            let sign = from_tag.chars().next().map_or(0, char::len_utf8);
            plain.push_str(&from_tag[..sign]);
            rest = &from_tag[sign..];
            continue;
        }
        let Some(inside) = inside_of_tag(from_tag) else {
            // No tag ends behind it: the rest is text.
            push(&mut plain, from_tag, pre > 0);
            break;
        };
        rest = &from_tag[inside.len() + 2..];
        let (is_end, name) = inside.strip_prefix('/').map_or((false, inside), |name| (true, name));
        let name = name.split(|c: char| !c.is_ascii_alphanumeric()).next().unwrap_or_default().to_ascii_lowercase();
        match (&*name, is_end) {
            ("pre", false) => pre += 1,
            ("pre", true) => pre = (pre - 1).max(0),
            _ => {}
        }
        match &*name {
            "br" => {
                plain.truncate(plain.trim_end_matches(' ').len());
                plain.push('\n');
            }
            "td" | "th" => push(&mut plain, " ", false),
            "p" => begin_line(&mut plain, 2),
            name if LINES.contains(&name) => begin_line(&mut plain, 1),
            _ => {}
        }
    }
    plain.truncate(plain.trim_end().len());
    plain
}

fn begins_tag(text: &str) -> bool {
    text.strip_prefix('<')
        .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_alphabetic() || matches!(c, '/' | '!')))
}

/// The inside of the tag or comment that begins the text, between `<` and `>`.
fn inside_of_tag(text: &str) -> Option<&str> {
    let inside = text.strip_prefix('<')?;
    if let Some(comment) = inside.strip_prefix("!--") {
        return Some(&inside[..comment.find("-->")? + 5]);
    }
    // A `>` within the quotes of an attribute ends no tag.
    let mut quote = None;
    let end = inside.char_indices().find(|(_, c)| match (quote, c) {
        (None, '>') => true,
        (None, '"' | '\'') => {
            quote = Some(*c);
            false
        }
        (Some(open), c) => {
            if open == *c {
                quote = None;
            }
            false
        }
        _ => false,
    });
    Some(&inside[..end?.0])
}

/// Adds the text between two tags. Outside of `pre`, white space becomes one blank, and no line begins with a blank.
fn push(plain: &mut String, text: &str, is_pre: bool) {
    let text = decode_html_entities(text);
    if is_pre {
        plain.push_str(&text);
        return;
    }
    for c in text.chars() {
        match c {
            ' ' | '\t' | '\n' | '\r' if plain.is_empty() || plain.ends_with([' ', '\n']) => {}
            ' ' | '\t' | '\n' | '\r' => plain.push(' '),
            c => plain.push(c),
        }
    }
}

/// Ends the current line. The text then ends with at least `ends` line ends.
fn begin_line(plain: &mut String, ends: usize) {
    plain.truncate(plain.trim_end_matches(' ').len());
    let there = plain.len() - plain.trim_end_matches('\n').len();
    if !plain.is_empty() {
        plain.push_str(&"\n".repeat(ends.saturating_sub(there)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mastodon(html: &str) -> String {
        plain_text(html, &Provider::Mastodon("main".to_owned())).into_owned()
    }

    #[test]
    fn html_becomes_what_a_reader_sees() {
        for (html, text) in [
            ("<p>Hello<br />world</p><p>Second &amp; last</p>", "Hello\nworld\n\nSecond & last"),
            (
                "<p>See <a href=\"https://example.org/a?b=1&amp;c=2\" rel=\"nofollow\"><span class=\"invisible\">https://</span>\
                 <span class=\"ellipsis\">example.org/a</span><span class=\"invisible\">?b=1&amp;c=2</span></a></p>",
                "See https://example.org/a?b=1&c=2",
            ),
            (
                "<p><span class=\"h-card\"><a href=\"https://m.example/@ann\">@<span>ann</span></a></span> 1 &lt; 2 &#39;yes&#39;</p>",
                "@ann 1 < 2 'yes'",
            ),
            ("<ul><li>one</li><li>two</li></ul><p>end</p>", "one\ntwo\n\nend"),
            ("<p>a</p>\n<p>b\n  c</p>", "a\n\nb c"),
            ("<pre><code>if a:\n    b</code></pre>", "if a:\n    b"),
            ("I <3 you, 1<2 and a<", "I <3 you, 1<2 and a<"),
            ("<p title=\"a > b\">x</p><!-- not > this -->y", "x\n\ny"),
            ("<b", "<b"),
            ("a <br> b", "a\nb"),
            ("<table><tr><td>a</td><td>b</td></tr><tr><td>c</td></tr></table>", "a b\nc"),
            ("x <a href=\"y", "x <a href=\"y"),
            ("&amp;lt;p&amp;gt;", "&lt;p&gt;"),
            ("", ""),
        ] {
            assert_eq!(mastodon(html), text, "{html}");
        }
    }

    #[test]
    fn a_text_of_unfinished_tags_takes_no_longer() {
        let text = "<a".repeat(1 << 20);
        assert_eq!(mastodon(&text), text);
    }

    #[test]
    fn other_networks_write_no_tags() {
        let written = "a &amp;amp; b &lt;3 <b>";
        for provider in [Provider::Twitter, Provider::X] {
            assert_eq!(plain_text(written, &provider), "a &amp; b <3 <b>");
        }
        assert_eq!(plain_text(written, &Provider::Bluesky), written);
    }
}
