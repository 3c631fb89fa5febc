//! `run` and `sim`: one policy, live or in virtual time.

use core::net::SocketAddr;
use std::process::ExitCode;

use humpyard::lab::bottleneck::{LoadWatch, OVERDUE_NS, bottleneck};
use humpyard::lab::metrics::Endpoint;
use humpyard::lab::{self, Control, DispatchChoice, RunConfig, RunResult};
use humpyard::runtime::Load;
use humpyard::wire::Note;

use crate::arguments::{CommonOptions, RunArguments, SimArguments};
use crate::commands::configuration::{run_configuration, sim_configuration};
use crate::commands::costs::measure_for;
use crate::commands::findings;
use crate::commands::reload::ReadAgain;
use crate::commands::table;
use crate::failure::Failure;
use crate::figures::{counted, time};
use crate::output::{self, Output};
use crate::progress::Progress;
use crate::stop;

/// `humpyard run`.
pub(crate) fn run(arguments: &RunArguments) -> Result<ExitCode, Failure> {
    let common = &arguments.common;
    let output = Output::of(&common.output).beside_packets(is_standard_output(arguments))?;
    let mut config = run_configuration(arguments)?;
    measure_for(&mut config, common.quiet)?;
    let metrics = arguments.metrics.map(endpoint).transpose()?;
    let result = match arguments.file.config {
        Some(_) => reloading(&config, common, metrics)?,
        None => watched(&config, common, metrics)?,
    };
    warn(output, &config);
    warn_after(output, &config, &result);
    report(&result, output)
}

/// Prints how packets from interfaces get to workers, and why, if the configuration left that open.
fn say_how_dispatched(config: &RunConfig, common: &CommonOptions) -> impl FnMut(&DispatchChoice) {
    let is_open = config.dispatchers.is_none() || config.chooses_workers;
    let says = is_open && !common.quiet && humpyard::wire::needed(&config.inputs(), "null:");
    move |DispatchChoice { dispatchers, workers, why }: &DispatchChoice| {
        if says {
            let how =
                if *dispatchers == 0 { "no dispatcher".into() } else { counted(*dispatchers as u64, "dispatcher") };
            output::say(&format!("humpyard: {how}, --workers {workers}: {why}"));
        }
    }
}

/// Prints what ports have to say: warnings always, the rest unless the user wants quiet.
fn say_notes(common: &CommonOptions) -> impl FnMut(&[Note]) {
    let is_quiet = common.quiet;
    move |notes: &[Note]| {
        for Note { text, is_warning } in notes {
            match (is_warning, is_quiet) {
                (true, _) => output::say(&format!("humpyard: warning: {text}")),
                (false, false) => output::say(&format!("humpyard: {text}")),
                (false, true) => {}
            }
        }
    }
}

/// Whether packets go to the standard output.
fn is_standard_output(arguments: &RunArguments) -> bool {
    arguments.options.one("output").is_some_and(|output| output == "-")
}

/// `humpyard sim`.
pub(crate) fn sim(arguments: &SimArguments) -> Result<ExitCode, Failure> {
    let common = &arguments.common;
    let mut config = sim_configuration(arguments)?;
    measure_for(&mut config, common.quiet)?;
    let result = watched(&config, common, None)?;
    if result.interrupted && result.packets.arrived == 0 {
        return Err(Failure::new("interrupted before the first packet was simulated: there is no result"));
    }
    let output = Output::of(&common.output);
    warn(output, &config);
    warn_after(output, &config, &result);
    report(&result, output)
}

/// Takes the address of metrics, before anything is done. A port that nobody chose is told.
pub(super) fn endpoint(address: SocketAddr) -> Result<Endpoint, Failure> {
    let endpoint = Endpoint::bind(address)?;
    if address.port() == 0 {
        output::say(&format!("humpyard: metrics at http://{}/metrics", endpoint.address()));
    }
    Ok(endpoint)
}

fn watched(config: &RunConfig, common: &CommonOptions, metrics: Option<Endpoint>) -> Result<RunResult, Failure> {
    let stop = stop::on_signal()?;
    let progress = Progress::new(&config.policy.to_string(), common.quiet);
    let mut show = |packets, part| progress.update(packets, part);
    let mut loads = loads(&progress, common);
    let mut dispatched = say_how_dispatched(config, common);
    let mut opened = say_notes(common);
    let mut control = Control {
        metrics,
        loads: Some(&mut loads),
        dispatched: Some(&mut dispatched),
        opened: Some(&mut opened),
        ..Control::new(&stop, &mut show)
    };
    Ok(lab::run(config, &mut control)?)
}

/// Shows how busy the dispatcher is, and says so, once, where it is the bottleneck.
fn loads(progress: &Progress, common: &CommonOptions) -> impl FnMut(&[Load]) {
    let mut watch = LoadWatch::default();
    move |loads: &[Load]| {
        let said = watch.look(loads);
        progress.busy(watch.busiest());
        if let Some(said) = said.filter(|_| !common.quiet && Output::of(&common.output).is_text()) {
            progress.say(&format!("humpyard: {said}"));
        }
    }
}

