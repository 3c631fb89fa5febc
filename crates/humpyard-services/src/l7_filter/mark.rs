//! The actions of verdicts: drop, weight, service, firewall mark.

use humpyard_core::id::{Id, ServiceId};
use humpyard_core::name::unknown_of_many;
use humpyard_core::policy::ParameterValue;
use humpyard_core::unit::Weight;

use super::table::Table;
use crate::service::{Mark, ServiceError};

/// Names of protocols, as given.
#[derive(Clone, PartialEq, Eq, PartialOrd, Debug)]
pub struct Names(pub String);

/// Accepts every text; the service reports a wrong name more precisely.
impl ParameterValue for Names {
    const ACCEPTS: &'static str = "names of protocols, separated by `;`, or nothing";

    fn parse(text: &str) -> Option<Self> {
        Some(Self(text.into()))
    }

    fn show(&self) -> String {
        self.0.clone()
    }
}

/// Names of protocols with a number each, as given.
#[derive(Clone, PartialEq, Eq, PartialOrd, Debug)]
pub struct Marks(pub String);

/// Accepts every text; the service reports an error more precisely.
impl ParameterValue for Marks {
    const ACCEPTS: &'static str = "PROTOCOL=NUMBER, several separated by `;`, or nothing";

    fn parse(text: &str) -> Option<Self> {
        Some(Self(text.into()))
    }

    fn show(&self) -> String {
        self.0.clone()
    }
}

/// The action of each protocol's verdict.
#[derive(Clone, Debug)]
pub(super) struct Actions {
    drops: Vec<bool>,
    marks: Vec<Option<Mark>>,
}

impl Actions {
    /// # Errors
    /// If there is no such protocol, or a number is out of range.
    pub(super) fn new(
        table: &Table,
        drop: &Names,
        weight: &Marks,
        service: &Marks,
        fwmark: &Marks,
    ) -> Result<Self, ServiceError> {
        let find = |parameter: &str, name: &str| {
            let names = table.protocols.iter().map(|protocol| protocol.name);
            let why = || unknown_of_many("protocol", name, names, "humpyard list protocols");
            table.protocol(name).ok_or_else(|| ServiceError::new(format!("l7-filter: `{parameter}`: {}", why())))
        };
        let mut drops = vec![false; table.protocols.len()];
        for name in items(&drop.0) {
            drops[find("drop", name)?] = true;
        }
        let mut marks = vec![None; table.protocols.len()];
        for item in items(&weight.0) {
            let (name, number) = pair("weight", item)?;
            let weight = Weight::new(number).ok_or_else(|| no_number("weight", item, "a weight is 1 or more"))?;
            let mark: &mut Option<Mark> = &mut marks[find("weight", name)?];
            mark.get_or_insert_default().weight = Some(weight);
        }
        for item in items(&service.0) {
            let (name, number) = pair("service", item)?;
            let number = u16::try_from(number).map_err(|_| no_number("service", item, "a service is 65535 at most"))?;
            let mark: &mut Option<Mark> = &mut marks[find("service", name)?];
            mark.get_or_insert_default().service = Some(ServiceId::from_index(usize::from(number)));
        }
        for item in items(&fwmark.0) {
            let (name, number) = pair("fwmark", item)?;
            let mark: &mut Option<Mark> = &mut marks[find("fwmark", name)?];
            mark.get_or_insert_default().fwmark = Some(number);
        }
        Ok(Self { drops, marks })
    }

    #[inline]
    pub(super) fn drops(&self, protocol: u8) -> bool {
        self.drops[usize::from(protocol)]
    }

    #[inline]
    pub(super) fn mark(&self, protocol: u8) -> Option<Mark> {
        self.marks[usize::from(protocol)]
    }

    /// Returns whether marks set weights.
    pub(super) fn weigh(&self) -> bool {
        self.marks.iter().flatten().any(|mark| mark.weight.is_some())
    }

    /// Returns the services that marks name.
    pub(super) fn services(&self) -> Vec<ServiceId> {
        self.marks.iter().flatten().filter_map(|mark| mark.service).collect()
    }
}

fn items(text: &str) -> impl Iterator<Item = &str> {
    text.split(';').map(str::trim).filter(|item| !item.is_empty())
}

fn pair<'a>(parameter: &str, item: &'a str) -> Result<(&'a str, u32), ServiceError> {
    let pair = item.split_once('=').and_then(|(name, number)| Some((name.trim(), whole(number.trim())?)));
    pair.ok_or_else(|| no_number(parameter, item, "it reads PROTOCOL=NUMBER"))
}

/// Reads a number; in hexadecimal behind `0x`, the usual form of masks.
fn whole(text: &str) -> Option<u32> {
    match text.strip_prefix("0x") {
        Some(digits) if !digits.starts_with('+') => u32::from_str_radix(digits, 16).ok(),
        Some(_) => None,
        None => text.parse().ok(),
    }
}

fn no_number(parameter: &str, item: &str, why: &str) -> ServiceError {
    ServiceError::new(format!("l7-filter: `{parameter}`: `{item}`: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::l7_filter::table::table;

    #[test]
    fn what_is_said_of_protocols() {
        let names = |text: &str| Names(text.into());
        let marks = |text: &str| Marks(text.into());
        let actions = Actions::new(
            table(),
            &names("bittorrent; edonkey"),
            &marks("sip=8;rtp=4"),
            &marks("rtp=1"),
            &marks("rtp=0x2a"),
        )
        .unwrap();
        let of = |name: &str| table().protocol(name).unwrap() as u8;
        assert!(actions.drops(of("bittorrent")) && !actions.drops(of("sip")));
        let weight = Weight::new(4);
        assert_eq!(actions.mark(of("rtp")), Some(Mark { weight, service: Some(ServiceId(1)), fwmark: Some(42) }));
        assert!(actions.mark(of("sip")).unwrap().fwmark.is_none());
        assert_eq!((actions.mark(of("tls")), actions.services()), (None, vec![ServiceId(1)]));
        for (drop, weight, service, fwmark, expected) in [
            ("bitorrent", "", "", "", "`drop`: no protocol `bitorrent`; did you mean `bittorrent`"),
            ("TLS", "", "", "", "`drop`: no protocol `TLS`; did you mean `tls`? `humpyard list protocols` has all "),
            ("", "sip", "", "", "`weight`: `sip`: it reads PROTOCOL=NUMBER"),
            ("", "sip=0", "", "", "`weight`: `sip=0`: a weight is 1 or more"),
            ("", "", "", "sip=-1", "`fwmark`: `sip=-1`: it reads PROTOCOL=NUMBER"),
            ("", "", "", "sip=0x+1", "`fwmark`: `sip=0x+1`: it reads PROTOCOL=NUMBER"),
            ("", "", "", "spi=1", "`fwmark`: no protocol `spi`"),
            ("", "", "sip=70000", "", "`service`: `sip=70000`: a service is 65535 at most"),
        ] {
            let error = Actions::new(table(), &names(drop), &marks(weight), &marks(service), &marks(fwmark));
            let error = error.unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
}
