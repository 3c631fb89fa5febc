//! `topology`: which cores are near each other.

use std::process::ExitCode;

use humpyard::id::{CoreId, Id};
use humpyard::lab::plot::HeatPlot;
use humpyard::lab::report::ReportFile;
use humpyard::lab::{CoreTree, TopologyChoice, Ways};
use serde_json::{Value, json};

use crate::arguments::TopologyArguments;
use crate::failure::Failure;
use crate::figures::counted;
use crate::layout::Sheet;
use crate::output::Output;

/// Matrices of more cores are left to --json and --plot.
const CORES_SHOWN: usize = 16;
/// A matrix of more cores is not made at all: it has a number for each two of them.
const CORES_IN_A_MATRIX: usize = 4096;

/// `humpyard topology`.
pub(crate) fn topology(arguments: &TopologyArguments) -> Result<ExitCode, Failure> {
    let tree = match arguments.source.parse()? {
        TopologyChoice::Tree(tree) => tree,
        TopologyChoice::Flat => {
            return Err(Failure::new("`flat` has no tree, whatever cores there are: name another, e5355 for example"));
        }
    };
    let cores = tree.tree.cores();
    if cores > CORES_IN_A_MATRIX && (!Output::of(&arguments.common.output).is_text() || arguments.plot.is_some()) {
        return Err(Failure::new(format!(
            "the matrix of {cores} cores has {cores} rows of as many numbers: --json and --plot show at most {CORES_IN_A_MATRIX} cores"
        )));
    }
    // Made before anything is said, so that a bad name is known then.
    let files = [arguments.output.as_deref(), arguments.plot.as_deref()];
    let [output, plot] = files.map(|path| path.map(ReportFile::create).transpose());
    let (output, plot) = (output?, plot?);
    if let Some(file) = output {
        file.write(&tree.text())?;
    }
    if let Some(file) = plot {
        file.write(&heat_map(&tree).svg().file())?;
    }
    Output::of(&arguments.common.output).answer(&document(&tree), || text(&tree))?;
    Ok(ExitCode::SUCCESS)
}

fn document(tree: &CoreTree) -> Value {
    let cores = || (0..tree.tree.cores()).map(CoreId::from_index);
    let level = |level: usize| {
        json!({
            "kind": tree.tree.kind(level).name(),
            "cost": f64::from(tree.tree.cost_permille(level)) / 1e3,
            "apart": tree.tree.core_distance(level).name(),
            "groups": cores().map(|core| tree.tree.group(level, core)).collect::<Vec<_>>(),
        })
    };
    let measured = |ways: &Ways| {
        json!({
            "packet_ns": ways.packet_ns,
            "hand_over_ns": ways.hand_over_ns,
            "round_trip_ns": ways.round_trip_ns,
        })
    };
    json!({
        "name": tree.name,
        "source": tree.source,
        "cores": tree.tree.cores(),
        "processors": tree.processors,
        "levels": (1..=tree.tree.depth()).map(level).collect::<Vec<_>>(),
        "matrix": tree.matrix(),
        "measured": tree.ways.as_ref().map(measured),
    })
}

fn heat_map(tree: &CoreTree) -> HeatPlot {
    let values = tree.matrix().into_iter().map(|row| row.into_iter().map(Some).collect()).collect();
    HeatPlot {
        title: format!("What it costs cores to talk: {}", tree.name),
        description: "The cost of the way from the core of the row to that of the column, where staying costs 1."
            .to_owned(),
        label: format!("{}, cost", if tree.processors.is_empty() { "core" } else { "processor" }),
        names: names(tree),
        values,
        format: |value| format!("{value:.2}"),
    }
}

/// The cores by their processors, or by their own numbers.
fn names(tree: &CoreTree) -> Vec<String> {
    let name = |core: usize| tree.processors.get(core).copied().unwrap_or(core).to_string();
    (0..tree.tree.cores()).map(name).collect()
}

fn text(tree: &CoreTree) -> String {
    let cores = counted(tree.tree.cores() as u64, "core");
    let mut text = format!("{}: {cores}; {}\n\n", tree.name, tree.source);
    let all: Vec<usize> = (0..tree.tree.cores()).collect();
    branches(tree, &all, 1, &mut text);
    text.push_str(&format!("\n{}\n", levels(tree)));
    text.push_str(&matrix(tree));
    text
}

/// The groups of a level among these cores, and below each those of the next; the last level is one line.
fn branches(tree: &CoreTree, cores: &[usize], level: usize, text: &mut String) {
    let indent = "  ".repeat(level - 1);
    let group = |core: usize| tree.tree.group(level, CoreId::from_index(core));
    if level == tree.tree.depth() {
        text.push_str(&format!("{indent}{}\n", range(tree, cores)));
        return;
    }
    for cores in cores.chunk_by(|&a, &b| group(a) == group(b)) {
        text.push_str(&format!("{indent}{} {}\n", tree.tree.kind(level).name(), group(cores[0])));
        branches(tree, cores, level + 1, text);
    }
}

/// `cores 0-3`, and their processors where they have any.
fn range(tree: &CoreTree, cores: &[usize]) -> String {
    let (first, last) = (cores[0], cores[cores.len() - 1]);
    let core = if first == last { format!("core {first}") } else { format!("cores {first}-{last}") };
    if tree.processors.is_empty() {
        return core;
    }
    let processors: Vec<String> = cores.iter().map(|&core| tree.processors[core].to_string()).collect();
    format!("{core}: processor{} {}", if first == last { "" } else { "s" }, processors.join(", "))
}

fn levels(tree: &CoreTree) -> Sheet {
    let mut table = Sheet::of_figures(&["leaving a", "costs", "packets whose flow does are"]);
    for level in 1..=tree.tree.depth() {
        let cost = f64::from(tree.tree.cost_permille(level)) / 1e3;
        let apart = tree.tree.core_distance(level).name();
        table.add_row([tree.tree.kind(level).name().to_owned(), format!("{cost:.2}"), apart.to_owned()]);
    }
    table
}

fn matrix(tree: &CoreTree) -> String {
    let count = tree.tree.cores();
    if count > CORES_SHOWN {
        return format!("The matrix of {count} cores is in --json, and a heat map in --plot FILE.\n");
    }
    let names = names(tree);
    let headings: Vec<&str> = ["cost"].into_iter().chain(names.iter().map(String::as_str)).collect();
    let mut table = Sheet::of_figures(&headings);
    for (row, costs) in tree.matrix().iter().enumerate() {
        table.add_row([names[row].clone()].into_iter().chain(costs.iter().map(|cost| format!("{cost:.2}"))));
    }
    let from = if tree.tree.has_matrix() { "as measured, or given" } else { "as its levels say" };
    format!("What talking costs, where staying costs 1, {from}:\n{table}\n")
}
