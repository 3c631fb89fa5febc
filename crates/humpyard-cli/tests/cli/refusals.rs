//! Bad usage and bad input: exit code 2, one line that helps, nothing on the standard output, no file left behind.

use std::fs::{self, File};
use std::io::pipe;
use std::path::Path;
use std::process::Stdio;

use crate::support::{Said, captures, directory, document, files, humpyard, make_capture, run};

/// Panics unless these words are refused with a line that has all of `expected` in it, and no file came or went.
fn assert_refused(directory: &Path, words: &str, expected: &[&str]) {
    let before = files(directory);
    let said = run(directory, &words.split_whitespace().collect::<Vec<_>>());
    assert!(said.code == Some(2) && said.out.is_empty(), "{words}: {said:?}");
    said.assert_one_line(expected);
    assert_eq!(files(directory), before, "{words}");
}

#[test]
fn inputs_that_are_none() {
    let directory = directory();
    let at = |name: &str| directory.path().join(name);
    make_capture(directory.path(), "good.pcap", 100);
    for extension in ["pcap.gz", "pcap.zst", "pcapng"] {
        make_capture(directory.path(), &format!("good.{extension}"), 100);
        let whole = fs::read(at(&format!("good.{extension}"))).unwrap();
        fs::write(at(&format!("header.{extension}")), &whole[..9]).unwrap();
    }
    fs::write(at("empty.pcap"), "").unwrap();
    fs::write(at("text.pcap"), "This is no capture.\n").unwrap();
    let whole = fs::read(at("good.pcap")).unwrap();
    fs::write(at("header.pcap"), &whole[..20]).unwrap();
    fs::write(at("stub.pcap"), &whole[..3]).unwrap();
    fs::write(at("other.pcap.xz"), [0xfd, b'7', b'z', b'X', b'Z', 0, 0, 0]).unwrap();
    fs::create_dir(at("folder")).unwrap();
    for (input, expected) in [
        ("missing.pcap", "missing.pcap: there is no such file"),
        ("empty.pcap", "empty.pcap: this is empty"),
        ("text.pcap", "text.pcap: this is no capture"),
        ("stub.pcap", "stub.pcap: this ends after 3 bytes"),
        ("header.pcap", "header.pcap: this ends after 20 bytes"),
        ("header.pcap.gz", "header.pcap.gz: "),
        ("header.pcap.zst", "header.pcap.zst: "),
        ("header.pcapng", "header.pcapng: this ends after 9 bytes"),
        ("other.pcap.xz", "xz compressed"),
        ("folder", "folder: this is a directory"),
        ("gen:poison", "did you mean `poisson`?"),
        ("gen:poisson:flow=3", "did you mean `flows`?"),
        ("gen:poisson:flows=0", "flows"),
        ("gen:poisson:flows", "name=value"),
        ("gen:", "there are: poisson, messages, onoff"),
        ("-", "standard input: this is empty"),
    ] {
        for command in [
            "run --policy hrw --output out.pcap --input",
            "run --policy hrw --json --quiet --input",
            "sim --policy drr --input",
            "compare --policy rr --input",
            "trace info",
        ] {
            assert_refused(directory.path(), &format!("{command} {input}"), &[expected]);
        }
    }
    assert_refused(directory.path(), "trace info", &["SRC", "--help"]);
}

/// What people type by another habit is named, with the way out.
#[test]
fn slips_of_habit_are_told_how_to_mend() {
    let directory = directory();
    let sim = "sim --policy hrw --input gen:poisson:packets=10";
    for (words, expected) in [
        (
            "sim --policy hrw --input gen:poisson:packets=99999999999999999999",
            "`packets` takes a whole number up to 18446744073709551615 (in packets), not `99999999999999999999`",
        ),
        (&format!("{sim} --cores 1000000000"), "invalid value '1000000000' for '--cores <N>': it takes 0 to 16384"),
        (
            &format!("{sim} --switch-cost 20usec"),
            "--switch-cost: `usec` is no unit of time: write `20usec` in ns, us, ms, s, min or h, for example 20us",
        ),
        ("run --policy hrw --input gen:poisson:packets=10 --output .", ".: this is a directory; name a file in it"),
        (
            "explain split",
            "`split` is an option, --split of run, sim, compare, recommend, validate, why: `humpyard run --help` explains it",
        ),
    ] {
        assert_refused(directory.path(), words, &[expected]);
    }
    let load = |load: &str| document(directory.path(), &format!("{sim} --load {load}"))["options"]["load"].clone();
    assert_eq!((load("90%"), load("0.9")), ("0.9".into(), "0.9".into()));
    let cost = document(directory.path(), &format!("{sim} --switch-cost 20µs"))["options"]["switch-cost"].clone();
    assert_eq!(cost, "20us");
}

