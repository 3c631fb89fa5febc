//! Every real capture through both drivers, whole, cut and with bytes flipped: no panic, all packets counted, and damage named.
#![allow(clippy::print_stderr, reason = "a test that skips must say so")]

use core::sync::atomic::AtomicBool;
use std::fs::{self, File};
use std::io::{Cursor, Read};
use std::path::{Path, PathBuf};

use humpyard_core::frame::Frame;
use humpyard_core::random::Seed;
use humpyard_lab::{Control, Host, LabError, RunConfig, RunResult, run};
use humpyard_traffic::test_captures::{manifest, traces_directory};
use humpyard_traffic::{CaptureReader, Source, TrafficError};

const SEED: Seed = Seed(20_261_121);
/// Bytes of a whole capture that are played, at most.
const WHOLE: u64 = 1 << 20;
/// Bytes of a capture that is damaged: enough for packets of every kind.
const DAMAGED: u64 = 12 << 10;
/// Damages of each kind to each capture.
const DAMAGES: usize = 4;

/// The names of the captures, or a loud word that there are none.
fn captures(test: &str) -> Option<Vec<PathBuf>> {
    let Some(directory) = traces_directory() else {
        eprintln!("SKIPPED {test}: there are no real captures; set HUMPYARD_TRACES to their directory");
        return None;
    };
    Some(manifest(&directory).into_iter().map(|entry| directory.join(entry.file)).collect())
}

