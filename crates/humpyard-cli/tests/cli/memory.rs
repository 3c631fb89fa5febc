//! Memory does not grow with the length of the traffic: millions of packets in little memory.
#![cfg(target_os = "linux")]

use std::process::Command;

use crate::support::{Said, directory, number};

/// Far less than the packets would take: 2.5 million of them, each of 64 bytes beside its frame and its entries.
const DATA_KIB: u32 = 160 << 10;
const PACKETS: u64 = 2_500_000;

fn in_little_memory(words: &str) {
    let directory = directory();
    // What libraries take as files does not count.
    let script = format!("ulimit -d {DATA_KIB} && exec \"$0\" {words} --json");
    let mut command = Command::new("sh");
    command.args(["-c", &script, env!("CARGO_BIN_EXE_humpyard")]).current_dir(directory.path());
    // Otherwise each thread reserves far more than it uses.
    command.env("MALLOC_ARENA_MAX", "1");
    let said = Said::of(command.output().expect("there is a shell"));
    assert_eq!(said.code, Some(0), "{words}: {said:?}");
    assert_eq!(number(&said.json(), "/packets/processed"), PACKETS, "{words}");
}

#[test]
fn a_simulation_takes_no_more_memory_for_more_packets() {
    let input = format!("gen:poisson:packets={PACKETS},flows=5000");
    in_little_memory(&format!("sim --input {input} --policy steer=hrw/share=drr --cores 2 --flows 4096 --buffer 1024"));
}

#[test]
fn a_live_run_takes_no_more_memory_for_more_packets() {
    let input = format!("gen:poisson:packets={PACKETS},flows=5000");
    in_little_memory(&format!("run --input {input} --policy hrw --workers 2 --flows 4096 --buffer 1024"));
}
