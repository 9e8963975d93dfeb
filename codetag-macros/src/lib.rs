//! The attribute of codetag.

use proc_macro::TokenStream;

/// Charges what a function allocates to its code tag.
#[proc_macro_attribute]
pub fn alloc_tag(_args: TokenStream, item: TokenStream) -> TokenStream {
    item
}
