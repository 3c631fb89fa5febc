//! `recommend`: which policy for a goal, what speaks for it, and the same answer on any number of threads.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::support::{directory, document, good, humpyard, make_capture, real, run, sum};

/// Few flows on several cores, so that hashing leaves some of them idle.
const FEW_FLOWS: &str = "--host ideal --input gen:poisson:flows=12,packets=4k --workers 4 --load 0.7 --costs table:measured \
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
    let finalists = answer["finalists"].as_array().expect("finalists");
    let alike = |one: &Value| one["same_decisions"].as_array().map(Vec::len).expect("names");
    assert_eq!(finalists.len() + finalists.iter().map(alike).sum::<usize>(), 4, "{answer:#}");
    assert_eq!(answer["more_traffic"].as_array().map(Vec::len), Some(9), "three rates, three policies");
}

#[test]
fn the_figures_are_those_of_sim() {
    let directory = directory();
    make_capture(directory.path(), "in.pcapng", 3_000);
    let options = "--input in.pcapng --load 0.8 --costs table:measured";
    let answer = document(
        directory.path(),
        &format!("recommend {options} --host ideal --workers 3 --candidate hrw --goal late<1%@1ms"),
    );
    // The same packets under other hashes.
    let sim = |seed| format!("sim {options} --policy hrw --cores 3 --tolerance 1ms --seed {seed}");
    let seeds: Vec<Value> = (1..=3).map(|seed| document(directory.path(), &sim(seed))).collect();
    for (figure, path) in [("delay_p99_ns", "/delay_ns/p99"), ("delay_mean_ns", "/delay_ns/mean")] {
        let worst = seeds.iter().map(|result| real(result, path)).fold(0.0, f64::max);
        assert_eq!(real(&answer, &format!("/winner/figures/{figure}")), worst, "{figure}");
    }
    assert!(seeds.iter().all(|result| sum(result, "/packets/dropped") == 0));
}

/// The rows of the outlook, and the least number of cores, with their commands.
fn rows(answer: &Value) -> Vec<Value> {
    let rows = |name: &str| answer[name].as_array().cloned().unwrap_or_else(|| panic!("no {name}: {answer:#}"));
    [rows("more_traffic"), rows("other_cores")].concat()
}

/// What a printed command comes to.
fn typed(directory: &Path, row: &Value) -> Value {
    let command = text(row, "/command").strip_prefix("humpyard ").expect("this program").replace('\'', "");
    document(directory, &command)
}

#[test]
fn commands_that_are_printed_give_their_figures_on_the_same_traffic() {
    let directory = directory();
    let at = directory.path();
    good(at, "run --input gen:onoff:packets=3k --output in.pcap --policy fcfs --workers 0 --quiet");
    for rate in ["", "--load 0.9", "--load 0.9 --of 3", "--rate 20M", "--multiplier 50"] {
        let words = format!(
            "recommend --host ideal --input in.pcap --packets 2500 --workers 4 {rate} --costs table:measured --seed 5 --candidate hrw \
             --candidate drr --goal p99<100ms"
        );
        let answer = document(at, &words);
        let offered = real(&answer, "/offered/packets_per_second");
        for row in rows(&answer) {
            let result = typed(at, &row);
            let figures = [
                ("delay_mean_ns", "/delay_ns/mean"),
                ("out_of_order_fraction", "/order/fraction"),
                ("jain", "/fairness/jain"),
            ];
            for (figure, path) in figures {
                assert_eq!(real(&row, &format!("/figures/{figure}")), real(&result, path), "{figure} of {row:#}");
            }
            assert_eq!(result["packets"]["in"], 2500);
            assert_eq!((&result["policy"], &result["cores"]), (&row["policy"], &row["cores"]));
            let times = real(&result, "/offered/packets_per_second") / offered / real(&row, "/multiplier");
            assert!((times - 1.0).abs() < 1e-3, "{times} times as much as it should be: {row:#}");
        }
    }
}

