//! What `confirm_codetag.rs` has, for allocators that track nothing.

use crate::report::Report;

#[derive(Debug)]
pub(crate) struct Held;

impl Held {
    pub(crate) fn new() -> Self {
        Self
    }

    pub(crate) fn print(&self, when: &str, report: &mut Report) {
        report.line(format_args!("state:{when}"), "none");
        report.line(format_args!("tracked_objs:{when}"), 0);
        report.line(format_args!("tracked_bytes:{when}"), 0);
    }
}

pub(crate) fn enable() -> Result<(), &'static str> {
    Err("this allocator has no tags")
}

pub(crate) fn print_memory(_: &mut Report) {}

pub(crate) fn at_peak() {}

pub(crate) fn watch_peak(run: &mut dyn FnMut(), _: &mut Report) {
    run();
}

pub(crate) fn print_heap(_: &str, _: &mut Report) -> Result<(), String> {
    Err("this allocator does not say what it keeps".to_owned())
}

pub(crate) fn shrink() {}
