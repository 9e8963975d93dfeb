//! Truncated, empty, binary, huge and hostile input: one error that says where, and nothing else.

use crate::make;
use codetag_export::{MAX_TEXT_BYTES, ReadError};
use flate2::Compression;
use flate2::write::GzEncoder;
use std::io::{self, Read, Write};

fn fails(input: impl Read) -> (Option<u64>, String) {
    let error: ReadError = codetag_export::read(input).expect_err("no profile");
    assert!(error.message().chars().count() < 300, "{error}");
    (error.line(), error.message().to_owned())
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes).expect("into a vector");
    encoder.finish().expect("into a vector")
}

const HEADER: &str = "allocinfo - version: 2.0\n#     <size>  <calls> <tag info>\n";

/// What is wrong with one line of allocinfo, the third.
fn line(text: &str) -> String {
    let (line, message) = fails(format!("{HEADER}{text}\n").as_bytes());
    assert_eq!(line, Some(3), "{message}");
    message
}

#[test]
fn what_is_no_profile_is_told_so() {
    let start = "it starts neither with `{` as json nor with `allocinfo - version:`";
    for (input, line, message) in [
        (&b""[..], None, "is empty".to_owned()),
        (b"\0\x01\x02", Some(1), "is no profile: it is binary".into()),
        (
            b"\x7fELF\xff\xfe\xff",
            Some(1),
            format!("is no profile: {start}"),
        ),
        (b"hello\n", Some(1), format!("is no profile: {start}")),
        (b"[]", Some(1), format!("is no profile: {start}")),
        (&gzip(b""), None, "is empty".into()),
        (
            &gzip(&gzip(b"{}")),
            Some(1),
            "is no profile: it is gzipped twice".into(),
        ),
        (
            b"allocinfo\n",
            Some(1),
            "does not begin with `allocinfo - version: `".into(),
        ),
        (
            b"allocinfo - version: 3.0\n",
            Some(1),
            "is of version `3.0` of allocinfo, and this codetag reads 1 and 2".into(),
        ),
    ] {
        assert_eq!(fails(input), (line, message), "{}", input.escape_ascii());
    }
}

#[test]
fn a_number_that_does_not_parse_is_an_error_and_no_zero() {
    assert_eq!(line("12x 1 a.c:1 func:f "), "`12x` is no number of bytes");
    assert_eq!(line("12.5 1 a.c:1 func:f "), "`12.5` is no number of bytes");
    assert_eq!(line("+1 1 a.c:1 func:f "), "`+1` is no number of bytes");
    assert_eq!(
        line("9223372036854775808 1 a.c:1 func:f "),
        "`9223372036854775808` is no number of bytes"
    );
    assert_eq!(line("1 -1 a.c:1 func:f "), "`-1` is no number of objects");
    assert_eq!(line("1 1 a.c:x func:f "), "`x` is no line number");
    assert_eq!(line("1 1 a.c func:f "), "`a.c` is no `file:line`");
    assert_eq!(
        line("1 1 a.c:1 func:f requested:all "),
        "`all` is no number of bytes"
    );
    assert_eq!(
        line("1 1 a.c:1 func:f column:-1 "),
        "`-1` is no column number"
    );
    assert_eq!(
        line("1 1 a.c:1 func:f accurate:maybe "),
        "accurate is `maybe`, neither yes nor no"
    );
    assert_eq!(
        line("1 1 a.c:1 func:f requested:1 requested:2 "),
        "has two pairs `requested`"
    );
    assert_eq!(
        line("1 1 a.c:1 func:f a:1 stray "),
        "`stray` is no `key:value`"
    );
    assert_eq!(
        line("1 1 a.c:1 f "),
        "has no ` func:` behind its place; is it cut off?"
    );
    assert_eq!(
        line("1 1 <untagged>:0 func:untagged name:x "),
        "`name` belongs to a tag"
    );
    assert_eq!(line(""), "`` is no number of bytes");
    assert_eq!(
        line("\u{1b}[31m 1 a.c:1 func:f "),
        "`\\u{1b}[31m` is no number of bytes"
    );
    let escaped = HEADER.replace("info>\n", "info> escaped:percent\n");
    assert_eq!(
        fails(format!("{escaped}1 1 a%zz.c:1 func:f \n").as_bytes()),
        (Some(3), "`a%zz.c` is not percent-escaped".into())
    );
    assert_eq!(
        fails(format!("{escaped}1 1 a.c:1 func:f %6eame:x \n").as_bytes()),
        (Some(3), "`name` is no extra pair".into())
    );
    let time = HEADER.replace("info>\n", "info> taken_unix_ns:soon\n");
    assert_eq!(
        fails(time.as_bytes()),
        (Some(2), "`soon` is no time".into())
    );
}

