//! `sweep`: datasets that are the same however they came about, and nothing done twice.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::signals::{signal, start};
use crate::support::{directory, document, files, good, make_capture, number, refused, run};

const PLAN: &str = "[options]
input = \"gen:poisson:packets=2000\"
[axes]
policy = [\"hrw\", \"drr\"]
load = { from = 0.5, to = 0.9, steps = 3 }
[repeat]
times = 4
";

fn write(at: &Path, name: &str, text: &str) {
    fs::write(at.join(name), text).expect("it is written");
}

fn dataset(at: &Path, sweep: &str) -> Vec<u8> {
    fs::read(at.join(sweep).join("runs.parquet")).expect("a dataset")
}

#[test]
fn a_sweep_has_every_simulation_once_whatever_the_threads() {
    let directory = directory();
    let at = directory.path();
    write(at, "loads.toml", PLAN);
    let said = document(at, "sweep loads.toml --threads 1");
    assert_eq!((number(&said, "/cells"), number(&said, "/runs"), number(&said, "/simulated")), (6, 24, 24));
    assert_eq!(files(&at.join("loads")), ["manifest.json", "runs.parquet"]);
    let again = document(at, "sweep loads.toml");
    assert_eq!((number(&again, "/runs"), number(&again, "/simulated")), (24, 0));
    document(at, "sweep loads.toml --out other --threads 3");
    let whole = dataset(at, "loads");
    write(at, "loads/runs.parquet", "damaged");
    assert_eq!(number(&document(at, "sweep loads.toml"), "/simulated"), 24);
    assert!(dataset(at, "loads") == whole, "the dataset is made again");
    assert!(dataset(at, "other") == dataset(at, "loads"), "the datasets differ");
    let manifest: serde_json::Value =
        serde_json::from_slice(&fs::read(at.join("loads/manifest.json")).expect("a manifest")).expect("a document");
    assert_eq!((&manifest["seed"], &manifest["repeat"]["times"]), (&1.into(), &4.into()));
    assert_eq!(manifest["axes"][1]["names"], serde_json::json!(["load"]));
    assert_eq!(manifest["axes"][1]["steps"], serde_json::json!([[["0.5"]], [["0.7"]], [["0.9"]]]));
    assert_eq!(manifest["given"]["input"][0], "gen:poisson:packets=2000");
    assert!(manifest["environment"]["version"].is_string(), "{manifest:#}");
    assert!(good(at, "sweep diff loads other").out.starts_with("24 simulations in both; what both have is the same."));
}

#[test]
fn a_cell_is_what_sim_gives() {
    let directory = directory();
    let at = directory.path();
    write(
        at,
        "one.toml",
        "seed = 5\n[options]\ninput = \"gen:poisson:packets=2000\"\npolicy = \"drr\"\nload = 0.8\n\
        [axes]\ncores = [4]\n[repeat]\ntimes = 2\n",
    );
    document(at, "sweep one.toml");
    let sim = document(at, "sim --input gen:poisson:packets=2000 --policy drr --load 0.8 --cores 4 --seed 6");
    write(
        at,
        "two.toml",
        "seed = 6\n[options]\ninput = \"gen:poisson:packets=2000\"\npolicy = \"drr\"\nload = 0.8\n\
        [axes]\ncores = [4]\n",
    );
    document(at, "sweep two.toml");
    // The second repetition of the one is the first of the other, and both are the simulation.
    let said = run(at, &["sweep", "diff", "one", "two", "--json"]);
    assert_eq!((said.code, number(&said.json(), "/both"), number(&said.json(), "/only_first")), (Some(1), 1, 1));
    good(at, "sweep plot two --x cores --y p99");
    let plot = fs::read_to_string(at.join("two/p99.svg")).expect("a plot");
    assert!(plot.starts_with("<svg") && plot.contains("delay_p99_ns over cores"), "{plot}");
    assert!(number(&sim, "/delay_ns/p99") > 0);
}

/// Whatever is on the disk when a sweep is killed is not simulated again.
#[test]
fn what_was_simulated_before_a_kill_is_not_simulated_again() {
    let directory = directory();
    let at = directory.path();
    write(at, "long.toml", &PLAN.replace("times = 4", "times = 60").replace("2000", "20000"));
    let mut child = start(at, "sweep long.toml --threads 2");
    let kept = at.join("long/runs.part");
    let lines = || File::open(&kept).map_or(0, |file| BufReader::new(file).lines().count());
    let begin = Instant::now();
    while lines() < 20 {
        assert!(begin.elapsed() < Duration::from_secs(60), "nothing is kept");
        sleep(Duration::from_millis(5));
    }
    signal(&child, "KILL");
    child.wait().expect("it ends");
    let before = fs::read_to_string(&kept).expect("it is kept");
    assert!(!at.join("long/runs.parquet").exists());
    let whole = before.matches('\n').count() as u64 - 1;
    let said = document(at, "sweep long.toml");
    assert_eq!((number(&said, "/runs"), number(&said, "/simulated")), (360, 360 - whole));
    document(at, "sweep long.toml --out again");
    assert!(dataset(at, "again") == dataset(at, "long"), "the datasets differ");
}

#[test]
fn an_interrupted_sweep_says_how_it_continues() {
    let directory = directory();
    let at = directory.path();
    write(at, "long.toml", &PLAN.replace("times = 4", "times = 1000").replace("2000", "20000"));
    let child = start(at, "sweep long.toml");
    sleep(Duration::from_millis(300));
    signal(&child, "INT");
    let said = crate::support::Said::of(child.wait_with_output().expect("it ends"));
    assert_eq!(said.code, Some(2), "{said:?}");
    said.assert_one_line(&["interrupted:", "the same command continues, in long"]);
    assert_eq!(files(&at.join("long")), ["runs.part"]);
}

#[test]
fn the_document_of_an_interrupted_sweep_says_how_far_it_is() {
    let directory = directory();
    let at = directory.path();
    write(at, "long.toml", &PLAN.replace("times = 4", "times = 1000").replace("2000", "20000"));
    let child = start(at, "sweep long.toml --json");
    sleep(Duration::from_millis(500));
    signal(&child, "INT");
    let said = crate::support::Said::of(child.wait_with_output().expect("it ends"));
    assert_eq!(said.code, Some(2), "{said:?}");
    let document = said.json();
    let kept = fs::read_to_string(at.join("long/runs.part")).expect("it is kept").lines().count() as u64 - 1;
    assert_eq!((&document["interrupted"], number(&document, "/planned")), (&true.into(), 6000));
    assert_eq!((number(&document, "/runs"), number(&document, "/simulated")), (kept, kept));
    assert!(said.err.contains(&format!("interrupted: {kept} of 6000 simulations done")), "{said:?}");
}

#[test]
fn repetitions_end_when_the_figure_is_known() {
    let directory = directory();
    let at = directory.path();
    let until = "until = \"throughput within 50%\"\nmost = 9";
    write(at, "until.toml", &PLAN.replace("times = 4", until));
    let said = document(at, "sweep until.toml");
    assert_eq!((number(&said, "/cells"), number(&said, "/runs")), (6, 36));
    assert_eq!(number(&document(at, "sweep until.toml"), "/simulated"), 0);
    write(at, "never.toml", &PLAN.replace("times = 4", "until = \"p99 within 0.000001%\"\nmost = 7"));
    assert_eq!(number(&document(at, "sweep never.toml"), "/runs"), 42);
}

#[test]
fn plots_have_a_line_for_each_value() {
    let directory = directory();
    let at = directory.path();
    write(at, "loads.toml", PLAN);
    document(at, "sweep loads.toml");
    good(at, "sweep plot loads --x load --y p99 --line policy --log y --output p99.svg");
    let plot = fs::read_to_string(at.join("p99.svg")).expect("a plot");
    assert!(plot.contains("hrw") && plot.contains("drr") && plot.contains("load"), "{plot}");
    refused(at, "sweep plot loads --x load --y p99", &["`policy` varies, too", "--line", "--only policy=drr"]);
    refused(at, "sweep plot loads --x policy --y p99 --line load", &["`policy` has texts"]);
    refused(at, "sweep plot loads --x laod --y p99", &["no option that varies `laod`; did you mean `load`?"]);
    refused(at, "sweep plot loads --x load --y p98", &["no figure `p98`"]);
    refused(
        at,
        "sweep plot loads --x load --y p99 --only policy=dr",
        &["--only policy=dr: no value `dr`; did you mean `drr`?"],
    );
    refused(at, "sweep plot nowhere --x load --y p99", &["`nowhere` has no runs.parquet"]);
    good(at, "sweep plot loads --x load --y delay_p50_ns --only policy=drr --output p50.svg");
}

#[test]
fn what_cannot_be_is_refused_and_leaves_nothing() {
    let directory = directory();
    let at = directory.path();
    make_capture(at, "in.pcap", 50);
    write(at, "capture.toml", "[options]\ninput = \"in.pcap\"\n[axes]\npolicy = [\"hrw\", \"drr\"]\n");
    document(at, "sweep capture.toml");
    make_capture(at, "in.pcap", 60);
    refused(at, "sweep capture.toml", &["`capture/manifest.json` is of another sweep, or its files have changed"]);
    write(at, "name.toml", "[options]\ninput = \"in.pcap\"\n[axes]\npolicy = [\"hrw\", \"drrr\"]\n");
    let said = "name.toml:4:18: cell 1 (policy = drrr): no policy `drrr`; did you mean `drr`?";
    refused(at, "sweep name.toml", &[said]);
    write(at, "input.toml", "[options]\ninput = \"none.pcap\"\npolicy = \"hrw\"\n");
    refused(at, "sweep input.toml --out there", &["input.toml:2:1: the only cell: none.pcap: there is no such file"]);
    let service =
        "[options]\ninput = \"in.pcap\"\npolicy = \"hrw\"\n[[zip]]\ncores = [1, 2]\nservices = [\"pass\", \"psas\"]\n";
    write(at, "service.toml", service);
    refused(at, "sweep service.toml", &["service.toml:6:21: cell 1 (cores = 2, services = psas): "]);
    write(at, "load.toml", "[options]\ninput = \"in.pcap\"\npolicy = \"hrw\"\n[axes]\nload = [0.5, \"x\"]\n");
    refused(at, "sweep load.toml", &["load.toml:5:14: cell 1 (load = x): --load takes a number, not `x`"]);
    write(at, "none.toml", "[options]\ninput = \"in.pcap\"\n");
    refused(at, "sweep none.toml", &["none.toml: the only cell: a cell needs a --policy"]);
    write(at, "p98.toml", &PLAN.replace("times = 4", "until = \"p98 within 2%\""));
    refused(at, "sweep p98.toml", &["p98.toml:7:9: no figure `p98`", "are: p50, p99, throughput, "]);
    write(at, "slip.toml", "[axes]\nplicy = [\"hrw\"]\n");
    refused(at, "sweep slip.toml", &["slip.toml:2:1: no option `plicy`"]);
    refused(at, "sweep gone.toml", &["gone.toml: there is no such file"]);
    refused(at, "sweep", &["FILE.toml"]);
    fs::create_dir(at.join("mine")).expect("it is made");
    write(at, "mine/runs.parquet", "mine");
    write(at, "loads.toml", PLAN);
    refused(at, "sweep loads.toml --out mine", &["`mine/runs.parquet` is not of a sweep"]);
    assert_eq!(fs::read_to_string(at.join("mine/runs.parquet")).expect("it is there"), "mine");
    write(at, "pipe.toml", "[options]\ninput = \"-\"\npolicy = \"hrw\"\n");
    refused(at, "sweep pipe.toml", &["is read by every cell", "use a file"]);
    write(at, "plain", PLAN);
    refused(at, "sweep plain", &["`plain` does not end in .toml", "--out"]);
    write(at, "full.toml", PLAN);
    refused(at, "sweep full.toml --out /dev/full/there", &["/dev/full/there"]);
    assert!(!at.join("name").exists());
}
