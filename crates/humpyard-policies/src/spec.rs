//! Policy specifications: `drr`, `drr:quantum=3000`, `steer=hrw/share=drr`.

use alloc::borrow::ToOwned;
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::str::FromStr;

use humpyard_core::config::SchedulerConfig;
use humpyard_core::mechanism::Scheduler;
use humpyard_core::name::{Named, unknown};
use humpyard_core::policy::{BuildError, BuildErrorKind, Family, Promise};
use humpyard_core::unit::Time;

use crate::own::OwnPolicy;
use crate::registry::{AnyAllocate, AnyEstimate, AnyShare, AnySteer, find, names};

/// The mechanism with any policies.
pub type AnyScheduler = Scheduler<AnySteer, AnyShare, AnyAllocate>;

/// The policies of one run, as a text names them.
///
/// A bare name selects its family. The other families then have these policies:
///
/// | named | steer | share | allocate | queues |
/// |---|---|---|---|---|
/// | a steering policy | it | `fcfs` | – | one per core |
/// | a sharing policy | – | it | – | one for all cores |
/// | an allocation policy | – | `fcfs` | it | one per service |
/// | `efq:engines=per-engine` | `hrw` | it | – | one per core |
///
/// The table estimates work unless the text names an estimator: `estimate=least-squares/share=efq`.
/// [`PolicySpec::with`] adds policies that a program defines; a text cannot name them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PolicySpec {
    steer: Option<Chosen>,
    share: Option<Chosen>,
    allocate: Option<Chosen>,
    estimate: Option<Chosen>,
}

/// One policy of a spec.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Chosen {
    Registered(Named),
    Own(OwnPolicy),
}

impl Chosen {
    fn name(&self) -> &str {
        match self {
            Self::Registered(named) => &named.name,
            Self::Own(own) => own.name(),
        }
    }

    fn own(&self) -> Option<&OwnPolicy> {
        if let Self::Own(own) = self { Some(own) } else { None }
    }

    fn keeps_flow_order(&self) -> bool {
        match self {
            Self::Registered(named) => {
                find(&named.name).is_some_and(|entry| entry.info.promises.contains(&Promise::FlowOrder))
            }
            Self::Own(own) => own.promises().contains(&Promise::FlowOrder),
        }
    }

    /// Whether this sharing policy distinguishes clients.
    fn tells_clients(&self) -> bool {
        self.name() != "fcfs" && !self.own().is_some_and(OwnPolicy::merges_clients)
    }
}

impl fmt::Display for Chosen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Registered(named) => named.fmt(f),
            Self::Own(own) => own.fmt(f),
        }
    }
}

impl PolicySpec {
    /// A spec without any policy.
    const NONE: Self = Self { steer: None, share: None, allocate: None, estimate: None };

    /// Builds the mechanism with these policies.
    ///
    /// # Errors
    /// Returns the error of a policy or of the mechanism.
    pub fn build(&self, config: &SchedulerConfig) -> Result<AnyScheduler, BuildError> {
        let (steer, allocate) = (self.build_steer(config)?, self.build_allocate(config)?);
        let scheduler = Scheduler::new(config, steer, allocate, || self.build_share(config))?;
        Ok(match self.build_estimate(config)? {
            Some(estimate) => scheduler.with_estimate(Box::new(estimate)),
            None => scheduler,
        })
    }

    /// Builds the estimator alone. `None`: the spec names no estimator.
    ///
    /// # Errors
    /// Returns the error of the estimator.
    pub fn build_estimate(&self, config: &SchedulerConfig) -> Result<Option<AnyEstimate>, BuildError> {
        let build = |chosen: &Chosen| match chosen {
            Chosen::Registered(named) => known(AnyEstimate::build(&named.name, &named.parameters, config)),
            Chosen::Own(own) => known(own.build_estimate(config)).map(AnyEstimate::Own),
        };
        self.estimate.as_ref().map(build).transpose()
    }

    /// Builds the steering policy alone. `None`: the spec names no steering policy.
    ///
    /// # Errors
    /// Returns the error of the policy.
    pub fn build_steer(&self, config: &SchedulerConfig) -> Result<Option<AnySteer>, BuildError> {
        let build = |chosen: &Chosen| match chosen {
            Chosen::Registered(named) => known(AnySteer::build(&named.name, &named.parameters, config)),
            Chosen::Own(own) => known(own.build_steer(config)).map(AnySteer::Own),
        };
        self.steer.as_ref().map(build).transpose()
    }

