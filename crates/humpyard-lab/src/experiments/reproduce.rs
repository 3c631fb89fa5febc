//! Runs experiments: their parts on all cores, their files one experiment after the other. What is done is kept, so that a run
//! that was ended goes on where it was.

use core::num::NonZeroUsize;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::path::PathBuf;
use std::sync::mpsc;
use std::thread;

use humpyard_core::random::Seed;

use super::directory::{Contents, Directory, Reproduced};
use super::kept::{Kept, Part};
use super::page::{self, Shown};
use super::{About, Experiment, Row, Scale, Table, all};
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
    /// Documents in the directory that cannot be read: the pages leave out what they were of.
    pub unreadable: Vec<PathBuf>,
}

/// Runs experiments and writes their data, plots, and pages of all experiments that are in the directory. `progress` hears of
/// parts done, of how many, and of which experiment the last was. Parts that an earlier run of the same program, seed and scale
/// had done when it was ended are not run again. Once `stop` is set, no part is begun: what is whole is written.
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
    let kept = Kept::open(options)?;
    let mut collected: Vec<Collected> = options.experiments.iter().map(|&run| Collected::new(run, options)).collect();
    let all = collected.iter().map(|experiment| experiment.parts.len()).sum();
    let mut reproduced: Vec<Option<Reproduced>> = vec![None; collected.len()];
    let mut done = 0;
    for is_timed in [false, true] {
        let works = works(&collected, is_timed);
        let threads = if is_timed { NonZeroUsize::MIN } else { options.threads };
        run_parts(&works, threads, options, &kept, stop, |work, (rows, seconds)| {
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
    let unreadable = write_pages(options, directory)?;
    if done == all {
        kept.clear();
    }
    Ok(Reproduction { experiments: reproduced.into_iter().flatten().collect(), done, all, unreadable })
}

/// Writes the pages of all experiments that the directory has, if it has any; the documents that cannot be read.
fn write_pages(options: &ReproduceOptions, directory: Directory<'_>) -> Result<Vec<PathBuf>, LabError> {
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
    if !shown.is_empty() {
        directory.write_pages(&page::index(&shown).into_string(), &page::summary(&shown))?;
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

/// Runs parts on so many threads, and hands over their rows in this one, in any order.
fn run_parts(
    works: &[Work],
    threads: NonZeroUsize,
    options: &ReproduceOptions,
    kept: &Kept,
    stop: &AtomicBool,
    mut collect: impl FnMut(Work, Part) -> Result<(), LabError>,
) -> Result<(), LabError> {
    let next = AtomicUsize::new(0);
    let (sender, finished) = mpsc::channel();
    thread::scope(|scope| {
        for _ in 0..threads.get().min(works.len()) {
            let (sender, next) = (sender.clone(), &next);
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    let Some(&work) = works.get(next.fetch_add(1, Ordering::Relaxed)) else { break };
                    let part = kept.part(options, options.experiments[work.experiment], work.part);
                    if sender.send((work, part)).is_err() {
                        break;
                    }
                }
            });
        }
        drop(sender);
        for (work, part) in finished {
            let collected = part.and_then(|part| collect(work, part));
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
        let (summary, index) = (page::summary(&shown), page::index(&shown).into_string());
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
