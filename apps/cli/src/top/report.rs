//! The report of a run, from its handler `report`, and the tables that `tidegate top` shows of two reports.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use serde::Deserialize;

/// The report of a run, as far as it is shown.
#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct Report {
    /// The number of reloads that have replaced the configuration.
    pub(crate) generation: u64,
    pub(crate) totals: Totals,
    pub(crate) elements: Vec<Element>,
    pub(crate) workers: Vec<Worker>,
}

#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct Totals {
    #[serde(rename = "in")]
    pub(crate) packets_in: u64,
    pub(crate) out: u64,
    pub(crate) held: u64,
    pub(crate) dropped: u64,
}

#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct Element {
    name: String,
    class: String,
    #[serde(rename = "in")]
    packets_in: u64,
    out: u64,
    held: u64,
    drops: BTreeMap<String, u64>,
    interface: Option<String>,
    #[serde(default)]
    values: BTreeMap<String, f64>,
}

#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct Worker {
    worker: usize,
    #[serde(rename = "in")]
    packets_in: u64,
    handed: u64,
    taken: u64,
    busy_ns: u64,
    in_rings: u64,
    buffers_used: u64,
    buffers: u64,
}

/// The tables, in the order of their keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Page {
    Elements,
    Drops,
    Workers,
    Interfaces,
}

impl Page {
    pub(crate) const ALL: [Page; 4] = [Page::Elements, Page::Drops, Page::Workers, Page::Interfaces];

    pub(crate) fn title(self) -> &'static str {
        match self {
            Page::Elements => "Elements",
            Page::Drops => "Drops",
            Page::Workers => "Workers",
            Page::Interfaces => "Interfaces",
        }
    }
}

/// The orders of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Sort {
    /// The most packets per second first
    Rate,
    /// The most drops first
    Drops,
    /// The most held packets first
    Held,
    /// By name
    Name,
    /// As in the configuration
    Graph,
}

impl Sort {
    pub(crate) const ALL: [Sort; 5] = [Sort::Rate, Sort::Drops, Sort::Held, Sort::Name, Sort::Graph];

    pub(crate) fn text(self) -> &'static str {
        match self {
            Sort::Rate => "packets per second",
            Sort::Drops => "drops",
            Sort::Held => "held packets",
            Sort::Name => "name",
            Sort::Graph => "order of the configuration",
        }
    }
}

/// Two reports, and the time between them.
pub(crate) struct Change {
    before: Report,
    pub(crate) now: Report,
    seconds: f64,
    /// For each element of `now`, the element of the same name and class in `before`.
    earlier: Vec<Option<usize>>,
}

/// A table as text. Columns of numbers are aligned to the right.
pub(crate) struct Table {
    pub(crate) head: Vec<&'static str>,
    pub(crate) rows: Vec<Vec<String>>,
    /// For each column, true if it has numbers.
    pub(crate) is_number: Vec<bool>,
}

impl Report {
    /// Returns the drops of all elements by reason, the most first.
    pub(crate) fn drops(&self) -> Table {
        let drops =
            self.elements.iter().flat_map(|element| element.drops.iter().map(move |drop| (element, drop)));
        let mut drops: Vec<_> = drops.filter(|(_, (_, count))| **count > 0).collect();
        drops.sort_by_key(|(_, (_, count))| std::cmp::Reverse(**count));
        let row = |(element, (reason, count)): (&Element, (&String, &u64))| {
            vec![element.name.clone(), element.class.clone(), reason.clone(), count.to_string()]
        };
        Table {
            head: vec!["element", "class", "reason", "packets"],
            rows: drops.into_iter().map(row).collect(),
            is_number: vec![false, false, false, true],
        }
    }
}

impl Change {
    pub(crate) fn new(before: Report, now: Report, seconds: f64) -> Change {
        let names = before.elements.iter().enumerate();
        let index: BTreeMap<(&str, &str), usize> =
            names.map(|(number, element)| ((&*element.name, &*element.class), number)).collect();
        let earlier = now.elements.iter().map(|e| index.get(&(&*e.name, &*e.class)).copied()).collect();
        Change { before, now, seconds, earlier }
    }

    /// Returns the increase per second. A count that went back, because the element was replaced, has none.
    fn per_second(&self, before: Option<u64>, now: u64) -> f64 {
        match before.and_then(|before| now.checked_sub(before)) {
            Some(more) if self.seconds > 0.0 => more as f64 / self.seconds,
            _ => 0.0,
        }
    }

    /// Returns the increase per second of a count of an element.
    fn rate(&self, number: usize, count: impl Fn(&Element) -> u64) -> f64 {
        let before = self.earlier[number].map(|number| count(&self.before.elements[number]));
        self.per_second(before, count(&self.now.elements[number]))
    }

