//! Text that fits the terminal: tables and lines are broken between words.

use core::fmt;
use std::env;
use std::io::stdout;

use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{CellAlignment, ContentArrangement, Table};
use rustix::termios::tcgetwinsize;

/// Characters of a line where nothing says how many there is room for.
const USUAL_WIDTH: usize = 80;
/// Narrower text cannot be read.
const WIDTH_MIN: usize = 40;

/// Characters of a line: what `COLUMNS` says, else as many as the terminal has, else 80.
pub(crate) fn width() -> usize {
    let said = env::var("COLUMNS").ok().and_then(|text| text.parse().ok());
    let of_terminal =
        || tcgetwinsize(stdout()).ok().map(|size| usize::from(size.ws_col)).filter(|&columns| columns > 0);
    let width = said.or_else(of_terminal);
    width.unwrap_or(USUAL_WIDTH).max(WIDTH_MIN)
}

/// A table. Shown, it is as wide as [`width`] at most: text wraps between words; where that is not enough the columns go into
/// several tables, each with the first column.
#[derive(Clone, Debug)]
pub(crate) struct Sheet {
    headings: Vec<String>,
    rows: Vec<Vec<String>>,
    /// Where text stands in all columns but the first.
    alignment: CellAlignment,
}

impl Sheet {
    /// An empty table of figures with these headings: all columns but the first stand to the right.
    pub(crate) fn of_figures(headings: &[&str]) -> Self {
        Self::new(headings, CellAlignment::Right)
    }

    /// An empty table of text with these headings.
    pub(crate) fn of_text(headings: &[&str]) -> Self {
        Self::new(headings, CellAlignment::Left)
    }

    fn new(headings: &[&str], alignment: CellAlignment) -> Self {
        let headings = headings.iter().map(|&heading| heading.to_owned()).collect();
        Self { headings, rows: Vec::new(), alignment }
    }

    /// Adds a row, with a cell for each heading.
    pub(crate) fn add_row<T: Into<String>>(&mut self, row: impl IntoIterator<Item = T>) {
        self.rows.push(row.into_iter().map(Into::into).collect());
    }

    /// The text of this width at most, if there are tables of it that are no wider.
    fn text(&self, width: usize) -> String {
        let columns: Vec<Extent> = (0..self.headings.len()).map(|column| self.extent(column)).collect();
        let tables = arrange(&columns, width).into_iter().map(|columns| self.table(&columns).to_string());
        tables.collect::<Vec<_>>().join("\n")
    }

    fn extent(&self, column: usize) -> Extent {
        let cells = self.rows.iter().filter_map(|row| row.get(column)).chain([&self.headings[column]]);
        cells.map(|cell| Extent::of(cell)).fold(Extent::default(), Extent::max)
    }

    /// A table of these columns, each of its width at most.
    fn table(&self, columns: &[(usize, usize)]) -> Table {
        let row = |cells: &[String]| -> Vec<String> {
            let cell = |&(column, width): &(usize, usize)| {
                wrap(cells.get(column).map_or("", String::as_str), width).join("\n")
            };
            columns.iter().map(cell).collect()
        };
        let mut table = Table::new();
        table.load_style(UTF8_FULL_CONDENSED).set_content_arrangement(ContentArrangement::Disabled);
        table.set_header(row(&self.headings));
        for column in table.column_iter_mut().skip(1) {
            column.set_cell_alignment(self.alignment);
        }
        self.rows.iter().for_each(|cells| {
            table.add_row(row(cells));
        });
        table
    }
}

impl fmt::Display for Sheet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text(width()))
    }
}

/// How wide text is: with all words on a line, and with a word on each.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Extent {
    whole: usize,
    word: usize,
}

impl Extent {
    fn of(text: &str) -> Self {
        let whole = text.lines().map(characters).max().unwrap_or(0);
        let word = text.lines().flat_map(words).map(characters).max().unwrap_or(0);
        Self { whole, word }
    }

    fn max(self, other: Self) -> Self {
        Self { whole: self.whole.max(other.whole), word: self.word.max(other.word) }
    }
}

/// Returns the width that a table of this many columns needs beside the columns themselves: a line before each, one behind the
/// last, and a space on either side of each text.
const fn frame(columns: usize) -> usize {
    3 * columns + 1
}

/// Which columns stand in which table, each with its width: all in one if they fit with a word on each line at least.
fn arrange(columns: &[Extent], width: usize) -> Vec<Vec<(usize, usize)>> {
    let [first, others @ ..] = columns else { return Vec::new() };
    // Whatever stands beside the first column, there is room for both.
    let room = width.saturating_sub(frame(2));
    let widest = others.iter().map(|column| column.word).max().unwrap_or(0).min(room / 2);
    let first = Extent { word: first.word.min(room - widest), ..*first };
    let mut tables = Vec::new();
    let mut table = vec![(0, first)];
    for (column, &extent) in (1..).zip(others) {
        let extent = Extent { word: extent.word.min(room - first.word), ..extent };
        let words: usize = table.iter().map(|(_, extent)| extent.word).sum();
        if table.len() > 1 && words + extent.word + frame(table.len() + 1) > width {
            tables.push(narrowed(&table, width));
            table.truncate(1);
        }
        table.push((column, extent));
    }
    tables.push(narrowed(&table, width));
    tables
}

