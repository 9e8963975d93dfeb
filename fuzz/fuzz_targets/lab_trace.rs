//! Any bytes through the lab's readers: no panic, and each line is counted once.

#![no_main]

use codetag_lab::event::{Kind, Source};
use codetag_lab::trace::{Events, Writer};
use libfuzzer_sys::fuzz_target;
use std::io::Cursor;

fuzz_target!(|bytes: &[u8]| {
    let mut reader = Events::new(Box::new(Cursor::new(bytes.to_vec())));
    let mut writer = Writer::new(Vec::new()).expect("memory can be written");
    let mut events = 0;
    let result = loop {
        match reader.next_event() {
            Ok(Some(event)) => {
                events += 1;
                writer
                    .write(&event, reader.names())
                    .expect("memory can be written");
            }
            Ok(None) => break Ok(()),
            Err(error) => break Err(error),
        }
    };
    let counts = reader.counts();
    assert_eq!(counts.events, events);
    if let Err(error) = result {
        assert!(!error.message.contains('\n'), "{error}");
        return;
    }
    let lines = bytes.iter().filter(|&&byte| byte == b'\n').count() as u64;
    let counted = counts.events + counts.null_frees + counts.skipped_lines + counts.malformed_lines;
    assert!(
        counted == lines || (counted == lines + 1 && !bytes.ends_with(b"\n")),
        "{lines} lines, {counts:?}"
    );

    // What was read and written is read again, whole and in the same shape.
    let text = writer.finish().expect("memory can be written");
    let mut again = Events::new(Box::new(Cursor::new(text)));
    let mut read_again = 0;
    while let Some(event) = again.next_event().expect("the format of this project") {
        read_again += 1;
        if let Kind::Alloc(alloc) = event.kind {
            assert_ne!(alloc.ptr, 0);
        }
    }
    assert_eq!(read_again, events);
    assert_eq!(again.counts().malformed_lines, 0, "{:?}", again.malformed());
    assert!(!again.counts().truncated, "{:?}", again.truncated());
});
