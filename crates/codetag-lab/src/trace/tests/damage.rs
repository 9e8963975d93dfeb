//! Files that are no traces, and traces that are not whole.

use super::{drain, file_of, read, read_bytes, read_file};
use crate::event::Source;
use crate::trace::{Events, LINE_BYTES_MAX, TraceFile};
use flate2::Compression;
use flate2::write::GzEncoder;
use std::io::{self, BufRead, BufReader, Read, Write};

const LINE: &str = "a-1 [000] d.... 0.1: kfree: call_site=f+0x1/0x2 ptr=00000000000000aa\n";

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).expect("memory can be written");
    encoder.finish().expect("memory can be written")
}

fn refused(bytes: &[u8]) -> String {
    let (events, _, result) = read_bytes(bytes);
    assert_eq!(events, []);
    result.expect_err("no trace").to_string()
}

#[test]
fn what_is_no_trace_is_refused_with_a_line() {
    assert_eq!(refused(b""), "the file is empty");
    assert_eq!(refused(b"\n\n# text\n"), "holds no event: this is no trace");
    assert_eq!(
        refused(b"# prose\n\nLorem ipsum\ndolor\n"),
        "line 3: no event, no header and no comment: this is no trace"
    );
    // Without a line end the reason is still that of the line.
    assert_eq!(
        refused(&[0; 5000]),
        "line 1: binary, not text: this is no trace"
    );
    assert_eq!(
        refused(b"\0\x01\x02\n\xff\xfe\n"),
        "line 1: binary, not text: this is no trace"
    );
    assert_eq!(
        refused(b"codetag-trace 2\nfree 1\nend\n"),
        "line 1: version 2 of the format; this reads version 1"
    );
    assert_eq!(
        refused(b"a-1 [000] d.... 0.5: sched_switch: prev_comm=a\n"),
        "none of its 1 events is a kmem event; record with -e kmem"
    );
    assert_eq!(
        refused(&vec![b'x'; LINE_BYTES_MAX + 1]),
        format!("line 1: longer than {LINE_BYTES_MAX} bytes: this is no trace")
    );
}

/// Text without end, which must not be read to its end.
struct Endless(u64);

impl Read for Endless {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        assert!(self.0 < 10_000_000, "reads on though nothing is a trace");
        self.0 += buffer.len() as u64;
        for (at, byte) in buffer.iter_mut().enumerate() {
            *byte = if at % 10 == 9 { b'\n' } else { b'x' };
        }
        Ok(buffer.len())
    }
}

#[test]
fn a_file_that_starts_with_nonsense_is_not_read_to_its_end() {
    let mut events = Events::new(Box::new(BufReader::new(Endless(0))));
    let (_, result) = drain(&mut events);
    assert_eq!(
        result.expect_err("no trace").to_string(),
        "line 1: no event, no header and no comment: this is no trace"
    );
}

#[test]
fn lines_that_cannot_be_read_are_counted_and_the_first_is_named() {
    let mut text = LINE.repeat(3);
    text.push_str("a-1 [000] d.... 0.1: kfree: call_site=f+0x1/0x2\n");
    text.push_str(&"y".repeat(3 * LINE_BYTES_MAX));
    text.push('\n');
    text.push_str(
        "a-1 [000] d.... 0.1: kmalloc: call_site=f ptr=1 bytes_req=x bytes_alloc=8 gfp_flags=0\n",
    );
    text.push_str("a-1 [000] d.... 0.1: mm_page_free: page=1 pfn=0x1 order=21\n");
    text.push_str("??\n");
    text.push_str(LINE);
    let (events, reader) = read(&text);
    assert_eq!(events.len(), 4);
    assert_eq!(reader.counts().malformed_lines, 5);
    assert_eq!(
        reader.malformed().map(ToString::to_string).as_deref(),
        Some("line 4: no ptr")
    );
    assert!(reader.truncated().is_none());
}

