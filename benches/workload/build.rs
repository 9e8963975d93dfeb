//! Decides which allocator the program has, and embeds the Rust sources that one of its workloads parses.

use std::path::{Path, PathBuf};
use std::{env, fmt::Write as _, fs, io};

/// Features that choose an allocator, and what the code calls it. The first that is on wins, so that a build with
/// all features has one too.
const ALLOCATORS: &[(&str, &str)] = &[
    ("ALLOC_CODETAG", "codetag"),
    ("ALLOC_TRACKING", "tracking"),
    ("ALLOC_DHAT", "dhat"),
    ("JEMALLOC_PROFILING", "jemalloc-profiling"),
    ("ALLOC_JEMALLOC", "jemalloc"),
    ("ALLOC_MIMALLOC", "mimalloc"),
    ("ALLOC_SYSTEM", "system"),
];

/// Directories of the workspace, whose sources below a `src` are embedded.
const ROOMS: &[&str] = &["codetag-macros", "crates", "examples", "benches"];

fn main() -> io::Result<()> {
    println!("cargo:rerun-if-changed=build.rs");
    let names: Vec<String> = ALLOCATORS
        .iter()
        .map(|(_, name)| format!("\"{name}\""))
        .collect();
    println!(
        "cargo:rustc-check-cfg=cfg(allocator, values({}))",
        names.join(", ")
    );
    let is_on = |feature: &str| env::var_os(format!("CARGO_FEATURE_{feature}")).is_some();
    if let Some((_, name)) = ALLOCATORS.iter().find(|(feature, _)| is_on(feature)) {
        println!("cargo:rustc-cfg=allocator=\"{name}\"");
    }
    embed_sources()
}

/// Writes a table of names and texts. Names are relative to the workspace and sorted, so that the table is the same
/// wherever the tree is.
fn embed_sources() -> io::Result<()> {
    let here = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").ok_or(io::ErrorKind::NotFound)?);
    let root = here.ancestors().nth(2).ok_or(io::ErrorKind::NotFound)?;
    let mut files = Vec::new();
    for room in ROOMS {
        collect(&root.join(room), false, &mut files)?;
    }
    let mut named = Vec::with_capacity(files.len());
    for path in files {
        let name = path.strip_prefix(root).map_err(io::Error::other)?;
        named.push((name.to_string_lossy().replace('\\', "/"), path));
    }
    named.sort();
    let mut table = String::from("&[\n");
    for (name, path) in &named {
        _ = writeln!(table, "    ({name:?}, include_str!({path:?})),");
    }
    table.push_str("]\n");
    let out = PathBuf::from(env::var_os("OUT_DIR").ok_or(io::ErrorKind::NotFound)?);
    fs::write(out.join("sources.rs"), table)
}

fn collect(dir: &Path, is_source: bool, files: &mut Vec<PathBuf>) -> io::Result<()> {
    println!("cargo:rerun-if-changed={}", dir.display());
    let entries = fs::read_dir(dir)
        .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", dir.display())))?;
    for entry in entries {
        let entry = entry?;
        let (path, name) = (entry.path(), entry.file_name());
        let kind = entry.file_type()?;
        if kind.is_dir() && name != "target" && !name.as_encoded_bytes().starts_with(b".") {
            // Programs in which an error is expected, or is the point, are none that a compiler reads through.
            if name != "tests" {
                collect(&path, is_source || name == "src", files)?;
            }
        } else if kind.is_file() && is_source && path.extension().is_some_and(|ext| ext == "rs") {
            files.push(path);
        }
    }
    Ok(())
}
