//! Figures 2 and 3 and table 1: packet time over length, the extra time of a cold engine, and the results of
//! estimators.

use core::sync::atomic::AtomicBool;
use core::time::Duration;

use humpyard_core::config::SchedulerConfig;
use humpyard_core::cost::LinearCost;
use humpyard_core::id::ServiceId;
use humpyard_core::packet::Packet;
use humpyard_core::policy::{Build, Estimate};
use humpyard_core::random::Seed;
use humpyard_policies::estimate::least_squares::{LeastSquares, LeastSquaresParams};

use super::costs::{Machine, NAMES, PAYLOAD, noise};
use super::machine::{drawn, mean_work, thirty};
use super::paper::{DRAWS, PAPER};
use crate::harness::{
    About, Column, Experiment, Figure, Note, Plots, Row, Rows, Scale, Table, TableRow, mean, rows, short, whole,
};
use humpyard_lab::LabError;
use humpyard_lab::calibrate::{CalibrateOptions, Calibration, LENGTHS, LineFit, calibrate, parse_services};
use humpyard_plot::{Axis, Bar, BarGroup, BarPlot, Line, LinePlot, Point, Svg};

/// A figure: how its data are made, and its texts.
pub(super) struct Kernels {
    id: &'static str,
    figure: &'static str,
    title: &'static str,
    description: &'static str,
    columns: &'static [Column],
    /// Whether it measures services.
    is_timed: bool,
    run: fn(Scale, usize, Seed) -> Result<Vec<Row>, LabError>,
    figures: &'static [Figure],
    notes: fn(&Table) -> Vec<Note>,
    plot: fn(&str, &Table) -> Svg,
}

pub(super) static EXPERIMENTS: [Kernels; 3] = [
    Kernels {
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
        figures: LINEAR,
        notes: fits,
        plot: by_length,
    },
    Kernels {
        id: "predictive-fig3",
        figure: "figure 3",
        title: "what a cold cache adds",
        description: "`measured` is what a packet of 512 bytes takes longer on this machine after one of another \
            service (the median over services), and after 512 KiB, 2 MiB and 16 MiB of memory were touched; of \
            encrypt also with packets of 64 and of 1,500 bytes. `table 1` is the paper's.",
        columns: PENALTIES,
        is_timed: true,
        run: penalties,
        figures: DEARER,
        notes: penalties_noted,
        plot: by_cause,
    },
    Kernels {
        id: "predictive-table1",
        figure: "table 1",
        title: "costs of the applications, and what least squares finds of them",
        description: "Times are drawn about the lines of table 1 at speed 10, without noise and with it; the estimator \
            sees 1,000 packets of 64 to 1,500 bytes, one in eight on a cold engine, and forgets nothing.",
        columns: LEARNED,
        is_timed: false,
        run: learned,
        figures: RECOVERED,
        notes: |_| Vec::new(),
        plot: lines_learned,
    },
];

