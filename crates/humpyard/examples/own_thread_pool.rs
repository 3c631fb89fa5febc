//! A thread pool of your own: two threads run the jobs of three tenants, and `gr3` decides whose job is next.
//!
//! The scheduler and the jobs are behind one lock. A thread holds it to ask for a job and to report one as done,
//! and runs the job without it.
#![expect(clippy::print_stdout, reason = "an example shows what it found")]

use std::collections::HashMap;
use std::sync::{Condvar, Mutex};
use std::thread;
use std::time::Instant;

use humpyard::config::SchedulerConfig;
use humpyard::id::{ClientId, CoreId, Slot};
use humpyard::mechanism::{Arrival, FlowOrder};
use humpyard::packet::Packet;
use humpyard::policies::spec::{AnyScheduler, PolicySpec};
use humpyard::policy::BuildError;
use humpyard::unit::{Time, Weight};

const THREADS: u16 = 2;
const WEIGHTS: [u32; 3] = [5, 3, 1];
/// Jobs of each tenant.
const JOBS: u64 = 60;
/// Job starts in which the shares are counted: until then every tenant has jobs waiting.
const COUNTED: usize = 90;

type Job = Box<dyn FnOnce() -> u64 + Send>;

/// The data behind the lock.
struct Shared {
    scheduler: AnyScheduler,
    jobs: HashMap<Slot, Job>,
    /// The tenants of the jobs in the order of their starts.
    started: Vec<usize>,
    /// The sum of the jobs' results.
    sum: u64,
    /// Whether no more jobs come.
    closed: bool,
}

struct Pool {
    shared: Mutex<Shared>,
    /// Jobs have come, or none will come.
    changed: Condvar,
    began: Instant,
}

impl Pool {
    fn new() -> Result<Self, BuildError> {
        let weights = WEIGHTS.map(|weight| Weight::new(weight).expect("positive"));
        let config = SchedulerConfig {
            // Jobs are independent: both threads may work for one tenant.
            flow_order: FlowOrder::Free,
            ..SchedulerConfig::new(usize::from(THREADS)).with_clients(weights.to_vec())
        };
        let scheduler = "gr3".parse::<PolicySpec>()?.build(&config)?;
        let shared = Shared { scheduler, jobs: HashMap::new(), started: Vec::new(), sum: 0, closed: false };
        Ok(Self { shared: Mutex::new(shared), changed: Condvar::new(), began: Instant::now() })
    }

    fn now(&self) -> Time {
        Time::from_ns(self.began.elapsed().as_nanos() as u64)
    }

    fn submit(&self, tenant: usize, job: Job) {
        let shared = &mut *self.shared.lock().expect("no thread panicked");
        // The scheduler counts work in bytes by default; here a job is 1000 bytes.
        let packet = Packet { client: ClientId(tenant as u32), length: 1000, ..Packet::default() };
        let Arrival::Queued(slot) = shared.scheduler.on_arrival(self.now(), &packet) else { panic!("there is room") };
        shared.jobs.insert(slot, job);
        self.changed.notify_one();
    }

    fn close(&self) {
        self.shared.lock().expect("no thread panicked").closed = true;
        self.changed.notify_all();
    }

    /// Runs jobs on the calling thread until none is left and none will come.
    fn work(&self, core: CoreId) {
        let mut guard = self.shared.lock().expect("no thread panicked");
        loop {
            let shared = &mut *guard;
            let Some(dispatch) = shared.scheduler.next(self.now(), core) else {
                if shared.closed {
                    return;
                }
                guard = self.changed.wait(guard).expect("no thread panicked");
                continue;
            };
            let job = shared.jobs.remove(&dispatch.slot).expect("a job of ours");
            shared.started.push(dispatch.packet.client.0 as usize);
            drop(guard);
            let start = Instant::now();
            let result = job();
            let busy = Time::from_ns(start.elapsed().as_nanos() as u64);
            guard = self.shared.lock().expect("no thread panicked");
            guard.sum += result;
            guard.scheduler.on_completion(self.now(), dispatch.slot, busy);
        }
    }
}

pub(crate) fn main() -> Result<(), BuildError> {
    let pool = Pool::new()?;
    for number in 0..JOBS {
        for tenant in 0..WEIGHTS.len() {
            pool.submit(tenant, Box::new(move || (0..20_000).fold(number, |sum, i| std::hint::black_box(sum ^ i))));
        }
    }
    thread::scope(|scope| {
        for core in (0..THREADS).map(CoreId) {
            let pool = &pool;
            scope.spawn(move || pool.work(core));
        }
        pool.close();
    });
    let shared = pool.shared.into_inner().expect("no thread panicked");
    let account = shared.scheduler.account();
    assert!(account.balances() && account.processed == 3 * JOBS && shared.jobs.is_empty(), "{account:?}");
    let mut counts = [0usize; 3];
    shared.started[..COUNTED].iter().for_each(|&tenant| counts[tenant] += 1);
    println!("{counts:?} of the first {COUNTED} jobs, at weights {WEIGHTS:?}; the jobs add up to {}", shared.sum);
    assert!((0..3).all(|i| counts[i].abs_diff([50, 30, 10][i]) <= 6), "not shared by weight");
    Ok(())
}
