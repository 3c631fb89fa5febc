//! The table of a fan-out group of other programs, at one end of a virtual cable. The other program is
//! `steer_fanout/readers.c`, which loads the object by libbpf.
//!
//! The tests make network namespaces and BPF file systems of their own, for which they need root and `ip`. Where they
//! cannot they say so and pass, unless HUMPYARD_REQUIRE_NETNS is 1. Where there is no C compiler or libbpf, those with
//! readers say so and pass, unless HUMPYARD_REQUIRE_C_LIBRARY is set.

mod steer_frames;

use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Output, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{MutexGuard, OnceLock};
use std::time::Duration;

use humpyard_core::random::Seed;
use humpyard_testkit::network::{Namespace, pair_with_checksums, turn};
use humpyard_wire::{BucketCounters, Hashing, PacketCount, PinnedTable};
use tempfile::TempDir;

use crate::steer_frames::{PATIENCE, buckets, frames};

const HASHING: Hashing = Hashing { bits: 7, seed: Seed(1), inner: false };
const GUARD: Duration = Duration::from_millis(500);
const READERS: u32 = 3;
/// Ethernet, IP, UDP and 100 bytes.
const FRAME_BYTES: u64 = 142;
/// Where the process that owns a table finds its directory, in the environment.
const OWNED: &str = "HUMPYARD_TEST_OWNED";

/// Runs a command that must succeed. Returns what it prints.
#[track_caller]
fn run(command: &mut Command) -> String {
    let Output { status, stdout, stderr } = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(status.success(), "{command:?}: {}", String::from_utf8_lossy(&stderr));
    String::from_utf8_lossy(&stdout).into_owned()
}

/// The program of readers, compiled once. `None`: this machine cannot compile it, and says so.
///
/// # Panics
/// If it cannot and the environment variable `HUMPYARD_REQUIRE_C_LIBRARY` is set.
#[expect(clippy::print_stderr, reason = "says what was skipped")]
fn readers_program() -> Option<&'static Path> {
    static PROGRAM: OnceLock<Option<PathBuf>> = OnceLock::new();
    let program = PROGRAM.get_or_init(|| {
        let found = Command::new("pkg-config").args(["--exists", "libbpf"]).status();
        let compiler = Command::new("cc").arg("--version").output();
        if found.is_ok_and(|status| status.success()) && compiler.is_ok() {
            return Some(compile());
        }
        assert!(std::env::var_os("HUMPYARD_REQUIRE_C_LIBRARY").is_none(), "no cc, pkg-config or libbpf");
        eprintln!("SKIPPED: there is no cc, pkg-config or libbpf; `scripts/prerequisites network` installs them");
        None
    });
    program.as_deref()
}

fn compile() -> PathBuf {
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join("fanout_readers");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/steer_fanout/readers.c");
    let flags = run(Command::new("pkg-config").args(["--cflags", "--libs", "libbpf"]));
    let mut compiler = Command::new("cc");
    compiler.args(["-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-pthread", "-o"]).arg(&program).arg(source);
    run(compiler.args(flags.split_whitespace()));
    program
}

/// A directory with a BPF file system, and a place for the object beside it.
struct Files(TempDir);

impl Files {
    fn make() -> Self {
        let files = Self(tempfile::tempdir().unwrap());
        std::fs::create_dir(files.maps()).unwrap();
        run(Command::new("mount").args(["-t", "bpf", "none"]).arg(files.maps()));
        files
    }

    fn maps(&self) -> PathBuf {
        self.0.path().join("maps")
    }

    fn object(&self) -> PathBuf {
        self.0.path().join("steer.o")
    }

    fn open(&self, hashing: Hashing) -> PinnedTable {
        PinnedTable::open(&self.object(), &self.maps(), hashing, GUARD).unwrap()
    }

    fn refusal(&self, hashing: Hashing) -> String {
        let error = PinnedTable::open(&self.object(), &self.maps(), hashing, GUARD).unwrap_err().to_string();
        assert_eq!(error.lines().count(), 1, "{error}");
        error
    }

