//! The list of all services, in reading order. Lookup, help, JSON and error messages derive from it.
//!
//! A specification has the syntax of a policy's: `forward`, or
//! `forward:icmp-burst=8,routes=10.0.0.0/8=out;::/0=discard`.

use core::fmt;
use std::sync::Arc;

use humpyard_core::id::ServiceId;
use humpyard_core::name::{Named, unknown};
use humpyard_core::policy::{Entry, Parameter, Params};

use crate::compress::{Compress, Decompress};
use crate::dpi::Dpi;
use crate::encrypt::{Decrypt, Encrypt};
use crate::fec::{Fec, FecDecode};
use crate::firewall::Firewall;
use crate::forward::Forward;
use crate::l7_filter::L7Filter;
use crate::nat64::Nat64;
use crate::pass::Pass;
use crate::portscan::Portscan;
use crate::service::{Build, Info, Service, ServiceError};
use crate::synflood::Synflood;

/// An entry of the list.
struct Registered {
    info: Info,
    entry: fn() -> Entry,
    prepare: Prepare,
    changes_cost: ChangesCost,
}

type Prepare = fn(&[(String, String)]) -> Result<Factory, ServiceError>;
type ChangesCost = fn(&[(String, String)]) -> Result<Vec<(String, String)>, ServiceError>;

impl Registered {
    const fn of<S: Build>() -> Self {
        Self { info: S::INFO, entry: entry::<S>, prepare: prepare_one::<S>, changes_cost: changes_cost::<S> }
    }
}

/// All services, in reading order. A new service needs one line here.
const SERVICES: &[Registered] = &[
    Registered::of::<Forward>(),
    Registered::of::<Encrypt>(),
    Registered::of::<Decrypt>(),
    Registered::of::<Compress>(),
    Registered::of::<Decompress>(),
    Registered::of::<Fec>(),
    Registered::of::<FecDecode>(),
    Registered::of::<Dpi>(),
    Registered::of::<L7Filter>(),
    Registered::of::<Firewall>(),
    Registered::of::<Portscan>(),
    Registered::of::<Synflood>(),
    Registered::of::<Nat64>(),
    Registered::of::<Pass>(),
];

fn entry<S: Build>() -> Entry {
    let Info { name, summary, source } = S::INFO;
    Entry { name, family: "service", summary, source, parameters: S::Params::parameters() }
}

fn prepare_one<S: Build>(pairs: &[(String, String)]) -> Result<Factory, ServiceError> {
    let service = S::new(&S::Params::from_pairs(S::INFO.name, pairs)?)?;
    let (refers_to, weighs) = (service.refers_to(), service.weighs());
    let follows_connections = service.follows_connections();
    Ok(Factory { refers_to, weighs, follows_connections, ..Factory::with_info(S::INFO, move || service.clone()) })
}

/// Returns those parameters that change the service's cost and differ from their defaults, in the order of
/// their declaration.
fn changes_cost<S: Build>(pairs: &[(String, String)]) -> Result<Vec<(String, String)>, ServiceError> {
    let given = S::Params::from_pairs(S::INFO.name, pairs)?.values();
    let declared = S::Params::parameters();
    let is_given = |name: &str, value: &str| {
        declared.iter().zip(&given).any(|(parameter, given)| parameter.name == name && given == value)
    };
    let changes = |parameter: &Parameter| match parameter.changes_cost.split_once('=') {
        Some((name, value)) => is_given(name, value),
        None => parameter.changes_cost == Parameter::ALWAYS,
    };
    let differs = |(parameter, value): &(&Parameter, &String)| parameter.default != **value && changes(parameter);
    let pairs = declared.iter().zip(&given).filter(differs);
    Ok(pairs.map(|(parameter, value)| (parameter.name.clone(), value.clone())).collect())
}

/// Returns every service, in reading order.
pub fn entries() -> Vec<Entry> {
    SERVICES.iter().map(|service| (service.entry)()).collect()
}

/// Returns whether there is a service of this name.
pub fn is_registered(name: &str) -> bool {
    SERVICES.iter().any(|service| service.info.name == name)
}

fn find(name: &str) -> Result<&'static Registered, ServiceError> {
    SERVICES.iter().find(|service| service.info.name == name).ok_or_else(|| {
        let names = SERVICES.iter().map(|service| service.info.name);
        ServiceError::new(unknown("service", name, names))
    })
}

/// Prepares the service of this name. Parameters that are not given have their defaults.
///
/// # Errors
/// If there is no such service, if it has no parameter of a given name, or if it rejects a value.
pub fn prepare(named: &Named) -> Result<Factory, ServiceError> {
    (find(&named.name)?.prepare)(&named.parameters)
}

