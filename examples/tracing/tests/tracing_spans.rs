//! The example as a user runs it.

use std::path::Path;
use std::process::Command;

/// Its exit status says whether the page agrees with what the program counted.
#[test]
fn tracing_spans_agrees_with_its_page() {
    let test = std::env::current_exe().expect("a test has a path");
    let target = test
        .parent()
        .and_then(Path::parent)
        .expect("tests are in target/PROFILE/deps");
    let output = Command::new(target.join("examples/tracing_spans"))
        .env_remove("CODETAG")
        .output()
        .expect("`cargo test -p codetag-example-tracing` builds it");
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    assert_eq!(
        output.status.code(),
        Some(0),
        "{}{}",
        text(&output.stdout),
        text(&output.stderr)
    );
}
