//! A progress bar, where someone can see it.

use core::cell::Cell;
use core::sync::atomic::{AtomicBool, Ordering};
use std::io::{IsTerminal, stderr};
use std::rc::Rc;
use std::time::{Duration, Instant};

use humpyard::frame::Frame;
use humpyard::traffic::TrafficError;
use humpyard::traffic::source::Source;
use indicatif::{ProgressBar, ProgressStyle};

use crate::caller::{self, Caller};
use crate::figures::{packet_rate, percent};
use crate::output;
use crate::visible::visible;

/// A progress bar on the standard error, if that is a terminal: how far, how many packets, how fast, how long to go.
pub(crate) struct Progress {
    bar: ProgressBar,
    started: Cell<Instant>,
    /// Whether it is known how far it is.
    measured: Cell<bool>,
    /// How busy the dispatcher is, where there is one and that is known.
    busy: Cell<Option<f64>>,
    /// When the next line is due, where the standard error is no terminal. `None`: no lines are asked for.
    next_line: Cell<Option<Instant>>,
    /// Who hears of it instead.
    caller: Option<Rc<dyn Caller>>,
}

/// Time until the first line where there is no bar, and between two lines.
const FIRST_LINE: Duration = Duration::from_secs(20);
const LINES: Duration = Duration::from_secs(60);

/// Steps of a full bar.
const STEPS: u64 = 1000;
/// Where it is known how much there is to do.
const MEASURED: &str = "{prefix:24} {wide_bar} {msg:>32}  {eta:>6} to go";
/// Where it is not.
const OPEN: &str = "{prefix:24} {spinner} {msg:>32}  for {elapsed}";

impl Progress {
    pub(crate) fn new(label: &str, quiet: bool) -> Self {
        let caller = caller::caller();
        let has_bar = !quiet && caller.is_none() && stderr().is_terminal();
        let bar = if has_bar { ProgressBar::new(STEPS) } else { ProgressBar::hidden() };
        let now = Instant::now();
        let progress = Self {
            bar,
            started: Cell::new(now),
            measured: Cell::new(true),
            busy: Cell::new(None),
            next_line: Cell::new((!quiet && !has_bar && caller.is_none()).then(|| now + FIRST_LINE)),
            caller,
        };
        progress.style(MEASURED);
        progress.bar.set_prefix(visible(label).into_owned());
        progress
    }

    /// Shows the packets so far, and the part of all (0 to 1) if that is known.
    pub(crate) fn update(&self, packets: u64, part: Option<f64>) {
        self.show(packets, "packets", part, packet_rate);
    }

    /// Shows the count of something else so far.
    pub(crate) fn count(&self, count: u64, what: &str, part: Option<f64>) {
        self.show(count, what, part, |rate| format!("{rate:.0}/s"));
    }

    fn show(&self, count: u64, what: &str, part: Option<f64>, rate: impl Fn(f64) -> String) {
        if let Some(caller) = &self.caller {
            let label = self.bar.prefix();
            caller.progress(count, part, if label.is_empty() { what } else { &label });
        }
        if self.bar.is_hidden() {
            self.say_line(count, what, part);
            return;
        }
        if self.measured.replace(part.is_some()) != part.is_some() {
            self.style(if part.is_some() { MEASURED } else { OPEN });
        }
        if count == 0 {
            // A second reading of the same input, or a run that begins.
            self.started.set(Instant::now());
            self.bar.reset_eta();
        }
        let seconds = self.started.get().elapsed().as_secs_f64();
        let rate = if seconds > 0.0 { rate(count as f64 / seconds) } else { String::new() };
        self.bar.set_message(match self.busy.get() {
            Some(busy) => format!("{rate}, dispatcher {} busy", percent(busy)),
            None => format!("{count} {what}, {rate}"),
        });
        match part {
            Some(part) => self.bar.set_position((part * STEPS as f64) as u64),
            None => self.bar.tick(),
        }
    }

    /// Prints a line where no bar can be seen, at most one a minute, so that long work is not silent.
    fn say_line(&self, count: u64, what: &str, part: Option<f64>) {
        let now = Instant::now();
        if self.next_line.get().is_none_or(|due| now < due) {
            return;
        }
        self.next_line.set(Some(now + LINES));
        let prefix = self.bar.prefix();
        let label = if prefix.is_empty() { String::new() } else { format!("{prefix}: ") };
        let done = part.map_or(String::new(), |part| format!(" ({} done)", percent(part)));
        output::say(&format!("humpyard: {label}{count} {what} so far{done}"));
    }

    /// This part of the time the dispatcher is busy, where that is known.
    pub(crate) fn busy(&self, fraction: Option<f64>) {
        self.busy.set(fraction);
    }

    /// Prints a line on the standard error, above the bar.
    pub(crate) fn say(&self, text: &str) {
        self.bar.suspend(|| output::say(text));
    }

    /// The next piece of the work begins.
    pub(crate) fn relabel(&self, label: &str) {
        self.bar.set_prefix(visible(label).into_owned());
        self.bar.reset();
        self.started.set(Instant::now());
    }

    /// As [`Self::relabel`], unless it is called so already.
    pub(crate) fn relabel_if_new(&self, label: &str) {
        if self.bar.prefix() != label {
            self.relabel(label);
        }
    }

    fn style(&self, template: &str) {
        if let Ok(style) = ProgressStyle::with_template(template) {
            self.bar.set_style(style);
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// A source whose reading is seen.
pub(crate) struct Watched<'a> {
    pub(crate) source: &'a mut dyn Source,
    pub(crate) progress: &'a Progress,
    packets: u64,
    stop: Option<&'a AtomicBool>,
}

impl<'a> Watched<'a> {
    pub(crate) fn new(source: &'a mut dyn Source, progress: &'a Progress) -> Self {
        Self { source, progress, packets: 0, stop: None }
    }

    /// It ends as soon as this is set.
    pub(crate) fn until(self, stop: &'a AtomicBool) -> Self {
        Self { stop: Some(stop), ..self }
    }
}

/// How often progress is told, in packets.
const EVERY: u64 = 1 << 14;

impl Source for Watched<'_> {
    fn next(&mut self, frame: &mut Frame) -> Result<bool, TrafficError> {
        if self.packets.is_multiple_of(EVERY) {
            self.progress.update(self.packets, self.source.progress());
        }
        self.packets += 1;
        let is_over = self.stop.is_some_and(|stop| stop.load(Ordering::Relaxed));
        Ok(!is_over && self.source.next(frame)?)
    }

    fn description(&self) -> &str {
        self.source.description()
    }

    fn progress(&self) -> Option<f64> {
        self.source.progress()
    }
}
