//! The repository's text files.

use ignore::WalkBuilder;
use std::fs;
use std::path::Path;

/// One file that is text.
#[derive(Clone, Debug)]
pub struct File {
    /// From the repository's root, with `/`.
    pub path: String,
    /// All of it.
    pub text: String,
}

impl File {
    /// Whether this is Rust source.
    pub fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    /// Whether this is a package's or the workspace's manifest.
    pub fn is_manifest(&self) -> bool {
        self.path.ends_with("Cargo.toml")
    }
}

/// Every text file of the repository that version control does not ignore, sorted by path.
///
/// # Panics
///
/// If the tree cannot be read.
pub fn files() -> Vec<File> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut files: Vec<File> = WalkBuilder::new(&root)
        .hidden(false)
        .require_git(false)
        .filter_entry(|entry| entry.file_name() != ".git")
        .build()
        .map(|entry| entry.expect("the tree can be walked"))
        .filter(|entry| entry.file_type().is_some_and(|kind| kind.is_file()))
        .filter_map(|entry| {
            let path = entry
                .path()
                .strip_prefix(&root)
                .expect("below the root")
                .to_str()?
                .replace('\\', "/");
            // Binary files have no rules here.
            let text = String::from_utf8(fs::read(entry.path()).ok()?).ok()?;
            Some(File { path, text })
        })
        .collect();
    files.sort_by(|a, b| a.path.cmp(&b.path));
    files
}
