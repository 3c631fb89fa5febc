//! Journals in files: one JSON document a line, the first of which says of which run the others are.

use core::fmt;
use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf, absolute};
use std::sync::{Arc, Mutex, MutexGuard};

use humpyard_core::config::SchedulerConfig;
use humpyard_core::id::FlowId;
use humpyard_core::mechanism::{Journal, Record};
use humpyard_policies::spec::PolicySpec;
use humpyard_runtime::panic::{catch, keep_quiet};
use humpyard_text::TEXT_BYTES_MAX;
use humpyard_traffic::capture::{PartialFile, destination};
use humpyard_traffic::header::FlowKey;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::LabError;
use crate::follow::Follow;
use crate::journal_difference::{JournalDifference, Playing};

/// What a journal begins with: all that a scheduler is made of.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Header {
    humpyard_journal: u32,
    policy: String,
    config: SchedulerConfig,
}

/// The version alone, of a header of any version.
#[derive(Debug, Deserialize)]
struct Version {
    humpyard_journal: u32,
}

/// More clients, flows or packets than any run has.
const HELD_MAX: usize = 1 << 26;

/// The version of the format. Since the third, a line names each flow that begins; since the fourth, the header holds
/// the scheduler's configuration as one value.
const VERSION: u32 = 4;
/// The last version whose header has the fields of the configuration beside the version and the policies.
const VERSION_FLAT: u32 = 3;
/// The oldest version that can be read.
const VERSION_READ: u32 = 2;

/// Which flow an id names from this line on.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct FlowName {
    flow: FlowId,
    is: String,
}

impl FlowName {
    /// How its line begins, and no other.
    const START: &'static str = "{\"flow\":";
}

/// What a journal ends with.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Trailer {
    /// The records before it.
    records: u64,
}

impl Header {
    /// Reads the first line of a journal of any version that can be read.
    fn read(path: &str, line: &str) -> Result<Self, LabError> {
        let none = |error: serde_json::Error| {
            LabError::option(format!(
                "`{path}` is no journal of humpyard: line 1: {error}; name a file that --journal wrote"
            ))
        };
        let Version { humpyard_journal } = serde_json::from_str(line).map_err(none)?;
        if !(VERSION_READ..=VERSION).contains(&humpyard_journal) {
            return Err(LabError::option(format!(
                "`{path}` is a journal of version {humpyard_journal}, and this reads {VERSION_READ} to {VERSION}: \
                 record it again"
            )));
        }
        let header = if humpyard_journal > VERSION_FLAT { serde_json::from_str(line) } else { Self::read_flat(line) };
        let header = header.map_err(none)?;
        let SchedulerConfig { clients, flows, packets, .. } = header.config;
        if clients.max(flows).max(packets) > HELD_MAX {
            return Err(LabError::option(format!(
                "`{path}`, line 1: more than {HELD_MAX} clients, flows or packets: the journal is damaged"
            )));
        }
        Ok(header)
    }

    /// Reads a header up to [`VERSION_FLAT`].
    fn read_flat(line: &str) -> serde_json::Result<Self> {
        let mut fields: Map<String, Value> = serde_json::from_str(line)?;
        let mut take = |name| fields.remove(name).unwrap_or_default();
        let humpyard_journal = serde_json::from_value(take("humpyard_journal"))?;
        let policy = serde_json::from_value(take("policy"))?;
        Ok(Self { humpyard_journal, policy, config: serde_json::from_value(Value::Object(fields))? })
    }
}

/// A journal that is written to a file, under a hidden name until it is complete.
#[derive(Clone, Debug)]
pub(crate) struct JournalFile {
    writing: Arc<Mutex<Writing>>,
    path: String,
}

#[derive(Debug)]
struct Writing {
    /// None once it is complete.
    file: Option<BufWriter<PartialFile>>,
    records: u64,
    /// The first thing that went wrong.
    error: Option<io::Error>,
}

impl JournalFile {
    /// Begins a journal of a run.
    pub(crate) fn create(path: &str, policy: &PolicySpec, config: &SchedulerConfig) -> Result<Self, LabError> {
        let file = PartialFile::create(Path::new(path)).map_err(|error| unwritable(path, &error))?;
        let mut file = BufWriter::with_capacity(1 << 18, file);
        let header = Header { humpyard_journal: VERSION, policy: policy.to_string(), config: config.clone() };
        line(&mut file, &header).map_err(|error| unwritable(path, &error))?;
        let writing = Arc::new(Mutex::new(Writing { file: Some(file), records: 0, error: None }));
        Ok(Self { writing, path: path.to_owned() })
    }

