//! What people read fits 80 columns, and breaks between words.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Stdio;

use crate::signals::signal;
use crate::support::{Said, directory, humpyard, make_capture};

/// Characters that frame tables.
const FRAME: std::ops::RangeInclusive<char> = '\u{2500}'..='\u{257f}';

/// What a command says in lines of this length, which must be all that it says.
fn said(directory: &Path, words: &[&str], columns: &str) -> Said {
    let output = humpyard(directory, words).env("COLUMNS", columns).stdout(Stdio::piped()).output();
    let said = Said::of(output.expect("the binary starts"));
    assert!(matches!(said.code, Some(0 | 1)), "{words:?}: {said:?}");
    said
}

/// The words of a text.
fn words_of(text: &str) -> BTreeSet<&str> {
    let words = text.split(|sign: char| sign.is_whitespace() || FRAME.contains(&sign) || sign == '\u{2506}');
    words.filter(|word| !word.is_empty() && *word != "\\").collect()
}

fn assert_fits(words: &str, text: &str) {
    for line in text.lines() {
        assert!(line.chars().count() <= 80, "{words}: {} characters:\n{line}\n\n{text}", line.chars().count());
    }
}

/// Runs a command of words with nothing but spaces between them, and panics if a line is longer than 80, or a word is cut.
fn assert_fits_and_is_whole(directory: &Path, words: &str) {
    let split: Vec<&str> = words.split_whitespace().collect();
    let narrow = said(directory, &split, "80");
    assert_fits(words, &narrow.out);
    assert!(!narrow.out.is_empty(), "{words}");
    // What a live run says depends on the machine: a second run may say something else.
    if ["run", "validate", "calibrate"].contains(&split[0]) {
        return;
    }
    let wide = said(directory, &split, "5000");
    let (narrow_words, wide_words) = (words_of(&narrow.out), words_of(&wide.out));
    // Measured times are others each time, and so are their units.
    let is_figure = |word: &str| {
        let bare = word.trim_matches(|sign: char| !sign.is_alphanumeric());
        word.chars().any(|sign| sign.is_ascii_digit()) || ["ns", "us", "ms", "s", "pps", "kpps", "Mpps"].contains(&bare)
    };
    let cut: Vec<&&str> = narrow_words.difference(&wide_words).filter(|word| !is_figure(word)).collect();
    assert!(cut.is_empty(), "{words}: {cut:?} are not in\n{}\n\nbut in\n{}", wide.out, narrow.out);
}

#[test]
fn every_table_fits_eighty_columns() {
    let directory = directory();
    let at = directory.path();
    make_capture(at, "in.pcap", 500);
    std::fs::write(at.join("run.toml"), "policy = \"drr\"\ninput = \"in.pcap\"\n").expect("it is written");
    for words in [
        "run --input in.pcap --policy hrw --workers 2 --rate 100k",
        "run --input in.pcap --policy hrw --workers 0 --services tcp=dpi,other=forward",
        "sim --input in.pcap --policy everest --services tcp=forward,other=forward --cores 3 --load 0.9",
        "sim --input in.pcap --policy conn --cores 4 --split share=0.1 --topology 2x2",
        "sim --input in.pcap --policy efq --cores 2 --link 10Mbit:share=drr",
        "sim --input in.pcap --policy hrw --swap 1us=rr --swap 2us=jsq --warmup 10us",
        "compare --input in.pcap --policy rr --policy steer=hrw/share=drr --policy ps-hrw:beta=0.5 --cores 8 --load 0.8",
        "compare --input in.pcap --policy rr --policy drr --repeat 3 --load 0.9 --topology 2x1",
        "recommend --host ideal --input in.pcap --workers 2 --load 0.7 --goal late<1%@2ms,min=p99 --candidate rr --candidate hrw --candidate drr --quiet",
        "recommend --host ideal --input in.pcap --workers 2 --goal p99[forward]<1s --candidate rr --details --quiet",
        "recommend --host ideal --input in.pcap --workers 2 --goal p99<1s --candidate rr --size --quiet",
        "list policies",
        "list services",
        "list experiments",
        "list profiles",
        "list costs",
        "list protocols",
        "explain drr",
        "explain ps-hrw",
        "explain encrypt",
        "explain gr3-fig9",
        "explain predictive",
        "explain rule",
        "trace info in.pcap",
        "trace cut in.pcap --output part.pcap --packets 1..10",
        "admit --cores 2 --costs table:predictive --flow name=video,service=encrypt,rate=10Mbit,length=500,burst=8k",
        "admit --cores 1 --costs table:predictive --link 1Gbit --flow service=encrypt,rate=9Gbit,length=500,burst=8k",
        "topology e5355",
        "topology machine",
        "topology epyc-2p",
        "schedule --policy sfq --weights 12,3,3,2,2,2 --slots 24",
        "schedule --policy gr3 --clients 64 --total 16384 --draws 2",
        "calibrate --services forward,encrypt:cipher=cast-128 --seconds 0.3 --matrix --machine --quiet",
        "check run.toml",
        "reproduce gr3-fig2 gr3-fig3 --out there --quiet",
        "validate --input in.pcap --policy hrw --workers 1 --quiet",
    ] {
        assert_fits_and_is_whole(at, words);
    }
}

/// A name that is too long for any column is broken at its signs, where the rest of the table still fits.
#[test]
fn a_long_name_leaves_room_for_the_figures() {
    let directory = directory();
    let at = directory.path();
    make_capture(at, "in.pcap", 100);
    let policy = "estimate=least-squares/steer=ps-hrw:beta=0.125,residual=capacity/share=drr:quantum=1500";
    let words = ["compare", "--input", "in.pcap", "--policy", "rr", "--policy", policy];
    let text = said(at, &words, "80").out;
    assert_fits(policy, &text);
    assert!(text.contains("residual=capacity/") && text.contains("jitter"), "{text}");
}

#[test]
fn one_screen_of_top_fits() {
    let directory = directory();
    let words =
        ["run", "--input", "gen:poisson:packets=1G", "--policy", "drr", "--rate", "1000", "--metrics", "127.0.0.1:0"];
    let mut child = humpyard(directory.path(), &words)
        .arg("--quiet")
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary starts");
    let mut lines = BufReader::new(child.stderr.take().expect("it is piped")).lines();
    let line = lines.next().expect("where the metrics are").expect("text");
    let address = line.strip_prefix("humpyard: metrics at http://").and_then(|rest| rest.strip_suffix("/metrics"));
    let top = ["top", address.unwrap_or_else(|| panic!("no address: {line}")), "--once", "--interval", "200ms"];
    let text = said(directory.path(), &top, "80").out;
    assert_fits("top --once", &text);
    assert!(text.contains("flows, ") && text.contains(" > "), "{text}");
    signal(&child, "TERM");
    child.wait().expect("it ends");
}

/// The first page shows what its command prints.
#[test]
fn the_example_of_the_first_page_is_what_the_program_prints() {
    let readme = std::fs::read_to_string(crate::configuration::repository("README.md")).expect("the page");
    let command = readme.lines().find_map(|line| line.strip_prefix("    humpyard compare ")).expect("a command");
    let shown = readme.split("```text\n").nth(1).and_then(|rest| rest.split("```").next()).expect("an output");
    let words: Vec<&str> = ["compare"].into_iter().chain(command.split(' ')).chain(["--quiet"]).collect();
    let output = humpyard(Path::new("."), &words).env("COLUMNS", "80").output().expect("it starts");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.starts_with(shown), "{said}");
}