#[test]
fn names_and_values_that_are_none() {
    let directory = directory();
    for (words, expected) in [
        ("--policy hrv", &["no policy `hrv`", "did you mean `hrw`?", "static"] as &[&str]),
        ("--policy share=hrw", &["no share policy `hrw`", "fcfs, "]),
        ("--policy stear=hrw", &["did you mean `steer`?"]),
        ("--policy drr/sfq", &["two share policies"]),
        ("--policy drr:quant=9", &["no parameter `quant`", "did you mean `quantum`?"]),
        ("--policy drr:quantum=lots", &["`quantum` takes", "not `lots`"]),
        ("--policy drr:quantum=1", &["`quantum` must be at least the longest packet"]),
        ("--policy drr:surplus=perhaps", &["true or false", "not `perhaps`"]),
        ("--policy drr:quantum", &["name=value"]),
        ("--policy conn:hash=md5", &["`hash`", "not `md5`"]),
        ("--policy hrw --services forwrad", &["no service `forwrad`", "did you mean `forward`?"]),
        ("--policy hrw --services forward:route=x", &["did you mean `routes`?"]),
        ("--policy hrw --services forward:routes=10.0.0.0/33=out", &["10.0.0.0/33"]),
        ("--policy hrw --services tcp=forward", &["end with one for `any` or `other`"]),
        ("--policy hrw --services tpc=forward,other=forward", &["tpc"]),
        ("--policy hrw --services tcp=forward,tcp=forward,other=forward", &["two services are called `tcp`"]),
        ("--policy hrw --costs table:measure", &["did you mean `measured`?"]),
        ("--policy hrw --tolerance 5", &["a time has a unit", "`5`"]),
        ("--policy hrw --tolerance forwrad=5ms", &["no service of this run `forwrad`", "did you mean `forward`?"]),
        ("--policy hrw --guarantee 0.5", &["SERVICE=SHARE"]),
        ("--policy hrw --guarantee forward=nan", &["from 0 to 1"]),
        ("--policy hrw --guarantee forward=1.5", &["from 0 to 1"]),
        ("--policy hrw --guarantee forwrad=0.5", &["did you mean `forward`?"]),
        (
            "--policy hrw --services tcp=forward,other=forward --guarantee tcp=0.7 --guarantee other=0.4",
            &["add up to 1.1", "lower one"],
        ),
        ("--policy hrw --clients floe", &["did you mean `flow`?", "connection"]),
        ("--policy hrw --hash adresses", &["'adresses'", "--hash <", "addresses"]),
        ("--policy hrw --weights 0", &["--weights takes whole numbers from 1", "`0`"]),
        ("--policy hrw --weights 3,,1", &["--weights", "``"]),
        ("--policy hrw --weights 3,-1", &["--weights", "`-1`"]),
        ("--policy hrw --weights 99999999999", &["--weights", "`99999999999`"]),
        ("--policy hrw --tolerance =5ms", &["--tolerance: reads TIME or SERVICE=TIME", "`=5ms`"]),
        ("--policy hrw --switch-cost soon", &["--switch-cost: a time has a unit", "`soon`"]),
        ("--policy hrw --switch-cost 99999999999999999s", &["--switch-cost: a time is 1000000000 s at most"]),
        ("--policy hrw --switch-cost forward=1ms,=2ms", &["--switch-cost: reads TIME or SERVICE=TIME", "`=2ms`"]),
        ("--policy hrw --switch-cost forwrad=5ms", &["--switch-cost: no service of this run `forwrad`"]),
        (
            "--policy hrw --switch-cost forward=2ms,forward=3ms",
            &["--switch-cost `forward=3ms`", "`forward` is given twice"],
        ),
        ("--policy hrw --tolerance 1ms,5ms", &["--tolerance `5ms`", "what holds for all others is given twice"]),
        (
            "--policy hrw --guarantee forward=0.6 --guarantee forward=0.2",
            &["--guarantee `forward=0.2`", "`forward` is given twice: give it once"],
        ),
        ("--policy hrw --chain forward=x,forward=y", &["--chain `forward=y`", "`forward` is given twice"]),
        ("--policy hrw --tolerance -1ms", &["--tolerance: a time has a unit", "2ms", "`-1ms`"]),
        ("--policy hrw --switch-cost -1ms", &["--switch-cost: a time has a unit", "`-1ms`"]),
        ("--policy hrw --stall -1ms", &["--stall: a time has a unit", "`-1ms`"]),
        (
            "--policy hrw --flow-order exit:time=-1ms",
            &["--flow-order exit:time=-1ms", "`time` takes a time with its unit", "`-1ms`"],
        ),
        ("--policy hrw --flow-timeout -1ms", &["--flow-timeout: a time has a unit", "`-1ms`"]),
        ("--policy hrw --warmup -1ms", &["--warmup: a time has a unit", "`-1ms`"]),
        ("--policy hrw --swap -1ms=drr", &["--swap: a time has a unit", "`-1ms`"]),
        ("--policy quantum:quantum=10sm", &["quantum: `quantum` takes", "(in ns, or with a unit: 10ms)", "`10sm`"]),
        ("--policy hrw --stall 5", &["--stall: a time has a unit", "`5`"]),
        (
            "--policy hrw --flow-order exit:time=5",
            &["--flow-order exit:time=5", "`time` takes a time with its unit", "`5`"],
        ),
        ("--policy hrw --split 4", &["--split: a parameter reads name=value", "`4`"]),
        ("--policy hrw --split corse=4", &["--split: no parameter `corse`", "did you mean `cores`?", "window"]),
        ("--policy hrw --split cores=1", &["--split: `cores` takes 2 to 16", "`1`"]),
        ("--policy hrw --split share=-1", &["--split: `share` takes 0 to 16", "`-1`"]),
        ("--policy hrw --split window=9", &["--split: `window` takes a time with its unit", "`9`"]),
        ("--policy drr --split cores=2", &["flows are split where packets are steered", "a steering policy, conn"]),
        ("--policy static --split cores=2", &["flows are split where packets are steered"]),
        ("--policy hrw --split cores=2 --unit bytes", &["share of a core", "let the unit of work be ns"]),
        ("--policy hrw --swap 5=drr", &["--swap: a time has a unit", "`5`"]),
        ("--policy hrw --chain forward=x", &["--chain: no service of this run `x`", "forward"]),
        ("--policy hrw --services =forward", &["--services takes SERVICE or NAME=SERVICE", "`=forward`"]),
        ("--policy hrw --services web=", &["--services takes SERVICE or NAME=SERVICE", "`web=`"]),
        ("--policy hrw --services web=forward,other=forward", &["no packet gets the service `web`", "service=web"]),
        ("--policy hrw --topology 2x4", &["--topology has 8 cores, and there are 2", "another topology"]),
        ("--policy hrw --rule x", &["a rule reads name=value", "`x`"]),
        ("--policy hrw --rule port=80,443", &["lists joined by `+`", "`443`"]),
        ("--policy hrw --rule prt=80", &["no key of a rule `prt`", "did you mean `port`?", "guarantee"]),
        ("--policy hrw --rule protocol=tpc", &["`protocol` takes any, tcp", "`tpc`"]),
        ("--policy hrw --rule source=10.0.0.1/8", &["`source` takes a prefix", "`10.0.0.1/8`"]),
        ("--policy hrw --rule port=80,port=81", &["`port` is given twice"]),
        (
            "--policy hrw --rule service=web",
            &["rule 1, `any,service=web`", "no service of this run `web`", "--services adds one: web=SERVICE"],
        ),
        ("--policy hrw --rule direction=out", &["--local 10.0.0.0/8"]),
        ("--policy hrw --rule port=80,protocol=icmp", &["no packet can match", "drop one"]),
        ("--policy hrw --local here", &["a local prefix is", "`here`"]),
        ("--policy hrw --config missing.toml", &["missing.toml: there is no such configuration file"]),
        ("--policy hrw --load 0", &["--load takes a number from 0.000001"]),
        ("--policy hrw --load -1", &["--load takes a number from 0.000001", "-1"]),
        ("--policy hrw --load nan", &["--load takes a number from 0.000001"]),
        ("--policy hrw --load inf", &["--load takes a number from 0.000001"]),
        ("--policy hrw --load much", &["--load", "much"]),
        ("--policy hrw --load 0.5 --rate 100", &["--load", "--rate"]),
        ("--policy hrw --rate -5", &["packets per second", "`-5`"]),
        ("--policy hrw --rate 0", &["packets per second", "`0`"]),
        ("--policy hrw --rate fast", &["packets per second", "`fast`"]),
        ("--policy hrw --loop 0", &["--loop"]),
        ("--policy hrw --buffer 0", &["--buffer"]),
        ("--policy hrw --buffer 100 --flows 100", &["--flows (100) must be greater than --buffer (100)"]),
        ("--policy hrw --flows 99999999999", &["--flows"]),
        ("--policy hrw --unit hours", &["--unit", "bytes"]),
        ("--policy hrw --seed -1", &["-1"]),
        (
            "--policy static --services tcp=forward,udp=forward,other=forward",
            &["3 services need at least 3 cores, not 2"],
        ),
        ("--policy hrw --no-such-option", &["--no-such-option", "--help"]),
    ] {
        for command in ["run --output out.pcap", "sim", "compare", "compare --live"] {
            assert_refused(directory.path(), &format!("{command} --input gen:poisson:packets=10 {words}"), expected);
        }
    }
}

