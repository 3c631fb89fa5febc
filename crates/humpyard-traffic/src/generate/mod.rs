//! Generated traffic: profiles by name, each with parameters that describe themselves.
//!
//! A specification is `PROFILE` or `PROFILE:name=value,name=value`. For a seed the packets are the same on every machine,
//! byte for byte; their times count from 0.

mod messages;
mod packet;
mod parameter;
mod poisson;
mod text;

use alloc::boxed::Box;
use alloc::string::String;

use humpyard_core::random::Seed;

use crate::error::TrafficError;
use crate::name;
use crate::source::Source;

pub use parameter::{Domain, Parameter, Values};

/// A kind of traffic that can be generated.
pub struct Profile {
    /// The name in specifications.
    pub name: &'static str,
    /// What it is, in one line.
    pub summary: &'static str,
    /// How it works, in a few sentences.
    pub description: &'static str,
    /// What can be set.
    pub parameters: &'static [Parameter],
    build: fn(&Values, Seed, String) -> Box<dyn Source + Send>,
}

impl Profile {
    /// The profile with this name.
    ///
    /// # Errors
    /// If there is none; the message lists those there are.
    pub fn find(name: &str) -> Result<&'static Self, TrafficError> {
        PROFILES.iter().find(|profile| profile.name == name).ok_or_else(|| {
            let names = PROFILES.iter().map(|profile| profile.name);
            TrafficError::usage(name::unknown("traffic profile", name, names))
        })
    }
}

/// All profiles.
pub static PROFILES: &[Profile] = &[poisson::PROFILE, messages::PROFILE];

/// Opens a generator by its specification, without the `gen:` before it.
///
/// # Errors
/// If the profile or a parameter does not exist, or a value is outside its range.
pub fn open(specification: &str, seed: Seed) -> Result<Box<dyn Source + Send>, TrafficError> {
    let (name, settings) = specification.split_once(':').unwrap_or((specification, ""));
    let profile = Profile::find(name)?;
    let values = Values::parse(profile, settings)?;
    let description = format!("gen:{name}:{values}");
    Ok((profile.build)(&values, seed, description))
}

/// Arrival instants: exponential gaps, rounded down to whole ns without losing the fractions.
struct PoissonClock {
    now_ns: u64,
    fraction_ns: f64,
    mean_ns: f64,
}

impl PoissonClock {
    fn new(mean_ns: f64) -> Self {
        Self { now_ns: 0, fraction_ns: 0.0, mean_ns }
    }

    /// The next instant.
    fn tick(&mut self, random: &mut humpyard_core::random::Random) -> u64 {
        let gap = random.exponential(self.mean_ns) + self.fraction_ns;
        let whole = gap as u64;
        self.fraction_ns = gap - whole as f64;
        self.now_ns = self.now_ns.saturating_add(whole);
        self.now_ns
    }
}

#[cfg(test)]
mod tests {
    use humpyard_core::hash::mix;

    use super::*;

    #[test]
    fn profiles_describe_themselves_and_run_with_their_defaults() {
        for profile in PROFILES {
            assert!(!profile.summary.is_empty() && !profile.description.is_empty(), "{}", profile.name);
            for parameter in profile.parameters {
                assert!(!parameter.doc.is_empty() && !parameter.unit.is_empty(), "{}", parameter.name);
            }
            let mut source = open(profile.name, Seed(1)).unwrap();
            let mut frame = humpyard_core::frame::Frame::default();
            assert!(source.next(&mut frame).unwrap());
            // A description is a specification again.
            let again = source.description().strip_prefix("gen:").unwrap().to_owned();
            assert_eq!(open(&again, Seed(1)).unwrap().description(), source.description());
        }
    }

    #[test]
    fn packets_are_the_same_everywhere() {
        let digest = |specification: &str| {
            let mut source = open(specification, Seed(1)).unwrap();
            let mut frame = humpyard_core::frame::Frame::default();
            let mut digest = 0;
            while source.next(&mut frame).unwrap() {
                digest = mix(digest ^ frame.time.as_ns());
                digest = frame.data.iter().fold(digest, |digest, &byte| mix(digest ^ u64::from(byte)));
            }
            digest
        };
        assert_eq!(digest("poisson:packets=1000,version=mixed,length=100"), 0xb351_a02d_9c94_6c5e);
        assert_eq!(digest("messages:packets=5000"), 0x75a0_f3a6_09b0_2bd5);
    }
}
