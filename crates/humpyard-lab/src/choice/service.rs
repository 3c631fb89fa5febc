//! The services of a run, as text.

use humpyard_core::name::{Named, unknown};
use humpyard_text::quantity::parse_share;
use humpyard_traffic::classify::Match;

use crate::LabError;
use crate::costs::Costs;

/// A service and those that its packets go through afterwards, by name.
pub(crate) type Chain = (String, Vec<String>);

/// One service of a run: which packets, and what is done to them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ServiceChoice {
    /// Its name in results.
    pub name: String,
    /// The packets that get it where no rule matches. `None`: only packets that a rule, a chain or a mark sends there.
    pub matches: Option<Match>,
    /// What is done: the name of a service, and its parameters.
    pub work: Named,
}

impl ServiceChoice {
    /// Returns `forward`, for every packet.
    pub fn forward() -> Self {
        let work = Named { name: "forward".into(), parameters: Vec::new() };
        Self { name: work.name.clone(), matches: Some(Match::Any), work }
    }

    /// Returns `pass`, for every packet.
    pub fn pass() -> Self {
        let work = Named { name: "pass".into(), parameters: Vec::new() };
        Self { name: work.name.clone(), matches: Some(Match::Any), work }
    }

    /// Reads `forward`, `forward:name=value,...`, `tcp=forward:...` for one kind of packets, or `NAME=forward:...` for
    /// packets that a rule or a chain sends there.
    ///
    /// # Errors
    /// Parameters that do not read name=value.
    pub fn parse(text: &str) -> Result<Self, LabError> {
        let head = text.split_once(':').map_or(text, |(head, _)| head);
        let (matches, name, work) = match head.split_once('=') {
            Some((name, _)) => (name.parse().ok(), name, &text[name.len() + 1..]),
            None => (Some(Match::Any), head, text),
        };
        let work: Named = work.parse()?;
        if name.is_empty() || work.name.is_empty() {
            return Err(LabError::option(format!(
                "@services takes SERVICE or NAME=SERVICE, forward or tcp=forward for example; not `{text}`"
            )));
        }
        Ok(Self { name: name.to_owned(), matches, work })
    }

    /// Reads what an option says of services, each time it is given: the services, and the chain of those that stand in a row.
    ///
    /// # Errors
    /// As [`Self::parse`] and [`Self::parse_row`].
    pub fn parse_all(texts: &[&str]) -> Result<(Vec<Self>, Vec<Chain>), LabError> {
        let row = if let [text] = texts { Self::parse_row(text)? } else { None };
        if let Some(row) = row {
            let (first, then) = row.split_first().expect("a row has two services");
            let chain = (first.name.clone(), then.iter().map(|service| service.name.clone()).collect());
            return Ok((row, vec![chain]));
        }
        let services = texts.iter().map(|text| Self::parse_list(text)).collect::<Result<Vec<_>, _>>()?;
        Ok((services.concat(), Vec::new()))
    }

    /// Reads several, separated by commas: a part belongs to the service before unless it names packets and a service.
    ///
    /// # Errors
    /// As [`Self::parse`].
    pub fn parse_list(text: &str) -> Result<Vec<Self>, LabError> {
        let mut parts: Vec<String> = Vec::new();
        for part in text.split(',') {
            match parts.last_mut() {
                Some(last) if !starts_service(part) => {
                    last.push(',');
                    last.push_str(part);
                }
                _ => parts.push(part.to_owned()),
            }
        }
        parts.iter().map(|part| Self::parse(part)).collect()
    }
}

impl ServiceChoice {
    /// Reads services in a row, `dpi,encrypt`, which every packet goes through. `None`: the text is not just names.
    ///
    /// # Errors
    /// A name that is no service's, and one that is there twice.
    pub fn parse_row(text: &str) -> Result<Option<Vec<Self>>, LabError> {
        let names: Vec<&str> = text.split(',').map(str::trim).collect();
        if names.len() < 2 || text.contains(['=', ':']) {
            return Ok(None);
        }
        for (at, name) in names.iter().enumerate() {
            if !is_service(name) {
                return Err(LabError::option(format!(
                    "@services {text}: {}",
                    unknown("service", name, service_names())
                )));
            }
            if names[..at].contains(name) {
                return Err(LabError::option(format!(
                    "@services {text}: `{name}` is there twice; name one of them, and say how they follow each other: \
                     @services other={name} @services again={name} @chain other=again"
                )));
            }
        }
        let choice = |(at, name): (usize, &&str)| Self {
            name: (*name).to_owned(),
            matches: (at == 0).then_some(Match::Any),
            work: Named { name: (*name).to_owned(), parameters: Vec::new() },
        };
        Ok(Some(names.iter().enumerate().map(choice).collect()))
    }
}

