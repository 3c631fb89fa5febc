//! Panics of services appear in the outcome and are not printed; other panics are the program's.
//! Alone in its process, because a panic hook belongs to the whole process.

#[path = "live/support.rs"]
#[allow(dead_code, reason = "shared with the other tests")]
mod support;

use core::sync::atomic::{AtomicUsize, Ordering};
use std::panic::{catch_unwind, set_hook};

use humpyard_core::frame::Frame;
use humpyard_services::{Context, DropReason, Factory, Generated, Service, Verdict};

use support::Run;

struct Hopeless;

impl Service for Hopeless {
    fn process(&mut self, _: &mut Frame, _: &Context, _: &mut Generated) -> Verdict {
        panic!("this panic is part of a test");
    }
}

static TOLD: AtomicUsize = AtomicUsize::new(0);

#[test]
fn panics_of_services_do_not_reach_the_hook_of_the_program() {
    set_hook(Box::new(|_| {
        TOLD.fetch_add(1, Ordering::Relaxed);
    }));
    for workers in 0..=2 {
        let factory: Option<fn() -> Factory> = Some(|| Factory::new("hopeless", || Hopeless));
        let (outcome, frames) = Run { workers, factory, input: "gen:poisson:packets=5000", ..Run::default() }.go();
        assert_eq!(outcome.out.dropped().collect::<Vec<_>>(), [(DropReason::ServicePanicked, 5000)]);
        assert!(frames.is_empty());
        assert_eq!(outcome.panic.expect("there were panics").packet, 1);
    }
    assert_eq!(TOLD.load(Ordering::Relaxed), 0);
    catch_unwind(|| panic!("this panic is part of a test")).expect_err("it panics");
    assert_eq!(TOLD.load(Ordering::Relaxed), 1);
}
