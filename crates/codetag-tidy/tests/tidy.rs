//! The rules over the whole tree, one test each.

#![forbid(unsafe_code)]

use codetag_tidy::lists::{
    GENERATED, LINES_MAX, LONG_FILES, UNFINISHED, UNSAFE_ELSEWHERE, UNSAFE_SHIPPED, USER_CODE,
};
use codetag_tidy::tree::{self, File};
use codetag_tidy::{Fault, manifest, source};

const LISTS: &str = "crates/codetag-tidy/src/lists.rs";

fn none(faults: &[Fault]) {
    let lines: Vec<String> = faults.iter().map(ToString::to_string).collect();
    assert!(
        faults.is_empty(),
        "{} faults:\n{}",
        faults.len(),
        lines.join("\n")
    );
}

fn fault(file: &File, line: usize, says: impl Into<String>) -> Fault {
    Fault {
        path: file.path.clone(),
        line,
        says: says.into(),
    }
}

/// All that is the project's own.
fn rust_files() -> Vec<File> {
    let mut files: Vec<File> = tree::files().into_iter().filter(File::is_rust).collect();
    assert!(
        files.iter().any(|file| file.path == LISTS),
        "the tree was not found"
    );
    files.retain(|file| !USER_CODE.iter().any(|dir| covers(dir, &file.path)));
    files
}

/// Whether a list's entry, a file or a directory ending in `/`, covers `path`.
fn covers(entry: &str, path: &str) -> bool {
    if entry.ends_with('/') {
        path.starts_with(entry)
    } else {
        path == entry
    }
}

#[test]
fn unsafe_is_where_the_lists_say() {
    let mut faults = Vec::new();
    let files: Vec<File> = rust_files()
        .into_iter()
        .filter(|file| source::look(file).has_unsafe)
        .collect();
    for file in &files {
        if UNSAFE_SHIPPED.contains(&file.path.as_str()) {
            if !source::opens_with_safety_model(&file.text) {
                faults.push(fault(file, 1, "has `unsafe` and no `//! # Safety model` in its opening comment: who owns which memory, what does each pointer rely on"));
            }
        } else if !UNSAFE_ELSEWHERE
            .iter()
            .any(|(entry, _)| covers(entry, &file.path))
        {
            let list = if file.path.contains("/src/") {
                "UNSAFE_SHIPPED"
            } else {
                "UNSAFE_ELSEWHERE"
            };
            faults.push(fault(
                file,
                0,
                format!(
                    "has `unsafe` and is not listed; take it out, or add it to {list} in {LISTS}"
                ),
            ));
        }
    }
    for entry in UNSAFE_SHIPPED
        .iter()
        .chain(UNSAFE_ELSEWHERE.iter().map(|(entry, _)| entry))
    {
        if !files.iter().any(|file| covers(entry, &file.path)) {
            let says = format!("has no `unsafe`; take it off the lists in {LISTS}");
            faults.push(Fault {
                path: (*entry).to_owned(),
                line: 0,
                says,
            });
        }
    }
    none(&faults);
}

#[test]
fn files_are_one_idea_long() {
    let mut faults = Vec::new();
    for file in rust_files() {
        let lines = file.text.lines().count();
        match (lines > LINES_MAX, LONG_FILES.iter().any(|(path, _)| *path == file.path)) {
            (true, false) => faults.push(fault(
                &file,
                0,
                format!("has {lines} lines of at most {LINES_MAX}; split it, or add it with its reason to LONG_FILES in {LISTS}"),
            )),
            (false, true) => faults.push(fault(&file, 0, format!("is short again; take it off LONG_FILES in {LISTS}"))),
            _ => {}
        }
    }
    none(&faults);
}

/// No placeholder macros, ignored tests, sleeps, or lints allowed without a reason.
#[test]
fn code_keeps_the_house_rules() {
    let faults: Vec<Fault> = rust_files()
        .iter()
        .flat_map(|file| source::look(file).faults)
        .collect();
    none(&faults);
}

#[test]
fn nothing_is_marked_as_unfinished() {
    let mut faults = Vec::new();
    let is_ours = |file: &File| !GENERATED.contains(&file.path.as_str());
    for file in tree::files().into_iter().filter(is_ours) {
        for (index, line) in file.text.lines().enumerate() {
            let mut words = line.split(|c: char| !c.is_alphanumeric() && c != '_');
            if let Some(word) = words.find(|word| UNFINISHED.contains(word)) {
                faults.push(fault(
                    &file,
                    index + 1,
                    format!("says {word}; finish it, or say what the limit is"),
                ));
            }
        }
    }
    none(&faults);
}

#[test]
fn features_and_allowed_lints_have_comments() {
    let manifests = tree::files().into_iter().filter(File::is_manifest);
    none(
        &manifests
            .flat_map(|file| manifest::comments(&file))
            .collect::<Vec<_>>(),
    );
}

#[test]
fn rooms_depend_one_way() {
    let manifests = tree::files().into_iter().filter(File::is_manifest);
    none(
        &manifests
            .flat_map(|file| manifest::rooms(&file))
            .collect::<Vec<_>>(),
    );
}
