//! The axes of a panel: scales, ranges, ticks and labels.

use std::fmt::Display;
use std::ops::Range;

use plotters::coord::ranged1d::{DefaultFormatting, KeyPointHint, Ranged};

/// An axis of a panel.
#[derive(Clone, Debug)]
pub struct Axis {
    /// The quantity and its unit, as shown at the axis.
    pub label: &'static str,
    /// The scale.
    pub scale: Scale,
    /// The direction in which values are better; None if no value is better than another.
    pub better: Option<Better>,
}

/// The scale of an axis.
#[derive(Clone, Debug, PartialEq)]
pub enum Scale {
    /// A linear scale. It begins at 0, with two exceptions: it begins lower if there are negative values, and
    /// a horizontal axis begins near the smallest value if its values are few, are whole numbers, and have
    /// labels that do not overlap.
    Linear,
    /// A logarithmic scale. Values that are not positive are left out.
    Log,
    /// A scale of names: value n is the name with index n.
    Names(Vec<String>),
}

/// The direction in which the values of an axis are better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Better {
    /// Smaller values are better, as for times, costs and losses.
    Less,
    /// Larger values are better, as for rates.
    More,
}

impl Better {
    /// Returns the hint that is shown at the axis.
    pub(super) fn words(self) -> &'static str {
        match self {
            Better::Less => "less is better",
            Better::More => "more is better",
        }
    }
}

/// The largest number of distinct values for which each value gets a tick.
const FEW: usize = 9;
/// The fewest ticks that a logarithmic axis has if its values differ.
const LEAST_TICKS: usize = 3;

impl Axis {
    const fn new(label: &'static str, scale: Scale) -> Axis {
        Axis { label, scale, better: None }
    }

    /// Creates a linear axis.
    pub const fn linear(label: &'static str) -> Axis {
        Axis::new(label, Scale::Linear)
    }

    /// Creates a logarithmic axis.
    pub const fn log(label: &'static str) -> Axis {
        Axis::new(label, Scale::Log)
    }

    /// Creates an axis of names; the values of points are indices of names.
    pub fn names<T: Display>(label: &'static str, names: impl IntoIterator<Item = T>) -> Axis {
        Axis::new(label, Scale::Names(names.into_iter().map(|name| name.to_string()).collect()))
    }

    /// Returns the axis with the hint that less is better.
    #[must_use]
    pub fn less_is_better(self) -> Axis {
        Axis { better: Some(Better::Less), ..self }
    }

    /// Returns the axis with the hint that more is better.
    #[must_use]
    pub fn more_is_better(self) -> Axis {
        Axis { better: Some(Better::More), ..self }
    }

    /// Returns the label of the axis, which also says if the scale is logarithmic.
    pub(super) fn described(&self) -> String {
        match self.scale {
            Scale::Log => format!("{} (log)", self.label),
            Scale::Linear | Scale::Names(_) => self.label.into(),
        }
    }

    /// True if a value can be placed on the axis: it is finite and, on a logarithmic axis, positive.
    pub(super) fn has(&self, value: f64) -> bool {
        value.is_finite() && (value > 0.0 || !matches!(self.scale, Scale::Log))
    }

    /// Returns the range and the ticks of the axis for the values to be shown. `is_bottom` is true for a
    /// horizontal axis, which has ticks at the values themselves if these are few and far enough apart.
    pub(super) fn coordinates(&self, values: &[f64], is_bottom: bool) -> Coordinates {
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
            Scale::Linear => linear(&distinct, (least, most), is_bottom),
            Scale::Log => {
                // A horizontal axis has a larger margin, for marks that are side by side.
                let edge = if is_bottom { (most / least).powf(0.05).max(1.2) } else { 1.2 };
                let (low, high) = (least / edge, most * edge);
                let few = is_bottom && (LEAST_TICKS..=FEW).contains(&distinct.len());
                let part = |value: f64| (value / low).ln() / (high / low).ln();
                let ticks =
                    if few && are_apart(&distinct, part) { distinct } else { ticks_between(low, high) };
                Coordinates { range: low..high, is_log: true, ticks }
            }
        }
    }

    /// Returns the label of a tick.
    pub(super) fn written(&self, value: f64) -> String {
        match &self.scale {
            Scale::Names(names) => names.get(value.round() as usize).cloned().unwrap_or_default(),
            Scale::Linear | Scale::Log => number(value),
        }
    }
}

