//! The receiver: a program of ours looks at each frame as it comes, and keeps none.
//!
//! For each line of its input it prints how many frames came so far in each bucket of delay, as
//! JSON, and in how many ns the longest of a bucket came. A bucket is a sixteenth of a power of two
//! wide. Frames that do not say when they were sent, because they were encrypted, have the last
//! bucket.

use core::ffi::c_int;
use std::error::Error;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use crate::bpf::{LOAD_BYTES, NOW, SOCKET_FILTER, Words, index, instruction, load, load_value};
use crate::kernel::{Instruction, owned};
use crate::send::STAMP;

/// Buckets: enough for 64 powers of two, and a power of two themselves.
const BUCKETS: usize = 1_024;
/// Steps of each power of two.
const STEPS: u64 = 16;
/// Where the ports of UDP are; the frames go to port 9.
const PORTS: i32 = 34;
const PORT: i32 = 0x0900;
/// By how many bits a delay is shifted until the rest is one of a power's steps.
const STEPS_DOWN: [i32; 6] = [32, 16, 8, 4, 2, 1];
/// Instructions that find the bucket of a delay.
const AFTER_DELAY: i16 = 4 + 5 * STEPS_DOWN.len() as i16;

/// Counts a frame of the sender by its delay, and lets the socket have nothing of it.
fn count(words: &Words) -> Vec<Instruction> {
    const NOTHING: [Instruction; 2] = [instruction(0xb7, 0, 0, 0, 0), instruction(0x95, 0, 0, 0, 0)];
    const BYTES: i32 = STAMP as i32 + 8 - PORTS;
    // load_bytes(skb, PORTS, r10 - 16, BYTES)
    let mut program = vec![
        instruction(0xb7, 2, 0, 0, PORTS),
        instruction(0xbf, 3, 10, 0, 0),
        instruction(0x07, 3, 0, 0, -BYTES),
        instruction(0xb7, 4, 0, 0, BYTES),
        instruction(0x85, 0, 0, 0, LOAD_BYTES),
        instruction(0x15, 0, 0, 2, 0),
    ];
    program.extend(NOTHING);
    // r0 = now; r1 = the port that the frame goes to; without it r3 is the last bucket, and the
    // rest is left out
    program.extend([
        instruction(0x85, 0, 0, 0, NOW),
        instruction(0xb7, 3, 0, 0, (BUCKETS - 1) as i32),
        instruction(0x69, 1, 10, (2 - BYTES) as i16, 0),
        instruction(0x55, 1, 0, AFTER_DELAY, PORT),
    ]);
    // r0 = now - stamp
    program.extend([instruction(0x79, 1, 10, -8, 0), instruction(0x1f, 0, 1, 0, 0), instruction(0xb7, 3, 0, 0, 0)]);
    for step in STEPS_DOWN {
        // if (r0 >> step > 15) { r0 >>= step; r3 += step * STEPS }
        program.extend([
            instruction(0xbf, 2, 0, 0, 0),
            instruction(0x77, 2, 0, 0, step),
            instruction(0xb5, 2, 0, 2, STEPS as i32 - 1),
            instruction(0x77, 0, 0, 0, step),
            instruction(0x07, 3, 0, 0, step * STEPS as i32),
        ]);
    }
    program.push(instruction(0x0f, 3, 0, 0, 0));
    // r3 = r3 % BUCKETS * 8; ++words[r3]
    program.extend([instruction(0x57, 3, 0, 0, BUCKETS as i32 - 1), instruction(0x67, 3, 0, 0, 3)]);
    program.extend(load_value(1, words));
    program.extend([instruction(0x0f, 1, 3, 0, 0), instruction(0xb7, 2, 0, 0, 1), instruction(0xdb, 1, 2, 0, 0)]);
    program.extend(NOTHING);
    program
}

/// The longest delay of a bucket, in ns.
fn longest(bucket: u64) -> u64 {
    let (power, step) = (bucket / STEPS, bucket % STEPS);
    if power == 0 { step } else { (((STEPS + step + 1) as u128) << (power - 1)) as u64 - 1 }
}

/// Opens a socket that hears of the IPv4 frames of an interface, by this program alone.
fn listen(interface: &str, program: &OwnedFd) -> Result<OwnedFd, Box<dyn Error>> {
    let checked = |result: c_int| if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) };
    // SAFETY: takes no pointer.
    let socket = owned(checked(unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW, 0) })?);
    let descriptor = program.as_raw_fd();
    let (pointer, bytes) = ((&raw const descriptor).cast(), size_of::<c_int>() as libc::socklen_t);
    // SAFETY: pointer and length are those of a descriptor that outlives the call.
    checked(unsafe { libc::setsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, libc::SO_ATTACH_BPF, pointer, bytes) })?;
    // SAFETY: an address is numbers, of which all may be zero.
    let mut address: libc::sockaddr_ll = unsafe { core::mem::zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = (libc::ETH_P_IP as u16).to_be();
    address.sll_ifindex = index(interface)? as c_int;
    let bytes = size_of_val(&address) as libc::socklen_t;
    // SAFETY: pointer and length are those of a whole address that outlives the call.
    checked(unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), bytes) })?;
    Ok(socket)
}

/// Counts the frames that come to an interface until the standard input ends.
pub(crate) fn receive(interface: &str) -> Result<(), Box<dyn Error>> {
    let words = Words::new(BUCKETS)?;
    let program = load(SOCKET_FILTER, &count(&words))?;
    let _socket = listen(interface, &program)?;
    for line in io::stdin().lines() {
        line?;
        let counts = words.read()?;
        let filled = (0..).zip(counts).filter(|&(_, count)| count > 0);
        let buckets: Vec<String> = filled.map(|(bucket, count)| format!("[{},{count}]", longest(bucket))).collect();
        println!("[{}]", buckets.join(","));
    }
    Ok(())
}
