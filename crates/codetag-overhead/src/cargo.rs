//! Builds the workload program.

use crate::child;
use crate::config::Build;
use crate::tree::Tree;
use serde_json::Value;
use std::env;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// A build that takes longer does not end at all.
pub(crate) const BUILD_LIMIT: Duration = Duration::from_secs(3_600);

/// Where a program is, on stdout; what is wrong with it, on stderr.
pub(crate) const MESSAGES: &str = "--message-format=json-render-diagnostics";

/// The cargo that runs this, or the one of the path.
pub(crate) fn cargo() -> Command {
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    // These would win over what is chosen here, or change where binaries go.
    cargo
        .env_remove("CARGO_BUILD_TARGET")
        .env_remove("CODETAG_BUILD")
        .env_remove("CARGO_TARGET_DIR");
    cargo
}

/// Builds `build` and returns the path of a copy of its own, which later builds leave alone.
///
/// # Errors
///
/// What cargo says, in one line.
pub fn build(tree: &Tree, build: &Build) -> Result<PathBuf, String> {
    let mut cargo = workload_cargo(tree, build, "build");
    finish(tree, &mut cargo, build.name)
}

/// Links `build` once more with its functions in an order that `seed` chooses. 0 would choose it anew each time.
///
/// # Errors
///
/// What cargo says, in one line.
pub fn relink(tree: &Tree, build: &Build, seed: u32) -> Result<PathBuf, String> {
    let mut cargo = workload_cargo(tree, build, "rustc");
    cargo
        .args(["--bin", "workload", "--"])
        .arg(shuffle_argument(seed));
    finish(tree, &mut cargo, &format!("{}-order-{seed}", build.name))
}

/// rustc's argument for the linker lld.
pub(crate) fn shuffle_argument(seed: u32) -> String {
    format!("-Clink-arg=-Wl,--shuffle-sections=*={seed}")
}

fn workload_cargo(tree: &Tree, build: &Build, command: &str) -> Command {
    let mut cargo = cargo();
    cargo
        .current_dir(&tree.root)
        .args([command, "--release", "--quiet", MESSAGES, "--manifest-path"])
        .arg(tree.workload())
        .args(["--no-default-features", "--features", build.features])
        .arg("--target-dir")
        .arg(tree.target.join(build.flavour));
    if build.is_tags_off {
        cargo.env("CODETAG_BUILD", "off");
    }
    if let Some(cfg) = build.cfg {
        add_cfg(&mut cargo, cfg);
    }
    cargo
}

/// Flags in the environment win over those of a configuration, so they are added where the user's are.
fn add_cfg(cargo: &mut Command, cfg: &str) {
    if let Ok(flags) = env::var("CARGO_ENCODED_RUSTFLAGS") {
        cargo.env(
            "CARGO_ENCODED_RUSTFLAGS",
            format!("{flags}\u{1f}--cfg\u{1f}{cfg}"),
        );
    } else if let Ok(flags) = env::var("RUSTFLAGS") {
        cargo.env("RUSTFLAGS", format!("{flags} --cfg {cfg}"));
    } else {
        cargo.args(["--config", &format!("build.rustflags=['--cfg', '{cfg}']")]);
    }
}

fn finish(tree: &Tree, cargo: &mut Command, name: &str) -> Result<PathBuf, String> {
    let ended = child::run(cargo, BUILD_LIMIT).map_err(|error| error.to_string())?;
    let built = executable(&ended.stdout, "workload")?;
    keep(&built, &tree.target.join("bin"), name)
}

/// Copies a binary aside. What has the old copy open keeps it.
pub(crate) fn keep(built: &Path, dir: &Path, name: &str) -> Result<PathBuf, String> {
    let kept = dir.join(name);
    let copy = || -> io::Result<()> {
        fs::create_dir_all(dir)?;
        let file = tempfile::Builder::new()
            .prefix(".codetag-")
            .tempfile_in(dir)?;
        // With the permissions of what is copied.
        fs::copy(built, file.path())?;
        file.persist(&kept)?;
        Ok(())
    };
    copy().map_err(|error| {
        format!(
            "{} cannot be kept as {}: {error}",
            built.display(),
            kept.display()
        )
    })?;
    Ok(kept)
}

/// The program of this name in cargo's messages.
pub(crate) fn executable(messages: &[u8], name: &str) -> Result<PathBuf, String> {
    let messages = messages.rsplit(|byte| *byte == b'\n');
    let mut found = messages.filter_map(|line| {
        let message: Value = serde_json::from_slice(line).ok()?;
        let is_it = message["reason"] == "compiler-artifact" && message["target"]["name"] == name;
        is_it.then(|| message["executable"].as_str().map(PathBuf::from))?
    });
    found
        .next()
        .ok_or_else(|| format!("cargo built no program {name}"))
}

#[cfg(test)]
mod tests {
    use super::executable;

    #[test]
    fn the_program_is_found_in_cargo_s_messages() {
        let messages = br#"{"reason":"compiler-artifact","target":{"name":"app"},"executable":null}
{"reason":"compiler-artifact","target":{"name":"other"},"executable":"/t/other"}
{"reason":"compiler-artifact","target":{"name":"app"},"executable":"/t/app"}
{"reason":"build-finished","success":true}
"#;
        assert_eq!(executable(messages, "app"), Ok("/t/app".into()));
        assert_eq!(
            executable(messages, "none"),
            Err("cargo built no program none".to_owned())
        );
    }
}
