//! Prints how well `l7-filter` recognizes the protocols of the real captures. `HUMPYARD_TRACES` names the
//! directory of the captures: `cargo run --release --package humpyard-services --example l7_accuracy`.
#![expect(clippy::print_stdout, reason = "it exists to print the table")]

#[path = "../tests/services/accuracy.rs"]
mod accuracy;

use humpyard_traffic::test_captures::traces_directory;

fn main() {
    let directory = traces_directory().expect("set HUMPYARD_TRACES to the directory of captures");
    let result = accuracy::accuracy(&directory);
    println!("{}", result.table());
    println!(
        "{} captures, {} marks, {} of them on flows whose label is unknown",
        result.files, result.marks, result.neutral
    );
    println!("labelled flows that carried nothing: {}", result.empty);
    println!(
        "recall: {:.1} % of flows, {:.1} % in the mean of protocols",
        100.0 * result.recall(),
        100.0 * result.mean_recall()
    );
    println!("false marks: {} ({:.2} %)", result.wrong, 100.0 * result.false_marks());
}
