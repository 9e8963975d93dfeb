//! Runs each program in a child and says what came of it.

use crate::watch;
use libtest_mimic::{Arguments, Failed, Trial};
use std::env;
use std::panic;
use std::process::{self, Child, Command, ExitCode, Output, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

const CHILD: &str = "CODETAG_TEST_PROGRAM";

/// What the child prints last when its function has returned.
const DONE: &str = "program done";

/// How long a program may take before it counts as hung. Generous: machines are shared, and a
/// debug build under a checker is slow.
const HUNG_AFTER: Duration = Duration::from_secs(300);

/// One program.
#[derive(Clone, Copy)]
pub(crate) struct Program {
    /// The test's name: what it shows.
    pub(crate) name: &'static str,
    /// The value of `CODETAG` in the child; unset if none.
    pub(crate) codetag: Option<&'static str>,
    /// What runs in the child. A panic fails the test.
    pub(crate) run: fn(),
    /// What the parent says of the child's output beside its success.
    pub(crate) check: fn(&Output),
    /// Whether every block is kept in the account of `watch`.
    pub(crate) watched: bool,
}

impl Program {
    /// A program that runs with profiling as the default has it and checks itself.
    pub(crate) const fn new(name: &'static str, run: fn()) -> Self {
        Self {
            name,
            codetag: None,
            run,
            check: |_| {},
            watched: false,
        }
    }

    /// The same with `CODETAG=value`.
    pub(crate) const fn with_codetag(self, value: &'static str) -> Self {
        Self {
            codetag: Some(value),
            ..self
        }
    }

    /// The same with every block in the account of `watch`, from the first on.
    pub(crate) const fn watched(self) -> Self {
        Self {
            watched: true,
            ..self
        }
    }

    /// The same with a look at the output by the parent.
    pub(crate) const fn checked_by(self, check: fn(&Output)) -> Self {
        Self { check, ..self }
    }
}

/// The parent: a test per program. The child: the program.
pub(crate) fn main(programs: &[Program]) -> ExitCode {
    if let Ok(name) = env::var(CHILD) {
        let program = programs
            .iter()
            .find(|p| p.name == name)
            .expect("a program of that name");
        if program.watched {
            end_at_first_panic();
        }
        match program.codetag {
            _ if !program.watched => watch::stop(),
            Some("1") if codetag::is_enabled() => watch::turned_on(true),
            _ => {}
        }
        (program.run)();
        println!("{DONE}");
        return ExitCode::SUCCESS;
    }
    watch::stop();
    let trials = programs
        .iter()
        .copied()
        .map(|p| Trial::test(p.name, move || in_child(p)))
        .collect();
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

/// Other threads may be parked until the one that panics lets them go.
pub(crate) fn end_at_first_panic() {
    let says = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        says(info);
        process::exit(101);
    }));
}

/// What runs a program in a process of its own, with `CODETAG` unset.
pub(crate) fn command(name: &str) -> Command {
    let mut command = Command::new(env::current_exe().expect("this program's file"));
    command
        .env(CHILD, name)
        .env_remove("CODETAG")
        .stdin(Stdio::null());
    command
}

fn in_child(program: Program) -> Result<(), Failed> {
    let mut command = command(program.name);
    if let Some(value) = program.codetag {
        command.env("CODETAG", value);
    }
    if program.watched {
        // A printed backtrace takes more blocks than the account has room for.
        command.env("RUST_BACKTRACE", "0");
    }
    let child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let output = output_of(child)?;
    let (out, err) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    if !output.status.success() || !out.contains(DONE) {
        return Err(format!("{}\n--- stdout\n{out}\n--- stderr\n{err}", output.status).into());
    }
    (program.check)(&output);
    Ok(())
}

/// Waits for the child, and kills it when it hangs.
fn output_of(child: Child) -> Result<Output, Failed> {
    let pid = child.id();
    let (done, output) = mpsc::channel();
    let waiter = thread::spawn(move || done.send(child.wait_with_output()));
    let Ok(output) = output.recv_timeout(HUNG_AFTER) else {
        // SAFETY: the child has not been waited for, so the number is still its own.
        unsafe { libc::kill(pid.cast_signed(), libc::SIGKILL) };
        let _ = waiter.join();
        return Err(format!("hung for {HUNG_AFTER:?}").into());
    };
    Ok(output?)
}
