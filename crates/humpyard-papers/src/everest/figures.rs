//! Figures 3 to 5, and claims beside them: the same traffic under every policy, with one parameter varied.

use humpyard_core::random::Seed;

use super::paper::{
    AE, AE_WITHOUT_FORCE, COHORT_E, CORES, DRAWS, DRAWS_WITHOUT_CLAIMS, EAGER, ENVELOPE, EVEREST, LATE, LITERAL,
    PACKETS, PAPER, STATIC, WITHOUT_EXTRAS,
};
use super::places::traffic_of;
use super::trial::{Point, Traffic, TrialFigures};
use super::{claims, notes};
use crate::harness::{
    About, Experiment, Figure, Note, Plots, Row, Rows, Scale, Table, TableRow, ascending, line, rows, short,
};
use humpyard_lab::LabError;
use humpyard_plot::{Axis, Line, LinePlot};

rows! {
    pub(super) COLUMNS, fn row(traffic: &Traffic, point: Point, policy: &str, draw: usize, came: &TrialFigures) {
        text traffic = traffic.profile, real load = traffic.load, real packet_times = point.scale,
        integer cores = point.cores, integer tolerance_us = point.tolerance_us, integer switch_us = point.switch_us,
        text policy = policy, integer draw = draw, integer packets = came.packets, integer lost = came.lost,
        real late_percent = came.late_percent, real delay_mean_us = came.delay_mean_us,
        integer switches = came.switches, integer queue_p50 = came.queues.quantile(0.5),
        integer queue_p99 = came.queues.quantile(0.99), real duration_ms = came.duration_ms,
    }
}

/// A figure of the paper: policies at points, with several kinds of traffic.
#[derive(Debug)]
pub(super) struct Series {
    id: &'static str,
    figure: &'static str,
    title: &'static str,
    description: &'static str,
    /// Generators and loads; a quick run has the first.
    traffic: &'static [(&'static str, f64)],
    policies: &'static [&'static str],
    /// Packets of a full run.
    packets: u64,
    quick: Quick,
    /// The points of a quick run and of a full run.
    points: (&'static [Point], &'static [Point]),
    figures: &'static [Figure],
    notes: fn(&Table) -> Vec<Note>,
    shown: Shown,
    /// The earlier experiment with the same rows, if any.
    rows_of: Option<&'static str>,
}

/// The reductions of a quick run.
#[derive(Clone, Copy, Debug)]
struct Quick {
    /// Number of kinds of traffic.
    traffic: usize,
    /// Policies. `None`: all.
    policies: Option<&'static [&'static str]>,
    packets: u64,
    draws: usize,
}

/// The axes of a plot: a column over another.
#[derive(Debug)]
struct Shown {
    x: &'static str,
    x_axis: &'static str,
    y: &'static str,
    y_axis: &'static str,
}

/// The common setting of all figures.
const SETTING: &str = "Cores in virtual time serve the six services of table 2, whose packets always take as long as \
    it says, from one queue for each service that has no end. Switching takes a core t_sw, a packet later than D is \
    late, and what is left at the end is served. The paper's traces are not public: models stand for them (`humpyard \
    list profiles`), with 44 % of packets TCP, 5.5 % UDP and 0.5 % ICMP for either version of IP; load is the part of \
    the time that sixteen cores would be busy. Guarantees are those of equation 7 on the same packets. `everest` \
    limits how often cores beyond guarantees move, `extra-reclaim=literal` is the paper's text. A quick run has 60,000 \
    to 300,000 packets and the policies that claims are of, a full one ten draws of 1,500,000, a twentieth of the \
    paper's trace. Late packets are compared where \
    both policies have 20 at least; without such a place, fewer count as 20.";

const fn point(tolerance_us: u64, switch_us: u64) -> Point {
    Point { cores: CORES, tolerance_us, switch_us, scale: 1.0 }
}

const fn on_cores(cores: usize) -> Point {
    Point { cores, ..point(2_000, 2_000) }
}

const fn scaled(scale: f64) -> Point {
    Point { scale, ..point(2_000, 2_000) }
}

/// All policies of the paper's figures.
const ALL: &[&str] =
    &[STATIC, EAGER[0], EAGER[1], EAGER[2], COHORT_E, AE, AE_WITHOUT_FORCE, "seda", LATE, EVEREST, LITERAL, ENVELOPE];
