//! Plots as SVG: panels side by side, each with points, their quartiles, and what a paper reports.

use std::fmt::Display;

use plotters::coord::Shift;
use plotters::coord::ranged1d::{DefaultFormatting, KeyPointHint, Ranged};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

// All lengths are in pixels.
const WIDTH: u32 = 470;
const HEIGHT: u32 = 350;
const LEGEND_LINE: i32 = 17;
const PANELS_IN_A_ROW: usize = 2;
const MARKS: usize = 3;
const FONT: &str = "sans-serif";

/// Colours that people of all kinds of sight tell apart (Okabe and Ito).
const COLOURS: [RGBColor; 7] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(86, 180, 233),
    RGBColor(230, 159, 0),
    RGBColor(60, 60, 60),
];
const PAPER: RGBColor = RGBColor(130, 130, 130);
const WARNING: RGBColor = RGBColor(180, 0, 0);
const WARNING_HEIGHT: u32 = 26;

/// One coordinate system.
#[derive(Clone, Debug)]
pub struct Panel {
    /// What is shown.
    pub title: String,
    /// What stands along the bottom,
    pub x: Axis,
    /// and along the left.
    pub y: Axis,
    /// What is drawn.
    pub series: Vec<Series>,
}

/// One axis, with its unit.
#[derive(Clone, Debug)]
pub struct Axis {
    /// Quantity and unit.
    pub label: &'static str,
    /// How values are spread over it.
    pub scale: Scale,
}

/// How values are spread over an axis.
#[derive(Clone, Debug, PartialEq)]
pub enum Scale {
    /// From 0 on.
    Linear,
    /// Each step a multiple of the one before.
    Log,
    /// Value n is the name with that number.
    Names(Vec<String>),
}

/// Points that belong together.
#[derive(Clone, Debug, Default)]
pub struct Series {
    /// What the legend says.
    pub name: String,
    /// In the order of their x.
    pub points: Vec<Point>,
    /// Whether a paper says so, and not a measurement.
    pub is_of_paper: bool,
}

/// A median, with quartiles where there are any.
#[derive(Clone, Copy, Debug)]
pub struct Point {
    /// Where it stands.
    pub x: f64,
    /// The median.
    pub y: f64,
    /// The quartiles.
    pub quartiles: Option<[f64; 2]>,
}

impl Axis {
    /// From 0 on.
    pub const fn linear(label: &'static str) -> Axis {
        Axis { label, scale: Scale::Linear }
    }

    /// In multiples.
    pub const fn log(label: &'static str) -> Axis {
        Axis { label, scale: Scale::Log }
    }

    /// Of names.
    pub fn names<T: Display>(label: &'static str, names: impl IntoIterator<Item = T>) -> Axis {
        Axis { label, scale: Scale::Names(names.into_iter().map(|name| name.to_string()).collect()) }
    }

    /// Whether there is a place for a value: none for zero where the axis is logarithmic, nor for what is not known.
    fn has(&self, value: f64) -> bool {
        value.is_finite() && (value > 0.0 || !matches!(self.scale, Scale::Log))
    }

    /// From where to where it goes, and where values are written, so that all these are on it.
    fn coordinates(&self, values: &[f64], is_bottom: bool) -> Coordinates {
        let mut distinct: Vec<f64> = values.iter().copied().filter(|value| self.has(*value)).collect();
        distinct.sort_by(f64::total_cmp);
        distinct.dedup();
        let (least, most) = match distinct[..] {
            [first, .., last] => (first, last),
            [only] => (only, only),
            [] => (1.0, 1.0),
        };
        match &self.scale {
            Scale::Names(names) => {
                let ticks = (0..names.len()).map(|n| n as f64).collect();
                Coordinates { range: -0.5..names.len() as f64 - 0.5, is_log: false, ticks }
            }
            Scale::Linear => {
                let high = if most <= 0.0 { 1.0 } else { 1.08 * most };
                let step = step(high / 6.0);
                let ticks = (0..=(high / step) as usize).map(|n| n as f64 * step).collect();
                Coordinates { range: least.min(0.0)..high, is_log: false, ticks }
            }
            Scale::Log => {
                let (low, high) = (least / 1.2, most.max(least) * 1.2);
                let few = is_bottom && distinct.len() <= 9;
                let ticks = if few { distinct } else { ticks_between(low, high) };
                Coordinates { range: low..high, is_log: true, ticks }
            }
        }
    }