/// The widths of columns that fit with a word on each line: the widest become narrower until the table is narrow enough.
fn narrowed(columns: &[(usize, Extent)], width: usize) -> Vec<(usize, usize)> {
    let mut widths: Vec<usize> = columns.iter().map(|(_, extent)| extent.whole).collect();
    let mut excess = (widths.iter().sum::<usize>() + frame(columns.len())).saturating_sub(width);
    while excess > 0 {
        let can = widths.iter_mut().zip(columns).filter(|(width, (_, extent))| **width > extent.word);
        let Some((widest, _)) = can.max_by_key(|(width, _)| **width) else { break };
        *widest -= 1;
        excess -= 1;
    }
    columns.iter().map(|(column, _)| *column).zip(widths).collect()
}

/// Breaks lines that are longer than this: between words, with what follows below what the line begins to say. A command goes on
/// behind a backslash, so that it can be copied. Tables are left as they are.
pub(crate) fn fitted(text: &str, width: usize) -> String {
    let lines = text.lines().map(|line| {
        if characters(line) <= width || line.starts_with(|first: char| ('\u{2500}'..='\u{257f}').contains(&first)) {
            line.to_owned()
        } else if line.contains(COMMAND) || line.trim_start().starts_with(COMMAND.trim_start()) {
            command(line, width)
        } else {
            hanging(line, width)
        }
    });
    let fitted = lines.collect::<Vec<_>>().join("\n");
    if text.ends_with('\n') { fitted + "\n" } else { fitted }
}

/// How a command begins in a line.
const COMMAND: &str = " humpyard ";

/// A line with a command, which goes on below, at its options.
fn command(line: &str, width: usize) -> String {
    let indent = line.len() - line.trim_start().len() + 4;
    let mut pieces = line.split(" --");
    let mut lines = vec![pieces.next().unwrap_or_default().to_owned()];
    for piece in pieces {
        let last = lines.last_mut().expect("there is one");
        // With room for the backslash.
        if characters(last) + 3 + characters(piece) + 2 > width {
            last.push_str(" \\");
            lines.push(format!("{}--{piece}", " ".repeat(indent)));
        } else {
            last.push_str(&format!(" --{piece}"));
        }
    }
    lines.join("\n")
}

/// A line whose rest stands below its text: behind the label, where it has one.
fn hanging(line: &str, width: usize) -> String {
    let text = line.trim_start();
    let before = line.len() - text.len();
    let label = text.find("  ").map(|end| end + text[end..].len() - text[end..].trim_start().len());
    let indent =
        [before + label.unwrap_or(0), before, 0].into_iter().find(|&indent| indent < width.div_ceil(2)).unwrap_or(0);
    let (label, text) = line.split_at(indent);
    let lines = wrap_words(text, width - indent, false);
    format!("{label}{}", lines.join(&format!("\n{}", " ".repeat(indent))))
}

/// The lines of text in a column of this width.
fn wrap(text: &str, width: usize) -> Vec<String> {
    text.lines().flat_map(|line| wrap_words(line, width, true)).collect()
}

/// One line as several of this width. A word that is longer is broken if it must be, at a sign if there is one.
fn wrap_words(line: &str, width: usize, must_fit: bool) -> Vec<String> {
    let mut lines = vec![String::new()];
    let pieces =
        words(line).flat_map(|word| if must_fit { pieces(word, width) } else { vec![word] }.into_iter().enumerate());
    for (number, piece) in pieces {
        let last = lines.last_mut().expect("there is one");
        let gap = usize::from(number == 0 && !last.is_empty());
        if !last.is_empty() && characters(last) + gap + characters(piece) > width {
            lines.push(piece.to_owned());
        } else {
            last.push_str(&" ".repeat(gap));
            last.push_str(piece);
        }
    }
    lines
}

/// The words of a line; a number and its unit are one.
fn words(line: &str) -> impl Iterator<Item = &str> {
    let mut rest = line.trim_start_matches(' ');
    core::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let end = rest.find(' ').unwrap_or(rest.len());
        let end = end + unit(&rest[..end], &rest[end..]);
        let (word, after) = rest.split_at(end);
        rest = after.trim_start_matches(' ');
        Some(word)
    })
}

/// How much of the rest of a line is the unit of this number, with the space before it.
fn unit(number: &str, rest: &str) -> usize {
    const UNITS: [&str; 19] = [
        "ns", "us", "ms", "s", "%", "pps", "kpps", "Mpps", "b/s", "kb/s", "Mb/s", "Gb/s", "B", "bytes", "ns/B",
        "packets", "cores", "packet", "core",
    ];
    let Some(next) = rest.strip_prefix(' ').and_then(|rest| rest.split(' ').next()) else { return 0 };
    let bare = next.trim_end_matches([',', ';', '.', ':', ')']);
    let is_number = number.trim_start_matches(['(', '-', '+', '<']).starts_with(|first: char| first.is_ascii_digit());
    if is_number && UNITS.contains(&bare) { 1 + next.len() } else { 0 }
}

