//! Turns the two stable ways of compiling the tags out into one cfg for this crate alone.

use std::env;

fn main() {
    println!("cargo:rerun-if-env-changed=CODETAG_BUILD");
    println!("cargo:rerun-if-changed=build.rs");
    let value = env::var_os("CODETAG_BUILD").unwrap_or_default();
    let by_env = value == "off";
    if !by_env && !value.is_empty() {
        println!(
            "cargo:warning=CODETAG_BUILD={} is not understood; its one value is `off`",
            value.display()
        );
    }
    let by_feature = env::var_os("CARGO_FEATURE_TAGS").is_none();
    if by_env || by_feature {
        println!("cargo:rustc-cfg=codetag_off");
    }
}
