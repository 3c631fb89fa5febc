//! Examples below the help of commands.

pub(crate) const EXAMPLES: &str = "Examples:
  humpyard demo
  humpyard run --input in.pcap --output out.pcap --policy hrw --workers 2
  humpyard sim --input in.pcap --policy drr --cores 4 --load 0.9
  humpyard compare --input in.pcap --policy rr --policy hrw --policy hrw/drr --cores 8 --load 0.8
  humpyard sim --input gen:onoff:packets=1M --policy hrw --cores 16
  humpyard schedule --policy sfq --weights 12,3,3,2,2,2 --slots 24
  humpyard explain drr

Exit codes: 0 done, 1 it ran but a check failed or the input was damaged, 2 bad usage or input.";

pub(crate) const RUN_EXAMPLES: &str = "Examples:
  humpyard run --input in.pcap --output out.pcap --policy hrw --workers 2 --json
  humpyard run --input in.pcapng.zst --policy drr --workers 0
  humpyard run --input gen:messages:packets=1000000 --policy conn --rate 200k --for 5s
  humpyard run --input in.pcap --policy rr --services 'forward:routes=10.0.0.0/8=out;::/0=out'
  humpyard run --input in.pcap --policy hrw --output out.pcap --services tcp=encrypt,other=fec
  humpyard run --input in.pcap --policy rr --services ipv4=fec,other=fec-decode --chain ipv4=other
  humpyard run --input in.pcap --policy conn --services dpi --json
  humpyard run --input in.pcap --policy hrw --output out.pcap --quarantine bad.pcapng
  humpyard run --input in.pcap --policy drr --output out.pcap --clock virtual --load 0.9
  humpyard run --input in.pcap --policy conn --services encrypt --split share=0.3,cores=2
  humpyard run --input in.pcap --policy h-cahrw --topology machine --counters
  humpyard run --input gen:poisson --policy drr --rate 200k --for 60s --metrics 127.0.0.1:9464
  humpyard run --input iface:eth0 --output iface:eth1 --both-ways --policy hrw
  humpyard run --input in.pcap --policy efq --services encrypt --link 100Mbit:queue=16
  humpyard run --input nfqueue:7 --policy hrw --services 'l7-filter:fwmark=http=7;tls=8,drop=bittorrent'

Without --rate packets arrive as fast as the run takes them, so delay is mostly time in the buffer (--buffer): give
a rate to measure delay. By a virtual clock services do their work on one thread, each packet keeps its worker busy
for the time that --costs says, and packets arrive as captured unless a rate is given: the figures are exactly those
of `sim`. Ctrl-C ends reading: the run serves and writes the packets that it holds, and prints the summary.";

#[cfg(feature = "top")]
pub(crate) const TOP_EXAMPLES: &str = "Examples:
  humpyard top
  humpyard top '[::1]:9464' --interval 500ms
  humpyard top 127.0.0.1:9464 --once
  humpyard top --json | jq .packets

In another terminal: humpyard run --input SRC --policy drr --metrics 127.0.0.1:9464
Keys: q ends, p pauses, left and right choose the column by which services are sorted. Rates, delays and the late fraction are
those of the last interval. Top flows are those of the latest 1024 sampled packets, one in 64. Ends with 0 when the run does.";

pub(crate) const SIM_EXAMPLES: &str = "Examples:
  humpyard sim --input in.pcap --policy hrw --cores 8 --load 0.9
  humpyard sim --input gen:poisson:packets=1M --policy drr --costs table:predictive --load 0.95
  humpyard sim --input in.pcap --policy static --services tcp=forward,other=forward --cores 4
  humpyard sim --input in.pcap --policy drr --load 0.9 --timeline drr.perfetto-trace
  humpyard sim --input in.pcap --policy efq --load 0.9 --services fec --link 500Mbit:share=drr
  humpyard sim --input in.pcap --policy hrw --load 0.9 --services encrypt:cipher=cast-128