    /// From now on this id names this flow.
    pub(crate) fn on_flow(&self, flow: FlowId, key: &FlowKey) {
        self.lock().line(&FlowName { flow, is: key.to_string() });
    }

    fn lock(&self) -> MutexGuard<'_, Writing> {
        self.writing.lock().expect("no writer panicked")
    }

    /// Completes the file, once the scheduler that writes it is gone or done.
    pub(crate) fn finish(self) -> Result<(), LabError> {
        let (file, _) = self.complete()?;
        file.finish().map_err(|error| unwritable(&self.path, &error))
    }

    /// Writes the last line; returns the file, still under its hidden name, and the number of records.
    fn complete(&self) -> Result<(PartialFile, u64), LabError> {
        let mut writing = self.lock();
        let unwritable = |error: io::Error| unwritable(&self.path, &error);
        if let Some(error) = writing.error.take() {
            return Err(unwritable(error));
        }
        let trailer = Trailer { records: writing.records };
        let mut file = writing.file.take().expect("it is completed once");
        line(&mut file, &trailer).map_err(unwritable)?;
        let file = file.into_inner().map_err(|error| unwritable(error.into_error()))?;
        Ok((file, writing.records))
    }
}

impl Journal for JournalFile {
    fn record(&mut self, record: Record) {
        let mut writing = self.lock();
        writing.line(&record);
        writing.records += 1;
    }
}

impl Writing {
    /// Writes one more line, if the file is not complete and nothing went wrong.
    fn line(&mut self, document: &impl Serialize) {
        if let (Some(file), None) = (&mut self.file, &self.error) {
            self.error = line(file, document).err();
        }
    }
}

/// What a file holds that names the journals of several dispatchers.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Manifest {
    humpyard_journals: u32,
    policy: String,
    /// Dispatchers; 0: workers needed none.
    dispatchers: usize,
    /// How a packet found its journal.
    parted: Parted,
    journals: Vec<ManifestEntry>,
}

/// How packets are parted among journals: both directions of a connection are in one.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Parted {
    /// A hash of the connection chose the dispatcher.
    ByConnection,
    /// The kernel chose the worker, by a table of buckets of connections.
    ByBucket,
}

/// One of several journals.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ManifestEntry {
    /// The name of a file in the directory of the manifest.
    file: String,
    /// The workers whose packets it is about.
    workers: usize,
    /// Records in it.
    records: u64,
}

/// The version of the manifest's format.
const MANIFEST_VERSION: u32 = 1;

impl Manifest {
    /// How a manifest begins, and no journal.
    const START: &'static str = "{\"humpyard_journals\":";

    /// Reads a manifest, whose names lead to files beside it and nowhere else.
    fn read(path: &str, text: &str) -> Result<Self, LabError> {
        let damaged = |what: &dyn fmt::Display| {
            LabError::option(format!("`{path}`: the list of journals is damaged: {what}: record it again"))
        };
        let manifest: Self = serde_json::from_str(text).map_err(|error| damaged(&error))?;
        if manifest.humpyard_journals != MANIFEST_VERSION {
            return Err(LabError::option(format!(
                "`{path}` is a list of journals of version {}, and this reads {MANIFEST_VERSION}: record it again",
                manifest.humpyard_journals
            )));
        }
        let leads_away = |name: &str| Path::new(name).file_name().is_none_or(|last| last != name);
        if let Some(entry) = manifest.journals.iter().find(|entry| leads_away(&entry.file)) {
            return Err(damaged(&format!("`{}` is no name of a file in the same directory", entry.file)));
        }
        if manifest.journals.is_empty() {
            return Err(damaged(&"it names none"));
        }
        Ok(manifest)
    }
}

/// Returns the name of the journal of a dispatcher, from 0, where that of the run is `path`: `run.jsonl.1`
/// beside `run.jsonl`, wherever a link of that name leads.
pub(crate) fn journal_of(path: &str, number: usize) -> String {
    let place = destination(Path::new(path)).unwrap_or_else(|_| PathBuf::from(path));
    format!("{}.{}", place.display(), number + 1)
}

