//! The inverted index: for every word, the files it occurs in.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::path::PathBuf;

/// One file, read and counted by a reader thread, on its way into the index.
#[derive(Debug)]
pub struct Document {
    /// Where it was read.
    pub path: PathBuf,
    /// How often each of its words occurs.
    pub counts: HashMap<String, u32>,
}

/// That a word occurs in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Posting {
    /// Index into the files, in order of arrival.
    pub file: u32,
    /// How often it occurs there.
    pub count: u32,
}

/// Words and the files they occur in.
#[derive(Debug, Default)]
pub struct Index {
    files: Vec<PathBuf>,
    postings: HashMap<String, Vec<Posting>>,
}

// On an `impl` block the attribute tags each function inside.
#[codetag::alloc_tag]
impl Index {
    /// Takes a document in. Its path stays, and so do those of its words that are new; both were
    /// allocated by other threads. The words that are known already are freed here.
    ///
    /// # Panics
    /// Past 4,294,967,295 files.
    pub fn add(&mut self, document: Document) {
        let file = u32::try_from(self.files.len()).expect("files are numbered by 32 bits");
        self.files.push(document.path);
        for (word, count) in document.counts {
            self.postings
                .entry(word)
                .or_default()
                .push(Posting { file, count });
        }
    }

    /// The `n` most frequent words with their number, ties in the order of the alphabet.
    pub fn most_frequent(&self, n: usize) -> Vec<(&str, u64)> {
        let mut totals: Vec<(&str, u64)> = self
            .postings
            .iter()
            .map(|(word, postings)| {
                (
                    word.as_str(),
                    postings.iter().map(|p| u64::from(p.count)).sum(),
                )
            })
            .collect();
        totals.sort_unstable_by_key(|&(word, total)| (Reverse(total), word));
        totals.truncate(n);
        totals
    }

    /// How many files were taken in.
    pub fn files(&self) -> usize {
        self.files.len()
    }

    /// How many words they have, each as often as it occurs.
    pub fn words(&self) -> u64 {
        self.postings
            .values()
            .flatten()
            .map(|p| u64::from(p.count))
            .sum()
    }

    /// How many different words they have.
    pub fn distinct_words(&self) -> usize {
        self.postings.len()
    }

    /// The files in which `word` (in lower case) occurs, with its number in each.
    pub fn find(&self, word: &str) -> impl Iterator<Item = (&PathBuf, u32)> {
        let postings = self.postings.get(word).map_or(&[][..], Vec::as_slice);
        postings
            .iter()
            .map(|p| (&self.files[p.file as usize], p.count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::count_words;

    fn index(texts: &[&str]) -> Index {
        let mut index = Index::default();
        for (i, text) in texts.iter().enumerate() {
            index.add(Document {
                path: format!("{i}.txt").into(),
                counts: count_words(text),
            });
        }
        index
    }

    #[test]
    fn an_empty_index_answers_everything_with_nothing() {
        let index = Index::default();
        assert_eq!(
            (index.files(), index.words(), index.distinct_words()),
            (0, 0, 0)
        );
        assert_eq!(index.most_frequent(10), []);
        assert_eq!(index.find("a").count(), 0);
    }

    #[test]
    fn files_words_and_distinct_words_are_counted() {
        let index = index(&["a b a", "", "b c"]);
        assert_eq!(
            (index.files(), index.words(), index.distinct_words()),
            (3, 5, 3)
        );
    }

    #[test]
    fn a_word_is_found_in_each_of_its_files() {
        let index = index(&["a b a", "c", "a"]);
        let found: Vec<_> = index
            .find("a")
            .map(|(path, count)| (path.to_str().unwrap(), count))
            .collect();
        assert_eq!(found, [("0.txt", 2), ("2.txt", 1)]);
    }

    #[test]
    fn the_most_frequent_come_first_and_ties_by_alphabet() {
        let index = index(&["b a c", "c b", "d"]);
        assert_eq!(index.most_frequent(3), [("b", 2), ("c", 2), ("a", 1)]);
    }
}
