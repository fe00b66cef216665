//! A chart as SVG, drawn by plotters.
//!
//! `page.css` maps each [`ChartColor`] to its value in both colour schemes, by the attribute in the drawing. It sets the text size, too:
//! the drawing scales to the width of its box, and its text must not shrink with it.

use std::ops::Range;

use maud::{Markup, PreEscaped, html};
use plotters::coord::Shift;
use plotters::coord::ranged1d::{KeyPointHint, NoDefaultFormatting, Ranged, ValueFormatter};
use plotters::coord::types::RangedCoordf64;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::format::round_to_tenth;

/// Size of the drawing in its own units; in a box of that width on the screen, one unit is a pixel.
const SIZE: (u32, u32) = (880, 380);
/// Width for the numbers on the left; they are twice as large on a phone.
const LEFT: u32 = 108;
const BELOW: u32 = 50;
/// Margin of the rest; the first and last words of an axis reach into it.
const MARGIN: u32 = 26;
const ABOVE: u32 = 46;
/// Factor that keeps the highest point off the edge.
const HEADROOM: f64 = 1.04;
/// Font that plotters needs; `page.css` overrides it.
const FONT: (&str, i32) = ("sans-serif", 22);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ChartColor {
    Text,
    Grid,
    /// The most important series.
    First,
    Second,
    Third,
    /// A stacked area: 0 to 6, the shortest interval first.
    Stacked(usize),
}

pub(super) const STACKED_COLORS: usize = 7;

impl ChartColor {
    const fn rgb(self) -> (u8, u8, u8) {
        match self {
            Self::Text => (0x59, 0x63, 0x6e),
            Self::Grid => (0xd8, 0xde, 0xe4),
            Self::First => (0x0b, 0x5c, 0xad),
            Self::Second => (0x6b, 0x4f, 0xa0),
            Self::Third => (0x8a, 0x5a, 0x00),
            Self::Stacked(at) => match at {
                0 => (0x08, 0x3d, 0x77),
                1 => (0x17, 0x5f, 0xa8),
                2 => (0x3a, 0x83, 0xc9),
                3 => (0x6d, 0xa8, 0xde),
                4 => (0xa0, 0xc8, 0xeb),
                5 => (0xc9, 0xdf, 0xf2),
                _ => (0xb0, 0xa4, 0x95),
            },
        }
    }

    fn plotters_color(self) -> RGBColor {
        let (red, green, blue) = self.rgb();
        RGBColor(red, green, blue)
    }

    pub(super) fn hex(self) -> String {
        let (red, green, blue) = self.rgb();
        format!("#{red:02X}{green:02X}{blue:02X}")
    }
}

/// Units of the numbers on an axis, used from ten times their value on.
const UNITS: [(f64, &str); 2] = [(1e6, ", millions"), (1e3, ", thousands")];

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Axis {
    title: String,
    range: Range<f64>,
    logarithmic: bool,
    ticks: Vec<(f64, String)>,
}

impl Axis {
    pub(super) fn linear(title: &str, range: Range<f64>, ticks: Vec<(f64, String)>) -> Self {
        Self { title: title.to_owned(), range, logarithmic: false, ticks }
    }

    /// A logarithmic axis; the range lies above 0.
    pub(super) fn logarithmic(title: &str, range: Range<f64>, ticks: Vec<(f64, String)>) -> Self {
        Self { title: format!("{title}, on a logarithmic axis"), range, logarithmic: true, ticks }
    }

    /// An axis from 0 to a little more than `most`, with round labels; large ones in thousands or millions.
    pub(super) fn from_zero(title: &str, most: f64) -> Self {
        let (by, unit) = UNITS.into_iter().find(|(by, _)| most >= *by * 10.0).unwrap_or((1.0, ""));
        let most = if most > 0.0 { most * HEADROOM } else { 1.0 };
        // Round steps, three to six of them.
        let rough = most / 4.0;
        let power = 10_f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 2.5, 5.0, 10.0].into_iter().map(|by| by * power).find(|step| *step >= rough);
        // Half an id does not exist.
        let step = step.unwrap_or(rough).max(1.0).ceil();
        let count = (most / step).ceil().max(1.0);
        let ticks = (0..=count as u32).map(|at| f64::from(at) * step).map(|at| (at, round_to_tenth(at / by))).collect();
        Self::linear(&format!("{title}{unit}"), 0.0..count * step, ticks)
    }

    fn scale(&self, value: f64) -> f64 {
        if self.logarithmic { value.max(self.range.start).ln() } else { value }
    }
}

