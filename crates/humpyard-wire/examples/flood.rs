//! Sends frames into an interface faster than most can take them, for measurements.
//!
//! ```text
//! flood va 02:00:00:00:00:01 64 2.5     frames of 64 bytes to that address, of 1,024 flows, for 2.5 seconds
//! ```
//!
//! Frames are neither made nor copied one by one: the kernel has a program of ours run over pages it keeps (Linux 5.18,
//! `BPF_F_TEST_XDP_LIVE_FRAMES`), which writes headers with a random port and gives the frame to the interface, as a driver would give on
//! what it has received. `sendmmsg` sends a third less, and then the sender is what is measured. The far end of the interface must have an
//! XDP program, or GRO on. When done, it prints how many frames it gave
//! away and in how many seconds: some more than was asked for.
#![expect(clippy::print_stdout, reason = "a program for the command line")]

use core::ffi::{CStr, c_int, c_long};
use core::mem::zeroed;
use std::error::Error;
use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::{Duration, Instant};

use libc::c_uint;

/// Flows that the frames are of.
const FLOWS: i32 = 1_024;
/// Frames for one call. To begin and to end one takes the kernel some milliseconds, in which nothing is sent.
const REPEAT: u32 = 1 << 20;
/// Frames that are under way at once: what the kernel gives to a driver in one go.
const BATCH: u32 = 64;

const PROGRAM_LOAD: c_int = 5;
const PROGRAM_TEST_RUN: c_int = 10;
const PROGRAM_OF_XDP: u32 = 6;
const LIVE_FRAMES: u32 = 1 << 1;
/// One of the functions that are called is for this licence only.
const LICENSE: &CStr = c"GPL";

#[repr(C)]
struct ProgramLoad {
    kind: u32,
    instructions: u32,
    code: u64,
    license: u64,
    log_level: u32,
    log_bytes: u32,
    log: u64,
}

#[repr(C)]
struct TestRun {
    program: u32,
    answer: u32,
    bytes_in: u32,
    bytes_out: u32,
    data_in: u64,
    data_out: u64,
    repeat: u32,
    duration: u32,
    context_bytes_in: u32,
    context_bytes_out: u32,
    context_in: u64,
    context_out: u64,
    flags: u32,
    processor: u32,
    batch: u32,
    padding: u32,
}

/// Calls bpf(2).
///
/// # Safety
/// The attributes are those of this command, and what they point to lives as long as the call.
unsafe fn bpf<T>(command: c_int, attributes: &mut T) -> io::Result<c_int> {
    // SAFETY: pointer and size are those of the attributes; for the rest the caller answers.
    let result: c_long =
        unsafe { libc::syscall(libc::SYS_bpf, command, core::ptr::from_mut(attributes), size_of::<T>()) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result as c_int) }
}

/// An instruction of BPF (RFC 9669, section 3).
const fn instruction(opcode: u8, destination: u8, source: u8, offset: i16, immediate: i32) -> u64 {
    opcode as u64
        | (destination as u64) << 8
        | (source as u64) << 12
        | (offset as u16 as u64) << 16
        | (immediate as u32 as u64) << 32
}

/// Bytes of a frame that whoever forwards it may have written to.
const HEADERS: usize = 40;

/// Writes the headers anew, for the memory of a frame comes back as it was left; gives it a source port at random, and to an
/// interface.
fn send_on(interface: c_uint, frame: &[u8]) -> Vec<u64> {
    const RANDOM: i32 = 7;
    const REDIRECT: i32 = 23;
    let words = frame[..HEADERS].chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().expect("of 8 bytes")));
    let write = words.zip((0..).step_by(8)).flat_map(|(word, offset)| {
        // r1 = word; *(u64 *)(r6 + offset) = r1
        [instruction(0x18, 1, 0, 0, word as i32), (word >> 32) << 32, instruction(0x7b, 6, 1, offset, 0)]
    });
    // r6 = data, r7 = data_end; drop what is too short for headers
    let mut program = vec![
        instruction(0x61, 6, 1, 0, 0),
        instruction(0x61, 7, 1, 4, 0),
        instruction(0xbf, 2, 6, 0, 0),
        instruction(0x07, 2, 0, 0, HEADERS as i32),
        instruction(0xb7, 0, 0, 0, 1),
        instruction(0xbd, 2, 7, 1, 0),
        instruction(0x95, 0, 0, 0, 0),
    ];
    program.extend(write);
    program.extend([
        // *(u16 *)(r6 + 34) = random & 1023
        instruction(0x85, 0, 0, 0, RANDOM),
        instruction(0x57, 0, 0, 0, FLOWS - 1),
        instruction(0x6b, 6, 0, 34, 0),
        // return redirect(interface, 0)
        instruction(0xb7, 1, 0, 0, interface as i32),
        instruction(0xb7, 2, 0, 0, 0),
        instruction(0x85, 0, 0, 0, REDIRECT),
        instruction(0x95, 0, 0, 0, 0),
    ]);
    program
}

