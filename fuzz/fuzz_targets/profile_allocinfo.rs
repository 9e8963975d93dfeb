//! Any bytes as what follows the first line of allocinfo, of version 1 and of version 2.

#![no_main]

#[path = "../checks/profile.rs"]
mod profile;

use libfuzzer_sys::fuzz_target;
use std::io::Read;

fuzz_target!(|bytes: &[u8]| {
    for head in ["allocinfo - version: 1.0\n", "allocinfo - version: 2.0\n"] {
        profile::check(codetag_export::read(head.as_bytes().chain(bytes)));
    }
});
