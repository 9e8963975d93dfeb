//! What docs/SAFETY.md says is there: the unsafe files that it argues for, the tests that it names.
//!
//! The last cell of a row of its tables names files and tests as code: a file, then tests of that file, then
//! perhaps another file. A row that names neither says in words that the fault cannot occur or has no test.
//! Elsewhere code that reads as a sentence of four words or more is a test's name.

use crate::Fault;
use crate::tree::File;
use proc_macro2::{Delimiter, TokenStream, TokenTree};
use std::collections::BTreeSet;

/// Where the argument is.
pub const PATH: &str = "docs/SAFETY.md";

/// What a row says that names nothing.
const WITHOUT_TEST: [&str; 2] = ["cannot occur", "no test"];

/// Unsafe files, by their paths, that the document does not name.
pub fn unargued(document: &File, files: &[&str]) -> Vec<Fault> {
    let named: BTreeSet<&str> = document.text.lines().flat_map(code_spans).collect();
    files
        .iter()
        .filter(|path| !named.iter().any(|span| is_end_of(span, path)))
        .map(|path| Fault {
            path: document.path.clone(),
            line: 0,
            says: format!("has no argument for `{path}`; write who owns which memory there"),
        })
        .collect()
}

/// Files and tests that the document names and that are not in the tree, and rows that name nothing.
pub fn unfounded(document: &File, tree: &[File]) -> Vec<Fault> {
    let tree: Vec<Named<'_>> = tree.iter().map(Named::new).collect();
    let mut faults = Vec::new();
    let mut was_table = false;
    for (index, line) in document.text.lines().enumerate() {
        let is_row = line.starts_with('|');
        let says = match last_cell(line) {
            // The first row of a table is its heading.
            Some(cell) if is_row && was_table => of_cell(cell, &tree),
            _ => of_prose(line, &tree),
        };
        was_table = is_row;
        faults.extend(says.into_iter().map(|says| Fault {
            path: document.path.clone(),
            line: index + 1,
            says,
        }));
    }
    faults
}

/// A file and the tests in it.
struct Named<'a> {
    path: &'a str,
    tests: BTreeSet<String>,
}

impl<'a> Named<'a> {
    fn new(file: &'a File) -> Self {
        let tests = if file.is_rust() {
            test_names(&file.text)
        } else {
            BTreeSet::new()
        };
        Self {
            path: &file.path,
            tests,
        }
    }
}

