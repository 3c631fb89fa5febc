//! The kernel's program in the simulator, with the tables that a policy makes of what came: as `--apply cpumap:`.

use core::fmt::{self, Debug};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use humpyard_core::config::SchedulerConfig;
use humpyard_core::id::{CoreId, FlowId, IdVec};
use humpyard_core::packet::Packet;
use humpyard_core::policy::{Policy, Steer, Target, View};
use humpyard_core::unit::Time;
use humpyard_policies::own::OwnPolicy;
use humpyard_policies::spec::PolicySpec;
use humpyard_traffic::steer_record::SteerRecord;

use super::twin::Twin;
use crate::LabError;

/// The name of the kernel's program, among policies.
const NAME: &str = "cpumap";

/// Tables by sample, as what changes from one to the next, by the number of the flow in the replay.
#[derive(Debug)]
struct Tables {
    /// The ends of samples, ascending: a table is made at the end of its sample.
    ends: Vec<Time>,
    /// What changes at the end of each sample.
    changes: Vec<Vec<(FlowId, CoreId)>>,
    /// Before the first sample ends.
    first: HashMap<FlowId, CoreId>,
    /// A bucket moves once it has had no packet for this long.
    guard: Time,
}

/// Returns what the kernel's program does with the packets of a record, when the tables are those of `twin`. `flows`
/// are the numbers of the buckets in the replay, of which one packet stands for `stands_for`.
pub(super) fn applied(
    record: &SteerRecord,
    flows: &HashMap<u32, u32>,
    stands_for: u64,
    guard: Duration,
    mut twin: Twin,
) -> Result<PolicySpec, LabError> {
    let of_table = |table: &[u32]| -> HashMap<FlowId, CoreId> {
        let core = |(&bucket, &flow): (&u32, &u32)| (FlowId(flow), CoreId(table[bucket as usize] as u16));
        flows.iter().map(core).collect()
    };
    let first = of_table(twin.table());
    let (mut before, mut begin, mut changes) = (first.clone(), 0, Vec::with_capacity(record.samples.len()));
    for sample in &record.samples {
        twin.play(sample.time_ns - begin, &sample.buckets);
        begin = sample.time_ns;
        let now = of_table(twin.table());
        changes.push(
            now.iter().filter(|(flow, core)| before[flow] != **core).map(|(&flow, &core)| (flow, core)).collect(),
        );
        before = now;
    }
    let ends = record.samples.iter().map(|sample| Time::from_ns(sample.time_ns)).collect();
    // Of packets that are left out, the rests of a bucket are longer.
    let guard = Time::from_ns((guard.as_nanos() as u64).saturating_mul(stands_for));
    let tables = Arc::new(Tables { ends, changes, first, guard });
    let made = OwnPolicy::steer(NAME, move |config| Ok(Program::new(config, &tables)));
    made.map(PolicySpec::from).map_err(|error| LabError::option(error.to_string()))
}

/// The kernel's program: it looks the core of a bucket up, and lets it move once it has rested.
struct Program {
    tables: Arc<Tables>,
    /// Samples that have ended.
    ended: usize,
    wanted: IdVec<FlowId, CoreId>,
    /// Where each bucket goes, and when it last had a packet.
    states: IdVec<FlowId, (CoreId, Option<Time>)>,
}

impl Program {
    fn new(config: &SchedulerConfig, tables: &Arc<Tables>) -> Self {
        let first = |flow: FlowId| tables.first.get(&flow).copied().unwrap_or(CoreId(0));
        Self {
            ended: 0,
            wanted: IdVec::from_fn(config.flows, first),
            states: IdVec::from_fn(config.flows, |flow| (first(flow), None)),
            tables: Arc::clone(tables),
        }
    }
}

impl Debug for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Program(sample {})", self.ended)
    }
}

impl Policy for Program {}

impl Steer for Program {
    fn steer(&mut self, now: Time, packet: &Packet, _: &View<'_>) -> Target {
        while self.tables.ends.get(self.ended).is_some_and(|&end| now >= end) {
            for &(flow, core) in &self.tables.changes[self.ended] {
                self.wanted[flow] = core;
            }
            self.ended += 1;
        }
        let (wanted, guard) = (self.wanted[packet.flow], self.tables.guard);
        let (core, last) = &mut self.states[packet.flow];
        if *core != wanted && last.is_none_or(|last| now.since(last) >= guard) {
            *core = wanted;
        }
        *last = Some(now);
        Target::Core(*core)
    }
}
