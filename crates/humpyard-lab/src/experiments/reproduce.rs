//! Runs experiments: their parts on all cores, their files one experiment after the other. What is done is kept, so that a run
//! that was ended goes on where it was.

use core::num::NonZeroUsize;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread;
use std::time::Instant;

use humpyard_core::random::Seed;
use humpyard_traffic::capture::temporary_beside;
use serde::Serialize;

use super::page;
use super::{About, Experiment, Outcome, Row, Scale, Table, Verdict};
use crate::LabError;
use crate::environment::sha256;

/// What is to be run, and where to.
#[derive(Clone)]
pub struct ReproduceOptions {
    /// The experiments.
    pub experiments: Vec<&'static dyn Experiment>,
    /// How much of them.
    pub scale: Scale,
    /// Where all randomness comes from.
    pub seed: Seed,
    /// The directory for data, plots and pages.
    pub directory: PathBuf,
    /// Threads; they change nothing but times.
    pub threads: NonZeroUsize,
    /// What makes it again, for the page.
    pub command: String,
}

/// An experiment that was run.
#[derive(Clone, Debug, Serialize)]
pub struct Reproduced {
    /// Its name.
    pub experiment: &'static str,
    /// The paper.
    pub paper: &'static str,
    /// Which figure, table or passage of it.
    pub figure: &'static str,
    /// What it shows.
    pub title: &'static str,
    /// How it is done.
    pub description: &'static str,
    /// How much of it was run.
    pub scale: Scale,
    /// Where all randomness came from.
    pub seed: u64,
    /// What came of its claims.
    pub verdicts: Vec<Verdict>,
    /// Its files, in the directory.
    pub files: Vec<String>,
    /// How long all its parts took one after the other, in seconds: different in every run.
    pub measured_seconds: f64,
}

impl Reproduced {
    /// Whether no claim failed.
    pub fn holds(&self) -> bool {
        self.verdicts.iter().all(|verdict| verdict.outcome != Outcome::Fail)
    }
}

/// Runs experiments and writes their data, plots and a page. `progress` hears of parts done, of how many, and of which experiment
/// the last was. Parts that an earlier run of the same program, seed and scale had done when it was ended are not run again.
///
/// # Errors
/// Whatever keeps an experiment from being run, a directory that cannot be written, and an end from outside.
pub fn reproduce(
    options: &ReproduceOptions,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(usize, usize, &str),
) -> Result<Vec<Reproduced>, LabError> {
    let directory = &options.directory;
    if directory.as_os_str().is_empty() {
        return Err(LabError::option("--out takes the name of a directory, reproduction for example"));
    }
    fs::create_dir_all(directory).map_err(|error| unwritable(directory, &error))?;
    let kept = Kept::open(options)?;
    let mut collected: Vec<Collected> = options.experiments.iter().map(|&run| Collected::new(run, options)).collect();
    let all = collected.iter().map(|experiment| experiment.parts.len()).sum();
    let mut reproduced: Vec<Option<Reproduced>> = vec![None; collected.len()];
    let mut done = 0;
    for is_timed in [false, true] {
        let works = works(&collected, is_timed);
        let threads = if is_timed { NonZeroUsize::MIN } else { options.threads };
        run_parts(&works, threads, options, &kept, stop, |work, rows, seconds| {
            let experiment = &mut collected[work.experiment];
            experiment.parts[work.part] = Some(rows);
            experiment.seconds += seconds;
            done += 1;
            progress(done, all, experiment.about.id);
            if experiment.is_whole() {
                reproduced[work.experiment] = Some(experiment.finish(options)?);
            }
            Ok(())
        })?;
    }
    let reproduced: Vec<Reproduced> = reproduced.into_iter().flatten().collect();
    if reproduced.len() < options.experiments.len() {
        return Err(LabError::option(format!(
            "ended early, after {done} of {all} parts: the same command goes on from there, in {}",
            directory.display()
        )));
    }
    write(&directory.join("index.html"), page::index(&reproduced, options).into_string().as_bytes())?;
    write(&directory.join("REPRODUCTION.md"), page::summary(&reproduced, options).as_bytes())?;
    kept.clear();
    Ok(reproduced)
}

/// A part of an experiment.
#[derive(Clone, Copy)]
struct Work {
    experiment: usize,
    part: usize,
}

fn works(collected: &[Collected], is_timed: bool) -> Vec<Work> {
    let of_kind = collected.iter().enumerate().filter(|(_, experiment)| experiment.run.is_timed() == is_timed);
    let parts =
        of_kind.flat_map(|(at, experiment)| (0..experiment.parts.len()).map(move |part| Work { experiment: at, part }));
    parts.collect()
}

