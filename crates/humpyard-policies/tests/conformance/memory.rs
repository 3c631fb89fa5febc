//! The memory of a sharing policy per client, and of a steering policy per flow: everything that
//! grows with them counts.

use humpyard_core::config::SchedulerConfig;
use humpyard_core::id::{CoreId, FlowId, Id, IdVec};
use humpyard_core::packet::Packet;
use humpyard_core::policy::{CoreView, Steer, View};
use humpyard_core::unit::Time;
use humpyard_policies::registry::{AnyShare, AnySteer};
use humpyard_policies::spec::PolicySpec;

use crate::counting::bytes_held;

/// The most bytes per client.
const BYTES_MAX: f64 = 64.0;

/// Policies that need more, with their limits in bytes per client.
const EXCEPTIONS: [(&str, f64); 6] =
    [("gr3mp", 72.0), ("qfq+", 108.0), ("efq", 112.0), ("efq-warm", 114.0), ("lap", 80.0), ("efq-lap", 136.0)];

/// Returns the bytes that a sharing policy holds for `clients` clients.
fn bytes(spec: &str, clients: usize) -> i64 {
    let spec: PolicySpec = spec.parse().expect("registered");
    let config = SchedulerConfig { clients, ..SchedulerConfig::default() };
    let (_policy, bytes) = bytes_held(|| spec.build_share(&config).expect("it fits"));
    bytes
}

fn bytes_per_client(spec: &str) -> f64 {
    (bytes(spec, 8192) - bytes(spec, 4096)) as f64 / 4096.0
}

#[test]
fn clients_are_small() {
    let specs: Vec<String> = AnyShare::entries().iter().flat_map(|entry| entry.specs()).collect();
    let allowed = |spec: &str| {
        let exception = EXCEPTIONS.iter().find(|(name, _)| spec.split(':').next() == Some(name));
        exception.map_or(BYTES_MAX, |exception| exception.1)
    };
    let each = specs.iter().map(|spec| (spec, bytes_per_client(spec)));
    let larger: Vec<(&String, f64)> = each.filter(|&(spec, bytes)| bytes > allowed(spec)).collect();
    assert!(larger.is_empty(), "bytes of a client: {larger:?}");
}

/// The most bytes per flow of the steering policies that store flows; all others need none.
const FLOWS: [(&str, f64); 5] =
    [("h-cahrw", 16.0), ("ap", 112.0), ("gps-hrw", 60.0), ("ps-hrw", 76.0), ("flow-slice", 16.0)];

/// Returns a steering policy for `flows` flows, and the bytes that it holds.
fn steering(spec: &str, cores: usize, flows: usize) -> (AnySteer, i64) {
    let spec: PolicySpec = spec.parse().expect("registered");
    let config = SchedulerConfig { cores, flows, ..SchedulerConfig::default() };
    bytes_held(|| spec.build_steer(&config).expect("it fits").expect("it steers"))
}

#[test]
fn flows_are_small() {
    for spec in AnySteer::entries().iter().flat_map(|entry| entry.specs()) {
        let each = (steering(&spec, 8, 8192).1 - steering(&spec, 8, 4096).1) as f64 / 4096.0;
        let known = FLOWS.iter().find(|(name, _)| spec.split(':').next() == Some(name));
        let allowed = known.map_or(0.0, |known| known.1);
        assert!(each <= allowed && each >= allowed / 2.0, "{spec}: {each} bytes of a flow, not {allowed}");
    }
}

/// On 1,024 cores the pool of sets of cores has reached its limit, and every flow still finds a core.
#[test]
fn a_million_flows_on_a_thousand_cores() {
    let (flows, cores) = (1 << 20, 1024);
    let views = IdVec::from_fn(cores, |_| CoreView::default());
    let eligible: Vec<CoreId> = views.ids().collect();
    for spec in AnySteer::entries().iter().flat_map(|entry| entry.specs()) {
        let (mut policy, bytes) = steering(&spec, cores, flows);
        let known = FLOWS.iter().find(|(name, _)| spec.split(':').next() == Some(name));
        let pool = if known.is_some() { 40 << 20 } else { 0 };
        let allowed = pool + (8 << 20) + known.map_or(0, |known| (known.1 * flows as f64) as i64);
        assert!(bytes <= allowed, "{spec}: {bytes} bytes, not {allowed}");
        for (sequence, flow) in (0..flows).step_by(997).enumerate() {
            let key = humpyard_core::hash::mix(flow as u64);
            let packet = Packet {
                key,
                rss: key as u32,
                flow: FlowId::from_index(flow),
                sequence: sequence as u64,
                length: 1000,
                ..Packet::default()
            };
            let view = View { as_of: Time::ZERO, cores: &views, eligible: &eligible };
            let target = policy.steer(Time::ZERO, &packet, &view);
            policy.on_enqueue(Time::ZERO, target, &packet);
        }
    }
}