The same input, options and seed give the same result, byte for byte, but for `measured` and `environment`.";

pub(crate) const ADMIT_EXAMPLES: &str = "Examples:
  humpyard admit --cores 2 --costs table:predictive --flow name=video,service=encrypt,rate=10Mbit,length=500,burst=8k
  humpyard admit --cores 4 --costs calibrated --link 1Gbit --flows flows.toml --json
  humpyard admit --topology network.toml --costs table:predictive --flows flows.csv

A file of flows has a table [[flow]] for each flow, or is CSV with a line of names: service, rate (bits per second,
10Mbit), length (mean, in bytes), burst (bytes that may arrive at once), and, where they are known, name, longest
(packet, in bytes), from and to (nodes of a --topology). A topology has [[node]] with name, engines and speed, and
[[link]] with from, to, rate and delay; both-ways = false makes a link of one direction.
Exits with 1 if a flow is refused.";

pub(crate) const COMPARE_EXAMPLES: &str = "Examples:
  humpyard compare --input in.pcap --policy rr --policy conn --policy hrw --cores 8 --load 0.8
  humpyard compare --live --input in.pcap --policy rr --policy hrw --workers 2 --repeat 7
  humpyard compare --input in.pcap --policy drr --policy sfq --load 0.9 --report report.html

With --repeat the policies are run in turn, so that what changes in the machine meets all alike, and on identical arrivals
within a repetition. Tables have the median and the range; --json has for each figure the values, the median, the range and a
confidence interval of the median by order statistics: 95 % from 6 repetitions on, the range at its own level below.";

pub(crate) const PLOT_EXAMPLES: &str = "Examples:
  humpyard sweep plot loads --x load --y p99 --line policy --log y
  humpyard sweep plot loads --x load --y throughput_pps --only cores=4 --only policy=drr";

pub(crate) const DIFF_EXAMPLES: &str = "Example:
  humpyard sweep diff loads loads-of-yesterday

Compares simulations with the same options and seeds. Exits with 1 if a figure differs, or one sweep has more.";

pub(crate) const SWEEP_EXAMPLES: &str = "Examples:
  humpyard sweep loads.toml --out loads
  humpyard sweep loads.toml --dask tcp://10.0.0.1:8786
  humpyard sweep plot loads --x load --y p99 --line policy --log y
  humpyard sweep plot loads --x load --y p99 --line policy --only cores=4
  humpyard sweep diff loads loads-of-yesterday

