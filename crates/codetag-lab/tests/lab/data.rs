//! Files under `tests/data`.

use codetag_lab::survey::Survey;
use codetag_lab::trace::TraceFile;
use flate2::read::GzDecoder;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

pub(crate) fn directory(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/data")
        .join(name)
}

/// All files of a directory, sorted by name.
pub(crate) fn files(name: &str) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = fs::read_dir(directory(name))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    files
}

pub(crate) fn text(path: &Path) -> String {
    let mut bytes = Vec::new();
    GzDecoder::new(File::open(path).unwrap())
        .read_to_end(&mut bytes)
        .unwrap();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The lines between `@@BEGIN name` and `@@END`.
pub(crate) fn section<'t>(text: &'t str, name: &str) -> impl Iterator<Item = &'t str> {
    let begin = format!("@@BEGIN {name}");
    text.lines()
        .skip_while(move |line| line.trim() != begin)
        .skip(1)
        .take_while(|line| line.trim() != "@@END")
}

/// A recorded trace and the allocator's state at its end.
pub(crate) struct Recorded {
    pub(crate) name: String,
    pub(crate) trace: TraceFile,
    pub(crate) survey: Survey,
    pub(crate) end_state: String,
}

impl Recorded {
    pub(crate) fn named(name: &str) -> Self {
        let traces = directory("traces");
        let trace = TraceFile::open(&traces.join(format!("{name}.trace.txt.gz"))).unwrap();
        let survey = Survey::of(&mut trace.events().unwrap()).unwrap();
        Self {
            name: name.to_owned(),
            trace,
            survey,
            end_state: text(&traces.join(format!("{name}.end-state.txt.gz"))),
        }
    }

    /// All traces whose name starts with `allocator`.
    pub(crate) fn all_of(allocator: &str) -> Vec<Self> {
        let ending = ".trace.txt.gz";
        let names = files("traces").into_iter().filter_map(|path| {
            let name = path.file_name()?.to_str()?.strip_suffix(ending)?.to_owned();
            name.starts_with(allocator).then_some(name)
        });
        names.map(|name| Self::named(&name)).collect()
    }
}
