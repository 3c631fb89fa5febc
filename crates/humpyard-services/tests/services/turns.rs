//! Turns: a service that gives packets back at its yield points does the same work.

use humpyard_core::frame::Frame;
use humpyard_services::turn::Work;
use humpyard_services::{Context, Generated, Service, Turn, Verdict};
use proptest::prelude::*;

use crate::support::{arbitrary_frame, captures, count, each_frame, files, service, udp};

/// Returns the verdict on a frame that is given back at every yield point, the frames generated for it, and its number
/// of turns. Each turn is at the next of the instances.
fn in_turns(instances: &mut [Box<dyn Service>], frame: &mut Frame, context: &Context) -> (Verdict, Vec<Frame>, usize) {
    let (mut work, mut generated) = (None::<Work>, Generated::new(32, 0));
    let before = frame.clone();
    for turns in 1.. {
        let over = || true;
        let mut turn = Turn::new(&over, work.take());
        let instance = &mut instances[turns % instances.len()];
        if let Some(verdict) = instance.process_turn(frame, context, &mut generated, &mut turn) {
            return (verdict, generated.frames().to_vec(), turns);
        }
        assert_eq!(*frame, before, "a frame that is given back is as it came");
        assert!(generated.is_empty(), "nothing is generated before the work is done");
        work = turn.into_work();
    }
    unreachable!("a turn is the last")
}

/// The two ways to do the work of one service. Compressed packets may differ, but both come back as they were.
struct Both {
    decompress: Option<Box<dyn Service>>,
    whole: Box<dyn Service>,
    turned: Vec<Box<dyn Service>>,
    turns_max: usize,
}

impl Both {
    fn new(spec: &str, instances: usize) -> Self {
        Self {
            decompress: spec.starts_with("compress:codec=deflate").then(|| service("decompress")),
            whole: service(spec),
            turned: (0..instances).map(|_| service(spec)).collect(),
            turns_max: 0,
        }
    }

    fn compare(&mut self, frame: &Frame, context: &Context) {
        let (mut one, mut other) = (frame.clone(), frame.clone());
        let expected = crate::support::process(&mut *self.whole, &mut one, context);
        let (verdict, generated, turns) = in_turns(&mut self.turned, &mut other, context);
        assert_eq!((verdict, generated), expected);
        if let Some(decompress) = &mut self.decompress {
            let excess = other.data.len().saturating_sub(one.data.len());
            assert!(excess <= 1 + one.data.len() / 20, "{} bytes, and {}", other.data.len(), one.data.len());
            for frame in [&mut one, &mut other] {
                crate::support::process(&mut **decompress, frame, context);
            }
        }
        if verdict == Verdict::Forward {
            assert_eq!(other, one);
        }
        self.turns_max = self.turns_max.max(turns);
    }
}

#[test]
fn every_service_does_the_same_work_in_turns() {
    let Some(directory) = captures("every_service_does_the_same_work_in_turns") else { return };
    let specs = ["dpi:bytes=65535", "compress:codec=deflate", "compress:codec=deflate,level=9", "compress", "forward"];
    let most = specs.map(|spec| {
        let mut both = Both::new(spec, 1);
        for file in files(&directory, &["protocols", "video"]).iter().take(40) {
            each_frame(file, |frame, context| both.compare(frame, context));
        }
        if both.decompress.is_none() {
            assert_eq!(both.turned[0].counters(), both.whole.counters(), "{spec}");
        }
        both.turns_max
    });
    assert!(most[0] > 1, "a long payload that may still match has several turns: {most:?}");
    assert!(most[1..3].iter().all(|&turns| turns > 4), "long packets have several turns: {most:?}");
    assert_eq!(most[3..], [1, 1], "LZ4 and forwarding have no yield points");
}

#[test]
fn another_instance_goes_on_with_a_packet() {
    let mut both = Both::new("compress:codec=deflate", 3);
    let text: Vec<u8> = (0..1400u32).map(|at| (at * at / 97) as u8 & 0x1f).collect();
    for length in [100, 256, 257, 700, 1400] {
        both.compare(&udp((1, 2), &text[..length]), &Context::default());
    }
    assert_eq!(both.turns_max, 6, "1408 bytes with the UDP header, in pieces of 256");
    let counted: u64 = both.turned.iter().map(|service| count(&**service, "compressed")).sum();
    assert_eq!((counted, count(&*both.whole, "compressed")), (5, 5));
}

proptest! {
    #[test]
    fn any_frame_has_the_same_verdict_in_turns(frames in proptest::collection::vec(arbitrary_frame(), 1..20)) {
        for spec in ["dpi:bytes=65535", "compress:codec=deflate"] {
            let mut both = Both::new(spec, 1);
            frames.iter().for_each(|frame| both.compare(frame, &Context::default()));
        }
    }
}
