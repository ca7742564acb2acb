//! Tables of figures, which are written as CSV.

use std::fmt;

use crate::Row;

/// A table of columns and rows.
#[derive(Clone, Debug, Default)]
pub struct Table {
    /// The names of the columns, such as `ns_per_packet`; a name includes the unit, if the values have one.
    pub columns: Vec<String>,
    /// The rows, each with a cell for each column.
    pub rows: Vec<Vec<Cell>>,
}

/// The names of the columns with the quartiles of the floor.
const FLOOR: [&str; 2] = ["floor_lower_quartile", "floor_upper_quartile"];

/// The content of a cell of a table.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    /// A word.
    Word(String),
    /// A number.
    Number(f64),
    /// An empty cell.
    Nothing,
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Cell::Word(word) => f.write_str(word),
            Cell::Nothing => Ok(()),
            Cell::Number(number) if number.fract() == 0.0 && number.abs() < 1e15 => write!(f, "{number}"),
            // Prints about five significant digits, as many as a measurement has.
            Cell::Number(number) => {
                let whole = number.abs().log10().floor().clamp(-9.0, 4.0) as i32;
                write!(f, "{number:.*}", (4 - whole) as usize)
            }
        }
    }
}

impl From<&str> for Cell {
    fn from(word: &str) -> Cell {
        Cell::Word(word.into())
    }
}

impl From<String> for Cell {
    fn from(word: String) -> Cell {
        Cell::Word(word)
    }
}

impl From<f64> for Cell {
    fn from(number: f64) -> Cell {
        if number.is_finite() { Cell::Number(number) } else { Cell::Nothing }
    }
}

impl From<u64> for Cell {
    fn from(number: u64) -> Cell {
        Cell::Number(number as f64)
    }
}

impl From<usize> for Cell {
    fn from(number: usize) -> Cell {
        Cell::Number(number as f64)
    }
}

impl Table {
    /// Creates a table without rows.
    pub fn new(columns: &[&str]) -> Table {
        Table { columns: columns.iter().map(|column| column.to_string()).collect(), rows: Vec::new() }
    }

    /// Adds a row, with a cell for each column.
    pub fn push(&mut self, cells: impl IntoIterator<Item = Cell>) {
        let cells: Vec<Cell> = cells.into_iter().collect();
        debug_assert_eq!(cells.len(), self.columns.len());
        self.rows.push(cells);
    }

    /// Returns a table of the costs per packet of `rows`: the parameters, the cost in nanoseconds, the
    /// floor, their ratio with its quartiles, and the quartiles of the floor.
    pub fn of_costs(rows: &[Row]) -> Table {
        let mut names: Vec<&str> = Vec::new();
        for row in rows {
            names.extend(row.params.keys().filter(|name| !names.contains(name)).collect::<Vec<_>>());
        }
        let costs = ["ns_per_packet", "floor_ns", "ratio", "ratio_lower_quartile", "ratio_upper_quartile"];
        let costs = [&costs[..], &FLOOR].concat();
        let mut table = Table::new(&[&names[..], &costs].concat());
        for row in rows {
            let params = names.iter().map(|name| match row.params.get(name) {
                Some(crate::serde_params::Param::Number(number)) => (*number).into(),
                Some(crate::serde_params::Param::Mean(mean)) => (*mean).into(),
                Some(crate::serde_params::Param::Word(word)) => (*word).into(),
                None => Cell::Nothing,
            });
            let [lower, upper] = row.ratio_quartiles;
            let figures = [row.ns_per_packet, row.floor_ns, row.ratio, lower, upper];
            table.push(params.chain(figures.into_iter().chain(row.floor_quartiles_ns).map(Cell::from)));
        }
        table
    }

