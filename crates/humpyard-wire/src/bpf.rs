//! The system call bpf(2), as far as it is needed: maps, and programs put together here, so that no
//! compiler is needed, neither now nor then.

use core::ffi::{CStr, c_int, c_long};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::Duration;

const MAP_CREATE: c_int = 0;
const MAP_LOOKUP: c_int = 1;
const MAP_UPDATE: c_int = 2;
const MAP_DELETE: c_int = 3;
const MAP_NEXT_KEY: c_int = 4;
const PROGRAM_LOAD: c_int = 5;
const OBJECT_PIN: c_int = 6;
const OBJECT_GET: c_int = 7;
const PROGRAM_TEST_RUN: c_int = 10;
const OBJECT_INFORMATION: c_int = 15;
const MAP_LOOKUP_BATCH: c_int = 24;

/// Licences of programs: the kernel has functions that only programs under the GPL may call.
const MIT: &CStr = c"MIT";
const GPL: &CStr = c"GPL";
/// Bytes of a name in the kernel, with a zero at the end.
const NAME_BYTES: usize = 16;
/// Bytes of the verifier's words.
const LOG_BYTES: usize = 16 << 10;

/// An instruction of BPF (RFC 9669, section 3), as the kernel reads it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub(crate) struct Instruction {
    pub(crate) opcode: u8,
    /// The destination in the lower half, the source in the upper one.
    pub(crate) registers: u8,
    pub(crate) offset: i16,
    pub(crate) immediate: i32,
}

impl Instruction {
    pub(crate) const fn new(opcode: u8, destination: u8, source: u8, offset: i16, immediate: i32) -> Self {
        Self { opcode, registers: destination | source << 4, offset, immediate }
    }
}

#[repr(C)]
#[derive(Default)]
struct MapCreate {
    map_type: u32,
    key_bytes: u32,
    value_bytes: u32,
    entries: u32,
    flags: u32,
    inner_map: u32,
    memory_node: u32,
    name: [u8; NAME_BYTES],
}

/// What the kernel says of a map, as far as it is read (`struct bpf_map_info`).
#[repr(C)]
#[derive(Default)]
struct MapInformation {
    map_type: u32,
    number: u32,
    key_bytes: u32,
    value_bytes: u32,
    entries: u32,
    flags: u32,
}

#[repr(C)]
struct AskInformation {
    descriptor: u32,
    bytes: u32,
    information: u64,
}

/// A map under a name of the BPF file system.
#[repr(C)]
struct Pin {
    path: u64,
    descriptor: u32,
    flags: u32,
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

/// Calls bpf(2).
///
/// # Safety
/// The attributes are those of this command, and what they point to lives as long as the call.
pub(crate) unsafe fn call<T>(command: c_int, attributes: &mut T) -> io::Result<c_int> {
    // SAFETY: pointer and size are those of the attributes; for the rest the caller answers.
    let result: c_long =
        unsafe { libc::syscall(libc::SYS_bpf, command, core::ptr::from_mut(attributes), size_of::<T>()) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result as c_int) }
}

/// Takes over a descriptor that a call has just answered.
pub(crate) fn owned(descriptor: c_int) -> OwnedFd {
    // SAFETY: the kernel has made it just now, and nobody else knows it.
    unsafe { OwnedFd::from_raw_fd(descriptor) }
}

/// Several entries of a map at once.
#[repr(C)]
#[derive(Default)]
struct MapBatch {
    from: u64,
    to: u64,
    keys: u64,
    values: u64,
    entries: u32,
    map: u32,
    entry_flags: u64,
    flags: u64,
}

/// What a map is made as.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct MapShape {
    /// 15 bytes at most.
    pub(crate) name: &'static str,
    pub(crate) map_type: u32,
    pub(crate) key_bytes: u32,
    /// Of an array with a value for each processor, the bytes of one of them.
    pub(crate) value_bytes: u32,
    pub(crate) entries: u32,
}

