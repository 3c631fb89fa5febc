//! Figures 2 and 3 and table 1: what packets take over their length, what a cold engine adds, and what estimators make
//! of it.

use core::sync::atomic::AtomicBool;
use core::time::Duration;

use humpyard_core::config::SchedulerConfig;
use humpyard_core::cost::LinearCost;
use humpyard_core::id::ServiceId;
use humpyard_core::packet::Packet;
use humpyard_core::policy::{Build, Estimate};
use humpyard_core::random::Seed;
use humpyard_policies::estimate::least_squares::{LeastSquares, LeastSquaresParams};

use super::costs::{Machine, NAMES, noise};
use super::machine::{ENGINES, drawn, mean_work, thirty};
use super::paper::{DRAWS, PAPER};
use crate::harness::{
    About, Bound, Column, Experiment, Plots, Row, Rows, Scale, Table, TableRow, Verdict, rows, short, whole,
};
use humpyard_lab::LabError;
use humpyard_lab::calibrate::{CalibrateOptions, Calibration, LENGTHS, LineFit, calibrate, parse_services};
use humpyard_plot::statistics::Statistic;
use humpyard_plot::{Axis, Bar, BarGroup, BarPlot, Line, LinePlot, Point, Svg};

/// A figure: how its data come about, and what is said of them.
pub(super) struct Figure {
    id: &'static str,
    figure: &'static str,
    title: &'static str,
    description: &'static str,
    columns: &'static [Column],
    /// Whether services are measured.
    is_timed: bool,
    run: fn(Scale, usize, Seed) -> Result<Vec<Row>, LabError>,
    verdicts: fn(&Table) -> Vec<Verdict>,
    plot: fn(&str, &Table) -> Svg,
}

pub(super) static FIGURES: [Figure; 3] = [
    Figure {
        id: "predictive-fig2",
        figure: "figure 2",
        title: "processing time over the length of packets",
        description: "`table 1` are times drawn about its lines at speed 10, 25 % more or less for compress and 5 % \
            for the others, 64 of each length, and the range that leaves out 5 % on either side. `measured` are this \
            project's services on this machine, as `humpyard calibrate` measures them: medians of batches, and what \
            leaves out 10 % of them on either side. Lines are by the medians of slopes.",
        columns: TIMES,
        is_timed: true,
        run: times,
        verdicts: linear,
        plot: by_length,
    },
    Figure {
        id: "predictive-fig3",
        figure: "figure 3",
        title: "what a cold cache adds",
        description: "`measured` is what a packet of 512 bytes takes longer on this machine after one of another \
            service (the median over services), and after 512 KiB, 2 MiB and 16 MiB of memory were touched; `table 1` \
            is the paper's. What is measured at other lengths is not known: that the penalty does not depend on the \
            length is assumed, as in the paper.",
        columns: PENALTIES,
        is_timed: true,
        run: penalties,
        verdicts: dearer,
        plot: by_cause,
    },
    Figure {
        id: "predictive-table1",
        figure: "table 1",
        title: "costs of the applications, and what least squares finds of them",
        description: "Times are drawn about the lines of table 1 at speed 10, without noise and with it; the estimator \
            sees 1,000 packets of 64 to 1,500 bytes, one in eight on a cold engine, and forgets nothing.",
        columns: LEARNED,
        is_timed: false,
        run: learned,
        verdicts: recovered,
        plot: lines_learned,
    },
];

const TABLE: &str = "table 1";
const MEASURED: &str = "measured";
rows! {
    TIMES, fn time_row(source: &str, name: &str, bytes: f64, [median, low, high]: [f64; 3], fit: &LineFit) {
        text source = source, text application = name, real bytes = bytes, real median_ns = median, real low_ns = low,
        real high_ns = high, real fixed_ns = fit.fixed_ns, real per_byte_ns = fit.per_byte_ns,
        real r_squared = fit.r_squared,
    }
}
rows! {
    PENALTIES, fn penalty_row(source: &str, name: &str, after: String, penalty: f64, work: f64) {
        text source = source, text application = name, text after = after, real penalty_ns = penalty,
        real work_ns = work,
    }
}
rows! {
    LEARNED, fn learned_row(name: &str, gamma: f64, strays: f64, draw: usize, estimator: &LeastSquares) {
        let cost = Machine::Paper.cost(name);
        let at = |length: u32| estimator.estimate(&Packet { length, ..Packet::default() }) as f64;
        let slope = (at(1_500) - at(0)) / 1_500.0;
        let error = |length: usize| (at(length as u32) / cost.work(length as u32) as f64 - 1.0).abs();
    } => {
        text application = name, real noise = strays, integer draw = draw, real fixed_us = cost.fixed as f64 / 1e3,
        real per_byte_ns = cost.per_byte_milli as f64 / 1e3, real cold_us = cost.cold as f64 / 1e3,
        real gamma = gamma, real fixed_learned_us = at(0) / 1e3, real per_byte_learned_ns = slope,
        real cold_learned_us = estimator.cold(ServiceId(0)) as f64 / 1e3,
        real error_max = LENGTHS.into_iter().map(error).fold(0.0, f64::max),
    }
}
/// Bytes out for each that comes in, by table 1, of the applications in order; of compression the mean of what it says.
const GAMMA: [f64; 4] = [1.0, 1.0, 0.235, 1.14];
/// Table 1 itself: alpha, beta and pi in us on an engine of 167 MHz.
const TABLE_1: [(f64, f64, f64); 4] =
    [(51.0, 0.0, 70.0), (320.0, 1.3, 170.0), (970.0, 7.6, 950.0), (320.0, 9.2, 175.0)];