/// Returns the range and the ticks of a linear axis for these values, from `least` to `most`.
fn linear(distinct: &[f64], (least, most): (f64, f64), is_bottom: bool) -> Coordinates {
    let are_whole = distinct.iter().all(|value| value.fract() == 0.0);
    let high = if most <= 0.0 { 1.0 } else { 1.08 * most };
    // If there are values below 0, the axis has a margin for their marks.
    let low = if least < 0.0 { least - 0.04 * (most - least) } else { 0.0 };
    let few = is_bottom && are_whole && (1..=FEW).contains(&distinct.len());
    if few && are_apart(distinct, |value| value / (high - low)) {
        // Few whole numbers, such as numbers of workers, get a tick each, as no values lie between them. A
        // single value is placed in the middle of the axis.
        let edge = if most > least { 0.08 * (most - least) } else { 0.5 };
        return Coordinates { range: least - edge..most + edge, is_log: false, ticks: distinct.to_vec() };
    }
    let step = step(high / 6.0);
    let step = if is_bottom && are_whole { step.max(1.0) } else { step };
    let ticks = (0..=(high / step) as usize).map(|n| n as f64 * step).collect();
    Coordinates { range: low..high, is_log: false, ticks }
}

/// True if the labels of ticks at these values would not overlap on a horizontal axis. `part` returns the
/// relative position of a value on the axis, from 0 to 1.
fn are_apart(values: &[f64], part: impl Fn(f64) -> f64) -> bool {
    /// The length of a horizontal axis, in letters of its labels.
    const AXIS: f64 = 54.0;
    let letters = |value: f64| number(value).chars().count() as f64;
    values.windows(2).all(|two| {
        let [a, b] = [two[0], two[1]];
        AXIS * (part(b) - part(a)) >= (letters(a) + letters(b)) / 2.0 + 1.5
    })
}

/// The range of an axis and its ticks, in the form that plotters uses.
pub(super) struct Coordinates {
    pub(super) range: Range<f64>,
    pub(super) is_log: bool,
    pub(super) ticks: Vec<f64>,
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

    fn range(&self) -> Range<f64> {
        self.range.clone()
    }
}

/// Returns the smallest number that is at least `about` and is 1, 2 or 5 times a power of ten.
fn step(about: f64) -> f64 {
    let power = 10f64.powf(about.log10().floor());
    let times = [1.0, 2.0, 5.0, 10.0].into_iter().find(|times| times * power >= about);
    times.unwrap_or(10.0) * power
}

/// Returns the ticks of a logarithmic axis from `low` to `high`: of some sets of multiples of powers of ten,
/// the coarsest set with at least three ticks in the range. The set of powers of ten alone is used only for
/// ranges of more than three powers of ten. If no set has enough ticks, ticks have equal distances.
fn ticks_between(low: f64, high: f64) -> Vec<f64> {
    const TIMES: [&[f64]; 3] = [&[1.0], &[1.0, 2.0, 5.0], &[1.0, 1.5, 2.0, 3.0, 5.0, 7.0]];
    /// The number of powers of ten in the range, above which ticks only at powers of ten are enough.
    const MANY: f64 = 3.0;
    let coarsest = if (high / low).log10() > MANY { 0 } else { 1 };
    let powers = || low.log10().floor() as i32..=high.log10().ceil() as i32;
    let of = |times: &&[f64]| -> Vec<f64> {
        let all = powers().flat_map(|power| times.iter().map(move |times| times * 10f64.powi(power)));
        all.filter(|tick| (low..=high).contains(tick)).collect()
    };
    let enough = TIMES[coarsest..].iter().map(of).find(|ticks| ticks.len() >= LEAST_TICKS);
    enough.unwrap_or_else(|| {
        let equal = |parts: &f64| -> Vec<f64> {
            let step = step((high - low) / parts);
            let (first, last) = ((low / step).ceil() as i64, (high / step).floor() as i64);
            (first..=last).map(|n| n as f64 * step).collect()
        };
        let enough = [5.0, 10.0].iter().map(equal).find(|ticks| ticks.len() >= LEAST_TICKS);
        enough.unwrap_or_else(|| equal(&20.0))
    })
}

