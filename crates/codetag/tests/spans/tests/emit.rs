//! Reports as events: figures in fields, and a reporter that stops.

#![forbid(unsafe_code)]

use codetag::Snapshot;
use codetag::report::{Reporter, emit};
use codetag_span_tests::{enable, tags_off};
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::panic::{self, AssertUnwindSafe};
use std::sync::mpsc::{self, Sender};
use std::time::Duration;
use tracing::field::{Field, Visit};
use tracing::subscriber::{set_default, with_default};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::layer::{Context, Layer};
use tracing_subscriber::prelude::*;

#[global_allocator]
static ALLOC: codetag::TagAlloc = codetag::TagAlloc::system();

type Fields = BTreeMap<&'static str, String>;

/// Sends the fields of each event; panics when nobody listens.
struct Collect(Sender<Fields>);

struct Visitor(Fields);

impl Visit for Visitor {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.insert(field.name(), format!("{value:?}"));
    }
    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name(), value.to_owned());
    }
}

impl<S: Subscriber> Layer<S> for Collect {
    fn on_event(&self, event: &Event<'_>, _ctx: Context<'_, S>) {
        assert_eq!(event.metadata().target(), "codetag");
        assert_eq!(*event.metadata().level(), Level::INFO);
        let mut visitor = Visitor(Fields::new());
        event.record(&mut visitor);
        self.0.send(visitor.0).expect("somebody listens");
    }
}

#[codetag::alloc_tag(name = "the larger")]
fn larger() -> Vec<u8> {
    vec![0; 300_000]
}

#[codetag::alloc_tag]
fn smaller() -> (Vec<u8>, Vec<u8>) {
    (vec![0; 1_000], vec![0; 2_000])
}

#[test]
fn the_top_tags_are_events_with_fields() {
    enable();
    let _kept = (larger(), smaller());
    let (send, receive) = mpsc::channel();
    with_default(tracing_subscriber::registry().with(Collect(send)), || {
        emit(1);
        emit(2);
    });
    let events: Vec<Fields> = receive.into_iter().collect();
    let messages: Vec<&str> = events.iter().map(|e| e["message"].as_str()).collect();
    let expected: &[&str] = if tags_off() {
        &["heap", "heap"]
    } else {
        &["heap", "tag", "heap", "tag", "tag"]
    };
    assert_eq!(messages, expected);
    let heap = &events[0];
    let obtained: u64 = heap["obtained_bytes"].parse().unwrap();
    assert!(obtained >= Snapshot::take().heap().large_objects_bytes.min(300_000));
    if tags_off() {
        assert_eq!(heap["state"], "tags off");
        return;
    }
    assert_eq!(
        (heap["state"].as_str(), heap["tagged_objs"].as_str()),
        ("on", "3")
    );
    assert_eq!(heap["tagged_bytes"], "303000");
    let first = &events[3];
    let fields = [
        ("rank", "1"),
        ("live_bytes", "300000"),
        ("live_objs", "1"),
        ("slot_bytes", "300000"),
        ("krate", "emit"),
        ("tag_module_path", "emit"),
        ("function", "larger"),
        ("tag_file", file!()),
        ("name", "the larger"),
        ("message", "tag"),
    ];
    for (key, value) in fields {
        assert_eq!(first[key], value, "{key}");
    }
    assert_eq!(first.len(), fields.len() + 1, "and a line: {first:?}");
    assert!(first["tag_line"].parse::<u32>().unwrap() > 1);
    let second = &events[4];
    assert_eq!(
        (second["rank"].as_str(), second["function"].as_str()),
        ("2", "smaller")
    );
    assert_eq!(
        (second["live_bytes"].as_str(), second["live_objs"].as_str()),
        ("3000", "2")
    );
    assert_eq!(second.get("name"), None);
}

#[test]
fn a_reporter_reports_until_it_is_stopped() {
    let (send, receive) = mpsc::channel();
    let default = set_default(tracing_subscriber::registry().with(Collect(send)));
    let reporter = Reporter::start(Duration::from_millis(1), 0).unwrap();
    // The subscriber of the moment when it was started, not of this one.
    drop(default);
    for _ in 0..3 {
        assert_eq!(receive.recv().unwrap()["message"], "heap");
    }
    reporter.stop();
    // The thread is gone and with it the last sender: what was sent is all there is.
    let rest = receive.into_iter().count();
    assert!(rest < 1_000_000);
}

#[test]
fn a_reporter_with_a_long_interval_stops_at_once() {
    let reporter = Reporter::start(Duration::from_secs(1 << 40), 10).unwrap();
    reporter.stop();
    drop(Reporter::start(Duration::MAX, 10).unwrap());
}

#[test]
fn a_panic_of_the_subscriber_is_passed_on_by_stop() {
    let (send, receive) = mpsc::channel();
    drop(receive);
    let _default = set_default(tracing_subscriber::registry().with(Collect(send)));
    let reporter = Reporter::start(Duration::from_nanos(1), 0).unwrap();
    let caught = panic::catch_unwind(AssertUnwindSafe(|| {
        // The first report may not have begun; the interval has passed by the time this one looks.
        while !reporter.is_finished() {
            std::thread::yield_now();
        }
        reporter.stop();
    }));
    let message = caught.expect_err("passed on");
    assert!(
        message
            .downcast_ref::<String>()
            .unwrap()
            .contains("somebody listens")
    );
}
