//! Files of labelled texts.

const CR_ALONE: &str = "the file's lines end in CR alone; convert them to LF (tr '\\r' '\\n')";

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LabelledText {
    pub text: String,
    pub label: String,
}

/// Reads `text<TAB>label` lines; other columns may come before. A first line of column names with `text` and `label` (or `variety`) sets
/// their positions. A text in double quotes follows CSV (`""` is one quote). Skips empty lines, and lines that start with `#` and have no
/// tab. `report_problem` gets the number and the problem of each unreadable line.
pub fn read(file: &[u8], mut report_problem: impl FnMut(usize, &str)) -> Vec<LabelledText> {
    let mut columns = None;
    let mut texts = Vec::new();
    let mut is_first = true;
    for (number, line) in (1..).zip(file.split(|byte| *byte == b'\n')) {
        let Ok(line) = std::str::from_utf8(line) else {
            report_problem(number, "is not UTF-8");
            continue;
        };
        let line = line.trim_end_matches('\r').trim_start_matches('\u{feff}');
        if line.contains(['\r', '\0']) {
            report_problem(number, if line.contains('\0') { "has a NUL byte: this is no text file" } else { CR_ALONE });
            continue;
        }
        if line.trim().is_empty() || line.starts_with('#') && !line.contains('\t') {
            continue;
        }
        let cells: Vec<&str> = line.split('\t').collect();
        if std::mem::take(&mut is_first) {
            columns = find_columns(&cells);
            if columns.is_some() {
                continue;
            }
        }
        match parse_cells(&cells, columns) {
            Ok(one) => texts.push(one),
            Err(why) => report_problem(number, why),
        }
    }
    texts
}

fn find_columns(cells: &[&str]) -> Option<(usize, usize)> {
    let of = |names: &[&str]| cells.iter().position(|cell| names.contains(&cell.trim()));
    Some((of(&["text"])?, of(&["label", "variety"])?))
}

fn parse_cells(cells: &[&str], columns: Option<(usize, usize)>) -> Result<LabelledText, &'static str> {
    let Some((text, label)) = columns.or_else(|| Some((cells.len().checked_sub(2)?, cells.len() - 1))) else {
        return Err("has no tab; a line must be text<TAB>label");
    };
    let of = |at: usize| cells.get(at).map(|cell| cell.trim()).unwrap_or_default();
    let (text, label) = (unquoted(of(text)), of(label));
    if text.trim().is_empty() {
        return Err("has no text; a line must be text<TAB>label");
    }
    if label.is_empty() {
        return Err("has no label; a line must be text<TAB>label");
    }
    Ok(LabelledText { text, label: label.to_owned() })
}

fn unquoted(field: &str) -> String {
    match field.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) {
        Some(inside) => inside.replace("\"\"", "\""),
        None => field.to_owned(),
    }
}
