//! Files that are read and written: none is written over one that is read or that holds something else, and no two under one name.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf, absolute};

use humpyard::lab::steer::SteerTarget;
use humpyard::lab::{AUTO, CoreTree, Costs, ServiceChoice, calibrated_path, topology_names};
use humpyard::name::Named;
use humpyard::traffic::capture::{CaptureReader, destination};
use humpyard::traffic::source::is_interface;

use crate::arguments::{Command, ConfigOption, TraceCommand};
use crate::commands::calibrate::page_name;
use crate::commands::sweep::{SweepArguments, SweepCommand};
use crate::failure::Failure;
use crate::options::Given;

/// Refuses a command that would write over a file that it reads or that holds something else than what it writes there, or two
/// files under one name.
pub(crate) fn distinct(command: &Command) -> Result<(), Failure> {
    let Files { read, written } = Files::of(command);
    let mut places: Vec<(&str, PathBuf)> = Vec::new();
    for (option, path, contents) in &written {
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
        if *contents == Contents::Plot && names_another_format(path) {
            return Err(Failure::new(format!(
                "{option} writes SVG, and `{path}` names another format: name it `{}`",
                Path::new(path).with_extension("svg").display()
            )));
        }
        if !contents.may_replace(&place) {
            return Err(Failure::new(format!(
                "{option} would replace `{path}`, which is not {}: name another file, or move that one away",
                contents.name()
            )));
        }
        places.push((option, place));
    }
    Ok(())
}

/// What a file holds that a command writes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Contents {
    Capture,
    Costs,
    Topology,
    Page,
    Plot,
    Journal,
    Timeline,
    /// A program for other programs (ELF).
    Object,
    /// What this program keeps in a place of its own.
    Own,
}

impl Contents {
    /// Bytes at the start of a file by which most kinds are known.
    const START_BYTES: u64 = 1024;

    const fn name(self) -> &'static str {
        match self {
            Self::Capture => "a capture",
            Self::Costs => "a file of costs",
            Self::Topology => "a topology",
            Self::Page => "a page (HTML)",
            Self::Plot => "a plot (SVG)",
            Self::Journal => "a journal",
            Self::Timeline => "a timeline",
            Self::Object => "an object file",
            Self::Own => "a file of this program",
        }
    }

    /// Whether there is no file, an empty one, or one with such contents. Opening rejects what is no file.
    fn may_replace(self, place: &Path) -> bool {
        let Ok(metadata) = place.metadata() else { return true };
        !metadata.is_file() || metadata.len() == 0 || self.are_in(place)
    }

    fn are_in(self, place: &Path) -> bool {
        let name = place.to_string_lossy();
        match self {
            Self::Capture => CaptureReader::open(place).is_ok(),
            Self::Costs => Costs::read(&name).is_ok(),
            Self::Topology => CoreTree::read(&name).is_ok(),
            Self::Page => start(place).to_ascii_lowercase().starts_with(b"<!doctype html"),
            Self::Plot => start(place).starts_with(b"<svg"),
            Self::Journal => {
                let start = start(place);
                [&b"{\"humpyard_journal\":"[..], b"{\"humpyard_journals\":"]
                    .iter()
                    .any(|known| start.starts_with(known))
            }
            Self::Timeline => is_timeline(&start(place)),
            Self::Object => start(place).starts_with(b"\x7fELF"),
            Self::Own => true,
        }
    }
}

/// Whether the name of a plot is that of a file of another format than SVG.
fn names_another_format(path: &str) -> bool {
    const FORMATS: &[&str] = &["gif", "html", "jpeg", "jpg", "json", "pdf", "png", "webp"];
    let extension = Path::new(path).extension().map(|extension| extension.to_string_lossy().to_ascii_lowercase());
    extension.is_some_and(|extension| FORMATS.contains(&extension.as_str()))
}

/// How a file begins; nothing of one that cannot be read.
fn start(place: &Path) -> Vec<u8> {
    let mut start = Vec::new();
    let read = File::open(place).and_then(|file| file.take(Contents::START_BYTES).read_to_end(&mut start));
    read.map_or_else(|_| Vec::new(), |_| start)
}

/// Whether a file begins like a trace of Perfetto: two packets, each of a length of one byte.
fn is_timeline(start: &[u8]) -> bool {
    /// Field 1 of a trace, which is a packet.
    const PACKET: u8 = 0x0a;
    matches!(start, [PACKET, length @ ..=0x7f, rest @ ..] if rest.get(usize::from(*length)) == Some(&PACKET))
}

