//! Runs experiments: their parts on all cores, and their files one experiment after the other. Finished parts
//! are kept, so that an interrupted run can be resumed.

use core::num::NonZeroUsize;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use core::time::Duration;
use std::panic::resume_unwind;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;

use humpyard_core::name::unknown;

use super::comparison;
use super::directory::{Contents, DATA, Directory, Reproduced};
use super::experiment::{About, Experiment, Scale};
use super::judged::judge;
use super::kept::{self, Kept, Part};
use super::options::{Missing, ReproduceOptions, Reproduction};
use super::page::Shown;
use super::scratch;
use super::table::{Row, Table};
use humpyard_lab::LabError;

/// Returns the experiments of these names among the known ones, each once, in their order. A name may be a
/// pattern with `*` and `?`, or `all`.
///
/// # Errors
/// If a name is unknown, or a pattern matches none.
pub(crate) fn find(
    known: Vec<&'static dyn Experiment>,
    names: &[String],
) -> Result<Vec<&'static dyn Experiment>, LabError> {
    let mut chosen = vec![false; known.len()];
    for name in names {
        let pattern = if name == "all" { "*" } else { name };
        let pattern = glob::Pattern::new(pattern)
            .map_err(|error| LabError::option(format!("`{name}` is no pattern of names: {error}")))?;
        let mut found = false;
        for (experiment, chosen) in known.iter().zip(&mut chosen) {
            let fits = pattern.matches(experiment.about().id);
            found |= fits;
            *chosen |= fits;
        }
        if !found {
            return Err(LabError::option(unknown("experiment", name, known.iter().map(|known| known.about().id))));
        }
    }
    Ok(known.into_iter().zip(chosen).filter_map(|(experiment, chosen)| chosen.then_some(experiment)).collect())
}

/// Runs experiments, and writes their data, plots, and the pages of all known experiments in the directory.
/// `progress` gets the number of finished parts, the number of all parts, and the experiment of the last one.
/// Parts that an interrupted run with the same experiments, version, seed and scale has finished are not run
/// again.
///
/// After `stop` is set, this returns within a second, whatever the parts do. Complete experiments are written,
/// and the pages name the missing parts. Running parts are abandoned; their threads end with the part, or with
/// the process.
///
/// # Errors
/// If an experiment fails (the others still run), if the directory cannot be written, or if it contains foreign
/// files.
pub(crate) fn reproduce(
    known: &[&dyn Experiment],
    options: &ReproduceOptions,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(usize, usize, &str),
) -> Result<Reproduction, LabError> {
    let ids = options.experiments.iter().map(|experiment| experiment.about().id);
    // Judging again does not change the scale.
    let scale = if options.judges_only { Scale::Full } else { options.scale };
    if options.judges_only && !options.directory.is_dir() {
        let out = options.directory.display();
        return Err(LabError::option(format!(
            "--out: there is no directory `{out}`: run the experiments first, without --judge"
        )));
    }
    let directory = Directory::open(&options.directory, scale, ids)?;
    if options.judges_only {
        return judge_again(known, options, directory);
    }
    let kept = Kept::of(options);
    kept.make()?;
    let parts = Arc::new(Parts { options: options.clone(), kept });
    let mut collected: Vec<Collected> = options.experiments.iter().map(|&run| Collected::new(run, options)).collect();
    let all = collected.iter().map(|experiment| experiment.parts.len()).sum();
    let mut reproduced: Vec<Option<Reproduced>> = vec![None; collected.len()];
    let mut done = 0;
    for is_timed in [false, true] {
        let works = works(&collected, is_timed);
        let threads = if is_timed { NonZeroUsize::MIN } else { options.threads };
        run_parts(works, threads, &parts, stop, |work, part| {
            let experiment = &mut collected[work.experiment];
            let (rows, seconds) = match part {
                Ok(part) => part,
                // An error of one experiment does not stop the others.
                Err(error) => {
                    experiment.failed.get_or_insert(error);
                    return Ok(());
                }
            };
            experiment.parts[work.part] = Some(rows);
            experiment.seconds += seconds;
            done += 1;
            progress(done, all, experiment.about.id);
            if experiment.is_whole() {
                reproduced[work.experiment] = Some(experiment.finish(options, directory)?);
            }
            Ok(())
        })?;
    }
    let missing: Vec<Missing> = collected.iter().filter_map(Collected::missing).collect();
    let unreadable = write_pages(known, options, directory, &missing)?;
    parts.kept.clear(missing.is_empty());
    let failed: Vec<String> = collected.iter().filter_map(Collected::failure).collect();
    if !failed.is_empty() {
        return Err(LabError::option(failed.join("; ")));
    }
    Ok(Reproduction { experiments: reproduced.into_iter().flatten().collect(), done, all, missing, unreadable })
}

