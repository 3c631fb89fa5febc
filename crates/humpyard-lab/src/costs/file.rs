//! The format of costs, that of tables and files alike.
//!
//! A cost file is TOML: `version = 1`, a `source` in words, and a table for each service with its parameters, with the line of its work:
//!
//! ```toml
//! version = 1
//! source = "measured on this machine"
//! switch_upper_ns = 4100.0
//!
//! [services.encrypt]
//! fixed_ns = 151.0
//! per_byte_ns = 0.09
//! cold_ns = 20.0
//! expansion = 1.1
//!
//! [services."encrypt:cipher=cast-128"]
//! fixed_ns = 264.0
//! per_byte_ns = 9.5
//! source = "measured on another day"
//! ```
//!
//! A name without parameters is the service as it is by default. A parameter that does not change the cost makes no other line.
//!
//! A table `[machine]`, which need not be there, has what `calibrate --machine` measured: see [`MachineCosts`].
//!
//! `fixed_ns` is required; `per_byte_ns`, `cold_ns` and `per_batch_ns` default to 0. `per_batch_ns` is paid once for the
//! packets that a core serves in a row as a batch, and a packet alone is a batch.
//! `switch_upper_ns` is the cost of a switch, unless an option
//! of the run gives another. `expansion` is the bytes that leave for a `--link`, per byte that came; it defaults to 1.

use core::time::Duration;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::io;

use humpyard_core::cost::MovePenalties;
use humpyard_core::name::Named;
use humpyard_core::policy::CoreDistance;
use humpyard_sim::Interruptions;
use humpyard_text::{TextError, TomlFile, number, quoted, read_text};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::machine::{DescribedHost, HOST_KEYS, MachineCosts};
use super::{CostLine, Costs, Origin, cost_key};
use crate::LabError;
use crate::costs::taken::Taken;

/// The version of cost files that is written and read.
const VERSION: u64 = 1;
/// The keys of a file, those of the machine, and those of a service.
const KEYS: [&str; 6] = ["version", "source", "switch_upper_ns", "moves", "services", "machine"];
const MACHINE_KEYS: [&str; 7] =
    ["hand_over_ns", "round_trip_ns", "taken", "worker_runs", "worker_stops", "dispatcher_runs", "dispatcher_stops"];
const SERVICE_KEYS: [&str; 6] = ["fixed_ns", "per_byte_ns", "cold_ns", "per_batch_ns", "expansion", "source"];

impl Costs {
    /// Reads a file.
    ///
    /// # Errors
    /// A file that cannot be read, is no cost file, or says what cannot be: with the place in it.
    pub fn read(path: &str) -> Result<Self, LabError> {
        let text = read_text(path).map_err(|error| {
            LabError::option(match error.kind() {
                io::ErrorKind::NotFound => {
                    format!("{path}: there is no such cost file; `humpyard calibrate --output {path}` writes one")
                }
                io::ErrorKind::InvalidData => format!("{path}: this is no text, so no cost file"),
                io::ErrorKind::IsADirectory => format!("{path}: this is a directory; name a file in it"),
                _ => format!("{path}: the cost file cannot be read: {error}"),
            })
        })?;
        Self::parse(path, &text)
    }

    /// Understands the text of a file of this name.
    ///
    /// # Errors
    /// See [`Costs::read`].
    pub fn parse(path: &str, text: &str) -> Result<Self, LabError> {
        Ok(Self::understand(path, text)?)
    }

    fn understand(path: &str, text: &str) -> Result<Self, TextError> {
        let place = CostFile(TomlFile { path, text });
        let table = place.0.table()?;
        let table = table.get_ref();
        place.0.keys(table, "key of a cost file", &KEYS)?;
        place.version(table)?;
        let mut costs = Self {
            name: path.to_owned(),
            source: place.0.source(table)?,
            switch_upper_ns: place.0.number(table, "switch_upper_ns")?,
            moves: place.moves(table)?,
            lines: BTreeMap::new(),
            machine: place.machine(table)?,
        };
        let Some(services) = table.get("services") else {
            if costs.machine.is_some() {
                return Ok(costs);
            }
            return Err(place
                .0
                .slip(0, "there is no service in it: a service has a table, [services.forward] for example"));
        };
        let DeValue::Table(services) = services.get_ref() else {
            return Err(place
                .0
                .slip(services.span().start, "`services` is a table of tables, [services.forward] for example"));
        };
        for (name, service) in services.iter() {
            let key = place.key(name)?;
            let line = place.service(name, service)?;
            if costs.lines.insert(key.clone(), line).is_some() {
                return Err(place.0.slip(
                    name.span().start,
                    &format!(
                        "`{}` has the line of `{key}`, which is there already: leave one of them out",
                        name.get_ref()
                    ),
                ));
            }
        }
        Ok(costs)
    }

