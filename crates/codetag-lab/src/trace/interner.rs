//! Interning that does not hash a string anew for every event.

use super::own;
use crate::event::{Name, Names};
use std::borrow::Cow;

const SLOTS: usize = 1024;

/// No more of a string is kept, so that made-up files take no more memory than real ones: the longest symbol of a
/// kernel (`KSYM_NAME_LEN`).
const STRING_BYTES_MAX: usize = 512;

/// Finds the number of a string that was seen lately by its length and its ends, which costs a tenth of a look
/// into [`Names`].
#[derive(Debug)]
pub(super) struct Interner {
    /// Strings as they stood in the file, with their numbers.
    recent: Vec<(Box<[u8]>, Name)>,
}

impl Interner {
    pub(super) fn new() -> Self {
        Self {
            recent: vec![(Box::default(), Name::OTHER); SLOTS],
        }
    }

    /// `encoded`: as the lab's own format writes names.
    pub(super) fn intern(&mut self, text: &[u8], encoded: bool, names: &mut Names) -> Name {
        let text = &text[..text.len().min(STRING_BYTES_MAX)];
        let slot = &mut self.recent[slot(text)];
        if *slot.0 == *text {
            return slot.1;
        }
        let decoded = if encoded {
            own::decoded(text)
        } else {
            Cow::Borrowed(text)
        };
        let name = names.intern(&String::from_utf8_lossy(&decoded));
        *slot = (text.into(), name);
        name
    }
}

/// Fibonacci hashing of the first and the last eight bytes.
fn slot(text: &[u8]) -> usize {
    let word = |bytes: &[u8]| {
        let mut word = [0; 8];
        word[..bytes.len()].copy_from_slice(bytes);
        u64::from_le_bytes(word)
    };
    let ends = word(&text[..text.len().min(8)])
        ^ word(&text[text.len().saturating_sub(8)..]).rotate_left(23)
        ^ text.len() as u64;
    (ends.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - SLOTS.ilog2())) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_are_those_of_the_table() {
        let (mut interner, mut names) = (Interner::new(), Names::new());
        for round in 0..2 {
            for at in 0..3000 {
                let text = format!("call_site_{at}+0x1/0x2");
                let name = interner.intern(text.as_bytes(), false, &mut names);
                assert_eq!(names.get(name), text, "round {round}");
            }
        }
        assert_eq!(names.len(), 3001);
        let long = interner.intern(&[b'x'; 5000], false, &mut names);
        assert_eq!(names.get(long).len(), STRING_BYTES_MAX);
        let name = interner.intern(b"a%20b", true, &mut names);
        assert_eq!(names.get(name), "a b");
        assert_eq!(interner.intern(b"", false, &mut names), Name::OTHER);
    }
}
