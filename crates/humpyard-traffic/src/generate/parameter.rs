//! Parameters of profiles: described, parsed and checked from one table.

use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;

use super::Profile;
use crate::error::TrafficError;
use crate::name;

/// Something that can be set about a profile.
#[derive(Clone, Copy, Debug)]
pub struct Parameter {
    /// The name in specifications.
    pub name: &'static str,
    /// What values it takes, and which one without being set.
    pub domain: Domain,
    /// The unit of the value.
    pub unit: &'static str,
    /// What it does.
    pub doc: &'static str,
}

/// The values of a parameter.
#[derive(Clone, Copy, PartialEq, Debug)]
#[non_exhaustive]
pub enum Domain {
    /// A whole number, also written with `k`, `M` or `G` behind it.
    Integer {
        /// The value if none is given.
        default: u64,
        /// The least value.
        minimum: u64,
        /// The greatest value.
        maximum: u64,
    },
    /// A real number.
    Real {
        /// The value if none is given.
        default: f64,
        /// The least value.
        minimum: f64,
        /// The greatest value.
        maximum: f64,
    },
    /// One of a few words.
    Choice {
        /// The value if none is given.
        default: &'static str,
        /// All words.
        options: &'static [&'static str],
    },
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Value {
    Integer(u64),
    Real(f64),
    Choice(&'static str),
}

/// The parameters of a profile with their values.
#[derive(Clone, Debug)]
pub struct Values(Vec<(&'static str, Value)>);

impl Values {
    /// Parses `name=value,name=value`; what is not named has its default.
    pub(super) fn parse(profile: &Profile, settings: &str) -> Result<Self, TrafficError> {
        let mut values: Vec<_> = profile.parameters.iter().map(|p| (p.name, p.domain.default())).collect();
        for setting in settings.split(',').map(str::trim).filter(|setting| !setting.is_empty()) {
            let Some((name, text)) = setting.split_once('=') else {
                return Err(TrafficError::usage(format!("`{setting}` sets nothing; write name=value")));
            };
            let Some(at) = profile.parameters.iter().position(|parameter| parameter.name == name) else {
                let what = format!("parameter of `{}`", profile.name);
                let names = profile.parameters.iter().map(|parameter| parameter.name);
                return Err(TrafficError::usage(name::unknown(&what, name, names)));
            };
            let domain = profile.parameters[at].domain;
            values[at].1 = domain.parse(text).ok_or_else(|| {
                TrafficError::usage(format!("{}: {name}={text} is not valid; {name} is {domain}", profile.name))
            })?;
        }
        Ok(Self(values))
    }

    fn value(&self, name: &str) -> Value {
        let found = self.0.iter().find(|(known, _)| *known == name).map(|&(_, value)| value);
        found.unwrap_or_else(|| unreachable!("a profile asks for `{name}`, which is not in its table"))
    }

    pub(super) fn integer(&self, name: &str) -> u64 {
        match self.value(name) {
            Value::Integer(value) => value,
            other => unreachable!("`{name}` is {other:?}, and no integer"),
        }
    }

    pub(super) fn real(&self, name: &str) -> f64 {
        match self.value(name) {
            Value::Real(value) => value,
            other => unreachable!("`{name}` is {other:?}, and no real number"),
        }
    }

    pub(super) fn choice(&self, name: &str) -> &'static str {
        match self.value(name) {
            Value::Choice(value) => value,
            other => unreachable!("`{name}` is {other:?}, and no choice"),
        }
    }
}

/// All values as a specification, defaults included.
impl fmt::Display for Values {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, (name, value)) in self.0.iter().enumerate() {
            let comma = if i == 0 { "" } else { "," };
            match value {
                Value::Integer(value) => write!(f, "{comma}{name}={value}")?,
                Value::Real(value) => write!(f, "{comma}{name}={value}")?,
                Value::Choice(value) => write!(f, "{comma}{name}={value}")?,
            }
        }
        Ok(())
    }
}

impl Domain {
    /// The default as text.
    pub fn default_text(&self) -> String {
        match self {
            Self::Integer { default, .. } => default.to_string(),
            Self::Real { default, .. } => default.to_string(),
            Self::Choice { default, .. } => (*default).to_string(),
        }
    }

    const fn default(&self) -> Value {
        match *self {
            Self::Integer { default, .. } => Value::Integer(default),
            Self::Real { default, .. } => Value::Real(default),
            Self::Choice { default, .. } => Value::Choice(default),
        }
    }

    fn parse(&self, text: &str) -> Option<Value> {
        match *self {
            Self::Integer { minimum, maximum, .. } => {
                integer(text).filter(|value| (minimum..=maximum).contains(value)).map(Value::Integer)
            }
            Self::Real { minimum, maximum, .. } => {
                text.parse().ok().filter(|value| (minimum..=maximum).contains(value)).map(Value::Real)
            }
            Self::Choice { options, .. } => {
                options.iter().find(|option| **option == text).map(|option| Value::Choice(option))
            }
        }
    }
}

/// What values there are, as the end of a sentence.
impl fmt::Display for Domain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Integer { minimum, maximum, .. } => write!(f, "a whole number from {minimum} to {maximum}"),
            Self::Real { minimum, maximum, .. } => write!(f, "a number from {minimum} to {maximum}"),
            Self::Choice { options, .. } => write!(f, "one of {}", options.join(", ")),
        }
    }
}

/// A whole number: digits, `_` between them, and `k`, `M` or `G` for thousands, millions and thousands of millions.
fn integer(text: &str) -> Option<u64> {
    let (digits, unit) = match text.as_bytes().last()? {
        b'k' => (&text[..text.len() - 1], 1_000),
        b'M' => (&text[..text.len() - 1], 1_000_000),
        b'G' => (&text[..text.len() - 1], 1_000_000_000),
        _ => (text, 1u64),
    };
    if !digits.starts_with(|first: char| first.is_ascii_digit()) {
        return None;
    }
    digits.replace('_', "").parse::<u64>().ok()?.checked_mul(unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_numbers_are_read_as_people_write_them() {
        assert_eq!(integer("100_000"), Some(100_000));
        assert_eq!(integer("2k"), Some(2_000));
        assert_eq!(integer("3M"), Some(3_000_000));
        for text in ["", "k", "_1", "-1", "1.5", "+1", "99999999999999999999", "99999999999G"] {
            assert_eq!(integer(text), None, "{text}");
        }
    }

    #[test]
    fn values_outside_the_domain_are_refused() {
        let share = Domain::Real { default: 0.5, minimum: 0.0, maximum: 1.0 };
        assert_eq!(share.parse("0.25"), Some(Value::Real(0.25)));
        for text in ["NaN", "inf", "1.1", "-0.1", "x"] {
            assert_eq!(share.parse(text), None, "{text}");
        }
        assert_eq!(share.to_string(), "a number from 0 to 1");
    }
}