    /// The names in a directory, in order.
    fn names(directory: &Path) -> Vec<String> {
        let entries = std::fs::read_dir(directory).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    fn pinned(&self) -> Vec<String> {
        Self::names(&self.maps()).into_iter().filter(|name| name.starts_with("humpyard_")).collect()
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        // A test that has failed already is not to fail twice.
        let _ = Command::new("umount").arg(self.maps()).output();
    }
}

/// Readers of the interface `here`, which end when this is dropped.
struct Readers {
    child: Child,
    input: Option<ChildStdin>,
    lines: Receiver<String>,
}

impl Readers {
    fn start(files: &Files, here: &Namespace) -> Self {
        let mut command = here.command(readers_program().unwrap().to_str().unwrap());
        command.arg(files.object()).arg(files.maps()).args(["here", &READERS.to_string(), "300"]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (sender, lines) = channel();
        let output = BufReader::new(child.stdout.take().unwrap());
        std::thread::spawn(move || output.lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
        let readers = Self { input: child.stdin.take(), child, lines };
        assert_eq!(readers.line(), "ready");
        readers
    }

    fn line(&self) -> String {
        self.lines.recv_timeout(PATIENCE).expect("readers print a line")
    }

    /// The socket that receives the next packet, and the port that the packet comes from.
    fn next(&self) -> (u32, u16) {
        let line = self.line();
        let (socket, port) = line.split_once(' ').unwrap();
        (socket.parse().unwrap(), port.parse().unwrap())
    }
}

impl Drop for Readers {
    fn drop(&mut self) {
        drop(self.input.take());
        let _ = self.child.wait();
    }
}

/// Both ends of UDP flows to `here`.
struct Flows<'a> {
    receiver: UdpSocket,
    there: &'a Namespace,
}

const PORT: u16 = 9000;

impl<'a> Flows<'a> {
    fn between(here: &Namespace, there: &'a Namespace) -> Self {
        let receiver = here.within(|| UdpSocket::bind((Ipv4Addr::new(10, 9, 0, 1), PORT)).unwrap());
        receiver.set_read_timeout(Some(PATIENCE)).unwrap();
        Self { receiver, there }
    }

    fn sender(&self, port: u16) -> UdpSocket {
        let sender = self.there.within(|| UdpSocket::bind((Ipv4Addr::new(10, 9, 0, 2), port)).unwrap());
        sender.connect((Ipv4Addr::new(10, 9, 0, 1), PORT)).unwrap();
        sender
    }

    /// Sends a packet, which arrives.
    fn send(&self, sender: &UdpSocket) {
        let mut room = [0; 200];
        sender.send(&[7; 100]).unwrap();
        assert_eq!(self.receiver.recv(&mut room).unwrap(), 100);
    }

    /// Sends a packet back.
    fn answer(&self, sender: &UdpSocket) {
        self.receiver.send_to(&[7; 100], sender.local_addr().unwrap()).unwrap();
    }
}

/// The turn of a test with readers. `None`: this machine cannot have them.
fn turn_with_readers() -> Option<MutexGuard<'static, ()>> {
    let turn = turn()?;
    readers_program().map(|_| turn)
}

fn by_bucket(table: &PinnedTable) -> Vec<PacketCount> {
    steer_frames::by_bucket(&table.counts().unwrap(), table.processors())
}

/// The only bucket but the first, which has what is not IP, that has counted since.
fn bucket_since(table: &PinnedTable, before: &[PacketCount]) -> Option<(usize, PacketCount)> {
    let since = |(bucket, (now, before)): (usize, (PacketCount, &PacketCount))| {
        let count = PacketCount { packets: now.packets - before.packets, bytes: now.bytes - before.bytes };
        (bucket, count)
    };
    let counts = by_bucket(table).into_iter().zip(before).enumerate().map(since);
    let found: Vec<_> = counts.skip(1).filter(|(_, count)| count.packets > 0).collect();
    assert!(found.len() <= 1, "{found:?}");
    found.into_iter().next()
}

/// A table in which each bucket goes to the socket of its number plus `shift`.
fn shifted(shift: u32) -> Vec<u32> {
    (0..HASHING.buckets() as u32).map(|bucket| (bucket + shift) % READERS).collect()
}

#[test]
fn each_connection_reaches_the_socket_of_its_bucket_and_is_counted() {
    let Some(_turn) = turn_with_readers() else { return };
    let ((here, there), files) = (pair_with_checksums(), Files::make());
    let table = files.open(HASHING);
    assert_eq!(table.cores().unwrap()[5], 5, "nobody has set it");
    table.set(&shifted(1)).unwrap();
    assert_eq!(table.cores().unwrap(), shifted(1));
    let (readers, flows) = (Readers::start(&files, &here), Flows::between(&here, &there));
    let mut met = [0; READERS as usize];
    for port in 20_000..20_020 {
        let (sender, before) = (flows.sender(port), by_bucket(&table));
        (0..5).for_each(|_| flows.send(&sender));
        let forth: Vec<_> = (0..5).map(|_| readers.next()).collect();
        flows.answer(&sender);
        let back = readers.next();
        let Some((bucket, count)) = bucket_since(&table, &before) else { continue };
        let socket = shifted(1)[bucket];
        assert_eq!(forth, [(socket, port); 5]);
        assert_eq!(back, (socket, PORT), "the other direction");
        assert_eq!(count, PacketCount { packets: 6, bytes: 6 * FRAME_BYTES });
        met[socket as usize] += 1;
    }
    assert!(met.iter().all(|&flows| flows > 0), "{met:?}");
    assert_eq!(table.cores().unwrap(), shifted(1));
}

#[test]
fn a_bucket_moves_once_it_has_rested() {
    let Some(_turn) = turn_with_readers() else { return };
    let ((here, there), files) = (pair_with_checksums(), Files::make());
    let table = files.open(HASHING);
    let (readers, flows) = (Readers::start(&files, &here), Flows::between(&here, &there));
    let sender = flows.sender(20_000);
    let socket_of_next = || {
        flows.send(&sender);
        readers.next().0
    };
    let (before, unset) = (by_bucket(&table), socket_of_next());
    let (bucket, _) = bucket_since(&table, &before).unwrap();
    assert_eq!(unset, bucket as u32 % READERS, "nobody has set the table");
    let mut last = unset;
    for shift in [1, 2] {
        table.set(&shifted(shift)).unwrap();
        for _ in 0..10 {
            std::thread::sleep(GUARD / 20);
            assert_eq!(socket_of_next(), last, "it has not rested");
        }
        std::thread::sleep(2 * GUARD);
        last = socket_of_next();
        assert_eq!(last, shifted(shift)[bucket]);
        assert_eq!(table.cores().unwrap()[bucket], last);
    }
}

/// What the process does that owns a table and is killed.
#[test]
#[ignore = "another test runs it in a process of its own"]
#[expect(clippy::print_stdout, reason = "says that the table is there")]
fn owner() {
    let Some(directory) = std::env::var_os(OWNED).map(PathBuf::from) else { return };
    let (object, maps) = (directory.join("steer.o"), directory.join("maps"));
    let table = PinnedTable::open(&object, &maps, HASHING, GUARD).unwrap();
    table.set(&shifted(1)).unwrap();
    println!("\nowned");
    std::io::stdout().flush().unwrap();
    loop {
        std::thread::park();
    }
}

/// A process that owns a table until it is killed.
fn start_owner(files: &Files) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "owner", "--ignored", "--nocapture"]).env(OWNED, files.0.path());
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    assert!(lines.any(|line| line == "owned"), "{:?}", child.try_wait());
    child
}