/// Formats the label of a number as short as possible, with k for thousands from 10,000 on, and M for
/// millions.
fn number(value: f64) -> String {
    let short = |value: f64, unit: &str| {
        let text = format!("{value:.2}");
        format!("{}{unit}", text.trim_end_matches('0').trim_end_matches('.'))
    };
    match value.abs() {
        0.0 => "0".into(),
        v if v >= 999_999.5 => short(value / 1e6, "M"),
        v if v >= 9_999.5 => short(value / 1e3, "k"),
        // Ticks may be finer than hundredths.
        v if v >= 0.01 && (v >= 1.0 || (v * 100.0).fract().abs() < 1e-6) => short(value, ""),
        v if v >= 0.001 => format!("{value:.4}").trim_end_matches('0').into(),
        _ => format!("{value:.0e}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_ticks_can_be_read() {
        assert_eq!([0.0, 0.25, 3.0, 12_000.0, 2.5e6].map(number), ["0", "0.25", "3", "12k", "2.5M"]);
        assert_eq!([0.125, 0.07, 0.0025].map(number), ["0.125", "0.07", "0.0025"]);
        let axis = Axis::linear("ns");
        assert_eq!(axis.coordinates(&[10.0, 95.0], false).ticks, [0.0, 20.0, 40.0, 60.0, 80.0, 100.0]);
        assert_eq!(ticks_between(9.0, 110.0), [10.0, 20.0, 50.0, 100.0]);
        // On a horizontal axis with few distinct values, each value gets a tick.
        let coordinates = Axis::log("SLF").coordinates(&[1.0, 32.0, 4.0, 4.0], true);
        assert_eq!(coordinates.ticks, [1.0, 4.0, 32.0]);
        assert_eq!([1.0 / 1.2, 38.4].map(|end| coordinates.map(&end, (10, 410))), [10, 410]);
    }

    #[test]
    fn logarithmic_axes_have_three_ticks_at_least() {
        for (low, high) in [
            (14.0, 30.0),
            (15.1, 19.0),
            (42.0, 43.0),
            (6.0, 25.0),
            (1.5, 9.9),
            (0.011, 0.013),
            (3.0, 4e7),
            (0.9, 1.2),
        ] {
            let axis = Axis::log("µs");
            for is_bottom in [false, true] {
                let coordinates = axis.coordinates(&[low, high], is_bottom);
                let written: std::collections::BTreeSet<String> =
                    coordinates.ticks.iter().map(|tick| axis.written(*tick)).collect();
                assert_eq!(written.len(), coordinates.ticks.len(), "{low} to {high}: {written:?}");
                assert!((3..=12).contains(&written.len()), "{low} to {high}: {written:?}");
                assert!(coordinates.ticks.iter().all(|tick| coordinates.range.contains(tick)));
            }
        }
        assert!(!Axis::log("µs").coordinates(&[5.0], false).ticks.is_empty());
    }

    #[test]
    fn few_whole_numbers_have_ticks_at_themselves_alone() {
        let workers = Axis::linear("workers");
        assert_eq!(workers.coordinates(&[1.0, 2.0, 1.0], true).ticks, [1.0, 2.0]);
        assert_eq!(workers.coordinates(&[2.0], true).ticks, [2.0]);
        let functions = [1.0, 2.0, 4.0, 6.0, 8.0, 10.0];
        assert_eq!(workers.coordinates(&functions, true).ticks, functions);
        let cycles = workers.coordinates(&[0.0, 1000.0, 2000.0, 10_000.0], true);
        assert_eq!(cycles.ticks, [0.0, 2000.0, 4000.0, 6000.0, 8000.0, 10_000.0]);
        // A tick at each value is not possible, because the labels would overlap.
        let close = workers.coordinates(&[1.0, 2.0, 4.0, 100.0], true);
        assert_eq!(close.ticks, [0.0, 20.0, 40.0, 60.0, 80.0, 100.0]);
        let times = Axis::linear("ms").coordinates(&[-180.5, 980.5], true);
        assert!(times.range.start < -190.0 && times.ticks[0] == 0.0, "{:?}", times.range);
        let many: Vec<f64> = (0..=11).map(|n| f64::from(n) / 4.0).collect();
        assert!(workers.coordinates(&many, true).ticks.contains(&0.5));
    }
}