#[test]
fn the_cores_that_would_do_are_a_command() {
    let directory = directory();
    let at = directory.path();
    let goal = "recommend --host ideal --input gen:poisson:packets=3k --workers 2 --load 1.5 --costs table:measured --candidate fcfs --goal p99<2us";
    let words: Vec<&str> = goal.split_whitespace().chain(["--json"]).collect();
    let said = run(at, &words);
    assert_eq!(said.code, Some(1), "{said:?}");
    let answer = said.json();
    let needed = &answer["cores_needed"];
    assert!(text(needed, "/command").contains("--load 1.5 --of 2 "), "{needed:#}");
    let result = typed(at, needed);
    assert_eq!((&result["cores"], &result["offered"]), (&needed["cores"], &answer["offered"]));
    assert!(real(&result, "/delay_ns/p99") < 2000.0, "{result:#}");
    let fewer = text(needed, "/command").replace(&format!("--cores {}", needed["cores"]), "--cores 2");
    let result = typed(at, &serde_json::json!({ "command": fewer }));
    assert!(real(&result, "/delay_ns/p99") > 2000.0, "{result:#}");
    let printed = run(at, &words[..words.len() - 1]).out;
    assert!(printed.contains(&format!("With {} cores:\n  humpyard sim ", needed["cores"])), "{printed}");
}

#[test]
fn a_goal_that_says_nothing_is_called_so_first() {
    let directory = directory();
    let at = directory.path();
    let short = format!("recommend {FEW_FLOWS} --goal late<0.1%@2ms,ooo<0.1%");
    let answer = document(at, &short);
    assert_eq!(answer["vacuous"].as_array().map(Vec::len), Some(1));
    assert_eq!(text(&answer, "/vacuous/0/figure"), "late");
    let begins = "the bound on late is vacuous here: the traffic lasts ";
    assert!(text(&answer, "/reason").starts_with(begins), "{answer:#}");
    let said = good(at, &format!("{short} --report page.html")).out;
    assert!(
        said.starts_with("The bound on late is vacuous here: the traffic lasts ") && said.contains("times 2.00 ms"),
        "{said}"
    );
    let page = fs::read_to_string(at.join("page.html")).expect("a page");
    assert!(page.contains("the bound on late is vacuous here"));
    let slow = "recommend --host ideal --input gen:poisson:packets=2k,pps=1000 --workers 4 --costs table:measured --candidate hrw --candidate fcfs \
                --goal p99<1ms";
    let because = document(at, slow);
    assert!(text(&because, "/vacuous/0/because").contains("less than a tenth of 1.00 ms"), "{because:#}");
    let tight = document(at, &format!("recommend {FEW_FLOWS} --goal p99<2us,ooo<0.01%"));
    assert_eq!(tight["vacuous"].as_array().map(Vec::len), Some(0));
}

#[test]
fn confidence_is_from_what_the_search_has_not_seen() {
    let directory = directory();
    let at = directory.path();
    let words = |packets: &str| {
        format!(
            "recommend --host ideal --input gen:poisson:flows=12,packets={packets} --workers 4 --load 0.7 --costs table:measured --candidate hrw \
             --candidate fcfs --candidate drr --goal p99<2us,min=p99"
        )
    };
    let answer = document(at, &words("9k"));
    let held_out = answer["held_out_packets"].as_u64().expect("a count");
    assert!((2200..=2250).contains(&held_out), "{held_out}");
    assert_eq!((&answer["confidence"]["blocks"], &answer["confidence"]["packets"]), (&8.into(), &held_out.into()));
    let said = good(at, &format!("{} --details", words("9k"))).out;
    assert!(said.contains(&format!("{held_out} packets in 8 blocks were held out of the search")), "{said}");
    let short = document(at, &words("3k"));
    assert_eq!((&short["held_out_packets"], &short["confidence"]), (&0.into(), &Value::Null));
    let said = good(at, &words("3k")).out;
    assert!(
        said.contains("Nothing says how sure that is: of fewer than 8000 packets no blocks are held out"),
        "{said}"
    );
    let said = good(at, &format!("{} --details", words("3k"))).out;
    assert!(said.contains("The choice could not be checked: the input has fewer than 8000 packets"), "{said}");
}

#[test]
fn plain_hashing_is_enough_when_it_is() {
    let directory = directory();
    let words = "recommend --host ideal --input gen:poisson:packets=3k --workers 4 --load 0.2 --costs table:measured --candidate fcfs \
                 --candidate hrw --goal late<1%@1ms";
    let answer = document(directory.path(), words);
    assert_eq!((text(&answer, "/advice"), text(&answer, "/policy")), ("hashing_is_enough", "hrw"));
    let said = good(directory.path(), words).out;
    for word in ["Plain hashing is enough", "To run it:", "--load 0.2 --of 4 --tolerance 1ms --policy hrw --workers 4"]
    {
        assert!(said.contains(word), "`{word}` is not in\n{said}");
    }
}

