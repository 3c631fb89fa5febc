//! The host that a simulation assumes around its cores.

use core::fmt;

use serde::Serialize;

use crate::LabError;
use crate::costs::{Costs, MachineCosts, calibrated_path};

/// Name of the host on which nothing but the services takes time.
pub const IDEAL: &str = "ideal";
/// Name of this machine as a host.
pub const HERE: &str = "here";

/// Hosts that come with humpyard, by name.
const DESCRIBED: [(&str, &str); 2] = [
    ("server-16", include_str!("../costs/hosts/server-16.toml")),
    ("appliance-4", include_str!("../costs/hosts/appliance-4.toml")),
];

/// A host whose threads take time beside the services.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AssumedHost {
    /// Name of the host: `here` for this machine, the name of a described host, or a file.
    pub name: String,
    /// Source of the times of the host.
    pub source: String,
    /// Number of the sequence of interruptions, which is drawn from the measured lengths. Left out:
    /// 0.
    #[serde(skip_serializing_if = "is_first")]
    pub draw: u64,
    /// Times of the host.
    #[serde(flatten)]
    pub machine: MachineCosts,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
fn is_first(draw: &u64) -> bool {
    *draw == 0
}

impl AssumedHost {
    /// Finds the host of this name. `None`: the ideal one. If this machine was never measured, `here`
    /// has no times: see [`Self::is_unmeasured`].
    ///
    /// # Errors
    /// No such host, and a file that describes none.
    pub(crate) fn find(text: &str) -> Result<Option<Self>, LabError> {
        let costs = match text {
            IDEAL => return Ok(None),
            HERE => return Self::here().map(Some),
            _ => match DESCRIBED.iter().find(|(name, _)| *name == text) {
                Some((name, file)) => Costs::parse(name, file)?,
                None if !text.contains(['.', '/']) => {
                    let names = [IDEAL, HERE].into_iter().chain(DESCRIBED.map(|(name, _)| name));
                    return Err(LabError::option(format!(
                        "{}; and there is no file of this name",
                        humpyard_core::name::unknown("host", text, names)
                    )));
                }
                None => Costs::read(text)?,
            },
        };
        let machine = costs.machine.unwrap_or_default();
        machine.host(text)?;
        Ok(Some(Self { name: text.to_owned(), source: costs.source, draw: 0, machine }))
    }

    /// Returns this machine as it was saved; without a saved calibration it has no times yet.
    ///
    /// # Errors
    /// A saved calibration that cannot be read.
    pub fn here() -> Result<Self, LabError> {
        let saved = Costs::saved()?.map(|saved| (saved.source, saved.machine.unwrap_or_default()));
        let (source, machine) = saved.filter(|(_, machine)| machine.host.is_some()).unwrap_or_default();
        Ok(Self { name: HERE.to_owned(), source, draw: 0, machine })
    }

    /// Returns whether it is this machine.
    pub fn is_here(&self) -> bool {
        self.name == HERE
    }

    /// Returns whether it must still be measured.
    pub fn is_unmeasured(&self) -> bool {
        self.machine.host.is_none()
    }

    /// Returns this machine with times that were measured just now.
    pub fn measured(machine: MachineCosts) -> Self {
        Self { name: HERE.to_owned(), source: "measured now".to_owned(), draw: 0, machine }
    }

    /// Returns the advice to save the measurement.
    pub fn advice() -> String {
        let place = calibrated_path().map_or_else(|_| "a file".to_owned(), |path| path.display().to_string());
        format!("`humpyard calibrate --machine --save` measures this machine once and keeps it in {place}")
    }
}

impl fmt::Display for AssumedHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn described_hosts_have_all_their_times() {
        for (name, _) in DESCRIBED {
            let found = AssumedHost::find(name).unwrap().unwrap();
            let host = found.machine.host(name).unwrap();
            assert!(host.processors > 1 && !found.source.is_empty());
            for (key, ns) in host.times() {
                // Described threads give, serve and fetch one packet as they do many.
                assert!(ns > 0.0 || key.ends_with("_first_ns") || key == "hold_back_ns", "{name}: {key}");
            }
            assert!(host.times.flows.is_sorted(), "{name}");
        }
        assert_eq!(AssumedHost::find(IDEAL).unwrap(), None);
    }

    #[test]
    fn an_unknown_host_is_told_from_a_file() {
        let said = |text: &str| AssumedHost::find(text).unwrap_err().to_string();
        assert!(said("server16").contains("did you mean `server-16`?"), "{}", said("server16"));
        assert!(said("none/here.toml").starts_with("none/here.toml: there is no such cost file"));
    }
}
