//! A bar on stderr, where that is a terminal, and nothing elsewhere.

use indicatif::{ProgressBar, ProgressStyle};
use std::time::Duration;

/// One stretch of work, of a known number of steps. Gone when it is dropped.
#[derive(Debug)]
pub struct Progress(ProgressBar);

impl Progress {
    /// `steps` of `what`.
    pub fn new(what: &str, steps: usize) -> Self {
        let bar = ProgressBar::new(steps as u64).with_message(what.to_owned());
        if let Ok(style) = ProgressStyle::with_template("{msg} {wide_bar} {pos}/{len} {eta}") {
            bar.set_style(style);
        }
        bar.enable_steady_tick(Duration::from_millis(200));
        Self(bar)
    }

    /// One step is done.
    pub fn step(&self) {
        self.0.inc(1);
    }

    /// What is done now.
    pub fn say(&self, what: &str) {
        self.0.set_message(what.to_owned());
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
