//! Checks that the C program does the same as the Rust program, linked with either library.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

#[path = "../../humpyard/examples/own_packets.rs"]
#[expect(dead_code, reason = "its `main` prints what is compared here")]
mod in_rust;

/// Returns the directory in which cargo puts the libraries of this crate: that of the tests.
fn libraries() -> PathBuf {
    let test = std::env::current_exe().expect("a test knows where it is");
    test.parent().expect("a program is in a directory").to_owned()
}

/// Returns whether there is a C compiler.
///
/// # Panics
/// If there is none and the environment variable `CI` is set.
#[expect(clippy::print_stderr, reason = "says what was skipped")]
fn has_compiler() -> bool {
    if Command::new("cc").arg("--version").output().is_ok() {
        return true;
    }
    assert!(std::env::var_os("CI").is_none(), "there is no C compiler `cc`");
    eprintln!("skipped: there is no C compiler `cc`");
    false
}

/// Compiles the program with all warnings as errors, and links it with these arguments.
fn compile(program: &Path, link: &[&Path]) {
    let crate_directory = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut compiler = Command::new("cc");
    compiler.args(["-std=c11", "-pedantic", "-Wall", "-Wextra", "-Werror", "-o"]).arg(program);
    compiler.arg("-I").arg(crate_directory.join("include")).arg(crate_directory.join("examples/own_packets.c"));
    let output = compiler.args(link).output().expect("the compiler starts");
    assert!(output.status.success(), "it does not compile:\n{}", text(&output.stderr));
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("text")
}

fn run(program: &mut Command) -> String {
    let Output { status, stdout, stderr } = program.output().expect("the program starts");
    assert!(status.success() && stderr.is_empty(), "{status}\n{}", text(&stderr));
    text(&stdout).to_owned()
}

fn expected() -> String {
    format!("{}\n{}\n", in_rust::share().expect("gr3 is made"), in_rust::steer().expect("ps-hrw is made"))
}

#[test]
fn the_c_program_finds_what_the_rust_program_finds() {
    if !has_compiler() {
        return;
    }
    let directory = tempfile::tempdir().expect("a temporary directory");
    let program = directory.path().join("own_packets");
    compile(&program, &[&libraries().join("libhumpyard_capi.so")]);
    assert_eq!(run(Command::new(&program).env("LD_LIBRARY_PATH", libraries())), expected());
}

#[test]
fn linked_into_the_program_it_needs_nothing_but_the_system() {
    if !has_compiler() {
        return;
    }
    let directory = tempfile::tempdir().expect("a temporary directory");
    let program = directory.path().join("own_packets");
    // Unused sections are left out, and with them the needs of other crates' features.
    let [unused, threads, loader, numbers] = ["-Wl,--gc-sections", "-lpthread", "-ldl", "-lm"].map(Path::new);
    compile(&program, &[&libraries().join("libhumpyard_capi.a"), unused, threads, loader, numbers]);
    assert_eq!(run(Command::new(&program).env_remove("LD_LIBRARY_PATH")), expected());
}