#[test]
fn usage_of_single_commands() {
    let directory = directory();
    fs::create_dir(directory.path().join("folder")).unwrap();
    for (words, expected) in [
        ("rum", &["rum", "run"] as &[&str]),
        ("run --policy hrw", &["--input <SRC>"]),
        ("run --input gen:poisson", &["--policy <SPEC>"]),
        ("run --policy hrw --input gen:poisson --workers 9999999", &["--workers", "9999999"]),
        ("run --policy hrw --input gen:poisson --workers -1", &["-1"]),
        ("run --policy hrw --input gen:poisson --in-flight 0", &["--in-flight"]),
        ("run --policy hrw --input gen:poisson --for soon", &["a time has a unit", "soon"]),
        ("run --policy hrw --input gen:poisson --for -1s", &["--for: a time has a unit", "`-1s`"]),
        ("trace cut in.pcap --output out.pcap --from -1s", &["--from: a time has a unit", "`-1s`"]),
        ("trace info in.pcap --flow-timeout -1s", &["--flow-timeout: a time has a unit", "`-1s`"]),
        ("run --policy hrw --input gen:poisson --overload panic", &["--overload", "wait, drop"]),
        ("run --policy hrw --input gen:poisson --cores 2", &["--cores"]),
        ("run --policy t-opt --input gen:poisson", &["`t-opt` must know all packets", "use `humpyard sim`"]),
        ("run --policy scr --input gen:poisson", &["`scr` needs a service", "use `humpyard sim`"]),
        ("run --policy ps --input gen:poisson --clock virtual", &["`ps` gives packets back", "omit --clock"]),
        ("run --policy ps --input gen:poisson --swap 1ms=fcfs", &["`ps` gives packets back", "omit --swap"]),
        ("sim --policy ps --input gen:poisson --swap 1ms=fcfs", &["`ps` gives packets back", "omit --swap"]),
        ("sim --policy fcfs --input gen:poisson --swap 1ms=ps", &["--swap: `ps` has a quantum", "--policy"]),
        ("sim --policy ps --input gen:poisson --host server-16", &["`ps` gives packets back", "--host ideal"]),
        ("sim --policy ps --input gen:poisson --hand-over 1us", &["a quantum cannot be combined with a hand-over"]),
        ("sim --policy steer=hrw/share=concord --input gen:poisson", &["a quantum needs one queue for all cores"]),
        ("sim --policy drr --input gen:poisson --link 10Mbit:share=srpt:quantum=1000", &["--link", "has a quantum"]),
        ("sim --policy lap --input gen:poisson --swap 1ms=scr", &["`scr` changes the work", "--swap"]),
        ("sim --policy lap --input gen:poisson --swap 1ms=t-opt", &["`t-opt` must know all packets", "--policy"]),
        ("sim --policy efq-lap:high=2,low=2 --input gen:poisson", &["efq-lap: `low` must be less than `high`"]),
        ("run --policy hrw --input gen:poisson --clock wall", &["--clock", "real, virtual"]),
        (
            "run --policy hrw --input gen:poisson --output out.pcap --clock virtual --rate line",
            &["a virtual clock goes by the times at which packets arrive", "--rate trace"],
        ),
        ("run --policy hrw --input - --clock virtual --load 0.5", &["--load reads the input twice"]),
        ("sim --policy hrw --input gen:poisson --clock virtual", &["--clock"]),
        (
            "run --policy hrw --input gen:poisson --hash addresses --services dpi",
            &["--hash addresses: all connections between two hosts", "`dpi`", "use --hash ports"],
        ),
        ("sim --policy hrw --input gen:poisson --hash addresses --services l7-filter:weight=http=3", &["`l7-filter`"]),
        ("compare --policy rr --input gen:poisson --clock virtual", &["--clock", "is for live runs: add --live"]),
        ("run --policy hrw --input gen:poisson --output - --json", &["--output - and --json"]),
        ("run --policy hrw --input - --load 0.5", &["--load reads the input twice"]),
        ("run --policy hrw --input - --loop 2", &["standard input can be played once"]),
        ("sim --policy hrw --input - --load 0.5", &["--load reads the input twice"]),
        ("sim --policy hrw --input gen:poisson --cores 0", &["--cores", "at least one core"]),
        ("sim --policy hrw --input gen:poisson --cores 99999", &["--cores"]),
        ("sim --policy hrw --input gen:poisson --rate line", &["a simulation cannot use --rate line"]),
        ("sim --policy hrw --input gen:poisson --workers 2", &["--workers"]),
        ("sim --policy hrw --input gen:poisson:packets=1 --load 0.5", &["all packets", "come at once"]),
        ("sim --policy hrw --policy rr --input gen:poisson", &["--policy"]),
        ("compare --input gen:poisson", &["--policy <SPEC>"]),
        ("compare --policy rr --policy nope --input gen:poisson", &["no policy `nope`"]),
        ("compare --policy rr --policy hrw --input -", &["once per policy"]),
        ("compare --policy rr --input gen:poisson --workers 2", &["--live"]),
        ("schedule --policy hrw --weights 1 --slots 3", &["a sharing policy alone, not `hrw`"]),
        ("schedule --policy hrw/drr --weights 1 --slots 3", &["a sharing policy alone"]),
        ("schedule --policy drr --weights 1,0 --slots 3", &["--weights", "`0`"]),
        ("schedule --policy drr --weights 3,2,1 --slots 0", &["--slots"]),
        ("schedule --policy drr --weights 3,2,1 --slots 3 --processors 0", &["--processors"]),
        ("schedule --policy drr --weights 3,2,1 --slots 3 --order 1,2", &["--order", "from 1 to 3 once"]),
        ("schedule --policy drr --weights 3,2,1 --slots 3 --order 1,2,2", &["--order", "from 1 to 3 once"]),
        ("schedule --policy drr --weights 3,2,1 --slots 3 --order 0,1,2", &["--order", "from 1 to 3 once"]),
        ("schedule --policy drr --weights 3,2,1 --slots 3 --order a,b,c", &["--order", "from 1 to 3 once"]),
        ("schedule --policy drr", &["--weights", "--slots"]),
        ("schedule --policy drr --weights 3,2,1", &["--slots"]),
        (
            "schedule --policy drr --weights 3,2,1 --slots 3 --clients 9 --total 99",
            &["--clients", "--weights", "cannot be used with"],
        ),
        (
            "schedule --policy drr --weights 3,2,1 --slots 3 --total 99",
            &["--total", "--weights", "cannot be used with"],
        ),
        ("schedule --policy drr --weights 3,2,1 --slots 3 --draws 9", &["--draws", "--weights", "cannot be used with"]),
        (
            "schedule --policy drr --weights 3,2,1 --slots 3 --heavy last",
            &["--heavy", "--weights", "cannot be used with"],
        ),
        ("schedule --policy drr --total 99", &["--clients"]),
        ("schedule --policy drr --clients 9", &["--total"]),
        ("schedule --policy drr --clients 9 --total 8", &["9 clients", "add up to 8", "greater total"]),
        ("schedule --policy drr --clients 9 --total 99 --skew 0.95", &["of which one has 94", "less skew"]),
        ("schedule --policy drr --clients 9 --total 99 --skew 1.1", &["skew", "from 0 to 1, not 1.1"]),
        ("schedule --policy drr --clients 9 --total 99 --skew -0.1", &["skew", "from 0 to 1, not -0.1"]),
        ("schedule --policy drr --clients 9 --total 99 --skew nan", &["skew", "from 0 to 1"]),
        ("schedule --policy drr --clients 9 --total 99 --skew x", &["--skew"]),
        ("schedule --policy drr --clients 9 --total 99 --draws 0", &["--draws"]),
        ("schedule --policy drr --clients 1 --total 99", &["--clients"]),
        ("schedule --policy drr --clients 9 --total 99 --heavy middle", &["--heavy", "first, last"]),
        ("schedule --policy drr --clients 9 --total 99 --threads 0", &["--threads", "it takes 1 to 1024"]),
        ("reproduce gr3-fig2 --threads 0", &["--threads", "it takes 1 to 1024"]),
        ("sim --policy drr --input gen:poisson --load 1e-300", &["--load", "from 0.000001 to 1000", "not 1e-300"]),
        ("sim --policy drr --input gen:poisson --rate 1e-300", &["0.001 to 1e12", "not `1e-300`"]),
        ("sim --policy drr --input gen:poisson --weights 4294967296", &["from 1 to 4294967295"]),
        ("sim --policy drr --input gen:poisson --rule port=80,weight=4294967296", &["from 1 to 4294967295"]),
        ("schedule --policy drr --clients 9 --total 99 --plot a.svg", &["--plot"]),
        ("schedule --policy drr --clients 9 --total 99 --order 1", &["--order"]),
        ("schedule --policy hrw --clients 9 --total 99", &["a sharing policy alone, not `hrw`"]),
        ("list polices", &["polices", "policies"]),
        (
            "explain dr",
            &[
                "no policy, service, experiment, profile, cost table or document `dr`",
                "did you mean `drr`",
                "`humpyard list` has all",
            ],
        ),
        ("explain", &["NAME"]),
        ("trace inf in.pcap", &["inf", "info"]),
        ("completions", &["SHELL"]),
        ("replay folder", &["cannot read the journal `folder`"]),
        ("demo --packets 0", &["--packets"]),
        ("demo --workers 9999999", &["--workers"]),
    ] {
        assert_refused(directory.path(), words, expected);
    }
}

