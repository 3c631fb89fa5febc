//! Metrics of a live run while it goes on: `/metrics` for Prometheus and its like, `/snapshot.json` for `humpyard top`.
//!
//! An [`Endpoint`] is bound before the run starts, while privileges and remedies are at hand. A thread of its own then asks the
//! run, for each request, how it stands, and ends with it. It keeps a bounded number of connections and waits for all of them at
//! once, for two seconds each, so that slow and silent clients keep no others from their figures.
//!
//! The names, types and the escaping of OpenMetrics are those of `prometheus-client`, the client of the Prometheus project;
//! requests are read by `httparse`, the parser of `hyper`. A server is not needed for two documents: `tiny_http` has had no
//! release since 2022 and keeps a thread for each silent connection for ever, and `hyper` brings a runtime.

mod about;
mod answer;
mod client;
mod document;
mod exchange;
mod families;
mod open_metrics;
mod server;

pub use about::About;
pub use client::{FetchError, fetch};
pub use document::{
    Core, Delays, Dispatcher, Flows, KernelFigures, Packets, PacketsBy, Ports, Service, Snapshot, TopFlow,
};
pub use families::{Family, families};
pub use server::{Endpoint, Serving};

/// Where metrics are usually: the port that OpenTelemetry's exporters for Prometheus have.
pub const USUAL_ADDRESS: &str = "127.0.0.1:9464";
