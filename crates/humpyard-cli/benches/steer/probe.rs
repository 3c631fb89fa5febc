//! Finds flows that the kernel, or a policy, sends to the first processor.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use serde_json::Value;

use crate::bed::Bed;
use crate::contender::Contender;
use crate::frames::FrameOfFlow;
use crate::sender::{Sent, send};

/// Flows that are tried.
const TRIED: u32 = 2_048;
/// Packets of them that are sent a second.
const RATE: f64 = 10_000.0;
/// How long they are sent once packets are steered.
const TIME: Duration = Duration::from_secs(1);

/// Returns flows to this port that a contender sends to the first processor and to no other, at most `most`.
pub(crate) fn unlucky(bed: &Bed, contender: &Contender, port: u16, most: usize) -> Result<Vec<FrameOfFlow>, String> {
    let tried: Vec<FrameOfFlow> = (0..TRIED).map(|flow| FrameOfFlow::short(flow, port)).collect();
    let (sent, over) = (Sent::default(), AtomicBool::new(false));
    let seen = thread::scope(|scope| {
        let sender = scope.spawn(|| send(bed, &tried, RATE, &sent, &over));
        let seen = look(bed, contender, port);
        over.store(true, Ordering::Relaxed);
        sender.join().map_err(|_| "the sender failed".to_owned())??;
        seen
    })?;
    let [first, second] = seen;
    let is_unlucky = |frame: &FrameOfFlow| {
        let port = u64::from(1_024 + frame.flow as u16);
        first.contains(&port) && !second.contains(&port)
    };
    let found: Vec<FrameOfFlow> = tried.into_iter().filter(is_unlucky).take(most).collect();
    if found.len() < most / 2 {
        return Err(format!("{} sends only {} of {TRIED} flows to the first processor", contender.name, found.len()));
    }
    // Flows are numbered as they are sent.
    Ok((0..).zip(found).map(|(flow, frame)| FrameOfFlow { flow, ..frame }).collect())
}

/// The source ports of packets to this port that each of both processors forwards.
fn look(bed: &Bed, contender: &Contender, port: u16) -> Result<[BTreeSet<u64>; 2], String> {
    let _running = contender.start(bed)?;
    let [first, second] = bed.processors();
    bed.nft(&format!(
        "table ip probe {{\nset first {{ type inet_service; flags dynamic; }}\nset second {{ type inet_service; flags \
         dynamic; }}\nchain forward {{\ntype filter hook forward priority -1;\nudp dport != {port} accept\nmeta cpu \
         {first} add @first {{ udp sport }}\nmeta cpu {second} add @second {{ udp sport }}\n}}\n}}\n"
    ))?;
    thread::sleep(TIME);
    let found = ["first", "second"].map(|set| bed.middle().run(&format!("nft -j list set ip probe {set}")).stdout);
    bed.nft("delete table ip probe\n")?;
    let [first, second] = found;
    Ok([ports(&first)?, ports(&second)?])
}

/// The ports in a set, as `nft -j` lists it.
fn ports(listed: &[u8]) -> Result<BTreeSet<u64>, String> {
    let document: Value = serde_json::from_slice(listed).map_err(|error| format!("nft: {error}"))?;
    let parts = document["nftables"].as_array().into_iter().flatten();
    let elements = parts.filter_map(|part| part["set"]["elem"].as_array()).flatten();
    Ok(elements.filter_map(Value::as_u64).collect())
}
