//! Folded stacks and flame graphs, read again by other readers.

use crate::make::{self, profile, tag, usage};
use codetag_export::folded::{self, LeftOut};
use codetag_export::{Diff, Measure, Owner, Profile, Tag, Usage, svg};
use quick_xml::events::Event;
use std::collections::BTreeMap;
use std::io;

fn folded_text(profile: &Profile, measure: Measure) -> String {
    let text = make::written(|out| folded::write(profile, measure, out).map(drop));
    String::from_utf8(text).expect("text")
}

/// The titles of all frames, `NAME (N bytes, P%)`, by an XML parser.
fn titles(svg: &[u8]) -> Vec<String> {
    let mut reader = quick_xml::Reader::from_reader(svg);
    let mut titles: Vec<String> = Vec::new();
    let mut is_title = false;
    let mut buf = Vec::new();
    loop {
        match reader.read_event_into(&mut buf).expect("well-formed XML") {
            Event::Eof => break titles,
            Event::Start(element) if element.name().as_ref() == b"title" => {
                is_title = true;
                titles.push(String::new());
            }
            Event::End(element) if element.name().as_ref() == b"title" => is_title = false,
            Event::Text(text) if is_title => {
                let text = text.decode().expect("UTF-8");
                titles.last_mut().expect("begun").push_str(&text);
            }
            Event::GeneralRef(entity) if is_title => {
                let character = match &*entity.decode().expect("UTF-8") {
                    "lt" => '<',
                    "gt" => '>',
                    "amp" => '&',
                    "quot" => '"',
                    "apos" => '\'',
                    other => panic!("unknown entity {other}"),
                };
                titles.last_mut().expect("begun").push(character);
            }
            _ => {}
        }
        buf.clear();
    }
}

fn draw(profile: &Profile, measure: Measure) -> Vec<u8> {
    make::written(|out| svg::write(profile, "a title", measure, out).map(drop))
}

#[test]
fn folded_stacks_are_read_by_inferno_with_the_same_figures() {
    let profile = make::read("linux-6.12-under-load.allocinfo.gz");
    let text = folded_text(&profile, Measure::Bytes);
    let mut sums: BTreeMap<&str, i128> = BTreeMap::new();
    for line in text.lines() {
        let (stack, weight) = line.rsplit_once(' ').expect("a weight");
        *sums.entry(stack).or_default() += weight.parse::<i128>().expect("a number");
    }
    assert_eq!(sums.values().sum::<i128>(), 35_041_056);
    assert_eq!(
        sums["built-in;mm;filemap.c;__filemap_get_folio;mm/filemap.c:1944"],
        profile.groups(codetag_export::By::Tag, Measure::Bytes)[0]
            .sums
            .bytes
    );

    let mut picture = Vec::new();
    let mut options = inferno::flamegraph::Options::default();
    options.count_name = "bytes".into();
    options.min_width = 0.0;
    inferno::flamegraph::from_reader(&mut options, text.as_bytes(), &mut picture).expect("folded");
    let titles = titles(&picture);
    assert!(
        titles.contains(&"all (35,041,056 bytes, 100%)".to_owned()),
        "{titles:?}"
    );
    for (stack, bytes) in sums {
        let leaf = stack.rsplit(';').next().expect("a frame");
        let figure = format!("{leaf} ({} bytes,", with_commas(bytes));
        assert!(
            titles.iter().any(|title| title.starts_with(&figure)),
            "{figure}"
        );
    }
}

