//! Costs that are looked for when a run asks for them: in the calibration that the user has saved, else they are to be measured.

use humpyard_core::cost::MovePenalties;
use humpyard_core::name::Named;

use super::{CostLine, Costs, Origin, calibrated_path, cost_key, is_registered};
use crate::LabError;

/// How these costs are called for.
pub const AUTO: &str = "auto";
impl Costs {
    /// The calibration that this user has saved. `None`: there is none.
    ///
    /// # Errors
    /// A file that is no cost file.
    ///
    /// # Errors
    /// A file that cannot be read, or is no cost file.
    pub fn saved() -> Result<Option<Self>, LabError> {
        let Some(path) = calibrated_path().ok().filter(|path| path.exists()) else { return Ok(None) };
        let mut costs = Self::read(&path.to_string_lossy())?;
        costs.lines.values_mut().for_each(|line| line.origin = Origin::Saved);
        Ok(Some(costs))
    }

    /// These costs with newer ones: a line of a service that both have is the newer one's, as is what was measured of the machine. A
    /// switch takes at most the greater of both bounds.
    #[must_use]
    pub fn updated(mut self, newer: Self) -> Self {
        for line in self.lines.values_mut().filter(|line| line.source.is_empty()) {
            line.source.clone_from(&self.source);
        }
        self.lines.extend(newer.lines);
        Self {
            switch_upper_ns: self.switch_upper_ns.into_iter().chain(newer.switch_upper_ns).reduce(f64::max),
            machine: newer.machine.or(self.machine),
            moves: if newer.moves == MovePenalties::NONE { self.moves } else { newer.moves },
            lines: self.lines,
            ..newer
        }
    }

    /// The lines of the saved calibration for these services. For those that it lacks lines of the default table stand in, until
    /// [`Self::measure`] replaces them.
    ///
    /// # Errors
    /// A service that is known by its cost alone, and a saved calibration that cannot be read.
    pub fn auto<'a>(works: impl IntoIterator<Item = &'a Named>) -> Result<Self, LabError> {
        Self::auto_from(Self::saved()?, works)
    }

    pub(crate) fn auto_from<'a>(
        saved: Option<Self>,
        works: impl IntoIterator<Item = &'a Named>,
    ) -> Result<Self, LabError> {
        let mut costs = saved.unwrap_or_else(|| Self::of_lines("", "", []));
        let known = core::mem::take(&mut costs.lines);
        let source =
            core::mem::replace(&mut costs.source, format!("humpyard {} --costs {AUTO}", env!("CARGO_PKG_VERSION")));
        AUTO.clone_into(&mut costs.name);
        for work in works {
            let spec = cost_key(work)?;
            let mut line = match known.get(&spec) {
                Some(line) => line.clone(),
                None if is_registered(&work.name) => {
                    let stands_in = Self::tables()[0].estimate(work)?.line.clone();
                    CostLine { origin: Origin::Unmeasured, ..stands_in }
                }
                None => {
                    let has = |table: &&Self| table.lines.contains_key(&spec);
                    let table = Self::tables()
                        .iter()
                        .find(has)
                        .map_or_else(String::new, |table| format!(", as @costs table:{} has", table.title()));
                    return Err(LabError::option(format!(
                        "@costs {AUTO}: nothing can be measured of `{spec}`, which is no service of this program (see \
                         `humpyard list services`): correct it, or name a table or file of costs that has it{table}"
                    )));
                }
            };
            if line.origin == Origin::Saved && line.source.is_empty() {
                line.source.clone_from(&source);
            }
            costs.lines.insert(spec, line);
        }
        Ok(costs)
    }

    /// Whether they are looked for when a run asks for them.
    pub fn is_auto(&self) -> bool {
        self.name == AUTO
    }
}

#[cfg(test)]
mod tests {
    use super::super::MachineCosts;
    use super::*;

    fn works(specs: &[&str]) -> Vec<Named> {
        specs.iter().map(|spec| spec.parse().unwrap()).collect()
    }

    #[test]
    fn what_is_saved_comes_first_and_the_table_stands_in() {
        let line = CostLine { fixed_ns: 9000.0, origin: Origin::Saved, ..CostLine::default() };
        let saved = Costs {
            switch_upper_ns: Some(1700.5),
            ..Costs::of_lines(
                "costs.toml",
                "this machine",
                [("encrypt".to_owned(), line.clone()), ("dpi".to_owned(), line)],
            )
        };
        let costs = Costs::auto_from(Some(saved), &works(&["encrypt:spi=300", "firewall:rules=deny+tcp"])).unwrap();
        assert!(costs.is_auto());
        assert_eq!(costs.lines.keys().collect::<Vec<_>>(), ["encrypt", "firewall:rules=deny+tcp"]);
        let encrypt = costs.find(&works(&["encrypt"])[0]).unwrap();
        assert_eq!((encrypt.line.fixed_ns, encrypt.source.as_str()), (9000.0, "saved calibration"));
        assert_eq!(encrypt.line.source, "this machine");
        let firewall = costs.find(&works(&["firewall:rules=deny+tcp"])[0]).unwrap();
        assert_eq!(firewall.line.cost(), Costs::default().cost("firewall").unwrap());
        assert_eq!(firewall.source, "to be measured");
        assert_eq!(costs.switch_upper_ns, Some(1700.5));
    }

    #[test]
    fn what_does_no_work_cannot_be_measured() {
        let said = Costs::auto_from(None, &works(&["v6-v4-udp"])).unwrap_err().to_string();
        assert!(said.contains("nothing can be measured of `v6-v4-udp`") && said.contains("table:everest"), "{said}");
    }

    #[test]
    fn newer_costs_replace_lines_of_the_same_service_and_keep_the_others() {
        let costs = |source: &str, switch: f64, lines: &[(&str, f64)]| {
            let line =
                |&(spec, fixed_ns): &(&str, f64)| (spec.to_owned(), CostLine { fixed_ns, ..CostLine::default() });
            Costs { switch_upper_ns: Some(switch), ..Costs::of_lines("", source, lines.iter().map(line)) }
        };
        let machine = MachineCosts { hand_over_ns: 300.0, ..MachineCosts::default() };
        let old = costs("Monday", 5000.0, &[("encrypt", 100.0), ("forward", 30.0)]);
        let old = Costs { machine: Some(machine.clone()), ..old };
        let both = old.updated(costs("Tuesday", 4000.0, &[("encrypt", 90.0)]));
        let lines: Vec<_> =
            both.lines.iter().map(|(spec, line)| (spec.as_str(), line.fixed_ns, line.source.as_str())).collect();
        assert_eq!(lines, [("encrypt", 90.0, ""), ("forward", 30.0, "Monday")]);
        assert_eq!(
            (both.source.as_str(), both.switch_upper_ns, both.machine.clone()),
            ("Tuesday", Some(5000.0), Some(machine))
        );
        assert_eq!(Costs::parse("", &both.text()).unwrap().lines, both.lines, "the file has all of it");
    }
}
