//! Plots as SVG: lines, steps, bands and bars over linear or logarithmic axes.
//!
//! The colours are the palette of Okabe and Ito, which people with any colour vision can distinguish.
//! Dashes distinguish the series in print without colours.

use std::fmt::Write;

const WIDTH: f64 = 460.0;
const HEIGHT: f64 = 300.0;
const LEFT: f64 = 66.0;
const RIGHT: f64 = 24.0;
/// The height in SVG units of the margin above the plot, for the legend and the label of a bar that reaches
/// to the top.
const TOP: f64 = 40.0;
const BOTTOM: f64 = 48.0;
/// The font size.
const LETTERS: f64 = 12.5;
/// The average width of a letter of the plot's labels, in SVG units.
const LETTER: f64 = 7.2;
/// The smallest horizontal distance, in SVG units, between two points of a step line that have a tooltip.
const APART: f64 = 6.0;

const COLOURS: [&str; 4] = ["#0072b2", "#d55e00", "#009e73", "#cc79a7"];
const DASHES: [&str; 4] = ["none", "7 3", "2 3", "9 3 2 3"];

/// The mapping of values to positions along an axis.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Scale {
    Linear,
    /// A logarithmic scale with ticks at powers of this base. If the axis begins below 1, the value 0 is
    /// drawn at its left end.
    Log(f64),
}

/// An axis of a plot.
pub(super) struct Axis {
    pub(super) label: &'static str,
    pub(super) scale: Scale,
    pub(super) range: (f64, f64),
    /// Formats a value as the label of a tick.
    pub(super) tick: fn(f64) -> String,
    /// Formats a value in a tooltip.
    pub(super) value: fn(f64) -> String,
}

impl Axis {
    /// Makes a logarithmic axis for values from `values.0` to `values.1`, extended to powers of `base`. If
    /// the smallest value is below 1, there is room for the value 0 to the left of 1.
    pub(super) fn log(label: &'static str, base: f64, values: (f64, f64), tick: fn(f64) -> String) -> Axis {
        let high = base.powf(values.1.max(base).log(base).ceil());
        // Leaves room for the labels of both 0 and 1 at the left end.
        let low = if values.0 < 1.0 { high.powf(-0.08) } else { base.powf(values.0.log(base).floor()) };
        let high = high.max(low * base);
        Axis { label, scale: Scale::Log(base), range: (low, high), tick, value: tick }
    }

    /// Makes a linear axis from `low` to the first tick that is at least `high`; there is at least one step.
    pub(super) fn linear(label: &'static str, low: f64, high: f64, tick: fn(f64) -> String) -> Axis {
        let step = step(high - low);
        let top = low + ((high - low) / step).ceil().max(1.0) * step;
        Axis { label, scale: Scale::Linear, range: (low, top), tick, value: tick }
    }

    /// Makes a linear axis for shares from 0 to 1, which are shown as percentages.
    pub(super) fn share(label: &'static str) -> Axis {
        Axis {
            label,
            scale: Scale::Linear,
            range: (0.0, 1.0),
            tick: |value| format!("{:.0} %", value * 100.0),
            value: |value| format!("{:.1} %", value * 100.0),
        }
    }

    /// Returns the relative position of a value along the axis, from 0 (start) to 1 (end).
    fn place(&self, value: f64) -> f64 {
        let (low, high) = self.range;
        let place = match self.scale {
            Scale::Linear => (value - low) / (high - low),
            Scale::Log(_) => (value.max(low) / low).ln() / (high / low).ln(),
        };
        place.clamp(0.0, 1.0)
    }

    fn ticks(&self) -> Vec<f64> {
        let (low, high) = self.range;
        match self.scale {
            Scale::Linear => {
                let step = step(high - low);
                let count = ((high - low) / step).round() as u32;
                (0..=count).map(|n| low + f64::from(n) * step).collect()
            }
            Scale::Log(base) => {
                let last = (high.ln() / base.ln()).round() as i32;
                let first = (low.max(1.0).ln() / base.ln()).round() as i32;
                let stride = (last - first) / 11 + 1;
                let zero = (low < 1.0).then_some(low);
                // If there are few powers of ten, there is room for ticks between them.
                let between: &[f64] =
                    if base == 10.0 && last - first <= 2 { &[1.0, 2.0, 5.0] } else { &[1.0] };
                let powers = (first..=last).step_by(stride as usize).map(|n| base.powi(n));
                let ticks = powers.flat_map(|power| between.iter().map(move |factor| factor * power));
                zero.into_iter().chain(ticks.filter(|&tick| tick <= high * 1.001)).collect()
            }
        }
    }

