//! `schedule --clients`: the service errors of a sharing policy over random weights.

use std::num::NonZeroUsize;
use std::process::ExitCode;
use std::thread;

use humpyard::policy::Ties;
use humpyard::random::Seed;
use humpyard::sim::{Draws, DrawsRequest, Extreme, Heavy, SkewedWeights, draws as run_draws};
use serde::Serialize;

use crate::arguments::{HeavyOption, ScheduleArguments};
use crate::caller::named;
use crate::commands::configuration::ties;
use crate::failure::Failure;
use crate::figures::counted;
use crate::output::Output;
use crate::progress::Progress;

/// The document of `schedule --clients`: clients and draws are numbered from 1.
#[derive(Serialize)]
struct Document {
    policy: String,
    clients: u32,
    total: u32,
    skew: f64,
    heavy: &'static str,
    heaviest: u32,
    draws: u32,
    processors: u16,
    slots: u64,
    ties: Ties,
    seed: u64,
    error_min: f64,
    error_max: f64,
    error_min_exact: String,
    error_max_exact: String,
    error_min_at: Place,
    error_max_at: Place,
    /// Of `gr3mp`: the most draws from its run queue for one pick.
    #[serde(skip_serializing_if = "Option::is_none")]
    queue_draws_max: Option<u32>,
}

/// Where an error was met first.
#[derive(Serialize)]
struct Place {
    draw: u32,
    client: u32,
    weight: u32,
    /// After this many slots.
    slots: u64,
}

impl Place {
    fn of(extreme: &Extreme) -> Self {
        Self { draw: extreme.draw, client: extreme.client.0 + 1, weight: extreme.weight.get(), slots: extreme.slots }
    }
}

/// `humpyard schedule` with random weights.
pub(crate) fn draws(arguments: &ScheduleArguments) -> Result<ExitCode, Failure> {
    let request = request(arguments)?;
    let progress = Progress::new(&request.policy.to_string(), arguments.common.quiet);
    let all = f64::from(request.draws);
    let draws = run_draws(&request, |done| progress.count(done.into(), "draws", Some(f64::from(done) / all)))?;
    drop(progress);
    let document = document(arguments, &request, &draws);
    let output = Output::of(&arguments.common.output);
    output.answer(&document, || text(&document))?;
    let (heaviest, total) = (u64::from(document.heaviest), u64::from(document.total));
    if heaviest * u64::from(document.processors) > total {
        let of = document.processors;
        output.remark(&format!(
            "warning: of {of} processors the heavy client cannot have more than one, which is less than its part of the total; \
             errors are by the weights as given"
        ));
    }
    Ok(ExitCode::SUCCESS)
}

fn request(arguments: &ScheduleArguments) -> Result<DrawsRequest, Failure> {
    let clients = arguments.clients.unwrap_or_default() as usize;
    let heavy = match arguments.heavy {
        HeavyOption::First => Heavy::First,
        HeavyOption::Last => Heavy::Last,
    };
    let weights = SkewedWeights::new(clients, arguments.total.unwrap_or_default(), arguments.skew, heavy)?;
    let threads = arguments.threads.and_then(|threads| NonZeroUsize::new(threads.into()));
    Ok(DrawsRequest {
        policy: named(&arguments.policy)?,
        weights,
        draws: arguments.draws,
        processors: arguments.processors.into(),
        slots: arguments.slots.map(u64::from),
        ties: ties(arguments.ties),
        seed: Seed(arguments.common.seed),
        threads: threads.or_else(|| thread::available_parallelism().ok()).unwrap_or(NonZeroUsize::MIN),
    })
}

fn document(arguments: &ScheduleArguments, request: &DrawsRequest, draws: &Draws) -> Document {
    Document {
        policy: request.policy.to_string(),
        clients: arguments.clients.unwrap_or_default(),
        total: request.weights.total(),
        skew: arguments.skew,
        heavy: match arguments.heavy {
            HeavyOption::First => "first",
            HeavyOption::Last => "last",
        },
        heaviest: request.weights.heaviest(),
        draws: request.draws,
        processors: arguments.processors,
        slots: request.slots(),
        ties: request.ties,
        seed: arguments.common.seed,
        error_min: draws.least.error.value(),
        error_max: draws.greatest.error.value(),
        error_min_exact: draws.least.error.to_string(),
        error_max_exact: draws.greatest.error.to_string(),
        error_min_at: Place::of(&draws.least),
        error_max_at: Place::of(&draws.greatest),
        queue_draws_max: draws.queue_draws_max,
    }
}

fn text(document: &Document) -> String {
    let Document { policy, clients, total, heaviest, draws, slots, .. } = document;
    let line = |what: &str, exact: &str, value: f64, at: &Place| {
        let Place { draw, client, weight, slots } = at;
        let slots = counted(*slots, "slot");
        format!("  {what:<8} {value:>12.3}  {exact}: client {client} of weight {weight} after {slots} of draw {draw}\n")
    };
    let least = line("least", &document.error_min_exact, document.error_min, &document.error_min_at);
    let greatest = line("greatest", &document.error_max_exact, document.error_max, &document.error_max_at);
    let processors = match document.processors {
        1 => String::new(),
        processors => format!(" on {processors} processors"),
    };
    let queue_draws = document.queue_draws_max.map_or(String::new(), |most| {
        format!("at most {} from the run queue for a packet\n", counted(most.into(), "draw"))
    });
    format!(
        "{policy}: {clients} clients, weights add up to {total}, the heavy one has {heaviest}; {} of {}{processors}\nservice error\n{least}{greatest}{queue_draws}",
        counted((*draws).into(), "draw"),
        counted(*slots, "slot"),
    )
}