/// The policies in claims, and Everest by the paper's text.
const JUDGED: &[&str] = &[STATIC, EAGER[0], EAGER[1], COHORT_E, AE, AE_WITHOUT_FORCE, LATE, EVEREST, LITERAL];
const MAIN: &[(&str, f64)] = &[("onoff", 0.52), ("flowb", 0.44), ("onoff", 0.62), ("mmpp", 0.35), ("flow", 0.62)];
const RATIOS: &[(&str, f64)] = &[("onoff", 0.52), ("flowb", 0.44), ("mmpp", 0.35), ("onoff", 0.62)];
/// Traffic with late packets.
const HARD: &[(&str, f64)] = &[("onoff", 0.62), ("mmpp", 0.45), ("onoff", 0.52), ("flowb", 0.52)];
const BY_TOLERANCE: (&[Point], &[Point]) = (
    &[point(500, 2_000), point(2_000, 2_000), point(8_000, 2_000)],
    &[point(500, 2_000), point(1_000, 2_000), point(2_000, 2_000), point(4_000, 2_000), point(8_000, 2_000)],
);
const AT_TWO: (&[Point], &[Point]) = (&[point(2_000, 2_000)], &[point(2_000, 2_000)]);

/// Returns points with these t_sw/D at this D.
const fn ratios<const N: usize>(tolerance_us: u64, thousandths: [u64; N]) -> [Point; N] {
    let mut points = [point(tolerance_us, 0); N];
    let mut at = 0;
    while at < N {
        points[at].switch_us = tolerance_us * thousandths[at] / 1_000;
        at += 1;
    }
    points
}

/// Returns one list of points after the other.
const fn joined<const N: usize, const M: usize>(one: [Point; N], other: [Point; N]) -> [Point; M] {
    assert!(M == 2 * N, "a place for each point");
    let mut points = [one[0]; M];
    let mut at = 0;
    while at < N {
        points[at] = one[at];
        points[N + at] = other[at];
        at += 1;
    }
    points
}

const FEW: [u64; 4] = [10, 200, 1_000, 2_000];
const MANY: [u64; 10] = [6, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 4_000];
const BY_RATIO_SHORT: (&[Point], &[Point]) = (&ratios(500, FEW), &ratios(500, MANY));
const BY_RATIO: (&[Point], &[Point]) = (&ratios(2_000, FEW), &ratios(2_000, MANY));

const BY_BOTH: (&[Point], &[Point]) =
    (&joined::<4, 8>(ratios(500, FEW), ratios(2_000, FEW)), &joined::<10, 20>(ratios(500, MANY), ratios(2_000, MANY)));

const LATE_PACKETS: Shown = Shown { x: "ratio", x_axis: "t_sw/D", y: "late_percent", y_axis: "late packets, in %" };

/// The reductions of most quick runs.
const QUICK: Quick = Quick { traffic: 2, policies: Some(JUDGED), packets: 80_000, draws: DRAWS.0 };
/// The reductions of a quick run of a figure without claims.
const QUICK_WITHOUT_CLAIMS: Quick = Quick { policies: None, packets: 60_000, draws: 1, ..QUICK };

/// The defaults of most figures: the ratios of t_sw to D, and late packets over them.
const USUAL: Series = Series {
    id: "",
    figure: "",
    title: "",
    description: "",
    traffic: RATIOS,
    policies: ALL,
    packets: PACKETS,
    quick: QUICK,
    points: BY_RATIO,
    figures: &[],
    notes: notes::late,
    shown: LATE_PACKETS,
    rows_of: None,
};

