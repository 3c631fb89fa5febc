//! The library as a C program sees it: results and refusals.

use core::ffi::CStr;
use core::mem::MaybeUninit;
use core::ptr::{null, null_mut};

use super::*;

/// The value of C's `= {0}`.
fn zero<T>() -> T {
    // SAFETY: only used for structures of this crate, for which all zeros is a valid value.
    unsafe { MaybeUninit::zeroed().assume_init() }
}

fn last_error() -> String {
    // SAFETY: it is a string that stays valid until the next refusal.
    unsafe { CStr::from_ptr(humpyard_last_error()) }.to_str().expect("UTF-8").to_owned()
}

/// A scheduler that is freed at the end of the test.
struct Owned(*mut Scheduler);

impl Drop for Owned {
    fn drop(&mut self) {
        // SAFETY: it comes from `humpyard_new` and is freed once.
        unsafe { humpyard_free(self.0) };
    }
}

impl Owned {
    fn new(policy: &CStr, config: &Config) -> Self {
        // SAFETY: both pointers are valid.
        let scheduler = unsafe { humpyard_new(policy.as_ptr(), config) };
        assert!(!scheduler.is_null(), "{}", last_error());
        Self(scheduler)
    }

    fn arrive(&self, now_ns: u64, packet: Packet) -> i64 {
        // SAFETY: both pointers are valid.
        unsafe { humpyard_arrive(self.0, now_ns, &packet) }
    }

    fn next(&self, now_ns: u64, core: u16) -> Result<Dispatch, i32> {
        answer(|dispatch| {
            // SAFETY: both pointers are valid.
            unsafe { humpyard_next(self.0, now_ns, core, dispatch) }
        })
    }

    fn complete(&self, now_ns: u64, slot: u32) -> i32 {
        // SAFETY: the scheduler is valid.
        unsafe { humpyard_complete(self.0, now_ns, slot, 1) }
    }

    fn arrive_burst(&self, now_ns: u64, packets: &[Packet]) -> Result<Vec<i64>, i32> {
        let mut answers = vec![0; packets.len()];
        let (from, to) = (packets.as_ptr(), answers.as_mut_ptr());
        // SAFETY: there are as many answers as packets.
        match unsafe { humpyard_arrive_burst(self.0, now_ns, from, packets.len(), to) } {
            0 => Ok(answers),
            code => Err(code),
        }
    }

    fn next_burst(&self, now_ns: u64, core: u16, most: usize) -> Result<Vec<Dispatch>, i32> {
        let mut dispatches = vec![zero(); most];
        // SAFETY: there is room for `most` packets.
        let given = unsafe { humpyard_next_burst(self.0, now_ns, core, dispatches.as_mut_ptr(), most) };
        dispatches.truncate(usize::try_from(given).map_err(|_| given)?);
        Ok(dispatches)
    }

    fn complete_burst(&self, now_ns: u64, slots: &[u32], busy_ns: Option<&[u64]>) -> i32 {
        let busy_ns = busy_ns.map_or(null(), <[u64]>::as_ptr);
        // SAFETY: there are as many times as slots, or the pointer is NULL.
        unsafe { humpyard_complete_burst(self.0, now_ns, slots.as_ptr(), busy_ns, slots.len()) }
    }

    fn account(&self) -> Result<Account, i32> {
        answer(|account| {
            // SAFETY: both pointers are valid.
            unsafe { humpyard_account(self.0, account) }
        })
    }
}

/// Returns the answer that a call wrote if it returned 1; else the returned number.
fn answer<T>(question: impl FnOnce(*mut T) -> i32) -> Result<T, i32> {
    let mut place = MaybeUninit::uninit();
    match question(place.as_mut_ptr()) {
        // SAFETY: a result of 1 means that the answer was written.
        1 => Ok(unsafe { place.assume_init() }),
        number => Err(number),
    }
}

#[track_caller]
fn assert_refused(code: i32, error: Error, words: &str) {
    assert_eq!((code, last_error().as_str()), (error as i32, words));
}

