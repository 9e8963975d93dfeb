//! What holds of every profile that could be read.

use codetag_export::{Diff, Measure, Profile, ReadError};
use codetag_export::{allocinfo, csv, folded, json, pprof, svg};
use std::io::{self, Write};

/// Looks at what became of an input.
pub(crate) fn check(result: Result<Profile, ReadError>) {
    let profile = match result {
        Ok(profile) => profile,
        Err(error) => {
            let message = error.message();
            assert!(
                !message.is_empty() && message.chars().count() < 300,
                "{error}"
            );
            return;
        }
    };
    let json = written(|out| json::write(&profile, out));
    let allocinfo = written(|out| allocinfo::write(&profile, out));
    for bytes in [json, allocinfo] {
        let bytes = bytes.expect("what was read can be written");
        let again = codetag_export::read(&*bytes).expect("what was written can be read");
        assert_eq!(again, profile);
    }
    written(|out| csv::write(&profile, out)).expect("memory can be written");
    let diff = Diff::new(&profile, &profile);
    assert!(diff.changes.iter().all(|change| change.delta().is_zero()));
    for measure in [Measure::Bytes, Measure::Slot, Measure::Objects] {
        let text = written(|out| folded::write(&profile, measure, out).map(drop));
        if let Ok(text) = text {
            let text = String::from_utf8(text).expect("folded stacks are text");
            assert!(text.lines().all(|line| {
                line.rsplit_once(' ')
                    .is_some_and(|(_, n)| n.parse::<u64>().is_ok())
            }));
        }
        // Figures may be too large or nothing; more must not happen.
        let _ = written(|out| svg::write(&profile, "", measure, out).map(drop));
        let _ = written(|out| svg::write_diff(&diff, "", measure, out).map(drop));
        let _ = written(|out| pprof::write(&profile, measure, out));
    }
}

fn written(write: impl FnOnce(&mut Vec<u8>) -> io::Result<()>) -> io::Result<Vec<u8>> {
    let mut out = Vec::new();
    write(&mut out)?;
    out.flush()?;
    Ok(out)
}
