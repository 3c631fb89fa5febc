//! What a client costs in memory.

use humpyard_core::policy::Setup;
use humpyard_policies::spec::PolicySpec;

use crate::counting::held;

/// Bytes for each client more.
fn bytes_per_client(spec: &str) -> f64 {
    let spec: PolicySpec = spec.parse().expect("registered");
    let [few, many] = [10_000, 50_000].map(|clients| {
        let setup = Setup { clients, packets: 1, ..Setup::default() };
        held(|| spec.build_share(&setup).expect("it fits")).1
    });
    (many - few) as f64 / 40_000.0
}

/// Everything that grows with clients counts.
#[test]
fn slots_take_64_bytes_a_client_at_most() {
    for spec in ["wrr", "lottery", "lottery:compensation=true", "vtrr", "srr", "strr"] {
        let bytes = bytes_per_client(spec);
        assert!(bytes <= 64.0, "{spec}: {bytes} bytes a client");
    }
}
