//! Topologies in files.

use std::fmt::Write;
use std::io;

use humpyard_core::id::{CoreId, Id};
use humpyard_core::name::unknown;
use humpyard_core::policy::{Level, LevelKind, Topology};
use toml::Spanned;
use toml::de::{DeArray, DeTable, DeValue};

use super::{CoreTree, Ways, permille, usual_costs};
use humpyard_text::{TextError, TomlFile, quoted, read_text};

/// The version of files that is written and read.
const VERSION: &str = "1";
/// The keys of a file, of a level, and of measurements.
const KEYS: [&str; 6] = ["version", "source", "levels", "cores", "matrix", "measured"];
const LEVEL_KEYS: [&str; 2] = ["kind", "cost"];
const MEASURED_KEYS: [&str; 3] = ["packet_ns", "hand_over_ns", "round_trip_ns"];
/// Default time of a packet, in ns.
pub const PACKET_NS: f64 = 1000.0;

/// Reads a file.
pub(super) fn read(path: &str) -> Result<CoreTree, TextError> {
    let text = read_text(path).map_err(|error| {
        TextError::new(match error.kind() {
            io::ErrorKind::NotFound => format!(
                "{path}: there is no such topology; `humpyard topology machine --output {path}` writes this machine's"
            ),
            io::ErrorKind::InvalidData => format!("{path}: this is no text, so no topology"),
            io::ErrorKind::IsADirectory => format!("{path}: this is a directory; name a file in it"),
            _ => format!("{path}: the topology cannot be read: {error}"),
        })
    })?;
    parse(path, &text)
}

/// Understands the text of a file of this name.
pub(super) fn parse(path: &str, text: &str) -> Result<CoreTree, TextError> {
    let file = File(TomlFile { path, text });
    let table = file.0.table()?;
    let table = table.get_ref();
    file.0.keys(table, "key of a topology", &KEYS)?;
    file.version(table)?;
    let levels = file.levels(table)?;
    let (tree, processors) = file.cores(table, &levels)?;
    let mut read = CoreTree { name: path.to_owned(), source: file.0.source(table)?, tree, processors, ways: None };
    let rows = file.rows(table, "matrix", &read.tree)?;
    if let Some((measured, start)) = file.measured(table, &read.tree)? {
        if rows.is_some() {
            return Err(file.0.slip(start, "`matrix` follows from what is measured: leave one of them out"));
        }
        let permille = measured.permille();
        read.tree = read.tree.with_matrix(&permille).map_err(|error| file.0.slip(start, &error.to_string()))?;
        read.ways = Some(measured);
    }
    if let Some((rows, start)) = rows {
        let cost = |&cost: &f64| permille(cost);
        let rows: Option<Vec<Vec<u32>>> = rows.iter().map(|row| row.iter().map(cost).collect()).collect();
        let rows = rows.ok_or_else(|| file.0.slip(start, "`matrix` takes costs from 1, which staying has, to 1e6"))?;
        read.tree = read.tree.with_matrix(&rows).map_err(|error| file.0.slip(start, &error.to_string()))?;
    }
    Ok(read)
}

/// Returns the text of a file with this tree.
pub(super) fn text(tree: &CoreTree) -> String {
    let mut text = String::from(
        "# Which cores are near each other, from the root down. Use it as: humpyard sim --topology FILE ...\n\
         # A cost is that of talking to a core of another group, where staying costs 1. The numbers in `cores` are processors.\n",
    );
    let source = quoted(&tree.source);
    let _ = writeln!(text, "version = {VERSION}\nsource = {source}\nlevels = [");
    for level in 1..=tree.tree.depth() {
        let (kind, cost) = (tree.tree.kind(level).name(), f64::from(tree.tree.cost_permille(level)) / 1e3);
        let _ = writeln!(text, "    {{ kind = \"{kind}\", cost = {cost:.3} }},");
    }
    let all: Vec<usize> = (0..tree.tree.cores()).collect();
    match fan_outs(tree).filter(|_| tree.processors.is_empty()) {
        Some(fan_outs) => writeln!(text, "]\ncores = \"{fan_outs}\""),
        None => writeln!(text, "]\ncores = {}", nested(tree, &all, 1)),
    }
    .expect("a text takes all that is written");
    match &tree.ways {
        Some(ways) => {
            let _ = writeln!(
                text,
                "\n# In ns: a row for each core in the order of `cores`. Talking costs 1 + hand_over_ns / packet_ns.\n\
                 [measured]\npacket_ns = {:.1}\nhand_over_ns = {}",
                ways.packet_ns,
                rows_text(&ways.hand_over_ns, 1)
            );
            if let Some(round_trip) = &ways.round_trip_ns {
                let _ = writeln!(text, "round_trip_ns = {}", rows_text(round_trip, 1));
            }
        }
        None if tree.tree.has_matrix() => {
            let _ = writeln!(text, "matrix = {}", rows_text(&tree.matrix(), 3));
        }
        None => {}
    }
    text
}

