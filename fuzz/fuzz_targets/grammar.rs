//! The parser of `CODETAG`: any bytes, against the rule stated a second time.

#![no_main]

#[path = "../../crates/codetag/src/control/grammar.rs"]
mod grammar;

use grammar::Setting;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|value: &[u8]| {
    let wish = grammar::parse(value);
    let parts: Vec<&[u8]> = value.split(|&b| b == b',').map(<[u8]>::trim_ascii).collect();
    let setting = match parts[0] {
        b"never" => Some(Setting::Never),
        b"0" => Some(Setting::Off),
        b"1" => Some(Setting::On),
        _ => None,
    };
    assert_eq!(wish.setting, setting);
    assert_eq!(wish.page_at_exit, parts[1..].contains(&&b"exit"[..]));
    let is_unknown = (setting.is_none() && !parts[0].is_empty())
        || parts[1..].iter().any(|&p| p != b"exit");
    match grammar::unknown_word() {
        // The first of all runs is kept.
        Some(word) => {
            let word = word.as_str();
            assert!(!word.is_empty() && word.len() <= 48);
            assert!(word.bytes().all(|b| b.is_ascii_graphic()));
        }
        None => assert!(!is_unknown),
    }
});