    /// Builds the allocation policy alone. `None`: the spec names no allocation policy.
    ///
    /// # Errors
    /// Returns the error of the policy.
    pub fn build_allocate(&self, config: &SchedulerConfig) -> Result<Option<AnyAllocate>, BuildError> {
        let build = |chosen: &Chosen| match chosen {
            Chosen::Registered(named) => known(AnyAllocate::build(&named.name, &named.parameters, config)),
            Chosen::Own(own) => known(own.build_allocate(config)).map(AnyAllocate::Own),
        };
        self.allocate.as_ref().map(build).transpose()
    }

    /// Builds the sharing policy alone: `fcfs` if the spec names none.
    ///
    /// # Errors
    /// Returns the error of the policy.
    pub fn build_share(&self, config: &SchedulerConfig) -> Result<AnyShare, BuildError> {
        match &self.share {
            Some(Chosen::Registered(named)) => known(AnyShare::build(&named.name, &named.parameters, config)),
            Some(Chosen::Own(own)) => known(own.build_share(config)).map(AnyShare::Own),
            None => known(AnyShare::build("fcfs", &[], config)),
        }
    }

    /// Adds the policies of another spec, or a policy that a program defines. A named steering
    /// policy replaces one that follows from the parameters of the sharing policy.
    ///
    /// # Errors
    /// Rejects two policies of one family.
    pub fn with(self, other: impl Into<Self>) -> Result<Self, BuildError> {
        let (mut joined, mut other) = (self, other.into());
        if joined.steer.is_some() && other.steer.is_some() {
            if joined.follows_from_share() {
                joined.steer = None;
            } else if other.follows_from_share() {
                other.steer = None;
            }
        }
        for family in FAMILIES {
            let (place, added) = (joined.place(family), other.place(family).take());
            if let (Some(one), Some(two)) = (&place, &added) {
                let message = format!("`{one}` and `{two}` are two {} policies: name one", family.name());
                return Err(BuildError::new(BuildErrorKind::Syntax, message));
            }
            *place = added.or(place.take());
        }
        Ok(joined)
    }

    /// Whether the steering policy is the one that the sharing policy requires.
    fn follows_from_share(&self) -> bool {
        let (Some(Chosen::Registered(steer)), Some(Chosen::Registered(share))) = (&self.steer, &self.share) else {
            return false;
        };
        let wanted = AnyShare::check_parameters(&share.name, &share.parameters);
        let wanted = wanted.and_then(Result::ok).flatten();
        wanted == Some(steer.name.as_str()) && steer.parameters.is_empty()
    }

    /// Returns the policies that a program defined, in the order of their families.
    pub fn own(&self) -> impl Iterator<Item = &OwnPolicy> {
        let chosen = [&self.estimate, &self.allocate, &self.steer, &self.share];
        chosen.into_iter().flatten().filter_map(Chosen::own)
    }

    /// Returns the name of a policy that needs a virtual clock. `None`: all policies can run live.
    pub fn simulated_only(&self) -> Option<&str> {
        self.own().find(|own| own.is_simulated_only()).map(OwnPolicy::name)
    }

    /// Replaces the policies `before`, which the scheduler has now, by these, in every family in
    /// which they differ. The accounts of waiting packets and of packets in service remain. If both
    /// steering policies keep flows in order, no flow is reordered.
    ///
    /// # Errors
    /// Rejects policies that need queues of another kind, and returns the error of a policy.
    /// Families replaced before the error stay replaced.
    pub fn take_over(
        &self,
        now: Time,
        before: &Self,
        config: &SchedulerConfig,
        scheduler: &mut AnyScheduler,
    ) -> Result<(), BuildError> {
        let families = |spec: &Self| (spec.steer.is_some(), spec.allocate.is_some());
        if families(self) != families(before) {
            return Err(BuildError::combination(format!(
                "`{self}` cannot take over from `{before}`: packets would wait in other queues; name policies of the same \
                 families"
            )));
        }
        if self.estimate != before.estimate {
            return Err(BuildError::combination(format!(
                "`{self}` cannot take over from `{before}`: estimates stay as they began; name the same estimator"
            )));
        }
        let name = format!("{self}");
        if self.share != before.share {
            scheduler.swap_share(now, &name, || self.build_share(config))?;
        }
        if let Some(steer) = self.build_steer(config)?.filter(|_| self.steer != before.steer) {
            let keep_order = [&self.steer, &before.steer].into_iter().flatten().all(Chosen::keeps_flow_order);
            scheduler.swap_steer(now, &name, steer, keep_order, || self.build_share(config))?;
        }
        if let Some(allocate) = self.build_allocate(config)?.filter(|_| self.allocate != before.allocate) {
            scheduler.swap_allocate(now, &name, allocate, || self.build_share(config))?;
        }
        Ok(())
    }

