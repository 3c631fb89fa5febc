//! Times, as options have them.

use core::time::Duration;

use humpyard_core::policy::ParameterValue;
use humpyard_core::unit::Time;
use humpyard_text::quantity::{parse_duration, show_duration};

/// A time with its unit.
#[derive(Clone, Copy, PartialEq, PartialOrd, Debug)]
pub struct Span(Duration);

impl Span {
    /// Wraps a time.
    pub const fn new(time: Duration) -> Self {
        Self(time)
    }

    /// Returns the time.
    pub const fn duration(self) -> Duration {
        self.0
    }
}

impl ParameterValue for Span {
    const ACCEPTS: &'static str = "a time with its unit from 1us, 10ms for example";

    fn parse(text: &str) -> Option<Self> {
        parse_duration(text).ok().filter(|&time| time >= Duration::from_micros(1)).map(Self)
    }

    fn show(&self) -> String {
        show_duration(self.0)
    }
}

/// Shows a time of the schedulers' clock as options have it.
pub(crate) fn show_time(time: Time) -> String {
    show_duration(Duration::from_nanos(time.as_ns()))
}

/// Returns a time of the schedulers' clock.
pub(crate) const fn time(duration: Duration) -> Time {
    Time::from_ns(duration.as_nanos() as u64)
}
