//! Units: time, work and weight. A bare number carries its unit in its name.

use core::fmt;
use core::num::NonZeroU32;
use core::ops::{Add, AddAssign};

use serde::{Deserialize, Serialize};

/// An instant or a span, in nanoseconds. Instants count from the start of the run.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct Time(u64);

impl Time {
    /// The start of the run, or an empty span.
    pub const ZERO: Self = Self(0);
    /// Later than every instant: never.
    pub const MAX: Self = Self(u64::MAX);

    /// `ns` nanoseconds.
    pub const fn from_ns(ns: u64) -> Self {
        Self(ns)
    }

    /// In nanoseconds.
    pub const fn as_ns(self) -> u64 {
        self.0
    }

    /// Returns the earlier of two instants. `None`: never. Called for every event: an iterator over
    /// options would be slower.
    #[inline]
    pub const fn earlier(a: Option<Self>, b: Option<Self>) -> Option<Self> {
        match (a, b) {
            (Some(Self(a)), Some(Self(b))) => Some(Self(if a < b { a } else { b })),
            (Some(only), None) | (None, Some(only)) => Some(only),
            (None, None) => None,
        }
    }

    /// The span since `earlier`, or zero if that is later.
    pub const fn since(self, earlier: Self) -> Self {
        Self(self.0.saturating_sub(earlier.0))
    }
}

/// The sum saturates at [`Time::MAX`], because captures may hold absurd times.
impl Add for Time {
    type Output = Self;
    #[inline]
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Time {
    #[inline]
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl fmt::Debug for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ns", self.0)
    }
}

/// An amount of work, in the unit of the run: nanoseconds of one core, bytes, or packets.
pub type Work = u64;

/// The unit of [`Work`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WorkUnit {
    /// Nanoseconds of one core.
    #[default]
    Nanoseconds,
    /// Bytes on the wire.
    Bytes,
    /// Packets.
    Packets,
}

impl WorkUnit {
    /// The name on the command line and in messages.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Nanoseconds => "ns",
            Self::Bytes => "bytes",
            Self::Packets => "packets",
        }
    }
}

/// The relative claim of a client to service: an integer from 1.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Weight(NonZeroU32);

impl Weight {
    /// The weight of a client that has none of its own.
    pub const ONE: Self = Self(NonZeroU32::MIN);

    /// Returns the weight `value`. `None`: `value` is 0.
    pub const fn new(value: u32) -> Option<Self> {
        match NonZeroU32::new(value) {
            Some(value) => Some(Self(value)),
            None => None,
        }
    }

    /// The weight as a number, from 1.
    pub const fn get(self) -> u32 {
        self.0.get()
    }
}

impl Default for Weight {
    fn default() -> Self {
        Self::ONE
    }
}

impl fmt::Debug for Weight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}