pub(super) static SERIES: [Series; 11] = [
    Series {
        id: "everest-fig3a",
        figure: "figure 3(a)",
        title: "late packets over the tolerance",
        description: "t_sw is 2 ms.",
        traffic: MAIN,
        points: BY_TOLERANCE,
        figures: claims::BY_TOLERANCE,
        notes: notes::by_tolerance,
        shown: Shown { x: "tolerance_us", x_axis: "D, in us", ..LATE_PACKETS },
        ..USUAL
    },
    Series {
        id: "everest-fig3b",
        figure: "figure 3(b)",
        title: "lengths of queues",
        description: "D and t_sw are 2 ms. A packet that arrives counts those that wait for its service; the plot has \
            the 99th percentile by load.",
        traffic: &[("onoff", 0.35), ("onoff", 0.52), ("flowb", 0.44)],
        quick: Quick { traffic: 3, ..QUICK },
        points: AT_TWO,
        figures: claims::QUEUES,
        notes: |_| Vec::new(),
        shown: Shown { x: "load", x_axis: "load", y: "queue_p99", y_axis: "packets waiting, 99th percentile" },
        ..USUAL
    },
    Series {
        id: "everest-fig3c",
        figure: "figure 3(c)",
        title: "switches over the tolerance",
        description: "t_sw is 2 ms.",
        traffic: MAIN,
        points: BY_TOLERANCE,
        figures: claims::SWITCHES,
        rows_of: Some("everest-fig3a"),
        notes: |_| Vec::new(),
        shown: Shown { x: "tolerance_us", x_axis: "D, in us", y: "switches", y_axis: "switches" },
        ..USUAL
    },
    Series {
        id: "everest-fig3d",
        figure: "figure 3(d)",
        title: "late packets over the number of cores",
        description: "D and t_sw are 2 ms.",
        traffic: &[("onoff", 0.52), ("onoff", 0.62), ("flowb", 0.44)],
        quick: Quick { traffic: 1, ..QUICK },
        points: (
            &[on_cores(12), on_cores(14), on_cores(16), on_cores(20)],
            &[
                on_cores(12),
                on_cores(13),
                on_cores(14),
                on_cores(15),
                on_cores(16),
                on_cores(18),
                on_cores(20),
                on_cores(24),
            ],
        ),
        figures: claims::CORES,
        shown: Shown { x: "cores", x_axis: "cores", ..LATE_PACKETS },
        ..USUAL
    },
    Series {
        id: "everest-fig4a",
        figure: "figure 4(a)",
        title: "late packets over t_sw/D, for D = 500 us",
        description: "The data have D = 2 ms beside it.",
        points: BY_BOTH,
        figures: claims::BY_RATIO,
        ..USUAL
    },
    Series {
        id: "everest-fig4b",
        figure: "figure 4(b)",
        title: "late packets over t_sw/D, for D = 2 ms",
        quick: Quick { traffic: 3, ..QUICK },
        figures: claims::ONE_OF_TWO,
        ..USUAL
    },
    Series {
        id: "everest-fig5",
        figure: "figure 5",
        title: "mean delay over t_sw/D, for D = 2 ms",
        figures: claims::DELAY,
        rows_of: Some("everest-fig4b"),
        notes: |_| Vec::new(),
        shown: Shown { y: "delay_mean_us", y_axis: "mean delay, in us", ..LATE_PACKETS },
        ..USUAL
    },
    Series {
        id: "everest-envelope",
        figure: "section 5.3: that one of Everest and Everest-AE is best everywhere, and which, is left open",
        title: "a policy on the lower envelope of Everest and Everest-AE",
        description: "D is 2 ms. The envelope is the better of the two at the same point; a harder one is the best of \
            these, of everest without extra cores, and of everest-ae without force. `everest-env` has rules of nothing \
            but t_sw, D, queues and ages; `rules=le` and `rules=evs` leave some of them out. Its parameters were \
            chosen on other draws of the first five kinds of traffic, and how it reckons with services that have a D \
            of a quarter to four times, and a t_sw of a quarter to twice that of the machine (own D and t_sw), on \
            other draws of `onoff` and `mmpp` with such services. Of the other kinds it has seen nothing: the same \
            times exchanged among the services (other D and t_sw), on other traffic; queues for 64 or 256 packets, \
            what is lost being late; three, four and ten services; connections and messages; and arrivals of `onoff` \
            with the connections of real captures, which are in the directory that HUMPYARD_TRACES names, and left out \
            if there is none. A full run has 1,000,000 packets.",
        traffic: &[
            ("onoff", 0.68),
            ("mmpp", 0.35),
            ("flowb", 0.44),
            ("poisson", 0.9),
            ("flow", 0.62),
            ("onoff, own D and t_sw", 0.6),
            ("poisson, other D and t_sw", 0.8),
            ("onoff, 64 may wait", 0.6),
            ("onoff, 10 services", 0.5),
            ("messages, 4 services", 0.6),
            ("industrial/right.pcap", 0.6),
            ("onoff", 0.45),
            ("mmpp", 0.58),
            ("flowb, own D and t_sw", 0.44),
            ("flowb, other D and t_sw", 0.44),
            ("mmpp, 256 may wait", 0.4),
            ("onoff, 3 services", 0.68),
            ("mit, 4 services", 0.7),
            ("protocols/alexa-app.pcapng", 0.6),
            ("devices/HueSwitch-Setup-A-6-STA.pcap", 0.6),
        ],
        quick: Quick { traffic: 11, ..QUICK_WITHOUT_CLAIMS },
        policies: &[
            EVEREST,
            WITHOUT_EXTRAS,
            AE,
            AE_WITHOUT_FORCE,
            ENVELOPE,
            "everest-env:rules=le",
            "everest-env:rules=evs",
        ],
        packets: 1_000_000,
        points: (
            &ratios(2_000, [10, 100, 500, 2_000]),
            &ratios(2_000, [5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 4_000, 10_000]),
        ),
        notes: notes::envelope,
        ..USUAL
    },
    Series {
        id: "everest-window",
        figure: "section 5.2: the rate is that of the last t_sw",
        title: "how long a window the rate of arrivals is measured in",
        description: "D is 500 us. The paper measures the rate over t_sw; here it is measured over other windows, too, \
            down to 100 us and up to 8 ms.",
        traffic: HARD,
        quick: QUICK_WITHOUT_CLAIMS,
        policies: &[
            EVEREST,
            "everest:window=100000",
            "everest:window=500000",
            "everest:window=2000000",
            "everest:window=8000000",
        ],
        points: BY_RATIO_SHORT,
        notes: notes::window,
        ..USUAL
    },
    Series {
        id: "everest-proactive",
        figure: "section 4.1: proactive allocation, which the paper tried and dropped",
        title: "cores asked for by a forecast",
        description: "D is 500 us, less than a switch and a packet take, so that a core comes too late for the packet \
            that asks for it. With `proactive=ewma` what is expected to arrive meanwhile, by a moving average, counts \
            as if it waited already.",
        traffic: HARD,
        quick: Quick { policies: None, packets: 300_000, ..QUICK },
        policies: &[EVEREST, claims::FORECAST],
        points: (&ratios(500, [1_000, 2_000, 4_000]), &ratios(500, [1_000, 1_500, 2_000, 3_000, 4_000])),
        figures: claims::PROACTIVE,
        ..USUAL
    },
    Series {
        id: "everest-tpkt",
        figure: "section 5.3: that results hold for widely varying packet times",
        title: "packets that take a tenth, and ten times as long",
        description: "D and t_sw are 2 ms. Packets take longer and come as much slower.",
        policies: &[STATIC, COHORT_E, AE, EVEREST, ENVELOPE],
        quick: Quick { traffic: 1, policies: Some(&[STATIC, COHORT_E, AE, EVEREST]), ..QUICK },
        points: (
            &[scaled(0.1), scaled(1.0), scaled(10.0)],
            &[scaled(0.1), scaled(0.3), scaled(1.0), scaled(3.0), scaled(10.0)],
        ),
        figures: claims::PACKET_TIMES,
        shown: Shown { x: "packet_times", x_axis: "times as long as in table 2", ..LATE_PACKETS },
        ..USUAL
    },
];

