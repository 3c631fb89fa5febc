//! Runs experiments, and checks their files.

use core::sync::atomic::AtomicBool;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use humpyard_core::random::Seed;
use humpyard_lab::LabError;

use crate::harness::testing::{judged_data, options};
use crate::harness::{Shown, claim as claim_of, claims, expected, groups, paper, summary};
use crate::{About, ClaimVerdict, Experiment, Figure, Outcome, Reproduced, Reproduction, Scale, all, find, reproduce};

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
    // The document as written before it had a version.
    let document = read("gr3-fig3/verdicts.json");
    let line = document.lines().find(|line| line.contains("\"version\"")).unwrap();
    let document = document.replace(&format!("{line}\n"), "").replace("measured_seconds", "measured_core_seconds");
    fs::write(directory.path().join("gr3-fig3/verdicts.json"), document).unwrap();
    let made = done("gr3-fig2", Scale::Quick, 1, directory.path()).unwrap();
    assert_eq!(made.experiments.len(), 1, "{made:?}");
    let page = read("gr3.html");
    let (second, third) = (page.find("id=\"gr3-fig2\""), page.find("id=\"gr3-fig3\""));
    assert!(second.is_some() && second < third, "{page}");
    assert!(page.contains("humpyard reproduce gr3-fig2 --quick</code>"), "{page}");
    assert!(page.contains("humpyard reproduce gr3-fig3 --full --seed 7</code>"), "{page}");
    let summary = read("REPRODUCTION.md");
    assert!(summary.contains("| gr3 | 50 | 3 | 0 | 0 | 2 | 45 |\n"), "{summary}");
    assert!(summary.contains("- 1 experiments: a part (quick), seed 1,"), "{summary}");
    assert!(summary.contains("- [gr3](gr3.html): Caprita"), "{summary}");
    let index = read("index.html");
    assert!(index.contains("<a href=\"gr3.html#gr3-fig3\">"), "{index}");
    fs::write(directory.path().join("gr3-fig3/verdicts.json"), "{").unwrap();
    let made = done("gr3-fig2", Scale::Quick, 1, directory.path()).unwrap();
    assert_eq!(made.unreadable, [directory.path().join("gr3-fig3/verdicts.json")]);
    assert!(!read("gr3.html").contains("id=\"gr3-fig3\""));
}

/// A quick run never overwrites a full one.
#[test]
fn a_quick_run_does_not_write_over_a_full_one() {
    let directory = tempfile::tempdir().unwrap();
    done("gr3-fig3", Scale::Full, 1, directory.path()).unwrap();
    let refused = done("gr3-fig3", Scale::Quick, 1, directory.path()).unwrap_err().to_string();
    assert!(refused.contains("has the data of a full run") && refused.contains("--out"), "{refused}");
    assert!(done("gr3-fig3", Scale::Full, 2, directory.path()).is_ok());
}

/// Judging data again gives the outcomes of the run that made them.
#[test]
fn data_are_judged_again_without_a_run() {
    let directory = tempfile::tempdir().unwrap();
    let mut options =
        options(find(&["gr3-fig2".to_owned(), "predictive-fig9".to_owned()]).unwrap(), directory.path(), 1);
    let go = |options: &crate::ReproduceOptions| reproduce(options, &AtomicBool::new(false), &mut |_, _, _| ());
    options.judges_only = true;
    assert!(go(&options).unwrap_err().to_string().contains("the directory has no data"));
    options.judges_only = false;
    go(&options).unwrap();
    let names = ["gr3-fig2/verdicts.json", "gr3-fig2/data.csv", "predictive-fig9/verdicts.json", "gr3.html"];
    let read = || names.map(|name| fs::read_to_string(directory.path().join(name)).unwrap());
    let made = read();
    options.judges_only = true;
    assert_eq!(go(&options).unwrap().experiments.len(), 2);
    assert_eq!(read(), made);
    fs::write(directory.path().join("gr3-fig2/data.csv"), "policy,slot\ngr3,1\n").unwrap();
    assert!(go(&options).unwrap_err().to_string().contains("gr3-fig2: its data have not the columns"));
}

#[test]
fn what_is_not_ours_is_not_written_over() {
    let directory = tempfile::tempdir().unwrap();
    let at = |file: &str| directory.path().join(file);
    let refused = || done("gr3-fig2", Scale::Quick, 1, directory.path()).unwrap_err().to_string();
    fs::write(at("index.html"), "<title>My page</title>").unwrap();
    assert!(refused().contains("index.html` is no page of `humpyard reproduce`"), "{}", refused());
    assert!(!at("gr3-fig2").exists(), "the error comes before anything is run");
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
            claims: Vec::new(),
            notes: Vec::new(),
            files: Vec::new(),
            measured_seconds: 0.0,
        },
        about,
    });
    let shown: Vec<Shown> = of_figures.collect();
    let summary = summary(&shown, &[]);
    assert_eq!(summary.matches(shown[0].about.paper).count(), 1);
    assert!(summary.lines().count() <= 200, "{summary}");
    let [group] = groups(&shown).try_into().ok().unwrap();
    let page = paper(&group).into_string().replace("<code>", "`").replace("</code>", "`");
    for about in shown.iter().map(|one| one.about) {
        let setting = maud::html! { (about.setting) }.into_string();
        let said = page.matches(&setting).count();
        assert!(about.setting.is_empty() || said == 1, "{}: {said} times", about.id);
    }
}

