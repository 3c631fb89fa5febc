//! Tests the library that `make install` installs: its files, their size, its ABI, and programs that use it.
#![allow(clippy::print_stderr, reason = "a test that skips must say so")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::LazyLock;

use humpyard_core::frame::Frame;
use humpyard_traffic::test_captures::traces_directory;
use humpyard_traffic::{CaptureReader, Source};
use tempfile::TempDir;

/// Most bytes of the shared library, stripped.
const SHARED_MAX: u64 = 3_000_000;
/// Most bytes of the static library.
const STATIC_MAX: u64 = 25_000_000;

/// A directory with the library that `make install` installed.
struct Installed {
    root: TempDir,
}

static INSTALLED: LazyLock<Installed> = LazyLock::new(|| {
    let root = tempfile::tempdir().expect("a temporary directory");
    let mut make = Command::new("make");
    make.arg("--no-print-directory").arg("--directory").arg(source_tree());
    make.arg(format!("DESTDIR={}", root.path().display())).args(["PREFIX=/usr", "install"]);
    make.env("CARGO", env!("CARGO")).env_remove("MAKEFLAGS");
    text(&mut make);
    Installed { root }
});

impl Installed {
    fn path(&self, path: &str) -> PathBuf {
        self.root.path().join(path)
    }

    fn shared(&self) -> PathBuf {
        self.path(&format!("usr/lib/libhumpyard.so.{}", env!("CARGO_PKG_VERSION")))
    }

    /// Returns the words that `pkg-config` prints for the installed library.
    fn flags(&self, arguments: &[&str]) -> Vec<String> {
        let mut command = Command::new("pkg-config");
        command.args(arguments).arg("humpyard");
        command.env("PKG_CONFIG_LIBDIR", self.path("usr/lib/pkgconfig"));
        command.env("PKG_CONFIG_SYSROOT_DIR", self.root.path());
        text(&mut command).split_whitespace().map(str::to_owned).collect()
    }

    /// Compiles an example strictly, with these flags of other libraries, and links it with the installed
    /// library.
    fn compile(&self, example: &str, standard: &str, others: &[String]) -> PathBuf {
        let program = self.path(example);
        let mut compiler = Command::new("cc");
        compiler.args([standard, "-O2", "-Wall", "-Wextra", "-Werror", "-pthread", "-o"]).arg(&program);
        compiler.arg(capi(&format!("examples/{example}.c")));
        text(compiler.args(self.flags(&["--cflags", "--libs"])).args(others));
        program
    }

    /// Returns a command that finds the installed library.
    fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new(program);
        command.env("LD_LIBRARY_PATH", self.path("usr/lib"));
        command
    }
}

fn capi(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

fn source_tree() -> PathBuf {
    capi("../..")
}

/// Runs a command that must succeed. Returns its output.
#[track_caller]
fn text(command: &mut Command) -> String {
    let Output { status, stdout, stderr } = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let (stdout, stderr) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    assert!(status.success(), "{command:?}: {status}\n{stdout}\n{stderr}");
    stdout.into_owned()
}

/// Returns whether these programs and these `pkg-config` libraries exist. If not, the test is skipped.
///
/// # Panics
/// If something is missing and the environment variable `HUMPYARD_REQUIRE_C_LIBRARY` is set.
fn has(test: &str, programs: &[&str], libraries: &[&str]) -> bool {
    let always = ["make", "cc", "c++", "pkg-config", "objcopy", "readelf"];
    let runs = |program: &&&str| Command::new(program).arg("--version").output().is_err();
    let mut missing: Vec<&str> = always.iter().chain(programs).filter(runs).copied().collect();
    let exists = |library: &str| Command::new("pkg-config").args(["--exists", library]).status();
    missing.extend(libraries.iter().filter(|library| !exists(library).is_ok_and(|status| status.success())));
    if missing.is_empty() {
        return true;
    }
    let missing = missing.join(", ");
    assert!(std::env::var_os("HUMPYARD_REQUIRE_C_LIBRARY").is_none(), "{test} needs {missing}");
    eprintln!("SKIPPED {test}: there is no {missing}; `scripts/prerequisites c-library` installs it");
    false
}

/// Returns the flags of a library of the system.
fn system_flags(library: &str) -> Vec<String> {
    let flags = text(Command::new("pkg-config").args(["--cflags", "--libs", library]));
    flags.split_whitespace().map(str::to_owned).collect()
}

/// Returns the names in a text that begin with `humpyard_` and are followed by `end`.
fn names_before<'a>(text: &'a str, end: &str) -> BTreeSet<&'a str> {
    let name = |part: &'a str| part.rsplit([' ', '*', '\n']).next().unwrap_or_default();
    let mut parts: Vec<&str> = text.split(end).collect();
    parts.pop();
    parts.into_iter().map(name).filter(|name| name.starts_with("humpyard_")).collect()
}

