//! The colours and marks by which series are distinguished.

use plotters::prelude::*;

use super::{Area, PointOrigin, Series, drawn};

/// Colours that people with any colour vision can distinguish (Okabe and Ito).
const COLOURS: [RGBColor; 7] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(86, 180, 233),
    RGBColor(230, 159, 0),
    RGBColor(60, 60, 60),
];
const PAPER: RGBColor = RGBColor(120, 120, 120);
const FLOOR: RGBColor = RGBColor(150, 150, 150);

/// The shape of a mark; coordinates are in pixels, relative to the point that is marked.
enum Mark {
    Disc,
    Ring,
    Filled(&'static [(i32, i32)]),
    Open(&'static [(i32, i32)]),
    Strokes(&'static [[(i32, i32); 2]]),
}

const SQUARE: &[(i32, i32)] = &[(-4, -4), (4, -4), (4, 4), (-4, 4)];
const UP: &[(i32, i32)] = &[(0, -5), (5, 4), (-5, 4)];
const DOWN: &[(i32, i32)] = &[(0, 5), (5, -4), (-5, -4)];
const DIAMOND: &[(i32, i32)] = &[(0, -6), (5, 0), (0, 6), (-5, 0)];

/// The marks of series. Their number and the number of colours have no common divisor above 1, so that all
/// pairs of a colour and a mark occur before one is repeated.
const MARKS: [Mark; 12] = [
    Mark::Disc,
    Mark::Filled(UP),
    Mark::Filled(SQUARE),
    Mark::Strokes(&[[(-4, -4), (4, 4)], [(-4, 4), (4, -4)]]),
    Mark::Filled(DIAMOND),
    Mark::Ring,
    Mark::Filled(DOWN),
    Mark::Strokes(&[[(-5, 0), (5, 0)], [(0, -5), (0, 5)]]),
    Mark::Open(SQUARE),
    Mark::Open(UP),
    Mark::Strokes(&[[(-4, -4), (4, 4)], [(-4, 4), (4, -4)], [(-5, 0), (5, 0)]]),
    Mark::Open(DIAMOND),
];

/// The look of a series in plots: its colour, and the index of its mark in [`MARKS`]; None if its points have
/// no marks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Look {
    pub(super) colour: Hue,
    pub(super) mark: Option<usize>,
}

/// The colour of a series: an index of [`COLOURS`], or a grey for values of papers and formulas, or for the
/// floor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Hue {
    Series(usize),
    Paper,
    Floor,
}

impl Look {
    /// Returns the look of each series of a panel. Measured series have colours; all other series are grey.
    pub(super) fn of(all: &[Series]) -> Vec<Look> {
        let measured = all.iter().filter(|series| series.kind == PointOrigin::Measured).count();
        let (mut own, mut others) = (0..measured, measured..);
        let look = |series: &Series| match series.kind {
            PointOrigin::Measured => {
                let number = own.next().unwrap_or_default();
                let colour = Hue::Series(number % COLOURS.len());
                Look { colour, mark: Some(number % MARKS.len()) }
            }
            PointOrigin::Paper => Look { colour: Hue::Paper, mark: others.next().map(|n| n % MARKS.len()) },
            PointOrigin::Guide => Look { colour: Hue::Paper, mark: None },
            PointOrigin::Floor => Look { colour: Hue::Floor, mark: None },
        };
        all.iter().map(look).collect()
    }

    pub(super) fn rgb(self) -> RGBColor {
        match self.colour {
            Hue::Series(number) => COLOURS[number % COLOURS.len()],
            Hue::Paper => PAPER,
            Hue::Floor => FLOOR,
        }
    }

    /// Draws the mark at a pixel, if the look has one.
    pub(super) fn draw(self, area: &Area<'_>, (x, y): (i32, i32)) -> Result<(), String> {
        let Some(mark) = self.mark.and_then(|mark| MARKS.get(mark)) else { return Ok(()) };
        let colour = self.rgb();
        let around = |shape: &[(i32, i32)]| shape.iter().map(|(dx, dy)| (x + dx, y + dy)).collect::<Vec<_>>();
        let closed = |shape: &[(i32, i32)]| around(&[shape, &shape[..1]].concat());
        match mark {
            Mark::Disc => drawn(area.draw(&Circle::new((x, y), 4, colour.filled()))),
            Mark::Ring => {
                drawn(area.draw(&Circle::new((x, y), 4, WHITE.filled())))?;
                drawn(area.draw(&Circle::new((x, y), 4, colour.stroke_width(2))))
            }
            Mark::Filled(shape) => drawn(area.draw(&Polygon::new(around(shape), colour.filled()))),
            Mark::Open(shape) => {
                drawn(area.draw(&Polygon::new(around(shape), WHITE.filled())))?;
                drawn(area.draw(&PathElement::new(closed(shape), colour.stroke_width(2))))
            }
            Mark::Strokes(strokes) => strokes.iter().try_for_each(|stroke| {
                drawn(area.draw(&PathElement::new(around(stroke), colour.stroke_width(2))))
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn series_are_told_apart_by_marks_and_colours() {
        let of = |count: usize| Look::of(&vec![Series::new("", []); count]);
        assert_eq!(of(50).iter().collect::<HashSet<_>>().len(), 50);
        let marks: HashSet<Option<usize>> = of(MARKS.len()).iter().map(|look| look.mark).collect();
        assert!(marks.len() >= 8 && marks.len() == MARKS.len());
        // The paper's series have other marks than the measured series, and are grey, without their colours.
        let all = [
            Series::of_paper("a", []),
            Series::new("b", []),
            Series::of_paper("c", []),
            Series::new("d", []),
        ];
        let looks = Look::of(&all);
        let marks: HashSet<Option<usize>> = looks.iter().map(|look| look.mark).collect();
        assert_eq!(marks.len(), 4);
        assert_eq!([looks[1], looks[3]], of(2)[..]);
    }

    #[test]
    fn marks_are_different_shapes() {
        let drawing = |mark: usize| {
            let mut text = String::new();
            {
                let area = SVGBackend::with_string(&mut text, (20, 20)).into_drawing_area();
                Look { colour: Hue::Paper, mark: Some(mark) }.draw(&area, (10, 10)).unwrap();
            }
            text
        };
        let drawings: HashSet<String> = (0..MARKS.len()).map(drawing).collect();
        assert_eq!(drawings.len(), MARKS.len());
    }
}