#[track_caller]
fn assert_no_scheduler(policy: &CStr, config: &Config, error: Error, words: &str) {
    // SAFETY: both pointers are valid.
    let scheduler = unsafe { humpyard_new(policy.as_ptr(), config) };
    assert!(scheduler.is_null());
    assert_refused(humpyard_last_error_code(), error, words);
}

#[test]
fn a_packet_comes_is_served_and_accounted_for() {
    let weights = [3, 1];
    let config = Config { clients: 2, flows: 2, weights: weights.as_ptr(), weight_count: 2, ..zero() };
    let scheduler = Owned::new(c"gr3", &config);
    let packet = Packet { client: 1, flow: 1, length: 500, key: 9, part: Part::Last as u8, ..zero() };
    let slot = scheduler.arrive(5, packet);
    assert!(slot >= 0);
    let dispatch = scheduler.next(6, 0).unwrap();
    assert_eq!((i64::from(dispatch.slot), dispatch.arrival_ns, dispatch.sequence, dispatch.cold), (slot, 5, 0, true));
    assert_eq!(dispatch.packet, Packet { estimate: 500, ..packet });
    assert_eq!(scheduler.next(6, 0), Err(0));
    assert_eq!(scheduler.complete(7, dispatch.slot), 0);
    assert_eq!(scheduler.account(), Ok(Account { arrived: 1, processed: 1, ..zero() }));
}

#[test]
fn packets_that_change_a_connection_are_told_of() {
    let scheduler = Owned::new(c"sprayer", &Config { cores: 4, ..zero() });
    let cores = |from: u64, changes_connection| {
        let core = |now| {
            scheduler.arrive(now, Packet { key: 9, changes_connection, ..zero() });
            let (core, dispatch) = (0..4).find_map(|core| Some((core, scheduler.next(now, core).ok()?))).unwrap();
            scheduler.complete(now, dispatch.slot);
            core
        };
        (from..from + 4).map(core).collect::<Vec<u16>>()
    };
    let home = cores(0, 1);
    assert!(home.iter().all(|&core| core == home[0]), "{home:?}");
    assert_eq!(cores(4, 0), [0, 1, 2, 3]);
}

#[test]
fn null_is_all_defaults_and_the_version_is_that_of_the_crate() {
    // SAFETY: `config` may be NULL.
    let scheduler = Owned(unsafe { humpyard_new(c"fcfs".as_ptr(), null()) });
    for _ in 0..1024 {
        assert!(scheduler.arrive(0, zero()) >= 0);
    }
    assert_eq!(scheduler.arrive(0, zero()), Dropped::BufferFull as i64);
    assert_eq!(scheduler.account(), Ok(Account { arrived: 1025, held: 1024, buffer_full: 1, ..zero() }));
    // SAFETY: it is a string that stays valid.
    assert_eq!(unsafe { CStr::from_ptr(humpyard_version()) }.to_str(), Ok(env!("CARGO_PKG_VERSION")));
}

#[test]
fn every_limit_has_its_reason() {
    let scheduler = Owned::new(c"drr", &Config { clients: 2, queue_limit: 3, client_limit: 2, ..zero() });
    let arrive = |client| scheduler.arrive(0, Packet { client, length: 100, ..zero() });
    let found = [0, 0, 0, 1, 1].map(arrive);
    assert_eq!(found, [0, 1, Dropped::ClientFull as i64, 2, Dropped::QueueFull as i64]);
    assert_eq!(scheduler.account(), Ok(Account { arrived: 5, held: 3, queue_full: 1, client_full: 1, ..zero() }));
}

#[test]
fn every_core_gets_its_packet() {
    let scheduler = Owned::new(c"rr", &Config { cores: 3, ..zero() });
    let next_core = || {
        answer(|core| {
            // SAFETY: both pointers are valid.
            unsafe { humpyard_next_core(scheduler.0, 1, core) }
        })
    };
    assert_eq!(next_core(), Err(0));
    for _ in 0..5 {
        assert!(scheduler.arrive(1, Packet { length: 100, ..zero() }) >= 0);
    }
    let mut cores = Vec::new();
    while let Ok(core) = next_core() {
        scheduler.next(1, core).unwrap();
        cores.push(core);
    }
    assert_eq!(cores, [0, 1, 2]);
}