/// Returns the header without its comments.
fn header() -> String {
    let header = fs::read_to_string(INSTALLED.path("usr/include/humpyard.h")).expect("the header is there");
    header.lines().filter(|line| !line.trim_start().starts_with("//")).map(|line| format!("{line}\n")).collect()
}

#[test]
fn it_is_small_and_has_a_name() {
    if !has("it_is_small_and_has_a_name", &[], &[]) {
        return;
    }
    let size = |path: &Path| fs::metadata(path).expect("it is installed").len();
    let (shared, archive) = (size(&INSTALLED.shared()), size(&INSTALLED.path("usr/lib/libhumpyard.a")));
    assert!(shared <= SHARED_MAX && archive <= STATIC_MAX, "shared {shared} B, static {archive} B");
    let (version, _) = env!("CARGO_PKG_VERSION").rsplit_once('.').expect("a version has dots");
    let dynamic = text(Command::new("readelf").args(["--dynamic", "--wide"]).arg(INSTALLED.shared()));
    assert!(dynamic.contains(&format!("Library soname: [libhumpyard.so.{version}]")), "{dynamic}");
    for link in [format!("usr/lib/libhumpyard.so.{version}"), "usr/lib/libhumpyard.so".to_owned()] {
        assert_eq!(size(&INSTALLED.path(&link)), shared, "{link} leads to the library");
    }
    assert_eq!(INSTALLED.flags(&["--modversion"]), [env!("CARGO_PKG_VERSION")]);
    let root = INSTALLED.root.path().display();
    let expected = [format!("-I{root}/usr/include"), format!("-L{root}/usr/lib"), "-lhumpyard".to_owned()];
    assert_eq!(INSTALLED.flags(&["--cflags", "--libs"]), expected);
}

#[test]
fn it_exports_the_functions_of_the_header_with_versions() {
    if !has("it_exports_the_functions_of_the_header_with_versions", &[], &[]) {
        return;
    }
    let (header, map) = (header(), fs::read_to_string(capi("humpyard.map")).expect("the map is there"));
    let functions = names_before(&header, "(");
    assert!(functions.len() >= 20, "{functions:?}");
    assert_eq!(names_before(&map, ";"), functions, "humpyard.map lists the functions of the header");
    let symbols = text(Command::new("readelf").args(["--dyn-syms", "--wide"]).arg(INSTALLED.shared()));
    let defined = symbols.lines().filter(|line| line.contains(" GLOBAL ") && !line.contains(" UND "));
    let exported: BTreeSet<&str> = defined.filter_map(|line| line.split_whitespace().nth(7)).collect();
    let versioned: BTreeSet<String> = functions.iter().map(|name| format!("{name}@@HUMPYARD_0.1")).collect();
    let expected = versioned.iter().map(String::as_str).chain(["HUMPYARD_0.1"]).collect();
    assert_eq!(exported, expected);
    let archive =
        text(Command::new("nm").args(["--defined-only", "--extern-only"]).arg(INSTALLED.path("usr/lib/libhumpyard.a")));
    let visible: BTreeSet<&str> = archive.lines().filter_map(|line| line.split_whitespace().nth(2)).collect();
    assert_eq!(visible, functions, "the static library shows no other symbol");
}