/// At every byte: the events before are read, and the cut is noticed.
#[test]
fn a_file_may_end_anywhere() {
    let whole = format!(
        "# tracer: nop\n# entries-in-buffer/entries-written: 4/4   #P:1\n{}",
        LINE.repeat(4)
    );
    let head = whole.len() - 4 * LINE.len();
    for cut in head..whole.len() {
        let (events, reader, result) = read_bytes(&whole.as_bytes()[..cut]);
        result.expect("still a trace");
        assert_eq!(events.len(), (cut - head) / LINE.len(), "cut at {cut}");
        assert!(reader.counts().truncated, "cut at {cut}");
        let line = 2 + (cut - head).div_ceil(LINE.len());
        assert!(
            reader.truncated().is_some_and(|at| at.line == line as u64),
            "cut at {cut}: {:?}",
            reader.truncated()
        );
    }
    assert!(!read(&whole).1.counts().truncated);

    let own = "codetag-trace 1\nkmalloc 10 8 8\nfree 10\nend\n";
    for cut in "codetag-trace 1\n".len()..own.len() - 1 {
        let (_, reader, result) = read_bytes(&own.as_bytes()[..cut]);
        result.expect("still a trace");
        // `end` without its line end is an end.
        let ends = own[..cut].ends_with("end");
        assert_eq!(reader.counts().truncated, !ends, "cut at {cut}");
    }
    assert!(!read(own).1.counts().truncated);
}

#[test]
fn an_early_part_without_its_end_is_cut() {
    let (_, reader) = read("# entries 2 lost 0\n0 mm_page_free: pfn=0x1 order=0\n");
    assert_eq!(
        reader.truncated().map(ToString::to_string).as_deref(),
        Some("line 2: the file ends before @@EARLY_END")
    );
}

#[test]
fn gzip_is_known_by_its_content_and_may_have_members() {
    let mut bytes = gzip(LINE.repeat(3).as_bytes());
    bytes.extend(gzip(LINE.as_bytes()));
    let (events, reader) = read_file(&bytes);
    assert_eq!(events.len(), 4);
    assert!(!reader.counts().truncated);
    assert_eq!(reader.position_bytes(), bytes.len() as u64);
}

/// At every byte, and with every byte changed: never a panic, and never silently another trace.
#[test]
fn damaged_gzip_is_noticed() {
    let text: String = (1..200)
        .map(|ptr| format!("a-1 [000] d.... 0.1: kfree: call_site=f+0x1/0x2 ptr={ptr:x}\n"))
        .collect();
    let whole = gzip(text.as_bytes());
    let outcome = |bytes: &[u8]| {
        let file = file_of(bytes);
        let trace = match TraceFile::open(file.path()) {
            Ok(trace) => trace,
            Err(error) => return Err(error.to_string()),
        };
        let mut reader = trace.events().expect("opened before");
        let (events, result) = drain(&mut reader);
        result.map_err(|error| error.to_string())?;
        Ok((events.len(), reader.counts()))
    };
    for cut in 0..whole.len() {
        match outcome(&whole[..cut]) {
            Ok((_, counts)) => assert!(counts.truncated, "cut at {cut}: {counts:?}"),
            Err(message) => assert!(!message.is_empty()),
        }
    }
    for at in 10..whole.len() {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x10;
        match outcome(&bytes) {
            Ok((_, counts)) => assert!(counts.truncated, "changed at {at}: {counts:?}"),
            Err(message) => assert!(!message.is_empty()),
        }
    }
}

#[test]
fn other_files_are_named_as_what_they_are() {
    for (bytes, message) in [
        (
            &b"\x17\x08Dtracing6\0"[..],
            "a binary trace.dat; write its text by `trace-cmd report`",
        ),
        (
            b"\xfd7zXZ\0\0",
            "compressed by xz; gzip and plain text are read",
        ),
        (b"\x7fELF\x02", "an executable, no trace"),
    ] {
        let file = file_of(bytes);
        let error = TraceFile::open(file.path()).expect_err("no trace");
        assert_eq!(error.to_string(), message);
    }
    let dir = std::env::temp_dir();
    let error = TraceFile::open(&dir).expect_err("no trace");
    assert_eq!(error.to_string(), "cannot be read: is a directory");
}

/// A device that fails in the middle is an error, not a short trace.
#[test]
fn a_failing_device_is_fatal() {
    struct Failing(bool);
    impl Read for Failing {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            if std::mem::replace(&mut self.0, true) {
                return Err(io::Error::from_raw_os_error(5));
            }
            LINE.as_bytes().read(buffer)
        }
    }
    let text: Box<dyn BufRead + Send> = Box::new(BufReader::new(Failing(false)));
    let (events, result) = drain(&mut Events::new(text));
    assert_eq!(events.len(), 1);
    let error = result.expect_err("the device failed");
    assert_eq!(error.line, 2);
    assert!(error.message.starts_with("cannot be read: "), "{error}");
}