/// Returns the specification under which cost tables list a service: its name, and some of its parameters in the
/// order of their declaration. These change a packet's cost by a tenth or more, and differ from their defaults.
///
/// ```
/// use humpyard_services::cost_spec;
///
/// let spec = |text: &str| cost_spec(&text.parse().unwrap()).unwrap().to_string();
/// assert_eq!(spec("encrypt:spi=300,cipher=cast-128"), "encrypt:cipher=cast-128");
/// assert_eq!(spec("encrypt:cipher=aes-128-gcm"), "encrypt");
/// ```
///
/// # Errors
/// Those of [`prepare`], except for values that only a whole service rejects.
pub fn cost_spec(named: &Named) -> Result<Named, ServiceError> {
    let parameters = (find(&named.name)?.changes_cost)(&named.parameters)?;
    Ok(Named { name: named.name.clone(), parameters })
}

/// Makes instances of one service with the same parameters and shared read-only tables: one for each worker.
#[derive(Clone)]
pub struct Factory {
    info: Info,
    refers_to: Vec<ServiceId>,
    weighs: bool,
    follows_connections: bool,
    make: Arc<dyn Fn() -> Box<dyn Service> + Send + Sync>,
}

impl Factory {
    /// Returns a factory for a service that is not on the list. Every driver that accepts factories accepts it.
    ///
    /// `make` returns a new instance. A driver calls it once for each worker, and again after an instance
    /// panicked. It captures the data that instances share.
    ///
    /// ```
    /// use std::sync::Arc;
    ///
    /// use humpyard_core::frame::Frame;
    /// use humpyard_services::{Context, DropReason, Factory, Generated, Service, Verdict};
    ///
    /// /// Lets frames up to a length pass.
    /// struct Police {
    ///     longest: Arc<u32>,
    /// }
    ///
    /// impl Service for Police {
    ///     fn process(&mut self, frame: &mut Frame, _: &Context, _: &mut Generated) -> Verdict {
    ///         if frame.wire_length <= *self.longest { Verdict::Forward } else { Verdict::Drop(DropReason::BadTotalLength) }
    ///     }
    /// }
    ///
    /// let longest = Arc::new(1514);
    /// let factory = Factory::new("police", move || Police { longest: Arc::clone(&longest) });
    /// assert_eq!(factory.info().name, "police");
    /// let mut frame = Frame { wire_length: 9000, ..Frame::default() };
    /// let verdict = factory.make().process(&mut frame, &Context::default(), &mut Generated::default());
    /// assert_eq!(verdict, Verdict::Drop(DropReason::BadTotalLength));
    /// ```
    pub fn new<S: Service + 'static>(name: &'static str, make: impl Fn() -> S + Send + Sync + 'static) -> Self {
        Self::with_info(Info { name, summary: "", source: "" }, make)
    }

    fn with_info<S: Service + 'static>(info: Info, make: impl Fn() -> S + Send + Sync + 'static) -> Self {
        let make = Arc::new(move || Box::new(make()) as Box<dyn Service>);
        Self { info, refers_to: Vec::new(), weighs: false, follows_connections: false, make }
    }

    /// Returns the service's description. For a service that is not on the list, only the name is known.
    pub const fn info(&self) -> Info {
        self.info
    }

    /// Returns the services that its marks name. A driver without one of them must reject the service.
    pub fn refers_to(&self) -> &[ServiceId] {
        &self.refers_to
    }

    /// Returns whether its marks may set weights.
    pub fn weighs(&self) -> bool {
        self.weighs
    }

    /// Returns whether it keeps state for each connection, so that connections must have hashes of their own.
    pub fn follows_connections(&self) -> bool {
        self.follows_connections
    }

    /// Returns whether it may mark packets.
    pub fn marks(&self) -> bool {
        self.weighs || !self.refers_to.is_empty()
    }

    /// Returns a new instance.
    pub fn make(&self) -> Box<dyn Service> {
        (self.make)()
    }
}