#[test]
fn the_header_compiles_as_c_and_as_cpp() {
    if !has("the_header_compiles_as_c_and_as_cpp", &[], &[]) {
        return;
    }
    for (compiler, language, standard) in [("cc", "c", "-std=c11"), ("c++", "c++", "-std=c++17")] {
        let source = INSTALLED.path(&format!("header.{language}"));
        fs::write(&source, "#include <humpyard.h>\nint main(void) { return humpyard_version()[0] == 0; }\n")
            .expect("it is written");
        let mut command = Command::new(compiler);
        command.args([standard, "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-x", language]).arg(&source);
        command.args(["-x", "none", "-o"]).arg(INSTALLED.path("header"));
        text(command.args(INSTALLED.flags(&["--cflags", "--libs"])));
        text(&mut INSTALLED.command(INSTALLED.path("header")));
    }
}

#[test]
fn the_static_library_needs_nothing_but_the_system() {
    if !has("the_static_library_needs_nothing_but_the_system", &[], &[]) {
        return;
    }
    let program = INSTALLED.path("own_packets_static");
    let mut compiler = Command::new("cc");
    compiler.arg(capi("examples/own_packets.c")).arg("-o").arg(&program);
    let flags = INSTALLED.flags(&["--static", "--cflags", "--libs"]);
    let archive = INSTALLED.path("usr/lib/libhumpyard.a").display().to_string();
    compiler.args(flags.into_iter().map(|flag| if flag == "-lhumpyard" { archive.clone() } else { flag }));
    text(&mut compiler);
    assert!(text(&mut Command::new(&program)).contains(" of 54 jobs\n"));
}

fn source_of_abi(header: &str) -> String {
    let enumerations = header.lines().filter(|line| line.starts_with("enum ")).enumerate();
    let member = |(number, line): (usize, &str)| format!("{} member{number};\n", line.trim_end_matches(" {"));
    let members: String = enumerations.map(member).collect();
    let functions = header.replace(");\n", ") { __builtin_trap(); }\n");
    format!("{functions}\nstruct humpyard_scheduler {{\n{members}}};\n")
}

/// Compares the ABI of two libraries: one made from the committed header, and the installed one. The
/// description is of C types, so a new Rust compiler does not change it.
#[test]
fn its_abi_is_the_committed_one() {
    if !has("its_abi_is_the_committed_one", &["abidw", "abidiff"], &[]) {
        return;
    }
    // Each function declaration becomes a definition, so that the debug information has its types. The opaque
    // scheduler gets a member of each enumeration: no function uses them, and the comparison must cover them.
    let source = INSTALLED.path("abi.c");
    fs::write(&source, source_of_abi(&header())).expect("it is written");
    let library = INSTALLED.path("abi.so");
    let (version, _) = env!("CARGO_PKG_VERSION").rsplit_once('.').expect("a version has dots");
    let mut compiler = Command::new("cc");
    compiler.args(["-std=c11", "-w", "-g", "-shared", "-fPIC", "-o"]);
    compiler
        .arg(&library)
        .arg("abi.c")
        .current_dir(&INSTALLED.root)
        .arg(format!("-Wl,-soname,libhumpyard.so.{version}"));
    text(compiler.arg(format!("-Wl,--version-script={}", capi("humpyard.map").display())));
    let baseline = capi("humpyard.abi");
    if std::env::var_os("HUMPYARD_RENEW").is_some() {
        let mut abidw = Command::new("abidw");
        abidw.args(["--no-corpus-path", "--no-comp-dir-path", "--no-show-locs", "--no-elf-needed"]);
        text(abidw.arg("--out-file").arg(&baseline).arg(&library));
    }
    for library in [library, INSTALLED.shared()] {
        let mut abidiff = Command::new("abidiff");
        abidiff.arg("--no-show-locs").arg(&baseline).arg(&library);
        let Output { status, stdout, .. } = abidiff.output().expect("abidiff starts");
        let changes = String::from_utf8_lossy(&stdout);
        assert!(
            status.success(),
            "the ABI is not that of humpyard.abi. If programs must be compiled anew, the minor version rises. This \
             writes it anew:\n    HUMPYARD_RENEW=1 cargo test -p humpyard-capi --test installed\n{changes}"
        );
    }
}