    /// Returns the label of the axis, which also says if the scale is logarithmic.
    fn described(&self) -> String {
        match self.scale {
            Scale::Linear => self.label.into(),
            Scale::Log(_) => format!("{} (log)", self.label),
        }
    }

    /// Returns the relative position of the break sign, which stands between the values 0 and 1 of a
    /// logarithmic axis; `None` for axes that do not show the value 0, and for linear axes.
    fn gap(&self) -> Option<f64> {
        let (low, _) = self.range;
        (matches!(self.scale, Scale::Log(_)) && low < 1.0).then(|| self.place(low.sqrt()))
    }

    fn label_of(&self, tick: f64) -> String {
        match self.scale {
            Scale::Log(_) if tick < 1.0 => "0".to_string(),
            _ => (self.tick)(tick),
        }
    }
}

/// Returns the distance of ticks that divides a range into about five parts: 1, 2 or 5 times a power of
/// ten.
fn step(range: f64) -> f64 {
    let rough = (range / 5.0).max(1e-9);
    let power = 10f64.powf(rough.log10().floor());
    let factor = [1.0, 2.0, 5.0, 10.0].into_iter().find(|factor| factor * power >= rough * 0.999);
    factor.unwrap_or(10.0) * power
}

/// The points of a series as (x, y), and the way in which they are drawn.
pub(super) enum Shape {
    /// Straight lines from point to point, with dots.
    Line(Vec<(f64, f64)>),
    /// A step function: each y holds up to the x of the next point, and the last y up to the right edge.
    Steps(Vec<(f64, f64)>),
    /// A filled area between a lower and an upper y at each x: points (x, low, high).
    Band(Vec<(f64, f64, f64)>),
}

/// A series: a name and its points.
pub(super) struct Series {
    pub(super) name: &'static str,
    pub(super) shape: Shape,
}

/// A plot of series over two axes.
pub(super) struct Plot {
    pub(super) x: Axis,
    pub(super) y: Axis,
    pub(super) series: Vec<Series>,
}

impl Plot {
    /// Returns the plot as an SVG element. `title` is shown to screen readers.
    pub(super) fn svg(&self, title: &str) -> String {
        let names: Vec<&str> = self.series.iter().map(|series| series.name).collect();
        let mut canvas = Canvas::new(title, &about(&self.y, &self.x.described(), &names));
        canvas.grid(&self.x, &self.y);
        let at = |x: f64, y: f64| (LEFT + self.x.place(x) * inner_width(), y_place(&self.y, y));
        for (n, series) in self.series.iter().enumerate() {
            let (colour, dash) = (COLOURS[n % 4], DASHES[n % 4]);
            match &series.shape {
                Shape::Line(points) => {
                    let line: Vec<_> = points.iter().map(|&(x, y)| at(x, y)).collect();
                    canvas.path(&line, colour, dash);
                    for (place, point) in line.into_iter().zip(points) {
                        canvas.point(place, 3.0, colour, &self.said(series.name, *point));
                    }
                }
                Shape::Steps(points) => {
                    let mut path = Vec::new();
                    let mut last = None;
                    for &(x, y) in points {
                        let point = at(x, y);
                        path.extend(last.map(|before: (f64, f64)| (point.0, before.1)));
                        path.push(point);
                        last = Some(point);
                    }
                    path.extend(last.map(|before| (WIDTH - RIGHT, before.1)));
                    canvas.path(&path, colour, dash);
                    // Instead of dots, steps have invisible points with tooltips, at distances of at least
                    // APART.
                    let mut before = f64::NEG_INFINITY;
                    for &(x, y) in points {
                        let place = at(x, y);
                        if place.0 - before >= APART {
                            canvas.point(place, APART / 2.0, "transparent", &self.said(series.name, (x, y)));
                            before = place.0;
                        }
                    }
                }
                Shape::Band(points) => {
                    let upper = points.iter().map(|&(x, _, high)| at(x, high));
                    let lower = points.iter().rev().map(|&(x, low, _)| at(x, low));
                    let outline: String =
                        upper.chain(lower).map(|(x, y)| format!("{x:.1},{y:.1} ")).collect();
                    let _ = write!(
                        canvas.text,
                        r#"<polygon points="{outline}" fill="{colour}" fill-opacity="{BAND_OPACITY}"/>"#
                    );
                }
            }
        }
        let band = |shape: &Shape| matches!(shape, Shape::Band(_)).then_some(BAND_OPACITY);
        let keys: Vec<_> = self.series.iter().map(|s| (s.name, band(&s.shape))).collect();
        canvas.legend(&keys);
        canvas.finish()
    }