const TABLE: &str = "table 1";
const MEASURED: &str = "measured";
/// The work before a packet on a cold engine.
const OTHER: &str = "another application";
rows! {
    TIMES, fn time_row(
        source: &str, name: &str, bytes: f64, [median, low, high]: [f64; 3], fit: &LineFit, gamma: f64
    ) {
        text source = source, text application = name, real bytes = bytes, real median_ns = median, real low_ns = low,
        real high_ns = high, real fixed_ns = fit.fixed_ns, real per_byte_ns = fit.per_byte_ns,
        real r_squared = fit.r_squared, real bytes_out_over_in = gamma,
    }
}
rows! {
    PENALTIES, fn penalty_row(source: &str, name: &str, bytes: u32, after: String, penalty: f64, work: f64) {
        text source = source, text application = name, integer bytes = bytes, text after = after,
        real penalty_ns = penalty,
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
/// Output bytes per input byte, by table 1, of the applications in order; for compression, the mean of its
/// range.
const GAMMA: [f64; 4] = [1.0, 1.0, 0.235, 1.14];
/// Number of drawn times per length.
const SAMPLES: usize = 64;
/// Lengths of the packets for measurements of cold engines, in bytes: first the one for all services, then the
/// shortest and the longest.
const COLD_BYTES: [u32; 3] = [512, 64, 1500];
/// The work that evicts all caches.
const ALL_LOST: &str = "16384 KiB touched";

/// Measures services on this machine.
fn measure(scale: Scale, names: &[&str], cold_bytes: u32, seed: Seed) -> Result<Calibration, LabError> {
    let longest = Duration::from_secs(scale.pick(5, 24));
    let services = parse_services(&names.join(","))?;
    let cold_length = cold_bytes as usize;
    let options = CalibrateOptions { services, longest, matrix: false, machine: false, cold_length, seed };
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
        let gamma = GAMMA[NAMES.iter().position(|known| *known == name).unwrap_or_default()];
        for (&length, times) in LENGTHS.iter().zip(&drawn) {
            let at = |part: f64| times[((SAMPLES - 1) as f64 * part).round() as usize];
            rows.push(time_row(TABLE, name, length as f64, [at(0.5), at(0.05), at(0.95)], &fit, gamma));
        }
    }
    for service in measure(scale, &NAMES, COLD_BYTES[0], seed)?.services {
        for point in &service.points {
            let times = [point.median_ns, point.p10_ns, point.p90_ns];
            let (name, bytes) = (&service.service, point.length_bytes);
            rows.push(time_row(MEASURED, name, bytes, times, &service.fit, point.expansion));
        }
    }
    Ok(rows)
}

/// Returns the rows of a service on this machine.
fn measured<'a>(data: &'a Table, application: &'a str) -> impl Rows<'a> {
    data.rows_of("source", MEASURED).of("application", application)
}

/// Returns the times of the shortest and of the longest packets.
fn ends(data: &Table, application: &str) -> [f64; 2] {
    let times = || measured(data, application).numbers("median_ns");
    [times().next(), times().last()].map(|time| time.unwrap_or(f64::NAN))
}

/// Figure 2.
const LINEAR: &[Figure] = &[
    Figure {
        claim: "predictive-fig2-linear",
        of: |data| {
            let over_line = |row: TableRow<'_>| {
                let line = row.number("fixed_ns") + row.number("bytes") * row.number("per_byte_ns");
                row.number("median_ns") / line
            };
            let ratios = PAYLOAD.into_iter().flat_map(|application| measured(data, application).map(over_line));
            let furthest = ratios.max_by(|one, other| (one - 1.0).abs().total_cmp(&(other - 1.0).abs()));
            let [shortest, longest] = ends(data, "forward");
            furthest.into_iter().chain([longest / shortest]).collect()
        },
    },
    Figure {
        claim: "predictive-fig2-payload",
        of: |data| {
            let growth = |application| {
                let [shortest, longest] = ends(data, application);
                longest - shortest
            };
            PAYLOAD.map(growth).into()
        },
    },
    Figure {
        claim: "predictive-fig2-compress-varies",
        of: |data| {
            let spread = |row: TableRow<'_>| (row.number("high_ns") - row.number("low_ns")) / row.number("median_ns");
            let of = |application| mean(&measured(data, application).map(spread).collect::<Vec<_>>());
            ["encrypt", "fec"].map(|application| of("compress") / of(application)).into()
        },
    },
    Figure {
        claim: "predictive-table1-gamma",
        of: |data| {
            let of = |application| {
                let bytes = |row: TableRow<'_>| row.number("bytes");
                let out: f64 =
                    measured(data, application).map(|row| row.number("bytes_out_over_in") * bytes(row)).sum();
                out / measured(data, application).map(bytes).sum::<f64>()
            };
            ["forward", "encrypt", "fec"].map(of).into()
        },
    },
];

/// Notes how well lines fit the services of this machine.
fn fits(data: &Table) -> Vec<Note> {
    let note = |application: &str| {
        let found = measured(data, application).next().map_or(f64::NAN, |row| row.number("r_squared"));
        Note::new(format!("R^2 of {application} on this machine"), "", short(found))
    };
    NAMES.map(note).into()
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
    for name in NAMES {
        let (cost, bytes) = (Machine::Paper.cost(name), COLD_BYTES[0]);
        let (cold, work) = (cost.cold as f64, cost.work(bytes) as f64);
        rows.push(penalty_row(TABLE, name, bytes, OTHER.to_owned(), cold, work));
    }
    for bytes in COLD_BYTES {
        let names = if bytes == COLD_BYTES[0] { &NAMES[..] } else { &["encrypt"] };
        for service in measure(scale, names, bytes, seed)?.services {
            let (name, work) = (&service.service, service.fit.at(f64::from(bytes)));
            rows.push(penalty_row(MEASURED, name, bytes, OTHER.to_owned(), service.cold_ns, work));
            rows.extend(service.evicted.iter().map(|evicted| {
                let after = format!("{} KiB touched", evicted.bytes >> 10);
                penalty_row(MEASURED, name, bytes, after, evicted.penalty_ns, work)
            }));
        }
    }
    Ok(rows)
}

