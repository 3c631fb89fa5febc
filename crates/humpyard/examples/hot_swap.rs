//! A hot swap: `gr3` takes over from `fcfs` while packets wait and one is in service, and later two cores from one.
//!
//! Nothing is lost, and flows keep their order. Swaps also run on the data plane and in simulations:
//! `RunConfig::swaps`.
#![expect(clippy::print_stdout, reason = "an example shows what it found")]

use humpyard::config::SchedulerConfig;
use humpyard::id::{ClientId, CoreId, FlowId};
use humpyard::mechanism::{Arrival, Dispatch};
use humpyard::packet::Packet;
use humpyard::policies::spec::{AnyScheduler, PolicySpec};
use humpyard::policy::BuildError;
use humpyard::unit::{Time, Weight};

const WEIGHTS: [u32; 3] = [5, 3, 1];
/// Packets of each client.
const PACKETS: u64 = 100;

/// A scheduler, a clock that ticks at each packet, and the packets served.
struct Machine {
    scheduler: AnyScheduler,
    now: Time,
    served: Vec<Packet>,
}

impl Machine {
    fn tick(&mut self) -> Time {
        self.now += Time::from_ns(1);
        self.now
    }

    fn begin(&mut self, core: CoreId) -> Dispatch {
        let now = self.tick();
        self.scheduler.next(now, core).expect("packets are waiting")
    }

    fn finish(&mut self, dispatch: &Dispatch) {
        let now = self.tick();
        self.scheduler.on_completion(now, dispatch.slot, Time::from_ns(1));
        self.served.push(dispatch.packet);
    }

    /// Serves this many packets, and returns how many of each client.
    fn serve(&mut self, packets: usize, cores: u16) -> [usize; 3] {
        let before = self.served.len();
        for number in 0..packets {
            let dispatch = self.begin(CoreId(number as u16 % cores));
            self.finish(&dispatch);
        }
        let mut counts = [0; 3];
        self.served[before..].iter().for_each(|packet| counts[packet.client.0 as usize] += 1);
        counts
    }
}

pub(crate) fn main() -> Result<(), BuildError> {
    let weights = WEIGHTS.map(|weight| Weight::new(weight).expect("positive"));
    let config = SchedulerConfig { flows: 3, ..SchedulerConfig::new(1).with_clients(weights.to_vec()) };
    let (fcfs, gr3): (PolicySpec, PolicySpec) = ("fcfs".parse()?, "gr3".parse()?);
    let mut machine = Machine { scheduler: fcfs.build(&config)?, now: Time::ZERO, served: Vec::new() };
    for number in 0..3 * PACKETS as u32 {
        let client = number % 3;
        let packet = Packet { client: ClientId(client), flow: FlowId(client), length: 1000, ..Packet::default() };
        assert!(matches!(machine.scheduler.on_arrival(Time::ZERO, &packet), Arrival::Queued(_)), "there is room");
    }
    let under_fcfs = machine.serve(54, 1);

    // The new policy learns of all packets that wait. The one in service is completed as usual.
    let in_service = machine.begin(CoreId(0));
    let now = machine.tick();
    gr3.take_over(now, &fcfs, &config, &mut machine.scheduler)?;
    machine.finish(&in_service);
    let under_gr3 = machine.serve(54, 1);

    // Other cores, or policies of other families, need a new scheduler. It replaces one with no packet in service.
    let fresh = gr3.build(&SchedulerConfig { cores: 2, ..config })?;
    let now = machine.tick();
    let before = machine.scheduler.replace(now, fresh)?;
    drop(before); // Where each microsecond counts, do this on another thread.
    let on_two_cores = machine.serve(27, 2);
    let rest = machine.scheduler.account().held as usize;
    machine.serve(rest, 2);

    println!(
        "of 54 packets under fcfs: {under_fcfs:?}; under gr3: {under_gr3:?}; of 27 on two cores: {on_two_cores:?}"
    );
    assert_eq!(under_fcfs, [18; 3], "fcfs serves in order of arrival");
    assert!((0..3).all(|i| under_gr3[i].abs_diff([30, 18, 6][i]) < 5), "gr3 shares by weight");
    assert!((0..3).all(|i| on_two_cores[i].abs_diff([15, 9, 3][i]) < 5), "gr3 still shares by weight");
    let account = machine.scheduler.account();
    assert!(account.balances() && account.processed == 3 * PACKETS, "nothing is lost: {account:?}");
    let of = |client| machine.served.iter().filter(move |packet| packet.client == ClientId(client));
    assert!((0..3).all(|client| of(client).is_sorted_by_key(|packet| packet.sequence)), "flows keep their order");
    Ok(())
}
