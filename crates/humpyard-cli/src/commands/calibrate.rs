//! `calibrate`: what services cost on this machine.

use core::time::Duration;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use humpyard::lab::calibrate::{
    COLD_LENGTH, CalibrateOptions, Calibration, EVICTED, HANDED_OVER, Matrix, ServiceCalibration, calibrate as measure,
    parse_services,
};
use humpyard::lab::report::ReportFile;
use humpyard::lab::{Costs, calibrated_path};
use humpyard::random::Seed;

use crate::arguments::CalibrateArguments;
use crate::commands::page::command;
use crate::failure::Failure;
use crate::figures::time;
use crate::layout::Sheet;
use crate::output::Output;
use crate::progress::Progress;
use crate::stop;

/// How long `--quick` takes, in seconds.
const QUICK: f64 = 3.0;
/// The longest that `--seconds` takes: an hour.
const SECONDS_MAX: f64 = 3600.0;
/// Matrices of more cores are left to --json and --plot.
const CORES_SHOWN: usize = 24;

/// `humpyard calibrate`.
pub(crate) fn calibrate(arguments: &CalibrateArguments) -> Result<ExitCode, Failure> {
    let options = options(arguments)?;
    let files = cost_files(arguments, &options)?;
    let topology = arguments.matrix_output.as_deref().map(topology_file).transpose()?;
    let directory = arguments.plot.as_deref().map(PlotDirectory::create).transpose()?;
    let stop = stop::on_signal()?;
    let progress = Progress::new("", arguments.common.quiet);
    let mut now = String::new();
    let calibration = measure(&options, &stop, &mut |done, all, what| {
        if what != now {
            progress.relabel(what);
            what.clone_into(&mut now);
        }
        progress.count(done as u64, "steps", Some(done as f64 / all as f64));
    })?;
    drop(progress);
    let costs = calibration.costs();
    if let Some(file) = files.output {
        file.write(&costs.text())?;
    }
    if let Some(Saved { file, before }) = files.saved {
        file.write(&before.into_iter().fold(costs, |costs, before| before.updated(costs)).text())?;
    }
    if let Some(file) = topology
        && let Some(tree) = calibration.topology()?
    {
        file.write(&tree.text())?;
    }
    if let Some(directory) = directory {
        directory.write(&calibration)?;
    }
    Output::of(&arguments.common.output).answer(&calibration, || text(&calibration, arguments))?;
    Ok(ExitCode::SUCCESS)
}

fn options(arguments: &CalibrateArguments) -> Result<CalibrateOptions, Failure> {
    let seconds = if arguments.quick { QUICK } else { arguments.seconds };
    if !(seconds > 0.0 && seconds <= SECONDS_MAX) {
        return Err(Failure::new(format!("--seconds takes a number above 0, up to {SECONDS_MAX}, not {seconds}")));
    }
    let services = parse_services(&arguments.services).map_err(|error| Failure::new(format!("--services: {error}")))?;
    let matrix = arguments.matrix || arguments.matrix_output.is_some();
    let writes = arguments.output.is_some() || arguments.save;
    if services.is_empty() && !matrix && !arguments.machine && !writes {
        return Err(Failure::new(format!(
            "--services {} leaves nothing to measure: name some, or add --matrix or --machine",
            arguments.services
        )));
    }
    Ok(CalibrateOptions {
        services,
        longest: Duration::from_secs_f64(seconds),
        matrix,
        machine: arguments.machine,
        cold_length: COLD_LENGTH,
        seed: Seed(arguments.common.seed),
    })
}

/// The files that costs will be written to.
#[derive(Default)]
struct CostFiles {
    output: Option<ReportFile>,
    saved: Option<Saved>,
}

/// The saved calibration, which keeps the lines of services that are not measured now.
struct Saved {
    file: ReportFile,
    before: Option<Costs>,
}

