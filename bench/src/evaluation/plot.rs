//! Plots as SVG pictures: one or more panels, each with points, their quartiles, and values that a paper
//! reports.

mod axis;
mod marks;
mod words;

use std::collections::BTreeMap;

use plotters::coord::Shift;
use plotters::element::DashedPathElement;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

pub use axis::{Axis, Better, Scale};
use marks::Look;
pub use words::Subject;

// All lengths are in pixels.
const WIDTH: u32 = 470;
const HEIGHT: u32 = 360;
const LEGEND_LINE: i32 = 18;
const PANELS_IN_A_ROW: usize = 2;
const FONT: &str = "sans-serif";
/// The font size in pixels of titles (`LARGE`), and of all other text (`SMALL`).
const LARGE: f64 = 14.0;
const SMALL: f64 = 12.0;
/// The mean width of a letter in pixels, at the font size `SMALL`.
const LETTER: f64 = 6.6;
const LINE: u32 = 17;
const MARGIN: u32 = 12;
/// The height in pixels of the part of a panel above the plotting area, for its title and the hint which
/// values are better.
const TITLE: u32 = 50;
/// The smallest and the largest horizontal distance in pixels between the quartile bars of different series
/// at the same x.
const APART: [i32; 2] = [3, 6];
const WARNING: RGBColor = RGBColor(180, 0, 0);

/// A coordinate system with its title and the series that are drawn in it.
#[derive(Clone, Debug)]
pub struct Panel {
    /// The title.
    pub title: String,
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
    /// The series to draw.
    pub series: Vec<Series>,
}

/// Points that are drawn with the same colour and mark, and have one entry in the legend.
#[derive(Clone, Debug, Default)]
pub struct Series {
    /// The name in the legend.
    pub name: String,
    /// The points, by rising x.
    pub points: Vec<Point>,
    /// The origin of the points, which determines how they are drawn.
    pub kind: PointOrigin,
}

/// The origin of the points of a series.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PointOrigin {
    /// A measurement or simulation by this program.
    #[default]
    Measured,
    /// Values that a paper reports.
    Paper,
    /// The costs of the floor of the same run.
    Floor,
    /// Values of a formula, for comparison.
    Guide,
}

/// A median with its quartiles, if there are several values.
#[derive(Clone, Copy, Debug)]
pub struct Point {
    /// The x coordinate.
    pub x: f64,
    /// The median.
    pub y: f64,
    /// The lower and the upper quartile.
    pub quartiles: Option<[f64; 2]>,
}

impl Series {
    /// Creates a series of measured points.
    pub fn new(name: impl Into<String>, points: impl IntoIterator<Item = Point>) -> Series {
        Series { name: name.into(), points: points.into_iter().collect(), kind: PointOrigin::Measured }
    }

    /// Creates a series of values that a paper reports, without quartiles.
    pub fn of_paper(name: impl Into<String>, points: impl IntoIterator<Item = (f64, f64)>) -> Series {
        Series::plain(name.into(), points, PointOrigin::Paper)
    }

    /// Creates a series of values of a formula.
    pub fn guide(name: impl Into<String>, points: impl IntoIterator<Item = (f64, f64)>) -> Series {
        Series::plain(name.into(), points, PointOrigin::Guide)
    }

    /// Creates the series of the floor's costs.
    pub fn floor(points: impl IntoIterator<Item = (f64, f64)>) -> Series {
        Series::plain("floor".into(), points, PointOrigin::Floor)
    }

    fn plain(name: String, points: impl IntoIterator<Item = (f64, f64)>, kind: PointOrigin) -> Series {
        let points = points.into_iter().map(|(x, y)| Point { x, y, quartiles: None }).collect();
        Series { name, points, kind }
    }
}

type Area<'t> = DrawingArea<SVGBackend<'t>, Shift>;

fn drawn<T, E: std::fmt::Display>(result: Result<T, E>) -> Result<T, String> {
    result.map_err(|error| error.to_string())
}

/// Returns the family and size of a font whose letters have a size of at least `pixels` pixels. The library
/// plotters takes the size of a font as the height of a line, in whole pixels, which is larger.
fn font(pixels: f64) -> (&'static str, f64) {
    (FONT, (pixels * 1.24).ceil())
}

/// Writes text of a size and colour at a pixel, where it begins or is centred, as `align` says.
fn write(
    area: &Area<'_>,
    words: &str,
    at: (i32, i32),
    (size, colour): (f64, RGBColor),
    align: HPos,
) -> Result<(), String> {
    let style = font(size).into_text_style(area).color(&colour).pos(Pos::new(align, VPos::Center));
    drawn(area.draw(&Text::new(words.to_string(), at, style)))
}