/// Returns a regular tree as its fan-outs, which name no processors: `2x2x2`. `None`: the tree is
/// not regular.
fn fan_outs(tree: &CoreTree) -> Option<String> {
    let tree = &tree.tree;
    let groups = |level: usize| 1 + tree.group(level, CoreId::from_index(tree.cores() - 1));
    let fan_outs: Vec<usize> = (1..=tree.depth()).map(|level| groups(level) / groups(level - 1)).collect();
    let regular = |level: usize| {
        let size = fan_outs[level..].iter().product::<usize>();
        (0..tree.cores()).all(|core| tree.group(level, CoreId::from_index(core)) == core / size)
    };
    let all = (0..=tree.depth()).all(regular) && fan_outs.iter().product::<usize>() == tree.cores();
    all.then(|| fan_outs.iter().map(usize::to_string).collect::<Vec<_>>().join("x"))
}

/// The cores of one group, in arrays within arrays down to the last level.
fn nested(tree: &CoreTree, cores: &[usize], level: usize) -> String {
    let parts: Vec<String> = if level == tree.tree.depth() {
        cores.iter().map(|&core| tree.processors.get(core).copied().unwrap_or(core).to_string()).collect()
    } else {
        let group = |core: usize| tree.tree.group(level, CoreId::from_index(core));
        cores.chunk_by(|&a, &b| group(a) == group(b)).map(|cores| nested(tree, cores, level + 1)).collect()
    };
    format!("[{}]", parts.join(", "))
}

fn rows_text(rows: &[Vec<f64>], digits: usize) -> String {
    let row = |row: &Vec<f64>| {
        let values: Vec<String> = row.iter().map(|value| format!("{value:.digits$}")).collect();
        format!("    [{}],\n", values.join(", "))
    };
    format!("[\n{}]", rows.iter().map(row).collect::<String>())
}

/// A file that is read.
#[derive(Clone, Copy)]
struct File<'a>(TomlFile<'a>);

/// Whether a group of the first kind may contain groups of the other. A memory node may be larger
/// or smaller than a socket or a third-level cache.
fn may_hold(wider: LevelKind, narrower: LevelKind) -> bool {
    use LevelKind::{L3, Node, Socket};
    wider < narrower || matches!((wider, narrower), (Node, Socket) | (L3, Node))
}

/// Numbers by row, and their position in the file.
type Rows = (Vec<Vec<f64>>, usize);

