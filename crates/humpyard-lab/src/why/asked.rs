//! Asks the policies about one packet: a second scheduler does what the journal says, and is asked on the way.

use humpyard_core::config::SchedulerConfig;
use humpyard_core::id::{CoreId, FlowId, Id, ServiceId, Slot};
use humpyard_core::mechanism::{Arrival, Event, Given, Record};
use humpyard_core::policy::{CoreView, Target};
use humpyard_policies::spec::{AnyScheduler, PolicySpec};

use crate::follow::Follow;

/// What the policies knew of a packet.
#[derive(Clone, Debug, Default)]
pub(super) struct Known {
    /// Packets and estimated work of each core when the packet came, as the steering policy saw them.
    pub(super) views: Option<Vec<CoreView>>,
    /// The words of the steering policy.
    pub(super) steering: Option<String>,
    /// Where the packet was steered.
    pub(super) target: Option<Target>,
    /// The service of each core when the packet came. `None`: cores were not allocated.
    pub(super) services: Option<Vec<(CoreId, ServiceId)>>,
    /// The words of the sharing policy when the packet had come.
    pub(super) at_arrival: Option<String>,
    /// The words of the sharing policy when it chose the packet.
    pub(super) at_choice: Option<String>,
    /// The policies in force when the packet came.
    pub(super) policy: String,
}

/// A scheduler beside that of the run.
struct Shadow {
    scheduler: AnyScheduler,
    policy: PolicySpec,
    config: SchedulerConfig,
}

impl Shadow {
    /// Does what the record says; returns whether its answer was that of the journal.
    fn play(&mut self, record: &Record) -> bool {
        let Event::Swap(name) = &record.event else { return self.scheduler.replay(record).is_ok() };
        let Ok(next) = name.parse::<PolicySpec>() else { return false };
        let taken = next.take_over(record.now, &self.policy, &self.config, &mut self.scheduler);
        self.policy = next;
        taken.is_ok()
    }
}

/// Follows a journal until it has asked about a packet.
pub(super) struct Asked {
    /// The packet, by number from 0.
    packet: u64,
    arrived: u64,
    slot: Option<Slot>,
    /// `None`: nothing more is to be asked.
    shadow: Option<Shadow>,
    pub(super) known: Known,
}

impl Asked {
    /// Asks about the packet of this number, from 0.
    pub(super) fn new(packet: u64) -> Self {
        Self { packet, arrived: 0, slot: None, shadow: None, known: Known::default() }
    }

    fn before(&mut self, record: &Record) {
        let Some(Shadow { scheduler, policy, .. }) = &self.shadow else { return };
        match &record.event {
            Event::Arrival { packet, .. } if self.arrived == self.packet => {
                self.known.policy = policy.to_string();
                self.known.views = scheduler.core_views().map(|views| views.as_slice().to_vec());
                self.known.steering = scheduler.explain_steering(packet);
                let services: Vec<_> = scheduler.services_of_cores().collect();
                self.known.services = Some(services).filter(|services| !services.is_empty());
            }
            Event::Next { answer: Some(Given { slot, .. }), .. } if self.slot == Some(*slot) => {
                self.known.at_choice = scheduler.explain_sharing(*slot);
            }
            _ => {}
        }
    }

    /// Asks what can be asked when the record is played; returns whether anything is left to be asked.
    fn after(&mut self, record: &Record) -> bool {
        let Some(Shadow { scheduler, .. }) = &self.shadow else { return false };
        match &record.event {
            Event::Arrival { answer, .. } => {
                self.arrived += 1;
                if self.arrived != self.packet + 1 {
                    return true;
                }
                let Arrival::Queued(slot) = *answer else { return false };
                self.slot = Some(slot);
                self.known.target = scheduler.target(slot);
                self.known.at_arrival = scheduler.explain_sharing(slot);
                true
            }
            Event::Next { answer: Some(Given { slot, .. }), .. } => self.slot != Some(*slot),
            Event::Dropped(slot, _) => self.slot != Some(*slot),
            _ => true,
        }
    }
}

impl Follow for Asked {
    fn on_begin(&mut self, policy: &PolicySpec, config: &SchedulerConfig) {
        let config = SchedulerConfig { rendezvous: humpyard_simd::rendezvous(), ..config.clone() };
        let scheduler = policy.build(&config).ok();
        self.shadow = scheduler.map(|scheduler| Shadow { scheduler, policy: policy.clone(), config });
    }

    fn on_flow(&mut self, _: FlowId, _: String) {}

    fn on_record(&mut self, record: &Record) {
        self.before(record);
        let goes_on = self.shadow.as_mut().is_some_and(|shadow| shadow.play(record)) && self.after(record);
        if !goes_on {
            self.shadow = None;
        }
    }
}

/// Returns the core to which a target leads, if it is one.
pub(super) fn core_of(target: Option<Target>) -> Option<usize> {
    target.and_then(Target::core).map(Id::index)
}
