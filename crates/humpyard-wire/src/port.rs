//! What a port is called, and which kinds there are.

use humpyard_core::name::{Named, unknown};
use humpyard_core::policy::Params;
use humpyard_traffic::TrafficError;
use humpyard_traffic::sink::Sink;
use humpyard_traffic::source::Source;
use nix::net::if_::if_nametoindex;

use crate::interface::Interface;
use crate::nfqueue::{self, QueueParams};
use crate::note::Note;
use crate::packet_socket::{FanOut, PacketSink, PacketSocketParams, PacketSource};
use crate::tun::{Tun, TunParams};
use crate::xdp::{self, XdpParams, XdpPort};

/// What goes in at a port, and what comes out: each if it was asked for.
pub(crate) struct Port {
    pub(crate) source: Option<Box<dyn Source + Send>>,
    pub(crate) sink: Option<Box<dyn Sink + Send>>,
    /// What to say of it at the start.
    pub(crate) notes: Vec<Note>,
}

/// Which ways a port is used.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Ways {
    /// Frames are taken from it.
    pub(crate) receives: bool,
    /// Frames are sent by it.
    pub(crate) sends: bool,
    /// The longest packet that the ports pass on by which its frames leave, in bytes. `None`: any.
    pub(crate) onward_mtu: Option<usize>,
}

/// The name of a port, taken apart.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct PortName {
    kind: String,
    interface: String,
    parameters: Vec<(String, String)>,
}

impl PortName {
    /// Takes a name apart: `KIND:INTERFACE[:name=value,...]`.
    pub(crate) fn parse(text: &str) -> Result<Self, TrafficError> {
        let (kind, rest) = text.split_once(':').unwrap_or((text, ""));
        let Named { name, parameters } = rest.parse()?;
        if name.is_empty() {
            let (what, example) = if kind == "nfqueue" { ("queue", "0") } else { ("interface", "eth0") };
            return Err(TrafficError::usage(format!("`{text}` names no {what}: {kind}:{example}, for example")));
        }
        Ok(Self { kind: kind.to_owned(), interface: name, parameters })
    }

    /// Kind and interface, without parameters: what makes two ports the same.
    pub(crate) fn name(&self) -> String {
        format!("{}:{}", self.kind, self.interface)
    }

    /// The interface, or the number of a queue.
    pub(crate) fn interface(&self) -> &str {
        &self.interface
    }

    /// Whether its packets begin with their IP header.
    pub(crate) fn is_bare(&self) -> bool {
        matches!(self.kind.as_str(), "tun" | "nfqueue")
    }

    /// Whether it is a queue, by which nothing leaves but what came by it.
    pub(crate) fn is_queue(&self) -> bool {
        self.kind == "nfqueue"
    }

    /// Whether it is an interface that must be there before the run, and is not.
    pub(crate) fn is_absent(&self) -> bool {
        matches!(self.kind.as_str(), "iface" | "xdp") && if_nametoindex(self.interface.as_str()).is_err()
    }

    /// Returns the longest packet that the port passes on, in bytes. `None`: any, or the system does not tell.
    pub(crate) fn mtu(&self) -> Option<usize> {
        match self.kind.as_str() {
            "iface" | "xdp" => Some(Interface::find(&self.name(), &self.interface).ok()?.mtu),
            "tun" => Some(TunParams::from_pairs(&self.kind, &self.parameters).ok()?.mtu as usize),
            _ => None,
        }
    }

    /// Checks kind and parameters, without opening the port.
    pub(crate) fn check(&self) -> Result<(), TrafficError> {
        match self.kind.as_str() {
            "iface" => PacketSocketParams::from_pairs(&self.kind, &self.parameters).map(drop)?,
            "tun" => TunParams::from_pairs(&self.kind, &self.parameters).map(drop)?,
            "xdp" => XdpParams::from_pairs(&self.kind, &self.parameters).map(drop)?,
            "nfqueue" => {
                QueueParams::from_pairs(&self.kind, &self.parameters)?;
                nfqueue::number(&self.interface)?;
            }
            other => return Err(unknown_kind(other)),
        }
        Ok(())
    }