#[test]
fn outputs_that_cannot_be() {
    let directory = directory();
    fs::write(directory.path().join("file"), "").unwrap();
    fs::create_dir(directory.path().join("folder.pcap")).unwrap();
    for (output, expected) in [
        ("missing/out.pcap", "missing/out.pcap: the directory missing does not exist"),
        ("file/out.pcap", "file/out.pcap: cannot be written: file is a file, no directory; name another"),
        ("/proc/out.pcap", "/proc/out.pcap: the directory /proc takes no files; name another"),
        ("/proc/nope/out.pcap", "/proc/nope/out.pcap: the directory /proc/nope does not exist"),
        ("folder.pcap", "folder.pcap: cannot be written: this is no name of a file"),
        ("out.txt", "use .pcap or .pcapng"),
        ("out", "use .pcap or .pcapng"),
        ("out.pcap.xz", "use .pcap or .pcapng"),
        ("null", "use .pcap or .pcapng"),
        ("iface:eth77", "no interface `eth77`; "),
    ] {
        for workers in [0, 2] {
            let words =
                format!("run --policy hrw --input gen:poisson:packets=1000 --workers {workers} --output {output}");
            assert_refused(directory.path(), &words, &[expected]);
        }
    }
    for option in ["--output", "--quarantine"] {
        let said = run(directory.path(), &["run", "--policy", "hrw", "--input", "gen:poisson", option, ""]);
        assert_eq!((said.code, said.out.as_str()), (Some(2), ""));
        said.assert_one_line(&["the destination is empty"]);
    }
}

