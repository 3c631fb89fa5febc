//! Frames of captures, rewritten so that the router forwards them.

use std::collections::HashMap;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use humpyard::frame::Frame;
use humpyard::random::Seed;
use humpyard::traffic::header::Network;
use humpyard::traffic::{FlowKey, Headers};

use crate::frames::FrameOfFlow;

/// Reads the captures of a directory of $HUMPYARD_TRACES, all at once: of each, frames at equal distances. A flow keeps
/// its protocol, ports, and lengths, and gets an address of its own. Frames other than TCP and UDP are left out.
pub(crate) fn frames(directory: &str) -> Result<Vec<FrameOfFlow>, String> {
    let mut flows: HashMap<(usize, FlowKey), u32> = HashMap::new();
    let mut placed: Vec<(f64, FrameOfFlow)> = Vec::new();
    for (number, path) in paths(directory)?.iter().enumerate() {
        let found = read(path)?;
        let all = found.len() as f64;
        for (place, (key, length)) in found.into_iter().enumerate() {
            let next = flows.len() as u32;
            let flow = *flows.entry((number, key.connection())).or_insert(next);
            let ports = (key.source_port, key.destination_port);
            placed.push((place as f64 / all, FrameOfFlow::new(flow, key.protocol, ports, length)));
        }
    }
    placed.sort_by(|(one, _), (other, _)| one.total_cmp(other));
    Ok(placed.into_iter().map(|(_, frame)| frame).collect())
}

fn paths(directory: &str) -> Result<Vec<PathBuf>, String> {
    let beside = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/traces");
    let traces = env::var("HUMPYARD_TRACES").unwrap_or_else(|_| beside.to_owned());
    let found = fs::read_dir(PathBuf::from(&traces).join(directory));
    let found = found.map_err(|error| {
        format!("{traces}/{directory}: {error}; set HUMPYARD_TRACES to the directory of the captures")
    })?;
    let mut paths: Vec<PathBuf> = found.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    Ok(paths)
}

/// Returns flow and length of the TCP and UDP packets of a capture.
fn read(path: &Path) -> Result<Vec<(FlowKey, usize)>, String> {
    let name = path.to_string_lossy();
    let failed = |error: &dyn std::fmt::Display| format!("{name}: {error}");
    let mut source = humpyard::traffic::open(&name, Seed(1)).map_err(|error| failed(&error))?;
    let (mut frame, mut found) = (Frame::default(), Vec::new());
    while source.next(&mut frame).map_err(|error| failed(&error))? {
        let key = Headers::parse(&frame).key;
        if key.network == Network::Ipv4 && [6, 17].contains(&key.protocol) && key.source_port != 0 {
            found.push((key, frame.wire_length as usize));
        }
    }
    Ok(found)
}