fn of_prose(line: &str, tree: &[Named<'_>]) -> Vec<String> {
    code_spans(line)
        .filter(|span| is_sentence(span) && span.matches('_').count() >= 3)
        .filter(|span| !tree.iter().any(|file| file.tests.contains(*span)))
        .map(|span| format!("names `{span}`, which is no test"))
        .collect()
}

fn of_cell(cell: &str, tree: &[Named<'_>]) -> Vec<String> {
    let mut says = Vec::new();
    if cell.chars().all(|c| "-: ".contains(c)) {
        return says;
    }
    let mut names_nothing = true;
    let mut place: Option<(&str, Vec<&Named<'_>>)> = None;
    for span in code_spans(cell) {
        names_nothing = false;
        if span.contains(['.', '/']) {
            let files: Vec<_> = tree.iter().filter(|f| is_end_of(span, f.path)).collect();
            if files.is_empty() {
                says.push(format!("names the file `{span}`, which is not in the tree"));
            }
            place = Some((span, files));
        } else if let Some((file, files)) = &place {
            if !files.iter().any(|f| f.tests.contains(span)) {
                says.push(format!("names `{span}`, which is no test of `{file}`"));
            }
        } else {
            says.push(format!("names `{span}` without the file that it is in"));
        }
    }
    if names_nothing && !WITHOUT_TEST.iter().any(|words| cell.contains(words)) {
        let [a, b] = WITHOUT_TEST;
        says.push(format!(
            "names no test; name one, or say `{a}` with the reason, or `{b}`"
        ));
    }
    says
}

fn last_cell(row: &str) -> Option<&str> {
    row.trim_end().strip_suffix('|')?.rsplit('|').next()
}

/// What stands between backticks.
fn code_spans(line: &str) -> impl Iterator<Item = &str> {
    line.split('`').skip(1).step_by(2)
}

/// Whether `end` is a path or its last parts.
fn is_end_of(end: &str, path: &str) -> bool {
    path.strip_suffix(end)
        .is_some_and(|before| before.is_empty() || before.ends_with('/'))
}

/// Names of tests of a Rust file: of functions with `#[test]`, and strings that could be one, as programs
/// that run in a child are named.
pub fn test_names(text: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    if let Ok(tokens) = text.parse() {
        collect(tokens, &mut names);
    }
    names
}

fn collect(tokens: TokenStream, names: &mut BTreeSet<String>) {
    let mut is_test = false;
    let mut tokens = tokens.into_iter().peekable();
    while let Some(token) = tokens.next() {
        match token {
            TokenTree::Group(group) => {
                let text = group.stream().to_string();
                if group.delimiter() == Delimiter::Bracket && text == "test" {
                    is_test = true;
                }
                collect(group.stream(), names);
            }
            TokenTree::Ident(ident) if is_test && ident == "fn" => {
                is_test = false;
                if let Some(TokenTree::Ident(name)) = tokens.peek() {
                    names.insert(name.to_string());
                }
            }
            TokenTree::Literal(literal) => {
                let literal = literal.to_string();
                let inner = literal.strip_prefix('"').and_then(|l| l.strip_suffix('"'));
                names.extend(inner.filter(|l| is_sentence(l)).map(str::to_owned));
            }
            _ => {}
        }
    }
}

/// Words in lower case with underscores between them.
fn is_sentence(text: &str) -> bool {
    text.contains('_')
        && text
            .chars()
            .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
}

#[cfg(test)]
mod tests {
    use super::{test_names, unargued, unfounded};
    use crate::tree::File;

    fn file(path: &str, text: &str) -> File {
        File {
            path: path.into(),
            text: text.into(),
        }
    }

    fn says(rows: &str) -> Vec<(usize, String)> {
        let tree = [
            file(
                "a/tests/x.rs",
                "#[test]\n#[cfg(unix)]\nfn one() {}\nfn two() {}",
            ),
            file("a/tests/y.rs", "fn f() { new(\"three_of_them\", f) }"),
            file(".ci/z", "true"),
        ];
        let document = file(
            "d.md",
            &format!("`prose`\n\n| no. | tests |\n|---|---|\n{rows}"),
        );
        let faults = unfounded(&document, &tree);
        faults.into_iter().map(|f| (f.line, f.says)).collect()
    }

    #[test]
    fn tests_are_functions_with_the_attribute_and_named_programs() {
        let names =
            test_names("m! { #[test] async fn a() {} }\nfn b() { c(\"d_e\", \"f\", \"G_h\") }");
        assert_eq!(names.into_iter().collect::<Vec<_>>(), ["a", "d_e"]);
    }

    #[test]
    fn what_is_there_is_no_fault() {
        assert_eq!(
            says("| 1 | `x.rs`: `one`; `tests/y.rs`: `three_of_them` |"),
            []
        );
        assert_eq!(says("| `2` | step `.ci/z` |"), []);
        assert_eq!(
            says("| 3 | cannot occur: why |\n| 4 | no test |\n\nText | `b`"),
            []
        );
    }

    #[test]
    fn what_is_not_there_is_met_in_its_line() {
        let lines = |rows| -> Vec<usize> { says(rows).iter().map(|(line, _)| *line).collect() };
        assert_eq!(lines("| 1 | `x.rs`: `one`, `two` |"), [5]);
        assert_eq!(
            lines("| 1 | `x.rs`: `one` |\n| 2 | `x.rs`: `three_of_them` |"),
            [6]
        );
        assert_eq!(lines("| 1 | `w.rs` |\n| 2 | `one` |"), [5, 6]);
        assert_eq!(lines("| 1 | tested somewhere |"), [5]);
        assert_eq!(lines("\nBy `four_of_them_there` and `note_for_fork`."), [6]);
    }

    #[test]
    fn an_unsafe_file_without_an_argument_is_met() {
        let document = file("d.md", "**`alloc/a.rs`** owns it.");
        let faults = unargued(&document, &["src/alloc/a.rs", "src/alloc/b.rs"]);
        assert_eq!(faults.len(), 1);
        assert!(faults[0].says.contains("`src/alloc/b.rs`"));
    }
}