    /// Returns the lines above the table: the sums of the graph.
    pub(crate) fn summary(&self) -> String {
        let (before, now) = (&self.before.totals, &self.now.totals);
        let [packets_in, out, dropped] =
            [(before.packets_in, now.packets_in), (before.out, now.out), (before.dropped, now.dropped)]
                .map(|(before, now)| rate_text(self.per_second(Some(before), now)));
        let reloads = match self.now.generation {
            0 => String::new(),
            1 => ", 1 reload".into(),
            more => format!(", {more} reloads"),
        };
        format!(
            "in {} ({packets_in}/s), out {} ({out}/s), dropped {} ({dropped}/s), held {}{reloads}",
            now.packets_in, now.out, now.dropped, now.held
        )
    }

    /// Makes a table. `reversed` turns the order of the rows round.
    pub(crate) fn table(&self, page: Page, sort: Sort, reversed: bool) -> Table {
        let mut table = match page {
            Page::Elements => self.elements(sort),
            Page::Drops => self.drops(),
            Page::Workers => self.workers(),
            Page::Interfaces => self.interfaces(),
        };
        if reversed {
            table.rows.reverse();
        }
        table
    }

    fn elements(&self, sort: Sort) -> Table {
        let elements = &self.now.elements;
        let mut order: Vec<usize> = (0..elements.len()).collect();
        let dropped = |number: usize| elements[number].drops.values().sum::<u64>();
        let rate = |number: usize| self.rate(number, |e| e.packets_in);
        // The sorts are stable, so equal rows stay in the order of the configuration.
        match sort {
            Sort::Graph => {}
            Sort::Name => order.sort_by(|&a, &b| elements[a].name.cmp(&elements[b].name)),
            Sort::Held => order.sort_by_key(|&number| std::cmp::Reverse(elements[number].held)),
            Sort::Drops => order.sort_by_key(|&number| std::cmp::Reverse(dropped(number))),
            Sort::Rate => {
                order.sort_by(|&a, &b| rate(b).partial_cmp(&rate(a)).unwrap_or(Ordering::Equal));
            }
        }
        let row = |number: usize| {
            let element = &elements[number];
            vec![
                element.name.clone(),
                element.class.clone(),
                rate_text(rate(number)),
                rate_text(self.rate(number, |e| e.out)),
                element.packets_in.to_string(),
                element.held.to_string(),
                dropped(number).to_string(),
                rate_text(self.rate(number, |e| e.drops.values().sum())),
            ]
        };
        Table {
            head: vec!["element", "class", "in/s", "out/s", "in", "held", "dropped", "dropped/s"],
            rows: order.into_iter().map(row).collect(),
            is_number: vec![false, false, true, true, true, true, true, true],
        }
    }

    fn drops(&self) -> Table {
        let mut rows = Vec::new();
        for (number, element) in self.now.elements.iter().enumerate() {
            for (reason, &count) in &element.drops {
                let rate = self.rate(number, |e| e.drops.get(reason).copied().unwrap_or(0));
                rows.push((rate, count, element, reason));
            }
        }
        rows.sort_by(|a, b| (b.0, b.1).partial_cmp(&(a.0, a.1)).unwrap_or(Ordering::Equal));
        let row = |(rate, count, element, reason): (f64, u64, &Element, &String)| {
            vec![
                element.name.clone(),
                element.class.clone(),
                reason.clone(),
                count.to_string(),
                rate_text(rate),
            ]
        };
        Table {
            head: vec!["element", "class", "reason", "dropped", "dropped/s"],
            rows: rows.into_iter().map(row).collect(),
            is_number: vec![false, false, false, true, true],
        }
    }

    fn workers(&self) -> Table {
        let row = |now: &Worker| {
            let before = self.before.workers.iter().find(|before| before.worker == now.worker);
            let rate = |count: fn(&Worker) -> u64| self.per_second(before.map(count), count(now));
            let busy = (rate(|worker| worker.busy_ns) / 1e9).min(1.0);
            vec![
                now.worker.to_string(),
                format!("{:.0} %", busy * 100.0),
                rate_text(rate(|worker| worker.packets_in)),
                rate_text(rate(|worker| worker.handed)),
                rate_text(rate(|worker| worker.taken)),
                now.in_rings.to_string(),
                format!("{:.1} %", now.buffers_used as f64 * 100.0 / now.buffers.max(1) as f64),
            ]
        };
        Table {
            head: vec!["worker", "busy", "in/s", "handed over/s", "taken over/s", "in rings", "buffers used"],
            rows: self.now.workers.iter().map(row).collect(),
            is_number: vec![true; 7],
        }
    }

    fn interfaces(&self) -> Table {
        let lost = |element: &Element| element.values.get("kernel_drops").copied().unwrap_or(0.0) as u64;
        let row = |(number, element): (usize, &Element)| {
            Some(vec![
                element.interface.clone()?,
                element.name.clone(),
                element.class.clone(),
                rate_text(self.rate(number, |e| e.packets_in)),
                element.packets_in.to_string(),
                element.drops.values().sum::<u64>().to_string(),
                lost(element).to_string(),
                rate_text(self.rate(number, lost)),
            ])
        };
        Table {
            head: vec![
                "interface",
                "element",
                "class",
                "packets/s",
                "packets",
                "dropped",
                "lost in kernel",
                "lost/s",
            ],
            rows: self.now.elements.iter().enumerate().filter_map(row).collect(),
            is_number: vec![false, false, false, true, true, true, true, true],
        }
    }
}

