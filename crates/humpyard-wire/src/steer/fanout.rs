//! The table of a group of sockets (`PACKET_FANOUT`) of other programs, which load its program by libbpf.
//!
//! # Source
//! packet(7), `PACKET_FANOUT_EBPF`; Suricata, `ebpf-lb-file`; Linux, `kernel/bpf/inode.c`.

use std::ffi::CString;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use humpyard_traffic::TrafficError;
use humpyard_traffic::capture::PartialFile;

use super::buckets::{Counted, Placed};
use super::object::object;
use super::program::socket_program;
use super::table::guard_ns;
use super::{CoreTable, Counters, FlowCount, Hashing, PacketCount};
use crate::bpf::{Map, MapShape};
use crate::interface::refused;

/// The type of a BPF file system (`linux/magic.h`).
const BPF_FILE_SYSTEM: u32 = 0xcafe_4a11;
/// The maps, in the order of [`shapes`].
const MAPS: usize = 4;
/// How the maps are known in the object: by their places.
const COUNTED: Counted = Counted { buckets: 0, queues: None, flows: 1 };
const WANTED: i32 = 2;
const STATE: i32 = 3;

/// Sockets by bucket, for a fan-out group of another program.
///
/// The other program loads an object file by libbpf and gives its program to the group (`PACKET_FANOUT_EBPF`). The maps
/// are pinned in a BPF file system, where libbpf finds them. They stay with the program that uses them when this
/// process ends. Then each bucket stays with its socket.
///
/// The kernel numbers sockets in the order in which they join the group. It divides the number in the table by the
/// number of sockets, and takes the remainder. A bucket that was never [set](PinnedTable::set) has its own number: a
/// table that nobody sets spreads buckets evenly.
#[derive(Debug)]
pub struct PinnedTable {
    counters: Counters,
    table: CoreTable,
    pins: Pins,
    is_taken_over: bool,
    /// Locked: one process at a time steers by it.
    _object: File,
}

impl PinnedTable {
    /// The directory in which libbpf looks for maps.
    pub const DIRECTORY: &str = "/sys/fs/bpf";

    /// Writes the object file, and pins its maps in `directory`. If the maps are pinned already and the file is this
    /// object, takes the table over as it is. A bucket moves once it has had no packet for `guard`, 2.1 s at most.
    ///
    /// # Errors
    /// If the directory is in no BPF file system, other maps of the same names are pinned there, another process steers
    /// by the file, the file cannot be written, or the privilege is lacking.
    pub fn open(object: &Path, directory: &Path, hashing: Hashing, guard: Duration) -> Result<Self, TrafficError> {
        let files = TableFiles { port: format!("fanout:{}", object.display()), object, directory };
        files.check_directory()?;
        let shapes = shapes(hashing);
        let content = content(hashing, guard, &shapes);
        let found = files.pinned(&shapes)?;
        let is_taken_over = found.is_some();
        let mut pins = Pins(Vec::new());
        let (maps, file) = match found {
            Some(maps) => (maps, files.same_object(&content)?),
            None => (files.pin(shapes, &mut pins)?, files.write(&content)?),
        };
        let [buckets, flows, wanted, state] = maps;
        let counters = Counters::of(&files.port, hashing, [buckets, flows])?;
        let table = CoreTable::of(hashing, [wanted, state]);
        Ok(Self { counters, table, pins, is_taken_over, _object: file })
    }

    /// Whether the maps were there before: programs may use them.
    pub const fn is_taken_over(&self) -> bool {
        self.is_taken_over
    }

    /// Leaves the maps pinned when this is dropped, so that [`PinnedTable::open`] can take them over. Without this, the
    /// drop unpins those that this process has pinned. Programs that have loaded them keep them either way.
    pub fn leave_pinned(&mut self) {
        self.pins.0.clear();
    }

    /// How connections are divided.
    pub const fn hashing(&self) -> Hashing {
        self.counters.hashing()
    }

    /// Returns how many processors there can be.
    pub const fn processors(&self) -> usize {
        self.counters.processors()
    }

    /// Returns what came for each bucket since the maps were made, on each processor that took it from the interface:
    /// that of bucket b on processor p is at b * [`PinnedTable::processors`] + p. Bytes are those of frames, without
    /// tags of VLANs that the kernel has taken off.
    ///
    /// # Errors
    /// If the kernel does not tell.
    pub fn counts(&self) -> Result<Vec<PacketCount>, TrafficError> {
        self.counters.counts()
    }

    /// Returns the flows of which most packets were looked at since the last call, at most `most`.
    ///
    /// # Errors
    /// If the kernel does not tell.
    pub fn heavy_flows(&self, most: usize) -> Result<Vec<FlowCount>, TrafficError> {
        self.counters.heavy_flows(most)
    }

    /// Sets the number of the socket that each bucket is to go to.
    ///
    /// # Errors
    /// If the kernel refuses it.
    ///
    /// # Panics
    /// If there is not a socket for each bucket.
    pub fn set(&self, sockets: &[u32]) -> Result<(), TrafficError> {
        assert_eq!(sockets.len(), self.hashing().buckets(), "a socket for each bucket");
        let entries: Vec<u32> = sockets.iter().map(|socket| socket.saturating_add(1)).collect();
        self.table.set(&entries).map_err(|error| refused(self.counters.port(), "setting the table", &error))
    }

    /// Returns the number of the socket that each bucket goes to.
    ///
    /// # Errors
    /// If the kernel does not tell.
    pub fn cores(&self) -> Result<Vec<u32>, TrafficError> {
        let read = || Ok((self.table.wanted()?, self.table.states()?));
        let (wanted, states) = read().map_err(|error| refused(self.counters.port(), "reading the table", &error))?;
        // A bucket without a packet yet goes where it is to go.
        let entries = wanted.iter().zip(states).map(|(&wanted, state)| if state.is_used { state.core } else { wanted });
        Ok((0..).zip(entries).map(|(bucket, entry)| entry.checked_sub(1).unwrap_or(bucket)).collect())
    }
}