#[test]
fn cores_go_over_to_the_service_that_needs_them() {
    let service = |guarantee_millionths| Service {
        packet_time_ns: 1000,
        switch_cost_ns: 700,
        tolerance_ns: 10_000,
        fixed: 1000,
        guarantee_millionths,
        ..zero()
    };
    let services = [service(500_000), service(500_000)];
    let unit = Unit::Nanoseconds as u8;
    let config = Config { cores: 4, services: services.as_ptr(), service_count: 2, unit, ..zero() };
    let scheduler = Owned::new(c"everest", &config);
    let next_switch = || {
        answer(|switch| {
            // SAFETY: both pointers are valid.
            unsafe { humpyard_next_switch(scheduler.0, switch) }
        })
    };
    // SAFETY: the scheduler is valid.
    let switched = |now_ns, core| unsafe { humpyard_switched(scheduler.0, now_ns, core) };
    let mut switches = Vec::new();
    for now_ns in 0..100 {
        assert!(scheduler.arrive(now_ns, Packet { service: 1, length: 100, ..zero() }) >= 0);
        while let Ok(switch) = next_switch() {
            switches.push(switch);
        }
    }
    assert!(!switches.is_empty() && switches.iter().all(|switch| (switch.cost_ns, switch.to) == (700, 1)));
    let Switch { core, .. } = switches[0];
    assert_eq!(scheduler.next(100, core), Err(0), "it is on its way");
    assert_eq!(switched(800, core), 0);
    assert_eq!(scheduler.next(800, core).unwrap().packet.service, 1);
    assert_refused(switched(800, core), Error::Order, &format!("core {core} is not switching"));
}

#[test]
fn a_scheduler_that_cannot_be_says_why() {
    let config: Config = zero();
    let words = "gr3: no parameter `quant`; did you mean `quantum`? There are: quantum";
    assert_no_scheduler(c"gr3:quant=3", &config, Error::UnknownParameter, words);
    assert_no_scheduler(
        c"gr3:quantum=x",
        &config,
        Error::BadValue,
        "gr3: `quantum` takes `auto` or a whole number from 1 (in work), not `x`",
    );
    assert_no_scheduler(c"\xff", &config, Error::Argument, "`policy` is not UTF-8");
    assert_no_scheduler(
        c"gr3",
        &Config { unit: 9, ..config },
        Error::Argument,
        "no unit 9: there are 3, numbered from 0",
    );
    assert_no_scheduler(c"gr3", &Config { weight_count: 2, ..config }, Error::Null, "`weights` is NULL");
    assert_no_scheduler(
        c"gr3",
        &Config { cores: 70_000, ..config },
        Error::SetUp,
        "there may be 1 to 65535 cores, not 70000",
    );
    let weights = [1, 0];
    let given = Config { weights: weights.as_ptr(), weight_count: 2, ..config };
    assert_no_scheduler(c"gr3", &given, Error::SetUp, "2 weights for 1 clients");
    assert_no_scheduler(c"gr3", &Config { clients: 2, ..given }, Error::SetUp, "a weight is from 1, not 0");
    assert_no_scheduler(
        c"gr3",
        &Config { weight_count: usize::MAX, ..given },
        Error::Argument,
        &format!("{} weights are too many", usize::MAX),
    );
    assert_no_scheduler(c"drr/gr3", &config, Error::Syntax, "`drr/gr3` names two share policies: name one");
    let words =
        "an allocation that moves cores needs one queue per service: it cannot be combined with a steering policy";
    assert_no_scheduler(c"allocate=everest/steer=hrw", &config, Error::Combination, words);
    // SAFETY: `policy` may be NULL.
    assert!(unsafe { humpyard_new(null(), &config) }.is_null());
    assert_refused(humpyard_last_error_code(), Error::Null, "`policy` is NULL");
    // SAFETY: both pointers are valid.
    assert!(unsafe { humpyard_new(c"banana".as_ptr(), &config) }.is_null());
    assert_eq!(humpyard_last_error_code(), Error::UnknownPolicy as i32);
}

