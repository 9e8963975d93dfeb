//! The attribute of codetag: tokens in, tokens out.
//!
//! This crate knows no cfg and no platform. It exports the attribute twice, with the tags compiled in
//! ([`macro@alloc_tag`]) and out ([`macro@alloc_tag_off`]); codetag alone decides which of the two it
//! gives to its users, under the one name `alloc_tag`.
//!
//! `attr` parses, `expand` emits, `async_fn` knows how a future gets its scope.

use proc_macro::TokenStream;

mod async_fn;
mod attr;
mod await_scan;
mod expand;

use expand::Tags;

/// Charges what a function allocates to its code tag.
///
/// Everything allocated while the function runs, callees included, is charged to it, except what runs
/// in a tagged function further in. The tag that was current before is restored on return, on `?`, on
/// panic, at each `.await` and when a future is dropped half-way.
///
/// # Where it stands
///
/// - on a `fn`: free, method, trait default method, generic, `unsafe`, `extern "C"`. A generic function
///   has one tag for all its instances.
/// - on an `async fn`: the tag is current during each poll and while the future is dropped. The function
///   becomes a `fn` that returns `impl Future`, and the future grows by one word (8 B; 16 B where it is
///   aligned to 16). The compiler's recursion limit allows 25 such futures one in another instead of 32
///   plain ones; `#![recursion_limit]` raises it.
/// - on a function whose last expression is `async move { … }`, `Box::pin(async move { … })` or
///   `async move { … }.boxed()`: function and future are both charged. This is how methods of
///   `#[async_trait]` look to the attribute.
/// - on an `impl` block, a trait or an inline module: every function with a body in it, nested ones
///   too, except `const fn`s and what macros in it expand to. [`CodeTag::function`] then says
///   `Type::method`; on a method alone it says `method`.
///
/// An `async fn` stays an `async fn` with its body wrapped where it must not change its form: below
/// other attribute macros (`#[alloc_tag] #[other] async fn …`), where it is `#[must_use]`, and where it
/// returns `impl Trait` or `!`. Such a future holds its arguments twice: it grows by their size and up to
/// 16 B. Its arguments are dropped in the order of the plain function, except that what a pattern took
/// apart is dropped first, and that a future never polled drops them all outside of the scope.
///
/// # Options
///
/// - `name = "…"`: a name of your own, beside the function's. Only on a function.
/// - `skip`: leaves a function, impl block or module inside a tagged impl block or module untagged.
/// - `crate = path`: where codetag is found, if not at `::codetag`.
///
/// # Examples
///
/// ```
/// # use std::{io, path::Path};
/// # type Index = Vec<String>;
/// #[codetag::alloc_tag]
/// fn load_index(path: &Path) -> io::Result<Index> {
///     Ok(std::fs::read_to_string(path)?.lines().map(String::from).collect())
/// }
///
/// #[codetag::alloc_tag(name = "page cache")]
/// async fn page(key: &str) -> String {
///     format!("page of {key}")
/// }
///
/// struct Parser {
///     text: Vec<char>,
/// }
///
/// #[codetag::alloc_tag]
/// impl Parser {
///     fn new(text: &str) -> Self {
///         Self { text: text.chars().collect() }
///     }
///
///     #[codetag::alloc_tag(skip)]
///     fn peek(&self) -> Option<char> {
///         self.text.first().copied()
///     }
/// }
/// # assert!(load_index(Path::new("/nowhere")).is_err());
/// # assert_eq!(Parser::new("a").peek(), Some('a'));
/// # drop(page("x"));
/// ```
///
/// # Errors
///
/// A lone `const fn` is refused (it may run at compile time, where there is no heap), as are items
/// without code, such as a struct, and modules in files of their own.
///
/// [`CodeTag::function`]: https://docs.rs/codetag/latest/codetag/struct.CodeTag.html#method.function
#[proc_macro_attribute]
pub fn alloc_tag(args: TokenStream, item: TokenStream) -> TokenStream {
    expand::expand(args.into(), item.into(), Tags::On).into()
}

/// The twin of `alloc_tag` for builds without tags.
///
/// It takes the same options, refuses the same items with the same words, and emits the item unchanged.
#[proc_macro_attribute]
pub fn alloc_tag_off(args: TokenStream, item: TokenStream) -> TokenStream {
    expand::expand(args.into(), item.into(), Tags::Off).into()
}

/// Emits an expression unchanged, or refuses it for an `.await` in it. Not part of the public interface.
#[doc(hidden)]
#[proc_macro]
pub fn no_await(expr: TokenStream) -> TokenStream {
    await_scan::refuse_await(expr.into()).into()
}
