//! Your own packets under a policy of humpyard: three tenants, weights 3, 2, 1, one core, deficit round robin.
#![expect(clippy::print_stdout, reason = "an example shows what it found")]

use humpyard::id::{ClientId, CoreId, ServiceId};
use humpyard::mechanism::Options;
use humpyard::packet::Packet;
use humpyard::policies::spec::PolicySpec;
use humpyard::policy::Setup;
use humpyard::unit::{Time, Weight};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let policy: PolicySpec = "drr".parse()?;
    let weights = [3, 2, 1].map(|weight| Weight::new(weight).expect("positive"));
    let setup = Setup { flows: 3, clients: 3, weights: &weights, ..Setup::default() };
    let mut scheduler = policy.build(&setup, Options::default())?;

    // Each tenant has a hundred packets waiting.
    for packet in 0..300 {
        let client = ClientId(packet % 3);
        let packet = Packet { client, length: 500, service: ServiceId(0), ..Packet::default() };
        scheduler.on_arrival(Time::ZERO, packet);
    }
    // A core serves fifty-four of them; your work would stand between the two calls.
    let mut served = [0; 3];
    for step in 1..=54 {
        let now = Time::from_ns(step * 1000);
        let dispatch = scheduler.next(now, CoreId(0)).expect("packets are waiting");
        served[dispatch.packet.client.0 as usize] += 1;
        scheduler.on_completion(now, dispatch.slot, Time::from_ns(1000));
    }
    println!("served of each tenant: {served:?}");
    assert_eq!(served, [27, 18, 9]);
    Ok(())
}