    /// Returns the quartiles of the floor that varied most among all rows; None if the table has no floors.
    pub fn worst_floor(&self) -> Option<[f64; 2]> {
        let places = FLOOR.map(|name| self.columns.iter().position(|column| column == name));
        let [Some(lower), Some(upper)] = places else { return None };
        let quartiles = |row: &Vec<Cell>| match [&row[lower], &row[upper]] {
            [&Cell::Number(lower), &Cell::Number(upper)] => Some([lower, upper]),
            _ => None,
        };
        let times = |[lower, upper]: [f64; 2]| upper / lower;
        self.rows.iter().filter_map(quartiles).max_by(|a, b| times(*a).total_cmp(&times(*b)))
    }

    /// Joins another table to this one: adds those columns of `other` that are not in `same`. A row gets the
    /// cells of the row of `other` that has the same values in the columns `same`. Without such a row, the
    /// added cells are empty.
    pub fn join(&mut self, other: Table, same: &[&str]) {
        let place = |table: &Table, name: &str| table.columns.iter().position(|column| column == name);
        let places: Vec<_> = same.iter().map(|name| (place(self, name), place(&other, name))).collect();
        let more: Vec<usize> =
            (0..other.columns.len()).filter(|n| !same.contains(&other.columns[*n].as_str())).collect();
        self.columns.extend(more.iter().map(|n| other.columns[*n].clone()));
        for row in &mut self.rows {
            let is_same = |theirs: &&Vec<Cell>| {
                places
                    .iter()
                    .all(|(own, their)| own.map(|own| &row[own]) == their.map(|their| &theirs[their]))
            };
            let found = other.rows.iter().find(is_same).cloned();
            row.extend(more.iter().map(|n| found.as_ref().map_or(Cell::Nothing, |row| row[*n].clone())));
        }
    }

    /// Returns the table as CSV (RFC 4180).
    ///
    /// # Errors
    /// If a row cannot be written.
    pub fn csv(&self) -> Result<String, String> {
        let mut writer = csv::Writer::from_writer(Vec::new());
        writer.write_record(&self.columns).map_err(|error| error.to_string())?;
        for row in &self.rows {
            writer.write_record(row.iter().map(Cell::to_string)).map_err(|error| error.to_string())?;
        }
        let bytes = writer.into_inner().map_err(|error| error.to_string())?;
        String::from_utf8(bytes).map_err(|error| error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_have_as_many_digits_as_measurements() {
        let written = [0.123456, 12.34567, 123_456.78, 1e-12, 42.0].map(|n| Cell::from(n).to_string());
        assert_eq!(written, ["0.12346", "12.346", "123457", "0.0000000000010", "42"].map(|s| s.to_string()));
    }

    #[test]
    fn tables_are_joined_where_they_say_the_same() {
        let mut costs = Table::new(&["rules", "ns"]);
        costs.push([10u64.into(), 5.5.into()]);
        costs.push([20u64.into(), 6.5.into()]);
        let mut latencies = Table::new(&["us", "rules"]);
        latencies.push([1.5.into(), 20u64.into()]);
        costs.join(latencies, &["rules"]);
        assert_eq!(costs.csv().unwrap(), "rules,ns,us\n10,5.5000,\n20,6.5000,1.5000\n");
    }

    #[test]
    fn the_floor_that_varied_most_is_found() {
        let pairs = |floors: [f64; 3]| floors.map(|floor| crate::Pair { cost: 20.0, floor });
        let rows = [[9.0, 9.0, 9.0], [9.0, 20.0, 40.0], [8.0, 9.0, 10.0]];
        let rows = rows.map(|floors| Row::new("row", &[], &pairs(floors)));
        let mut table = Table::of_costs(&rows);
        assert_eq!(table.worst_floor(), Some([14.5, 30.0]));
        table.join(Table::new(&["ratio", "us"]), &["ratio"]);
        assert_eq!(table.worst_floor(), Some([14.5, 30.0]));
        assert_eq!(Table::new(&["us"]).worst_floor(), None);
    }

    #[test]
    fn words_with_commas_are_one_cell() {
        let mut table = Table::new(&["way", "ns"]);
        table.push(["spread, by software".into(), 12.5.into()]);
        table.push([Cell::Nothing, f64::NAN.into()]);
        assert_eq!(table.csv().unwrap(), "way,ns\n\"spread, by software\",12.500\n,\n");
    }
}