/// Drawn times of each length.
const SAMPLES: usize = 64;
/// Bytes of the packets on which cold engines are measured.
const COLD_BYTES: u32 = 512;

/// What services take on this machine.
fn measure(scale: Scale, seed: Seed) -> Result<Calibration, LabError> {
    let longest = Duration::from_secs(scale.pick(5, 24));
    let services = parse_services(&NAMES.join(","))?;
    let options = CalibrateOptions { services, longest, matrix: false, machine: false, seed };
    calibrate(&options, &AtomicBool::new(false), &mut |_, _, _| ())
}

fn times(scale: Scale, _: usize, seed: Seed) -> Result<Vec<Row>, LabError> {
    let mut rows = Vec::new();
    let mut random = seed.stream("predictive/figure-2");
    for name in NAMES {
        let draw = |length: usize| -> Vec<f64> {
            let mut times: Vec<f64> =
                (0..SAMPLES).map(|_| drawn(&mut random, Machine::Paper, name, length as u32) as f64).collect();
            times.sort_by(f64::total_cmp);
            times
        };
        let drawn: Vec<Vec<f64>> = LENGTHS.map(draw).into_iter().collect();
        let points = LENGTHS
            .iter()
            .zip(&drawn)
            .flat_map(|(&length, times)| times.iter().map(move |&time| (length as f64, time)));
        let fit = LineFit::of(&points.collect::<Vec<_>>());
        for (&length, times) in LENGTHS.iter().zip(&drawn) {
            let at = |part: f64| times[((SAMPLES - 1) as f64 * part).round() as usize];
            rows.push(time_row(TABLE, name, length as f64, [at(0.5), at(0.05), at(0.95)], &fit));
        }
    }
    for service in measure(scale, seed)?.services {
        for point in &service.points {
            let times = [point.median_ns, point.p10_ns, point.p90_ns];
            rows.push(time_row(MEASURED, &service.service, point.length_bytes, times, &service.fit));
        }
    }
    Ok(rows)
}

/// Figure 2.
fn linear(data: &Table) -> Vec<Verdict> {
    let of = |source: &str, name: &str, column: &str| {
        let mut rows = data.rows_of("source", source);
        rows.find(|row| row.text("application") == name).map_or(f64::NAN, |row| row.number(column))
    };
    let mut verdicts = Vec::new();
    for source in [TABLE, MEASURED] {
        let explained = |name| of(source, name, "r_squared");
        let slope = 1500.0 * of(source, "forward", "per_byte_ns") / of(source, "forward", "fixed_ns");
        let claims = [
            (
                "R^2 of encrypt".to_owned(),
                "more than 0.98".to_owned(),
                explained("encrypt"),
                explained("encrypt") > 0.98,
            ),
            ("R^2 of fec".to_owned(), "more than 0.98".to_owned(), explained("fec"), explained("fec") > 0.98),
            (
                "R^2 of compress".to_owned(),
                format!("less than that of encrypt and fec, {}", short(explained("encrypt").min(explained("fec")))),
                explained("compress"),
                explained("compress") < explained("encrypt").min(explained("fec")),
            ),
            ("1,500 bytes of forward over its fixed part".to_owned(), "less than 0.05".to_owned(), slope, slope < 0.05),
        ];
        verdicts.extend(claims.map(|(claim, expected, found, holds)| {
            let claim = format!("{source}: {claim}");
            let verdict = Verdict::of(claim, expected, short(found), holds);
            // Times depend on the machine.
            if source == TABLE { verdict } else { verdict.on_this_machine() }
        }));
    }
    verdicts
}

