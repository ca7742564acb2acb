//! All figures, by paper.

mod snf;

use super::Figure;
use super::plot::{Point, Series};
use crate::Row;
use crate::serde_params::Param;

/// All figures, in the order in which they are run.
pub const ALL: &[Figure] = &[
    Figure {
        name: "snf-motivating",
        paper: "SNF, the motivating example (Figures 5 and 6)",
        about: "A translator, a firewall and a balancer, as they are and synthesized",
        needs: &[],
        run: snf::motivating,
    },
    Figure {
        name: "snf-7",
        paper: "SNF, Figure 7",
        about: "One to ten routers or translators in a row, in bursts of 32 and 128, frames of 60 bytes",
        needs: &[],
        run: snf::in_a_row,
    },
    Figure {
        name: "snf-8",
        paper: "SNF, Figure 8",
        about: "Ten routers or translators in a row, over sizes of frames",
        needs: &[],
        run: snf::sizes,
    },
    Figure {
        name: "snf-10",
        paper: "SNF, Figure 10",
        about: "A provider's chain with 251, 713 and 8,550 rules: cost, and latency at a load that both forms bear",
        needs: &[],
        run: snf::provider,
    },
];

/// What a parameter of a row is, as a word.
fn word(row: &Row, name: &str) -> String {
    row.params.get(name).map_or_else(String::new, Param::to_string)
}

/// What a parameter of a row is, as a number.
fn value(row: &Row, name: &str) -> f64 {
    match row.params.get(name) {
        Some(Param::Number(number)) => *number as f64,
        _ => f64::NAN,
    }
}

/// Rows as series: what each belongs to, and where it stands.
fn series(rows: &[Row], of: impl Fn(&Row) -> (String, Point)) -> Vec<Series> {
    let mut all: Vec<Series> = Vec::new();
    for row in rows {
        let (name, point) = of(row);
        match all.iter_mut().find(|series| series.name == name) {
            Some(series) => series.points.push(point),
            None => all.push(Series::new(name, [point])),
        }
    }
    all
}

/// The only row whose parameters are these.
fn find<'r>(rows: &'r [Row], params: &[(&str, &str)]) -> Result<&'r Row, String> {
    rows.iter()
        .find(|row| params.iter().all(|(name, wanted)| word(row, name) == *wanted))
        .ok_or_else(|| format!("no row with {params:?}"))
}
