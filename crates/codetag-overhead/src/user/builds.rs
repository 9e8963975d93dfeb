//! Builds a user's program with tags compiled out and in.

use super::{Options, UserError};
use crate::cargo::{BUILD_LIMIT, MESSAGES, executable, keep, shuffle_argument};
use crate::child;
use crate::objsize::Measured as Object;
use crate::progress::Progress;
use crate::report::sizes;
use crate::turn::Turn;
use serde_json::Value;
use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A program of a package.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// By `--bin`.
    Bin(String),
    /// By `--example`.
    Example(String),
}

impl Target {
    /// Its name.
    pub fn name(&self) -> &str {
        match self {
            Self::Bin(name) | Self::Example(name) => name,
        }
    }

    fn option(&self) -> &'static str {
        match self {
            Self::Bin(_) => "--bin",
            Self::Example(_) => "--example",
        }
    }
}

/// What cargo is asked for.
#[derive(Clone, Debug)]
pub struct Package {
    /// Its Cargo.toml.
    pub manifest: PathBuf,
    /// The program.
    pub target: Target,
    /// As cargo takes them.
    pub features: Vec<String>,
    /// Whether all are on.
    pub all_features: bool,
    /// Whether the default ones are off.
    pub no_default_features: bool,
    /// The profile, `release` mostly.
    pub profile: String,
}

/// The binaries; the first of two is always that with tags off.
#[derive(Debug)]
pub(super) struct Built {
    pub(super) paths: [PathBuf; 2],
    /// Both again in other link orders.
    pub(super) orders: Vec<[PathBuf; 2]>,
    pub(super) objects: [Object; 2],
    /// What is kept of the runs.
    pub(super) dir: PathBuf,
    pub(super) notes: Vec<String>,
    /// Nobody else builds or measures there.
    pub(super) turn: Turn,
}

pub(super) fn build(options: &Options) -> Result<Built, UserError> {
    let package = &options.package;
    let cargo = Cargo::new(package)?;
    let turn = Turn::wait(&cargo.dir).map_err(UserError::Files)?;
    let progress = Progress::new("building", 2 * (1 + options.orders as usize));
    let name = package.target.name();
    let both = |seed| -> Result<[PathBuf; 2], String> {
        let mut paths = [PathBuf::new(), PathBuf::new()];
        for (path, is_off) in paths.iter_mut().zip([true, false]) {
            progress.say(match is_off {
                true => "building with tags compiled out",
                false => "building with tags",
            });
            *path = cargo.build(is_off, seed)?;
            progress.step();
        }
        Ok(paths)
    };
    let paths = both(None).map_err(UserError::Build)?;
    let object = |path: &Path| sizes(path).map_err(UserError::Build);
    let objects = [object(&paths[0])?, object(&paths[1])?];
    let (mut orders, mut notes) = (Vec::new(), Vec::new());
    for seed in 1..=options.orders {
        match both(Some(seed)) {
            Ok(paths) => orders.push(paths),
            Err(error) => {
                notes.push(format!(
                    "{name} was not linked in other orders, which takes the linker lld: {error}"
                ));
                break;
            }
        }
    }
    Ok(Built {
        paths,
        orders,
        objects,
        dir: cargo.dir,
        notes,
        turn,
    })
}

#[derive(Debug)]
struct Cargo<'p> {
    package: &'p Package,
    /// Where the user's configuration of cargo holds.
    manifest_dir: PathBuf,
    manifest: PathBuf,
    /// Below the package's own target directory.
    dir: PathBuf,
}

impl<'p> Cargo<'p> {
    fn new(package: &'p Package) -> Result<Self, UserError> {
        let manifest = package.manifest.canonicalize();
        let manifest = manifest.map_err(|error| {
            UserError::Build(format!("{}: {error}", package.manifest.display()))
        })?;
        let mut cargo = Self {
            package,
            manifest_dir: manifest.parent().unwrap_or(Path::new("/")).to_owned(),
            manifest,
            dir: PathBuf::new(),
        };
        let mut command = cargo.command("metadata");
        command.args(["--format-version", "1", "--no-deps"]);
        let ended = child::run(&mut command, BUILD_LIMIT);
        let ended = ended.map_err(|error| UserError::Build(error.to_string()))?;
        let metadata: Value = serde_json::from_slice(&ended.stdout).map_err(|error| {
            UserError::Build(format!("cargo's metadata cannot be read: {error}"))
        })?;
        let target = metadata["target_directory"].as_str();
        let target = target.ok_or_else(|| {
            UserError::Build("cargo's metadata name no target directory".to_owned())
        })?;
        cargo.dir = Path::new(target).join("codetag-overhead");
        Ok(cargo)
    }

    /// With all that the user has set, but for what tells builds apart.
    fn command(&self, command: &str) -> Command {
        let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        cargo
            .current_dir(&self.manifest_dir)
            .env_remove("CODETAG_BUILD")
            .args([command, "--manifest-path"])
            .arg(&self.manifest);
        cargo
    }

    /// The binary's own copy.
    fn build(&self, is_off: bool, seed: Option<u32>) -> Result<PathBuf, String> {
        let package = self.package;
        let name = if is_off { "tags-off" } else { "tags" };
        let mut cargo = self.command(if seed.is_some() { "rustc" } else { "build" });
        cargo
            .args(["--quiet", MESSAGES, "--profile", &package.profile])
            .args([package.target.option(), package.target.name()])
            .arg("--target-dir")
            .arg(self.dir.join(name));
        if !package.features.is_empty() {
            cargo.args(["--features", &package.features.join(",")]);
        }
        if package.all_features {
            cargo.arg("--all-features");
        }
        if package.no_default_features {
            cargo.arg("--no-default-features");
        }
        if is_off {
            cargo.env("CODETAG_BUILD", "off");
        }
        if let Some(seed) = seed {
            cargo.args(["--", &shuffle_argument(seed)]);
        }
        let ended = child::run(&mut cargo, BUILD_LIMIT).map_err(|error| error.to_string())?;
        let built = executable(&ended.stdout, package.target.name())?;
        let order = seed.map_or(String::new(), |seed| format!("-order-{seed}"));
        keep(
            &built,
            &self.dir.join("bin"),
            &format!("{}-{name}{order}", package.target.name()),
        )
    }
}
