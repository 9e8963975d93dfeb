//! Rules for Rust source, on its tokens: comments and strings are no code.

use crate::Fault;
use crate::tree::File;
use proc_macro2::{Delimiter, TokenStream, TokenTree};

/// What a file's tokens show.
#[derive(Debug, Default)]
pub struct Findings {
    /// Whether the word `unsafe` is in the code.
    pub has_unsafe: bool,
    /// Everything that is wrong wherever it stands.
    pub faults: Vec<Fault>,
}

/// Looks through one Rust file.
pub fn look(file: &File) -> Findings {
    let mut findings = Findings::default();
    match file.text.parse() {
        Ok(tokens) => walk(tokens, &mut findings),
        Err(error) => findings.fault(error.span().start().line, "is no Rust source".into()),
    }
    for fault in &mut findings.faults {
        fault.path.clone_from(&file.path);
    }
    findings
}

impl Findings {
    fn fault(&mut self, line: usize, says: String) {
        self.faults.push(Fault {
            path: String::new(),
            line,
            says,
        });
    }
}

fn walk(tokens: TokenStream, findings: &mut Findings) {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    for (index, token) in tokens.iter().enumerate() {
        let punct = |at: usize, c: char| matches!(tokens.get(at), Some(TokenTree::Punct(punct)) if punct.as_char() == c);
        let line = token.span().start().line;
        match token {
            TokenTree::Group(group) => {
                let after = |c| index > 0 && punct(index - 1, c);
                if group.delimiter() == Delimiter::Bracket
                    && (after('#') || (after('!') && index > 1 && punct(index - 2, '#')))
                {
                    attribute(group.stream(), line, findings);
                }
                walk(group.stream(), findings);
            }
            // `Token![unsafe]` names a token of somebody else's code.
            TokenTree::Ident(ident) if ident == "unsafe" && tokens.len() > 1 => {
                findings.has_unsafe = true;
            }
            TokenTree::Ident(ident)
                if (ident == "todo" || ident == "unimplemented") && punct(index + 1, '!') =>
            {
                findings.fault(
                    line,
                    format!("`{ident}!` is left; write what belongs there"),
                );
            }
            TokenTree::Ident(ident)
                if ident == "sleep"
                    && index > 2
                    && punct(index - 1, ':')
                    && punct(index - 2, ':')
                    && matches!(&tokens[index - 3], TokenTree::Ident(ident) if ident == "thread") =>
            {
                findings.fault(
                    line,
                    "`thread::sleep` is no synchronisation; wait for what has to happen".into(),
                );
            }
            _ => {}
        }
    }
}

/// `tokens` are those between the brackets.
fn attribute(tokens: TokenStream, line: usize, findings: &mut Findings) {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    for (index, token) in tokens.iter().enumerate() {
        let TokenTree::Ident(ident) = token else {
            continue;
        };
        let inner = match tokens.get(index + 1) {
            Some(TokenTree::Group(group)) => Some(group.stream()),
            _ => None,
        };
        if ident == "ignore" {
            findings.fault(
                line,
                "a test is ignored; make it run, or take it out".into(),
            );
        } else if ident == "cfg_attr" {
            attribute(inner.unwrap_or_default(), line, findings);
        } else if (ident == "allow" || ident == "expect")
            && let Some(inner) = inner
            && !inner
                .into_iter()
                .any(|token| matches!(token, TokenTree::Ident(ident) if ident == "reason"))
        {
            findings.fault(line, format!("`{ident}` of a lint has no `reason = \"…\"`"));
        }
    }
}

/// Whether the first comment of the file, its documentation, has a `# Safety model`.
pub fn opens_with_safety_model(text: &str) -> bool {
    text.lines()
        .take_while(|line| line.starts_with("//!"))
        .any(|line| line.trim_end() == "//! # Safety model")
}

#[cfg(test)]
mod tests {
    use super::{Findings, look, opens_with_safety_model};
    use crate::tree::File;

    fn findings(text: &str) -> Findings {
        look(&File {
            path: "x.rs".into(),
            text: text.into(),
        })
    }

    fn lines(text: &str) -> Vec<usize> {
        findings(text)
            .faults
            .iter()
            .map(|fault| fault.line)
            .collect()
    }

    #[test]
    fn unsafe_is_seen_in_code_only() {
        assert!(findings("fn f() { g(unsafe { 1 }) }").has_unsafe);
        assert!(!findings("fn f() { peek(Token![unsafe]) }").has_unsafe);
        assert!(
            !findings("// unsafe\n#![deny(unsafe_code)]\nfn f() -> &'static str { \"unsafe\" }")
                .has_unsafe
        );
    }

    #[test]
    fn what_is_left_undone_is_seen() {
        assert_eq!(
            lines("fn f() { todo!() }\nfn g() { unimplemented!(\"x\") }\nfn todo() {}"),
            [1, 2]
        );
    }

    #[test]
    fn ignored_tests_are_seen() {
        assert_eq!(
            lines(
                "#[test]\n#[ignore]\nfn f() {}\n#[cfg_attr(x, ignore = \"slow\")]\nfn g() {}\nuse ignore::Walk;"
            ),
            [2, 4]
        );
    }

    #[test]
    fn allow_needs_a_reason() {
        assert_eq!(
            lines(
                "#![allow(a)]\n#[expect(b, reason = \"c\")]\nfn f() {}\n#[cfg_attr(x, allow(d))]\nfn g() { o.expect(\"e\") }"
            ),
            [1, 4]
        );
    }

    #[test]
    fn sleeping_is_seen() {
        assert_eq!(
            lines("fn f() { std::thread::sleep(d); tokio::time::sleep(d); }"),
            [1]
        );
    }

    #[test]
    fn a_safety_model_is_in_the_opening_comment() {
        assert!(opens_with_safety_model(
            "//! A.\n//!\n//! # Safety model\n//!\n//! B.\n"
        ));
        assert!(!opens_with_safety_model("//! A.\n\n//! # Safety model\n"));
    }
}
