//! The command line.

use crate::scale::Scale;
use lexopt::{Arg, Error, Parser, ValueExt};

pub(crate) const USAGE: &str = "\
usage: workload list
       workload time [--only PREFIX] [--quick] [--seed N] [--enable] [--repeats N]
       workload count [--only PREFIX] [--quick] [--seed N] [--enable]
       workload memory [--enable]
       workload hoard [--quick] [--seed N] [--enable]";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    List,
    Time,
    Count,
    Memory,
    Hoard,
}

#[derive(Debug)]
pub(crate) struct Args {
    pub(crate) mode: Mode,
    /// Workloads whose names begin so.
    pub(crate) only: String,
    pub(crate) scale: Scale,
    pub(crate) seed: u64,
    /// Whether profiling is turned on before anything is measured.
    pub(crate) enable: bool,
    /// How often each pattern is timed, and larger workloads in proportion, unless by default.
    pub(crate) repeats: Option<u32>,
}

impl Args {
    pub(crate) fn new(mode: Mode) -> Self {
        Self {
            mode,
            only: String::new(),
            scale: Scale::Full,
            seed: 1,
            enable: false,
            repeats: None,
        }
    }
}

/// # Errors
///
/// One sentence that names the argument which is wrong.
pub(crate) fn parse(mut parser: Parser) -> Result<Args, Error> {
    let mode = match parser.next()? {
        Some(Arg::Value(mode)) => match mode.to_str() {
            Some("list") => Mode::List,
            Some("time") => Mode::Time,
            Some("count") => Mode::Count,
            Some("memory") => Mode::Memory,
            Some("hoard") => Mode::Hoard,
            _ => return Err(format!("unknown mode {:?}", mode.display().to_string()).into()),
        },
        Some(other) => return Err(other.unexpected()),
        None => return Err("a mode is missing".into()),
    };
    let mut args = Args::new(mode);
    let is_measured = matches!(mode, Mode::Time | Mode::Count);
    let runs = is_measured || mode == Mode::Hoard;
    while let Some(arg) = parser.next()? {
        match arg {
            Arg::Long("only") if is_measured => args.only = parser.value()?.string()?,
            Arg::Long("quick") if runs => args.scale = Scale::Quick,
            Arg::Long("seed") if runs => args.seed = parser.value()?.parse()?,
            Arg::Long("repeats") if mode == Mode::Time => match parser.value()?.parse()? {
                0 => return Err("--repeats is at least 1".into()),
                repeats => args.repeats = Some(repeats),
            },
            Arg::Long("enable") if mode != Mode::List => args.enable = true,
            other => return Err(other.unexpected()),
        }
    }
    if !crate::driver::names().any(|name| name.starts_with(&args.only)) {
        return Err(format!("no workload's name begins with {:?}", args.only).into());
    }
    Ok(args)
}