    /// The text of the file.
    pub fn text(&self) -> String {
        let mut text = String::from(
            "# What services cost on one machine, as `humpyard calibrate` measured it.\n\
             # Use it as: humpyard sim --costs FILE ...; `expansion` is bytes out over bytes in.\n",
        );
        let source = quoted(&self.source);
        let _ = writeln!(text, "version = {VERSION}\nsource = {source}");
        if let Some(switch) = self.switch_upper_ns {
            let _ = writeln!(text, "switch_upper_ns = {switch}");
        }
        if self.moves != MovePenalties::NONE {
            let _ = writeln!(text, "\n[moves]");
            for apart in CoreDistance::ALL {
                let part = f64::from(self.moves.permille(apart)) / 1e3;
                let _ = writeln!(text, "{} = {part:.3}", apart.name());
            }
        }
        for (spec, line) in &self.lines {
            let is_bare = !spec.is_empty() && spec.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
            let spec = if is_bare { spec.clone() } else { quoted(spec) };
            // In all of their digits, so that the same is read again.
            let _ = writeln!(
                text,
                "\n[services.{spec}]\nfixed_ns = {}\nper_byte_ns = {}\ncold_ns = {}",
                line.fixed_ns, line.per_byte_ns, line.cold_ns
            );
            if line.per_batch_ns > 0.0 {
                let _ = writeln!(text, "per_batch_ns = {}", line.per_batch_ns);
            }
            if let Some(expansion) = line.expansion {
                let _ = writeln!(text, "expansion = {expansion}");
            }
            if !line.source.is_empty() {
                let _ = writeln!(text, "source = {}", quoted(&line.source));
            }
        }
        if let Some(machine) = &self.machine {
            machine.write(&mut text);
        }
        text
    }
}

/// A file that is read.
#[derive(Clone, Copy)]
struct CostFile<'a>(TomlFile<'a>);

