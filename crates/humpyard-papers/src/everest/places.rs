//! The rows of a table by place: every policy with the same packets at one point.

use crate::harness::{Table, TableRow, short};

/// Every policy with the same packets at one point.
pub(super) struct Place<'a> {
    pub(super) rows: Vec<TableRow<'a>>,
}

/// The columns that identify a place.
const PLACE: [&str; 6] = ["load", "packet_times", "cores", "tolerance_us", "switch_us", "draw"];

fn same_place(a: &TableRow<'_>, b: &TableRow<'_>) -> bool {
    a.text("traffic") == b.text("traffic") && PLACE.iter().all(|column| a.number(column) == b.number(column))
}

/// Returns the places of a table, in its order.
pub(super) fn places(data: &Table) -> Vec<Place<'_>> {
    let mut places: Vec<Place<'_>> = Vec::new();
    for row in data.rows() {
        match places.last_mut().filter(|place| same_place(&place.rows[0], &row)) {
            Some(place) => place.rows.push(row),
            None => places.push(Place { rows: vec![row] }),
        }
    }
    places
}

/// Returns the traffic of a table: generators and loads.
pub(super) fn traffic_of(data: &Table) -> Vec<(String, f64)> {
    traffic_in(data.rows())
}

/// Lists the traffic of these rows, each once.
fn traffic_in<'a>(rows: impl Iterator<Item = TableRow<'a>>) -> Vec<(String, f64)> {
    let mut traffic: Vec<(String, f64)> = Vec::new();
    for row in rows {
        let one = (row.text("traffic").to_owned(), row.number("load"));
        if !traffic.contains(&one) {
            traffic.push(one);
        }
    }
    traffic
}

/// Returns these places by traffic.
pub(super) fn by_traffic<'a, 'b>(places: &[&'b Place<'a>]) -> Vec<Vec<&'b Place<'a>>> {
    let traffic = traffic_in(places.iter().map(|place| place.rows[0]));
    let of = |(profile, load): (String, f64)| {
        let is_of = |place: &&&Place<'_>| place.rows[0].text("traffic") == profile && place.number("load") == load;
        places.iter().filter(is_of).copied().collect()
    };
    traffic.into_iter().map(of).collect()
}

impl Place<'_> {
    /// Returns the value of a column that all policies share.
    pub(super) fn number(&self, column: &str) -> f64 {
        self.rows[0].number(column)
    }

    /// Returns the traffic and its load.
    pub(super) fn name(&self) -> String {
        format!("{} at {}", self.rows[0].text("traffic"), short(self.number("load")))
    }

    /// Returns t_sw/D.
    pub(super) fn ratio(&self) -> f64 {
        self.number("switch_us") / self.number("tolerance_us")
    }

    /// Returns the value of a column for a policy.
    pub(super) fn of(&self, policy: &str, column: &str) -> f64 {
        let row = self.rows.iter().find(|row| row.text("policy") == policy);
        row.unwrap_or_else(|| panic!("`{policy}` is everywhere")).number(column)
    }

    /// Returns late packets, in %.
    pub(super) fn late(&self, policy: &str) -> f64 {
        self.of(policy, "late_percent")
    }

    /// Returns the number of late packets.
    pub(super) fn late_packets(&self, policy: &str) -> f64 {
        (self.late(policy) * self.number("packets") / 100.0).round()
    }

    /// Returns the mean delay of a policy over that of another.
    pub(super) fn delay_over(&self, policy: &str, other: &str) -> f64 {
        self.of(policy, "delay_mean_us") / self.of(other, "delay_mean_us")
    }
}