/// Returns a capture to schedule, and the number of its packets. `None`: there is none here.
fn capture(test: &str) -> Option<(PathBuf, u64)> {
    let Some(directory) = traces_directory() else {
        eprintln!("SKIPPED {test}: there are no real captures; set HUMPYARD_TRACES to their directory");
        return None;
    };
    let path = directory.join("attacks/amp.TCP.reflection.SYNACK.pcap");
    let packets = packets(&path);
    Some((path, packets))
}

fn packets(path: &Path) -> u64 {
    let mut reader = CaptureReader::open(path).expect("a capture");
    let mut frame = Frame::default();
    while reader.next(&mut frame).expect("a good capture") {}
    reader.packets()
}

/// Returns the figures of an account, each with the word behind it.
fn figures(account: &str) -> Vec<(u64, &str)> {
    let words: Vec<&str> = account.split([' ', '(', ')', ',']).filter(|word| !word.is_empty()).collect();
    words.windows(2).filter_map(|pair| Some((pair[0].parse().ok()?, pair[1]))).collect()
}

/// Checks that a printed line accounts for all packets, that some were dropped, and that `out` has those that
/// went out.
fn check_account(policy: &str, printed: &str, arrived: u64, out: &Path) {
    let line = printed.lines().find(|line| line.starts_with(&format!("{policy}: "))).expect("an account");
    let all = figures(line);
    let figure = |name| all.iter().find(|(_, found)| *found == name).map_or(0, |(figure, _)| *figure);
    assert_eq!(figure("in"), arrived, "{line}");
    assert_eq!(figure("in"), figure("out") + figure("unsent") + figure("held") + figure("dropped"), "{line}");
    assert_eq!(figure("dropped"), figure("buffer") + figure("queue") + figure("client"), "{line}");
    assert!(figure("dropped") > 0 && figure("held") == 0 && figure("out") > 1000, "{line}");
    assert_eq!(packets(out), figure("out"), "{line}");
}

#[test]
fn a_program_schedules_a_capture() {
    const TEST: &str = "a_program_schedules_a_capture";
    if !has(TEST, &[], &["libpcap"]) {
        return;
    }
    let Some((capture, arrived)) = capture(TEST) else { return };
    let program = INSTALLED.compile("schedule_capture", "-std=gnu11", &system_flags("libpcap"));
    for policy in ["gr3", "hrw"] {
        let out = INSTALLED.path(&format!("capture-{policy}.pcap"));
        let mut command = INSTALLED.command(&program);
        let printed = text(command.arg(&capture).arg(&out).args([policy, "2"]));
        check_account(policy, &printed, arrived, &out);
    }
}

#[test]
fn a_program_schedules_mbufs_of_dpdk() {
    const TEST: &str = "a_program_schedules_mbufs_of_dpdk";
    if !has(TEST, &[], &["libdpdk"]) {
        return;
    }
    let Some((capture, arrived)) = capture(TEST) else { return };
    let program = INSTALLED.compile("schedule_mbufs", "-std=gnu11", &system_flags("libdpdk"));
    for policy in ["gr3", "hrw"] {
        let out = INSTALLED.path(&format!("mbufs-{policy}.pcap"));
        let device = format!("net_pcap0,rx_pcap={},tx_pcap={}", capture.display(), out.display());
        let mut command = INSTALLED.command(&program);
        command.args(["--no-huge", "--no-shconf", "-m", "256", "--no-pci", "--no-telemetry", "--log-level", "error"]);
        let printed = text(command.args(["--vdev", &device, "--", policy]));
        check_account(policy, &printed, arrived, &out);
        let mbufs: Vec<&str> = printed.lines().filter(|line| line.ends_with(" mbufs are back")).collect();
        assert_eq!(mbufs, ["4095 of 4095 mbufs are back"]);
    }
}

#[test]
fn threads_that_keep_the_rules_do_not_race() {
    if !has("threads_that_keep_the_rules_do_not_race", &["valgrind"], &[]) {
        return;
    }
    let program = INSTALLED.compile("threads", "-std=c11", &[]);
    for tool in [&["--tool=helgrind"][..], &["--tool=memcheck", "--leak-check=full"]] {
        let mut command = INSTALLED.command("valgrind");
        command.args(tool).args(["--quiet", "--error-exitcode=1"]).arg(&program);
        assert_eq!(text(&mut command), "2 threads, 2000 packets each\n");
    }
}