impl File<'_> {
    fn version(&self, table: &DeTable<'_>) -> Result<(), TextError> {
        let Some(version) = table.get("version") else {
            return Err(self
                .0
                .slip(0, "this is no topology: it has no `version = 1`; `humpyard topology --output` writes one"));
        };
        match version.get_ref() {
            DeValue::Integer(number) if number.as_str() == VERSION => Ok(()),
            _ => Err(self
                .0
                .slip(version.span().start, "`version` is 1 here; write it again with this version of humpyard")),
        }
    }

    /// The levels, from the root down.
    fn levels(&self, table: &DeTable<'_>) -> Result<Vec<(LevelKind, u32)>, TextError> {
        let example = "`levels` names what the tree is made of, from the root down: [{ kind = \"socket\", cost = 2.0 }, \
                       { kind = \"core\", cost = 1.1 }]";
        let Some(levels) = table.get("levels") else { return Err(self.0.slip(0, example)) };
        let DeValue::Array(levels) = levels.get_ref() else { return Err(self.0.slip(levels.span().start, example)) };
        let mut read: Vec<(LevelKind, Option<u32>)> = Vec::new();
        for level in levels.iter() {
            let (kind, cost) = self.level(level)?;
            if let Some((wider, _)) = read.iter().find(|(above, _)| !may_hold(*above, kind)) {
                let (wider, kind) = (wider.name(), kind.name());
                let text =
                    format!("a {kind} is no part of a {wider}: levels go from the widest to the narrowest, each once");
                return Err(self.0.slip(level.span().start, &text));
            }
            read.push((kind, cost));
        }
        if read.is_empty() {
            return Err(self.0.slip(table.get("levels").map_or(0, |levels| levels.span().start), example));
        }
        let usual = usual_costs(&read.iter().map(|&(kind, _)| kind).collect::<Vec<_>>());
        Ok(read.into_iter().zip(usual).map(|((kind, cost), usual)| (kind, cost.unwrap_or(usual))).collect())
    }

    /// Reads one level, and its cost if it has one.
    fn level(&self, level: &Spanned<DeValue<'_>>) -> Result<(LevelKind, Option<u32>), TextError> {
        let DeValue::Table(table) = level.get_ref() else {
            return Err(self.0.slip(level.span().start, "a level is a table: { kind = \"l2\", cost = 1.4 }"));
        };
        self.0.keys(table, "key of a level", &LEVEL_KEYS)?;
        let Some(kind) = table.get("kind") else {
            return Err(self
                .0
                .slip(level.span().start, "this level has no `kind`: socket, node, l3, l2, core or thread"));
        };
        let start = kind.span().start;
        let DeValue::String(name) = kind.get_ref() else {
            return Err(self.0.slip(start, "`kind` is a name, in quotes: socket, node, l3, l2, core or thread"));
        };
        let found = LevelKind::ALL.into_iter().find(|kind| kind.name() == name.as_ref());
        let known = LevelKind::ALL.map(LevelKind::name).into_iter();
        let found = found.ok_or_else(|| self.0.slip(start, &unknown("kind of level", name, known)))?;
        let Some(cost) = self.0.number(table, "cost")? else { return Ok((found, None)) };
        let start = table.get("cost").map_or(0, |cost| cost.span().start);
        let wrong = || self.0.slip(start, "`cost` is that of leaving a group, where staying costs 1: from 1 to 1e6");
        Ok((found, Some(permille(cost).ok_or_else(wrong)?)))
    }

    /// Reads the tree, and the processors of its cores if it names them.
    fn cores(&self, table: &DeTable<'_>, levels: &[(LevelKind, u32)]) -> Result<(Topology, Vec<usize>), TextError> {
        let depth = levels.len();
        let example = match depth {
            1 => "`cores` has a level: [0, 1, 2, 3], or \"4\"",
            2 => "`cores` has two levels: [[0, 1], [2, 3]], or \"2x2\"",
            _ => {
                "`cores` has as many levels as `levels`, arrays in arrays down to processors [[[0, 1], [2, 3]]], or fan-outs \"1x2x2\""
            }
        };
        let Some(cores) = table.get("cores") else { return Err(self.0.slip(0, example)) };
        let start = cores.span().start;
        let slip = |error: humpyard_core::policy::BuildError| self.0.slip(start, &error.to_string());
        match cores.get_ref() {
            DeValue::String(text) => {
                let fan_outs: Option<Vec<usize>> = text.split('x').map(|part| part.parse().ok()).collect();
                let fan_outs = fan_outs.filter(|fan_outs| fan_outs.len() == depth);
                let fan_outs = fan_outs.ok_or_else(|| self.0.slip(start, example))?;
                let levels: Vec<_> =
                    levels.iter().zip(fan_outs).map(|(&(kind, cost), fan_out)| (kind, fan_out, cost)).collect();
                Ok((Topology::regular_of(&levels).map_err(slip)?, Vec::new()))
            }
            DeValue::Array(array) => {
                let mut leaves =
                    Leaves { groups: vec![Vec::new(); depth], count: vec![0; depth], processors: Vec::new() };
                self.leaves(array, start, 0, &mut leaves, example)?;
                let level = |(&(kind, cost_permille), group)| Level { kind, group, cost_permille };
                let tree = Topology::new(levels.iter().zip(leaves.groups).map(level).collect()).map_err(slip)?;
                Ok((tree, leaves.processors))
            }
            _ => Err(self.0.slip(start, example)),
        }
    }

    /// The cores of an array at a level from 0.
    fn leaves(
        &self,
        array: &DeArray<'_>,
        start: usize,
        level: usize,
        leaves: &mut Leaves,
        example: &str,
    ) -> Result<(), TextError> {
        if array.is_empty() {
            return Err(self.0.slip(start, "a group has at least one core: name it, or leave the group out"));
        }
        let is_last = level + 1 == leaves.groups.len();
        for part in array.iter() {
            let start = part.span().start;
            match part.get_ref() {
                DeValue::Integer(number) if is_last => {
                    let processor = number.as_str().parse::<usize>().ok();
                    let processor = processor.ok_or_else(|| self.0.slip(start, "a processor is a number from 0"))?;
                    if leaves.processors.contains(&processor) {
                        return Err(self
                            .0
                            .slip(start, &format!("processor {processor} is named twice: name each once")));
                    }
                    leaves.add(processor);
                }
                DeValue::Array(array) if !is_last => self.leaves(array, start, level + 1, leaves, example)?,
                _ => return Err(self.0.slip(start, example)),
            }
            leaves.count[level] += 1;
        }
        Ok(())
    }

    /// Reads the measurements, and their position in the file.
    fn measured(&self, table: &DeTable<'_>, tree: &Topology) -> Result<Option<(Ways, usize)>, TextError> {
        let Some(measured) = table.get("measured") else { return Ok(None) };
        let start = measured.span().start;
        let DeValue::Table(table) = measured.get_ref() else {
            return Err(self.0.slip(start, "`measured` is a table: [measured] and its keys below"));
        };
        self.0.keys(table, "key of measured", &MEASURED_KEYS)?;
        let Some((hand_over_ns, start)) = self.rows(table, "hand_over_ns", tree)? else {
            return Err(self
                .0
                .slip(start, "`hand_over_ns` has a row for each core: `humpyard calibrate --matrix` measures it"));
        };
        let packet_ns = self.0.number(table, "packet_ns")?.unwrap_or(PACKET_NS);
        if packet_ns < 1.0 {
            let start = table.get("packet_ns").map_or(start, |value| value.span().start);
            return Err(self.0.slip(start, "`packet_ns` is what a packet takes where it stays, in ns: at least 1"));
        }
        let round_trip_ns = self.rows(table, "round_trip_ns", tree)?.map(|(rows, _)| rows);
        Ok(Some((Ways { hand_over_ns, packet_ns, round_trip_ns }, start)))
    }

    /// Reads a square matrix with a row and a column for each core. `None`: the key is missing.
    fn rows(&self, table: &DeTable<'_>, key: &str, tree: &Topology) -> Result<Option<Rows>, TextError> {
        let Some(value) = table.get(key) else { return Ok(None) };
        let (start, cores) = (value.span().start, tree.cores());
        let wrong = |start: usize| {
            self.0.slip(start, &format!("`{key}` has {cores} rows of {cores} numbers from 0, one for each core"))
        };
        let DeValue::Array(rows) = value.get_ref() else { return Err(wrong(start)) };
        let mut read = Vec::new();
        for row in rows.iter() {
            let DeValue::Array(values) = row.get_ref() else { return Err(wrong(row.span().start)) };
            let number = |value: &Spanned<DeValue<'_>>| {
                let number = match value.get_ref() {
                    DeValue::Integer(number) => number.as_str().parse::<f64>().ok(),
                    DeValue::Float(number) => number.as_str().parse::<f64>().ok(),
                    _ => None,
                };
                number.filter(|number| (0.0..=1e9).contains(number)).ok_or_else(|| wrong(value.span().start))
            };
            let values = values.iter().map(number).collect::<Result<Vec<_>, _>>()?;
            if values.len() != cores {
                return Err(wrong(row.span().start));
            }
            read.push(values);
        }
        if read.len() == cores { Ok(Some((read, start))) } else { Err(wrong(start)) }
    }
}