fn start_of(path: &Path, bytes: u64) -> Vec<u8> {
    let mut start = Vec::new();
    let file = File::open(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    file.take(bytes).read_to_end(&mut start).unwrap();
    start
}

/// A place for a capture, and everything to play it with.
struct Stage {
    directory: tempfile::TempDir,
    cases: u64,
    unusable: u64,
    damaged: u64,
}

impl Stage {
    fn new() -> Self {
        Self { directory: tempfile::tempdir().unwrap(), cases: 0, unusable: 0, damaged: 0 }
    }

    /// Plays these bytes on one of the drivers, and checks what it says against what the reader alone finds.
    fn play(&mut self, name: &str, bytes: &[u8], host: Host) {
        self.cases += 1;
        let path = self.directory.path().join("capture.pcap");
        fs::write(&path, bytes).unwrap();
        let path = path.to_str().unwrap();
        let case = format!("{name}, {} bytes, case {}, {host:?}", bytes.len(), self.cases);
        match (read(path, bytes), go(path, host)) {
            (Err(expected), Err(found)) => {
                self.unusable += 1;
                assert_eq!(found.to_string(), expected.to_string(), "{case}");
                assert!(found.to_string().starts_with(path), "{case}: {found}");
            }
            (Ok((packets, damage)), Ok(result)) => {
                assert!(result.packets.balance() && result.packets.held == 0, "{case}: {:?}", result.packets);
                assert_eq!(result.packets.arrived, packets, "{case}");
                assert!(result.panic.is_none(), "{case}: {:?}", result.panic);
                let Some(damage) = damage else {
                    let loss = result.damage.filter(humpyard_lab::Damage::is_loss);
                    assert!(loss.is_none(), "{case}: {loss:?}");
                    return;
                };
                self.damaged += 1;
                let found = result.damage.unwrap_or_else(|| panic!("{case}: nothing is said of {damage}"));
                assert_eq!(found.message, damage.to_string(), "{case}");
                assert_eq!((found.packets_before, found.offset), (Some(packets), damage.offset()), "{case}");
                let offset = found.offset.expect("damage has a place");
                assert!(offset <= bytes.len() as u64, "{case}: {}", found.message);
                assert!(found.message.starts_with(path), "{case}: {}", found.message);
                assert!(found.message.contains(&format!("byte {offset}")), "{case}: {}", found.message);
            }
            (read, ran) => panic!("{case}: read {read:?}, ran {:?}", ran.map(|result| result.packets)),
        }
    }
}

/// How many packets there are, and the damage at their end.
fn read(name: &str, bytes: &[u8]) -> Result<(u64, Option<TrafficError>), TrafficError> {
    let mut reader = CaptureReader::new(name, Cursor::new(bytes.to_vec()))?;
    let mut frame = Frame::default();
    loop {
        match reader.next(&mut frame) {
            Ok(true) => {}
            Ok(false) => return Ok((reader.packets(), None)),
            Err(damage) => return Ok((reader.packets(), Some(damage))),
        }
    }
}

/// With few flows and little room, so that flows end and packets are dropped; tunnels are looked into.
fn go(input: &str, host: Host) -> Result<RunResult, LabError> {
    let policy = if host == Host::Sim { "steer=hrw/share=drr" } else { "conn" };
    let mut config = RunConfig::new(host, input, policy.parse()?);
    config.cores = if host == Host::Sim { 3 } else { 0 };
    config.buffer = 16;
    config.flows = 24;
    config.clients = Some("connection".parse()?);
    config.flow_timeout = Some(core::time::Duration::from_secs(1));
    config.tunnels = "all".parse()?;
    config.warm_up = core::time::Duration::from_millis(10);
    run(&config, &mut Control { stop: &AtomicBool::new(false), progress: &mut |_, _| {}, metrics: None })
}

#[test]
fn every_capture_runs_and_is_simulated() {
    let Some(captures) = captures("every_capture_runs_and_is_simulated") else { return };
    let mut stage = Stage::new();
    for path in captures {
        let bytes = start_of(&path, WHOLE);
        for host in [Host::Sim, Host::Live] {
            stage.play(&path.display().to_string(), &bytes, host);
        }
    }
    eprintln!("{} cases, {} damaged, {} unusable", stage.cases, stage.damaged, stage.unusable);
    assert!(stage.cases > 1_000, "{}", stage.cases);
}

#[test]
fn every_capture_cut_anywhere_runs_and_is_simulated() {
    let Some(captures) = captures("every_capture_cut_anywhere_runs_and_is_simulated") else { return };
    let mut stage = Stage::new();
    for path in captures {
        let name = path.display().to_string();
        let bytes = start_of(&path, DAMAGED);
        let mut random = SEED.stream(path.file_name().and_then(|name| name.to_str()).unwrap_or_default());
        for case in 0..DAMAGES {
            let length = random.below(bytes.len() as u64) as usize;
            stage.play(&name, &bytes[..length], if case % 2 == 0 { Host::Sim } else { Host::Live });
        }
    }
    eprintln!("{} cases, {} damaged, {} unusable", stage.cases, stage.damaged, stage.unusable);
    assert!(stage.damaged > 1_000 && stage.cases > 2_000, "{} {}", stage.damaged, stage.cases);
}

#[test]
fn every_capture_with_flipped_bytes_runs_and_is_simulated() {
    let Some(captures) = captures("every_capture_with_flipped_bytes_runs_and_is_simulated") else { return };
    let mut stage = Stage::new();
    for path in captures {
        let name = path.display().to_string();
        let bytes = start_of(&path, DAMAGED);
        let mut random = SEED.stream(path.file_name().and_then(|name| name.to_str()).unwrap_or_default());
        for case in 0..DAMAGES {
            let mut bytes = bytes.clone();
            for _ in 0..=random.below(24) {
                // The headers of the file more often than the rest; the whole byte, or one bit.
                let range = if random.below(8) == 0 { bytes.len().min(60) } else { bytes.len() } as u64;
                let flip = if random.below(2) == 0 { 1 << random.below(8) } else { random.below(256) as u8 };
                bytes[random.below(range) as usize] ^= flip;
            }
            stage.play(&name, &bytes, if case % 2 == 0 { Host::Sim } else { Host::Live });
        }
    }
    eprintln!("{} cases, {} damaged, {} unusable", stage.cases, stage.damaged, stage.unusable);
    assert!(stage.damaged > 500 && stage.cases > 2_000, "{} {}", stage.damaged, stage.cases);
}
