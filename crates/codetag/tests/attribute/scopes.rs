//! Which tag is current where, for every shape the attribute stands on.

use codetag::alloc_tag;
use std::cell::RefCell;
use std::panic::{self, AssertUnwindSafe};

fn here() -> &'static str {
    codetag::__private::current_function()
}

#[track_caller]
fn assert_all_as_due(observations: &[(&str, String)]) {
    // As many as the list in shapes.rs has: a shape that drops out would go unseen.
    assert_eq!(observations.len(), 84);
    for (due, seen) in observations {
        assert_eq!(due, seen);
    }
}

#[test]
fn every_shape_in_edition_2018() {
    assert_all_as_due(&codetag_subject_2018::observations());
}

#[test]
fn every_shape_in_edition_2021() {
    assert_all_as_due(&codetag_subject_2021::observations());
}

#[test]
fn every_shape_in_edition_2024() {
    assert_all_as_due(&codetag_subject_2024::observations());
}

#[alloc_tag]
fn panics(inner: fn()) {
    inner();
    panic::resume_unwind(Box::new("panics"));
}

#[alloc_tag]
fn outer(seen: &RefCell<Vec<&'static str>>) {
    seen.borrow_mut().push(here());
    let caught = panic::catch_unwind(AssertUnwindSafe(|| {
        panics(|| assert_eq!(here(), "panics"));
    }));
    assert!(caught.is_err());
    seen.borrow_mut().push(here());
}

#[test]
fn panic_restores_the_outer_tag() {
    let seen = RefCell::new(Vec::new());
    outer(&seen);
    assert_eq!(*seen.borrow(), ["outer", "outer"]);
    assert_eq!(here(), "untagged");
}

#[alloc_tag]
fn leaves_early(how: u32) -> Option<u32> {
    for n in 0.. {
        if n == how {
            return Some(n);
        }
        (how < 5).then_some(())?;
    }
    None
}

#[test]
fn early_returns_restore_the_outer_tag() {
    assert_eq!(leaves_early(3), Some(3));
    assert_eq!(here(), "untagged");
    assert_eq!(leaves_early(7), None);
    assert_eq!(here(), "untagged");
}

#[alloc_tag]
fn counts_down(n: u32, seen: &RefCell<Vec<&'static str>>) {
    if n > 0 {
        other(n - 1, seen);
    }
    seen.borrow_mut().push(here());
}

#[alloc_tag]
fn other(n: u32, seen: &RefCell<Vec<&'static str>>) {
    counts_down(n, seen);
    seen.borrow_mut().push(here());
}

#[test]
fn mutual_recursion_restores_each_level() {
    let seen = RefCell::new(Vec::new());
    counts_down(2, &seen);
    let due = [
        "counts_down",
        "other",
        "counts_down",
        "other",
        "counts_down",
    ];
    assert_eq!(*seen.borrow(), due);
}

/// Two closures of one body have one type: the body is emitted once.
#[alloc_tag]
fn returns_closure(twice: bool) -> impl Fn() -> &'static str {
    if twice {
        let inner: &dyn Fn() -> u32 = &|| 1;
        assert_eq!(inner(), 1);
    }
    here
}

#[test]
fn what_runs_later_is_not_in_the_scope() {
    assert_eq!(returns_closure(true)(), "untagged");
}

#[alloc_tag]
fn instance<T>(_: T) -> *const () {
    std::ptr::from_ref(codetag::__private::current_tag()).cast()
}

#[test]
fn instances_of_a_generic_function_share_one_tag() {
    assert_eq!(instance(1u8), instance("text"));
    assert_eq!(instance(1u8), instance(|| 1));
}

#[test]
fn expressions_of_macros_have_tags_of_their_own() {
    let tags = codetag::tags().filter(|tag| tag.file().ends_with("scopes.rs"));
    let before = tags.filter(|tag| tag.function() == "alloc_hooks").count();
    assert_eq!(before, 2);
    let (one, two) = (
        codetag::alloc_hooks!(here()),
        codetag::alloc_hooks!("two", here()),
    );
    assert_eq!((one, two), ("alloc_hooks", "alloc_hooks"));
    let named = codetag::tags()
        .find(|tag| tag.name() == Some("two"))
        .unwrap();
    let text = include_str!("scopes.rs");
    let line = text.lines().nth(named.line() as usize - 1).unwrap();
    let at = line.find("codetag::alloc_hooks!(\"two\"").unwrap();
    assert_eq!(named.column() as usize, at + 1);
}