    /// Returns the tooltip of a point: the name of its series, its x and its y.
    fn said(&self, name: &str, (x, y): (f64, f64)) -> String {
        let x = if self.x.gap().is_some() && x < 1.0 { "0".to_string() } else { (self.x.value)(x) };
        format!("{name}: {}, {x}: {}", self.x.label, (self.y.value)(y))
    }
}

/// Returns the description of a plot for screen readers.
fn about(y: &Axis, x: &str, names: &[&str]) -> String {
    format!("{} over {x}: {}.", y.described(), names.join(", "))
}

/// A bar chart: groups of bars side by side, with one bar per series in each group.
pub(super) struct Bars {
    pub(super) x_label: &'static str,
    pub(super) y: Axis,
    pub(super) names: Vec<&'static str>,
    /// The label of each group, and the value of each series in the order of `names`.
    pub(super) groups: Vec<(String, Vec<f64>)>,
}

impl Bars {
    /// Returns the chart as an SVG element. `title` is shown to screen readers.
    pub(super) fn svg(&self, title: &str) -> String {
        let mut canvas = Canvas::new(title, &about(&self.y, self.x_label, &self.names));
        canvas.horizontal(&self.y);
        canvas.x_label(self.x_label);
        let slot = inner_width() / self.groups.len().max(1) as f64;
        let width = (slot * 0.7 / self.names.len().max(1) as f64).min(44.0);
        for (n, (label, values)) in self.groups.iter().enumerate() {
            let middle = LEFT + (n as f64 + 0.5) * slot;
            canvas.words(middle, HEIGHT - BOTTOM + 15.0, "middle", label);
            let start = middle - width * values.len() as f64 / 2.0;
            for (k, &value) in values.iter().enumerate() {
                let (x, y) = (start + k as f64 * width, y_place(&self.y, value));
                let (height, colour, bar) = (HEIGHT - BOTTOM - y, COLOURS[k % 4], width - 2.0);
                let opacity = bar_opacity(k);
                let name = self.names.get(k).copied().unwrap_or_default();
                let said = escape(&format!("{name}: {}, {label}: {}", self.x_label, (self.y.value)(value)));
                let _ = write!(
                    canvas.text,
                    r#"<rect x="{x:.1}" y="{y:.1}" width="{bar:.1}" height="{height:.1}" fill="{colour}" fill-opacity="{opacity}"><title>{said}</title></rect>"#
                );
                canvas.words(x + bar / 2.0, y - 3.0, "middle", &(self.y.tick)(value));
            }
        }
        let keys: Vec<_> =
            self.names.iter().enumerate().map(|(k, &name)| (name, Some(bar_opacity(k)))).collect();
        canvas.legend(&keys);
        canvas.finish()
    }
}

/// The opacity of the area of a [`Shape::Band`].
const BAND_OPACITY: f64 = 0.2;

/// Returns the opacity of the bars of a series. The bars of the first series are darker, so that they
/// differ from the others in print without colours.
fn bar_opacity(series: usize) -> f64 {
    if series == 0 { 0.9 } else { 0.55 }
}

fn inner_width() -> f64 {
    WIDTH - LEFT - RIGHT
}

fn y_place(axis: &Axis, value: f64) -> f64 {
    HEIGHT - BOTTOM - axis.place(value) * (HEIGHT - TOP - BOTTOM)
}

struct Canvas {
    text: String,
}

impl Canvas {
    /// Starts an SVG element with this title and description. Its background is white, so that it is
    /// readable on pages of any colour.
    fn new(title: &str, about: &str) -> Canvas {
        let (title, about) = (escape(title), escape(about));
        let text = format!(
            r##"<svg xmlns="http://www.w3.org/2000/svg" role="img" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="'DejaVu Sans', Arial, sans-serif" font-size="{LETTERS}" fill="#222"><title>{title}</title><desc>{about}</desc><rect width="{WIDTH}" height="{HEIGHT}" rx="4" fill="#fff"/>"##
        );
        Canvas { text }
    }

    /// Adds a dot whose tooltip is `said`.
    fn point(&mut self, (x, y): (f64, f64), radius: f64, colour: &str, said: &str) {
        let said = escape(said);
        let _ = write!(
            self.text,
            r#"<circle cx="{x:.1}" cy="{y:.1}" r="{radius}" fill="{colour}"><title>{said}</title></circle>"#
        );
    }

