//! What a program said on stderr, in short enough for an error of one line.

/// So many lines of a failed child's stderr go into its error, and so many characters of each.
const LINES_MAX: usize = 3;
const LINE_CHARS_MAX: usize = 200;

/// Compilers and panics say what is wrong before all that follows from it, and others say it last.
pub(crate) fn in_short(stderr: &[u8]) -> String {
    let text = String::from_utf8_lossy(stderr);
    let mut lines: Vec<&str> = text
        .lines()
        .map(|line| line.trim_matches(|c: char| c.is_whitespace() || c.is_control()))
        .filter(|line| !line.is_empty())
        .collect();
    let is_cause = |line: &&str| line.starts_with("error") || line.contains(" panicked at ");
    match lines.iter().position(is_cause) {
        Some(start) => lines.drain(..start),
        None => lines.drain(..lines.len().saturating_sub(LINES_MAX)),
    };
    let mut said = String::new();
    for line in lines.iter().take(LINES_MAX) {
        match said.chars().last() {
            None => {}
            Some(':') => said.push(' '),
            Some(_) => said.push_str("; "),
        }
        let mut plain = line.chars().filter(|c| !c.is_control());
        said.extend(plain.by_ref().take(LINE_CHARS_MAX));
        if plain.next().is_some() {
            said.push('…');
        }
    }
    said
}

#[cfg(test)]
mod tests {
    use super::{LINE_CHARS_MAX, in_short};

    #[test]
    fn a_program_is_quoted_in_short() {
        assert_eq!(
            in_short(b"warning: x\n\nerror[E0425]: no `y`\n --> src/main.rs:1\n  |\n1 | y\n"),
            "error[E0425]: no `y`; --> src/main.rs:1; |"
        );
        assert_eq!(
            in_short(
                b"error: no bin target named `none`.\nAvailable bin targets:\n    app\n    plain\n"
            ),
            "error: no bin target named `none`.; Available bin targets: app"
        );
        assert_eq!(
            in_short(b"starting\n\nthread 'main' panicked at src/main.rs:1:\nno input\nstack backtrace:\n0: a\n1: b\n"),
            "thread 'main' panicked at src/main.rs:1: no input; stack backtrace:"
        );
        assert_eq!(in_short(b"1\n2\n3\n\x1b\0\n4\n\x07"), "2; 3; 4");
        assert_eq!(in_short(b"\x1b[31mred\x07\n"), "[31mred");
        let long = in_short("ü".repeat(1 << 20).as_bytes());
        assert_eq!(long, format!("{}…", "ü".repeat(LINE_CHARS_MAX)));
    }
}
