//! Any bytes as a profile: gzip, json or allocinfo, as they say themselves.

#![no_main]

#[path = "../checks/profile.rs"]
mod profile;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| profile::check(codetag_export::read(bytes)));
