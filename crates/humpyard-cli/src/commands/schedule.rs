//! `schedule`: the bare sequence of a sharing policy.

use std::process::ExitCode;

use humpyard::id::{ClientId, Id};
use humpyard::lab::parse_weights;
use humpyard::lab::report::ReportFile;
use humpyard::papers::short;
use humpyard::policies::share::feasible::FeasibleWeights;
use humpyard::random::Seed;
use humpyard::sim::{Schedule, ScheduleRequest, schedule as run_schedule};
use serde::Serialize;

use crate::arguments::ScheduleArguments;
use crate::caller::named;
use crate::commands::configuration::ties;
use crate::commands::{draws, service_error};
use crate::failure::Failure;
use crate::output::Output;

/// The document of `schedule`: clients are numbered from 1, an idle slot is null.
#[derive(Serialize)]
struct Document {
    policy: String,
    weights: Vec<u32>,
    processors: u16,
    slots: Slots,
    error_min: f64,
    error_max: f64,
    error_min_exact: String,
    error_max_exact: String,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Slots {
    /// One processor: a client each.
    One(Vec<Option<u32>>),
    /// Several: a list each, one entry per processor.
    Several(Vec<Vec<Option<u32>>>),
}

/// `humpyard schedule`.
pub(crate) fn schedule(arguments: &ScheduleArguments) -> Result<ExitCode, Failure> {
    let (Some(weights), Some(slots)) = (&arguments.weights, arguments.slots) else { return draws::draws(arguments) };
    let weights = parse_weights(weights)?;
    let request = ScheduleRequest {
        policy: named(&arguments.policy)?,
        order: order(arguments.order.as_deref(), weights.len())?,
        processors: usize::from(arguments.processors),
        slots: slots as usize,
        ties: ties(arguments.ties),
        seed: Seed(arguments.common.seed),
        weights,
    };
    let plot = arguments.plot.as_deref().map(ReportFile::create).transpose()?;
    let schedule = run_schedule(&request)?;
    if let Some(plot) = plot {
        plot.write(&service_error::plot(&request, &schedule).svg().file())?;
    }
    let output = Output::of(&arguments.common.output).unwrapped();
    output.answer(&document(&request, &schedule), || text(&request, &schedule))?;
    let weights = request.weights.iter().map(|weight| weight.get()).collect::<Vec<_>>();
    warn_of_capped(output, &weights, request.processors);
    Ok(ExitCode::SUCCESS)
}

/// Says which clients are entitled to more than the one processor that they can have.
fn warn_of_capped(output: Output, weights: &[u32], processors: usize) {
    let mut feasible = FeasibleWeights::new(processors, weights.len(), |id| weights[id.index()]);
    (0..weights.len()).for_each(|client| feasible.join(ClientId::from_index(client)));
    let (mut capped, mut ceiling) = (Vec::new(), 0.0);
    feasible.readjust(processors, |id, (above, below)| {
        capped.push(format!("{} (of weight {})", id.0 + 1, weights[id.index()]));
        ceiling = above as f64 / below as f64;
    });
    let are_same = weights.windows(2).all(|pair| pair[0] == pair[1]);
    if capped.is_empty() || are_same {
        return;
    }
    let clients = if capped.len() == 1 { "client" } else { "clients" };
    let said = if weights.len() <= processors {
        "each can have a processor of its own, whatever its weight".to_owned()
    } else {
        let listed = capped.iter().take(CAPPED_MAX).cloned().collect::<Vec<_>>().join(", ");
        let more = capped.len().saturating_sub(CAPPED_MAX);
        let more = if more == 0 { String::new() } else { format!(" and {more} more") };
        format!("{clients} {listed}{more} cannot have more than one, as with weight {}", short(ceiling))
    };
    output.remark(&format!("warning: of {processors} processors {said}; errors are by the weights as given"));
}

/// How many clients are named at most.
const CAPPED_MAX: usize = 5;

/// Client numbers from 1, each once, as ids from 0.
fn order(text: Option<&str>, clients: usize) -> Result<Vec<ClientId>, Failure> {
    let Some(text) = text else { return Ok((0..clients).map(ClientId::from_index).collect()) };
    let numbers: Option<Vec<usize>> = text.split(',').map(|part| part.trim().parse().ok()).collect();
    let mut sorted = numbers.clone().unwrap_or_default();
    sorted.sort_unstable();
    if !sorted.into_iter().eq(1..=clients) {
        return Err(Failure::new(format!("--order takes each client from 1 to {clients} once, not `{text}`")));
    }
    Ok(numbers.unwrap_or_default().into_iter().map(|number| ClientId::from_index(number - 1)).collect())
}

fn number(client: Option<ClientId>) -> Option<u32> {
    client.map(|client| client.0 + 1)
}

fn document(request: &ScheduleRequest, schedule: &Schedule) -> Document {
    let slots = || schedule.slots.iter();
    Document {
        policy: request.policy.to_string(),
        weights: request.weights.iter().map(|weight| weight.get()).collect(),
        processors: request.processors as u16,
        slots: if request.processors == 1 {
            Slots::One(slots().map(|served| number(served[0])).collect())
        } else {
            Slots::Several(slots().map(|served| served.iter().copied().map(number).collect()).collect())
        },
        error_min: schedule.error_min.value(),
        error_max: schedule.error_max.value(),
        error_min_exact: schedule.error_min.to_string(),
        error_max_exact: schedule.error_max.to_string(),
    }
}

/// One line per processor; numbers of one digit stand without gaps.
fn text(request: &ScheduleRequest, schedule: &Schedule) -> String {
    let gap = if request.weights.len() < 10 { "" } else { " " };
    let shown = |client: Option<ClientId>| number(client).map_or("-".to_owned(), |number| number.to_string());
    let mut text = String::new();
    for processor in 0..request.processors {
        let line: Vec<String> = schedule.slots.iter().map(|served| shown(served[processor])).collect();
        text.push_str(&line.join(gap));
        text.push('\n');
    }
    text.push_str(&format!("service error from {} to {}\n", schedule.error_min, schedule.error_max));
    text
}
