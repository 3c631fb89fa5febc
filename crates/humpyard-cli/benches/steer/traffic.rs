//! What is sent.

use crate::bed::Bed;
use crate::captured;
use crate::contender::Contender;
use crate::frames::FrameOfFlow;
use crate::probe::unlucky;

/// Flows of traffic that is made up.
const FLOWS: u32 = 512;
/// TCP connections at once.
pub(crate) const STREAMS: usize = 32;

/// What is sent.
pub(crate) struct Traffic {
    pub(crate) name: &'static str,
    /// Empty for TCP, which sends by itself.
    pub(crate) frames: Vec<FrameOfFlow>,
}

impl Traffic {
    pub(crate) const NAMES: [&'static str; 5] = ["elephants", "unlucky", "unlucky by rss++", "tunnel", "tcp"];

    /// Each traffic whose name is wanted.
    pub(crate) fn all(bed: &Bed, wants: &dyn Fn(&str) -> bool) -> Result<Vec<Self>, String> {
        let make = |name: &'static str| Ok(Self { name, frames: frames(bed, name)? });
        Self::NAMES.into_iter().filter(|name| wants(name)).map(make).collect()
    }

    /// Many flows, which any hash divides evenly.
    pub(crate) fn even() -> Self {
        Self { name: "even", frames: (0..FLOWS).map(|flow| FrameOfFlow::short(flow, 2_000)).collect() }
    }

    /// One flow.
    pub(crate) fn one(flow: u32) -> Self {
        Self { name: "one", frames: vec![FrameOfFlow::short(flow, 2_000)] }
    }

    pub(crate) fn contenders(&self) -> Vec<Contender> {
        if self.name == "tunnel" { Contender::for_tunnels() } else { Contender::for_flows() }
    }

    pub(crate) fn is_tcp(&self) -> bool {
        self.frames.is_empty()
    }
}

fn frames(bed: &Bed, name: &str) -> Result<Vec<FrameOfFlow>, String> {
    match name {
        "elephants" => captured::frames("elephants"),
        "unlucky" => unlucky(bed, &Contender::RPS, 2_001, FLOWS as usize),
        "unlucky by rss++" => unlucky(bed, &Contender::RSS_BEGIN, 2_002, FLOWS as usize),
        "tunnel" => Ok((0..FLOWS).map(FrameOfFlow::in_tunnel).collect()),
        _ => Ok(Vec::new()),
    }
}