impl Series {
    fn traffic(&self, scale: Scale) -> &'static [(&'static str, f64)] {
        &self.traffic[..scale.pick(self.quick.traffic, self.traffic.len())]
    }

    fn draws(&self, scale: Scale) -> usize {
        let draws = if self.figures.is_empty() { DRAWS_WITHOUT_CLAIMS } else { DRAWS.1 };
        scale.pick(self.quick.draws, draws)
    }

    fn policies(&self, scale: Scale) -> &'static [&'static str] {
        scale.pick(self.quick.policies.unwrap_or(self.policies), self.policies)
    }
}

impl Experiment for Series {
    fn about(&self) -> About {
        let Self { id, figure, title, description, .. } = *self;
        About {
            id,
            paper: PAPER,
            figure,
            title,
            setting: SETTING,
            description: if description.is_empty() { title } else { description },
            columns: COLUMNS,
        }
    }

    fn parts(&self, scale: Scale) -> usize {
        self.traffic(scale).len() * self.draws(scale)
    }

    fn rows_of(&self) -> &'static str {
        self.rows_of.unwrap_or(self.id)
    }

    fn run(&self, part: usize, scale: Scale, seed: Seed) -> Result<Vec<Row>, LabError> {
        // Parts are ordered by traffic, so that quick runs with fewer kinds of traffic have the same first
        // parts.
        let draws = self.draws(scale);
        let ((profile, load), draw) = (self.traffic(scale)[part / draws], part % draws);
        let seed = seed.stream(&format!("everest/{draw}")).bits();
        let mut rows = Vec::new();
        let mut known: Option<(Point, Vec<u32>)> = None;
        for &point in scale.pick(self.points.0, self.points.1) {
            let packets = scale.pick(self.quick.packets, self.packets);
            let traffic = Traffic { profile, load, packets, room: packets, seed: Seed(seed), scale: point.scale };
            if !traffic.is_there() {
                break;
            }
            // The cost of a switch does not change the guarantees.
            let same = |other: &Point| Point { switch_us: 0, ..*other } == Point { switch_us: 0, ..point };
            let guarantees = match known.take() {
                Some((other, guarantees)) if same(&other) => guarantees,
                _ => traffic.guarantees(point)?,
            };
            known = Some((point, guarantees.clone()));
            for policy in self.policies(scale) {
                rows.push(row(&traffic, point, policy, draw + 1, &traffic.run(policy, point, &guarantees)?));
            }
        }
        Ok(rows)
    }

    fn version(&self) -> u32 {
        3
    }

    fn figures(&self) -> &'static [Figure] {
        self.figures
    }

    fn seed_column(&self) -> Option<&'static str> {
        Some("draw")
    }

    fn notes(&self, data: &Table) -> Vec<Note> {
        (self.notes)(data)
    }

    fn plots(&self, data: &Table) -> Plots {
        let Shown { x, x_axis, y, y_axis } = self.shown;
        let places = traffic_of(data).into_iter().filter(|_| x != "load").map(Some);
        let places: Vec<Option<(String, f64)>> = if x == "load" { vec![None] } else { places.collect() };
        let has_rows = |policy: &&&str| data.rows_of("policy", policy).next().is_some();
        let policies: Vec<&str> = self.policies.iter().filter(has_rows).copied().collect();
        let plot = |place: Option<(String, f64)>| {
            let name = place.as_ref().map_or_else(|| "all".to_owned(), |(profile, load)| format!("{profile}-{load}"));
            let lines = policies.iter().map(|policy| self.line(data, policy, place.as_ref()));
            let plot = LinePlot {
                title: format!("{}: {name}", self.title),
                description: self.about().description.to_owned(),
                x: if ["ratio", "packet_times"].contains(&x) {
                    Axis::logarithmic(x_axis, short)
                } else {
                    Axis::linear(x_axis, short)
                },
                y: Axis::linear(y_axis, short),
                lines: lines.collect(),
            };
            let file = format!("{y}-{name}").replace(", ", "-").replace(['_', '/', ' '], "-");
            (file, plot.svg())
        };
        places.into_iter().map(plot).collect()
    }
}