#[test]
fn the_largest_numbers_are_kept() {
    let text =
        format!("{HEADER}-9223372036854775808 18446744073709551615 a.c:4294967295 func:f \n");
    let profile = codetag_export::read(text.as_bytes()).expect("all fit");
    let usage = &profile.usages[0];
    assert_eq!((usage.slot_bytes, usage.live_objs), (i64::MIN, u64::MAX));
    let both = [profile.usages.clone(), profile.usages.clone()].concat();
    let sums = make::profile(both).sums();
    assert_eq!(sums.live_objs, 2 * i128::from(u64::MAX));
}

#[test]
fn json_is_checked_as_strictly() {
    let head = "{\"codetag_profile\":1,\n\"source\":\"snapshot\",\n\"usages\":[\n";
    let row = "\"function\":\"f\",\"file\":\"a\",\"line\":1,\"live_objs\":1";
    for (text, line, message) in [
        ("{}".to_owned(), 1, "missing field `codetag_profile`"),
        (
            "{\"codetag_profile\":2,\"usages\":7}".to_owned(),
            1,
            "is of version 2 of the format, and this codetag reads version 1",
        ),
        (
            format!("{head}{{{row}}}]}}"),
            4,
            "missing field `slot_bytes`",
        ),
        (
            format!("{head}{{{row},\"slot_bytes\":\"8\"}}]}}"),
            4,
            "invalid type: string \"8\", expected i64",
        ),
        (
            format!("{head}{{{row},\"slot_bytes\":1e3}}]}}"),
            4,
            "invalid type: floating point `1000.0`, expected i64",
        ),
        (
            format!("{head}{{\"live_objs\":1,\"slot_bytes\":8}}]}}"),
            4,
            "missing field `function`",
        ),
        (
            format!("{head}{{{row},\"slot_bytes\":8,\"extra\":[[\"name\",\"x\"]]}}]}}"),
            4,
            "`name` is no extra pair",
        ),
        (
            format!("{head}{{{row},\"slot_bytes\":8}}]}}\nmore"),
            5,
            "trailing characters",
        ),
        (
            "{\"codetag_profile\":1,\"source\":\"/proc\",\"usages\":[]}".to_owned(),
            1,
            "unknown source `/proc`",
        ),
    ] {
        assert_eq!(
            fails(text.as_bytes()),
            (Some(line), message.to_owned()),
            "{text}"
        );
    }
}

/// Wherever a file is cut off, it is no profile.
#[test]
fn every_cut_is_noticed() {
    let profile = make::profile(make::large().usages.into_iter().take(3));
    let json = make::json(&profile);
    // The last byte is a line break, which json does not need.
    for end in 0..json.len() - 1 {
        fails(&json[..end]);
    }
    let text = make::allocinfo(&profile);
    let header_end = HEADER.len();
    let mut whole_lines = 0;
    for end in 0..text.len() {
        // A text that ends with a whole line is a shorter list: nothing says how long it should be.
        if end == 0 || text[end - 1] != b'\n' {
            fails(&text[..end]);
        } else {
            whole_lines += 1;
        }
    }
    assert!(text.len() > header_end && whole_lines == 4, "{whole_lines}");
    let gz = gzip(&text);
    for end in 1..gz.len() {
        fails(&gz[..end]);
    }
    for changed in 10..gz.len() {
        let mut damaged = gz.clone();
        damaged[changed] ^= 0x55;
        fails(&*damaged);
    }
}