    fn finish(mut self) -> String {
        let (height, width) = (HEIGHT - TOP - BOTTOM, inner_width());
        let _ = write!(
            self.text,
            r##"<rect x="{LEFT}" y="{TOP}" width="{width}" height="{height}" fill="none" stroke="#666"/></svg>"##
        );
        self.text
    }

    fn words(&mut self, x: f64, y: f64, anchor: &str, words: &str) {
        let words = escape(words);
        let _ = write!(self.text, r#"<text x="{x:.1}" y="{y:.1}" text-anchor="{anchor}">{words}</text>"#);
    }

    fn line(&mut self, from: (f64, f64), to: (f64, f64)) {
        let ((x1, y1), (x2, y2)) = (from, to);
        let _ = write!(
            self.text,
            r##"<line x1="{x1:.1}" y1="{y1:.1}" x2="{x2:.1}" y2="{y2:.1}" stroke="#ddd"/>"##
        );
    }

    fn path(&mut self, points: &[(f64, f64)], colour: &str, dash: &str) {
        let points: String = points.iter().map(|(x, y)| format!("{x:.1},{y:.1} ")).collect();
        let _ = write!(
            self.text,
            r#"<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="1.8" stroke-dasharray="{dash}"/>"#
        );
    }

    fn grid(&mut self, x: &Axis, y: &Axis) {
        self.horizontal(y);
        self.x_label(&x.described());
        if let Some(gap) = x.gap() {
            self.gap(LEFT + gap * inner_width());
        }
        for tick in x.ticks() {
            let place = LEFT + x.place(tick) * inner_width();
            self.line((place, TOP), (place, HEIGHT - BOTTOM));
            self.words(place, HEIGHT - BOTTOM + 15.0, "middle", &x.label_of(tick));
        }
    }

    /// Draws the break sign of an axis: two strokes through the bottom line of the frame at x position
    /// `middle`.
    fn gap(&mut self, middle: f64) {
        for x in [middle - 2.0, middle + 2.0] {
            let (left, right, low, high) = (x - 2.0, x + 2.0, HEIGHT - BOTTOM + 5.0, HEIGHT - BOTTOM - 5.0);
            let _ = write!(
                self.text,
                r##"<line class="gap" x1="{left:.1}" y1="{low:.1}" x2="{right:.1}" y2="{high:.1}" stroke="#666"/>"##
            );
        }
    }

    fn horizontal(&mut self, y: &Axis) {
        for tick in y.ticks() {
            let place = y_place(y, tick);
            self.line((LEFT, place), (WIDTH - RIGHT, place));
            self.words(LEFT - 5.0, place + 4.0, "end", &y.label_of(tick));
        }
        let (middle, label) = (TOP + (HEIGHT - TOP - BOTTOM) / 2.0, escape(&y.described()));
        let _ = write!(
            self.text,
            r#"<text transform="translate(14 {middle:.1}) rotate(-90)" text-anchor="middle">{label}</text>"#
        );
    }

    fn x_label(&mut self, label: &str) {
        self.words(LEFT + inner_width() / 2.0, HEIGHT - 10.0, "middle", label);
    }

    /// Adds the legend above the plot: for each series its name, with a sample of its area if an opacity is
    /// given, else of its line.
    fn legend(&mut self, names: &[(&str, Option<f64>)]) {
        // A single series needs no legend.
        if names.len() < 2 {
            return;
        }
        let mut x = LEFT;
        for (n, (name, opacity)) in names.iter().enumerate() {
            let (colour, dash, end) = (COLOURS[n % 4], DASHES[n % 4], x + 22.0);
            let sample = if let Some(opacity) = opacity {
                format!(
                    r#"<rect x="{x:.1}" y="10" width="22" height="9" fill="{colour}" fill-opacity="{opacity}"/>"#
                )
            } else {
                format!(
                    r#"<line x1="{x:.1}" y1="15" x2="{end:.1}" y2="15" stroke="{colour}" stroke-width="1.8" stroke-dasharray="{dash}"/>"#
                )
            };
            self.text.push_str(&sample);
            self.words(end + 4.0, 19.0, "start", name);
            x = end + 18.0 + LETTER * name.chars().count() as f64;
        }
    }
}

/// Escapes the characters that have a meaning in HTML and SVG: &, <, > and ".
pub(super) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            _ => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_reach_over_their_values() {
        let axis = Axis::log("", 10.0, (0.0, 1234.0), |value| value.to_string());
        assert_eq!(axis.ticks()[1..], [1.0, 10.0, 100.0, 1000.0, 10_000.0]);
        assert_eq!((axis.place(0.0), axis.place(10_000.0)), (0.0, 1.0));
        assert_eq!(axis.label_of(axis.ticks()[0]), "0");
        let axis = Axis::log("", 10.0, (60.0, 1500.0), |value| value.to_string());
        assert_eq!(axis.ticks(), [10.0, 100.0, 1000.0, 10_000.0]);
        let axis = Axis::log("few", 10.0, (1.0, 8.0), |value| format!("{value}"));
        assert_eq!(axis.ticks(), [1.0, 2.0, 5.0, 10.0]);
        let axis = Axis::linear("", 1.0, 3.3, |value| value.to_string());
        assert_eq!(axis.range, (1.0, 3.5));
        assert_eq!(axis.place(2.25), 0.5);
        // The range of the axis is empty, but positions must not be the result of a division by zero.
        assert!(Axis::linear("", 0.0, 0.0, |value| value.to_string()).place(0.0).is_finite());
    }