/// Runs parts on so many threads, and hands over their rows in this one, in any order.
fn run_parts(
    works: &[Work],
    threads: NonZeroUsize,
    options: &ReproduceOptions,
    kept: &Kept,
    stop: &AtomicBool,
    mut collect: impl FnMut(Work, Vec<Row>, f64) -> Result<(), LabError>,
) -> Result<(), LabError> {
    let next = AtomicUsize::new(0);
    let (sender, finished) = mpsc::channel();
    thread::scope(|scope| {
        for _ in 0..threads.get().min(works.len()) {
            let (sender, next) = (sender.clone(), &next);
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    let Some(&work) = works.get(next.fetch_add(1, Ordering::Relaxed)) else { break };
                    let begin = Instant::now();
                    let rows = kept.rows(options, work);
                    if sender.send((work, rows, begin.elapsed().as_secs_f64())).is_err() {
                        break;
                    }
                }
            });
        }
        drop(sender);
        for (work, rows, seconds) in finished {
            let collected = rows.and_then(|rows| collect(work, rows, seconds));
            if collected.is_err() {
                next.store(works.len(), Ordering::Relaxed);
                return collected;
            }
        }
        Ok(())
    })
}

/// The rows of an experiment, as they come.
struct Collected {
    run: &'static dyn Experiment,
    about: About,
    parts: Vec<Option<Vec<Row>>>,
    seconds: f64,
}

impl Collected {
    fn new(run: &'static dyn Experiment, options: &ReproduceOptions) -> Self {
        Self { run, about: run.about(), parts: vec![None; run.parts(options.scale)], seconds: 0.0 }
    }

    fn is_whole(&self) -> bool {
        self.parts.iter().all(Option::is_some)
    }

    /// Judges the data, and writes them with their plots.
    fn finish(&mut self, options: &ReproduceOptions) -> Result<Reproduced, LabError> {
        let mut data = Table::new(self.run.columns());
        self.parts.iter_mut().filter_map(Option::take).flatten().for_each(|row| data.push(row));
        let About { id, paper, figure, title, description } = self.about;
        let directory = options.directory.join(id);
        fs::create_dir_all(&directory).map_err(|error| unwritable(&directory, &error))?;
        write(&directory.join("data.csv"), data.csv().as_bytes())?;
        write_parquet(&directory.join("data.parquet"), &data)?;
        let mut files = vec![format!("{id}/data.csv"), format!("{id}/data.parquet")];
        for (name, svg) in self.run.plots(&data) {
            write(&directory.join(format!("{name}.svg")), svg.file().as_bytes())?;
            files.push(format!("{id}/{name}.svg"));
        }
        files.push(format!("{id}/verdicts.json"));
        let reproduced = Reproduced {
            experiment: id,
            paper,
            figure,
            title,
            description,
            scale: options.scale,
            seed: options.seed.0,
            verdicts: self.run.verdicts(&data),
            files,
            measured_seconds: self.seconds,
        };
        let document = serde_json::to_string_pretty(&reproduced).unwrap_or_default();
        write(&directory.join("verdicts.json"), format!("{document}\n").as_bytes())?;
        Ok(reproduced)
    }
}

/// The rows of parts that are done, in a directory of their own, for this program, seed and scale.
struct Kept {
    directory: PathBuf,
    /// The parts of this run.
    done: Vec<PathBuf>,
}

impl Kept {
    fn open(options: &ReproduceOptions) -> Result<Self, LabError> {
        let program = std::env::current_exe().and_then(|path| sha256(&path)).map_err(|error| {
            LabError::option(format!(
                "this program cannot be read, so it cannot be known what was done with it: {error}"
            ))
        })?;
        let name = format!("{}-{:?}-{}", &program[..16], options.scale, options.seed.0);
        let directory = options.directory.join(".parts").join(name);
        fs::create_dir_all(&directory).map_err(|error| unwritable(&directory, &error))?;
        let mut kept = Self { directory, done: Vec::new() };
        for (experiment, run) in options.experiments.iter().enumerate() {
            let parts = 0..run.parts(options.scale);
            kept.done.extend(parts.map(|part| kept.path(options, Work { experiment, part })).collect::<Vec<_>>());
        }
        Ok(kept)
    }

    /// Where the rows of a part are kept.
    fn path(&self, options: &ReproduceOptions, work: Work) -> PathBuf {
        let id = options.experiments[work.experiment].about().id;
        self.directory.join(format!("{id}-{}.csv", work.part))
    }

    /// The rows of a part: those that are kept, or else new ones.
    fn rows(&self, options: &ReproduceOptions, work: Work) -> Result<Vec<Row>, LabError> {
        let experiment = options.experiments[work.experiment];
        let path = self.path(options, work);
        let kept = fs::read_to_string(&path).ok().and_then(|text| Table::from_csv(experiment.columns(), &text));
        if let Some(kept) = kept {
            return Ok(kept.into_rows());
        }
        let rows = experiment.run(work.part, options.scale, options.seed)?;
        let mut table = Table::new(experiment.columns());
        rows.into_iter().for_each(|row| table.push(row));
        write(&path, table.csv().as_bytes())?;
        Ok(table.into_rows())
    }

    /// Everything is done: nothing needs to be kept.
    fn clear(self) {
        // What cannot be removed does no harm: parts of other experiments are not ours, and keep their directory.
        for path in self.done {
            let _ = fs::remove_file(path);
        }
        let _ = fs::remove_dir(&self.directory);
        let _ = self.directory.parent().map(fs::remove_dir);
    }
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), LabError> {
    write_with(path, |file| io::Write::write_all(file, bytes))
}