/// Returns the names of services that do work.
fn service_names() -> impl Iterator<Item = &'static str> {
    humpyard_services::entries().into_iter().map(|entry| entry.name)
}

/// Whether there is a service of this name: one that does work, or one that is known by its costs alone.
fn is_service(name: &str) -> bool {
    let mut in_tables = Costs::tables().iter().flat_map(|table| table.lines.keys());
    in_tables.any(|known| known == name) || service_names().any(|known| known == name)
}

/// Whether this part names packets and a service, rather than a parameter of the service before.
fn starts_service(part: &str) -> bool {
    part.split_once('=').is_some_and(|(kind, work)| {
        let name = work.split_once(':').map_or(work, |(name, _)| name);
        kind.parse::<Match>().is_ok() || is_service(name)
    })
}

/// Reads `SERVICE=NEXT+NEXT`.
pub(crate) fn parse_chain(text: &str) -> Result<Chain, LabError> {
    let parts = text.split_once('=').filter(|(first, then)| !first.is_empty() && !then.is_empty());
    let (first, then) = parts.ok_or_else(|| {
        LabError::of_option(
            "chain",
            format!("takes a service and those after it, tcp=udp+other for example; not `{text}`"),
        )
    })?;
    Ok((first.to_owned(), then.split('+').map(str::to_owned).collect()))
}

/// Reads `SERVICE=SHARE`.
pub(crate) fn parse_guarantee(text: &str) -> Result<(String, u32), LabError> {
    match text.split_once('=').map(|(service, text)| (service, parse_share(text))) {
        Some((service, Some(share))) => Ok((service.to_owned(), share)),
        _ => {
            Err(LabError::of_option("guarantee", format!("reads SERVICE=SHARE with a share from 0 to 1, not `{text}`")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn services_read_with_and_without_a_match() {
        let choice = ServiceChoice::parse("tcp=forward:checksum=fill,icmp-interval=8").unwrap();
        let (name, work) = (choice.name.as_str(), choice.work.name.as_str());
        assert_eq!((name, choice.matches, work), ("tcp", Some(Match::Tcp), "forward"));
        assert_eq!(choice.work.parameters[1], ("icmp-interval".to_owned(), "8".to_owned()));
        let choice = ServiceChoice::parse("forward:checksum=fill").unwrap();
        assert_eq!((choice.name.as_str(), choice.matches), ("forward", Some(Match::Any)));
        let choice = ServiceChoice::parse("web=forward").unwrap();
        assert_eq!((choice.name.as_str(), choice.matches), ("web", None));
    }

    #[test]
    fn services_in_a_row_are_names_alone() {
        let row = ServiceChoice::parse_row("dpi,encrypt").unwrap().unwrap();
        assert_eq!(row[0].matches, Some(Match::Any));
        assert_eq!((row[1].name.as_str(), row[1].matches), ("encrypt", None));
        for other in ["dpi", "tcp=dpi,udp=encrypt", "dpi:a=1,b=2", "forward:checksum=fill,icmp-burst=8", ""] {
            assert_eq!(ServiceChoice::parse_row(other).unwrap(), None, "{other}");
        }
        for (wrong, said) in [
            ("dpi,encrpyt", "no service `encrpyt`; did you mean `encrypt`?"),
            ("dpi,dpi", "`dpi` is there twice"),
            ("dpi,", "no service ``"),
        ] {
            let error = ServiceChoice::parse_row(wrong).unwrap_err().to_string();
            assert!(error.contains(said), "{wrong}: {error}");
        }
    }

    #[test]
    fn services_with_parameters_are_told_apart() {
        let list = "tcp=forward:checksum=fill,icmp-burst=8,web=forward:icmp-burst=9,other=forward";
        let choices = ServiceChoice::parse_list(list).unwrap();
        let names: Vec<&str> = choices.iter().map(|choice| choice.name.as_str()).collect();
        assert_eq!(names, ["tcp", "web", "other"]);
        assert_eq!(choices[0].work.parameters.len(), 2);
        assert_eq!(
            ServiceChoice::parse_list("forward:icmp-burst=8,checksum=fill").unwrap()[0].work.parameters.len(),
            2
        );
    }
}