/// Rejects a journal of a dispatcher that would replace another file: one that is there, or one of those that
/// the run writes, `others`.
pub(crate) fn check_journal(path: &str, number: usize, others: &[Option<&String>]) -> Result<(), LabError> {
    let name = journal_of(path, number);
    let place = |path: &str| absolute(path).ok();
    if others.iter().flatten().any(|other| place(other) == place(&name)) {
        return Err(LabError::option(format!(
            "@journal writes `{name}` for dispatcher {number}, and the run writes another file of that name: name another"
        )));
    }
    let replaces = |file: File| {
        let mut start = String::new();
        let read = BufReader::new(file).take(START_BYTES).read_to_string(&mut start);
        read.is_ok() && (start.is_empty() || start.starts_with(START))
    };
    if !File::open(&name).map_or(true, replaces) {
        return Err(LabError::option(format!(
            "@journal would replace `{name}`, which is no journal: name another file, or move that one away"
        )));
    }
    Ok(())
}

/// How a journal begins, and the bytes of that.
const START: &str = "{\"humpyard_journal\":";
const START_BYTES: u64 = START.len() as u64;

/// The journals of several dispatchers, and the file that names them.
#[derive(Debug)]
pub(crate) struct JournalFiles {
    manifest: PartialFile,
    path: String,
    policy: String,
    dispatchers: usize,
    /// Each with the number of workers.
    journals: Vec<(JournalFile, usize)>,
}

impl JournalFiles {
    /// Begins the file that names these journals, each with its workers.
    pub(crate) fn create(
        path: &str,
        policy: &PolicySpec,
        dispatchers: usize,
        journals: Vec<(JournalFile, usize)>,
    ) -> Result<Self, LabError> {
        let manifest = PartialFile::create(Path::new(path)).map_err(|error| unwritable(path, &error))?;
        Ok(Self { manifest, path: path.to_owned(), policy: policy.to_string(), dispatchers, journals })
    }

    /// Completes all files; no file has its name before all are whole.
    pub(crate) fn finish(self) -> Result<(), LabError> {
        let Self { mut manifest, path, policy, dispatchers, journals } = self;
        let mut entries = Vec::with_capacity(journals.len());
        let mut files = Vec::with_capacity(journals.len());
        for (journal, workers) in journals {
            let (file, records) = journal.complete()?;
            let name = Path::new(&journal.path).file_name().unwrap_or_default().to_string_lossy().into_owned();
            entries.push(ManifestEntry { file: name, workers, records });
            files.push((file, journal.path));
        }
        let parted = if dispatchers == 0 { Parted::ByBucket } else { Parted::ByConnection };
        let document = Manifest { humpyard_journals: MANIFEST_VERSION, policy, dispatchers, parted, journals: entries };
        line(&mut manifest, &document).map_err(|error| unwritable(&path, &error))?;
        for (file, path) in files {
            file.finish().map_err(|error| unwritable(&path, &error))?;
        }
        manifest.finish().map_err(|error| unwritable(&path, &error))
    }
}

fn line(file: &mut impl Write, document: &impl Serialize) -> io::Result<()> {
    serde_json::to_writer(&mut *file, document)?;
    file.write_all(b"\n")
}

fn unwritable(path: &str, error: &io::Error) -> LabError {
    LabError::option(format!("cannot write the journal `{path}`: {error}"))
}

/// What came of playing a journal again.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Replayed {
    /// The policies that were asked.
    pub policy: String,
    /// The policies of the journal.
    pub recorded: String,
    /// Records played, the first that was answered otherwise not among them.
    pub records: u64,
    /// Where the answers part, if they do; of several journals the first in time.
    pub divergence: Option<JournalDifference>,
    /// Of each of several journals; empty where there is one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub journals: Vec<ReplayedJournal>,
}

/// What came of one of several journals.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct ReplayedJournal {
    /// The name of the file, as the list of journals has it.
    pub file: String,
    /// As [`Replayed::records`].
    pub records: u64,
    /// Where the answers part, if they do.
    pub divergence: Option<JournalDifference>,
}

