//! System calls that sockets need, each with its error, and memory that is shared with the kernel.

use core::ffi::c_int;
use core::mem::MaybeUninit;
use core::ptr::{self, NonNull};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// What is 0 or positive where a system call went well, and its error where it did not.
pub(crate) fn checked(result: c_int) -> io::Result<c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// A socket that never waits, closed in programs that this one starts.
pub(crate) fn socket(domain: c_int, kind: c_int, protocol: c_int) -> io::Result<OwnedFd> {
    // SAFETY: takes no pointer.
    let descriptor =
        checked(unsafe { libc::socket(domain, kind | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK, protocol) })?;
    // SAFETY: the descriptor was made just now, and nobody else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

/// Values that the kernel copies byte by byte: any bytes are one.
///
/// # Safety
/// The type must be plain: no pointer that the kernel follows unless it is valid, and no bytes that are not a value.
pub(crate) unsafe trait Plain: Copy {}

// SAFETY: every bit pattern is a number.
unsafe impl Plain for c_int {}
// SAFETY: numbers only.
unsafe impl Plain for libc::tpacket_req3 {}
// SAFETY: numbers only.
unsafe impl Plain for libc::tpacket_stats_v3 {}
// SAFETY: numbers only.
unsafe impl Plain for libc::packet_mreq {}

/// Sets an option of a socket.
pub(crate) fn set_option<T: Plain>(socket: &OwnedFd, level: c_int, option: c_int, value: &T) -> io::Result<()> {
    let length = size_of::<T>() as libc::socklen_t;
    // SAFETY: pointer and length are those of a plain value that outlives the call.
    checked(unsafe { libc::setsockopt(socket.as_raw_fd(), level, option, ptr::from_ref(value).cast(), length) })?;
    Ok(())
}

/// Reads an option of a socket.
pub(crate) fn option<T: Plain>(socket: &OwnedFd, level: c_int, option: c_int) -> io::Result<T> {
    let mut value = MaybeUninit::<T>::zeroed();
    let mut length = size_of::<T>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes, which is the size of the value.
    checked(unsafe {
        libc::getsockopt(socket.as_raw_fd(), level, option, value.as_mut_ptr().cast(), &raw mut length)
    })?;
    // SAFETY: of a plain type all bytes are a value, and those that the kernel left are zero.
    Ok(unsafe { value.assume_init() })
}

/// Lets this process lock as much memory as it may: what the kernel shares with it counts.
pub(crate) fn raise_memory_limit() {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the kernel reads and writes one limit, which outlives the calls.
    unsafe {
        if libc::getrlimit(libc::RLIMIT_MEMLOCK, &raw mut limit) == 0 && limit.rlim_cur < limit.rlim_max {
            limit.rlim_cur = limit.rlim_max;
            libc::setrlimit(libc::RLIMIT_MEMLOCK, &raw const limit);
        }
    }
}

/// Memory mapped from a descriptor, or from nowhere, for reading and writing; unmapped when it is dropped.
#[derive(Debug)]
pub(crate) struct Mapping {
    start: NonNull<u8>,
    bytes: usize,
}

impl Mapping {
    /// Maps `bytes` of what this descriptor stands for, shared with the kernel.
    pub(crate) fn shared(descriptor: &OwnedFd, bytes: usize, offset: i64) -> io::Result<Self> {
        Self::map(libc::MAP_SHARED | libc::MAP_POPULATE, descriptor.as_raw_fd(), bytes, offset)
    }

    /// Maps `bytes` of new memory, all zero.
    pub(crate) fn private(bytes: usize) -> io::Result<Self> {
        Self::map(libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_POPULATE, -1, bytes, 0)
    }

    fn map(flags: c_int, descriptor: c_int, bytes: usize, offset: i64) -> io::Result<Self> {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: asks for a new mapping at an address of the kernel's choice, which touches no memory of ours.
        let start = unsafe { libc::mmap(ptr::null_mut(), bytes, protection, flags, descriptor, offset) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast()).ok_or_else(|| io::Error::from(io::ErrorKind::OutOfMemory))?;
        Ok(Self { start, bytes })
    }

    /// Where it begins; as long as the mapping lives, `bytes` of it may be used.
    pub(crate) const fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// How long it is.
    pub(crate) const fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: this is the mapping that `map` made, whole, and nobody has a reference into it any more: who uses it holds it.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}

// SAFETY: the mapping belongs to the value that holds it, like a box of bytes.
unsafe impl Send for Mapping {}
// SAFETY: sharing it shares an address; every access goes through a raw pointer with a reason of its own.
unsafe impl Sync for Mapping {}