#[test]
fn threads_change_nothing() {
    let experiments = || find(&["gr3-fig[23]".to_owned()]).unwrap();
    let data = |threads| {
        let directory = tempfile::tempdir().unwrap();
        let done =
            reproduce(&options(experiments(), directory.path(), threads), &AtomicBool::new(false), &mut |_, _, _| ());
        let done = done.unwrap().experiments;
        assert!(done.iter().all(Reproduced::holds), "{done:#?}");
        for page in ["index.html", "gr3.html"] {
            let page = fs::read_to_string(directory.path().join(page)).unwrap();
            let page = page.strip_prefix("<!DOCTYPE html>").unwrap();
            roxmltree::Document::parse(page.trim_start()).unwrap();
        }
        ["gr3-fig2/data.csv", "gr3-fig3/data.csv"].map(|file| fs::read(directory.path().join(file)).unwrap())
    };
    assert_eq!(data(1), data(4));
}

fn found(names: &[&str]) -> Vec<&'static str> {
    let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
    find(&names).unwrap().into_iter().map(|experiment| experiment.about().id).collect()
}

#[test]
fn experiments_are_found_by_name_and_pattern() {
    assert_eq!(found(&["gr3-fig3", "gr3-fig2", "gr3-fig2"]), ["gr3-fig2", "gr3-fig3"]);
    assert_eq!(found(&["gr3-fig[23]"]), ["gr3-fig2", "gr3-fig3"]);
    assert_eq!(found(&["all"]).len(), all().len());
    let refused = |name: &str| find(&[name.to_owned()]).err().unwrap().to_string();
    assert!(refused("gr3-fg2").contains("did you mean `gr3-fig2`?"));
    assert!(refused("gr3-fig[").contains("no pattern"));
}

#[test]
fn every_experiment_says_what_it_is() {
    let mut ids = BTreeSet::new();
    for experiment in all() {
        let About { id, paper, figure, title, description, .. } = experiment.about();
        assert!(ids.insert(id), "{id} twice");
        assert!([paper, figure, title, description].iter().all(|text| !text.is_empty()), "{id}");
        assert!(experiment.parts(Scale::Quick) > 0 && experiment.parts(Scale::Quick) <= experiment.parts(Scale::Full));
    }
}

/// Returns whether this program contains an experiment; transcoding is a feature.
fn is_built(experiment: &str) -> bool {
    cfg!(feature = "transcode") || experiment != "ps-hrw-gop-costs"
}

/// Every quick run whose figures are not times has expected outcomes.
#[test]
fn outcomes_of_quick_runs_are_expected() {
    for experiment in all().into_iter().filter(|experiment| !experiment.is_timed()) {
        for Figure { claim, .. } in experiment.figures() {
            assert!(expected(claim, Scale::Quick).is_some(), "{claim}");
        }
    }
}

/// Each testable claim has one figure of merit, in the experiment that it names.
#[test]
fn figures_of_merit_are_those_of_the_claims() {
    let mut figures = BTreeSet::new();
    for experiment in all() {
        let id = experiment.about().id;
        for Figure { claim, .. } in experiment.figures() {
            assert!(figures.insert(*claim), "{claim} twice");
            let claim = claim_of(claim);
            assert!(claim.untestable.is_none() && claim.experiment == id, "{} of {id}", claim.id);
        }
    }
    for claim in claims() {
        let is_tested = claim.untestable.is_none() && is_built(&claim.experiment);
        assert_eq!(is_tested, figures.contains(claim.id.as_str()), "{}", claim.id);
    }
}

/// Returns the directory of published results.
fn published() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../reproduction")
}

/// Published results are from full runs, follow from the data beside them, and equal the expected ones.
#[test]
fn published_outcomes_follow_from_their_data_and_are_expected() {
    let mut count = 0;
    for run in all() {
        let directory = published().join(run.about().id);
        let Ok(document) = fs::read_to_string(directory.join("verdicts.json")) else { continue };
        let document: Reproduced = serde_json::from_str(&document).unwrap();
        let data = fs::read_to_string(directory.join("data.csv")).unwrap();
        let outcomes = |claims: &[ClaimVerdict]| -> Vec<(String, Outcome)> {
            claims.iter().map(|claim| (claim.claim.clone(), claim.outcome)).collect()
        };
        let id = run.about().id;
        let judged = judged_data(run, &data, Scale::Full).unwrap_or_else(|| panic!("{id}: other columns"));
        assert_eq!(document.scale, Scale::Full, "{id}");
        assert_eq!(outcomes(&document.claims), outcomes(&judged), "{id}");
        for claim in judged {
            assert_eq!(claim.expected, Some(claim.outcome), "{}", claim.claim);
        }
        count += 1;
    }
    assert!(count > 10, "{count} experiments are published");
}

#[test]
fn what_is_published_is_small() {
    let size = |directory: &Path| -> u64 {
        let files = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().metadata().unwrap());
        files.filter(fs::Metadata::is_file).map(|file| file.len()).sum()
    };
    let directories = fs::read_dir(published()).unwrap().map(|entry| entry.unwrap().path());
    let of_experiments: u64 = directories.filter(|path| path.is_dir()).map(|path| size(&path)).sum();
    assert!(of_experiments + size(&published()) <= 20_000_000, "{of_experiments}");
    let summary = fs::read_to_string(published().join("REPRODUCTION.md")).unwrap();
    assert!(summary.lines().count() <= 200);
}
