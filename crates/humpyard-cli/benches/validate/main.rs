//! Is the simulator true? About a hundred cells of layout, service, policy, load and traffic, in
//! which every two values of different kinds meet: each runs live several times, and the simulator
//! predicts it.
//!
//! `make validate` runs it, alone on the machine, and takes half an hour. `docs/how-to/validate.md` says what came out.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a measurement tells what came out")]

mod cells;

use core::sync::atomic::AtomicBool;
use std::fs;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use humpyard::lab::validate::{Compared, PolicyValidation, capacity, signed, validate_policy, while_steady};
use humpyard::lab::{AssumedHost, Control, Costs, Host, LabError, Rate, RunConfig, ServiceChoice, calibrate};
use humpyard::random::Seed;

use self::cells::{Cell, FIRST, SERVICES, cells};

/// What is asked of a run.
struct Options {
    /// Cells, of which the first ones are tried.
    cells: usize,
    /// Live runs of each.
    runs: usize,
    /// How long each lasts, about, in seconds.
    seconds: f64,
    /// Dispatchers of each cell. If there are several, each cell has as many workers.
    dispatchers: usize,
    /// Where the table goes, as CSV.
    csv: Option<String>,
}

/// Packets of a run, at most: more would take long where a packet takes little.
const PACKETS_MAX: f64 = 6_000_000.0;
/// Rounds of a capture: more than any run has packets.
const ROUNDS: u64 = 10_000_000;
/// The beginning of a run, in which caches are cold and flows are new; its delays do not count.
const WARM_UP: Duration = Duration::from_millis(50);
/// Packets from which the capacity of a cell is found.
const PROBED: u64 = 100_000;

impl Options {
    fn parse(words: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut options = Self { cells: 100, runs: 3, seconds: 1.0, dispatchers: 1, csv: None };
        let mut words = words.filter(|word| word != "--bench");
        while let Some(option) = words.next() {
            let value = words.next().ok_or_else(|| format!("{option} needs a value"))?;
            let wrong = || format!("{option} does not take `{value}`");
            match option.as_str() {
                "--cells" => options.cells = value.parse().ok().filter(|&cells| cells > 0).ok_or_else(wrong)?,
                "--runs" => options.runs = value.parse().ok().filter(|&runs| runs > 1).ok_or_else(wrong)?,
                "--seconds" => {
                    options.seconds =
                        value.parse().ok().filter(|time| (0.01..=60.0).contains(time)).ok_or_else(wrong)?;
                }
                "--dispatchers" => {
                    options.dispatchers =
                        value.parse().ok().filter(|count| (1..=16).contains(count)).ok_or_else(wrong)?;
                }
                "--csv" => options.csv = Some(value),
                _ => {
                    return Err(format!(
                        "no option {option}: there are --cells N, --runs N, --seconds S, --dispatchers N and --csv FILE"
                    ));
                }
            }
        }
        Ok(options)
    }
}

fn main() -> ExitCode {
    match Options::parse(std::env::args().skip(1)).and_then(|options| measure(&options)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(said) => {
            eprintln!("validate: {said}");
            ExitCode::from(2)
        }
    }
}

/// Returns the directory of the captures.
fn traces() -> Result<String, String> {
    let beside = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/traces");
    let traces = std::env::var("HUMPYARD_TRACES").unwrap_or_else(|_| beside.to_owned());
    match fs::metadata(&traces) {
        Ok(_) => Ok(traces),
        Err(error) => Err(format!("{traces}: {error}; set HUMPYARD_TRACES to the directory of the captures")),
    }
}

/// A cell that was tried.
struct Tried {
    cell: Cell,
    rate: f64,
    said: PolicyValidation,
}

fn measure(options: &Options) -> Result<(), String> {
    let traces = traces()?;
    let stop = AtomicBool::new(false);
    let (mut progress, mut tell) = (|_: u64, _: Option<f64>| (), |_: usize, _: usize, what: &str| eprintln!("{what}"));
    let works: Vec<_> = SERVICES
        .iter()
        .map(|service| service.parse().map_err(|error| format!("{error}")))
        .collect::<Result<_, String>>()?;
    let mut costs = Costs::auto(&works).map_err(|error| error.to_string())?;
    costs.measure(&stop, &mut tell).map_err(|error| error.to_string())?;
    let machine = calibrate::machine(Seed(1), &stop, &mut tell).map_err(|error| error.to_string())?;
    let host = AssumedHost::measured(machine);
    println!("{}", described(&host));
    let mut tried = Vec::with_capacity(options.cells);
    let started = Instant::now();
    println!("{HEADING}");
    for (number, mut cell) in cells(options.cells).into_iter().enumerate() {
        if options.dispatchers > 1 {
            cell.workers = options.dispatchers;
        }
        let mut config = config(&cell, &traces, &costs, &host).map_err(|error| error.to_string())?;
        config.dispatchers = Some(options.dispatchers);
        let mut control = Control::new(&stop, &mut progress);
        let outcome = run(&config, &cell, options, &mut control).map_err(|error| format!("{cell}: {error}"))?;
        println!("{}", row(number + 1, &outcome));
        eprintln!("{} of {}, {:.0} s", number + 1, options.cells, started.elapsed().as_secs_f64());
        tried.push(outcome);
    }
    println!("\n{}", summary(&tried));
    let write = |path: &String| fs::write(path, csv(&tried)).map_err(|error| format!("{path}: {error}"));
    options.csv.as_ref().map_or(Ok(()), write)
}

