//! The system call bpf(2), as far as it is needed: a map of sockets, a program that uses it, and the link by which the program
//! belongs to an interface for as long as this process has it open.

use core::ffi::{CStr, c_int, c_long};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use super::program::{self, Instruction};
use crate::interface::Interface;

const MAP_CREATE: c_int = 0;
const MAP_UPDATE: c_int = 2;
const PROGRAM_LOAD: c_int = 5;
const LINK_CREATE: c_int = 28;

const MAP_OF_XDP_SOCKETS: u32 = 17;
const PROGRAM_OF_XDP: u32 = 6;
const ATTACH_XDP: u32 = 37;
/// The program can do with frames of more than one buffer.
const HAS_FRAGMENTS: u32 = 1 << 5;
const MODE_GENERIC: u32 = 1 << 1;
const MODE_NATIVE: u32 = 1 << 2;

/// What a user may do with a program; the kernel has functions for some licences only, none of which is used here.
const LICENSE: &CStr = c"MIT";
/// Bytes of the verifier's words.
const LOG_BYTES: usize = 16 << 10;

/// Where a program runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Attachment {
    /// In the driver, before there is anything but bytes.
    Native,
    /// In the kernel's stack, on what the driver has made.
    Generic,
}

#[repr(C)]
#[derive(Default)]
struct MapCreate {
    map_type: u32,
    key_bytes: u32,
    value_bytes: u32,
    entries: u32,
}

#[repr(C)]
#[derive(Default)]
struct MapUpdate {
    map: u32,
    padding: u32,
    key: u64,
    value: u64,
    flags: u64,
}

#[repr(C)]
#[derive(Default)]
struct ProgramLoad {
    kind: u32,
    instructions: u32,
    code: u64,
    license: u64,
    log_level: u32,
    log_bytes: u32,
    log: u64,
    kernel_version: u32,
    flags: u32,
    name: [u8; 16],
    interface: u32,
    attach_type: u32,
}

#[repr(C)]
#[derive(Default)]
struct LinkCreate {
    program: u32,
    interface: u32,
    attach_type: u32,
    flags: u32,
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

/// Takes over a descriptor that a call has just answered.
fn owned(descriptor: c_int) -> OwnedFd {
    // SAFETY: the kernel has made it just now, and nobody else knows it.
    unsafe { OwnedFd::from_raw_fd(descriptor) }
}

/// The socket of each queue.
#[derive(Debug)]
pub(super) struct SocketMap(OwnedFd);

impl SocketMap {
    /// A map for so many queues.
    pub(super) fn new(queues: u32) -> io::Result<Self> {
        let mut attributes = MapCreate { map_type: MAP_OF_XDP_SOCKETS, key_bytes: 4, value_bytes: 4, entries: queues };
        // SAFETY: these are the attributes of the command, without pointers.
        Ok(Self(owned(unsafe { bpf(MAP_CREATE, &mut attributes) }?)))
    }

    /// From now on frames of this queue go to this socket.
    pub(super) fn insert(&self, queue: u32, socket: &OwnedFd) -> io::Result<()> {
        let value = socket.as_raw_fd();
        let mut attributes = MapUpdate {
            map: self.0.as_raw_fd() as u32,
            key: &raw const queue as u64,
            value: &raw const value as u64,
            ..MapUpdate::default()
        };
        // SAFETY: these are the attributes of the command; key and value have the sizes that the map was made with.
        unsafe { bpf(MAP_UPDATE, &mut attributes) }?;
        Ok(())
    }
}

/// Loads the program that gives frames to the sockets of a map; `fragments`: also those of more than one buffer.
fn load(sockets: &SocketMap, fragments: bool) -> io::Result<OwnedFd> {
    let code = program::redirect(&sockets.0);
    match load_code(&code, fragments, &mut []) {
        Err(error) if matches!(error.raw_os_error(), Some(libc::EINVAL | libc::EACCES)) => {
            // Once more, for the reason.
            let mut log = vec![0; LOG_BYTES];
            match load_code(&code, fragments, &mut log) {
                Err(_) if log[0] != 0 => Err(io::Error::new(error.kind(), format!("{error}: {}", one_line(&log)))),
                _ => Err(error),
            }
        }
        other => other,
    }
}

fn load_code(code: &[Instruction], fragments: bool, log: &mut [u8]) -> io::Result<OwnedFd> {
    let mut attributes = ProgramLoad {
        kind: PROGRAM_OF_XDP,
        instructions: code.len() as u32,
        code: code.as_ptr() as u64,
        license: LICENSE.as_ptr() as u64,
        log_level: u32::from(!log.is_empty()),
        log_bytes: log.len() as u32,
        log: if log.is_empty() { 0 } else { log.as_mut_ptr() as u64 },
        flags: if fragments { HAS_FRAGMENTS } else { 0 },
        attach_type: ATTACH_XDP,
        ..ProgramLoad::default()
    };
    attributes.name[..8].copy_from_slice(b"humpyard");
    // SAFETY: these are the attributes of the command; code, licence and log live in the caller, with the lengths that are said.
    Ok(owned(unsafe { bpf(PROGRAM_LOAD, &mut attributes) }?))
}

/// What the verifier says, as one line.
fn one_line(log: &[u8]) -> String {
    let text = String::from_utf8_lossy(log.split(|&byte| byte == 0).next().unwrap_or_default()).into_owned();
    text.lines().map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join("; ")
}

/// A program on an interface. When this is dropped, or the process ends however it ends, the interface is as before.
#[derive(Debug)]
pub(super) struct Link(#[expect(dead_code, reason = "held open: the kernel does the rest")] OwnedFd);

impl Link {
    /// Puts the program on the interface by which the frames of its queues get to the sockets.
    pub(super) fn attach(
        sockets: &SocketMap,
        interface: &Interface,
        attachment: Attachment,
        fragments: bool,
    ) -> io::Result<Self> {
        let program = load(sockets, fragments)?;
        let mut attributes = LinkCreate {
            program: program.as_raw_fd() as u32,
            interface: interface.index as u32,
            attach_type: ATTACH_XDP,
            flags: match attachment {
                Attachment::Native => MODE_NATIVE,
                Attachment::Generic => MODE_GENERIC,
            },
        };
        // SAFETY: these are the attributes of the command, without pointers.
        Ok(Self(owned(unsafe { bpf(LINK_CREATE, &mut attributes) }?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_laid_out_as_the_kernel_reads_them() {
        assert_eq!(core::mem::offset_of!(MapUpdate, key), 8);
        assert_eq!(core::mem::offset_of!(ProgramLoad, log), 32);
        assert_eq!(core::mem::offset_of!(ProgramLoad, flags), 44);
        assert_eq!(core::mem::offset_of!(ProgramLoad, attach_type), 68);
        assert_eq!(size_of::<MapCreate>() + size_of::<LinkCreate>(), 32);
    }

    #[test]
    fn the_verifiers_words_become_one_line() {
        assert_eq!(one_line(b"0: (61) r2\n\n R1 invalid\n\0\0rest"), "0: (61) r2; R1 invalid");
    }
}