/// Creates the files that costs will be written to, before the work is done, so that a bad name is known then.
fn cost_files(arguments: &CalibrateArguments, options: &CalibrateOptions) -> Result<CostFiles, Failure> {
    let mut files = CostFiles::default();
    if let Some(path) = &arguments.output {
        if path == "-" {
            return Err(Failure::new("--output takes the name of a file, here.toml for example, not `-`"));
        }
        files.output = Some(ReportFile::create(path)?);
    }
    if arguments.save {
        let before = Costs::saved()?;
        let path = calibrated_path()?;
        if let Some(directory) = path.parent() {
            fs::create_dir_all(directory).map_err(|error| {
                Failure::new(format!("--save: the directory `{}` cannot be made: {error}", directory.display()))
            })?;
        }
        files.saved = Some(Saved { file: ReportFile::create(&path.to_string_lossy())?, before });
    }
    if (files.output.is_some() || files.saved.is_some()) && options.services.is_empty() {
        return Err(Failure::new(
            "--output and --save have nothing to write without services: name some with --services",
        ));
    }
    Ok(files)
}

/// The file that the ways between cores will be written to, made likewise.
fn topology_file(path: &str) -> Result<ReportFile, Failure> {
    if path == "-" {
        return Err(Failure::new("--matrix-output takes the name of a file, cores.toml for example, not `-`"));
    }
    Ok(ReportFile::create(path)?)
}

/// A directory for plots.
struct PlotDirectory {
    path: PathBuf,
    page: ReportFile,
}

/// The name of the page with all plots.
const PAGE: &str = "calibration.html";

impl PlotDirectory {
    fn create(path: &str) -> Result<Self, Failure> {
        fs::create_dir_all(path).map_err(|error| {
            Failure::new(format!("--plot: the directory `{path}` cannot be made: {error}: name another"))
        })?;
        let path = PathBuf::from(path);
        let page = ReportFile::create(&page_name(&path.to_string_lossy()))?;
        Ok(Self { path, page })
    }

    fn write(self, calibration: &Calibration) -> Result<(), Failure> {
        for (file, svg) in calibration.plots() {
            ReportFile::create(&name(&self.path, &file))?.write(&svg.file())?;
        }
        Ok(self.page.write(&calibration.page(&command()))?)
    }
}

/// The page with all plots in this directory.
pub(super) fn page_name(directory: &str) -> String {
    name(Path::new(directory), PAGE)
}

fn name(directory: &Path, file: &str) -> String {
    directory.join(file).to_string_lossy().into_owned()
}

const LEGEND: &str = "\
work                   median time of a packet: a fixed part, and a part for each byte (line by Theil and Sen, 64 to 1500 bytes)
per byte, 95 %         confidence interval of the part for each byte
R2                     part of the variance that the line explains; means little where the length hardly matters
after another service  what a packet takes longer than on a warm core, after a packet of another service (median of all others)
after 512K, 2M, 16M    the same after this amount of memory was touched
out / in               bytes that go out for each that comes in";

fn text(calibration: &Calibration, arguments: &CalibrateArguments) -> String {
    let mut text = String::new();
    if !calibration.services.is_empty() {
        text.push_str(&format!("{}\n{LEGEND}\n", services(calibration)));
        text.push_str(&dropped(calibration));
    }
    if let Some(switch) = calibration.switch_upper_ns {
        text.push_str(&format!(
            "\nGoing over to another service takes a core at most about {} (everything cold, 90 % of packets, worst service):\n\
             `--switch-cost {:.0}ns`, which `--costs` with this takes by itself.\n",
            time(switch),
            switch.ceil().max(0.0)
        ));
        text.push_str(&format!("\nBeside it the papers' table, as in `--costs table:predictive`:\n{}\n", papers()));
    }
    if let Some(matrix) = &calibration.matrix {
        text.push_str(&cores(matrix));
    }
    if let Some(machine) = &calibration.machine {
        text.push_str(&format!("\nHanding a packet over takes {} beside its work.\n", time(machine.hand_over_ns)));
        for taken in &machine.taken {
            let (part, at_once) = (100.0 * taken.part, time(taken.at_once.as_nanos() as f64));
            text.push_str(&format!("The machine takes no more than {part} % of any time and {at_once} at once\n"));
        }
    }
    let costs = arguments.output.as_deref().or(arguments.save.then_some("calibrated"));
    if let Some(costs) = costs {
        text.push_str(&format!(
            "\nNext: humpyard sim --input YOUR.pcap --policy hrw --cores 8 --load 0.9 --costs {costs}\n"
        ));
    }
    if let Some(path) = &arguments.matrix_output {
        text.push_str(&format!(
            "\nNext: humpyard topology {path}, or humpyard run --input YOUR.pcap --policy h-cahrw --topology {path}\n"
        ));
    }
    if let Some(path) = &arguments.plot {
        text.push_str(&format!("\nThe same with plots, for a browser: {}\n", page_name(path)));
    }
    text
}

