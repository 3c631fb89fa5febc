//! Estimators written in Python.

use ::humpyard::config::SchedulerConfig;
use ::humpyard::packet::Packet;
use ::humpyard::policy::{BuildError, Estimate, Policy};
use ::humpyard::unit::Work;
use pyo3::prelude::*;

use super::Prototype;
use super::handler::{Handler, Object, attached, check};
use super::values::PacketValue;

/// An estimator written in Python.
#[derive(Debug)]
pub(super) struct PythonEstimate {
    estimate: Handler,
    on_completion: Option<Handler>,
    check: Option<Handler>,
}

impl PythonEstimate {
    pub(super) fn new(
        py: Python<'_>,
        prototype: &Prototype,
        config: &SchedulerConfig,
    ) -> PyResult<Result<Self, BuildError>> {
        let object = Object::new(py, prototype, "Estimate")?;
        object.start(config)?;
        Ok(Ok(Self {
            estimate: object.any_handler("estimate")?,
            on_completion: object.handler("on_completion")?,
            check: object.handler("check")?,
        }))
    }
}

impl Policy for PythonEstimate {
    fn keeps_time(&self) -> bool {
        false
    }

    fn check(&self) {
        check(self.check.as_ref());
    }
}

impl Estimate for PythonEstimate {
    fn estimate(&self, packet: &Packet) -> Work {
        attached(|py| {
            let work = self.estimate.ask(py, (PacketValue(*packet),), |answer| answer.extract::<u64>())?;
            if work > 0 { Ok(work) } else { Err(self.estimate.answered("0", "and a packet is work of 1 at least")) }
        })
    }

    fn on_completion(&mut self, packet: &Packet, used: Work, cold: bool) {
        if let Some(handler) = &self.on_completion {
            attached(|py| handler.tell(py, (PacketValue(*packet), used, cold)));
        }
    }
}
