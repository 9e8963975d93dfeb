//! Finds an `.await` in an expression that is to be tagged.

use proc_macro2::{Delimiter, Span, TokenStream, TokenTree};
use syn::Error;

const SAY: &str = "alloc_hooks! cannot hold an `.await`: other tasks run on this thread while it waits, and would be \
charged; tag the future instead, with #[alloc_tag] on the async fn it comes from";

/// The expression itself, or the error at its first `.await`.
pub(crate) fn refuse_await(expr: TokenStream) -> TokenStream {
    match find_await(expr.clone()) {
        None => expr,
        Some(at) => Error::new(at, SAY).into_compile_error(),
    }
}

/// The first `.await` that the expression itself would wait at. What stands in an `async` block, closure
/// or function only makes a future.
fn find_await(tokens: TokenStream) -> Option<Span> {
    let mut after_dot = false;
    // Between `async` and the end of its block, function or closure.
    let mut in_async = false;
    for token in tokens {
        match &token {
            TokenTree::Ident(word) if after_dot && !in_async && word == "await" => {
                return Some(word.span());
            }
            TokenTree::Ident(word) if word == "async" => in_async = true,
            TokenTree::Group(group) => {
                if !in_async && let Some(found) = find_await(group.stream()) {
                    return Some(found);
                }
                if group.delimiter() == Delimiter::Brace {
                    in_async = false;
                }
            }
            TokenTree::Punct(end) if matches!(end.as_char(), ',' | ';') => in_async = false,
            _ => {}
        }
        after_dot = matches!(&token, TokenTree::Punct(dot) if dot.as_char() == '.');
    }
    None
}
