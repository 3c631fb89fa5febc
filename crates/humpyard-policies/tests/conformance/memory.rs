//! How much memory a client costs a sharing policy: everything that grows with the clients counts.

use humpyard_core::policy::Setup;
use humpyard_policies::registry::AnyShare;
use humpyard_policies::spec::PolicySpec;

use crate::counting::bytes_held;

/// The most bytes of a client.
const BYTES_MAX: f64 = 64.0;

/// Policies that need more: as much.
const EXCEPTIONS: [(&str, f64); 5] =
    [("gr3mp", 72.0), ("qfq+", 108.0), ("efq", 124.7), ("efq-warm", 126.7), ("lap", 82.4)];

/// Bytes that are held for so many clients.
fn bytes(spec: &str, clients: usize) -> i64 {
    let spec: PolicySpec = spec.parse().expect("registered");
    let setup = Setup { clients, ..Setup::default() };
    let (_policy, bytes) = bytes_held(|| spec.build_share(&setup).expect("it fits"));
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
