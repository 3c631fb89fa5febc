//! `recommend`: which policy for a goal, what speaks for it, and the same answer on any number of threads.

use std::fs;

use serde_json::Value;

use crate::support::{directory, document, good, make_capture, real, run, sum};

/// Few flows on several cores, so that hashing leaves some of them idle.
const FEW_FLOWS: &str = "--input gen:poisson:flows=12,packets=4k --workers 4 --load 0.7 --costs table:measured \
                         --candidate hrw --candidate fcfs --candidate drr --candidate jsq";

fn text<'a>(document: &'a Value, path: &str) -> &'a str {
    document.pointer(path).and_then(Value::as_str).unwrap_or_else(|| panic!("no text at {path}: {document:#}"))
}

#[test]
fn the_answer_is_the_same_on_any_number_of_threads() {
    let directory = directory();
    let words = format!("recommend {FEW_FLOWS} --goal p99<2us,ooo<0.01%,min=p99");
    let answers = [1, 2].map(|threads| {
        let mut answer = document(directory.path(), &format!("{words} --threads {threads}"));
        let command = answer.as_object_mut().and_then(|answer| answer.remove("command")).expect("a command");
        let expected = format!("--policy {} --workers 4", text(&answer, "/policy"));
        assert!(command.as_str().is_some_and(|command| command.contains(&expected)), "{command}");
        answer
    });
    assert_eq!(answers[0], answers[1]);
    let answer = &answers[0];
    assert_eq!(text(answer, "/advice"), "use_the_winner");
    assert_ne!(text(answer, "/policy"), "hrw");
    assert_eq!(text(answer, "/hashing/policy"), "hrw");
    let p99 = |of: &str| real(answer, &format!("/{of}/figures/delay_p99_ns"));
    assert!(p99("winner") < p99("hashing"), "{answer:#}");
    assert_eq!(answer["finalists"].as_array().map(Vec::len), Some(4));
    assert_eq!(answer["loads"].as_array().map(Vec::len), Some(15), "five loads, three policies");
}

#[test]
fn the_figures_are_those_of_sim() {
    let directory = directory();
    make_capture(directory.path(), "in.pcapng", 3_000);
    let options = "--input in.pcapng --load 0.8 --costs table:measured";
    let answer =
        document(directory.path(), &format!("recommend {options} --workers 3 --candidate hrw --goal late<1%@1ms"));
    // The same packets under other hashes.
    let sim = |seed| format!("sim {options} --policy hrw --cores 3 --tolerance 1ms --seed {seed}");
    let seeds: Vec<Value> = (1..=3).map(|seed| document(directory.path(), &sim(seed))).collect();
    for (figure, path) in [("delay_p99_ns", "/delay_ns/p99"), ("delay_mean_ns", "/delay_ns/mean")] {
        let worst = seeds.iter().map(|result| real(result, path)).fold(0.0, f64::max);
        assert_eq!(real(&answer, &format!("/winner/figures/{figure}")), worst, "{figure}");
    }
    assert!(seeds.iter().all(|result| sum(result, "/packets/dropped") == 0));
}

#[test]
fn plain_hashing_is_enough_when_it_is() {
    let directory = directory();
    let words = "recommend --input gen:poisson:packets=3k --workers 4 --load 0.2 --costs table:measured --candidate fcfs \
                 --candidate hrw --goal late<1%@1ms";
    let answer = document(directory.path(), words);
    assert_eq!((text(&answer, "/advice"), text(&answer, "/policy")), ("hashing_is_enough", "hrw"));
    let said = good(directory.path(), words).out;
    for word in ["Plain hashing is enough", "To run it:", "--policy hrw --workers 4 --tolerance 1ms"] {
        assert!(said.contains(word), "`{word}` is not in\n{said}");
    }
}

#[test]
fn cores_that_would_do_are_named() {
    let directory = directory();
    let words = "recommend --input gen:poisson:packets=3k --rate 60M --workers 2 --costs table:measured --candidate fcfs \
                 --goal p99<2us,loss<0.1% --json";
    let said = run(directory.path(), &words.split_whitespace().collect::<Vec<_>>());
    assert_eq!(said.code, Some(1), "{said:?}");
    let answer = said.json();
    assert_eq!(text(&answer, "/advice"), "no_policy_holds");
    let cores = answer.pointer("/cores_needed/cores").and_then(Value::as_u64).expect("a number of cores");
    assert!(text(&answer, "/reason").contains(&format!("{cores} cores would, with `fcfs`")), "{answer:#}");
    let holds = |cores: u64| {
        let words = words.replace("--workers 2", &format!("--workers {cores}"));
        run(directory.path(), &words.split_whitespace().collect::<Vec<_>>()).json()
    };
    assert_eq!(holds(cores).pointer("/winner/holds"), Some(&Value::Bool(true)));
    assert_eq!(holds(cores - 1).pointer("/winner/holds"), Some(&Value::Bool(false)));
}

#[test]
fn the_command_runs_and_the_page_is_written() {
    let directory = directory();
    make_capture(directory.path(), "in.pcap", 2_000);
    let words = "recommend --input in.pcap --workers 1 --load 0.5 --costs table:measured --candidate hrw --candidate drr \
                 --services dpi,encrypt --goal late<5%@1s --report page.html";
    let answer = document(directory.path(), words);
    let command = text(&answer, "/command").strip_prefix("humpyard ").expect("this program").replace('\'', "");
    assert!(command.contains("--services dpi,encrypt") && !command.contains("--goal"), "{command}");
    let result = document(directory.path(), &format!("{command} --quiet"));
    let services = result["services"].as_array().expect("services");
    let packets: Vec<Option<u64>> = services.iter().map(|service| service["packets"].as_u64()).collect();
    assert_eq!(packets, [Some(2_000), Some(2_000)], "every packet goes through both");
    let page = fs::read_to_string(directory.path().join("page.html")).expect("a page");
    for word in ["Which scheduling policy", "hrw", "drr", "With other cores"] {
        assert!(page.contains(word), "`{word}` is not in the page");
    }
}

#[test]
fn slips_are_told_in_a_line() {
    let directory = directory();
    let asked = "recommend --input gen:poisson:packets=100 --workers 2 --load 0.5 --costs table:measured";
    for (words, expected) in [
        (String::from("recommend --input gen:poisson:packets=100"), "--goal"),
        (format!("{asked} --goal lat<1%"), "did you mean `late`"),
        (format!("{asked} --goal late>1%"), "write late<"),
        (format!("{asked} --goal late<1%@2"), "unit"),
        (format!("{asked} --goal late<1%@2ms --tolerance 1ms"), "--tolerance and --goal"),
        (format!("{asked} --goal late<1% --candidate hwr"), "did you mean `hrw`"),
        (format!("{asked} --goal late<1% --candidate everest"), "nothing to allocate"),
        (format!("{asked} --goal late<1% --budget 3"), "--budget 3 is too small"),
        (format!("{asked} --goal late<1% --swap 1ms=hrw"), "--swap"),
        (format!("{asked} --goal late<1% --services nothing"), "nothing"),
        (format!("{asked} --goal late<1% --report -"), "--report"),
        (String::from("recommend --input nowhere.pcap --goal late<1%"), "nowhere.pcap"),
        (String::from("recommend --input gen:poisson --goal late<1% --rate line"), "line rate"),
    ] {
        let said = run(directory.path(), &words.split_whitespace().collect::<Vec<_>>());
        assert_eq!(said.code, Some(2), "{words}: {said:?}");
        said.assert_one_line(&[expected]);
    }
}
