//! Encryption of packets in tunnels, and its inverse: ESP in tunnel mode.
//!
//! # Work
//! `encrypt` puts the whole IP packet, and the bytes behind it in the frame, into an ESP packet between the
//! same two addresses. `decrypt` checks such a packet, and restores the frame to the last byte.
//!
//! # Source
//! RFC 4303 (ESP, tunnel mode), sections 2 and 3.3; `aes-128-gcm`: RFC 4106, integrity check value of 16 bytes;
//! `cast-128`: RFC 2144 in CBC mode by RFC 2451, with HMAC-SHA-256-128 by RFC 4868, because the cipher alone
//! does not detect forgeries. Keys by HKDF (RFC 5869).
//!
//! # Keys and nonces
//! Every run has its security parameters index (`spi`). Its keys derive from `key` and this index, so that runs
//! with different indices never share a key.
//!
//! Within a run, every instance has a number. The numbers of instance and packet make the initialization
//! vector, so that no two packets of a run share one. An instance that has used its 2^48 numbers drops packets
//! for `sequence_exhausted`.
//!
//! With `spi=auto`, the index is the current second, so a key may be used again a second later. A fixed number
//! gives the same output in every run: use it only once with a key.
//!
//! # Departures
//! * There is no negotiation: the sender chooses the index, and the receiver derives its keys from the index in
//!   the packet.
//! * Each instance has its own sequence numbers, and repeated packets are accepted. The anti-replay service is
//!   off, because many cores send; RFC 4303, section 3.4.3, leaves it to the receiver.
//! * The padding of short Ethernet frames travels as traffic flow confidentiality padding (section 2.7).
//! * Packets that are not IP, or not complete, are dropped: nothing leaves unencrypted.
//! * Results show the key, because it is a parameter: use it for experiments, not for secrets.

mod association;
mod parameter;

use core::time::Duration;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::SystemTime;

use humpyard_core::frame::Frame;

use self::association::{Association, ESP_BYTES, IV_BYTES};
pub use self::parameter::{Cipher, DecryptParams, EncryptParams, Key, Spi};
use crate::expansion::Expansion;
use crate::instance::Instance;
use crate::ip::protocol;
use crate::service::{Build, Context, Counter, DropReason, Generated, Info, Service, ServiceError, Verdict};
use crate::tunnel;

/// Packets that an instance can number: the vector has 16 bits for the instance and 48 for the packet.
const PACKETS_MAX: u64 = 1 << 48;
const INSTANCES_MAX: u32 = 1 << 16;

/// Encryption; see the [module](self).
#[derive(Clone, Debug)]
pub struct Encrypt {
    association: Arc<Association>,
    instance: Instance,
    /// Packets encrypted by this instance.
    sent: u64,
    expansion: Expansion,
}

impl Build for Encrypt {
    type Params = EncryptParams;

    const INFO: Info = Info {
        name: "encrypt",
        summary: "encryption and authentication of whole packets in a tunnel (ESP): AES-128-GCM or CAST-128",
        source: "RFC 4303; RFC 4106 (AES-GCM); RFC 2144, RFC 2451, RFC 4868 (CAST-128 in CBC mode, HMAC-SHA-256-128)",
    };

    fn new(params: &EncryptParams) -> Result<Self, ServiceError> {
        let spi = match params.spi {
            Spi::Auto => unused_index(),
            Spi::Given(spi) => spi,
        };
        Ok(Self {
            association: Arc::new(Association::new(params.cipher, &params.key, spi)),
            instance: Instance::first(),
            sent: 0,
            expansion: Expansion::default(),
        })
    }
}

/// Returns the current second, or a later one if a service of this program has taken it.
fn unused_index() -> u32 {
    static LAST: AtomicU32 = AtomicU32::new(0);
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or(Duration::ZERO).as_secs() as u32;
    let unused = |last: u32| Some(now.max(last.saturating_add(1)).max(Spi::LEAST));
    let last = LAST.fetch_update(Ordering::Relaxed, Ordering::Relaxed, unused).unwrap_or_default();
    unused(last).unwrap_or(Spi::LEAST)
}

