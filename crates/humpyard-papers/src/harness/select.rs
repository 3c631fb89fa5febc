//! Selects rows of a table, and computes figures of their columns.

use super::plot::line;
use super::statistics::{Range, listed, mean};
use super::table::TableRow;
use humpyard_plot::statistics::Statistic;
use humpyard_plot::{Line, Point};

/// Rows of a table.
pub(crate) trait Rows<'a>: Iterator<Item = TableRow<'a>> + Clone + Sized {
    /// Keeps the rows with this text in this column.
    fn of<'b>(self, column: &'b str, text: &'b str) -> impl Rows<'a> {
        self.filter(move |row| row.text(column) == text)
    }

    /// Keeps the rows with this number in this column.
    fn at(self, column: &str, number: f64) -> impl Rows<'a> {
        self.filter(move |row| row.number(column) == number)
    }

    /// Returns the numbers in a column.
    fn numbers(self, column: &str) -> impl Iterator<Item = f64> {
        self.map(move |row| row.number(column))
    }

    /// Sums a column.
    fn total(self, column: &str) -> f64 {
        self.numbers(column).sum()
    }

    /// Returns the greatest number in a column, at least 0.
    fn most(self, column: &str) -> f64 {
        self.numbers(column).fold(0.0, f64::max)
    }

    /// Returns the range of the numbers in a column.
    fn range(self, column: &str) -> Range {
        Range::of(self.numbers(column))
    }

    /// Returns the mean of a column.
    fn mean(self, column: &str) -> f64 {
        mean(&self.numbers(column).collect::<Vec<_>>())
    }

    /// Returns median and range of a column.
    ///
    /// # Panics
    /// If there are no rows.
    fn statistic(self, column: &str) -> Statistic {
        Statistic::of(self.numbers(column).collect()).expect("there are such rows")
    }

    /// Writes the numbers in a column, one after the other.
    fn listed(self, column: &str) -> String {
        listed(self.numbers(column))
    }

    /// Draws one column over another.
    fn line(self, name: impl Into<String>, x: &str, y: &str) -> Line {
        line(name, self.map(|row| Point::from((row.number(x), row.number(y)))))
    }
}

impl<'a, I: Iterator<Item = TableRow<'a>> + Clone> Rows<'a> for I {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::{Table, rows};

    rows! {
        COLUMNS, fn row(policy: &str, clients: u32) {
            let error = f64::from(clients) / 2.0;
        } => {
            text policy = policy, integer clients = clients, real error = error,
        }
    }

    #[test]
    fn rows_are_picked_by_what_they_say() {
        let table = Table::of(COLUMNS, [row("gr3", 4), row("wfq", 2), row("gr3", 1)]);
        assert!(table.csv().starts_with("policy,clients,error\ngr3,4,2\n"), "{}", table.csv());
        let gr3 = table.rows().of("policy", "gr3");
        assert_eq!((gr3.clone().total("clients"), gr3.clone().mean("error")), (5.0, 1.25));
        assert_eq!(gr3.clone().range("error"), Range { least: 0.5, greatest: 2.0 });
        assert_eq!((gr3.clone().listed("error"), gr3.clone().at("clients", 1.0).count()), ("2, 0.5".to_owned(), 1));
        assert_eq!(gr3.line("gr3", "clients", "error").points, [(4.0, 2.0), (1.0, 0.5)].map(Point::from));
    }
}