/// The hidden name that a file has while it is written is nobody's business.
#[test]
fn journals_that_cannot_be() {
    let directory = directory();
    fs::write(directory.path().join("file"), "").unwrap();
    fs::create_dir(directory.path().join("folder")).unwrap();
    for (journal, expected) in [
        ("missing/j.jsonl", "`missing/j.jsonl`: the directory missing does not exist; make it, or name another"),
        ("file/j.jsonl", "`file/j.jsonl`: file is a file, no directory; name another"),
        ("folder", "`folder`: this is no name of a file"),
        ("/proc/j.jsonl", "`/proc/j.jsonl`: the directory /proc takes no files; name another"),
    ] {
        for command in ["run", "sim"] {
            let words = format!("{command} --policy hrw --input gen:poisson:packets=1000 --journal {journal}");
            assert_refused(directory.path(), &words, &["cannot write the journal", expected]);
            let said = run(directory.path(), &words.split(' ').collect::<Vec<_>>());
            assert!(!said.err.contains(".part"), "{said:?}");
        }
    }
}

/// A directory without permission, where there is somebody whom permissions hold back.
#[test]
#[expect(clippy::print_stderr, reason = "a test that skips must say so")]
fn directories_without_permission() {
    use std::os::unix::fs::PermissionsExt;

    let directory = directory();
    let locked = directory.path().join("locked");
    fs::create_dir(&locked).unwrap();
    fs::write(directory.path().join("secret.pcap"), "").unwrap();
    fs::set_permissions(&locked, fs::Permissions::from_mode(0o555)).unwrap();
    fs::set_permissions(directory.path().join("secret.pcap"), fs::Permissions::from_mode(0o000)).unwrap();
    if fs::write(locked.join("probe"), "").is_ok() {
        eprintln!("SKIPPED directories_without_permission: this user may write everywhere");
        return;
    }
    let words = "run --policy hrw --input gen:poisson:packets=100";
    for (rest, expected) in [
        ("--output locked/out.pcap", "no permission to make files in the directory locked; name another"),
        ("--journal locked/j.jsonl", "no permission to make files in the directory locked; name another"),
        ("--quarantine locked/q.pcap", "no permission to make files in the directory locked; name another"),
    ] {
        assert_refused(directory.path(), &format!("{words} {rest}"), &[expected]);
    }
    let words = "sim --policy hrw --input secret.pcap";
    assert_refused(directory.path(), words, &["secret.pcap: cannot be read", "ermission denied"]);
}