#[test]
fn null_is_refused_everywhere() {
    let scheduler = Owned::new(c"gr3", &zero());
    let refused = |code: i32, name| assert_refused(code, Error::Null, &format!("`{name}` is NULL"));
    let none: *mut Scheduler = null_mut();
    let (mut core, mut time) = (0, 0);
    // SAFETY: NULL is allowed, and the other pointers are valid.
    unsafe {
        humpyard_free(none);
        refused(humpyard_arrive(none, 0, &zero()) as i32, "scheduler");
        refused(humpyard_next_core(none, 0, &mut core), "scheduler");
        refused(humpyard_next(none, 0, 0, &mut zero()), "scheduler");
        refused(humpyard_complete(none, 0, 0, 0), "scheduler");
        refused(humpyard_set_weight(none, 0, 0, 1), "scheduler");
        refused(humpyard_end_client(none, 0, 0), "scheduler");
        refused(humpyard_end_flow(none, 0, 0), "scheduler");
        refused(humpyard_next_timeout(none, &mut time), "scheduler");
        refused(humpyard_on_timeout(none, 0), "scheduler");
        refused(humpyard_next_switch(none, &mut zero()), "scheduler");
        refused(humpyard_switched(none, 0, 0), "scheduler");
        refused(humpyard_account(none, &mut zero()), "scheduler");
        refused(humpyard_arrive(scheduler.0, 0, null()) as i32, "packet");
        refused(humpyard_next_core(scheduler.0, 0, null_mut()), "core");
        refused(humpyard_next(scheduler.0, 0, 0, null_mut()), "dispatch");
        refused(humpyard_next_timeout(scheduler.0, null_mut()), "at_ns");
        refused(humpyard_next_switch(scheduler.0, null_mut()), "core_switch");
        refused(humpyard_account(scheduler.0, null_mut()), "account");
    }
}

#[test]
fn ids_out_of_range_are_refused_and_change_nothing() {
    let scheduler = Owned::new(c"gr3", &Config { clients: 3, flows: 2, ..zero() });
    let arrive = |packet| scheduler.arrive(0, packet) as i32;
    let refused = |code, words: &str| assert_refused(code, Error::Argument, words);
    refused(arrive(Packet { client: 3, ..zero() }), "no client 3: there are 3, numbered from 0");
    refused(arrive(Packet { flow: 2, ..zero() }), "no flow 2: there are 2, numbered from 0");
    refused(arrive(Packet { service: 1, ..zero() }), "no service 1: there are 1, numbered from 0");
    refused(arrive(Packet { part: 4, ..zero() }), "no part 4: there are 4, numbered from 0");
    refused(scheduler.next(0, 1).unwrap_err(), "no core 1: there are 1, numbered from 0");
    refused(scheduler.complete(0, 1024), "no slot 1024: there are 1024, numbered from 0");
    refused(scheduler.complete(0, u32::MAX), "no slot 4294967295: there are 1024, numbered from 0");
    // SAFETY: the scheduler is valid.
    unsafe {
        refused(humpyard_set_weight(scheduler.0, 0, 3, 1), "no client 3: there are 3, numbered from 0");
        refused(humpyard_set_weight(scheduler.0, 0, 2, 0), "a weight is from 1, not 0");
        refused(humpyard_end_client(scheduler.0, 0, 3), "no client 3: there are 3, numbered from 0");
        refused(humpyard_end_flow(scheduler.0, 0, 2), "no flow 2: there are 2, numbered from 0");
        refused(humpyard_switched(scheduler.0, 0, 1), "no core 1: there are 1, numbered from 0");
    }
    assert_eq!(scheduler.account(), Ok(zero()));
}

