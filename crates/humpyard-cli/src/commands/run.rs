//! `run` and `sim`: one policy, live or in virtual time.

use std::process::ExitCode;

use humpyard::lab::{self, Control, Host, RunConfig, RunResult};

use crate::arguments::{RunArguments, SimArguments};
use crate::commands::configuration::{configuration, with_live};
use crate::commands::table;
use crate::failure::Failure;
use crate::figures::time;
use crate::output;
use crate::progress::Progress;
use crate::stop;

/// `humpyard run`.
pub(crate) fn run(arguments: &RunArguments) -> Result<ExitCode, Failure> {
    let common = &arguments.traffic.common;
    if arguments.output == "-" && common.json {
        return Err(Failure::new("--output - and --json both need the standard output: name a file for one of them"));
    }
    let config = configuration(Host::Live, arguments.policy.parse()?, arguments.workers, &arguments.traffic)?;
    let config = RunConfig { output: arguments.output.clone(), ..with_live(config, &arguments.live)? };
    let result = watched(&config, common.quiet)?;
    report(&result, common.json, arguments.output == "-")
}

/// `humpyard sim`.
pub(crate) fn sim(arguments: &SimArguments) -> Result<ExitCode, Failure> {
    let common = &arguments.traffic.common;
    let config = configuration(Host::Sim, arguments.policy.parse()?, arguments.cores, &arguments.traffic)?;
    let result = watched(&config, common.quiet)?;
    report(&result, common.json, false)
}

fn watched(config: &RunConfig, quiet: bool) -> Result<RunResult, Failure> {
    let stop = stop::on_signal()?;
    let progress = Progress::new(&config.policy.to_string(), quiet);
    let mut control = Control { stop: &stop, progress: &mut |packets, part| progress.update(packets, part) };
    Ok(lab::run(config, &mut control)?)
}

/// Prints a result: JSON to the standard output, or a summary there, or on the standard error if packets went there.
fn report(result: &RunResult, json: bool, stdout_taken: bool) -> Result<ExitCode, Failure> {
    if json {
        output::print_json(result)?;
    } else if stdout_taken {
        output::say(&table::summary(result));
    } else {
        output::print(&format!("{}\n", table::summary(result)))?;
    }
    if !json && result.measured.overdue_max_ns > OVERDUE {
        output::say(&format!(
            "humpyard: packets were due for up to {} before they were taken in: the dispatcher cannot keep up with this rate",
            time(result.measured.overdue_max_ns as f64)
        ));
    }
    Ok(verdict(&[result]))
}

/// From so many ns on a packet that was due is overdue.
const OVERDUE: u64 = 20_000_000;

/// Exit code 1, and why, if a result does not add up or its input was damaged.
pub(crate) fn verdict(results: &[&RunResult]) -> ExitCode {
    let mut code = ExitCode::SUCCESS;
    for result in results {
        if !result.packets.balance() {
            output::say(&format!("humpyard: {}: packets are unaccounted for: {:?}", result.policy, result.packets));
            code = ExitCode::from(1);
        }
    }
    if let Some(damage) = results.iter().find_map(|result| result.damage.as_ref()) {
        output::say(&format!("humpyard: {}", damage.message));
        code = ExitCode::from(1);
    }
    code
}
