//! Steering policies written in Python.

use ::humpyard::config::SchedulerConfig;
use ::humpyard::id::{CoreId, FlowId};
use ::humpyard::packet::Packet;
use ::humpyard::policy::{BuildError, Policy, Steer, Target, View};
use ::humpyard::unit::{Time, Work};
use pyo3::prelude::*;

use super::Prototype;
use super::handler::{Handler, Object, Timer, attached, check, explained};
use super::values::{PacketValue, ViewValue};

/// A steering policy written in Python. It steers to cores, or holds.
#[derive(Debug)]
pub(super) struct PythonSteer {
    steer: Handler,
    on_enqueue: Option<Handler>,
    on_drop: Option<Handler>,
    on_push_out: Option<Handler>,
    on_dispatch: Option<Handler>,
    on_completion: Option<Handler>,
    on_flow_end: Option<Handler>,
    timer: Timer,
    explain: Option<Handler>,
    check: Option<Handler>,
}

impl PythonSteer {
    pub(super) fn new(
        py: Python<'_>,
        prototype: &Prototype,
        config: &SchedulerConfig,
    ) -> PyResult<Result<Self, BuildError>> {
        let object = Object::new(py, prototype, "Steer")?;
        object.start(config)?;
        Ok(Ok(Self {
            steer: object.any_handler("steer")?,
            on_enqueue: object.handler("on_enqueue")?,
            on_drop: object.handler("on_drop")?,
            on_push_out: object.handler("on_push_out")?,
            on_dispatch: object.handler("on_dispatch")?,
            on_completion: object.handler("on_completion")?,
            on_flow_end: object.handler("on_flow_end")?,
            timer: object.timer()?,
            explain: object.handler("explain")?,
            check: object.handler("check")?,
        }))
    }
}

/// Tells a handler of a packet at the queue of a core: other queues there are none.
fn tell(handler: Option<&Handler>, now: Time, target: Target, packet: &Packet) {
    if let (Some(handler), Target::Core(core)) = (handler, target) {
        attached(|py| handler.tell(py, (now.as_ns(), core.0, PacketValue(*packet))));
    }
}

impl Policy for PythonSteer {
    fn keeps_time(&self) -> bool {
        self.timer.keeps_time()
    }

    fn next_timeout(&self) -> Option<Time> {
        self.timer.next_timeout()
    }

    fn on_timeout(&mut self, now: Time) {
        self.timer.on_timeout(now);
    }

    fn check(&self) {
        check(self.check.as_ref());
    }
}

impl Steer for PythonSteer {
    fn steer(&mut self, now: Time, packet: &Packet, view: &View<'_>) -> Target {
        attached(|py| {
            let arguments = (now.as_ns(), PacketValue(*packet), ViewValue::new(view));
            let Some(core) = self.steer.ask(py, arguments, |answer| answer.extract::<Option<u16>>())? else {
                return Ok(Target::Hold);
            };
            if view.eligible.contains(&CoreId(core)) {
                return Ok(Target::Core(CoreId(core)));
            }
            let eligible: Vec<String> = view.eligible.iter().map(|core| core.0.to_string()).collect();
            let why = format!("which may not serve the packet: these may: {}", eligible.join(", "));
            Err(self.steer.answered(&core.to_string(), &why))
        })
    }

    fn on_enqueue(&mut self, now: Time, target: Target, packet: &Packet) {
        tell(self.on_enqueue.as_ref(), now, target, packet);
    }

    fn on_drop(&mut self, now: Time, target: Target, packet: &Packet) {
        tell(self.on_drop.as_ref(), now, target, packet);
    }

    fn on_push_out(&mut self, now: Time, target: Target, packet: &Packet) {
        tell(self.on_push_out.as_ref(), now, target, packet);
    }

    fn on_dispatch(&mut self, now: Time, _: CoreId, target: Target, packet: &Packet) {
        tell(self.on_dispatch.as_ref(), now, target, packet);
    }

    fn on_flow_end(&mut self, now: Time, flow: FlowId) {
        if let Some(handler) = &self.on_flow_end {
            attached(|py| handler.tell(py, (now.as_ns(), flow.0)));
        }
    }

    fn on_completion(&mut self, now: Time, core: CoreId, packet: &Packet, used: Work) {
        if let Some(handler) = &self.on_completion {
            attached(|py| handler.tell(py, (now.as_ns(), core.0, PacketValue(*packet), used)));
        }
    }

    fn explain(&self, packet: &Packet, view: &View<'_>) -> Option<String> {
        self.explain.as_ref()?;
        explained(self.explain.as_ref(), (PacketValue(*packet), ViewValue::new(view)))
    }
}
