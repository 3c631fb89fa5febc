//! A progress bar, where someone can see it.

use std::io::{IsTerminal, stderr};

use indicatif::{ProgressBar, ProgressStyle};

/// A progress bar on the standard error, if that is a terminal.
pub(crate) struct Progress {
    bar: ProgressBar,
}

/// Steps of a full bar.
const STEPS: u64 = 1000;

impl Progress {
    pub(crate) fn new(label: &str, quiet: bool) -> Self {
        if quiet || !stderr().is_terminal() {
            return Self { bar: ProgressBar::hidden() };
        }
        let bar = ProgressBar::new(STEPS);
        if let Ok(style) = ProgressStyle::with_template("{prefix:20} {wide_bar} {msg:>18} {eta:>6}") {
            bar.set_style(style);
        }
        bar.set_prefix(label.to_owned());
        Self { bar }
    }

    pub(crate) fn update(&self, packets: u64, part: Option<f64>) {
        self.bar.set_message(format!("{packets} packets"));
        match part {
            Some(part) => self.bar.set_position((part * STEPS as f64) as u64),
            None => self.bar.tick(),
        }
    }

    pub(crate) fn relabel(&self, label: &str) {
        self.bar.set_prefix(label.to_owned());
        self.bar.set_position(0);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
