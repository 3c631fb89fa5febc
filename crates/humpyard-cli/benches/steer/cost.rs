//! What the program of `humpyard steer` costs a frame, beside the least that a program can do.

use std::time::Duration;

use humpyard::lab::statistics::Statistic;
use humpyard::random::Seed;
use humpyard::wire::{BareProgram, BucketCounters, Hashing};
use humpyard_testkit::network::pair_with_checksums;
use serde::Serialize;

use crate::frames::{FrameOfFlow, UDP};

/// Runs of a program in a turn.
const REPEAT: u32 = 500_000;
/// A bucket moves once it has had no frame for this long.
const GUARD: Duration = Duration::from_millis(1);

/// What a program costs a frame.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Cost {
    pub(crate) program: &'static str,
    pub(crate) frame: &'static str,
    /// The instructions on its longest path. `None`: it has one path.
    pub(crate) longest_path: Option<usize>,
    /// Time for a frame, in ns, by turn.
    pub(crate) ns: Vec<f64>,
    /// That time over the bare program's of the same turn.
    pub(crate) ratios: Vec<f64>,
}

impl Cost {
    pub(crate) fn median(values: &[f64]) -> f64 {
        Statistic::of(values.to_vec()).map_or(f64::NAN, |statistic| statistic.median)
    }
}

/// A program that is timed, and the bare one that it is held against.
struct Timed {
    program: &'static str,
    frame: &'static str,
    bytes: Vec<u8>,
    hashing: Hashing,
    steers: bool,
}

fn timed() -> Vec<Timed> {
    let frames = [
        ("UDP", FrameOfFlow::new(1, UDP, (1_024, 53), 120).bytes),
        ("UDP, 1,514 bytes", FrameOfFlow::new(1, UDP, (1_024, 53), 1_514).bytes),
        ("GTP-U", FrameOfFlow::in_tunnel(1).bytes),
    ];
    let hashing = |inner| Hashing { bits: 10, seed: Seed(1), inner };
    let programs = [
        ("count", hashing(false), false),
        ("count and steer", hashing(false), true),
        ("count, --inner", hashing(true), false),
        ("count and steer, --inner", hashing(true), true),
    ];
    let with = |(program, hashing, steers): (&'static str, Hashing, bool)| {
        let frames = frames.clone();
        frames.map(|(frame, bytes)| Timed { program, frame, bytes, hashing, steers })
    };
    programs.into_iter().flat_map(with).collect()
}

/// Times each program with each frame in turn with the bare one: one that passes frames on, or hands them to a
/// processor.
pub(crate) fn measure(turns: usize) -> Result<Vec<Cost>, String> {
    let (here, _there) = pair_with_checksums();
    let said = |error: humpyard::traffic::TrafficError| error.to_string();
    let [pass, redirect] = [BareProgram::pass(), BareProgram::redirect(0)];
    let bare = [pass.map_err(said)?, redirect.map_err(said)?];
    let mut costs: Vec<Cost> = ["pass", "redirect"].map(|program| empty(program, "UDP", None)).to_vec();
    for timed in timed() {
        let open = || match timed.steers {
            false => BucketCounters::observe("here", timed.hashing),
            true => BucketCounters::steer("here", timed.hashing, &vec![0; timed.hashing.buckets()], GUARD),
        };
        let counters = here.within(open).map_err(said)?;
        let mut cost = empty(timed.program, timed.frame, Some(timed.hashing.longest_path(timed.steers)));
        let which = usize::from(timed.steers);
        for _ in 0..turns {
            let bare = bare[which].time(&timed.bytes, REPEAT).map_err(said)?.as_nanos() as f64;
            let ours = counters.time_program(&timed.bytes, REPEAT).map_err(said)?.as_nanos() as f64;
            costs[which].ns.push(bare);
            cost.ns.push(ours);
            cost.ratios.push(ours / bare);
        }
        costs.push(cost);
    }
    Ok(costs)
}

fn empty(program: &'static str, frame: &'static str, longest_path: Option<usize>) -> Cost {
    Cost { program, frame, longest_path, ns: Vec::new(), ratios: Vec::new() }
}