/// An input that is never in memory as a whole.
#[derive(Debug)]
struct Endless {
    head: io::Cursor<Vec<u8>>,
    body: io::Take<io::Repeat>,
    /// How much was taken of it.
    taken: u64,
}

impl Endless {
    fn new(head: &str, byte: u8, len: u64) -> Self {
        Self {
            head: io::Cursor::new(head.into()),
            body: io::repeat(byte).take(len),
            taken: 0,
        }
    }
}

impl Read for &mut Endless {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let count = match self.head.read(buf)? {
            0 => self.body.read(buf)?,
            count => count,
        };
        self.taken += count as u64;
        Ok(count)
    }
}

/// Two gigabytes: an error after a few pieces, and never more than a piece in memory.
#[test]
fn a_line_of_two_gigabytes_ends_after_64_kib() {
    const HUGE: u64 = 2 << 30;
    let string = "{\"codetag_profile\":1,\n\"source\":\"";
    let skipped = "{\"codetag_profile\":1,\n\"other\":\"";
    for (head, line, message) in [
        (
            format!("{HEADER}12 1 src/"),
            Some(3),
            "the line is longer than 64 KiB",
        ),
        (
            "allocinfo - ".to_owned(),
            Some(1),
            "the line is longer than 64 KiB",
        ),
        (
            string.to_owned(),
            Some(2),
            "has a string longer than 64 KiB",
        ),
        (
            skipped.to_owned(),
            Some(2),
            "has a string longer than 64 KiB",
        ),
    ] {
        let mut input = Endless::new(&head, b'x', HUGE);
        assert_eq!(fails(&mut input), (line, message.to_owned()), "{head}");
        assert!(
            input.taken < 4 * MAX_TEXT_BYTES as u64,
            "{} taken",
            input.taken
        );
    }
    // What looks like text and never says anything.
    let mut input = Endless::new("\n", b'\0', HUGE);
    assert_eq!(
        fails(&mut input),
        (Some(1), "is no profile: it is binary".into())
    );
}

#[test]
fn a_text_of_just_64_kib_is_read() {
    let start = "1 1 a.c:1 func:";
    let text = |len: usize| format!("{HEADER}{start}{}\n", "n".repeat(len - start.len()));
    let profile = codetag_export::read(text(MAX_TEXT_BYTES).as_bytes()).expect("it fits");
    let function = &profile.usages[0].owner.tag().expect("a tag").function;
    assert_eq!(function.len(), MAX_TEXT_BYTES - start.len());
    assert_eq!(
        fails(text(MAX_TEXT_BYTES + 1).as_bytes()),
        (Some(3), "the line is longer than 64 KiB".into())
    );
    let json = make::json(&profile);
    assert_eq!(codetag_export::read(&*json).expect("it fits"), profile);
}

#[test]
fn deep_json_and_packed_zeros_end() {
    let deep = format!("{{\"codetag_profile\":1,\"x\":{}", "[".repeat(1 << 20));
    assert_eq!(fails(deep.as_bytes()).0, Some(1));
    let deep = format!("{{\"codetag_profile\":1,\"usages\":{}", "[".repeat(1 << 20));
    assert_eq!(fails(deep.as_bytes()).0, Some(1));

    // 129 MiB of comments in less than one.
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    let mut comment = vec![b'#'; MAX_TEXT_BYTES];
    comment[MAX_TEXT_BYTES - 1] = b'\n';
    encoder.write_all(HEADER.as_bytes()).expect("into a vector");
    for _ in 0..(129 << 20) / MAX_TEXT_BYTES {
        encoder.write_all(&comment).expect("into a vector");
    }
    let bomb = encoder.finish().expect("into a vector");
    assert!(bomb.len() < 1 << 20);
    assert_eq!(fails(&*bomb).1, "is larger than 128 MiB unpacked");
}