impl CostFile<'_> {
    fn version(&self, table: &DeTable<'_>) -> Result<(), TextError> {
        let Some(version) = table.get("version") else {
            return Err(self
                .0
                .slip(0, "this is no cost file: it has no `version = 1`; `humpyard calibrate --output` writes one"));
        };
        match version.get_ref() {
            DeValue::Integer(number) if number.as_str() == "1" => Ok(()),
            _ => Err(self
                .0
                .slip(version.span().start, "`version` is 1 here; measure again with this version of humpyard")),
        }
    }

    /// The table of penalties for flows that move, which need not be there.
    fn moves(&self, table: &DeTable<'_>) -> Result<MovePenalties, TextError> {
        let Some(moves) = table.get("moves") else { return Ok(MovePenalties::NONE) };
        let DeValue::Table(table) = moves.get_ref() else {
            return Err(self.0.slip(moves.span().start, "`moves` is a table: [moves] and its keys below"));
        };
        self.0.keys(table, "key of moves", &CoreDistance::ALL.map(CoreDistance::name))?;
        let permille = |apart: CoreDistance| match self.0.number(table, apart.name())? {
            Some(part) if part > 1000.0 => {
                let said = format!("`{}` is a part of the work, 0.25 for example: at most 1000", apart.name());
                Err(self.0.slip(start_of(table, apart.name()), &said))
            }
            part => Ok((part.unwrap_or(0.0) * 1e3).round() as u32),
        };
        Ok(MovePenalties {
            shared_l2: permille(CoreDistance::SharedL2)?,
            same_socket: permille(CoreDistance::SameSocket)?,
            other_socket: permille(CoreDistance::OtherSocket)?,
        })
    }

    /// The table of what the machine adds, which need not be there.
    fn machine(&self, table: &DeTable<'_>) -> Result<Option<MachineCosts>, TextError> {
        let Some(machine) = table.get("machine") else { return Ok(None) };
        let DeValue::Table(table) = machine.get_ref() else {
            return Err(self.0.slip(machine.span().start, "`machine` is a table: [machine] and its keys below"));
        };
        let keys: Vec<&str> = MACHINE_KEYS.into_iter().chain(HOST_KEYS).collect();
        self.0.keys(table, "key of machine", &keys)?;
        let taken = self.pairs(table, "taken", 0.0)?;
        if taken.iter().any(|&(part, _)| part >= 1.0) {
            return Err(self.0.slip(
                start_of(table, "taken"),
                "`taken` begins each pair with a part of the time, from 0 to below 1",
            ));
        }
        let taken =
            taken.into_iter().map(|(part, at_once)| Taken { part, at_once: Duration::from_nanos(at_once as u64) });
        if self.0.number(table, "processors")?.is_some_and(|processors| processors < 1.0) {
            return Err(self.0.slip(start_of(table, "processors"), "`processors` takes a number from 1"));
        }
        Ok(Some(MachineCosts {
            hand_over_ns: self.0.number(table, "hand_over_ns")?.unwrap_or(0.0),
            round_trip_ns: self.0.number(table, "round_trip_ns")?.unwrap_or(0.0),
            taken: taken.collect(),
            workers: self.interruptions(table, "worker_runs", "worker_stops")?,
            dispatcher: self.interruptions(table, "dispatcher_runs", "dispatcher_stops")?,
            host: DescribedHost::read(|key| self.0.number(table, key), |key| self.pairs(table, key, 0.0))?,
        }))
    }

    /// Runs and stops, of which there are both or neither.
    fn interruptions(&self, table: &DeTable<'_>, runs: &str, stops: &str) -> Result<Interruptions, TextError> {
        let lengths = |key: &str| -> Result<Vec<(u64, u64)>, TextError> {
            Ok(self.pairs(table, key, 1.0)?.into_iter().map(|(ns, count)| (ns as u64, count as u64)).collect())
        };
        let interruptions = Interruptions { runs: lengths(runs)?, stops: lengths(stops)? };
        for (key, missing, is_missing) in [
            (runs, stops, interruptions.stops.is_empty() && !interruptions.runs.is_empty()),
            (stops, runs, interruptions.runs.is_empty() && !interruptions.stops.is_empty()),
        ] {
            if is_missing {
                return Err(self
                    .0
                    .slip(start_of(table, key), &format!("`{key}` without `{missing}`: give both, or neither")));
            }
        }
        Ok(interruptions)
    }

    /// Returns pairs of numbers not below `least`; empty where the key is missing.
    fn pairs(&self, table: &DeTable<'_>, key: &str, least: f64) -> Result<Vec<(f64, f64)>, TextError> {
        let Some(value) = table.get(key) else { return Ok(Vec::new()) };
        let wrong = |start: usize| {
            self.0.slip(start, &format!("`{key}` has pairs of numbers from {least}, [[1000, 3]] for example"))
        };
        let DeValue::Array(pairs) = value.get_ref() else { return Err(wrong(value.span().start)) };
        let pair = |pair: &Spanned<DeValue<'_>>| {
            let start = pair.span().start;
            let DeValue::Array(values) = pair.get_ref() else { return Err(wrong(start)) };
            match &values.iter().filter_map(|value| number(value.get_ref())).collect::<Vec<_>>()[..] {
                &[one, other] if values.len() == 2 && one >= least && other >= least => Ok((one, other)),
                _ => Err(wrong(start)),
            }
        };
        pairs.iter().map(pair).collect()
    }

    /// The specification of the service that a table of this name is of.
    fn key(&self, name: &Spanned<impl AsRef<str>>) -> Result<String, TextError> {
        let spec: Result<Named, LabError> = name.get_ref().as_ref().parse().map_err(LabError::from);
        spec.and_then(|spec| cost_key(&spec)).map_err(|error| self.0.slip(name.span().start, &error.to_string()))
    }

    fn service(&self, name: &Spanned<impl AsRef<str>>, value: &Spanned<DeValue<'_>>) -> Result<CostLine, TextError> {
        let (name, start) = (name.get_ref().as_ref(), name.span().start);
        let DeValue::Table(table) = value.get_ref() else {
            return Err(self.0.slip(start, &format!("`{name}` is a table: [services.{name}] and its keys below")));
        };
        self.0.keys(table, "key of a service", &SERVICE_KEYS)?;
        let Some(fixed_ns) = self.0.number(table, "fixed_ns")? else {
            return Err(self.0.slip(start, &format!("`{name}` has no `fixed_ns`: give the time of a packet, in ns")));
        };
        Ok(CostLine {
            fixed_ns,
            per_byte_ns: self.0.number(table, "per_byte_ns")?.unwrap_or(0.0),
            cold_ns: self.0.number(table, "cold_ns")?.unwrap_or(0.0),
            per_batch_ns: self.0.number(table, "per_batch_ns")?.unwrap_or(0.0),
            expansion: self.0.number(table, "expansion")?,
            source: self.0.source(table)?,
            origin: Origin::Given,
        })
    }
}