/// A word in pieces of this width at most, which end behind a sign where that is possible.
fn pieces(word: &str, width: usize) -> Vec<&str> {
    let mut pieces = Vec::new();
    let mut rest = word;
    while characters(rest) > width.max(1) {
        let end = rest.char_indices().nth(width.max(1)).map_or(rest.len(), |(at, _)| at);
        let at = rest[..end].rfind(['/', ',', ':', '=', ' ', '-', '_']).map_or(end, |sign| sign + 1);
        let (piece, after) = rest.split_at(at);
        pieces.push(piece.trim_end());
        rest = after;
    }
    pieces.push(rest);
    pieces
}

fn characters(text: &str) -> usize {
    text.chars().count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn widest(text: &str) -> usize {
        text.lines().map(characters).max().unwrap_or(0)
    }

    #[test]
    fn words_are_kept_and_numbers_keep_their_units() {
        let found: Vec<&str> = words("  p99 12.3 ms, at most  3 packets (0.1 %) of it").collect();
        assert_eq!(found, ["p99", "12.3 ms,", "at", "most", "3 packets", "(0.1 %)", "of", "it"]);
        assert_eq!(wrap("a delay of 12.3 ms", 10), ["a delay of", "12.3 ms"]);
        assert_eq!(wrap("one\ntwo three", 5), ["one", "two", "three"]);
    }

    #[test]
    fn a_word_that_is_too_long_is_broken_behind_a_sign() {
        assert_eq!(wrap("steer=ps-hrw:beta=0.16/share=gr3", 24), ["steer=ps-hrw:beta=0.16/", "share=gr3"]);
        assert_eq!(wrap("abcdefgh", 3), ["abc", "def", "gh"]);
    }

    #[test]
    fn a_table_that_fits_is_as_it_is() {
        let mut sheet = Sheet::of_figures(&["policy", "delay p50"]);
        sheet.add_row(["drr", "12.3 ms"]);
        let text = sheet.text(80);
        assert!(text.contains("│ drr    ┆   12.3 ms │"), "{text}");
        assert_eq!(text, sheet.text(1000));
    }

    #[test]
    fn text_wraps_where_that_is_enough() {
        let mut sheet = Sheet::of_text(&["name", "summary"]);
        sheet.add_row([
            "drr",
            "each client in turn has its quantum, in bytes or nanoseconds, and keeps what is left of it for later",
        ]);
        let text = sheet.text(50);
        assert!(widest(&text) <= 50 && text.matches('┌').count() == 1, "{text}");
        assert!(text.contains("nanoseconds,"), "{text}");
    }

    #[test]
    fn columns_that_have_no_room_go_into_tables_of_their_own() {
        let headings: Vec<String> = (0..12).map(|at| format!("figure{at}")).collect();
        let headings: Vec<&str> = ["policy"].into_iter().chain(headings.iter().map(String::as_str)).collect();
        let mut sheet = Sheet::of_figures(&headings);
        sheet
            .add_row((0..13).map(|at| if at == 0 { "steer=hrw/share=drr".to_owned() } else { format!("{at}00.5 ms") }));
        let text = sheet.text(80);
        assert!(widest(&text) <= 80, "{text}");
        assert!(text.matches("steer=hrw/share=drr").count() > 1, "{text}");
        assert!((1..13).all(|at| text.matches(&format!(" {at}00.5 ms ")).count() == 1), "{text}");
    }

    #[test]
    fn no_width_is_too_small_for_any_table() {
        let name = "x".repeat(300);
        let mut sheet = Sheet::of_figures(&["policy", &name, "b"]);
        sheet.add_row([name.as_str(), "1", name.as_str()]);
        for width in [WIDTH_MIN, 80, 200] {
            assert!(widest(&sheet.text(width)) <= width);
        }
        assert_eq!(Sheet::of_text(&[]).text(80), "");
    }

    #[test]
    fn lines_go_on_below_their_text() {
        let text = "delay       mean 1.00 us, p50 2.00 us, p90 3.00 us, p99 4.00 us\n";
        let expected = "delay       mean 1.00 us, p50 2.00 us, p90\n            3.00 us, p99 4.00 us\n";
        assert_eq!(fitted(text, 45), expected);
        assert_eq!(fitted(text, 80), text);
        assert_eq!(fitted("one two three", 8), "one two\nthree");
    }

    #[test]
    fn a_command_can_be_copied() {
        let text = "  humpyard run --input in.pcap --policy hrw --workers 8 --rate trace";
        let fitted = fitted(text, 40);
        assert_eq!(fitted, "  humpyard run --input in.pcap \\\n      --policy hrw --workers 8 \\\n      --rate trace");
        let again = fitted.replace(" \\\n     ", "");
        assert_eq!(again, text);
    }
}
