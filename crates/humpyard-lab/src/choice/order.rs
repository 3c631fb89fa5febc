//! How the packets of a flow keep their order, as it is said on the command line, and whether policies can keep it so.

use core::time::Duration;

use humpyard_core::mechanism::{ExitOrder, FlowOrder};
use humpyard_core::name::{Named, unknown};
use humpyard_core::params;
use humpyard_core::policy::{ParameterValue, Params};

use crate::LabError;
use crate::choice::time::{Span, show_time, time};
use crate::figures;

/// How the packets of a flow keep their order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OrderChoice {
    /// Every core may serve any packet; those of a flow are put back in order when they leave.
    Exit(ExitChoice),
    /// A client has one packet in service at a time, where several cores serve one queue.
    Hold,
    /// Packets leave as they are done.
    Free,
}

/// The bounds of the exit. A packet beyond them leaves, and those that it waited for miss their turn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ExitChoice {
    /// Most packets that wait for earlier ones of their flow. `None`: as many as the run holds.
    pub packets: Option<u32>,
    /// The longest that a packet waits for earlier ones of its flow.
    pub time: Duration,
}

/// One second. TCP waits at least as long before it sends a packet again (RFC 6298, 2.4), so a later packet is useless
/// to its flow. A core that is not overloaded keeps no packet nearly as long.
const EXIT_TIME: Duration = Duration::from_secs(1);

impl Default for ExitChoice {
    /// Returns bounds of as many packets as the run holds, and a second.
    fn default() -> Self {
        Self { packets: None, time: EXIT_TIME }
    }
}

impl Default for OrderChoice {
    /// Returns order at the exit, with the default bounds.
    fn default() -> Self {
        Self::Exit(ExitChoice::default())
    }
}

/// A number of packets.
#[derive(Clone, Copy, PartialEq, PartialOrd, Debug)]
pub struct Places(Option<u32>);

/// Most packets that a run holds.
const PLACES_MAX: u32 = 1 << 24;
/// As many packets as the run holds.
const ALL: &str = "buffer";

impl ParameterValue for Places {
    const ACCEPTS: &'static str = "1 to 16777216, or buffer: as many as the run holds";

    fn parse(text: &str) -> Option<Self> {
        if text == ALL {
            return Some(Self(None));
        }
        text.parse().ok().filter(|packets| (1..=PLACES_MAX).contains(packets)).map(|packets| Self(Some(packets)))
    }

    fn show(&self) -> String {
        self.0.map_or_else(|| ALL.to_owned(), |packets| packets.to_string())
    }
}

params! {
    /// What `--flow-order exit` takes.
    pub struct ExitParams {
        /// Most packets that wait for earlier ones of their flow.
        packets: Places = Places(None);
        /// The longest that a packet waits for earlier ones of its flow.
        time: Span = Span::new(EXIT_TIME);
    }
}

/// The names of the choices.
const NAMES: [&str; 3] = ["exit", "hold", "free"];

impl OrderChoice {
    /// Returns its name, in options and results.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Exit(_) => NAMES[0],
            Self::Hold => NAMES[1],
            Self::Free => NAMES[2],
        }
    }

    /// Returns the bounds of the exit in a run that holds this many packets. `None`: packets leave when they are done.
    pub(crate) fn exit(self, buffer: usize) -> Option<ExitOrder> {
        let Self::Exit(ExitChoice { packets, time: longest }) = self else { return None };
        let all = || u32::try_from(buffer).unwrap_or(u32::MAX);
        Some(ExitOrder { packets: packets.unwrap_or_else(all), timeout: time(longest) })
    }

    /// Returns what the mechanism does with the packets of a client.
    pub(crate) const fn of_clients(self) -> FlowOrder {
        match self {
            Self::Hold => FlowOrder::Hold,
            Self::Exit(_) | Self::Free => FlowOrder::Free,
        }
    }

    /// Shows it as [`parse_order`] reads it, in a run that holds this many packets.
    pub(crate) fn show(self, buffer: usize) -> String {
        let bounds = |exit: ExitOrder| format!(":packets={},time={}", exit.packets, show_time(exit.timeout));
        format!("{}{}", self.name(), self.exit(buffer).map(bounds).unwrap_or_default())
    }

    /// Returns the promise of a run that holds this many packets: a sentence without its full stop.
    pub(crate) fn promise(self, buffer: usize) -> String {
        match (self, self.exit(buffer)) {
            (_, Some(ExitOrder { packets, timeout })) => format!(
                "kept at the exit, where at most {packets} packets wait for earlier ones of their flow, each no longer than {}",
                figures::time(timeout.as_ns() as f64)
            ),
            (Self::Hold, None) => "kept: a client has one packet in service at a time".to_owned(),
            (_, None) => "not kept: packets leave as they are done".to_owned(),
        }
    }
}

/// Reads `exit`, `exit:packets=4096,time=1s` or a part of that, `hold`, or `free`.
///
/// # Errors
/// Anything else.
pub fn parse_order(text: &str) -> Result<OrderChoice, LabError> {
    let option = |why: &dyn core::fmt::Display| LabError::option(format!("@flow-order {text}: {why}"));
    let named: Named = text.parse().map_err(|error| option(&error))?;
    let choice = match named.name.as_str() {
        "exit" => {
            let params = ExitParams::from_pairs("exit", &named.parameters).map_err(|error| option(&error))?;
            return Ok(OrderChoice::Exit(ExitChoice { packets: params.packets.0, time: params.time.duration() }));
        }
        "hold" => OrderChoice::Hold,
        "free" => OrderChoice::Free,
        name => return Err(LabError::option(format!("@flow-order: {}", unknown("order of flows", name, NAMES)))),
    };
    if named.parameters.is_empty() {
        return Ok(choice);
    }
    Err(option(&format!("`{}` has no parameters: leave them out, or use exit", choice.name())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_out_is_as_by_default() {
        for text in ["exit", "exit:", "exit:packets=buffer", "exit:time=1s"] {
            assert_eq!(parse_order(text).unwrap(), OrderChoice::default(), "{text}");
        }
        let bounded = OrderChoice::Exit(ExitChoice { packets: Some(64), time: Duration::from_millis(5) });
        assert_eq!(parse_order("exit:packets=64,time=5ms").unwrap(), bounded);
        assert_eq!(parse_order(&bounded.show(4096)).unwrap(), bounded);
        for (text, choice) in [("hold", OrderChoice::Hold), ("free", OrderChoice::Free)] {
            assert_eq!((parse_order(text).unwrap(), choice.show(9)), (choice, text.to_owned()));
        }
        assert_eq!(OrderChoice::default().show(9), "exit:packets=9,time=1s");
    }

    #[test]
    fn slips_are_told() {
        for (text, said) in [
            ("keep", "flow-order: no order of flows `keep`; there are: exit, hold, free"),
            ("exti", "flow-order: no order of flows `exti`; did you mean `exit`? There are: exit, hold, free"),
            ("hold:time=1s", "flow-order hold:time=1s: `hold` has no parameters: leave them out, or use exit"),
            (
                "exit:packets=0",
                "flow-order exit:packets=0: exit: `packets` takes 1 to 16777216, or buffer: as many as the run holds, not `0`",
            ),
            (
                "exit:time=5",
                "flow-order exit:time=5: exit: `time` takes a time with its unit from 1us, 10ms for example, not `5`",
            ),
            (
                "exit:tiem=5s",
                "flow-order exit:tiem=5s: exit: no parameter `tiem`; did you mean `time`? There are: packets, time",
            ),
        ] {
            assert_eq!(parse_order(text).unwrap_err().to_string(), said);
        }
    }
}