/// Plays a journal again, or each of those that a file names, and says where the policies first decide
/// otherwise: those that wrote it, or `policy` of the same families. Calls `progress` now and then with the
/// number of records played, and with their part of the file where that is known.
///
/// # Errors
/// A file that is no journal or is cut, with the line; policies that do not go with it.
pub fn replay(
    path: &str,
    policy: Option<PolicySpec>,
    progress: &mut dyn FnMut(u64, Option<f64>),
) -> Result<Replayed, LabError> {
    let mut lines = Lines::open(path)?;
    let first = lines.next().transpose().map_err(|error| unreadable(path, &error))?.unwrap_or_default();
    if !first.starts_with(Manifest::START) {
        return play_journal(path, &first, lines, policy, progress);
    }
    let manifest = Manifest::read(path, &first)?;
    // Names are those of files beside the manifest itself, wherever a link to it is.
    let place = destination(Path::new(path)).unwrap_or_else(|_| PathBuf::from(path));
    let of_all = manifest.journals.len() as f64;
    let mut all: Option<Replayed> = None;
    for (at, ManifestEntry { file, records, .. }) in manifest.journals.into_iter().enumerate() {
        let path = place.with_file_name(&file).to_string_lossy().into_owned();
        let mut lines = Lines::open(&path)?;
        let first = lines.next().transpose().map_err(|error| unreadable(&path, &error))?.unwrap_or_default();
        let before = all.as_ref().map_or(0, |all| all.records);
        let mut of_whole =
            |played, part: Option<f64>| progress(before + played, part.map(|part| (at as f64 + part) / of_all));
        let replayed = play_journal(&path, &first, lines, policy.clone(), &mut of_whole)?;
        if replayed.divergence.is_none() && replayed.records != records {
            return Err(LabError::option(format!(
                "`{path}` has {} records, and the list of journals says {records}: it is of another run",
                replayed.records
            )));
        }
        let one = ReplayedJournal { file, records: replayed.records, divergence: replayed.divergence.clone() };
        match &mut all {
            None => all = Some(Replayed { journals: vec![one], ..replayed }),
            Some(all) => {
                all.records += replayed.records;
                let partings = [all.divergence.take(), replayed.divergence];
                all.divergence = partings.into_iter().flatten().min_by_key(|parting| parting.time_ns);
                all.journals.push(one);
            }
        }
    }
    Ok(all.expect("a manifest names a journal"))
}

/// Returns the error of a journal that cannot be read.
fn unreadable(path: &str, error: &io::Error) -> LabError {
    let reason = match error.kind() {
        io::ErrorKind::NotFound => "there is no such file; `run` and `sim` write one with --journal".to_owned(),
        io::ErrorKind::IsADirectory => "it is a directory; name a file in it".to_owned(),
        io::ErrorKind::InvalidData => "it is no text; name a file that --journal wrote".to_owned(),
        _ => error.to_string(),
    };
    LabError::option(format!("cannot read the journal `{path}`: {reason}"))
}

/// Plays one journal, whose first line has been read.
fn play_journal(
    path: &str,
    first: &str,
    lines: Lines<BufReader<File>>,
    policy: Option<PolicySpec>,
    progress: &mut dyn FnMut(u64, Option<f64>),
) -> Result<Replayed, LabError> {
    let header = Header::read(path, first)?;
    keep_quiet();
    let recorded: PolicySpec = header.policy.parse()?;
    let policy = policy.unwrap_or_else(|| recorded.clone());
    let config = SchedulerConfig { rendezvous: humpyard_simd::rendezvous(), ..header.config };
    let mut playing = Playing::new(&config, &recorded, &policy)?;
    read_lines(path, lines, progress, |at, line| match line {
        Line::Flow(flow, is) => {
            playing.on_flow(flow, is);
            Ok(true)
        }
        Line::Record(record) => {
            let played = catch(|| playing.play(at, &record));
            played.map_err(|panic| damaged(path, at, &format!("what it says cannot have been: {panic}")))?
        }
    })?;
    Ok(Replayed {
        policy: policy.to_string(),
        recorded: recorded.to_string(),
        records: playing.records,
        divergence: playing.divergence,
        journals: Vec::new(),
    })
}

