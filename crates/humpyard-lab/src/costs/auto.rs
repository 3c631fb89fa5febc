//! Costs that are looked for when a run asks for them: in the calibration that the user has saved, else by measuring.

use core::sync::atomic::AtomicBool;
use core::time::Duration;

use humpyard_core::name::Named;
use humpyard_core::random::Seed;

use super::{CostLine, Costs, Origin, calibrated_path, cost_key, is_registered};
use crate::LabError;
use crate::calibrate::{CalibrateOptions, calibrate};

/// How these costs are called for.
pub const AUTO: &str = "auto";
/// How long each service is measured.
const EACH: Duration = Duration::from_secs(1);

impl Costs {
    /// The calibration that this user has saved. `None`: there is none.
    ///
    /// # Errors
    /// A file that is no cost file.
    pub(super) fn saved() -> Result<Option<Self>, LabError> {
        let Some(path) = calibrated_path().ok().filter(|path| path.exists()) else { return Ok(None) };
        let mut costs = Self::read(&path.to_string_lossy())?;
        costs.lines.values_mut().for_each(|line| line.origin = Origin::Saved);
        Ok(Some(costs))
    }

    /// The lines of the saved calibration for these services. For those that it lacks lines of the default table stand in, until
    /// [`Self::measure`] replaces them.
    ///
    /// # Errors
    /// A service that is known by its cost alone, and a saved calibration that cannot be read.
    pub fn auto<'a>(works: impl IntoIterator<Item = &'a Named>) -> Result<Self, LabError> {
        Self::auto_from(Self::saved()?, works)
    }

    fn auto_from<'a>(saved: Option<Self>, works: impl IntoIterator<Item = &'a Named>) -> Result<Self, LabError> {
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
                    return Err(LabError::option(format!(
                        "--costs {AUTO}: nothing can be measured of `{spec}`, which is known by its cost alone: name a table or \
                         file that has it, --costs table:everest for example"
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

    /// Measures what is to be measured. `tell` hears how many steps of how many are done, and what comes now; when `stop` is set it
    /// ends with an error.
    ///
    /// # Errors
    /// An end from outside.
    pub fn measure(&mut self, stop: &AtomicBool, tell: &mut dyn FnMut(usize, usize, &str)) -> Result<(), LabError> {
        let missing = self.lines.iter().filter(|(_, line)| line.origin == Origin::Unmeasured);
        let services = missing.map(|(spec, _)| spec.parse()).collect::<Result<Vec<Named>, _>>()?;
        if services.is_empty() {
            return Ok(());
        }
        let longest = EACH * services.len() as u32;
        let options = CalibrateOptions { services, longest, matrix: false, machine: false, seed: Seed(1) };
        let measured = calibrate(&options, stop, tell)?.costs();
        self.switch_upper_ns = self.switch_upper_ns.into_iter().chain(measured.switch_upper_ns).reduce(f64::max);
        for (spec, mut line) in measured.lines {
            line.origin = Origin::Measured;
            line.source.clone_from(&measured.source);
            self.lines.insert(spec, line);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
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
    fn what_is_measured_reads_back_as_it_is() {
        let mut costs = Costs::auto_from(None, &works(&["pass"])).unwrap();
        costs.measure(&AtomicBool::new(false), &mut |_, _, _| ()).unwrap();
        let line = &costs.lines["pass"];
        assert_eq!((line.origin, line.expansion), (Origin::Measured, Some(1.0)));
        let told = Costs::parse("here.toml", &costs.text()).unwrap();
        assert_eq!((told.switch_upper_ns, told.cost("pass").unwrap()), (costs.switch_upper_ns, line.cost()));
        let stopped =
            Costs::auto_from(None, &works(&["pass"])).unwrap().measure(&AtomicBool::new(true), &mut |_, _, _| ());
        assert!(stopped.unwrap_err().to_string().starts_with("ended early"));
    }
}