/// The files of a command, each with the option that names it.
#[derive(Default)]
struct Files {
    read: Vec<(&'static str, String)>,
    written: Vec<(&'static str, String, Contents)>,
}

impl Files {
    fn of(command: &Command) -> Self {
        let mut files = Self::default();
        match command {
            Command::Demo(demo) => files.writes("--report", Contents::Page, Some(&demo.report)),
            Command::Run(run) => {
                files.of_run(&run.options, &run.file);
            }
            Command::Sim(sim) => {
                files.of_run(&sim.options, &sim.file);
            }
            Command::Compare(compare) => {
                files.of_run(&compare.options, &compare.file);
                files.writes("--report", Contents::Page, compare.report.as_ref());
            }
            Command::Sweep(SweepArguments { command: Some(SweepCommand::Plot(plot)), .. }) => {
                files.writes("--output", Contents::Plot, Some(&plot.path()));
            }
            Command::Sweep(sweep) => files.read.extend(sweep.file.clone().map(|file| ("FILE.toml", file))),
            Command::Recommend(recommend) => {
                files.of_run(&recommend.options, &recommend.file);
                files.costs(recommend.options.one("costs").map_or(AUTO, String::as_str));
                files.writes("--report", Contents::Page, recommend.report.as_ref());
                files.writes("--plot", Contents::Plot, recommend.plot.as_ref());
            }
            Command::Validate(validate) => {
                files.of_run(&validate.options, &validate.file);
                files.writes("--report", Contents::Page, validate.report.as_ref());
            }
            Command::Why(why) => files.of_run(&why.options, &why.file),
            Command::Calibrate(calibrate) => {
                files.writes("--output", Contents::Costs, calibrate.output.as_ref());
                files.writes("--save", Contents::Own, calibrate.save.then(calibrated).flatten().as_ref());
                files.writes("--matrix-output", Contents::Topology, calibrate.matrix_output.as_ref());
                files.writes("--plot", Contents::Plot, calibrate.plot.as_ref());
                files.writes("--plot", Contents::Page, calibrate.plot.as_deref().map(page_name).as_ref());
            }
            Command::Topology(topology) => {
                files.topology("SOURCE", &topology.source);
                files.writes("--output", Contents::Topology, topology.output.as_ref());
                files.writes("--plot", Contents::Plot, topology.plot.as_ref());
            }
            Command::Steer(steer) => {
                files.read.extend(steer.from.clone().map(|file| ("--from", file)));
                files.writes("--report", Contents::Page, steer.report.as_ref());
                if let Some(SteerTarget::Fanout(object)) = &steer.apply {
                    files.writes("--apply fanout:", Contents::Object, Some(&object.display().to_string()));
                }
            }
            Command::Schedule(schedule) => files.writes("--plot", Contents::Plot, schedule.plot.as_ref()),
            Command::Trace(trace) => files.trace(&trace.command),
            // These write no file, or nothing but what has its own directory.
            Command::Admit(_)
            | Command::Map(_)
            | Command::Reproduce(_)
            | Command::Check(_)
            | Command::Replay(_)
            | Command::List(_)
            | Command::Explain(_) => {}
            #[cfg(feature = "manual")]
            Command::Completions(_) | Command::Man(_) => {}
            #[cfg(feature = "top")]
            Command::Top(_) => {}
        }
        files
    }

    fn trace(&mut self, command: &TraceCommand) {
        match command {
            TraceCommand::Info(_) => {}
            TraceCommand::Compose(compose) => {
                self.source("--arrivals", &compose.arrivals);
                self.source("--payloads", &compose.payloads);
                self.writes("--output", Contents::Capture, Some(&compose.output));
            }
            TraceCommand::Scale(scale) => {
                self.source("SRC", &scale.input);
                self.writes("DST", Contents::Capture, Some(&scale.output));
            }
            TraceCommand::Cut(cut) => {
                self.source("SRC", &cut.input);
                self.writes("--output", Contents::Capture, Some(&cut.output));
            }
            TraceCommand::Merge(merge) => {
                merge.inputs.iter().for_each(|input| self.source("SRC", input));
                self.writes("--output", Contents::Capture, Some(&merge.output));
            }
        }
    }

    /// The files that options of a run name.
    fn of_run(&mut self, options: &Given, file: &ConfigOption) {
        self.read.extend(file.config.iter().map(|path| ("--config", path.clone())));
        options.all("input").iter().for_each(|input| self.source("--input", input));
        options.all("costs").iter().for_each(|costs| self.costs(costs));
        options.all("topology").iter().for_each(|topology| self.topology("--topology", topology));
        self.writes("--output", Contents::Capture, options.one("output"));
        self.writes("--quarantine", Contents::Capture, options.one("quarantine"));
        self.writes("--journal", Contents::Journal, options.one("journal"));
        self.writes("--timeline", Contents::Timeline, options.one("timeline"));
        // Names of no service are rejected when services are made.
        let services =
            options.all("services").iter().flat_map(|text| ServiceChoice::parse_list(text).unwrap_or_default());
        let parameters = services.flat_map(|service| service.work.parameters);
        self.read.extend(parameters.filter(|(key, _)| key == "file").map(|(_, path)| ("--services", path)));
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

    fn writes(&mut self, option: &'static str, contents: Contents, path: Option<&String>) {
        self.written.extend(path.filter(|path| is_file(path)).map(|path| (option, path.clone(), contents)));
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
