//! Checksums. Not of cryptographic strength: they tell wrong results from right ones.

use fnv::FnvHasher;
use std::hash::Hasher;

/// Of a sequence: each word and its place matter.
pub(crate) fn words(words: impl IntoIterator<Item = u64>) -> u64 {
    let mut hasher = FnvHasher::default();
    for word in words {
        hasher.write(&word.to_le_bytes());
    }
    hasher.finish()
}

/// Of bytes.
pub(crate) fn bytes(bytes: &[u8]) -> u64 {
    let mut hasher = FnvHasher::default();
    hasher.write(bytes);
    hasher.finish()
}

/// Spreads `word` over all bits. Sums of such words do not depend on the order and hardly ever agree by chance: the
/// checksum of what several threads found.
pub(crate) fn spread(word: u64) -> u64 {
    let word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}
