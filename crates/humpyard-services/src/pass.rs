//! Passing frames on as they are: what a cable does, and a bridge of two interfaces.
//!
//! # Work
//! None. Frames of every kind pass, ARP and broadcasts too, so that whoever is at the other end can be reached as if it were on
//! the same link.
//!
//! # Source
//! None: it is what remains of a service when its work is left out.

use humpyard_core::frame::Frame;
use humpyard_core::params;

use crate::service::{Build, Context, Generated, Info, Service, ServiceError, Verdict};

params! {
    /// It has no parameters.
    pub struct PassParams {}
}

/// Passes frames on as they are. See the [module](self).
#[derive(Clone, Copy, Debug)]
pub struct Pass;

impl Build for Pass {
    type Params = PassParams;

    const INFO: Info = Info {
        name: "pass",
        summary: "passes frames on as they are, of whatever kind: a cable between two interfaces",
        source: "what remains of a service without its work",
    };

    fn new(_: &PassParams) -> Result<Self, ServiceError> {
        Ok(Self)
    }
}

impl Service for Pass {
    #[inline]
    fn process(&mut self, _: &mut Frame, _: &Context, _: &mut Generated) -> Verdict {
        Verdict::Forward
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_pass_as_they_are() {
        let mut frame = Frame { data: vec![0xff; 7], wire_length: 9, ..Frame::default() };
        let before = frame.clone();
        let mut generated = Generated::default();
        assert_eq!(Pass.process(&mut frame, &Context::default(), &mut generated), Verdict::Forward);
        assert_eq!(frame, before);
        assert!(generated.is_empty());
    }
}
