//! The program with a policy of its own finds what it says.

#[path = "../examples/custom_policy.rs"]
#[expect(dead_code, reason = "its `main` prints what is asserted here")]
mod program;

#[test]
fn the_shortest_packet_first_has_the_least_mean_delay() {
    let [drr, shortest] = program::delays().expect("both run");
    assert!(0.0 < shortest && shortest < drr, "{shortest} and {drr}");
}