/// Where the value of a key begins.
fn start_of(table: &DeTable<'_>, key: &str) -> usize {
    table.get(key).map_or(0, |value| value.span().start)
}

#[cfg(test)]
mod tests {
    use humpyard_core::cost::LinearCost;
    use humpyard_sim::HostCosts;

    use super::*;

    fn slip(text: &str) -> String {
        Costs::parse("c.toml", text).unwrap_err().to_string()
    }

    #[test]
    fn files_are_read_as_written() {
        let line = CostLine { fixed_ns: 151.3, per_byte_ns: 0.0906, cold_ns: 20.0, ..CostLine::default() };
        let costs = Costs {
            name: "c.toml".to_owned(),
            source: "a \"machine\"\nof two lines \u{1}".to_owned(),
            switch_upper_ns: Some(4100.5),
            moves: MovePenalties { shared_l2: 50, same_socket: 0, other_socket: 450 },
            lines: BTreeMap::from([
                ("encrypt".to_owned(), CostLine { expansion: Some(1.25), ..line.clone() }),
                ("encrypt:cipher=cast-128".to_owned(), CostLine { fixed_ns: 1.0 / 3.0, ..line.clone() }),
                ("fec".to_owned(), CostLine { per_batch_ns: 800.5, ..line.clone() }),
                ("firewall:rules=deny+tcp".to_owned(), CostLine { source: "by \"hand\"".to_owned(), ..line }),
            ]),
            machine: Some(MachineCosts {
                hand_over_ns: 1480.5,
                round_trip_ns: 84.5,
                taken: vec![Taken { part: 0.02, at_once: Duration::from_micros(500) }],
                workers: Interruptions { runs: vec![(4_000_000, 3)], stops: vec![(1_500, 2), (90_000, 1)] },
                dispatcher: Interruptions::default(),
                host: Some(DescribedHost {
                    processors: 4,
                    times: HostCosts {
                        turn: 20.5,
                        awake: 1e5,
                        flows: vec![(64, 0.0), (4096, 3.5)],
                        ..HostCosts::default()
                    },
                }),
            }),
        };
        assert_eq!(Costs::parse("c.toml", &costs.text()).unwrap(), costs);
        assert_eq!(costs.cost("encrypt").unwrap(), LinearCost { fixed: 151, per_byte_milli: 91, cold: 20 });
    }