#[test]
fn readers_go_on_when_the_owner_is_killed_and_another_takes_over() {
    let Some(_turn) = turn_with_readers() else { return };
    let ((here, there), files) = (pair_with_checksums(), Files::make());
    let mut owner = start_owner(&files);
    let (readers, flows) = (Readers::start(&files, &here), Flows::between(&here, &there));
    assert!(files.refusal(HASHING).contains("another process steers"), "{}", files.refusal(HASHING));
    owner.kill().unwrap();
    owner.wait().unwrap();
    let sender = flows.sender(20_000);
    let socket_of_next = || {
        flows.send(&sender);
        readers.next().0
    };
    let first = socket_of_next();
    assert_eq!(socket_of_next(), first);

    let table = files.open(HASHING);
    assert!(table.is_taken_over());
    let before = by_bucket(&table);
    assert_eq!(socket_of_next(), first);
    let (bucket, _) = bucket_since(&table, &before).unwrap();
    assert_eq!(first, shifted(1)[bucket], "the table of the owner that was killed");
    table.set(&shifted(2)).unwrap();
    std::thread::sleep(2 * GUARD);
    assert_eq!(socket_of_next(), shifted(2)[bucket]);
    drop(table);
    assert_eq!(files.pinned().len(), 4, "it has not pinned them");
    assert_eq!(socket_of_next(), shifted(2)[bucket]);
}

#[test]
fn readers_may_be_first() {
    let Some(_turn) = turn_with_readers() else { return };
    let ((here, there), files) = (pair_with_checksums(), Files::make());
    drop(files.open(HASHING));
    assert!(files.pinned().is_empty());
    let (readers, flows) = (Readers::start(&files, &here), Flows::between(&here, &there));
    let table = files.open(HASHING);
    assert!(table.is_taken_over(), "libbpf has pinned the maps");
    let before = by_bucket(&table);
    flows.send(&flows.sender(20_000));
    let (bucket, _) = bucket_since(&table, &before).unwrap();
    assert_eq!(readers.next(), (bucket as u32 % READERS, 20_000));
}

/// A frame with tags of VLANs.
fn tagged(frame: &[u8], tags: usize) -> Vec<u8> {
    let (addresses, rest) = frame.split_at(12);
    [addresses, &[0x81, 0, 0, 5].repeat(tags), rest].concat()
}