    /// Whether the spec names neither a steering nor an allocation policy.
    pub fn is_share_alone(&self) -> bool {
        self.steer.is_none() && self.allocate.is_none()
    }

    /// Whether the sharing policy distinguishes clients, so that the order of service can differ
    /// from the order of arrival.
    pub fn shares(&self) -> bool {
        self.share.as_ref().is_some_and(Chosen::tells_clients)
    }

    /// Returns the name of the steering policy. `None`: the spec names none.
    pub fn steering(&self) -> Option<&str> {
        self.steer.as_ref().map(Chosen::name)
    }

    /// Returns the name of the sharing policy: `fcfs` if the spec names none.
    pub fn sharing(&self) -> &str {
        self.share.as_ref().map_or("fcfs", Chosen::name)
    }

    /// Returns the name of the allocation policy. `None`: the spec names none.
    pub fn allocation(&self) -> Option<&str> {
        self.allocate.as_ref().map(Chosen::name)
    }

    /// Whether packets are steered to cores.
    pub fn steers(&self) -> bool {
        self.steer.is_some()
    }

    /// Whether flows stay in order if each client has at most one packet in service
    /// ([`FlowOrder::Hold`]). With steering, the steering policy must keep each flow on one core;
    /// without it, the sharing policy must distinguish clients.
    ///
    /// [`FlowOrder::Hold`]: humpyard_core::mechanism::FlowOrder::Hold
    pub fn holds_flows(&self) -> bool {
        self.steer.as_ref().map_or_else(|| self.shares(), Chosen::keeps_flow_order)
    }

    /// Whether a service gets another core when more packets wait than its cores can serve within
    /// its tolerance.
    pub fn goes_by_tolerance(&self) -> bool {
        self.allocate.as_ref().is_some_and(|chosen| matches!(chosen.name(), "everest" | "everest-ld"))
    }

    /// Whether the policy serves clients by their weights. The policies by arrival (`fcfs`), by
    /// locality (`lap`, `t-opt`), by service time (`darc`, `srpt`), by deadline (`edf`) and with a
    /// central queue (`jbsq`, `ps`, `shinjuku`, `concord`) ignore weights.
    pub fn weighs(&self) -> bool {
        let ignore = ["lap", "t-opt", "darc", "edf", "srpt", "jbsq", "ps", "shinjuku", "concord", "batch"];
        self.shares() && !ignore.contains(&self.sharing())
    }

    /// Whether decisions depend on how many clients there can be: on a rate reserved for each of
    /// them, on the sum of all their weights, on precision that shrinks with their number. The
    /// program's own policies may do so, too.
    pub fn counts_clients(&self) -> bool {
        matches!(self.sharing(), "lottery" | "virtual-clock" | "strr" | "darc" | "gr3mp") || self.own().next().is_some()
    }

    /// Whether the policy must know all packets before it serves the first. Only a simulation can
    /// do that: it lets all packets arrive at the start.
    pub fn is_offline(&self) -> bool {
        self.sharing() == "t-opt"
    }

    /// Whether the core of a packet depends on a hash of its connection. A steering policy of the
    /// program may look at the hash, too.
    pub fn hashes(&self) -> bool {
        let ignore = ["rr", "jsq", "ss", "scr", "flow-slice", "fcfs-thread", "ml", "mlp"];
        self.own().next().is_some() || self.steering().is_some_and(|name| !ignore.contains(&name))
    }

    /// Whether packets take longer than their service alone, because the policy has them carry more
    /// ([`Steer::further_work`]). Only a simulation models that.
    ///
    /// [`Steer::further_work`]: humpyard_core::policy::Steer::further_work
    pub fn adds_work(&self) -> bool {
        self.steer.as_ref().is_some_and(|steer| steer.name() == "scr")
    }

    /// Whether cores belong to services.
    pub fn allocates(&self) -> bool {
        self.allocate.is_some()
    }

    fn place(&mut self, family: Family) -> &mut Option<Chosen> {
        match family {
            Family::Steer => &mut self.steer,
            Family::Share => &mut self.share,
            Family::Allocate => &mut self.allocate,
            Family::Estimate => &mut self.estimate,
        }
    }
}

