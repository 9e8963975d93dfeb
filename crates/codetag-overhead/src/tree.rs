//! Where this project's tree is, and where builds go.

use std::env;
use std::path::{Path, PathBuf};

/// The workload program, from the root of the tree.
const WORKLOAD: &str = "benches/workload/Cargo.toml";

/// A tree that has the workloads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tree {
    /// Its root.
    pub root: PathBuf,
    /// Where everything is built.
    pub target: PathBuf,
}

impl Tree {
    /// The nearest tree upwards from `start`.
    ///
    /// # Errors
    ///
    /// A sentence: there is none.
    pub fn find(start: &Path) -> Result<Self, String> {
        let root = start.ancestors().find(|dir| dir.join(WORKLOAD).is_file());
        let root = root.ok_or_else(|| {
            format!(
                "neither here nor in a folder above is {WORKLOAD}: run this in codetag's own tree, or name your \
                 program by --manifest-path and --bin"
            )
        })?;
        Ok(Self {
            target: target_dir(root).join("overhead"),
            root: root.to_owned(),
        })
    }

    /// The manifest of the workload program.
    pub fn workload(&self) -> PathBuf {
        self.root.join(WORKLOAD)
    }
}

/// Cargo's own target directory for the workspace at `root`.
pub(crate) fn target_dir(root: &Path) -> PathBuf {
    let here = env::current_dir().unwrap_or_default();
    match env::var_os("CARGO_TARGET_DIR").filter(|dir| !dir.is_empty()) {
        Some(dir) => here.join(dir),
        None => here.join(root).join("target"),
    }
}

#[cfg(test)]
mod tests {
    use super::Tree;
    use std::fs;

    #[test]
    fn the_tree_is_found_from_within() {
        let dir = tempfile::tempdir().expect("a directory");
        let inner = dir.path().join("tree/crates/x");
        fs::create_dir_all(&inner).expect("a directory");
        let error = Tree::find(&inner).expect_err("no tree");
        assert!(
            error.contains("--manifest-path") && !error.contains('\n'),
            "{error}"
        );
        let workload = dir.path().join("tree/benches/workload");
        fs::create_dir_all(&workload).expect("a directory");
        fs::write(workload.join("Cargo.toml"), "").expect("a file");
        let tree = Tree::find(&inner).expect("the tree");
        assert_eq!(tree.root, dir.path().join("tree"));
        assert_eq!(tree.workload(), workload.join("Cargo.toml"));
    }
}
