//! Tests isolation for every policy that promises it: min(need, guarantee) cores after one switch
//! and one packet, whatever the other services do.

use alloc::vec;
use alloc::vec::Vec;

use humpyard_core::config::ServiceConfig;
use humpyard_core::id::ServiceId;
use humpyard_core::policy::{Allocate, Build, Params, Promise};
use humpyard_core::random::{Random, Seed};
use humpyard_core::unit::Time;

use super::everest::Everest;
use super::everest_ae::EverestAe;
use super::everest_env::EverestEnv;
use super::r#static::{Static, integer_shares};
use super::testing::{Scenario, service, us};

const A: ServiceId = ServiceId(0);

/// A service that is silent while the others send freely. Then it needs, and continues to need, all
/// its guaranteed cores.
struct Trial {
    cores: usize,
    services: Vec<ServiceConfig>,
    begin: Time,
    arrivals: Vec<(Time, ServiceId)>,
    /// Whether the other services may still move cores among them when it begins.
    restless: bool,
}

impl Trial {
    fn draw(seed: u64, others: usize) -> Self {
        let mut random = Seed(seed).stream("test");
        let cores = others + 3 + random.below(8) as usize;
        let draw = |random: &mut Random| {
            let time = 1_000 + random.below(15_000);
            let tolerance = time / 100 + random.below(400);
            (
                ServiceConfig { switch_cost: us(20 + random.below(200)), ..service(time, tolerance, 0) },
                1 + random.below(9),
            )
        };
        let (mut services, weights): (Vec<_>, Vec<u64>) = (0..=others).map(|_| draw(&mut random)).unzip();
        let sum: u64 = weights.iter().sum();
        for (service, weight) in services.iter_mut().zip(&weights) {
            service.guarantee_millionths = (weight * 1_000_000 / sum) as u32;
        }
        let begin = us(1_000 + random.below(2_000));
        let mut trial = Self { cores, services, begin, arrivals: Vec::new(), restless: others > 1 };
        trial.flood(&mut random);
        trial.need();
        trial.arrivals.sort_by_key(|&(time, _)| time);
        trial
    }

    /// Gives all other services packets for 8 ms of all cores each, in bursts.
    fn flood(&mut self, random: &mut Random) {
        for (id, service) in (0..).map(ServiceId).zip(&self.services).skip(1) {
            let packets = self.cores as u64 * 8_000_000 / service.packet_time.as_ns();
            let bursts = if self.restless { 8 } else { 1 };
            for _ in 0..bursts {
                let at = us(if self.restless { random.below(3_000) } else { 0 });
                self.arrivals.extend(vec![(at, id); (packets / bursts) as usize]);
            }
        }
    }

    fn guaranteed(&self) -> u64 {
        let weights: Vec<u64> = self.services.iter().map(|service| u64::from(service.guarantee_millionths)).collect();
        integer_shares(&weights, self.cores)[0] as u64
    }

    /// Adds a burst that is larger than its guaranteed cores serve in time, and then as many
    /// packets as they can serve.
    fn need(&mut self) {
        let (service, cores) = (&self.services[0], self.guaranteed());
        let time = service.packet_time.as_ns();
        let at_once = cores * (service.tolerance.as_ns() / time + 2);
        self.arrivals.extend(vec![(self.begin, A); at_once as usize]);
        let gap = time / cores;
        self.arrivals.extend((1..2_000_000 / gap).map(|number| (self.begin + Time::from_ns(number * gap), A)));
    }

    /// Checks that the packets of the service are done as if it had its cores after a switch and a
    /// packet. If others still move cores, the cores in transit must arrive first.
    fn holds<P: Allocate + Build>(&self, parameters: &[(&str, &str)]) {
        assert!(P::INFO.promises.contains(&Promise::Isolation));
        let mut params = P::Params::default();
        for (name, value) in parameters {
            params.set(P::INFO.name, name, value).unwrap();
        }
        let scenario = Scenario { cores: self.cores, services: &self.services, arrivals: &self.arrivals };
        let outcome = scenario.run_with::<P>(&params, false);
        let longest = |of: fn(&ServiceConfig) -> Time| self.services.iter().map(of).max().unwrap().as_ns();
        let switches = self.services[0].switch_cost.as_ns()
            + if self.restless { longest(|service| service.switch_cost) } else { 0 };
        let ready = self.begin + Time::from_ns(switches + longest(|service| service.packet_time));
        let (time, cores) = (self.services[0].packet_time.as_ns(), self.guaranteed());
        let end = self.begin + us(2_000);
        let own = outcome.completions.iter().filter(|&&(_, service)| service == A).map(|&(time, _)| time);
        let own: Vec<Time> = own.take_while(|&done| done < end).collect();
        assert!(own.len() as u64 > cores * 50, "{} packets are not much of a test", own.len());
        for (nth, done) in (1..).zip(own) {
            let due = ready + Time::from_ns(u64::div_ceil(nth, cores) * time);
            assert!(
                done <= due,
                "{} {parameters:?}: packet {nth} is done at {done:?}, not by {due:?}, with {cores} of {} cores from {:?}",
                P::INFO.name,
                self.cores,
                self.begin
            );
        }
    }
}

#[test]
fn a_guarantee_is_kept_whatever_the_others_do() {
    for seed in 0..10 {
        for others in [1, 3] {
            let trial = Trial::draw(seed, others);
            trial.holds::<Static>(&[]);
            for extra in ["literal", "once-per-tsw", "never"] {
                trial.holds::<Everest>(&[("extra-reclaim", extra)]);
                trial.holds::<EverestAe>(&[("extra-reclaim", extra)]);
                trial.holds::<EverestEnv>(&[("extra-reclaim", extra)]);
            }
        }
    }
}
