//! Every tag is listed, hit or not, and says where it is.

use codetag::CodeTag;
use codetag_subject_fourteen as _;
use std::collections::HashMap;

fn of_crate(krate: &str) -> impl Iterator<Item = &'static CodeTag> {
    codetag::tags().filter(move |tag| tag.krate() == krate)
}

#[test]
fn all_fourteen_functions_are_listed_once() {
    let mut functions: Vec<_> = of_crate("codetag_subject_fourteen")
        .chain(of_crate("codetag_subject_only_linked"))
        .map(CodeTag::function)
        .collect();
    functions.sort_unstable();
    let due = [
        "Holder::async_method",
        "Holder::method",
        "Holder::required",
        "alloc_hooks",
        "asynchronous",
        "called",
        "dead",
        "default_method",
        "from_c",
        "generic",
        "in_unused_module",
        "nested",
        "only_linked",
        "returns_impl",
    ];
    assert_eq!(functions, due);
}

#[test]
fn a_tag_stands_at_the_name_of_its_function() {
    let text = include_str!("../subjects/fourteen/src/lib.rs");
    let mut seen = 0;
    for tag in of_crate("codetag_subject_fourteen") {
        let line = text.lines().nth(tag.line() as usize - 1).unwrap();
        let name = tag.function().rsplit("::").next().unwrap();
        let at = &line[tag.column() as usize - 1..];
        // A tagged expression stands where its macro is called.
        assert!(
            at.starts_with(name) || at.starts_with("codetag::alloc_hooks!"),
            "{tag:?}: {at}"
        );
        assert!(
            tag.file().ends_with("tests/subjects/fourteen/src/lib.rs"),
            "{tag:?}"
        );
        seen += 1;
    }
    assert_eq!(seen, 13);
}

#[test]
fn parts_of_a_listed_tag() {
    let tags: HashMap<_, _> = of_crate("codetag_subject_fourteen")
        .map(|tag| (tag.function(), tag))
        .collect();
    assert_eq!(tags["returns_impl"].name(), Some("with a name"));
    assert_eq!(tags["called"].name(), None);
    assert_eq!(tags["called"].module_path(), "codetag_subject_fourteen");
    assert_eq!(
        tags["in_unused_module"].module_path(),
        "codetag_subject_fourteen::unused"
    );
    assert_eq!(tags["in_unused_module"].krate(), "codetag_subject_fourteen");
}

macro_rules! function_in_macro {
    ($name:ident) => {
        #[codetag::alloc_tag]
        #[allow(dead_code, reason = "it is listed all the same")]
        fn $name() {}
    };
}
function_in_macro!(named_by_caller);

#[test]
fn a_function_from_a_macro_stands_where_its_name_was_written() {
    let tag = codetag::tags()
        .find(|tag| tag.function() == "named_by_caller")
        .unwrap();
    let line = include_str!("listing.rs")
        .lines()
        .nth(tag.line() as usize - 1)
        .unwrap();
    assert_eq!(&line[tag.column() as usize - 1..], "named_by_caller);");
}

#[test]
fn a_tag_is_32_bytes_in_the_section() {
    assert_eq!(size_of::<CodeTag>(), 32);
    let mut tags = codetag::tags();
    let first = std::ptr::from_ref(tags.next().unwrap()).addr();
    let last = std::ptr::from_ref(codetag::tags().last().unwrap()).addr();
    assert_eq!(last - first, tags.count() * 32);
}