fn load(code: &[u64]) -> io::Result<OwnedFd> {
    let mut attributes = ProgramLoad {
        kind: PROGRAM_OF_XDP,
        instructions: code.len() as u32,
        code: code.as_ptr() as u64,
        license: LICENSE.as_ptr() as u64,
        log_level: 0,
        log_bytes: 0,
        log: 0,
    };
    // SAFETY: these are the attributes of the command; code and licence outlive the call.
    let descriptor = unsafe { bpf(PROGRAM_LOAD, &mut attributes) }?;
    // SAFETY: the kernel has made it just now, and nobody else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

fn index(interface: &str) -> Result<c_uint, Box<dyn Error>> {
    let name = CString::new(interface)?;
    // SAFETY: the name ends with a zero and lives.
    match unsafe { libc::if_nametoindex(name.as_ptr()) } {
        0 => Err(format!("there is no interface {interface}").into()),
        index => Ok(index),
    }
}

/// An Ethernet frame of this length without its check sum, to this address: IPv4, UDP, from 10.9.0.1 to 10.9.1.2.
fn frame(to: [u8; 6], length: usize) -> Vec<u8> {
    let ip_bytes = length - 14;
    let mut header =
        [0x45, 0, (ip_bytes >> 8) as u8, ip_bytes as u8, 0, 0, 0, 0, 64, 17, 0, 0, 10, 9, 0, 1, 10, 9, 1, 2];
    let sum: u32 = header.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(pair[1])).sum();
    let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
    header[10..12].copy_from_slice(&sum.to_be_bytes());
    let mut frame = to.to_vec();
    frame.extend([2, 0, 0, 0, 0, 2, 8, 0]);
    frame.extend(header);
    frame.extend([0, 0, 0, 9]);
    frame.extend(((ip_bytes - 20) as u16).to_be_bytes());
    frame.resize(length, 0);
    frame
}

fn send(interface: &str, to: &str, length: usize, time: Duration) -> Result<(u64, Duration), Box<dyn Error>> {
    let parts: Result<Vec<u8>, _> = to.split(':').map(|part| u8::from_str_radix(part, 16)).collect();
    let to = <[u8; 6]>::try_from(parts?).map_err(|_| "an Ethernet address has six parts")?;
    if !(60..=1_514).contains(&length) {
        return Err("a frame has 60 to 1514 bytes".into());
    }
    let frame = frame(to, length);
    let program = load(&send_on(index(interface)?, &frame))?;
    let start = Instant::now();
    let mut sent = 0;
    while start.elapsed() < time {
        // SAFETY: numbers alone, for which zero is a value.
        let mut attributes: TestRun = unsafe { zeroed() };
        attributes.program = program.as_raw_fd() as u32;
        attributes.bytes_in = frame.len() as u32;
        attributes.data_in = frame.as_ptr() as u64;
        attributes.repeat = REPEAT;
        attributes.flags = LIVE_FRAMES;
        attributes.batch = BATCH;
        // SAFETY: these are the attributes of the command; the frame outlives the call.
        unsafe { bpf(PROGRAM_TEST_RUN, &mut attributes) }?;
        sent += u64::from(REPEAT);
    }
    Ok((sent, start.elapsed()))
}

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let [interface, to, length, seconds] = words[..] else {
        return Err("usage: flood INTERFACE ADDRESS BYTES SECONDS".into());
    };
    let time = Duration::try_from_secs_f64(seconds.parse()?)?;
    let (frames, time) = send(interface, to, length.parse()?, time)?;
    println!("{frames} {}", time.as_secs_f64());
    Ok(())
}
