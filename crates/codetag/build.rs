//! Turns the two stable ways of compiling the tags out into one cfg for this crate alone.

use std::env;

fn main() {
    println!("cargo:rerun-if-env-changed=CODETAG_BUILD");
    println!("cargo:rerun-if-changed=build.rs");
    let by_env = env::var("CODETAG_BUILD").is_ok_and(|v| v == "off");
    let by_feature = env::var_os("CARGO_FEATURE_TAGS").is_none();
    if by_env || by_feature {
        println!("cargo:rustc-cfg=codetag_off");
    }
}