#[test]
fn quarantines_that_cannot_be() {
    let directory = directory();
    for (quarantine, expected) in [
        ("missing/bad.pcap", "missing/bad.pcap: the directory missing does not exist"),
        ("bad.txt", "use .pcap or .pcapng"),
        ("-", "--quarantine takes the name of a capture file, not `-`"),
        ("null:", "--quarantine takes the name of a capture file, not `null:`"),
        ("out.pcap", "--quarantine and --output are both `out.pcap`"),
        ("./out.pcap", "--quarantine and --output are both `./out.pcap`"),
        ("tun:0", "only `humpyard run` uses live interfaces"),
    ] {
        let words = "run --policy hrw --input gen:poisson:packets=1000 --output out.pcap --quarantine";
        assert_refused(directory.path(), &format!("{words} {quarantine}"), &[expected]);
    }
    for command in ["sim --policy hrw", "compare --policy hrw", "compare --live --policy hrw"] {
        let words = format!("{command} --input gen:poisson:packets=10 --quarantine bad.pcap");
        assert_refused(directory.path(), &words, &["--quarantine", "--help"]);
    }
}

/// Nothing is written over what is read, and no two files under one name.
#[test]
fn files_of_their_own() {
    let directory = directory();
    let capture = directory.path().join("in.pcap");
    make_capture(directory.path(), "in.pcap", 10);
    let texts = [
        ("costs.toml", "version = 1\n[services.forward]\nfixed_ns = 500\n"),
        ("tree.toml", "version = 1\nlevels = [{ kind = \"core\" }]\ncores = [0, 1]\n"),
        ("run.toml", "policy = \"hrw\"\ninput = \"gen:poisson:packets=10\"\n"),
        ("self.toml", "policy = \"hrw\"\njournal = \"self.toml\"\n"),
        ("rules", "allow protocol=tcp\n"),
    ];
    texts.iter().for_each(|(name, text)| fs::write(directory.path().join(name), text).unwrap());
    let before = fs::read(&capture).unwrap();
    for (words, expected) in [
        (
            "sim --policy hrw --input gen:poisson:packets=10 --costs costs.toml --journal costs.toml",
            "--journal would replace an input, `costs.toml` (--costs): name another file",
        ),
        (
            "recommend --host ideal --goal p99<1ms --input gen:poisson:packets=10 --costs costs.toml --report costs.toml",
            "--report would replace an input, `costs.toml` (--costs)",
        ),
        (
            "validate --input gen:poisson:packets=10 --costs costs.toml --report ./costs.toml",
            "--report would replace an input, `./costs.toml` (--costs)",
        ),
        (
            "compare --policy hrw --input gen:poisson:packets=10 --topology tree.toml --report tree.toml",
            "--report would replace an input, `tree.toml` (--topology)",
        ),
        (
            "sim --policy hrw --input gen:poisson:packets=10 --topology tree.toml --journal tree.toml",
            "--journal would replace an input, `tree.toml` (--topology)",
        ),
        ("topology tree.toml --plot tree.toml", "--plot would replace an input, `tree.toml` (SOURCE)"),
        ("topology tree.toml --output tree.toml", "--output would replace an input, `tree.toml` (SOURCE)"),
        ("sim --config run.toml --journal run.toml", "--journal would replace an input, `run.toml` (--config)"),
        (
            "sim --config self.toml --input gen:poisson:packets=10",
            "self.toml:2:11: `journal`: --journal would replace an input, `self.toml` (--config)",
        ),
        ("check self.toml --for sim", "self.toml:2:11: `journal`: --journal would replace an input"),
        (
            "run --policy hrw --input gen:poisson:packets=10 --services tcp=firewall:file=rules,other=forward --journal rules",
            "--journal would replace an input, `rules` (--services)",
        ),
        (
            "sim --policy hrw --input gen:compose:payloads=gen:scale:input=in.pcap;factor=2 --journal in.pcap",
            "--journal would replace an input, `in.pcap` (--input)",
        ),
        ("calibrate --output x --matrix-output x", "--matrix-output and --output are both `x`"),
        ("calibrate --output a.toml --plot a.toml", "--plot and --output are both `a.toml`"),
        ("calibrate --output p/calibration.html --plot p", "--plot and --output are both `p/calibration.html`"),
        ("topology 2x2 --output s --plot ./s", "--plot and --output are both `./s`"),
        ("topology 2x2 --plot x.PNG", "--plot writes SVG, and `x.PNG` names another format: name it `x.svg`"),
        ("run --policy hrw --input in.pcap --output ./in.pcap", "--output would replace an input, `./in.pcap`"),
        ("run --policy hrw --input in.pcap --journal in.pcap", "--journal would replace an input"),
        ("sim --policy hrw --input in.pcap --timeline in.pcap", "--timeline would replace an input"),
        ("compare --policy hrw --input in.pcap --report in.pcap", "--report would replace an input"),
        ("trace cut in.pcap --output in.pcap", "--output would replace an input"),
        ("trace merge in.pcap gen:poisson --output in.pcap", "--output would replace an input"),
        ("trace scale --factor 2 in.pcap in.pcap", "DST would replace an input"),
        ("trace compose --payloads in.pcap --output in.pcap", "--output would replace an input"),
        (
            "run --policy hrw --input in.pcap --output o.pcap --journal o.pcap",
            "--journal and --output are both `o.pcap`",
        ),
        ("sim --policy hrw --input in.pcap --journal j --timeline ./j", "--timeline and --journal are both `./j`"),
    ] {
        assert_refused(directory.path(), words, &[expected]);
        assert_eq!(fs::read(&capture).unwrap(), before, "{words}");
        for (name, text) in texts {
            assert_eq!(fs::read_to_string(directory.path().join(name)).unwrap(), text, "{words}");
        }
    }
}