impl fmt::Debug for Factory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Factory").field(&self.info.name).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    macro_rules! all {
        () => {
            "forward, encrypt, decrypt, compress, decompress, fec, fec-decode, dpi, l7-filter, firewall, portscan, synflood, nat64, pass"
        };
    }

    #[test]
    fn messages() {
        for (spec, expected) in [
            ("forward", "built"),
            ("forward:icmp-interval=8,routes=0.0.0.0/0=out;::/0=discard", "built"),
            ("forward:router-v6=2001:db8::9,router_mac=02-00-00-00-00-09,checksum=fill", "built"),
            ("forwrad", concat!("no service `forwrad`; did you mean `forward`? There are: ", all!())),
            ("transcode", concat!("no service `transcode`; there are: ", all!())),
            (
                "forward:route=10.0.0.0/8=out",
                "forward: no parameter `route`; did you mean `routes`? There are: routes, router-v4, router-v6, \
                 router-mac, checksum, mtu, icmp-interval, icmp-burst",
            ),
            ("encrypt:cipher=cast-128,spi=256", "built"),
            ("encrypt:cipher=des", "encrypt: `cipher` takes one of aes-128-gcm cast-128, not `des`"),
            ("decrypt:key=00", "decrypt: `key` takes 32 hexadecimal digits, not `00`"),
            ("compress:codec=deflate,level=10", "compress: `level` takes 1 to 9, not `10`"),
            ("decompress:codec=lz4", "decompress: no parameter `codec`: it has none"),
            ("fec:code=8+2", "built"),
            ("fec:code=8+3", "fec: `code` takes one of 8/7 8+2, not `8+3`"),
            ("portscan:ports=1", "portscan: `ports` takes 2 to 1024, not `1`"),
            ("portscan:unused=10.0.0", "portscan: `unused`: `10.0.0` is no prefix, such as 10.0.0.0/8"),
            ("synflood:period=0.5,floor=100,drop=true", "built"),
            ("synflood:offset=-1", "synflood: `offset` takes 0 to 1000, not `-1`"),
            ("forward:routes", "forward: a parameter reads name=value, not `routes`"),
            ("forward:icmp-interval=-1", "forward: `icmp-interval` takes 0 to 1000000000 (in packets), not `-1`"),
            ("forward:checksum=ignore", "forward: `checksum` takes one of check fill, not `ignore`"),
            ("forward:router-v4=::1", "forward: `router-v4` takes an IPv4 address of one host, not `::1`"),
            (
                "forward:routes=10.0.0.0/8=oot",
                "forward: `routes`: `10.0.0.0/8=oot`: no next hop `oot`; accepted: out, local, discard, unreachable, \
                 or the MAC address of one station, such as 02:00:00:00:00:01",
            ),
        ] {
            let built = spec.parse().map_err(ServiceError::from).and_then(|named| prepare(&named));
            let said = built.map_or_else(|error| error.to_string(), |_| "built".into());
            assert_eq!(said, expected);
        }
    }

    #[test]
    fn every_service_describes_itself_and_builds_from_its_defaults() {
        for entry in entries() {
            assert!(!entry.summary.is_empty() && !entry.source.is_empty(), "{}", entry.name);
            for parameter in &entry.parameters {
                assert!(!parameter.summary.is_empty() && !parameter.accepts.is_empty(), "{}", parameter.name);
            }
            let parameters =
                entry.parameters.into_iter().map(|parameter| (parameter.name, parameter.default)).collect();
            let factory = prepare(&Named { name: entry.name.into(), parameters }).unwrap();
            assert_eq!(factory.info().name, entry.name);
            factory.make();
        }
    }

    #[test]
    fn services_with_a_state_of_connections_say_so() {
        let follows = |spec: &str| prepare(&spec.parse().unwrap()).unwrap().follows_connections();
        assert!(["dpi", "l7-filter", "firewall:state=true"].into_iter().all(follows));
        assert!(!["forward", "firewall", "portscan", "nat64"].into_iter().any(follows));
    }

    #[test]
    fn costs_know_a_service_by_what_changes_them() {
        for (given, expected) in [
            ("compress:level=6", "compress"),
            ("compress:level=6,codec=deflate", "compress:codec=deflate,level=6"),
            ("compress:level=1,codec=deflate", "compress:codec=deflate"),
            ("forward:checksum=fill,icmp-burst=8", "forward"),
            ("firewall:state=false", "firewall"),
            ("encrypt:cipher=des", "encrypt: `cipher` takes one of aes-128-gcm cast-128, not `des`"),
        ] {
            let said = cost_spec(&given.parse().unwrap());
            assert_eq!(said.map_or_else(|error| error.to_string(), |spec| spec.to_string()), expected);
        }
        assert!(cost_spec(&"v4-v6-tcp".parse().unwrap()).is_err());
    }

    /// Each condition on cost names a parameter; otherwise it would never hold.
    #[test]
    fn what_changes_a_cost_is_a_parameter_of_the_service() {
        for entry in entries() {
            for parameter in &entry.parameters {
                let Some((name, value)) = parameter.changes_cost.split_once('=') else {
                    assert!(["", Parameter::ALWAYS].contains(&&*parameter.changes_cost), "{}", parameter.name);
                    continue;
                };
                let other = entry.parameters.iter().find(|other| other.name == name);
                let pairs = vec![(name.to_owned(), value.to_owned())];
                assert!(other.is_some_and(|other| other.default != value), "{}: {name}={value}", parameter.name);
                prepare(&Named { name: entry.name.into(), parameters: pairs }).unwrap();
            }
        }
    }

    #[test]
    fn entries_as_json() {
        let json = serde_json::to_value(entries()).unwrap();
        assert_eq!((&json[0]["name"], &json[0]["family"]), (&"forward".into(), &"service".into()));
        let parameter = serde_json::json!({
            "name": "icmp-burst",
            "summary": "How many ICMP errors may be made in a row.",
            "default": "64",
            "accepts": "0 to 1000000000",
            "unit": "errors",
        });
        assert_eq!(json[0]["parameters"][7], parameter);
    }
}
