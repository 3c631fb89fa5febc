//! The network services of humpyard: real work on packets.
//!
//! A service is one [`Service`]: it gets a [`Frame`](humpyard_core::frame::Frame), does its work in place, and
//! returns a verdict on the frame. [`registry`] lists all services and builds them by name. Each worker thread
//! has its own instance; instances share only read-only data. [`Factory::new`] makes a [`Factory`] of your own
//! service.
//!
//! ```
//! use humpyard_core::frame::{Frame, LinkType};
//! use humpyard_services::{Context, DropReason, Generated, Verdict, prepare};
//!
//! let firewall = prepare(&"firewall".parse()?)?;
//! let mut instance = firewall.make();
//! // An IPv4 header that the capture cut off.
//! let mut frame = Frame { data: vec![0x45; 8], wire_length: 60, link: LinkType::RawIp, ..Frame::default() };
//! let verdict = instance.process(&mut frame, &Context::default(), &mut Generated::default());
//! assert!(matches!(verdict, Verdict::Drop(DropReason::Truncated)), "{verdict:?}");
//! assert!(prepare(&"fire-wall".parse()?).unwrap_err().to_string().contains("firewall"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | module | holds |
//! |---|---|
//! | [`service`] | the traits, the verdicts, the reasons for dropping, the frames a service makes itself |
//! | [`turn`] | turns of packets that take long: a core gives them back before they are done |
//! | [`registry`] | every service by name, with its parameters |
//! | [`forward`] | IPv4 and IPv6 forwarding |
//! | [`nat64`] | translation between IPv6 and IPv4 |
//! | [`link`] | where the IP header of a frame starts, MAC addresses |
//! | [`checksum`] | the Internet checksum |
#![forbid(unsafe_code)]

mod alarms;
pub mod checksum;
pub mod compress;
pub mod dpi;
pub mod encrypt;
mod expansion;
pub mod fec;
pub mod firewall;
pub mod forward;
mod instance;
mod ip;
pub mod l7_filter;
pub mod link;
mod memory;
pub mod nat64;
mod packet_time;
pub mod pass;
pub mod portscan;
pub mod registry;
mod segment;
pub mod service;
pub mod synflood;
mod tunnel;
pub mod turn;

pub use registry::{Factory, cost_spec, entries, is_registered, prepare};
pub use service::{Build, Context, Counter, DropReason, Generated, Info, Mark, Service, ServiceError, Verdict};
pub use turn::Turn;