/// A file of another kind than the one that is written stays; a file of the same kind is replaced.
#[test]
fn outputs_replace_files_of_their_kind_alone() {
    let directory = directory();
    let at = directory.path();
    make_capture(at, "old.pcap", 10);
    make_capture(at, "old.pcapng.zst", 10);
    fs::write(at.join("notes"), "what I found out\n").unwrap();
    fs::write(at.join("notes.pcap"), "what I found out\n").unwrap();
    fs::write(at.join("run.toml"), "policy = \"hrw\"\nservices = { a = \"forward\" }\n").unwrap();
    let input = "--policy hrw --input gen:poisson:packets=10";
    for (words, expected) in [
        (
            "calibrate --services forward --output old.pcap",
            "--output would replace `old.pcap`, which is not a file of costs",
        ),
        ("calibrate --services forward --output run.toml", "`run.toml`, which is not a file of costs"),
        (
            "calibrate --services none --matrix-output old.pcap",
            "--matrix-output would replace `old.pcap`, which is not a topology",
        ),
        ("topology 2x2 --output run.toml", "`run.toml`, which is not a topology"),
        ("topology 2x2 --plot notes", "`notes`, which is not a plot (SVG)"),
        ("schedule --policy drr --weights 2,1 --slots 3 --plot notes", "`notes`, which is not a plot (SVG)"),
        (
            &format!("run {input} --output notes.pcap"),
            "`notes.pcap`, which is not a capture: name another file, or move",
        ),
        (&format!("run {input} --quarantine notes.pcap"), "`notes.pcap`, which is not a capture"),
        (&format!("run {input} --journal old.pcap"), "`old.pcap`, which is not a journal"),
        (&format!("sim {input} --timeline old.pcap"), "`old.pcap`, which is not a timeline"),
        (&format!("compare {input} --report notes"), "`notes`, which is not a page (HTML)"),
        ("trace cut old.pcapng.zst --output notes.pcap", "`notes.pcap`, which is not a capture"),
        ("trace scale --factor 2 old.pcap notes.pcap", "`notes.pcap`, which is not a capture"),
    ] {
        let before = ["notes", "notes.pcap", "run.toml", "old.pcap"].map(|name| fs::read(at.join(name)).unwrap());
        assert_refused(at, words, &[expected]);
        let after = ["notes", "notes.pcap", "run.toml", "old.pcap"].map(|name| fs::read(at.join(name)).unwrap());
        assert!(before == after, "{words}");
    }
    fs::write(at.join("empty.svg"), "").unwrap();
    for words in [
        &format!("run {input} --output old.pcap"),
        &format!("run {input} --output old.pcapng.zst"),
        &format!("run {input} --journal j.jsonl"),
        &format!("sim {input} --timeline t.perfetto-trace"),
        &format!("compare {input} --report r.html"),
        "topology 2x2 --output t.toml --plot empty.svg",
        "schedule --policy drr --weights 2,1 --slots 3 --plot s.svg",
    ] {
        // The second time over what the first has written.
        for _ in 0..2 {
            let said = run(at, &words.split(' ').collect::<Vec<_>>());
            assert_eq!(said.code, Some(0), "{words}: {said:?}");
        }
    }
}

/// A link stays a link, and what is written goes to where it leads; so one that leads to an input is refused.
#[cfg(unix)]
#[test]
fn outputs_go_where_links_lead() {
    use std::os::unix::fs::symlink;

    let directory = directory();
    let at = |name: &str| directory.path().join(name);
    make_capture(directory.path(), "in.pcap", 100);
    let before = fs::read(at("in.pcap")).unwrap();
    symlink("in.pcap", at("link.pcap")).unwrap();
    assert_refused(directory.path(), "run --policy rr --input in.pcap --output link.pcap", &["replace an input"]);
    assert_eq!(fs::read(at("in.pcap")).unwrap(), before);
    fs::create_dir(at("there")).unwrap();
    symlink("there/out.pcap", at("out.pcap")).unwrap();
    symlink("there/j.jsonl", at("j.jsonl")).unwrap();
    let words = "run --policy rr --input in.pcap --output out.pcap --journal j.jsonl";
    assert_eq!(run(directory.path(), &words.split(' ').collect::<Vec<_>>()).code, Some(0));
    assert_eq!(files(&at("there")), ["j.jsonl", "out.pcap"]);
    assert!(fs::symlink_metadata(at("out.pcap")).unwrap().is_symlink());
}

/// A limit of the shell on the size of files is as a full disk: it is told, and no half of a file stays.
#[cfg(target_os = "linux")]
#[test]
fn no_half_of_a_file_stays_where_there_is_no_room() {
    let directory = directory();
    let limited = humpyard(directory.path(), &[]).get_program().to_owned();
    let words = "sim --input gen:poisson:packets=20000 --policy drr --journal j.jsonl";
    let script = format!("ulimit -f 100; exec '{}' {words}", limited.to_str().expect("a plain path"));
    let mut shell = std::process::Command::new("sh");
    let said = Said::of(shell.args(["-c", &script]).current_dir(directory.path()).output().expect("there is a shell"));
    assert_eq!(said.code, Some(2), "{said:?}");
    said.assert_one_line(&["cannot write the journal `j.jsonl`: File too large"]);
    assert!(!said.err.contains(".part"), "{said:?}");
    assert!(files(directory.path()).is_empty(), "{:?}", files(directory.path()));
}