impl Encrypt {
    fn encrypt(&mut self, frame: &mut Frame) -> Result<(), DropReason> {
        let instance = self.instance.number_below(INSTANCES_MAX).ok_or(DropReason::SequenceExhausted)?;
        if self.sent == PACKETS_MAX {
            return Err(DropReason::SequenceExhausted);
        }
        let before = frame.data.len();
        let network = tunnel::inner(frame)?;
        let tail = self.association.tail_bytes(before - network.offset);
        let wrapped = tunnel::wrap(frame, protocol::ESP, ESP_BYTES + IV_BYTES, tail)?;
        let vector = u64::from(instance) << 48 | self.sent;
        self.sent += 1;
        let packet = &mut frame.data[wrapped.payload..];
        self.association.seal(packet, wrapped.inner_bytes, wrapped.inner_protocol, vector)?;
        self.expansion.record(before, frame.data.len());
        Ok(())
    }
}

impl Service for Encrypt {
    fn process(&mut self, frame: &mut Frame, _: &Context, _: &mut Generated) -> Verdict {
        self.encrypt(frame).map_or_else(Verdict::Drop, |()| Verdict::Forward)
    }

    fn counters(&self) -> Vec<Counter> {
        self.expansion.counters("encrypted")
    }
}

/// Decryption; see the [module](self).
#[derive(Clone, Debug)]
pub struct Decrypt {
    cipher: Cipher,
    key: Key,
    /// The associations in use. A new one evicts the oldest. A forged index costs only the time to derive its
    /// keys.
    known: Vec<Arc<Association>>,
    /// The association to evict next, when the list is full.
    oldest: usize,
    expansion: Expansion,
}

/// Runs whose packets an instance can decrypt in any mix without deriving keys again.
const KNOWN_MAX: usize = 16;

impl Build for Decrypt {
    type Params = DecryptParams;

    const INFO: Info = Info {
        name: "decrypt",
        summary: "the inverse of encrypt: checks, decrypts and restores the frame; drops what is forged or damaged",
        source: "RFC 4303, section 3.4; RFC 4106; RFC 2144, RFC 2451, RFC 4868",
    };

    fn new(params: &DecryptParams) -> Result<Self, ServiceError> {
        let DecryptParams { cipher, key } = params.clone();
        Ok(Self { cipher, key, known: Vec::with_capacity(KNOWN_MAX), oldest: 0, expansion: Expansion::default() })
    }
}

impl Decrypt {
    fn decrypt(&mut self, frame: &mut Frame) -> Result<(), DropReason> {
        let before = frame.data.len();
        let outer = tunnel::open(frame, protocol::ESP)?;
        let packet = &mut frame.data[outer.payload.clone()];
        let spi = packet.first_chunk::<4>().copied().map(u32::from_be_bytes).ok_or(DropReason::Malformed)?;
        let (inner, next) = self.association(spi).open(packet)?;
        if next != tunnel::own_protocol(outer.version) {
            return Err(DropReason::Malformed);
        }
        let inner = outer.payload.start + inner.start..outer.payload.start + inner.end;
        tunnel::unwrap(frame, &outer, inner);
        self.expansion.record(before, frame.data.len());
        Ok(())
    }

    fn association(&mut self, spi: u32) -> &Association {
        let found = self.known.iter().position(|association| association.spi() == spi);
        let at = found.unwrap_or_else(|| self.derive(spi));
        &self.known[at]
    }

    #[cold]
    fn derive(&mut self, spi: u32) -> usize {
        let association = Association::new(self.cipher, &self.key, spi);
        if self.known.len() < KNOWN_MAX {
            self.known.push(Arc::new(association));
            return self.known.len() - 1;
        }
        let at = self.oldest;
        self.oldest = (at + 1) % KNOWN_MAX;
        self.known[at] = Arc::new(association);
        at
    }
}

impl Service for Decrypt {
    fn process(&mut self, frame: &mut Frame, _: &Context, _: &mut Generated) -> Verdict {
        self.decrypt(frame).map_or_else(Verdict::Drop, |()| Verdict::Forward)
    }

    fn counters(&self) -> Vec<Counter> {
        self.expansion.counters("decrypted")
    }
}