fn services(calibration: &Calibration) -> Sheet {
    let evicted = EVICTED.map(|bytes| match bytes >> 20 {
        0 => format!("after {}K", bytes >> 10),
        mega => format!("after {mega}M"),
    });
    let headings = ["service", "work", "per byte, 95 %", "R2", "after another\nservice"].map(str::to_owned);
    let headings: Vec<String> = headings.into_iter().chain(evicted).chain(["out / in".to_owned()]).collect();
    let mut table = Sheet::of_figures(&headings.iter().map(String::as_str).collect::<Vec<_>>());
    for service in &calibration.services {
        let fit = &service.fit;
        let mut row = vec![
            service.specification.clone(),
            format!("{} + {:.3} ns/B", time(fit.fixed_ns), fit.per_byte_ns),
            format!("{:.3} to {:.3}", fit.per_byte_low_ns, fit.per_byte_high_ns),
            format!("{:.3}", fit.r_squared),
            time(service.cold_ns),
        ];
        row.extend(service.evicted.iter().map(|evicted| time(evicted.penalty_ns)));
        row.push(format!("{:.3}", service.expansion));
        table.add_row(row);
    }
    table
}

/// A word on services that did not let every packet go on.
fn dropped(calibration: &Calibration) -> String {
    let some = |service: &&ServiceCalibration| service.forwarded_fraction < 1.0;
    let line = |service: &ServiceCalibration| {
        format!(
            "\nwarning: `{}` let {:.1} % of the packets go on; its figures are of all\n",
            service.specification,
            100.0 * service.forwarded_fraction
        )
    };
    calibration.services.iter().filter(some).map(line).collect()
}

fn papers() -> Sheet {
    let mut table = Sheet::of_figures(&["service", "fixed", "per byte", "cold"]);
    for (service, line) in Costs::table("predictive").iter().flat_map(|table| &table.lines) {
        table.add_row([service.clone(), time(line.fixed_ns), time(line.per_byte_ns), time(line.cold_ns)]);
    }
    table
}

fn cores(matrix: &Matrix) -> String {
    if matrix.processors.len() < 2 {
        return "\nOnly one core is allowed here, so there are no ways between cores to measure.\n".to_owned();
    }
    let round_trips = ways(
        &matrix.processors,
        &matrix.round_trip_ns,
        "Round trip of a cache line from processor to processor and back",
    );
    let longer = format!("What {HANDED_OVER} bytes take longer that the other processor has written last");
    round_trips + &ways(&matrix.processors, &matrix.hand_over_ns, &longer)
}

/// A table of times between processors.
fn ways(processors: &[usize], rows: &[Vec<f64>], title: &str) -> String {
    let times = || rows.iter().enumerate().flat_map(|(row, times)| &times[row + 1..]);
    let (least, most) = times().fold((f64::INFINITY, 0.0f64), |(least, most), &time| (least.min(time), most.max(time)));
    let range = format!("from {} to {}", time(least), time(most));
    let count = processors.len();
    if count > CORES_SHOWN {
        return format!("\n{title}, between {count} cores: {range}; see --json and --plot.\n");
    }
    let names: Vec<String> = processors.iter().map(ToString::to_string).collect();
    let headings: Vec<&str> = ["ns"].into_iter().chain(names.iter().map(String::as_str)).collect();
    let mut table = Sheet::of_figures(&headings);
    for (row, times) in rows.iter().enumerate() {
        let cell = |(column, time): (usize, &f64)| if row == column { String::new() } else { format!("{time:.0}") };
        table.add_row([names[row].clone()].into_iter().chain(times.iter().enumerate().map(cell)));
    }
    format!("\n{title}, {range}:\n{table}\n")
}