#[test]
fn cores_that_would_do_are_named() {
    let directory = directory();
    let words = "recommend --host ideal --input gen:poisson:packets=3k --rate 60M --workers 2 --costs table:measured --candidate fcfs \
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

/// Where the dispatcher has no time left, no policy can help: the answer says what does, and offers no command.
#[test]
fn a_full_dispatcher_is_named_where_no_policy_keeps_the_goal() {
    let directory = directory();
    let words = "recommend --host appliance-4 --input gen:poisson:packets=20k --workers 2 --rate 4M --costs table:measured --candidate \
                 hrw --candidate drr --quiet";
    let asked = |goal: &str, more: &str| {
        let words = format!("{words} --goal {goal} {more}");
        run(directory.path(), &words.split_whitespace().collect::<Vec<_>>())
    };
    let said = asked("late<0.1%@20us", "--report page.html");
    assert_eq!(said.code, Some(1), "{said:?}");
    assert!(
        said.out.starts_with("No policy meets late<0.10 %@20.0 us here: the dispatcher is busy all the time ("),
        "{said:?}"
    );
    let remedy = "Offer fewer packets (--load, --multiplier), name a faster host (--host FILE), have several dispatchers \
                  or none (--dispatchers), or run to completion (humpyard run --workers 0).";
    assert!(said.out.contains(remedy) && !said.out.contains("To run it"), "{said:?}");
    let page = fs::read_to_string(directory.path().join("page.html")).expect("a page");
    assert!(page.contains("the dispatcher is busy all the time") && !page.contains("<pre>humpyard run"));
    let answer = asked("late<0.1%@20us", "--json").json();
    assert!(real(&answer, "/dispatcher_utilization") > 0.95, "{answer:#}");
    let kept = asked("p99<1s", "");
    let bottleneck = "The dispatcher is the bottleneck: busy ";
    assert!(kept.code == Some(0) && kept.out.contains(bottleneck) && kept.out.contains("To run it"), "{kept:?}");
    let ideal = document(directory.path(), &format!("recommend {FEW_FLOWS} --goal p99<1s"));
    assert!(ideal.get("dispatcher_utilization").is_none(), "{ideal:#}");
}

#[test]
fn a_fraction_that_may_be_a_percentage_is_doubted() {
    let said = |goal: &str| {
        let words = format!("recommend {FEW_FLOWS} --goal {goal}");
        run(Path::new("."), &words.split_whitespace().collect::<Vec<_>>())
    };
    let doubted = said("late<0.1");
    doubted.assert_one_line(&["warning: --goal: `late<0.1` is 10.0 %: write 10% for that, or 0.1% if you mean 0.10 %"]);
    assert!(doubted.out.contains("late<10.0 %"), "{doubted:?}");
    assert_eq!(said("late<10%").err, "");
}

#[test]
fn the_command_runs_and_the_page_is_written() {
    let directory = directory();
    make_capture(directory.path(), "in.pcap", 2_000);
    let words = "recommend --host ideal --input in.pcap --workers 1 --load 0.5 --costs table:measured --candidate hrw --candidate drr \
                 --services dpi,encrypt --goal late<5%@1s --report page.html";
    let answer = document(directory.path(), words);
    let command = text(&answer, "/command").strip_prefix("humpyard ").expect("this program").replace('\'', "");
    assert!(command.contains("--services dpi,encrypt") && !command.contains("--goal"), "{command}");
    let result = document(directory.path(), &format!("{command} --quiet"));
    let services = result["services"].as_array().expect("services");
    let packets: Vec<Option<u64>> = services.iter().map(|service| service["packets"].as_u64()).collect();
    assert_eq!(packets, [Some(2_000), Some(2_000)], "every packet goes through both");
    let page = fs::read_to_string(directory.path().join("page.html")).expect("a page");
    for word in
        ["Which scheduling policy", "hrw", "drr", "With other cores", "Delay over load", "<svg", "times the traffic"]
    {
        assert!(page.contains(word), "`{word}` is not in the page");
    }
}

#[test]
fn slips_are_told_in_a_line() {
    let directory = directory();
    let asked = "recommend --host ideal --input gen:poisson:packets=100 --workers 2 --load 0.5 --costs table:measured";
    for (words, expected) in [
        (String::from("recommend --host ideal --input gen:poisson:packets=100"), "--goal"),
        (format!("{asked} --goal lat<1%"), "did you mean `late`"),
        (format!("{asked} --goal late>1%"), "write late<"),
        (format!("{asked} --goal late<1%@2"), "unit"),
        (format!("{asked} --goal late<1%@2ms --tolerance 1ms"), "--tolerance and --goal"),
        (
            format!("{asked} --goal p99[dip]<1ms"),
            "no service and no client is called `dip`: services are forward; clients are client1 to client",
        ),
        (format!("{asked} --goal p99[client0]<1ms"), "is called `client0`"),
        (format!("{asked} --goal jitter[forward]<1ms"), "jitter is of all packets together"),
        (format!("{asked} --goal p99[forward<1ms"), "in brackets"),
        (format!("{asked} --goal late<1% --candidate hwr"), "did you mean `hrw`"),
        (format!("{asked} --goal late<1% --candidate everest"), "nothing to allocate"),
        (format!("{asked} --goal late<1% --budget 3"), "--budget 3 is too small"),
        (format!("{asked} --goal late<1% --swap 1ms=hrw"), "--swap"),
        (format!("{asked} --goal late<1% --services nothing"), "nothing"),
        (format!("{asked} --goal late<1% --report -"), "--report"),
        (String::from("recommend --input nowhere.pcap --goal late<1%"), "nowhere.pcap"),
        (
            String::from("recommend --host ideal --input gen:poisson --goal late<1% --rate line"),
            "cannot use --rate line",
        ),
    ] {
        let said = run(directory.path(), &words.split_whitespace().collect::<Vec<_>>());
        assert_eq!(said.code, Some(2), "{words}: {said:?}");
        said.assert_one_line(&[expected]);
    }
}

/// A chain of services, and a goal for one of them and for two clients.
const CHAIN: &str = "--input in.pcap --services dpi,encrypt --load 0.8 --costs table:measured";

#[test]
fn goals_for_services_are_held_to_the_figures_of_sim() {
    let directory = directory();
    let at = directory.path();
    make_capture(at, "in.pcap", 3_000);
    let goal = "p99[dpi]<1s,late[encrypt]<50%,throughput[dpi]>1,loss[encrypt]<1%,jitter<1s";
    let answer = document(at, &format!("recommend {CHAIN} --host ideal --workers 3 --candidate hrw --goal {goal}"));
    let sim = |seed| format!("sim {CHAIN} --policy hrw --cores 3 --seed {seed}");
    let seeds: Vec<Value> = (1..=3).map(|seed| document(at, &sim(seed))).collect();
    let worst = |path: &str| seeds.iter().map(|result| real(result, path)).fold(0.0, f64::max);
    assert_eq!(real(&answer, "/winner/figures/jitter_ns"), worst("/jitter_ns"));
    for (at, name) in ["dpi", "encrypt"].into_iter().enumerate() {
        let scope = |figure: &str| real(&answer, &format!("/winner/figures/scopes/{at}/{figure}"));
        assert_eq!(text(&answer, &format!("/winner/figures/scopes/{at}/scope")), name);
        assert_eq!(text(&seeds[0], &format!("/services/{at}/name")), name);
        for (figure, path) in [
            ("delay_p99_ns", "delay_offered_ns/p99"),
            ("delay_mean_ns", "delay_ns/mean"),
            ("late_fraction", "late/fraction"),
        ] {
            assert_eq!(scope(figure), worst(&format!("/services/{at}/{path}")), "{figure} of {name}");
        }
    }
    let figures = answer["winner"]["bounds"].as_array().expect("bounds").iter();
    let figures: Vec<&str> = figures.map(|bound| bound["figure"].as_str().expect("a name")).collect();
    assert_eq!(figures, ["p99[dpi]", "late[encrypt]", "throughput[dpi]", "loss[encrypt]", "jitter"]);
}

#[test]
fn a_goal_for_a_client_is_about_its_packets_alone() {
    let directory = directory();
    let at = directory.path();
    let of = |goal: &str| {
        document(
            at,
            &format!(
                "recommend --input gen:poisson:flows=1,packets=2k --host ideal --workers 2 --load 0.5 --costs table:measured \
                 --candidate hrw --goal {goal}"
            ),
        )
    };
    let answer = of("p99[client1]<1s,p99<1s");
    let p99 = |path: &str| real(&answer, &format!("/winner/figures/{path}"));
    assert_eq!(p99("scopes/0/delay_p99_ns"), p99("delay_p99_ns"), "it is the only client");
    make_capture(at, "in.pcap", 3_000);
    let ruled = "--rule source-port=1-32767,service=dpi,client=low --rule service=dpi,client=high";
    let answer = document(
        at,
        &format!(
            "recommend {CHAIN} {ruled} --host ideal --workers 3 --candidate drr --candidate hrw \
             --goal mean[low]<1s,mean[high]<1s,throughput[low]>1"
        ),
    );
    let scope = |at: usize, figure: &str| real(&answer, &format!("/winner/figures/scopes/{at}/{figure}"));
    let all = real(&answer, "/winner/figures/throughput_pps");
    let sum = scope(0, "throughput_pps") + scope(1, "throughput_pps");
    assert!(sum > 0.9 * all && sum < 1.01 * all, "{answer:#}");
}

/// On one core every order of arrival is the same, however it is come by.
#[test]
fn policies_that_decide_alike_are_one_finalist() {
    let directory = directory();
    let words = "recommend --host ideal --input gen:poisson:packets=9k --workers 1 --load 0.7 --costs table:measured --candidate jsq \
                 --candidate hrw --candidate ps-hrw --candidate fcfs --goal p99<1ms";
    let answer = document(directory.path(), words);
    let finalists = answer["finalists"].as_array().expect("finalists");
    assert_eq!(finalists.len(), 1, "{answer:#}");
    assert_eq!(text(&answer, "/policy"), "hrw", "the simplest stands for them");
    assert_eq!(finalists[0]["same_decisions"], serde_json::json!(["fcfs", "jsq", "ps-hrw"]));
    let said = good(directory.path(), words).out;
    assert!(said.contains("same decisions: fcfs, jsq, ps-hrw"), "{said}");
}

/// What is printed without options, with all that makes it longer: two policies, remarks, and more cores.
#[test]
fn the_answer_is_one_screen() {
    let directory = directory();
    let at = directory.path();
    make_capture(at, "in.pcap", 9_000);
    for goal in ["p99<2us,ooo<0.01%", "late<0.1%@2ms", "p99<100ns,loss<0.1%,min=p99"] {
        let words = format!(
            "recommend --host ideal --input in.pcap --workers 4 --load 0.8 --costs table:measured --candidate hrw \
             --candidate fcfs --candidate drr --flow-order free --quiet --goal {goal}"
        );
        let mut command = humpyard(at, &words.split_whitespace().collect::<Vec<_>>());
        let said = command.env("COLUMNS", "100").output().expect("the binary runs").stdout;
        let said = String::from_utf8(said).expect("text");
        let columns = said.lines().map(|line| line.chars().count()).max().unwrap_or(0);
        assert!(said.lines().count() <= 30 && columns <= 100, "{said}");
        let is_broken = goal.starts_with("p99<100ns");
        let (breaks, command) = if is_broken {
            ("times the traffic breaks the goal", "With 6 cores:")
        } else {
            ("What breaks it first: ", "To run it:")
        };
        for word in ["Policy `", breaks, "The flow with most work is ", "held out", command] {
            assert!(said.replace('\n', " ").contains(word), "`{word}` is not in\n{said}");
        }
        assert_eq!(said.contains("To run it:"), !is_broken, "{said}");
        let long = run(at, &words.replace("--quiet", "--quiet --details").split_whitespace().collect::<Vec<_>>()).out;
        assert!(
            long.contains("Of each figure the worst of 3 seeds.") && long.contains("The same packets faster"),
            "{long}"
        );
    }
}

#[test]
fn limits_are_where_the_goal_breaks() {
    let directory = directory();
    let at = directory.path();
    make_capture(at, "in.pcap", 3_000);
    let words = |workers: u64, times: f64| {
        format!(
            "recommend --host ideal --input in.pcap --workers {workers} --load {} --of 4 --costs table:measured \
             --candidate fcfs --goal p99<1us",
            0.7 * times
        )
    };
    let answer = document(at, &words(4, 1.0));
    let limits = &answer["limits"];
    let (kept, broken) = (real(limits, "/kept_at"), real(limits, "/broken_at/multiplier"));
    assert!(1.0 < kept && kept < broken && broken < 1.1 * kept, "{limits:#}");
    let holds = |words: String| {
        let words = format!("{words} --json");
        run(at, &words.split_whitespace().collect::<Vec<_>>()).json()["winner"]["holds"].as_bool().expect("it is known")
    };
    assert!(holds(words(4, kept)) && !holds(words(4, broken)));
    let cores = limits["cores"].as_u64().expect("enough");
    assert!(holds(words(cores, 1.0)) && (cores == 1 || !holds(words(cores - 1, 1.0))));
    assert!(text(limits, "/broken_at/by").starts_with("p99 "));
    let flow = &answer["heaviest_flow"];
    let share = real(flow, "/work_fraction");
    assert!((real(flow, "/cores") - share * 0.7 * 4.0).abs() < 1e-5 && text(flow, "/flow").contains(" > "), "{flow:#}");
}

#[test]
fn the_delay_over_load_is_drawn() {
    let directory = directory();
    let at = directory.path();
    make_capture(at, "in.pcap", 2_000);
    let words = "recommend --host ideal --input in.pcap --workers 4 --load 0.7 --costs table:measured \
                 --candidate hrw --candidate fcfs --goal loss<1%,p90<2us --plot load.svg";
    let answer = document(at, words);
    let curve = &answer["load_curve"];
    assert_eq!((text(curve, "/figure"), real(curve, "/bound_ns")), ("p90", 2000.0));
    let points = curve["points"].as_array().expect("points");
    assert_eq!(points.len(), 16, "eight multiples, two policies");
    let asked = points.iter().find(|point| point["policy"] == "fcfs" && point["multiplier"] == 1.0).expect("a point");
    assert!(real(asked, "/delay_ns") <= real(&answer, "/winner/figures/delay_p90_ns"));
    let drawn = fs::read_to_string(at.join("load.svg")).expect("a plot");
    for word in ["<svg", "p90 over load", "goal", "hrw", "fcfs", "70.0 % of what the cores can do"] {
        assert!(drawn.contains(word), "`{word}` is not in the plot");
    }
    let command = text(&answer, "/command");
    assert!(!command.contains("--plot"), "{command}");
}

#[test]
fn cores_are_counted_for_more_traffic() {
    let directory = directory();
    let at = directory.path();
    make_capture(at, "in.pcap", 9_000);
    let words = "recommend --host ideal --input in.pcap --workers 4 --load 0.7 --costs table:measured \
                 --candidate hrw --candidate fcfs --goal p99<1us --size";
    let [answer, other] = [1, 2].map(|threads| document(at, &format!("{words} --threads {threads}")));
    assert_eq!(answer["sizing"]["sizes"], other["sizing"]["sizes"].clone());
    let sizes = answer["sizing"]["sizes"].as_array().expect("sizes");
    assert_eq!((sizes.len(), &answer["sizing"]["blocks"]), (8, &8.into()));
    assert!(text(&answer, "/sizing/rests_on").starts_with("the papers' machine"));
    let cores = |size: &Value, name: &str| size[name].as_u64().unwrap_or_else(|| panic!("{size:#}"));
    for of_policy in sizes.chunks(4) {
        let numbers: Vec<u64> = of_policy.iter().map(|size| cores(size, "cores")).collect();
        assert!(numbers.is_sorted(), "more traffic needs no fewer cores: {numbers:?}");
        let within = |size: &Value| (cores(size, "least")..=cores(size, "most")).contains(&cores(size, "cores"));
        assert!(of_policy.iter().all(|size| within(size) && size["not_sure"].is_null()), "{of_policy:#?}");
    }
    let size = &sizes[1];
    assert_eq!((text(size, "/policy"), real(size, "/multiplier")), ("fcfs", 1.5));
    assert!(real(&typed(at, size), "/delay_ns/p99") < 1000.0);
    let fewer = cores(size, "cores") - 1;
    let command = text(size, "/command").replace(&format!("--cores {}", fewer + 1), &format!("--cores {fewer}"));
    let worst =
        |seed| real(&typed(at, &serde_json::json!({ "command": format!("{command} --seed {seed}") })), "/delay_ns/p99");
    assert!((1..=3).map(worst).fold(0.0, f64::max) > 1000.0, "one core less is not enough");
    let said = good(at, &format!("{words} --quiet")).out;
    for word in ["cores for", "x1.5", "the papers' machine", "8 held-out blocks"] {
        assert!(said.replace('\n', " ").contains(word), "`{word}` is not in\n{said}");
    }
    let words_there = format!("{} --json", words.replace("--host ideal", "--host server-16"));
    let unsure = run(at, &words_there.split_whitespace().collect::<Vec<_>>()).json();
    assert!(text(&unsure, "/sizing/sizes/0/not_sure").contains("never held against live runs"));
    let said = run(at, &format!("{words} --verify").split_whitespace().collect::<Vec<_>>());
    assert_eq!(said.code, Some(2), "{said:?}");
}
