//! `codetag size` against what a program with real tags says of itself: this test.

#![forbid(unsafe_code)]

use std::process::Command;

#[codetag::alloc_tag]
fn plain() -> Vec<u8> {
    vec![0; 100]
}

#[codetag::alloc_tag(name = "a name of its own")]
fn named<T: Default>() -> Box<T> {
    Box::default()
}

#[test]
fn size_finds_the_tags_that_the_program_lists() {
    assert_eq!((plain().len(), *named::<u32>()), (100, 0));
    let tags: Vec<_> = codetag::tags().collect();
    assert!(tags.len() >= 2 || codetag::state().kind == codetag::StateKind::TagsOff);
    let strings: usize = tags
        .iter()
        // Three separators stand between the four parts.
        .map(|tag| {
            tag.module_path().len()
                + tag.function().len()
                + tag.file().len()
                + tag.name().map_or(0, str::len)
                + 3
        })
        .sum();
    let output = Command::new(env!("CARGO_BIN_EXE_codetag"))
        .args(["size", "--format=json"])
        .arg(std::env::current_exe().expect("a test has a path"))
        .output()
        .expect("codetag runs");
    let rows: serde_json::Value = serde_json::from_slice(&output.stdout).expect("an array of rows");
    for (column, figure) in [
        ("tags", tags.len()),
        (
            "tag_section_bytes",
            size_of::<codetag::CodeTag>() * tags.len(),
        ),
        ("tag_relocs", tags.len()),
        ("tag_reloc_bytes", 24 * tags.len()),
        ("tag_string_bytes", strings),
    ] {
        assert_eq!(rows[0][column], figure, "{column}");
    }
}
