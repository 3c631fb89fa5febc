//! The sender.
//!
//! Frames are neither made nor copied one by one: the kernel has a program of ours run over pages
//! it keeps (Linux 5.18, `BPF_F_TEST_XDP_LIVE_FRAMES`), which writes headers with a random port and
//! the time, and gives the frame to the interface, as a driver would give on what it has received.
//! `sendmmsg` sends a third less, and then the sender is what is measured. The far end of the
//! interface must have an XDP program, or GRO on.
//!
//! With a rate the program drops the frames that are not due: it runs all the time, and so takes
//! the same processor time at every rate. What it could not send while others had its processor it
//! makes up for.

use std::error::Error;
use std::io;
use std::time::{Duration, Instant};

use libc::c_uint;

use crate::bpf::{NOW, RANDOM, REDIRECT, Words, XDP, index, instruction, load, load_number, load_value, run};
use crate::kernel::Instruction;

/// Flows that the frames are of.
const FLOWS: i32 = 1_024;
/// Frames for one call. To begin and to end one takes the kernel some milliseconds, in which
/// nothing is sent.
const REPEAT: u32 = 1 << 20;
/// Frames that are under way at once: what the kernel gives to a driver in one go.
const BATCH: u32 = 64;
/// Bytes of a frame that a forwarder may have written to.
const HEADERS: usize = 40;
/// Where the time is at which a frame was sent, in ns: at the start of the payload.
pub(crate) const STAMP: i16 = 42;
/// Times are counted in this part of a ns, so that intervals add up.
const PARTS: u32 = 8;
/// For so long nothing may have been sent that is sent then: somewhat more than others get the
/// processor for.
const MADE_UP_NS: u64 = 5_000_000;

/// The frames sent, and when the next is due.
const SENT: i16 = 0;
const DUE: i16 = 8;

/// Writes the headers anew, for the memory of a frame comes back as it was left; gives it a source
/// port at random and the time, and to an interface. Frames that come before they are due are
/// dropped.
fn send_on(interface: c_uint, frame: &[u8], words: &Words, rate: Option<f64>) -> Vec<Instruction> {
    const DROP: [Instruction; 2] = [instruction(0xb7, 0, 0, 0, 1), instruction(0x95, 0, 0, 0, 0)];
    // r6 = data, r7 = data_end; drop what is too short for headers; r8 = now; r9 = words
    let mut program = vec![
        instruction(0x61, 6, 1, 0, 0),
        instruction(0x61, 7, 1, 4, 0),
        instruction(0xbf, 2, 6, 0, 0),
        instruction(0x07, 2, 0, 0, i32::from(STAMP) + 8),
        instruction(0xbd, 2, 7, 2, 0),
    ];
    program.extend(DROP);
    program.extend([instruction(0x85, 0, 0, 0, NOW), instruction(0xbf, 8, 0, 0, 0)]);
    program.extend(load_value(9, words));
    if let Some(rate) = rate {
        let interval = (1e9 / rate * f64::from(1 << PARTS)) as u64;
        // r2 = due, r3 = now in parts; drop if r3 < r2
        program.extend([
            instruction(0x79, 2, 9, DUE, 0),
            instruction(0xbf, 3, 8, 0, 0),
            instruction(0x67, 3, 0, 0, PARTS as i32),
            instruction(0x3d, 3, 2, 2, 0),
        ]);
        program.extend(DROP);
        // r3 -= what may be made up for; r2 = max(r2, r3) + interval; due = r2
        program.extend(load_number(4, (interval * u64::from(BATCH)).max(MADE_UP_NS << PARTS)));
        program.push(instruction(0x1f, 3, 4, 0, 0));
        program.extend([instruction(0x3d, 2, 3, 1, 0), instruction(0xbf, 2, 3, 0, 0)]);
        program.extend(load_number(4, interval));
        program.extend([instruction(0x0f, 2, 4, 0, 0), instruction(0x7b, 9, 2, DUE, 0)]);
    }
    // ++sent
    program.extend([instruction(0x79, 2, 9, SENT, 0), instruction(0x07, 2, 0, 0, 1), instruction(0x7b, 9, 2, SENT, 0)]);
    let words = frame[..HEADERS].chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().expect("of 8 bytes")));
    for (word, offset) in words.zip((0..).step_by(8)) {
        // r1 = word; *(u64 *)(r6 + offset) = r1
        program.extend(load_number(1, word));
        program.push(instruction(0x7b, 6, 1, offset, 0));
    }
    program.extend([
        // *(u64 *)(r6 + STAMP) = now
        instruction(0x7b, 6, 8, STAMP, 0),
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

/// An Ethernet frame of this length without its check sum, to this address: IPv4, UDP, from
/// 10.9.0.1 to 10.9.1.2.
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

/// Sends for at least so long, and answers how many frames it gave away and in what time.
pub(crate) fn send(
    interface: &str,
    to: &str,
    length: usize,
    time: Duration,
    rate: Option<f64>,
) -> Result<(u64, Duration), Box<dyn Error>> {
    let parts: Result<Vec<u8>, _> = to.split(':').map(|part| u8::from_str_radix(part, 16)).collect();
    let to = <[u8; 6]>::try_from(parts?).map_err(|_| "an Ethernet address has six parts")?;
    if !(60..=1_514).contains(&length) {
        return Err("a frame has 60 to 1514 bytes".into());
    }
    if rate.is_some_and(|rate| !(1.0..=1e9).contains(&rate)) {
        return Err("a rate is of 1 to 1,000,000,000 frames a second".into());
    }
    let frame = frame(to, length);
    let words = Words::new(2)?;
    let program = load(XDP, &send_on(index(interface)?, &frame, &words, rate))?;
    let start = Instant::now();
    while start.elapsed() < time {
        run(&program, &frame, REPEAT, BATCH)?;
    }
    let time = start.elapsed();
    let sent = words.read()?.first().copied().ok_or_else(|| io::Error::other("the kernel keeps no count"))?;
    Ok((sent, time))
}