#[test]
fn buckets_are_those_of_the_program_at_the_interface() {
    let Some(_turn) = turn_with_readers() else { return };
    let ((here, there), files) = (pair_with_checksums(), Files::make());
    here.ip("link set dev here mtu 9000");
    there.ip("link set dev there mtu 9000");
    // Frames longer than a page have only their header of Ethernet in the first piece.
    assert!(there.run("ethtool -K there tx on sg on").status.success());
    let long = |port| {
        let mut frames = frames(port);
        frames.iter_mut().for_each(|(_, bytes)| bytes.resize(5000, 0));
        frames
    };
    for inner in [true, false] {
        let hashing = Hashing { bits: 16, inner, ..HASHING };
        let table = files.open(hashing);
        let _readers = Readers::start(&files, &here);
        let [one, other] = [1000, 1001].map(|port| buckets(|| by_bucket(&table), &there, &frames(port)));
        assert_eq!(one, buckets(|| by_bucket(&table), &there, &long(1000)), "in several pieces");
        let tagged = [1, 2].map(|tags| ("tagged", tagged(&frames(1000)[0].1, tags)));
        assert_eq!(buckets(|| by_bucket(&table), &there, &tagged), [one[0]; 2]);
        let counters = here.within(|| BucketCounters::observe("here", hashing)).unwrap();
        let at_interface = || steer_frames::by_bucket(&counters.counts().unwrap(), counters.processors());
        assert_eq!(one, buckets(at_interface, &there, &frames(1000)), "inner: {inner}");
        assert_eq!(other, buckets(at_interface, &there, &frames(1001)), "inner: {inner}");
        assert_eq!(one.iter().all(|&bucket| bucket == one[0]), inner, "{one:?}");
    }
}

#[test]
fn what_cannot_be_is_refused_in_a_line() {
    let Some(_turn) = turn() else { return };
    let files = Files::make();
    let table = files.open(HASHING);
    assert_eq!(files.pinned(), ["humpyard_count", "humpyard_flows", "humpyard_state", "humpyard_wanted"]);
    assert!(files.refusal(HASHING).contains("another process steers by it"), "{}", files.refusal(HASHING));
    let other_buckets = files.refusal(Hashing { bits: 8, ..HASHING });
    assert!(other_buckets.contains("other buckets") && other_buckets.contains("then rm "), "{other_buckets}");
    let other_seed = files.refusal(Hashing { seed: Seed(2), ..HASHING });
    assert!(other_seed.contains("not that of this object"), "{other_seed}");
    std::fs::remove_file(files.maps().join("humpyard_flows")).unwrap();
    assert!(files.refusal(HASHING).contains("a part of another table"), "{}", files.refusal(HASHING));
    drop(table);
    assert!(files.pinned().is_empty());

    let refusal = |object: &Path, maps: &Path| {
        PinnedTable::open(object, maps, HASHING, GUARD).map(|_| ()).unwrap_err().to_string()
    };
    let elsewhere = refusal(&files.object(), files.0.path());
    let said = format!("`{}` is in no BPF file system: take /sys/fs/bpf", files.0.path().display());
    assert!(elsewhere.contains(&said), "{elsewhere}");
    let pipe = files.0.path().join("pipe");
    run(Command::new("mkfifo").arg(&pipe));
    assert!(refusal(&pipe, &files.maps()).contains("there is a device or a pipe of this name"));
    assert!(!pipe.is_file(), "it is still a pipe");
    std::fs::remove_file(&pipe).unwrap();
    assert!(refusal(&files.object(), Path::new("/nowhere")).contains("/nowhere"));
    assert!(refusal(Path::new("/nowhere/steer.o"), &files.maps()).contains("cannot be written"));
    assert!(refusal(files.0.path(), &files.maps()).contains("cannot be written"), "a directory");
    assert!(files.pinned().is_empty(), "what is refused leaves no maps");
    assert_eq!(Files::names(files.0.path()), ["maps", "steer.o"], "what is refused leaves no file");
}

#[test]
fn a_table_can_be_left_and_taken_over() {
    let Some(_turn) = turn() else { return };
    let files = Files::make();
    let mut table = files.open(HASHING);
    assert!(!table.is_taken_over());
    table.set(&shifted(1)).unwrap();
    table.leave_pinned();
    drop(table);
    let table = files.open(HASHING);
    assert!(table.is_taken_over());
    assert_eq!((table.cores().unwrap(), table.hashing()), (shifted(1), HASHING));
    assert!(table.heavy_flows(3).unwrap().is_empty());
}
