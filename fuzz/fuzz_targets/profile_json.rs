//! Any bytes as what follows the version in a profile in json.

#![no_main]

#[path = "../checks/profile.rs"]
mod profile;

use libfuzzer_sys::fuzz_target;
use std::io::Read;

fuzz_target!(|bytes: &[u8]| {
    let head = b"{\"codetag_profile\":1,\n\"source\":\"snapshot\",\n\"usages\":[\n";
    profile::check(codetag_export::read(head.chain(bytes)));
});
