//! `codetag overhead`: what codetag costs, for this project's own workloads or for a program that uses it.

use crate::output::Output;
use clap::ValueEnum;
use clap::builder::NonEmptyStringValueParser;
use codetag_overhead::user::{Load, Package, Target};
use codetag_overhead::{chart, child, figures, project, rounds::Scale, tree::Tree, user};
use rustix::process::Signal;
use std::ffi::OsString;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Measure what codetag costs: time, instructions, cache misses, sizes and memory.
///
/// In codetag's own tree, without --manifest-path: its workloads in every configuration and over other allocators,
/// and the budgets. With --manifest-path and --bin: a program of yours that uses codetag, built with tags compiled
/// out and in, and run with tags off, default-off and enabled. CODETAG switches it there, so it must not call
/// codetag::enable() itself. Runs are in turn; keep the machine quiet meanwhile.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    codetag overhead --quick\n  \
    codetag overhead --only small --rows default-off,enabled --format json -o small.json\n  \
    codetag overhead --manifest-path my-svc/Cargo.toml --bin my-svc -- --some argument\n  \
    codetag overhead --manifest-path srv/Cargo.toml --bin srv --ready 127.0.0.1:8080 \\\n    \
    --load 'oha -n 100000 http://127.0.0.1:8080/'\n\n\
    Exit status: 0 every row has figures, 1 some row has none, 2 wrong usage, 130 interrupted: what was finished is \
    printed.")]
pub(crate) struct Args {
    /// Only workloads whose names start so: small, pages.batch100, larger.json, …
    #[arg(long, value_name = "NAME", conflicts_with = "manifest_path")]
    only: Option<String>,

    /// Only these rows, beside tags off: again, default-off, enabled, enabled-later, counters, system, mimalloc-v3, …
    #[arg(
        long,
        value_name = "NAME",
        value_delimiter = ',',
        conflicts_with = "manifest_path"
    )]
    rows: Vec<String>,

    /// Smaller inputs, fewer rounds and fewer link orders
    #[arg(long)]
    quick: bool,

    /// So many rounds of all rows
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    rounds: Option<u32>,

    /// So many link orders for instruction cache misses; 0 for the linker's own
    #[arg(long, value_name = "N")]
    orders: Option<u32>,

    /// Kill a run that takes longer
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    limit: Option<u64>,

    /// Build everything and measure nothing
    #[arg(long, conflicts_with_all = ["manifest_path", "output", "chart"])]
    build_only: bool,

    /// How to print
    #[arg(long, value_enum, default_value_t)]
    format: Form,

    /// Write to a file instead of standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,

    /// Draw the times relative to tags off, as SVG
    #[arg(long, value_name = "FILE")]
    chart: Option<PathBuf>,

    #[command(flatten)]
    user: UserArgs,
}

/// What is about a program of one's own.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Your own program")]
struct UserArgs {
    /// The Cargo.toml of a program that uses codetag
    #[arg(long, value_name = "PATH")]
    manifest_path: Option<PathBuf>,

    /// The program
    #[arg(
        long,
        value_name = "NAME",
        value_parser = NonEmptyStringValueParser::new(),
        requires = "manifest_path",
        conflicts_with = "example"
    )]
    bin: Option<String>,

    /// An example instead
    #[arg(
        long,
        value_name = "NAME",
        value_parser = NonEmptyStringValueParser::new(),
        requires = "manifest_path"
    )]
    example: Option<String>,

    /// Features to build it with
    #[arg(
        long,
        value_name = "FEATURES",
        value_delimiter = ',',
        requires = "manifest_path"
    )]
    features: Vec<String>,

    /// All features
    #[arg(long, requires = "manifest_path")]
    all_features: bool,

    /// Without the default features
    #[arg(long, requires = "manifest_path")]
    no_default_features: bool,

    /// The profile to build it with
    #[arg(long, value_name = "PROFILE", default_value = "release")]
    profile: String,

    /// For a program that does not end by itself: run this in a shell while it runs, measure that, then end it
    #[arg(long, value_name = "COMMAND", requires = "manifest_path")]
    load: Option<String>,

    /// Start the load once this address accepts connections
    #[arg(long, value_name = "HOST:PORT", value_parser = address, requires = "load")]
    ready: Option<String>,

    /// What ends the program after the load; it must exit on it, so that codetag can tell its state
    #[arg(long, value_enum, default_value_t, requires = "load")]
    stop_signal: StopSignal,

    /// Arguments of the program
    #[arg(last = true, value_name = "ARGS", requires = "manifest_path")]
    args: Vec<OsString>,
}

