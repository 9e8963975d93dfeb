//! What is written is read again as it was.

use crate::make;
use codetag_export::{Owner, Profile, Source, Tag, Usage, csv};
use flate2::Compression;
use flate2::write::GzEncoder;
use proptest::prelude::*;
use std::io::Write;

fn read(bytes: &[u8]) -> Profile {
    match codetag_export::read(bytes) {
        Ok(profile) => profile,
        Err(error) => panic!("{error} in\n{}", String::from_utf8_lossy(bytes)),
    }
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes).expect("into a vector");
    encoder.finish().expect("into a vector")
}

#[test]
fn five_thousand_tags_come_back_from_json_and_allocinfo() {
    let profile = make::large();
    assert_eq!(profile.usages.len(), 5_002);
    for bytes in [make::json(&profile), make::allocinfo(&profile)] {
        assert_eq!(read(&bytes), profile);
        assert_eq!(read(&gzip(&bytes)), profile);
        // Two gzip members in a row are one file.
        let (a, b) = bytes.split_at(bytes.len() / 2);
        assert_eq!(read(&[gzip(a), gzip(b)].concat()), profile);
    }
    // From one to the other and back.
    let there = read(&make::allocinfo(&read(&make::json(&profile))));
    assert_eq!(there, profile);
}

/// The text that `codetag::allocinfo()` prints is read, and written as it was.
#[test]
fn what_a_running_program_prints_is_read() {
    let lines = [
        (
            48,
            1,
            "examples/show_mem.rs:97 [show_mem] func:index_files requested:40",
        ),
        (64, 2, "src/a.rs:3 [a] func:f name:two_words requested:60"),
        (0, 0, "src/a.rs:9 [a] func:dyn Trait::f requested:0"),
        (16, 1, "<untagged>:0 func:untagged requested:9"),
        (584, 2, "<untracked>:0 func:untracked accurate:no"),
    ]
    .map(|(size, calls, info)| format!("{size:>12} {calls:>8} {info} \n"))
    .concat();
    let text = format!("allocinfo - version: 2.0\n#     <size>  <calls> <tag info>\n{lines}");
    let profile = read(text.as_bytes());
    assert_eq!(profile.source, Source::Allocinfo { major: 2, minor: 0 });
    let [_, named, spaced, untagged, untracked] = &profile.usages[..] else {
        panic!("five owners: {profile:?}");
    };
    let tag = named.owner.tag().expect("a tag");
    assert_eq!(tag.name.as_deref(), Some("two_words"));
    assert_eq!(
        (tag.krate.as_deref(), &*tag.file, tag.line),
        (Some("a"), "src/a.rs", 3)
    );
    assert_eq!(
        spaced.owner.tag().map(|tag| &*tag.function),
        Some("dyn Trait::f")
    );
    assert_eq!(
        (named.slot_bytes, named.live_objs, named.requested_bytes),
        (64, 2, Some(60))
    );
    assert_eq!(
        (&untagged.owner, untagged.requested_bytes),
        (&Owner::Untagged, Some(9))
    );
    assert_eq!(
        (&untracked.owner, untracked.requested_bytes),
        (&Owner::Untracked, None)
    );
    assert_eq!((untagged.is_accurate, untracked.is_accurate), (true, false));
    // The space in a function's name is the only thing that needs an escape.
    let again = String::from_utf8(make::allocinfo(&profile)).expect("text");
    assert_eq!(
        again,
        text.replace("<tag info>", "<tag info> escaped:percent")
            .replace("dyn T", "dyn%20T")
    );
    assert_eq!(read(again.as_bytes()), profile);
}

#[test]
fn csv_has_a_line_per_owner_and_every_field() {
    let mut usage = make::usage(
        Tag {
            name: Some("a \"b\", c".into()),
            ..make::tag("m", "f", 7)
        },
        2,
        10,
    );
    usage.extra = vec![("k".into(), "v".into()), ("l".into(), "w".into())];
    let untracked = Usage {
        requested_bytes: None,
        is_accurate: false,
        ..make::usage(Owner::Untracked, 1, 24)
    };
    let text = make::written(|out| csv::write(&make::profile([usage, untracked]), out));
    assert_eq!(
        str::from_utf8(&text).expect("text"),
        "kind,crate,module_path,function,file,line,column,name,live_objs,requested_bytes,slot_bytes,accurate,extra\n\
         tag,app,app::m,f,src/m.rs,7,4,\"a \"\"b\"\", c\",2,10,18,yes,k:v l:w\n\
         untracked,,,,,,,,1,,32,no,\n"
    );
}

