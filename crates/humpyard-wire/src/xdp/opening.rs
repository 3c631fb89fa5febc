//! How a port is opened: what the interface can, the program, the sockets of each queue.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use humpyard_traffic::TrafficError;

use super::features::Features;
use super::link::{Attachment, Link, SocketMap};
use super::queues::QueueCounts;
use super::receive::{ReceiveQueue, XdpSource};
use super::ring::{Consumer, Producer};
use super::socket::{self, Binding, Kind};
use super::tags::Tags;
use super::transmit::{SendQueue, XdpSink};
use super::umem::{Chunk, Umem};
use super::{Checksum, Copying, Mode, Opened, QUEUES_MAX, QueueChoice, QueueSockets, XdpParams};
use crate::interface::{Interface, refused};
use crate::note::Note;
use crate::packet_socket;
use crate::port::Ways;
use crate::system;

/// Bytes that the kernel keeps free before a frame that arrives.
const HEADROOM: usize = 256;
/// Bytes of a chunk: small ones need less memory, and the large ones are the largest there can be.
const CHUNK_SMALL: u32 = 2048;
const CHUNK_LARGE: u32 = 4096;
/// Entries of rings that are needed for form's sake.
const UNUSED_ENTRIES: u32 = 64;

/// Both halves of a port, each if it was asked for, and what to say of it.
pub(crate) struct XdpPort {
    pub(crate) source: Option<XdpSource>,
    pub(crate) sink: Option<XdpSink>,
    pub(crate) notes: Vec<Note>,
}

/// Opens an interface these ways; `port` is how the user names it.
///
/// # Errors
/// If there is no such interface, it is down, the system or its driver cannot do what is asked for, another program has it, or
/// a privilege is missing.
pub(crate) fn open(port: &str, name: &str, params: &XdpParams, ways: Ways) -> Result<XdpPort, TrafficError> {
    let interface = Interface::ready(port, name)?;
    Opening { port, interface: &interface, params, ways, features: Features::of(&interface) }.open()
}

/// A port that is about to be opened.
struct Opening<'a> {
    port: &'a str,
    interface: &'a Interface,
    params: &'a XdpParams,
    ways: Ways,
    /// `None`: the kernel does not tell.
    features: Option<Features>,
}

/// The program where it is on the interface.
struct Attached {
    attachment: Attachment,
    link: Link,
    map: SocketMap,
    /// Whether the program puts VLAN tags back that the driver took out.
    puts_tags_back: bool,
}

/// How sockets are bound: the flags of the first one, which hold for all.
struct Manner {
    flags: u16,
    /// Why the card does not read and write frames itself. `None`: it does.
    copies: Option<String>,
}

/// A queue of which the sockets are made.
struct Made {
    sockets: QueueSockets,
    receive: Option<ReceiveQueue>,
    send: Option<SendQueue>,
}

