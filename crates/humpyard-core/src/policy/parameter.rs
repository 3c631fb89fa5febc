//! Parameters that describe themselves: help, JSON and error messages derive from one declaration.

use alloc::borrow::{Cow, ToOwned};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;

use serde::{Deserialize, Serialize};

use super::build_error::{BuildError, BuildErrorKind};
use crate::name::unknown;

/// One parameter of a policy, a generator or a service.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Parameter {
    /// Its name, in kebab case.
    pub name: String,
    /// What the parameter means.
    pub summary: String,
    /// The value it has when not given.
    pub default: String,
    /// The values it takes.
    pub accepts: String,
    /// The unit of its value, empty if it has none.
    pub unit: String,
    /// When another value changes the cost of a service by a tenth or more. [`Parameter::ALWAYS`]:
    /// always. A setting such as `codec=deflate`: only together with that value of another
    /// parameter. Empty: never.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub changes_cost: String,
}

impl Parameter {
    /// A parameter that changes the cost of its service, whatever the other parameters are.
    pub const ALWAYS: &'static str = "always";

    /// Returns the unit as a suffix for a range of values: ` (in ns, or with a unit: 10ms)`. Empty
    /// without a unit.
    pub fn in_unit(&self) -> String {
        match self.unit.as_str() {
            "" => String::new(),
            NANOSECONDS => format!(" (in {NANOSECONDS}, or with a unit: 10ms)"),
            unit => format!(" (in {unit})"),
        }
    }
}

/// The unit of parameters that are times.
const NANOSECONDS: &str = "ns";

/// The units in which a time may be given instead, in ns; the longest name that fits counts.
/// The micro sign and the Greek letter look alike.
const TIMES: [(&str, u64); 7] = [
    ("ns", 1),
    ("us", 1_000),
    ("\u{b5}s", 1_000),
    ("\u{3bc}s", 1_000),
    ("ms", 1_000_000),
    ("min", 60_000_000_000),
    ("s", 1_000_000_000),
];

/// Converts a parameter's value to its unit: a time may have a unit of its own, so `1.5ms` becomes
/// `1500000`. Any other text stays unchanged.
#[doc(hidden)]
pub fn in_unit<'a>(unit: &str, value: &'a str) -> Cow<'a, str> {
    let given = TIMES.iter().find_map(|&(name, factor)| Some((value.strip_suffix(name)?, factor)));
    let nanoseconds = given.filter(|_| unit == NANOSECONDS).and_then(|(number, factor)| scaled(number, factor));
    nanoseconds.map_or(Cow::Borrowed(value), |nanoseconds| Cow::Owned(nanoseconds.to_string()))
}

/// Multiplies a decimal number by `factor`. `None`: the text is no number, or the product is not whole.
fn scaled(number: &str, factor: u64) -> Option<u64> {
    let (whole, decimals) = number.split_once('.').unwrap_or((number, ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || !digits(whole) || !digits(decimals) {
        return None;
    }
    let ones = u128::from(10_u64.checked_pow(u32::try_from(decimals.len()).ok()?)?);
    let part = if decimals.is_empty() { 0 } else { decimals.parse::<u64>().ok()? };
    let total = (u128::from(whole.parse::<u64>().ok()?) * ones + u128::from(part)) * u128::from(factor);
    total.is_multiple_of(ones).then(|| u64::try_from(total / ones).ok())?
}

/// The registry entry of a service or a traffic profile. Serialised, it has the shape of a policy's
/// entry.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Entry {
    /// The name it is called for by, in kebab case.
    pub name: &'static str,
    /// The kind of entry: `service` or `profile`.
    pub family: &'static str,
    /// A summary in one line.
    pub summary: &'static str,
    /// The publication or model that it follows.
    pub source: &'static str,
    /// Its parameters, in reading order.
    pub parameters: Vec<Parameter>,
}

/// Why a parameter was refused.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ParameterError {
    kind: BuildErrorKind,
    message: String,
}

impl ParameterError {
    /// Returns the kind of the error: an unknown parameter, a bad value, or syntax.
    pub const fn kind(&self) -> BuildErrorKind {
        self.kind
    }