fn with_commas(number: i128) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (position, digit) in digits.chars().enumerate() {
        if position > 0 && (digits.len() - position).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[test]
fn a_picture_has_a_frame_per_level() {
    let profile = profile([
        usage(tag("m", "f", 1), 3, 600),
        usage(tag("m", "g", 9), 1, 300),
        usage(Owner::Untagged, 1, 100),
    ]);
    let titles = titles(&draw(&profile, Measure::Bytes));
    for title in [
        "all (1,000 bytes, 100%)",
        "app (900 bytes, 90.00%)",
        "m (900 bytes, 90.00%)",
        "f (600 bytes, 60.00%)",
        "src/m.rs:1 (600 bytes, 60.00%)",
        "src/m.rs:9 (300 bytes, 30.00%)",
        "<untagged> (100 bytes, 10.00%)",
    ] {
        assert!(titles.iter().any(|t| t == title), "{title}: {titles:?}");
    }
    let titles = self::titles(&draw(&profile, Measure::Objects));
    assert!(
        titles.iter().any(|t| t == "f (3 objects, 60.00%)"),
        "{titles:?}"
    );
    // Drawn again it is the same picture.
    assert!(draw(&profile, Measure::Bytes) == draw(&profile, Measure::Bytes));
}

#[test]
fn hostile_names_are_text_in_the_picture() {
    let script = "<script>alert(1)</script>";
    let hostile = Tag {
        name: Some("]]> \u{0}\u{8}\u{fffe} &amp; \" '".into()),
        ..tag("</title><g onload=\"x\">", script, 1)
    };
    let profile = profile([usage(hostile, 1, 10)]);
    let svg = make::written(|out| svg::write(&profile, script, Measure::Bytes, out).map(drop));
    let text = str::from_utf8(&svg).expect("text");
    assert!(!text.contains("<script>alert") && !text.contains("<g onload"));
    assert!(
        text.chars()
            .all(|c| matches!(c, '\n' | '\t' | '\r' | ' '..='\u{fffd}' | '\u{10000}'..))
    );
    let titles = titles(&svg);
    assert!(
        titles.contains(&format!("{script} (10 bytes, 100.00%)")),
        "{titles:?}"
    );
    assert!(
        titles
            .iter()
            .any(|t| t.starts_with("]]> \\u{0}\\u{8}\\u{fffe} &amp, \" ' (src/")),
        "{titles:?}"
    );
}

#[test]
fn what_has_no_weight_is_left_out_and_counted() {
    let mut negative = usage(tag("m", "f", 1), 1, -50);
    negative.slot_bytes = -40;
    let profile = profile([
        negative,
        usage(tag("m", "g", 2), 1, 5),
        usage(tag("m", "zero", 3), 1, 0),
    ]);
    let mut out = Vec::new();
    let left_out = folded::write(&profile, Measure::Bytes, &mut out).expect("into a vector");
    assert_eq!(
        left_out,
        LeftOut {
            owners: 1,
            sum: -50
        }
    );
    assert_eq!(str::from_utf8(&out), Ok("app;m;g;src/m.rs:2 5\n"));
    assert_eq!(
        folded_text(&profile, Measure::Slot),
        "app;m;g;src/m.rs:2 13\napp;m;zero;src/m.rs:3 8\n"
    );
}

#[test]
fn nothing_and_too_much_are_errors_before_the_first_byte() {
    let kind = |profile: &Profile| {
        let mut out = Vec::new();
        let error = svg::write(profile, "", Measure::Bytes, &mut out).expect_err("no picture");
        assert!(out.is_empty());
        (error.kind(), error.to_string())
    };
    assert_eq!(
        kind(&profile([])),
        (
            io::ErrorKind::InvalidInput,
            "there is nothing to draw: no owner has anything".into()
        )
    );
    let too_much = Usage {
        requested_bytes: Some(i64::MAX),
        ..usage(tag("m", "f", 1), 1, 1)
    };
    assert_eq!(
        kind(&profile([too_much.clone(), too_much])),
        (
            io::ErrorKind::InvalidInput,
            "the figures sum up to 18446744073709551614; folded stacks have at most 9007199254740992".into()
        )
    );
}

#[test]
fn a_difference_has_both_weights_and_is_coloured() {
    let before = profile([
        usage(tag("m", "grown", 1), 1, 100),
        usage(tag("m", "shrunk", 2), 1, 900),
        usage(tag("m", "gone", 3), 1, 50),
    ]);
    let after = profile([
        usage(tag("m", "grown", 1), 1, 500),
        usage(tag("m", "shrunk", 2), 1, 500),
    ]);
    let diff = Diff::new(&before, &after);
    let text = make::written(|out| folded::write_diff(&diff, Measure::Bytes, out).map(drop));
    assert_eq!(
        str::from_utf8(&text),
        Ok(
            "app;m;gone;src/m.rs:3 50 0\napp;m;grown;src/m.rs:1 100 500\napp;m;shrunk;src/m.rs:2 900 500\n"
        )
    );
    let picture =
        make::written(|out| svg::write_diff(&diff, "diff", Measure::Bytes, out).map(drop));
    let titles = titles(&picture);
    assert!(
        titles.contains(&"src/m.rs:1 (500 bytes, 50.00%; +40.00%)".to_owned()),
        "{titles:?}"
    );
    assert!(
        titles.contains(&"src/m.rs:2 (500 bytes, 50.00%; -40.00%)".to_owned()),
        "{titles:?}"
    );
}
