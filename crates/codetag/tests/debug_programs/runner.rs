//! Runs each program in a child and says what came of it.

use crate::armed::{ALLOCATED, RETURNED};
use libtest_mimic::{Arguments, Failed, Trial};
use std::env;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitCode, Output, Stdio};

const CHILD: &str = "CODETAG_TEST_PROGRAM";

/// One program.
#[derive(Clone, Copy)]
pub(crate) struct Program {
    /// The test's name: what it shows.
    pub(crate) name: &'static str,
    /// What runs in the child.
    pub(crate) run: fn(),
    /// What the page must say; none if the program is right, and must end well without a word.
    pub(crate) page: Option<Page>,
}

/// What a page must say.
#[derive(Clone, Copy)]
pub(crate) struct Page {
    /// Behind `codetag: `.
    pub(crate) fault: &'static str,
    /// Lines by label and what each must say, apart from the pointer; with tags off those of tags say so.
    pub(crate) lines: &'static [(&'static str, &'static str)],
}

/// The parent: a test per program. The child: the program.
pub(crate) fn main(programs: &[Program]) -> ExitCode {
    if let Ok(name) = env::var(CHILD) {
        let program = programs.iter().find(|p| p.name == name);
        (program.expect("a program of that name").run)();
        return ExitCode::SUCCESS;
    }
    let trials = programs
        .iter()
        .copied()
        .map(|p| Trial::test(p.name, move || in_child(&p)))
        .collect();
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

fn in_child(program: &Program) -> Result<(), Failed> {
    let output = Command::new(env::current_exe()?)
        .env(CHILD, program.name)
        .env_remove("CODETAG")
        .stdin(Stdio::null())
        .output()?;
    let all = format!(
        "{}\n--- stdout\n{}\n--- stderr\n{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    match output.status.code() {
        Some(ALLOCATED) => return Err(format!("allocated for its page: {all}").into()),
        Some(RETURNED) => return Err(format!("the wrong call returned: {all}").into()),
        _ => {}
    }
    let Some(page) = &program.page else {
        return if output.status.success() && output.stderr.is_empty() {
            Ok(())
        } else {
            Err(all.into())
        };
    };
    check(page, &output).map_err(|says| format!("{says}: {all}").into())
}

fn check(page: &Page, output: &Output) -> Result<(), String> {
    if output.status.signal() != Some(libc::SIGABRT) {
        return Err("did not end by SIGABRT".into());
    }
    let text = String::from_utf8_lossy(&output.stderr);
    if !text.starts_with(&format!("codetag: {}", page.fault))
        || text.matches("codetag: ").count() != 1
    {
        return Err(format!("no page, or more than one, of {:?}", page.fault));
    }
    // What the program says of its pointer it says on stdout.
    let pointer = String::from_utf8_lossy(&output.stdout);
    expect(&text, "pointer", pointer.trim())?;
    for (label, says) in page.lines {
        let is_tag = label.ends_with("by") || *label == "met in";
        expect(
            &text,
            label,
            if is_tag && !crate::figures::has_tags() {
                "tags off"
            } else {
                says
            },
        )?;
    }
    Ok(())
}

/// The line of that label holds what it must.
fn expect(text: &str, label: &str, says: &str) -> Result<(), String> {
    let found = text
        .lines()
        .find_map(|l| l.trim_start().strip_prefix(label)?.strip_prefix(": "));
    match found {
        Some(line) if line.contains(says) => Ok(()),
        _ => Err(format!("the line {label:?} does not say {says:?}")),
    }
}