/// Returns a rate as text of at most five characters, such as `0`, `3.2`, `812`, `14.9k` or `1.49M`.
fn rate_text(rate: f64) -> String {
    let digits = |value: f64, unit: &str| match value {
        value if value < 9.995 => format!("{value:.2}{unit}"),
        value if value < 99.95 => format!("{value:.1}{unit}"),
        value => format!("{value:.0}{unit}"),
    };
    match rate {
        rate if rate < 0.05 => "0".into(),
        rate if rate < 9.95 => format!("{rate:.1}"),
        rate if rate < 999.5 => format!("{rate:.0}"),
        rate if rate < 999.5e3 => digits(rate / 1e3, "k"),
        rate if rate < 999.5e6 => digits(rate / 1e6, "M"),
        rate => digits(rate / 1e9, "G"),
    }
}

impl Table {
    /// Returns the table as text with aligned columns, without blanks at the ends of lines.
    pub(crate) fn text(&self) -> String {
        let head: Vec<String> = self.head.iter().map(ToString::to_string).collect();
        let lines = || std::iter::once(&head).chain(&self.rows);
        let width = |column: usize| lines().map(|row| row[column].chars().count()).max().unwrap_or(0);
        let widths: Vec<usize> = (0..head.len()).map(width).collect();
        let line = |row: &Vec<String>| {
            let cells = row.iter().zip(&widths).zip(&self.is_number).map(|((cell, &width), number)| {
                if *number { format!("{cell:>width$}") } else { format!("{cell:width$}") }
            });
            cells.collect::<Vec<_>>().join("  ").trim_end().to_string() + "\n"
        };
        lines().map(line).collect()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Two reports, two seconds apart.
    pub(crate) fn change() -> Change {
        let report = |packets: u64, drops: u64, busy: u64| -> Report {
            let text = format!(
                r#"{{"generation": 1, "totals": {{"in": {packets}, "out": 0, "held": 3, "dropped": {drops}}},
                "elements": [
                    {{"name": "from", "class": "FromDevice", "in": {packets}, "out": {packets}, "held": 0, "drops": {{}},
                      "interface": "eth0", "values": {{"kernel_drops": {drops}}}}},
                    {{"name": "q", "class": "Queue", "in": 7, "out": 4, "held": 3, "drops": {{"queue full": {drops}}}}},
                    {{"name": "a", "class": "Counter", "in": 900, "out": 900, "held": 0, "drops": {{"x": 1}}}}],
                "workers": [{{"worker": 0, "in": {packets}, "handed": 0, "taken": 0, "busy_ns": {busy}, "in_rings": 5,
                    "buffers_used": 10, "buffers": 40}}]}}"#
            );
            serde_json::from_str(&text).unwrap()
        };
        Change::new(report(1000, 4, 0), report(4000, 10, 500_000_000), 2.0)
    }

    #[test]
    fn rates_are_differences_over_the_time() {
        let text = |page, sort| change().table(page, sort, false).text();
        let elements = text(Page::Elements, Sort::Rate);
        let lines: Vec<&str> = elements.lines().collect();
        assert_eq!(lines[0], "element  class        in/s  out/s    in  held  dropped  dropped/s");
        assert_eq!(lines[1], "from     FromDevice  1.50k  1.50k  4000     0        0          0");
        assert_eq!(lines[2], "q        Queue           0      0     7     3       10        3.0");
        let first =
            |sort| text(Page::Elements, sort).lines().nth(1).unwrap().split(' ').next().unwrap().to_string();
        assert_eq!([Sort::Name, Sort::Held, Sort::Drops, Sort::Graph].map(first), ["a", "q", "q", "from"]);
        assert!(
            text(Page::Drops, Sort::Rate).lines().nth(1).unwrap().starts_with("q        Queue    queue full")
        );
        assert!(
            text(Page::Workers, Sort::Rate).contains("25 %")
                && text(Page::Workers, Sort::Rate).contains("25.0 %")
        );
        assert!(text(Page::Interfaces, Sort::Rate).lines().nth(1).unwrap().starts_with("eth0"));
        assert!(
            change()
                .summary()
                .starts_with("in 4000 (1.50k/s), out 0 (0/s), dropped 10 (3.0/s), held 3, 1 reload")
        );
    }

    #[test]
    fn a_count_that_went_back_has_no_rate() {
        let Change { before, now, .. } = change();
        let back = Change::new(now, before, 2.0);
        assert!(back.table(Page::Elements, Sort::Graph, false).rows[0][2] == "0");
    }

    #[test]
    fn rates_are_short() {
        for (rate, text) in [
            (0.0, "0"),
            (0.5, "0.5"),
            (12.3, "12"),
            (999.0, "999"),
            (1490.0, "1.49k"),
            (14.9e3, "14.9k"),
            (149e6, "149M"),
        ] {
            assert_eq!(rate_text(rate), text);
        }
        assert!([1e3, 9.999e3, 99.99e3, 999.4e3, 1e6, 1e9].iter().all(|&rate| rate_text(rate).len() <= 5));
    }
}