#[test]
fn calls_out_of_order_are_refused_and_change_nothing() {
    let scheduler = Owned::new(c"gr3", &Config { clients: 2, ..zero() });
    let slot = scheduler.arrive(10, Packet { client: 1, length: 100, ..zero() }) as u32;
    let refused = |code, words: &str| assert_refused(code, Error::Order, words);
    refused(scheduler.arrive(9, zero()) as i32, "time goes back from 10 ns to 9 ns");
    refused(scheduler.complete(10, slot), "slot 0 has no packet in service");
    // SAFETY: the scheduler is valid.
    let (end_client, end_flow) =
        unsafe { (|| humpyard_end_client(scheduler.0, 10, 1), || humpyard_end_flow(scheduler.0, 10, 0)) };
    refused(end_client(), "client 1 cannot end: 1 of its packets are here");
    refused(end_flow(), "flow 0 cannot end: 1 of its packets are here");
    scheduler.next(10, 0).unwrap();
    refused(end_client(), "client 1 cannot end: 1 of its packets are here");
    assert_eq!(scheduler.complete(10, slot), 0);
    refused(scheduler.complete(10, slot), "slot 0 has no packet in service");
    assert_eq!((end_client(), end_flow()), (0, 0));
    assert_eq!(scheduler.account(), Ok(Account { arrived: 1, processed: 1, ..zero() }));
}

#[test]
fn each_thread_has_its_own_words() {
    let scheduler = Owned::new(c"gr3", &zero());
    scheduler.complete(0, 0);
    let of_another = std::thread::spawn(|| (last_error(), humpyard_last_error_code()));
    assert_eq!(of_another.join().unwrap(), (String::new(), 0));
    assert_eq!(last_error(), "slot 0 has no packet in service");
}

#[test]
fn a_burst_does_what_single_calls_do() {
    let config = Config { clients: 2, client_limit: 2, in_flight: 4, unit: Unit::Nanoseconds as u8, ..zero() };
    let (single, burst) = (Owned::new(c"gr3", &config), Owned::new(c"gr3", &config));
    let packets = [0, 0, 0, 1].map(|client| Packet { client, length: 100, ..zero() });
    let answers = packets.map(|packet| single.arrive(5, packet));
    assert_eq!(answers, [0, 1, Dropped::ClientFull as i64, 2]);
    assert_eq!(burst.arrive_burst(5, &packets), Ok(answers.to_vec()));
    let given: Vec<Dispatch> = (0..3).map(|_| single.next(6, 0).unwrap()).collect();
    assert_eq!(burst.next_burst(6, 0, 2), Ok(given[..2].to_vec()));
    assert_eq!(burst.next_burst(6, 0, 9), Ok(given[2..].to_vec()));
    assert_eq!(burst.next_burst(6, 0, 9), Ok(vec![]));
    let slots: Vec<u32> = given.iter().map(|dispatch| dispatch.slot).collect();
    slots.iter().for_each(|&slot| assert_eq!(single.complete(7, slot), 0));
    assert_eq!(burst.complete_burst(7, &slots[..2], Some(&[1, 1])), 0);
    assert_eq!(burst.complete_burst(7, &slots[2..], None), 0);
    assert_eq!(burst.account(), single.account());
    assert_eq!(burst.account(), Ok(Account { arrived: 4, processed: 3, client_full: 1, ..zero() }));
    assert_eq!(burst.arrive_burst(7, &[]), Ok(vec![]));
    assert_eq!(burst.complete_burst(7, &[], None), 0);
}

#[test]
fn a_burst_may_exceed_the_packets_in_flight_but_not_overtake() {
    let alone = Owned::new(c"fcfs", &zero());
    assert_eq!(alone.arrive_burst(0, &[zero(); 3]), Ok(vec![0, 1, 2]));
    assert_eq!(alone.next_burst(0, 0, 5).map(|given| given.len()), Ok(3));
    let of_two_clients = [0, 1, 0].map(|client| Packet { client, ..zero() });
    let shared = Owned::new(c"drr", &Config { cores: 2, clients: 2, ..zero() });
    assert_eq!(shared.arrive_burst(0, &of_two_clients), Ok(vec![0, 1, 2]));
    assert_eq!(shared.next_burst(0, 0, 5).map(|given| given.len()), Ok(2));
    assert_eq!(shared.complete_burst(0, &[1, 0], None), 0);
    assert_eq!(shared.next_burst(0, 1, 5).map(|given| given.len()), Ok(1));
}