    /// What is written at a value.
    fn written(&self, value: f64) -> String {
        match &self.scale {
            Scale::Names(names) => names.get(value.round() as usize).cloned().unwrap_or_default(),
            Scale::Linear | Scale::Log => number(value),
        }
    }
}

/// Where values are drawn along an axis, and at which of them something is written.
struct Coordinates {
    range: std::ops::Range<f64>,
    is_log: bool,
    ticks: Vec<f64>,
}

impl Ranged for Coordinates {
    type FormatOption = DefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, (from, to): (i32, i32)) -> i32 {
        let place = |value: f64| if self.is_log { value.ln() } else { value };
        let (start, end) = (place(self.range.start), place(self.range.end));
        let part = (place(*value) - start) / (end - start);
        from + (part * f64::from(to - from)).round() as i32
    }

    fn key_points<H: KeyPointHint>(&self, _hint: H) -> Vec<f64> {
        self.ticks.clone()
    }

    fn range(&self) -> std::ops::Range<f64> {
        self.range.clone()
    }
}

/// 1, 2 or 5 times a power of ten, about as large as this.
fn step(about: f64) -> f64 {
    let power = 10f64.powf(about.log10().floor());
    let times = [1.0, 2.0, 5.0, 10.0].into_iter().find(|times| times * power >= about);
    times.unwrap_or(10.0) * power
}

fn ticks_between(low: f64, high: f64) -> Vec<f64> {
    let decades = (high / low).log10();
    let times: &[f64] = if decades > 3.0 { &[1.0] } else { &[1.0, 2.0, 5.0] };
    let powers = low.log10().floor() as i32..=high.log10().ceil() as i32;
    let all = powers.flat_map(|power| times.iter().map(move |times| times * 10f64.powi(power)));
    all.filter(|tick| (low..=high).contains(tick)).collect()
}

/// A number as short as it can be read.
fn number(value: f64) -> String {
    let short = |value: f64, unit: &str| {
        let text = format!("{value:.2}");
        format!("{}{unit}", text.trim_end_matches('0').trim_end_matches('.'))
    };
    match value.abs() {
        0.0 => "0".into(),
        v if v >= 999_999.5 => short(value / 1e6, "M"),
        v if v >= 9_999.5 => short(value / 1e3, "k"),
        v if v >= 0.01 => short(value, ""),
        _ => format!("{value:.0e}"),
    }
}

impl Series {
    /// Of points without quartiles, as a paper has them.
    pub fn of_paper(name: impl Into<String>, points: impl IntoIterator<Item = (f64, f64)>) -> Series {
        let points = points.into_iter().map(|(x, y)| Point { x, y, quartiles: None }).collect();
        Series { name: name.into(), points, is_of_paper: true }
    }

    /// Of points that were measured.
    pub fn new(name: impl Into<String>, points: impl IntoIterator<Item = Point>) -> Series {
        Series { name: name.into(), points: points.into_iter().collect(), is_of_paper: false }
    }
}