    /// Opens the port these ways.
    pub(crate) fn open(&self, ways: Ways) -> Result<Port, TrafficError> {
        let (name, interface) = (self.name(), &self.interface);
        match self.kind.as_str() {
            "iface" => {
                let params = PacketSocketParams::from_pairs(&self.kind, &self.parameters)?;
                let source = ways.receives.then(|| PacketSource::open(&name, interface, &params)).transpose()?;
                let sink = ways.sends.then(|| PacketSink::open(&name, interface)).transpose()?;
                Ok(Port {
                    source: source.map(|source| Box::new(source) as _),
                    sink: sink.map(|sink| Box::new(sink) as _),
                    notes: Vec::new(),
                })
            }
            "tun" => {
                let params = TunParams::from_pairs(&self.kind, &self.parameters)?;
                let tun = Tun::open(&name, interface, &params)?;
                let source = ways.receives.then(|| Box::new(tun.source()) as _);
                let sink = ways.sends.then(|| Box::new(tun.sink()) as _);
                Ok(Port { source, sink, notes: Vec::new() })
            }
            "xdp" => {
                let params = XdpParams::from_pairs(&self.kind, &self.parameters)?;
                let XdpPort { source, sink, notes } = xdp::open(&name, interface, &params, ways)?;
                Ok(Port {
                    source: source.map(|source| Box::new(source) as _),
                    sink: sink.map(|sink| Box::new(sink) as _),
                    notes,
                })
            }
            "nfqueue" => {
                let params = QueueParams::from_pairs(&self.kind, &self.parameters)?;
                let (source, sink) = nfqueue::open(&name, nfqueue::number(interface)?, &params)?;
                Ok(Port { source: Some(Box::new(source)), sink: Some(Box::new(sink)), notes: Vec::new() })
            }
            other => Err(unknown_kind(other)),
        }
    }
}

impl PortName {
    /// Opens the port these ways as often as there are workers.
    pub(crate) fn open_fanned_out(
        &self,
        ways: Ways,
        fan_out: &mut FanOut,
        workers: usize,
    ) -> Result<Vec<Port>, TrafficError> {
        if self.kind != "iface" {
            return Err(TrafficError::usage(format!(
                "{}: packets can be shared among workers where they come by iface:, so use --dispatchers 1",
                self.name()
            )));
        }
        let (name, interface) = (self.name(), &self.interface);
        let params = PacketSocketParams::from_pairs(&self.kind, &self.parameters)?;
        let sources = if ways.receives {
            PacketSource::open_fanned_out(&name, interface, &params, fan_out, workers)?
        } else {
            Vec::new()
        };
        let mut sources = sources.into_iter();
        let mut port = || {
            let sink = ways.sends.then(|| PacketSink::open(&name, interface)).transpose()?;
            Ok(Port {
                source: sources.next().map(|source| Box::new(source) as _),
                sink: sink.map(|sink| Box::new(sink) as _),
                notes: Vec::new(),
            })
        };
        (0..workers).map(|_| port()).collect()
    }
}

/// What to say of a kind of port that there is not.
fn unknown_kind(kind: &str) -> TrafficError {
    TrafficError::usage(unknown("kind of port", kind, ["iface", "xdp", "tun", "nfqueue"]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_taken_apart() {
        let name = PortName::parse("iface:eth0.7:ring=2097152,timeout=5").unwrap();
        assert_eq!(name.name(), "iface:eth0.7");
        assert_eq!(name.parameters.len(), 2);
        assert!(PortName::parse("iface:").unwrap_err().to_string().contains("names no interface"));
        assert!(PortName::parse("nfqueue:").unwrap_err().to_string().contains("names no queue: nfqueue:0"));
        assert!(PortName::parse("iface").unwrap_err().to_string().contains("names no interface"));
    }

    #[test]
    fn what_is_wrong_with_a_port_is_told() {
        let refused = |text: &str| {
            let ways = Ways { receives: true, sends: true, onward_mtu: None };
            PortName::parse(text).unwrap().open(ways).err().unwrap().to_string()
        };
        assert!(refused("iface:nosuch0").contains("no interface `nosuch0`"));
        assert!(refused("xdp:nosuch0").contains("no interface `nosuch0`"));
        assert!(refused("xdp:lo:mode=fast").contains("`mode` takes one of auto native generic"));
        assert!(refused("xdp:lo:queues=0").contains("`queues` takes `all` or a whole number from 1"));
        assert!(refused("xdp:lo:queue=1").contains("did you mean `queues`"));
        assert!(refused("ifase:lo").contains("did you mean `iface`"));
        assert!(refused("nfqueue:eth0").contains("`eth0` is not a queue number"));
        assert!(refused("nfqueue:7:length=0").contains("`length` takes 1 to 1000000"));
        assert!(refused("nfqueue:7:fail=true").contains("no parameter `fail`"));
        assert!(refused("iface:lo:timeout=0").contains("`timeout` takes 1 to 1000"));
        assert!(refused("iface:lo:rink=1").contains("did you mean `ring`"));
    }
}
