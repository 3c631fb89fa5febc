//! What figures 4 to 11 claim: PROPORTIONAL_SHARE section 5.1.

use super::super::{Table, TableRow, Verdict, short};

/// The least and the greatest error at all places.
fn range(data: &Table) -> (f64, f64) {
    data.rows().fold((f64::INFINITY, f64::NEG_INFINITY), |(least, greatest), row| {
        (least.min(row.number("error_min")), greatest.max(row.number("error_max")))
    })
}

/// The place of so many clients and weights of such a sum.
fn place<'a>(data: &'a Table, clients: u32, total: u32) -> TableRow<'a> {
    let is_there =
        |row: &TableRow<'_>| row.number("clients") == f64::from(clients) && row.number("total") == f64::from(total);
    data.rows().find(is_there).expect("every scale has the corners")
}

/// The paper's range beside ours: what it is depends on its law of the weights, which it does not say.
fn paper(data: &Table, least: f64, greatest: f64) -> Verdict {
    let (found_least, found_greatest) = range(data);
    Verdict::measured(
        "range at all places (paper)",
        format!("{} to {}", short(least), short(greatest)),
        format!("{} to {}", short(found_least), short(found_greatest)),
    )
}

/// A claim that must hold at every place; the first place where it does not is named.
fn everywhere(data: &Table, claim: &str, expected: &str, holds: impl Fn(TableRow<'_>) -> bool) -> Verdict {
    let broken = data.rows().find(|&row| !holds(row));
    let measured = broken.map_or_else(
        || format!("at all {} places", data.len()),
        |row| {
            format!(
                "not with {} clients and a sum of {}: {} to {}",
                row.number("clients"),
                row.number("total"),
                short(row.number("error_min")),
                short(row.number("error_max"))
            )
        },
    );
    Verdict::of(claim, expected, measured, broken.is_none())
}

fn inside(data: &Table, low: f64, high: f64) -> Verdict {
    let (least, greatest) = range(data);
    Verdict::of(
        "all errors",
        format!("{} to {}", short(low), short(high)),
        format!("{} to {}", short(least), short(greatest)),
        least >= low && greatest <= high,
    )
}

pub(super) fn wrr(data: &Table) -> Vec<Verdict> {
    let exact = |row: TableRow<'_>| {
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
    let by_clients = |row: TableRow<'_>| {
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
    let by_clients = |row: TableRow<'_>| {
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
    let (least, greatest) = range(data);
    let spans = || data.rows().map(|row| row.number("error_max") - row.number("error_min"));
    let (narrowest, widest) =
        spans().fold((f64::INFINITY, 0.0f64), |(least, most), span| (least.min(span), most.max(span)));
    vec![
        inside(data, -3.0, 3.5),
        Verdict::of("least error anywhere", "at most -2.2", short(least), least <= -2.2),
        Verdict::of("greatest error anywhere", "at least 2.4", short(greatest), greatest >= 2.4),
        Verdict::of(
            "the widest range at a place over the narrowest",
            "less than 2",
            short(widest / narrowest),
            widest / narrowest < 2.0,
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
    let most = data.rows().map(|row| row.number("queue_draws_max")).fold(0.0, f64::max);
    let among = |clients: f64| {
        let rows = data.rows().filter(move |row| row.number("clients") == clients);
        rows.map(|row| row.number("queue_draws_max")).fold(0.0, f64::max)
    };
    let (clients, _) = super::axes(data);
    let by_clients: Vec<f64> = clients.iter().map(|&clients| among(clients)).collect();
    let text = by_clients.iter().map(|&draws| short(draws)).collect::<Vec<_>>().join(", ");
    let falls = by_clients.first().zip(by_clients.last()).is_some_and(|(first, last)| last <= first);
    vec![
        Verdict::within("most draws for one packet", (1.0, 7.0), most),
        Verdict::of("most draws with ever more clients", "no more with most clients than with fewest", text, falls),
    ]
}
