//! The results of the policies with one workload.

use super::machine::SATURATED;
use super::workload::{ALL, Cost, Workload};
use crate::harness::{Rows, Table};
use humpyard_plot::statistics::Statistic;

/// The results of policies with one workload, cost, and kind of arrivals.
#[derive(Clone, Copy)]
pub(super) struct Found<'a> {
    pub(super) data: &'a Table,
    pub(super) workload: Workload,
    pub(super) cost: Cost,
    pub(super) feed: &'a str,
}

impl<'a> Found<'a> {
    /// Returns the results with all workloads in the data, for these costs.
    pub(super) fn all(data: &'a Table, cost: Cost, feed: &'a str) -> impl Iterator<Item = Self> {
        let of = move |workload: Workload| Self { data, workload, cost, feed };
        ALL.into_iter().map(of).filter(|found| found.rows("conn").next().is_some())
    }

    pub(super) fn name(&self) -> String {
        let cost = if self.cost == Cost::Model { "" } else { ", the measured cost of a service" };
        let feed = if self.feed == SATURATED { "" } else { ", load 0.8" };
        format!("{}{cost}{feed}", self.workload.name())
    }

    /// Returns the rows of a policy, draw by draw.
    fn rows(&self, policy: &str) -> impl Rows<'a> {
        let rows = self.data.rows_of("policy", policy).of("workload", self.workload.name());
        rows.of("cost", self.cost.name()).of("feed", self.feed)
    }

    /// Returns a column of a policy in the first draw; NaN if there is none.
    pub(super) fn value(&self, policy: &str, column: &str) -> f64 {
        self.rows(policy).next().map_or(f64::NAN, |row| row.number(column))
    }

    /// Returns a column of one policy over that of another.
    pub(super) fn ratio(&self, column: &str, policy: &str, other: &str) -> f64 {
        self.value(policy, column) / self.value(other, column)
    }

    /// Returns the range of the cores' utilizations.
    pub(super) fn spread(&self, policy: &str) -> f64 {
        self.value(policy, "utilization_max") - self.value(policy, "utilization_min")
    }

    pub(super) fn statistic(&self, policy: &str, column: &str) -> Statistic {
        self.rows(policy).statistic(column)
    }
}
