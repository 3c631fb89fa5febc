//! Forwards frames unchanged, as a cable or a bridge between two interfaces does.
//!
//! # Work
//! None. Frames of every kind pass, also ARP and broadcasts, so that hosts on both sides reach each other as on
//! one link.
//!
//! # Source
//! None: it is a service without work.

use humpyard_core::frame::Frame;
use humpyard_core::params;

use crate::service::{Build, Context, Generated, Info, Service, ServiceError, Verdict};

params! {
    /// There are no parameters.
    pub struct PassParams {}
}

/// Forwards frames unchanged; see the [module](self).
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
