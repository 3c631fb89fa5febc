//! The module in Python: the program that does what the Rust program does, the tests in Python, and the types.
//!
//! `HUMPYARD_PYTHON` is the Python to run, by default `python3`. `make test` gives one that has mypy.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

#[path = "../../humpyard/examples/own_packets.rs"]
#[expect(dead_code, reason = "its `main` prints what is compared here")]
mod in_rust;

/// A directory from which Python imports `humpyard`: the files of the package, and the library that cargo has put
/// beside this test, by its name in Python.
fn package() -> TempDir {
    let test = env::current_exe().expect("a test knows where it is");
    let directory = tempfile::tempdir().expect("a temporary directory");
    let package = directory.path().join("humpyard");
    fs::create_dir(&package).expect("a directory for the package");
    let link = |from: &Path, name: &OsStr| symlink(from, package.join(name)).expect("a link to a file of the package");
    let files = Path::new(env!("CARGO_MANIFEST_DIR")).join("python/humpyard");
    for file in fs::read_dir(files).expect("the files of the package") {
        let file = file.expect("a file of the package");
        link(&file.path(), &file.file_name());
    }
    link(&test.with_file_name("libhumpyard_python.so"), OsStr::new("_humpyard.abi3.so"));
    directory
}

fn interpreter() -> OsString {
    env::var_os("HUMPYARD_PYTHON").unwrap_or_else(|| "python3".into())
}

/// Whether the interpreter runs this without complaint.
///
/// # Panics
/// If it does not and the environment variable `CI` is set.
#[expect(clippy::print_stderr, reason = "says what was skipped")]
fn has(arguments: &[&str]) -> bool {
    let interpreter = interpreter();
    let output = Command::new(&interpreter).args(arguments).output();
    if output.is_ok_and(|output| output.status.success()) {
        return true;
    }
    let message = format!("{} {} does not run", interpreter.display(), arguments.join(" "));
    assert!(env::var_os("CI").is_none(), "{message}");
    eprintln!("skipped: {message}");
    false
}

/// What Python says with the package in reach, run in this crate.
fn python(arguments: &[&str]) -> String {
    let arguments: Vec<&OsStr> = arguments.iter().map(OsStr::new).collect();
    python_in(Path::new(env!("CARGO_MANIFEST_DIR")), &arguments)
}

/// What Python says with the package in reach, run in this directory.
fn python_in(directory: &Path, arguments: &[&OsStr]) -> String {
    let package = package();
    let mut python = Command::new(interpreter());
    python.args(arguments).current_dir(directory).env("PYTHONPATH", package.path());
    python.env("MYPYPATH", package.path()).env("MYPY_CACHE_DIR", package.path()).env("PYTHONDONTWRITEBYTECODE", "1");
    // Where the whole workspace is tested, the program is there, too.
    let program = env::current_exe().expect("a test knows where it is").with_file_name("../humpyard");
    if program.exists() {
        python.env("HUMPYARD_PROGRAM", program);
    }
    let Output { status, stdout, stderr } = python.output().expect("Python starts");
    let text = |bytes| String::from_utf8(bytes).expect("text");
    let (stdout, stderr) = (text(stdout), text(stderr));
    assert!(status.success(), "{status}\n{stdout}{stderr}");
    stdout
}

#[test]
fn the_python_program_finds_what_the_rust_program_finds() {
    if has(&["--version"]) {
        let expected =
            format!("{}\n{}\n", in_rust::share().expect("gr3 is made"), in_rust::steer().expect("ps-hrw is made"));
        assert_eq!(python(&["examples/own_packets.py"]), expected);
    }
}

#[test]
fn the_tests_in_python_pass() {
    if has(&["--version"]) {
        python(&["-m", "unittest", "discover", "--start-directory", "tests"]);
    }
}

#[test]
fn examples_in_docstrings_run() {
    if has(&["--version"]) {
        let check = "import doctest, humpyard._calls as calls, humpyard.results as results\n\
                     tried = [doctest.testmod(module) for module in (calls, results)]\n\
                     assert not any(one.failed for one in tried) and all(one.attempted for one in tried), tried";
        python(&["-c", check]);
    }
}

/// The pages of the book.
fn pages() -> Vec<PathBuf> {
    let book = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let children = |directory: &Path| -> Vec<PathBuf> {
        fs::read_dir(directory).expect("a directory").map(|entry| entry.expect("an entry").path()).collect()
    };
    let folders = children(&book).into_iter().filter(|path| path.is_dir());
    let pages = folders.flat_map(|folder| children(&folder)).filter(|path| path.extension() == Some("md".as_ref()));
    pages.collect()
}

/// The Python of a page, as one program: later blocks use what earlier blocks define.
fn program(page: &Path) -> String {
    let text = fs::read_to_string(page).expect("a page");
    text.split("```python\n").skip(1).filter_map(|rest| rest.split("```").next()).collect()
}

#[test]
fn the_programs_of_the_book_run() {
    let programs: Vec<(PathBuf, String)> = pages().into_iter().map(|page| (page.clone(), program(&page))).collect();
    let programs: Vec<_> = programs.iter().filter(|(_, program)| !program.is_empty()).collect();
    assert!(programs.len() >= 3, "the pages with Python were not found");
    if has(&["-c", "import polars"]) {
        for (page, program) in programs {
            let directory = tempfile::tempdir().expect("a temporary directory");
            let file = directory.path().join(page.with_extension("py").file_name().expect("a page has a name"));
            fs::write(&file, program).expect("a program is written");
            python_in(directory.path(), &["-W".as_ref(), "ignore".as_ref(), file.as_os_str()]);
        }
    }
}

#[test]
fn the_stub_says_what_the_module_has() {
    if has(&["-c", "import mypy.stubtest"]) {
        python(&["-m", "mypy.stubtest", "humpyard"]);
    }
}