    #[test]
    fn a_service_is_known_by_the_parameters_that_change_its_cost() {
        let file = |spec: &str| Costs::parse("c.toml", &format!("version = 1\n[services.\"{spec}\"]\nfixed_ns = 5\n"));
        for (spec, key) in [
            ("encrypt:cipher=aes-128-gcm", "encrypt"),
            ("encrypt:spi=300,cipher=cast-128", "encrypt:cipher=cast-128"),
            ("v4-v6-tcp", "v4-v6-tcp"),
        ] {
            assert_eq!(file(spec).unwrap().lines.keys().collect::<Vec<_>>(), [key]);
        }
        let said = |spec: &str| file(spec).unwrap_err().to_string();
        assert!(said("encrypt:cipher=des").starts_with("c.toml:2:11: encrypt: `cipher` takes one of"));
        assert!(said("v4-v6-tcp:mtu=9").starts_with("c.toml:2:11: no service `v4-v6-tcp`"));
        let twice = "version = 1\n[services.encrypt]\nfixed_ns = 5\n[services.\"encrypt:spi=300\"]\nfixed_ns = 5\n";
        let said = slip(twice);
        assert!(said.contains("`encrypt:spi=300` has the line of `encrypt`, which is there already"), "{said}");
    }

    #[test]
    fn slips_have_their_place() {
        let good = "version = 1\n[services.forward]\nfixed_ns = 5\n";
        assert_eq!(Costs::parse("c.toml", good).unwrap().lines["forward"].cost().work(100), 5);
        assert!(slip("version = \n").starts_with("c.toml:1:"));
        assert_eq!(
            slip("version = 2\n"),
            "c.toml:1:11: `version` is 1 here; measure again with this version of humpyard"
        );
        assert!(slip("[services]\n").contains("no cost file: it has no `version = 1`"));
        assert!(slip("version = 1\n").contains("there is no service in it"));
        assert!(
            slip("version = 1\nservice = 3\n")
                .starts_with("c.toml:2:1: no key of a cost file `service`; did you mean `services`?")
        );
        assert!(
            slip(&format!("{good}[moves]\nshared = 1\n"))
                .starts_with("c.toml:5:1: no key of moves `shared`; did you mean `shared_l2`?")
        );
        assert!(
            slip(&format!("{good}[moves]\nsame_socket = 1001\n"))
                .starts_with("c.toml:5:15: `same_socket` is a part of the work")
        );
        assert!(slip(&format!("moves = 3\n{good}")).starts_with("c.toml:1:9: `moves` is a table"));
        assert!(slip(&format!("{good}[machine]\nrun = 1\n")).starts_with("c.toml:5:1: no key of machine `run`"));
        for pairs in ["3", "[3]", "[[3]]", "[[1, 2, 3]]", "[[1, -2]]"] {
            let said = slip(&format!("{good}[machine]\ntaken = {pairs}\n"));
            assert!(said.contains("`taken` has pairs of numbers from 0"), "{pairs}: {said}");
        }
        for (keys, place, words) in [
            ("taken = [[0.5, 3], [1, 3]]", 9, "`taken` begins each pair with a part of the time, from 0 to below 1"),
            ("worker_runs = [[0, 10]]\nworker_stops = [[5, 1]]", 16, "`worker_runs` has pairs of numbers from 1"),
            ("dispatcher_stops = [[0.5, 1]]", 21, "`dispatcher_stops` has pairs of numbers from 1"),
            ("worker_runs = [[10, 1]]", 15, "`worker_runs` without `worker_stops`: give both, or neither"),
            ("worker_stops = [[10, 1]]", 16, "`worker_stops` without `worker_runs`"),
        ] {
            let said = slip(&format!("{good}[machine]\n{keys}\n"));
            assert!(said.starts_with(&format!("c.toml:5:{place}: ")) && said.contains(words), "{said}");
        }
        let said = slip(&format!("{good}[machine]\nprocessors = 0\n"));
        assert_eq!(said, "c.toml:5:14: `processors` takes a number from 1");
        assert!(slip(&good.replace("fixed_ns", "fixed")).starts_with("c.toml:3:1: no key of a service `fixed`"));
        assert!(slip(&good.replace("= 5", "= -5")).starts_with("c.toml:3:12: `fixed_ns` takes a number from 0"));
        assert!(slip(&good.replace("= 5", "= nan")).starts_with("c.toml:3:12: `fixed_ns` takes a number"));
        assert!(slip(&good.replace("= 5", "= \"5\"")).starts_with("c.toml:3:12: `fixed_ns` takes a number"));
        assert!(
            slip(&good.replace("fixed_ns = 5", "cold_ns = 5")).starts_with("c.toml:2:11: `forward` has no `fixed_ns`")
        );
    }
}
