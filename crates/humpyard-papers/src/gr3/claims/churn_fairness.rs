//! Service errors while clients come and go: PROPORTIONAL_SHARE section 5.5.

use humpyard_core::config::SchedulerConfig;
use humpyard_core::id::{ClientId, CoreId, Id};
use humpyard_core::packet::Packet;
use humpyard_core::policy::{BuildError, Share};
use humpyard_core::random::{Random, Seed};
use humpyard_core::unit::Time;
use humpyard_policies::registry::AnyShare;
use humpyard_policies::spec::PolicySpec;

use super::super::errors::errors;
use super::super::paper::PAPER;
use super::super::scheduled::weights;
use crate::harness::{About, Column, Experiment, Note, Plots, Range, Row, Scale, Table, bar, columns, group};
use humpyard_lab::LabError;
use humpyard_plot::{Axis, BarPlot};

/// The policies, with the specification's range of errors.
const POLICIES: [(&str, (f64, f64)); 11] = [
    ("wf2q+", (-1.5, 0.9)),
    ("eevdf", (-1.5, 0.9)),
    ("wfq", (-1.9, 1.1)),
    ("stride", (-1.7, 1.2)),
    ("gr3", (-3.3, 2.9)),
    ("srr", (-2.6, 2.0)),
    ("qfq", (-3.5, 1.9)),
    ("sfq", (-5.0, 1.5)),
    ("virtual-clock", (-11.0, 8.4)),
    ("vtrr", (-9.1, 12.3)),
    ("wrr", (-26.0, 49.0)),
];
const CLIENTS: usize = 30;
const WEIGHT_MAX: u64 = 40;
/// One in this many of a client's packets is its last for a while.
const BLOCK: u64 = 20;
/// One in this many slots wakes an idle client.
const WAKE: u64 = 50;
/// Runs (quick, full), and the slots of each.
const RUNS: (u32, u32) = (10, 100);
const SLOTS: u32 = 5000;

const COLUMNS: &[Column] = columns![text policy, integer run, integer slots, real error_min, real error_max];

/// The experiment.
pub(super) struct ChurnFairness;

impl Experiment for ChurnFairness {
    fn about(&self) -> About {
        About {
            id: "gr3-churn-fairness",
            figure: "not in the paper",
            title: "service errors while 30 clients come and go",
            description: "30 clients with weights from 1 to 40 and packets of one slot. After each of its packets a \
                client has no more with a chance of 1 in 20; an idle one wakes with a chance of 1 in 50 in each slot. \
                The service error of a client is its service less its weight's share of all service since it woke. \
                Runs of 5000 slots: the errors of virtual-clock have no bound, and grow with the length of a run.",
            columns: COLUMNS,
            ..About::of(PAPER)
        }
    }

    fn parts(&self, _: Scale) -> usize {
        POLICIES.len()
    }

    fn run(&self, part: usize, scale: Scale, seed: Seed) -> Result<Vec<Row>, LabError> {
        let policy = POLICIES[part].0;
        let spec = policy.parse()?;
        let rows = (0..scale.of(RUNS)).map(|run| {
            // All policies get the same clients.
            let (least, greatest) = run_errors(&spec, &mut seed.stream(&format!("gr3-churn-fairness/{run}")))?;
            Ok(vec![policy.into(), run.into(), SLOTS.into(), least.into(), greatest.into()])
        });
        rows.collect()
    }

    fn notes(&self, data: &Table) -> Vec<Note> {
        let of = |(policy, (least, greatest)): (&str, (f64, f64))| {
            let found = errors(data.rows_of("policy", policy));
            Note::new(format!("{policy}: all errors"), Range { least, greatest }.to_string(), found.to_string())
        };
        POLICIES.map(of).into()
    }

    fn plots(&self, data: &Table) -> Plots {
        let groups = POLICIES.map(|(policy, _)| {
            let Range { least, greatest } = errors(data.rows_of("policy", policy));
            group(policy, [bar("behind", -least), bar("ahead", greatest)])
        });
        let plot = BarPlot {
            title: "largest service errors while clients come and go".to_owned(),
            description: "For each policy how far clients were behind their share and ahead of it, at most.".to_owned(),
            value: Axis::linear("slots", |slots| format!("{slots:.1}")),
            groups: groups.into(),
        };
        vec![("churn".to_owned(), plot.svg())]
    }
}

