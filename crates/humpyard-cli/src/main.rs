//! The program `humpyard`.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    humpyard_cli::main()
}