/// Draws all panels as one picture, two in a row. A warning, if any, is at the top. Text at the bottom
/// explains points, bars and grey lines.
///
/// # Errors
/// If a part of the picture cannot be drawn.
pub fn svg(subject: &Subject<'_>, panels: &[Panel], warning: Option<&str>) -> Result<String, String> {
    let rows = || panels.chunks(PANELS_IN_A_ROW);
    let heights: Vec<u32> =
        rows().map(|row| HEIGHT + row.iter().map(Panel::legend_height).max().unwrap_or(0)).collect();
    let width = WIDTH * panels.len().clamp(1, PANELS_IN_A_ROW) as u32;
    let most = (f64::from(width - 2 * MARGIN) / LETTER) as usize;
    let above = words::lines(warning.unwrap_or_default(), most);
    let below = words::lines(&words::caption(panels), most);
    let block = |lines: &[String]| if lines.is_empty() { 0 } else { lines.len() as u32 * LINE + MARGIN };
    let size = (width, (block(&above) + heights.iter().sum::<u32>() + block(&below)).max(1));
    let mut text = String::new();
    {
        let root = SVGBackend::with_string(&mut text, size).into_drawing_area();
        drawn(root.fill(&WHITE))?;
        let lines = |lines: &[String], top: u32, colour: RGBColor| {
            lines.iter().zip(0..).try_for_each(|(line, n)| {
                let at = (MARGIN as i32, (top + MARGIN + n * LINE) as i32);
                write(&root, line, at, (SMALL, colour), HPos::Left)
            })
        };
        lines(&above, 0, WARNING)?;
        let mut top = block(&above);
        for (row, height) in rows().zip(heights) {
            for (column, panel) in row.iter().enumerate() {
                let area = root.clone().shrink((column as u32 * WIDTH, top), (WIDTH, height));
                panel.draw(&area)?;
            }
            top += height;
        }
        lines(&below, top, RGBColor(60, 60, 60))?;
        drawn(root.present())?;
    }
    let about = words::description(subject, panels, warning);
    Ok(labelled(&text, subject.title, &about))
}

/// Returns an SVG picture with a title and a description for screen readers.
fn labelled(svg: &str, title: &str, about: &str) -> String {
    let Some((start, rest)) = svg.split_once('>') else { return svg.into() };
    let (title, about) = (words::escape(title), words::escape(about));
    format!("{start} role=\"img\">\n<title>{title}</title>\n<desc>{about}</desc>{rest}")
}

impl Panel {
    fn draw(&self, area: &Area<'_>) -> Result<(), String> {
        let (chart, legend) = area.split_vertically(HEIGHT);
        let middle = (WIDTH / 2) as i32;
        write(&chart, &self.title, (middle, 18), (LARGE, BLACK), HPos::Center)?;
        let places: Vec<f64> = self.points().map(|point| point.x).collect();
        let values: Vec<f64> = self
            .points()
            .flat_map(|point| [Some(point.y), point.quartiles.map(|q| q[0]), point.quartiles.map(|q| q[1])])
            .flatten()
            .collect();
        let (x, y) = (self.x.coordinates(&places, true), self.y.coordinates(&values, false));
        // The area left of the vertical axis is only as wide as the labels of its ticks need, so that the
        // label of the axis is close to them.
        let letters = y.ticks.iter().map(|tick| self.y.written(*tick).chars().count()).max().unwrap_or(1);
        let beside = (letters as f64 * LETTER) as u32 + 34;
        if let Some(better) = self.y.better {
            let at = ((beside + MARGIN) as i32, TITLE as i32 - 10);
            write(&chart, better.words(), at, (SMALL, RGBColor(60, 60, 60)), HPos::Left)?;
        }
        let mut chart = drawn(
            ChartBuilder::on(&chart)
                .margin(MARGIN)
                .margin_top(TITLE)
                .margin_right(18)
                .x_label_area_size(44)
                .y_label_area_size(beside)
                .build_cartesian_2d(x, y),
        )?;
        drawn(
            chart
                .configure_mesh()
                .disable_x_mesh()
                .light_line_style(TRANSPARENT)
                .bold_line_style(RGBColor(225, 225, 225))
                .axis_style(RGBColor(90, 90, 90))
                .label_style(font(SMALL))
                .axis_desc_style(font(SMALL))
                .x_desc(self.x.described())
                .y_desc(self.y.described())
                .x_label_formatter(&|place| self.x.written(*place))
                .y_label_formatter(&|place| self.y.written(*place))
                .draw(),
        )?;
        let plotting = chart.plotting_area();
        let pixels = plotting.strip_coord_spec();
        let (left, top) = plotting.get_base_pixel();
        let pixel = |x: f64, y: f64| {
            let (x, y) = plotting.map_coordinate(&(x, y));
            (x - left, y - top)
        };
        let shifts = self.shifts(|x| pixel(x, 1.0).0);
        for ((series, look), number) in self.series.iter().zip(Look::of(&self.series)).zip(0..) {
            let is_placed = |point: &&Point| self.x.has(point.x) && self.y.has(point.y);
            let place = |point: &Point, y: f64| {
                let (x, y) = pixel(point.x, y);
                (x + shifts.get(&(number, x)).copied().unwrap_or(0), y)
            };
            let points = || series.points.iter().filter(is_placed);
            let line: Vec<(i32, i32)> = points().map(|point| place(point, point.y)).collect();
            if self.joins(series) {
                draw_line(&pixels, &line, series.kind, look.rgb())?;
            }
            for point in points() {
                let Some(ends) = point.quartiles.filter(|ends| ends.iter().all(|y| self.y.has(*y))) else {
                    continue;
                };
                let bar = ends.map(|y| place(point, y)).to_vec();
                drawn(pixels.draw(&PathElement::new(bar, look.rgb().stroke_width(2))))?;
            }
            line.iter().try_for_each(|at| look.draw(&pixels, *at))?;
        }
        self.explain(&legend)
    }