impl Ranged for Axis {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, limit: (i32, i32)) -> i32 {
        let linear = RangedCoordf64::from(self.scale(self.range.start)..self.scale(self.range.end));
        linear.map(&self.scale(*value), limit)
    }

    fn key_points<Hint: KeyPointHint>(&self, _: Hint) -> Vec<f64> {
        self.ticks.iter().map(|(at, _)| *at).filter(|at| *at >= self.range.start && *at <= self.range.end).collect()
    }

    fn range(&self) -> Range<f64> {
        self.range.clone()
    }
}

impl ValueFormatter<f64> for Axis {
    fn format_ext(&self, value: &f64) -> String {
        self.ticks.iter().find(|(at, _)| at == value).map(|(_, word)| word.clone()).unwrap_or_default()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SeriesShape {
    Line,
    Filled,
    Dotted,
}

/// Points (x, y) of one series. A point whose y is not a number is a gap.
#[derive(Debug, Clone)]
pub(super) struct Series {
    pub name: String,
    pub color: ChartColor,
    pub shape: SeriesShape,
    pub points: Vec<(f64, f64)>,
}

/// Series to draw; the first is in front of the others.
#[derive(Debug, Clone)]
pub(super) struct Chart {
    /// Description for readers who cannot see the chart.
    pub alt_text: String,
    pub x: Axis,
    pub y: Axis,
    pub series: Vec<Series>,
    /// Vertical lines with their labels.
    pub marks: Vec<(f64, String)>,
}

impl Chart {
    pub(super) fn markup(&self) -> Markup {
        html! {
            figure.chart {
                p.axis { (self.y.title) }
                (PreEscaped(self.svg()))
                p.axis.below { (self.x.title) }
                @if self.series.len() > 1 { (self.legend()) }
            }
        }
    }

    fn legend(&self) -> Markup {
        html! {
            figcaption {
                @for series in &self.series {
                    span.key {
                        svg viewBox="0 0 20 10" aria-hidden="true" focusable="false" {
                            @match series.shape {
                                SeriesShape::Filled => rect width="20" height="10" fill=(series.color.hex()) {},
                                SeriesShape::Line | SeriesShape::Dotted => {
                                    line x1="0" y1="5" x2="20" y2="5" stroke=(series.color.hex()) stroke-width="3" {}
                                }
                            }
                        }
                        (series.name)
                    }
                }
            }
        }
    }

    fn svg(&self) -> String {
        let mut drawing = String::new();
        let drawn = {
            let area = SVGBackend::with_string(&mut drawing, SIZE).into_drawing_area();
            self.draw(&area).and_then(|()| area.present())
        };
        if let Err(error) = drawn {
            // Writing text to a String fails only by a bug of ours.
            tracing::error!(%error, "a chart cannot be drawn");
            return String::new();
        }
        // plotters writes the head for a separate file. Here the drawing fills its box and has a name.
        let inside = drawing.split_once('>').map_or("", |(_, inside)| inside);
        let (width, height) = SIZE;
        let head = html! { (self.alt_text) }.into_string();
        format!("<svg viewBox=\"0 0 {width} {height}\" role=\"img\" aria-label=\"{head}\">{inside}")
    }

    fn draw<Backend: DrawingBackend>(
        &self,
        area: &DrawingArea<Backend, Shift>,
    ) -> Result<(), DrawingAreaErrorKind<Backend::ErrorType>> {
        let mut chart = ChartBuilder::on(area)
            .margin(MARGIN)
            .margin_left(0)
            .margin_bottom(0)
            .margin_top(if self.marks.is_empty() { MARGIN } else { ABOVE })
            .x_label_area_size(BELOW)
            .y_label_area_size(LEFT)
            .build_cartesian_2d(self.x.clone(), self.y.clone())?;
        let words = FONT.into_font().color(&ChartColor::Text.plotters_color());
        let grid = ChartColor::Grid.plotters_color();
        chart
            .configure_mesh()
            .disable_x_mesh()
            .bold_line_style(grid)
            .light_line_style(TRANSPARENT)
            .axis_style(grid)
            .x_label_style(words.clone())
            .y_label_style(words.clone())
            .set_all_tick_mark_size(6)
            .draw()?;
        let (low, high) = (self.y.range.start, self.y.range.end);
        for (at, word) in &self.marks {
            chart.draw_series([PathElement::new(vec![(*at, low), (*at, high)], grid.stroke_width(2))])?;
            let above = words.pos(Pos::new(HPos::Center, VPos::Bottom));
            chart.draw_series([Text::new(word.clone(), (*at, high), above)])?;
        }
        for series in self.series.iter().rev() {
            let color = series.color.plotters_color();
            for points in series.points.split(|(_, y)| y.is_nan()) {
                let points = || points.iter().copied();
                match series.shape {
                    SeriesShape::Filled => {
                        chart.draw_series(AreaSeries::new(points(), low, color))?;
                    }
                    SeriesShape::Line | SeriesShape::Dotted => {
                        chart.draw_series(LineSeries::new(points(), color.stroke_width(3)))?;
                    }
                }
                // A single point makes no line.
                if series.shape == SeriesShape::Dotted || points().len() == 1 {
                    chart.draw_series(points().map(|at| Circle::new(at, 4, color.filled())))?;
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample_chart() -> Chart {
        let series = |name: &str, color, shape| Series {
            name: name.to_owned(),
            color,
            shape,
            points: vec![(1.0, 0.0), (10.0, 50.0), (100.0, 99.0)],
        };
        Chart {
            alt_text: "likes <grow> & \"stay\"".to_owned(),
            x: Axis::logarithmic("age", 1.0..100.0, vec![(1.0, "1s".to_owned()), (10.0, "10s".to_owned())]),
            y: Axis::from_zero("<i>likes", 99.0),
            series: vec![
                series("<b>likes", ChartColor::First, SeriesShape::Dotted),
                series("sum", ChartColor::Stacked(0), SeriesShape::Filled),
            ],
            marks: vec![(10.0, "18m".to_owned())],
        }
    }

    #[test]
    fn a_chart_scales_has_alt_text_and_escapes_words() {
        let markup = sample_chart().markup().into_string();
        assert!(markup.contains("role=\"img\" aria-label=\"likes &lt;grow&gt; &amp; &quot;stay&quot;\""), "{markup}");
        assert!(markup.contains("viewBox=\"0 0 880 380\"") && !markup.contains("<svg width="), "{markup}");
        assert!(markup.contains("&lt;b&gt;likes") && !markup.contains("style="), "{markup}");
        assert!(
            markup.contains(">&lt;i&gt;likes</p>") && markup.contains(">age, on a logarithmic axis</p>"),
            "{markup}"
        );
        for word in ["10s", "18m", "100"] {
            assert!(markup.contains(&format!(">\n{word}\n</text>")), "{word}: {markup}");
        }
    }

    #[test]
    fn decades_are_equally_wide_on_a_logarithmic_axis() {
        let x = sample_chart().x;
        assert_eq!([1.0, 10.0, 100.0].map(|at| x.map(&at, (0, 100))), [0, 50, 100]);
        // A value before the start of the axis is drawn at its edge.
        assert_eq!(x.map(&0.0, (0, 100)), 0);
    }

    #[test]
    fn numbers_on_an_axis_are_round_and_cover_the_most() {
        for (most, last, count, word, title) in [
            (0.0, 1.0, 2, "1", "ids"),
            (3.0, 4.0, 5, "4", "ids"),
            (90.0, 100.0, 5, "100", "ids"),
            (1_234.0, 1_500.0, 4, "1,500", "ids"),
            (0.2, 1.0, 2, "1", "ids"),
            (11_000.0, 15_000.0, 4, "15", "ids, thousands"),
            (34e6, 40e6, 5, "40", "ids, millions"),
        ] {
            let axis = Axis::from_zero("ids", most);
            assert_eq!((axis.range.end, axis.ticks.len(), &*axis.title), (last, count, title), "{most}");
            assert_eq!(axis.ticks.last().unwrap().1, word);
        }
    }

    #[test]
    fn every_color_has_its_value_in_both_schemes() {
        let css = include_str!("page.css");
        let colors = [ChartColor::Text, ChartColor::Grid, ChartColor::First, ChartColor::Second, ChartColor::Third];
        for color in colors.into_iter().chain((0..STACKED_COLORS).map(ChartColor::Stacked)) {
            let hex = color.hex();
            assert!(css.contains(&format!("[fill=\"{hex}\"]")), "{color:?} {hex} is not filled by page.css");
            assert!(css.contains(&format!("[stroke=\"{hex}\"]")), "{color:?} {hex} is not drawn by page.css");
        }
        let markup = sample_chart().markup().into_string();
        let known: Vec<String> =
            colors.into_iter().chain((0..STACKED_COLORS).map(ChartColor::Stacked)).map(ChartColor::hex).collect();
        for attribute in ["fill=\"#", "stroke=\"#"] {
            for (at, _) in markup.match_indices(attribute) {
                let start = at + attribute.len() - 1;
                let hex = &markup[start..start + 7];
                assert!(known.iter().any(|color| color == hex), "{hex} is no ChartColor");
            }
        }
    }
}
