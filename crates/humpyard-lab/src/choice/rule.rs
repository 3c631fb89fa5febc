//! Rules as text: which packets get which service, and belong to which client.

use core::fmt;
use core::str::FromStr;
use core::time::Duration;

use humpyard_core::name::unknown;
use humpyard_core::unit::Weight;
use humpyard_traffic::rule::{Conditions, KEYS, Key};

use crate::LabError;
use humpyard_text::quantity::{parse_duration, parse_share, show_duration};

/// What a rule can say of its packets, beside the conditions for which it holds.
const EFFECTS: [Key; 7] = [
    Key {
        name: "service",
        summary: "Their service; it may be left out where there is one",
        accepts: "the name of a service of the run",
    },
    Key {
        name: "client",
        summary: "The client that they belong to, where clients are those of the rules; else their service's name",
        accepts: "any name; rules with the same name share a client",
    },
    Key {
        name: "weight",
        summary: "Weight of that client; where clients are flows or connections, of each that begins with such a packet",
        accepts: "a whole number from 1 to 4294967295",
    },
    Key {
        name: "link-weight",
        summary: "Its weight at the link behind the cores, where that is another",
        accepts: "a whole number from 1 to 4294967295",
    },
    Key {
        name: "tolerance",
        summary: "Delay beyond which a packet of that service is late",
        accepts: "a time such as 2ms",
    },
    Key { name: "guarantee", summary: "Share of the cores that this service is guaranteed", accepts: "0 to 1" },
    Key {
        name: "chain",
        summary: "Services of the run that they go through afterwards, one after the other",
        accepts: "names of services, joined by `+`",
    },
];

/// One rule of a run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RuleChoice {
    /// The packets.
    pub conditions: Conditions,
    /// Their service, by name. `None`: the only service.
    pub service: Option<String>,
    /// Their client, by name. `None`: the name of their service.
    pub client: Option<String>,
    /// The weight of their client, or of each of their clients where those are flows or connections.
    pub weight: Option<Weight>,
    /// Its weight at the link behind the cores. `None`: the same.
    pub link_weight: Option<Weight>,
    /// Tolerable delay of their service.
    pub tolerance: Option<Duration>,
    /// Share of the cores that their service is guaranteed, in millionths.
    pub guarantee: Option<u32>,
    /// The services that they go through afterwards, by name. `None`: those of their service.
    pub chain: Option<Vec<String>>,
}

impl RuleChoice {
    /// Returns a rule for every packet, without effects.
    pub const fn any() -> Self {
        Self {
            conditions: Conditions::any(),
            service: None,
            client: None,
            weight: None,
            link_weight: None,
            tolerance: None,
            guarantee: None,
            chain: None,
        }
    }

    /// Returns everything that a rule can say, conditions first.
    pub fn keys() -> impl Iterator<Item = &'static Key> {
        KEYS.iter().chain(&EFFECTS)
    }

    /// Adds to the rule: a name of [`Self::keys`] and its value.
    ///
    /// # Errors
    /// An unknown name, a value that is not taken, a name given twice.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), LabError> {
        let name = name.replace('_', "-");
        let Some(effect) = EFFECTS.iter().find(|effect| effect.name == name) else {
            let known = Self::keys().map(|key| key.name);
            return match KEYS.iter().any(|key| key.name == name) {
                true => Ok(self.conditions.set(&name, value)?),
                false => Err(LabError::option(unknown("key of a rule", &name, known))),
            };
        };
        let refused = || LabError::option(format!("`{name}` takes {}; not `{value}`", effect.accepts));
        let new = match effect.name {
            "weight" | "link-weight" => {
                let weight = value.parse().ok().and_then(Weight::new).ok_or_else(refused)?;
                let given = if effect.name == "weight" { &mut self.weight } else { &mut self.link_weight };
                given.replace(weight).is_none()
            }
            "tolerance" => self.tolerance.replace(parse_duration(value)?).is_none(),
            "guarantee" => self.guarantee.replace(parse_share(value).ok_or_else(refused)?).is_none(),
            _ if value.is_empty() => return Err(refused()),
            "service" => self.service.replace(value.to_owned()).is_none(),
            "client" => self.client.replace(value.to_owned()).is_none(),
            _ => self.chain.replace(value.split('+').map(|name| name.trim().to_owned()).collect()).is_none(),
        };
        if new { Ok(()) } else { Err(LabError::option(format!("`{name}` is given twice"))) }
    }
}

impl FromStr for RuleChoice {
    type Err = LabError;

    /// Reads `name=value,name=value`: `protocol=tcp,port=80+443,service=web`.
    fn from_str(text: &str) -> Result<Self, LabError> {
        let mut rule = Self::any();
        for pair in text.split(',').map(str::trim) {
            let (name, value) = pair.split_once('=').ok_or_else(|| {
                LabError::option(format!("a rule reads name=value,name=value with lists joined by `+`, not `{pair}`"))
            })?;
            rule.set(name.trim(), value.trim())?;
        }
        Ok(rule)
    }
}

impl fmt::Display for RuleChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.conditions)?;
        for (name, value) in [("service", &self.service), ("client", &self.client)] {
            if let Some(value) = value {
                write!(f, ",{name}={value}")?;
            }
        }
        if let Some(weight) = self.weight {
            write!(f, ",weight={}", weight.get())?;
        }
        if let Some(weight) = self.link_weight {
            write!(f, ",link-weight={}", weight.get())?;
        }
        if let Some(tolerance) = self.tolerance {
            write!(f, ",tolerance={}", show_duration(tolerance))?;
        }
        if let Some(guarantee) = self.guarantee {
            write!(f, ",guarantee={}", f64::from(guarantee) / 1e6)?;
        }
        match &self.chain {
            Some(chain) => write!(f, ",chain={}", chain.join("+")),
            None => Ok(()),
        }
    }
}
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_read_back_as_written() {
        for text in [
            "protocol=tcp,port=80+443,service=web,client=alice,weight=3,link-weight=4,tolerance=2us,guarantee=0.25,chain=a+b",
            "any,service=x",
        ] {
            let parsed: RuleChoice = text.trim_start_matches("any,").parse().unwrap();
            assert_eq!(parsed.to_string(), text);
        }
    }

    #[test]
    fn slips_are_told() {
        assert!("port=80,prot=tcp".parse::<RuleChoice>().unwrap_err().to_string().contains("no key of a rule `prot`"));
        assert!(
            "weight=0".parse::<RuleChoice>().unwrap_err().to_string().contains("`weight` takes a whole number from 1")
        );
        assert!("service=a,service=b".parse::<RuleChoice>().unwrap_err().to_string().contains("given twice"));
        assert!("port=80,443".parse::<RuleChoice>().unwrap_err().to_string().contains("joined by `+`"));
    }
}
