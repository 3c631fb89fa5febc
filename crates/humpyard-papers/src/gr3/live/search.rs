//! The work of the web servers' processes: they search a text for words, as the paper's search engine does. All
//! text is generated at random.

use humpyard_core::random::{Random, Seed};
use regex_automata::Input;
use regex_automata::dfa::{Automaton, dense};

use humpyard_lab::LabError;

/// Number of words in the vocabulary; the first are more frequent than the last.
const VOCABULARY: u64 = 2000;
/// Number of words to search for, spread over the vocabulary.
const SOUGHT: usize = 12;
/// Number of documents of the text. To search one is a unit of work: about 30 us.
const DOCUMENTS: usize = 64;
const DOCUMENT_BYTES: usize = 16 << 10;

/// A text, and the words to search for.
#[derive(Debug)]
pub(super) struct Text {
    documents: Vec<Vec<u8>>,
    sought: dense::DFA<Vec<u32>>,
    /// Number of matches in each document.
    hits: Vec<u64>,
}

impl Text {
    /// Returns a text, with the expected matches.
    ///
    /// # Errors
    /// If the search automaton cannot be built.
    pub(super) fn new(seed: Seed) -> Result<Self, LabError> {
        let mut random = seed.stream("gr3-live/text");
        let words: Vec<String> = (0..VOCABULARY).map(|_| word(&mut random)).collect();
        let documents: Vec<Vec<u8>> = (0..DOCUMENTS).map(|_| document(&words, &mut random)).collect();
        let sought: Vec<String> = words.iter().step_by(words.len() / SOUGHT).map(|word| format!(" {word} ")).collect();
        let sought = dense::Builder::new()
            .build_many(&sought)
            .map_err(|error| LabError::option(format!("the words to be searched for make no automaton: {error}")))?;
        let mut text = Self { documents, sought, hits: Vec::new() };
        text.hits = (0..DOCUMENTS).map(|document| text.search(document)).collect();
        Ok(text)
    }

    /// Searches a document. Returns the number of matches.
    fn search(&self, document: usize) -> u64 {
        let document = &self.documents[document];
        let (mut hits, mut from) = (0, 0);
        while let Ok(Some(found)) = self.sought.try_search_fwd(&Input::new(document).range(from..)) {
            hits += 1;
            from = found.offset();
        }
        hits
    }
}

/// Returns a word of random letters.
fn word(random: &mut Random) -> String {
    let letters = 3 + random.below(8);
    (0..letters).map(|_| char::from(b'a' + random.below(26) as u8)).collect()
}

/// Returns a document of random words.
fn document(words: &[String], random: &mut Random) -> Vec<u8> {
    let mut text = Vec::with_capacity(DOCUMENT_BYTES + 16);
    while text.len() < DOCUMENT_BYTES {
        let at = random.below(VOCABULARY).min(random.below(VOCABULARY));
        text.push(b' ');
        text.extend_from_slice(words[at as usize].as_bytes());
    }
    text.truncate(DOCUMENT_BYTES);
    text
}

/// A process that searches document after document.
#[derive(Clone, Debug)]
pub(super) struct Searcher<'a> {
    text: &'a Text,
    first: usize,
    searched: u64,
    hits: u64,
}

impl<'a> Searcher<'a> {
    /// Returns process `number`; processes begin at different documents.
    pub(super) fn new(text: &'a Text, number: usize) -> Self {
        Self { text, first: number % DOCUMENTS, searched: 0, hits: 0 }
    }

    /// Does a unit of work.
    pub(super) fn search(&mut self) {
        self.hits += self.text.search((self.first + self.searched as usize) % DOCUMENTS);
        self.searched += 1;
    }

    /// Returns the units of work done up to now.
    pub(super) fn searched(&self) -> u64 {
        self.searched
    }

    /// Returns whether it found all matches in the searched documents.
    pub(super) fn is_right(&self) -> bool {
        let rounds = self.searched / DOCUMENTS as u64;
        let rest = (self.searched % DOCUMENTS as u64) as usize;
        let last: u64 = (self.first..self.first + rest).map(|at| self.text.hits[at % DOCUMENTS]).sum();
        self.hits == rounds * self.text.hits.iter().sum::<u64>() + last
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The automaton finds exactly the existing matches.
    #[test]
    fn words_are_found_where_they_are() {
        let text = Text::new(Seed(1)).unwrap();
        let mut random = Seed(1).stream("gr3-live/text");
        let words: Vec<String> = (0..VOCABULARY).map(|_| word(&mut random)).collect();
        let sought: Vec<&String> = words.iter().step_by(words.len() / SOUGHT).collect();
        for (document, &hits) in text.documents.iter().zip(&text.hits) {
            let document = core::str::from_utf8(document).unwrap();
            // Consecutive matches share a space: after a match, the search continues behind that space.
            let (mut expected, mut behind) = (0, false);
            let inner: Vec<&str> = document.split(' ').collect();
            for word in &inner[1..inner.len() - 1] {
                behind = !behind && sought.iter().any(|sought| sought == word);
                expected += u64::from(behind);
            }
            assert_eq!(hits, expected);
        }
        assert!(text.hits.iter().sum::<u64>() > 500, "{:?}", text.hits);
    }

    #[test]
    fn a_search_that_misses_something_is_not_right() {
        let text = Text::new(Seed(1)).unwrap();
        let mut searcher = Searcher::new(&text, 60);
        for _ in 0..DOCUMENTS + 10 {
            assert!(searcher.is_right());
            searcher.search();
        }
        assert_eq!(searcher.searched(), DOCUMENTS as u64 + 10);
        searcher.hits -= 1;
        assert!(!searcher.is_right());
    }
}