/// Reads a journal for a follower, which hears of all that it says.
///
/// # Errors
/// A file that is no journal or is cut, with the line, and one that names several journals.
pub(crate) fn follow(
    path: &str,
    follower: &mut dyn Follow,
    progress: &mut dyn FnMut(u64, Option<f64>),
) -> Result<(), LabError> {
    let mut lines = Lines::open(path)?;
    let first = lines.next().transpose().map_err(|error| unreadable(path, &error))?.unwrap_or_default();
    if first.starts_with(Manifest::START) {
        let manifest = Manifest::read(path, &first)?;
        let names: Vec<String> = manifest.journals.into_iter().map(|entry| format!("`{}`", entry.file)).collect();
        return Err(LabError::option(format!(
            "`{path}` lists the journals of several dispatchers: name one of them, {}",
            names.join(", ")
        )));
    }
    let header = Header::read(path, &first)?;
    keep_quiet();
    let policy: PolicySpec = header.policy.parse()?;
    follower.on_begin(&policy, &header.config);
    read_lines(path, lines, progress, |at, line| {
        let followed = catch(|| match line {
            Line::Flow(flow, is) => follower.on_flow(flow, is),
            Line::Record(record) => follower.on_record(&record),
        });
        followed.map_err(|panic| damaged(path, at, &format!("what it says cannot have been: {panic}")))?;
        Ok(true)
    })
}

/// A line of a journal between its first and its last.
enum Line {
    Flow(FlowId, String),
    Record(Box<Record>),
}

/// Returns the error of a line that cannot be.
fn damaged(path: &str, at: u64, what: &dyn fmt::Display) -> LabError {
    LabError::option(format!("`{path}`, line {at}: {what}: the journal is cut or damaged"))
}

/// Reads the lines behind the first of a journal, which must be whole, each with its number. Ends early where `each`
/// returns false.
fn read_lines(
    path: &str,
    lines: Lines<BufReader<File>>,
    progress: &mut dyn FnMut(u64, Option<f64>),
    mut each: impl FnMut(u64, Line) -> Result<bool, LabError>,
) -> Result<(), LabError> {
    let length = lines.length;
    let (mut read, mut records, mut whole) = (0, 0, false);
    for (at, line) in (2..).zip(lines) {
        let line = line.map_err(|error| unreadable(path, &error))?;
        read += line.len() as u64 + 1;
        if u64::is_multiple_of(records, PROGRESS_EVERY) {
            progress(records, length.map(|length| read as f64 / length as f64));
        }
        if let Ok(Trailer { records: written }) = serde_json::from_str(&line) {
            if whole || written != records {
                let said = format!("{written} records were written, and {records} are here");
                return Err(damaged(path, at, &said));
            }
            whole = true;
            continue;
        }
        if line.starts_with(FlowName::START) {
            let FlowName { flow, is } = serde_json::from_str(&line).map_err(|error| damaged(path, at, &error))?;
            each(at, Line::Flow(flow, is))?;
            continue;
        }
        let record: Record = serde_json::from_str(&line).map_err(|error| damaged(path, at, &error))?;
        if !each(at, Line::Record(Box::new(record)))? {
            return Ok(());
        }
        records += 1;
    }
    if whole {
        return Ok(());
    }
    Err(LabError::option(format!("`{path}`: it ends after {records} records, before its end: the journal is cut")))
}

/// The lines of a text, none of them longer than [`TEXT_BYTES_MAX`].
struct Lines<R> {
    text: R,
    /// Bytes of the file. `None`: it is a pipe, and has no length.
    length: Option<u64>,
}

impl Lines<BufReader<File>> {
    fn open(path: &str) -> Result<Self, LabError> {
        let file = File::open(path).map_err(|error| unreadable(path, &error))?;
        let length = file.metadata().ok().map(|metadata| metadata.len()).filter(|&length| length > 0);
        Ok(Self { text: BufReader::with_capacity(1 << 18, file), length })
    }
}

impl<R: BufRead> Iterator for Lines<R> {
    type Item = io::Result<String>;

    fn next(&mut self) -> Option<io::Result<String>> {
        let mut line = Vec::new();
        match self.text.by_ref().take(TEXT_BYTES_MAX + 1).read_until(b'\n', &mut line) {
            Err(error) => return Some(Err(error)),
            Ok(0) => return None,
            Ok(_) if line.len() as u64 > TEXT_BYTES_MAX => {
                let said = format!("a line is longer than {} MiB, the most that is read", TEXT_BYTES_MAX >> 20);
                return Some(Err(io::Error::new(io::ErrorKind::FileTooLarge, said)));
            }
            Ok(_) => {}
        }
        let end = line.strip_suffix(b"\n").map_or(line.len(), <[u8]>::len);
        line.truncate(end);
        Some(String::from_utf8(line).map_err(|_| io::ErrorKind::InvalidData.into()))
    }
}

/// How often progress is told, in records.
const PROGRESS_EVERY: u64 = 1 << 12;
