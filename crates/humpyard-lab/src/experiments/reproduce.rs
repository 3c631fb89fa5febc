//! Runs experiments: their parts on all cores, their files one experiment after the other. What is done is kept, so that a run
//! that was ended goes on where it was.

use core::num::NonZeroUsize;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use core::time::Duration;
use std::panic::resume_unwind;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;

use humpyard_core::random::Seed;

use super::directory::{Contents, Directory, Reproduced};
use super::kept::{Kept, Part};
use super::page::{self, Shown};
use super::{About, Experiment, Row, Scale, Table, all, scratch};
use crate::LabError;

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
}

/// What came of a run.
#[derive(Clone, Debug)]
pub struct Reproduction {
    /// The experiments of it that are whole.
    pub experiments: Vec<Reproduced>,
    /// Parts done.
    pub done: usize,
    /// Parts there are: more, if the run was ended from outside.
    pub all: usize,
    /// What is missing then.
    pub missing: Vec<Missing>,
    /// Documents in the directory that cannot be read: the pages leave out what they were of.
    pub unreadable: Vec<PathBuf>,
}

/// The parts of an experiment that an interrupted run has not done.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Missing {
    /// The experiment.
    pub experiment: &'static str,
    /// Its parts that are missing, numbered from 0, rising.
    pub parts: Vec<usize>,
    /// Parts that it has.
    pub of: usize,
}

impl Missing {
    /// What is missing, with parts numbered from 1.
    pub fn text(&self) -> String {
        let Self { experiment, parts, of } = self;
        if parts.len() == *of {
            return format!("{experiment} (all of it)");
        }
        let numbered: Vec<usize> = parts.iter().map(|part| part + 1).collect();
        let range = |range: &[usize]| match range {
            [one] => one.to_string(),
            several => format!("{} to {}", several[0], several[several.len() - 1]),
        };
        let ranges: Vec<String> = numbered.chunk_by(|one, next| one + 1 == *next).map(range).collect();
        let word = if parts.len() == 1 { "part" } else { "parts" };
        format!("{experiment} ({word} {} of {of})", ranges.join(", "))
    }
}

