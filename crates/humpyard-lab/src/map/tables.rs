//! The tables of the map: what each policy did in each cell, and what elephants cost plain hashing.

use super::WholeMap;
use super::classes::Herd;
use super::front::{LOSS, OBJECTIVES, P99};
use super::rounds::{MapCell, PolicyScores};
use crate::table::{Column, Row, Table, Value};

/// Returns a row for each cell and each policy that fits it.
pub(super) fn map(map: &WholeMap<'_>) -> Table {
    let first = [Column::text("class"), Column::integer("cores"), Column::text("host"), Column::real("load")];
    let herd = [Column::integer("elephants"), Column::real("share"), Column::text("policy")];
    let objectives = OBJECTIVES.iter().map(|objective| Column::real(objective.key));
    let columns = first.into_iter().chain(herd).chain([Column::integer("packets")]).chain(objectives);
    let judged = [Column::integer("front"), Column::real("times"), Column::real("times_order_kept")];
    let mut table = Table::with_columns(columns.chain(judged).collect());
    for cell in &map.cells {
        for (policy, found) in map.policies.iter().zip(&cell.found) {
            let Some(found) = found else { continue };
            let Herd { count, share } = cell.point.herd.unwrap_or(Herd { count: 0, share: 0.0 });
            let mut row: Row = place(cell);
            row.extend([Value::from(count), Value::from(share), Value::from(policy.as_str())]);
            row.push(Value::from(found.packets));
            row.extend(found.scores.map(Value::from));
            row.push(Value::from(u32::from(found.is_on_front)));
            let order_kept = found.times.order_kept.unwrap_or(f64::NAN);
            row.extend([found.times.any_order, order_kept].map(Value::from));
            table.push(row);
        }
    }
    table.to_nine_digits()
}

fn place(cell: &MapCell<'_>) -> Row {
    let place = cell.place;
    vec![
        Value::from(place.class.name.as_str()),
        Value::from(place.cores),
        Value::from(place.host),
        Value::from(cell.point.load),
    ]
}

/// What elephants cost plain hashing in a cell.
#[derive(Clone, Debug)]
pub(super) struct ElephantCost<'a> {
    pub(super) cell: &'a MapCell<'a>,
    pub(super) herd: Herd,
    pub(super) hashing: PolicyScores,
    pub(super) best: PolicyScores,
    /// Name of the best policy.
    pub(super) policy: &'a str,
}

impl ElephantCost<'_> {
    /// Returns how many times the least p99 plain hashing has: the least of policies that keep the order of flows, or
    /// of all.
    pub(super) fn times(&self, keeps_order: bool) -> f64 {
        let times = self.hashing.times;
        if keeps_order { times.order_kept.unwrap_or(times.any_order) } else { times.any_order }
    }
}

/// Returns what elephants cost, cell by cell.
pub(super) fn elephant_costs<'a>(map: &'a WholeMap<'_>) -> Vec<ElephantCost<'a>> {
    let of = |cell: &'a MapCell<'a>| {
        let herd = cell.point.herd?;
        let tried = || map.policies.iter().zip(&cell.found).filter_map(|(policy, found)| Some((policy, (*found)?)));
        let packets = tried().map(|(_, found)| found.packets).max()?;
        let last = tried().filter(|(_, found)| found.packets == packets);
        let (policy, best) =
            last.min_by(|(_, one), (_, other)| one.times.any_order.total_cmp(&other.times.any_order))?;
        Some(ElephantCost { cell, herd, hashing: cell.found[0]?, best, policy })
    };
    map.cells.iter().filter_map(of).collect()
}

const COLUMNS: &[Column] = &[
    Column::integer("cores"),
    Column::text("host"),
    Column::real("load"),
    Column::integer("elephants"),
    Column::real("share"),
    Column::real("hashing_p99_ns"),
    Column::real("hashing_loss"),
    Column::text("best"),
    Column::real("best_p99_ns"),
    Column::real("best_loss"),
    Column::real("times"),
    Column::real("times_order_kept"),
];

/// Returns a row for each number of elephants and share of a core, with plain hashing and the best policy.
pub(super) fn elephants(map: &WholeMap<'_>) -> Table {
    let row = |cost: &ElephantCost<'_>| {
        let mut row = place(cost.cell).split_off(1);
        row.extend([Value::from(cost.herd.count), Value::from(cost.herd.share)]);
        row.extend([P99, LOSS].map(|at| Value::from(cost.hashing.scores[at])));
        row.push(Value::from(cost.policy));
        row.extend([P99, LOSS].map(|at| Value::from(cost.best.scores[at])));
        row.extend([false, true].map(|keeps_order| Value::from(cost.times(keeps_order))));
        row
    };
    Table::of(COLUMNS, elephant_costs(map).iter().map(row)).to_nine_digits()
}
