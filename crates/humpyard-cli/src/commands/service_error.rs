//! The service errors of a schedule over time, to be looked at.

use humpyard::id::Id;
use humpyard::lab::plot::{Axis, Line, LinePlot, Point};
use humpyard::sim::{Schedule, ScheduleRequest};

/// Clients beyond this are left out: their lines could not be told apart.
const CLIENTS_MAX: usize = 16;
/// Pieces of time of which a long schedule shows the least and the greatest error.
const PIECES: usize = 300;

/// A line for each client: its service less its weight's share of all service so far, after each slot.
pub(crate) fn plot(request: &ScheduleRequest, schedule: &Schedule) -> LinePlot {
    let clients = request.weights.len();
    let mut title = format!("Service error under {}", request.policy);
    if clients > CLIENTS_MAX {
        title.push_str(&format!(", the first {CLIENTS_MAX} of {clients} clients"));
    }
    let description = format!(
        "A line for each client: the service it has had, less its share of all service so far by its weight, in slots. Between \
         services a line falls, at a service it rises; the nearer to 0, the fairer. Errors lie from {} to {}.",
        schedule.error_min, schedule.error_max
    );
    LinePlot {
        title,
        description,
        x: Axis::linear("slots", |slots| format!("{slots:.0}")),
        y: Axis::linear("service error (slots)", |error| format!("{error:.2}")),
        lines: (0..clients.min(CLIENTS_MAX)).map(|client| line(request, schedule, client)).collect(),
    }
}

fn line(request: &ScheduleRequest, schedule: &Schedule, client: usize) -> Line {
    let weight = request.weights[client].get();
    let all: f64 = request.weights.iter().map(|weight| f64::from(weight.get())).sum();
    let (mut service, mut total) = (0.0, 0.0);
    let after = schedule.slots.iter().enumerate().map(|(slot, served)| {
        for served in served.iter().flatten() {
            total += 1.0;
            service += f64::from(u8::from(served.index() == client));
        }
        ((slot + 1) as f64, service - total * f64::from(weight) / all)
    });
    let points: Vec<(f64, f64)> = [(0.0, 0.0)].into_iter().chain(after).collect();
    let every = points.len().div_ceil(PIECES);
    let points: Vec<(f64, f64)> = if every == 1 { points } else { points.chunks(every).flat_map(extremes).collect() };
    Line {
        name: format!("client {}, weight {weight}", client + 1),
        points: points.into_iter().map(Point::from).collect(),
    }
}

/// The points with the least and the greatest value, by time.
fn extremes(points: &[(f64, f64)]) -> [(f64, f64); 2] {
    let first = points[0];
    let least = points.iter().fold(first, |least, point| if point.1 < least.1 { *point } else { least });
    let most = points.iter().fold(first, |most, point| if point.1 > most.1 { *point } else { most });
    if least.0 <= most.0 { [least, most] } else { [most, least] }
}