/// As [`watched`], and SIGHUP has the configuration file read again.
fn reloading(config: &RunConfig, common: &CommonOptions, metrics: Option<Endpoint>) -> Result<RunResult, Failure> {
    // First, so that who sees the other handlers can send this signal, too.
    let again = ReadAgain::on_signal()?;
    let stop = stop::on_signal_but_hangup()?;
    let progress = Progress::new(&config.policy.to_string(), common.quiet);
    let mut show = |packets, part| progress.update(packets, part);
    let mut loads = loads(&progress, common);
    let mut dispatched = say_how_dispatched(config, common);
    let mut opened = say_notes(common);
    let mut control = Control {
        metrics,
        reload: Some(&again),
        loads: Some(&mut loads),
        dispatched: Some(&mut dispatched),
        opened: Some(&mut opened),
        ..Control::new(&stop, &mut show)
    };
    Ok(lab::run(config, &mut control)?)
}

/// Says what was asked for and does nothing, and which services will have late packets whatever the policy does.
pub(crate) fn warn(output: Output, config: &RunConfig) {
    output.warn(&lab::without_effect(config));
    // Costs that cannot be found out end the run, with an error of their own.
    output.warn(&lab::late_by_a_switch(config).unwrap_or_default());
    output.warn(&lab::full_before_late(config).unwrap_or_default());
}

/// Says what was asked for and did nothing, as the run has shown.
pub(crate) fn warn_after(output: Output, config: &RunConfig, result: &RunResult) {
    output.warn(&lab::came_to_nothing(config, result));
}

/// Prints a result: JSON to the standard output, or a summary there, or on the standard error if packets went there.
fn report(result: &RunResult, output: Output) -> Result<ExitCode, Failure> {
    output.answer(result, || match findings::no_packet(result) {
        Some(said) => format!("{said}.\n"),
        None => format!("{}\n{}\n", table::summary(result), findings::of_run(result)),
    })?;
    if result.measured.overdue_max_ns > OVERDUE_NS {
        let why = match bottleneck(result) {
            Some(_) => "the dispatcher cannot keep up with this rate",
            None => "the buffer was full, or other programs had the processor",
        };
        output.remark(&format!(
            "packets were due for up to {} before they were taken in: {why}",
            time(result.measured.overdue_max_ns as f64)
        ));
    }
    if result.timeline_cut {
        output::say("humpyard: the timeline ends before the run: --timeline-packets and --timeline-for say when");
    }
    Ok(verdict(&[result]))
}

/// Exit code 1, and why, if a result does not add up or its input was damaged. Panics of services are reported; their
/// packets have a name in the result like all that services drop.
pub(crate) fn verdict(results: &[&RunResult]) -> ExitCode {
    let mut code = ExitCode::SUCCESS;
    for result in results {
        if let Some(line) = panics(result) {
            output::say(&format!("humpyard: {line}"));
        }
        if !result.packets.balance() {
            output::say(&format!("humpyard: {}: packets are unaccounted for: {:?}", result.policy, result.packets));
            code = ExitCode::from(1);
        }
        if let Some(what) = &result.unaccounted {
            output::say(&format!("humpyard: {}: packets are unaccounted for: {what}", result.policy));
            code = ExitCode::from(1);
        }
        if !result.ports.agree(&result.packets) {
            output::say(&format!(
                "humpyard: {}: the interfaces counted other packets than the run ({} in, {} out): {}",
                result.policy,
                result.packets.arrived,
                result.packets.forwarded,
                table::port_counts(result)
            ));
            code = ExitCode::from(1);
        }
    }
    if let Some(damage) = results.iter().find_map(|result| result.damage.as_ref()) {
        output::say(&format!("humpyard: {}", damage.message));
        if damage.is_loss() {
            code = ExitCode::from(1);
        }
    }
    code
}

/// What there is to say of a run in which a service panicked.
fn panics(result: &RunResult) -> Option<String> {
    let panic = result.panic.as_ref()?;
    let count = result.packets.dropped_out.get("service_panicked").copied().unwrap_or(0);
    let kept = match result.options.get("quarantine").map(String::as_str) {
        None | Some("none") => "--quarantine FILE keeps such packets".to_owned(),
        Some(file) => format!("such packets are in {file}"),
    };
    Some(format!(
        "{}: a service panicked at {}, dropped; `{}` at packet {}: {}; {kept}",
        result.policy,
        counted(count, "packet"),
        panic.service,
        panic.packet,
        panic.message
    ))
}

#[cfg(test)]
mod tests {
    use core::sync::atomic::AtomicBool;

    use humpyard::lab::{Host, Panic};

    use super::*;

    #[test]
    fn panics_of_services_are_told_in_one_line() {
        let mut config = RunConfig::new(Host::Live, "gen:poisson:packets=10", "hrw".parse().unwrap());
        config.cores = 0;
        let (stop, mut progress) = (AtomicBool::new(false), |_, _| {});
        let mut control = Control::new(&stop, &mut progress);
        let mut result = lab::run(&config, &mut control).unwrap();
        assert_eq!(panics(&result), None);
        result.packets.dropped_out.insert("service_panicked", 3);
        result.panic = Some(Panic { packet: 7, service: "tcp".into(), message: "no room (at dpi.rs:1:2)".into() });
        let said = "hrw: a service panicked at 3 packets, dropped; `tcp` at packet 7: no room (at dpi.rs:1:2); ";
        assert_eq!(panics(&result).unwrap(), format!("{said}--quarantine FILE keeps such packets"));
        result.options.insert("quarantine", "bad.pcapng".into());
        assert_eq!(panics(&result).unwrap(), format!("{said}such packets are in bad.pcapng"));
    }
}