fn by_length(title: &str, data: &Table) -> Svg {
    let line = |name: &'static str| {
        let rows = data.rows_of("source", MEASURED).of("application", name);
        let point = |row: TableRow<'_>| Point {
            x: row.number("bytes"),
            y: row.number("median_ns"),
            error: Some((row.number("low_ns"), row.number("high_ns"))),
        };
        Line { name: name.to_owned(), points: rows.map(point).collect() }
    };
    LinePlot {
        title: title.to_owned(),
        description: "Services of this machine: medians, and what leaves out 10 % on either side.".to_owned(),
        x: whole("bytes"),
        y: Axis::linear("processing time, in ns", short),
        lines: NAMES.map(line).into_iter().collect(),
    }
    .svg()
}

fn penalties(scale: Scale, _: usize, seed: Seed) -> Result<Vec<Row>, LabError> {
    let mut rows = Vec::new();
    let mut push = |source: &str, name: &str, after: String, penalty: f64, work: f64| {
        rows.push(penalty_row(source, name, after, penalty, work));
    };
    for name in NAMES {
        let cost = Machine::Paper.cost(name);
        push(TABLE, name, "another application".to_owned(), cost.cold as f64, cost.work(COLD_BYTES) as f64);
    }
    for service in measure(scale, seed)?.services {
        let work = service.fit.at(f64::from(COLD_BYTES));
        push(MEASURED, &service.service, "another application".to_owned(), service.cold_ns, work);
        for evicted in &service.evicted {
            push(MEASURED, &service.service, format!("{} KiB touched", evicted.bytes >> 10), evicted.penalty_ns, work);
        }
    }
    Ok(rows)
}

/// Throughput of engines that are always cold over that of engines that never are, for the packets of figures 10 to 12.
fn all_cold(machine: Machine) -> f64 {
    let costs = thirty(machine);
    let cold = costs.iter().map(|cost| cost.cold as f64).sum::<f64>() / costs.len() as f64;
    mean_work(machine) / (mean_work(machine) + cold)
}

/// Figure 3.
fn dearer(data: &Table) -> Vec<Verdict> {
    let all = all_cold(Machine::Paper);
    let mut verdicts = vec![Verdict::of(
        "table 1: throughput of engines that are always cold over that of engines that never are",
        "0.852 within 0.01",
        short(all),
        (all - 0.852).abs() <= 0.01,
    )];
    for name in NAMES {
        let measured: Vec<_> = data.rows_of("source", MEASURED).of("application", name).collect();
        let said = |row: &TableRow<'_>| format!("{} ns after {}", short(row.number("penalty_ns")), row.text("after"));
        let found = measured.iter().map(said).collect::<Vec<_>>().join(", ");
        let lost = measured.last().map_or(f64::NAN, |row| row.number("penalty_ns"));
        verdicts.push(Verdict::of(
            format!("measured: {name} takes longer when all caches are lost"),
            "more than 0 ns",
            format!("{found}, of {} ns", short(measured.first().map_or(f64::NAN, |row| row.number("work_ns")))),
            lost > 0.0,
        ));
    }
    verdicts.push(Verdict::measured(
        "calibrated costs: throughput of engines that are always cold over that of engines that never are; and where \
            caches are lost",
        "0.852 with table 1",
        format!(
            "{} and {}, on {ENGINES} engines as on one",
            short(all_cold(Machine::Here)),
            short(all_cold(Machine::HereEvicted))
        ),
    ));
    verdicts
}

fn by_cause(title: &str, data: &Table) -> Svg {
    let group = |name: &'static str| {
        let rows = data.rows_of("source", MEASURED).of("application", name);
        let bar = |row: TableRow<'_>| Bar {
            name: row.text("after").to_owned(),
            value: row.number("penalty_ns"),
            error: None,
        };
        BarGroup { name: name.to_owned(), bars: rows.map(bar).collect() }
    };
    BarPlot {
        title: title.to_owned(),
        description: "Services of this machine, packets of 512 bytes.".to_owned(),
        value: Axis::linear("longer, in ns", short),
        groups: NAMES.map(group).into_iter().collect(),
    }
    .svg()
}