/// All panels as one picture, under a warning if there is one.
///
/// # Errors
/// What cannot be drawn.
pub fn svg(panels: &[Panel], warning: Option<&str>) -> Result<String, String> {
    let heights: Vec<u32> = panels
        .chunks(PANELS_IN_A_ROW)
        .map(|row| {
            let most = row.iter().map(|panel| panel.series.len()).max().unwrap_or(0);
            HEIGHT + (most as i32 * LEGEND_LINE) as u32
        })
        .collect();
    let above = if warning.is_some() { WARNING_HEIGHT } else { 0 };
    let width = WIDTH * panels.len().clamp(1, PANELS_IN_A_ROW) as u32;
    let size = (width, above + heights.iter().sum::<u32>().max(1));
    let mut text = String::new();
    {
        let root = SVGBackend::with_string(&mut text, size).into_drawing_area();
        root.fill(&WHITE).map_err(|error| error.to_string())?;
        if let Some(warning) = warning {
            let style = (FONT, 13, &WARNING).into_text_style(&root).pos(Pos::new(HPos::Left, VPos::Center));
            let text = Text::new(warning, (12, WARNING_HEIGHT as i32 / 2), style);
            root.draw(&text).map_err(|error| error.to_string())?;
        }
        let mut top = above;
        for (row, height) in panels.chunks(PANELS_IN_A_ROW).zip(heights) {
            for (column, panel) in row.iter().enumerate() {
                let area = root.clone().shrink((column as u32 * WIDTH, top), (WIDTH, height));
                panel.draw(&area)?;
            }
            top += height;
        }
        root.present().map_err(|error| error.to_string())?;
    }
    Ok(text)
}

type Area<'t> = DrawingArea<SVGBackend<'t>, Shift>;

impl Panel {
    fn draw(&self, area: &Area<'_>) -> Result<(), String> {
        let (chart, legend) = area.split_vertically(HEIGHT);
        let places: Vec<f64> = self.points().map(|point| point.x).collect();
        let values: Vec<f64> = self
            .points()
            .flat_map(|point| [Some(point.y), point.quartiles.map(|q| q[0]), point.quartiles.map(|q| q[1])])
            .flatten()
            .collect();
        let (x, y) = (self.x.coordinates(&places, true), self.y.coordinates(&values, false));
        let mut chart = ChartBuilder::on(&chart)
            .caption(&self.title, (FONT, 14))
            .margin(10)
            .margin_right(18)
            .x_label_area_size(42)
            .y_label_area_size(58)
            .build_cartesian_2d(x, y)
            .map_err(|error| error.to_string())?;
        chart
            .configure_mesh()
            .disable_x_mesh()
            .light_line_style(TRANSPARENT)
            .bold_line_style(RGBColor(225, 225, 225))
            .axis_style(RGBColor(90, 90, 90))
            .label_style((FONT, 12))
            .axis_desc_style((FONT, 12))
            .x_desc(self.x.label)
            .y_desc(self.y.label)
            .x_label_formatter(&|place| self.x.written(*place))
            .y_label_formatter(&|place| self.y.written(*place))
            .draw()
            .map_err(|error| error.to_string())?;
        let is_joined = !matches!(self.x.scale, Scale::Names(_));
        for (number, series) in self.series.iter().enumerate() {
            let colour = self.colour(number);
            let is_placed = |point: &&Point| self.x.has(point.x) && self.y.has(point.y);
            let points = || series.points.iter().filter(is_placed);
            let line: Vec<_> = points().map(|point| (point.x, point.y)).collect();
            if is_joined && series.is_of_paper {
                chart.draw_series(DashedLineSeries::new(line.iter().copied(), 5, 4, colour.stroke_width(1)))
            } else if is_joined {
                chart.draw_series(LineSeries::new(line.iter().copied(), colour.stroke_width(1)))
            } else {
                chart.draw_series(std::iter::empty::<PathElement<_>>())
            }
            .map_err(|error| error.to_string())?;
            let spreads = points().filter_map(|point| {
                let ends = point.quartiles.filter(|ends| ends.iter().all(|y| self.y.has(*y)))?;
                let ends = ends.map(|y| (point.x, y));
                Some(PathElement::new(ends.to_vec(), colour.stroke_width(2)))
            });
            chart.draw_series(spreads).map_err(|error| error.to_string())?;
            // Marks differ from series to series as colours do.
            match number % MARKS {
                0 => chart.draw_series(line.iter().map(|&at| Circle::new(at, 4, colour.filled()))),
                1 => chart.draw_series(line.iter().map(|&at| TriangleMarker::new(at, 5, colour.filled()))),
                _ => chart.draw_series(line.iter().map(|&at| Cross::new(at, 4, colour.stroke_width(2)))),
            }
            .map_err(|error| error.to_string())?;
        }
        for (number, series) in self.series.iter().enumerate() {
            self.explain(&legend, number, series)?;
        }
        Ok(())
    }