/// A map from keys of one size to values of one size.
#[derive(Debug)]
pub(crate) struct Map {
    descriptor: OwnedFd,
    key_bytes: usize,
    value_bytes: usize,
}

impl Map {
    /// One of this type from numbers, with `entries` entries.
    pub(crate) fn new(map_type: u32, value_bytes: usize, entries: u32) -> io::Result<Self> {
        Self::keyed(map_type, size_of::<u32>(), value_bytes, entries)
    }

    /// One of this type with keys of this size.
    pub(crate) fn keyed(map_type: u32, key_bytes: usize, value_bytes: usize, entries: u32) -> io::Result<Self> {
        let (key_bytes, value_bytes) = (key_bytes as u32, value_bytes as u32);
        Self::shaped(MapShape { name: "", map_type, key_bytes, value_bytes, entries })
    }

    /// One of this shape.
    pub(crate) fn shaped(shape: MapShape) -> io::Result<Self> {
        let MapShape { name, map_type, key_bytes, value_bytes, entries } = shape;
        let mut attributes = MapCreate { map_type, key_bytes, value_bytes, entries, ..MapCreate::default() };
        attributes.name[..name.len()].copy_from_slice(name.as_bytes());
        // SAFETY: these are the attributes of the command, without pointers.
        let descriptor = owned(unsafe { call(MAP_CREATE, &mut attributes) }?);
        Ok(Self::of(descriptor, shape))
    }

    fn of(descriptor: OwnedFd, shape: MapShape) -> Self {
        Self { descriptor, key_bytes: shape.key_bytes as usize, value_bytes: shape.value_bytes as usize }
    }

