//! `reproduce`: data, plots and verdicts of experiments.

use std::fs;

use serde_json::Value;

use crate::support::{directory, document, files, good, refused, run};

#[test]
fn an_experiment_leaves_data_plots_and_verdicts() {
    let directory = directory();
    let at = directory.path();
    let said = document(at, "reproduce gr3-fig2 --out there");
    assert_eq!((&said["experiment"], &said["scale"], &said["seed"]), (&"gr3-fig2".into(), &"quick".into(), &1.into()));
    let [claim] = said["claims"].as_array().expect("claims").as_slice() else { panic!("{said:#}") };
    assert_eq!((&claim["claim"], &claim["seeds"]), (&"gr3-fig2-schedule".into(), &1.into()));
    assert_eq!((&claim["outcome"], &claim["expected"]), (&"holds".into(), &"holds".into()));
    assert_eq!(claim["found"][0].as_array().expect("slots").len(), 24);
    for file in said["files"].as_array().expect("files") {
        assert!(at.join("there").join(file.as_str().expect("a name")).is_file(), "{file}");
    }
    assert_eq!(files(&at.join("there")), ["REPRODUCTION.md", "gr3-fig2", "gr3.html", "index.html"]);
    let csv = fs::read_to_string(at.join("there/gr3-fig2/data.csv")).expect("data");
    assert!(csv.starts_with("policy,slot,processor,client\ngr3,1,1,2\ngr3,2,1,1\n"), "{csv}");
    let table = fs::read_to_string(at.join("there/REPRODUCTION.md")).expect("a table");
    assert!(table.contains("\n| gr3 | 50 | 1 | 0 | 0 | 2 | 47 |\n"), "{table}");
    let page = fs::read_to_string(at.join("there/gr3.html")).expect("a page");
    assert!(page.contains("client 1 has every second one.") && page.contains("section 2.2, Fig. 2"), "{page}");
    let judged = document(at, "reproduce all --judge --out there");
    assert_eq!(judged["claims"], said["claims"]);
}

#[test]
fn a_directory_that_is_not_there_is_not_judged_and_not_made() {
    let directory = directory();
    refused(directory.path(), "reproduce gr3-fig2 --judge --out none", &["--out: there is no directory `none`"]);
    assert_eq!(files(directory.path()), [""; 0]);
}

#[test]
fn several_are_done_by_a_pattern() {
    let directory = directory();
    let said = document(directory.path(), "reproduce gr3-fig[23] --out a --threads 1");
    let names: Vec<&Value> = said.as_array().expect("two").iter().map(|run| &run["experiment"]).collect();
    assert_eq!(names, ["gr3-fig2", "gr3-fig3"]);
    let text = good(directory.path(), "reproduce gr3-fig3 gr3-fig2 --out b --quiet").out;
    assert!(text.contains("Every outcome that is expected is found.") && text.contains("b/index.html"), "{text}");
    for file in ["gr3-fig2/data.csv", "gr3-fig3/data.parquet", "gr3-fig3/schedule.svg"] {
        let read = |out: &str| fs::read(directory.path().join(out).join(file)).expect("a file");
        assert_eq!(read("a"), read("b"), "{file}");
    }
}

#[test]
fn what_there_is_not_is_refused() {
    let directory = directory();
    fs::write(directory.path().join("file"), "").expect("it is written");
    fs::create_dir(directory.path().join("mine")).expect("it is made");
    fs::write(directory.path().join("mine/index.html"), "<title>mine</title>").expect("it is written");
    for (command, words) in [
        ("reproduce gr3-fg2", &["no experiment `gr3-fg2`; did you mean `gr3-fig2`?"][..]),
        ("reproduce nothing-*", &["no experiment `nothing-*`", "there are: gr3-fig2"]),
        ("reproduce", &["<NAME>"]),
        ("reproduce gr3-fig2 --quick --full", &["--full"]),
        ("reproduce gr3-fig2 --out file/there", &["cannot write `file/there`", "name another directory with --out"]),
        ("reproduce gr3-fig2 --out file", &["cannot write `file`", "name another directory with --out"]),
        ("reproduce gr3-fig2 --out mine", &["`mine/index.html` is no page of `humpyard reproduce`", "--out"]),
    ] {
        let said = run(directory.path(), &command.split_whitespace().collect::<Vec<_>>());
        assert_eq!(said.code, Some(2), "{command}: {said:?}");
        said.assert_one_line(words);
    }
    assert_eq!(files(directory.path()), ["file", "mine"]);
    assert_eq!(files(&directory.path().join("mine")), ["index.html"]);
}