/// A classic capture has one link type; what does not fit ends the run, and no half of a file stays.
#[test]
fn an_output_that_cannot_hold_a_packet() {
    let Some(traces) = captures("an_output_that_cannot_hold_a_packet") else { return };
    let directory = directory();
    // A pcapng of two interfaces: Ethernet packets after raw IP ones.
    let made = |name: &str, input: &Path| {
        let words = ["run", "--policy", "fcfs", "--output", name, "--input", input.to_str().expect("a plain path")];
        assert_eq!(run(directory.path(), &words).code, Some(0), "{name}");
        fs::read(directory.path().join(name)).unwrap()
    };
    let raw = smallest_capture(&traces, "101");
    let mut both = made("raw.pcapng", &raw);
    both.extend(made("ethernet.pcapng", &smallest_capture(&traces, "1")));
    fs::write(directory.path().join("both.pcapng"), both).unwrap();
    let words = "run --policy fcfs --input both.pcapng --output both.pcap --workers 2";
    assert_refused(directory.path(), words, &["both.pcap: packet", "write a .pcapng"]);
}

/// The smallest capture of this link type that has something to forward.
fn smallest_capture(traces: &Path, link_type: &str) -> std::path::PathBuf {
    crate::live::by_link_type(traces).into_iter().find(|(link, _)| link == link_type).expect("there is one").1
}

/// Packets are not to be lost without a word; text may be.
#[test]
fn a_reader_of_packets_that_is_gone() {
    let directory = directory();
    make_capture(directory.path(), "good.pcap", 100);
    for words in [
        "run --policy hrw --input good.pcap --output -",
        "run --policy hrw --input gen:poisson:packets=100000 --output -",
        "run --policy hrw --input gen:poisson:packets=100000 --output - --workers 0",
    ] {
        let (reader, writer) = pipe().unwrap();
        drop(reader);
        assert_unwritable_stdout(directory.path(), words, writer.into());
    }
}

#[test]
#[cfg(target_os = "linux")]
fn a_device_that_is_full() {
    let directory = directory();
    make_capture(directory.path(), "good.pcap", 100);
    for words in [
        "list policies",
        "run --policy hrw --input good.pcap --json",
        "run --policy hrw --input good.pcap --output -",
        "run --policy hrw --input gen:poisson:packets=100000 --output -",
        "sim --policy drr --input good.pcap",
        "schedule --policy drr --weights 3,2,1 --slots 12 --json",
    ] {
        let full = File::options().write(true).open("/dev/full").unwrap();
        assert_unwritable_stdout(directory.path(), words, full.into());
    }
}

fn assert_unwritable_stdout(directory: &Path, words: &str, stdout: Stdio) {
    let arguments: Vec<&str> = words.split_whitespace().collect();
    let said = Said::of(humpyard(directory, &arguments).stdout(stdout).output().unwrap());
    assert_eq!(said.code, Some(2), "{words}: {said:?}");
    said.assert_one_line(&["standard output"]);
    assert_eq!(files(directory), ["good.pcap"], "{words}");
}

#[test]
fn a_standard_error_that_is_gone_changes_nothing() {
    let directory = directory();
    let (reader, writer) = pipe().unwrap();
    drop(reader);
    let output = humpyard(directory.path(), &["explain", "dr"]).stderr(writer).output().unwrap();
    assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0));
}

/// A device that never ends is read up to a limit.
#[test]
fn texts_without_an_end() {
    let directory = directory();
    for (words, expected) in [
        ("sim --config /dev/zero", "/dev/zero: the configuration file cannot be read: it is longer than 64 MiB"),
        ("check /dev/zero", "/dev/zero: the configuration file cannot be read: it is longer than 64 MiB"),
        (
            "sim --input gen:poisson --policy hrw --costs /dev/zero",
            "/dev/zero: the cost file cannot be read: it is longer",
        ),
        ("topology /dev/zero", "/dev/zero: the topology cannot be read: it is longer"),
        ("replay /dev/zero", "`/dev/zero`: a line is longer than 64 MiB"),
        (
            "run --input gen:poisson --policy hrw --services firewall:file=/dev/zero",
            "`/dev/zero`: it is longer than 64 MiB",
        ),
    ] {
        assert_refused(directory.path(), words, &[expected]);
    }
}

/// Names are shown so that they do nothing to a terminal, and not without end.
#[test]
fn names_that_are_no_names() {
    let directory = directory();
    let said = run(directory.path(), &["trace", "info", "\u{1b}[2Jno\u{202e}pcap"]);
    assert!(said.code == Some(2) && !said.err.contains('\u{1b}') && !said.err.contains('\u{202e}'), "{said:?}");
    said.assert_one_line(&["\\u{1b}[2Jno\\u{202e}pcap: there is no such file"]);
    fs::write(directory.path().join("long.toml"), format!("policy = \"hrw\"\nservices = \"{}\"", "x".repeat(10 << 20)))
        .unwrap();
    let said = run(directory.path(), &["check", "long.toml"]);
    assert!(said.code == Some(2) && said.err.len() < 70_000, "{} bytes", said.err.len());
    said.assert_one_line(&["no service `xxxx", "more bytes)"]);
}

/// What was typed is not told of the file.
#[test]
fn guarantees_that_were_typed() {
    let directory = directory();
    fs::write(directory.path().join("a.toml"), "policy = \"static\"\nservices = \"tcp=forward,other=pass\"\n").unwrap();
    let words = "sim --config a.toml --input gen:messages:packets=100 --guarantee tcp=0.6 --guarantee other=0.6";
    assert_refused(directory.path(), words, &["humpyard: --guarantee: the guarantees add up to 1.2, more than 1"]);
    let words =
        "sim --config a.toml --input gen:messages:packets=100 --guarantee tcp=0.666667 --guarantee other=0.333334";
    let said = run(directory.path(), &words.split_whitespace().collect::<Vec<_>>());
    assert_eq!(said.code, Some(0), "{said:?}");
}
