//! From a file to its words.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// Files over this size are left out: 64 MiB.
pub const SIZE_MAX_BYTES: u64 = 64 << 20;

/// A NUL among the first bytes, this many, marks a binary file; git looks at 8,000.
const SNIFF_BYTES: u64 = 8 << 10;

/// Why a file is not in the index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Skip {
    /// The system refused to open or read it.
    Unreadable,
    /// A NUL at its beginning, or not UTF-8.
    Binary,
    /// More than [`SIZE_MAX_BYTES`].
    TooLarge,
}

impl From<io::Error> for Skip {
    fn from(_: io::Error) -> Self {
        Self::Unreadable
    }
}

/// Reads a text file.
///
/// # Errors
/// The reason for which the file is to be skipped.
#[codetag::alloc_tag]
pub fn read(path: &Path) -> Result<String, Skip> {
    let file = File::open(path)?;
    let size_bytes = file.metadata()?.len();
    if size_bytes > SIZE_MAX_BYTES {
        return Err(Skip::TooLarge);
    }
    let mut bytes = Vec::with_capacity(size_bytes.min(SNIFF_BYTES) as usize);
    (&file).take(SNIFF_BYTES).read_to_end(&mut bytes)?;
    if bytes.contains(&0) {
        return Err(Skip::Binary);
    }
    // A file in /proc says 0 and another may grow while it is read: the size is a hint, the limit holds.
    bytes.reserve_exact((size_bytes as usize).saturating_sub(bytes.len()));
    (&file)
        .take(SIZE_MAX_BYTES + 1 - bytes.len() as u64)
        .read_to_end(&mut bytes)?;
    if bytes.len() as u64 > SIZE_MAX_BYTES {
        return Err(Skip::TooLarge);
    }
    String::from_utf8(bytes).map_err(|_| Skip::Binary)
}

/// The words of `text`, in lower case, with the number of times each occurs.
///
/// A word is a longest run of letters and digits in the sense of Unicode ([`char::is_alphanumeric`]).
#[codetag::alloc_tag]
pub fn count_words(text: &str) -> HashMap<String, u32> {
    let mut counts = HashMap::new();
    for word in text
        .split(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty())
    {
        *counts.entry(word.to_lowercase()).or_insert(0) += 1;
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::path::PathBuf;

    fn counts(text: &str) -> Vec<(String, u32)> {
        let mut counts: Vec<_> = count_words(text).into_iter().collect();
        counts.sort();
        counts
    }

    fn pairs(expected: &[(&str, u32)]) -> Vec<(String, u32)> {
        expected
            .iter()
            .map(|&(word, n)| (word.to_owned(), n))
            .collect()
    }

    #[test]
    fn words_are_counted_in_lower_case() {
        assert_eq!(
            counts("The cat. THE hat, the_cat"),
            pairs(&[("cat", 2), ("hat", 1), ("the", 3)])
        );
    }

    #[test]
    fn letters_and_digits_of_any_script_make_words() {
        assert_eq!(
            counts("Straße ΟΔΟΣ 東京2020—東京2020 Ελλάς"),
            pairs(&[("straße", 1), ("ελλάς", 1), ("οδος", 1), ("東京2020", 2)]),
        );
    }

    #[test]
    fn text_without_words_has_none() {
        assert_eq!(counts(""), []);
        assert_eq!(counts("\u{feff} --- \r\n\t…"), []);
    }

    /// A file of the test's own, removed when the test ends.
    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str, contents: &[u8]) -> Self {
            let path =
                std::env::temp_dir().join(format!("codetag-text-{}-{name}", std::process::id()));
            fs::write(&path, contents).expect("the temporary folder can be written");
            Self(path)
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = fs::remove_file(&self.0);
        }
    }

    #[test]
    fn a_text_longer_than_the_sniffed_part_is_read_whole() {
        let text = "wörd ".repeat(5_000);
        let file = Scratch::new("long", text.as_bytes());
        assert_eq!(read(&file.0).expect("it is text"), text);
    }

    #[test]
    fn a_nul_at_the_beginning_or_broken_utf8_is_binary() {
        let nul = Scratch::new("nul", b"\x7fELF\0\0");
        assert_eq!(read(&nul.0), Err(Skip::Binary));
        let broken = Scratch::new("broken", b"caf\xe9");
        assert_eq!(read(&broken.0), Err(Skip::Binary));
    }

    #[test]
    fn a_nul_past_the_sniffed_part_separates_words() {
        let mut bytes = vec![b'a'; SNIFF_BYTES as usize];
        bytes.extend(b"\0b");
        let file = Scratch::new("late-nul", &bytes);
        let text = read(&file.0).expect("the beginning has no NUL");
        assert_eq!(count_words(&text).len(), 2);
    }

    #[test]
    fn the_size_limit_is_the_last_size_that_is_read() {
        // Files without blocks: the size is what counts here.
        let file = Scratch::new("sparse", b"");
        let sparse = File::options()
            .write(true)
            .open(&file.0)
            .expect("it was just made");
        sparse
            .set_len(SIZE_MAX_BYTES + 1)
            .expect("a sparse file takes no room");
        assert_eq!(read(&file.0), Err(Skip::TooLarge));
        sparse
            .set_len(SIZE_MAX_BYTES)
            .expect("a sparse file takes no room");
        assert_eq!(
            read(&file.0),
            Err(Skip::Binary),
            "at the limit it is opened and seen to be NULs"
        );
    }

    #[test]
    fn a_missing_file_is_unreadable() {
        assert_eq!(
            read(Path::new("/nonexistent/codetag")),
            Err(Skip::Unreadable)
        );
    }
}