#[test]
fn a_burst_that_is_refused_changes_nothing() {
    let scheduler = Owned::new(c"drr", &Config { clients: 2, in_flight: 4, ..zero() });
    let arrive = |packets: &[Packet]| scheduler.arrive_burst(10, packets).unwrap_err();
    let wrong = Error::Argument;
    let client = Packet { client: 2, ..zero() };
    assert_refused(
        arrive(&[zero(), client]),
        wrong,
        "packet 1 of the burst: no client 2: there are 2, numbered from 0",
    );
    let part = Packet { part: 7, ..zero() };
    assert_refused(
        arrive(&[zero(), zero(), part]),
        wrong,
        "packet 2 of the burst: no part 7: there are 4, numbered from 0",
    );
    assert_refused(arrive(&[part; 5]), wrong, "packet 0 of the burst: no part 7: there are 4, numbered from 0");
    assert_eq!(scheduler.account(), Ok(zero()));
    assert_eq!(scheduler.arrive_burst(10, &[zero(); 3]), Ok(vec![0, 1, 2]));
    assert_refused(
        scheduler.arrive_burst(9, &[zero()]).unwrap_err(),
        Error::Order,
        "time goes back from 10 ns to 9 ns",
    );
    assert_refused(scheduler.next_burst(10, 1, 4).unwrap_err(), wrong, "no core 1: there are 1, numbered from 0");
    assert_eq!(scheduler.next_burst(10, 0, 2).map(|given| given.len()), Ok(2));
    for (slots, error, words) in [
        (&[0, 1, 2][..], Error::Order, "packet 2 of the burst: slot 2 has no packet in service"),
        (&[1, 1], Error::Order, "packet 1 of the burst: slot 1 has no packet in service"),
        (&[0, 5000], wrong, "packet 1 of the burst: no slot 5000: there are 1024, numbered from 0"),
    ] {
        assert_refused(scheduler.complete_burst(10, slots, None), error, words);
    }
    assert_refused(scheduler.complete_burst(9, &[0, 1], None), Error::Order, "time goes back from 10 ns to 9 ns");
    assert_eq!(scheduler.complete_burst(10, &[0, 1], None), 0);
    assert_eq!(scheduler.account(), Ok(Account { arrived: 3, processed: 2, held: 1, ..zero() }));
}

#[test]
fn bursts_refuse_null_and_lists_that_cannot_be() {
    let scheduler = Owned::new(c"gr3", &zero());
    let refused = |code: i32, name| assert_refused(code, Error::Null, &format!("`{name}` is NULL"));
    let none: *mut Scheduler = null_mut();
    // SAFETY: NULL is allowed, and the other pointers are valid.
    unsafe {
        refused(humpyard_arrive_burst(none, 0, &zero(), 1, &mut 0), "scheduler");
        refused(humpyard_next_burst(none, 0, 0, &mut zero(), 1), "scheduler");
        refused(humpyard_complete_burst(none, 0, &0, null(), 1), "scheduler");
        refused(humpyard_arrive_burst(scheduler.0, 0, null(), 1, &mut 0), "packets");
        refused(humpyard_arrive_burst(scheduler.0, 0, &zero(), 1, null_mut()), "answers");
        refused(humpyard_next_burst(scheduler.0, 0, 0, null_mut(), 1), "dispatches");
        refused(humpyard_complete_burst(scheduler.0, 0, null(), null(), 1), "slots");
        assert_eq!(humpyard_arrive_burst(scheduler.0, 0, null(), 0, null_mut()), 0);
        assert_eq!(humpyard_next_burst(scheduler.0, 0, 0, null_mut(), 0), 0);
        assert_eq!(humpyard_complete_burst(scheduler.0, 0, null(), null(), 0), 0);
        let many = humpyard_next_burst(scheduler.0, 0, 0, &mut zero(), usize::MAX);
        assert_refused(many, Error::Argument, &format!("{} dispatches are too many", usize::MAX));
    }
}
