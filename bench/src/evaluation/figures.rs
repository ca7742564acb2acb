//! All figures, with a module per paper, and functions that they share.

mod all;
mod juggler;
mod nfslicer;
mod reframer;
mod snf;
mod sprayer;

use super::plot::{Axis, Panel, Point, Series};
use super::{Figure, Need};
use crate::serde_params::Param;
use crate::{Row, median};

/// All figures, in the order in which `tidegate evaluate` runs them.
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
        about: "A provider's chain with 251, 713 and 8,550 rules: cost, and latency at a load that both forms can \
                process",
        needs: &[],
        run: snf::provider,
    },
    Figure {
        name: "snf-11",
        paper: "SNF, Figure 11",
        about: "A provider's chain downstream of Open vSwitch, which finds the class of each packet",
        needs: &[Need::Namespaces, Need::OpenVSwitch],
        run: snf::offloaded,
    },
    Figure {
        name: "reframer-1",
        paper: "Reframer, Figures 1 and 2",
        about: "The kernel's TCP with 128 connections, with and without GRO, over the number of packets of one \
                connection in a row",
        needs: &[Need::Namespaces, Need::Tcp],
        run: reframer::receiver,
    },
    Figure {
        name: "reframer-3",
        paper: "Reframer, Figure 3",
        about: "Latency of Open vSwitch with 1,000 and 10,000 rules, over the number of packets of a flow in a row",
        needs: &[Need::Namespaces, Need::OpenVSwitch],
        run: reframer::switch,
    },
    Figure {
        name: "reframer-4",
        paper: "Reframer, Figures 4 and 20 (cost)",
        about: "Translator, firewall of 20,000 rules with and without rule cache, and the chain, with 10,000 flows of packets of 1 KB, \
                over the number of packets of a flow in a row",
        needs: &[],
        run: reframer::functions,
    },
    Figure {
        name: "reframer-5",
        paper: "Reframer, Figure 5",
        about: "Cache misses per packet, simulated by callgrind",
        needs: &[Need::Program("valgrind")],
        run: reframer::misses,
    },
    Figure {
        name: "reframer-11",
        paper: "Reframer, Figure 11",
        about: "The effect of windows of a trace that are played at the same time",
        needs: &[],
        run: reframer::characteristics,
    },
    Figure {
        name: "reframer-12",
        paper: "Reframer, Figure 12",
        about: "The chain of router, translator, firewall and statistics over load, with a Reframer upstream on \
                another machine",
        needs: &[],
        run: reframer::outside,
    },
    Figure {
        name: "reframer-13",
        paper: "Reframer, Figure 13",
        about: "Many receive queues as the alternative way to locality",
        needs: &[],
        run: reframer::queues,
    },
    Figure {
        name: "reframer-14",
        paper: "Reframer, Figure 14",
        about: "The highest rate of the chain and of Reframer alone, on one core and on two",
        needs: &[],
        run: reframer::rate_per_core,
    },
    Figure {
        name: "reframer-15",
        paper: "Reframer, Figures 15 and 16",
        about: "Reframer and batches of mixed flows in the chain itself, over the time that packets are held",
        needs: &[],
        run: reframer::in_chain,
    },
    Figure {
        name: "reframer-18",
        paper: "Reframer, Figure 18",
        about: "Latency of small and large flows if no flows, all flows or only the large flows are held",
        needs: &[],
        run: reframer::differentiated,
    },
    Figure {
        name: "reframer-19",
        paper: "Reframer, Figure 19",
        about: "nginx and wrk with files of 1 MB over a wide-area network, with a Reframer in both directions",
        needs: &[Need::Namespaces, Need::Tcp, Need::Program("nginx"), Need::Program("wrk")],
        run: reframer::web,
    },
    Figure {
        name: "reframer-20",
        paper: "Reframer, Figure 20 (cache misses)",
        about: "Instructions and cache misses per packet of each element of the chain, simulated by callgrind",
        needs: &[Need::Program("valgrind")],
        run: reframer::elements,
    },
    Figure {
        name: "sprayer-6",
        paper: "Sprayer, Figures 6a, 7a, 8 and 9",
        about: "Rate, latency and fairness of one connection and several, each at one worker or spread",
        needs: &[],
        run: sprayer::spreading,
    },
    Figure {
        name: "sprayer-cores",
        paper: "Sprayer, section 7",
        about: "One connection over k of N workers, and by flowlets",
        needs: &[],
        run: sprayer::parts,
    },
    Figure {
        name: "sprayer-6b",
        paper: "Sprayer, Figures 6b and 7b",
        about: "Throughput of the kernel's own TCP through workers that share a connection",
        needs: &[Need::Namespaces, Need::Tcp],
        run: sprayer::connections,
    },
    Figure {
        name: "juggler-1",
        paper: "Juggler, Figure 1",
        about: "The time until one of eight connections gets a bandwidth that is guaranteed by priorities",
        needs: &[Need::Namespaces, Need::Tcp],
        run: juggler::step,
    },
    Figure {
        name: "juggler-9",
        paper: "Juggler, Figure 9",
        about: "One TCP connection in order and over paths that differ: throughput, segments, ACKs, cost of receiving",
        needs: &[Need::Namespaces],
        run: juggler::one_connection,
    },
    Figure {
        name: "juggler-10",
        paper: "Juggler, Figure 10",
        about: "256 TCP connections in order and over paths that differ",
        needs: &[Need::Namespaces, Need::Tcp],
        run: juggler::many,
    },
    Figure {
        name: "juggler-12-tcp",
        paper: "Juggler, Figure 12",
        about: "Number of segments delivered to TCP, and cost of receiving, over INSEQ_TIMEOUT",
        needs: &[Need::Namespaces, Need::Tcp],
        run: juggler::merging,
    },
    Figure {
        name: "juggler-13-tcp",
        paper: "Juggler, Figure 13",
        about: "Throughput of one TCP connection over OFO_TIMEOUT",
        needs: &[Need::Namespaces, Need::Tcp],
        run: juggler::waiting,
    },
    Figure {
        name: "juggler-12",
        paper: "Juggler, Figure 12, in the time of a capture",
        about: "Number of segments that are merged into one over INSEQ_TIMEOUT",
        needs: &[],
        run: juggler::batching,
    },
    Figure {
        name: "juggler-13",
        paper: "Juggler, Figure 13, in the time of a capture",
        about: "Number of segments that still leave out of order over OFO_TIMEOUT",
        needs: &[],
        run: juggler::late,
    },
    Figure {
        name: "juggler-latency",
        paper: "Juggler, section 5.1.2",
        about: "Latency of calls of 150 bytes with and without Juggler",
        needs: &[Need::Namespaces, Need::Tcp],
        run: juggler::alone,
    },
    Figure {
        name: "juggler-14",
        paper: "Juggler, Figure 14",
        about: "Latency of calls of 10 KB that lose packets over OFO_TIMEOUT",
        needs: &[Need::Namespaces, Need::Tcp],
        run: juggler::with_losses,
    },
    Figure {
        name: "juggler-15",
        paper: "Juggler, Figures 15 and 16",
        about: "Length of the list of active flows over the number of connections and the difference of paths",
        needs: &[],
        run: juggler::lists,
    },
    Figure {
        name: "juggler-18",
        paper: "Juggler, Figure 18",
        about: "Bandwidth of one of eight connections over its guaranteed bandwidth",
        needs: &[Need::Namespaces, Need::Tcp],
        run: juggler::guarantees,
    },
    Figure {
        name: "juggler-20",
        paper: "Juggler, Figure 20",
        about: "Latency of calls of 150 bytes and of 1 MB over two links, balanced per flow, per block and per packet",
        needs: &[Need::Namespaces, Need::Tcp],
        run: juggler::balanced,
    },
    Figure {
        name: "nfslicer-7",
        paper: "NFSlicer, Figures 7 and 10",
        about: "Latency of functions across a boundary that copies, whole and sliced, over sizes of packets and load",
        needs: &[Need::Namespaces],
        run: nfslicer::latency,
    },
    Figure {
        name: "nfslicer-8",
        paper: "NFSlicer, Figure 8",
        about: "Saved latency over the part of a payload that is parked",
        needs: &[Need::Namespaces],
        run: nfslicer::fraction,
    },
    Figure {
        name: "nfslicer-15",
        paper: "NFSlicer, Figure 15",
        about: "Bytes that cross the boundary over the size of packets",
        needs: &[Need::Namespaces],
        run: nfslicer::bytes,
    },
    Figure {
        name: "all",
        paper: "All five mechanisms",
        about: "The chain of configs/all.click with all mechanisms, and with each of them switched off in turn",
        needs: &[],
        run: all::all,
    },
];