impl Series {
    /// Draws medians over the draws.
    fn line(&self, data: &Table, policy: &str, place: Option<&(String, f64)>) -> Line {
        // The plot shows the ratios of one D.
        let tolerance = data.rows().next().map(|row| row.number("tolerance_us"));
        let is_shown = |row: &TableRow<'_>| self.shown.x != "ratio" || Some(row.number("tolerance_us")) == tolerance;
        let rows = data.rows_of("policy", policy).filter(is_shown);
        let rows = rows.filter(|row| {
            place.is_none_or(|(profile, load)| row.text("traffic") == profile && row.number("load") == *load)
        });
        let x = |row: &TableRow<'_>| match self.shown.x {
            "ratio" => row.number("switch_us") / row.number("tolerance_us"),
            column => row.number(column),
        };
        let at = ascending(rows.clone().map(|row| x(&row)));
        let median = |at: f64| (at, rows.clone().filter(|row| x(row) == at).statistic(self.shown.y).median);
        line(policy, at.into_iter().map(median))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::testing::parts;

    #[test]
    fn ratios_are_those_that_are_named() {
        assert_eq!(
            ratios(500, [10, 4_000]).map(|point| (point.tolerance_us, point.switch_us)),
            [(500, 5), (500, 2_000)]
        );
    }

    /// The first part of a quick run has every policy at every point.
    #[test]
    fn a_part_has_every_policy_at_every_point() {
        let figure = &SERIES[1];
        let data = parts(figure, [0]);
        assert_eq!(data.len(), JUDGED.len());
        assert!(data.rows().all(|row| row.number("packets") == figure.quick.packets as f64));
        assert_eq!(data.rows_of("policy", STATIC).total("switches"), 0.0);
    }

    /// Notes use only policies and places that a quick run has.
    #[test]
    fn quick_runs_have_what_notes_are_of() {
        for (id, about) in [
            ("everest-fig3a", "onoff at 0.52: late packets"),
            ("everest-envelope", "onoff at 0.68: everest-env"),
            ("everest-window", "late packets of everest:window=100000"),
        ] {
            let series = SERIES.iter().find(|series| series.id == id).unwrap();
            let notes = series.notes(&parts(series, [0]));
            assert!(notes.iter().any(|note| note.about.starts_with(about)), "{notes:#?}");
        }
    }
}