/// Judges the data of these experiments in the directory again, and writes the pages.
///
/// # Errors
/// If the data are of another version of their experiment, or files cannot be written.
fn judge_again(
    known: &[&dyn Experiment],
    options: &ReproduceOptions,
    directory: Directory<'_>,
) -> Result<Reproduction, LabError> {
    let mut experiments = Vec::new();
    for &run in &options.experiments {
        let id = run.about().id;
        let (Some(before), Some(text)) = (directory.document(id), directory.data(id)) else { continue };
        let Some(by_seed) = Table::by_seed_from_csv(run.columns(), &text) else {
            return Err(LabError::option(format!(
                "{id}: its data have not the columns of this version: run it again, without --judge"
            )));
        };
        let made =
            Made { scale: before.scale, seed: before.seed, version: before.version, seconds: before.measured_seconds };
        experiments.push(write_experiment(run, by_seed, made, directory)?);
    }
    if experiments.is_empty() {
        return Err(LabError::option("the directory has no data of these experiments: run them, without --judge"));
    }
    let unreadable = write_pages(known, options, directory, &[])?;
    Ok(Reproduction { done: experiments.len(), all: experiments.len(), experiments, missing: Vec::new(), unreadable })
}

/// Writes the pages of all experiments in the directory and of missing parts, if there are any. Returns the
/// unreadable documents.
fn write_pages(
    known: &[&dyn Experiment],
    options: &ReproduceOptions,
    directory: Directory<'_>,
    missing: &[Missing],
) -> Result<Vec<PathBuf>, LabError> {
    let mut about: Vec<About> = known.iter().map(|experiment| experiment.about()).collect();
    let of_run = options.experiments.iter().map(|experiment| experiment.about());
    let unlisted: Vec<About> = of_run.filter(|this| !about.contains(this)).collect();
    about.extend(unlisted);
    let (mut shown, mut unreadable) = (Vec::new(), Vec::new());
    for about in about {
        let path = directory.path_of_document(about.id);
        match directory.document(about.id) {
            Some(document) => shown.push(Shown { about, document }),
            None if path.exists() => unreadable.push(path),
            None => {}
        }
    }
    if !shown.is_empty() || !missing.is_empty() {
        directory.write_pages(&shown, missing)?;
    }
    Ok(unreadable)
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

/// The data that threads need to run parts.
struct Parts {
    options: ReproduceOptions,
    kept: Kept,
}

impl Parts {
    fn part(&self, work: Work) -> Result<Part, LabError> {
        self.kept.part(&self.options, self.options.experiments[work.experiment], work.part)
    }
}

/// The parts to run, and the next one.
struct Queue {
    works: Vec<Work>,
    next: AtomicUsize,
}

impl Queue {
    fn take(&self) -> Option<Work> {
        self.works.get(self.next.fetch_add(1, Ordering::Relaxed)).copied()
    }
}

/// Closes the queue of parts when it is dropped.
struct Closing(Arc<Queue>);

impl Drop for Closing {
    fn drop(&mut self) {
        self.0.next.store(self.0.works.len(), Ordering::Relaxed);
    }
}

/// Interval between checks of the stop flag.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Runs parts on this many threads. `collect` gets each result, in this thread, in any order. If `stop` is set
/// or `collect` fails, this does not wait for running parts.
fn run_parts(
    works: Vec<Work>,
    threads: NonZeroUsize,
    parts: &Arc<Parts>,
    stop: &AtomicBool,
    mut collect: impl FnMut(Work, Part) -> Result<(), LabError>,
) -> Result<(), LabError> {
    if stop.load(Ordering::Relaxed) {
        return Ok(());
    }
    let threads = threads.get().min(works.len());
    let queue = Arc::new(Queue { works, next: AtomicUsize::new(0) });
    let _closing = Closing(Arc::clone(&queue));
    let (sender, finished) = mpsc::channel();
    let work = || {
        let (parts, queue, sender) = (Arc::clone(parts), Arc::clone(&queue), sender.clone());
        thread::spawn(move || {
            scratch::make_in(parts.kept.scratch());
            while let Some(work) = queue.take() {
                if sender.send((work, parts.part(work))).is_err() {
                    break;
                }
            }
        })
    };
    let crew: Vec<thread::JoinHandle<()>> = (0..threads).map(|_| work()).collect();
    drop(sender);
    loop {
        match finished.recv_timeout(LOOK_EVERY) {
            Ok((work, part)) => collect(work, part?)?,
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
        if stop.load(Ordering::Relaxed) {
            return finished.try_iter().try_for_each(|(work, part)| collect(work, part?));
        }
    }
    // All threads have ended, or panicked.
    crew.into_iter().try_for_each(thread::JoinHandle::join).unwrap_or_else(|panic| resume_unwind(panic));
    Ok(())
}

/// The rows of an experiment, collected part by part.
struct Collected {
    run: &'static dyn Experiment,
    about: About,
    parts: Vec<Option<Vec<Row>>>,
    seconds: f64,
    is_written: bool,
    /// The first error of its parts.
    failed: Option<String>,
}

impl Collected {
    fn new(run: &'static dyn Experiment, options: &ReproduceOptions) -> Self {
        Self {
            run,
            about: run.about(),
            parts: vec![None; kept::parts(run, options)],
            seconds: 0.0,
            is_written: false,
            failed: None,
        }
    }

    fn is_whole(&self) -> bool {
        self.parts.iter().all(Option::is_some)
    }

    /// Returns its first error as text.
    fn failure(&self) -> Option<String> {
        self.failed.as_ref().map(|error| format!("{}: {error}", self.about.id))
    }

    /// Returns its missing parts. `None`: it was written.
    fn missing(&self) -> Option<Missing> {
        let parts = self.parts.iter().enumerate().filter(|(_, rows)| rows.is_none());
        let parts: Vec<usize> = parts.map(|(part, _)| part).collect();
        let missing = Missing { experiment: self.about.id, parts, of: self.parts.len() };
        (!self.is_written && !missing.parts.is_empty()).then_some(missing)
    }

    /// Judges the data, and writes them with their plots.
    fn finish(&mut self, options: &ReproduceOptions, directory: Directory<'_>) -> Result<Reproduced, LabError> {
        let of_seed = self.run.parts(options.scale);
        let table = |parts: &mut [Option<Vec<Row>>]| {
            Table::of(self.run.columns(), parts.iter_mut().filter_map(Option::take).flatten())
        };
        let by_seed: Vec<Table> = self.parts.chunks_mut(of_seed).map(table).collect();
        let made = Made {
            scale: options.scale,
            seed: options.seed.0,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            // With few digits, the number is the same after reading it back.
            seconds: (1e3 * self.seconds).round() / 1e3,
        };
        let reproduced = write_experiment(self.run, by_seed, made, directory)?;
        self.is_written = true;
        Ok(reproduced)
    }
}

/// How data were made.
struct Made {
    scale: Scale,
    seed: u64,
    version: String,
    seconds: f64,
}

/// Judges the data of each seed, and writes them with their plots.
fn write_experiment(
    run: &dyn Experiment,
    by_seed: Vec<Table>,
    made: Made,
    directory: Directory<'_>,
) -> Result<Reproduced, LabError> {
    let about = run.about();
    // Verdicts come from the data as they are written.
    let by_seed: Vec<Table> = by_seed.into_iter().map(Table::to_nine_digits).collect();
    // Plots and notes show the first seed.
    let first = by_seed[0].clone();
    let claims = match run.seed_column() {
        Some(column) => judge(run, &first.split_by(column), made.scale),
        None => judge(run, &by_seed, made.scale),
    };
    let data = match by_seed.len() {
        1 => first.clone(),
        _ => Table::of_seeds((made.seed..).zip(by_seed)),
    };
    let mut parquet = Vec::new();
    data.write_parquet(&mut parquet)
        .map_err(|error| LabError::option(format!("{}: its data cannot be Parquet: {error}", about.id)))?;
    let mut files: Vec<Contents> =
        vec![(DATA.to_owned(), data.csv().into_bytes()), ("data.parquet".to_owned(), parquet)];
    let comparison = comparison::plot(&claims).map(|svg| ("claims".to_owned(), svg));
    let plots = comparison.into_iter().chain(run.plots(&first));
    files.extend(plots.map(|(name, svg)| (format!("{name}.svg"), svg.file().into_bytes())));
    let mut reproduced = Reproduced {
        experiment: about.id.to_owned(),
        paper: about.paper.to_owned(),
        figure: about.figure.to_owned(),
        title: about.title.to_owned(),
        description: about.whole_description(),
        scale: made.scale,
        seed: made.seed,
        version: made.version,
        claims,
        notes: run.notes(&first),
        files: Vec::new(),
        measured_seconds: made.seconds,
    };
    directory.write(&mut reproduced, files)?;
    Ok(reproduced)
}

#[cfg(test)]
mod tests {
    use core::sync::atomic::AtomicU32;
    use std::fs;
    use std::path::{Path, PathBuf};

    use humpyard_core::random::Seed;

    use super::super::experiment::Plots;
    use super::super::testing::options;
    use super::*;

    /// An experiment with rows of squares. It counts its runs, and its last part fails on demand.
    struct Squares {
        runs: AtomicU32,
        fails: AtomicBool,
    }

    static SQUARES: Squares = Squares { runs: AtomicU32::new(0), fails: AtomicBool::new(true) };

    impl Experiment for Squares {
        fn about(&self) -> About {
            About {
                id: "squares",
                paper: "none",
                figure: "none",
                title: "squares",
                setting: "",
                description: "of whole numbers",
                columns: crate::harness::columns![integer number, real square],
            }
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
        fn plots(&self, _: &Table) -> Plots {
            Vec::new()
        }
    }

    #[test]
    fn what_is_done_is_not_done_again() {
        let directory = tempfile::tempdir().unwrap();
        let options = options(vec![&SQUARES], directory.path(), 1);
        let go = || reproduce(&[], &options, &AtomicBool::new(false), &mut |_, _, _| ());
        assert_eq!(go().unwrap_err().to_string(), "squares: the last part fails");
        assert_eq!(SQUARES.runs.load(Ordering::Relaxed), 5);
        assert!(!directory.path().join("squares").exists());
        let page = fs::read_to_string(directory.path().join("index.html")).unwrap();
        assert!(page.contains("Missing: squares (part 5 of 5)."), "{page}");
        let stopped = reproduce(&[], &options, &AtomicBool::new(true), &mut |_, _, _| ()).unwrap();
        assert_eq!((stopped.done, stopped.all, stopped.experiments.len()), (0, 5, 0));
        assert_eq!(stopped.missing, [Missing { experiment: "squares", parts: vec![0, 1, 2, 3, 4], of: 5 }]);
        for page in ["index.html", "REPRODUCTION.md"] {
            let page = fs::read_to_string(directory.path().join(page)).unwrap();
            let page = page.split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(page.contains("was interrupted. Missing: squares (all of it)."), "{page}");
        }
        SQUARES.fails.store(false, Ordering::Relaxed);
        // One kept part is damaged but readable. It is run again, and so is the part that failed.
        let kept = kept_files(directory.path());
        assert_eq!(kept.len(), 4);
        let text = fs::read_to_string(&kept[3]).unwrap();
        fs::write(&kept[3], text.replace("3,9", "3,8")).unwrap();
        let done = go().unwrap();
        assert_eq!((done.done, done.all), (5, 5));
        assert_eq!(SQUARES.runs.load(Ordering::Relaxed), 7, "only the part that failed and the damaged one are run");
        let done = &done.experiments;
        assert!(done[0].holds(), "{done:?}");
        assert_eq!(done[0].files, ["squares/data.csv", "squares/data.parquet", "squares/verdicts.json"]);
        let csv = fs::read_to_string(directory.path().join("squares/data.csv")).unwrap();
        assert_eq!(csv, "number,square\n0,0\n1,1\n2,4\n3,9\n4,16\n");
        assert!(!directory.path().join(".parts").exists());
        let page = fs::read_to_string(directory.path().join("index.html")).unwrap();
        assert!(!page.contains("interrupted"), "{page}");
    }

    /// An experiment with one row per part, whose last part sleeps forever. The test sets its version.
    struct Sleeper {
        runs: AtomicU32,
        version: AtomicU32,
    }

    static SLEEPER: Sleeper = Sleeper { runs: AtomicU32::new(0), version: AtomicU32::new(1) };

    impl Experiment for Sleeper {
        fn about(&self) -> About {
            About {
                id: "sleeper",
                title: "sleeper",
                columns: crate::harness::columns![integer number],
                ..SQUARES.about()
            }
        }
        fn version(&self) -> u32 {
            self.version.load(Ordering::Relaxed)
        }
        fn parts(&self, _: Scale) -> usize {
            3
        }
        fn run(&self, part: usize, _: Scale, _: Seed) -> Result<Vec<Row>, LabError> {
            self.runs.fetch_add(1, Ordering::Relaxed);
            let _directory = scratch::create().map_err(|error| LabError::option(error.to_string()))?;
            if part == 2 {
                loop {
                    thread::park();
                }
            }
            Ok(vec![vec![part.into()]])
        }
        fn plots(&self, _: &Table) -> Plots {
            Vec::new()
        }
    }

    /// A part that never ends does not block the end of a run, and a finished part is kept by its version.
    #[test]
    fn a_run_ends_whatever_its_parts_do() {
        let directory = tempfile::tempdir().unwrap();
        let options = options(vec![&SLEEPER], directory.path(), 1);
        let until_two_are_done = || {
            let stop = AtomicBool::new(false);
            reproduce(&[], &options, &stop, &mut |done, _, _| stop.store(done == 2, Ordering::Relaxed)).unwrap()
        };
        let stopped = until_two_are_done();
        assert_eq!((stopped.done, stopped.all), (2, 3));
        assert_eq!(stopped.missing[0].text(), "sleeper (part 3 of 3)");
        assert_eq!(kept_files(directory.path()).len(), 2, "the directory of the part that was given up is gone");
        let summary = fs::read_to_string(directory.path().join("REPRODUCTION.md")).unwrap();
        let summary = summary.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(summary.contains("interrupted. Missing: sleeper (part 3 of 3)."), "{summary}");
        let runs = || SLEEPER.runs.swap(0, Ordering::Relaxed);
        let first = runs();
        until_two_are_done();
        assert!((2..=3).contains(&first) && runs() <= 1, "only the last is begun again");
        SLEEPER.version.store(2, Ordering::Relaxed);
        until_two_are_done();
        assert!(runs() >= 2, "another version is run anew");
    }

    fn kept_files(directory: &Path) -> Vec<PathBuf> {
        let of_run = fs::read_dir(directory.join(".parts")).unwrap().next().unwrap().unwrap().path();
        let mut files: Vec<PathBuf> = fs::read_dir(of_run).unwrap().map(|entry| entry.unwrap().path()).collect();
        files.sort();
        files
    }
}
