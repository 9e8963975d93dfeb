//! A word index: which word stands in which file, and where. Words are as frequent as in a natural language: the
//! n-th most frequent is n times rarer than the first.

use super::{Larger, Outcome, Setup, at_peak, expect};
use crate::mix;
use crate::samples::Lane;
use fastrand::Rng;
use fnv::FnvHashMap;
use std::collections::BTreeMap;

const FULL_FILES: usize = 250;
const QUICK_FILES: usize = 50;
const WORDS_PER_FILE: usize = 1_000;
const VOCABULARY_LEN: usize = 20_000;

pub(super) struct Words {
    files: Vec<String>,
    due: Counts,
    found: Counts,
    lanes: [Lane; 1],
}

#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    files: u64,
    /// Occurrences.
    words: u64,
    distinct: u64,
    check: u64,
}

/// Where a word stands in one file.
struct Posting {
    file: u32,
    /// In words from the start, in rising order.
    positions: Vec<u32>,
}

type Index = BTreeMap<String, Vec<Posting>>;

impl Words {
    pub(super) fn new(setup: Setup) -> Result<Self, String> {
        let mut rng = Rng::with_seed(setup.seed);
        let vocabulary = vocabulary(&mut rng);
        let mut cumulated = Vec::with_capacity(vocabulary.len());
        let mut total = 0.0;
        for rank in 1..=vocabulary.len() {
            total += 1.0 / rank as f64;
            cumulated.push(total);
        }
        let mut used = vec![false; vocabulary.len()];
        let files: Vec<String> = (0..setup.scale.of(FULL_FILES, QUICK_FILES))
            .map(|_| file(&mut rng, &vocabulary, &cumulated, &mut used))
            .collect();
        let due = Counts {
            files: files.len() as u64,
            words: (files.len() * WORDS_PER_FILE) as u64,
            distinct: used.iter().filter(|used| **used).count() as u64,
            check: 0,
        };
        Ok(Self {
            lanes: [setup.lane(files.len())?],
            files,
            due,
            found: Counts::default(),
        })
    }
}

/// Different words of 2 to 14 letters.
fn vocabulary(rng: &mut Rng) -> Vec<String> {
    let mut seen = std::collections::BTreeSet::new();
    let mut words = Vec::with_capacity(VOCABULARY_LEN);
    while words.len() < VOCABULARY_LEN {
        let len = rng.usize(2..=14);
        let word: String = (0..len).map(|_| rng.lowercase()).collect();
        if seen.insert(word.clone()) {
            words.push(word);
        }
    }
    words
}

/// A text whose words are drawn by their frequency; one in eight begins with a capital.
fn file(rng: &mut Rng, vocabulary: &[String], cumulated: &[f64], used: &mut [bool]) -> String {
    let total = cumulated.last().copied().unwrap_or_default();
    let mut text = String::new();
    for _ in 0..WORDS_PER_FILE {
        let drawn = rng.f64() * total;
        let rank = cumulated
            .partition_point(|sum| *sum <= drawn)
            .min(vocabulary.len() - 1);
        used[rank] = true;
        let (first, rest) = vocabulary[rank].split_at(1);
        if rng.u8(..8) == 0 {
            text.push_str(&first.to_uppercase());
        } else {
            text.push_str(first);
        }
        text.push_str(rest);
        text.push_str(if rng.u8(..10) == 0 { ".\n" } else { " " });
    }
    text
}

impl Larger for Words {
    fn run(&mut self) {
        let [lane] = &mut self.lanes;
        let mut index = Index::new();
        for (file, text) in (0..).zip(&self.files) {
            let start = lane.start();
            let positions = find_words(text);
            merge(&mut index, file, positions);
            lane.stop(start, 1);
        }
        self.found = sum(&index);
        self.found.files = self.files.len() as u64;
        at_peak();
        drop_index(index);
    }

    fn outcome(&self) -> Result<Outcome, String> {
        expect("words", self.found.words, self.due.words)?;
        expect("distinct words", self.found.distinct, self.due.distinct)?;
        Ok(Outcome {
            ops: self.found.files,
            check: self.found.check,
        })
    }

    fn lanes(&self) -> &[Lane] {
        &self.lanes
    }
}

/// The words of a text in lower case, each with its positions.
#[cfg_attr(feature = "alloc-codetag", codetag::alloc_tag)]
fn find_words(text: &str) -> FnvHashMap<String, Vec<u32>> {
    let mut words = FnvHashMap::default();
    let tokens = text
        .split(|c: char| !c.is_alphanumeric())
        .filter(|token| !token.is_empty());
    for (position, token) in (0..).zip(tokens) {
        words
            .entry(lower(token))
            .or_insert_with(Vec::new)
            .push(position);
    }
    words
}

#[cfg_attr(feature = "alloc-codetag", codetag::alloc_tag)]
fn lower(token: &str) -> String {
    token.to_lowercase()
}

/// Adds a file's words to the index.
#[cfg_attr(feature = "alloc-codetag", codetag::alloc_tag)]
fn merge(index: &mut Index, file: u32, words: FnvHashMap<String, Vec<u32>>) {
    for (word, mut positions) in words {
        positions.shrink_to_fit();
        index
            .entry(word)
            .or_default()
            .push(Posting { file, positions });
    }
}

fn sum(index: &Index) -> Counts {
    let mut counts = Counts::default();
    let postings = index
        .values()
        .flat_map(|postings| postings.iter().enumerate());
    counts.distinct = index.len() as u64;
    for (at, posting) in postings {
        counts.words += posting.positions.len() as u64;
        let last = posting.positions.last().copied().unwrap_or_default();
        let word = (u64::from(posting.file) << 32 | u64::from(last)) + at as u64;
        counts.check = counts.check.wrapping_add(mix::spread(word));
    }
    counts
}

#[cfg_attr(feature = "alloc-codetag", codetag::alloc_tag)]
fn drop_index(index: Index) {
    drop(index);
}

#[cfg(test)]
mod tests {
    use super::{Index, find_words, merge, sum};

    #[test]
    fn words_are_found_with_their_places() {
        let mut index = Index::new();
        merge(&mut index, 0, find_words("A tag, a scope."));
        merge(&mut index, 1, find_words("scope"));
        let of = |word: &str| -> Vec<(u32, Vec<u32>)> {
            let postings = index.get(word).into_iter().flatten();
            postings.map(|p| (p.file, p.positions.clone())).collect()
        };
        assert_eq!(of("a"), [(0, vec![0, 2])]);
        assert_eq!(of("scope"), [(0, vec![3]), (1, vec![0])]);
        let counts = sum(&index);
        assert_eq!((counts.words, counts.distinct), (5, 3));
    }
}