#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum StopSignal {
    #[default]
    Term,
    Int,
    Hup,
    Usr1,
    Usr2,
}

impl StopSignal {
    fn signal(self) -> Signal {
        match self {
            Self::Term => Signal::TERM,
            Self::Int => Signal::INT,
            Self::Hup => Signal::HUP,
            Self::Usr1 => Signal::USR1,
            Self::Usr2 => Signal::USR2,
        }
    }
}

/// As other commands have it, and for documents.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Form {
    /// Columns for people
    #[default]
    Table,
    /// The same in Markdown
    Markdown,
    /// One JSON document with every figure
    Json,
    /// Comma-separated values, one line per figure
    Csv,
}

impl From<Form> for figures::Format {
    fn from(form: Form) -> Self {
        match form {
            Form::Table => Self::Text,
            Form::Markdown => Self::Markdown,
            Form::Json => Self::Json,
            Form::Csv => Self::Csv,
        }
    }
}

impl Args {
    pub(crate) fn run(self, out: &mut Output) -> io::Result<()> {
        // A run takes minutes: what is wrong with a path is said before.
        for path in [&self.output, &self.chart].into_iter().flatten() {
            if let Err(error) = can_be_made(path) {
                out.misuse(&path.display().to_string(), &error);
                return Ok(());
            }
        }
        if let (Some(output), Some(chart)) = (&self.output, &self.chart)
            && resolved(output) == resolved(chart)
        {
            let same = "is both the report and the chart";
            out.misuse(&output.display().to_string(), &same);
            return Ok(());
        }
        child::interrupt_on_signals();
        let command = figures::command_line(std::env::args_os());
        match &self.user.manifest_path {
            Some(manifest) => {
                let Some(options) = self.user_options(manifest, command, out) else {
                    return Ok(());
                };
                match user::measure(&options) {
                    Ok(report) => self.finish(&report, out),
                    Err(error) => {
                        fail(options.package.target.name(), &error, out);
                        Ok(())
                    }
                }
            }
            None => self.run_project(command, out),
        }
    }

    fn run_project(&self, command: String, out: &mut Output) -> io::Result<()> {
        let tree = match Tree::find(&std::env::current_dir()?) {
            Ok(tree) => tree,
            Err(error) => {
                out.fail("overhead", &error);
                return Ok(());
            }
        };
        let options = project::Options {
            tree,
            only: self.only.clone().unwrap_or_default(),
            rows: self.rows.clone(),
            scale: self.scale(),
            with_text: self.only.is_none() && self.rows.is_empty(),
            command,
        };
        let prepared = match project::prepare(&options) {
            Ok(prepared) => prepared,
            Err(error) => {
                fail("overhead", &error, out);
                return Ok(());
            }
        };
        if self.build_only {
            for (name, path) in prepared.binaries() {
                writeln!(out, "{name}: {}", path.display())?;
            }
            for error in prepared.errors() {
                out.fail("overhead", &error);
            }
            if child::is_interrupted() {
                out.interrupted();
            }
            return Ok(());
        }
        let report = project::measure(prepared, &options);
        self.finish(&report, out)
    }

    fn scale(&self) -> Scale {
        let mut scale = if self.quick {
            Scale::quick()
        } else {
            Scale::full()
        };
        if let Some(rounds) = self.rounds {
            scale.rounds = rounds as usize;
        }
        if let Some(orders) = self.orders {
            scale.orders = [orders; 3];
        }
        if let Some(limit) = self.limit {
            scale.limit = Duration::from_secs(limit);
        }
        scale
    }