/// Texts with everything that means something to one of the formats.
fn text() -> impl Strategy<Value = String> {
    let word = prop_oneof![
        Just(String::new()),
        "[a-z_:]{1,12}",
        proptest::sample::select(
            &[
                "a b",
                " ",
                "100%",
                "%41",
                "x:y",
                ":",
                "[m]",
                "func:",
                " func:f",
                "]",
                "#",
                "\"",
                "\\",
                "\n",
                "\r",
                "\t",
                "\0",
                "requested:5",
                "dyn A::b c:d",
                "ü\u{2028}",
                "k:v"
            ][..]
        )
        .prop_map(str::to_owned),
    ];
    proptest::collection::vec(word, 0..3).prop_map(|words| words.concat())
}

fn tag() -> impl Strategy<Value = Tag> {
    let option = || proptest::option::of(text());
    (
        option(),
        option(),
        text(),
        text(),
        any::<u32>(),
        proptest::option::of(any::<u32>()),
        option(),
    )
        .prop_map(
            |(krate, module_path, function, file, line, column, name)| Tag {
                krate,
                module_path,
                function,
                file,
                line,
                column,
                name,
            },
        )
}

fn usage() -> impl Strategy<Value = Usage> {
    let owner = prop_oneof![
        8 => tag().prop_map(Owner::Tag),
        1 => Just(Owner::Untagged),
        1 => Just(Owner::Untracked),
    ];
    let known = ["name", "requested", "module", "column", "accurate"];
    let key = text().prop_filter("a field's", move |key| !known.contains(&&**key));
    (
        owner,
        any::<u64>(),
        any::<Option<i64>>(),
        any::<i64>(),
        any::<bool>(),
        proptest::collection::vec((key, text()), 0..3),
    )
        .prop_map(
            |(owner, live_objs, requested_bytes, slot_bytes, is_accurate, extra)| Usage {
                owner,
                live_objs,
                requested_bytes,
                slot_bytes,
                is_accurate,
                extra,
            },
        )
}

fn profile() -> impl Strategy<Value = Profile> {
    let source = prop_oneof![
        Just(Source::Snapshot),
        Just(Source::Allocinfo { major: 1, minor: 0 }),
        Just(Source::Allocinfo { major: 2, minor: 3 }),
    ];
    let heap = proptest::collection::vec((text(), any::<i64>()), 0..3);
    let usages = proptest::collection::vec(usage(), 0..6);
    (
        source,
        proptest::option::of(text()),
        any::<Option<u64>>(),
        any::<Option<bool>>(),
        heap,
        usages,
    )
        .prop_map(
            |(source, program, taken_unix_ns, is_quiet, heap, usages)| Profile {
                source,
                program,
                taken_unix_ns,
                is_quiet,
                heap,
                usages,
            },
        )
}

/// `a::b` is a path, so `name::b` is no pair; found by the test below.
#[test]
fn a_value_that_begins_with_a_colon_comes_back() {
    let set: [fn(&mut Tag, Option<String>); 3] = [
        |tag, text| tag.name = text,
        |tag, text| tag.module_path = text,
        |tag, text| tag.krate = text,
    ];
    for set in set {
        let mut tag = make::tag("m", "f", 1);
        set(&mut tag, Some(":b".into()));
        let profile = make::profile([make::usage(tag, 1, 1)]);
        assert_eq!(read(&make::allocinfo(&profile)), profile);
    }
}

fn cases() -> u32 {
    match std::env::var_os("CODETAG_LONG") {
        Some(_) => 20_000,
        None => 300,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(cases()) })]

    #[test]
    fn every_profile_comes_back_from_json(profile in profile()) {
        prop_assert_eq!(read(&make::json(&profile)), profile);
    }

    #[test]
    fn every_profile_comes_back_from_allocinfo(profile in profile()) {
        let bytes = make::allocinfo(&profile);
        prop_assert_eq!(bytes.iter().filter(|&&b| b == b'\n').count(), profile.usages.len() + 2);
        prop_assert_eq!(read(&bytes), profile);
    }
}