/// Runs experiments and writes their data, plots, and pages of all experiments that are in the directory. `progress` hears of
/// parts done, of how many, and of which experiment the last was. Parts that an earlier run of the same experiments, in the same
/// version and with the same seed and scale, had done when it was ended are not run again.
///
/// Once `stop` is set, this returns within a second, whatever the parts do: what is whole is written, and the pages name what
/// is missing. Parts that are running are given up; their threads end when they are done or the process ends.
///
/// # Errors
/// Whatever keeps an experiment from being run, a directory that cannot be written, and files in it that are not ours.
pub fn reproduce(
    options: &ReproduceOptions,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(usize, usize, &str),
) -> Result<Reproduction, LabError> {
    let ids = options.experiments.iter().map(|experiment| experiment.about().id);
    let directory = Directory::open(&options.directory, ids)?;
    let parts = Arc::new(Parts { options: options.clone(), kept: Kept::open(options)? });
    let mut collected: Vec<Collected> = options.experiments.iter().map(|&run| Collected::new(run, options)).collect();
    let all = collected.iter().map(|experiment| experiment.parts.len()).sum();
    let mut reproduced: Vec<Option<Reproduced>> = vec![None; collected.len()];
    let mut done = 0;
    for is_timed in [false, true] {
        let works = works(&collected, is_timed);
        let threads = if is_timed { NonZeroUsize::MIN } else { options.threads };
        run_parts(works, threads, &parts, stop, |work, (rows, seconds)| {
            let experiment = &mut collected[work.experiment];
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
    let unreadable = write_pages(options, directory, &missing)?;
    parts.kept.clear(missing.is_empty());
    Ok(Reproduction { experiments: reproduced.into_iter().flatten().collect(), done, all, missing, unreadable })
}

/// Writes the pages of all experiments that the directory has and of what is missing, if there is any of either; the documents
/// that cannot be read.
fn write_pages(
    options: &ReproduceOptions,
    directory: Directory<'_>,
    missing: &[Missing],
) -> Result<Vec<PathBuf>, LabError> {
    let mut about: Vec<About> = all().into_iter().map(Experiment::about).collect();
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
        directory.write_pages(&page::index(&shown, missing).into_string(), &page::summary(&shown, missing))?;
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

/// What threads need to do parts.
struct Parts {
    options: ReproduceOptions,
    kept: Kept,
}

impl Parts {
    fn part(&self, work: Work) -> Result<Part, LabError> {
        self.kept.part(&self.options, self.options.experiments[work.experiment], work.part)
    }
}

/// Parts to do, and the next of them.
struct Queue {
    works: Vec<Work>,
    next: AtomicUsize,
}

impl Queue {
    fn take(&self) -> Option<Work> {
        self.works.get(self.next.fetch_add(1, Ordering::Relaxed)).copied()
    }
}

/// Lets nobody take another part when it is dropped.
struct Closing(Arc<Queue>);

impl Drop for Closing {
    fn drop(&mut self) {
        self.0.next.store(self.0.works.len(), Ordering::Relaxed);
    }
}

/// How often the flag that ends a run is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Runs parts on this many threads, and hands over their rows in this one, in any order. Where `stop` is set, or a part fails, nobody
/// waits for the parts that are running.
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
    // All are done, or have panicked.
    crew.into_iter().try_for_each(thread::JoinHandle::join).unwrap_or_else(|panic| resume_unwind(panic));
    Ok(())
}

/// The rows of an experiment, as they come.
struct Collected {
    run: &'static dyn Experiment,
    about: About,
    parts: Vec<Option<Vec<Row>>>,
    seconds: f64,
    is_written: bool,
}

impl Collected {
    fn new(run: &'static dyn Experiment, options: &ReproduceOptions) -> Self {
        Self { run, about: run.about(), parts: vec![None; run.parts(options.scale)], seconds: 0.0, is_written: false }
    }

    fn is_whole(&self) -> bool {
        self.parts.iter().all(Option::is_some)
    }

    /// What has not been done of it, if it is not written.
    fn missing(&self) -> Option<Missing> {
        let parts = self.parts.iter().enumerate().filter(|(_, rows)| rows.is_none());
        let parts: Vec<usize> = parts.map(|(part, _)| part).collect();
        let missing = Missing { experiment: self.about.id, parts, of: self.parts.len() };
        (!self.is_written && !missing.parts.is_empty()).then_some(missing)
    }

    /// Judges the data, and writes them with their plots.
    fn finish(&mut self, options: &ReproduceOptions, directory: Directory<'_>) -> Result<Reproduced, LabError> {
        let mut data = Table::new(self.run.columns());
        self.parts.iter_mut().filter_map(Option::take).flatten().for_each(|row| data.push(row));
        let mut parquet = Vec::new();
        data.write_parquet(&mut parquet)
            .map_err(|error| LabError::option(format!("{}: its data cannot be Parquet: {error}", self.about.id)))?;
        let mut files: Vec<Contents> =
            vec![("data.csv".to_owned(), data.csv().into_bytes()), ("data.parquet".to_owned(), parquet)];
        let plots = self.run.plots(&data).into_iter();
        files.extend(plots.map(|(name, svg)| (format!("{name}.svg"), svg.file().into_bytes())));
        let mut reproduced = Reproduced {
            experiment: self.about.id.to_owned(),
            paper: self.about.paper.to_owned(),
            figure: self.about.figure.to_owned(),
            title: self.about.title.to_owned(),
            description: self.about.whole_description(),
            scale: options.scale,
            seed: options.seed.0,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            verdicts: self.run.verdicts(&data),
            files: Vec::new(),
            measured_seconds: self.seconds,
        };
        directory.write(&mut reproduced, files)?;
        self.is_written = true;
        Ok(reproduced)
    }
}

#[cfg(test)]
mod tests {
    use core::sync::atomic::AtomicU32;
    use std::fs;
    use std::path::Path;

    use super::super::{Column, Verdict, find};
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
            About {
                id: "squares",
                paper: "none",
                figure: "none",
                title: "squares",
                setting: "",
                description: "of whole numbers",
            }
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
        let stopped = reproduce(&options, &AtomicBool::new(true), &mut |_, _, _| ()).unwrap();
        assert_eq!((stopped.done, stopped.all, stopped.experiments.len()), (0, 5, 0));
        assert_eq!(stopped.missing, [Missing { experiment: "squares", parts: vec![0, 1, 2, 3, 4], of: 5 }]);
        for page in ["index.html", "REPRODUCTION.md"] {
            let page = fs::read_to_string(directory.path().join(page)).unwrap();
            assert!(page.contains("was interrupted. Missing: squares (all of it)."), "{page}");
        }
        SQUARES.fails.store(false, Ordering::Relaxed);
        // A part that was kept is damaged, so that it still reads: it is run again, as is the one that failed.
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

    /// One row for each part; the last part sleeps for ever. Its version is what the test says.
    struct Sleeper {
        runs: AtomicU32,
        version: AtomicU32,
    }

    static SLEEPER: Sleeper = Sleeper { runs: AtomicU32::new(0), version: AtomicU32::new(1) };

    impl Experiment for Sleeper {
        fn about(&self) -> About {
            About { id: "sleeper", title: "sleeper", ..SQUARES.about() }
        }
        fn version(&self) -> u32 {
            self.version.load(Ordering::Relaxed)
        }
        fn columns(&self) -> &'static [Column] {
            const { &[Column::integer("number")] }
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
        fn verdicts(&self, _: &Table) -> Vec<Verdict> {
            Vec::new()
        }
        fn plots(&self, _: &Table) -> Vec<(String, Svg)> {
            Vec::new()
        }
    }

    /// A part that never ends keeps no run from ending, and a part that was done is kept by its version.
    #[test]
    fn a_run_ends_whatever_its_parts_do() {
        let directory = tempfile::tempdir().unwrap();
        let options = options(vec![&SLEEPER], directory.path(), 1);
        let until_two_are_done = || {
            let stop = AtomicBool::new(false);
            reproduce(&options, &stop, &mut |done, _, _| stop.store(done == 2, Ordering::Relaxed)).unwrap()
        };
        let stopped = until_two_are_done();
        assert_eq!((stopped.done, stopped.all), (2, 3));
        assert_eq!(stopped.missing[0].text(), "sleeper (part 3 of 3)");
        assert_eq!(kept_files(directory.path()).len(), 2, "the directory of the part that was given up is gone");
        let summary = fs::read_to_string(directory.path().join("REPRODUCTION.md")).unwrap();
        assert!(summary.contains("interrupted. Missing: sleeper (part 3 of 3)."), "{summary}");
        let runs = || SLEEPER.runs.swap(0, Ordering::Relaxed);
        let first = runs();
        until_two_are_done();
        assert!((2..=3).contains(&first) && runs() <= 1, "only the last is begun again");
        SLEEPER.version.store(2, Ordering::Relaxed);
        until_two_are_done();
        assert!(runs() >= 2, "another version is run anew");
    }

    #[test]
    fn what_is_missing_is_told_in_ranges() {
        let text = |parts: &[usize], of| Missing { experiment: "x", parts: parts.to_vec(), of }.text();
        assert_eq!(text(&[0, 1], 2), "x (all of it)");
        assert_eq!(text(&[4], 5), "x (part 5 of 5)");
        assert_eq!(text(&[0, 2, 3, 4, 8], 10), "x (parts 1, 3 to 5, 9 of 10)");
    }

    fn kept_files(directory: &Path) -> Vec<PathBuf> {
        let of_run = fs::read_dir(directory.join(".parts")).unwrap().next().unwrap().unwrap().path();
        let mut files: Vec<PathBuf> = fs::read_dir(of_run).unwrap().map(|entry| entry.unwrap().path()).collect();
        files.sort();
        files
    }

    fn done(names: &str, scale: Scale, seed: u64, directory: &Path) -> Result<Reproduction, LabError> {
        let mut options = options(find(&[names.to_owned()]).unwrap(), directory, 1);
        (options.scale, options.seed) = (scale, Seed(seed));
        reproduce(&options, &AtomicBool::new(false), &mut |_, _, _| ())
    }

    #[test]
    fn pages_show_all_that_was_done_in_the_directory() {
        let directory = tempfile::tempdir().unwrap();
        let read = |file: &str| fs::read_to_string(directory.path().join(file)).unwrap();
        done("gr3-fig3", Scale::Full, 7, directory.path()).unwrap();
        // As it was written before versions were kept.
        let document = read("gr3-fig3/verdicts.json");
        let line = document.lines().find(|line| line.contains("\"version\"")).unwrap();
        let document = document.replace(&format!("{line}\n"), "").replace("measured_seconds", "measured_core_seconds");
        fs::write(directory.path().join("gr3-fig3/verdicts.json"), document).unwrap();
        let made = done("gr3-fig2", Scale::Quick, 1, directory.path()).unwrap();
        assert_eq!(made.experiments.len(), 1, "{made:?}");
        let text = read("REPRODUCTION.md");
        let (second, third) = (text.find("| gr3-fig2: "), text.find("| gr3-fig3: "));
        assert!(second.is_some() && second < third, "{text}");
        assert!(text.contains("| a part (quick) | 1 | 1 | 0 | 0 | `humpyard reproduce gr3-fig2 --quick` |"), "{text}");
        assert!(
            text.contains("| all (full) | 7 | 2 | 0 | 0 | `humpyard reproduce gr3-fig3 --full --seed 7` |"),
            "{text}"
        );
        assert!(read("index.html").contains("id=\"gr3-fig3\""));
        done("gr3-fig3", Scale::Quick, 2, directory.path()).unwrap();
        let text = read("REPRODUCTION.md");
        assert!(text.contains("gr3-fig2 --quick`") && text.contains("gr3-fig3 --quick --seed 2`"), "{text}");
        assert!(!text.contains("--seed 7"), "it was made anew: {text}");
        fs::write(directory.path().join("gr3-fig3/verdicts.json"), "{").unwrap();
        let made = done("gr3-fig2", Scale::Quick, 1, directory.path()).unwrap();
        assert_eq!(made.unreadable, [directory.path().join("gr3-fig3/verdicts.json")]);
        assert!(!read("REPRODUCTION.md").contains("gr3-fig3"));
    }

    #[test]
    fn what_is_not_ours_is_not_written_over() {
        let directory = tempfile::tempdir().unwrap();
        let at = |file: &str| directory.path().join(file);
        let refused = || done("gr3-fig2", Scale::Quick, 1, directory.path()).unwrap_err().to_string();
        fs::write(at("index.html"), "<title>My page</title>").unwrap();
        assert!(refused().contains("index.html` is no page of `humpyard reproduce`"), "{}", refused());
        assert!(!at("gr3-fig2").exists(), "it is told before anything is run");
        fs::remove_file(at("index.html")).unwrap();
        fs::create_dir(at("gr3-fig2")).unwrap();
        fs::write(at("gr3-fig2/data.csv"), "mine").unwrap();
        assert!(
            refused().contains("gr3-fig2` has files, but no verdicts.json of this experiment that can be read"),
            "{}",
            refused()
        );
        assert_eq!(fs::read_to_string(at("gr3-fig2/data.csv")).unwrap(), "mine");
        fs::remove_file(at("gr3-fig2/data.csv")).unwrap();
        done("gr3-fig2", Scale::Quick, 1, directory.path()).unwrap();
        fs::write(at("REPRODUCTION.md"), "my notes").unwrap();
        assert!(refused().contains("REPRODUCTION.md` is no page"), "{}", refused());
    }

    #[test]
    fn what_experiments_have_in_common_is_told_once() {
        let about = all().into_iter().map(Experiment::about);
        let of_figures = about.filter(|about| about.id.starts_with("gr3-fig")).map(|about| Shown {
            document: Reproduced {
                experiment: about.id.to_owned(),
                paper: String::new(),
                figure: String::new(),
                title: String::new(),
                description: String::new(),
                scale: Scale::Quick,
                seed: 1,
                version: String::new(),
                verdicts: Vec::new(),
                files: Vec::new(),
                measured_seconds: 0.0,
            },
            about,
        });
        let shown: Vec<Shown> = of_figures.collect();
        let (summary, index) = (page::summary(&shown, &[]), page::index(&shown, &[]).into_string());
        for about in shown.iter().map(|one| one.about) {
            for text in [&summary, &index] {
                assert_eq!(text.matches(about.paper).count(), 1);
                let setting = maud::html! { (about.setting) }.into_string();
                let said = text.matches(about.setting).count().max(text.matches(&setting).count());
                assert!(about.setting.is_empty() || said == 1, "{}: {said} times", about.id);
            }
        }
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
            let done = done.unwrap().experiments;
            assert!(done.iter().all(Reproduced::holds), "{done:#?}");
            let page = fs::read_to_string(directory.path().join("index.html")).unwrap();
            let page = page.strip_prefix("<!DOCTYPE html>").unwrap();
            roxmltree::Document::parse(page.trim_start()).unwrap();
            ["gr3-fig2/data.csv", "gr3-fig3/data.csv"].map(|file| fs::read(directory.path().join(file)).unwrap())
        };
        assert_eq!(data(1), data(4));
    }
}