A file of what varies:
  [options]                             # the same in all cells; options of `humpyard sim`
  input = \"gen:poisson:packets=100000\"
  [axes]                                # a cell for each combination
  policy = [\"hrw\", \"drr\", \"ca-ahrw\"]
  load = { from = 0.5, to = 0.9, steps = 5 }
  [[zip]]                               # values that go together
  cores = [4, 8]
  buffer = [1024, 2048]
  [repeat]
  until = \"p99 within 2%\"              # or: times = 5

[[sample]] with `points` and ranges is a Latin hypercube. A range may have scale = \"log\". Repetition r has the seed of
the file plus r in every cell, so that all policies have identical arrivals. Each simulation is kept as soon as it is
done: the same command goes on where it was ended, however that was. DIR/runs.parquet has a row for each simulation;
DIR/manifest.json says what it was made of.";

pub(crate) const MAP_EXAMPLES: &str = "Examples:
  humpyard map --quick
  humpyard map --out map --capture in.pcap
  humpyard map --out part --only few-elephants --only elephants --packets 20000
  humpyard map --dask tcp://10.0.0.1:8786

Every policy that fits is simulated on every class of traffic, at loads from 0.3 to 1.2, on 4, 16 and 64 cores, with and
without a dispatcher. Policies that are good at nothing drop out after a round. DIR/index.md is the page: a rule that
names a policy by figures of your traffic, its error on traffic that it has not seen, and the best policy of each class.
DIR/map.csv has all figures, DIR/elephants.csv what elephants cost plain hashing, DIR/rule.json the rule, and DIR/rounds
the sweeps. The same command goes on where it was ended.";

pub(crate) const RECOMMEND_EXAMPLES: &str = "Examples:
  humpyard recommend --input in.pcap --workers 8 --goal 'late<0.1%@2ms'
  humpyard recommend --input in.pcap --workers 8 --load 0.8 --goal 'late<0.1%@20us'
  humpyard recommend --input in.pcap --workers 4 --services dpi --rate 2M --goal 'p99<500us,ooo<0.01%'
  humpyard recommend --input gen:onoff:packets=20k --workers 4 --load 0.7 --goal 'loss<0.1%,min=p99' --report recommendation.html
  humpyard recommend --input in.pcap --workers 8 --services dpi,encrypt --goal 'p99[dpi]<500us,loss[client3]<1%'
  humpyard recommend --input in.pcap --workers 8 --load 0.8 --goal 'p99<50us' --plot load.svg
  humpyard recommend --input in.pcap --workers 8 --load 0.8 --goal 'p99<50us' --size

A goal is a list of bounds: late (delayed beyond what is tolerated, @TIME says what, or dropped), mean, p50, p90, p99,
p999, max (delays), jitter, ooo (out of order), loss, fairness (Jain), throughput. p99[dpi] is p99 of a service,
p99[client3] that of a client. Among policies that keep all bounds the one with the greatest margin wins, or the best
in min=FIGURE or max=FIGURE. The traffic is fixed first: the input as captured, or as --multiplier, --rate or --load
says; it stays the same on other cores. Candidates are all policies that fit, some with several parameters; all are
simulated on a part of the input that has its peaks, the better half on twice as much, and so on. Finalists run on all
of it under three seeds, of which the worst counts. Blocks that are held out of the search say how sure the choice is.
Every command that is printed can be typed. The same input, options, costs, host and seed give the same answer.
--details prints costs that were measured: keep them in a file for --costs FILE. --size counts cores for more traffic,
with an interval. At the end the winner and plain hashing run live, where the workers fit this machine. Exits with 1
if no policy keeps the goal.";

pub(crate) const VALIDATE_EXAMPLES: &str = "Examples:
  humpyard validate --input in.pcap --policy hrw --policy drr
  humpyard validate --input gen:imix:packets=200k --services encrypt --workers 1 --report validation.html
  humpyard validate --input gen:poisson:packets=100k --policy rr --rate 200k --json

Each policy runs live three times, and the simulator predicts what these runs find: by the traffic, the costs of
services (--costs, by default measured on the input), and the host (--host, by default this machine). Bounds are 10 % for throughput and
utilization, 25 % for p50 and p99, and 2 points of loss. Where live runs differ by more, their difference is the bound,
up to twice as much. Without a rate half of what the machine takes is offered. Exits with 1 if a figure is beyond its
bound. Leave the machine alone meanwhile.";

pub(crate) const CALIBRATE_EXAMPLES: &str = "Examples:
  humpyard calibrate --output here.toml
  humpyard calibrate --save && humpyard sim --input YOUR.pcap --policy hrw --cores 8 --load 0.9 --costs calibrated
  humpyard calibrate --machine --save && humpyard recommend --input YOUR.pcap --workers 2 --goal 'p99<1ms'
  humpyard sim --input in.pcap --policy hrw --cores 8 --load 0.9 --costs here.toml
  humpyard sim --input in.pcap --policy hrw --services firewall:rules=deny+tcp --costs auto
  humpyard calibrate --quick --services forward,encrypt,encrypt:cipher=cast-128 --json
  humpyard calibrate --matrix --plot plots
  humpyard calibrate --services none --matrix-output cores.toml && humpyard topology cores.toml

Times are those of one core, to which the measurement is pinned: leave the machine alone meanwhile. Packets of an inverse
(decrypt, decompress, fec-decode) are what its service makes of the others. The line has a confidence interval of 95 %.";

pub(crate) const TOPOLOGY_EXAMPLES: &str = "Examples:
  humpyard topology
  humpyard topology e5355 --json
  humpyard topology epyc-2p --plot epyc.svg
  humpyard topology 2x4x2 --output mine.toml
  humpyard sim --input in.pcap --policy ps-hrw --cores 8 --topology e5355 --costs ps-hrw

Live, a worker has the place in the tree of the processor on which it sits. `humpyard calibrate --matrix` measures the ways
between cores, and --matrix-output FILE of it writes a topology with what was measured.";

pub(crate) const CHECK_EXAMPLES: &str = "Examples:
  humpyard check run.toml
  humpyard check run.toml --for sim --json
  humpyard check --schema > humpyard.schema.json

A file has a key for every option of `run`, `sim` and `compare`, by its long name; those of another command do not count:
  input = \"in.pcap\"
  policy = \"everest\"
  cores = 8
  tolerance = { web = \"2ms\" }
  services = { web = \"forward\", rest = \"forward\" }
  [[rule]]
  port = [80, 443]
  service = \"web\"
  [[rule]]
  service = \"rest\"

Without --for the file is checked for `run` and for `sim`: for one of them alone if it says workers or cores, and for
`compare` if it has several policies. An option that is typed beside --config counts, and replaces all that the file says of
it: --rule all of its rules. File names are seen from the directory in which humpyard runs.";

#[cfg(feature = "manual")]
pub(crate) const COMPLETIONS_EXAMPLES: &str = "Examples:
  humpyard completions bash > ~/.local/share/bash-completion/completions/humpyard
  humpyard completions fish > ~/.config/fish/completions/humpyard.fish
  humpyard completions zsh > _humpyard";

pub(crate) const CUT_EXAMPLES: &str = "Examples:
  humpyard trace cut in.pcap --output part.pcapng --from 1s --to 2.5s
  humpyard trace cut in.pcap --output part.pcap.zst --packets 10..20 --snap 96
  humpyard trace cut in.pcap --output one.pcap --match udp --flow 'udp 10.0.0.1:5000 <> 10.0.0.2:53'

Times count from the first packet of the capture. A packet must meet all conditions. Outputs have times in ns. An output
appears under its name when it is complete.";

pub(crate) const MERGE_EXAMPLES: &str = "Examples:
  humpyard trace merge in.pcap in.pcapng.zst --output both.pcapng

Packets of one time go in the order in which their captures are named. A capture whose clock goes back stays in its own order.
Captures of different link types need a .pcapng.";

pub(crate) const COMPOSE_EXAMPLES: &str = "Examples:
  humpyard trace compose --payloads in.pcap --output out.pcap --flows pareto:mean=12
  humpyard trace compose --payloads in.pcap --output out.pcap --arrivals gen:onoff:packets=1M
  humpyard trace compose --payloads in.pcap --output out.pcapng.zst --flows capture
  humpyard sim --policy hrw --input gen:compose:arrivals=gen:onoff,payloads=in.pcap

Only the times of the arrivals count; they set the number of packets. As an input, write `;` for `,` inside.";

pub(crate) const SCALE_EXAMPLES: &str = "Examples:
  humpyard trace scale --factor 2.5 in.pcap out.pcap
  humpyard trace scale --factor 0.1 in.pcap out.pcapng.zst
  humpyard sim --policy hrw --input gen:scale:factor=4,input=in.pcap

The factor multiplies the mean rate, and its square root the standard deviation of the rate. Copies have addresses of
their own, by /24 (IPv6: by the third to fifth byte). Memory does not depend on the length of the capture.";

pub(crate) const EXPLAIN_EXAMPLES: &str = "Examples:
  humpyard explain drr
  humpyard explain forward
  humpyard explain poisson
  humpyard explain rule
  humpyard explain result
  humpyard explain result --json

With --json, a document has its JSON schema.";

pub(crate) const WHY_EXAMPLES: &str = "Examples:
  humpyard why --input in.pcap --policy hrw --cores 4 --load 0.9
  humpyard why --input in.pcap --policy drr --load 0.9 --flow '10.0.0.1:443 > 10.0.0.2:5001'
  humpyard why --journal run.jsonl --packet 1234

The run is simulated as `humpyard sim` does with the same options. The parts of a delay add up to it exactly: waiting
behind other packets, switching, dispatcher, service, exit. What would have been takes the rest of the run as it was.
`humpyard trace info` lists flows; the journal of several dispatchers is read one at a time.";

pub(crate) const STEER_EXAMPLES: &str = "Examples:
  humpyard steer --observe eth0
  humpyard steer --observe eth0 --for 10s --policy rss++ --policy ca-ahrw
  humpyard steer --observe eth0 --record eth0.jsonl
  humpyard steer --from eth0.jsonl --policy rss++:interval=100000 --json
  humpyard steer --apply cpumap:eth0 --policy rss++ --apply-if 20% --rollback 30s
  humpyard steer --apply rps:eth0 --policy rss++ --metrics 127.0.0.1:9464
  humpyard steer --undo eth0

A program in the kernel (XDP) counts packets in buckets of connections; packets go on as before. Needs CAP_NET_ADMIN and
CAP_BPF, and an interface without another XDP program. Then the simulator replays the buckets under each policy, on the
processors of this machine. Within a sample (--every) arrivals are spread at random, for nobody has seen them.

With --apply cpumap:eth0 the program also hands each packet to the processor of its bucket (CPUMAP), and the table of
buckets follows the policy. The end of the command, whatever ends it, takes the program away.
With rss:eth0 the card does, by its own hash: each entry of its indirection table has a receive queue. With rps:eth0 the
kernel divides the packets of each receive queue among the processors that the policy has for them. A command that is
killed leaves both so: --undo restores what was.";

pub(crate) const SCHEDULE_EXAMPLES: &str = "Examples:
  humpyard schedule --policy sfq --weights 12,3,3,2,2,2 --slots 24
  humpyard schedule --policy drr --weights 3,2,1 --slots 12 --processors 2 --json
  humpyard schedule --policy wrr --weights 12,3,3,2,2,2 --slots 48 --plot wrr.svg
  humpyard schedule --policy gr3 --clients 8192 --total 262144 --skew 0.1 --draws 100
  humpyard schedule --policy sfq --clients 8192 --total 262144 --skew 0.1 --draws 100 --ties highest
  humpyard schedule --policy gr3mp --clients 512 --total 16384 --draws 100 --processors 8 --json

With --clients weights are random: the heavy client has round(H S), the others divide the rest by numbers that are uniform \
between 0 and 1, and each has 1 at least. A draw has the same weights whatever the policy, the processors, the number of draws \
and of threads. The service error of a client is its service less its weight's share of all service so far, exactly. Figures 4 \
to 11 of the paper of gr3 are such runs, of 32 to 8192 clients and totals from 16384 to 262144.";

pub(crate) const REPRODUCE_EXAMPLES: &str = "Examples:
  humpyard reproduce gr3-fig9
  humpyard reproduce 'gr3-fig?' --out there
  humpyard reproduce all --full
  humpyard reproduce all --full --judge
  humpyard list experiments

Each experiment writes data.csv, data.parquet, plots (SVG) and verdicts.json into a directory of its own below --out. \
index.html, a page for each paper and REPRODUCTION.md there show all experiments that were ever written to it, each with \
its scale and seed. What was done when a run is ended (Ctrl-C) is not done again by the same command. Files that are not \
of an earlier run are not written over, nor is a full run by a quick one. A claim of a paper holds, is contradicted, \
depends on the seed, or cannot be tested here; --full runs it with 10 seeds, or 3. Exits with 1 if an outcome is not the \
expected one, and names the claim. Notes cannot fail the run.";