impl Opening<'_> {
    fn open(&self) -> Result<XdpPort, TrafficError> {
        let counts = self.counts()?;
        let (umem, mut chunks) = self.memory(counts)?;
        let attached = self.attach(counts)?;
        let loses_tags = self.ways.receives && attached.as_ref().is_some_and(|attached| !attached.puts_tags_back);
        let tags = loses_tags.then(|| Tags::of(self.interface));
        let mut manner = self.manner(attached.as_ref().map(|attached| attached.attachment));
        let (mut sockets, mut receive, mut send) = (Vec::new(), Vec::new(), Vec::new());
        for queue in 0..counts.receive.max(counts.send) {
            let made = self.make(queue, counts, &umem, sockets.first(), &mut manner)?;
            if let Some(mut queue) = made.receive {
                queue.fill(chunks.by_ref().take(self.params.frames as usize));
                receive.push(queue);
            }
            send.extend(made.send);
            sockets.push(made.sockets);
        }
        let is_zero_copy = sockets.iter().all(|queue| socket::is_zero_copy(&queue.first).unwrap_or(false));
        let link = attached.map(|attached| self.connect(attached, &sockets)).transpose()?;
        let notes = self.notes(&manner, tags.as_ref());
        let opened = Arc::new(Opened {
            sockets,
            umem,
            has_parts: manner.flags & libc::XDP_USE_SG != 0,
            is_zero_copy,
            _link: link,
            _tags: tags,
            _promiscuous: self.listen_to_all()?,
        });
        let source = self.ways.receives.then(|| {
            let (fills, asks) = (self.params.checksum == Checksum::Fill, self.params.busy > 0);
            let cut_to = self.ways.onward_mtu.map_or(self.interface.mtu, |mtu| mtu.min(self.interface.mtu));
            XdpSource::new(self.port, self.interface, Arc::clone(&opened), receive, fills, asks).cut_to(cut_to)
        });
        let sink = self.ways.sends.then(|| XdpSink::new(self.port, self.interface, opened, send, chunks.collect()));
        let sink =
            sink.transpose().map_err(|error| self.refuse("opening a socket to ask for the interface", &error))?;
        Ok(XdpPort { source, sink, notes })
    }

    /// What to say of the port at the start.
    fn notes(&self, manner: &Manner, tags: Option<&Tags>) -> Vec<Note> {
        let copying = match &manner.copies {
            None => "the card reads and writes frames itself (zero copy)".to_owned(),
            Some(why) => format!("the kernel copies frames: {why}"),
        };
        let mut notes = vec![Note::remark(self.port, copying)];
        if let Some(Tags::Lost(why)) = tags {
            notes.push(Note::warning(self.port, why));
        }
        notes
    }

    /// How many queues are used for each way.
    fn counts(&self) -> Result<QueueCounts, TrafficError> {
        let known = QueueCounts::of(self.interface);
        let wanted = match self.params.queues {
            QueueChoice::All => QUEUES_MAX,
            QueueChoice::First(count) => count,
        };
        let there_are = match (self.params.queues, known) {
            (_, Some(known)) => known,
            (QueueChoice::All, None) => QueueCounts { receive: 1, send: 1 },
            (QueueChoice::First(_), None) => QueueCounts { receive: wanted, send: wanted },
        };
        let most = if self.ways.receives { there_are.receive } else { there_are.send };
        if self.params.queues == QueueChoice::First(wanted) && wanted > most {
            let name = &self.interface.name;
            return Err(self.unusable(format!(
                "queues={wanted}: `{name}` has {most} (ethtool -L {name} changes that, where the driver can)"
            )));
        }
        let used = |way: bool, there_are: u32| if way { there_are.min(wanted) } else { 0 };
        let receive = used(self.ways.receives, there_are.receive);
        let send = used(self.ways.sends, there_are.send);
        // What sends beside a socket that receives needs one.
        Ok(QueueCounts { receive, send: if self.ways.receives { send.min(receive) } else { send } })
    }

    /// The memory of all frames, in chunks.
    fn memory(&self, counts: QueueCounts) -> Result<(Umem, impl Iterator<Item = Chunk> + use<>), TrafficError> {
        system::raise_memory_limit();
        let chunks = self.params.frames as usize * (counts.receive + counts.send) as usize;
        let fits = self.interface.frame_bytes_max() + HEADROOM <= CHUNK_SMALL as usize;
        Umem::new(chunks, if fits { CHUNK_SMALL } else { CHUNK_LARGE })
            .map_err(|error| self.refuse("making memory for frames (frames=N makes it smaller)", &error))
    }

    /// Whether a frame can need more than one chunk.
    const fn needs_parts(&self) -> bool {
        self.interface.frame_bytes_max() + HEADROOM > CHUNK_LARGE as usize
    }

    /// Puts the program on the interface, if frames are to be taken from it, or the card has to be made ready for it.
    fn attach(&self, counts: QueueCounts) -> Result<Option<Attached>, TrafficError> {
        let is_zero = self.params.copy == Copying::Zero;
        if !self.ways.receives && !is_zero {
            return Ok(None);
        }
        let map =
            SocketMap::new(counts.receive.max(1)).map_err(|error| self.refuse("making a map of sockets", &error))?;
        let attached = match self.params.mode {
            Mode::Native => self.attach_in_driver(&map),
            Mode::Generic => self.attach_behind(&map),
            Mode::Auto => match self.attach_in_driver(&map) {
                Err(error) if !is_final(&error) => self.attach_behind(&map),
                other => other,
            },
        };
        let (attachment, link, puts_tags_back) = attached.map_err(|error| self.not_attached(&error))?;
        if is_zero && attachment == Attachment::Generic {
            return Err(self.unusable("copy=zero takes a native program, which is not to be had here; use copy=auto"));
        }
        Ok(Some(Attached { attachment, link, map, puts_tags_back }))
    }

    /// Puts the program into the driver; answers whether it puts VLAN tags back, too.
    fn attach_in_driver(&self, map: &SocketMap) -> io::Result<(Attachment, Link, bool)> {
        let parts = self.needs_parts();
        if self.ways.receives && self.features.is_some_and(|features| features.tells_tags) {
            // Where that fails, the simpler program may do, or says why it does not.
            if let Ok(link) = Link::attach_with_tags(map, self.interface, parts) {
                return Ok((Attachment::Native, link, true));
            }
        }
        Ok((Attachment::Native, Link::attach(map, self.interface, Attachment::Native, parts)?, false))
    }

    /// Puts the program behind the driver, where nobody tells of VLAN tags.
    fn attach_behind(&self, map: &SocketMap) -> io::Result<(Attachment, Link, bool)> {
        let attach = |parts| Link::attach(map, self.interface, Attachment::Generic, parts);
        // A kernel that knows of no frames of several parts will do if there need be none.
        let link = match attach(true) {
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) && !self.needs_parts() => attach(false),
            other => other,
        };
        Ok((Attachment::Generic, link?, false))
    }

    /// How the first socket is bound, and with it all others. Zero copy is tried unless it is known not to be had.
    fn manner(&self, attachment: Option<Attachment>) -> Manner {
        let is_generic = attachment == Some(Attachment::Generic);
        let copies = match self.params.copy {
            Copying::Zero => None,
            Copying::Copy => Some("copy=copy asks for it"),
            Copying::Auto if is_generic => Some("the program runs behind the driver"),
            Copying::Auto if self.features.is_some_and(|features| !features.has_zero_copy) => {
                Some("the driver has no zero copy")
            }
            Copying::Auto => None,
        };
        let copying = if copies.is_some() { libc::XDP_COPY } else { libc::XDP_ZEROCOPY };
        let parts = if is_generic || self.needs_parts() { libc::XDP_USE_SG } else { 0 };
        Manner { flags: copying | parts | libc::XDP_USE_NEED_WAKEUP, copies: copies.map(str::to_owned) }
    }

    /// Makes the sockets of a queue and their rings, and binds them. They share the memory of `shares`, if there is such a one.
    fn make(
        &self,
        queue: u32,
        counts: QueueCounts,
        umem: &Umem,
        shares: Option<&QueueSockets>,
        manner: &mut Manner,
    ) -> Result<Made, TrafficError> {
        let opened = || socket::open().map_err(|error| self.not_opened(&error));
        let making = |error: io::Error| self.refuse("making the rings (frames=N makes them smaller)", &error);
        let (receives, sends) = (queue < counts.receive, queue < counts.send);
        let frames = self.params.frames as u32;
        let ring_entries = frames.next_power_of_two();
        let of_use = |used: bool, entries: u32| if used { entries.next_power_of_two() } else { UNUSED_ENTRIES };

        let first = opened()?;
        let second = (receives && sends).then(opened).transpose()?;
        if shares.is_none() {
            socket::set_umem(&first, umem).map_err(|error| self.not_registered(umem, &error))?;
        }
        // Twice: the kernel shows a frame before it shows that the chunk's place is free.
        let fill_entries = of_use(receives, 2 * frames);
        let fill: Producer<u64> = socket::producer(&first, Kind::Fill, fill_entries).map_err(making)?;
        // Every chunk that is for sending can have been sent by this queue.
        let completion_entries = of_use(sends, frames * counts.send.max(1));
        let completion: Consumer<u64> =
            socket::consumer(&first, Kind::Completion, completion_entries).map_err(making)?;
        let sockets = QueueSockets { first, second };
        let arrived = receives.then(|| socket::consumer(&sockets.first, Kind::Receive, ring_entries));
        let arrived = arrived.transpose().map_err(making)?;
        let leaving = sends.then(|| socket::producer(sockets.sender(), Kind::Transmit, ring_entries));
        let leaving = leaving.transpose().map_err(making)?;
        if sends {
            socket::widen(sockets.sender(), self.params.frames as usize * umem.chunk_bytes() as usize, ring_entries);
        }
        if self.params.busy > 0 && receives {
            socket::prefer_busy_poll(&sockets.first, self.params.busy)
                .map_err(|error| self.refuse("asking for busy polling (busy=0 goes without)", &error))?;
        }
        self.bind_first(&sockets.first, queue, manner, shares.map(|shares| &shares.first))?;
        if let Some(second) = &sockets.second {
            let binding = Binding { interface: self.interface, queue, flags: 0, shares: Some(&sockets.first) };
            socket::bind(second, binding).map_err(|error| self.not_bound(queue, &error))?;
        }
        Ok(Made {
            sockets,
            receive: arrived.map(|arrived| ReceiveQueue::new(arrived, fill)),
            send: leaving.map(|leaving| SendQueue::new(leaving, completion)),
        })
    }

    /// Binds the first socket of a queue; goes without zero copy where the driver refuses it, and takes a flag away
    /// that the kernel does not know, and need not.
    fn bind_first(
        &self,
        socket: &OwnedFd,
        queue: u32,
        Manner { flags, copies }: &mut Manner,
        shares: Option<&OwnedFd>,
    ) -> Result<(), TrafficError> {
        let bind = |flags| socket::bind(socket, Binding { interface: self.interface, queue, flags, shares });
        let parts = libc::XDP_USE_SG;
        let mut bound = bind(*flags);
        if let Err(error) = &bound
            && shares.is_none()
            && copies.is_none()
            && self.params.copy == Copying::Auto
            && !is_final(error)
        {
            *copies = Some(format!("the driver refuses zero copy ({error})"));
            *flags = *flags & !libc::XDP_ZEROCOPY | libc::XDP_COPY;
            bound = bind(*flags);
        }
        let bound = match bound {
            Err(error) if shares.is_none() && *flags & parts != 0 && error.raw_os_error() == Some(libc::EINVAL) => {
                if self.needs_parts() {
                    let (name, most) = (&self.interface.name, CHUNK_LARGE as usize - HEADROOM - 22);
                    return Err(self.unusable(format!(
                        "frames of an MTU of {} bytes take several buffers, which this system has not here: \
                         ip link set {name} mtu {most}",
                        self.interface.mtu
                    )));
                }
                *flags &= !parts;
                bind(*flags)
            }
            other => other,
        };
        bound.map_err(|error| self.not_bound(queue, &error))
    }

    /// Gives the sockets their frames.
    fn connect(&self, attached: Attached, sockets: &[QueueSockets]) -> Result<Link, TrafficError> {
        if self.ways.receives {
            for (queue, sockets) in (0..).zip(sockets) {
                attached
                    .map
                    .insert(queue, &sockets.first)
                    .map_err(|error| self.refuse("giving it the frames of a queue", &error))?;
            }
        }
        // The program holds the map.
        Ok(attached.link)
    }

    /// Takes frames for others, if that is wanted.
    fn listen_to_all(&self) -> Result<Option<OwnedFd>, TrafficError> {
        if !self.ways.receives || !self.params.promiscuous {
            return Ok(None);
        }
        let listen = || {
            let socket = system::socket(libc::AF_PACKET, libc::SOCK_RAW, 0)?;
            packet_socket::listen_to_all(&socket, self.interface)?;
            Ok(socket)
        };
        listen().map(Some).map_err(|error| self.refuse("taking frames for others", &error))
    }

    fn unusable(&self, reason: impl Into<String>) -> TrafficError {
        TrafficError::unusable(self.port, reason)
    }

    fn refuse(&self, doing: &str, error: &io::Error) -> TrafficError {
        refused(self.port, doing, error)
    }

    /// Why there is no socket.
    fn not_opened(&self, error: &io::Error) -> TrafficError {
        match error.raw_os_error() {
            Some(libc::EAFNOSUPPORT) => {
                self.unusable("this system has no XDP sockets (CONFIG_XDP_SOCKETS); use iface:NAME")
            }
            _ => self.refuse("opening an XDP socket", error),
        }
    }

    /// Why the memory was not registered.
    fn not_registered(&self, umem: &Umem, error: &io::Error) -> TrafficError {
        match error.raw_os_error() {
            Some(libc::ENOBUFS) => self.unusable(format!(
                "{} KiB for frames is more than this user may lock: run with ulimit -l unlimited, give the program \
                 CAP_IPC_LOCK, or take fewer chunks than frames={}",
                umem.bytes() >> 10,
                self.params.frames
            )),
            _ => self.refuse("registering memory for frames", error),
        }
    }

    /// Why the program is not on the interface.
    fn not_attached(&self, error: &io::Error) -> TrafficError {
        let name = &self.interface.name;
        match error.raw_os_error() {
            Some(libc::EBUSY | libc::EEXIST) => self.unusable(format!(
                "another XDP program is on `{name}` (ip link show {name} names it); end the program that put it there, or \
                 ip link set {name} xdp off"
            )),
            Some(libc::EOPNOTSUPP) => {
                self.unusable(format!("the driver of `{name}` runs no XDP programs; use mode=generic or iface:{name}"))
            }
            Some(libc::ENOSPC | libc::ERANGE | libc::EINVAL) => self.unusable(format!(
                "the driver of `{name}` takes no XDP program as it is set ({error}): give it no fewer queues than the other \
                 end has, a lower MTU and no LRO, or use mode=generic"
            )),
            _ => self.refuse("putting an XDP program on it", error),
        }
    }

    /// Why a socket has not got its queue.
    fn not_bound(&self, queue: u32, error: &io::Error) -> TrafficError {
        let name = &self.interface.name;
        match error.raw_os_error() {
            Some(libc::EBUSY) => {
                self.unusable(format!("queue {queue} of `{name}` belongs to another program's XDP socket"))
            }
            Some(libc::EINVAL) => {
                self.unusable(format!("`{name}` has no queue {queue} for an XDP socket; queues=N takes fewer"))
            }
            Some(libc::EOPNOTSUPP) if self.params.copy == Copying::Zero => {
                self.unusable(format!("the driver of `{name}` has no zero copy; use copy=auto"))
            }
            _ => self.refuse("binding an XDP socket", error),
        }
    }
}

/// Whether another way of attaching would not help.
fn is_final(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EBUSY | libc::EEXIST | libc::EPERM | libc::EACCES))
}