fn write_parquet(path: &Path, data: &Table) -> Result<(), LabError> {
    write_with(path, |file| data.write_parquet(file).map_err(io::Error::other))
}

/// Writes a file, under a hidden name until it is whole.
fn write_with(path: &Path, contents: impl FnOnce(&mut File) -> io::Result<()>) -> Result<(), LabError> {
    let mut file = temporary_beside(path).map_err(|error| unwritable(path, &error))?;
    contents(file.as_file_mut()).map_err(|error| unwritable(path, &error))?;
    file.persist(path).map_err(|error| unwritable(path, &error.error))?;
    Ok(())
}

fn unwritable(path: &Path, error: &io::Error) -> LabError {
    LabError::option(format!("cannot write `{}`: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use core::sync::atomic::AtomicU32;

    use super::super::{Column, find};
    use super::*;
    use crate::plot::Svg;

    /// Rows of squares, which counts how often it is run, and fails at its last part when told to.
    struct Squares {
        runs: AtomicU32,
        fails: AtomicBool,
    }

    static SQUARES: Squares = Squares { runs: AtomicU32::new(0), fails: AtomicBool::new(true) };

    impl Experiment for Squares {
        fn about(&self) -> About {
            About { id: "squares", paper: "none", figure: "none", title: "squares", description: "of whole numbers" }
        }
        fn columns(&self) -> &'static [Column] {
            const { &[Column::integer("number"), Column::real("square")] }
        }
        fn parts(&self, _: Scale) -> usize {
            5
        }
        fn run(&self, part: usize, _: Scale, _: Seed) -> Result<Vec<Row>, LabError> {
            self.runs.fetch_add(1, Ordering::Relaxed);
            if part == 4 && self.fails.load(Ordering::Relaxed) {
                return Err(LabError::option("the last part fails"));
            }
            Ok(vec![vec![part.into(), ((part * part) as f64).into()]])
        }
        fn verdicts(&self, data: &Table) -> Vec<Verdict> {
            let sum: f64 = data.rows().map(|row| row.number("square")).sum();
            vec![Verdict::within("their sum", (30.0, 30.0), sum)]
        }
        fn plots(&self, _: &Table) -> Vec<(String, Svg)> {
            Vec::new()
        }
    }

    fn options(experiments: Vec<&'static dyn Experiment>, directory: &Path, threads: usize) -> ReproduceOptions {
        ReproduceOptions {
            experiments,
            scale: Scale::Quick,
            seed: Seed(1),
            directory: directory.to_owned(),
            threads: NonZeroUsize::new(threads).unwrap(),
            command: "humpyard reproduce".to_owned(),
        }
    }

    #[test]
    fn what_is_done_is_not_done_again() {
        let directory = tempfile::tempdir().unwrap();
        let options = options(vec![&SQUARES], directory.path(), 1);
        let go = || reproduce(&options, &AtomicBool::new(false), &mut |_, _, _| ());
        assert!(go().unwrap_err().to_string().contains("the last part fails"));
        assert_eq!(SQUARES.runs.load(Ordering::Relaxed), 5);
        assert!(!directory.path().join("squares").exists() && !directory.path().join("index.html").exists());
        let stopped = reproduce(&options, &AtomicBool::new(true), &mut |_, _, _| ()).unwrap_err().to_string();
        assert!(stopped.contains("ended early, after 0 of 5 parts"), "{stopped}");
        SQUARES.fails.store(false, Ordering::Relaxed);
        let done = go().unwrap();
        assert_eq!(SQUARES.runs.load(Ordering::Relaxed), 6, "only the part that failed is run");
        assert!(done[0].holds(), "{done:?}");
        assert_eq!(done[0].files, ["squares/data.csv", "squares/data.parquet", "squares/verdicts.json"]);
        let csv = fs::read_to_string(directory.path().join("squares/data.csv")).unwrap();
        assert_eq!(csv, "number,square\n0,0\n1,1\n2,4\n3,9\n4,16\n");
        assert!(!directory.path().join(".parts").exists());
    }

    #[test]
    fn threads_change_nothing() {
        let experiments = || find(&["gr3-fig[23]".to_owned()]).unwrap();
        let data = |threads| {
            let directory = tempfile::tempdir().unwrap();
            let done = reproduce(
                &options(experiments(), directory.path(), threads),
                &AtomicBool::new(false),
                &mut |_, _, _| (),
            );
            let done = done.unwrap();
            assert!(done.iter().all(Reproduced::holds), "{done:#?}");
            let page = fs::read_to_string(directory.path().join("index.html")).unwrap();
            let page = page.strip_prefix("<!DOCTYPE html>").unwrap();
            roxmltree::Document::parse(page.trim_start()).unwrap();
            ["gr3-fig2/data.csv", "gr3-fig3/data.csv"].map(|file| fs::read(directory.path().join(file)).unwrap())
        };
        assert_eq!(data(1), data(4));
    }
}