/// The shapes of the maps of a table.
const fn shapes(hashing: Hashing) -> [MapShape; MAPS] {
    let ([buckets, flows], [wanted, state]) = (Counters::shapes(hashing), CoreTable::shapes(hashing));
    [buckets, flows, wanted, state]
}

/// Returns the object file.
fn content(hashing: Hashing, guard: Duration, shapes: &[MapShape]) -> Vec<u8> {
    let placed = Placed { wanted: WANTED, state: STATE, guard: guard_ns(guard) };
    object(shapes, &socket_program(hashing, COUNTED, placed))
}

/// Names of maps in a file system, which are removed when this is dropped.
#[derive(Debug)]
struct Pins(Vec<PathBuf>);

impl Drop for Pins {
    fn drop(&mut self) {
        for path in &self.0 {
            // Somebody may have removed it.
            let _ = fs::remove_file(path);
        }
    }
}

/// Where a table is, and how the user names it.
struct TableFiles<'a> {
    port: String,
    object: &'a Path,
    directory: &'a Path,
}

impl TableFiles<'_> {
    fn unusable(&self, reason: String) -> TrafficError {
        TrafficError::unusable(&self.port, reason)
    }

    /// Rejects a directory that cannot have maps.
    fn check_directory(&self) -> Result<(), TrafficError> {
        let directory = self.directory.display();
        let is_bpf = nix::sys::statfs::statfs(self.directory)
            .map(|found| found.filesystem_type().0 as u32 == BPF_FILE_SYSTEM)
            .map_err(|error| self.unusable(format!("`{directory}` cannot be opened: {}", error.desc())))?;
        if is_bpf {
            return Ok(());
        }
        Err(self.unusable(match self.directory == Path::new(PinnedTable::DIRECTORY) {
            true => format!("no BPF file system is mounted at `{directory}`: mount -t bpf bpf {directory}"),
            false => format!(
                "`{directory}` is in no BPF file system: take {}, where programs look for tables, or make an empty \
                 directory DIR and mount -t bpf bpf DIR",
                PinnedTable::DIRECTORY
            ),
        }))
    }

    fn path(&self, shape: MapShape) -> PathBuf {
        self.directory.join(shape.name)
    }

    /// Says that other maps are there.
    fn occupied(&self, what: &str) -> TrafficError {
        let directory = self.directory.display();
        self.unusable(format!("{what}: end the programs that use it, then rm {directory}/humpyard_*"))
    }

    /// Opens the maps of a table. `None`: none is pinned.
    fn pinned(&self, shapes: &[MapShape; MAPS]) -> Result<Option<[Map; MAPS]>, TrafficError> {
        let mut found = Vec::new();
        for &shape in shapes {
            found.extend(self.pinned_map(shape)?);
        }
        match found.len() {
            0 => Ok(None),
            MAPS => Ok(found.try_into().ok()),
            _ => Err(self.occupied(&format!("a part of another table is in `{}`", self.directory.display()))),
        }
    }

    fn pinned_map(&self, shape: MapShape) -> Result<Option<Map>, TrafficError> {
        let path = self.path(shape);
        Map::pinned(&c_path(&path), shape).map_err(|error| match error.kind() {
            io::ErrorKind::InvalidData => {
                self.occupied(&format!("`{}` is of a table with other buckets", path.display()))
            }
            _ => refused(&self.port, "opening the table", &error),
        })
    }

    /// Makes the maps of a table.
    fn pin(&self, shapes: [MapShape; MAPS], pins: &mut Pins) -> Result<[Map; MAPS], TrafficError> {
        let mut maps = Vec::new();
        for shape in shapes {
            let path = self.path(shape);
            let map = Map::shaped(shape).and_then(|map| map.pin(&c_path(&path)).map(|()| map));
            maps.push(map.map_err(|error| refused(&self.port, "making the table in the kernel", &error))?);
            pins.0.push(path);
        }
        Ok(maps.try_into().expect("a map for each shape"))
    }

    /// Opens the file that is this object.
    fn same_object(&self, content: &[u8]) -> Result<File, TrafficError> {
        let mut found = Vec::new();
        let file = File::open(self.object).and_then(|mut file| file.read_to_end(&mut found).map(|_| file));
        match file {
            Ok(file) if found == content => self.locked(file),
            _ => {
                let directory = self.directory.display();
                Err(self.occupied(&format!("the table in `{directory}` is not that of this object")))
            }
        }
    }

    /// Writes the file, which has its name once it is whole. A device stays what it is.
    fn write(&self, content: &[u8]) -> Result<File, TrafficError> {
        let written = PartialFile::create(self.object).and_then(|mut file| {
            file.write_all(content)?;
            file.finish()?;
            File::open(self.object)
        });
        let file = written.map_err(|error| self.unusable(format!("the object cannot be written: {error}")))?;
        self.locked(file)
    }

    fn locked(&self, file: File) -> Result<File, TrafficError> {
        match file.try_lock() {
            Ok(()) => Ok(file),
            Err(fs::TryLockError::WouldBlock) => Err(self.unusable("another process steers by it".to_owned())),
            Err(fs::TryLockError::Error(error)) => Err(self.unusable(format!("it cannot be locked: {error}"))),
        }
    }
}

/// A path as the kernel reads it. One with a zero in it is no path: the kernel finds nothing under an empty one.
fn c_path(path: &Path) -> CString {
    CString::new(path.as_os_str().as_bytes()).unwrap_or_default()
}
