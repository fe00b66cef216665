//! The picture of `docs/freshness.md`, drawn from the bench's own table.

use std::fmt::Write as _;

use crate::report::Table;

/// Multiples of the table's calls, and of what it misses. Both axes are logarithmic.
const CALLS: [(f64, &str); 4] = [(0.25, "¼ ×"), (0.5, "½ ×"), (1.0, "1 ×"), (2.0, "2 ×")];
const MISSED: [(f64, &str); 7] =
    [(0.125, "⅛ ×"), (0.25, "¼ ×"), (0.5, "½ ×"), (1.0, "1 ×"), (2.0, "2 ×"), (4.0, "4 ×"), (8.0, "8 ×")];
/// Left edge of the first panel, and from one panel to the next.
const LEFT: f64 = 60.0;
const NEXT: f64 = 360.0;
const TOP: f64 = 78.0;
/// Size of a panel.
const WIDE: f64 = 310.0;
const HIGH: f64 = 250.0;
/// Name, column of the table, colour and dashes.
const LINES: [(&str, usize, &str, &str); 3] = [
    ("age table, re-scaled", 3, "#57606a", "none"),
    ("square root, without learning", 4, "#9a6700", "7 4"),
    ("adaptive", 5, "#0550ae", "none"),
];

/// A set: its name, and by quota what each of the [`LINES`] misses, as multiples of the age table's at its own calls.
struct Panel<'a> {
    name: &'a str,
    points: Vec<(f64, [f64; 3])>,
}

fn panels(table: &Table) -> Vec<Panel<'_>> {
    let figure = |row: &[serde_json::Value], at: usize| row[at].as_f64().unwrap();
    let name = |row: &[serde_json::Value]| row[0].as_str().unwrap().to_owned();
    let sets = table.rows.chunk_by(|one, other| name(one) == name(other));
    let panel = |rows: &'_ [Vec<serde_json::Value>]| {
        let own = rows.iter().find(|row| figure(row, 1) == 1.0).unwrap();
        let point = |row: &Vec<serde_json::Value>| {
            (figure(row, 1), LINES.map(|(_, column, ..)| figure(row, column) / figure(own, 2)))
        };
        let mut points: Vec<_> = rows.iter().map(point).collect();
        points.sort_by(|one, other| one.0.total_cmp(&other.0));
        points
    };
    sets.map(|rows| Panel { name: rows[0][0].as_str().unwrap(), points: panel(rows) }).collect()
}

/// Where a value stands on an axis, from 0 to 1.
fn share(value: f64, ticks: &[(f64, &str)]) -> f64 {
    let (first, last) = (ticks[0].0, ticks[ticks.len() - 1].0);
    (value / first).ln() / (last / first).ln()
}

/// The whole drawing: one panel for each set of the bench's table.
pub fn svg(table: &Table) -> String {
    let panels = panels(table);
    let (width, height) = (LEFT + NEXT * panels.len() as f64, TOP + HIGH + 56.0);
    let mut all = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\" \
         role=\"img\" aria-labelledby=\"title about\" font-family=\"system-ui, sans-serif\" font-size=\"13\" fill=\"#24292f\">\n\
         <title id=\"title\">Missed interactions by the number of calls</title>\n<desc id=\"about\">{}</desc>\n\
         <rect width=\"{width}\" height=\"{height}\" rx=\"6\" fill=\"#ffffff\"/>\n",
        about(&panels),
    );
    let mut at = LEFT;
    for (name, _, colour, dashes) in LINES {
        let _ = writeln!(
            all,
            "<path d=\"M{at} 24h28\" stroke=\"{colour}\" stroke-width=\"2.5\" stroke-dasharray=\"{dashes}\"/>\
             <text x=\"{}\" y=\"28.5\">{name}</text>",
            at + 35.0
        );
        at += 75.0 + 6.6 * name.len() as f64;
    }
    for (number, panel) in panels.iter().enumerate() {
        draw(panel, LEFT + NEXT * number as f64, &mut all);
    }
    all.push_str("</svg>\n");
    all
}

fn draw(panel: &Panel<'_>, left: f64, all: &mut String) {
    let (bottom, middle) = (TOP + HIGH, left + WIDE / 2.0);
    let _ = writeln!(
        all,
        "<text x=\"{left}\" y=\"{}\"><tspan font-weight=\"600\">{}</tspan>: interactions missed</text>\
         <text x=\"{middle}\" y=\"{}\" text-anchor=\"middle\">calls</text>",
        TOP - 16.0,
        panel.name,
        bottom + 42.0,
    );
    let x = |calls: f64| left + share(calls, &CALLS) * WIDE;
    let y = |missed: f64| bottom - share(missed, &MISSED) * HIGH;
    for (calls, word) in CALLS {
        let (at, below) = (x(calls), bottom + 20.0);
        let _ = writeln!(all, "<text x=\"{at:.1}\" y=\"{below}\" text-anchor=\"middle\">{word}</text>");
    }
    for (missed, word) in MISSED {
        let at = y(missed);
        let _ = writeln!(
            all,
            "<path d=\"M{left} {at:.1}h{WIDE}\" stroke=\"#d0d7de\"/>\
             <text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{word}</text>",
            left - 8.0,
            at + 4.5,
        );
    }
    for (line, (_, _, colour, dashes)) in LINES.into_iter().enumerate() {
        let places: Vec<(f64, f64)> = panel.points.iter().map(|(calls, missed)| (x(*calls), y(missed[line]))).collect();
        let path: Vec<String> = places.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        let _ = writeln!(
            all,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2.5\" stroke-dasharray=\"{dashes}\"/>",
            path.join(" ")
        );
        for (x, y) in places {
            let _ = writeln!(all, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3.5\" fill=\"{colour}\"/>");
        }
    }
}

/// The same in words.
fn about(panels: &[Panel<'_>]) -> String {
    let mut about =
        String::from("Multiples of the age table's calls, and of the interactions that it misses with them.");
    for Panel { name, points } in panels {
        let _ = write!(about, " {name}:");
        for (calls, missed) in points {
            let [table, root, adaptive] = missed;
            let _ =
                write!(about, " {calls} × the calls: table {table:.2}, square root {root:.2}, adaptive {adaptive:.2};");
        }
    }
    about.trim_end_matches(';').to_owned() + "."
}
