//! The examples run, and find what they assert.

#[path = "../examples/batch_simulation.rs"]
mod batch_simulation;
#[path = "../examples/custom_policy.rs"]
mod custom_policy;
#[path = "../examples/custom_service.rs"]
mod custom_service;
#[path = "../examples/custom_traffic.rs"]
mod custom_traffic;
#[path = "../examples/hot_swap.rs"]
mod hot_swap;
#[path = "../examples/own_event_loop.rs"]
mod own_event_loop;
#[path = "../examples/own_packets.rs"]
mod own_packets;
#[path = "../examples/own_thread_pool.rs"]
mod own_thread_pool;
#[path = "../examples/tokio_server.rs"]
mod tokio_server;

#[test]
fn batch_simulation_runs() {
    batch_simulation::main().unwrap_or_else(|error| panic!("{error}"));
}

#[test]
fn custom_policy_runs() {
    custom_policy::main().unwrap_or_else(|error| panic!("{error}"));
}

#[test]
fn custom_service_runs() {
    custom_service::main().unwrap_or_else(|error| panic!("{error}"));
}

#[test]
fn custom_traffic_runs() {
    custom_traffic::main().unwrap_or_else(|error| panic!("{error}"));
}

#[test]
fn hot_swap_runs() {
    hot_swap::main().unwrap_or_else(|error| panic!("{error}"));
}

#[test]
fn own_event_loop_runs() {
    own_event_loop::main().unwrap_or_else(|error| panic!("{error}"));
}

#[test]
fn own_packets_runs() {
    own_packets::main().unwrap_or_else(|error| panic!("{error}"));
}

#[test]
fn own_thread_pool_runs() {
    own_thread_pool::main().unwrap_or_else(|error| panic!("{error}"));
}

#[test]
fn tokio_server_runs() {
    tokio_server::main().unwrap_or_else(|error| panic!("{error}"));
}