    /// Opens the map of this shape that is pinned at a path. `None`: there is none.
    ///
    /// # Errors
    /// If the kernel refuses it. `InvalidData`: it is of another shape.
    pub(crate) fn pinned(path: &CStr, shape: MapShape) -> io::Result<Option<Self>> {
        let mut pin = Pin { path: path.as_ptr() as u64, descriptor: 0, flags: 0 };
        // SAFETY: these are the attributes of the command; the path ends with a zero and outlives the call.
        let descriptor = match unsafe { call(OBJECT_GET, &mut pin) } {
            Ok(descriptor) => owned(descriptor),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let MapInformation { map_type, key_bytes, value_bytes, entries, .. } = information(&descriptor)?;
        if (MapShape { name: shape.name, map_type, key_bytes, value_bytes, entries }) != shape {
            return Err(io::Error::from(io::ErrorKind::InvalidData));
        }
        Ok(Some(Self::of(descriptor, shape)))
    }

    /// Gives it a name in the BPF file system, by which it stays when all who have it end.
    pub(crate) fn pin(&self, path: &CStr) -> io::Result<()> {
        let mut pin = Pin { path: path.as_ptr() as u64, descriptor: self.descriptor() as u32, flags: 0 };
        // SAFETY: these are the attributes of the command; the path ends with a zero and outlives the call.
        unsafe { call(OBJECT_PIN, &mut pin) }?;
        Ok(())
    }

    /// Puts the value of a number into it.
    pub(crate) fn set(&self, key: u32, value: &[u8]) -> io::Result<()> {
        assert_eq!((self.key_bytes, self.value_bytes), (size_of::<u32>(), value.len()), "sizes of a map");
        let mut attributes = self.entry((&raw const key).cast(), value.as_ptr());
        // SAFETY: these are the attributes of the command; key and value have the sizes that the
        // map was made with.
        unsafe { call(MAP_UPDATE, &mut attributes) }?;
        Ok(())
    }

    /// Reads the value of a key. `false`: it has none.
    pub(crate) fn read(&self, key: &[u8], value: &mut [u8]) -> io::Result<bool> {
        assert_eq!((self.key_bytes, self.value_bytes), (key.len(), value.len()), "sizes of a map");
        let mut attributes = self.entry(key.as_ptr(), value.as_mut_ptr());
        // SAFETY: these are the attributes of the command; key and value have the sizes that the map was made with.
        present(unsafe { call(MAP_LOOKUP, &mut attributes) })
    }

    /// Takes a key out. `false`: it was not there.
    pub(crate) fn remove(&self, key: &[u8]) -> io::Result<bool> {
        assert_eq!(self.key_bytes, key.len(), "the size of a key");
        let mut attributes = self.entry(key.as_ptr(), core::ptr::null());
        // SAFETY: these are the attributes of the command; the key has the size that the map was made with.
        present(unsafe { call(MAP_DELETE, &mut attributes) })
    }

    /// Returns the keys that are there, at most `most`; others may come and go meanwhile.
    pub(crate) fn keys(&self, most: usize) -> io::Result<Vec<Vec<u8>>> {
        let mut keys: Vec<Vec<u8>> = Vec::new();
        while keys.len() < most {
            let mut next = vec![0; self.key_bytes];
            let last = keys.last().map_or(core::ptr::null(), |key| key.as_ptr());
            let mut attributes = self.entry(last, next.as_mut_ptr());
            // SAFETY: these are the attributes of the command; both keys have the size that the map was made with, and
            // no pointer for the first stands for the beginning.
            if !present(unsafe { call(MAP_NEXT_KEY, &mut attributes) })? {
                break;
            }
            keys.push(next);
        }
        Ok(keys)
    }

    /// Reads the values of an array of `entries` entries whose values take `stride` bytes each, as the kernel hands
    /// them out: of an array with a value for each processor, all of them.
    pub(crate) fn read_array(&self, entries: usize, stride: usize) -> io::Result<Vec<u8>> {
        let (mut keys, mut values, mut place) = (vec![0_u32; entries], vec![0; entries * stride], 0_u32);
        let mut attributes = MapBatch {
            to: &raw mut place as u64,
            keys: keys.as_mut_ptr() as u64,
            values: values.as_mut_ptr() as u64,
            entries: entries as u32,
            map: self.descriptor.as_raw_fd() as u32,
            ..MapBatch::default()
        };
        // SAFETY: these are the attributes of the command; keys and values have room for as many entries as they say.
        present(unsafe { call(MAP_LOOKUP_BATCH, &mut attributes) })?;
        Ok(values)
    }

    fn entry(&self, key: *const u8, value: *const u8) -> MapUpdate {
        let map = self.descriptor.as_raw_fd() as u32;
        MapUpdate { map, key: key as u64, value: value as u64, ..MapUpdate::default() }
    }

    /// By which programs know it.
    pub(crate) fn descriptor(&self) -> c_int {
        self.descriptor.as_raw_fd()
    }
}

/// Asks what a map is. What is pinned may be a program: its numbers fit no shape of a map.
fn information(map: &OwnedFd) -> io::Result<MapInformation> {
    let mut answer = MapInformation::default();
    let mut attributes = AskInformation {
        descriptor: map.as_raw_fd() as u32,
        bytes: size_of::<MapInformation>() as u32,
        information: &raw mut answer as u64,
    };
    // SAFETY: these are the attributes of the command; the answer has room for as many bytes as they say.
    unsafe { call(OBJECT_INFORMATION, &mut attributes) }?;
    Ok(answer)
}

/// What a call about an entry comes to. `false`: there is none.
fn present(answer: io::Result<c_int>) -> io::Result<bool> {
    match answer {
        Ok(_) => Ok(true),
        Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(false),
        Err(error) => Err(error),
    }
}

/// A program that is run on bytes that did not come by an interface.
#[repr(C)]
#[derive(Default)]
struct TestRun {
    program: u32,
    answer: u32,
    input_bytes: u32,
    output_bytes: u32,
    input: u64,
    output: u64,
    repeat: u32,
    duration_ns: u32,
    context: [u64; 3],
    flags: u32,
    processor: u32,
    batch: u32,
    padding: u32,
}

/// Runs a program on a frame `repeat` times and returns the mean time that it takes.
pub(crate) fn time(program: &OwnedFd, frame: &[u8], repeat: u32) -> io::Result<Duration> {
    let mut attributes = TestRun {
        program: program.as_raw_fd() as u32,
        input_bytes: frame.len() as u32,
        input: frame.as_ptr() as u64,
        repeat,
        ..TestRun::default()
    };
    // SAFETY: these are the attributes of the command; the frame has as many bytes as they say, and no output is asked
    // for.
    unsafe { call(PROGRAM_TEST_RUN, &mut attributes) }?;
    Ok(Duration::from_nanos(u64::from(attributes.duration_ns)))
}

/// What a program is loaded as.
#[derive(Clone, Copy, Default)]
pub(crate) struct ProgramKind {
    pub(crate) program: u32,
    pub(crate) attach: u32,
    pub(crate) flags: u32,
    /// The number of the interface whose driver it may ask about frames; 0: it asks no driver.
    pub(crate) interface: u32,
    /// Whether it calls functions that are for programs under the GPL only.
    pub(crate) is_gpl: bool,
}

/// Has the kernel check and keep a program. What the verifier finds wrong is in the error.
pub(crate) fn load(kind: ProgramKind, code: &[Instruction]) -> io::Result<OwnedFd> {
    match load_code(kind, code, &mut []) {
        Err(error) if matches!(error.raw_os_error(), Some(libc::EINVAL | libc::EACCES)) => {
            // Once more, for the reason.
            let mut log = vec![0; LOG_BYTES];
            match load_code(kind, code, &mut log) {
                Err(_) if log[0] != 0 => Err(io::Error::new(error.kind(), format!("{error}: {}", one_line(&log)))),
                _ => Err(error),
            }
        }
        other => other,
    }
}

fn load_code(kind: ProgramKind, code: &[Instruction], log: &mut [u8]) -> io::Result<OwnedFd> {
    let mut attributes = ProgramLoad {
        kind: kind.program,
        instructions: code.len() as u32,
        code: code.as_ptr() as u64,
        license: if kind.is_gpl { GPL } else { MIT }.as_ptr() as u64,
        log_level: u32::from(!log.is_empty()),
        log_bytes: log.len() as u32,
        log: if log.is_empty() { 0 } else { log.as_mut_ptr() as u64 },
        flags: kind.flags,
        interface: kind.interface,
        attach_type: kind.attach,
        ..ProgramLoad::default()
    };
    attributes.name[..8].copy_from_slice(b"humpyard");
    // SAFETY: these are the attributes of the command; code, licence and log live in the caller,
    // with the lengths that are said.
    Ok(owned(unsafe { call(PROGRAM_LOAD, &mut attributes) }?))
}

/// What the verifier says, as one line.
fn one_line(log: &[u8]) -> String {
    let text = String::from_utf8_lossy(log.split(|&byte| byte == 0).next().unwrap_or_default()).into_owned();
    text.lines().map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_laid_out_as_the_kernel_reads_them() {
        assert_eq!(core::mem::offset_of!(MapUpdate, key), 8);
        assert_eq!(core::mem::offset_of!(ProgramLoad, log), 32);
        assert_eq!(core::mem::offset_of!(ProgramLoad, flags), 44);
        assert_eq!(core::mem::offset_of!(ProgramLoad, interface), 64);
        assert_eq!(core::mem::offset_of!(ProgramLoad, attach_type), 68);
        assert_eq!((core::mem::offset_of!(MapBatch, entry_flags), size_of::<MapBatch>()), (40, 56));
        assert_eq!((core::mem::offset_of!(TestRun, duration_ns), core::mem::offset_of!(TestRun, batch)), (36, 72));
        assert_eq!((core::mem::offset_of!(MapCreate, name), size_of::<MapCreate>()), (28, 44));
        assert_eq!((size_of::<MapInformation>(), size_of::<AskInformation>()), (24, 16));
        assert_eq!((size_of::<Pin>(), size_of::<Instruction>()), (16, 8));
    }

    #[test]
    fn the_verifiers_words_become_one_line() {
        assert_eq!(one_line(b"0: (61) r2\n\n R1 invalid\n\0\0rest"), "0: (61) r2; R1 invalid");
    }
}