/// Returns the throughput of engines that are always cold, relative to engines that never are, for the packets
/// of figures 10 to 12.
fn all_cold(machine: Machine) -> f64 {
    let costs = thirty(machine);
    let cold = costs.iter().map(|cost| cost.cold as f64).sum::<f64>() / costs.len() as f64;
    mean_work(machine) / (mean_work(machine) + cold)
}

/// Figure 3.
const DEARER: &[Figure] = &[
    Figure {
        claim: "predictive-fig3-independent",
        of: |data| {
            let rows = |bytes: u32| measured(data, "encrypt").of("after", ALL_LOST).at("bytes", bytes.into());
            let [shortest, longest] = [COLD_BYTES[1], COLD_BYTES[2]].map(|bytes| rows(bytes).mean("penalty_ns"));
            vec![longest / shortest]
        },
    },
    Figure {
        claim: "predictive-fig3-first",
        of: |data| {
            let first = |row: TableRow<'_>| (row.number("work_ns") + row.number("penalty_ns")) / row.number("work_ns");
            let rows = |name| measured(data, name).of("after", OTHER).at("bytes", COLD_BYTES[0].into());
            NAMES.iter().flat_map(|name| rows(name).map(first)).collect()
        },
    },
];

/// Notes the cost of cold engines on this machine, and the loss of engines that are always cold.
fn penalties_noted(data: &Table) -> Vec<Note> {
    let note = |name: &str| {
        let rows = || measured(data, name).at("bytes", COLD_BYTES[0].into());
        let said = |row: TableRow<'_>| format!("{} ns after {}", short(row.number("penalty_ns")), row.text("after"));
        let found = rows().map(said).collect::<Vec<_>>().join(", ");
        let work = rows().next().map_or(f64::NAN, |row| row.number("work_ns"));
        Note::new(format!("{name}: how much longer a packet takes"), "", format!("{found}, of {} ns", short(work)))
    };
    let all = [Machine::Paper, Machine::Here, Machine::HereEvicted].map(|machine| {
        let about = "throughput of engines that are always cold over that of engines that never are";
        Note::new(format!("{} costs: {about}", machine.name()), "", short(all_cold(machine)))
    });
    NAMES.map(note).into_iter().chain(all).collect()
}

fn by_cause(title: &str, data: &Table) -> Svg {
    let group = |name: &'static str| {
        let rows = measured(data, name).at("bytes", COLD_BYTES[0].into());
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
            // The initial estimate is wrong.
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
const RECOVERED: &[Figure] = &[Figure {
    claim: "predictive-online-estimation",
    of: |data| vec![1.0 + data.rows().filter(|row| row.number("noise") > 0.0).most("error_max")],
}];

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

/// The common description.
const ABOUT: About = About::of(PAPER);

impl Experiment for Kernels {
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

    fn version(&self) -> u32 {
        2
    }

    fn figures(&self) -> &'static [Figure] {
        self.figures
    }

    fn seed_column(&self) -> Option<&'static str> {
        (!self.is_timed).then_some("draw")
    }

    fn notes(&self, data: &Table) -> Vec<Note> {
        (self.notes)(data)
    }

    fn plots(&self, data: &Table) -> Plots {
        vec![("main".to_owned(), (self.plot)(self.title, data))]
    }

    fn is_timed(&self) -> bool {
        self.is_timed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::testing::{assert_expected, quick};

    /// Table 1 itself: alpha, beta and pi in us on an engine of 167 MHz.
    const TABLE_1: [(f64, f64, f64); 4] =
        [(51.0, 0.0, 70.0), (320.0, 1.3, 170.0), (970.0, 7.6, 950.0), (320.0, 9.2, 175.0)];

    #[test]
    fn costs_are_those_of_table_1_at_speed_10() {
        for (name, (alpha, beta, pi)) in NAMES.iter().zip(TABLE_1) {
            // A tenth, in ns.
            let ns = |us: f64| (100.0 * us).round() as u64;
            let expected = LinearCost { fixed: ns(alpha), per_byte_milli: ns(1e3 * beta), cold: ns(pi) };
            assert_eq!(Machine::Paper.cost(name), expected);
        }
        let all = all_cold(Machine::Paper);
        assert!((all - 0.852).abs() <= 0.01, "{all}");
    }

    #[test]
    fn least_squares_finds_the_lines() {
        let table = EXPERIMENTS.iter().find(|one| one.id == "predictive-table1").unwrap();
        let data = quick(table);
        assert_expected(table, &data);
        let without = data.rows().filter(|row| row.number("noise") == 0.0);
        assert!(without.most("error_max") <= 0.01);
    }
}
