//! `top`: watches a live run.

use core::time::Duration;
use std::io::{IsTerminal, stdout};
use std::process::ExitCode;
use std::thread;
use std::time::Instant;

use humpyard::lab::metrics::{FetchError, Snapshot, fetch};
use humpyard::lab::parse_duration;
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use crate::arguments::TopArguments;
use crate::failure::Failure;
use crate::layout::width;
use crate::output;
use crate::top::{Column, View, draw, plain};

/// Looking more often says less and costs the run more.
const INTERVAL_MIN: Duration = Duration::from_millis(100);
/// What there is to do.
const KEYS: &str = "q ends   p pauses";
const SORT_KEYS: &str = "   left and right: sort services";

/// `humpyard top`.
pub(crate) fn top(arguments: &TopArguments) -> Result<ExitCode, Failure> {
    let interval = parse_duration(&arguments.interval).map_err(|error| Failure::new(format!("--interval: {error}")))?;
    if interval < INTERVAL_MIN {
        return Err(Failure::new("--interval: give 100ms at least"));
    }
    let first = fetch(&arguments.address).map_err(|error| remedy(&error))?;
    if arguments.json {
        output::print_json(&first)?;
        return Ok(ExitCode::SUCCESS);
    }
    if arguments.once {
        return once(&arguments.address, &first, interval);
    }
    if !stdout().is_terminal() {
        return Err(Failure::new("top needs a terminal: --once prints one screen, --json one snapshot"));
    }
    let mut terminal = ratatui::try_init()?;
    let watched = watch(&mut terminal, &arguments.address, first, interval);
    ratatui::restore();
    output::say(&format!("humpyard: {}", watched?.said(&arguments.address)));
    Ok(ExitCode::SUCCESS)
}

/// Why there is nothing to watch, and what to do.
fn remedy(error: &FetchError) -> Failure {
    match error {
        FetchError::Unreachable { address, .. } => Failure::new(format!(
            "no run serves metrics at {address}: start one with `humpyard run --metrics {address} ...`, or give its address"
        )),
        _ => Failure::new(error.to_string()),
    }
}

/// One interval as text; where the run ends before it is over, all of the run so far.
fn once(address: &str, first: &Snapshot, interval: Duration) -> Result<ExitCode, Failure> {
    thread::sleep(interval);
    let view = match fetch(address) {
        Ok(now) if now.process == first.process => View::between(first, &now),
        _ => View::between(&Snapshot::default(), first),
    };
    let mut view = view;
    view.sort(Column::Rate);
    output::print(&plain(&view, Column::Rate, u16::try_from(width()).unwrap_or(u16::MAX)))?;
    Ok(ExitCode::SUCCESS)
}

/// How watching ended.
enum End {
    /// The user had enough.
    Left,
    /// The run is over.
    Over,
}

impl End {
    fn said(&self, address: &str) -> String {
        match self {
            Self::Left => format!("the run at {address} goes on"),
            Self::Over => format!("the run at {address} is over"),
        }
    }
}

/// What the keys have chosen.
struct Chosen {
    column: Column,
    paused: bool,
}

/// Watches until the user or the run ends it.
fn watch(terminal: &mut DefaultTerminal, address: &str, first: Snapshot, interval: Duration) -> Result<End, Failure> {
    let mut chosen = Chosen { column: Column::Rate, paused: false };
    let mut view = View::between(&Snapshot::default(), &first);
    let mut last = first;
    let mut note = "";
    let mut next = Instant::now() + interval;
    loop {
        view.sort(chosen.column);
        let sorts = if view.has_services { SORT_KEYS } else { "" };
        let said = format!("{KEYS}{sorts}{}{note}", if chosen.paused { "   paused" } else { "" });
        terminal.draw(|frame| draw(&view, chosen.column, &said, frame.area(), frame.buffer_mut()))?;
        if wait_for_key(&mut chosen, next)? {
            return Ok(End::Left);
        }
        if Instant::now() < next {
            continue;
        }
        next = Instant::now() + interval;
        if chosen.paused {
            continue;
        }
        match fetch(address) {
            Ok(now) if now.process == last.process => {
                view = View::between(&last, &now);
                last = now;
                note = "";
            }
            Err(FetchError::Late(_)) => note = "   the run does not answer",
            Ok(_) | Err(_) => return Ok(End::Over),
        }
    }
}

/// Waits for a key, or until then; true if it ends everything. A change of the size is drawn at once, too.
fn wait_for_key(chosen: &mut Chosen, until: Instant) -> Result<bool, Failure> {
    if !event::poll(until.saturating_duration_since(Instant::now()))? {
        return Ok(false);
    }
    let Event::Key(KeyEvent { code, modifiers, kind: KeyEventKind::Press, .. }) = event::read()? else {
        return Ok(false);
    };
    match code {
        KeyCode::Char('q') | KeyCode::Esc => return Ok(true),
        KeyCode::Char('c') if modifiers.contains(KeyModifiers::CONTROL) => return Ok(true),
        KeyCode::Char('p') => chosen.paused = !chosen.paused,
        KeyCode::Left => chosen.column = chosen.column.moved(-1),
        KeyCode::Right => chosen.column = chosen.column.moved(1),
        _ => {}
    }
    Ok(false)
}
