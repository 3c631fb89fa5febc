//! Costs that a run asks for and that nobody has measured yet.

use core::sync::atomic::AtomicBool;
use core::time::Duration;

use humpyard_core::name::Named;
use humpyard_core::random::Seed;

use super::{COLD_LENGTH, CalibrateOptions, calibrate};
use crate::LabError;
use crate::costs::{Costs, Origin};

/// How long each service is measured.
const EACH: Duration = Duration::from_secs(1);

impl Costs {
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
        let options = CalibrateOptions {
            services,
            longest,
            matrix: false,
            machine: false,
            cold_length: COLD_LENGTH,
            seed: Seed(1),
        };
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

    #[test]
    fn what_is_measured_reads_back_as_it_is() {
        let mut costs = Costs::auto_from(None, &["pass".parse::<Named>().unwrap()]).unwrap();
        costs.measure(&AtomicBool::new(false), &mut |_, _, _| ()).unwrap();
        let line = &costs.lines["pass"];
        assert_eq!((line.origin, line.expansion), (Origin::Measured, Some(1.0)));
        let told = Costs::parse("here.toml", &costs.text()).unwrap();
        assert_eq!((told.switch_upper_ns, told.cost("pass").unwrap()), (costs.switch_upper_ns, line.cost()));
        let stopped = Costs::auto_from(None, &["pass".parse::<Named>().unwrap()])
            .unwrap()
            .measure(&AtomicBool::new(true), &mut |_, _, _| ());
        assert!(stopped.unwrap_err().to_string().starts_with("interrupted"));
    }
}