/// Runs one draw. Returns the least service error, before a packet, and the greatest, after one.
fn run_errors(spec: &PolicySpec, random: &mut Random) -> Result<(f64, f64), BuildError> {
    let weights = weights((0..CLIENTS).map(|_| 1 + random.below(WEIGHT_MAX) as u32));
    let setup =
        SchedulerConfig { clients: CLIENTS, longest: 1, weights: weights.to_vec(), ..SchedulerConfig::default() };
    let mut processor = Processor { policy: spec.build_share(&setup)?, now: Time::ZERO };
    let weights: Vec<f64> = weights.iter().map(|weight| weight.get().into()).collect();
    // The error of each active client.
    let mut errors = vec![Some(0.0); CLIENTS];
    (0..CLIENTS).for_each(|client| processor.wake(client));
    let (mut least, mut greatest) = (0.0f64, 0.0f64);
    for _ in 0..SLOTS {
        let client = processor.serve();
        let awake = errors.iter().zip(&weights).filter(|(error, _)| error.is_some());
        let total: f64 = awake.map(|(_, weight)| weight).sum();
        let served = errors[client].as_mut().expect("only who is awake is served");
        least = least.min(*served);
        *served += 1.0;
        for (error, weight) in errors.iter_mut().zip(&weights) {
            if let Some(error) = error {
                *error -= weight / total;
            }
        }
        greatest = greatest.max(errors[client].expect("awake"));
        if random.below(BLOCK) == 0 && errors.iter().flatten().count() > 1 {
            processor.block(client);
            errors[client] = None;
        } else {
            processor.offer(client);
        }
        for idle in (0..CLIENTS).filter(|&idle| idle != client) {
            if errors[idle].is_none() && random.below(WAKE) == 0 {
                processor.wake(idle);
                errors[idle] = Some(0.0);
            }
        }
    }
    Ok((least, greatest))
}

/// A processor whose policy sees one packet of each client at a time, of one unit of work.
struct Processor {
    policy: AnyShare,
    /// The time, which advances by 1 ns per packet.
    now: Time,
}

impl Processor {
    fn packet(client: usize) -> Packet {
        Packet { client: ClientId::from_index(client), length: 1, estimate: 1, ..Packet::default() }
    }

    fn wake(&mut self, client: usize) {
        let packet = Self::packet(client);
        self.policy.on_arrival(self.now, packet.client, &packet, 0);
        self.policy.on_wake(self.now, packet.client, &packet);
    }

    /// Offers the next packet of the client that was served.
    fn offer(&mut self, client: usize) {
        let packet = Self::packet(client);
        self.policy.on_arrival(self.now, packet.client, &packet, 1);
        self.policy.on_head(self.now, packet.client, &packet);
    }

    /// Makes the client that was served idle.
    fn block(&mut self, client: usize) {
        self.policy.on_idle(self.now, ClientId::from_index(client));
    }

    /// Serves one packet. Returns its client.
    fn serve(&mut self) -> usize {
        let client = self.policy.pick(self.now, CoreId(0)).expect("a policy that is work conserving").index();
        let packet = Self::packet(client);
        self.policy.on_dispatch(self.now, CoreId(0), packet.client, &packet);
        self.now += Time::from_ns(1);
        self.policy.on_completion(self.now, CoreId(0), packet.client, &packet, 1);
        client
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::testing::quick;

    /// The specification's errors come from one set of runs.
    #[test]
    fn errors_are_at_most_twice_those_of_the_specification() {
        let data = quick(&ChurnFairness);
        for (policy, (least, greatest)) in POLICIES {
            let found = errors(data.rows_of("policy", policy));
            assert!(found.least >= 2.0 * least && found.greatest <= 2.0 * greatest, "{policy}: {found}");
        }
    }

    /// Policies that serve turns by weight are wrong by whole turns; those that check eligibility, by about a
    /// slot.
    #[test]
    fn policies_are_told_apart() {
        let found = |policy: &str| run_errors(&policy.parse().unwrap(), &mut Seed(1).stream("test")).unwrap();
        let (least, greatest) = found("wf2q+");
        assert!((-3.0..=-0.9).contains(&least) && (0.5..=1.8).contains(&greatest), "{least} to {greatest}");
        let (least, greatest) = found("wrr");
        assert!(least < -10.0 && greatest > 20.0, "{least} to {greatest}");
    }
}