/// Returns a parameter of a row as text; empty if the row does not have it.
fn word(row: &Row, name: &str) -> String {
    row.params.get(name).map_or_else(String::new, Param::to_string)
}

/// Returns a parameter of a row as a number; NaN if the row does not have it or it is a word.
fn value(row: &Row, name: &str) -> f64 {
    match row.params.get(name) {
        Some(Param::Number(number)) => *number as f64,
        _ => f64::NAN,
    }
}

/// Groups rows into series of a plot. For each row, `of` returns the name of its series and its point. Points
/// and series keep the order of the rows.
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

/// Returns the floor of rows, each with its x, as a series by rising x. If several rows have the same x,
/// the point is the median of their floors.
fn floor<'r>(rows: impl IntoIterator<Item = (f64, &'r Row)>) -> Series {
    let mut places: Vec<(f64, Vec<f64>)> = Vec::new();
    for (x, row) in rows {
        match places.iter_mut().find(|(place, _)| *place == x) {
            Some((_, all)) => all.push(row.floor_ns),
            None => places.push((x, vec![row.floor_ns])),
        }
    }
    places.sort_by(|a, b| a.0.total_cmp(&b.0));
    Series::floor(places.into_iter().map(|(x, all)| (x, median(all))))
}

/// Returns each series divided by the value that `to` returns for it, quartiles included.
fn relative(all: &[Series], to: impl Fn(&Series) -> f64) -> Vec<Series> {
    let of = |series: &Series| {
        let one = to(series);
        let point = |point: &Point| Point {
            x: point.x,
            y: point.y / one,
            quartiles: point.quartiles.map(|ends| ends.map(|end| end / one)),
        };
        Series::new(series.name.clone(), series.points.iter().map(point))
    };
    all.iter().map(of).collect()
}

