//! The attribute and the macro, seen through the current tag.

// For the chain of 130 futures: without the attribute it needs 130 × 4, with it 130 × 5.
#![recursion_limit = "700"]

#[cfg(not(codetag_off))]
mod attribute {
    mod async_trait;
    mod futures;
    mod listing;
    mod scopes;
    mod ui;
    mod unsafe_fns;
}

#[cfg(codetag_off)]
#[path = "attribute/off.rs"]
mod off;