    #[test]
    fn names_do_not_become_markup() {
        assert_eq!(escape("a<b> & \"c\""), "a&lt;b&gt; &amp; &quot;c&quot;");
    }

    fn share_of(name: &'static str) -> Series {
        Series { name, shape: Shape::Steps(vec![(0.0, 0.25), (1.0, 0.5), (200.0, 1.0)]) }
    }

    #[test]
    fn plots_say_what_they_are_and_have_their_own_ground() {
        let x = Axis::log("distance <", 10.0, (0.0, 200.0), |value| format!("{value:.0}"));
        let svg =
            Plot { x, y: Axis::share("packets"), series: vec![share_of("all & more")] }.svg("A \"plot\"");
        assert!(svg.starts_with("<svg ") && svg.split('>').next().unwrap().contains("role=\"img\""));
        assert!(svg.contains(
            "<title>A &quot;plot&quot;</title><desc>packets over distance &lt; (log): all &amp; more.</desc>"
        ));
        assert!(svg.contains("</desc><rect width=\"460\" height=\"300\" rx=\"4\" fill=\"#fff\"/>"));
        assert!(svg.contains(">distance &lt; (log)</text>") && !svg.contains("packets (log)"));
    }

    #[test]
    fn a_single_series_has_no_legend() {
        let x = || Axis::log("distance", 10.0, (0.0, 200.0), |value| format!("{value:.0}"));
        let names = |names: &[&'static str]| {
            let series = names.iter().map(|name| share_of(name)).collect();
            Plot { x: x(), y: Axis::share("packets"), series }.svg("").matches("all</text>").count()
        };
        assert_eq!([names(&["all"]), names(&["all", "some"])], [0, 1]);
    }

    #[test]
    fn points_and_bars_say_their_values() {
        let x = Axis::log("window (µs)", 2.0, (1.0, 1024.0), |value| format!("{value:.0}"));
        let y = || Axis::share("packets");
        let line = Series { name: "mean", shape: Shape::Line(vec![(1.0, 0.125), (64.0, 0.5)]) };
        let svg = Plot { x, y: y(), series: vec![line] }.svg("");
        for said in ["mean: window (µs), 1: 12.5 %", "mean: window (µs), 64: 50.0 %"] {
            assert!(svg.contains(&format!("<title>{said}</title></circle>")), "{said} is not in {svg}");
        }
        let x = Axis::log("distance", 10.0, (0.0, 200.0), |value| format!("{value:.0}"));
        let svg = Plot { x, y: y(), series: vec![share_of("all")] }.svg("");
        for said in ["all: distance, 0: 25.0 %", "all: distance, 200: 100.0 %"] {
            assert!(svg.contains(&format!("<title>{said}</title></circle>")), "{said} is not in {svg}");
        }
        let groups = vec![("32".to_string(), vec![0.5, 0.25])];
        let bars = Bars { x_label: "batch", y: y(), names: vec!["as is", "<ordered>"], groups }.svg("");
        assert!(bars.contains("<title>&lt;ordered&gt;: batch, 32: 25.0 %</title></rect>"), "{bars}");
    }

    #[test]
    fn logarithmic_axes_that_begin_with_0_are_broken() {
        let broken = |least: f64| {
            let x = Axis::log("distance", 10.0, (least, 200.0), |value| format!("{value:.0}"));
            let svg = Plot { x, y: Axis::share("packets"), series: vec![share_of("all")] }.svg("");
            svg.matches("class=\"gap\"").count()
        };
        assert_eq!([0.0, 1.0, 60.0].map(broken), [2, 0, 0]);
    }
}