/// Changed in any way, an input is read or refused, and never ends the program.
#[test]
fn no_change_of_bytes_panics() {
    let mut random = fastrand::Rng::with_seed(7);
    let profile = make::profile(make::large().usages.into_iter().take(12));
    let inputs = [
        make::json(&profile),
        make::allocinfo(&profile),
        gzip(&make::json(&profile)),
    ];
    let rounds = if std::env::var_os("CODETAG_LONG").is_some() {
        200_000
    } else {
        3_000
    };
    let mut read = 0;
    for round in 0..rounds {
        let mut bytes = inputs[round % inputs.len()].clone();
        for _ in 0..random.usize(1..4) {
            let at = random.usize(0..bytes.len());
            match random.u8(0..4) {
                0 => bytes[at] = random.u8(..),
                1 => bytes.truncate(at + 1),
                2 => bytes.insert(at, *random.choice(b"\n \":;[]{}-%#9\\\0").expect("some")),
                _ => bytes.extend_from_within(at..(at + 40).min(bytes.len())),
            }
        }
        match codetag_export::read(&*bytes) {
            Ok(profile) => {
                read += 1;
                // What could be read can be written and read.
                for bytes in [make::json(&profile), make::allocinfo(&profile)] {
                    assert_eq!(codetag_export::read(&*bytes).expect("ours"), profile);
                }
            }
            Err(error) => assert!(error.message().chars().count() < 300, "{error}"),
        }
    }
    assert!(read > rounds / 100, "{read} of {rounds}");
}

/// What is quoted is cut off by what is shown of it, which is longer than it is when it is escaped.
#[test]
fn what_a_message_quotes_is_visible_and_short() {
    for c in [
        '\u{1}',
        '\u{18}',
        '\u{7f}',
        '\u{9b}',
        '\u{202e}',
        '\u{e0001}',
    ] {
        let long: String = [c; 400].iter().collect();
        let shown = c.escape_unicode().to_string();
        let quoted = format!("`{}…`", shown.repeat(60 / shown.len()));
        assert_eq!(
            fails(format!("allocinfo - version: {long}\n").as_bytes()),
            (
                Some(1),
                format!("is of version {quoted} of allocinfo, and this codetag reads 1 and 2")
            )
        );
        assert_eq!(
            line(&format!("{long} 1 a.c:1 func:f ")),
            format!("{quoted} is no number of bytes")
        );
        let json = serde_json::json!({"codetag_profile": 1, "source": c, "usages": []});
        assert_eq!(
            fails(json.to_string().as_bytes()).1,
            format!("unknown source `{shown}`")
        );
        let json = serde_json::json!({"codetag_profile": 1, "source": long, "usages": []});
        let (_, message) = fails(json.to_string().as_bytes());
        assert!(message.ends_with('…'), "{message}");
        assert!(
            message
                .chars()
                .all(|c| " `…".contains(c) || c.is_ascii_graphic()),
            "{message}"
        );
    }
}

#[test]
fn an_input_that_fails_is_no_profile() {
    struct Fails;
    impl Read for Fails {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(io::Error::other("unplugged"))
        }
    }
    assert_eq!(fails(Fails), (None, "unplugged".into()));
    let text = format!("{HEADER}1 1 a.c:1 func:f \n");
    assert_eq!(
        fails(text.as_bytes().chain(Fails)),
        (Some(4), "unplugged".into())
    );
    let json = b"{\"codetag_profile\":1,";
    assert_eq!(fails(json.chain(Fails)).1, "unplugged");
}
