//! Simulations that are done, in a file that grows: a sweep that is ended does not lose them.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use humpyard_traffic::capture::sync_directory;

use super::dataset::COLUMNS_OF_RUNS;
use super::lasting::Lasting;
use super::plan::{Identity, Plan};
use super::runs::CellRun;
use super::until::Repeat;
use crate::LabError;
use crate::environment::sha256_of;

/// The file, in the directory of the sweep.
pub(super) const FILE: &str = "runs.part";

/// Figures by cell and repetition.
type Runs = BTreeMap<(usize, u32), Vec<f64>>;

/// Simulations that are done.
#[derive(Debug)]
pub(super) struct Kept {
    path: PathBuf,
    /// Whether the directory was made for it.
    is_new: bool,
    file: File,
    lasting: Lasting,
    runs: Runs,
}

impl Kept {
    /// Opens the file of a sweep, or begins it. A last line that was cut is left out.
    ///
    /// # Errors
    /// A file of another sweep, and one that cannot be read or written.
    pub(super) fn open(directory: &Path, identity: &Identity) -> Result<Self, LabError> {
        let path = directory.join(FILE);
        let failed = |error: io::Error| failure(&path, &error);
        let is_new = !directory.exists();
        fs::create_dir_all(directory).map_err(|error| failure(directory, &error))?;
        let mut file =
            OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path).map_err(failed)?;
        file.try_lock().map_err(|_| {
            LabError::option(format!("`{}`: another sweep is writing it: wait for its end, or end it", path.display()))
        })?;
        let (runs, length) = read(&file, identity).map_err(failed)?.ok_or_else(|| {
            LabError::option(format!(
                "`{}` has another sweep, or its files have changed since: name another directory, or remove it",
                directory.display()
            ))
        })?;
        file.set_len(length).map_err(failed)?;
        file.seek(SeekFrom::End(0)).map_err(failed)?;
        if length == 0 {
            write_line(&mut file, &identity.sha256).map_err(failed)?;
        }
        let made = if is_new { directory.parent() } else { None };
        made.into_iter().chain([directory]).try_for_each(sync_directory).map_err(failed)?;
        let lasting = Lasting::of(&file).map_err(failed)?;
        Ok(Self { path, is_new, file, lasting, runs })
    }

    /// Returns how many simulations are done.
    pub(super) fn len(&self) -> usize {
        self.runs.len()
    }

    /// Returns whether this one is.
    pub(super) fn has(&self, cell: usize, repetition: u32) -> bool {
        self.runs.contains_key(&(cell, repetition))
    }

    /// Adds one. A power cut a second later does not lose it.
    ///
    /// # Errors
    /// A file that cannot be written.
    pub(super) fn keep(&mut self, run: CellRun) -> Result<(), LabError> {
        let written = write_line(&mut self.file, &line(&run)).and_then(|()| self.lasting.written());
        written.map_err(|error| failure(&self.path, &error))?;
        self.runs.insert((run.cell, run.repetition), run.figures);
        Ok(())
    }

    /// Waits until all of them are on the disk.
    ///
    /// # Errors
    /// A file that cannot be written.
    pub(super) fn end(&mut self) -> Result<(), LabError> {
        self.lasting.end().map(drop).map_err(|error| failure(&self.path, &error))
    }

    /// Returns the next repetition of a cell that is to be repeated. `None`: its figure is known well enough, or it was
    /// repeated most often.
    pub(super) fn next(&self, plan: &Plan, cell: usize) -> Option<(usize, u32)> {
        let done = self.of_cell(cell);
        (!is_over(plan, &done)).then_some((cell, done.len() as u32))
    }

    /// Returns all simulations, cell by cell.
    pub(super) fn runs(&self, plan: &Plan) -> Vec<CellRun> {
        let of_cell = |cell: usize| {
            let done = self.of_cell(cell).into_iter().zip(0..);
            done.map(move |(figures, repetition)| CellRun { cell, repetition, figures: figures.to_vec() })
        };
        (0..plan.cells()).flat_map(of_cell).collect()
    }

    /// Returns the figures of the repetitions of a cell.
    fn of_cell(&self, cell: usize) -> Vec<&[f64]> {
        self.runs.range((cell, 0)..(cell + 1, 0)).map(|(_, figures)| figures.as_slice()).collect()
    }

    /// Removes the file, and the directory that was made for it, if there is nothing in it.
    pub(super) fn forget_if_empty(self) {
        if self.runs.is_empty() {
            let directory = self.path.parent().filter(|_| self.is_new).map(Path::to_owned);
            self.remove();
            let _ = directory.map(fs::remove_dir);
        }
    }

    /// Removes the file. What cannot be removed does no harm: the dataset is whole.
    pub(super) fn remove(&self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// Returns whether these repetitions of a cell are enough. It is asked after each, so that none is one too many.
fn is_over(plan: &Plan, done: &[&[f64]]) -> bool {
    let count = done.len() as u32;
    match plan.repeat() {
        Repeat::Times(times) => count >= times,
        Repeat::Until(until) => {
            let at = COLUMNS_OF_RUNS.iter().position(|column| *column == until.figure.key);
            let at = at.expect("each figure has a column");
            let values: Vec<f64> = done.iter().map(|figures| figures[at]).collect();
            count >= until.most || count >= until.least && until.is_met(&values)
        }
    }
}

/// Reads the whole lines of a file, and how long they are. `None`: it is of another sweep.
fn read(file: &File, identity: &Identity) -> io::Result<Option<(Runs, u64)>> {
    let (mut runs, mut length) = (Runs::new(), 0);
    let mut reader = BufReader::new(file);
    let mut bytes = Vec::new();
    while reader.read_until(b'\n', &mut bytes)? > 0 && bytes.ends_with(b"\n") {
        let line = String::from_utf8_lossy(&bytes);
        if length == 0 {
            if line.trim_end() != identity.sha256 {
                return Ok(None);
            }
        } else {
            // The sweep simulates a damaged line again.
            if let Some(run) = run_of(line.trim_end()) {
                runs.insert((run.cell, run.repetition), run.figures);
            }
        }
        length += bytes.len() as u64;
        bytes.clear();
    }
    Ok(Some((runs, length)))
}

/// Returns the line of a simulation, whose numbers read back as they were: JSON would round them.
fn line(run: &CellRun) -> String {
    let figures = run.figures.iter().map(f64::to_string);
    let words = [run.cell.to_string(), run.repetition.to_string()].into_iter().chain(figures);
    let text = words.collect::<Vec<_>>().join(" ");
    format!("{text} {}", checksum(&text))
}

/// Returns what tells a line from a damaged one.
fn checksum(text: &str) -> String {
    sha256_of(text.as_bytes())[..8].to_owned()
}

/// Reads such a line. `None`: it is none, or damaged.
fn run_of(line: &str) -> Option<CellRun> {
    let (text, sum) = line.rsplit_once(' ')?;
    if sum != checksum(text) {
        return None;
    }
    let mut words = text.split(' ');
    let (cell, repetition) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
    let figures: Vec<f64> = words.map(|word| word.parse().ok()).collect::<Option<_>>()?;
    (figures.len() == COLUMNS_OF_RUNS.len()).then_some(CellRun { cell, repetition, figures })
}

/// Writes a line at once, so that it is cut only where the system ends in it.
fn write_line(file: &mut File, line: &str) -> io::Result<()> {
    file.write_all(format!("{line}\n").as_bytes())
}

/// The error of a file that cannot be read or written.
pub(super) fn failure(path: &Path, error: &io::Error) -> LabError {
    LabError::option(format!("`{}`: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(text: &str) -> Identity {
        Identity { sha256: text.to_owned(), files: BTreeMap::new() }
    }

    fn run(cell: usize, repetition: u32) -> CellRun {
        let mut figures = vec![0.1 + 0.2; COLUMNS_OF_RUNS.len()];
        figures[0] = cell as f64;
        CellRun { cell, repetition, figures }
    }

    #[test]
    fn what_is_kept_outlives_whoever_kept_it_and_a_cut_line_does_not() {
        let directory = tempfile::tempdir().unwrap();
        let open = || Kept::open(directory.path(), &identity("a")).unwrap();
        let mut kept = open();
        kept.keep(run(3, 0)).unwrap();
        kept.keep(run(4, 1)).unwrap();
        drop(kept);
        let path = directory.path().join(FILE);
        let whole = fs::read_to_string(&path).unwrap();
        fs::write(&path, whole.replacen("3 0 3 0.3", "3 0 3 0.4", 1)).unwrap();
        let damaged = open();
        assert_eq!((damaged.len(), damaged.has(3, 0), damaged.has(4, 1)), (1, false, true));
        drop(damaged);
        fs::write(&path, &whole[..whole.len() - 3]).unwrap();
        let mut again = open();
        assert_eq!((again.len(), again.has(3, 0), again.has(4, 1)), (1, true, false));
        again.keep(run(4, 1)).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), whole);
        drop(again);
        assert_eq!(open().runs[&(4, 1)], run(4, 1).figures);
    }

    #[test]
    fn another_sweep_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        drop(Kept::open(directory.path(), &identity("a")).unwrap());
        let error = Kept::open(directory.path(), &identity("b")).unwrap_err().to_string();
        assert!(error.contains("has another sweep"), "{error}");
        fs::write(directory.path().join(FILE), "something else\n").unwrap();
        assert!(Kept::open(directory.path(), &identity("a")).is_err());
    }

    #[test]
    fn a_cell_is_repeated_until_its_figure_is_known() {
        let plan = Plan::parse(
            "a.toml",
            "[options]\ninput = \"gen:poisson\"\npolicy = \"hrw\"\n[repeat]\nuntil = \"p99 within 10%\"\nmost = 8\n",
        )
        .unwrap();
        let at = COLUMNS_OF_RUNS.iter().position(|column| *column == "delay_p99_ns").unwrap();
        let found = |values: &[f64]| {
            let directory = tempfile::tempdir().unwrap();
            let mut kept = Kept::open(directory.path(), &identity("a")).unwrap();
            for (repetition, &value) in (0..).zip(values) {
                let mut run = run(0, repetition);
                run.figures[at] = value;
                kept.keep(run).unwrap();
            }
            (kept.next(&plan, 0), kept.runs(&plan).len())
        };
        assert_eq!(found(&[100.0; 3]), (Some((0, 3)), 3));
        assert_eq!(found(&[100.0; 6]), (None, 6));
        assert_eq!(found(&[1.0, 9.0, 1.0, 9.0, 1.0, 9.0, 1.0]), (Some((0, 7)), 7));
        assert_eq!(found(&[1.0, 9.0, 1.0, 9.0, 1.0, 9.0, 1.0, 9.0]), (None, 8));
    }
}
