//! Files that are read and written: none is written over one that is read, and no two under one name.

use std::path::{Path, PathBuf, absolute};

use humpyard::lab::{AUTO, Costs, ServiceChoice, calibrated_path, topology_names};
use humpyard::name::Named;
use humpyard::traffic::capture::destination;
use humpyard::traffic::source::is_interface;

use crate::arguments::{Command, TimelineOptions, TraceCommand, TrafficOptions};
use crate::commands::calibrate::page_name;
use crate::failure::Failure;

/// Refuses a command that would write over a file that it reads, or two under one name.
pub(crate) fn distinct(command: &Command) -> Result<(), Failure> {
    let Files { read, written } = Files::of(command);
    let mut places: Vec<(&str, PathBuf)> = Vec::new();
    for (option, path) in &written {
        let place = place(path);
        if let Some((input, _)) = read.iter().find(|(_, read)| is_at(read, &place)) {
            return Err(Failure::new(format!(
                "{option} would replace an input, `{path}` ({input}): name another file"
            )));
        }
        if let Some((other, _)) = places.iter().find(|(_, other)| *other == place) {
            return Err(Failure::new(format!(
                "{option} and {other} are both `{path}`: name another file for one of them"
            )));
        }
        places.push((option, place));
    }
    Ok(())
}

/// The files of a command, each with the option that names it.
#[derive(Default)]
struct Files {
    read: Vec<(&'static str, String)>,
    written: Vec<(&'static str, String)>,
}

impl Files {
    fn of(command: &Command) -> Self {
        let mut files = Self::default();
        match command {
            Command::Demo(demo) => files.writes("--report", Some(&demo.report)),
            Command::Run(run) => {
                files.traffic(&run.traffic);
                files.writes("--output", Some(&run.output));
                files.writes("--quarantine", run.quarantine.as_ref());
                files.writes("--journal", run.journal.as_ref());
                files.timeline(&run.timeline);
            }
            Command::Sim(sim) => {
                files.traffic(&sim.traffic);
                files.writes("--journal", sim.journal.as_ref());
                files.timeline(&sim.timeline);
            }
            Command::Compare(compare) => {
                files.traffic(&compare.traffic);
                files.writes("--report", compare.report.as_ref());
            }
            Command::Recommend(recommend) => {
                files.traffic(&recommend.traffic);
                files.costs(recommend.traffic.costs.as_deref().unwrap_or(AUTO));
                files.writes("--report", recommend.report.as_ref());
            }
            Command::Validate(validate) => {
                files.traffic(&validate.traffic);
                files.writes("--report", validate.report.as_ref());
            }
            Command::Calibrate(calibrate) => {
                files.writes("--output", calibrate.output.as_ref());
                files.writes("--save", calibrate.save.then(calibrated).flatten().as_ref());
                files.writes("--matrix-output", calibrate.matrix_output.as_ref());
                files.writes("--plot", calibrate.plot.as_ref());
                files.writes("--plot", calibrate.plot.as_deref().map(page_name).as_ref());
            }
            Command::Topology(topology) => {
                files.topology("SOURCE", &topology.source);
                files.writes("--output", topology.output.as_ref());
                files.writes("--plot", topology.plot.as_ref());
            }
            Command::Trace(trace) => files.trace(&trace.command),
            // These write no file, or nothing but what has its own directory.
            Command::Top(_)
            | Command::Admit(_)
            | Command::Schedule(_)
            | Command::Reproduce(_)
            | Command::Check(_)
            | Command::Replay(_)
            | Command::List(_)
            | Command::Completions(_)
            | Command::Man(_)
            | Command::Explain(_) => {}
        }
        files
    }

    fn trace(&mut self, command: &TraceCommand) {
        match command {
            TraceCommand::Info(_) => {}
            TraceCommand::Compose(compose) => {
                self.source("--arrivals", &compose.arrivals);
                self.source("--payloads", &compose.payloads);
                self.writes("--output", Some(&compose.output));
            }
            TraceCommand::Scale(scale) => {
                self.source("SRC", &scale.input);
                self.writes("DST", Some(&scale.output));
            }
            TraceCommand::Cut(cut) => {
                self.source("SRC", &cut.input);
                self.writes("--output", Some(&cut.output));
            }
            TraceCommand::Merge(merge) => {
                merge.inputs.iter().for_each(|input| self.source("SRC", input));
                self.writes("--output", Some(&merge.output));
            }
        }
    }

    fn traffic(&mut self, options: &TrafficOptions) {
        self.read.extend(options.config.iter().map(|path| ("--config", path.clone())));
        options.input.iter().for_each(|input| self.source("--input", input));
        options.costs.iter().for_each(|costs| self.costs(costs));
        options.topology.iter().for_each(|topology| self.topology("--topology", topology));
        // What is no service is told when services are looked at.
        let services = options.services.iter().flat_map(|text| ServiceChoice::parse_list(text).unwrap_or_default());
        let parameters = services.flat_map(|service| service.work.parameters);
        self.read.extend(parameters.filter(|(key, _)| key == "file").map(|(_, path)| ("--services", path)));
    }

    fn timeline(&mut self, options: &TimelineOptions) {
        self.writes("--timeline", options.timeline.as_ref());
    }

    /// A capture, or those that a profile is made of.
    fn source(&mut self, option: &'static str, text: &str) {
        let Some(profile) = text.strip_prefix("gen:") else {
            self.read.push((option, text.to_owned()));
            return;
        };
        let parameters = profile.parse::<Named>().map(|profile| profile.parameters).unwrap_or_default();
        for (_, inner) in parameters.iter().filter(|(key, _)| SOURCES.contains(&key.as_str())) {
            self.source(option, &inner.replace(';', ","));
        }
    }

    fn costs(&mut self, text: &str) {
        if [CALIBRATED, AUTO].contains(&text) {
            self.read.extend(calibrated().map(|path| ("--costs", path)));
        } else if Costs::table(text.strip_prefix("table:").unwrap_or(text)).is_err() {
            self.read.push(("--costs", text.to_owned()));
        }
    }

    fn topology(&mut self, option: &'static str, text: &str) {
        if topology_names().all(|name| name != text) && Path::new(text).exists() {
            self.read.push((option, text.to_owned()));
        }
    }

    fn writes(&mut self, option: &'static str, path: Option<&String>) {
        self.written.extend(path.filter(|path| is_file(path)).map(|path| (option, path.clone())));
    }
}

/// The parameters of profiles that name sources.
const SOURCES: [&str; 3] = ["arrivals", "payloads", "input"];
/// The costs that were kept for this user.
const CALIBRATED: &str = "calibrated";

fn calibrated() -> Option<String> {
    calibrated_path().ok().map(|path| path.to_string_lossy().into_owned())
}

fn is_file(path: &str) -> bool {
    !matches!(path, "-" | "null:") && !is_interface(path)
}

/// Whether what is read is at this place, by its name or through links.
fn is_at(read: &str, written: &Path) -> bool {
    is_file(read) && (place(read) == written || Path::new(read).canonicalize().is_ok_and(|place| place == written))
}

/// Where a name leads to, through links.
fn place(path: &str) -> PathBuf {
    let path = destination(Path::new(path)).unwrap_or_else(|_| PathBuf::from(path));
    let path = absolute(&path).unwrap_or(path);
    match (path.parent().map(Path::canonicalize), path.file_name()) {
        (Some(Ok(directory)), Some(name)) => directory.join(name),
        _ => path,
    }
}
