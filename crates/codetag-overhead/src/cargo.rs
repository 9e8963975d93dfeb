//! Builds the workload program.

use crate::child;
use crate::config::Binary;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Builds `binary` in a target directory of its own below `dir`, so that configurations do not evict each
/// other, and returns its path.
///
/// # Errors
///
/// What cargo says.
pub fn build(binary: &Binary, dir: &Path) -> io::Result<PathBuf> {
    let target = dir.join(binary.name);
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/workload"))
        .args([
            "build",
            "--release",
            "--quiet",
            "--package",
            "codetag-bench-workload",
        ])
        .args([
            "--no-default-features",
            "--features",
            binary.features,
            "--target-dir",
        ])
        .arg(&target)
        // Set by the cargo that runs this bench, or by the user for everything: it would win over the flag.
        .env_remove("CARGO_BUILD_TARGET")
        .env_remove("CODETAG_BUILD");
    if let Some(value) = binary.build {
        cargo.env("CODETAG_BUILD", value);
    }
    child::run(&mut cargo)?;
    Ok(target.join("release").join("workload"))
}