/// Returns the y of the first point of a series; NaN if it has no points.
fn first(series: &Series) -> f64 {
    series.points.first().map_or(f64::NAN, |point| point.y)
}

/// Returns a panel for each list of series in `all`, with its title and vertical axis, and the horizontal
/// axis `x`.
fn panels(
    x: &Axis,
    titles: impl IntoIterator<Item = (&'static str, Axis)>,
    all: impl IntoIterator<Item = Vec<Series>>,
) -> Vec<Panel> {
    let panel =
        |((title, y), series): ((&str, Axis), _)| Panel { title: title.into(), x: x.clone(), y, series };
    titles.into_iter().zip(all).map(panel).collect()
}

/// Returns the first row with these parameters; an error if there is none.
fn find<'r>(rows: &'r [Row], params: &[(&str, &str)]) -> Result<&'r Row, String> {
    rows.iter()
        .find(|row| params.iter().all(|(name, wanted)| word(row, name) == *wanted))
        .ok_or_else(|| format!("no row with {params:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn series_become_multiples_of_their_first() {
        let point = |x, y| Point { x, y, quartiles: Some([y - 1.0, y + 1.0]) };
        let all = relative(&[Series::new("a", [point(1.0, 4.0), point(2.0, 2.0)])], first);
        assert_eq!((all[0].points[0].y, all[0].points[1].y), (1.0, 0.5));
        assert_eq!(all[0].points[1].quartiles, Some([0.25, 0.75]));
        assert!(first(&Series::default()).is_nan());
    }
}
