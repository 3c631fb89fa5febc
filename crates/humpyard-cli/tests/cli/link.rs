//! The link behind the cores of a simulation.

use serde_json::Value;

use crate::support::{directory, document, good, run};

const SIM: &str = "sim --input gen:poisson:packets=20000,pps=100000 --policy efq --cores 2 --costs table:predictive";

#[test]
fn results_tell_what_came_of_the_link() {
    let directory = directory();
    let at = directory.path();
    let free = document(at, &format!("{SIM} --services forward"));
    assert!(free.get("link").is_none());
    for (link, share) in [("20Mbit:queue=8", "wf2q+"), ("20Mbit:queue=4,share=drr:quantum=3000", "drr:quantum=3000")] {
        let result = document(at, &format!("{SIM} --services forward --link {link}"));
        let (packets, link) = (&result["packets"], &result["link"]);
        let number = |value: &Value| value.as_u64().expect("a number");
        let dropped: u64 = link["dropped"].as_object().expect("reasons").values().map(&number).sum();
        assert_eq!(number(&link["in"]), number(&packets["processed"]));
        assert_eq!(number(&link["in"]), number(&link["sent"]) + number(&link["held"]) + dropped);
        assert_eq!((&packets["forwarded"], &packets["dropped_out"]), (&link["sent"], &link["dropped"]));
        assert_eq!((link["policy"].as_str(), &link["rate_bps"]), (Some(share), &20_000_000.into()));
        assert!(link["utilization"].as_f64().expect("a part") > 0.9, "it is overloaded: {link}");
        assert!(number(&link["withheld"]) > 0);
        assert!(number(&link["in_all_ns"]["p50"]) >= number(&link["delay_ns"]["p50"]));
    }
    let said = good(at, &format!("{SIM} --services forward --link 10Gbit")).out;
    assert!(said.contains("link        20000 in = 20000 sent + 0 held + 0 dropped"), "{said}");
}

/// The link withholds and lets go by calls that are in the journal.
#[test]
fn journals_of_runs_with_a_link_play_again() {
    let directory = directory();
    let at = directory.path();
    good(at, &format!("{SIM} --services forward --link 20Mbit:queue=2 --journal run.jsonl"));
    let journal = std::fs::read_to_string(at.join("run.jsonl")).expect("a journal");
    assert!(journal.contains("\"withhold\"") && journal.contains("\"end_withholding\""));
    good(at, "replay run.jsonl");
}

#[test]
fn slips_are_told_in_one_line() {
    let directory = directory();
    let at = directory.path();
    for (command, said) in [
        ("run --input gen:poisson:packets=9 --policy drr --link 1Gbit", "--link is for simulations"),
        ("sim --input gen:poisson:packets=9 --policy hrw --link 1Gbit", "name a sharing policy, hrw/efq for example"),
        ("sim --input gen:poisson:packets=9 --policy drr --link quick", "--link: a link has bits per second"),
        ("sim --input gen:poisson:packets=9 --policy drr --link 1G:share=hrw", "`hrw` is none"),
    ] {
        let answer = run(at, &command.split_whitespace().collect::<Vec<_>>());
        assert_eq!((answer.code, answer.out.as_str()), (Some(2), ""), "{command}: {answer:?}");
        answer.assert_one_line(&[said]);
    }
}