fn learned(_: Scale, part: usize, seed: Seed) -> Result<Vec<Row>, LabError> {
    let mut rows = Vec::new();
    for (name, gamma) in NAMES.into_iter().zip(GAMMA) {
        for strays in [0.0, noise(name)] {
            let cost = Machine::Paper.cost(name);
            // What it is told of before it has seen anything is wrong.
            let wrong = [LinearCost { fixed: 1, per_byte_milli: 1, cold: 0 }];
            let setup = SchedulerConfig { estimates: wrong.to_vec(), ..SchedulerConfig::default() };
            let mut estimator =
                LeastSquares::new(&LeastSquaresParams { forgetting: 1.0, ..LeastSquaresParams::default() }, &setup)?;
            let mut random = seed.stream(&format!("predictive/table-1/{part}"));
            let packet = |length: u32| Packet { length, ..Packet::default() };
            for number in 0..1_000 {
                let length = 64 + random.below(1_437) as u32;
                let used =
                    if strays > 0.0 { drawn(&mut random, Machine::Paper, name, length) } else { cost.work(length) };
                let cold = number % 8 == 7;
                estimator.on_completion(&packet(length), used + if cold { cost.cold } else { 0 }, cold);
            }
            rows.push(learned_row(name, gamma, strays, part + 1, &estimator));
        }
    }
    Ok(rows)
}

/// Table 1.
fn recovered(data: &Table) -> Vec<Verdict> {
    let constants = NAMES.iter().zip(TABLE_1).all(|(name, (alpha, beta, pi))| {
        // A tenth, in ns.
        let ns = |us: f64| (100.0 * us).round() as u64;
        let expected = LinearCost { fixed: ns(alpha), per_byte_milli: ns(1e3 * beta), cold: ns(pi) };
        Machine::Paper.cost(name) == expected
    });
    let errors = |noisy: bool, name: &str| {
        let rows = data.rows_of("application", name).filter(|row| (row.number("noise") > 0.0) == noisy);
        Statistic::of(rows.map(|row| row.number("error_max")).collect()).expect("a draw")
    };
    let exact = NAMES.map(|name| errors(false, name).max).into_iter().fold(0.0, f64::max);
    let mut verdicts = vec![
        Verdict::of(
            "costs `predictive` are those of table 1 at speed 10",
            "alpha, beta and pi of all four",
            if constants { "all of them" } else { "others" },
            constants,
        ),
        Verdict::bounded(
            "without noise: the greatest error of an estimate after 1,000 packets",
            Bound::AtMost(0.01),
            exact,
        ),
    ];
    verdicts.extend(NAMES.map(|name| {
        let Statistic { median, min, max, .. } = errors(true, name);
        let claim =
            format!("with {} % of noise: the greatest error of an estimate of {name}", short(100.0 * noise(name)));
        let found = format!("{} in the median of the draws, {} to {}", short(median), short(min), short(max));
        if name == "compress" {
            Verdict::measured(claim, "more than of the others: five times the noise", found)
        } else {
            Verdict::of(claim, "at most 0.01", found, median <= 0.01)
        }
    }));
    verdicts
}

fn lines_learned(title: &str, data: &Table) -> Svg {
    let line = |name: &'static str, is_learned: bool| {
        let row = data.rows_of("application", name).find(|row| row.number("noise") > 0.0).expect("a row of each");
        let [fixed, per_byte] =
            if is_learned { ["fixed_learned_us", "per_byte_learned_ns"] } else { ["fixed_us", "per_byte_ns"] };
        let at = |bytes: f64| (bytes, row.number(fixed) + bytes * row.number(per_byte) / 1e3).into();
        let name = if is_learned { format!("{name}, learned") } else { name.to_owned() };
        Line { name, points: vec![at(64.0), at(1_500.0)] }
    };
    LinePlot {
        title: title.to_owned(),
        description: "Table 1 at speed 10, and what least squares makes of 1,000 packets with noise.".to_owned(),
        x: whole("bytes"),
        y: Axis::linear("processing time, in us", short),
        lines: NAMES.into_iter().flat_map(|name| [line(name, false), line(name, true)]).collect(),
    }
    .svg()
}

/// What is common to them.
const ABOUT: About = About::of(PAPER);

impl Experiment for Figure {
    fn about(&self) -> About {
        About {
            id: self.id,
            figure: self.figure,
            title: self.title,
            description: self.description,
            columns: self.columns,
            ..ABOUT
        }
    }

    fn parts(&self, scale: Scale) -> usize {
        if self.is_timed { 1 } else { scale.of(DRAWS) }
    }

    fn run(&self, part: usize, scale: Scale, seed: Seed) -> Result<Vec<Row>, LabError> {
        (self.run)(scale, part, seed)
    }

    fn verdicts(&self, data: &Table) -> Vec<Verdict> {
        (self.verdicts)(data)
    }

    fn plots(&self, data: &Table) -> Plots {
        vec![("main".to_owned(), (self.plot)(self.title, data))]
    }

    fn is_timed(&self) -> bool {
        self.is_timed
    }
}
