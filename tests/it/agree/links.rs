//! What the documents point at is there.

use super::*;

/// What GitHub makes of a heading.
fn anchor(heading: &str) -> String {
    let kept = heading.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
    kept.flat_map(char::to_lowercase).map(|c| if c == ' ' { '-' } else { c }).collect()
}

/// The anchors of a document, its blocks of code apart.
fn anchors(text: &str) -> BTreeSet<String> {
    let prose = text.split("```").step_by(2).flat_map(str::lines);
    prose.filter_map(|line| line.strip_prefix('#')).map(|line| anchor(line.trim_start_matches('#').trim())).collect()
}

#[test]
fn links_lead_somewhere() {
    let documents = documents();
    let mut followed = 0;
    for (page, text) in &documents {
        let here = Path::new(page).parent().unwrap();
        for link in text.split("](").skip(1).map(|rest| rest.split(')').next().unwrap()) {
            if link.contains("://") {
                continue;
            }
            let (path, fragment) = link.split_once('#').unwrap_or((link, ""));
            let target = if path.is_empty() { Path::new(page).to_owned() } else { here.join(path) };
            let target: std::path::PathBuf =
                root().join(target).canonicalize().unwrap_or_else(|_| panic!("{page}: {link}"));
            if !fragment.is_empty() {
                let text = std::fs::read_to_string(&target).unwrap();
                assert!(anchors(&text).contains(fragment), "{page}: {link} has no such heading");
            }
            followed += 1;
        }
    }
    assert!(followed > 30, "{followed}");
}

/// README links each page of docs/ and the index of docs/internals/, which links each page there.
#[test]
fn the_readme_leads_to_every_page() {
    let index = format!("{INTERNALS}/README.md");
    for page in pages("docs").keys().chain([&index]) {
        assert!(README.contains(&format!("({page}")), "{page} is not in the README");
    }
    let internals = pages(INTERNALS);
    for page in internals.keys().filter(|page| **page != index) {
        let name = page.rsplit('/').next().unwrap();
        assert!(internals[&index].contains(&format!("({name})")), "{page} is not in {index}");
    }
}
