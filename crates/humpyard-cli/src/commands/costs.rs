//! What services cost, as `--costs` says.

use humpyard::lab::{self, AUTO, AssumedHost, Control, Costs, RunConfig, ServiceChoice};
use humpyard::name::Named;

use crate::failure::Failure;
use crate::output;
use crate::progress::Progress;
use crate::stop;

/// The costs that are asked for by this text, for these services.
pub(crate) fn costs<'a>(text: &str, works: impl IntoIterator<Item = &'a Named>) -> Result<Costs, Failure> {
    let costs = if text == AUTO { Costs::auto(works) } else { text.parse() };
    costs.map_err(Failure::from)
}

/// What is done to packets.
pub(crate) fn works(services: &[ServiceChoice]) -> impl Iterator<Item = &Named> {
    services.iter().map(|choice| &choice.work)
}

/// Measures what the costs of a run that can be lack, if they are `auto`: see [`measure`].
pub(crate) fn measure_for(config: &mut RunConfig, quiet: bool) -> Result<(), Failure> {
    measured_for(config, quiet)?.into_iter().for_each(|lines| output::say(&lines));
    Ok(())
}

/// Measures as [`measure_for`] does, and returns the lines of costs. `None`: they were given.
pub(crate) fn measured_for(config: &mut RunConfig, quiet: bool) -> Result<Option<String>, Failure> {
    if config.costs.is_auto() {
        // Errors are reported before the measurement, which takes seconds.
        lab::check(config)?;
    }
    let lines = measured(&mut config.costs, quiet)?;
    measure_host(config, quiet)?;
    Ok(lines)
}

/// Measures what the services of a run take on its own packets, and the host that it assumes.
pub(crate) fn measure_on_traffic(config: &mut RunConfig, quiet: bool) -> Result<(), Failure> {
    measure_host(config, quiet)?;
    let stop = stop::on_signal_but_hangup()?;
    let progress = Progress::new("costs", quiet);
    let mut show = |packets, part| progress.update(packets, part);
    Ok(lab::calibrate::measure_on_traffic(config, &mut Control::new(&stop, &mut show))?)
}

/// Returns the costs of a run and its host, as a file that `--costs` and `--host` take.
pub(crate) fn lines_measured_on_traffic(config: &RunConfig) -> String {
    let machine = config.assumed.as_ref().map(|host| host.machine.clone());
    let lines = Costs { machine, ..config.costs.clone() }.text();
    format!(
        "# Measured on the input: for the same simulation again, keep these lines for --costs FILE --host FILE.\n{lines}"
    )
}

/// Measures the host of this machine, if a run assumes it and it was not saved.
pub(crate) fn measure_host(config: &mut RunConfig, quiet: bool) -> Result<(), Failure> {
    if !config.assumed.as_ref().is_some_and(AssumedHost::is_unmeasured) {
        return Ok(());
    }
    // Errors are reported before the measurement, which takes seconds.
    lab::check(config)?;
    let stop = stop::on_signal_but_hangup()?;
    let progress = Progress::new("host", quiet);
    let machine = lab::calibrate::machine(config.seed, &stop, &mut |done, all, what| {
        progress.relabel_if_new(what);
        progress.count(done as u64, "steps", Some(done as f64 / all as f64));
    })?;
    drop(progress);
    output::say(&format!("This machine was measured for this run; {}.", AssumedHost::advice()));
    config.assumed = Some(AssumedHost::measured(machine));
    Ok(())
}

/// Measures what `auto` lacks, and prints its lines on the standard error, as a file that `--costs` takes.
pub(crate) fn measure(costs: &mut Costs, quiet: bool) -> Result<(), Failure> {
    measured(costs, quiet)?.into_iter().for_each(|lines| output::say(&lines));
    Ok(())
}

/// Measures what `auto` lacks, and returns its lines. `None`: the costs were given.
fn measured(costs: &mut Costs, quiet: bool) -> Result<Option<String>, Failure> {
    if !costs.is_auto() {
        return Ok(None);
    }
    // A closed terminal may mean something else to the run.
    let stop = stop::on_signal_but_hangup()?;
    let progress = Progress::new("costs", quiet);
    costs.measure(&stop, &mut |done, all, what| {
        progress.relabel_if_new(what);
        progress.count(done as u64, "steps", Some(done as f64 / all as f64));
    })?;
    drop(progress);
    let lines = Costs { machine: None, ..costs.clone() }.text();
    Ok(Some(format!("# --costs {AUTO}: for the same result again, keep these lines in a file.\n{lines}")))
}
