//! Rules for `Cargo.toml` files. Read line by line, for comments count.

use crate::Fault;
use crate::lists::ROOMS;
use crate::tree::File;

/// A `key = …` line of a manifest and what stands around it.
#[derive(Debug)]
struct Entry<'t> {
    /// The section's name without brackets.
    section: &'t str,
    key: &'t str,
    value: &'t str,
    line: usize,
    /// Whether the line above, or the end of this one, is a comment.
    commented: bool,
}

fn entries(text: &str) -> Vec<Entry<'_>> {
    let (mut section, mut commented, mut depth) = ("", false, 0_usize);
    let mut found = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        if let Some(name) = line.strip_prefix('[').filter(|_| depth == 0) {
            section = name.split(']').next().unwrap_or_default();
        } else if let Some((key, value)) = line
            .split_once('=')
            .filter(|_| depth == 0 && !line.starts_with('#'))
        {
            let (key, value) = (key.trim().trim_matches('"'), value.trim());
            let commented = commented || value.contains(" # ");
            found.push(Entry {
                section,
                key,
                value,
                line: index + 1,
                commented,
            });
        }
        if !line.starts_with('#') {
            let count = |c| line.matches(c).count();
            depth = (depth + count('[') + count('{')).saturating_sub(count(']') + count('}'));
        }
        commented = line.starts_with('#');
    }
    found
}

/// Every feature, and every lint that is allowed, says what it is for.
pub fn comments(file: &File) -> Vec<Fault> {
    let mut faults = Vec::new();
    for entry in entries(&file.text) {
        let feature = entry.section == "features" && entry.key != "default";
        let allowed = entry.section.contains("lints") && entry.value.contains("\"allow\"");
        if entry.commented || !(feature || allowed) {
            continue;
        }
        let says = if feature {
            format!(
                "feature `{}` has no comment above it that says what it does and costs",
                entry.key
            )
        } else {
            format!(
                "lint `{}` is allowed without a comment above it that says why",
                entry.key
            )
        };
        faults.push(Fault {
            path: file.path.clone(),
            line: entry.line,
            says,
        });
    }
    faults
}

/// Data flows one way: a room depends only on the rooms that [`ROOMS`] names.
pub fn rooms(file: &File) -> Vec<Fault> {
    let entries = entries(&file.text);
    let package = entries
        .iter()
        .find(|entry| entry.section == "package" && entry.key == "name");
    let Some(package) = package.map(|entry| entry.value.trim_matches('"')) else {
        return Vec::new();
    };
    let Some((_, allowed)) = ROOMS.iter().find(|(name, _)| *name == package) else {
        return Vec::new();
    };
    let shipped =
        |section: &str| section.ends_with("dependencies") && !section.ends_with("dev-dependencies");
    entries
        .iter()
        .filter(|entry| shipped(entry.section))
        .map(|entry| (entry.line, entry.key.split('.').next().unwrap_or_default()))
        .filter(|(_, name)| name.starts_with("codetag") && !allowed.contains(name))
        .map(|(line, name)| Fault {
            path: file.path.clone(),
            line,
            says: format!("{package} may not depend on {name}; if it should, edit ROOMS in crates/codetag-tidy/src/lists.rs"),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::{comments, rooms};
    use crate::tree::File;

    fn manifest(text: &str) -> File {
        File {
            path: "Cargo.toml".into(),
            text: text.into(),
        }
    }

    #[test]
    fn a_feature_needs_a_comment_directly_above() {
        let faults = comments(&manifest(
            "[features]\ndefault = [\"a\"]\n# A.\na = [\n    \"x\",\n    \"y=z\",\n]\n\nb = []\n[dependencies]\nc = \"1\"\n",
        ));
        assert_eq!(
            faults.iter().map(|fault| fault.line).collect::<Vec<_>>(),
            [9]
        );
    }

    #[test]
    fn an_allowed_lint_needs_a_comment() {
        let text = "[workspace.lints.clippy]\na = \"allow\"\n# Why.\nb = \"allow\"\nc = \"deny\"\nd = { level = \"allow\" }\n";
        assert_eq!(
            comments(&manifest(text))
                .iter()
                .map(|fault| fault.line)
                .collect::<Vec<_>>(),
            [2, 6]
        );
    }

    #[test]
    fn the_runtime_may_not_know_its_exporters() {
        let text = "[package]\nname = \"codetag\"\n[dependencies]\ncodetag-macros.workspace = true\ncodetag-export = \"1\"\n[dev-dependencies]\ncodetag-cli = \"1\"\n";
        assert_eq!(
            rooms(&manifest(text))
                .iter()
                .map(|fault| fault.line)
                .collect::<Vec<_>>(),
            [5]
        );
    }
}
