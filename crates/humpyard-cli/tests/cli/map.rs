//! `map`: the same files whatever the threads and interruptions, with the figures of `sim`.

use std::fs;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::signals::{signal, start};
use crate::support::{Said, directory, document, good, make_capture, number, refused};

const SMALL: &str = "map --quick --packets 400 --only long-flows --only moving-skew";
const FILES: [&str; 5] = ["map.csv", "elephants.csv", "rule.json", "known.json", "index.md"];

fn file(at: &Path, map: &str, name: &str) -> String {
    fs::read_to_string(at.join(map).join(name)).unwrap_or_else(|error| panic!("{map}/{name}: {error}"))
}

/// The values of a line of a map, behind the policy: packets and figures.
fn figures<'a>(csv: &'a str, start: &str) -> Vec<&'a str> {
    let mut lines = csv.lines().filter_map(|line| line.strip_prefix(start));
    let line = lines.next().unwrap_or_else(|| panic!("no line {start}"));
    assert_eq!(lines.next(), None, "{start} is there twice");
    line.split(',').collect()
}

#[test]
fn a_map_is_the_same_whatever_the_threads_and_interruptions() {
    let directory = directory();
    let at = directory.path();
    let said = document(at, &format!("{SMALL} --out one --threads 1"));
    assert_eq!((number(&said, "/classes"), number(&said, "/cells")), (2, 8));
    assert_eq!(number(&said, "/simulations"), number(&said, "/simulated"));
    assert_eq!(said["interrupted"], false);

    let child = start(at, &format!("{SMALL} --out two --threads 3"));
    let begin = Instant::now();
    while !at.join("two/rounds/moving-skew-4-ideal/400/manifest.json").exists() {
        assert!(begin.elapsed() < Duration::from_secs(60), "nothing is kept");
        sleep(Duration::from_millis(5));
    }
    signal(&child, "INT");
    let ended = Said::of(child.wait_with_output().expect("it ends"));
    assert_eq!(ended.code, Some(2), "{ended:?}");
    ended.assert_one_line(&["interrupted:", "simulations done; the same command continues, in two"]);
    assert!(!at.join("two/index.md").exists(), "the page is that of a whole map");
    let again = document(at, &format!("{SMALL} --out two --threads 3"));
    assert_eq!(number(&again, "/simulations"), number(&said, "/simulations"));
    assert!(number(&again, "/simulated") < number(&said, "/simulated"), "{again}");
    for name in FILES {
        assert!(file(at, "one", name) == file(at, "two", name), "{name} differs");
    }
    assert_eq!(number(&document(at, &format!("{SMALL} --out one")), "/simulated"), 0);

    // One cell by hand: the medians of three seeds.
    let csv = file(at, "one", "map.csv");
    let found = figures(&csv, "long-flows,4,server-16,0.9,0,0,jsq,");
    let sims = [1, 2, 3].map(|seed| {
        let sim = "sim --input gen:poisson:flows=16,packets=133,length=1400 --policy jsq --cores 4 --load 0.9 \
                   --topology 4 \
                   --host server-16 --flow-order free --buffer 1024 --costs table:everest --services forward";
        document(at, &format!("{sim} --seed {seed}"))
    });
    let median = |path: &str| {
        let mut found =
            sims.each_ref().map(|sim| sim.pointer(path).and_then(serde_json::Value::as_f64).expect("a number"));
        found.sort_by(f64::total_cmp);
        found[1]
    };
    let expected = ["/delay_ns/p99", "/order/fraction", "/cache/moves_per_packet"].map(median);
    let number_at = |place: usize| found[place].parse::<f64>().expect("a number");
    for (found, expected) in [number_at(1), number_at(3), number_at(4)].into_iter().zip(expected) {
        assert!((found - expected).abs() <= 1e-8 * expected, "{found} {expected}");
    }
    assert!(expected[0] > 13_700.0 && expected[2] > 0.1, "{expected:?}");
    let page = file(at, "one", "index.md");
    assert!(page.contains("use `") && page.contains("on classes that the rule has not seen"), "{page}");
    assert!(page.contains("nothing to allocate"), "{page}");
}

#[test]
fn a_capture_judges_the_rule_and_elephants_make_a_curve() {
    let directory = directory();
    let at = directory.path();
    make_capture(at, "in.pcap", 300);
    let said = good(at, "map --quick --packets 200 --only elephants --capture in.pcap --quiet");
    assert!(said.out.contains("use `") && said.out.contains("The page: map/index.md"), "{said:?}");
    let page = file(at, "map", "index.md");
    assert!(page.contains("p99 over the best, on captures: rule: median "), "{page}");
    assert!(page.contains("there is one class") && page.contains("| 4 | server-16 | 1 |"), "{page}");
    let curve = file(at, "map", "elephants.csv");
    assert!(curve.starts_with("cores,host,load,elephants,share,hashing_p99_ns,"), "{curve}");
    assert!(figures(&file(at, "map", "map.csv"), "capture-in,4,ideal,0.5,0,0,hrw,")[0] == "200");
}

#[test]
fn what_cannot_be_mapped_is_refused() {
    let directory = directory();
    let at = directory.path();
    refused(at, "map --only elephant", &["--only: no class of traffic `elephant`; did you mean `elephants`?"]);
    refused(at, "map --capture .. --out there", &["--capture takes a file, not `..`"]);
    refused(at, "map --quick --packets 9", &["--packets"]);
    refused(at, "map --quick --out /dev/full/there", &["/dev/full/there"]);
    refused(at, "map --quick --only uniform --capture none.pcap", &["--capture: there is no file `none.pcap`"]);
    // Before anything is simulated.
    make_capture(at, "whole.pcap", 300);
    let whole = fs::read(at.join("whole.pcap")).expect("a capture");
    fs::write(at.join("cut.pcap"), &whole[..whole.len() - 10]).expect("a file");
    fs::write(at.join("empty.pcap"), &whole[..24]).expect("a file");
    refused(at, "map --quick --capture cut.pcap", &["--capture", "cut.pcap", "damaged at byte"]);
    refused(at, "map --quick --capture empty.pcap", &["--capture", "there is no packet in `empty.pcap`"]);
    assert!(!at.join("map").exists(), "nothing is kept");
    fs::create_dir(at.join("mine")).expect("a directory");
    fs::write(at.join("mine/index.md"), "my notes").expect("a file");
    refused(at, "map --quick --out mine", &["--out", "mine/index.md is not the page of a map"]);
}