fn config(cell: &Cell, traces: &str, costs: &Costs, host: &AssumedHost) -> Result<RunConfig, LabError> {
    let mut config = RunConfig::new(Host::Live, &cell.input(traces), cell.policy.parse()?);
    config.cores = cell.workers;
    config.services = vec![ServiceChoice::parse(cell.service)?];
    if cell.is_chain {
        config.services.insert(0, ServiceChoice::parse(FIRST)?);
        config.services[1] = ServiceChoice::parse(&format!("then={}", cell.service))?;
        config.chains = vec![(FIRST.to_owned(), vec!["then".to_owned()])];
    }
    config.costs = costs.clone();
    config.assumed = Some(host.clone());
    config.rounds = ROUNDS;
    config.warm_up = WARM_UP;
    Ok(config)
}

fn run(config: &RunConfig, cell: &Cell, options: &Options, control: &mut Control<'_>) -> Result<Tried, LabError> {
    let mut config = config.clone();
    let mut rate = 0.0;
    let said = while_steady(options.runs, || {
        (config.rate, config.packets) = (Rate::Line, Some(PROBED));
        calibrate::measure_on_traffic(&mut config, control)?;
        config.assumed.iter().for_each(|host| eprintln!("{}", described(host)));
        rate = (cell.load * capacity(&config, &config.policy, control)?).round();
        let packets = (rate * options.seconds).clamp(1_000.0, PACKETS_MAX) as u64;
        (config.rate, config.packets) = (Rate::PacketsPerSecond(rate), Some(packets));
        validate_policy(&config, options.runs, control)
    })?;
    Ok(Tried { cell: cell.clone(), rate, said })
}

/// The times of the host, in a line.
fn described(host: &AssumedHost) -> String {
    let times = host.machine.host.iter().flat_map(|host| host.times());
    let times: Vec<String> = times.map(|(key, ns)| format!("{key} {ns:.0}")).collect();
    format!("host: {}", times.join(", "))
}

const HEADING: &str = "\
| | workers | input | service | policy | load | kpps | throughput | utilization | p50 | p99 | loss |\n\
|--:|--:|---|---|---|--:|--:|---|---|---|---|---|";

fn row(number: usize, Tried { cell, rate, said }: &Tried) -> String {
    let figures: Vec<String> = said.figures.iter().map(figure).collect();
    format!(
        "| {number} | {} | {} | {} | {} | {} | {:.0} | {} |",
        cell.workers,
        cell.traffic,
        cell.services(),
        cell.policy,
        cell.load,
        rate / 1e3,
        figures.join(" | ")
    )
}

/// The error and the bound of a figure.
fn figure(figure: &Compared) -> String {
    let (error, bound) = (signed(figure.error), 100.0 * figure.bound);
    if figure.holds { format!("{error} ({bound:.0})") } else { format!("**{error}** ({bound:.0})") }
}

fn summary(tried: &[Tried]) -> String {
    let figures = || tried.iter().flat_map(|one| &one.said.figures);
    let holds = |name: &str| figures().filter(|figure| figure.figure == name && figure.holds).count();
    let whole = tried.iter().filter(|one| one.said.figures.iter().all(|figure| figure.holds)).count();
    let wide = tried.iter().filter(|one| one.said.figures.iter().any(|figure| figure.bound > figure.aim)).count();
    let repeated: usize = tried.iter().map(|one| one.said.repeated).sum();
    let moved = tried.iter().filter(|one| one.said.moved > 0).count();
    let names = ["throughput", "utilization", "p50", "p99", "loss"];
    let each: Vec<String> = names.iter().map(|name| format!("{name} {}", holds(name))).collect();
    format!(
        "Of {} cells {whole} hold in all figures; by figure: {}. In {wide} cells the live runs differ by more than an aim. \
         {repeated} live runs were made again, because the processors had moved; they had in {moved} cells \
         all the same.",
        tried.len(),
        each.join(", ")
    )
}

fn csv(tried: &[Tried]) -> String {
    let mut text = "workers,input,services,policy,load,pps,figure,live,spread,predicted,error,bound,holds\n".to_owned();
    for Tried { cell, rate, said } in tried {
        for one in &said.figures {
            text.push_str(&format!(
                "{},{},\"{}\",{},{},{rate},{},{},{:.4},{},{:.4},{},{}\n",
                cell.workers,
                cell.traffic,
                cell.services(),
                cell.policy,
                cell.load,
                one.figure,
                one.live,
                one.spread,
                one.predicted,
                one.error,
                one.bound,
                one.holds
            ));
        }
    }
    text
}