impl From<OwnPolicy> for PolicySpec {
    fn from(own: OwnPolicy) -> Self {
        let (mut spec, family) = (Self::NONE, own.family());
        *spec.place(family) = Some(Chosen::Own(own));
        spec
    }
}

/// Unwraps a policy that was built. Its name and family were checked when the spec was parsed.
fn known<T>(built: Option<Result<T, BuildError>>) -> Result<T, BuildError> {
    built.expect("the name was found in its family when the spec was read")
}

const FAMILIES: [Family; 4] = [Family::Steer, Family::Share, Family::Allocate, Family::Estimate];

impl FromStr for PolicySpec {
    type Err = BuildError;

    fn from_str(text: &str) -> Result<Self, BuildError> {
        let mut spec = Self::NONE;
        let mut steered_by = None;
        for part in text.split('/') {
            let (named_family, policy) = match part.split_once('=') {
                Some((family, policy)) if !family.contains(':') => (Some(find_family(family)?), policy),
                _ => (None, part),
            };
            let named: Named = policy.parse()?;
            let (family, wanted) = check(&named, named_family)?;
            steered_by = steered_by.or(wanted);
            let place = spec.place(family);
            if place.is_some() {
                return Err(BuildError::new(
                    BuildErrorKind::Syntax,
                    format!("`{text}` names two {} policies: name one", family.name()),
                ));
            }
            *place = Some(Chosen::Registered(named));
        }
        if let Some(steer) = steered_by.filter(|_| spec.steer.is_none()) {
            spec.steer = Some(Chosen::Registered(Named { name: steer.to_owned(), parameters: Vec::new() }));
        }
        Ok(spec)
    }
}

impl fmt::Display for PolicySpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts: Vec<String> = Vec::new();
        let given = [
            (Family::Estimate, &self.estimate),
            (Family::Allocate, &self.allocate),
            (Family::Steer, &self.steer),
            (Family::Share, &self.share),
        ];
        let bare = given.iter().filter(|(_, chosen)| chosen.is_some()).count() == 1;
        for (family, chosen) in given {
            if let Some(chosen) = chosen {
                parts.push(if bare { format!("{chosen}") } else { format!("{}={chosen}", family.name()) });
            }
        }
        f.write_str(&parts.join("/"))
    }
}

fn find_family(name: &str) -> Result<Family, BuildError> {
    let found = FAMILIES.into_iter().find(|family| family.name() == name);
    found.ok_or_else(|| {
        BuildError::new(BuildErrorKind::UnknownPolicy, unknown("family", name, FAMILIES.map(Family::name)))
    })
}

