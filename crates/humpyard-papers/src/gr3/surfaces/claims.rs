//! What figures 4 to 11 claim: PROPORTIONAL_SHARE section 5.1.

use super::super::errors::errors;
use super::place::axes;
use crate::harness::{Bound, Range, Rows, Table, TableRow, Verdict, listed};

/// The place of so many clients and weights of such a sum.
fn place(data: &Table, clients: u32, total: u32) -> TableRow<'_> {
    let mut rows = data.rows().at("clients", clients.into()).at("total", total.into());
    rows.next().expect("every scale has the corners")
}

/// The paper's range beside ours: what it is depends on its law of the weights, which it does not say.
fn paper(data: &Table, least: f64, greatest: f64) -> Verdict {
    let said = Range { least, greatest };
    Verdict::measured("range at all places (paper)", said.to_string(), errors(data.rows()).to_string())
}

/// A claim that must hold at every place; the first place where it does not is named.
fn everywhere(data: &Table, claim: &str, expected: &str, holds: impl Fn(&TableRow<'_>) -> bool) -> Verdict {
    let broken = |row: TableRow<'_>| {
        let [clients, total] = ["clients", "total"].map(|column| row.number(column));
        let errors = Range { least: row.number("error_min"), greatest: row.number("error_max") };
        format!("not with {clients} clients and a sum of {total}: {errors}")
    };
    let all = |count| format!("at all {count} places");
    Verdict::everywhere((claim, expected), data.rows(), holds, all, broken).expect("there are places")
}

fn inside(data: &Table, low: f64, high: f64) -> Verdict {
    Verdict::bounded("all errors", Bound::Within(low, high), errors(data.rows()))
}

pub(super) fn wrr(data: &Table) -> Vec<Verdict> {
    let exact = |row: &TableRow<'_>| {
        let (heaviest, total) = (row.number("heaviest") as i128, row.number("total") as i128);
        let (numerator, denominator) = fraction(row.text("error_max_exact"));
        numerator * total == heaviest * (total - heaviest) * denominator
    };
    let corner = place(data, 32, 1 << 18);
    vec![
        everywhere(data, "greatest error, exactly", "w (1 - w / S), w the heaviest of all weights S", exact),
        Verdict::within("least error, 32 clients, sum 2^18", (-21_000.0, -8000.0), corner.number("error_min")),
        paper(data, -12_067.0, 23_593.0),
    ]
}

/// A quotient, or a whole number, as it is written.
fn fraction(text: &str) -> (i128, i128) {
    let number = |text: &str| text.parse().expect("a whole number");
    text.split_once('/').map_or_else(|| (number(text), 1), |(above, below)| (number(above), number(below)))
}

pub(super) fn wfq(data: &Table) -> Vec<Verdict> {
    let by_clients = |row: &TableRow<'_>| {
        let most = 0.1 * row.number("clients");
        (most - 1.2..=most).contains(&row.number("error_max"))
    };
    vec![
        everywhere(data, "least error", "more than -1", |row| row.number("error_min") > -1.0),
        everywhere(data, "greatest error of N clients", "0.1 N - 1.2 to 0.1 N", by_clients),
        paper(data, -1.0, 819.0),
    ]
}

pub(super) fn sfq(data: &Table) -> Vec<Verdict> {
    let by_clients = |row: &TableRow<'_>| {
        let least = -0.1 * row.number("clients");
        (least..=least + 1.2).contains(&row.number("error_min"))
    };
    vec![
        everywhere(data, "greatest error", "at most 1", |row| row.number("error_max") <= 1.0),
        everywhere(data, "least error of N clients", "-0.1 N to 1.2 - 0.1 N", by_clients),
        paper(data, -819.0, 1.0),
    ]
}

pub(super) fn vtrr(data: &Table) -> Vec<Verdict> {
    let corner = place(data, 8192, 1 << 18);
    vec![
        Verdict::within("least error, 8192 clients, sum 2^18", (-2400.0, -1800.0), corner.number("error_min")),
        Verdict::within("greatest error, 8192 clients, sum 2^18", (5000.0, 20_000.0), corner.number("error_max")),
        paper(data, -2129.0, 10_079.0),
    ]
}

pub(super) fn srr(data: &Table) -> Vec<Verdict> {
    let corner = place(data, 8192, 1 << 18);
    let (least, greatest) = (corner.number("error_min"), corner.number("error_max"));
    vec![
        Verdict::within("least error, 8192 clients, sum 2^18", (-400.0, -350.0), least),
        Verdict::within("greatest error, 8192 clients, sum 2^18", (350.0, 400.0), greatest),
        Verdict::within("greatest error less the least as a magnitude", (-1.0, 1.0), greatest + least),
        paper(data, -369.0, 369.0),
    ]
}

pub(super) fn gr3(data: &Table) -> Vec<Verdict> {
    let found = errors(data.rows());
    let spans = Range::of(data.rows().map(|row| row.number("error_max") - row.number("error_min")));
    vec![
        inside(data, -3.0, 3.5),
        Verdict::bounded("least error anywhere", Bound::AtMost(-2.2), found.least),
        Verdict::bounded("greatest error anywhere", Bound::AtLeast(2.4), found.greatest),
        Verdict::bounded(
            "the widest range at a place over the narrowest",
            Bound::LessThan(2.0),
            spans.greatest / spans.least,
        ),
        paper(data, -2.5, 3.0),
    ]
}

pub(super) fn wf2q_plus(data: &Table) -> Vec<Verdict> {
    vec![inside(data, -1.0, 1.0)]
}

pub(super) fn gr3mp(data: &Table) -> Vec<Verdict> {
    vec![inside(data, -3.0, 3.5), paper(data, -2.5, 2.8)]
}

pub(super) fn queue_draws(data: &Table) -> Vec<Verdict> {
    let most = data.rows().most("queue_draws_max");
    let by_clients: Vec<f64> =
        axes(data).0.into_iter().map(|clients| data.rows().at("clients", clients).most("queue_draws_max")).collect();
    let falls = by_clients.first().zip(by_clients.last()).is_some_and(|(first, last)| last <= first);
    vec![
        Verdict::within("most draws for one packet", (1.0, 7.0), most),
        Verdict::of(
            "most draws with ever more clients",
            "no more with most clients than with fewest",
            listed(by_clients),
            falls,
        ),
    ]
}
