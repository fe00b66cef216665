//! Tables as text, with aligned columns.

use std::fmt::{self, Display};

/// Lines of cells. The layout has `<` or `>` and a width per column, aligned left or right; it keeps other characters:
/// `<20 <8  >10`.
pub struct Table {
    layout: String,
    lines: Vec<String>,
}

impl Table {
    pub fn new(layout: impl Into<String>, header: &[&str]) -> Self {
        let mut table = Self { layout: layout.into(), lines: Vec::new() };
        if !header.is_empty() {
            table.row(&header.iter().map(|cell| cell as &dyn Display).collect::<Vec<_>>());
        }
        table
    }

    /// A table for [`figure`](Self::figure); its first two columns have these widths.
    pub fn figures(name_width: usize, value_width: usize) -> Self {
        Self::new(format!("<{name_width}>{value_width}  <"), &[])
    }

    pub fn row(&mut self, cells: &[&dyn Display]) {
        let (mut line, mut layout, mut cells) = (String::new(), self.layout.chars().peekable(), cells.iter());
        while let Some(mark) = layout.next() {
            if !matches!(mark, '<' | '>') {
                line.push(mark);
                continue;
            }
            let mut width = 0;
            while let Some(digit) = layout.peek().and_then(|digit| digit.to_digit(10)) {
                width = width * 10 + digit as usize;
                layout.next();
            }
            let cell = cells.next().map_or_else(String::new, ToString::to_string);
            line += &if mark == '<' { format!("{cell:<width$}") } else { format!("{cell:>width$}") };
        }
        self.lines.push(line);
    }

    /// Adds a row of a name, a value and a note, which may be empty.
    pub fn figure(&mut self, name: &str, value: impl Display, note: impl Display) {
        self.row(&[&name, &value, &note]);
        if let Some(line) = self.lines.last_mut() {
            line.truncate(line.trim_end().len());
        }
    }

    /// Adds a line without columns.
    pub fn line(&mut self, line: impl Into<String>) {
        self.lines.push(line.into());
    }
}

/// The lines, without a line end after the last.
impl Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.lines.join("\n"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_aligned_and_no_note_leaves_no_spaces() {
        let mut table = Table::new("<5>4 <3  <", &["a", "b", "c", "d"]);
        table.row(&[&"é", &12, &"wider", &"end"]);
        table.line("");
        table.figure("name", 1, "");
        assert_eq!(table.to_string(), "a       b c    d\né      12 wider  end\n\nname    1");
        let mut figures = Table::figures(5, 3);
        figures.figure("name", 12, "note");
        assert_eq!(figures.to_string(), "name  12  note");
    }
}