    /// A name that `owner` has no parameter of.
    pub fn unknown(owner: &str, name: &str, parameters: &[Parameter]) -> Self {
        let names: Vec<&str> = parameters.iter().map(|parameter| parameter.name.as_str()).collect();
        let message = if names.is_empty() {
            format!("{owner}: no parameter `{name}`: it has none")
        } else {
            format!("{owner}: {}", unknown("parameter", name, names))
        };
        Self { kind: BuildErrorKind::UnknownParameter, message }
    }

    /// Text that should be `name=value`.
    pub(crate) fn not_a_pair(owner: &str, text: &str) -> Self {
        let message = format!("{owner}: a parameter reads name=value, not `{text}`");
        Self { kind: BuildErrorKind::Syntax, message }
    }

    /// A value that the parameter does not take.
    pub fn value(owner: &str, parameter: &Parameter, value: &str) -> Self {
        let unit = parameter.in_unit();
        let is_too_large =
            parameter.accepts == u64::ACCEPTS && !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit());
        let most = if is_too_large { format!(" up to {}", u64::MAX) } else { String::new() };
        let message = format!("{owner}: `{}` takes {}{most}{unit}, not `{value}`", parameter.name, parameter.accepts);
        Self { kind: BuildErrorKind::BadValue, message }
    }
}

impl fmt::Display for ParameterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl core::error::Error for ParameterError {}

impl From<ParameterError> for BuildError {
    fn from(error: ParameterError) -> Self {
        Self::new(error.kind(), error.to_string())
    }
}

/// A set of parameters with defaults; made by [`params!`](crate::params).
pub trait Params: Default {
    /// Every parameter, in reading order.
    fn parameters() -> Vec<Parameter>;

    /// The value of every parameter as text, in reading order.
    fn values(&self) -> Vec<String>;

    /// Sets one parameter from text; `owner` is named in errors.
    ///
    /// # Errors
    /// An unknown name, or a value the parameter does not take.
    fn set(&mut self, owner: &str, name: &str, value: &str) -> Result<(), ParameterError>;

    /// Parameters from `name=value` pairs.
    ///
    /// # Errors
    /// As [`Params::set`], and a name given twice.
    fn from_pairs(owner: &str, pairs: &[(String, String)]) -> Result<Self, ParameterError> {
        let mut params = Self::default();
        for (at, (name, value)) in pairs.iter().enumerate() {
            let same = |(other, _): &(String, String)| other.replace('_', "-") == name.replace('_', "-");
            if pairs[..at].iter().any(same) {
                let message = format!("{owner}: `{name}` is given twice");
                return Err(ParameterError { kind: BuildErrorKind::Syntax, message });
            }
            params.set(owner, name, value)?;
        }
        Ok(params)
    }
}

/// A type that a parameter can have.
pub trait ParameterValue: Sized + PartialOrd {
    /// The values of this type, in words, when the declaration names no range.
    const ACCEPTS: &'static str;
    /// The value that `text` says, if any.
    fn parse(text: &str) -> Option<Self>;
    /// As text that [`ParameterValue::parse`] reads.
    fn show(&self) -> String;
}

impl ParameterValue for bool {
    const ACCEPTS: &'static str = "true or false";
    fn parse(text: &str) -> Option<Self> {
        text.parse().ok()
    }
    fn show(&self) -> String {
        self.to_string()
    }
}

impl ParameterValue for u64 {
    const ACCEPTS: &'static str = "a whole number";
    fn parse(text: &str) -> Option<Self> {
        text.parse().ok()
    }
    fn show(&self) -> String {
        self.to_string()
    }
}

impl ParameterValue for f64 {
    const ACCEPTS: &'static str = "a number";
    fn parse(text: &str) -> Option<Self> {
        text.parse().ok().filter(|value: &Self| value.is_finite())
    }
    fn show(&self) -> String {
        self.to_string()
    }
}

/// A number that is worked out from the configuration unless it is given.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Debug, Default)]
pub enum Auto {
    /// Worked out.
    #[default]
    Auto,
    /// Given.
    Given(u64),
}