/// Checks the name and the parameters of a policy. Returns its family, and the steering policy that
/// it requires if the spec names none.
fn check(named: &Named, family: Option<Family>) -> Result<(Family, Option<&'static str>), BuildError> {
    let candidates = FAMILIES.into_iter().filter(|&candidate| family.is_none_or(|family| family == candidate));
    for candidate in candidates {
        let checked = match candidate {
            Family::Steer => AnySteer::check_parameters(&named.name, &named.parameters),
            Family::Share => AnyShare::check_parameters(&named.name, &named.parameters),
            Family::Allocate => AnyAllocate::check_parameters(&named.name, &named.parameters),
            Family::Estimate => AnyEstimate::check_parameters(&named.name, &named.parameters),
        };
        if let Some(result) = checked {
            return result.map(|steered_by| (candidate, steered_by));
        }
    }
    let what = family.map_or("policy".to_owned(), |family| format!("{} policy", family.name()));
    let names = names(family);
    Err(BuildError::new(BuildErrorKind::UnknownPolicy, unknown(&what, &named.name, names.iter().map(String::as_str))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::share::drr::{Drr, DrrParams};
    use crate::steer::hrw::{Hrw, HrwParams};
    use crate::testing::config;
    use alloc::string::ToString;
    use humpyard_core::id::{ClientId, CoreId, FlowId, Slot};
    use humpyard_core::packet::Packet;
    use humpyard_core::policy::Build;
    use humpyard_core::random::Seed;
    use humpyard_core::unit::WorkUnit;

    fn refused(text: &str) -> String {
        text.parse::<PolicySpec>().unwrap_err().to_string()
    }

    #[test]
    fn errors_say_to_programs_what_kind_they_are() {
        for (spec, kind) in [
            ("banana", BuildErrorKind::UnknownPolicy),
            ("banana=drr", BuildErrorKind::UnknownPolicy),
            ("drr:quantity=1", BuildErrorKind::UnknownParameter),
            ("drr:quantum", BuildErrorKind::Syntax),
            ("drr:quantum=1,quantum=2", BuildErrorKind::Syntax),
            ("drr/gr3", BuildErrorKind::Syntax),
            ("drr:quantum=-1", BuildErrorKind::BadValue),
            ("drr:quantum=1", BuildErrorKind::BadValue),
            ("virtual-clock:clock=wall", BuildErrorKind::Combination),
            ("allocate=everest/steer=hrw", BuildErrorKind::Combination),
            ("fcfs", BuildErrorKind::SetUp),
        ] {
            let config = SchedulerConfig { packets: if spec == "fcfs" { 0 } else { 100 }, ..config(4, 40, &[]) };
            let built = spec.parse::<PolicySpec>().and_then(|spec| spec.build(&config).map(drop));
            assert_eq!(built.unwrap_err().kind(), kind, "{spec}");
        }
    }

    #[test]
    fn steering_by_a_hash_is_known() {
        let hashes = |text: &str| text.parse::<PolicySpec>().unwrap().hashes();
        assert!(["conn", "steer=hrw/share=drr", "rss++", "ps-hrw", "sprayer"].into_iter().all(hashes));
        assert!(!["rr", "jsq", "drr", "static", "shinjuku"].into_iter().any(hashes));
    }

    #[test]
    fn specs_read_back_as_written() {
        for text in [
            "drr",
            "estimate=least-squares:forgetting=0.99/share=drr",
            "drr:quantum=3000",
            "allocate=static/steer=hrw/share=drr:quantum=9,surplus=true",
            "conn:hash=mix",
        ] {
            assert_eq!(text.parse::<PolicySpec>().unwrap().to_string(), text);
        }
        assert_eq!("share=sfq".parse::<PolicySpec>().unwrap().to_string(), "sfq");
        assert_eq!("hrw/drr".parse::<PolicySpec>().unwrap().to_string(), "steer=hrw/share=drr");
    }

    /// Runs four cores with packets of 40 flows that arrive at random. Returns every dispatch and completion.
    fn served(spec: &str) -> Vec<(Time, CoreId, FlowId, u64)> {
        served_by(&of_text(spec))
    }

    fn served_by(spec: &PolicySpec) -> Vec<(Time, CoreId, FlowId, u64)> {
        let config = SchedulerConfig { longest: 100, unit: WorkUnit::Nanoseconds, ..config(4, 40, &[]) };
        let mut scheduler = spec.build(&config).unwrap();
        let mut random = Seed(4).stream("test");
        let (mut served, mut under_way) = (Vec::new(), Vec::new());
        for step in 0..4_000 {
            let now = Time::from_ns(20 * step);
            under_way.retain(|&(end, core, slot, busy): &(Time, CoreId, Slot, Time)| {
                if end <= now {
                    let packet = scheduler.on_completion(now, slot, busy).packet;
                    served.push((now, core, packet.flow, packet.sequence));
                }
                end > now
            });
            if scheduler.account().held < 100 {
                let flow = random.below(40) as u32;
                let packet = Packet {
                    flow: FlowId(flow),
                    client: ClientId(flow),
                    key: u64::from(flow).wrapping_mul(0x9e37_79b9_7f4a_7c15),
                    length: 50 + random.below(50) as u32,
                    ..Packet::default()
                };
                scheduler.on_arrival(now, &packet);
            }
            while let Some(core) = scheduler.next_core(now) {
                let Some(dispatch) = scheduler.next(now, core) else { break };
                let busy = Time::from_ns(dispatch.packet.length.into());
                under_way.push((now + busy, core, dispatch.slot, busy));
                served.push((now, core, dispatch.packet.flow, dispatch.packet.sequence));
            }
        }
        served
    }

    #[test]
    fn engines_by_themselves_are_steered_to() {
        let read = |text: &str| text.parse::<PolicySpec>().unwrap().to_string();
        assert_eq!(read("efq:engines=per-engine"), "steer=hrw/share=efq:engines=per-engine");
        assert_eq!(read("conn/efq:engines=per-engine"), "steer=conn/share=efq:engines=per-engine");
        assert_eq!(read("efq:engines=pooled"), "efq:engines=pooled");
        let by_itself = served("efq:engines=per-engine");
        assert!(by_itself.len() > 4_000, "{}", by_itself.len());
        assert_eq!(by_itself, served("steer=hrw/share=efq"));
        assert_ne!(by_itself, served("efq"), "one pool");
        assert_ne!(by_itself, served("steer=jsq/share=efq:engines=per-engine"), "another policy steers");
    }

    /// Returns a sharing policy that a program defines; it decides as `drr`.
    fn own_share(name: &str) -> Result<OwnPolicy, BuildError> {
        OwnPolicy::share(name, |config| Drr::new(&DrrParams::default(), config))
    }

    fn of_text(text: &str) -> PolicySpec {
        text.parse().unwrap()
    }

    #[test]
    fn policies_of_the_program_are_named_beside_ours() {
        let own = own_share("mine").unwrap();
        let alone = PolicySpec::from(own.clone());
        assert_eq!((alone.to_string().as_str(), alone.sharing(), alone.is_share_alone()), ("mine", "mine", true));
        assert!(alone.shares() && alone.weighs() && alone.holds_flows() && !alone.is_offline());
        let steered = of_text("hrw").with(own.clone()).unwrap();
        assert_eq!(steered.to_string(), "steer=hrw/share=mine");
        assert_eq!(steered, PolicySpec::from(own.clone()).with(of_text("hrw")).unwrap());
        assert_ne!(alone, PolicySpec::from(own_share("mine").unwrap()), "another maker");
        let merging = PolicySpec::from(own.clone().merging_clients());
        assert!(!merging.shares() && !merging.weighs());
        assert_eq!(alone.simulated_only(), None);
        assert_eq!(PolicySpec::from(own.simulated_only()).simulated_only(), Some("mine"));
    }

    #[test]
    fn own_steering_takes_the_place_of_what_follows_from_sharing() {
        let own = OwnPolicy::steer("mine", |config| Hrw::new(&HrwParams::default(), config)).unwrap();
        assert!(!PolicySpec::from(own.clone()).holds_flows());
        let own = own.promising(&[Promise::FlowOrder]);
        assert!(PolicySpec::from(own.clone()).holds_flows());
        for joined in [
            of_text("efq:engines=per-engine").with(own.clone()),
            PolicySpec::from(own.clone()).with(of_text("efq:engines=per-engine")),
        ] {
            assert_eq!(joined.unwrap().to_string(), "steer=mine/share=efq:engines=per-engine");
        }
        let refused = of_text("steer=conn/share=efq:engines=per-engine").with(own).unwrap_err().to_string();
        assert_eq!(refused, "`conn` and `mine` are two steer policies: name one");
    }

    #[test]
    fn own_names_are_plain_and_new() {
        let refused = |name: &str| own_share(name).unwrap_err().to_string();
        assert_eq!(refused("drr"), "a policy of your own cannot be called `drr`: there is one of that name");
        for name in ["", "a/b", "a=b", "a:b", "a b"] {
            assert_eq!(refused(name), format!("the name of a policy is letters, digits, `-` and `_`, not `{name}`"));
        }
    }

    #[test]
    fn own_policies_decide_and_take_over() {
        let own = PolicySpec::from(own_share("mine").unwrap());
        let config = SchedulerConfig { longest: 100, ..config(4, 40, &[]) };
        let mut scheduler = of_text("sfq").build(&config).unwrap();
        own.take_over(Time::ZERO, &of_text("sfq"), &config, &mut scheduler).unwrap();
        assert!(matches!(scheduler.policies().1, AnyShare::Own(_)));
        assert_eq!(served_by(&own), served("drr"));
    }

    #[test]
    fn unknown_names_answer_with_the_nearest() {
        let shares = names(Some(Family::Share)).join(", ");
        let all = names(None).join(", ");
        assert!(shares.starts_with("fcfs, wrr, drr") && all.starts_with("rr, conn") && all.contains(&shares));
        assert_eq!(refused("share=dr"), format!("no share policy `dr`; did you mean `drr`? There are: {shares}"));
        assert_eq!(refused("hrv"), format!("no policy `hrv`; did you mean `hrw`? There are: {all}"));
        assert_eq!(
            refused("stear=hrw"),
            "no family `stear`; did you mean `steer`? There are: steer, share, allocate, estimate"
        );
        assert_eq!(
            refused("drr:quant=3"),
            "drr: no parameter `quant`; did you mean `quantum`? There are: quantum, surplus"
        );
        assert_eq!(refused("rr:x=1"), "rr: no parameter `x`: it has none");
        assert_eq!(refused("drr:quantum"), "drr: a parameter reads name=value, not `quantum`");
        assert_eq!(refused("drr/sfq"), "`drr/sfq` names two share policies: name one");
        assert_eq!(refused(""), format!("no policy ``; there are: {all}"));
    }
}