    fn points(&self) -> impl Iterator<Item = &Point> {
        self.series.iter().flat_map(|series| &series.points)
    }

    /// What the paper says is grey; what was measured has colours of its own.
    fn colour(&self, number: usize) -> RGBColor {
        if self.series[number].is_of_paper {
            return PAPER;
        }
        let before = self.series[..number].iter().filter(|series| !series.is_of_paper).count();
        COLOURS[before % COLOURS.len()]
    }

    /// A line of the legend.
    fn explain(&self, legend: &Area<'_>, number: usize, series: &Series) -> Result<(), String> {
        let (x, y) = (66, number as i32 * LEGEND_LINE + 4);
        let colour = self.colour(number);
        if !matches!(self.x.scale, Scale::Names(_)) {
            let line = PathElement::new(vec![(x - 14, y), (x + 14, y)], colour.stroke_width(1));
            legend.draw(&line).map_err(|error| error.to_string())?;
        }
        match number % MARKS {
            0 => legend.draw(&Circle::new((x, y), 4, colour.filled())),
            1 => legend.draw(&TriangleMarker::new((x, y), 5, colour.filled())),
            _ => legend.draw(&Cross::new((x, y), 4, colour.stroke_width(2))),
        }
        .map_err(|error| error.to_string())?;
        let style = (FONT, 12).into_text_style(legend).pos(Pos::new(HPos::Left, VPos::Center));
        legend.draw(&Text::new(series.name.clone(), (x + 22, y), style)).map_err(|error| error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_ticks_can_be_read() {
        assert_eq!([0.0, 0.25, 3.0, 12_000.0, 2.5e6].map(number), ["0", "0.25", "3", "12k", "2.5M"]);
        let axis = Axis::linear("ns");
        assert_eq!(axis.coordinates(&[10.0, 95.0], false).ticks, [0.0, 20.0, 40.0, 60.0, 80.0, 100.0]);
        assert_eq!(ticks_between(9.0, 110.0), [10.0, 20.0, 50.0, 100.0]);
        // Along the bottom, values stand where they are.
        let coordinates = Axis::log("SLF").coordinates(&[1.0, 32.0, 4.0, 4.0], true);
        assert_eq!(coordinates.ticks, [1.0, 4.0, 32.0]);
        assert_eq!([1.0 / 1.2, 38.4].map(|end| coordinates.map(&end, (10, 410))), [10, 410]);
    }

    #[test]
    fn everything_is_in_the_picture() {
        let point = |x, y| Point { x, y, quartiles: Some([y - 1.0, y + 1.0]) };
        let ours = Series::new("here", [point(1.0, 20.0), point(2.0, 30.0)]);
        let theirs = Series::of_paper("the paper", [(1.0, 40.0), (2.0, 45.0)]);
        let series = vec![ours, theirs];
        let panel = |x: Axis| Panel {
            title: "Cost".into(),
            x,
            y: Axis::linear("ns per packet"),
            series: series.clone(),
        };
        let named = Axis::names("kind", ["first", "second", "third"]);
        let panels = [panel(Axis::log("SLF")), panel(named), panel(Axis::linear("load"))];
        let text = svg(&panels, None).unwrap();
        for said in ["Cost", "SLF", "ns per packet", "here", "the paper", "second", "load"] {
            assert!(text.contains(said), "{said} is not in {text}");
        }
        assert!(!text.contains("NaN"));
        // Nothing that was measured is no picture to fail over.
        let nothing = [Panel { series: Vec::new(), ..panel(Axis::log("SLF")) }];
        let warned = svg(&nothing, Some("The machine was busy")).unwrap();
        assert!(warned.contains("The machine was busy") && !svg(&nothing, None).unwrap().contains("busy"));
    }
}