impl ParameterValue for Auto {
    const ACCEPTS: &'static str = "`auto` or a whole number from 1";
    fn parse(text: &str) -> Option<Self> {
        match text {
            "auto" => Some(Self::Auto),
            _ => text.parse().ok().filter(|&value| value > 0).map(Self::Given),
        }
    }
    fn show(&self) -> String {
        match self {
            Self::Auto => "auto".to_owned(),
            Self::Given(value) => value.to_string(),
        }
    }
}

/// Declares a choice between named values as an enum that a parameter can have.
#[macro_export]
macro_rules! choice {
    ($(#[$doc:meta])* $vis:vis enum $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $text:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Debug)]
        $vis enum $name { $($(#[$variant_doc])* $variant),+ }

        impl $crate::policy::ParameterValue for $name {
            const ACCEPTS: &'static str = concat!("one of" $(, " ", $text)+);
            fn parse(text: &str) -> Option<Self> {
                match text {
                    $($text => Some(Self::$variant),)+
                    _ => None,
                }
            }
            fn show(&self) -> $crate::policy_alloc::string::String {
                match self { $(Self::$variant => $text.into()),+ }
            }
        }
    };
}

/// Declares a set of parameters: each with its documentation, type, default, and where it has them its range and unit.
///
/// A parameter of a service whose value changes what a packet costs by a tenth or more says so last: `cost "always"`, or
/// `cost "codec=deflate"` where it does so only together with this value of another parameter.
///
/// ```
/// humpyard_core::params! {
///     /// Parameters of an example.
///     pub struct ExampleParams {
///         /// How much it may move, relative to one.
///         beta: f64 = 0.16, in 0.0..=10.0;
///         /// How often it looks.
///         interval: u64 = 1000, in 1..=1_000_000, unit "ns";
///     }
/// }
/// use humpyard_core::policy::Params;
/// let mut params = ExampleParams::default();
/// params.set("example", "beta", "0.5").unwrap();
/// assert_eq!(params.beta, 0.5);
/// let error = params.set("example", "interval", "0").unwrap_err();
/// assert_eq!(error.to_string(), "example: `interval` takes 1 to 1000000 (in ns, or with a unit: 10ms), not `0`");
/// params.set("example", "interval", "0.5ms").unwrap();
/// assert_eq!(params.interval, 500_000);
/// ```
#[macro_export]
macro_rules! params {
    ($(#[$doc:meta])* $vis:vis struct $name:ident {
        $($(#[doc = $field_doc:literal])+ $field:ident: $type:ty = $default:expr
            $(, in $low:literal..=$high:literal)? $(, unit $unit:literal)? $(, cost $cost:literal)?;)*
    }) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq)]
        $vis struct $name { $($(#[doc = $field_doc])+ $vis $field: $type),* }

        impl Default for $name {
            fn default() -> Self {
                Self { $($field: $default),* }
            }
        }

        impl $crate::policy::Params for $name {
            fn parameters() -> $crate::policy_alloc::vec::Vec<$crate::policy::Parameter> {
                #[allow(unused_imports, reason = "a policy without parameters shows no value")]
                use $crate::policy::{Parameter, ParameterValue};
                $crate::policy_alloc::vec![$(Parameter {
                    name: stringify!($field).replace('_', "-"),
                    summary: concat!($($field_doc),+).trim().into(),
                    default: <$type as ParameterValue>::show(&$default),
                    accepts: {
                        #[allow(unused_mut, unused_assignments, reason = "not every parameter has a range")]
                        let mut accepts: $crate::policy_alloc::string::String = <$type as ParameterValue>::ACCEPTS.into();
                        $(accepts = $crate::policy_alloc::format!("{} to {}", $low, $high);)?
                        accepts
                    },
                    unit: {
                        #[allow(unused_mut, unused_assignments, reason = "not every parameter has a unit")]
                        let mut unit = "";
                        $(unit = $unit;)?
                        unit.into()
                    },
                    changes_cost: {
                        #[allow(unused_mut, unused_assignments, reason = "not every parameter changes a cost")]
                        let mut changes_cost = "";
                        $(changes_cost = $cost;)?
                        changes_cost.into()
                    },
                }),*]
            }

            fn values(&self) -> $crate::policy_alloc::vec::Vec<$crate::policy_alloc::string::String> {
                #[allow(unused_imports, reason = "a policy without parameters shows no value")]
                use $crate::policy::ParameterValue;
                $crate::policy_alloc::vec![$(ParameterValue::show(&self.$field)),*]
            }

            #[allow(unused_variables, reason = "a policy without parameters takes no value")]
            fn set(&mut self, owner: &str, name: &str, value: &str) -> Result<(), $crate::policy::ParameterError> {
                let parameters = Self::parameters();
                let canonical = name.replace('_', "-");
                $(if canonical == stringify!($field).replace('_', "-") {
                    #[allow(unused_mut, unused_assignments, reason = "not every parameter has a unit")]
                    let mut unit = "";
                    $(unit = $unit;)?
                    let in_unit = $crate::policy::in_unit(unit, value);
                    let parsed = <$type as $crate::policy::ParameterValue>::parse(&in_unit)
                        $(.filter(|parsed| ($low..=$high).contains(parsed)))?;
                    return match parsed {
                        Some(parsed) => { self.$field = parsed; Ok(()) }
                        None => {
                            let parameter = parameters.iter().find(|parameter| parameter.name == canonical);
                            Err($crate::policy::ParameterError::value(owner, parameter.expect("just matched"), value))
                        }
                    };
                })*
                Err($crate::policy::ParameterError::unknown(owner, name, &parameters))
            }
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    choice! {
        /// A choice.
        enum Colour {
            /// Red.
            Red = "red",
            /// Green.
            Green = "green",
        }
    }

    params! {
        /// Parameters of a test.
        struct TestParams {
            /// Which colour
            /// it has.
            colour: Colour = Colour::Red;
            /// How long.
            quantum_size: Auto = Auto::Auto, unit "work";
        }
    }

    #[test]
    fn set_by_either_spelling() {
        let mut params = TestParams::default();
        params.set("test", "colour", "green").unwrap();
        params.set("test", "quantum-size", "12").unwrap();
        params.set("test", "quantum_size", "13").unwrap();
        assert_eq!(params, TestParams { colour: Colour::Green, quantum_size: Auto::Given(13) });
    }

    #[test]
    fn errors_say_what_is_accepted() {
        let mut params = TestParams::default();
        let said = |error: ParameterError| error.to_string();
        assert_eq!(
            said(params.set("test", "color", "red").unwrap_err()),
            "test: no parameter `color`; did you mean `colour`? There are: colour, quantum-size"
        );
        let twice = ["quantum-size", "quantum_size"].map(|name| (name.to_string(), "1".to_string()));
        assert_eq!(said(TestParams::from_pairs("test", &twice).unwrap_err()), "test: `quantum_size` is given twice");
        assert_eq!(
            said(params.set("test", "colour", "blue").unwrap_err()),
            "test: `colour` takes one of red green, not `blue`"
        );
        assert_eq!(
            said(params.set("test", "quantum-size", "0").unwrap_err()),
            "test: `quantum-size` takes `auto` or a whole number from 1 (in work), not `0`"
        );
    }

    #[test]
    fn times_may_have_a_unit() {
        let said = |value: &'static str| in_unit("ns", value).into_owned();
        assert_eq!(
            ["7", "7ns", "10ms", "1.5us", "2s", "1min"].map(said),
            ["7", "7", "10000000", "1500", "2000000000", "60000000000"]
        );
        for left in [
            "auto",
            "ms",
            ".5ms",
            "-1ms",
            "1.5ns",
            "1e3us",
            "99999999999999999s",
            "10 ms",
            "1.00000000000000000000001s",
        ] {
            assert_eq!(said(left), left);
        }
        assert_eq!(in_unit("work", "10ms"), "10ms", "of times alone");
    }

    #[test]
    fn parameters_describe_themselves() {
        let parameters = TestParams::parameters();
        assert_eq!(parameters[0].summary, "Which colour it has.");
        assert_eq!(parameters[0].default, "red");
        assert_eq!(parameters[1].unit, "work");
    }
}
