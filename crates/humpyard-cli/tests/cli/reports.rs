//! The page of `compare --report` and `demo`: well-formed, complete in itself, and of the numbers of the document.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use roxmltree::{Document, Node, ParsingOptions};
use serde_json::Value;

use crate::support::{captures, directory, document, files, good, run};

/// Does something with the page in this file, which must be XML.
fn with_page<T>(path: &Path, body: impl FnOnce(&Document<'_>) -> T) -> T {
    let text = fs::read_to_string(path).expect("the page was written");
    assert!(text.starts_with("<!DOCTYPE html>"), "{}", &text[..40]);
    let options = ParsingOptions { allow_dtd: true, ..ParsingOptions::default() };
    body(&Document::parse_with_options(&text, options).unwrap_or_else(|error| panic!("{error}")))
}

/// What a shell takes away.
const QUOTE: char = '\u{27}';

/// All that an element says.
fn text(node: Node<'_, '_>) -> String {
    node.descendants().filter(Node::is_text).filter_map(|node| node.text()).collect()
}

fn section<'a, 'input>(page: &'a Document<'input>, id: &str) -> Node<'a, 'input> {
    let found = named(page.root(), "section").find(|node| node.attribute("id") == Some(id));
    found.unwrap_or_else(|| panic!("no section {id}"))
}

fn named<'a, 'input>(node: Node<'a, 'input>, name: &'static str) -> impl Iterator<Item = Node<'a, 'input>> {
    node.descendants().filter(move |node| node.tag_name().name() == name)
}

/// Nothing is fetched, nothing runs, and every plot says what it shows.
fn assert_self_contained(page: &Document<'_>) {
    let mut ids = BTreeSet::new();
    for node in page.descendants().filter(Node::is_element) {
        assert!(!["script", "link", "img", "iframe", "object"].contains(&node.tag_name().name()), "{node:?}");
        for attribute in node.attributes() {
            assert!(!["src", "href", "srcset", "onload"].contains(&attribute.name()), "{attribute:?}");
            assert!(!attribute.value().contains("url("), "{attribute:?}");
            if attribute.name() == "id" {
                assert!(ids.insert(attribute.value().to_owned()), "twice: {attribute:?}");
            }
        }
    }
    for style in named(page.root(), "style") {
        assert!(!text(style).contains("@import") && !text(style).contains("url("));
    }
    let plots: Vec<_> = named(page.root(), "svg").collect();
    assert!(plots.len() >= 4, "{}", plots.len());
    for plot in plots {
        for name in ["title", "desc"] {
            let said = plot.children().find(|node| node.tag_name().name() == name).expect("a title and a description");
            assert!(!text(said).is_empty());
        }
        let references = plot.attribute("aria-labelledby").expect("it is labelled");
        assert!(references.split(' ').all(|id| ids.contains(id)), "{references}");
    }
}

#[test]
fn a_report_has_the_numbers_of_the_document() {
    let directory = directory();
    let words = "compare --input gen:messages:packets=8000 --policy rr --policy steer=hrw/share=drr --policy static --cores 4 \
                 --load 0.8 --services tcp=forward,other=forward --repeat 3 --report page.html";
    let comparison = document(directory.path(), words);
    with_page(&directory.path().join("page.html"), |page| {
        assert_self_contained(page);
        let findings = text(section(page, "findings"));
        let overview = section(page, "overview");
        let heads: Vec<String> =
            named(overview, "th").filter(|node| node.attribute("scope") == Some("col")).map(text).collect();
        assert_eq!(heads, ["figure", "rr", "steer=hrw/share=drr", "static"]);
        for policy in &heads[1..] {
            assert!(findings.contains(policy.as_str()), "{policy} is not in: {findings}");
        }
        assert!(findings.contains("medians of 3 repetitions"), "{findings}");
        let keys = [
            ("throughput", "throughput_pps"),
            ("delay p50", "delay_p50_ns"),
            ("delay p99", "delay_p99_ns"),
            ("delay max", "delay_max_ns"),
            ("late", "late_fraction"),
            ("out of order", "out_of_order_fraction"),
            ("jitter", "jitter_ns"),
            ("fairness (Jain)", "jain"),
            ("cold", "cold_fraction"),
            ("dropped", "dropped_fraction"),
        ];
        for (name, key) in keys {
            let row = named(overview, "tr").find(|row| row.children().any(|cell| text(cell) == name)).expect(name);
            let found: Vec<f64> =
                named(row, "data").map(|data| data.attribute("value").unwrap().parse().unwrap()).collect();
            let statistics = comparison["statistics"].as_array().expect("statistics");
            let expected: Vec<f64> =
                statistics.iter().map(|policy| policy["figures"][key]["median"].as_f64().unwrap()).collect();
            let near = |(a, b): (&f64, &f64)| (a - b).abs() <= 1e-12 * b.abs();
            assert!(found.len() == 3 && found.iter().zip(&expected).all(near), "{name}: {found:?} {expected:?}");
        }
        let run = text(section(page, "run"));
        let command = words.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(run.replace(QUOTE, "").contains(&format!("humpyard {command} --json")), "{run}");
        for said in ["gen:messages:packets=8000", env!("CARGO_PKG_VERSION"), "4 cores", "seed 1 to 3", "virtual time"] {
            assert!(run.contains(said), "`{said}` is not in: {run}");
        }
        // The busy cores are those of the document.
        let busy: Vec<f64> = named(section(page, "cores"), "tr")
            .filter_map(|row| named(row, "data").next()?.attribute("value")?.parse().ok())
            .collect();
        assert_eq!(busy.len(), 12, "three policies on four cores");
        let busiest = |repetition: usize| {
            let cores = comparison["runs"][3 * repetition]["cores_detail"].as_array().unwrap();
            cores.iter().map(|core| core["utilization"].as_f64().unwrap()).fold(0.0, f64::max)
        };
        let mut first: Vec<f64> = (0..3).map(busiest).collect();
        first.sort_by(f64::total_cmp);
        assert!((busy[0] - first[1]).abs() < 1e-12);
        assert!(busy.chunks(4).all(|policy| policy.is_sorted_by(|a, b| a >= b)), "{busy:?}");
    });
    assert_eq!(files(directory.path()), ["page.html"]);
}

/// The findings of a comparison's page, the first by itself.
fn findings(directory: &Path, words: &str) -> (String, String) {
    good(directory, &format!("compare {words} --report page.html"));
    with_page(&directory.join("page.html"), |page| {
        let section = section(page, "findings");
        let first = named(section, "strong").map(text).next().expect("a first finding");
        (first.replace('\u{a0}', " "), text(section).replace('\u{a0}', " "))
    })
}

#[test]
fn findings_are_those_of_the_figures() {
    let directory = directory();
    let words = "--input gen:poisson:packets=3000 --policy drr --buffer 10 --load 3 --cores 1";
    let (first, _) = findings(directory.path(), words);
    let run = &document(directory.path(), &format!("compare {words}"))["runs"][0];
    let lost = run["packets"]["dropped"]["buffer_full"].as_f64().expect("it is dropped") / 3000.0;
    let expected = format!("The cores are overloaded: the offered load is 3.00, and drr lost {:.1} %", 100.0 * lost);
    assert!(first.starts_with(&expected), "{expected} is not: {first}");
    let words = "--input gen:messages:packets=5000 --policy hrw --policy rr --cores 4 --load 0.5 --flow-order free";
    let (_, all) = findings(directory.path(), words);
    let comparison = document(directory.path(), &format!("compare {words}"));
    let fraction = comparison["runs"][1]["order"]["fraction"].as_f64().expect("a number");
    let order = format!(
        "rr let {:.2} % of the packets leave after later ones of their flow, hrw none in this one run.",
        100.0 * fraction
    );
    assert!(fraction < 0.1 && all.contains(&order), "{order} is not in: {all}");
    assert!(all.contains("Each policy was run once"), "{all}");
    let (_, all) = findings(directory.path(), "--input gen:poisson:packets=3000 --policy drr --live --workers 0");
    assert!(all.contains("Packets came as fast as they were taken"), "{all}");
    crate::support::make_capture(directory.path(), "in.pcap", 500);
    let (first, all) = findings(directory.path(), "--input in.pcap --policy drr --policy sfq --repeat 2");
    assert_eq!(first, "A run has only 500 packets: too few for a 99th percentile.");
    assert!(all.contains("All 2 repetitions are exactly alike"), "{all}");
}

#[test]
fn one_flow_on_four_cores_is_said_before_its_delay() {
    let Some(captures) = captures("one_flow_on_four_cores_is_said_before_its_delay") else { return };
    let directory = directory();
    let capture = captures.join("elephants/melsoft_variant_clean.pcap");
    let words = format!("--input {} --policy hrw --policy rr --cores 4 --load 0.7", capture.display());
    let (first, all) = findings(directory.path(), &words);
    assert!(first.starts_with("hrw overloaded one core (busy 100 %, the others 0 %) and lost "), "{first}");
    assert!(first.contains("rr lost none in this one run") && first.contains("The traffic has only "), "{first}");
    assert!(all.contains("served packets"), "{all}");
}

#[test]
fn what_is_printed_begins_with_the_first_finding_of_the_page() {
    let directory = directory();
    let words = "--input gen:mmpp:packets=9000 --policy rr --policy hrw --cores 4 --load 0.8 --buffer 64 --repeat 3";
    let printed = good(directory.path(), &format!("compare {words} --report page.html")).out;
    let (first, _) = findings(directory.path(), words);
    let paragraph = printed.split("\n\n").next().expect("a paragraph").replace('\n', " ");
    assert_eq!(paragraph, first);
    assert!(first.contains(" lost "), "{printed}");
    let words = "--input gen:poisson:packets=9000 --policy drr --cores 1 --load 2 --buffer 64";
    let (first, _) = findings(directory.path(), words);
    let said = good(directory.path(), &format!("sim {words}")).out;
    let short = said.split("in short ").nth(1).expect("in short").split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(short.starts_with(&first), "{first} is not in: {said}");
}

#[test]
fn names_that_need_it_are_escaped() {
    let directory = directory();
    crate::support::make_capture(directory.path(), "a&b.pcap", 200);
    good(directory.path(), "compare --input a&b.pcap --policy drr --report <page>.html");
    with_page(&directory.path().join("<page>.html"), |page| {
        assert_self_contained(page);
        let run = text(section(page, "run"));
        assert!(run.contains("--input 'a&b.pcap' --policy drr --report '<page>.html'"), "{run}");
    });
}

#[test]
fn a_demonstration_writes_a_report() {
    let directory = directory();
    let said = good(directory.path(), "demo --packets 3000 --workers 1 --repeat 2 --quiet").out;
    assert!(said.contains("report.html") && said.contains("2 repetitions"), "{said}");
    assert_eq!(files(directory.path()), ["report.html"]);
    with_page(&directory.path().join("report.html"), |page| {
        assert_self_contained(page);
        let findings = text(section(page, "findings"));
        for policy in ["fcfs", "hrw", "drr"] {
            assert!(findings.contains(policy), "{policy} is not in: {findings}");
        }
        assert!(text(section(page, "run")).contains("learnt"));
    });
    fs::remove_file(directory.path().join("report.html")).expect("it is there");
    let demo: Value = document(directory.path(), "demo --packets 1000 --workers 0 --repeat 1 --report null:");
    assert_eq!(demo["repetitions"], 1);
    assert!(files(directory.path()).is_empty());
}

#[test]
fn reports_that_cannot_be_are_refused_before_the_work() {
    let directory = directory();
    for (words, expected) in [
        ("compare --input gen:poisson --policy drr --report nowhere/page.html", "cannot write `nowhere/page.html`"),
        ("compare --input gen:poisson --policy drr --report -", "--report takes the name of a file"),
        ("demo --report nowhere/page.html", "cannot write `nowhere/page.html`"),
        ("compare --input missing.pcap --policy drr --report page.html", "there is no such file"),
    ] {
        let said = run(directory.path(), &words.split_whitespace().collect::<Vec<_>>());
        assert!(said.code == Some(2) && said.out.is_empty(), "{said:?}");
        said.assert_one_line(&[expected]);
        assert!(files(directory.path()).is_empty(), "{words}");
    }
}