/// The cores in order, with their group at each level.
struct Leaves {
    groups: Vec<Vec<u16>>,
    /// Groups of each level that are complete.
    count: Vec<usize>,
    processors: Vec<usize>,
}

impl Leaves {
    fn add(&mut self, processor: usize) {
        for (group, &count) in self.groups.iter_mut().zip(&self.count) {
            group.push(u16::try_from(count).unwrap_or(u16::MAX));
        }
        self.processors.push(processor);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "version = 1\nlevels = [{ kind = \"socket\", cost = 2.5 }, { kind = \"l2\" }, { kind = \"core\" }]\n\
                        cores = [[[4, 5], [6]], [[0]]]\n";

    fn slip(text: &str) -> String {
        parse("t.toml", text).unwrap_err().to_string()
    }

    #[test]
    fn files_are_read_as_written() {
        let tree = parse("t.toml", GOOD).unwrap();
        assert_eq!(tree.processors, [4, 5, 6, 0]);
        assert_eq!(tree.matrix()[0], [1.0, 1.1, 1.4, 2.5]);
        assert_eq!(parse("t.toml", &tree.text()).unwrap(), tree);
        let by_hand = CoreTree { source: "a \"machine\"\nof two lines \u{1}".to_owned(), ..tree.clone() };
        assert_eq!(parse("t.toml", &by_hand.text()).unwrap(), by_hand);
        let row = |far: f64| vec![far; 4];
        let mut hand_over_ns = vec![row(100.0), row(100.0), row(100.0), row(100.0)];
        (0..4).for_each(|core| hand_over_ns[core][core] = 0.0);
        let ways = Ways { round_trip_ns: Some(hand_over_ns.clone()), hand_over_ns, packet_ns: 200.0 };
        let measured = tree.with_ways(ways).unwrap();
        let again = parse("t.toml", &measured.text()).unwrap();
        assert_eq!(again, measured);
        assert_eq!(again.matrix()[0], [1.0, 1.5, 1.5, 1.5]);
    }

    #[test]
    fn a_matrix_by_hand_counts() {
        let text = "version = 1\nlevels = [{ kind = \"core\" }]\ncores = \"2\"\nmatrix = [[1, 1.25], [1.25, 1.0]]\n";
        let tree = parse("t.toml", text).unwrap();
        assert_eq!((tree.matrix()[0].clone(), tree.processors.len()), (vec![1.0, 1.25], 0));
        assert_eq!(parse("t.toml", &tree.text()).unwrap(), tree, "it names no processors when it is read again");
        assert!(slip(&text.replace("[1, 1.25]", "[1, 0.25]")).starts_with("t.toml:4:10: `matrix` takes costs from 1"));
        assert!(slip(&text.replace("[1, 1.25]", "[1, 1.5]")).starts_with("t.toml:4:10: a matrix is symmetric"));
        assert!(slip(&text.replace("[1, 1.25]", "[1]")).starts_with("t.toml:4:11: `matrix` has 2 rows of 2 numbers"));
        assert!(slip(&text.replace(", [1.25, 1.0]", "")).starts_with("t.toml:4:10: `matrix` has 2 rows"));
    }

    #[test]
    fn slips_have_their_place() {
        assert!(slip("version = \n").starts_with("t.toml:1:"));
        assert!(slip("").starts_with("t.toml:1:1: this is no topology"));
        assert!(slip(&GOOD.replace("= 1\n", "= 2\n")).starts_with("t.toml:1:11: `version` is 1 here"));
        assert!(
            slip(&GOOD.replace("cores =", "core ="))
                .starts_with("t.toml:3:1: no key of a topology `core`; did you mean `cores`?")
        );
        assert!(slip(&GOOD.replace("\"l2\"", "\"l4\"")).contains("t.toml:2:53: no kind of level `l4`"));
        let upside_down = "version = 1\nlevels = [{ kind = \"core\" }, { kind = \"socket\" }]\ncores = \"2x2\"\n";
        assert!(slip(upside_down).starts_with("t.toml:2:30: a socket is no part of a core"));
        assert!(slip(&upside_down.replace("socket", "core")).starts_with("t.toml:2:30: a core is no part of a core"));
        let nodes = upside_down.replace("core\"", "l3\"").replace("socket\"", "node\"");
        assert!(parse("t.toml", &nodes).is_ok(), "a node may be a part of what shares a cache");
        assert!(slip(&GOOD.replace("cost = 2.5", "cost = 0.5")).contains("`cost` is that of leaving a group"));
        assert!(slip(&GOOD.replace("cost = 2.5", "price = 2.5")).contains("no key of a level `price`"));
        assert!(slip(&GOOD.replace("[[0]]", "[0]")).starts_with("t.toml:3:26: `cores` has as many levels"));
        assert!(slip(&GOOD.replace("[[0]]", "[[4]]")).starts_with("t.toml:3:27: processor 4 is named twice"));
        assert!(slip(&GOOD.replace("[[0]]", "[[]]")).starts_with("t.toml:3:26: a group has at least one core"));
        assert!(
            slip(&GOOD.replace("[[[4, 5], [6]], [[0]]]", "\"2x2\"")).starts_with("t.toml:3:9: `cores` has as many")
        );
        assert!(slip(&format!("{GOOD}[measured]\npacket_ns = 1\n")).contains("`hand_over_ns` has a row for each core"));
        assert!(
            read("none/t.toml").unwrap_err().to_string().contains("`humpyard topology machine --output none/t.toml`")
        );
    }
}