    fn user_options(
        &self,
        manifest: &Path,
        command: String,
        out: &mut Output,
    ) -> Option<user::Options> {
        let user = &self.user;
        let target = match (&user.bin, &user.example) {
            (Some(name), _) => Target::Bin(name.clone()),
            (None, Some(name)) => Target::Example(name.clone()),
            (None, None) => {
                out.misuse("--manifest-path", &"needs --bin NAME or --example NAME");
                return None;
            }
        };
        let (rounds, orders) = if self.quick { (5, 0) } else { (15, 3) };
        Some(user::Options {
            package: Package {
                manifest: manifest.to_owned(),
                target,
                features: user.features.clone(),
                all_features: user.all_features,
                no_default_features: user.no_default_features,
                profile: user.profile.clone(),
            },
            args: user.args.clone(),
            rounds: self.rounds.map_or(rounds, |rounds| rounds as usize),
            orders: self.orders.unwrap_or(orders),
            load: user.load.clone().map(|command| Load {
                command,
                ready: user.ready.clone(),
                stop: user.stop_signal.signal(),
            }),
            limit: Duration::from_secs(self.limit.unwrap_or(600)),
            command,
        })
    }

    /// What is missing in a file is said beside it.
    fn tell(path: &Path, report: &figures::Report, out: &mut Output) {
        let path = path.display().to_string();
        if let Some(done) = &report.interrupted {
            out.fail(&path, &format_args!("interrupted: {done}"));
        }
        if let [first, more @ ..] = &report.errors[..] {
            let more = match more.len() {
                0 => String::new(),
                more => format!(" (and {more} more, in the report)"),
            };
            out.fail(&path, &format_args!("figures are missing: {first}{more}"));
        }
    }

    /// Prints what there is, whether it is all or not.
    fn finish(&self, report: &figures::Report, out: &mut Output) -> io::Result<()> {
        // A pipe may wait for its reader for ever, which Ctrl-C is to end.
        let is_file = self.output.as_deref().is_some_and(is_file_to_be);
        child::waits_for_others(!is_file);
        let format = self.format.into();
        match &self.output {
            None => report.write(format, out)?,
            Some(path) => {
                // Nothing that was measured is lost.
                if !save(path, out, |file| report.write(format, file)) {
                    report.write(format, out)?;
                }
                Self::tell(path, report, out);
            }
        }
        child::waits_for_others(false);
        if let Some(path) = &self.chart {
            let machine = &report.machine;
            let title = format!("codetag overhead, {}, {}", machine.processor, machine.date);
            match chart::svg(&title, &report.figures) {
                Ok(text) => {
                    save(path, out, |file| file.write_all(text.as_bytes()));
                }
                Err(error) => out.fail(&path.display().to_string(), &error),
            }
        }
        if report.interrupted.is_some() {
            out.interrupted();
        } else if !report.errors.is_empty() {
            out.incomplete();
        }
        Ok(())
    }
}

/// A host and a port, which may be there or not.
fn address(text: &str) -> Result<String, String> {
    match text.rsplit_once(':') {
        Some((host, port)) if !host.is_empty() && port.parse::<u16>().is_ok_and(|port| port > 0) => {
            Ok(text.to_owned())
        }
        _ => Err("it is not HOST:PORT, as 127.0.0.1:8080 is".to_owned()),
    }
}

/// Nothing was measured: by an error, or since this process was told to end.
fn fail(subject: &str, error: &dyn std::fmt::Display, out: &mut Output) {
    if child::is_interrupted() {
        out.fail(subject, &"interrupted before anything was measured");
        out.interrupted();
    } else {
        out.fail(subject, error);
    }
}

/// Whole or not at all, and which of them it is.
fn save(
    path: &Path,
    out: &mut Output,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> bool {
    let saved = codetag_export::save(path, write);
    if let Err(error) = &saved {
        out.fail(&path.display().to_string(), error);
    }
    saved.is_ok()
}

/// The same for every path to a file, whether it is there yet or not.
fn resolved(path: &Path) -> PathBuf {
    let whole = path.canonicalize();
    whole.unwrap_or_else(|_| match (dir(path).canonicalize(), path.file_name()) {
        (Ok(dir), Some(name)) => dir.join(name),
        _ => path.to_owned(),
    })
}

/// Whether what is written there is a file, of which there is a temporary one first.
fn is_file_to_be(path: &Path) -> bool {
    path.metadata().map_or(true, |it| it.is_file())
}

fn dir(path: &Path) -> &Path {
    match path.parent() {
        Some(dir) if dir != Path::new("") => dir,
        _ => Path::new("."),
    }
}

/// Whether a file can be made at `path`, as far as can be told before the work.
fn can_be_made(path: &Path) -> io::Result<()> {
    if path.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    tempfile::tempfile_in(dir(path)).map(drop)
}
