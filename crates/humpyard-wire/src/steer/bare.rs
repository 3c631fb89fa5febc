//! The least that a program can do with a frame: what the time of the one that steers is held against.

use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use humpyard_traffic::TrafficError;

use super::counters::possible_processors;
use super::program::{PASS, REDIRECT_MAP};
use super::{CPU_MAP_SIZE, waiting};
use crate::assembler::Assembler;
use crate::assembler::Register::{R0, R1, R2, R3};
use crate::bpf::{self, Map};
use crate::interface::refused;
use crate::xdp::{HAS_FRAGMENTS, XDP};

/// A program that hashes and counts nothing, and is at no interface.
#[derive(Debug)]
pub struct BareProgram {
    program: OwnedFd,
    /// Where it hands frames to.
    _waiting: Option<Map>,
}

impl BareProgram {
    /// A program that lets frames go on as they would.
    ///
    /// # Errors
    /// If the kernel refuses it.
    pub fn pass() -> Result<Self, TrafficError> {
        let mut text = Assembler::default();
        text.set(R0, PASS);
        Self::of(text, None).map_err(|error| refused("xdp", "loading a program", &error))
    }

    /// A program that hands every frame to this processor.
    ///
    /// # Errors
    /// If the kernel refuses it.
    pub fn redirect(processor: u32) -> Result<Self, TrafficError> {
        let load = || {
            let waiting = waiting(possible_processors()?, &CPU_MAP_SIZE.to_ne_bytes())?;
            let mut text = Assembler::default();
            text.set_map(R1, waiting.descriptor());
            text.set(R2, processor as i32);
            text.set(R3, PASS);
            text.call(REDIRECT_MAP);
            Self::of(text, Some(waiting))
        };
        load().map_err(|error| refused("cpumap", "loading a program", &error))
    }

    fn of(mut text: Assembler, waiting: Option<Map>) -> io::Result<Self> {
        text.exit();
        let kind = bpf::ProgramKind { flags: HAS_FRAGMENTS, ..XDP };
        Ok(Self { program: bpf::load(kind, &text.finish())?, _waiting: waiting })
    }

    /// As [`BucketCounters::time_program`](super::BucketCounters::time_program).
    ///
    /// # Errors
    /// If the kernel refuses the frame.
    pub fn time(&self, frame: &[u8], repeat: u32) -> Result<Duration, TrafficError> {
        bpf::time(&self.program, frame, repeat).map_err(|error| refused("xdp", "running a program on a frame", &error))
    }
}