    fn points(&self) -> impl Iterator<Item = &Point> {
        self.series.iter().flat_map(|series| &series.points)
    }

    /// True if a line connects the points of a series. Points over a horizontal axis of names are not
    /// connected, except for the floor.
    fn joins(&self, series: &Series) -> bool {
        !matches!(self.x.scale, Scale::Names(_)) || series.kind == PointOrigin::Floor
    }

    /// Returns the horizontal shifts of points in pixels, by the index of the series and the unshifted x in
    /// pixels. Measured series with points at the same x are shifted if at least one of these points has
    /// quartiles, so that the bars between their quartiles are side by side.
    fn shifts(&self, place: impl Fn(f64) -> i32) -> BTreeMap<(usize, i32), i32> {
        let mut at: BTreeMap<i32, (Vec<usize>, bool)> = BTreeMap::new();
        for (series, number) in self.series.iter().zip(0..) {
            let points = series.points.iter().filter(|point| self.x.has(point.x) && self.y.has(point.y));
            for point in points.filter(|_| series.kind == PointOrigin::Measured) {
                let (all, have_bars) = at.entry(place(point.x)).or_default();
                *have_bars |= point.quartiles.is_some();
                if all.last() != Some(&number) {
                    all.push(number);
                }
            }
        }
        let places: Vec<i32> = at.keys().copied().collect();
        let room = places.windows(2).map(|two| two[1] - two[0]).min().unwrap_or(i32::MAX);
        let most = at.values().map(|(all, _)| all.len()).max().unwrap_or(1);
        let apart = (room / (most as i32 + 1)).clamp(APART[0], APART[1]);
        let shift = |rank: usize, of: usize| (2 * rank as i32 - (of as i32 - 1)) * apart / 2;
        at.iter()
            .filter(|(_, (_, have_bars))| *have_bars)
            .flat_map(|(x, (all, _))| {
                all.iter().enumerate().map(move |(rank, number)| ((*number, *x), shift(rank, all.len())))
            })
            .collect()
    }

    /// True if the panel has a legend, because it has several series.
    fn has_legend(&self) -> bool {
        self.series.len() > 1
    }

    /// Returns the number of columns of the legend: two if there are many series with short names, else
    /// one.
    fn columns(&self) -> usize {
        let longest = self.series.iter().map(|series| series.name.chars().count()).max().unwrap_or(0);
        if self.series.len() > 4 && longest <= 26 { 2 } else { 1 }
    }

    fn legend_height(&self) -> u32 {
        let lines = if self.has_legend() { self.series.len().div_ceil(self.columns()) } else { 0 };
        (lines as i32 * LEGEND_LINE) as u32
    }

    /// Draws the legend: for each series its line, its mark and its name.
    fn explain(&self, area: &Area<'_>) -> Result<(), String> {
        if !self.has_legend() {
            return Ok(());
        }
        let columns = self.columns();
        let lines = self.series.len().div_ceil(columns);
        for ((series, look), number) in self.series.iter().zip(Look::of(&self.series)).zip(0..) {
            let (column, line) = (number / lines, number % lines);
            let x = 30 + (column as u32 * (WIDTH - 30) / columns as u32) as i32;
            let y = line as i32 * LEGEND_LINE + 6;
            if self.joins(series) {
                draw_line(area, &[(x - 14, y), (x + 14, y)], series.kind, look.rgb())?;
            }
            look.draw(area, (x, y))?;
            write(area, &series.name, (x + 22, y), (SMALL, BLACK), HPos::Left)?;
        }
        Ok(())
    }
}

/// Draws the line of a series; lines of papers and formulas are dashed.
fn draw_line(
    area: &Area<'_>,
    line: &[(i32, i32)],
    kind: PointOrigin,
    colour: RGBColor,
) -> Result<(), String> {
    let style = colour.stroke_width(1);
    let line = line.iter().copied();
    let dashed = |(dash, gap): (u32, u32)| DashedPathElement::new(line.clone(), dash, gap, style);
    match kind {
        PointOrigin::Measured | PointOrigin::Floor => {
            drawn(area.draw(&PathElement::new(line.collect::<Vec<_>>(), style)))
        }
        PointOrigin::Paper => drawn(area.draw(&dashed((6, 4)))),
        PointOrigin::Guide => drawn(area.draw(&dashed((2, 3)))),
    }
}

#[cfg(test)]
mod tests;
